//! Source of the rows to sort: made in a folder, or an existing file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::row_io::{AlignedBuffer, RowFile};
use super::rows::{RowShape, RowSum};
use super::{Progress, SortOptions, on_threads};
use crate::clock::StepTime;
use crate::files::{WorkFile, sync_and_drop_cache};
use crate::{WorkError, io_error};

/// Bytes made or read at a time.
const PART_BYTES: usize = 1 << 20;

/// Rows to sort.
#[derive(Debug)]
pub struct SortSource {
    /// The file that was made; None for an existing file.
    work: Option<WorkFile>,
    given: Option<File>,
    path: PathBuf,
    row_sum: RowSum,
}

impl SortSource {
    /// Makes the rows in a folder, or opens an existing file of rows and sums it up. Then the rows are on their device
    /// and, as far as the kernel allows, not in the file cache.
    ///
    /// # Errors
    /// When the file cannot be made or read, or the sort is stopped.
    pub fn create_or_open(options: &SortOptions, progress: &Progress) -> Result<SortSource, WorkError> {
        let path = options.source.clone();
        let source = if path.is_dir() {
            let work = WorkFile::create(&path)?;
            let sum = write_rows(options, &work, progress)?;
            SortSource { work: Some(work), given: None, path, row_sum: sum }
        } else {
            let rows = SortSource::count_rows(&path, options.shape)?;
            let file = File::open(&path).map_err(io_error(&path, "cannot be opened"))?;
            let sum = sum_rows(RowFile { cached: &file, direct: None, path: &path }, options.shape, rows, progress)?;
            SortSource { work: None, given: Some(file), path, row_sum: sum }
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
        match (&self.work, &self.given) {
            (Some(work), _) => work.file(),
            (None, Some(given)) => given,
            (None, None) => unreachable!("a source is made or given"),
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

    /// Checksum of its rows.
    #[must_use]
    pub fn row_sum(&self) -> RowSum {
        self.row_sum
    }

    /// Returns the number of rows of an existing file.
    ///
    /// # Errors
    /// When it does not hold whole rows.
    pub fn count_rows(path: &Path, shape: RowShape) -> Result<u64, WorkError> {
        let meta = std::fs::metadata(path).map_err(io_error(path, "cannot be examined"))?;
        if !meta.is_file() {
            return Err(WorkError::Usage(format!("{}: neither a folder nor a file of rows", path.display())));
        }
        let (bytes, row) = (meta.len(), shape.row_bytes as u64);
        if bytes == 0 || !bytes.is_multiple_of(row) {
            let why =
                format!("{}: {bytes} bytes are not a whole number of rows of {row} bytes (--row-size)", path.display());
            return Err(WorkError::Usage(why));
        }
        Ok(bytes / row)
    }
}

/// Makes and writes the rows, each thread a part of them.
fn write_rows(options: &SortOptions, work: &WorkFile, progress: &Progress) -> Result<RowSum, WorkError> {
    let shape = options.shape;
    let each = (PART_BYTES / shape.row_bytes).max(1) as u64;
    let parts = on_threads(options.threads, |thread| {
        let mut buffer = vec![0; each as usize * shape.row_bytes];
        let mut sum = RowSum::default();
        let firsts = (thread as u64 * each..options.rows).step_by(options.threads * each as usize);
        for first in firsts {
            progress.check_stop()?;
            let rows = each.min(options.rows - first);
            let bytes = &mut buffer[..rows as usize * shape.row_bytes];
            shape.make_rows(options.seed, first, bytes);
            sum.add_rows(shape, bytes);
            let offset = first * shape.row_bytes as u64;
            work.file().write_all_at(bytes, offset).map_err(io_error(work.path(), "rows cannot be written"))?;
        }
        Ok(sum)
    })?;
    let mut sum = RowSum::default();
    parts.into_iter().for_each(|part| sum.add_sum(part));
    Ok(sum)
}

/// Reads all rows of a file once, checks their line ends, and sums them up.
fn sum_rows(file: RowFile<'_>, shape: RowShape, rows: u64, progress: &Progress) -> Result<RowSum, WorkError> {
    let mut sum = RowSum::default();
    read_parts(file, shape, rows, progress, |bytes, first| {
        if let Some(wrong) = bytes.chunks_exact(shape.row_bytes).position(|row| row.last() != Some(&b'\n')) {
            let row = first + wrong as u64 + 1;
            let why = format!(
                "{}: row {row} of {} bytes does not end with a line end (--row-size)",
                file.path.display(),
                shape.row_bytes
            );
            return Err(WorkError::Usage(why));
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
    let each = (PART_BYTES / shape.row_bytes).max(1) as u64;
    let mut buffer = AlignedBuffer::new(each as usize * shape.row_bytes);
    for first in (0..rows).step_by(each as usize) {
        progress.check_stop()?;
        let bytes = (each.min(rows - first)) as usize * shape.row_bytes;
        let into = &mut buffer.bytes_mut()[..bytes];
        let cached = RowFile { direct: None, ..file };
        let received =
            cached.fill_buffer(first * shape.row_bytes as u64, into, PART_BYTES, &mut StepTime::default())?;
        if received < bytes {
            let why = format!("{}: ends {} bytes early", file.path.display(), bytes - received);
            return Err(WorkError::VerificationFailed(why));
        }
        use_rows(&buffer.bytes()[..bytes], first)?;
    }
    Ok(())
}
