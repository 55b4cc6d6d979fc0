//! Disks that `iostat -z` leaves out of a report, because they did nothing: their rates are 0 and not unknown. Else
//! only the ticks in which all disks work would count.

use std::collections::{HashMap, HashSet};

use super::shaper::Shaper;

/// What is told once of a log.
pub const TOLD: &str = "iostat -z left disks out of some reports; there, they are taken as idle";

/// The disks of one start of iostat.
#[derive(Default)]
pub struct IdleDisks {
    /// Columns of each that are 0 while it is idle.
    known: HashMap<String, HashSet<u32>>,
    generation: u32,
    /// Those in this report.
    shown: HashSet<String>,
    /// The report has a table of disks.
    has_table: bool,
    /// A row of it could not be read.
    is_damaged: bool,
    /// Said already.
    is_told: bool,
}

impl IdleDisks {
    /// iostat is started: other disks may be there.
    pub fn begin(&mut self) {
        *self = IdleDisks { is_told: self.is_told, ..IdleDisks::default() };
    }

    /// A table of disks begins.
    pub fn table(&mut self) {
        self.has_table = true;
    }

    /// A value of a disk was read.
    pub fn value(&mut self, instance: &str, column: u32, shaper: &Shaper) {
        if self.generation != shaper.generation {
            self.known.clear();
            self.generation = shaper.generation;
        }
        if !self.shown.contains(instance) {
            self.shown.insert(instance.to_owned());
        }
        if shaper.is_amount(column) && !self.known.get(instance).is_some_and(|columns| columns.contains(&column)) {
            self.known.entry(instance.to_owned()).or_default().insert(column);
        }
    }

    /// A row could not be read, or the report may be cut off: which disks are missing is not known.
    pub fn damage(&mut self) {
        self.is_damaged = true;
    }

    /// The report ends: fills in what was left out, unless some of it could not be read. True where that is to be told.
    pub fn fill(&mut self, shaper: &mut Shaper) -> bool {
        let is_whole = self.has_table && !self.is_damaged && self.generation == shaper.generation;
        let mut filled = false;
        if is_whole {
            for columns in self.known.iter().filter(|(disk, _)| !self.shown.contains(*disk)).map(|(_, all)| all) {
                for column in columns {
                    shaper.fill(*column);
                    filled = true;
                }
            }
        }
        (self.has_table, self.is_damaged) = (false, false);
        self.shown.clear();
        let is_news = filled && !self.is_told;
        self.is_told |= filled;
        is_news
    }
}
