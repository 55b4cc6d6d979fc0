//! A log may come in any pieces and be of any length: the answer is the same
//! and the memory bounded.

use std::sync::Arc;

use crate::common::*;
use diskwright_base::{DeviceClass, Frame, Note, RaidLevel, Schema, Series, Tick};
use diskwright_diagnosis::{Judge, JudgeOptions, packs};

/// Numbers that look random and are the same in every run.
fn noise(seed: u64, i: usize) -> f64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 31;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 29;
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// Two disks in a set and the machine's counters, up and down, with gaps.
fn restless(ticks: usize) -> Recording {
    let gap = |i: usize, value: f64| if i % 97 == 13 { f64::NAN } else { value };
    let mut recording = Recording::new(ticks);
    for (seed, disk) in [(1, "sda"), (2, "sdb")] {
        let reads = move |i: usize| (400.0 * noise(seed, i / 40)).round();
        recording = recording
            .with("physical_disk.reads", disk, move |i| gap(i, reads(i)))
            .with("physical_disk.writes", disk, move |i| (10.0 * noise(seed + 10, i)).round())
            .with("physical_disk.read_time_s", disk, move |i| reads(i) * 0.03 * noise(seed + 20, i))
            .with("physical_disk.write_time_s", disk, |_| 0.01)
            .with("physical_disk.weighted_time_s", disk, move |i| reads(i) * 0.03 * noise(seed + 20, i) + 0.01)
            .with("physical_disk.busy_time_s", disk, move |i| gap(i + 5, noise(seed + 30, i)));
    }
    recording
        .with("paging.swap_in_pages", "", |i| (40.0 * noise(3, i / 60)).round())
        .with("pressure.memory_some_s", "", |i| 0.4 * noise(4, i))
        .with("pressure.io_some_s", "", |i| noise(5, i / 30))
        .with("system.running", "", |i| (9.0 * noise(6, i)).round())
        .topology(array(2, DeviceClass::Flash, RaidLevel::Raid0))
}

const RULES: &str = "
[[rule]]
id = 'a'
sustained = { share = 0.1, at_least = '5s' }
evidence = ['busy', 'avg_s_per_read']
all = [
    { counter = 'avg_queue_length', above = 2 },
    { counter = 'transfers_per_s', steadiness = true, above = 0 },
]
[[rule]]
id = 'b'
sustained = { share = 0.01 }
all = [{ counter = 'member_latency_ratio', above = 1.2 }]
[[rule]]
id = 'c'
object = 'machine'
bottleneck = 'memory'
sustained = { share = 0.05 }
any = [
    { counter = 'paging.swap_in_pages_per_s', above = 10 },
    { counter = 'pressure.memory_some', above = 0.3 },
]
[[rule]]
id = 'd'
object = 'machine'
bottleneck = 'cpu'
sustained = { share = 0.05 }
all = [{ counter = 'system.running', change = { against = 'start' }, above = 1.1 }]
[[rule]]
id = 'e'
bottleneck = 'throttle'
sustained = { share = 0 }
all = [
    { counter = 'busy', above = 0.1 },
    { counter = 'transfers_per_s', times = 'light_load_s', above = 0 },
]
";

#[test]
fn the_verdict_does_not_depend_on_frame_sizes() {
    let ticks = 901;
    let recording = restless(ticks);
    for options in [recording.options(), JudgeOptions::default()] {
        let all = || {
            let mut list = packs::builtin_packs().unwrap();
            list.push(pack(RULES));
            list
        };
        let answer = |cut: usize| {
            let verdicts = recording.judge(all(), options.clone(), cut);
            serde_json::to_string(&verdicts).unwrap()
        };
        let uncut = answer(ticks);
        assert!(uncut.contains("\"rule\":\"e\"") || options.expected.is_none(), "{uncut}");
        for cut in [1, 7, 255, 256, 257] {
            let cut_up = answer(cut);
            let differs = cut_up.bytes().zip(uncut.bytes()).position(|(a, b)| a != b);
            let change = differs.map(|change| &cut_up[change.saturating_sub(300)..(change + 60).min(cut_up.len())]);
            assert!(cut_up == uncut, "cut into frames of {cut}: {change:?}");
        }
    }
}

#[test]
fn a_schema_that_changes_keeps_what_was_collected() {
    let rules = one("counter = 'avg_queue_length', above = 2");
    let two = Recording::new(30).disk("sda", 100.0, 0.03, 1.0).disk("sdb", 100.0, 0.03, 1.0);
    let one_disk = Recording::new(30).disk("sda", 100.0, 0.03, 1.0);
    let mut judge = Judge::new(vec![pack(&rules)], two.options());
    judge.add_frame(&two.frame(0..10));
    judge.add_frame(&one_disk.frame(10..20));
    judge.add_frame(&two.frame(20..30));
    let verdict = judge.finish().remove(0);
    let seconds = |name: &str| verdict.findings.iter().find(|f| f.instance == name).unwrap().seconds;
    assert_eq!((seconds("sda"), seconds("sdb")), (30.0, 20.0));
    // its time away is a gap, not a time at rest
    assert_eq!(verdict.findings.iter().find(|f| f.instance == "sdb").unwrap().share, 1.0);
}

#[test]
fn a_first_tick_of_unknown_length_is_not_judged() {
    let recording = Recording::new(10).with("system.running", "", |_| 9.0);
    let rules = "[[rule]]\nid = 'r'\nobject = 'machine'\nall = [{ counter = 'system.running', above = 1 }]";
    let complete = recording.frame(0..10);
    let mut frame = Frame::new(complete.schema().clone(), 10);
    frame.push(Tick { elapsed_ns: 0, ..complete.ticks()[0] }, &[9.0]);
    let mut judge = Judge::new(vec![pack(rules)], recording.options());
    judge.add_frame(&frame);
    let verdict = judge.finish().remove(0);
    assert!(verdict.findings.is_empty());
    judge.add_frame(&recording.frame(1..10));
    assert_eq!(judge.finish()[0].findings[0].seconds, 9.0);
}

#[test]
fn states_of_vanished_containers_are_forgotten() {
    let series = |group: &str| Series { counter: "cgroup.memory_some_s".into(), instance: group.into(), scale: 1.0 };
    let rules = "[[rule]]\nid = 'r'\nobject = 'cgroup'\nbottleneck = 'memory'\nsustained = { share = 0.1 }\n\
        all = [{ counter = 'memory_some', above = 0.2 }]";
    let mut judge = Judge::new(vec![pack(rules)], JudgeOptions::default());
    let rounds = 600;
    for round in 0..rounds {
        // one that stays and suffers, a hundred that last a tick
        let mut list = vec![series("/service")];
        list.extend((0..100).map(|i| series(&format!("/run-{round}-{i}"))));
        let mut frame = Frame::new(Arc::new(Schema::new(list)), 1);
        let mut row = vec![0.0; 101];
        row[0] = 0.5;
        let tick = Tick { time_ns: START + (round as i64 + 1) * SECOND as i64, elapsed_ns: SECOND };
        frame.push(tick, &row);
        judge.add_frame(&frame);
    }
    let verdict = judge.finish().remove(0);
    assert_eq!((verdict.instance.as_str(), verdict.findings[0].seconds), ("/service", f64::from(rounds)));
    assert!(verdict.certainty_limits.iter().any(|l| l.contains("those dropped")), "{:?}", verdict.certainty_limits);
}

#[test]
fn notes_without_end_are_bounded() {
    let mut judge = Judge::new(vec![pack(&one("counter = 'busy', above = 0.5"))], JudgeOptions::default());
    for i in 0..20_000 {
        judge.add_note(&Note::new(i, Note::WARNING, format!("warning {i}")));
    }
    assert!(judge.finish()[0].notes.len() <= 50);
}
