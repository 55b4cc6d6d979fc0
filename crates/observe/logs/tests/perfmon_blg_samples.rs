//! Binary logs of real Windows machines, where they are available: in the folder that `DISKWRIGHT_SAMPLES` names, or in
//! `shared/samples` beside the checkout. They are not part of the project; without them these tests print a message and
//! pass. There is no other reader of the format to compare with, so counters are compared with each other: the value of
//! one must follow from two more.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use diskwright_logs::{LogInput, LogOptions, LogPiece, ReadSummary};

#[derive(Default)]
struct ReadOutcome {
    times_ns: Vec<i64>,
    series: HashMap<(String, String), Vec<f64>>,
}

fn read_sample(name: &str) -> Option<(ReadOutcome, ReadSummary)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join("perfmon").join(name);
    if !path.is_file() {
        println!("skipped: no sample {}", path.display());
        return None;
    }
    let mut got = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        if let LogPiece::Frame(frame) = piece {
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
        ControlFlow::Continue(())
    };
    let mut input = LogInput::open(&path).expect("opens");
    let summary = diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).expect("is read");
    Some((got, summary))
}

impl ReadOutcome {
    fn values(&self, counter: &str, instance: &str) -> &[f64] {
        self.series.get(&(counter.into(), instance.into())).unwrap_or_else(|| panic!("no {counter} of {instance}"))
    }

    /// Asserts for every tick that the first counter equals what `made` computes from the others; returns how many were
    /// compared.
    fn assert_follows(&self, instance: &str, names: &[&str], within: f64, made: impl Fn(&[f64]) -> f64) -> usize {
        let columns: Vec<&[f64]> = names.iter().map(|n| self.values(n, instance)).collect();
        let mut compared = 0;
        for tick in 0..self.times_ns.len() {
            let cells: Vec<f64> = columns.iter().map(|c| c[tick]).collect();
            let (is, wanted) = (cells[0], made(&cells[1..]));
            if is.is_nan() || wanted.is_nan() {
                continue;
            }
            let apart = (is - wanted).abs();
            assert!(apart <= within * wanted.abs().max(1e-3), "{names:?} of {instance}, tick {tick}: {is}, {wanted}");
            compared += 1;
        }
        compared
    }
}

#[test]
fn the_log_of_2013_agrees_with_itself() {
    let Some((got, summary)) = read_sample("Tx_BasicPerfCounters.blg") else { return };
    assert_eq!((summary.ticks, summary.series, summary.foreign), (601, 10, 0));
    assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
    assert_eq!(summary.host, "GEORGIS3");
    // 2013-02-20 02:50:17.84 UTC, which was the evening before on the Pacific coast
    assert_eq!(got.times_ns[0] / 1_000_000_000, 1_361_328_617);
    let disk = "0 C:";
    let queues = ["avg_queue_length", "avg_read_queue_length", "avg_write_queue_length"];
    let queues = queues.map(|q| format!("physical_disk.{q}"));
    let queues = queues.each_ref().map(String::as_str);
    assert_eq!(got.assert_follows(disk, &queues, 1e-9, |c| c[0] + c[1]), 600);
    // over all of the log: 0.1007 = 0.0271 + 0.0736
    let mean = |c: &str| got.values(c, disk)[1..].iter().sum::<f64>() / 600.0;
    let [all, read, write] = queues.map(mean);
    assert!((all - 0.1007).abs() < 5e-5 && (read - 0.0271).abs() < 5e-5 && (write - 0.0736).abs() < 5e-5);
    let processors = ["cpu0", "cpu1", "cpu2", "cpu3"].map(|p| got.values("processor.busy", p));
    let mut compared = 0;
    for (tick, total) in got.values("processor.busy", "_total").iter().enumerate().skip(1) {
        let mean = processors.iter().map(|p| p[tick]).sum::<f64>() / 4.0;
        // where an idle processor's clock ran past the sample's, its share stops at nothing
        if processors.iter().all(|p| p[tick] > 0.0) {
            assert!((total - mean).abs() < 1e-5, "tick {tick}: {total} is not the mean {mean}");
            compared += 1;
        }
    }
    assert!(compared > 400, "{compared}");
    let sizes = ["physical_disk.avg_bytes_per_read", "physical_disk.avg_bytes_per_write"];
    for size in sizes.iter().flat_map(|s| got.values(s, disk)).filter(|s| !s.is_nan()) {
        assert!(*size >= 512.0 && *size <= 4_194_304.0, "{size} bytes a request");
    }
}

#[test]
fn the_log_of_2007_agrees_with_itself() {
    let Some((got, summary)) = read_sample("PAL_SampleLog.blg") else { return };
    assert_eq!((summary.ticks, summary.host.as_str()), (11, "ZACH-PC"));
    let because: Vec<&str> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(because, ["a counter went back"], "sums over processes, of which some ended");
    assert_eq!(got.times_ns[0] / 1_000_000_000, 1_187_120_438, "2007-08-14 19:40:38 UTC");
    let id = |name: &str| format!("physical_disk.{name}");
    let follows = |names: &[&str], within: f64, made: &dyn Fn(&[f64]) -> f64| {
        let names: Vec<String> = names.iter().map(|n| id(n)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(got.assert_follows("0 C:", &names, within, made) >= 7, "{names:?}");
    };
    let sum = |c: &[f64]| c[0] + c[1];
    let product = |c: &[f64]| c[0] * c[1];
    follows(&["avg_queue_length", "avg_read_queue_length", "avg_write_queue_length"], 1e-6, &sum);
    follows(&["transfers_per_s", "reads_per_s", "writes_per_s"], 1e-9, &sum);
    follows(&["bytes_per_s", "read_bytes_per_s", "write_bytes_per_s"], 1e-9, &sum);
    follows(&["bytes_per_s", "transfers_per_s", "avg_bytes_per_transfer"], 1e-9, &product);
    // Little's law joins three types: an average timer, a rate and a queue length
    follows(&["avg_read_queue_length", "reads_per_s", "avg_s_per_read"], 1e-3, &product);
    follows(&["avg_write_queue_length", "writes_per_s", "avg_s_per_write"], 1e-3, &product);
    // % Disk Time is the queue, capped
    follows(&["disk_time_nt", "avg_queue_length"], 1e-3, &|c| c[0].min(1.0));
    let paging = ["paging.pages_per_s", "paging.pages_input_per_s", "paging.pages_output_per_s"];
    assert_eq!(got.assert_follows("", &paging, 1e-9, sum), 10);
}

#[test]
fn processor_times_and_processes_add_up() {
    let Some((got, _)) = read_sample("PAL_SampleLog.blg") else { return };
    let parts = ["processor.privileged", "processor.user"];
    let busy = got.values("processor.busy", "_total");
    let idle = got.values("processor.idle", "_total");
    let mut nearly_all = 0;
    for tick in 1..got.times_ns.len() {
        let sum: f64 = parts.iter().map(|p| got.values(p, "_total")[tick]).sum();
        assert!((busy[tick] - sum).abs() < 0.03, "tick {tick}: busy {}, user and privileged {sum}", busy[tick]);
        assert!((busy[tick] + idle[tick] - 1.0).abs() < 0.01, "tick {tick}: {} + {}", busy[tick], idle[tick]);
        // those that ended in the minute are missing, so the processes have no more than the processor
        let processes =
            got.series.iter().filter(|((c, i), _)| c == "process.processor" && i != "_Total" && i != "Idle");
        let used: f64 = processes.map(|(_, v)| v[tick]).filter(|v| !v.is_nan()).sum();
        nearly_all += usize::from(used >= 0.9 * busy[tick]);
        assert!(used <= busy[tick] + 0.03, "tick {tick}: {used} of {}", busy[tick]);
    }
    assert!(nearly_all >= 4, "in the quiet minutes the processes used what the processor gave");
}

#[test]
fn rates_are_the_growth_of_raw_counts() {
    // the sum over ticks of a rate times its seconds is what the count grew by over the whole log
    let Some((got, _)) = read_sample("PAL_SampleLog.blg") else { return };
    let seconds = |tick: usize| (got.times_ns[tick] - got.times_ns[tick - 1]) as f64 * 1e-9;
    for counter in ["physical_disk.transfers_per_s", "physical_disk.reads_per_s", "physical_disk.writes_per_s"] {
        let rates = got.values(counter, "0 C:");
        for (tick, rate) in rates.iter().enumerate().skip(1) {
            let count = rate * seconds(tick);
            let rounded = count.round();
            assert!((count - rounded).abs() < 1e-3 * rounded.max(1.0), "{counter}, tick {tick}: {count} requests");
        }
    }
}
