//! Loops over files of /proc: growth from dump to dump, whatever lines separate the dumps.

use std::time::Duration;

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::Note;
use diskwright_logs::LogOptions;

fn read_with_options(text: &str, options: &LogOptions) -> ReadLog {
    read_as_format("proc-loop", text, options)
}

fn read_loop(text: &str) -> ReadLog {
    read_with_options(text, &LogOptions::default())
}

/// Makes lines of diskstats of a kernel with this many fields per line, after `n` times 100 reads of 8 sectors.
fn make_diskstats(fields: usize, n: u64) -> String {
    let numbers = |scale: u64| {
        let all = [100, 1, 800, 50, 200, 2, 1600, 500, 0, 300, 900, 4, 0, 64, 8, 5, 40].map(|one| one * scale * n);
        all[..fields - 3].iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let zeros = vec!["0"; fields - 3].join(" ");
    format!("   7       0 loop0 {zeros}\n   8       0 sda {}\n   8       1 sda1 {}\n", numbers(10), numbers(1))
}

fn make_date(n: u64) -> String {
    format!("Mon Nov 23 17:{:02}:{:02} UTC 2026\n", 30 + n / 6, n % 6 * 10)
}

#[test]
fn totals_of_every_kernel_become_growth() {
    for fields in [14, 18, 20] {
        let text: String = (1..6).map(|n| make_date(n) + &make_diskstats(fields, n)).collect();
        let read = read_loop(&text);
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0, 10.0]);
        assert_eq!(read.ticks[0].0, 1_795_455_010.0);
        for (counter, instance, value) in [
            ("physical_disk.reads", "sda", 1000.0),
            ("physical_disk.read_bytes", "sda", 8000.0 * 512.0),
            ("physical_disk.write_time_s", "sda", 5.0),
            ("physical_disk.busy_time_s", "sda", 3.0),
            ("physical_disk.stalled", "sda", 0.0),
            ("logical_disk.write_bytes", "sda1", 1600.0 * 512.0),
        ] {
            assert_eq!(read.growth_values(counter, instance), [value; 4], "{counter} of {fields}");
        }
        let has = |counter: &str| !read.column_values(counter, "sda")[1].is_nan();
        assert_eq!((has("physical_disk.discards"), has("physical_disk.flushes")), (fields > 14, fields > 18));
        // a loop device that nothing uses is no disk
        assert!(read.cells.iter().all(|cells| cells.keys().all(|(_, instance)| instance != "loop0")));
        assert!(read.skip_counts().is_empty(), "{:?}", read.skip_counts());
    }
}

#[test]
fn reads_all_files_of_a_dump_with_several_times() {
    let dump = |n: u64| {
        let stat = format!(
            "cpu  {} 0 {} {} 0 0 0 0 0 0\ncpu0 {} 0 0 0 0 0 0 0 0 0\nintr {} 1 2\nctxt {}\nbtime 17\nprocs_running 3\n",
            n * 500,
            n * 250,
            n * 250,
            n * 5,
            n * 70,
            n * 90
        );
        let memory =
            format!("MemTotal:       1000 kB\nMemFree:  {} kB\nActive(anon):  5 kB\nHugePages_Total: 0\n", 100 + n);
        let vmstat = format!(
            "nr_free_pages 7\npgscan_kswapd {}\npgscan_direct {}\npgpgin {}\npswpin {}\n",
            n * 10,
            n,
            n * 40,
            n * 2
        );
        let load = format!("0.{:02} 0.50 1.00 2/300 4{n}\n", n * 10);
        let seconds = 1_795_455_000 + n * 10;
        // a time before each file, as loops with several dates have it
        format!(
            "{seconds}\n{}{seconds}\n==> /proc/stat <==\n{stat}\n{}{memory}{vmstat}{load}\n",
            make_diskstats(20, n),
            make_date(n)
        )
    };
    let read = read_loop(&(1..4).map(dump).collect::<String>());
    assert_eq!(read.ticks.len(), 3, "{:?}", read.ticks);
    for (counter, instance, value) in [
        ("physical_disk.reads", "sda", 1000.0),
        ("processor.user_s", "_total", 5.0),
        ("processor.user_s", "cpu0", 0.05),
        ("system.context_switches", "", 90.0),
        ("system.interrupts", "", 70.0),
        ("paging.scanned_pages", "", 11.0),
        ("paging.scanned_direct_pages", "", 1.0),
        ("paging.block_in_bytes", "", 40.0 * 1024.0),
        ("paging.swap_in_pages", "", 2.0),
    ] {
        assert_eq!(read.growth_values(counter, instance), [value; 2], "{counter}");
    }
    assert_eq!(read.column_values("memory.free_bytes", ""), [101.0, 102.0, 103.0].map(|kib| kib * 1024.0));
    assert_eq!(read.column_values("system.load_1", ""), [0.1, 0.2, 0.3]);
    assert_eq!(read.column_values("system.running", ""), [3.0; 3]);
    let topology = read.notes.iter().find(|note| note.kind == Note::TOPOLOGY).expect("a machine");
    assert!(topology.text().contains("\"processors\":1") && topology.text().contains("1024000"), "{}", topology.text());
}

#[test]
fn reads_the_same_values_from_vmstat() {
    let dump = |n: u64| {
        let disks = "disk- ------------reads------------ ------------writes----------- -----IO------\n       \
                     total merged sectors      ms  total merged sectors      ms    cur    sec\n";
        let summary = format!(
            "      1000 K total memory\n       900 K used memory\n       {} K free memory\n     \
             {} non-nice user cpu ticks\n  {} pages paged in\n {} CPU context switches\n 1795450000 boot time\n",
            100 - n,
            n * 500,
            n * 40,
            n * 90
        );
        format!(
            "2026-11-23 17:{:02}:00+0000\n{disks}sda {} 0 {} 50 0 0 0 0 1 {}\n{summary}",
            30 + n,
            n * 100,
            n * 800,
            n * 6
        )
    };
    let dump = |n: u64| dump(n).replace(":00+0000", ":00 +0000");
    let read = read_loop(&(1..5).map(dump).collect::<String>());
    assert_eq!(read.growth_values("physical_disk.reads", "sda"), [100.0; 3], "{:?}", read.skip_counts());
    assert_eq!(read.growth_values("physical_disk.busy_time_s", "sda"), [6.0; 3]);
    assert_eq!(read.column_values("physical_disk.current_queue_length", "sda"), [1.0; 4]);
    assert_eq!(read.growth_values("processor.user_s", "_total"), [5.0; 3]);
    assert_eq!(read.growth_values("paging.block_in_bytes", ""), [40.0 * 1024.0; 3]);
    assert_eq!(read.column_values("memory.free_bytes", "")[0], 99.0 * 1024.0);
    assert!(read.skip_counts().is_empty(), "{:?}", read.skip_counts());
}

#[test]
fn ignores_whole_seconds_over_a_short_time() {
    let dump = |n: u64| format!("{}\ndisk- -reads-\nsda {} 0 0 0 0 0 0 0 0 {}\n", 1_795_455_000 + n, n, n / 2);
    let read = read_loop(&(1..5).map(dump).collect::<String>());
    assert_eq!(read.growth_values("physical_disk.reads", "sda"), [1.0; 3]);
    assert!(read.growth_values("physical_disk.busy_time_s", "sda").iter().all(|busy| busy.is_nan()));
}

#[test]
fn dumps_without_times_show_levels_and_need_an_interval_for_more() {
    let text: String = (1..5).map(|n| make_diskstats(14, n)).collect();
    let counted = read_loop(&text);
    assert_eq!(counted.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 1.0, 1.0, 1.0]);
    assert!(counted.growth_values("physical_disk.reads", "sda").iter().all(|reads| reads.is_nan()));
    // processors count time
    let with_stat = |n: u64| {
        let stat = format!("cpu {} 0 0 {} 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0\n", 400 * n, 1600 * n);
        stat + &make_diskstats(14, n)
    };
    let timed = read_loop(&(1..5).map(with_stat).collect::<String>());
    assert_eq!(timed.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0]);
    assert_eq!(timed.growth_values("physical_disk.reads", "sda"), [1000.0; 3]);
    let options = LogOptions { interval: Some(Duration::from_secs(5)), ..LogOptions::default() };
    let read = read_with_options(&text, &options);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 5.0, 5.0, 5.0]);
    assert_eq!(read.growth_values("physical_disk.reads", "sda"), [1000.0; 3]);
    assert!(read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("no times")));
}

#[test]
fn reads_times_behind_dumps_and_clocks_without_a_day() {
    let behind: String = (1..5).map(|n| make_diskstats(14, n) + &make_date(n)).collect();
    let read = read_loop(&behind);
    assert_eq!((read.ticks.len(), read.ticks[0].0), (4, 1_795_455_010.0));
    assert_eq!(read.growth_values("physical_disk.reads", "sda"), [1000.0; 3]);
    // a log that was cut within a dump has its times in front all the same
    let full_text: String = (1..5).map(|n| make_date(n) + &make_diskstats(14, n)).collect();
    let cut = &full_text[full_text.find("   8       1").expect("a line")..];
    let read = read_loop(cut);
    assert_eq!(read.ticks.last().map(|t| t.0), Some(1_795_455_040.0));
    // across midnight
    let clocks = ["23:59:50", "00:00:00", "00:00:10"];
    let text: String = clocks.iter().zip(1..).map(|(clock, n)| format!("{clock}\n{}", make_diskstats(14, n))).collect();
    let read = read_loop(&text);
    assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0]);
    assert!(read.notes.iter().any(|note| note.text().contains("no date")));
}

#[test]
fn handles_numbers_that_wrap_go_back_or_come_late() {
    let line = |reads: u64, time: u64, flying: u64| format!("8 0 sda {reads} 0 0 {time} 0 0 0 0 {flying} 0 0\n");
    let dump = |n: u64, line: String| make_date(n) + &line + "9 9 md9 1 0 0 1 0 0 0 0 0 0 0\n";
    let text = dump(1, line(10, (1 << 32) - 1000, 0))
        + &dump(2, line(20, 500, 0))
        // another disk has the name
        + &dump(3, line(5, 100, 0))
        + &dump(4, line(7, 200, 0))
        // nothing completes while requests are in flight
        + &dump(5, line(7, 200, 3));
    let read = read_loop(&text);
    let reads = read.growth_values("physical_disk.reads", "sda");
    assert!(reads[0] == 10.0 && reads[1].is_nan() && reads[2..] == [2.0, 0.0], "{reads:?}");
    let times = read.growth_values("physical_disk.read_time_s", "sda");
    assert!(times[0] == 1.5 && times[1].is_nan() && times[2] == 0.1, "{times:?}");
    let stalled = read.growth_values("physical_disk.stalled", "sda");
    assert!(stalled[1].is_nan() && stalled[2..] == [0.0, 1.0], "{stalled:?}");
    assert_eq!(read.skip_counts(), [("a counter went back; this tick is a gap".to_owned(), 1)]);
    // a device that comes and goes is a gap, not what it did since boot
    let text = dump(1, line(10, 0, 0)) + &make_date(2) + "9 9 md9 1 0 0 1 0 0 0 0 0 0 0\n" + &dump(3, line(90, 0, 0));
    assert!(read_loop(&text).column_values("physical_disk.reads", "sda").iter().all(|reads| reads.is_nan()));
}

#[test]
fn a_restart_is_a_gap() {
    let text: String =
        [5, 6, 1, 2].iter().zip(1..).map(|(n, time)| make_date(time) + &make_diskstats(14, *n)).collect();
    let read = read_loop(&text);
    let reads = read.growth_values("physical_disk.reads", "sda");
    assert!(reads[0] == 1000.0 && reads[1].is_nan() && reads[2] == 1000.0, "{reads:?}");
    assert!(read.notes.iter().any(|note| note.kind == Note::GAP && note.text().contains("restart")));
}

#[test]
fn a_second_dump_at_the_same_time_loses_nothing() {
    let text = make_date(1)
        + &make_diskstats(14, 1)
        + &make_date(1)
        + &make_diskstats(14, 2)
        + &make_date(2)
        + &make_diskstats(14, 3);
    let read = read_loop(&text);
    assert_eq!(read.growth_values("physical_disk.reads", "sda"), [2000.0]);
    assert!(read.skip_counts()[0].0.contains("same time"));
}

/// Reads dumps with lines that are left out, each with a word of the reason; the rest is read.
#[test]
fn broken_lines_are_counted() {
    for (line, because) in [
        ("nohup: ignoring input\n", "neither"),
        ("8 0 sda 1 2 3\n", "neither"),
        ("8 0 sdb 1 2 3 4 5 6 7 8 9 10 11 12\n", "neither"),
        ("8 0 sdb 1 2 -3 4 5 6 7 8 9 10 11\n", "neither"),
        ("8 0 sdb 99999999999999999999999 2 3 4 5 6 7 8 9 10 11\n", "neither"),
        ("MemFree: lots kB\n", "neither"),
        ("cat: /proc/pressure/io: No such file or directory\n", "neither"),
        ("\u{fffd}\u{fffd}\n", "neither"),
        ("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n", "a repeated line"),
    ] {
        let dump = |n: u64| make_date(n) + &make_diskstats(14, n) + if n == 2 { line } else { "" };
        let read = read_loop(&(1..4).map(dump).collect::<String>());
        assert_eq!(read.growth_values("physical_disk.reads", "sda"), [1000.0; 2], "{line}");
        let skipped = read.skip_counts();
        assert!(skipped.len() == 1 && skipped[0].0.contains(because), "{line}: {skipped:?}");
    }
}

#[test]
fn a_loop_cut_anywhere_yields_all_complete_dumps() {
    let full_text: String = (1..4).map(|n| make_date(n) + &make_diskstats(14, n)).collect();
    let second = full_text.match_indices("Mon").nth(2).expect("three dumps").0;
    for cut in crate::sweep::sweep(full_text.len(), 120) {
        let read = read_loop(&full_text[..cut]);
        assert!(read.ticks.len() <= 3, "cut at {cut}");
        if cut >= second {
            assert_eq!(read.column_values("physical_disk.reads", "sda")[1], 1000.0, "cut at {cut}");
        }
    }
}

/// The output of `date` names the zone, with which a change is no jump; with an ambiguous name it is one.
#[test]
fn named_zones_keep_their_time_over_a_change() {
    for (day, zones, hour, first_s) in [
        ("Sun Oct 25", ["BST", "GMT"], ["01", "01"], 1_792_889_980),
        ("Sun Nov  1", ["CDT", "CST"], ["01", "01"], 1_793_516_380),
        ("Sun Apr  5", ["AEDT", "AEST"], ["02", "02"], 1_775_318_380),
        ("Sun Apr  5", ["NZDT", "NZST"], ["02", "02"], 1_775_357_980),
    ] {
        let clocks = ["59:40", "59:50", "00:00", "00:10"];
        let dump = |(n, clock): (u64, &str)| {
            let half = usize::from(n > 2);
            format!("{day} {}:{clock} {} 2026\n{}", hour[half], zones[half], make_diskstats(20, n))
        };
        let read = read_loop(&(1..).zip(clocks).map(dump).collect::<String>());
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0], "{zones:?}");
        assert_eq!(read.ticks[0].0.round() as i64, first_s, "{zones:?}");
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in [
        ("2026-10-25", ["02:59:40", "02:59:50", "02:00:00", "02:00:10"]),
        ("2026-03-29", ["01:59:40", "01:59:50", "03:00:00", "03:00:10"]),
    ] {
        let dump = |(n, clock): (u64, &str)| format!("{day} {clock}\n{}", make_diskstats(20, n));
        let read = read_loop(&(1..).zip(clocks).map(dump).collect::<String>());
        assert_eq!(read.ticks.iter().map(|t| t.1).collect::<Vec<_>>(), [0.0, 10.0, 10.0, 10.0], "{day}");
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
    }
}

#[test]
fn a_single_dump_that_lists_its_processors_gives_averages_since_boot() {
    // two processors, up for 1000 s
    let stat = "cpu  40000 0 20000 100000 40000 0 0 0 0 0\ncpu0 20000 0 10000 50000 20000 0 0 0 0 0\n\
                cpu1 20000 0 10000 50000 20000 0 0 0 0 0\nctxt 5000000\n";
    let read = read_loop(&(make_date(1) + stat + &make_diskstats(14, 50)));
    assert_eq!(read.ticks.iter().map(|tick| tick.1.round()).collect::<Vec<_>>(), [1000.0]);
    assert_eq!(read.column_values("system.context_switches", ""), [5_000_000.0]);
    assert_eq!(read.column_values("physical_disk.reads", "sda"), [50_000.0]);
    assert!(read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("averages since boot")));
    // without them its length is not known
    let read = read_loop(&(make_date(1) + &make_diskstats(14, 50)));
    assert!(
        read.skip_counts().iter().any(|(because, _)| because.contains("rates need two dumps")),
        "{:?}",
        read.skip_counts()
    );
}
