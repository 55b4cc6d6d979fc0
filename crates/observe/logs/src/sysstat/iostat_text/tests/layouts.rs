//! Cases of the layouts that options bring: reads, writes and discards in tables of their own, names on lines of their
//! own, sums over groups.

use super::{HEAD, log, report};
use crate::sysstat::testing::read_text;

/// Output of `iostat -x -h` below the processors: names last, one blank behind the numbers.
const PARTS: &str = "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device
   10.00     40.0k     0.00   0.0%    3.00     4.0k sda

     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device
   20.00     80.0k     0.00   0.0%    5.00     4.0k sda

     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz Device
    1.00      2.0k     0.00   0.0%    6.00     2.0k sda

     f/s f_await  aqu-sz  %util Device";

#[test]
fn reads_separate_tables_of_reads_writes_and_discards() {
    let read = log(PARTS, "    7.00    8.00    1.50  50.0% sda");
    for (counter, value) in [
        ("reads_per_s", 10.0),
        ("writes_per_s", 20.0),
        ("write_bytes_per_s", 81_920.0),
        ("avg_s_per_write", 0.005),
        ("avg_write_queue_length", 0.1),
        ("discard_bytes_per_s", 2048.0),
        ("avg_s_per_flush", 0.008),
        ("busy", 0.5),
    ] {
        assert_eq!(read.series_values(&format!("physical_disk.{counter}"), "sda"), [value; 2], "{counter}");
    }
    assert_eq!(read.summary.unwrap().skipped.len(), 1, "the report since boot alone");
}

#[test]
fn does_not_count_a_group_as_a_disk() {
    for (headings, rows) in [
        ("Device        tps    kB_read/s", "sda          5.00        10.00\n ALL         5.00        10.00"),
        (" tps    kB_read/s Device", "5.00        10.0k sda\n5.00        10.0k  ALL"),
        ("Device:       tps    kB_read/s", "sda\n             5.00        10.00\n ALL\n  5.00  10.00"),
    ] {
        let read = log(headings, rows);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0; 2], "{headings}");
        assert_eq!(read.series_values("physical_disk.read_bytes_per_s", "sda"), [10_240.0; 2], "{headings}");
        assert!(read.series_values("physical_disk.transfers_per_s", "ALL").iter().all(|v| v.is_nan()), "{headings}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.context == "group ALL"), "{headings}: {skipped:?}");
    }
    // columns that were realigned
    let read = log("tps  kB_read/s  Device", "5.00 10.00      sda");
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0; 2]);
}

#[test]
fn reads_a_name_on_a_line_of_its_own() {
    let headings = "Device:         rrqm/s   wrqm/s     r/s     w/s";
    let numbers = |reads: u32| format!("                  0.00     1.00   {reads}.00   20.00");
    let rows = format!("sda\n{}\nnvme0n1\n{}", numbers(10), numbers(30));
    // the second report lost a line, and the third its end
    let broken = format!("sda\nnvme0n1\n{}", numbers(30));
    let text = HEAD.to_owned()
        + &report(1, headings, &rows)
        + &report(2, headings, &rows)
        + &report(3, headings, &broken)
        + &report(4, headings, "sda");
    let read = read_text(&text);
    let reads = |disk: &str| read.series_values("physical_disk.reads_per_s", disk);
    assert_eq!((reads("sda")[0], reads("sda")[1].is_nan()), (10.0, true));
    assert_eq!(reads("nvme0n1")[..2], [30.0, 30.0]);
    let fewer = |text: &str| text.contains("fewer cells");
    let skipped = read.summary.unwrap().skipped;
    assert_eq!(skipped.iter().filter(|s| fewer(&s.reason)).map(|s| s.count).sum::<u64>(), 2, "{skipped:?}");
}

#[test]
fn reads_bytes_in_any_unit() {
    for (headings, row) in [
        ("Device  tps GB_read/s GB_wrtn/s GB_dscd/s", "sda 5 0.50 0.25 0.00"),
        ("Device  r/s rGB/s wGB/s dGB/s", "sda 5 0.50 0.25 0.00"),
        ("Device  r/s rGB/s wGB/s dGB/s", "sda 5 512.0M 256.0M 0.0k"),
        ("Device  r/s rsec/s wsec/s dsec/s", "sda 5 1048576 524288 0"),
        ("Device  r/s rsec/s wsec/s dsec/s", "sda 5 512.0M 256.0M 0.0k"),
        ("Device  tps Blk_read/s Blk_wrtn/s Blk_dscd/s", "sda 5 512.0M 256.0M 0.0k"),
    ] {
        let read = log(headings, row);
        for (counter, value) in [("read", 536_870_912.0), ("write", 268_435_456.0), ("discard", 0.0)] {
            let counter = format!("physical_disk.{counter}_bytes_per_s");
            assert_eq!(read.series_values(&counter, "sda"), [value; 2], "{counter}: {row}");
        }
    }
    for (headings, row) in [("Device tps GB/s", "sda 5 0.50"), ("Device tps sec/s", "sda 5 1048576.00")] {
        assert_eq!(log(headings, row).series_values("physical_disk.bytes_per_s", "sda"), [536_870_912.0; 2], "{row}");
    }
}

#[test]
fn reads_times_of_any_locale_above_reports() {
    let reports: String = (1..4)
        .map(|second| {
            let report = report(second, "Device tps", "sda 5");
            let time = report.find('\n').unwrap();
            format!("Sa 21. Nov 19:05:{second:02} UTC 2026{}", &report[time..])
        })
        .collect();
    let read = read_text(&(HEAD.to_owned() + &reports));
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 2]);
    assert!(read.notes.iter().all(|n| n.kind != "warning"), "{:?}", read.notes);
}

#[test]
fn times_of_day_continue_after_midnight() {
    let reports: String = ["11:59:40 PM", "11:59:50 PM", "12:00:00 AM", "12:00:10 AM"]
        .iter()
        .map(|clock| {
            let report = report(1, "Device tps", "sda 5");
            let time = report.find('\n').unwrap();
            format!("Time: {clock}{}", &report[time..])
        })
        .collect();
    let read = read_text(&(HEAD.to_owned() + &reports));
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [10_000_000_000; 3]);
    assert_eq!(read.ticks[2].0 - read.ticks[0].0, 20_000_000_000);
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in [
        ("10/25/26", ["02:59:45 AM", "02:59:50 AM", "02:59:55 AM", "02:00:00 AM", "02:00:05 AM"]),
        ("03/29/26", ["01:59:45 AM", "01:59:50 AM", "01:59:55 AM", "03:00:00 AM", "03:00:05 AM"]),
    ] {
        let reports: String = clocks
            .iter()
            .map(|clock| {
                let report = report(1, "Device tps", "sda 5");
                let time = report.find('\n').unwrap();
                format!("{day} {clock}{}", &report[time..])
            })
            .collect();
        let read = read_text(&(HEAD.to_owned() + &reports));
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [5_000_000_000; 4], "{day}");
        assert_eq!(read.notes.iter().filter(|n| n.kind == "clock").count(), 1, "{day}");
    }
}
