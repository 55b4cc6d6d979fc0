//! What can be wrong with a foreign log.

use std::io;

/// Why a log could not be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// No format is like it.
    #[error("{file}: not a log of a known format (known: diskwright, {known})")]
    Unknown {
        /// The file.
        file: String,
        /// Ids of the formats.
        known: String,
    },
    /// It is known what it is, and nothing here reads it.
    #[error("{file}: {what}, which is not read here; {instead}")]
    NotRead {
        /// The file.
        file: String,
        /// What it is, with its version where it says that.
        what: String,
        /// What reads it, or what to do.
        instead: &'static str,
    },
    /// It is of the format, and broken.
    #[error("{file}: {context}: {because}")]
    Broken {
        /// The file.
        file: String,
        /// Where: `line 12, column 4`, `byte 8192`.
        context: String,
        /// What is wrong there.
        because: String,
    },
    /// The log does not say something that the user must.
    #[error("{file}: {because}; use {option}")]
    Needs {
        /// The file.
        file: String,
        /// What is not known.
        because: String,
        /// The option that tells it, with an example.
        option: &'static str,
    },
    /// A program that reads this format for us is missing or failed.
    #[error("{file}: {because}")]
    Tool {
        /// The file.
        file: String,
        /// What is missing, and how to have it.
        because: String,
    },
    /// It holds no tick.
    #[error("{file}: contains no samples ({because})")]
    Empty {
        /// The file.
        file: String,
        /// What was found instead.
        because: String,
    },
}

impl LogError {
    /// A refusal of the system.
    pub fn io(file: &str, source: io::Error) -> LogError {
        LogError::Io { file: file.to_owned(), source }
    }

    /// Something broken; `at` says where (`line 12, column 4`, `byte 8192`).
    pub fn broken(file: &str, context: impl Into<String>, because: impl Into<String>) -> LogError {
        LogError::Broken { file: file.to_owned(), context: context.into(), because: because.into() }
    }
}
