//! Profiles: the highest rates that a device was measured to reach. They are kept in one file per
//! device, so that diagnosis can compare a load with them.
//!
//! [`FIGURES`] lists the figures of a profile. If the device may exceed a figure, `at_least` of the
//! figure says why, and diagnosis treats it as a lower bound. A run that does not measure the device
//! gives no figure at all ([`MeasurementContext::reason_to_discard`]).

mod store;

use diskwright_base::Ceiling;
use serde::{Deserialize, Serialize};

use crate::facts::DeviceFacts;
use crate::result::RunResult;

pub use store::{
    MAX_PROFILE_BYTES, ProfileEntry, ProfileError, UnreadableProfile, load_profiles, parse, remove, save_profile,
};

/// Schema of the profile file.
pub const SCHEMA: &str = "diskwright.profile/1";

/// The figures of a profile: name, unit, description.
pub const FIGURES: &[(&str, &str, &str)] = &[
    ("reads_per_s", "per_s", "maximum of random reads per second, of at most 8 KiB"),
    ("writes_per_s", "per_s", "maximum of random writes per second, of at most 8 KiB"),
    ("read_bytes_per_s", "bytes_per_s", "maximum of bytes per second, reads"),
    ("write_bytes_per_s", "bytes_per_s", "maximum of bytes per second, writes"),
    ("read_s", "s", "mean time of one random 4 KiB read at queue depth 1"),
    ("write_s", "s", "mean time of one random 4 KiB write at queue depth 1"),
    ("knee_depth", "requests", "queue depth that reaches 90 % of the maximum of random reads"),
];

/// Largest request that counts as small, bytes.
const MAX_SMALL_BYTES: f64 = 8192.0;
/// Share of the maximum rate from which on a deeper queue gains little.
const KNEE_SHARE: f64 = 0.9;
/// Smallest number of queue depths from which a knee is determined.
const MIN_KNEE_DEPTHS: usize = 3;
/// Queue depth that counts as a full load if it is the only one measured.
const DEEP_QUEUE: u32 = 16;
/// Bytes in flight below which a run does not measure full bandwidth.
const MIN_IN_FLIGHT_BYTES: f64 = 1_048_576.0;
/// Duration below which a run is short, seconds. A run of `quick` takes 3 s; a run of one second may be
/// served by a cache or by burst credits alone.
const SHORT_RUN_S: f64 = 2.0;
/// Utilization of the processors that its threads can use from which on a probe measures the processors.
const PROCESSOR_BOUND_SHARE: f64 = 0.85;
/// Smallest share of a rotating disk that requests must cover, so that its arm moves as far as in use.
const MIN_COVERED_SHARE: f64 = 0.5;

/// A number of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileFigure {
    /// One of [`FIGURES`].
    pub figure: String,
    /// Value of the figure.
    pub value: f64,
    /// Unit, as in [`FIGURES`].
    pub unit: String,
    /// Queue depth at which it was reached.
    pub depth: Option<u32>,
    /// Mean size of the requests, bytes.
    pub size_bytes: f64,
    /// Duration of the measurement, seconds.
    pub measured_s: f64,
    /// Time of the measurement, RFC 3339 in UTC.
    pub measured: String,
    /// Suite that measured it.
    pub suite: String,
    /// `io_uring` or `threads`.
    pub engine: String,
    /// Random seed of the requests.
    pub seed: u64,
    /// Kernel release.
    pub kernel: String,
    /// Content of the target: `filled` by the probe, or `as found`.
    pub fill: String,
    /// Reasons why the device may exceed the figure; empty for a firm figure.
    pub at_least: Vec<String>,
}

/// Known ceilings of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Key by which the device is recognized.
    pub key: String,
    /// Kernel name at the last measurement.
    pub device: String,
    /// Model.
    pub model: Option<String>,
    /// Class of the device.
    pub class: String,
    /// Size of the device, bytes.
    pub bytes: Option<u64>,
    /// Host on which it was measured.
    pub host: String,
    /// Time of the last measurement, RFC 3339 in UTC.
    pub measured: String,
    /// The figures, in the order of [`FIGURES`].
    pub figures: Vec<ProfileFigure>,
}

/// Circumstances under which runs were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasurementContext {
    /// Time of the measurement, RFC 3339 in UTC.
    pub measured: String,
    /// The suite.
    pub suite: String,
    /// Seed of the suite.
    pub seed: u64,
    /// Size of the target, bytes.
    pub target_bytes: u64,
    /// The target was a file, created by the probe or not.
    pub is_file: bool,
    /// The file was created and filled for this measurement.
    pub was_filled: bool,
    /// The file has holes, so reading those parts needs no device access.
    pub has_holes: bool,
    /// Others used the device at the same time.
    pub live: bool,
    /// I/O limits of a cgroup applied to the probe.
    pub is_io_limited: bool,
    /// Requests went through the page cache.
    pub buffered: bool,
    /// The whole suite was run.
    pub complete: bool,
}

impl MeasurementContext {
    /// Returns why no figure of this measurement is kept; `None` if figures are kept.
    pub fn reason_to_discard(&self, facts: &DeviceFacts) -> Option<&'static str> {
        if self.buffered {
            return Some("the run measured the page cache, not the device");
        }
        if !self.complete {
            return Some("the measurement was not completed");
        }
        if self.has_holes {
            return Some("the file has holes, which need no device access");
        }
        facts.key.is_empty().then_some("it is in memory, not on a device")
    }
}

impl Profile {
    /// Builds the profile from the runs of one measurement. It has no figures if the runs did not
    /// measure the device.
    pub fn from_runs(facts: &DeviceFacts, runs: &[RunResult], context: &MeasurementContext) -> Profile {
        let is_valid = |r: &&RunResult| !r.stopped && r.failed == 0 && r.short_transfers == 0 && r.requests_per_s > 0.0;
        // a run at the same time as others has only what they leave of the device; a run with a target
        // of its own measured another device
        let is_standalone =
            |r: &&RunResult| r.concurrent_runs.is_empty() && r.combines.is_empty() && r.target.is_none();
        let runs: Vec<&RunResult> = runs.iter().filter(is_valid).filter(is_standalone).collect();
        let builder = FigureBuilder { facts, context };
        let mut figures = Vec::new();
        if context.reason_to_discard(facts).is_none() {
            for (name, read_share) in [("read", 1.0), ("write", 0.0)] {
                let runs: Vec<&RunResult> = runs.iter().copied().filter(|r| r.read_share == read_share).collect();
                figures.extend(builder.rate_figure(&format!("{name}s_per_s"), &runs));
                figures.extend(builder.bandwidth_figure(&format!("{name}_bytes_per_s"), &runs));
                figures.extend(builder.single_request_figure(&format!("{name}_s"), &runs));
                figures.extend((name == "read").then(|| builder.knee_figure(&runs)).flatten());
            }
        }
        let mut profile = Profile {
            schema: SCHEMA.into(),
            key: facts.key.clone(),
            device: facts.name.clone(),
            model: facts.model.clone(),
            class: facts.class.clone(),
            bytes: facts.bytes,
            host: facts.host.clone(),
            measured: context.measured.clone(),
            figures,
        };
        profile.sort_figures();
        profile
    }

    /// Finds a figure by name.
    pub fn figure(&self, name: &str) -> Option<&ProfileFigure> {
        self.figures.iter().find(|f| f.figure == name)
    }

    fn figure_value(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|f| f.value)
    }

    /// Returns the ceiling with which diagnosis compares a load. If any rate or bandwidth may be
    /// exceeded, the whole ceiling is a lower bound.
    pub fn ceiling(&self) -> Ceiling {
        let max_of = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        let value = |name: &str| self.figure_value(name);
        let mut at_least: Vec<String> = Vec::new();
        for why in self.figures.iter().filter(|f| f.unit.ends_with("per_s")).flat_map(|f| &f.at_least) {
            if !at_least.contains(why) {
                at_least.push(why.clone());
            }
        }
        Ceiling {
            device: self.device.clone(),
            key: self.key.clone(),
            measured: self.figures.iter().map(|f| f.measured.clone()).max().unwrap_or_default(),
            requests_per_s: max_of(value("reads_per_s"), value("writes_per_s")),
            bytes_per_s: max_of(value("read_bytes_per_s"), value("write_bytes_per_s")),
            reads_per_s: value("reads_per_s"),
            writes_per_s: value("writes_per_s"),
            read_bytes_per_s: value("read_bytes_per_s"),
            write_bytes_per_s: value("write_bytes_per_s"),
            read_s: value("read_s"),
            write_s: value("write_s"),
            knee_depth: value("knee_depth"),
            at_least,
        }
    }

    /// Merges the previous profile into this one. A firm figure takes precedence over one that may
    /// be exceeded. Of two firm figures, or two that may be exceeded, the better one stays (the higher
    /// rate, the shorter time); of two knees, the newer. A rate that may be exceeded makes the whole
    /// ceiling a lower bound, so it is not added to a profile whose rates are all firm.
    fn merge_previous(&mut self, before: &Profile) {
        let is_rate = |f: &ProfileFigure| f.unit.ends_with("per_s");
        if before.figures.iter().any(is_rate) && before.ceiling().is_firm() {
            self.figures.retain(|f| f.at_least.is_empty() || !is_rate(f) || before.figure(&f.figure).is_some());
        }
        for old in &before.figures {
            match self.figures.iter_mut().find(|f| f.figure == old.figure) {
                None => self.figures.push(old.clone()),
                Some(new) if old.takes_precedence_over(new) => *new = old.clone(),
                Some(_) => {}
            }
        }
        self.sort_figures();
    }

    fn sort_figures(&mut self) {
        self.figures.sort_by_key(|f| FIGURES.iter().position(|(name, ..)| *name == f.figure));
    }
}

impl ProfileFigure {
    /// Returns whether this older figure is kept instead of a new one.
    fn takes_precedence_over(&self, new: &ProfileFigure) -> bool {
        match (self.at_least.is_empty(), new.at_least.is_empty()) {
            (true, false) => true,
            (false, true) => false,
            _ => match self.unit.as_str() {
                "s" => self.value < new.value,
                "requests" => false,
                _ => self.value > new.value,
            },
        }
    }
}

/// Builds the figures of one measurement.
struct FigureBuilder<'a> {
    facts: &'a DeviceFacts,
    context: &'a MeasurementContext,
}

impl FigureBuilder<'_> {
    fn build_figure(&self, name: &str, value: f64, run: &RunResult) -> ProfileFigure {
        let (_, unit, _) = FIGURES.iter().find(|(known, ..)| *known == name).copied().unwrap_or_default();
        let mut at_least = Vec::new();
        if self.context.is_file {
            let kind = self.facts.filesystem.as_deref().unwrap_or("a filesystem");
            at_least.push(format!("measured through a file on {kind}"));
        }
        if self.context.live {
            at_least.push("others used the device at the same time".into());
        }
        if self.context.is_io_limited {
            at_least.push("the probe's own cgroup had I/O limits".into());
        }
        if run.measured_s < SHORT_RUN_S {
            at_least.push(format!("measured for {:.1} s only", run.measured_s));
        }
        if run.steady == Some(false) {
            at_least.push("the rate was not steady".into());
        }
        // without a ring, each request in flight has a thread, so there may be more workers than processors
        let processors = if self.facts.processors > 0 { run.workers.min(self.facts.processors) } else { run.workers };
        if run.cpu_share.is_some_and(|share| share >= PROCESSOR_BOUND_SHARE * f64::from(processors.max(1))) {
            at_least.push("the processor was saturated, not the device".into());
        }
        let fill = if self.context.was_filled { "filled" } else { "as found" };
        ProfileFigure {
            figure: name.into(),
            value,
            unit: unit.into(),
            depth: run.depth,
            size_bytes: run.size_bytes,
            measured_s: run.measured_s,
            measured: self.context.measured.clone(),
            suite: self.context.suite.clone(),
            engine: run.engine.clone(),
            seed: self.context.seed,
            kernel: self.facts.kernel.clone(),
            fill: fill.into(),
            at_least,
        }
    }

    /// Selects the runs with small random requests in a closed loop. On a rotating disk they must
    /// cover at least [`MIN_COVERED_SHARE`] of it: an arm that moves less is faster.
    fn small_random_runs<'r>(&self, runs: &[&'r RunResult]) -> Vec<&'r RunResult> {
        let covers_enough =
            self.facts.bytes.is_none_or(|bytes| self.context.target_bytes as f64 >= MIN_COVERED_SHARE * bytes as f64);
        if self.facts.class == "rotational" && !covers_enough {
            return Vec::new();
        }
        let is_small_random =
            |r: &&RunResult| r.place == "uniform" && r.size_bytes <= MAX_SMALL_BYTES && r.depth.is_some();
        runs.iter().copied().filter(is_small_random).collect()
    }

    fn rate_figure(&self, name: &str, runs: &[&RunResult]) -> Option<ProfileFigure> {
        let random = self.small_random_runs(runs);
        let best = run_with_max(&random, |r| r.requests_per_s)?;
        let shallower = random.iter().copied().filter(|r| r.depth < best.depth && r.size_bytes == best.size_bytes);
        let best_shallower = run_with_max(&shallower.collect::<Vec<_>>(), |r| r.requests_per_s);
        let has_deeper = random.iter().any(|r| r.depth > best.depth);
        let mut figure = self.build_figure(name, best.requests_per_s, best);
        let depth = best.depth.unwrap_or(0);
        match best_shallower {
            _ if has_deeper => {}
            Some(run) if run.requests_per_s >= KNEE_SHARE * best.requests_per_s => {}
            Some(_) => figure.at_least.push(format!("the rate still rose at queue depth {depth}")),
            // a single request at a time says little about the maximum
            None if depth < DEEP_QUEUE => return None,
            None => figure.at_least.push(format!("measured only at queue depth {depth}")),
        }
        Some(figure)
    }

    fn bandwidth_figure(&self, name: &str, runs: &[&RunResult]) -> Option<ProfileFigure> {
        let best = run_with_max(runs, |r| r.bytes_per_s)?;
        let mut figure = self.build_figure(name, best.bytes_per_s, best);
        if best.depth.is_none_or(|depth| f64::from(depth) * best.size_bytes < MIN_IN_FLIGHT_BYTES) {
            figure.at_least.push("the queue depth was too low".into());
        }
        Some(figure)
    }

    fn single_request_figure(&self, name: &str, runs: &[&RunResult]) -> Option<ProfileFigure> {
        let runs = self.small_random_runs(runs);
        let standalone = runs.iter().find(|r| r.depth == Some(1) && r.size_bytes <= 4096.0)?;
        Some(self.build_figure(name, standalone.latency_s.mean?, standalone))
    }

    fn knee_figure(&self, runs: &[&RunResult]) -> Option<ProfileFigure> {
        let random = self.small_random_runs(runs);
        let best = run_with_max(&random, |r| r.requests_per_s)?;
        let mut by_depth: Vec<&RunResult> = random.into_iter().filter(|r| r.size_bytes == best.size_bytes).collect();
        by_depth.sort_by_key(|r| r.depth);
        by_depth.dedup_by_key(|r| r.depth);
        let knee = by_depth.iter().copied().find(|r| r.requests_per_s >= KNEE_SHARE * best.requests_per_s)?;
        (by_depth.len() >= MIN_KNEE_DEPTHS)
            .then(|| self.build_figure("knee_depth", f64::from(knee.depth.unwrap_or(0)), knee))
    }
}

/// Returns the run with the largest value above 0.
fn run_with_max<'r>(runs: &[&'r RunResult], value: impl Fn(&RunResult) -> f64) -> Option<&'r RunResult> {
    runs.iter().copied().filter(|r| value(r) > 0.0).max_by(|a, b| value(a).total_cmp(&value(b)))
}

#[cfg(test)]
mod tests;
