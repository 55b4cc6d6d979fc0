//! Memory before disk, by the default pack, whatever a log lacks: a table of
//! synthetic counters with their true bottleneck.

use crate::common::*;
use diskwright_base::DeviceClass;
use diskwright_base::topology::{Swap, Topology};
use diskwright_diagnosis::{Bottleneck, Verdict};

const MEMORY: Bottleneck = Bottleneck::Memory;
const DISK: Bottleneck = Bottleneck::Disk;

/// A minute of one disk: reads and writes a second, bytes each, seconds each.
#[derive(Clone, Copy)]
struct Load {
    reads: f64,
    writes: f64,
    size: f64,
    seconds: f64,
}

/// A disk that is full: 32 outstanding.
const FULL: Load = Load { reads: 3000.0, writes: 2000.0, size: 8192.0, seconds: 0.0064 };
/// A slow one, of the documents' time: 37 accesses a second, queue 3.
const OLD: Load = Load { reads: 35.0, writes: 2.0, size: 4096.0, seconds: 3.0 / 37.0 };
/// 80 transfers a second of 12 ms.
const PAGED: Load = Load { reads: 60.0, writes: 20.0, size: 4096.0, seconds: 0.012 * 3.0 };
/// Reading in large pieces.
const STREAM: Load = Load { reads: 400.0, writes: 0.0, size: 524_288.0, seconds: 0.03 };

fn on(load: Load) -> Recording {
    on_disk("vda", Recording::new(60).topology(one_disk(&[])), load)
}

fn on_disk(name: &'static str, recording: Recording, load: Load) -> Recording {
    let Load { reads, writes, size, seconds } = load;
    recording.with_disk(name, reads, writes, size, seconds)
}

fn one_disk(swaps: &[&str]) -> Topology {
    let swaps = swaps.iter().map(|d| Swap { path: format!("/dev/{d}"), device: d.to_string(), bytes: 4 << 30 });
    let devices = ["vda", "vdb"].map(|name| device(name, DeviceClass::Flash, &[], None));
    let zram = device("zram0", DeviceClass::Memory, &[], None);
    Topology {
        devices: devices.into_iter().chain([zram]).collect(),
        swaps: swaps.collect(),
        processors: 4,
        ..Topology::default()
    }
}

/// Sets series of one value.
fn and(recording: Recording, series: &[(&str, f64)]) -> Recording {
    series.iter().fold(recording, |r, &(counter, value)| r.with(counter, "", move |_| value))
}

fn pressure(io: f64, memory: f64) -> [(&'static str, f64); 2] {
    [("pressure.io_some_s", io), ("pressure.memory_some_s", memory)]
}

fn swap(pages_in: f64, pages_out: f64, faults: f64) -> [(&'static str, f64); 3] {
    [("paging.swap_in_pages", pages_in), ("paging.swap_out_pages", pages_out), ("paging.major_faults", faults)]
}

fn memory(available: f64) -> [(&'static str, f64); 2] {
    [("memory.total_bytes", 8e9), ("memory.available_bytes", available * 8e9)]
}

fn says(context: &str, verdict: &Verdict, truth: Bottleneck) {
    let held: Vec<String> = verdict.findings.iter().map(|f| format!("{} {}", f.rule, f.instance)).collect();
    assert_eq!(verdict.bottleneck, truth, "{context}: {held:?}");
    if truth == MEMORY {
        assert!(verdict.instance.is_empty(), "{context}: {}", verdict.instance);
        assert!(verdict.ruled_out.iter().all(|r| r.bottleneck != MEMORY), "{context}");
    }
}

/// Without something of what is known: no pressure, no refaults, no swap traffic, no available memory.
fn lacking(all: &[(&'static str, f64)], lacks: usize) -> Option<Vec<(&'static str, f64)>> {
    let families = ["pressure.", "paging.refaults", "paging.swap_", "memory."];
    let gone = |counter: &str| (0..4).any(|family| lacks & (1 << family) != 0 && counter.starts_with(families[family]));
    let left: Vec<_> = all.iter().copied().filter(|(counter, _)| !gone(counter)).collect();
    // what shows paging must be there in some form
    left.iter()
        .any(|(counter, _)| counter.starts_with("paging.") || *counter == "pressure.memory_some_s")
        .then_some(left)
}

#[test]
fn the_documents_own_example_is_memory() {
    let pages = [("paging.page_reads_per_s", 35.0), ("paging.page_writes_per_s", 2.0)];
    let old = and(on(OLD), &pages);
    says("NT Resource Kit", &old.by_default(), MEMORY);
    for available in [4e6, 12e6] {
        says(
            "NT Resource Kit with 16 MB",
            &and(and(on(OLD), &pages), &[("memory.available_bytes", available)]).by_default(),
            MEMORY,
        );
    }
    let busier = Load { reads: 300.0, writes: 60.0, size: 8192.0, seconds: 0.02 };
    let more = [("paging.page_reads_per_s", 280.0), ("paging.page_writes_per_s", 60.0)];
    says("the same, ten times as fast", &and(on(busier), &more).by_default(), MEMORY);
    says(
        "500 MB of who knows how much",
        &and(and(on(busier), &more), &[("memory.available_bytes", 5e8)]).by_default(),
        MEMORY,
    );
}

#[test]
fn page_reads_of_mapped_files_are_the_disk() {
    let pages = [("paging.page_reads_per_s", 35.0), ("paging.page_writes_per_s", 0.0)];
    says("nothing is written to make room", &and(on(OLD), &pages).by_default(), DISK);
    let pages = [("paging.page_reads_per_s", 35.0), ("paging.page_writes_per_s", 2.0)];
    for ample in [&[("memory.available_bytes", 6e9)][..], &memory(0.6)] {
        says("ample memory", &and(and(on(OLD), &pages), ample).by_default(), DISK);
    }
    says("a small part of the transfers", &and(on(FULL), &pages).by_default(), DISK);
}

#[test]
fn pages_a_second_alone_need_available_memory_to_be_sure() {
    let pages = [("paging.pages_per_s", 60.0)];
    says("hardly any left", &and(and(on(OLD), &pages), &[("memory.available_bytes", 6e6)]).by_default(), MEMORY);
    says("ample", &and(and(on(OLD), &pages), &[("memory.available_bytes", 6e9)]).by_default(), DISK);
    let unsettled = and(on(OLD), &pages).by_default();
    says("unsettled", &unsettled, MEMORY);
    assert!(unsettled.confidence < 0.6, "{}", unsettled.confidence);
    says("few of many", &and(on(FULL), &pages).by_default(), DISK);
}

#[test]
fn a_disk_that_swaps_and_nothing_else_is_memory_without_pressure_data() {
    for (pages_in, pages_out, faults) in [(60.0, 20.0, 60.0), (40.0, 60.0, 30.0), (80.0, 0.0, 80.0)] {
        says("80 of 80 transfers", &and(on(PAGED), &swap(pages_in, pages_out, faults)).by_default(), MEMORY);
    }
    // eight pages a request
    let clustered = Load { size: 32_768.0, ..PAGED };
    says("in clusters", &and(on(clustered), &swap(480.0, 160.0, 60.0)).by_default(), MEMORY);
    let on_vdb = on_disk("vdb", on(Load { reads: 2.0, writes: 1.0, size: 4096.0, seconds: 0.001 }), PAGED);
    let on_vdb = on_vdb.topology(one_disk(&["vdb"]));
    says("beside an idle disk", &and(on_vdb, &swap(60.0, 20.0, 60.0)).by_default(), MEMORY);
    let many = on_disk("vdb", on(FULL), PAGED).topology(one_disk(&["vdb"]));
    says("beside a busy disk", &and(many, &swap(60.0, 20.0, 60.0)).by_default(), MEMORY);
}

#[test]
fn a_little_swap_on_a_full_disk_is_the_disk() {
    for memory_some in [0.0, 0.06, 0.3] {
        let some = and(on(FULL), &swap(5.0, 5.0, 4.0));
        let some = and(and(some, &pressure(0.95, memory_some)), &[("paging.refaults_file", 3.0)]);
        says("with pressure", &some.by_default(), DISK);
    }
    says("without pressure", &and(on(FULL), &swap(5.0, 5.0, 4.0)).by_default(), DISK);
    says("out alone", &and(on(FULL), &swap(0.0, 400.0, 0.0)).by_default(), DISK);
    // a turning disk: three of a hundred
    let slow = Load { reads: 97.0, writes: 3.0, size: 16_384.0, seconds: 0.3 };
    let some = and(and(on(slow), &swap(3.0, 0.0, 3.0)), &pressure(0.99, 0.6));
    says("each takes long", &and(some, &[("paging.refaults_file", 0.0)]).by_default(), DISK);
}

#[test]
fn refaults_and_memory_pressure_are_enough_to_blame_memory() {
    let thrash = [("paging.refaults_file", 5000.0), ("paging.refaults_anon", 0.0)];
    for available in [0.03, 0.3, 0.8] {
        let all = and(and(and(on(FULL), &thrash), &memory(available)), &pressure(0.9, 0.6));
        says("much clean cache", &all.by_default(), MEMORY);
        let unseen = and(and(on(FULL), &thrash), &memory(available));
        says("without pressure", &unseen.by_default(), MEMORY);
    }
    let alone = and(and(on(FULL), &memory(0.8)), &pressure(0.9, 0.6));
    says("pressure alone", &alone.by_default(), MEMORY);
}

#[test]
fn a_stream_through_the_cache_is_the_disk() {
    for refaults in [0.0, 50.0, 2000.0] {
        let stream = and(and(on(STREAM), &[("paging.refaults_file", refaults)]), &memory(0.7));
        says("without pressure", &and(stream, &swap(0.0, 0.0, 20.0)).by_default(), DISK);
        let stream = and(and(on(STREAM), &[("paging.refaults_file", refaults)]), &memory(0.7));
        says("with", &and(and(stream, &swap(0.0, 0.0, 20.0)), &pressure(0.95, 0.12)).by_default(), DISK);
    }
    // the same large file again and again
    let again = and(on(STREAM), &[("paging.refaults_file", 45_000.0)]);
    says("a file larger than memory", &and(again, &memory(0.7)).by_default(), DISK);
}

#[test]
fn mapped_files_with_ample_memory_are_the_disk() {
    let faults = &swap(0.0, 0.0, 2800.0);
    let known = and(and(and(on(FULL), faults), &memory(0.6)), &[("paging.refaults_file", 0.0)]);
    says("all known", &and(known, &pressure(0.9, 0.01)).by_default(), DISK);
    says("no pressure, no refaults", &and(and(on(FULL), faults), &memory(0.6)).by_default(), DISK);
    says("no memory counters", &and(on(FULL), faults).by_default(), DISK);
    let low = and(and(on(FULL), faults), &memory(0.02));
    says("the same with hardly any memory left", &low.by_default(), MEMORY);
}

#[test]
fn swap_in_compressed_memory() {
    let quiet = Load { reads: 5.0, writes: 5.0, size: 8192.0, seconds: 0.0005 };
    let zram = on_disk(
        "zram0",
        on(quiet).topology(one_disk(&["zram0"])),
        Load { size: 4096.0, reads: 9000.0, writes: 9000.0, seconds: 5e-6 },
    );
    let thrash = and(and(zram, &swap(9000.0, 9000.0, 9000.0)), &[("paging.refaults_file", 10.0)]);
    says("thrashing", &and(thrash, &pressure(0.1, 0.6)).by_default(), MEMORY);
    let zram = on_disk(
        "zram0",
        on(FULL).topology(one_disk(&["zram0"])),
        Load { size: 4096.0, reads: 200.0, writes: 200.0, seconds: 5e-6 },
    );
    let little = and(and(zram, &swap(200.0, 200.0, 200.0)), &[("paging.refaults_file", 10.0)]);
    says("little of it beside a full disk", &and(little, &pressure(0.9, 0.01)).by_default(), DISK);
    // another tool's log, which knows no swap areas and names the device alone
    let zram = on_disk("zram0", on(FULL), Load { size: 4096.0, reads: 200.0, writes: 200.0, seconds: 5e-6 });
    says("of another tool", &and(zram, &swap(200.0, 200.0, 200.0)).by_default(), DISK);
}

#[test]
fn whatever_a_log_lacks_the_same_thrashing_is_memory_and_the_same_full_disk_is_not() {
    let thrash: Vec<(&str, f64)> = pressure(0.9, 0.6)
        .into_iter()
        .chain([("paging.refaults_file", 300.0), ("paging.refaults_anon", 2500.0)])
        .chain(swap(2800.0, 1500.0, 2500.0))
        .chain(memory(0.04))
        .collect();
    let full: Vec<(&str, f64)> = pressure(0.9, 0.02)
        .into_iter()
        .chain([("paging.refaults_file", 20.0), ("paging.refaults_anon", 2.0)])
        .chain(swap(5.0, 10.0, 30.0))
        .chain(memory(0.5))
        .collect();
    let mut tried = 0;
    for lacks in 0..16 {
        for (truth, all) in [(MEMORY, &thrash), (DISK, &full)] {
            let Some(left) = lacking(all, lacks) else { continue };
            let names: Vec<&str> = left.iter().map(|(counter, _)| *counter).collect();
            says(&format!("{truth:?} with {names:?}"), &and(on(FULL), &left).by_default(), truth);
            tried += 1;
        }
    }
    assert!(tried >= 28, "{tried}");
}

#[test]
fn drive_letters_stand_in_for_disks() {
    let drive = |pages: [(&'static str, f64); 2]| {
        let r = Recording::new(60)
            .with("logical_disk.avg_queue_length", "C:", |_| 3.0)
            .with("logical_disk.avg_s_per_transfer", "C:", |_| 0.08)
            .with("logical_disk.transfers_per_s", "C:", |_| 37.0)
            .with("logical_disk.bytes_per_s", "C:", |_| 37.0 * 4096.0);
        and(r, &pages).by_default()
    };
    says("paging", &drive([("paging.page_reads_per_s", 35.0), ("paging.page_writes_per_s", 2.0)]), MEMORY);
    says("none", &drive([("paging.page_reads_per_s", 1.0), ("paging.page_writes_per_s", 0.0)]), DISK);
}

/// A cgroup at its memory limit, which reads pages again from one disk, beside a full disk.
fn short_group(used: &str, refaults: bool) -> Verdict {
    let used = format!("/jobs/sort@{used}");
    let quick = Load { reads: 80.0, writes: 0.0, size: 4096.0, seconds: 0.0005 };
    let recording = on_disk("vdb", on(FULL), quick);
    let recording = and(recording, &[("pressure.io_some_s", 0.9)])
        .with("cgroup.memory_bytes", "/jobs/sort", |_| 0.99e8)
        .with("cgroup.memory_limit_bytes", "/jobs/sort", |_| 1e8)
        .with("cgroup.major_faults", "/jobs/sort", |_| 90.0)
        .with("cgroup.read_bytes", &used, |_| 4e5)
        .with("cgroup.write_bytes", &used, |_| 0.0);
    let recording = if refaults { recording.with("cgroup.refaults_file", "/jobs/sort", |_| 60.0) } else { recording };
    recording.by_default()
}

#[test]
fn a_short_cgroup_explains_no_disk_that_it_leaves_alone() {
    let full = |verdict: &Verdict| verdict.findings.iter().any(|f| f.rule == "disk.saturated" && f.instance == "vda");
    let both = short_group("vdb", true);
    assert!(full(&both), "{:#?}", both.set_aside);
    assert!(both.findings.iter().any(|f| f.rule == "memory.cgroup-thrash"), "{:#?}", both.findings);
    // less sure than by refaults, so that the disk is the stronger one
    let weaker = short_group("vdb", false);
    assert_eq!((weaker.bottleneck, weaker.instance.as_str()), (DISK, "vda"), "{:#?}", weaker.ranking);
    // on the disk that it uses, it may be why
    for refaults in [true, false] {
        let same = short_group("vda", refaults);
        assert!(!full(&same) && same.bottleneck == MEMORY, "{:#?}", same.findings);
        assert!(same.set_aside.iter().any(|s| s.rule == "disk.saturated" && s.instance == "vda"));
    }
}

/// NT Resource Kit: from five page reads a second on, look at memory first. The log has no Available Bytes.
#[test]
fn page_reads_without_available_memory_do_not_rule_memory_out() {
    let of_disk = |reads: f64| {
        let load = Load { reads: 45.0, writes: 15.0, size: 4096.0, seconds: 5.0 / 60.0 };
        let paging = [("paging.page_reads_per_s", reads), ("paging.page_writes_per_s", 0.2)];
        and(on(load).without("pressure.io_some_s").without("pressure.memory_some_s"), &paging)
    };
    let is_ruled_out = |recording: Recording| {
        let verdict = recording.by_default();
        (verdict.ruled_out.iter().any(|e| e.bottleneck == MEMORY), verdict)
    };
    let (ruled_out, verdict) = is_ruled_out(of_disk(15.0));
    assert!(!ruled_out, "{:?}", verdict.ruled_out);
    assert!(verdict.findings.iter().any(|f| f.rule == "paging.memory-unseen"), "{:?}", verdict.findings);
    let ample = [("memory.available_bytes", 64e6)];
    let (ruled_out, verdict) = is_ruled_out(and(of_disk(15.0), &ample));
    assert!(ruled_out, "{:?}", verdict.ruled_out);
}
