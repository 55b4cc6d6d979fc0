//! `plan --from`: the load of logs, traces and described systems; credits, predicted changes and fleets.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::common::{command, diskwright, folder, json, stderr, success, text};

use serde_json::Value;

const RAID5: &str = "[watch]\nwarm_up = \"5s\"\nduration = \"300s\"\n[[drive]]\nmodel = \"st32171w\"\ncount = 4\n\
                     [[array]]\nname = \"set\"\nlevel = 5\n[[workload]]\nrate = \"80/s\"\nread_share = 0.63\n\
                     size = \"8KB\"\n[[workload.phase]]\nlasts = \"150s\"\nfrom = 0.2\nto = 1.0\n\
                     [[workload.phase]]\nlasts = \"200s\"\nfrom = 1.0\nto = 0.2\n";

fn fixture_path(path: &str) -> String {
    format!("{}/crates/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Paths of a system description and of the log of its simulation; made once, for tests that only read them.
fn simulated_array_log() -> (String, String) {
    static MADE: OnceLock<(String, String)> = OnceLock::new();
    let make = || {
        let folder = folder("plan-log");
        let (system, log) = (folder.join("system.toml"), folder.join("log"));
        fs::write(&system, RAID5).expect("written");
        success(&diskwright(&["simulate", text(&system), "--out", text(&log), "--json"]));
        (text(&system).to_owned(), text(&log).to_owned())
    };
    MADE.get_or_init(make).clone()
}

/// Number at a JSON pointer.
pub fn number_at(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {value}"))
}

#[test]
fn a_log_and_its_description_give_the_same_load() {
    let (system, log) = simulated_array_log();
    let from = |more: &[&str]| success(&diskwright(&[&["plan", "--demand-only", "--json"], more].concat()));
    let (of_log, of_system) = (from(&["--from", &log]), from(&["--workload", &system]));
    assert_eq!(of_log["schema"], "diskwright.plan/1");
    for path in ["/demand/reads_per_s", "/demand/writes_per_s", "/demand/size_bytes", "/load/bytes_per_s/max"] {
        let (a, b) = (number_at(&of_log, path), number_at(&of_system, path));
        assert!((a / b - 1.0).abs() < 1e-3, "{path}: {a} {b}");
    }
    // the load of the array is not counted again at its members
    assert!((number_at(&of_log, "/load/requests_per_s/mean") - 52.0).abs() < 3.0, "{of_log}");
    assert_eq!(of_log["load"]["devices"].as_array().map(Vec::len), Some(1));
    assert_eq!(of_log["load"]["rating"]["stars"], 1);
    assert_eq!(of_log["demand"]["percentile"], 95.0);
    let p50 = from(&["--from", &log, "--percentile", "50", "--comfort", "2"]);
    let half = number_at(&of_log, "/load/requests_per_s/p50");
    let planned = number_at(&p50, "/demand/reads_per_s") + number_at(&p50, "/demand/writes_per_s");
    assert!((planned / half / 2.0 - 1.0).abs() < 1e-3, "{planned} {half}");
    let window = from(&["--from", &log, "--since", "-60s"]);
    assert!(number_at(&window, "/load/ticks") <= 61.0);
    let screen = diskwright(&["plan", "--demand-only", "--from", &log]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("raid5 of 4") && screen.contains("confidence *...."), "{screen}");
    let fine = diskwright(&["plan", "--demand-only", "--from", &log, "--percentile", "99.99"]);
    let fine = String::from_utf8_lossy(&fine.stdout).into_owned();
    assert!(fine.contains("99.99 %") && fine.contains("percentile 99.99"), "{fine}");
}

#[test]
fn plans_for_the_load_of_named_devices_only() {
    let folder = folder("plan-devices");
    let (system, log) = (folder.join("system.toml"), folder.join("log"));
    let disk = |name: &str, rate: u32| {
        format!(
            "[[drive]]\nname = \"{name}\"\nmodel = \"st32171w\"\n[[workload]]\nname = \"on-{name}\"\n\
             on = \"{name}\"\nrate = \"{rate}/s\"\nsize = \"8KB\"\n"
        )
    };
    fs::write(&system, format!("[watch]\nduration = \"60s\"\n{}{}", disk("data", 40), disk("boot", 10)))
        .expect("written");
    success(&diskwright(&["simulate", text(&system), "--out", text(&log), "--json"]));
    let ask = |more: &[&str]| diskwright(&[&["plan", "--demand-only", "--json", "--from", text(&log)], more].concat());
    let mean = |more: &[&str]| number_at(&success(&ask(more)), "/load/requests_per_s/mean");
    let (all, data, boot) = (mean(&[]), mean(&["--device", "data"]), mean(&["--device", "boot"]));
    assert!((all - data - boot).abs() < 1e-6 * all && (data / boot - 4.0).abs() < 1.0, "{all} {data} {boot}");
    assert_eq!(mean(&["--device", "data,boot"]), all);
    let found = success(&ask(&["--device", "data"]));
    assert_eq!(found["load"]["devices"].as_array().map(Vec::len), Some(1));
    assert!(found["load"]["notes"].to_string().contains("left out: boot (--device)"), "{found}");
    let output = ask(&["--device", "dato"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no such disk or array; did you mean `data`?"), "{}", stderr(&output));
}

#[test]
fn finds_designs_for_the_load_of_a_log() {
    let (_, log) = simulated_array_log();
    let answer = success(&diskwright(&[
        "plan",
        "--from",
        &log,
        "--capacity",
        "36GB",
        "--response",
        "20ms",
        "--only",
        "hdd",
        "--list",
        "2",
        "--json",
    ]));
    assert!(answer["designs"].as_array().is_some_and(|designs| !designs.is_empty()), "{answer}");
    assert!(number_at(&answer, "/demand/confidence") > 0.0 && answer["load"]["ticks"].is_u64());
}

#[test]
fn predicts_a_change_and_reports_the_model_error() {
    let (_, log) = simulated_array_log();
    let ask =
        |change: &str, more: &[&str]| diskwright(&[&["plan", "--from", &log, "--what-if", change], more].concat());
    let found = success(&ask("raid5 to raid10", &["--json"]));
    let of = |path: &str| number_at(&found, &format!("/what_if/{path}"));
    assert!(of("model_error") < 0.25 && of("after/response_s") < of("before/response_s"), "{found}");
    assert!(of("after/member_load_per_s") < of("before/member_load_per_s"));
    let screen = ask("load +20%", &[]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.trim_start().contains("the model's error"), "{screen}");
    // a change of something that is not there is wrong usage (2); a change that cannot be predicted is a failure (1)
    for (change, code) in [
        ("coffee +1", 2),
        ("move swap to its own disk", 2),
        ("controller +1", 2),
        ("raid10 to raid5", 2),
        ("memory +16GB", 1),
        ("load +5000%", 1),
    ] {
        let output = ask(change, &["--json"]);
        assert_eq!(output.status.code(), Some(code), "{change}: {}", stderr(&output));
        assert!(stderr(&output).contains("--what-if") && output.stdout.is_empty(), "{change}: {}", stderr(&output));
    }
}

#[test]
fn advice_includes_predicted_gains() {
    let folder = folder("plan-gains");
    let (system, log) = (folder.join("system.toml"), folder.join("log"));
    let busy =
        RAID5.replace("count = 4", "count = 8").replace("80/s", "260/s").replace("0.63", "0.5").replace("0.2", "0.4");
    fs::write(&system, busy).expect("written");
    success(&diskwright(&["simulate", text(&system), "--out", text(&log), "--json"]));
    let verdict = success(&diskwright(&["why", "--json", text(&log)]));
    let all = verdict["advice"].as_array().expect("advice");
    assert!(all.iter().all(|advice| advice.get("gain").is_some()), "{verdict}");
    let more = all.iter().find(|advice| advice["id"] == "disk.more-spindles").expect("more disks are advised");
    let planned = diskwright(&["plan", "--json", "--from", text(&log), "--what-if", "disks +2"]);
    assert_eq!(more["gain"], success(&planned)["what_if"]);
    assert!(number_at(more, "/gain/after/response_s") < number_at(more, "/gain/before/response_s"));
    // advice that is no change of the model has no gain
    let process = all.iter().find(|advice| advice["id"] == "disk.find-process").expect("advised");
    assert_eq!(process["gain"], Value::Null);
    let screen = diskwright(&["why", text(&log)]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("What remedies are predicted to bring\n  disks +2: at the highest loads, set"), "{screen}");
    // a log with a single level of load has no model
    let short = diskwright(&["why", "--json", text(&log), "--from", "-5s"]);
    let short = success(&short);
    assert!(short["advice"].as_array().expect("advice").iter().all(|a| a["gain"].is_null()), "{short}");
}

#[test]
fn replays_volume_credits_along_the_log() {
    let (_, log) = simulated_array_log();
    let ask = |volume: &str, more: &[&str]| {
        diskwright(&[&["plan", "--from", &log, "--volume", volume, "--json"], more].concat())
    };
    let found = success(&ask("gp2:20GiB", &["--instance", "m6i.large"]));
    let buckets = found["buckets"].as_array().expect("buckets");
    let names: Vec<&str> = buckets.iter().filter_map(|b| b["bucket"].as_str()).collect();
    assert_eq!(names, ["volume IOPS", "volume bytes", "instance IOPS", "instance bytes"]);
    assert!(buckets.iter().all(|b| b["seconds_at_nothing"] == 0.0), "{found}");
    assert_eq!((number_at(&buckets[0], "/baseline_per_s"), number_at(&buckets[0], "/burst_per_s")), (100.0, 3000.0));
    // a gp3 has at least 3,000 operations/s, and its throughput cannot be given
    let few = ["gp3:100GiB:0", "gp3:100GiB:100", "gp3:100GiB:6000:500"];
    for wrong in ["gp9:20GiB", "gp2", "gp2:1TB:4000", "gp3:1GiB:9000", "gp2:900TiB"].into_iter().chain(few) {
        let output = ask(wrong, &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", stderr(&output));
    }
    assert_eq!(ask("gp2:20GiB", &["--instance", "m99.huge"]).status.code(), Some(2));
    for (volume, more, says) in [
        ("gp22:20GiB", &[][..], "did you mean `gp2`?"),
        ("gp2:20GiB", &["--instance", "m6i.larg"], "did you mean `m6i.large`?"),
        (
            "azure-p10:128GiB",
            &["--instance", "m6i.large"],
            "--instance m6i.large belongs to aws, but --volume azure-p10",
        ),
    ] {
        let output = ask(volume, more);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{volume}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    // 25 to 80 requests/s are below the baseline of 100 operations/s; ten times as many use credits
    let more = success(&ask("gp2:20GiB", &["--comfort", "10"]));
    assert!(number_at(&more, "/buckets/0/lowest_balance") < number_at(&found, "/buckets/0/lowest_balance"), "{more}");
    // small random requests count as 1 MiB each on st1 and exceed its 5 MiB/s
    let slow = success(&ask("st1:125GiB", &[]));
    assert!(number_at(&slow, "/buckets/1/throttled_s") > 100.0, "{slow}");
    assert!(slow["load"]["notes"].to_string().contains("so each counts as 1 MiB"), "{slow}");
    // with --sequential they count as sequential
    let stream = success(&ask("st1:125GiB", &["--sequential", "100%"]));
    assert!(
        number_at(&stream, "/buckets/1/throttled_s") < 0.8 * number_at(&slow, "/buckets/1/throttled_s"),
        "{stream}"
    );
    assert!(!stream["load"]["notes"].to_string().contains("does not show the order"), "{stream}");
}

#[test]
fn reads_loads_from_foreign_logs_and_traces() {
    let log = fixture_path("observe/logs/tests/fixtures/sadf-json.json");
    let found = diskwright(&["plan", "--demand-only", "--json", "--from", &log]);
    // too short for a load: an error, never a guess
    if !found.status.success() {
        assert_eq!(found.status.code(), Some(2), "{}", stderr(&found));
        assert!(stderr(&found).contains("not enough data"), "{}", stderr(&found));
    }
    let folder = folder("plan-trace");
    let trace = folder.join("trace.csv");
    // MSR Cambridge: time in 100 ns, host, disk, type, offset, size, response
    let lines: String = (0..4000_u64)
        .map(|number| {
            let way = if number % 4 == 0 { "Write" } else { "Read" };
            format!(
                "{},web,0,{way},{},4096,50000\n",
                128166372003061629 + number * 100_000,
                (number * 7919 % 10_000) * 4096
            )
        })
        .collect();
    fs::write(&trace, lines).expect("written");
    let found = success(&diskwright(&["plan", "--demand-only", "--json", "--trace", text(&trace)]));
    let planned = number_at(&found, "/demand/reads_per_s") + number_at(&found, "/demand/writes_per_s");
    assert!((planned - 100.0).abs() < 12.0, "{found}");
    assert!(number_at(&found, "/demand/sequential_share") < 0.05, "{found}");
    assert!((number_at(&found, "/demand/queue") - 0.5).abs() < 0.1, "{found}");
}

#[test]
fn makes_one_purchase_list_for_a_fleet() {
    let (_, log) = simulated_array_log();
    let idle = Path::new(&log).with_file_name("not-there");
    let found = success(&diskwright(&[
        "plan",
        "--fleet",
        "--json",
        "--capacity",
        "36GB",
        "--only",
        "cloud:aws",
        "--from",
        &log,
        &log,
        text(&idle),
    ]));
    assert_eq!(found["machines"].as_array().map(Vec::len), Some(3));
    assert!(found["machines"][2]["because"].is_string(), "{found}");
    let rows = found["purchases"].as_array().expect("rows");
    assert_eq!(rows.iter().filter_map(|row| row["machines"].as_u64()).sum::<u64>(), 2, "{found}");
    let one = number_at(&found, "/machines/0/design/price");
    assert!((number_at(&found, "/total_month") - 2.0 * one).abs() < 1e-6, "{found}");
    assert_eq!((&found["without_design"], &found["total_once"]), (&1.into(), &0.0.into()), "{found}");
    // controllers are bought as well, and the total has the known prices
    let boards = ["--controllers", "sas3-hba-8", "--only", "hdd", "--drives", "st20000nm007d", "--capacity", "36GB"];
    let boards = diskwright(&[&["plan", "--fleet", "--from", &log, &log, text(&idle)], &boards[..]].concat());
    let screen = String::from_utf8_lossy(&boards.stdout).into_owned();
    assert!(screen.contains("sas3-hba-8") && screen.contains("st20000nm007d"), "{screen}");
    assert!(screen.contains("1 machine has no design") && !screen.contains("-0.00"), "{screen}");
    let all: f64 =
        screen.lines().find_map(|l| l.strip_prefix("total: ")?.split(' ').next()?.parse().ok()).expect("a sum");
    assert!(all > 100.0 && screen.contains("and 1 of unknown price"), "{screen}");
    // a missing log is a failure, not wrong usage, also as a machine of a fleet
    for words in [&["plan", "--from", "/nowhere/log.csv"][..], &["plan", "--from", "/nowhere/log.csv", "--fleet"]] {
        let output = diskwright(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn busy_hours_of_a_fleet_are_in_local_time() {
    let file = folder("plan-fleet-hours").join("days.csv");
    let counters = ["reads_per_s", "writes_per_s", "read_bytes_per_s", "write_bytes_per_s"];
    let names = counters.map(|counter| format!("physical_disk.{counter}:sda"));
    // two days in ticks of half an hour, busy from 03:00 to 05:00 UTC
    let row = |half_hour: u32| {
        let (hour, minute) = (half_hour / 2 % 24, half_hour % 2 * 30);
        let reads = if (3..5).contains(&hour) { 100 } else { 10 };
        format!("2026-11-{:02}T{hour:02}:{minute:02}:00Z,{reads},1,{},4096\n", 2 + half_hour / 48, reads * 4096)
    };
    let rows: String = (0..96).map(row).collect();
    fs::write(&file, format!("time,{}\n{rows}", names.join(","))).expect("written");
    let columns: Vec<String> = names.iter().map(|name| format!("{name}={name}")).collect();
    let mut arguments = vec!["plan", "--demand-only", "--json", "--from", text(&file)];
    columns.iter().for_each(|column| arguments.extend(["--column", column.as_str()]));
    let hours = |more: &[&str], path: &str| {
        let output = command(&[&arguments[..], more].concat()).env("TZ", "XYZ-5").output().expect("the program runs");
        success(&output).pointer(path).cloned().unwrap_or_default()
    };
    let alone = hours(&[], "/load/busy_hours");
    assert!(alone.to_string().starts_with("[8"), "five hours east of Greenwich: {alone}");
    assert_eq!(hours(&["--fleet"], "/machines/0/load/busy_hours"), alone);
}

#[test]
fn refuses_logs_without_a_load() {
    let folder = folder("plan-no-load");
    let write_csv = |lines: &str, name: &str| {
        let file = folder.join(name);
        fs::write(&file, lines).expect("written");
        text(&file).to_owned()
    };
    // columns of a disk in CSV: an idle log, a short one, and one without writes
    let heading = "time,physical_disk.reads_per_s:sda,physical_disk.writes_per_s:sda,\
                   physical_disk.read_bytes_per_s:sda,physical_disk.write_bytes_per_s:sda\n";
    let rows = |count: usize, cells: &str| -> String {
        (0..count).map(|second| format!("2026-11-02T10:00:{second:02}Z,{cells}\n")).collect()
    };
    let columns = [
        "--column",
        "physical_disk.reads_per_s:sda=physical_disk.reads_per_s:sda",
        "--column",
        "physical_disk.writes_per_s:sda=physical_disk.writes_per_s:sda",
        "--column",
        "physical_disk.read_bytes_per_s:sda=physical_disk.read_bytes_per_s:sda",
        "--column",
        "physical_disk.write_bytes_per_s:sda=physical_disk.write_bytes_per_s:sda",
    ];
    let cases = [
        (write_csv(&(heading.to_owned() + &rows(40, "0,0,0,0")), "idle.csv"), "idle throughout the log"),
        (write_csv(&(heading.to_owned() + &rows(4, "10,5,40960,20480")), "short.csv"), "not enough data"),
    ];
    for (file, says) in cases {
        let output = diskwright(&[&["plan", "--json", "--demand-only", "--from", &file], &columns[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{file}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{file}: {}", stderr(&output));
    }
    let reads = write_csv(&(heading.to_owned() + &rows(40, "10,0,40960,0")), "reads.csv");
    let found = json(&diskwright(&[&["plan", "--json", "--demand-only", "--from", &reads], &columns[..]].concat()));
    // reads without writes are a load; its queue is unknown
    assert_eq!((number_at(&found, "/demand/writes_per_s"), &found["demand"]["queue"]), (0.0, &Value::Null), "{found}");
    let page = text(&folder.join("page.html")).to_owned();
    for wrong in [
        &["--from", &reads, "--percentile", "0"][..],
        &["--from", &reads, "--comfort", "-1"],
        &["--from", &reads, "--reads", "10"],
        &["--from", &reads, "--size", "64K"],
        &["--from", &reads, "--what-if", "load +10%", "--comfort", "2"],
        &["--from", &reads, "--demand-only", "--html", &page],
        &["--from", &reads, "--fleet", "--html", &page],
        &["--from", &reads, "--volume", "gp2:1TiB", "--svg", &page],
        &["--from", &reads, "--what-if", "load +10%", "--html", &page],
        &["--trace", &reads, "--since", "-10s"],
        &["--workload", &reads, "--until", "-10s"],
        &["--what-if", "load +10%"],
        &["--users", "10"],
    ] {
        let output = diskwright(&[&["plan"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
    assert!(!Path::new(&page).exists(), "a page was written");
}

#[test]
fn planned_designs_are_written_as_descriptions_that_simulate_as_planned() {
    let folder = folder("plan-write");
    let designs = folder.join("designs");
    let demand =
        ["plan", "--reads", "126", "--writes", "73", "--size", "8KB", "--capacity", "30GB", "--json", "--write"];
    let answer = success(&diskwright(&[&demand[..], &[text(&designs)]].concat()));
    let planned = answer["designs"].as_array().expect("designs");
    assert!(!planned.is_empty());
    for design in planned {
        let file = design["description"].as_str().expect("a file");
        let simulated = success(&diskwright(&["simulate", file, "--seed", "19", "--json"]));
        let (plan, found) =
            (number_at(design, "/response_s/mean"), number_at(&simulated, "/workloads/0/response_s/mean"));
        assert!((found / plan - 1.0).abs() < 0.25, "{file}: {plan} {found}");
    }
    // nothing is replaced
    let again = diskwright(&[&demand[..], &[text(&designs)]].concat());
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("is already there"), "{}", stderr(&again));
    let (_, log) = simulated_array_log();
    let refused = diskwright(&["plan", "--from", &log, "--demand-only", "--write", text(&designs)]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

/// Writes a Performance Monitor log of 100 ticks with these counters of machine NT, each almost constant.
pub fn write_nt_log(name: &str, counters: &[(&str, f64)]) -> String {
    let path = folder(name).join("nt.csv");
    let mut text = String::from("\"(PDH-CSV 4.0) (GMT Standard Time)(0)\"");
    counters.iter().for_each(|(counter, _)| text += &format!(",\"\\\\NT\\{counter}\""));
    for tick in 0..100_u32 {
        let (minute, second, wobble) = (tick * 5 / 60, tick * 5 % 60, 1.0 + 0.01 * f64::from(tick % 4));
        text += &format!("\n\"09/01/1998 10:{minute:02}:{second:02}.000\"");
        counters.iter().for_each(|(_, value)| text += &format!(",\"{}\"", value * wobble));
    }
    fs::write(&path, text + "\n").expect("written");
    path.to_str().expect("plain").to_owned()
}

/// NT Magazine's three disks, always with the same load: no model fits, but a log proves something all the same.
#[test]
fn a_change_of_a_steady_load_has_bounds() {
    let log = write_nt_log(
        "plan-steady",
        &[
            ("PhysicalDisk(0)\\Avg. Disk Queue Length", 16.0),
            ("PhysicalDisk(0)\\Disk Reads/sec", 126.0),
            ("PhysicalDisk(0)\\Disk Writes/sec", 73.0),
            ("PhysicalDisk(0)\\Avg. Disk sec/Transfer", 0.12),
        ],
    );
    let ask = |change: &str, more: &[&str]| {
        let words = ["plan", "--from", &log, "--array", "*=raid5:3:rotational", "--what-if", change];
        diskwright(&[&words[..], more].concat())
    };
    let found = success(&ask("disks +7", &["--json"]));
    let changed = &found["what_if"];
    let [least, most] = ["least", "most"].map(|end| number_at(changed, &format!("/bounds/requests_per_s/{end}")));
    assert!((150.0..200.0).contains(&least) && (264.0..800.0).contains(&most), "{changed}");
    assert!(changed["after"].is_null() && changed["trusted"] == false, "{changed}");
    assert!(changed["record"].as_str().is_some_and(|text| text.contains("three or more")), "{changed}");
    let screen = String::from_utf8_lossy(&ask("disks +7", &[]).stdout).into_owned();
    assert!(screen.contains("These are bounds, not a prediction") && screen.contains("at most"), "{screen}");
    // of memory, a single load proves nothing
    assert_eq!(ask("memory +16GB", &[]).status.code(), Some(1));
}

#[test]
fn the_counters_that_the_resource_kit_recommends_are_enough() {
    let log = write_nt_log(
        "plan-kit",
        &[
            ("PhysicalDisk(0)\\% Disk Time", 100.0),
            ("PhysicalDisk(0)\\Avg. Disk Queue Length", 3.1),
            ("PhysicalDisk(0)\\Avg. Disk sec/Transfer", 0.031),
            ("PhysicalDisk(0)\\Avg. Disk Bytes/Transfer", 8192.0),
        ],
    );
    let answer = success(&diskwright(&["plan", "--from", &log, "--demand-only", "--json"]));
    // Little's law: 3.1 in flight, 31 ms each
    let planned = number_at(&answer, "/demand/reads_per_s") + number_at(&answer, "/demand/writes_per_s");
    assert!((planned - 100.0).abs() < 4.0, "{}", answer["demand"]);
    let how = answer["demand"]["estimated"].to_string();
    assert!(how.contains("Little's law") && how.contains("two thirds reads are assumed"), "{how}");
    let requests_without_counters = write_nt_log("plan-none", &[("PhysicalDisk(0)\\% Disk Time", 100.0)]);
    let refused = diskwright(&["plan", "--from", &requests_without_counters]);
    assert!(!refused.status.success());
}

/// NT Magazine 1998: sixteen requests on three disks, and the same log as of ten.
#[test]
fn a_declared_array_shows_what_each_member_does() {
    let folder = folder("plan-declared");
    let log = folder.join("array.csv");
    let mut rows = String::from("\"(PDH-CSV 4.0) (UTC)(0)\"");
    for counter in ["Disk Reads/sec", "Disk Writes/sec", "Disk Bytes/sec", "Avg. Disk Queue Length"] {
        rows += &format!(",\"\\\\S\\PhysicalDisk(0 C:)\\{counter}\"");
    }
    for second in 0..60 {
        rows += &format!("\n\"05/04/2026 10:00:{second:02}.000\",\"126\",\"73\",\"1630208\",\"12\"");
    }
    fs::write(&log, rows + "\n").expect("written");
    let declared = ["--array", "*=raid5:10:rotational"];
    let plan = ["plan", "--from", text(&log), "--demand-only"];
    let found = success(&diskwright(&[&plan[..], &declared, &["--json"]].concat()));
    let device = &found["load"]["devices"][0];
    assert_eq!((&device["members"], &device["queue"]), (&10.into(), &12.0.into()), "{device}");
    assert!((number_at(device, "/member_queue") - 1.2).abs() < 1e-6, "{device}");
    assert!((number_at(device, "/member_load_per_s") - 41.8).abs() < 0.1, "{device}");
    let screen = diskwright(&[&plan[..], &declared].concat());
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("in flight by member") && screen.contains("raid5 of 10"), "{screen}");
    let shown = success(&diskwright(&[&["show", text(&log), "--json"][..], &declared].concat()));
    let array = &shown["arrays"][0];
    assert_eq!((&array["level"], &array["members"]), (&"raid5".into(), &10.into()), "{shown}");
    assert!((number_at(array, "/member_queue") - 1.2).abs() < 1e-6, "{array}");
    assert!((number_at(array, "/member_transfers_per_s") - 41.8).abs() < 0.1, "{array}");
    // its disks are behind a controller, and the log does not have how busy it is
    assert_eq!((&array["disks"], &array["busy"]), (&Value::Array(Vec::new()), &Value::Null), "{array}");
    let table = diskwright(&[&["show", text(&log)][..], &declared].concat());
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("in flight by member") && table.contains("raid5 of 10"), "{table}");
    // undeclared, it is one disk, and there is no array to show
    let single = success(&diskwright(&["show", text(&log), "--json"]));
    assert_eq!(single["arrays"], Value::Array(Vec::new()));
}

/// A declared stripe set shows what each of its disks does: one that is busier than the others is not hidden.
#[test]
fn a_declared_set_shows_each_of_its_disks() {
    let folder = folder("show-declared-set");
    let (log, topology) = (folder.join("set.csv"), folder.join("set.toml"));
    let counters = ["Disk Reads/sec", "Disk Writes/sec", "% Idle Time", "Avg. Disk Queue Length"];
    let mut rows = String::from("\"(PDH-CSV 4.0) (UTC)(0)\"");
    for (disk, counter) in [0, 1].into_iter().flat_map(|disk| counters.map(|counter| (disk, counter))) {
        rows += &format!(",\"\\\\S\\PhysicalDisk({disk})\\{counter}\"");
    }
    for second in 0..60 {
        rows += &format!(
            "\n\"05/04/2026 10:00:{second:02}.000\",\"20\",\"10\",\"75\",\"0.5\",\"60\",\"30\",\"25\",\"2.5\""
        );
    }
    fs::write(&log, rows + "\n").expect("written");
    fs::write(&topology, "[[set]]\nname = \"stripe\"\nlevel = \"raid0\"\ndisks = [\"0\", \"1\"]\n").expect("written");
    let declared = ["--topology", text(&topology)];
    let shown = success(&diskwright(&[&["show", text(&log), "--json"][..], &declared].concat()));
    let array = &shown["arrays"][0];
    assert_eq!((&array["name"], &array["members"]), (&"stripe".into(), &2.into()), "{shown}");
    let disk = |index: usize, field: &str| number_at(array, &format!("/disks/{index}/{field}"));
    for (index, transfers, queue, busy) in [(0, 30.0, 0.5, 0.25), (1, 90.0, 2.5, 0.75)] {
        assert!((disk(index, "transfers_per_s") - transfers).abs() < 1e-6, "{array}");
        assert!((disk(index, "queue") - queue).abs() < 1e-6 && (disk(index, "busy") - busy).abs() < 1e-6, "{array}");
    }
    assert!((number_at(array, "/busy") - 0.75).abs() < 1e-6, "that of the busiest disk: {array}");
    assert!((number_at(array, "/member_queue") - 1.5).abs() < 1e-6, "{array}");
    let table = diskwright(&[&["show", text(&log)][..], &declared].concat());
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("stripe: raid0 of 2") && table.contains("75 %"), "{table}");
}

#[test]
fn the_origin_of_the_space_is_told() {
    let (_, log) = simulated_array_log();
    let ask = |more: &[&str]| diskwright(&[&["plan", "--demand-only", "--from", &log], more].concat());
    let unknown = success(&ask(&["--json"]));
    let space = &unknown["load"]["space"];
    assert!(space["source"].is_null() && space["used_bytes"].is_null(), "{space}");
    assert!(space["remarks"].to_string().contains("--capacity"), "{space}");
    let given = success(&ask(&["--capacity", "36GB", "--json"]));
    assert_eq!(
        (&given["load"]["space"]["source"], &given["demand"]["capacity_bytes"]),
        (&"given".into(), &36e9.into())
    );
    let screen = ask(&["--capacity", "36GB"]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("space: 36 GB as given (--capacity)"), "{screen}");
}
