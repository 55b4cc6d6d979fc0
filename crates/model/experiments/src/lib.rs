//! The published measurements of the source documents, as data, and the accuracy of the simulator against them.
//!
//! ```text
//! experiments/003.toml ── rows, runs, fitted parameters ──┐
//! experiments/systems/*.toml ── machines ── a run's keys ─┴─> simulator ─> numbers ─> measure ─> error
//! ```
//!
//! A row is a published value, with its permitted use (a frozen split), the simulation results that it is compared
//! with, and the prediction of a naive reader ([`document`]). No code here depends on a particular machine or document;
//! `docs/experiments.md` describes the format of rows.

pub mod data;
pub mod document;
pub mod expression;
pub mod fit;
pub mod judge;
pub mod numbers;
pub mod run;
pub mod simulate;

use thiserror::Error;

/// Error that stopped a search for parameters.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}: {item}: {message}")]
pub struct SearchError {
    /// The document.
    pub file: String,
    /// The row.
    pub item: String,
    /// Reason why the row has no value.
    pub message: String,
}

impl SearchError {
    /// An error of a document's row.
    pub fn new(file: &str, item: impl Into<String>, message: impl Into<String>) -> SearchError {
        SearchError { file: file.into(), item: item.into(), message: message.into() }
    }
}
