//! Logs of other tools: their options on the command line, and their conversion into a Diskwright log.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use diskwright_base::units::{format_count, parse_duration};
use diskwright_base::{Frame, LogPiece, Note, Tick, text};
use diskwright_datastore::{LogWriter, StoreError, WriterOptions};
use diskwright_logs::{CsvColumn, LogError, LogInput, LogOptions, PieceSink, ReadSummary};
use diskwright_traces::{from_inputs, open, ticks};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::file_fingerprint::FileFingerprint;
use super::temporary::TemporaryFolder;
use super::{Failure, first_given_option, output, trace_input};

/// Facts that a log of another tool may lack.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Logs of other tools")]
pub struct ForeignOptions {
    /// UTC offset of the log's local time, if it names no zone: +02:00, +0200, -330 (minutes)
    #[arg(long, allow_hyphen_values = true, value_parser = parse_utc_offset, value_name = "OFFSET")]
    utc_offset: Option<i32>,
    /// The machine to read from a log of several machines
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Interval between two reports without timestamps (iostat without -t)
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    interval: Option<Duration>,
    /// What a column of a CSV is: NAME=counter[:instance[:unit]]; * in NAME stands for the instance (repeatable)
    #[arg(long = "column", value_parser = CsvColumn::parse, value_name = "NAME=COUNTER")]
    table_columns: Vec<CsvColumn>,
    /// Set if the command line of the log says that its first report does not cover the time since boot.
    #[arg(skip)]
    is_first_report_kept: bool,
    /// Time by which a log without dates is moved, to lie beside others.
    #[arg(skip)]
    shift_ns: i64,
}

impl ForeignOptions {
    /// Returns the options for a reader.
    pub fn log_options(&self) -> LogOptions {
        LogOptions {
            utc_offset_s: self.utc_offset,
            host: self.host.clone(),
            interval: self.interval,
            is_first_report_kept: self.is_first_report_kept,
            columns: self.table_columns.clone(),
        }
    }

    /// Returns the first of these options that was given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        first_given_option(&[
            ("--utc-offset", self.utc_offset.is_some()),
            ("--host", self.host.is_some()),
            ("--interval", self.interval.is_some()),
            ("--column", !self.table_columns.is_empty()),
        ])
    }

    /// Returns the options with a zone that another log of the machine names.
    pub fn with_offset(&self, offset_s: i32) -> ForeignOptions {
        ForeignOptions { utc_offset: self.utc_offset.or(Some(offset_s)), ..self.clone() }
    }

    /// Returns the options with what the command line of a log says; the user knows better.
    pub fn with_command(&self, interval: Option<Duration>, is_first_report_kept: bool) -> ForeignOptions {
        ForeignOptions { interval: self.interval.or(interval), is_first_report_kept, ..self.clone() }
    }

    /// Returns the options with a time by which the log is moved.
    pub fn with_shift(&self, shift_ns: i64) -> ForeignOptions {
        ForeignOptions { shift_ns, ..self.clone() }
    }
}

/// Parses seconds of `+02:00`, `-3:30`, `+5`, `Z`, of `+0530` as `date +%z` prints it, or of a bare number of minutes
/// from 15 on (`-330`).
fn parse_utc_offset(text: &str) -> Result<i32, String> {
    let error = || format!("`{text}` is not a UTC offset; write +02:00 or -05:30 (east of Greenwich is +)");
    if matches!(text, "Z" | "z" | "0") {
        return Ok(0);
    }
    let (sign, digits) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(digits), _) => (-1, digits),
        (_, Some(digits)) => (1, digits),
        _ => (1, text),
    };
    let number = |part: &str| part.parse::<i32>().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit()));
    let minutes = match digits.split_once(':') {
        Some((hours, minutes)) => {
            let minutes = number(minutes).filter(|m| *m < 60).ok_or_else(error)?;
            number(hours).filter(|h| *h <= 14).ok_or_else(error)? * 60 + minutes
        }
        None => match number(digits).ok_or_else(error)? {
            // four digits are hours and minutes: read as minutes, +0530 would be nearly nine hours
            clock if digits.len() == 4 && clock % 100 < 60 => clock / 100 * 60 + clock % 100,
            _ if digits.len() == 4 => return Err(error()),
            hours @ 0..15 => hours * 60,
            minutes => minutes,
        },
    };
    if minutes > 14 * 60 { Err(error()) } else { Ok(sign * minutes * 60) }
}

/// Destination of an imported log.
pub struct ImportTarget<'a> {
    /// A Diskwright log, which is created or appended to.
    pub log_folder: &'a Path,
    /// Set to end the import between two pieces.
    pub stop: &'a AtomicBool,
    /// The temporary folder, if the log is one: it leaves a reserve on its filesystem.
    pub temporary_folder: Option<&'a TemporaryFolder>,
    /// Fingerprints of the files that are read, if the log is to recognize them later.
    pub files: &'a [FileFingerprint],
}

/// Reads a foreign log into a Diskwright log. Everything read before an error is kept, and the error is counted among
/// the skipped parts; the import fails only if nothing was read.
pub fn import_log(
    file: &Path,
    input: LogInput,
    reading: &ForeignOptions,
    target: &ImportTarget<'_>,
) -> Result<ReadSummary, Failure> {
    let mut store = ImportWriter::open(target.log_folder)?;
    let mut space_failure = None;
    let mut sink = |piece: LogPiece<'_>| {
        if let Some(Err(reason)) = target.temporary_folder.map(TemporaryFolder::check_free_space) {
            space_failure = Some(reason);
            return ControlFlow::Break(());
        }
        if target.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { store.write_piece(piece) }
    };
    let read = read_pieces(file, input, reading, &mut sink);
    if let Some(reason) = space_failure {
        return Err(Failure::Failed(format!("{}: {reason}", file.display())));
    }
    if target.stop.load(Ordering::Relaxed) {
        let (file, to) = (file.display(), target.log_folder.display());
        return Err(Failure::Failed(format!("{file}: interrupted; {to} contains the part that was read")));
    }
    if let Ok(ReadSummary { range: Some((_, last_ns)), .. }) = &read {
        for file in target.files {
            let _ = store.write_piece(LogPiece::Note(file.to_import_note(*last_ns)?));
        }
    }
    store.finish_log()?;
    read
}

/// Reads a foreign log, or a request trace as one, and passes on its pieces, with the errors of [`import_log`].
pub fn read_pieces(
    file: &Path,
    input: LogInput,
    reading: &ForeignOptions,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, Failure> {
    let shift_ns = reading.shift_ns;
    if shift_ns == 0 {
        return read_unmoved(file, input, reading, sink);
    }
    let mut shifted_sink = |piece: LogPiece<'_>| match piece {
        LogPiece::Frame(frame) => sink(LogPiece::Frame(&shift_frame(frame, shift_ns))),
        LogPiece::Note(mut note) => {
            note.time_ns = note.time_ns.saturating_add(shift_ns);
            sink(LogPiece::Note(note))
        }
    };
    let mut summary = read_unmoved(file, input, reading, &mut shifted_sink)?;
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
    file: &Path,
    mut input: LogInput,
    reading: &ForeignOptions,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, Failure> {
    match read_with_progress(&mut input, reading, sink) {
        Err(LogError::UnknownFormat { .. } | LogError::EmptyFile { .. } | LogError::UnsupportedFormat { .. })
            if trace_input::may_be_trace(&input.head()) =>
        {
            // a trace has one file per processor, in the same folder
            let is_file = file.is_file();
            let opened = if is_file { open(&[file.to_owned()]) } else { from_inputs(vec![input]) };
            Ok(ticks::read(&mut opened?, sink)?)
        }
        read => Ok(read?),
    }
}

/// Reads as much of a log as possible, with a progress bar.
fn read_with_progress(
    input: &mut LogInput,
    reading: &ForeignOptions,
    sink: &mut PieceSink<'_>,
) -> Result<ReadSummary, LogError> {
    let bar = bytes_bar(input);
    let consumed_bytes = input.consumed_bytes();
    let mut sink = |piece: LogPiece<'_>| {
        bar.set_position(consumed_bytes.load(Ordering::Relaxed));
        sink(piece)
    };
    let read = diskwright_logs::salvage(input, &reading.log_options(), &mut sink);
    bar.finish_and_clear();
    read
}

/// Writes the pieces that `read` delivers into a Diskwright log in `to`.
pub fn write_log<E: std::error::Error>(
    to: &Path,
    read: impl FnOnce(&mut PieceSink<'_>) -> Result<ReadSummary, E>,
) -> Result<ReadSummary, Failure> {
    let mut store = ImportWriter::open(to)?;
    let summary = read(&mut |piece: LogPiece<'_>| store.write_piece(piece));
    store.finish_log()?;
    Ok(summary?)
}

/// Opens a writer for a log that is created or appended to.
pub fn open_writer(to: &Path) -> Result<LogWriter, Failure> {
    diskwright_guard::check_new(&to.join("log"))?;
    let mut options = WriterOptions::for_bulk_import();
    options.keep_each.push(Note::IMPORT.into());
    Ok(LogWriter::create_or_append(to, options)?)
}

/// The writer of an import, and the error that stopped it.
struct ImportWriter {
    writer: LogWriter,
    failure: Option<StoreError>,
}

impl ImportWriter {
    fn open(to: &Path) -> Result<ImportWriter, Failure> {
        Ok(ImportWriter { writer: open_writer(to)?, failure: None })
    }

    fn write_piece(&mut self, piece: LogPiece<'_>) -> ControlFlow<()> {
        if self.failure.is_some() {
            return ControlFlow::Break(());
        }
        let result = match piece {
            LogPiece::Note(note) => self.writer.add_note(&note).map(drop),
            LogPiece::Frame(frame) => self.writer.push_frame(frame),
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn finish_log(self) -> Result<(), Failure> {
        match self.failure {
            Some(error) => Err(error.into()),
            None => Ok(self.writer.close()?),
        }
    }
}

/// Progress bar of the bytes read, on a terminal.
fn bytes_bar(input: &LogInput) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(input.size_bytes(), ProgressDrawTarget::stderr());
    let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
    if let (Some(_), Ok(style)) = (input.size_bytes(), ProgressStyle::with_template(template)) {
        bar.set_style(style);
    }
    bar.set_prefix(text::printable_line(&format!("reading {}", input.name())).into_owned());
    bar
}

/// Reports skipped parts of a log on standard error, in brief.
pub fn report_skipped(file: &Path, summary: &ReadSummary) {
    const MAX_REPORTED: usize = 5;
    for skipped in summary.skipped.iter().take(MAX_REPORTED) {
        let times = if skipped.count > 1 { format!(" ({} times)", skipped.count) } else { String::new() };
        output::print_warning(format_args!("{}: {}: {}{times}", file.display(), skipped.context, skipped.reason));
    }
    if summary.series > 0 && summary.foreign == summary.series {
        let (file, series) = (file.display(), summary.series);
        output::print_warning(format_args!(
            "{file}: none of its {series} series is a counter of the catalogue, so no rule can be judged; `show` lists \
             them"
        ));
    }
    if summary.skipped.len() > MAX_REPORTED {
        let more = format_count(summary.skipped.len() - MAX_REPORTED, "more reason", "more reasons");
        output::print_warning(format_args!("{}: {more}; `import --json` lists them", file.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::parse_utc_offset;

    #[test]
    fn parses_utc_offsets() {
        let right = [("+02:00", 7200), ("-3:30", -12600), ("+5", 18000), ("Z", 0), ("-330", -19800), ("14:00", 50400)];
        let of_date = [("+0530", 19800), ("-0800", -28800), ("+0000", 0), ("+1400", 50400)];
        for (text, seconds) in right.into_iter().chain(of_date) {
            assert_eq!(parse_utc_offset(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "+", "two", "+25:00", "1:60", "+-2", "99999", "+0175", "+1500"] {
            assert!(parse_utc_offset(wrong).is_err(), "{wrong}");
        }
    }
}
