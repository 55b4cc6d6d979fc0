//! Errors of a probe.

use std::io;

use diskwright_base::units::format_count;
use diskwright_guard::Refusal;

/// Reason why something was not measured, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The guard refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The target cannot be measured.
    #[error("{target}: {because}")]
    Target {
        /// The target, as the user wrote it.
        target: String,
        /// Why it cannot be measured, and what to give instead.
        because: String,
    },
    /// The system refused.
    #[error("{target}: {operation}: {source}")]
    Io {
        /// The target.
        target: String,
        /// Failed operation.
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Requests failed in such numbers that nothing was measured.
    #[error("{target}: {}: {source}", format_count(*failed, "request failed with", "requests failed, the first with"))]
    Failing {
        /// The target.
        target: String,
        /// Number of failed requests.
        failed: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The user interrupted the measurement; the runs that were complete are kept.
    #[error("interrupted")]
    Interrupted,
    /// A device in use responded too slowly, so the load was stopped.
    #[error(
        "{target}: stopped: a device in use took {seconds:.3} s{} to respond, more than the {limit} s of --brake",
        if *.answered { "" } else { " and more" }
    )]
    Brake {
        /// The target.
        target: String,
        /// Time of the response that was too slow, seconds.
        seconds: f64,
        /// The limit, seconds.
        limit: f64,
        /// True if the response arrived; false if the request was still in flight.
        answered: bool,
    },
    /// A pattern that does not fit the target.
    #[error("{name}: {because}")]
    Pattern {
        /// Name of the pattern.
        name: String,
        /// Description of the fault.
        because: String,
    },
    /// A script that cannot be read.
    #[error("{file}{}: {because}", if *line == 0 { String::new() } else { format!(":{line}") })]
    Script {
        /// The file.
        file: String,
        /// The line, from 1; 0 for the whole file.
        line: usize,
        /// Description of the fault.
        because: String,
    },
}

impl ProbeError {
    /// Creates an error from one of the system.
    pub fn io(target: &str, operation: &'static str, source: impl Into<io::Error>) -> ProbeError {
        ProbeError::Io { target: target.to_owned(), operation, source: source.into() }
    }
}
