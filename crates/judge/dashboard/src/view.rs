//! The view of one moment. The same moment of the same history gives the same view, live or from a log.

use std::sync::Arc;

use diskwright_base::capture::MomentCapture;
use diskwright_base::timestamp::now_ns;
use diskwright_base::{Catalogue, Ceiling, LogPiece, Note, Schema, Topology, ceiling};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};
use diskwright_report::{ChartBucket, Downsampler};
use serde::Serialize;

use crate::alerts::{self, Alert, RESTATE_INTERVAL_NS};
use crate::devices::{self, DeviceRow, MomentQuery, StretchSums};
use crate::history::History;
use crate::panels::{PanelCounter, Panels};
use crate::process_means::{ProcessMeans, ProcessSummary};
use crate::timeline::{TimelineMark, TimelineView, mark_from_note};

/// Largest number of captures of a view: the latest.
const MAX_CAPTURES: usize = 8;

/// Times and options of a view, nanoseconds (times since 1970 UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewWindow {
    /// The moment that is shown; all stretches except the timeline end here.
    pub cursor_ns: i64,
    /// Start and end of the timeline.
    pub span: (i64, i64),
    /// Length of the stretch over which values are averaged.
    pub shown_ns: i64,
    /// Length of the judged stretch.
    pub judged_ns: i64,
    /// The judged stretch ends at the last multiple of this before the moment: so a screen that follows the end does
    /// not judge again at every tick, and a replay judges the same stretches. With 0, it ends at the moment itself.
    pub judged_step_ns: i64,
    /// Number of the timeline quantity among those that are recorded; it wraps around.
    pub quantity: usize,
    /// True to list stacked devices and memory disks too.
    pub all_devices: bool,
    /// Number of points of the timeline, and of each device's history.
    pub points: (usize, usize),
}

impl ViewWindow {
    /// Start and end of the judged stretch, without its step.
    fn judged_range(&self) -> (i64, i64) {
        (self.cursor_ns.saturating_sub(self.judged_ns), self.cursor_ns)
    }
}

/// The moment: `diskwright.view/1`.
#[derive(Clone, Debug, Serialize)]
pub struct DashboardView {
    /// `diskwright.view/1`.
    pub schema: &'static str,
    /// Host name; empty where the log does not have it.
    pub host: String,
    /// The moment, nanoseconds since 1970 UTC.
    pub cursor_ns: i64,
    /// Start and end of the timeline.
    pub span: (i64, i64),
    /// Start and end of the stretch over which values are averaged.
    pub shown: (i64, i64),
    /// Start and end of the stretch that was judged.
    pub judged: (i64, i64),
    /// The verdict on the judged stretch; `null` where it has fewer than two ticks.
    pub verdict: Option<Verdict>,
    /// The columns of `devices`.
    pub columns: Vec<ColumnTitle>,
    /// The machine's disks.
    pub devices: Vec<DeviceRow>,
    /// Values of the whole machine, by subject.
    pub strips: Vec<StripView>,
    /// Means over the process tables of the stretch; the screen sorts them.
    pub processes: Vec<ProcessSummary>,
    /// One quantity over time.
    pub timeline: TimelineView,
    /// The other quantities that were recorded, for screens that have room for them.
    #[serde(skip)]
    pub other_timelines: Vec<TimelineView>,
    /// Marks in the time of the timeline; the beginning of an alert is a mark of kind `alert`.
    pub marks: Vec<TimelineMark>,
    /// Alerts in the time of the timeline, in their state at its end, sorted by their beginnings.
    pub alerts: Vec<Alert>,
    /// What was saved when alerts began in the time of the timeline, the latest last.
    #[serde(skip)]
    pub captures: Vec<TimedCapture>,
}

/// A capture, and the time of its note in nanoseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedCapture {
    /// When the alert was raised.
    pub time_ns: i64,
    /// What was saved; it may be long, so that views share it.
    pub content: Arc<MomentCapture>,
}

/// A column of the table of devices, or a value of a strip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnTitle {
    /// Counter id.
    pub counter: String,
    /// Title on the screen.
    pub title: String,
    /// Its unit.
    pub unit: String,
}

/// Values of the whole machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StripView {
    /// Subject of the values.
    pub title: String,
    /// Each value with its title; `null` where it was not measured.
    pub values: Vec<(ColumnTitle, Option<f64>)>,
}

/// Builds views, and caches the parts that the next view needs again.
pub struct Viewer {
    panels: Panels,
    pack: Pack,
    ceilings: Vec<Ceiling>,
    /// Judges one stretch after the other.
    judge: Judge,
    /// The stretch that was judged last, and the verdict on it.
    judged: Option<((i64, i64), Option<Verdict>)>,
    /// The timeline's part of the last view; valid for the same window, whatever its cursor, and the same devices.
    spanned: Option<((ViewWindow, Vec<String>), SpanPart)>,
    query: Option<MomentQuery>,
    /// The schema of the last view, and the indices of the timeline quantities that it has.
    recorded: Option<(Arc<Schema>, Vec<usize>)>,
    /// The newest topology, with its text.
    topology: Option<(Note, Arc<Topology>)>,
}

/// Part of a view from the stretch of the timeline.
#[derive(Clone, Default)]
struct SpanPart {
    /// The chosen quantity first.
    timelines: Vec<TimelineView>,
    histories: Vec<Vec<Option<f64>>>,
    marks: Vec<TimelineMark>,
    alerts: Vec<Alert>,
    captures: Vec<TimedCapture>,
}

/// Part of a view from the stretch before the cursor.
#[derive(Default)]
struct MomentPart {
    names: Vec<String>,
    rows: Vec<DeviceRow>,
    strips: Vec<StripView>,
    processes: Vec<ProcessSummary>,
    host: String,
}

impl Viewer {
    /// Creates a viewer with these panels, a pack to judge by, and the ceilings that probes measured.
    pub fn new(panels: Panels, pack: Pack, ceilings: Vec<Ceiling>) -> Viewer {
        let options = JudgeOptions { ceilings: ceilings.clone(), clock: Some(now_ns), ..JudgeOptions::default() };
        Viewer {
            panels,
            judge: Judge::new(vec![pack.clone()], options),
            pack,
            ceilings,
            judged: None,
            spanned: None,
            query: None,
            recorded: None,
            topology: None,
        }
    }

    /// The panels.
    pub fn panels(&self) -> &Panels {
        &self.panels
    }

    /// The pack of rules.
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Reads the timeline again for the next view, because a new bookmark or alert may lie within it.
    pub fn renew_timeline(&mut self) {
        self.spanned = None;
    }

    /// Judges the stretch before a moment, and keeps the verdict for the view of that moment.
    ///
    /// # Errors
    /// A sentence that says what could not be read of the history.
    pub fn judge_ahead(&mut self, history: &dyn History, window: &ViewWindow) -> Result<(), String> {
        self.judge_window(history, window).map(|_| ())
    }

    /// Builds the view of a moment.
    ///
    /// # Errors
    /// A sentence that says what could not be read of the history.
    pub fn build_view(&mut self, history: &dyn History, window: &ViewWindow) -> Result<DashboardView, String> {
        let end = window.cursor_ns;
        let shown = (end.saturating_sub(window.shown_ns), end);
        let moment = self.read_moment(history, (shown, window.judged_range()), window.all_devices)?;
        let (judged, verdict) = self.judge_window(history, window)?;
        let span = self.read_span(history, window, &moment.names)?;
        let mut rows = moment.rows;
        rows.iter_mut().zip(span.histories).for_each(|(row, history)| row.history = history);
        if !window.all_devices {
            rows.retain(|row| !row.is_hidden());
        }
        let mut timelines = span.timelines.into_iter();
        Ok(DashboardView {
            schema: "diskwright.view/1",
            host: moment.host,
            cursor_ns: end,
            span: window.span,
            shown,
            judged,
            verdict,
            columns: self.panels.devices.columns.iter().map(column_title).collect(),
            devices: rows,
            strips: moment.strips,
            processes: moment.processes,
            timeline: timelines.next().unwrap_or_default(),
            other_timelines: timelines.collect(),
            marks: span.marks,
            alerts: span.alerts,
            captures: span.captures,
        })
    }

    /// Reads devices, strips and processes of the shown stretch.
    fn read_moment(
        &mut self,
        history: &dyn History,
        (shown, judged): ((i64, i64), (i64, i64)),
        all_devices: bool,
    ) -> Result<MomentPart, String> {
        let (schema, topology, noted_ceilings) = self.read_machine(history, judged)?;
        let Some(schema) = schema else { return Ok(MomentPart::default()) };
        self.find_recorded(&schema);
        let panel = &self.panels.devices;
        let known = self.query.take().filter(|known| known.matches_inputs(&schema, topology.as_ref(), all_devices));
        let strip_counters =
            self.panels.strips.iter().flat_map(|strip| &strip.values).map(|value| value.counter.as_str());
        let create_query = || MomentQuery::new(panel, strip_counters, (&schema, topology.clone(), all_devices));
        let query = self.query.insert(known.unwrap_or_else(create_query));
        let mut sums = StretchSums::new(query);
        let (mut earlier_table, mut tables) = (None, ProcessMeans::default());
        history.read_around((judged.0.min(shown.0), shown.1), Some(shown.0), &mut |piece| match piece {
            LogPiece::Frame(frame) => sums.add_frame(frame, shown.0),
            LogPiece::Note(note) if note.kind == Note::PROCESSES && note.time_ns > shown.0 => tables.add_table(&note),
            LogPiece::Note(note) if note.kind == Note::PROCESSES => earlier_table = Some(note),
            LogPiece::Note(_) => {}
        })?;
        // where the shown stretch has no process table, the newest table before it is used
        if let (true, Some(note)) = (tables.is_empty(), earlier_table) {
            tables.add_table(&note);
        }
        let values = sums.values();
        let (names, topology) = (query.names.clone(), topology.as_deref());
        let strip_values: usize = self.panels.strips.iter().map(|strip| strip.values.len()).sum();
        let (device_values, strip_values) = values.split_at(values.len() - strip_values);
        let known = ceiling::ceilings_for_topology(topology, &[self.ceilings.as_slice(), &noted_ceilings].concat());
        let rows = devices::device_rows(panel, names.clone(), device_values, (&known, topology));
        let host = topology.map(|topology| topology.host.clone()).unwrap_or_default();
        Ok(MomentPart { names, rows, strips: self.strip_views(strip_values), processes: tables.finish(), host })
    }

    /// The newest schema, topology and ceilings of a stretch.
    #[allow(clippy::type_complexity, reason = "three values that are taken apart at once")]
    fn read_machine(
        &mut self,
        history: &dyn History,
        stretch: (i64, i64),
    ) -> Result<(Option<Arc<Schema>>, Option<Arc<Topology>>, Vec<Ceiling>), String> {
        let (mut schema, mut topology, mut ceilings) = (None, None, Vec::new());
        history.read_around(stretch, None, &mut |piece| match piece {
            LogPiece::Frame(frame) => schema = Some(frame.schema().clone()),
            LogPiece::Note(note) if note.kind == Note::TOPOLOGY => topology = Some(note),
            LogPiece::Note(note) if note.kind == Note::CEILINGS => {
                ceilings = note.read_ceilings().map(Arc::unwrap_or_clone).unwrap_or_default();
            }
            LogPiece::Note(_) => {}
        })?;
        Ok((schema, topology.and_then(|note| self.read_topology(note)), ceilings))
    }

    /// Finds the timeline quantities that a schema has.
    fn find_recorded(&mut self, schema: &Arc<Schema>) {
        if self.recorded.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, schema)) {
            let is_recorded =
                |index: &usize| devices::resolve_counter(schema, &self.panels.timeline[*index].counter, "").is_some();
            let found = (0..self.panels.timeline.len()).filter(is_recorded).collect();
            self.recorded = Some((Arc::clone(schema), found));
        }
    }

    /// The recorded timeline quantities from this number on, wrapping around; the panel's first one where none is
    /// recorded.
    fn timeline_quantities(&self, number: usize) -> Vec<&PanelCounter> {
        let recorded = self.recorded.as_ref().map_or(&[][..], |(_, found)| found.as_slice());
        if recorded.is_empty() {
            return self.panels.timeline.first().into_iter().collect();
        }
        let in_turn = recorded.iter().cycle().skip(number % recorded.len()).take(recorded.len());
        in_turn.filter_map(|index| self.panels.timeline.get(*index)).collect()
    }

    /// The topology of a note; that of the last view is cached.
    fn read_topology(&mut self, note: Note) -> Option<Arc<Topology>> {
        if self.topology.as_ref().is_none_or(|(known, _)| !known.has_same_content(&note)) {
            self.topology = note.read_topology().ok().map(|topology| (note, topology));
        }
        self.topology.as_ref().map(|(_, topology)| Arc::clone(topology))
    }

    fn strip_views(&self, values: &[Option<f64>]) -> Vec<StripView> {
        let mut values = values.iter().copied();
        let strip = |strip: &crate::panels::StripPanel| StripView {
            title: strip.title.clone(),
            values: strip.values.iter().map(|value| (column_title(value), values.next().flatten())).collect(),
        };
        self.panels.strips.iter().map(strip).collect()
    }

    /// The judged stretch and the verdict on it. Where the stepped stretch has too few ticks (the recording has just
    /// begun), the exact one is judged.
    fn judge_window(
        &mut self,
        history: &dyn History,
        window: &ViewWindow,
    ) -> Result<((i64, i64), Option<Verdict>), String> {
        let exact = window.judged_range();
        let past_ns = if window.judged_step_ns > 0 { exact.1.rem_euclid(window.judged_step_ns) } else { 0 };
        let stepped = (exact.0.saturating_sub(past_ns), exact.1 - past_ns);
        let verdict = self.judge_stretch(history, stepped)?;
        if verdict.is_some() || past_ns == 0 {
            return Ok((stepped, verdict));
        }
        Ok((exact, self.judge_stretch(history, exact)?))
    }

    /// The verdict on a stretch, cached from the last view.
    fn judge_stretch(&mut self, history: &dyn History, judged: (i64, i64)) -> Result<Option<Verdict>, String> {
        if let Some((_, verdict)) =
            self.judged.as_ref().filter(|(known, verdict)| *known == judged && verdict.is_some())
        {
            return Ok(verdict.clone());
        }
        let mut verdict = self.read_verdict(history, judged)?;
        // what has ended is told as past, and what is there since then is judged
        if let Some((earlier, ended_ns)) = verdict.as_ref().and_then(|whole| Some(whole).zip(whole.ended_ns()))
            && let Some(mut recent) = self.read_verdict(history, (ended_ns, judged.1))?
        {
            recent.set_after(earlier, ended_ns);
            verdict = Some(recent);
        }
        verdict.iter_mut().for_each(Verdict::drop_ended);
        // while the window moves on, the bottleneck that led before leads as long as it is one
        if let (Some(verdict), Some((window, Some(last)))) = (&mut verdict, &self.judged)
            && (window.0..window.1).contains(&judged.0)
        {
            verdict.put_first(last.bottleneck, &last.instance);
        }
        self.judged = Some((judged, verdict.clone()));
        Ok(verdict)
    }

    /// Reads a stretch and judges it; `None` where it has fewer than two ticks.
    fn read_verdict(&mut self, history: &dyn History, stretch: (i64, i64)) -> Result<Option<Verdict>, String> {
        let judge = &mut self.judge;
        judge.restart(Some(stretch));
        let mut ticks = 0;
        history.read(stretch.0, stretch.1, &mut |piece| match piece {
            LogPiece::Frame(frame) => {
                ticks += frame.ticks().len();
                judge.add_frame(frame);
            }
            LogPiece::Note(note) => judge.add_note(&note),
        })?;
        Ok(if ticks < 2 { None } else { judge.finish().into_iter().next() })
    }

    /// Reads the timeline's part of the view, or takes it from the last view where window and devices are the same.
    fn read_span(&mut self, history: &dyn History, window: &ViewWindow, names: &[String]) -> Result<SpanPart, String> {
        let key = (ViewWindow { cursor_ns: 0, ..*window }, names.to_vec());
        if let Some((_, part)) = self.spanned.as_ref().filter(|(known, _)| *known == key) {
            return Ok(part.clone());
        }
        let quantities = self.timeline_quantities(window.quantity);
        let on_machine = |counter: &str| ["", "_total"].map(|instance| (counter.to_owned(), instance.to_owned()));
        let timeline_counters: Vec<(String, String)> =
            quantities.iter().flat_map(|shown| on_machine(&shown.counter)).collect();
        let history_of = |name: &String| (self.panels.devices.history.clone(), name.clone());
        let history_counters: Vec<(String, String)> = names.iter().map(history_of).collect();
        let (from, to) = window.span;
        let mut timeline_points = Downsampler::new(from, to, window.points.0, &timeline_counters);
        let mut history_points = Downsampler::new(from, to, window.points.1, &history_counters);
        let (mut marks, mut alerts, mut captures) = (Vec::new(), Vec::new(), Vec::new());
        // a lasting alert is noted again at this interval, so reading starts one interval earlier
        history.read_around((from.saturating_sub(RESTATE_INTERVAL_NS), to), None, &mut |piece| match piece {
            LogPiece::Frame(frame) if frame.ticks().last().is_none_or(|tick| tick.time_ns < from) => {}
            LogPiece::Frame(frame) => {
                timeline_points.push(frame);
                history_points.push(frame);
            }
            LogPiece::Note(note) => {
                if note.time_ns >= from {
                    marks.extend(mark_from_note(&note));
                    captures.extend(read_capture(&note));
                }
                let alert = alerts::alert_from_note(&note);
                alert.into_iter().for_each(|alert| alerts::merge_alert(&mut alerts, alert));
            }
        })?;
        alerts.retain(|alert: &Alert| alert.end_ns.is_none_or(|end| end >= from));
        let begun = alerts.iter().filter(|alert| alert.begin_ns >= from);
        marks.extend(begun.map(TimelineMark::from_alert));
        marks.sort_by_key(|mark: &TimelineMark| mark.time_ns);
        let found = timeline_points.finish();
        let timelines =
            quantities.iter().zip(found.chunks(2)).map(|(shown, found)| timeline_view(shown, found)).collect();
        let means = |buckets: Vec<ChartBucket>| buckets.iter().map(|bucket| finite_value(bucket.mean)).collect();
        let histories = history_points.finish().into_iter().map(means).collect();
        captures.sort_by_key(|capture: &TimedCapture| capture.time_ns);
        captures.drain(..captures.len().saturating_sub(MAX_CAPTURES));
        let part = SpanPart { timelines, histories, marks, alerts, captures };
        self.spanned = Some((key, part.clone()));
        Ok(part)
    }
}

/// The capture of a note; `None` for other notes.
fn read_capture(note: &Note) -> Option<TimedCapture> {
    let content = (note.kind == Note::CAPTURE).then(|| serde_json::from_str(note.text()).ok()).flatten()?;
    Some(TimedCapture { time_ns: note.time_ns, content: Arc::new(content) })
}

/// The timeline of a quantity, from the instance that has the most values.
fn timeline_view(shown: &PanelCounter, found: &[Vec<ChartBucket>]) -> TimelineView {
    let value_count = |buckets: &&Vec<ChartBucket>| buckets.iter().filter(|bucket| !bucket.is_gap()).count();
    let buckets = found.iter().max_by_key(value_count).map_or(&[][..], Vec::as_slice);
    let ColumnTitle { counter, title, unit } = column_title(shown);
    TimelineView {
        counter,
        title,
        unit,
        means: buckets.iter().map(|bucket| finite_value(bucket.mean)).collect(),
        max: buckets.iter().map(|bucket| finite_value(bucket.max)).collect(),
    }
}

fn finite_value(cell: f64) -> Option<f64> {
    cell.is_finite().then_some(cell)
}

fn column_title(shown: &PanelCounter) -> ColumnTitle {
    let unit = Catalogue::builtin().get(&shown.counter).map(|counter| counter.unit.clone()).unwrap_or_default();
    ColumnTitle { counter: shown.counter.clone(), title: shown.title.clone(), unit }
}
