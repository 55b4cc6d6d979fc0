//! Logs of other tools, and request traces as such: they are read, or written as Diskwright logs.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use diskwright_base::{Frame, LogPiece, Tick};
use diskwright_logs::{LogError, LogInput, PieceSink, ReadSummary};
use diskwright_traces::{from_inputs, open, ticks};

use crate::IngestError;
use crate::file_fingerprint::FileFingerprint;
use crate::given_log::GivenLog;
use crate::log_writer::open_writer;
use crate::memory_log::MemoryBudget;
use crate::piece_store::{KeptLog, PieceStore};
use crate::reading_options::ReadingOptions;
use crate::report::{Event, Reporter};
use crate::request_traces::may_be_trace;

/// Destination of an imported log.
pub struct ImportTarget<'a> {
    /// A Diskwright log, which is created or appended to.
    pub log_folder: &'a Path,
    /// What ends the import, and what it leaves in the log.
    pub import: ImportOptions<'a>,
}

/// What ends an import, and what it leaves in the log besides the content.
#[derive(Clone, Copy)]
pub struct ImportOptions<'a> {
    /// Set to end the import between two pieces.
    pub stop: &'a AtomicBool,
    /// Fingerprints of the files that are read, if the log is to recognize them later.
    pub files: &'a [FileFingerprint],
}

/// Reads a foreign log into a Diskwright log. Everything read before an error is kept, and the error is counted among
/// the skipped parts; the import fails only if nothing was read.
///
/// # Errors
/// When nothing can be read, the destination cannot be written, or the import was stopped.
pub fn import_log(
    log: &GivenLog,
    reading: &ReadingOptions,
    target: &ImportTarget<'_>,
    reporter: &Reporter,
) -> Result<ReadSummary, IngestError> {
    let input = log.open()?;
    let mut writer = open_writer(target.log_folder)?;
    let add = &mut |piece: LogPiece<'_>| match piece {
        LogPiece::Note(note) => Ok(writer.add_note(&note).map(drop)?),
        LogPiece::Frame(frame) => Ok(writer.push_frame(frame)?),
    };
    let read = copy_pieces((log, input), (reading, reporter), target.import, add)?;
    if target.import.stop.load(Ordering::Relaxed) {
        return Err(IngestError::Interrupted { name: log.name.clone(), to: target.log_folder.to_owned() });
    }
    writer.close()?;
    read
}

/// Reads a foreign log, to be kept as long as it is needed; as [`import_log`].
///
/// # Errors
/// When nothing can be read, there is no room for it, or the reading was stopped.
pub fn keep_log(
    log: &GivenLog,
    (reading, reporter): (&ReadingOptions, &Reporter),
    import: ImportOptions<'_>,
    budget: &MemoryBudget,
) -> Result<(Option<KeptLog>, ReadSummary), IngestError> {
    let input = log.open()?;
    let mut store = PieceStore::new(budget)?;
    let copied = copy_pieces((log, input), (reading, reporter), import, &mut |piece| store.add_piece(piece));
    let summary = copied.map_err(|error| match error {
        IngestError::NoSpace(reason) => IngestError::Refused(format!("{}: {reason}", log.name)),
        error => error,
    })?;
    if import.stop.load(Ordering::Relaxed) {
        return Err(IngestError::Stopped { name: log.name.clone() });
    }
    let kept = store.finish()?;
    Ok((kept, summary?))
}

/// Passes the pieces of a log to `add`. The outer result is an error of `add`, the inner one of the reader.
fn copy_pieces(
    (log, input): (&GivenLog, LogInput),
    (reading, reporter): (&ReadingOptions, &Reporter),
    import: ImportOptions<'_>,
    add: &mut dyn FnMut(LogPiece<'_>) -> Result<(), IngestError>,
) -> Result<Result<ReadSummary, IngestError>, IngestError> {
    let mut failure = None;
    let mut sink = |piece: LogPiece<'_>| {
        if import.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        match add(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let read = read_pieces((&log.name, input), &log.reading_options(reading), reporter, &mut sink);
    if let Some(error) = failure {
        return Err(error);
    }
    // a file that was not read to its end is imported again
    if !import.stop.load(Ordering::Relaxed)
        && let Ok(ReadSummary { range: Some((_, last_ns)), .. }) = &read
    {
        for file in import.files {
            add(LogPiece::Note(file.to_import_note(*last_ns)?))?;
        }
    }
    Ok(read)
}

/// Reads a foreign log, or a request trace as one, and passes on its pieces, with the errors of [`import_log`].
pub fn read_pieces(
    (name, input): (&str, LogInput),
    reading: &ReadingOptions,
    reporter: &Reporter,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, IngestError> {
    let shift_ns = reading.shift_ns();
    if shift_ns == 0 {
        return read_unmoved((name, input), reading, reporter, sink);
    }
    let mut shifted_sink = |piece: LogPiece<'_>| match piece {
        LogPiece::Frame(frame) => sink(LogPiece::Frame(&shift_frame(frame, shift_ns))),
        LogPiece::Note(mut note) => {
            note.time_ns = note.time_ns.saturating_add(shift_ns);
            sink(LogPiece::Note(note))
        }
    };
    let mut summary = read_unmoved((name, input), reading, reporter, &mut shifted_sink)?;
    summary.range = summary.range.map(|(from, to)| (from.saturating_add(shift_ns), to.saturating_add(shift_ns)));
    Ok(summary)
}

/// Moves all ticks of a frame.
fn shift_frame(frame: &Frame, shift_ns: i64) -> Frame {
    let ticks = frame.ticks().iter().map(|tick| Tick { time_ns: tick.time_ns.saturating_add(shift_ns), ..*tick });
    let mut shifted = frame.clone();
    shifted.set_ticks(&ticks.collect::<Vec<_>>());
    shifted
}

fn read_unmoved(
    (name, mut input): (&str, LogInput),
    reading: &ReadingOptions,
    reporter: &Reporter,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, IngestError> {
    match read_with_progress(&mut input, reading, reporter, sink) {
        Err(LogError::UnknownFormat { .. } | LogError::EmptyFile { .. } | LogError::UnsupportedFormat { .. })
            if may_be_trace(&input.head()) =>
        {
            // a trace has one file per processor, in the same folder
            let file = Path::new(name);
            let opened = if file.is_file() { open(&[file.to_owned()]) } else { from_inputs(vec![input]) };
            Ok(ticks::read(&mut opened?, sink)?)
        }
        read => Ok(read?),
    }
}

/// Reads as much of a log as possible, and tells how far it is.
fn read_with_progress(
    input: &mut LogInput,
    reading: &ReadingOptions,
    reporter: &Reporter,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, LogError> {
    let started = Event::ReadingStarted { name: input.name().to_owned(), total_bytes: input.size_bytes() };
    let running = reporter.start(started);
    let consumed_bytes = input.consumed_bytes();
    let mut sink = |piece: LogPiece<'_>| {
        running.tell_progress(Event::BytesRead(consumed_bytes.load(Ordering::Relaxed)));
        sink(piece)
    };
    diskwright_logs::salvage(input, reading.log_options(), &mut sink)
}
