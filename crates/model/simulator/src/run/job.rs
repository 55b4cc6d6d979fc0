//! Jobs: requests in flight, their parts, and the parents that wait for them.

use super::Event;
use crate::Ns;
use crate::event_queue::EventQueue;
use crate::io::Io;

/// The jobs in flight and the events that move them: the part of a simulation's state that its components share.
#[derive(Default)]
pub(super) struct JobFlow {
    pub jobs: Jobs,
    pub events: EventQueue<Event>,
}

impl JobFlow {
    /// Schedules an event in which a job, whose current step is done, continues with the next one. For callers that are
    /// not ready for the consequences of the next step.
    pub fn schedule_next_step(&mut self, now: Ns, job: u32) {
        self.jobs[job].step += 1;
        self.events.schedule(now, Event::JobReady { job });
    }
}

/// The parent that waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// A user of a load; `notify` if the load needs to know when the request is issued.
    Load { load: u16, user: u32, notify: bool },
    /// A load whose user does not wait for the request.
    PostedLoad { load: u16, user: u32, notify: bool },
    /// A cache, with its own number for the I/O.
    CacheIo { cache: u16, number: u32 },
    /// An array: a member I/O of a flight.
    MemberIo { array: u16, flight: u32, member: u16 },
    /// A request that was split into parts.
    Part { job: u32 },
    /// An external client of one of the served targets, with the client's tag.
    External { tag: u32, target: u16 },
    /// An order that was sent to several targets and continues when all are done.
    FanOut { job: u32 },
    /// A rebuild or a scrub.
    Background { array: u16, round: u32 },
    /// Several writes of an array combined into one: the number of their group.
    Gathered { array: u16, group: u32 },
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPurpose {
    /// A read or a write, according to its I/O.
    Transfer,
    /// A write with forced unit access: it completes when it is on the media. It is a write followed by a flush of its
    /// target, so data that others wrote before reach the media with it.
    FuaWrite,
    /// A flush: everything acknowledged before must reach the media. Its I/O is ignored.
    Flush,
    /// A trim: the range of its I/O is no longer needed.
    Trim,
}

impl JobPurpose {
    /// True for reads and writes; flushes and trims are orders without data.
    #[inline]
    pub fn moves_data(self) -> bool {
        matches!(self, JobPurpose::Transfer | JobPurpose::FuaWrite)
    }
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The requested I/O.
    pub io: Io,
    /// Its current step, or the next one.
    pub step: u32,
    /// Parts that it still waits for, if it was split or is an order that was sent to several targets.
    pub parts: u32,
    /// Start of its response time.
    pub began_ns: Ns,
    /// Arrival at its current station, drive or channel.
    pub arrived_ns: Ns,
    /// Processor time that the program needs first, ns.
    pub compute_ns: Ns,
    /// The parent that waits for it.
    pub parent: Parent,
    /// Arrival at its array.
    pub arrived_at_array_ns: Ns,
    /// Its progress at its array.
    pub phase: ArrayPhase,
    /// Its purpose.
    pub purpose: JobPurpose,
}

/// Progress of a request at an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayPhase {
    /// It has just arrived.
    New,
    /// Its parity was computed before any write.
    ParityComputed,
    /// Its parity was computed from the data that this flight has read.
    UpdateComputed { flight: u32 },
    /// Lost data were computed from the data read, or the request failed.
    Finishing,
}

impl Job {
    /// A job at the beginning of a path.
    #[inline]
    pub fn new(io: Io, step: u32, parent: Parent) -> Job {
        Job {
            io,
            step,
            parts: 0,
            began_ns: 0,
            arrived_ns: 0,
            compute_ns: 0,
            parent,
            arrived_at_array_ns: 0,
            phase: ArrayPhase::New,
            purpose: JobPurpose::Transfer,
        }
    }

    /// Returns the I/O as it moves over buses and channels: orders move no data.
    #[inline]
    pub fn transferred_io(&self) -> Io {
        if self.purpose.moves_data() { self.io } else { Io { blocks: 0, ..self.io } }
    }
}

/// Marks a number without a job. No path has so many steps.
const NO_STEP: u32 = u32::MAX;

/// Jobs by number. Numbers are reused, so memory grows only to the largest number of concurrent jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    /// Adds a job and returns its number.
    #[inline]
    pub fn insert(&mut self, job: Job) -> u32 {
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

    /// Removes a job.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        debug_assert!(job.step != NO_STEP, "job {number} was removed already");
        job.step = NO_STEP;
        self.free.push(number);
    }

    /// Reports that one part of a job is complete. True if that was the last one.
    #[inline]
    pub fn complete_part(&mut self, number: u32) -> bool {
        let job = &mut self[number];
        debug_assert!(job.parts > 0, "job {number} waits for no part");
        job.parts -= 1;
        job.parts == 0
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.free.len()
    }
}

impl std::ops::Index<u32> for Jobs {
    type Output = Job;
    #[inline]
    fn index(&self, number: u32) -> &Job {
        debug_assert!(self.jobs[number as usize].step != NO_STEP, "job {number} is not in flight");
        &self.jobs[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Jobs {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Job {
        debug_assert!(self.jobs[number as usize].step != NO_STEP, "job {number} is not in flight");
        &mut self.jobs[number as usize]
    }
}
