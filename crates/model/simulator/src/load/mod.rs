//! Loads: who asks for what, when. Each is a seeded state machine without a
//! clock: the event loop tells it what became of its requests, and it answers
//! with what is asked for next.
//!
//! `spec.rs` says what can be asked for, `spell.rs` and `place.rs` draw times
//! and places, `course.rs` is how hard a load presses as time goes by,
//! `operations.rs` turns one operation into its requests. The loads themselves
//! are `closed.rs` and `open.rs`.

mod closed;
mod course;
mod netbench;
mod oltp;
mod open;
mod operations;
mod place;
mod scan;
mod slots;
mod sort;
mod spec;
mod spell;
mod tally;
#[cfg(test)]
mod tests;
mod trace;

use diskwright_base::Rng;
use thiserror::Error;

use crate::Ns;
use crate::io::Io;

pub use closed::ClosedLoad;
pub use netbench::{Netbench, NetbenchSpec};
pub use oltp::{Oltp, OltpSpec};
pub use open::OpenLoad;
pub use scan::{Scan, ScanSpec};
pub use sort::{SortLoad, SortSpec};
pub use spec::{
    AccessPattern, ArrivalBatch, Bursts, ClosedSpec, LoadPhase, LoadSpec, OpenSpec, OperationClass, OperationTransfer,
    Region, RequestSizes, TargetPart,
};
pub use spell::DurationDistribution;
pub use tally::{LoadSpan, OperationTotals, Operations};
pub use trace::{Timing, TraceReplay, TraceRequest, TraceSpec};

/// Why a load is asked to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The run begins; once for each of [`Load::users`].
    Start,
    /// A request with [`LoadRequest::tell_issued`] has had its processor time and is on its way.
    Issued,
    /// A request with [`LoadRequest::wait`] is done; or, of one without blocks, its processor time is over.
    Done,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// When it begins; never before now.
    pub at: Ns,
    /// On whose behalf; what [`Load::next`] is called with when it goes on.
    pub who: u32,
    /// Which of the load's targets, where there is a request.
    pub target: u16,
    /// The request; with 0 blocks there is none, and `Done` comes after `compute`.
    pub io: Io,
    /// Processor time before the request goes out, ns; 0 uses no processor.
    pub compute: Ns,
    /// Through the file cache.
    pub cached: bool,
    /// `Cause::Issued` is wanted when the request goes out, after `compute`.
    pub tell_issued: bool,
    /// `Cause::Done` is wanted. Where false nobody waits for it: it is done and counted all the same.
    pub wait: bool,
}

impl LoadRequest {
    /// Nothing but time: `Done` comes at `at`.
    pub fn alarm(time: Ns, who: u32) -> LoadRequest {
        LoadRequest::processor(time, who, 0)
    }

    /// Processor time alone.
    pub fn processor(at: Ns, who: u32, compute: Ns) -> LoadRequest {
        LoadRequest { at, who, target: 0, io: Io::read(0, 0), compute, cached: false, tell_issued: false, wait: true }
    }

    /// A request that is waited for.
    pub fn request(at: Ns, who: u32, target: u16, io: Io) -> LoadRequest {
        LoadRequest { at, who, target, io, compute: 0, cached: false, tell_issued: false, wait: true }
    }
}

/// A load that cannot be. The reader of a description adds file and line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{item}: {because}")]
pub struct LoadError {
    /// The field, as the specification names it, such as `read_share`.
    pub item: String,
    /// What is wrong with it, and what would be right.
    pub because: String,
}

impl LoadError {
    pub(crate) fn new(item: impl Into<String>, because: impl Into<String>) -> LoadError {
        LoadError { item: item.into(), because: because.into() }
    }
}

/// A load in progress.
#[derive(Clone, Debug)]
pub enum Load {
    /// Users who wait for the answer, think and ask again.
    Closed(ClosedLoad),
    /// Operations that come whatever becomes of the ones before.
    Open(OpenLoad),
    /// NetBench's disk mix.
    Netbench(Box<Netbench>),
    /// Decision support.
    Scan(Box<Scan>),
    /// Transactions.
    Oltp(Box<Oltp>),
    /// An external sort.
    Sort(Box<SortLoad>),
    /// A recorded stream.
    Trace(TraceReplay),
}

/// The same of whichever load it is.
macro_rules! each {
    ($of:expr, $load:ident => $what:expr) => {
        match $of {
            Load::Closed($load) => $what,
            Load::Open($load) => $what,
            Load::Netbench($load) => $what,
            Load::Scan($load) => $what,
            Load::Oltp($load) => $what,
            Load::Sort($load) => $what,
            Load::Trace($load) => $what,
        }
    };
}

impl Load {
    /// A load on targets of these sizes, blocks of 512 bytes.
    ///
    /// # Errors
    /// When the specification asks for what cannot be, such as a place outside of its target.
    pub fn new(spec: &LoadSpec, target_blocks: &[u64], dice: Rng) -> Result<Load, LoadError> {
        Ok(match spec {
            LoadSpec::Closed(spec) => Load::Closed(ClosedLoad::new(spec, target_blocks, dice)?),
            LoadSpec::Open(spec) => Load::Open(OpenLoad::new(spec, target_blocks, dice)?),
            LoadSpec::Netbench(spec) => Load::Netbench(Box::new(Netbench::new(spec, target_blocks, dice)?)),
            LoadSpec::Scan(spec) => Load::Scan(Box::new(Scan::new(spec, target_blocks, dice)?)),
            LoadSpec::Oltp(spec) => Load::Oltp(Box::new(Oltp::new(spec, target_blocks, dice)?)),
            LoadSpec::Sort(spec) => Load::Sort(Box::new(SortLoad::new(spec, target_blocks)?)),
            LoadSpec::Trace(spec) => Load::Trace(TraceReplay::new(spec, target_blocks)?),
        })
    }

    /// `who` goes on because of `cause`; pushes what it does next. To be called
    /// with [`Cause::Start`] for each `who` in `0..users()` at the beginning; a
    /// load may ask on behalf of further ones later.
    #[inline]
    pub fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        each!(self, load => load.next(now, who, cause, asks));
    }

    /// How many are to be started.
    pub fn users(&self) -> u32 {
        each!(self, load => load.users())
    }

    /// True when nobody asks for anything more (what was posted may be under way).
    pub fn finished(&self) -> bool {
        each!(self, load => load.finished())
    }

    /// What was done so far, one entry a class of operation.
    pub fn operations(&self) -> &[Operations] {
        each!(self, load => load.operations())
    }

    /// Forgets what was counted, at the end of a ramp; what is under way goes on.
    /// A sort is one operation: it has no ramp.
    pub fn forget(&mut self) {
        each!(self, load => load.operations_mut()).iter_mut().for_each(Operations::forget);
    }
}
