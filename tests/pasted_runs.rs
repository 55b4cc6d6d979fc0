//! Texts with several machines or runs: each is judged by itself, the sick one is the answer, and the others are told.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::common::{diskwright, folder, stderr, success, text};

const HEADINGS: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- ----cpu----\n \
                        r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n";

/// A run of vmstat; sick ones wait for disks.
fn vmstat_run(is_sick: bool) -> String {
    let mut run = format!("{HEADINGS} 0  0      0 712000  20000 300000    0    0     9    14   40   60  2  1 97  0\n");
    for row in 0..7 {
        let (free, out) = (60_000 + row * 7, 700 + row);
        let line = match is_sick {
            true => format!(" 1 11      0 {free}  20000 300000    0    0   210  {out}  800  900  3  4 11 82\n"),
            false => format!(" 0  0      0 {free}  20000 300000    0    0     2    {row}  300  410  3  1 96  0\n"),
        };
        run.push_str(&line);
    }
    run
}

/// A run of iostat -x with its banner, whose first report is since boot.
fn iostat_run(is_sick: bool, host: &str) -> String {
    let mut run = format!("Linux 5.9.1 ({host}) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n");
    for report in 0..6 {
        let (waits, row) = match is_sick && report > 0 {
            true => (
                79,
                format!(
                    "sdq     2.00  {}.00  16.00  660.00   0.00   12.00   31.00   95.00   8.50  11.00 100.00",
                    80 + report
                ),
            ),
            false => (
                0,
                format!(
                    "sdq     1.00   {report}.00   8.00   40.00   0.00    2.00    0.40    0.50   0.01   0.40   0.90"
                ),
            ),
        };
        writeln!(
            run,
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
             3.00    0.00    4.00   {waits}.00    0.00   {}.00\n\n\
             Device   r/s   w/s   rkB/s   wkB/s   rrqm/s   wrqm/s r_await w_await aqu-sz  svctm  %util\n{row}\n",
            93 - waits
        )
        .expect("written");
    }
    run
}

/// The answer of `why` on a text, and what it prints on standard error.
fn judge(name: &str, paste: &str) -> (Value, String) {
    let path = folder(&format!("pasted-runs-{name}")).join("paste.txt");
    fs::write(&path, paste).expect("written");
    let done = diskwright(&["why", text(&path), "--json"]);
    (success(&done), stderr(&done))
}

/// The runs of an answer, as `host/name: bottleneck`.
fn runs_of(answer: &Value) -> Vec<String> {
    let runs = answer["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let part = |run: &Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
    runs.iter().map(|run| format!("{}/{}: {}", part(run, "host"), part(run, "run"), part(run, "bottleneck"))).collect()
}

#[test]
fn a_second_run_without_a_prompt_is_read() {
    for (name, paste) in [
        ("iostat", iostat_run(false, "db1") + &iostat_run(true, "db1")),
        ("iostat-sick-first", iostat_run(true, "db1") + &iostat_run(false, "db1")),
        ("vmstat", vmstat_run(false) + &vmstat_run(true)),
        ("three", iostat_run(false, "db1").repeat(2) + &iostat_run(true, "db1")),
    ] {
        let (answer, warnings) = judge(name, &paste);
        assert_eq!(answer["bottleneck"], "disk", "{name}: {answer:#}");
        let limits = answer["certainty_limits"].to_string();
        let is_told = limits.contains("would hide it") || limits.contains("runs, read as one stretch");
        assert!(is_told, "{name}: {limits}");
        assert!(warnings.contains("one run after the other") && !warnings.contains("same minutes"), "{warnings}");
    }
}

#[test]
fn two_machines_are_judged_one_by_one() {
    let prompts = |host: &str, command: &str, output: &str| format!("root@{host}:~# {command}\n{output}");
    let (quiet, sick) = (prompts("web7", "vmstat 1 7", &vmstat_run(false)), iostat_run(true, "db8"));
    let sick = prompts("db8", "iostat -x 1 6", &sick);
    for (name, paste) in [
        ("sick-last", quiet.clone() + &sick),
        ("sick-first", sick.clone() + &quiet),
        ("windows", (quiet.clone() + &sick).replace('\n', "\r\n")),
        ("quoted", (quiet.clone() + &sick).lines().map(|line| format!("> {line}\n")).collect()),
        ("banners", iostat_run(false, "web7") + &iostat_run(true, "db8")),
    ] {
        let (answer, warnings) = judge(name, &paste);
        assert_eq!((&answer["bottleneck"], &answer["host"]), (&"disk".into(), &"db8".into()), "{name}: {answer:#}");
        let mut runs = runs_of(&answer);
        runs.sort();
        assert_eq!(runs, ["db8/: disk", "web7/: none"], "{name}");
        let limits = answer["certainty_limits"].to_string();
        assert!(limits.contains("answer on db8") && limits.contains("web7"), "{name}: {limits}");
        assert!(!warnings.contains("same minutes") && !warnings.contains("merged"), "{name}: {warnings}");
    }
    let (answer, _) = judge("wanted", &(quiet + &sick));
    assert_eq!(answer["host"], "db8");
}

#[test]
fn another_name_in_the_prompt_is_no_other_machine() {
    let paste = format!(
        "[root@prod ~]# vmstat 1 7\n{}[root@prod ~]# iostat -x 1 6\n{}",
        vmstat_run(true),
        iostat_run(true, "ip-10-0-0-9")
    );
    let (answer, _) = judge("alias", &paste);
    assert_eq!((&answer["bottleneck"], &answer["instance"]), (&"disk".into(), &"sdq".into()), "{answer:#}");
    assert!(runs_of(&answer).is_empty(), "{answer:#}");
}

#[test]
fn before_and_after_are_two_windows() {
    for (name, [first, second], wanted) in [
        ("sick-after", ["before:", "after change"], ["before: none", "after change: disk"]),
        ("cache", ["# with cache on", "# with cache off"], ["with cache on: none", "with cache off: disk"]),
        ("numbered", ["=== run 1 ===", "=== run 2 ==="], ["run 1: none", "run 2: disk"]),
    ] {
        let paste = format!("{first}\n{}{second}\n{}", vmstat_run(false), vmstat_run(true));
        let (answer, _) = judge(name, &paste);
        assert_eq!(answer["bottleneck"], "disk", "{name}: {answer:#}");
        assert_eq!(runs_of(&answer), wanted.map(|run| format!("/{run}")), "{name}");
        assert_eq!(answer["window"]["ticks"], 7, "{name}: the runs are not merged");
    }
    // only the earlier is sick, with two tools each
    let paste = format!(
        "before\n{}{}after\n{}{}",
        vmstat_run(true),
        iostat_run(true, "db1"),
        vmstat_run(false),
        iostat_run(false, "db1")
    );
    let (answer, _) = judge("sick-before", &paste);
    assert_eq!(runs_of(&answer), ["db1/before: disk", "db1/after: none"]);
    let limits = answer["certainty_limits"].to_string();
    assert!(limits.contains("before") && limits.contains("no bottleneck"), "{limits}");
    assert_in_past(&answer, "after");
}

/// The answer says that the bottleneck has gone, and advises nothing against it.
fn assert_in_past(answer: &Value, later: &str) {
    let sentence = answer["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("No bottleneck any more in ") && sentence.contains(later), "{sentence}");
    assert_eq!((&answer["bottleneck"], &answer["advice"]), (&"disk".into(), &Value::Array(Vec::new())), "{answer:#}");
}

#[test]
fn a_run_that_recovered_is_told_in_the_past() {
    let kernel = "[12345.678901] blk_update_request: I/O error, dev sdq, sector 12 op 0x1:(WRITE)\n";
    for (name, paste) in [
        ("unnamed", vmstat_run(true) + &vmstat_run(false)),
        ("languages", format!("vorher:\n{}nachher:\n{}", vmstat_run(true), vmstat_run(false))),
        ("kernels", format!("old kernel:\n{}new kernel:\n{}", vmstat_run(true), vmstat_run(false))),
        // the later run stands first
        ("reversed", format!("after:\n{}before:\n{}", vmstat_run(false), vmstat_run(true))),
    ] {
        let (answer, _) = judge(&format!("past-{name}"), &paste);
        assert_in_past(&answer, "");
    }
    // what the kernel said in the later run is of that run
    let paste = format!("before:\n{}after:\n{kernel}{}", vmstat_run(false), vmstat_run(false));
    let (answer, _) = judge("past-kernel", &paste);
    assert_eq!(runs_of(&answer)[0], "/before: none", "{answer:#}");
}

#[test]
fn machines_by_labels_are_judged_one_by_one() {
    let paste = format!("server A:\n{}server B:\n{}", vmstat_run(true), vmstat_run(false));
    let (answer, _) = judge("labels", &paste);
    assert_eq!(runs_of(&answer), ["server A/: disk", "server B/: none"]);
    assert_eq!(answer["host"], "server A", "{answer:#}");
    assert!(answer["sentence"].as_str().is_some_and(|text| !text.contains("any more")), "{answer:#}");
}

#[test]
fn a_message_with_an_address_is_of_the_machine_beside_it() {
    let hung = "Nov 21 10:00:05 10.0.0.9 kernel: INFO: task worker:373 blocked for more than 120 seconds.\n";
    let (answer, _) = judge("address", &format!("root@db1:~# vmstat 1 7\n{}{hung}", vmstat_run(true)));
    assert!(runs_of(&answer).is_empty() && answer["bottleneck"] == "disk", "{answer:#}");
}

#[test]
fn output_below_a_table_is_read() {
    let pool = "  pool: tank\n state: DEGRADED\n  scan: resilver in progress since Sat Nov 21 09:00:00 2026\n\
                \t10G scanned resilvered, 1.71M/s, 900h to go\nconfig:\n\n\tNAME  STATE  READ WRITE CKSUM\n\
                \ttank  DEGRADED  0 0 0\n\t  sdr  FAULTED  12 0 3\n\nerrors: No known data errors\n";
    let array =
        "Personalities : [raid1]\nmd3 : active raid1 sdb1[2] sda1[0]\n      9766304 blocks super 1.2 [2/1] [U_]\n";
    let hung = "[12345.678901] INFO: task worker:373 blocked for more than 120 seconds.\n";
    let disk = "[12345.678901] blk_update_request: I/O error, dev sdq, sector 12 op 0x1:(WRITE)\n";
    let pressure = "/proc/pressure/io:some avg10=71.00 avg60=60.00 avg300=40.00 total=8123\n";
    for (table, rows) in [("vmstat", vmstat_run(false)), ("iostat", iostat_run(false, "db1"))] {
        for (name, below, part) in [
            ("pool", pool, "zpool status"),
            ("array", array, "mdstat|/proc"),
            ("hung", hung, "messages of the kernel"),
            ("errors", disk, "messages of the kernel"),
            ("pressure", pressure, "pressure"),
        ] {
            for (order, paste) in [("below", format!("{rows}{below}")), ("above", format!("{below}{rows}"))] {
                let (answer, warnings) = judge(&format!("{table}-{name}-{order}"), &paste);
                let is_named = part.split('|').any(|part| warnings.contains(&format!("({part})")));
                assert!(is_named, "{table} {name} {order}: {warnings}\n{answer:#}");
            }
        }
    }
}

#[test]
fn a_message_of_the_kernel_does_not_replace_what_vmstat_counts() {
    let hung = "[12345.678901] INFO: task worker:373 blocked for more than 120 seconds.\n";
    for (name, paste) in [("below", vmstat_run(true) + hung), ("above", format!("{hung}{}", vmstat_run(true)))] {
        let path = folder(&format!("pasted-runs-hung-{name}")).join("paste.txt");
        fs::write(&path, paste).expect("written");
        let done = diskwright(&["show", text(&path), "--counter", "system.blocked", "--as", "csv"]);
        let shown = String::from_utf8_lossy(&done.stdout).into_owned();
        let last: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.rsplit(',').next()).collect();
        assert!(last.len() == 7 && last.iter().all(|cell| *cell == "11"), "{name}: {shown}\n{}", stderr(&done));
    }
}

#[test]
fn a_clock_of_an_impossible_year_is_told_and_not_used() {
    for year in ["0001", "1969", "2263", "9999", "292277026596"] {
        let report = |second: u32| {
            let rows = iostat_run(true, "db1");
            let report: String = rows.lines().skip(9).take(7).map(|line| format!("{line}\n")).collect();
            format!("{year}-11-21 10:00:{second:02}\n{report}")
        };
        let (answer, warnings) = judge(&format!("year-{year}"), &(1..6).map(report).collect::<String>());
        assert_eq!(answer["bottleneck"], "disk", "{year}: {answer:#}");
        assert!(warnings.contains("a clock that cannot be used"), "{year}: {warnings}");
        assert!(answer["window"]["ticks"].as_u64().is_some_and(|ticks| ticks > 1), "{year}: {answer:#}");
    }
}

#[test]
fn a_list_beside_a_table_holds_for_all_of_its_rows() {
    let path = folder("pasted-runs-stretch").join("paste.txt");
    let pressure = "/proc/pressure/io:some avg10=71.00 avg60=60.00 avg300=40.00 total=8123\n";
    fs::write(&path, vmstat_run(true) + pressure).expect("written");
    let done = diskwright(&["show", text(&path), "--counter", "pressure.io_some", "--as", "csv"]);
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(shown.matches("0.71").count(), 7, "{shown}\n{}", stderr(&done));
}

#[test]
fn output_behind_a_megabyte_of_prompts_is_read() {
    let prompts: String =
        (0..30_000).map(|index| format!("root@db1:/var/lib/somewhere/{index}# ls -l something\n")).collect();
    let (answer, _) = judge("prompts", &(prompts + &vmstat_run(true)));
    assert_eq!(answer["bottleneck"], "disk", "{answer:#}");
}
