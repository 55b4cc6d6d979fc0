//! The read-ahead window of a disk.

use diskwright_base::DeviceKind;

use super::queue::{is_rotating, missing_queue_file, queue_path, single_request_evidence};
use super::{format_bytes, format_percent, lower_to_info};
use crate::check::{CheckOutcome, Proposal};
use crate::gain::{ExpectedGain, ReadAheadModel};
use crate::host_facts::HostFacts;
use crate::host_load::DiskLoad;
use crate::role::ServerRole;

const KIB: f64 = 1024.0;

/// Widest window that is proposed, KiB: it hides most of a sequential reader's waiting time.
const PROPOSED_WINDOW_KIB: f64 = 4096.0;
/// Share of the largest possible read from which a read is assumed to be read-ahead.
const READ_AHEAD_SIZE_SHARE: f64 = 0.7;

/// Judges the read-ahead window.
pub(super) fn judge_read_ahead(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(devices) = read_ahead_devices(host, disk) else { return CheckOutcome::Absent };
    let windows = devices.iter().map(|device| host.queue_number(device, "read_ahead_kb").ok_or(device));
    let window = match windows.collect::<Result<Vec<f64>, _>>() {
        Ok(windows) => windows.into_iter().fold(0.0, f64::max),
        Err(device) => return missing_queue_file(host, device, "read_ahead_kb"),
    };
    let max_request_kib = host.queue_number(disk, "max_sectors_kb").unwrap_or(1280.0);
    let load = host.disk_load(disk).filter(|load| load.reads > 0.0);
    let of_devices = if devices == [disk] { String::new() } else { format!(" of {}", devices.join(" and ")) };
    let mut proposal = Proposal::new(format!("read_ahead_kb{of_devices} is {window:.0}"));
    let writes = |value: &str| {
        let write = |device: &String| (queue_path(device, "read_ahead_kb"), value.to_owned());
        devices.iter().map(write).collect::<Vec<_>>()
    };
    if let Some(wider) = load.and_then(|load| find_wider_window(host, disk, load, window, max_request_kib)) {
        (proposal.writes, proposal.gain) = (writes(&wider.value), wider.gain);
        return proposal.with_good(wider.value).with_evidence(Some((wider.evidence, wider.share))).into_outcome();
    }
    let small_mean_bytes = load.and_then(DiskLoad::bytes_per_read).filter(|mean| *mean < 32.0 * KIB);
    match (load, small_mean_bytes) {
        (Some(load), Some(mean))
            if window >= 1024.0
                && host.role == ServerRole::Database
                && is_rotating(host, disk)
                && load.busy_share() > 0.1 =>
        {
            let text = format!(
                "reads are {} on average, and the disk was busy {}",
                format_bytes(mean),
                format_percent(load.busy_share())
            );
            proposal.writes = writes("128");
            proposal.with_good("128").with_evidence(Some((text, load.busy_share()))).into_outcome()
        }
        // a database may have reduced it for its random reads
        _ if window < 64.0 && host.role != ServerRole::Database => {
            proposal.writes = writes("128");
            lower_to_info(proposal.with_good("128 or more").with_evidence(single_request_evidence(load))).into_outcome()
        }
        _ => CheckOutcome::Good,
    }
}

/// Filesystems with their own read-ahead (`/sys/class/bdi`): the disk's value does not apply to them.
const OWN_READ_AHEAD_FILESYSTEMS: &[&str] = &["bcachefs", "btrfs", "zfs"];

/// Returns the devices whose read-ahead applies to readers of a disk: those on which its filesystems lie, which may be
/// volumes above the disk. `None` if one of them is an array, which spreads a window over its members, or if all
/// filesystems have their own read-ahead.
fn read_ahead_devices(host: &HostFacts, disk: &str) -> Option<Vec<String>> {
    let topology = &host.topology;
    let filesystems = topology
        .filesystems
        .iter()
        .filter(|f| !f.device.is_empty() && topology.leaves_under(&f.device).contains(&disk));
    let has_own_read_ahead = |kind: &str| OWN_READ_AHEAD_FILESYSTEMS.contains(&kind);
    let (independent, affected): (Vec<_>, Vec<_>) = filesystems.partition(|f| has_own_read_ahead(&f.kind));
    if affected.is_empty() {
        return independent.is_empty().then(|| vec![disk.to_owned()]);
    }
    let mut devices: Vec<String> = Vec::new();
    for filesystem in affected {
        let device = topology.find_device(&filesystem.device)?;
        let whole_device = match device.kind {
            DeviceKind::Partition => device.below.first()?,
            _ => &device.name,
        };
        let is_path = topology.find_device(whole_device).is_some_and(|device| device.kind == DeviceKind::Multipath);
        if topology.leaves_under(whole_device).len() > 1 && !is_path {
            return None;
        }
        if !devices.contains(whole_device) {
            devices.push(whole_device.clone());
        }
    }
    devices.sort_unstable();
    Some(devices)
}

/// A wider window, and its gain.
struct WiderWindow {
    /// Width, KiB, as it is written.
    value: String,
    evidence: String,
    /// Share of the time that the evidence concerns.
    share: f64,
    gain: Option<ExpectedGain>,
}

/// Windows that may be proposed, KiB.
const WINDOW_OPTIONS_KIB: [f64; 5] = [256.0, 512.0, 1024.0, 2048.0, PROPOSED_WINDOW_KIB];
/// Number of reads as large as the window from which a reader is judged.
const MIN_WINDOW_READS: f64 = 100.0;
/// Share of the time spent with such reads from which a wider window is proposed.
const MIN_WINDOW_READ_SHARE: f64 = 0.1;
/// Size of a read, relative to the largest that read-ahead makes, above which the program itself requests more.
const PROGRAM_READ_RATIO: f64 = 1.5;
/// A smaller window is preferred if it has at least this share of the largest gain.
const SUFFICIENT_GAIN_SHARE: f64 = 0.95;
/// Gain below which no other window is proposed.
const MIN_WINDOW_GAIN: f64 = 1.1;

/// Sums of the reads as large as read-ahead makes them.
struct WindowReads {
    /// Mean bytes of a read.
    mean_bytes: f64,
    /// Mean time of a read, s.
    response_s: f64,
    /// Bytes per second of busy time.
    reached_bytes_per_s: f64,
    /// Share of the time that the disk was busy with them.
    share: f64,
}

/// Sums the reads of at least `min_bytes`; `None` if they are too few to judge.
fn sum_window_reads(load: &DiskLoad, min_bytes: f64) -> Option<WindowReads> {
    let (mut reads, mut bytes, mut read_s, mut busy_s) = (0.0, 0.0, 0.0, 0.0);
    for tick in load.sequential_reads().iter().filter(|tick| tick.bytes_per_read() >= min_bytes) {
        reads += tick.reads;
        bytes += tick.bytes;
        read_s += tick.read_s;
        busy_s += tick.busy_s;
    }
    let share = busy_s / load.seconds;
    if reads < MIN_WINDOW_READS || share < MIN_WINDOW_READ_SHARE || busy_s <= 0.0 {
        return None;
    }
    Some(WindowReads {
        mean_bytes: bytes / reads,
        response_s: read_s / reads,
        reached_bytes_per_s: bytes / busy_s,
        share,
    })
}

/// Finds a wider window for sequential readers that wait for each window.
fn find_wider_window(
    host: &HostFacts,
    disk: &str,
    load: &DiskLoad,
    window: f64,
    max_request_kib: f64,
) -> Option<WiderWindow> {
    if window >= PROPOSED_WINDOW_KIB {
        return None;
    }
    let max_read_bytes = window.min(max_request_kib) * KIB;
    // one or two windows are in flight; with more, the device itself is the limit or there are many readers
    let reads = sum_window_reads(load, READ_AHEAD_SIZE_SHARE * max_read_bytes)?;
    let ceiling = host.ceilings.iter().find(|ceiling| ceiling.device == disk);
    let rate = ceiling.and_then(|ceiling| ceiling.read_bytes_per_s.or(ceiling.bytes_per_s));
    let model = match rate {
        Some(rate) => ReadAheadModel::with_rate(rate, reads.mean_bytes, reads.response_s, reads.reached_bytes_per_s),
        None => ReadAheadModel::fit_to_reads(load.sequential_reads(), reads.mean_bytes, reads.reached_bytes_per_s),
    };
    // if a program requests more than the window at once, the kernel reads that much, up to the largest request
    // (mm/readahead.c, ondemand_readahead): its reads are larger than the window
    let is_program_sized = reads.mean_bytes > PROGRAM_READ_RATIO * max_read_bytes;
    let effective_window = if is_program_sized { reads.mean_bytes / KIB } else { window };
    let (target, factor) = choose_window(model.as_ref(), effective_window, max_request_kib)?;
    let source = if rate.is_some() { "the rate measured by a probe" } else { "reads of several sizes in the log" };
    let gain = factor.map(|factor| ExpectedGain {
        factor,
        text: format!("sequential readers become {factor:.1} times as fast"),
        basis: format!("read-ahead windows in flight divided by their response time, from {source}"),
    });
    let evidence = format!(
        "{} of the time, a reader waited for reads of {}, the size of the read-ahead window, {:.1} ms each",
        format_percent(reads.share),
        format_bytes(reads.mean_bytes),
        reads.response_s * 1e3
    );
    Some(WiderWindow { value: format!("{target:.0}"), evidence, share: reads.share, gain })
}

/// Returns the smallest window with nearly the whole gain, KiB, and its gain if there is a model. `None` if no window
/// is at least twice as wide, or the gain is too small.
fn choose_window(model: Option<&ReadAheadModel>, window: f64, max_request_kib: f64) -> Option<(f64, Option<f64>)> {
    let options = || WINDOW_OPTIONS_KIB.into_iter().filter(|option| *option >= 2.0 * window);
    let smallest = options().next()?;
    let Some(model) = model else { return Some(((2.0 * smallest).min(PROPOSED_WINDOW_KIB), None)) };
    let speedup = |option: f64| model.speedup(window * KIB, option * KIB, max_request_kib * KIB);
    let sufficient = SUFFICIENT_GAIN_SHARE * speedup(PROPOSED_WINDOW_KIB);
    let target = options().find(|option| speedup(*option) >= sufficient).unwrap_or(PROPOSED_WINDOW_KIB);
    let factor = speedup(target);
    (factor >= MIN_WINDOW_GAIN).then_some((target, Some(factor)))
}
