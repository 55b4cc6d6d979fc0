//! Reading logs for the commands: what was named on the command line, the
//! window asked for, and one loop over everything in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use diskwright_base::{Device, Frame, Note, Topology};
use diskwright_datastore::{Damage, Item, Reader, is_log};
use diskwright_logs::{Input, prometheus};
use tempfile::TempDir;

use super::arrays::{self, Arrays, Described};
use super::foreign::{self, Reading};
use super::{Failure, when};

/// The stretch of a log that a command looks at.
#[derive(Args, Clone, Default)]
pub struct Window {
    /// Start: 2026-11-21T22:15:00Z, "2026-11-21 22:15", 22:15, or -10m (before the log's end)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// End, written like --from
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    arrays: Arrays,
}

impl Window {
    /// The same way of reading with other ends.
    pub fn with(&self, from: Option<String>, to: Option<String>) -> Window {
        Window { from, to, ..self.clone() }
    }

    /// The start that was given.
    pub fn from(&self) -> Option<&String> {
        self.from.as_ref()
    }

    /// True when neither end is given.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// A window of a store, without a log.
    pub fn between(from: Option<String>, to: Option<String>) -> Window {
        Window { from, to, ..Window::default() }
    }

    /// The ends that are given, nanoseconds since 1970 UTC; `end_ns` is what `-10m` counts from.
    pub fn ends(&self, end_ns: i64) -> Result<(Option<i64>, Option<i64>), Failure> {
        let end = |text: &Option<String>| text.as_deref().map(|t| when::parse(t, end_ns)).transpose();
        Ok((end(&self.from)?, end(&self.to)?))
    }
}

/// Logs opened for reading, with the window in nanoseconds since 1970 UTC.
pub struct Logs {
    sources: Vec<Source>,
    /// Disks that the user described.
    described: Vec<Device>,
    /// First and last moment that will be read.
    pub range: (i64, i64),
}

/// One log of ours, or what was made of another tool's.
struct Source {
    path: PathBuf,
    range: (i64, i64),
    /// Where a foreign log was read into; it goes away with this.
    _made: Option<TempDir>,
}

/// What a log holds, in the order in which it is read.
pub enum Piece<'a> {
    /// Some ticks.
    Frame(&'a Frame),
    /// A note.
    Note(Note),
    /// Something that could not be read.
    Damage(Damage),
}

impl Logs {
    /// Opens every log once, to learn its times; logs of other tools are read
    /// into one of ours first, which goes away with the value.
    pub fn open(paths: &[PathBuf], window: &Window) -> Result<Logs, Failure> {
        let described = window.arrays.described()?;
        let mut sources = match prometheus::joined(paths) {
            Some(pages) => vec![open_foreign(&paths[0], pages, &window.reading)?],
            None => paths.iter().map(|path| open(path, &window.reading)).collect::<Result<Vec<_>, _>>()?,
        };
        sources.sort_by_key(|s| s.range);
        Logs::of(sources, window, &described)
    }

    /// The one log that a store was read into; the window was settled there.
    pub fn of_made(made: TempDir, window: &Window) -> Result<Logs, Failure> {
        let described = window.arrays.described()?;
        let none = || Failure::Failed("no tick came of the store".into());
        let range = Reader::open(made.path())?.range()?.ok_or_else(none)?;
        let source = Source { path: made.path().to_owned(), range, _made: Some(made) };
        Logs::of(vec![source], &Window::default(), &described)
    }

    fn of(sources: Vec<Source>, window: &Window, described: &[Described]) -> Result<Logs, Failure> {
        for pair in sources.windows(2).filter(|pair| pair[0].range.1 > pair[1].range.0) {
            let (one, two) = (pair[0].path.display(), pair[1].path.display());
            eprintln!("diskwright: {one} and {two} overlap in time; what they share is judged twice");
        }
        let first = sources.iter().map(|s| s.range.0).min();
        let last = sources.iter().map(|s| s.range.1).max();
        let (Some(first), Some(last)) = (first, last) else { return Err(Failure::Usage("no log named".into())) };
        let from = window.from.as_deref().map(|t| when::parse(t, last)).transpose()?;
        let to = window.to.as_deref().map(|t| when::parse(t, last)).transpose()?;
        let range = (from.unwrap_or(first).max(first), to.unwrap_or(last).min(last));
        if range.0 > range.1 {
            let held = format!("{} to {}", when::rfc3339(first), when::rfc3339(last));
            return Err(Failure::Usage(format!("nothing between --from and --to: the log holds {held}")));
        }
        let mut logs = Logs { sources, described: Vec::new(), range };
        if !described.is_empty() {
            logs.described = logs.find(described)?;
        }
        Ok(logs)
    }

    /// The described disks by the names in the logs' first frames.
    fn find(&self, described: &[Described]) -> Result<Vec<Device>, Failure> {
        let mut schemas = Vec::new();
        for source in &self.sources {
            let mut reader = Reader::open(&source.path)?;
            let mut frame = Frame::default();
            while let Some(item) = reader.next(&mut frame)? {
                if item == Item::Frame {
                    schemas.push(Arc::clone(frame.schema()));
                    break;
                }
            }
        }
        arrays::devices(described, &schemas.iter().map(Arc::as_ref).collect::<Vec<_>>())
    }

    /// Reads everything in the window, log after log, oldest first.
    pub fn read(&self, mut each: impl FnMut(Piece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.described.is_empty() {
            // a log without a topology has at least what was said of it
            each(Piece::Note(self.topology(self.range.0, Topology::default())?))?;
        }
        for source in &self.sources {
            self.read_one(&source.path, &mut each)?;
        }
        Ok(())
    }

    fn topology(&self, time_ns: i64, mut topology: Topology) -> Result<Note, Failure> {
        arrays::merge(&mut topology, &self.described);
        Ok(Note::new(time_ns, Note::TOPOLOGY, serde_json::to_string(&topology)?))
    }

    fn read_one(&self, path: &Path, each: &mut impl FnMut(Piece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut reader = Reader::open(path)?;
        reader.window(self.range.0, self.range.1);
        let mut frame = Frame::default();
        while let Some(item) = reader.next(&mut frame)? {
            match item {
                Item::Frame => each(Piece::Frame(&frame))?,
                Item::Note(note) if note.kind == Note::TOPOLOGY && !self.described.is_empty() => {
                    let topology = serde_json::from_str(&note.text)?;
                    each(Piece::Note(self.topology(note.time_ns, topology)?))?;
                }
                Item::Note(note) => each(Piece::Note(note))?,
                Item::Damage(damage) => each(Piece::Damage(damage))?,
            }
        }
        Ok(())
    }
}

/// A log of ours as it is, or another tool's read into one of ours.
fn open(path: &Path, reading: &Reading) -> Result<Source, Failure> {
    let no_tick = || Failure::Failed(format!("{}: no tick in it", path.display()));
    // a folder can only be a log of ours, whatever is wrong with it
    if path.is_dir() || is_log(path) {
        let range = Reader::open(path)?.range()?.ok_or_else(no_tick)?;
        return Ok(Source { path: path.to_owned(), range, _made: None });
    }
    open_foreign(path, Input::open(path)?, reading)
}

fn open_foreign(path: &Path, input: Input, reading: &Reading) -> Result<Source, Failure> {
    let no_tick = || Failure::Failed(format!("{}: no tick in it", path.display()));
    let made = tempfile::Builder::new().prefix("diskwright-").tempdir()?;
    let summary = foreign::import_input(path, input, reading, made.path())?;
    foreign::tell_skipped(path, &summary);
    let range = Reader::open(made.path())?.range()?.ok_or_else(no_tick)?;
    Ok(Source { path: made.path().to_owned(), range, _made: Some(made) })
}

/// Says on standard error what was lost; the answer goes on with the rest.
pub fn tell_damage(damage: &Damage) {
    eprintln!("diskwright: {damage}");
}
