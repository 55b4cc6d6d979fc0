//! Remote write 1.0: sends a recorder's ticks to a store through a bounded queue. The recorder never waits: samples
//! that do not fit into the queue are lost, counted and reported.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message;

use crate::client::MetricStore;
use crate::error::RemoteError;
use crate::feed::SeriesSnapshot;

/// Stack of the thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 1 << 20;
/// Largest number of queued ticks: ten minutes at one per second.
pub const MAX_QUEUED_TICKS: usize = 600;
/// Largest number of queued samples, which take 64 MiB: with many series, they are reached before the number of ticks.
const MAX_QUEUED_SAMPLES: u64 = 8 << 20;
/// Approximate number of samples in one request.
const BATCH_SAMPLES: u64 = 10_000;
/// Longest time that a tick waits until others fill a request.
const MAX_LINGER: Duration = Duration::from_secs(2);
/// Shortest and longest pause after a failure.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Pause between two tries after the recording has ended.
const FINAL_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Time for sending the queued ticks after the recording has ended.
const FINISH_GRACE: Duration = Duration::from_millis(1200);
/// Longest time to wait afterwards until the request in flight is cancelled.
const INTERRUPT_GRACE: Duration = Duration::from_millis(300);

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<WriteLabel>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<WriteSample>,
}

#[derive(Clone, PartialEq, Message)]
struct WriteLabel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WriteSample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Counts of sent and lost samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Samples that the store has accepted.
    pub sent: u64,
    /// Samples that will never reach the store.
    pub lost: u64,
    /// Requests that were tried again.
    pub retries: u64,
}

/// Sends ticks from a separate thread.
pub struct RemoteWriter {
    shared: Arc<SenderState>,
    store: Arc<MetricStore>,
    thread: Option<JoinHandle<()>>,
    result: Option<SendResult>,
}

/// State shared by recorder and sender.
#[derive(Default)]
struct SenderState {
    queue: Mutex<SendQueue>,
    /// Notified when the queue changes.
    changed: Condvar,
    sent: AtomicU64,
    lost: AtomicU64,
    retries: AtomicU64,
    /// The current failure.
    trouble: Mutex<Option<String>>,
}

/// Ticks that wait to be sent.
#[derive(Default)]
struct SendQueue {
    ticks: VecDeque<SeriesSnapshot>,
    /// Samples of the queued ticks, and of the batch that is being sent.
    samples: u64,
    /// Time when the recording ended.
    ended: Option<Instant>,
    /// The sender has nothing left to do.
    is_done: bool,
}

impl SendQueue {
    /// Time after which no more tries are made.
    fn deadline(&self) -> Option<Instant> {
        self.ended.map(|ended| ended + FINISH_GRACE)
    }
}

impl SenderState {
    fn lock_queue(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_ready` returns true, or until the time `until`, if there is one.
    fn wait_until(&self, until: Option<Instant>, is_ready: impl Fn(&SendQueue) -> bool) -> MutexGuard<'_, SendQueue> {
        let mut queue = self.lock_queue();
        while !is_ready(&queue) {
            queue = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(time_left) => {
                    self.changed.wait_timeout(queue, time_left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        queue
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_trouble(&self, text: Option<String>) {
        *self.lock_trouble() = text;
    }
}

impl RemoteWriter {
    /// Starts to send to a store ([`MetricStore::for_writing`]); every series gets `labels`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(store: MetricStore, labels: Vec<(String, String)>) -> std::io::Result<RemoteWriter> {
        let (shared, store) = (Arc::new(SenderState::default()), Arc::new(store));
        let sender = Sender { store: Arc::clone(&store), labels, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new()
            .name("remote-write".into())
            .stack_size(STACK_BYTES)
            .spawn(move || sender.run())?;
        Ok(RemoteWriter { shared, store, thread: Some(thread), result: None })
    }

    /// Queues a tick, without waiting.
    pub fn push(&self, snapshot: &SeriesSnapshot) {
        let snapshot = snapshot.clone();
        let samples = sample_count(&snapshot);
        let mut queue = self.shared.lock_queue();
        let is_full = queue.ticks.len() >= MAX_QUEUED_TICKS || queue.samples + samples > MAX_QUEUED_SAMPLES;
        if queue.ended.is_some() || (is_full && !queue.ticks.is_empty()) {
            self.shared.lost.fetch_add(samples, Ordering::Relaxed);
            return;
        }
        queue.samples += samples;
        queue.ticks.push_back(snapshot);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Returns the counts so far.
    pub fn send_result(&self) -> SendResult {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let SenderState { sent, lost, retries, .. } = &*self.shared;
        self.result.unwrap_or_else(|| SendResult { sent: count(sent), lost: count(lost), retries: count(retries) })
    }

    /// Returns the current failure, if any.
    pub fn current_trouble(&self) -> Option<String> {
        self.shared.lock_trouble().clone()
    }

    /// Sends the queued ticks, and returns after at most a second and a half, whatever the store does.
    pub fn finish(&mut self) -> SendResult {
        let Some(thread) = self.thread.take() else { return self.send_result() };
        let ended = Instant::now();
        self.shared.lock_queue().ended = Some(ended);
        self.shared.changed.notify_all();
        let wait_for_sender = |until| self.shared.wait_until(Some(until), |queue| queue.is_done).is_done;
        let mut is_done = wait_for_sender(ended + FINISH_GRACE);
        if !is_done {
            self.store.interrupt();
            is_done = wait_for_sender(ended + FINISH_GRACE + INTERRUPT_GRACE);
        }
        if is_done {
            // the thread is about to end, so this does not block
            let _ = thread.join();
        }
        // a thread that still hangs (in name resolution, say) ends with the process;
        // its current batch is as lost as the queued ticks
        let unsent = if is_done { 0 } else { self.shared.lock_queue().samples };
        let mut result = self.send_result();
        result.lost += unsent;
        *self.result.insert(result)
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Number of samples in a snapshot.
fn sample_count(snapshot: &SeriesSnapshot) -> u64 {
    snapshot.values.iter().filter(|v| !v.is_nan()).count() as u64
}

/// Sender of batches, which runs in its own thread.
struct Sender {
    store: Arc<MetricStore>,
    labels: Vec<(String, String)>,
    shared: Arc<SenderState>,
}

impl Sender {
    fn run(&self) {
        while let Some((batch, count)) = self.next_batch() {
            let counter = if self.deliver_batch(&batch) { &self.shared.sent } else { &self.shared.lost };
            // both counts change under the lock, so that `finish` counts each sample once
            let mut queue = self.shared.lock_queue();
            assert!(count <= queue.samples, "samples count as queued until their batch was sent");
            queue.samples -= count;
            counter.fetch_add(count, Ordering::Relaxed);
        }
        self.shared.lock_queue().is_done = true;
        self.shared.changed.notify_all();
    }

    /// Waits for the next batch of ticks, and returns it with its number of samples, which still count as queued;
    /// `None` after the last batch.
    fn next_batch(&self) -> Option<(Vec<SeriesSnapshot>, u64)> {
        drop(self.shared.wait_until(None, |queue| !queue.ticks.is_empty() || queue.ended.is_some()));
        let linger = Some(Instant::now() + MAX_LINGER);
        let mut queue = self.shared.wait_until(linger, |queue| queue.samples >= BATCH_SAMPLES || queue.ended.is_some());
        let (mut batch, mut count) = (Vec::new(), 0);
        while count < BATCH_SAMPLES {
            let Some(snapshot) = queue.ticks.pop_front() else { break };
            count += sample_count(&snapshot);
            batch.push(snapshot);
        }
        if batch.is_empty() { None } else { Some((batch, count)) }
    }

    /// Sends a batch, with retries; returns true if the store has accepted it.
    fn deliver_batch(&self, batch: &[SeriesSnapshot]) -> bool {
        let body = encode_request(batch, &self.labels);
        let headers = [
            ("Content-Encoding", "snappy"),
            ("Content-Type", "application/x-protobuf"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        let mut pause = RETRY_PAUSES.0;
        let is_over = || self.shared.lock_queue().deadline().is_some_and(|deadline| Instant::now() >= deadline);
        loop {
            if is_over() {
                return false;
            }
            let error = match self.store.send("", &headers, &body) {
                Ok(()) => {
                    self.shared.set_trouble(None);
                    return true;
                }
                Err(error) => error,
            };
            if is_over() {
                // `finish` has cancelled the request; an earlier failure explains more
                self.shared.lock_trouble().get_or_insert_with(|| "no response before the recording ended".into());
                return false;
            }
            self.shared.set_trouble(Some(error.to_string()));
            if !can_retry(&error) || !self.wait_before_retry(jitter_pause(pause).max(retry_after(&error))) {
                return false;
            }
            self.shared.retries.fetch_add(1, Ordering::Relaxed);
            pause = (pause * 2).min(RETRY_PAUSES.1);
        }
    }

    /// Waits before the next try; returns false if there is no time left for a try.
    fn wait_before_retry(&self, pause: Duration) -> bool {
        let start = Instant::now();
        let Some(deadline) = self.shared.wait_until(Some(start + pause), |queue| queue.ended.is_some()).deadline()
        else {
            return true;
        };
        let next_try = start + FINAL_RETRY_PAUSE;
        if next_try >= deadline {
            return false;
        }
        drop(self.shared.wait_until(Some(next_try), |_| false));
        true
    }
}

/// Returns a random pause between half of `pause` and `pause`, so that recorders that lost their store at the same time
/// do not all retry at once.
fn jitter_pause(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8) as f64 / u64::MAX as f64;
    pause.mul_f64(0.5 + random / 2.0)
}

/// Returns the pause that the store requests before the next try.
fn retry_after(error: &RemoteError) -> Duration {
    match error {
        RemoteError::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

/// Returns true if the store may accept the same request later.
fn can_retry(error: &RemoteError) -> bool {
    match error {
        RemoteError::Connection { .. } => true,
        RemoteError::Refused { status, .. } => matches!(*status, 408 | 429) || *status >= 500,
        _ => false,
    }
}

/// Encodes and compresses a request with these ticks, one series after another.
fn encode_request(batch: &[SeriesSnapshot], labels: &[(String, String)]) -> Vec<u8> {
    let mut request = WriteRequest::default();
    let mut remaining = batch;
    while let Some(first) = remaining.first() {
        let names = &first.names;
        let same_names = remaining.iter().take_while(|snapshot| Arc::ptr_eq(&snapshot.names, names)).count();
        let (snapshots, tail) = remaining.split_at(same_names);
        for (index, named) in names.iter().enumerate() {
            let to_sample = |tick: &SeriesSnapshot| WriteSample { value: tick.values[index], timestamp: tick.time_ms };
            let samples: Vec<WriteSample> =
                snapshots.iter().map(to_sample).filter(|sample| !sample.value.is_nan()).collect();
            if samples.is_empty() {
                continue;
            }
            let mut pairs: Vec<(&str, &str)> = vec![("__name__", &named.metric)];
            pairs.extend(labels.iter().chain(&named.labels).map(|(name, value)| (name.as_str(), value.as_str())));
            // the protocol requires sorted labels
            pairs.sort_unstable();
            let to_label = |(name, value): (&str, &str)| WriteLabel { name: name.to_owned(), value: value.to_owned() };
            request.timeseries.push(TimeSeries { labels: pairs.into_iter().map(to_label).collect(), samples });
        }
        remaining = tail;
    }
    let plain = request.encode_to_vec();
    // compression fails only for more than 4 GB, and a batch is bounded
    snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::SeriesName;

    #[test]
    fn a_request_has_each_series_once_with_sorted_labels() {
        let named = |metric: &str| SeriesName {
            metric: metric.into(),
            labels: vec![("device".into(), "sda".into())],
            help: String::new(),
            is_total: true,
        };
        let names = Arc::new(vec![named("b_total"), named("a_total")]);
        let shot =
            |time_ms, value| SeriesSnapshot { time_ms, names: Arc::clone(&names), values: vec![value, f64::NAN] };
        let labels = [("instance".to_owned(), "db1".to_owned())];
        let body = encode_request(&[shot(1, 2.0), shot(2, 3.0)], &labels);
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
    fn temporary_errors_are_retried() {
        let refused =
            |status| RemoteError::Refused { url: String::new(), status, says: String::new(), retry_after: None };
        assert!(can_retry(&refused(503)) && can_retry(&refused(429)));
        assert!(!can_retry(&refused(400)) && !can_retry(&refused(302)));
        let pause = Duration::from_secs(8);
        let spread: Vec<Duration> = (0..20).map(|_| jitter_pause(pause)).collect();
        assert!(spread.iter().all(|s| *s >= pause / 2 && *s <= pause), "{spread:?}");
        assert!(spread.iter().any(|s| *s != spread[0]));
    }
}
