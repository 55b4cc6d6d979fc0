//! Work of the log's thread: writes what the sampler queued, reports changes of the log, and counts.

use std::sync::{Arc, Mutex, PoisonError};

use diskwright_base::Note;
use diskwright_datastore::{LogWriter, StoreError, TrimSummary, WriteOutcome};

use super::log_thread::LogQueueEntry;
use crate::commands::{ceilings, output};

/// Totals of the ticks that reached the log's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTotals {
    /// Ticks written.
    pub ticks: u64,
    /// Ticks lost while the disk accepted no more.
    pub lost_ticks: u64,
    /// Ticks that went with files or a folder that others removed or moved during recording.
    pub removed_ticks: u64,
    /// Ticks removed by `--keep`.
    pub trimmed: Option<TrimSummary>,
}

/// A log's writer in its thread; the totals are shared with the recorder.
pub struct LogKeeper {
    writer: LogWriter,
    totals: Arc<Mutex<LogTotals>>,
    is_paused: bool,
    /// Time of the last tick.
    last_ns: Option<i64>,
}

impl LogKeeper {
    /// Creates a writer for this log, and its totals.
    pub fn new(writer: LogWriter) -> (LogKeeper, Arc<Mutex<LogTotals>>) {
        let totals: Arc<Mutex<LogTotals>> = Arc::default();
        (LogKeeper { writer, totals: Arc::clone(&totals), is_paused: false, last_ns: None }, totals)
    }

    /// Writes one entry.
    pub fn write_entry(&mut self, entry: &LogQueueEntry) -> Result<(), StoreError> {
        match entry {
            LogQueueEntry::Note(note) => {
                self.writer.add_note(note)?;
                let ceilings = (note.kind == Note::TOPOLOGY).then(|| ceilings::ceilings_note(note)).flatten();
                ceilings.map(|note| self.writer.add_note(&note)).transpose()?;
            }
            LogQueueEntry::Tick { schema, tick, row } => {
                let paused = self.writer.push(schema, *tick, row)? == WriteOutcome::Paused;
                self.last_ns = Some(tick.time_ns);
                let removed = self.writer.removed_ticks();
                self.update_totals(|sum| {
                    if paused {
                        sum.lost_ticks += 1
                    } else {
                        sum.ticks += 1
                    }
                    sum.removed_ticks = removed;
                });
                if paused != self.is_paused {
                    let state = if paused {
                        "paused: the disk accepts no more data (is it full, or is a limit of this process reached?)"
                    } else {
                        "goes on"
                    };
                    output::print_warning(format_args!("recording {state}"));
                    self.is_paused = paused;
                }
            }
        }
        self.print_remarks();
        Ok(())
    }

    /// Ends the log cleanly.
    pub fn close_log(mut self) -> Result<(), StoreError> {
        // so that a replay does not show the time until the next recording as silence
        let note = self.last_ns.map(|last_ns| Note::new(last_ns, Note::END, "the recorder ended"));
        let noted = note.map_or(Ok(()), |note| self.writer.add_note(&note).map(|_| ()));
        let ended = noted.and(self.writer.finish());
        self.print_remarks();
        let (trimmed, removed) = (self.writer.trim_summary(), self.writer.removed_ticks());
        self.update_totals(|sum| {
            sum.trimmed = (trimmed.segments > 0).then_some(trimmed);
            sum.removed_ticks = removed;
        });
        ended
    }

    fn print_remarks(&mut self) {
        self.writer.take_remarks().into_iter().for_each(output::print_warning);
    }

    fn update_totals(&self, change: impl FnOnce(&mut LogTotals)) {
        change(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
