//! Solves a system in microseconds, where the simulation takes seconds: mean service times of devices in closed form,
//! and mean value analysis over them. `docs/analytic.md` describes the methods and their accuracy.

mod array_members;
mod bucket;
mod build;
mod credits;
mod device;
mod fork_step;
mod io_costs;
mod mechanical;
mod mixed;
mod network;
mod open;
mod percentile;
mod places;
mod requests;
mod shared_parts;
mod steady;

pub use io_costs::{DEPTHS, Depths, IoCost, LoadCosts, cost_at_depth};
pub use mechanical::{DriveDemand, mechanical_costs};

use crate::array::ArrayError;
use crate::load::{ArrivalBatch, DurationDistribution, LoadSpec, OperationClass};
use crate::system::{System, Workload};
use mixed::LoadChain;

/// Parts of a system that the analysis does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsolvedPart {
    /// A cache whose hit share is unknown: a cache before another, read-ahead, space reserved for writes.
    Cache,
    /// Requests of several sizes or areas in one cache.
    CacheMix,
    /// A cache that is not full when counting begins.
    ColdCache,
    /// Posted writes that a cache sends to mechanical drives in the order of their positions.
    Posted,
    /// Posted writes that arrive faster than drives can take them, so that writers wait.
    PostedLimit,
    /// Operations of several requests.
    Sequence,
    /// Sequential requests.
    Places,
    /// So few positions that the drive's cache serves them, or one of its dies gets them all.
    FewPlaces,
    /// Drives that several targets use.
    Shared,
    /// Members that are not equal, or are not equally loaded.
    UnequalMembers,
    /// More failed members than the level survives.
    Lost,
    /// A rebuild on mechanical drives.
    Rebuild,
    /// A scrub.
    Scrub,
    /// Burst credits that run out, after which the load exceeds the limit.
    Burst,
    /// A load that changes over time.
    Phases,
    /// Several operations in flight per user, or batch arrivals.
    Batches,
    /// A gate that admits a limited number of requests.
    Gate,
    /// A maximum request size, which splits larger ones.
    Split,
    /// A channel that several drives share and hold for whole requests.
    Channel,
    /// Changes scheduled during the run.
    Event,
    /// Several loads whose fixed point was not found.
    Unsettled,
}

impl UnsolvedPart {
    /// Returns a description that an error message shows.
    pub fn name(self) -> &'static str {
        match self {
            UnsolvedPart::Cache => "a cache that is not simply one of the least recently used",
            UnsolvedPart::CacheMix => "a cache that several kinds of requests share",
            UnsolvedPart::ColdCache => "a cache that is not warm when counting begins",
            UnsolvedPart::Posted => "posted writes of a cache before drives with arms",
            UnsolvedPart::PostedLimit => "posted writes that come faster than drives take them",
            UnsolvedPart::Sequence => "operations of several requests",
            UnsolvedPart::Places => "sequential places",
            UnsolvedPart::FewPlaces => "places so few that a drive's own cache or a single die serves them",
            UnsolvedPart::Shared => "a drive that several targets use",
            UnsolvedPart::UnequalMembers => "members that are not equal",
            UnsolvedPart::Lost => "an array that has lost data",
            UnsolvedPart::Rebuild => "a rebuild on drives with arms",
            UnsolvedPart::Scrub => "a scrub",
            UnsolvedPart::Burst => "burst credits that end in overload",
            UnsolvedPart::Phases => "phases",
            UnsolvedPart::Batches => "several operations at a time",
            UnsolvedPart::Gate => "a limit of requests at a time",
            UnsolvedPart::Split => "a largest request",
            UnsolvedPart::Channel => "a channel that is kept by one of several drives for a whole request",
            UnsolvedPart::Unsettled => "a fixed point that was not found",
            UnsolvedPart::Event => "what happens in the course of a run",
        }
    }
}

/// Reasons why a system is not solved. The simulation may still cover it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsolvedReason {
    /// A part that does not exist, or nothing to do.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// A part that the analysis does not cover.
    #[error("`{of}`: {} cannot be solved analytically; simulate it", part.name())]
    Part {
        /// Name of its owner.
        of: String,
        /// The part.
        part: UnsolvedPart,
    },
    /// A kind of workload that the analysis does not cover.
    #[error("workload `{of}`: {load} cannot be solved analytically; simulate it")]
    Load {
        /// Name of the workload.
        of: String,
        /// Description of its load.
        load: &'static str,
    },
    /// An impossible array.
    #[error("array `{0}`: {1}")]
    Array(String, ArrayError),
    /// More requests arrive than can be served.
    #[error("workload `{0}` has no steady state: requests arrive faster than the system can serve them")]
    Overload(String),
}

/// Mean performance of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemSolution {
    /// The workloads, in their order.
    pub workloads: Vec<WorkloadSolution>,
    /// Requests per second of all workloads.
    pub throughput_per_s: f64,
    /// Mean response time of their requests, s.
    pub response_s: f64,
    /// Mean response time of reads, s; NaN if there are none.
    pub read_response_s: f64,
    /// Mean response time of writes, s; NaN if there are none.
    pub write_response_s: f64,
    /// Utilization of each component that is used at all, by name. For devices that serve several requests at a time
    /// the simulation reports another figure: the share of time with anything in service.
    pub utilisations: Vec<(String, f64)>,
}

/// Mean performance of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSolution {
    /// Its name.
    pub name: String,
    /// Requests per second.
    pub throughput_per_s: f64,
    /// Mean response time, s.
    pub response_s: f64,
    /// By kind of request: share, whether it writes, mean and variance of the response time.
    kinds: Vec<network::ClassResponse>,
}

impl WorkloadSolution {
    /// Returns the response time that this share of the requests does not exceed, s: an approximation from means and
    /// variances; `docs/analytic.md` states its error.
    pub fn percentile_s(&self, share: f64) -> f64 {
        let kinds: Vec<_> = self.kinds.iter().map(|(share, _, mean, variance)| (*share, *mean, *variance)).collect();
        percentile::mixture_percentile(&kinds, share)
    }
}

impl SystemSolution {
    /// Returns the component with the highest utilization.
    pub fn bottleneck(&self) -> Option<&(String, f64)> {
        self.utilisations.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Combines workloads and utilizations.
    fn from_workloads(workloads: Vec<WorkloadSolution>, utilisations: Vec<(String, f64)>) -> SystemSolution {
        let throughput_per_s: f64 = workloads.iter().map(|workload| workload.throughput_per_s).sum();
        let (mut sums, mut shares) = ([0.0; 2], [0.0; 2]);
        for workload in &workloads {
            for (share, write, mean, _) in &workload.kinds {
                sums[usize::from(*write)] += workload.throughput_per_s * share * mean;
                shares[usize::from(*write)] += workload.throughput_per_s * share;
            }
        }
        let mean = |index: usize| if shares[index] > 0.0 { sums[index] / shares[index] } else { f64::NAN };
        let response_sum: f64 = workloads.iter().map(|workload| workload.throughput_per_s * workload.response_s).sum();
        SystemSolution {
            throughput_per_s,
            response_s: response_sum / throughput_per_s,
            read_response_s: mean(0),
            write_response_s: mean(1),
            workloads,
            utilisations,
        }
    }
}

/// Solves a system for random requests.
///
/// If volumes have burst credits, the result is for the measured time, starting with full buckets like the simulation.
///
/// # Errors
/// An error names the part that cannot be solved.
pub fn solve(system: &System) -> Result<SystemSolution, UnsolvedReason> {
    check_solvable(system)?;
    credits::solve_over_time(system)
}

/// Refuses parts that the analysis does not cover.
fn check_solvable(system: &System) -> Result<(), UnsolvedReason> {
    let refuse = |of: &str, part| Err(UnsolvedReason::Part { of: of.to_owned(), part });
    if !system.events.is_empty() {
        return refuse(&system.name, UnsolvedPart::Event);
    }
    if system.host.transfer_blocks.is_some() {
        return refuse("host", UnsolvedPart::Split);
    }
    for controller in &system.controllers {
        let parts = [
            (controller.max_outstanding.is_some(), UnsolvedPart::Gate),
            (controller.transfer_blocks.is_some(), UnsolvedPart::Split),
        ];
        if let Some((_, part)) = parts.into_iter().find(|(is_present, _)| *is_present) {
            return refuse(&controller.name, part);
        }
    }
    for (index, channel) in system.channels.iter().enumerate() {
        let drives: u32 =
            system.drives.iter().filter(|group| group.channel == Some(index)).map(|group| group.count).sum();
        if !channel.disconnects && drives > 1 {
            return refuse(&channel.name, UnsolvedPart::Channel);
        }
    }
    Ok(())
}

/// A limit of operations in flight that is at least this high counts as none: no queue in a steady state comes near it.
const MIN_UNLIMITED_OUTSTANDING: u32 = 1000;

/// Returns a workload's demand.
fn load_chain(workload: &Workload) -> Result<LoadChain, UnsolvedReason> {
    let refuse = |part| Err(UnsolvedReason::Part { of: workload.name.clone(), part });
    let no_load = LoadChain {
        users: 0.0,
        think_s: 0.0,
        think_cv2: 0.0,
        arrivals_per_s: 0.0,
        follows: None,
        max_per_s: f64::INFINITY,
    };
    match &workload.load {
        LoadSpec::Closed(spec) if !spec.phases.is_empty() => refuse(UnsolvedPart::Phases),
        LoadSpec::Closed(spec) => {
            // each operation in flight has its own think time
            let users = f64::from(spec.users) * f64::from(spec.outstanding);
            let pause_s = mean_pause_s(&spec.classes);
            let think_s = spec.think.mean_s() + pause_s;
            let think_cv2 = match spec.think {
                _ if pause_s > 0.0 => 1.0,
                DurationDistribution::Constant { .. } => 0.0,
                DurationDistribution::Erlang { stages, .. } => 1.0 / f64::from(stages.max(1)),
                _ => 1.0,
            };
            Ok(LoadChain { users, think_s, think_cv2, ..no_load })
        }
        LoadSpec::Open(spec) if !spec.phases.is_empty() || spec.bursts.is_some() => refuse(UnsolvedPart::Phases),
        LoadSpec::Open(spec)
            if spec.batch != ArrivalBatch::One || !matches!(spec.gap, DurationDistribution::Exponential { .. }) =>
        {
            refuse(UnsolvedPart::Batches)
        }
        // beyond the limit, arrivals are lost
        LoadSpec::Open(spec) if spec.most_outstanding < MIN_UNLIMITED_OUTSTANDING => refuse(UnsolvedPart::Gate),
        LoadSpec::Open(spec) => Ok(LoadChain { arrivals_per_s: 1.0 / spec.gap.mean_s(), ..no_load }),
        _ => operation_classes(workload).map(|_| no_load),
    }
}

/// Mean pause before a request, s. It uses no part of the system, so it counts as think time.
fn mean_pause_s(classes: &[OperationClass]) -> f64 {
    let class_pause =
        |class: &OperationClass| class.transfers.iter().map(|transfer| transfer.pause.mean_s()).sum::<f64>();
    let weight_sum: f64 = classes.iter().map(|class| class.weight).sum();
    let sum: f64 = classes.iter().map(|class| class.weight * class_pause(class)).sum();
    if weight_sum > 0.0 { sum / weight_sum } else { 0.0 }
}

/// Returns the operation classes of a workload.
fn operation_classes(workload: &Workload) -> Result<&[OperationClass], UnsolvedReason> {
    let refuse = |load| Err(UnsolvedReason::Load { of: workload.name.clone(), load });
    match &workload.load {
        LoadSpec::Closed(spec) => Ok(&spec.classes),
        LoadSpec::Open(spec) => Ok(&spec.classes),
        LoadSpec::Netbench(_) => refuse("NetBench's mix"),
        LoadSpec::Scan(_) => refuse("a scan"),
        LoadSpec::Oltp(_) => refuse("transactions"),
        LoadSpec::Sort(_) => refuse("an external sort"),
        LoadSpec::Trace(_) => refuse("a trace"),
    }
}
