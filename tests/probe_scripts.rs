//! Scripts of other tools, run by `probe` on real files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common;

use serde_json::Value;

/// Creates a folder with copies of all sample scripts.
fn folder_with_scripts(test: &str) -> PathBuf {
    let folder = common::folder(&format!("probe_scripts-{test}"));
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/measure/probe/tests/scripts");
    for entry in fs::read_dir(scripts).expect("scripts").map(|e| e.expect("entry")) {
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("copied");
    }
    folder
}

fn run_probe(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.arg("probe").args(arguments).current_dir(folder);
    command.env("DISKWRIGHT_STATE", folder.join("state")).env("DIR", ".").output().expect("runs")
}

fn measure(folder: &Path, arguments: &[&str]) -> Value {
    let done = run_probe(folder, &[arguments, &["--json"]].concat());
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

fn refusal_text(folder: &Path, arguments: &[&str]) -> String {
    let done = run_probe(folder, arguments);
    assert_eq!(done.status.code(), Some(1), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Names of the runs of an answer.
fn run_names(answer: &Value) -> Vec<&str> {
    answer["runs"].as_array().expect("runs").iter().filter_map(|r| r["name"].as_str()).collect()
}

#[test]
fn runs_a_fio_job_file_in_rounds() {
    let folder = folder_with_scripts("scripts-fio");
    let text = fs::read_to_string(folder.join("mail.fio")).expect("readable");
    // ended by an amount instead of a time, however slow the machine is
    let text = text.replace("runtime=30\ntime_based\n", "io_size=1m\n");
    fs::write(folder.join("mail.fio"), &text).expect("written");
    let answer = measure(&folder, &["mail.fio"]);
    assert_eq!((&answer["schema"], &answer["suite"]), (&"diskwright.probe/1".into(), &"script".into()));
    assert_eq!(run_names(&answer), ["deliver", "fetch", "together-1", "search"]);
    let runs = answer["runs"].as_array().expect("runs");
    assert!(runs.iter().all(|r| r["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0)), "{answer:#}");
    assert_eq!(
        (&runs[0]["depth"], &runs[0]["beside"][0], &runs[0]["read_share"]),
        (&2.into(), &"fetch".into(), &0.0.into())
    );
    assert_eq!(runs[2]["combines"], serde_json::json!(["deliver", "fetch"]));
    assert!(runs[1]["reads"].is_object() && runs[1]["writes"].is_object());
    assert_eq!(answer["script"]["format"], "fio");
    assert_eq!(answer["script"]["files"][0]["text"], text);
    assert!(answer["script"]["notes"][0]["text"].as_str().is_some_and(|t| t.contains("uses io_uring")));
    assert!(!folder.join("mail.dat").exists(), "the file goes away");
}

#[test]
fn a_job_ends_after_its_total_size() {
    let folder = folder_with_scripts("scripts-ends");
    let answer = measure(&folder, &["backup.fio"]);
    assert_eq!(run_names(&answer), ["write", "first-half", "second-half", "together-2"]);
    let moved = |run: usize| {
        let run = &answer["runs"][run];
        run["bytes_per_s"].as_f64().unwrap_or(0.0) * run["measured_s"].as_f64().unwrap_or(0.0)
    };
    for (run, mib) in [(0, 32.0), (1, 16.0), (2, 16.0), (3, 32.0)] {
        assert!((moved(run) - mib * 1_048_576.0).abs() < 1000.0, "{run}: {}", moved(run));
    }
}

#[test]
fn runs_on_several_files_or_on_a_given_target() {
    let folder = folder_with_scripts("scripts-several");
    let short = ["--for", "500ms", "--ramp", "0"];
    fs::write(folder.join("two.fio"), "[global]\nsize=4m\ndirect=1\n[a]\n[b]\nrw=randwrite\nfilename=b.dat\n").unwrap();
    let answer = measure(&folder, &[&["two.fio"][..], &short].concat());
    assert_eq!(run_names(&answer), ["a", "b", "together"]);
    let targets: Vec<_> = (0..2).map(|index| answer["targets"][index]["name"].as_str().unwrap_or("")).collect();
    assert_eq!(targets, ["a.0.0", "b.dat"]);
    assert_eq!((&answer["runs"][0]["target"], &answer["runs"][1]["target"]), (&"a.0.0".into(), &"b.dat".into()));
    let answer = measure(&folder, &[&["two.fio", "one.dat"][..], &short].concat());
    assert_eq!((&answer["target"], answer["targets"].is_null()), (&"one.dat".into(), true));
    fs::create_dir(folder.join("in")).unwrap();
    let answer = measure(&folder, &[&["two.fio", "in"][..], &short].concat());
    assert_eq!(answer["targets"][1]["name"], "in/b.dat");
    assert!(fs::read_dir(folder.join("in")).unwrap().next().is_none(), "all files go away");
}

#[test]
fn runs_response_probe_scripts() {
    let folder = folder_with_scripts("scripts-response-probe");
    let answer = measure(&folder, &["office.scr", "--for", "2s", "--size", "20MiB"]);
    assert_eq!(run_names(&answer), ["diskmax", "random", "together"]);
    let (diskmax, random) = (&answer["runs"][0], &answer["runs"][1]);
    assert_eq!(
        (&diskmax["place"], &diskmax["loop"], &diskmax["size_bytes"]),
        (&"sequential".into(), &"closed".into(), &65_536.0.into())
    );
    assert_eq!((&random["place"], &random["loop"], &random["users"]), (&"normal".into(), &"cycles".into(), &2.into()));
    // the script has the pattern RRW: two reads to a write
    let [reads, writes] = ["reads", "writes"].map(|d| random[d]["requests_per_s"].as_f64().unwrap_or(0.0));
    assert!((reads / writes - 2.0).abs() < 0.5, "{reads} {writes}");
    assert_eq!(answer["script"]["files"].as_array().map(Vec::len), Some(4));
    assert!(!folder.join("workfile.dat").exists());
}

#[test]
fn guards_the_targets_of_scripts() {
    let folder = folder_with_scripts("scripts-guard");
    let before = vec![7; 4 << 20];
    for name in ["mine.dat", "other.dat"] {
        fs::write(folder.join(name), &before).unwrap();
    }
    let text = "[a]\nfilename=mine.dat\nrw=write\nnumber_ios=1\n[b]\nfilename=other.dat\nrw=write\nnumber_ios=1\n";
    fs::write(folder.join("w.fio"), text).unwrap();
    assert!(refusal_text(&folder, &["w.fio"]).contains("--destroy-data-on mine.dat"));
    assert!(refusal_text(&folder, &["w.fio", "--destroy-data-on", "another"]).contains("nothing was written"));
    let message = refusal_text(&folder, &["w.fio", "--destroy-data-on", "mine.dat"]);
    assert!(message.contains("other.dat"), "{message}");
    assert!(["mine.dat", "other.dat"].iter().all(|n| fs::read(folder.join(n)).unwrap() == before));
    let both = ["w.fio", "--destroy-data-on", "mine.dat", "--destroy-data-on", "other.dat"];
    assert_eq!(run_names(&measure(&folder, &both)), ["a", "b", "together"]);
    assert_ne!(fs::read(folder.join("other.dat")).unwrap(), before);
    // existing files are kept, with their length
    assert_eq!(fs::metadata(folder.join("other.dat")).unwrap().len(), 4 << 20);
}

#[test]
fn reports_script_errors_with_their_line() {
    let folder = folder_with_scripts("scripts-wrong");
    let trim = "[a]\nsize=1m\nrw=trim\n";
    for (text, expected) in [
        (trim, "s.fio:3: rw: trims are not supported"),
        ("[a]\nrw=read\n", "a.0.0 does not exist, and the script does not give its size"),
        ("[a]\nsize=1m\nbs=1000\ndirect=1\n", "not a multiple of the sector"),
        ("[a]\nsize=4k\nbs=64k\n", "does not fit"),
    ] {
        fs::write(folder.join("s.fio"), text).unwrap();
        let message = refusal_text(&folder, &["s.fio"]);
        assert!(message.contains(expected), "{text}: {message}");
        assert!(!folder.join("a.0.0").exists());
    }
    let done = run_probe(&folder, &["no-such-thing"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("unknown suite or script"));
    // a suite needs its target as before
    assert_eq!(run_probe(&folder, &["quick"]).status.code(), Some(2));
}
