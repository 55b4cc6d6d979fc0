//! Sources of served hosts: this machine, logs, or a machine of a store.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use diskwright_base::LogPiece;
use diskwright_dashboard::{Alert, History};
use diskwright_datastore::StoreError;
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};
use diskwright_logs::ReadSummary;
use diskwright_report::heat_map::HeatChart;
use diskwright_webview::{HostSource, Stretch};
use serde_json::{Value, json};

use super::super::alerts::{AlertArguments, AlertDesk};
use super::super::latency::LatencyWindow;
use super::super::log::{LogWindow, Logs};
use super::super::temporary::Folder;
use super::super::watch::sources::WatchSource;
use super::super::watch::stretches;
use super::super::{Failure, ceilings, foreign, own_name, report, why};

/// A host on the page.
pub struct ServedSource {
    name: String,
    watched: Mutex<WatchSource>,
    pack: Pack,
    interval_ns: i64,
}

/// History of a live machine: the lock is held for one part at a time.
struct LiveReader<'s>(&'s Mutex<WatchSource>);

impl History for LiveReader<'_> {
    fn range(&self) -> Option<(i64, i64)> {
        lock(self.0).range()
    }

    fn read(&self, from_ns: i64, to_ns: i64, each: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
        lock(self.0).history().read(from_ns, to_ns, each)
    }

    fn read_around(
        &self,
        stretch: (i64, i64),
        processes_after: Option<i64>,
        each: &mut dyn FnMut(LogPiece<'_>),
    ) -> Result<(), String> {
        lock(self.0).history().read_around(stretch, processes_after, each)
    }
}

fn lock(watched: &Mutex<WatchSource>) -> MutexGuard<'_, WatchSource> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

fn words(failure: Failure) -> String {
    failure.to_string()
}

impl ServedSource {
    fn of(name: String, watched: WatchSource, pack: Pack) -> ServedSource {
        let interval_ns = watched.interval_ns();
        ServedSource { name, watched: Mutex::new(watched), pack, interval_ns }
    }

    /// Returns this machine as a source.
    pub fn live(every: Duration, pack: Pack, alerts: &AlertArguments) -> Result<ServedSource, Failure> {
        let desk = AlertDesk::new(alerts, pack.clone())?;
        Ok(ServedSource::of(own_name(), WatchSource::live(every, desk)?, pack))
    }

    /// Returns logs of one host as a source; alerts are looked for in them, unless their recorder raises them.
    pub fn of_logs(
        name: String,
        logs: Logs,
        paths: &[PathBuf],
        (pack, alerts): (Pack, Option<&AlertArguments>),
    ) -> Result<ServedSource, Failure> {
        let mut watched = WatchSource::of_logs(logs, paths);
        if let Some(alerts) = alerts {
            watched = watched.with_alerts(AlertDesk::new(alerts, pack.clone())?)?;
        }
        Ok(ServedSource::of(name, watched, pack))
    }

    /// Returns the logs of a range; for a live machine, its history is first written into one.
    fn logs(&self, range: Stretch) -> Result<Logs, Failure> {
        if let WatchSource::Logged(logged) = &*lock(&self.watched) {
            return Ok(logged.logs(range));
        }
        let made = Folder::new()?;
        let reader = LiveReader(&self.watched);
        foreign::keep::<StoreError>(made.log(), |sink| {
            let each = &mut |piece: LogPiece<'_>| {
                let _ = sink(piece);
            };
            let read = reader.read(range.0, range.1, each);
            debug_assert!(read.is_ok(), "memory can be read");
            Ok(ReadSummary::default())
        })?;
        Logs::of_made(made, &LogWindow::default())
    }

    fn judge(&self, range: Stretch) -> Judge {
        let options = JudgeOptions { role: None, expected: Some(range), ceilings: ceilings::known().to_vec() };
        Judge::new(vec![self.pack.clone()], options)
    }
}

impl HostSource for ServedSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn history(&self) -> Result<Box<dyn History + '_>, String> {
        match &*lock(&self.watched) {
            WatchSource::Logged(logged) => Ok(Box::new(logged.again())),
            WatchSource::Live(_) => Ok(Box::new(LiveReader(&self.watched))),
        }
    }

    fn refresh(&self) -> Result<(), String> {
        lock(&self.watched).take().map(|_| ()).map_err(words)
    }

    fn is_live(&self) -> bool {
        lock(&self.watched).is_live()
    }

    fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    fn alerts(&self, stretch: Stretch) -> (Vec<Alert>, bool) {
        match &*lock(&self.watched) {
            WatchSource::Logged(logged) => logged.found(stretch),
            WatchSource::Live(_) => (Vec::new(), true),
        }
    }

    fn can_set_bookmarks(&self) -> bool {
        match &*lock(&self.watched) {
            WatchSource::Logged(logged) => logged.can_mark(),
            WatchSource::Live(_) => true,
        }
    }

    fn set_bookmark(&self, time_ns: i64, text: &str) -> Result<(), String> {
        lock(&self.watched).mark(time_ns, text.to_owned()).map_err(words)
    }

    fn report_page(&self, stretch: Stretch) -> Result<String, String> {
        let page = || {
            let logs = self.logs(stretch)?;
            let verdicts = why::read(&logs, self.judge(logs.range))?;
            Ok(report::page(logs, verdicts)?.0)
        };
        page().map_err(words)
    }

    fn heat_charts(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String> {
        let read = || Ok(LatencyWindow::read(&self.logs(stretch)?.with_steps(true), &[])?.charts());
        read().map_err(words)
    }

    fn compare_stretches(&self, first: Stretch, second: Stretch) -> Result<Value, String> {
        let history = self.history()?;
        let found = stretches::comparison(history.as_ref(), &self.pack, first, second).map_err(words)?;
        let mut value = json!(found);
        // a page shows only the first rows
        value["counters"] = json!(diskwright_report::compare::order_rows(&found));
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
    /// Alerts to look for in its logs; none if its recorder raises them.
    pub alerts: Option<AlertArguments>,
    pub is_live: bool,
    /// Usual interval between ticks, until a log shows it.
    pub interval_ns: i64,
    /// Paths of the recorded log, if it is one.
    pub paths: Vec<PathBuf>,
    pub fetch: LogFetch,
    pub fetched: OnceLock<ServedSource>,
    pub once: Mutex<()>,
}

impl LateSource {
    fn served(&self) -> Result<&ServedSource, String> {
        self.fetched.get().ok_or_else(|| "it is still loading".to_owned())
    }
}

impl HostSource for LateSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&self) -> Result<(), String> {
        let _one = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if self.fetched.get().is_none() {
            let logs = (self.fetch)(&self.name).map_err(words)?;
            let judging = (self.pack.clone(), self.alerts.as_ref());
            let source = ServedSource::of_logs(self.name.clone(), logs, &self.paths, judging).map_err(words)?;
            let _ = self.fetched.set(source);
        }
        Ok(())
    }

    fn history(&self) -> Result<Box<dyn History + '_>, String> {
        self.served()?.history()
    }

    fn refresh(&self) -> Result<(), String> {
        self.served()?.refresh()
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
        self.served()?.set_bookmark(time_ns, text)
    }

    fn report_page(&self, stretch: Stretch) -> Result<String, String> {
        self.served()?.report_page(stretch)
    }

    fn heat_charts(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String> {
        self.served()?.heat_charts(stretch)
    }

    fn compare_stretches(&self, first: Stretch, second: Stretch) -> Result<Value, String> {
        self.served()?.compare_stretches(first, second)
    }
}
