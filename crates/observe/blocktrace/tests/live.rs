//! On this machine's kernel, as root: a loop device with a known load, traced by both methods.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskwright_blocktrace::devices::BlockDeviceNames;
use diskwright_blocktrace::dirty_pages::{DirtyCertainty, assess_certainty};
use diskwright_blocktrace::diskstats::{self, RequestTotals};
use diskwright_blocktrace::{MethodChoice, SessionOptions, TraceMethod, TraceSession, TracedOperation, Tracefs};

/// Reads of the load, and writes with a sync behind them.
const READS: u64 = 500;
const WRITES: u64 = 40;

/// A loop device over a file in memory; gone with this.
struct LoopDisk {
    file: PathBuf,
    device: String,
}

impl LoopDisk {
    /// `None`, and why, where it cannot be had.
    fn attach(name: &str) -> Option<LoopDisk> {
        let skip = |why: &str| {
            eprintln!("skipped: {why}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skip("tracing takes root");
        }
        if let Err(error) = Tracefs::open().and_then(|tracefs| tracefs.read_event_table().map(drop)) {
            return skip(&format!("no events of block devices: {error}"));
        }
        let file = Path::new("/dev/shm").join(format!("diskwright-{name}-{}", std::process::id()));
        fs::write(&file, vec![1; 16 << 20]).ok()?;
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output();
        let device =
            made.ok().filter(|m| m.status.success()).map(|m| String::from_utf8_lossy(&m.stdout).trim().to_owned());
        match device {
            Some(device) => Some(LoopDisk { file, device }),
            None => {
                let _ = fs::remove_file(&file);
                skip("no loop device")
            }
        }
    }

    fn number(&self) -> u32 {
        BlockDeviceNames::default().find_number(self.device.trim_start_matches("/dev/")).expect("a device")
    }

    fn load(&self) {
        let run = |words: &[String]| {
            let done = Command::new("dd").args(words).output().expect("dd runs");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        let device = &self.device;
        run(&[
            format!("if={device}"),
            "of=/dev/null".into(),
            "bs=8k".into(),
            format!("count={READS}"),
            "iflag=direct".into(),
        ]);
        let words = ["if=/dev/zero", "bs=4k", "oflag=direct", "conv=fsync,notrunc"].map(String::from);
        run(&[&words[..], &[format!("of={device}"), format!("count={WRITES}")]].concat());
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = fs::remove_file(&self.file);
    }
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn options(disk: u32, method: MethodChoice) -> SessionOptions {
    SessionOptions { disks: vec![disk], method, budget: 1.0, needs_events: false, column_ns: 100_000_000 }
}

/// What was traced of a load, and what the kernel counted of it.
fn traced(disk: &LoopDisk, method: MethodChoice) -> (TraceSession, RequestTotals) {
    let device = disk.number();
    // udev looks at a new disk for a moment
    Command::new("udevadm").arg("settle").status().ok();
    let mut session = TraceSession::start(options(device, method), 0.0, now()).expect("a trace");
    let before = diskstats::read_totals()[&device];
    disk.load();
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    let counted = diskstats::read_totals()[&device].difference_since(before).expect("counts that grow");
    session.finish(now(), &mut |_| {}).expect("the end");
    (session, counted)
}

fn requests(session: &TraceSession, device: u32, operation: TracedOperation) -> u64 {
    session.summary.find_operation(device, operation).map_or(0, |sum| sum.requests)
}

#[test]
fn every_request_is_seen_as_the_kernel_counts_them() {
    let Some(disk) = LoopDisk::attach("sums") else { return };
    let device = disk.number();
    let (session, counted) = traced(&disk, MethodChoice::Tracefs);
    let of = |operation| requests(&session, device, operation);
    use TracedOperation::{Discard, Flush, FlushCall, Read, SyncWrite, Write};
    assert!(counted.reads >= READS && counted.writes >= WRITES, "{counted:?}");
    let (flushes, discards) = (counted.flushes.unwrap_or(0), counted.discards.unwrap_or(0));
    assert_eq!((of(Read), of(Flush), of(Discard)), (counted.reads, flushes, discards));
    assert_eq!(of(Write) + of(SyncWrite) + of(FlushCall), counted.writes);
    let (read, pairs) = session.counts().expect("events");
    assert_eq!((session.loss().total(), read.unknown, read.truncated_pages), (0, 0, 0));
    assert_eq!((pairs.without_beginning, pairs.without_start, pairs.clock_back), (0, 0, 0));
    let reads = session.summary.find_operation(device, Read).expect("reads");
    assert_eq!(reads.latency.count(), reads.device.count());
    assert!(reads.sequential_share().is_some_and(|share| share > 0.9), "{:?}", reads.sequential_share());
    let askers = session.summary.requesters(device);
    assert!(askers.iter().any(|a| a.comm.starts_with(b"dd\0") && a.requests >= READS), "{askers:?}");
}

#[test]
fn histograms_in_the_kernel_count_the_same() {
    let Some(disk) = LoopDisk::attach("bpf") else { return };
    let device = disk.number();
    let (session, counted) = traced(&disk, MethodChoice::Bpf);
    assert_eq!(session.method(), TraceMethod::Bpf);
    let of = |operation| requests(&session, device, operation);
    use TracedOperation::{Flush, Read, SyncWrite, Write};
    assert_eq!((of(Read), of(Flush)), (counted.reads, counted.flushes.unwrap_or(0)));
    // callers' flushes are not counted in the kernel; dd made one
    assert_eq!(of(Write) + of(SyncWrite), counted.writes - 1);
    let reads = session.summary.find_operation(device, Read).expect("reads");
    assert!(reads.bytes >= READS * 8192, "{}", reads.bytes);
    let (mean, longest) = (reads.latency.mean_ns().expect("some"), reads.latency.longest_ns().expect("some"));
    let at_device = reads.device.mean_ns().expect("some");
    assert!(at_device <= mean && mean <= longest as f64 && mean > 100.0, "{at_device} {mean} {longest}");
    // the sums and the steps are counted apart, and agree within the width of a step
    let by_steps: f64 = reads
        .latency
        .nonempty_buckets()
        .map(|(step, count)| {
            let (from, to) = diskwright_blocktrace::latency::bucket_edges(step);
            (from as f64 + to as f64) / 2.0 * count as f64
        })
        .sum::<f64>()
        / reads.latency.count() as f64;
    assert!((by_steps / mean - 1.0).abs() < 0.05, "{by_steps} {mean}");
    assert_eq!(session.kernel_loss().map(|l| l.no_room), Some(0));
}

/// Four programs request the same sectors at the same time. Kernel programs that read requests distinguish each by its
/// address.
#[test]
fn concurrent_requests_at_one_sector_are_distinguished_in_the_kernel() {
    let Some(disk) = LoopDisk::attach("one-place") else { return };
    let device = disk.number();
    Command::new("udevadm").arg("settle").status().ok();
    let mut session = TraceSession::start(options(device, MethodChoice::Bpf), 0.0, now()).expect("a trace");
    if session.reads_requests() != Some(true) {
        eprintln!("skipped: this kernel does not tell its types, or makes requests otherwise");
        return;
    }
    let before = diskstats::read_totals()[&device];
    let words = [&format!("if={}", disk.device), "of=/dev/null", "bs=4k", "count=2000", "iflag=direct"];
    let start = || Command::new("dd").args(words).stderr(std::process::Stdio::null()).spawn().expect("dd runs");
    let programs: Vec<_> = (0..4).map(|_| start()).collect();
    assert!(programs.into_iter().all(|mut program| program.wait().expect("its end").success()));
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    let counted = diskstats::read_totals()[&device].difference_since(before).expect("counts that grow");
    session.finish(now(), &mut |_| {}).expect("the end");
    let reads = session.summary.find_operation(device, TracedOperation::Read).expect("reads");
    assert!(counted.reads >= 8000, "{counted:?}");
    assert_eq!((reads.requests, reads.device.count()), (counted.reads, counted.reads));
    assert_eq!(session.loss().total(), 0);
}

/// Two traces and a third tracer at once: each sees everything.
#[test]
fn tracers_do_not_disturb_each_other() {
    let Some(disk) = LoopDisk::attach("two") else { return };
    let device = disk.number();
    let mut other = TraceSession::start(options(device, MethodChoice::Tracefs), 0.0, now()).expect("a trace");
    let mut third = TraceSession::start(options(device, MethodChoice::Bpf), 0.0, now()).expect("a trace");
    let (session, counted) = traced(&disk, MethodChoice::Tracefs);
    other.finish(now(), &mut |_| {}).expect("the end");
    third.finish(now(), &mut |_| {}).expect("the end");
    for session in [&session, &other, &third] {
        let reads = requests(session, device, TracedOperation::Read);
        assert!(reads >= counted.reads, "{reads} of {counted:?}");
        assert_eq!(session.loss().total(), 0);
    }
}

/// An instance left by a killed process is removed by the next process; instances of live processes stay.
#[test]
fn an_instance_of_a_dead_process_is_removed() {
    let Some(disk) = LoopDisk::attach("sweep") else { return };
    let tracefs = Tracefs::open().expect("tracefs");
    // no process has this number and this beginning
    let stale = tracefs.path("instances/diskwright-1-1-0");
    let sweeping = || {
        fs::create_dir(&stale).expect("an instance");
        let live = TraceSession::start(options(disk.number(), MethodChoice::Tracefs), 0.0, now()).expect("a trace");
        assert!(!stale.exists());
        live
    };
    // a test beside this one may have swept it first
    let tells = |live: &TraceSession| live.remarks.iter().any(|remark| remark.contains("removed a trace instance"));
    let live = (0..20).map(|_| sweeping()).find(tells).expect("reported");
    let mine = || {
        let prefix = format!("diskwright-{}-", std::process::id());
        tracefs.instances().into_iter().filter(|(name, _)| name.starts_with(&prefix)).collect::<Vec<_>>()
    };
    assert!(mine().iter().any(|(_, lives)| *lives));
    assert_eq!(Tracefs::open().expect("tracefs").remove_stale_instances(), 0);
    drop(live);
}

/// The disk goes while it is traced.
#[test]
fn a_device_that_goes_keeps_its_figures() {
    let Some(disk) = LoopDisk::attach("gone") else { return };
    let device = disk.number();
    let mut session = TraceSession::start(options(device, MethodChoice::Tracefs), 0.0, now()).expect("a trace");
    disk.load();
    drop(disk);
    session.finish(now(), &mut |_| {}).expect("the end");
    assert!(requests(&session, device, TracedOperation::Read) >= READS);
}

/// Pages go to memory first; the thread that dirtied them is reported, whichever thread writes them to the device.
#[test]
fn threads_that_dirtied_pages_are_reported() {
    use std::io::Write;
    let Some(disk) = LoopDisk::attach("dirty") else { return };
    let device = disk.number();
    let mut session = TraceSession::start(options(device, MethodChoice::Tracefs), 0.0, now()).expect("a trace");
    if Tracefs::open().and_then(|tracefs| tracefs.read_event_table()).expect("events").0.dirty.is_none() {
        eprintln!("skipped: this kernel does not tell who dirties pages");
        return;
    }
    let mut file = fs::OpenOptions::new().write(true).open(&disk.device).expect("the device");
    file.write_all(&vec![7; 256 << 10]).expect("room");
    file.sync_all().expect("a sync");
    session.finish(now(), &mut |_| {}).expect("the end");
    let threads = session.dirty_pages().expect("it is traced").threads_of_device(device);
    let mine = rustix::thread::gettid().as_raw_nonzero().get();
    assert!(threads.first().is_some_and(|t| t.pid == mine && t.pages > 0 && !t.comm.is_empty()), "{threads:?}");
    assert_eq!(assess_certainty(&threads), DirtyCertainty::Likely);
    assert_eq!(session.counts().map(|(read, _)| read.unknown), Some(0));
}

/// A budget that is always exceeded: fewer and fewer sectors are traced, but both ends of each traced request.
#[test]
fn tracing_is_reduced_above_the_budget() {
    let Some(disk) = LoopDisk::attach("budget") else { return };
    let device = disk.number();
    let mut options = options(device, MethodChoice::Tracefs);
    options.budget = 1e-6;
    let mut session = TraceSession::start(options, 0.0, now()).expect("a trace");
    let until = now() + 3_500_000_000;
    while now() < until {
        disk.load();
        session.poll(now(), &mut |_| {}).expect("events");
        session.enforce_budget().expect("a budget");
    }
    assert!(session.sample_divisor() >= 2, "{:?}", session.remarks);
    assert!(
        session.remarks.iter().any(|r| r.contains("from then on, 1 of 2 address ranges is traced")),
        "{:?}",
        session.remarks
    );
    // 4 MB are read: 32 pieces of 128 KiB, of which a part is traced from now on
    let before = requests(&session, device, TracedOperation::Read);
    disk.load();
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    session.poll(now(), &mut |_| {}).expect("events");
    let seen = requests(&session, device, TracedOperation::Read) - before;
    assert!(seen > 0 && seen <= READS / 2 + 32, "{seen} of {READS}");
    let cost = session.cost();
    assert!(cost.kernel_ns > 0.0 && cost.processor_share().is_some_and(|share| share > 1e-6), "{cost:?}");
    assert!((5.0..50_000.0).contains(&session.event_ns()), "{}", session.event_ns());
    assert_eq!(session.counts().map(|(_, pairs)| pairs.clock_back), Some(0));
}

/// Histograms in the kernel are reduced too, and count each request of the sample once.
#[test]
fn kernel_histograms_are_reduced_above_the_budget() {
    let Some(disk) = LoopDisk::attach("bpf-budget") else { return };
    let device = disk.number();
    let mut options = options(device, MethodChoice::Bpf);
    options.budget = 1e-6;
    let mut session = TraceSession::start(options, 0.0, now()).expect("a trace");
    let until = now() + 3_500_000_000;
    while now() < until {
        disk.load();
        session.poll(now(), &mut |_| {}).expect("counts");
        session.enforce_budget().expect("a budget");
    }
    assert!(session.is_reduced() && session.sample_divisor() >= 2, "{:?}", session.remarks);
    session.poll(now(), &mut |_| {}).expect("counts");
    let before = requests(&session, device, TracedOperation::Read);
    disk.load();
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    session.poll(now(), &mut |_| {}).expect("counts");
    let seen = requests(&session, device, TracedOperation::Read) - before;
    assert!(seen > 0 && seen <= READS / 2 + 32, "{seen} of {READS}");
    assert!((5.0..50_000.0).contains(&session.event_ns()), "{}", session.event_ns());
}
