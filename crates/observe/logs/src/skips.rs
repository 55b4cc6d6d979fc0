//! Record of what a reader left out, and why: the first reasons in full, the rest counted, so that a file of nothing
//! but mistakes takes no memory.

use std::collections::HashMap;

/// Why a line with the time of an impossible year is left out.
pub(crate) const UNUSABLE_CLOCK: &str = "a clock that cannot be used: its year is impossible";

/// Something that was left out, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// First place: line, column, byte or name.
    pub context: String,
    /// Reason.
    pub reason: String,
    /// Number of occurrences, the first included.
    pub count: u64,
}

/// Largest number of reasons that are distinguished.
const MAX_REASONS: usize = 200;

/// Collects what was left out, one entry per reason.
#[derive(Clone, Debug, Default)]
pub struct Skips {
    found: Vec<Skip>,
    by_reason: HashMap<String, usize>,
    other_count: u64,
}

impl Skips {
    /// Adds one thing that was left out. A reason that comes again is only counted.
    pub fn add_skip(&mut self, context: impl Into<String>, because: impl Into<String>) {
        let because = because.into();
        if let Some(&index) = self.by_reason.get(&because) {
            self.found[index].count += 1;
        } else if self.found.len() < MAX_REASONS {
            self.by_reason.insert(because.clone(), self.found.len());
            self.found.push(Skip { context: context.into(), reason: because, count: 1 });
        } else {
            self.other_count += 1;
        }
    }

    /// Adds something of a machine that is not the one being read.
    pub fn add_other_host(&mut self, context: impl Into<String>, host: &str) {
        self.add_skip(context, format!("another machine; to read it use --host {host}"));
    }

    /// Adds the entries of another collection.
    pub fn merge_skips(&mut self, other: Skips) {
        for skipped in other.found {
            let (because, times) = (skipped.reason.clone(), skipped.count - 1);
            self.add_skip(skipped.context, skipped.reason);
            match self.by_reason.get(&because) {
                Some(&index) => self.found[index].count += times,
                None => self.other_count += times,
            }
        }
        self.other_count += other.other_count;
    }

    /// Returns the entries in order of first appearance.
    pub fn into_list(mut self) -> Vec<Skip> {
        if self.other_count > 0 {
            let because = "other reasons, too many to list".to_owned();
            self.found.push(Skip { context: "later".into(), reason: because, count: self.other_count });
        }
        self.found
    }
}
