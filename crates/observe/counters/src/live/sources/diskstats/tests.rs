//! Cases of the disks: old and new kernels, wraps, resets, devices that come
//! and go, stalls.

use super::*;
use crate::live::fake::{FakeMachine, FakeWatch};

const DISK: &str = "physical_disk";

fn machine(line: &str) -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_file("proc/diskstats", line);
    machine
}

fn disk(watch: &FakeWatch, counter: &str, name: &str) -> f64 {
    watch.value(&format!("{DISK}.{counter}"), name)
}

#[test]
fn lines_of_every_kernel_are_parsed() {
    let number = |text: &str, i: usize| parse_line(text.as_bytes()).unwrap().numbers[i];
    let old = "8 0 sda 1 2 3 4 5 6 7 8 0 10 11";
    assert_eq!((number(old, 10), number(old, 11)), (Some(11), None));
    let with_discards = "8 0 sda 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15";
    assert_eq!((number(with_discards, 14), number(with_discards, 15)), (Some(15), None));
    let with_flushes = "8 0 sda 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17";
    assert_eq!((number(with_flushes, 15), number(with_flushes, 16)), (Some(16), Some(17)));
    let later = "8 0 sda 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17 18 19";
    assert_eq!(parse_line(later.as_bytes()), parse_line(with_flushes.as_bytes()));
    let partition = parse_line(b"8 1 sda1 5 6 7 8").unwrap();
    assert_eq!(&partition.numbers[..8], &[Some(5), None, Some(6), None, Some(7), None, Some(8), None]);
    for cut in ["", "8", "8 0", "8 0 sda", "8 0 sda 1 2 3", "8 0 sda 1 2 3 4 5", "x 0 sda 1 2 3 4"] {
        assert_eq!(parse_line(cut.as_bytes()), None, "{cut}");
    }
}

#[test]
fn a_queue_below_zero_is_a_gap() {
    let line = parse_line(b"8 0 sda 1 2 3 4 5 6 7 8 4294967295 10 11").unwrap();
    assert_eq!(line.numbers[IN_FLIGHT_POSITION], None);
}

#[test]
fn the_first_tick_has_levels_and_no_totals() {
    let machine = machine("8 0 sda 100 1 800 50 200 2 1600 70 3 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(disk(&watch, "reads", "sda").is_nan());
    assert_eq!(disk(&watch, "current_queue_length", "sda"), 3.0);
    assert!(disk(&watch, "stalled", "sda").is_nan());
}

#[test]
fn the_three_busy_counters_stay_distinct() {
    let machine = machine("8 0 sda 100 0 800 50 200 0 1600 70 0 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    // 200 quick reads in a second whose io_ticks the kernel missed
    machine.put_file("proc/diskstats", "8 0 sda 300 0 2400 450 200 0 1600 70 2 90 520\n");
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "sda"), 200.0);
    assert_eq!(disk(&watch, "read_bytes", "sda"), 1600.0 * 512.0);
    assert_eq!(disk(&watch, "busy_time_s", "sda"), 0.0);
    assert!((disk(&watch, "weighted_time_s", "sda") - 0.4).abs() < 1e-12);
    assert!((disk(&watch, "read_time_s", "sda") - 0.4).abs() < 1e-12);
    assert_eq!(disk(&watch, "stalled", "sda"), 0.0);
    assert!(watch.find_value("physical_disk.discards", "sda").is_none(), "this kernel has no discards");
}

#[test]
fn in_flight_without_completions_is_stalled_not_idle() {
    let machine = machine("8 0 sda 100 0 800 50 200 0 1600 70 0 90 120 5 0 40 1 7 9\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "8 0 sda 100 0 800 50 200 0 1600 70 4 1090 120 5 0 40 1 7 9\n");
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "stalled", "sda"), 1.0);
    // a flush that completed is work
    machine.put_file("proc/diskstats", "8 0 sda 100 0 800 50 200 0 1600 70 4 2090 120 5 0 40 1 8 19\n");
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "stalled", "sda"), 0.0);
    assert!((disk(&watch, "flush_time_s", "sda") - 0.010).abs() < 1e-12);
}

#[test]
fn milliseconds_wrap_at_32_bits() {
    let machine = machine("8 0 sda 100 0 800 4294967000 200 0 1600 70 0 90 4294967290\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "8 0 sda 110 0 880 204 200 0 1600 70 0 95 10\n");
    watch.tick_after(1.0);
    assert!((disk(&watch, "read_time_s", "sda") - 0.5).abs() < 1e-12);
    assert!((disk(&watch, "weighted_time_s", "sda") - 0.016).abs() < 1e-12);
    assert!(watch.notes_of_kind(Note::GAP).is_empty());
}

#[test]
fn a_reset_is_a_noted_gap_and_not_a_wrap() {
    let machine = machine("8 0 sda 5000 0 800 4294967000 200 0 1600 70 0 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "8 0 sda 10 0 80 204 900 0 1700 80 1 95 130\n");
    watch.tick_after(1.0);
    for counter in ["reads", "read_time_s", "writes", "busy_time_s", "stalled"] {
        assert!(disk(&watch, counter, "sda").is_nan(), "{counter}");
    }
    assert_eq!(disk(&watch, "current_queue_length", "sda"), 1.0);
    assert!(watch.has_note(Note::GAP, "physical_disk.reads of sda went backwards"));
    machine.put_file("proc/diskstats", "8 0 sda 15 0 80 204 900 0 1700 80 1 95 130\n");
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "sda"), 5.0);
}

#[test]
fn a_restarted_disk_is_detected_by_any_of_its_totals() {
    let machine = machine("8 16 sdb 100 0 800 5000 2000 0 16000 700 0 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    // another one at its place: it has read more and faster, and has written less
    machine.put_file("proc/diskstats", "8 16 sdb 150 0 1200 20 10 0 80 3 0 95 130\n");
    watch.tick_after(1.0);
    for counter in ["reads", "read_bytes", "read_time_s", "writes", "busy_time_s", "stalled"] {
        assert!(disk(&watch, counter, "sdb").is_nan(), "{counter}");
    }
    assert!(watch.has_note(Note::GAP, "of sdb went backwards; it restarted"));
}

#[test]
fn a_small_step_back_of_a_time_is_a_gap_of_that_number_alone() {
    let machine = machine("8 0 sda 100 0 800 5000 200 0 1600 70 0 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "8 0 sda 110 0 880 4999 200 0 1600 70 0 95 130\n");
    watch.tick_after(1.0);
    assert!(disk(&watch, "read_time_s", "sda").is_nan());
    assert_eq!(disk(&watch, "reads", "sda"), 10.0);
}

#[test]
fn a_disk_that_goes_is_a_gap_and_then_dropped() {
    let both = "8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n8 16 sdb 1 0 8 1 1 0 8 1 0 1 2\n";
    let machine = machine(both);
    machine.put_disk("sdb", "8:16", 1000);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0);
    let schema = watch.sampler.schema().clone();
    machine.put_file("proc/diskstats", "8 0 sda 3 0 8 1 1 0 8 1 0 1 2\n").remove("sys/block/sdb");
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "sda"), 2.0);
    assert!(disk(&watch, "reads", "sdb").is_nan() && disk(&watch, "current_queue_length", "sdb").is_nan());
    assert!(std::sync::Arc::ptr_eq(watch.sampler.schema(), &schema));
    assert!(watch.has_note(Note::GAP, "disk sdb is gone"));
    watch.tick_after(5.0);
    assert!(watch.find_value("physical_disk.reads", "sdb").is_none());
    assert!(watch.last_topology().find_device("sdb").is_none());
    // and comes back: nothing is known of the time between
    machine.put_file("proc/diskstats", both.replace("sdb 1", "sdb 900")).put_disk("sdb", "8:16", 1000);
    watch.tick_after(1.0);
    assert!(disk(&watch, "reads", "sdb").is_nan());
    assert!(watch.last_topology().find_device("sdb").is_some());
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "sdb"), 0.0);
}

#[test]
fn a_name_reused_by_another_device_makes_a_gap() {
    let machine = machine("8 0 sda 100 0 800 50 200 0 1600 70 0 90 120\n");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "65 0 sda 900 0 8000 500 2000 0 16000 700 0 900 1200\n");
    watch.tick_after(1.0);
    assert!(disk(&watch, "reads", "sda").is_nan());
}

#[test]
fn loop_devices_count_from_when_they_are_bound() {
    let idle = "7 0 loop0 5 0 8 1 1 0 8 1 0 1 2\n1 0 ram0 0 0 0 0 0 0 0 0 0 0 0\n";
    let machine = machine(idle);
    machine.put_disk("loop0", "7:0", 0).put_disk("ram0", "1:0", 8192);
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.find_value("physical_disk.reads", "loop0").is_none());
    assert!(watch.find_value("physical_disk.reads", "ram0").is_none());
    machine.put_disk("loop0", "7:0", 2048);
    watch.tick_after(5.0);
    assert!(disk(&watch, "reads", "loop0").is_nan());
    machine.put_file("proc/diskstats", idle.replace("loop0 5", "loop0 25"));
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "loop0"), 20.0);
}

#[test]
fn a_detached_loop_device_is_dropped_although_its_line_stays() {
    let text = "7 0 loop0 5 0 8 1 1 0 8 1 0 1 2\n7 1 loop1 5 0 8 1 1 0 8 1 0 1 2\n";
    let machine = machine(text);
    machine.put_disk("loop0", "7:0", 2048).put_disk("loop1", "7:1", 2048);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "loop0"), 0.0);
    machine.put_disk("loop0", "7:0", 0).put_file("proc/diskstats", text.replace("loop1 5", "loop1 9"));
    watch.tick_after(5.0);
    assert!(watch.find_value("physical_disk.reads", "loop0").is_none());
    assert_eq!(disk(&watch, "reads", "loop1"), 4.0, "the rows of the others are found again");
    assert!(!watch.has_note(Note::GAP, "loop0 is gone"), "nothing of it is missing");
    machine.put_disk("loop0", "7:0", 2048);
    watch.tick_after(5.0);
    assert!(disk(&watch, "reads", "loop0").is_nan());
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "loop0"), 0.0);
}

#[test]
fn partitions_are_logical_disks() {
    let machine = machine("8 0 sda 9 0 80 1 1 0 8 1 0 1 2\n8 1 sda1 9 0 80 1 1 0 8 1 0 1 2\n");
    machine.put_partition("sda", "sda1", "8:1");
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", "8 0 sda 19 0 160 1 1 0 8 1 0 1 2\n8 1 sda1 19 0 160 1 1 0 8 1 0 1 2\n");
    watch.tick_after(1.0);
    assert!(watch.find_value("physical_disk.reads", "sda1").is_none());
    assert_eq!(watch.value("logical_disk.read_bytes", "sda1"), 80.0 * 512.0);
}

#[test]
fn partitions_are_recognized_by_name_where_sysfs_is_hidden() {
    for part in ["sda1", "hdb12", "vda3", "xvda1", "nvme0n1p2", "mmcblk0p1", "md0p1", "sdaa5"] {
        assert!(is_partition_name(part), "{part}");
    }
    for disk in ["sda", "nvme0n1", "mmcblk0", "md127", "dm-3", "loop7", "sdaa", "zram0", "sr0", "nbd15", "p1"] {
        assert!(!is_partition_name(disk), "{disk}");
    }
}

#[test]
fn an_unreadable_line_is_noted_and_the_others_count() {
    let machine = machine("garbage\n8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.has_note(Note::GAP, "a line is not understood: `garbage`"));
    assert_eq!(disk(&watch, "current_queue_length", "sda"), 0.0);
}

#[test]
fn a_missed_reading_makes_the_next_total_a_gap_too() {
    let line = "8 0 sda 100 0 800 50 200 0 1600 70 0 90 120\n";
    let machine = machine(line);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0);
    machine.put_file("proc/diskstats", "");
    watch.tick_after(1.0);
    assert!(disk(&watch, "reads", "sda").is_nan());
    assert!(watch.has_note(Note::GAP, "it is empty"));
    machine.put_file("proc/diskstats", line.replace("sda 100", "sda 400"));
    watch.tick_after(1.0);
    assert!(disk(&watch, "reads", "sda").is_nan(), "it waits for the slow beat");
    watch.tick_after(5.0);
    assert!(disk(&watch, "reads", "sda").is_nan(), "more time than the tick covers");
    assert!(watch.has_note(Note::GAP, "can be read again"));
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "sda"), 0.0);
}

#[test]
fn a_thousand_disks() {
    let text = |reads: u32| -> String {
        (0..1000).map(|i| format!("8 {i} sd{i:04}x {reads} 0 8 1 1 0 8 1 0 1 2\n")).collect()
    };
    let machine = machine(&text(1));
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", text(3));
    watch.tick_after(1.0);
    assert_eq!(watch.sampler.schema().instances(DISK).len(), 1000);
    assert_eq!(disk(&watch, "reads", "sd0000x"), 2.0);
    assert_eq!(disk(&watch, "reads", "sd0999x"), 2.0);
}

/// The kernel numbers what it reports of devices: while that stands still, sizes are read once a minute.
#[test]
fn a_bound_loop_device_is_seen_after_an_event_or_within_a_minute() {
    let machine = machine("7 0 loop0 5 0 8 1 1 0 8 1 0 1 2\n");
    machine.put_disk("loop0", "7:0", 0).put_file("sys/kernel/uevent_seqnum", "7\n");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0).tick_after(5.0);
    machine.put_disk("loop0", "7:0", 2048);
    assert!(watch.tick_after(5.0).find_value("physical_disk.reads", "loop0").is_none(), "nothing was reported");
    machine.put_file("sys/kernel/uevent_seqnum", "8\n");
    assert!(watch.tick_after(5.0).find_value("physical_disk.reads", "loop0").is_some());
    // reported before it is done
    machine.put_file("sys/kernel/uevent_seqnum", "9\n");
    watch.tick_after(5.0);
    machine.put_disk("loop0", "7:0", 0);
    assert!(watch.tick_after(5.0).find_value("physical_disk.reads", "loop0").is_none());
    machine.put_disk("loop0", "7:0", 2048);
    for _ in 0..12 {
        watch.tick_after(5.0);
    }
    assert!(watch.find_value("physical_disk.reads", "loop0").is_some(), "a minute is over");
}

/// From Linux 6.4 on the disk counts what its paths do, too: once, and not twice.
#[test]
fn a_path_of_an_nvme_disk_is_not_a_disk() {
    let text = |reads: u64| {
        format!("259 1 nvme0c0n1 {reads} 0 800 50 0 0 0 0 0 90 120\n259 0 nvme0n1 {reads} 0 800 50 0 0 0 0 0 90 120\n")
    };
    let machine = machine(&text(100));
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", text(130));
    watch.tick_after(1.0);
    assert_eq!(disk(&watch, "reads", "nvme0n1"), 30.0);
    assert!(watch.find_value("physical_disk.reads", "nvme0c0n1").is_none());
}

/// Before Linux 6.4 the disk counts nothing.
#[test]
fn an_nvme_disk_without_counts_gets_those_of_its_paths() {
    let head = "259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n";
    let one = format!("259 1 nvme0c0n1 100 0 800 50 20 0 160 7 0 90 120\n{head}");
    let machine = machine(&one);
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", format!("259 1 nvme0c0n1 130 0 1600 80 20 0 160 7 2 290 320\n{head}"));
    watch.tick_after(1.0);
    assert_eq!((disk(&watch, "reads", "nvme0n1"), disk(&watch, "current_queue_length", "nvme0n1")), (30.0, 2.0));
    assert!((disk(&watch, "busy_time_s", "nvme0n1") - 0.2).abs() < 1e-12);
    assert_eq!(disk(&watch, "stalled", "nvme0n1"), 0.0);
    // a second path works, too
    let two = |reads: u64| format!("259 1 nvme0c0n1 {reads} 0 1600 80 20 0 160 7 2 290 320\n{head}");
    let other = |reads: u64| format!("259 2 nvme0c1n1 {reads} 0 80 8 0 0 0 0 1 9 9\n");
    machine.put_file("proc/diskstats", two(140) + &other(5));
    watch.tick_after(1.0);
    machine.put_file("proc/diskstats", two(150) + &other(12));
    watch.tick_after(1.0);
    assert_eq!((disk(&watch, "reads", "nvme0n1"), disk(&watch, "current_queue_length", "nvme0n1")), (17.0, 3.0));
    assert!(disk(&watch, "busy_time_s", "nvme0n1").is_nan(), "the paths' times overlap");
    for path in ["nvme0c0n1", "nvme0c1n1"] {
        assert!(watch.find_value("physical_disk.reads", path).is_none(), "{path}");
    }
}
