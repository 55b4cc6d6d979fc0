//! Cases of paths. The trees have the layout of drivers/nvme/host/multipath.c, drivers/scsi/scsi_sysfs.c and
//! drivers/md/dm-sysfs.c; all numbers and addresses in them are invented.

use diskwright_base::Note;

use crate::live::fake::{FakeMachine, FakeWatch};

/// Lines of diskstats of an NVMe disk with two paths: requests and milliseconds of each.
fn nvme_lines(first: (u64, u64), second: (u64, u64)) -> String {
    let line = |minor: u32, name: &str, (reads, ms): (u64, u64)| {
        format!("259 {minor} {name} {reads} 0 {} {ms} 0 0 0 0 1 {ms} {ms}\n", reads * 8)
    };
    line(0, "nvme0n1", (first.0 + second.0, first.1 + second.1))
        + &line(1, "nvme0c0n1", first)
        + &line(2, "nvme0c1n1", second)
}

fn put_controller(machine: &FakeMachine, number: u32, state: &str, access: &str) {
    let folder = format!("sys/class/nvme/nvme{number}");
    machine
        .put_file(&format!("{folder}/state"), format!("{state}\n"))
        .put_file(&format!("{folder}/transport"), "tcp\n")
        .put_file(&format!("{folder}/address"), format!("traddr=192.0.2.{number},trsvcid=4420\n"))
        .put_disk(&format!("nvme0c{number}n1"), &format!("259:{}", number + 1), 1000)
        .put_file(&format!("sys/block/nvme0c{number}n1/hidden"), "1\n")
        .put_file(&format!("sys/block/nvme0c{number}n1/ana_state"), format!("{access}\n"));
}

fn nvme_machine() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_disk("nvme0n1", "259:0", 1000);
    put_controller(&machine, 0, "live", "optimized");
    put_controller(&machine, 1, "live", "optimized");
    machine.put_file("proc/diskstats", nvme_lines((100, 100), (100, 100)));
    machine
}

fn value(watch: &FakeWatch, counter: &str, path: &str) -> f64 {
    watch.value(&format!("path.{counter}"), path)
}

#[test]
fn a_slow_path_over_a_fabric_is_compared_with_its_sibling() {
    let machine = nvme_machine();
    let mut watch = machine.watch_default();
    watch.tick();
    // 200 requests at 1 ms, 100 at 8 ms
    machine.put_file("proc/diskstats", nvme_lines((300, 300), (200, 900)));
    watch.tick_after(1.0);
    let (quick, slow) = ("nvme0n1:nvme0c0n1", "nvme0n1:nvme0c1n1");
    assert_eq!((value(&watch, "requests", quick), value(&watch, "requests", slow)), (200.0, 100.0));
    assert!((value(&watch, "request_time_s", slow) - 0.8).abs() < 1e-12);
    assert_eq!(value(&watch, "bytes", slow), 100.0 * 4096.0);
    assert_eq!((value(&watch, "usable", slow), value(&watch, "current_queue_length", slow)), (1.0, 1.0));
    assert!((value(&watch, "latency_ratio", slow) - 8.0).abs() < 1e-9);
    assert!((value(&watch, "latency_ratio", quick) - 0.125).abs() < 1e-9);
    // the disk itself still counts once, and the paths are no disks
    assert_eq!(watch.value("physical_disk.reads", "nvme0n1"), 300.0);
    assert!(watch.find_value("physical_disk.reads", "nvme0c1n1").is_none());
    assert!(watch.notes_of_kind(Note::WARNING).is_empty(), "{:?}", watch.notes);
}

#[test]
fn few_requests_tell_no_latency() {
    let machine = nvme_machine();
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", nvme_lines((300, 300), (109, 900)));
    watch.tick_after(1.0);
    for path in ["nvme0n1:nvme0c0n1", "nvme0n1:nvme0c1n1"] {
        assert!(value(&watch, "latency_ratio", path).is_nan(), "{path}");
    }
}

#[test]
fn a_controller_that_reconnects_is_not_usable_and_named() {
    let machine = nvme_machine();
    let mut watch = machine.watch_default();
    watch.tick();
    put_controller(&machine, 1, "connecting", "optimized");
    watch.tick_after(60.0);
    assert_eq!(value(&watch, "usable", "nvme0n1:nvme0c1n1"), 0.0);
    assert_eq!(value(&watch, "usable", "nvme0n1:nvme0c0n1"), 1.0);
    let expected = "nvme0n1: the path nvme0c1n1 (tcp, traddr=192.0.2.1,trsvcid=4420) is connecting, optimized";
    assert_eq!(watch.notes_of_kind(Note::WARNING), [expected]);
    // back again: noted once
    put_controller(&machine, 1, "live", "non-optimized");
    watch.tick_after(60.0).tick_after(60.0);
    assert_eq!(value(&watch, "usable", "nvme0n1:nvme0c1n1"), 1.0);
    let notes = watch.notes_of_kind(Note::WARNING);
    assert_eq!(notes.len(), 2);
    assert!(notes[1].ends_with("is live, non-optimized"), "{notes:?}");
    // the array does not let it through this controller
    put_controller(&machine, 1, "live", "inaccessible");
    watch.tick_after(60.0);
    assert_eq!(value(&watch, "usable", "nvme0n1:nvme0c1n1"), 0.0);
}

#[test]
fn a_path_that_is_gone_counts_as_not_usable() {
    let machine = nvme_machine();
    let mut watch = machine.watch_default();
    watch.tick();
    machine.remove("sys/class/nvme/nvme1").remove("sys/block/nvme0c1n1");
    let lines = nvme_lines((200, 200), (0, 0));
    machine.put_file("proc/diskstats", lines.lines().take(2).map(|l| format!("{l}\n")).collect::<String>());
    watch.tick_after(60.0);
    assert_eq!(value(&watch, "usable", "nvme0n1:nvme0c1n1"), 0.0);
    assert!(value(&watch, "requests", "nvme0n1:nvme0c1n1").is_nan());
    assert!(watch.has_note(Note::WARNING, "nvme0n1: the path nvme0c1n1 is gone"), "{:?}", watch.notes);
}

#[test]
fn a_disk_with_one_path_has_no_paths() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_disk("nvme0n1", "259:0", 1000);
    put_controller(&machine, 0, "live", "optimized");
    let lines = nvme_lines((100, 100), (0, 0));
    machine.put_file("proc/diskstats", lines.lines().take(2).map(|l| format!("{l}\n")).collect::<String>());
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0);
    assert!(watch.sampler.schema().instances("path").is_empty());
}

#[test]
fn paths_of_device_mapper_are_its_slaves() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_disk("dm-3", "253:3", 1000);
    machine.put_file("sys/block/dm-3/dm/uuid", "mpath-36001405abcdef\n").put_file("sys/block/dm-3/dm/name", "mpatha\n");
    for (name, numbers, state) in [("sdb", "8:16", "running"), ("sdc", "8:32", "running")] {
        machine.put_disk(name, numbers, 1000).put_file(&format!("sys/block/{name}/device/state"), format!("{state}\n"));
        machine.put_file(&format!("sys/block/dm-3/slaves/{name}/dev"), numbers);
    }
    // a volume on one disk is not multipath
    machine.put_disk("dm-4", "253:4", 1000).put_file("sys/block/dm-4/dm/uuid", "LVM-abc\n");
    machine.put_file("sys/block/dm-4/slaves/sdb/dev", "8:16").put_file("sys/block/dm-4/slaves/sdc/dev", "8:32");
    let lines = |b: (u64, u64), c: (u64, u64)| {
        let line = |numbers: &str, name: &str, (writes, ms): (u64, u64)| {
            format!("{numbers} {name} 0 0 0 0 {writes} 0 {} {ms} 0 {ms} {ms}\n", writes * 8)
        };
        line("8 16", "sdb", b) + &line("8 32", "sdc", c) + &line("253 3", "dm-3", (b.0 + c.0, b.1 + c.1))
    };
    machine.put_file("proc/diskstats", lines((100, 100), (100, 100)));
    let mut watch = machine.watch_default();
    watch.tick();
    machine.put_file("proc/diskstats", lines((200, 200), (150, 350)));
    watch.tick_after(1.0);
    assert_eq!(watch.sampler.schema().instances("path"), ["dm-3:sdb", "dm-3:sdc"]);
    assert!((value(&watch, "latency_ratio", "dm-3:sdc") - 5.0).abs() < 1e-9);
    machine.put_file("sys/block/sdc/device/state", "transport-offline\n");
    watch.tick_after(60.0);
    assert_eq!(value(&watch, "usable", "dm-3:sdc"), 0.0);
    assert!(watch.has_note(Note::WARNING, "dm-3: the path sdc is transport-offline"), "{:?}", watch.notes);
    // the map is taken down: its paths are ordinary disks again
    machine.remove("sys/block/dm-3").put_file("sys/kernel/uevent_seqnum", "9\n");
    watch.tick_after(60.0).tick_after(60.0).tick_after(60.0);
    assert!(watch.sampler.schema().instances("path").is_empty());
}
