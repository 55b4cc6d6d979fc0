//! Programs that were killed because memory ran out, in both windows.
//!
//! Kills are few, and counts: their means per tick say nothing. If kills come as a Poisson process, then of `n` kills
//! in both windows together the number in the second is binomial, with the second window's share of the time (J.
//! Przyborowski and H. Wilenski, "Homogeneity of results in testing samples from Poisson series", Biometrika 31,
//! 1940). A program that is started again and outgrows its limit again is killed more evenly than that, so the test
//! errs on the side of caution; kills within [`SAME_OCCASION_NS`] are one occasion, because they are not independent.

use diskwright_base::EventKind;
use diskwright_base::counter_ids::{cgroup, paging};
use diskwright_base::units::format_value;
use diskwright_statistics::distribution::incomplete_beta;
use serde::Serialize;

use super::change_outcome::ChangeOutcome;
use super::{CounterWindow, HALF_ERROR_RATE};
use crate::answer::Verdict;
use crate::changes::VerdictEvent;

/// Time within which kills count as one occasion, nanoseconds. Our choice: one shortage may kill several programs.
const SAME_OCCASION_NS: i64 = 1_000_000_000;

/// Programs of a cgroup that were killed in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KillChange {
    /// The cgroup; `null` where no source tells.
    pub group: Option<String>,
    /// What the kills show of the change.
    pub outcome: ChangeOutcome,
    /// Number of programs that were killed in the first window.
    pub before: u64,
    /// And in the second.
    pub after: u64,
    /// Length of the first window, seconds.
    pub before_s: f64,
    /// Length of the second.
    pub after_s: f64,
    /// Probability that windows with kills at the same rate differ as much.
    pub p_value: f64,
    /// Length of a second window without kills that would show that the change helped, seconds. Missing where that is
    /// known, or where kills go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_s: Option<f64>,
}

/// Kills of a group in one window: the programs, and the times at which some of them were killed.
#[derive(Clone, Copy, Default)]
struct KillCount {
    programs: u64,
    occasions: u64,
}

/// Compares the kills of each cgroup.
pub(super) fn judge_kills(windows: [&CounterWindow; 2], verdicts: [&Verdict; 2]) -> Vec<KillChange> {
    let mut groups: Vec<Option<&str>> =
        verdicts.into_iter().flat_map(kills_of).map(|event| event.group.as_deref()).collect();
    groups.sort_unstable();
    groups.dedup();
    let error_rate = HALF_ERROR_RATE / groups.len().max(1) as f64;
    let seconds = verdicts.map(|verdict| verdict.window.seconds);
    let is_counted = |group: Option<&str>| windows.into_iter().all(|window| counts_kills(window, group));
    let judged = |group: Option<&str>| {
        let counts = verdicts.map(|verdict| count_kills(verdict, group));
        judge_group(group, counts, seconds, error_rate, is_counted(group))
    };
    groups.into_iter().map(judged).collect()
}

fn kills_of(verdict: &Verdict) -> impl Iterator<Item = &VerdictEvent> {
    verdict.events.iter().filter(|event| event.kind == EventKind::OomKill)
}

fn count_kills(verdict: &Verdict, group: Option<&str>) -> KillCount {
    let mut count = KillCount::default();
    let mut last_ns = None;
    // in the order of time
    for event in kills_of(verdict).filter(|event| event.group.as_deref() == group) {
        let is_same =
            event.time_ns.zip(last_ns).is_some_and(|(time, last): (i64, i64)| time - last <= SAME_OCCASION_NS);
        count.programs += event.times;
        count.occasions += u64::from(!is_same);
        last_ns = event.time_ns.or(last_ns);
    }
    count
}

/// True where the window would show a kill: a group that is gone has none.
fn counts_kills(window: &CounterWindow, group: Option<&str>) -> bool {
    let is_measured = |counter: &str, instance: &str| window.find_counter(counter, instance).is_some();
    match group {
        Some(group) if is_measured(cgroup::MEMORY_BYTES, group) => true,
        Some(_) => false,
        None => is_measured(paging::OOM_KILLS_PER_S, ""),
    }
}

fn judge_group(
    group: Option<&str>,
    [first, second]: [KillCount; 2],
    [before_s, after_s]: [f64; 2],
    error_rate: f64,
    is_counted: bool,
) -> KillChange {
    let p_value = same_rate_p_value([first.occasions, second.occasions], [before_s, after_s]);
    let is_less = second.programs as f64 * before_s < first.programs as f64 * after_s;
    let outcome = match p_value < error_rate && is_counted {
        true if is_less => ChangeOutcome::Helped,
        true => ChangeOutcome::Worse,
        false => ChangeOutcome::Unclear,
    };
    let is_open = outcome == ChangeOutcome::Unclear && second.programs == 0 && is_counted;
    KillChange {
        group: group.map(str::to_owned),
        outcome,
        before: first.programs,
        after: second.programs,
        before_s,
        after_s,
        p_value,
        needed_s: is_open.then(|| seconds_without_kills(first.occasions, before_s, error_rate).ceil()),
    }
}

/// Two-sided p-value: the probability that two windows of `seconds` with the same rate differ as much as `counts`. 1
/// where nothing was counted or a window has no time.
fn same_rate_p_value(counts: [u64; 2], seconds: [f64; 2]) -> f64 {
    let [first, second] = counts.map(|count| count as f64);
    let total = first + second;
    if total == 0.0 || !seconds.iter().all(|seconds| *seconds > 0.0) {
        return 1.0;
    }
    let share = seconds[1] / (seconds[0] + seconds[1]);
    // binomial sums by the incomplete beta function: Abramowitz and Stegun, 26.5.24
    let at_most = if first == 0.0 { 1.0 } else { incomplete_beta(1.0 - share, first, second + 1.0) };
    let at_least = if second == 0.0 { 1.0 } else { incomplete_beta(share, second, first + 1.0) };
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// Length of a second window, seconds, in which no kill at all is significant after `occasions` in `before_s`.
fn seconds_without_kills(occasions: u64, before_s: f64, error_rate: f64) -> f64 {
    before_s * ((error_rate / 2.0).powf(-1.0 / occasions.max(1) as f64) - 1.0)
}

/// What the kills say of the change; `None` where they decide nothing, or not alike in all groups.
pub(super) fn outcome_of_kills(kills: &[KillChange]) -> Option<ChangeOutcome> {
    let mut decided = kills.iter().map(|kill| kill.outcome).filter(|outcome| *outcome != ChangeOutcome::Unclear);
    let first = decided.next()?;
    decided.all(|outcome| outcome == first).then_some(first)
}

/// `The change helped: programs in /app were killed 4 times in 20 s before and not in 60 s after.`
pub(super) fn kills_sentence(kills: &[KillChange], outcome: ChangeOutcome) -> String {
    let begin = if outcome == ChangeOutcome::Helped { "The change helped" } else { "It got worse" };
    let changed: Vec<String> = kills.iter().filter(|kill| kill.outcome == outcome).map(counts_text).collect();
    format!("{begin}: {}.", changed.join("; "))
}

/// What kills that decide nothing show so far, and how long to record.
pub(super) fn undecided_kills_sentence(kills: &[KillChange]) -> Option<String> {
    let open = kills.iter().find(|kill| kill.outcome == ChangeOutcome::Unclear)?;
    let counts = counts_text(open).replacen('p', "P", 1);
    Some(match open.needed_s {
        Some(seconds) => {
            let seconds = format_value(seconds, "s");
            format!("{counts}, which may be chance: {seconds} without a kill would show that the change helped.")
        }
        None => format!("{counts}, which decides nothing."),
    })
}

fn counts_text(kill: &KillChange) -> String {
    let group = kill.group.as_ref().map_or_else(String::new, |group| format!(" in {group}"));
    let times = |count: u64| match count {
        0 => "not killed".to_owned(),
        1 => "killed once".to_owned(),
        count => format!("killed {count} times"),
    };
    let (before_s, after_s) = (format_value(kill.before_s, "s"), format_value(kill.after_s, "s"));
    format!(
        "programs{group} were {} in {before_s} before and {} in {after_s} after",
        times(kill.before),
        times(kill.after)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 4 kills in windows of 20 and 60 s none in the second: (20 / 80)^4 = 0.0039 for each side.
    #[test]
    fn kills_at_the_same_rate_are_told_from_fewer_by_the_binomial_test() {
        let p_value = same_rate_p_value([4, 0], [20.0, 60.0]);
        assert!((p_value - 2.0 * 0.25f64.powi(4)).abs() < 1e-12, "{p_value}");
        // 1 and 3 of 4 in windows of equal length: 2 * (1 + 4) / 16
        let p_value = same_rate_p_value([1, 3], [30.0, 30.0]);
        assert!((p_value - 0.625).abs() < 1e-12, "{p_value}");
        assert_eq!(same_rate_p_value([2, 2], [30.0, 30.0]), 1.0);
        assert_eq!(same_rate_p_value([0, 0], [30.0, 30.0]), 1.0);
        assert_eq!(same_rate_p_value([3, 0], [0.0, 30.0]), 1.0);
    }

    #[test]
    fn the_length_that_is_asked_for_decides() {
        for (occasions, before_s) in [(1, 20.0), (4, 20.0), (7, 300.0)] {
            let needed = seconds_without_kills(occasions, before_s, HALF_ERROR_RATE);
            let p_value = |after_s: f64| same_rate_p_value([occasions, 0], [before_s, after_s]);
            assert!(
                p_value(needed * 1.01) < HALF_ERROR_RATE && p_value(needed * 0.99) > HALF_ERROR_RATE,
                "{occasions}"
            );
        }
    }
}
