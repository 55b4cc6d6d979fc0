//! Writing of Diskwright logs from what readers deliver.

use std::path::Path;

use diskwright_base::Note;
use diskwright_datastore::{LogWriter, WriterOptions};

use crate::IngestError;

/// Opens a writer for a log that is created or appended to.
///
/// # Errors
/// When it cannot be written.
pub fn open_writer(to: &Path) -> Result<LogWriter, IngestError> {
    Ok(LogWriter::create_or_append(to, import_options())?)
}

/// Options of a log that is made from other logs, in a folder or in memory: a window keeps each note on an import.
pub(crate) fn import_options() -> WriterOptions {
    let mut options = WriterOptions::for_bulk_import();
    options.keep_each.push(Note::IMPORT.into());
    options
}
