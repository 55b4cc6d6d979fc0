//! Logs that are damaged, removed under the recorder, or full of links of other users.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{command, diskwright, folder, json, stderr, text, wait_until};

use diskwright_base::{Note, Schema, Series, Tick};
use diskwright_datastore::{LogReader, LogWriter, WriterOptions};
use serde_json::Value;

const TICK_COUNT: u64 = 400;

/// Writes a log of four segments with a hundred ticks each; returns its path.
fn write_log(folder: &Path) -> PathBuf {
    let log = folder.join("log");
    let one = |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![one("memory.available_fraction", ""), one("physical_disk.reads", "sda")]));
    for run in 0..4u64 {
        let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log");
        for i in run * 100..run * 100 + 100 {
            let tick = Tick { time_ns: (1_600_000_000 + i as i64) * 1_000_000_000, elapsed_ns: 1_000_000_000 };
            writer.push(&schema, tick, &[0.5 + (i % 7) as f64 * 0.01, (i % 5) as f64]).expect("writable");
        }
        writer.close().expect("writable");
    }
    log
}

/// Commands that read logs, each with --json.
fn reading_commands(log: &Path, folder: &Path) -> Vec<Vec<String>> {
    let log = text(log);
    let page = folder.join("page.html");
    let rows = folder.join("rows.csv");
    let time = "2020-09-13T12:30:00Z";
    [
        vec!["why", log, "--json"],
        vec!["show", log, "--json"],
        vec!["report", log, "-o", text(&page), "--json"],
        vec!["compare", log, "--at", time, "--json"],
        vec!["export", log, "--as", "csv", "-o", text(&rows), "--raw", "--allow-damage", "--json"],
    ]
    .map(|arguments| arguments.into_iter().map(str::to_owned).collect())
    .into()
}

/// Damages a log.
type DamageFn = fn(&Path);

#[test]
fn every_reader_reports_lost_ticks() {
    let folder = folder("damage-readers");
    let cases: [(&str, DamageFn); 4] = [
        ("a segment without a readable time", |log| {
            let file = log.join("00000002.dwlog");
            let bytes = fs::read(&file).expect("written");
            fs::write(&file, &bytes[..60]).expect("writable");
        }),
        ("a segment that is gone", |log| fs::remove_file(log.join("00000003.dwlog")).expect("written")),
        ("the end cut off", |log| {
            let file = log.join("00000004.dwlog");
            fs::write(&file, &fs::read(&file).expect("written")[..70]).expect("writable");
        }),
        ("a link for a segment", |log| {
            fs::rename(log.join("00000001.dwlog"), log.join("elsewhere")).expect("written");
            symlink("elsewhere", log.join("00000001.dwlog")).expect("a link");
        }),
    ];
    for arguments in reading_commands(&write_log(&folder), &folder) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = diskwright(&arguments);
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", stderr(&done));
        assert_eq!(json(&done)["damage"], Value::Array(vec![]), "{arguments:?}");
    }
    for (name, harm) in cases {
        let _ = fs::remove_dir_all(folder.join("log"));
        let log = write_log(&folder);
        harm(&log);
        for arguments in reading_commands(&log, &folder) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let done = diskwright(&arguments);
            assert_eq!(done.status.code(), Some(0), "{name}: {arguments:?}: {}", stderr(&done));
            let answer = json(&done);
            let damage = answer["damage"].as_array().expect("a list");
            let lost: u64 = damage.iter().map(|entry| entry["ticks_lost"].as_u64().expect("a number")).sum();
            // the second window of a comparison begins after the first tick of the change
            assert!(lost == 100 || arguments[0] == "compare" && lost >= 100, "{name}: {arguments:?}: {damage:?}");
            assert!(damage.iter().all(|entry| entry["where"].is_string() && entry["because"].is_string()));
            assert!(stderr(&done).contains("100 ticks lost"), "{name}: {arguments:?}: {}", stderr(&done));
            if arguments[0] == "export" {
                assert_eq!(answer["rows"], TICK_COUNT - 100, "{name}");
            }
        }
        let rows = diskwright(&["export", text(&log), "--as", "csv", "--raw"]);
        assert_eq!(rows.status.code(), Some(1), "{name}: {}", stderr(&rows));
        assert_eq!(rows.stdout.iter().filter(|byte| **byte == b'\n').count() as u64, TICK_COUNT - 100 + 1, "{name}");
        assert!(stderr(&rows).contains("100 ticks are lost"), "{name}: {}", stderr(&rows));
        let shown = diskwright(&["show", text(&log), "--as", "csv"]);
        assert_eq!(shown.status.code(), Some(1), "{name}: {}", stderr(&shown));
        assert_eq!(diskwright(&["show", text(&log)]).status.code(), Some(0), "{name}");
    }
}

#[test]
fn summarizes_many_damages_in_few_lines() {
    let folder = folder("damage-many");
    let log = write_log(&folder);
    let mut writer = LogWriter::create_or_append(&log, WriterOptions { block_ticks: 1, ..WriterOptions::default() });
    let counter = "memory.available_fraction".into();
    let schema = Arc::new(Schema::new(vec![Series { counter, instance: String::new(), scale: 1.0 }]));
    for i in 400..500 {
        let tick = Tick { time_ns: (1_600_000_000 + i) * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        writer.as_mut().expect("a log").push(&schema, tick, &[i as f64]).expect("writable");
    }
    drop(writer);
    let file = log.join("00000005.dwlog");
    let mut bytes = fs::read(&file).expect("written");
    let mut position = 0;
    let mut blocks = 0;
    while position < bytes.len() {
        let length =
            16 + u32::from_le_bytes([bytes[position + 5], bytes[position + 6], bytes[position + 7], 0]) as usize;
        if bytes[position + 4] == 3 {
            blocks += 1;
            if blocks % 2 == 0 {
                bytes[position + 20] ^= 1;
            }
        }
        position += length;
    }
    fs::write(&file, bytes).expect("writable");
    let done = diskwright(&["show", text(&log), "--json"]);
    assert_eq!(json(&done)["damage"].as_array().map(Vec::len), Some(50));
    assert!(stderr(&done).lines().count() <= 22, "{}", stderr(&done));
    assert!(
        stderr(&done).contains("30 more places") && stderr(&done).contains("50 ticks are lost"),
        "{}",
        stderr(&done)
    );
}

/// A recorder that is killed when the test ends.
struct Recorder(Child);

impl Recorder {
    fn start(log: &Path, more: &[&str]) -> Recorder {
        let mut command = command(&["record", text(log), "--every", "20ms", "--json"]);
        let recorder = command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let recorder = Recorder(recorder.expect("the program runs"));
        wait_until("a tick", || count_ticks(log) > 2);
        recorder
    }

    fn send_signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name}");
    }

    /// Interrupts the recorder and waits for its exit.
    fn interrupt_and_wait(mut self) -> Output {
        self.send_signal("-INT");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let pipes = (self.0.stdout.take(), self.0.stderr.take());
        std::io::Read::read_to_end(&mut pipes.0.expect("piped"), &mut out).expect("readable");
        std::io::Read::read_to_end(&mut pipes.1.expect("piped"), &mut err).expect("readable");
        Output { status: self.0.wait().expect("ends"), stdout: out, stderr: err }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number of ticks of a log, its notes, and the length of the longest tick that has any value, ns.
fn read_ticks_and_notes(log: &Path) -> (u64, Vec<Note>, u64) {
    let (mut count, mut notes, mut longest) = (0, Vec::new(), 0);
    let Ok(mut reader) = LogReader::open(log) else { return (0, notes, 0) };
    let mut frame = diskwright_base::Frame::default();
    while let Ok(Some(item)) = reader.next(&mut frame) {
        match item {
            diskwright_datastore::LogItem::Frame => {
                for (index, tick) in frame.ticks().iter().enumerate() {
                    let columns = 0..frame.schema().series.len();
                    let has_value = columns.clone().any(|column| !frame.column(column)[index].is_nan());
                    longest = longest.max(if has_value { tick.elapsed_ns } else { 0 });
                    count += 1;
                }
            }
            diskwright_datastore::LogItem::Note(note) => notes.push(note),
            diskwright_datastore::LogItem::Damage(_) => {}
        }
    }
    (count, notes, longest)
}

fn count_ticks(log: &Path) -> u64 {
    read_ticks_and_notes(log).0
}

#[test]
fn a_stopped_recorder_leaves_a_noted_gap_and_no_long_tick() {
    let log = folder("damage-stopped").join("log");
    let recorder = Recorder::start(&log, &[]);
    recorder.send_signal("-STOP");
    std::thread::park_timeout(Duration::from_secs(3));
    let before = count_ticks(&log);
    recorder.send_signal("-CONT");
    wait_until("ticks behind the gap", || count_ticks(&log) > before + 3);
    assert_eq!(recorder.interrupt_and_wait().status.code(), Some(0));
    let (_, notes, longest) = read_ticks_and_notes(&log);
    let gaps: Vec<&Note> = notes.iter().filter(|note| note.kind == Note::GAP).collect();
    assert!(gaps.iter().any(|gap| gap.text().contains("this process was stopped")), "{gaps:?}");
    assert!(longest < 2_900_000_000, "a tick of {longest} ns has values");
    let verdict = json(&diskwright(&["why", text(&log), "--json"]));
    let notes = verdict["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|note| note["kind"] == "gap"), "{notes:?}");
}

#[test]
fn recorder_reports_and_recreates_a_removed_folder() {
    let log = folder("damage-removed").join("log");
    let recorder = Recorder::start(&log, &[]);
    fs::remove_dir_all(&log).expect("was there");
    wait_until("ticks in the new folder", || count_ticks(&log) > 3);
    let done = recorder.interrupt_and_wait();
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains("was removed or moved"), "{}", stderr(&done));
    let (_, notes, _) = read_ticks_and_notes(&log);
    assert!(notes.iter().any(|note| note.kind == Note::GAP && note.text().contains("removed or moved")), "{notes:?}");
    assert!(notes.iter().any(|note| note.kind == Note::TOPOLOGY), "the new log describes the machine");
}

#[test]
fn reports_segments_removed_by_keep() {
    let log = folder("damage-keep").join("log");
    let recorder = Recorder::start(&log, &["--keep", "1s"]);
    wait_until("a segment that is too old", || !log.join("00000001.dwlog").exists());
    let done = recorder.interrupt_and_wait();
    let answer = json(&done);
    let trimmed = &answer["trimmed"];
    assert!(trimmed["segments"].as_u64() >= Some(1) && trimmed["ticks"].as_u64() >= Some(1), "{answer}");
    assert!(stderr(&done).contains("were removed by --keep"), "{}", stderr(&done));
    for command in ["show", "why"] {
        let document = json(&diskwright(&[command, text(&log), "--json"]));
        assert_eq!(document["trimmed"], *trimmed, "{command}");
        assert_eq!(document["damage"], Value::Array(vec![]), "{command}");
    }
}

#[test]
fn root_writes_neither_in_folders_nor_through_links_of_others() {
    let folder = folder("damage-others");
    let log = write_log(&folder);
    let precious = folder.join("precious");
    fs::write(&precious, "precious").expect("writable");
    for name in ["lock", "marks.dwlog", "tail", "ledger"] {
        let _ = fs::remove_file(log.join(name));
        symlink(&precious, log.join(name)).expect("a link");
    }
    let attempts = [vec!["record", text(&log), "--for", "1s"], vec!["mark", text(&log), "here"]];
    let refused = |why: &str| {
        for arguments in &attempts {
            let done = diskwright(arguments);
            assert_eq!(done.status.code(), Some(1), "{arguments:?}: {}", stderr(&done));
            assert!(stderr(&done).contains(why), "{arguments:?}: {}", stderr(&done));
            assert_eq!(fs::read(&precious).expect("there"), b"precious");
        }
    };
    refused("a link");
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root meets folders of others");
        return;
    }
    chown(&log, Some(65_534), Some(65_534)).expect("root");
    refused("another user (uid 65534)");
    let page = folder.join("rows.csv");
    let written = ["export", text(&log), "--as", "csv", "-o", text(&page), "--raw", "--json", "--allow-damage"];
    let done = diskwright(&written);
    assert_eq!((done.status.code(), &json(&done)["rows"]), (Some(0), &Value::from(TICK_COUNT)), "{}", stderr(&done));
}
