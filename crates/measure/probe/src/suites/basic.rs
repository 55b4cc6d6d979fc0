//! Basic suites, taken from published benchmarks: maximum throughput, smallest reads, record sizes,
//! reading against writing, random against sequential, writing while reading, processor cost.

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, best_run, format_quantity, knee_run};
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};
use diskwright_base::byte_size::ByteSize;

/// NT Resource Kit's Diskmax.
pub const DISKMAX: Suite = Suite {
    id: "diskmax",
    title: "maximum throughput: sequential reads of 64 KiB records",
    explain: "Gives the device the best conditions: large sequential records that bypass the cache. It follows \
              Response Probe's Diskmax (NT Resource Kit), which reads 64K records of a 20 MB file. It runs once with \
              one request in flight, as there, and once with eight, as with read-ahead.",
    good: "Close to the maker's figure for sequential reads. Much less points to the path: link speed, controller, \
           bus.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_diskmax,
};

fn run_diskmax(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    for depth in [1, 8] {
        let pattern = session.build_pattern(format!("depth-{depth}"), SEQUENTIAL, 64 << 10, depth);
        session.run(&pattern)?;
    }
    let max_rate = best_run(&session.runs, |r| r.bytes_per_s).map_or(0.0, |r| r.bytes_per_s);
    session.report_value("throughput_bytes_per_s", max_rate, "bytes_per_s", "maximum with sequential 64 KiB records");
    report_elapsed(session, 0, 20_480_000.0);
    Ok(())
}

/// Reports how long reading a file of this size would take at the rate of a run (NT Resource Kit, W23).
fn report_elapsed(session: &mut SuiteSession<'_>, run_index: usize, bytes: f64) {
    let Some(run) = session.runs.get(run_index) else { return };
    if run.bytes_per_s > 0.0 {
        let seconds = bytes / run.size_bytes / run.requests_per_s;
        let text = format!(
            "time for a file of {} in records of {}",
            ByteSize::capacity(bytes),
            ByteSize::memory(run.size_bytes)
        );
        session.report_value("elapsed_s", seconds, "s", text);
    }
}

/// NT Resource Kit's Minread.
pub const MINREAD: Suite = Suite {
    id: "minread",
    title: "smallest reads: single sectors, sequential",
    explain: "The opposite of diskmax: the smallest records that can bypass the cache, one at a time. It shows what a \
              request itself costs in path, processor and interrupts (Minread in the NT Resource Kit, and its table \
              of bytes per interrupt).",
    good: "Many times the requests per second of diskmax. Bytes per second are low on every device; that is the point.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: run_minread,
};

fn run_minread(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let sector = u32::try_from(session.settings.sector).unwrap_or(512);
    let pattern = session.build_pattern("sector", SEQUENTIAL, sector, 1);
    let run = session.run(&pattern)?;
    let (rate, interrupts) = (run.requests_per_s, run.bytes_per_interrupt);
    session.report_value("requests_per_s", rate, "per_s", "reads of one sector per second");
    if let Some(bytes) = interrupts {
        session.report_value(
            "bytes_per_interrupt",
            bytes,
            "bytes",
            "bytes per interrupt, without clock and network interrupts",
        );
    }
    report_elapsed(session, 0, 20_480_000.0);
    Ok(())
}

/// Record sizes of the NT Resource Kit's Sizeread, bytes.
const SIZEREAD_BYTES: &[u32] = &[2 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20];

/// NT Resource Kit's Sizeread.
pub const SIZEREAD: Suite = Suite {
    id: "sizeread",
    title: "throughput by record size, 2 KiB to 8 MiB, sequential",
    explain: "As records grow, bytes per second rise and requests per second fall, until throughput reaches a limit \
              of the path and stays there (NT Resource Kit, records of increasing size: that disk gained nothing \
              beyond 64K).",
    good: "Throughput that rises up to 64 KiB or more and then stays level. A peak followed by a fall means that \
           requests are split.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: |session| {
        for size in session.usable_sizes(SIZEREAD_BYTES) {
            let pattern = session.build_pattern(format!("size-{size}"), SEQUENTIAL, size, 1);
            session.run(&pattern)?;
        }
        report_plateau(session);
        Ok(())
    },
};

/// Reports the first size beyond which throughput gains little, and a fall at the largest sizes.
fn report_plateau(session: &mut SuiteSession<'_>) {
    if let Some((knee_bytes, rate)) =
        knee_run(&session.runs, 0.9, |r| r.bytes_per_s).map(|r| (r.size_bytes, r.bytes_per_s))
    {
        let (size, rate) = (ByteSize::memory(knee_bytes), format_quantity(rate, "bytes_per_s"));
        let text = format!("{size}: the smallest record with 90 % of the best throughput ({rate})");
        session.report_value("knee_bytes", knee_bytes, "bytes", text);
    }
    let last = session.runs.last().map_or(0.0, |r| r.bytes_per_s);
    if let Some((max_rate, size_bytes)) =
        best_run(&session.runs, |r| r.bytes_per_s).map(|r| (r.bytes_per_s, r.size_bytes))
        && last < 0.9 * max_rate
    {
        let text = format!(
            "of the best throughput (at {}) with the largest records: they are split or queue",
            ByteSize::memory(size_bytes)
        );
        session.report_value("largest_to_best", last / max_rate, "fraction", text);
    }
}

/// NT Resource Kit: reading against writing.
pub const READING_WRITING: Suite = Suite {
    id: "reading-writing",
    title: "reads against writes, sequential and random",
    explain: "The same records read and written: random 4 KiB and sequential 64 KiB (the NT Resource Kit compares \
              both). Writes faster than reads went to a cache. On an array with parity, small writes are expensive.",
    good: "Writes within a factor of two of reads. Random writes at a quarter of random reads are typical of RAID 5.",
    writes: Writes::Always,
    time: DEFAULT_RUN_TIME,
    run: |session| {
        let kinds = [("random-4k", Placement::Uniform, 4 << 10), ("sequential-64k", SEQUENTIAL, 64 << 10)];
        for (name, placement, size) in kinds {
            let is_random = placement == Placement::Uniform;
            let read = session.build_pattern(format!("read-{name}"), placement, size, 4);
            let write = Pattern { name: format!("write-{name}"), read_share: 0.0, ..read.clone() };
            let reads = session.run(&read)?.requests_per_s;
            let writes = session.run(&write)?.requests_per_s;
            let id = format!("write_to_read_{}", name.replace('-', "_"));
            let ratio = writes / reads;
            let verdict = match ratio {
                r if r.is_nan() => ": neither completed",
                r if r > 1.2 => ": writes are faster, as where a cache takes them",
                r if r > 0.8 => ": no difference, as the NT Resource Kit finds for a single disk",
                // only small random writes: a stripe that is written as a whole needs no reads
                r if is_random && (0.2..0.3).contains(&r) => {
                    ": a quarter, as expected from RAID 5's four operations per write (NT \
                                                 Magazine 1998)"
                }
                _ => ": writes cost more",
            };
            session.report_value(&id, ratio, "times", format!("writes per read, {name}{verdict}"));
        }
        Ok(())
    },
};

/// NT Resource Kit: random against sequential.
pub const RANDOM_SEQUENTIAL: Suite = Suite {
    id: "random-sequential",
    title: "random against sequential access, at three sizes",
    explain: "What arm movement costs. The same sizes are read sequentially, around a point, and anywhere. The point \
              has the mean and deviation of Response Probe in the NT Resource Kit (the middle, a sixth of the file). \
              If writing is allowed, 64 KiB writes follow. The disk in the NT Resource Kit read 64 KB records 1.3 \
              times as fast sequentially as at random, and wrote them 1.5 times as fast.",
    good: "On flash nearly the same at queue depth 1 for large records. On a rotating disk, small random reads are 10 \
           to 100 times slower, and so are applications with random access.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: |session| {
        let mut kinds: Vec<(u32, f64)> =
            session.usable_sizes(&[512, 4 << 10, 64 << 10]).iter().map(|s| (*s, 1.0)).collect();
        if session.settings.writes {
            kinds.push((64 << 10, 0.0));
        }
        for (bytes, read_share) in kinds {
            let placements = [
                ("sequential", SEQUENTIAL),
                ("around", Placement::Normal { mean: 0.5, deviation: 1.0 / 6.0 }),
                ("anywhere", Placement::Uniform),
            ];
            let (prefix, operation) = if read_share == 1.0 { ("", "read") } else { ("write-", "write") };
            let mut rates = Vec::new();
            for (name, placement) in placements {
                let pattern = session.build_pattern(format!("{prefix}{name}-{bytes}"), placement, bytes, 1);
                rates.push(session.run(&Pattern { read_share, ..pattern })?.requests_per_s);
            }
            let text = format!("sequential {operation}s per random one, {}", ByteSize::memory(f64::from(bytes)));
            let id = format!("{}sequential_to_random_{bytes}", prefix.replace('-', "_"));
            session.report_value(&id, rates[0] / rates[2], "times", text);
        }
        Ok(())
    },
};

/// NT Resource Kit: writing while reading.
pub const WRITE_WHILE_READ: Suite = Suite {
    id: "write-while-read",
    title: "how writers slow down a reader",
    explain: "A reader of random 4 KiB at queue depth 8: first standalone, then beside a stream of random 4 KiB \
              writes at depth 1, 8 and 32, then beside sequential 64 KiB writes. The writers also run standalone. \
              Reads wait behind writes on a rotating disk, and behind erasing on flash.",
    good: "The 99 % latency of reads stays within a few times that of the standalone reader, whatever is written.",
    writes: Writes::Always,
    time: DEFAULT_RUN_TIME,
    run: run_write_while_read,
};

/// Writers beside the reader: name, placement, size of a request in bytes, queue depth.
const WRITERS: &[(&str, Placement, u32, u32)] = &[
    ("random-1", Placement::Uniform, 4 << 10, 1),
    ("random-8", Placement::Uniform, 4 << 10, 8),
    ("random-32", Placement::Uniform, 4 << 10, 32),
    ("sequential", SEQUENTIAL, 64 << 10, 4),
];

fn run_write_while_read(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let reader = |session: &SuiteSession<'_>, name: String| session.build_pattern(name, Placement::Uniform, 4 << 10, 8);
    let standalone_p99 = session.run(&reader(session, "reader-alone".into()))?.latency_s.p99;
    let mut concurrent_p99: Option<f64> = None;
    for (name, placement, size, depth) in WRITERS {
        let reads = reader(session, format!("reader-beside-{name}"));
        let writer = session.build_pattern(format!("writer-{name}-beside"), placement.clone(), *size, *depth);
        let writer = Pattern { read_share: 0.0, seed: session.settings.seed ^ 0x77, ..writer };
        let reader_index = session.runs.len();
        session.run_together(&format!("together-{name}"), &[reads, writer.clone()])?;
        if *name == "random-8" {
            concurrent_p99 = session.runs[reader_index].latency_s.p99;
        }
        session.run(&Pattern { name: format!("writer-{name}-alone"), ..writer })?;
    }
    match (standalone_p99, concurrent_p99) {
        (Some(standalone), Some(concurrent)) => {
            let text = "99 % latency of reads beside a random writer of the same depth, divided by that of standalone \
                        reads";
            session.report_value("read_p99_ratio", concurrent / standalone, "fraction", text);
        }
        _ => session.report_text("read_p99_ratio", "too few reads for a 99 % latency; measure longer"),
    }
    Ok(())
}

/// Adaptec's Threadmark, SAS 1998.
pub const THREADMARK: Suite = Suite {
    id: "threadmark",
    title: "throughput and its processor cost",
    explain: "Sequential records of growing size at queue depth 4, with the processor time for each size. SAS 1998 \
              ran Adaptec's Threadmark 2.0 for these two numbers. It does not describe how Threadmark works, so \
              compare the numbers only with this program's own.",
    good: "Less than 10 % of a processor per GB/s at 64 KiB and above.",
    writes: Writes::Never,
    time: DEFAULT_RUN_TIME,
    run: |session| {
        for size in session.usable_sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10]) {
            let pattern = session.build_pattern(format!("size-{size}"), SEQUENTIAL, size, 4);
            session.run(&pattern)?;
        }
        let last = session.runs.last().and_then(|r| Some((r.cpu_share?, r.bytes_per_s)));
        if let Some((share, rate)) = last.filter(|(_, rate)| *rate > 0.0) {
            let text = "of a processor per GB/s, with the largest records";
            session.report_value("processors_per_gb_per_s", share / (rate / 1e9), "processors", text);
        }
        let mean = session.runs.iter().map(|r| r.bytes_per_s).sum::<f64>() / session.runs.len().max(1) as f64;
        session.report_value("mean_bytes_per_s", mean, "bytes_per_s", "mean throughput over the sizes");
        Ok(())
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, remark_value, run_on_fake};
    use super::*;
    use crate::engine::fake::FakeDevice;

    /// A device with 100 MB/s and 1 ms for each request.
    fn plain_device() -> FakeDevice {
        FakeDevice::new(1, Box::new(|op, _| Ok(1_000_000 + u64::from(op.length) * 10)))
    }

    #[test]
    fn diskmax_and_minread_find_both_ends() {
        let (runs, remarks) = run_on_fake(&DISKMAX, 64 * MIB, plain_device);
        // 65536 bytes in 1.65536 ms
        assert!((runs[0].bytes_per_s / (65_536.0 / 1.65536e-3) - 1.0).abs() < 0.01);
        // W23's arithmetic: 20,480,000 bytes in records of 64 KiB
        assert!((remark_value(&remarks, "elapsed_s") - 312.5 * 1.65536e-3).abs() < 0.01);
        let (runs, _) = run_on_fake(&MINREAD, 64 * MIB, plain_device);
        assert!((runs[0].requests_per_s - 994.9).abs() < 2.0, "{}", runs[0].requests_per_s);
    }

    #[test]
    fn sizeread_finds_where_the_gain_ends() {
        // half the time of 100 KB is the request itself: 90 % of 100 MB/s takes about 0.9 MB
        let (_, remarks) = run_on_fake(&SIZEREAD, 64 * MIB, plain_device);
        assert_eq!(remark_value(&remarks, "knee_bytes"), f64::from(1 << 20));
    }

    #[test]
    fn writes_that_cost_four_times_as_much_are_seen() {
        let raid5 = || {
            FakeDevice::new(
                1,
                Box::new(|op, _| Ok(if op.action == crate::engine::Action::Write { 4 } else { 1 } * 500_000)),
            )
        };
        let (_, remarks) = run_on_fake(&READING_WRITING, 64 * MIB, raid5);
        assert!((remark_value(&remarks, "write_to_read_random_4k") - 0.25).abs() < 0.01);
        // RAID 5 makes four operations of small writes, not of whole stripes
        let says = |id: &str| remarks.iter().any(|r| r.id == id && r.text.contains("RAID 5"));
        assert!(says("write_to_read_random_4k") && !says("write_to_read_sequential_64k"), "{remarks:?}");
    }
}
