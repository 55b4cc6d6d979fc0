//! How sure a verdict is, and what limits that.

use diskwright_base::Note;
use diskwright_base::units::{display, plural};

use crate::observation::Observation;
use crate::origin::LogOrigin;
use crate::rule::{Bottleneck, Rule};
use crate::verdict::{Finding, Rank, UnjudgedRule};

/// Share of steal time from which latencies and processor figures are doubtful.
const STEAL: f64 = 0.05;
/// Ticks below which a window is called short.
const FEW_TICKS: u64 = 10;

/// What limits the certainty, a sentence each.
pub(crate) fn limits(
    seen: &Observation,
    pack: usize,
    unjudged: &[UnjudgedRule],
    bottleneck: Bottleneck,
) -> Vec<String> {
    let mut list = Vec::new();
    let seconds = seen.window.seconds();
    let rules: Vec<&Rule> = awake(seen, pack).collect();
    list.extend(short_window(&rules, seconds));
    if seen.window.ticks < FEW_TICKS {
        list.push(format!("the window has only {}", plural(seen.window.ticks, "tick", "ticks")));
    }
    if let Some(steal) = steal(seen).filter(|s| *s > STEAL) {
        let steal = display(steal, "fraction");
        list.push(format!(
            "the hypervisor withheld {steal} of the processor time: latencies and processor figures are uncertain"
        ));
    }
    if seen.window.ticks > 0 && !seen.states.has_pressure {
        list.push("the log has no pressure data; waiting is inferred".into());
    }
    if seen.notes.source == LogOrigin::Perfmon {
        list.push("the commands in the advice are for Linux; use the equivalent Windows tools".into());
    }
    list.extend(stand_ins(seen, pack));
    if seen.notes.gaps > 0 {
        list.push(format!("the log has {}", plural(seen.notes.gaps, "gap", "gaps")));
    }
    if seen.notes.list.iter().any(|r| r.kind == Note::CLOCK) {
        list.push("the clock was stepped or the machine slept during the window".into());
    }
    for suspect in suspects_unjudged(seen, pack, unjudged, bottleneck) {
        let missing: Vec<&str> =
            unjudged.iter().filter(|u| u.bottleneck == suspect).flat_map(|u| &u.missing).map(String::as_str).collect();
        list.push(format!("{} could not be judged: {} missing", suspect.name(), first_few(&missing)));
    }
    if let (Bottleneck::None, Some((_, waited))) = (bottleneck, waiting(seen)) {
        list.push(format!("no rule explains why {waited}"));
    }
    list.extend(unreadable(seen));
    if seen.states.forgotten > 0 {
        list.push(
            "too many instances appeared and disappeared to keep all; those dropped did not affect the verdict".into(),
        );
    }
    list
}

/// That rules normally ask for a longer window than this.
fn short_window(rules: &[&Rule], seconds: f64) -> Option<String> {
    let longest = rules.iter().map(|r| r.sustained.longest_s()).fold(0.0, f64::max);
    let count = rules.iter().filter(|r| r.sustained.longest_s() > seconds / 2.0).count();
    let (longest, window) = (display(longest, "s"), display(seconds, "s"));
    let need = match count {
        0 => return None,
        1 => format!("one rule normally has to hold for {longest}"),
        _ => format!("{count} rules normally have to hold for up to {longest}"),
    };
    Some(format!("the window of {window} is short: {need}; here half of the window was enough"))
}

/// Processes that did not show their I/O.
fn unreadable(seen: &Observation) -> Option<String> {
    match seen.culprits.unreadable {
        0 => None,
        1 => Some("the I/O of one process was unreadable; the list of processes may be incomplete".into()),
        count => Some(format!("the I/O of {count} processes was unreadable; the list of processes may be incomplete")),
    }
}

/// The rules of a pack but for those that wait for a probe's ceilings where there are none.
pub(crate) fn awake(seen: &Observation, pack: usize) -> impl Iterator<Item = &Rule> {
    let measured = !seen.ceilings.is_empty();
    let rules = seen.packs[pack].rules.iter().zip(&seen.states.rules[pack]);
    // a machine without network mounts is neither more nor less certain for it
    let is_there = |rule: &Rule, judged: bool| judged || !SELDOM_THERE.contains(&rule.object.as_str());
    let awake =
        rules.filter(move |(rule, state)| (measured || !rule.sleeps_without_ceiling()) && is_there(rule, state.judged));
    awake.map(|(rule, _)| rule)
}

/// Rules that were judged by logical disks for want of physical ones.
fn stand_ins(seen: &Observation, pack: usize) -> Option<String> {
    let rules = seen.states.stand_ins.keys().filter(|(of, _)| *of == pack).count();
    let rules = match rules {
        0 => return None,
        1 => "a rule was".to_owned(),
        n => format!("{n} rules were"),
    };
    Some(format!(
        "{rules} judged by logical disks, because the log lacks counters of physical disks; drive letters may share \
         a disk, and an array looks like one disk"
    ))
}

fn first_few(names: &[&str]) -> String {
    let mut few: Vec<&str> = Vec::new();
    for name in names {
        if !few.contains(name) {
            few.push(name);
        }
    }
    let more = few.len().saturating_sub(4);
    few.truncate(4);
    let text = few.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Mean share of time that the host withheld.
fn steal(seen: &Observation) -> Option<f64> {
    seen.states.tracks[*seen.states.signs.get("processor.steal")?].mean()
}

/// Bottlenecks suspected before this one of which no blaming rule could be judged.
fn suspects_unjudged(
    seen: &Observation,
    pack: usize,
    unjudged: &[UnjudgedRule],
    bottleneck: Bottleneck,
) -> Vec<Bottleneck> {
    let suspected = Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && b.blames());
    let none_judged = |suspect: &Bottleneck| {
        let blaming = awake(seen, pack).filter(|r| r.bottleneck == *suspect && r.weight > 0.0);
        let mut blaming = blaming.peekable();
        blaming.peek().is_some() && blaming.all(|r| unjudged.iter().any(|u| u.rule == r.id))
    };
    suspected.filter(none_judged).collect()
}

/// Share, by weight, of a bottleneck's rules that could not be judged.
fn share_unjudged(seen: &Observation, pack: usize, suspect: Bottleneck, unjudged: &[UnjudgedRule]) -> f64 {
    let blaming = || awake(seen, pack).filter(move |r| r.bottleneck == suspect);
    let all: f64 = blaming().map(|r| r.weight).sum();
    let open: f64 = blaming().filter(|r| unjudged.iter().any(|u| u.rule == r.id)).map(|r| r.weight).sum();
    if all > 0.0 { open / all } else { 0.0 }
}

/// Rules of a pack that could be judged somewhere.
pub(crate) fn judged(seen: &Observation, pack: usize) -> usize {
    seen.states.rules[pack].iter().filter(|state| state.judged).count()
}

/// Share, by weight, of the rules that blame something and could be judged;
/// rules that are for other logs than this count neither way.
fn share_judged(seen: &Observation, pack: usize, unjudged: &[UnjudgedRule]) -> f64 {
    let rules = || seen.packs[pack].rules.iter().zip(&seen.states.rules[pack]).filter(|(r, _)| r.bottleneck.blames());
    let is_open = |rule: &Rule| unjudged.iter().any(|u| u.rule == rule.id);
    let done: f64 = rules().filter(|(r, state)| state.judged && !is_open(r)).map(|(r, _)| r.weight).sum();
    let open: f64 = rules().filter(|(r, _)| is_open(r)).map(|(r, _)| r.weight).sum();
    if done + open > 0.0 { done / (done + open) } else { 1.0 }
}

/// Objects that most machines have none of.
const SELDOM_THERE: [&str; 3] = ["hardware", "network_filesystem", "nfs_server"];

/// Share of the rules below which nothing can be said where none of them blames anything.
const LEAST_JUDGED: f64 = 0.1;
/// What must be looked at before "nothing" is said: one of these at least.
const FIRST_SUSPECTS: [Bottleneck; 3] = [Bottleneck::Memory, Bottleneck::Disk, Bottleneck::Cpu];

/// True where "nothing" would be more than the log allows: too few rules could
/// be judged, or one found something that the log cannot settle.
pub(crate) fn unsettled(seen: &Observation, pack: usize, findings: &[Finding], unjudged: &[UnjudgedRule]) -> bool {
    seen.window.elapsed_ns == 0
        || share_judged(seen, pack, unjudged) < LEAST_JUDGED
        // pressure tells of every wait, whatever it is for
        || (!seen.states.has_pressure && no_suspect_seen(seen, pack))
        || findings.iter().any(|f| f.bottleneck == Bottleneck::Unknown)
}

/// True where none of the first suspects could be judged, of those that the pack knows.
fn no_suspect_seen(seen: &Observation, pack: usize) -> bool {
    let rules = || {
        let all = seen.packs[pack].rules.iter().zip(&seen.states.rules[pack]);
        all.filter(|(rule, _)| rule.weight > 0.0 && FIRST_SUSPECTS.contains(&rule.bottleneck))
    };
    rules().next().is_some() && !rules().any(|(_, state)| state.judged)
}

/// Waiting below this share of the time needs no explanation.
const LEAST_WAITING: f64 = 0.02;

/// How much waiting there was, from 0 to 1, and in words: where no rule blames
/// anything it has no explanation.
pub(crate) fn waiting(seen: &Observation) -> Option<(f64, String)> {
    let signs = &seen.states.signs;
    let mean = |name: &str| seen.states.tracks[*signs.get(name)?].mean();
    let processors = mean("processors").unwrap_or(2.0).max(1.0);
    let percent = |share: f64| display(share, "fraction");
    let told = |name: &str, grade: fn(f64, f64) -> f64, words: &dyn Fn(f64) -> String| {
        let value = mean(name)?;
        let grade = grade(value, processors).clamp(0.0, 1.0);
        (grade >= LEAST_WAITING).then(|| (grade, words(value)))
    };
    let some = [
        told("pressure.io_some", |v, _| v, &|v| format!("tasks waited for I/O for {} of the time", percent(v))),
        told("pressure.memory_some", |v, _| v, &|v| format!("tasks waited for memory for {} of the time", percent(v))),
        told("pressure.cpu_some", |v, _| 0.7 * (v - 0.1), &|v| {
            format!("tasks waited for a processor for {} of the time", percent(v))
        }),
        told("processor.iowait", |v, n| v * n, &|v| {
            format!("processors were in iowait for {} of the time", percent(v))
        }),
        told("system.blocked", |v, _| v / 2.0, &|v| format!("tasks were blocked ({} on average)", display(v, ""))),
        told("system.running", |v, n| v / n - 1.0, &|v| format!("tasks were runnable ({} on average)", display(v, ""))),
    ];
    some.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// From 0 to 1: how strong the verdict is by itself and against the next one,
/// lowered by few ticks, by suspects that could not be judged, by steal time
/// and gaps.
pub(crate) fn confidence(
    seen: &Observation,
    pack: usize,
    bottleneck: Bottleneck,
    ranking: &[Rank],
    unjudged: &[UnjudgedRule],
) -> f64 {
    if seen.window.elapsed_ns == 0 {
        return 0.0;
    }
    let score = ranking.iter().find(|r| r.bottleneck == bottleneck).map_or(0.0, |r| r.score);
    let rival = ranking.iter().filter(|r| r.bottleneck != bottleneck).map(|r| r.score).fold(0.0, f64::max);
    let ticks = match bottleneck {
        // that nothing was wrong for three seconds says little, however often they were looked at
        Bottleneck::None => seen.window.ticks.min(seen.window.seconds().ceil() as u64),
        _ => seen.window.ticks,
    };
    let mut confidence = lowered(seen, pack, bottleneck, unjudged) * plain(bottleneck, score, rival, ticks);
    if bottleneck == Bottleneck::None {
        if let Some((grade, _)) = waiting(seen) {
            confidence *= 1.0 - 0.8 * grade.powf(0.7);
        }
        // no surer than what was looked at allows: nothing, where no rule could be judged
        confidence = confidence.min(share_judged(seen, pack, unjudged).max(0.0).sqrt());
    }
    rounded(confidence)
}

/// Without the last bits, which depend on how a log is cut into frames.
pub(crate) fn rounded(confidence: f64) -> f64 {
    (confidence.clamp(0.0, 1.0) * 1e6).round() / 1e6
}

/// How sure scores make by themselves, over so many ticks.
pub(crate) fn plain(bottleneck: Bottleneck, score: f64, rival: f64, ticks: u64) -> f64 {
    let ticks = ticks as f64;
    let sure = match bottleneck {
        Bottleneck::Unknown => 0.0,
        // the nearer something came to being blamed, the less sure
        Bottleneck::None => 0.95 - 0.6 * rival.min(1.0),
        _ => {
            let strength = score.min(1.0);
            let margin = ((strength - rival) / strength).clamp(0.0, 1.0);
            strength.sqrt() * (0.75 + 0.22 * margin)
        }
    };
    sure * ticks / (ticks + 2.0)
}

/// What suspects that could not be judged, steal time and gaps leave of it.
pub(crate) fn lowered(seen: &Observation, pack: usize, bottleneck: Bottleneck, unjudged: &[UnjudgedRule]) -> f64 {
    let mut left = 1.0;
    for suspect in Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && b.blames()) {
        // memory is to be ruled out first, so not having judged it weighs most
        let weight = if suspect == Bottleneck::Memory { 0.25 } else { 0.05 };
        left *= 1.0 - weight * share_unjudged(seen, pack, suspect, unjudged);
    }
    if steal(seen).is_some_and(|s| s > STEAL) {
        left *= 0.85;
    }
    if seen.notes.gaps > 0 {
        left *= 0.95;
    }
    left
}
