//! Source of the rows to sort: a file that is made in a folder, or an existing file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::row_io::{AlignedBuffer, RowFile};
use super::rows::{RowShape, RowSum};
use super::{Progress, SortOptions, run_on_threads};
use crate::clock::StepTime;
use crate::files::{WorkFile, sync_and_drop_cache};
use crate::{WorkError, io_error};

/// Number of bytes that are made or read at a time.
const PART_BYTES: usize = 1 << 20;

/// File of the rows to sort.
#[derive(Debug)]
enum SourceFile {
    /// Made for the sort.
    Made(WorkFile),
    /// A file of the user.
    Existing(File),
}

/// Rows to sort.
#[derive(Debug)]
pub struct SortSource {
    file: SourceFile,
    path: PathBuf,
    row_sum: RowSum,
}

impl SortSource {
    /// Makes the rows in a folder, or opens an existing file of rows, and computes their checksum. Afterwards the rows
    /// are on their device and, as far as the kernel allows, not in the file cache.
    ///
    /// # Errors
    /// When the file cannot be made or read, or the sort is stopped.
    pub fn create_or_open(options: &SortOptions, progress: &Progress) -> Result<SortSource, WorkError> {
        let path = options.source.clone();
        let source = if path.is_dir() {
            let work = WorkFile::create(&path)?;
            let row_sum = write_rows(options, &work, progress)?;
            SortSource { file: SourceFile::Made(work), path, row_sum }
        } else {
            let rows = SortSource::count_rows(&path, options.shape)?;
            let file = File::open(&path).map_err(io_error(&path, "cannot be opened"))?;
            let row_file = RowFile { cached: &file, direct: None, path: &path };
            let row_sum = sum_rows(row_file, options.shape, rows, progress)?;
            SortSource { file: SourceFile::Existing(file), path, row_sum }
        };
        source.sync_and_drop_cache()?;
        Ok(source)
    }

    /// Writes the rows to their device and drops them from the file cache, so that a sort reads them from the device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_and_drop_cache(&self) -> Result<(), WorkError> {
        sync_and_drop_cache(self.file(), &self.path)
    }

    /// The file of rows.
    #[must_use]
    pub fn file(&self) -> &File {
        match &self.file {
            SourceFile::Made(work) => work.file(),
            SourceFile::Existing(file) => file,
        }
    }

    /// Path for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.row_sum.rows
    }

    /// Checksum of the rows.
    #[must_use]
    pub fn row_sum(&self) -> RowSum {
        self.row_sum
    }

    /// Returns the number of rows of an existing file.
    ///
    /// # Errors
    /// When it does not hold whole rows.
    pub fn count_rows(path: &Path, shape: RowShape) -> Result<u64, WorkError> {
        let metadata = std::fs::metadata(path).map_err(io_error(path, "cannot be examined"))?;
        if !metadata.is_file() {
            return Err(WorkError::Usage(format!("{}: neither a folder nor a file of rows", path.display())));
        }
        let (bytes, row_bytes) = (metadata.len(), shape.row_bytes as u64);
        if bytes == 0 || !bytes.is_multiple_of(row_bytes) {
            return Err(WorkError::Usage(format!(
                "{}: {bytes} bytes are not a whole number of rows of {row_bytes} bytes (--row-size)",
                path.display()
            )));
        }
        Ok(bytes / row_bytes)
    }
}

/// Makes and writes the rows in parts, which the threads take in rotation; returns their checksum.
fn write_rows(options: &SortOptions, work: &WorkFile, progress: &Progress) -> Result<RowSum, WorkError> {
    let shape = options.shape;
    let part_rows = (PART_BYTES / shape.row_bytes).max(1) as u64;
    let thread_sums = run_on_threads(options.threads, |thread| {
        let mut buffer = vec![0; part_rows as usize * shape.row_bytes];
        let mut sum = RowSum::default();
        let first_rows = (thread as u64 * part_rows..options.rows).step_by(options.threads * part_rows as usize);
        for first in first_rows {
            progress.check_stop()?;
            let rows = part_rows.min(options.rows - first);
            let bytes = &mut buffer[..rows as usize * shape.row_bytes];
            shape.make_rows(options.seed, first, bytes);
            sum.add_rows(shape, bytes);
            let offset = first * shape.row_bytes as u64;
            work.file().write_all_at(bytes, offset).map_err(io_error(work.path(), "rows cannot be written"))?;
        }
        Ok(sum)
    })?;
    let mut sum = RowSum::default();
    thread_sums.into_iter().for_each(|thread_sum| sum.add_sum(thread_sum));
    Ok(sum)
}

/// Reads all rows of a file once, checks their line ends, and returns their checksum.
fn sum_rows(file: RowFile<'_>, shape: RowShape, rows: u64, progress: &Progress) -> Result<RowSum, WorkError> {
    let mut sum = RowSum::default();
    read_parts(file, shape, rows, progress, |bytes, first| {
        if let Some(index) = bytes.chunks_exact(shape.row_bytes).position(|row| row.last() != Some(&b'\n')) {
            let row = first + index as u64 + 1;
            let message = format!(
                "{}: row {row} of {} bytes does not end with a line end (--row-size)",
                file.path.display(),
                shape.row_bytes
            );
            return Err(WorkError::Usage(message));
        }
        sum.add_rows(shape, bytes);
        Ok(())
    })?;
    Ok(sum)
}

/// Reads all rows of a file in parts, and passes each part to `use_rows` with the number of its first row.
pub(super) fn read_parts(
    file: RowFile<'_>,
    shape: RowShape,
    rows: u64,
    progress: &Progress,
    mut use_rows: impl FnMut(&[u8], u64) -> Result<(), WorkError>,
) -> Result<(), WorkError> {
    let part_rows = (PART_BYTES / shape.row_bytes).max(1) as u64;
    let mut buffer = AlignedBuffer::new(part_rows as usize * shape.row_bytes);
    for first in (0..rows).step_by(part_rows as usize) {
        progress.check_stop()?;
        let bytes = part_rows.min(rows - first) as usize * shape.row_bytes;
        let part = &mut buffer.bytes_mut()[..bytes];
        let cached = RowFile { direct: None, ..file };
        let received =
            cached.fill_buffer(first * shape.row_bytes as u64, part, PART_BYTES, &mut StepTime::default())?;
        if received < bytes {
            let message = format!("{}: ends {} bytes early", file.path.display(), bytes - received);
            return Err(WorkError::VerificationFailed(message));
        }
        use_rows(&buffer.bytes()[..bytes], first)?;
    }
    Ok(())
}
