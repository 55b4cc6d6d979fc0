//! Pseudo counters: quantities that are not in the catalogue but come from the topology, from measured ceilings, or
//! from several counters of several instances. Rules use them like counters. This is their only list.

/// Counter id that is reported missing where the number of disks behind a device is unknown.
pub(crate) const SPINDLES_COUNTER: &str = "physical_disk.spindles";

/// Kind of pseudo counter; see the entry's `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pseudo {
    /// Leaves under a device, or of the machine.
    Spindles,
    /// Online processors.
    Processors,
    /// Physical memory.
    MemoryBytes,
    /// Operations per second on each member, by the level's factor.
    BackEndLoad,
    /// Operations per second on each member, as a software array does them.
    MemberLoad,
    /// Measured ceiling, requests per second.
    CeilingRequests,
    /// Measured ceiling, bytes per second.
    CeilingBytes,
    /// Load as a share of the measured ceiling.
    CeilingUsed,
    /// Latency over the measured latency at queue depth 1.
    CeilingLatency,
    /// Queue depth beyond which the rate hardly grows.
    CeilingKnee,
    /// 1 where the ceiling is the measured maximum, 0 where it is only a lower bound.
    CeilingFirm,
    /// Load over the highest rates that a cloud allows of the volume.
    VolumeUsed,
    /// Load over the rates that a cloud always allows of the volume.
    VolumeBaselineUsed,
    /// Load of all volumes over the highest rates that a cloud allows of the instance.
    InstanceUsed,
    /// Load of all volumes over the rates that a cloud always allows of the instance.
    InstanceBaselineUsed,
    /// Traffic over the link's speed.
    LinkUsed,
    /// Latency of a member over the other members' median.
    MemberLatencyRatio,
    /// Queue of a member over the other members' median.
    MemberQueueRatio,
    /// Latency of a disk over that of disks with the same load.
    TwinLatencyRatio,
    /// 1 while a check, rebuild or scrub runs on an array above the device.
    Background,
    /// Share of a device's traffic that a check, rebuild or scrub causes.
    BackgroundShare,
    /// Share of time in which any task waits for I/O.
    Waiting,
    /// 1 where the log has no counter that shows whether tasks wait for I/O.
    WaitingUnseen,
    /// Share of the swap space that lies in compressed memory.
    SwapInMemory,
    /// Share of a disk's traffic that is swapping.
    SwapShare,
    /// Share of a disk's transfers that Windows counts as page reads and writes.
    PageShare,
    /// Share of the bytes read that were in memory shortly before.
    RefaultShare,
    /// 1 where the log lacks swap traffic or refaults.
    PagingUnseen,
    /// 1 at moments of which the log knows nothing of any disk's load.
    DisksUnseen,
    /// Confidence of the verdict; only alerts have it.
    VerdictConfidence,
    /// The highest confidence of anything that the latest verdicts blame; only alerts have it.
    AnyVerdictConfidence,
    /// Seconds for which ticks are overdue; only alerts have it.
    TicksOverdue,
    /// Events of the alert's kind that notes tell; only alerts have it.
    Events,
    /// Seconds per transfer at light load; one value for the whole window.
    LightLoad,
    /// Bytes per transfer at light load; one value for the whole window.
    LightLoadBytes,
    /// Coefficient of variation of the transfers per second while requests queue; one value for the whole window.
    BusySteadiness,
}

impl Pseudo {
    /// True where the value describes the whole window and is known only at its end.
    pub fn is_window_value(self) -> bool {
        matches!(self, Pseudo::LightLoad | Pseudo::LightLoadBytes | Pseudo::BusySteadiness)
    }
}

/// An entry of the list.
#[derive(Clone, Copy, Debug)]
pub struct PseudoCounter {
    /// The kind.
    pub pseudo: Pseudo,
    /// Name, without that of the object.
    pub name: &'static str,
    /// Objects on which rules may use it by that name.
    pub objects: &'static [&'static str],
    /// Unit, as in the catalogue.
    pub unit: &'static str,
    /// Description for users.
    pub explain: &'static str,
}

const DISK: &[&str] = &["physical_disk", "array"];
const DISK_AND_DRIVES: &[&str] = &["physical_disk", "array", "logical_disk"];
const DISK_AND_MACHINE: &[&str] = &["physical_disk", "array", "machine"];
const DISK_DRIVES_AND_MACHINE: &[&str] = &["physical_disk", "array", "logical_disk", "machine"];
const MACHINE: &[&str] = &["machine"];
const ANY_DISK: &[&str] = &["physical_disk", "logical_disk"];
const ANY_DISK_AND_MACHINE: &[&str] = &["physical_disk", "logical_disk", "machine"];

const fn pseudo_counter(
    pseudo: Pseudo,
    name: &'static str,
    objects: &'static [&'static str],
    unit: &'static str,
    explain: &'static str,
) -> PseudoCounter {
    PseudoCounter { pseudo, name, objects, unit, explain }
}

/// All pseudo counters.
pub const PSEUDO_COUNTERS: &[PseudoCounter] = &[
    pseudo_counter(
        Pseudo::Spindles,
        "spindles",
        DISK_DRIVES_AND_MACHINE,
        "count",
        "Physical devices below the device or array, or all of the machine's (without memory disks); 1 for a device \
         without known members.",
    ),
    pseudo_counter(
        Pseudo::Processors,
        "processors",
        DISK_AND_MACHINE,
        "count",
        "Online processors: from the topology, else system.processors, else the number of processor instances.",
    ),
    pseudo_counter(
        Pseudo::MemoryBytes,
        "memory_bytes",
        DISK_AND_MACHINE,
        "bytes",
        "Physical memory: from the topology, else memory.total_bytes.",
    ),
    pseudo_counter(
        Pseudo::BackEndLoad,
        "back_end_load",
        DISK_DRIVES_AND_MACHINE,
        "per_s",
        "Operations per second on each disk. For an array that counts requests: reads plus the level's factor times \
         writes, divided by the members (NT Magazine 1998). For an array that does not (btrfs): the members' \
         average. For a single device: its own transfers. For the machine: the average over its devices.",
    ),
    pseudo_counter(
        Pseudo::MemberLoad,
        "member_load",
        DISK_DRIVES_AND_MACHINE,
        "per_s",
        "Operations per second on each member of an array, from the members' own counters if the log has all of \
         them. Otherwise as back_end_load, but as a software array works: a small write to RAID 5 or 6 uses \
         read-modify-write or reconstruct-write, whichever reads less. So it costs at most as many operations as \
         there are members (three on three members, where the published figure is four).",
    ),
    pseudo_counter(
        Pseudo::CeilingRequests,
        "ceiling.requests_per_s",
        DISK,
        "per_s",
        "The maximum requests per second that a probe measured on this device. Absent without a measurement.",
    ),
    pseudo_counter(
        Pseudo::CeilingBytes,
        "ceiling.bytes_per_s",
        DISK,
        "bytes_per_s",
        "The maximum bytes per second that a probe measured on this device. Absent without a measurement.",
    ),
    pseudo_counter(
        Pseudo::CeilingUsed,
        "ceiling.used",
        DISK,
        "fraction",
        "The load as a share of the measured maximum: reads and writes, each divided by its maximum, added (the \
         utilization law). This is done for requests and for bytes; the larger counts. No value if more than 10 % of \
         the load is of a kind that was not measured, unless the rest already saturates the device. Absent without a \
         measurement.",
    ),
    pseudo_counter(
        Pseudo::CeilingLatency,
        "ceiling.latency_ratio",
        DISK,
        "",
        "Seconds per transfer divided by the measured latency at queue depth 1, for reads and writes, plus the time \
         that larger requests take at full bandwidth. About 1 if nothing queues. Absent without a measurement.",
    ),
    pseudo_counter(
        Pseudo::CeilingKnee,
        "ceiling.knee_depth",
        DISK,
        "requests",
        "The queue depth at which a probe reached 90 % of the maximum. Absent without a measurement.",
    ),
    pseudo_counter(
        Pseudo::CeilingFirm,
        "ceiling.firm",
        DISK,
        "",
        "1 if a probe measured the maximum of the device. 0 if the device may do more than was measured (through a \
         file, while others used it, before the rate stopped rising, …). Absent without a measurement.",
    ),
    pseudo_counter(
        Pseudo::VolumeUsed,
        "volume.used",
        &["physical_disk"],
        "fraction",
        "Requests or bytes per second, whichever is more, as a share of what the cloud allows of this volume: of the \
         burst, if its type has one. A request larger than the provider's unit counts as several. Absent for a volume \
         whose type is not known.",
    ),
    pseudo_counter(
        Pseudo::VolumeBaselineUsed,
        "volume.baseline_used",
        &["physical_disk"],
        "fraction",
        "As volume.used, but as a share of the baseline, which the volume has without credits. Above 1 it draws on \
         its credits.",
    ),
    pseudo_counter(
        Pseudo::InstanceUsed,
        "instance.used",
        MACHINE,
        "fraction",
        "Requests or bytes per second of all volumes, whichever is more, as a share of what the cloud allows of an \
         instance of this type for half an hour a day. Absent if the type of the instance is not known.",
    ),
    pseudo_counter(
        Pseudo::InstanceBaselineUsed,
        "instance.baseline_used",
        MACHINE,
        "fraction",
        "As instance.used, but as a share of what the instance sustains.",
    ),
    pseudo_counter(
        Pseudo::LinkUsed,
        "link_used",
        DISK,
        "fraction",
        "Bytes per second divided by the speed of the device's link. A full-duplex link (PCI Express, SAS, Fibre \
         Channel) counts its busier direction, others (SATA) both together. Absent if the speed is unknown.",
    ),
    pseudo_counter(
        Pseudo::MemberLatencyRatio,
        "member_latency_ratio",
        DISK,
        "",
        "A member's seconds per transfer divided by the median of the other members of its array. A tick counts only \
         if the member and half of the others had at least five transfers. Disks outside of arrays are not judged by \
         it.",
    ),
    pseudo_counter(
        Pseudo::MemberQueueRatio,
        "member_queue_ratio",
        DISK,
        "",
        "A member's queue divided by the median of the other members of its array. A median below 0.05 requests \
         counts as 0.05.",
    ),
    pseudo_counter(
        Pseudo::TwinLatencyRatio,
        "twin_latency_ratio",
        &["physical_disk"],
        "",
        "Seconds per transfer divided by those of the slowest other disk that had the same load: as many transfers, \
         give or take a tenth, and at least five. No value at ticks without such a disk. Members of a known array are \
         not judged by it.",
    ),
    pseudo_counter(
        Pseudo::Background,
        "background",
        &["physical_disk", "machine"],
        "count",
        "1 while a check, resync, rebuild, balance or scrub runs on the device's array (for the machine: on any \
         array), else 0.",
    ),
    pseudo_counter(
        Pseudo::BackgroundShare,
        "background_share",
        DISK,
        "fraction",
        "Share of the device's bytes that such work moves according to its own progress counter, at most 1. 0 for a \
         disk outside of arrays.",
    ),
    pseudo_counter(
        Pseudo::Waiting,
        "waiting",
        MACHINE,
        "fraction",
        "Share of time in which any task waits for I/O: pressure.io_some. Without pressure files: 1 at ticks with \
         blocked processes. Without those: processor.iowait.",
    ),
    pseudo_counter(
        Pseudo::WaitingUnseen,
        "waiting_unseen",
        DISK_AND_DRIVES,
        "",
        "1 if the log has neither pressure nor the read queue, so nothing shows whether any task waits for the \
         requests in flight. Else 0.",
    ),
    pseudo_counter(
        Pseudo::SwapInMemory,
        "swap_in_memory",
        MACHINE,
        "fraction",
        "Share of the swap space that is zram; paging to it moves nothing on a disk. 0 without swap space. Absent \
         without a topology.",
    ),
    pseudo_counter(
        Pseudo::SwapShare,
        "swap_share",
        ANY_DISK_AND_MACHINE,
        "fraction",
        "Swap traffic as a share of the traffic of the disks that hold the swap space. It is counted by bytes (pages \
         of 4 KiB) or by requests (major faults or 1/8 of the pages in, and 1/32 of the pages out), whichever is \
         more. If the log does not show which disk holds the swap space, it is a share of each disk, and of all disks \
         for the machine; in a log without disks, of the blocks read and written. Pages that go to zram are \
         subtracted. Disks without swap space are not judged by it.",
    ),
    pseudo_counter(
        Pseudo::PageShare,
        "page_share",
        ANY_DISK,
        "fraction",
        "Share of the disk's transfers that are page reads and writes as Windows counts them. If only Pages/sec is \
         there, it is a share of bytes (pages of 4 KiB). Not judged where swap traffic is counted separately, as on \
         Linux.",
    ),
    pseudo_counter(
        Pseudo::RefaultShare,
        "refault_share",
        MACHINE,
        "fraction",
        "Share of the bytes read from all disks that had been in memory a moment before (refaults, pages of 4 KiB).",
    ),
    pseudo_counter(
        Pseudo::PagingUnseen,
        "paging_unseen",
        MACHINE,
        "",
        "1 if the log lacks swap traffic or refaults, so nothing shows how much of the disks' load is paging. Else 0.",
    ),
    pseudo_counter(
        Pseudo::DisksUnseen,
        "disks_unseen",
        MACHINE,
        "",
        "1 while the log has neither queue, busy time, transfers nor bytes of any disk, so nothing shows what its \
         disks do. Else 0.",
    ),
    pseudo_counter(
        Pseudo::VerdictConfidence,
        "verdict_confidence",
        MACHINE,
        "fraction",
        "Confidence of the verdict on the last 30 seconds if it blames something, else 0. Only alerts have it; it \
         restarts when the verdict names another bottleneck or device.",
    ),
    pseudo_counter(
        Pseudo::AnyVerdictConfidence,
        "any_verdict_confidence",
        MACHINE,
        "fraction",
        "The highest confidence of anything that the verdicts of the last 30 seconds blame, else 0. Only alerts have \
         it; it does not restart when the verdict changes, so it holds while bottlenecks alternate.",
    ),
    pseudo_counter(
        Pseudo::TicksOverdue,
        "ticks_overdue_s",
        MACHINE,
        "s",
        "Time since the last tick, minus three usual intervals. Only alerts have it. Time in which the machine was \
         suspended does not count.",
    ),
    pseudo_counter(
        Pseudo::Events,
        "events",
        MACHINE,
        "count",
        "Number of events of the alert's `event` that came with the tick: the kernel's messages, and what the sampler \
         saw. Only alerts have it.",
    ),
    pseudo_counter(
        Pseudo::LightLoad,
        "light_load_s",
        DISK,
        "s",
        "Mean seconds per transfer, weighted by transfers, over the ticks with at most 0.5 requests in flight: the \
         response time of the device standalone. If no tick was that quiet, at most 1 and then at most 2 requests in \
         flight; that is never less than the standalone response time. No value without such ticks.",
    ),
    pseudo_counter(
        Pseudo::LightLoadBytes,
        "light_load_bytes",
        DISK,
        "bytes",
        "Mean bytes per transfer over the ticks of light_load_s: the requests that it is the response time of.",
    ),
    pseudo_counter(
        Pseudo::BusySteadiness,
        "busy_steadiness",
        DISK,
        "",
        "Coefficient of variation of transfers_per_s over stretches with more than one request in flight, without the \
         first and last tick of each stretch. A rate that changes level by more than 20 % is compared with the mean \
         of its level, if half of the ticks are on levels of at least five ticks. No value with fewer than five such \
         ticks, nor with ticks longer than a minute: means over minutes are smooth under any load.",
    ),
];

/// The entry that rules on `object` mean by `name`.
pub fn find_pseudo_counter(object: &str, name: &str) -> Option<&'static PseudoCounter> {
    PSEUDO_COUNTERS.iter().find(|p| p.name == name && p.objects.contains(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pseudo_counter_is_documented() {
        let text = include_str!("../../../../../docs/rules.md");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|l| l.starts_with("| `"))
            .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        for entry in PSEUDO_COUNTERS {
            let name = format!("`{}`", entry.name);
            let row = rows.iter().find(|r| r[0] == name).unwrap_or_else(|| panic!("{name} is not in docs/rules.md"));
            assert_eq!((row[1], row[2]), (entry.objects.join(", ").as_str(), entry.unit), "{name}");
        }
        assert_eq!(rows.len(), PSEUDO_COUNTERS.len());
    }
}
