//! `/proc/meminfo`: current use of memory.
//!
//! Thrashing inside one memory control group leaves MemAvailable high: see the
//! `cgroup` sources and `pressure` before trusting it.

use diskwright_base::counter_ids::memory;
use std::hint::black_box;

use crate::live::counter_table::{ABSENT, CounterTable, TableColumn, level_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{LineLayout, split_key_and_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "meminfo",
    files: &["/proc/meminfo"],
    explain: "Memory and swap space by use.",
    parse_any: |bytes| text_lines(bytes).for_each(|line| _ = black_box(split_key_and_number(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Meminfo::new(roots))),
};

const KEY_COLUMNS: [(&str, TableColumn); 22] = [
    ("MemTotal", level_column(memory::TOTAL_BYTES, 1024.0)),
    ("MemAvailable", level_column(memory::AVAILABLE_BYTES, 1024.0)),
    ("MemFree", level_column(memory::FREE_BYTES, 1024.0)),
    ("Buffers", level_column(memory::BUFFERS_BYTES, 1024.0)),
    ("Cached", level_column(memory::CACHED_BYTES, 1024.0)),
    ("SwapCached", level_column(memory::SWAP_CACHED_BYTES, 1024.0)),
    ("Active", level_column(memory::ACTIVE_BYTES, 1024.0)),
    ("Inactive", level_column(memory::INACTIVE_BYTES, 1024.0)),
    ("Dirty", level_column(memory::DIRTY_BYTES, 1024.0)),
    ("Writeback", level_column(memory::WRITEBACK_BYTES, 1024.0)),
    ("AnonPages", level_column(memory::ANONYMOUS_BYTES, 1024.0)),
    ("Mapped", level_column(memory::MAPPED_BYTES, 1024.0)),
    ("Shmem", level_column(memory::SHARED_BYTES, 1024.0)),
    ("Slab", level_column(memory::SLAB_BYTES, 1024.0)),
    ("SReclaimable", level_column(memory::SLAB_RECLAIMABLE_BYTES, 1024.0)),
    ("KernelStack", level_column(memory::KERNEL_STACK_BYTES, 1024.0)),
    ("PageTables", level_column(memory::PAGE_TABLES_BYTES, 1024.0)),
    ("CommitLimit", level_column(memory::COMMIT_LIMIT_BYTES, 1024.0)),
    ("Committed_AS", level_column(memory::COMMITTED_BYTES, 1024.0)),
    ("SwapTotal", level_column(memory::SWAP_TOTAL_BYTES, 1024.0)),
    ("SwapFree", level_column(memory::SWAP_FREE_BYTES, 1024.0)),
    ("Zswap", level_column(memory::ZSWAP_BYTES, 1024.0)),
];

struct Meminfo {
    file: OpenFile,
    layout: LineLayout,
    tables: [CounterTable; 1],
}

impl Meminfo {
    fn new(roots: &Roots) -> Meminfo {
        Meminfo {
            file: OpenFile::in_one_read(roots.proc.join("meminfo"), "without it memory cannot be judged"),
            layout: LineLayout::default(),
            tables: [CounterTable::single_row(&KEY_COLUMNS.map(|(_, column)| column))],
        }
    }
}

impl CounterSource for Meminfo {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        table.begin_tick();
        let row = table.row_mut(0);
        for (number, line) in text_lines(text).enumerate() {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let find = |key: &[u8]| KEY_COLUMNS.iter().position(|(k, _)| k.as_bytes() == key);
            if let Some(column) = self.layout.column_of_line(number, &line[..colon], find) {
                row[column] = split_key_and_number(line).and_then(|(_, value)| value).unwrap_or(ABSENT);
            }
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;

    #[test]
    fn levels_are_there_from_the_first_tick_and_missing_ones_are_absent() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_file("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 10 kB\nActive(anon): 5 kB\nActive: 7 kB\n");
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.value("memory.total_bytes", ""), 1_024_000.0);
        assert_eq!(watch.value("memory.active_bytes", ""), 7168.0);
        // before 3.14 there was no MemAvailable, and only new kernels count zswap
        assert!(watch.find_value("memory.available_bytes", "").is_none());
        assert!(watch.find_value("memory.zswap_bytes", "").is_none());
        machine.put_file("proc/meminfo", "MemTotal: 1000 kB\nZswap: 3 kB\nMemFree: 9 kB\n");
        watch.tick_after(1.0);
        assert_eq!(watch.value("memory.free_bytes", ""), 9216.0);
        assert_eq!(watch.value("memory.zswap_bytes", ""), 3072.0);
        assert!(watch.value("memory.active_bytes", "").is_nan());
    }
}
