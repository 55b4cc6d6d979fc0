//! Logs of Windows NT, which have neither the memory size of the machine nor the rates of clock and network interrupts.
//! With those given as options, the rules published for NT judge them. The numbers are those of the NT Resource Kit.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::common::{diskwright, folder, success};

use serde_json::Value;

fn write_file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("plain").to_owned()
}

/// Ten minutes of constant counters, as Performance Monitor exports them.
fn perfmon_text(counters: &[(&str, f64)]) -> String {
    let names: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
    perfmon_rows(&names, 15, 40, |_, column| counters[column].1)
}

/// A log of so many rows; `value` is that of a row and a column.
fn perfmon_rows(names: &[&str], seconds: usize, rows: usize, value: impl Fn(usize, usize) -> f64) -> String {
    let mut text = String::from("\"(PDH-CSV 4.0) (UTC)(0)\"");
    names.iter().for_each(|name| write!(text, ",\"\\\\NT1\\{name}\"").expect("written"));
    for row in 0..rows {
        let second = row * seconds;
        let (day, hour, minute) = (2 + second / 86_400, 10 + second / 3600, second / 60 % 60);
        let (day, hour) = if hour % 24 < 10 { (day + 1, hour % 24) } else { (day, hour % 24) };
        write!(text, "\r\n\"03/{day:02}/1998 {hour:02}:{minute:02}:{:02}.000\"", second % 60).expect("written");
        (0..names.len()).for_each(|column| write!(text, ",\"{}\"", value(row, column)).expect("written"));
    }
    text + "\r\n"
}

/// Words that mean nothing to whoever has a log of Windows.
fn assert_no_linux_words(text: &str) {
    for word in ["/proc", "/sys/", "vmstat", "iostat", "pidstat", "mpstat", "`top", "iowait", "cgroup", "ionice"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn run_why(log: &str, pack: &str, options: &[&str]) -> Value {
    success(&diskwright(&[&["why", log, "--pack", pack, "--json"], options].concat()))
}

fn find_finding<'a>(verdict: &'a Value, rule: &str) -> Option<&'a Value> {
    verdict["findings"].as_array().expect("findings").iter().find(|finding| finding["rule"] == rule)
}

#[test]
fn disk_interrupts_exclude_those_of_clock_and_network() {
    let folder = folder("nt-interrupts");
    // the counter of the system, or the total of the processors
    let rule = "interrupts.disk-takes-processor";
    for counter in [r"System\Total Interrupts/sec", r"Processor(_Total)\Interrupts/sec"] {
        let busy = (r"Processor(_Total)\% Interrupt Time", 91.5);
        let log = write_file(&folder, "nt.csv", &perfmon_text(&[(counter, 426.5), busy]));
        check_interrupt_rule(&folder, &log, rule);
    }
}

fn check_interrupt_rule(folder: &Path, log: &str, rule: &str) {
    let pack = "nt-resource-kit";
    let without = run_why(log, pack, &[]);
    assert!(find_finding(&without, rule).is_none());
    assert!(without["missing"].to_string().contains("interrupts.clock_per_s"), "{without:#}");
    let machine = write_file(folder, "machine.toml", "[machine]\nclock = 100\nnetwork_interrupts = 0\n");
    for options in [&["--clock", "100", "--network-interrupts", "0"][..], &["--topology", &machine]] {
        let verdict = run_why(log, pack, options);
        // W21: 326.5 of 426.5, 76.55 % of 91.5 %: "about 70 %"
        let found = find_finding(&verdict, rule).unwrap_or_else(|| panic!("{verdict:#}"));
        let value = found["value"].as_f64().expect("a value");
        assert!((value - 326.5 / 426.5 * 0.915).abs() < 1e-9, "{found:#}");
        assert_eq!(verdict["bottleneck"], "interrupts");
    }
    // on the other side of the limit: network interrupts are the rest
    let verdict = run_why(log, pack, &["--clock", "100", "--network-interrupts", "200"]);
    assert!(find_finding(&verdict, rule).is_none(), "{verdict:#}");
}

/// The reports of the NT Resource Kit that count all interrupts together: W21 (a test of maximum throughput without a
/// network) and W22 (records of 64 KB beside 300 interrupts of the network).
#[test]
fn every_pack_sees_what_the_interrupts_of_the_disk_cost() {
    let folder = folder("nt-disk-interrupts");
    let busy = [(r"System\% Total Interrupt Time", 91.5), (r"System\% Total Processor Time", 98.3)];
    let total = r"System\Total Interrupts/sec";
    let log = write_file(&folder, "w21.csv", &perfmon_text(&[&[(total, 426.5)], &busy[..]].concat()));
    let options = ["--clock", "100", "--network-interrupts", "0"];
    let expected = [("default", "interrupts.disk-share"), ("nt-resource-kit", "interrupts.disk-takes-processor")];
    for (pack, rule) in expected {
        let verdict = run_why(&log, pack, &options);
        assert_eq!(verdict["bottleneck"], "interrupts", "{pack}");
        assert_eq!(verdict["findings"][0]["rule"], rule, "{pack}: {verdict:#}");
        let value = verdict["findings"][0]["value"].as_f64().expect("a value");
        assert!((value - 0.7004).abs() < 1e-4, "{pack}: {value}");
    }
    // nobody says what the clock and the network cause
    assert!(find_finding(&run_why(&log, "default", &[]), "interrupts.disk-share").is_none());

    let disk = [
        (r"PhysicalDisk(0 C:)\Disk Bytes/sec", 1_529_675.0),
        (r"PhysicalDisk(0 C:)\Avg. Disk Bytes/Transfer", 65_536.0),
    ];
    let log = write_file(&folder, "w22.csv", &perfmon_text(&[&[(total, 3651.5)], &busy[..], &disk[..]].concat()));
    for pack in ["default", "nt-resource-kit"] {
        let verdict = run_why(&log, pack, &["--clock", "100", "--network-interrupts", "300"]);
        let found = find_finding(&verdict, "interrupts.one-a-sector").unwrap_or_else(|| panic!("{pack}: {verdict:#}"));
        let value = found["value"].as_f64().expect("a value");
        assert!((value - 470.45).abs() < 0.01, "{pack}: {value}");
    }
}

/// What an author says of a disk holds for each disk of a declared array.
#[test]
fn limits_of_a_disk_are_for_each_disk_of_a_declared_array() {
    let folder = folder("nt-declared");
    let counters = [
        (r"PhysicalDisk(0)\Current Disk Queue Length", 12.0),
        (r"PhysicalDisk(0)\% Disk Time", 100.0),
        (r"PhysicalDisk(0)\Disk Reads/sec", 600.0),
        (r"PhysicalDisk(0)\Avg. Disk Bytes/Read", 8192.0),
        (r"Memory\Available Bytes", 64e6),
        (r"Memory\Pages/sec", 0.0),
    ];
    let log = write_file(&folder, "nt.csv", &perfmon_text(&counters));
    for (pack, rule) in [("sas-1998", "disk.congested"), ("sql7-1999", "disk.hundred-random-reads")] {
        for (array, holds) in [("0=raid5:3", true), ("0=raid5:10", false)] {
            let verdict = run_why(&log, pack, &["--array", array]);
            assert_eq!(find_finding(&verdict, rule).is_some(), holds, "{pack}, {array}: {verdict:#}");
        }
    }
}

#[test]
fn compares_committed_bytes_with_the_given_memory() {
    let folder = folder("nt-memory");
    let counters = [(r"Memory\Committed Bytes", 300e6), (r"Memory\Pages/sec", 12.0)];
    let log = write_file(&folder, "nt.csv", &perfmon_text(&counters));
    let (pack, rule) = ("sas-1998", "memory.committed-above-memory");
    assert!(find_finding(&run_why(&log, pack, &[]), rule).is_none());
    assert!(find_finding(&run_why(&log, pack, &["--memory", "256MB"]), rule).is_some());
    assert!(find_finding(&run_why(&log, pack, &["--memory", "512MB"]), rule).is_none());
    // every command that judges accepts the option
    let page = folder.join("page.html").display().to_string();
    let words = ["report", &log, "--pack", pack, "--memory", "256MB", "--processors", "2", "-o", &page];
    assert!(diskwright(&words).status.success());
    assert!(fs::read_to_string(&page).expect("a page").contains("committed"));
    let words = ["compare", &log, &log, "--memory", "256MB", "--clock", "100", "--json"];
    assert!(diskwright(&words).status.success());
    for (options, words) in [
        (["--memory", "0"], "--memory"),
        (["--memory", "much"], "--memory"),
        (["--clock", "1e12"], "--clock"),
        (["--processors", "0"], "--processors"),
    ] {
        let done = diskwright(&[&["why", &log][..], &options].concat());
        assert_eq!(done.status.code(), Some(2), "{options:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains(words), "{options:?}");
    }
}

/// SAS 1998: more than 0.3 s for a transfer are those of a controller that keeps retrying. The queue is short.
#[test]
fn a_disk_far_slower_than_any_working_one_is_blamed() {
    let folder = folder("nt-slow");
    let disk = |name: &str| format!(r"PhysicalDisk(0 C:)\{name}");
    let log_of = |rate: f64, seconds: f64, per_direction: bool| {
        let memory = [(r"Memory\Available Bytes", 64e6), (r"Memory\Page Reads/sec", 0.2)];
        let mut counters = memory.map(|(name, value)| (name.to_owned(), value)).to_vec();
        counters.extend([(disk("Avg. Disk Queue Length"), rate * seconds), (disk("% Disk Time"), 100.0)]);
        if per_direction {
            // programs that write: nothing shows whether they wait
            let values = [("Disk Reads/sec", 0.0), ("Disk Writes/sec", rate), ("Avg. Disk sec/Read", 0.0)];
            let sizes = [("Avg. Disk sec/Write", seconds), ("Avg. Disk Bytes/Transfer", 4096.0)];
            counters.extend(values.into_iter().chain(sizes).map(|(name, value)| (disk(name), value)));
        } else {
            counters.extend([(disk("Disk Transfers/sec"), rate), (disk("Avg. Disk sec/Transfer"), seconds)]);
        }
        let counters: Vec<(&str, f64)> = counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        write_file(&folder, "slow.csv", &perfmon_text(&counters))
    };
    for (rate, seconds, per_direction) in [(3.0, 0.6, false), (2.0, 0.35, false), (3.0, 0.6, true)] {
        let verdict = run_why(&log_of(rate, seconds, per_direction), "default", &[]);
        assert_eq!(verdict["bottleneck"], "disk", "{rate} {seconds}: {verdict:#}");
        let rule = verdict["findings"][0]["rule"].as_str().expect("a rule");
        assert!(rule.starts_with("disk.far-too-slow"), "{rule}");
        // what is broken is not bought anew before anybody looks
        assert_eq!(verdict["bottlenecks"][0]["advice"][0]["id"], "disk.check-errors", "{verdict:#}");
    }
    // one request at a time on a disk that works
    let verdict = run_why(&log_of(60.0, 0.012, false), "default", &[]);
    assert!(!verdict["findings"].to_string().contains("far-too-slow"), "{verdict:#}");
}

/// NT Magazine 1998 sizes arrays by transfers for each arm: near a hundred, a queue below two proves no more than that.
#[test]
fn arms_near_their_rate_are_a_suspicion() {
    let folder = folder("nt-arms");
    let log_of = |reads: f64, queue: f64| {
        let disk = [(r"PhysicalDisk(0)\Disk Reads/sec", reads), (r"PhysicalDisk(0)\Disk Writes/sec", 0.0)];
        let queue = [(r"PhysicalDisk(0)\Avg. Disk Queue Length", queue), (r"Memory\Available Bytes", 64e6)];
        write_file(&folder, "arms.csv", &perfmon_text(&[&disk[..], &queue].concat()))
    };
    let verdict = run_why(&log_of(1110.0, 16.0), "default", &["--array", "0=raid0:10"]);
    assert_eq!(verdict["bottleneck"], "disk", "{verdict:#}");
    let found = find_finding(&verdict, "disk.near-arm-rate").unwrap_or_else(|| panic!("{verdict:#}"));
    assert!((found["value"].as_f64().expect("a value") - 111.0).abs() < 1e-9, "{found:#}");
    assert!(verdict["confidence"].as_f64().expect("a number") <= 0.35, "{verdict:#}");
    // its repaired array: 61.5 for each arm
    let verdict = run_why(&log_of(615.0, 12.0), "default", &["--array", "0=raid0:10"]);
    assert!(find_finding(&verdict, "disk.near-arm-rate").is_none(), "{verdict:#}");
}

/// Requests that stream into a data warehouse: more than two in flight are no queue if many disks share them.
#[test]
fn what_rules_out_a_disk_names_the_disks_behind_it() {
    let folder = folder("nt-warehouse");
    let counters = [
        (r"PhysicalDisk(0)\Disk Reads/sec", 1800.0),
        (r"PhysicalDisk(0)\Disk Writes/sec", 0.0),
        (r"PhysicalDisk(0)\Avg. Disk Queue Length", 32.0),
        (r"PhysicalDisk(0)\Avg. Disk Bytes/Read", 65_536.0),
        (r"Memory\Available Bytes", 64e6),
        (r"Memory\Page Reads/sec", 0.1),
    ];
    let log = write_file(&folder, "warehouse.csv", &perfmon_text(&counters));
    let verdict = run_why(&log, "default", &["--array", "0=raid10:24"]);
    assert_eq!(verdict["bottleneck"], "none", "{verdict:#}");
    let because = |verdict: &Value| {
        let list = verdict["ruled_out"].as_array().expect("a list").clone();
        list.iter().find(|one| one["bottleneck"] == "disk").map(|one| one["because"].to_string())
    };
    let of_disk = because(&verdict).unwrap_or_else(|| panic!("{verdict:#}"));
    assert!(of_disk.contains("24 disks"), "{of_disk}");
    // 150 a second and nearly three in flight for each of twelve are more than an arm serves with ease
    let verdict = run_why(&log, "default", &["--array", "0=raid10:12"]);
    assert!(find_finding(&verdict, "disk.near-arm-rate").is_some(), "{verdict:#}");
}

/// Without Diskperf, all counters of disks are 0, and no rule can tell how much of the disks' work is paging.
#[test]
fn memory_is_suspected_without_counters_of_disks() {
    let folder = folder("nt-diskperf");
    let zeros = [
        (r"PhysicalDisk(0 C:)\Disk Transfers/sec", 0.0),
        (r"PhysicalDisk(0 C:)\Avg. Disk sec/Transfer", 0.0),
        (r"PhysicalDisk(0 C:)\Avg. Disk Queue Length", 0.0),
        (r"PhysicalDisk(0 C:)\% Disk Time", 0.0),
    ];
    let (available, pages) = ((r"Memory\Available Bytes", 5e6), (r"Memory\Pages/sec", 120.0));
    let (reads, writes) = ((r"Memory\Page Reads/sec", 60.0), (r"Memory\Page Writes/sec", 20.0));
    for counters in [&[available, pages, reads, writes][..], &[pages, reads, writes], &[available, pages], &[pages]] {
        for disks in [&zeros[..], &[]] {
            let log = write_file(&folder, "nt.csv", &perfmon_text(&[counters, disks].concat()));
            let verdict = run_why(&log, "default", &[]);
            assert_eq!(verdict["bottleneck"], "memory", "{counters:?}: {verdict:#}");
            assert!(verdict["confidence"].as_f64().expect("a number") <= 0.5, "{verdict:#}");
            let advice = verdict["bottlenecks"][0]["advice"].to_string();
            assert!(advice.contains("diskperf -y"), "{advice}");
        }
    }
    // memory is ample: programs read mapped files
    let ample = [(r"Memory\Available Bytes", 4e9), reads, pages];
    let log = write_file(&folder, "nt.csv", &perfmon_text(&[&ample[..], &zeros].concat()));
    assert_ne!(run_why(&log, "default", &[])["bottleneck"], "memory");
}

/// Two days in which a program grows by 42 MB a day, by each counter that shows it.
#[test]
fn the_program_that_leaks_is_named_with_the_date() {
    let folder = folder("nt-leak");
    let noise = |row: usize, column: usize| ((row * 7919 + column * 104_729) % 1000) as f64 / 1000.0;
    for counter in ["Private Bytes", "Working Set", "Page File Bytes", "Pool Nonpaged Bytes"] {
        let programs = ["sqlservr", "leaky", "explorer", "svchost", "svchost#1", "svchost#2", "services", "spoolss"];
        let columns: Vec<String> = programs.iter().map(|name| format!(r"Process({name})\{counter}")).collect();
        let names: Vec<&str> = [r"Memory\Available Bytes", r"Memory\Pages/sec"]
            .into_iter()
            .chain(columns.iter().map(String::as_str))
            .collect();
        let value = |row: usize, column: usize| {
            let days = row as f64 * 300.0 / 86_400.0;
            match column {
                0 => 130e6 - 43e6 * days + 2e5 * noise(row, 0),
                1 => 0.5,
                3 => 1e6 + 42e6 * days,
                other => 8e6 * (other as f64) + 1e4 * noise(row, other),
            }
        };
        let log = write_file(&folder, "leak.csv", &perfmon_rows(&names, 300, 576, value));
        let sizes: [(&[&str], &str); 2] =
            [(&[], "memory.available_bytes"), (&["--memory", "256MB"], "memory.available_fraction")];
        for (options, of_memory) in sizes {
            let verdict = run_why(&log, "default", options);
            let trends = verdict["trends"].as_array().expect("trends");
            let trend = trends.iter().find(|trend| trend["counter"] == of_memory && !trend["crosses"].is_null());
            let trend = trend.unwrap_or_else(|| panic!("{counter}, {options:?}: {trends:#?}"));
            assert_eq!(trend["growing"]["name"], "leaky", "{counter}, {options:?}: {trend:#}");
            let [from, to] = ["from_bytes", "to_bytes"].map(|end| trend["growing"][end].as_f64().expect("a number"));
            assert!(from < 2e6 && (80e6..90e6).contains(&to), "{counter}: {from} {to}");
            let screen = diskwright(&[&["why", &log][..], options].concat());
            let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
            let first_rows = screen.lines().take(24).collect::<Vec<_>>().join("\n");
            assert!(first_rows.contains("leaky grew from") && first_rows.contains("1998-03-0"), "{screen}");
            assert!(verdict["advice"].to_string().contains("Ask the maker of the program"), "{}", verdict["advice"]);
            assert_no_linux_words(&screen);
        }
    }
}

/// The disks' part of the processor time needs two counters, and what clock and network cause.
#[test]
fn what_one_counter_of_interrupts_leaves_open_is_said() {
    let folder = folder("nt-half-interrupts");
    let busy = (r"System\% Total Processor Time", 98.3);
    let (time, count) = ((r"System\% Total Interrupt Time", 91.5), (r"System\Total Interrupts/sec", 426.5));
    /// Counters of a log, options, and words that the answer has.
    type Case<'a> = (&'a [(&'a str, f64)], &'a [&'a str], Option<&'a str>);
    let known: [Case<'_>; 6] = [
        (&[time, busy], &[], Some(r"Record System\Total Interrupts/sec too")),
        (&[count, busy], &[], Some(r"Record System\% Total Interrupt Time too")),
        // the sum over processors
        (&[(r"Processor(0)\Interrupts/sec", 426.5), busy], &[], Some(r"Record System\% Total Interrupt Time too")),
        (&[time, count, busy], &[], Some("--clock 100 --network-interrupts 200")),
        (&[time, count, busy], &["--clock", "100", "--network-interrupts", "0"], None),
        (&[(r"System\% Total Interrupt Time", 2.0), busy], &[], None),
    ];
    for (counters, options, words) in known {
        let log = write_file(&folder, "nt.csv", &perfmon_text(counters));
        let limits = run_why(&log, "default", options)["certainty_limits"].to_string();
        let limits = limits.replace(r"\\", r"\");
        match words {
            Some(words) => assert!(limits.contains(words), "{counters:?}: {limits}"),
            None => assert!(!limits.contains("interrupt"), "{counters:?}: {limits}"),
        }
        let screen = diskwright(&[&["why", &log][..], options].concat());
        assert_no_linux_words(&String::from_utf8_lossy(&screen.stdout));
    }
    // W22 without the time in interrupts: a sector for each
    let disk = [
        (r"System\Total Interrupts/sec", 3651.5),
        (r"PhysicalDisk(0 C:)\Disk Bytes/sec", 1_529_675.0),
        (r"PhysicalDisk(0 C:)\Avg. Disk Bytes/Transfer", 65_536.0),
    ];
    let log = write_file(&folder, "w22.csv", &perfmon_text(&disk));
    let verdict = run_why(&log, "default", &["--clock", "100", "--network-interrupts", "300"]);
    assert!(find_finding(&verdict, "interrupts.one-a-sector-unseen").is_some(), "{verdict:#}");
}

/// SAS 1998: interrupts that rise without more activity point to failing hardware. When they rose is said.
#[test]
fn a_step_of_the_interrupts_is_a_change() {
    let folder = folder("nt-step");
    let names = [r"System\Total Interrupts/sec", r"Memory\Available Bytes", r"Memory\Page Reads/sec"];
    let noise = |row: usize| ((row * 7919) % 1000) as f64 / 100.0;
    let value = |row: usize, column: usize| match column {
        0 if row < 60 => 120.0 + noise(row),
        0 => 1250.0 + noise(row),
        1 => 64e6,
        _ => 0.1,
    };
    let log = write_file(&folder, "step.csv", &perfmon_rows(&names, 15, 120, value));
    let verdict = run_why(&log, "default", &[]);
    let changes = verdict["changes"].as_array().expect("changes");
    let change = changes.iter().find(|change| change["counter"] == "interrupts.total_per_s");
    let change = change.unwrap_or_else(|| panic!("{verdict:#}"));
    let [before, after] = ["before", "after"].map(|level| change[level].as_f64().expect("a number"));
    assert!((before - 125.0).abs() < 5.0 && (after - 1255.0).abs() < 5.0, "{change:#}");
    let screen = diskwright(&["why", &log]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("interrupts 125 → 1250") || screen.contains("interrupts 125/s"), "{screen}");
}

/// A pack with a limit that the published disk sets exceed, so that the answer shows their values.
const SET_PACK: &str = r#"
[pack]
id = "sets"
title = "Sets"
source = "NT Resource Kit"
explain = "Test."
[[rule]]
id = "disk.set"
title = "the queue of each disk of a set"
object = "physical_disk"
which = "set"
bottleneck = "disk"
severity = "warning"
all = [{ counter = "avg_queue_length", per = "spindle", above = 0.1 }]
evidence = ["avg_queue_length", "spindles"]
source = "NT Resource Kit, Monitoring Disk Sets"
explain = "Test."
advice = []
"#;

#[test]
fn divides_the_queue_of_a_disk_set_by_its_disks() {
    let folder = folder("nt-sets");
    let pack = write_file(&folder, "sets.toml", SET_PACK);
    // W18 and W19: the utilization of each disk, which equals its queue while it serves one request at a time
    for (name, queues, queue, share) in
        [("five", &[0.30, 0.33, 0.38, 0.0, 0.0][..], 1.01, 0.202), ("three", &[0.66, 0.70, 0.0], 1.36, 1.36 / 3.0)]
    {
        let names: Vec<String> =
            (0..queues.len()).map(|disk| format!(r"PhysicalDisk({disk})\Avg. Disk Queue Length")).collect();
        let counters: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(queues.iter().copied()).collect();
        let log = write_file(&folder, &format!("{name}.csv"), &perfmon_text(&counters));
        let disks: Vec<String> = (0..queues.len()).map(|disk| format!("\"{disk}\"")).collect();
        let set = format!("[[set]]\nname = \"stripe\"\nlevel = \"raid0\"\ndisks = [{}]\n", disks.join(", "));
        let topology = write_file(&folder, &format!("{name}.toml"), &set);
        let verdict = run_why(&log, &pack, &["--topology", &topology]);
        let found = find_finding(&verdict, "disk.set").unwrap_or_else(|| panic!("{verdict:#}"));
        assert_eq!(found["instance"], "stripe");
        let values: Vec<f64> =
            found["evidence"].as_array().unwrap().iter().chain([found]).filter_map(|e| e["value"].as_f64()).collect();
        for expected in [share, queue, queues.len() as f64] {
            assert!(values.iter().any(|value| (value - expected).abs() < 1e-9), "{expected}: {found:#}");
        }
        for (set, words) in [
            (set.replace("\"0\"", "\"9\""), "the log has no disk `9`"),
            (set.replace("\"0\"", "\"1\""), "named twice"),
            (set.replace("raid0", "raid9"), "unknown level `raid9`"),
        ] {
            let wrong = write_file(&folder, "wrong.toml", &set);
            let done = diskwright(&["why", &log, "--topology", &wrong]);
            assert_eq!(done.status.code(), Some(2));
            assert!(String::from_utf8_lossy(&done.stderr).contains(words), "{words}");
        }
    }
}

/// NT Magazine 1998 and the NT Resource Kit divide what is in flight by the disks of an array; a disk that is used for
/// less than 80 % of the time is no bottleneck.
#[test]
fn disks_with_little_in_flight_are_no_bottleneck() {
    let folder = folder("nt-light");
    let log = |name: &str, queue: f64, reads: f64| {
        let counters = [
            (r"PhysicalDisk(0)\Disk Reads/sec", reads),
            (r"PhysicalDisk(0)\Disk Writes/sec", 1.0),
            (r"PhysicalDisk(0)\Avg. Disk Queue Length", queue),
            (r"PhysicalDisk(0)\Avg. Disk sec/Transfer", 0.012),
            (r"PhysicalDisk(0)\Avg. Disk Bytes/Transfer", 8192.0),
            (r"Memory\Available Bytes", 64e6),
            (r"Memory\Page Reads/sec", 0.1),
            (r"Processor(_Total)\% Processor Time", 20.0),
        ];
        write_file(&folder, name, &perfmon_text(&counters))
    };
    let (light, single) = (log("light.csv", 1.32, 109.0), log("single.csv", 0.678, 55.5));
    for (log, declared) in [(&light, "*=raid5:5:rotational"), (&single, "*=single:rotational")] {
        let verdict = run_why(log, "default", &["--array", declared]);
        assert_eq!(verdict["bottleneck"], "none", "{declared}: {verdict:#}");
    }
    // one stream that always waits is told
    let waits = log("waits.csv", 0.97, 80.0);
    let verdict = run_why(&waits, "default", &["--array", "*=single:rotational"]);
    assert!(find_finding(&verdict, "disk.latency-bound-rotational").is_some(), "{verdict:#}");
}

/// 4,000 interrupts and two transfers a second: no disk causes them, and no sector.
#[test]
fn a_failing_part_is_not_called_programmed_io() {
    let folder = folder("nt-fault");
    let counters = [
        (r"System\Total Interrupts/sec", 4000.0),
        (r"PhysicalDisk(0 C:)\Disk Transfers/sec", 2.0),
        (r"PhysicalDisk(0 C:)\Disk Bytes/sec", 8192.0),
        (r"PhysicalDisk(0 C:)\Avg. Disk Bytes/Transfer", 4096.0),
        (r"System\% Total Processor Time", 60.0),
        (r"Memory\Page Reads/sec", 0.1),
    ];
    let log = write_file(&folder, "fault.csv", &perfmon_text(&counters));
    let options = ["--clock", "100", "--network-interrupts", "200"];
    for (pack, rule) in [("nt-resource-kit", "interrupts.beyond-the-disk"), ("default", "interrupts.beyond-the-disks")]
    {
        let verdict = run_why(&log, pack, &options);
        assert!(find_finding(&verdict, rule).is_some(), "{pack}: {verdict:#}");
        for wrong in ["interrupts.one-a-sector", "interrupts.one-a-sector-unseen"] {
            assert!(find_finding(&verdict, wrong).is_none(), "{pack}: {verdict:#}");
        }
        let screen = diskwright(&[&["why", &log, "--pack", pack][..], &options].concat());
        let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
        assert!(screen.contains("may fail") && !screen.contains("bus-master"), "{screen}");
    }
}
