//! Foreign logs on the command line: what the user must say of them, and their
//! way into a log of ours.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_datastore::{StoreError, Writer, WriterOptions};
use diskwright_logs::{Input, LogError, Options, Piece, Sink, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Failure;

/// What a log of another tool may not say itself.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Logs of other tools")]
pub struct Reading {
    /// Local time of the log less UTC, where it names no zone: +02:00, -330 (minutes)
    #[arg(long, allow_hyphen_values = true, value_parser = utc_offset, value_name = "OFFSET")]
    utc_offset: Option<i32>,
    /// Of a log of several machines, the one to read
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Time between two reports that bear no time of their own (iostat without -t)
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    interval: Option<Duration>,
}

impl Reading {
    fn options(&self) -> Options {
        Options { utc_offset_s: self.utc_offset, host: self.host.clone(), interval: self.interval }
    }
}

/// Seconds of `+02:00`, `-3:30`, `+5`, `Z`, or of a bare number of minutes from
/// 15 on (`-330`).
fn utc_offset(text: &str) -> Result<i32, String> {
    let wrong = || format!("`{text}` is no offset; write +02:00 or -05:30, east of Greenwich is +");
    if matches!(text, "Z" | "z" | "0") {
        return Ok(0);
    }
    let (sign, rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (-1, rest),
        (_, Some(rest)) => (1, rest),
        _ => (1, text),
    };
    let number = |part: &str| part.parse::<i32>().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit()));
    let minutes = match rest.split_once(':') {
        Some((hours, minutes)) => {
            let minutes = number(minutes).filter(|m| *m < 60).ok_or_else(wrong)?;
            number(hours).filter(|h| *h <= 14).ok_or_else(wrong)? * 60 + minutes
        }
        None => match number(rest).ok_or_else(wrong)? {
            hours @ 0..15 => hours * 60,
            minutes => minutes,
        },
    };
    if minutes > 14 * 60 { Err(wrong()) } else { Ok(sign * minutes * 60) }
}

/// Reads a foreign log into a log of ours in `to`, which is made or appended
/// to. What was read before an error is kept, and the error becomes one of the
/// things that were left out; it is an error only where nothing was read.
pub fn import_input(file: &Path, mut input: Input, reading: &Reading, to: &Path) -> Result<Summary, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // the first asks, so that a half-made log is put away; the second kills
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let bar = bar(&input);
    let taken = input.taken();
    let mut store = Store::open(to)?;
    let mut sink = |piece: Piece<'_>| {
        bar.set_position(taken.load(Ordering::Relaxed));
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { store.take(piece) }
    };
    let read = diskwright_logs::salvage(&mut input, &reading.options(), &mut sink);
    bar.finish_and_clear();
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Failed(format!("{}: interrupted", file.display())));
    }
    store.finish()?;
    match read {
        Err(LogError::Unknown { .. }) if diskwright_traces::recognise(&input.head()).is_some() => {
            let what = "a request trace, without counters to judge; `diskwright show` sums it up";
            Err(Failure::Failed(format!("{}: {what}", file.display())))
        }
        read => Ok(read?),
    }
}

/// Writes what `read` brings into a log of ours in `to`.
pub fn keep<E: std::error::Error>(
    to: &Path,
    read: impl FnOnce(&mut Sink<'_>) -> Result<Summary, E>,
) -> Result<Summary, Failure> {
    let mut store = Store::open(to)?;
    let summary = read(&mut |piece: Piece<'_>| store.take(piece));
    store.finish()?;
    Ok(summary?)
}

/// The writer of an import, and why it stopped.
struct Store {
    writer: Writer,
    failed: Option<StoreError>,
}

impl Store {
    fn open(to: &Path) -> Result<Store, Failure> {
        Ok(Store { writer: Writer::create_or_append(to, WriterOptions::bulk())?, failed: None })
    }

    fn take(&mut self, piece: Piece<'_>) -> ControlFlow<()> {
        let done = match piece {
            Piece::Note(note) => self.writer.note(&note).map(drop),
            Piece::Frame(frame) => self.writer.push_frame(frame),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(self.writer.close()?),
        }
    }
}

/// A bar of the bytes that were read, on a terminal.
fn bar(input: &Input) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(input.bytes(), ProgressDrawTarget::stderr());
    let form = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
    if let (Some(_), Ok(style)) = (input.bytes(), ProgressStyle::with_template(form)) {
        bar.set_style(style);
    }
    bar.set_prefix(format!("reading {}", input.name()));
    bar
}

/// Says on standard error what was left out of a log, shortly.
pub fn tell_skipped(file: &Path, summary: &Summary) {
    const MOST: usize = 5;
    for skipped in summary.skipped.iter().take(MOST) {
        let times = if skipped.times > 1 { format!(" ({} times)", skipped.times) } else { String::new() };
        eprintln!("diskwright: {}: {}: {}{times}", file.display(), skipped.at, skipped.because);
    }
    if summary.skipped.len() > MOST {
        let more = summary.skipped.len() - MOST;
        eprintln!("diskwright: {}: {more} more reasons; `import --json` lists them", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::utc_offset;

    #[test]
    fn offsets_are_read_as_people_write_them() {
        let right = [("+02:00", 7200), ("-3:30", -12600), ("+5", 18000), ("Z", 0), ("-330", -19800), ("14:00", 50400)];
        for (text, seconds) in right {
            assert_eq!(utc_offset(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "+", "two", "+25:00", "1:60", "+-2", "99999"] {
            assert!(utc_offset(wrong).is_err(), "{wrong}");
        }
    }
}
