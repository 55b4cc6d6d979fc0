//! Reports without times, the first report of a start, and rows that repeat under one heading.

use std::time::Duration;

use super::{HEAD, report, start};
use crate::LogOptions;
use crate::sysstat::testing::{read_bytes, read_text};

#[test]
fn counts_times_of_reports_without_times() {
    let report = "avg-cpu:  %user %idle\n 50.00 50.00\n\nDevice tps\nsda 5.0\n ALL 9.0\n\n\n";
    let text = HEAD.to_owned() + &report.repeat(4);
    let read = read_text(&text);
    assert_eq!(
        read.ticks.iter().map(|t| (t.0, t.1)).collect::<Vec<_>>(),
        [1, 2, 3, 4].map(|n| (n * 1_000_000_000, 1_000_000_000))
    );
    assert_eq!(read.summary.unwrap().time_basis, crate::TimeBasis::Reports);
    let options = LogOptions { interval: Some(Duration::from_secs(5)), ..LogOptions::default() };
    let read = read_bytes(text.as_bytes(), &options);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [5_000_000_000; 4]);
    assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("counted from midnight")));
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0; 4]);
    let summary = read.summary.unwrap();
    assert_eq!(summary.series, 3);
    assert!(summary.skipped.iter().any(|s| s.context == "group ALL"), "{:?}", summary.skipped);
}

#[test]
fn detects_the_option_that_leaves_out_the_first_report() {
    let text = format!("{HEAD}\n{}", report(1, "Device tps", "sda 5"));
    assert_eq!(read_text(&text).series_values("physical_disk.transfers_per_s", "sda"), [5.0]);
}

#[test]
fn one_report_is_kept_with_a_remark() {
    for text in [format!("{HEAD}Device tps %util\nsda 5 1\n"), HEAD.to_owned() + &report(1, "Device tps", "sda 5")] {
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0]);
        assert_eq!(read.ticks[0].1, 1_000_000_000);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|skip| skip.reason.contains("a single report")), "{skipped:?}");
    }
}

/// Totals beside rates tell which report is of an interval, and of which.
#[test]
fn totals_give_the_interval_and_the_report_since_boot() {
    let headings = "Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn";
    let text = |rows: &[&str]| rows.iter().map(|row| format!("{headings}\n{row}\n\n")).collect::<String>();
    let boot = "sdb 60.0 250.00 500.00 250000000 500000000";
    for (rows, tps, seconds) in [
        (&[boot, "sdb 61.0 250.00 500.00 1250 2500"][..], &[61.0][..], 5),
        (&["sdb 9.0 20.00 50.00 40 100", "sdb 61.0 250.00 500.00 500 1000"], &[9.0, 61.0], 2),
        (&["sdb 9.0 20.00 50.00 200 500"], &[9.0], 10),
    ] {
        let read = read_text(&text(rows));
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb"), tps, "{rows:?}");
        assert!(read.ticks.iter().all(|tick| tick.1 == seconds * 1_000_000_000), "{:?}", read.ticks);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().all(|skip| !skip.reason.contains("a single report")), "{skipped:?}");
    }
}

#[test]
fn rows_that_repeat_under_one_heading_are_reports() {
    let headings = "Device r/s w/s rkB/s wkB/s aqu-sz %util";
    let row = |reads: u32| format!("nvme3n1 {reads} 10 {} 80 1.5 50\n", reads * 4);
    for text in [
        format!("{headings}\n{}{}{}", row(30), row(40), row(50)),
        format!("{headings}\n{}{headings}\n{}{}", row(30), row(40), row(50)),
        format!("{headings}\n{}\n{}\n{}\n", row(30), row(40), row(50)),
    ] {
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.reads_per_s", "nvme3n1"), [30.0, 40.0, 50.0], "{text}");
    }
    let row = |disk: &str, reads: u32| format!("{disk} {reads} 10 {} 80 1.5 50\n", reads * 4);
    let two: String = (30..33).map(|reads| row("sdc", reads) + &row("sdd", reads)).collect();
    let read = read_text(&format!("{headings}\n{two}"));
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sdd"), [30.0, 31.0, 32.0]);
}

#[test]
fn each_start_below_a_time_loses_its_report_since_boot() {
    let text =
        format!("zzz ***Sat Nov 21 19:05:00 UTC 2026\n{}zzz ***Sat Nov 21 19:05:30 UTC 2026\n{}", start(5), start(7));
    let read = read_text(&text);
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
    let times_ns = [1, 2, 31, 32].map(|second| 1_795_287_900_000_000_000 + second * 1_000_000_000);
    assert_eq!(read.ticks.iter().map(|t| t.0).collect::<Vec<_>>(), times_ns);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 4]);
    assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("one second apart")));
    // without the head of each start only this line shows that iostat was restarted
    let read = read_text(&text.replace(HEAD, "\n"));
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn a_blank_line_behind_every_line_does_not_mean_that_the_first_report_was_left_out() {
    let text = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
    let read = read_text(&text.replace('\n', "\n\n"));
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.25; 2]);
}
