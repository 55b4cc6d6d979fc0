//! Errors that end the reading of a trace. Smaller faults are skipped and counted.

use diskwright_logs::LogError;

/// Reason why a trace could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system reported an error.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file could not be opened or unpacked.
    #[error(transparent)]
    Input(#[from] LogError),
    /// The file has no known trace format.
    #[error("{file}: not a known format of request traces; known are {known}")]
    Unknown {
        /// The file.
        file: String,
        /// Ids of the formats.
        known: String,
    },
    /// Two formats have the same columns, and the file does not show which of them it has.
    #[error(
        "{file}: could be {one} or {other}, which have the same columns: choose with show --trace-format {one} \
             (arrivals in milliseconds) or {other} (nanoseconds)"
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// The format with arrivals in milliseconds.
        one: &'static str,
        /// The format with arrivals in nanoseconds.
        other: &'static str,
    },
    /// Files of one trace have several formats.
    #[error("{file} has format {format}, but {other_file} has {other_format}; show them one at a time")]
    Mixed {
        /// A file.
        file: String,
        /// Its format.
        format: &'static str,
        /// Another file.
        other_file: String,
        /// The format of that file.
        other_format: &'static str,
    },
    /// No file was named.
    #[error("no trace to read")]
    None,
}
