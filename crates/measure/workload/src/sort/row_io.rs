//! Reader and writer of rows in large sequential requests, through the file cache or with direct I/O. With direct I/O,
//! requests begin and end at multiples of 4096 bytes, but rows do not. So a reader keeps the incomplete row at the end
//! of a request, and a writer returns the partial blocks at the ends of its range as [`PartialBlocks`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::Advice;

use crate::clock::StepTime;
use crate::{WorkError, io_error};

/// Alignment of buffers, offsets and lengths for direct I/O, bytes.
pub const ALIGN_BYTES: usize = 4096;

/// Buffer that begins at a multiple of [`ALIGN_BYTES`].
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Allocates a buffer of `length` bytes.
    #[must_use]
    pub fn new(length: usize) -> AlignedBuffer {
        let memory = vec![0; length + ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        AlignedBuffer { memory, start, length }
    }

    /// The whole buffer.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// The whole buffer, mutable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Descriptors of a file that a thread reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct RowFile<'a> {
    /// Descriptor through the file cache.
    pub cached: &'a File,
    /// Descriptor for direct I/O, if requested.
    pub direct: Option<&'a File>,
    /// Path for messages.
    pub path: &'a Path,
}

impl RowFile<'_> {
    /// Fills a buffer from an offset on, with requests of at most `request` bytes. Returns the number of bytes, which
    /// is smaller at the end of the file.
    ///
    /// # Errors
    /// When a read fails.
    pub fn fill_buffer(
        &self,
        offset: u64,
        buffer: &mut [u8],
        request: usize,
        time: &mut StepTime,
    ) -> Result<usize, WorkError> {
        let file = self.direct.unwrap_or(self.cached);
        let mut done = 0;
        while done < buffer.len() {
            let end = buffer.len().min(done + request);
            let read_offset = offset + done as u64;
            let read = time.time_io(|| retry_if_interrupted(|| file.read_at(&mut buffer[done..end], read_offset)));
            match read.map_err(io_error(self.path, "cannot be read"))? {
                0 => break,
                bytes => done += bytes,
            }
            // with direct I/O, a request that ends within a block was the last of the file; another one would begin
            // within a block, which older kernels reject even at the end of a file
            if self.direct.is_some() && !done.is_multiple_of(ALIGN_BYTES) {
                break;
            }
        }
        Ok(done)
    }

    fn write_all_timed(&self, file: &File, bytes: &[u8], offset: u64, time: &mut StepTime) -> Result<(), WorkError> {
        let mut done = 0;
        while done < bytes.len() {
            let written = time.time_io(|| retry_if_interrupted(|| file.write_at(&bytes[done..], offset + done as u64)));
            match written.map_err(io_error(self.path, "cannot be written"))? {
                0 => {
                    return Err(io_error(self.path, "cannot be written")(std::io::Error::from(
                        std::io::ErrorKind::WriteZero,
                    )));
                }
                bytes => done += bytes,
            }
        }
        Ok(())
    }
}

fn retry_if_interrupted(mut call: impl FnMut() -> std::io::Result<usize>) -> std::io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads rows from a range of a file; the current row stays valid until the next row is read.
#[derive(Debug)]
pub struct RowReader<'a> {
    file: RowFile<'a>,
    row_bytes: usize,
    /// Range of the file that was not requested yet.
    next_offset: u64,
    end: u64,
    buffer: AlignedBuffer,
    /// Position in the buffer at which requests are read; the bytes before it are for the beginning of a row whose end
    /// is in the next request.
    base: usize,
    /// Start of the current row in the buffer, and end of the bytes read.
    row_start: usize,
    filled: usize,
    /// Time of reading.
    pub time: StepTime,
}

impl<'a> RowReader<'a> {
    /// Memory of a reader, bytes.
    #[must_use]
    pub fn memory_bytes(row_bytes: usize, request: usize) -> usize {
        row_bytes.next_multiple_of(ALIGN_BYTES) + request + ALIGN_BYTES
    }

    /// Opens a reader of the bytes from `from` to `end`, which must hold whole rows.
    ///
    /// # Errors
    /// When the first read fails.
    pub fn open(
        file: RowFile<'a>,
        row_bytes: usize,
        from: u64,
        end: u64,
        request: usize,
    ) -> Result<RowReader<'a>, WorkError> {
        assert!(request.is_multiple_of(ALIGN_BYTES) && request > 0, "requests of {request} bytes");
        assert!((end - from).is_multiple_of(row_bytes as u64), "{from} to {end} are no whole rows");
        let base = row_bytes.next_multiple_of(ALIGN_BYTES);
        let aligned_start = if file.direct.is_some() { from / ALIGN_BYTES as u64 * ALIGN_BYTES as u64 } else { from };
        let buffer = AlignedBuffer::new(base + request);
        let time = StepTime::default();
        let mut reader = RowReader {
            file,
            row_bytes,
            next_offset: aligned_start,
            end,
            buffer,
            base,
            row_start: base,
            filled: base,
            time,
        };
        reader.refill()?;
        // skip the bytes before the first row in its block; a request is at least a block
        reader.row_start += (from - aligned_start) as usize;
        while reader.needs_refill() && reader.next_offset < end {
            reader.refill()?;
        }
        Ok(reader)
    }

    /// Returns true if the buffer does not hold the whole current row.
    fn needs_refill(&self) -> bool {
        self.filled < self.row_start + self.row_bytes
    }

    /// Returns the current row; `None` at the end.
    #[inline]
    #[must_use]
    pub fn current_row(&self) -> Option<&[u8]> {
        if self.needs_refill() {
            None
        } else {
            Some(&self.buffer.bytes()[self.row_start..self.row_start + self.row_bytes])
        }
    }

    /// Advances to the next row.
    ///
    /// # Errors
    /// When a read fails, or the file ends before the range does.
    #[inline]
    pub fn advance_row(&mut self) -> Result<(), WorkError> {
        self.row_start += self.row_bytes;
        while self.needs_refill() && self.next_offset < self.end {
            self.refill()?;
        }
        Ok(())
    }

    /// Moves the beginning of a row to before the position of requests, and makes the next request.
    fn refill(&mut self) -> Result<(), WorkError> {
        let kept_bytes = self.filled - self.row_start;
        let row_start = self.base - kept_bytes;
        self.buffer.bytes_mut().copy_within(self.row_start..self.filled, row_start);
        let needed = (self.end - self.next_offset).min((self.buffer.length - self.base) as u64) as usize;
        // a direct read at the end of the file requests whole blocks too, and returns less
        let requested = if self.file.direct.is_some() { needed.next_multiple_of(ALIGN_BYTES) } else { needed };
        let (base, next) = (self.base, self.next_offset);
        let received = self.file.fill_buffer(
            next,
            &mut self.buffer.bytes_mut()[base..base + requested],
            requested,
            &mut self.time,
        )?;
        if received < needed {
            let message = format!(
                "{}: ended {} bytes early; something else changed it",
                self.file.path.display(),
                needed - received
            );
            return Err(WorkError::VerificationFailed(message));
        }
        (self.row_start, self.filled, self.next_offset) = (row_start, base + needed, next + needed as u64);
        if self.file.direct.is_none() && self.next_offset < self.end {
            // advice to read ahead, so that the next request is in flight while these rows are used; it may be ignored
            let length = std::num::NonZeroU64::new(needed as u64);
            let _ = rustix::fs::fadvise(self.file.cached, self.next_offset, length, Advice::WillNeed);
        }
        Ok(())
    }
}

/// Partial blocks at the ends of ranges that were written with direct I/O: offset and content of each.
pub type PartialBlocks = Vec<(u64, Vec<u8>)>;

/// Writes rows to a range of a file.
#[derive(Debug)]
pub struct RowWriter<'a> {
    file: RowFile<'a>,
    buffer: AlignedBuffer,
    /// Number of bytes in the buffer.
    filled: usize,
    /// Offset of the buffer's first byte in the file.
    offset: u64,
    /// Partial blocks so far.
    edges: PartialBlocks,
    /// Time of writing.
    pub time: StepTime,
}

impl<'a> RowWriter<'a> {
    /// Memory of a writer, bytes.
    #[must_use]
    pub fn memory_bytes(request: usize) -> usize {
        request + ALIGN_BYTES
    }

    /// Opens a writer from an offset on.
    #[must_use]
    pub fn open(file: RowFile<'a>, from: u64, request: usize) -> RowWriter<'a> {
        assert!(request.is_multiple_of(ALIGN_BYTES) && request > 0, "requests of {request} bytes");
        let buffer = AlignedBuffer::new(request);
        RowWriter { file, buffer, filled: 0, offset: from, edges: PartialBlocks::new(), time: StepTime::default() }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When a write fails.
    #[inline]
    pub fn push_row(&mut self, row: &[u8]) -> Result<(), WorkError> {
        let end = self.filled + row.len();
        if end <= self.buffer.length {
            self.buffer.bytes_mut()[self.filled..end].copy_from_slice(row);
            self.filled = end;
            return Ok(());
        }
        self.push_split_row(row)
    }

    /// Writes a row that does not fit into the buffer as a whole.
    fn push_split_row(&mut self, mut row: &[u8]) -> Result<(), WorkError> {
        while !row.is_empty() {
            let (fitting, remaining) = row.split_at(row.len().min(self.buffer.length - self.filled));
            self.buffer.bytes_mut()[self.filled..self.filled + fitting.len()].copy_from_slice(fitting);
            self.filled += fitting.len();
            row = remaining;
            if self.filled == self.buffer.length {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the buffer; with direct I/O only the whole blocks in it.
    fn flush(&mut self) -> Result<(), WorkError> {
        let Some(direct) = self.file.direct else {
            self.file.write_all_timed(
                self.file.cached,
                &self.buffer.bytes()[..self.filled],
                self.offset,
                &mut self.time,
            )?;
            self.offset += self.filled as u64;
            self.filled = 0;
            return Ok(());
        };
        let bytes = &self.buffer.bytes()[..self.filled];
        let offset_in_block = (self.offset % ALIGN_BYTES as u64) as usize;
        let head = if offset_in_block == 0 { 0 } else { (ALIGN_BYTES - offset_in_block).min(self.filled) };
        if head > 0 {
            self.edges.push((self.offset, bytes[..head].to_vec()));
        }
        // a buffer that begins within a block is moved to a block boundary once, at the first flush
        let aligned_bytes = self.filled - head;
        let whole_blocks = aligned_bytes / ALIGN_BYTES * ALIGN_BYTES;
        self.buffer.bytes_mut().copy_within(head..head + aligned_bytes, 0);
        let offset = self.offset + head as u64;
        self.file.write_all_timed(direct, &self.buffer.bytes()[..whole_blocks], offset, &mut self.time)?;
        self.buffer.bytes_mut().copy_within(whole_blocks..aligned_bytes, 0);
        self.filled = aligned_bytes - whole_blocks;
        self.offset = offset + whole_blocks as u64;
        Ok(())
    }

    /// Writes what is left in the buffer; returns the partial blocks at the ends of the range, and the time of writing.
    ///
    /// # Errors
    /// When a write fails.
    pub fn finish_writing(mut self) -> Result<(PartialBlocks, StepTime), WorkError> {
        self.flush()?;
        if self.filled > 0 {
            self.edges.push((self.offset, self.buffer.bytes()[..self.filled].to_vec()));
        }
        Ok((self.edges, self.time))
    }
}

/// Writes the partial blocks at the ends of ranges, through the file cache.
///
/// # Errors
/// When a write fails.
pub fn write_partial_blocks(file: RowFile<'_>, edges: PartialBlocks, time: &mut StepTime) -> Result<(), WorkError> {
    edges.into_iter().try_for_each(|(offset, bytes)| file.write_all_timed(file.cached, &bytes, offset, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::WorkFile;

    /// Returns rows of 100 bytes that consist of the digits of their number.
    fn numbered_rows(numbers: std::ops::Range<u64>) -> Vec<u8> {
        numbers.flat_map(|number| format!("{number:0100}").into_bytes()).collect()
    }

    fn read_rows(file: RowFile<'_>, from: u64, end: u64, request: usize) -> Vec<u8> {
        let mut reader = RowReader::open(file, 100, from, end, request).unwrap();
        let mut all = Vec::new();
        while let Some(row) = reader.current_row() {
            all.extend_from_slice(row);
            reader.advance_row().unwrap();
        }
        all
    }

    /// Runs a test through the file cache and, where possible, with direct I/O.
    #[allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]
    fn with_cached_and_direct(test: impl Fn(RowFile<'_>)) {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let work = WorkFile::create(folder.path()).unwrap();
        test(RowFile { cached: work.file(), direct: None, path: work.path() });
        let work = WorkFile::create(folder.path()).unwrap();
        match work.open_direct() {
            Ok(direct) => test(RowFile { cached: work.file(), direct: Some(&direct), path: work.path() }),
            Err(error) => println!("skipped: no direct I/O: {error}"),
        }
    }

    #[test]
    fn rows_written_in_ranges_are_read_in_any_others() {
        with_cached_and_direct(|file| {
            let all = numbered_rows(0..1000);
            let mut edges = PartialBlocks::new();
            // 37 rows begin and end within blocks, and the middle range is shorter than a block
            for range in [0..37, 37..60, 60..1000_u64] {
                let mut writer = RowWriter::open(file, range.start * 100, 8192);
                for row in numbered_rows(range).chunks(100) {
                    writer.push_row(row).unwrap();
                }
                edges.extend(writer.finish_writing().unwrap().0);
            }
            write_partial_blocks(file, edges, &mut StepTime::default()).unwrap();
            assert_eq!(file.cached.metadata().unwrap().len(), 100_000);
            // 100,000 bytes are 24 blocks and a part: with direct I/O, nothing is requested behind it
            let (mut buffer, mut time) = (AlignedBuffer::new(25 * ALIGN_BYTES), StepTime::default());
            assert_eq!(file.fill_buffer(0, buffer.bytes_mut(), 25 * ALIGN_BYTES, &mut time).unwrap(), 100_000);
            assert_eq!(time.requests, if file.direct.is_some() { 1 } else { 2 });
            for (from, end) in [(0, 1000), (0, 37), (37, 60), (40, 41), (999, 1000), (5, 5), (81, 999)] {
                for request in [4096, 8192, 65_536] {
                    let expected = &all[from * 100..end * 100];
                    assert!(
                        read_rows(file, from as u64 * 100, end as u64 * 100, request) == expected,
                        "{from} {end} {request}"
                    );
                }
            }
        });
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let work = WorkFile::create(folder.path()).unwrap();
        work.file().write_all_at(&numbered_rows(0..5), 0).unwrap();
        let file = RowFile { cached: work.file(), direct: None, path: work.path() };
        let error = RowReader::open(file, 100, 0, 600, 4096).unwrap_err().to_string();
        assert!(error.contains("100 bytes early"), "{error}");
    }
}
