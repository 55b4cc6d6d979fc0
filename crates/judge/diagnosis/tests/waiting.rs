//! Stalls, synchronous writers and deep queues by the default pack: what a log
//! shows of waiting, what it cannot show, and the neighbours that must not flip.

use crate::common::*;
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable, Topology};
use diskwright_diagnosis::{Bottleneck, Judge, Verdict};

fn says(context: &str, verdict: &Verdict, truth: Bottleneck) {
    let held: Vec<String> = verdict.findings.iter().map(|f| format!("{} {}", f.rule, f.instance)).collect();
    assert_eq!(verdict.bottleneck, truth, "{context}: {held:?} {}", verdict.sentence);
}

/// Processors of a foreign log: busy, idle for I/O.
fn processors(recording: Recording, busy: f64, iowait: f64) -> Recording {
    recording
        .with("processor.user", "_total", move |_| busy)
        .with("processor.privileged", "_total", |_| 0.0)
        .with("processor.iowait", "_total", move |_| iowait)
        .with("processor.idle", "_total", move |_| 1.0 - busy - iowait)
        .with("processor.busy", "_total", move |_| busy)
}

/// A disk as iostat reports it.
#[derive(Clone, Copy)]
struct Iostat {
    reads: f64,
    writes: f64,
    read_s: f64,
    write_s: f64,
    bytes: f64,
    queue: f64,
    busy: f64,
}

fn iostat(disk: Iostat) -> Recording {
    Recording::new(12)
        .every(5)
        .with("physical_disk.reads_per_s", "sda", move |_| disk.reads)
        .with("physical_disk.writes_per_s", "sda", move |_| disk.writes)
        .with("physical_disk.read_bytes_per_s", "sda", move |_| disk.reads * disk.bytes)
        .with("physical_disk.write_bytes_per_s", "sda", move |_| disk.writes * disk.bytes)
        .with("physical_disk.avg_s_per_read", "sda", move |_| disk.read_s)
        .with("physical_disk.avg_s_per_write", "sda", move |_| disk.write_s)
        .with("physical_disk.avg_read_queue_length", "sda", move |_| disk.reads * disk.read_s)
        .with("physical_disk.avg_write_queue_length", "sda", move |_| disk.writes * disk.write_s)
        .with("physical_disk.avg_queue_length", "sda", move |_| disk.queue)
        .with("physical_disk.busy", "sda", move |_| disk.busy)
}

/// A live machine with a disk that is quick but for its stalls.
fn stalling(ticks: usize, stands_still: fn(usize) -> bool) -> Recording {
    let busy = |stalls: bool, quick: f64, stalled: f64| if stalls { stalled } else { quick };
    let rate = move |tick: usize| busy(stands_still(tick), 400.0, 0.0);
    let topology = Topology {
        devices: vec![device("vda", DeviceClass::Virtual, &[], None)],
        processors: 2,
        ..Topology::default()
    };
    Recording::new(ticks)
        .topology(topology)
        .with("physical_disk.reads", "vda", rate)
        .with("physical_disk.writes", "vda", |_| 0.0)
        .with("physical_disk.read_bytes", "vda", move |tick| rate(tick) * 4096.0)
        .with("physical_disk.write_bytes", "vda", |_| 0.0)
        .with("physical_disk.read_time_s", "vda", move |tick| rate(tick) * 0.0004)
        .with("physical_disk.write_time_s", "vda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "vda", move |tick| rate(tick) * 0.0004)
        .with("physical_disk.busy_time_s", "vda", move |tick| busy(stands_still(tick), 0.15, 1.0))
        .with("physical_disk.stalled", "vda", move |tick| busy(stands_still(tick), 0.0, 1.0))
        .with("physical_disk.current_queue_length", "vda", move |tick| {
            busy(stands_still(tick), 0.0, 4.0 + tick as f64 % 2.0)
        })
        .with("pressure.io_some_s", "", move |tick| busy(stands_still(tick), 0.1, 1.0))
        .with("pressure.memory_some_s", "", |_| 0.0)
        .with("system.blocked", "", move |tick| busy(stands_still(tick), 0.0, 4.0))
}

#[test]
fn two_seconds_in_every_six_are_the_disk_with_what_they_caught() {
    let verdict = stalling(60, |tick| tick % 6 < 2).by_default();
    says("2 s in 6", &verdict, Bottleneck::Disk);
    let finding = &verdict.findings[0];
    assert_eq!((finding.rule.as_str(), finding.times), ("disk.stalled", 10));
    near(finding.longest_s, 2.0);
    assert_eq!(finding.stretches.len(), 10);
    let caught = finding.evidence.iter().find(|e| e.counter == "physical_disk.current_queue_length").unwrap();
    assert_eq!(caught.max, Some(5.0));
    let expected = "10 stalls, the longest 2 s at 00:00:00 UTC, up to 5 requests held up";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    // seen for one tick of two each time
    says("1 s in 6", &stalling(60, |tick| tick % 6 < 1).by_default(), Bottleneck::Disk);
    let rare = stalling(300, |tick| tick % 60 < 3).by_default();
    says("3 s in 60, five times", &rare, Bottleneck::Disk);
    assert_eq!(rare.findings[0].rule, "disk.stalls-again");
}

#[test]
fn who_uses_a_disk_that_stalls_is_named_although_it_moves_nothing_meanwhile() {
    let beside = stalling(60, |tick| tick % 6 < 2).with("physical_disk.reads", "vdb", |_| 100.0);
    let reader = ProcessRow { pid: 7, name: "fio".into(), read_bytes_per_s: Some(1e6), ..ProcessRow::default() };
    let table = ProcessTable { elapsed_s: 5.0, rows: vec![reader], ..ProcessTable::default() };
    let note = Note::new(START, Note::PROCESSES, serde_json::to_string(&table).unwrap());
    let verdict = beside.with_tables(&[note]);
    says("2 s in 6", &verdict, Bottleneck::Disk);
    assert_eq!(verdict.culprits.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["fio"]);
}

#[test]
fn one_short_stall_of_a_long_quiet_window_is_a_remark() {
    let verdict = stalling(300, |tick| (100..103).contains(&tick)).by_default();
    says("3 s of 300", &verdict, Bottleneck::None);
    assert!(verdict.findings.iter().any(|f| f.rule == "disk.stalled-once"));
}

#[test]
fn a_device_that_hangs_and_nobody_waits_for_is_not_before_full_processors() {
    let hung = |io_some: f64| {
        let r = Recording::new(60)
            .topology(Topology {
                devices: vec![device("vdb", DeviceClass::Virtual, &[], None)],
                processors: 2,
                ..Topology::default()
            })
            .with("physical_disk.stalled", "vdb", |_| 1.0)
            .with("physical_disk.current_queue_length", "vdb", |_| 3.0)
            .with("pressure.io_some_s", "", move |_| io_some)
            .with("pressure.cpu_some_s", "", |_| 0.8)
            .with("system.running", "", |_| 9.0);
        processors(r, 0.996, 0.0).by_default()
    };
    says("nobody waits", &hung(0.0), Bottleneck::Cpu);
    says("others have I/O of their own", &hung(0.2), Bottleneck::Cpu);
    says("somebody always waits", &hung(0.97), Bottleneck::Disk);
    // another tool's log
    let crawl = Iostat { reads: 0.0, writes: 1.0, read_s: 0.0, write_s: 9.0, bytes: 4096.0, queue: 13.0, busy: 1.0 };
    says("of iostat", &processors(iostat(crawl), 0.996, 0.0).by_default(), Bottleneck::Cpu);
}

#[test]
fn a_disk_that_completes_next_to_nothing_is_the_disk_in_other_tools_logs() {
    for (reads, writes) in [(1.0, 0.0), (0.0, 2.0), (2.0, 2.0), (0.0, 4.0), (0.5, 0.0)] {
        for iowait in [0.0, 0.4] {
            let each = 13.0 / (reads + writes);
            let disk = Iostat { reads, writes, read_s: each, write_s: each, bytes: 4096.0, queue: 13.0, busy: 1.0 };
            says("iostat", &processors(iostat(disk), 0.02, iowait).by_default(), Bottleneck::Disk);
            // older kernels: the queue counts what is in flight, the times what was completed
            let old = Iostat { read_s: 0.003, write_s: 0.003, ..disk };
            says("of an old kernel", &processors(iostat(old), 0.02, iowait).by_default(), Bottleneck::Disk);
        }
    }
    // a slow card that takes large writes in the background
    let card = Iostat { reads: 0.0, writes: 6.0, read_s: 0.0, write_s: 2.0, bytes: 524_288.0, queue: 12.0, busy: 1.0 };
    let verdict = processors(iostat(card), 0.02, 0.0).by_default();
    says("a slow card", &verdict, Bottleneck::Unknown);
}

#[test]
fn synchronous_writers_without_pressure_are_judged() {
    let writers =
        Iostat { reads: 0.0, writes: 564.0, read_s: 0.0, write_s: 0.101, bytes: 8192.0, queue: 57.0, busy: 0.97 };
    let with = |iowait: f64, processors_there: f64| {
        let r = iostat(writers).with("system.processors", "", move |_| processors_there);
        processors(r, 0.05, iowait).by_default()
    };
    says("1.5 of 4 processors idle for I/O", &with(0.375, 4.0), Bottleneck::Disk);
    says("1.5 of 32", &with(1.5 / 32.0, 32.0), Bottleneck::Disk);
    // nobody waits: write-back in the background; the queue stays unexplained
    says("write-back alone", &with(0.002, 4.0), Bottleneck::Unknown);
    let light = Iostat { writes: 60.0, write_s: 0.004, queue: 0.24, busy: 0.1, ..writers };
    let quiet = processors(iostat(light), 0.05, 0.001).by_default();
    says("light", &quiet, Bottleneck::None);
}

#[test]
fn a_deep_queue_is_never_no_bottleneck() {
    for (reads, writes, seconds) in
        [(500.0, 0.0, 0.0494), (0.0, 500.0, 0.0494), (0.0, 24_700.0, 0.001), (12_350.0, 0.0, 0.002)]
    {
        let disk = Iostat { reads, writes, read_s: seconds, write_s: seconds, bytes: 4096.0, queue: 24.7, busy: 0.91 };
        for verdict in [iostat(disk).by_default(), processors(iostat(disk), 0.1, 0.02).by_default()] {
            let held = matches!(verdict.bottleneck, Bottleneck::Disk | Bottleneck::Unknown);
            assert!(held, "{reads} {writes}: {:?} {}", verdict.bottleneck, verdict.sentence);
            for out in &verdict.ruled_out {
                assert!(!out.because.contains("24.7"), "{}", out.because);
                assert!(verdict.bottleneck != Bottleneck::Unknown || out.bottleneck != Bottleneck::Disk);
            }
        }
    }
}

#[test]
fn too_few_judged_rules_give_not_enough_data() {
    let verdict = Recording::new(60).with("memory.available_fraction", "", |_| 0.5).by_default();
    says("available memory alone", &verdict, Bottleneck::Unknown);
    assert_eq!(verdict.confidence, 0.0);
    assert!(verdict.sentence.starts_with("Not enough data: only"), "{}", verdict.sentence);
    assert!(!verdict.missing.instructions.is_empty());
    assert_eq!(verdict.phases.iter().map(|p| p.bottleneck).collect::<Vec<_>>(), [Bottleneck::Unknown]);
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(json["bottleneck"], "unknown");
}

#[test]
fn unexplained_waiting_lowers_the_confidence_in_no_bottleneck() {
    let sure = |io_some: f64, cpu_some: f64| {
        let r = stalling(60, |_| false).with("pressure.cpu_some_s", "", move |_| cpu_some);
        let verdict = processors(r.with("pressure.io_some", "", move |_| io_some), 0.2, 0.0).by_default();
        says("quick", &verdict, Bottleneck::None);
        (verdict.confidence, verdict.certainty_limits.join("; "))
    };
    let ((quiet, _), (some, limits), (much, _)) = (sure(0.001, 0.0), sure(0.2, 0.0), sure(0.5, 0.0));
    assert!(quiet > some && some > much, "{quiet} {some} {much}");
    assert!(much < 0.5, "{much}");
    assert!(limits.contains("no rule explains why tasks waited for I/O for 20 % of the time"), "{limits}");
    let stalled = sure(0.001, 0.6).0;
    assert!(stalled < 0.75 * quiet, "{stalled} of {quiet}");
}

fn with_bookmarks(recording: &Recording, marks: &[(i64, &str)]) -> Verdict {
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = Judge::new(vec![pack], recording.options());
    let topology = Topology {
        devices: vec![device("vda", DeviceClass::Virtual, &[], None)],
        processors: 2,
        ..Topology::default()
    };
    judge.add_note(&Note::new(START, Note::TOPOLOGY, serde_json::to_string(&topology).unwrap()));
    for (second, text) in marks {
        judge.add_note(&Note::new(START + second * SECOND as i64, Note::BOOKMARK, *text));
    }
    judge.add_frame(&recording.frame(0..recording.ticks));
    judge.finish().remove(0)
}

/// A disk that is full from one second to another, of so many.
fn full_between(ticks: usize, from: usize, to: usize, cpu: f64) -> Recording {
    full_when(ticks, cpu, move |tick| (from..to).contains(&tick))
}

/// A disk that is full in the seconds of which `full` says so, and the processors as busy as `cpu` meanwhile.
fn full_when(ticks: usize, cpu: f64, full: impl Fn(usize) -> bool + Copy + 'static) -> Recording {
    let pick = move |tick: usize, yes: f64, no: f64| if full(tick) { yes } else { no };
    Recording::new(ticks)
        .with("physical_disk.reads", "vda", move |tick| pick(tick, 600.0, 5.0))
        .with("physical_disk.writes", "vda", |_| 0.0)
        .with("physical_disk.read_bytes", "vda", move |tick| pick(tick, 600.0, 5.0) * 4096.0)
        .with("physical_disk.write_bytes", "vda", |_| 0.0)
        .with("physical_disk.read_time_s", "vda", move |tick| pick(tick, 15.0, 0.002))
        .with("physical_disk.write_time_s", "vda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "vda", move |tick| pick(tick, 15.0, 0.002))
        .with("physical_disk.busy_time_s", "vda", move |tick| pick(tick, 1.0, 0.01))
        .with("pressure.io_some_s", "", move |tick| pick(tick, 0.95, 0.01))
        .with("pressure.memory_some_s", "", |_| 0.0)
        .with("pressure.cpu_some_s", "", move |tick| pick(tick, cpu, 0.02))
        .with("system.running", "", |_| 2.0)
        .with("processor.busy", "_total", move |tick| pick(tick, cpu, 0.1))
}

#[test]
fn a_full_disk_between_two_bookmarks_is_a_phase() {
    for cpu in [0.1, 0.93] {
        let verdict = with_bookmarks(&full_between(150, 60, 85, cpu), &[(60, "backup begins"), (85, "backup ends")]);
        let phases: Vec<_> = verdict.phases.iter().map(|p| (p.bottleneck, p.instance.as_str(), p.seconds)).collect();
        let none = Bottleneck::None;
        assert_eq!(phases, [(none, "", 60.0), (Bottleneck::Disk, "vda", 25.0), (none, "", 65.0)], "{cpu}");
        let disk = &verdict.phases[1];
        assert_eq!(disk.bookmark, "backup begins");
        assert!(disk.from.ends_with("00:01:00Z") && disk.to.ends_with("00:01:25Z"), "{disk:?}");
        assert!(disk.confidence > 0.6 && disk.confidence <= 1.0, "{}", disk.confidence);
    }
}

#[test]
fn phases_are_found_without_bookmarks_and_in_long_recordings() {
    let verdict = with_bookmarks(&full_between(150, 60, 85, 0.1), &[]);
    let phases: Vec<_> = verdict.phases.iter().map(|p| (p.bottleneck, p.seconds)).collect();
    let none = Bottleneck::None;
    assert_eq!(phases, [(none, 60.0), (Bottleneck::Disk, 25.0), (none, 65.0)]);
    let long = with_bookmarks(&full_between(20_000, 9000, 12_000, 0.1), &[]);
    let middle = &long.phases[1];
    assert_eq!((long.phases.len(), middle.bottleneck), (3, Bottleneck::Disk));
    assert!((middle.seconds - 3000.0).abs() < 150.0, "{}", middle.seconds);
}

#[test]
fn a_constant_answer_is_one_phase_and_a_flicker_is_none() {
    let verdict = with_bookmarks(&full_between(100, 0, 100, 0.1), &[(30, "a"), (60, "b")]);
    assert_eq!(verdict.phases.len(), 1);
    assert_eq!((verdict.phases[0].bottleneck, verdict.phases[0].confidence), (Bottleneck::Disk, verdict.confidence));
    let verdict = with_bookmarks(&full_between(100, 50, 52, 0.1), &[]);
    assert_eq!(verdict.phases.len(), 1, "{:#?}", verdict.phases);
}

#[test]
fn phases_do_not_depend_on_frame_sizes() {
    let recording = full_between(1500, 600, 900, 0.1);
    let pack = || diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let uncut = recording.judge(vec![pack()], recording.options(), 1500).remove(0);
    assert_eq!(uncut.phases.len(), 3);
    for cut in [1, 7, 256, 1000] {
        let cut = recording.judge(vec![pack()], recording.options(), cut).remove(0);
        assert_eq!(cut.phases, uncut.phases);
        assert_eq!(cut.findings, uncut.findings);
    }
}

#[test]
fn a_phase_that_blames_has_a_rule_that_held_and_some_confidence() {
    let mut blamed = 0;
    for seed in 0..240_u64 {
        let length = 2 + seed as usize % 7;
        let full = move |tick: usize| {
            let mixed = (tick / length) as u64 ^ seed << 8;
            (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).is_multiple_of(3)
        };
        let verdict = with_bookmarks(&full_when(50, 0.1, full), &[(19, "begins")]);
        for phase in verdict.phases.iter().filter(|phase| phase.bottleneck.blames()) {
            blamed += 1;
            let is_named = !phase.rule.is_empty() && !phase.title.is_empty();
            assert!(is_named && phase.confidence >= 0.01, "seed {seed}: {phase:?}");
        }
        let ends = verdict.phases.windows(2).all(|pair| pair[0].to == pair[1].from);
        assert!(ends, "seed {seed}: {:#?}", verdict.phases);
    }
    assert!(blamed > 100, "{blamed}");
}
