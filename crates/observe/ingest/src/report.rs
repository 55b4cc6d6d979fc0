//! What is told while logs are opened and read. The caller decides whether it is printed, drawn or kept.

use std::fmt;
use std::sync::Arc;

/// Something that happens while logs are opened and read.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something about the logs that may make an answer wrong or incomplete.
    Warning(String),
    /// Useful information.
    Note(String),
    /// The reading of a log begins.
    ReadingStarted {
        /// Its name in messages.
        name: String,
        /// Its size, if it is known.
        total_bytes: Option<u64>,
    },
    /// So many bytes of the log were read.
    BytesRead(u64),
    /// The files of an archive are looked at.
    UnpackingStarted {
        /// Its name in messages.
        name: String,
    },
    /// Another file of the archive is looked at.
    FileUnpacked,
    /// What was started last has ended.
    Finished,
}

/// Receives events, in the order in which they happen; clones share the receiver.
#[derive(Clone)]
pub struct Reporter(Arc<dyn Fn(Event) + Send + Sync>);

impl Reporter {
    /// Returns a reporter that calls `receive` with every event.
    pub fn new(receive: impl Fn(Event) + Send + Sync + 'static) -> Reporter {
        Reporter(Arc::new(receive))
    }

    /// Returns a reporter that ignores everything.
    pub fn silent() -> Reporter {
        Reporter::new(drop)
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }

    pub(crate) fn warn(&self, text: impl fmt::Display) {
        self.tell(Event::Warning(text.to_string()));
    }

    pub(crate) fn note(&self, text: impl fmt::Display) {
        self.tell(Event::Note(text.to_string()));
    }

    /// Tells of something that takes a while; its end is told when the returned value goes.
    pub(crate) fn start(&self, event: Event) -> RunningTask<'_> {
        self.tell(event);
        RunningTask(self)
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

/// Something that takes a while.
pub(crate) struct RunningTask<'a>(&'a Reporter);

impl RunningTask<'_> {
    /// Tells how far it is.
    pub fn tell_progress(&self, event: Event) {
        self.0.tell(event);
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        self.0.tell(Event::Finished);
    }
}
