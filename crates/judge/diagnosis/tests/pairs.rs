//! `compare` on pairs of synthetic windows of known difference: a few of the pairs that the benchmark `pairs` runs by
//! the thousand, with fixed seeds.

use diskwright_diagnosis::compare::{ChangeOutcome, WindowComparison};
use diskwright_diagnosis::{Pack, packs};

#[path = "common/pairs.rs"]
mod generator;

use crate::common::noise::Noise;
use generator::{EFFECTS, Kind, OTHER, SAME, Shape, Truth, Window, compared};

fn pack() -> Pack {
    packs::builtin_pack("default").expect("it loads").expect("it is there")
}

/// Asserts that the values of each counter are possible, and that interval and test agree.
fn holds_together(both: &WindowComparison) {
    // what the load was is told once
    assert!(both.sentence.to_lowercase().matches("requests of the disks:").count() <= 1, "{}", both.sentence);
    for row in &both.counters {
        let (Some(noise), Some(level)) = (row.noise, row.level) else { continue };
        let (low, high) = (row.difference_low.unwrap_or(f64::MIN), row.difference_high.unwrap_or(f64::MAX));
        assert_eq!(low > 0.0 || high < 0.0, !noise, "{row:?}");
        assert!(low <= row.difference && row.difference <= high, "{row:?}");
        // nothing here can be below 0, and no share above 1
        assert!(low >= -row.before.mean * (1.0 + 1e-9) && level <= 0.025, "{row:?}");
        let within = |v: Option<f64>| v.is_none_or(|v| v >= 0.0 && (row.unit != "fraction" || v <= 1.0 + 1e-9));
        assert!(within(row.before.low) && within(row.before.high) && within(row.after.high), "{row:?}");
        if row.counter == "memory.total_bytes" {
            assert_eq!((row.noise, row.difference), (Some(true), 0.0), "a constant is the same as itself");
        }
    }
}

/// Pairs of the kinds whose windows are at most half an hour.
fn run(kinds: &[Kind], seeds: std::ops::Range<u64>, mut each: impl FnMut(&Kind, generator::Result, &WindowComparison)) {
    let pack = pack();
    for kind in kinds.iter().filter(|k| k.before.seconds.max(k.after.seconds) <= 1800) {
        for seed in seeds.clone() {
            let (result, both) = kind.run(&pack, seed);
            holds_together(&both);
            each(kind, result, &both);
        }
    }
}

#[test]
fn unchanged_pairs_are_reported_as_unchanged() {
    let (mut alarms, mut answered, mut all) = (0, 0, 0);
    run(&SAME, 0..6, |_, result, _| {
        all += 1;
        alarms += i32::from(result.is_answered || result.changed);
        answered += i32::from(result.is_answered);
    });
    // 5 % of 36 are 1.8
    assert!(all == 36 && alarms <= 3 && answered <= 1, "{alarms} alarms, {answered} wrong answers of {all}");
}

#[test]
fn a_different_load_does_not_count_as_help() {
    run(&OTHER, 0..1, |kind, result, both| {
        assert!(!result.is_answered, "{}: {}", kind.name, both.sentence);
        let differs = !kind.name.contains("drifts") && !kind.name.contains("wave");
        let says = ["The load differs", "The load was higher", "The load was lower"];
        assert!(!differs || says.iter().any(|s| both.sentence.starts_with(s)), "{}: {}", kind.name, both.sentence);
        if kind.name.contains("larger requests") {
            assert_eq!(both.outcome, ChangeOutcome::DifferentLoad, "{}", both.sentence);
            assert!(both.sentence.contains("sizes of requests in common"), "{}", both.sentence);
        }
        if kind.name.contains("a fifth less load") {
            assert!(both.sentence.contains("At equal load"), "{}", both.sentence);
        }
    });
}

#[test]
fn an_effect_of_a_fifth_is_found() {
    let (mut found, mut all) = (0, 0);
    run(&EFFECTS, 0..2, |kind, result, both| {
        // half an hour of noise of 30 % that remembers 0.7
        if kind.before.seconds == 1800 && kind.before.memory == 0.7 && kind.before.shape == Shape::Even {
            all += 1;
            found += i32::from(result.found);
        }
        let wrong = match kind.truth {
            Truth::Better => ChangeOutcome::Worse,
            _ => ChangeOutcome::Helped,
        };
        assert_ne!(both.outcome, wrong, "{}: {}", kind.name, both.sentence);
    });
    assert!(all == 10 && found >= 9, "{found} of {all}");
}

#[test]
fn a_different_verdict_alone_does_not_count_as_help() {
    // busy enough that the verdict falls to either side of a limit
    let close = Window { rate: 300.0, service: 0.0065, seconds: 600, ..Window::USUAL };
    let pack = pack();
    for seed in 0..6 {
        let both = compared(&close, &close, &pack, &mut Noise(seed));
        holds_together(&both);
        assert!(!matches!(both.outcome, ChangeOutcome::Helped | ChangeOutcome::Worse), "{seed}: {}", both.sentence);
    }
}
