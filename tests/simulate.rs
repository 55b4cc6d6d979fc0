//! `simulate --replay`: a small trace on the drive of a test fixture.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::folder;

use serde_json::Value;

const DRIVE_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/model/simulator/tests/drives/disk7200.diskspecs");

fn run_simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diskwright")).arg("simulate").args(arguments).output().expect("runs")
}

/// Writes a trace of random reads of 10 ms, each followed by a sequential read of 0.61 ms; returns its path.
fn write_trace(folder: &Path) -> String {
    let mut text = String::new();
    for n in 0..100_u64 {
        let first = n * 7919 % 350 * 10_000;
        let _ = writeln!(text, "R Miss {first} 8 10000.0 20000.0\nR Hit {} 8 610.0 15000.0", first + 8);
    }
    let path = folder.join("made.trace");
    fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[test]
fn a_replay_returns_the_documented_json() {
    let trace = write_trace(&folder("simulate-contract"));
    let output = run_simulate(&["--replay", &trace, "--drive", DRIVE_FILE, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((answer["schema"].as_str(), answer["requests"].as_u64()), (Some("diskwright.replay/1"), Some(200)));
    let number = |name: &str| answer[name].as_f64().unwrap_or_else(|| panic!("{name}"));
    assert!((number("measured_mean_s") - 0.005_305).abs() < 1e-9);
    assert!(number("predicted_mean_s") > 0.003 && number("predicted_mean_s") < 0.012);
    assert!((number("demerit_share") - number("demerit_s") / number("measured_mean_s")).abs() < 1e-12);
    assert!(number("wall_s") > 0.0 && number("requests_per_s") > 0.0);
    assert_eq!(
        (answer["by_hit"]["hit"]["requests"].as_u64(), answer["channel"]["from"].as_str()),
        (Some(100), Some("drive file"))
    );
    let text = run_simulate(&["--replay", &trace, "--drive", DRIVE_FILE]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("demerit") && text.contains("breakdown of the predicted time"), "{text}");
}

#[test]
fn notes_a_replay_of_several_devices() {
    let path = folder("simulate-devices").join("trace.csv");
    // MSR Cambridge: time in 100 ns, host, disk, type, offset, size, response
    let line = |number: u64| {
        let (time, offset) = (128166372003061629 + number * 5_000_000, number * 7919 % 1000 * 4096);
        format!("{time},web,{},Read,{offset},4096,100000\n", number % 2)
    };
    fs::write(&path, (0..40).map(line).collect::<String>()).expect("written");
    let output = run_simulate(&["--replay", &path.display().to_string(), "--drive", DRIVE_FILE, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(answer["notes"].to_string().contains("requests of 2 devices"), "{answer}");
}

#[test]
fn draws_a_replay() {
    let folder = folder("simulate-pictures");
    let trace = write_trace(&folder);
    let (svg, html) = (folder.join("a.svg").display().to_string(), folder.join("a.html").display().to_string());
    let output = run_simulate(&["--replay", &trace, "--drive", DRIVE_FILE, "--svg", &svg, "--html", &html]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (svg, html) = (fs::read_to_string(svg).expect("written"), fs::read_to_string(html).expect("written"));
    for picture in [&svg, &html] {
        assert!(picture.contains("Share of requests by response time"), "{picture}");
        assert!(picture.contains(">measured<") && picture.contains(">predicted<"), "{picture}");
    }
    assert!(svg.starts_with("<svg ") && html.starts_with("<!DOCTYPE html>"));
}

#[test]
fn errors_name_file_and_line() {
    let folder = folder("simulate-errors");
    let trace = write_trace(&folder);
    let drive = folder.join("bad.diskspecs");
    fs::write(&drive, "# a drive\ndisksim_disk X {\n  Modell = 3\n}\n").expect("written");
    let drive = drive.display().to_string();
    let nowhere = folder.join("nowhere").display().to_string();
    let empty = folder.join("empty.trace");
    fs::write(&empty, "1.0 0 100 8 1\n2.0 0 200 8 1\n").expect("written");
    let empty = empty.display().to_string();
    let cases = [
        (vec!["--replay", trace.as_str(), "--drive", drive.as_str()], 1, "bad.diskspecs:2: "),
        (vec!["--replay", trace.as_str(), "--drive", nowhere.as_str()], 1, "nowhere: "),
        (vec!["--replay", nowhere.as_str(), "--drive", DRIVE_FILE], 1, "nowhere"),
        (vec!["--replay", empty.as_str(), "--drive", DRIVE_FILE], 1, "the response time of each request"),
        (vec!["--replay", trace.as_str()], 2, "--drive"),
        // the drive file gives the rate of the channel
        (vec!["--replay", trace.as_str(), "--drive", DRIVE_FILE, "--channel", "10MB"], 2, "--channel has no effect"),
        (vec!["--replay", trace.as_str(), "--drive", DRIVE_FILE, "--channel", "0"], 2, "above 0 bytes per second"),
    ];
    for (arguments, code, part) in cases {
        let output = run_simulate(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    }
}
