//! Readers of foreign logs: recordings of other tools become frames and notes of Diskwright.
//!
//! Each format has a folder, which defines one or more [`LogFormat`]s that are listed in [`FORMATS`]. A reader gets a
//! [`LogInput`] that is unpacked already, and passes what it finds to a [`FrameBatch`], which makes frames of it, keeps
//! time in order and counts. Nothing here writes.

mod atop;
mod batch;
mod cloudwatch;
mod collectl;
mod daylight_clock;
mod dstat;
mod error;
mod first_report;
mod host_split;
mod input;
mod input_limits;
mod iotop;
mod kernel_log;
mod kernel_threads;
mod level_reports;
mod level_row;
mod measured_time;
mod nfsiostat;
mod nmon;
pub mod nt;
pub mod pcp;
mod perfmon;
mod perfmon_blg;
mod pieces;
mod plain_text;
mod procfs;
pub mod prometheus;
mod range_guess;
mod report_times;
mod samples;
mod shared_stamps;
mod skips;
mod stamp_line;
#[cfg(test)]
#[path = "../../../../tests/sweep.rs"]
mod sweep;
mod sysstat;
mod table_csv;
mod text_encoding;
mod time_basis;
mod tool;
mod top;
pub mod transcript;
mod unix;
mod unsupported_formats;
mod value_limits;
mod watcher_file;
mod xz;
mod zpool_iostat;

use std::ops::ControlFlow;
use std::time::Duration;

pub use diskwright_base::LogPiece;

pub use batch::{FrameBatch, ReadSummary};
pub use error::LogError;
pub use input::{InputHead, LogInput, MAX_HEAD_BYTES, is_tar};
pub use input_limits::spool_limit;
pub use measured_time::MeasuredTime;
pub use range_guess::probable_range;
pub use skips::{Skip, Skips};
pub use table_csv::CsvColumn;
pub use time_basis::TimeBasis;
pub use value_limits::ValueLimits;

use watcher_file::WatcherFile;

/// Receives the pieces; `Break` ends the reading early, without an error.
pub type PieceSink<'a> = dyn FnMut(LogPiece<'_>) -> ControlFlow<()> + 'a;

/// Facts that the user knows about a log and the log does not state.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Local time of the log less UTC, seconds; overrides what the log says.
    pub utc_offset_s: Option<i32>,
    /// Machine to read of a log of several; case does not matter.
    pub host: Option<String>,
    /// Name of the machine, for a log that does not give it itself.
    pub machine_name: String,
    /// Time between two reports that carry no time of their own.
    pub interval: Option<Duration>,
    /// Set if the first report covers an interval like the others (`iostat -y`), and not the time since boot.
    pub is_first_report_kept: bool,
    /// Meanings of a table's columns.
    pub columns: Vec<CsvColumn>,
    /// Time that other logs of the machine measured, beside which events are placed.
    pub measured: Option<MeasuredTime>,
}

/// One log format.
pub struct LogFormat {
    /// Short name, lower case with hyphens (`perfmon-text`); also the text of [`diskwright_base::Note::SOURCE`].
    pub id: &'static str,
    /// Title for lists.
    pub title: &'static str,
    /// Explanation for the user: the parts that are read, those that are not, and how to record it.
    pub explain: &'static str,
    /// Returns true when the beginning of a file is of this format. It checks content, and the name only if content
    /// cannot tell.
    pub recognize: fn(&InputHead<'_>) -> bool,
    /// Reads a whole input. Ticks that were handed over before an error count.
    pub read: fn(&mut LogInput, &LogOptions, &mut FrameBatch<'_>) -> Result<(), LogError>,
}

/// All formats, in the order in which they are tried.
pub const FORMATS: &[&LogFormat] = &[
    &perfmon::FORMAT,
    &perfmon_blg::FORMAT,
    &prometheus::TEXT,
    &sysstat::SADF_JSON,
    &sysstat::SADF_XML,
    &sysstat::SADF_ROWS,
    &sysstat::IOSTAT_TEXT,
    &sysstat::VMSTAT,
    // before SAR_TEXT, whose headings partly coincide; this one is recognized by its first line
    &unix::SAR,
    &sysstat::SAR_TEXT,
    &sysstat::IOSTAT_JSON,
    &sysstat::MPSTAT_JSON,
    &samples::QUERY_ANSWER,
    &samples::OTLP,
    &samples::LINE_PROTOCOL,
    &cloudwatch::FORMAT,
    &sysstat::SA_BINARY,
    &unix::IOSTAT,
    &pcp::FORMAT,
    &dstat::FORMAT,
    &nmon::FORMAT,
    &collectl::TABLE,
    &collectl::RAW,
    &atop::TEXT,
    &atop::RAW,
    &atop::SCREEN,
    &top::FORMAT,
    &nfsiostat::FORMAT,
    &zpool_iostat::FORMAT,
    &iotop::FORMAT,
    // syslog may carry lines of other formats
    &kernel_log::FORMAT,
    // lines of /proc/pressure or mdstat may stand beside those of files that the next reads, which it does not know
    &pieces::FORMAT,
    // collectors' files contain lines of /proc too, so this comes after them
    &procfs::FORMAT,
    &table_csv::FORMAT,
];

/// Reads one log of any known format from beginning to end.
///
/// # Errors
/// When the file cannot be read, is of no known format, or is broken in a way
/// that leaves nothing to go on with; the pieces before it have gone to the sink.
pub fn read(input: &mut LogInput, options: &LogOptions, sink: &mut PieceSink<'_>) -> Result<ReadSummary, LogError> {
    read_as_format(None, input, options, sink, false)
}

/// Reads as much of a log as possible: an error behind the first tick becomes one of the skips.
///
/// # Errors
/// Those of [`read`] that leave no tick at all.
pub fn salvage(input: &mut LogInput, options: &LogOptions, sink: &mut PieceSink<'_>) -> Result<ReadSummary, LogError> {
    read_as_format(None, input, options, sink, true)
}

fn read_as_format(
    format: Option<&LogFormat>,
    input: &mut LogInput,
    options: &LogOptions,
    sink: &mut PieceSink<'_>,
    is_salvage: bool,
) -> Result<ReadSummary, LogError> {
    if is_salvage {
        input.tolerate_cut();
    }
    let watcher = if format.is_none() { WatcherFile::from_head(&input.head()) } else { None };
    let watcher_options = watcher.as_ref().map(|watcher| watcher.apply_to_options(options));
    let options = watcher_options.as_ref().unwrap_or(options);
    if let Some(watcher) = &watcher {
        if watcher.is_other_host(options) {
            let because = format!("it is of another machine, {}", watcher.host);
            return Err(LogError::NoSamples { file: input.name().to_owned(), because });
        }
        watcher.blank_lines(input)?;
    }
    let split = if format.is_none() { host_split::split_host(input, options)? } else { None };
    let (format, options, skips) = match (format, &split) {
        (Some(format), _) => (format, options, None),
        (None, Some(split)) => (split.format, &split.options, Some(&split.skips)),
        (None, None) => (recognize_format(input)?, options, None),
    };
    let mut batch = FrameBatch::new(format.id, sink);
    batch.set_default_host(watcher.map_or_else(|| options.machine_name.clone(), |watcher| watcher.host));
    let read = (format.read)(input, options, &mut batch);
    if let Some(skips) = skips {
        batch.merge_skips(skips.take());
    }
    if let Some(because) = input.cut_reason() {
        batch.add_skip("the rest", because);
    }
    match read {
        Err(error) if is_salvage && batch.has_ticks() => batch.add_skip("the rest", error.to_string()),
        Err(error) => {
            // passes the buffered frame on, also before an error
            let _ = batch.finish(input.name());
            return Err(error);
        }
        Ok(()) => {}
    }
    batch.finish(input.name())
}

/// Recognises the format of an input by its beginning.
///
/// # Errors
/// When no format is like it.
pub fn recognize_format(input: &LogInput) -> Result<&'static LogFormat, LogError> {
    let head = input.head();
    if let Some(format) = format_of_head(&head) {
        return Ok(format);
    }
    if head.bytes.is_empty() {
        return Err(LogError::EmptyFile { file: input.name().to_owned() });
    }
    if let Some((format_name, instead)) = unsupported_formats::identify_unsupported(&head) {
        return Err(LogError::UnsupportedFormat { file: input.name().to_owned(), format_name, instead });
    }
    Err(LogError::UnknownFormat { file: input.name().to_owned() })
}

/// Recognises the format of a file by its beginning; `None` if it is of none, or an archive of files.
pub fn format_of_head(head: &InputHead<'_>) -> Option<&'static LogFormat> {
    if is_tar(head.bytes) {
        return None;
    }
    FORMATS.iter().find(|format| (format.recognize)(head)).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Schema, Series};

    use super::*;

    fn nothing(input: &mut LogInput, _: &LogOptions, _: &mut FrameBatch<'_>) -> Result<(), LogError> {
        Err(input.error_at("byte 9", "cut off"))
    }

    fn three_ticks(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
        let series = Series { counter: "physical_disk.reads_per_s".into(), instance: "sda".into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        (1..=3).for_each(|index| batch.push_tick(&schema, index * 1_000_000_000, None, &[1.0]));
        nothing(input, options, batch)
    }

    /// Returns how many ticks arrived of a format whose reader ends in an error.
    fn broken(
        read: fn(&mut LogInput, &LogOptions, &mut FrameBatch<'_>) -> Result<(), LogError>,
    ) -> (usize, Result<ReadSummary, LogError>) {
        let format = LogFormat { id: "made-up", title: "", explain: "", recognize: |_| true, read };
        let mut ticks = 0;
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                ticks += frame.ticks().len();
            }
            ControlFlow::Continue(())
        };
        let mut input = LogInput::from_bytes("file", Vec::new()).unwrap();
        let summary = read_as_format(Some(&format), &mut input, &LogOptions::default(), &mut sink, true);
        (ticks, summary)
    }

    #[test]
    fn keeps_all_ticks_before_an_error() {
        let (ticks, summary) = broken(three_ticks);
        let summary = summary.unwrap();
        assert_eq!((ticks, summary.format, summary.ticks, summary.series, summary.values), (3, "made-up", 3, 1, 3));
        assert_eq!((summary.skipped[0].context.as_str(), summary.skipped[0].count), ("the rest", 1));
        assert!(summary.skipped[0].reason.contains("byte 9: cut off"));
        let (ticks, summary) = broken(nothing);
        assert!(ticks == 0 && summary.unwrap_err().to_string().contains("cut off"));
    }
}
