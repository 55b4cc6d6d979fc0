//! Counters of the numbers in each file, by position or by name, and their conversion. `crates/observe/counters` reads
//! the same files live.

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
    let stalled = DumpColumn { counter: "physical_disk.stalled", scale: 1.0, rule: DumpRule::Stall };
    let mut columns = [stalled; MAX_NUMBERS + 1];
    let mut place = 0;
    while place < MAX_NUMBERS {
        columns[place] = from_diskstats(diskstats::DISK_FIELDS[place]);
        place += 1;
    }
    columns
};
pub(super) const STALLED_INDEX: usize = MAX_NUMBERS;

/// Numbers of partitions, which have fewer.
pub(super) const PARTITION_DISK: [DumpColumn; PARTITION_FIELDS.len()] = {
    let mut columns = [from_diskstats(PARTITION_FIELDS[0]); PARTITION_FIELDS.len()];
    let mut place = 0;
    while place < PARTITION_FIELDS.len() {
        columns[place] = from_diskstats(PARTITION_FIELDS[place]);
        place += 1;
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
    DumpColumn { counter: "physical_disk.busy_time_s", scale: 1.0, rule: DumpRule::AddedSeconds },
];

/// Times of a `cpu` line, in hundredths of a second on every known architecture.
pub(super) const PROCESSOR: [DumpColumn; 9] = [
    total("processor.user_s", 0.01),
    total("processor.nice_s", 0.01),
    total("processor.system_s", 0.01),
    total("processor.idle_s", 0.01),
    total("processor.iowait_s", 0.01),
    total("processor.irq_s", 0.01),
    total("processor.softirq_s", 0.01),
    total("processor.steal_s", 0.01),
    total("processor.guest_s", 0.01),
];

/// Three numbers of /proc/loadavg, in hundredths.
pub(super) const LOAD: [DumpColumn; 3] =
    [level("system.load_1", 0.01), level("system.load_5", 0.01), level("system.load_15", 0.01)];

/// Single numbers of /proc/stat, /proc/meminfo (with a colon) and /proc/vmstat by name. Several numbers of one counter
/// are added up.
const NAMED_NUMBERS: &[(&str, DumpColumn)] = &[
    ("ctxt", total("system.context_switches", 1.0)),
    ("intr", total("system.interrupts", 1.0)),
    ("processes", total("system.forks", 1.0)),
    ("procs_running", level("system.running", 1.0)),
    ("procs_blocked", level("system.blocked", 1.0)),
    ("MemTotal:", level("memory.total_bytes", 1024.0)),
    ("MemAvailable:", level("memory.available_bytes", 1024.0)),
    ("MemFree:", level("memory.free_bytes", 1024.0)),
    ("Buffers:", level("memory.buffers_bytes", 1024.0)),
    ("Cached:", level("memory.cached_bytes", 1024.0)),
    ("SwapCached:", level("memory.swap_cached_bytes", 1024.0)),
    ("Active:", level("memory.active_bytes", 1024.0)),
    ("Inactive:", level("memory.inactive_bytes", 1024.0)),
    ("Dirty:", level("memory.dirty_bytes", 1024.0)),
    ("Writeback:", level("memory.writeback_bytes", 1024.0)),
    ("AnonPages:", level("memory.anonymous_bytes", 1024.0)),
    ("Mapped:", level("memory.mapped_bytes", 1024.0)),
    ("Shmem:", level("memory.shared_bytes", 1024.0)),
    ("Slab:", level("memory.slab_bytes", 1024.0)),
    ("SReclaimable:", level("memory.slab_reclaimable_bytes", 1024.0)),
    ("KernelStack:", level("memory.kernel_stack_bytes", 1024.0)),
    ("PageTables:", level("memory.page_tables_bytes", 1024.0)),
    ("CommitLimit:", level("memory.commit_limit_bytes", 1024.0)),
    ("Committed_AS:", level("memory.committed_bytes", 1024.0)),
    ("SwapTotal:", level("memory.swap_total_bytes", 1024.0)),
    ("SwapFree:", level("memory.swap_free_bytes", 1024.0)),
    ("Zswap:", level("memory.zswap_bytes", 1024.0)),
    ("pgfault", total("paging.faults", 1.0)),
    ("pgmajfault", total("paging.major_faults", 1.0)),
    ("pswpin", total("paging.swap_in_pages", 1.0)),
    ("pswpout", total("paging.swap_out_pages", 1.0)),
    ("workingset_refault_file", total("paging.refaults_file", 1.0)),
    // before 5.9 only file pages refaulted
    ("workingset_refault", total("paging.refaults_file", 1.0)),
    ("workingset_refault_anon", total("paging.refaults_anon", 1.0)),
    ("pgpgin", total("paging.block_in_bytes", 1024.0)),
    ("pgpgout", total("paging.block_out_bytes", 1024.0)),
    ("nr_dirtied", total("paging.dirtied_pages", 1.0)),
    ("nr_written", total("paging.written_pages", 1.0)),
    ("zswpin", total("paging.zswap_in_pages", 1.0)),
    ("zswpout", total("paging.zswap_out_pages", 1.0)),
    ("oom_kill", total("paging.oom_kills", 1.0)),
    ("compact_stall", total("paging.compact_stalls", 1.0)),
];

const STOLEN: DumpColumn = total("paging.stolen_pages", 1.0);
const SCANNED: DumpColumn = total("paging.scanned_pages", 1.0);
const SCANNED_DIRECT: DumpColumn = total("paging.scanned_direct_pages", 1.0);
const ALLOCATION_STALLS: DumpColumn = total("paging.allocation_stalls", 1.0);

/// Returns the columns of a name. Pages that direct reclaim scanned are part of all that were scanned.
pub(super) fn columns_by_name(key: &str) -> &'static [DumpColumn] {
    if let Some((_, column)) = NAMED_NUMBERS.iter().find(|(name, _)| *name == key) {
        return std::slice::from_ref(column);
    }
    // before 4.8 each zone had a number of its own
    let zones = ["", "_dma", "_dma32", "_normal", "_high", "_movable", "_device"];
    let begins = |name: &str| key.strip_prefix(name).is_some_and(|rest| zones.contains(&rest));
    let any = |names: &[&str]| names.iter().any(|name| begins(name));
    if begins("pgscan_direct") {
        &[SCANNED, SCANNED_DIRECT]
    } else if any(&["pgscan_kswapd", "pgscan_khugepaged", "pgscan_proactive"]) {
        &[SCANNED]
    } else if any(&["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"]) {
        &[STOLEN]
    } else if begins("allocstall") {
        &[ALLOCATION_STALLS]
    } else {
        &[]
    }
}

/// Lines of `vmstat -s` (vmstat(8)): the words behind the number. `K` stands for the unit of sizes.
const SUMMARY_LINES: &[(&str, DumpColumn)] = &[
    ("K total memory", level("memory.total_bytes", 1.0)),
    ("K active memory", level("memory.active_bytes", 1.0)),
    ("K inactive memory", level("memory.inactive_bytes", 1.0)),
    ("K free memory", level("memory.free_bytes", 1.0)),
    ("K buffer memory", level("memory.buffers_bytes", 1.0)),
    // vmstat calls the page cache "swap cache"
    ("K swap cache", level("memory.cached_bytes", 1.0)),
    ("K total swap", level("memory.swap_total_bytes", 1.0)),
    ("K free swap", level("memory.swap_free_bytes", 1.0)),
    ("non-nice user cpu ticks", PROCESSOR[0]),
    ("nice user cpu ticks", PROCESSOR[1]),
    ("system cpu ticks", PROCESSOR[2]),
    ("idle cpu ticks", PROCESSOR[3]),
    ("IO-wait cpu ticks", PROCESSOR[4]),
    ("IRQ cpu ticks", PROCESSOR[5]),
    ("softirq cpu ticks", PROCESSOR[6]),
    ("stolen cpu ticks", PROCESSOR[7]),
    // named pages but counted in KiB: the numbers are pgpgin and pgpgout
    ("pages paged in", total("paging.block_in_bytes", 1024.0)),
    ("pages paged out", total("paging.block_out_bytes", 1024.0)),
    ("K paged in", total("paging.block_in_bytes", 1024.0)),
    ("K paged out", total("paging.block_out_bytes", 1024.0)),
    ("pages swapped in", total("paging.swap_in_pages", 1.0)),
    ("pages swapped out", total("paging.swap_out_pages", 1.0)),
    ("interrupts", total("system.interrupts", 1.0)),
    ("CPU context switches", total("system.context_switches", 1.0)),
    ("forks", total("system.forks", 1.0)),
];

/// Lines of `vmstat -s` that are known and not read.
const IGNORED_SUMMARY_LINES: &[&str] =
    &["K used memory", "K used swap", "boot time", "non-nice guest cpu ticks", "nice guest cpu ticks"];

/// Finds the counter of a line of `vmstat -s`, with its instance; `Some(None)` where it is known and not read.
pub(super) fn summary_column(words: &str) -> Option<Option<(DumpColumn, &'static str)>> {
    let (letter, rest) = words.split_once(' ').unwrap_or(("", words));
    let unit = match letter {
        "k" => 1000.0,
        "K" => 1024.0,
        "m" => 1e6,
        "M" => 1_048_576.0,
        _ => 1.0,
    };
    let sized = if unit > 1.0 { format!("K {rest}") } else { words.to_owned() };
    if IGNORED_SUMMARY_LINES.contains(&sized.as_str()) {
        return Some(None);
    }
    let (_, column) = SUMMARY_LINES.iter().find(|(name, _)| *name == sized)?;
    let instance = if column.counter.starts_with("processor.") { "_total" } else { "" };
    let is_size = column.rule == DumpRule::Level;
    Some(Some((DumpColumn { scale: if is_size { unit } else { column.scale }, ..*column }, instance)))
}
