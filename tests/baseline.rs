//! The command `baseline`: JSON fields, saving, and the remark of `why` on a machine that has become slower. The speed
//! of the machine that runs the tests is not judged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use diskwright_base::{Note, Schema, Series, Tick, Topology};
use diskwright_baseline::document::{BaselineDocument, FigureResult, SCHEMA};
use diskwright_baseline::figure::find_definition;
use diskwright_baseline::machine::BaselineMachine;
use diskwright_baseline::profile_store;
use diskwright_datastore::{LogWriter, WriterOptions};

use crate::common::{folder, json, stderr, text};

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-03-01T00:00:00Z.
const START_NS: i64 = 1_772_323_200 * SECOND_NS;

fn run_with_state(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("DISKWRIGHT_STATE", state).output().expect("the program runs")
}

/// Baseline of a machine with two processors whose figures are scaled by `speed`.
fn baseline_document(host: &str, measured: &str, speed: f64) -> BaselineDocument {
    let figure = |id: &str, threads: usize, value: f64| {
        FigureResult::from_values(find_definition(id).expect("known"), threads, &[value; 5])
    };
    let machine = BaselineMachine { host: host.into(), processors: 2, ..BaselineMachine::default() };
    let figures = vec![
        figure("processor.integer", 1, 1e9 * speed),
        figure("processor.integer", 2, 2e9 * speed),
        figure("memory.latency.1M", 1, 4e-9 / speed),
    ];
    let (schema, measured) = (SCHEMA.into(), measured.into());
    BaselineDocument { schema, measured, extent: "full".into(), machine, figures, ..BaselineDocument::default() }
}

#[test]
fn measures_selected_figures_without_saving_them() {
    let state = folder("baseline-part");
    let output =
        run_with_state(&state, &["baseline", "--check", "--only", "kernel.system_call,processor.sha256", "--json"]);
    let answer = json(&output);
    assert_eq!(answer["schema"], "diskwright.baseline/1");
    let figures = answer["figures"].as_array().expect("figures");
    let ids: Vec<&str> = figures.iter().filter_map(|figure| figure["id"].as_str()).collect();
    assert_eq!(ids, ["processor.sha256", "kernel.system_call"]);
    for figure in figures {
        // on a busy machine the values may scatter: the median is then refused with a reason, and the values are kept
        assert!(figure["values"].as_array().is_some_and(|values| values.len() >= 5), "{figure}");
        assert_eq!(figure["median"].is_null(), figure["refused"].is_string(), "{figure}");
    }
    assert!(answer["saved"]["file"].is_null() && answer["saved"]["because"].is_string(), "{answer}");
    assert!(fs::read_dir(&state).expect("a folder").next().is_none());
}

#[test]
fn rejects_wrong_arguments_before_measuring() {
    let state = folder("baseline-typed");
    let wrong = |arguments: &[&str]| {
        let output = run_with_state(&state, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    };
    assert!(wrong(&["baseline", "--only", "procesor"]).contains("did you mean `processor`?"));
    assert!(wrong(&["baseline", "--only", "memory.raed"]).contains("`memory.read`"));
    assert!(wrong(&["baseline", "--disk", "/nowhere/at/all"]).contains("no such folder"));
    assert!(wrong(&["baseline", "--disk", text(&state)]).contains("a folder; give the name of a new file in it"));
    assert!(wrong(&["baseline", "--disk", "/dev/null"]).contains("a character device"));
    assert!(wrong(&["baseline", "--sustained", "3s"]).contains("12 s"));
    wrong(&["baseline", "--check", "--replace"]);
}

#[test]
fn compares_baselines_of_two_machines() {
    let folder = folder("baseline-compare");
    let write = |name: &str, document: &BaselineDocument| {
        let path = folder.join(name);
        fs::write(&path, serde_json::to_string_pretty(document).expect("JSON")).expect("written");
        path
    };
    let first = write("a.json", &baseline_document("a", "2026-03-01T00:00:00Z", 1.0));
    let second = write("b.json", &baseline_document("b", "2026-03-02T00:00:00Z", 0.5));
    let answer = json(&run_with_state(&folder, &["compare", text(&first), text(&second), "--json"]));
    assert_eq!(answer["schema"], "diskwright.baseline-compare/1");
    for speed in ["speed_one_thread", "speed_all_threads"] {
        assert!(answer[speed].as_f64().is_some_and(|speed| (speed - 0.5).abs() < 1e-9), "{answer}");
    }
    let screen = run_with_state(&folder, &["compare", text(&first), text(&second)]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("The second is 50 % slower with one thread; 50 % slower with all threads."), "{screen}");
    // a result of another kind is no baseline
    let other =
        write("c.json", &BaselineDocument { schema: "diskwright.probe/1".into(), ..BaselineDocument::default() });
    let output = run_with_state(&folder, &["compare", text(&first), text(&other)]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("c.json"), "{}", stderr(&output));
    for useless in [["--at", "12:00"], ["--against-to", "12:00"], ["--fail-if-worse", "10%"]] {
        let [option, value] = useless;
        let refused = run_with_state(&folder, &["compare", text(&first), text(&second), option, value]);
        assert_eq!(refused.status.code(), Some(2), "{option}: {}", stderr(&refused));
    }
}

/// Writes a log of one minute of an idle machine; returns its path.
fn write_idle_log(folder: &Path, host: &str) -> std::path::PathBuf {
    let path = folder.join(format!("log-{host}"));
    let mut writer = LogWriter::create_or_append(&path, WriterOptions::default()).expect("a log");
    let topology = Topology { host: host.into(), processors: 2, ..Topology::default() };
    let topology = serde_json::to_string(&topology).expect("JSON");
    writer.add_note(&Note::new(START_NS, Note::TOPOLOGY, topology)).expect("a note");
    let series = Series { counter: "memory.available_bytes".into(), instance: String::new(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series]));
    for second in 1..=60 {
        let tick = Tick { time_ns: START_NS + second * SECOND_NS, elapsed_ns: SECOND_NS as u64 };
        writer.push(&schema, tick, &[1e9]).expect("a tick");
    }
    writer.close().expect("closed");
    path
}

#[test]
fn why_reports_a_machine_slower_than_its_baseline() {
    let state = folder("baseline-why");
    let keep = |document: &BaselineDocument| {
        profile_store::save_measurement(&state.join("baselines"), document, None, false).expect("kept")
    };
    keep(&baseline_document("slow", "2026-02-01T00:00:00Z", 1.0));
    let mut moved = baseline_document("slow", "2026-03-02T08:30:00Z", 0.78);
    moved.machine.processor = Some("Slow 9".into());
    keep(&moved);
    keep(&baseline_document("same", "2026-02-01T00:00:00Z", 1.0));
    keep(&baseline_document("same", "2026-03-02T08:30:00Z", 0.99));
    keep(&baseline_document("later", "2026-02-01T00:00:00Z", 1.0));
    keep(&baseline_document("later", "2026-06-01T00:00:00Z", 0.5));
    let answer = |host: &str| {
        let path = write_idle_log(&state, host);
        json(&run_with_state(&state, &["why", text(&path), "--json"]))
    };
    let slow = answer("slow");
    let sentence = slow["machine"]["sentence"].as_str().expect("a sentence").to_owned();
    let expected = "this machine is 22 % slower than on the day of its baseline (2026-02-01) with one thread";
    assert!(sentence.starts_with(expected), "{sentence}");
    let limits = slow["certainty_limits"].as_array().expect("limits");
    let is_there = |words: &str| limits.iter().any(|limit| limit.as_str().is_some_and(|text| text.contains(words)));
    assert!(is_there("22 % slower") && is_there("from that day: processor: unknown -> Slow 9"), "{slow}");
    assert_eq!(slow["machine"]["differences"][0], "processor: unknown -> Slow 9");
    let same = answer("same");
    assert!(same["machine"]["measured"].is_string() && same["machine"]["sentence"].is_null(), "{same}");
    // `later` was measured again three months after the window; `unknown` has no baseline
    assert!(answer("later")["machine"].is_null() && answer("unknown")["machine"].is_null());
    let page = state.join("page.html");
    let path = state.join("log-slow");
    let report = run_with_state(&state, &["report", text(&path), "-o", text(&page)]);
    assert!(report.status.success(), "{}", stderr(&report));
    assert!(fs::read_to_string(page).expect("a page").contains("22 % slower"));
}
