//! Combines the results of runs that were measured at the same time: one result for each run or group
//! of runs, and the total.

use crate::pattern::Pattern;
use crate::result::RunResult;
use crate::run::{Outcomes, RunOutcome};
use crate::steadiness;
use crate::summary::summarize_run;

/// Returns the results of patterns measured at the same time. If there are several, the total follows
/// under this name.
pub fn combine_results(name: &str, patterns: &[Pattern], outcomes: &Outcomes) -> Vec<RunResult> {
    combine_grouped_results(name, patterns, &vec![None; patterns.len()], outcomes)
}

/// As [`combine_results`], but patterns of the same group are combined into one result, under the
/// group's name.
pub fn combine_grouped_results(
    name: &str,
    patterns: &[Pattern],
    groups: &[Option<String>],
    outcomes: &Outcomes,
) -> Vec<RunResult> {
    let mut lines: Vec<(Option<&String>, Vec<usize>)> = Vec::new();
    for index in 0..patterns.len().min(outcomes.each.len()) {
        let group = groups.get(index).and_then(Option::as_ref);
        match lines.iter_mut().find(|(line_group, _)| group.is_some() && *line_group == group) {
            Some((_, members)) => members.push(index),
            None => lines.push((group, vec![index])),
        }
    }
    let is_single_line = lines.len() == 1;
    let line = |(group, members): &(Option<&String>, Vec<usize>)| {
        let summarize = |index: usize| summarize_run(&patterns[index], &outcomes.each[index]);
        let [first, _, ..] = members[..] else { return summarize(members[0]) };
        let runs: Vec<RunResult> = members.iter().map(|member| summarize(*member)).collect();
        let total = outcomes.all.clone().filter(|_| is_single_line);
        let outcome = total.unwrap_or_else(|| merge_outcomes(outcomes, members));
        let name = group.map_or(&patterns[first].name, |g| g);
        RunResult { pattern: Some(patterns[first].clone()), ..combined_result(name, &runs, &patterns[first], &outcome) }
    };
    let mut runs: Vec<RunResult> = lines.iter().map(line).collect();
    let names: Vec<String> = runs.iter().map(|r| r.name.clone()).collect();
    for (index, run) in runs.iter_mut().enumerate() {
        run.concurrent_runs =
            names.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, name)| name.clone()).collect();
    }
    if let (false, Some(first), Some(outcome)) = (is_single_line, patterns.first(), &outcomes.all) {
        let total = combined_result(name, &runs, first, outcome);
        runs.push(RunResult { combines: names, ..total });
    }
    runs
}

/// Merges the outcomes of some jobs, which began at the same time.
fn merge_outcomes(outcomes: &Outcomes, members: &[usize]) -> RunOutcome {
    // the processor time of a part of the jobs is unknown
    let mut merged = RunOutcome { cpu_s: f64::NAN, ..RunOutcome::default() };
    for outcome in members.iter().map(|index| &outcomes.each[*index]) {
        merged.tally.merge_worker(&outcome.tally);
        merged.seconds = merged.seconds.max(outcome.seconds);
        merged.workers += outcome.workers;
        merged.engine = outcome.engine;
        merged.stopped |= outcome.stopped;
    }
    merged
}

/// Combines several runs measured at the same time into one result. `outcome` has their common counts.
fn combined_result(name: &str, runs: &[RunResult], first: &Pattern, outcome: &RunOutcome) -> RunResult {
    let mut sum = RunResult { name: name.to_owned(), pattern: None, ..summarize_run(first, outcome) };
    let common = |word: &str, word_of: &dyn Fn(&RunResult) -> &str| {
        if runs.iter().all(|r| word_of(r) == word) { word.to_owned() } else { "several".into() }
    };
    (sum.place, sum.pace) = (common(&sum.place, &|r| &r.place), common(&sum.pace, &|r| &r.pace));
    sum.depth = runs.iter().map(|r| r.depth).sum();
    sum.users = runs.iter().map(|r| r.users).sum();
    sum.offered_per_s = runs.iter().map(|r| r.offered_per_s).sum();
    let (reads, writes) = (outcome.tally.reads.requests, outcome.tally.writes.requests);
    sum.read_share = if reads + writes > 0 { reads as f64 / (reads + writes) as f64 } else { first.read_share };
    // while one job was silent, others may have completed requests: how many were hidden is unknown
    (sum.hidden_requests, sum.steady) = (None, steadiness::judge_slices(&sum.slices, sum.measured_s).map(|s| s.steady));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::WorkerTally;

    fn outcome(reads: u64, writes: u64) -> RunOutcome {
        let mut tally = WorkerTally::default();
        (0..reads).for_each(|index| tally.record_completion(false, 4096, 1_000_000, index));
        (0..writes).for_each(|index| tally.record_completion(true, 4096, 3_000_000, index));
        RunOutcome { tally, seconds: 1.0, engine: "fake", workers: 1, ..RunOutcome::default() }
    }

    #[test]
    fn combines_groups_and_adds_a_total() {
        let named = |name: &str| Pattern { name: name.into(), ..Pattern::random_reads(4096, 2) };
        let patterns = [named("a-1"), named("a-2"), named("b")];
        let each = vec![outcome(100, 0), outcome(200, 0), outcome(0, 100)];
        let outcomes = Outcomes { each, all: Some(outcome(300, 100)) };
        let groups = [Some("a".to_owned()), Some("a".to_owned()), None];
        let runs = combine_grouped_results("all", &patterns, &groups, &outcomes);
        let found: Vec<_> = runs.iter().map(|r| (r.name.as_str(), r.requests_per_s, r.depth)).collect();
        assert_eq!(found, [("a", 300.0, Some(4)), ("b", 100.0, Some(2)), ("all", 400.0, Some(6))]);
        assert_eq!(
            (&runs[0].concurrent_runs[..], &runs[2].combines[..]),
            (&["b".to_owned()][..], &["a".into(), "b".into()][..])
        );
        assert_eq!((runs[0].workers, runs[0].cpu_s_per_request, runs[2].read_share), (2, None, 0.75));
        assert!(runs[0].pattern.is_some() && runs[2].pattern.is_none());
        // a single group needs no total
        let alone = Outcomes { each: outcomes.each[..2].to_vec(), all: Some(outcome(300, 0)) };
        let runs = combine_grouped_results("all", &patterns[..2], &groups[..2], &alone);
        assert_eq!((runs.len(), runs[0].name.as_str(), runs[0].combines.len()), (1, "a", 0));
        assert_eq!(combine_results("all", &patterns[..1], &Outcomes { each: vec![outcome(1, 0)], all: None }).len(), 1);
    }
}
