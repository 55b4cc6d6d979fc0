//! A blamed disk, and how much of a process's I/O can have been on it.

use std::collections::BTreeMap;

use diskwright_base::FileRow;

use crate::culprits::process_totals::ProcessTotals;

/// Factor on the share of a process whose open files all lie on other disks than the blamed one.
const OTHER_DISKS_FACTOR: f64 = 0.25;

/// A blamed disk among several, with its rates and the cgroups that use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlamedDisk {
    pub name: String,
    pub read_bytes_per_s: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    /// Share of each cgroup's bytes that goes to this disk, where cgroups are accounted by device.
    pub cgroup_shares: BTreeMap<String, f64>,
}

impl BlamedDisk {
    /// Largest share of a process's I/O that can be on this disk, from 0 to 1: the share of its cgroup where that is
    /// known, else limited by the bytes that the disk moved.
    pub(super) fn process_share(&self, totals: &ProcessTotals, seconds: f64) -> f64 {
        if let Some(share) = self.cgroup_shares.get(&totals.cgroup) {
            return *share;
        }
        // a process that moved more than the disk did most of it elsewhere: its share of the disk's bytes is assumed to
        // be the disk's share of its own (disk^2 / process; our estimate)
        let bytes_on_disk =
            |process_bytes: f64, disk_bytes_per_s: Option<f64>| match disk_bytes_per_s.map(|rate| rate * seconds) {
                Some(disk_bytes) if process_bytes > disk_bytes => disk_bytes * (disk_bytes / process_bytes),
                _ => process_bytes,
            };
        let on_disk = bytes_on_disk(totals.read_bytes, self.read_bytes_per_s)
            + bytes_on_disk(totals.write_bytes, self.write_bytes_per_s);
        let share = if totals.moved_bytes() > 0.0 { on_disk / totals.moved_bytes() } else { 1.0 };
        if self.is_only_on_other_disks(totals) { share * OTHER_DISKS_FACTOR } else { share }
    }

    /// True where the process has files on this disk open.
    pub(super) fn is_used_by(&self, totals: &ProcessTotals) -> bool {
        totals.files.iter().any(|file| file.disks.contains(&self.name))
    }

    /// True where all open files of the process lie on other disks. It may have closed the files that it read here.
    fn is_only_on_other_disks(&self, totals: &ProcessTotals) -> bool {
        let is_known = |file: &FileRow| !file.disks.is_empty();
        !totals.files.is_empty()
            && totals.more_files == 0
            && totals.files.iter().all(is_known)
            && !self.is_used_by(totals)
    }
}
