//! Where answers go: one writer that takes a closed pipe for success, and what
//! the terminal can show.

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};

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

/// What standard output can show: colours only on a terminal and without
/// `NO_COLOR`, block characters only in a UTF-8 locale.
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let set = |name: &str| env::var_os(name).is_some_and(|v| !v.is_empty());
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Style {
        colour: terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|t| t != "dumb"),
        unicode: !terminal || locale_is_utf8(),
        width: columns.filter(|_| terminal).unwrap_or(80).clamp(40, 100),
    }
}

fn locale_is_utf8() -> bool {
    let first = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| env::var(name).ok().filter(|v| !v.is_empty()));
    first.is_some_and(|locale| locale.to_lowercase().replace('-', "").contains("utf8"))
}
