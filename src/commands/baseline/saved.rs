//! The saved baseline of this machine: saving one, and the remarks of `why` and `report` on a machine that became
//! slower.

use std::path::PathBuf;

use diskwright_base::{timestamp, units};
use diskwright_baseline::circumstances::BaselineCircumstances;
use diskwright_baseline::compare::{BaselineComparison, ComparedThreads, compare_baselines};
use diskwright_baseline::document::BaselineDocument;
use diskwright_baseline::profile_store::{self, MachineProfile};
use diskwright_diagnosis::Verdict;
use serde::Serialize;
use serde_json::{Value, json};

use super::Arguments;
use crate::commands::{ceilings, output};

/// A measurement is not saved as a baseline if other programs or machines used more than this share of the processors.
const MAX_FOREIGN_USE: f64 = 0.10;
/// Share of stolen time that is reported.
const REPORTED_STEAL: f64 = 0.01;
/// Slowdown from which a machine is called slower.
const SLOWER_FROM: f64 = 0.05;
/// Largest distance between a measurement and a verdict's window at which the measurement is used.
const MAX_DISTANCE_NS: i64 = 7 * 24 * 3600 * 1_000_000_000;

/// Result of saving a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BaselineUpdate {
    /// The file it was saved in; `null` if it was not.
    pub file: Option<String>,
    /// True if it was saved as the baseline, not as the newest check.
    pub is_baseline: bool,
    /// Reason why it was not saved.
    pub because: Option<String>,
}

fn baseline_folder() -> Option<PathBuf> {
    ceilings::state_folder().map(|folder| folder.join("baselines"))
}

/// Loads the saved profile of a machine: this user's, or the common one.
fn load_profile(host: &str) -> Option<MachineProfile> {
    let read = |folder: PathBuf| match profile_store::load_profile(&folder, host) {
        Ok(profile) => profile,
        Err(error) => {
            output::print_warning(format_args!("a saved baseline is ignored: {error}"));
            None
        }
    };
    ceilings::state_folders().into_iter().find_map(|folder| read(folder.join("baselines")))
}

/// Loads the saved baseline of a machine.
pub fn load_baseline(host: &str) -> Option<BaselineDocument> {
    load_profile(host).map(|profile| profile.baseline)
}

/// Saves a result. The update has the file, or the reason why nothing was saved.
pub fn save_result(arguments: &Arguments, document: &BaselineDocument) -> BaselineUpdate {
    let not_saved = |because: &str| BaselineUpdate { because: Some(because.to_owned()), ..BaselineUpdate::default() };
    let known = load_baseline(&document.machine.host);
    let is_baseline = !arguments.check && (arguments.replace || known.is_none());
    let foreign_use = foreign_use_doubt(&document.circumstances).filter(|_| is_baseline && !arguments.even_busy);
    match baseline_folder() {
        _ if arguments.no_save => not_saved("--no-save"),
        _ if !arguments.only.is_empty() => not_saved("--only measures a part"),
        _ if document.figures.iter().all(|figure| figure.median.is_none()) => not_saved("no figure is reliable"),
        _ if arguments.check && known.is_none() => {
            not_saved("there is no baseline of this machine yet; `diskwright baseline` makes one")
        }
        _ if foreign_use.is_some() => {
            not_saved(&format!("{}; --even-busy saves it nevertheless", foreign_use.unwrap_or_default()))
        }
        None => not_saved("no folder to save it in: set DISKWRIGHT_STATE or HOME"),
        Some(folder) => match profile_store::save_measurement(&folder, document, known.as_ref(), arguments.replace) {
            Ok(file) => BaselineUpdate { file: Some(file.display().to_string()), is_baseline, because: None },
            Err(error) => not_saved(&error.to_string()),
        },
    }
}

/// Describes disturbances during a measurement, if they are large enough to report.
pub fn describe_disturbances(circumstances: &BaselineCircumstances) -> Vec<String> {
    let share = |value: f64| units::format_value(value, "fraction");
    let mut texts = Vec::new();
    if let Some(steal) = circumstances.steal_share.filter(|steal| *steal >= REPORTED_STEAL) {
        texts.push(format!("steal at {}", share(steal)));
    }
    if let Some(others) = circumstances.others_share.filter(|others| *others >= REPORTED_STEAL) {
        texts.push(format!("other programs at {} of the processors", share(others)));
    }
    if let Some(throttled_s) = circumstances.throttled_s.filter(|seconds| *seconds > 0.0) {
        texts.push(format!("{} throttled by the cgroup's limit", units::format_value(throttled_s, "s")));
    }
    if let Some(times) = circumstances.thermal_throttles.filter(|times| *times > 0) {
        texts.push(units::format_count(times, "slow-down because of heat", "slow-downs because of heat"));
    }
    texts
}

/// Returns the share of the processors that others used, if it is large enough to lower the figures.
fn foreign_use_doubt(circumstances: &BaselineCircumstances) -> Option<String> {
    let large = |share: Option<f64>| {
        share.filter(|share| *share > MAX_FOREIGN_USE).map(|share| units::format_value(share, "fraction"))
    };
    let (others, steal) = (large(circumstances.others_share), large(circumstances.steal_share));
    let others = others.map(|share| format!("other programs used {share} of the processors"));
    others.or_else(|| steal.map(|share| format!("the hypervisor gave {share} of the processors to others")))
}

/// Returns the reasons why figures may be lower than what the machine can do.
pub fn low_figure_doubts(circumstances: &BaselineCircumstances) -> Vec<String> {
    let doubt = |foreign_use: String| format!("{foreign_use} meanwhile: figures are lower than the machine's own");
    foreign_use_doubt(circumstances).map(doubt).into_iter().collect()
}

/// Describes in a sentence how much slower a machine is; `None` if the difference is within noise.
pub fn describe_slowdown(
    comparison: &BaselineComparison,
    before: &BaselineDocument,
    now: &BaselineDocument,
) -> Option<String> {
    let differs = comparison.rows.iter().any(|row| row.threads == ComparedThreads::ONE && row.differs);
    let speed = comparison.speed_one_thread.filter(|speed| differs && 1.0 - speed > SLOWER_FROM)?;
    let day = before.measured.get(..10).unwrap_or(&before.measured);
    let mut sentence = format!(
        "this machine is {} slower than on the day of its baseline ({day}) with one thread",
        units::format_value(1.0 - speed, "fraction")
    );
    for (index, disturbance) in describe_disturbances(&now.circumstances).iter().enumerate() {
        sentence += &format!("{}{disturbance}", if index == 0 { ", with " } else { " and " });
    }
    let slow_groups = comparison.groups.iter().filter(|group| 1.0 - group.speed > SLOWER_FROM);
    let group_texts: Vec<String> = slow_groups
        .map(|group| format!("{} {}", group.group, units::format_value(1.0 - group.speed, "fraction")))
        .collect();
    if !group_texts.is_empty() {
        sentence += &format!(": {}", group_texts.join(", "));
    }
    let compared = comparison.rows.iter().filter(|row| row.threads == ComparedThreads::ONE).count();
    let figures = before.figures.iter().filter(|figure| figure.threads == 1 && figure.median.is_some()).count();
    if 2 * compared < figures {
        sentence += &format!(" (judged by {compared} of {figures} figures)");
    }
    Some(sentence)
}

/// Adds to a verdict how its machine compares with the machine's baseline, and returns the comparison as JSON: `null`
/// without a baseline and a later check near the verdict's window.
pub fn add_to_verdict(verdict: &mut Verdict) -> Value {
    let Some(MachineProfile { baseline, latest: Some(latest), .. }) = load_profile(&verdict.host) else {
        return Value::Null;
    };
    let times = [&verdict.window.from, &verdict.window.to, &latest.measured].map(|time| timestamp::parse_rfc3339(time));
    let [Some(from), Some(to), Some(measured)] = times else { return Value::Null };
    if measured < from.saturating_sub(MAX_DISTANCE_NS) || measured > to.saturating_add(MAX_DISTANCE_NS) {
        return Value::Null;
    }
    let comparison = compare_baselines(&baseline, &latest);
    let sentence = describe_slowdown(&comparison, &baseline, &latest);
    if let Some(sentence) = &sentence {
        let day = latest.measured.get(..16).unwrap_or(&latest.measured).replace('T', " ");
        verdict.certainty_limits.push(format!("measured on {day} UTC, {sentence}"));
        // another processor under the same name is not the same machine that became slower
        if !comparison.differences.is_empty() {
            let changes = comparison.differences.join(", ");
            verdict.certainty_limits.push(format!("what differs from that day: {changes}"));
        }
    }
    json!({
        "baseline": baseline.measured,
        "measured": latest.measured,
        "speed_one_thread": comparison.speed_one_thread,
        "steal_share": latest.circumstances.steal_share,
        "others_share": latest.circumstances.others_share,
        "differences": comparison.differences,
        "sentence": sentence,
    })
}

#[cfg(test)]
mod tests {
    use diskwright_baseline::document::FigureResult;
    use diskwright_baseline::figure::find_definition;

    use super::*;

    #[test]
    fn noise_in_every_figure_is_no_slowdown() {
        // the middle half spreads over 4 % on both sides: 6 % is noise, 20 % is not
        let of = |speed: f64| {
            let values = [95.0, 98.0, 100.0, 102.0, 105.0].map(|value| value * speed);
            let figure = FigureResult::from_values(find_definition("memory.read").expect("known"), 1, &values);
            BaselineDocument { figures: vec![figure], ..BaselineDocument::default() }
        };
        let slowdown_of =
            |speed: f64| describe_slowdown(&compare_baselines(&of(1.0), &of(speed)), &of(1.0), &of(speed));
        assert_eq!(slowdown_of(0.94), None);
        assert!(slowdown_of(0.8).is_some_and(|words| words.contains("20 % slower")));
    }

    #[test]
    fn stolen_time_disqualifies_a_baseline() {
        let of = |others: f64, steal: f64| {
            let (others_share, steal_share) = (Some(others), Some(steal));
            foreign_use_doubt(&BaselineCircumstances { others_share, steal_share, ..BaselineCircumstances::default() })
        };
        assert_eq!(of(0.05, 0.3).as_deref(), Some("the hypervisor gave 30 % of the processors to others"));
        assert_eq!(of(0.2, 0.3).as_deref(), Some("other programs used 20 % of the processors"));
        assert_eq!((of(0.05, 0.05), foreign_use_doubt(&BaselineCircumstances::default())), (None, None));
    }
}
