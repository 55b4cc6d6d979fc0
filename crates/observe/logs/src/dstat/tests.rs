//! Whole logs of the family, and broken ones.

use std::time::Duration;

use crate::LogOptions;
use crate::sysstat::testing::{ReadOutcome, read_bytes, read_text};

/// A log of dstat as it writes it; `rows` under two disks, their sum and processors.
fn log(program: &str, command: &str, rows: &str) -> String {
    format!(
        "\"{program} CSV output\"\n\"Author:\",\"a <a@b>\",,,,\"URL:\",\"http://x/\"\n\
         \"Host:\",\"db1\",,,,\"User:\",\"root\"\n\
         \"Cmdline:\",\"{command}\",,,,\"Date:\",\"21 Nov 2026 07:05:46 UTC\"\n\n\
         \"system\",\"total cpu usage\",,,,,\"dsk/total\",,\"dsk/sda\",,\"dsk/sda1\",,\"io/sda\",,\"sda\",\"procs\",,\n\
         \"time\",\"usr\",\"sys\",\"idl\",\"wai\",\"stl\",\"dsk/total:read\",\"dsk/total:writ\",\"dsk/sda:read\",\
         \"dsk/sda:writ\",\"dsk/sda1:read\",\"dsk/sda1:writ\",\"read\",\"writ\",\"util\",\"run\",\
         \"blk\",\"new\"\n{rows}"
    )
}

fn row(second: u32) -> String {
    let read = 1000 * second;
    format!("21-11 07:05:{second},40,10,45,5,0,{read},2,{read},4096,8,9,{second},20,62.5,3.0,1,2.5\n")
}

fn rows(seconds: std::ops::Range<u32>) -> String {
    seconds.map(row).collect()
}

fn seconds(read: &ReadOutcome) -> Vec<i64> {
    read.ticks.iter().map(|(time_ns, _)| time_ns / 1_000_000_000 - 1_795_244_700).collect()
}

#[test]
fn reads_a_log_of_dstat() {
    let read = read_text(&log("Dstat 0.7.3", "dstat -tcd", &rows(46..50)));
    assert_eq!(seconds(&read), [47, 48, 49]);
    for (counter, instance, value) in [
        ("processor.user", "_total", 0.4),
        ("processor.iowait", "_total", 0.05),
        ("physical_disk.write_bytes_per_s", "sda", 4096.0),
        ("logical_disk.write_bytes_per_s", "sda1", 9.0),
        ("physical_disk.writes_per_s", "sda", 20.0),
        ("physical_disk.busy", "sda", 0.625),
        ("system.blocked", "", 1.0),
        ("foreign.dsk-total.writ", "", 2.0),
    ] {
        assert_eq!(read.series_values(counter, instance), [value; 3], "{counter} {instance}");
    }
    assert_eq!(read.series_values("physical_disk.read_bytes_per_s", "sda"), [47e3, 48e3, 49e3]);
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.host.as_str()), ("dstat-csv", "db1"));
    let skips: Vec<_> = summary.skipped.iter().map(|s| (s.context.as_str(), s.reason.as_str())).collect();
    assert_eq!(skips, [("line 8", "the first row of dstat and dool covers the time since boot")]);
    // the log names its zone
    assert!(read.notes.iter().all(|n| n.kind != "warning"), "{:?}", read.notes);
}

#[test]
fn dool_writes_bits_of_disks_and_interfaces() {
    for (program, command, bytes) in
        [("dool 1.3.4", "dool -d", 512.0), ("dool 1.3.4", "dool -d --bytes", 4096.0), ("dool 1.2.0", "dool", 4096.0)]
    {
        let read = read_text(&log(program, command, &rows(46..48)));
        assert_eq!(read.series_values("physical_disk.write_bytes_per_s", "sda"), [bytes], "{program}: {command}");
        // requests are no bytes
        assert_eq!(read.series_values("physical_disk.writes_per_s", "sda"), [20.0], "{program}: {command}");
    }
    let full_text = log("dool 1.3.4", "dool -d", &rows(46..48));
    let read = read_text(&full_text.split_once("\n\n").unwrap().1.replace("21-11 ", "2026-11-21 "));
    assert!(read.series_values("physical_disk.write_bytes_per_s", "sda")[0].is_nan(), "nobody says what it counts");
    assert!(read.summary.unwrap().skipped.iter().any(|s| s.reason.contains("bits (dool)")));
}

#[test]
fn appended_runs_begin_again() {
    let first = log("Dstat 0.7.3", "dstat -tcd", &rows(10..13));
    let second = log("Dstat 0.7.3", "dstat -tcd", &rows(50..53));
    let (_, appended) = second.split_once('\n').unwrap();
    let read = read_text(&format!("{first}\n\n{appended}"));
    assert_eq!(seconds(&read), [11, 12, 51, 52]);
    let because = "the first row of dstat and dool covers the time since boot";
    assert_eq!(
        read.summary.unwrap().skipped.iter().map(|s| (s.reason.as_str(), s.count)).collect::<Vec<_>>(),
        [(because, 2)]
    );
    // of another machine
    let other = format!("{first}\n\n{}", appended.replace("db1", "db2"));
    assert_eq!(seconds(&read_text(&other)), [11, 12]);
    let options = LogOptions { host: Some("DB2".into()), ..LogOptions::default() };
    assert_eq!(seconds(&read_bytes(other.as_bytes(), &options)), [51, 52]);
}

#[test]
fn reads_epochs_and_counts_missing_times() {
    let title = log("Dstat 0.7.3", "dstat -c 5", "");
    let title = title.split_once("\n\n").unwrap().0;
    let epochs =
        "\n\"epoch\",\"load avg\",,\n\"epoch\",\"1m\",\"5m\",\"15m\"\n1795244746.1,1,2,3\n1795244756.25,1,2,3\n";
    let read = read_text(&format!("{title}\n{epochs}"));
    assert_eq!(read.ticks, [(1_795_244_756_250_000_000, 10_150_000_000)]);
    let beyond = read_text(&format!("{title}\n{epochs}99999999999,1,2,3\n"));
    assert_eq!(beyond.ticks.len(), 1, "beyond what a moment can be");
    let without = "\n\"load avg\",,\n\"1m\",\"5m\",\"15m\"\n1,2,3\n1,2,3\n4,5,6\n";
    let read = read_text(&format!("{title}\n{without}"));
    assert_eq!((seconds(&read), read.ticks[0].1), (vec![51, 56], 5_000_000_000));
    assert!(read.notes.iter().any(|n| n.kind == "warning" && n.text().contains("no timestamps")));
    let options = LogOptions { interval: Some(Duration::from_secs(60)), ..LogOptions::default() };
    assert_eq!(seconds(&read_bytes(format!("{title}\n{without}").as_bytes(), &options)), [106, 166]);
}

#[test]
fn reports_broken_rows_and_keeps_the_rest() {
    let good = rows(46..48);
    let cells = row(48);
    for (wrong, because) in [
        ("21-11 07:05:48,1,2\n".to_owned(), "fewer cells"),
        (cells.replace('\n', ",9\n"), "more cells"),
        (cells.replace("62.5", "much"), "text where a number"),
        (cells.replace("62.5", "-62.5"), "an impossible value: physical_disk.busy sda"),
        (cells.replace("62.5", "3035110221"), "an impossible value: physical_disk.busy sda"),
        (cells.replace("40,10,45,5,0", "0,0,0,0,0"), "all zero"),
        (cells.replace("40,10,45", "90,80,70"), "do not add up"),
        (cells.replace("21-11 07:05:48", "31-02 07:05:48"), "without a readable time"),
        (cells.replace("07:05:48", "07:05:40"), "time goes backwards"),
        (cells.trim_end().to_owned(), "incomplete"),
        ("\"rubbish\"\n".to_owned(), "neither a title"),
    ] {
        let read = read_text(&log("Dstat 0.7.3", "dstat", &format!("{good}{wrong}")));
        let rows = read.series_values("physical_disk.writes_per_s", "sda");
        assert_eq!(rows[0], 20.0, "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
    // what dstat has no value for is a gap, and nothing is wrong
    let read = read_text(&log("Dstat 0.7.3", "dstat", &format!("{good}{}", cells.replace("62.5", "-"))));
    assert!(read.series_values("physical_disk.busy", "sda")[1].is_nan());
    assert_eq!(read.summary.unwrap().skipped.len(), 1);
}

#[test]
fn a_log_cut_anywhere_yields_all_complete_rows() {
    let full_text = log("Dstat 0.7.3", "dstat", &rows(46..49));
    for cut in crate::sweep::sweep(full_text.len(), 120) {
        let read = read_text(&full_text[..cut]);
        assert!(read.ticks.len() <= 2, "cut at {cut}");
        for value in read.series_values("physical_disk.writes_per_s", "sda").iter().filter(|v| !v.is_nan()) {
            assert_eq!(*value, 20.0, "cut at {cut}");
        }
    }
}

#[test]
fn reads_lines_before_the_titles_and_lost_quotes() {
    let full_text = log("Dstat 0.7.3", "dstat", &rows(46..49));
    let read = read_text(&format!("nohup: ignoring input\n{full_text}"));
    assert_eq!(read.series_values("physical_disk.writes_per_s", "sda"), [20.0; 2]);
    let read = read_text(&full_text.replace('"', "").replace('\n', "\r\n"));
    assert_eq!(read.series_values("physical_disk.writes_per_s", "sda"), [20.0; 2]);
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in [
        ("25-10", ["02:59:40", "02:59:45", "02:59:50", "02:59:55", "02:00:00", "02:00:05"]),
        ("29-03", ["01:59:40", "01:59:45", "01:59:50", "01:59:55", "03:00:00", "03:00:05"]),
    ] {
        let one = |clock: &&str| row(46).replace("21-11 07:05:46", &format!("{day} {clock}"));
        let rows: String = clocks.iter().map(one).collect();
        let text = log("Dstat 0.7.3", "dstat", &rows).replace("21 Nov 2026 07:05:46 UTC", "01 Jun 2026 07:05:46 CEST");
        let read = read_text(&text);
        let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
        assert_eq!(lengths, [5; 5], "{day}");
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count("clock"), note_count("gap")), (1, 0), "{day}");
    }
}
