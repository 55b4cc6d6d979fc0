//! Effects of a measured ceiling, on each side of each limit; without one, nothing changes.

use crate::common::*;
use diskwright_base::{Ceiling, Device, DeviceClass, Filesystem, Note, Topology};
use diskwright_diagnosis::{Bottleneck, Judge, JudgeOptions, Verdict, packs};

/// A load in a second, and what is known of the disk.
#[derive(Clone)]
struct Case {
    reads: f64,
    writes: f64,
    size: f64,
    /// Seconds a request.
    seconds: f64,
    busy: f64,
    pressure: f64,
    class: DeviceClass,
    ceiling: Option<Ceiling>,
    /// Every other second it is so much less; 0 is steady.
    swing: f64,
}

/// Serves eight reads at once, 4 ms each, and half as many writes; measured whole.
fn parallel() -> Ceiling {
    Ceiling {
        device: "vda".into(),
        measured: "2025-12-01T10:00:00Z".into(),
        requests_per_s: Some(2000.0),
        bytes_per_s: Some(200e6),
        reads_per_s: Some(2000.0),
        writes_per_s: Some(1000.0),
        read_bytes_per_s: Some(200e6),
        write_bytes_per_s: Some(100e6),
        read_s: Some(0.004),
        write_s: Some(0.004),
        knee_depth: Some(8.0),
        ..Ceiling::default()
    }
}

/// The same measured through a file.
fn through_file() -> Ceiling {
    Ceiling { at_least: vec!["measured through a file on ext4".into()], ..parallel() }
}

/// The disk at 95 % of its ceiling with quick answers: no limit of time or queue is passed.
fn full() -> Case {
    Case {
        reads: 1900.0,
        writes: 0.0,
        size: 4096.0,
        seconds: 0.0005,
        busy: 0.95,
        pressure: 0.2,
        class: DeviceClass::Virtual,
        ceiling: Some(Ceiling { read_s: Some(0.0004), ..parallel() }),
        swing: 0.0,
    }
}

/// Two and a half requests outstanding on a device that takes eight.
fn roomy() -> Case {
    Case { reads: 625.0, seconds: 0.004, busy: 0.95, pressure: 0.02, ceiling: Some(parallel()), ..full() }
}

impl Case {
    fn recording(&self) -> Recording {
        let Case { reads, writes, size, seconds, busy, pressure, swing, .. } = self.clone();
        let swung = move |tick: usize, value: f64| if tick.is_multiple_of(2) { value } else { value * (1.0 - swing) };
        let device = device("vda", self.class, &[], None);
        let topology = Topology { devices: vec![device], processors: 2, ..Topology::default() };
        Recording::new(60)
            .topology(topology)
            .with("physical_disk.reads", "vda", move |t| swung(t, reads))
            .with("physical_disk.writes", "vda", move |t| swung(t, writes))
            .with("physical_disk.read_bytes", "vda", move |t| swung(t, reads * size))
            .with("physical_disk.write_bytes", "vda", move |t| swung(t, writes * size))
            .with("physical_disk.read_time_s", "vda", move |t| swung(t, reads * seconds))
            .with("physical_disk.write_time_s", "vda", move |t| swung(t, writes * seconds))
            .with("physical_disk.weighted_time_s", "vda", move |t| swung(t, (reads + writes) * seconds))
            .with("physical_disk.busy_time_s", "vda", move |_| busy)
            .with("pressure.io_some_s", "", move |_| pressure)
            .with("memory.dirty_bytes", "", |_| 1e6)
            .with("memory.dirty_threshold_bytes", "", |_| 1e9)
    }

    fn verdict(&self) -> Verdict {
        let recording = self.recording();
        let options = JudgeOptions { ceilings: self.ceiling.iter().cloned().collect(), ..recording.options() };
        let pack = packs::builtin_pack("default").unwrap().unwrap();
        recording.judge(vec![pack], options, 60).remove(0)
    }

    fn rules(&self) -> Vec<String> {
        self.verdict().findings.into_iter().map(|f| f.rule).collect()
    }
}

fn with(case: Case, change: impl FnOnce(&mut Case)) -> Case {
    let mut case = case;
    change(&mut case);
    case
}

fn ceiling(case: &mut Case) -> &mut Ceiling {
    case.ceiling.as_mut().expect("the case has one")
}

type Change = fn(&mut Case);
/// A rule, a load just over its limits, and for each of its conditions one that is not.
type Sides = (&'static str, Case, &'static [Change]);

fn full_sides() -> Vec<Sides> {
    vec![
        (
            "disk.at-ceiling",
            full(),
            &[
                |c| c.reads = 1780.0,
                |c| c.reads = 2320.0,
                |c| ceiling(c).at_least.push("so".into()),
                |c| c.seconds = 0.0004,
                |c| (c.pressure, c.seconds) = (0.09, 0.00045),
            ],
        ),
        (
            "disk.at-known-most",
            with(full(), |c| ceiling(c).at_least.push("measured through a file".into())),
            &[|c| c.reads = 1780.0, |c| c.reads = 2320.0, |c| ceiling(c).at_least.clear(), |c| c.seconds = 0.0004],
        ),
        ("disk.above-ceiling", with(full(), |c| c.reads = 2320.0), &[|c| c.reads = 2280.0]),
    ]
}

fn roomy_sides() -> Vec<Sides> {
    vec![
        (
            "disk.slow-alone",
            with(roomy(), |c| (c.reads, c.seconds) = (400.0, 0.0055)),
            &[
                |c| ceiling(c).reads_per_s = Some(790.0),
                |c| ceiling(c).read_s = Some(0.0027),
                |c| (c.seconds, c.reads) = (0.0049, 450.0),
                |c| c.reads = 350.0,
            ],
        ),
        (
            "disk.latency-of-many",
            with(roomy(), |c| c.pressure = 0.35),
            &[
                |c| ceiling(c).reads_per_s = Some(1240.0),
                |c| ceiling(c).read_s = Some(0.0019),
                |c| (c.reads, c.seconds) = (1700.0, 0.0014),
                |c| c.reads = 490.0,
                |c| c.pressure = 0.29,
            ],
        ),
        (
            "disk.has-room",
            roomy(),
            &[
                |c| ceiling(c).reads_per_s = Some(1240.0),
                |c| ceiling(c).read_s = Some(0.0019),
                |c| c.reads = 490.0,
                |c| c.busy = 0.79,
            ],
        ),
    ]
}

/// Half of what a device of this depth does alone, with ten outstanding.
fn below(swing: f64) -> Case {
    with(roomy(), |c| (c.reads, c.seconds, c.pressure, c.swing) = (900.0, 0.01, 0.5, swing))
}

fn below_sides() -> Vec<Sides> {
    vec![
        (
            "throttle.below-ceiling",
            below(0.0),
            &[
                |c| ceiling(c).reads_per_s = Some(1700.0),
                |c| ceiling(c).read_s = Some(0.0052),
                |c| ceiling(c).knee_depth = Some(9.1),
                |c| c.swing = 0.05,
            ],
        ),
        (
            "disk.below-profile",
            below(0.05),
            &[
                |c| ceiling(c).reads_per_s = Some(1700.0),
                |c| ceiling(c).read_s = Some(0.0052),
                |c| ceiling(c).knee_depth = Some(9.1),
                |c| c.swing = 0.0,
            ],
        ),
    ]
}

#[test]
fn each_rule_holds_on_its_side_of_each_limit() {
    for (rule, case, changes) in full_sides().into_iter().chain(roomy_sides()).chain(below_sides()) {
        assert!(case.rules().iter().any(|r| r == rule), "{rule}: {:?}", case.rules());
        for (number, change) in changes.iter().enumerate() {
            let other = with(case.clone(), change);
            assert!(other.rules().iter().all(|r| r != rule), "{rule}, change {number}: {:?}", other.rules());
        }
        let unmeasured = with(case, |c| c.ceiling = None);
        assert!(unmeasured.rules().iter().all(|r| r != rule), "{rule} without a ceiling");
    }
}

#[test]
fn a_disk_at_its_ceiling_is_the_bottleneck_though_no_heuristic_says_so() {
    let verdict = full().verdict();
    assert_eq!((verdict.bottleneck, verdict.instance.as_str()), (Bottleneck::Disk, "vda"));
    let expected = "1,900 of at most 2,000 reads/s, measured by probe on 2025-12-01";
    assert_eq!(verdict.findings[0].limit_from.as_deref(), Some(expected));
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    assert_eq!(verdict.ceilings.len(), 1);
    assert!((verdict.findings[0].value - 0.95).abs() < 1e-9);
    let without = with(full(), |c| c.ceiling = None).verdict();
    assert_ne!(without.bottleneck, Bottleneck::Disk);
    assert!(without.ceilings.is_empty());
}

#[test]
fn mixed_loads_and_large_requests_are_held_against_what_limits_them() {
    // 1000 of 2000 reads and 450 of 1000 writes: 0.5 + 0.45
    let mixed = with(full(), |c| (c.reads, c.writes, c.seconds) = (1000.0, 450.0, 0.0007)).verdict();
    let expected = "1,000 of at most 2,000 reads/s and 450 of at most 1,000 writes/s, measured by probe on 2025-12-01";
    assert_eq!(mixed.findings[0].limit_from.as_deref(), Some(expected));
    // 180 reads of 1 MiB a second: 9 % of the requests, 94 % of the bytes
    let large = with(full(), |c| (c.reads, c.size, c.seconds) = (180.0, 1048576.0, 0.005)).verdict();
    assert_eq!(large.findings[0].rule, "disk.at-ceiling");
    let expected = large.findings[0].limit_from.clone().unwrap();
    assert!(expected.starts_with("189 MB/s of at most 200 MB/s read, measured"), "{expected}");
}

#[test]
fn a_lower_bound_says_so_and_weighs_less() {
    let firm = full().verdict();
    let lower = with(full(), |c| ceiling(c).at_least = through_file().at_least).verdict();
    assert_eq!(lower.bottleneck, Bottleneck::Disk);
    assert!(lower.confidence < firm.confidence);
    let limit_text = lower.findings[0].limit_from.clone().unwrap();
    assert!(
        limit_text.contains("of at least 2,000 reads/s") && limit_text.ends_with("(measured through a file on ext4)"),
        "{limit_text}"
    );
}

#[test]
fn a_busy_disk_at_a_third_of_its_ceiling_is_no_bottleneck() {
    let without = with(roomy(), |c| c.ceiling = None).verdict();
    assert_eq!((without.bottleneck, without.findings[0].rule.as_str()), (Bottleneck::Disk, "disk.queue-slow"));
    let known = roomy().verdict();
    assert_eq!(known.bottleneck, Bottleneck::None, "{:#?}", known.ranking);
    assert!(known.set_aside.iter().any(|s| s.rule == "disk.queue-slow" && s.because.contains("disk.has-room")));
}

#[test]
fn somebody_who_always_waits_waits_for_latency_and_not_for_room() {
    let verdict = with(roomy(), |c| c.pressure = 0.9).verdict();
    assert_eq!((verdict.bottleneck, verdict.findings[0].rule.as_str()), (Bottleneck::Disk, "disk.latency-of-many"));
    assert!(verdict.advice.iter().all(|a| a.id != "disk.more-spindles"));
    let slower = with(roomy(), |c| (c.reads, c.seconds, c.pressure) = (400.0, 0.0055, 0.9)).verdict();
    assert_eq!((slower.bottleneck, slower.findings[0].rule.as_str()), (Bottleneck::Disk, "disk.slow-alone"));
    assert!(slower.set_aside.iter().any(|s| s.rule == "disk.saturated"), "{:#?}", slower.set_aside);
}

#[test]
fn a_plateau_far_below_the_ceiling_is_a_limit() {
    let capped = below(0.0);
    let verdict = capped.verdict();
    assert_eq!(
        (verdict.bottleneck, verdict.findings[0].rule.as_str()),
        (Bottleneck::Throttle, "throttle.below-ceiling")
    );
    let without = with(capped, |c| c.ceiling = None).verdict();
    assert_eq!(without.bottleneck, Bottleneck::Disk);
}

#[test]
fn sequential_requests_are_not_compared_with_the_random_ceiling() {
    let arm = Ceiling { reads_per_s: Some(100.0), writes_per_s: None, read_s: Some(0.01), ..parallel() };
    let disk = |reads: f64, seconds: f64| {
        with(full(), |c| {
            (c.class, c.ceiling, c.reads, c.seconds) = (DeviceClass::Rotational, Some(arm), reads, seconds)
        })
    };
    assert!(disk(95.0, 0.0104).rules().contains(&"disk.at-ceiling".into()));
    let arm = Ceiling { reads_per_s: Some(100.0), writes_per_s: None, read_s: Some(0.01), ..parallel() };
    let sequential = with(full(), |c| {
        (c.class, c.ceiling, c.reads, c.seconds) = (DeviceClass::Rotational, Some(arm), 5000.0, 0.0002);
    });
    assert!(sequential.rules().iter().all(|r| !r.contains("ceiling")), "{:?}", sequential.rules());
}

/// The rules that wait for a ceiling are as if they were not there: the same
/// verdict to the last digit, but for the word on how to measure.
#[test]
fn without_a_ceiling_nothing_changes() {
    let pack = packs::builtin_pack("default").unwrap().unwrap();
    let mut plain = pack.clone();
    let asleep = ["at-ceiling", "at-known-most", "slow-alone", "latency-of-many", "has-room", "above-ceiling"];
    let asleep = asleep.iter().chain(&["below-profile", "at-ceiling-set", "below-ceiling"]);
    let asleep: Vec<&str> = asleep.copied().collect();
    plain.rules.retain(|r| !asleep.iter().any(|name| r.id.ends_with(name)));
    plain.rules.iter_mut().for_each(|r| r.none.retain(|id| !asleep.iter().any(|name| id.ends_with(name))));
    assert_eq!(plain.rules.len() + asleep.len(), pack.rules.len());
    for case in [full(), roomy(), below(0.0)] {
        let recording = with(case, |c| c.ceiling = None).recording();
        let judged = |pack: &diskwright_diagnosis::Pack| {
            let mut verdict = recording.judge(vec![pack.clone()], recording.options(), 7).remove(0);
            verdict.certainty_limits.retain(|l| !l.contains("has no measured maximum"));
            verdict
        };
        assert_eq!(judged(&pack), judged(&plain));
    }
}

#[test]
fn a_missing_ceiling_is_mentioned_with_the_command_that_measures_it() {
    let hint = |v: &Verdict| v.certainty_limits.iter().find(|l| l.contains("has no measured maximum")).cloned();
    let hint_text = hint(&with(roomy(), |c| c.ceiling = None).verdict()).expect("a disk verdict");
    let wanted = "vda has no measured maximum; measure it with `diskwright probe quick /dev/vda --live`";
    assert_eq!(hint_text, wanted);
    assert_eq!(hint(&roomy().verdict()), None);
    let quiet = with(roomy(), |c| (c.reads, c.ceiling) = (20.0, None));
    assert_eq!(hint(&quiet.verdict()), None, "no noise where no disk is concerned");
    // a file on its filesystem is the milder way
    let recording = with(roomy(), |c| c.ceiling = None).recording();
    let mut judge = Judge::new(vec![packs::builtin_pack("default").unwrap().unwrap()], recording.options());
    let filesystem = Filesystem { mount: "/data".into(), kind: "ext4".into(), device: "vda".into() };
    let topology = Topology {
        devices: vec![device("vda", DeviceClass::Virtual, &[], None)],
        filesystems: vec![filesystem],
        ..Topology::default()
    };
    judge.add_note(&Note::new(START, Note::TOPOLOGY, serde_json::to_string(&topology).unwrap()));
    judge.add_frame(&recording.frame(0..60));
    let hint_text = hint(&judge.finish()[0]).expect("a disk verdict");
    assert!(hint_text.contains("`diskwright probe quick /data/probe.dat`"), "{hint_text}");
}

#[test]
fn an_old_profile_is_said_to_be_old() {
    let limits_of = |measured: &str| {
        let verdict = with(full(), |c| ceiling(c).measured = measured.into()).verdict();
        verdict.certainty_limits.into_iter().find(|l| l.contains("days earlier"))
    };
    assert!(limits_of("2025-07-01T00:00:00Z").is_some_and(|l| l.contains("184 days earlier, on 2025-07-01")));
    assert_eq!(limits_of("2025-07-06T00:00:00Z"), None);
    assert_eq!(limits_of("yesterday"), None);
}

#[test]
fn a_log_brings_its_ceilings_and_they_follow_the_device() {
    let recording = full().recording();
    let disk = |name: &str| Device {
        serial: Some("X".into()),
        model: Some("M".into()),
        ..device(name, DeviceClass::Nvme, &[], None)
    };
    let topology = Topology { devices: vec![disk("vda")], ..Topology::default() };
    // measured under another name
    let stored = Ceiling { device: "nvme0n1".into(), key: "serial:M:X".into(), ..full().ceiling.unwrap() };
    let judged = |notes: &[(&str, String)], ceilings: Vec<Ceiling>| {
        let options = JudgeOptions { ceilings, ..recording.options() };
        let mut judge = Judge::new(vec![packs::builtin_pack("default").unwrap().unwrap()], options);
        for (kind, text) in notes {
            judge.add_note(&Note::new(START, kind, text.clone()));
        }
        judge.add_frame(&recording.frame(0..60));
        judge.finish().remove(0)
    };
    let topology = (Note::TOPOLOGY, serde_json::to_string(&topology).unwrap());
    let note = (Note::CEILINGS, serde_json::to_string(&[&stored]).unwrap());
    for verdict in [
        judged(&[topology.clone(), note.clone()], Vec::new()),
        judged(&[note.clone(), topology.clone()], Vec::new()),
        judged(std::slice::from_ref(&topology), vec![stored.clone()]),
    ] {
        assert_eq!(verdict.findings[0].rule, "disk.at-ceiling");
        assert_eq!((verdict.ceilings[0].device.as_str(), verdict.ceilings[0].key.as_str()), ("vda", "serial:M:X"));
        assert!(verdict.notes.is_empty(), "{:?}", verdict.notes);
    }
    let other = Ceiling { key: "serial:M:Y".into(), ..stored };
    assert!(judged(std::slice::from_ref(&topology), vec![other]).ceilings.is_empty());
    let broken = judged(&[topology, (Note::CEILINGS, "{ no list".into())], Vec::new());
    assert!(broken.notes.iter().any(|n| n.text.contains("a ceilings note could not be read")), "{:?}", broken.notes);
}
