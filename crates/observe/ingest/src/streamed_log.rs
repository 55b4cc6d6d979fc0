//! Hands a log of another tool on while it is read, without a copy. The receiver must know the window beforehand: it is
//! guessed from both ends of the file, and if the guess was wrong or impossible, the log is read again.

use std::ops::ControlFlow;

use diskwright_base::{Frame, LogPiece, Note};
use diskwright_logs::probable_range;

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::import::read_pieces;
use crate::reading_options::ReadingOptions;
use crate::report::Reporter;
use crate::skip_report::SkipReport;
use crate::temporary::sweep_leftovers;

/// A file that is being written has another end at each reading; after this many, a copy is used.
const MAX_READINGS: usize = 3;

/// A log of another tool that can be read as often as needed.
pub struct StreamedLog<'a> {
    log: &'a GivenLog,
    reading: ReadingOptions,
    reporter: &'a Reporter,
}

impl<'a> StreamedLog<'a> {
    /// Returns a log as one that is streamed; `None` if it is one of ours, or can be read only once, as a pipe.
    pub(crate) fn new(log: &'a GivenLog, reading: &ReadingOptions, reporter: &'a Reporter) -> Option<StreamedLog<'a>> {
        let can_be_streamed = !log.is_ours() && log.can_be_read_again();
        can_be_streamed.then(|| StreamedLog { log, reading: log.reading_options(reading), reporter })
    }

    /// Passes the pieces of the whole log to a receiver, which `start` makes for a window, nanoseconds since 1970 UTC.
    /// Returns the receiver; `None` if the log's end could not be known beforehand.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn read_whole<R>(
        &self,
        start: &dyn Fn((i64, i64)) -> R,
        receive: impl Fn(&mut R, LogPiece<'_>),
    ) -> Result<Option<R>, IngestError> {
        // no folder is needed, but a command that reads a log removes leftovers of others
        sweep_leftovers();
        let log = self.log;
        let may_be_guessed = !log.has_several_files() && log.held.is_none();
        let guess = || probable_range(&log.path, &log.name, self.reading.log_options());
        let mut expected = may_be_guessed.then(guess).flatten();
        for _ in 0..MAX_READINGS {
            let mut stream = expected.map(|window| PieceStream::new(start(window), window));
            let mut sink = |piece: LogPiece<'_>| {
                if let Some(stream) = &mut stream {
                    stream.handle_piece(piece, &receive);
                }
                ControlFlow::Continue(())
            };
            let summary = read_pieces((&log.name, log.open()?), &self.reading, self.reporter, &mut sink)?;
            if summary.range.is_none() || summary.range != expected {
                expected = summary.range;
                continue;
            }
            let mut skips = SkipReport::default();
            skips.add_summary(log, &summary, self.reporter);
            skips.report_skips(self.reporter);
            return Ok(stream.map(|stream| stream.finish(&receive)));
        }
        Ok(None)
    }

    /// Reads the log once more, as it comes, up to an error of `handle`.
    ///
    /// # Errors
    /// That of `handle`, and when the log cannot be read.
    pub fn read_again<E: From<IngestError>>(
        &self,
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let mut sink = |piece: LogPiece<'_>| {
            result = handle(piece);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let input = self.log.open()?;
        read_pieces((&self.log.name, input), &self.reading, self.reporter, &mut sink)?;
        result
    }
}

/// A receiver that is fed by a reader.
struct PieceStream<R> {
    receiver: R,
    /// First and last tick, nanoseconds since 1970 UTC.
    window: (i64, i64),
    /// Notes leave a log before the frame of their time, oldest first.
    pending_notes: Vec<Note>,
    /// True if a tick lies outside the window, so the receiver expects another window.
    is_outside_window: bool,
    has_ticks: bool,
}

impl<R> PieceStream<R> {
    fn new(receiver: R, window: (i64, i64)) -> PieceStream<R> {
        PieceStream { receiver, window, pending_notes: Vec::new(), is_outside_window: false, has_ticks: false }
    }

    fn handle_piece(&mut self, piece: LogPiece<'_>, receive: &impl Fn(&mut R, LogPiece<'_>)) {
        match piece {
            _ if self.is_outside_window => {}
            LogPiece::Frame(frame) => self.pass_frame(frame, receive),
            LogPiece::Note(note) => {
                if note.time_ns >= self.window.0 || describes_machine(&note) {
                    self.pending_notes.push(note);
                }
            }
        }
    }

    fn pass_frame(&mut self, frame: &Frame, receive: &impl Fn(&mut R, LogPiece<'_>)) {
        let (Some(first), Some(last)) = (frame.ticks().first(), frame.ticks().last()) else { return };
        let is_first_wrong = !self.has_ticks && first.time_ns != self.window.0;
        self.has_ticks = true;
        if is_first_wrong || last.time_ns > self.window.1 {
            self.is_outside_window = true;
            self.pending_notes = Vec::new();
            return;
        }
        self.release_notes(last.time_ns, receive);
        receive(&mut self.receiver, LogPiece::Frame(frame));
    }

    fn release_notes(&mut self, until_ns: i64, receive: &impl Fn(&mut R, LogPiece<'_>)) {
        self.pending_notes.sort_by_key(|note| note.time_ns);
        let due_count = self.pending_notes.partition_point(|note| note.time_ns <= until_ns);
        let receiver = &mut self.receiver;
        self.pending_notes.drain(..due_count).for_each(|note| receive(receiver, LogPiece::Note(note)));
    }

    fn finish(mut self, receive: &impl Fn(&mut R, LogPiece<'_>)) -> R {
        assert!(!self.is_outside_window, "every tick lies in the window that the reader reports");
        self.release_notes(self.window.1, receive);
        self.receiver
    }
}

/// True for notes about the machine, which also apply if they precede the first tick.
fn describes_machine(note: &Note) -> bool {
    [Note::TOPOLOGY, Note::CEILINGS, Note::SOURCE, Note::UNSEEN].contains(&note.kind.as_str())
}
