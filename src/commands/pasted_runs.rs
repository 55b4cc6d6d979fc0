//! A text with several runs of one tool: two machines, or before and after a change. Judged as one window, a quiet run
//! would hide a busy one, so each is judged by itself where the whole blames nothing.

use diskwright_diagnosis::{Judge, Verdict};

use super::Failure;
use super::log::Logs;
use super::why::judge_logs;

/// Most runs that are judged one by one.
const MAX_RUNS: usize = 50;

/// Returns the verdicts on the run that shows a bottleneck best, with the logs of that run; the given ones if the whole
/// text shows a bottleneck, or no run does.
pub fn choose_run(
    logs: Logs,
    verdicts: Vec<Verdict>,
    new_judge: impl Fn((i64, i64)) -> Judge,
) -> Result<(Vec<Verdict>, Logs), Failure> {
    let runs = logs.name_ranges();
    let is_blamed = |verdicts: &[Verdict]| verdicts.first().is_some_and(|first| first.bottleneck.blames());
    if is_blamed(&verdicts) || runs.len() < 2 || runs.len() > MAX_RUNS {
        return Ok((verdicts, logs));
    }
    let mut best: Option<(Vec<Verdict>, usize)> = None;
    for (index, (_, range)) in runs.iter().enumerate() {
        let found = judge_logs(&logs.for_range(*range), new_judge(*range))?;
        let is_better = |best: &(Vec<Verdict>, usize)| found[0].confidence > best.0[0].confidence;
        if is_blamed(&found) && best.as_ref().is_none_or(is_better) {
            best = Some((found, index));
        }
    }
    let Some((mut found, index)) = best else { return Ok((verdicts, logs)) };
    let (name, range) = &runs[index];
    let others = runs.len() - 1;
    let others = if others == 1 { "the other run".to_owned() } else { format!("the other {others} runs") };
    found[0].certainty_limits.insert(0, format!("this is the answer on {name}; {others} of this text would hide it"));
    let run = logs.for_range(*range);
    Ok((found, run))
}
