//! Logs of very many columns and very long names: time grows with their size, not with its square.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{diskwright, folder, stderr, text};

/// Counters of each disk in a wide log, and what they show: every disk is full, so that rules on disks have findings.
const COUNTERS: [(&str, &str); 5] = [
    ("Avg. Disk Queue Length", "9"),
    ("Disk Reads/sec", "90"),
    ("Disk Writes/sec", "40"),
    ("Avg. Disk sec/Read", "0.09"),
    ("% Idle Time", "1"),
];

/// Writes a log of three rows as typeperf does.
fn write_log(path: &Path, disks: usize, disk_name: impl Fn(usize) -> String) {
    let mut log = "\"(PDH-CSV 4.0) (UTC)(0)\"".to_owned();
    for disk in (0..disks).map(disk_name) {
        for (counter, _) in COUNTERS {
            write!(log, ",\"\\\\HOST\\PhysicalDisk({disk})\\{counter}\"").expect("text");
        }
    }
    for second in 1..4 {
        write!(log, "\r\n\"05/06/2010 06:12:0{second}.000\"").expect("text");
        (0..disks).for_each(|_| COUNTERS.iter().for_each(|(_, value)| write!(log, ",\"{value}\"").expect("text")));
    }
    fs::write(path, log + "\r\n").expect("written");
}

/// Shorter time of two runs that succeed.
fn time_command(arguments: &[&str]) -> Duration {
    let run = |_| {
        let begin = Instant::now();
        let output = diskwright(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        begin.elapsed()
    };
    (0..2).map(run).min().unwrap_or_default()
}

#[test]
fn time_grows_with_the_columns_and_not_with_their_square() {
    const DISKS: usize = 200;
    const TIMES: usize = 8;
    let folder = folder("wide_logs");
    let (narrow, wide) = (folder.join("narrow.csv"), folder.join("wide.csv"));
    write_log(&narrow, DISKS, |disk| disk.to_string());
    write_log(&wide, TIMES * DISKS, |disk| disk.to_string());
    for before in [&["why"][..], &["report", "-o", "/dev/null"], &["watch", "--once"]] {
        let run = |path: &Path| time_command(&before.iter().copied().chain([text(path)]).collect::<Vec<_>>());
        let (short, long) = (run(&narrow), run(&wide));
        // 8 would be linear, 64 quadratic; a busy machine may triple a time
        assert!(long < short * 24, "{before:?}: {short:?} and {long:?} for {TIMES} times the columns");
    }
}

#[test]
fn a_heading_of_too_many_columns_is_refused_before_its_rows() {
    let path = folder("wide_headings").join("log.csv");
    write_log(&path, 30_000, |disk| disk.to_string());
    let output = diskwright(&["why", text(&path)]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("line 1") && message.contains("150001 columns; the limit is 131072"), "{message}");
}

#[test]
fn a_name_of_half_a_million_letters_is_cut_and_told() {
    let path = folder("long_names").join("log.csv");
    write_log(&path, 2, |disk| format!("{}{disk}", "x".repeat(500_000)));
    for before in [&["show"][..], &["why"], &["why", "--json"], &["report", "-o", "/dev/null"], &["watch", "--once"]] {
        let arguments: Vec<&str> = before.iter().copied().chain([text(&path)]).collect();
        let begin = Instant::now();
        let output = diskwright(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.len() < 1 << 20, "{arguments:?}: {} bytes", output.stdout.len());
        // minutes, where time grew with the square of the length
        assert!(begin.elapsed() < Duration::from_secs(60), "{arguments:?}: {:?}", begin.elapsed());
    }
    let report = stderr(&diskwright(&["why", text(&path)]));
    assert!(report.contains("the end of a name that is too long"), "{report}");
}
