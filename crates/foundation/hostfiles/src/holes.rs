//! Holes: ranges of a file that were never written. A file of a terabyte can occupy no
//! space at all, and reading its zeros takes hours.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;

use rustix::fs::{SeekFrom as To, seek};
use rustix::io::Errno;

/// Finds the first hole of at least `min_bytes`. `None` if there is none, and if the
/// filesystem does not report holes. The file's position stays.
#[must_use]
pub fn find_first_hole(mut file: &File, min_bytes: u64) -> Option<Range<u64>> {
    let position = file.stream_position().ok()?;
    let found = scan_for_hole(file, min_bytes);
    file.seek(SeekFrom::Start(position)).ok()?;
    found
}

/// Offset of the next data from `offset` on: `offset` itself outside holes, the file's end if
/// no data follow. The file's position moves.
#[must_use]
pub fn next_data_offset(file: &File, offset: u64) -> u64 {
    match seek(file, To::Data(offset)) {
        Ok(data) => data,
        Err(Errno::NXIO) => file.metadata().map_or(offset, |found| found.len().max(offset)),
        Err(_) => offset,
    }
}

/// Scans for a hole of at least `min_bytes`; the file's position moves.
fn scan_for_hole(file: &File, min_bytes: u64) -> Option<Range<u64>> {
    let length = file.metadata().ok().filter(|found| found.is_file())?.len();
    let mut position = 0;
    while position < length {
        let start = seek(file, To::Hole(position)).ok()?.min(length);
        // the error ENXIO means that no data follow: the hole reaches to the end
        let end = seek(file, To::Data(start)).unwrap_or(length);
        if end.saturating_sub(start) >= min_bytes {
            return Some(start..end);
        }
        if end <= position {
            return None;
        }
        position = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    #[test]
    fn large_holes_are_found_and_small_ones_skipped() {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        assert_eq!(find_first_hole(&file, MIB), None);
        file.write_all_at(&[1; 8192], 0).unwrap();
        assert_eq!(find_first_hole(&file, MIB), None);
        file.write_all_at(&[1; 8192], MIB).unwrap();
        file.set_len(1 << 40).unwrap();
        let Some(hole) = find_first_hole(&file, 64 * MIB) else {
            return eprintln!("skipped: this filesystem shows no holes");
        };
        assert!(hole.start >= MIB && hole.start < 2 * MIB && hole.end == 1 << 40, "{hole:?}");
        assert!(find_first_hole(&file, 64 << 10).is_some_and(|small| small.end <= MIB));
        assert_eq!((next_data_offset(&file, 100), next_data_offset(&file, 2 * MIB)), (100, 1 << 40));
        let mut beginning = [0; 4];
        (&file).read_exact(&mut beginning).unwrap();
        assert_eq!(beginning, [1; 4]);
    }
}
