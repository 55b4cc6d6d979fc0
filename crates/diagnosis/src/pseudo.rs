//! Quantities that are no counters of the catalogue but come from the
//! topology, from a probe's ceilings, or from several counters of several
//! instances. Rules use them like counters. This is the one list of them.

/// How a pseudo counter is made; see the entry's `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pseudo {
    /// Leaves under a device, or of the machine.
    Spindles,
    /// Online processors.
    Processors,
    /// Physical memory.
    MemoryBytes,
    /// Operations a second on each member, by the level's factor.
    BackEndLoad,
    /// Requests a second that a probe measured as the most.
    CeilingRequests,
    /// Bytes a second that a probe measured as the most.
    CeilingBytes,
    /// Share of what a probe measured as the most.
    CeilingUsed,
    /// Latency over what a probe measured for one request alone.
    CeilingLatency,
    /// Outstanding requests from which more bring little.
    CeilingKnee,
    /// Whether the ceiling is a measured most, or only the least that it may be.
    CeilingFirm,
    /// Traffic over the link's speed.
    LinkUsed,
    /// Latency of a member over its fellows' median.
    MemberLatencyRatio,
    /// Queue of a member over its fellows' median.
    MemberQueueRatio,
    /// Whether a check, rebuild or scrub runs on a set above the device.
    Background,
    /// Share of a device's traffic that such work causes.
    BackgroundShare,
    /// Share of time in which somebody waits for I/O.
    Waiting,
    /// Whether the log has nothing that tells who waits for I/O.
    WaitingUnseen,
    /// Share of the swap space that lies in compressed memory.
    SwapInMemory,
    /// Seconds a transfer while little is asked; of the window.
    LightLoad,
    /// Coefficient of variation of the transfers a second while requests queue; of the window.
    BusySteadiness,
}

impl Pseudo {
    /// True where the value is one of the whole window, known at its end.
    pub fn is_of_window(self) -> bool {
        matches!(self, Pseudo::LightLoad | Pseudo::BusySteadiness)
    }
}

/// An entry of the list.
#[derive(Clone, Copy, Debug)]
pub struct PseudoCounter {
    /// What makes it.
    pub pseudo: Pseudo,
    /// Name behind the object's.
    pub name: &'static str,
    /// Objects whose rules may use it by that name.
    pub objects: &'static [&'static str],
    /// Unit, as in the catalogue.
    pub unit: &'static str,
    /// What it says.
    pub explain: &'static str,
}

const DISK: &[&str] = &["physical_disk", "array"];
const DISK_AND_MACHINE: &[&str] = &["physical_disk", "array", "machine"];
const MACHINE: &[&str] = &["machine"];

const fn entry(
    pseudo: Pseudo,
    name: &'static str,
    objects: &'static [&'static str],
    unit: &'static str,
    explain: &'static str,
) -> PseudoCounter {
    PseudoCounter { pseudo, name, objects, unit, explain }
}

/// All pseudo counters.
pub const PSEUDO: &[PseudoCounter] = &[
    entry(
        Pseudo::Spindles,
        "spindles",
        DISK_AND_MACHINE,
        "count",
        "Devices with nothing below them under the device or set, or all of the machine's (memory disks left out); \
         1 for a device of which nothing is known.",
    ),
    entry(
        Pseudo::Processors,
        "processors",
        DISK_AND_MACHINE,
        "count",
        "Online processors: of the topology, else system.processors, else the processor instances seen.",
    ),
    entry(
        Pseudo::MemoryBytes,
        "memory_bytes",
        DISK_AND_MACHINE,
        "bytes",
        "Physical memory: of the topology, else memory.total_bytes.",
    ),
    entry(
        Pseudo::BackEndLoad,
        "back_end_load",
        DISK_AND_MACHINE,
        "per_s",
        "Operations a second on each disk. Of a set with requests of its own: reads plus the level's factor times \
         writes, over the members (doc 002). Of a set without (btrfs): the members' mean. Of a leaf: its own \
         transfers. Of the machine: the mean over its leaves.",
    ),
    entry(
        Pseudo::CeilingRequests,
        "ceiling.requests_per_s",
        DISK,
        "per_s",
        "The most requests a second that a probe measured on this device; absent where none did.",
    ),
    entry(
        Pseudo::CeilingBytes,
        "ceiling.bytes_per_s",
        DISK,
        "bytes_per_s",
        "The most bytes a second that a probe measured on this device; absent where none did.",
    ),
    entry(
        Pseudo::CeilingUsed,
        "ceiling.used",
        DISK,
        "fraction",
        "How much of what a probe measured the load is: reads and writes each over the most of them, added (the \
         utilisation law), for requests and for bytes, and the larger of the two. No value where more than a tenth \
         is of a kind that was not measured, unless the rest alone fills the device; absent where no probe measured.",
    ),
    entry(
        Pseudo::CeilingLatency,
        "ceiling.latency_ratio",
        DISK,
        "",
        "Seconds a transfer over what a probe measured for one request alone, by reads and writes, with the time \
         that larger requests take at full bandwidth: about 1 where nobody queues. Absent where no probe measured.",
    ),
    entry(
        Pseudo::CeilingKnee,
        "ceiling.knee_depth",
        DISK,
        "requests",
        "Requests outstanding that brought nine tenths of the most when a probe measured; absent where none did.",
    ),
    entry(
        Pseudo::CeilingFirm,
        "ceiling.firm",
        DISK,
        "",
        "1 where a probe measured the most that the device does; 0 where the device may do more than was measured \
         (through a file, while others used it, before the rate stopped rising, …); absent where none did.",
    ),
    entry(
        Pseudo::LinkUsed,
        "link_used",
        DISK,
        "fraction",
        "Bytes a second over the speed of the device's link; absent where the speed is not shown.",
    ),
    entry(
        Pseudo::MemberLatencyRatio,
        "member_latency_ratio",
        DISK,
        "",
        "A member's seconds a transfer over the median of the other members of its set, at ticks with at least \
         five transfers of its own and of half of the others. A disk in no set is not judged by it.",
    ),
    entry(
        Pseudo::MemberQueueRatio,
        "member_queue_ratio",
        DISK,
        "",
        "A member's queue over the median of the other members of its set (a median below a twentieth of a request \
         counts as that).",
    ),
    entry(
        Pseudo::Background,
        "background",
        &["physical_disk", "machine"],
        "count",
        "1 while a check, resync, rebuild, balance or scrub runs on a set above the device (on any set, for the \
         machine), else 0.",
    ),
    entry(
        Pseudo::BackgroundShare,
        "background_share",
        DISK,
        "fraction",
        "Share of the device's bytes that such work moves by its own progress counter, at most 1; 0 for a disk in \
         no set.",
    ),
    entry(
        Pseudo::Waiting,
        "waiting",
        MACHINE,
        "fraction",
        "Share of time in which somebody waits for I/O: pressure.io_some; without pressure files 1 at ticks with \
         blocked processes; without those processor.iowait.",
    ),
    entry(
        Pseudo::WaitingUnseen,
        "waiting_unseen",
        DISK,
        "",
        "1 where the log has neither pressure stalls nor the queue of reads, so that nothing tells whether anybody \
         waits for the requests outstanding, else 0.",
    ),
    entry(
        Pseudo::SwapInMemory,
        "swap_in_memory",
        MACHINE,
        "fraction",
        "Share of the swap space that is zram, whose paging moves nothing on a disk; 0 where there is no swap. \
         Absent without a topology.",
    ),
    entry(
        Pseudo::LightLoad,
        "light_load_s",
        DISK,
        "s",
        "Mean seconds a transfer over the ticks of the window at which at most half a request was outstanding, \
         weighted by transfers: the response of the device by itself. Where it never was that quiet, at most one, and \
         then at most two outstanding, which tells no less than the response by itself. No value without such ticks.",
    ),
    entry(
        Pseudo::BusySteadiness,
        "busy_steadiness",
        DISK,
        "",
        "Coefficient of variation of transfers_per_s over the ticks of the window inside stretches in which more \
         than one request was outstanding; the first and last tick of a stretch, which it fills only partly, are \
         left out. A rate that goes from one level to another, by more than a fifth, is compared with the level's own \
         mean, if half of the ticks are on levels of five ticks and more. No value below five such ticks, nor where \
         ticks are longer than a minute: means over minutes are smooth whatever the load is.",
    ),
];

/// The entry that `object`'s rules mean by `name`.
pub fn find(object: &str, name: &str) -> Option<&'static PseudoCounter> {
    PSEUDO.iter().find(|p| p.name == name && p.objects.contains(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_documents_every_one() {
        let text = include_str!("../../../docs/rules.md");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|l| l.starts_with("| `"))
            .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        for entry in PSEUDO {
            let name = format!("`{}`", entry.name);
            let row = rows.iter().find(|r| r[0] == name).unwrap_or_else(|| panic!("{name} is not in docs/rules.md"));
            assert_eq!((row[1], row[2]), (entry.objects.join(", ").as_str(), entry.unit), "{name}");
        }
        assert_eq!(rows.len(), PSEUDO.len());
    }
}
