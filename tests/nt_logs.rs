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
    let mut text = String::from("\"(PDH-CSV 4.0) (UTC)(0)\"");
    counters.iter().for_each(|(name, _)| write!(text, ",\"\\\\NT1\\{name}\"").expect("written"));
    for tick in 0..40 {
        write!(text, "\r\n\"03/02/1998 10:{:02}:{:02}.000\"", tick / 4, tick % 4 * 15).expect("written");
        counters.iter().for_each(|(_, value)| write!(text, ",\"{value}\"").expect("written"));
    }
    text + "\r\n"
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
