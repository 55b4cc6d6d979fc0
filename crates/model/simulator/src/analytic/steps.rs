//! What a request goes through, step by step.

use crate::run::QUANTUM;

/// Kinds of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoKind {
    /// A read.
    Read,
    /// A write somewhere.
    Write,
    /// A write of what was read just before.
    Again,
}

/// What a visit costs a center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ServiceDemand {
    /// What the center says for the kind of I/O and the number that wait.
    ByDepth,
    /// So many seconds, with this variance.
    Fixed(f64, f64),
    /// So many seconds, in turns that are not longer than [`QUANTUM_S`]: after each, all others have theirs.
    InTurns(f64),
}

/// Longest turn of a program on a processor, s.
const QUANTUM_S: f64 = QUANTUM as f64 * 1e-9;

impl ServiceDemand {
    /// How often it waits for its turn.
    pub fn turns(self) -> f64 {
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
    /// So many members at the same time; what each takes is seen once.
    pub times: f64,
}

/// I/Os that are sent at one moment, each to another member; all are waited
/// for. A single one for what is not forked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForkStep {
    pub ios: f64,
    pub kind: IoKind,
    /// What each goes through.
    pub visits: Vec<Visit>,
    /// It is over before the request begins: a user's own work, which is no part of the response.
    pub is_before: bool,
    /// What each spends nowhere, s, and the variance of that, s².
    pub delay_s: f64,
    pub delay_variance_s2: f64,
}
