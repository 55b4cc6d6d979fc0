//! The judge: takes frames and notes one after another and keeps sums, not samples. The module `answer` turns its
//! observation into verdicts (`Judge::finish`).

use std::sync::Arc;

use diskwright_base::{Ceiling, Frame, Note, Schema, ceiling};

use crate::compile::{JudgeProgram, ProgramOptions, SchemaIndex, StatisticPlan, compile_rules};
use crate::culprits::{Culprits, DatabaseTotals, ProcessOnsets, Requesters};
use crate::rules::{LogOrigin, Pack, Pseudo};
use crate::run::event_watch::EventWatch;
use crate::run::latest_row::LatestRow;
use crate::run::log_notes::LogNotes;
use crate::run::machine_onsets::MachineOnsets;
use crate::run::observation::Observation;
use crate::run::program_cache::{CachedProgram, TopologyReader};
use crate::run::volume_watch::VolumeWatch;
use crate::sums::{
    CHUNK_TICKS, Chunk, ChunkTimes, ClockBucketTicks, ClockTimeline, LIGHT_LOAD_QUEUES, MAX_CHANGE_BUCKETS,
    MaskScratch, NodeColumn, NodeColumns, States, Statistic, WindowBucketTicks, WindowGrid, WindowState,
};

/// Facts that the caller knows apart from the samples.
#[derive(Clone, Debug, Default)]
pub struct JudgeOptions {
    /// The server's role (`file-server`, …); rules for roles apply only with it.
    pub role: Option<String>,
    /// Start and end of the window, nanoseconds since 1970, if known beforehand: changes against the window's first
    /// part need it.
    pub expected: Option<(i64, i64)>,
    /// Ceilings that probes measured, of this machine's devices or of others; a ceiling is matched with a device by its
    /// key, or by its name if it has no key.
    pub ceilings: Vec<Ceiling>,
    /// Clock of who reads the verdict, nanoseconds since 1970 UTC. A verdict on a window that ended long ago names no
    /// process to act on. `None` where a verdict is read as it is made.
    pub clock: Option<fn() -> i64>,
}

/// Judges a window by one or more packs.
pub struct Judge {
    options: JudgeOptions,
    observation: Observation,
    /// Clock of the trend buckets; `None` where the window is known to be too short for trends.
    timeline: Option<ClockTimeline>,
    /// Clock of the buckets in which changes of level are looked for.
    change_timeline: ClockTimeline,
    /// Compiled rules for the series of the last frame.
    program: Arc<JudgeProgram>,
    scratch: JudgeScratch,
    /// Ceilings from notes of this window.
    noted_ceilings: Vec<Ceiling>,
    /// True until a program was prepared for this window: the states are those of a new judge.
    is_unprepared: bool,
    /// True if more windows may follow, so that the program of the first schema is kept for them.
    keeps_program: bool,
    cached_program: Option<CachedProgram>,
    topologies: TopologyReader,
}

/// Largest number of ceilings from options and notes together.
const MAX_CEILINGS: usize = 65_536;

/// Buffers that are reused from chunk to chunk.
#[derive(Default)]
struct JudgeScratch {
    slots: Vec<NodeColumn>,
    times: ChunkTimes,
    segments: Vec<WindowBucketTicks>,
    clock_ticks: Vec<ClockBucketTicks>,
    change_ticks: Vec<ClockBucketTicks>,
    masks: MaskScratch,
    /// For each lazy node, the number of the last chunk for which it was computed.
    computed: Vec<u64>,
    chunk: u64,
}

/// Clock of the trend buckets of a window; `None` where it is known to be too short for trends.
fn trend_timeline(expected: Option<(i64, i64)>) -> Option<ClockTimeline> {
    if expected.is_some_and(|window| !crate::sums::is_long_enough(window)) {
        return None;
    }
    let mut timeline = ClockTimeline::default();
    expected.into_iter().for_each(|window| timeline.reserve_window(window));
    Some(timeline)
}

fn change_timeline(expected: Option<(i64, i64)>) -> ClockTimeline {
    let mut timeline = ClockTimeline::with_max_buckets(MAX_CHANGE_BUCKETS);
    expected.into_iter().for_each(|window| timeline.reserve_window(window));
    timeline
}

fn empty_observation(packs: Vec<Pack>, options: &JudgeOptions) -> Observation {
    Observation {
        ceilings: ceiling::ceilings_for_topology(None, &options.ceilings),
        states: States::new(&packs),
        window: WindowState::default(),
        grid: WindowGrid::default(),
        packs,
        topology: None,
        notes: LogNotes::default(),
        events: EventWatch::default(),
        process_onsets: ProcessOnsets::default(),
        machine_onsets: MachineOnsets::default(),
        volumes: VolumeWatch::default(),
        culprits: Culprits::default(),
        requesters: Requesters::default(),
        databases: DatabaseTotals::default(),
        schema: None,
        latest: LatestRow::default(),
        role: options.role.clone(),
        clock: options.clock,
    }
}

impl Judge {
    /// Creates a judge for these packs.
    pub fn new(packs: Vec<Pack>, options: JudgeOptions) -> Judge {
        Judge {
            timeline: trend_timeline(options.expected),
            change_timeline: change_timeline(options.expected),
            observation: empty_observation(packs, &options),
            options,
            program: Arc::default(),
            scratch: JudgeScratch::default(),
            noted_ceilings: Vec::new(),
            is_unprepared: true,
            keeps_program: false,
            cached_program: None,
            topologies: TopologyReader::default(),
        }
    }

    /// Starts another window with the same packs, role and ceilings. The verdict is that of a new judge, and costs less
    /// where series and topology are those of the window before.
    pub fn restart(&mut self, expected: Option<(i64, i64)>) {
        self.options.expected = expected;
        self.timeline = trend_timeline(expected);
        self.change_timeline = change_timeline(expected);
        self.observation = empty_observation(std::mem::take(&mut self.observation.packs), &self.options);
        self.noted_ceilings.clear();
        self.is_unprepared = true;
        self.keeps_program = true;
    }

    /// Adds a batch of ticks. Batches come in the order of time; the verdict does not depend on how the ticks are cut
    /// into batches.
    pub fn add_frame(&mut self, frame: &Frame) {
        if frame.is_empty() {
            return;
        }
        self.prepare_program(frame.schema());
        self.observation.latest.keep_last(frame);
        let count = frame.ticks().len();
        for start in (0..count).step_by(CHUNK_TICKS) {
            let range = start..(start + CHUNK_TICKS).min(count);
            self.observation.events.add_ticks(frame, range.clone());
            self.observation.machine_onsets.add_ticks(frame, range.clone());
            self.observation.volumes.add_ticks(frame, range.clone());
            self.process_chunk(frame, range);
        }
    }

    /// Adds a note: topology, process table, trace, ceilings, or a remark that limits certainty.
    pub fn add_note(&mut self, note: &Note) {
        match note.kind.as_str() {
            Note::TOPOLOGY => match self.topologies.read(note) {
                Ok(topology) => {
                    if self.observation.topology.as_ref() != Some(topology.as_ref()) {
                        let Observation { topology: before, machine_onsets, .. } = &mut self.observation;
                        if let Some(before) = before {
                            machine_onsets.add_topology(note.time_ns, before, &topology);
                        }
                        self.observation.volumes.set_topology(&topology);
                        self.observation.topology = Some(Arc::unwrap_or_clone(topology));
                        self.match_ceilings();
                    }
                }
                Err(error) => self.note_unreadable(note, &error),
            },
            Note::PROCESSES => match note.read_processes() {
                Ok(table) => {
                    self.observation.process_onsets.add_table(note.time_ns, &table);
                    self.observation.culprits.add_table(&table);
                }
                Err(error) => self.note_unreadable(note, &error),
            },
            Note::REQUESTERS => match note.read_requesters() {
                Ok(table) => self.observation.requesters.add_table(&table),
                Err(error) => self.note_unreadable(note, &error),
            },
            Note::DATABASE => match note.read_database() {
                Ok(activity) => self.observation.databases.add_activity(&activity),
                Err(error) => self.note_unreadable(note, &error),
            },
            Note::CEILINGS => match note.read_ceilings() {
                Ok(ceilings) => {
                    let is_known = |c: &Ceiling| self.options.ceilings.contains(c) || self.noted_ceilings.contains(c);
                    let new = ceilings.iter().filter(|c| !is_known(c)).take(MAX_CEILINGS);
                    let new: Vec<Ceiling> = new.cloned().collect();
                    let free_count =
                        MAX_CEILINGS.saturating_sub(self.options.ceilings.len() + self.noted_ceilings.len());
                    if !new.is_empty() && free_count > 0 {
                        self.noted_ceilings.extend(new.into_iter().take(free_count));
                        self.match_ceilings();
                    }
                }
                Err(error) => self.note_unreadable(note, &error),
            },
            Note::EVENT => {
                if let Err(error) = self.observation.events.add_note(note) {
                    self.note_unreadable(note, &error);
                }
            }
            _ => self.observation.notes.add_note(note),
        }
    }

    /// Matches ceilings with devices. The program is compiled again, because scopes depend on topology and ceilings;
    /// collected states stay.
    fn match_ceilings(&mut self) {
        let known = [self.options.ceilings.as_slice(), &self.noted_ceilings].concat();
        self.observation.ceilings = ceiling::ceilings_for_topology(self.observation.topology.as_ref(), &known);
        self.observation.schema = None;
    }

    /// Adds a remark that a note could not be read.
    fn note_unreadable(&mut self, note: &Note, error: &serde_json::Error) {
        let text = format!("a {} note could not be read: {error}", note.kind);
        self.observation.notes.add_note(&Note::new(note.time_ns, Note::WARNING, text));
    }

    /// The observation so far.
    pub(crate) fn observation(&self) -> &Observation {
        &self.observation
    }

    /// Prepares the program for a schema, unless it is that of the last frame.
    fn prepare_program(&mut self, schema: &Arc<Schema>) {
        if self.observation.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return;
        }
        let foreign = self.observation.notes.source != LogOrigin::Live;
        let knows_window = self.options.expected.is_some();
        let is_first = std::mem::replace(&mut self.is_unprepared, false);
        let kept = self.cached_program.as_ref().filter(|_| is_first);
        if let Some((program, states)) =
            kept.and_then(|kept| kept.reuse_for(&self.observation, schema, (foreign, knows_window)))
        {
            (self.program, self.observation.states) = (program, states);
        } else {
            self.rebuild_program(schema, foreign, knows_window);
            if is_first && self.keeps_program {
                let kept = CachedProgram::new(&self.observation, schema, (foreign, knows_window), &self.program);
                self.cached_program = Some(kept);
            }
        }
        self.scratch.slots.resize_with(self.program.slot_count, NodeColumn::default);
        self.scratch.computed.clear();
        self.scratch.computed.resize(self.program.nodes.len(), 0);
        self.observation.schema = Some(schema.clone());
    }

    /// Compiles the rules; `foreign` is true for another tool's log.
    fn rebuild_program(&mut self, schema: &Schema, foreign: bool, knows_window: bool) {
        let schema_index = SchemaIndex::new(schema, self.observation.topology.as_ref(), &self.observation.ceilings)
            .with_hidden_spindles(foreign);
        self.observation.states.forget_gone_instances(|instance| schema_index.has_instance(instance));
        let options = ProgramOptions { role: self.options.role.as_deref(), knows_window, finds_changes: true };
        self.program =
            Arc::new(compile_rules(&self.observation.packs, &schema_index, &options, &mut self.observation.states));
    }

    fn process_chunk(&mut self, frame: &Frame, range: std::ops::Range<usize>) {
        let Judge {
            options,
            program,
            observation: Observation { states, window, grid, .. },
            timeline,
            change_timeline,
            scratch,
            ..
        } = self;
        scratch.chunk += 1;
        // it may wrap around: only its remainder by the number of lanes counts (see `LaneSums`)
        let number = (window.ticks % (1 << 48)) as usize;
        window.add_ticks(frame, range.clone(), &mut scratch.segments);
        scratch.clock_ticks.clear();
        timeline.iter_mut().for_each(|line| line.cut_ticks(frame, range.clone(), &mut scratch.clock_ticks));
        change_timeline.cut_ticks(frame, range.clone(), &mut scratch.change_ticks);
        scratch.times.fill_from(frame, range.clone(), window.from_ns, number);
        scratch.times.expected = options.expected;
        scratch.times.grid_cells.clear();
        scratch.times.grid_cells.extend(frame.ticks()[range.clone()].iter().map(|tick| grid.add_tick(tick)));
        let seconds = std::mem::take(&mut scratch.times.seconds);
        let chunk = Chunk { frame, range, seconds: &seconds };
        let mut columns = NodeColumns { slot_of: &program.slot_of, slots: &mut scratch.slots };
        for &node in &program.shared {
            columns.evaluate_node(node, &program.nodes[node], &chunk);
        }
        for group in &program.groups {
            for &node in &group.order {
                columns.evaluate_node(node, &program.nodes[node], &chunk);
            }
            for &(node, track) in &group.tracks {
                let slot = columns.node_column(node);
                let track = &mut states.tracks[track];
                track.add_chunk(number, &scratch.segments, &slot.values, &slot.weights);
                if let Some(buckets) = &mut track.buckets {
                    buckets.add_chunk(number, &scratch.clock_ticks, &slot.values, &slot.weights);
                }
            }
            for &(node, series) in &group.changes {
                let slot = columns.node_column(node);
                let buckets = &mut states.change_series[series].buckets;
                buckets.add_chunk(number, &scratch.change_ticks, &slot.values, &slot.weights);
            }
            for plan in &group.statistics {
                feed_statistic(&mut states.statistics[plan.state], plan, &columns, &scratch.times);
            }
            for plan in &group.progress_plans {
                let progress = &mut states.progress[plan.state];
                if !progress.judge_chunk(plan, &columns, &scratch.times, &mut scratch.masks) {
                    continue;
                }
                for &node in plan.lazy.iter().filter(|node| scratch.computed[**node] != scratch.chunk) {
                    columns.evaluate_node(node, &program.nodes[node], &chunk);
                }
                plan.lazy.iter().for_each(|node| scratch.computed[*node] = scratch.chunk);
                progress.read_evidence(plan, &columns, &scratch.times, &scratch.masks);
            }
        }
        scratch.times.seconds = seconds;
    }
}

/// Requests in flight above which a device counts as busy.
const BUSY_QUEUE: f64 = 1.0;
/// Longest tick that counts for steadiness: means over minutes are smooth under any load.
const MAX_STEADY_TICK_NS: u64 = 60_000_000_000;

/// Adds a chunk of ticks to a statistic of a device.
fn feed_statistic(statistic: &mut Statistic, plan: &StatisticPlan, columns: &NodeColumns<'_>, times: &ChunkTimes) {
    let (queue, value) = (columns.node_column(plan.queue), columns.node_column(plan.value));
    for tick in 0..times.lengths_ns.len() {
        let gap = queue.weights[tick].is_nan() || value.weights[tick].is_nan();
        let queue_length = queue.values[tick];
        match statistic.kind {
            Pseudo::LightLoad | Pseudo::LightLoadBytes if !gap => {
                if let Some(light) = LIGHT_LOAD_QUEUES.iter().position(|max_queue| queue_length <= *max_queue) {
                    statistic.light_load[light].add_tick(
                        times.first_tick + tick,
                        value.values[tick],
                        value.weights[tick],
                    );
                }
            }
            Pseudo::BusySteadiness
                if !gap && queue_length > BUSY_QUEUE && times.lengths_ns[tick] <= MAX_STEADY_TICK_NS =>
            {
                let days = (times.ends_ns[tick] - times.origin_ns) as f64 / 86_400e9;
                statistic.levels.add_held(value.values[tick], value.weights[tick], days);
            }
            Pseudo::BusySteadiness if !gap => statistic.levels.end_stretch(),
            _ => {}
        }
    }
}
