//! Puts a verdict together from an observation: ranking, confidence, phases, trends, culprits, advice and the sentence.

use std::collections::BTreeMap;

use diskwright_base::timestamp::parse_rfc3339;
use diskwright_base::{DeviceKind, kernel_threads::is_kernel_thread};

use crate::answer::blame::action_facts::action_facts;
use crate::answer::blame::all_bottlenecks::{FoundBottleneck, alike_text, find_bottlenecks};
use crate::answer::blame::blamed_programs::find_culprits;
use crate::answer::blame::database_blame::{DATABASE, disk_load_text, lock_sentence};
use crate::answer::blame::explanations::separate_explained;
use crate::answer::blame::relations::{
    BUSIEST_THREAD_COUNTER, CGROUP, MACHINE, PHYSICAL_DISK, Relations, is_memory_unrelated_to_disk,
    is_unrelated_to_disk,
};
use crate::answer::completion::complete_verdict;
use crate::answer::confidence::{
    DEFAULT_PACK, Strength, certainty_limits, has_unjudged_disks, is_inconclusive, judged_rule_count, may_hide_paging,
    may_hide_waiting, verdict_confidence,
};
use crate::answer::ended::set_ends;
use crate::answer::evidence_seen::{
    log_remarks, next_commands, program_activities, put_fullest_disk_first, seen_counters, serious_facts_text,
    shown_disks_text, watch_window,
};
use crate::answer::exclusion_texts::{nearest_rules_text, weaker_reason};
use crate::answer::limits::ceiling_remarks::describe_ceilings;
use crate::answer::limits::volume_use::{instance_use, volume_uses};
use crate::answer::ranking::{WindowVerdict, bottleneck_instance, choose_bottleneck, rank_bottlenecks, rule_score};
use crate::answer::rule_outcome::{RuleOutcome, build_finding, leading_condition, rule_outcomes};
use crate::answer::sentences::{
    ONE_BOTTLENECK, ONLY_BOTTLENECK, WindowLength, finding_held_text, one_thread_sentence, quantity_label,
    verdict_sentence,
};
use crate::answer::times::episodes::find_episodes;
use crate::answer::times::latest::{Decision, set_beginnings};
use crate::answer::times::phases::find_phases;
use crate::answer::verdict::*;
use crate::changes::{candidate_p_values, describe_changes, find_candidates, find_events};
use crate::compile::cgroup_path;
use crate::rules::{
    Advice, Bottleneck, BottleneckProof, Comparator, LoadFacts, LogOrigin, MissingCounters, Pack, Rule, fitting_actions,
};
use crate::run::{Judge, Observation};
use crate::trends::{Trend, TrendsFound, find_trends, name_growing_programs, runs_out_of_memory};

/// End of the ids of advice to look for the program that causes a load.
const SEARCH_ENDING: &str = ".find-process";
/// Levels of a score between 0 and 1 within which findings count as equally strong.
const SCORE_LEVELS: f64 = 50.0;
impl Judge {
    /// Verdicts on the ticks so far, one for each pack, in the packs' order.
    pub fn finish(&self) -> Vec<Verdict> {
        let observed = self.observation();
        (0..observed.packs.len()).map(|pack| PackAnswer::decide(observed, pack).into_verdict()).collect()
    }
}

/// One pack's answer on an observed window: what its rules found, and the bottleneck that was decided on. The rest of
/// the verdict follows from it.
struct PackAnswer<'a> {
    observed: &'a Observation,
    /// Position of the pack among those that judge. Only the first pack has phases and trends: further packs are judged
    /// only to compare their verdicts.
    pack_index: usize,
    pack: &'a Pack,
    /// Outcomes of all rules at all instances.
    outcomes: Vec<RuleOutcome<'a>>,
    /// The rules that held and that no other rule explains; those of the bottleneck first, then the strongest.
    findings: Vec<Finding>,
    /// The rules that held and that another rule explains.
    explained: Vec<SetAsideFinding>,
    ranking: Vec<Rank>,
    /// The rules that could not be judged.
    unjudged: Vec<UnjudgedRule>,
    /// Memory is short only in cgroups that do not use the blamed disk.
    is_memory_unrelated: bool,
    bottleneck: Bottleneck,
    /// All bottlenecks, the chosen one first; empty where nothing is blamed.
    bottlenecks: Vec<FoundBottleneck>,
    /// Counters that the log showed.
    seen: BTreeMap<&'a str, Option<f64>>,
    relations: Relations<'a>,
}

impl<'a> PackAnswer<'a> {
    /// Judges the rules of a pack and decides on the bottleneck.
    fn decide(observed: &'a Observation, pack_index: usize) -> PackAnswer<'a> {
        let outcomes = rule_outcomes(observed, pack_index);
        let relations = Relations::new(observed, &outcomes);
        let (held, explained) = separate_explained(&relations, &outcomes);
        let mut findings: Vec<Finding> = held.iter().filter_map(|o| build_finding(observed, o)).collect();
        sort_findings(&mut findings);
        if !observed.states.has_pressure {
            put_fullest_disk_first(&mut findings);
        }
        let explained = explained.iter().map(|(outcome, by)| set_aside_finding(outcome, by)).collect();
        let is_elsewhere =
            |memory: &RuleOutcome<'_>, disk: &RuleOutcome<'_>| is_unrelated_to_disk(&relations, memory, disk);
        let is_memory_unrelated = is_memory_unrelated_to_disk(held.iter().copied(), is_elsewhere);
        let scores = findings.iter().map(|f| (f.bottleneck, f.rule.as_str(), rule_score(f.weight, f.share)));
        let ranking = rank_bottlenecks(scores);
        let unjudged = unjudged_rules(observed, pack_index, &outcomes);
        let mut bottleneck = choose_bottleneck(&ranking, is_memory_unrelated);
        if bottleneck == Bottleneck::None && is_inconclusive(observed, pack_index, &findings, &unjudged, &outcomes) {
            bottleneck = Bottleneck::Unknown;
        }
        findings.sort_by_key(|f| f.bottleneck != bottleneck);
        let bottlenecks = find_bottlenecks(&relations, &findings, bottleneck);
        let decision = Decision { findings, ranking, bottleneck, bottlenecks };
        let Decision { findings, ranking, bottleneck, bottlenecks } =
            decision.with_latest(&relations, &outcomes, is_memory_unrelated);
        let pack = &observed.packs[pack_index];
        let seen = seen_counters(observed, &outcomes);
        PackAnswer {
            observed,
            pack_index,
            pack,
            outcomes,
            findings,
            explained,
            ranking,
            unjudged,
            is_memory_unrelated,
            bottleneck,
            bottlenecks,
            seen,
            relations,
        }
    }

    fn into_verdict(self) -> Verdict {
        let observed = self.observed;
        let bottlenecks: Vec<VerdictBottleneck> =
            self.bottlenecks.iter().map(|found| self.describe_bottleneck(found)).collect();
        let undecided = self.leading_finding().filter(|_| bottlenecks.is_empty());
        let instance = match (bottlenecks.first(), undecided) {
            (Some(first), _) => first.instance.clone(),
            (None, Some(finding)) => self.name_instance(finding),
            (None, None) => String::new(),
        };
        let of_undecided = undecided.map(|f| find_culprits(observed, f, &self.load_facts(f)));
        let (culprits, unlisted) = of_undecided.unwrap_or_default();
        let confidence = bottlenecks.first().map_or_else(|| self.confidence_in(None), |first| first.confidence);
        let (TrendsFound { list: trends, test_count: trend_questions, .. }, changes) = self.trends_and_changes();
        let mut verdict = Verdict {
            schema: SCHEMA,
            pack: self.pack.id.clone(),
            pack_title: self.pack.title.clone(),
            host: observed.topology.as_ref().map_or(String::new(), |t| t.host.clone()),
            bottleneck: self.bottleneck,
            confidence,
            sentence: match undecided {
                Some(finding) => self.write_sentence(finding, &instance, &culprits),
                None => self.no_bottleneck_sentence() + &serious_facts_text(&self.findings),
            },
            phases: self.phases(&instance, confidence),
            culprits,
            unlisted: Vec::from_iter(unlisted),
            requesters: self.requesters(),
            databases: observed.databases.shown_servers(),
            programs: program_activities(observed, self.bottleneck),
            changes,
            has_process_tables: observed.process_onsets.has_tables,
            advice: if bottlenecks.is_empty() { self.advice(|_| true) } else { Vec::new() },
            instance,
            bottlenecks,
            ended: None,
            events: if self.pack_index == 0 { find_events(observed) } else { Vec::new() },
            episodes: find_episodes(&self.relations, &self.outcomes, &self.findings),
            ruled_out: self.exclusions(&trends),
            send_next: self.next_commands(),
            missing: self.missing_counters(),
            ceilings: observed.ceilings.iter().filter(|c| observed.has_seen(&c.device)).cloned().collect(),
            volumes: volume_uses(observed),
            cloud_instance: instance_use(observed),
            notes: log_remarks(observed),
            captures: observed.notes.captures.iter().cloned().collect(),
            certainty_limits: self.certainty_limits(),
            trends,
            trend_questions,
            window: watch_window(observed),
            findings: self.findings,
            set_aside: self.explained,
            unjudged: self.unjudged,
            ranking: self.ranking,
        };
        set_times(&mut verdict);
        complete_verdict(observed, self.pack_index, verdict)
    }

    /// Counters that the unjudged rules lack, and how to record them.
    fn missing_counters(&self) -> MissingCounters {
        MissingCounters::from_counters(
            self.unjudged.iter().flat_map(UnjudgedRule::unrecorded_counters),
            self.observed.notes.source,
        )
    }

    /// The leading finding of the first bottleneck, or what leaves open whether there is one.
    fn leading_finding(&self) -> Option<&Finding> {
        let is_leading = |f: &&Finding| f.bottleneck == self.bottleneck && self.bottleneck != Bottleneck::None;
        self.findings.first().filter(is_leading)
    }

    /// Describes a bottleneck for the verdict.
    fn describe_bottleneck(&self, found: &FoundBottleneck) -> VerdictBottleneck {
        let leading = &self.findings[found.findings[0]];
        let instance = self.name_instance(leading);
        let (culprits, unlisted) = find_culprits(self.observed, leading, &self.load_facts(leading));
        let mut findings: Vec<String> = Vec::new();
        for finding in found.findings.iter().map(|index| &self.findings[*index]) {
            if !findings.contains(&finding.rule) {
                findings.push(finding.rule.clone());
            }
        }
        VerdictBottleneck {
            bottleneck: found.bottleneck,
            confidence: self.confidence_in(Some(found)),
            sentence: self.write_sentence(leading, &instance, &culprits) + &alike_text(&self.findings, found),
            instance,
            findings,
            since: leading.since.clone(),
            was_there: None,
            positions: found.findings.clone(),
            advice: self.find_remedies(found, leading, &culprits),
            unlisted,
            culprits,
        }
    }

    /// Commands that fit a bottleneck, then the advice of its findings. A program that is known need not be looked for.
    fn find_remedies(&self, found: &FoundBottleneck, leading: &Finding, culprits: &[Culprit]) -> Vec<Advice> {
        let mut list = Vec::new();
        if self.observed.notes.source == LogOrigin::Live {
            // a server's own finding has commands of its own, also where the disk below it leads
            let own = found.findings.iter().map(|index| &self.findings[*index]).filter(|f| f.object == DATABASE);
            for finding in std::iter::once(leading).chain(own) {
                let facts = action_facts(self.observed, finding, culprits, &self.load_facts(finding));
                let fitting = fitting_actions(found.bottleneck, &finding.object, &facts);
                list.extend(fitting.into_iter().filter(|advice| !list.contains(advice)).collect::<Vec<_>>());
            }
        }
        let is_found = culprits.iter().any(|culprit| culprit.pid.is_some() && !is_kernel_thread(&culprit.name));
        let general = self.advice(|index| found.findings.contains(&index));
        list.extend(general.into_iter().filter(|advice| !is_found || !advice.id.ends_with(SEARCH_ENDING)));
        list
    }

    /// Confidence of one of the bottlenecks, or of there being none.
    fn confidence_in(&self, found: Option<&FoundBottleneck>) -> f64 {
        let bottleneck = found.map_or(self.bottleneck, |found| found.bottleneck);
        let rank = self.ranking.iter().find(|rank| rank.bottleneck == bottleneck);
        let is_first = |found: &FoundBottleneck| self.bottlenecks.first().is_some_and(|first| first == found);
        let (score, rules) = match found {
            Some(found) if !is_first(found) => {
                let rules = found.findings.iter().map(|index| self.findings[*index].rule.as_str());
                (found.score(&self.findings), rules.collect())
            }
            _ => rank.map_or((0.0, Vec::new()), |r| (r.score, r.findings.iter().map(String::as_str).collect())),
        };
        let is_listed = |rank: &&Rank| self.bottlenecks.iter().any(|listed| listed.bottleneck == rank.bottleneck);
        let rivals = self.ranking.iter().filter(|rank| rank.bottleneck != bottleneck && !is_listed(rank));
        let rival = rivals.map(|rank| rank.score).fold(0.0, f64::max);
        let strength = Strength { bottleneck, score, rival, rules };
        verdict_confidence(self.observed, self.pack_index, &strength, &self.unjudged, &self.seen)
    }

    /// Instance that a bottleneck is named with; empty for the machine as a whole.
    fn name_instance(&self, leading: &Finding) -> String {
        let of_same_rule = self.findings.iter().filter(|f| f.rule == leading.rule);
        let of_same_rule = of_same_rule.map(|f| f.instance.as_str()).collect();
        bottleneck_instance(self.observed, leading.bottleneck, &leading.object, &leading.instance, of_same_rule)
    }

    fn phases(&self, instance: &str, confidence: f64) -> Vec<VerdictPhase> {
        if self.pack_index > 0 {
            return Vec::new();
        }
        let leading_rule = self.leading_finding().map(|first| (first.rule.as_str(), first.title.as_str()));
        let (bottleneck, unjudged) = (self.bottleneck, self.unjudged.as_slice());
        let began = self.findings.iter().filter_map(|f| parse_rfc3339(f.since.as_deref()?));
        let window_verdict = WindowVerdict {
            bottleneck,
            instance,
            confidence,
            unjudged,
            leading_rule,
            also: &self.bottlenecks.iter().skip(1).map(|found| self.describe_in_phase(found)).collect::<Vec<_>>(),
            began_ns: began.collect(),
        };
        find_phases(&self.relations, self.pack_index, &self.outcomes, &window_verdict)
    }

    /// A further bottleneck of the window, for its only phase.
    fn describe_in_phase(&self, found: &FoundBottleneck) -> PhaseBottleneck {
        let leading = &self.findings[found.findings[0]];
        PhaseBottleneck {
            bottleneck: found.bottleneck,
            instance: self.name_instance(leading),
            confidence: self.confidence_in(Some(found)),
            rule: leading.rule.clone(),
            title: leading.title.clone(),
        }
    }

    /// Trends and changes of level, which share one chance of error; only of the first pack.
    fn trends_and_changes(&self) -> (TrendsFound, Vec<Change>) {
        if self.pack_index > 0 {
            return (TrendsFound::default(), Vec::new());
        }
        let candidates = find_candidates(self.observed);
        let mut found = find_trends(self.observed, self.pack_index, &candidate_p_values(&candidates));
        name_growing_programs(self.observed, &mut found.list);
        let changes = describe_changes(self.observed, &candidates, &found.further);
        (found, changes)
    }

    /// A bottleneck in one sentence, by its leading finding.
    fn write_sentence(&self, leading: &Finding, instance: &str, culprits: &[Culprit]) -> String {
        let noun = if self.bottlenecks.len() > 1 { ONE_BOTTLENECK } else { ONLY_BOTTLENECK };
        let window = WindowLength::from_observation(self.observed);
        if leading.counter == BUSIEST_THREAD_COUNTER {
            return one_thread_sentence(noun, leading, culprits.first(), window);
        }
        let held = finding_held_text(leading, window);
        if let Some(sentence) = lock_sentence(self.observed, leading, noun, &held) {
            return sentence;
        }
        let label = self.quantity_label(leading).unwrap_or_default();
        let sentence = verdict_sentence((instance, noun), leading, &label, window);
        let rule = self.pack.find_rule(&leading.rule);
        let disks = rule.map_or(String::new(), |rule| shown_disks_text(rule, &self.outcomes));
        sentence + &disks + &disk_load_text(self.observed, leading, culprits)
    }

    /// Label of the leading quantity of a finding.
    fn quantity_label(&self, finding: &Finding) -> Option<String> {
        let rule = self.pack.find_rule(&finding.rule)?;
        let is_same = |o: &&RuleOutcome<'_>| o.rule.id == rule.id && o.progress.instance == finding.instance;
        let outcome = self.outcomes.iter().find(is_same)?;
        rule.conditions().nth(leading_condition(rule, outcome.progress)).map(quantity_label)
    }

    fn no_bottleneck_sentence(&self) -> String {
        let pack = &self.pack.id;
        if self.observed.window.elapsed_ns == 0 {
            return match self.observed.window.ticks {
                0 => "Not enough data: nothing was recorded in this time.".into(),
                _ => "Not enough data: the window has only a tick that covers no known time.".into(),
            };
        }
        let window = WindowLength::from_observation(self.observed).to_text();
        let judged = judged_rule_count(self.observed, self.pack_index);
        let rules = judged + self.unjudged.len();
        if judged == 0 {
            return format!("Not enough data: the log has none of the counters that the {pack} pack needs.");
        }
        if self.bottleneck == Bottleneck::Unknown {
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

    fn certainty_limits(&self) -> Vec<String> {
        let mut limits = certainty_limits(self.observed, self.pack_index, &self.unjudged, self.bottleneck);
        if self.pack.rules.iter().any(Rule::needs_ceiling) {
            limits.extend(describe_ceilings(self.observed, &disks_near_limits(&self.outcomes)));
        }
        limits
    }

    /// Programs that sent requests to the blamed disk, by operation; empty without a trace of requests.
    fn requesters(&self) -> Vec<OperationRequesters> {
        let observed = self.observed;
        let Some(finding) = self.leading_finding().filter(|f| f.object == PHYSICAL_DISK) else { return Vec::new() };
        let device = observed.topology.as_ref().and_then(|topology| topology.find_device(&finding.instance));
        let node = device.filter(|device| device.kind == DeviceKind::Multipath);
        let paths = node.map_or(&[][..], |node| node.below.as_slice());
        observed.requesters.operations_on_paths(&finding.instance, paths, &observed.culprits.written_bytes_by_name())
    }

    /// Commands that would tell what this log leaves open.
    fn next_commands(&self) -> Vec<NextCommand> {
        let is_of_machine = self.leading_finding().is_some_and(|finding| finding.object == MACHINE);
        let has_program = !self.observed.culprits.for_bottleneck(self.bottleneck, None, None).is_empty();
        next_commands(self.observed, self.bottleneck, is_of_machine, has_program, &self.seen)
    }

    /// Reasons against each other bottleneck that the pack could judge and the log would have shown. Where the log does
    /// not allow an answer, nothing is ruled out.
    fn exclusions(&self, trends: &[Trend]) -> Vec<Exclusion> {
        if self.bottleneck == Bottleneck::Unknown {
            return Vec::new();
        }
        let mut list = Vec::new();
        // other packs judge by counters of their own
        let is_unseen =
            |bottleneck: &Bottleneck| *bottleneck == Bottleneck::Disk && self.observed.notes.lacks_disk_rows;
        let source = self.observed.notes.source;
        let has_proof = |bottleneck: Bottleneck| {
            let proof = BottleneckProof::for_bottleneck(bottleneck).filter(|_| self.pack.id == DEFAULT_PACK);
            let proof = proof.filter(|proof| proof.is_needed_of(source));
            if bottleneck == Bottleneck::Disk && may_hide_waiting(self.observed, &self.seen)
                || bottleneck == Bottleneck::Memory && (may_hide_paging(&self.seen) || runs_out_of_memory(trends))
            {
                return false;
            }
            if bottleneck == Bottleneck::Disk && has_unjudged_disks(self.observed, self.pack_index, &self.unjudged) {
                return false;
            }
            proof.is_none_or(|proof| proof.is_given_by(&self.seen))
                || self.explained.iter().any(|e| e.bottleneck == bottleneck)
        };
        let is_listed =
            |bottleneck: &Bottleneck| self.bottlenecks.iter().any(|listed| listed.bottleneck == *bottleneck);
        for bottleneck in Bottleneck::ALL.into_iter().filter(|b| !is_listed(b) && b.blames() && !is_unseen(b)) {
            if has_proof(bottleneck)
                && let Some(because) = self.exclusion_reason(bottleneck)
            {
                list.push(Exclusion { bottleneck, because });
            }
        }
        list
    }

    /// Reason against a bottleneck; `None` where the pack could not judge it.
    fn exclusion_reason(&self, bottleneck: Bottleneck) -> Option<String> {
        let blames_it = |o: &&RuleOutcome<'_>| o.rule.bottleneck == bottleneck && o.rule.weight > 0.0;
        let judged: Vec<&RuleOutcome<'_>> =
            self.outcomes.iter().filter(blames_it).filter(|o| o.share.is_some()).collect();
        if judged.is_empty() {
            return None;
        }
        if let Some(rank) = self.ranking.iter().find(|rank| rank.bottleneck == bottleneck) {
            return Some(weaker_reason(rank, &self.ranking, self.bottleneck, self.is_memory_unrelated));
        }
        if let Some(aside) = self.explained.iter().find(|s| s.bottleneck == bottleneck) {
            let subject = if aside.instance.is_empty() { String::new() } else { format!("{}: ", aside.instance) };
            return Some(format!("{subject}{}, but {}", aside.title, aside.because));
        }
        nearest_rules_text(self.observed, &judged)
    }

    /// Remedies of some findings, given by position, that fit their load and device: cheapest first, and in the
    /// authority's order at equal cost.
    fn advice(&self, is_behind: impl Fn(usize) -> bool) -> Vec<Advice> {
        let mut list: Vec<Advice> = Vec::new();
        for finding in self.findings.iter().enumerate().filter(|(index, _)| is_behind(*index)).map(|(_, f)| f) {
            let facts = self.load_facts(finding);
            for id in &finding.advice {
                if let Some(advice) = self.pack.advice.iter().find(|a| a.id == *id)
                    && advice.when.matches_facts(&facts)
                    && let Some(advice) = advice.for_system(self.observed.notes.source)
                    && !list.contains(&advice)
                {
                    list.push(advice);
                }
            }
        }
        list.sort_by_key(|a| a.cost);
        list
    }

    /// Load and device of a finding, from its evidence and the topology.
    fn load_facts<'f>(&self, finding: &'f Finding) -> LoadFacts<'f> {
        let value = |name: &str| {
            let is_named = |counter: &str| {
                counter.split_once('.').is_some_and(|(object, n)| object == finding.object && n == name)
            };
            finding.evidence.iter().find(|e| is_named(&e.counter)).and_then(|e| e.value)
        };
        let device = self.observed.topology.as_ref().and_then(|t| t.find_device(&finding.instance));
        LoadFacts {
            object: &finding.object,
            class: device.map(|d| d.class),
            reads_per_s: value("reads_per_s"),
            writes_per_s: value("writes_per_s"),
            read_bytes_per_s: value("read_bytes_per_s"),
            write_bytes_per_s: value("write_bytes_per_s"),
            transfers_per_s: value("transfers_per_s"),
            bytes_per_s: value("bytes_per_s"),
            in_flight: value("avg_queue_length"),
            write_cache_on: device.is_some_and(|d| d.write_cache.as_deref() == Some("write back")),
        }
    }
}

/// Sort key: how far a finding's value is beyond its limit, as a ratio; infinite for a quantity that must not be low
/// and is zero.
fn limit_excess(finding: &Finding) -> f64 {
    excess_ratio(finding.compare, finding.value, finding.limit)
}

fn excess_ratio(compare: &str, value: f64, limit: f64) -> f64 {
    let has_upper_limit = compare == Comparator::Above.name() || compare == Comparator::AtLeast.name();
    let ratio = match has_upper_limit {
        true => value / limit,
        // a trend below a negative limit: the steeper fall is further beyond
        false if limit < 0.0 => value / limit,
        false => limit / value,
    };
    if ratio.is_nan() { 0.0 } else { ratio }
}

/// Sorts findings, strongest first; of one rule the instance furthest beyond the limit, and a cgroup before its
/// parents, whose figures include it.
fn sort_findings(findings: &mut [Finding]) {
    let score_level = |f: &Finding| (rule_score(f.weight, f.share) * SCORE_LEVELS).round() as i64;
    let depth = |f: &Finding| if f.object == CGROUP { cgroup_path(&f.instance).matches('/').count() } else { 0 };
    findings.sort_by(|a, b| {
        let by_score = score_level(b).cmp(&score_level(a));
        let by_rule = || a.bottleneck.cmp(&b.bottleneck).then_with(|| a.rule.cmp(&b.rule));
        let by_instance = || depth(b).cmp(&depth(a)).then_with(|| limit_excess(b).total_cmp(&limit_excess(a)));
        by_score.then_with(by_rule).then_with(by_instance).then_with(|| a.instance.cmp(&b.instance))
    });
}

fn set_aside_finding(outcome: &RuleOutcome<'_>, explaining_rule: &str) -> SetAsideFinding {
    SetAsideFinding {
        rule: outcome.rule.id.clone(),
        title: outcome.rule.title.clone(),
        bottleneck: outcome.rule.bottleneck,
        instance: outcome.progress.instance.clone(),
        because: format!("{explaining_rule} explains it"),
    }
}

/// The disks at which a rule that blames a disk held, or held for half of its share of the time.
fn disks_near_limits<'a>(outcomes: &'a [RuleOutcome<'_>]) -> Vec<&'a str> {
    let is_near_limit = |o: &&RuleOutcome<'_>| {
        let blames_disk =
            matches!(o.rule.bottleneck, Bottleneck::Disk | Bottleneck::Application) && o.rule.weight > 0.0;
        let is_half_sustained = o.share.is_some_and(|share| share > 0.0 && share >= o.rule.sustained.share / 2.0);
        o.rule.object == PHYSICAL_DISK && blames_disk && is_half_sustained
    };
    let names = outcomes.iter().filter(is_near_limit).map(|o| o.progress.instance.as_str());
    let mut disks: Vec<&str> = names.filter(|instance| !instance.is_empty()).collect();
    disks.sort_unstable();
    disks.dedup();
    disks
}

/// Rules that apply but could not be judged at any instance.
fn unjudged_rules(observed: &Observation, pack: usize, outcomes: &[RuleOutcome<'_>]) -> Vec<UnjudgedRule> {
    let mut list = Vec::new();
    for (index, rule) in observed.packs[pack].rules.iter().enumerate() {
        let state = &observed.states.rules[pack][index];
        let mut of_rule = outcomes.iter().filter(|o| o.rule_index == index).peekable();
        // an outcome has the rule as it was judged, perhaps of logical disks
        let applied = of_rule.peek().map_or(rule, |o| o.rule);
        let has_only_gaps = state.judged && of_rule.peek().is_some() && of_rule.all(|o| o.share.is_none());
        let missing: Vec<String> = if !state.judged {
            state.missing.iter().cloned().collect()
        } else if has_only_gaps {
            applied.conditions().map(|c| format!("{} (gaps only)", c.quantity.counter.id)).collect()
        } else {
            Vec::new()
        };
        if !missing.is_empty() {
            list.push(UnjudgedRule { rule: rule.id.clone(), bottleneck: rule.bottleneck, missing, has_only_gaps });
        }
    }
    list
}

/// Sets when each bottleneck began or ended, and the fields that repeat the bottlenecks.
fn set_times(verdict: &mut Verdict) {
    set_beginnings(verdict);
    set_ends(verdict);
    verdict.follow_bottlenecks();
}

#[cfg(test)]
mod tests {
    use super::excess_ratio;

    #[test]
    fn zero_is_furthest_beyond_a_lower_limit() {
        assert!(excess_ratio("below", 0.0, 0.1) > excess_ratio("below", 0.01, 0.1));
        assert!(excess_ratio("below", 0.01, 0.1) > excess_ratio("below", 0.09, 0.1));
        assert!(excess_ratio("below", -1000.0, -1.0) > excess_ratio("below", -2.0, -1.0), "a trend");
        assert!(excess_ratio("above", 3.0, 1.0) > excess_ratio("above", 2.0, 1.0));
        assert_eq!(excess_ratio("above", f64::NAN, 1.0), 0.0);
    }
}
