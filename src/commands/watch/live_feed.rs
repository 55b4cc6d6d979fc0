//! This machine's ticks. A separate thread samples, so that a slow terminal delays no tick.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use diskwright_base::units::format_count;
use diskwright_base::{Note, Schema, Tick};
use diskwright_counters::live::SamplerOptions;
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_dashboard::alerts::AlertEvent;
use diskwright_dashboard::{History, RecentHistory};
use diskwright_datastore::WriterOptions;

use super::super::Failure;
use super::super::alerts::AlertMonitor;
use super::super::capture::CaptureThread;
use super::super::pacer::Pacer;
use crate::commands::live_sampler::live_sampler;

/// Maximum number of ticks that wait for the screen; further ones are dropped, which is reported.
const MAX_QUEUED_TICKS: usize = 120;
/// Memory for the history, bytes.
const HISTORY_BYTES: usize = 192 << 20;

/// Interval between process tables, which are also taken at once if a reader waits for one: they cause a third of the
/// screen's cost.
const PROCESS_INTERVAL: Duration = Duration::from_secs(10);

/// A tick of the sampler.
struct LiveTick {
    schema: Arc<Schema>,
    tick: Tick,
    row: Vec<f64>,
    notes: Vec<Note>,
    /// Changes of alerts at this tick.
    alerts: Vec<Note>,
    /// Note on dropped ticks before this one.
    skipped: Option<Note>,
}

/// Notes of ticks that were dropped: they go with the next tick that is sent.
#[derive(Default)]
struct TickBacklog {
    dropped_ticks: u64,
    notes: Vec<Note>,
    alerts: Vec<Note>,
}

impl TickBacklog {
    /// Attaches the notes to a tick.
    fn attach_to(&mut self, mut tick: LiveTick) -> LiveTick {
        let (notes, alerts) = (std::mem::take(&mut tick.notes), std::mem::take(&mut tick.alerts));
        tick.notes = self.notes.drain(..).chain(notes).collect();
        tick.alerts = self.alerts.drain(..).chain(alerts).collect();
        tick.skipped = (self.dropped_ticks > 0).then(|| {
            let text =
                format_count(self.dropped_ticks, "tick was", "ticks were") + " skipped: the terminal was too slow";
            Note::new(tick.tick.time_ns, Note::GAP, text)
        });
        tick
    }

    /// Keeps the notes of a dropped tick about the machine and its clock; process tables are repeated anyway.
    fn keep_late(&mut self, late: LiveTick) {
        self.dropped_ticks += 1;
        (self.notes, self.alerts) = (late.notes, late.alerts);
        self.notes.retain(|note| note.kind != Note::PROCESSES);
    }
}

/// The sampler's thread, and the history so far.
pub struct LiveFeed {
    ticks: Receiver<LiveTick>,
    history: RecentHistory,
    every: Duration,
    ticks_taken: usize,
}

/// A sampler that reads the first tick while another thread loads rules; it ends if it gets no alerts to search for.
pub struct StartedFeed {
    feed: LiveFeed,
    alerts: SyncSender<(AlertMonitor, Option<CaptureThread>)>,
}

impl StartedFeed {
    /// Returns the feed of ticks, which is searched for alerts; `captures` save what will be gone when one begins.
    pub fn with_alerts(self, alerts: AlertMonitor, captures: Option<CaptureThread>) -> LiveFeed {
        // a sampler that has failed is noticed when ticks are taken
        let _ = self.alerts.send((alerts, captures));
        self.feed
    }
}

impl LiveFeed {
    /// Starts sampling.
    pub fn begin_sampling(every: Duration) -> Result<StartedFeed, Failure> {
        let ((sender, ticks), (alerts, monitor)) = (sync_channel(MAX_QUEUED_TICKS), sync_channel(1));
        let sample = move || {
            if let Err(failure) = sample_ticks(every, &monitor, &sender) {
                super::super::output::print_warning(failure);
            }
        };
        std::thread::Builder::new()
            .name("sampler".into())
            .spawn(sample)
            .map_err(|e| Failure::Failed(format!("the thread that samples this machine cannot start: {e}")))?;
        let feed = LiveFeed { ticks, history: RecentHistory::new(HISTORY_BYTES), every, ticks_taken: 0 };
        Ok(StartedFeed { feed, alerts })
    }

    /// Returns the history so far.
    pub fn history(&self) -> &dyn History {
        &self.history
    }

    /// Time between ticks.
    pub fn interval_ns(&self) -> i64 {
        i64::try_from(self.every.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Takes the waiting ticks; true if there were any.
    pub fn take_ticks(&mut self) -> Result<bool, Failure> {
        let before = self.ticks_taken;
        loop {
            match self.ticks.try_recv() {
                Ok(tick) => self.keep_tick(tick),
                Err(TryRecvError::Empty) => return Ok(self.ticks_taken > before),
                // a frozen screen must not look like an idle machine
                Err(TryRecvError::Disconnected) => return Err(Failure::Failed("the sampler has ended".into())),
            }
        }
    }

    /// Waits until this many ticks have arrived.
    pub fn wait_for_ticks(&mut self, count: usize) -> Result<(), Failure> {
        while self.ticks_taken < count {
            match self.ticks.recv_timeout(self.every * 20) {
                Ok(tick) => self.keep_tick(tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => return Err(Failure::Failed("the sampler gives no ticks".into())),
            }
        }
        Ok(())
    }

    /// Adds a note of the user.
    pub fn add_note(&mut self, note: Note) {
        self.history.add_note(note);
    }

    fn keep_tick(&mut self, tick: LiveTick) {
        tick.notes.into_iter().for_each(|note| self.history.add_note(note));
        self.history.push(&tick.schema, tick.tick, &tick.row);
        tick.alerts.into_iter().chain(tick.skipped).for_each(|note| self.history.add_note(note));
        self.ticks_taken += 1;
    }
}

/// Samples until nobody listens or a signal asks to end.
fn sample_ticks(
    every: Duration,
    monitor: &Receiver<(AlertMonitor, Option<CaptureThread>)>,
    sender: &SyncSender<LiveTick>,
) -> Result<(), Failure> {
    let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
    let options = SamplerOptions {
        slow_interval: every.max(PROCESS_INTERVAL),
        raises_priority: true,
        ..SamplerOptions::default()
    };
    let mut sampler = live_sampler(options);
    let mut pacer = Pacer::new(every, None)?;
    let mut backlog = TickBacklog::default();
    sampler.tick();
    let Ok((mut monitor, mut captures)) = monitor.recv() else { return Ok(()) };
    loop {
        let mut notes = sampler.take_notes();
        // rounded as in a log, so that a replay shows the same digits
        let tick = WriterOptions::default().round_tick(sampler.tick_stamp());
        let (schema, row) = (sampler.schema().clone(), sampler.row().to_vec());
        notes.iter().for_each(|note| monitor.handle_note(note));
        let events = monitor.handle_tick(&schema, tick, &row);
        if let Some(captures) = &mut captures {
            captures.handle_events(&events);
            notes.extend(captures.take_notes());
        }
        let alerts = events.iter().map(AlertEvent::to_log_note).collect();
        match sender.try_send(backlog.attach_to(LiveTick { schema, tick, row, notes, alerts, skipped: None })) {
            Ok(()) => backlog.dropped_ticks = 0,
            Err(TrySendError::Full(late)) => backlog.keep_late(late),
            Err(TrySendError::Disconnected(_)) => return Ok(()),
        }
        if !pacer.wait_for_tick(|_| {}) {
            return Ok(());
        }
        if !pacer.sample_tick(&mut sampler) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ticks_hand_their_notes_to_the_next_one() {
        let note = |kind: &str| Note::new(1, kind, "text");
        let tick = |notes: Vec<Note>, alerts: Vec<Note>| {
            let (schema, tick) = (Arc::default(), Tick::default());
            LiveTick { schema, tick, row: Vec::new(), notes, alerts, skipped: None }
        };
        let mut backlog = TickBacklog::default();
        for kind in [Note::TOPOLOGY, Note::CLOCK] {
            let late = backlog.attach_to(tick(vec![note(kind), note(Note::PROCESSES)], vec![note(Note::ALERT)]));
            backlog.keep_late(late);
        }
        let sent = backlog.attach_to(tick(vec![note(Note::BOOKMARK)], Vec::new()));
        let kinds: Vec<&str> = sent.notes.iter().map(|note| note.kind.as_str()).collect();
        assert_eq!((kinds, sent.alerts.len()), (vec![Note::TOPOLOGY, Note::CLOCK, Note::BOOKMARK], 2));
        assert!(sent.skipped.is_some_and(|note| note.text().starts_with("2 ticks were skipped")));
    }
}
