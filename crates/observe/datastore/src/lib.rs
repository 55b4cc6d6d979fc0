//! The log: stores frames and notes on disk and reads them back. It knows no counter by name.
//!
//! Reading order: `format` (the files on disk and which failures they survive),
//! `codec` (how a block's numbers become small), [`LogWriter`], [`LogReader`].

mod account;
mod bits;
mod blocks;
mod codec;
mod damage;
mod error;
mod flow;
mod format;
mod ledger;
mod lock;
mod marks;
mod notes;
mod order;
mod output;
mod pack;
mod place;
mod reader;
mod recognise;
mod recorder;
mod recover;
mod retention;
mod schema;
mod segment;
mod tail;
mod union;
mod writer;

pub use damage::{Damage, Loss};
pub use error::StoreError;
pub use format::explain;
pub use ledger::TrimSummary;
pub use marks::mark;
pub use place::lies_on;
pub use reader::{LogEnd, LogItem, LogPosition, LogReader};
pub use recognise::{is_file_of_log, is_log};
pub use recorder::{RecorderState, recorder};
pub use writer::{LogWriter, WriteOutcome, WriterOptions};

/// Syncs all files of the log in `dir` to the device. Used after an import.
///
/// # Errors
/// When a file cannot be opened, or the device fails.
pub fn sync(dir: &std::path::Path) -> Result<(), StoreError> {
    let wrap = |e| StoreError::io(dir, e);
    for segment in order::segments(dir)? {
        std::fs::File::open(segment.path(dir)).and_then(|file| file.sync_data()).map_err(wrap)?;
    }
    std::fs::File::open(dir).and_then(|folder| folder.sync_all()).map_err(wrap)
}
