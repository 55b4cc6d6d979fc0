//! The numbers of a line of `/proc/diskstats` behind the name, on a kernel of today
//! (Documentation/admin-guide/iostats.rst): one table for the live sampler, for dumps of the file
//! and for tools that print it. Times are milliseconds that the kernel prints with 32 bits.

/// How a number of the line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskstatsNumber {
    /// What is now.
    Level,
    /// What ever was.
    Total,
    /// The same, wrapping at 32 bits.
    Total32,
}

/// A number's counter.
#[derive(Clone, Copy, Debug)]
pub struct DiskstatsField {
    /// Counter id.
    pub counter: &'static str,
    /// The number times this is in the counter's unit.
    pub scale: f64,
    /// How it counts.
    pub number: DiskstatsNumber,
}

/// Numbers of a line at most: 11 before Linux 4.18, 15 before 5.5.
pub const NUMBERS: usize = 17;

const fn field(counter: &'static str, scale: f64, number: DiskstatsNumber) -> DiskstatsField {
    DiskstatsField { counter, scale, number }
}

use DiskstatsNumber::{Level, Total, Total32};

/// Those of a disk, in the line's order.
pub const DISK: [DiskstatsField; NUMBERS] = [
    field("physical_disk.reads", 1.0, Total),
    field("physical_disk.reads_merged", 1.0, Total),
    field("physical_disk.read_bytes", 512.0, Total),
    field("physical_disk.read_time_s", 1e-3, Total32),
    field("physical_disk.writes", 1.0, Total),
    field("physical_disk.writes_merged", 1.0, Total),
    field("physical_disk.write_bytes", 512.0, Total),
    field("physical_disk.write_time_s", 1e-3, Total32),
    field("physical_disk.current_queue_length", 1.0, Level),
    field("physical_disk.busy_time_s", 1e-3, Total32),
    field("physical_disk.weighted_time_s", 1e-3, Total32),
    field("physical_disk.discards", 1.0, Total),
    field("physical_disk.discards_merged", 1.0, Total),
    field("physical_disk.discard_bytes", 512.0, Total),
    field("physical_disk.discard_time_s", 1e-3, Total32),
    field("physical_disk.flushes", 1.0, Total),
    field("physical_disk.flush_time_s", 1e-3, Total32),
];

/// Those of a partition that are kept.
pub const PARTITION: [DiskstatsField; 9] = [
    field("logical_disk.reads", 1.0, Total),
    field("logical_disk.read_bytes", 512.0, Total),
    field("logical_disk.read_time_s", 1e-3, Total32),
    field("logical_disk.writes", 1.0, Total),
    field("logical_disk.write_bytes", 512.0, Total),
    field("logical_disk.write_time_s", 1e-3, Total32),
    field("logical_disk.current_queue_length", 1.0, Level),
    field("logical_disk.busy_time_s", 1e-3, Total32),
    field("logical_disk.weighted_time_s", 1e-3, Total32),
];
/// Place in the line of each of [`PARTITION`].
pub const PARTITION_PLACES: [usize; 9] = [0, 2, 3, 4, 6, 7, 8, 9, 10];

/// Place of the requests in flight.
pub const IN_FLIGHT: usize = 8;
/// Places of completed requests: reads, writes, discards, flushes.
pub const COMPLETED: [usize; 4] = [0, 4, 11, 15];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;
    use crate::catalogue::CounterKind;

    #[test]
    fn the_table_fits_the_catalogue_and_itself() {
        for field in DISK.iter().chain(&PARTITION) {
            let counter = Catalogue::builtin().get(field.counter).expect(field.counter);
            assert_eq!(counter.kind == CounterKind::Total, field.number != Level, "{}", field.counter);
            assert_eq!(field.scale == 1e-3, counter.unit == "s", "{}", field.counter);
            assert_eq!(field.scale == 512.0, counter.unit == "bytes", "{}", field.counter);
        }
        for (field, place) in PARTITION.iter().zip(PARTITION_PLACES) {
            let of_disk = DISK[place].counter.strip_prefix("physical_disk.");
            assert_eq!(field.counter.strip_prefix("logical_disk."), of_disk);
        }
        assert_eq!(DISK[IN_FLIGHT].number, Level);
        assert_eq!(COMPLETED.map(|place| DISK[place].counter.len() - "physical_disk.".len()), [5, 6, 8, 7]);
    }
}
