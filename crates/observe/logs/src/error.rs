//! Errors of reading foreign logs.

use std::io;

/// Reason why a log could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system returned an error.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file resembles no known format.
    #[error(
        "{file}: not a log of a known format; give what a tool printed (iostat, vmstat, top, sar, mpstat, …) or \
         recorded, with its headings (`diskwright list formats` shows what is read and how to record it)"
    )]
    UnknownFormat {
        /// The file.
        file: String,
    },
    /// The file has no bytes.
    #[error("{file} is empty; give a log file")]
    EmptyFile {
        /// The file.
        file: String,
    },
    /// The kind of file is known, but nothing here reads it.
    #[error("{file}: {format_name}, which is not read here; {instead}")]
    UnsupportedFormat {
        /// The file.
        file: String,
        /// Kind of the file, with its version if the file gives it.
        format_name: String,
        /// Program that reads it, or what to do.
        instead: &'static str,
    },
    /// The file is of the format, and broken.
    #[error("{file}: {context}: {because}")]
    Broken {
        /// The file.
        file: String,
        /// Place: `line 12, column 4`, `byte 8192`.
        context: String,
        /// Description of the fault.
        because: String,
    },
    /// The log lacks something that the user must give.
    #[error("{file}: {because}; use {option}")]
    MissingOption {
        /// The file.
        file: String,
        /// Description of what is not known.
        because: String,
        /// Option that supplies it, with an example.
        option: &'static str,
    },
    /// A program that this format is read with is missing or failed.
    #[error("{file}: {because}")]
    Tool {
        /// The file.
        file: String,
        /// Description of what is missing, and how to get it.
        because: String,
    },
    /// The log holds no tick.
    #[error("{file}: contains no samples ({because})")]
    NoSamples {
        /// The file.
        file: String,
        /// Description of what was found instead.
        because: String,
    },
}

impl LogError {
    /// Wraps an error of the operating system.
    pub fn io(file: &str, source: io::Error) -> LogError {
        LogError::Io { file: file.to_owned(), source }
    }

    /// Returns the error for broken content; `context` is its place (`line 12, column 4`, `byte 8192`).
    pub fn broken(file: &str, context: impl Into<String>, because: impl Into<String>) -> LogError {
        LogError::Broken { file: file.to_owned(), context: context.into(), because: because.into() }
    }
}
