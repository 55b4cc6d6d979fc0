//! Results of the probe for people: which charts they make ([`charts`]), a
//! page ([`page()`]), two sides compared ([`compare`]).

pub mod charts;
pub mod compare;
mod page;
mod screen;
mod sweep;
#[cfg(test)]
mod tests;

use diskwright_results::document::ProbeDocument;

pub use page::{ProbePage, hidden, page, remarks};
pub use screen::{indented, screen};

/// A result and what it is called beside others.
#[derive(Clone, Copy, Debug)]
pub struct NamedResult<'a> {
    /// Such as the name of its file without an ending.
    pub name: &'a str,
    /// The result.
    pub document: &'a ProbeDocument,
}
