//! Limits on input: a packed file that unpacks without end, a hole of a terabyte, a copy that fills the folder for
//! temporary files.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diskwright_base::byte_size::{ByteSize, parse_capacity};
use diskwright_hostfiles::disk_space::DiskSpace;
use diskwright_hostfiles::holes;

/// Bytes that a packed file may unpack to, whatever its size.
const MIN_UNPACK_LIMIT_BYTES: u64 = 256 << 20;
/// Largest ratio of unpacked to packed bytes beyond that: idle logs pack to a hundredth, zeros to a thousandth.
const MAX_UNPACK_RATIO: u64 = 500;
/// Smallest hole that counts as damage; a sound log has none of this size.
const MIN_HOLE_BYTES: u64 = 16 << 20;
/// Environment variable that sets the largest copy of an unpacked log.
const SPOOL_LIMIT_VARIABLE: &str = "DISKWRIGHT_SPOOL_LIMIT";
/// Largest copy if the environment variable is not set.
const DEFAULT_SPOOL_LIMIT_BYTES: u64 = 4 << 30;

fn format_bytes(count: u64) -> String {
    ByteSize::capacity(count as f64).to_string()
}

fn invalid_data(because: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, because)
}

/// A packed stream that fails once it unpacks to more than any log does.
pub(crate) struct BoundedUnpacker<R> {
    pub inner: R,
    /// Bytes of the packed file that were read.
    pub packed_bytes: Arc<AtomicU64>,
    /// Bytes that were unpacked.
    pub unpacked_bytes: u64,
}

impl<R: Read> Read for BoundedUnpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let packed = self.packed_bytes.load(Ordering::Relaxed);
        if self.unpacked_bytes > MIN_UNPACK_LIMIT_BYTES.max(packed.saturating_mul(MAX_UNPACK_RATIO)) {
            let (from, to) = (format_bytes(packed), format_bytes(self.unpacked_bytes));
            return Err(invalid_data(format!(
                "{from} unpack to more than {to}, which no log does; unpack it by hand to read it"
            )));
        }
        let read = self.inner.read(buffer)?;
        self.unpacked_bytes += read as u64;
        Ok(read)
    }
}

/// Returns the file as a stream up to its first large hole, where reading ends with an error.
pub(crate) fn without_holes(file: File) -> Box<dyn Read> {
    match find_hole(&file) {
        None => Box::new(file),
        Some((start, because)) => Box::new(file.take(start).chain(FileHole(because))),
    }
}

/// Finds the first large hole: its first byte, and the reason to report.
pub(crate) fn find_hole(file: &File) -> Option<(u64, String)> {
    let hole = holes::find_first_hole(file, MIN_HOLE_BYTES)?;
    let (from, size) = (hole.start, format_bytes(hole.end - hole.start));
    Some((from, format!("from byte {from} on, {size} were never written (a hole); the file is damaged")))
}

struct FileHole(String);

impl Read for FileHole {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(invalid_data(self.0.clone()))
    }
}

/// Returns the largest copy of unpacked logs, bytes: `DISKWRIGHT_SPOOL_LIMIT`, or 4 GiB.
///
/// # Errors
/// When the variable holds no size.
pub fn spool_limit() -> io::Result<u64> {
    match std::env::var(SPOOL_LIMIT_VARIABLE) {
        Ok(text) => parse_capacity(&text).map_err(|e| invalid_data(format!("{SPOOL_LIMIT_VARIABLE}: {e}"))),
        Err(_) => Ok(DEFAULT_SPOOL_LIMIT_BYTES),
    }
}

/// Copies a stream into a temporary file without a name, which is removed whatever happens.
pub(crate) fn copy_to_temp_file(from: &mut dyn Read) -> io::Result<File> {
    copy_to_temp_file_within(from, spool_limit()?, |copy: &File| DiskSpace::for_file(copy))
}

fn copy_to_temp_file_within(
    from: &mut dyn Read,
    limit: u64,
    free_space: impl Fn(&File) -> io::Result<DiskSpace>,
) -> io::Result<File> {
    /// Bytes copied between two checks of the free space.
    const CHECK_STEP_BYTES: u64 = 16 << 20;
    /// A file up to this size is copied even if the filesystem is full.
    const SMALL_FILE_BYTES: u64 = 1 << 20;
    let mut copy = tempfile::tempfile()?;
    let (mut copied_bytes, mut step_bytes) = (0, SMALL_FILE_BYTES);
    loop {
        let max_bytes = step_bytes.min(limit - copied_bytes + 1);
        let read_bytes = io::copy(&mut from.take(max_bytes), &mut copy)?;
        copied_bytes += read_bytes;
        if copied_bytes > limit {
            let limit_text = format_bytes(limit);
            return Err(invalid_data(format!(
                "it unpacks to more than {limit_text}; {SPOOL_LIMIT_VARIABLE}=SIZE allows more"
            )));
        }
        if read_bytes < max_bytes {
            copy.flush()?;
            copy.rewind()?;
            return Ok(copy);
        }
        let free_space = free_space(&copy)?;
        if free_space.is_reserve_used() {
            return Err(disk_full_error(&free_space, copied_bytes));
        }
        step_bytes =
            CHECK_STEP_BYTES.min((free_space.free_bytes - free_space.reserve_bytes).max(SMALL_FILE_BYTES / 16));
    }
}

/// Builds the error for a folder of temporary files whose reserve is used up.
fn disk_full_error(disk_space: &DiskSpace, copied_bytes: u64) -> io::Error {
    let (folder, free, reserve) =
        (std::env::temp_dir(), format_bytes(disk_space.free_bytes), format_bytes(disk_space.reserve_bytes));
    let because = format!(
        "its unpacked copy ({} so far) leaves {free} in {}; {reserve} must stay free: set TMPDIR to another folder",
        format_bytes(copied_bytes),
        folder.display()
    );
    io::Error::new(io::ErrorKind::StorageFull, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_limit_and_leaves_a_reserve() {
        let plenty = |_: &File| Ok(DiskSpace { free_bytes: 2, reserve_bytes: 1 });
        let none = |_: &File| Ok(DiskSpace { free_bytes: 1, reserve_bytes: 2 });
        let zeros = |count| io::repeat(0).take(count);
        assert_eq!(copy_to_temp_file_within(&mut zeros(100), 100, plenty).unwrap().metadata().unwrap().len(), 100);
        let error = copy_to_temp_file_within(&mut zeros(u64::MAX), 100, plenty).unwrap_err().to_string();
        assert!(error.contains("more than 100") && error.contains(SPOOL_LIMIT_VARIABLE), "{error}");
        assert_eq!(copy_to_temp_file_within(&mut zeros(100), 1000, none).unwrap().metadata().unwrap().len(), 100);
        let large = || zeros(64 << 20);
        let error = copy_to_temp_file_within(&mut large(), 1 << 30, none).unwrap_err().to_string();
        assert!(error.contains("TMPDIR"), "{error}");
        // a filesystem of 32 MiB: no step takes of the reserve
        let small =
            |copy: &File| Ok(DiskSpace { free_bytes: (32 << 20) - copy.metadata()?.len(), reserve_bytes: 3 << 20 });
        let smallest = std::cell::Cell::new(u64::MAX);
        let watched = |copy: &File| small(copy).inspect(|room| smallest.set(smallest.get().min(room.free_bytes)));
        let error = copy_to_temp_file_within(&mut large(), 1 << 30, watched).unwrap_err().to_string();
        assert!(error.contains("TMPDIR") && smallest.get() >= 2 << 20, "{} {error}", smallest.get());
    }

    #[test]
    fn a_stream_that_unpacks_without_end_is_cut() {
        let unpacked =
            |inner, taken| BoundedUnpacker { inner, packed_bytes: Arc::new(AtomicU64::new(taken)), unpacked_bytes: 0 };
        let max_bytes = MIN_UNPACK_LIMIT_BYTES + (1 << 20);
        let error = io::copy(&mut unpacked(io::repeat(0).take(2 * max_bytes), 1000), &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("unpack to more than"), "{error}");
        assert_eq!(
            io::copy(&mut unpacked(io::repeat(0).take(2 * max_bytes), max_bytes), &mut io::sink()).unwrap(),
            2 * max_bytes
        );
    }

    #[test]
    fn reads_up_to_a_hole_which_ends_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"some, text\n").unwrap();
        file.set_len(1 << 40).unwrap();
        file.rewind().unwrap();
        if find_hole(&file).is_none() {
            return;
        }
        let mut read = Vec::new();
        let error = without_holes(file).read_to_end(&mut read).unwrap_err();
        assert!(read.starts_with(b"some, text\n") && read.len() < 1 << 20);
        assert!(error.to_string().contains("never written"), "{error}");
    }
}
