//! `/proc/vmstat`: faults, swapping, reclaim and write-back, and the limits at which writers are throttled.
//!
//! `pgpgin` and `pgpgout` are all block traffic in KiB, files and swap alike; paging is `pswpin`, `pswpout`, major
//! faults and refaults. Swap on zram counts as swap here but is not disk traffic; zswap is counted separately. Kernels
//! before 4.8 kept one number per zone; these are added up.

use diskwright_base::counter_ids::{memory, paging};
use std::hint::black_box;

use crate::live::counter_table::{ABSENT, CounterTable, TableColumn, column_index, level_column, total_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{LineLayout, WordIter, split_key_and_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "vmstat",
    files: &["/proc/vmstat"],
    explain: "Faults, swapping, reclaim, write-back, and the dirty limits.",
    parse_any: |bytes| {
        for line in text_lines(bytes) {
            if let Some((key, _)) = split_key_and_number(line) {
                black_box(column_of_key(key));
            }
        }
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(Vmstat::new(roots))),
};

const PAGING_COLUMNS: [TableColumn; 18] = [
    total_column(paging::FAULTS, 1.0),
    total_column(paging::MAJOR_FAULTS, 1.0),
    total_column(paging::SWAP_IN_PAGES, 1.0),
    total_column(paging::SWAP_OUT_PAGES, 1.0),
    total_column(paging::REFAULTS_FILE, 1.0),
    total_column(paging::REFAULTS_ANON, 1.0),
    total_column(paging::BLOCK_IN_BYTES, 1024.0),
    total_column(paging::BLOCK_OUT_BYTES, 1024.0),
    total_column(paging::SCANNED_PAGES, 1.0),
    total_column(paging::SCANNED_DIRECT_PAGES, 1.0),
    total_column(paging::STOLEN_PAGES, 1.0),
    total_column(paging::ALLOCATION_STALLS, 1.0),
    total_column(paging::DIRTIED_PAGES, 1.0),
    total_column(paging::WRITTEN_PAGES, 1.0),
    total_column(paging::ZSWAP_IN_PAGES, 1.0),
    total_column(paging::ZSWAP_OUT_PAGES, 1.0),
    total_column(paging::OOM_KILLS, 1.0),
    total_column(paging::COMPACT_STALLS, 1.0),
];

const fn paging_column(counter: &str) -> usize {
    column_index(&PAGING_COLUMNS, counter)
}

const SCANNED_COLUMN: usize = paging_column("paging.scanned_pages");
const SCANNED_DIRECT_COLUMN: usize = paging_column("paging.scanned_direct_pages");
const STOLEN_COLUMN: usize = paging_column("paging.stolen_pages");
const ALLOCATION_STALLS_COLUMN: usize = paging_column("paging.allocation_stalls");
/// First of the two columns of limits, which follow the totals.
const LIMITS_COLUMN: usize = PAGING_COLUMNS.len();

/// Columns of keys that are compared as a whole; [`column_of_key`] knows the prefixes of the reclaim counters.
const KEY_COLUMNS: [(&str, usize); 17] = [
    ("pgfault", paging_column("paging.faults")),
    ("pgmajfault", paging_column("paging.major_faults")),
    ("pswpin", paging_column("paging.swap_in_pages")),
    ("pswpout", paging_column("paging.swap_out_pages")),
    ("workingset_refault_file", paging_column("paging.refaults_file")),
    // before 5.9 only file pages refaulted
    ("workingset_refault", paging_column("paging.refaults_file")),
    ("workingset_refault_anon", paging_column("paging.refaults_anon")),
    ("pgpgin", paging_column("paging.block_in_bytes")),
    ("pgpgout", paging_column("paging.block_out_bytes")),
    ("nr_dirtied", paging_column("paging.dirtied_pages")),
    ("nr_written", paging_column("paging.written_pages")),
    ("zswpin", paging_column("paging.zswap_in_pages")),
    ("zswpout", paging_column("paging.zswap_out_pages")),
    ("oom_kill", paging_column("paging.oom_kills")),
    ("compact_stall", paging_column("paging.compact_stalls")),
    ("nr_dirty_threshold", LIMITS_COLUMN),
    ("nr_dirty_background_threshold", LIMITS_COLUMN + 1),
];

/// Returns the column that a line belongs to. Several lines may belong to one column, which is their sum.
fn column_of_key(key: &[u8]) -> Option<usize> {
    if let Some((_, column)) = KEY_COLUMNS.iter().find(|(k, _)| k.as_bytes() == key) {
        return Some(*column);
    }
    let has_prefix = |prefix: &str| key.strip_prefix(prefix.as_bytes()).is_some_and(is_zone_suffix);
    if has_prefix("pgscan_direct") {
        Some(SCANNED_DIRECT_COLUMN)
    } else if has_prefix("pgscan_kswapd") || has_prefix("pgscan_khugepaged") || has_prefix("pgscan_proactive") {
        Some(SCANNED_COLUMN)
    } else if ["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"]
        .into_iter()
        .any(has_prefix)
    {
        Some(STOLEN_COLUMN)
    } else if has_prefix("allocstall") {
        Some(ALLOCATION_STALLS_COLUMN)
    } else {
        None
    }
}

/// Returns true for the possible endings of a reclaim counter's name: nothing, or a zone's name.
fn is_zone_suffix(suffix: &[u8]) -> bool {
    matches!(suffix, b"" | b"_dma" | b"_dma32" | b"_normal" | b"_high" | b"_movable" | b"_device")
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
        let limits = [
            level_column(memory::DIRTY_THRESHOLD_BYTES, page),
            level_column(memory::DIRTY_BACKGROUND_THRESHOLD_BYTES, page),
        ];
        Vmstat {
            file: OpenFile::in_pieces(roots.proc.join("vmstat"), "without it paging cannot be judged"),
            layout: LineLayout::default(),
            tables: [CounterTable::single_row(&PAGING_COLUMNS), CounterTable::single_row(&limits)],
        }
    }
}

impl CounterSource for Vmstat {
    fn read_tick(&mut self, context: &mut TickContext) {
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::blank_all);
            return;
        };
        let mut values = [ABSENT; LIMITS_COLUMN + 2];
        for (number, line) in text_lines(text).enumerate() {
            let Some(key_length) = memchr::memchr(b' ', line) else { continue };
            if let Some(column) = self.layout.column_of_line(number, &line[..key_length], column_of_key)
                && let Some(Some(value)) = WordIter::new(&line[key_length..]).next_number()
            {
                add_value(&mut values[column], value);
            }
        }
        // pages scanned by direct reclaim are part of all scanned pages
        if values[SCANNED_DIRECT_COLUMN] != ABSENT {
            let direct = values[SCANNED_DIRECT_COLUMN];
            add_value(&mut values[SCANNED_COLUMN], direct);
        }
        for (table, values) in self.tables.iter_mut().zip([&values[..LIMITS_COLUMN], &values[LIMITS_COLUMN..]]) {
            table.begin_tick();
            table.row_mut(0).copy_from_slice(values);
            table.compute_cells(context);
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

/// Adds a value to a cell, which may still be absent.
fn add_value(cell: &mut u64, value: u64) {
    *cell = if *cell == ABSENT { value } else { cell.wrapping_add(value) };
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;

    fn growth(before: &str, after: &str, counter: &str) -> f64 {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/vmstat", before);
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/vmstat", after);
        watch.tick_after(1.0).value(counter, "")
    }

    #[test]
    fn block_traffic_is_not_paging() {
        let before = "pgpgin 100\npgpgout 100\npswpin 0\npswpout 0\nzswpin 5\n";
        let after = "pgpgin 400\npgpgout 100\npswpin 0\npswpout 0\nzswpin 9\n";
        assert_eq!(growth(before, after, "paging.block_in_bytes"), 300.0 * 1024.0);
        assert_eq!(growth(before, after, "paging.swap_in_pages"), 0.0);
        // compressed swap in memory is counted separately
        assert_eq!(growth(before, after, "paging.zswap_in_pages"), 4.0);
    }

    #[test]
    fn reclaim_is_counted_on_new_and_old_kernels() {
        let before = "pgscan_kswapd 10\npgscan_direct 1\npgscan_direct_throttle 900\n\
            allocstall_normal 1\nallocstall_movable 2\n";
        let after = "pgscan_kswapd 30\npgscan_direct 6\npgscan_direct_throttle 990\n\
            allocstall_normal 2\nallocstall_movable 5\n";
        assert_eq!(growth(before, after, "paging.scanned_pages"), 25.0);
        assert_eq!(growth(before, after, "paging.scanned_direct_pages"), 5.0);
        assert_eq!(growth(before, after, "paging.allocation_stalls"), 4.0);
        let before = "pgscan_kswapd_dma 1\npgscan_kswapd_normal 1\nworkingset_refault 3\nallocstall 1\n";
        let after = "pgscan_kswapd_dma 3\npgscan_kswapd_normal 5\nworkingset_refault 10\nallocstall 2\n";
        assert_eq!(growth(before, after, "paging.scanned_pages"), 6.0);
        assert_eq!(growth(before, after, "paging.refaults_file"), 7.0);
        assert_eq!(growth(before, after, "paging.allocation_stalls"), 1.0);
    }

    #[test]
    fn the_dirty_limits_are_levels_in_bytes() {
        let page = rustix::param::page_size() as f64;
        let text = "nr_dirty_threshold 100\nnr_dirty_background_threshold 50\n";
        assert_eq!(growth(text, text, "memory.dirty_threshold_bytes"), 100.0 * page);
        assert_eq!(growth(text, text, "memory.dirty_background_threshold_bytes"), 50.0 * page);
    }
}
