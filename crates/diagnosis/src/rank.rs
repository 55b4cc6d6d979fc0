//! Findings weighed into one answer.
//!
//! A finding scores its rule's weight, a quarter of it by the share of time at
//! which it held. A bottleneck scores as its strongest finding, and a tenth of
//! each further rule's on top. The best score is the verdict, with two
//! exceptions that come from the documents: memory wins over disk unless it is
//! less than half as strong, because paging masquerades as disk; and scores
//! that are nearly equal go by the order of suspicion.

use std::collections::BTreeMap;

use crate::advice::{Advice, LoadFacts};
use crate::culprits::BlamedDisk;
use crate::judge::Judge;
use crate::missing::MissingCounters;
use crate::outcome::{RuleOutcome, episodes, finding, lead, outcomes, relate};
use crate::rule::{Bottleneck, Rule};
use crate::time::rfc3339;
use crate::verdict::*;
use crate::words::{Approach, approach, label, one_thread, sentence, value_text};

/// Score below which nothing is blamed.
const LEAST_SCORE: f64 = 0.35;
/// How much weaker than disk memory may be and still be the answer.
const MEMORY_SHARE: f64 = 0.5;
/// Scores within this share of each other count as equal.
const TIE: f64 = 0.02;
/// Rules named when a bottleneck is ruled out.
const REASONS: usize = 3;
/// What tells of one thread among several processors.
const ONE_THREAD: &str = "system.busiest_thread";

/// The verdict on the whole window, for the phases of it.
pub(crate) struct WindowVerdict<'a> {
    pub bottleneck: Bottleneck,
    pub instance: &'a str,
    pub confidence: f64,
    pub unjudged: &'a [UnjudgedRule],
}

/// The verdict of one pack.
pub(crate) fn verdict(judge: &Judge, pack_at: usize) -> Verdict {
    let pack = &judge.packs[pack_at];
    let all = outcomes(judge, pack_at);
    let (held, aside) = relate(&all);
    let mut findings: Vec<Finding> = held.iter().filter_map(|o| finding(judge, o)).collect();
    sort(&mut findings);
    let ranking = ranking(findings.iter().map(|f| (f.bottleneck, f.rule.as_str(), score(f.weight, f.share))));
    let unjudged = unjudged(judge, pack_at, &all);
    let bottleneck = match choose(&ranking) {
        Bottleneck::None if crate::certainty::unsettled(judge, pack_at, &findings, &unjudged) => Bottleneck::Unknown,
        chosen => chosen,
    };
    findings.sort_by_key(|f| f.bottleneck != bottleneck);
    let first = findings.first().filter(|f| f.bottleneck == bottleneck && bottleneck != Bottleneck::None);
    let instance = first.map_or(String::new(), |first| instance(judge, first, &findings));
    let set_aside: Vec<SetAsideFinding> = aside.iter().map(|(o, by)| explained(o, by)).collect();
    let confidence = crate::certainty::confidence(judge, pack_at, bottleneck, &ranking, &unjudged);
    let whole = WindowVerdict { bottleneck, instance: &instance, confidence, unjudged: &unjudged };
    let phases = if pack_at == 0 { crate::phases::phases(judge, pack_at, &all, &whole) } else { Vec::new() };
    let ruled_out = ruled_out(judge, pack_at, &all, bottleneck, &ranking, &set_aside);
    let mut certainty_limits = crate::certainty::limits(judge, pack_at, &unjudged, bottleneck);
    if pack.rules.iter().any(Rule::sleeps_without_ceiling) {
        certainty_limits.extend(crate::ceilings::remarks(judge, &all));
    }
    // of the pack that was asked; the others are there to be compared by their verdicts
    let (trends, trend_questions) = if pack_at == 0 { crate::trends::trends(judge, pack_at) } else { (Vec::new(), 0) };
    let culprits = culprits(judge, bottleneck, first);
    let first_label = first.and_then(|first| label_of(pack.rule(&first.rule)?, first, &all));
    Verdict {
        schema: SCHEMA,
        pack: pack.id.clone(),
        pack_title: pack.title.clone(),
        host: judge.topology.as_ref().map_or(String::new(), |t| t.host.clone()),
        bottleneck,
        confidence,
        sentence: match first {
            Some(first) => blaming(judge, &instance, first, &first_label.unwrap_or_default(), &culprits),
            None => nothing(judge, pack_at, &unjudged, bottleneck),
        },
        phases,
        culprits,
        programs: if bottleneck.blames() { Vec::new() } else { judge.culprits.programs() },
        advice: advice(judge, pack_at, bottleneck, &findings),
        instance,
        findings,
        episodes: episodes(&all),
        set_aside,
        ruled_out,
        missing: MissingCounters::of(&unjudged, judge.notes.source),
        unjudged,
        ranking,
        ceilings: judge.ceilings.iter().filter(|c| judge.has_seen(&c.device)).cloned().collect(),
        notes: remarks(judge),
        certainty_limits,
        trends,
        trend_questions,
        window: span(judge),
    }
}

fn blaming(judge: &Judge, instance: &str, first: &Finding, label: &str, culprits: &[Culprit]) -> String {
    let window_s = judge.window.seconds();
    match first.counter.as_str() {
        ONE_THREAD => one_thread(first, culprits.first(), window_s),
        _ => sentence(instance, first, label, window_s),
    }
}

fn span(judge: &Judge) -> WatchWindow {
    WatchWindow {
        from: rfc3339(judge.window.from_ns),
        to: rfc3339(judge.window.to_ns),
        seconds: judge.window.seconds(),
        ticks: judge.window.ticks,
        gaps: judge.notes.gaps,
    }
}

/// Who does it: of a blamed disk those who use it, as far as the log can tell.
fn culprits(judge: &Judge, bottleneck: Bottleneck, first: Option<&Finding>) -> Vec<Culprit> {
    if first.is_some_and(|f| f.counter == ONE_THREAD) {
        return judge.culprits.of_threads();
    }
    let cgroup = first.filter(|f| f.object == "cgroup").map(|f| group_of(&f.instance));
    let disk = first.filter(|f| f.object == "physical_disk" && bottleneck != Bottleneck::Memory);
    let blamed = disk.and_then(|finding| {
        let facts = facts(judge, finding);
        // in a stall it moves nothing: that tells nothing of who uses it
        let moves = [facts.read_bytes_per_s, facts.write_bytes_per_s].iter().flatten().any(|bytes| *bytes > 0.0);
        (judge.disks_seen() > 1).then(|| BlamedDisk {
            name: finding.instance.clone(),
            read_bytes_per_s: facts.read_bytes_per_s.filter(|_| moves),
            write_bytes_per_s: facts.write_bytes_per_s.filter(|_| moves),
            groups: judge.groups_on(&finding.instance),
        })
    });
    judge.culprits.of(bottleneck, cgroup, blamed.as_ref())
}

/// A cgroup's path, without the device that follows in I/O instances.
fn group_of(instance: &str) -> &str {
    instance.rsplit_once('@').map_or(instance, |(path, _)| path)
}

/// What a rule of a weight that held for a share of the time scores.
pub(crate) fn score(weight: f64, share: f64) -> f64 {
    weight * (0.75 + 0.25 * share)
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
    let rough = |f: &Finding| (score(f.weight, f.share) * 50.0).round() as i64;
    let depth = |f: &Finding| if f.object == "cgroup" { group_of(&f.instance).matches('/').count() } else { 0 };
    findings.sort_by(|a, b| {
        let by_score = rough(b).cmp(&rough(a));
        let by_rule = || a.bottleneck.cmp(&b.bottleneck).then_with(|| a.rule.cmp(&b.rule));
        let by_place = || depth(b).cmp(&depth(a)).then_with(|| excess(b).total_cmp(&excess(a)));
        by_score.then_with(by_rule).then_with(by_place).then_with(|| a.instance.cmp(&b.instance))
    });
}

/// The bottlenecks that rules speak for, each rule with its score; best first.
pub(crate) fn ranking<'a>(rules: impl Iterator<Item = (Bottleneck, &'a str, f64)>) -> Vec<Rank> {
    let mut by_bottleneck: BTreeMap<Bottleneck, BTreeMap<&str, f64>> = BTreeMap::new();
    for (bottleneck, rule, score) in rules.filter(|(bottleneck, ..)| bottleneck.blames()) {
        let best = by_bottleneck.entry(bottleneck).or_default().entry(rule).or_insert(0.0);
        *best = best.max(score);
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

pub(crate) fn choose(ranking: &[Rank]) -> Bottleneck {
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

/// Where a finding is.
fn instance(judge: &Judge, first: &Finding, findings: &[Finding]) -> String {
    let same = findings.iter().filter(|f| f.rule == first.rule).map(|f| f.instance.as_str()).collect();
    place(judge, first.bottleneck, &first.object, &first.instance, same)
}

/// Where a bottleneck is: the array, where the rule held at all of its members (`same`).
pub(crate) fn place(judge: &Judge, bottleneck: Bottleneck, object: &str, instance: &str, same: Vec<&str>) -> String {
    // a shortage of memory is the machine's, whichever disk it shows on
    let of_machine = bottleneck == Bottleneck::Memory && matches!(object, "physical_disk" | "logical_disk");
    // and a log's own sum is the machine
    if of_machine || instance.eq_ignore_ascii_case("_total") {
        return String::new();
    }
    let Some(topology) = judge.topology.as_ref().filter(|_| object == "physical_disk") else {
        return instance.to_owned();
    };
    let mut sets = topology.sets_over(instance).into_iter();
    let whole = sets.find(|set| {
        let members = topology.leaves(&set.name);
        members.len() > 1 && members.iter().all(|m| same.contains(m))
    });
    whole.map_or_else(|| instance.to_owned(), |set| set.name.clone())
}

fn label_of(rule: &Rule, finding: &Finding, all: &[RuleOutcome<'_>]) -> Option<String> {
    let outcome = all.iter().find(|o| o.rule.id == rule.id && o.stream.instance == finding.instance)?;
    rule.conditions().nth(lead(rule, outcome.stream)).map(label)
}

fn nothing(judge: &Judge, pack_at: usize, unjudged: &[UnjudgedRule], bottleneck: Bottleneck) -> String {
    let pack = &judge.packs[pack_at].id;
    if judge.window.elapsed_ns == 0 {
        return "Not enough data: the window is empty.".into();
    }
    let window = value_text(judge.window.seconds(), "s");
    let judged = crate::certainty::judged(judge, pack_at);
    let rules = judged + unjudged.len();
    if judged == 0 {
        return format!("Not enough data: the log has none of the counters that the {pack} pack needs.");
    }
    if bottleneck == Bottleneck::Unknown {
        return format!(
            "Not enough data: only {judged} of {rules} rules of the {pack} pack could be evaluated; none fired in \
             {window}."
        );
    }
    if judged * 2 < rules {
        return format!(
            "No bottleneck found, but only {judged} of {rules} rules of the {pack} pack could be evaluated; none \
             fired in {window}."
        );
    }
    format!("No bottleneck found: no rule of the {pack} pack fired in {window}.")
}

fn explained(outcome: &RuleOutcome<'_>, by: &str) -> SetAsideFinding {
    SetAsideFinding {
        rule: outcome.rule.id.clone(),
        title: outcome.rule.title.clone(),
        bottleneck: outcome.rule.bottleneck,
        instance: outcome.stream.instance.clone(),
        because: format!("{by} explains it"),
    }
}

/// Rules that were asked for and could be judged nowhere.
fn unjudged(judge: &Judge, pack: usize, all: &[RuleOutcome<'_>]) -> Vec<UnjudgedRule> {
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
            list.push(UnjudgedRule { rule: rule.id.clone(), bottleneck: rule.bottleneck, missing });
        }
    }
    list
}

/// Why it is none of the other bottlenecks, as far as the pack could judge them.
fn ruled_out(
    judge: &Judge,
    pack: usize,
    all: &[RuleOutcome<'_>],
    chosen: Bottleneck,
    ranking: &[Rank],
    set_aside: &[SetAsideFinding],
) -> Vec<Exclusion> {
    let mut list = Vec::new();
    // a queue that nothing explains rules out nothing that disks could be blamed for
    let open = chosen == Bottleneck::Unknown
        && all.iter().any(|o| o.holds && o.rule.bottleneck == Bottleneck::Unknown && o.rule.object != "machine");
    let of_disks = [Bottleneck::Disk, Bottleneck::Channel, Bottleneck::Controller, Bottleneck::Application];
    let others = Bottleneck::ALL.into_iter().filter(|b| *b != chosen && b.blames());
    for bottleneck in others.filter(|b| !(open && (of_disks.contains(b) || *b == Bottleneck::Throttle))) {
        let of = |rule: &Rule| rule.bottleneck == bottleneck && rule.weight > 0.0;
        if !judge.packs[pack].rules.iter().any(of) {
            continue;
        }
        let judged: Vec<&RuleOutcome> = all.iter().filter(|o| of(o.rule) && o.share.is_some()).collect();
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
        list.push(Exclusion { bottleneck, because });
    }
    list
}

fn weaker(rank: &Rank, best: Option<&Rank>, chosen: Bottleneck) -> String {
    let rules = rank.findings.join(", ");
    let best = best.map_or(0.0, |b| b.score);
    match chosen {
        Bottleneck::None | Bottleneck::Unknown => {
            format!("too weak to blame: {rules} ({:.2}, at least {LEAST_SCORE} needed)", rank.score)
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk => {
            format!("paging looks like this: {rules} held too, but memory is judged first")
        }
        _ => format!("weaker than {}: {rules} ({:.2} against {best:.2})", chosen.name(), rank.score),
    }
}

/// The rules that came nearest, each with what kept it from holding.
fn nearest(judge: &Judge, judged: &[&RuleOutcome<'_>]) -> String {
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
    if texts.is_empty() { "no sign of it".into() } else { texts.join("; ") }
}

/// The remedies of the findings that make the verdict (of all, where nothing
/// is blamed) and fit what they show, cheapest first, and in the authority's
/// order among equals.
fn advice(judge: &Judge, pack: usize, bottleneck: Bottleneck, findings: &[Finding]) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for finding in findings.iter().filter(|f| !bottleneck.blames() || f.bottleneck == bottleneck) {
        let facts = facts(judge, finding);
        for id in &finding.advice {
            if let Some(advice) = judge.packs[pack].advice.iter().find(|a| a.id == *id)
                && advice.when.fits(&facts)
                && !list.contains(advice)
            {
                list.push(advice.clone());
            }
        }
    }
    list.sort_by_key(|a| a.cost);
    list
}

/// What a finding shows of its load and device.
fn facts<'a>(judge: &Judge, finding: &'a Finding) -> LoadFacts<'a> {
    let of = |name: &str| {
        let is =
            |counter: &str| counter.split_once('.').is_some_and(|(object, n)| object == finding.object && n == name);
        finding.evidence.iter().find(|e| is(&e.counter)).and_then(|e| e.value)
    };
    let device = judge.topology.as_ref().and_then(|t| t.device(&finding.instance));
    LoadFacts {
        object: &finding.object,
        class: device.map(|d| d.class),
        reads_per_s: of("reads_per_s"),
        writes_per_s: of("writes_per_s"),
        read_bytes_per_s: of("read_bytes_per_s"),
        write_bytes_per_s: of("write_bytes_per_s"),
        transfers_per_s: of("transfers_per_s"),
        bytes_per_s: of("bytes_per_s"),
        queue: of("avg_queue_length"),
        write_cache_on: device.is_some_and(|d| d.write_cache.as_deref() == Some("write back")),
    }
}

fn remarks(judge: &Judge) -> Vec<LogRemark> {
    let remark = |r: &crate::notes::NoteCount| LogRemark {
        time: rfc3339(r.time_ns),
        kind: r.kind.clone(),
        text: r.text.clone(),
        times: r.times,
    };
    judge.notes.list.iter().chain(&judge.notes.bookmarks).map(remark).collect()
}
