//! The design's table of what really happens and what the default pack must
//! say, with synthetic counters. (The truth lab does the same on a real kernel.)

use crate::common::*;
use diskwright_base::{Device, DeviceClass, DeviceKind, RaidLevel, Topology};
use diskwright_diagnosis::{Bottleneck, Verdict};

/// Half a minute of a machine at rest, with one virtual disk and nothing on it.
/// The series that `more` names take the place of the quiet ones.
fn machine(more: Recording) -> Recording {
    let quiet: &[(&str, &str, f64)] = &[
        ("memory.total_bytes", "", 8e9),
        ("memory.available_bytes", "", 6e9),
        ("memory.dirty_bytes", "", 1e6),
        ("memory.writeback_bytes", "", 0.0),
        ("memory.dirty_threshold_bytes", "", 1.2e9),
        ("paging.swap_in_pages", "", 0.0),
        ("paging.swap_out_pages", "", 0.0),
        ("paging.major_faults", "", 0.0),
        ("paging.refaults_file", "", 0.0),
        ("paging.refaults_anon", "", 0.0),
        ("paging.allocation_stalls", "", 0.0),
        ("paging.block_in_bytes", "", 1e5),
        ("paging.block_out_bytes", "", 1e5),
        ("pressure.io_some_s", "", 0.001),
        ("pressure.memory_some_s", "", 0.0),
        ("pressure.cpu_some_s", "", 0.01),
        ("interrupts.total", "", 2000.0),
        ("interrupts.disk", "", 100.0),
        ("interrupts.network", "", 100.0),
        ("interrupts.clock", "", 250.0),
        ("interrupts.softirq_block", "", 100.0),
        ("interrupts.softirq_net_rx", "", 100.0),
        ("system.running", "", 1.0),
        ("system.blocked", "", 0.0),
    ];
    quiet.iter().fold(more, |r, &(counter, instance, value)| r.unless_there(counter, instance, value))
}

/// Processor shares: user, system, hard and soft interrupts.
fn processors(recording: Recording, user: f64, system: f64, interrupts: f64) -> Recording {
    let rest = 1.0 - user - system - interrupts;
    ["_total", "cpu0", "cpu1"].into_iter().fold(recording, |r, name| {
        let each = if name == "_total" { 2.0 } else { 1.0 };
        r.with("processor.user_s", name, move |_| user * each)
            .with("processor.system_s", name, move |_| system * each)
            .with("processor.softirq_s", name, move |_| interrupts * each)
            .with("processor.idle_s", name, move |_| rest * each)
            .with("processor.nice_s", name, |_| 0.0)
            .with("processor.iowait_s", name, |_| 0.0)
            .with("processor.irq_s", name, |_| 0.0)
            .with("processor.steal_s", name, |_| 0.0)
    })
}

fn virtual_disk() -> Topology {
    Topology { devices: vec![device("vda", DeviceClass::Virtual, &[], None)], processors: 2, ..Topology::default() }
}

fn judged(recording: Recording) -> Verdict {
    machine(recording).by_default()
}

fn idle() -> Recording {
    processors(Recording::new(30).topology(virtual_disk()), 0.05, 0.02, 0.0)
}

fn says(verdict: &Verdict, bottleneck: Bottleneck, instance: &str) {
    assert_eq!((verdict.bottleneck, verdict.instance.as_str()), (bottleneck, instance), "{:#?}", verdict.ranking);
    assert!(verdict.ruled_out.iter().all(|r| r.bottleneck != bottleneck));
}

#[test]
fn an_idle_machine_has_no_bottleneck() {
    let verdict = judged(idle().disk("vda", 2.0, 0.001, 0.002));
    says(&verdict, Bottleneck::None, "");
    // without groups and network nobody can be quite sure
    assert!((0.7..0.8).contains(&verdict.confidence), "{}", verdict.confidence);
}

#[test]
fn a_busy_machine_with_quick_disks_has_no_bottleneck() {
    // 3000 requests a second of 0.2 ms: busy more than half of the time, and nobody waits
    let disk = idle().disk("vda", 400.0, 0.0002, 0.08).with("pressure.io_some_s", "", |_| 0.03);
    says(&judged(disk), Bottleneck::None, "");
}

#[test]
fn a_growing_queue_blames_the_disk() {
    let disk = idle().disk("vda", 400.0, 0.02, 1.0).with("pressure.io_some_s", "", |_| 0.9);
    let verdict = judged(disk);
    says(&verdict, Bottleneck::Disk, "vda");
    assert_eq!(verdict.findings[0].rule, "disk.saturated");
    assert!(verdict.ruled_out.iter().any(|r| r.bottleneck == Bottleneck::Memory), "{:#?}", verdict.ruled_out);
}

#[test]
fn one_stream_that_always_waits_blames_the_disk_without_advising_spindles() {
    let disk = idle().disk("vda", 120.0, 0.008, 0.97).with("pressure.io_some_s", "", |_| 0.9);
    let verdict = judged(disk);
    says(&verdict, Bottleneck::Disk, "vda");
    assert!(verdict.advice.iter().any(|a| a.id == "disk.single-stream-latency"));
    assert!(verdict.advice.iter().all(|a| a.id != "disk.more-spindles"));
}

#[test]
fn writers_throttled_on_dirty_pages_blame_the_disk() {
    let disk = idle()
        .with("physical_disk.reads", "vda", |_| 0.0)
        .with("physical_disk.read_bytes", "vda", |_| 0.0)
        .with("physical_disk.read_time_s", "vda", |_| 0.0)
        .with("physical_disk.writes", "vda", |_| 60.0)
        .with("physical_disk.write_bytes", "vda", |_| 3e7)
        .with("physical_disk.write_time_s", "vda", |_| 20.0)
        .with("physical_disk.weighted_time_s", "vda", |_| 20.0)
        .with("physical_disk.busy_time_s", "vda", |_| 1.0)
        .with("memory.dirty_bytes", "", |_| 1e9)
        .with("pressure.io_some_s", "", |_| 0.8);
    let verdict = judged(disk);
    says(&verdict, Bottleneck::Disk, "vda");
    assert!(verdict.findings.iter().any(|f| f.rule == "disk.dirty-throttle"));
}

#[test]
fn commits_that_wait_for_flushes_blame_the_disk() {
    let disk = idle()
        .disk("vda", 5.0, 0.0005, 0.9)
        .with("physical_disk.flushes", "vda", |_| 80.0)
        .with("physical_disk.flush_time_s", "vda", |_| 0.8)
        .with("pressure.io_some_s", "", |_| 0.8);
    let verdict = judged(disk);
    says(&verdict, Bottleneck::Disk, "vda");
    assert_eq!(verdict.findings[0].rule, "disk.flush-bound");
}

#[test]
fn paging_blames_memory_whatever_the_disk_looks_like() {
    let paging = idle()
        .disk("vda", 400.0, 0.02, 1.0)
        .with("paging.swap_in_pages", "", |_| 2000.0)
        .with("paging.swap_out_pages", "", |_| 2000.0)
        .with("paging.major_faults", "", |_| 500.0)
        .with("pressure.memory_some_s", "", |_| 0.7)
        .with("pressure.io_some_s", "", |_| 0.9);
    let verdict = judged(paging);
    says(&verdict, Bottleneck::Memory, "");
    assert!(verdict.set_aside.iter().any(|s| s.rule == "disk.saturated"), "{:#?}", verdict.set_aside);
    let disk = verdict.ruled_out.iter().find(|r| r.bottleneck == Bottleneck::Disk).unwrap();
    assert!(disk.because.contains("memory."), "{}", disk.because);
}

#[test]
fn paging_inside_one_cgroup_blames_memory() {
    let group = idle()
        .disk("vda", 400.0, 0.003, 1.0)
        .with("pressure.io_some_s", "", |_| 0.9)
        .with("cgroup.memory_bytes", "/jobs/sort", |_| 0.99e8)
        .with("cgroup.memory_limit_bytes", "/jobs/sort", |_| 1e8)
        .with("cgroup.refaults_file", "/jobs/sort", |_| 400.0)
        .with("cgroup.major_faults", "/jobs/sort", |_| 90.0);
    says(&judged(group), Bottleneck::Memory, "/jobs/sort");
}

/// Four paths to one disk, and the multipath node that counts what goes over all of them.
fn multipath(reads: f64, seconds: f64) -> Recording {
    let paths = ["sda", "sdb", "sdc", "sdd"];
    let mut devices: Vec<Device> = paths.iter().map(|path| device(path, DeviceClass::Flash, &[], None)).collect();
    let node = device("dm-0", DeviceClass::Flash, &paths, None);
    devices.push(Device { kind: DeviceKind::Multipath, ..node });
    let topology = Topology { devices, processors: 2, ..Topology::default() };
    let recording = processors(Recording::new(30).topology(topology), 0.05, 0.02, 0.0);
    let recording = recording.disk("dm-0", reads, seconds, 1.0);
    paths.iter().fold(recording, |r, path| r.disk(path, reads / 4.0, seconds, 1.0))
}

#[test]
fn a_disk_with_four_paths_is_judged_as_one() {
    // six in flight, one and a half on each path
    let verdict = judged(multipath(1000.0, 0.006).with("pressure.io_some_s", "", |_| 0.9));
    says(&verdict, Bottleneck::Disk, "dm-0");
    assert_eq!(verdict.findings[0].rule, "disk.saturated");
    assert!(verdict.findings.iter().all(|f| !f.instance.starts_with("sd")), "{:#?}", verdict.findings);
}

#[test]
fn counters_of_a_path_alone_are_judged_at_the_path() {
    let first = |i: usize| if i == 3 { 1.0 } else { 0.0 };
    let verdict = judged(multipath(40.0, 0.001).with("physical_disk.kernel_messages", "sdb", first));
    let of_disks = verdict.findings.iter().filter(|f| f.object == "physical_disk");
    let found: Vec<(&str, &str)> = of_disks.map(|f| (f.rule.as_str(), f.instance.as_str())).collect();
    assert_eq!(found, [("disk.kernel-errors", "sdb")]);
}

#[test]
fn saturated_processors_blame_the_cpu() {
    let busy = processors(Recording::new(30).topology(virtual_disk()), 0.95, 0.04, 0.0)
        .disk("vda", 50.0, 0.001, 0.05)
        .with("pressure.cpu_some_s", "", |_| 0.8)
        .with("system.running", "", |_| 9.0);
    says(&judged(busy), Bottleneck::Cpu, "");
}

#[test]
fn processors_full_of_interrupts_blame_interrupts() {
    let busy = processors(Recording::new(30).topology(virtual_disk()), 0.05, 0.4, 0.5)
        .disk("vda", 50.0, 0.0001, 0.05)
        .with("pressure.cpu_some_s", "", |_| 0.5)
        .with("system.running", "", |_| 4.0);
    assert_eq!(judged(busy).bottleneck, Bottleneck::Interrupts);
}

#[test]
fn a_cgroup_at_its_limit_on_a_quick_disk_blames_the_limit() {
    let held = idle()
        .disk("vda", 299.0, 0.0002, 0.06)
        .with("pressure.io_some_s", "", |_| 0.99)
        .with("cgroup.reads", "/jobs/db@vda", |_| 299.0)
        .with("cgroup.writes", "/jobs/db@vda", |_| 0.0)
        .with("cgroup.read_limit_per_s", "/jobs/db@vda", |_| 300.0);
    says(&judged(held), Bottleneck::Throttle, "/jobs/db@vda");
}

#[test]
fn a_flat_plateau_at_a_volume_cap_blames_the_limit() {
    let level = |i: usize, light: f64, full: f64| if i < 10 { light } else { full };
    let capped = idle()
        .with("physical_disk.reads", "vda", move |i| level(i, 100.0, 250.0))
        .with("physical_disk.writes", "vda", |_| 0.0)
        .with("physical_disk.read_bytes", "vda", move |i| level(i, 409_600.0, 1_024_000.0))
        .with("physical_disk.write_bytes", "vda", |_| 0.0)
        .with("physical_disk.read_time_s", "vda", move |i| level(i, 0.12, 8.0))
        .with("physical_disk.write_time_s", "vda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "vda", move |i| level(i, 0.12, 8.0))
        .with("physical_disk.busy_time_s", "vda", move |i| level(i, 0.12, 1.0))
        .with("pressure.io_some_s", "", move |i| level(i, 0.1, 0.99));
    says(&judged(capped), Bottleneck::Throttle, "vda");
}

/// Depth three of 3 ms, with what a simulated disk knows besides: how full it is.
fn reports_utilization(class: DeviceClass, utilisation: f64) -> Verdict {
    reports_utilization_at(class, utilisation, 1000.0)
}

/// The same with so many transfers a second.
fn reports_utilization_at(class: DeviceClass, utilisation: f64, rate: f64) -> Verdict {
    let topology = Topology { devices: vec![device("d", class, &[], None)], processors: 2, ..Topology::default() };
    let disk =
        Recording::new(30).disk("d", rate, 0.003, 1.0).with("physical_disk.utilisation", "d", move |_| utilisation);
    judged(processors(disk.topology(topology), 0.05, 0.05, 0.0))
}

#[test]
fn a_disk_that_reports_its_own_utilization_is_believed() {
    let full = reports_utilization(DeviceClass::Unknown, 0.97);
    says(&full, Bottleneck::Disk, "d");
    assert!(full.findings.iter().any(|f| f.rule == "disk.parts-full"), "{:#?}", full.findings);
    says(&reports_utilization(DeviceClass::Unknown, 0.3), Bottleneck::None, "");
    let allowed = reports_utilization(DeviceClass::Virtual, 0.99);
    says(&allowed, Bottleneck::Throttle, "d");
    assert!(allowed.findings.iter().any(|f| f.rule == "throttle.allowance-used"), "{:#?}", allowed.findings);
    // who asks one at a time (0.94 outstanding) waits as well; few who hardly ever wait (0.3) do not
    says(&reports_utilization_at(DeviceClass::Unknown, 0.94, 313.0), Bottleneck::Disk, "d");
    says(&reports_utilization_at(DeviceClass::Virtual, 0.94, 313.0), Bottleneck::Throttle, "d");
    says(&reports_utilization_at(DeviceClass::Virtual, 0.94, 100.0), Bottleneck::None, "");
}

#[test]
fn tiny_requests_one_at_a_time_on_a_quick_disk_blame_the_application() {
    let tiny = idle().disk("vda", 9000.0, 0.00008, 0.8).with("pressure.io_some_s", "", |_| 0.6);
    says(&judged(tiny), Bottleneck::Application, "vda");
}

#[test]
fn a_slow_member_is_named_before_its_set() {
    let mut topology = array(4, DeviceClass::Flash, RaidLevel::Raid0);
    topology.processors = 2;
    let set = processors(Recording::new(30).topology(topology), 0.05, 0.02, 0.0)
        .disk("sda", 100.0, 0.001, 0.1)
        .disk("sdb", 100.0, 0.030, 1.0)
        .disk("sdc", 100.0, 0.001, 0.1)
        .disk("sdd", 100.0, 0.001, 0.1)
        .with("pressure.io_some_s", "", |_| 0.9);
    let verdict = judged(set);
    says(&verdict, Bottleneck::Disk, "sdb");
    assert_eq!(verdict.findings[0].rule, "disk.slow-member");
}

#[test]
fn a_set_that_is_full_is_named_as_a_set() {
    let mut topology = array(2, DeviceClass::Network, RaidLevel::Raid0);
    topology.processors = 2;
    let set = processors(Recording::new(30).topology(topology), 0.05, 0.02, 0.0)
        .disk("sda", 400.0, 0.02, 1.0)
        .disk("sdb", 400.0, 0.021, 1.0)
        .with("pressure.io_some_s", "", |_| 0.9);
    says(&judged(set), Bottleneck::Disk, "md0");
}

#[test]
fn as_many_computing_tasks_as_processors_leave_no_queue() {
    let full = processors(Recording::new(30).topology(virtual_disk()), 0.97, 0.02, 0.0);
    let full = full.with("pressure.cpu_some_s", "", |_| 0.02).with("system.running", "", |_| 2.0);
    let verdict = judged(full.disk("vda", 50.0, 0.0005, 0.02));
    says(&verdict, Bottleneck::Cpu, "");
    assert_eq!(verdict.findings[0].rule, "cpu.full");
}

#[test]
fn a_full_link_is_the_channel() {
    let mut topology = virtual_disk();
    topology.devices[0].link_bytes_per_s = Some(100e6);
    let moved = processors(Recording::new(30).topology(topology), 0.05, 0.02, 0.0);
    let moved = moved.with("physical_disk.read_bytes", "vda", |_| 92e6).disk("vda", 900.0, 0.0009, 0.9);
    says(&judged(moved), Bottleneck::Channel, "vda");
}

/// An hour, of which the first ten minutes are bad.
fn bad_start(more: impl Fn(Recording) -> Recording) -> Verdict {
    let bad = |tick: usize| tick < 600;
    let hour = Recording::new(3600)
        .topology(virtual_disk())
        .with("physical_disk.reads", "vda", move |tick| if bad(tick) { 100.0 } else { 1.0 })
        .with("physical_disk.read_time_s", "vda", move |tick| if bad(tick) { 6.0 } else { 0.001 })
        .with("physical_disk.weighted_time_s", "vda", move |tick| if bad(tick) { 6.0 } else { 0.001 })
        .with("pressure.io_some_s", "", move |tick| if bad(tick) { 0.9 } else { 0.0 });
    judged(more(processors(hour.disk("vda", 1.0, 0.001, 0.5), 0.05, 0.02, 0.0)))
}

#[test]
fn a_bad_stretch_of_a_quiet_hour_is_told_as_an_episode() {
    let verdict = bad_start(|hour| hour);
    says(&verdict, Bottleneck::None, "");
    let rules: Vec<&str> = verdict.episodes.iter().map(|e| e.rule.as_str()).collect();
    assert_eq!(rules, ["disk.saturated"], "{:#?}", verdict.episodes);
    assert!((verdict.episodes[0].longest_s - 600.0).abs() < 2.0, "{:#?}", verdict.episodes[0]);
    assert!((verdict.episodes[0].share - 1.0 / 6.0).abs() < 0.01);
}

#[test]
fn paging_explains_a_bad_stretch_of_its_disk() {
    let bad = |tick: usize| if tick < 600 { 1.0 } else { 0.0 };
    let verdict = bad_start(|hour| {
        hour.with("paging.swap_in_pages", "", move |tick| 300.0 * bad(tick)).with(
            "pressure.memory_some_s",
            "",
            move |tick| 0.4 * bad(tick),
        )
    });
    let rules: Vec<&str> = verdict.episodes.iter().map(|e| e.rule.as_str()).collect();
    assert_eq!(rules, ["memory.paging"]);
}

#[test]
fn thousands_of_single_sector_requests_blame_the_application() {
    // 35,000 reads of 512 bytes a second, 8 microseconds each: the queue is short, the asking costs
    let tiny = idle().with("physical_disk.read_bytes", "vda", |_| 35e3 * 512.0).disk("vda", 35e3, 8e-6, 0.3);
    let verdict = judged(tiny.with("pressure.io_some_s", "", |_| 0.12));
    says(&verdict, Bottleneck::Application, "vda");
    assert_eq!(verdict.findings[0].rule, "application.tiny-records");
}
