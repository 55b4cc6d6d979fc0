//! Collects a reader's ticks into frames in order of time, and counts all of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use diskwright_base::{Frame, Note, Schema, Tick, Topology};

use crate::error::LogError;
use crate::plausible::ValueLimits;
use crate::skips::{Skip, Skips};
use crate::time_basis::TimeBasis;
use crate::{LogPiece, PieceSink};

/// Largest frame, in cells; a frame holds at least one tick, however many series that has.
const MOST_CELLS: usize = 1 << 18;
/// Largest frame, in ticks.
const MOST_TICKS: usize = 1024;
/// A tick that comes later than this many usual intervals has a gap before it.
const GAP: u64 = 5;

/// Summary of a log that was read.
#[derive(Clone, Debug, Default)]
pub struct ReadSummary {
    /// Id of the format.
    pub format: &'static str,
    /// The machine that was read, empty where the log does not name it.
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
    pub times: TimeBasis,
    /// Its local time less UTC, seconds, where the log names a zone.
    pub offset_s: Option<i32>,
}

/// Receives a reader's ticks, and passes frames to the sink.
pub struct FrameBatch<'a> {
    sink: &'a mut PieceSink<'a>,
    frame: Frame,
    seen: HashSet<(String, String)>,
    /// The schema whose names were noted last.
    named: Arc<Schema>,
    summary: ReadSummary,
    skips: Skips,
    limits: ValueLimits,
    /// Scratch row: a copy without the cells that were left out.
    cleared: Vec<f64>,
    /// Name of the machine, used where the log itself does not give it.
    machine: String,
    has_topology: bool,
    /// The usual time between two ticks, nanoseconds; 0 while unknown.
    usual_ns: u64,
    /// The time before the last tick, where that was a gap; 0 otherwise.
    gap_ns: u64,
    stopped: bool,
    begun: bool,
}

impl<'a> FrameBatch<'a> {
    /// A batch for a log of this format.
    pub fn new(format: &'static str, sink: &'a mut PieceSink<'a>) -> FrameBatch<'a> {
        FrameBatch {
            sink,
            frame: Frame::default(),
            seen: HashSet::new(),
            named: Arc::default(),
            summary: ReadSummary { format, ..ReadSummary::default() },
            skips: Skips::default(),
            limits: ValueLimits::default(),
            cleared: Vec::new(),
            machine: String::new(),
            has_topology: false,
            usual_ns: 0,
            gap_ns: 0,
            stopped: false,
            begun: false,
        }
    }

    /// Returns true once the sink wants no more; a reader may end then, without an error.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns true once a tick was accepted.
    pub fn has_ticks(&self) -> bool {
        self.summary.range.is_some()
    }

    /// Sets the machine's name for a log that does not give it itself.
    pub(crate) fn name_machine(&mut self, host: String) {
        self.machine = host;
    }

    /// Emits the machine's name and what is known of its devices as a topology note. It must come before the first
    /// tick.
    pub fn topology(&mut self, time_ns: i64, topology: &Topology) {
        self.has_topology = true;
        let mut topology = Cow::Borrowed(topology);
        if topology.host.is_empty() && !self.machine.is_empty() {
            topology.to_mut().host.clone_from(&self.machine);
        }
        self.summary.host.clone_from(&topology.host);
        if let Ok(text) = serde_json::to_string(topology.as_ref()) {
            self.note(Note::new(time_ns, Note::TOPOLOGY, text));
        }
    }

    /// Notes where times of the log come from; the least certain source counts for all of it.
    pub fn times_are(&mut self, basis: TimeBasis) {
        self.summary.times = self.summary.times.max(basis);
    }

    /// Sets the log's own zone: local time is this many seconds ahead of UTC.
    pub fn zone_is(&mut self, offset_s: i64) {
        self.summary.offset_s = i32::try_from(offset_s).ok();
    }

    /// Counts something that was left out: `context` is its place (line, byte, name), `because` the reason. A reason
    /// that comes again is only counted, so it should not hold numbers.
    pub fn skip(&mut self, context: impl Into<String>, because: impl Into<String>) {
        self.skips.add(context, because);
    }

    /// Counts lines or columns of a machine that is not the one being read.
    pub fn skip_host(&mut self, context: impl Into<String>, host: &str) {
        self.skips.add_host(context, host);
    }

    /// Adds what was counted elsewhere.
    pub fn skip_all(&mut self, skips: Skips) {
        self.skips.add_all(skips);
    }

    /// Emits a note, after the ticks that were handed over before it.
    pub fn note(&mut self, note: Note) {
        self.begin(note.time_ns);
        self.hand_over();
        self.send(LogPiece::Note(note));
    }

    /// Adds a tick. `row` has a cell for each series of `schema`, `NaN` for a gap; `elapsed_ns` is the time that it
    /// covers, where the log says so (0: not known, as for the first sample of a log), else the time since the tick
    /// before. A tick that does not come after the one before is left out and counted.
    pub fn tick(&mut self, schema: &Arc<Schema>, time_ns: i64, elapsed_ns: Option<u64>, row: &[f64]) {
        let Some(tick) = self.place(time_ns, elapsed_ns) else { return };
        self.adopt(schema);
        // equal schemas of a reader are one here
        if !self.limits.are_of(self.frame.schema()) {
            self.limits = ValueLimits::of(self.frame.schema());
        }
        if self.limits.hold(row, tick.elapsed_ns) {
            self.frame.push(tick, row);
            self.count(row);
        } else {
            self.push_cleared(tick, row);
        }
        if self.frame.is_full() {
            self.hand_over();
        }
    }

    /// Adds a row without its impossible values.
    #[cold]
    fn push_cleared(&mut self, tick: Tick, row: &[f64]) {
        let mut cleared = std::mem::take(&mut self.cleared);
        cleared.clear();
        cleared.extend_from_slice(row);
        self.limits.clear(&mut cleared, tick.elapsed_ns, &mut self.skips);
        self.frame.push(tick, &cleared);
        self.count(&cleared);
        self.cleared = cleared;
    }

    /// Adds many ticks at once, for a reader that fills columns itself: the frame's ticks must be in order and come
    /// after all before.
    pub fn frame(&mut self, frame: &Frame) {
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        debug_assert!(frame.ticks().is_sorted_by(|one, next| one.time_ns < next.time_ns), "ticks are in order");
        self.begin(first.time_ns);
        self.hand_over();
        self.name_series(frame.schema());
        if !self.limits.are_of(frame.schema()) {
            self.limits = ValueLimits::of(frame.schema());
        }
        let cleared = self.limits.cleared(frame, &mut self.skips);
        let frame = cleared.as_ref().unwrap_or(frame);
        for column in 0..frame.schema().series.len() {
            self.count(frame.column(column));
        }
        self.summary.ticks += frame.ticks().len() as u64;
        let from = self.summary.range.map_or(first.time_ns, |(from, _)| from);
        self.summary.range = Some((from, last.time_ns));
        self.send(LogPiece::Frame(frame));
    }

    /// Resolves a tick's time and length, and notes a gap before it. Returns `None` where it must be left out because
    /// time does not advance. For readers that call [`FrameBatch::frame`].
    pub fn place(&mut self, time_ns: i64, elapsed_ns: Option<u64>) -> Option<Tick> {
        let Some((from, before)) = self.summary.range else {
            self.begin(time_ns);
            if !self.has_topology && !self.machine.is_empty() {
                self.topology(time_ns, &Topology::default());
            }
            self.summary.range = Some((time_ns, time_ns));
            return Some(Tick { time_ns, elapsed_ns: elapsed_ns.unwrap_or(0) });
        };
        let since = time_ns.saturating_sub(before);
        if since <= 0 {
            let because = if since == 0 { "a second sample with the same time" } else { "time goes backwards" };
            self.skips.add(format!("sample at {}", seconds(time_ns)), because);
            return None;
        }
        let since = since.unsigned_abs();
        // a second interval of about the same length is no gap, but a recorder that became slower
        let slower = self.gap_ns > 0 && since <= self.gap_ns.saturating_mul(2) && since >= self.gap_ns / 2;
        let is_gap = self.usual_ns > 0 && since > self.usual_ns.saturating_mul(GAP) && !slower;
        self.gap_ns = if is_gap { since } else { 0 };
        if slower {
            self.usual_ns = since;
        } else if is_gap {
            let text = format!("nothing was recorded for {:.0} s", since as f64 * 1e-9);
            self.note(Note::new(before, Note::GAP, text));
        } else {
            self.usual_ns = if self.usual_ns == 0 { since } else { self.usual_ns.min(since).max(self.usual_ns / 2) };
        }
        self.summary.range = Some((from, time_ns));
        // how much of a gap the next values cover is not known
        let elapsed_ns = elapsed_ns.unwrap_or(if is_gap { 0 } else { since });
        Some(Tick { time_ns, elapsed_ns })
    }

    /// Passes on the last frame and returns the summary. `file` is for the error.
    ///
    /// # Errors
    /// When there was no tick at all, though the sink did not stop the reading.
    pub fn finish(mut self, file: &str) -> Result<ReadSummary, LogError> {
        self.hand_over();
        self.summary.skipped = self.skips.finish();
        if let Some((_, end_ns)) = self.summary.range {
            self.summary.times = self.summary.times.with_end(end_ns);
        }
        self.summary.series = self.seen.len() as u64;
        self.summary.foreign = self.seen.iter().filter(|(c, _)| c.starts_with("foreign.")).count() as u64;
        if self.summary.ticks == 0 && !self.stopped {
            let why = self.summary.skipped.first().map_or("nothing was left out".into(), |s| {
                let more = if s.times > 1 { format!(", {} times", s.times) } else { String::new() };
                format!("left out: {}: {}{more}", s.context, s.because)
            });
            return Err(LogError::Empty { file: file.to_owned(), because: why });
        }
        Ok(self.summary)
    }

    fn begin(&mut self, time_ns: i64) {
        if !self.begun {
            self.begun = true;
            self.send(LogPiece::Note(Note::new(time_ns, Note::SOURCE, self.summary.format)));
        }
    }

    fn adopt(&mut self, schema: &Arc<Schema>) {
        if Arc::ptr_eq(self.frame.schema(), schema) || (self.summary.ticks > 0 && **self.frame.schema() == **schema) {
            return;
        }
        self.hand_over();
        self.name_series(schema);
        let ticks = (MOST_CELLS / schema.series.len().max(1)).clamp(1, MOST_TICKS);
        self.frame.reset(Arc::clone(schema), ticks);
    }

    fn name_series(&mut self, schema: &Arc<Schema>) {
        if Arc::ptr_eq(&self.named, schema) {
            return;
        }
        self.named = Arc::clone(schema);
        for series in &schema.series {
            let name = (series.counter.clone(), series.instance.clone());
            self.seen.insert(name);
        }
    }

    fn count(&mut self, cells: &[f64]) {
        let gaps = cells.iter().filter(|c| c.is_nan()).count() as u64;
        self.summary.gaps += gaps;
        self.summary.values += cells.len() as u64 - gaps;
    }

    fn hand_over(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        self.summary.ticks += self.frame.ticks().len() as u64;
        if !self.stopped {
            self.stopped = (self.sink)(LogPiece::Frame(&self.frame)) == ControlFlow::Break(());
        }
        self.frame.clear();
    }

    fn send(&mut self, piece: LogPiece<'_>) {
        if !self.stopped {
            self.stopped = (self.sink)(piece) == ControlFlow::Break(());
        }
    }
}

fn seconds(time_ns: i64) -> String {
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
            batch.tick(&one, S, None, &[f64::NAN]);
            batch.tick(&one, 2 * S, None, &[1.0]);
            batch.tick(&two, 4 * S, Some(2 * S as u64), &[2.0]);
        });
        assert_eq!(got, ["source", "[0, 1]", "[2]"]);
        let summary = summary.unwrap();
        assert_eq!((summary.series, summary.foreign, summary.ticks, summary.values, summary.gaps), (2, 1, 3, 2, 1));
        assert_eq!(summary.range, Some((S, 4 * S)));
    }

    #[test]
    fn time_that_goes_back_is_left_out_and_a_hole_is_told() {
        let one = schema("physical_disk.reads_per_s");
        let (got, summary) = run(|batch| {
            for time in [10, 11, 12, 5, 12, 100, 101] {
                batch.tick(&one, time * S, None, &[1.0]);
            }
        });
        assert_eq!(got, ["source", "[0, 1, 1]", "gap", "[0, 1]"]);
        let summary = summary.unwrap();
        assert_eq!(summary.ticks, 5);
        let why: Vec<_> = summary.skipped.iter().map(|s| s.because.as_str()).collect();
        assert_eq!(why, ["time goes backwards", "a second sample with the same time"]);
    }

    #[test]
    fn a_recorder_that_slows_down_for_good_leaves_one_gap() {
        let one = schema("physical_disk.reads_per_s");
        let (got, _) = run(|batch| {
            for time in [1, 2, 3, 63, 123, 183] {
                batch.tick(&one, time * S, None, &[1.0]);
            }
        });
        assert_eq!(got, ["source", "[0, 1, 1]", "gap", "[0, 60, 60]"]);
    }

    #[test]
    fn no_tick_at_all_is_an_error_that_says_what_was_there() {
        let (_, summary) = run(|batch| batch.skip("line 1", "not a number"));
        let said = summary.unwrap_err().to_string();
        assert!(said.contains("file") && said.contains("line 1: not a number"), "{said}");
    }
}
