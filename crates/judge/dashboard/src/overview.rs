//! All quantities of the panels over a time range, reduced to points with minimum, mean and maximum. The range is a
//! whole log, kept in memory so that a zoom need not read the log again, or a short time, tick by tick. Means are
//! weighted as each counter's kind requires.

use std::sync::Arc;

use diskwright_base::{CounterPlan, Frame, LogPiece, Note, Schema, Tick, Topology};
use serde::Serialize;
use serde_json::Value;

use crate::devices;
use crate::panels::Panels;
use crate::timeline::{self, TimelineMark};

/// A counter of an instance that the panels show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PanelSeries {
    /// Counter id.
    pub counter: String,
    /// Its instance; empty for the machine.
    pub instance: String,
}

/// One quantity over a time range; `null` where there is no value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReducedLine {
    /// Counter id.
    pub counter: String,
    /// Its instance; empty for the machine.
    pub instance: String,
    /// Smallest value of a tick in each point.
    #[serde(rename = "least")]
    pub min: Vec<Option<f32>>,
    /// Weighted means.
    pub mean: Vec<Option<f32>>,
    /// Largest value of a tick in each point.
    #[serde(rename = "most")]
    pub max: Vec<Option<f32>>,
}

/// Largest memory of the points of a whole log, bytes.
const MAX_BYTES: usize = 96 << 20;
/// Smallest number of points of a whole log, whatever memory they take.
const MIN_POINTS: usize = 2048;
/// Largest number of points of a whole log, however little memory they take.
const MAX_POINTS: usize = 32_768;
/// An overlap of a tick and a point that is smaller than this share of both is ignored for minimum and maximum: times
/// of ticks are not exact, so the end of a tick may reach a little into the next point.
const MIN_OVERLAP_SHARE: f64 = 0.1;

/// Kind of the notes that hold the state of an alert.
const ALERT: &str = "alert";

/// Sums of one point of a line.
#[derive(Clone, Copy, Debug)]
struct ReducedCell {
    sum: f32,
    weight: f32,
    min: f32,
    max: f32,
}

impl ReducedCell {
    const NONE: ReducedCell = ReducedCell { sum: 0.0, weight: 0.0, min: f32::INFINITY, max: f32::NEG_INFINITY };

    fn add_cell(&mut self, other: &ReducedCell) {
        self.sum += other.sum;
        self.weight += other.weight;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// The points of one series.
struct SeriesCells {
    id: PanelSeries,
    /// How the present schema gives its values; `None` where the schema lacks the counter.
    plan: Option<CounterPlan>,
    cells: Vec<ReducedCell>,
}

/// The overlap of a tick and a cell.
#[derive(Clone, Copy)]
struct TickOverlap {
    tick: usize,
    cell: usize,
    /// Share of the tick that lies in the cell.
    share: f32,
    /// Too small to count for minimum and maximum.
    is_sliver: bool,
}

/// Sums ticks into cells of one width.
pub struct SeriesReducer {
    panels: Panels,
    /// Only these counters; empty for all.
    only: Vec<String>,
    from_ns: i64,
    width_ns: i64,
    /// Fixed number of cells; `None` for a growing log, whose cells are joined in pairs when there are too many.
    count: Option<usize>,
    schema: Option<Arc<Schema>>,
    topology: Option<Topology>,
    series: Vec<SeriesCells>,
    /// Reused buffer of the overlaps of a frame's ticks with cells.
    overlaps: Vec<TickOverlap>,
}

impl SeriesReducer {
    /// Creates a reducer for a log that starts at this time, with ticks of about this length, and may grow without
    /// limit.
    pub fn for_growing_log(panels: Panels, from_ns: i64, tick_ns: i64) -> SeriesReducer {
        SeriesReducer::with_width(panels, Vec::new(), (from_ns, tick_ns.max(1_000_000)), None)
    }

    /// Creates a reducer for a time range in this number of points, for the named counters only (all if empty).
    pub fn for_window(panels: Panels, only: Vec<String>, (from_ns, to_ns): (i64, i64), count: usize) -> SeriesReducer {
        let count = count.max(1);
        let width_ns = (to_ns.saturating_sub(from_ns) / count as i64).max(1);
        SeriesReducer::with_width(panels, only, (from_ns, width_ns), Some(count))
    }

    fn with_width(
        panels: Panels,
        only: Vec<String>,
        (from_ns, width_ns): (i64, i64),
        count: Option<usize>,
    ) -> SeriesReducer {
        let (schema, topology, series, overlaps) = (None, None, Vec::new(), Vec::new());
        SeriesReducer { panels, only, from_ns, width_ns, count, schema, topology, series, overlaps }
    }

    /// Time that a point covers, nanoseconds.
    pub fn width_ns(&self) -> i64 {
        self.width_ns
    }

    /// The series so far.
    pub fn series(&self) -> impl Iterator<Item = &PanelSeries> {
        self.series.iter().map(|series| &series.id)
    }

    /// Adds a note. Only that of the topology is used: it shows which devices are the machine's disks.
    pub fn add_note(&mut self, note: &Note) {
        if note.kind == Note::TOPOLOGY {
            self.topology = note.read_topology().ok().map(Arc::unwrap_or_clone);
            self.schema = None;
        }
    }

    /// Adds the ticks of a frame.
    pub fn push(&mut self, frame: &Frame) {
        self.follow_schema(frame.schema());
        let ticks = frame.ticks();
        while self.count.is_none() && ticks.last().is_some_and(|last| self.exceeds_limit(last)) {
            self.join_cells();
        }
        self.place_ticks(ticks);
        let seconds: Vec<f64> = ticks.iter().map(tick_seconds).collect();
        let (mut values, mut weights) = (vec![0.0; ticks.len()], vec![0.0; ticks.len()]);
        let cells = self.overlaps.iter().map(|overlap| overlap.cell + 1).max().unwrap_or(0);
        for series in &mut self.series {
            let Some(plan) = &series.plan else { continue };
            plan.compute_weighted_values(frame, 0..ticks.len(), &seconds, &mut values, &mut weights);
            if series.cells.len() < cells {
                series.cells.resize(cells, ReducedCell::NONE);
            }
            for overlap in &self.overlaps {
                let (value, weight) = (values[overlap.tick] as f32, weights[overlap.tick] as f32 * overlap.share);
                // a gap, or no event to average
                if value.is_nan() || weight.is_nan() || weight <= 0.0 {
                    continue;
                }
                let (min_value, max_value) =
                    if overlap.is_sliver { (f32::INFINITY, f32::NEG_INFINITY) } else { (value, value) };
                series.cells[overlap.cell].add_cell(&ReducedCell {
                    sum: value * weight,
                    weight,
                    min: min_value,
                    max: max_value,
                });
            }
        }
    }

    /// Updates series and plans where the schema has changed.
    fn follow_schema(&mut self, schema: &Arc<Schema>) {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return;
        }
        self.series.iter_mut().for_each(|series| series.plan = None);
        for id in shown_series(&self.panels, schema, self.topology.as_ref()) {
            if !self.only.is_empty() && !self.only.contains(&id.counter) {
                continue;
            }
            let plan = devices::resolve_counter(schema, &id.counter, &id.instance);
            match self.series.iter_mut().find(|series| series.id == id) {
                Some(known) => known.plan = plan,
                None if plan.is_some() => self.series.push(SeriesCells { id, plan, cells: Vec::new() }),
                None => {}
            }
        }
        self.schema = Some(Arc::clone(schema));
    }

    /// True where a growing log has more points up to this tick than it may have.
    fn exceeds_limit(&self, tick: &Tick) -> bool {
        let points_in_memory = MAX_BYTES / (size_of::<ReducedCell>() * self.series.len().max(1));
        let max_points = points_in_memory.clamp(MIN_POINTS, MAX_POINTS) as i64;
        (tick.time_ns - self.from_ns) / self.width_ns >= max_points
    }

    /// Joins cells in pairs, in all series.
    fn join_cells(&mut self) {
        self.width_ns *= 2;
        for series in &mut self.series {
            let joined = series.cells.chunks(2).map(|pair| {
                let mut cell = pair[0];
                pair[1..].iter().for_each(|other| cell.add_cell(other));
                cell
            });
            series.cells = joined.collect();
        }
    }

    /// Finds the cells that each tick covers.
    fn place_ticks(&mut self, ticks: &[Tick]) {
        self.overlaps.clear();
        for (index, tick) in ticks.iter().enumerate() {
            let width = self.width_ns as f64;
            let end = (tick.time_ns - self.from_ns) as f64 / width;
            let start = end - tick.elapsed_ns as f64 / width;
            let last = self.count.map_or(f64::INFINITY, |count| count as f64);
            let (first, after) = (start.max(0.0).floor(), end.min(last).ceil());
            if tick.elapsed_ns == 0 || after <= first {
                continue;
            }
            for cell in first as usize..after as usize {
                let inside = end.min(cell as f64 + 1.0) - start.max(cell as f64);
                let share = (inside / (end - start)).min(1.0);
                if share < 1e-9 {
                    continue;
                }
                let is_sliver = share < MIN_OVERLAP_SHARE && inside < MIN_OVERLAP_SHARE;
                self.overlaps.push(TickOverlap { tick: index, cell, share: share as f32, is_sliver });
            }
        }
    }

    /// Lines of the named counters (all if empty) over a time range, in this number of points.
    pub fn reduced_lines(&self, only: &[String], (from_ns, to_ns): (i64, i64), count: usize) -> Vec<ReducedLine> {
        let named = self.series.iter().filter(|series| only.is_empty() || only.contains(&series.id.counter));
        named.map(|series| self.reduce_line(series, (from_ns, to_ns), count.max(1))).collect()
    }

    fn reduce_line(&self, series: &SeriesCells, (from_ns, to_ns): (i64, i64), count: usize) -> ReducedLine {
        let mut points = vec![ReducedCell::NONE; count];
        let width = (to_ns - from_ns).max(1) as f64 / count as f64;
        for (index, cell) in series.cells.iter().enumerate() {
            let middle = self.from_ns + index as i64 * self.width_ns + self.width_ns / 2;
            let point = (middle - from_ns) as f64 / width;
            if point >= 0.0 && point < count as f64 {
                points[point as usize].add_cell(cell);
            }
        }
        let round_finite = |value: f32| value.is_finite().then(|| round_value(value));
        let mean = |cell: &ReducedCell| (cell.weight > 0.0).then(|| round_finite(cell.sum / cell.weight)).flatten();
        ReducedLine {
            counter: series.id.counter.clone(),
            instance: series.id.instance.clone(),
            // where a point has only slivers of ticks, the mean stands for minimum and maximum
            min: points.iter().map(|cell| round_finite(cell.min).or_else(|| mean(cell))).collect(),
            mean: points.iter().map(mean).collect(),
            max: points.iter().map(|cell| round_finite(cell.max).or_else(|| mean(cell))).collect(),
        }
    }

    /// The time of each tick of a frame, nanoseconds, and its values in the order of [`Self::series`]. Call
    /// [`Self::push`] with the frame first.
    pub fn tick_values(&self, frame: &Frame) -> Vec<(i64, Vec<Option<f32>>)> {
        let ticks = frame.ticks();
        let seconds: Vec<f64> = ticks.iter().map(tick_seconds).collect();
        let (mut values, mut weights) = (vec![0.0; ticks.len()], vec![0.0; ticks.len()]);
        let mut found: Vec<(i64, Vec<Option<f32>>)> =
            ticks.iter().map(|tick| (tick.time_ns, Vec::with_capacity(self.series.len()))).collect();
        for series in &self.series {
            match &series.plan {
                Some(plan) => plan.compute_weighted_values(frame, 0..ticks.len(), &seconds, &mut values, &mut weights),
                None => values.fill(f64::NAN),
            }
            for ((_, row), value) in found.iter_mut().zip(&values) {
                row.push(value.is_finite().then(|| round_value(*value as f32)));
            }
        }
        found
    }
}

fn tick_seconds(tick: &Tick) -> f64 {
    if tick.elapsed_ns == 0 { f64::NAN } else { tick.elapsed_ns as f64 * 1e-9 }
}

/// Rounds to four significant digits, which are more than a screen shows.
fn round_value(value: f32) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f64.powi(3 - f64::from(value.abs()).log10().floor() as i32);
    ((f64::from(value) * scale).round() / scale) as f32
}

/// Series of a machine that the panels show: those of the whole machine first, then device by device.
fn shown_series(panels: &Panels, schema: &Schema, topology: Option<&Topology>) -> Vec<PanelSeries> {
    let series_of = |counter: &str, instance: &str| PanelSeries { counter: counter.into(), instance: instance.into() };
    let machine = panels.timeline.iter().chain(panels.strips.iter().flat_map(|strip| &strip.values));
    let mut found: Vec<PanelSeries> = Vec::new();
    for value in machine.map(|value| series_of(&value.counter, "")) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    let panel = &panels.devices;
    let columns = panel.columns.iter().map(|column| &column.counter).chain([&panel.history]);
    let mut counters: Vec<&String> = Vec::new();
    columns.for_each(|counter| {
        if !counters.contains(&counter) {
            counters.push(counter)
        }
    });
    for name in devices::device_names(panel, schema, topology, false) {
        found.extend(counters.iter().map(|counter| series_of(counter, &name)));
    }
    found
}

/// Overview of a whole log: its lines, marks and alerts.
pub struct LogOverview {
    /// The lines.
    pub reducer: SeriesReducer,
    /// The marks.
    pub marks: Vec<TimelineMark>,
    /// The alerts, each in the state of its newest note.
    pub alerts: Vec<Value>,
    /// End of the last tick, nanoseconds since 1970 UTC.
    pub until_ns: i64,
    /// Length of the longest tick, nanoseconds.
    pub longest_ns: i64,
}

impl LogOverview {
    /// Creates an overview for a log that starts at this time, with ticks of about this length.
    pub fn new(panels: Panels, from_ns: i64, tick_ns: i64) -> LogOverview {
        let reducer = SeriesReducer::for_growing_log(panels, from_ns, tick_ns);
        LogOverview { reducer, marks: Vec::new(), alerts: Vec::new(), until_ns: i64::MIN, longest_ns: 0 }
    }

    /// Adds the marks of captures that a view has: their notes come after ticks that are later than they are.
    pub fn add_captures(&mut self, marks: &[TimelineMark]) {
        let captures = marks.iter().filter(|mark| mark.kind == Note::CAPTURE);
        let new: Vec<TimelineMark> = captures.filter(|mark| !self.marks.contains(mark)).cloned().collect();
        self.marks.extend(new);
    }

    /// Adds a piece of the log; ticks that were added before are skipped.
    pub fn push(&mut self, piece: &LogPiece<'_>) {
        match piece {
            LogPiece::Frame(frame) => {
                let known = frame.ticks().partition_point(|tick| tick.time_ns <= self.until_ns);
                if known == frame.ticks().len() {
                    return;
                }
                if known > 0 {
                    let mut new_ticks = Frame::new(Arc::clone(frame.schema()), frame.ticks().len() - known);
                    new_ticks.append_ticks(frame, known..frame.ticks().len());
                    self.reducer.push(&new_ticks);
                } else {
                    self.reducer.push(frame);
                }
                let longest_ns = frame.ticks().iter().map(|tick| tick.elapsed_ns).max().unwrap_or(0);
                self.longest_ns = self.longest_ns.max(i64::try_from(longest_ns).unwrap_or(i64::MAX));
                self.until_ns = frame.ticks().last().map_or(self.until_ns, |tick| tick.time_ns.max(self.until_ns));
            }
            LogPiece::Note(note) => {
                self.reducer.add_note(note);
                let marked = timeline::mark_from_note(note).filter(|mark| !self.marks.contains(mark));
                self.marks.extend(marked);
                if note.kind == ALERT {
                    serde_json::from_str(note.text())
                        .into_iter()
                        .for_each(|alert| merge_alert_value(&mut self.alerts, alert));
                }
            }
        }
    }
}

/// Adds an alert to a list, or replaces its former state.
pub fn merge_alert_value(alerts: &mut Vec<Value>, alert: Value) {
    let is_same = |known: &&mut Value| ["id", "instance", "begin_ns"].iter().all(|key| known[key] == alert[key]);
    match alerts.iter_mut().find(is_same) {
        Some(known) => *known = alert,
        None => alerts.push(alert),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Series;

    const SECOND: i64 = 1_000_000_000;
    const LATENCY: &str = "physical_disk.avg_s_per_read";

    fn schema() -> Arc<Schema> {
        let series = |counter: &str, scale: f64| Series { counter: counter.into(), instance: "sda".into(), scale };
        Arc::new(Schema::new(vec![series("physical_disk.reads", 1.0), series("physical_disk.read_time_s", 1e-3)]))
    }

    /// Ticks of a second; each row has a number of reads and their total milliseconds.
    fn frame(first: i64, rows: &[[f64; 2]]) -> Frame {
        let mut frame = Frame::new(schema(), rows.len());
        for (index, row) in rows.iter().enumerate() {
            let time_ns = (first + index as i64 + 1) * SECOND;
            frame.push(Tick { time_ns, elapsed_ns: SECOND.unsigned_abs() }, row);
        }
        frame
    }

    fn latency(reducer: &SeriesReducer, to_s: i64, points: usize) -> ReducedLine {
        reducer.reduced_lines(&[LATENCY.to_owned()], (0, to_s * SECOND), points).remove(0)
    }

    #[test]
    fn means_weigh_requests_and_idle_is_no_value() {
        let mut reducer = SeriesReducer::for_growing_log(Panels::builtin(), 0, SECOND);
        // 10 reads of 5 ms and 90 of 1 ms are 1.4 ms on average; then nothing is read; then a gap
        reducer.push(&frame(0, &[[10.0, 50.0], [90.0, 90.0], [0.0, 0.0], [f64::NAN, f64::NAN]]));
        let line = latency(&reducer, 4, 2);
        assert_eq!((line.min[0], line.mean[0], line.max[0]), (Some(0.001), Some(0.0014), Some(0.005)));
        assert_eq!((line.min[1], line.mean[1], line.max[1]), (None, None, None));
    }

    #[test]
    fn a_long_tick_fills_the_points_that_it_covers() {
        let mut reducer = SeriesReducer::for_window(Panels::builtin(), vec![LATENCY.into()], (0, 4 * SECOND), 8);
        let mut frame = Frame::new(schema(), 1);
        frame.push(Tick { time_ns: 3 * SECOND, elapsed_ns: 2_000_000_000 }, &[4.0, 8.0]);
        reducer.push(&frame);
        assert_eq!(reducer.series().count(), 1, "only what was named");
        let line = reducer.reduced_lines(&[], (0, 4 * SECOND), 8).remove(0);
        let value = Some(0.002);
        assert_eq!(line.mean, [None, None, value, value, value, value, None, None]);
    }

    #[test]
    fn a_log_that_grows_keeps_its_means_in_fewer_points() {
        let mut reducer = SeriesReducer::for_growing_log(Panels::builtin(), 0, SECOND);
        let hour = vec![[10.0, 20.0]; 3600];
        (0..40).for_each(|number| reducer.push(&frame(number * 3600, &hour)));
        reducer.push(&frame(144_000, &[[1000.0, 9000.0]]));
        assert_eq!(reducer.width_ns(), 8 * SECOND);
        let line = latency(&reducer, 144_008, 18_001);
        assert_eq!((line.mean[0], line.mean[17_999], line.max[18_000]), (Some(0.002), Some(0.002), Some(0.009)));
        assert!(line.mean.iter().all(Option::is_some));
    }

    #[test]
    fn ticks_and_notes_are_not_added_twice() {
        let mut overview = LogOverview::new(Panels::builtin(), 0, SECOND);
        overview.push(&LogPiece::Frame(&frame(0, &[[10.0, 10.0], [10.0, 10.0]])));
        overview.push(&LogPiece::Frame(&frame(1, &[[10.0, 10.0], [30.0, 150.0]])));
        let line = latency(&overview.reducer, 3, 1);
        // 10, 10 and 30 reads, not 10, 10, 10 and 30
        assert_eq!(line.mean[0], Some(0.0034));
        let bookmark = Note::new(SECOND, Note::BOOKMARK, "here");
        overview.push(&LogPiece::Note(bookmark.clone()));
        overview.push(&LogPiece::Note(bookmark));
        assert_eq!(overview.marks.len(), 1);
        let alert =
            |end: &str| Note::new(SECOND, ALERT, format!(r#"{{"id":"a","instance":"","begin_ns":1,"end_ns":{end}}}"#));
        overview.push(&LogPiece::Note(alert("null")));
        overview.push(&LogPiece::Note(alert("2")));
        assert_eq!((overview.alerts.len(), overview.alerts[0]["end_ns"].as_i64()), (1, Some(2)));
    }
}
