//! Mean time to data loss.
//!
//! After Patterson, Gibson and Katz, "A case for redundant arrays of inexpensive disks", 1988, and Gibson, "Redundant
//! disk arrays", 1992: members fail independently at a constant rate, repairs are made one after another, and a repair
//! is far shorter than a member's life. Data are lost when more members fail than the level survives, or when, without
//! redundancy left, a block that the rebuild needs cannot be read. Real members fail together more often than that
//! (batches, heat, one controller), so these figures are upper bounds, good for comparing designs.

use crate::array::ArrayLevel;

/// Failure figures of the members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureRates {
    /// Mean time to failure of a member, in any unit of time.
    pub mttf: f64,
    /// Mean time from a failure until the replacement is rebuilt, in the same unit.
    pub mttr: f64,
    /// Bytes of a member.
    pub member_bytes: f64,
    /// Probability that a bit cannot be read (data sheets give 1e-14 and 1e-15); 0 to ignore such errors.
    pub errors_per_bit: f64,
}

/// Probability that reading `bytes` bytes meets an unreadable bit.
///
/// ```
/// use diskwright_simulator::theory::unreadable_probability;
/// // 12.5 TB are 1e14 bits: 1 - 1/e at one error in 1e14
/// assert!((unreadable_probability(12.5e12, 1e-14) - 0.632).abs() < 0.001);
/// ```
pub fn unreadable_probability(bytes: f64, errors_per_bit: f64) -> f64 {
    -(bytes * 8.0 * (-errors_per_bit).ln_1p()).exp_m1()
}

/// Mean time to data loss of an array, in the unit of `failures`. `copies` applies to levels with copies, which are
/// modeled as groups of that many members. `None` for fewer members than the level needs.
///
/// ```
/// use diskwright_simulator::array::ArrayLevel;
/// use diskwright_simulator::theory::{FailureRates, mttdl};
/// // a million hours, a day to repair
/// let hours = FailureRates { mttf: 1e6, mttr: 24.0, member_bytes: 0.0, errors_per_bit: 0.0 };
/// let mean_time = |level, members| mttdl(level, members, 2, &hours).unwrap();
/// // MTTF² / (2 R)
/// assert!((mean_time(ArrayLevel::Raid1, 2) / (1e12 / 48.0) - 1.0).abs() < 1e-9);
/// // divided by the number of pairs
/// assert!((mean_time(ArrayLevel::Raid10, 8) / (1e12 / 48.0 / 4.0) - 1.0).abs() < 1e-9);
/// // MTTF² / (N (N-1) R)
/// assert!((mean_time(ArrayLevel::Raid5, 8) / (1e12 / (56.0 * 24.0)) - 1.0).abs() < 1e-9);
/// // MTTF³ / (N (N-1) (N-2) R²)
/// assert!((mean_time(ArrayLevel::Raid6, 8) / (1e18 / (336.0 * 576.0)) - 1.0).abs() < 1e-9);
/// ```
pub fn mttdl(level: ArrayLevel, members: u16, copies: u16, failures: &FailureRates) -> Option<f64> {
    let info = level.info();
    if members < info.min_members {
        return None;
    }
    let n = f64::from(members);
    let c = match level {
        ArrayLevel::Raid0 => 1.0,
        ArrayLevel::Raid1 => n,
        _ => f64::from(copies.clamp(1, members)),
    };
    let loss = match level {
        ArrayLevel::Linear | ArrayLevel::Raid0 => n / failures.mttf,
        ArrayLevel::Raid01 => split_loss(n, c, failures),
        ArrayLevel::Raid1 | ArrayLevel::Raid10 => n / c * loss_rate(c, c - 1.0, 1.0, failures),
        _ => {
            let p = f64::from(info.parities);
            loss_rate(n, p, n - p, failures)
        }
    };
    Some(1.0 / loss)
}

/// Losses per unit of time of one group of `n` members that survives `tolerated` failures and then reads `read` members
/// to rebuild: N/M * prod((N-i) R/M) * ((N-p) R/M + u), i from 1 to p - 1.
fn loss_rate(n: f64, tolerated: f64, read: f64, failures: &FailureRates) -> f64 {
    let FailureRates { mttf, mttr: repair, member_bytes, errors_per_bit } = *failures;
    if tolerated < 1.0 {
        return n / mttf;
    }
    let between: f64 = (1..tolerated as u32).map(|i| (n - f64::from(i)) * repair / mttf).product();
    let last = (n - tolerated) * repair / mttf + unreadable_probability(read * member_bytes, errors_per_bit);
    n / mttf * between * last
}

/// Losses per unit of time of a mirror of `c` stripe sets of `n / c` members: a failed member takes its stripe set out
/// of service, and then any failure in the other stripe sets counts.
fn split_loss(n: f64, c: f64, failures: &FailureRates) -> f64 {
    let stripe_set = FailureRates { mttf: failures.mttf * c / n, ..*failures };
    loss_rate(c, c - 1.0, n / c, &stripe_set)
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    const NO_ERRORS: FailureRates = FailureRates { mttf: 1000.0, mttr: 1.0, member_bytes: 0.0, errors_per_bit: 0.0 };

    /// Simulates the mean time to loss of `n` members of which `tolerated` may be down at once, with random lives and
    /// repairs. `fatal` is the probability that a rebuild without redundancy left meets an unreadable block.
    fn simulate_mttdl(n: u32, tolerated: u32, failures: &FailureRates, fatal: f64, runs: u32) -> f64 {
        let mut rng = Rng::new(8, u64::from(n * 10 + tolerated));
        let mut time = 0.0;
        for _ in 0..runs {
            let mut down = 0;
            while down <= tolerated {
                let fail = rng.draw_exponential(failures.mttf / f64::from(n - down));
                let repair = if down > 0 { rng.draw_exponential(failures.mttr) } else { f64::INFINITY };
                time += fail.min(repair);
                if fail < repair {
                    down += 1;
                    if down == tolerated && rng.next_bool(fatal) {
                        break;
                    }
                } else {
                    down -= 1;
                }
            }
        }
        time / f64::from(runs)
    }

    fn assert_near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found} is not {expected}");
    }

    #[test]
    fn formulas_match_simulated_lives() {
        // the formulas omit terms of the order N R / MTTF, below 1 %; 4000 runs are accurate to 1.6 %
        let formula = |level, members| mttdl(level, members, 2, &NO_ERRORS).unwrap();
        assert_near(simulate_mttdl(2, 1, &NO_ERRORS, 0.0, 4000), formula(ArrayLevel::Raid1, 2), 0.05);
        assert_near(simulate_mttdl(5, 1, &NO_ERRORS, 0.0, 4000), formula(ArrayLevel::Raid5, 5), 0.05);
        let quick = FailureRates { mttf: 200.0, ..NO_ERRORS };
        assert_near(simulate_mttdl(6, 2, &quick, 0.0, 1500), mttdl(ArrayLevel::Raid6, 6, 1, &quick).unwrap(), 0.12);
        assert_near(simulate_mttdl(3, 2, &quick, 0.0, 1500), mttdl(ArrayLevel::Raid1, 3, 3, &quick).unwrap(), 0.12);
    }

    #[test]
    fn unreadable_blocks_match_simulation() {
        let errors = FailureRates { member_bytes: 1e12, errors_per_bit: 1e-15, ..NO_ERRORS };
        let formula = |level, members| mttdl(level, members, 2, &errors).unwrap();
        assert_near(
            simulate_mttdl(5, 1, &errors, unreadable_probability(4e12, 1e-15), 4000),
            formula(ArrayLevel::Raid5, 5),
            0.05,
        );
        assert_near(
            simulate_mttdl(2, 1, &errors, unreadable_probability(1e12, 1e-15), 4000),
            formula(ArrayLevel::Raid1, 2),
            0.05,
        );
        let quick = FailureRates { mttf: 200.0, ..errors };
        assert_near(
            simulate_mttdl(6, 2, &quick, unreadable_probability(4e12, 1e-15), 1500),
            mttdl(ArrayLevel::Raid6, 6, 1, &quick).unwrap(),
            0.12,
        );
        // for large drives the read errors dominate: a day of repair, eight of 4 TB at 1e-14
        let large = FailureRates { mttf: 1e6, mttr: 24.0, member_bytes: 4e12, errors_per_bit: 1e-14 };
        let without = FailureRates { errors_per_bit: 0.0, ..large };
        let ratio = |level| mttdl(level, 8, 1, &without).unwrap() / mttdl(level, 8, 1, &large).unwrap();
        assert!(ratio(ArrayLevel::Raid5) > 1000.0 && ratio(ArrayLevel::Raid6) > 1000.0);
    }

    #[test]
    fn mirrored_stripe_sets_lose_data_sooner_than_striped_mirrors() {
        // 8 members: RAID 10 loses data with 1 of the 7 others, 0+1 with 4 of 7
        let formula = |level| mttdl(level, 8, 2, &NO_ERRORS).unwrap();
        assert_near(formula(ArrayLevel::Raid10) / formula(ArrayLevel::Raid01), 4.0, 1e-9);
        assert_near(formula(ArrayLevel::Raid0), 125.0, 1e-9);
        assert_near(formula(ArrayLevel::Raid7), 1000f64.powi(4) / (8.0 * 7.0 * 6.0 * 5.0), 1e-9);
        assert_eq!(mttdl(ArrayLevel::Raid6, 3, 1, &NO_ERRORS), None);
    }

    #[test]
    fn probabilities_stay_between_0_and_1() {
        assert_eq!((unreadable_probability(0.0, 1e-14), unreadable_probability(1e15, 0.0)), (0.0, 0.0));
        assert!(unreadable_probability(1e30, 1e-14) <= 1.0 && unreadable_probability(1.0, 1e-15) > 0.0);
    }
}
