//! Extent of long sweeps in tests: a sample that is the same on every machine, or, with `DISKWRIGHT_SWEEP=all` as
//! `./check full` sets it, all of it.

/// Seed of every sample.
const SEED: u64 = 16;

/// True if each sweep is to be run in full.
pub fn is_full_sweep() -> bool {
    std::env::var_os("DISKWRIGHT_SWEEP").is_some_and(|value| value == "all")
}

/// Numbers below `count` in ascending order: one drawn from each of `sample` equal parts, so that no part is left out,
/// and the first and the last; all of them in a full sweep.
pub fn sweep(count: usize, sample: usize) -> Vec<usize> {
    if is_full_sweep() || count <= sample {
        return (0..count).collect();
    }
    let edge = |part: usize| part * count / sample;
    let draw = |part: usize| edge(part) + splitmix64(SEED + part as u64) as usize % (edge(part + 1) - edge(part));
    let mut numbers: Vec<usize> = (0..sample).map(draw).chain([0, count - 1]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 1
}

#[test]
fn a_sample_has_a_number_of_each_part_and_both_ends() {
    assert_eq!(sweep(5, 9), [0, 1, 2, 3, 4]);
    if std::env::var_os("DISKWRIGHT_SWEEP").is_some() {
        return;
    }
    let numbers = sweep(1000, 10);
    assert!((10..=12).contains(&numbers.len()) && numbers.is_sorted(), "{numbers:?}");
    assert_eq!((numbers.first(), numbers.last()), (Some(&0), Some(&999)));
    assert!((0..10).all(|part| numbers.iter().any(|n| n / 100 == part)), "{numbers:?}");
    assert_eq!(numbers, sweep(1000, 10));
}
