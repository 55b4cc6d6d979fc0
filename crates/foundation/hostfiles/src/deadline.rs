//! Work that may never end, such as a query of a filesystem whose device does not respond: it runs in a thread of its
//! own, and what it delivers is collected until a deadline.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` in a thread, and returns what it sends within `time_limit`, and whether it was still running then. A
/// thread that never ends is left behind.
pub fn collect_within<T: Send + 'static>(
    time_limit: Duration,
    work: impl FnOnce(&Sender<T>) + Send + 'static,
) -> (Vec<T>, bool) {
    let (sender, receiver) = mpsc::channel();
    // without a thread the channel is closed, as if the work had delivered nothing
    let _ = thread::Builder::new().spawn(move || work(&sender));
    let end = Instant::now() + time_limit;
    let mut found = Vec::new();
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(item) => found.push(item),
            Err(reason) => return (found, reason == RecvTimeoutError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_the_deadline_is_returned() {
        let (release, never) = mpsc::channel::<()>();
        let (found, is_late) = collect_within(Duration::from_millis(50), move |sender| {
            let _ = sender.send(1);
            let _ = never.recv();
        });
        assert_eq!((found, is_late), (vec![1], true));
        drop(release);
    }
}
