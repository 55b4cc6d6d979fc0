//! Evidence that can be checked: what is shown of a blamed disk, over which
//! ticks a number is, advice that fits the load and the device, and culprits
//! of the blamed disk.

use crate::common::*;
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable, Topology};
use diskwright_diagnosis::{Bottleneck, Judge, Verdict};

/// A load: its direction, request size and device.
#[derive(Clone, Copy)]
struct Load {
    reads: f64,
    writes: f64,
    size: f64,
    class: DeviceClass,
}

const READER: Load = Load { reads: 600.0, writes: 0.0, size: 8192.0, class: DeviceClass::Flash };

fn one_disk(load: Load, name: &'static str) -> Recording {
    let Load { reads, writes, size, .. } = load;
    let seconds = 0.03;
    Recording::new(60)
        .with_disk(name, reads, writes, size, seconds)
        .with("pressure.io_some_s", "", |_| 0.9)
        .with("pressure.memory_some_s", "", |_| 0.0)
        .with("memory.dirty_fraction", "", |_| 0.8)
}

fn topology(class: DeviceClass, names: &[&str]) -> Topology {
    let devices = names.iter().map(|name| device(name, class, &[], None)).collect();
    Topology { devices, processors: 2, ..Topology::default() }
}

fn on(load: Load) -> Verdict {
    one_disk(load, "sda").topology(topology(load.class, &["sda"])).by_default()
}

fn advised(verdict: &Verdict) -> Vec<&str> {
    assert_eq!(verdict.bottleneck, Bottleneck::Disk, "{}", verdict.sentence);
    verdict.advice.iter().map(|a| a.id.as_str()).collect()
}

#[test]
fn of_a_blamed_disk_both_directions_queue_and_busy_time_are_shown() {
    let verdict = on(Load { writes: 200.0, ..READER });
    for finding in verdict.findings.iter().filter(|f| f.bottleneck == Bottleneck::Disk) {
        let value = |name: &str| {
            let found = finding.evidence.iter().find(|e| e.counter == format!("physical_disk.{name}"));
            found.unwrap_or_else(|| panic!("{} lacks {name}", finding.rule)).value.unwrap()
        };
        near(value("reads_per_s"), 600.0);
        near(value("writes_per_s"), 200.0);
        near(value("read_bytes_per_s"), 600.0 * 8192.0);
        near(value("write_bytes_per_s"), 200.0 * 8192.0);
        near(value("avg_s_per_read"), 0.03);
        near(value("avg_s_per_write"), 0.03);
        near(value("avg_queue_length"), 24.0);
        near(value("busy"), 1.0);
    }
}

#[test]
fn each_number_names_the_time_it_is_of() {
    let bad = |tick: usize| (10..30).contains(&tick) || (40..50).contains(&tick);
    let verdict = Recording::new(60)
        .with("physical_disk.avg_queue_length", "sda", move |tick| if bad(tick) { 32.0 } else { 1.0 })
        .by("[[rule]]\nid = 'r'\nall = [{ counter = 'avg_queue_length', above = 2 }]\n");
    let finding = only(&verdict);
    near(finding.value, 32.0);
    near(finding.mean.unwrap(), 16.5);
    let stretches: Vec<(&str, &str)> = finding.stretches.iter().map(|s| (&s.from[14..19], &s.to[14..19])).collect();
    assert_eq!(stretches, [("00:10", "00:30"), ("00:40", "00:50")]);
    assert_eq!(finding.times, 2);
    let expected = "average queue length 32 requests in that time, 16.5 requests over the whole window, limit 2; 50 % \
                of 60 s";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
}

#[test]
fn readers_are_not_told_of_dirty_pages_and_writers_not_of_read_ahead() {
    let of_writing = ["disk.dirty-limits", "disk.flush-group-commit", "disk.write-cache", "disk.separate-log"];
    let verdict = on(READER);
    let reader = advised(&verdict);
    assert!(of_writing.iter().all(|id| !reader.contains(id)), "{reader:?}");
    let verdict = on(Load { reads: 0.0, writes: 600.0, size: 65536.0, ..READER });
    let writer = advised(&verdict);
    assert!(writer.contains(&"disk.dirty-limits") && !writer.contains(&"disk.read-ahead"), "{writer:?}");
    // small writes are those of who waits for each, and no pages that were collected in memory
    let verdict = on(Load { reads: 0.0, writes: 600.0, ..READER });
    assert!(!advised(&verdict).contains(&"disk.dirty-limits"), "{:?}", advised(&verdict));
    let verdict = on(Load { reads: 580.0, writes: 30.0, ..READER });
    assert!(!advised(&verdict).contains(&"disk.dirty-limits"), "a twentieth of the requests");
}

#[test]
fn read_ahead_and_request_size_fit_the_requests() {
    // one stream: queue 0.9
    let stream = |size: f64| {
        let load = Load { reads: 30.0, writes: 0.0, size, class: DeviceClass::Flash };
        let verdict = on(load);
        let ids: Vec<String> = advised(&verdict).into_iter().map(str::to_owned).collect();
        let has = |id: &str| ids.iter().any(|known| known == id);
        (has("disk.read-ahead"), has("disk.bigger-requests"))
    };
    assert_eq!(stream(4096.0), (false, true), "small pieces at random");
    assert_eq!(stream(131_072.0), (true, true), "a stream in pieces of 128 KiB");
    assert_eq!(stream(3e6), (false, false), "large pieces already");
}

#[test]
fn heads_and_fragments_are_of_rotating_disks() {
    for (class, rotates) in [
        (DeviceClass::Rotational, true),
        (DeviceClass::Flash, false),
        (DeviceClass::Nvme, false),
        (DeviceClass::Virtual, false),
    ] {
        let verdict = on(Load { class, ..READER });
        assert_eq!(advised(&verdict).contains(&"disk.defragment"), rotates, "{class:?}");
        if !rotates {
            assert!(verdict.advice.iter().all(|a| !a.text.contains("head") || a.text.contains("ahead")));
            assert!(!verdict.findings[0].explain.contains("moving"));
        }
    }
}

#[test]
fn a_groups_limit_is_raised_for_groups_alone() {
    let machine = one_disk(READER, "sda")
        .topology(topology(DeviceClass::Flash, &["sda"]))
        .with("paging.swap_in_pages", "", |_| 2000.0)
        .with("paging.swap_out_pages", "", |_| 2000.0)
        .by_default();
    assert_eq!(machine.bottleneck, Bottleneck::Memory);
    assert!(machine.advice.iter().all(|a| a.id != "memory.raise-cgroup-limit"));
    let group = one_disk(READER, "sda")
        .topology(topology(DeviceClass::Flash, &["sda"]))
        .with("cgroup.memory_bytes", "/jobs", |_| 0.99e8)
        .with("cgroup.memory_limit_bytes", "/jobs", |_| 1e8)
        .with("cgroup.refaults_file", "/jobs", |_| 400.0)
        .by_default();
    assert_eq!((group.bottleneck, group.instance.as_str()), (Bottleneck::Memory, "/jobs"));
    assert!(group.advice.iter().any(|a| a.id == "memory.raise-cgroup-limit"));
}

/// A group whose programs are killed twice, at a limit of 96 MiB, on a machine with 16 GiB of which this share is free.
fn killed_in_group(available: f64) -> Verdict {
    one_disk(READER, "sda")
        .topology(topology(DeviceClass::Flash, &["sda"]))
        .with("memory.total_bytes", "", |_| (16_u64 << 30) as f64)
        .with("memory.available_fraction", "", move |_| available)
        .with("cgroup.oom_kills", "/jobs", |tick| f64::from(u8::from(tick % 20 == 5)))
        .with("cgroup.memory_bytes", "/jobs", |_| (90_u64 << 20) as f64)
        .with("cgroup.memory_limit_bytes", "/jobs", |_| (96_u64 << 20) as f64)
        .by_default()
}

#[test]
fn a_group_in_which_programs_are_killed_gets_a_higher_limit_where_the_machine_has_the_memory() {
    let verdict = killed_in_group(0.9);
    let of_memory = verdict.bottlenecks.iter().find(|listed| listed.bottleneck == Bottleneck::Memory);
    assert_eq!(of_memory.map(|listed| listed.instance.as_str()), Some("/jobs"), "{}", verdict.sentence);
    let command = |verdict: &Verdict| verdict.advice.iter().find_map(|advice| advice.command.clone());
    let is_for_memory = |command: &String| command.contains("memory");
    // half as much again
    let expected = format!("echo {} > /sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", 144_u64 << 20);
    assert_eq!(command(&verdict).filter(is_for_memory), Some(expected), "{:?}", verdict.advice);
    assert_eq!(command(&killed_in_group(0.05)).filter(is_for_memory), None);
}

#[test]
fn what_no_host_can_show_is_not_missing() {
    let verdict = on(READER);
    let never = |m: &String| m.starts_with("controller.") || m.starts_with("channel.");
    assert!(!verdict.missing.counters.iter().any(never), "{:?}", verdict.missing.counters);
    assert!(!verdict.unjudged.iter().any(|u| u.missing.iter().any(never)));
}

/// Two disks of which `sda` is full: `db` reads there, `backup` reads ten times as much from `sdb`.
fn two_disks(groups: bool) -> Verdict {
    let recording = one_disk(READER, "sda");
    let mut recording = recording
        .with("physical_disk.reads", "sdb", |_| 100.0)
        .with("physical_disk.read_bytes", "sdb", |_| 50e6)
        .with("physical_disk.read_time_s", "sdb", |_| 0.1)
        .with("physical_disk.weighted_time_s", "sdb", |_| 0.1);
    if groups {
        for (instance, bytes) in [("/db@sda", 4.9e6), ("/backup@sdb", 50e6), ("/backup@sda", 1e3)] {
            recording = recording.with("cgroup.read_bytes", instance, move |_| bytes).with(
                "cgroup.write_bytes",
                instance,
                |_| 0.0,
            );
        }
    }
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = Judge::new(vec![pack], recording.options());
    let text = serde_json::to_string(&topology(DeviceClass::Flash, &["sda", "sdb"])).unwrap();
    judge.add_note(&Note::new(START, Note::TOPOLOGY, text));
    let row = |pid, name: &str, bytes| ProcessRow {
        pid,
        name: name.into(),
        cgroup: format!("/{name}"),
        read_bytes_per_s: Some(bytes),
        blocked_share: 0.5,
        ..ProcessRow::default()
    };
    let table = ProcessTable {
        elapsed_s: 60.0,
        rows: vec![row(1, "db", 4.9e6), row(2, "backup", 50e6)],
        ..ProcessTable::default()
    };
    judge.add_note(&Note::new(START, Note::PROCESSES, serde_json::to_string(&table).unwrap()));
    judge.add_frame(&recording.frame(0..60));
    judge.finish().remove(0)
}

#[test]
fn culprits_are_those_of_the_blamed_disk() {
    for groups in [true, false] {
        let verdict = two_disks(groups);
        assert_eq!(verdict.instance, "sda");
        assert_eq!(verdict.culprits[0].name, "db", "{groups}: {:#?}", verdict.culprits);
        let unsure = verdict.culprits[0].description.contains("by total I/O");
        assert_eq!(unsure, !groups, "{}", verdict.culprits[0].description);
        assert!(verdict.culprits.iter().all(|c| c.name != "backup" || c.share < Some(0.3)), "{:#?}", verdict.culprits);
    }
}
