//! Queries of drives in a separate thread, one after the other, in rounds. A drive that never answers keeps its round
//! open: no other thread is started, and ticks continue.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use diskwright_health::{DriveAccess, HealthReport};

/// Stack of the thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 512 << 10;
/// A drive to be queried.
pub(super) struct DriveRequest {
    pub name: String,
    pub path: PathBuf,
    pub access: DriveAccess,
}

/// The thread and the channel of its reports.
pub(super) struct QueryThread {
    query: fn(&Path, &DriveAccess) -> HealthReport,
    sender: Sender<(String, HealthReport)>,
    receiver: Receiver<(String, HealthReport)>,
    thread: Option<JoinHandle<()>>,
}

impl QueryThread {
    /// Starts no thread yet; `query` queries one drive.
    pub fn new(query: fn(&Path, &DriveAccess) -> HealthReport) -> QueryThread {
        let (sender, receiver) = channel();
        QueryThread { query, sender, receiver, thread: None }
    }

    /// Returns true while a drive of the last round has not answered.
    pub fn is_busy(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Starts a round of queries.
    pub fn start_round(&mut self, requests: Vec<DriveRequest>) {
        if requests.is_empty() {
            return;
        }
        let (query, sender) = (self.query, self.sender.clone());
        let round = move || {
            for request in requests {
                let report = query(&request.path, &request.access);
                // the receiver is closed: the sampler is gone
                if sender.send((request.name, report)).is_err() {
                    return;
                }
            }
        };
        // if no thread can be started, the next slow tick tries again
        self.thread = std::thread::Builder::new().name("health".into()).stack_size(STACK_BYTES).spawn(round).ok();
    }

    /// Returns the next report that has arrived.
    pub fn next_report(&mut self) -> Option<(String, HealthReport)> {
        self.receiver.try_recv().ok()
    }

    /// Waits until the round is over; for tests.
    #[cfg(test)]
    pub fn wait_for_round(&mut self) {
        self.thread.take().map(JoinHandle::join);
    }
}
