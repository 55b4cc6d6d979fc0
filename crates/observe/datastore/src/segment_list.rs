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

/// Adds the segments that are new and forgets none: opening one that was
/// deleted fails later.
pub(crate) fn add_new_segments(dir: &Path, known: &mut Vec<SegmentFile>) -> Result<(), StoreError> {
    let wrap = |e| StoreError::from_io(dir, e);
    let old: std::collections::HashSet<String> = known.iter().map(|place| place.name.clone()).collect();
    for entry in std::fs::read_dir(dir).map_err(wrap)? {
        let name = entry.map_err(wrap)?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(by_name) = parse_segment_number(name).filter(|_| !old.contains(name)) else { continue };
        let by_head =
            RecordScanner::open(&dir.join(name), HEADER_READ_BYTES).and_then(|mut scanner| scanner.read_head());
        let number = by_head.ok().flatten().map_or(by_name, |head| head.segment);
        known.push(SegmentFile { number, name: name.to_owned() });
    }
    known.sort_unstable();
    Ok(())
}

/// Returns a number that no file name and no head uses, for the next segment.
pub(crate) fn next_free_number(places: &[SegmentFile]) -> u32 {
    let by_name = |place: &SegmentFile| parse_segment_number(&place.name).unwrap_or(0);
    let largest = places.iter().map(|place| place.number.max(by_name(place))).max();
    largest.map_or(1, |largest| largest.saturating_add(1))
}
