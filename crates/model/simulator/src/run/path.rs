//! Paths: the steps that a request goes through. Every system description is compiled to such lists, so that the event
//! loop knows nothing of hosts, buses and controllers.

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io, transfer_time_ns};

/// Cost of a visit to a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VisitCost {
    /// Per visit, ns.
    pub fixed_ns: Ns,
    /// Per byte, ps.
    pub byte_ps: u64,
    /// Transfer rate, bytes/s; 0 means that transfers take no time.
    pub rate_bytes_per_s: u64,
    /// Per chunk, ns.
    pub chunk_ns: Ns,
    /// Blocks per chunk; 0 means that the whole request is one chunk.
    pub chunk_blocks: u32,
}

impl VisitCost {
    /// Chunks of a request.
    #[inline]
    pub fn chunk_count(&self, io: &Io) -> u64 {
        if self.chunk_blocks == 0 { 1 } else { u64::from(io.blocks.div_ceil(self.chunk_blocks)) }
    }

    /// Time of a visit, ns.
    #[inline]
    pub fn visit_time_ns(&self, io: &Io) -> Ns {
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        self.fixed_ns
            + bytes * self.byte_ps / 1000
            + transfer_time_ns(bytes, self.rate_bytes_per_s)
            + self.chunk_ns * self.chunk_count(io)
    }

    /// True if a visit takes no time.
    pub fn is_zero(&self) -> bool {
        self.fixed_ns == 0 && self.byte_ps == 0 && self.rate_bytes_per_s == 0 && self.chunk_ns == 0
    }
}

/// The requests that take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepCondition {
    Always,
    Reads,
    Writes,
}

impl StepCondition {
    /// True if a read, or a write, takes the step.
    #[inline]
    pub fn applies_to(self, write: bool) -> bool {
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
    /// The program's own processor time before the request; the response time starts after it.
    Compute,
    /// A visit to a station.
    Visit { station: u16, when: StepCondition, cost: VisitCost },
    /// Interrupts, on the processors.
    Interrupt { cost: VisitCost },
    /// Enters a gate: at most a fixed number of requests are between this step and the gate's `Leave`.
    Enter(u16),
    /// Leaves a gate.
    Leave(u16),
    /// Requests of more blocks are split into several.
    Split(u32),
    /// A cache, in whose address space the volume begins at `base`.
    Cache { cache: u16, base: u64 },
    /// A channel, for devices that do not use it during a request.
    Channel { channel: u16, when: StepCondition },
    /// An array.
    Array(u16),
    /// A drive.
    Drive(u32),
    /// The request is done.
    End,
}

/// Index of a path's first step in the list of all steps.
pub(super) type PathStart = u32;

/// The path that consists of its end only.
pub(super) const END_PATH: PathStart = 0;

/// The steps of all paths, one after the other; [`END_PATH`] is the first.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    steps: Vec<PathStep>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths { steps: vec![PathStep::End] }
    }
}

impl Paths {
    /// Adds a path; visits without cost are left out.
    pub fn add_path(&mut self, steps: &[PathStep]) -> PathStart {
        let index = self.steps.len() as PathStart;
        let has_cost = |step: &&PathStep| match step {
            PathStep::Visit { cost, .. } => !cost.is_zero(),
            _ => true,
        };
        self.steps.extend(steps.iter().filter(has_cost));
        self.steps.push(PathStep::End);
        index
    }

    /// Returns a step.
    #[inline]
    pub fn step_at(&self, start: PathStart) -> &PathStep {
        &self.steps[start as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_the_costs_of_a_visit() {
        // 64 KB by programmed transfer: 128 sectors, each an interrupt of 20 us, 200 ns a byte
        let cost =
            VisitCost { fixed_ns: 1_000, byte_ps: 200_000, rate_bytes_per_s: 0, chunk_ns: 20_000, chunk_blocks: 1 };
        let io = Io::read(0, 128);
        assert_eq!((cost.chunk_count(&io), cost.visit_time_ns(&io)), (128, 1_000 + 13_107_200 + 2_560_000));
        // 20 MB/s: 50 ns a byte
        assert_eq!(VisitCost { rate_bytes_per_s: 20_000_000, ..VisitCost::default() }.visit_time_ns(&io), 3_276_800);
        assert_eq!(VisitCost { fixed_ns: 7, ..VisitCost::default() }.visit_time_ns(&io), 7);
    }

    #[test]
    fn visits_that_cost_nothing_are_left_out() {
        let mut paths = Paths::default();
        let free = PathStep::Visit { station: 0, when: StepCondition::Always, cost: VisitCost::default() };
        assert_eq!(paths.step_at(END_PATH), &PathStep::End);
        assert_eq!(paths.add_path(&[free, PathStep::Drive(3)]), 1);
        assert_eq!((paths.step_at(1), paths.step_at(2)), (&PathStep::Drive(3), &PathStep::End));
        assert_eq!(paths.add_path(&[PathStep::Array(0)]), 3);
    }
}
