//! Lines of the kernel's files in a recording: the counter of each field.

use diskwright_base::counter_ids::{memory, network, paging, processor, system};
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

const fn total_field(index: usize, counter: &'static str, scale: f64) -> KernelField {
    KernelField { index, counter, scale, is_total: true }
}

const fn level_field(index: usize, counter: &'static str, scale: f64) -> KernelField {
    KernelField { index, counter, scale, is_total: false }
}

/// `/proc/diskstats` behind a disk's name.
const DISK: [KernelField; MAX_NUMBERS] = {
    let mut fields = [total_field(0, "", 1.0); MAX_NUMBERS];
    let mut index = 0;
    while index < MAX_NUMBERS {
        let DiskstatsField { counter, scale, number } = diskstats::DISK_FIELDS[index];
        let is_total = !matches!(number, DiskstatsNumber::Level);
        fields[index] = KernelField { index, counter, scale, is_total };
        index += 1;
    }
    fields
};
/// `/proc/stat` of a processor, in ticks of its clock; guests are in user and nice already.
const PROCESSOR: [KernelField; 8] = [
    total_field(0, processor::USER_S, 1.0),
    total_field(1, processor::NICE_S, 1.0),
    total_field(2, processor::SYSTEM_S, 1.0),
    total_field(3, processor::IDLE_S, 1.0),
    total_field(4, processor::IOWAIT_S, 1.0),
    total_field(5, processor::IRQ_S, 1.0),
    total_field(6, processor::SOFTIRQ_S, 1.0),
    total_field(7, processor::STEAL_S, 1.0),
];
/// `/proc/net/dev` behind an interface's name.
const NETWORK: [KernelField; 8] = [
    total_field(0, network::RECEIVED_BYTES, 1.0),
    total_field(1, network::RECEIVED_PACKETS, 1.0),
    total_field(2, network::RECEIVED_ERRORS, 1.0),
    total_field(3, network::RECEIVED_DROPPED, 1.0),
    total_field(8, network::SENT_BYTES, 1.0),
    total_field(9, network::SENT_PACKETS, 1.0),
    total_field(10, network::SENT_ERRORS, 1.0),
    total_field(11, network::SENT_DROPPED, 1.0),
];
const LOAD: [KernelField; 3] =
    [level_field(0, system::LOAD_1, 1.0), level_field(1, system::LOAD_5, 1.0), level_field(2, system::LOAD_15, 1.0)];

/// Lines of one number: `/proc/stat`, `/proc/vmstat`, and `/proc/meminfo` with a colon.
const SINGLE_NUMBERS: [(&str, KernelField); 43] = [
    ("intr", total_field(0, system::INTERRUPTS, 1.0)),
    ("ctxt", total_field(0, system::CONTEXT_SWITCHES, 1.0)),
    ("processes", total_field(0, system::FORKS, 1.0)),
    ("procs_running", level_field(0, system::RUNNING, 1.0)),
    ("procs_blocked", level_field(0, system::BLOCKED, 1.0)),
    ("pgpgin", total_field(0, paging::BLOCK_IN_BYTES, 1024.0)),
    ("pgpgout", total_field(0, paging::BLOCK_OUT_BYTES, 1024.0)),
    ("pswpin", total_field(0, paging::SWAP_IN_PAGES, 1.0)),
    ("pswpout", total_field(0, paging::SWAP_OUT_PAGES, 1.0)),
    ("pgfault", total_field(0, paging::FAULTS, 1.0)),
    ("pgmajfault", total_field(0, paging::MAJOR_FAULTS, 1.0)),
    ("pgscan_direct", total_field(0, paging::SCANNED_DIRECT_PAGES, 1.0)),
    ("workingset_refault_file", total_field(0, paging::REFAULTS_FILE, 1.0)),
    ("workingset_refault", total_field(0, paging::REFAULTS_FILE, 1.0)),
    ("workingset_refault_anon", total_field(0, paging::REFAULTS_ANON, 1.0)),
    ("oom_kill", total_field(0, paging::OOM_KILLS, 1.0)),
    ("compact_stall", total_field(0, paging::COMPACT_STALLS, 1.0)),
    ("nr_dirtied", total_field(0, paging::DIRTIED_PAGES, 1.0)),
    ("nr_written", total_field(0, paging::WRITTEN_PAGES, 1.0)),
    ("zswpin", total_field(0, paging::ZSWAP_IN_PAGES, 1.0)),
    ("zswpout", total_field(0, paging::ZSWAP_OUT_PAGES, 1.0)),
    ("MemTotal:", level_field(0, memory::TOTAL_BYTES, 1024.0)),
    ("MemFree:", level_field(0, memory::FREE_BYTES, 1024.0)),
    ("MemAvailable:", level_field(0, memory::AVAILABLE_BYTES, 1024.0)),
    ("Buffers:", level_field(0, memory::BUFFERS_BYTES, 1024.0)),
    ("Cached:", level_field(0, memory::CACHED_BYTES, 1024.0)),
    ("SwapCached:", level_field(0, memory::SWAP_CACHED_BYTES, 1024.0)),
    ("Active:", level_field(0, memory::ACTIVE_BYTES, 1024.0)),
    ("Inactive:", level_field(0, memory::INACTIVE_BYTES, 1024.0)),
    ("SwapTotal:", level_field(0, memory::SWAP_TOTAL_BYTES, 1024.0)),
    ("SwapFree:", level_field(0, memory::SWAP_FREE_BYTES, 1024.0)),
    ("Dirty:", level_field(0, memory::DIRTY_BYTES, 1024.0)),
    ("Writeback:", level_field(0, memory::WRITEBACK_BYTES, 1024.0)),
    ("AnonPages:", level_field(0, memory::ANONYMOUS_BYTES, 1024.0)),
    ("Mapped:", level_field(0, memory::MAPPED_BYTES, 1024.0)),
    ("Shmem:", level_field(0, memory::SHARED_BYTES, 1024.0)),
    ("Slab:", level_field(0, memory::SLAB_BYTES, 1024.0)),
    ("SReclaimable:", level_field(0, memory::SLAB_RECLAIMABLE_BYTES, 1024.0)),
    ("KernelStack:", level_field(0, memory::KERNEL_STACK_BYTES, 1024.0)),
    ("PageTables:", level_field(0, memory::PAGE_TABLES_BYTES, 1024.0)),
    ("CommitLimit:", level_field(0, memory::COMMIT_LIMIT_BYTES, 1024.0)),
    ("Committed_AS:", level_field(0, memory::COMMITTED_BYTES, 1024.0)),
    ("Zswap:", level_field(0, memory::ZSWAP_BYTES, 1024.0)),
];

/// Columns of a line's numbers: index, column, whether it is a running total.
pub type LineColumns = Vec<(usize, u32, bool)>;

/// Looks a line up by its first words: returns the number of words in its name, and its columns, which are empty if
/// none of its numbers is read.
pub fn line_columns(words: &[&str], hertz: f64, row: &mut TickRow) -> (usize, LineColumns) {
    let is_processor = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let (fields, instance, name_words): (&[KernelField], String, usize) = match words {
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
    (name_words, fields.iter().filter_map(column).collect())
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
