//! Arithmetic that the source documents publish, each with its worked example
//! as a test. The documents have the short names of docs/documents.md.

use crate::topology::RaidLevel;

/// Operations per second on each disk of an array that receives `reads` and
/// `writes` per second (NT Magazine 1998: reads plus the level's factor times writes,
/// divided by the disks).
///
/// ```
/// use diskwright_base::{RaidLevel, arithmetic::member_load};
/// // NT Magazine 1998's array before it grew: three disks in RAID 5
/// assert_eq!(member_load(RaidLevel::Raid5, 3, 126.0, 73.0).round(), 139.0);
/// ```
pub fn member_load(level: RaidLevel, members: usize, reads: f64, writes: f64) -> f64 {
    (reads + level.write_factor(members) * writes) / members.max(1) as f64
}

/// Queue length of a set from its members' shares of busy time: their sum
/// (NT Resource Kit; %Disk Time as a decimal without its cap).
pub fn set_queue_length(busy: &[f64]) -> f64 {
    busy.iter().sum()
}

/// Share of the set's capacity in use: the queue divided by the disks (NT Resource Kit).
pub fn set_utilisation(busy: &[f64]) -> f64 {
    set_queue_length(busy) / busy.len().max(1) as f64
}

/// NT's % Disk Time as a fraction: the queue, capped at 1 (NT Resource Kit).
pub fn disk_time_nt(queue_length: f64) -> f64 {
    queue_length.min(1.0)
}

/// Sum of the counters of a software stripe set where the statistics
/// driver sits above the set: its first member shows the whole set, the others
/// their own share (NT Resource Kit, stripe sets of four disks). `transfers` is the number of
/// transfers that one request causes on all members together.
pub fn stripe_set_total(set_per_s: f64, members: usize, transfers: f64) -> f64 {
    let others = members.saturating_sub(1) as f64;
    set_per_s * (1.0 + others * transfers / members.max(1) as f64)
}

/// "Avg. Queue Time" of SAS 1998: the queue times the seconds per transfer. The
/// measured time already includes the waiting, so this counts it twice; it is
/// kept only for the `sas-1998` pack.
pub fn queue_time_sas(queue_length: f64, s_per_transfer: f64) -> f64 {
    queue_length * s_per_transfer
}

/// Interrupts a second that the disk causes: all, minus the clock's and the
/// network's (NT Resource Kit, Interrupts and Disk Use). Never below zero.
pub fn disk_interrupts(total: f64, clock: f64, network: f64) -> f64 {
    (total - clock - network).max(0.0)
}

/// Processor share that disk interrupts cause: their share of all interrupts
/// times the share of time in interrupts (NT Resource Kit).
pub fn disk_interrupt_time(disk: f64, total: f64, interrupt_time: f64) -> f64 {
    disk / total * interrupt_time
}

/// Bytes moved for each disk interrupt (NT Resource Kit's table of record sizes).
pub fn bytes_per_interrupt(bytes_per_s: f64, disk_interrupts_per_s: f64) -> f64 {
    bytes_per_s / disk_interrupts_per_s
}

/// Bytes per second of a bus that moves `width_bits` at each tick of its clock (SAS 1998, I/O Subsystems).
///
/// ```
/// use diskwright_base::arithmetic::bus_bytes_per_s;
/// // PCI: 32 bits at 33 MHz, and 64 bits
/// assert_eq!(bus_bytes_per_s(32.0, 33e6), 132e6);
/// assert_eq!(bus_bytes_per_s(64.0, 33e6), 264e6);
/// ```
pub fn bus_bytes_per_s(width_bits: f64, clock_hz: f64) -> f64 {
    width_bits / 8.0 * clock_hz
}

/// Bytes per second of a PCI Express link in one direction, packet headers included: the number of lanes, times the
/// transfers per second of each (in billions), times the share of the bits that are data. That share is 8 of 10 up to 5
/// GT/s, 128 of 130 beyond (PCI Express Base Specification, encodings), and 242 of 256 bytes from 64 GT/s on.
///
/// ```
/// use diskwright_base::arithmetic::pcie_bytes_per_s;
/// assert_eq!(pcie_bytes_per_s(2.5, 1.0), 250e6);
/// assert_eq!(pcie_bytes_per_s(8.0, 4.0).round(), 3_938_461_538.0);
/// ```
pub fn pcie_bytes_per_s(gigatransfers: f64, lanes: f64) -> f64 {
    let data_share = match gigatransfers {
        g if g <= 5.0 => 0.8,
        g if g < 64.0 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    gigatransfers * 1e9 / 8.0 * data_share * lanes
}

/// Seconds to move `bytes` in records of `record_bytes` at a rate (NT Resource Kit).
pub fn transfer_time_s(bytes: f64, record_bytes: f64, records_per_s: f64) -> f64 {
    bytes / record_bytes / records_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} is not {expected}");
    }

    #[test]
    fn w7_queue_time_of_doc_000() {
        near(queue_time_sas(3.0, 0.02), 0.06, 1e-12);
    }

    #[test]
    fn w13_raid5_load_before() {
        // (126 + 4 x 73) / 3, printed 139
        near(member_load(RaidLevel::Raid5, 3, 126.0, 73.0), 139.33, 0.01);
    }

    #[test]
    fn w14_raid5_load_after() {
        // printed 68 divides by 9 for a 10-disk array; by 10 it is 61.5
        near(member_load(RaidLevel::Raid5, 10, 147.0, 117.0), 61.5, 1e-9);
        near((147.0 + 4.0 * 117.0) / 9.0, 68.33, 0.01);
    }

    #[test]
    fn w17_raid1_load() {
        near(member_load(RaidLevel::Raid1, 2, 100.0, 50.0), 100.0, 1e-12);
    }

    #[test]
    fn w18_w19_sets_are_not_more_than_full() {
        let five = [0.30, 0.33, 0.38, 0.0, 0.0];
        near(set_queue_length(&five), 1.01, 1e-12);
        near(set_utilisation(&five), 0.202, 1e-12);
        let three = [0.66, 0.70, 0.0];
        near(set_queue_length(&three), 1.36, 1e-12);
        near(set_utilisation(&three), 0.4533, 1e-4);
    }

    #[test]
    fn w20_disk_time_is_capped_and_the_queue_is_not() {
        near(set_queue_length(&[0.90, 0.30]), 1.2, 1e-12);
        near(disk_time_nt(1.2), 1.0, 1e-12);
    }

    #[test]
    fn w21_share_of_the_disk_in_interrupts() {
        let disk = disk_interrupts(426.5, 100.0, 0.0);
        near(disk, 326.5, 1e-9);
        near(disk / 426.5, 0.7655, 1e-4); // printed 76.5 %, truncated
        near(disk_interrupt_time(disk, 426.5, 0.915), 0.70, 0.005);
    }

    #[test]
    fn w22_bytes_an_interrupt() {
        let small = disk_interrupts(1124.0, 100.0, 300.0);
        near(bytes_per_interrupt(335_006.5, small), 462.7, 0.05);
        let large = disk_interrupts(3651.5, 100.0, 300.0);
        near(bytes_per_interrupt(1_529_675.0, large), 470.45, 0.01);
    }

    #[test]
    fn s9_totals_of_four_stripes_count_twice() {
        near(stripe_set_total(102.487, 4, 1.0), 179.343, 0.01);
        near(stripe_set_total(6.72, 4, 1.0), 11.75, 0.011);
        // random records were two transfers each; print adds what single disks showed
        near(stripe_set_total(86.646, 4, 2.0), 215.760, 0.9);
        near(86.646 + 43.504 + 42.905 + 42.705, 215.760, 1e-9);
        near(stripe_set_total(5.68, 4, 1.0), 9.91, 0.031);
        // and the set itself is what disk 0 shows
        near(4.0 * 25.619, 102.487, 0.02);
    }

    #[test]
    fn w23_elapsed_times() {
        near(transfer_time_s(20_480_000.0, 512.0, 655.0), 61.07, 0.005);
        near(transfer_time_s(20_480_000.0, 65_536.0, 23.4), 13.35, 0.005); // printed 13.34
    }
}
