//! Sources of the screen's ticks: this machine, or logs, which may grow.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use diskwright_base::{LogPiece, Note};
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_dashboard::{Alert, History};
use diskwright_datastore::RecorderState;

use super::super::alerts::AlertMonitor;
use super::super::capture::CaptureThread;
use super::super::log::Logs;
use super::super::{Failure, local_host_name, mark};
use super::live_feed::LiveFeed;
use super::log_alerts::LogAlerts;

/// A log whose last tick is younger than this many intervals is being recorded: a busy machine writes late.
const MAX_AGE_INTERVALS: i64 = 5;
/// A log whose last tick is younger than this is being recorded, whatever its interval.
const MAX_AGE_NS: i64 = 3_000_000_000;
/// Interval between checks whether the recorder ended or resumed.
const RECORDER_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The watched machine or logs.
pub enum WatchSource {
    /// This machine.
    Live(LiveFeed),
    /// Logs.
    Logged(Box<LoggedHistory>),
}

/// Logs that can be read repeatedly.
pub struct LoggedHistory {
    logs: Logs,
    /// Paths as given.
    paths: Vec<PathBuf>,
    interval_ns: i64,
    grows: bool,
    /// Set if the clock was set back while the log was followed: number of a tick just before that, and the time after
    /// it. Only the last set-back is known: ticks around earlier ones are read as stored.
    set_back: Option<(u64, i64)>,
    /// Time of the last check whether the log grows.
    checked_at: Instant,
    alerts: Option<LogAlerts>,
}

impl LoggedHistory {
    /// Returns the same history for another reader.
    pub fn share_reader(&self) -> LoggedHistory {
        LoggedHistory {
            logs: self.logs.for_range(self.logs.range_ns),
            paths: self.paths.clone(),
            interval_ns: self.interval_ns,
            grows: self.grows,
            set_back: self.set_back,
            checked_at: self.checked_at,
            alerts: self.alerts.as_ref().map(LogAlerts::share_reader),
        }
    }

    /// Returns the logs of a range.
    pub fn logs_of_range(&self, range: (i64, i64)) -> Logs {
        self.logs.for_range(range)
    }

    /// True if bookmarks can be stored.
    pub fn can_mark(&self) -> bool {
        matches!(self.paths.as_slice(), [path] if path.is_dir() && self.logs.can_grow())
    }
}

impl History for LoggedHistory {
    fn range(&self) -> Option<(i64, i64)> {
        let (first, last) = self.logs.range_ns;
        Some((first, if self.grows { self.logs.last_ns() } else { last }))
    }

    fn read(&self, from_ns: i64, to_ns: i64, handle: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
        let mut pass_on = |piece: LogPiece<'_>| {
            handle(piece);
            Ok::<(), Failure>(())
        };
        // an ended log is read as stored
        let result = match self.set_back.filter(|(_, back_ns)| self.grows && *back_ns <= to_ns) {
            None => self.logs.read_between((from_ns, to_ns), pass_on),
            // of times that occurred twice, only the new ticks are read
            Some((tick, back_ns)) => {
                let earlier = match from_ns < back_ns {
                    true => self.logs.read_between((from_ns, back_ns - 1), &mut pass_on),
                    false => Ok(()),
                };
                earlier.and_then(|()| self.logs.read_from_tick(tick, (from_ns.max(back_ns), to_ns), pass_on))
            }
        };
        result.map_err(|failure| failure.to_string())?;
        self.alerts.iter().for_each(|alerts| alerts.read_notes((from_ns, to_ns), handle));
        Ok(())
    }
}

impl LoggedHistory {
    /// Alerts of a range that were found in addition to those in the log, and whether the whole log was searched.
    pub fn found_alerts(&self, range: (i64, i64)) -> (Vec<Alert>, bool) {
        self.alerts.as_ref().map_or((Vec::new(), true), |alerts| (alerts.list_alerts(range), alerts.is_done()))
    }

    /// Takes newly recorded ticks; true if there are any.
    fn refresh_log(&mut self) -> Result<bool, Failure> {
        let (tick, before_ns) = (self.logs.next_tick(), self.logs.last_ns());
        let has_grown = self.logs.refresh_end()?;
        if self.logs.last_ns() < before_ns {
            self.set_back = Some((tick, self.logs.last_ns()));
        }
        Ok(has_grown)
    }

    fn take_alerts(&mut self) -> bool {
        self.alerts.as_mut().is_some_and(LogAlerts::take_new)
    }

    /// Checks now and then whether the recorder of a growing log has ended it; true if it has.
    fn poll_recorder_end(&mut self) -> bool {
        if self.checked_at.elapsed() < RECORDER_CHECK_INTERVAL {
            return false;
        }
        self.checked_at = Instant::now();
        self.logs.has_ended()
    }

    /// Checks now and then whether a log that stood still is being recorded again, and reads what was added; true if
    /// it is being recorded.
    fn poll_recorder_resume(&mut self) -> bool {
        if self.checked_at.elapsed() < RECORDER_CHECK_INTERVAL || !self.logs.may_grow() {
            return false;
        }
        self.checked_at = Instant::now();
        // a log that was removed after it was opened stays as it was read
        self.grows = self.refresh_log().unwrap_or(false);
        self.grows
    }
}

impl WatchSource {
    /// Returns this machine, sampled by a separate thread.
    pub fn from_this_machine(
        every: Duration,
        alerts: AlertMonitor,
        captures: Option<CaptureThread>,
    ) -> Result<WatchSource, Failure> {
        Ok(WatchSource::Live(LiveFeed::begin_sampling(every)?.with_alerts(alerts, captures)))
    }

    /// Returns opened logs as a source.
    pub fn from_logs(logs: Logs, paths: &[PathBuf]) -> WatchSource {
        let interval_ns = median_interval_ns(&logs);
        let grows = WatchSource::is_recorded(&logs);
        let paths = paths.to_vec();
        WatchSource::Logged(Box::new(LoggedHistory {
            logs,
            paths,
            interval_ns,
            grows,
            set_back: None,
            checked_at: Instant::now(),
            alerts: None,
        }))
    }

    /// Searches logs for alerts in addition to those that they have.
    pub fn with_alerts(mut self, monitor: AlertMonitor) -> Result<WatchSource, Failure> {
        if let WatchSource::Logged(logged) = &mut self {
            let logs = logged.logs.for_range(logged.logs.range_ns);
            logged.alerts = Some(LogAlerts::start_scan(logs, logged.grows, monitor)?);
        }
        Ok(self)
    }

    /// True for a log that is being recorded: its last tick is recent, and its recorder is not known to have gone.
    pub fn is_recorded(logs: &Logs) -> bool {
        let interval_ns = median_interval_ns(logs);
        let age = SystemClock.read_clocks().wall_ns - logs.last_ns();
        let is_young = (-interval_ns..(interval_ns * MAX_AGE_INTERVALS).max(MAX_AGE_NS)).contains(&age);
        let may_run = || match logs.recorder_state() {
            RecorderState::Ended => false,
            // the lock of a recorder elsewhere (on a shared folder, or of a log that is copied here) is not visible
            RecorderState::Gone => logs.host_name() != local_host_name(),
            RecorderState::Running | RecorderState::Unknown => true,
        };
        logs.can_grow() && is_young && may_run()
    }

    /// Returns the recorded history.
    pub fn history(&self) -> &dyn History {
        match self {
            WatchSource::Live(feed) => feed.history(),
            WatchSource::Logged(logged) => logged.as_ref(),
        }
    }

    /// First and last tick.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.history().range()
    }

    /// True if the end moves.
    pub fn is_live(&self) -> bool {
        match self {
            WatchSource::Live(_) => true,
            WatchSource::Logged(logged) => logged.grows,
        }
    }

    /// The usual time between ticks.
    pub fn interval_ns(&self) -> i64 {
        match self {
            WatchSource::Live(feed) => feed.interval_ns(),
            WatchSource::Logged(logged) => logged.interval_ns,
        }
    }

    /// Takes new ticks; true if there are any.
    pub fn take_new(&mut self) -> Result<bool, Failure> {
        match self {
            WatchSource::Live(feed) => feed.take_ticks(),
            WatchSource::Logged(logged) if logged.grows => {
                // checked before the log is read: no tick comes after the end
                let has_ended = logged.poll_recorder_end();
                let has_grown = logged.refresh_log()?;
                logged.grows = !has_ended;
                Ok(logged.take_alerts() || has_grown || has_ended)
            }
            WatchSource::Logged(logged) => {
                // both are polled, whatever the first one finds
                let has_alerts = logged.take_alerts();
                let has_resumed = logged.poll_recorder_resume();
                Ok(has_alerts || has_resumed)
            }
        }
    }

    /// Waits until a live machine has delivered this many ticks, or until the alerts of a log that no longer grows have
    /// been found.
    pub fn wait_for_ticks(&mut self, ticks: usize) -> Result<(), Failure> {
        match self {
            WatchSource::Live(feed) => feed.wait_for_ticks(ticks),
            WatchSource::Logged(logged) => {
                if let Some(alerts) = logged.alerts.as_ref().filter(|_| !logged.grows) {
                    alerts.wait_until_done();
                }
                Ok(())
            }
        }
    }

    /// Sets a bookmark: in the watched log, or in this machine's history.
    pub fn add_bookmark(&mut self, time_ns: i64, text: String) -> Result<(), Failure> {
        let note = Note::new(time_ns, Note::BOOKMARK, text);
        match self {
            WatchSource::Live(feed) => feed.add_note(note),
            WatchSource::Logged(logged) => match logged.paths.as_slice() {
                [path] if logged.can_mark() => mark::write_note(path, &note)?,
                _ => return Err(Failure::Failed("a bookmark can be set only in a single Diskwright log".into())),
            },
        }
        Ok(())
    }
}

/// No tick is longer than a quarter of an hour, so an hour has some, nanoseconds.
const MAX_INTERVAL_SEARCH_NS: i64 = 3_600_000_000_000;

/// Median length of the last ticks, nanoseconds; a second if there is none.
fn median_interval_ns(logs: &Logs) -> i64 {
    let mut lengths: Vec<i64> = Vec::new();
    let from_ns = logs.range_ns.1.saturating_sub(MAX_INTERVAL_SEARCH_NS);
    let read = logs.read_between::<Failure>((from_ns, logs.range_ns.1), |piece| {
        if let LogPiece::Frame(frame) = piece {
            let known = frame.ticks().iter().filter(|tick| tick.elapsed_ns > 0);
            lengths.extend(known.map(|tick| i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX)));
        }
        Ok(())
    });
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().filter(|_| read.is_ok());
    middle.unwrap_or(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Schema, Series, Tick};
    use diskwright_datastore::{LogWriter, WriterOptions};

    use super::super::super::log::{self, LogWindow};
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn write_ticks(writer: &mut LogWriter, seconds: std::ops::Range<i64>, value: f64) {
        let series = Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        for second in seconds {
            let tick = Tick { time_ns: second * SECOND, elapsed_ns: SECOND as u64 };
            writer.push(&schema, tick, &[value]).unwrap();
        }
    }

    #[test]
    fn view_of_a_growing_log_follows_its_clock_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).unwrap();
        write_ticks(&mut writer, 1000..1101, 1.0);
        let paths = [log];
        let logs = log::open(&paths, &LogWindow::default()).unwrap_or_else(|fault| panic!("{fault}"));
        let WatchSource::Logged(mut logged) = WatchSource::from_logs(logs, &paths) else { panic!("a log") };
        logged.grows = true;
        let mut grow = |writer: &mut LogWriter, seconds: std::ops::Range<i64>| {
            write_ticks(writer, seconds, 2.0);
            assert!(logged.refresh_log().unwrap_or_else(|fault| panic!("{fault}")), "something is new");
            logged.range().map(|(first, last)| (first / SECOND, last / SECOND))
        };
        assert_eq!(grow(&mut writer, 1050..1051), Some((1000, 1050)));
        assert_eq!(grow(&mut writer, 1051..1061), Some((1000, 1060)));
        let mut found = Vec::new();
        let mut take = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                let ticks = frame.ticks().iter().zip(frame.column(0));
                found.extend(ticks.map(|(tick, value)| (tick.time_ns / SECOND, *value)));
            }
        };
        logged.read(1048 * SECOND, 1052 * SECOND, &mut take).unwrap();
        assert_eq!(found, [(1048, 1.0), (1049, 1.0), (1050, 2.0), (1051, 2.0), (1052, 2.0)]);
        // to before the first tick
        write_ticks(&mut writer, 900..901, 3.0);
        assert!(logged.refresh_log().unwrap_or_else(|fault| panic!("{fault}")));
        assert_eq!(logged.range(), Some((900 * SECOND, 900 * SECOND)));
    }
}
