//! Decides whether a path is a log.

use std::path::Path;

use crate::damage::Loss;
use crate::error::StoreError;
use crate::format::{LEDGER_FILE, TAIL_FILE};
use crate::record_scanner::{HEADER_READ_BYTES, Peek, RecordScanner};
use crate::segment_list;

/// Returns true if `path` is a log, or a file of one, by its content.
pub fn is_log(path: &Path) -> bool {
    require_log(path).is_ok()
}

/// Returns true for the name of a file in a log's folder.
pub fn is_log_file_name(name: &str) -> bool {
    name == TAIL_FILE || name == LEDGER_FILE || Path::new(name).extension().is_some_and(|ending| ending == "dwlog")
}

/// Number of bytes at the start of a file in which the first sound record is searched.
const MAX_SEARCH_BYTES: u64 = 1 << 20;

/// Returns an error, with the offset of the first wrong byte, if `path` is not a log.
pub(crate) fn require_log(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(path).map_err(|e| StoreError::from_io(path, e))?;
    if metadata.is_dir() {
        let has_log_files = !segment_list::list_segments(path)?.is_empty()
            || path.join(TAIL_FILE).exists()
            || path.join(LEDGER_FILE).exists();
        return has_log_files.then_some(()).ok_or_else(|| StoreError::NotALog {
            path: path.to_owned(),
            offset: 0,
            expected: "segment files (00000001.dwlog)",
            found: "none".into(),
        });
    }
    // To open a pipe takes it from its writer, who fails once it is closed again.
    if !metadata.is_file() {
        return Err(StoreError::NotALog {
            path: path.to_owned(),
            offset: 0,
            expected: "a regular file",
            found: "a pipe, a socket or a device".into(),
        });
    }
    let mut scanner = RecordScanner::open_named(path, HEADER_READ_BYTES)?;
    if scanner.read_head()?.is_some() {
        return Ok(());
    }
    scanner.limit_length(MAX_SEARCH_BYTES);
    let found = match scanner.length() {
        0 => "an empty file".to_owned(),
        length if length < crate::format::HEAD_RECORD_BYTES => format!("a file of {length} bytes"),
        _ => "other bytes".to_owned(),
    };
    // The head may be damaged and the following records sound.
    loop {
        match scanner.peek_record()? {
            Peek::Record(header) if scanner.read_payload(&header)?.is_some() => return Ok(()),
            Peek::Record(_) | Peek::Lost { loss: Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => {
                let expected = "a head record (D1 5C 3A 7E … diskwright log)";
                return Err(StoreError::NotALog { path: path.to_owned(), offset: 0, expected, found });
            }
        }
    }
}
