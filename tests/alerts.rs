//! Alerts end to end: raised by a recorder, kept in its log, shown again, and everybody who asked hears of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use crate::common::{command, diskwright, folder, said, success, text, until};

/// An alert that every machine raises at its second tick.
const OWN: &str = r#"
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

/// Default alerts without a hold time: tests beside these make errors of devices.
const AT_ONCE: &[&str] =
    &["disk.errors", "disk.reports-failure", "disk.throttled", "hardware.throttled", "memory.killed", "array.errors"];

/// Leaves those out.
fn without_at_once() -> Vec<&'static str> {
    AT_ONCE.iter().flat_map(|id| ["--no-alert", id]).collect()
}

/// Takes one request; its body.
fn one_request(listener: &TcpListener) -> String {
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
fn a_recorder_raises_an_alert_keeps_it_and_calls_a_command_and_an_address() {
    let folder = folder("alerts-record");
    let (rules, log, out) = (folder.join("own.toml"), folder.join("log"), folder.join("called"));
    fs::write(&rules, OWN).expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("its address"));
    let hook = std::thread::spawn(move || one_request(&listener));
    let call = format!("echo \"$DISKWRIGHT_ALERT_STATE $DISKWRIGHT_ALERT_ID\" >> {}", text(&out));
    let alerts = format!("--alerts={}", text(&rules));
    let arguments = [
        "record",
        text(&log),
        "--every",
        "500ms",
        "--for",
        "4s",
        &alerts,
        "--on-alert",
        &call,
        "--alert-webhook",
        &url,
    ];
    let recorded = diskwright(&[&arguments, without_at_once().as_slice()].concat());
    assert!(recorded.status.success(), "{}", said(&recorded));
    until("the command has run", || out.exists());
    assert_eq!(fs::read_to_string(&out).expect("the command wrote"), "begin own.always\n");
    let sent: serde_json::Value = serde_json::from_str(&hook.join().expect("a request came")).expect("JSON");
    assert_eq!((sent["schema"].as_str(), sent["id"].as_str()), (Some("diskwright.alert/1"), Some("own.always")));
    // the log has it, so that a replay shows it, whatever rules the viewer has
    let view = success(&diskwright(&["watch", text(&log), "--json"]));
    let ids: Vec<&str> = view["alerts"].as_array().expect("a list").iter().filter_map(|a| a["id"].as_str()).collect();
    assert!(ids.contains(&"own.always"), "{ids:?}");
    // and the verdict on the log has no remark of it
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    let remarks = verdict["notes"].as_array().expect("a list");
    assert!(remarks.iter().all(|remark| remark["kind"] != "alert"), "{remarks:?}");
}

/// The short form of lab/healthy/run.
#[test]
fn a_simulated_healthy_server_raises_no_alert() {
    let folder = folder("alerts-healthy");
    let system = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/healthy/server.toml");
    for seed in ["1", "2"] {
        let log = folder.join(seed);
        let words = ["simulate", system, "--seed", seed, "--duration", "600s", "--out", text(&log)];
        let simulated = diskwright(&words);
        assert!(simulated.status.success(), "{}", said(&simulated));
        let found = diskwright(&["watch", text(&log), "--no-screen", "--fail-on", "any"]);
        assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn the_users_own_panels_and_alerts_are_taken_from_the_configuration() {
    let folder = folder("alerts-configuration");
    let own = folder.join("diskwright");
    fs::create_dir_all(&own).expect("a folder");
    fs::write(own.join("alerts.toml"), OWN).expect("a file");
    let panels = include_str!("../crates/dashboard/data/panels.toml");
    let renamed = panels.replacen("title = \"rd/s\"", "title = \"reads!\"", 1);
    assert_ne!(renamed, panels);
    fs::write(own.join("watch.toml"), &renamed).expect("a file");
    let run = |words: &[&str]| command(words).env("XDG_CONFIG_HOME", &folder).output().expect("the program runs");
    let fails = ["watch", "--no-screen", "--every", "200ms", "--for", "3s", "--fail-on", "own.always"];
    assert_eq!(run(&fails).status.code(), Some(1), "the user's own alert is raised");
    let once = run(&["watch", "--once", "--every", "100ms"]);
    let screen = String::from_utf8_lossy(&once.stdout).into_owned();
    assert!(screen.contains("reads!"), "{screen}{}", said(&once));
    fs::write(own.join("watch.toml"), renamed.replacen("physical_disk.", "physical_dsk.", 1)).expect("a file");
    let wrong = run(&["watch", "--once"]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = said(&wrong);
    assert!(told.contains("watch.toml:") && told.contains("did you mean `physical_disk."), "{told}");
}

#[test]
fn an_alert_ends_a_watch_with_failure_where_that_was_asked() {
    let folder = folder("alerts-fail-on");
    let rules = folder.join("own.toml");
    fs::write(&rules, OWN).expect("a file");
    let alerts = format!("--alerts={}", text(&rules));
    let watch = |more: &[&str]| {
        let arguments = ["watch", "--no-screen", "--every", "500ms", "--for", "4s", &alerts];
        diskwright(&[&arguments, more, without_at_once().as_slice()].concat())
    };
    let failed = watch(&["--fail-on", "own.always"]);
    assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
    assert!(String::from_utf8_lossy(&failed.stdout).contains("alert own.always begins"), "{}", said(&failed));
    let passed = watch(&["--fail-on", "recorder.silent", "--json"]);
    assert_eq!(passed.status.code(), Some(0), "{}", said(&passed));
    let lines = String::from_utf8_lossy(&passed.stdout).into_owned();
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["id"], "own.always");
    let wrong = watch(&["--fail-on", "own.alwys"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("did you mean `own.always`?"), "{}", said(&wrong));
    let left_out = watch(&["--fail-on", "any", "--no-alert", "own.always", "--no-alert", "verdict.stable"]);
    assert_eq!(left_out.status.code(), Some(0), "{}", said(&left_out));
}
