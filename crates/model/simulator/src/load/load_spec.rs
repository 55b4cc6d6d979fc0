//! Descriptions of loads, as plain data.

use crate::Ns;
use crate::load::{DurationDistribution, NetbenchSpec, OltpSpec, ScanSpec, SortSpec, TraceSpec};

/// Description of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSpec {
    /// Users who wait for their operations.
    Closed(ClosedSpec),
    /// Arrivals that do not wait for earlier operations.
    Open(OpenSpec),
    /// NetBench's disk mix.
    Netbench(NetbenchSpec),
    /// Decision support on SQL Server.
    Scan(ScanSpec),
    /// Transactions on SQL Server.
    Oltp(OltpSpec),
    /// An external sort.
    Sort(SortSpec),
    /// A recorded stream of requests.
    Trace(TraceSpec),
}

/// Users who issue an operation, wait for it, think and repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedSpec {
    /// Number of users.
    pub users: u32,
    /// Operations that each user has in flight; each operation is followed by its own think time.
    pub outstanding: u32,
    /// Time between an operation's end and the next operation. The first operation also comes after a think
    /// time; a constant one is scaled by a uniform random share, so that users do not run in lockstep.
    pub think: DurationDistribution,
    /// Classes of operations; at least one.
    pub classes: Vec<OperationClass>,
    /// Share of the users that are active over time; empty means all of them, forever.
    pub phases: Vec<LoadPhase>,
    /// Number of operations after which the load ends.
    pub most_operations: Option<u64>,
}

impl Default for ClosedSpec {
    /// One user without think time; random reads of 4 KiB on the first target.
    fn default() -> ClosedSpec {
        ClosedSpec {
            users: 1,
            outstanding: 1,
            think: DurationDistribution::Constant { s: 0.0 },
            classes: vec![OperationClass::default()],
            phases: Vec::new(),
            most_operations: None,
        }
    }
}

/// Operations that arrive on their own, whether or not earlier ones are done.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSpec {
    /// Time between arrivals: exponential is a Poisson stream, constant a regular one.
    pub gap: DurationDistribution,
    /// Number of operations per arrival.
    pub batch: ArrivalBatch,
    /// If set, arrivals come in bursts: the time between bursts does not count for `gap`. Phases that change the rate
    /// stretch bursts and pauses alike.
    pub bursts: Option<Bursts>,
    /// Classes of operations; at least one.
    pub classes: Vec<OperationClass>,
    /// Factor of the arrival rate over time; empty means 1, forever.
    pub phases: Vec<LoadPhase>,
    /// Number of arrivals after which the load ends.
    pub most_operations: Option<u64>,
    /// Largest number of operations in flight; further arrivals are lost, and counted as lost.
    pub most_outstanding: u32,
}

impl Default for OpenSpec {
    /// 100 random reads of 4 KiB a second, Poisson, on the first target.
    fn default() -> OpenSpec {
        OpenSpec {
            gap: DurationDistribution::Exponential { mean_s: 0.01 },
            batch: ArrivalBatch::One,
            bursts: None,
            classes: vec![OperationClass::default()],
            phases: Vec::new(),
            most_operations: None,
            most_outstanding: 1_000_000,
        }
    }
}

/// Number of operations per arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalBatch {
    /// One operation.
    One,
    /// A fixed number.
    Fixed(u32),
    /// Drawn from a geometric distribution of this mean, at least 1.
    Geometric(f64),
}

/// Alternating times with and without arrivals; with arrivals first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Duration of a burst.
    pub on: DurationDistribution,
    /// Duration of a pause.
    pub off: DurationDistribution,
}

/// Phase of a load, in which its level changes linearly.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPhase {
    /// Length, ns; [`Ns::MAX`] means forever. The load ends with its last phase.
    pub lasts: Ns,
    /// Level at its beginning: share of the users, or factor of the rate.
    pub from: f64,
    /// Level at its end.
    pub to: f64,
    /// Weights of the classes during the phase, in their order; empty means the classes' own weights.
    pub weights: Vec<f64>,
}

/// Class of operations. An operation performs its transfers one after another, `rounds` times.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationClass {
    /// Name in results.
    pub name: String,
    /// Relative frequency among the classes.
    pub weight: f64,
    /// Transfers of an operation; at least one.
    pub transfers: Vec<OperationTransfer>,
    /// Number of repetitions of the transfers, at least 1.
    pub rounds: u32,
}

impl Default for OperationClass {
    /// Random reads of 4 KiB on the first target.
    fn default() -> OperationClass {
        OperationClass { name: "read".into(), weight: 1.0, transfers: vec![OperationTransfer::default()], rounds: 1 }
    }
}

impl OperationClass {
    /// Builds a class with a single transfer.
    pub fn with_transfer(name: &str, weight: f64, transfer: OperationTransfer) -> OperationClass {
        OperationClass { name: name.into(), weight, transfers: vec![transfer], rounds: 1 }
    }
}

/// Requests to one target: a single request, or as many pieces as `total_bytes` takes, in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationTransfer {
    /// Index of the target.
    pub target: u16,
    /// Part of the target in use.
    pub part: TargetPart,
    /// Distribution of addresses in the part.
    pub access: AccessPattern,
    /// Alignment of requests from the start of the part, bytes; 0 means the smallest size.
    pub align_bytes: u64,
    /// Share of transfers that read, 0 to 1; all pieces of a transfer have the same direction.
    pub read_share: f64,
    /// Size of a request.
    pub bytes: RequestSizes,
    /// Size of a write, if it differs.
    pub write_bytes: Option<RequestSizes>,
    /// If set, pieces of that size follow each other until this many bytes are moved.
    pub total_bytes: Option<u64>,
    /// Largest number of pieces in flight.
    pub parallel: u32,
    /// Delay before each request that uses no simulated component, such as the time of a client or of its network.
    pub pause: DurationDistribution,
    /// Processor time of the load before each request.
    pub compute: DurationDistribution,
    /// True if requests go through the file cache.
    pub cached: bool,
    /// True if the operation continues when its requests are issued, without waiting for them. If a load has more than
    /// 65,536 such requests in flight, it waits, as if buffers were full.
    pub posted: bool,
}

impl Default for OperationTransfer {
    /// One random read of 4 KiB on the first target, past the file cache.
    fn default() -> OperationTransfer {
        OperationTransfer {
            target: 0,
            part: TargetPart::All,
            access: AccessPattern::Uniform,
            align_bytes: 0,
            read_share: 1.0,
            bytes: RequestSizes::One(4096),
            write_bytes: None,
            total_bytes: None,
            parallel: 1,
            pause: DurationDistribution::Constant { s: 0.0 },
            compute: DurationDistribution::Constant { s: 0.0 },
            cached: false,
            posted: false,
        }
    }
}

/// Part of one of the targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Index of the target.
    pub target: u16,
    /// Part of the target.
    pub part: TargetPart,
}

/// Part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetPart {
    /// All of it.
    All,
    /// A range in bytes.
    Bytes {
        /// Offset of its start.
        from: u64,
        /// Length.
        bytes: u64,
    },
    /// A range in shares of the target.
    Share {
        /// Start, 0 to 1.
        from: f64,
        /// End, 0 to 1.
        to: f64,
    },
}

/// Distribution of the start addresses of transfers in a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessPattern {
    /// Each transfer begins where the one before ended, wrapping around at the end. Streams have equal slices of the
    /// part; users are assigned to them in rotation.
    Sequential {
        /// Number of streams; 0 means one for each user.
        streams: u32,
    },
    /// Uniform over the part.
    Uniform,
    /// Normal around a point (NT Resource Kit: "mean" and "sd" in records), in shares of the part; values outside the
    /// part are drawn again.
    Normal {
        /// Mean, 0 to 1.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Zipf distribution with this exponent; the popular positions are scattered over the part.
    Zipf {
        /// Exponent, at least 0.
        theta: f64,
    },
}

/// Distribution of request sizes, bytes, in whole blocks of 512.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestSizes {
    /// A fixed size.
    One(u64),
    /// Sizes, each with its weight.
    Weighted(Vec<(u64, f64)>),
    /// Uniform over the numbers of blocks between two limits.
    Uniform {
        /// Smallest size.
        from: u64,
        /// Largest size.
        to: u64,
    },
}
