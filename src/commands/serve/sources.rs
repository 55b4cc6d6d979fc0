//! Sources of served hosts: this machine, logs, or a machine of a store.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use diskwright_base::LogPiece;
use diskwright_base::timestamp::now_ns;
use diskwright_dashboard::{Alert, History};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};
use diskwright_ingest::{IngestError, MachineDescription, OpenedLogs};
use diskwright_report::heat_map::HeatChart;
use diskwright_webview::{HostSource, Stretch};
use serde_json::{Value, json};

use super::super::alerts::{AlertArguments, AlertMonitor};
use super::super::capture::{CaptureArguments, CaptureThread};
use super::super::latency::LatencyWindow;
use super::super::log::{self, Logs};
use super::super::watch::range_comparison;
use super::super::watch::sources::WatchSource;
use super::super::{Failure, ceilings, local_host_name, report};

/// A host on the page.
pub struct ServedSource {
    name: String,
    watched: Mutex<WatchSource>,
    pack: Pack,
    interval_ns: i64,
}

/// History of a live machine: the lock is held for one part at a time.
struct SharedReader<'s>(&'s Mutex<WatchSource>);

impl History for SharedReader<'_> {
    fn range(&self) -> Option<(i64, i64)> {
        lock_source(self.0).range()
    }

    fn read(&self, from_ns: i64, to_ns: i64, handle: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
        lock_source(self.0).history().read(from_ns, to_ns, handle)
    }

    fn read_around(
        &self,
        stretch: (i64, i64),
        processes_after: Option<i64>,
        handle: &mut dyn FnMut(LogPiece<'_>),
    ) -> Result<(), String> {
        lock_source(self.0).history().read_around(stretch, processes_after, handle)
    }
}

fn lock_source(watched: &Mutex<WatchSource>) -> MutexGuard<'_, WatchSource> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure_text(failure: Failure) -> String {
    failure.to_string()
}

impl ServedSource {
    fn from_watched(name: String, watched: WatchSource, pack: Pack) -> ServedSource {
        let interval_ns = watched.interval_ns();
        ServedSource { name, watched: Mutex::new(watched), pack, interval_ns }
    }

    /// Returns this machine as a source.
    pub fn from_this_machine(
        every: Duration,
        pack: Pack,
        (alerts, capture): (&AlertArguments, &CaptureArguments),
    ) -> Result<ServedSource, Failure> {
        let monitor = AlertMonitor::new(alerts, pack.clone())?;
        let watched = WatchSource::from_this_machine(every, monitor, CaptureThread::start_or_warn(capture))?;
        Ok(ServedSource::from_watched(local_host_name(), watched, pack))
    }

    /// Returns logs of one host as a source. With `alerts`, the logs are searched for alerts; without, their recorder
    /// raises them.
    pub fn from_logs(
        name: String,
        logs: Logs,
        paths: &[PathBuf],
        (pack, alerts): (Pack, Option<&AlertArguments>),
    ) -> Result<ServedSource, Failure> {
        let mut watched = WatchSource::from_logs(logs, paths);
        if let Some(alerts) = alerts {
            watched = watched.with_alerts(AlertMonitor::new(alerts, pack.clone())?)?;
        }
        Ok(ServedSource::from_watched(name, watched, pack))
    }

    /// Returns the logs of a range; for a live machine, its history is first written into one.
    fn logs_of_range(&self, range: Stretch) -> Result<Logs, Failure> {
        if let WatchSource::Logged(logged) = &*lock_source(&self.watched) {
            return Ok(logged.logs_of_range(range));
        }
        let reader = SharedReader(&self.watched);
        let opened = OpenedLogs::from_pieces("this machine", &log::new_reporter(), |sink| {
            let handle = &mut |piece: LogPiece<'_>| {
                let _ = sink(piece);
            };
            let result = reader.read(range.0, range.1, handle);
            debug_assert!(result.is_ok(), "memory can be read");
            Ok::<(), IngestError>(())
        })?;
        log::take_whole(opened, MachineDescription::default())
    }

    fn judge_for_range(&self, range: Stretch) -> Judge {
        let ceilings = ceilings::known_ceilings().to_vec();
        let options = JudgeOptions { expected: Some(range), ceilings, clock: Some(now_ns), ..JudgeOptions::default() };
        Judge::new(vec![self.pack.clone()], options)
    }
}

impl HostSource for ServedSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn history(&self) -> Result<Box<dyn History + '_>, String> {
        match &*lock_source(&self.watched) {
            WatchSource::Logged(logged) => Ok(Box::new(logged.share_reader())),
            WatchSource::Live(_) => Ok(Box::new(SharedReader(&self.watched))),
        }
    }

    fn refresh(&self) -> Result<(), String> {
        lock_source(&self.watched).take_new().map(|_| ()).map_err(failure_text)
    }

    fn is_live(&self) -> bool {
        lock_source(&self.watched).is_live()
    }

    fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    fn alerts(&self, stretch: Stretch) -> (Vec<Alert>, bool) {
        match &*lock_source(&self.watched) {
            WatchSource::Logged(logged) => logged.found_alerts(stretch),
            WatchSource::Live(_) => (Vec::new(), true),
        }
    }

    fn can_set_bookmarks(&self) -> bool {
        match &*lock_source(&self.watched) {
            WatchSource::Logged(logged) => logged.can_mark(),
            WatchSource::Live(_) => true,
        }
    }

    fn set_bookmark(&self, time_ns: i64, text: &str) -> Result<(), String> {
        lock_source(&self.watched).add_bookmark(time_ns, text.to_owned()).map_err(failure_text)
    }

    fn report_page(&self, stretch: Stretch) -> Result<String, String> {
        let page = || {
            let logs = self.logs_of_range(stretch)?;
            let verdicts = log::judge_logs(&logs, self.judge_for_range(logs.range_ns))?;
            Ok(report::log_page(logs, verdicts)?.0)
        };
        page().map_err(failure_text)
    }

    fn heat_charts(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String> {
        let read = || Ok(LatencyWindow::read(&self.logs_of_range(stretch)?.with_steps(true), &[])?.heat_charts());
        read().map_err(failure_text)
    }

    fn compare_stretches(&self, first: Stretch, second: Stretch) -> Result<Value, String> {
        let history = self.history()?;
        let comparison =
            range_comparison::compare_ranges(history.as_ref(), &self.pack, first, second).map_err(failure_text)?;
        let mut value = json!(comparison);
        // a page shows only the first rows
        value["counters"] = json!(diskwright_report::compare::order_rows(&comparison));
        // the verdicts are fetched separately
        value.as_object_mut().map(|object| (object.remove("before"), object.remove("after")));
        Ok(value)
    }
}

/// Opens a host's logs, by its name.
pub type LogFetch = Arc<dyn Fn(&str) -> Result<Logs, Failure> + Send + Sync>;

/// A host whose logs are opened when they are needed: a machine of a store, or a log that has only just begun.
pub struct LateSource {
    pub name: String,
    /// Verdict on the whole window, if it is already known.
    pub verdict: Option<Result<Verdict, String>>,
    pub pack: Pack,
    /// Alerts to search for in its logs; `None` if its recorder raises them.
    pub alerts: Option<AlertArguments>,
    pub is_live: bool,
    /// Usual interval between ticks, until a log shows it.
    pub interval_ns: i64,
    /// Paths of the recorded log, if it is one.
    pub paths: Vec<PathBuf>,
    pub fetch: LogFetch,
    pub fetched: OnceLock<ServedSource>,
    pub fetch_lock: Mutex<()>,
}

impl LateSource {
    fn fetched_source(&self) -> Result<&ServedSource, String> {
        self.fetched.get().ok_or_else(|| "it is still loading".to_owned())
    }
}

impl HostSource for LateSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&self) -> Result<(), String> {
        // only one client fetches the logs; the others wait for them
        let _guard = self.fetch_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if self.fetched.get().is_none() {
            let logs = (self.fetch)(&self.name).map_err(failure_text)?;
            let pack_and_alerts = (self.pack.clone(), self.alerts.as_ref());
            let source =
                ServedSource::from_logs(self.name.clone(), logs, &self.paths, pack_and_alerts).map_err(failure_text)?;
            let _ = self.fetched.set(source);
        }
        Ok(())
    }

    fn history(&self) -> Result<Box<dyn History + '_>, String> {
        self.fetched_source()?.history()
    }

    fn refresh(&self) -> Result<(), String> {
        self.fetched_source()?.refresh()
    }

    fn is_live(&self) -> bool {
        self.is_live || self.fetched.get().is_some_and(HostSource::is_live)
    }

    fn interval_ns(&self) -> i64 {
        self.fetched.get().map_or(self.interval_ns, HostSource::interval_ns)
    }

    fn verdict(&self) -> Option<Result<Verdict, String>> {
        self.verdict.clone()
    }

    fn alerts(&self, stretch: Stretch) -> (Vec<Alert>, bool) {
        self.fetched.get().map_or((Vec::new(), true), |source| source.alerts(stretch))
    }

    fn can_set_bookmarks(&self) -> bool {
        self.fetched.get().is_some_and(HostSource::can_set_bookmarks)
    }

    fn set_bookmark(&self, time_ns: i64, text: &str) -> Result<(), String> {
        self.fetched_source()?.set_bookmark(time_ns, text)
    }

    fn report_page(&self, stretch: Stretch) -> Result<String, String> {
        self.fetched_source()?.report_page(stretch)
    }

    fn heat_charts(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String> {
        self.fetched_source()?.heat_charts(stretch)
    }

    fn compare_stretches(&self, first: Stretch, second: Stretch) -> Result<Value, String> {
        self.fetched_source()?.compare_stretches(first, second)
    }
}
