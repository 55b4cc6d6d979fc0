//! Streaming decoder of xz. The library's own reader returns nothing until a whole chunk (up to 2 MB) has arrived, so a
//! log truncated in its first chunk would read as empty.

use std::io::{self, Read};

use lzma_rust2::{Action, Status, XzStream};

/// Largest memory for unpacking, KiB; a file packed with `xz -9` takes 65 MiB.
const MAX_MEMORY_KIB: u32 = 256 << 10;
const BUFFER_BYTES: usize = 32 << 10;

/// A reader of the content of an xz file; concatenated files read as one.
pub(crate) struct XzUnpacker<R> {
    packed: R,
    stream: XzStream,
    buffer: Box<[u8]>,
    /// Range of the buffer that the stream has not consumed yet.
    unread: std::ops::Range<usize>,
    has_ended: bool,
    /// Error that occurred behind the bytes already returned.
    error: Option<io::Error>,
}

impl<R: Read> XzUnpacker<R> {
    /// Makes a reader of a packed stream.
    pub fn new(packed: R) -> XzUnpacker<R> {
        XzUnpacker {
            packed,
            stream: XzStream::new_mem_limit(true, MAX_MEMORY_KIB),
            buffer: vec![0; BUFFER_BYTES].into(),
            unread: 0..0,
            has_ended: false,
            error: None,
        }
    }
}

impl<R: Read> Read for XzUnpacker<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if output.is_empty() {
            return Ok(0);
        }
        loop {
            if self.unread.is_empty() && !self.has_ended {
                self.unread = 0..self.packed.read(&mut self.buffer)?;
                self.has_ended = self.unread.is_empty();
            }
            let action = if self.has_ended { Action::Finish } else { Action::Run };
            let before = self.stream.total_out();
            let result = self.stream.process(&self.buffer[self.unread.clone()], output, action);
            // an error does not say how much was written before it, the stream's total does
            let written = (self.stream.total_out() - before) as usize;
            debug_assert!(written <= output.len(), "{written} bytes were written into {}", output.len());
            match result {
                Ok(result) => {
                    self.unread.start += result.bytes_consumed;
                    if written > 0 || result.status == Status::StreamEnd {
                        return Ok(written);
                    }
                    if result.bytes_consumed == 0 && (self.has_ended || !self.unread.is_empty()) {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "the xz stream does not go on"));
                    }
                }
                Err(error) if written > 0 => {
                    self.error = Some(error);
                    return Ok(written);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: &[u8] = include_bytes!("../tests/packed/lines.xz");

    /// Output of `xz -9e`: one chunk of one block.
    fn text() -> String {
        (0..3000).map(|line| format!("{} some, text\n", line * 7919 % 100_003)).collect()
    }

    /// Unpacks it up to an error, in pieces of this size.
    fn unpacked(packed: &[u8], piece: usize) -> (String, Option<io::Error>) {
        let mut unpacker = XzUnpacker::new(packed);
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; piece]);
        let error = loop {
            match unpacker.read(&mut buffer) {
                Ok(0) => break None,
                Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                Err(error) => break Some(error),
            }
        };
        (String::from_utf8(bytes).expect("only text is packed"), error)
    }

    #[test]
    fn whole_files_are_read_and_two_in_a_row_are_one() {
        for piece in [1, 777, 1 << 20] {
            let (read, error) = unpacked(PACKED, piece);
            assert!(error.is_none() && read == text(), "{piece}: {error:?}");
        }
        let (read, error) = unpacked(&[PACKED, &[0; 8], PACKED].concat(), 4096);
        assert!(error.is_none() && read == text().repeat(2), "{error:?}");
    }

    #[test]
    fn reads_what_precedes_a_cut_in_the_only_chunk() {
        let mut longest = 0;
        for cut in (0..PACKED.len()).step_by(97) {
            let (read, error) = unpacked(&PACKED[..cut], 4096);
            assert!(error.is_some() && text().starts_with(&read), "{cut}: {error:?}");
            assert!(read.len() >= longest, "{cut}");
            longest = read.len();
        }
        assert!(longest > text().len() * 9 / 10, "{longest}");
    }
}
