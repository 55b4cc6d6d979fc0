//! `/proc/stat`: processor time by state, and a few numbers of
//! the whole system.
//!
//! Idle and iowait are estimates that may step back a little; then that
//! cell is a gap. `user` includes `guest`.

use std::hint::black_box;

use crate::live::held::OpenFile;
use crate::live::moment::TickContext;
use crate::live::scan::{WordIter, keyed, lines};
use crate::live::totals::{ABSENT, CounterReset, CounterTable, TableColumn, level, total};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "stat",
    files: &["/proc/stat"],
    explain: "Processor time in total and per processor, context switches, forks, interrupts, running and blocked \
              tasks.",
    parse_any: |bytes| lines(bytes).for_each(|line| _ = black_box(parse_processor(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(StatSource::new(roots))),
};

const STATES: usize = 9;

/// Unit of the kernel's times, seconds: hundredths on every architecture we know.
const TICK_S: f64 = 0.01;

const PROCESSOR: [TableColumn; STATES] = [
    total("processor.user_s", TICK_S),
    total("processor.nice_s", TICK_S),
    total("processor.system_s", TICK_S),
    total("processor.idle_s", TICK_S),
    total("processor.iowait_s", TICK_S),
    total("processor.irq_s", TICK_S),
    total("processor.softirq_s", TICK_S),
    total("processor.steal_s", TICK_S),
    total("processor.guest_s", TICK_S),
];

const SYSTEM: [TableColumn; 7] = [
    total("system.context_switches", 1.0),
    total("system.forks", 1.0),
    total("system.interrupts", 1.0),
    level("system.running", 1.0),
    level("system.blocked", 1.0),
    level("system.processors", 1.0),
    level("system.uptime_s", 1.0),
];
const BLOCKED: usize = 4;
const PROCESSORS: usize = 5;
const UPTIME: usize = 6;

/// Parses a `cpu…` line into its name (`cpu` is all of them) and its times in hundredths
/// of a second; `None` where an older kernel has no such time.
pub fn parse_processor(line: &[u8]) -> Option<(&[u8], [Option<u64>; STATES])> {
    let mut words = WordIter::new(line);
    let name = words.word()?;
    if !name.starts_with(b"cpu") {
        return None;
    }
    let mut times = [None; STATES];
    for time in &mut times {
        *time = words.number().flatten();
    }
    Some((name, times))
}

struct StatSource {
    file: OpenFile,
    /// Processors at the last tick.
    online: u64,
    /// Processors and the system.
    tables: [CounterTable; 2],
}

impl StatSource {
    fn new(roots: &Roots) -> StatSource {
        StatSource {
            file: OpenFile::whole(roots.proc.join("stat"), "without it processor time is unknown"),
            online: 0,
            tables: [
                CounterTable::new("processor", &PROCESSOR, CounterReset::OneNumber),
                CounterTable::single(&SYSTEM),
            ],
        }
    }
}

impl CounterSource for StatSource {
    fn tick(&mut self, context: &mut TickContext) {
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::gap);
            return;
        };
        let [processors, system] = &mut self.tables;
        processors.begin();
        system.begin();
        let mut online = 0;
        let mut row = 0;
        for line in lines(text) {
            if line.starts_with(b"cpu") {
                let Some((name, times)) = parse_processor(line) else { continue };
                online += u64::from(name.len() > 3);
                row = processor_row(processors, row, name);
                for (to, from) in processors.fill(row).iter_mut().zip(times) {
                    *to = from.unwrap_or(ABSENT);
                }
                row += 1;
            } else if let Some(column) = system_column(line)
                && let Some((_, Some(number))) = keyed(line)
            {
                system.fill(0)[column] = number;
            }
        }
        if online > 0 {
            system.fill(0)[PROCESSORS] = online;
        }
        // For a processor that is offline, the kernel adds a different count of idle time (fs/proc/stat.c), and
        // before Linux 6.8 the usual one starts at zero when it comes back: the sum can jump by days.
        if std::mem::replace(&mut self.online, online) != online
            && let Some(total) = processors.find("_total")
        {
            processors.forget_row(total);
        }
        system.fill(0)[UPTIME] = context.since_boot_ns / 1_000_000_000;
        processors.settle(context);
        system.settle(context);
        if system.cell(0, BLOCKED) > 0.0 {
            context.trouble = true;
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

fn processor_row(table: &mut CounterTable, cursor: usize, name: &[u8]) -> usize {
    let instance: &[u8] = if name == b"cpu" { b"_total" } else { name };
    if table.is_row(cursor, instance) { cursor } else { table.row(&String::from_utf8_lossy(instance)) }
}

fn system_column(line: &[u8]) -> Option<usize> {
    match line {
        [b'c', b't', b'x', b't', b' ', ..] => Some(0),
        [b'i', b'n', b't', b'r', b' ', ..] => Some(2),
        [b'p', b'r', b'o', b'c', rest @ ..] => match rest {
            [b'e', b's', b's', b'e', b's', b' ', ..] => Some(1),
            [b's', b'_', b'r', b'u', b'n', b'n', b'i', b'n', b'g', b' ', ..] => Some(3),
            [b's', b'_', b'b', b'l', b'o', b'c', b'k', b'e', b'd', b' ', ..] => Some(4),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;
    use diskwright_base::Note;

    fn text(idle: u64, iowait: u64, steal: u64) -> String {
        format!(
            "cpu  10 0 20 {idle} {iowait} 1 2 {steal} 4 0\ncpu0 10 0 20 {idle} {iowait} 1 2 {steal} 4 0\n\
             cpu1 1 1 1 1\nintr 500 3 4\nctxt 900\nprocesses 40\nprocs_running 3\nprocs_blocked 2\n"
        )
    }

    #[test]
    fn processors_and_system() {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch();
        watch.tick();
        assert_eq!(watch.value("system.running", ""), 3.0);
        assert_eq!(watch.value("system.processors", ""), 2.0);
        assert_eq!(watch.value("system.uptime_s", ""), 100.0);
        // old kernels have four times; the others are absent, not zero
        assert!(watch.find("processor.iowait_s", "cpu1").is_none());
        machine.put("proc/stat", text(150, 60, 27).replace("ctxt 900", "ctxt 1000"));
        watch.tick_after(1.0);
        assert_eq!(watch.value("processor.idle_s", "_total"), 0.5);
        assert_eq!(watch.value("processor.steal_s", "cpu0"), 0.2);
        assert_eq!(watch.value("system.context_switches", ""), 100.0);
    }

    #[test]
    fn iowait_that_steps_back_is_one_gap_and_one_note() {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch();
        watch.tick();
        for iowait in (40..50).rev() {
            machine.put("proc/stat", text(200, iowait, 7));
            watch.tick_after(1.0);
            assert!(watch.value("processor.iowait_s", "cpu0").is_nan());
            assert!(!watch.value("processor.idle_s", "cpu0").is_nan());
        }
        assert_eq!(watch.notes(Note::GAP).len(), 1);
    }

    #[test]
    fn the_sum_over_processors_is_a_gap_where_one_is_switched_off() {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch();
        watch.tick();
        let without = |idle: u64| text(idle, 50, 7).replace("cpu1 1 1 1 1\n", "");
        machine.put("proc/stat", without(86_400_100));
        watch.tick_after(1.0);
        assert!(watch.value("processor.idle_s", "_total").is_nan());
        machine.put("proc/stat", without(86_400_150));
        watch.tick_after(1.0);
        assert_eq!(watch.value("processor.idle_s", "_total"), 0.5);
    }

    #[test]
    fn a_processor_that_is_switched_off_is_a_gap() {
        let machine = FakeMachine::new();
        machine.ordinary().put("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch();
        watch.tick();
        machine.put("proc/stat", text(100, 50, 7).replace("cpu1 1 1 1 1\n", ""));
        watch.tick_after(1.0);
        assert!(watch.value("processor.user_s", "cpu1").is_nan());
        assert_eq!(watch.value("system.processors", ""), 1.0);
        assert!(watch.says(Note::GAP, "processor cpu1 is gone"));
    }
}
