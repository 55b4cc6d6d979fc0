//! The one way to people: standard output and standard error. All text that is written
//! passes [`diskwright_base::text`] here, so that no name, cell or answer from outside
//! writes to a terminal. A closed pipe is success.

use std::env;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use console::Term;
use diskwright_base::text as disarm;
use diskwright_report::Style;
use indicatif::ProgressBar;
use serde::Serialize;

use super::Failure;

/// Writes text for people to standard output.
pub fn text(text: &str) -> Result<(), Failure> {
    put(&mut io::stdout().lock(), disarm::screen(text, io::stdout().is_terminal()).as_bytes())
}

/// Writes one JSON document to standard output.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    data(document(value)?.as_bytes())
}

/// A value as a JSON document, in which control characters are escaped.
pub fn document(value: &impl Serialize) -> Result<String, Failure> {
    let mut document = serde_json::to_string_pretty(value)?;
    document.push('\n');
    Ok(disarm::json(&document).into_owned())
}

/// Writes data of a format with rules of its own: as they are into a file or a pipe,
/// disarmed on a terminal.
pub fn data(bytes: &[u8]) -> Result<(), Failure> {
    put(&mut stream(), bytes)
}

fn put(out: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    out.write_all(bytes).and_then(|()| out.flush()).map_err(failure)
}

/// The same for data that come in pieces.
pub fn stream() -> Box<dyn Write + Send> {
    let out = io::stdout();
    if out.is_terminal() { Box::new(ForTerminal { inner: out, rest: Vec::new() }) } else { Box::new(out) }
}

/// A name from outside as a part of a line for people: it cannot begin another one.
pub fn name(name: impl Display) -> String {
    disarm::printable(&name.to_string()).into_owned()
}

/// Says something on standard error. It may get lost: nobody has to listen there.
pub fn warn(message: impl Display) {
    say("diskwright: ", &message.to_string());
}

/// Says what a command failed with. What was typed is told in one line, whatever it holds: a further line of it would
/// pass for one of the message, which may have several.
pub fn failed(failure: impl Display) {
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    warn(arguments.fold(failure.to_string(), |message, typed| in_one_line(&message, &typed)));
}

/// A message that repeats what was typed, or one of the names or values in it.
fn in_one_line(message: &str, typed: &str) -> String {
    let parts = std::iter::once(typed).chain(typed.split([',', '=', ':']));
    let each = parts.flat_map(|part| [part, part.trim()]).filter(|part| part.contains(['\n', '\r']));
    each.fold(message.to_owned(), |message, part| message.replace(part, &name(part)))
}

/// Says on standard error what is good to know.
pub fn note(message: impl Display) {
    say("note: ", &message.to_string());
}

/// What was said while a screen covers the terminal; `None` while there is no screen.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Lines that are held back; of more, the oldest are lost.
const MOST_HELD: usize = 100;

/// The bar on the terminal, above which messages are printed; a finished one draws nothing.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints messages above this bar from now on: otherwise they would be written into it.
pub fn print_above(bar: &ProgressBar) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
}

fn held_lines() -> MutexGuard<'static, Option<Vec<String>>> {
    // nothing is half done where a holder could panic
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds back what is said on a terminal from now on: it would be written over the screen.
pub fn hold() {
    if io::stderr().is_terminal() {
        held_lines().get_or_insert_default();
    }
}

/// How many lines are held back, and the newest.
pub fn held() -> (usize, Option<String>) {
    held_lines().as_ref().map_or((0, None), |lines| (lines.len(), lines.last().cloned()))
}

/// Says what was held back.
pub fn release() {
    let lines = held_lines().take();
    lines.unwrap_or_default().iter().for_each(|line| aside(line));
}

/// Text as it is, disarmed, to standard error.
pub fn aside(text: &str) {
    let _ = io::stderr().lock().write_all(disarm::printable_lines(text).as_bytes());
}

/// Lines of ours begin at the margin and those within a message do not, so that a
/// name with a line break in it cannot pass for a message.
fn say(before: &str, message: &str) {
    let line = format!("{before}{}\n", message.trim_end().replace('\n', "\n  "));
    match &mut *held_lines() {
        Some(lines) => {
            if lines.len() == MOST_HELD {
                lines.remove(0);
            }
            lines.push(line);
        }
        None => match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(|| aside(&line)),
            None => aside(&line),
        },
    }
}

/// Sends on what standard output still holds back.
pub fn flush() {
    let _ = io::stdout().flush();
}

/// Panics are told like everything else: what a panic says may hold a name from outside.
pub fn tell_panics() {
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::capture();
        warn(format_args!("{info}"));
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            aside(&format!("{trace}\n"));
        }
    }));
}

/// Standard output that is a terminal, for data.
struct ForTerminal<W> {
    inner: W,
    /// The beginning of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl<W: Write> Write for ForTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // what is wrong in the middle is replaced below
            _ => self.rest.len() - unfinished(&self.rest),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        // RFC 4180 ends lines in CR LF
        self.inner.write_all(disarm::printable_lines(&text.replace("\r\n", "\n")).as_bytes())?;
        self.rest.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Bytes at the end that may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let begins = |length: &usize| bytes[bytes.len() - length] >= 0xc0;
    (1..=bytes.len().min(3))
        .find(begins)
        .filter(|&length| std::str::from_utf8(&bytes[bytes.len() - length..]).is_err())
        .unwrap_or(0)
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
    let size = Term::stdout().size_checked().map(|(rows, columns)| (usize::from(rows), usize::from(columns)));
    Style::choose(terminal, size.filter(|_| terminal), |name| env::var(name).ok())
}

/// Sentences in lines that fit the screen.
pub fn paragraph(text: &str) -> String {
    diskwright_report::text::wrap(text, style().width, 0).join("\n") + "\n"
}

/// The same for tables of long names: as wide as the terminal, or 120 columns
/// where there is none.
pub fn wide_style() -> Style {
    let terminal = io::stdout().is_terminal();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    Style { width: columns.filter(|_| terminal).unwrap_or(120).clamp(60, 160), ..style() }
}

/// True where standard error is a terminal, which keeps nothing of what it shows.
pub fn is_on_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_on_a_terminal_are_disarmed_in_whatever_pieces_they_come() {
        let data = "a,\x1b[2J,\u{9b}31m,磁盘\r\nß\n".as_bytes();
        let mut bad = data.to_vec();
        bad.extend_from_slice(b"\xffx\xe7\xa3\n");
        for size in 1..bad.len() {
            let mut out = ForTerminal { inner: Vec::new(), rest: Vec::new() };
            bad.chunks(size).for_each(|piece| out.write_all(piece).expect("written"));
            let text = String::from_utf8(out.inner).expect("UTF-8");
            assert!(!text.chars().any(|c| disarm::is_control(c) && c != '\n'), "{size}: {text:?}");
            assert!(
                text.starts_with("a,\u{fffd}[2J,\u{fffd}31m,磁盘") && text.contains("ß\n\u{fffd}x"),
                "{size}: {text:?}"
            );
        }
    }
}
