//! Where an export goes: a buffer, a count, and whoever takes the bytes.

use std::io::{self, Write};

/// Bytes gathered before they are handed on.
const CHUNK: usize = 1 << 17;

/// A writer that counts and gathers.
pub struct CountingWriter {
    inner: Box<dyn Write + Send>,
    /// Bytes not yet handed on; sinks append to it and then call [`CountingWriter::pass_on`].
    pub(crate) text: Vec<u8>,
    bytes: u64,
}

impl CountingWriter {
    /// Around a file, standard output, or whatever takes bytes.
    pub fn new(inner: Box<dyn Write + Send>) -> CountingWriter {
        CountingWriter { inner, text: Vec::with_capacity(CHUNK + CHUNK / 4), bytes: 0 }
    }

    /// Hands the gathered bytes on once they are many.
    #[inline]
    pub(crate) fn pass_on(&mut self) -> io::Result<()> {
        if self.text.len() < CHUNK { Ok(()) } else { self.empty() }
    }

    fn empty(&mut self) -> io::Result<()> {
        self.inner.write_all(&self.text)?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }

    /// Hands everything on; gives the bytes written in all.
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
