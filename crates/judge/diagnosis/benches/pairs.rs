//! Error rates of `compare` on pairs of synthetic windows of known difference: false alarms where nothing or only the
//! load changed, and effects of a fifth that are found. One line for each kind of pair; `--pairs N` runs N of each kind
//! without a change (default 1,000) and a fifth as many of the others; `--only WORDS` runs only kinds whose names
//! contain the words.
//!
//! `--tiny` runs a few, to see that it still runs, as `cargo test` does.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use diskwright_diagnosis::packs;

#[path = "../../../foundation/statistics/src/noise.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod noise;
#[path = "../tests/common/pairs.rs"]
mod pairs;

use noise::Noise;

use pairs::{EFFECTS, Kind, OTHER, SAME, Truth};

fn others(pairs: u64) -> u64 {
    (pairs / 5).max(1)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let tiny = arguments.iter().any(|a| a == "--tiny" || a == "--test") || !arguments.iter().any(|a| a == "--bench");
    let after = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let pairs: u64 = after("--pairs").and_then(|n| n.parse().ok()).unwrap_or(if tiny { 2 } else { 1000 });
    let pack = packs::builtin_pack("default").expect("it loads").expect("it is there");
    println!("{pairs} pairs without a change, {} of others; 30 minutes at 1 s where nothing is said", others(pairs));
    println!("{:<44} {:>8} {:>8} {:>8} {:>8}", "kind", "answer", "counter", "either", "found");
    let only_kinds = after("--only").map_or("", String::as_str);
    for kind in SAME.iter().chain(&OTHER).chain(&EFFECTS).filter(|k| k.name.contains(only_kinds)) {
        let (mut answered, mut changed, mut either, mut found) = (0u64, 0u64, 0u64, 0u64);
        let pairs = if kind.truth == Truth::Same { pairs } else { others(pairs) };
        for seed in 0..pairs {
            let (result, _) = kind.run(&pack, seed);
            answered += u64::from(result.is_answered);
            changed += u64::from(result.changed);
            either += u64::from(result.is_answered || result.changed);
            found += u64::from(result.found);
        }
        let percent = |n: u64| format!("{:.1} %", 100.0 * n as f64 / pairs as f64);
        let only = |wanted: bool, n: u64| if wanted { percent(n) } else { "-".into() };
        let Kind { name, truth, .. } = kind;
        let (same, other) = (*truth == Truth::Same, matches!(truth, Truth::Same | Truth::OtherLoad));
        println!(
            "{name:<44} {:>8} {:>8} {:>8} {:>8}",
            only(other, answered),
            only(same, changed),
            only(same, either),
            only(!other, found)
        );
    }
}
