//! Tables side by side, in many locales, and what is left out.

use super::super::testing::{ReadOutcome, read_bytes, read_text};
use crate::LogOptions;

mod blank_lines;
mod clocks;
mod epochs;

const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

fn seconds(read: &ReadOutcome) -> Vec<(i64, u64)> {
    let midnight = 20_778 * 86_400;
    read.ticks.iter().map(|(time, elapsed)| (time / 1_000_000_000 - midnight, elapsed / 1_000_000_000)).collect()
}

fn two_tables(rows: [&str; 4]) -> String {
    let [a, b, c, d] = rows;
    format!(
        "{HEAD}13:20:09 CPU %user %idle\n{a} all 10.00 90.00\n{b} all 20.00 80.00\nAverage: all 15.00 85.00\n\n\
         13:20:09 DEV tps aqu-sz await\n{c} sda 5.00 0.50 2.00\n{d} sda 7.00 0.70 3.00\nAverage: sda 6 0.6 2.5\n"
    )
}

#[test]
fn puts_tables_side_by_side() {
    let read = read_text(&two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]));
    assert_eq!(seconds(&read), [(48_019, 10), (48_029, 10)]);
    assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
    assert_eq!(read.series_values("physical_disk.avg_s_per_transfer", "sda"), [0.002, 0.003]);
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.host.as_str(), summary.gaps), ("sar-text", "db1", 0));
    assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
    assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("names no time zone")));
    assert!(read.notes.iter().any(|n| n.kind == "topology" && n.text().contains("\"processors\":4")));
}

#[test]
fn an_offset_shifts_the_times_and_is_not_warned_of() {
    let options = LogOptions { utc_offset_s: Some(3600), ..LogOptions::default() };
    let text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
    let read = read_bytes(text.as_bytes(), &options);
    assert_eq!(seconds(&read)[0].0, 44_419);
    assert!(read.notes.iter().all(|n| n.kind != "warning"));
}

#[test]
fn reads_repeated_headings_and_tables_tick_by_tick() {
    let tick = |from: u32, to: u32| {
        format!(
            "13:20:{from:02} CPU %user\n13:20:{to:02} all 1.0\n\n13:20:{from:02} DEV tps\n13:20:{to:02} sda 2.0\n\
             13:20:{to:02} sdb 3.0\n\n"
        )
    };
    let read = read_text(&(HEAD.to_owned() + &tick(1, 2) + &tick(2, 3) + &tick(3, 4)));
    assert_eq!(seconds(&read), [(48_002, 1), (48_003, 1), (48_004, 1)]);
    assert_eq!(read.series_values("physical_disk.transfers_per_s", "sdb"), [3.0; 3]);
    assert_eq!(read.summary.unwrap().gaps, 0);
}

#[test]
fn reads_other_locales() {
    for (date, row, when) in [
        ("21.11.2026", "13:20:19     all      2,15     97,85", 48_019),
        ("11/21/2026", "01:20:19 PM     all      2.15     97.85", 48_019),
        ("21/11/26", "13:20:19     all      2,15     97,85", 48_019),
        ("2026年11月21日", "13时20分19秒     all      2.15     97.85", 48_019),
        ("11/21/26", "13:20:19 \u{1b}[32;22m all\u{1b}[0m\u{1b}[34;1m  2.15 97.85\u{1b}[0m", 48_019),
    ] {
        let heading = row.split(" all").next().unwrap().replace("19", "09").replace("\u{1b}[32;22m", "");
        let text = format!("Linux 6.1.0 (db1) \t{date} \t_x86_64_\t(4 CPU)\n\n{heading} CPU %user %idle\n{row}\n");
        let read = read_text(&text);
        assert_eq!(seconds(&read), [(when, 10)], "{text}");
        assert_eq!(read.series_values("processor.user", "_total"), [0.0215]);
    }
}

#[test]
fn skips_what_does_not_fit_with_its_line() {
    for (wrong, because) in [
        ("13:20:19 sda 5.00", "fewer cells"),
        ("nonsense", "neither a heading"),
        ("13:19:00 sda 5.00 1 1", "time goes back"),
        ("13:20:09 sda 5.00 1 1", "since boot"),
        ("13:20:19", "nothing else"),
    ] {
        let text = format!("{HEAD}13:20:09 DEV tps aqu-sz await\n{wrong}\n13:20:29 sda 7.00 0.70 3.00\n");
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [7.0], "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped[0].reason.contains(because) && skipped[0].context == "line 4", "{wrong}: {skipped:?}");
    }
}

#[test]
fn a_log_cut_anywhere_yields_all_complete_rows() {
    let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
    for cut in 0..full_text.len() {
        let read = read_text(full_text.get(..cut).unwrap());
        assert!(read.ticks.len() <= 2, "cut at {cut}");
        assert!(read.summary.is_err() || !read.ticks.is_empty(), "cut at {cut}");
    }
}

#[test]
fn pidstat_names_processes() {
    let mut text = HEAD.to_owned();
    for tick in 0..30 {
        text += &format!(
            "13:20:{tick:02} UID PID kB_rd/s kB_wr/s kB_ccwr/s iodelay Command\n\
             13:20:{:02} 0 77 {}.00 10.00 0.00 50 my prog\n\n",
            tick + 1,
            tick * 2
        );
    }
    let read = read_text(&text);
    assert_eq!(read.ticks.len(), 30);
    let notes: Vec<_> = read.notes.iter().filter(|n| n.kind == "processes").collect();
    assert_eq!(notes.len(), 3);
    let table = notes[0].read_processes().unwrap();
    let row = &table.rows[0];
    assert_eq!((table.elapsed_s, row.pid, row.name.as_str()), (10.0, 77, "my prog"));
    assert_eq!((row.read_bytes_per_s, row.block_delay), (Some(9.0 * 1024.0), Some(0.5)));
}

#[test]
fn lines_of_other_programs_change_neither_machine_nor_time() {
    let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
    let text = format!("nohup: ignoring input\n$ sar -u -d 10 2\nzzz ***Sat Nov 21 13:20:09 UTC 2026\n\n{full_text}");
    // what looks like a row or headings among the rows is neither
    let text = text.replacen("13:20:29 all", "13:20:25 root logged in\n13:20:26 42\nbroadcast: hello\n13:20:29 all", 1);
    let read = read_text(&text);
    assert_eq!(seconds(&read), [(48_019, 10), (48_029, 10)]);
    assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
    assert_eq!(read.series_values("physical_disk.avg_s_per_transfer", "sda"), [0.002, 0.003]);
    let summary = read.summary.unwrap();
    assert_eq!(summary.host, "db1");
    let count = |because: &str| summary.skipped.iter().find(|s| s.reason.contains(because)).map_or(0, |s| s.count);
    assert_eq!((count("neither a heading"), count("another machine")), (3, 0), "{:?}", summary.skipped);
    assert_eq!(count("cells than the table") + count("words than the table"), 2, "{:?}", summary.skipped);
}

#[test]
fn reports_a_lost_date() {
    let full_text = two_tables(["13:20:19", "13:20:29", "13:20:19", "13:20:29"]);
    let read = read_text(full_text.strip_prefix(HEAD).unwrap());
    assert_eq!(read.series_values("processor.user", "_total"), [0.1, 0.2]);
    let skipped = read.summary.unwrap().skipped;
    assert!(skipped.iter().any(|s| s.reason.contains("from 1970-01-01")), "{skipped:?}");
}

/// A fifth of a disk's rows is enough not to know what it did; a cut row is not one that was read as well.
#[test]
fn a_cut_row_of_a_disk_counts_once() {
    let text = |rows: usize, cut: usize| {
        let row = |index: usize| {
            let end = if index < cut { "\n" } else { " 3.00\n" };
            format!("13:20:{:02} sda 95.00 0.70 88.00{end}", 10 + index)
        };
        format!("{HEAD}13:20:09 DEV tps aqu-sz await %util\n{}", (0..rows).map(row).collect::<String>())
    };
    for (rows, cut, is_told) in [(10, 2, true), (10, 1, false), (9, 2, true), (11, 2, false)] {
        let read = read_text(&text(rows, cut));
        let told = read.notes.iter().any(|note| note.text().contains(diskwright_base::Note::DISK_ROWS_LEFT_OUT));
        assert_eq!(told, is_told, "{cut} of {rows}");
    }
}

#[test]
fn shares_of_a_link_and_of_segments_are_computed() {
    let text = format!(
        "{HEAD}13:20:09 IFACE rxpck/s txpck/s rxkB/s txkB/s %ifutil\n13:20:19 eth3 81000 40000 90000 2000 75.00\n\
         13:20:19 eth4 10 10 1 1 0.01\n\n13:20:09 IFACE rxerr/s txerr/s rxdrop/s txdrop/s\n13:20:19 eth3 0 0 810 0\n\n\
         13:20:09 active/s passive/s iseg/s oseg/s\n13:20:19 1 20 9000 8000\n\n\
         13:20:09 atmptf/s estres/s retrans/s isegerr/s orsts/s\n13:20:19 0 0 400 0 1\n"
    );
    let read = read_text(&text);
    assert_eq!(read.series_values("network.link_bytes_per_s", "eth3"), [120_000.0 * 1024.0]);
    assert!(read.series_values("network.link_bytes_per_s", "eth4")[0].is_nan(), "one percent is too coarse");
    assert_eq!(read.series_values("network.received_drop_fraction", "eth3"), [0.01]);
    assert_eq!(read.series_values("network.tcp_retransmitted_fraction", ""), [0.05]);
}
