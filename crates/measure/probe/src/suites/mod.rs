//! Suites: each a set of runs that answers one question. A suite is a unit of
//! [`SUITES`]; it makes runs through a [`SuiteSession`] and says what they show.

mod basic;
mod cache;
mod clients;
mod commit;
mod file_cache;
mod mechanics;
mod mixes;
mod quick;
mod session;
mod stability;
mod stripes;
mod sweeps;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod tests_mechanical;

use std::time::Duration;

use crate::error::ProbeError;
use crate::facts::SuiteText;
use crate::pattern::Placement;
use crate::result::RunResult;

pub use session::{Settings, SuitePlan, SuiteSession, measure, plan, usual_plan};

/// Whether a suite writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It only reads.
    Never,
    /// It measures writes too, where they are allowed.
    IfAllowed,
    /// It makes no sense without.
    Always,
}

/// One suite.
pub struct Suite {
    /// Name on the command line.
    pub id: &'static str,
    /// What it measures, in a line.
    pub title: &'static str,
    /// What it shows, and where it is from.
    pub explain: &'static str,
    /// What a good result looks like.
    pub good: &'static str,
    /// Whether it writes.
    pub writes: Writes,
    /// What `--for` is the time of, and what it is where nobody says.
    pub time: Time,
    /// Makes its runs.
    pub run: fn(&mut SuiteSession<'_>) -> Result<(), ProbeError>,
}

impl Suite {
    /// What it is, for people.
    pub fn text(&self) -> SuiteText {
        SuiteText { id: self.id, title: self.title, explain: self.explain, good: self.good }
    }

    /// It measures the page cache, whatever was asked for: nothing in it is a ceiling of the device.
    pub fn is_buffered(&self) -> bool {
        self.id == file_cache::FILE_CACHE.id
    }
}

/// What `--for` means to a suite, with its usual value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The time of each run.
    EachRun(Duration),
    /// The time of all of it, cut into parts.
    Whole(Duration),
}

impl Time {
    /// What it is where nobody says.
    pub fn usual(self) -> Duration {
        match self {
            Time::EachRun(time) | Time::Whole(time) => time,
        }
    }
}

/// What most suites do: three seconds for each run.
const EACH: Time = Time::EachRun(Duration::from_secs(3));

/// All suites, in the order in which they are listed.
pub const SUITES: &[&Suite] = &[
    &quick::QUICK,
    &basic::DISKMAX,
    &basic::MINREAD,
    &basic::SIZEREAD,
    &basic::READING_WRITING,
    &basic::RANDOM_SEQUENTIAL,
    &basic::WRITE_WHILE_READ,
    &sweeps::RECORD_SIZES,
    &sweeps::DEPTH,
    &clients::USERS,
    &clients::LOAD,
    &mixes::NETBENCH_MIX,
    &mixes::SQL,
    &commit::COMMIT,
    &mechanics::SEEK_CURVE,
    &mechanics::ROTATION,
    &cache::CACHE,
    &file_cache::FILE_CACHE,
    &basic::THREADMARK,
    &stripes::STRIPES,
    &stability::STABILITY,
];

/// A suite by name.
pub fn suite(id: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|s| s.id == id).copied()
}

/// One after another from the start, in one stream.
pub const SEQUENTIAL: Placement = Placement::Sequential { streams: 1 };

/// The result with the largest of these values.
pub fn best(runs: &[RunResult], of: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    runs.iter().max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// The knee of a rising curve: the first run that reaches this share of the
/// best, so that everything beyond buys at most the rest.
pub fn knee(runs: &[RunResult], share: f64, of: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    let most = of(best(runs, &of)?);
    runs.iter().find(|r| of(r) >= share * most)
}

/// A quantity in words: `4.1 kB`, `12 ms`.
fn words(value: f64, unit: &str) -> String {
    diskwright_base::units::display(value, unit)
}

/// A record size as people write it: `64 KiB`, `2 MiB`.
fn size(bytes: f64) -> String {
    let units = [("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0), ("GiB", 1024.0 * 1024.0 * 1024.0)];
    let (unit, one) = units.into_iter().rev().find(|(_, one)| bytes >= *one).unwrap_or(units[0]);
    let many = (bytes / one * 10.0).round() / 10.0;
    format!("{many} {unit}")
}
