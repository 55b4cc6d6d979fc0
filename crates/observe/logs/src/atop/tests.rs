//! Whole outputs, and broken ones.

use diskwright_base::Note;

use crate::LogOptions;
use crate::sysstat::testing::{ReadOutcome, read_bytes, read_text};

fn sample(second: u32, interval: u32) -> String {
    let head = format!("db1 17952447{second:02} 2026/11/21 07:05:{second:02} {interval}");
    format!(
        "CPU {head} 100 2 300 1000 0 600 100 0 0 0 0 2596 100 0 0\ncpu {head} 100 1 300 100 0 500 100 0 0 0 0 0 0 0 0\n\
         CPL {head} 2 5.26 3.20 1.58 1000 500\n\
         MEM {head} 4096 1000 250 100 10 20 5 3 0 7 0 0 2097152 0 0 0 0 0 0 0 8\nSWP {head} 4096 100 50 0 30 40 0 0 0\n\
         PAG {head} 4096 9 1 0 5 6 -1 0 0 0 7 8\n\
         PSI {head} y 1.0 2.0 3.0 400000 1.0 2.0 3.0 100000 1.0 2.0 3.0 50000 1.0 2.0 3.0 5000000 1.0 2.0 3.0 2500000\n\
         LVM {head} vg-root 5000 100 800 50 400 0 0 1 2.00\nDSK {head} sda 5000 {second} 800 50 400 -1 -1 3 2.00\n\
         NET {head} upper 3687 2378 45 46 3734 2429 3734 0 0 0 21 2 0 0 0 9\nNET {head} eth0 10 2000 20 4000 1000 1\n\
         NUM {head} 0 4096 6 1000 250\n\
         PRG {head} 42 (post gres) S 0 0 42 1 0 1 (postgres -D x) 1 0 1 0 0 0 0 0 0 0 0 y\n\
         PRC {head} 42 (post gres) S 100 300 200 0 120 0 0 1 0 42 y 0 (ep_poll) 100 -3 -3\n\
         PRC {head} 43 (post gres) S 100 300 200 0 120 0 0 1 0 42 n 0 (ep_poll) 100 -3 -3\n\
         PRM {head} 42 (post gres) S 4096 9000 2048 1 0 0 5 20 1 1 1 64 42 y 0 0 -3 -3 -3 -3\n\
         PRD {head} 42 (post gres) S n y 10 800 20 1600 0 42 n y\nSEP\n"
    )
}

fn output() -> String {
    "RESET\n".to_owned() + &sample(10, 999) + &sample(20, 10) + &sample(30, 10)
}

fn expect(read: &ReadOutcome) {
    for (counter, instance, value) in [
        ("processor.user_s", "_total", 10.0),
        ("processor.idle_s", "cpu1", 5.0),
        ("system.load_5", "", 3.2),
        ("system.context_switches", "", 1000.0),
        ("memory.free_bytes", "", 1_024_000.0),
        ("memory.swap_free_bytes", "", 204_800.0),
        ("paging.swap_out_pages", "", 6.0),
        ("pressure.io_full_s", "", 2.5),
        ("physical_disk.busy_time_s", "sda", 5.0),
        ("physical_disk.read_bytes", "sda", 409_600.0),
        ("physical_disk.weighted_time_s", "sda", 10.0),
        ("physical_disk.current_queue_length", "sda", 3.0),
        ("logical_disk.reads", "vg-root", 100.0),
        ("network.sent_bytes", "eth0", 4000.0),
        ("network.link_bytes_per_s", "eth0", 125_000_000.0),
    ] {
        assert_eq!(read.series_values(counter, instance)[..2], [value; 2], "{counter} {instance}");
    }
    assert_eq!(read.series_values("physical_disk.reads", "sda")[..2], [20.0, 30.0]);
    // what the kernel does not count
    assert!(read.series_values("physical_disk.discards", "sda").iter().all(|v| v.is_nan()));
    assert!(read.series_values("paging.oom_kills", "").iter().all(|v| v.is_nan()));
}

#[test]
fn a_first_sample_without_a_mark_above_it_is_left_out() {
    let full_text = output();
    let behind_reset = full_text.strip_prefix("RESET\n").unwrap();
    let half = &behind_reset[behind_reset.find("LVM").unwrap()..];
    for text in [behind_reset, half] {
        let read = read_text(text);
        expect(&read);
        assert_eq!(read.ticks.len(), 2);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped[0].reason.contains("neither RESET nor SEP"), "{skipped:?}");
    }
    // a part from the middle begins with the end of a sample
    let middle = &full_text[full_text.find("SEP").unwrap()..];
    assert_eq!(read_text(middle).ticks.len(), 2);
}

#[test]
fn reads_an_output_of_all_labels() {
    let read = read_text(&output());
    expect(&read);
    assert_eq!(read.ticks, [(1_795_244_720_000_000_000, 10_000_000_000), (1_795_244_730_000_000_000, 10_000_000_000)]);
    let table = read.notes.iter().find(|n| n.kind == Note::PROCESSES).unwrap();
    let table = table.read_processes().unwrap();
    assert_eq!(table.rows.len(), 1, "threads are no processes");
    let row = &table.rows[0];
    assert_eq!((row.pid, row.name.as_str(), row.processor, row.processor_system), (42, "post gres", 0.5, 0.2));
    assert_eq!((row.read_bytes_per_s, row.write_bytes_per_s), (Some(40_960.0), Some(81_920.0)));
    assert_eq!((row.resident_bytes, row.major_faults_per_s, row.block_delay), (2_097_152.0, 2.0, Some(0.1)));
    let summary = read.summary.unwrap();
    assert_eq!((summary.format, summary.host.as_str()), ("atop-text", "db1"));
    let reasons: Vec<_> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(reasons, ["the sample behind RESET covers the time since boot"]);
}

#[test]
fn reads_samples_without_separators_and_old_lines() {
    expect(&read_text(&output().replace("SEP\n", "")));
    // before 2.7 a disk had no discards, before 2.8 no queue
    let old = output().replace(" -1 -1 3 2.00", "").replace(" 0 0 1 2.00", "");
    let read = read_text(&old);
    assert_eq!(read.series_values("physical_disk.write_bytes", "sda"), [204_800.0; 2]);
    assert!(read.series_values("physical_disk.weighted_time_s", "sda").iter().all(|v| v.is_nan()));
    assert_eq!(read.summary.unwrap().skipped.len(), 1);
    let underscores = output().replace("(post gres)", "post_gres");
    expect(&read_text(&underscores));
}

#[test]
fn learns_columns_anew_when_the_first_line_was_cut() {
    let text = output().replacen(&sample(20, 10), &sample(20, 10).replace(" 20 800 50 400 -1 -1 3 2.00", ""), 1);
    let read = read_text(&text);
    assert_eq!(read.series_values("physical_disk.reads", "sda")[1], 30.0);
}

#[test]
fn reads_one_of_two_machines() {
    let two = output() + &sample(40, 10).replace("db1", "db2");
    let read = read_text(&two);
    assert_eq!(read.ticks.len(), 2);
    assert!(read.summary.unwrap().skipped.iter().any(|s| s.reason.contains("--host db2")));
    let options = LogOptions { host: Some("db2".into()), ..LogOptions::default() };
    assert_eq!(read_bytes(two.as_bytes(), &options).ticks.len(), 1);
}

#[test]
fn reports_broken_lines_and_keeps_the_rest() {
    let head = "db1 1795244740 2026/11/21 07:05:40 10";
    for (wrong, because) in [
        (format!("DSK {head} sda 5000 x 800 50 400 -1 -1 3 2.00\n"), "text where a number"),
        (format!("DSK {head} sda 5000\n"), "fewer fields"),
        (format!("PRC {head} 42 (x\n"), "fewer fields"),
        (format!("CPU {head} 100 2 0 0 0 0 0 0 0 0 0\n"), "all zero"),
        (format!("DSK {head} sda 1e30 1 1 1 1\n"), "an impossible value: physical_disk.busy_time_s sda"),
        ("DSK db1 99999999999 2026/11/21 07:05:40 10 sda 1 1 1 1 1\n".to_owned(), "not a line of atop"),
        ("DSK db1 x 2026/11/21 07:05:40 10 sda\n".to_owned(), "not a line of atop"),
        (format!("DSK {head} sda 5000 1"), "incomplete"),
        (sample(5, 10), "time goes backwards"),
        (sample(50, 0), "interval of zero"),
        ("\u{fffd}rubbish\n".to_owned(), "not a line of atop"),
    ] {
        let read = read_text(&(output() + &wrong));
        expect(&read);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
}

#[test]
fn an_output_cut_anywhere_yields_all_complete_samples() {
    let full_text = output();
    for cut in crate::sweep::sweep(full_text.len(), 120) {
        for value in
            read_text(&full_text[..cut]).series_values("physical_disk.reads", "sda").iter().filter(|v| !v.is_nan())
        {
            assert!([20.0, 30.0].contains(value), "cut at {cut}");
        }
    }
}

/// A report of the screen, after so many seconds.
fn screen(second: u32, elapsed: &str, reads: u32) -> String {
    format!(
        "ATOP - web9        2026/11/23  09:15:{second:02}        --------------        {elapsed} elapsed\n\
         PRC | sys    1.23s  | user   4.56s  | #proc    212  | #zombie    0  |\n\
         CPU | sys      20%  | user     60%  | irq      20%  | idle     80%  | wait    220%  |\n\
         cpu | sys       5%  | user     10%  | irq       0%  | idle      5%  | cpu001 w 80%  |\n\
         CPL | avg1   12.10  | avg5   11.05  | avg15   9.90  | csw    50e3   | intr  40000   |\n\
         MEM | tot     4.0G  | free  100.0M  | cache  20.0M  | buff   1.0M   | slab   80.0M  |\n\
         PAG | scan    5000  | steal   2000  | stall     10  | swin    300   | swout    700  |\n\
         DSK |          sdc  | busy     97%  | read  {reads:5}  | write   100  | avio 0.79 ms  |\n\
         NET | ens7      1%  | pcki    1000  | pcko   2000  | si  800 Kbps  | so   16 Mbps  |\n\n\
         \u{20} PID  SYSCPU  USRCPU   RDDSK   WRDSK  S  CPUNR   CPU CMD        1/12\n\
         \u{20} 812   0.91s   3.12s  40960K    100K  D      1   41% worker\n"
    )
}

#[test]
fn the_screen_is_read_with_its_processes() {
    let text = screen(10, "3d4h5m6s", 7) + &screen(20, "10s", 4000) + &screen(30, "10s", 5000);
    let read = read_text(&text);
    let last = |counter: &str, instance: &str| read.series_values(counter, instance).last().copied();
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sdc"), [400.0, 500.0]);
    assert_eq!(last("processor.iowait", "_total"), Some(0.55));
    assert_eq!(last("processor.iowait", "cpu1"), Some(0.8));
    assert_eq!(last("system.context_switches_per_s", ""), Some(5000.0));
    assert_eq!(last("memory.cached_bytes", ""), Some(20_971_520.0));
    assert_eq!(last("paging.swap_out_pages_per_s", ""), Some(70.0));
    assert_eq!(last("network.sent_bytes_per_s", "ens7"), Some(2_000_000.0));
    let note = read.notes.iter().find(|note| note.kind == Note::PROCESSES).unwrap();
    let row = &note.read_processes().unwrap().rows[0];
    assert_eq!((row.name.as_str(), row.processor, row.blocked_share), ("worker", 0.41, 1.0));
    assert_eq!(row.read_bytes_per_s, Some(4_194_304.0));
    // alone it is kept, with a remark
    let read = read_text(&screen(10, "10s", 4000));
    assert_eq!(read.series_values("physical_disk.reads_per_s", "sdc"), [400.0]);
    assert!(read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("single report")));
}
