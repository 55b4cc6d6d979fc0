//! Suites: each is a set of runs that answers one question. A suite is an entry of [`SUITES`]. It
//! measures its runs through a [`SuiteSession`], and reports its findings.

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

pub use session::{Settings, SuitePlan, SuiteSession, default_plan, plan_suite, run_suite};

/// Use of writes by a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It only reads.
    Never,
    /// It measures writes too, if they are allowed.
    IfAllowed,
    /// It cannot run without writes.
    Always,
}

/// A suite.
pub struct Suite {
    /// Name on the command line.
    pub id: &'static str,
    /// Summary in one line.
    pub title: &'static str,
    /// Explanation and sources.
    pub explain: &'static str,
    /// Description of a good result.
    pub good: &'static str,
    /// Use of writes.
    pub writes: Writes,
    /// Meaning and default of `--for`.
    pub time: SuiteTime,
    /// Measures the runs of the suite.
    pub run: fn(&mut SuiteSession<'_>) -> Result<(), ProbeError>,
}

impl Suite {
    /// Returns its description for users.
    pub fn text(&self) -> SuiteText {
        SuiteText { id: self.id, title: self.title, explain: self.explain, good_result: self.good }
    }

    /// Returns whether it always measures the page cache, so that none of its results is a ceiling of
    /// the device.
    pub fn is_buffered(&self) -> bool {
        self.id == file_cache::FILE_CACHE.id
    }
}

/// Meaning of `--for` for a suite, with its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteTime {
    /// The time of each run.
    EachRun(Duration),
    /// The time of the whole suite, which divides it among its runs.
    Whole(Duration),
}

impl SuiteTime {
    /// Returns the duration without `--for`.
    pub fn default_duration(self) -> Duration {
        match self {
            SuiteTime::EachRun(time) | SuiteTime::Whole(time) => time,
        }
    }
}

/// Default of most suites: three seconds for each run.
const DEFAULT_RUN_TIME: SuiteTime = SuiteTime::EachRun(Duration::from_secs(3));

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

/// Finds a suite by name.
pub fn find_suite(id: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|s| s.id == id).copied()
}

/// Sequential placement in one stream.
pub const SEQUENTIAL: Placement = Placement::Sequential { streams: 1 };

/// Returns the result with the largest value.
pub fn best_run(runs: &[RunResult], value: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    runs.iter().max_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Returns the knee of a rising curve: the first run that reaches this share of the maximum. Runs
/// beyond it gain little.
pub fn knee_run(runs: &[RunResult], share: f64, value: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    let max_value = value(best_run(runs, &value)?);
    runs.iter().find(|r| value(r) >= share * max_value)
}

/// Formats a quantity: `4 KiB`, `12 ms`.
fn format_quantity(value: f64, unit: &str) -> String {
    diskwright_base::units::format_value(value, unit)
}
