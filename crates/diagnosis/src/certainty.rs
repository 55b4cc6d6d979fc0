//! How sure a verdict is, and what limits that.

use diskwright_base::Note;
use diskwright_base::units::display;

use crate::judge::Judge;
use crate::missing::Source;
use crate::rule::{Bottleneck, Rule};
use crate::verdict::{Rank, Unjudged};

/// Share of steal time from which latencies and processor figures are doubtful.
const STEAL: f64 = 0.05;
/// Ticks below which a window is called short.
const FEW_TICKS: u64 = 10;

/// What limits the certainty, a sentence each.
pub(crate) fn limits(judge: &Judge, pack: usize, unjudged: &[Unjudged], bottleneck: Bottleneck) -> Vec<String> {
    let mut list = Vec::new();
    let seconds = judge.window.seconds();
    let rules: Vec<&Rule> = awake(judge, pack).collect();
    let longest = rules.iter().map(|r| r.sustained.longest_s()).fold(0.0, f64::max);
    if longest > seconds / 2.0 {
        let count = rules.iter().filter(|r| r.sustained.longest_s() > seconds / 2.0).count();
        list.push(format!(
            "the window of {} is short: {count} rules ask for up to {} of what they say, and half of the \
             window was taken instead",
            display(seconds, "s"),
            display(longest, "s"),
        ));
    }
    if judge.window.ticks < FEW_TICKS {
        list.push(format!("only {} ticks were seen", judge.window.ticks));
    }
    if let Some(steal) = steal(judge).filter(|s| *s > STEAL) {
        let steal = display(steal, "fraction");
        list.push(format!(
            "the host withheld {steal} of the processors: latencies and processor figures are uncertain"
        ));
    }
    if judge.window.ticks > 0 && !judge.states.has_pressure {
        list.push("no pressure stall information was there: who waits is inferred, not measured".into());
    }
    if judge.notes.source == Source::Perfmon {
        list.push("the commands that the advice names are those of Linux; on Windows its own tools do the same".into());
    }
    list.extend(stand_ins(judge, pack));
    if judge.notes.gaps > 0 {
        list.push(format!("the log tells of {} gaps", judge.notes.gaps));
    }
    if judge.notes.list.iter().any(|r| r.kind == Note::CLOCK) {
        list.push("the clock was stepped or the machine slept during the window".into());
    }
    for suspect in suspects_unjudged(judge, pack, unjudged, bottleneck) {
        let missing: Vec<&str> =
            unjudged.iter().filter(|u| u.bottleneck == suspect).flat_map(|u| &u.missing).map(String::as_str).collect();
        list.push(format!("{} could not be judged: {} missing", suspect.name(), first_few(&missing)));
    }
    if judge.culprits.unreadable > 0 {
        let count = judge.culprits.unreadable;
        let processes = if count == 1 { "a process".into() } else { format!("{count} processes") };
        list.push(format!("the I/O of {processes} of other users could not be read, so culprits may be missing"));
    }
    if judge.states.forgotten > 0 {
        list.push("instances came and went in such numbers that some which never mattered were forgotten".into());
    }
    list
}

/// The rules of a pack but for those that wait for a probe's ceilings where there are none.
pub(crate) fn awake(judge: &Judge, pack: usize) -> impl Iterator<Item = &Rule> {
    let measured = !judge.ceilings.is_empty();
    judge.packs[pack].rules.iter().filter(move |rule| measured || !rule.sleeps_without_ceiling())
}

/// Rules that were judged by logical disks for want of physical ones.
fn stand_ins(judge: &Judge, pack: usize) -> Option<String> {
    let rules = judge.states.stand_ins.keys().filter(|(of, _)| *of == pack).count();
    let rules = match rules {
        0 => return None,
        1 => "a rule was".to_owned(),
        n => format!("{n} rules were"),
    };
    Some(format!(
        "{rules} judged by logical disks, because the log lacks counters of physical ones: letters on one disk share \
         it, and a set of disks looks like one"
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
fn steal(judge: &Judge) -> Option<f64> {
    judge.states.tracks[judge.states.steal?].mean()
}

/// Bottlenecks suspected before this one of which no blaming rule could be judged.
fn suspects_unjudged(judge: &Judge, pack: usize, unjudged: &[Unjudged], bottleneck: Bottleneck) -> Vec<Bottleneck> {
    let suspected = Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && *b != Bottleneck::None);
    let none_judged = |suspect: &Bottleneck| {
        let blaming = awake(judge, pack).filter(|r| r.bottleneck == *suspect && r.weight > 0.0);
        let mut blaming = blaming.peekable();
        blaming.peek().is_some() && blaming.all(|r| unjudged.iter().any(|u| u.rule == r.id))
    };
    suspected.filter(none_judged).collect()
}

/// Share, by weight, of a bottleneck's rules that could not be judged.
fn share_unjudged(judge: &Judge, pack: usize, suspect: Bottleneck, unjudged: &[Unjudged]) -> f64 {
    let blaming = || awake(judge, pack).filter(move |r| r.bottleneck == suspect);
    let all: f64 = blaming().map(|r| r.weight).sum();
    let open: f64 = blaming().filter(|r| unjudged.iter().any(|u| u.rule == r.id)).map(|r| r.weight).sum();
    if all > 0.0 { open / all } else { 0.0 }
}

/// Share, by weight, of the rules that blame something and could be judged.
fn share_judged(judge: &Judge, pack: usize, unjudged: &[Unjudged]) -> f64 {
    let asked =
        |r: &&Rule| r.roles.is_empty() || judge.options.role.as_ref().is_some_and(|role| r.roles.contains(role));
    let rules = || awake(judge, pack).filter(|r| r.bottleneck != Bottleneck::None).filter(asked);
    let all: f64 = rules().map(|r| r.weight).sum();
    let open: f64 = rules().filter(|r| unjudged.iter().any(|u| u.rule == r.id)).map(|r| r.weight).sum();
    if all > 0.0 { 1.0 - open / all } else { 1.0 }
}

/// From 0 to 1: how strong the verdict is by itself and against the next one,
/// lowered by few ticks, by suspects that could not be judged, by steal time
/// and gaps.
pub(crate) fn confidence(
    judge: &Judge,
    pack: usize,
    bottleneck: Bottleneck,
    ranking: &[Rank],
    unjudged: &[Unjudged],
) -> f64 {
    if judge.window.elapsed_ns == 0 {
        return 0.0;
    }
    let score = |b: Bottleneck| ranking.iter().find(|r| r.bottleneck == b).map_or(0.0, |r| r.score);
    let rival = ranking.iter().filter(|r| r.bottleneck != bottleneck).map(|r| r.score).fold(0.0, f64::max);
    let mut confidence = if bottleneck == Bottleneck::None {
        // the nearer something came to being blamed, the less sure
        0.95 - 0.6 * rival.min(1.0)
    } else {
        let strength = score(bottleneck).min(1.0);
        let margin = ((strength - rival) / strength).clamp(0.0, 1.0);
        strength.sqrt() * (0.75 + 0.22 * margin)
    };
    let ticks = judge.window.ticks as f64;
    confidence *= ticks / (ticks + 2.0);
    for suspect in Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && *b != Bottleneck::None) {
        // memory is to be ruled out first, so not having judged it weighs most
        let weight = if suspect == Bottleneck::Memory { 0.25 } else { 0.05 };
        confidence *= 1.0 - weight * share_unjudged(judge, pack, suspect, unjudged);
    }
    if steal(judge).is_some_and(|s| s > STEAL) {
        confidence *= 0.85;
    }
    if judge.notes.gaps > 0 {
        confidence *= 0.95;
    }
    if bottleneck == Bottleneck::None {
        // no surer than what was looked at allows: nothing, where no rule could be judged
        confidence = confidence.min(share_judged(judge, pack, unjudged).max(0.0).sqrt());
    }
    confidence.clamp(0.0, 1.0)
}
