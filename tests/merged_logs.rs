//! Logs of several tools of one machine: those of the same minutes are merged, those of other minutes are appended, and
//! those of another machine are refused.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::common::{diskwright, folder, stderr, success};

use serde_json::Value;

const LOG_MINUTES: u32 = 5;

fn write_file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("plain").to_owned()
}

/// Clock time of a second after 10:00:00.
fn clock_time(second: u32) -> String {
    format!("{:02}:{:02}:{:02}", 10 + second / 3600, second / 60 % 60, second % 60)
}

/// First line of the text of sysstat's tools.
fn sysstat_header(host: &str) -> String {
    format!("Linux 6.1.0-18-amd64 ({host}) \t11/21/2026 \t_x86_64_\t(2 CPU)\n")
}

/// Text of iostat with a report every 5 s: a disk with 140 to 160 writes/s and 9 requests in flight.
fn iostat_text(host: &str, from: u32) -> String {
    let mut text = sysstat_header(host);
    for tick in 0..=LOG_MINUTES * 12 {
        let writes = 140 + tick % 3 * 10;
        write!(
            text,
            "\n11/21/2026 {} AM\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          \
             12.00    0.00    3.50   40.00    0.00   44.50\n\n\
             Device            r/s     w/s    rkB/s    wkB/s r_await w_await aqu-sz  %util\n\
             sda              50.00  {writes}.00   400.00  1200.00   45.00   45.00   9.00 100.00\n",
            clock_time(from + tick * 5)
        )
        .expect("written");
    }
    text
}

/// Text of iostat of the same disk that begins with the third minute.
fn second_half_iostat_text() -> String {
    iostat_text("db1", 120)
}

/// Text of vmstat with a row every 5 s, begun a second after iostat.
fn vmstat_text() -> String {
    vmstat_text_from(1)
}

fn vmstat_text_from(from: u32) -> String {
    let mut text = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n",
    );
    for tick in 0..=LOG_MINUTES * 12 {
        let blocked = 8 + tick % 3;
        let when = clock_time(from + tick * 5);
        writeln!(
            text,
            " 2  {blocked}      0 800000  50000 400000    0    0   400  1200  700  900 13  3 45 39  0 2026-11-21 {when}"
        )
        .expect("written");
    }
    text
}

/// Text of sar with a row every minute, with the same disk.
fn sar_text(host: &str) -> String {
    let mut text = sysstat_header(host);
    let tables = [
        ("     DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util", ""),
        ("  pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff", "paging"),
    ];
    for (title, kind) in tables {
        writeln!(text, "\n{}{title}", clock_time(0)).expect("written");
        for minute in 1..=LOG_MINUTES {
            let faults = 50 + minute * 10;
            let row = match kind {
                "" => "       sda    201.00    400.00   1200.00      8.00      9.00     45.00    100.00".to_owned(),
                _ => format!("    400.00   1200.00    {faults}.00      3.00    100.00   0.00   0.00   0.00   0.00"),
            };
            writeln!(text, "{}{row}", clock_time(minute * 60)).expect("written");
        }
    }
    text
}

/// Mean of a counter as `show` gives it, over four of the five minutes; `from` must be the end of a tick of every log.
fn shown_mean(logs: &[&str], counter: &str, from: &str) -> f64 {
    let words = ["--json", "--from", from, "--counter", counter];
    let shown = success(&diskwright(&[&["show"], logs, &words].concat()));
    let series = shown["series"].as_array().expect("series");
    assert_eq!(series.len(), 1, "{counter}: {shown:#}");
    series[0]["mean"].as_f64().unwrap_or_else(|| panic!("{counter} has no mean: {shown:#}"))
}

#[test]
fn merges_logs_of_three_tools_of_the_same_minutes() {
    let folder = folder("several-same");
    let iostat = write_file(&folder, "iostat.txt", &iostat_text("db1", 0));
    let vmstat = write_file(&folder, "vmstat.txt", &vmstat_text());
    let sar = write_file(&folder, "sar.txt", &sar_text("db1.example.com"));
    let all = [iostat.as_str(), vmstat.as_str(), sar.as_str()];
    let made = folder.join("made").display().to_string();
    let imported = diskwright(&[&["import"], &all[..], &["--to", &made, "--json"]].concat());
    let (message, answer) = (stderr(&imported), success(&imported));
    // ticks that coincide in the merged log count once
    let kept = success(&diskwright(&["why", &made, "--json"]));
    assert_eq!(answer["ticks"], kept["window"]["ticks"], "{answer}");
    let read: u64 = answer["files"].as_array().expect("files").iter().filter_map(|file| file["ticks"].as_u64()).sum();
    assert!(read > answer["ticks"].as_u64().expect("ticks"), "{answer}");
    let single = [
        ("physical_disk.writes_per_s", &iostat),
        ("processor.iowait", &iostat),
        ("system.blocked", &vmstat),
        ("memory.free_bytes", &vmstat),
        ("paging.faults_per_s", &sar),
    ];
    for logs in [&all[..], &[all[2], all[0], all[1]], &[made.as_str()]] {
        let verdict = diskwright(&[&["why"], logs, &["--json"]].concat());
        let message = stderr(&verdict);
        let verdict = success(&verdict);
        assert_eq!((&verdict["host"], &verdict["bottleneck"]), (&"db1".into(), &"disk".into()), "{verdict:#}");
        // overlapping logs do not lengthen the window
        let seconds = verdict["window"]["seconds"].as_f64().expect("a length");
        assert!((seconds - f64::from(LOG_MINUTES) * 60.0).abs() < 6.0, "{seconds}");
        if logs.len() > 1 {
            assert!(message.contains("are merged as one log") && message.contains("taken from"), "{message}");
        }
        for (counter, alone) in single {
            // vmstat began a second later; in the merged log its ticks are moved to those of iostat
            let own = if *alone == vmstat { "2026-11-21T10:01:01Z" } else { "2026-11-21T10:01:00Z" };
            let (expected, found) =
                (shown_mean(&[alone], counter, own), shown_mean(logs, counter, "2026-11-21T10:01:00Z"));
            assert!((found / expected - 1.0).abs() < 1e-6, "{counter}: {found} joined, {expected} alone");
        }
    }
    // a later import is not merged with the existing log, and a warning says so
    let more = write_file(&folder, "more.txt", &second_half_iostat_text());
    let later = diskwright(&["import", &more, "--to", &made]);
    assert!(later.status.success());
    for words in ["more.txt overlaps with it", "judged twice", "together"] {
        assert!(stderr(&later).contains(words), "{}", stderr(&later));
    }
    assert!(message.contains("processor.iowait"), "{message}");
}

#[test]
fn appends_logs_of_other_minutes() {
    let folder = folder("several-later");
    let first = write_file(&folder, "first.txt", &iostat_text("db1", 0));
    let later = write_file(&folder, "later.txt", &iostat_text("db1", 3000));
    let alone = success(&diskwright(&["why", &first, "--json"]));
    let done = diskwright(&["why", &later, &first, "--json"]);
    assert!(!stderr(&done).contains("overlap"), "{}", stderr(&done));
    let both = success(&done);
    let ticks = |verdict: &Value| verdict["window"]["ticks"].as_u64().expect("ticks");
    assert_eq!(ticks(&both), 2 * ticks(&alone));
}

/// The second part of a log is not lost where the log of another tool overlaps both parts.
#[test]
fn counts_each_part_of_a_split_log() {
    let folder = folder("several-parts");
    let first = write_file(&folder, "hour-1.txt", &iostat_text("db1", 0));
    let second = write_file(&folder, "hour-2.txt", &iostat_text("db1", 310).replace("9.00 100.00", "4.00  90.00"));
    let vmstat = write_file(&folder, "vmstat.txt", &vmstat_text_from(150));
    let all = [first.as_str(), second.as_str(), vmstat.as_str()];
    let queue = "physical_disk.avg_queue_length";
    for (log, from, to) in [(&first, "10:01:00", "10:04:00"), (&second, "10:06:10", "10:09:10")] {
        let mean = |logs: &[&str]| {
            let words = ["--json", "--from", from, "--to", to, "--counter", queue];
            let shown = success(&diskwright(&[&["show"], logs, &words].concat()));
            shown["series"][0]["mean"].as_f64().unwrap_or_else(|| panic!("no mean from {from}: {shown:#}"))
        };
        let (alone, joined) = (mean(&[log.as_str()]), mean(&all));
        assert!((joined / alone - 1.0).abs() < 1e-6, "from {from}: {joined} joined, {alone} alone");
    }
}

#[test]
fn refuses_logs_of_two_machines() {
    let folder = folder("several-hosts");
    let one = write_file(&folder, "one.txt", &iostat_text("db1", 0));
    let to = folder.join("to").display().to_string();
    for (name, from) in [("same-time", 0), ("later", 3000)] {
        let other = write_file(&folder, name, &iostat_text("web1", from));
        for words in [&["why"][..], &["show"], &["export", "--as", "csv"], &["import", "--to", &to]] {
            let done = diskwright(&[words, &[one.as_str(), other.as_str()]].concat());
            assert_eq!(done.status.code(), Some(1), "{words:?}");
            for part in ["one.txt is a log of db1", &format!("{name} is of web1"), "one machine"] {
                assert!(stderr(&done).contains(part), "{words:?}: {}", stderr(&done));
            }
        }
    }
    assert!(!Path::new(&to).exists(), "nothing is written");
}

/// Text of iostat without the lines that have the times.
fn strip_times(text: &str) -> String {
    text.lines().filter(|line| !line.ends_with(" AM")).map(|line| format!("{line}\n")).collect()
}

/// Recordings without times that are given together are of the same minutes; two of one tool follow each other, because
/// merged they would give a load that never existed.
#[test]
fn logs_without_times_are_laid_beside_the_others() {
    let folder = folder("several-untimed");
    let one = write_file(&folder, "one.txt", &strip_times(&iostat_text("db1", 0)));
    let other = write_file(&folder, "other.txt", &strip_times(&second_half_iostat_text()));
    let dated = write_file(&folder, "dated.txt", &vmstat_text());
    let ticks = |logs: &[&String]| {
        let logs: Vec<&str> = logs.iter().map(|log| log.as_str()).collect();
        let done = diskwright(&[&["why", "--interval", "5s", "--json"], &logs[..]].concat());
        let answer = success(&done);
        (answer["window"].clone(), stderr(&done))
    };
    let count = |window: &Value| window["ticks"].as_u64().expect("ticks");
    let ((first, _), (second, _)) = (ticks(&[&one]), ticks(&[&other]));
    let (both, message) = ticks(&[&one, &other]);
    assert_eq!(count(&both), count(&first) + count(&second));
    assert!(message.contains("other.txt: without dates and of a tool that came before"), "{message}");
    let ((beside, message), (alone, _)) = (ticks(&[&one, &dated]), ticks(&[&dated]));
    assert!(message.contains("one.txt: without dates, so laid beside"), "{message}");
    assert!(beside["from"].as_str() <= alone["to"].as_str() && beside["from"].as_str() > Some("2026"), "{beside}");
    assert!(count(&beside) >= count(&alone) && count(&beside) <= count(&alone) + 2, "{beside} {alone}");
}

/// Times without a date count from 1970; beside dated logs they are of their day, not half a century before.
#[test]
fn undated_logs_are_of_the_day_of_dated_ones() {
    let folder = folder("several-undated");
    let clock_only = ["10:00:00\n", "10:00:05\n", "10:00:10\n"].map(|clock| clock.to_owned() + LOADAVG_LINE).concat();
    let undated = write_file(&folder, "loop.txt", &clock_only);
    let dated = write_file(&folder, "iostat.txt", &iostat_text("db1", 0));
    let done = diskwright(&["why", &undated, &dated, "--json"]);
    assert!(success(&done)["window"]["from"].as_str() > Some("2026-11-21T09"), "{}", stderr(&done));
    assert!(stderr(&done).contains("loop.txt: without dates"), "{}", stderr(&done));
    let to = folder.join("to").display().to_string();
    assert!(diskwright(&["import", &dated, "--to", &to]).status.success());
    let done = diskwright(&["import", &undated, "--to", &to]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("import them into two folders"), "{}", stderr(&done));
}

const LOADAVG_LINE: &str = "0.52 0.58 0.59 1/389 12345\n";

/// Local times without a zone beside times in UTC would count the same minutes twice.
#[test]
fn local_times_use_the_zone_of_the_machine_or_need_utc_offset() {
    let folder = folder("several-zones");
    let iostat = write_file(&folder, "iostat.txt", &iostat_text("db1", 0));
    let vmstat =
        write_file(&folder, "vmstat.txt", &vmstat_text().replace("                 UTC", "                CEST"));
    let shown = success(&diskwright(&["show", &iostat, &vmstat, "--json", "--counter", "physical_disk.writes_per_s"]));
    assert_eq!(shown["window"]["from"], "2026-11-21T08:00:05.000Z", "{shown:#}");
    let utc = "0 2026-11-21T10:00:05Z\n0 2026-11-21T10:00:10Z\n";
    let csv = format!(
        "time,busy\n{}",
        utc.lines().map(|line| format!("{},50\n", line.trim_start_matches("0 "))).collect::<String>()
    );
    let csv = write_file(&folder, "busy.csv", &csv);
    let column = ["--column", "busy=processor.iowait:_total:%"];
    let done = diskwright(&[&["show", &iostat, &csv], &column[..]].concat());
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    for part in ["iostat.txt names no time zone", "--utc-offset"] {
        assert!(stderr(&done).contains(part), "{}", stderr(&done));
    }
    let done = diskwright(&[&["show", &iostat, &csv, "--utc-offset", "0"], &column[..]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
}
