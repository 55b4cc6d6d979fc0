//! Writes logs that overlap in time as one log.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use diskwright_base::{Catalogue, CounterKind, Frame, Note, Schema, Series, Tick, Topology};
use diskwright_datastore::LogItem;

use super::join_report::{find_contradiction, report_joining, report_set_back_clocks};
use super::member::{MemberRank, MergeMember};
use super::outline::{
    MemberOutline, SHARES_OF_ONE_LOG, ShareOwners, TickOrder, outline_member, spans_overlap, tick_span,
};
use super::output::MergeOutput;
use super::timeline::{self, TickGrid, TickSpan};
use crate::IngestError;
use crate::losses::Losses;
use crate::report::Reporter;
use crate::stored_log::{StoredLog, StoredReader};

/// A column of a member, with the destination and scale of its values.
#[derive(Clone, Copy)]
struct MergeTarget {
    column: usize,
    factor: f64,
    kind: Option<CounterKind>,
    /// Index into [`MergeColumns::other_spans`]: the ranges in which other members provide the counter.
    other_spans: usize,
}

/// A tick of a member, aligned to the timeline's grid.
struct MergeSample {
    span: TickSpan,
    cells: Vec<(MergeTarget, f64)>,
}

/// Writes the members of one group, as far as they lie in a window.
///
/// # Errors
/// When a member cannot be read, or the destination cannot be written.
pub fn join_group(
    members: Vec<MergeMember>,
    window: (i64, i64),
    output: &mut MergeOutput<'_>,
    losses: &mut Losses,
    reporter: &Reporter,
) -> Result<(), IngestError> {
    if let [only] = &members[..] {
        return copy_log(&only.stored, window, output, losses);
    }
    let mut outlined = Vec::new();
    for member in members {
        let outline = outline_member(&member.stored, window)?;
        outlined.push((member, outline));
    }
    // the best measurement of the shortest interval first: its ticks are the timeline, and shared counters are taken
    // from it
    outlined.sort_by_key(|(member, outline)| match timeline::median_length(&outline.spans) {
        0 => (member.rank, i64::MAX),
        length => (member.rank, length),
    });
    let stretched = stretch_moments(&mut outlined);
    let (members, outlines): (Vec<MergeMember>, Vec<MemberOutline>) = outlined.into_iter().unzip();
    let share_owners = ShareOwners::find(&outlines);
    report_joining(&members, (&outlines, &share_owners), reporter);
    report_set_back_clocks(&members, &outlines, reporter);
    let time_ns = outlines[0].spans.first().map_or(window.0, |span| span.1);
    if let Some(text) = find_contradiction(&members, (&outlines, &share_owners)) {
        output.add_note(&Note::new(time_ns, Note::WARNING, text))?;
    }
    let grid = TickGrid::new(&outlines[0].spans);
    let mut spans = outlines[0].spans.clone();
    for outline in &outlines[1..] {
        let aligned: Vec<TickSpan> = outline.spans.iter().map(|span| grid.align_span(*span)).collect();
        timeline::add_uncovered(&mut spans, &aligned);
    }
    let mut columns = MergeColumns::new(&outlines, &share_owners);
    let mut cursors = Vec::new();
    let mut topologies = Topologies { known: outlines.into_iter().map(|o| o.topology).collect(), written: None };
    for (rank, member) in members.iter().enumerate() {
        cursors.push(MergeCursor { stretched: stretched[rank], ..MergeCursor::open(rank, &member.stored, window)? });
    }
    for span in spans {
        topologies.write_merged(span.1, output)?;
        columns.begin_row();
        for cursor in &mut cursors {
            let grid = (cursor.rank > 0).then_some(&grid);
            cursor.add_span(span, grid, &mut columns, &mut topologies, output, losses)?;
        }
        let tick = Tick { time_ns: span.1, elapsed_ns: (span.1 - span.0).unsigned_abs() };
        output.push_tick(&columns.row_schema(), tick, &columns.row)?;
    }
    // notes after the last tick
    for cursor in &mut cursors {
        while cursor.next_sample(None, &mut columns, &mut topologies, output, losses)?.is_some() {}
    }
    Ok(())
}

/// Time around a moment for which a list holds: what is full, missing or in trouble was so before, and stays so.
const MAX_STRETCH_NS: i64 = 600 * 1_000_000_000;

/// Stretches lists of one moment over the ticks around it. Returns the span of each member's only tick, if it changed.
fn stretch_moments(outlined: &mut [(MergeMember, MemberOutline)]) -> Vec<Option<TickSpan>> {
    let timeline = outlined.first().filter(|(member, _)| member.rank < MemberRank::Lists);
    let Some(whole) = timeline.and_then(|(_, outline)| outline.total_span()) else { return vec![None; outlined.len()] };
    let stretch = |(member, outline): &mut (MergeMember, MemberOutline)| {
        let [(_, moment)] = outline.spans[..] else { return None };
        let from = whole.0.max(moment.saturating_sub(MAX_STRETCH_NS));
        let to = whole.1.min(moment.saturating_add(MAX_STRETCH_NS));
        let is_stretched = member.rank == MemberRank::Lists && from < to;
        is_stretched.then(|| {
            outline.spans = vec![(from, to)];
            (from, to)
        })
    };
    outlined.iter_mut().map(stretch).collect()
}

/// Copies a log that overlaps with no other.
fn copy_log(
    log: &StoredLog,
    window: (i64, i64),
    output: &mut MergeOutput<'_>,
    losses: &mut Losses,
) -> Result<(), IngestError> {
    let mut reader = log.open_reader()?;
    reader.set_window(window.0, window.1);
    let mut frame = Frame::default();
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Frame => output.push_frame(&frame)?,
            LogItem::Note(note) => output.add_note(&note)?,
            LogItem::Damage(damage) => {
                if let Some(note) = losses.record_damage(damage) {
                    output.add_note(&note)?;
                }
            }
        }
    }
    Ok(())
}

fn is_share_of_one_log(counter: &str) -> bool {
    SHARES_OF_ONE_LOG.contains(&counter)
}

/// The columns of the joined log, and the row that is being filled.
struct MergeColumns {
    series: Vec<Series>,
    column_index: HashMap<(String, String), usize>,
    /// Providers of a series: rank and span, in order of ranks.
    owners: HashMap<(String, String), Vec<(usize, TickSpan)>>,
    /// Members whose shares of a processor are used instead of those of the member of a rank, with their spans.
    used_shares: HashMap<(usize, String), TickSpan>,
    /// Spans in which a member's series is taken from others; the first is empty.
    other_spans: Vec<Vec<TickSpan>>,
    schema: Option<Arc<Schema>>,
    row: Vec<f64>,
    /// Time that each level's mean in the row covers.
    weights: Vec<f64>,
}

impl MergeColumns {
    fn new(outlines: &[MemberOutline], share_owners: &ShareOwners) -> MergeColumns {
        let mut owners: HashMap<(String, String), Vec<(usize, TickSpan)>> = HashMap::new();
        for (rank, outline) in outlines.iter().enumerate() {
            let Some(extent) = outline.total_span() else { continue };
            for series in &outline.series {
                owners.entry(series.clone()).or_default().push((rank, extent));
            }
        }
        let mut used_shares = HashMap::new();
        for (rank, outline) in outlines.iter().enumerate() {
            for (_, instance) in outline.series.iter().filter(|(counter, _)| is_share_of_one_log(counter)) {
                let owner = share_owners.owner(instance, rank);
                if let Some(span) = outlines[owner].total_span().filter(|_| owner != rank) {
                    used_shares.insert((rank, instance.clone()), span);
                }
            }
        }
        MergeColumns {
            series: Vec::new(),
            column_index: HashMap::new(),
            owners,
            used_shares,
            other_spans: vec![Vec::new()],
            schema: None,
            row: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn row_schema(&mut self) -> Arc<Schema> {
        Arc::clone(self.schema.get_or_insert_with(|| Arc::new(Schema::new(self.series.clone()))))
    }

    fn begin_row(&mut self) {
        self.row.fill(f64::NAN);
        self.weights.fill(0.0);
    }

    /// Destinations of a member's series; `None` for one that it has twice.
    fn find_targets(&mut self, rank: usize, schema: &Schema) -> Vec<Option<MergeTarget>> {
        let mut known = BTreeSet::new();
        let mut target = |series: &Series| {
            let key = (series.counter.clone(), series.instance.clone());
            if !known.insert(key.clone()) {
                return None;
            }
            let owners = self.owners.get(&key).map_or(&[][..], Vec::as_slice);
            let own = owners.iter().find(|(owner, _)| *owner == rank).map(|(_, extent)| *extent)?;
            let preferred = owners.iter().filter(|(owner, extent)| *owner < rank && spans_overlap(*extent, own));
            let preferred: Vec<TickSpan> = match is_share_of_one_log(&series.counter) {
                true => self.used_shares.get(&(rank, series.instance.clone())).copied().into_iter().collect(),
                false => preferred.map(|(_, extent)| *extent).collect(),
            };
            let other_spans = match preferred.is_empty() {
                true => 0,
                false => {
                    self.other_spans.push(preferred);
                    self.other_spans.len() - 1
                }
            };
            let column = *self.column_index.entry(key).or_insert_with(|| {
                self.schema = None;
                self.series.push(series.clone());
                self.row.push(f64::NAN);
                self.weights.push(0.0);
                self.series.len() - 1
            });
            let kind = Catalogue::builtin().get(&series.counter).map(|counter| counter.kind);
            Some(MergeTarget { column, factor: series.scale / self.series[column].scale, kind, other_spans })
        };
        schema.series.iter().map(&mut target).collect()
    }

    /// Adds the part of a sample that lies in a span.
    fn add_sample(&mut self, sample: &MergeSample, span: TickSpan) {
        let length = sample.span.1 - sample.span.0;
        let shared = sample.span.1.min(span.1) - sample.span.0.max(span.0);
        let is_whole = sample.span == span;
        debug_assert!(length <= 0 || shared > 0, "{:?} and {span:?} have nothing in common", sample.span);
        for (target, value) in &sample.cells {
            let (cell, weight) = (&mut self.row[target.column], &mut self.weights[target.column]);
            if is_whole {
                (*cell, *weight) = (*value, 1.0);
            } else if length <= 0 {
                // amounts in a first report count since the machine started, so they are dropped; its levels are valid
                if target.kind == Some(CounterKind::Level) && cell.is_nan() {
                    *cell = *value;
                }
            } else if target.kind == Some(CounterKind::Total) {
                // an amount counted in the tick is spread over time
                let part = value * (shared as f64 / length as f64);
                *cell = if cell.is_nan() { part } else { *cell + part };
            } else {
                let more = shared as f64;
                *cell = if *weight > 0.0 { (*cell * *weight + value * more) / (*weight + more) } else { *value };
                *weight += more;
            }
        }
    }
}

/// The machine as all members describe it.
struct Topologies {
    known: Vec<Option<Topology>>,
    written: Option<Topology>,
}

impl Topologies {
    fn write_merged(&mut self, time_ns: i64, output: &mut MergeOutput<'_>) -> Result<(), IngestError> {
        let mut merged = Topology::default();
        for topology in self.known.iter().flatten() {
            let fill_text = |target: &mut String, source: &String| {
                if target.is_empty() {
                    target.clone_from(source);
                }
            };
            fill_text(&mut merged.host, &topology.host);
            fill_text(&mut merged.kernel, &topology.kernel);
            merged.processors = merged.processors.max(topology.processors);
            merged.memory_bytes = merged.memory_bytes.max(topology.memory_bytes);
            let is_new = |d: &&diskwright_base::Device| !merged.devices.iter().any(|known| known.name == d.name);
            let devices: Vec<_> = topology.devices.iter().filter(is_new).cloned().collect();
            merged.devices.extend(devices);
            if merged.filesystems.is_empty() {
                merged.filesystems.clone_from(&topology.filesystems);
            }
            if merged.swaps.is_empty() {
                merged.swaps.clone_from(&topology.swaps);
            }
        }
        if self.known.iter().all(Option::is_none) || self.written.as_ref() == Some(&merged) {
            return Ok(());
        }
        output.add_note(&Note::topology(time_ns, merged.clone()))?;
        self.written = Some(merged);
        Ok(())
    }
}

/// A member that is being read.
struct MergeCursor {
    rank: usize,
    reader: StoredReader,
    frame: Frame,
    position: usize,
    /// Number of ticks of the frame, once the notes before it were passed on.
    ticks: usize,
    targets: Vec<Option<MergeTarget>>,
    schema: Option<Arc<Schema>>,
    /// The sample that has not ended yet.
    sample: Option<MergeSample>,
    order: TickOrder,
    is_finished: bool,
    /// Span of its only tick, if it holds for longer.
    stretched: Option<TickSpan>,
}

impl MergeCursor {
    fn open(rank: usize, log: &StoredLog, window: (i64, i64)) -> Result<MergeCursor, IngestError> {
        let mut reader = log.open_reader()?;
        reader.set_window(window.0, window.1);
        let (frame, targets) = (Frame::default(), Vec::new());
        Ok(MergeCursor {
            rank,
            reader,
            frame,
            position: 0,
            ticks: 0,
            targets,
            schema: None,
            sample: None,
            order: TickOrder::default(),
            is_finished: false,
            stretched: None,
        })
    }

    /// Adds everything that lies in a span of the timeline.
    fn add_span(
        &mut self,
        span: TickSpan,
        grid: Option<&TickGrid>,
        columns: &mut MergeColumns,
        topologies: &mut Topologies,
        output: &mut MergeOutput<'_>,
        losses: &mut Losses,
    ) -> Result<(), IngestError> {
        loop {
            let sample = match self.sample.take() {
                Some(sample) => sample,
                None => match self.next_sample(grid, columns, topologies, output, losses)? {
                    Some(sample) => sample,
                    None => return Ok(()),
                },
            };
            let (from, to) = sample.span;
            let is_moment = from == to;
            let is_in = is_moment && (sample.span == span || span.0 < to && to <= span.1);
            if is_in || from.max(span.0) < to.min(span.1) {
                columns.add_sample(&sample, span);
            }
            if to > span.1 || to == span.1 && span.0 == span.1 && !is_moment {
                self.sample = Some(sample);
                return Ok(());
            }
        }
    }

    /// Skips ticks whose times occurred before, which the timeline does not have.
    fn skip_repeated(&mut self) {
        while self.position < self.ticks && self.order.is_repeated_tick(&self.frame.ticks()[self.position]) {
            self.position += 1;
        }
    }

    /// Returns the next tick; notes before it are written.
    fn next_sample(
        &mut self,
        grid: Option<&TickGrid>,
        columns: &mut MergeColumns,
        topologies: &mut Topologies,
        output: &mut MergeOutput<'_>,
        losses: &mut Losses,
    ) -> Result<Option<MergeSample>, IngestError> {
        self.skip_repeated();
        while self.position == self.ticks {
            (self.position, self.ticks) = (0, 0);
            if self.is_finished {
                return Ok(None);
            }
            match self.reader.next(&mut self.frame)? {
                None => self.is_finished = true,
                Some(LogItem::Frame) => {
                    self.ticks = self.frame.ticks().len();
                    self.skip_repeated();
                    if self.schema.as_ref() != Some(self.frame.schema()) {
                        self.targets = columns.find_targets(self.rank, self.frame.schema());
                        self.schema = Some(Arc::clone(self.frame.schema()));
                    }
                }
                Some(LogItem::Note(note)) if note.kind == Note::TOPOLOGY => {
                    topologies.known[self.rank] = note.read_topology().ok().map(Arc::unwrap_or_clone);
                }
                Some(LogItem::Note(note)) => output.add_note(&note)?,
                Some(LogItem::Damage(damage)) => {
                    if let Some(note) = losses.record_damage(damage) {
                        output.add_note(&note)?;
                    }
                }
            }
        }
        let index = self.position;
        self.position += 1;
        let span = self.stretched.unwrap_or_else(|| tick_span(&self.frame.ticks()[index]));
        let is_provided = |target: &MergeTarget| {
            columns.other_spans[target.other_spans].iter().any(|other| spans_overlap(span, *other))
        };
        let value = |(column, target): (usize, &Option<MergeTarget>)| {
            let target = (*target).filter(|target| !is_provided(target))?;
            let value = self.frame.column(column)[index] * target.factor;
            (!value.is_nan()).then_some((target, value))
        };
        let cells = self.targets.iter().enumerate().filter_map(value).collect();
        Ok(Some(MergeSample { span: grid.map_or(span, |grid| grid.align_span(span)), cells }))
    }
}
