//! Findings weighed into one answer.
//!
//! A finding scores its rule's weight, a quarter of it by the share of time at
//! which it held. A bottleneck scores as its strongest finding, and a tenth of
//! each further rule's on top. The best score is the verdict, with two
//! exceptions that come from the documents: memory wins over disk unless it is
//! less than half as strong, because paging masquerades as disk; and scores
//! that are nearly equal go by the order of suspicion.

use std::collections::BTreeMap;

use crate::advice::Advice;
use crate::judge::Judge;
use crate::missing::Missing;
use crate::outcome::{Outcome, episodes, finding, lead, outcomes, relate};
use crate::rule::{Bottleneck, Rule};
use crate::time::rfc3339;
use crate::verdict::*;
use crate::words::{Approach, approach, label, sentence, value_text};

/// Score below which nothing is blamed.
const LEAST_SCORE: f64 = 0.35;
/// How much weaker than disk memory may be and still be the answer.
const MEMORY_SHARE: f64 = 0.5;
/// Scores within this share of each other count as equal.
const TIE: f64 = 0.02;
/// Rules named when a bottleneck is ruled out.
const REASONS: usize = 3;

/// The verdict of one pack.
pub(crate) fn verdict(judge: &Judge, pack_at: usize) -> Verdict {
    let pack = &judge.packs[pack_at];
    let all = outcomes(judge, pack_at);
    let (held, aside) = relate(&all);
    let mut findings: Vec<Finding> = held.iter().filter_map(|o| finding(judge, o)).collect();
    sort(&mut findings);
    let ranking = ranking(&findings);
    let bottleneck = choose(&ranking);
    findings.sort_by_key(|f| f.bottleneck != bottleneck);
    let first = findings.first().filter(|f| f.bottleneck == bottleneck && bottleneck != Bottleneck::None);
    let instance = first.map_or(String::new(), |first| instance(judge, first, &findings));
    let unjudged = unjudged(judge, pack_at, &all);
    let set_aside: Vec<SetAside> = aside.iter().map(|(o, by)| explained(o, by)).collect();
    let ruled_out = ruled_out(judge, pack_at, &all, bottleneck, &ranking, &set_aside);
    let mut certainty_limits = crate::certainty::limits(judge, pack_at, &unjudged, bottleneck);
    if pack.rules.iter().any(Rule::sleeps_without_ceiling) {
        certainty_limits.extend(crate::ceilings::remarks(judge, &all));
    }
    // of the pack that was asked; the others are there to be compared by their verdicts
    let (trends, trend_questions) = if pack_at == 0 { crate::trends::trends(judge, pack_at) } else { (Vec::new(), 0) };
    let first_label = first.and_then(|first| label_of(pack.rule(&first.rule)?, first, &all));
    Verdict {
        schema: SCHEMA,
        pack: pack.id.clone(),
        pack_title: pack.title.clone(),
        host: judge.topology.as_ref().map_or(String::new(), |t| t.host.clone()),
        bottleneck,
        confidence: crate::certainty::confidence(judge, pack_at, bottleneck, &ranking, &unjudged),
        sentence: match first {
            Some(first) => sentence(&instance, first, &first_label.unwrap_or_default(), judge.window.seconds()),
            None => nothing(judge, pack_at, &unjudged),
        },
        culprits: judge.culprits.of(bottleneck, first.filter(|f| f.object == "cgroup").map(|f| group_of(&f.instance))),
        advice: advice(judge, pack_at, bottleneck, &findings),
        instance,
        findings,
        episodes: episodes(&all),
        set_aside,
        ruled_out,
        missing: Missing::of(&unjudged, judge.notes.source),
        unjudged,
        ranking,
        ceilings: judge.ceilings.iter().filter(|c| judge.has_seen(&c.device)).cloned().collect(),
        notes: remarks(judge),
        certainty_limits,
        trends,
        trend_questions,
        window: Span {
            from: rfc3339(judge.window.from_ns),
            to: rfc3339(judge.window.to_ns),
            seconds: judge.window.seconds(),
            ticks: judge.window.ticks,
            gaps: judge.notes.gaps,
        },
    }
}

/// A cgroup's path, without the device that follows in I/O instances.
fn group_of(instance: &str) -> &str {
    instance.rsplit_once('@').map_or(instance, |(path, _)| path)
}

fn score(finding: &Finding) -> f64 {
    finding.weight * (0.75 + 0.25 * finding.share)
}

/// How far beyond its limit a finding's value is.
fn excess(finding: &Finding) -> f64 {
    let ratio = match finding.compare {
        "above" | "at_least" => finding.value / finding.limit,
        _ => finding.limit / finding.value,
    };
    if ratio.is_finite() { ratio } else { 0.0 }
}

/// Strongest first; of one rule the instance furthest beyond the limit, and a
/// cgroup before its parents, whose figures contain it.
fn sort(findings: &mut [Finding]) {
    let rough = |f: &Finding| (score(f) * 50.0).round() as i64;
    let depth = |f: &Finding| if f.object == "cgroup" { group_of(&f.instance).matches('/').count() } else { 0 };
    findings.sort_by(|a, b| {
        let by_score = rough(b).cmp(&rough(a));
        let by_rule = || a.bottleneck.cmp(&b.bottleneck).then_with(|| a.rule.cmp(&b.rule));
        let by_place = || depth(b).cmp(&depth(a)).then_with(|| excess(b).total_cmp(&excess(a)));
        by_score.then_with(by_rule).then_with(by_place).then_with(|| a.instance.cmp(&b.instance))
    });
}

/// The bottlenecks that findings speak for, best score first.
fn ranking(findings: &[Finding]) -> Vec<Rank> {
    let mut by_bottleneck: BTreeMap<Bottleneck, BTreeMap<&str, f64>> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.bottleneck != Bottleneck::None) {
        let best = by_bottleneck.entry(finding.bottleneck).or_default().entry(&finding.rule).or_insert(0.0);
        *best = best.max(score(finding));
    }
    let rank = |(bottleneck, rules): (Bottleneck, BTreeMap<&str, f64>)| {
        let mut rules: Vec<(&str, f64)> = rules.into_iter().collect();
        rules.sort_by(|a, b| b.1.total_cmp(&a.1));
        let further: f64 = rules.iter().skip(1).map(|(_, score)| score / 10.0).sum();
        let score = rules.first().map_or(0.0, |(_, score)| *score) + further;
        Rank { bottleneck, score, findings: rules.into_iter().map(|(rule, _)| rule.to_owned()).collect() }
    };
    let mut ranking: Vec<Rank> = by_bottleneck.into_iter().map(rank).collect();
    // stable, so that equals stay in the order of suspicion
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking
}

fn choose(ranking: &[Rank]) -> Bottleneck {
    let Some(best) = ranking.first().filter(|r| r.score >= LEAST_SCORE) else { return Bottleneck::None };
    let memory = ranking.iter().find(|r| r.bottleneck == Bottleneck::Memory);
    if best.bottleneck == Bottleneck::Disk
        && memory.is_some_and(|m| m.score >= MEMORY_SHARE * best.score && m.score >= LEAST_SCORE)
    {
        return Bottleneck::Memory;
    }
    let equals = ranking.iter().filter(|r| r.score >= best.score * (1.0 - TIE));
    equals.map(|r| r.bottleneck).min().unwrap_or(best.bottleneck)
}

/// Where it is: the array, where all of its members show the same.
fn instance(judge: &Judge, first: &Finding, findings: &[Finding]) -> String {
    // a log's own sum is the machine
    if first.instance.eq_ignore_ascii_case("_total") {
        return String::new();
    }
    let Some(topology) = judge.topology.as_ref().filter(|_| first.object == "physical_disk") else {
        return first.instance.clone();
    };
    let same: Vec<&str> = findings.iter().filter(|f| f.rule == first.rule).map(|f| f.instance.as_str()).collect();
    let mut sets = topology.sets_over(&first.instance).into_iter();
    let whole = sets.find(|set| {
        let members = topology.leaves(&set.name);
        members.len() > 1 && members.iter().all(|m| same.contains(m))
    });
    whole.map_or_else(|| first.instance.clone(), |set| set.name.clone())
}

fn label_of(rule: &Rule, finding: &Finding, all: &[Outcome<'_>]) -> Option<String> {
    let outcome = all.iter().find(|o| o.rule.id == rule.id && o.stream.instance == finding.instance)?;
    rule.conditions().nth(lead(rule, outcome.stream)).map(label)
}

fn nothing(judge: &Judge, pack_at: usize, unjudged: &[Unjudged]) -> String {
    let pack = &judge.packs[pack_at].id;
    if judge.window.elapsed_ns == 0 {
        return "Nothing can be said: no stretch of time was watched.".into();
    }
    let window = value_text(judge.window.seconds(), "s");
    let rules = crate::certainty::awake(judge, pack_at).count();
    if unjudged.len() == rules {
        return format!("Nothing can be said: the log has none of the counters that the pack `{pack}` judges.");
    }
    if unjudged.len() * 2 > rules {
        let judged = rules - unjudged.len();
        return format!(
            "Nothing was found in what could be judged, and that is little: {judged} of the {rules} rules of the pack \
             `{pack}`, none of which blamed anything in {window}."
        );
    }
    format!("Nothing holds this machine back: no rule of the pack `{pack}` that blames anything held in {window}.")
}

fn explained(outcome: &Outcome<'_>, by: &str) -> SetAside {
    SetAside {
        rule: outcome.rule.id.clone(),
        title: outcome.rule.title.clone(),
        bottleneck: outcome.rule.bottleneck,
        instance: outcome.stream.instance.clone(),
        because: format!("{by} explains it"),
    }
}

/// Rules that were asked for and could be judged nowhere.
fn unjudged(judge: &Judge, pack: usize, all: &[Outcome<'_>]) -> Vec<Unjudged> {
    let mut list = Vec::new();
    for (at, rule) in judge.packs[pack].rules.iter().enumerate() {
        let state = &judge.states.rules[pack][at];
        let mut here = all.iter().filter(|o| o.rule_at == at).peekable();
        let asked = here.peek().map_or(rule, |o| o.rule);
        let gaps = asked.conditions().map(|c| format!("{} (gaps only)", c.quantity.counter.id)).collect();
        let missing: Vec<String> = if !state.judged {
            state.missing.iter().cloned().collect()
        } else if here.peek().is_some() && here.all(|o| o.share.is_none()) {
            gaps
        } else {
            Vec::new()
        };
        if !missing.is_empty() {
            list.push(Unjudged { rule: rule.id.clone(), bottleneck: rule.bottleneck, missing });
        }
    }
    list
}

/// Why it is none of the other bottlenecks, as far as the pack could judge them.
fn ruled_out(
    judge: &Judge,
    pack: usize,
    all: &[Outcome<'_>],
    chosen: Bottleneck,
    ranking: &[Rank],
    set_aside: &[SetAside],
) -> Vec<RuledOut> {
    let mut list = Vec::new();
    let others = Bottleneck::ALL.into_iter().filter(|b| *b != chosen && *b != Bottleneck::None);
    for bottleneck in others {
        let of = |rule: &Rule| rule.bottleneck == bottleneck && rule.weight > 0.0;
        if !judge.packs[pack].rules.iter().any(of) {
            continue;
        }
        let judged: Vec<&Outcome> = all.iter().filter(|o| of(o.rule) && o.share.is_some()).collect();
        if judged.is_empty() {
            continue;
        }
        let mut because = match ranking.iter().find(|r| r.bottleneck == bottleneck) {
            Some(rank) => weaker(rank, ranking.first(), chosen),
            None => nearest(judge, &judged),
        };
        if let Some(aside) = set_aside.iter().find(|s| s.bottleneck == bottleneck) {
            let place = if aside.instance.is_empty() { String::new() } else { format!("{}: ", aside.instance) };
            because = format!("{place}{}, but {}", aside.title, aside.because);
        }
        list.push(RuledOut { bottleneck, because });
    }
    list
}

fn weaker(rank: &Rank, best: Option<&Rank>, chosen: Bottleneck) -> String {
    let rules = rank.findings.join(", ");
    let best = best.map_or(0.0, |b| b.score);
    match chosen {
        Bottleneck::None => format!("too weak to blame: {rules} ({:.2}, at least {LEAST_SCORE} needed)", rank.score),
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk => {
            format!("paging looks like this: {rules} held too, and memory comes first")
        }
        _ => format!("weaker than {}: {rules} ({:.2} against {best:.2})", chosen.name(), rank.score),
    }
}

/// The rules that came nearest, each with what kept it from holding.
fn nearest(judge: &Judge, judged: &[&Outcome<'_>]) -> String {
    let mut by_rule: BTreeMap<usize, Approach> = BTreeMap::new();
    for outcome in judged {
        let Some(approach) = approach(judge, outcome) else { continue };
        match by_rule.get(&outcome.rule_at) {
            Some(known) if known.closeness >= approach.closeness => {}
            _ => {
                by_rule.insert(outcome.rule_at, approach);
            }
        }
    }
    let mut approaches: Vec<Approach> = by_rule.into_values().collect();
    approaches.sort_by(|a, b| b.closeness.total_cmp(&a.closeness));
    let mut told: Vec<Approach> = Vec::new();
    for approach in approaches {
        if told.len() < REASONS && !told.iter().any(|t| t.what == approach.what) {
            told.push(approach);
        }
    }
    let texts: Vec<String> = told.into_iter().map(|t| t.text).collect();
    if texts.is_empty() { "nothing of it was seen".into() } else { texts.join("; ") }
}

/// The remedies of the findings that make the verdict (of all, where nothing
/// is blamed), cheapest first, and in the authority's order among equals.
fn advice(judge: &Judge, pack: usize, bottleneck: Bottleneck, findings: &[Finding]) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for finding in findings.iter().filter(|f| bottleneck == Bottleneck::None || f.bottleneck == bottleneck) {
        for id in &finding.advice {
            if let Some(advice) = judge.packs[pack].advice.iter().find(|a| a.id == *id)
                && !list.contains(advice)
            {
                list.push(advice.clone());
            }
        }
    }
    list.sort_by_key(|a| a.cost);
    list
}

fn remarks(judge: &Judge) -> Vec<Remark> {
    let remark = |r: &crate::notes::Remark| Remark {
        time: rfc3339(r.time_ns),
        kind: r.kind.clone(),
        text: r.text.clone(),
        times: r.times,
    };
    judge.notes.list.iter().map(remark).collect()
}
