//! `/proc/pressure`: time that tasks waited for processor, I/O and memory.
//!
//! `full` of the system's processor pressure has no meaning and is not read. A page that is swapped in raises both I/O
//! and memory pressure. A kernel can contain pressure accounting that is switched off; a note reports that.

use diskwright_base::counter_ids::pressure;
use std::hint::black_box;

use crate::live::counter_table::{ABSENT, CounterTable, TableColumn, column_index, total_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, parse_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "pressure",
    files: &["/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/pressure/irq"],
    explain: "Time in which some or all tasks waited for processor, I/O, memory, interrupts.",
    parse_any: |bytes| _ = black_box(parse_pressure(bytes)),
    open: |roots, _: &SamplerOptions| Some(Box::new(Pressure::new(roots))),
};

/// Parses a pressure file: microseconds in which some tasks waited, and those in which all did.
pub fn parse_pressure(text: &[u8]) -> (Option<u64>, Option<u64>) {
    let (mut some, mut full) = (None, None);
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let kind = words.next_word();
        let Some(start) = memchr::memmem::find(words.rest(), b"total=") else { continue };
        let value = parse_number(crate::live::text_scan::trim_blanks(&words.rest()[start + 6..]));
        match kind {
            Some(b"some") => some = value,
            Some(b"full") => full = value,
            _ => {}
        }
    }
    (some, full)
}

const COLUMNS: [TableColumn; 6] = [
    total_column(pressure::CPU_SOME_S, 1e-6),
    total_column(pressure::IO_SOME_S, 1e-6),
    total_column(pressure::IO_FULL_S, 1e-6),
    total_column(pressure::MEMORY_SOME_S, 1e-6),
    total_column(pressure::MEMORY_FULL_S, 1e-6),
    total_column(pressure::IRQ_FULL_S, 1e-6),
];

const CPU_SOME_COLUMN: usize = column_index(&COLUMNS, "pressure.cpu_some_s");
const IO_SOME_COLUMN: usize = column_index(&COLUMNS, "pressure.io_some_s");
const IO_FULL_COLUMN: usize = column_index(&COLUMNS, "pressure.io_full_s");
const MEMORY_SOME_COLUMN: usize = column_index(&COLUMNS, "pressure.memory_some_s");
const MEMORY_FULL_COLUMN: usize = column_index(&COLUMNS, "pressure.memory_full_s");
const IRQ_FULL_COLUMN: usize = column_index(&COLUMNS, "pressure.irq_full_s");

/// Files, and the columns of their lines `some` and `full`.
const FILE_COLUMNS: [(&str, Option<usize>, Option<usize>); 4] = [
    ("cpu", Some(CPU_SOME_COLUMN), None),
    ("io", Some(IO_SOME_COLUMN), Some(IO_FULL_COLUMN)),
    ("memory", Some(MEMORY_SOME_COLUMN), Some(MEMORY_FULL_COLUMN)),
    ("irq", None, Some(IRQ_FULL_COLUMN)),
];

/// Share of the tick in which some tasks waited, above which processes are scanned at once.
const TROUBLE_SHARE: f64 = 0.10;

struct Pressure {
    files: Vec<(OpenFile, Option<usize>, Option<usize>)>,
    tables: [CounterTable; 1],
}

impl Pressure {
    fn new(roots: &Roots) -> Pressure {
        let folder = roots.proc.join("pressure");
        let consequence = |name| match name {
            "irq" => "time lost to interrupts is unknown (kernels before 6.1 do not report it)",
            _ => "waiting is judged from other counters (boot with psi=1, or see CONFIG_PSI)",
        };
        Pressure {
            files: FILE_COLUMNS
                .iter()
                .map(|&(name, some, full)| (OpenFile::in_one_read(folder.join(name), consequence(name)), some, full))
                .collect(),
            tables: [CounterTable::single_row(&COLUMNS)],
        }
    }
}

impl CounterSource for Pressure {
    fn read_tick(&mut self, context: &mut TickContext) {
        let mut values = [ABSENT; COLUMNS.len()];
        for (file, some, full) in &mut self.files {
            let Some(text) = file.read(context) else { continue };
            let (some_us, full_us) = parse_pressure(text);
            for (column, value) in [(*some, some_us), (*full, full_us)] {
                if let (Some(column), Some(value)) = (column, value) {
                    values[column] = value;
                }
            }
        }
        let [table] = &mut self.tables;
        table.begin_tick();
        table.row_mut(0).copy_from_slice(&values);
        table.compute_cells(context);
        // microseconds, as the cells are
        let limit = TROUBLE_SHARE * context.elapsed_ns as f64 * 1e-3;
        let is_in_trouble = |column: usize| table.cell(0, column) > limit;
        if [CPU_SOME_COLUMN, IO_SOME_COLUMN, MEMORY_SOME_COLUMN].into_iter().any(is_in_trouble) {
            context.processes_due = true;
        }
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;
    use diskwright_base::Note;

    const WAITS: &str = "some avg10=1.00 avg60=0.10 avg300=0.00 total=TOTAL\nfull avg10=0.00 total=77\n";

    #[test]
    fn both_lines_and_damaged_ones_are_parsed() {
        assert_eq!(parse_pressure(WAITS.replace("TOTAL", "12").as_bytes()), (Some(12), Some(77)));
        assert_eq!(parse_pressure(b"some avg10=0.00 total=\nfull"), (None, None));
        assert_eq!(parse_pressure(b"full avg10=0.00 total=3\n"), (None, Some(3)));
    }

    #[test]
    fn full_processor_pressure_is_ignored() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/pressure/io", WAITS.replace("TOTAL", "52000"));
        watch.tick_after(1.0);
        assert!((watch.value("pressure.io_some_s", "") - 0.05).abs() < 1e-12);
        assert!(watch.find_value("pressure.cpu_full_s", "").is_none());
        assert_eq!(watch.value("pressure.cpu_some_s", ""), 0.0);
    }

    #[test]
    fn a_kernel_without_pressure_is_a_note_and_no_series() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().remove("proc/pressure");
        let mut watch = machine.watch_default();
        watch.tick().tick_after(1.0).tick_after(10.0);
        assert!(watch.find_value("pressure.io_some_s", "").is_none());
        let count =
            watch.notes_of_kind(Note::UNSEEN).iter().filter(|n| n.contains("pressure/io: does not exist here")).count();
        assert_eq!(count, 1, "once, not at every tick");
    }

    #[test]
    fn disabled_pressure_is_noted() {
        // what reading gives on a kernel booted with psi=0
        let error = std::io::Error::from_raw_os_error(rustix::io::Errno::OPNOTSUPP.raw_os_error());
        assert_eq!(crate::live::open_file::error_reason(&error), "the kernel has it, but it is switched off");
    }
}
