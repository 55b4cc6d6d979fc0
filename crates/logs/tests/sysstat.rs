//! The same machine in every form that sysstat writes: each gives the same
//! counters.

use std::ops::ControlFlow;
use std::path::Path;

use diskwright_base::Catalogue;
use diskwright_base::plan::{Plan, Summary};
use diskwright_logs::{Input, Options, Piece};

fn mean(fixture: &str, counter: &str, instance: &str) -> Option<f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    let mut input = Input::open(&path).unwrap();
    let (mut sum, mut plan) = (Summary::default(), None);
    let mut sink = |piece: Piece<'_>| {
        if let Piece::Frame(frame) = piece
            && let Some(found) = Plan::resolve(Catalogue::builtin(), frame.schema(), counter, instance)
        {
            sum.add(&found.summarise(frame, |_| true));
            plan = Some(found);
        }
        ControlFlow::Continue(())
    };
    diskwright_logs::read(&mut input, &Options::default(), &mut sink).unwrap_or_else(|e| panic!("{e}"));
    plan.and_then(|p| p.value(&sum))
}

#[test]
fn every_form_says_the_same() {
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
            let found = mean(fixture, counter, "sda").unwrap_or(f64::NAN);
            // aqu-sz is printed with two decimals
            assert!((found / expected - 1.0).abs() < 1e-3, "{fixture}: {counter} is {found}, not {expected}");
        }
        assert!(mean(fixture, "logical_disk.busy", "sda1").is_some(), "{fixture}: a partition is a logical disk");
        assert!(mean(fixture, "physical_disk.busy", "sda1").is_none(), "{fixture}: a partition is no disk");
    }
}

#[test]
fn iostat_tells_reads_from_writes() {
    for (fixture, times) in [("iostat-json.json", 202.5), ("iostat-text.txt", 200.0)] {
        let found = mean(fixture, "physical_disk.avg_read_queue_length", "sda").unwrap_or(f64::NAN);
        let expected = if fixture.ends_with("json") { (202.0 + 203.0 + 204.0) / 3.0 } else { times } / 4.0 * 0.045;
        assert!((found - expected).abs() < 1e-9, "{fixture}: {found}, not {expected}");
        assert!(mean(fixture, "processor.iowait", "_total").is_some_and(|v| (v - 0.4).abs() < 1e-9), "{fixture}");
    }
}

#[test]
fn memory_and_processors_of_the_others() {
    let near =
        |found: Option<f64>, expected: f64| found.is_some_and(|f| (f - expected).abs() < 1e-6 * expected.max(1.0));
    assert!(near(mean("sadf-json.json", "memory.total_bytes", ""), 2_000_000.0 * 1024.0));
    assert!(near(mean("sadf-xml.xml", "memory.available_fraction", ""), 0.75));
    assert!(near(mean("sadf-json.json", "logical_disk.free_fraction", "sda1"), 0.25));
    assert!(near(mean("sadf-json.json", "pressure.io_some", ""), 0.615));
    assert!(near(mean("sadf-json.json", "processor.interrupts_per_s", "cpu1"), 300.0));
    assert!(near(mean("mpstat-json.json", "processor.idle", "cpu1"), 0.738));
    assert!(near(mean("vmstat-text.txt", "system.blocked", ""), 9.0));
}
