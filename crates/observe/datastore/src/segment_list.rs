//! The segments of a log in the order in which they were written: by the
//! number in their head, because a file can be renamed.

use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::format::parse_segment_number;
use crate::record_scanner::{HEADER_READ_BYTES, RecordScanner};

/// A segment's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentFile {
    /// Its number: from its head, or from its name if the head is damaged.
    pub number: u32,
    /// The file's name.
    pub name: String,
}

impl SegmentFile {
    /// Path of the file in the log's directory.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.name)
    }
}

/// Lists the segments in `dir`, oldest first.
pub(crate) fn list_segments(dir: &Path) -> Result<Vec<SegmentFile>, StoreError> {
    let mut found = Vec::new();
    add_new_segments(dir, &mut found)?;
    Ok(found)
}

/// Adds the segments that are new. Deleted segments stay in the list; opening
/// them fails later.
pub(crate) fn add_new_segments(dir: &Path, known: &mut Vec<SegmentFile>) -> Result<(), StoreError> {
    let to_store_error = |e| StoreError::from_io(dir, e);
    let known_names: std::collections::HashSet<String> = known.iter().map(|segment| segment.name.clone()).collect();
    for entry in std::fs::read_dir(dir).map_err(to_store_error)? {
        let name = entry.map_err(to_store_error)?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(by_name) = parse_segment_number(name).filter(|_| !known_names.contains(name)) else { continue };
        let by_head =
            RecordScanner::open(&dir.join(name), HEADER_READ_BYTES).and_then(|mut scanner| scanner.read_head());
        let number = by_head.ok().flatten().map_or(by_name, |head| head.segment);
        known.push(SegmentFile { number, name: name.to_owned() });
    }
    known.sort_unstable();
    Ok(())
}

/// Returns a number that no file name and no head uses, for the next segment.
pub(crate) fn next_free_number(segments: &[SegmentFile]) -> u32 {
    let by_name = |segment: &SegmentFile| parse_segment_number(&segment.name).unwrap_or(0);
    let largest = segments.iter().map(|segment| segment.number.max(by_name(segment))).max();
    largest.map_or(1, |largest| largest.saturating_add(1))
}
