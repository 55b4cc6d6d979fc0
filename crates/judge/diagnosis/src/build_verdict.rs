//! Puts a verdict together from an observation: ranking, confidence, phases, trends, culprits, advice and the sentence.

use diskwright_base::DeviceKind;
use diskwright_base::counter_ids::system;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_duration;

use std::collections::BTreeMap;

use crate::advice::{Advice, LoadFacts};
use crate::culprits::BlamedDisk;
use crate::log_origin::MissingCounters;
use crate::observation::Observation;
use crate::ranking::{MIN_SCORE, WindowVerdict, bottleneck_instance, choose_bottleneck, rank_bottlenecks, rule_score};
use crate::rule::{Bottleneck, Rule};
use crate::rule_outcome::{
    CPU_QUOTA_PREFIX, RuleOutcome, build_finding, find_episodes, is_memory_unrelated_to_disk, is_unrelated_to_disk,
    leading_condition, rule_outcomes, separate_explained,
};
use crate::schema_index::split_cgroup_device;
use crate::sentences::{Approach, describe_approach, one_thread_sentence, quantity_label, verdict_sentence};
use crate::verdict::*;

/// Largest number of rules named when a bottleneck is ruled out.
const MAX_REASONS: usize = 3;
/// Counter of the processor share of the busiest thread.
const BUSIEST_THREAD_COUNTER: &str = system::BUSIEST_THREAD;

/// Builds the verdict of one pack on an observed window.
pub(crate) fn build_verdict(observed: &Observation, pack_index: usize) -> Verdict {
    let pack = &observed.packs[pack_index];
    let all = rule_outcomes(observed, pack_index);
    let (held, aside) = separate_explained(observed, &all);
    let mut findings: Vec<Finding> = held.iter().filter_map(|o| build_finding(observed, o)).collect();
    sort_findings(&mut findings);
    let ranking =
        rank_bottlenecks(findings.iter().map(|f| (f.bottleneck, f.rule.as_str(), rule_score(f.weight, f.share))));
    let unjudged = unjudged_rules(observed, pack_index, &all);
    let apart =
        is_memory_unrelated_to_disk(held.iter().copied(), |memory, disk| is_unrelated_to_disk(observed, memory, disk));
    let is_open = || crate::confidence::is_inconclusive(observed, pack_index, &findings, &unjudged);
    let bottleneck = Some(choose_bottleneck(&ranking, apart)).filter(|b| *b != Bottleneck::None || !is_open());
    let bottleneck = bottleneck.unwrap_or(Bottleneck::Unknown);
    findings.sort_by_key(|f| f.bottleneck != bottleneck);
    let first = findings.first().filter(|f| f.bottleneck == bottleneck && bottleneck != Bottleneck::None);
    let instance = first.map_or(String::new(), |first| verdict_instance(observed, first, &findings));
    let set_aside: Vec<SetAsideFinding> = aside.iter().map(|(o, by)| set_aside_finding(o, by)).collect();
    let confidence = crate::confidence::verdict_confidence(observed, pack_index, bottleneck, &ranking, &unjudged);
    let told = first.map(|first| (first.rule.as_str(), first.title.as_str()));
    let whole = WindowVerdict { bottleneck, instance: &instance, confidence, unjudged: &unjudged, leading_rule: told };
    let phases =
        if pack_index == 0 { crate::phases::find_phases(observed, pack_index, &all, &whole) } else { Vec::new() };
    let ruled_out = exclusions(observed, pack_index, &all, (bottleneck, apart), &ranking, &set_aside);
    let mut certainty_limits = crate::confidence::certainty_limits(observed, pack_index, &unjudged, bottleneck);
    if pack.rules.iter().any(Rule::needs_ceiling) {
        certainty_limits.extend(crate::ceiling_remarks::describe_ceilings(observed, &disks_near_limits(&all)));
    }
    let (trends, trend_questions) = trends_of_first_pack(observed, pack_index);
    let culprits = find_culprits(observed, bottleneck, first);
    let first_label = first.and_then(|first| finding_label(pack.find_rule(&first.rule)?, first, &all));
    Verdict {
        schema: SCHEMA,
        pack: pack.id.clone(),
        pack_title: pack.title.clone(),
        host: observed.topology.as_ref().map_or(String::new(), |t| t.host.clone()),
        bottleneck,
        confidence,
        sentence: match first {
            Some(first) => blaming_sentence(observed, &instance, first, &first_label.unwrap_or_default(), &culprits),
            None => no_bottleneck_sentence(observed, pack_index, &unjudged, bottleneck),
        },
        phases,
        culprits,
        requesters: requesters_of_blamed_disk(observed, first),
        programs: if bottleneck.blames() { Vec::new() } else { observed.culprits.program_activities() },
        advice: select_advice(observed, pack_index, bottleneck, &findings),
        instance,
        findings,
        episodes: find_episodes(observed, &all),
        set_aside,
        ruled_out,
        missing: MissingCounters::from_unjudged(&unjudged, observed.notes.source),
        unjudged,
        ranking,
        ceilings: observed.ceilings.iter().filter(|c| observed.has_seen(&c.device)).cloned().collect(),
        notes: log_remarks(observed),
        certainty_limits,
        trends,
        trend_questions,
        window: watch_window(observed),
    }
}

/// Trends of the first pack; further packs are judged only to compare their verdicts, and have none.
fn trends_of_first_pack(observed: &Observation, pack_index: usize) -> (Vec<crate::trends::Trend>, usize) {
    if pack_index == 0 { crate::trends::find_trends(observed, pack_index) } else { (Vec::new(), 0) }
}

fn blaming_sentence(
    observed: &Observation,
    instance: &str,
    first: &Finding,
    label: &str,
    culprits: &[Culprit],
) -> String {
    let window_s = observed.window.seconds();
    match first.counter.as_str() {
        BUSIEST_THREAD_COUNTER => one_thread_sentence(first, culprits.first(), window_s),
        _ => verdict_sentence(instance, first, label, window_s),
    }
}

fn watch_window(observed: &Observation) -> WatchWindow {
    WatchWindow {
        from: format_rfc3339(observed.window.from_ns),
        to: format_rfc3339(observed.window.to_ns),
        seconds: observed.window.seconds(),
        ticks: observed.window.ticks,
        gaps: observed.notes.gaps,
    }
}

/// Programs that sent requests to the blamed disk, by operation; empty without a trace of requests.
fn requesters_of_blamed_disk(observed: &Observation, first: Option<&Finding>) -> Vec<OperationRequesters> {
    let disk = first.filter(|finding| finding.object == "physical_disk");
    let of = |finding: &Finding| {
        let device = observed.topology.as_ref().and_then(|topology| topology.find_device(&finding.instance));
        let node = device.filter(|device| device.kind == DeviceKind::Multipath);
        let paths = node.map_or(&[][..], |node| node.below.as_slice());
        observed.requesters.operations_on_paths(&finding.instance, paths, &observed.culprits.written_bytes_by_name())
    };
    disk.map(of).unwrap_or_default()
}

/// Culprits of the verdict; for a blamed disk those that use it, as far as the log shows.
fn find_culprits(observed: &Observation, bottleneck: Bottleneck, first: Option<&Finding>) -> Vec<Culprit> {
    if first.is_some_and(|f| f.counter == BUSIEST_THREAD_COUNTER) {
        return observed.culprits.with_busiest_threads();
    }
    let cgroup = first.filter(|f| f.object == "cgroup").map(|f| cgroup_path(&f.instance));
    let disk = first.filter(|f| f.object == "physical_disk" && bottleneck != Bottleneck::Memory);
    let blamed = disk.and_then(|finding| {
        let facts = load_facts(observed, finding);
        // a stalled disk moves nothing, so its rates do not limit how much a process can have done on it
        let moves = [facts.read_bytes_per_s, facts.write_bytes_per_s].iter().flatten().any(|bytes| *bytes > 0.0);
        (observed.disk_count() > 1).then(|| BlamedDisk {
            name: finding.instance.clone(),
            read_bytes_per_s: facts.read_bytes_per_s.filter(|_| moves),
            write_bytes_per_s: facts.write_bytes_per_s.filter(|_| moves),
            cgroup_shares: observed.cgroup_shares_on(&finding.instance),
        })
    });
    // a quota of processor time holds back processes that compute, not those that use disks
    let matter = match first {
        Some(first) if first.counter.starts_with(CPU_QUOTA_PREFIX) => Bottleneck::Cpu,
        _ => bottleneck,
    };
    observed.culprits.for_bottleneck(matter, cgroup, blamed.as_ref())
}

/// A cgroup's path, without the device that follows in I/O instances.
fn cgroup_path(instance: &str) -> &str {
    split_cgroup_device(instance).map_or(instance, |(path, _)| path)
}

/// Sort key: how far a finding's value is beyond its limit. Zero of a quantity that must not be low is furthest.
fn limit_excess(finding: &Finding) -> f64 {
    excess_ratio(finding.compare, finding.value, finding.limit)
}

fn excess_ratio(compare: &str, value: f64, limit: f64) -> f64 {
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
fn sort_findings(findings: &mut [Finding]) {
    let rough = |f: &Finding| (rule_score(f.weight, f.share) * 50.0).round() as i64;
    let depth = |f: &Finding| if f.object == "cgroup" { cgroup_path(&f.instance).matches('/').count() } else { 0 };
    findings.sort_by(|a, b| {
        let by_score = rough(b).cmp(&rough(a));
        let by_rule = || a.bottleneck.cmp(&b.bottleneck).then_with(|| a.rule.cmp(&b.rule));
        let by_place = || depth(b).cmp(&depth(a)).then_with(|| limit_excess(b).total_cmp(&limit_excess(a)));
        by_score.then_with(by_rule).then_with(by_place).then_with(|| a.instance.cmp(&b.instance))
    });
}

/// Instance that the verdict names for its first finding.
fn verdict_instance(observed: &Observation, first: &Finding, findings: &[Finding]) -> String {
    let same = findings.iter().filter(|f| f.rule == first.rule).map(|f| f.instance.as_str()).collect();
    bottleneck_instance(observed, first.bottleneck, &first.object, &first.instance, same)
}

fn finding_label(rule: &Rule, finding: &Finding, all: &[RuleOutcome<'_>]) -> Option<String> {
    let outcome = all.iter().find(|o| o.rule.id == rule.id && o.stream.instance == finding.instance)?;
    rule.conditions().nth(leading_condition(rule, outcome.stream)).map(quantity_label)
}

fn no_bottleneck_sentence(
    observed: &Observation,
    pack_index: usize,
    unjudged: &[UnjudgedRule],
    bottleneck: Bottleneck,
) -> String {
    let pack = &observed.packs[pack_index].id;
    if observed.window.elapsed_ns == 0 {
        return "Not enough data: the window is empty.".into();
    }
    let window = format_duration(observed.window.seconds());
    let judged = crate::confidence::judged_rule_count(observed, pack_index);
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

fn set_aside_finding(outcome: &RuleOutcome<'_>, by: &str) -> SetAsideFinding {
    SetAsideFinding {
        rule: outcome.rule.id.clone(),
        title: outcome.rule.title.clone(),
        bottleneck: outcome.rule.bottleneck,
        instance: outcome.stream.instance.clone(),
        because: format!("{by} explains it"),
    }
}

/// The disks that the verdict is about, or nearly is.
fn disks_near_limits<'a>(outcomes: &'a [RuleOutcome<'_>]) -> Vec<&'a str> {
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
fn unjudged_rules(observed: &Observation, pack: usize, all: &[RuleOutcome<'_>]) -> Vec<UnjudgedRule> {
    let mut list = Vec::new();
    for (index, rule) in observed.packs[pack].rules.iter().enumerate() {
        let state = &observed.states.rules[pack][index];
        let mut here = all.iter().filter(|o| o.rule_index == index).peekable();
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
fn exclusions(
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
            Some(rank) => weaker_reason(rank, ranking, chosen, apart),
            None => nearest_rules_text(observed, &judged),
        };
        if let Some(aside) = set_aside.iter().find(|s| s.bottleneck == bottleneck) {
            let place = if aside.instance.is_empty() { String::new() } else { format!("{}: ", aside.instance) };
            because = format!("{place}{}, but {}", aside.title, aside.because);
        }
        list.push(Exclusion { bottleneck, because });
    }
    list
}

fn weaker_reason(rank: &Rank, ranking: &[Rank], chosen: Bottleneck, apart: bool) -> String {
    let rules = rank.findings.join(", ");
    // not always the best score: memory is chosen before a stronger disk, and of equal scores the first suspect
    let own = ranking.iter().find(|r| r.bottleneck == chosen).map_or(0.0, |r| r.score);
    match chosen {
        Bottleneck::None | Bottleneck::Unknown => {
            format!("too weak to blame: {rules} ({:.2}, at least {MIN_SCORE} needed)", rank.score)
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
fn nearest_rules_text(observed: &Observation, judged: &[&RuleOutcome<'_>]) -> String {
    let mut by_rule: BTreeMap<usize, Approach> = BTreeMap::new();
    for outcome in judged {
        let Some(approach) = describe_approach(observed, outcome) else { continue };
        match by_rule.get(&outcome.rule_index) {
            Some(known) if known.closeness >= approach.closeness => {}
            _ => {
                by_rule.insert(outcome.rule_index, approach);
            }
        }
    }
    let mut approaches: Vec<Approach> = by_rule.into_values().collect();
    approaches.sort_by(|a, b| b.closeness.total_cmp(&a.closeness));
    let mut chosen: Vec<Approach> = Vec::new();
    for approach in approaches {
        if chosen.len() < MAX_REASONS && !chosen.iter().any(|t| t.subject == approach.subject) {
            chosen.push(approach);
        }
    }
    let texts: Vec<String> = chosen.into_iter().map(|t| t.text).collect();
    if texts.is_empty() { "no sign of it".into() } else { texts.join("; ") }
}

/// Selects the remedies of the findings behind the verdict (of all findings where nothing is blamed) that fit their
/// load and device: cheapest first, and in the authority's order at equal cost.
fn select_advice(observed: &Observation, pack: usize, bottleneck: Bottleneck, findings: &[Finding]) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for finding in findings.iter().filter(|f| !bottleneck.blames() || f.bottleneck == bottleneck) {
        let facts = load_facts(observed, finding);
        for id in &finding.advice {
            if let Some(advice) = observed.packs[pack].advice.iter().find(|a| a.id == *id)
                && advice.when.matches_facts(&facts)
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
fn load_facts<'a>(observed: &Observation, finding: &'a Finding) -> LoadFacts<'a> {
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
        in_flight: of("avg_queue_length"),
        write_cache_on: device.is_some_and(|d| d.write_cache.as_deref() == Some("write back")),
    }
}

fn log_remarks(observed: &Observation) -> Vec<LogRemark> {
    let remark = |r: &crate::log_notes::NoteCount| LogRemark {
        time: format_rfc3339(r.time_ns),
        kind: r.kind.clone(),
        text: r.text.clone(),
        times: r.times,
    };
    observed.notes.remarks.iter().chain(&observed.notes.bookmarks).map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::{Bottleneck, Rank, cgroup_path, excess_ratio, weaker_reason};

    #[test]
    fn a_bottleneck_stronger_than_the_answer_is_not_called_weaker() {
        let rank = |bottleneck, score, rule: &str| Rank { bottleneck, score, findings: vec![rule.to_owned()] };
        // memory is the answer though the disk scores higher and the processors score between them
        let ranking = [
            rank(Bottleneck::Disk, 0.9, "disk.saturated"),
            rank(Bottleneck::Cpu, 0.6, "cpu.full"),
            rank(Bottleneck::Memory, 0.5, "memory.paging"),
            rank(Bottleneck::Network, 0.4, "network.full"),
        ];
        assert_eq!(crate::ranking::choose_bottleneck(&ranking, false), Bottleneck::Memory);
        let said = |index: usize| weaker_reason(&ranking[index], &ranking, Bottleneck::Memory, false);
        assert_eq!(said(1), "memory is judged first: cpu.full held too (0.60 against 0.50)");
        assert_eq!(said(3), "weaker than memory: network.full (0.40 against 0.50)");
    }

    #[test]
    fn culprits_of_a_unit_with_an_instance_are_those_of_its_whole_path() {
        let unit = "/system.slice/postgresql@15-main.service";
        assert_eq!([cgroup_path(unit), cgroup_path(&format!("{unit}@sda"))], [unit; 2]);
        assert_eq!(cgroup_path("/jobs"), "/jobs");
    }

    #[test]
    fn zero_is_furthest_beyond_a_lower_limit() {
        assert!(excess_ratio("below", 0.0, 0.1) > excess_ratio("below", 0.01, 0.1));
        assert!(excess_ratio("below", 0.01, 0.1) > excess_ratio("below", 0.09, 0.1));
        assert!(excess_ratio("below", -1000.0, -1.0) > excess_ratio("below", -2.0, -1.0), "a trend");
        assert!(excess_ratio("above", 3.0, 1.0) > excess_ratio("above", 2.0, 1.0));
        assert_eq!(excess_ratio("above", f64::NAN, 1.0), 0.0);
    }
}
