//! The work of a figure: a closure, its units, and the share of a thread in it.

use crate::BaselineError;

/// Function that does a number of rounds of work and returns a checksum that depends on all of them.
pub type RoundFunction = Box<dyn FnMut(u64) -> Result<u64, BaselineError> + Send>;

/// Work that can be timed.
pub struct WorkKernel {
    /// Does a number of rounds.
    pub run_rounds: RoundFunction,
    /// Units of the figure in one round: operations, bytes.
    pub units_per_round: f64,
    /// A new kernel returns the same sum for the same number of rounds.
    pub is_repeatable: bool,
}

/// Share of one thread in the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShare {
    /// Index of the thread, from 0.
    pub index: usize,
    /// Number of threads.
    pub threads: usize,
}
