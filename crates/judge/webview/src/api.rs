//! HTTP interface: the page, and data about a host, a moment or a stretch.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskwright_base::LogPiece;
use diskwright_base::text;
use diskwright_dashboard::overview::{ReducedLine, SeriesReducer, merge_alert_value};
use diskwright_httpserver::{HttpReply, HttpRequest, HttpResponse, HttpService};
use serde_json::{Value, json};

use crate::access::{WebAccess, random_text, with_security_headers};
use crate::host_source::Stretch;
use crate::host_state::HostState;
use crate::{page, reduced_json, threads};

/// Largest number of points of a line.
const MAX_POINTS: usize = 4000;
/// Default number of points of a line.
const DEFAULT_POINTS: usize = 600;
/// Longest stretch, in ticks, that is read tick by tick if an overview could be used instead.
const MAX_TICKS: i64 = 30_000;
/// Largest number of cached answers.
const MAX_CACHED_ANSWERS: usize = 64;
/// Largest number of bytes of all cached answers.
const MAX_CACHED_BYTES: usize = 32 << 20;
/// Largest number of slow answers at a time; the remaining threads are reserved for fast ones.
const MAX_LONG_ANSWERS: usize = 2;
/// Rounding error of a time in milliseconds as a JavaScript number, nanoseconds: a tick at the very end of a stretch
/// belongs to it.
const ROUNDING_NS: i64 = 1_000;
/// Largest distance of a time from 1970, milliseconds (the year 2115), so that differences fit into nanoseconds.
const MAX_TIME_MS: f64 = 4.6e12;
/// Longest text of a bookmark, characters.
const MAX_BOOKMARK_CHARS: usize = 500;
const JSON: &str = "application/json";

/// A request and the body of its answer.
type CachedAnswer = (String, Arc<[u8]>);

/// Cache of recent answers, the oldest first.
#[derive(Default)]
pub struct AnswerCache(Mutex<VecDeque<CachedAnswer>>);

impl AnswerCache {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().find(|(known, _)| known == key).map(|(_, body)| Arc::clone(body))
    }

    fn insert_answer(&self, key: String, body: &Arc<[u8]>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push_back((key, Arc::clone(body)));
        let bytes = |answers: &VecDeque<CachedAnswer>| answers.iter().map(|(_, body)| body.len()).sum::<usize>();
        while answers.len() > MAX_CACHED_ANSWERS || bytes(&answers) > MAX_CACHED_BYTES {
            answers.pop_front();
        }
    }
}

/// Serves the page and its data.
pub struct WebService {
    /// Number of slow answers in progress.
    pub long_answers: Arc<AtomicUsize>,
    pub access: WebAccess,
    pub hosts: Arc<Vec<Arc<HostState>>>,
    pub cache: Arc<AnswerCache>,
    /// Requests a host's overview by its id.
    pub overview_requests: std::sync::mpsc::Sender<usize>,
    pub version: String,
}

impl HttpService for WebService {
    fn handle_request(&mut self, request: &HttpRequest) -> HttpReply {
        if let Some(refusal) = self.access.check_request(request) {
            return HttpReply::Now(refusal);
        }
        if !request.is_read_only() && request.path != "/api/mark" {
            return plain_reply("404 Not Found", "this page is read-only");
        }
        match request.path.as_str() {
            "/" => return HttpReply::Now(self.page_answer()),
            "/api/hosts" => return self.hosts_reply(),
            _ => {}
        }
        let id: Option<usize> = request.query_parameter("host").map_or(Some(0), |text| text.parse().ok());
        let Some((id, host)) = id.and_then(|id| Some((id, self.hosts.get(id)?))) else {
            return plain_reply("404 Not Found", "no such host");
        };
        let known =
            ["/api/host", "/api/view", "/api/range", "/api/heat", "/api/compare", "/api/mark", "/events", "/report"];
        if !known.contains(&request.path.as_str()) {
            return plain_reply("404 Not Found", "no such page");
        }
        threads::request_overview(&self.overview_requests, host, id);
        if request.path == "/events" {
            return stream_reply(host, id, request);
        }
        let (host, cache, request) = (Arc::clone(host), Arc::clone(&self.cache), request.clone());
        if !matches!(request.path.as_str(), "/api/host" | "/api/range" | "/api/mark") {
            // fast answers keep threads in reserve, so that a zoom does not wait for a report
            let Some(slot) = LongAnswerSlot::try_acquire(&self.long_answers) else {
                return plain_reply("503 Service Unavailable\r\nRetry-After: 1", "too many requests");
            };
            return HttpReply::Later(Box::new(move || {
                let _slot = slot;
                with_security_headers(make_answer(&host, id, &cache, &request), None)
            }));
        }
        HttpReply::Later(Box::new(move || with_security_headers(make_answer(&host, id, &cache, &request), None)))
    }
}

/// Slot for a slow answer, released on drop.
struct LongAnswerSlot(Arc<AtomicUsize>);

impl LongAnswerSlot {
    fn try_acquire(count: &Arc<AtomicUsize>) -> Option<LongAnswerSlot> {
        // created first, so that dropping it on failure undoes the count
        let slot = LongAnswerSlot(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < MAX_LONG_ANSWERS).then_some(slot)
    }
}

impl Drop for LongAnswerSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn plain_reply(status: &'static str, text: &str) -> HttpReply {
    HttpReply::Now(with_security_headers(HttpResponse::plain_text(status, &format!("{text}\n")), None))
}

impl WebService {
    fn page_answer(&self) -> HttpResponse {
        match random_text(16) {
            Ok(nonce) => {
                let page = page::render_page(&nonce, &self.version);
                with_security_headers(HttpResponse::ok("text/html; charset=utf-8", page.into_bytes()), Some(&nonce))
            }
            Err(_) => with_security_headers(
                HttpResponse::plain_text("500 Internal Server Error", "no random numbers\n"),
                None,
            ),
        }
    }

    fn hosts_reply(&self) -> HttpReply {
        let list: Vec<Value> = self.hosts.iter().enumerate().map(|(id, host)| host.list_entry(id)).collect();
        let document = json!({ "schema": "diskwright.hosts/1", "version": self.version, "hosts": list });
        HttpReply::Now(with_security_headers(HttpResponse::ok(JSON, document.to_string().into_bytes()), None))
    }
}

/// Event stream of a live host; for others 204, which tells a browser not to reconnect.
fn stream_reply(host: &Arc<HostState>, id: usize, request: &HttpRequest) -> HttpReply {
    if !host.is_live() || request.is_head() {
        // 204 must have no body, not even an empty line: it would be read as the start of the next answer
        return HttpReply::Now(with_security_headers(HttpResponse::plain_text("204 No Content", ""), None));
    }
    let seen = request.header("last-event-id").and_then(|id| id.parse().ok());
    let answer = HttpResponse::ok("text/event-stream", host.first_event(seen));
    HttpReply::Stream(with_security_headers(answer, None), id)
}

/// Read state of a host: whether its log was read completely, and up to which time.
fn read_state(host: &HostState) -> (bool, Option<i64>) {
    (host.is_read(), host.with_overview(|overview| overview.until_ns))
}

/// Cache key of an answer. It includes the extent of the log and how far it was read, because both change answers.
pub fn cache_key(host: &HostState, id: usize, request: &HttpRequest) -> String {
    let names = ["at", "from", "to", "shown", "judged", "all", "points", "counters", "from2", "to2"];
    let parameters = names.map(|name| request.query_parameter(name).unwrap_or_default()).join("&");
    let (first, last) = host.range();
    let (alerts, is_done) = host.source.alerts((first, last));
    let overview = host.with_overview(|overview| (overview.until_ns, overview.marks.len()));
    let (until, marks) = overview.unwrap_or_default();
    let state = format!("{last}:{until}:{}:{}:{is_done}:{marks}", host.is_read(), alerts.len());
    format!("{id}{}?{parameters}@{state}", request.path)
}

/// Makes the answer to a request for data, or takes it from the cache.
fn make_answer(host: &HostState, id: usize, cache: &AnswerCache, request: &HttpRequest) -> HttpResponse {
    let is_cacheable = matches!(request.path.as_str(), "/api/view" | "/api/range" | "/api/heat" | "/api/compare");
    let before = read_state(host);
    let key = if is_cacheable { cache_key(host, id, request) } else { String::new() };
    if let Some(body) = cache.get(&key).filter(|_| is_cacheable) {
        return HttpResponse::ok(JSON, body);
    }
    let result = match request.path.as_str() {
        "/api/host" => Ok(host.host_document()),
        "/api/view" => view_document(host, request),
        "/api/range" => range_document(host, request),
        "/api/heat" => heat_document(host, request),
        "/api/compare" => compare_document(host, request),
        "/api/mark" => set_bookmark(host, request),
        _ => return report_answer(host, request),
    };
    match result {
        Ok(document) => {
            let body: Arc<[u8]> = document.to_string().into_bytes().into();
            // an overview that was read or dropped meanwhile may be in the answer only in part
            if is_cacheable && before == read_state(host) {
                cache.insert_answer(key, &body);
            }
            HttpResponse::ok(JSON, body)
        }
        Err(because) => {
            let body = json!({ "schema": "diskwright.fault/1", "because": text::printable_line(&because) });
            HttpResponse {
                status: "422 Unprocessable Content",
                ..HttpResponse::ok(JSON, body.to_string().into_bytes())
            }
        }
    }
}

/// Parses a time or length of the query, given in milliseconds, into nanoseconds.
fn parse_time(request: &HttpRequest, name: &str) -> Result<Option<i64>, String> {
    let Some(text) = request.query_parameter(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let found: Option<f64> = text.parse().ok().filter(|ms: &f64| ms.is_finite() && ms.abs() < MAX_TIME_MS);
    found.map(|ms| Some((ms * 1e6) as i64)).ok_or_else(|| format!("{name} is not a time in milliseconds since 1970"))
}

/// Parses a stretch of the query; by default the whole recording.
fn parse_stretch(host: &HostState, request: &HttpRequest, names: [&str; 2]) -> Result<Stretch, String> {
    let (first, last) = host.range();
    let from = parse_time(request, names[0])?.unwrap_or(first);
    let to = parse_time(request, names[1])?.unwrap_or(last);
    if from >= to { Err(format!("{} is not before {}", names[0], names[1])) } else { Ok((from, to)) }
}

/// Parses a stretch to be judged; an error if nothing was recorded in it, because a page about an empty stretch would
/// be misleading.
fn parse_recorded_stretch(host: &HostState, request: &HttpRequest, names: [&str; 2]) -> Result<Stretch, String> {
    let (from, to) = parse_stretch(host, request, names)?;
    let (first, last) = host.range();
    if to < first || from > last {
        return Err("nothing was recorded in this time".into());
    }
    Ok((from - ROUNDING_NS, to + ROUNDING_NS))
}

fn view_document(host: &HostState, request: &HttpRequest) -> Result<Value, String> {
    check_loaded(host)?;
    let (first, last) = host.range();
    let cursor_ns = parse_time(request, "at")?.unwrap_or(last).saturating_add(ROUNDING_NS).clamp(first, last);
    let interval = host.source.interval_ns();
    let judged = parse_time(request, "judged")?.unwrap_or(60_000_000_000).clamp(interval, (last - first).max(interval));
    let judged = judged + 2 * ROUNDING_NS;
    let shown = parse_time(request, "shown")?.unwrap_or(5_000_000_000);
    let all_devices = request.query_parameter("all").is_some_and(|text| text == "1");
    host.view_at(cursor_ns, (shown, judged), all_devices).map(|view| reduced_json::view_document(&view))
}

/// Returns an error if nothing of the log has been read yet; does not wait.
fn check_loaded(host: &HostState) -> Result<(), String> {
    if host.range().1 == 0 { Err("it is still loading".into()) } else { Ok(()) }
}

fn range_document(host: &HostState, request: &HttpRequest) -> Result<Value, String> {
    check_loaded(host)?;
    let (from, to) = parse_stretch(host, request, ["from", "to"])?;
    let points = request.query_parameter("points").and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_POINTS);
    let points = points.clamp(10, MAX_POINTS);
    let counters = request.query_parameter("counters").unwrap_or_default();
    let counters: Vec<String> = counters.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    let width = host.with_overview(|overview| overview.reducer.width_ns()).unwrap_or(i64::MAX);
    let (first, last) = host.range();
    let recorded_ns = to.min(last) - from.max(first);
    // half of the requested resolution is enough, because reading tick by tick takes longer
    let is_fine = width / 2 <= (to - from) / points as i64;
    let is_long = recorded_ns / host.source.interval_ns() > MAX_TICKS;
    let from_overview = is_fine || is_long || !host.is_read();
    let lines = if from_overview {
        // no more points than the overview has
        let points = points.min(usize::try_from((to - from) / width.max(1)).unwrap_or(points).max(10));
        let lines = host.with_overview(|overview| overview.reducer.reduced_lines(&counters, (from, to), points));
        lines.unwrap_or_default()
    } else {
        let max_points = usize::try_from((to - from) / host.source.interval_ns()).unwrap_or(points).max(10);
        reduce_ticks(host, counters, (from, to), points.min(max_points))?
    };
    let widened = (from - ROUNDING_NS, to + ROUNDING_NS);
    let is_inside = |time_ns: i64| (widened.0..=widened.1).contains(&time_ns);
    let marks =
        host.with_overview(|overview| overview.marks.iter().filter(|m| is_inside(m.time_ns)).cloned().collect());
    let is_in_range = |alert: &&Value| {
        let time = |key: &str| alert[key].as_i64();
        time("begin_ns").is_some_and(|begin| begin <= widened.1) && time("end_ns").is_none_or(|end| end >= widened.0)
    };
    let alerts = host.with_overview(|overview| overview.alerts.iter().filter(is_in_range).cloned().collect());
    let (marks, alerts): (Option<Vec<_>>, Option<Vec<Value>>) = (marks, alerts);
    let mut alerts = alerts.unwrap_or_default();
    host.source.alerts(widened).0.iter().for_each(|alert| merge_alert_value(&mut alerts, json!(alert)));
    Ok(json!({
        "schema": "diskwright.range/1",
        "from_ms": from as f64 / 1e6,
        "to_ms": to as f64 / 1e6,
        "ticks": !from_overview,
        "lines": lines,
        "marks": marks.unwrap_or_default(),
        "alerts": alerts,
    }))
}

/// Lines of a short stretch, reduced from its ticks.
fn reduce_ticks(
    host: &HostState,
    counters: Vec<String>,
    (from, to): Stretch,
    points: usize,
) -> Result<Vec<ReducedLine>, String> {
    let mut reducer = SeriesReducer::for_window(host.settings.panels.clone(), counters, (from, to), points);
    let (history, interval) = (host.source.history()?, host.source.interval_ns());
    let last_read_ns = Cell::new(i64::MIN);
    let mut push_piece = |piece: LogPiece<'_>| match piece {
        LogPiece::Frame(frame) => {
            last_read_ns.set(frame.ticks().last().map_or(last_read_ns.get(), |tick| tick.time_ns));
            reducer.push(frame);
        }
        LogPiece::Note(note) => reducer.add_note(&note),
    };
    // a tick covers the time before it
    let until = to.saturating_add(interval);
    history.read(from, until, &mut push_piece)?;
    // the tick that covers the end may be longer than usual
    let longest_tick_ns = host.with_overview(|overview| overview.longest_ns).unwrap_or(0);
    if last_read_ns.get() < to && longest_tick_ns > interval {
        let longest_tick_ns = longest_tick_ns.min(interval.saturating_mul(MAX_TICKS));
        history.read(until.saturating_add(1), to.saturating_add(longest_tick_ns), &mut push_piece)?;
    }
    Ok(reducer.reduced_lines(&[], (from, to), points))
}

fn heat_document(host: &HostState, request: &HttpRequest) -> Result<Value, String> {
    check_loaded(host)?;
    let stretch = parse_stretch(host, request, ["from", "to"])?;
    let charts = host.source.heat_charts(stretch)?;
    let maps = charts.iter().map(|chart| {
        json!({
            "title": chart.title,
            "from_ms": chart.from_ns as f64 / 1e6,
            "to_ms": chart.to_ns as f64 / 1e6,
            "requests": chart.requests,
            "median_s": chart.median_s,
            "p99_s": chart.p99_s,
            "longest_s": chart.longest_s,
            "labels": chart.labels,
            "columns": chart.columns,
        })
    });
    Ok(json!({ "schema": "diskwright.heat/1", "maps": maps.collect::<Vec<_>>() }))
}

fn compare_document(host: &HostState, request: &HttpRequest) -> Result<Value, String> {
    check_loaded(host)?;
    let (first, second) = (
        parse_recorded_stretch(host, request, ["from", "to"])?,
        parse_recorded_stretch(host, request, ["from2", "to2"])?,
    );
    host.source.compare_stretches(first, second)
}

fn set_bookmark(host: &HostState, request: &HttpRequest) -> Result<Value, String> {
    if request.is_read_only() {
        return Err("POST a bookmark".into());
    }
    let body: Value = serde_json::from_slice(&request.body).map_err(|error| format!("invalid JSON: {error}"))?;
    let text = body["text"].as_str().map(str::trim).unwrap_or_default();
    if text.is_empty() || text.chars().count() > MAX_BOOKMARK_CHARS {
        return Err(format!("a bookmark needs a text of 1 to {MAX_BOOKMARK_CHARS} characters"));
    }
    let time_ms = body["time_ms"].as_f64().filter(|ms| ms.abs() < MAX_TIME_MS).ok_or("a bookmark needs a time_ms")?;
    let time_ns = (time_ms * 1e6) as i64;
    let (first, last) = host.range();
    if !(first - ROUNDING_NS..=last.saturating_add(60_000_000_000)).contains(&time_ns) {
        return Err("the bookmark's time is outside of the log".into());
    }
    host.set_bookmark(time_ns, text)?;
    Ok(json!({ "schema": "diskwright.mark/1", "time_ms": time_ms, "text": text }))
}

fn report_answer(host: &HostState, request: &HttpRequest) -> HttpResponse {
    let stretch = check_loaded(host).and_then(|()| parse_recorded_stretch(host, request, ["from", "to"]));
    match stretch.and_then(|range| host.source.report_page(range)) {
        Ok(page) => {
            let mut answer = HttpResponse::ok("text/html; charset=utf-8", page.into_bytes());
            answer.headers.push(("Content-Disposition", "attachment; filename=\"diskwright-report.html\"".into()));
            answer
        }
        Err(because) => {
            HttpResponse::plain_text("422 Unprocessable Content", &format!("{}\n", text::printable_line(&because)))
        }
    }
}
