//! Lines of the kernel's files in a recording: the counter of each field.

use diskwright_base::diskstats::{self, DiskstatsField, DiskstatsNumber, MAX_NUMBERS};

use crate::tool::row::TickRow;

/// A field of a line.
#[derive(Clone, Copy)]
pub struct KernelField {
    /// Index among the line's numbers.
    place: usize,
    counter: &'static str,
    times: f64,
    is_total: bool,
}

const fn total(place: usize, counter: &'static str, times: f64) -> KernelField {
    KernelField { place, counter, times, is_total: true }
}

const fn level(place: usize, counter: &'static str, times: f64) -> KernelField {
    KernelField { place, counter, times, is_total: false }
}

/// `/proc/diskstats` behind a disk's name.
const DISK: [KernelField; MAX_NUMBERS] = {
    let mut fields = [total(0, "", 1.0); MAX_NUMBERS];
    let mut place = 0;
    while place < MAX_NUMBERS {
        let DiskstatsField { counter, scale, number } = diskstats::DISK_FIELDS[place];
        let is_total = !matches!(number, DiskstatsNumber::Level);
        fields[place] = KernelField { place, counter, times: scale, is_total };
        place += 1;
    }
    fields
};
/// `/proc/stat` of a processor, in ticks of its clock; guests are in user and nice already.
const PROCESSOR: [KernelField; 8] = [
    total(0, "processor.user_s", 1.0),
    total(1, "processor.nice_s", 1.0),
    total(2, "processor.system_s", 1.0),
    total(3, "processor.idle_s", 1.0),
    total(4, "processor.iowait_s", 1.0),
    total(5, "processor.irq_s", 1.0),
    total(6, "processor.softirq_s", 1.0),
    total(7, "processor.steal_s", 1.0),
];
/// `/proc/net/dev` behind an interface's name.
const NETWORK: [KernelField; 8] = [
    total(0, "network.received_bytes", 1.0),
    total(1, "network.received_packets", 1.0),
    total(2, "network.received_errors", 1.0),
    total(3, "network.received_dropped", 1.0),
    total(8, "network.sent_bytes", 1.0),
    total(9, "network.sent_packets", 1.0),
    total(10, "network.sent_errors", 1.0),
    total(11, "network.sent_dropped", 1.0),
];
const LOAD: [KernelField; 3] =
    [level(0, "system.load_1", 1.0), level(1, "system.load_5", 1.0), level(2, "system.load_15", 1.0)];

/// Lines of one number: `/proc/stat`, `/proc/vmstat`, and `/proc/meminfo` with a colon.
const SINGLE: [(&str, KernelField); 43] = [
    ("intr", total(0, "system.interrupts", 1.0)),
    ("ctxt", total(0, "system.context_switches", 1.0)),
    ("processes", total(0, "system.forks", 1.0)),
    ("procs_running", level(0, "system.running", 1.0)),
    ("procs_blocked", level(0, "system.blocked", 1.0)),
    ("pgpgin", total(0, "paging.block_in_bytes", 1024.0)),
    ("pgpgout", total(0, "paging.block_out_bytes", 1024.0)),
    ("pswpin", total(0, "paging.swap_in_pages", 1.0)),
    ("pswpout", total(0, "paging.swap_out_pages", 1.0)),
    ("pgfault", total(0, "paging.faults", 1.0)),
    ("pgmajfault", total(0, "paging.major_faults", 1.0)),
    ("pgscan_direct", total(0, "paging.scanned_direct_pages", 1.0)),
    ("workingset_refault_file", total(0, "paging.refaults_file", 1.0)),
    ("workingset_refault", total(0, "paging.refaults_file", 1.0)),
    ("workingset_refault_anon", total(0, "paging.refaults_anon", 1.0)),
    ("oom_kill", total(0, "paging.oom_kills", 1.0)),
    ("compact_stall", total(0, "paging.compact_stalls", 1.0)),
    ("nr_dirtied", total(0, "paging.dirtied_pages", 1.0)),
    ("nr_written", total(0, "paging.written_pages", 1.0)),
    ("zswpin", total(0, "paging.zswap_in_pages", 1.0)),
    ("zswpout", total(0, "paging.zswap_out_pages", 1.0)),
    ("MemTotal:", level(0, "memory.total_bytes", 1024.0)),
    ("MemFree:", level(0, "memory.free_bytes", 1024.0)),
    ("MemAvailable:", level(0, "memory.available_bytes", 1024.0)),
    ("Buffers:", level(0, "memory.buffers_bytes", 1024.0)),
    ("Cached:", level(0, "memory.cached_bytes", 1024.0)),
    ("SwapCached:", level(0, "memory.swap_cached_bytes", 1024.0)),
    ("Active:", level(0, "memory.active_bytes", 1024.0)),
    ("Inactive:", level(0, "memory.inactive_bytes", 1024.0)),
    ("SwapTotal:", level(0, "memory.swap_total_bytes", 1024.0)),
    ("SwapFree:", level(0, "memory.swap_free_bytes", 1024.0)),
    ("Dirty:", level(0, "memory.dirty_bytes", 1024.0)),
    ("Writeback:", level(0, "memory.writeback_bytes", 1024.0)),
    ("AnonPages:", level(0, "memory.anonymous_bytes", 1024.0)),
    ("Mapped:", level(0, "memory.mapped_bytes", 1024.0)),
    ("Shmem:", level(0, "memory.shared_bytes", 1024.0)),
    ("Slab:", level(0, "memory.slab_bytes", 1024.0)),
    ("SReclaimable:", level(0, "memory.slab_reclaimable_bytes", 1024.0)),
    ("KernelStack:", level(0, "memory.kernel_stack_bytes", 1024.0)),
    ("PageTables:", level(0, "memory.page_tables_bytes", 1024.0)),
    ("CommitLimit:", level(0, "memory.commit_limit_bytes", 1024.0)),
    ("Committed_AS:", level(0, "memory.committed_bytes", 1024.0)),
    ("Zswap:", level(0, "memory.zswap_bytes", 1024.0)),
];

/// Columns of a line's numbers: index, column, whether it is a running total.
pub type LineColumns = Vec<(usize, u32, bool)>;

/// Looks a line up by its first words: returns how many of them are its name, and its columns. The columns are empty
/// where nothing of it is read.
pub fn columns(words: &[&str], hertz: f64, row: &mut TickRow) -> (usize, LineColumns) {
    let is_processor = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let (fields, instance, behind): (&[KernelField], String, usize) = match words {
        ["disk", _, _, name, ..] => (&DISK, (*name).to_owned(), 4),
        ["Net", name, ..] if name.ends_with(':') => (&NETWORK, name.trim_end_matches(':').to_owned(), 2),
        ["load", ..] => (&LOAD, String::new(), 1),
        ["cpu", ..] => (&PROCESSOR, "_total".to_owned(), 1),
        [name, ..] if name.strip_prefix("cpu").is_some_and(is_processor) => (&PROCESSOR, (*name).to_owned(), 1),
        [name, ..] => match SINGLE.iter().find(|(known, _)| known == name) {
            Some((_, field)) => (std::slice::from_ref(field), String::new(), 1),
            None => (&[], String::new(), 1),
        },
        [] => (&[], String::new(), 0),
    };
    let scale = if words.first().is_some_and(|w| w.starts_with("cpu")) { 1.0 / hertz } else { 1.0 };
    let column = |f: &KernelField| Some((f.place, row.column(f.counter, &instance, f.times * scale)?, f.is_total));
    (behind, fields.iter().filter_map(column).collect())
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Catalogue, CounterKind};

    use super::*;

    #[test]
    fn every_field_is_in_the_catalogue_as_what_it_is() {
        let singles = SINGLE.iter().map(|(_, field)| field);
        for field in DISK.iter().chain(&PROCESSOR).chain(&NETWORK).chain(&LOAD).chain(singles) {
            let counter = Catalogue::builtin().get(field.counter).unwrap_or_else(|| panic!("no {}", field.counter));
            assert_eq!(counter.kind == CounterKind::Total, field.is_total, "{}", field.counter);
        }
    }
}
