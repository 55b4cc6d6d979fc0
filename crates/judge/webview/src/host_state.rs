//! State of a viewed host: its overview in memory, and its newest frame.

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
use crate::host_source::HostSource;
use crate::reduced_json;

/// Number of ticks kept for clients that reconnect.
const MAX_RECENT_TICKS: usize = 900;
/// Shortest time over which values of a live frame are averaged.
const MIN_SHOWN_NS: i64 = 5_000_000_000;
/// Shortest judged time of a live frame.
const MIN_JUDGED_NS: i64 = 60_000_000_000;
/// The judged time of a live frame divided by the time after which it is judged again.
const STEPS_PER_JUDGED_SPAN: i64 = 12;
/// Shortest span of the devices' small charts.
const CHART_SPAN_NS: i64 = 300_000_000_000;
/// Number of points of the small charts.
const CHART_POINTS: usize = 60;
/// Longest stretch whose process tables are read, so that memory is bounded.
const MAX_SHOWN_NS: i64 = 1_800_000_000_000;
/// First and longest pause before an unreadable host is read again; each pause is twice the last.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A tick's values, in the order of the overview's series.
type ValueRow = (i64, Vec<Option<f32>>);

/// The newest frame of a live host.
#[derive(Default)]
struct LiveFrames {
    /// JSON members of the newest frame, such as `"view": …`, without its ticks.
    newest: String,
    /// Last tick of the newest frame.
    until_ns: i64,
    recent: VecDeque<ValueRow>,
}

/// Time at which an unreadable host may be read again.
#[derive(Default)]
struct ReadRetry {
    pause: Duration,
    not_before: Option<Instant>,
}

/// State of a host.
pub struct HostState {
    /// Source that it is read from.
    pub source: Box<dyn HostSource>,
    pub settings: Arc<WebSettings>,
    overview: RwLock<Option<LogOverview>>,
    frames: Mutex<LiveFrames>,
    summary: Mutex<Option<Result<Verdict, String>>>,
    /// Its overview is being made, or has been made.
    is_begun: AtomicBool,
    retry: Mutex<ReadRetry>,
    is_read: AtomicBool,
    /// True if the recording continues, as of the last refresh; cached because the source may block on a slow disk.
    is_live: AtomicBool,
    /// True if it has latency distributions.
    has_heat: AtomicBool,
    /// First and last known tick, nanoseconds since 1970 UTC; zeros before the first refresh.
    range: (AtomicI64, AtomicI64),
    fault: Mutex<Option<String>>,
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ns_to_ms(ns: i64) -> f64 {
    // whole milliseconds are exact as JavaScript numbers
    ns as f64 / 1e6
}

impl HostState {
    /// Creates the state of a host of which nothing has been read.
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

    /// First and last known tick, nanoseconds since 1970 UTC.
    pub fn range(&self) -> (i64, i64) {
        (self.range.0.load(Ordering::Relaxed), self.range.1.load(Ordering::Relaxed))
    }

    /// True if its whole log has been read into the overview.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// True if the recording continues; does not block.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    fn new_viewer(&self) -> Viewer {
        let settings = &self.settings;
        Viewer::new(settings.panels.clone(), settings.pack.clone(), settings.ceilings.clone())
    }

    /// Updates the range of the recording.
    pub fn refresh(&self) -> Result<(), String> {
        self.source.refresh()?;
        self.is_live.store(self.source.is_live(), Ordering::Relaxed);
        if let Some((first, last)) = self.source.history()?.range() {
            self.range.0.store(first, Ordering::Relaxed);
            self.range.1.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads new ticks into the overview, the first time all of them, and returns the values of the new ticks.
    pub fn read(&self) -> Result<Vec<ValueRow>, String> {
        self.source.prepare()?;
        self.refresh()?;
        let (first, last) = self.range();
        // after the clock was set back, the source has dropped ticks, so the overview is made again
        let is_first = self.with_overview(|overview| overview.until_ns <= last) != Some(true);
        if is_first {
            let fresh = LogOverview::new(self.settings.panels.clone(), first, self.source.interval_ns());
            *self.overview.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        }
        let until = self.with_overview(|overview| overview.until_ns).unwrap_or(i64::MIN);
        let mut rows = Vec::new();
        // the last tick is read again, because a recorder writes alerts after the tick that they belong to
        let from = if last > until { until } else { until.saturating_add(1) };
        self.source.history()?.read(from.max(first), last, &mut |piece| {
            let mut guard = self.overview.write().unwrap_or_else(PoisonError::into_inner);
            let Some(overview) = guard.as_mut() else { return };
            let read_until_ns = overview.until_ns;
            if let (LogPiece::Frame(frame), false) = (&piece, self.has_heat.load(Ordering::Relaxed)) {
                self.has_heat.store(has_latency(frame.schema()), Ordering::Relaxed);
            }
            overview.push(&piece);
            if let (LogPiece::Frame(frame), false) = (&piece, is_first) {
                let values = overview.reducer.tick_values(frame);
                rows.extend(values.into_iter().filter(|(time_ns, _)| *time_ns > read_until_ns));
            }
        })?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(rows)
    }

    /// Returns true to exactly one caller, who then makes the overview: nobody has started, and the pause after a
    /// failure is over.
    pub fn try_begin(&self) -> bool {
        let is_waiting = lock_ignoring_poison(&self.retry).not_before.is_some_and(|time| Instant::now() < time);
        !is_waiting && !self.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Records the result of reading; after a failure it may be tried again after a pause.
    pub fn record_read(&self, fault: Option<String>) {
        let failed = fault.is_some();
        self.set_fault(fault);
        let mut retry = lock_ignoring_poison(&self.retry);
        if failed {
            let pause = (retry.pause * 2).clamp(RETRY_PAUSES.0, RETRY_PAUSES.1);
            *retry = ReadRetry { pause, not_before: Some(Instant::now() + pause) };
            self.is_begun.store(false, Ordering::Relaxed);
            return;
        }
        *retry = ReadRetry::default();
        // the error in the list of hosts is outdated
        lock_ignoring_poison(&self.summary).take_if(|summary| summary.is_err());
    }

    /// Sets or clears the reason why it cannot be read.
    pub fn set_fault(&self, fault: Option<String>) {
        *lock_ignoring_poison(&self.fault) = fault;
    }

    /// Drops the overview; it is made again on the next request.
    pub fn forget_overview(&self) {
        *self.overview.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.is_read.store(false, Ordering::Relaxed);
        self.is_begun.store(false, Ordering::Relaxed);
    }

    /// Calls `read` with the overview; `None` if there is none yet.
    pub fn with_overview<T>(&self, read: impl FnOnce(&LogOverview) -> T) -> Option<T> {
        self.overview.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
    }

    /// Sets a bookmark. It is also added to the overview, which reads only what follows its last tick, while a bookmark
    /// may be earlier.
    pub fn set_bookmark(&self, time_ns: i64, text: &str) -> Result<(), String> {
        self.source.set_bookmark(time_ns, text)?;
        let mut guard = self.overview.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(overview) = guard.as_mut() {
            overview.push(&LogPiece::Note(Note::new(time_ns, Note::BOOKMARK, text)));
        }
        Ok(())
    }

    /// The view of a moment; `judged_ns` before it are judged, and values are averaged over `shown_ns`.
    pub fn view_at(
        &self,
        cursor_ns: i64,
        (shown_ns, judged_ns): (i64, i64),
        all_devices: bool,
    ) -> Result<DashboardView, String> {
        let window = ViewWindow { all_devices, ..self.view_window(cursor_ns, shown_ns, judged_ns) };
        self.new_viewer().build_view(self.source.history()?.as_ref(), &window)
    }

    fn view_window(&self, cursor_ns: i64, shown_ns: i64, judged_ns: i64) -> ViewWindow {
        ViewWindow {
            cursor_ns,
            span: (cursor_ns - CHART_SPAN_NS.max(self.source.interval_ns() * CHART_POINTS as i64), cursor_ns),
            shown_ns: shown_ns.clamp(self.source.interval_ns(), MAX_SHOWN_NS.max(self.source.interval_ns())),
            judged_ns,
            judged_step_ns: 0,
            quantity: 0,
            all_devices: false,
            points: (CHART_POINTS, CHART_POINTS),
        }
    }

    /// Reads new ticks and returns the event of the newest frame, if there is a new one.
    pub fn next_frame(&self, viewer: &mut Viewer) -> Result<Option<Vec<u8>>, String> {
        let rows = self.read()?;
        let (first, last) = self.range();
        let previous_ns = lock_ignoring_poison(&self.frames).until_ns;
        if last == previous_ns || last == 0 {
            return Ok(None);
        }
        let interval_ns = self.source.interval_ns();
        let judged_ns = MIN_JUDGED_NS.max(interval_ns * 12);
        let window = self.view_window(last, MIN_SHOWN_NS.max(interval_ns), judged_ns);
        let window = ViewWindow { judged_step_ns: judged_ns / STEPS_PER_JUDGED_SPAN, ..window };
        let view = viewer.build_view(self.source.history()?.as_ref(), &window)?;
        *lock_ignoring_poison(&self.summary) = view.verdict.clone().map(Ok);
        if let Some(overview) = self.overview.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            overview.add_captures(&view.marks);
        }
        let series = self.with_overview(|overview| overview.reducer.series().count()).unwrap_or(0);
        let view = serde_json::to_string(&reduced_json::view_document(&view)).map_err(|error| error.to_string())?;
        let range = json!([ns_to_ms(first), ns_to_ms(last)]);
        let newest = format!("\"range_ms\":{range},\"series\":{series},\"view\":{view}");
        let mut frames = lock_ignoring_poison(&self.frames);
        (frames.newest, frames.until_ns) = (newest, last);
        if last < previous_ns {
            frames.recent.clear();
        }
        frames.recent.extend(rows.iter().cloned());
        let extra = frames.recent.len().saturating_sub(MAX_RECENT_TICKS);
        frames.recent.drain(..extra);
        Ok(Some(frame_event(&frames, previous_ns, rows.iter())))
    }

    /// A viewer for [`Self::next_frame`], which caches from frame to frame.
    pub fn frame_viewer(&self) -> Viewer {
        self.new_viewer()
    }

    /// The first event for a client, with the ticks since the last one that it saw.
    pub fn first_event(&self, last_seen_ns: Option<i64>) -> Vec<u8> {
        let frames = lock_ignoring_poison(&self.frames);
        if frames.newest.is_empty() {
            return b"retry: 2000\n: the first frame is being made\n\n".to_vec();
        }
        let oldest = frames.recent.front().map_or(i64::MAX, |(time_ns, _)| *time_ns);
        // a client that missed more ticks than are kept gets none (0), and loads everything again
        let known_ns = last_seen_ns.filter(|seen| *seen >= oldest).unwrap_or(0);
        if known_ns == frames.until_ns {
            return b"retry: 2000\n: nothing is newer\n\n".to_vec();
        }
        let rows = frames.recent.iter().filter(|(time_ns, _)| known_ns > 0 && *time_ns > known_ns);
        [b"retry: 2000\n".as_slice(), &frame_event(&frames, known_ns, rows)].concat()
    }

    /// JSON document about the host.
    pub fn host_document(&self) -> Value {
        let (first, last) = self.range();
        let read_ns = self.with_overview(|overview| overview.until_ns).unwrap_or(first).clamp(first, last.max(first));
        let share = if last > first { ((read_ns - first) as f64 / (last - first) as f64).clamp(0.0, 1.0) } else { 1.0 };
        let series = self.with_overview(|overview| overview.reducer.series().cloned().collect::<Vec<_>>());
        let panels = &self.settings.panels;
        json!({
            "schema": "diskwright.host/1",
            "name": self.source.name(),
            "live": self.is_live(),
            "can_mark": self.source.can_set_bookmarks(),
            "interval_ms": ns_to_ms(self.source.interval_ns()),
            "range_ms": if last > 0 { json!([ns_to_ms(first), ns_to_ms(last)]) } else { Value::Null },
            "read": if self.is_read() { 1.0 } else { share.min(0.99) },
            "fault": *lock_ignoring_poison(&self.fault),
            "alerts_ready": self.source.alerts((first, last)).1,
            "heat": self.has_heat.load(Ordering::Relaxed),
            "columns": panels.devices.columns.iter().map(reduced_json::counter_document).collect::<Vec<_>>(),
            "timeline": panels.timeline.iter().map(reduced_json::counter_document).collect::<Vec<_>>(),
            "capacities": reduced_json::capacity_counters(),
            "series": series.unwrap_or_default(),
        })
    }

    /// Its entry in the list of hosts.
    pub fn list_entry(&self, id: usize) -> Value {
        let (first, last) = self.range();
        let summary = lock_ignoring_poison(&self.summary).clone();
        let (verdict, fault) = match summary {
            Some(Ok(verdict)) => (reduced_json::verdict_document(&verdict), None),
            Some(Err(fault)) => (Value::Null, Some(fault)),
            None => (Value::Null, None),
        };
        json!({
            "id": id,
            "name": self.source.name(),
            "live": self.is_live(),
            "range_ms": if last > 0 { json!([ns_to_ms(first), ns_to_ms(last)]) } else { Value::Null },
            "verdict": verdict,
            "fault": fault.or_else(|| lock_ignoring_poison(&self.fault).clone()),
        })
    }

    /// True if its whole log has not been judged yet.
    pub fn is_unjudged(&self) -> bool {
        lock_ignoring_poison(&self.summary).is_none()
    }

    /// Judges the whole log, for the list of hosts.
    pub fn judge_whole_log(&self) {
        let judged = self.source.prepare().and_then(|()| self.refresh()).and_then(|()| {
            let (first, last) = self.range();
            let view = self.view_at(last, (0, last - first), false)?;
            view.verdict.ok_or_else(|| "fewer than two ticks".to_owned())
        });
        *lock_ignoring_poison(&self.summary) = Some(judged);
    }
}

/// True if the schema has percentiles of request latency.
fn has_latency(schema: &Schema) -> bool {
    static COUNTERS: LazyLock<HashSet<String>> = LazyLock::new(|| latency_view::counter_ids().collect());
    schema.series.iter().any(|series| COUNTERS.contains(&series.counter))
}

fn frame_event<'r>(frames: &LiveFrames, before_ns: i64, rows: impl Iterator<Item = &'r ValueRow>) -> Vec<u8> {
    let rows: Vec<Value> = rows.map(|(time_ns, values)| json!([ns_to_ms(*time_ns), values])).collect();
    let (id, newest, before) = (frames.until_ns, &frames.newest, ns_to_ms(before_ns));
    let rows = Value::Array(rows);
    let data = format!("\"schema\":\"diskwright.frame/1\",\"before_ms\":{before},{newest},\"ticks\":{rows}");
    format!("id: {id}\nevent: frame\ndata: {{{data}}}\n\n").into_bytes()
}
