//! Flushing the backing file, in a thread of its own: it may take long.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use super::ServeError;
use crate::content::Trouble;
use crate::nbd::wire::ErrorCode;

/// Asks for flushes and learns of their end.
pub struct Syncs {
    /// Takes the numbers of flushes.
    pub ask: Sender<u32>,
    /// Five bytes for each that is done: its number, and the error's number, 0 where there is none.
    pub done: UnixStream,
}

impl Syncs {
    /// A thread that calls `sync` for each flush asked for. It ends when nobody can ask any more.
    pub fn start(sync: impl Fn() -> std::io::Result<()> + Send + 'static) -> Result<Syncs, ServeError> {
        let kernel = |what| move |error| ServeError::Kernel { what, error };
        let (done, mut tell) = UnixStream::pair().map_err(kernel("socketpair"))?;
        done.set_nonblocking(true).map_err(kernel("socketpair"))?;
        let (ask, asked) = channel::<u32>();
        let work = move || {
            while let Ok(first) = asked.recv() {
                // one flush is for all that were asked for before it began
                let numbers: Vec<u32> = std::iter::once(first).chain(asked.try_iter()).collect();
                let error = sync().err().map_or(0, code);
                for number in numbers {
                    let [a, b, c, d] = number.to_le_bytes();
                    if tell.write_all(&[a, b, c, d, error]).is_err() {
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("flush".into()).spawn(work).map_err(kernel("thread"))?;
        Ok(Syncs { ask, done })
    }

    /// The flushes that are done, and what went wrong with them.
    pub fn take(&mut self) -> Vec<(u32, Option<ErrorCode>)> {
        let mut found = Vec::new();
        let mut one = [0; 5];
        // five bytes are written at once, and so they are read
        while let Ok(5) = self.done.read(&mut one) {
            let [a, b, c, d, error] = one;
            let error = (error != 0).then(|| ErrorCode::of(error.into()));
            found.push((u32::from_le_bytes([a, b, c, d]), error));
        }
        found
    }
}

/// The number of a failure, as clients are told; both that there are fit into a byte.
fn code(error: std::io::Error) -> u8 {
    let code = if let Trouble::NoSpace = error.into() { ErrorCode::Nospc } else { ErrorCode::Io };
    code.code() as u8
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn a_flush_that_fails_says_how() {
        for (kind, told) in [
            (None, None),
            (Some(ErrorKind::StorageFull), Some(ErrorCode::Nospc)),
            (Some(ErrorKind::QuotaExceeded), Some(ErrorCode::Nospc)),
            (Some(ErrorKind::TimedOut), Some(ErrorCode::Io)),
        ] {
            let mut syncs = Syncs::start(move || kind.map_or(Ok(()), |kind| Err(Error::from(kind)))).unwrap();
            syncs.ask.send(7).unwrap();
            poll(&mut [PollFd::new(&syncs.done, PollFlags::IN)], None).unwrap();
            assert_eq!(syncs.take(), [(7, told)]);
        }
    }
}
