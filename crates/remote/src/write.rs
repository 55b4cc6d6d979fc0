//! Remote write 1.0: a recorder's ticks to a store, behind a bounded queue. The
//! recorder never waits: what does not fit is lost, counted and told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message;

use crate::client::Store;
use crate::error::RemoteError;
use crate::feed::Shot;

/// Ticks that wait at most: ten minutes at one a second.
const QUEUE: usize = 600;
/// Samples of one request, about.
const BATCH: usize = 10_000;
/// A tick waits no longer than this for others to go with it.
const LINGER: Duration = Duration::from_secs(2);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// What is still waiting when the recording ends has this long.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// What became of the samples.
#[derive(Debug, Default)]
pub struct Fate {
    /// Samples that the store took.
    pub sent: AtomicU64,
    /// Samples that it will never get.
    pub lost: AtomicU64,
    /// Requests that were tried again.
    pub retries: AtomicU64,
    /// What last went wrong.
    pub trouble: Mutex<Option<String>>,
}

/// Sends ticks from a thread of its own.
pub struct RemoteWriter {
    queue: Option<SyncSender<Shot>>,
    fate: Arc<Fate>,
    thread: Option<JoinHandle<()>>,
    /// Dropped when the recording ends: the thread hurries then.
    running: Option<SyncSender<()>>,
}

impl RemoteWriter {
    /// Starts to send to a store's `/api/v1/write`; `labels` go with every series.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(store: Store, labels: Vec<(String, String)>) -> std::io::Result<RemoteWriter> {
        let (queue, shots) = sync_channel(QUEUE);
        let (running, ended) = sync_channel(0);
        let fate = Arc::new(Fate::default());
        let mut worker = Worker { store, labels, fate: Arc::clone(&fate), ended, until: None };
        let thread = std::thread::Builder::new().name("remote-write".into()).spawn(move || worker.run(&shots))?;
        Ok(RemoteWriter { queue: Some(queue), fate, thread: Some(thread), running: Some(running) })
    }

    /// Hands over a tick; never waits.
    pub fn push(&self, shot: &Shot) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(shot) | TrySendError::Disconnected(shot)) = queue.try_send(shot.clone()) {
            self.fate.lost.fetch_add(samples(&shot), Ordering::Relaxed);
        }
    }

    /// What became of the samples so far.
    pub fn fate(&self) -> &Fate {
        &self.fate
    }

    /// Sends what is left, for a few seconds at most.
    pub fn finish(&mut self) {
        self.queue = None;
        self.running = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

fn samples(shot: &Shot) -> u64 {
    shot.values.iter().filter(|v| !v.is_nan()).count() as u64
}

struct Worker {
    store: Store,
    labels: Vec<(String, String)>,
    fate: Arc<Fate>,
    ended: Receiver<()>,
    /// When to give up, once the recording has ended.
    until: Option<Instant>,
}

impl Worker {
    fn run(&mut self, shots: &Receiver<Shot>) {
        while let Ok(first) = shots.recv() {
            let mut batch = vec![first];
            let mut count = samples(&batch[0]);
            let deadline = Instant::now() + LINGER;
            while count < BATCH as u64 {
                match shots.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                    Ok(shot) => {
                        count += samples(&shot);
                        batch.push(shot);
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            if self.deliver(&batch) {
                self.fate.sent.fetch_add(count, Ordering::Relaxed);
            } else {
                self.fate.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Sends until the store has it, or it never will.
    fn deliver(&mut self, batch: &[Shot]) -> bool {
        let body = encoded(batch, &self.labels);
        let headers = [
            ("Content-Encoding", "snappy"),
            ("Content-Type", "application/x-protobuf"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        let mut pause = PAUSES.0;
        loop {
            let error = match self.store.send("/api/v1/write", &headers, &body) {
                Ok(()) => return true,
                Err(error) => error,
            };
            let again = may_pass(&error);
            if let Ok(mut trouble) = self.fate.trouble.lock() {
                *trouble = Some(error.to_string());
            }
            if !again || !self.rest(pause) {
                return false;
            }
            self.fate.retries.fetch_add(1, Ordering::Relaxed);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Waits before the next try; false when there is no time left for one.
    fn rest(&mut self, pause: Duration) -> bool {
        let until = match self.until {
            Some(until) => until,
            None => match self.ended.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => return true,
                // the recording has ended meanwhile
                _ => *self.until.insert(Instant::now() + LAST_WORDS),
            },
        };
        let left = until.saturating_duration_since(Instant::now());
        if left < PAUSES.0 {
            return false;
        }
        // nothing arrives there any more: a pause, and no more than that
        let (_never, nothing) = sync_channel::<()>(0);
        let _ = nothing.recv_timeout(PAUSES.0);
        true
    }
}

/// True where the same request may be taken later.
fn may_pass(error: &RemoteError) -> bool {
    match error {
        RemoteError::Connection { .. } => true,
        RemoteError::Refused { status, .. } => *status == 429 || *status >= 500,
        _ => false,
    }
}

/// A request of these ticks: series after series, packed.
fn encoded(batch: &[Shot], labels: &[(String, String)]) -> Vec<u8> {
    let mut request = WriteRequest::default();
    let mut from = 0;
    while from < batch.len() {
        let names = &batch[from].names;
        let alike = batch[from..].iter().take_while(|shot| Arc::ptr_eq(&shot.names, names)).count();
        let shots = &batch[from..from + alike];
        for (at, named) in names.iter().enumerate() {
            let found = shots.iter().map(|shot| Sample { value: shot.values[at], timestamp: shot.time_ms });
            let samples: Vec<Sample> = found.filter(|sample| !sample.value.is_nan()).collect();
            if samples.is_empty() {
                continue;
            }
            let mut pairs: Vec<(&str, &str)> = vec![("__name__", &named.metric)];
            pairs.extend(labels.iter().chain(&named.labels).map(|(name, value)| (name.as_str(), value.as_str())));
            // the protocol wants them sorted
            pairs.sort_unstable();
            let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
            request.timeseries.push(TimeSeries { labels: pairs.into_iter().map(label).collect(), samples });
        }
        from += alike;
    }
    let plain = request.encode_to_vec();
    // it fails for more than 4 GB alone, and a batch is bounded
    snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Named;

    #[test]
    fn a_request_has_each_series_once_with_sorted_labels() {
        let named = |metric: &str| Named {
            metric: metric.into(),
            labels: vec![("device".into(), "sda".into())],
            help: String::new(),
            is_total: true,
        };
        let names = Arc::new(vec![named("b_total"), named("a_total")]);
        let shot = |time_ms, value| Shot { time_ms, names: Arc::clone(&names), values: vec![value, f64::NAN] };
        let labels = [("instance".to_owned(), "db1".to_owned())];
        let body = encoded(&[shot(1, 2.0), shot(2, 3.0)], &labels);
        let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let request = WriteRequest::decode(plain.as_slice()).unwrap();
        assert_eq!(request.timeseries.len(), 1);
        let series = &request.timeseries[0];
        let names: Vec<&str> = series.labels.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["__name__", "device", "instance"]);
        let samples: Vec<(i64, f64)> = series.samples.iter().map(|s| (s.timestamp, s.value)).collect();
        assert_eq!(samples, [(1, 2.0), (2, 3.0)]);
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let refused = |status| RemoteError::Refused { url: String::new(), status, says: String::new() };
        assert!(may_pass(&refused(503)) && may_pass(&refused(429)));
        assert!(!may_pass(&refused(400)));
    }
}
