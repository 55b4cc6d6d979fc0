//! Flushes the backing file in a separate thread, because it may take long.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use super::ServeError;
use crate::content::AccessError;
use crate::nbd::wire::ErrorCode;

/// Handle of the flush thread: requests flushes and receives their completions.
pub struct FlushThread {
    /// Sends the tags of flushes.
    pub requests: Sender<u32>,
    /// Receives five bytes for each completed flush: its tag, and the error code, 0 if there is
    /// none.
    pub completions: UnixStream,
}

impl FlushThread {
    /// Starts a thread that calls `flush` for the requested flushes. It ends when all senders are
    /// gone.
    pub fn start(flush: impl Fn() -> std::io::Result<()> + Send + 'static) -> Result<FlushThread, ServeError> {
        let kernel_error = |operation| move |error| ServeError::Kernel { operation, error };
        let (completions, mut reply_stream) = UnixStream::pair().map_err(kernel_error("socketpair"))?;
        completions.set_nonblocking(true).map_err(kernel_error("socketpair"))?;
        let (request_sender, requests) = channel::<u32>();
        let run_flushes = move || {
            while let Ok(first) = requests.recv() {
                // one flush serves all requests that arrived before it began
                let tags: Vec<u32> = std::iter::once(first).chain(requests.try_iter()).collect();
                let error = flush().err().map_or(0, error_byte);
                for tag in tags {
                    let [a, b, c, d] = tag.to_le_bytes();
                    if reply_stream.write_all(&[a, b, c, d, error]).is_err() {
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("flush".into()).spawn(run_flushes).map_err(kernel_error("thread"))?;
        Ok(FlushThread { requests: request_sender, completions })
    }

    /// Returns the completed flushes with their errors.
    pub fn take_finished(&mut self) -> Vec<(u32, Option<ErrorCode>)> {
        let mut finished = Vec::new();
        let mut record = [0; 5];
        // records of five bytes are written as a whole, and are read as a whole
        while let Ok(5) = self.completions.read(&mut record) {
            let [a, b, c, d, error] = record;
            let error = (error != 0).then(|| ErrorCode::from_code(error.into()));
            finished.push((u32::from_le_bytes([a, b, c, d]), error));
        }
        finished
    }
}

/// Returns the NBD error code of a failure; the two possible ones fit into a byte.
fn error_byte(error: std::io::Error) -> u8 {
    let code = if let AccessError::NoSpace = error.into() { ErrorCode::Nospc } else { ErrorCode::Io };
    code.code() as u8
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn reports_why_a_flush_failed() {
        for (kind, expected) in [
            (None, None),
            (Some(ErrorKind::StorageFull), Some(ErrorCode::Nospc)),
            (Some(ErrorKind::QuotaExceeded), Some(ErrorCode::Nospc)),
            (Some(ErrorKind::TimedOut), Some(ErrorCode::Io)),
        ] {
            let mut syncs = FlushThread::start(move || kind.map_or(Ok(()), |kind| Err(Error::from(kind)))).unwrap();
            syncs.requests.send(7).unwrap();
            poll(&mut [PollFd::new(&syncs.completions, PollFlags::IN)], None).unwrap();
            assert_eq!(syncs.take_finished(), [(7, expected)]);
        }
    }
}
