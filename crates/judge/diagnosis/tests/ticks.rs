//! Stretches, steps and trends on logs with ticks of a second, of a quarter of
//! a minute, and of minutes, as other tools write them.

use crate::common::*;
use diskwright_base::{Frame, Tick};
use diskwright_diagnosis::{Judge, JudgeOptions, packs};

/// Usual intervals of recorders, seconds: ours, node_exporter's, perfmon's and sar's.
const TICKS_S: [u64; 4] = [1, 15, 300, 600];

fn rule(sustained: &str) -> String {
    format!("{}\nsustained = {sustained}", one("counter = 'busy', above = 0.9"))
}

fn busy(ticks: usize, tick_s: u64, values: impl Fn(usize) -> f64 + 'static) -> Recording {
    Recording::new(ticks).every(tick_s).with("physical_disk.busy", "sda", values)
}

#[test]
fn a_minute_in_sum_is_one_tick_of_many_minutes() {
    for tick_s in TICKS_S {
        let at_least = rule("{ share = 0.0, at_least = '60s' }");
        let enough = 60u64.div_ceil(tick_s) as usize;
        for (held, found) in [(enough, 1), (enough - 1, 0)] {
            let verdict = busy(400, tick_s, move |i| if i % 2 == 0 && i / 2 < held { 1.0 } else { 0.0 }).by(&at_least);
            assert_eq!(verdict.findings.len(), found, "{held} ticks of {tick_s} s");
        }
    }
}

#[test]
fn a_stretch_is_without_a_break() {
    for tick_s in TICKS_S {
        let row = rule("{ share = 0.0, in_a_row = '10m' }");
        let enough = (600 / tick_s) as usize;
        let runs = move |length: usize| move |i: usize| if i % (length + 1) < length { 1.0 } else { 0.0 };
        let ticks = 10 * enough + 10;
        let verdict = busy(ticks, tick_s, runs(enough)).by(&row);
        assert_eq!(only(&verdict).longest_s, 600.0, "ticks of {tick_s} s");
        let verdict = busy(ticks, tick_s, runs(enough - 1)).by(&row);
        assert_eq!(verdict.findings.len(), 0, "ticks of {tick_s} s");
        // of two ticks one is half of the time, which is told first
        if enough > 2 {
            let because = &verdict.ruled_out[0].because;
            assert!(because.contains("without a break") && because.contains("600 s needed"), "{because}");
        }
    }
}

#[test]
fn a_stretch_is_capped_at_half_of_the_window() {
    let row = rule("{ share = 0.0, in_a_row = '30m' }");
    let verdict = busy(30, 1, |i| if i < 15 { 1.0 } else { 0.0 }).by(&row);
    assert_eq!(only(&verdict).seconds, 15.0);
    assert!(verdict.certainty_limits[0].contains("1800 s"), "{}", verdict.certainty_limits[0]);
    assert_eq!(busy(30, 1, |i| if i < 14 { 1.0 } else { 0.0 }).by(&row).findings.len(), 0);
}

#[test]
fn a_gap_does_not_break_a_stretch() {
    let row = rule("{ share = 0.0, in_a_row = '60s' }");
    let verdict = busy(200, 1, |i| if i == 100 { f64::NAN } else { f64::from(u8::from((69..131).contains(&i))) });
    assert_eq!(only(&verdict.by(&row)).longest_s, 61.0);
}

#[test]
fn too_few_stretches_are_told_by_their_number() {
    let verdict = busy(100, 1, |_| 1.0).by(&rule("{ share = 0.5, at_least = '3s', times = 3 }"));
    assert_eq!(verdict.findings.len(), 0);
    assert_eq!(verdict.ruled_out[0].because, "it is so on sda held in only 1 stretch (3 needed)");
}

#[test]
fn a_pause_of_the_recorder_ends_a_stretch() {
    let source = busy(200, 1, |i| f64::from(u8::from((60..140).contains(&i)))).frame(0..200);
    // nothing was recorded for so long in the middle of what held
    let judged = |sustained: &str, pause_s: i64| {
        let mut judge = Judge::new(vec![pack(&rule(sustained))], JudgeOptions::default());
        for (index, tick) in source.ticks().iter().enumerate() {
            let away = if index < 100 { 0 } else { pause_s * SECOND as i64 };
            let mut frame = Frame::new(source.schema().clone(), 1);
            frame.push(Tick { time_ns: tick.time_ns + away, ..*tick }, &[source.column(0)[index]]);
            judge.add_frame(&frame);
        }
        judge.finish().remove(0)
    };
    let row = "{ share = 0.0, in_a_row = '60s' }";
    // a recorder that is started again at once
    assert_eq!((only(&judged(row, 30)).longest_s, only(&judged(row, 30)).times), (80.0, 1));
    assert_eq!(judged(row, 3600).findings.len(), 0);
    let verdict = judged("{ share = 0.0, in_a_row = '40s' }", 3600);
    let found = only(&verdict);
    assert_eq!((found.longest_s, found.times, found.stretches.len()), (40.0, 2, 2));
}

#[test]
fn a_step_is_against_the_tick_before_however_the_log_is_cut() {
    let step = format!(
        "{}\nsustained = {{ share = 0.0 }}",
        one("counter = 'busy', change = { against = 'previous' }, above = 1.5")
    );
    // twice as much at every tenth tick; the tick after a gap has nothing before it
    let values = |i: usize| match i {
        40 => f64::NAN,
        41 => 0.9,
        _ if i % 10 == 9 => 0.8,
        _ => 0.4,
    };
    let recording = busy(100, 1, values);
    let by = |cut| recording.judge(vec![pack(&step)], recording.options(), cut);
    let uncut = by(100);
    assert_eq!(only(&uncut[0]).seconds, 10.0);
    assert_eq!(only(&uncut[0]).value, 2.0);
    for cut in [1, 7, 10] {
        assert_eq!(by(cut), uncut, "frames of {cut}");
    }
}

/// The packs' own rules on growth, on what only wavers.
#[test]
fn nothing_grows_on_noise() {
    let waver = |seed: u64, i: usize| {
        let x = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (seed << 17));
        let x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (x >> 40) as f64 / f64::from(1 << 24)
    };
    for tick_s in TICKS_S {
        for (ticks, seed) in [(30, 1), (90, 2), (1000, 3)] {
            let recording = Recording::new(ticks)
                .every(tick_s)
                .with("physical_disk.transfers_per_s", "sda", move |i| 100.0 + 80.0 * waver(seed, i))
                .with("logical_disk.free_bytes", "/", move |i| 1e9 * (2.0 + waver(seed + 9, i)))
                .with("logical_disk.total_bytes", "/", |_| 100e9);
            let verdicts = recording.judge(packs::builtin_packs().unwrap(), recording.options(), ticks);
            for finding in verdicts.iter().flat_map(|v| &v.findings) {
                let trend =
                    finding.rule.contains("grows") || finding.rule.contains("-in-") && finding.object != "machine";
                assert!(!trend, "{} on {ticks} ticks of {tick_s} s: {}", finding.rule, finding.title);
            }
        }
    }
}

/// The first tick of a foreign log has no length: nothing is judged by it.
#[test]
fn one_tick_of_unknown_length_is_no_stretch() {
    let recording = busy(1, 600, |_| 1.0);
    let mut frame = Frame::new(recording.frame(0..1).schema().clone(), 1);
    frame.push(Tick { time_ns: START, elapsed_ns: 0 }, &[1.0]);
    let mut judge = Judge::new(packs::builtin_packs().unwrap(), recording.options());
    judge.add_frame(&frame);
    for verdict in judge.finish() {
        assert!(verdict.findings.is_empty(), "{}", verdict.pack);
    }
}

/// A load that wavers by a tenth from second to second is flat in means of
/// minutes; that is no cap.
#[test]
fn a_plateau_of_long_ticks_is_no_cap() {
    for (tick_s, found) in [(1, true), (60, true), (300, false), (600, false)] {
        let queue = |i: usize| if i % 20 < 4 { 0.2 } else { 8.0 };
        let rate = |i: usize| if i % 20 < 4 { 100.0 } else { 1000.0 };
        let recording = Recording::new(200)
            .every(tick_s)
            .with("physical_disk.avg_queue_length", "sda", queue)
            .with("physical_disk.transfers_per_s", "sda", rate)
            .with("physical_disk.avg_s_per_transfer", "sda", move |i| if i % 20 < 4 { 0.0002 } else { 0.008 });
        let capped = recording.by_default().findings.iter().any(|f| f.rule == "throttle.volume-cap");
        assert_eq!(capped, found, "ticks of {tick_s} s");
    }
}

#[test]
fn that_nothing_was_wrong_is_surer_the_longer_it_was_watched_not_the_oftener() {
    let quiet = |ticks: usize| Recording::new(ticks).with("physical_disk.busy", "sda", |_| 0.0);
    let confidence = |recording: Recording| {
        let verdict = recording.by(&one("counter = 'busy', above = 0.9"));
        assert_eq!(verdict.bottleneck, diskwright_diagnosis::Bottleneck::None);
        verdict.confidence
    };
    let (three_seconds, minute) = (confidence(quiet(60).every_ms(50)), confidence(quiet(60)));
    assert!(three_seconds < 0.6 && minute > 0.9, "{three_seconds} {minute}");
    assert_eq!(three_seconds, confidence(quiet(3)));
}
