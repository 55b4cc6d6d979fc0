//! Seek distances as shares of the stroke, and rotational latencies as shares of a revolution or in seconds.

/// Mean distance of the nearest of `arms` arms to a random position, as a share of the stroke, with independent,
/// uniformly distributed arms: (n + 3) / (2 (n + 1) (n + 2)). 1/3 for one arm, 5/24 for two (Bitton and Gray, "Disk
/// shadowing", VLDB 1988, who round it to 1 / (2 n + 1)).
///
/// For a position x in the left half, an arm is farther than d with probability 1 - 2 d up to d = x, and 1 - x - d from
/// there; the n-th power, integrated over d and x, is the mean.
///
/// Arms that are always chosen by distance do not stay uniformly distributed: with reads only, each keeps to its half,
/// and the nearer of two moves 0.162 of the stroke (`tests/arrays.rs`). Every write brings them together again.
///
/// ```
/// use diskwright_simulator::theory::nearest_arm;
/// assert!((nearest_arm(2) - 5.0 / 24.0).abs() < 1e-15);
/// ```
pub fn nearest_arm(arms: u32) -> f64 {
    let n = f64::from(arms.max(1));
    (n + 3.0) / (2.0 * (n + 1.0) * (n + 2.0))
}

/// Mean distance of the farthest of `arms` arms to a random position, as a share of the stroke; a write to all copies
/// waits for it. 3/4 - 1 / (n + 1) + 1 / (2 (n + 1) (n + 2)); 1/3 for one arm, 11/24 for two.
///
/// ```
/// use diskwright_simulator::theory::farthest_arm;
/// assert!((farthest_arm(2) - 11.0 / 24.0).abs() < 1e-15);
/// ```
pub fn farthest_arm(arms: u32) -> f64 {
    let n = f64::from(arms.max(1));
    0.75 - 1.0 / (n + 1.0) + 1.0 / (2.0 * (n + 1.0) * (n + 2.0))
}

/// Mean rotational latency, as a share of a revolution, of the slowest of `drives` drives with unsynchronized spindles:
/// n / (n + 1); 1/2 for one, as for synchronized ones.
pub fn slowest_rotation(drives: u32) -> f64 {
    let n = f64::from(drives.max(1));
    n / (n + 1.0)
}

/// Mean rotational latency at a spindle speed, s: half a revolution (SAS 1998, see `docs/documents.md`).
///
/// ```
/// use diskwright_simulator::theory::rotational_latency_s;
/// // 4.17 ms at 7200 rev/min
/// assert!((rotational_latency_s(7200.0) * 1e3 - 4.17).abs() < 0.005);
/// ```
pub fn rotational_latency_s(rpm: f64) -> f64 {
    30.0 / rpm
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn formulas_match_random_arms() {
        let mut rng = Rng::new(3, 0);
        const THROWS: u32 = 400_000;
        for arms in 1..=5 {
            let (mut near, mut far, mut turn) = (0.0, 0.0, 0.0);
            for _ in 0..THROWS {
                let place = rng.next_f64();
                let (mut nearest, mut farthest, mut slowest) = (1.0f64, 0.0f64, 0.0f64);
                for _ in 0..arms {
                    let way = (rng.next_f64() - place).abs();
                    (nearest, farthest, slowest) = (nearest.min(way), farthest.max(way), slowest.max(rng.next_f64()));
                }
                near += nearest;
                far += farthest;
                turn += slowest;
            }
            let close = |sum: f64, expected: f64| {
                let found = sum / f64::from(THROWS);
                assert!((found - expected).abs() < 0.002, "{arms}: {found} {expected}");
            };
            close(near, nearest_arm(arms));
            close(far, farthest_arm(arms));
            close(turn, slowest_rotation(arms));
        }
    }
}
