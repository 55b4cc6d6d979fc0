//! The command `workload`: JSON fields, refusals before anything is written, and clean-up after a kill.

use std::fs;

use crate::common::{command, diskwright, folder, interrupt, json, stderr, success, text, wait_until};

fn is_empty(folder: &std::path::Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

fn is_another_filesystem(folder: &std::path::Path, other: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(other).is_ok_and(|other| other.dev() != fs::metadata(folder).expect("a folder").dev())
}

#[test]
fn a_sort_returns_the_documented_json_and_leaves_nothing() {
    let folder = folder("workload-sort");
    let dir = text(&folder);
    let answer =
        success(&diskwright(&["workload", "sort", "--source", dir, "--rows", "50k", "--memory", "1M,16M", "--json"]));
    assert_eq!((answer["schema"].as_str(), answer["workload"].as_str()), (Some("diskwright.workload/1"), Some("sort")));
    // (10, rounded up to 16, + 100) x 1.1 x 50,000
    assert_eq!(answer["memory_in_place_bytes"].as_u64(), Some(6_380_000));
    let runs = answer["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    assert!(runs[0]["runs"].as_u64() > Some(1) && runs[1]["runs"].as_u64() == Some(1), "{answer}");
    for run in runs {
        assert!(run["wall_s"].as_f64() > Some(0.0) && run["verified"] == true && run["rows"] == 50_000, "{run}");
        let bytes: u64 = run["stages"].as_array().unwrap().iter().map(|s| s["write"]["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, 5_000_000 * (1 + run["passes"].as_u64().unwrap()));
        let of_first = |field: &str| run["stages"][0][field]["bytes"].as_u64().unwrap() as f64;
        let rate = (of_first("read") + of_first("write")) / run["stages"][0]["wall_s"].as_f64().unwrap();
        assert!((run["stages"][0]["bytes_per_s"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{run}");
    }
    assert!(is_empty(&folder));
}

#[test]
fn prints_a_table_and_a_chart_of_several_sorts() {
    let folder = folder("workload-chart");
    let (dir, svg) = (text(&folder).to_owned(), folder.join("sort.svg"));
    let output = diskwright(&[
        "workload",
        "sort",
        "--source",
        &dir,
        "--rows",
        "20k",
        "--memory",
        "512K,1M,8M",
        "--svg",
        text(&svg),
    ]);
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && screen.contains("512 KiB") && screen.contains("Time of the sort"), "{screen}");
    assert!(screen.contains("was read back") && screen.lines().all(|l| l.chars().count() <= 80), "{screen}");
    assert!(fs::read_to_string(svg).expect("written").starts_with("<svg "));
}

#[test]
fn a_kept_result_is_sorted_and_never_overwritten() {
    let folder = folder("workload-keep");
    let (dir, kept) = (text(&folder).to_owned(), folder.join("sorted.txt"));
    let sort = ["workload", "sort", "--source", &dir, "--rows", "30k", "--memory", "1M", "--keep", text(&kept)];
    success(&diskwright(&[&sort[..], &["--json"]].concat()));
    let rows = fs::read_to_string(&kept).expect("kept");
    let keys: Vec<&str> = rows.lines().map(|row| &row[..10]).collect();
    assert!(keys.len() == 30_000 && keys.is_sorted());
    // an existing file is never overwritten
    let again = diskwright(&sort);
    assert!(again.status.code() == Some(2) && stderr(&again).contains("already exists"), "{}", stderr(&again));
    assert_eq!(fs::read_to_string(&kept).expect("kept"), rows);
    // rows of a file cannot be chosen by options
    for (option, value) in [("--rows", "10"), ("--seed", "2")] {
        let output = diskwright(&["workload", "sort", "--source", text(&kept), option, value]);
        let refused = format!("{option} goes with rows that are made");
        assert!(output.status.code() == Some(2) && stderr(&output).contains(&refused), "{}", stderr(&output));
    }
    // a link is not followed
    let link = folder.join("link");
    std::os::unix::fs::symlink("nowhere", &link).expect("made");
    let output = diskwright(&["workload", "sort", "--source", &dir, "--rows", "100", "--keep", text(&link)]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("already exists"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
}

#[test]
fn refuses_impossible_workloads_before_writing() {
    let folder = folder("workload-refused");
    let dir = text(&folder);
    let cases: [(&[&str], i32, &str); 19] = [
        (&["sort", "--rows", "1000G", "--memory", "1G", "--source", dir], 1, "nothing was written"),
        (&["sort", "--memory", "20K", "--source", dir], 2, "needs at least"),
        (&["sort", "--rows", "none", "--source", dir], 2, "invalid number of rows"),
        (&["sort", "--row-size", "12", "--source", dir], 2, "a row of 12 bytes"),
        (&["sort", "--source", "/no/such/folder"], 2, "no such folder"),
        (&["sort", "--source", dir, "--work", "/no/such/folder"], 2, "/no/such/folder: there is no such folder"),
        (&["sort", "--source", dir, "--target", "/dev/null"], 2, "/dev/null: there is no such folder"),
        (&["sort", "--places", &format!("{dir},{dir}")], 2, "they count as one place"),
        (&["transactions", "--dir", "/no/such/folder"], 2, "no such folder"),
        (&["load", "--dir", dir, "--size", "1000000G"], 1, "nothing was written"),
        (&["mail", "--dir", dir, "--users", "0"], 2, "0 users"),
        (&["scan", "--dir", dir, "--users", "4097"], 2, "4097 users"),
        (&["backup", "--dir", dir, "--rate", "0"], 2, "a rate of 0 operations"),
        (&["files", "--dir", dir, "--files", "18446744073709551615"], 1, "nothing was written"),
        (&["transactions", "--dir", dir, "--reads", "4000000000"], 2, "up to 100000 reads"),
        (&["sort", "--rows", "184467440737095517", "--memory", "8000P", "--source", dir], 2, "sort fewer rows"),
        (
            &["sort", "--rows", "20000G", "--row-size", "1M", "--memory", "8000P", "--source", dir],
            1,
            "nothing was written",
        ),
        (&["sort", "--source", dir, "--keep", "/no/such/folder/rows"], 2, "no such folder"),
        (&["sort", "--source", dir, "--keep", "/dev/shm/rows"], 2, "on the filesystem of"),
    ];
    for (arguments, code, sentence) in cases {
        if arguments.contains(&"/dev/shm/rows") && !is_another_filesystem(&folder, "/dev/shm") {
            eprintln!("skipped: /dev/shm is no other filesystem");
            continue;
        }
        let output = diskwright(&[&["workload"], arguments].concat());
        assert!(
            output.status.code() == Some(code) && stderr(&output).contains(sentence),
            "{arguments:?} {}",
            stderr(&output)
        );
        assert!(is_empty(&folder), "{arguments:?}");
    }
}

#[test]
fn every_workload_of_users_reports_its_operations() {
    let folder = folder("workload-users");
    let dir = text(&folder);
    let kinds: [(&[&str], &str); 6] = [
        (&["transactions", "--size", "16M"], "update"),
        (&["load", "--size", "8M"], "batch"),
        (&["scan", "--size", "8M"], "read"),
        (&["files", "--files", "60"], "stat"),
        (&["backup", "--files", "60"], "file"),
        (&["mail"], "deliver"),
    ];
    for (kind, operation) in kinds {
        let common = ["--dir", dir, "--for", "300ms", "--users", "2", "--json"];
        let answer = success(&diskwright(&[&["workload"], kind, &common].concat()));
        assert_eq!(answer["schema"].as_str(), Some("diskwright.workload/1"));
        let operations = answer["operations"].as_array().expect("operations");
        let found = operations.iter().find(|found| found["operation"] == operation).expect("the operation");
        assert!(found["done"].as_u64() > Some(0) && found["latency_s"]["p99"].as_f64() > Some(0.0), "{answer}");
        assert!(is_empty(&folder), "{kind:?}");
    }
}

#[test]
fn removes_and_names_what_a_killed_workload_left() {
    let folder = folder("workload-killed");
    let dir = text(&folder);
    let mut child = command(&["workload", "mail", "--dir", dir, "--for", "60s"]).spawn().expect("starts");
    wait_until("it works", || !is_empty(&folder));
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(!is_empty(&folder), "mail has names, and so its folder stays");
    let next = diskwright(&["workload", "mail", "--dir", dir, "--for", "200ms", "--json"]);
    assert!(stderr(&next).contains("left behind by a killed workload"), "{}", stderr(&next));
    assert!(json(&next)["verified"] == true && is_empty(&folder));
}

#[test]
fn an_interrupted_workload_leaves_nothing() {
    let folder = folder("workload-stopped");
    let dir = text(&folder);
    let child = command(&["workload", "files", "--dir", dir, "--for", "60s", "--files", "200"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    wait_until("it works", || !is_empty(&folder));
    interrupt(&child);
    let output = child.wait_with_output().expect("ended");
    assert!(!output.status.success() && stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(is_empty(&folder));
}

#[test]
fn an_interrupt_ends_the_creation_of_files() {
    let folder = folder("workload-stopped-early");
    let dir = text(&folder);
    // more files than it can create before the interrupt
    let child = command(&["workload", "backup", "--dir", dir, "--for", "1s", "--files", "300000", "--mean-size", "1K"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    wait_until("it makes files", || !is_empty(&folder));
    interrupt(&child);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.code() == Some(1) && stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(is_empty(&folder));
}

#[test]
fn probe_runs_sort_sweeps_as_suites() {
    let folder = folder("workload-suite");
    let dir = text(&folder).to_owned();
    let answer = success(&diskwright(&["probe", "sort-memory", &dir, "--size", "4M", "--buffered", "--json"]));
    assert_eq!((answer["schema"].as_str(), answer["workload"].as_str()), (Some("diskwright.workload/1"), Some("sort")));
    let runs = answer["runs"].as_array().expect("runs");
    assert!(runs.len() >= 3 && answer["knee_bytes"].as_u64() >= Some(1 << 20), "{answer}");
    // the smallest amount of memory needs several runs, the largest holds all rows
    assert!(runs[0]["runs"].as_u64() > Some(1) && runs[runs.len() - 1]["runs"].as_u64() == Some(1), "{answer}");
    assert!(is_empty(&folder));
    for (wrong, word) in [
        (&["probe", "sort-memory", "/nowhere"][..], "folder"),
        (&["probe", "sort-places", &dir][..], "--members"),
        (&["probe", "sort-memory", &dir, "--live"][..], "--live"),
        (&["probe", "sort-memroy", &dir][..], "`sort-memory`"),
    ] {
        let output = diskwright(wrong);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(word), "{wrong:?}: {}", stderr(&output));
    }
}
