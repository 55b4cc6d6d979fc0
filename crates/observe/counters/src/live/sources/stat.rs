//! `/proc/stat`: processor time by state, and a few numbers of the whole system.
//!
//! Idle and iowait are estimates that may step back a little; then their cell is a gap. `user` includes `guest`.

use diskwright_base::counter_ids::{processor, system};
use std::hint::black_box;

use crate::live::counter_table::{
    ABSENT, CounterReset, CounterTable, TableColumn, column_index, level_column, total_column,
};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, split_key_and_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "stat",
    files: &["/proc/stat"],
    explain: "Processor time in total and per processor, context switches, forks, interrupts, running and blocked \
              tasks.",
    parse_any: |bytes| text_lines(bytes).for_each(|line| _ = black_box(parse_processor(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(StatSource::new(roots))),
};

const STATE_COUNT: usize = 9;

/// Unit of the kernel's times, seconds: hundredths on every supported architecture.
const TICK_S: f64 = 0.01;

const PROCESSOR_COLUMNS: [TableColumn; STATE_COUNT] = [
    total_column(processor::USER_S, TICK_S),
    total_column(processor::NICE_S, TICK_S),
    total_column(processor::SYSTEM_S, TICK_S),
    total_column(processor::IDLE_S, TICK_S),
    total_column(processor::IOWAIT_S, TICK_S),
    total_column(processor::IRQ_S, TICK_S),
    total_column(processor::SOFTIRQ_S, TICK_S),
    total_column(processor::STEAL_S, TICK_S),
    total_column(processor::GUEST_S, TICK_S),
];

const SYSTEM_COLUMNS: [TableColumn; 7] = [
    total_column(system::CONTEXT_SWITCHES, 1.0),
    total_column(system::FORKS, 1.0),
    total_column(system::INTERRUPTS, 1.0),
    level_column(system::RUNNING, 1.0),
    level_column(system::BLOCKED, 1.0),
    level_column(system::PROCESSORS, 1.0),
    level_column(system::UPTIME_S, 1.0),
];
const CONTEXT_SWITCHES_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.context_switches");
const FORKS_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.forks");
const INTERRUPTS_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.interrupts");
const RUNNING_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.running");
const BLOCKED_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.blocked");
const PROCESSORS_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.processors");
const UPTIME_COLUMN: usize = column_index(&SYSTEM_COLUMNS, "system.uptime_s");

/// Parses a `cpu…` line into its name (`cpu` stands for all processors) and its times in hundredths of a second. A time
/// is `None` where an older kernel does not count it.
pub fn parse_processor(line: &[u8]) -> Option<(&[u8], [Option<u64>; STATE_COUNT])> {
    let mut words = WordIter::new(line);
    let name = words.next_word()?;
    if !name.starts_with(b"cpu") {
        return None;
    }
    let mut times = [None; STATE_COUNT];
    for time in &mut times {
        *time = words.next_number().flatten();
    }
    Some((name, times))
}

struct StatSource {
    file: OpenFile,
    /// Number of online processors at the last tick.
    online: u64,
    /// Processors and the system.
    tables: [CounterTable; 2],
}

impl StatSource {
    fn new(roots: &Roots) -> StatSource {
        StatSource {
            file: OpenFile::in_one_read(roots.proc.join("stat"), "without it processor time is unknown"),
            online: 0,
            tables: [
                CounterTable::new("processor", &PROCESSOR_COLUMNS, CounterReset::OneNumber),
                CounterTable::single_row(&SYSTEM_COLUMNS),
            ],
        }
    }
}

impl CounterSource for StatSource {
    fn read_tick(&mut self, context: &mut TickContext) {
        let Some(text) = self.file.read(context) else {
            self.tables.iter_mut().for_each(CounterTable::blank_all);
            return;
        };
        let [processors, system] = &mut self.tables;
        processors.begin_tick();
        system.begin_tick();
        let mut online = 0;
        let mut row = 0;
        for line in text_lines(text) {
            if line.starts_with(b"cpu") {
                let Some((name, times)) = parse_processor(line) else { continue };
                // `cpu` alone stands for all processors
                online += u64::from(name != b"cpu");
                row = processor_row(processors, row, name);
                for (to, from) in processors.row_mut(row).iter_mut().zip(times) {
                    *to = from.unwrap_or(ABSENT);
                }
                row += 1;
            } else if let Some(column) = system_column(line)
                && let Some((_, Some(number))) = split_key_and_number(line)
            {
                system.row_mut(0)[column] = number;
            }
        }
        if online > 0 {
            system.row_mut(0)[PROCESSORS_COLUMN] = online;
        }
        // For a processor that is offline, the kernel adds a different count of idle time (fs/proc/stat.c), and
        // before Linux 6.8 the usual one starts at zero when it comes back: the sum can jump by days.
        if std::mem::replace(&mut self.online, online) != online
            && let Some(total) = processors.find_row("_total")
        {
            processors.forget_previous_of(total);
        }
        system.row_mut(0)[UPTIME_COLUMN] = context.since_boot_ns / 1_000_000_000;
        processors.compute_cells(context);
        system.compute_cells(context);
        if system.cell(0, BLOCKED_COLUMN) > 0.0 {
            context.processes_due = true;
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

fn processor_row(table: &mut CounterTable, cursor: usize, name: &[u8]) -> usize {
    let instance: &[u8] = if name == b"cpu" { b"_total" } else { name };
    if table.is_row(cursor, instance) { cursor } else { table.row_or_insert(&String::from_utf8_lossy(instance)) }
}

fn system_column(line: &[u8]) -> Option<usize> {
    match line {
        [b'c', b't', b'x', b't', b' ', ..] => Some(CONTEXT_SWITCHES_COLUMN),
        [b'i', b'n', b't', b'r', b' ', ..] => Some(INTERRUPTS_COLUMN),
        [b'p', b'r', b'o', b'c', rest @ ..] => match rest {
            [b'e', b's', b's', b'e', b's', b' ', ..] => Some(FORKS_COLUMN),
            [b's', b'_', b'r', b'u', b'n', b'n', b'i', b'n', b'g', b' ', ..] => Some(RUNNING_COLUMN),
            [b's', b'_', b'b', b'l', b'o', b'c', b'k', b'e', b'd', b' ', ..] => Some(BLOCKED_COLUMN),
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
        machine.put_ordinary_files().put_file("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.value("system.running", ""), 3.0);
        assert_eq!(watch.value("system.processors", ""), 2.0);
        assert_eq!(watch.value("system.uptime_s", ""), 100.0);
        // old kernels have four times; the others are absent, not zero
        assert!(watch.find_value("processor.iowait_s", "cpu1").is_none());
        machine.put_file("proc/stat", text(150, 60, 27).replace("ctxt 900", "ctxt 1000"));
        watch.tick_after(1.0);
        assert_eq!(watch.value("processor.idle_s", "_total"), 0.5);
        assert_eq!(watch.value("processor.steal_s", "cpu0"), 0.2);
        assert_eq!(watch.value("system.context_switches", ""), 100.0);
    }

    #[test]
    fn iowait_that_steps_back_is_one_gap_and_one_note() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch_default();
        watch.tick();
        for iowait in (40..50).rev() {
            machine.put_file("proc/stat", text(200, iowait, 7));
            watch.tick_after(1.0);
            assert!(watch.value("processor.iowait_s", "cpu0").is_nan());
            assert!(!watch.value("processor.idle_s", "cpu0").is_nan());
        }
        assert_eq!(watch.notes_of_kind(Note::GAP).len(), 1);
    }

    #[test]
    fn the_sum_over_processors_is_a_gap_when_one_goes_offline() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch_default();
        watch.tick();
        let without = |idle: u64| text(idle, 50, 7).replace("cpu1 1 1 1 1\n", "");
        machine.put_file("proc/stat", without(86_400_100));
        watch.tick_after(1.0);
        assert!(watch.value("processor.idle_s", "_total").is_nan());
        machine.put_file("proc/stat", without(86_400_150));
        watch.tick_after(1.0);
        assert_eq!(watch.value("processor.idle_s", "_total"), 0.5);
    }

    #[test]
    fn a_processor_that_goes_offline_is_a_gap() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/stat", text(100, 50, 7));
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/stat", text(100, 50, 7).replace("cpu1 1 1 1 1\n", ""));
        watch.tick_after(1.0);
        assert!(watch.value("processor.user_s", "cpu1").is_nan());
        assert_eq!(watch.value("system.processors", ""), 1.0);
        assert!(watch.has_note(Note::GAP, "processor cpu1 is gone"));
    }
}
