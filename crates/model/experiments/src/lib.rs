//! The measurements that the source documents print, as data, and how near the
//! simulator comes to them.
//!
//! ```text
//! experiments/003.toml ── rows, runs, fitted parameters ──┐
//! experiments/systems/*.toml ── machines ── a run's keys ─┴─> simulator ─> numbers ─> measure ─> error
//! ```
//!
//! A row is what was printed, what it may be used for (that split is frozen),
//! which numbers of which simulations stand against it, and what a naive reader
//! would have predicted ([`document`]). Nothing here knows a machine or a
//! document by name; `docs/experiments.md` says how rows are written.

pub mod data;
pub mod document;
pub mod expression;
pub mod fit;
pub mod judge;
pub mod numbers;
pub mod run;
pub mod simulate;

use thiserror::Error;

/// What stopped a search for parameters.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}: {item}: {message}")]
pub struct SearchError {
    /// The document.
    pub file: String,
    /// Its row.
    pub item: String,
    /// Why it has no value.
    pub message: String,
}

impl SearchError {
    /// An error of a document's row.
    pub fn new(file: &str, item: impl Into<String>, message: impl Into<String>) -> SearchError {
        SearchError { file: file.into(), item: item.into(), message: message.into() }
    }
}
