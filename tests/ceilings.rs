//! Device profiles: `probe` saves them, `list` shows them, `record` writes their ceilings into logs, `why` and
//! `report` judge by them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::{folder, json, text};

use diskwright_base::{Device, DeviceClass, Frame, Note, Schema, Series, Tick, Topology, ceiling};
use diskwright_counters::live::{Roots, sources::topology};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use diskwright_probe::profile::{Profile, ProfileFigure, SCHEMA, save_profile};
use serde_json::Value;

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-03-01T00:00:00Z.
const START_NS: i64 = 1_772_323_200 * SECOND_NS;

fn run_with_state(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("DISKWRIGHT_STATE", state).output().expect("the program runs")
}

/// Topology of a made-up machine with one disk, called `sdb` when the log was made.
fn one_disk_topology() -> Topology {
    let (model, serial) = (Some("M".into()), Some("X7".into()));
    let disk = Device { name: "sdb".into(), class: DeviceClass::Flash, model, serial, ..Device::default() };
    Topology { host: "made-up".into(), processors: 2, devices: vec![disk], ..Topology::default() }
}

/// Writes a log of a minute in which the disk serves 1,900 reads/s of 0.5 ms each; returns its path.
fn write_log_near_ceiling(folder: &Path, notes: &[Note]) -> PathBuf {
    let path = folder.join("log");
    let mut writer = LogWriter::create_or_append(&path, WriterOptions::default()).expect("a log");
    let topology = serde_json::to_string(&one_disk_topology()).expect("JSON");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("a note");
    for note in notes {
        writer.add_note(note).expect("a note");
    }
    let values: &[(&str, &str, f64)] = &[
        ("physical_disk.reads", "sdb", 1900.0),
        ("physical_disk.writes", "sdb", 0.0),
        ("physical_disk.read_bytes", "sdb", 1900.0 * 4096.0),
        ("physical_disk.write_bytes", "sdb", 0.0),
        ("physical_disk.read_time_s", "sdb", 0.95),
        ("physical_disk.write_time_s", "sdb", 0.0),
        ("physical_disk.weighted_time_s", "sdb", 0.95),
        ("physical_disk.busy_time_s", "sdb", 0.9),
        ("pressure.io_some_s", "", 0.2),
    ];
    let series = |(counter, instance, _): &(&str, &str, f64)| Series {
        counter: (*counter).into(),
        instance: (*instance).into(),
        scale: 1.0,
    };
    let schema = Arc::new(Schema::new(values.iter().map(series).collect()));
    let row: Vec<f64> = values.iter().map(|(_, _, value)| *value).collect();
    for second in 1..=60 {
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS as u64 };
        writer.push(&schema, tick, &row).expect("a tick");
    }
    writer.close().expect("closed");
    path
}

/// Profile of a device called `sda`, with a ceiling of 2,000 reads/s.
fn profile_with_key(key: &str) -> Profile {
    let figure = |figure: &str, value: f64, unit: &str| ProfileFigure {
        figure: figure.into(),
        value,
        unit: unit.into(),
        measured: "2026-02-01T00:00:00.000Z".into(),
        ..ProfileFigure::default()
    };
    let figures = vec![
        figure("reads_per_s", 2000.0, "per_s"),
        figure("read_bytes_per_s", 200e6, "bytes_per_s"),
        figure("read_s", 0.0004, "s"),
    ];
    Profile { schema: SCHEMA.into(), key: key.into(), device: "sda".into(), figures, ..Profile::default() }
}

fn store_profile(state: &Path, profile: Profile) {
    save_profile(&state.join("profiles"), profile, false).expect("kept");
}

/// Bottleneck of a verdict and the rule of its first finding.
fn bottleneck_and_rule(verdict: &Value) -> (&str, &str) {
    (verdict["bottleneck"].as_str().unwrap_or_default(), verdict["findings"][0]["rule"].as_str().unwrap_or_default())
}

#[test]
fn why_finds_the_profile_of_a_renamed_disk() {
    let folder = folder("ceilings-why");
    let (log, state) = (write_log_near_ceiling(&folder, &[]), folder.join("state"));
    let without = json(&run_with_state(&state, &["why", text(&log), "--json"]));
    assert_ne!(bottleneck_and_rule(&without).0, "disk");
    assert_eq!(without["ceilings"], Value::Array(Vec::new()));
    store_profile(&state, profile_with_key("serial:M:X7"));
    store_profile(&state, profile_with_key("serial:M:X8"));
    let verdict = json(&run_with_state(&state, &["why", text(&log), "--json"]));
    assert_eq!(bottleneck_and_rule(&verdict), ("disk", "disk.at-ceiling"));
    let ceiling = &verdict["ceilings"][0];
    assert_eq!((&ceiling["device"], &ceiling["key"]), (&"sdb".into(), &"serial:M:X7".into()));
    assert_eq!(ceiling["reads_per_s"], 2000.0);
    let limit = "1,900 of at most 2,000 reads/s, measured by probe on 2026-02-01";
    assert_eq!(verdict["findings"][0]["limit_from"], limit);
    let screen = run_with_state(&state, &["why", text(&log)]);
    let screen = String::from_utf8_lossy(&screen.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains(limit), "{screen}");
    let page = folder.join("page.html");
    assert!(run_with_state(&state, &["report", text(&log), "-o", text(&page)]).status.success());
    assert!(fs::read_to_string(page).expect("a page").contains(limit));
}

#[test]
fn why_uses_the_ceilings_stored_in_a_log() {
    let folder = folder("ceilings-brought");
    let ceilings = serde_json::to_string(&[profile_with_key("serial:M:X7").ceiling()]).expect("JSON");
    let log = write_log_near_ceiling(&folder, &[Note::new(START_NS, Note::CEILINGS, ceilings)]);
    let verdict = json(&run_with_state(&folder.join("nothing"), &["why", text(&log), "--json"]));
    assert_eq!(bottleneck_and_rule(&verdict), ("disk", "disk.at-ceiling"));
    assert!(verdict["notes"].as_array().is_some_and(Vec::is_empty), "{:#}", verdict["notes"]);
}

#[test]
fn record_stores_the_ceilings_of_its_host() {
    let here = topology::read_topology(&Roots::default());
    let keys = ceiling::device_keys(&here);
    let Some((device, key)) = keys.iter().next() else {
        eprintln!("skipped: no block device can be seen here");
        return;
    };
    let folder = folder("ceilings-recorded");
    let (log, state) = (folder.join("log"), folder.join("state"));
    store_profile(&state, profile_with_key(key));
    store_profile(&state, profile_with_key("serial:of:another"));
    let done = run_with_state(&state, &["record", text(&log), "--every", "200ms", "--for", "600ms"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut reader = LogReader::open(&log).expect("a log");
    let (mut frame, mut found) = (Frame::default(), Vec::new());
    while let Some(item) = reader.next(&mut frame).expect("readable") {
        if let LogItem::Note(note) = item
            && note.kind == Note::CEILINGS
        {
            found.extend(note.read_ceilings().expect("ceilings").iter().cloned());
        }
    }
    assert!(!found.is_empty() && found.iter().all(|c| c.key == *key), "{device}: {found:?}");
}

#[test]
fn lists_profiles_and_names_damaged_ones() {
    let folder = folder("ceilings-listed");
    let state = folder.join("state");
    store_profile(&state, profile_with_key("serial:M:X7"));
    let broken = state.join("profiles/broken.json");
    fs::write(&broken, "{ no profile").expect("written");
    let done = run_with_state(&state, &["list", "ceilings", "--json"]);
    let listed = json(&done);
    assert_eq!((&listed["schema"], &listed["list"]), (&"diskwright.list/1".into(), &"ceilings".into()));
    let entries = listed["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 1);
    assert_eq!((&entries[0]["key"], &entries[0]["figures"][0]["value"]), (&"serial:M:X7".into(), &2000.0.into()));
    assert!(entries[0]["file"].as_str().is_some_and(|f| Path::new(f).is_file()));
    let log = write_log_near_ceiling(&folder, &[]);
    for done in [done, run_with_state(&state, &["why", text(&log), "--json"])] {
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && stderr.contains(text(&broken)) && stderr.contains("is ignored"), "{stderr}");
    }
    let table = run_with_state(&state, &["list", "ceilings"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("serial:M:X7"));
}

#[test]
fn handles_profiles_in_a_folder_with_a_non_utf8_name() {
    let state = folder("ceilings-no-text").join(OsStr::from_bytes(b"state\xff"));
    store_profile(&state, profile_with_key("serial:M:X7"));
    let list: &[&str] = &["list", "ceilings"];
    for words in [list, &["list", "ceilings", "--json"], &["ceilings", "forget", "serial:M:X7", "--json"]] {
        let done = run_with_state(&state, words);
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn probe_reports_saved_profiles_and_replaces_them_on_request() {
    let folder = folder("ceilings-kept");
    let state = folder.join("state");
    let file = folder.join("probe.dat");
    let lasting = |lasts: &str, more: &[&str]| {
        let usual = ["probe", "quick", text(&file), "--for", lasts, "--ramp", "0", "--size", "16MB", "--json"];
        json(&run_with_state(&state, &[&usual[..], more].concat()))
    };
    // each suite is sixteen runs; where no profile is saved their figures do not matter, so they are short
    let probe = |more: &[&str]| lasting("100ms", more);
    for option in ["--no-save", "--forget"] {
        assert_eq!(lasting("20ms", &[option])["profile"]["file"], Value::Null, "{option}");
    }
    assert!(!state.exists(), "nothing is kept");
    let cached = lasting("20ms", &["--buffered"]);
    assert!(cached["profile"]["because"][0].as_str().is_some_and(|b| b.contains("page cache")), "{cached:#}");
    let other = ["probe", "minread", text(&file), "--for", "200ms", "--ramp", "0", "--size", "16MB", "--json"];
    let unasked = json(&run_with_state(&state, &other));
    assert!(unasked["profile"]["because"][0].as_str().is_some_and(|b| b.contains("--save")), "{unasked:#}");
    let text_of_job = "[a]\nrw=randread\ndirect=1\nbs=4k\niodepth=32\nruntime=1\ntime_based\nsize=16m\n";
    fs::write(folder.join("job.fio"), text_of_job).expect("written");
    let job = folder.join("job.fio");
    let script = ["probe", text(&job), text(&folder), "--for", "200ms", "--json"];
    let unasked = json(&run_with_state(&state, &script));
    assert!(unasked["profile"]["because"][0].as_str().is_some_and(|b| b.contains("--save")), "{unasked:#}");
    assert!(!state.exists(), "nothing is kept");
    let kept = probe(&[]);
    if kept["device"]["key"] == "" {
        eprintln!("skipped: the build folder lies in memory");
        return;
    }
    let path = kept["profile"]["file"].as_str().expect("a file");
    let stored = || -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("JSON") };
    assert!(stored()["figures"][0]["at_least"][0].as_str().is_some_and(|w| w.contains("through a file")));
    // a rate above that of any disk, measured as reliably as the next one: lower figures must not replace it unasked
    let mut huge: Profile = serde_json::from_value(stored()).expect("a profile");
    huge.figures.iter_mut().filter(|f| f.unit == "per_s").for_each(|f| f.value = 1e12);
    fs::write(path, serde_json::to_string(&huge).unwrap()).unwrap();
    let less = probe(&[]);
    let because: Vec<&str> = less["profile"]["because"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(because.iter().any(|reason| reason.contains(" is kept")), "{because:?}");
    // each reason stands once, however many figures it applies to
    for once in ["--replace-profile", "through a file"] {
        assert_eq!(because.iter().filter(|reason| reason.contains(once)).count(), 1, "{once}: {because:?}");
    }
    assert_eq!(stored()["figures"][0]["value"], 1e12);
    // `--anew` is the older name of the option
    for option in ["--replace-profile", "--anew"] {
        fs::write(path, serde_json::to_string(&huge).unwrap()).unwrap();
        let replaced = probe(&[option]);
        let because = replaced["profile"]["because"][0].as_str().expect("what was replaced");
        assert!(because.contains("replaced by lower figures"), "{because}");
        assert!(stored()["figures"][0]["value"].as_f64().is_some_and(|v| v < 1e12));
    }
}

#[test]
fn forgets_a_profile_by_key_or_device() {
    let folder = folder("ceilings-forgotten");
    let state = folder.join("state");
    for (key, device) in [("serial:M:X7", "sdyy"), ("serial:M:X8", "sdzz"), ("serial:M:X9", "sdzz")] {
        store_profile(&state, Profile { device: device.into(), ..profile_with_key(key) });
    }
    let listed = || json(&run_with_state(&state, &["list", "ceilings", "--json"]))["entries"].as_array().unwrap().len();
    let fails = |typed: &str, words: &[&str]| {
        let done = run_with_state(&state, &["ceilings", "forget", typed]);
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        words.iter().for_each(|word| assert!(stderr.contains(word), "{typed} does not say `{word}`: {stderr}"));
        assert_eq!(listed(), 3, "nothing is removed");
    };
    fails("sdyx", &["no saved profile of `sdyx`", "did you mean `sdyy`?", "list ceilings"]);
    fails("serial:M:X", &["did you mean `serial:M:X"]);
    fails("sdzz", &["2 devices were called `sdzz`", "serial:M:X8, serial:M:X9"]);
    assert_eq!(run_with_state(&state, &["ceilings", "forget"]).status.code(), Some(2));
    assert_eq!(run_with_state(&state, &["ceilings"]).status.code(), Some(2));
    let done = json(&run_with_state(&state, &["ceilings", "forget", "/dev/sdyy", "--json"]));
    assert_eq!(done["schema"], "diskwright.ceilings-forget/1");
    assert_eq!((&done["forgotten"][0]["key"], listed()), (&"serial:M:X7".into(), 2));
    let done = run_with_state(&state, &["ceilings", "forget", "serial:M:X8"]);
    assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains("Deleted the profile of sdzz"));
    assert_eq!(listed(), 1);
    // only one device of that name is left
    assert!(run_with_state(&state, &["ceilings", "forget", "sdzz"]).status.success());
    assert_eq!(listed(), 0);
}
