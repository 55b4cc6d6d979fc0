//! Steps that a request goes through.

use crate::run::QUANTUM_NS;

/// Kinds of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoKind {
    /// A read.
    Read,
    /// A write at any position.
    Write,
    /// A write of data that were just read.
    Rewrite,
}

/// Cost of a visit at a center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ServiceDemand {
    /// Given by the center for the kind of I/O and the queue depth.
    ByDepth,
    /// A fixed time, s, with its variance, s².
    Fixed(f64, f64),
    /// A time, s, in time slices of at most [`QUANTUM_S`]: after each slice, all others get one.
    InTurns(f64),
}

/// Longest time slice of a program on a processor, s.
const QUANTUM_S: f64 = QUANTUM_NS as f64 * 1e-9;

impl ServiceDemand {
    /// Number of waits for a time slice.
    pub fn turn_count(self) -> f64 {
        match self {
            ServiceDemand::InTurns(time) => (time / QUANTUM_S).max(1.0),
            _ => 1.0,
        }
    }
}

/// A visit to one of the members of a center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Visit {
    pub center: usize,
    pub work: ServiceDemand,
    /// Number of members that are visited in parallel; only the time of one of them delays the I/O.
    pub times: f64,
}

/// I/Os sent at the same time, each to another member; the step ends with the last of them. A single I/O is a fork of
/// one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForkStep {
    pub ios: f64,
    pub kind: IoKind,
    /// The visits of each I/O.
    pub visits: Vec<Visit>,
    /// True for a user's own work before the request begins, which is not part of the response.
    pub is_before: bool,
    /// Time that each I/O spends outside of centers, s.
    pub delay_s: f64,
    /// Variance of that time, s².
    pub delay_variance_s2: f64,
}
