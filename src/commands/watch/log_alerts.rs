//! Alerts of logs on the screen: a separate thread searches for them, so that the screen appears at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskwright_base::{LogPiece, Note};
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_dashboard::Alert;
use diskwright_dashboard::alerts::{alert_from_note, merge_alert};
use diskwright_datastore::LogPosition;

use super::super::Failure;
use super::super::alerts::AlertMonitor;
use super::super::log::Logs;

/// Time that is searched at the end of a log that has ended.
const ENDED_LOOKBACK_NS: i64 = 86_400_000_000_000;
/// Time that is searched at the end of a log that is being recorded, whose recorder must not lose processor time to the
/// search.
const GROWING_LOOKBACK_NS: i64 = 3_600_000_000_000;
/// Interval between checks for more ticks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between these checks for a log that stands still.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Alerts found so far.
#[derive(Default)]
struct AlertFindings {
    notes: Mutex<Vec<Note>>,
    /// True if the log has alerts of its recorder, which alerts found here would repeat.
    has_recorder_alerts: AtomicBool,
    is_done: AtomicBool,
}

/// Alerts found so far, shared with the thread, which ends when nobody reads them any more.
#[derive(Clone, Default)]
struct SharedFindings(Arc<AlertFindings>);

impl SharedFindings {
    fn lock_notes(&self) -> MutexGuard<'_, Vec<Note>> {
        // no holder of the lock leaves it in an inconsistent state, even if it panics
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a note; false if nobody reads them.
    fn send_note(&self, note: Note) -> bool {
        if !self.0.has_recorder_alerts.load(Ordering::Relaxed) {
            self.lock_notes().push(note);
        }
        self.is_read()
    }

    /// Adds a note that no log can have: a recorder does not report its own silence.
    fn keep_note(&self, note: Note) -> bool {
        self.lock_notes().push(note);
        self.is_read()
    }

    /// True while somebody reads.
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Drops the notes, because the log has its recorder's alerts.
    fn yield_to_recorder(&self) {
        if !self.0.has_recorder_alerts.swap(true, Ordering::Relaxed) {
            self.lock_notes().clear();
        }
    }
}

/// Alerts of logs.
pub struct LogAlerts {
    findings: SharedFindings,
    notes_seen: usize,
    thread: Option<JoinHandle<()>>,
}

impl LogAlerts {
    /// Starts the search. Alerts before now have no actions.
    pub fn start_scan(logs: Logs, grows: bool, monitor: AlertMonitor) -> Result<LogAlerts, Failure> {
        let findings = SharedFindings::default();
        let sender = findings.clone();
        let monitor = monitor.suppress_before(SystemClock.read_clocks().wall_ns).for_logs(&logs);
        let scan = move || {
            if let Err(failure) = scan_log(logs, grows, monitor, &sender) {
                super::super::output::print_warning(failure);
            }
            sender.0.is_done.store(true, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("log-alerts".into()).spawn(scan)?;
        Ok(LogAlerts { findings, notes_seen: 0, thread: Some(thread) })
    }

    /// Returns the same alerts for another reader.
    pub fn share_reader(&self) -> LogAlerts {
        LogAlerts { findings: self.findings.clone(), notes_seen: 0, thread: None }
    }

    /// Takes new alerts; true if there were any.
    pub fn take_new(&mut self) -> bool {
        let before = std::mem::replace(&mut self.notes_seen, self.findings.lock_notes().len());
        self.notes_seen > before
    }

    /// Waits until a log that has ended was searched.
    pub fn wait_until_done(&self) {
        // a thread that panicked has reported it
        while !self.is_done() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            crate::commands::pacer::sleep_interruptibly(POLL_INTERVAL / 50);
        }
    }

    /// True once the log was searched; for one that is being recorded, up to its current end.
    pub fn is_done(&self) -> bool {
        self.findings.0.is_done.load(Ordering::Relaxed)
    }

    /// Lists the alerts of a range, each once.
    pub fn list_alerts(&self, (from_ns, to_ns): (i64, i64)) -> Vec<Alert> {
        let mut alerts = Vec::new();
        self.findings.lock_notes().iter().filter_map(alert_from_note).for_each(|alert| merge_alert(&mut alerts, alert));
        alerts.retain(|alert| alert.begin_ns <= to_ns && alert.end_ns.is_none_or(|end_ns| end_ns >= from_ns));
        alerts
    }

    /// Reads the notes of a range.
    pub fn read_notes(&self, (from_ns, to_ns): (i64, i64), handle: &mut dyn FnMut(LogPiece<'_>)) {
        let notes = self.findings.lock_notes();
        let inside = notes.iter().filter(|note| (from_ns..=to_ns).contains(&note.time_ns));
        inside.for_each(|note| handle(LogPiece::Note(note.clone())));
    }
}

fn scan_log(
    mut logs: Logs,
    mut grows: bool,
    mut monitor: AlertMonitor,
    findings: &SharedFindings,
) -> Result<(), Failure> {
    let lookback_ns = if grows { GROWING_LOOKBACK_NS } else { ENDED_LOOKBACK_NS };
    let mut from_ns = logs.range_ns.0.max(logs.last_ns().saturating_sub(lookback_ns));
    let mut position = LogPosition::default();
    // alerts raised while no tick came: their end is reported even if the log has its own alerts
    let mut silent_ids: Vec<String> = Vec::new();
    loop {
        if !scan_new_ticks(&logs, (&mut position, from_ns), &mut monitor, (findings, &silent_ids))?
            || !(grows || logs.may_grow())
        {
            return Ok(());
        }
        monitor.start_following();
        findings.0.is_done.store(true, Ordering::Relaxed);
        if !grows && logs.has_ended() {
            monitor.handle_recorder_end();
        }
        loop {
            crate::commands::pacer::sleep_interruptibly(if grows { POLL_INTERVAL } else { IDLE_POLL_INTERVAL });
            // checked before the log is read: no tick comes after the end
            let has_ended = grows && logs.has_ended();
            from_ns = logs.range_ns.1.saturating_add(1);
            let has_grown = match logs.refresh_end() {
                // a log that ended and was removed will not be continued by a recorder
                Err(_) if !grows => return Ok(()),
                result => result?,
            };
            if has_grown {
                grows = true;
                break;
            }
            // nobody expects ticks of a log that stands still; a killed recorder does not end its log, and is reported
            grows &= !has_ended;
            if has_ended {
                monitor.handle_recorder_end();
            }
            let events = if grows { monitor.check_silence(SystemClock.read_clocks().wall_ns) } else { Vec::new() };
            silent_ids.extend(events.iter().map(|event| event.alert.id.clone()));
            if !events.iter().all(|event| findings.keep_note(event.to_log_note())) || !findings.is_read() {
                return Ok(());
            }
        }
    }
}

/// Scans the ticks after a position, or from a time if there is no position yet; false if nobody reads the alerts any
/// more. Alerts in `silent_ids` are kept even if the log has its own alerts.
fn scan_new_ticks(
    logs: &Logs,
    (position, from_ns): (&mut LogPosition, i64),
    monitor: &mut AlertMonitor,
    (findings, silent_ids): (&SharedFindings, &[String]),
) -> Result<bool, Failure> {
    let mut has_reader = true;
    let result = logs.read_new((*position, from_ns), |piece| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::ALERT => findings.yield_to_recorder(),
            LogPiece::Note(note) => monitor.handle_note(&note),
            LogPiece::Frame(frame) => {
                for event in monitor.handle_frame(frame) {
                    let is_kept = silent_ids.contains(&event.alert.id);
                    has_reader &= if is_kept {
                        findings.keep_note(event.to_log_note())
                    } else {
                        findings.send_note(event.to_log_note())
                    };
                }
            }
        }
        if has_reader { Ok(()) } else { Err(Failure::ClosedPipe) }
    });
    match result {
        Ok(end) => *position = end,
        Err(Failure::ClosedPipe) => {}
        Err(failure) => return Err(failure),
    }
    Ok(has_reader)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use diskwright_base::{Schema, Series, Tick};
    use diskwright_dashboard::alerts::rules;
    use diskwright_datastore::{LogWriter, WriterOptions};
    use diskwright_diagnosis::packs;

    use super::super::super::log::{self, LogWindow};
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Writes ticks of a disk that stalls all the time, up to a time, with an alert of the recorder. The recorder keeps
    /// running.
    fn write_stalled_ticks(writer: &mut LogWriter, (from_ns, to_ns): (i64, i64), has_own: bool) {
        write_ticks(writer, (from_ns, to_ns), 1.0);
        if has_own {
            writer.add_note(&Note::new(to_ns - SECOND, Note::ALERT, "{}")).unwrap();
        }
    }

    fn write_ticks(writer: &mut LogWriter, (from_ns, to_ns): (i64, i64), stalled: f64) {
        let series = Series { counter: "physical_disk.stalled".into(), instance: "sda".into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        for time_ns in (from_ns..=to_ns).step_by(SECOND as usize) {
            writer.push(&schema, Tick { time_ns, elapsed_ns: SECOND as u64 }, &[stalled]).unwrap();
        }
    }

    /// Alerts of a log that is being recorded, once they are known.
    fn alerts_of(log: &std::path::Path) -> LogAlerts {
        let judging = packs::builtin_pack("default").unwrap().unwrap();
        let logs = log::open(&[log.to_owned()], &LogWindow::default()).unwrap_or_else(|fault| panic!("{fault}"));
        LogAlerts::start_scan(logs, true, AlertMonitor::from_packs(rules::builtin_alerts(), judging))
            .unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "waited for {condition}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[test]
    fn adds_only_a_silent_recorder_to_the_alerts_of_a_log() {
        let now_ns = SystemClock.read_clocks().wall_ns;
        for has_own in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
            write_stalled_ticks(&mut writer, (now_ns - 120 * SECOND, now_ns - 20 * SECOND), has_own);
            let mut alerts = alerts_of(&log);
            let list = |alerts: &LogAlerts| -> Vec<(String, bool)> {
                let all = alerts.list_alerts((i64::MIN, i64::MAX)).into_iter();
                all.map(|alert| (alert.id, alert.end_ns.is_some())).collect()
            };
            let silent = |is_over: bool| ("recorder.silent".to_owned(), is_over);
            wait_until("the silence", || list(&alerts).contains(&silent(false)));
            assert!(alerts.take_new(), "the screen is drawn again");
            // alerts that the log could have are not found a second time
            assert_eq!(list(&alerts).iter().any(|(id, _)| id == "disk.stall"), !has_own, "{:?}", list(&alerts));
            let new_ns = SystemClock.read_clocks().wall_ns;
            write_stalled_ticks(&mut writer, (new_ns, new_ns + 2 * SECOND), false);
            wait_until("its end", || list(&alerts).contains(&silent(true)));
            assert_eq!(
                list(&alerts).iter().filter(|(id, _)| id == "recorder.silent").count(),
                1,
                "{:?}",
                list(&alerts)
            );
        }
    }

    /// Half an hour between two recordings in one log, the first of which ended cleanly or was killed.
    #[test]
    fn no_silence_between_recordings_that_ended_cleanly() {
        let now_ns = SystemClock.read_clocks().wall_ns;
        for has_ended in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            let first_ns = now_ns - 1700 * SECOND;
            for (to_ns, is_first) in [(first_ns, true), (now_ns - 20 * SECOND, false)] {
                let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
                write_ticks(&mut writer, (to_ns - 100 * SECOND, to_ns), 0.0);
                if is_first && has_ended {
                    writer.add_note(&Note::new(to_ns, Note::END, "the recorder ended")).unwrap();
                }
                writer.close().unwrap();
            }
            let alerts = alerts_of(&log);
            wait_until("the end of the log", || alerts.is_done());
            let found = alerts.list_alerts((i64::MIN, i64::MAX));
            let is_told = found.iter().any(|alert| alert.id == "recorder.silent");
            assert_eq!(is_told, !has_ended, "{found:?}");
        }
    }

    /// The recorder's clock was an hour ahead.
    #[test]
    fn finds_alerts_after_the_clock_was_set_back() {
        let now_ns = SystemClock.read_clocks().wall_ns;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
        write_ticks(&mut writer, (now_ns + 3500 * SECOND, now_ns + 3600 * SECOND), 0.0);
        let alerts = alerts_of(&log);
        wait_until("the end of the log", || alerts.is_done());
        write_ticks(&mut writer, (now_ns - 100 * SECOND, now_ns), 1.0);
        let list = || alerts.list_alerts((i64::MIN, i64::MAX));
        wait_until("the stall", || list().iter().any(|alert| alert.id == "disk.stall"));
    }

    #[test]
    fn recorder_that_ended_its_log_is_not_silent() {
        let now_ns = SystemClock.read_clocks().wall_ns;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
        write_stalled_ticks(&mut writer, (now_ns - 120 * SECOND, now_ns - 20 * SECOND), false);
        writer.close().unwrap();
        let alerts = alerts_of(&log);
        wait_until("the end of the log", || alerts.is_done());
        std::thread::park_timeout(POLL_INTERVAL * 4);
        let found = alerts.list_alerts((i64::MIN, i64::MAX));
        assert!(found.iter().any(|alert| alert.id == "disk.stall"), "{found:?}");
        assert!(found.iter().all(|alert| alert.id != "recorder.silent"), "{found:?}");
        // nor is the time before the next recorder silent
        let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
        let new_ns = SystemClock.read_clocks().wall_ns;
        write_ticks(&mut writer, (new_ns, new_ns + 20 * SECOND), 0.0);
        let list = || alerts.list_alerts((i64::MIN, i64::MAX));
        wait_until("the new ticks", || list().iter().any(|alert| alert.id == "disk.stall" && alert.end_ns.is_some()));
        assert!(list().iter().all(|alert| alert.id != "recorder.silent"), "{:?}", list());
    }
}
