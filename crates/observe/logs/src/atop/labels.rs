//! Labels of parseable output: the counter of each field of a line. atop writes growth within the interval for running
//! totals, and levels unchanged.

use crate::tool::tick_row::TickRow;

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
    /// None.
    Plain,
    /// Clock ticks, of which the first field gives the number per second; or pages, of which it gives the bytes.
    PerFirstField,
    /// Queue while the disk was busy: multiplied by the milliseconds of the second field.
    TimesBusy,
    /// Megabits a second, 0 where unknown.
    Megabits,
}

const fn plain_field(place: usize, counter: &'static str, times: f64) -> LabelField {
    LabelField { index: place, counter, scale: times, unit: FieldUnit::Plain }
}

const fn unit_field(place: usize, counter: &'static str, unit: FieldUnit) -> LabelField {
    LabelField { index: place, counter, scale: 1.0, unit }
}

const PROCESSOR: [LabelField; 8] = [
    unit_field(2, "processor.system_s", FieldUnit::PerFirstField),
    unit_field(3, "processor.user_s", FieldUnit::PerFirstField),
    unit_field(4, "processor.nice_s", FieldUnit::PerFirstField),
    unit_field(5, "processor.idle_s", FieldUnit::PerFirstField),
    unit_field(6, "processor.iowait_s", FieldUnit::PerFirstField),
    unit_field(7, "processor.irq_s", FieldUnit::PerFirstField),
    unit_field(8, "processor.softirq_s", FieldUnit::PerFirstField),
    unit_field(9, "processor.steal_s", FieldUnit::PerFirstField),
];
const LOAD: [LabelField; 6] = [
    plain_field(0, "system.processors", 1.0),
    plain_field(1, "system.load_1", 1.0),
    plain_field(2, "system.load_5", 1.0),
    plain_field(3, "system.load_15", 1.0),
    plain_field(4, "system.context_switches", 1.0),
    plain_field(5, "system.interrupts", 1.0),
];
const MEMORY: [LabelField; 9] = [
    unit_field(1, "memory.total_bytes", FieldUnit::PerFirstField),
    unit_field(2, "memory.free_bytes", FieldUnit::PerFirstField),
    unit_field(3, "memory.cached_bytes", FieldUnit::PerFirstField),
    unit_field(4, "memory.buffers_bytes", FieldUnit::PerFirstField),
    unit_field(5, "memory.slab_bytes", FieldUnit::PerFirstField),
    unit_field(6, "memory.dirty_bytes", FieldUnit::PerFirstField),
    unit_field(7, "memory.slab_reclaimable_bytes", FieldUnit::PerFirstField),
    unit_field(9, "memory.shared_bytes", FieldUnit::PerFirstField),
    unit_field(20, "memory.page_tables_bytes", FieldUnit::PerFirstField),
];
const SWAP: [LabelField; 4] = [
    unit_field(1, "memory.swap_total_bytes", FieldUnit::PerFirstField),
    unit_field(2, "memory.swap_free_bytes", FieldUnit::PerFirstField),
    unit_field(4, "memory.committed_bytes", FieldUnit::PerFirstField),
    unit_field(5, "memory.commit_limit_bytes", FieldUnit::PerFirstField),
];
const PAGING: [LabelField; 6] = [
    plain_field(1, "paging.scanned_pages", 1.0),
    plain_field(2, "paging.allocation_stalls", 1.0),
    plain_field(4, "paging.swap_in_pages", 1.0),
    plain_field(5, "paging.swap_out_pages", 1.0),
    plain_field(6, "paging.oom_kills", 1.0),
    plain_field(7, "paging.compact_stalls", 1.0),
];
const PRESSURE: [LabelField; 5] = [
    plain_field(4, "pressure.cpu_some_s", 1e-6),
    plain_field(8, "pressure.memory_some_s", 1e-6),
    plain_field(12, "pressure.memory_full_s", 1e-6),
    plain_field(16, "pressure.io_some_s", 1e-6),
    plain_field(20, "pressure.io_full_s", 1e-6),
];
const DISK: [LabelField; 9] = [
    plain_field(1, "physical_disk.busy_time_s", 0.001),
    plain_field(2, "physical_disk.reads", 1.0),
    plain_field(3, "physical_disk.read_bytes", 512.0),
    plain_field(4, "physical_disk.writes", 1.0),
    plain_field(5, "physical_disk.write_bytes", 512.0),
    plain_field(6, "physical_disk.discards", 1.0),
    plain_field(7, "physical_disk.discard_bytes", 512.0),
    plain_field(8, "physical_disk.current_queue_length", 1.0),
    LabelField { index: 9, counter: "physical_disk.weighted_time_s", scale: 0.001, unit: FieldUnit::TimesBusy },
];
/// Volumes and software arrays stand on disks.
const VOLUME: [LabelField; 7] = [
    plain_field(1, "logical_disk.busy_time_s", 0.001),
    plain_field(2, "logical_disk.reads", 1.0),
    plain_field(3, "logical_disk.read_bytes", 512.0),
    plain_field(4, "logical_disk.writes", 1.0),
    plain_field(5, "logical_disk.write_bytes", 512.0),
    plain_field(8, "logical_disk.current_queue_length", 1.0),
    LabelField { index: 9, counter: "logical_disk.weighted_time_s", scale: 0.001, unit: FieldUnit::TimesBusy },
];
const NETWORK: [LabelField; 5] = [
    plain_field(1, "network.received_packets", 1.0),
    plain_field(2, "network.received_bytes", 1.0),
    plain_field(3, "network.sent_packets", 1.0),
    plain_field(4, "network.sent_bytes", 1.0),
    LabelField { index: 5, counter: "network.link_bytes_per_s", scale: 125_000.0, unit: FieldUnit::Megabits },
];

/// Returns the fields of a label, and whether its first field (of `cpu` its second) is the instance; `None` where it is
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
    /// Number of fields of the line that the columns were learnt from.
    word_count: usize,
}

impl LabelColumns {
    /// Learns the columns from the words behind the interval.
    pub fn from_words(label: &str, words: &[&str], row: &mut TickRow) -> LabelColumns {
        let Some((fields, has_instance)) = label_fields(label) else { return LabelColumns::default() };
        let instance = match label {
            "CPU" => "_total".to_owned(),
            "cpu" => format!("cpu{}", words.get(1).copied().unwrap_or_default()),
            // counts of the protocols, in another order
            "NET" if words.first() == Some(&"upper") => return LabelColumns::default(),
            "PSI" if words.first() == Some(&"n") => return LabelColumns::default(),
            _ if has_instance => words.first().copied().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let first = words.first().and_then(|w| w.parse::<f64>().ok()).filter(|f| *f > 0.0);
        let column = |field: &LabelField| {
            let times = match (field.unit, label) {
                (FieldUnit::PerFirstField, "CPU" | "cpu") => 1.0 / first?,
                (FieldUnit::PerFirstField, _) => first?,
                _ => field.scale,
            };
            words.get(field.index)?;
            Some((*field, row.find_or_add_column(field.counter, &instance, times)?))
        };
        LabelColumns { fields: fields.iter().filter_map(column).collect(), word_count: words.len() }
    }

    /// Returns true where nothing of the line is read.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns true for a line with more fields than the one the columns were learnt from, which had lost some.
    pub fn is_outgrown(&self, words: &[&str]) -> bool {
        words.len() > self.word_count
    }

    /// Puts a line's numbers into the row; returns false where one of them is not a number.
    pub fn put_values(&self, words: &[&str], row: &mut TickRow) -> bool {
        let mut is_complete = true;
        let number = |place: usize| words.get(place).and_then(|w| w.parse::<f64>().ok()).filter(|v| v.is_finite());
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
