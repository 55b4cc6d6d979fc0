//! Times of day before rows: in every script, over midnight, and where the clocks change.

use diskwright_base::Note;

use super::{HEAD, seconds};
use crate::sysstat::testing::read_text;

#[test]
fn reads_midnights_half_day_clocks_and_restarts() {
    let text = format!(
        "{HEAD}11:59:40 PM CPU %user\n11:59:50 PM all 1.0\n12:00:00 AM all 2.0\n\n11:59:40 PM tps rtps\n\
         11:59:50 PM 1 1\n12:00:00 AM 2 2\n\n12:10:00 AM LINUX RESTART (4 CPU)\n12:11:00 AM COM went off\n\n\
         12:12:00 AM CPU %user\n12:13:00 AM all 9.0\n"
    );
    let read = read_text(&text);
    assert_eq!(seconds(&read), [(86_390, 10), (86_400, 10), (86_400 + 780, 60)]);
    assert_eq!(read.series_values("foreign.io.tps", "")[..2], [1.0, 2.0]);
    let gap = read.notes.iter().find(|n| n.text().contains("restarted")).unwrap();
    assert_eq!(gap.time_ns / 1_000_000_000, 20_778 * 86_400 + 86_400 + 600);
    assert!(read.notes.iter().any(|n| n.kind == "bookmark" && n.text() == "went off"));
}

#[test]
fn reads_pidstat_with_headings_behind_a_hash() {
    for (heading, time) in [
        ("#      Time   UID       PID    %usr %system  %CPU   CPU  Command", "1795267219"),
        ("#Time   UID       PID    %usr %system  %CPU   CPU  Command", "13:20:19"),
        ("# Time   UID       PID    %usr %system  %CPU   CPU  Command", "13:20:19"),
    ] {
        let later = time.replace("19", "29").replace("1729", "1719");
        let later = if time.len() == 10 { "1795267229" } else { later.as_str() };
        let text = format!(
            "{HEAD}{heading}\n {time} 0 77 1.0 2.0 3.0 1 prog\nnohup: ignoring input\n{heading}\n {later} 0 77 \
             1.0 2.0 3.0 1 prog\n"
        );
        let read = read_text(&text);
        let moments: Vec<i64> = seconds(&read).iter().map(|(moment, _)| *moment).collect();
        assert_eq!(moments, [48_019, 48_029], "{heading}");
        assert!(read.notes.iter().any(|n| n.kind == "processes" && n.text().contains("prog")), "{heading}");
    }
}

#[test]
fn reads_clocks_of_all_scripts_before_rows() {
    for (first, second) in [
        ("20時45分02秒", "20時45分12秒"),
        ("午後08時45分02秒", "午後08時45分12秒"),
        ("20시 45분 02초", "20시 45분 12초"),
        ("下午 08时45分02秒", "下午 08时45分12秒"),
        ("08:45:02 μμ", "08:45:12 μμ"),
        ("20.45.02", "20.45.12"),
    ] {
        let read = read_text(&format!("{HEAD}{first} CPU %user %idle\n{second} all 2.15 97.85\n"));
        assert_eq!(seconds(&read), [(74_712, 10)], "{second}");
        assert_eq!(read.series_values("processor.user", "_total"), [0.0215], "{second}");
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in [
        ("2026-10-25", ["02:30:01", "02:40:01", "02:50:01", "02:00:01", "02:10:01"]),
        ("2026-03-29", ["01:30:01", "01:40:01", "01:50:01", "03:00:01", "03:10:01"]),
    ] {
        let head = HEAD.replace("2026-11-21", day);
        let table = |headings: &str, row: &str, clocks: &[&str]| {
            let rows: String = clocks[1..].iter().map(|clock| format!("{clock} {row}\n")).collect();
            format!("{} {headings}\n{rows}\n", clocks[0])
        };
        let both = |clocks: &[&str]| {
            table("CPU %user %idle", "all 10.00 90.00", clocks)
                + &table("DEV tps aqu-sz await", "sda 5.00 0.50 2.00", clocks)
        };
        // a table over all the time, as sar prints a file, and both tables at each tick, as it prints while it runs
        for tables in [both(&clocks), clocks.windows(2).map(both).collect()] {
            let read = read_text(&(head.clone() + &tables));
            let lengths: Vec<u64> = read.ticks.iter().map(|(_, ns)| ns / 1_000_000_000).collect();
            assert_eq!(lengths, [600; 4], "{day}: {:?}", read.summary);
            let apart: Vec<i64> = read.ticks.windows(2).map(|two| (two[1].0 - two[0].0) / 1_000_000_000).collect();
            assert_eq!(apart, [600; 3], "{day}");
            assert_eq!(read.series_values("processor.user", "_total"), [0.1; 4], "{day}");
            assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda"), [5.0; 4], "{day}");
            let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
            assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
        }
    }
}

/// The second begins an hour before the end of the first, where its next row would be due.
#[test]
fn two_outputs_of_the_same_hour_are_no_change_of_the_clocks() {
    let hour = |row: &str| {
        let rows: String = (1..=6).map(|n| format!("{:02}:{:02}:01 {row}\n", 2 + n / 6, n % 6 * 10)).collect();
        format!("02:00:01 CPU %user %idle\n{rows}\n")
    };
    for head in [HEAD, ""] {
        let read = read_text(&format!("{HEAD}{}{head}{}", hour("all 10.00 90.00"), hour("0 10.00 90.00")));
        assert_eq!(read.ticks.len(), 6, "{head}");
    }
}
