//! Flushing the backing file, in a thread of its own: it may take long.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use super::ServeError;

/// Asks for flushes and learns of their end.
pub struct Syncs {
    /// Takes the numbers of flushes.
    pub ask: Sender<u32>,
    /// Five bytes for each that is done: its number, and 1 where it failed.
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
                let failed = u8::from(sync().is_err());
                for number in numbers {
                    let [a, b, c, d] = number.to_le_bytes();
                    if tell.write_all(&[a, b, c, d, failed]).is_err() {
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("flush".into()).spawn(work).map_err(kernel("thread"))?;
        Ok(Syncs { ask, done })
    }

    /// The flushes that are done, and whether they failed.
    pub fn take(&mut self) -> Vec<(u32, bool)> {
        let mut found = Vec::new();
        let mut one = [0; 5];
        // five bytes are written at once, and so they are read
        while let Ok(5) = self.done.read(&mut one) {
            let [a, b, c, d, failed] = one;
            found.push((u32::from_le_bytes([a, b, c, d]), failed != 0));
        }
        found
    }
}
