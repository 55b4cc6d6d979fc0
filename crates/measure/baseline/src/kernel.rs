//! The work of a figure: a closure, its units, and the share of a thread in it.

use crate::BaselineError;

/// Does so many rounds of work and gives a sum that depends on all of them.
pub type RoundFunction = Box<dyn FnMut(u64) -> Result<u64, BaselineError> + Send>;

/// Work that can be timed.
pub struct WorkKernel {
    /// Does the work.
    pub work: RoundFunction,
    /// Units of the figure in a round: operations, bytes.
    pub units: f64,
    /// The sum is the same whenever the same rounds are done by a new kernel.
    pub is_repeatable: bool,
}

/// A share of the work: which thread of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShare {
    /// From 0.
    pub index: usize,
    /// Threads in all.
    pub threads: usize,
}
