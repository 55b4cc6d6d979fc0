//! Foreign logs: what other tools recorded, as frames and notes of ours.
//!
//! One folder a format; each gives a [`Format`] (or several) that is named in
//! [`FORMATS`]. A reader gets an [`Input`] that is unpacked already, and hands
//! what it finds to a [`Batch`], which makes frames of it, keeps time in order
//! and counts. Nothing here writes.

mod batch;
mod error;
mod input;
pub mod nt;
pub mod pcp;
mod perfmon;
mod perfmon_blg;
pub mod prometheus;
mod skips;
mod sysstat;

use std::ops::ControlFlow;
use std::time::Duration;

use diskwright_base::{Frame, Note};

pub use batch::{Batch, Summary};
pub use error::LogError;
pub use input::{HEAD, Head, Input};
pub use skips::{Skipped, Skips};

/// What comes out of a foreign log, in order of time.
pub enum Piece<'a> {
    /// Some ticks. The counters are canonical ids, or `foreign.` and the log's
    /// own name for what the catalogue does not know.
    Frame(&'a Frame),
    /// A note; the first is always [`Note::SOURCE`].
    Note(Note),
}

/// Takes the pieces; `Break` ends the reading early, without an error.
pub type Sink<'a> = dyn FnMut(Piece<'_>) -> ControlFlow<()> + 'a;

/// What the user knows about a log and the log does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Local time of the log less UTC, seconds; wins over what the log says.
    pub utc_offset_s: Option<i32>,
    /// Of a log of several machines, the one to read; case does not matter.
    pub host: Option<String>,
    /// Time between two reports that bear no time of their own.
    pub interval: Option<Duration>,
}

/// One log format.
pub struct Format {
    /// Short name, lower case with hyphens (`perfmon-text`); also the text of [`Note::SOURCE`].
    pub id: &'static str,
    /// What it is, for lists.
    pub title: &'static str,
    /// What is read of it, what is not, and how to record it.
    pub explain: &'static str,
    /// True when the beginning of a file is of this format. It looks at
    /// content; a name only where content cannot tell.
    pub recognise: fn(&Head<'_>) -> bool,
    /// Reads all of it. What was handed over before an error counts.
    pub read: fn(&mut Input, &Options, &mut Batch<'_>) -> Result<(), LogError>,
}

/// All formats, in the order in which they are tried.
pub const FORMATS: &[&Format] = &[
    &perfmon::FORMAT,
    &perfmon_blg::FORMAT,
    &prometheus::TEXT,
    &sysstat::SADF_JSON,
    &sysstat::SADF_XML,
    &sysstat::SADF_ROWS,
    &sysstat::IOSTAT_TEXT,
    &sysstat::VMSTAT,
    &sysstat::SAR_TEXT,
    &sysstat::IOSTAT_JSON,
    &sysstat::MPSTAT_JSON,
    &sysstat::SA_BINARY,
    &pcp::FORMAT,
];

/// Reads one log of any known format from beginning to end.
///
/// # Errors
/// When the file cannot be read, is of no known format, or is broken in a way
/// that leaves nothing to go on with; what came before has gone to the sink.
pub fn read(input: &mut Input, options: &Options, sink: &mut Sink<'_>) -> Result<Summary, LogError> {
    let format = recognise(input)?;
    let mut batch = Batch::new(format.id, sink);
    (format.read)(input, options, &mut batch)?;
    batch.finish(input.name())
}

/// The format of an input, from its beginning.
///
/// # Errors
/// When no format is like it.
pub fn recognise(input: &Input) -> Result<&'static Format, LogError> {
    let head = input.head();
    FORMATS.iter().find(|format| (format.recognise)(&head)).copied().ok_or_else(|| LogError::Unknown {
        file: input.name().to_owned(),
        known: FORMATS.iter().map(|f| f.id).collect::<Vec<_>>().join(", "),
    })
}
