//! Rendering of results of the probe: their charts ([`charts`]), a page
//! ([`page()`]), the comparison of two sides ([`compare`]).

pub mod charts;
pub mod compare;
mod page;
mod screen;
mod sweep;
#[cfg(test)]
mod tests;

use diskwright_results::document::ProbeDocument;

pub use page::{ProbePage, describe_hidden_requests, render_page, run_remarks};
pub use screen::{indent_item, render_screen};

/// A result with a name that distinguishes it from others.
#[derive(Clone, Copy, Debug)]
pub struct NamedResult<'a> {
    /// Name, such as that of its file without extension.
    pub name: &'a str,
    /// The result.
    pub document: &'a ProbeDocument,
}
