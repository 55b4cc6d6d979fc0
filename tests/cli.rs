//! The real binary on the real machine: JSON fields, exit codes, and messages about bad input.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{command, diskwright, folder, interrupt, json, stderr, text, wait_until};

/// Records a log of about a second of this machine; returns its path.
fn record_short_log(test: &str) -> PathBuf {
    let log = folder(&format!("cli-{test}")).join("log");
    let done = diskwright(&["record", text(&log), "--every", "200ms", "--for", "1s", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(json(&done)["schema"], "diskwright.record/1");
    log
}

#[test]
fn why_on_this_host_returns_the_documented_json() {
    let done = diskwright(&["why", "--for", "1s", "--every", "250ms", "--json", "--all-packs"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let verdict = json(&done);
    assert_eq!(verdict["schema"], "diskwright.verdict/1");
    let fields = ["bottleneck", "instance", "confidence", "findings", "ruled_out", "unjudged", "culprits", "advice"];
    for field in fields.iter().chain(&["window"]) {
        assert!(verdict.get(field).is_some(), "no field {field}");
    }
    let confidence = verdict["confidence"].as_f64().expect("a number");
    assert!((0.0..=1.0).contains(&confidence));
    let packs: Vec<&str> =
        verdict["packs"].as_array().expect("a list").iter().filter_map(|p| p["pack"].as_str()).collect();
    for pack in ["default", "nt-resource-kit", "sas-1998", "ntmag-1998", "compaq-1997", "sql7-1999"] {
        assert!(packs.contains(&pack), "{pack} is not in {packs:?}");
    }
}

#[test]
fn why_into_a_pipe_keeps_its_width_and_has_no_colour() {
    let done = diskwright(&["why", "--for", "1s", "--every", "250ms"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let screen = String::from_utf8_lossy(&done.stdout);
    assert!(screen.lines().count() > 5, "{screen}");
    assert!(screen.lines().all(|l| l.chars().count() <= 100));
    assert!(!screen.contains('\x1b'), "colour without a terminal");
}

#[test]
fn records_marks_shows_judges_and_reports_a_log() {
    let log = folder("cli-whole").join("log");
    let mut recorder = command(&["record", text(&log), "--every", "200ms", "--for", "60s"]).spawn().expect("runs");
    wait_for_log(&log, &mut recorder);
    let refused = diskwright(&["record", text(&log), "--for", "1s"]);
    assert_eq!(refused.status.code(), Some(1), "a second recorder");
    assert_eq!(stderr(&refused).lines().filter(|l| l.starts_with("diskwright: ")).count(), 1, "{}", stderr(&refused));
    assert_eq!(diskwright(&["mark", text(&log), "the", "<b>index</b>", "build"]).status.code(), Some(0));
    let judged = || {
        let beside = diskwright(&["why", text(&log), "--json"]);
        assert_eq!(beside.status.code(), Some(0), "beside the recorder: {}", stderr(&beside));
        json(&beside)["window"]["ticks"].as_u64()
    };
    wait_until("some ticks", || judged() >= Some(8));
    interrupt(&recorder);
    assert!(recorder.wait().expect("ends").success());

    let shown = json(&diskwright(&["show", text(&log), "--counter", "processor.busy", "--json"]));
    assert_eq!(shown["schema"], "diskwright.show/1");
    assert_eq!(shown["bookmarks"][0]["text"], "the <b>index</b> build");
    assert!(shown["series"].as_array().is_some_and(|s| s.iter().any(|s| s["instance"] == "_total")));
    for form in ["table", "chart", "csv"] {
        let done = diskwright(&["show", text(&log), "--as", form, "--from", "-1h"]);
        assert_eq!(done.status.code(), Some(0), "{form}: {}", stderr(&done));
        assert!(!done.stdout.is_empty());
    }
    let page = log.with_extension("html");
    let done = diskwright(&["report", text(&log), "-o", text(&page)]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.contains("&lt;b&gt;index&lt;/b&gt;") && !html.contains("<b>index</b>"), "bookmarks are escaped");
    assert!(html.contains("<svg") && !html.contains("src=\"http"), "charts, and nothing from outside");
}

/// Waits until the folder of a log has more than one file.
fn wait_for_log(log: &Path, recorder: &mut Child) {
    for _ in 0..200 {
        let ready = fs::read_dir(log).is_ok_and(|entries| entries.count() > 1);
        if ready {
            return;
        }
        assert!(recorder.try_wait().expect("a child").is_none(), "the recorder ended");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    panic!("no log after 4 s");
}

#[test]
fn wrong_usage_exits_with_2_and_writes_nothing() {
    let place = folder("cli-usage");
    let log = place.join("log");
    let cases: &[&[&str]] = &[
        &["record", text(&log), "--every", "5x"],
        &["record", text(&log), "--keep", "7 apples"],
        &["record", "--listen", "0", "--for", "1s", "--keep", "14d"],
        &["watch", "--no-screen", "--for", "1s", "--panels", "panels.toml"],
        &["trace", "status", "--out", text(&log)],
        &["trace", "on", "--method", "bpf"],
        &["record", text(&log), "--for", "1s", "--panels", "panels.toml"],
        &["why", "--for", "1s", "--every", "1s"],
        &["why", "--from", "-5m"],
        &["why", "--pack", "no-such-pack"],
        &["mark"],
        &["list", "unicorns"],
        &["frobnicate"],
    ];
    for case in cases {
        let done = diskwright(case);
        assert_eq!(done.status.code(), Some(2), "{case:?}: {}", stderr(&done));
        assert!(done.stdout.is_empty() && !stderr(&done).is_empty(), "{case:?}");
    }
    assert_eq!(fs::read_dir(&place).expect("readable").count(), 0);
}

#[test]
fn refuses_live_options_with_a_log_and_log_options_without_one() {
    let log = record_short_log("cli-live-options");
    let (log, store) = (text(&log), "http://127.0.0.1:9");
    let cases: &[&[&str]] = &[
        &["why", log, "--for", "5s"],
        &["why", log, "--every", "2s"],
        &["why", "--prometheus", store, "--every", "2s"],
        &["why", "--prometheus", store, "--fleet", "--for", "5s"],
        &["watch", log, "--once", "--every", "5s"],
        &["watch", log, "--no-screen", "--every", "5s"],
        &["serve", log, "--every", "7s"],
        &["serve", "--prometheus", store, "--every", "7s"],
    ];
    for case in cases {
        let done = diskwright(case);
        let message = stderr(&done);
        assert_eq!(done.status.code(), Some(2), "{case:?}: {message}");
        assert!(
            message.contains("goes with this machine") && message.contains("--from and --to"),
            "{case:?}: {message}"
        );
    }
    // options that need a log, without one
    let done = diskwright(&["watch", "--no-screen", "--for", "1s", "--from", "-5m"]);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    let nowhere = folder("cli-live-reading").join("log");
    let nowhere = text(&nowhere);
    let cases: &[(&[&str], &str)] = &[
        (&["why", "--for", "1s", "--every", "250ms", "--host", "db1"], "--host needs a log"),
        (&["why", "--for", "1s", "--every", "250ms", "--interval", "5s"], "--interval needs a log"),
        (&["why", "--prometheus", store, "--host", "db1"], "--match selects"),
        (&["why", "--prometheus", store, "--fleet", "--array", "sda=single"], "--array needs a log"),
        (&["watch", "--once", "--memory", "8G"], "--memory needs a log"),
        (&["serve", "--listen", "0", "--utc-offset", "+02:00"], "--utc-offset needs a log"),
        (&["serve", "--prometheus", store, "--host", "db1"], "--match selects"),
        (&["advise", "--processors", "4"], "--processors needs a log"),
        (&["plan", "--reads", "100", "--array", "sda=single"], "--array needs a log"),
        (&["import", "--prometheus", store, "--host", "db1", "--to", nowhere], "--host needs a log"),
    ];
    for (case, expected) in cases {
        let done = diskwright(case);
        assert_eq!(done.status.code(), Some(2), "{case:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(expected), "{case:?}: {}", stderr(&done));
    }
}

#[test]
fn bad_files_exit_with_1_and_one_line_that_names_them() {
    let place = folder("cli-files");
    let foreign = place.join("foreign.log");
    fs::write(&foreign, "this is no log of ours\n").expect("writable");
    let empty = place.join("empty");
    fs::create_dir(&empty).expect("a folder");
    let rules = place.join("rules.toml");
    fs::write(&rules, RULES_WITH_A_WRONG_KEY).expect("writable");
    let missing = place.join("nothing-here");
    let page = place.join("page.html");
    let cases: &[(&[&str], &str)] = &[
        (&["why", text(&foreign)], "foreign.log"),
        (&["why", text(&empty)], "empty"),
        (&["why", text(&missing)], "nothing-here"),
        (&["show", text(&foreign)], "foreign.log"),
        (&["report", text(&foreign), "-o", text(&page)], "foreign.log"),
        (&["mark", text(&empty), "hello"], "empty"),
        (&["record", text(&foreign), "--for", "1s"], "foreign.log"),
        (&["why", "--pack", text(&rules), "--for", "1s"], "rules.toml:12"),
        (&["explain", "no such counter"], "no such counter"),
    ];
    for (case, named) in cases {
        let done = diskwright(case);
        assert_eq!(done.status.code(), Some(1), "{case:?}: {}", stderr(&done));
        let lines: Vec<String> = stderr(&done).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "{case:?}: {lines:?}");
        assert!(lines[0].contains(named), "{case:?}: {lines:?}");
    }
    assert!(!page.exists() && fs::read_dir(&empty).expect("readable").count() == 0, "nothing is written");
}

#[test]
fn accepts_output_names_that_are_not_utf8() {
    let place = folder("cli-no-text");
    let log = record_short_log("no-text-log");
    let file = |name: &[u8]| place.join(OsStr::from_bytes(name));
    for (words, name) in [
        (&["report", text(&log), "--json", "-o"][..], &b"page\xff.html"[..]),
        (&["export", text(&log), "--as", "csv", "--json", "-o"], &b"out\xff.csv"[..]),
    ] {
        let done = command(words).arg(file(name)).output().expect("runs");
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", stderr(&done));
        assert!(
            json(&done)["file"].as_str().is_some_and(|printed_name| printed_name.contains('\u{fffd}')),
            "{words:?}"
        );
        assert!(file(name).is_file(), "{words:?}");
    }
    // on machines that can be traced and on others
    let traced = command(&["trace", "--for", "200ms", "--out"]).arg(file(b"trace\xff")).output().expect("runs");
    assert!(matches!(traced.status.code(), Some(0 | 1)), "{}", stderr(&traced));
}

#[test]
fn reports_a_folder_without_permission_in_one_line() {
    let place = folder("cli-permission");
    let locked = place.join("locked");
    fs::create_dir(&locked).expect("a folder");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("ours");
    let log = locked.join("log");
    // root may enter any folder, so the command runs as the user nobody
    let root = is_root();
    let arguments = ["record", text(&log), "--for", "1s"];
    let done = if root {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_diskwright")]);
        unprivileged.args(arguments).output()
    } else {
        command(&arguments).output()
    };
    let Ok(done) = done else { return eprintln!("skipped: no setpriv to become nobody with") };
    if root && stderr(&done).contains("setpriv") {
        return eprintln!("skipped: nobody cannot run the program here: {}", stderr(&done));
    }
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert_eq!(stderr(&done).lines().count(), 1, "{}", stderr(&done));
    assert!(stderr(&done).contains("locked"), "{}", stderr(&done));
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

const RULES_WITH_A_WRONG_KEY: &str = r#"[pack]
id = "mine"
title = "Mine"
source = "me"
explain = "Mine."

[[rule]]
id = "disk.q"
title = "queue"
object = "physical_disk"
bottleneck = "disk"
all = [{ counter = "avg_queue_length", abvoe = 2.0 }]
severity = "critical"
sustained = { share = 0.5, at_least = "10s" }
source = "me"
explain = "Mine."
"#;

#[test]
fn judges_or_refuses_a_truncated_log_without_a_panic() {
    let log = record_short_log("truncated");
    let segment = fs::read_dir(&log)
        .expect("readable")
        .map(|e| e.expect("entry").path())
        .find(|p| p.extension().is_some_and(|e| e == "dwlog") && text(p).contains("0000"))
        .expect("a segment");
    let segment_bytes = fs::read(&segment).expect("readable");
    fs::write(&segment, &segment_bytes[..segment_bytes.len() - 40]).expect("writable");
    let done = diskwright(&["why", text(&log), "--json"]);
    // either ticks are left and are judged, or the answer is an error; never a panic
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", stderr(&done));
    assert!(!stderr(&done).contains("panicked"));
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child = command(&["list", "counters"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{errors}");
    assert!(errors.is_empty(), "{errors}");
}

#[test]
fn counters_are_explained_by_any_of_their_names() {
    for name in ["physical_disk.avg_queue_length", "aqu-sz", "PhysicalDisk\\Avg. Disk Queue Length"] {
        let found = json(&diskwright(&["explain", name, "--json"]));
        let ids: Vec<&str> =
            found["counters"].as_array().expect("a list").iter().filter_map(|c| c["id"].as_str()).collect();
        assert!(ids.contains(&"physical_disk.avg_queue_length"), "{name}: {ids:?}");
    }
    let done = diskwright(&["explain", "Disk Queue Length"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
}

#[test]
fn every_registry_is_listed() {
    for registry in ["counters", "rules", "packs", "sources", "formats", "levels", "drives"] {
        let listed = json(&diskwright(&["list", registry, "--json"]));
        assert_eq!(listed["schema"], "diskwright.list/1");
        assert!(listed["entries"].as_array().is_some_and(|e| !e.is_empty()), "{registry}");
        assert_eq!(diskwright(&["list", registry]).status.code(), Some(0));
    }
}
