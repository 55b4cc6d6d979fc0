//! The same machine in every form that sysstat writes: each gives the same counters.

use std::ops::ControlFlow;
use std::path::Path;

use diskwright_base::Catalogue;
use diskwright_base::counter_plan::{CounterPlan, CounterSummary};
use diskwright_logs::{LogInput, LogOptions, LogPiece};

fn read_mean(fixture: &str, counter: &str, instance: &str) -> Option<f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    let mut input = LogInput::open(&path).unwrap();
    let (mut sum, mut plan) = (CounterSummary::default(), None);
    let mut sink = |piece: LogPiece<'_>| {
        if let LogPiece::Frame(frame) = piece
            && let Some(found) = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, instance)
        {
            sum.merge_summary(&found.summarise_ticks(frame, |_| true));
            plan = Some(found);
        }
        ControlFlow::Continue(())
    };
    diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).unwrap_or_else(|e| panic!("{e}"));
    plan.and_then(|p| p.summary_value(&sum))
}

#[test]
fn every_form_gives_the_same_values() {
    for fixture in ["sadf-json.json", "sadf-xml.xml", "sadf-rows.csv", "sadf-rows_p.tsv", "sar-text.txt"] {
        // 200 to 203 transfers of 45 ms, 8 KiB each
        for (counter, expected) in [
            ("physical_disk.transfers_per_s", 201.5),
            ("physical_disk.avg_s_per_transfer", 0.045),
            ("physical_disk.avg_bytes_per_transfer", 8192.0),
            ("physical_disk.avg_queue_length", 9.0675),
            ("physical_disk.write_bytes_per_s", 201.5 * 8192.0),
            ("physical_disk.busy", 1.0),
        ] {
            let found = read_mean(fixture, counter, "sda").unwrap_or(f64::NAN);
            // aqu-sz is printed with two decimals
            assert!((found / expected - 1.0).abs() < 1e-3, "{fixture}: {counter} is {found}, not {expected}");
        }
        assert!(read_mean(fixture, "logical_disk.busy", "sda1").is_some(), "{fixture}: a partition is a logical disk");
        assert!(read_mean(fixture, "physical_disk.busy", "sda1").is_none(), "{fixture}: a partition is no disk");
    }
}

#[test]
fn reads_reads_and_writes_of_iostat() {
    for (fixture, times) in [("iostat-json.json", 202.5), ("iostat-text.txt", 200.0)] {
        let found = read_mean(fixture, "physical_disk.avg_read_queue_length", "sda").unwrap_or(f64::NAN);
        let expected = if fixture.ends_with("json") { (202.0 + 203.0 + 204.0) / 3.0 } else { times } / 4.0 * 0.045;
        assert!((found - expected).abs() < 1e-9, "{fixture}: {found}, not {expected}");
        assert!(read_mean(fixture, "processor.iowait", "_total").is_some_and(|v| (v - 0.4).abs() < 1e-9), "{fixture}");
    }
}

#[test]
fn reads_memory_and_processors() {
    let near =
        |found: Option<f64>, expected: f64| found.is_some_and(|f| (f - expected).abs() < 1e-6 * expected.max(1.0));
    assert!(near(read_mean("sadf-json.json", "memory.total_bytes", ""), 2_000_000.0 * 1024.0));
    assert!(near(read_mean("sadf-xml.xml", "memory.available_fraction", ""), 0.75));
    assert!(near(read_mean("sadf-json.json", "logical_disk.free_fraction", "sda1"), 0.25));
    assert!(near(read_mean("sadf-json.json", "pressure.io_some", ""), 0.615));
    assert!(near(read_mean("sadf-json.json", "processor.interrupts_per_s", "cpu1"), 300.0));
    assert!(near(read_mean("mpstat-json.json", "processor.idle", "cpu1"), 0.738));
    assert!(near(read_mean("vmstat-text.txt", "system.blocked", ""), 9.0));
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
        let index = roll(data.len());
        match roll(5) {
            0 if round.is_multiple_of(3) => data.truncate(index),
            1 if index < data.len() => data[index] ^= 1 << roll(8),
            2 => data.insert(index, b"\0\xff9-\"[{<;,\n\t"[roll(12)]),
            3 => drop(data.drain(index..(index + roll(60)).min(data.len()))),
            _ => data.splice(index..index, b"18446744073709551616".iter().copied()).for_each(drop),
        }
    }
    data
}

#[test]
fn no_mutation_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let families =
        ["sadf-json", "iostat-json", "mpstat-json", "sadf-xml", "sadf-rows", "sar-text", "iostat-text", "vmstat-text"];
    let options = LogOptions { interval: Some(std::time::Duration::from_secs(1)), ..LogOptions::default() };
    for id in families {
        let format = diskwright_logs::FORMATS.iter().find(|f| f.id == id).unwrap();
        let fixtures = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
        for path in fixtures.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with(id)) {
            let seed = std::fs::read(&path).unwrap();
            for round in crate::sweep::sweep(ROUNDS, 30) {
                let mut last = i64::MIN;
                let mut sink = |piece: LogPiece<'_>| {
                    if let LogPiece::Frame(frame) = piece {
                        for tick in frame.ticks() {
                            assert!(tick.time_ns > last, "{id}, round {round}: out of order");
                            last = tick.time_ns;
                        }
                    }
                    ControlFlow::Continue(())
                };
                let mut input = LogInput::from_bytes("x", mutate(&seed, round as u64)).unwrap();
                let mut batch = diskwright_logs::FrameBatch::new(format.id, &mut sink);
                // an error is an answer, too
                let _ = (format.read)(&mut input, &options, &mut batch);
                let _ = batch.finish("x");
            }
        }
    }
}
