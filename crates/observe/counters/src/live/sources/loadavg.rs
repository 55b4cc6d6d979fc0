//! `/proc/loadavg`: tasks that run or wait uninterruptibly, smoothed. Recorded because people know it. No judgment
//! rests on it alone: it mixes tasks that wait for a processor with tasks that wait for a disk.

use diskwright_base::counter_ids::system;
use std::hint::black_box;

use crate::live::counter_table::{ABSENT, CounterTable, level_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, parse_hundredths};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "loadavg",
    files: &["/proc/loadavg"],
    explain: "Load averages over 1, 5 and 15 minutes.",
    parse_any: |bytes| _ = black_box(parse_averages(bytes)),
    open: |roots, _: &SamplerOptions| Some(Box::new(Loadavg::new(roots))),
};

/// Parses the three averages in hundredths.
pub fn parse_averages(text: &[u8]) -> [Option<u64>; 3] {
    let mut words = WordIter::new(text);
    [(); 3].map(|()| words.next_word().and_then(parse_hundredths))
}

struct Loadavg {
    file: OpenFile,
    tables: [CounterTable; 1],
}

impl Loadavg {
    fn new(roots: &Roots) -> Loadavg {
        let columns = [
            level_column(system::LOAD_1, 0.01),
            level_column(system::LOAD_5, 0.01),
            level_column(system::LOAD_15, 0.01),
        ];
        Loadavg {
            file: OpenFile::in_one_read(roots.proc.join("loadavg"), "load averages are not shown"),
            tables: [CounterTable::single_row(&columns)],
        }
    }
}

impl CounterSource for Loadavg {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        table.begin_tick();
        for (to, from) in table.row_mut(0).iter_mut().zip(parse_averages(text)) {
            *to = from.unwrap_or(ABSENT);
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
    fn hundredths() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/loadavg", "12.50 3.07 x 4/100 5\n");
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.value("system.load_1", ""), 12.5);
        assert!((watch.value("system.load_5", "") - 3.07).abs() < 1e-12);
        assert!(watch.find_value("system.load_15", "").is_none());
    }
}
