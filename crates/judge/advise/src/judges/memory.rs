//! Memory, swap and the limits of dirty pages.

use diskwright_base::DeviceClass;
use diskwright_base::counter_ids::paging;

use super::{absent_or_unknown, format_bytes, format_percent, format_rate, lower_to_info, unknown_fact};
use crate::advice::active_choice;
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::gain::{ExpectedGain, QueuedWrites};
use crate::host_facts::HostFacts;
use crate::host_load::DiskLoad;
use crate::role::ServerRole;

const MIB: f64 = 1_048_576.0;

/// A dirty limit that takes longer than this to write back, s, is reported; and the proposed time.
const MAX_DIRTY_S: f64 = 10.0;
const PROPOSED_DIRTY_S: f64 = 2.0;
/// Seconds of writing in flight from which a commit behind it waits noticeably.
const NOTABLE_WAIT_S: f64 = 0.1;
/// Minimum limit that is proposed; below it, a burst of small files blocks its writer.
const MIN_LIMIT_BYTES: f64 = 16.0 * MIB;

/// Returns the current upper and background limit, bytes; `None` if a limit is unknown.
fn dirty_limit_bytes(host: &HostFacts) -> Option<(f64, f64)> {
    // a share is relative to the machine's memory
    let memory = host.memory_bytes().filter(|_| !host.shows_container_memory());
    let limit_bytes = |bytes: &str, ratio: &str| -> Option<f64> {
        let fixed_bytes = host.sysctl_number(bytes)?;
        // the share is relative to dirtyable memory, which never exceeds all memory
        Some(if fixed_bytes > 0.0 { fixed_bytes } else { host.sysctl_number(ratio)? / 100.0 * memory? })
    };
    let upper = limit_bytes("vm.dirty_bytes", "vm.dirty_ratio")?;
    let background = limit_bytes("vm.dirty_background_bytes", "vm.dirty_background_ratio")?;
    Some((upper, background))
}

/// The disk with the most written bytes.
struct BulkWriter {
    disk: String,
    bytes_per_s: f64,
    /// Share of time in which its writes queued, and the queue.
    queued: Option<(f64, QueuedWrites)>,
}

/// Finds the disk with the most written bytes, if its write rate is known.
fn find_bulk_writer(host: &HostFacts) -> Option<BulkWriter> {
    let load = host.load.as_ref()?;
    let host_disks = host.check_instances(crate::check::CheckObject::Disk);
    // a copy to a USB stick is no reason to limit the whole host
    let has_fixed_disk = host_disks.iter().any(|disk| !host.is_usb(disk));
    let is_relevant = |disk: &str| !(has_fixed_disk && host.is_usb(disk));
    let is_disk = |disk: &String| host_disks.contains(disk) || host.find_device(disk).is_none_or(is_leaf_device);
    let disks = load.disks.iter().filter(|(disk, _)| is_disk(disk) && is_relevant(disk));
    let (disk, busiest_load) = disks.max_by(|a, b| a.1.write_bytes.total_cmp(&b.1.write_bytes))?;
    let queued = busiest_load.queued_writes().filter(|(seconds, ..)| *seconds >= 5.0);
    let ceiling = host.ceilings.iter().find(|c| c.device == *disk).and_then(|c| c.write_bytes_per_s);
    let bytes_per_s = match (queued, ceiling) {
        (Some((_, rate, _)), _) => rate,
        (None, Some(rate)) => rate,
        (None, None) => return None,
    };
    let batch_bytes = batch_bytes(host, disk, busiest_load);
    let queued = queued.map(|(seconds, bytes_per_s, in_flight_bytes)| {
        (seconds / busiest_load.seconds, QueuedWrites { bytes_per_s, in_flight_bytes, batch_bytes })
    });
    Some(BulkWriter { disk: disk.clone(), bytes_per_s, queued })
}

/// Default number of neighboring requests that mq-deadline sends at a time (block/mq-deadline.c, fifo_batch).
const DEFAULT_FIFO_BATCH: f64 = 16.0;

/// Returns the bytes that the disk's scheduler sends before it considers a commit; `None` if it keeps the order.
fn batch_bytes(host: &HostFacts, disk: &str, load: &DiskLoad) -> Option<f64> {
    let scheduler = host.queue_file(disk, "scheduler").map(active_choice);
    let requests = host.queue_number(disk, "iosched/fifo_batch").unwrap_or(DEFAULT_FIFO_BATCH);
    (scheduler == Some("mq-deadline")).then(|| load.bytes_per_write().map(|bytes| requests * bytes))?
}

/// Returns true for a device that lies on no other device.
fn is_leaf_device(device: &diskwright_base::Device) -> bool {
    device.below.is_empty() && device.class != DeviceClass::Memory
}

fn unknown_dirty_limits(host: &HostFacts) -> CheckOutcome {
    if !host.shows_container_memory() {
        return unknown_fact(host, "proc/sys/vm/dirty_ratio");
    }
    CheckOutcome::Unknown("the limits are shares of the machine's memory, but this container shows only its own".into())
}

/// Judges the limits of dirty pages.
pub(super) fn judge_dirty_limits(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some((limit, background)) = dirty_limit_bytes(host) else { return unknown_dirty_limits(host) };
    let Some(BulkWriter { disk, bytes_per_s: speed, queued }) = find_bulk_writer(host) else {
        let because = "the disks' write rate is unknown: no log shows writes that queue at a busy disk, and no \
                       probe result is saved";
        return CheckOutcome::Unknown(because.into());
    };
    let seconds = limit / speed;
    if seconds <= MAX_DIRTY_S {
        return CheckOutcome::Good;
    }
    let round = |value: f64| (value / MIB).round().max(1.0) * MIB;
    let upper = round((PROPOSED_DIRTY_S * speed).max(MIN_LIMIT_BYTES));
    let lower = round(upper / 4.0);
    if upper >= limit {
        return CheckOutcome::Good;
    }
    let seen = format!(
        "up to {} may be dirty (background write-back starts at {}): {seconds:.0} s of writing for {disk} at {}",
        format_bytes(limit),
        format_bytes(background),
        format_rate(speed)
    );
    let mut proposal = Proposal::new(seen).with_good(format!(
        "{} and {}: {PROPOSED_DIRTY_S:.0} s of writing",
        format_bytes(upper),
        format_bytes(lower)
    ));
    proposal.writes = vec![
        ("proc/sys/vm/dirty_background_bytes".into(), format!("{lower:.0}")),
        ("proc/sys/vm/dirty_bytes".into(), format!("{upper:.0}")),
        ("proc/sys/vm/dirty_background_ratio".into(), "0".into()),
        ("proc/sys/vm/dirty_ratio".into(), "0".into()),
    ];
    if let Some((share, writes)) =
        queued.filter(|(_, writes)| writes.in_flight_bytes >= NOTABLE_WAIT_S * writes.bytes_per_s)
    {
        let work_s = writes.in_flight_bytes / writes.bytes_per_s;
        let factor = writes.wait_reduction(upper, lower);
        let text = format!(
            "{} of the time, {} of writes were in flight on {disk}, {work_s:.1} s of work for it",
            format_percent(share),
            format_bytes(writes.in_flight_bytes)
        );
        proposal = proposal.with_evidence(Some((text, share)));
        if factor >= 1.2 {
            let proposed_bytes = QueuedWrites::max_in_flight_bytes(upper, lower);
            let wait_after = writes.bytes_before_commit(proposed_bytes) / writes.bytes_per_s;
            let wait_before = writes.bytes_before_commit(writes.in_flight_bytes) / writes.bytes_per_s;
            proposal.gain = Some(ExpectedGain {
                factor,
                text: format!("a commit waits {wait_after:.1} s instead of {wait_before:.1} s behind a bulk writer"),
                basis: "bytes in flight over the rate at which they leave; an upper limit".into(),
            });
        }
    }
    lower_to_info(proposal).into_outcome()
}

/// Swapped pages per second from which swapping is reported.
pub(super) const NOTABLE_SWAPPED_PAGES_PER_S: f64 = 10.0;

/// True if programs are swapped to compressed memory, which uses no disk; areas on disks take only its overflow.
pub(super) fn swaps_to_memory(host: &HostFacts) -> bool {
    host.topology.swaps.iter().any(|swap| host.device_class(&swap.device) == DeviceClass::Memory)
}

/// Highest swappiness that is good for the role of the host.
pub(super) fn good_swappiness(host: &HostFacts) -> f64 {
    if host.role == ServerRole::Database { 10.0 } else { 30.0 }
}

/// Judges swappiness.
pub(super) fn judge_swappiness(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some(now) = host.sysctl_number("vm.swappiness") else { return unknown_fact(host, "proc/sys/vm/swappiness") };
    if host.topology.swaps.is_empty() {
        return CheckOutcome::Absent;
    }
    // a group of version 1 has a swappiness of its own
    if host.swaps_in_legacy_groups_only() {
        return CheckOutcome::Absent;
    }
    let Some(load) = &host.load else {
        return CheckOutcome::Unknown("only a log shows whether programs are swapped in".into());
    };
    let swapped = load.mean_of(paging::SWAP_IN_PAGES_PER_S, "").unwrap_or(0.0);
    let good = good_swappiness(host);
    if swaps_to_memory(host) || swapped < NOTABLE_SWAPPED_PAGES_PER_S || now <= good {
        return CheckOutcome::Good;
    }
    let evidence = format!("{swapped:.0} pages per second were swapped in");
    let share = (swapped / 1000.0).min(1.0);
    let proposal = Proposal::new(format!("vm.swappiness is {now:.0}"))
        .with_good(format!("{good:.0}"))
        .with_value(format!("{good:.0}"));
    proposal.with_evidence(Some((evidence, share))).into_outcome()
}

/// Largest share of the dirty limit, percent, that a slow disk may take without harm to others.
const MAX_SAFE_RATIO_PERCENT: f64 = 10.0;

/// Judges a USB stick or card that is mounted for writing: until the host reaches its dirty limit, writers fill memory
/// with pages for the slowest disk, and then all writers wait for that disk.
pub(super) fn judge_removable(host: &HostFacts, disk: &str) -> CheckOutcome {
    let is_removable = host.block_number(disk, "removable") == Some(1.0);
    if !is_removable || !host.is_usb(disk) {
        return CheckOutcome::Absent;
    }
    let is_on_disk = |device: &str| !device.is_empty() && host.topology.leaves_under(device).contains(&disk);
    let writable =
        host.topology.filesystems.iter().filter(|filesystem| is_on_disk(&filesystem.device)).find(|filesystem| {
            host.mount_at(&filesystem.mount).is_some_and(|mount| !mount.flags.split(',').any(|flag| flag == "ro"))
        });
    if writable.is_none() {
        return CheckOutcome::Absent;
    }
    let Some(number) = host.block_file(disk, "dev") else {
        return unknown_fact(host, &format!("sys/block/{disk}/dev"));
    };
    let file = |name: &str| format!("sys/class/bdi/{}/{name}", number.trim());
    // kernels before 6.2 do not have it
    let Some(strict) = host.tree.number_in(&file("strict_limit")) else {
        return absent_or_unknown(host, &file("strict_limit"));
    };
    let Some(ratio) = host.tree.number_in(&file("max_ratio")) else { return unknown_fact(host, &file("max_ratio")) };
    if strict == 1.0 && ratio <= MAX_SAFE_RATIO_PERCENT {
        return CheckOutcome::Good;
    }
    let [strict_path, ratio_path] = ["strict_limit", "max_ratio"].map(file);
    let seen = format!("strict_limit is {strict:.0} and max_ratio {ratio:.0} %: it may fill the host's dirty pages");
    let apply = format!("echo 1 > /{ratio_path} && echo 1 > /{strict_path}");
    let undo = format!("echo {strict:.0} > /{strict_path} && echo {ratio:.0} > /{ratio_path}");
    Proposal { apply: Some(apply), undo: Some(undo), ..super::lower_to_info(Proposal::new(seen)) }.into_outcome()
}

/// Judges the disks of swap areas.
pub(super) fn judge_swap_placement(host: &HostFacts, _: &str) -> CheckOutcome {
    if !host.has_facts {
        return unknown_fact(host, "proc/swaps");
    }
    let disk_swaps: Vec<_> = host
        .topology
        .swaps
        .iter()
        .filter(|swap| host.device_class(&swap.device) != DeviceClass::Memory && !swap.device.is_empty())
        .collect();
    let leaves = |device: &str| host.topology.leaves_under(device).iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    let holds_filesystem = |disk: &String| {
        host.topology.filesystems.iter().any(|f| !f.device.is_empty() && leaves(&f.device).contains(disk))
    };
    let swap_disks = disk_swaps.iter().flat_map(|swap| leaves(&swap.device));
    let shared_disks: Vec<String> = swap_disks.filter(holds_filesystem).collect();
    let Some(disk) = shared_disks.first() else { return CheckOutcome::Good };
    let Some(load) = &host.load else {
        return CheckOutcome::Unknown("only a log shows whether the swap area is used".into());
    };
    let pages_per_s = |counter: &str| load.mean_of(counter, "").unwrap_or(0.0);
    let swapped = pages_per_s(paging::SWAP_IN_PAGES_PER_S) + pages_per_s(paging::SWAP_OUT_PAGES_PER_S);
    if swapped < NOTABLE_SWAPPED_PAGES_PER_S {
        return CheckOutcome::Good;
    }
    let evidence = format!("{swapped:.0} pages per second moved to and from swap");
    let share = host.disk_load(disk).map_or(0.2, crate::host_load::DiskLoad::busy_share);
    Proposal::new(format!("swap is on {disk}, which also holds filesystems"))
        .with_evidence(Some((evidence, share)))
        .into_outcome()
}

/// Judges transparent huge pages.
pub(super) fn judge_huge_pages(host: &HostFacts, _: &str) -> CheckOutcome {
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    let Some(text) = host.tree.get(file) else { return absent_or_unknown(host, file) };
    if active_choice(text) != "always" {
        return CheckOutcome::Good;
    }
    // MongoDB needs huge pages off before version 8.0, and on from 8.0
    if host.role_program.as_deref().is_some_and(|program| program.starts_with("mongod")) {
        return CheckOutcome::Unknown(
            "what is right depends on MongoDB's version: `never` before 8.0, then `always`".into(),
        );
    }
    let stalls = host.load.as_ref().and_then(|load| load.mean_of(paging::COMPACT_STALLS_PER_S, ""));
    let evidence = stalls.filter(|stalls| *stalls >= 0.1).map(|stalls| {
        (format!("programs waited {stalls:.1} times per second for memory to be compacted"), (stalls / 10.0).min(1.0))
    });
    lower_to_info(Proposal::new("every program gets huge pages").with_value("madvise").with_evidence(evidence))
        .into_outcome()
}

/// Judges the reserve of free memory.
pub(super) fn judge_reserve(host: &HostFacts, _: &str) -> CheckOutcome {
    let Some(now) = host.sysctl_number("vm.watermark_scale_factor") else {
        return unknown_fact(host, "proc/sys/vm/watermark_scale_factor");
    };
    let Some(load) = &host.load else {
        return CheckOutcome::Unknown("only a log shows whether programs wait for free memory".into());
    };
    let Some(stalls) = load.mean_of(paging::ALLOCATION_STALLS_PER_S, "") else {
        return CheckOutcome::Unknown("the log has no allocation stalls".into());
    };
    // the kernel's default is 10: 0.1 % of memory between the watermarks
    if stalls < 1.0 || now >= 50.0 {
        return CheckOutcome::Good;
    }
    let evidence = format!("programs had to reclaim memory themselves {stalls:.0} times per second");
    Proposal::new(format!("vm.watermark_scale_factor is {now:.0}"))
        .with_good("50")
        .with_value("50")
        .with_severity(AdviceSeverity::Notice)
        .with_evidence(Some((evidence, (stalls / 100.0).min(1.0))))
        .into_outcome()
}
