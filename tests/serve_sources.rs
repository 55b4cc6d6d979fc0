//! Sources of `serve`: a log in which alerts are found, a traced log, the machines of a store.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use diskwright_base::{Note, Schema, Series, Tick, Topology};
use diskwright_datastore::{LogWriter, WriterOptions};
use serde_json::Value;

use crate::common::{command, diskwright, folder, stderr, text, wait_until};
use crate::serve::RunningServer;
use crate::trace::TracedDisk;

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_790_000_000 * SECOND_NS;

/// Writes a log of ten minutes in which a disk stalls from second 200 to 260; returns its path.
fn write_stalling_log(place: &Path) -> PathBuf {
    let series = |counter: &str| Series { counter: counter.into(), instance: "sda".into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series("physical_disk.reads"), series("physical_disk.stalled")]));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a log");
    let topology = serde_json::to_string(&Topology { host: "web1".into(), ..Topology::default() }).expect("JSON");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("noted");
    for second in 1..=600 {
        let stalled = f64::from(u8::from((200..260).contains(&second)));
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[100.0 * (1.0 - stalled), stalled]).expect("room");
    }
    writer.close().expect("closed");
    place.to_owned()
}

/// Opens the host and waits until its whole log was searched for alerts.
fn wait_for_alerts(served: &RunningServer) {
    served.json("/api/host");
    wait_until("the log to be looked through", || {
        let host = served.json("/api/host");
        host["read"] == 1.0 && host["alerts_ready"] == true
    });
}

fn alert_ids(range: &Value) -> Vec<&str> {
    range["alerts"].as_array().expect("a list").iter().filter_map(|alert| alert["id"].as_str()).collect()
}

#[test]
fn finds_alerts_in_a_log_without_recorded_ones() {
    let place = folder("serve-alerts");
    let log = write_stalling_log(&place.join("log"));
    let served = RunningServer::start(&[text(&log)]);
    wait_for_alerts(&served);
    let range = served.json("/api/range");
    assert_eq!(alert_ids(&range), ["disk.stall"], "{range}");
    let alert = &range["alerts"][0];
    let second = |name: &str| (alert[name].as_i64().expect("a time") - START_NS) / SECOND_NS;
    assert_eq!((second("begin_ns"), second("end_ns")), (199, 259));
    assert!(!alert["sentence"].as_str().unwrap_or_default().is_empty(), "{alert}");
    // a view of that moment shows it, a range without it does not
    let ms = |second: i64| (START_NS / SECOND_NS + second) * 1000;
    let view = served.json(&format!("/api/view?at={}", ms(230)));
    assert_eq!(alert_ids(&view), ["disk.stall"], "{view}");
    let calm = served.json(&format!("/api/range?from={}&to={}", ms(400), ms(500)));
    assert!(alert_ids(&calm).is_empty(), "{calm}");
    // --no-alert leaves it out
    let served = RunningServer::start(&[text(&log), "--no-alert", "disk.stall"]);
    wait_for_alerts(&served);
    assert!(alert_ids(&served.json("/api/range")).is_empty());
}

#[test]
fn shows_recorded_alerts_once() {
    let place = folder("serve-alerts-own");
    let log = write_stalling_log(&place.join("log"));
    let found = diskwright(&["watch", text(&log), "--no-screen", "--json"]);
    let lines = String::from_utf8_lossy(&found.stdout).into_owned();
    let begin = lines.lines().next().unwrap_or_else(|| panic!("an alert: {}", stderr(&found)));
    // the recorded alert differs in a word, which distinguishes it from a found one
    let note = begin.replacen("\"sentence\":\"", "\"sentence\":\"recorded: ", 1);
    let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("the log");
    writer.add_note(&Note::new(START_NS + 205 * SECOND_NS, Note::ALERT, note)).expect("noted");
    writer.close().expect("closed");
    let served = RunningServer::start(&[text(&log)]);
    wait_for_alerts(&served);
    let range = served.json("/api/range");
    assert_eq!(alert_ids(&range), ["disk.stall"], "{range}");
    assert!(range["alerts"][0]["sentence"].as_str().is_some_and(|text| text.starts_with("recorded: ")), "{range}");
}

#[test]
fn a_traced_log_has_a_latency_heat_map_for_each_device() {
    let Some(disk) = TracedDisk::attach("serve-heat") else { return };
    let place = folder("serve-heat");
    let log = place.join("log");
    let words = ["record", text(&log), "--trace", "--trace-budget", "100%", "--for", "6s"];
    let mut recorder = command(&words);
    recorder.env("XDG_RUNTIME_DIR", &place);
    let mut child = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
    for _ in 0..4 {
        let source = format!("if={}", disk.device());
        let read = Command::new("dd").args([&source, "of=/dev/null", "bs=4k", "count=500", "iflag=direct"]).output();
        assert!(read.expect("dd").status.success());
        std::thread::park_timeout(Duration::from_secs(1));
    }
    assert!(child.wait().expect("an end").success());
    let served = RunningServer::start(&[text(&log)]);
    served.json("/api/host");
    served.wait_until_read(0);
    assert_eq!(served.json("/api/host")["heat"], true);
    let heat = served.json("/api/heat");
    let device = disk.device().trim_start_matches("/dev/");
    let maps = heat["maps"].as_array().expect("a list");
    let of_disk = |map: &&Value| map["title"].as_str().is_some_and(|title| title.contains(device));
    let map = maps.iter().find(of_disk).unwrap_or_else(|| panic!("a map of {device}: {heat}"));
    // tests of `trace` check the exact number; here it is enough that some requests are in the map
    assert!(map["requests"].as_f64() > Some(0.0), "{map}");
    assert!(map["columns"].as_array().is_some_and(|columns| columns.len() >= 3), "{map}");
}

/// A running VictoriaMetrics; killed when it is dropped.
struct RunningStore {
    child: Child,
    address: SocketAddr,
    url: String,
}

impl RunningStore {
    fn start(data: &Path) -> Option<RunningStore> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        RunningStore::start_at(free, data)
    }

    fn start_at(address: SocketAddr, data: &Path) -> Option<RunningStore> {
        let words = [
            format!("-httpListenAddr={address}"),
            format!("-storageDataPath={}", text(data)),
            "-search.latencyOffset=0s".into(),
            "-retentionPeriod=100y".into(),
        ];
        let started = Command::new("victoria-metrics").args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = started else {
            eprintln!("skipped: victoria-metrics is not installed");
            return None;
        };
        wait_until("the store to listen", || std::net::TcpStream::connect(address).is_ok());
        Some(RunningStore { child, address, url: format!("http://{address}") })
    }

    /// Stops it cleanly, so that it finds its data when it is started again.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.child.wait().expect("an end");
    }
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lists_and_opens_the_machines_of_a_store() {
    let place = folder("serve-store");
    let Some(store) = RunningStore::start(&place.join("data")) else { return };
    let recorder = |host: &str| {
        let words =
            ["record", "--remote-write", &store.url, "--instance", host, "--every", "1s", "--for", "10s", "--json"];
        command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs")
    };
    let both = ["web1", "db1"].map(recorder);
    both.into_iter().for_each(|mut child| assert!(child.wait().expect("an end").success()));
    // the last samples can be queried only after the store has written them
    std::thread::park_timeout(Duration::from_secs(2));
    let served = RunningServer::start(&["--prometheus", &store.url, "--from", "-1m", "--step", "1s"]);
    let hosts = served.json("/api/hosts");
    let mut names: Vec<&str> =
        hosts["hosts"].as_array().expect("a list").iter().filter_map(|host| host["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["db1", "web1"], "{hosts}");
    // an unreachable store is reported as a fault and queried again
    let address = store.address;
    store.stop();
    // host 0 was read at once, so host 1 shows the fault
    wait_until("the fault", || {
        served.json("/api/host?host=1")["fault"].as_str().is_some_and(|fault| !fault.is_empty())
    });
    assert_eq!(served.json("/api/hosts")["hosts"].as_array().map(Vec::len), Some(2));
    let _store = RunningStore::start_at(address, &place.join("data")).expect("it starts again");
    for id in 0..2 {
        wait_until("the host", || served.json(&format!("/api/host?host={id}"))["fault"].is_null());
        served.json(&format!("/api/host?host={id}"));
        served.wait_until_read(id);
        let host = served.json(&format!("/api/host?host={id}"));
        assert_eq!((host["fault"].is_null(), host["live"].as_bool()), (true, Some(false)), "{host}");
        let view = served.json(&format!("/api/view?host={id}"));
        assert!(view["strips"].as_array().is_some_and(|strips| !strips.is_empty()), "{view}");
        let range = served.json(&format!("/api/range?host={id}&points=20"));
        let has_values = |line: &Value| line["mean"].as_array().is_some_and(|m| m.iter().any(Value::is_number));
        assert!(range["lines"].as_array().is_some_and(|lines| lines.iter().any(has_values)), "{range}");
    }
}
