//! Record of what a reader left out, and why: the first reasons in full, the rest counted, so that a file of nothing
//! but mistakes takes no memory.

use std::collections::HashMap;

/// Something that was left out, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// First place: line, column, byte or name.
    pub context: String,
    /// Reason.
    pub because: String,
    /// Number of occurrences, the first included.
    pub times: u64,
}

/// Largest number of reasons that are distinguished.
const MOST_REASONS: usize = 200;

/// Collects what was left out, one entry per reason.
#[derive(Clone, Debug, Default)]
pub struct Skips {
    found: Vec<Skip>,
    by_reason: HashMap<String, usize>,
    others: u64,
}

impl Skips {
    /// Adds one thing that was left out. A reason that comes again is only counted.
    pub fn add(&mut self, context: impl Into<String>, because: impl Into<String>) {
        let because = because.into();
        if let Some(&index) = self.by_reason.get(&because) {
            self.found[index].times += 1;
        } else if self.found.len() < MOST_REASONS {
            self.by_reason.insert(because.clone(), self.found.len());
            self.found.push(Skip { context: context.into(), because, times: 1 });
        } else {
            self.others += 1;
        }
    }

    /// Adds something of a machine that is not the one being read.
    pub fn add_host(&mut self, context: impl Into<String>, host: &str) {
        self.add(context, format!("another machine; to read it use --host {host}"));
    }

    /// Merges all that another collected.
    pub fn add_all(&mut self, other: Skips) {
        for skipped in other.found {
            let (because, times) = (skipped.because.clone(), skipped.times - 1);
            self.add(skipped.context, skipped.because);
            match self.by_reason.get(&because) {
                Some(&index) => self.found[index].times += times,
                None => self.others += times,
            }
        }
        self.others += other.others;
    }

    /// Returns all of it, in order of first appearance.
    pub fn finish(mut self) -> Vec<Skip> {
        if self.others > 0 {
            let because = "other reasons, too many to list".to_owned();
            self.found.push(Skip { context: "later".into(), because, times: self.others });
        }
        self.found
    }
}
