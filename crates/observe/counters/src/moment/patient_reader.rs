//! Reads with a time limit. A read that hangs in the kernel keeps its thread; it is left behind, and another continues.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// Largest number of threads that are left behind.
const MAX_HUNG: usize = 8;
/// Stack of a thread, which only reads small files.
const STACK_BYTES: usize = 256 << 10;

type Work = Box<dyn FnOnce() + Send>;

/// Runs reads in a thread, each for a limited time.
pub struct PatientReader {
    max_wait: Duration,
    worker: Option<Sender<Work>>,
    hung: usize,
}

impl PatientReader {
    /// Creates a reader that waits this long for each read.
    #[must_use]
    pub fn new(max_wait: Duration) -> PatientReader {
        PatientReader { max_wait, worker: None, hung: 0 }
    }

    /// Number of reads that did not return.
    #[must_use]
    pub fn hung(&self) -> usize {
        self.hung
    }

    /// Runs a read; `None` if it did not return in time, or too many others did not.
    pub fn run<T: Send + 'static>(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.hung >= MAX_HUNG {
            return None;
        }
        let (sender, receiver) = mpsc::channel();
        let work: Work = Box::new(move || {
            // without a receiver nobody waits for the result any more
            let _ = sender.send(read());
        });
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => start_worker()?,
        };
        worker.send(work).ok()?;
        let result = receiver.recv_timeout(self.max_wait).ok();
        match result {
            Some(_) => self.worker = Some(worker),
            None => self.hung += 1,
        }
        result
    }
}

fn start_worker() -> Option<Sender<Work>> {
    let (sender, receiver): (Sender<Work>, Receiver<Work>) = mpsc::channel();
    let run_all = move || receiver.into_iter().for_each(|work| work());
    thread::Builder::new().name("moment".into()).stack_size(STACK_BYTES).spawn(run_all).ok()?;
    Some(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_hangs_is_left_behind_and_the_next_one_answers() {
        let mut reader = PatientReader::new(Duration::from_millis(50));
        assert_eq!(reader.run(|| 1), Some(1));
        let (release, released) = mpsc::channel::<()>();
        assert_eq!(reader.run(move || released.recv().is_ok()), None);
        assert_eq!((reader.run(|| 2), reader.hung()), (Some(2), 1));
        drop(release);
        for _ in 1..MAX_HUNG {
            assert_eq!(reader.run(|| thread::park_timeout(Duration::from_secs(2))), None);
        }
        assert_eq!(reader.run(|| 3), None, "too many hang");
    }
}
