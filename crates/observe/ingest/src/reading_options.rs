//! What is known about a log of another tool besides its content.

use diskwright_logs::{LogOptions, MeasuredTime};

use crate::given_log::HeldSection;

/// Facts that a log of another tool may lack: those that the user gave, those of its command line, and those that other
/// logs of the machine show.
#[derive(Clone, Debug, Default)]
pub struct ReadingOptions {
    reader: LogOptions,
    /// Time by which a log without dates is moved, to lie beside others.
    shift_ns: i64,
}

impl From<LogOptions> for ReadingOptions {
    fn from(reader: LogOptions) -> ReadingOptions {
        ReadingOptions { reader, shift_ns: 0 }
    }
}

impl ReadingOptions {
    /// Returns the options for a reader.
    pub(crate) fn log_options(&self) -> &LogOptions {
        &self.reader
    }

    /// Machine that the user wants of several.
    pub(crate) fn wanted_host(&self) -> Option<&str> {
        self.reader.host.as_deref()
    }

    /// Time by which all ticks and notes are moved.
    pub(crate) fn shift_ns(&self) -> i64 {
        self.shift_ns
    }

    /// Returns the options with a zone that another log of the machine names.
    pub(crate) fn with_offset(&self, offset_s: i32) -> ReadingOptions {
        let mut options = self.clone();
        options.reader.utc_offset_s.get_or_insert(offset_s);
        options
    }

    /// Returns the options with what the text around a log says; the user knows better.
    pub(crate) fn with_section(&self, section: &HeldSection) -> ReadingOptions {
        let mut options = self.clone();
        options.reader.interval = options.reader.interval.or(section.interval);
        options.reader.is_first_report_kept = section.is_first_report_kept;
        options.reader.machine_name.clone_from(&section.host);
        options
    }

    /// Returns the options with the time that other logs of the machine measured.
    pub(crate) fn with_measured(&self, measured: MeasuredTime) -> ReadingOptions {
        let mut options = self.clone();
        options.reader.measured = Some(measured);
        options
    }

    /// Returns the options with a time by which the log is moved.
    pub(crate) fn with_shift(&self, shift_ns: i64) -> ReadingOptions {
        ReadingOptions { shift_ns, ..self.clone() }
    }
}
