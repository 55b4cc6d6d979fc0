//! Loads: the requests that users and programs issue over time. Each load is a seeded state machine without a
//! clock: the event loop reports how its requests progress, and the load answers with the requests that follow.
//!
//! `load_spec.rs` describes loads as data, `duration_distribution.rs` and `placement.rs` draw times and block
//! addresses, `timeline.rs` varies the level of a load over time, `operations.rs` turns one operation into its
//! requests. The loads themselves are `closed.rs` and `open.rs`, and those of documented programs: `netbench.rs`,
//! `oltp.rs`, `scan.rs`, `sort.rs`, `trace.rs`.

mod closed;
mod duration_distribution;
mod load_spec;
mod netbench;
mod oltp;
mod open;
mod operation_totals;
mod operations;
mod placement;
mod scan;
mod slot_pool;
mod sort;
#[cfg(test)]
mod tests;
mod timeline;
mod trace;

use diskwright_base::Rng;
use thiserror::Error;

use crate::Ns;
use crate::io::Io;

pub use closed::ClosedLoad;
pub use duration_distribution::DurationDistribution;
pub use load_spec::{
    AccessPattern, ArrivalBatch, Bursts, ClosedSpec, LoadPhase, LoadSpec, OpenSpec, OperationClass, OperationTransfer,
    Region, RequestSizes, TargetPart,
};
pub use netbench::{Netbench, NetbenchSpec};
pub use oltp::{Oltp, OltpSpec};
pub use open::OpenLoad;
pub use operation_totals::{LoadSpan, OperationTotals, Operations};
pub use scan::{Scan, ScanSpec};
pub use sort::{SortLoad, SortSpec};
pub use trace::{Timing, TraceReplay, TraceRequest, TraceSpec};

/// Event after which a load continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The run begins; reported once for each of [`Load::user_count`].
    Start,
    /// A request with [`LoadRequest::report_issued`] has used its processor time and has been issued.
    Issued,
    /// A request with [`LoadRequest::report_done`] is complete; for one without blocks, its processor time is over.
    Done,
}

/// One action of a load: a request to a target with processor time before it, processor time only, or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// Time at which it begins, ns; never in the past.
    pub start_ns: Ns,
    /// Agent (user, worker or timer of the load) of this action; passed back to [`Load::next`].
    pub agent: u32,
    /// Index of the load's target, if there is a request.
    pub target: u16,
    /// Blocks to read or write; with 0 blocks there is no request, and `Done` comes after the processor time.
    pub io: Io,
    /// Processor time before the request is issued, ns; 0 uses no processor.
    pub compute_ns: Ns,
    /// True for a request through the file cache.
    pub cached: bool,
    /// True if [`Load::next`] is to be called with `Cause::Issued` when the request is issued, after its processor
    /// time.
    pub report_issued: bool,
    /// True if [`Load::next`] is to be called with `Cause::Done`. If false, nothing waits for the request, but it is
    /// served and counted.
    pub report_done: bool,
}

impl LoadRequest {
    /// Makes a timer: `Done` comes at `time`.
    pub fn alarm_at(time: Ns, agent: u32) -> LoadRequest {
        LoadRequest::processor_time(time, agent, 0)
    }

    /// Makes a use of processor time without a request.
    pub fn processor_time(start_ns: Ns, agent: u32, compute: Ns) -> LoadRequest {
        LoadRequest {
            start_ns,
            agent,
            target: 0,
            io: Io::read(0, 0),
            compute_ns: compute,
            cached: false,
            report_issued: false,
            report_done: true,
        }
    }

    /// Makes a request whose completion the load waits for.
    pub fn awaited_io(start_ns: Ns, agent: u32, target: u16, io: Io) -> LoadRequest {
        LoadRequest {
            start_ns,
            agent,
            target,
            io,
            compute_ns: 0,
            cached: false,
            report_issued: false,
            report_done: true,
        }
    }
}

/// Impossible specification of a load. The reader of a description adds file and line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{item}: {reason}")]
pub struct LoadError {
    /// Name of the field in the specification, such as `read_share`.
    pub item: String,
    /// What is wrong with the field, and what is expected.
    pub reason: String,
}

impl LoadError {
    pub(crate) fn new(item: impl Into<String>, reason: impl Into<String>) -> LoadError {
        LoadError { item: item.into(), reason: reason.into() }
    }
}

/// A load in progress.
#[derive(Clone, Debug)]
pub enum Load {
    /// Users who issue an operation, wait for it, think and repeat.
    Closed(ClosedLoad),
    /// Operations that arrive whether or not earlier ones are done.
    Open(OpenLoad),
    /// NetBench's disk mix.
    Netbench(Box<Netbench>),
    /// Decision support.
    Scan(Box<Scan>),
    /// Transactions.
    Oltp(Box<Oltp>),
    /// An external sort.
    Sort(Box<SortLoad>),
    /// A recorded stream of requests.
    Trace(TraceReplay),
}

/// Evaluates the same expression for every variant of [`Load`].
macro_rules! each {
    ($value:expr, $load:ident => $body:expr) => {
        match $value {
            Load::Closed($load) => $body,
            Load::Open($load) => $body,
            Load::Netbench($load) => $body,
            Load::Scan($load) => $body,
            Load::Oltp($load) => $body,
            Load::Sort($load) => $body,
            Load::Trace($load) => $body,
        }
    };
}

impl Load {
    /// Builds a load on targets of these sizes, in blocks of 512 bytes.
    ///
    /// # Errors
    /// If the specification is impossible, such as an area outside of its target.
    pub fn new(spec: &LoadSpec, target_blocks: &[u64], rng: Rng) -> Result<Load, LoadError> {
        Ok(match spec {
            LoadSpec::Closed(spec) => Load::Closed(ClosedLoad::new(spec, target_blocks, rng)?),
            LoadSpec::Open(spec) => Load::Open(OpenLoad::new(spec, target_blocks, rng)?),
            LoadSpec::Netbench(spec) => Load::Netbench(Box::new(Netbench::new(spec, target_blocks, rng)?)),
            LoadSpec::Scan(spec) => Load::Scan(Box::new(Scan::new(spec, target_blocks, rng)?)),
            LoadSpec::Oltp(spec) => Load::Oltp(Box::new(Oltp::new(spec, target_blocks, rng)?)),
            LoadSpec::Sort(spec) => Load::Sort(Box::new(SortLoad::new(spec, target_blocks)?)),
            LoadSpec::Trace(spec) => Load::Trace(TraceReplay::new(spec, target_blocks)?),
        })
    }

    /// Continues `agent` because of `cause`, and pushes its next requests. Call it with [`Cause::Start`] for each agent
    /// in `0..user_count()` at the beginning; a load may issue requests for further agents later.
    #[inline]
    pub fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        each!(self, load => load.next(now, agent, cause, requests));
    }

    /// Number of agents to start.
    pub fn user_count(&self) -> u32 {
        each!(self, load => load.user_count())
    }

    /// Returns true when the load issues no more requests (posted ones may still be in flight).
    pub fn is_finished(&self) -> bool {
        each!(self, load => load.is_finished())
    }

    /// Operations so far, one entry per class of operation.
    pub fn operations(&self) -> &[Operations] {
        each!(self, load => load.operations())
    }

    /// Resets the counters at the end of a ramp; operations in flight continue. A sort is one operation, so it has no
    /// ramp.
    pub fn reset_counters(&mut self) {
        each!(self, load => load.operations_mut()).iter_mut().for_each(Operations::reset_counters);
    }
}
