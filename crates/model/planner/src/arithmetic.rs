//! Sizing by plain arithmetic, as in the source documents, and the popular rules that disagree with it. Documents have
//! the short names of docs/documents.md.

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::array::LevelForm;

/// Usable capacity of a level in members, all members alike.
pub fn usable_members(level: ArrayLevel, members: u16) -> f64 {
    let (info, n) = (level.info(), f64::from(members));
    match (info.form, info.copies) {
        (LevelForm::Copies, Some([_, usual, _])) => n / f64::from(usual.for_members(members)),
        (LevelForm::Parity, _) => n - f64::from(info.parities),
        _ => n,
    }
}

/// Member I/Os of a small write in this simulator: as in textbooks, except for RAID 5 on three members, where reading
/// the other data costs one I/O and not two (read one, write two).
pub fn write_cost(level: ArrayLevel, members: u16) -> f64 {
    let info = level.info();
    match info.form {
        // the other data are read, data and parities written: N - P - 1 and 1 + P
        LevelForm::Parity if !info.synchronous => level.small_write_factor(members).min(f64::from(members)),
        _ => level.small_write_factor(members),
    }
}

/// Requests in flight that this many disks may hold (NT Magazine 1998: two each).
pub fn queue_limit(disks: u32, each: f64) -> f64 {
    f64::from(disks) * each
}

/// Disks needed for a queue (NT Magazine 1998: 16 in flight at two each are 8 disks).
pub fn disks_for_queue(queue: f64, each: f64) -> u32 {
    (queue / each).ceil() as u32
}

/// Adds a surplus for surges (NT Magazine 1998 recommends 10 if 8 are needed).
pub fn with_surplus(disks: u32, share: f64) -> u32 {
    (f64::from(disks) * (1.0 + share)).ceil() as u32
}

/// Member I/Os per second that a front end needs: reads, and writes times the level's factor. Rule 1, which this
/// planner uses because it gives the point of saturation.
pub fn back_end_per_s(reads: f64, writes: f64, factor: f64) -> f64 {
    reads + factor * writes
}

/// Front-end I/Os per second of drives that sustain `raw` I/Os per second together: raw / (r + w p). Rule 1.
pub fn front_end_per_s(raw: f64, read_share: f64, factor: f64) -> f64 {
    raw / (read_share + (1.0 - read_share) * factor)
}

/// Front-end I/Os per second by the widely copied blend raw r + raw w / p. Rule 2; it overstates mixed loads.
pub fn front_end_blend(raw: f64, read_share: f64, factor: f64) -> f64 {
    raw * read_share + raw * (1.0 - read_share) / factor
}

/// Writes per second of drives in RAID 5 by another calculator: (N - 1) w / 4. Rule 3.
pub fn front_end_less_parity(drives: u32, each: f64, read_share: f64, factor: f64) -> f64 {
    let writes = f64::from(drives.saturating_sub(1)) * each * (1.0 - read_share) / factor;
    f64::from(drives) * each * read_share + writes
}

/// Idle share of a channel with drives at their sustained rate (Compaq 1997).
pub fn channel_idle(drives: u32, drive_rate: f64, channel_rate: f64) -> f64 {
    (1.0 - f64::from(drives) * drive_rate / channel_rate).max(0.0)
}

/// Number of parts that fill a whole, rounded to the nearest: drives on a channel (Compaq 1997: six of 7 MB/s on 40,
/// though that is 42).
pub fn parts_that_fill(part_rate: f64, whole_rate: f64) -> u32 {
    (whole_rate / part_rate).round() as u32
}

/// Number of parts that a whole carries: controllers on a bus (Compaq 1997: three of 40 MB/s on 133).
pub fn parts_that_fit(part_rate: f64, whole_rate: f64) -> u32 {
    (whole_rate / part_rate).floor() as u32
}

/// Index of the slowest of the parts that all data pass.
pub fn slowest_index(rates: &[f64]) -> Option<usize> {
    (0..rates.len()).min_by(|a, b| rates[*a].total_cmp(&rates[*b]))
}

/// Converts reads and writes per second of all members of an array together to those that programs request: a small
/// write reads the old data and parities (on three members of RAID 5 the other data) and writes data and parities.
/// `None` if members read less than the writes need.
///
/// ```
/// use diskwright_planner::arithmetic::front_end_from_member_io;
/// use diskwright_simulator::ArrayLevel;
/// // ten disks of NT Magazine 1998 under 147 reads and 117 writes: 2 x 117 more reads, 2 x 117 writes
/// assert_eq!(front_end_from_member_io(ArrayLevel::Raid5, 10, 147.0 + 234.0, 234.0), Some((147.0, 117.0)));
/// ```
pub fn front_end_from_member_io(level: ArrayLevel, members: u16, reads: f64, writes: f64) -> Option<(f64, f64)> {
    let info = level.info();
    // I/Os of a small write
    let (write_ios, read_ios) = match info.form {
        LevelForm::Parity => {
            let write_ios = 1.0 + f64::from(info.parities);
            (write_ios, write_cost(level, members) - write_ios)
        }
        _ => (level.small_write_factor(members), 0.0),
    };
    let front_writes = writes / write_ios;
    let front_reads = reads - front_writes * read_ios;
    (front_reads >= 0.0).then_some((front_reads, front_writes))
}

/// Usable capacity, in members, of striped groups of RAID 5 or 6 (RAID 50, RAID 60): each group has its own parities.
/// Published with the calculators' tables; the planner makes no such designs.
pub fn nested_usable_members(members: u16, groups: u16, parities: u16) -> f64 {
    f64::from(members) - f64::from(groups) * f64::from(parities)
}

/// Usable capacity, in members, of RAID 5E and 5EE, which distribute a parity and a spare over all members.
pub fn spared_usable_members(members: u16) -> f64 {
    f64::from(members) - 2.0
}

/// Space that ZFS reserves: a 32nd of the pool, at least 128 MiB and at most 128 GiB (OpenZFS, `spa_slop_shift` and its
/// bounds).
///
/// ```
/// use diskwright_planner::arithmetic::zfs_slop_bytes;
/// let gib = 1024.0 * 1024.0 * 1024.0;
/// assert_eq!([1.0, 64.0, 1e5].map(|size| zfs_slop_bytes(size * gib) / gib), [0.125, 2.0, 128.0]);
/// ```
pub fn zfs_slop_bytes(pool_bytes: f64) -> f64 {
    const MIB: f64 = 1_048_576.0;
    (pool_bytes / 32.0).clamp(128.0 * MIB, 128.0 * 1024.0 * MIB)
}
