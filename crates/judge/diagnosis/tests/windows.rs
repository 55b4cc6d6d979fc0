//! A judge that goes on from window to window says what a new one says, whatever changed between the windows.

use crate::common::*;
use diskwright_base::{Ceiling, DeviceClass, Frame, Note, RaidLevel, Tick, Topology};
use diskwright_diagnosis::{Judge, JudgeOptions, Verdict, packs};

const WINDOW: usize = 60;

fn disk(busy: f64) -> Recording {
    Recording::new(10 * WINDOW)
        .disk("sda", 100.0, 0.03, busy)
        .disk("sdb", 20.0, 0.001, 0.1)
        .with("system.running", "", |i| if i % WINDOW < 20 { 1.0 } else { 4.0 })
        .with("pressure.io_some_s", "", |i| if i % 2 == 0 { 0.6 } else { 0.5 })
}

fn ceiling(requests: f64) -> Ceiling {
    Ceiling {
        device: "sda".into(),
        measured: "2026-01-01T00:00:00Z".into(),
        requests_per_s: Some(requests),
        reads_per_s: Some(requests),
        writes_per_s: Some(requests),
        read_bytes_per_s: Some(1e9),
        write_bytes_per_s: Some(1e9),
        read_s: Some(0.001),
        ..Ceiling::default()
    }
}

/// Notes that come before the frame, the frame, and whether the window is known beforehand.
struct Window {
    notes: Vec<Note>,
    frames: Vec<Frame>,
    is_known: bool,
}

impl Window {
    fn range(&self) -> (i64, i64) {
        let ticks: Vec<&Tick> = self.frames.iter().flat_map(|frame| frame.ticks()).collect();
        (ticks[0].start_ns(), ticks[ticks.len() - 1].time_ns)
    }

    fn expected(&self) -> Option<(i64, i64)> {
        self.is_known.then(|| self.range())
    }

    fn feed(&self, judge: &mut Judge) -> Vec<Verdict> {
        self.notes.iter().for_each(|note| judge.add_note(note));
        self.frames.iter().for_each(|frame| judge.add_frame(frame));
        judge.finish()
    }
}

fn topology(of: &Topology) -> Note {
    Note::new(START, Note::TOPOLOGY, serde_json::to_string(of).expect("it can be written"))
}

fn windows() -> Vec<Window> {
    let (idle, busy) = (disk(0.2), disk(1.0));
    let fewer = Recording::new(10 * WINDOW).disk("sdb", 50.0, 0.02, 0.9);
    let set = array(2, DeviceClass::Flash, RaidLevel::Raid0);
    let other = array(2, DeviceClass::Rotational, RaidLevel::Raid1);
    let part = |recording: &Recording, number: usize| recording.frame(number * WINDOW..(number + 1) * WINDOW);
    let known = |notes: Vec<Note>, frames: Vec<Frame>| Window { notes, frames, is_known: true };
    let ceilings = serde_json::to_string(&[ceiling(120.0)]).expect("it can be written");
    vec![
        known(vec![topology(&set)], vec![part(&busy, 0)]),
        known(vec![topology(&set)], vec![part(&busy, 1)]),
        known(vec![topology(&set)], vec![part(&idle, 2)]),
        known(vec![topology(&set)], vec![part(&busy, 3)]),
        known(vec![topology(&other)], vec![part(&busy, 4)]),
        known(vec![topology(&other), Note::new(START, Note::CEILINGS, ceilings)], vec![part(&busy, 5)]),
        known(vec![topology(&other)], vec![part(&busy, 5)]),
        known(vec![], vec![part(&busy, 6)]),
        Window { notes: vec![], frames: vec![part(&busy, 6)], is_known: false },
        known(vec![Note::new(START, Note::SOURCE, "sysstat")], vec![part(&busy, 6)]),
        known(vec![topology(&set)], vec![part(&busy, 7), part(&fewer, 8)]),
        known(vec![topology(&set)], vec![part(&fewer, 9)]),
        known(vec![topology(&set)], vec![part(&busy, 9)]),
    ]
}

#[test]
fn a_restarted_judge_gives_the_verdicts_of_a_new_one() {
    let pack = || packs::builtin_pack("default").expect("it is built in").expect("it can be read");
    for ceilings in [vec![], vec![ceiling(90.0)]] {
        let options = |expected| JudgeOptions { expected, ceilings: ceilings.clone(), ..JudgeOptions::default() };
        let mut lasting = Judge::new(vec![pack()], options(None));
        let mut findings = 0;
        for (number, window) in windows().iter().enumerate() {
            lasting.restart(window.expected());
            let mut new = Judge::new(vec![pack()], options(window.expected()));
            let (again, fresh) = (window.feed(&mut lasting), window.feed(&mut new));
            assert_eq!(again, fresh, "window {number}");
            findings += fresh.iter().map(|verdict| verdict.findings.len()).sum::<usize>();
        }
        assert!(findings > 0, "verdicts without findings compare nothing");
    }
}

#[test]
fn a_share_is_told_of_the_time_that_was_judged() {
    let waits = |from: usize| {
        let recording = Recording::new(60)
            .with("pressure.io_some_s", "", move |tick| if tick < from { f64::NAN } else { 0.9 })
            .with("memory.available_bytes", "", |_| 1e9);
        let rule =
            "[[rule]]\nid = \"r\"\nobject = \"machine\"\nall = [{ counter = \"pressure.io_some\", above = 0.5 }]\n";
        recording.by(rule)
    };
    let short = waits(34);
    assert!(short.sentence.ends_with("; 100 % of the 26 s it was seen)."), "{}", short.sentence);
    let finding = only(&short);
    assert_eq!((finding.share, finding.judged_s, finding.seconds), (1.0, 26.0, 26.0));
    assert_eq!(finding.seen_s(short.window.seconds), Some(26.0));
    // a tick or two that were not seen are no matter
    let nearly = waits(1);
    assert!(nearly.sentence.ends_with("; 100 % of 59 s)."), "{}", nearly.sentence);
    assert_eq!(only(&nearly).seen_s(nearly.window.seconds), None);
}

#[test]
fn a_single_gap_is_reported_in_the_singular() {
    let after = |gaps: i64| {
        let recording = Recording::new(20).with("physical_disk.busy", "sda", |_| 0.5);
        let mut judge = Judge::new(vec![pack(&one("counter = \"busy\", above = 0.1"))], recording.options());
        for second in 0..gaps {
            judge.add_note(&Note::new(START + second * 2_000_000_000, Note::GAP, format!("gap {second}")));
        }
        judge.add_frame(&recording.frame(0..20));
        judge.finish().remove(0).certainty_limits
    };
    assert!(after(1).contains(&"the log has 1 gap".to_owned()), "{:?}", after(1));
    assert!(after(2).contains(&"the log has 2 gaps".to_owned()), "{:?}", after(2));
}
