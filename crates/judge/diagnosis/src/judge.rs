//! The judge: takes frames and notes one after another and gives verdicts at the end. It keeps sums, not samples.

use std::sync::Arc;

use diskwright_base::{Ceiling, Frame, Note, ProcessTable, RequesterTable, Schema, ceiling};

use crate::askers::Askers;
use crate::culprits::Culprits;
use crate::finish::verdict;
use crate::grid::WindowGrid;
use crate::kept::{KeptProgram, TopologyReader};
use crate::node::{CHUNK, Chunk, NodeColumn, NodeColumns};
use crate::notes::VerdictNotes;
use crate::observation::Observation;
use crate::origin::LogOrigin;
use crate::program::{JudgeProgram, ProgramOptions, StatisticPlan, compile};
use crate::pseudo::Pseudo;
use crate::rule::Pack;
use crate::scene::SchemaIndex;
use crate::states::{LIGHT_QUEUES, States, Statistic};
use crate::stream::{ChunkTimes, MaskScratch};
use crate::trends::timeline::{ClockBucketTicks, Timeline};
use crate::verdict::Verdict;
use crate::window::{WindowBucketTicks, WindowState};

/// Facts that the caller knows apart from the samples.
#[derive(Clone, Debug, Default)]
pub struct JudgeOptions {
    /// The server's role (`file-server`, …); rules for roles apply only with it.
    pub role: Option<String>,
    /// Start and end of the window, nanoseconds since 1970, where known
    /// beforehand: changes against the window's first part need it.
    pub expected: Option<(i64, i64)>,
    /// Ceilings that probes measured, of this machine's devices or of others: they are matched by key, or by name where
    /// a ceiling has no key.
    pub ceilings: Vec<Ceiling>,
}

/// Judges a window by one or more packs.
pub struct Judge {
    options: JudgeOptions,
    seen: Observation,
    /// Clock of the trend buckets; `None` where the window is known to be too short for trends.
    timeline: Option<Timeline>,
    /// Compiled rules for the series of the last frame.
    program: Arc<JudgeProgram>,
    room: JudgeScratch,
    /// Ceilings from notes of this window.
    said: Vec<Ceiling>,
    /// No program was prepared for this window yet: the states are those of a new judge.
    untouched: bool,
    /// More windows may follow, so the program of the first schema is kept for them.
    again: bool,
    kept: Option<KeptProgram>,
    topologies: TopologyReader,
}

/// Largest number of ceilings from options and notes together.
const MOST_CEILINGS: usize = 65_536;

/// Buffers that are reused from chunk to chunk.
#[derive(Default)]
struct JudgeScratch {
    slots: Vec<NodeColumn>,
    times: ChunkTimes,
    segments: Vec<WindowBucketTicks>,
    stretches: Vec<ClockBucketTicks>,
    scratch: MaskScratch,
    /// For each lazy node, the number of the last chunk for which it was computed.
    computed: Vec<u64>,
    chunk: u64,
}

/// Clock of the trend buckets of a window; `None` where it is known to be too short for trends.
fn timeline(expected: Option<(i64, i64)>) -> Option<Timeline> {
    if expected.is_some_and(|window| !crate::trends::long_enough(window)) {
        return None;
    }
    let mut timeline = Timeline::default();
    expected.into_iter().for_each(|window| timeline.expect(window));
    Some(timeline)
}

fn nothing_seen(packs: Vec<Pack>, options: &JudgeOptions) -> Observation {
    Observation {
        ceilings: ceiling::ceilings_for_topology(None, &options.ceilings),
        states: States::new(&packs),
        window: WindowState::default(),
        grid: WindowGrid::default(),
        packs,
        topology: None,
        notes: VerdictNotes::default(),
        culprits: Culprits::default(),
        askers: Askers::default(),
        schema: None,
    }
}

impl Judge {
    /// Creates a judge for these packs.
    pub fn new(packs: Vec<Pack>, options: JudgeOptions) -> Judge {
        Judge {
            timeline: timeline(options.expected),
            seen: nothing_seen(packs, &options),
            options,
            program: Arc::default(),
            room: JudgeScratch::default(),
            said: Vec::new(),
            untouched: true,
            again: false,
            kept: None,
            topologies: TopologyReader::default(),
        }
    }

    /// Starts another window with the same packs, role and ceilings. The verdict is that of a new judge, and costs less
    /// where series and topology are those of the window before.
    pub fn restart(&mut self, expected: Option<(i64, i64)>) {
        self.options.expected = expected;
        self.timeline = timeline(expected);
        self.seen = nothing_seen(std::mem::take(&mut self.seen.packs), &self.options);
        self.said.clear();
        self.untouched = true;
        self.again = true;
    }

    /// Adds a batch of ticks. Batches come in the order of time; the verdict does not depend on how the ticks are cut
    /// into batches.
    pub fn frame(&mut self, frame: &Frame) {
        if frame.is_empty() {
            return;
        }
        self.prepare(frame.schema());
        let count = frame.ticks().len();
        for start in (0..count).step_by(CHUNK) {
            self.chunk(frame, start..(start + CHUNK).min(count));
        }
    }

    /// Adds a note: topology, process table, trace, ceilings, or a remark that limits certainty.
    pub fn note(&mut self, note: &Note) {
        match note.kind.as_str() {
            Note::TOPOLOGY => match self.topologies.read(note) {
                Ok(topology) => {
                    if self.seen.topology.as_ref() != Some(&topology) {
                        self.seen.topology = Some(topology);
                        self.settle();
                    }
                }
                Err(error) => self.unreadable(note, &error),
            },
            Note::PROCESSES => match serde_json::from_str::<ProcessTable>(&note.text) {
                Ok(table) => self.seen.culprits.add(&table),
                Err(error) => self.unreadable(note, &error),
            },
            Note::REQUESTERS => match serde_json::from_str::<RequesterTable>(&note.text) {
                Ok(table) => self.seen.askers.add(&table),
                Err(error) => self.unreadable(note, &error),
            },
            Note::CEILINGS => match serde_json::from_str::<Vec<Ceiling>>(&note.text) {
                Ok(ceilings) => {
                    let is_known = |c: &Ceiling| self.options.ceilings.contains(c) || self.said.contains(c);
                    let new = ceilings.into_iter().filter(|c| !is_known(c)).take(MOST_CEILINGS);
                    let new: Vec<Ceiling> = new.collect();
                    let room = MOST_CEILINGS.saturating_sub(self.options.ceilings.len() + self.said.len());
                    if !new.is_empty() && room > 0 {
                        self.said.extend(new.into_iter().take(room));
                        self.settle();
                    }
                }
                Err(error) => self.unreadable(note, &error),
            },
            _ => self.seen.notes.add(note),
        }
    }

    /// Matches ceilings with devices. The program is compiled again, because scopes depend on topology and ceilings;
    /// collected states stay.
    fn settle(&mut self) {
        let all = [self.options.ceilings.as_slice(), &self.said].concat();
        self.seen.ceilings = ceiling::ceilings_for_topology(self.seen.topology.as_ref(), &all);
        self.seen.schema = None;
    }

    fn unreadable(&mut self, note: &Note, error: &serde_json::Error) {
        let text = format!("a {} note could not be read: {error}", note.kind);
        self.seen.notes.add(&Note::new(note.time_ns, Note::WARNING, text));
    }

    /// Verdicts on the ticks so far, one for each pack, in the packs' order.
    pub fn finish(&self) -> Vec<Verdict> {
        (0..self.seen.packs.len()).map(|pack| verdict(&self.seen, pack)).collect()
    }

    /// Prepares the program for a schema, unless it is that of the last frame.
    fn prepare(&mut self, schema: &Arc<Schema>) {
        if self.seen.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return;
        }
        let foreign = self.seen.notes.source != LogOrigin::Live;
        let knows_window = self.options.expected.is_some();
        let is_first = std::mem::replace(&mut self.untouched, false);
        let kept = self.kept.as_ref().filter(|_| is_first);
        if let Some((program, states)) = kept.and_then(|kept| kept.again(&self.seen, schema, (foreign, knows_window))) {
            (self.program, self.seen.states) = (program, states);
        } else {
            self.compile(schema, foreign, knows_window);
            if is_first && self.again {
                let kept = KeptProgram::new(&self.seen, schema, (foreign, knows_window), &self.program);
                self.kept = Some(kept);
            }
        }
        self.room.slots.resize_with(self.program.slots, NodeColumn::default);
        self.room.computed.clear();
        self.room.computed.resize(self.program.nodes.len(), 0);
        self.seen.schema = Some(schema.clone());
    }

    fn compile(&mut self, schema: &Schema, foreign: bool, knows_window: bool) {
        let scene = SchemaIndex::new(schema, self.seen.topology.as_ref(), &self.seen.ceilings).hiding_spindles(foreign);
        self.seen.states.prune(|instance| scene.has(instance));
        let wanted = ProgramOptions { role: self.options.role.as_deref(), knows_window };
        self.program = Arc::new(compile(&self.seen.packs, &scene, &wanted, &mut self.seen.states));
    }

    fn chunk(&mut self, frame: &Frame, range: std::ops::Range<usize>) {
        let Judge { options, program, seen: Observation { states, window, grid, .. }, timeline, room, .. } = self;
        room.chunk += 1;
        let number = (window.ticks % (1 << 48)) as usize;
        window.watch(frame, range.clone(), &mut room.segments);
        room.stretches.clear();
        if let Some(timeline) = timeline {
            timeline.cut(frame, range.clone(), &mut room.stretches);
        }
        fill_times(frame, range.clone(), window.from_ns, number, &mut room.times);
        room.times.expected = options.expected;
        room.times.cells.clear();
        room.times.cells.extend(frame.ticks()[range.clone()].iter().map(|tick| grid.add(tick)));
        let seconds = std::mem::take(&mut room.times.seconds);
        let chunk = Chunk { frame, range, seconds: &seconds };
        let mut columns = NodeColumns { slot_of: &program.slot_of, slots: &mut room.slots };
        for &node in &program.shared {
            columns.evaluate(node, &program.nodes[node], &chunk);
        }
        for group in &program.groups {
            for &node in &group.order {
                columns.evaluate(node, &program.nodes[node], &chunk);
            }
            for &(node, track) in &group.tracks {
                let slot = columns.of(node);
                let track = &mut states.tracks[track];
                track.add(number, &room.segments, &slot.values, &slot.weights);
                if let Some(buckets) = &mut track.buckets {
                    buckets.add(number, &room.stretches, &slot.values, &slot.weights);
                }
            }
            for plan in &group.statistics {
                feed(&mut states.statistics[plan.state], plan, &columns, &room.times);
            }
            for plan in &group.streams {
                let stream = &mut states.streams[plan.state];
                if !stream.judge(plan, &columns, &room.times, &mut room.scratch) {
                    continue;
                }
                for &node in &plan.lazy {
                    if room.computed[node] != room.chunk {
                        room.computed[node] = room.chunk;
                        columns.evaluate(node, &program.nodes[node], &chunk);
                    }
                }
                stream.read_evidence(plan, &columns, &room.times, &room.scratch);
            }
        }
        room.times.seconds = seconds;
    }
}

/// Time without a tick from which a recording counts as interrupted; where ticks are longer, one missing tick.
const PAUSE_NS: i64 = 60_000_000_000;

pub(crate) fn fill_times(
    frame: &Frame,
    range: std::ops::Range<usize>,
    origin_ns: i64,
    number: usize,
    times: &mut ChunkTimes,
) {
    let ticks = &frame.ticks()[range];
    // end of the last tick of the previous chunk
    let mut end = times.ends.last().copied();
    times.pauses.clear();
    for list in [&mut times.starts, &mut times.ends] {
        list.clear();
    }
    times.ns.clear();
    times.seconds.clear();
    for tick in ticks {
        let longest = i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX).max(PAUSE_NS);
        times.pauses.push(end.is_some_and(|end| tick.start_ns().saturating_sub(end) > longest));
        end = Some(tick.time_ns);
        times.ns.push(tick.elapsed_ns);
        times.starts.push(tick.start_ns());
        times.ends.push(tick.time_ns);
        let seconds = if tick.elapsed_ns == 0 { f64::NAN } else { tick.elapsed_ns as f64 * 1e-9 };
        times.seconds.push(seconds);
    }
    times.total_ns = times.ns.iter().sum();
    times.origin_ns = origin_ns;
    times.number = number;
}

/// Requests in flight above which a device counts as busy.
const BUSY_QUEUE: f64 = 1.0;
/// Longest tick that counts for steadiness: means over minutes are smooth under any load.
const LONGEST_STEADY_NS: u64 = 60_000_000_000;

fn feed(statistic: &mut Statistic, plan: &StatisticPlan, columns: &NodeColumns<'_>, times: &ChunkTimes) {
    let (queue, value) = (columns.of(plan.queue), columns.of(plan.value));
    for tick in 0..times.ns.len() {
        let gap = queue.weights[tick].is_nan() || value.weights[tick].is_nan();
        let length = queue.values[tick];
        match statistic.kind {
            Pseudo::LightLoad | Pseudo::LightLoadBytes if !gap => {
                if let Some(light) = LIGHT_QUEUES.iter().position(|max_queue| length <= *max_queue) {
                    statistic.light[light].one(times.number + tick, value.values[tick], value.weights[tick]);
                }
            }
            Pseudo::BusySteadiness if !gap && length > BUSY_QUEUE && times.ns[tick] <= LONGEST_STEADY_NS => {
                let days = (times.ends[tick] - times.origin_ns) as f64 / 86_400e9;
                statistic.levels.held(value.values[tick], value.weights[tick], days);
            }
            Pseudo::BusySteadiness if !gap => statistic.levels.broken(),
            _ => {}
        }
    }
}
