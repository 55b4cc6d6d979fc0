//! Worker threads for responses that take time, beside the thread that serves the connections.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::NICENESS;
use crate::response::{HttpResponse, ResponseJob};
use crate::streams::StreamHub;

/// Largest number of waiting jobs; more are refused.
const MAX_QUEUED_JOBS: usize = 64;

/// The worker threads.
pub(crate) struct WorkerPool(SyncSender<(u64, ResponseJob)>);

impl WorkerPool {
    /// Starts the threads; they end when the pool is dropped and no job is left.
    pub fn start(threads: usize, hub: &StreamHub) -> std::io::Result<WorkerPool> {
        let (sender, receiver) = sync_channel(MAX_QUEUED_JOBS);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let (receiver, hub) = (Arc::clone(&receiver), hub.clone());
            std::thread::Builder::new().name("answers".into()).spawn(move || {
                let _ = setpriority_process(Some(gettid()), NICENESS);
                run_worker(&receiver, &hub);
            })?;
        }
        Ok(WorkerPool(sender))
    }

    /// Queues a job; returns false if too many are waiting.
    pub fn submit_job(&self, connection: u64, job: ResponseJob) -> bool {
        self.0.try_send((connection, job)).is_ok()
    }
}

fn run_worker(receiver: &Mutex<Receiver<(u64, ResponseJob)>>, hub: &StreamHub) {
    loop {
        let received = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((connection, job)) = received else { return };
        // one request that panics must not end the thread
        let response = catch_unwind(AssertUnwindSafe(job))
            .unwrap_or_else(|_| HttpResponse::plain_text("500 Internal Server Error", "an error in this program\n"));
        hub.deliver_response(connection, response);
    }
}
