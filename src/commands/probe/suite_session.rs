//! A suite measured on its target: settings, members, progress with the remaining time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskwright_base::{Topology, units};
use diskwright_probe::ProbeError;
use diskwright_probe::bench::TargetBench;
use diskwright_probe::guard::Consent;
use diskwright_probe::live::LiveInterval;
use diskwright_probe::members::find_members;
use diskwright_probe::suites::{self, Settings, Suite, SuiteSession, Writes};
use diskwright_probe::{ProbeTarget, TargetOptions};
use diskwright_results::facts::DeviceFacts;
use diskwright_results::facts::SuiteRemark;
use diskwright_results::result::RunResult;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Arguments, DEFAULT_TIMES, screen};
use crate::commands::Failure;

/// Runs and remarks, and the error that ended the measurement early.
pub type ProbeMeasurement = (Vec<RunResult>, Vec<SuiteRemark>, Option<ProbeError>);

/// Opens the members of an array if the suite needs them: named by the user, or shown by the kernel.
pub fn open_members(
    arguments: &Arguments,
    suite: &Suite,
    topology: &Topology,
    facts: &DeviceFacts,
) -> Result<Vec<ProbeTarget>, Failure> {
    if suite.id != "stripes" {
        return Ok(Vec::new());
    }
    let has_named_members = !arguments.members.is_empty();
    let kernel_members = find_members(topology, facts).into_iter().map(|name| PathBuf::from("/dev").join(name));
    let paths: Vec<PathBuf> = if has_named_members { arguments.members.clone() } else { kernel_members.collect() };
    let consent = Consent { live: arguments.live, destroy: None };
    let options = TargetOptions { consent, keep: true, buffered: arguments.buffered, ..TargetOptions::default() };
    let mut targets = Vec::new();
    for path in paths {
        if !path.exists() {
            return Err(Failure::Failed(format!("{}: no such member", path.display())));
        }
        targets.push(ProbeTarget::open_or_create(&path, &options, &mut |_, _| true)?);
    }
    Ok(targets)
}

/// The last part of a path, the name of members in results.
fn short_name(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// Measures a suite, as often as requested.
pub fn measure_suite(
    arguments: &Arguments,
    suite: &Suite,
    target: &ProbeTarget,
    members: &[ProbeTarget],
    stop: &Arc<AtomicBool>,
) -> ProbeMeasurement {
    let config = arguments.run_config(stop);
    let settings = Settings {
        target_bytes: target.bytes,
        sector: target.sector,
        writes: suite.writes != Writes::Never && (target.was_made() || !arguments.destroy_data_on.is_empty()),
        duration: arguments.run_duration.unwrap_or(suite.time.default_duration()),
        ramp: arguments.ramp.unwrap_or(DEFAULT_TIMES.1),
        seed: arguments.seed,
        limit_s: arguments.limit.as_secs_f64(),
        limit_share: arguments.limit_share,
        buffered: arguments.buffered,
        is_device: target.is_device,
        members: members.iter().map(|m| (short_name(&m.name), m.bytes)).collect(),
    };
    let mut progress = SuiteProgress::new(suite, &settings, arguments.repeat);
    let mut on_progress =
        |name: &str, share: f64, interval: &LiveInterval, run_s: f64| progress.update_run(name, share, interval, run_s);
    let targets = std::iter::once(target).chain(members).collect();
    let mut bench = TargetBench { targets, config: &config, progress: &mut on_progress };
    let mut session = SuiteSession::new(settings, &mut bench);
    let (mut runs, mut remarks) = (Vec::new(), Vec::new());
    let mut failure = None;
    for _ in 0..arguments.repeat {
        failure = suites::run_suite(suite, &mut session).err();
        runs.append(&mut session.runs);
        // the remarks of the last complete round are kept
        if failure.is_none() || remarks.is_empty() {
            remarks = std::mem::take(&mut session.remarks);
        }
        if failure.is_some() {
            break;
        }
    }
    progress.bar.finish_and_clear();
    if failure.is_none() && stop.load(Ordering::Relaxed) {
        failure = Some(ProbeError::Interrupted);
    }
    (runs, remarks, failure)
}

/// Progress of a suite relative to its planned time.
struct SuiteProgress {
    bar: ProgressBar,
    /// Planned time, seconds.
    planned_s: f64,
    /// Time of the finished runs, seconds.
    finished_s: f64,
    /// Name of the current run.
    run_name: String,
    /// Planned time of the current run, seconds.
    run_s: f64,
    /// Share of the current run that is over.
    run_share: f64,
}

impl SuiteProgress {
    fn new(suite: &Suite, settings: &Settings, repeat: u32) -> SuiteProgress {
        let plan = suites::plan_suite(suite, settings);
        let planned_s = plan.seconds * f64::from(repeat);
        let bar = named_bar(suite.id.to_owned());
        bar.set_length(1000);
        let runs = units::format_count(u64::from(plan.runs * repeat), "run", "runs");
        bar.println(format!("{}: {runs}, about {}", suite.id, format_length(planned_s)));
        SuiteProgress { bar, planned_s, finished_s: 0.0, run_name: String::new(), run_s: 0.0, run_share: 0.0 }
    }

    fn update_run(&mut self, name: &str, share: f64, interval: &LiveInterval, run_s: f64) {
        // a repeat of a suite with one run has the same name as the run before
        if self.run_name != name || share < self.run_share {
            self.finished_s += self.run_s;
            (self.run_name, self.run_s) = (name.to_owned(), run_s);
        }
        self.run_share = share;
        let done_s = self.finished_s + share * run_s;
        let left_s = (self.planned_s - done_s).max(0.0);
        self.bar.set_position((done_s / self.planned_s.max(1e-9) * 1000.0) as u64);
        self.bar.set_message(if share >= 1.0 {
            // a device that does not respond delays the end of the run
            format!("{name}: waiting for requests in flight; press Ctrl-C to stop")
        } else {
            format!("about {} left, {name}: {}", format_length(left_s), screen::progress_line(interval))
        });
    }
}

/// Formats a time in whole seconds.
pub fn format_length(seconds: f64) -> String {
    units::format_value(seconds.round(), "s")
}

/// Progress bar on the terminal, with a name before it.
pub fn named_bar(prefix: String) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:10} {percent} % {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(diskwright_base::text::printable_line(&prefix).into_owned());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_one_run_use_up_their_time() {
        let (bar, planned) = (ProgressBar::hidden(), 6.0);
        let mut progress = SuiteProgress {
            bar,
            planned_s: planned,
            finished_s: 0.0,
            run_name: String::new(),
            run_s: 0.0,
            run_share: 0.0,
        };
        for _ in 0..3 {
            for share in [0.2, 0.6, 1.0] {
                progress.update_run("sector", share, &LiveInterval::default(), 2.0);
            }
        }
        assert_eq!((progress.finished_s, progress.run_share), (4.0, 1.0));
        progress.update_run("next", 1.0, &LiveInterval::default(), 2.0);
        assert_eq!(progress.finished_s, 6.0);
    }
}
