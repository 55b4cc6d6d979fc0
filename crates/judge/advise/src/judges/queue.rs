//! The block layer's queue of a disk.

use diskwright_base::diskstats::nvme_disk_counts_paths;
use diskwright_base::{DeviceClass, DeviceKind};

use super::{absent_or_unknown, format_bytes, format_percent, lower_to_info, unknown_fact};
use crate::advice::active_choice;
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::{HostFacts, sysfs_name};
use crate::host_load::DiskLoad;
use crate::role::ServerRole;

const KIB: f64 = 1024.0;

/// Path of a file of a disk's queue.
pub(super) fn queue_path(disk: &str, file: &str) -> String {
    format!("sys/block/{}/queue/{file}", sysfs_name(disk))
}

/// Returns the outcome for a disk that lacks a file of its queue.
pub(super) fn missing_queue_file(host: &HostFacts, disk: &str, file: &str) -> CheckOutcome {
    unknown_fact(host, &queue_path(disk, file))
}

/// Returns how much of the time the disk was busy, and with one request in flight, as evidence; `None` for an idle
/// disk.
pub(super) fn single_request_evidence(load: Option<&DiskLoad>) -> Option<(String, f64)> {
    let load = load.filter(|load| load.busy_share() > 0.01)?;
    let share = load.single_request_share()?;
    let text = format!(
        "the disk was busy {} of the time, {} of that with one request in flight",
        format_percent(load.busy_share()),
        format_percent(share)
    );
    Some((text, load.busy_share() * share))
}

/// Requests per second from which a scheduler's cost per request is reported (RHEL 9, storage guide: the scheduler
/// `none` for fast devices; in measurements the lock of mq-deadline shows at some 100,000 requests per second).
const NOTABLE_REQUESTS_PER_S: f64 = 50_000.0;

/// Judges the I/O scheduler.
pub(super) fn judge_scheduler(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(text) = host.queue_file(disk, "scheduler") else { return missing_queue_file(host, disk, "scheduler") };
    let now = active_choice(text);
    // the driver has no scheduler, or only one choice
    if !text.contains(' ') {
        return CheckOutcome::Absent;
    }
    let is_available = |name: &str| text.split([' ', '[', ']']).any(|word| word == name);
    let load = host.disk_load(disk);
    let requests = load.map(|load| (load.reads + load.writes) / load.seconds);
    let proposal = Proposal::new(format!("the scheduler is {now}"));
    match host.device_class(disk) {
        DeviceClass::Rotational if now == "none" && is_available("mq-deadline") && is_single_disk(host, disk) => {
            lower_to_info(
                proposal.with_good("mq-deadline").with_value("mq-deadline").with_evidence(queue_evidence(load)),
            )
            .into_outcome()
        }
        // bfq suits slow flash: cards and sticks
        DeviceClass::Nvme | DeviceClass::Flash
            if now == "bfq"
                && host.role != ServerRole::Desktop
                && is_available("none")
                && !is_slow_flash(host, disk) =>
        {
            lower_to_info(proposal.with_good("none").with_value("none").with_evidence(busy_evidence(load)))
                .into_outcome()
        }
        DeviceClass::Nvme if now != "none" && requests.is_some_and(|rate| rate > NOTABLE_REQUESTS_PER_S) => {
            let evidence = requests.map(|rate| (format!("{rate:.0} requests per second on average"), 1.0));
            proposal.with_good("none").with_value("none").with_evidence(evidence).into_outcome()
        }
        DeviceClass::Unknown => CheckOutcome::Unknown("the kind of device is unknown".into()),
        _ => CheckOutcome::Good,
    }
}

fn is_slow_flash(host: &HostFacts, disk: &str) -> bool {
    host.is_usb(disk) || disk.starts_with("mmcblk")
}

/// Returns the name of the driver of a SCSI disk's adapter.
fn scsi_driver<'a>(host: &'a HostFacts, disk: &str) -> Option<&'a str> {
    let sysfs_path = host.device_path(disk)?;
    let adapter =
        sysfs_path.split('/').find(|part| part.strip_prefix("host").is_some_and(|n| n.parse::<u32>().is_ok()))?;
    host.tree.get(&format!("sys/class/scsi_host/{adapter}/proc_name"))
}

/// Returns true for a single disk. The array of a hardware controller also reports that it rotates, but orders requests
/// itself.
fn is_single_disk(host: &HostFacts, disk: &str) -> bool {
    let model = host.find_device(disk).and_then(|device| device.model.clone()).unwrap_or_default().to_lowercase();
    let array_words = ["raid", "logical volume", "perc", "lun", "virtual", "mr9", "smart array", "servraid"];
    !array_words.iter().any(|word| model.contains(word))
        && !scsi_driver(host, disk).is_some_and(diskwright_health::access::is_raid_driver)
        && host.find_device(disk).is_some_and(|d| d.members.is_none_or(|n| n == 1))
}

/// Returns how much of the time the disk was busy, as evidence; `None` for a nearly idle disk.
fn busy_evidence(load: Option<&DiskLoad>) -> Option<(String, f64)> {
    let load = load.filter(|load| load.busy_share() > 0.05)?;
    Some((format!("the disk was busy {} of the time", format_percent(load.busy_share())), load.busy_share()))
}

/// Returns how much of the time requests queued, as evidence; `None` if they rarely did.
fn queue_evidence(load: Option<&DiskLoad>) -> Option<(String, f64)> {
    let load = load.filter(|load| load.busy_share() > 0.05)?;
    let share = load.busy_share() * (1.0 - load.single_request_share()?);
    let text = format!("{} of the time more than one request was in flight", format_percent(share));
    (share > 0.05).then_some((text, share))
}

pub(super) fn is_rotating(host: &HostFacts, disk: &str) -> bool {
    host.device_class(disk) == DeviceClass::Rotational
}

/// Number of requests that the kernel chooses for the deepest devices (block/blk-mq-sched.c: twice BLKDEV_DEFAULT_RQ).
const MAX_REQUESTS: f64 = 256.0;

/// Judges the number of requests in the queue.
pub(super) fn judge_requests(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(requests) = host.queue_number(disk, "nr_requests") else {
        return missing_queue_file(host, disk, "nr_requests");
    };
    let scheduler = host.queue_file(disk, "scheduler").map(active_choice);
    // without a scheduler, the number is that of the hardware's tags, which cannot be increased; the schedulers from
    // before blk-mq had as many requests for reads as for writes
    if scheduler.is_none_or(|name| matches!(name, "none" | "noop" | "deadline" | "cfq")) {
        return CheckOutcome::Good;
    }
    let depth = host.find_device(disk).and_then(|device| device.device_depth).map(f64::from);
    let depth = depth.or_else(|| host.block_number(disk, "device/queue_depth"));
    let min_requests = depth.map_or(64.0, |depth| (2.0 * depth).max(64.0)).min(MAX_REQUESTS);
    if requests >= min_requests {
        return CheckOutcome::Good;
    }
    let depth_text = depth.map_or_else(String::new, |depth| format!(" and the device's queue depth is {depth:.0}"));
    let value = format!("{min_requests:.0}");
    let proposal = Proposal::new(format!("nr_requests is {requests:.0}{depth_text}"));
    lower_to_info(
        proposal
            .with_good(format!("{value} or more"))
            .with_value(value)
            .with_evidence(queue_evidence(host.disk_load(disk))),
    )
    .into_outcome()
}

/// The kernel's default size of a request, KiB (BLK_DEF_MAX_SECTORS_CAP, 2,560 sectors until 6.13).
const DEFAULT_REQUEST_KIB: f64 = 1280.0;

/// Share of the maximum size from which the maximum is assumed to limit the mean request.
const LIMITED_SIZE_SHARE: f64 = 0.7;

/// Judges the maximum size of requests.
pub(super) fn judge_request_size(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(now) = host.queue_number(disk, "max_sectors_kb") else {
        return missing_queue_file(host, disk, "max_sectors_kb");
    };
    let Some(hardware) = host.queue_number(disk, "max_hw_sectors_kb") else {
        return missing_queue_file(host, disk, "max_hw_sectors_kb");
    };
    let optimal = host.queue_number(disk, "optimal_io_size").unwrap_or(0.0) / KIB;
    // an absurd optimal size is a bridge's error
    let stripe = if optimal > 0.0 && optimal <= 16_384.0 { optimal } else { 0.0 };
    let base_size = if stripe > 0.0 && stripe < 512.0 { stripe } else { 512.0 };
    let good = base_size.max(stripe).min(hardware);
    if now >= good {
        return CheckOutcome::Good;
    }
    let value = DEFAULT_REQUEST_KIB.max(stripe).min(hardware);
    let load = host.disk_load(disk);
    let mean_and_busy = load.and_then(|load| {
        let requests = load.reads + load.writes;
        (requests > 0.0).then(|| ((load.read_bytes + load.write_bytes) / requests, load.busy_share()))
    });
    let limited = mean_and_busy.filter(|(mean, busy)| *mean >= LIMITED_SIZE_SHARE * now * KIB && *busy > 0.05);
    let evidence = limited.map(|(mean, busy)| {
        (
            format!(
                "requests are {} on average, the largest size allowed; the disk was busy {} of the time",
                format_bytes(mean),
                format_percent(busy)
            ),
            busy,
        )
    });
    let stripe_text = if stripe > 0.0 { format!(", a whole stripe is {stripe:.0} KiB") } else { String::new() };
    let mut proposal =
        Proposal::new(format!("max_sectors_kb is {now:.0}; the hardware takes {hardware:.0}{stripe_text}"));
    // a volume on the disk splits requests by its own limit before they reach the disk
    let mapped = host.topology.devices.iter().filter(|device| device.kind == DeviceKind::Dm);
    let volumes =
        mapped.filter(|device| host.topology.leaves_under(&device.name) == [disk]).map(|device| device.name.as_str());
    let is_limiting = |device: &&str| {
        let number = |file: &str| host.queue_number(device, file);
        number("max_sectors_kb").is_some_and(|now| now < value)
            && number("max_hw_sectors_kb").is_some_and(|hardware| hardware >= value)
    };
    let write = |device: &str| (queue_path(device, "max_sectors_kb"), format!("{value:.0}"));
    proposal.writes = std::iter::once(disk).chain(volumes.filter(is_limiting)).map(write).collect();
    lower_to_info(proposal.with_good(format!("{value:.0}")).with_evidence(evidence)).into_outcome()
}

/// Judges write-back throttling.
pub(super) fn judge_write_throttling(host: &HostFacts, disk: &str) -> CheckOutcome {
    let scheduler = host.queue_file(disk, "scheduler").map(active_choice);
    // bfq throttles writes in its own way; a database orders its writes itself
    if scheduler == Some("bfq") || host.role == ServerRole::Database {
        return CheckOutcome::Absent;
    }
    let Some(target) = host.queue_number(disk, "wbt_lat_usec") else {
        return absent_or_unknown(host, &queue_path(disk, "wbt_lat_usec"));
    };
    if target > 0.0 {
        return CheckOutcome::Good;
    }
    let Some(load) = host.disk_load(disk) else {
        return CheckOutcome::Unknown("only a log shows whether reads wait behind writes".into());
    };
    let Some((queued_s, _, in_flight)) = load.queued_writes() else { return CheckOutcome::Good };
    let (share, read_s) = (queued_s / load.seconds, load.read_s / load.reads.max(1.0));
    let slow_read_s = if is_rotating(host, disk) { 0.05 } else { 0.005 };
    if share < 0.05 || load.reads < 100.0 || read_s < slow_read_s {
        return CheckOutcome::Good;
    }
    let value = if is_rotating(host, disk) { "75000" } else { "2000" };
    let evidence = format!(
        "{} of the time, {} of writes were in flight, and a read took {:.0} ms on average",
        format_percent(share),
        format_bytes(in_flight),
        read_s * 1e3
    );
    Proposal::new("wbt_lat_usec is 0: writes are not throttled")
        .with_good(value)
        .with_value(value)
        .with_evidence(Some((evidence, share)))
        .into_outcome()
}

/// Judges the setting of the write cache.
pub(super) fn judge_write_cache(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(now) = host.queue_file(disk, "write_cache") else {
        return missing_queue_file(host, disk, "write_cache");
    };
    match reported_cache_type(host, disk) {
        Some(reported) if reported.starts_with("write back") && now == "write through" => {
            let seen = format!(
                "the disk reports its cache as `{reported}`, but the kernel treats it as `{now}` and sends no flushes"
            );
            Proposal::new(seen).with_value("write back").into_outcome()
        }
        _ => CheckOutcome::Good,
    }
}

/// Returns what a SCSI disk itself reports about its cache: `write back` or `write through`.
fn reported_cache_type<'a>(host: &'a HostFacts, disk: &str) -> Option<&'a str> {
    host.tree.get(&format!("{}/cache_type", scsi_disk_path(host, disk)?))
}

/// Returns true if the disk has a cache that a power cut empties, or does not report whether it has one. The disk's
/// report has precedence over the kernel's setting, which may have been changed.
pub(super) fn may_lose_writes(host: &HostFacts, disk: &str) -> bool {
    let cache = reported_cache_type(host, disk).or_else(|| host.queue_file(disk, "write_cache"));
    cache.is_none_or(|cache| !cache.starts_with("write through"))
}

/// Returns the path `sys/class/scsi_disk/0:0:0:0` of a disk, by the address in its device path.
pub(super) fn scsi_disk_path(host: &HostFacts, disk: &str) -> Option<String> {
    let sysfs_path = host.device_path(disk)?;
    let is_address =
        |part: &&str| part.split(':').count() == 4 && part.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let address = sysfs_path.split('/').rev().find(is_address)?;
    Some(format!("sys/class/scsi_disk/{address}"))
}

/// Judges the rotational flag.
pub(super) fn judge_rotational(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(now) = host.queue_file(disk, "rotational") else { return missing_queue_file(host, disk, "rotational") };
    let model = host.find_device(disk).and_then(|device| device.model.clone()).unwrap_or_default();
    let upper_model = model.to_uppercase();
    let has_word = |name: &str| upper_model.split([' ', '_', '-']).any(|word| word == name);
    // a dock for both kinds of disks has SSD and HDD in its name
    let is_flash = (has_word("SSD") || has_word("NVME")) && !has_word("HDD") || disk.starts_with("nvme");
    if now == "1" && is_flash {
        let seen = format!("the kernel treats {} as a rotating disk", if model.is_empty() { disk } else { &model });
        return Proposal::new(seen).with_value("0").into_outcome();
    }
    CheckOutcome::Good
}

/// Judges disabled merging of requests.
pub(super) fn judge_nomerges(host: &HostFacts, disk: &str, proposal: Proposal) -> CheckOutcome {
    let requests = host.disk_load(disk).map(|load| (load.reads + load.writes) / load.seconds);
    // at a million requests per second, looking for requests to merge costs more than it saves
    if requests.is_some_and(|rate| rate > 1e6) {
        return CheckOutcome::Good;
    }
    lower_to_info(proposal.with_evidence(busy_evidence(host.disk_load(disk)))).into_outcome()
}

/// Judges disabled I/O statistics. Before Linux 6.4, an NVMe disk with several paths has statistics only on its paths.
pub(super) fn judge_iostats(host: &HostFacts, disk: &str, proposal: Proposal) -> CheckOutcome {
    let paths = super::paths::hidden_nvme_paths(host, disk);
    let is_old = host.tree.get("proc/sys/kernel/osrelease").and_then(nvme_disk_counts_paths) == Some(false);
    if is_old && !paths.is_empty() && paths.iter().all(|path| host.queue_file(path, "iostats") == Some("1")) {
        return CheckOutcome::Good;
    }
    proposal.into_outcome()
}

/// Judges the queue depth of the device.
pub(super) fn judge_depth(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(depth) = host.block_number(disk, "device/queue_depth") else {
        return absent_or_unknown(host, &format!("sys/block/{}/device/queue_depth", sysfs_name(disk)));
    };
    // a USB bridge without UASP takes one request at a time; link.usb-driver reports that
    if depth > 1.0
        || host.is_usb(disk)
        || !matches!(host.device_class(disk), DeviceClass::Rotational | DeviceClass::Flash)
    {
        return CheckOutcome::Good;
    }
    lower_to_info(
        Proposal::new(format!("queue_depth is {depth:.0}")).with_evidence(queue_evidence(host.disk_load(disk))),
    )
    .into_outcome()
}

/// Seconds for which a desktop drive may retry an unreadable sector (raid.wiki, Timeout Mismatch).
const LONG_RECOVERY_S: f64 = 180.0;

/// Judges the timeout of requests.
pub(super) fn judge_timeout(host: &HostFacts, disk: &str) -> CheckOutcome {
    let in_array = || {
        let arrays = host.topology.arrays_over(disk);
        arrays.iter().any(|array| array.kind == DeviceKind::Md && array.level.is_some_and(is_redundant))
    };
    // Amazon advises this for NVMe: a stalled volume recovers, but a request that times out fails
    let is_cloud_volume =
        host.block_file(disk, "device/model").is_some_and(|model| model.trim() == "Amazon Elastic Block Store");
    if is_cloud_volume && disk.starts_with("nvme") {
        let Some(milliseconds) = host.queue_number(disk, "io_timeout") else {
            return missing_queue_file(host, disk, "io_timeout");
        };
        if milliseconds > 30_000.0 {
            return CheckOutcome::Good;
        }
        let proposal = Proposal::new(format!("io_timeout is {:.0} s on a cloud volume", milliseconds / 1e3));
        return proposal
            .with_severity(AdviceSeverity::Notice)
            .with_value("4294967295")
            .with_good("4294967295 (the longest)")
            .into_outcome();
    }
    if host.device_class(disk) != DeviceClass::Rotational || !in_array() {
        return CheckOutcome::Absent;
    }
    let Some(seconds) = host.block_number(disk, "device/timeout") else {
        return unknown_fact(host, &format!("sys/block/{}/device/timeout", sysfs_name(disk)));
    };
    if seconds >= LONG_RECOVERY_S {
        return CheckOutcome::Good;
    }
    CheckOutcome::Unknown(format!(
        "the kernel gives up after {seconds:.0} s; sysfs does not show how long the drive retries (SCT ERC)"
    ))
}

fn is_redundant(level: diskwright_base::RaidLevel) -> bool {
    !matches!(level, diskwright_base::RaidLevel::Linear | diskwright_base::RaidLevel::Raid0)
}

/// Judges the number of queues for the processors.
pub(super) fn judge_processors(host: &HostFacts, disk: &str) -> CheckOutcome {
    // other disks have one queue, and need only one
    if host.device_class(disk) != DeviceClass::Nvme && !disk.starts_with("vd") {
        return CheckOutcome::Absent;
    }
    let folder = format!("sys/block/{}/mq", sysfs_name(disk));
    let queues = host.tree.names_in(&folder);
    // the disk over several NVMe paths has no queues of its own
    if queues.is_empty() {
        return if host.has_facts { CheckOutcome::Absent } else { unknown_fact(host, &folder) };
    }
    let mut processors = 0;
    for queue in &queues {
        let path = format!("{folder}/{queue}/cpu_list");
        let Some(list) = host.tree.get(&path) else { return unknown_fact(host, &path) };
        processors += list.split(',').filter(|word| !word.trim().is_empty()).count();
    }
    if queues.len() > 1 || processors < 4 {
        return CheckOutcome::Good;
    }
    lower_to_info(
        Proposal::new(format!("one queue for {processors} processors"))
            .with_evidence(busy_evidence(host.disk_load(disk))),
    )
    .into_outcome()
}

/// Filesystems that support zones.
const ZONED_FILESYSTEMS: &[&str] = &["btrfs", "f2fs", "zonefs"];

/// Judges the use of a zoned disk.
pub(super) fn judge_zoned(host: &HostFacts, disk: &str) -> CheckOutcome {
    match host.queue_file(disk, "zoned") {
        None => absent_or_unknown(host, &queue_path(disk, "zoned")),
        Some("none") => CheckOutcome::Good,
        Some(kind @ ("host-aware" | "host-managed")) => {
            let tracks = if is_rotating(host, disk) { "its tracks overlap and" } else { "its zones" };
            let filesystems =
                host.topology.filesystems.iter().filter(|f| host.topology.leaves_under(&f.device).contains(&disk));
            let kinds: Vec<&str> = filesystems.map(|filesystem| filesystem.kind.as_str()).collect();
            // these filesystems write each zone sequentially themselves
            if !kinds.is_empty() && kinds.iter().all(|kind| ZONED_FILESYSTEMS.contains(kind)) {
                return CheckOutcome::Good;
            }
            Proposal::new(format!("the disk is {kind}: {tracks} must be written sequentially")).into_outcome()
        }
        Some(_) => unknown_fact(host, &queue_path(disk, "zoned")),
    }
}

/// Judges the use of a disk with several actuators.
pub(super) fn judge_actuators(host: &HostFacts, disk: &str) -> CheckOutcome {
    let ranges = host.tree.names_in(&queue_path(disk, "independent_access_ranges")).len();
    match ranges {
        _ if !host.has_facts => missing_queue_file(host, disk, "independent_access_ranges"),
        0 | 1 => CheckOutcome::Good,
        _ => {
            Proposal::new(format!("the disk has {ranges} actuators, each with its own range of sectors")).into_outcome()
        }
    }
}
