//! The bench that simulates: systems that are built in, the simulator.

use crate::run::{Bench, Simulated, Variant};

/// The bench of the data that are built in.
pub fn bench(threads: usize) -> Bench<'static> {
    Bench { simulate: &simulate, threads }
}

/// Simulates a variant.
///
/// # Errors
/// What is wrong in the description.
pub fn simulate(variant: &Variant) -> Simulated {
    Err(format!("{}: descriptions cannot be read yet", variant.system))
}
