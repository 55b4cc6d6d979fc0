//! A text with output of several machines or runs: two prompts, before and after a change, a tool that was started
//! twice. Judged as one window, a quiet run would hide a busy one, and two machines are no machine.

use diskwright_diagnosis::{Bottleneck, Judge, Verdict};
use diskwright_ingest::{Input, TextGroup};
use serde_json::{Value, json};

use super::log::{self, LogWindow, Logs};
use super::why::judge_logs;
use super::{Failure, output};

/// Most runs that are judged one by one.
const MAX_RUNS: usize = 50;
/// Most other runs that an answer tells about.
const MAX_TOLD: usize = 5;

/// The answer on one machine or run of a text, and what the others showed.
pub struct GroupAnswer {
    pub verdicts: Vec<Verdict>,
    pub logs: Logs,
    /// All of them, as JSON.
    pub runs: Value,
}

/// Judges each machine and run of a text by itself. The answer is that on the machine that shows a bottleneck best, and
/// on the latest run that shows one.
pub fn judge_groups(
    input: &Input,
    groups: &[TextGroup],
    window: &LogWindow,
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<GroupAnswer, Failure> {
    let mut judged: Vec<(usize, Vec<Verdict>, Logs)> = Vec::new();
    let mut failure = None;
    for (index, group) in groups.iter().enumerate() {
        match judge_group(&input.for_group(group)?, window, new_judge) {
            Ok((verdicts, logs)) => judged.push((index, verdicts, logs)),
            Err(error) => {
                output::print_warning(format_args!("{}: {error} (left out)", group.name()));
                failure = Some(error);
            }
        }
    }
    let has_machines = groups.iter().any(|group| group.host != groups[0].host);
    let Some(best) = choose_best(&judged, has_machines) else {
        return Err(failure.unwrap_or_else(|| Failure::Failed("no part of the text could be judged".into())));
    };
    let answer_on = judged[best].0;
    let runs =
        judged.iter().map(|(index, verdicts, _)| run_document(&groups[*index], &verdicts[0], *index == answer_on));
    let runs = Value::Array(runs.collect());
    let others: Vec<(String, &Verdict)> =
        judged.iter().filter(|(index, ..)| *index != answer_on).map(|(i, v, _)| (groups[*i].name(), &v[0])).collect();
    let text = describe_groups(&groups[answer_on].name(), &others, (groups.len(), has_machines));
    let (_, mut verdicts, logs) = judged.swap_remove(best);
    verdicts[0].certainty_limits.insert(0, text);
    Ok(GroupAnswer { verdicts, logs, runs })
}

fn judge_group(
    input: &Input,
    window: &LogWindow,
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<(Vec<Verdict>, Logs), Failure> {
    let logs = log::open_input(input, window)?;
    let verdicts = judge_logs(&logs, new_judge(logs.range_ns))?;
    choose_run(logs, verdicts, new_judge)
}

/// Place of the answer among what was judged.
fn choose_best(judged: &[(usize, Vec<Verdict>, Logs)], has_machines: bool) -> Option<usize> {
    let weight = |place: &usize| {
        let verdict = &judged[*place].1[0];
        let kind = if verdict.bottleneck.blames() { 2 } else { u8::from(verdict.bottleneck == Bottleneck::Unknown) };
        // of machines the sickest counts, of runs the latest
        let strength = if has_machines && kind == 2 { (verdict.confidence * 1000.0) as u64 } else { 0 };
        (kind, strength, if has_machines { 0 } else { *place })
    };
    (0..judged.len()).max_by_key(weight)
}

/// Tells on which part the answer is, and what the others show.
fn describe_groups(name: &str, others: &[(String, &Verdict)], (count, has_machines): (usize, bool)) -> String {
    let what = if has_machines { "machines or runs" } else { "runs" };
    let told: Vec<String> =
        others.iter().take(MAX_TOLD).map(|(name, v)| format!("{name}: {}", name_answer(v))).collect();
    let more = others.len().saturating_sub(MAX_TOLD);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!(
        "the text holds {count} {what}, each judged by itself: this is the answer on {name}; {}{more}",
        told.join("; ")
    )
}

/// Names a verdict in short: `disk (sda)`, `no bottleneck`.
fn name_answer(verdict: &Verdict) -> String {
    match verdict.bottleneck {
        Bottleneck::None => "no bottleneck".to_owned(),
        Bottleneck::Unknown => "not enough data".to_owned(),
        found if verdict.instance.is_empty() => found.name().to_owned(),
        found => format!("{} ({})", found.name(), verdict.instance),
    }
}

fn run_document(group: &TextGroup, verdict: &Verdict, is_answer: bool) -> Value {
    json!({
        "name": group.name(),
        "host": group.host,
        "run": group.run_name,
        "lines": group.lines.map(|(first, last)| [first, last]),
        "bottleneck": verdict.bottleneck,
        "instance": verdict.instance,
        "confidence": verdict.confidence,
        "is_answer": is_answer,
    })
}

/// Returns the verdicts on the run that shows a bottleneck best, with the logs of that run; the given ones if the whole
/// text shows a bottleneck, or no run does. Several runs are told in any case.
pub fn choose_run(
    logs: Logs,
    mut verdicts: Vec<Verdict>,
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<(Vec<Verdict>, Logs), Failure> {
    let runs = logs.name_ranges();
    let is_blamed = |verdicts: &[Verdict]| verdicts.first().is_some_and(|first| first.bottleneck.blames());
    if runs.len() < 2 || runs.len() > MAX_RUNS {
        return Ok((verdicts, logs));
    }
    let mut best: Option<(Vec<Verdict>, usize)> = None;
    for (index, (_, range)) in runs.iter().enumerate().filter(|_| !is_blamed(&verdicts)) {
        let found = judge_logs(&logs.for_range(*range), new_judge(*range))?;
        let is_better = |best: &(Vec<Verdict>, usize)| found[0].confidence > best.0[0].confidence;
        if is_blamed(&found) && best.as_ref().is_none_or(is_better) {
            best = Some((found, index));
        }
    }
    let Some((mut found, index)) = best else {
        let text = format!("the text holds {} runs, read as one stretch of time, one after the other", runs.len());
        if let Some(first) = verdicts.first_mut() {
            first.certainty_limits.insert(0, text);
        }
        return Ok((verdicts, logs));
    };
    let (name, range) = &runs[index];
    let others = runs.len() - 1;
    let others = if others == 1 { "the other run".to_owned() } else { format!("the other {others} runs") };
    found[0].certainty_limits.insert(0, format!("this is the answer on {name}; {others} of this text would hide it"));
    let run = logs.for_range(*range);
    Ok((found, run))
}
