//! Disks that `iostat -z` of Solaris and FreeBSD leaves out of a report because they were idle: as in
//! [`crate::sysstat`], their rates are 0, and not unknown, unless a row of zeros shows that `-z` was not given.

use std::sync::Arc;

use super::columns::UnixSystem;
use super::iostat::UnixDiskRow;
pub(super) use crate::sysstat::idle_devices::OMITTED_DEVICES_NOTE;

/// Disks that a log has shown so far, and the tables of the current report.
#[derive(Default)]
pub(super) struct IdleDisks {
    /// A row of zeros for each disk that any table has shown.
    known_disks: Vec<UnixDiskRow>,
    /// Tables of this report.
    tables: Vec<Arc<[String]>>,
    /// A row of zeros was seen, so `-z` was not given.
    has_zeros: bool,
    /// A row of this report could not be read, so its disk is unknown.
    is_doubtful: bool,
    is_reported: bool,
}

impl IdleDisks {
    /// Begins a table with these headings.
    pub fn begin_table(&mut self, system: UnixSystem, names: &Arc<[String]>, disk_index: usize) {
        // if the disk's name has no column of its own, missing disks cannot be determined
        if matches!(system, UnixSystem::Solaris | UnixSystem::FreeBsd) && disk_index < names.len() {
            self.tables.push(Arc::clone(names));
        }
    }

    /// Records that a row could not be read.
    pub fn mark_doubtful(&mut self) {
        self.is_doubtful = true;
    }

    /// Learns a row of a table.
    pub fn learn_row(&mut self, row: &UnixDiskRow, disk_index: usize) {
        let amounts = || row.cells.iter().enumerate().filter(|(index, _)| *index != disk_index).map(|(_, cell)| *cell);
        self.has_zeros |= amounts().all(|cell| cell == 0.0);
        if !self.known_disks.iter().any(|known| known.disk == row.disk && known.names == row.names) {
            let cells = row.cells.iter().map(|cell| cell * 0.0).collect();
            self.known_disks.push(UnixDiskRow { cells, ..row.clone() });
        }
    }

    /// Adds the disks that were left out of a complete report. Returns true if there are any.
    pub fn fill_omitted(&mut self, disks: &mut Vec<UnixDiskRow>) -> bool {
        let tables = std::mem::take(&mut self.tables);
        if std::mem::take(&mut self.is_doubtful) || self.has_zeros {
            return false;
        }
        let is_listed = |known: &UnixDiskRow| disks.iter().any(|d| d.disk == known.disk && d.names == known.names);
        let omitted = self.known_disks.iter().filter(|known| tables.contains(&known.names) && !is_listed(known));
        let omitted: Vec<UnixDiskRow> = omitted.cloned().collect();
        let has_omitted = !omitted.is_empty();
        disks.extend(omitted);
        has_omitted
    }

    /// Returns true the first time, when it must be reported.
    pub fn report_once(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }
}
