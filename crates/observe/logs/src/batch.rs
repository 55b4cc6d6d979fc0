//! Collects a reader's ticks into frames in order of time, and counts all of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use diskwright_base::name_limit::is_cut_name;
use diskwright_base::{Frame, Note, Schema, Tick, Topology};

use crate::error::LogError;
use crate::skips::{Skip, Skips, UNUSABLE_CLOCK};
use crate::time_basis::{DAY_S, MAX_TIME_S, TimeBasis};
use crate::value_limits::ValueLimits;
use crate::{LogPiece, PieceSink};

/// Largest frame, in cells; a frame holds at least one tick, however many series it has.
const MAX_FRAME_CELLS: usize = 1 << 18;
/// Largest frame, in ticks.
const MAX_FRAME_TICKS: usize = 1024;
/// Length of a log's only tick, if the log does not show it.
const SINGLE_TICK_NS: u64 = 1_000_000_000;
/// A tick that comes later than this many usual intervals has a gap before it.
const GAP_INTERVALS: u64 = 5;

/// First and last time of a tick. Times of day without a date are of 1970, by the clock of any zone.
const MIN_TIME_NS: i64 = -2 * DAY_S * 1_000_000_000;
const MAX_TIME_NS: i64 = MAX_TIME_S * 1_000_000_000;
/// Characters of a cut name that are its place in a report.
const MAX_CONTEXT_CHARS: usize = 40;
/// Why a part of a name was left out.
const CUT_NAME: &str = "the end of a name that is too long";

/// Summary of a log that was read.
#[derive(Clone, Debug, Default)]
pub struct ReadSummary {
    /// Id of the format.
    pub format: &'static str,
    /// The machine that was read, empty if the log does not name it.
    pub host: String,
    /// Different series.
    pub series: u64,
    /// Series whose counter the catalogue does not know; they are kept as `foreign.…`.
    pub foreign: u64,
    /// Ticks that were read.
    pub ticks: u64,
    /// Cells that hold a value.
    pub values: u64,
    /// Cells that are gaps.
    pub gaps: u64,
    /// Parts of the log that were left out.
    pub skipped: Vec<Skip>,
    /// Times of the first and of the last tick, nanoseconds since 1970 UTC.
    pub range: Option<(i64, i64)>,
    /// Basis of its times, the least certain of all its parts.
    pub time_basis: TimeBasis,
    /// Its local time less UTC, seconds, if the log names a zone.
    pub offset_s: Option<i32>,
    /// When the machine started, nanoseconds on the clock of the ticks, if the log tells.
    pub boot_ns: Option<i64>,
    /// Days since 1970 that its head may name, for reports without times.
    pub days: Vec<i64>,
    /// Set if its events were placed in the measured time.
    pub is_placed: bool,
    /// Set if its only report may be the average since boot.
    pub may_be_since_boot: bool,
}

/// Receives a reader's ticks, and passes frames to the sink.
pub struct FrameBatch<'a> {
    sink: &'a mut PieceSink<'a>,
    frame: Frame,
    seen_series: HashSet<(String, String)>,
    /// The schema whose names were noted last.
    named_schema: Arc<Schema>,
    summary: ReadSummary,
    skips: Skips,
    limits: ValueLimits,
    /// Scratch row: a copy without the cells that were left out.
    cleared_row: Vec<f64>,
    /// Name of the machine, used if the log itself does not give it.
    default_host: String,
    has_topology: bool,
    /// The usual time between two ticks, nanoseconds; 0 while unknown.
    usual_interval_ns: u64,
    /// The time before the last tick, if that was a gap; 0 otherwise.
    gap_ns: u64,
    stopped: bool,
    has_source_note: bool,
}

impl<'a> FrameBatch<'a> {
    /// A batch for a log of this format.
    pub fn new(format: &'static str, sink: &'a mut PieceSink<'a>) -> FrameBatch<'a> {
        FrameBatch {
            sink,
            frame: Frame::default(),
            seen_series: HashSet::new(),
            named_schema: Arc::default(),
            summary: ReadSummary { format, ..ReadSummary::default() },
            skips: Skips::default(),
            limits: ValueLimits::default(),
            cleared_row: Vec::new(),
            default_host: String::new(),
            has_topology: false,
            usual_interval_ns: 0,
            gap_ns: 0,
            stopped: false,
            has_source_note: false,
        }
    }

    /// Returns true once the sink has stopped the reading; a reader may then end without an error.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns true once a tick was accepted.
    pub fn has_ticks(&self) -> bool {
        self.summary.range.is_some()
    }

    /// Time of the last tick so far.
    pub fn last_tick_ns(&self) -> Option<i64> {
        self.summary.range.map(|(_, last_ns)| last_ns)
    }

    /// Sets the machine's name for a log that does not give it itself.
    pub(crate) fn set_default_host(&mut self, host: String) {
        self.default_host = host;
    }

    /// Emits the machine's name and what is known of its devices as a topology note. It must come before the first
    /// tick.
    pub fn push_topology(&mut self, time_ns: i64, topology: &Topology) {
        self.has_topology = true;
        let mut topology = Cow::Borrowed(topology);
        if topology.host.is_empty() && !self.default_host.is_empty() {
            topology.to_mut().host.clone_from(&self.default_host);
        }
        let mut topology = topology.into_owned();
        topology.limit_names();
        self.summary.host.clone_from(&topology.host);
        self.push_note(Note::topology(time_ns, topology));
    }

    /// Notes where times of the log come from; the least certain source counts for all of it.
    pub fn note_time_basis(&mut self, basis: TimeBasis) {
        self.summary.time_basis = self.summary.time_basis.max(basis);
    }

    /// Notes that the only report may be the average since boot.
    pub(crate) fn note_since_boot(&mut self) {
        self.summary.may_be_since_boot = true;
    }

    /// Sets the log's own zone: local time is this many seconds ahead of UTC.
    pub fn set_utc_offset(&mut self, offset_s: i64) {
        self.summary.offset_s = i32::try_from(offset_s).ok();
    }

    /// Notes how long the machine ran at a time.
    pub fn note_uptime(&mut self, time_ns: i64, uptime_s: i64) {
        self.summary.boot_ns = Some(time_ns.saturating_sub(uptime_s.saturating_mul(1_000_000_000)));
    }

    /// Notes the days that the log's head may name.
    pub fn note_days(&mut self, days: Vec<i64>) {
        self.summary.days = days;
    }

    /// Notes that events were placed in the measured time.
    pub fn note_placed(&mut self) {
        self.summary.is_placed = true;
    }

    /// Counts something that was left out: `context` is its place (line, byte, name), `because` the reason. A reason
    /// that comes again is only counted, so it should not hold numbers.
    pub fn add_skip(&mut self, context: impl Into<String>, because: impl Into<String>) {
        self.skips.add_skip(context, because);
    }

    /// Counts lines or columns of a machine that is not the one being read.
    pub fn add_other_host(&mut self, context: impl Into<String>, host: &str) {
        self.skips.add_other_host(context, host);
    }

    /// Adds what was counted elsewhere.
    pub fn merge_skips(&mut self, skips: Skips) {
        self.skips.merge_skips(skips);
    }

    /// Emits a note, after the ticks that were handed over before it.
    pub fn push_note(&mut self, note: Note) {
        self.send_source_note(note.time_ns);
        self.flush_frame();
        self.send_piece(LogPiece::Note(note));
    }

    /// Adds a tick. `row` has a cell for each series of `schema`, `NaN` for a gap; `elapsed_ns` is the time that it
    /// covers, if the log says so (0: not known, as for the first sample of a log), else the time since the tick
    /// before. A tick that does not come after the one before is left out and counted.
    pub fn push_tick(&mut self, schema: &Arc<Schema>, time_ns: i64, elapsed_ns: Option<u64>, row: &[f64]) {
        let Some(tick) = self.resolve_tick(time_ns, elapsed_ns) else { return };
        self.adopt_schema(schema);
        // equal schemas of a reader are the same `Arc` here
        if !self.limits.apply_to(self.frame.schema()) {
            self.limits = ValueLimits::for_schema(self.frame.schema());
        }
        if self.limits.accepts_row(row, tick.elapsed_ns) {
            self.frame.push(tick, row);
            self.count_cells(row);
        } else {
            self.push_cleared(tick, row);
        }
        if self.frame.is_full() {
            self.flush_frame();
        }
    }

    /// Adds a row without its impossible values.
    #[cold]
    fn push_cleared(&mut self, tick: Tick, row: &[f64]) {
        let mut cleared = std::mem::take(&mut self.cleared_row);
        cleared.clear();
        cleared.extend_from_slice(row);
        self.limits.clear_impossible(&mut cleared, tick.elapsed_ns, &mut self.skips);
        self.frame.push(tick, &cleared);
        self.count_cells(&cleared);
        self.cleared_row = cleared;
    }

    /// Adds many ticks at once, for a reader that fills columns itself: the frame's ticks must be in order and come
    /// after all before.
    pub fn push_frame(&mut self, frame: &Frame) {
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        debug_assert!(frame.ticks().is_sorted_by(|tick, next| tick.time_ns < next.time_ns), "ticks are in order");
        self.send_source_note(first.time_ns);
        self.flush_frame();
        self.record_series_names(frame.schema());
        if !self.limits.apply_to(frame.schema()) {
            self.limits = ValueLimits::for_schema(frame.schema());
        }
        let cleared = self.limits.clear_frame(frame, &mut self.skips);
        let frame = cleared.as_ref().unwrap_or(frame);
        for column in 0..frame.schema().series.len() {
            self.count_cells(frame.column(column));
        }
        self.summary.ticks += frame.ticks().len() as u64;
        let from = self.summary.range.map_or(first.time_ns, |(from, _)| from);
        self.summary.range = Some((from, last.time_ns));
        self.send_piece(LogPiece::Frame(frame));
    }

    /// Resolves a tick's time and length, and notes a gap before it. Returns `None` if it must be left out because
    /// time does not advance. For readers that call [`FrameBatch::push_frame`].
    pub fn resolve_tick(&mut self, time_ns: i64, elapsed_ns: Option<u64>) -> Option<Tick> {
        if !(MIN_TIME_NS..MAX_TIME_NS).contains(&time_ns) {
            self.skips.add_skip("a sample", UNUSABLE_CLOCK);
            return None;
        }
        let Some((first_ns, last_ns)) = self.summary.range else {
            self.send_source_note(time_ns);
            if !self.has_topology && !self.default_host.is_empty() {
                self.push_topology(time_ns, &Topology::default());
            }
            self.summary.range = Some((time_ns, time_ns));
            return Some(Tick { time_ns, elapsed_ns: elapsed_ns.unwrap_or(0) });
        };
        let since = time_ns.saturating_sub(last_ns);
        if since <= 0 {
            let because = if since == 0 { "a second sample with the same time" } else { "time goes backwards" };
            self.skips.add_skip(format!("sample at {}", format_seconds(time_ns)), because);
            return None;
        }
        let since = since.unsigned_abs();
        // a second interval of about the same length is no gap, but a recorder that became slower
        let is_slower = self.gap_ns > 0 && since <= self.gap_ns.saturating_mul(2) && since >= self.gap_ns / 2;
        let is_gap =
            self.usual_interval_ns > 0 && since > self.usual_interval_ns.saturating_mul(GAP_INTERVALS) && !is_slower;
        self.gap_ns = if is_gap { since } else { 0 };
        if is_slower {
            self.usual_interval_ns = since;
        } else if is_gap {
            let text = format!("nothing was recorded for {:.0} s", since as f64 * 1e-9);
            self.push_note(Note::new(last_ns, Note::GAP, text));
        } else {
            self.usual_interval_ns = if self.usual_interval_ns == 0 {
                since
            } else {
                self.usual_interval_ns.min(since).max(self.usual_interval_ns / 2)
            };
        }
        self.summary.range = Some((first_ns, time_ns));
        // how much of a gap the next values cover is not known
        let elapsed_ns = elapsed_ns.unwrap_or(if is_gap { 0 } else { since });
        Some(Tick { time_ns, elapsed_ns })
    }

    /// Passes on the last frame and returns the summary. `file` is for the error.
    ///
    /// # Errors
    /// When there was no tick at all, though the sink did not stop the reading.
    pub fn finish(mut self, file: &str) -> Result<ReadSummary, LogError> {
        self.lengthen_single_tick();
        self.flush_frame();
        self.summary.skipped = self.skips.into_list();
        if let Some((_, end_ns)) = self.summary.range {
            self.summary.time_basis = self.summary.time_basis.with_end(end_ns);
        }
        self.summary.series = self.seen_series.len() as u64;
        self.summary.foreign = self.seen_series.iter().filter(|(c, _)| c.starts_with("foreign.")).count() as u64;
        if self.summary.ticks == 0 && !self.stopped {
            let because = self.summary.skipped.first().map_or("nothing was left out".into(), |s| {
                let times = if s.count > 1 { format!(", {} times", s.count) } else { String::new() };
                format!("left out: {}: {}{times}", s.context, s.reason)
            });
            return Err(LogError::NoSamples { file: file.to_owned(), because });
        }
        Ok(self.summary)
    }

    /// Gives a log's only tick a length, so that it can be judged.
    fn lengthen_single_tick(&mut self) {
        let &[tick] = self.frame.ticks() else { return };
        if self.summary.ticks == 0 && tick.elapsed_ns == 0 {
            self.frame.set_ticks(&[Tick { elapsed_ns: SINGLE_TICK_NS, ..tick }]);
        }
    }

    fn send_source_note(&mut self, time_ns: i64) {
        if !self.has_source_note {
            self.has_source_note = true;
            self.send_piece(LogPiece::Note(Note::new(time_ns, Note::SOURCE, self.summary.format)));
        }
    }

    fn adopt_schema(&mut self, schema: &Arc<Schema>) {
        if Arc::ptr_eq(self.frame.schema(), schema) || (self.summary.ticks > 0 && **self.frame.schema() == **schema) {
            return;
        }
        self.flush_frame();
        self.record_series_names(schema);
        let ticks = (MAX_FRAME_CELLS / schema.series.len().max(1)).clamp(1, MAX_FRAME_TICKS);
        self.frame.reset(Arc::clone(schema), ticks);
    }

    fn record_series_names(&mut self, schema: &Arc<Schema>) {
        if Arc::ptr_eq(&self.named_schema, schema) {
            return;
        }
        self.named_schema = Arc::clone(schema);
        for series in &schema.series {
            if let Some(name) = [&series.counter, &series.instance].into_iter().find(|name| is_cut_name(name)) {
                let start: String = name.chars().take(MAX_CONTEXT_CHARS).collect();
                self.skips.add_skip(format!("{start}…"), CUT_NAME);
            }
            let name = (series.counter.clone(), series.instance.clone());
            self.seen_series.insert(name);
        }
    }

    fn count_cells(&mut self, cells: &[f64]) {
        let gaps = cells.iter().filter(|c| c.is_nan()).count() as u64;
        self.summary.gaps += gaps;
        self.summary.values += cells.len() as u64 - gaps;
    }

    fn flush_frame(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        self.summary.ticks += self.frame.ticks().len() as u64;
        if !self.stopped {
            self.stopped = (self.sink)(LogPiece::Frame(&self.frame)) == ControlFlow::Break(());
        }
        self.frame.clear();
    }

    fn send_piece(&mut self, piece: LogPiece<'_>) {
        if !self.stopped {
            self.stopped = (self.sink)(piece) == ControlFlow::Break(());
        }
    }
}

fn format_seconds(time_ns: i64) -> String {
    format!("{:.3} s since 1970", time_ns as f64 * 1e-9)
}

#[cfg(test)]
mod tests {
    use diskwright_base::Series;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn schema(counter: &str) -> Arc<Schema> {
        Arc::new(Schema::new(vec![Series { counter: counter.into(), instance: "sda".into(), scale: 1.0 }]))
    }

    /// Returns a short form of what the sink received, and the summary.
    fn run(feed: impl FnOnce(&mut FrameBatch<'_>)) -> (Vec<String>, Result<ReadSummary, LogError>) {
        let mut got = Vec::new();
        let mut sink = |piece: LogPiece<'_>| {
            got.push(match piece {
                LogPiece::Frame(f) => {
                    format!("{:?}", f.ticks().iter().map(|t| t.elapsed_ns / S as u64).collect::<Vec<_>>())
                }
                LogPiece::Note(note) => note.kind,
            });
            ControlFlow::Continue(())
        };
        let mut batch = FrameBatch::new("test", &mut sink);
        feed(&mut batch);
        let summary = batch.finish("file");
        (got, summary)
    }

    #[test]
    fn ticks_become_frames_and_are_counted() {
        let one = schema("physical_disk.reads_per_s");
        let two = schema("foreign.Thing\\Other");
        let (got, summary) = run(|batch| {
            batch.push_tick(&one, S, None, &[f64::NAN]);
            batch.push_tick(&one, 2 * S, None, &[1.0]);
            batch.push_tick(&two, 4 * S, Some(2 * S as u64), &[2.0]);
        });
        assert_eq!(got, ["source", "[0, 1]", "[2]"]);
        let summary = summary.unwrap();
        assert_eq!((summary.series, summary.foreign, summary.ticks, summary.values, summary.gaps), (2, 1, 3, 2, 1));
        assert_eq!(summary.range, Some((S, 4 * S)));
    }

    #[test]
    fn skips_ticks_that_go_back_in_time_and_notes_a_gap() {
        let one = schema("physical_disk.reads_per_s");
        let (got, summary) = run(|batch| {
            for time in [10, 11, 12, 5, 12, 100, 101] {
                batch.push_tick(&one, time * S, None, &[1.0]);
            }
        });
        assert_eq!(got, ["source", "[0, 1, 1]", "gap", "[0, 1]"]);
        let summary = summary.unwrap();
        assert_eq!(summary.ticks, 5);
        let why: Vec<_> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
        assert_eq!(why, ["time goes backwards", "a second sample with the same time"]);
    }

    #[test]
    fn a_recorder_that_slows_down_for_good_leaves_one_gap() {
        let one = schema("physical_disk.reads_per_s");
        let (got, _) = run(|batch| {
            for time in [1, 2, 3, 63, 123, 183] {
                batch.push_tick(&one, time * S, None, &[1.0]);
            }
        });
        assert_eq!(got, ["source", "[0, 1, 1]", "gap", "[0, 60, 60]"]);
    }

    #[test]
    fn rejects_a_log_without_ticks_and_names_the_first_skip() {
        let (_, summary) = run(|batch| batch.add_skip("line 1", "not a number"));
        let message = summary.unwrap_err().to_string();
        assert!(message.contains("file") && message.contains("line 1: not a number"), "{message}");
    }
}
