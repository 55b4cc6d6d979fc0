//! Output of an export: a buffered writer that counts its bytes.

use std::io::{self, Write};

/// Number of buffered bytes from which they are written.
const CHUNK: usize = 1 << 17;

/// A buffered writer that counts its bytes.
pub struct CountingWriter {
    inner: Box<dyn Write + Send>,
    /// Bytes that are not written yet; sinks append to it and then call [`CountingWriter::pass_on`].
    pub(crate) text: Vec<u8>,
    bytes: u64,
}

impl CountingWriter {
    /// Wraps a file, standard output, or another writer.
    pub fn new(inner: Box<dyn Write + Send>) -> CountingWriter {
        CountingWriter { inner, text: Vec::with_capacity(CHUNK + CHUNK / 4), bytes: 0 }
    }

    /// Writes the buffer if it is full.
    #[inline]
    pub(crate) fn pass_on(&mut self) -> io::Result<()> {
        if self.text.len() < CHUNK { Ok(()) } else { self.empty() }
    }

    /// Writes the buffer and empties it.
    fn empty(&mut self) -> io::Result<()> {
        self.inner.write_all(&self.text)?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }

    /// Writes and flushes everything; returns the total number of bytes.
    pub(crate) fn end(&mut self) -> io::Result<u64> {
        self.flush()?;
        Ok(self.bytes)
    }
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        self.pass_on()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.empty()?;
        self.inner.flush()
    }
}
