//! A text with output of several machines or runs: two prompts, before and after a change, a tool that was started
//! twice. Judged as one window, a quiet run would hide a busy one, and two machines are no machine.

use diskwright_diagnosis::{Bottleneck, Judge, Verdict};
use diskwright_ingest::{Input, TextGroup};
use serde_json::{Value, json};

use super::log::judge_logs;
use super::log::{self, LogWindow, Logs};
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

/// What was judged by itself: a machine, or a run.
struct JudgedGroup<'a> {
    group: &'a TextGroup,
    verdicts: Vec<Verdict>,
    logs: Logs,
}

impl JudgedGroup<'_> {
    fn verdict(&self) -> &Verdict {
        &self.verdicts[0]
    }
}

/// Judges each machine and run of a text by itself. The answer is that on the machine that shows a bottleneck best, and
/// on the latest run that shows one.
pub fn judge_groups(
    input: &Input,
    groups: &[TextGroup],
    window: &LogWindow,
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<GroupAnswer, Failure> {
    let mut judged: Vec<JudgedGroup<'_>> = Vec::new();
    let mut failure = None;
    for group in groups {
        match judge_group(&input.for_group(group)?, window, new_judge) {
            Ok((verdicts, logs)) => judged.push(JudgedGroup { group, verdicts, logs }),
            Err(error) => {
                output::print_warning(format_args!("{}: {error} (left out)", group.name()));
                failure = Some(error);
            }
        }
    }
    // in the order of time, as far as the names of the runs tell it
    judged.sort_by_key(|judged| judged.group.told_order());
    let has_machines = groups.iter().any(|group| group.host != groups[0].host);
    let Some(best) = choose_best(&judged, has_machines) else {
        return Err(failure.unwrap_or_else(|| Failure::Failed("no part of the text could be judged".into())));
    };
    let runs = judged.iter().enumerate().map(|(place, judged)| run_document(judged, place == best)).collect();
    let others: Vec<&JudgedGroup<'_>> =
        judged.iter().enumerate().filter(|(place, _)| *place != best).map(|(_, judged)| judged).collect();
    let text = describe_groups(&judged[best].group.name(), &others, (groups.len(), has_machines));
    let recovered = recovered_run(&judged, best).map(|later| later.group.name());
    let JudgedGroup { group, mut verdicts, logs } = judged.swap_remove(best);
    if let Some(later) = recovered {
        verdicts[0].set_in_past(&group.name(), &later);
    }
    verdicts[0].certainty_limits.insert(0, text);
    Ok(GroupAnswer { verdicts, logs, runs: Value::Array(runs) })
}

/// The last run of the same machine, if it shows that the bottleneck of a run has gone.
fn recovered_run<'a>(judged: &'a [JudgedGroup<'a>], place: usize) -> Option<&'a JudgedGroup<'a>> {
    let is_same_machine = |other: &&JudgedGroup<'_>| other.group.host == judged[place].group.host;
    let last = judged[place + 1..].iter().rfind(is_same_machine)?;
    (judged[place].verdict().bottleneck.blames() && last.verdict().bottleneck == Bottleneck::None).then_some(last)
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

/// Place of the answer among what was judged, which is in the order of time.
fn choose_best(judged: &[JudgedGroup<'_>], has_machines: bool) -> Option<usize> {
    let weight = |place: &usize| {
        let verdict = judged[*place].verdict();
        let kind = if verdict.bottleneck.blames() { 2 } else { u8::from(verdict.bottleneck == Bottleneck::Unknown) };
        let lasts = recovered_run(judged, *place).is_none();
        // of machines, one that was measured counts before one of which there are messages alone
        let is_measured = has_machines && verdict.window.seconds > 0.0;
        // of machines the sickest counts, of runs the latest
        let strength = if has_machines && kind == 2 { (verdict.confidence * 1000.0) as u64 } else { 0 };
        (kind, lasts, is_measured, strength, if has_machines { 0 } else { *place })
    };
    (0..judged.len()).max_by_key(weight)
}

/// Tells on which part the answer is, and what the others show.
fn describe_groups(name: &str, others: &[&JudgedGroup<'_>], (count, has_machines): (usize, bool)) -> String {
    let what = if has_machines { "machines or runs" } else { "runs" };
    let told: Vec<String> = others
        .iter()
        .take(MAX_TOLD)
        .map(|judged| format!("{}: {}", judged.group.name(), name_answer(judged.verdict())))
        .collect();
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

fn run_document(judged: &JudgedGroup<'_>, is_answer: bool) -> Value {
    let (group, verdict) = (judged.group, judged.verdict());
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

/// Returns the verdicts on the run that tells most, with its logs, where a text holds several runs of a tool: the whole
/// if all runs, or none of them, show a bottleneck, else the latest run that shows one. Several runs are told in any
/// case.
pub fn choose_run(
    logs: Logs,
    mut verdicts: Vec<Verdict>,
    new_judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<(Vec<Verdict>, Logs), Failure> {
    let runs = logs.name_ranges();
    if runs.len() < 2 || runs.len() > MAX_RUNS || verdicts.is_empty() {
        return Ok((verdicts, logs));
    }
    let mut judged = Vec::with_capacity(runs.len());
    for (_, range) in &runs {
        judged.push(judge_logs(&logs.for_range(*range), new_judge(*range))?);
    }
    let blames = |verdicts: &Vec<Verdict>| verdicts[0].bottleneck.blames();
    let is_clear = |verdicts: &Vec<Verdict>| verdicts[0].bottleneck == Bottleneck::None;
    let best = judged.iter().rposition(blames);
    let is_mixed = judged.iter().any(is_clear) || !blames(&verdicts);
    let Some(best) = best.filter(|_| is_mixed) else {
        let text = format!("the text holds {} runs, read as one stretch of time, one after the other", runs.len());
        verdicts[0].certainty_limits.insert(0, text);
        return Ok((verdicts, logs));
    };
    let has_recovered = judged.last().is_some_and(is_clear);
    let mut found = judged.swap_remove(best);
    let (name, range) = &runs[best];
    if has_recovered {
        found[0].set_in_past(name, &runs[runs.len() - 1].0);
    }
    let others = runs.len() - 1;
    let others = if others == 1 { "the other run".to_owned() } else { format!("the other {others} runs") };
    let text = format!("this is the answer on {name}; {others} of this text, read with it, would hide it");
    found[0].certainty_limits.insert(0, text);
    let run = logs.for_range(*range);
    Ok((found, run))
}
