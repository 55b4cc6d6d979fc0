//! Cases of the control groups: version 1, version 2, both at once.

use super::*;
use crate::live::fake::FakeMachine;

const V2: &str = "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 0:20 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1: &str = "1 0 8:0 / / rw - ext4 /dev/sda rw\n\
    2 1 0:20 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
    3 1 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    4 1 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

fn ordinary(mounts: &str) -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().put_file("proc/self/mountinfo", mounts);
    machine.put_file("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n");
    machine.put_link("sys/dev/block/8:0", "../../block/sda");
    machine
}

fn waits(us: u64) -> String {
    format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n")
}

/// A group of version 2 with a memory limit.
fn group_2(machine: &FakeMachine, path: &str, refaults: u64, reads: u64) {
    let put = |file: &str, text: String| _ = machine.put_file(&format!("sys/fs/cgroup{path}/{file}"), text);
    put("memory.current", "90000\n".into());
    put("memory.max", "100000\n".into());
    put("memory.high", "max\n".into());
    put("memory.stat", format!("anon 60000\nfile 30000\npgmajfault 4\nworkingset_refault_file {refaults}\n"));
    put("memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n".into());
    put("io.stat", format!("8:0 rbytes={} wbytes=0 rios={reads} wios=0 dbytes=0 dios=0\n", reads * 4096));
    put("io.max", "8:0 rbps=max wbps=max riops=200 wiops=max\n".into());
    put("memory.pressure", waits(refaults));
    put("cpu.stat", "usage_usec 5000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 900\n".into());
}

#[test]
fn thrashing_inside_a_group_is_seen_while_the_machine_has_free_memory() {
    let machine = ordinary(V2);
    group_2(&machine, "/web.slice/app", 100, 10);
    let mut watch = machine.watch_default();
    watch.tick();
    group_2(&machine, "/web.slice/app", 500_100, 10);
    watch.tick_after(1.0);
    let app = "/web.slice/app";
    assert_eq!(watch.value("cgroup.refaults_file", app), 500_000.0);
    assert!((watch.value("cgroup.memory_some_s", app) - 0.5).abs() < 1e-12);
    assert_eq!(watch.value("cgroup.memory_bytes", app), 90_000.0);
    assert_eq!(watch.value("cgroup.memory_limit_bytes", app), 100_000.0);
    assert!(watch.find_value("cgroup.memory_high_bytes", app).is_none(), "no limit, no series");
    assert!(watch.value("memory.available_bytes", "") > 0.7 * watch.value("memory.total_bytes", ""));
    // and the processes are scanned at once
    assert_eq!(watch.notes_of_kind(Note::PROCESSES).len(), 1);
}

#[test]
fn serviced_amounts_are_recorded_with_the_limit() {
    let machine = ordinary(V2);
    group_2(&machine, "/a", 0, 10);
    let mut watch = machine.watch_default();
    watch.tick();
    group_2(&machine, "/a", 0, 210);
    watch.tick_after(1.0);
    assert_eq!(watch.value("cgroup.reads", "/a@sda"), 200.0);
    assert_eq!(watch.value("cgroup.read_limit_per_s", "/a@sda"), 200.0);
    assert_eq!(watch.value("cgroup.read_bytes", "/a@sda"), 200.0 * 4096.0);
    assert!(watch.find_value("cgroup.write_limit_per_s", "/a@sda").is_none());
    assert_eq!(watch.value("cgroup.cpu_throttled_periods", "/a"), 0.0);
    assert!(watch.find_value("cgroup.reads", "/a").is_none());
}

#[test]
fn a_reused_device_number_gets_the_new_disks_name() {
    let machine = ordinary(V2);
    let put = |reads: u64| {
        group_2(&machine, "/a", 0, reads);
        machine.put_file("sys/fs/cgroup/a/io.stat", format!("259:3 rbytes=0 wbytes=0 rios={reads} wios=0\n"));
    };
    let link = "sys/dev/block/259:3";
    machine.put_file("sys/kernel/uevent_seqnum", "7\n").put_link(link, "../../block/nvme2n1");
    put(10);
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.find_value("cgroup.reads", "/a@nvme2n1").is_some());
    std::fs::remove_file(machine.folder().join(link)).unwrap();
    machine.put_file("sys/kernel/uevent_seqnum", "8\n").put_link(link, "../../block/cciss!c0d0");
    watch.tick_after(5.0);
    put(15);
    watch.tick_after(1.0);
    assert_eq!(watch.value("cgroup.reads", "/a@cciss/c0d0"), 5.0);
}

#[test]
fn requests_delayed_by_version_1_show_in_its_serviced_counts() {
    let machine = ordinary(V1);
    let group = "sys/fs/cgroup/blkio/slow";
    let serviced = |n: u64| format!("8:0 Read {n}\n8:0 Write 3\n8:0 Total {}\nTotal 9\n", n + 3);
    machine
        .put_file(&format!("{group}/blkio.throttle.io_serviced"), "")
        .put_file(&format!("{group}/blkio.throttle.io_service_bytes"), "")
        .put_file(&format!("{group}/blkio.throttle.read_iops_device"), "8:0 50\n")
        .put_file(&format!("{group}/blkio.throttle.write_bps_device"), "8:0 1048576\n")
        .put_file("sys/fs/cgroup/memory/slow/memory.usage_in_bytes", "5000\n")
        .put_file("sys/fs/cgroup/memory/slow/memory.limit_in_bytes", "9223372036854771712\n")
        .put_file("sys/fs/cgroup/memory/slow/memory.stat", "cache 1\ntotal_cache 4096\ntotal_pgmajfault 2\n")
        .put_file("sys/fs/cgroup/cpu,cpuacct/slow/cpuacct.usage", "1000000\n");
    let mut watch = machine.watch_default();
    watch.tick();
    // the kernel does not list devices without I/O
    machine.put_file(&format!("{group}/blkio.throttle.io_serviced"), serviced(50));
    machine.put_file("sys/fs/cgroup/cpu,cpuacct/slow/cpuacct.usage", "501000000\n");
    watch.tick_after(1.0);
    assert_eq!(watch.value("cgroup.reads", "/slow@sda"), 50.0);
    assert_eq!(watch.value("cgroup.writes", "/slow@sda"), 3.0);
    assert_eq!(watch.value("cgroup.read_limit_per_s", "/slow@sda"), 50.0);
    assert_eq!(watch.value("cgroup.write_limit_bytes_per_s", "/slow@sda"), 1_048_576.0);
    assert_eq!(watch.value("cgroup.memory_file_bytes", "/slow"), 4096.0);
    assert!(watch.find_value("cgroup.memory_limit_bytes", "/slow").is_none());
    assert!((watch.value("cgroup.cpu_time_s", "/slow") - 0.5).abs() < 1e-12);
    assert_eq!(watch.value("physical_disk.reads", "sda"), 0.0);
}

#[test]
fn both_versions_at_once_are_one_group() {
    let mounts = format!("{V1}5 1 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let machine = ordinary(&mounts);
    machine
        .put_file("sys/fs/cgroup/unified/cgroup.controllers", "\n")
        .put_file("sys/fs/cgroup/unified/db/memory.pressure", waits(10))
        .put_file("sys/fs/cgroup/unified/db/cpu.stat", "usage_usec 700\n")
        .put_file("sys/fs/cgroup/memory/db/memory.usage_in_bytes", "5000\n")
        .put_file("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "6000\n")
        .put_file("sys/fs/cgroup/cpu,cpuacct/db/cpuacct.usage", "700000\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert_eq!(watch.value("cgroup.memory_limit_bytes", "/db"), 6000.0);
    assert!(watch.value("cgroup.memory_some_s", "/db").is_nan());
    let series = watch.sampler.schema().series.iter();
    assert_eq!(series.filter(|s| s.counter == "cgroup.cpu_time_s" && s.instance == "/db").count(), 1);
    assert!(!watch.has_note(Note::UNSEEN, "controller is missing"));
}

#[test]
fn a_quiet_group_is_followed_once_it_does_io() {
    let machine = ordinary(V2);
    let io = |bytes: u64| {
        _ = machine.put_file("sys/fs/cgroup/b/io.stat", format!("8:0 rbytes={bytes} rios=1 wbytes=0 wios=0\n"))
    };
    io(1000);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0);
    assert!(watch.find_value("cgroup.reads", "/b@sda").is_none());
    io(50_000_000);
    watch.tick_after(5.0);
    assert!(watch.value("cgroup.read_bytes", "/b@sda").is_nan());
    io(50_001_000);
    watch.tick_after(1.0);
    assert_eq!(watch.value("cgroup.read_bytes", "/b@sda"), 1000.0);
}

#[test]
fn a_group_that_goes_is_a_gap_and_is_dropped() {
    let machine = ordinary(V2);
    group_2(&machine, "/a", 0, 10);
    group_2(&machine, "/b", 0, 10);
    let mut watch = machine.watch_default();
    watch.tick();
    machine.remove("sys/fs/cgroup/a");
    watch.tick_after(5.0);
    assert!(watch.value("cgroup.memory_bytes", "/a").is_nan());
    assert!(watch.has_note(Note::GAP, "cgroup /a is gone"));
    watch.tick_after(5.0);
    assert!(watch.find_value("cgroup.memory_bytes", "/a").is_none());
    assert!(watch.find_value("cgroup.reads", "/a@sda").is_none());
    assert_eq!(watch.value("cgroup.memory_bytes", "/b"), 90_000.0);
}

#[test]
fn too_many_groups_are_limited_and_noted() {
    let machine = ordinary(V2);
    for i in 0..30 {
        group_2(&machine, &format!("/g{i:02}"), 0, 10);
    }
    let mut watch = machine.watch_with(SamplerOptions { max_cgroups: 10, ..SamplerOptions::default() });
    watch.tick();
    let groups = watch.sampler.schema().instances("cgroup").into_iter().filter(|i| !i.contains('@')).count();
    assert_eq!(groups, 10);
    assert!(watch.has_note(Note::UNSEEN, "20 more cgroups"));
}

#[test]
fn an_unknown_device_keeps_its_number() {
    let machine = ordinary(V2);
    group_2(&machine, "/a", 0, 10);
    machine.put_file("sys/fs/cgroup/a/io.max", "259:3 riops=5\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert_eq!(watch.value("cgroup.read_limit_per_s", "/a@259:3"), 5.0);
}

#[test]
fn missing_control_groups_or_controllers_are_noted() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files();
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.has_note(Note::UNSEEN, "no cgroups are mounted"));
    let machine = ordinary(V2);
    machine.put_file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.has_note(Note::UNSEEN, "the io controller is missing"));
}

#[test]
fn groups_are_found_again_when_their_number_changes_or_one_has_gone() {
    let machine = ordinary(V2);
    let counts = |count: u32| format!("#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t{count}\t1\n");
    machine.put_file("proc/cgroups", counts(2));
    group_2(&machine, "/a", 0, 10);
    let mut watch = machine.watch_default();
    watch.tick();
    // one more is counted
    group_2(&machine, "/b", 0, 10);
    machine.put_file("proc/cgroups", counts(3));
    assert_eq!(watch.tick_after(5.0).value("cgroup.memory_bytes", "/b"), 90_000.0);
    // one has gone, another has come, and the count is the same
    machine.remove("sys/fs/cgroup/a");
    group_2(&machine, "/c", 0, 10);
    assert_eq!(watch.tick_after(1.0).tick_after(5.0).value("cgroup.memory_bytes", "/c"), 90_000.0);
    // no kernel does this: it shows that folders are not walked while nothing changes, and are once a minute
    group_2(&machine, "/d", 0, 10);
    assert!(watch.tick_after(5.0).find_value("cgroup.memory_bytes", "/d").is_none());
    for _ in 0..12 {
        watch.tick_after(5.0);
    }
    assert_eq!(watch.value("cgroup.memory_bytes", "/d"), 90_000.0);
}

#[test]
fn a_limit_that_is_set_later_is_seen_at_the_next_slow_tick() {
    let machine = ordinary(V2);
    machine.put_file("proc/cgroups", "memory\t0\t2\t1\n").put_file("sys/fs/cgroup/a/memory.max", "max\n");
    machine.put_file("sys/fs/cgroup/a/cpu.max", "max 100000\n").put_file("sys/fs/cgroup/a/memory.current", "5000\n");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0);
    assert!(watch.find_value("cgroup.memory_bytes", "/a").is_none());
    machine.put_file("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    assert_eq!(watch.tick_after(5.0).value("cgroup.memory_bytes", "/a"), 5000.0);
}

/// A limit that is removed must not be compared with what the group does without it.
#[test]
fn a_removed_limit_of_io_is_gone_at_the_next_tick() {
    let machine = ordinary(V2);
    group_2(&machine, "/a", 0, 10);
    let mut watch = machine.watch_default();
    watch.tick();
    group_2(&machine, "/a", 0, 200);
    assert_eq!(watch.tick_after(1.0).value("cgroup.read_limit_per_s", "/a@sda"), 200.0);
    machine.put_file("sys/fs/cgroup/a/io.max", "");
    machine.put_file("sys/fs/cgroup/a/io.stat", "8:0 rbytes=9000000 wbytes=0 rios=2000 wios=0 dbytes=0 dios=0\n");
    watch.tick_after(1.0);
    assert!(watch.find_value("cgroup.read_limit_per_s", "/a@sda").is_none_or(f64::is_nan));
    assert_eq!(watch.value("cgroup.reads", "/a@sda"), 1800.0);
}
