//! Zipf's law: few places are accessed often, most rarely.

use crate::Rng;

/// Zipf's law over ranks 0 to `count - 1`: after Gray et al., "Quickly
/// generating billion-record synthetic databases", SIGMOD 1994.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Creates the distribution of `count` ranks with the exponent `theta`; 1 is replaced by a little less.
    pub fn new(count: u64, theta: f64) -> Zipf {
        let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 - 1e-6 } else { theta.max(0.0) };
        let zeta = compute_zeta(count, theta);
        let n = count as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_of_two(theta) / zeta);
        Zipf { count: n, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    /// Draws a rank: 0 is the most frequent.
    #[inline]
    pub fn draw_rank(&self, rng: &mut Rng) -> u64 {
        let share = rng.next_f64();
        let point = share * self.zeta;
        if point < 1.0 || self.count < 2.0 {
            return 0;
        }
        if point < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.count * (self.eta * share - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

fn zeta_of_two(theta: f64) -> f64 {
    1.0 + 0.5f64.powf(theta)
}

/// Sum of 1/i^theta: the first terms one by one, the rest by the integral
/// (Euler and Maclaurin), exact to far below what a run can resolve.
fn compute_zeta(count: u64, theta: f64) -> f64 {
    const EXACT_TERMS: u64 = 10_000;
    let head: f64 = (1..=count.min(EXACT_TERMS)).map(|i| (i as f64).powf(-theta)).sum();
    if count <= EXACT_TERMS {
        return head;
    }
    let (a, b) = (EXACT_TERMS as f64, count as f64);
    head + (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta) + 0.5 * (b.powf(-theta) - a.powf(-theta))
}

/// Scatters ranks over places, so that the most frequent are not adjacent:
/// multiplication by an odd constant, then the high bits.
pub fn scatter_rank(rank: u64, places: u64) -> u64 {
    let mixed = (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * u128::from(places)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_zipfs_law() {
        let zipf = Zipf::new(1000, 0.99);
        let mut rng = Rng::new(7, 0);
        let mut counts = vec![0u32; 1000];
        for _ in 0..1_000_000 {
            counts[zipf.draw_rank(&mut rng) as usize] += 1;
        }
        // rank 1 has 1/zeta of all, rank 2 1/2^theta of that
        let first = 1e6 / compute_zeta(1000, 0.99);
        assert!((f64::from(counts[0]) / first - 1.0).abs() < 0.02, "{} of {first}", counts[0]);
        assert!((f64::from(counts[1]) / f64::from(counts[0]) - 0.5f64.powf(0.99)).abs() < 0.02);
        assert!((compute_zeta(1_000_000, 0.99) - 15.391_849_746).abs() < 1e-4);
    }
}
