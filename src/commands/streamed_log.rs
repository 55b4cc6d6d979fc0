//! Judges a log of another tool while it is read, without a copy in the temporary folder. The judge must know the
//! window beforehand: it is guessed from both ends of the file, and if the guess was wrong or impossible, the file is
//! read again.

use std::ops::ControlFlow;
use std::path::Path;

use diskwright_base::{Frame, LogPiece, Note};
use diskwright_diagnosis::{Judge, Verdict};
use diskwright_logs::probable_range;
use diskwright_planner::series::{LoadCollector, LoadSeries};

use super::Failure;
use super::bundle::GivenLog;
use super::foreign::{self, ForeignOptions};
use super::plan::from_log::collect_piece;
use super::temporary;

/// A file that is being written has another end at each reading; after this many, a copy is judged.
const MAX_READINGS: usize = 3;

/// Returns the verdicts on a log of another tool; `None` if it must be converted to a Diskwright log first. `judge`
/// makes a judge for a window, nanoseconds since 1970 UTC.
pub fn judge_while_reading(
    log: &GivenLog,
    reading: &ForeignOptions,
    judge: &dyn Fn((i64, i64)) -> Judge,
) -> Result<Option<Vec<Verdict>>, Failure> {
    // anything but a file, such as a pipe, can be read only once
    if log.is_bundled || log.is_ours() || log.input_files().iter().any(|(path, _)| !path.is_file()) {
        return Ok(None);
    }
    // no folder is needed, but this command reads a log, so leftovers are removed
    temporary::sweep_leftovers();
    let name = Path::new(&log.name);
    let mut expected =
        if log.has_several_files() { None } else { probable_range(&log.path, &log.name, &reading.log_options()) };
    for _ in 0..MAX_READINGS {
        let mut stream = expected.map(|window| JudgeStream::new(judge(window), window));
        let mut sink = |piece: LogPiece<'_>| {
            if let Some(stream) = &mut stream {
                stream.handle_piece(piece);
            }
            ControlFlow::Continue(())
        };
        let summary = foreign::read_pieces(name, log.open()?, reading, &mut sink)?;
        if summary.range.is_none() || summary.range != expected {
            expected = summary.range;
            continue;
        }
        foreign::report_skipped(name, &summary);
        return Ok(stream.map(JudgeStream::finish_verdicts));
    }
    Ok(None)
}

/// Returns the load of a log of another tool, for predictions; the log is read once more.
pub fn read_load(log: &GivenLog, reading: &ForeignOptions) -> Result<LoadSeries, Failure> {
    let mut collector = LoadCollector::default();
    let mut result = Ok(());
    let mut sink = |piece: LogPiece<'_>| {
        result = collect_piece(&mut collector, piece);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    foreign::read_pieces(Path::new(&log.name), log.open()?, reading, &mut sink)?;
    result.map(|()| collector.finish())
}

/// A judge that is fed by a reader.
struct JudgeStream {
    judge: Judge,
    /// First and last tick, nanoseconds since 1970 UTC.
    window: (i64, i64),
    /// Notes leave a log before the frame of their time, oldest first.
    pending_notes: Vec<Note>,
    /// True if a tick lies outside the window, so the verdict would be about another window.
    is_outside_window: bool,
    has_ticks: bool,
}

impl JudgeStream {
    fn new(judge: Judge, window: (i64, i64)) -> JudgeStream {
        JudgeStream { judge, window, pending_notes: Vec::new(), is_outside_window: false, has_ticks: false }
    }

    fn handle_piece(&mut self, piece: LogPiece<'_>) {
        match piece {
            _ if self.is_outside_window => {}
            LogPiece::Frame(frame) => self.judge_frame(frame),
            LogPiece::Note(note) => {
                if note.time_ns >= self.window.0 || describes_machine(&note) {
                    self.pending_notes.push(note);
                }
            }
        }
    }

    fn judge_frame(&mut self, frame: &Frame) {
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        let is_first_wrong = !self.has_ticks && first.time_ns != self.window.0;
        self.has_ticks = true;
        if is_first_wrong || last.time_ns > self.window.1 {
            self.is_outside_window = true;
            self.pending_notes = Vec::new();
            return;
        }
        self.release_notes(last.time_ns);
        self.judge.add_frame(frame);
    }

    fn release_notes(&mut self, until_ns: i64) {
        self.pending_notes.sort_by_key(|note| note.time_ns);
        let due_count = self.pending_notes.partition_point(|note| note.time_ns <= until_ns);
        self.pending_notes.drain(..due_count).for_each(|note| self.judge.add_note(&note));
    }

    fn finish_verdicts(mut self) -> Vec<Verdict> {
        assert!(!self.is_outside_window, "every tick lies in the window that the reader reports");
        self.release_notes(self.window.1);
        self.judge.finish()
    }
}

/// True for notes about the machine, which also apply if they precede the first tick.
fn describes_machine(note: &Note) -> bool {
    [Note::TOPOLOGY, Note::CEILINGS, Note::SOURCE, Note::UNSEEN].contains(&note.kind.as_str())
}
