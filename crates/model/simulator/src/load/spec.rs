//! What can be asked for, as plain data.

use crate::Ns;
use crate::load::{DurationDistribution, NetbenchSpec, OltpSpec, ScanSpec, SortSpec, TraceSpec};

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSpec {
    /// Users who wait.
    Closed(ClosedSpec),
    /// Arrivals that do not.
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

/// Users who ask, wait for the answer, think and ask again.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedSpec {
    /// How many.
    pub users: u32,
    /// Operations that each has under way at a time; each is followed by a think time of its own.
    pub outstanding: u32,
    /// Between an answer and the next operation. The first operation comes after
    /// one too, of a constant one after a part drawn evenly, so that users do
    /// not march in step.
    pub think: DurationDistribution,
    /// What they do; at least one class.
    pub classes: Vec<OperationClass>,
    /// How many of the users are there as time goes by; empty: all, for ever.
    pub phases: Vec<LoadPhase>,
    /// Ends when so many operations were begun.
    pub most_operations: Option<u64>,
}

impl Default for ClosedSpec {
    /// One user without think time, random reads of 4 KiB on the first target.
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

/// Operations that come on their own.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSpec {
    /// Between arrivals: exponential is a Poisson stream, constant a clockwork.
    pub gap: DurationDistribution,
    /// Operations that come at one moment.
    pub batch: ArrivalBatch,
    /// Where set, arrivals come in bursts: the time between bursts does not count for `gap`.
    /// Where phases change the rate they stretch bursts and pauses alike.
    pub bursts: Option<Bursts>,
    /// What comes; at least one class.
    pub classes: Vec<OperationClass>,
    /// Factor of the rate of arrivals as time goes by; empty: 1, for ever.
    pub phases: Vec<LoadPhase>,
    /// Ends when so many operations came.
    pub most_operations: Option<u64>,
    /// Most operations under way; what comes beyond is lost, and counted as lost.
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

/// How many come at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalBatch {
    /// One.
    One,
    /// So many.
    Fixed(u32),
    /// Drawn from a geometric distribution of this mean, at least 1.
    Geometric(f64),
}

/// Times with arrivals and without, in turns; with arrivals first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// With.
    pub on: DurationDistribution,
    /// Without.
    pub off: DurationDistribution,
}

/// A stretch of time in which a load grows or falls in a straight line.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPhase {
    /// How long, ns. The load ends with its last phase; [`Ns::MAX`] has no end.
    pub lasts: Ns,
    /// At its beginning: share of the users, or factor of the rate.
    pub from: f64,
    /// At its end.
    pub to: f64,
    /// Weights of the classes meanwhile, in their order; empty: their own.
    pub weights: Vec<f64>,
}

/// A kind of operation: transfers, one after another, as often as `rounds` says.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationClass {
    /// What it is called in results.
    pub name: String,
    /// How often it is chosen, against the weights of the others.
    pub weight: f64,
    /// What it consists of; at least one.
    pub transfers: Vec<OperationTransfer>,
    /// How often the transfers are gone through, at least 1.
    pub rounds: u32,
}

impl Default for OperationClass {
    /// Random reads of 4 KiB on the first target.
    fn default() -> OperationClass {
        OperationClass { name: "read".into(), weight: 1.0, transfers: vec![OperationTransfer::default()], rounds: 1 }
    }
}

impl OperationClass {
    /// A class of one transfer.
    pub fn of(name: &str, weight: f64, transfer: OperationTransfer) -> OperationClass {
        OperationClass { name: name.into(), weight, transfers: vec![transfer], rounds: 1 }
    }
}

/// Requests to one target: one, or as many pieces as `total_bytes` takes, side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationTransfer {
    /// Which target.
    pub target: u16,
    /// The part of it in use.
    pub part: TargetPart,
    /// Where in the part.
    pub access: AccessPattern,
    /// Places are multiples of this from the start of the part, bytes; 0: of the smallest size.
    pub align_bytes: u64,
    /// Share of transfers that read, 0 to 1; pieces of one transfer are all alike.
    pub read_share: f64,
    /// Size of a request.
    pub bytes: RequestSizes,
    /// Size of a write, where it is another.
    pub write_bytes: Option<RequestSizes>,
    /// Where set, pieces of that size follow each other until so many bytes are moved.
    pub total_bytes: Option<u64>,
    /// Most pieces under way at a time.
    pub parallel: u32,
    /// What passes before each request without using anything that is simulated:
    /// a client's own time, its network.
    pub pause: DurationDistribution,
    /// Processor time of the load for each request, before it.
    pub compute: DurationDistribution,
    /// Through the file cache.
    pub cached: bool,
    /// Nobody waits for the requests: the operation goes on when they are issued. Beyond 65,536
    /// of a load under way they are waited for, as when buffers are full.
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

/// A part of one of the targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Which target.
    pub target: u16,
    /// The part of it.
    pub part: TargetPart,
}

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetPart {
    /// All of it.
    All,
    /// A stretch, bytes.
    Bytes {
        /// Where it begins.
        from: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A stretch, shares of the target.
    Share {
        /// Where it begins, 0 to 1.
        from: f64,
        /// Where it ends, 0 to 1.
        to: f64,
    },
}

/// Where in its part a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessPattern {
    /// Each behind the one before; at the end again from the start. Streams have
    /// equal slices of the part, users take them in turns; 0: one for each user.
    Sequential {
        /// How many.
        streams: u32,
    },
    /// Anywhere alike.
    Uniform,
    /// Around a point (NT Resource Kit: "mean" and "sd" in records); shares of the
    /// part; what falls outside is drawn again.
    Normal {
        /// The point, 0 to 1.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Few places often, by Zipf's law with this exponent, scattered over the part.
    Zipf {
        /// Exponent, at least 0.
        theta: f64,
    },
}

/// Sizes of requests, bytes, whole blocks of 512.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestSizes {
    /// Always this one.
    One(u64),
    /// These, each with its weight.
    Weighted(Vec<(u64, f64)>),
    /// Any number of blocks from one to the other, alike.
    Uniform {
        /// Least.
        from: u64,
        /// Most.
        to: u64,
    },
}
