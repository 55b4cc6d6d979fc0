//! Alerts end to end: raised by a recorder, kept in its log, shown again, sent to commands and webhooks.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_base::{Schema, Series, Tick};
use diskwright_datastore::{LogReader, LogWriter, WriterOptions};

use crate::common::{command, diskwright, folder, interrupt, stderr, success, text, wait_until};
use crate::sweep::is_full_sweep;

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-11-21 22:00:00 UTC.
const START_NS: i64 = 1_795_298_400 * SECOND_NS;

/// An alert that every machine raises at its second tick.
const OWN_ALERT_PACK: &str = r#"
[pack]
id = "own"
title = "own"
source = "test"
explain = "test"

[[rule]]
id = "own.always"
title = "there are processors"
object = "machine"
bottleneck = "none"
severity = "warning"
all = [{ counter = "memory.total_bytes", above = 0 }]
source = "test"
explain = "test"
alert = { hold = "1s" }
"#;

/// Default alerts without a hold time. Other tests cause device errors at the same time, which would raise them.
const INSTANT_ALERTS: &[&str] =
    &["disk.errors", "disk.reports-failure", "disk.throttled", "hardware.throttled", "memory.killed", "array.errors"];

/// Arguments that switch the instant alerts off.
fn exclude_instant_alerts() -> Vec<&'static str> {
    INSTANT_ALERTS.iter().flat_map(|id| ["--no-alert", id]).collect()
}

/// Answers one HTTP request with 204 and returns its body.
fn answer_one_request(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().expect("a client comes");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).expect("a line") > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("an answer");
    String::from_utf8(body).expect("text")
}

#[test]
fn recorder_logs_an_alert_and_calls_its_command_and_webhook() {
    let folder = folder("alerts-record");
    let (rules, log, out) = (folder.join("own.toml"), folder.join("log"), folder.join("called"));
    fs::write(&rules, OWN_ALERT_PACK).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("its address"));
    let hook = std::thread::spawn(move || answer_one_request(&listener));
    let call = format!("echo \"$DISKWRIGHT_ALERT_STATE $DISKWRIGHT_ALERT_ID\" >> {}", text(&out));
    let alerts = format!("--alerts={}", text(&rules));
    let usual = ["record", text(&log), "--every", "200ms", "--for", "60s", &alerts];
    let hooks = ["--on-alert", &call, "--alert-webhook", &url];
    let words = [&usual[..], &hooks, exclude_instant_alerts().as_slice()].concat();
    let recorder = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    wait_until("the command has run and a request came", || out.exists() && hook.is_finished());
    interrupt(&recorder);
    let recorded = recorder.wait_with_output().expect("an end");
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert_eq!(fs::read_to_string(&out).expect("the command wrote"), "begin own.always\n");
    let sent: serde_json::Value = serde_json::from_str(&hook.join().expect("a request came")).expect("JSON");
    assert_eq!((sent["schema"].as_str(), sent["id"].as_str()), (Some("diskwright.alert/1"), Some("own.always")));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!((sent["state"].as_str(), sent["host"].as_str()), (Some("begin"), Some(host.trim())));
    // the log holds the alert, so that a replay shows it whatever rules the viewer has
    let view = success(&diskwright(&["watch", text(&log), "--json"]));
    let ids: Vec<&str> = view["alerts"].as_array().expect("a list").iter().filter_map(|a| a["id"].as_str()).collect();
    assert!(ids.contains(&"own.always"), "{ids:?}");
    // the verdict on the log does not repeat it as a remark
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    let remarks = verdict["notes"].as_array().expect("a list");
    assert!(remarks.iter().all(|remark| remark["kind"] != "alert"), "{remarks:?}");
}

/// Short form of `lab/healthy/run`.
#[test]
fn a_simulated_healthy_server_raises_no_alert() {
    let folder = folder("alerts-healthy");
    let system = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/healthy/server.toml");
    let seeds: &[&str] = if is_full_sweep() { &["1", "2"] } else { &["1"] };
    for &seed in seeds {
        let log = folder.join(seed);
        let words = ["simulate", system, "--seed", seed, "--duration", "600s", "--out", text(&log)];
        let simulated = diskwright(&words);
        assert!(simulated.status.success(), "{}", stderr(&simulated));
        let found = diskwright(&["watch", text(&log), "--no-screen", "--fail-on", "any"]);
        assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn reads_panels_and_alerts_from_the_user_configuration() {
    let folder = folder("alerts-configuration");
    let own = folder.join("diskwright");
    fs::create_dir_all(&own).expect("a folder");
    fs::write(own.join("alerts.toml"), OWN_ALERT_PACK).expect("a file");
    let panels = include_str!("../crates/judge/dashboard/data/panels.toml");
    let renamed = panels.replacen("title = \"rd/s\"", "title = \"reads!\"", 1);
    assert_ne!(renamed, panels);
    fs::write(own.join("watch.toml"), &renamed).expect("a file");
    let run = |words: &[&str]| command(words).env("XDG_CONFIG_HOME", &folder).output().expect("the program runs");
    let fails = ["watch", "--no-screen", "--every", "200ms", "--for", "3s", "--fail-on", "own.always"];
    assert_eq!(run(&fails).status.code(), Some(1), "the user's own alert is raised");
    let once = run(&["watch", "--once", "--every", "100ms"]);
    let screen = String::from_utf8_lossy(&once.stdout).into_owned();
    assert!(screen.contains("reads!"), "{screen}{}", stderr(&once));
    fs::write(own.join("watch.toml"), renamed.replacen("physical_disk.", "physical_dsk.", 1)).expect("a file");
    let wrong = run(&["watch", "--once"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = stderr(&wrong);
    assert!(message.contains("watch.toml:") && message.contains("did you mean `physical_disk."), "{message}");
}

#[test]
fn watch_fails_on_the_alert_named_by_fail_on() {
    let folder = folder("alerts-fail-on");
    let rules = folder.join("own.toml");
    fs::write(&rules, OWN_ALERT_PACK).expect("a file");
    let alerts = format!("--alerts={}", text(&rules));
    let watch = |more: &[&str]| {
        let arguments = ["watch", "--no-screen", "--every", "500ms", "--for", "4s", &alerts];
        let words = [&arguments, more, exclude_instant_alerts().as_slice()].concat();
        command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    };
    // each watches for some seconds, so all run at once
    let [failed, passed, wrong, left_out] = [
        watch(&["--fail-on", "own.always"]),
        watch(&["--fail-on", "recorder.silent", "--json"]),
        watch(&["--fail-on", "own.alwys"]),
        watch(&["--fail-on", "any", "--no-alert", "own.always", "--no-alert", "verdict.stable"]),
    ]
    .map(|child| child.wait_with_output().expect("an end"));
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert!(String::from_utf8_lossy(&failed.stdout).contains("alert own.always begins"), "{}", stderr(&failed));
    assert_eq!(passed.status.code(), Some(0), "{}", stderr(&passed));
    let lines = String::from_utf8_lossy(&passed.stdout).into_owned();
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!((first["id"].as_str(), first["state"].as_str()), (Some("own.always"), Some("begin")));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean `own.always`?"), "{}", stderr(&wrong));
    assert_eq!(left_out.status.code(), Some(0), "{}", stderr(&left_out));
}

/// Writes a log of a disk that is slow from the first second and queues from the sixtieth on.
fn write_slow_then_queueing_log(place: &Path) {
    let series = |name: &str| Series { counter: format!("physical_disk.{name}"), instance: "sda".into(), scale: 1.0 };
    let counters = ["reads", "read_bytes", "read_time_s", "busy_time_s", "weighted_time_s"];
    let schema = Arc::new(Schema::new(counters.map(series).to_vec()));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a log");
    for second in 1..=120 {
        let queue = if second < 60 { 1.0 } else { 40.0 };
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS.unsigned_abs() };
        writer.push(&schema, tick, &[100.0, 409_600.0, queue, 1.0, queue]).expect("room");
    }
    writer.close().expect("closed");
}

#[test]
fn watch_fails_on_a_rule_that_shares_the_alert_of_another() {
    let folder = folder("alerts-joined");
    let (rules, log) = (folder.join("own.toml"), folder.join("log"));
    let rule = |id: &str, counter: &str, above: &str| {
        format!(
            "\n[[rule]]\nid = \"{id}\"\ntitle = \"{id}\"\nobject = \"physical_disk\"\nbottleneck = \"disk\"\n\
             severity = \"warning\"\nall = [{{ counter = \"{counter}\", above = {above} }}]\nsource = \"test\"\n\
             explain = \"test\"\nalert = {{ hold = \"5s\" }}\n"
        )
    };
    let pack = OWN_ALERT_PACK.split("\n[[rule]]").next().expect("the head of a pack");
    let both = rule("own.first", "reads_per_s", "0") + &rule("own.second", "avg_queue_length", "20");
    fs::write(&rules, format!("{pack}{both}")).expect("a file");
    write_slow_then_queueing_log(&log);
    let alerts = format!("--alerts={}", text(&rules));
    let watch = |more: &[&str]| {
        let arguments = ["watch", text(&log), "--no-screen", "--no-alert", "verdict.stable", &alerts];
        diskwright(&[&arguments, more].concat())
    };
    let second = watch(&["--fail-on", "own.second"]);
    let shown = String::from_utf8_lossy(&second.stdout).into_owned();
    assert_eq!(second.status.code(), Some(1), "{shown}{}", stderr(&second));
    let why = "--fail-on: alert own.second began; it shares alert own.first, which has the same cause";
    assert!(stderr(&second).contains(why), "{}", stderr(&second));
    // both rules share one alert, so the second rule notifies nobody
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("alert own.first sda begins: "), "{shown}");
    assert!(lines[1].ends_with("alert own.first sda has another symptom: own.second"), "{shown}");
    let json = watch(&["--fail-on", "own.second", "--json"]);
    let begun = String::from_utf8_lossy(&json.stdout).into_owned();
    assert_eq!((json.status.code(), begun.lines().count()), (Some(1), 1), "{begun}");
    // --fail-on of the first rule fires when that rule begins
    let first = watch(&["--fail-on", "own.first"]);
    assert!(stderr(&first).contains("--fail-on: alert own.first began\n"), "{}", stderr(&first));
    // with the first rule switched off, the second one raises its own alert
    let alone = watch(&["--fail-on", "own.second", "--no-alert", "own.first"]);
    assert!(stderr(&alone).contains("--fail-on: alert own.second began\n"), "{}", stderr(&alone));
    assert_eq!(watch(&["--fail-on", "own.second", "--to", "-90s"]).status.code(), Some(0), "before it queues");
}

/// Watches a log while a recorder begins to append to it; the recorder runs until the watch ends.
fn watch_while_recording_begins(log: &Path, more: &[&str]) -> Output {
    let rules = log.with_extension("toml");
    fs::write(&rules, OWN_ALERT_PACK).expect("a file");
    let alerts = format!("--alerts={}", text(&rules));
    let arguments = ["watch", text(log), "--no-screen", "--fail-on", "own.always", &alerts];
    let words = [&arguments, more, exclude_instant_alerts().as_slice()].concat();
    let watcher = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    std::thread::park_timeout(Duration::from_secs(1));
    let mut recorder = command(&["record", text(log), "--every", "200ms", "--for", "60s"]);
    let recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let watched = watcher.wait_with_output().expect("an end");
    interrupt(&recorder);
    let recorded = recorder.wait_with_output().expect("an end");
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    watched
}

#[test]
fn watch_waits_for_the_first_tick_of_a_log() {
    let log = folder("alerts-first-tick").join("log");
    LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log").close().expect("closed");
    let watched = watch_while_recording_begins(&log, &[]);
    assert_eq!(watched.status.code(), Some(1), "{}", stderr(&watched));
    assert!(stderr(&watched).contains("waiting for its first tick"), "{}", stderr(&watched));
    assert!(stderr(&watched).contains("--fail-on: alert own.always began"), "{}", stderr(&watched));
    // where no tick comes, --for still ends the watch
    let empty = folder("alerts-no-tick").join("log");
    LogWriter::create_or_append(&empty, WriterOptions::default()).expect("a log").close().expect("closed");
    let ended = diskwright(&["watch", text(&empty), "--no-screen", "--for", "500ms"]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
}

#[test]
fn watch_with_a_duration_follows_a_log_that_has_ended() {
    let log = folder("alerts-goes-on").join("log");
    write_slow_then_queueing_log(&log);
    let at_once = diskwright(&["watch", text(&log), "--no-screen", "--no-alert", "verdict.stable"]);
    assert_eq!(at_once.status.code(), Some(0), "{}", stderr(&at_once));
    assert!(stderr(&at_once).contains("the log ended at 2026-11-21T22:02:00"), "{}", stderr(&at_once));
    let watched = watch_while_recording_begins(&log, &["--for", "60s", "--no-alert", "verdict.stable"]);
    assert_eq!(watched.status.code(), Some(1), "{}", stderr(&watched));
    assert!(stderr(&watched).contains("--fail-on: alert own.always began"), "{}", stderr(&watched));
    assert!(!stderr(&watched).contains("the log ended"), "{}", stderr(&watched));
}

/// Starts a recorder and waits for its first tick.
fn start_recorder(log: &Path, more: &[&str]) -> Child {
    let words = [&["record", text(log), "--every", "200ms"], more].concat();
    let child = command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
    wait_until("a tick", || {
        LogReader::open(log).is_ok_and(|reader| reader.time_range().is_ok_and(|range| range.is_some()))
    });
    child
}

/// Starts a watch of a log, with the alerts switched off that any machine may raise.
fn start_watch(log: &Path, more: &[&str]) -> Child {
    let arguments = ["watch", text(log), "--no-screen", "--no-alert", "verdict.stable"];
    let words = [&arguments, more, exclude_instant_alerts().as_slice()].concat();
    command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

#[test]
fn watch_stops_at_the_end_of_a_cleanly_ended_log() {
    let log = folder("alerts-ended").join("log");
    let mut recorder = start_recorder(&log, &["--for", "2s"]);
    let followed = start_watch(&log, &["--fail-on", "recorder.silent"]);
    // a recorder is silent after ten seconds
    let waited = start_watch(&log, &["--fail-on", "recorder.silent", "--for", "15s"]);
    assert!(recorder.wait().expect("an end").success());
    // its last tick is as recent as that of a running recording, so the heading must not go by the age
    let screen = diskwright(&["watch", text(&log), "--once"]);
    let heading = String::from_utf8_lossy(&screen.stdout).lines().next().unwrap_or_default().to_owned();
    assert!(heading.contains("  log  "), "{heading}");
    let after = start_watch(&log, &["--fail-on", "recorder.silent"]);
    let ended = Instant::now();
    for watched in [after, followed] {
        let done = watched.wait_with_output().expect("an end");
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert!(stderr(&done).contains("the log ended at"), "{}", stderr(&done));
    }
    assert!(ended.elapsed() < Duration::from_secs(10), "before a recorder is silent");
    let done = waited.wait_with_output().expect("an end");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
}

#[test]
fn watch_reports_a_killed_recorder_as_silent() {
    let log = folder("alerts-killed").join("log");
    let mut recorder = start_recorder(&log, &[]);
    let followed = start_watch(&log, &["--fail-on", "recorder.silent"]);
    std::thread::park_timeout(Duration::from_secs(2));
    recorder.kill().expect("killed");
    recorder.wait().expect("an end");
    // the lock is free, so a watch that starts now takes the log as ended
    let done = start_watch(&log, &["--fail-on", "recorder.silent"]).wait_with_output().expect("an end");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let done = followed.wait_with_output().expect("an end");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("--fail-on: alert recorder.silent began"), "{}", stderr(&done));
}

/// TOML examples of a document.
fn toml_examples(document: &str) -> Vec<&str> {
    let blocks = document.split("```toml\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("its end").0).collect()
}

#[test]
fn documented_alert_and_rule_examples_load() {
    let folder = folder("alerts-documents");
    let (log, file) = (folder.join("log"), folder.join("own.toml"));
    write_slow_then_queueing_log(&log);
    let alerts = toml_examples(include_str!("../docs/alerts.md"));
    let rules = toml_examples(include_str!("../docs/rules.md"));
    assert_eq!((alerts.len(), rules.len()), (1, 2), "a new example has a place in this test");
    let loads = |example: &str, words: &[&str]| {
        fs::write(&file, example).expect("a file");
        let done = diskwright(words);
        assert_eq!(done.status.code(), Some(0), "{example}\n{}", stderr(&done));
    };
    loads(alerts[0], &["watch", text(&log), "--no-screen", &format!("--alerts={}", text(&file))]);
    let why = ["why", text(&log), "--pack", text(&file)];
    loads(rules[0], &why);
    // the second example lists conditions, one a line
    let head = OWN_ALERT_PACK.split("\n[[rule]]").next().expect("the head of a pack");
    for (number, line) in rules[1].lines().enumerate() {
        let condition = line.split('#').next().expect("a condition");
        let rule = format!(
            "\n[[rule]]\nid = \"own.rule-{number}\"\ntitle = \"test\"\nobject = \"physical_disk\"\n\
             bottleneck = \"disk\"\nseverity = \"warning\"\nall = [{condition}]\nsource = \"test\"\n\
             explain = \"test\"\n"
        );
        loads(&format!("{head}{rule}"), &why);
    }
}
