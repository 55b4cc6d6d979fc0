//! A log that is written from what a host sends.

use std::path::Path;

use diskwright_advise::HostTree;
use diskwright_base::Note;
use diskwright_datastore::{LogWriter, StoreError, StreamItem, WriteOutcome, WriterOptions};
use diskwright_sshhosts::HostStream;

/// A log of another host.
pub struct ReceivedLog {
    writer: LogWriter,
    /// Ticks that its disk did not accept.
    pub lost_ticks: u64,
    /// Time of the last tick, nanoseconds since 1970 by the host's clock.
    pub last_ns: Option<i64>,
    has_settings: bool,
}

impl ReceivedLog {
    /// Opens the log in `dir`, and creates it if needed.
    ///
    /// # Errors
    /// As [`LogWriter::create_or_append`].
    pub fn open(dir: &Path, options: WriterOptions) -> Result<ReceivedLog, StoreError> {
        let writer = LogWriter::create_or_append(dir, options)?;
        Ok(ReceivedLog { writer, lost_ticks: 0, last_ns: None, has_settings: false })
    }

    /// Writes a tick or note of a stream.
    ///
    /// # Errors
    /// As [`LogWriter::push`].
    pub fn write_item(&mut self, item: &StreamItem, stream: &HostStream) -> Result<(), StoreError> {
        match item {
            StreamItem::Note(note) if is_plausible(note.time_ns) => self.writer.add_note(note).map(drop),
            StreamItem::Note(_) => Ok(()),
            StreamItem::Tick { tick, .. } if !is_plausible(tick.time_ns) => Ok(()),
            StreamItem::Tick { schema, tick, row } => {
                let outcome = self.writer.push(schema, *tick, row)?;
                self.lost_ticks += u64::from(outcome == WriteOutcome::Paused);
                self.last_ns = Some(tick.time_ns);
                self.note_settings(tick.time_ns, stream)
            }
        }
    }

    /// Notes the settings of a host whose files a shell loop sent, as our program does there.
    fn note_settings(&mut self, time_ns: i64, stream: &HostStream) -> Result<(), StoreError> {
        let Some(root) = stream.file_root().filter(|_| !self.has_settings) else { return Ok(()) };
        self.has_settings = true;
        match serde_json::to_string(&HostTree::read(root).for_log()) {
            Ok(text) => self.writer.add_note(&Note::new(time_ns, Note::HOST, text)).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Notes at the last tick that the connection ended early.
    ///
    /// # Errors
    /// As [`LogWriter::add_note`].
    pub fn note_break(&mut self, because: &str) -> Result<(), StoreError> {
        let Some(time_ns) = self.last_ns else { return Ok(()) };
        self.writer.add_note(&Note::new(time_ns, Note::GAP, format!("the connection ended: {because}"))).map(drop)
    }

    /// Ends the log.
    ///
    /// # Errors
    /// As [`LogWriter::finish`].
    pub fn finish(mut self) -> Result<(), StoreError> {
        if let Some(last_ns) = self.last_ns {
            self.writer.add_note(&Note::new(last_ns, Note::END, "the recorder ended"))?;
        }
        self.writer.finish()
    }
}

/// Times that a host may name, nanoseconds: those of the years 1970 to 2100.
fn is_plausible(time_ns: i64) -> bool {
    (0..4_102_444_800_000_000_000).contains(&time_ns)
}
