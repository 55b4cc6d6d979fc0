//! The quantities that the answer depends on, in both windows: the load, the response time, and the counters that the
//! verdicts blame.

use diskwright_base::counter_ids::{network, physical_disk};
use diskwright_base::units::format_value;
use std::collections::HashMap;

use diskwright_statistics::{Bounds, Contrast, MeanVariance, WeightedPoint};
use serde::Serialize;

use super::{ALL_INSTANCES, ComparisonRow, CounterWindow, TestedDifference};
use crate::answer::{Finding, Verdict};
use crate::rules::Bottleneck;

/// Direction in which a quantity changed between the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDirection {
    /// It grew beyond noise, by at least a twentieth.
    Up,
    /// It fell beyond noise, by at least a twentieth.
    Down,
    /// Neither.
    Same,
    /// There are too few ticks.
    Unknown,
}

/// A quantity of the machine in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantityChange {
    /// Its counter; two with a `/` between them where it is their quotient.
    pub counter: String,
    /// Its unit.
    pub unit: String,
    /// Mean of the first window.
    pub before: f64,
    /// Mean of the second.
    pub after: f64,
    /// Direction of the change.
    pub change: ChangeDirection,
    /// Lower end of the ratio of the second mean over the first, at the level of its test; `null` where it is unknown.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
}

impl QuantityChange {
    /// True where it differs beyond noise, or by so much that it should not be attributed to noise alone.
    pub(super) fn may_differ(&self) -> bool {
        let is_far_apart = self.before.max(self.after) > LARGE_RATIO * self.before.min(self.after);
        matches!(self.change, ChangeDirection::Up | ChangeDirection::Down)
            || (is_far_apart && self.change != ChangeDirection::Unknown)
    }
}

/// Smallest relevant change, as a share.
pub(super) const MIN_CHANGE: f64 = 0.05;
/// Loads that differ by more than this factor are not called the same, even if the difference may be noise.
const LARGE_RATIO: f64 = 1.25;
/// Smallest request rate at which disks count as loaded.
const MIN_REQUESTS_PER_S: f64 = 1.0;
/// Smallest byte rate at which links count as loaded.
const MIN_BYTES_PER_S: f64 = 10_000.0;

pub(super) const REQUESTS_COUNTER: &str = physical_disk::TRANSFERS_PER_S;
pub(super) const RESPONSE_COUNTER: &str = physical_disk::AVG_S_PER_TRANSFER;
pub(super) const SIZE_COUNTER: &str = physical_disk::AVG_BYTES_PER_TRANSFER;
pub(super) const READS_COUNTER: &str = physical_disk::READS_PER_S;
/// Counter text of the share of reads in changes.
pub(super) const READ_SHARE_QUOTIENT: &str = "physical_disk.reads_per_s/physical_disk.transfers_per_s";
/// Load counters where the disks are not loaded, best first.
const TRAFFIC_COUNTERS: [&str; 2] = [network::BYTES_PER_S, network::RECEIVED_BYTES_PER_S];
/// Largest number of blamed counters that the answer depends on.
const MAX_GOALS: usize = 3;

/// Rows that the answer depends on, by their index.
pub(super) struct AnswerRows {
    pub load: Option<usize>,
    pub size: Option<usize>,
    pub response: Option<usize>,
    /// Counters that the verdict blames; true where more is worse.
    pub goals: Vec<(usize, bool)>,
}

/// Index of the row of a counter that stands for the machine.
fn machine_row(rows: &[ComparisonRow], counter: &str) -> Option<usize> {
    let row_of = |instance: &str| rows.iter().position(|r| r.counter == counter && r.instance == instance);
    let mut matching = rows.iter().enumerate().filter(|(_, r)| r.counter == counter).map(|(index, _)| index);
    let only = || matching.next().filter(|_| matching.next().is_none());
    row_of(ALL_INSTANCES).or_else(|| row_of("")).or_else(|| row_of("_total")).or_else(only)
}

impl AnswerRows {
    /// Selects the rows. Disk traffic from paging is not a load: it goes away with its cause.
    pub fn select_rows(rows: &[ComparisonRow], before: &Verdict, after: &Verdict) -> AnswerRows {
        let blamed = if before.bottleneck.blames() { before } else { after };
        let is_paging = [before, after].iter().any(|v| v.bottleneck == Bottleneck::Memory);
        let is_loaded = |row: &usize, minimum: f64| rows[*row].before.mean.max(rows[*row].after.mean) >= minimum;
        let requests =
            machine_row(rows, REQUESTS_COUNTER).filter(|row| is_loaded(row, MIN_REQUESTS_PER_S) && !is_paging);
        let traffic =
            || TRAFFIC_COUNTERS.iter().filter_map(|c| machine_row(rows, c)).find(|row| is_loaded(row, MIN_BYTES_PER_S));
        let concerns_disks = matches!(
            blamed.bottleneck,
            Bottleneck::Disk | Bottleneck::None | Bottleneck::Unknown | Bottleneck::Channel | Bottleneck::Controller
        );
        let disk_row = |counter: &str| requests.and_then(|_| machine_row(rows, counter));
        let response = disk_row(RESPONSE_COUNTER);
        let goals = if concerns_disks && response.is_some() { Vec::new() } else { blamed_rows(rows, blamed) };
        AnswerRows { load: requests.or_else(traffic), size: disk_row(SIZE_COUNTER), response, goals }
    }

    /// Selects the rows of one disk; `None` where it has no load in either window, or no response time.
    pub fn of_device(rows: &[ComparisonRow], instance: &str) -> Option<AnswerRows> {
        let row = |counter: &str| rows.iter().position(|r| r.counter == counter && r.instance == instance);
        let is_loaded = |row: &usize| rows[*row].before.mean.max(rows[*row].after.mean) >= MIN_REQUESTS_PER_S;
        let load = row(REQUESTS_COUNTER).filter(is_loaded)?;
        let response = row(RESPONSE_COUNTER)?;
        Some(AnswerRows { load: Some(load), size: row(SIZE_COUNTER), response: Some(response), goals: Vec::new() })
    }

    /// Indices of all selected rows.
    pub fn row_indices(&self) -> impl Iterator<Item = usize> {
        let goals = self.goals.iter().map(|(row, _)| *row);
        [self.load, self.size, self.response].into_iter().flatten().chain(goals)
    }
}

/// Rows of the counters of the findings that a verdict blames.
fn blamed_rows(rows: &[ComparisonRow], verdict: &Verdict) -> Vec<(usize, bool)> {
    let row = |f: &Finding| {
        let index = rows.iter().position(|r| r.counter == f.counter && r.instance == f.instance);
        let own_row = index
            .or_else(|| machine_row(rows, &f.counter))
            .map(|index| (index, matches!(f.compare, "above" | "at_least")));
        own_row.or_else(|| waiting_row(rows, f))
    };
    let blames = |f: &&Finding| f.bottleneck == verdict.bottleneck && f.bottleneck.blames();
    let mut list: Vec<(usize, bool)> = Vec::new();
    for goal in verdict.findings.iter().filter(blames).filter_map(row) {
        if list.len() < MAX_GOALS && !list.contains(&goal) {
            list.push(goal);
        }
    }
    list
}

/// Row of a paging or pressure counter in the evidence of a finding, of which more is always worse. It stands in for a
/// leading counter without a row, such as the share of paging in a disk's transfers.
fn waiting_row(rows: &[ComparisonRow], finding: &Finding) -> Option<(usize, bool)> {
    let counters = finding.evidence.iter().map(|e| e.counter.as_str());
    let mut waits = counters.filter(|c| c.starts_with("paging.") || c.starts_with("pressure."));
    waits.find_map(|counter| machine_row(rows, counter)).map(|index| (index, true))
}

/// The quantities that the answer depends on, with their changes.
pub(super) struct AnswerQuantities {
    pub load: Option<QuantityChange>,
    pub mix: Vec<QuantityChange>,
    pub response: Option<QuantityChange>,
    pub goals: Vec<QuantityChange>,
    /// `Up` where the blamed counters got worse, `Down` where they got better.
    pub goal_change: ChangeDirection,
}

impl AnswerQuantities {
    /// Changes of the selected rows; `share` is the tested difference of the share of reads.
    pub fn from_rows(rows: &[ComparisonRow], picked: &AnswerRows, share: &TestedDifference) -> AnswerQuantities {
        let change_of = |row: usize| quantity_change(&rows[row]);
        let goals: Vec<QuantityChange> = picked.goals.iter().map(|(row, _)| change_of(*row)).collect();
        let where_up_is_worse = |(movement, (_, upper)): (&QuantityChange, &(usize, bool))| match movement.change {
            ChangeDirection::Up if !upper => ChangeDirection::Down,
            ChangeDirection::Down if !upper => ChangeDirection::Up,
            change => change,
        };
        let changes: Vec<ChangeDirection> = goals.iter().zip(&picked.goals).map(where_up_is_worse).collect();
        let any = |change: ChangeDirection| changes.contains(&change);
        let (up, down) = (any(ChangeDirection::Up), any(ChangeDirection::Down));
        let goal = if up && down {
            ChangeDirection::Unknown
        } else if down {
            ChangeDirection::Down
        } else if up {
            ChangeDirection::Up
        } else if any(ChangeDirection::Same) {
            ChangeDirection::Same
        } else {
            ChangeDirection::Unknown
        };
        let mut mix: Vec<QuantityChange> = picked.size.map(change_of).into_iter().collect();
        mix.extend(share.contrast.as_ref().map(|c| read_share_change(c, share)));
        AnswerQuantities {
            load: picked.load.map(change_of),
            mix,
            response: picked.response.map(change_of),
            goals,
            goal_change: goal,
        }
    }
}

pub(super) fn quantity_change(row: &ComparisonRow) -> QuantityChange {
    let (before, after) = (row.before.mean, row.after.mean);
    let is_small = (after - before).abs() < MIN_CHANGE * before.abs().max(after.abs());
    QuantityChange {
        counter: row.counter.clone(),
        unit: row.unit.clone(),
        before,
        after,
        change: change_direction(row.noise, is_small, after > before),
        ratio_low: row.ratio_low,
        ratio_high: row.ratio_high,
    }
}

pub(super) fn change_direction(noise: Option<bool>, is_small: bool, is_up: bool) -> ChangeDirection {
    match noise {
        None => ChangeDirection::Unknown,
        Some(true) => ChangeDirection::Same,
        Some(false) if is_small => ChangeDirection::Same,
        Some(false) if is_up => ChangeDirection::Up,
        Some(false) => ChangeDirection::Down,
    }
}

/// Change of the share of reads. It is judged by its absolute difference: a share of reads that falls from 2 % to 1 %
/// is no different mix.
fn read_share_change(contrast: &Contrast, tested: &TestedDifference) -> QuantityChange {
    let (before, after) = contrast.both_means();
    let is_small = (after - before).abs() < MIN_CHANGE;
    tested_change(READ_SHARE_QUOTIENT.into(), "fraction", [before, after], tested, is_small)
}

/// Change of a quantity that has no row of its own, from its test.
pub(super) fn tested_change(
    counter: String,
    unit: &str,
    [before, after]: [f64; 2],
    tested: &TestedDifference,
    is_small: bool,
) -> QuantityChange {
    let ratio = tested.contrast.as_ref().and_then(|contrast| contrast.ratio_interval(tested.test_result.level));
    QuantityChange {
        counter,
        unit: unit.into(),
        before,
        after,
        change: change_direction(tested.is_noise(), is_small, after > before),
        ratio_low: ratio.map(|ratio| ratio.0).filter(|low| low.is_finite()),
        ratio_high: ratio.map(|ratio| ratio.1).filter(|high| high.is_finite()),
    }
}

/// Compares the share of reads among the requests of a disk, or of all disks.
pub(super) fn compare_read_share(first: &CounterWindow, second: &CounterWindow, instance: &str) -> TestedDifference {
    let mean_share = |window: &CounterWindow| {
        let list = read_shares(window, instance).into_iter().map(|(_, point)| point).collect::<Vec<WeightedPoint>>();
        MeanVariance::from_points(&list)
    };
    let contrast = mean_share(first).zip(mean_share(second));
    TestedDifference::from_contrast(contrast.map(|(a, b)| Contrast::compare_means(&a, &b, Bounds::SHARE)))
}

/// The share of reads by bucket.
pub(super) fn read_shares(window: &CounterWindow, instance: &str) -> Vec<(i64, WeightedPoint)> {
    let points = |counter: &str| window.find_counter(counter, instance).map(|s| s.bucket_means()).unwrap_or_default();
    let reads: HashMap<i64, f64> = points(READS_COUNTER).into_iter().map(|(bucket, p)| (bucket, p.value)).collect();
    let share = |(bucket, p): (i64, WeightedPoint)| {
        let share = (reads.get(&bucket)? / p.value).clamp(0.0, 1.0);
        (p.value > 0.0)
            .then_some((bucket, WeightedPoint { time_s: p.time_s, value: share, weight: p.value * p.weight }))
    };
    points(REQUESTS_COUNTER).into_iter().filter_map(share).collect()
}

/// The instance whose counters stand for all disks.
pub(super) fn disks_instance(window: &CounterWindow) -> &'static str {
    let is_measured =
        |instance: &&str| window.find_counter(REQUESTS_COUNTER, instance).is_some_and(|s| s.window_mean().is_some());
    [ALL_INSTANCES, "", "_total"].into_iter().find(is_measured).unwrap_or(ALL_INSTANCES)
}

/// `12 → 29 %`: a unit that both values share is written once.
pub(super) fn arrow_text(before: f64, after: f64, unit: &str) -> String {
    let [before, after] = [before, after].map(|value| format_value(value, unit));
    let unit_of = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match unit_of(&before).filter(|unit| Some(unit) == unit_of(&after).as_ref()) {
        Some(unit) => format!("{} → {after}", before.trim_end_matches(unit.as_str()).trim_end()),
        None => format!("{before} → {after}"),
    }
}
