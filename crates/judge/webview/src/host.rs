//! A host while it is looked at: its overview in memory, and its newest frame.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use diskwright_base::{LogPiece, Note, Schema, latency_view};
use diskwright_dashboard::overview::LogOverview;
use diskwright_dashboard::{DashboardView, ViewWindow, Viewer};
use diskwright_diagnosis::Verdict;
use serde_json::{Value, json};

use crate::WebSettings;
use crate::shapes;
use crate::source::HostSource;

/// Ticks that a reader which was cut off can be given again.
const RECENT: usize = 900;
/// What a live frame's values are means over, at least.
const SHOWN_NS: i64 = 5_000_000_000;
/// What its verdict is about, at least.
const JUDGED_NS: i64 = 60_000_000_000;
/// It is made anew when such a part of that has passed.
const JUDGED_STEPS: i64 = 12;
/// How far back its devices' small charts go.
const BESIDE_NS: i64 = 300_000_000_000;
/// Points of them.
const BESIDE: usize = 60;
/// Processes of a stretch that come from tables of so much time at most, so that memory is bounded.
const MOST_SHOWN_NS: i64 = 1_800_000_000_000;
/// Pauses before a host that could not be read is read again: the first, and the longest; each is twice the last.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A tick's values, in the order of the overview's series.
type ValueRow = (i64, Vec<Option<f32>>);

/// The newest frame of a live host.
#[derive(Default)]
struct LiveFrames {
    /// `"view": …` and what stands beside it, without ticks.
    newest: String,
    /// The last tick of it.
    until_ns: i64,
    recent: VecDeque<ValueRow>,
}

/// When a host that could not be read may be read again.
#[derive(Default)]
struct ReadRetry {
    pause: Duration,
    due: Option<Instant>,
}

/// A host.
pub struct HostState {
    /// What it is read from.
    pub source: Box<dyn HostSource>,
    pub settings: Arc<WebSettings>,
    overview: RwLock<Option<LogOverview>>,
    frames: Mutex<LiveFrames>,
    summary: Mutex<Option<Result<Verdict, String>>>,
    /// Its overview is being made, or was.
    is_begun: AtomicBool,
    retry: Mutex<ReadRetry>,
    is_read: AtomicBool,
    /// Its end moves, as of the last look: the source itself may be reading a slow disk.
    is_live: AtomicBool,
    /// It has distributions of latency.
    has_heat: AtomicBool,
    range: (AtomicI64, AtomicI64),
    fault: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(ns: i64) -> f64 {
    // whole milliseconds are exact in a browser
    ns as f64 / 1e6
}

impl HostState {
    pub fn new(source: Box<dyn HostSource>, settings: Arc<WebSettings>) -> HostState {
        let (summary, is_live) = (source.verdict(), AtomicBool::new(source.is_live()));
        HostState {
            source,
            settings,
            overview: RwLock::default(),
            frames: Mutex::default(),
            summary: Mutex::new(summary),
            is_begun: AtomicBool::new(false),
            retry: Mutex::default(),
            is_read: AtomicBool::new(false),
            is_live,
            has_heat: AtomicBool::new(false),
            range: (AtomicI64::new(0), AtomicI64::new(0)),
            fault: Mutex::default(),
        }
    }

    /// First and last tick that are known.
    pub fn range(&self) -> (i64, i64) {
        (self.range.0.load(Ordering::Relaxed), self.range.1.load(Ordering::Relaxed))
    }

    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// True where its end moves; waits for nobody.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    fn viewer(&self) -> Viewer {
        let settings = &self.settings;
        Viewer::new(settings.panels.clone(), settings.pack.clone(), settings.ceilings.clone())
    }

    /// Learns the range of what is there now.
    pub fn refresh(&self) -> Result<(), String> {
        self.source.refresh()?;
        self.is_live.store(self.source.is_live(), Ordering::Relaxed);
        if let Some((first, last)) = self.source.history()?.range() {
            self.range.0.store(first, Ordering::Relaxed);
            self.range.1.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads what is new into the overview; the first time, all.
    pub fn read(&self) -> Result<Vec<ValueRow>, String> {
        self.source.prepare()?;
        self.refresh()?;
        let (first, last) = self.range();
        // a machine whose clock was set back has forgotten what comes a second time, and so does its overview
        let is_first = self.with_overview(|overview| overview.until_ns <= last) != Some(true);
        if is_first {
            let fresh = LogOverview::new(self.settings.panels.clone(), first, self.source.interval_ns());
            *self.overview.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        }
        let until = self.with_overview(|overview| overview.until_ns).unwrap_or(i64::MIN);
        let mut rows = Vec::new();
        // with what is new, the last tick again: a recorder writes its alerts after it, which may have come since
        let from = if last > until { until } else { until.saturating_add(1) };
        self.source.history()?.read(from.max(first), last, &mut |piece| {
            let mut guard = self.overview.write().unwrap_or_else(PoisonError::into_inner);
            let Some(overview) = guard.as_mut() else { return };
            let known = overview.until_ns;
            if let (LogPiece::Frame(frame), false) = (&piece, self.has_heat.load(Ordering::Relaxed)) {
                self.has_heat.store(has_latency(frame.schema()), Ordering::Relaxed);
            }
            overview.push(&piece);
            if let (LogPiece::Frame(frame), false) = (&piece, is_first) {
                let found = overview.reducer.tick_values(frame);
                rows.extend(found.into_iter().filter(|(time_ns, _)| *time_ns > known));
            }
        })?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(rows)
    }

    /// True for one caller where its overview is to be made: nobody has begun, and the pause after a failure is over.
    pub fn begins(&self) -> bool {
        let waits = lock(&self.retry).due.is_some_and(|due| Instant::now() < due);
        !waits && !self.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Keeps what became of reading it; after a failure the next who asks begins again, but not at once.
    pub fn was_read(&self, fault: Option<String>) {
        let failed = fault.is_some();
        self.fail(fault);
        let mut retry = lock(&self.retry);
        if failed {
            let pause = (retry.pause * 2).clamp(PAUSES.0, PAUSES.1);
            *retry = ReadRetry { pause, due: Some(Instant::now() + pause) };
            self.is_begun.store(false, Ordering::Relaxed);
            return;
        }
        *retry = ReadRetry::default();
        // what the list says of it was said when it could not be read
        lock(&self.summary).take_if(|summary| summary.is_err());
    }

    /// Keeps why it cannot be read.
    pub fn fail(&self, fault: Option<String>) {
        *lock(&self.fault) = fault;
    }

    /// Forgets the overview; it is made again when somebody asks.
    pub fn forget(&self) {
        *self.overview.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.is_read.store(false, Ordering::Relaxed);
        self.is_begun.store(false, Ordering::Relaxed);
    }

    /// What the overview says, once there is one.
    pub fn with_overview<T>(&self, of: impl FnOnce(&LogOverview) -> T) -> Option<T> {
        self.overview.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(of)
    }

    /// Sets a bookmark. It is put into the overview too, which reads only what comes after its last tick: a bookmark
    /// may be earlier.
    pub fn mark(&self, time_ns: i64, text: &str) -> Result<(), String> {
        self.source.mark(time_ns, text)?;
        let mut guard = self.overview.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(overview) = guard.as_mut() {
            overview.push(&LogPiece::Note(Note::new(time_ns, Note::BOOKMARK, text)));
        }
        Ok(())
    }

    /// The view of a moment; `judged_ns` before it were judged, over `shown_ns` values are means.
    pub fn view(
        &self,
        cursor_ns: i64,
        (shown_ns, judged_ns): (i64, i64),
        all_devices: bool,
    ) -> Result<DashboardView, String> {
        let window = ViewWindow { all_devices, ..self.window(cursor_ns, shown_ns, judged_ns) };
        self.viewer().view(self.source.history()?.as_ref(), &window)
    }

    fn window(&self, cursor_ns: i64, shown_ns: i64, judged_ns: i64) -> ViewWindow {
        ViewWindow {
            cursor_ns,
            span: (cursor_ns - BESIDE_NS.max(self.source.interval_ns() * BESIDE as i64), cursor_ns),
            shown_ns: shown_ns.clamp(self.source.interval_ns(), MOST_SHOWN_NS.max(self.source.interval_ns())),
            judged_ns,
            judged_step_ns: 0,
            quantity: 0,
            all_devices: false,
            points: (BESIDE, BESIDE),
        }
    }

    /// Takes in what has come, and gives the event of the newest frame where there is one.
    pub fn next_frame(&self, viewer: &mut Viewer) -> Result<Option<Vec<u8>>, String> {
        let rows = self.read()?;
        let (first, last) = self.range();
        let before = lock(&self.frames).until_ns;
        if last == before || last == 0 {
            return Ok(None);
        }
        let ticks = self.source.interval_ns();
        let judged_ns = JUDGED_NS.max(ticks * 12);
        let window = self.window(last, SHOWN_NS.max(ticks), judged_ns);
        let window = ViewWindow { judged_step_ns: judged_ns / JUDGED_STEPS, ..window };
        let view = viewer.view(self.source.history()?.as_ref(), &window)?;
        *lock(&self.summary) = view.verdict.clone().map(Ok);
        let series = self.with_overview(|overview| overview.reducer.series().count()).unwrap_or(0);
        let view = serde_json::to_string(&shapes::view(&view)).map_err(|error| error.to_string())?;
        let range = json!([ms(first), ms(last)]);
        let newest = format!("\"range_ms\":{range},\"series\":{series},\"view\":{view}");
        let mut frames = lock(&self.frames);
        (frames.newest, frames.until_ns) = (newest, last);
        if last < before {
            frames.recent.clear();
        }
        frames.recent.extend(rows.iter().cloned());
        let extra = frames.recent.len().saturating_sub(RECENT);
        frames.recent.drain(..extra);
        Ok(Some(event(&frames, before, rows.iter())))
    }

    /// A viewer for [`Self::next_frame`], which remembers from frame to frame.
    pub fn frame_viewer(&self) -> Viewer {
        self.viewer()
    }

    /// The first event of a reader, with the ticks since the one that it saw last.
    pub fn first_event(&self, last_seen_ns: Option<i64>) -> Vec<u8> {
        let frames = lock(&self.frames);
        if frames.newest.is_empty() {
            return b"retry: 2000\n: the first frame is being made\n\n".to_vec();
        }
        let oldest = frames.recent.front().map_or(i64::MAX, |(time_ns, _)| *time_ns);
        // one that missed more than is kept reads all anew
        let known = last_seen_ns.filter(|seen| *seen >= oldest).unwrap_or(0);
        let rows = frames.recent.iter().filter(|(time_ns, _)| known > 0 && *time_ns > known);
        [b"retry: 2000\n".as_slice(), &event(&frames, known, rows)].concat()
    }

    /// What is known of the host.
    pub fn describe(&self) -> Value {
        let (first, last) = self.range();
        let read_ns = self.with_overview(|overview| overview.until_ns).unwrap_or(first).clamp(first, last.max(first));
        let share = if last > first { ((read_ns - first) as f64 / (last - first) as f64).clamp(0.0, 1.0) } else { 1.0 };
        let series = self.with_overview(|overview| overview.reducer.series().cloned().collect::<Vec<_>>());
        let panels = &self.settings.panels;
        json!({
            "schema": "diskwright.host/1",
            "name": self.source.name(),
            "live": self.is_live(),
            "can_mark": self.source.can_mark(),
            "interval_ms": ms(self.source.interval_ns()),
            "range_ms": if last > 0 { json!([ms(first), ms(last)]) } else { Value::Null },
            "read": if self.is_read() { 1.0 } else { share.min(0.99) },
            "fault": *lock(&self.fault),
            "alerts_ready": self.source.alerts((first, last)).1,
            "heat": self.has_heat.load(Ordering::Relaxed),
            "columns": panels.devices.columns.iter().map(shapes::titled).collect::<Vec<_>>(),
            "timeline": panels.timeline.iter().map(shapes::titled).collect::<Vec<_>>(),
            "series": series.unwrap_or_default(),
        })
    }

    /// Its line in the list of hosts.
    pub fn list(&self, id: usize) -> Value {
        let (first, last) = self.range();
        let summary = lock(&self.summary).clone();
        let (verdict, fault) = match summary {
            Some(Ok(verdict)) => (shapes::verdict(&verdict), None),
            Some(Err(fault)) => (Value::Null, Some(fault)),
            None => (Value::Null, None),
        };
        json!({
            "id": id,
            "name": self.source.name(),
            "live": self.is_live(),
            "range_ms": if last > 0 { json!([ms(first), ms(last)]) } else { Value::Null },
            "verdict": verdict,
            "fault": fault.or_else(|| lock(&self.fault).clone()),
        })
    }

    /// True where nobody has judged all of it yet.
    pub fn is_unjudged(&self) -> bool {
        lock(&self.summary).is_none()
    }

    /// Judges all of it, for the list.
    pub fn judge(&self) {
        let judged = self.source.prepare().and_then(|()| self.refresh()).and_then(|()| {
            let (first, last) = self.range();
            let view = self.view(last, (0, last - first), false)?;
            view.verdict.ok_or_else(|| "fewer than two ticks".to_owned())
        });
        *lock(&self.summary) = Some(judged);
    }
}

/// True where percentiles of single requests are among the series.
fn has_latency(schema: &Schema) -> bool {
    static COUNTERS: LazyLock<HashSet<String>> = LazyLock::new(|| latency_view::counters().collect());
    schema.series.iter().any(|series| COUNTERS.contains(&series.counter))
}

fn event<'r>(frames: &LiveFrames, before_ns: i64, rows: impl Iterator<Item = &'r ValueRow>) -> Vec<u8> {
    let rows: Vec<Value> = rows.map(|(time_ns, values)| json!([ms(*time_ns), values])).collect();
    let (id, newest, before) = (frames.until_ns, &frames.newest, ms(before_ns));
    let rows = Value::Array(rows);
    let data = format!("\"schema\":\"diskwright.frame/1\",\"before_ms\":{before},{newest},\"ticks\":{rows}");
    format!("id: {id}\nevent: frame\ndata: {{{data}}}\n\n").into_bytes()
}
