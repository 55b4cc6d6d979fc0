//! Puts a verdict together from an observation: ranking, confidence, phases, trends, culprits, advice and the sentence.

use diskwright_base::DeviceKind;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_duration;

use std::collections::BTreeMap;

use crate::advice::{Advice, LoadFacts};
use crate::culprits::BlamedDisk;
use crate::observation::Observation;
use crate::origin::MissingCounters;
use crate::outcome::{QUOTA, RuleOutcome, are_apart, episodes, finding, is_elsewhere, lead, outcomes, relate};
use crate::rank::{LEAST_SCORE, WindowVerdict, choose, place, ranking, score};
use crate::rule::{Bottleneck, Rule};
use crate::scene::group_on_device;
use crate::verdict::*;
use crate::words::{Approach, approach, label, one_thread, sentence};

/// Largest number of rules named when a bottleneck is ruled out.
const REASONS: usize = 3;
/// Counter of the processor share of the busiest thread.
const ONE_THREAD: &str = "system.busiest_thread";

/// Builds the verdict of one pack on an observed window.
pub(crate) fn verdict(observed: &Observation, pack_index: usize) -> Verdict {
    let pack = &observed.packs[pack_index];
    let all = outcomes(observed, pack_index);
    let (held, aside) = relate(observed, &all);
    let mut findings: Vec<Finding> = held.iter().filter_map(|o| finding(observed, o)).collect();
    sort(&mut findings);
    let ranking = ranking(findings.iter().map(|f| (f.bottleneck, f.rule.as_str(), score(f.weight, f.share))));
    let unjudged = unjudged(observed, pack_index, &all);
    let apart = are_apart(held.iter().copied(), |memory, disk| is_elsewhere(observed, memory, disk));
    let is_open = || crate::certainty::unsettled(observed, pack_index, &findings, &unjudged);
    let bottleneck = Some(choose(&ranking, apart)).filter(|b| *b != Bottleneck::None || !is_open());
    let bottleneck = bottleneck.unwrap_or(Bottleneck::Unknown);
    findings.sort_by_key(|f| f.bottleneck != bottleneck);
    let first = findings.first().filter(|f| f.bottleneck == bottleneck && bottleneck != Bottleneck::None);
    let instance = first.map_or(String::new(), |first| instance(observed, first, &findings));
    let set_aside: Vec<SetAsideFinding> = aside.iter().map(|(o, by)| explained(o, by)).collect();
    let confidence = crate::certainty::confidence(observed, pack_index, bottleneck, &ranking, &unjudged);
    let told = first.map(|first| (first.rule.as_str(), first.title.as_str()));
    let whole = WindowVerdict { bottleneck, instance: &instance, confidence, unjudged: &unjudged, told };
    let phases = if pack_index == 0 { crate::phases::phases(observed, pack_index, &all, &whole) } else { Vec::new() };
    let ruled_out = ruled_out(observed, pack_index, &all, (bottleneck, apart), &ranking, &set_aside);
    let mut certainty_limits = crate::certainty::limits(observed, pack_index, &unjudged, bottleneck);
    if pack.rules.iter().any(Rule::sleeps_without_ceiling) {
        certainty_limits.extend(crate::profiles::remarks(observed, &disks_near(&all)));
    }
    let (trends, trend_questions) = trends_of_first_pack(observed, pack_index);
    let culprits = culprits(observed, bottleneck, first);
    let first_label = first.and_then(|first| label_of(pack.rule(&first.rule)?, first, &all));
    Verdict {
        schema: SCHEMA,
        pack: pack.id.clone(),
        pack_title: pack.title.clone(),
        host: observed.topology.as_ref().map_or(String::new(), |t| t.host.clone()),
        bottleneck,
        confidence,
        sentence: match first {
            Some(first) => blaming(observed, &instance, first, &first_label.unwrap_or_default(), &culprits),
            None => nothing(observed, pack_index, &unjudged, bottleneck),
        },
        phases,
        culprits,
        asked: asked(observed, first),
        programs: if bottleneck.blames() { Vec::new() } else { observed.culprits.programs() },
        advice: advice(observed, pack_index, bottleneck, &findings),
        instance,
        findings,
        episodes: episodes(observed, &all),
        set_aside,
        ruled_out,
        missing: MissingCounters::of(&unjudged, observed.notes.source),
        unjudged,
        ranking,
        ceilings: observed.ceilings.iter().filter(|c| observed.has_seen(&c.device)).cloned().collect(),
        notes: remarks(observed),
        certainty_limits,
        trends,
        trend_questions,
        window: span(observed),
    }
}

/// Trends of the first pack; further packs are judged only to compare their verdicts, and have none.
fn trends_of_first_pack(observed: &Observation, pack_index: usize) -> (Vec<crate::trends::Trend>, usize) {
    if pack_index == 0 { crate::trends::trends(observed, pack_index) } else { (Vec::new(), 0) }
}

fn blaming(observed: &Observation, instance: &str, first: &Finding, label: &str, culprits: &[Culprit]) -> String {
    let window_s = observed.window.seconds();
    match first.counter.as_str() {
        ONE_THREAD => one_thread(first, culprits.first(), window_s),
        _ => sentence(instance, first, label, window_s),
    }
}

fn span(observed: &Observation) -> WatchWindow {
    WatchWindow {
        from: format_rfc3339(observed.window.from_ns),
        to: format_rfc3339(observed.window.to_ns),
        seconds: observed.window.seconds(),
        ticks: observed.window.ticks,
        gaps: observed.notes.gaps,
    }
}

/// Programs that sent requests to the blamed disk, by operation; empty without a trace of requests.
fn asked(observed: &Observation, first: Option<&Finding>) -> Vec<AskedOperation> {
    let disk = first.filter(|finding| finding.object == "physical_disk");
    let of = |finding: &Finding| {
        let device = observed.topology.as_ref().and_then(|topology| topology.find_device(&finding.instance));
        let node = device.filter(|device| device.kind == DeviceKind::Multipath);
        let paths = node.map_or(&[][..], |node| node.below.as_slice());
        observed.askers.of_paths(&finding.instance, paths, &observed.culprits.written())
    };
    disk.map(of).unwrap_or_default()
}

/// Culprits of the verdict; for a blamed disk those that use it, as far as the log shows.
fn culprits(observed: &Observation, bottleneck: Bottleneck, first: Option<&Finding>) -> Vec<Culprit> {
    if first.is_some_and(|f| f.counter == ONE_THREAD) {
        return observed.culprits.of_threads();
    }
    let cgroup = first.filter(|f| f.object == "cgroup").map(|f| group_of(&f.instance));
    let disk = first.filter(|f| f.object == "physical_disk" && bottleneck != Bottleneck::Memory);
    let blamed = disk.and_then(|finding| {
        let facts = facts(observed, finding);
        // a stalled disk moves nothing, so its rates do not limit how much a process can have done on it
        let moves = [facts.read_bytes_per_s, facts.write_bytes_per_s].iter().flatten().any(|bytes| *bytes > 0.0);
        (observed.disks_seen() > 1).then(|| BlamedDisk {
            name: finding.instance.clone(),
            read_bytes_per_s: facts.read_bytes_per_s.filter(|_| moves),
            write_bytes_per_s: facts.write_bytes_per_s.filter(|_| moves),
            groups: observed.groups_on(&finding.instance),
        })
    });
    // a quota of processor time holds back processes that compute, not those that use disks
    let matter = match first {
        Some(first) if first.counter.starts_with(QUOTA) => Bottleneck::Cpu,
        _ => bottleneck,
    };
    observed.culprits.of(matter, cgroup, blamed.as_ref())
}

/// A cgroup's path, without the device that follows in I/O instances.
fn group_of(instance: &str) -> &str {
    group_on_device(instance).map_or(instance, |(path, _)| path)
}

/// Sort key: how far a finding's value is beyond its limit. Zero of a quantity that must not be low is furthest.
fn excess(finding: &Finding) -> f64 {
    beyond(finding.compare, finding.value, finding.limit)
}

fn beyond(compare: &str, value: f64, limit: f64) -> f64 {
    let ratio = match compare {
        "above" | "at_least" => value / limit,
        // a trend below a negative limit: the steeper fall is further beyond
        _ if limit < 0.0 => value / limit,
        _ => limit / value,
    };
    if ratio.is_nan() { 0.0 } else { ratio }
}

/// Sorts findings, strongest first; of one rule the instance furthest beyond the limit, and a cgroup before its
/// parents, whose figures include it.
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

/// Instance that the verdict names for its first finding.
fn instance(observed: &Observation, first: &Finding, findings: &[Finding]) -> String {
    let same = findings.iter().filter(|f| f.rule == first.rule).map(|f| f.instance.as_str()).collect();
    place(observed, first.bottleneck, &first.object, &first.instance, same)
}

fn label_of(rule: &Rule, finding: &Finding, all: &[RuleOutcome<'_>]) -> Option<String> {
    let outcome = all.iter().find(|o| o.rule.id == rule.id && o.stream.instance == finding.instance)?;
    rule.conditions().nth(lead(rule, outcome.stream)).map(label)
}

fn nothing(observed: &Observation, pack_index: usize, unjudged: &[UnjudgedRule], bottleneck: Bottleneck) -> String {
    let pack = &observed.packs[pack_index].id;
    if observed.window.elapsed_ns == 0 {
        return "Not enough data: the window is empty.".into();
    }
    let window = format_duration(observed.window.seconds());
    let judged = crate::certainty::judged(observed, pack_index);
    let rules = judged + unjudged.len();
    if judged == 0 {
        return format!("Not enough data: the log has none of the counters that the {pack} pack needs.");
    }
    if bottleneck == Bottleneck::Unknown {
        return format!(
            "Not enough data: only {judged} of {rules} rules of the {pack} pack could be evaluated; none that \
             names a bottleneck fired in {window}."
        );
    }
    if judged * 2 < rules {
        return format!(
            "No bottleneck found, but only {judged} of {rules} rules of the {pack} pack could be evaluated; none \
             that names a bottleneck fired in {window}."
        );
    }
    format!("No bottleneck found: no rule of the {pack} pack that names one fired in {window}.")
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

/// The disks that the verdict is about, or nearly is.
fn disks_near<'a>(outcomes: &'a [RuleOutcome<'_>]) -> Vec<&'a str> {
    let near = |o: &&RuleOutcome<'_>| {
        let blames = matches!(o.rule.bottleneck, Bottleneck::Disk | Bottleneck::Application) && o.rule.weight > 0.0;
        let half = o.share.is_some_and(|share| share > 0.0 && share >= o.rule.sustained.share / 2.0);
        o.rule.object == "physical_disk" && blames && half
    };
    let names = outcomes.iter().filter(near).map(|o| o.stream.instance.as_str());
    let mut disks: Vec<&str> = names.filter(|instance| !instance.is_empty()).collect();
    disks.sort_unstable();
    disks.dedup();
    disks
}

/// Rules that apply but could not be judged at any instance.
fn unjudged(observed: &Observation, pack: usize, all: &[RuleOutcome<'_>]) -> Vec<UnjudgedRule> {
    let mut list = Vec::new();
    for (index, rule) in observed.packs[pack].rules.iter().enumerate() {
        let state = &observed.states.rules[pack][index];
        let mut here = all.iter().filter(|o| o.rule_at == index).peekable();
        let applied = here.peek().map_or(rule, |o| o.rule);
        let gaps = applied.conditions().map(|c| format!("{} (gaps only)", c.quantity.counter.id)).collect();
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

/// Reasons against each other bottleneck that the pack could judge.
fn ruled_out(
    observed: &Observation,
    pack: usize,
    all: &[RuleOutcome<'_>],
    (chosen, apart): (Bottleneck, bool),
    ranking: &[Rank],
    set_aside: &[SetAsideFinding],
) -> Vec<Exclusion> {
    let mut list = Vec::new();
    // an unexplained queue on a disk rules out no bottleneck of disks
    let open = chosen == Bottleneck::Unknown
        && all.iter().any(|o| o.holds && o.rule.bottleneck == Bottleneck::Unknown && o.rule.object != "machine");
    let of_disks = [Bottleneck::Disk, Bottleneck::Channel, Bottleneck::Controller, Bottleneck::Application];
    let others = Bottleneck::ALL.into_iter().filter(|b| *b != chosen && b.blames());
    for bottleneck in others.filter(|b| !(open && (of_disks.contains(b) || *b == Bottleneck::Throttle))) {
        let of = |rule: &Rule| rule.bottleneck == bottleneck && rule.weight > 0.0;
        if !observed.packs[pack].rules.iter().any(of) {
            continue;
        }
        let judged: Vec<&RuleOutcome> = all.iter().filter(|o| of(o.rule) && o.share.is_some()).collect();
        if judged.is_empty() {
            continue;
        }
        let mut because = match ranking.iter().find(|r| r.bottleneck == bottleneck) {
            Some(rank) => weaker(rank, ranking, chosen, apart),
            None => nearest(observed, &judged),
        };
        if let Some(aside) = set_aside.iter().find(|s| s.bottleneck == bottleneck) {
            let place = if aside.instance.is_empty() { String::new() } else { format!("{}: ", aside.instance) };
            because = format!("{place}{}, but {}", aside.title, aside.because);
        }
        list.push(Exclusion { bottleneck, because });
    }
    list
}

fn weaker(rank: &Rank, ranking: &[Rank], chosen: Bottleneck, apart: bool) -> String {
    let rules = rank.findings.join(", ");
    // not always the best score: memory is chosen before a stronger disk, and of equal scores the first suspect
    let own = ranking.iter().find(|r| r.bottleneck == chosen).map_or(0.0, |r| r.score);
    match chosen {
        Bottleneck::None | Bottleneck::Unknown => {
            format!("too weak to blame: {rules} ({:.2}, at least {LEAST_SCORE} needed)", rank.score)
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk && apart => {
            format!("a bottleneck of its own, on a disk that the cgroup short of memory hardly uses: {rules}")
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk => {
            format!("paging looks like this: {rules} held too, but memory is judged first")
        }
        _ if rank.score >= own => {
            format!("{} is judged first: {rules} held too ({:.2} against {own:.2})", chosen.name(), rank.score)
        }
        _ => format!("weaker than {}: {rules} ({:.2} against {own:.2})", chosen.name(), rank.score),
    }
}

/// Text on the rules that came nearest to holding, each with the condition that failed.
fn nearest(observed: &Observation, judged: &[&RuleOutcome<'_>]) -> String {
    let mut by_rule: BTreeMap<usize, Approach> = BTreeMap::new();
    for outcome in judged {
        let Some(approach) = approach(observed, outcome) else { continue };
        match by_rule.get(&outcome.rule_at) {
            Some(known) if known.closeness >= approach.closeness => {}
            _ => {
                by_rule.insert(outcome.rule_at, approach);
            }
        }
    }
    let mut approaches: Vec<Approach> = by_rule.into_values().collect();
    approaches.sort_by(|a, b| b.closeness.total_cmp(&a.closeness));
    let mut chosen: Vec<Approach> = Vec::new();
    for approach in approaches {
        if chosen.len() < REASONS && !chosen.iter().any(|t| t.what == approach.what) {
            chosen.push(approach);
        }
    }
    let texts: Vec<String> = chosen.into_iter().map(|t| t.text).collect();
    if texts.is_empty() { "no sign of it".into() } else { texts.join("; ") }
}

/// Selects the remedies of the findings behind the verdict (of all findings where nothing is blamed) that fit their
/// load and device: cheapest first, and in the authority's order at equal cost.
fn advice(observed: &Observation, pack: usize, bottleneck: Bottleneck, findings: &[Finding]) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for finding in findings.iter().filter(|f| !bottleneck.blames() || f.bottleneck == bottleneck) {
        let facts = facts(observed, finding);
        for id in &finding.advice {
            if let Some(advice) = observed.packs[pack].advice.iter().find(|a| a.id == *id)
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

/// Load and device of a finding, from its evidence and the topology.
fn facts<'a>(observed: &Observation, finding: &'a Finding) -> LoadFacts<'a> {
    let of = |name: &str| {
        let is =
            |counter: &str| counter.split_once('.').is_some_and(|(object, n)| object == finding.object && n == name);
        finding.evidence.iter().find(|e| is(&e.counter)).and_then(|e| e.value)
    };
    let device = observed.topology.as_ref().and_then(|t| t.find_device(&finding.instance));
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

fn remarks(observed: &Observation) -> Vec<LogRemark> {
    let remark = |r: &crate::notes::NoteCount| LogRemark {
        time: format_rfc3339(r.time_ns),
        kind: r.kind.clone(),
        text: r.text.clone(),
        times: r.times,
    };
    observed.notes.list.iter().chain(&observed.notes.bookmarks).map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::{Bottleneck, Rank, beyond, group_of, weaker};

    #[test]
    fn what_is_stronger_than_the_answer_is_not_called_weaker() {
        let rank = |bottleneck, score, rule: &str| Rank { bottleneck, score, findings: vec![rule.to_owned()] };
        // memory is the answer though the disk scores higher and the processors score between them
        let ranking = [
            rank(Bottleneck::Disk, 0.9, "disk.saturated"),
            rank(Bottleneck::Cpu, 0.6, "cpu.full"),
            rank(Bottleneck::Memory, 0.5, "memory.paging"),
            rank(Bottleneck::Network, 0.4, "network.full"),
        ];
        assert_eq!(crate::rank::choose(&ranking, false), Bottleneck::Memory);
        let said = |index: usize| weaker(&ranking[index], &ranking, Bottleneck::Memory, false);
        assert_eq!(said(1), "memory is judged first: cpu.full held too (0.60 against 0.50)");
        assert_eq!(said(3), "weaker than memory: network.full (0.40 against 0.50)");
    }

    #[test]
    fn culprits_of_a_unit_with_an_instance_are_those_of_its_whole_path() {
        let unit = "/system.slice/postgresql@15-main.service";
        assert_eq!([group_of(unit), group_of(&format!("{unit}@sda"))], [unit; 2]);
        assert_eq!(group_of("/jobs"), "/jobs");
    }

    #[test]
    fn what_has_nothing_left_is_furthest_beyond_a_lower_limit() {
        assert!(beyond("below", 0.0, 0.1) > beyond("below", 0.01, 0.1));
        assert!(beyond("below", 0.01, 0.1) > beyond("below", 0.09, 0.1));
        assert!(beyond("below", -1000.0, -1.0) > beyond("below", -2.0, -1.0), "a trend");
        assert!(beyond("above", 3.0, 1.0) > beyond("above", 2.0, 1.0));
        assert_eq!(beyond("above", f64::NAN, 1.0), 0.0);
    }
}
