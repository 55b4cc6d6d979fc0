//! `/proc/softirqs`: deferred interrupt work, by kind. Each processor's count is a 32-bit number that wraps separately.

use diskwright_base::counter_ids::interrupts;
use std::hint::black_box;

use crate::live::counter_table::{CounterTable, TableColumn, column_index, sum32_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, text_lines, trim_blanks};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "softirqs",
    files: &["/proc/softirqs"],
    explain: "Deferred interrupt work: block devices, network, timers, scheduling.",
    parse_any: |bytes| text_lines(bytes).for_each(|line| _ = black_box(parse_row(line))),
    open: |roots, _: &SamplerOptions| Some(Box::new(Softirqs::new(roots))),
};

const COLUMNS: [TableColumn; 6] = [
    sum32_column(interrupts::SOFTIRQ_TOTAL),
    sum32_column(interrupts::SOFTIRQ_BLOCK),
    sum32_column(interrupts::SOFTIRQ_NET_RX),
    sum32_column(interrupts::SOFTIRQ_NET_TX),
    sum32_column(interrupts::SOFTIRQ_TIMER),
    sum32_column(interrupts::SOFTIRQ_SCHED),
];

/// Parses a row into its name and the sum over processors.
pub fn parse_row(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = memchr::memchr(b':', line)?;
    let mut words = WordIter::new(&line[colon + 1..]);
    let mut sum = 0u64;
    while let Some(number) = words.next_number() {
        sum = sum.wrapping_add(number?);
    }
    Some((trim_blanks(&line[..colon]), sum))
}

const TOTAL_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_total");
const BLOCK_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_block");
const NET_RX_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_net_rx");
const NET_TX_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_net_tx");
const TIMER_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_timer");
const SCHED_COLUMN: usize = column_index(&COLUMNS, "interrupts.softirq_sched");

fn column_of_kind(name: &[u8]) -> Option<usize> {
    match name {
        b"BLOCK" | b"IRQ_POLL" => Some(BLOCK_COLUMN),
        b"NET_RX" => Some(NET_RX_COLUMN),
        b"NET_TX" => Some(NET_TX_COLUMN),
        b"TIMER" | b"HRTIMER" => Some(TIMER_COLUMN),
        b"SCHED" => Some(SCHED_COLUMN),
        _ => None,
    }
}

struct Softirqs {
    file: OpenFile,
    heading: Vec<u8>,
    tables: [CounterTable; 1],
}

impl Softirqs {
    fn new(roots: &Roots) -> Softirqs {
        Softirqs {
            file: OpenFile::in_one_read(roots.proc.join("softirqs"), "deferred interrupt work is not seen"),
            heading: Vec::new(),
            tables: [CounterTable::single_row(&COLUMNS)],
        }
    }
}

impl CounterSource for Softirqs {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        let mut lines = text_lines(text);
        let heading = lines.next().unwrap_or_default();
        if heading != self.heading {
            self.heading = heading.to_vec();
            table.forget_previous();
        }
        let mut sums = [0u64; COLUMNS.len()];
        for (name, sum) in lines.filter_map(parse_row) {
            sums[TOTAL_COLUMN] = sums[TOTAL_COLUMN].wrapping_add(sum);
            if let Some(column) = column_of_kind(name) {
                sums[column] = sums[column].wrapping_add(sum);
            }
        }
        table.begin_tick();
        for (to, sum) in table.row_mut(0).iter_mut().zip(sums) {
            *to = sum & u64::from(u32::MAX);
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn kinds_are_counted_separately() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_file("proc/softirqs", "  CPU0 CPU1\n HI: 1 1\n BLOCK: 4294967295 3\n IRQ_POLL: 1 1\n NET_RX: 7 7\n");
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/softirqs", "  CPU0 CPU1\n HI: 2 1\n BLOCK: 4 3\n IRQ_POLL: 2 1\n NET_RX: 7 9\n");
        watch.tick_after(1.0);
        assert_eq!(watch.value("interrupts.softirq_block", ""), 6.0);
        assert_eq!(watch.value("interrupts.softirq_net_rx", ""), 2.0);
        assert_eq!(watch.value("interrupts.softirq_total", ""), 9.0);
        assert_eq!(parse_row(b"BLOCK: 1 x"), None);
    }
}
