//! The command `stress`: JSON fields, refusals before anything is written, and clean-up after a kill. The reached
//! levels are checked loosely, because other tests run at the same time.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::{command, diskwright, folder, interrupt, json, stderr, success, text, wait_until};

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

#[test]
fn lists_classes_with_their_load_and_obstacle() {
    let answer = success(&diskwright(&["stress", "list", "--json"]));
    assert_eq!(answer["schema"].as_str(), Some("diskwright.stress/1"));
    let classes = answer["classes"].as_array().expect("classes");
    assert!(classes.len() >= 17, "{answer}");
    for class in classes {
        let has_text = |key: &str| class[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(["id", "loads", "full", "says"].into_iter().all(has_text), "{class}");
        assert!(class["obstacle"].is_null() || has_text("obstacle"), "{class}");
    }
    let screen = String::from_utf8_lossy(&diskwright(&["stress", "--list"]).stdout).into_owned();
    assert!(screen.contains("paging") && screen.contains("why should say"), "{screen}");
    // docs/stress.md has a row for each class
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/stress.md")).expect("a document");
    for class in classes {
        let row = format!("| `{}` |", class["id"].as_str().expect("an id"));
        assert!(document.contains(&row), "docs/stress.md lacks {row}");
    }
}

#[test]
fn refuses_impossible_loads_before_writing() {
    let folder = folder("stress-refused");
    let dir = text(&folder);
    let cases: [(&[&str], &str); 13] = [
        (&[], "a class is missing"),
        (&["procesor"], "did you mean `processor`?"),
        (&["processor", "--level", "0"], "expected 1 to 100 %"),
        (&["processor", "--level", "101"], "expected 1 to 100 %"),
        (&["processor", "--level", "half"], "invalid value"),
        (&["memory-under", "--level", "99"], "allows at most 95 %"),
        (&["disk-random", "--dir", "/no/such/folder"], "there is no such folder"),
        (&["disk-random", "--dir", "/dev/shm"], "is in memory"),
        (&["disk-random", "--for", "soon"], "invalid value"),
        (&["--verify", "--classes", "lock"], "did you mean `locks`?"),
        (&["--verify", "--for", "2s"], "at least 8 s"),
        (&["--classes", "locks"], "--verify"),
        (&["processor", "--verify"], "cannot be used with"),
    ];
    for (arguments, sentence) in cases {
        if arguments.contains(&"/dev/shm") && !Path::new("/dev/shm").is_dir() {
            eprintln!("skipped: no /dev/shm");
            continue;
        }
        let dir: &[&str] = if arguments.contains(&"--dir") { &[] } else { &["--dir", dir] };
        let output = diskwright(&[&["stress"], arguments, dir].concat());
        assert!(
            output.status.code() == Some(2) && stderr(&output).contains(sentence),
            "{arguments:?} {}",
            stderr(&output)
        );
        assert!(is_empty(&folder), "{arguments:?}");
    }
}

#[test]
fn holds_a_load_and_reports_the_level_reached() {
    let folder = folder("stress-held");
    for (class, level) in [("one-thread", "30"), ("locks", "50"), ("disk-metadata", "40")] {
        let answer = success(&diskwright(&[
            "stress",
            class,
            "--level",
            level,
            "--for",
            "700ms",
            "--dir",
            text(&folder),
            "--json",
        ]));
        let number = |key: &str| answer[key].as_f64().unwrap_or(f64::NAN);
        assert_eq!((answer["class"].as_str(), &answer["stopped"]), (Some(class), &serde_json::Value::Null));
        assert!(number("wall_s") >= 0.7 && number("per_s") > 0.0 && number("reached") > 0.0, "{answer}");
        // a busy machine reaches less than requested, none reaches much more
        assert!(number("reached") < number("asked") * 1.5, "{answer}");
        assert!(is_empty(&folder), "{class}");
    }
    let screen = diskwright(&["stress", "locks", "--level", "20", "--for", "200ms"]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("requested 20.0 %, reached ") && screen.contains("`why` should say"), "{screen}");
}

#[test]
fn an_interrupted_load_reports_its_level_and_leaves_nothing() {
    let folder = folder("stress-stopped");
    let child = command(&["stress", "disk-metadata", "--dir", text(&folder), "--for", "600s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    wait_until("it works", || !is_empty(&folder));
    interrupt(&child);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.code() == Some(1) && stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert_eq!(json(&output)["stopped"].as_str(), Some("interrupted"));
    assert!(is_empty(&folder));
}

/// Ctrl-C in a terminal interrupts the whole process group: the load as well as its supervisor.
#[test]
fn an_interrupt_of_the_process_group_ends_load_and_supervisor() {
    use std::os::unix::process::CommandExt;
    let folder = folder("stress-terminal");
    for signal in ["-INT", "-TERM"] {
        let child = command(&["stress", "disk-metadata", "--dir", text(&folder), "--for", "600s", "--json"])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        wait_until("it works", || !is_empty(&folder));
        let group = format!("-{}", child.id());
        let sent = std::process::Command::new("kill").args([signal, "--", &group]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(json(&output)["stopped"].as_str(), Some("interrupted"));
        assert!(is_empty(&folder));
    }
}

#[test]
fn killing_the_supervisor_ends_the_load() {
    let folder = folder("stress-killed");
    let mut child = command(&["stress", "disk-metadata", "--dir", text(&folder), "--for", "600s"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    wait_until("it works", || !is_empty(&folder));
    let id = child.id();
    child.kill().expect("killed");
    child.wait().expect("ended");
    // the load was not killed itself: it notices that its supervisor is gone, ends and removes its files
    wait_until("its files are gone", || is_empty(&folder));
    let next = diskwright(&["stress", "locks", "--for", "100ms", "--dir", text(&folder), "--json"]);
    success(&next);
    let left = format!("diskwright-stress-{id}");
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/blkio"] {
        assert!(!Path::new(root).join(&left).exists(), "{root}: {left}");
    }
}

#[test]
fn verify_reports_one_table() {
    let output = diskwright(&["stress", "--verify", "--classes", "locks", "--for", "8s", "--json"]);
    // the verdict depends on the other programs of this machine, so only the form of the answer is checked
    let answer = json(&output);
    let trial = &answer["trials"][0];
    eprintln!("beside other tests: {trial}");
    assert_eq!((trial["class"].as_str(), trial["run"].as_u64()), (Some("locks"), Some(1)));
    let result = trial["result"].as_str().expect("a result");
    assert_eq!(output.status.code(), Some(i32::from(result != "right")), "{answer} {}", stderr(&output));
    assert!(trial["verdict"].is_string() && trial["confidence"].is_number() && trial["reached"].is_number(), "{trial}");
    assert_eq!(answer["classes"][0]["right"].as_u64(), Some(u64::from(result == "right")));
}
