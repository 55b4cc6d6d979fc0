//! Phases of a recording: the window cut at changes of the bottleneck and at bookmarks, with one answer for each phase.
//!
//! A span of ten seconds (or of three parts of the window, if those are longer) slides over the parts. The rules that
//! hold for their shares of the span are ranked like those of the whole window. Neighbors with the same answer form one
//! phase, and a piece that is shorter than the span joins its longer neighbor.

use std::collections::HashMap;

use crate::answer::blame::all_bottlenecks::{Suspect, group_suspects};
use crate::answer::blame::database_blame::is_lock_rule;
use crate::answer::blame::relations::{
    Blame, Relations, are_judged_alike, are_related, is_memory_unrelated_to_disk, is_shortage, is_unrelated,
    is_unrelated_to_disk,
};
use crate::answer::confidence::{remaining_confidence, round_confidence, score_confidence};
use crate::answer::ranking::{WindowVerdict, bottleneck_instance, choose_bottleneck, rank_bottlenecks, rule_score};
use crate::answer::rule_outcome::RuleOutcome;
use crate::answer::verdict::{PhaseBottleneck, Rank, VerdictPhase};
use crate::rules::{Bottleneck, Rule};
use crate::run::Observation;
use crate::sums::WindowGrid;
use diskwright_base::timestamp::format_rfc3339;

/// Length of the sliding span, seconds.
const SPAN_S: f64 = 10.0;
/// Smallest number of parts in the span.
const MIN_SPAN_PARTS: usize = 3;
/// Smallest share of the span at which a rule must hold, where the rule itself requires less.
const MIN_SHARE: f64 = 0.1;

/// Smallest confidence of a phase that blames something; less would be printed as 0 %.
const MIN_CONFIDENCE: f64 = 0.01;

/// A rule at an instance, with the prefix sums of the seconds for which it held in each part.
struct RuleTrack<'a> {
    outcome: &'a RuleOutcome<'a>,
    sums: Vec<f64>,
}

/// Parts `from..to` of the window, which have one answer.
#[derive(Clone, Debug, PartialEq)]
struct PhaseRange {
    from: usize,
    to: usize,
    bottleneck: Bottleneck,
    instance: String,
    /// The further bottlenecks, sorted.
    also: Vec<(Bottleneck, String)>,
}

impl PhaseRange {
    fn new(from: usize, to: usize, verdict: PartsVerdict<'_>) -> PhaseRange {
        let mut also: Vec<_> = verdict.also.into_iter().map(|one| (one.bottleneck, one.instance)).collect();
        also.sort();
        PhaseRange { from, to, bottleneck: verdict.bottleneck, instance: verdict.instance, also }
    }

    /// True where both have the same bottlenecks.
    fn is_like(&self, other: &PhaseRange) -> bool {
        self.bottleneck == other.bottleneck && self.instance == other.instance && self.also == other.also
    }
}

/// The bottlenecks of some parts.
struct PartsVerdict<'a> {
    ranking: Vec<Rank>,
    bottleneck: Bottleneck,
    /// Outcome of the strongest rule that points at the bottleneck; `None` where no rule does.
    leading: Option<&'a RuleOutcome<'a>>,
    instance: String,
    /// The further bottlenecks, the strongest first.
    also: Vec<FurtherBottleneck<'a>>,
}

/// A bottleneck of some parts beside the first.
struct FurtherBottleneck<'a> {
    bottleneck: Bottleneck,
    instance: String,
    score: f64,
    leading: &'a RuleOutcome<'a>,
}

impl FurtherBottleneck<'_> {
    fn describe(&self, confidence: f64) -> PhaseBottleneck {
        PhaseBottleneck {
            bottleneck: self.bottleneck,
            instance: self.instance.clone(),
            confidence: round_confidence(confidence),
            rule: self.leading.rule.id.clone(),
            title: self.leading.rule.title.clone(),
        }
    }
}

/// The rules and parts from which phases are found.
struct PhaseTimeline<'a> {
    observed: &'a Observation,
    relations: &'a Relations<'a>,
    tracks: Vec<RuleTrack<'a>>,
    /// Prefix sums of the parts' lengths, seconds.
    time: Vec<f64>,
    /// Shortages, and what they are known not to be the reason for; true where [`is_unrelated_to_disk`] says so too.
    unrelated: HashMap<(RulePlace<'a>, RulePlace<'a>), bool>,
}

/// Id of a rule, and an instance at which it is judged.
type RulePlace<'a> = (&'a str, &'a str);

fn rule_place<'a>(outcome: &RuleOutcome<'a>) -> RulePlace<'a> {
    (&outcome.rule.id, &outcome.progress.instance)
}

/// Finds the phases of a window; at least one unless the window is empty.
pub(crate) fn find_phases(
    relations: &Relations<'_>,
    pack: usize,
    outcomes: &[RuleOutcome<'_>],
    window_verdict: &WindowVerdict<'_>,
) -> Vec<VerdictPhase> {
    let observed = relations.observed;
    let grid = &observed.grid;
    if grid.parts.is_empty() || observed.window.elapsed_ns == 0 {
        return Vec::new();
    }
    let timeline = PhaseTimeline::new(relations, grid, outcomes);
    let cuts = phase_borders(observed, grid, &window_verdict.began_ns);
    let mut pieces: Vec<PhaseRange> = Vec::new();
    for cut in cuts.windows(2) {
        pieces.extend(timeline.split_range(cut[0], cut[1]));
    }
    // equal answers on both sides of a bookmark stay two phases unless the whole window has that answer; what began
    // within the window is no answer on the whole
    let is_single = window_verdict.began_ns.is_empty() && pieces.iter().all(|piece| piece.is_like(&pieces[0]));
    if is_single {
        pieces.truncate(1);
        pieces[0].to = grid.parts.len();
    }
    pieces.iter().map(|piece| timeline.build_phase(pack, piece, window_verdict, is_single)).collect()
}

/// Borders at which phases must end: both ends of the window, and the bookmarks and beginnings inside, as part numbers.
fn phase_borders(observed: &Observation, grid: &WindowGrid, began_ns: &[i64]) -> Vec<usize> {
    let count = grid.parts.len();
    let times = observed.notes.bookmarks.iter().map(|mark| mark.time_ns).chain(began_ns.iter().copied());
    let marks = times.map(|time_ns| grid.parts.partition_point(|p| p.from_ns < time_ns));
    let mut cuts: Vec<usize> = marks.filter(|mark| *mark > 0 && *mark < count).chain([0, count]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Joins neighbors with the same answer.
fn merge_equal_neighbors(pieces: &mut Vec<PhaseRange>) {
    pieces.dedup_by(|next, last| {
        let is_same_answer = next.is_like(last);
        if is_same_answer {
            last.to = next.to;
        }
        is_same_answer
    });
}

/// Sums of the first 0, 1, 2 … values.
fn prefix_sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let add = |sum: &mut f64, value: f64| {
        *sum += value;
        Some(*sum)
    };
    std::iter::once(0.0).chain(values.scan(0.0, add)).collect()
}

impl<'a> PhaseTimeline<'a> {
    fn new(relations: &'a Relations<'a>, grid: &WindowGrid, outcomes: &'a [RuleOutcome<'a>]) -> PhaseTimeline<'a> {
        let may_hold_in_parts = |o: &&RuleOutcome<'_>| {
            // a condition on the whole window holds for all of it or not at all
            let holds_window_conditions = o.holds || o.rule.all.iter().all(|c| !c.is_window_value());
            holds_window_conditions && o.progress.held_ns > 0
        };
        let tracks = outcomes.iter().filter(may_hold_in_parts).filter_map(|outcome| {
            let seconds = outcome.progress.held_times.as_ref()?.held_seconds(grid);
            Some(RuleTrack { outcome, sums: prefix_sums(seconds.into_iter()) })
        });
        let tracks: Vec<RuleTrack<'a>> = tracks.collect();
        let mut unrelated = HashMap::new();
        for shortage in tracks.iter().map(|t| t.outcome).filter(|o| is_shortage(o)) {
            let cause = Blame::of_outcome(shortage);
            let others = tracks.iter().map(|t| t.outcome);
            let apart = others.filter(|other| is_unrelated(relations, cause, Blame::of_outcome(other)));
            unrelated.extend(apart.map(|other| {
                ((rule_place(shortage), rule_place(other)), is_unrelated_to_disk(relations, shortage, other))
            }));
        }
        let time = prefix_sums(grid.parts.iter().map(|p| p.elapsed_ns as f64 / 1e9));
        PhaseTimeline { observed: relations.observed, relations, tracks, time, unrelated }
    }

    /// True for a shortage that is known not to be why something else is short; see [`is_unrelated`].
    fn is_unrelated(&self, shortage: &RuleOutcome<'_>, other: &RuleOutcome<'_>) -> bool {
        is_shortage(shortage) && self.unrelated.contains_key(&(rule_place(shortage), rule_place(other)))
    }

    /// Share of the parts' time at which a rule held.
    fn held_share(&self, track: &RuleTrack<'_>, from: usize, to: usize) -> f64 {
        let seconds = self.time[to] - self.time[from];
        if seconds > 0.0 { (track.sums[to] - track.sums[from]) / seconds } else { 0.0 }
    }

    /// Rules that hold in the parts, each with its share.
    fn holding_rules(&self, from: usize, to: usize) -> Vec<(&RuleTrack<'a>, f64)> {
        let is_held_enough =
            |(track, share): &(&RuleTrack<'_>, f64)| *share >= track.outcome.rule.sustained.share.max(MIN_SHARE) - 1e-9;
        let shares = self.tracks.iter().map(|track| (track, self.held_share(track, from, to)));
        let held: Vec<(&RuleTrack<'a>, f64)> = shares.filter(is_held_enough).collect();
        let rules: HashMap<&str, &Rule> =
            held.iter().map(|(t, _)| (t.outcome.rule.id.as_str(), t.outcome.rule)).collect();
        let held_at: HashMap<RulePlace<'_>, &RuleOutcome<'_>> =
            held.iter().map(|(t, _)| (rule_place(t.outcome), t.outcome)).collect();
        let mut held_by_rule: HashMap<&str, Vec<&RuleOutcome<'_>>> = HashMap::new();
        held.iter().for_each(|(t, _)| held_by_rule.entry(&t.outcome.rule.id).or_default().push(t.outcome));
        let is_explained = |outcome: &RuleOutcome<'_>| {
            outcome.rule.none.iter().filter_map(|id| rules.get(id.as_str()).copied()).any(|other| {
                if are_judged_alike(other, outcome.rule) {
                    let here = held_at.get(&(other.id.as_str(), outcome.progress.instance.as_str()));
                    return here.is_some_and(|here| !self.is_unrelated(here, outcome));
                }
                let mut held_outcomes = held_by_rule.get(other.id.as_str()).into_iter().flatten();
                held_outcomes.any(|o| are_related(self.relations, o, outcome) && !self.is_unrelated(o, outcome))
            })
        };
        let blames = |o: &RuleOutcome<'_>| o.rule.bottleneck != Bottleneck::None && o.rule.weight > 0.0;
        held.iter().filter(|(t, _)| blames(t.outcome) && !is_explained(t.outcome)).copied().collect()
    }

    /// Ranks the bottlenecks of some parts and chooses one.
    fn judge_parts(&self, from: usize, to: usize) -> PartsVerdict<'a> {
        let holding = self.holding_rules(from, to);
        let score = |(track, share): &(&RuleTrack<'a>, f64)| rule_score(track.outcome.rule.weight, *share);
        let ranking = rank_bottlenecks(
            holding.iter().map(|h| (h.0.outcome.rule.bottleneck, h.0.outcome.rule.id.as_str(), score(h))),
        );
        let held = holding.iter().map(|(t, _)| t.outcome);
        let is_memory_unrelated = is_memory_unrelated_to_disk(held, |memory, disk| {
            self.unrelated.get(&(rule_place(memory), rule_place(disk))).is_some_and(|is_by_device| *is_by_device)
        });
        let mut bottleneck = choose_bottleneck(&ranking, is_memory_unrelated);
        let is_undecided = holding.iter().any(|(t, _)| t.outcome.rule.bottleneck == Bottleneck::Unknown);
        if bottleneck == Bottleneck::None && is_undecided {
            bottleneck = Bottleneck::Unknown;
        }
        let of_bottleneck = holding.iter().filter(|(t, _)| t.outcome.rule.bottleneck == bottleneck);
        let depth =
            |o: &RuleOutcome<'_>| if o.rule.object == "cgroup" { o.progress.instance.matches('/').count() } else { 0 };
        let first = of_bottleneck.max_by(|a, b| {
            let by_score = score(a).total_cmp(&score(b));
            let (a, b) = (a.0.outcome, b.0.outcome);
            by_score.then_with(|| depth(a).cmp(&depth(b))).then_with(|| b.progress.instance.cmp(&a.progress.instance))
        });
        let Some((first, _)) = first else {
            return PartsVerdict { ranking, bottleneck, leading: None, instance: String::new(), also: Vec::new() };
        };
        let instance = self.name_instance(&holding, first.outcome);
        let also = if bottleneck.blames() { self.find_further(&holding, first.outcome) } else { Vec::new() };
        PartsVerdict { ranking, bottleneck, leading: Some(first.outcome), instance, also }
    }

    /// Instance of a bottleneck by its leading rule.
    fn name_instance(&self, holding: &[(&RuleTrack<'a>, f64)], leading: &RuleOutcome<'_>) -> String {
        let (rule, instance) = (leading.rule, &leading.progress.instance);
        let of_same_rule = holding.iter().filter(|(t, _)| t.outcome.rule.id == rule.id);
        let of_same_rule = of_same_rule.map(|(t, _)| t.outcome.progress.instance.as_str()).collect();
        bottleneck_instance(self.observed, rule.bottleneck, &rule.object, instance, of_same_rule)
    }

    /// The bottlenecks beside the first, which a rule leads, as of the whole window: none of them may be the reason for
    /// another.
    fn find_further(
        &self,
        holding: &[(&RuleTrack<'a>, f64)],
        first: &'a RuleOutcome<'a>,
    ) -> Vec<FurtherBottleneck<'a>> {
        let score_of = |(track, share): &(&RuleTrack<'a>, f64)| rule_score(track.outcome.rule.weight, *share);
        let mut sorted: Vec<(&'a RuleOutcome<'a>, f64)> =
            holding.iter().map(|held| (held.0.outcome, score_of(held))).collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rank = |outcome: &RuleOutcome<'_>| match outcome {
            outcome if std::ptr::eq(outcome, first) => 0,
            outcome if outcome.rule.bottleneck == first.rule.bottleneck => 1,
            _ => 2,
        };
        sorted.sort_by_key(|(outcome, _)| rank(outcome));
        let suspects: Vec<Suspect<'_>> = sorted
            .iter()
            .map(|(outcome, score)| Suspect {
                blame: Blame::of_outcome(outcome),
                severity: outcome.rule.severity,
                score: *score,
                is_lock: is_lock_rule(&outcome.rule.object, &outcome.rule.id),
            })
            .collect();
        let further = group_suspects(self.relations, &suspects).into_iter().skip(1);
        further
            .map(|group| {
                let (leading, score) = sorted[group[0]];
                let instance = self.name_instance(holding, leading);
                FurtherBottleneck { bottleneck: leading.rule.bottleneck, instance, score, leading }
            })
            .collect()
    }

    /// Splits the parts between two borders into pieces.
    fn split_range(&self, start: usize, end: usize) -> Vec<PhaseRange> {
        let mut pieces: Vec<PhaseRange> = Vec::new();
        for index in start..end {
            let (from, to) = self.sliding_span(index, start, end);
            let piece = PhaseRange::new(index, index + 1, self.judge_parts(from, to));
            match pieces.last_mut() {
                Some(last) if last.is_like(&piece) => last.to = index + 1,
                _ => pieces.push(piece),
            }
        }
        self.absorb_short_pieces(&mut pieces);
        self.align_edges(&mut pieces);
        self.judge_until_stable(&mut pieces);
        pieces
    }

    /// Judges a piece again by all its parts.
    fn judge_piece(&self, piece: &mut PhaseRange) {
        *piece = PhaseRange::new(piece.from, piece.to, self.judge_parts(piece.from, piece.to));
    }

    /// Judges all blaming pieces again until nothing changes: after their ends moved, a rule may no longer hold in the
    /// whole piece.
    fn judge_until_stable(&self, pieces: &mut Vec<PhaseRange>) {
        loop {
            let before = pieces.clone();
            pieces.iter_mut().filter(|p| p.bottleneck != Bottleneck::None).for_each(|piece| self.judge_piece(piece));
            merge_equal_neighbors(pieces);
            if *pieces == before {
                break;
            }
        }
    }

    /// The sliding span around a part, within two borders.
    fn sliding_span(&self, index: usize, start: usize, end: usize) -> (usize, usize) {
        let (mut from, mut to) = (index, index + 1);
        while (self.time[to] - self.time[from] < SPAN_S || to - from < MIN_SPAN_PARTS) && (from > start || to < end) {
            let grow_left = from > start && (to >= end || index - from < to - index);
            if grow_left { from -= 1 } else { to += 1 }
        }
        (from, to)
    }

    /// Joins pieces that are too short with their longer neighbor. The result is judged again, because a rule that
    /// held in one piece need not hold in both.
    fn absorb_short_pieces(&self, pieces: &mut Vec<PhaseRange>) {
        let length = |p: &PhaseRange| self.time[p.to] - self.time[p.from];
        let is_too_short = |p: &PhaseRange| length(p) < SPAN_S * 0.8 || p.to - p.from < 2;
        loop {
            let short = (0..pieces.len()).filter(|index| is_too_short(&pieces[*index]));
            let shortest = short.min_by(|a, b| length(&pieces[*a]).total_cmp(&length(&pieces[*b])));
            let Some(index) = shortest.filter(|_| pieces.len() > 1) else { break };
            let is_last = index + 1 == pieces.len();
            let is_before_longer = index > 0 && (is_last || length(&pieces[index - 1]) >= length(&pieces[index + 1]));
            let into = if is_before_longer { index - 1 } else { index + 1 };
            let (from, to) = (pieces[index].from.min(pieces[into].from), pieces[index].to.max(pieces[into].to));
            (pieces[into].from, pieces[into].to) = (from, to);
            self.judge_piece(&mut pieces[into]);
            pieces.remove(index);
            merge_equal_neighbors(pieces);
        }
    }

    /// Moves the ends of blaming pieces to where their rule started and ceased to hold: the sliding span reaches beyond
    /// them on both sides.
    fn align_edges(&self, pieces: &mut [PhaseRange]) {
        for index in 1..pieces.len() {
            let edge = pieces[index].from;
            let (left, right) = (pieces[index - 1].clone(), pieces[index].clone());
            let is_blaming = |p: &PhaseRange| p.bottleneck != Bottleneck::None;
            let blaming = if is_blaming(&right) { &right } else { &left };
            let leading = self.judge_parts(blaming.from, blaming.to).leading;
            let Some(track) = leading.and_then(|f| self.tracks.iter().find(|t| std::ptr::eq(t.outcome, f))) else {
                continue;
            };
            let is_held = |part: usize| self.held_share(track, part, part + 1) >= 0.5;
            let reach = MIN_SPAN_PARTS.max(self.span_parts_before(edge));
            let (low, high) = (edge.saturating_sub(reach).max(left.from + 1), (edge + reach).min(right.to - 1));
            let new_edge = match (is_blaming(&left), is_blaming(&right)) {
                (false, true) => (low..high).find(|part| is_held(*part)),
                (true, false) => (low..high).rev().find(|part| is_held(*part)).map(|part| part + 1),
                _ => None,
            };
            let Some(edge) = new_edge.filter(|edge| *edge > left.from && *edge < right.to) else { continue };
            pieces[index - 1].to = edge;
            pieces[index].from = edge;
        }
    }

    /// Number of parts before `edge` that make up the length of a span.
    fn span_parts_before(&self, edge: usize) -> usize {
        (0..edge).rev().take_while(|index| self.time[edge] - self.time[*index] <= SPAN_S).count()
    }

    /// The bookmark at which a part begins; empty where there is none.
    fn bookmark_at(&self, part: usize) -> String {
        let grid = &self.observed.grid;
        let mark = self.observed.notes.bookmarks.iter().rfind(|mark| {
            let next = grid.parts.partition_point(|p| p.from_ns < mark.time_ns);
            next == part && next > 0
        });
        mark.map_or(String::new(), |mark| mark.text.clone())
    }

    /// Describes a piece; `is_single` where the whole window has one answer.
    fn build_phase(
        &self,
        pack: usize,
        piece: &PhaseRange,
        window_verdict: &WindowVerdict<'_>,
        is_single: bool,
    ) -> VerdictPhase {
        let grid = &self.observed.grid;
        let PartsVerdict { ranking, leading, also, .. } = self.judge_parts(piece.from, piece.to);
        let score =
            |bottleneck: Bottleneck| ranking.iter().find(|r| r.bottleneck == bottleneck).map_or(0.0, |r| r.score);
        // what is a bottleneck of its own is no rival
        let is_listed =
            |r: &Rank| r.bottleneck == piece.bottleneck || also.iter().any(|one| one.bottleneck == r.bottleneck);
        let rival = ranking.iter().filter(|r| !is_listed(r)).map(|r| r.score).fold(0.0, f64::max);
        let ticks = grid.parts[piece.from..piece.to].iter().map(|p| p.ticks).sum();
        // where too little of the window could be judged, no more is known of its parts
        let (mut bottleneck, mut instance) = (piece.bottleneck, piece.instance.clone());
        if bottleneck == Bottleneck::None && window_verdict.bottleneck == Bottleneck::Unknown {
            bottleneck = Bottleneck::Unknown;
        }
        let mut confidence = remaining_confidence(self.observed, pack, bottleneck, window_verdict.unjudged)
            * score_confidence(bottleneck, score(bottleneck).max(1e-9), rival, ticks);
        if is_single {
            (bottleneck, instance) = (window_verdict.bottleneck, window_verdict.instance.to_owned());
            confidence = window_verdict.confidence;
        } else if bottleneck == Bottleneck::None && window_verdict.bottleneck == Bottleneck::None {
            confidence = confidence.min(window_verdict.confidence);
        }
        let leading = leading.filter(|o| o.rule.bottleneck == bottleneck);
        let leading_rule = leading.map(|o| (o.rule.id.as_str(), o.rule.title.as_str()));
        // a single phase takes the finding of the whole window
        let (rule, title) = leading_rule.or(window_verdict.leading_rule.filter(|_| is_single)).unwrap_or_default();
        let confidence = round_confidence(confidence);
        debug_assert!(!bottleneck.blames() || !rule.is_empty(), "what is blamed has a rule that held");
        debug_assert!(!bottleneck.blames() || is_single || confidence >= MIN_CONFIDENCE, "{rule}: {confidence}");
        let further = |one: &FurtherBottleneck<'_>| {
            let certainty = score_confidence(one.bottleneck, one.score, rival, ticks);
            one.describe(certainty * remaining_confidence(self.observed, pack, one.bottleneck, window_verdict.unjudged))
        };
        let (from_ns, to_ns) = (grid.parts[piece.from].from_ns, grid.parts[piece.to - 1].to_ns);
        VerdictPhase {
            from: format_rfc3339(from_ns),
            to: format_rfc3339(to_ns),
            seconds: self.time[piece.to] - self.time[piece.from],
            bottleneck,
            instance,
            confidence,
            rule: rule.to_owned(),
            title: title.to_owned(),
            bookmark: self.bookmark_at(piece.from),
            also: if is_single { window_verdict.also.to_vec() } else { also.iter().map(further).collect() },
        }
    }
}
