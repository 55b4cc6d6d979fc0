//! The places of a file on its disk: its extents, as the filesystem maps them (FIEMAP).

#![allow(unsafe_code, reason = "a file's extents are read by an ioctl that no crate has as a safe call")]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Updater, ioctl, opcode};

/// A part of a file that is in one piece on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file, bytes.
    pub logical: u64,
    /// Offset on the device of the filesystem, bytes.
    pub physical: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Its offset on the device is known, final and not shared with another file.
    pub is_placed: bool,
    /// It is the file's last.
    pub is_last: bool,
}

/// How fragmented a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileScatter {
    /// Number of pieces that are not adjacent on the disk.
    pub pieces: u64,
    /// Bytes in all pieces.
    pub bytes: u64,
    /// False if the file has more extents than were read.
    pub is_complete: bool,
}

/// `struct fiemap` of linux/fiemap.h without its extents.
#[repr(C)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_more: [u32; 3],
}

/// Maximum number of extents that one call reads.
pub const MAX_EXTENTS: usize = 256;

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; MAX_EXTENTS],
}

/// `FS_IOC_FIEMAP` of linux/fs.h.
const FS_IOC_FIEMAP: u32 = opcode::read_write::<FiemapHead>(b'f', 11);
/// `FIEMAP_EXTENT_LAST`.
const LAST_EXTENT: u32 = 0x1;
/// Flags of extents whose offset on the disk is unknown, not final, or shared by several files:
/// `FIEMAP_EXTENT_UNKNOWN`, `_DELALLOC`, `_NOT_ALIGNED`, `_DATA_INLINE`, `_DATA_TAIL`, `_SHARED`.
const UNPLACED_FLAGS: u32 = 0x2 | 0x4 | 0x100 | 0x200 | 0x400 | 0x2000;

/// Reads the extents of a file from an offset on, at most [`MAX_EXTENTS`]. It does not flush the file: data that are
/// only in memory so far have no place yet.
///
/// # Errors
/// When the filesystem does not support it.
pub fn read_extents(file: impl AsFd, start: u64) -> io::Result<Vec<FileExtent>> {
    let length = u64::MAX - start;
    let head = FiemapHead { start, length, flags: 0, mapped: 0, count: MAX_EXTENTS as u32, reserved: 0 };
    let mut map = Fiemap { head, extents: [FiemapExtent::default(); MAX_EXTENTS] };
    // SAFETY: FS_IOC_FIEMAP reads the head and writes at most `count` extents behind it; `Fiemap` has as many. All
    // fields are plain integers.
    unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut map)) }?;
    let extents = &map.extents[..(map.head.mapped as usize).min(MAX_EXTENTS)];
    let read = |extent: &FiemapExtent| FileExtent {
        logical: extent.logical,
        physical: extent.physical,
        bytes: extent.length,
        is_placed: extent.flags & UNPLACED_FLAGS == 0,
        is_last: extent.flags & LAST_EXTENT != 0,
    };
    Ok(extents.iter().map(read).collect())
}

/// Counts the pieces of a file in its first extents, at most `max_extents`, rounded up to whole calls. Extents that are
/// adjacent on the disk are one piece, because filesystems limit the length of an extent (ext4: 128 MiB).
///
/// # Errors
/// When the filesystem does not support it.
pub fn count_pieces(file: impl AsFd, max_extents: usize) -> io::Result<FileScatter> {
    let mut scatter = FileScatter { is_complete: true, ..FileScatter::default() };
    let (mut start, mut seen, mut end_of_last) = (0, 0, None);
    loop {
        let extents = read_extents(&file, start)?;
        for extent in extents.iter().filter(|extent| extent.is_placed) {
            scatter.pieces += u64::from(end_of_last != Some(extent.physical));
            scatter.bytes += extent.bytes;
            end_of_last = Some(extent.physical.saturating_add(extent.bytes));
        }
        seen += extents.len();
        let Some(last) = extents.last().filter(|last| !last.is_last) else { return Ok(scatter) };
        start = last.logical.saturating_add(last.bytes);
        if seen >= max_extents {
            return Ok(FileScatter { is_complete: false, ..scatter });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    /// Holes between written blocks are not pieces, and a file in /proc has no extents.
    #[test]
    fn pieces_are_counted_or_refused() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = File::create_new(folder.path().join("a")).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        match count_pieces(&file, 1024) {
            Ok(scatter) => {
                assert_eq!((scatter.bytes, scatter.is_complete), (1 << 20, true));
                assert!((1..=256).contains(&scatter.pieces), "{scatter:?}");
                let extents = read_extents(&file, 0).unwrap();
                assert!(extents.last().unwrap().is_last);
            }
            Err(error) => eprintln!("skipped: the filesystem of the tests has no FIEMAP: {error}"),
        }
        assert!(count_pieces(File::open("/proc/self/stat").unwrap(), 1024).is_err());
    }
}
