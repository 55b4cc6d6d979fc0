//! Labels of parseable output: the counter of each field of a line. atop writes growth within the interval for running
//! totals, and levels unchanged.

use crate::tool::tick_row::TickRow;
use diskwright_base::counter_ids::{logical_disk, memory, network, paging, physical_disk, pressure, processor, system};

/// A field of a line.
#[derive(Clone, Copy, Debug)]
pub struct LabelField {
    /// Index behind label, host, times and interval.
    index: usize,
    counter: &'static str,
    scale: f64,
    unit: FieldUnit,
}

/// Conversion of a number, besides its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldUnit {
    /// No conversion.
    Plain,
    /// Clock ticks, of which the first field gives the number per second; or pages, of which it gives the bytes.
    PerFirstField,
    /// Queue while the disk was busy: multiplied by the milliseconds of the second field.
    TimesBusy,
    /// Megabits a second, 0 if unknown.
    Megabits,
}

const fn plain_field(index: usize, counter: &'static str, scale: f64) -> LabelField {
    LabelField { index, counter, scale, unit: FieldUnit::Plain }
}

const fn unit_field(index: usize, counter: &'static str, unit: FieldUnit) -> LabelField {
    LabelField { index, counter, scale: 1.0, unit }
}

const PROCESSOR: [LabelField; 8] = [
    unit_field(2, processor::SYSTEM_S, FieldUnit::PerFirstField),
    unit_field(3, processor::USER_S, FieldUnit::PerFirstField),
    unit_field(4, processor::NICE_S, FieldUnit::PerFirstField),
    unit_field(5, processor::IDLE_S, FieldUnit::PerFirstField),
    unit_field(6, processor::IOWAIT_S, FieldUnit::PerFirstField),
    unit_field(7, processor::IRQ_S, FieldUnit::PerFirstField),
    unit_field(8, processor::SOFTIRQ_S, FieldUnit::PerFirstField),
    unit_field(9, processor::STEAL_S, FieldUnit::PerFirstField),
];
const LOAD: [LabelField; 6] = [
    plain_field(0, system::PROCESSORS, 1.0),
    plain_field(1, system::LOAD_1, 1.0),
    plain_field(2, system::LOAD_5, 1.0),
    plain_field(3, system::LOAD_15, 1.0),
    plain_field(4, system::CONTEXT_SWITCHES, 1.0),
    plain_field(5, system::INTERRUPTS, 1.0),
];
const MEMORY: [LabelField; 9] = [
    unit_field(1, memory::TOTAL_BYTES, FieldUnit::PerFirstField),
    unit_field(2, memory::FREE_BYTES, FieldUnit::PerFirstField),
    unit_field(3, memory::CACHED_BYTES, FieldUnit::PerFirstField),
    unit_field(4, memory::BUFFERS_BYTES, FieldUnit::PerFirstField),
    unit_field(5, memory::SLAB_BYTES, FieldUnit::PerFirstField),
    unit_field(6, memory::DIRTY_BYTES, FieldUnit::PerFirstField),
    unit_field(7, memory::SLAB_RECLAIMABLE_BYTES, FieldUnit::PerFirstField),
    unit_field(9, memory::SHARED_BYTES, FieldUnit::PerFirstField),
    unit_field(20, memory::PAGE_TABLES_BYTES, FieldUnit::PerFirstField),
];
const SWAP: [LabelField; 4] = [
    unit_field(1, memory::SWAP_TOTAL_BYTES, FieldUnit::PerFirstField),
    unit_field(2, memory::SWAP_FREE_BYTES, FieldUnit::PerFirstField),
    unit_field(4, memory::COMMITTED_BYTES, FieldUnit::PerFirstField),
    unit_field(5, memory::COMMIT_LIMIT_BYTES, FieldUnit::PerFirstField),
];
const PAGING: [LabelField; 6] = [
    plain_field(1, paging::SCANNED_PAGES, 1.0),
    plain_field(2, paging::ALLOCATION_STALLS, 1.0),
    plain_field(4, paging::SWAP_IN_PAGES, 1.0),
    plain_field(5, paging::SWAP_OUT_PAGES, 1.0),
    plain_field(6, paging::OOM_KILLS, 1.0),
    plain_field(7, paging::COMPACT_STALLS, 1.0),
];
const PRESSURE: [LabelField; 5] = [
    plain_field(4, pressure::CPU_SOME_S, 1e-6),
    plain_field(8, pressure::MEMORY_SOME_S, 1e-6),
    plain_field(12, pressure::MEMORY_FULL_S, 1e-6),
    plain_field(16, pressure::IO_SOME_S, 1e-6),
    plain_field(20, pressure::IO_FULL_S, 1e-6),
];
const DISK: [LabelField; 9] = [
    plain_field(1, physical_disk::BUSY_TIME_S, 0.001),
    plain_field(2, physical_disk::READS, 1.0),
    plain_field(3, physical_disk::READ_BYTES, 512.0),
    plain_field(4, physical_disk::WRITES, 1.0),
    plain_field(5, physical_disk::WRITE_BYTES, 512.0),
    plain_field(6, physical_disk::DISCARDS, 1.0),
    plain_field(7, physical_disk::DISCARD_BYTES, 512.0),
    plain_field(8, physical_disk::CURRENT_QUEUE_LENGTH, 1.0),
    LabelField { index: 9, counter: physical_disk::WEIGHTED_TIME_S, scale: 0.001, unit: FieldUnit::TimesBusy },
];
/// Volumes and software arrays stand on disks.
const VOLUME: [LabelField; 7] = [
    plain_field(1, logical_disk::BUSY_TIME_S, 0.001),
    plain_field(2, logical_disk::READS, 1.0),
    plain_field(3, logical_disk::READ_BYTES, 512.0),
    plain_field(4, logical_disk::WRITES, 1.0),
    plain_field(5, logical_disk::WRITE_BYTES, 512.0),
    plain_field(8, logical_disk::CURRENT_QUEUE_LENGTH, 1.0),
    LabelField { index: 9, counter: logical_disk::WEIGHTED_TIME_S, scale: 0.001, unit: FieldUnit::TimesBusy },
];
const NETWORK: [LabelField; 5] = [
    plain_field(1, network::RECEIVED_PACKETS, 1.0),
    plain_field(2, network::RECEIVED_BYTES, 1.0),
    plain_field(3, network::SENT_PACKETS, 1.0),
    plain_field(4, network::SENT_BYTES, 1.0),
    LabelField { index: 5, counter: network::LINK_BYTES_PER_S, scale: 125_000.0, unit: FieldUnit::Megabits },
];

/// Returns the fields of a label, and whether its first field (of `cpu` its second) is the instance; `None` if it is
/// not read.
fn label_fields(label: &str) -> Option<(&'static [LabelField], bool)> {
    Some(match label {
        "CPU" => (&PROCESSOR, false),
        "cpu" => (&PROCESSOR, true),
        "CPL" => (&LOAD, false),
        "MEM" => (&MEMORY, false),
        "SWP" => (&SWAP, false),
        "PAG" => (&PAGING, false),
        "PSI" => (&PRESSURE, false),
        "DSK" => (&DISK, true),
        "LVM" | "MDD" => (&VOLUME, true),
        "NET" => (&NETWORK, true),
        _ => return None,
    })
}

/// All labels of atop, to distinguish its lines from others.
pub const LABELS: [&str; 24] = [
    "CPU", "cpu", "CPL", "GPU", "MEM", "SWP", "PAG", "PSI", "LVM", "MDD", "DSK", "NFM", "NFC", "NFS", "NET", "IFB",
    "LLC", "NUM", "NUC", "PRG", "PRC", "PRM", "PRD", "PRN",
];

/// Columns of a line.
#[derive(Clone, Debug, Default)]
pub struct LabelColumns {
    fields: Vec<(LabelField, u32)>,
    /// Number of fields of the line that the columns were learned from.
    word_count: usize,
}

impl LabelColumns {
    /// Learns the columns from the words behind the interval.
    pub fn from_words(label: &str, words: &[&str], row: &mut TickRow) -> LabelColumns {
        let Some((fields, has_instance)) = label_fields(label) else { return LabelColumns::default() };
        let instance = match label {
            "CPU" => "_total".to_owned(),
            "cpu" => format!("cpu{}", words.get(1).copied().unwrap_or_default()),
            // a line of the protocols' counts, in another order
            "NET" if words.first() == Some(&"upper") => return LabelColumns::default(),
            "PSI" if words.first() == Some(&"n") => return LabelColumns::default(),
            _ if has_instance => words.first().copied().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let first = words.first().and_then(|w| w.parse::<f64>().ok()).filter(|f| *f > 0.0);
        let column = |field: &LabelField| {
            let scale = match (field.unit, label) {
                (FieldUnit::PerFirstField, "CPU" | "cpu") => 1.0 / first?,
                (FieldUnit::PerFirstField, _) => first?,
                _ => field.scale,
            };
            words.get(field.index)?;
            Some((*field, row.find_or_add_column(field.counter, &instance, scale)?))
        };
        LabelColumns { fields: fields.iter().filter_map(column).collect(), word_count: words.len() }
    }

    /// Returns true if nothing of the line is read.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns true for a line with more fields than the one the columns were learned from, which had lost some.
    pub fn is_outgrown(&self, words: &[&str]) -> bool {
        words.len() > self.word_count
    }

    /// Puts a line's numbers into the row; returns false if one of them is not a number.
    pub fn put_values(&self, words: &[&str], row: &mut TickRow) -> bool {
        let mut is_complete = true;
        let number = |index: usize| words.get(index).and_then(|w| w.parse::<f64>().ok()).filter(|v| v.is_finite());
        for (field, column) in &self.fields {
            let Some(value) = number(field.index) else {
                is_complete = false;
                continue;
            };
            // -1 stands for a value that the kernel does not count
            let value = match field.unit {
                _ if value < 0.0 => f64::NAN,
                FieldUnit::TimesBusy => number(1).map_or(f64::NAN, |busy_ms| value * busy_ms),
                FieldUnit::Megabits if value == 0.0 => f64::NAN,
                _ => value,
            };
            row.cells[*column as usize] = value;
        }
        is_complete
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Catalogue, CounterKind};

    use super::*;

    #[test]
    fn every_field_is_in_the_catalogue() {
        for label in LABELS {
            for field in label_fields(label).map_or(&[][..], |(fields, _)| fields) {
                let counter = Catalogue::builtin().get(field.counter).unwrap_or_else(|| panic!("no {}", field.counter));
                assert!(matches!(counter.kind, CounterKind::Total | CounterKind::Level), "{}", field.counter);
            }
        }
    }
}
