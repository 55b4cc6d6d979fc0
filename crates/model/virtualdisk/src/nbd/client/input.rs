//! Buffered input from a server.

use std::io::Read;

use super::ClientError;

/// Size of the buffer, bytes; the longest message that is processed as a whole is shorter.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl InputBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the next `count` bytes, at most [`READ_BUFFER_BYTES`]; `what` names them in the error if the
    /// connection ends before.
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
                Ok(read) => self.end += read,
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
        let mut all = [0; N];
        all.copy_from_slice(self.read_bytes(stream, N, part)?);
        Ok(all)
    }

    /// Fills `data`, bypassing the buffer where that is empty.
    pub(super) fn read_into(
        &mut self,
        stream: &mut impl Read,
        data: &mut [u8],
        part: &'static str,
    ) -> Result<(), ClientError> {
        let here = data.len().min(self.end - self.start);
        if data.len() - here < BUFFER_BYTES / 4 {
            // few bytes are missing: read through the buffer, so that following input comes along
            data.copy_from_slice(self.read_bytes(stream, data.len(), part)?);
            return Ok(());
        }
        let (first, rest) = data.split_at_mut(here);
        first.copy_from_slice(&self.bytes[self.start..self.start + here]);
        self.start += here;
        stream.read_exact(rest).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ClientError::Closed(part),
            _ => error.into(),
        })
    }
}
