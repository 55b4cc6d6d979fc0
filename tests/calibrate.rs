//! `--calibrate`: from a real probe to a description that `plan`, `simulate` and `disk` accept.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::folder;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("DISKWRIGHT_STATE", folder.join("state")).current_dir(folder);
    command.output().expect("runs")
}

/// Standard output of a command that must succeed.
fn run_successfully(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Expects exit code 2, no output, and these words on standard error.
fn expect_refusal(folder: &Path, arguments: &[&str], says: &str) {
    let output = run(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}: {stderr}");
    assert!(stderr.contains(says), "{arguments:?}: {stderr}");
}

const SYSTEM_TOML: &str = "[system]\nname = \"own\"\ncatalogue = \"own.toml\"\n[watch]\nduration = \"2s\"\n\
                      [[drive]]\nname = \"disk\"\nmodel = \"own\"\n\
                      [[workload]]\nname = \"load\"\nusers = 2\nread_share = \"70%\"\nsize = \"4KB\"\n";

/// Writes `reads.json`: the result with five of its read runs only, which is fitted in a fraction of the time.
fn keep_five_reads(folder: &Path) {
    let text = fs::read_to_string(folder.join("quick.json")).expect("written");
    let mut result: Value = serde_json::from_str(&text).expect("JSON");
    let runs = result["runs"].as_array_mut().expect("runs");
    runs.retain(|run| {
        let name = run["name"].as_str().unwrap_or_default();
        name.contains("-read-") && !name.ends_with("-depth-64") && !name.ends_with("-depth-256")
    });
    assert_eq!(runs.len(), 5);
    fs::write(folder.join("reads.json"), result.to_string()).expect("written");
}

#[test]
fn plan_simulate_and_disk_accept_a_calibrated_description() {
    let folder = folder("calibrate");
    let short = ["--for", "400ms", "--ramp", "100ms", "--size", "32MB", "--no-save", "-o", "quick.json"];
    run_successfully(&folder, &[&["probe", "quick", "probe.dat"][..], &short].concat());
    let fit = ["simulate", "--calibrate", "quick.json", "--drive-id", "own", "--description", "own.toml", "--json"];
    let answer: Value = serde_json::from_str(&run_successfully(&folder, &fit)).expect("JSON");
    assert_eq!(answer["schema"], "diskwright.calibration/1");
    // the size of the errors depends on what else this machine does, so only the fields are checked
    let aside = answer["aside"].as_array().expect("what was kept aside");
    assert!(!aside.is_empty() && answer["errors_aside"]["mean"].is_number(), "{answer}");
    let fields = ["run", "tries", "measured_per_s", "predicted_per_s", "measured_s", "predicted_s", "error"];
    assert!(aside.iter().all(|cell| fields.iter().all(|field| cell.get(*field).is_some())), "{answer}");
    let fitted = answer["fitted"].as_array().expect("what was fitted");
    assert!(aside.iter().all(|cell| fitted.iter().all(|other| other["run"] != cell["run"])), "{answer}");
    assert_eq!(answer["description"].as_str(), Some(&*fs::read_to_string(folder.join("own.toml")).expect("written")));

    let load = ["plan", "--reads", "20", "--writes", "5", "--catalogue", "own.toml", "--drives", "own", "--json"];
    let plan: Value = serde_json::from_str(&run_successfully(&folder, &load)).expect("JSON");
    let design = &plan["designs"][0];
    assert_eq!((&design["part"], &design["simulated"]), (&"own".into(), &true.into()), "{plan}");
    assert!(design["utilization"][0]["utilization"].as_f64() > Some(0.0), "{design}");
    fs::write(folder.join("system.toml"), SYSTEM_TOML).expect("written");
    let simulated: Value =
        serde_json::from_str(&run_successfully(&folder, &["simulate", "system.toml", "--json"])).expect("JSON");
    assert!(simulated["workloads"][0]["requests_per_s"].as_f64() > Some(0.0), "{simulated}");
    let served = ["disk", "system.toml", "--socket", "disk.socket", "--for", "300ms"];
    assert!(run_successfully(&folder, &served).contains("serving disk"));

    // a result has each setting once; given twice, it shows the spread between repeats, which is zero here
    assert_eq!((answer["repeats"].is_null(), aside.len() + fitted.len()), (true, 15), "{answer}");
    keep_five_reads(&folder);
    assert!(
        run_successfully(&folder, &["plan", "--calibrate", "reads.json"]).contains("No setting was measured twice")
    );
    let twice = run_successfully(&folder, &["plan", "--calibrate", "reads.json", "reads.json"]);
    let words = twice.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("The same setting measured twice differs by 0.0 % on average (5 settings"), "{twice}");
    expect_refusal(&folder, &["plan", "--calibrate", "quick.json", "--log", "nowhere", "--log-device"], "");
    expect_refusal(&folder, &["plan", "--log", "x"], "--calibrate");
    // refused before any file is read
    expect_refusal(&folder, &["plan", "--calibrate", "not.json", "--drive-id", "My Drive"], "--drive-id: `My Drive`");
    // options that would have no effect
    for command in ["plan", "simulate"] {
        expect_refusal(
            &folder,
            &[command, "--calibrate", "quick.json", "--svg", "not.svg"],
            "--calibrate describes a device",
        );
    }
    expect_refusal(&folder, &["plan", "--calibrate", "quick.json", "--reads", "10"], "plans nothing");
    expect_refusal(&folder, &["plan", "--calibrate", "quick.json", "--from", "nowhere"], "plans nothing");
    fs::write(folder.join("no.json"), "{}").expect("written");
    let no_result = run(&folder, &["plan", "--calibrate", "no.json", "--description", "not.toml"]);
    assert_eq!(no_result.status.code(), Some(1), "a file that is no result is a failure, as of `compare`");
    assert!(String::from_utf8_lossy(&no_result.stderr).contains("no.json: not a result of `probe`"));
    assert!(!folder.join("not.toml").exists(), "a description was written");
}
