//! The log: stores frames and notes on disk and reads them back. It knows no counter by name.
//!
//! Reading order: `format` (the files on disk and which failures they survive),
//! `codec` (how a block's numbers become small), [`LogWriter`], [`LogReader`].

mod block_decoder;
mod bookmarks;
mod codec;
mod compression;
mod damage;
mod error;
mod format;
mod ledger;
mod log_detection;
mod log_device;
mod loss_account;
mod note_flow;
mod notes;
mod reader;
mod record_file;
mod record_scanner;
mod recorded_logs;
mod recorder_lock;
mod recorder_state;
mod recovery;
mod retention;
mod schema;
mod segment_list;
mod stream;
mod tail;
mod union;
mod varint;
mod writer;

pub use bookmarks::add_bookmark;
pub use damage::{Damage, Loss};
pub use error::StoreError;
pub use format::describe_format;
pub use ledger::TrimSummary;
pub use log_detection::{is_log, is_log_file_name};
pub use log_device::find_log_device;
pub use reader::{LogEnd, LogItem, LogPosition, LogReader};
pub use recorded_logs::{RecordedLog, find_recorded_logs};
pub use recorder_state::{RecorderState, read_recorder_state};
pub use stream::{StreamItem, StreamReader, StreamWriter};
pub use writer::{LogWriter, WriteOutcome, WriterOptions};

/// Syncs all files of the log in `dir` to the device. Used after an import.
///
/// # Errors
/// When a file cannot be opened, or the device fails.
pub fn sync_log(dir: &std::path::Path) -> Result<(), StoreError> {
    let to_store_error = |e| StoreError::from_io(dir, e);
    for segment in segment_list::list_segments(dir)? {
        std::fs::File::open(segment.path(dir)).and_then(|file| file.sync_data()).map_err(to_store_error)?;
    }
    std::fs::File::open(dir).and_then(|folder| folder.sync_all()).map_err(to_store_error)
}
