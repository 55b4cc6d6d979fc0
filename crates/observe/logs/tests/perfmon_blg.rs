//! Binary logs of Performance Monitor written by the encoder of these tests, complete and broken.

use crate::blg_encoder;
use crate::sweep::sweep;

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::blg_encoder::{Log, SECOND, START, of_lists, of_objects};
use diskwright_base::Note;
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece, ReadSummary};

#[derive(Debug, Default)]
struct ReadOutcome {
    times_ns: Vec<i64>,
    series: HashMap<(String, String), Vec<f64>>,
    notes: Vec<Note>,
    summary: Option<ReadSummary>,
}

impl ReadOutcome {
    fn values(&self, counter: &str, instance: &str) -> &[f64] {
        self.series.get(&(counter.into(), instance.into())).map_or(&[], Vec::as_slice)
    }

    fn skip_reasons(&self) -> Vec<&str> {
        self.summary.iter().flat_map(|s| &s.skipped).map(|s| s.reason.as_str()).collect()
    }
}

fn read_with(file: Vec<u8>, options: &LogOptions) -> Result<ReadOutcome, LogError> {
    let mut got = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) => got.notes.push(note),
            LogPiece::Frame(frame) => {
                let before = got.times_ns.len();
                got.times_ns.extend(frame.ticks().iter().map(|t| t.time_ns));
                for (column, series) in frame.schema().series.iter().enumerate() {
                    let all = got.series.entry((series.counter.clone(), series.instance.clone())).or_default();
                    all.resize(before, f64::NAN);
                    all.extend(frame.column(column).iter().map(|v| v * series.scale));
                }
                let now = got.times_ns.len();
                got.series.values_mut().for_each(|all| all.resize(now, f64::NAN));
            }
        }
        ControlFlow::Continue(())
    };
    let summary = diskwright_logs::read(&mut LogInput::from_bytes("x.blg", file)?, options, &mut sink)?;
    got.summary = Some(summary);
    Ok(got)
}

fn read_plain(file: Vec<u8>) -> ReadOutcome {
    read_with(file, &LogOptions::default()).expect("whole")
}

/// Asserts that values are equal, gaps included.
fn assert_same(found: &[f64], wanted: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs();
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(near), "{found:?} is not {wanted:?}");
}

const NAN: f64 = f64::NAN;
/// [`START`] in nanoseconds since 1970.
const START_NS: i64 = (START as i64 - 116_444_736_000_000_000) * 100;

#[test]
fn reads_raw_counters_of_a_list() {
    let got = read_plain(of_lists(5));
    let wanted: Vec<i64> = (0..5).map(|n| START_NS + n * 1_000_000_000).collect();
    assert_eq!(got.times_ns, wanted, "UTC, though the file's own stamps are local time");
    assert_same(got.values("physical_disk.reads_per_s", "0 C:"), &[NAN, 50.0, 50.0, 50.0, 50.0]);
    assert_same(got.values("physical_disk.avg_queue_length", "0 C:"), &[NAN, 1.5, 1.5, 1.5, 1.5]);
    assert_same(got.values("processor.busy", "cpu0"), &[NAN, 0.0, 0.0, 0.0, 0.0]);
    assert_same(got.values("processor.busy", "cpu1"), &[NAN, 0.25, 0.25, 0.25, 0.25]);
    assert_eq!(got.skip_reasons(), ["counters of type 0x77770000, which is not understood"]);
    let summary = got.summary.as_ref().expect("read");
    assert_eq!((summary.host.as_str(), summary.format, summary.foreign), ("WEB1", "perfmon-blg", 0));
    let topology = got.notes[1].read_topology().expect("JSON");
    assert_eq!(topology.processors, 2);
}

#[test]
fn reads_whole_objects() {
    let got = read_plain(of_objects(5));
    assert_eq!(got.times_ns.len(), 5);
    assert_eq!(got.times_ns[0], START_NS);
    assert_same(got.values("physical_disk.transfers_per_s", "0 C:"), &[NAN, 40.0, 40.0, 40.0, 40.0]);
    assert_same(got.values("physical_disk.avg_s_per_transfer", "0 C:"), &[NAN, 0.025, 0.025, 0.025, 0.025]);
    assert!(got.values("physical_disk.transfers_per_s", "_total").is_empty(), "a sum is no disk");
    assert_same(got.values("memory.available_bytes", ""), &[1_048_576.0; 5]);
    assert_same(got.values(r"foreign.Memory\% Registry Quota In Use", ""), &[25.0; 5]);
    assert_same(got.values(r"foreign.Process\Elapsed Time", "sql"), &[2003.0, 2004.0, 2005.0, 2006.0, 2007.0]);
    assert!(got.skip_reasons().is_empty(), "{:?}", got.skip_reasons());
    assert_eq!(got.summary.expect("read").host, "OLD1");
}

#[test]
fn a_process_that_reuses_a_name_starts_again() {
    let got = read_plain(of_objects(5));
    assert_same(got.values("process.processor", "sql"), &[NAN, 0.3, 0.3, 0.3, 0.3]);
    // process 1001 until the third sample, then 1002 under its name
    assert_same(got.values("process.processor", "svc"), &[NAN, 0.1, 0.1, NAN, 0.2]);
    assert_same(got.values("process.processor", "svc#1"), &[NAN, 0.2, 0.2, NAN, NAN]);
}

#[test]
fn emits_process_tables() {
    let mut log = Log::new(4, 0, false);
    log.names(&[(6, "% Processor Time"), (230, "Process"), (784, "ID Process")]);
    for n in 0..13u64 {
        let object = blg_encoder::Object {
            name: 230,
            counters: &[(6, blg_encoder::TIMER_100NS, 8), (784, blg_encoder::LEVEL, 4)],
            instances: vec![(Some("sql"), vec![n * SECOND / 2, 77])],
        };
        let block = log.block(START + n * SECOND, n, "H", &[object]);
        log.sample(START + n * SECOND, &[block]);
    }
    let got = read_plain(log.finish());
    let note = got.notes.iter().find(|n| n.kind == Note::PROCESSES).expect("a table after ten seconds");
    let table = note.read_processes().expect("JSON");
    assert_eq!((table.rows[0].name.as_str(), table.rows[0].pid), ("sql", 77));
    assert!((table.rows[0].processor - 0.5).abs() < 1e-9);
}

#[test]
fn joins_long_events_from_parts() {
    let mut log = Log::new(8, 0, false);
    log.part = 64;
    let long = "x".repeat(300);
    log.list("H", &[blg_encoder::Wanted { kind: blg_encoder::LEVEL, object: "O", instance: None, counter: &long }]);
    let record = log.raw(START, 5, 0, 1);
    log.sample(START, &[record]);
    let got = read_plain(log.finish());
    assert_same(got.values(&format!("foreign.O\\{long}"), ""), &[5.0]);
}

#[test]
fn derives_the_zone_from_the_files_own_clock() {
    // no 100 ns timer in the list, so only the trace's start gives the offset
    for (bias, is_summer) in [(480, false), (480, true), (-330, false), (0, false)] {
        let mut log = Log::new(8, bias, is_summer);
        let wanted = [blg_encoder::Wanted { kind: blg_encoder::LEVEL, object: "O", instance: None, counter: "c" }];
        log.list("H", &wanted);
        let record = log.raw(START + SECOND, 5, 0, 1);
        log.sample(START + SECOND, &[record]);
        let file = log.finish();
        let got = read_plain(file.clone());
        assert_eq!(got.times_ns, [START_NS + 1_000_000_000], "bias {bias}, summer {is_summer}");
        let options = LogOptions { utc_offset_s: Some(3600), ..LogOptions::default() };
        let got = read_with(file, &options).expect("whole");
        let minutes = i64::from(bias) - if is_summer { 60 } else { 0 };
        let local = START_NS + 1_000_000_000 - minutes * 60_000_000_000;
        assert_eq!(got.times_ns, [local - 3_600_000_000_000], "what the user says wins");
    }
    let mut late = Log::new(8, 480, false);
    let wanted = [blg_encoder::Wanted { kind: blg_encoder::LEVEL, object: "O", instance: None, counter: "c" }];
    late.list("H", &wanted);
    let record = late.raw(START, 5, 0, 1);
    late.sample(START + 100_000 * SECOND, &[record]);
    let message = read_with(late.finish(), &LogOptions::default()).expect_err("which offset?").to_string();
    assert!(message.contains("--utc-offset"), "{message}");
}

/// A sample without a 100 ns timer has no UTC time: its local time is set back by an hour in autumn.
#[test]
fn a_change_from_summer_time_loses_no_sample() {
    let mut log = Log::new(8, 0, false);
    let wanted = [blg_encoder::Wanted { kind: blg_encoder::LEVEL, object: "O", instance: None, counter: "c" }];
    log.list("H", &wanted);
    for n in 0..6u64 {
        let stamp = START + n * SECOND - if n < 3 { 0 } else { 3600 * SECOND };
        let record = log.raw(stamp, n, 0, 1);
        log.sample(stamp, &[record]);
    }
    let got = read_plain(log.finish());
    let wanted: Vec<i64> = (0..6).map(|n| START_NS + n * 1_000_000_000).collect();
    assert_eq!(got.times_ns, wanted);
    assert_same(got.values("foreign.O\\c", ""), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(got.notes.iter().filter(|note| note.kind == Note::CLOCK).count(), 1);
}

#[test]
fn reads_one_of_several_machines() {
    let mut log = Log::new(4, 0, false);
    log.names(&[(4, "Memory"), (24, "Available Bytes")]);
    for n in 0..2u64 {
        let utc = START + n * SECOND;
        let memory = |bytes| blg_encoder::Object {
            name: 4,
            counters: &[(24, blg_encoder::LEVEL, 4)],
            instances: vec![(None, vec![bytes])],
        };
        let blocks = [log.block(utc, n, "A", &[memory(1)]), log.block(utc, n, "B", &[memory(2)])];
        log.sample(utc, &blocks);
    }
    let file = log.finish();
    let got = read_plain(file.clone());
    assert_same(got.values("memory.available_bytes", ""), &[1.0, 1.0]);
    assert_eq!(got.skip_reasons(), ["another machine; to read it use --host B"]);
    let options = LogOptions { host: Some("b".into()), ..LogOptions::default() };
    assert_same(read_with(file, &options).expect("whole").values("memory.available_bytes", ""), &[2.0, 2.0]);
}

/// Returns the offsets of a file at which it is changed; of the padding of buffers only a few.
fn mutation_offsets(file: &[u8]) -> Vec<usize> {
    let is_content =
        |index: &usize| file[*index] != 0xff || file.get(index + 1) != Some(&0xff) || index.is_multiple_of(256);
    let all: Vec<usize> = (0..file.len()).filter(is_content).collect();
    sweep(all.len(), 400).into_iter().map(|number| all[number]).collect()
}

#[test]
fn a_log_cut_anywhere_yields_what_precedes() {
    for file in [of_lists(2), of_objects(2)] {
        let mut max_ticks = 0;
        for length in mutation_offsets(&file) {
            let ticks = read_with(file[..length].to_vec(), &LogOptions::default()).map_or(0, |g| g.times_ns.len());
            assert!(ticks >= max_ticks, "a longer beginning holds no less, at {length}");
            max_ticks = ticks;
        }
        assert_eq!(read_with(file, &LogOptions::default()).map_or(0, |g| g.times_ns.len()), 2);
    }
}

#[test]
fn any_corrupted_byte_is_survived() {
    let options = LogOptions { utc_offset_s: Some(0), ..LogOptions::default() };
    for file in [of_lists(2), of_objects(2)] {
        for index in mutation_offsets(&file) {
            let mut wrong = file.clone();
            wrong[index] = [0x00, 0x7f, 0xff][index % 3] ^ u8::from(index % 6 > 2);
            let _ = read_with(wrong, &options);
        }
    }
}

#[test]
fn reports_contradictions_with_their_place() {
    let full_bytes = of_lists(5);
    let place = full_bytes.windows(4).position(|w| w == [0x42, 0x4c, 3, 0]).expect("a container");
    // an impossible length of the first record in the first sample
    let mut wrong = full_bytes.clone();
    wrong[place + 12..place + 16].copy_from_slice(&u32::MAX.to_le_bytes());
    let got = read_plain(wrong);
    assert!(
        got.skip_reasons().contains(&"a sample whose records do not fit their lengths"),
        "{:?}",
        got.skip_reasons()
    );
    assert_eq!(got.times_ns.len(), 4, "only that sample is lost");
    // an unknown kind of record
    let mut wrong = full_bytes.clone();
    wrong[place + 11] = 9;
    let got = read_plain(wrong);
    assert!(got.skip_reasons().contains(&"records of kind 9, which are not understood"), "{:?}", got.skip_reasons());
    // an unknown kind of event
    let mut log = Log::new(8, 0, false);
    log.event(0x55, START, &[1, 2, 3, 4]);
    let message = read_with(log.finish(), &LogOptions::default()).expect_err("no sample").to_string();
    assert!(message.contains("kind 0x55") && message.contains("byte 4168"), "{message}");
    // no event trace at all
    let mut wrong = full_bytes;
    wrong[0] = 9;
    assert!(read_with(wrong, &LogOptions::default()).is_err());
}

#[test]
fn fixtures_are_what_the_encoder_writes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, file) in [("perfmon-blg_lists.blg", of_lists(2)), ("perfmon-blg_objects.blg", of_objects(2))] {
        let path = folder.join(name);
        if std::env::var_os("DISKWRIGHT_WRITE_FIXTURES").is_some() {
            std::fs::write(&path, &file).expect("written");
        }
        let found = std::fs::read(&path).expect("the fixture");
        assert!(found == file, "{name}: write it anew with DISKWRIGHT_WRITE_FIXTURES=1");
    }
}
