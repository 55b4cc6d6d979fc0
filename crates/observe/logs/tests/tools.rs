//! The same machine as dstat, dool, nmon, collectl, atop and an old node_exporter record it: each gives the same
//! counters, and no broken input panics.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use diskwright_base::counter_plan::{CounterPlan, CounterSummary};
use diskwright_base::{Catalogue, Note};
use diskwright_logs::{FORMATS, FrameBatch, LogInput, LogOptions, LogPiece};

const FIXTURES: [&str; 9] = [
    "dstat-csv.csv",
    "dstat-csv_dool.csv",
    "nmon.nmon",
    "nmon_aix.nmon",
    "collectl-table.txt",
    "collectl-raw.raw",
    "atop-text.txt",
    "prometheus-text_node15.prom",
    "csv.csv",
];

fn fixture_path(fixture: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture)
}

/// Returns the mean of a counter, and the kinds of notes.
fn read_mean(fixture: &str, counter: &str, instance: &str) -> (Option<f64>, Vec<String>) {
    let mut input = LogInput::open(&fixture_path(fixture)).unwrap();
    let (mut sum, mut plan, mut kinds) = (CounterSummary::default(), None, Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) => kinds.push(note.kind),
            LogPiece::Frame(frame) => {
                if let Some(found) =
                    CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, instance)
                {
                    sum.merge_summary(&found.summarise_ticks(frame, |_| true));
                    plan = Some(found);
                }
            }
        }
        ControlFlow::Continue(())
    };
    diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).unwrap_or_else(|e| panic!("{e}"));
    (plan.and_then(|p| p.summary_value(&sum)), kinds)
}

#[test]
fn every_tool_gives_the_same_values() {
    for fixture in FIXTURES {
        let disk = if fixture.contains("aix") { "hdisk0" } else { "sda" };
        for (counter, instance, expected) in [
            ("physical_disk.transfers_per_s", disk, 150.0),
            ("physical_disk.read_bytes_per_s", disk, 819_200.0),
            ("physical_disk.write_bytes_per_s", disk, 204_800.0),
            ("physical_disk.busy", disk, 0.75),
            ("processor.iowait", "_total", 0.2),
            ("processor.idle", "_total", 0.4),
        ] {
            // exporters know no sum
            let is_page = fixture.starts_with("prometheus") && instance == "_total";
            let instance = if is_page { "cpu1" } else { instance };
            let found = read_mean(fixture, counter, instance).0.unwrap_or(f64::NAN);
            assert!((found / expected - 1.0).abs() < 1e-9, "{fixture}: {counter} is {found}, not {expected}");
        }
        let of_disks = read_mean(fixture, "physical_disk.busy", "dsk/total").0;
        assert!(of_disks.is_none(), "{fixture}: a sum is no disk");
    }
    for fixture in FIXTURES.iter().filter(|f| !f.starts_with("dstat") && **f != "nmon.nmon") {
        let disk = if fixture.contains("aix") { "hdisk0" } else { "sda" };
        let found = read_mean(fixture, "physical_disk.avg_s_per_transfer", disk).0.unwrap_or(f64::NAN);
        assert!((found - 0.005).abs() < 1e-9, "{fixture}: {found}");
    }
    for fixture in ["dstat-csv.csv", "nmon.nmon", "collectl-table.txt", "collectl-raw.raw"] {
        assert_eq!(read_mean(fixture, "system.blocked", "").0, Some(2.0), "{fixture}");
    }
    assert_eq!(read_mean("atop-text.txt", "pressure.io_some", "").0, Some(0.5));
}

#[test]
fn emits_process_tables_of_tools_that_see_processes() {
    for fixture in ["nmon.nmon", "collectl-raw.raw", "atop-text.txt"] {
        let kinds = read_mean(fixture, "physical_disk.busy", "sda").1;
        assert!(kinds.iter().any(|kind| kind == Note::PROCESSES), "{fixture}: {kinds:?}");
    }
}

/// Number of mutations of each fixture; `tests/fuzz.rs` and cargo-fuzz search further.
const ROUNDS: usize = 150;

fn mutate(seed: &[u8], round: u64) -> Vec<u8> {
    let mut state = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut roll = |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % sides.max(1) as u64) as usize
    };
    let mut data = seed.to_vec();
    for _ in 0..=roll(4) {
        let position = roll(data.len());
        match roll(6) {
            0 if round.is_multiple_of(3) => data.truncate(position),
            1 if position < data.len() => data[position] ^= 1 << roll(8),
            2 => data.insert(position, b"\0\xff9-\"[{<;,\n\t #("[roll(15)]),
            3 => drop(data.drain(position..(position + roll(60)).min(data.len()))),
            // a line twice, or another's place
            4 => {
                let line = data[position..(position + 90).min(data.len())].to_vec();
                let to = roll(data.len());
                data.splice(to..to, line).for_each(drop);
            }
            _ => data.splice(position..position, b"18446744073709551616".iter().copied()).for_each(drop),
        }
    }
    data
}

#[test]
fn no_mutation_panics() {
    let options = LogOptions { interval: Some(Duration::from_secs(1)), ..LogOptions::default() };
    for fixture in FIXTURES {
        let id = fixture.split(['.', '_']).next().unwrap();
        let format = FORMATS.iter().find(|f| f.id == id).unwrap();
        let seed = std::fs::read(fixture_path(fixture)).unwrap();
        for round in crate::sweep::sweep(ROUNDS, 30) {
            let mut last = i64::MIN;
            let mut sink = |piece: LogPiece<'_>| {
                if let LogPiece::Frame(frame) = piece {
                    for tick in frame.ticks() {
                        assert!(tick.time_ns > last, "{fixture}, round {round}: out of order");
                        last = tick.time_ns;
                    }
                    for (index, series) in frame.schema().series.iter().enumerate() {
                        let is_known = !series.counter.starts_with("foreign.");
                        let cannot_be = |v: &f64| *v < 0.0 || v.is_infinite();
                        let wrong = frame.column(index).iter().find(|v| is_known && cannot_be(v));
                        assert!(wrong.is_none(), "{fixture}, round {round}: {} {wrong:?}", series.counter);
                    }
                }
                ControlFlow::Continue(())
            };
            let mut input = LogInput::from_bytes("x", mutate(&seed, round as u64)).unwrap();
            let mut batch = FrameBatch::new(format.id, &mut sink);
            // an error is an answer, too
            let _ = (format.read)(&mut input, &options, &mut batch);
            let _ = batch.finish("x");
        }
    }
}

/// Puts common lines before each log, and changes it as transfers do.
#[test]
fn changed_heads_give_the_same_values() {
    // pages have no head
    for fixture in FIXTURES.iter().filter(|f| !f.starts_with("prometheus")) {
        let full_text = String::from_utf8(std::fs::read(fixture_path(fixture)).unwrap()).unwrap();
        let disk = if fixture.contains("aix") { "hdisk0" } else { "sda" };
        let value = |text: &str| {
            let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
            let mut found = Vec::new();
            let mut sink = |piece: LogPiece<'_>| {
                if let LogPiece::Frame(frame) = piece
                    && let Some(plan) = CounterPlan::resolve_counter(
                        Catalogue::builtin(),
                        frame.schema(),
                        "physical_disk.read_bytes_per_s",
                        disk,
                    )
                {
                    found.push(plan.summary_value(&plan.summarise_ticks(frame, |_| true)));
                }
                ControlFlow::Continue(())
            };
            let read = diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink);
            assert!(read.is_ok(), "{fixture}: {read:?}");
            found
        };
        let right = value(&full_text);
        assert!(right.iter().all(Option::is_some) && !right.is_empty(), "{fixture}");
        for changed in [
            format!("nohup: ignoring input\n{full_text}"),
            format!("\n\n{full_text}"),
            format!("root@db1:~# cat log\n{full_text}"),
            format!("\u{feff}{full_text}"),
            full_text.replace('\n', "\r\n"),
        ] {
            assert_eq!(value(&changed), right, "{fixture}: {:?}", &changed[..40]);
        }
    }
}
