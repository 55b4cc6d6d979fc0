//! The command `experiments`: JSON fields, exit codes, and independence of the current folder.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diskwright")).args(arguments).output().expect("runs")
}

fn run_json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_row_has_the_fields_of_the_contract() {
    let answer = run_json(&["experiments", "S9", "--json"]);
    assert_eq!(answer["schema"], "diskwright.experiments/1");
    let rows = answer["experiments"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    let row = &rows[0];
    assert_eq!((&row["id"], &row["doc"], &row["use"]), (&"S9.records".into(), &"003".into(), &"none".into()));
    assert_eq!((&row["unit"], &row["gain"]), (&"/s".into(), &false.into()));
    assert_eq!(row["published"].as_f64(), Some(179.343));
    let error = row["error"].as_f64().expect("simulated");
    let simulated = row["simulated"].as_f64().expect("simulated");
    assert!((simulated - 179.352).abs() < 0.001 && (error - (simulated / 179.343 - 1.0)).abs() < 1e-12);
    for field in ["baseline", "baseline_error", "because"] {
        assert!(row.get(field).is_some(), "{field}");
    }
}

#[test]
fn lists_experiments_and_refuses_unknown_ones() {
    let entries = run_json(&["list", "experiments", "--json"]);
    assert!(entries["entries"].as_array().is_some_and(|e| e.len() > 80));
    let wrong = run(&["experiments", "M99"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no experiment `M99`"));
    let text = run(&["experiments", "S9"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("S9.records"));
}

/// A system file of this name in the current folder once replaced the built-in one.
#[test]
fn ignores_system_files_of_the_current_folder() {
    let folder = crate::common::folder("experiments-elsewhere");
    let systems = folder.join("experiments/systems");
    std::fs::create_dir_all(&systems).expect("made");
    std::fs::write(systems.join("nt-stripes.toml"), "nothing = 1\n").expect("written");
    let mut command = crate::common::command(&["experiments", "S10.one", "--json"]);
    let answer = crate::common::success(&command.current_dir(&folder).output().expect("runs"));
    assert!(answer["experiments"][0]["simulated"].as_f64() > Some(10.0), "{answer}");
}
