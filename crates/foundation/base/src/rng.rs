//! Seeded random numbers: the same seed and stream give the same sequence on every
//! machine.

use std::f64::consts::TAU;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A generator of random numbers: SplitMix64 to seed, xoshiro256++ to draw
/// (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019).
///
/// The distributions are formulas of our own: those of `rand_distr` draw other numbers for a seed, and published
/// figures, stored systems and tests depend on these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Creates a generator for a seed and a stream number (a user, a drive, a repetition):
    /// streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `limit`; 0 where `limit` is 0 (Lemire's multiplication;
    /// its bias is below 2^-32 for any `limit` up to 2^32).
    #[inline]
    pub fn next_below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with this probability.
    #[inline]
    pub fn next_bool(&mut self, probability: f64) -> bool {
        self.next_f64() < probability
    }

    /// Draws from an exponential distribution with this mean.
    #[inline]
    pub fn draw_exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next_f64()).ln()
    }

    /// Draws from an Erlang distribution: the sum of `stages` exponentials, `mean`
    /// in all. Its squared coefficient of variation is 1 / `stages`.
    pub fn draw_erlang(&mut self, stages: u32, mean: f64) -> f64 {
        let stages = stages.max(1);
        let product = (0..stages).fold(1.0, |product, _| product * (1.0 - self.next_f64()));
        // with thousands of stages the product underflows to 0
        if product > 0.0 {
            return -mean / f64::from(stages) * product.ln();
        }
        (0..stages).map(|_| self.draw_exponential(mean / f64::from(stages))).sum()
    }

    /// Draws from the standard normal distribution (Box and Muller, 1958).
    pub fn draw_normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.next_f64()).ln()).sqrt();
        radius * (TAU * self.next_f64()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and squared coefficient of variation of many draws.
    fn moments(mut draw: impl FnMut(&mut Rng) -> f64) -> (f64, f64) {
        let mut rng = Rng::new(11, 0);
        let all: Vec<f64> = (0..400_000).map(|_| draw(&mut rng)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (mean, variance / mean.powi(2))
    }

    fn near(found: (f64, f64), mean: f64, cv2: f64) {
        assert!((found.0 / mean - 1.0).abs() < 0.01 && (found.1 - cv2).abs() < 0.02, "{found:?} for {mean} {cv2}");
    }

    #[test]
    fn distributions_have_their_moments() {
        near(moments(Rng::next_f64), 0.5, 1.0 / 3.0);
        near(moments(|d| d.draw_exponential(7.0)), 7.0, 1.0);
        near(moments(|d| d.draw_erlang(4, 3.0)), 3.0, 0.25);
        near(moments(|d| 5.0 + d.draw_normal()), 5.0, 0.04);
        near(moments(|d| d.next_below(1000) as f64), 499.5, 1.0 / 3.0);
        near(moments(|d| f64::from(u8::from(d.next_bool(0.3)))), 0.3, 0.7 / 0.3);
    }

    #[test]
    fn the_same_seed_repeats_and_streams_differ() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<u64>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // for the seed 0, SplitMix64 makes the state
        // e220a8397b1dcdaf 6e789e6aa1b965f4 06c45d188009454f f88bb8a8724c81ec;
        // the first output of xoshiro256++ is rotl(s0 + s3, 23) + s0
        let (first, last) = (0xe220_a839_7b1d_cdaf_u64, 0xf88b_b8a8_724c_81ec_u64);
        let expected = first.wrapping_add(last).rotate_left(23).wrapping_add(first);
        assert_eq!(Rng::new(0, 0).next_u64(), expected);
    }

    #[test]
    fn extreme_arguments_give_valid_numbers() {
        let mut rng = Rng::new(3, 3);
        assert_eq!((rng.next_below(0), rng.next_below(1)), (0, 0));
        assert!(rng.draw_erlang(5000, 1.0).is_finite());
        assert!(!rng.next_bool(0.0) && rng.next_bool(1.0));
    }
}
