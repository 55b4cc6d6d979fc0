//! `simulate SYSTEM.toml`: the examples, JSON answer, notes and errors, and the verdicts of `why` on simulated logs.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fs;
use std::path::Path;

use crate::common::{diskwright, folder};

use serde_json::Value;

fn example_path(name: &str) -> String {
    format!("{}/examples/systems/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// JSON answer of a command that must succeed.
fn run_json(arguments: &[&str]) -> Value {
    let output = diskwright(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Number at a JSON pointer.
fn number_at(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {value}"))
}

#[test]
fn every_example_runs_and_keeps_the_contract() {
    let all = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/systems")).expect("examples");
    let mut seen = 0;
    for path in all.map(|entry| entry.expect("readable").path().display().to_string()) {
        let short = ["--duration", "2s", "--set", "watch.warm_up=1s", "--set", "watch.interval=500ms"];
        let answer = run_json(&[&["simulate", path.as_str()], &short[..]].concat());
        assert_eq!(answer["schema"], "diskwright.simulation/1", "{path}");
        assert_eq!(number_at(&answer, "/duration_s"), 2.0, "{path}");
        for workload in answer["workloads"].as_array().expect("workloads") {
            let (mean, p99, max) = (
                number_at(workload, "/response_s/mean"),
                number_at(workload, "/response_s/p99"),
                number_at(workload, "/response_s/max"),
            );
            assert!(mean > 0.0 && p99 <= max * 1.01 && mean <= max, "{path}: {workload}");
            let sum = number_at(workload, "/reads_per_s") + number_at(workload, "/writes_per_s");
            assert!((sum - number_at(workload, "/requests_per_s")).abs() < 1e-6, "{path}");
        }
        let components = answer["components"].as_array().expect("components");
        let highest = components.iter().filter_map(|c| c["utilisation"].as_f64()).fold(0.0, f64::max);
        assert!(
            components.iter().filter_map(|c| c["utilisation"].as_f64()).all(|u| (0.0..=1.001).contains(&u)),
            "{path}"
        );
        assert!(number_at(&answer, "/bottleneck/utilisation") >= highest - 0.021, "{path}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} examples");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let run = |seed: &str| run_json(&["simulate", &example_path("one-drive"), "--seed", seed, "--duration", "3s"]);
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7")["workloads"], run("8")["workloads"]);
}

#[test]
fn gives_the_analytic_answer_beside_the_simulated() {
    let answer = run_json(&["simulate", &example_path("one-drive")]);
    let (analytic, simulated) =
        (number_at(&answer, "/analytic/requests_per_s"), number_at(&answer, "/workloads/0/requests_per_s"));
    assert!((analytic / simulated - 1.0).abs() < 0.1, "{analytic} {simulated}");
    // a system with a file cache has no analytic answer, but a reason
    let answer = run_json(&["simulate", &example_path("file-server"), "--duration", "1s", "--set", "watch.warm_up=1s"]);
    assert!(answer["analytic"]["because"].as_str().is_some_and(|why| !why.is_empty()), "{}", answer["analytic"]);
}

#[test]
fn sweeps_answer_in_the_order_of_their_values() {
    let folder = folder("systems-sweep");
    let (svg, html) = (folder.join("a.svg").display().to_string(), folder.join("a.html").display().to_string());
    let path = example_path("one-drive");
    let sweep = ["simulate", path.as_str(), "--users", "1,4,16", "--duration", "5s", "--svg", &svg, "--html", &html];
    let answer = run_json(&sweep);
    assert_eq!(answer["sweep"]["key"], "workload.users");
    let points = answer["sweep"]["points"].as_array().expect("points");
    assert_eq!(points.iter().map(|p| p["value"].as_str().unwrap()).collect::<Vec<_>>(), ["1", "4", "16"]);
    let rates: Vec<f64> = points.iter().map(|p| number_at(p, "/workloads/0/requests_per_s")).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "a queue lets the arm choose: {rates:?}");
    for picture in [&svg, &html] {
        let picture = fs::read_to_string(picture).expect("written");
        assert!(picture.contains("Response by workload.users") && picture.contains("Utilization of each part"));
    }
    let screen = diskwright(&sweep[..6]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("workload.users") && screen.contains("Requests per second by"), "{screen}");
    assert!(!screen.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn the_screen_names_the_bottleneck() {
    let output = diskwright(&["simulate", &example_path("narrow-channel"), "--duration", "20s"]);
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(screen.contains("bottleneck: channel scsi"), "{screen}");
    assert!(screen.contains("readers") && screen.contains("drive disk5"), "{screen}");
}

#[test]
fn names_several_saturated_parts_in_the_plural() {
    let path = folder("systems-buses").join("two.toml");
    let half = |name: &str| {
        format!(
            "[[bus]]\nname = \"pci-{name}\"\nrate = \"1MB/s\"\n[[controller]]\nname = \"adapter-{name}\"\n\
             bus = \"pci-{name}\"\n[[channel]]\nname = \"cable-{name}\"\ncontroller = \"adapter-{name}\"\n\
             [[drive]]\nname = \"disk-{name}\"\nchannel = \"cable-{name}\"\ncapacity = \"1GB\"\n\
             [drive.plain]\nservers = 4\nservice = {{ constant_us = 100 }}\n"
        )
    };
    let load = "[[workload]]\nusers = 64\nsize = \"64KB\"\non = [\"disk-a\", \"disk-b\"]\n";
    fs::write(&path, half("a") + &half("b") + load).expect("written");
    let shown = run_text(&["simulate", &path.display().to_string()]);
    assert!(shown.contains("bottleneck: 2 buses like pci-"), "{shown}");
}

/// Verdict of `why` on the log of a simulation.
fn verdict_on_simulation(path: &str, more: &[&str]) -> Value {
    let name = path.trim_start_matches(env!("CARGO_MANIFEST_DIR")).replace('/', "-");
    let log = folder(&format!("systems-{name}")).join("log").display().to_string();
    run_json(&[&["simulate", path, "--out", &log, "--duration", "60s"], more].concat());
    let shown = diskwright(&["show", &log, "--counter", "physical_disk.transfers_per_s", "--as", "csv"]);
    assert!(shown.status.success() && shown.stdout.len() > 1000, "{}", String::from_utf8_lossy(&shown.stderr));
    run_json(&["why", &log])
}

#[test]
fn why_diagnoses_simulated_servers() {
    let cases = [
        ("raid5-of-three", &[][..], "disk"),
        ("pio", &[][..], "interrupts"),
        ("narrow-channel", &[][..], "channel"),
        // four users with a think time of 2 s leave the drive mostly idle
        ("one-drive", &["--set", "workload.think=2s"][..], "none"),
    ];
    for (name, more, expected) in cases {
        let verdict = verdict_on_simulation(&example_path(name), more);
        assert_eq!(verdict["bottleneck"], expected, "{name}: {}", verdict["findings"]);
    }
}

/// The systems that the lab serves as disks (`lab/systems`) must have the bottleneck that its scenarios expect; in the
/// lab the same rules judge recordings of the server.
#[test]
fn lab_systems_have_the_bottleneck_of_their_scenario() {
    let cases = [
        ("one-arm", "disk", "disk"),
        ("many-at-once", "disk", "disk"),
        ("slow-one-of-four", "disk", "slow"),
        ("slow-medium", "disk", "disk"),
        ("narrow-channel", "channel", "scsi"),
        ("volume-held", "throttle", "volume"),
        ("volume-credits", "throttle", "volume"),
        ("small-ssd", "disk", "ssd"),
    ];
    for (name, expected, part) in cases {
        let path = format!("{}/lab/systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let verdict = verdict_on_simulation(&path, &[]);
        assert_eq!(verdict["bottleneck"], expected, "{name}: {}", verdict["findings"]);
        assert_eq!(verdict["instance"], part, "{name}: {}", verdict["findings"]);
    }
}

#[test]
fn errors_name_file_line_and_a_suggestion() {
    let folder = folder("systems-errors");
    let path = folder.join("bad.toml");
    fs::write(&path, "[[drive]]\nmodel = \"st32171x\"\n[[workload]]\nuesrs = 4\nsize = 8\n").expect("written");
    let path = path.display().to_string();
    let output = diskwright(&["simulate", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in
        ["bad.toml:2: ", "did you mean `st32171", "bad.toml:4: ", "did you mean `users`?", "bad.toml:5: ", "\"64KB\""]
    {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let idle = folder.join("idle.toml");
    fs::write(&idle, "[[drive]]\nmodel = \"st32171w\"\n").expect("written");
    let output = diskwright(&["simulate", &idle.display().to_string()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("the system has no load"), "{stderr}");
    let output = diskwright(&["simulate", &idle.display().to_string(), "--sweep", "watch.seed=1,2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("the system has no load"), "a sweep: {stderr}");
    let usage: [&[&str]; 4] = [
        &["simulate"],
        &["simulate", &path, "--replay", "x", "--drive", "y"],
        &["simulate", &path, "--users", "1,,2"],
        &["simulate", &path, "--set", "users"],
    ];
    for arguments in usage {
        assert_eq!(diskwright(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Writes a system of one drive under this workload, with a warm-up of 10 s and 30 s measured; returns its path.
fn write_system_under_load(folder: &Path, workload: &str) -> String {
    let path = folder.join("load.toml");
    let watch = "[watch]\nwarm_up = \"10s\"\nduration = \"30s\"\n[[drive]]\nmodel = \"st32171w\"\n";
    fs::write(&path, format!("{watch}[[workload]]\n{workload}\n")).expect("written");
    path.display().to_string()
}

/// Standard output of a command that must succeed.
fn run_text(arguments: &[&str]) -> String {
    let output = diskwright(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn reports_a_load_that_ends_within_the_warm_up() {
    let folder = folder("systems-short");
    let phase = "[[workload.phase]]\nlasts = \"3s\"\nlevel = 1";
    for (load, ended) in [
        ("users = 2\noperations = 20".to_owned(), "ended after 279 ms"),
        (format!("users = 2\n{phase}"), "ended after 3"),
        (format!("rate = \"20/s\"\n{phase}"), "ended after 2.8"),
    ] {
        let path = write_system_under_load(&folder, &load);
        let shown = run_text(&["simulate", &path]);
        assert!(shown.contains(ended) && shown.contains("within the warm-up of 10 s"), "{load}: {shown}");
        assert!(shown.contains("shorten the warm-up (watch.warm_up)") && !shown.contains("NaN"), "{load}: {shown}");
        assert!(!shown.contains("requests/s"), "there are no figures: {shown}");
        let answer = run_json(&["simulate", &path]);
        assert_eq!((number_at(&answer, "/duration_s"), &answer["bottleneck"]), (0.0, &Value::Null));
        assert!(answer["because"].as_str().is_some_and(|because| because.contains(ended)), "{answer}");
        // page and chart say so as well
        let files = ["a.svg", "a.html"].map(|name| folder.join(name).display().to_string());
        run_text(&["simulate", &path, "--svg", &files[0], "--html", &files[1]]);
        let page = fs::read_to_string(&files[1]).expect("a page");
        assert!(page.contains("within the warm-up of 10 s"), "{page}");
        for file in files {
            assert!(!fs::read_to_string(&file).expect("written").contains("NaN"), "{file}");
        }
        // in a sweep, the other points have figures
        let sweep = run_text(&["simulate", &path, "--sweep", "watch.warm_up=10s,0s"]);
        assert!(sweep.contains("nothing measured: the load ended within the warm-up"), "{sweep}");
        assert!(sweep.contains("drive disk ") && !sweep.contains("NaN"), "{sweep}");
        let output = diskwright(&["plan", "--workload", &path, "--demand-only"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains("within the warm-up of 10 s"), "{stderr}");
    }
    // a load that is measured has no reason to give
    let path = write_system_under_load(&folder, "users = 2");
    assert_eq!(run_json(&["simulate", &path])["because"], Value::Null);
}

#[test]
fn reports_arrivals_that_are_not_served() {
    let folder = folder("systems-overload");
    let notes = |load: &str| run_json(&["simulate", &write_system_under_load(&folder, load)])["notes"].to_string();
    // the drive serves about a hundred reads/s
    let grew = notes("name = \"web\"\nrate = \"300/s\"");
    assert!(grew.contains("workload `web`: operations arrived faster than they were completed"), "{grew}");
    let lost = notes("rate = \"300/s\"\nmost_outstanding = 4");
    assert!(lost.contains("arrivals were lost") && !lost.contains("faster than"), "{lost}");
    assert_eq!(notes("rate = \"20/s\""), "[]");
    assert_eq!(notes("users = 500"), "[]", "users who wait ask for no more than is served");
    let path = write_system_under_load(&folder, "rate = \"20/s\"");
    let output = diskwright(&["simulate", &path, "--sweep", "workload.rate=20/s,300/s"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("workload.rate=300/s: workload `workload`: operations arrived faster"), "{stderr}");
}

#[test]
fn counts_unreadable_lines_of_a_trace() {
    let folder = folder("systems-broken-trace");
    // MSR Cambridge: time in 100 ns, host, disk, type, offset, size, response
    let line = |number: u64| {
        let time = 128_166_372_003_061_629 + number * 5_000_000;
        format!("{time},web,0,Read,{},4096,100000\n", number * 4096)
    };
    let text: String = (0..40).map(line).collect();
    fs::write(folder.join("day.csv"), text + "broken\nbroken\n").expect("written");
    let answer = run_json(&["simulate", &write_system_under_load(&folder, "kind = \"trace\"\nfile = \"day.csv\"")]);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("2 lines or records of the trace could not be read; the first: "), "{notes}");
}

#[test]
fn last_sentence_names_what_limits_the_rate() {
    let folder = folder("systems-rate");
    let last = |load: &str| {
        run_text(&["simulate", &write_system_under_load(&folder, load)]).trim_end().lines().last().map(str::to_owned)
    };
    for (load, says) in [
        ("rate = \"10/s\"", "nothing is saturated, the given rate is the limit"),
        ("users = 2\nthink = \"1s\"", "nothing is saturated, the users limit the rate"),
        ("users = 2\nthink = \"1s\"\n[[workload]]\nrate = \"5/s\"", "of the time; nothing is saturated"),
        ("rate = \"0.000001/s\"", "nothing was requested in the measured 30 s; measure for longer (watch.duration)"),
    ] {
        let sentence = last(load).unwrap_or_default();
        assert!(sentence.ends_with(says), "{load}: {sentence}");
    }
    // an idle part is no bottleneck
    let answer = run_json(&["simulate", &write_system_under_load(&folder, "rate = \"0.000001/s\"")]);
    assert_eq!(answer["bottleneck"], Value::Null);
    assert!(answer["because"].as_str().is_some_and(|because| because.starts_with("nothing was requested")), "{answer}");
}

/// What `simulate` finds full is what `why` blames on the log of the same run, and where nothing is full, `why` blames
/// no part of the path. Write-back in bursts fills the drives of the file server for a second in five.
#[test]
fn the_limit_of_a_simulation_is_the_verdict_on_its_log() {
    let folder = folder("systems-verdicts");
    let all = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/systems")).expect("examples");
    let paths = all.map(|entry| entry.expect("readable").path());
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let log = folder.join(&name).display().to_string();
        let answer = run_json(&["simulate", &path.display().to_string(), "--out", &log]);
        let verdict = run_json(&["why", &log]);
        let found = verdict["bottleneck"].as_str().expect("a bottleneck");
        let full = answer["bottleneck"]["utilisation"].as_f64().expect("a utilization");
        let kind = answer["bottleneck"]["kind"].as_str().expect("a kind");
        let expected: &[&str] = match kind {
            "drive" => &["disk"],
            "channel" | "bus" => &["channel"],
            "processor" => &["cpu", "interrupts"],
            _ => &["controller"],
        };
        let parts = ["disk", "channel", "controller", "cpu", "interrupts"];
        let agrees = match full {
            f if f >= 0.9 => expected.contains(&found),
            // little is left, but something
            f if f >= 0.7 => expected.contains(&found) || !parts.contains(&found),
            _ => !parts.contains(&found),
        };
        assert!(agrees, "{name}: {kind} {full} used, and `why` says {found}: {}", verdict["findings"]);
    }
}

/// A simulation ends although no request is served. Reads from the least busy copy queue less than those of the solver,
/// which chooses copies at random, so the two agree only within a quarter.
#[test]
fn degraded_arrays_finish_and_agree_with_the_solver() {
    let folder = folder("systems-degraded");
    let simulate = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        run_json(&["simulate", &path.display().to_string()])
    };
    let plain = "capacity = \"1GB\"\n[drive.plain]\nservers = 1\nservice = { uniform_us = [100, 9000] }\n";
    // users without think time on an array that lost its data: errors must take some time, or no time would pass
    let lost = simulate(
        "lost.toml",
        &format!(
            "[watch]\nduration = \"1s\"\n[[drive]]\nname = \"disk\"\n{plain}[[array]]\nname = \"data\"\n\
             level = \"raid0\"\nfailed = [0]\n[[workload]]\nname = \"w\"\nusers = 1\n"
        ),
    );
    assert!(number_at(&lost, "/arrays/0/lost_bytes") > 0.0, "{lost}");
    let rates = |answer: &Value| {
        let simulated = number_at(answer, "/workloads/0/requests_per_s");
        (number_at(answer, "/analytic/requests_per_s"), simulated)
    };
    for (name, text) in [
        (
            // small writes to a parity array in step (RAID 3)
            "parity.toml",
            "[watch]\nduration = \"10s\"\n[[drive]]\nname = \"disk\"\ncount = 5\nmodel = \"samsung-pm1643-3840\"\n\
             [[array]]\nname = \"data\"\nlevel = \"raid3\"\nfailed = [1]\n[[workload]]\nname = \"w\"\nusers = 4\n\
             think = \"70ms\"\nread_share = 0\nsize = \"4KB\"\narea = \"10%\"\n"
                .to_owned(),
        ),
        (
            "mirror.toml",
            format!(
                "[watch]\nduration = \"10s\"\n[[drive]]\nname = \"disk\"\ncount = 6\n{plain}[[array]]\n\
                 name = \"data\"\nlevel = \"raid1\"\nfailed = [0]\nread_from = \"least-busy\"\n[[workload]]\n\
                 name = \"w\"\nusers = 20\nthink = \"10ms\"\nread_share = 1\nsize = \"512B\"\n"
            ),
        ),
    ] {
        let (solved, simulated) = rates(&simulate(name, &text));
        assert!((solved / simulated - 1.0).abs() < 0.25, "{name}: solved {solved}/s, simulated {simulated}/s");
    }
}
