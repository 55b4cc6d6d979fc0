//! The door: opens whatever a command line names, and reads it. A command asks this crate only, and never which kind of
//! thing it was given: a Diskwright log, a log of another tool, text as people paste it, standard input, a folder or
//! archive of them, one machine of a metric store, a request trace.
//!
//! An [`Input`] is what was named. It opens as [`Logs`]: one timeline of frames and notes over a window, which can be
//! read repeatedly; or as a stream, or as the requests of a trace.
//!
//! The crate prints nothing and knows no command line: what a user should know is told as an [`Event`] through a
//! [`Reporter`], and what went wrong is an [`IngestError`].
//!
//! Order in which to read the files, each using only those before it:
//!
//! - `error`, `report`: what comes back besides samples.
//! - `temporary`, `losses`, `machine`, `process_series`, `reading_options`: parts that know no file of a log.
//! - `given_log`: one log, and how its content is opened. `bundle`: the logs in a folder or archive. `pasted_text`: the
//!   sections of a text. `found_logs`: paths become logs.
//! - `memory_log`, `log_writer`, `stored_log`, `piece_store`: where the content of a log is kept, and how it is read.
//! - `request_traces`, `file_fingerprint`, `import`: one log of another tool is read, and kept or written as one of
//!   ours. `skip_report`: what is told about it.
//! - `streamed_log`: a log is handed on while it is read, with its window known beforehand.
//! - `merge`: several logs on one timeline. `read_each`: each of several is read, with what the others know.
//! - `log_source`, `logs`: opened logs. `store`: those of a metric store. `input`: all of it.

mod bundle;
mod error;
mod file_fingerprint;
mod found_logs;
mod given_log;
mod import;
mod input;
mod log_source;
mod log_writer;
mod logs;
mod losses;
mod machine;
mod memory_log;
pub mod merge;
mod pasted_text;
mod piece_store;
mod process_series;
mod read_each;
mod reading_options;
mod report;
mod request_traces;
mod skip_report;
mod store;
mod stored_log;
mod streamed_log;
mod temporary;
mod text_groups;
mod volumes;

pub use error::IngestError;
pub use file_fingerprint::{FileFingerprint, refuse_repeated_import};
pub use given_log::GivenLog;
pub use import::{ImportOptions, ImportTarget, import_log, keep_log};
pub use input::Input;
pub use log_writer::open_writer;
pub use logs::{Logs, OpenedLogs};
pub use losses::Losses;
pub use machine::{MachineDescription, MachineFacts};
pub use memory_log::MemoryBudget;
pub use piece_store::KeptLog;
pub use read_each::{UnreadableLogs, read_each_log};
pub use reading_options::ReadingOptions;
pub use report::{Event, Reporter};
pub use skip_report::{SkipReport, report_skipped};
pub use store::report_store_warnings;
pub use stored_log::StoredLog;
pub use streamed_log::StreamedLog;
pub use text_groups::TextGroup;
pub use volumes::{CloudFacts, DeclaredVolume, VOLUME_OPTION, set_live_volumes};
