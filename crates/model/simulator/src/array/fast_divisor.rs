//! Division by an invariant number without a division instruction: stripe arithmetic divides by the stripe unit and by
//! the number of members for each piece of each request, and a 64-bit division is the slowest instruction there.

/// Divides by a fixed divisor of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastDivisor {
    divisor: u64,
    reciprocal: u64,
}

impl FastDivisor {
    /// Prepares division by `divisor`; 0 is taken as 1.
    pub fn new(divisor: u64) -> FastDivisor {
        let divisor = divisor.max(1);
        FastDivisor { divisor, reciprocal: u64::MAX / divisor }
    }

    /// The divisor.
    #[inline]
    pub fn divisor(self) -> u64 {
        self.divisor
    }

    /// Returns quotient and remainder, exact for every `value`.
    ///
    /// With m = floor((2^64 - 1) / d), value * m / 2^64 is less than value / d by less than 1, so that the quotient is
    /// right or one too small.
    #[inline]
    pub fn div_rem(self, value: u64) -> (u64, u64) {
        let quotient = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = value - quotient * self.divisor;
        let correction = u64::from(remainder >= self.divisor);
        (quotient + correction, remainder - correction * self.divisor)
    }

    /// Returns the remainder.
    #[inline]
    pub fn remainder(self, value: u64) -> u64 {
        self.div_rem(value).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_division() {
        let mut divisors: Vec<u64> = (1..300).collect();
        divisors.extend((0..64).flat_map(|b| [1u64 << b, (1u64 << b).wrapping_sub(1).max(1), (1u64 << b) | 1]));
        divisors.extend([u64::MAX, u64::MAX - 1, 1_000_000_007]);
        for by in divisors {
            let divisor = FastDivisor::new(by);
            let near = [0, 1, by - 1, by, by.saturating_add(1), u64::MAX, u64::MAX - 1, u64::MAX / 2, 12_345_678_901];
            let multiples = (1..50).map(|k| by.saturating_mul(k * k * k * 12_347));
            for value in near.into_iter().chain(multiples.clone()).chain(multiples.map(|m| m.saturating_sub(1))) {
                assert_eq!(divisor.div_rem(value), (value / by, value % by), "{value} by {by}");
                assert_eq!(divisor.remainder(value), value % by);
            }
        }
    }

    #[test]
    fn a_divisor_of_zero_is_taken_as_one() {
        assert_eq!(FastDivisor::new(0).div_rem(7), (7, 0));
    }
}
