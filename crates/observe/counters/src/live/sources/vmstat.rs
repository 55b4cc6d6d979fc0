//! `/proc/vmstat`: faults, swapping, reclaim and write-back, and the limits
//! at which writers are throttled.
//!
//! `pgpgin` and `pgpgout` are all block traffic in KiB, files and swap alike;
//! paging is `pswpin`, `pswpout`, major faults and refaults. Swap on zram
//! counts as swap here but is not disk traffic; zswap is counted separately.
//! Kernels before 4.8 kept one number per zone; these are added up.

use std::hint::black_box;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::scan::{LineLayout, WordIter, keyed, lines};
use crate::live::totals::{ABSENT, CounterTable, TableColumn, level, total};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "vmstat",
    files: &["/proc/vmstat"],
    explain: "Faults, swapping, reclaim, write-back, and the dirty limits.",
    parse_any: |bytes| {
        for line in lines(bytes) {
            if let Some((key, _)) = keyed(line) {
                black_box(column(key));
            }
        }
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(Vmstat::new(roots))),
};

const PAGING: [TableColumn; 18] = [
    total("paging.faults", 1.0),
    total("paging.major_faults", 1.0),
    total("paging.swap_in_pages", 1.0),
    total("paging.swap_out_pages", 1.0),
    total("paging.refaults_file", 1.0),
    total("paging.refaults_anon", 1.0),
    total("paging.block_in_bytes", 1024.0),
    total("paging.block_out_bytes", 1024.0),
    total("paging.scanned_pages", 1.0),
    total("paging.scanned_direct_pages", 1.0),
    total("paging.stolen_pages", 1.0),
    total("paging.allocation_stalls", 1.0),
    total("paging.dirtied_pages", 1.0),
    total("paging.written_pages", 1.0),
    total("paging.zswap_in_pages", 1.0),
    total("paging.zswap_out_pages", 1.0),
    total("paging.oom_kills", 1.0),
    total("paging.compact_stalls", 1.0),
];
const SCANNED: usize = 8;
const SCANNED_DIRECT: usize = 9;
/// First of the two columns of limits, which follow the totals.
const LIMITS: usize = PAGING.len();

/// Columns of exact names; [`column_of_key`] adds those of reclaim.
const KEYS: [(&str, usize); 17] = [
    ("pgfault", 0),
    ("pgmajfault", 1),
    ("pswpin", 2),
    ("pswpout", 3),
    ("workingset_refault_file", 4),
    // before 5.9 only file pages refaulted
    ("workingset_refault", 4),
    ("workingset_refault_anon", 5),
    ("pgpgin", 6),
    ("pgpgout", 7),
    ("nr_dirtied", 12),
    ("nr_written", 13),
    ("zswpin", 14),
    ("zswpout", 15),
    ("oom_kill", 16),
    ("compact_stall", 17),
    ("nr_dirty_threshold", LIMITS),
    ("nr_dirty_background_threshold", LIMITS + 1),
];

/// Returns the column that a line belongs to. Lines of one column are added up.
fn column(key: &[u8]) -> Option<usize> {
    if let Some((_, column)) = KEYS.iter().find(|(k, _)| k.as_bytes() == key) {
        return Some(*column);
    }
    let starts = |prefix: &str| key.strip_prefix(prefix.as_bytes()).is_some_and(is_zone);
    if starts("pgscan_direct") {
        Some(SCANNED_DIRECT)
    } else if starts("pgscan_kswapd") || starts("pgscan_khugepaged") || starts("pgscan_proactive") {
        Some(SCANNED)
    } else if ["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"].into_iter().any(starts) {
        Some(10)
    } else if starts("allocstall") {
        Some(11)
    } else {
        None
    }
}

/// Returns true for the possible endings of a reclaim counter's name: nothing, or a zone's name.
fn is_zone(rest: &[u8]) -> bool {
    matches!(rest, b"" | b"_dma" | b"_dma32" | b"_normal" | b"_high" | b"_movable" | b"_device")
}

struct Vmstat {
    file: OpenFile,
    layout: LineLayout,
    /// Paging and the memory limits.
    tables: [CounterTable; 2],
}

impl Vmstat {
    fn new(roots: &Roots) -> Vmstat {
        let page = rustix::param::page_size() as f64;
        let limits =
            [level("memory.dirty_threshold_bytes", page), level("memory.dirty_background_threshold_bytes", page)];
        Vmstat {
            file: OpenFile::pieces(roots.proc.join("vmstat"), "without it paging cannot be judged"),
            layout: LineLayout::default(),
            tables: [CounterTable::single(&PAGING), CounterTable::single(&limits)],
        }
    }
}

impl CounterSource for Vmstat {
    fn tick(&mut self, context: &mut TickContext) {
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::gap);
            return;
        };
        let mut values = [ABSENT; LIMITS + 2];
        for (number, line) in lines(text).enumerate() {
            let Some(blank) = memchr::memchr(b' ', line) else { continue };
            if let Some(column) = self.layout.column(number, &line[..blank], column)
                && let Some(Some(value)) = WordIter::new(&line[blank..]).number()
            {
                add(&mut values[column], value);
            }
        }
        // pages scanned by direct reclaim are part of all scanned pages
        if values[SCANNED_DIRECT] != ABSENT {
            let direct = values[SCANNED_DIRECT];
            add(&mut values[SCANNED], direct);
        }
        for (table, values) in self.tables.iter_mut().zip([&values[..LIMITS], &values[LIMITS..]]) {
            table.begin();
            table.fill(0).copy_from_slice(values);
            table.settle(context);
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

fn add(to: &mut u64, value: u64) {
    *to = if *to == ABSENT { value } else { to.wrapping_add(value) };
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;

    fn added(before: &str, after: &str, counter: &str) -> f64 {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/vmstat", before);
        let mut watch = machine.watch();
        watch.tick();
        machine.put("proc/vmstat", after);
        watch.tick_after(1.0).value(counter, "")
    }

    #[test]
    fn block_traffic_is_not_paging() {
        let before = "pgpgin 100\npgpgout 100\npswpin 0\npswpout 0\nzswpin 5\n";
        let after = "pgpgin 400\npgpgout 100\npswpin 0\npswpout 0\nzswpin 9\n";
        assert_eq!(added(before, after, "paging.block_in_bytes"), 300.0 * 1024.0);
        assert_eq!(added(before, after, "paging.swap_in_pages"), 0.0);
        // compressed swap in memory is counted apart
        assert_eq!(added(before, after, "paging.zswap_in_pages"), 4.0);
    }

    #[test]
    fn reclaim_of_new_and_old_kernels() {
        let before = "pgscan_kswapd 10\npgscan_direct 1\npgscan_direct_throttle 900\n\
            allocstall_normal 1\nallocstall_movable 2\n";
        let after = "pgscan_kswapd 30\npgscan_direct 6\npgscan_direct_throttle 990\n\
            allocstall_normal 2\nallocstall_movable 5\n";
        assert_eq!(added(before, after, "paging.scanned_pages"), 25.0);
        assert_eq!(added(before, after, "paging.scanned_direct_pages"), 5.0);
        assert_eq!(added(before, after, "paging.allocation_stalls"), 4.0);
        let before = "pgscan_kswapd_dma 1\npgscan_kswapd_normal 1\nworkingset_refault 3\nallocstall 1\n";
        let after = "pgscan_kswapd_dma 3\npgscan_kswapd_normal 5\nworkingset_refault 10\nallocstall 2\n";
        assert_eq!(added(before, after, "paging.scanned_pages"), 6.0);
        assert_eq!(added(before, after, "paging.refaults_file"), 7.0);
        assert_eq!(added(before, after, "paging.allocation_stalls"), 1.0);
    }

    #[test]
    fn the_dirty_limits_are_levels_in_bytes() {
        let page = rustix::param::page_size() as f64;
        let text = "nr_dirty_threshold 100\nnr_dirty_background_threshold 50\n";
        assert_eq!(added(text, text, "memory.dirty_threshold_bytes"), 100.0 * page);
        assert_eq!(added(text, text, "memory.dirty_background_threshold_bytes"), 50.0 * page);
    }
}
