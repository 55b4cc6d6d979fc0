//! Counters of the numbers in each file, by position or by name, and their conversion. `crates/observe/counters` reads
//! the same files live.

use diskwright_base::counter_ids::{memory, paging, physical_disk, processor, system};
use diskwright_base::diskstats::{self, DiskstatsField, DiskstatsNumber, MAX_NUMBERS, PARTITION_FIELDS};

/// Conversion of the numbers of two dumps to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpRule {
    /// The number itself.
    Level,
    /// Growth.
    Added,
    /// Growth of a number that the kernel prints with 32 bits.
    Added32,
    /// Growth in whole seconds: inaccurate over a short time.
    AddedSeconds,
    /// Computed from the other cells of its disk.
    Stall,
}

/// Counter of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct DumpColumn {
    pub(super) counter: &'static str,
    /// Factor from the number to the counter's unit.
    pub(super) scale: f64,
    pub(super) rule: DumpRule,
}

const fn total(counter: &'static str, scale: f64) -> DumpColumn {
    DumpColumn { counter, scale, rule: DumpRule::Added }
}

const fn total32(counter: &'static str, scale: f64) -> DumpColumn {
    DumpColumn { counter, scale, rule: DumpRule::Added32 }
}

const fn level(counter: &'static str, scale: f64) -> DumpColumn {
    DumpColumn { counter, scale, rule: DumpRule::Level }
}

const fn from_diskstats(field: DiskstatsField) -> DumpColumn {
    match field.number {
        DiskstatsNumber::Level => level(field.counter, field.scale),
        DiskstatsNumber::Total => total(field.counter, field.scale),
        DiskstatsNumber::Total32 => total32(field.counter, field.scale),
    }
}

/// Numbers of a line of diskstats behind the name, followed by the column that is computed from them.
pub(super) const DISK: [DumpColumn; MAX_NUMBERS + 1] = {
    let stalled = DumpColumn { counter: physical_disk::STALLED, scale: 1.0, rule: DumpRule::Stall };
    let mut columns = [stalled; MAX_NUMBERS + 1];
    let mut index = 0;
    while index < MAX_NUMBERS {
        columns[index] = from_diskstats(diskstats::DISK_FIELDS[index]);
        index += 1;
    }
    columns
};
pub(super) const STALLED_INDEX: usize = MAX_NUMBERS;

/// Numbers of partitions, which have fewer.
pub(super) const PARTITION_DISK: [DumpColumn; PARTITION_FIELDS.len()] = {
    let mut columns = [from_diskstats(PARTITION_FIELDS[0]); PARTITION_FIELDS.len()];
    let mut index = 0;
    while index < PARTITION_FIELDS.len() {
        columns[index] = from_diskstats(PARTITION_FIELDS[index]);
        index += 1;
    }
    columns
};

/// `vmstat -d`, in its order: reads, merged, sectors, ms, the same of writes, in
/// flight, seconds busy.
pub(super) const VMSTAT_DISK: [DumpColumn; 10] = [
    DISK[0],
    DISK[1],
    DISK[2],
    DISK[3],
    DISK[4],
    DISK[5],
    DISK[6],
    DISK[7],
    DISK[8],
    DumpColumn { counter: physical_disk::BUSY_TIME_S, scale: 1.0, rule: DumpRule::AddedSeconds },
];

/// Times of a `cpu` line, in hundredths of a second on every known architecture.
pub(super) const PROCESSOR: [DumpColumn; 9] = [
    total(processor::USER_S, 0.01),
    total(processor::NICE_S, 0.01),
    total(processor::SYSTEM_S, 0.01),
    total(processor::IDLE_S, 0.01),
    total(processor::IOWAIT_S, 0.01),
    total(processor::IRQ_S, 0.01),
    total(processor::SOFTIRQ_S, 0.01),
    total(processor::STEAL_S, 0.01),
    total(processor::GUEST_S, 0.01),
];

/// Those that add up to the time that passed: the time of guests is also that of users.
pub(super) const PROCESSOR_TIMES: &[DumpColumn] = PROCESSOR.split_at(8).0;

/// Three numbers of /proc/loadavg, in hundredths.
pub(super) const LOAD: [DumpColumn; 3] =
    [level(system::LOAD_1, 0.01), level(system::LOAD_5, 0.01), level(system::LOAD_15, 0.01)];

/// Single numbers of /proc/stat, /proc/meminfo (with a colon) and /proc/vmstat by name. Several numbers of one counter
/// are added up.
const NAMED_NUMBERS: &[(&str, DumpColumn)] = &[
    ("ctxt", total(system::CONTEXT_SWITCHES, 1.0)),
    ("intr", total(system::INTERRUPTS, 1.0)),
    ("processes", total(system::FORKS, 1.0)),
    ("procs_running", level(system::RUNNING, 1.0)),
    ("procs_blocked", level(system::BLOCKED, 1.0)),
    ("MemTotal:", level(memory::TOTAL_BYTES, 1024.0)),
    ("MemAvailable:", level(memory::AVAILABLE_BYTES, 1024.0)),
    ("MemFree:", level(memory::FREE_BYTES, 1024.0)),
    ("Buffers:", level(memory::BUFFERS_BYTES, 1024.0)),
    ("Cached:", level(memory::CACHED_BYTES, 1024.0)),
    ("SwapCached:", level(memory::SWAP_CACHED_BYTES, 1024.0)),
    ("Active:", level(memory::ACTIVE_BYTES, 1024.0)),
    ("Inactive:", level(memory::INACTIVE_BYTES, 1024.0)),
    ("Dirty:", level(memory::DIRTY_BYTES, 1024.0)),
    ("Writeback:", level(memory::WRITEBACK_BYTES, 1024.0)),
    ("AnonPages:", level(memory::ANONYMOUS_BYTES, 1024.0)),
    ("Mapped:", level(memory::MAPPED_BYTES, 1024.0)),
    ("Shmem:", level(memory::SHARED_BYTES, 1024.0)),
    ("Slab:", level(memory::SLAB_BYTES, 1024.0)),
    ("SReclaimable:", level(memory::SLAB_RECLAIMABLE_BYTES, 1024.0)),
    ("KernelStack:", level(memory::KERNEL_STACK_BYTES, 1024.0)),
    ("PageTables:", level(memory::PAGE_TABLES_BYTES, 1024.0)),
    ("CommitLimit:", level(memory::COMMIT_LIMIT_BYTES, 1024.0)),
    ("Committed_AS:", level(memory::COMMITTED_BYTES, 1024.0)),
    ("SwapTotal:", level(memory::SWAP_TOTAL_BYTES, 1024.0)),
    ("SwapFree:", level(memory::SWAP_FREE_BYTES, 1024.0)),
    ("Zswap:", level(memory::ZSWAP_BYTES, 1024.0)),
    ("pgfault", total(paging::FAULTS, 1.0)),
    ("pgmajfault", total(paging::MAJOR_FAULTS, 1.0)),
    ("pswpin", total(paging::SWAP_IN_PAGES, 1.0)),
    ("pswpout", total(paging::SWAP_OUT_PAGES, 1.0)),
    ("workingset_refault_file", total(paging::REFAULTS_FILE, 1.0)),
    // before 5.9 only file pages refaulted
    ("workingset_refault", total(paging::REFAULTS_FILE, 1.0)),
    ("workingset_refault_anon", total(paging::REFAULTS_ANON, 1.0)),
    ("pgpgin", total(paging::BLOCK_IN_BYTES, 1024.0)),
    ("pgpgout", total(paging::BLOCK_OUT_BYTES, 1024.0)),
    ("nr_dirtied", total(paging::DIRTIED_PAGES, 1.0)),
    ("nr_written", total(paging::WRITTEN_PAGES, 1.0)),
    ("zswpin", total(paging::ZSWAP_IN_PAGES, 1.0)),
    ("zswpout", total(paging::ZSWAP_OUT_PAGES, 1.0)),
    ("oom_kill", total(paging::OOM_KILLS, 1.0)),
    ("compact_stall", total(paging::COMPACT_STALLS, 1.0)),
];

const STOLEN: DumpColumn = total(paging::STOLEN_PAGES, 1.0);
const SCANNED: DumpColumn = total(paging::SCANNED_PAGES, 1.0);
const SCANNED_DIRECT: DumpColumn = total(paging::SCANNED_DIRECT_PAGES, 1.0);
const ALLOCATION_STALLS: DumpColumn = total(paging::ALLOCATION_STALLS, 1.0);

/// Returns the columns of a name. Pages that direct reclaim scanned also count as scanned.
pub(super) fn columns_by_name(key: &str) -> &'static [DumpColumn] {
    if let Some((_, column)) = NAMED_NUMBERS.iter().find(|(name, _)| *name == key) {
        return std::slice::from_ref(column);
    }
    // before 4.8 each zone had a number of its own
    let zones = ["", "_dma", "_dma32", "_normal", "_high", "_movable", "_device"];
    let is_of_zone = |name: &str| key.strip_prefix(name).is_some_and(|rest| zones.contains(&rest));
    let is_any = |names: &[&str]| names.iter().any(|name| is_of_zone(name));
    if is_of_zone("pgscan_direct") {
        &[SCANNED, SCANNED_DIRECT]
    } else if is_any(&["pgscan_kswapd", "pgscan_khugepaged", "pgscan_proactive"]) {
        &[SCANNED]
    } else if is_any(&["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"]) {
        &[STOLEN]
    } else if is_of_zone("allocstall") {
        &[ALLOCATION_STALLS]
    } else {
        &[]
    }
}

/// Lines of `vmstat -s` (vmstat(8)): the words behind the number. `K` stands for the unit of sizes.
const SUMMARY_LINES: &[(&str, DumpColumn)] = &[
    ("K total memory", level(memory::TOTAL_BYTES, 1.0)),
    ("K active memory", level(memory::ACTIVE_BYTES, 1.0)),
    ("K inactive memory", level(memory::INACTIVE_BYTES, 1.0)),
    ("K free memory", level(memory::FREE_BYTES, 1.0)),
    ("K buffer memory", level(memory::BUFFERS_BYTES, 1.0)),
    // vmstat calls the page cache "swap cache"
    ("K swap cache", level(memory::CACHED_BYTES, 1.0)),
    ("K total swap", level(memory::SWAP_TOTAL_BYTES, 1.0)),
    ("K free swap", level(memory::SWAP_FREE_BYTES, 1.0)),
    ("non-nice user cpu ticks", PROCESSOR[0]),
    ("nice user cpu ticks", PROCESSOR[1]),
    ("system cpu ticks", PROCESSOR[2]),
    ("idle cpu ticks", PROCESSOR[3]),
    ("IO-wait cpu ticks", PROCESSOR[4]),
    ("IRQ cpu ticks", PROCESSOR[5]),
    ("softirq cpu ticks", PROCESSOR[6]),
    ("stolen cpu ticks", PROCESSOR[7]),
    // named pages but counted in KiB: the numbers are pgpgin and pgpgout
    ("pages paged in", total(paging::BLOCK_IN_BYTES, 1024.0)),
    ("pages paged out", total(paging::BLOCK_OUT_BYTES, 1024.0)),
    ("K paged in", total(paging::BLOCK_IN_BYTES, 1024.0)),
    ("K paged out", total(paging::BLOCK_OUT_BYTES, 1024.0)),
    ("pages swapped in", total(paging::SWAP_IN_PAGES, 1.0)),
    ("pages swapped out", total(paging::SWAP_OUT_PAGES, 1.0)),
    ("interrupts", total(system::INTERRUPTS, 1.0)),
    ("CPU context switches", total(system::CONTEXT_SWITCHES, 1.0)),
    ("forks", total(system::FORKS, 1.0)),
];

/// Lines of `vmstat -s` that are known and not read.
const IGNORED_SUMMARY_LINES: &[&str] =
    &["K used memory", "K used swap", "boot time", "non-nice guest cpu ticks", "nice guest cpu ticks"];

/// Finds the counter of a line of `vmstat -s`, with its instance; `Some(None)` if it is known and not read.
pub(super) fn summary_column(words: &str) -> Option<Option<(DumpColumn, &'static str)>> {
    let (letter, rest) = words.split_once(' ').unwrap_or(("", words));
    let unit = match letter {
        "k" => 1000.0,
        "K" => 1024.0,
        "m" => 1e6,
        "M" => 1_048_576.0,
        _ => 1.0,
    };
    let name = if unit > 1.0 { format!("K {rest}") } else { words.to_owned() };
    if IGNORED_SUMMARY_LINES.contains(&name.as_str()) {
        return Some(None);
    }
    let (_, column) = SUMMARY_LINES.iter().find(|(known, _)| *known == name)?;
    let instance = if column.counter.starts_with("processor.") { "_total" } else { "" };
    let is_size = column.rule == DumpRule::Level;
    Some(Some((DumpColumn { scale: if is_size { unit } else { column.scale }, ..*column }, instance)))
}
