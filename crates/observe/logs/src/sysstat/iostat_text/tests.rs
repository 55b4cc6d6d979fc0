//! Reports of every generation, and what is left out.

use super::super::testing::{ReadOutcome, read_text};

mod first_reports;
mod layouts;

const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

fn report(second: u32, headings: &str, row: &str) -> String {
    format!(
        "2026-11-21T19:05:{second:02}+0000\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
         50.00 0.00 1.00 2.00 0.00 47.00\n\n{headings}\n{row}\n\n\n"
    )
}

fn log(headings: &str, row: &str) -> ReadOutcome {
    let reports: String = (1..4).map(|second| report(second, headings, row)).collect();
    read_text(&(HEAD.to_owned() + &reports))
}

#[test]
fn reads_every_generation_of_columns() {
    for (headings, row, expected) in [
        (
            "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util",
            "sda 0 1 10 20 80 160 8 1.5 4 2 50",
            [("read_bytes_per_s", 40_960.0), ("avg_bytes_per_transfer", 4096.0), ("avg_queue_length", 1.5)],
        ),
        (
            "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
            "sda 0 1 10 20 40 80 8 1.5 4 3 5 2 50",
            [("avg_read_queue_length", 0.03), ("avg_write_queue_length", 0.1), ("avg_s_per_transfer", 0.004)],
        ),
        (
            "Device r/s w/s rMB/s wMB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm \
             %util",
            "sda 10 20 1 2 0 0 0 0 3 5 1.5 4 4 2 50",
            [("read_bytes_per_s", 1_048_576.0), ("avg_bytes_per_read", 4096.0), ("busy", 0.5)],
        ),
        (
            "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s dkB/s \
             drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
            "sda 10 40 0 0 3 4 20 80 0 0 5 4 1 2 0 0 6 2 7 8 1.5 50",
            [("discard_bytes_per_s", 2048.0), ("avg_s_per_flush", 0.008), ("flush_queue_length", 0.056)],
        ),
        (
            "tps kB/s rqm/s await areq-sz aqu-sz %util Device",
            "30 120 0 4 4 1.5 50 sda",
            [("transfers_per_s", 30.0), ("bytes_per_s", 122_880.0), ("avg_queue_length", 1.5)],
        ),
        (
            "Device tps kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn kB_dscd",
            "sda 30 40.0k 1.5M 0.0k 40 80 0",
            [("read_bytes_per_s", 40_960.0), ("write_bytes_per_s", 1_572_864.0), ("transfers_per_s", 30.0)],
        ),
    ] {
        let read = log(headings, row);
        for (counter, value) in expected {
            let found = read.series_values(&format!("physical_disk.{counter}"), "sda");
            assert_eq!(found, [value; 2], "{counter} of {headings}");
        }
        assert_eq!(read.series_values("processor.privileged", "_total"), [0.01; 2]);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000_000; 2]);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.len() == 1 && skipped[0].reason.contains("since boot"), "{skipped:?}");
    }
}

#[test]
fn reads_changing_columns_and_reports_broken_rows() {
    let text = HEAD.to_owned()
        + &report(1, "Device tps", "sda 5")
        + &report(2, "Device tps", "sda 5 6 7 8")
        + &report(3, "Device tps %util", "sda 6")
        + &report(4, "Device %util tps", "sda 50 7")
        + &report(3, "Device %util tps", "sda 50 8")
        + "rubbish\n";
    let read = read_text(&text);
    let tps = read.series_values("physical_disk.transfers_per_s", "sda");
    assert!(tps[0].is_nan() && tps[1].is_nan() && tps[2..] == [7.0], "{tps:?}");
    let skipped = read.summary.unwrap().skipped;
    for because in ["fewer cells", "time goes back", "neither headings"] {
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{because}: {skipped:?}");
    }
}

#[test]
fn disks_that_are_left_out_are_idle() {
    const HEADINGS: &str = "Device r/s rkB/s r_await aqu-sz %util";
    let text = HEAD.to_owned()
        + &report(1, HEADINGS, "sda 1 1 1 1 1\nsdb 1 1 1 1 1")
        + &report(2, HEADINGS, "sda 10 40 3 1.5 50\nsdb 5 20 3 1 20")
        + &report(3, HEADINGS, "sda 12 48 3 1.5 50")
        + &report(4, HEADINGS, "sdb 6 24 3 1 20")
        + &report(5, HEADINGS, "sda 7 28 3")
        + &report(6, HEADINGS, "sda 8 32 3 1 5");
    let read = read_text(&text);
    let column = |counter: &str, disk: &str| read.series_values(&format!("physical_disk.{counter}"), disk);
    assert_eq!(column("reads_per_s", "sda")[..3], [10.0, 12.0, 0.0]);
    assert_eq!(column("reads_per_s", "sdb")[..3], [5.0, 0.0, 6.0]);
    assert_eq!((column("busy", "sdb")[1], column("avg_queue_length", "sda")[2]), (0.0, 0.0));
    // an average over nothing is not 0, nor is what a broken row or the cut end may have had
    assert!(column("avg_s_per_read", "sdb")[1].is_nan());
    assert!(column("reads_per_s", "sdb")[3].is_nan() && column("reads_per_s", "sdb")[4].is_nan());
    assert_eq!(read.notes.iter().filter(|n| n.text().contains("taken as idle")).count(), 1);
    // another start may have other disks
    let again = text + HEAD + &report(10, HEADINGS, "sda 1 1 1 1 1") + &report(11, HEADINGS, "sda 9 36 3 1 5");
    let read = read_text(&(again + &report(12, HEADINGS, "sda 9 36 3 1 5")));
    assert!(read.series_values("physical_disk.reads_per_s", "sdb").last().is_some_and(|v| v.is_nan()));
}

/// Three reports without times, as iostat prints them when it is started once.
fn start(tps: u32) -> String {
    let report = |tps| format!("Device tps %util\nsda {tps}.0 1.0\n\n");
    format!("{HEAD}{}{}{}", report(999), report(tps), report(tps + 1))
}

#[test]
fn skips_lines_of_other_programs_without_losing_values() {
    let text = format!(
        "nohup: ignoring input\n\n[root@db1 ~]# iostat -x 1\n{HEAD}{}{}[Sat Nov 21] message from root\n{}sdb \
         nohup: x\n",
        report(1, "Device tps %util", "sda 1 1"),
        report(2, "Device tps %util", "sda 5 1\nbroadcast message from root@db1 (Sat Nov 21 19:05:02 2026):\nsdb 6 1"),
        report(3, "Device tps %util", "sda 7 1"),
    );
    let read = read_text(&text);
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0, 7.0]);
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb")[0], 6.0);
    let summary = read.summary.unwrap();
    assert_eq!(summary.host, "db1");
    let other = summary.skipped.iter().find(|s| s.reason.contains("neither headings")).unwrap();
    assert_eq!((other.context.as_str(), other.count), ("line 1", 5));
}

#[test]
fn a_log_cut_anywhere_yields_all_complete_reports() {
    let full_text = HEAD.to_owned() + &(1..4).map(|s| report(s, "Device tps", "sda 5.25")).collect::<String>();
    for cut in 0..full_text.len() {
        assert!(read_text(&full_text[..cut]).ticks.len() <= 2, "cut at {cut}");
    }
}
