//! Progress of one rule at one instance over the whole window: how long and when it held, and the values of its
//! quantities meanwhile. It outlives schemas and is fed a chunk of ticks at a time.

use crate::rules::Comparator;
use crate::sums::chunk_times::ChunkTimes;
use crate::sums::hold_intervals::HoldIntervals;
use crate::sums::lane_sums::LaneSums;
use crate::sums::node::{NodeColumn, NodeColumns, NodeId};
use crate::sums::norm_and_depletion::{DepletionTrend, OwnNorm};
use crate::sums::steadiness::TrendMoments;
use crate::sums::window_parts::HeldTimes;

/// State that a rule collects at an instance.
#[derive(Clone, Debug)]
pub(crate) struct RuleProgress {
    pub pack: usize,
    pub rule: usize,
    pub instance: String,
    /// True where a logical disk stands in for a physical one; see `on_logical_disks` in `compile`.
    pub stands_in: bool,
    pub judged_ns: u64,
    pub held_ns: u64,
    pub held_ticks: u64,
    /// Length and start of the stretch for which the rule holds at present; the length is 0 where it does not.
    run_ns: u64,
    run_start_ns: i64,
    pub longest_ns: u64,
    /// Start and end of the longest stretch, nanoseconds since 1970 UTC.
    pub longest_span: (i64, i64),
    /// Number of stretches without a break.
    pub runs: u64,
    pub stretches: HoldIntervals,
    /// Time for which the rule held in each part of the window; `None` for packs without phases.
    pub held_times: Option<HeldTimes>,
    /// Start of the first and end of the last tick at which the rule held.
    pub first_ns: i64,
    pub last_ns: i64,
    pub conditions: Vec<ConditionState>,
    pub evidence: Vec<EvidenceState>,
}

/// State of one condition of a rule at an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConditionState {
    /// Track of the quantity over the window.
    pub track: Option<usize>,
    /// Track of a limit that is a counter.
    pub limit_track: Option<usize>,
    /// Disks that a limit for each disk was multiplied by; `None` for other limits.
    pub disks: Option<f64>,
    /// True where the log has the counters that the condition needs.
    pub known: bool,
    /// The quantity is an amount that is summed over ticks.
    pub adds_up: bool,
    /// Time for which both the rule and this condition held.
    pub held_ns: u64,
    /// The quantity and its limit at those ticks.
    pub value: LaneSums,
    pub limit: LaneSums,
    pub baseline: BaselineSums,
    /// Median of the last day, for a change against its own norm.
    pub norm: Option<Box<OwnNorm>>,
    /// Trend of the last hours, for the time until the quantity is used up.
    pub depletion: Option<Box<DepletionTrend>>,
    pub spread: TrendMoments,
    /// Operands of a condition with counters of the whole window: its counter, times, over and per.
    pub operands: Option<Box<[OperandState; 4]>>,
}

impl ConditionState {
    /// Disks that a limit for each disk is multiplied by.
    pub fn disks(&self) -> f64 {
        self.disks.unwrap_or(1.0)
    }
}

/// Mean of the window's first part, for changes against it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaselineSums {
    pub sums: LaneSums,
    closed: bool,
    /// The last tick's value, for a change from tick to tick.
    last: Option<f64>,
}

/// An operand of a condition on the whole window.
#[derive(Clone, Debug)]
pub(crate) enum OperandState {
    Number(f64),
    /// Mean while the rule held.
    Mean(LaneSums),
    /// A statistic, by its number.
    Statistic(usize),
}

/// A counter shown with a finding.
#[derive(Clone, Debug)]
pub(crate) enum EvidenceState {
    /// Mean, and the largest value of a tick.
    Mean(LaneSums, f64),
    Statistic(usize),
}

/// Nodes of a schema that feed the progress of a rule at an instance.
#[derive(Clone, Debug)]
pub(crate) struct ProgressPlan {
    pub state: usize,
    pub all: Vec<ConditionPlan>,
    pub any: Vec<ConditionPlan>,
    /// Conditions on the whole window: judged at the end, over the ticks at which the others held.
    pub window: Vec<WindowPlan>,
    /// Nodes of the evidence, by position.
    pub evidence: Vec<(usize, NodeId)>,
    /// Nodes to compute before the evidence can be read, in order.
    pub lazy: Vec<NodeId>,
}

/// A condition that is compared at each tick.
#[derive(Clone, Debug)]
pub(crate) struct ConditionPlan {
    /// Position among the rule's conditions.
    pub index: usize,
    pub node: NodeId,
    pub compare: Comparator,
    pub limit: LimitPlan,
    /// Reference of a change; `None` for a plain value.
    pub change: Option<ChangeReference>,
}

/// Reference of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeReference {
    /// The mean over this share of the window, from its start.
    FirstPart(f64),
    /// The tick before.
    Previous,
    /// Its own median of the last day.
    Norm,
    /// Nothing: the value is the time until it is used up.
    Depletion,
}

/// Limit of a condition: a number, or a node times a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitPlan {
    Number(f64),
    Node(NodeId, f64),
}

/// A condition on the whole window.
#[derive(Clone, Debug)]
pub(crate) struct WindowPlan {
    pub index: usize,
    /// Node of the quantity whose steadiness or trend is judged.
    pub spread: Option<NodeId>,
    /// Operands, by position, that are means of nodes.
    pub means: Vec<(usize, NodeId)>,
}

/// Reused buffers for masks and ratios.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaskScratch {
    pub held: Vec<u8>,
    pub judged: Vec<u8>,
    /// Mask of one condition.
    one: Vec<u8>,
    gap: Vec<u8>,
    fails: Vec<u8>,
    unknown: Vec<u8>,
    ratios: Vec<NodeColumn>,
}

/// Columns of a condition for a chunk.
struct ConditionView<'a> {
    values: &'a [f64],
    weights: &'a [f64],
    compare: Comparator,
    limit: LimitColumn<'a>,
    gap: bool,
}

enum LimitColumn<'a> {
    Number(f64),
    Column { values: &'a [f64], weights: &'a [f64], times: f64 },
}

impl ConditionView<'_> {
    /// True where it holds at a tick; `None` for a gap.
    fn holds_at(&self, tick: usize) -> Option<bool> {
        let (limit, weight) = match self.limit {
            LimitColumn::Number(limit) => (limit, 0.0),
            LimitColumn::Column { values, weights, times } => (values[tick] * times, weights[tick]),
        };
        let gap = self.weights[tick].is_nan() || weight.is_nan();
        (!gap).then(|| self.compare.holds(self.values[tick], limit))
    }

    /// Sets `out` to 1 where it holds and `gap` to 1 where that is unknown, never both.
    fn fill_known(&self, out: &mut [u8], gap: &mut [u8]) {
        self.fill_holds(out);
        assert_eq!(gap.len(), self.weights.len(), "a mask for each tick");
        for (gap, weight) in gap.iter_mut().zip(self.weights) {
            *gap = u8::from(weight.is_nan());
        }
        if let LimitColumn::Column { weights, .. } = self.limit {
            gap.iter_mut().zip(weights).for_each(|(gap, weight)| *gap |= u8::from(weight.is_nan()));
        }
        out.iter_mut().zip(gap).for_each(|(out, gap)| *out &= *gap ^ 1);
    }

    /// Sets `out` to 1 where it holds, without regard to gaps.
    fn fill_holds(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.values.len(), "a mask for each tick");
        match self.compare {
            Comparator::Above => self.fill_with(out, |v, limit| v > limit),
            Comparator::AtLeast => self.fill_with(out, |v, limit| v >= limit),
            Comparator::Below => self.fill_with(out, |v, limit| v < limit),
            Comparator::AtMost => self.fill_with(out, |v, limit| v <= limit),
        }
    }

    #[inline(always)]
    fn fill_with(&self, out: &mut [u8], holds: impl Fn(f64, f64) -> bool) {
        match self.limit {
            LimitColumn::Number(limit) => {
                for (out, &v) in out.iter_mut().zip(self.values) {
                    *out = u8::from(holds(v, limit));
                }
            }
            LimitColumn::Column { values, times, .. } => {
                for ((out, &v), &limit) in out.iter_mut().zip(self.values).zip(values) {
                    *out = u8::from(holds(v, limit * times));
                }
            }
        }
    }
}

impl ProgressPlan {
    /// Position of the rule's leading condition and its value at a tick of the chunk; for a rule of `any` only, the
    /// first condition that holds.
    pub fn leading_value(&self, columns: &NodeColumns<'_>, scratch: &MaskScratch, tick: usize) -> Option<(usize, f64)> {
        let holds = |plan: &&ConditionPlan| plan.condition_view(columns, &scratch.ratios).holds_at(tick) == Some(true);
        let plan = self.all.first().or_else(|| self.any.iter().find(holds)).or_else(|| self.any.first())?;
        let value = plan.condition_view(columns, &scratch.ratios).values[tick];
        value.is_finite().then_some((plan.index, value))
    }
}

impl ConditionPlan {
    fn condition_view<'a>(&self, columns: &'a NodeColumns<'_>, ratios: &'a [NodeColumn]) -> ConditionView<'a> {
        let slot = if self.change.is_some() { &ratios[self.index] } else { columns.node_column(self.node) };
        assert_eq!(slot.values.len(), slot.weights.len(), "a value and a weight for each tick");
        let (limit, limit_gap) = match self.limit {
            LimitPlan::Number(limit) => (LimitColumn::Number(limit), false),
            LimitPlan::Node(id, times) => {
                let limit = columns.node_column(id);
                assert!([limit.values.len(), limit.weights.len()] == [slot.values.len(); 2], "a limit for each tick");
                (LimitColumn::Column { values: &limit.values, weights: &limit.weights, times }, limit.gap)
            }
        };
        ConditionView {
            values: &slot.values,
            weights: &slot.weights,
            compare: self.compare,
            limit,
            gap: slot.gap || limit_gap,
        }
    }
}

impl RuleProgress {
    /// Creates the progress of a rule that has seen no tick.
    pub fn new(
        pack: usize,
        rule: usize,
        instance: &str,
        conditions: Vec<ConditionState>,
        evidence: Vec<EvidenceState>,
    ) -> RuleProgress {
        RuleProgress {
            pack,
            rule,
            instance: instance.to_owned(),
            stands_in: false,
            judged_ns: 0,
            held_ns: 0,
            held_ticks: 0,
            run_ns: 0,
            run_start_ns: 0,
            longest_ns: 0,
            longest_span: (0, 0),
            runs: 0,
            stretches: HoldIntervals::default(),
            held_times: None,
            first_ns: 0,
            last_ns: 0,
            conditions,
            evidence,
        }
    }

    /// Judges a chunk. Returns true where the rule held at any of its ticks, so that the evidence has to be read.
    pub fn judge_chunk(
        &mut self,
        plan: &ProgressPlan,
        columns: &NodeColumns<'_>,
        times: &ChunkTimes,
        scratch: &mut MaskScratch,
    ) -> bool {
        times.check_lengths();
        let count = times.lengths_ns.len();
        for masks in [&mut scratch.held, &mut scratch.judged, &mut scratch.one] {
            masks.resize(count, 0);
        }
        for condition in plan.all.iter().chain(&plan.any) {
            let Some(reference) = condition.change else { continue };
            let state = &mut self.conditions[condition.index];
            if scratch.ratios.len() <= condition.index {
                scratch.ratios.resize_with(condition.index + 1, NodeColumn::default);
            }
            let (slot, out) = (columns.node_column(condition.node), &mut scratch.ratios[condition.index]);
            match reference {
                ChangeReference::FirstPart(share) => {
                    state.baseline.relate_to_baseline(times.part_end_ns(share), slot, times, out)
                }
                ChangeReference::Previous => state.baseline.relate_to_previous(slot, out),
                ChangeReference::Norm => state.norm.get_or_insert_default().relate_to_median(slot, &times.ends_ns, out),
                ChangeReference::Depletion => {
                    state.depletion.get_or_insert_default().fill_remaining_time(slot, &times.ends_ns, out)
                }
            }
        }
        let gaps = times.total_ns == 0
            || times.lengths_ns.contains(&0)
            || plan.all.iter().chain(&plan.any).any(|c| c.condition_view(columns, &scratch.ratios).gap);
        let judged_ns = if gaps {
            judge_with_gaps(plan, columns, times, scratch)
        } else {
            judge_without_gaps(plan, columns, times, scratch)
        };
        self.judged_ns += judged_ns;
        let held = scratch.held.iter().map(|&h| usize::from(h)).sum::<usize>();
        self.count_held_time(held, judged_ns, times, scratch);
        if !plan.window.is_empty() {
            self.feed_window_conditions(plan, columns, times, scratch);
        }
        if held > 0 {
            self.collect_values(plan, columns, times, scratch);
        }
        self.check_invariants();
        held > 0
    }

    /// Asserts the invariants that hold after every chunk.
    fn check_invariants(&self) {
        assert!(self.held_ns <= self.judged_ns, "{} of {} ns held", self.held_ns, self.judged_ns);
        assert!(self.run_ns <= self.longest_ns && self.longest_ns <= self.held_ns, "a stretch is a part of what held");
        assert!((self.held_ticks == 0) == (self.runs == 0), "{} ticks in {} stretches", self.held_ticks, self.runs);
    }

    /// Counts how long the rule held, and records when.
    fn count_held_time(&mut self, held: usize, judged_ns: u64, times: &ChunkTimes, scratch: &MaskScratch) {
        if held == 0 {
            // a chunk that has only gaps does not end a stretch
            if judged_ns > 0 || times.pauses.contains(&true) {
                self.run_ns = 0;
            }
            return;
        }
        for tick in 0..times.lengths_ns.len() {
            if times.pauses[tick] {
                self.run_ns = 0;
            }
            if scratch.held[tick] != 0 {
                if self.held_ticks == 0 {
                    self.first_ns = times.starts_ns[tick];
                }
                self.held_ticks += 1;
                self.held_ns += times.lengths_ns[tick];
                if self.run_ns == 0 {
                    self.run_start_ns = times.starts_ns[tick];
                    self.runs += 1;
                }
                self.run_ns += times.lengths_ns[tick];
                self.last_ns = times.ends_ns[tick];
                self.stretches.add_tick((times.starts_ns[tick], times.ends_ns[tick]));
                if let Some(held_times) = &mut self.held_times {
                    held_times.add_held_tick(times.grid_cells[tick], times.lengths_ns[tick]);
                }
                if self.run_ns > self.longest_ns {
                    self.longest_ns = self.run_ns;
                    self.longest_span = (self.run_start_ns, self.last_ns);
                }
            } else if scratch.judged[tick] != 0 {
                self.run_ns = 0;
            }
        }
    }

    /// Collects the leading quantity over the ticks at which the rule held; for a rule of `any` only, the quantity of
    /// each condition over the ticks at which that condition held too.
    fn collect_values(
        &mut self,
        plan: &ProgressPlan,
        columns: &NodeColumns<'_>,
        times: &ChunkTimes,
        scratch: &mut MaskScratch,
    ) {
        let leading = if plan.all.is_empty() { plan.any.as_slice() } else { &plan.all[..1] };
        for lead in leading {
            let view = lead.condition_view(columns, &scratch.ratios);
            for tick in 0..scratch.held.len() {
                scratch.one[tick] =
                    u8::from(scratch.held[tick] != 0 && (leading.len() == 1 || view.holds_at(tick) == Some(true)));
            }
            let state = &mut self.conditions[lead.index];
            state.held_ns += times.lengths_ns.iter().zip(&scratch.one).map(|(ns, &m)| ns * u64::from(m)).sum::<u64>();
            state.value.add_held(times.first_tick, view.values, view.weights, &scratch.one);
            if let LimitColumn::Column { values, weights, .. } = view.limit {
                state.limit.add_held(times.first_tick, values, weights, &scratch.one);
            }
        }
    }

    /// Feeds the conditions on the whole window.
    fn feed_window_conditions(
        &mut self,
        plan: &ProgressPlan,
        columns: &NodeColumns<'_>,
        times: &ChunkTimes,
        scratch: &MaskScratch,
    ) {
        for window in &plan.window {
            let state = &mut self.conditions[window.index];
            if let Some(node) = window.spread {
                let slot = columns.node_column(node);
                for tick in 0..scratch.held.len() {
                    if scratch.held[tick] != 0 {
                        let days = (times.ends_ns[tick] - times.origin_ns) as f64 / 86_400e9;
                        state.spread.add_held(slot.values[tick], slot.weights[tick], days);
                    } else if scratch.judged[tick] != 0 {
                        state.spread.end_stretch();
                    }
                }
            }
            let Some(operands) = &mut state.operands else { continue };
            for &(operand, node) in &window.means {
                let slot = columns.node_column(node);
                if let OperandState::Mean(sums) = &mut operands[operand] {
                    sums.add_held(times.first_tick, &slot.values, &slot.weights, &scratch.held);
                }
            }
        }
    }

    /// Collects the evidence over the ticks at which the rule held; its nodes must be computed.
    pub fn read_evidence(
        &mut self,
        plan: &ProgressPlan,
        columns: &NodeColumns<'_>,
        times: &ChunkTimes,
        scratch: &MaskScratch,
    ) {
        for &(index, node) in &plan.evidence {
            let slot = columns.node_column(node);
            if let EvidenceState::Mean(sums, largest) = &mut self.evidence[index] {
                sums.add_held(times.first_tick, &slot.values, &slot.weights, &scratch.held);
                for ((value, weight), held) in slot.values.iter().zip(&slot.weights).zip(&scratch.held) {
                    if *held != 0 && *weight > 0.0 {
                        *largest = largest.max(*value);
                    }
                }
            }
        }
    }
}

impl BaselineSums {
    /// Fills `out` with the quantity relative to its mean before `until_ns`; the ticks of that first part are gaps.
    fn relate_to_baseline(&mut self, until_ns: i64, slot: &NodeColumn, times: &ChunkTimes, out: &mut NodeColumn) {
        let count = slot.values.len();
        out.values.resize(count, 0.0);
        out.weights.resize(count, 0.0);
        let mut first = 0;
        while !self.closed && first < count {
            if times.starts_ns[first] >= until_ns {
                self.closed = true;
                break;
            }
            self.sums.add_tick(times.first_tick + first, slot.values[first], slot.weights[first]);
            first += 1;
        }
        let mean = self.sums.mean().unwrap_or(f64::NAN);
        for tick in 0..count {
            let gap = tick < first || mean.is_nan();
            out.values[tick] = slot.values[tick] / mean;
            out.weights[tick] = if gap { f64::NAN } else { slot.weights[tick] };
        }
        out.gap = slot.gap || first > 0 || mean.is_nan();
    }

    /// Fills `out` with the quantity relative to the tick before; the first tick, and a tick after a gap, are gaps.
    fn relate_to_previous(&mut self, slot: &NodeColumn, out: &mut NodeColumn) {
        let count = slot.values.len();
        out.values.resize(count, 0.0);
        out.weights.resize(count, 0.0);
        out.gap = true;
        for tick in 0..count {
            let ratio = self.last.filter(|last| *last != 0.0).map_or(f64::NAN, |last| slot.values[tick] / last);
            out.values[tick] = ratio;
            out.weights[tick] = if ratio.is_nan() { f64::NAN } else { slot.weights[tick] };
            self.last = (!slot.weights[tick].is_nan()).then_some(slot.values[tick]);
        }
    }
}

/// Fills the masks for columns without gaps, where every tick is judged; returns the judged time, nanoseconds.
fn judge_without_gaps(
    plan: &ProgressPlan,
    columns: &NodeColumns<'_>,
    times: &ChunkTimes,
    scratch: &mut MaskScratch,
) -> u64 {
    let MaskScratch { held, judged, one, ratios, .. } = scratch;
    judged.fill(1);
    match plan.all.split_first() {
        None => held.fill(1),
        Some((first, rest)) => {
            first.condition_view(columns, ratios).fill_holds(held);
            for condition in rest {
                condition.condition_view(columns, ratios).fill_holds(one);
                held.iter_mut().zip(one.iter()).for_each(|(held, one)| *held &= one);
            }
        }
    }
    if let Some((first, rest)) = plan.any.split_first() {
        // `judged` serves as the third mask until it is filled again
        first.condition_view(columns, ratios).fill_holds(judged);
        for condition in rest {
            condition.condition_view(columns, ratios).fill_holds(one);
            judged.iter_mut().zip(one.iter()).for_each(|(any, one)| *any |= one);
        }
        held.iter_mut().zip(judged.iter()).for_each(|(held, any)| *held &= any);
        judged.fill(1);
    }
    times.total_ns
}

/// Fills the masks for columns with gaps. A gap counts neither for nor against the rule. A result that is certain in
/// spite of a gap counts: one condition that fails makes `all` fail, whatever the others are.
fn judge_with_gaps(
    plan: &ProgressPlan,
    columns: &NodeColumns<'_>,
    times: &ChunkTimes,
    scratch: &mut MaskScratch,
) -> u64 {
    let MaskScratch { held, judged, one, gap, fails, unknown, ratios } = scratch;
    for masks in [&mut *gap, &mut *fails, &mut *unknown] {
        masks.clear();
        masks.resize(times.lengths_ns.len(), 0);
    }
    for condition in &plan.all {
        condition.condition_view(columns, ratios).fill_known(one, gap);
        for tick in 0..one.len() {
            fails[tick] |= (one[tick] | gap[tick]) ^ 1;
            unknown[tick] |= gap[tick];
        }
    }
    // until the loop below, `held` is 1 where one of `any` holds and `judged` where one of them may hold
    held.fill(u8::from(plan.any.is_empty()));
    judged.fill(u8::from(plan.any.is_empty()));
    for condition in &plan.any {
        condition.condition_view(columns, ratios).fill_known(one, gap);
        for tick in 0..one.len() {
            held[tick] |= one[tick];
            judged[tick] |= one[tick] | gap[tick];
        }
    }
    let mut judged_ns = 0;
    for tick in 0..one.len() {
        let has_length = u8::from(times.lengths_ns[tick] > 0);
        let fails_any = judged[tick] ^ 1;
        held[tick] &= (fails[tick] | unknown[tick]) ^ 1;
        held[tick] &= has_length;
        judged[tick] = (held[tick] | fails[tick] | fails_any) & has_length;
        judged_ns += times.lengths_ns[tick] * u64::from(judged[tick]);
        debug_assert!(held[tick] <= judged[tick] && judged[tick] <= 1, "what holds is judged");
    }
    judged_ns
}
