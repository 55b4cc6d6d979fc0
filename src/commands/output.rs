//! Where answers go: one writer that takes a closed pipe for success, and what
//! the terminal can show.

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};

use console::Term;
use diskwright_report::Style;
use serde::Serialize;

use super::Failure;

/// Writes text to standard output.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failure)
}

/// Writes one JSON document to standard output.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut document = serde_json::to_string_pretty(value)?;
    document.push('\n');
    text(&document)
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Failed(format!("standard output: {error}")),
    }
}

/// What standard output can show: its width, colours only on a terminal and
/// without `NO_COLOR`, block characters only in a UTF-8 locale.
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    Style::choose(terminal, columns.filter(|_| terminal), |name| env::var(name).ok())
}

/// The same for tables of long names: as wide as the terminal, or 120 columns
/// where there is none.
pub fn wide_style() -> Style {
    let terminal = io::stdout().is_terminal();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    Style { width: columns.filter(|_| terminal).unwrap_or(120).clamp(60, 160), ..style() }
}
