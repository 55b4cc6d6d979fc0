//! `top -b`: levels of every frame, shares of all but the first of each run.

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::{Note, ProcessTable};
use diskwright_logs::LogOptions;
use std::sync::Arc;

fn read_top(text: &str) -> ReadLog {
    read_as_format("top-text", text, &LogOptions::default())
}

const ROW: &str = "  812 mysql 20 0 8715212 6.4g 6944 D 50.0 41.3 414:09.42 mysqld --port 3306\n";

/// Makes a frame whose processor is idle for this many percent.
fn make_frame(clock: &str, idle: f64, rows: &str) -> String {
    format!(
        "top - {clock} up 54 min,  1 user,  load average: 1.50, 0.50, 0.60\nTasks:  95 total,   1 running\n\
         %Cpu(s): {:.1} us,  5.0 sy,  0.0 ni, {idle:.1} id, 14.0 wa,  0.5 hi,  0.5 si,  0.0 st\n\
         KiB Mem :  1000 total,   200 free,   300 used,   500 buff/cache\n\
         KiB Swap:  100 total,  60 free,  40 used.  833 avail Mem \n\n\
         PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND\n{rows}\n",
        80.0 - idle
    )
}

fn process_tables(read: &ReadLog) -> Vec<ProcessTable> {
    let notes = read.notes.iter().filter(|note| note.kind == Note::PROCESSES);
    notes.map(|note| Arc::unwrap_or_clone(note.read_processes().expect("a table"))).collect()
}

#[test]
fn reads_a_run_of_top() {
    let clocks = ["17:30:00", "17:30:10", "17:30:20"];
    let text: String = clocks.iter().map(|clock| make_frame(clock, 70.0, ROW)).collect();
    let read = read_top(&("Mon Nov 23 17:29:59 UTC 2026\n".to_owned() + &text));
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0]);
    assert_eq!(read.ticks[0].0, 1_795_455_000.0);
    for (counter, instance, value) in [
        ("processor.idle", "_total", 0.7),
        ("processor.user", "_total", 0.1),
        ("processor.iowait", "_total", 0.14),
        ("processor.softirq", "_total", 0.005),
    ] {
        assert_eq!(read.growth_values(counter, instance), [value; 2], "{counter}");
    }
    assert_eq!(read.column_values("memory.available_bytes", ""), [833.0 * 1024.0; 3]);
    assert_eq!(read.column_values("system.load_1", ""), [1.5; 3]);
    let tables = process_tables(&read);
    assert_eq!((tables.len(), tables[0].elapsed_s), (2, 10.0));
    let row = &tables[0].rows[0];
    assert_eq!((row.pid, row.name.as_str(), row.processor), (812, "mysqld", 0.5));
    assert_eq!(row.command_line.as_deref(), Some("mysqld --port 3306"));
    assert_eq!((row.blocked_share, row.resident_bytes), (1.0, 6.4 * 1_073_741_824.0));
    assert!(read.notes.iter().all(|note| note.kind != Note::WARNING), "{:?}", read.notes);
}

#[test]
fn frames_of_short_intervals_share_a_table() {
    let text: String = (0..26).map(|s| make_frame(&format!("17:30:{s:02}"), 70.0, ROW)).collect();
    let read = read_top(&text);
    let tables = process_tables(&read);
    assert_eq!(tables.iter().map(|t| t.elapsed_s).collect::<Vec<_>>(), [10.0, 10.0, 5.0]);
    assert!(tables.iter().all(|t| (t.rows[0].processor - 0.5).abs() < 1e-9));
    assert!(read.notes.iter().any(|note| note.text().contains("no date")));
}

/// `top -b -n 1` in a loop: each frame is the first of its run.
#[test]
fn leaves_out_shares_since_boot() {
    let once = |clock: &str| make_frame(clock, 70.0, ROW).trim_end().to_owned() + "\n";
    let between = |clock: &str, date: &str| date.to_owned() + &once(clock);
    for dates in [["", "", ""], ["2026-11-23 17:30:00\n", "2026-11-23 17:31:00\n", "2026-11-23 17:32:00\n"]] {
        let text: String =
            ["17:30:00", "17:31:00", "17:32:00"].iter().zip(dates).map(|(clock, date)| between(clock, date)).collect();
        let read = read_top(&text);
        assert_eq!(read.column_values("system.load_1", ""), [1.5; 3]);
        assert!(read.column_values("processor.idle", "_total").iter().all(|idle| idle.is_nan()));
        assert!(process_tables(&read).is_empty());
        assert!(read.skip_counts().iter().any(|(because, times)| because.contains("since boot") && *times == 3));
    }
}

#[test]
fn passes_midnight_and_ignores_threads() {
    let text = make_frame("23:59:55", 70.0, ROW) + &make_frame("00:00:05", 70.0, ROW);
    assert_eq!(read_top(&text).ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0]);
    let threads =
        (make_frame("17:30:00", 70.0, ROW) + &make_frame("17:30:10", 70.0, ROW)).replace("Tasks:", "Threads:");
    assert!(process_tables(&read_top(&threads)).is_empty());
}

/// Impossible shares, and lines that are not top's, become gaps and counts, never values.
#[test]
fn reports_broken_frames() {
    let good = make_frame("17:30:00", 70.0, ROW);
    for (from, to, because) in [
        ("70.0 id", " 0.0 id", "do not add up"),
        ("70.0 id", "170.0 id", "impossible"),
        (
            "10.0 us,  5.0 sy,  0.0 ni, 70.0 id, 14.0 wa,  0.5 hi,  0.5 si",
            "0 us, 0 sy, 0 ni, 0 id, 0 wa, 0 hi, 0 si",
            "all zero",
        ),
        ("17:30:10", "17:30:00", "not later"),
        ("%Cpu(s): 10.0 us", "%Cpu(s): many us", "do not add up"),
        ("KiB Mem :", "KiB Memory :", "not of top"),
        ("8715212 6.4g", "8715212", "not a process"),
        (" D 50.0 ", " D -50.0 ", "not a process"),
    ] {
        let second = make_frame("17:30:10", 70.0, ROW).replacen(from, to, 1);
        let read = read_top(&(good.clone() + &second + &make_frame("17:30:20", 60.0, ROW)));
        let idle = read.column_values("processor.idle", "_total");
        assert_eq!(idle.last(), Some(&0.6), "{to}");
        assert!(
            read.skip_counts().iter().any(|(reason, _)| reason.contains(because)),
            "{to}: {:?}",
            read.skip_counts()
        );
        if because.contains("add up") || because.contains("cannot") || because.contains("zero") {
            assert!(idle[1].is_nan(), "{to}: {idle:?}");
        }
    }
    for cut in 0..good.len() {
        let read = read_top(&(good.clone() + &good.replace("17:30:00", "17:30:10")[..cut]));
        assert!(read.summary.is_ok(), "cut at {cut}");
    }
}

/// Dates and clocks of changes from and to summer time, ten seconds apart.
const CHANGES: [(&str, [&str; 4]); 2] = [
    ("2026-10-25", ["02:59:40", "02:59:50", "02:00:00", "02:00:10"]),
    ("2026-03-29", ["01:59:40", "01:59:50", "03:00:00", "03:00:10"]),
];

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in CHANGES {
        let text: String = clocks.iter().map(|clock| make_frame(clock, 70.0, ROW)).collect();
        let read = read_top(&format!("{day} {}\n{text}", clocks[0]));
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0], "{day}");
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
    }
}

/// A loop of `date +%s` or `date -u` and top, whose clock shows the machine's zone.
#[test]
fn clocks_below_a_time_of_utc_are_local() {
    // 1795455000 is 17:30:00 UTC
    for (ahead_s, clocks) in [
        (0, ["17:30:01", "17:30:11"]),
        (32_400, ["02:30:01", "02:30:11"]),
        (-18_000, ["12:30:01", "12:30:11"]),
        (46_800, ["06:30:01", "06:30:11"]),
    ] {
        for above in [["1795455000\n", "1795455010\n"], ["Mon Nov 23 17:30:00 UTC 2026\n", ""]] {
            let one = |(date, clock): (&str, &str)| date.to_owned() + &make_frame(clock, 70.0, ROW);
            let read = read_top(&above.into_iter().zip(clocks).map(one).collect::<String>());
            let moments: Vec<i64> = read.ticks.iter().map(|t| t.0.round() as i64).collect();
            assert_eq!(moments, [1_795_455_001, 1_795_455_011], "{above:?}");
            let offset_s = read.summary.as_ref().expect("read").offset_s.unwrap_or(0);
            assert_eq!(offset_s, ahead_s, "{above:?}");
        }
    }
}

#[test]
fn processes_of_the_first_of_two_frames_show_what_a_moment_shows() {
    let waiting = "  901 app 20 0 9120440 1.2g 9120 D 0.0 31.0 88:12.40 worker --all\n";
    let frames = [make_frame("17:30:00", 70.0, &format!("{ROW}{waiting}")), make_frame("17:30:05", 70.0, ROW)];
    for text in
        [frames.concat(), frames.concat().lines().filter(|line| !line.is_empty()).map(|l| format!("{l}\n")).collect()]
    {
        let read = read_top(&text);
        assert_eq!(read.column_values("system.blocked", "").first(), Some(&2.0), "{text}");
        // without blank lines the frames are of one run too
        assert_eq!(read.growth_values("processor.iowait", "_total"), [0.14], "{text}");
        let tables = process_tables(&read);
        let row = tables[0].rows.iter().find(|row| row.pid == 901).expect("the process of the first frame");
        assert_eq!((row.blocked_share, row.resident_bytes, row.processor), (0.5, 1.2 * 1_073_741_824.0, 0.0));
    }
}
