//! What database servers did in both windows: how many transactions they committed, and how many sessions waited
//! meanwhile. The requests of a disk do not show that. A server that commits several transactions together, for
//! instance, serves more of them with fewer requests.
//!
//! By Little's law (J. D. C. Little, Operations Research 9, 1961), sessions that wait are transactions per second times
//! the time that each of them waits. So more transactions beside as many waiting sessions wait less.

use std::collections::HashMap;

use diskwright_statistics::blocks::weighted_mean;
use diskwright_statistics::{Bounds, Contrast, MeanVariance, WeightedPoint};
use serde::Serialize;

use super::answer_quantities::{
    ChangeDirection, MIN_CHANGE, QuantityChange, arrow_text, quantity_change, tested_change,
};
use super::change_outcome::ChangeOutcome;
use super::{ComparisonRow, CounterWindow, TestedDifference};

/// Transactions per second.
const COMMITS_COUNTER: &str = "database.commits_per_s";
/// Numbers of sessions that wait for something that a remedy can change.
const WAITING_COUNTERS: [&str; 3] =
    ["database.sessions_waiting_lock", "database.sessions_waiting_log", "database.sessions_waiting_data"];
/// Smallest mean number of waiting sessions at which a server was held back. Our choice: one that waits half of the
/// time.
const MIN_WAITING_SESSIONS: f64 = 0.5;
/// Smallest rate of transactions that is one of users: the recorder's own are about one a second.
const MIN_COMMITS_PER_S: f64 = 5.0;

/// What a database server did in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseChange {
    /// The server, as the counters name it.
    pub instance: String,
    /// What the server itself shows of the change.
    pub outcome: ChangeOutcome,
    /// Transactions that were committed per second.
    pub commits: QuantityChange,
    /// Sessions that waited for locks, the log or data.
    pub waiting: QuantityChange,
}

/// A server that is to be judged: the indices of its tests, and the mean number of waiting sessions in both windows.
pub(super) struct DatabaseTest {
    instance: String,
    commits: usize,
    waiting: usize,
    waiting_means: [f64; 2],
}

/// Selects the servers whose sessions waited in the first window, and appends their tests.
pub(super) fn select_databases(
    windows: [&CounterWindow; 2],
    rows: &[ComparisonRow],
    tests: &mut Vec<TestedDifference>,
) -> Vec<DatabaseTest> {
    let mut list = Vec::new();
    for (commits, row) in rows.iter().enumerate().filter(|(_, row)| row.counter == COMMITS_COUNTER) {
        let points = windows.map(|window| waiting_sessions(window, &row.instance));
        let waiting_means = [0, 1].map(|window| weighted_mean(&points[window]));
        let is_used = row.before.mean.max(row.after.mean) >= MIN_COMMITS_PER_S;
        if !is_used || points.iter().any(Vec::is_empty) || waiting_means[0] < MIN_WAITING_SESSIONS {
            continue;
        }
        let variances = points.map(|points| MeanVariance::from_points(&points));
        // by the difference: hardly anybody waits where a lock is gone, and a ratio to nearly nothing is never known
        let contrast = variances[0].as_ref().zip(variances[1].as_ref());
        let contrast = contrast.map(|(before, after)| Contrast::compare_few(before, after, Bounds::POSITIVE));
        tests[commits].is_leading = true;
        list.push(DatabaseTest { instance: row.instance.clone(), commits, waiting: tests.len(), waiting_means });
        tests.push(TestedDifference { is_leading: true, ..TestedDifference::from_contrast(contrast) });
    }
    list
}

/// Sessions that wait, by bucket. Empty where the window does not count them.
fn waiting_sessions(window: &CounterWindow, instance: &str) -> Vec<WeightedPoint> {
    let buckets = |counter: &str| window.find_counter(counter, instance).map(|found| found.bucket_means());
    let mut sums: HashMap<i64, WeightedPoint> = HashMap::new();
    for (bucket, point) in WAITING_COUNTERS.into_iter().filter_map(buckets).flatten() {
        sums.entry(bucket).and_modify(|sum| sum.value += point.value).or_insert(point);
    }
    let mut sums: Vec<(i64, WeightedPoint)> = sums.into_iter().collect();
    sums.sort_by_key(|(bucket, _)| *bucket);
    sums.into_iter().map(|(_, point)| point).collect()
}

/// Completes the judgment of the servers with the results of their tests.
pub(super) fn judge_databases(
    databases: Vec<DatabaseTest>,
    rows: &[ComparisonRow],
    tests: &[TestedDifference],
) -> Vec<DatabaseChange> {
    let complete = |database: DatabaseTest| {
        let commits = quantity_change(&rows[database.commits]);
        let waiting = waiting_change(database.waiting_means, &tests[database.waiting]);
        DatabaseChange { outcome: judge_database(&commits, &waiting), instance: database.instance, commits, waiting }
    };
    databases.into_iter().map(complete).collect()
}

fn waiting_change(means: [f64; 2], tested: &TestedDifference) -> QuantityChange {
    let [before, after] = means;
    let is_small = (after - before).abs() < MIN_CHANGE * before.max(after);
    tested_change(WAITING_COUNTERS.join("+"), "count", means, tested, is_small)
}

/// More transactions while more sessions wait may be a higher load, and fewer while fewer wait a lower one. A number of
/// sessions that may be larger by much is not called the same.
fn judge_database(commits: &QuantityChange, waiting: &QuantityChange) -> ChangeOutcome {
    use ChangeDirection::{Down, Same, Unknown, Up};
    let may_be_more = waiting.may_differ() && waiting.after > waiting.before;
    let may_be_less = waiting.may_differ() && waiting.after < waiting.before;
    match (commits.change, waiting.change) {
        (Unknown, _) | (_, Unknown) => ChangeOutcome::Unclear,
        (Up | Same, Down) => ChangeOutcome::Helped,
        (Down | Same, Up) => ChangeOutcome::Worse,
        (Up, Up) => ChangeOutcome::HigherLoad,
        (Down, Down) => ChangeOutcome::LowerLoad,
        (Up, Same) if may_be_more => ChangeOutcome::Unclear,
        (Up, Same) => ChangeOutcome::Helped,
        (Down, Same) if may_be_less => ChangeOutcome::Unclear,
        (Down, Same) => ChangeOutcome::Worse,
        (Same, Same) => ChangeOutcome::Unchanged,
    }
}

/// What the servers say of the change, which is nearer to those who wait than requests of disks; `None` where none of
/// them got better or worse, or not all of them alike.
pub(super) fn outcome_of_databases(databases: &[DatabaseChange]) -> Option<ChangeOutcome> {
    let is_decided = |outcome: &ChangeOutcome| matches!(outcome, ChangeOutcome::Helped | ChangeOutcome::Worse);
    let mut decided = databases.iter().map(|database| database.outcome).filter(is_decided);
    let first = decided.next()?;
    decided.all(|outcome| outcome == first).then_some(first)
}

/// `The change helped: postgres:shop commits 178 → 277 transactions/s while 22 → 22 sessions wait, 124 → 79 ms for
/// each.`
pub(super) fn databases_sentence(databases: &[DatabaseChange], outcome: ChangeOutcome) -> String {
    let begin = if outcome == ChangeOutcome::Helped { "The change helped" } else { "It got worse" };
    let text = |database: &DatabaseChange| {
        let DatabaseChange { instance, commits, waiting, .. } = database;
        let commits_text = arrow_text(commits.before, commits.after, "");
        let waiting_text = arrow_text(waiting.before, waiting.after, "");
        // hardly any transaction: what each waits is no number that means something
        let each = match commits.before.min(commits.after) >= MIN_COMMITS_PER_S {
            true => {
                format!(
                    ", {} for each",
                    arrow_text(waiting.before / commits.before, waiting.after / commits.after, "s")
                )
            }
            false => String::new(),
        };
        format!("{instance} commits {commits_text} transactions/s while {waiting_text} sessions wait{each}")
    };
    let changed: Vec<String> = databases.iter().filter(|one| one.outcome == outcome).map(text).collect();
    format!("{begin}: {}.", changed.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity((before, after): (f64, f64), change: ChangeDirection) -> QuantityChange {
        let (ratio_low, ratio_high) = (None, None);
        QuantityChange { counter: String::new(), unit: "count".into(), before, after, change, ratio_low, ratio_high }
    }

    #[test]
    fn more_transactions_helped_unless_more_sessions_wait() {
        use ChangeDirection::{Down, Same, Unknown, Up};
        let (less, same, more) = ((4.0, 2.0), (4.0, 4.1), (4.0, 8.0));
        let expected = [
            (Up, less, Down, ChangeOutcome::Helped),
            (Up, same, Same, ChangeOutcome::Helped),
            (Up, more, Same, ChangeOutcome::Unclear),
            (Up, more, Up, ChangeOutcome::HigherLoad),
            (Same, less, Down, ChangeOutcome::Helped),
            (Same, same, Same, ChangeOutcome::Unchanged),
            (Same, more, Up, ChangeOutcome::Worse),
            (Down, less, Down, ChangeOutcome::LowerLoad),
            (Down, less, Same, ChangeOutcome::Unclear),
            (Down, same, Same, ChangeOutcome::Worse),
            (Down, more, Up, ChangeOutcome::Worse),
            (Up, same, Unknown, ChangeOutcome::Unclear),
        ];
        for (commits, waiting, change, outcome) in expected {
            let judged = judge_database(&quantity((1.0, 1.0), commits), &quantity(waiting, change));
            assert_eq!(judged, outcome, "{commits:?} {waiting:?} {change:?}");
        }
    }
}
