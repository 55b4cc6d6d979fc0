//! Decouples the sampler from the log's disk. The sampler puts each tick into a bounded queue and never waits; a
//! separate thread writes the queue. A disk that stalls delays writing but no sample, until the queue is full: from
//! then on ticks are lost, counted and noted in the log.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskwright_base::units::format_count;
use diskwright_base::{Note, Schema, Tick};

/// Maximum number of queued bytes: at one tick per second, more than ten minutes of 300 disks, or hours of 24.
pub const MAX_QUEUED_BYTES: usize = 64 << 20;
/// Maximum number of written rows kept for reuse.
const MAX_FREE_ROWS: usize = 16;
/// Waiting longer than this at the end is reported.
const SLOW_END_AFTER: Duration = Duration::from_secs(1);

/// Entry of the queue: entries are written in the order in which they were queued.
#[derive(Clone, Debug)]
pub enum LogQueueEntry {
    /// A sample.
    Tick {
        /// Its columns.
        schema: Arc<Schema>,
        /// Its time.
        tick: Tick,
        /// Its cells.
        row: Vec<f64>,
    },
    /// A note.
    Note(Note),
}

impl LogQueueEntry {
    fn size_bytes(&self) -> usize {
        let entry_bytes = size_of::<LogQueueEntry>();
        match self {
            LogQueueEntry::Tick { row, .. } => entry_bytes + size_of_val(row.as_slice()),
            LogQueueEntry::Note(note) => entry_bytes + note.content_bytes() + note.kind.len(),
        }
    }
}

#[derive(Default)]
struct LogQueueState {
    entries: VecDeque<LogQueueEntry>,
    bytes: usize,
    /// Written rows, for reuse.
    free_rows: Vec<Vec<f64>>,
    /// Number of ticks lost since the last tick that found room in the queue, and the time of the first lost tick.
    lost_ticks: Option<(u64, i64)>,
    /// True while the thread writes a tick.
    is_writing: bool,
    is_closed: bool,
    is_ended: bool,
}

#[derive(Default)]
struct LogQueue {
    state: Mutex<LogQueueState>,
    changed: Condvar,
}

impl LogQueue {
    fn lock_state(&self) -> MutexGuard<'_, LogQueueState> {
        // no holder of the lock leaves the state inconsistent, even if it panics
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the end of the thread when it is dropped, also by a panic: who waits for the thread must not wait for a disk.
struct EndMark<'a>(&'a LogQueue);

impl Drop for EndMark<'_> {
    fn drop(&mut self) {
        self.0.lock_state().is_ended = true;
        self.0.changed.notify_all();
    }
}

/// The thread that writes a log.
pub struct LogThread<E> {
    queue: Arc<LogQueue>,
    max_bytes: usize,
    thread: Option<JoinHandle<Result<(), E>>>,
    /// Ticks that were lost because the queue was full.
    pub lost_ticks: u64,
}

/// Result of ending a thread that had queued entries.
#[derive(Debug, PartialEq, Eq)]
pub enum QueueEnd<E> {
    /// All entries are written.
    Written,
    /// The writer failed.
    Failed(E),
    /// This many ticks wait for a disk that accepts nothing.
    Stuck(u64),
}

impl<E: Send + 'static> LogThread<E> {
    /// Starts the thread; `write` is called with each entry, and `close` after the last.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start<W: Send + 'static>(
        most_bytes: usize,
        mut writer: W,
        write: impl Fn(&mut W, &LogQueueEntry) -> Result<(), E> + Send + 'static,
        close: impl FnOnce(W) -> Result<(), E> + Send + 'static,
    ) -> std::io::Result<LogThread<E>> {
        let queue = Arc::new(LogQueue::default());
        let own = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("log".into())
            .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
            .spawn(move || {
                let _end = EndMark(&own);
                drain_queue(&own, |entry| write(&mut writer, entry)).and_then(|()| close(writer))
            })?;
        Ok(LogThread { queue, max_bytes: most_bytes, thread: Some(thread), lost_ticks: 0 })
    }

    /// Queues a tick. False if the thread has ended, which only a failure causes.
    pub fn queue_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> bool {
        let mut state = self.queue.lock_state();
        let mut cells = state.free_rows.pop().unwrap_or_default();
        cells.clear();
        if cells.capacity() / 4 > row.len() {
            // the row comes from a time when the machine had many more devices
            cells = Vec::new();
        }
        cells.extend_from_slice(row);
        let entry = LogQueueEntry::Tick { schema: Arc::clone(schema), tick, row: cells };
        if state.bytes + entry.size_bytes() > self.max_bytes {
            let (lost, since) = state.lost_ticks.unwrap_or((0, tick.time_ns));
            state.lost_ticks = Some((lost + 1, since));
            self.lost_ticks += 1;
            return !state.is_ended;
        }
        if let Some((lost, since)) = state.lost_ticks.take() {
            let lost = format_count(lost, "tick was", "ticks were");
            let text = format!("{lost} lost: the log's disk accepted no data, and the queue in front of it was full");
            push_entry(&mut state, LogQueueEntry::Note(Note::new(since, Note::GAP, text)));
        }
        push_entry(&mut state, entry);
        self.queue.changed.notify_all();
        !state.is_ended
    }

    /// Queues a note, beyond the limit if necessary: notes are few, and a lost one explains nothing.
    pub fn queue_note(&mut self, note: Note) {
        let mut state = self.queue.lock_state();
        if state.bytes <= 2 * self.max_bytes {
            push_entry(&mut state, LogQueueEntry::Note(note));
            self.queue.changed.notify_all();
        }
    }

    /// Number of ticks that wait to be written.
    #[cfg(test)]
    pub fn waiting_ticks(&self) -> u64 {
        count_ticks(&self.queue.lock_state())
    }

    /// Asks the thread to write the queue and to end, and waits for that at most this long. Calls `on_slow` with the
    /// number of waiting ticks if it takes longer than [`SLOW_END_AFTER`].
    pub fn end_thread(mut self, timeout: Duration, on_slow: impl FnOnce(u64)) -> QueueEnd<E> {
        let begin = Instant::now();
        let (end, mut on_slow) = (begin + timeout, Some(on_slow));
        let mut state = self.queue.lock_state();
        state.is_closed = true;
        self.queue.changed.notify_all();
        while !state.is_ended {
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return QueueEnd::Stuck(count_ticks(&state));
            }
            if begin.elapsed() >= SLOW_END_AFTER
                && let Some(on_slow) = on_slow.take()
            {
                on_slow(count_ticks(&state));
            }
            let nap = if on_slow.is_some() { remaining.min(SLOW_END_AFTER) } else { remaining };
            state = self.queue.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => QueueEnd::Failed(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Ok(()))) | None => QueueEnd::Written,
        }
    }
}

fn push_entry(state: &mut LogQueueState, entry: LogQueueEntry) {
    state.bytes += entry.size_bytes();
    state.entries.push_back(entry);
}

fn count_ticks(state: &LogQueueState) -> u64 {
    let queued = state.entries.iter().filter(|entry| matches!(entry, LogQueueEntry::Tick { .. })).count();
    queued as u64 + u64::from(state.is_writing)
}

/// Writes entries as they come until the queue is closed and empty.
fn drain_queue<E>(queue: &LogQueue, mut write: impl FnMut(&LogQueueEntry) -> Result<(), E>) -> Result<(), E> {
    loop {
        let mut state = queue.lock_state();
        while state.entries.is_empty() && !state.is_closed {
            state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(entry) = state.entries.pop_front() else { return Ok(()) };
        let bytes = entry.size_bytes();
        state.is_writing = matches!(entry, LogQueueEntry::Tick { .. });
        drop(state);
        let result = write(&entry);
        let mut state = queue.lock_state();
        state.is_writing = false;
        state.bytes -= bytes;
        if let LogQueueEntry::Tick { row, .. } = entry
            && state.free_rows.len() < MAX_FREE_ROWS
        {
            state.free_rows.push(row);
        }
        result?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A thread whose disk accepts one entry per message sent, and what it wrote.
    fn gated_thread(most_bytes: usize) -> (LogThread<String>, Sender<()>, Arc<Mutex<Vec<String>>>) {
        let (go, goes): (Sender<()>, Receiver<()>) = channel();
        let written: Arc<Mutex<Vec<String>>> = Arc::default();
        let write = |(goes, written): &mut (Receiver<()>, Arc<Mutex<Vec<String>>>), entry: &LogQueueEntry| {
            goes.recv().map_err(|e| e.to_string())?;
            written.lock().unwrap().push(match entry {
                LogQueueEntry::Tick { tick, row, .. } => format!("{}: {row:?}", tick.time_ns),
                LogQueueEntry::Note(note) => note.text().to_owned(),
            });
            Ok(())
        };
        let log = LogThread::start(most_bytes, (goes, Arc::clone(&written)), write, |_| Ok(())).unwrap();
        (log, go, written)
    }

    fn put(log: &mut LogThread<String>, time_ns: i64) -> bool {
        log.queue_tick(&Arc::default(), Tick { time_ns, elapsed_ns: 1 }, &[time_ns as f64])
    }

    #[test]
    fn stalled_disk_costs_no_tick() {
        let (mut log, go, written) = gated_thread(MAX_QUEUED_BYTES);
        for time in 0..600 {
            assert!(put(&mut log, time));
        }
        log.queue_note(Note::new(7, Note::WARNING, "a note"));
        assert_eq!((log.waiting_ticks(), log.lost_ticks), (600, 0));
        (0..601).for_each(|_| go.send(()).unwrap());
        assert_eq!(log.end_thread(PATIENCE, |_| {}), QueueEnd::Written);
        let written = written.lock().unwrap();
        assert_eq!(written.len(), 601);
        assert_eq!((written[599].as_str(), written[600].as_str()), ("599: [599.0]", "a note"));
    }

    #[test]
    fn counts_lost_ticks_and_notes_them_in_place() {
        let each = LogQueueEntry::Tick { schema: Arc::default(), tick: Tick::default(), row: vec![0.0] }.size_bytes();
        let (mut log, go, written) = gated_thread(3 * each);
        for time in 1..=8 {
            put(&mut log, time);
        }
        assert_eq!((log.lost_ticks, log.waiting_ticks()), (5, 3));
        // wait until the thread has made room in the queue
        go.send(()).unwrap();
        go.send(()).unwrap();
        while log.waiting_ticks() > 1 {
            std::thread::yield_now();
        }
        put(&mut log, 9);
        (0..4).for_each(|_| {
            // the thread may have ended
            let _ = go.send(());
        });
        assert_eq!(log.end_thread(PATIENCE, |_| {}), QueueEnd::Written);
        let written = written.lock().unwrap();
        assert_eq!(written[..3], ["1: [1.0]", "2: [2.0]", "3: [3.0]"]);
        assert!(written[3].starts_with("5 ticks were lost"), "{written:?}");
        assert_eq!(written[4], "9: [9.0]");
    }

    #[test]
    fn a_writer_that_panics_is_no_disk_that_hangs() {
        let mut log: LogThread<String> =
            LogThread::start(MAX_QUEUED_BYTES, (), |(), _| panic!("on purpose"), |()| Ok(())).unwrap();
        while put(&mut log, 1) {
            std::thread::yield_now();
        }
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| log.end_thread(PATIENCE, |_| {})));
        assert!(end.is_err(), "the panic is passed on");
    }

    #[test]
    fn reports_a_failed_writer_and_does_not_wait_for_a_hung_one() {
        let (mut log, go, _) = gated_thread(MAX_QUEUED_BYTES);
        drop(go);
        while put(&mut log, 1) {
            std::thread::yield_now();
        }
        assert!(matches!(log.end_thread(PATIENCE, |_| {}), QueueEnd::Failed(_)));
        let (mut log, _go, _) = gated_thread(MAX_QUEUED_BYTES);
        put(&mut log, 1);
        put(&mut log, 2);
        assert_eq!(log.end_thread(Duration::from_millis(50), |_| {}), QueueEnd::Stuck(2));
        let (mut log, _go, _) = gated_thread(MAX_QUEUED_BYTES);
        put(&mut log, 1);
        let mut waiting = None;
        assert_eq!(
            log.end_thread(SLOW_END_AFTER + Duration::from_millis(500), |ticks| waiting = Some(ticks)),
            QueueEnd::Stuck(1)
        );
        assert_eq!(waiting, Some(1), "waiting is reported while it lasts");
    }
}
