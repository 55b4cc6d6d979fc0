//! Buffered input from a server.

use std::io::Read;

use super::ClientError;

/// Size of the buffer, bytes. It is larger than any message that is processed as a whole.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    bytes: Vec<u8>,
    /// Index of the first unprocessed byte.
    start: usize,
    /// Index after the last unprocessed byte.
    end: usize,
}

impl InputBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the next `count` bytes, at most [`BUFFER_BYTES`]. `part` names them in the error if the
    /// connection ends before they have arrived.
    pub(super) fn read_bytes(
        &mut self,
        stream: &mut impl Read,
        count: usize,
        part: &'static str,
    ) -> Result<&[u8], ClientError> {
        if self.bytes.is_empty() {
            self.bytes.resize(BUFFER_BYTES, 0);
        }
        if self.end - self.start < count {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < count {
            match stream.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Err(ClientError::Closed(part)),
                Ok(received) => self.end += received,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.start += count;
        Ok(&self.bytes[self.start - count..self.start])
    }

    pub(super) fn read_array<const N: usize>(
        &mut self,
        stream: &mut impl Read,
        part: &'static str,
    ) -> Result<[u8; N], ClientError> {
        let mut array = [0; N];
        array.copy_from_slice(self.read_bytes(stream, N, part)?);
        Ok(array)
    }

    /// Fills `data` from the buffer, and then, if many bytes are missing, directly from the stream.
    pub(super) fn read_into(
        &mut self,
        stream: &mut impl Read,
        data: &mut [u8],
        part: &'static str,
    ) -> Result<(), ClientError> {
        let buffered = data.len().min(self.end - self.start);
        if data.len() - buffered < BUFFER_BYTES / 4 {
            // few bytes are missing: read through the buffer, so that the same call also reads the next messages
            data.copy_from_slice(self.read_bytes(stream, data.len(), part)?);
            return Ok(());
        }
        let (first, missing) = data.split_at_mut(buffered);
        first.copy_from_slice(&self.bytes[self.start..self.start + buffered]);
        self.start += buffered;
        stream.read_exact(missing).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ClientError::Closed(part),
            _ => error.into(),
        })
    }
}
