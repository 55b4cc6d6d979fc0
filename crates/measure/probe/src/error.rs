//! What can go wrong with a probe.

use std::io;

use diskwright_base::units::plural;
use diskwright_guard::Refusal;

/// Why something was not measured, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The guard says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is nothing that can be measured.
    #[error("{target}: {because}")]
    Target {
        /// As the user wrote it.
        target: String,
        /// What it is, and what to name instead.
        because: String,
    },
    /// The system refused.
    #[error("{target}: {what}: {source}")]
    Io {
        /// The target.
        target: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Requests failed in such numbers that nothing was measured.
    #[error("{target}: {}: {source}", plural(*failed, "request failed with", "requests failed, the first with"))]
    Failing {
        /// The target.
        target: String,
        /// How many.
        failed: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The user ended it; what was measured before is kept.
    #[error("interrupted")]
    Interrupted,
    /// A device in use answered too slowly, and the load was taken off it.
    #[error(
        "{target}: stopped: a device in use took {seconds:.3} s{} to respond, more than the {limit} s of --brake",
        if *.answered { "" } else { " and more" }
    )]
    Brake {
        /// The target.
        target: String,
        /// The answer that was too slow, seconds.
        seconds: f64,
        /// The limit, seconds.
        limit: f64,
        /// The answer came at last.
        answered: bool,
    },
    /// A pattern that makes no sense here.
    #[error("{name}: {because}")]
    Pattern {
        /// The pattern.
        name: String,
        /// What is wrong.
        because: String,
    },
    /// A script that cannot be read.
    #[error("{file}{}: {because}", if *line == 0 { String::new() } else { format!(":{line}") })]
    Script {
        /// The file.
        file: String,
        /// The line, from 1; 0 where it is about the whole file.
        line: usize,
        /// What is wrong there.
        because: String,
    },
}

impl ProbeError {
    /// A refusal of the system.
    pub fn io(target: &str, what: &'static str, source: impl Into<io::Error>) -> ProbeError {
        ProbeError::Io { target: target.to_owned(), what, source: source.into() }
    }
}
