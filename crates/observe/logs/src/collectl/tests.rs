//! Whole tables and recordings, and broken ones.

use diskwright_base::Note;

use crate::LogOptions;
use crate::sysstat::testing::{ReadOutcome, read_bytes, read_text};

const HEAD: &str = "################\n# Collectl:   V4.3.1-1  HiRes: 1  Options: -sCD\n\
    # Host:       db1  DaemonOpts: \n\
    # Date:       20261121-070546  Secs: 1795244746 TZ: +0100\n# SubSys:     CD Options:  Interval: 10 NumCPUs: 2\n\
    # HZ:         250  Arch: x86_64 PageSize: 4096\n# Kernel: 6.1.0  Memory: 2048 kB  Swap: 0 kB\n################\n";

const COLUMNS: &str = "#Date Time [CPU]User% [CPU]Idle% [CPU]Ctx/sec [CPU]BlkTot [CPU:1]User% [CPU:1]Idle% [MEM]Free \
    [DSK]ReadTot [DSK:sda]Name [DSK:sda]Reads [DSK:sda]RKBytes [DSK:sda]WaitR [DSK:sda]QueLen [DSK:sda]Util \
    [DSK:sda1]Reads [NET:eth0]RxKB\n";

fn row(second: u32) -> String {
    format!("20261121 07:05:{second} 30 70 500 1 40 60 1024 9 sda {second} 8 2 7 62 3 4\n")
}

fn table() -> String {
    HEAD.to_owned() + COLUMNS + &(46..49).map(row).collect::<String>()
}

fn expect_table(read: &ReadOutcome) {
    for (counter, instance, value) in [
        ("processor.user", "_total", 0.3),
        ("processor.idle", "cpu1", 0.6),
        ("system.context_switches_per_s", "", 500.0),
        ("system.blocked", "", 1.0),
        ("memory.free_bytes", "", 1_048_576.0),
        ("physical_disk.read_bytes_per_s", "sda", 8192.0),
        ("physical_disk.avg_s_per_read", "sda", 0.002),
        ("physical_disk.busy", "sda", 0.62),
        ("logical_disk.reads_per_s", "sda1", 3.0),
        ("foreign.DSK.QueLen", "sda", 7.0),
        ("foreign.DSK.ReadTot", "", 9.0),
        ("network.received_bytes_per_s", "eth0", 4096.0),
    ] {
        assert_eq!(read.series_values(counter, instance), [value; 3], "{counter} {instance}");
    }
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sda"), [46.0, 47.0, 48.0]);
    assert_eq!(read.series_values("physical_disk.avg_read_queue_length", "sda"), [0.092, 0.094, 0.096]);
    // an hour east of UTC
    assert_eq!(read.ticks[0], (1_795_241_146_000_000_000, 0));
    assert_eq!(read.ticks[1].1, 1_000_000_000);
}

#[test]
fn reads_tables_with_any_separator() {
    for separator in [" ", ",", "\t", ";"] {
        let (head, rows) = (HEAD.to_owned(), table().split_off(HEAD.len()));
        let read = read_text(&(head + &rows.replace(' ', separator)));
        expect_table(&read);
        let summary = read.summary.unwrap();
        assert_eq!((summary.format, summary.host.as_str(), summary.skipped.len()), ("collectl-table", "db1", 0));
    }
}

#[test]
fn reads_other_times_and_repeated_heads() {
    let read = read_text("#UTC [DSK:sda]Reads\n1795244746.5 1\n1795244747 2\n");
    assert_eq!(read.ticks, [(1_795_244_746_500_000_000, 0), (1_795_244_747_000_000_000, 500_000_000)]);
    let read = read_text("#Date Time [DSK:sda]Reads\n20261121 07:05:46.5 1\n");
    assert_eq!(read.ticks[0].0, 1_795_244_746_500_000_000);
    let again = table() + &table().replace("07:05", "09:05");
    let read = read_text(&again);
    assert_eq!(read.ticks[3].1, 0, "what was between two runs is nobody's time");
    let other = table() + &table().replace("07:05", "09:05").replace("db1", "db2");
    assert_eq!(read_text(&other).ticks.len(), 3);
    let options = LogOptions { host: Some("db2".into()), ..LogOptions::default() };
    assert_eq!(read_bytes(other.as_bytes(), &options).ticks.len(), 3);
}

#[test]
fn reports_broken_rows_of_tables() {
    for (wrong, because) in [
        ("20261121 07:05:50 30 70\n".to_owned(), "fewer cells"),
        (row(50).replace('\n', " 7\n"), "more cells"),
        (row(50).replace(" 62 ", " 3035110221 "), "an impossible value: physical_disk.busy sda"),
        (row(50).replace(" 62 ", " x "), "text where a number"),
        (row(50).replace("30 70", "0 0"), "all zero"),
        (row(50).replace("20261121", "20261341"), "without a readable time"),
        (row(40), "time goes backwards"),
        (row(50).trim_end().to_owned(), "incomplete"),
        ("rubbish\n".to_owned(), "neither headings"),
    ] {
        let read = read_text(&(table() + &wrong));
        assert_eq!(read.series_values("physical_disk.reads_per_s", "sda")[0], 46.0, "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
}

fn sample(second: u64, reads: u64) -> String {
    format!(
        ">>> 17952447{second:02}.000 <<<\ncpu  {} 0 50 {} 0 0 0 0 0 0\ncpu1 0 0 0 {} 0 0 0 0 0 0\nctxt {}\n\
         procs_blocked 2\ndisk    8       0 sda {reads} 1 {} {} 5 6 7 8 3 {} 90 1 2 3 4 5 6\n\
         load 1.50 2 3 4/111 32065\nNet   eth0:    {}      29 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
         MemTotal:       2048 kB\nActive(anon):  1 kB\npgfault {}\n\
         proc:42 stat 42 (a ) b) S 0 0 0 0 -1 4194560 48554 0 7 0 {} 0 20 0 0\nproc:42 io read_bytes: {}\n\
         proc:42 VmRSS:\t 1024 kB\nSlab garbage\n",
        250 * second,
        250 * second,
        250 * second,
        100 * second,
        16 * reads,
        4 * reads,
        500 * second,
        1000 * second,
        3 * second,
        25 * second,
        4096 * second,
    )
}

fn recording() -> String {
    HEAD.to_owned() + &sample(10, 100) + &sample(20, 200) + &sample(30, 400)
}

#[test]
fn reads_the_growth_of_totals_in_each_tick() {
    let read = read_text(&recording());
    for (counter, instance, values) in [
        ("processor.user_s", "_total", [10.0, 10.0]),
        ("processor.idle_s", "cpu1", [10.0, 10.0]),
        ("system.context_switches", "", [1000.0, 1000.0]),
        ("system.blocked", "", [2.0, 2.0]),
        ("physical_disk.reads", "sda", [100.0, 200.0]),
        ("physical_disk.read_bytes", "sda", [819_200.0, 1_638_400.0]),
        ("physical_disk.read_time_s", "sda", [0.4, 0.8]),
        ("physical_disk.busy_time_s", "sda", [5.0, 5.0]),
        ("physical_disk.current_queue_length", "sda", [3.0, 3.0]),
        ("system.load_1", "", [1.5, 1.5]),
        ("network.received_bytes", "eth0", [10_000.0, 10_000.0]),
        ("memory.total_bytes", "", [2_097_152.0, 2_097_152.0]),
        ("paging.faults", "", [30.0, 30.0]),
    ] {
        assert_eq!(read.series_values(counter, instance)[1..], values, "{counter} {instance}");
    }
    assert!(read.series_values("physical_disk.reads", "sda")[0].is_nan(), "nothing is known before the first");
    let table = read.notes.iter().find(|n| n.kind == Note::PROCESSES).unwrap();
    let table = table.read_processes().unwrap();
    let row = &table.rows[0];
    assert_eq!((row.name.as_str(), row.processor, row.read_bytes_per_s), ("a ) b", 0.1, Some(4096.0)));
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.skipped.len()), ("collectl-raw", 0));
}

#[test]
fn time_between_two_recordings_belongs_to_no_sample() {
    let later = (sample(10, 100) + &sample(20, 200)).replace(">>> 17952447", ">>> 17952735");
    let read = read_text(&(recording() + HEAD + &later));
    let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
    assert_eq!(lengths, [0, 10, 10, 0, 10]);
    assert_eq!(read.series_values("system.blocked", "")[3], 2.0);
    assert!(read.notes.iter().any(|n| n.kind == Note::GAP), "{:?}", read.notes);
    // the last sample above a head is of the head before: its machine and its clock
    let one = read_text(&(HEAD.to_owned() + &sample(10, 100) + HEAD));
    assert_eq!(one.summary.unwrap().host, "db1");
}

#[test]
fn reports_broken_recordings() {
    for (wrong, because) in [
        (sample(40, 50), "totals went back"),
        (sample(40, 500).replace("disk    8       0 sda 500", "disk    8       0 sda x"), "text where a number"),
        (sample(25, 500), "time goes backwards"),
        (">>> x <<<\n".to_owned(), "a sample time that cannot be read"),
        (">>> 99999999999.000 <<<\n".to_owned(), "a sample time that cannot be read"),
        (">>> 1795244740.000 <<<\nctxt 9".to_owned(), "incomplete"),
    ] {
        let read = read_text(&(recording() + &wrong));
        assert_eq!(read.series_values("physical_disk.reads", "sda")[1..3], [100.0, 200.0], "{wrong}");
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
    // a disk that one sample lacks has no total of the next
    let text = HEAD.to_owned() + &sample(10, 1) + ">>> 1795244720.000 <<<\nctxt 5000\n" + &sample(30, 3);
    let read = read_text(&text);
    assert!(read.series_values("physical_disk.reads", "sda").iter().all(|v| v.is_nan()));
}

#[test]
fn files_cut_anywhere_yield_all_complete_samples() {
    for (full_text, counter, right) in
        [(table(), "physical_disk.busy", vec![0.62]), (recording(), "physical_disk.reads", vec![100.0, 200.0])]
    {
        for cut in crate::sweep::sweep(full_text.len(), 120) {
            for value in read_text(&full_text[..cut]).series_values(counter, "sda").iter().filter(|v| !v.is_nan()) {
                assert!(right.contains(value), "cut at {cut}: {value}");
            }
        }
    }
}

#[test]
fn a_change_to_or_from_summer_time_is_no_gap_and_loses_nothing() {
    for (day, clocks) in [
        ("20261025", ["02:59:40", "02:59:45", "02:59:50", "02:59:55", "02:00:00", "02:00:05"]),
        ("20260329", ["01:59:40", "01:59:45", "01:59:50", "01:59:55", "03:00:00", "03:00:05"]),
    ] {
        let one = |clock: &&str| row(46).replace("20261121 07:05:46", &format!("{day} {clock}"));
        let read = read_text(&(HEAD.to_owned() + COLUMNS + &clocks.iter().map(one).collect::<String>()));
        let lengths: Vec<u64> = read.ticks.iter().map(|(_, elapsed_ns)| elapsed_ns / 1_000_000_000).collect();
        assert_eq!(lengths, [0, 5, 5, 5, 5, 5], "{day}");
        let note_count = |kind: &str| read.notes.iter().filter(|note| note.kind == kind).count();
        assert_eq!((note_count(Note::CLOCK), note_count(Note::GAP)), (1, 0), "{day}");
    }
}
