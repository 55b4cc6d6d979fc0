//! What is under way: requests, their parts, and who waits for them.

use crate::Ns;
use crate::io::Io;

/// Who waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// A user of a load; `tell` where the load wants to know when it is issued.
    Load { load: u16, who: u32, tell: bool },
    /// A load, whose user does not wait for it.
    Posted { load: u16, who: u32, tell: bool },
    /// A cache: its number for it.
    Fetch { cache: u16, number: u32 },
    /// An array: the request of its members.
    Flight { array: u16, number: u32, member: u16 },
    /// A request that was split.
    Part { job: u32 },
    /// Whoever asked one of the served targets from outside of the simulation: the caller's number.
    Outside { tag: u32, target: u16 },
    /// An order that was passed on to several, and goes on when all are done.
    Every { job: u32 },
    /// A rebuild or a scrub.
    Background { array: u16, round: u32 },
    /// Several writes of an array, which are one: their number as a group.
    Gathered { array: u16, group: u32 },
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPurpose {
    /// A read or a write, as its I/O says.
    Transfer,
    /// A write that is answered when it is on the media. It is a write and, once that is done, a flush of
    /// its target: what others wrote before goes to the media with it.
    Through,
    /// All that was answered before is to be on the media; its I/O is not looked at.
    Flush,
    /// What lies in the range of its I/O is no longer needed.
    Trim,
}

impl JobPurpose {
    /// Whether data move: reads and writes. The others are orders.
    #[inline]
    pub fn moves_data(self) -> bool {
        matches!(self, JobPurpose::Transfer | JobPurpose::Through)
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulationJob {
    /// What is asked for.
    pub io: Io,
    /// Its next step, or the one where it is.
    pub step: u32,
    /// Parts that it still waits for, where it was split; its number among the
    /// flights while its array computes between them.
    pub parts: u32,
    /// When its response began to count.
    pub began: Ns,
    /// When it came to where it is.
    pub came: Ns,
    /// Processor time that the program needs first, ns.
    pub compute: Ns,
    /// Who waits for it.
    pub parent: Parent,
    /// When it came to its array.
    pub came_to_array: Ns,
    /// How far it is at its array.
    pub phase: ArrayPhase,
    /// What it is for.
    pub what: JobPurpose,
}

/// How far a request is at an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayPhase {
    /// It has just come.
    New,
    /// Its parity was computed before anything is written.
    Before,
    /// Its parity was computed from what was read.
    Between,
    /// What was lost was computed from what was read.
    Last,
}

impl SimulationJob {
    /// A job at the beginning of a path.
    #[inline]
    pub fn new(io: Io, step: u32, parent: Parent) -> SimulationJob {
        SimulationJob {
            io,
            step,
            parts: 0,
            began: 0,
            came: 0,
            compute: 0,
            parent,
            came_to_array: 0,
            phase: ArrayPhase::New,
            what: JobPurpose::Transfer,
        }
    }

    /// What moves over buses and channels for it: of an order no data.
    #[inline]
    pub fn moved(&self) -> Io {
        if self.what.moves_data() { self.io } else { Io { blocks: 0, ..self.io } }
    }
}

/// Jobs by number. Numbers are given again; nothing is allocated once as many
/// have been there at once as ever will be.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    jobs: Vec<SimulationJob>,
    free: Vec<u32>,
}

impl Jobs {
    /// Adds a job; its number.
    #[inline]
    pub fn add(&mut self, job: SimulationJob) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.jobs[number as usize] = job;
                number
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        }
    }

    /// Forgets a job.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Jobs that are there.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.free.len()
    }
}

impl std::ops::Index<u32> for Jobs {
    type Output = SimulationJob;
    #[inline]
    fn index(&self, number: u32) -> &SimulationJob {
        &self.jobs[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Jobs {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut SimulationJob {
        &mut self.jobs[number as usize]
    }
}
