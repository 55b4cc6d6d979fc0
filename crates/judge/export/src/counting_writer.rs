//! Output of an export: a buffered writer that counts its bytes.

use std::io::{self, Write};

/// Number of bytes at which the buffer is written.
const CHUNK_BYTES: usize = 1 << 17;

/// A buffered writer that counts its bytes.
pub struct CountingWriter {
    inner: Box<dyn Write + Send>,
    /// Bytes that are not written yet; sinks append to it and then call [`CountingWriter::write_full_chunk`].
    pub(crate) buffer: Vec<u8>,
    bytes: u64,
}

impl CountingWriter {
    /// Wraps a file, standard output, or another writer.
    pub fn new(inner: Box<dyn Write + Send>) -> CountingWriter {
        CountingWriter { inner, buffer: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4), bytes: 0 }
    }

    /// Writes the buffer if it is full.
    #[inline]
    pub(crate) fn write_full_chunk(&mut self) -> io::Result<()> {
        if self.buffer.len() < CHUNK_BYTES { Ok(()) } else { self.write_buffer() }
    }

    /// Writes the buffer and empties it.
    fn write_buffer(&mut self) -> io::Result<()> {
        self.inner.write_all(&self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes and flushes everything; returns the total number of bytes.
    pub(crate) fn finish_output(&mut self) -> io::Result<u64> {
        self.flush()?;
        Ok(self.bytes)
    }
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.write_full_chunk()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()?;
        self.inner.flush()
    }
}
