//! Logs of one machine whose times overlap (iostat, vmstat and sar of the same hour), joined onto one timeline, so that
//! no second is judged twice and counters of one log meet those of another.
//!
//! The timeline is that of the log with the shortest interval. Amounts that others counted in one of their ticks are
//! spread over the timeline's ticks by time, so that totals stay; their levels and rates apply to each of them. A
//! counter that several logs have at the same time is taken from one of them.

mod clock_check;
mod placing;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_count;
use diskwright_base::{Catalogue, CounterKind, Frame, Note, Schema, Series, Tick, Topology, text};
use diskwright_datastore::{LogItem, LogReader, LogWriter};
use diskwright_logs::TimeBasis;

use super::bundle;
use super::damage::Losses;
use super::temporary::TemporaryFolder;
use super::{Failure, output};
pub use clock_check::{UnreadableLogs, read_each_log};
use timeline::{TickGrid, TickSpan};

/// A log that is joined with others.
pub struct MergeMember {
    /// Name that the user gave.
    pub name: String,
    /// Path of a Diskwright log.
    pub path: PathBuf,
    /// First and last tick.
    pub range_ns: (i64, i64),
    /// Origin of its times.
    pub time_basis: TimeBasis,
    /// Id of its format; empty for a Diskwright log.
    pub format: &'static str,
    /// True for a log of a folder or archive: if it cannot be joined, the others are.
    pub is_bundled: bool,
}

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

/// Facts about a member before its values are read.
struct MemberOutline {
    /// Spans of its ticks, in order of time.
    spans: Vec<TickSpan>,
    /// Number of ticks whose times occurred before, because the clock was set back. They are left out.
    repeated_ticks: usize,
    /// Time of the first repeated tick.
    set_back_ns: Option<i64>,
    series: BTreeSet<(String, String)>,
    topology: Option<Topology>,
}

/// Finds members that are not joined with the others: those of other machines, and those whose times cannot be placed.
/// The reason is reported. A member that the user named is an error.
pub fn find_left_out(members: &[MergeMember]) -> Result<Vec<bool>, Failure> {
    let mut is_left_out = bundle::mark_other_machines(members)?;
    clock_check::mark_unplaced(members, &mut is_left_out)?;
    Ok(is_left_out)
}

/// Groups members that overlap in time, or of which one is a moment at which another begins; ranges must be in order.
pub fn group_overlapping(members: Vec<MergeMember>) -> Vec<Vec<MergeMember>> {
    let mut groups: Vec<Vec<MergeMember>> = Vec::new();
    let (mut begin, mut end) = (i64::MIN, i64::MIN);
    for member in members {
        let overlaps = member.range_ns.0 < end || begin == end && member.range_ns.0 == end;
        begin = if overlaps { begin } else { member.range_ns.0 };
        end = if overlaps { end.max(member.range_ns.1) } else { member.range_ns.1 };
        match groups.last_mut() {
            Some(group) if overlaps => group.push(member),
            _ => groups.push(vec![member]),
        }
    }
    groups
}

/// Refuses logs of different machines.
pub fn check_same_host(members: &[MergeMember]) -> Result<(), Failure> {
    let mut known: Option<(String, &str)> = None;
    for member in members {
        let Some(host) = find_host(&member.path)? else { continue };
        match &known {
            Some((first, name)) if !text::is_same_host(first, &host) => {
                return Err(Failure::Failed(format!(
                    "{name} is a log of {first}, but {} is of {host}; give logs of one machine only",
                    member.name
                )));
            }
            Some(_) => {}
            None => known = Some((host, &member.name)),
        }
    }
    Ok(())
}

/// The first host name in a log.
pub fn find_host(path: &Path) -> Result<Option<String>, Failure> {
    let mut reader = LogReader::open(path)?;
    let mut frame = Frame::default();
    let mut frames = 0;
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Note(note) if note.kind == Note::TOPOLOGY => {
                let host = note.read_topology().map(|t| t.host.clone()).unwrap_or_default();
                if !host.is_empty() {
                    return Ok(Some(host));
                }
            }
            // a topology note precedes the ticks that it describes
            LogItem::Frame if frames > 1 => break,
            LogItem::Frame => frames += 1,
            _ => {}
        }
    }
    Ok(None)
}

/// Ticks between two checks of free space.
const TICKS_PER_SPACE_CHECK: usize = 1000;

/// Writes the members of one group, as far as they lie in a window. `folder` is the destination if it is temporary: it
/// leaves a reserve on its filesystem.
pub fn join_group(
    mut members: Vec<MergeMember>,
    window: (i64, i64),
    writer: &mut LogWriter,
    losses: &mut Losses,
    folder: Option<&TemporaryFolder>,
) -> Result<(), Failure> {
    if let [only] = &members[..] {
        return copy_log(&only.path, window, writer, losses);
    }
    let mut outlines = BTreeMap::new();
    for member in &members {
        outlines.insert(member.path.clone(), outline_member(&member.path, window)?);
    }
    // the shortest interval first: its ticks are the timeline, and shared counters are taken from it
    members.sort_by_key(|member| match timeline::median_length(&outlines[&member.path].spans) {
        0 => i64::MAX,
        length => length,
    });
    let outlines: Vec<MemberOutline> = members.iter().filter_map(|member| outlines.remove(&member.path)).collect();
    report_joining(&members, &outlines);
    report_set_back_clocks(&members, &outlines);
    let grid = TickGrid::new(&outlines[0].spans);
    let mut spans = outlines[0].spans.clone();
    for outline in &outlines[1..] {
        let aligned: Vec<TickSpan> = outline.spans.iter().map(|span| grid.align_span(*span)).collect();
        timeline::add_uncovered(&mut spans, &aligned);
    }
    let mut columns = MergeColumns::new(&outlines);
    let mut cursors = Vec::new();
    let mut topologies = Topologies { known: outlines.into_iter().map(|o| o.topology).collect(), written: None };
    for (rank, member) in members.iter().enumerate() {
        cursors.push(MergeCursor::open(rank, &member.path, window)?);
    }
    for (number, span) in spans.into_iter().enumerate() {
        if let Some(temporary) = folder.filter(|_| number % TICKS_PER_SPACE_CHECK == 0) {
            temporary.check_free_space().map_err(Failure::Failed)?;
        }
        topologies.write_merged(span.1, writer)?;
        columns.begin_row();
        for cursor in &mut cursors {
            let grid = (cursor.rank > 0).then_some(&grid);
            cursor.add_span(span, grid, &mut columns, &mut topologies, writer, losses)?;
        }
        let tick = Tick { time_ns: span.1, elapsed_ns: (span.1 - span.0).unsigned_abs() };
        writer.push(&columns.row_schema(), tick, &columns.row)?;
    }
    // notes after the last tick
    for cursor in &mut cursors {
        while cursor.next_sample(None, &mut columns, &mut topologies, writer, losses)?.is_some() {}
    }
    Ok(())
}

/// Copies a log that overlaps with no other.
fn copy_log(path: &Path, window: (i64, i64), writer: &mut LogWriter, losses: &mut Losses) -> Result<(), Failure> {
    let mut reader = LogReader::open(path)?;
    reader.set_window(window.0, window.1);
    let mut frame = Frame::default();
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Frame => writer.push_frame(&frame)?,
            LogItem::Note(note) => drop(writer.add_note(&note)?),
            LogItem::Damage(damage) => {
                if let Some(note) = losses.record_damage(damage) {
                    writer.add_note(&note)?;
                }
            }
        }
    }
    Ok(())
}

/// Reads the ticks, series and machine of a log.
fn outline_member(path: &Path, window: (i64, i64)) -> Result<MemberOutline, Failure> {
    let mut outline = MemberOutline {
        spans: Vec::new(),
        repeated_ticks: 0,
        set_back_ns: None,
        series: BTreeSet::new(),
        topology: None,
    };
    let mut order = TickOrder::default();
    let mut reader = LogReader::open(path)?;
    reader.set_window(window.0, window.1);
    let mut frame = Frame::default();
    let mut last_schema: Option<Arc<Schema>> = None;
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Frame => {
                for tick in frame.ticks() {
                    if order.is_repeated_tick(tick) {
                        outline.repeated_ticks += 1;
                        outline.set_back_ns = outline.set_back_ns.or(Some(tick.time_ns));
                        continue;
                    }
                    outline.spans.push(tick_span(tick));
                }
                if last_schema.as_ref() != Some(frame.schema()) {
                    let series = frame.schema().series.iter();
                    outline.series.extend(series.map(|s| (s.counter.clone(), s.instance.clone())));
                    last_schema = Some(Arc::clone(frame.schema()));
                }
            }
            LogItem::Note(note) if note.kind == Note::TOPOLOGY && outline.topology.is_none() => {
                outline.topology = note.read_topology().ok().map(Arc::unwrap_or_clone);
            }
            _ => {}
        }
    }
    Ok(outline)
}

/// Detects ticks whose times a log already had, because its clock was set back.
#[derive(Default)]
struct TickOrder {
    latest_ns: Option<i64>,
    is_back: bool,
}

impl TickOrder {
    /// Handles the next tick; true until the clock has caught up.
    fn is_repeated_tick(&mut self, tick: &Tick) -> bool {
        let latest = self.latest_ns.unwrap_or(tick.time_ns);
        self.is_back = tick.time_ns < latest || self.is_back && tick.time_ns == latest;
        self.latest_ns = Some(latest.max(tick.time_ns));
        self.is_back
    }
}

fn tick_span(tick: &Tick) -> TickSpan {
    (tick.start_ns(), tick.time_ns)
}

impl MemberOutline {
    /// From the beginning of the first tick to the end of the last.
    fn total_span(&self) -> Option<TickSpan> {
        Some((self.spans.first()?.0, self.spans.last()?.1))
    }
}

/// True if two spans share some time, or one is a point in the other.
fn spans_overlap(one: TickSpan, other: TickSpan) -> bool {
    one.0.max(other.0) < one.1.min(other.1) || one.0 == one.1 && other.0 < one.0 && one.0 <= other.1
}

/// Maximum number of lines about one thing; beyond it only their number is reported.
const MAX_LINES: usize = 5;

/// Reports on standard error which logs are joined, and whose counters are used if several have them at once.
fn report_joining(members: &[MergeMember], outlines: &[MemberOutline]) {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let shown = names.iter().take(MAX_LINES).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > MAX_LINES { format!(" and {} more", names.len() - MAX_LINES) } else { String::new() };
    output::print_warning(format_args!("{shown}{more} overlap in time; they are merged as one log of one machine"));
    let mut owners: BTreeMap<&(String, String), Vec<usize>> = BTreeMap::new();
    let mut shared: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for (rank, outline) in outlines.iter().enumerate() {
        let Some(extent) = outline.total_span() else { continue };
        for series in &outline.series {
            let owners = owners.entry(series).or_default();
            let overlaps =
                |rank: &&usize| outlines[**rank].total_span().is_some_and(|span| spans_overlap(extent, span));
            if let Some(first) = owners.iter().find(overlaps) {
                shared.entry((*first, rank)).or_default().insert(&series.0);
            }
            owners.push(rank);
        }
    }
    for ((used, unused), counters) in shared.iter().take(MAX_LINES) {
        const MAX_NAMED_COUNTERS: usize = 4;
        let shown: Vec<&str> = counters.iter().copied().take(MAX_NAMED_COUNTERS).collect();
        let more = if counters.len() > MAX_NAMED_COUNTERS {
            format!(", … ({} in total)", counters.len())
        } else {
            String::new()
        };
        let (shown, from, not) = (shown.join(", "), names[*used], names[*unused]);
        output::print_warning(format_args!("{shown}{more}: taken from {from}, not from {not}"));
    }
    if shared.len() > MAX_LINES {
        let more = format_count(shared.len() - MAX_LINES, "more pair of logs has", "more pairs of logs have");
        output::print_warning(format_args!("{more} counters in common; each is taken from one of them"));
    }
}

/// Reports on standard error which members have times twice, of which only the first are used.
fn report_set_back_clocks(members: &[MergeMember], outlines: &[MemberOutline]) {
    let set_back = members.iter().zip(outlines).filter(|(_, outline)| outline.set_back_ns.is_some());
    for (member, outline) in set_back.take(MAX_LINES) {
        let (name, ticks, back) =
            (&member.name, outline.repeated_ticks, outline.set_back_ns.map_or_else(String::new, format_rfc3339));
        output::print_warning(format_args!(
            "{name}: the clock was set back to {back}; {ticks} ticks until it had caught up are left out"
        ));
    }
}

/// The columns of the joined log, and the row that is being filled.
struct MergeColumns {
    series: Vec<Series>,
    column_index: HashMap<(String, String), usize>,
    /// Providers of a series: rank and span, in order of ranks.
    owners: HashMap<(String, String), Vec<(usize, TickSpan)>>,
    /// Spans in which a member's series is taken from others; the first is empty.
    other_spans: Vec<Vec<TickSpan>>,
    schema: Option<Arc<Schema>>,
    row: Vec<f64>,
    /// Time that each level's mean in the row covers.
    weights: Vec<f64>,
}

impl MergeColumns {
    fn new(outlines: &[MemberOutline]) -> MergeColumns {
        let mut owners: HashMap<(String, String), Vec<(usize, TickSpan)>> = HashMap::new();
        for (rank, outline) in outlines.iter().enumerate() {
            let Some(extent) = outline.total_span() else { continue };
            for series in &outline.series {
                owners.entry(series.clone()).or_default().push((rank, extent));
            }
        }
        let (series, column_index, row, weights) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        MergeColumns { series, column_index, owners, other_spans: vec![Vec::new()], schema: None, row, weights }
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
            let preferred: Vec<TickSpan> = preferred.map(|(_, extent)| *extent).collect();
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
    fn write_merged(&mut self, time_ns: i64, writer: &mut LogWriter) -> Result<(), Failure> {
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
        writer.add_note(&Note::topology(time_ns, merged.clone()))?;
        self.written = Some(merged);
        Ok(())
    }
}

/// A member that is being read.
struct MergeCursor {
    rank: usize,
    reader: LogReader,
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
}

impl MergeCursor {
    fn open(rank: usize, path: &Path, window: (i64, i64)) -> Result<MergeCursor, Failure> {
        let mut reader = LogReader::open(path)?;
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
        })
    }

    /// Adds everything that lies in a span of the timeline.
    fn add_span(
        &mut self,
        span: TickSpan,
        grid: Option<&TickGrid>,
        columns: &mut MergeColumns,
        topologies: &mut Topologies,
        writer: &mut LogWriter,
        losses: &mut Losses,
    ) -> Result<(), Failure> {
        loop {
            let sample = match self.sample.take() {
                Some(sample) => sample,
                None => match self.next_sample(grid, columns, topologies, writer, losses)? {
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
        writer: &mut LogWriter,
        losses: &mut Losses,
    ) -> Result<Option<MergeSample>, Failure> {
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
                Some(LogItem::Note(note)) => drop(writer.add_note(&note)?),
                Some(LogItem::Damage(damage)) => {
                    if let Some(note) = losses.record_damage(damage) {
                        writer.add_note(&note)?;
                    }
                }
            }
        }
        let index = self.position;
        self.position += 1;
        let span = tick_span(&self.frame.ticks()[index]);
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
