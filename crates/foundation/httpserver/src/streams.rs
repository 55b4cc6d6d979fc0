//! Streams of events: one writer, many readers, none of which can block the writer.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use crate::response::HttpResponse;

/// Items that other threads hand to the thread that serves clients.
#[derive(Default)]
pub(crate) struct Deliveries {
    /// Newest event of each channel since the last delivery.
    pub events: HashMap<usize, Arc<[u8]>>,
    /// Responses with the id of their connection.
    pub answers: Vec<(u64, HttpResponse)>,
}

#[derive(Default)]
struct HubState {
    deliveries: Deliveries,
    viewers: HashMap<usize, usize>,
    waker: Option<UnixStream>,
}

/// Hub that takes events from any thread.
#[derive(Clone, Default)]
pub struct StreamHub(Arc<Mutex<HubState>>);

impl StreamHub {
    /// Sends an event to all readers of a channel. A newer event replaces one that is not yet delivered.
    pub fn publish_event(&self, channel: usize, event: impl Into<Arc<[u8]>>) {
        self.update_and_wake(|state| state.deliveries.events.insert(channel, event.into()));
    }

    pub(crate) fn deliver_response(&self, connection: u64, answer: HttpResponse) {
        self.update_and_wake(|state| state.deliveries.answers.push((connection, answer)));
    }

    fn update_and_wake<T>(&self, change: impl FnOnce(&mut HubState) -> T) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if let Some(waker) = &mut state.waker {
            // if the pipe is full, the thread has been woken already
            let _ = waker.write(&[0]);
        }
    }

    /// Creates the socket that wakes the server's thread.
    pub(crate) fn connect_waker(&self) -> io::Result<UnixStream> {
        let (waker, watched) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        watched.set_nonblocking(true)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waker = Some(waker);
        Ok(watched)
    }

    /// Takes the pending items and sets the number of readers of each channel.
    pub(crate) fn take_deliveries(&self, viewers: HashMap<usize, usize>) -> Deliveries {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.viewers = viewers;
        std::mem::take(&mut state.deliveries)
    }
}
