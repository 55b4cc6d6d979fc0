//! Streams of events: one writer, many readers, none of whom holds up the writer.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use crate::answer::HttpAnswer;

/// What other threads hand to the one that waits for clients.
#[derive(Default)]
pub(crate) struct Deliveries {
    /// The newest event of each channel since the last look.
    pub events: HashMap<usize, Arc<[u8]>>,
    /// Answers by the connection's number.
    pub answers: Vec<(u64, HttpAnswer)>,
}

#[derive(Default)]
struct HubState {
    deliveries: Deliveries,
    viewers: HashMap<usize, usize>,
    waker: Option<UnixStream>,
}

/// Where events are put in.
#[derive(Clone, Default)]
pub struct StreamHub(Arc<Mutex<HubState>>);

impl StreamHub {
    /// Sends an event to all who read a channel. One who has not yet read the last one loses it.
    pub fn publish(&self, channel: usize, event: impl Into<Arc<[u8]>>) {
        self.with(|state| state.deliveries.events.insert(channel, event.into()));
    }

    /// How many read a channel.
    pub fn viewers(&self, channel: usize) -> usize {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.viewers.get(&channel).copied().unwrap_or(0)
    }

    pub(crate) fn answer(&self, connection: u64, answer: HttpAnswer) {
        self.with(|state| state.deliveries.answers.push((connection, answer)));
    }

    fn with<T>(&self, change: impl FnOnce(&mut HubState) -> T) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if let Some(waker) = &mut state.waker {
            // full, it has been woken already
            let _ = waker.write(&[0]);
        }
    }

    /// What wakes the thread that waits.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let (waker, watched) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        watched.set_nonblocking(true)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waker = Some(waker);
        Ok(watched)
    }

    /// Takes what came, and says who reads.
    pub(crate) fn exchange(&self, viewers: HashMap<usize, usize>) -> Deliveries {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.viewers = viewers;
        std::mem::take(&mut state.deliveries)
    }
}
