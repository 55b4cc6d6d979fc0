//! `/proc/meminfo`: current use of memory.
//!
//! Thrashing inside one memory control group leaves MemAvailable high: see the
//! `cgroup` sources and `pressure` before trusting it.

use std::hint::black_box;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::scan::{LineLayout, keyed, lines};
use crate::live::totals::{ABSENT, CounterTable, TableColumn, level};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "meminfo",
    files: &["/proc/meminfo"],
    explain: "Memory and swap space by use.",
    parse_any: |bytes| lines(bytes).for_each(|line| _ = black_box(keyed(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Meminfo::new(roots))),
};

const KEYS: [(&str, TableColumn); 22] = [
    ("MemTotal", level("memory.total_bytes", 1024.0)),
    ("MemAvailable", level("memory.available_bytes", 1024.0)),
    ("MemFree", level("memory.free_bytes", 1024.0)),
    ("Buffers", level("memory.buffers_bytes", 1024.0)),
    ("Cached", level("memory.cached_bytes", 1024.0)),
    ("SwapCached", level("memory.swap_cached_bytes", 1024.0)),
    ("Active", level("memory.active_bytes", 1024.0)),
    ("Inactive", level("memory.inactive_bytes", 1024.0)),
    ("Dirty", level("memory.dirty_bytes", 1024.0)),
    ("Writeback", level("memory.writeback_bytes", 1024.0)),
    ("AnonPages", level("memory.anonymous_bytes", 1024.0)),
    ("Mapped", level("memory.mapped_bytes", 1024.0)),
    ("Shmem", level("memory.shared_bytes", 1024.0)),
    ("Slab", level("memory.slab_bytes", 1024.0)),
    ("SReclaimable", level("memory.slab_reclaimable_bytes", 1024.0)),
    ("KernelStack", level("memory.kernel_stack_bytes", 1024.0)),
    ("PageTables", level("memory.page_tables_bytes", 1024.0)),
    ("CommitLimit", level("memory.commit_limit_bytes", 1024.0)),
    ("Committed_AS", level("memory.committed_bytes", 1024.0)),
    ("SwapTotal", level("memory.swap_total_bytes", 1024.0)),
    ("SwapFree", level("memory.swap_free_bytes", 1024.0)),
    ("Zswap", level("memory.zswap_bytes", 1024.0)),
];

struct Meminfo {
    file: OpenFile,
    layout: LineLayout,
    tables: [CounterTable; 1],
}

impl Meminfo {
    fn new(roots: &Roots) -> Meminfo {
        Meminfo {
            file: OpenFile::whole(roots.proc.join("meminfo"), "without it memory cannot be judged"),
            layout: LineLayout::default(),
            tables: [CounterTable::single(&KEYS.map(|(_, column)| column))],
        }
    }
}

impl CounterSource for Meminfo {
    fn tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.gap() };
        table.begin();
        let row = table.fill(0);
        for (number, line) in lines(text).enumerate() {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let find = |key: &[u8]| KEYS.iter().position(|(k, _)| k.as_bytes() == key);
            if let Some(column) = self.layout.column(number, &line[..colon], find) {
                row[column] = keyed(line).and_then(|(_, value)| value).unwrap_or(ABSENT);
            }
        }
        table.settle(context);
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
            .ordinary()
            .put("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 10 kB\nActive(anon): 5 kB\nActive: 7 kB\n");
        let mut watch = machine.watch();
        watch.tick();
        assert_eq!(watch.value("memory.total_bytes", ""), 1_024_000.0);
        assert_eq!(watch.value("memory.active_bytes", ""), 7168.0);
        // before 3.14 there was no MemAvailable, and only new kernels count zswap
        assert!(watch.find("memory.available_bytes", "").is_none());
        assert!(watch.find("memory.zswap_bytes", "").is_none());
        machine.put("proc/meminfo", "MemTotal: 1000 kB\nZswap: 3 kB\nMemFree: 9 kB\n");
        watch.tick_after(1.0);
        assert_eq!(watch.value("memory.free_bytes", ""), 9216.0);
        assert_eq!(watch.value("memory.zswap_bytes", ""), 3072.0);
        assert!(watch.value("memory.active_bytes", "").is_nan());
    }
}
