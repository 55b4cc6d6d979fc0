//! Errors of requests to a store.

use std::time::Duration;

/// Reason why a store gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address or a header is wrong.
    #[error("{option}: {because}")]
    Usage {
        /// The address or header.
        option: String,
        /// Description of the mistake.
        because: String,
    },
    /// There was no connection, it broke, or it timed out.
    #[error("{url}: {because}")]
    Connection {
        /// The address, without a password.
        url: String,
        /// Description of the failure.
        because: String,
    },
    /// The store answered with an error.
    #[error("{url}: HTTP {status}: {says}")]
    Refused {
        /// The address, without a password.
        url: String,
        /// Status code.
        status: u16,
        /// Message in the body, shortened.
        says: String,
        /// Pause that the store requests before the next try.
        retry_after: Option<Duration>,
    },
    /// The answer is not a valid answer of the query API.
    #[error("{url}: {because}")]
    Answer {
        /// The address, without a password.
        url: String,
        /// Description of the mistake.
        because: String,
    },
    /// The answer exceeds a limit.
    #[error("{url}: {because}")]
    TooMuch {
        /// The address, without a password.
        url: String,
        /// The limit, and advice about narrower queries.
        because: String,
    },
    /// There is no data to judge.
    #[error("{0}")]
    Nothing(String),
    /// More than one machine matches.
    #[error(
        "{} machines match: {}{}; narrow it with --match '{{{by}=\"{}\"}}', or rank them all with --fleet",
        hosts.len(), hosts.iter().take(10).cloned().collect::<Vec<_>>().join(", "),
        if hosts.len() > 10 { ", …" } else { "" },
        hosts.first().map_or("NAME", String::as_str)
    )]
    SeveralHosts {
        /// The label that names machines.
        by: String,
        /// Their names.
        hosts: Vec<String>,
    },
}
