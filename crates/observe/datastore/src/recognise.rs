//! Decides whether a path is a log.

use std::path::Path;

use crate::damage::Loss;
use crate::error::StoreError;
use crate::format::{LEDGER, TAIL};
use crate::order;
use crate::segment::{GLANCE, Peek, RecordScanner};

/// Returns true if `path` is a log, or a file of one, by its content.
pub fn is_log(path: &Path) -> bool {
    require_log(path).is_ok()
}

/// Returns true for the name of a file in a log's folder.
pub fn is_file_of_log(name: &str) -> bool {
    name == TAIL || name == LEDGER || Path::new(name).extension().is_some_and(|ending| ending == "dwlog")
}

/// Largest distance into a file at which the first sound record is searched.
const SEARCH: u64 = 1 << 20;

/// Returns an error, with the place where it shows, if `path` is not a log.
pub(crate) fn require_log(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(path).map_err(|e| StoreError::io(path, e))?;
    if metadata.is_dir() {
        let named = !order::segments(path)?.is_empty() || path.join(TAIL).exists() || path.join(LEDGER).exists();
        return named.then_some(()).ok_or_else(|| StoreError::NotALog {
            path: path.to_owned(),
            offset: 0,
            expected: "segment files (00000001.dwlog)",
            found: "none".into(),
        });
    }
    let mut scanner = RecordScanner::open_named(path, GLANCE)?;
    if scanner.head()?.is_some() {
        return Ok(());
    }
    scanner.limit(SEARCH);
    let found = match scanner.length() {
        0 => "an empty file".to_owned(),
        length if length < crate::format::HEAD_SPAN => format!("a file of {length} bytes"),
        _ => "other bytes".to_owned(),
    };
    // The head may be damaged and the rest sound.
    loop {
        match scanner.peek()? {
            Peek::Record(header) if scanner.take(&header)?.is_some() => return Ok(()),
            Peek::Record(_) | Peek::Lost { loss: Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => {
                let expected = "a head record (D1 5C 3A 7E … diskwright log)";
                return Err(StoreError::NotALog { path: path.to_owned(), offset: 0, expected, found });
            }
        }
    }
}
