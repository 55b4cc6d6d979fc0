//! `compare` and `report` on results of `probe`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common;

use crate::common::stderr;

use serde_json::Value;

const SAMPLE_RESULT: &str = include_str!("../crates/measure/results/tests/fixtures/depth.json");

fn run_in_folder(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("TZ", "UTC").stdin(Stdio::null()).current_dir(folder);
    command.output().expect("the program runs")
}

/// Creates a folder with results whose run `depth-1` was made three times, at about the given rates (per second).
fn folder_with_results(test: &str, files: &[(&str, f64)]) -> PathBuf {
    let folder = common::folder(&format!("results-{test}"));
    for (name, rate) in files {
        let mut result: Value = serde_json::from_str(SAMPLE_RESULT).expect("JSON");
        let run = result["runs"][0].clone();
        let repeats = [0.99, 1.0, 1.01].map(|factor| {
            let mut run = run.clone();
            run["requests_per_s"] = (rate * factor).into();
            run["bytes_per_s"] = (rate * factor * 4096.0).into();
            run["latency_s"]["mean"] = (1.0 / rate / factor).into();
            run
        });
        result["runs"] = repeats.to_vec().into();
        fs::write(folder.join(name), result.to_string()).expect("written");
    }
    folder
}

#[test]
fn distinguishes_differences_from_noise() {
    let folder = folder_with_results("differences", &[("a.json", 1000.0), ("b.json", 1500.0), ("c.json", 1001.0)]);
    let done = run_in_folder(&folder, &["compare", "a.json", "b.json", "--json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&answer["schema"], &answer["of"]), (&"diskwright.compare/1".into(), &"probe".into()));
    assert_eq!(answer["outcome"], "helped");
    let rows = answer["counters"].as_array().expect("rows");
    let rate = rows.iter().find(|r| r["counter"] == "requests_per_s").expect("a rate");
    assert_eq!((&rate["instance"], &rate["noise"], &rate["unit"]), (&"depth-1".into(), &false.into(), &"per_s".into()));
    assert!((rate["ratio"].as_f64().unwrap() - 1.5).abs() < 1e-9);
    let done = run_in_folder(&folder, &["compare", "a.json", "c.json"]);
    assert!(String::from_utf8_lossy(&done.stdout).contains("No difference beyond noise"));
    // several results on one side
    let done = run_in_folder(&folder, &["compare", "a.json", "c.json", "--", "b.json"]);
    assert!(done.status.success(), "{}", stderr(&done));
}

#[test]
fn fails_where_a_figure_is_worse_than_allowed() {
    let folder = folder_with_results("worse", &[("a.json", 1500.0), ("b.json", 1000.0)]);
    for (arguments, code) in [
        (&["compare", "a.json", "b.json"][..], 0),
        (&["compare", "a.json", "b.json", "--fail-if-worse", "60%"], 0),
        (&["compare", "a.json", "b.json", "--fail-if-worse", "0.1"], 1),
        (&["compare", "b.json", "a.json", "--fail-if-worse", "0"], 0),
        (&["compare", "a.json", "b.json", "--fail-if-worse", "some"], 2),
    ] {
        let done = run_in_folder(&folder, arguments);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {}", stderr(&done));
        assert_eq!(code == 1, stderr(&done).contains("is worse by"), "{}", stderr(&done));
    }
    // single runs show no noise, so that --fail-if-worse could never fail
    let mut single: Value = serde_json::from_str(SAMPLE_RESULT).expect("JSON");
    single["runs"].as_array_mut().expect("runs").truncate(2);
    fs::write(folder.join("single.json"), single.to_string()).expect("written");
    let done = run_in_folder(&folder, &["compare", "single.json", "single.json", "--fail-if-worse", "5%"]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("no figure can be judged"), "{}", stderr(&done));
    assert!(run_in_folder(&folder, &["compare", "single.json", "single.json"]).status.success());
}

#[test]
fn refuses_incompatible_results_and_options() {
    let folder = folder_with_results("refused", &[("a.json", 1.0), ("b.json", 2.0)]);
    let newer = SAMPLE_RESULT.replacen("diskwright.probe/1", "diskwright.probe/2", 1);
    fs::write(folder.join("newer.json"), newer).unwrap();
    fs::write(folder.join("other.json"), "{\"schema\": \"else/1\"}").unwrap();
    fs::write(folder.join("broken.json"), &SAMPLE_RESULT[..900]).unwrap();
    for (arguments, code, expected) in [
        (&["compare", "a.json"][..], 2, "give two"),
        (&["compare", "a.json", "b.json", "a.json"], 2, "A1 A2 -- B1 B2"),
        (&["compare", "a.json", "b.json", "--at", "12:00"], 2, "windows are for logs"),
        (&["compare", "a.json", "b.json", "--against-to", "12:00"], 2, "windows are for logs"),
        (&["report", "a.json", "-o", "x.html", "--from", "-1h"], 2, "windows are for logs"),
        (&["compare", "a.json", "b.json", "--pack", "sql7-1999"], 2, "--pack is for logs"),
        (&["compare", "a.json", "b.json", "--host", "db1"], 2, "--host needs a log"),
        (&["compare", "a.json", "b.json", "--all-packs"], 2, "--all-packs is for logs"),
        (&["report", "a.json", "-o", "x.html", "--role", "file-server"], 2, "--role is for logs"),
        (&["compare", "a.json", "newer.json"], 1, "newer.json: written by a newer diskwright as `diskwright.probe/2`"),
        (&["compare", "a.json", "other.json"], 1, "other.json: not a result of `probe`"),
        (&["compare", "a.json", "none.json"], 1, "none.json: No such file"),
        (&["report", "broken.json", "-o", "x.html"], 1, "broken.json:1:900: "),
        (&["report", "a.json", "other.json", "-o", "x.html"], 1, "only be compared with results"),
        (&["compare", "other.json", "other.json", "--fail-if-worse", "1"], 2, "--fail-if-worse are for results"),
    ] {
        let done = run_in_folder(&folder, arguments);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(expected), "{arguments:?}: {}", stderr(&done));
        assert!(!folder.join("x.html").exists());
    }
}

/// JSON cannot hold such a name; the command must not panic after the page was written.
#[test]
fn reports_a_page_name_that_is_not_utf8() {
    let folder = folder_with_results("no-text", &[("a.json", 1.0)]);
    let page = OsStr::from_bytes(b"caf\xe9.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(["report", "a.json", "--json", "-o"]).arg(page).stdin(Stdio::null()).current_dir(&folder);
    let done = command.output().expect("the program runs");
    assert!(done.status.success(), "{}", stderr(&done));
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(answer["file"], "caf\u{fffd}.html");
    assert!(folder.join(page).exists());
}

#[test]
fn writes_pages_and_charts() {
    let folder = folder_with_results("pages", &[("a.json", 1.0), ("b.json", 2.0)]);
    let done = run_in_folder(&folder, &["report", "a.json", "b.json", "-o", "r.html", "--json"]);
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(answer["schema"], "diskwright.report/1");
    let page = fs::read_to_string(folder.join("r.html")).unwrap();
    assert!(page.contains("Latency by percentile") && page.contains("Read-ahead"));
    assert!(run_in_folder(&folder, &["report", "a.json", "-o", "r.svg"]).status.success());
    assert!(fs::read_to_string(folder.join("r.svg")).unwrap().starts_with("<svg xmlns="));
    assert!(run_in_folder(&folder, &["compare", "a.json", "b.json", "-o", "c.html"]).status.success());
    assert!(fs::read_to_string(folder.join("c.html")).unwrap().contains("Figure by figure"));
    // on standard output a page comes without other text, with --json too
    for more in [&[][..], &["--json"]] {
        let done = run_in_folder(&folder, &[&["compare", "a.json", "b.json", "-o", "-"][..], more].concat());
        let page = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && page.starts_with("<!DOCTYPE html>"), "{}", stderr(&done));
        assert!(page.trim_end().ends_with("</html>") && !page.contains("\"schema\""), "{page}");
    }
}
