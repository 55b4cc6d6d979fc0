//! `serve` and its clients: access, answers, and hostile clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_base::{Device, Note, ProcessRow, ProcessTable, Schema, Series, Tick, Topology};
use diskwright_datastore::{LogWriter, WriterOptions};
use serde_json::Value;

use crate::common::{command, diskwright, folder, interrupt, json, stderr, text, wait_until};

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_790_000_000 * SECOND_NS;
const TICK_COUNT: i64 = 300;
/// Timeout of sockets: longer than any answer takes on a busy machine.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(60);
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Writes a log of a disk that is slow from tick 150 to 240, with a hostile process name and bookmark.
fn write_log(place: &Path, host: &str) -> PathBuf {
    let series = |counter: &str, scale: f64| Series { counter: counter.into(), instance: "sda".into(), scale };
    let schema = Arc::new(Schema::new(vec![
        series("physical_disk.reads", 1.0),
        series("physical_disk.writes", 1.0),
        series("physical_disk.read_time_s", 1e-6),
        series("physical_disk.write_time_s", 1e-6),
        series("physical_disk.weighted_time_s", 1e-6),
        series("physical_disk.busy_time_s", 1e-6),
        series("physical_disk.read_bytes", 512.0),
    ]));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a log");
    let topology = Topology { host: host.into(), ..Topology::default() };
    let topology = serde_json::to_string(&topology).expect("JSON");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("noted");
    writer.add_note(&Note::new(START_NS + 100 * SECOND_NS, Note::BOOKMARK, HOSTILE)).expect("noted");
    let row = ProcessRow { pid: 7, name: HOSTILE.into(), read_bytes_per_s: Some(4e5), ..ProcessRow::default() };
    let table = ProcessTable { elapsed_s: 1.0, rows: vec![row], ..ProcessTable::default() };
    let table = serde_json::to_string(&table).expect("JSON");
    for second in 1..=TICK_COUNT {
        let each: f64 = if (150..240).contains(&second) { 40_000.0 } else { 2_000.0 };
        let busy = (100.0 * each).min(1e6);
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[100.0, 0.0, 100.0 * each, 0.0, 100.0 * each, busy, 800.0]).expect("room");
        writer.add_note(&Note::new(tick.time_ns, Note::PROCESSES, table.clone())).expect("noted");
    }
    writer.close().expect("closed");
    place.to_owned()
}

/// A running server and its address; killed when it is dropped.
pub struct RunningServer {
    child: Child,
    address: String,
}

impl RunningServer {
    pub fn start(arguments: &[&str]) -> RunningServer {
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--json"], arguments].concat();
        let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut document = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        while serde_json::from_str::<Value>(&document).is_err() {
            assert!(output.read_line(&mut document).is_ok_and(|read| read > 0), "ended: {document}");
        }
        let url: Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(url["schema"], "diskwright.serve/1");
        let address = url["url"].as_str().expect("a text").trim_start_matches("http://").trim_end_matches('/');
        RunningServer { child, address: address.to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(SOCKET_TIMEOUT)).expect("set");
        stream.set_write_timeout(Some(SOCKET_TIMEOUT)).expect("set");
        stream
    }

    /// Sends the text unchanged; returns head and body of the answer.
    fn send_raw(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// Head and body of the answer to a GET request; `more` is further header lines.
    fn get(&self, target: &str, more: &str) -> (String, String) {
        let host = &self.address;
        self.send_raw(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"))
    }

    pub fn json(&self, target: &str) -> Value {
        let (head, body) = self.get(target, "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{target}: {head}\n{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Head and body of the answer to a new bookmark; `more` is further header lines.
    fn post(&self, body: &str, more: &str) -> (String, String) {
        let (host, length) = (&self.address, body.len());
        let head = format!("POST /api/mark HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}");
        self.send_raw(&format!("{head}Content-Length: {length}\r\n\r\n{body}"))
    }

    /// Waits until the server has read the whole log of a host.
    pub fn wait_until_read(&self, host: usize) {
        wait_until("the log to be read", || self.json(&format!("/api/host?host={host}"))["read"] == 1.0);
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status code of a response head.
fn status_code(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn lists_stacked_devices_only_with_all() {
    let place = folder("serve-built").join("log");
    let series =
        |instance: &str| Series { counter: "physical_disk.reads".into(), instance: instance.into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series("sda"), series("dm-0")]));
    let device = |name: &str, below: Vec<String>| Device { name: name.into(), below, ..Device::default() };
    let devices = vec![device("sda", Vec::new()), device("dm-0", vec!["sda".into()])];
    let topology = serde_json::to_string(&Topology { devices, ..Topology::default() }).expect("JSON");
    let mut writer = LogWriter::create_or_append(&place, WriterOptions::default()).expect("a log");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("noted");
    for second in 1..=20 {
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[10.0, 10.0]).expect("room");
    }
    writer.close().expect("closed");
    let served = RunningServer::start(&[text(&place)]);
    served.wait_until_read(0);
    let names = |words: &str| {
        let view = served.json(&format!("/api/view?at={}{words}", (START_NS + 20 * SECOND_NS) / 1_000_000));
        let rows = view["devices"].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    // with &all=1 the answer is not taken from the cache of the first one
    assert_eq!(names(""), ["sda"]);
    let all = names("&all=1");
    assert!(all.len() == 2 && all.contains(&"dm-0".to_owned()), "{all:?}");
    assert_eq!(names("&all=0"), ["sda"]);
}

/// Schema with the reads of one disk.
fn reads_schema(disk: &str) -> Arc<Schema> {
    let series = Series { counter: "physical_disk.reads".into(), instance: disk.into(), scale: 1.0 };
    Arc::new(Schema::new(vec![series]))
}

/// Appends some seconds to a log after a pause of a minute. The log counts as recorded until the writer is dropped.
fn resume_recording(log: &Path, disk: &str) -> LogWriter {
    let schema = reads_schema(disk);
    let mut writer = LogWriter::create_or_append(log, WriterOptions::default()).expect("the log again");
    for second in TICK_COUNT + 60..=TICK_COUNT + 65 {
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[1.0]).expect("room");
    }
    writer
}

#[test]
fn follows_a_log_whose_recorder_restarts() {
    let log = write_log(&folder("serve-wakes").join("log"), "db1");
    let served = RunningServer::start(&[text(&log)]);
    served.wait_until_read(0);
    let end = |second: i64| ((START_NS + second * SECOND_NS) / 1_000_000) as f64;
    let before = served.json("/api/host?host=0");
    assert_eq!((&before["live"], before["range_ms"][1].as_f64()), (&false.into(), Some(end(TICK_COUNT))));
    // a window with --to keeps its end while the log is followed
    let until_then = diskwright_base::timestamp::format_rfc3339(START_NS + TICK_COUNT * SECOND_NS - 100 * SECOND_NS);
    let ended = RunningServer::start(&[text(&log), "--to", &until_then]);
    ended.wait_until_read(0);
    // with other series, as after an update
    let recorder = resume_recording(&log, "sdb");
    let state = || {
        let host = served.json("/api/host?host=0");
        (host["live"] == true, host["range_ms"][1].as_f64())
    };
    wait_until("the log to be followed", || state() == (true, Some(end(TICK_COUNT + 65))));
    // a log whose recorder runs stays live, one whose recorder ended does not
    std::thread::park_timeout(Duration::from_secs(3));
    assert_eq!(state(), (true, Some(end(TICK_COUNT + 65))));
    recorder.close().expect("closed");
    wait_until("the end of the log", || state() == (false, Some(end(TICK_COUNT + 65))));
    let host = ended.json("/api/host?host=0");
    assert_eq!((&host["live"], host["range_ms"][1].as_f64()), (&false.into(), Some(end(TICK_COUNT - 100))));
}

#[test]
fn a_view_at_the_time_of_the_last_tick_includes_it() {
    let schema = reads_schema("sda");
    // as milliseconds in a double, as a browser has them, half of all times lose some nanoseconds
    for microseconds in 5..=8 {
        let place = folder(&format!("serve-last-{microseconds}")).join("log");
        let mut writer = LogWriter::create_or_append(&place, WriterOptions::default()).expect("a log");
        for (second, reads) in [(1, 1.0), (2, 2.0), (3, 999.0)] {
            let time_ns = START_NS + second * SECOND_NS + microseconds * 1000;
            writer.push(&schema, Tick { time_ns, elapsed_ns: SECOND_NS.unsigned_abs() }, &[reads]).expect("room");
        }
        writer.close().expect("closed");
        let served = RunningServer::start(&[text(&place)]);
        served.wait_until_read(0);
        let last = served.json("/api/host")["range_ms"][1].clone();
        let view = served.json(&format!("/api/view?at={last}&shown=1000"));
        assert_eq!(view["devices"][0]["values"][0], 999.0, "{microseconds}: {}", view["devices"]);
    }
}

#[test]
fn lists_a_found_alert_once() {
    let folder = folder("serve-alerts-once");
    let paused = write_log(&folder.join("paused"), "db2");
    resume_recording(&paused, "sda").close().expect("closed");
    // the second host is read on its first request, and the search for its alerts begins at once
    let served = RunningServer::start(&[text(&write_log(&folder.join("other"), "db1")), text(&paused)]);
    std::thread::park_timeout(Duration::from_secs(2));
    served.wait_until_read(1);
    wait_until("the search for alerts", || served.json("/api/host?host=1")["alerts_ready"] == true);
    let range = served.json("/api/range?host=1");
    let silent = |alert: &&Value| alert["id"] == "recorder.silent";
    let found: Vec<&Value> = range["alerts"].as_array().expect("a list").iter().filter(silent).collect();
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn serves_views_ranges_comparisons_and_reports_of_a_log() {
    let served = RunningServer::start(&[text(&write_log(&folder("serve-log").join("log"), "db1"))]);
    let (head, page) = served.get("/", "");
    assert!(page.len() < 150_000 && page.starts_with("<!DOCTYPE html>"), "{head}");
    served.wait_until_read(0);
    let hosts = served.json("/api/hosts");
    assert_eq!((&hosts["hosts"][0]["name"], &hosts["hosts"][0]["live"]), (&"db1".into(), &false.into()));
    let time_ms = |second: i64| (START_NS + second * SECOND_NS) / 1_000_000;
    // the window in which the disk is slow, and one before
    let slow = served.json(&format!("/api/view?at={}&judged=80000&shown=80000", time_ms(235)));
    assert_eq!(slow["verdict"]["bottleneck"], "disk", "{}", slow["verdict"]);
    assert_eq!(slow["processes"][0]["name"], HOSTILE);
    let calm = served.json(&format!("/api/view?at={}&judged=80000&shown=80000", time_ms(100)));
    assert_eq!(calm["verdict"]["blames"], false, "{}", calm["verdict"]);
    let from_to = format!("from={}&to={}", time_ms(0), time_ms(TICK_COUNT));
    let range = served.json(&format!("/api/range?{from_to}&points=30&counters=physical_disk.avg_s_per_read"));
    let line = &range["lines"][0];
    let mean = |point: usize| line["mean"][point].as_f64().expect("a value");
    assert!((mean(5) - 0.002).abs() < 1e-6 && (mean(20) - 0.04).abs() < 1e-6, "{line}");
    assert_eq!((line["instance"].as_str(), range["marks"][0]["text"].as_str()), (Some("sda"), Some(HOSTILE)));
    let both = format!("from={}&to={}&from2={}&to2={}", time_ms(10), time_ms(140), time_ms(150), time_ms(239));
    let compared = served.json(&format!("/api/compare?{both}"));
    assert_eq!(compared["schema"], "diskwright.compare/1");
    let counters = compared["counters"].as_array().expect("rows");
    let place = |counter: &str| counters.iter().position(|row| row["counter"] == counter).expect(counter);
    assert!(place("physical_disk.avg_s_per_read") < place("physical_disk.reads_per_s"), "what changed comes first");
    let (head, report) = served.get(&format!("/report?from={}&to={}", time_ms(150), time_ms(239)), "");
    assert!(head.contains("Content-Disposition: attachment") && report.contains("<svg"), "{head}");
    assert!(!report.contains("<img src=x"), "what is hostile is escaped");
    let (head, body) = served.get("/events", "");
    assert_eq!((status_code(&head), body.as_str()), ("204", ""), "a log that has ended has no stream");
    let nothing = served.get("/report?from=1&to=2", "");
    assert!(status_code(&nothing.0) == "422" && nothing.1.contains("nothing was recorded in this time"), "{nothing:?}");
    let wrong = served.get("/api/range?from=5&to=1", "");
    assert!(status_code(&wrong.0) == "422" && wrong.1.contains("is not before"), "{wrong:?}");
    for (far, code) in [("from=-4e12&to=4e12", "200"), ("from=-8e12&to=8e12", "422")] {
        assert_eq!(status_code(&served.get(&format!("/api/range?{far}"), "").0), code, "{far}");
    }
}

#[test]
fn a_zoom_into_a_long_tick_shows_its_value() {
    let place = folder("serve-long-tick").join("log");
    let series = Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series]));
    let mut writer = LogWriter::create_or_append(&place, WriterOptions::default()).expect("a log");
    // ticks of a second, and one tick of two minutes among them
    for (end, length) in (1..=60_i64).map(|s| (s, 1_i64)).chain([(180, 120)]).chain((181..=240).map(|s| (s, 1))) {
        let tick = Tick { time_ns: START_NS + end * SECOND_NS, elapsed_ns: (length * SECOND_NS).unsigned_abs() };
        writer.push(&schema, tick, &[length as f64 * 5.0]).expect("room");
    }
    writer.close().expect("closed");
    let served = RunningServer::start(&[text(&place)]);
    served.wait_until_read(0);
    let time_ms = |second: i64| (START_NS + second * SECOND_NS) / 1_000_000;
    let stretch = format!("from={}&to={}&points=100", time_ms(100), time_ms(140));
    let range = served.json(&format!("/api/range?{stretch}&counters=physical_disk.reads_per_s"));
    assert_eq!(range["ticks"], true, "it is read tick by tick");
    let mean = range["lines"][0]["mean"].as_array().expect("a line");
    assert!(!mean.is_empty() && mean.iter().all(|value| *value == 5.0), "{mean:?}");
}

#[test]
fn every_response_has_security_headers() {
    let served = RunningServer::start(&[text(&write_log(&folder("serve-heads").join("log"), "db1"))]);
    for target in ["/", "/api/hosts", "/api/host", "/nothing", "/report?from=9&to=1"] {
        let (head, _) = served.get(target, "");
        for line in ["Cache-Control: no-store", "X-Content-Type-Options: nosniff", "frame-ancestors 'none'"] {
            assert!(head.contains(line), "{target}: {line} is not in\n{head}");
        }
        assert!(!head.contains("unsafe-") && !head.contains("Access-Control"), "{head}");
    }
    let (head, page) = served.get("/", "");
    let nonce = head.split("script-src 'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    assert!(nonce.len() == 32 && page.contains(&format!("<script nonce=\"{nonce}\">")));
    assert!(!served.get("/", "").0.contains(nonce), "each page has a nonce of its own");
    assert!(!page.contains("<script>") && page.matches("<script").count() == 1);
}

#[test]
fn rejects_foreign_host_names_sites_and_paths() {
    let place = folder("serve-hostile");
    fs::write(place.join("secret"), "not to be served").expect("a file");
    let served = RunningServer::start(&[text(&write_log(&place.join("log"), "db1"))]);
    let port = served.address.rsplit(':').next().expect("a port");
    for name in ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example"] {
        let ask = format!("GET /api/hosts HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n");
        let (head, body) = served.send_raw(&ask);
        assert!(status_code(&head) == "403" && !body.contains("db1"), "{name}: {head}\n{body}");
    }
    let none = served.send_raw("GET /api/hosts HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(status_code(&none.0), "403");
    for site in ["cross-site", "same-site"] {
        assert_eq!(status_code(&served.get("/api/view", &format!("Sec-Fetch-Site: {site}\r\n")).0), "403", "{site}");
    }
    for target in [
        "/../secret",
        "/log/../../secret",
        "/%2e%2e/secret",
        "//etc/passwd",
        "/api/../secret",
        "/api/host/../../secret",
        "/report/../secret",
        "/etc/passwd",
        "/.",
        "/api/",
        "http://evil.example/",
        "/api/host?host=../secret",
        "/api/host?host=-1",
        "/api/host?host=18446744073709551616",
        "/api/host?host=%00",
        "/events?host=7",
    ] {
        let (head, body) = served.get(target, "");
        assert!(
            status_code(&head) == "404" && !body.contains("served\n") && !body.contains("root:"),
            "{target}: {head}"
        );
    }
    for (number, method) in ["PUT", "DELETE", "OPTIONS", "TRACE", "get"].into_iter().enumerate() {
        let ask = format!("{method} / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", served.address);
        assert_eq!(status_code(&served.send_raw(&ask).0), "405", "{number} {method}");
    }
}

#[test]
fn accepts_bookmarks_only_from_its_own_page() {
    let place = write_log(&folder("serve-marks").join("log"), "db1");
    let served = RunningServer::start(&[text(&place)]);
    served.wait_until_read(0);
    let time = (START_NS + 50 * SECOND_NS) / 1_000_000;
    let body = serde_json::json!({ "time_ms": time, "text": HOSTILE }).to_string();
    let (own, kind) = (format!("Origin: http://{}\r\n", served.address), "Content-Type: application/json\r\n");
    let refused = [
        (String::new() + kind, "403"),
        (format!("Origin: http://evil.example\r\n{kind}"), "403"),
        (format!("Origin: null\r\n{kind}"), "403"),
        (format!("Origin: http://{}.evil.example\r\n{kind}", served.address), "403"),
        (format!("{own}Content-Type: text/plain\r\n"), "415"),
        (own.clone(), "415"),
        (format!("{own}{kind}Sec-Fetch-Site: cross-site\r\n"), "403"),
    ];
    for (more, code) in refused {
        assert_eq!(status_code(&served.post(&body, &more).0), code, "{more}");
    }
    let own = own + kind;
    for wrong in ["", "{", "{}", "[1]", r#"{"time_ms":1,"text":"too early"}"#, r#"{"time_ms":"x","text":"y"}"#] {
        assert_eq!(status_code(&served.post(wrong, &own).0), "422", "{wrong}");
    }
    let long = serde_json::json!({ "time_ms": time, "text": "x".repeat(501) }).to_string();
    assert_eq!(status_code(&served.post(&long, &own).0), "422");
    assert_eq!(status_code(&served.post(&"x".repeat(17_000), &own).0), "413");
    let shown = json(&diskwright(&["show", text(&place), "--json"]));
    assert_eq!(shown["bookmarks"].to_string().matches("onerror").count(), 1, "nothing was set so far");
    let marks = || served.json("/api/range")["marks"].as_array().map_or(0, Vec::len);
    assert_eq!(marks(), 1);
    let (head, answer) = served.post(&body, &own);
    assert_eq!(status_code(&head), "200", "{answer}");
    let shown = json(&diskwright(&["show", text(&place), "--json"]));
    assert_eq!(shown["bookmarks"].to_string().matches("onerror").count(), 2, "{}", shown["bookmarks"]);
    assert_eq!(marks(), 2, "the page has it too, though it is earlier than the end of the log");
}

#[test]
fn requires_a_token_beyond_loopback() {
    let place = folder("serve-token");
    let log = write_log(&place.join("log"), "db1");
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9190"] {
        let done = diskwright(&["serve", text(&log), "--listen", open]);
        assert!(done.status.code() == Some(2) && stderr(&done).contains("--token-file"), "{open}: {}", stderr(&done));
    }
    // names are not resolved, so that even localhost may be reachable
    let done = diskwright(&["serve", text(&log), "--listen", "localhost:0"]);
    assert!(done.status.code() == Some(2) && stderr(&done).contains("may be reachable"), "{}", stderr(&done));
    for wrong in ["foo", "70000", "foo:bar", "::1", ":9190", ""] {
        for option in ["--listen", "--serve"] {
            let command = if option == "--serve" { "record" } else { "serve" };
            let arguments = [command, text(&log), &format!("{option}={wrong}")];
            let done = diskwright(&arguments);
            let message = stderr(&done);
            let names_both = message.contains("PORT") && message.contains(option) && !message.contains("reachable");
            assert!(done.status.code() == Some(2) && names_both, "{arguments:?}: {message}");
        }
    }
    let file = place.join("token");
    let served = RunningServer::start(&[text(&log), "--token-file", text(&file)]);
    let token = fs::read_to_string(&file).expect("it was made").trim().to_owned();
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    assert!(token.len() >= 32);
    let wrong = format!("{}x", &token[..token.len() - 1]);
    for more in [String::new(), format!("Cookie: diskwright={wrong}\r\n"), format!("Authorization: Bearer {wrong}\r\n")]
    {
        for target in ["/", "/api/hosts", "/events", "/report", &format!("/?token={wrong}"), "/api/hosts?token="] {
            let (head, body) = served.get(target, &more);
            assert!(
                status_code(&head) == "401" && !body.contains("db1") && !head.contains("Set-Cookie"),
                "{target}: {head}"
            );
        }
    }
    // the page takes the token once in its address and sets a cookie; other addresses do not accept it
    let (head, _) = served.get(&format!("/?token={token}"), "");
    assert!(
        status_code(&head) == "303" && head.contains("HttpOnly; SameSite=Lax") && head.contains("Location: /\r\n"),
        "{head}"
    );
    assert_eq!(status_code(&served.get(&format!("/api/hosts?token={token}"), "").0), "401");
    let cookie = head.split("Set-Cookie: ").nth(1).and_then(|rest| rest.split(';').next()).expect("a cookie");
    assert!(cookie.starts_with("diskwright-") && cookie.ends_with(&token), "of this port: {cookie}");
    // a browser also sends the cookie of a server on another port of this host
    for shown in [format!("Cookie: diskwright-1={wrong}; {cookie}\r\n"), format!("Authorization: Bearer {token}\r\n")] {
        assert!(served.get("/api/hosts", &shown).1.contains("db1"), "{shown}");
    }
}

#[test]
fn a_thousand_connections_and_slow_readers_delay_no_other() {
    let place = folder("serve-crowd");
    let dir = place.join("log");
    let mut recorder = command(&["record", text(&dir), "--every", "100ms", "--json"]);
    let recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    wait_until("the first ticks", || diskwright(&["show", text(&dir), "--json"]).status.success());
    let served = RunningServer::start(&[text(&dir)]);
    served.wait_until_read(0);
    // clients of the event stream that never read
    let slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = served.connect();
            let ask = format!("GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
            stream.write_all(ask.as_bytes()).expect("sent");
            stream
        })
        .collect();
    let mut crowd = Vec::new();
    for index in 0..1000 {
        // half of them send nothing, the others half of a request
        if let Ok(mut stream) = TcpStream::connect(&served.address) {
            if index % 2 == 0 {
                let _ = stream.write_all(b"GET /api/ho");
            }
            crowd.push(stream);
        }
    }
    assert!(crowd.len() > 900, "{}", crowd.len());
    let begun = Instant::now();
    assert_eq!(served.json("/api/hosts")["schema"], "diskwright.hosts/1");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // a client that reads gets one frame after the other meanwhile
    let mut reader = BufReader::new(served.connect());
    let ask = format!("GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    reader.get_mut().write_all(ask.as_bytes()).expect("sent");
    let mut ids: Vec<i64> = Vec::new();
    let mut line = String::new();
    while ids.len() < 5 {
        line.clear();
        assert!(reader.read_line(&mut line).is_ok_and(|read| read > 0), "the stream ended");
        ids.extend(line.strip_prefix("id: ").and_then(|id| id.trim().parse::<i64>().ok()));
    }
    // the first may come twice: to whoever connects, and when it is published
    assert!(ids[1..].windows(2).all(|pair| pair[0] < pair[1]) && ids[0] <= ids[1], "{ids:?}");
    drop((crowd, slow));
    interrupt(&recorder);
    let done = recorder.wait_with_output().expect("ended");
    let sum = json(&done);
    assert!(sum["ticks_lost"] == 0 && sum["ticks"].as_u64().is_some_and(|ticks| ticks > 10), "{sum}");
}

#[test]
fn a_reconnecting_reader_gets_missed_ticks_exactly_once() {
    let dir = folder("serve-resume").join("log");
    let mut recorder = command(&["record", text(&dir), "--every", "200ms"]);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    wait_until("the first ticks", || diskwright(&["show", text(&dir), "--json"]).status.success());
    let served = RunningServer::start(&[text(&dir)]);
    served.wait_until_read(0);
    let mut seen: Vec<f64> = Vec::new();
    let mut last = String::new();
    for turn in 0..3 {
        if turn > 0 {
            // disconnected for 0.7 s
            let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 700_000_000 });
        }
        let mut reader = BufReader::new(served.connect());
        let more = if last.is_empty() { String::new() } else { format!("Last-Event-ID: {last}\r\n") };
        let ask = format!("GET /events HTTP/1.1\r\nHost: {}\r\n{more}\r\n", served.address);
        reader.get_mut().write_all(ask.as_bytes()).expect("sent");
        let (mut frames, mut line) = (0, String::new());
        while frames < 4 {
            line.clear();
            assert!(reader.read_line(&mut line).is_ok_and(|read| read > 0), "the stream ended");
            if let Some(id) = line.strip_prefix("id: ") {
                id.trim().clone_into(&mut last);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let frame: Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(frame["schema"], "diskwright.frame/1");
                let ticks = frame["ticks"].as_array().expect("a list");
                seen.extend(ticks.iter().map(|tick| tick[0].as_f64().expect("a time")));
                frames += 1;
            }
        }
    }
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "no tick comes twice: {seen:?}");
    let apart = seen.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(apart < 2000.0, "none is missing: {apart} ms");
    let _ = recorder.kill();
    let _ = recorder.wait();
}

#[test]
fn lists_and_judges_several_hosts() {
    let place = folder("serve-fleet");
    let logs = [write_log(&place.join("log0"), "db1"), write_log(&place.join("log1"), "db2")];
    let served = RunningServer::start(&[text(&logs[0]), text(&logs[1])]);
    wait_until("both to be judged", || {
        let hosts = served.json("/api/hosts");
        hosts["hosts"].as_array().is_some_and(|list| list.len() == 2 && list.iter().all(|h| !h["verdict"].is_null()))
    });
    served.wait_until_read(1);
    assert_eq!(served.json("/api/host?host=1")["name"], "db2");
    assert_eq!(status_code(&served.get("/api/host?host=2", "").0), "404");
}
