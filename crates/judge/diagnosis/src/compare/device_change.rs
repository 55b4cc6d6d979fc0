//! Each disk in both windows, judged by itself: a neighbor's noise must not decide whether a change helped the disk
//! that was in question.

use serde::Serialize;

use super::answer_quantities::{self, AnswerQuantities, AnswerRows, ChangeDirection, QuantityChange};
use super::change_outcome::{self, ChangeOutcome};
use super::comparison_text::{self, ChangeFacts};
use super::equal_load::RequestChanges;
use super::equal_load::{self, EqualLoadResult};
use super::{ComparisonRow, CounterWindow, TestedDifference};
use crate::answer::Verdict;
use crate::rules::Bottleneck;

/// Largest number of disks that are judged: the busiest ones, after those that a verdict blames.
const MAX_DEVICES: usize = 64;

/// A disk in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceChange {
    /// The disk, or the array that a verdict blames.
    pub instance: String,
    /// True where a verdict blames it.
    pub blamed: bool,
    /// Effect of the change on it.
    pub outcome: ChangeOutcome,
    /// The same in words.
    pub sentence: String,
    /// Its load and response time.
    #[serde(flatten)]
    pub requests: RequestChanges,
}

impl DeviceChange {
    /// True where it got better or worse.
    pub fn has_changed(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Helped | ChangeOutcome::Worse)
    }

    /// The factor by which a request takes longer or less long, at least 1; 1 where that is unknown.
    fn change_factor(&self) -> f64 {
        let of_means = |m: &QuantityChange| m.after / m.before;
        let ratio = self.requests.ratio_at_equal_load().or(self.requests.response.as_ref().map(of_means));
        ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0).map_or(1.0, |ratio| ratio.max(1.0 / ratio))
    }

    fn load_mean(&self) -> f64 {
        self.requests.load.as_ref().map_or(0.0, |load| load.before.max(load.after))
    }
}

/// A disk that is to be judged: its rows, and its own tests behind those of the rows.
pub(super) struct DeviceTests {
    instance: String,
    blamed: bool,
    rows: AnswerRows,
    /// Index of the first of its two tests among all: the share of reads, the response time at equal load.
    first_test: usize,
    equal: Result<EqualLoadResult, String>,
}

impl DeviceTests {
    /// Selects the disks, and appends their tests. What the answer depends on is marked as leading: the blamed disks;
    /// where none is blamed, any of them may turn out to be the one that changed most.
    pub fn select_devices(
        [first, second]: [&CounterWindow; 2],
        rows: &[ComparisonRow],
        [before, after]: [&Verdict; 2],
        tests: &mut Vec<TestedDifference>,
    ) -> Vec<DeviceTests> {
        let blamed = blamed_devices(before, after);
        let mut names: Vec<String> = blamed.clone();
        names.extend(second.disks().into_iter().chain(first.disks()));
        let mut found: Vec<(String, AnswerRows)> = Vec::new();
        for name in names {
            if !found.iter().any(|(known, _)| *known == name)
                && let Some(picked) = AnswerRows::of_device(rows, &name)
            {
                found.push((name, picked));
            }
        }
        let load = |picked: &AnswerRows| picked.load.map_or(0.0, |row| rows[row].before.mean.max(rows[row].after.mean));
        let is_unblamed = |name: &String| !blamed.contains(name);
        found.sort_by(|(a, x), (b, y)| is_unblamed(a).cmp(&is_unblamed(b)).then_with(|| load(y).total_cmp(&load(x))));
        found.truncate(MAX_DEVICES);
        let any_blamed = found.iter().any(|(name, _)| !is_unblamed(name));
        let mut devices = Vec::new();
        for (instance, picked) in found {
            let blamed = !is_unblamed(&instance);
            let response = picked.response.expect("of_device wants it");
            let equal = equal_load::compare_at_equal_load([first, second], &rows[response], &instance);
            let first_test = tests.len();
            tests.push(answer_quantities::compare_read_share(first, second, &instance));
            tests.push(TestedDifference::from_contrast(equal.as_ref().ok().map(|e| e.contrast)));
            if blamed || !any_blamed {
                let own = picked.row_indices().chain([first_test, first_test + 1]);
                own.for_each(|test| tests[test].is_leading = true);
            }
            devices.push(DeviceTests { instance, blamed, rows: picked, first_test, equal });
        }
        devices
    }

    /// Completes the judgment of a disk with the results of its tests.
    fn into_change(self, rows: &[ComparisonRow], tests: &[TestedDifference], verdicts: [&Verdict; 2]) -> DeviceChange {
        let quantities = AnswerQuantities::from_rows(rows, &self.rows, &tests[self.first_test]);
        let (equal_load, equal_load_missing) = match self.equal {
            Ok(equal) => (Some(equal.into_equal_load(&tests[self.first_test + 1])), None),
            Err(reason) => (None, Some(reason)),
        };
        let outcome = match is_relieved(&quantities, &self.instance, verdicts) {
            true => ChangeOutcome::Helped,
            false => change_outcome::judge_change(&quantities, equal_load.as_ref(), verdicts[0], verdicts[1]),
        };
        let mut device = DeviceChange {
            instance: self.instance,
            blamed: self.blamed,
            outcome,
            sentence: String::new(),
            requests: RequestChanges::new(quantities, (equal_load, equal_load_missing)),
        };
        device.sentence = comparison_text::device_sentence(&ChangeFacts::of_device(&device));
        device
    }
}

/// True where the disk was the bottleneck and is none any more, although it serves as many requests or more, each of
/// them faster beyond noise: more work in less time, also where the requests are of another kind.
fn is_relieved(quantities: &AnswerQuantities, disk: &str, [before, after]: [&Verdict; 2]) -> bool {
    let blames = |verdict: &Verdict| {
        verdict.bottlenecks.iter().any(|listed| is_of_disk(listed.bottleneck) && listed.instance == disk)
    };
    let is_load_kept = quantities.load.as_ref().is_some_and(|load| {
        load.after >= load.before && matches!(load.change, ChangeDirection::Up | ChangeDirection::Unknown)
    });
    let is_faster = quantities.response.as_ref().is_some_and(|response| response.change == ChangeDirection::Down);
    let is_decided = after.bottleneck != Bottleneck::Unknown;
    is_load_kept && is_faster && is_decided && blames(before) && !blames(after)
}

fn is_of_disk(bottleneck: Bottleneck) -> bool {
    matches!(bottleneck, Bottleneck::Disk | Bottleneck::Application)
}

/// Judges the disks: those that a verdict blames first, then those that changed most, then the busiest.
pub(super) fn judge_devices(
    devices: Vec<DeviceTests>,
    rows: &[ComparisonRow],
    tests: &[TestedDifference],
    verdicts: [&Verdict; 2],
) -> Vec<DeviceChange> {
    let mut list: Vec<DeviceChange> =
        devices.into_iter().map(|device| device.into_change(rows, tests, verdicts)).collect();
    let blamed = blamed_devices(verdicts[0], verdicts[1]);
    let blame_rank = |d: &DeviceChange| blamed.iter().position(|name| *name == d.instance).unwrap_or(usize::MAX);
    list.sort_by(|a, b| {
        let by_blame = blame_rank(a).cmp(&blame_rank(b));
        let by_change = by_blame.then_with(|| b.has_changed().cmp(&a.has_changed()));
        let is_changed = a.has_changed();
        let by_factor =
            if is_changed { b.change_factor().total_cmp(&a.change_factor()) } else { std::cmp::Ordering::Equal };
        by_change.then(by_factor).then_with(|| b.load_mean().total_cmp(&a.load_mean()))
    });
    list
}

/// Disks and arrays that the verdicts blame, those of the first window first.
fn blamed_devices(before: &Verdict, after: &Verdict) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for listed in before.bottlenecks.iter().chain(&after.bottlenecks) {
        if is_of_disk(listed.bottleneck) && !listed.instance.is_empty() && !names.contains(&listed.instance) {
            names.push(listed.instance.clone());
        }
    }
    names
}

/// What the disks together say of the change: the first one decides. Where no verdict blames it and another one changed
/// the other way, the windows do not show whether the change helped.
pub(super) fn outcome_of_devices(devices: &[DeviceChange]) -> Option<ChangeOutcome> {
    let first = devices.first()?;
    let opposite = match first.outcome {
        ChangeOutcome::Helped => ChangeOutcome::Worse,
        ChangeOutcome::Worse => ChangeOutcome::Helped,
        outcome => return Some(outcome),
    };
    let is_disputed = !first.blamed && devices[1..].iter().any(|device| device.outcome == opposite);
    Some(if is_disputed { ChangeOutcome::Unclear } else { first.outcome })
}
