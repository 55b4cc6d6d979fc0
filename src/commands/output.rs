//! All output on standard output and standard error. All text passes [`diskwright_base::text`] here, so that
//! no name, cell or answer from outside can control a terminal. A closed pipe is success.

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

/// Writes text to standard output.
pub fn print_text(text: &str) -> Result<(), Failure> {
    write_all_bytes(&mut io::stdout().lock(), disarm::sanitize_screen(text, io::stdout().is_terminal()).as_bytes())
}

/// Locks standard output for binary messages to another process of this program.
pub fn lock_stdout() -> impl std::io::Write {
    std::io::stdout().lock()
}

/// Writes a JSON document to standard output.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print_data(format_json_document(value)?.as_bytes())
}

/// Formats a value as a JSON document, with control characters escaped.
pub fn format_json_document(value: &impl Serialize) -> Result<String, Failure> {
    let mut document = serde_json::to_string_pretty(value)?;
    document.push('\n');
    Ok(disarm::escape_json(&document).into_owned())
}

/// Writes data of a format with its own rules: unchanged into a file or a pipe, disarmed on a terminal.
pub fn print_data(bytes: &[u8]) -> Result<(), Failure> {
    write_all_bytes(&mut open_data_stream(), bytes)
}

fn write_all_bytes(out: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    out.write_all(bytes).and_then(|()| out.flush()).map_err(write_failure)
}

/// Opens standard output for data that come in pieces.
pub fn open_data_stream() -> Box<dyn Write + Send> {
    let out = io::stdout();
    if out.is_terminal() { Box::new(TerminalWriter { inner: out, incomplete_char: Vec::new() }) } else { Box::new(out) }
}

/// Escapes a name from outside as part of a line of text, so that it cannot begin another line.
pub fn escape_name(name: impl Display) -> String {
    disarm::printable_line(&name.to_string()).into_owned()
}

/// Prints a warning on standard error. Write errors are ignored: standard error may be closed.
pub fn print_warning(message: impl Display) {
    write_message("diskwright: ", &message.to_string());
}

/// Reports a command's failure. Arguments in the message are printed on one line, whatever they hold: a line break in
/// them could pass for a further line of the message, which may have several.
pub fn print_failure(failure: impl Display) {
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    print_warning(
        arguments.fold(failure.to_string(), |message, argument| collapse_argument_lines(&message, &argument)),
    );
}

/// Puts an argument, or a name or value from it, on one line of a message.
fn collapse_argument_lines(message: &str, argument: &str) -> String {
    let parts = std::iter::once(argument).chain(argument.split([',', '=', ':']));
    let broken = parts.flat_map(|part| [part, part.trim()]).filter(|part| part.contains(['\n', '\r']));
    broken.fold(message.to_owned(), |message, part| message.replace(part, &escape_name(part)))
}

/// Prints useful information on standard error.
pub fn print_note(message: impl Display) {
    write_message("note: ", &message.to_string());
}

/// Messages held back while a screen covers the terminal; `None` while there is no screen.
static HELD_MESSAGES: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// Maximum number of messages held back; beyond it, the oldest are lost.
const MAX_HELD_MESSAGES: usize = 100;

/// The progress bar on the terminal, above which messages are printed; a finished bar draws nothing.
static ACTIVE_BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints messages above this bar from now on, so that they are not written into it.
pub fn print_above_bar(bar: &ProgressBar) {
    *ACTIVE_BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
}

fn lock_held_messages() -> MutexGuard<'static, Option<Vec<String>>> {
    // no holder of the lock leaves it in an inconsistent state, even if it panics
    HELD_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds back messages from now on, so that they are not written over the screen.
pub fn hold_messages() {
    if io::stderr().is_terminal() {
        lock_held_messages().get_or_insert_default();
    }
}

/// Number of messages held back, and the newest.
pub fn held_messages() -> (usize, Option<String>) {
    lock_held_messages().as_ref().map_or((0, None), |lines| (lines.len(), lines.last().cloned()))
}

/// Prints the messages that were held back.
pub fn release_messages() {
    let lines = lock_held_messages().take();
    lines.unwrap_or_default().iter().for_each(|line| print_to_stderr(line));
}

/// Writes text to standard error, disarmed.
pub fn print_to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(disarm::printable_lines(text).as_bytes());
}

/// Prints a message whose first line begins at the margin and whose further lines are indented, so that a line break in
/// a name cannot fake a message.
fn write_message(before: &str, message: &str) {
    let line = format!("{before}{}\n", message.trim_end().replace('\n', "\n  "));
    match &mut *lock_held_messages() {
        Some(lines) => {
            if lines.len() == MAX_HELD_MESSAGES {
                lines.remove(0);
            }
            lines.push(line);
        }
        None => match &*ACTIVE_BAR.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(|| print_to_stderr(&line)),
            None => print_to_stderr(&line),
        },
    }
}

/// Flushes standard output.
pub fn flush_stdout() {
    let _ = io::stdout().flush();
}

/// Installs a panic hook that reports panics like other messages: a panic's text may hold a name from outside.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::capture();
        print_warning(format_args!("{info}"));
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            print_to_stderr(&format!("{trace}\n"));
        }
    }));
}

/// Writes data to a terminal: control characters are replaced.
struct TerminalWriter<W> {
    inner: W,
    /// Beginning of a character whose remaining bytes have not arrived yet.
    incomplete_char: Vec<u8>,
}

impl<W: Write> Write for TerminalWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.incomplete_char.extend_from_slice(bytes);
        let complete = match std::str::from_utf8(&self.incomplete_char) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // invalid bytes in the middle are replaced below
            _ => self.incomplete_char.len() - incomplete_suffix_bytes(&self.incomplete_char),
        };
        let text = String::from_utf8_lossy(&self.incomplete_char[..complete]).into_owned();
        // RFC 4180 ends lines in CR LF
        self.inner.write_all(disarm::printable_lines(&text.replace("\r\n", "\n")).as_bytes())?;
        self.incomplete_char.drain(..complete);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Number of bytes at the end that may be the beginning of a character.
fn incomplete_suffix_bytes(bytes: &[u8]) -> usize {
    let is_first_byte = |length: &usize| bytes[bytes.len() - length] >= 0xc0;
    (1..=bytes.len().min(3))
        .find(is_first_byte)
        .filter(|&length| std::str::from_utf8(&bytes[bytes.len() - length..]).is_err())
        .unwrap_or(0)
}

fn write_failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Failed(format!("standard output: {error}")),
    }
}

/// Capabilities of standard output: its width, colors only on a terminal and without `NO_COLOR`, block characters only
/// in a UTF-8 locale.
pub fn stdout_style() -> Style {
    let terminal = io::stdout().is_terminal();
    let size = Term::stdout().size_checked().map(|(rows, columns)| (usize::from(rows), usize::from(columns)));
    Style::for_terminal(terminal, size.filter(|_| terminal), |name| env::var(name).ok())
}

/// Wraps sentences to the width of the screen.
pub fn wrap_paragraph(text: &str) -> String {
    diskwright_report::text::wrap(text, stdout_style().width, 0).join("\n") + "\n"
}

/// Style for tables of long names: as wide as the terminal, or 120 columns without one.
pub fn wide_table_style() -> Style {
    let terminal = io::stdout().is_terminal();
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    Style { width: columns.filter(|_| terminal).unwrap_or(120).clamp(60, 160), ..stdout_style() }
}

/// True if standard error is a terminal, whose content is not stored.
pub fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disarms_terminal_data_however_it_is_split() {
        let data = "a,\x1b[2J,\u{9b}31m,磁盘\r\nß\n".as_bytes();
        let mut bad = data.to_vec();
        bad.extend_from_slice(b"\xffx\xe7\xa3\n");
        for size in 1..bad.len() {
            let mut out = TerminalWriter { inner: Vec::new(), incomplete_char: Vec::new() };
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
