//! Work of the processor alone: its data stays in registers and the first-level cache.

use std::hint::black_box;

use crate::BaselineError;
use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};

/// Number of independent chains, which makes use of the processor's width.
const INTEGER_CHAINS: usize = 4;
/// Steps of each chain in a round.
const STEPS_PER_ROUND: u64 = 1 << 16;

/// Computes one step of xorshift64 (Marsaglia 2003): three shifts and three exclusive ors, each
/// depending on the one before.
#[inline(always)]
fn xorshift64(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    x
}

/// Makes the integer kernel: four chains of xorshift64, each step followed by a multiplication and
/// an addition. A unit is one step of one chain.
pub fn make_integer_kernel(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let seed = share.index as u64;
    let work = move |rounds: u64| {
        let mut chains: [u64; INTEGER_CHAINS] = std::array::from_fn(|chain| 1 + seed + chain as u64);
        let mut sums = [0u64; INTEGER_CHAINS];
        for _ in 0..rounds {
            for _ in 0..STEPS_PER_ROUND {
                for (chain, sum) in chains.iter_mut().zip(&mut sums) {
                    *chain = xorshift64(*chain);
                    *sum = sum.wrapping_add(chain.wrapping_mul(0x2545_f491_4f6c_dd1d));
                }
            }
            chains = black_box(chains);
        }
        Ok(sums.into_iter().fold(0, u64::wrapping_add))
    };
    Ok(WorkKernel {
        run_rounds: Box::new(work),
        units_per_round: (STEPS_PER_ROUND * INTEGER_CHAINS as u64) as f64,
        is_repeatable: true,
    })
}

/// Makes the floating-point kernel: chains of the logistic map x' = r x (1 - x), which stays
/// chaotic within 0 to 1: three operations a step.
pub fn make_floating_point_kernel(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const FLOATING_CHAINS: usize = 8;
    let shift = share.index as f64 / 4096.0;
    let work = move |rounds: u64| {
        let rate = black_box(3.99_f64);
        let mut chains: [f64; FLOATING_CHAINS] =
            std::array::from_fn(|chain| 0.1 + shift.fract() / 8.0 + chain as f64 / 16.0);
        for _ in 0..rounds {
            for _ in 0..STEPS_PER_ROUND {
                for x in &mut chains {
                    *x = rate * *x * (1.0 - *x);
                }
            }
            chains = black_box(chains);
        }
        Ok(chains.into_iter().fold(0, |sum, x| sum ^ x.to_bits().rotate_left(7)))
    };
    let units = (STEPS_PER_ROUND * 3 * FLOATING_CHAINS as u64) as f64;
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: units, is_repeatable: true })
}

/// Makes the branch kernel: a branch on a random bit that no predictor knows, so half of the
/// branches are mispredicted. Both branches write to memory, so that no compiler turns the branch into
/// a selection.
pub fn make_branch_kernel(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let seed = 77 + share.index as u64;
    let work = move |rounds: u64| {
        let (mut x, mut taken, mut not_taken) = (seed, 0u64, 1u64);
        for _ in 0..rounds {
            for _ in 0..STEPS_PER_ROUND {
                x = xorshift64(x);
                if x & 0x10 == 0 {
                    taken = black_box(taken.wrapping_add(x));
                } else {
                    not_taken = black_box(not_taken.rotate_left(1) ^ x);
                }
            }
        }
        Ok(taken ^ not_taken)
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: STEPS_PER_ROUND as f64, is_repeatable: true })
}

/// Runs steps of a dependent chain of xorshift64: six instructions of one cycle each on processors
/// whose shifts and exclusive ors take one cycle, so that six times the rate of steps is about the
/// clock.
pub fn run_dependent_chain(steps: u64) -> u64 {
    let mut x = black_box(1u64);
    for _ in 0..steps {
        x = xorshift64(x);
    }
    black_box(x)
}

/// Cycles of one step of [`run_dependent_chain`].
pub const CYCLES_PER_CHAIN_STEP: f64 = 6.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(make: fn(&WorkingSizes, ThreadShare) -> Result<WorkKernel, BaselineError>) -> [u64; 3] {
        let share = ThreadShare { index: 0, threads: 1 };
        let mut kernels = [(); 3].map(|()| make(&WorkingSizes::default(), share).expect("a kernel"));
        [(kernels[0].run_rounds)(2), (kernels[1].run_rounds)(2), (kernels[2].run_rounds)(3)]
            .map(|sum| sum.expect("worked"))
    }

    #[test]
    fn the_same_work_gives_the_same_sum_and_other_work_another() {
        for make in [make_integer_kernel, make_floating_point_kernel, make_branch_kernel] {
            let [first, again, more] = sums(make);
            assert_eq!(first, again);
            assert_ne!(first, more);
        }
    }

    /// The first step from 1: 1 ^ 1 << 13 = 8193, ^ >> 7 = 8257 (8193 >> 7 = 64), ^ << 17.
    #[test]
    fn xorshift_matches_marsaglias_generator() {
        let x = 1u64 ^ (1 << 13);
        let x = x ^ (x >> 7);
        assert_eq!(x, 8257);
        assert_eq!(xorshift64(1), 8257 ^ (8257 << 17));
        assert_eq!(run_dependent_chain(1), xorshift64(1));
    }
}
