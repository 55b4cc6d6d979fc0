//! Suites: each a set of runs that answers one question. A suite is a unit of
//! [`SUITES`]; it makes runs through a [`Session`] and says what they show.

mod basic;
mod cache;
mod clients;
mod commit;
mod mechanics;
mod quick;
mod sweeps;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ProbeError;
use crate::pattern::{Pace, Pattern, Placement};
use crate::result::{RunResult, together};
use crate::run::Outcomes;

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
    /// Makes its runs.
    pub run: fn(&mut Session<'_>) -> Result<(), ProbeError>,
}

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
    &clients::NETBENCH_MIX,
    &clients::SQL,
    &commit::COMMIT,
    &mechanics::SEEK_CURVE,
    &mechanics::ROTATION,
    &cache::CACHE,
    &basic::THREADMARK,
    &basic::STABILITY,
];

/// A suite by name.
pub fn suite(id: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|s| s.id == id).copied()
}

/// Something that a suite found out, in words and as a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// Short name for programs: `knee_bytes`, `rotation_s`.
    pub id: String,
    /// The sentence.
    pub text: String,
    /// The number in it, where there is one.
    pub value: Option<f64>,
    /// Its unit, as the catalogue names units.
    pub unit: Option<String>,
}

/// How a session measures, several patterns at the same time where there are
/// several: a real target, or a made-up one in tests.
pub type Measure<'a> = dyn FnMut(&[Pattern]) -> Result<Outcomes, ProbeError> + 'a;

/// What a suite works with.
pub struct Session<'a> {
    /// Size of the target, bytes.
    pub room: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// Writing is allowed.
    pub writes: bool,
    /// Time of one run.
    pub lasts: Duration,
    /// Time before measuring, of one run.
    pub ramp: Duration,
    /// Seed.
    pub seed: u64,
    /// Largest average response that the `load` suite takes, seconds.
    pub limit_s: f64,
    /// Percentile that the limit is for (0.99), the mean where there is none.
    pub limit_share: Option<f64>,
    /// Through the page cache.
    pub buffered: bool,
    /// What was measured so far.
    pub runs: Vec<RunResult>,
    /// What was found out.
    pub remarks: Vec<Remark>,
    /// Makes a run.
    pub measure: &'a mut Measure<'a>,
}

impl Session<'_> {
    /// A pattern with the session's times and seed: one size, one depth.
    pub fn pattern(&self, name: impl Into<String>, placement: Placement, size: u32, depth: u32) -> Pattern {
        Pattern {
            name: name.into(),
            placement,
            pace: Pace::Closed { depth },
            ramp: self.ramp,
            lasts: self.lasts,
            seed: self.seed,
            buffered: self.buffered,
            ..Pattern::random_reads(size, depth)
        }
    }

    /// Measures a pattern and keeps the result.
    ///
    /// # Errors
    /// What the run says.
    pub fn run(&mut self, pattern: &Pattern) -> Result<&RunResult, ProbeError> {
        self.together("", std::slice::from_ref(pattern))?;
        Ok(&self.runs[self.runs.len() - 1])
    }

    /// Measures patterns at the same time and keeps the result of each and, under
    /// this name, that of all together.
    ///
    /// # Errors
    /// What the run says.
    pub fn together(&mut self, name: &str, patterns: &[Pattern]) -> Result<(), ProbeError> {
        let outcomes = (self.measure)(patterns)?;
        self.runs.extend(together(name, patterns, &outcomes));
        Ok(())
    }

    /// Keeps a finding that is a number.
    pub fn found(&mut self, id: &str, value: f64, unit: &str, text: impl Into<String>) {
        let (value, unit) = (Some(value).filter(|v| v.is_finite()), Some(unit.to_owned()));
        self.remarks.push(Remark { id: id.to_owned(), text: text.into(), value, unit });
    }

    /// Keeps a finding that is words.
    pub fn say(&mut self, id: &str, text: impl Into<String>) {
        self.remarks.push(Remark { id: id.to_owned(), text: text.into(), value: None, unit: None });
    }

    /// Sizes that the target can be asked for: multiples of its sector that fit.
    pub fn sizes(&self, wanted: &[u32]) -> Vec<u32> {
        let fits = |s: &&u32| u64::from(**s) <= self.room && (self.buffered || u64::from(**s) % self.sector == 0);
        wanted.iter().filter(fits).copied().collect()
    }
}

/// One after another from the start, in one stream.
pub const SEQUENTIAL: Placement = Placement::Sequential { streams: 1 };

/// Largest of the results' values and its place.
pub fn best(runs: &[RunResult], of: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    runs.iter().max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// The knee of a rising curve: the first run that reaches this share of the
/// best, so that everything beyond buys at most the rest.
pub fn knee(runs: &[RunResult], share: f64, of: impl Fn(&RunResult) -> f64) -> Option<&RunResult> {
    let most = of(best(runs, &of)?);
    runs.iter().find(|r| of(r) >= share * most)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::draw::Draw;
    use crate::drive::{self, Lane};
    use crate::engine::fake::FakeDevice;
    use crate::live::Live;
    use crate::run::Outcome;

    pub const MIB: u64 = 1 << 20;

    /// Runs a suite on made-up devices, one made new for each run.
    pub fn on_fake(suite: &Suite, room: u64, device: impl Fn() -> FakeDevice) -> (Vec<RunResult>, Vec<Remark>) {
        let mut one = |pattern: &Pattern| {
            if let Some(because) = pattern.fault(512, room) {
                return Err(ProbeError::Pattern { name: pattern.name.clone(), because });
            }
            let (stop, done) = (AtomicBool::new(false), Live::default());
            let slots = match pattern.pace {
                Pace::Closed { depth } => depth,
                Pace::Users { users, .. } | Pace::Cycles { users, .. } => users,
                Pace::Open { .. } => 4096,
            };
            let lane = Lane {
                pace: pattern.pace.clone(),
                durable: pattern.durable,
                ramp_ns: pattern.ramp.as_nanos() as u64,
                lasts_ns: pattern.lasts.as_nanos() as u64,
                stop: &stop,
                done: &done,
                brake_ns: None,
                after_ns: 0,
                sync_every: pattern.sync_every,
                most_bytes: pattern.most_bytes,
            };
            let mut draw = Draw::new(pattern, room, 0, 1);
            let tally = drive::run(&mut device(), &mut draw, &lane, slots).expect("a made-up device does not fail");
            let seconds = pattern.lasts.as_secs_f64();
            Ok(Outcome { tally, seconds, engine: "fake", lanes: 1, ..Outcome::default() })
        };
        // side by side in time only: each on a device of its own
        let mut measure = |patterns: &[Pattern]| {
            let each = patterns.iter().map(&mut one).collect::<Result<Vec<_>, _>>()?;
            let mut all = each[0].clone();
            each[1..].iter().for_each(|other| all.tally.merge(&other.tally));
            Ok(Outcomes { all: (each.len() > 1).then_some(all), each })
        };
        let mut session = Session {
            room,
            sector: 512,
            writes: true,
            lasts: Duration::from_secs(2),
            ramp: Duration::ZERO,
            seed: 1,
            limit_s: 0.1,
            limit_share: None,
            buffered: false,
            runs: Vec::new(),
            remarks: Vec::new(),
            measure: &mut measure,
        };
        (suite.run)(&mut session).expect("the suite runs");
        (session.runs, session.remarks)
    }

    pub fn value(remarks: &[Remark], id: &str) -> f64 {
        remarks.iter().find(|r| r.id == id).and_then(|r| r.value).unwrap_or_else(|| panic!("no {id} in {remarks:?}"))
    }

    #[test]
    fn every_suite_runs_on_a_plain_device_and_explains_itself() {
        for suite in SUITES {
            let (runs, remarks) = on_fake(suite, 64 * MIB, || FakeDevice::steady(4, 200_000));
            assert!(!runs.is_empty(), "{}", suite.id);
            assert!(!remarks.is_empty(), "{} says nothing", suite.id);
            assert!(suite.explain.len() > 40 && suite.good.len() > 20, "{}", suite.id);
            let mut names: Vec<_> = runs.iter().map(|r| &r.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), runs.len(), "{}: two runs of one name", suite.id);
            assert_eq!(super::suite(suite.id).map(|s| s.id), Some(suite.id));
        }
    }
}
