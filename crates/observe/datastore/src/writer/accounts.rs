//! What a writer counted, and what it has to say.

use super::LogWriter;
use crate::ledger::TrimSummary;
use crate::retention;

impl LogWriter {
    /// Segments that this writer has removed to stay within the retention limits.
    pub fn trim_summary(&self) -> TrimSummary {
        retention::trim_difference(&self.trimmed_before, &self.ledger.trimmed)
    }

    /// Ticks that went with files of the log, or with its folder, that others removed or moved during recording.
    pub fn removed_ticks(&self) -> u64 {
        self.removed_ticks
    }

    /// Number of ticks of the log, including those not in a segment yet.
    pub fn tick_count(&self) -> u64 {
        self.next_numbers.tick
    }

    /// Number of ticks of the log that were on the device at the last sync.
    pub fn durable_ticks(&self) -> u64 {
        self.ledger.durable_ticks
    }

    /// Returns the messages for the user since the last call, for example that the
    /// log's folder was removed, or that a sync failed.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }
}
