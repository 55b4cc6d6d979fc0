//! Lines of the kernel's files in a recording: the counter of each field.

use diskwright_base::diskstats::{self, DiskstatsField, DiskstatsNumber, MAX_NUMBERS};

use crate::tool::tick_row::TickRow;

/// A field of a line.
#[derive(Clone, Copy)]
pub struct KernelField {
    /// Index among the line's numbers.
    index: usize,
    counter: &'static str,
    scale: f64,
    is_total: bool,
}

const fn total_field(place: usize, counter: &'static str, times: f64) -> KernelField {
    KernelField { index: place, counter, scale: times, is_total: true }
}

const fn level_field(place: usize, counter: &'static str, times: f64) -> KernelField {
    KernelField { index: place, counter, scale: times, is_total: false }
}

/// `/proc/diskstats` behind a disk's name.
const DISK: [KernelField; MAX_NUMBERS] = {
    let mut fields = [total_field(0, "", 1.0); MAX_NUMBERS];
    let mut place = 0;
    while place < MAX_NUMBERS {
        let DiskstatsField { counter, scale, number } = diskstats::DISK_FIELDS[place];
        let is_total = !matches!(number, DiskstatsNumber::Level);
        fields[place] = KernelField { index: place, counter, scale, is_total };
        place += 1;
    }
    fields
};
/// `/proc/stat` of a processor, in ticks of its clock; guests are in user and nice already.
const PROCESSOR: [KernelField; 8] = [
    total_field(0, "processor.user_s", 1.0),
    total_field(1, "processor.nice_s", 1.0),
    total_field(2, "processor.system_s", 1.0),
    total_field(3, "processor.idle_s", 1.0),
    total_field(4, "processor.iowait_s", 1.0),
    total_field(5, "processor.irq_s", 1.0),
    total_field(6, "processor.softirq_s", 1.0),
    total_field(7, "processor.steal_s", 1.0),
];
/// `/proc/net/dev` behind an interface's name.
const NETWORK: [KernelField; 8] = [
    total_field(0, "network.received_bytes", 1.0),
    total_field(1, "network.received_packets", 1.0),
    total_field(2, "network.received_errors", 1.0),
    total_field(3, "network.received_dropped", 1.0),
    total_field(8, "network.sent_bytes", 1.0),
    total_field(9, "network.sent_packets", 1.0),
    total_field(10, "network.sent_errors", 1.0),
    total_field(11, "network.sent_dropped", 1.0),
];
const LOAD: [KernelField; 3] =
    [level_field(0, "system.load_1", 1.0), level_field(1, "system.load_5", 1.0), level_field(2, "system.load_15", 1.0)];

/// Lines of one number: `/proc/stat`, `/proc/vmstat`, and `/proc/meminfo` with a colon.
const SINGLE_NUMBERS: [(&str, KernelField); 43] = [
    ("intr", total_field(0, "system.interrupts", 1.0)),
    ("ctxt", total_field(0, "system.context_switches", 1.0)),
    ("processes", total_field(0, "system.forks", 1.0)),
    ("procs_running", level_field(0, "system.running", 1.0)),
    ("procs_blocked", level_field(0, "system.blocked", 1.0)),
    ("pgpgin", total_field(0, "paging.block_in_bytes", 1024.0)),
    ("pgpgout", total_field(0, "paging.block_out_bytes", 1024.0)),
    ("pswpin", total_field(0, "paging.swap_in_pages", 1.0)),
    ("pswpout", total_field(0, "paging.swap_out_pages", 1.0)),
    ("pgfault", total_field(0, "paging.faults", 1.0)),
    ("pgmajfault", total_field(0, "paging.major_faults", 1.0)),
    ("pgscan_direct", total_field(0, "paging.scanned_direct_pages", 1.0)),
    ("workingset_refault_file", total_field(0, "paging.refaults_file", 1.0)),
    ("workingset_refault", total_field(0, "paging.refaults_file", 1.0)),
    ("workingset_refault_anon", total_field(0, "paging.refaults_anon", 1.0)),
    ("oom_kill", total_field(0, "paging.oom_kills", 1.0)),
    ("compact_stall", total_field(0, "paging.compact_stalls", 1.0)),
    ("nr_dirtied", total_field(0, "paging.dirtied_pages", 1.0)),
    ("nr_written", total_field(0, "paging.written_pages", 1.0)),
    ("zswpin", total_field(0, "paging.zswap_in_pages", 1.0)),
    ("zswpout", total_field(0, "paging.zswap_out_pages", 1.0)),
    ("MemTotal:", level_field(0, "memory.total_bytes", 1024.0)),
    ("MemFree:", level_field(0, "memory.free_bytes", 1024.0)),
    ("MemAvailable:", level_field(0, "memory.available_bytes", 1024.0)),
    ("Buffers:", level_field(0, "memory.buffers_bytes", 1024.0)),
    ("Cached:", level_field(0, "memory.cached_bytes", 1024.0)),
    ("SwapCached:", level_field(0, "memory.swap_cached_bytes", 1024.0)),
    ("Active:", level_field(0, "memory.active_bytes", 1024.0)),
    ("Inactive:", level_field(0, "memory.inactive_bytes", 1024.0)),
    ("SwapTotal:", level_field(0, "memory.swap_total_bytes", 1024.0)),
    ("SwapFree:", level_field(0, "memory.swap_free_bytes", 1024.0)),
    ("Dirty:", level_field(0, "memory.dirty_bytes", 1024.0)),
    ("Writeback:", level_field(0, "memory.writeback_bytes", 1024.0)),
    ("AnonPages:", level_field(0, "memory.anonymous_bytes", 1024.0)),
    ("Mapped:", level_field(0, "memory.mapped_bytes", 1024.0)),
    ("Shmem:", level_field(0, "memory.shared_bytes", 1024.0)),
    ("Slab:", level_field(0, "memory.slab_bytes", 1024.0)),
    ("SReclaimable:", level_field(0, "memory.slab_reclaimable_bytes", 1024.0)),
    ("KernelStack:", level_field(0, "memory.kernel_stack_bytes", 1024.0)),
    ("PageTables:", level_field(0, "memory.page_tables_bytes", 1024.0)),
    ("CommitLimit:", level_field(0, "memory.commit_limit_bytes", 1024.0)),
    ("Committed_AS:", level_field(0, "memory.committed_bytes", 1024.0)),
    ("Zswap:", level_field(0, "memory.zswap_bytes", 1024.0)),
];

/// Columns of a line's numbers: index, column, whether it is a running total.
pub type LineColumns = Vec<(usize, u32, bool)>;

/// Looks a line up by its first words: returns how many of them are its name, and its columns. The columns are empty
/// where nothing of it is read.
pub fn line_columns(words: &[&str], hertz: f64, row: &mut TickRow) -> (usize, LineColumns) {
    let is_processor = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let (fields, instance, behind): (&[KernelField], String, usize) = match words {
        ["disk", _, _, name, ..] => (&DISK, (*name).to_owned(), 4),
        ["Net", name, ..] if name.ends_with(':') => (&NETWORK, name.trim_end_matches(':').to_owned(), 2),
        ["load", ..] => (&LOAD, String::new(), 1),
        ["cpu", ..] => (&PROCESSOR, "_total".to_owned(), 1),
        [name, ..] if name.strip_prefix("cpu").is_some_and(is_processor) => (&PROCESSOR, (*name).to_owned(), 1),
        [name, ..] => match SINGLE_NUMBERS.iter().find(|(known, _)| known == name) {
            Some((_, field)) => (std::slice::from_ref(field), String::new(), 1),
            None => (&[], String::new(), 1),
        },
        [] => (&[], String::new(), 0),
    };
    let scale = if words.first().is_some_and(|w| w.starts_with("cpu")) { 1.0 / hertz } else { 1.0 };
    let column =
        |f: &KernelField| Some((f.index, row.find_or_add_column(f.counter, &instance, f.scale * scale)?, f.is_total));
    (behind, fields.iter().filter_map(column).collect())
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Catalogue, CounterKind};

    use super::*;

    #[test]
    fn every_field_is_in_the_catalogue_with_its_kind() {
        let singles = SINGLE_NUMBERS.iter().map(|(_, field)| field);
        for field in DISK.iter().chain(&PROCESSOR).chain(&NETWORK).chain(&LOAD).chain(singles) {
            let counter = Catalogue::builtin().get(field.counter).unwrap_or_else(|| panic!("no {}", field.counter));
            assert_eq!(counter.kind == CounterKind::Total, field.is_total, "{}", field.counter);
        }
    }
}
