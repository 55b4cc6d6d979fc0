//! Paths: what a request goes through, one step after another. Every
//! description of a system becomes such lists, so that the event loop knows
//! nothing of hosts, buses and controllers.

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io, transfer_time};

/// What a visit costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VisitCost {
    /// Of each visit, ns.
    pub fixed: Ns,
    /// Of each byte, ps.
    pub byte_ps: u64,
    /// Of what passes at a rate, bytes/s; 0: it takes no time.
    pub rate: u64,
    /// Of each chunk, ns.
    pub chunk: Ns,
    /// Blocks of a chunk; 0: the whole request is one.
    pub chunk_blocks: u32,
}

impl VisitCost {
    /// Chunks of a request.
    #[inline]
    pub fn chunks(&self, io: &Io) -> u64 {
        if self.chunk_blocks == 0 { 1 } else { u64::from(io.blocks.div_ceil(self.chunk_blocks)) }
    }

    /// Time of a visit, ns.
    #[inline]
    pub fn of(&self, io: &Io) -> Ns {
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        self.fixed + bytes * self.byte_ps / 1000 + transfer_time(bytes, self.rate) + self.chunk * self.chunks(io)
    }

    /// True where a visit takes no time.
    pub fn is_nothing(&self) -> bool {
        self.fixed == 0 && self.byte_ps == 0 && self.rate == 0 && self.chunk == 0
    }
}

/// Which requests take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepCondition {
    Always,
    Reads,
    Writes,
}

impl StepCondition {
    #[inline]
    pub fn holds(self, write: bool) -> bool {
        match self {
            StepCondition::Always => true,
            StepCondition::Reads => !write,
            StepCondition::Writes => write,
        }
    }
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// The program's own processor time before the request; the clock of its
    /// response starts after it.
    Compute,
    /// A visit to a station.
    Visit {
        station: u16,
        when: StepCondition,
        cost: VisitCost,
    },
    /// Interrupts, on the processors.
    Interrupt {
        cost: VisitCost,
    },
    /// At most so many requests are between this and the `Leave` of the gate.
    Enter(u16),
    Leave(u16),
    /// Requests of more blocks go on as several.
    Split(u32),
    /// A cache, in whose addresses the volume begins at `base`.
    Cache {
        cache: u16,
        base: u64,
    },
    /// A channel, for devices that do not use it in the course of a request.
    Channel {
        channel: u16,
        when: StepCondition,
    },
    /// An array.
    Array(u16),
    /// A drive.
    Drive(u32),
    /// The request is done.
    End,
}

/// Where a path begins in the list of all steps.
pub(super) type PathStart = u32;

/// The steps of all paths, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    steps: Vec<PathStep>,
}

impl Paths {
    /// Adds a path.
    pub fn add(&mut self, steps: &[PathStep]) -> PathStart {
        let index = self.steps.len() as PathStart;
        let needed = |step: &&PathStep| match step {
            PathStep::Visit { cost, .. } => !cost.is_nothing(),
            _ => true,
        };
        self.steps.extend(steps.iter().filter(needed));
        self.steps.push(PathStep::End);
        index
    }

    /// A step.
    #[inline]
    pub fn step(&self, start: PathStart) -> &PathStep {
        &self.steps[start as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_visit_costs() {
        // 64 KB by programmed transfer: 128 sectors, each an interrupt of 20 us, 200 ns a byte
        let cost = VisitCost { fixed: 1_000, byte_ps: 200_000, rate: 0, chunk: 20_000, chunk_blocks: 1 };
        let io = Io::read(0, 128);
        assert_eq!((cost.chunks(&io), cost.of(&io)), (128, 1_000 + 13_107_200 + 2_560_000));
        // 20 MB/s: 50 ns a byte
        assert_eq!(VisitCost { rate: 20_000_000, ..VisitCost::default() }.of(&io), 3_276_800);
        assert_eq!(VisitCost { fixed: 7, ..VisitCost::default() }.of(&io), 7);
    }

    #[test]
    fn visits_that_cost_nothing_are_left_out() {
        let mut paths = Paths::default();
        let free = PathStep::Visit { station: 0, when: StepCondition::Always, cost: VisitCost::default() };
        assert_eq!(paths.add(&[free, PathStep::Drive(3)]), 0);
        assert_eq!((paths.step(0), paths.step(1)), (&PathStep::Drive(3), &PathStep::End));
        assert_eq!(paths.add(&[PathStep::Array(0)]), 2);
    }
}
