//! `/proc/loadavg`: tasks that run or wait uninterruptibly, smoothed. Recorded
//! because people know it; nothing is judged by it alone, because it mixes tasks
//! that wait for a processor with tasks that wait for a disk.

use std::hint::black_box;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::scan::{WordIter, hundredths};
use crate::live::totals::{ABSENT, CounterTable, level};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "loadavg",
    files: &["/proc/loadavg"],
    explain: "Load averages over 1, 5 and 15 minutes.",
    parse_any: |bytes| _ = black_box(parse(bytes)),
    open: |roots, _: &SamplerOptions| Some(Box::new(Loadavg::new(roots))),
};

/// Parses the three averages in hundredths.
pub fn parse(text: &[u8]) -> [Option<u64>; 3] {
    let mut words = WordIter::new(text);
    [(); 3].map(|()| words.word().and_then(hundredths))
}

struct Loadavg {
    file: OpenFile,
    tables: [CounterTable; 1],
}

impl Loadavg {
    fn new(roots: &Roots) -> Loadavg {
        let columns = [level("system.load_1", 0.01), level("system.load_5", 0.01), level("system.load_15", 0.01)];
        Loadavg {
            file: OpenFile::whole(roots.proc.join("loadavg"), "load averages are not shown"),
            tables: [CounterTable::single(&columns)],
        }
    }
}

impl CounterSource for Loadavg {
    fn tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.gap() };
        table.begin();
        for (to, from) in table.fill(0).iter_mut().zip(parse(text)) {
            *to = from.unwrap_or(ABSENT);
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
    fn hundredths() {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/loadavg", "12.50 3.07 x 4/100 5\n");
        let mut watch = machine.watch();
        watch.tick();
        assert_eq!(watch.value("system.load_1", ""), 12.5);
        assert!((watch.value("system.load_5", "") - 3.07).abs() < 1e-12);
        assert!(watch.find("system.load_15", "").is_none());
    }
}
