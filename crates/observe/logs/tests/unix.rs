//! iostat and sar of other systems: each column's meaning and unit, and the omission of the report since boot.

use std::time::Duration;

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::Note;
use diskwright_logs::{LogOptions, TimeBasis};

fn read_iostat(text: &str) -> ReadLog {
    read_as_format("unix-iostat", text, &LogOptions::default())
}

fn read_iostat_every(text: &str, seconds: u64) -> ReadLog {
    let options = LogOptions { interval: Some(Duration::from_secs(seconds)), ..LogOptions::default() };
    read_as_format("unix-iostat", text, &options)
}

fn disk_column(read: &ReadLog, counter: &str, name: &str) -> Vec<f64> {
    read.column_values(&format!("physical_disk.{counter}"), name)
}

const BANNER: &str = "                    extended device statistics              \n";

#[test]
fn reads_solaris_wait_and_service_times() {
    let named = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n  \
                 10.0   20.0   40.0   80.0  0.5  1.5   15.0   45.0   7  60 c1t0d0\n   \
                 0.0    0.0    0.0    0.0  0.0  0.0    0.0    0.0   0   0 nas:/export (vold)\n";
    let plain = "device    r/s    w/s   Mr/s   Mw/s wait actv  svc_t  %w  %b\n\
                 c1t0d0       10.0   20.0    1.0    2.0  0.5  1.5   60.0   7  60\n";
    let commas = "device,r/s,w/s,kr/s,kw/s,wait,actv,svc_t,%w,%b\nc1t0d0,10.0,20.0,40.0,80.0,0.5,1.5,60.0,7,60\n";
    for (report, read_bytes) in [(named, 40_960.0), (plain, 1_048_576.0), (commas, 40_960.0)] {
        let dated = |s: u32| format!("Mon Nov 23 17:30:{s:02} UTC 2026\n{BANNER}{report}");
        let read = read_iostat(&[0, 10, 20].map(dated).concat());
        assert_eq!(read.ticks, [(1_795_455_010.0, 10.0), (1_795_455_020.0, 10.0)], "{:?}", read.summary);
        for (counter, value) in [
            ("reads_per_s", 10.0),
            ("transfers_per_s", 30.0),
            ("read_bytes_per_s", read_bytes),
            ("avg_queue_length", 2.0),
            ("avg_s_per_transfer", 0.06),
            ("busy", 0.6),
        ] {
            assert_eq!(disk_column(&read, counter, "c1t0d0"), [value; 2], "{counter} of {report}");
        }
        assert!(read.cells.iter().all(|cells| cells.keys().all(|(_, instance)| !instance.contains("nas"))));
    }
    // terminal and processors beside the first row
    let wide = "device r/s w/s kr/s kw/s wait actv svc_t %w %b tin tout us sy wt id\n\
                sd0 1.0 2.0 3.0 4.0 0.0 0.0 5.0 0 1 0 9 1 2 0 97\nsd1 5.0 2.0 3.0 4.0 0.0 0.0 5.0 0 1\n";
    let read = read_iostat_every(&(BANNER.to_owned() + wide).repeat(2), 5);
    assert_eq!(
        (disk_column(&read, "reads_per_s", "sd0"), disk_column(&read, "reads_per_s", "sd1")),
        (vec![1.0; 2], vec![5.0; 2])
    );
    // parts of a disk are no disks
    let slices = named.replace("c1t0d0\n", "c1t0d0s3\n");
    let read = read_iostat_every(&(BANNER.to_owned() + &slices).repeat(2), 5);
    assert_eq!(read.column_values("logical_disk.busy", "c1t0d0s3"), [0.6; 2]);
    assert!(disk_column(&read, "busy", "c1t0d0s3")[0].is_nan());
}

/// `while sleep 40; do date; iostat -xn 10 2; done`
#[test]
fn runs_below_the_times_of_a_loop_lose_their_first_report() {
    const HEAD: &str = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n";
    let report = |reads: u32| format!("{BANNER}{HEAD} {reads}.0 20.0 40.0 80.0 0.5 1.5 15.0 45.0 7 60 c1t0d0\n");
    let run =
        |minute: u32, reads: u32| format!("Mon Nov 23 17:{minute:02}:00 UTC 2026\n{}{}", report(999), report(reads));
    let text = [run(30, 1), run(31, 2), run(32, 3)].concat();
    let read = read_iostat_every(&text, 10);
    assert_eq!(disk_column(&read, "reads_per_s", "c1t0d0"), [1.0, 2.0, 3.0], "{:?}", read.summary);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [10.0; 3]);
    let spaced = read_iostat(&text);
    assert_eq!(disk_column(&spaced, "reads_per_s", "c1t0d0"), [1.0, 2.0, 3.0]);
    assert_eq!(spaced.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [1.0; 3]);
    assert!(spaced.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("--interval")));
}

#[test]
fn reads_separate_freebsd_times_of_reads_and_writes() {
    let new = "device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b\n\
               ada0          12       4      512      128     4     9     0     5    3  20\n\
               pass0         12       4      512      128     4     9     0     5    3  20\n";
    let old =
        "device     r/s   w/s    kr/s    kw/s qlen svc_t  %b  \nada0      12.0   4.0   512.0   128.0    3   5.0  20 \n";
    for (report, apart) in [(new, true), (old, false)] {
        let read = read_iostat_every(&(BANNER.to_owned() + report).repeat(2), 10);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [10.0; 2]);
        for (counter, value) in [
            ("reads_per_s", 12.0),
            ("write_bytes_per_s", 131_072.0),
            ("avg_s_per_transfer", 0.005),
            ("current_queue_length", 3.0),
            ("busy", 0.2),
        ] {
            assert_eq!(disk_column(&read, counter, "ada0"), [value; 2], "{counter}");
        }
        assert_eq!(disk_column(&read, "avg_s_per_read", "ada0")[0] == 0.004, apart);
        assert!(disk_column(&read, "busy", "pass0")[0].is_nan());
        assert!(read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("no times")));
    }
}

#[test]
fn disks_that_are_left_out_are_idle() {
    let solaris = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n";
    let freebsd = "device     r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b\n";
    let c1 = "   10.0   20.0   40.0   80.0  0.5  1.5   15.0   45.0   7  60 c1t0d0\n";
    let c2 = "    5.0    0.0   40.0    0.0  0.0  0.5    0.0   10.0   0   5 c1t1d0\n";
    let nas = "    1.0    0.0    4.0    0.0  0.0  0.1    0.0   10.0   0   1 nas:/export\n";
    let ada0 = "ada0        10       0     80.0      0.0    10     0     0    10    0   5\n";
    let ada1 = "ada1         5       0     40.0      0.0    10     0     0    10    0   5\n";
    let note_count = |read: &ReadLog| read.notes.iter().filter(|note| note.text().contains("taken as idle")).count();
    for (head, first, second) in [(solaris, c1, c2), (freebsd, ada0, ada1)] {
        let both = format!("{first}{second}");
        let of_solaris = |rows: &str| if head == solaris { format!("{nas}{rows}") } else { rows.to_owned() };
        let text = |reports: &[String]| -> String {
            let dated = reports
                .iter()
                .enumerate()
                .map(|(index, rows)| format!("Mon Nov 23 17:30:{:02} UTC 2026\n{BANNER}{head}{rows}", index * 10));
            dated.collect()
        };
        let (one, two) = if head == solaris { ("c1t0d0", "c1t1d0") } else { ("ada0", "ada1") };
        let reports = [of_solaris(&both), of_solaris(first), of_solaris(&both), String::new(), of_solaris(second)];
        let read = read_iostat(&text(&reports));
        assert_eq!(read.ticks.len(), 4, "{:?}", read.summary);
        assert_eq!(disk_column(&read, "reads_per_s", one), [10.0, 10.0, 0.0, 0.0]);
        assert_eq!(disk_column(&read, "reads_per_s", two), [0.0, 5.0, 0.0, 5.0]);
        assert_eq!((disk_column(&read, "busy", two)[0], note_count(&read)), (0.0, 1));
        // without -z an idle disk has a row of zeros: one that is missing is gone
        let mut zeros = String::new();
        for word in second.split_whitespace() {
            zeros += if word == two { two } else { "0.0" };
            zeros += " ";
        }
        let read = read_iostat(&text(&[both.clone(), format!("{first}{zeros}\n"), first.to_owned()]));
        let found = disk_column(&read, "reads_per_s", two);
        assert!(found[0] == 0.0 && found[1].is_nan() && note_count(&read) == 0, "{found:?}");
        // nor is it known whose a broken row was
        let read = read_iostat(&text(&[both.clone(), format!("{first}5.0 {two}\n"), both.clone()]));
        assert!(disk_column(&read, "reads_per_s", two)[0].is_nan() && note_count(&read) == 0);
    }
}

#[test]
fn aix_counts_kilobytes_per_interval() {
    let report = "\nSystem configuration: lcpu=4 drives=6 paths=5 vdisks=3\n\n\
        tty:      tin         tout    avg-cpu: % user % sys % idle % iowait physc % entc\n          \
        0.0          0.0                10.0  5.0   82.0      3.0   0.1   10.0\n\n\
        Disks:         % tm_act     Kbps      tps    Kb_read   Kb_wrtn\n\
        hdisk0           36.0     324.0      64.0        320      2920\n";
    let read = read_iostat_every(&report.repeat(2), 10);
    for (counter, value) in [
        ("busy", 0.36),
        ("bytes_per_s", 324.0 * 1024.0),
        ("transfers_per_s", 64.0),
        ("read_bytes_per_s", 32_768.0),
        ("write_bytes_per_s", 292.0 * 1024.0),
    ] {
        assert_eq!(disk_column(&read, counter, "hdisk0"), [value; 2], "{counter}");
    }
    assert_eq!(read.column_values("processor.privileged", "_total"), [0.05; 2]);
    assert_eq!(read.column_values("processor.iowait", "_total"), [0.03; 2]);
    // -T puts a time behind each row
    let timed = |s: u32| {
        format!(
            "Disks:         % tm_act     Kbps      tps    Kb_read   Kb_wrtn  time\n\
             hdisk0           36.0     324.0      64.0        320      2920  17:30:{s:02}\n"
        )
    };
    let read = read_iostat(&[0, 10, 20].map(timed).concat());
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [10.0; 2]);
    assert_eq!(disk_column(&read, "read_bytes_per_s", "hdisk0"), [32_768.0; 2]);
}

#[test]
fn reads_disks_side_by_side() {
    let text = "              disk0               disk4       cpu    load average\n    \
                KB/t  tps  MB/s     KB/t  tps  MB/s  us sy id   1m   5m   15m\n   \
                37.13  105  3.80   127.34   11  1.31  10  4 86  2.79 2.33 2.18\n   \
                16.00    8  0.50     0.00    0  0.00   5  3 93  2.79 2.33 2.18\n   \
                16.00    8  0.50     0.00    0  0.00   5  3 12  2.79 2.33 2.18\n";
    let read = read_iostat_every(text, 1);
    assert_eq!(disk_column(&read, "transfers_per_s", "disk0"), [8.0; 2]);
    assert_eq!(disk_column(&read, "bytes_per_s", "disk0"), [524_288.0; 2]);
    assert_eq!(disk_column(&read, "avg_bytes_per_transfer", "disk0"), [16_384.0; 2]);
    assert_eq!(disk_column(&read, "transfers_per_s", "disk4"), [0.0; 2]);
    assert!(disk_column(&read, "avg_bytes_per_transfer", "disk4")[0].is_nan());
    // rounded shares may miss the sum by a little, others are gaps
    let idle = read.column_values("processor.idle", "_total");
    assert!(idle[0] == 0.93 && idle[1].is_nan(), "{idle:?}");
    assert_eq!(read.column_values("system.load_1", ""), [2.79; 2]);
    let freebsd = "       tty             ada0             cpu\n tin  tout  KB/t   tps  MB/s  us ni sy in id\n   \
                   0     4 16.00     8  0.50   1  0  2  0 97\n   0     4 16.00     8  0.50   1  0  2  0 97\n";
    let read = read_iostat_every(freebsd, 1);
    assert_eq!(
        (disk_column(&read, "transfers_per_s", "ada0"), read.column_values("processor.idle", "_total")),
        (vec![8.0; 2], vec![0.97; 2])
    );
}

#[test]
fn leaves_out_disks_whose_names_are_lost() {
    let columns = "    KB/t  tps  MB/s     KB/t  tps  MB/s  us sy id   1m   5m   15m\n";
    let row = "   16.00    8  0.50    64.00    2  0.13   5  3 92  2.79 2.33 2.18\n";
    let names = "              disk0               disk4       cpu    load average\n";
    for (names, has_disks) in [(names, true), ("", false), ("          disk0       cpu    load average\n", false)] {
        let read = read_iostat_every(&(names.to_owned() + columns + &row.repeat(2)), 5);
        assert_eq!(read.column_values("system.load_1", ""), [2.79; 2], "{names}");
        let has_any = read.cells.iter().any(|cells| cells.keys().any(|(counter, _)| counter.contains("disk")));
        assert_eq!(has_any, has_disks, "{names}");
        let skipped = read.summary.unwrap().skipped;
        assert_eq!(skipped.iter().any(|s| s.reason.contains("a line of their names")), !has_disks, "{skipped:?}");
    }
    // with -d nothing stands beside the names
    let alone = "              disk0               disk4 \n    KB/t  tps  MB/s     KB/t  tps  MB/s \n";
    let read = read_iostat_every(&(alone.to_owned() + &"   16.00    8  0.50    64.00    2  0.13 \n".repeat(2)), 5);
    assert_eq!(disk_column(&read, "transfers_per_s", "disk4"), [2.0; 2], "{:?}", read.summary);
}

#[test]
fn reads_only_bytes_of_hpux_iostat() {
    let report = "  device    bps     sps    msps\n\n  c2t1d0    324    64.0     1.0\n\n";
    let read = read_iostat_every(&report.repeat(3), 5);
    assert_eq!(disk_column(&read, "bytes_per_s", "c2t1d0"), [324.0 * 1024.0; 2]);
}

#[test]
fn a_first_report_counts_unless_it_differs_and_a_single_one_always() {
    const HEADINGS: &str = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b\n";
    let row =
        |reads: f64| format!("sd4  {reads:.1} {:.1} {:.1} {:.1} 0.0 2.0 9.0 0 70\n", reads * 2.0, reads * 8.0, reads);
    for (text, reads) in [
        ([&[HEADINGS.to_owned()], &[70.0, 80.0, 75.0].map(row)[..]].concat().concat(), &[70.0, 80.0, 75.0][..]),
        ([3.0, 80.0, 75.0].map(|reads| HEADINGS.to_owned() + &row(reads)).concat(), &[80.0, 75.0]),
        (HEADINGS.to_owned() + &row(80.0), &[80.0]),
    ] {
        let read = read_iostat(&text);
        assert_eq!(disk_column(&read, "reads_per_s", "sd4"), reads, "{text}");
        let is_remarked = read.skip_counts().iter().any(|(because, _)| because.contains("a single report"));
        assert_eq!(is_remarked, reads.len() == 1, "{:?}", read.skip_counts());
        assert!(read.ticks.iter().all(|tick| tick.1 == 1.0), "{:?}", read.ticks);
    }
}

#[test]
fn reports_broken_reports() {
    const HEADINGS: &str = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b\n";
    const ROW: &str = "sd1  1.0 2.0 3.0 4.0 0.0 0.0 5.0 0 1\n";
    let report = |row: &str| HEADINGS.to_owned() + row;
    for (row, because) in [
        ("sd1  1.0 2.0 3.0 4.0 0.0 0.0 5.0 0\n", "fewer cells"),
        ("sd1  1.0 2.0 3.0 4.0 0.0 0.0 5.0 0 1 9\n", "more cells"),
        ("sd1  1.0 2.0 3.0 4.0 0.0 0.0 x 0 1\n", "not a number"),
        ("sd1  1.0 2.0 -3.0 4.0 0.0 0.0 5.0 0 1\n", "impossible"),
        ("sd1  1.0 2.0 3e99 4.0 0.0 0.0 5.0 0 1\n", "not a number"),
        ("^C\n", "fewer cells"),
    ] {
        let text = report(ROW) + &report(&(ROW.to_owned() + row)) + &report(ROW);
        let read = read_iostat_every(&text, 1);
        assert_eq!(disk_column(&read, "reads_per_s", "sd1"), [1.0; 3], "{row}");
        assert!(
            read.skip_counts().iter().any(|(reason, _)| reason.contains(because)),
            "{row}: {:?}",
            read.skip_counts()
        );
    }
    let text = report(ROW).repeat(3);
    let counted = read_iostat(&text);
    assert_eq!(counted.ticks, [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]);
    assert_eq!(counted.summary.map(|summary| summary.time_basis).ok(), Some(TimeBasis::Reports));
    for cut in 0..text.len() {
        let input = diskwright_logs::LogInput::from_bytes("cut", text.as_bytes()[..cut].to_vec());
        let options = LogOptions { interval: Some(Duration::from_secs(1)), ..LogOptions::default() };
        let mut sink = |_: diskwright_logs::LogPiece<'_>| std::ops::ControlFlow::Continue(());
        let _ = input.and_then(|mut input| diskwright_logs::read(&mut input, &options, &mut sink));
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    let table = "device r/s w/s kr/s kw/s wait actv svc_t %w %b\nsd0 1.0 2.0 3.0 4.0 0.0 0.0 5.0 0 1\n";
    for (day, clocks) in [
        ("2026-10-25", ["02:59:40", "02:59:50", "02:00:00", "02:00:10"]),
        ("2026-03-29", ["01:59:40", "01:59:50", "03:00:00", "03:00:10"]),
    ] {
        let report = |clock: &str| format!("{day} {clock}\n{BANNER}{table}");
        let read = read_iostat(&clocks.map(report).concat());
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [10.0; 3], "{day}: {:?}", read.summary);
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
    }
}

fn read_sar(text: &str) -> ReadLog {
    read_as_format("unix-sar", text, &LogOptions::default())
}

#[test]
fn puts_tables_of_sar_side_by_side() {
    let text = "\nSunOS db1 5.11 11.3 sun4v    11/23/2026\n\n\
        23:50:00    %usr    %sys    %wio   %idle\n\
        23:55:00      10       5       0      84\n00:00:00      20       5       0      75\n\n\
        Average       15       5       0      79\n\n\
        23:50:00   device        %busy   avque   r+w/s  blks/s  avwait  avserv\n\
        23:55:00   sd1              60     2.0      30     160    15.0    45.0\n           \
        sd1,a            60     2.0      30     160    15.0    45.0\n           \
        sd1.t3.mpt0      60     2.0      30     160    15.0    45.0\n           \
        mpt_sas2         60     2.0      30     160    15.0    45.0\n           \
        nfs1              0     0.0       0       0     0.0     0.0\n\
        00:00:00   sd1               0     0.0       0       0     0.0     0.0\n\
        Average    sd1              30     1.0      15      80    15.0    45.0\n           sd2   1 1.0 1 1 1.0 1.0\n\n\
        23:50:00 freemem freeswap\n23:55:00    1000     2048\n00:00:00    1000     2048\n";
    let read = read_sar(text);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [300.0; 2]);
    assert_eq!(read.column_values("processor.user", "_total"), [0.1, 0.2]);
    assert_eq!(disk_column(&read, "busy", "sd1"), [0.6, 0.0]);
    assert_eq!(disk_column(&read, "avg_queue_length", "sd1"), [2.0, 0.0]);
    assert_eq!(disk_column(&read, "bytes_per_s", "sd1"), [81_920.0, 0.0]);
    let response = disk_column(&read, "avg_s_per_transfer", "sd1");
    assert!(response[0] == 0.06 && response[1].is_nan(), "{response:?}");
    assert_eq!(read.column_values("memory.swap_free_bytes", ""), [1_048_576.0; 2]);
    let disks = |cells: &std::collections::BTreeMap<(String, String), f64>| {
        cells.keys().filter(|(counter, _)| counter == "physical_disk.busy").count()
    };
    assert!(read.cells.iter().all(|cells| disks(cells) == 1));
    assert!(read.notes.iter().any(|note| note.kind == Note::TOPOLOGY && note.text().contains("db1")));
}

#[test]
fn keeps_the_queue_of_aix_and_hpux_foreign() {
    for (system, column) in [("AIX db1 2 7 00F93CFF4C00", "Kbs/s"), ("HP-UX db1 B.11.31 U ia64", "blks/s")] {
        let text = format!(
            "{system}    11/23/26\n\n10:00:00   device   %busy   avque   r+w/s  {column}  avwait  avserv\n\
             10:05:00   disk1   60.00   0.50   30   160   15.00   45.00\n\
             10:10:00   disk1   60.00   0.50   30   160   15.00   45.00\n"
        );
        let read = read_sar(&text);
        let unit = if column == "Kbs/s" { 1024.0 } else { 512.0 };
        assert_eq!(disk_column(&read, "bytes_per_s", "disk1"), [160.0 * unit; 2]);
        assert_eq!(disk_column(&read, "avg_s_per_transfer", "disk1"), [0.06; 2]);
        assert!(disk_column(&read, "avg_queue_length", "disk1")[0].is_nan());
        assert_eq!(read.column_values("foreign.sar.avque", "disk1"), [0.5; 2]);
    }
}

#[test]
fn leaves_out_impossible_rows_of_sar() {
    const HEAD: &str = "SunOS db1 5.11 11.3 sun4v    11/23/2026\n\n10:00:00    %usr    %sys    %wio   %idle\n";
    let good = "10:15:00      10       5       0      85\n";
    for (row, because) in [
        ("10:10:00       0       0       0       0\n", "all zero"),
        ("10:10:00      10       5       0      15\n", "add up"),
        ("10:10:00      10       5     900      85\n", "impossible"),
        ("10:10:00      10       5\n", "number of cells differs"),
        ("10:10:00      10       5       -      85\n", "not a number"),
    ] {
        let read = read_sar(&format!("{HEAD}10:05:00      10       5       0      85\n{row}{good}"));
        assert_eq!(read.column_values("processor.idle", "_total"), [0.85; 2], "{row}");
        assert!(
            read.skip_counts().iter().any(|(reason, _)| reason.contains(because)),
            "{row}: {:?}",
            read.skip_counts()
        );
    }
    // a restart, and rows that stand above any heading
    let read =
        read_sar(&format!("{HEAD}10:05:00      10       5       0      85\n\n10:07:00    unix restarts\n\n{good}"));
    assert_eq!(read.ticks.len(), 2);
}

/// The row behind a restart, or behind the beginning of another file, does not cover the time before.
#[test]
fn intervals_of_sar_restart_at_restarts_and_files() {
    const COLUMNS: &str = "    %usr    %sys    %wio   %idle\n";
    const ROW: &str = "      10       5       0      85\n";
    let day = |date: &str| {
        format!(
            "SunOS db1 5.11 11.3 sun4v    {date}\n\n10:00:00{COLUMNS}10:05:00{ROW}\n\
             10:47:00    unix restarts\n\n10:50:00{ROW}\n"
        )
    };
    let read = read_sar(&(day("11/23/2026") + &day("11/24/2026")));
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [300.0, 180.0, 300.0, 180.0]);
    let gaps = |text: &str| read.notes.iter().filter(|n| n.kind == Note::GAP && n.text().contains(text)).count();
    assert_eq!((gaps("restarted"), gaps("next file")), (2, 1), "{:?}", read.notes);
}

/// Table after table, and the file of the next day behind it.
#[test]
fn sar_keeps_its_time_over_a_change_to_or_from_summer_time() {
    for (dates, clocks) in [
        (["10/25/2026", "10/26/2026"], ["02:30:00", "02:40:00", "02:50:00", "02:00:00", "02:10:00"]),
        (["03/29/2026", "03/30/2026"], ["01:30:00", "01:40:00", "01:50:00", "03:00:00", "03:10:00"]),
    ] {
        let table = |headings: &str, row: &str| {
            let rows: String = clocks[1..].iter().map(|clock| format!("{clock} {row}\n")).collect();
            format!("{} {headings}\n{rows}\n", clocks[0])
        };
        let both = table("%usr %sys %wio %idle", "10 5 0 85")
            + &table("device %busy avque r+w/s blks/s avwait avserv", "sd1 60 2.0 30 160 15.0 45.0");
        let first = |date: &str| format!("SunOS db1 5.11 11.3 sun4v    {date}\n\n");
        let next = "00:00:00 %usr %sys %wio %idle\n00:10:00 10 5 0 85\n";
        let read = read_sar(&format!("{}{both}{}{next}", first(dates[0]), first(dates[1])));
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [600.0; 5], "{dates:?}");
        let apart: Vec<i64> = read.ticks.windows(2).map(|two| (two[1].0 - two[0].0).round() as i64).collect();
        assert_eq!(apart[..3], [600; 3], "{dates:?}");
        // from 2:10 of one day to 0:10 of the next, or from 3:10
        assert_eq!(apart[3], if clocks[3] == "02:00:00" { 22 * 3600 } else { 21 * 3600 }, "{dates:?}");
        assert_eq!(disk_column(&read, "busy", "sd1")[..4], [0.6; 4], "{dates:?}");
        assert_eq!(read.notes.iter().filter(|note| note.kind == Note::CLOCK).count(), 1, "{dates:?}");
    }
}

#[test]
fn reads_one_of_several_machines_in_sar() {
    let make_log = |host: &str, user: u32| {
        format!(
            "SunOS {host} 5.11 11.3 sun4v    11/23/2026\n\n10:00:00    %usr    %sys    %wio   %idle\n\
             10:05:00      {user}       5       0      {}\n\n",
            95 - user
        )
    };
    let text = make_log("db1", 10) + &make_log("db2", 20).replace("10:05", "10:06");
    for (host, user) in [(None, 0.1), (Some("db1"), 0.1), (Some("db2"), 0.2)] {
        let options = LogOptions { host: host.map(str::to_owned), ..LogOptions::default() };
        let read = read_as_format("unix-sar", &text, &options);
        assert_eq!(read.column_values("processor.user", "_total"), [user], "{host:?}");
        let summary = read.summary.expect("read");
        assert_eq!(summary.host, host.unwrap_or("db1"));
        assert!(summary.skipped.iter().any(|s| s.reason.contains("another machine")), "{host:?}");
    }
}

/// "A blank value in any column indicates that the associated queue is empty" (AIX, sar command): such rows belong to
/// the mean. What a cut leaves of the last line is no row.
#[test]
fn blank_queues_of_aix_are_empty() {
    let text = "AIX db1 2 7 00F93CFF4C00    11/23/2026\n\n\
                17:30:00 runq-sz %runocc swpq-sz %swpocc\n\
                17:30:10     2.0      50     1.0       1\n\
                17:30:20                     3.0      40\n\
                17:30:30\n\
                17:30:40     4.0     100\n\
                17:30:50";
    let read = read_as_format("unix-sar", text, &LogOptions::default());
    assert_eq!(read.column_values("system.processor_queue_length", ""), [2.0, 0.0, 0.0, 4.0], "{:?}", read.summary);
}
