//! `probe for PROGRAM`: is storage good enough, measured on real files and taken from logs.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{folder, json, stderr, success, text};

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.arg("probe").args(arguments).env("DISKWRIGHT_STATE", folder.join("state")).current_dir(folder);
    command.output().expect("runs")
}

/// Requirement of an answer with this id.
fn requirement<'a>(answer: &'a Value, id: &str) -> &'a Value {
    let list = answer["requirements"].as_array().expect("requirements");
    list.iter().find(|r| r["id"] == id).unwrap_or_else(|| panic!("no {id} in {answer:#}"))
}

/// A trace of pairs of a write and a flush, of which each hundredth to each fiftieth may be slow.
fn write_trace(path: &Path, flush_ms: impl Fn(u64) -> u64) {
    let mut trace = String::from("arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s\n");
    let seconds = |us: u64| format!("{}.{:06}000", us / 1_000_000, us % 1_000_000);
    for pair in 0..3000u64 {
        let arrival = pair * 50_000;
        let written = arrival + 400;
        let flushed = written + flush_ms(pair) * 1000;
        let mut line = |name: &str, bytes: u64, from: u64, to: u64| {
            let offset = pair * 4096;
            writeln!(trace, "{},sda,{name},{offset},{bytes},{},{}", seconds(from), seconds(from), seconds(to)).unwrap();
        };
        line("write", 4096, arrival, written);
        line("flush", 0, written, flushed);
    }
    fs::write(path, trace).expect("writes");
}

#[test]
fn a_folder_is_measured_and_left_empty() {
    let folder = folder("probe-for-folder");
    let place = folder.join("data");
    fs::create_dir_all(&place).unwrap();
    let options = ["--for", "1s", "--size", "64MB", "--json", "-o", "etcd.json"];
    let done = run_in(&folder, &[&["for", "etcd", text(&place)][..], &options].concat());
    let answer = success(&done);
    assert_eq!((&answer["schema"], &answer["suite"]), (&"diskwright.probe/1".into(), &"for-etcd".into()));
    assert_eq!((&answer["program"]["id"], &answer["target"]), (&"etcd".into(), &text(&place).into()));
    let run = &answer["runs"][0];
    assert_eq!((&run["name"], &run["size_bytes"]), (&"commit-2300".into(), &2300.0.into()));
    assert_eq!((&run["pattern"]["durable"], &run["pattern"]["buffered"]), (&"fdatasync".into(), &true.into()));
    let fsync = requirement(&answer, "wal-fsync");
    assert_eq!((&fsync["limit"], &fsync["limit_kind"], &fsync["unit"]), (&0.01.into(), &"below".into(), &"s".into()));
    assert!(fsync["source"]["url"].as_str().is_some_and(|url| url.starts_with("https://etcd.io/")), "{fsync}");
    assert!(fsync["source"]["date"].is_string() && fsync["why"].is_string(), "{fsync}");
    let words = ["yes", "no", "unknown"];
    assert!(words.iter().any(|word| answer["program"]["answer"] == *word), "{answer:#}");
    // the answer follows from what was measured
    let rate = run["requests_per_s"].as_f64().unwrap();
    assert_eq!(requirement(&answer, "sequential-iops")["met"], rate >= 50.0);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "the file goes away");
    let kept: Value = serde_json::from_str(&fs::read_to_string(folder.join("etcd.json")).unwrap()).unwrap();
    assert_eq!(kept, answer);
    // the profile of the device stays as it is
    assert_eq!(answer["profile"]["file"], Value::Null);
    assert!(!folder.join("state").exists(), "a profile was saved");
}

#[test]
fn programs_without_numbers_are_measured_and_not_judged() {
    let folder = folder("probe-for-not-judged");
    let done = run_in(&folder, &["for", "postgres", ".", "--for", "300ms", "--size", "16MB", "--fail"]);
    let screen = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{screen}{}", stderr(&done));
    for expected in ["Not judged: PostgreSQL publishes no limit", "none published", "pg_test_fsync", "Sources"] {
        assert!(screen.contains(expected), "no {expected} in {screen}");
    }
}

#[test]
fn existing_data_are_not_written_to() {
    let folder = folder("probe-for-refused");
    fs::write(folder.join("data"), vec![7; 1 << 20]).unwrap();
    let done = run_in(&folder, &["for", "etcd", "data"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("--destroy-data-on data"), "{}", stderr(&done));
    assert_eq!(fs::read(folder.join("data")).unwrap(), vec![7; 1 << 20]);
    for (arguments, expected) in [
        (&["for"][..], "programs: etcd, kafka"),
        (&["for", "etdc", "."], "did you mean `etcd`"),
        (&["for", "etcd"], "needs a TARGET"),
        (&["for", "etcd", ".", "--save"], "--save does not go with `for`"),
        (&["for", "etcd", ".", "--keep"], "--keep needs the name of the file"),
        (&["for", "etcd", "--from", "log", "--size", "1MB"], "--size does not go with --from"),
        (&["quick", "data", "--fail"], "--fail goes with `for PROGRAM`"),
        (&["quick", "data", "more"], "a third name goes with `for PROGRAM`"),
    ] {
        let done = run_in(&folder, arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(expected), "{arguments:?}: {}", stderr(&done));
    }
}

#[test]
fn a_log_with_slow_flushes_is_too_slow_for_etcd() {
    let folder = folder("probe-for-log-slow");
    // one flush in fifty takes 31 ms, so the 99th percentile does
    write_trace(&folder.join("slow.csv"), |pair| if pair % 50 == 0 { 31 } else { 1 });
    let done = run_in(&folder, &["for", "etcd", "--from", "slow.csv", "--json"]);
    let answer = success(&done);
    assert_eq!((&answer["program"]["answer"], &answer["target"]), (&"no".into(), &"slow.csv".into()));
    let fsync = requirement(&answer, "wal-fsync");
    assert_eq!((&fsync["device"], &fsync["met"]), (&"sda".into(), &false.into()));
    assert!(fsync["measured_at_least"].as_f64().is_some_and(|s| (0.030..0.033).contains(&s)), "{fsync}");
    let because = answer["program"]["because"].as_str().unwrap();
    assert!(because.starts_with("sda, commit (2,300 B, fdatasync), 99th percentile: "), "{because}");
    assert!(because.contains("less than 10 ms is wanted"), "{because}");
    // what a log does not show is not judged, and named
    assert!(answer["requirements"].as_array().is_some_and(|list| list.len() == 1), "{answer:#}");
    let more = answer["program"]["more"][0].as_str().unwrap();
    assert!(more.contains("probe for etcd TARGET") && more.contains("sequential commits per second"), "{more}");
    assert_eq!(answer["next_steps"], Value::Array(Vec::new()), "nothing was measured");
    // the exit code says it only where it is asked to
    assert_eq!(run_in(&folder, &["for", "etcd", "sda", "--from", "slow.csv", "--fail"]).status.code(), Some(1));
    let done = run_in(&folder, &["for", "etcd", "sdb", "--from", "slow.csv"]);
    assert!(stderr(&done).contains("no latencies of sdb; it has those of sda"), "{}", stderr(&done));
}

/// On ext4, commits of 8 ms at the 99th percentile were seen whose flushes took 0.6 ms: a commit has several of them.
#[test]
fn fast_flushes_in_a_log_do_not_show_that_commits_are_fast() {
    let folder = folder("probe-for-log-fast");
    write_trace(&folder.join("fast.csv"), |_| 1);
    let done = run_in(&folder, &["for", "etcd", "/dev/sda", "--from", "fast.csv", "--json", "--fail"]);
    let answer = success(&done);
    assert_eq!(answer["program"]["answer"], "unknown", "{answer:#}");
    let fsync = requirement(&answer, "wal-fsync");
    assert!(fsync["measured_at_least"].as_f64().is_some_and(|s| (0.00097..0.00103).contains(&s)), "{fsync}");
    assert_eq!(fsync["measured_at_most"], Value::Null);
    assert!(fsync["why"].as_str().is_some_and(|why| why.contains("device's part alone")), "{fsync}");
    assert!(answer["program"]["more"][0].as_str().is_some_and(|more| more.contains("99th percentile")), "{answer:#}");
}

#[test]
fn means_of_any_log_are_enough_for_a_host_of_virtual_machines() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/observe/logs/tests/fixtures/sadf-json.json");
    let folder = folder("probe-for-log-means");
    let done = run_in(&folder, &["for", "vm-host", "--from", text(&log), "--json"]);
    let answer = success(&done);
    let list = answer["requirements"].as_array().unwrap();
    assert!(!list.is_empty(), "{answer:#}");
    // a percentile of flushes is in no log of means: the answer says what to record
    let done = run_in(&folder, &["for", "etcd", "--from", text(&log), "--json"]);
    let answer = json(&done);
    assert_eq!(answer["program"]["answer"], "unknown", "{answer:#}");
    assert!(answer["program"]["because"].as_str().is_some_and(|b| b.contains("record DIR --trace")), "{answer:#}");
}
