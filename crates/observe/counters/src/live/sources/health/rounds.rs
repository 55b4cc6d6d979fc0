//! Drives are asked in a thread of their own, one after the other, a round at a time. One that never
//! answers keeps its round open: no other thread is begun, and ticks go on.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use diskwright_health::{DriveAccess, HealthAnswer};

/// A drive to be asked.
pub(super) struct DriveRequest {
    pub name: String,
    pub path: PathBuf,
    pub access: DriveAccess,
}

/// The thread and what comes from it.
pub(super) struct AskRounds {
    ask: fn(&Path, &DriveAccess) -> HealthAnswer,
    sender: Sender<(String, HealthAnswer)>,
    receiver: Receiver<(String, HealthAnswer)>,
    thread: Option<JoinHandle<()>>,
}

impl AskRounds {
    pub fn new(ask: fn(&Path, &DriveAccess) -> HealthAnswer) -> AskRounds {
        let (sender, receiver) = channel();
        AskRounds { ask, sender, receiver, thread: None }
    }

    /// A drive of the last round has not answered yet.
    pub fn is_busy(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Asks these.
    pub fn begin(&mut self, requests: Vec<DriveRequest>) {
        if requests.is_empty() {
            return;
        }
        let (ask, sender) = (self.ask, self.sender.clone());
        let round = move || {
            for request in requests {
                let answer = ask(&request.path, &request.access);
                // nobody listens any more: the sampler is gone
                if sender.send((request.name, answer)).is_err() {
                    return;
                }
            }
        };
        // a machine without room for a thread has other troubles; the next slow beat tries again
        self.thread = std::thread::Builder::new().name("health".into()).spawn(round).ok();
    }

    /// The next answer that has come.
    pub fn answer(&mut self) -> Option<(String, HealthAnswer)> {
        self.receiver.try_recv().ok()
    }

    /// Waits until the round is over; for tests.
    #[cfg(test)]
    pub fn finish(&mut self) {
        self.thread.take().map(JoinHandle::join);
    }
}
