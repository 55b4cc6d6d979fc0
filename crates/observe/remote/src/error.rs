//! What can go wrong with a store.

use std::time::Duration;

/// Why a store gave no answer, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address or a header is wrong.
    #[error("{what}: {because}")]
    Usage {
        /// What was given.
        what: String,
        /// What is wrong with it.
        because: String,
    },
    /// No connection, or it broke, or it took too long.
    #[error("{url}: {because}")]
    Connection {
        /// The address, without a password.
        url: String,
        /// What the network said.
        because: String,
    },
    /// The store answered with an error.
    #[error("{url}: HTTP {status}: {says}")]
    Refused {
        /// The address, without a password.
        url: String,
        /// Status code.
        status: u16,
        /// What the body says, shortened.
        says: String,
        /// How long the store wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the query API answers.
    #[error("{url}: {because}")]
    Answer {
        /// The address, without a password.
        url: String,
        /// What is wrong with it.
        because: String,
    },
    /// The answer is longer than is taken.
    #[error("{url}: {because}")]
    TooMuch {
        /// The address, without a password.
        url: String,
        /// The limit, and how to ask for less.
        because: String,
    },
    /// Nothing there that could be judged.
    #[error("{0}")]
    Nothing(String),
    /// More than one machine is meant.
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
