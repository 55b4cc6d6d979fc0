//! A system solved in microseconds, where the simulation needs seconds: mean
//! times of devices in closed form, and mean value analysis over them. What is
//! reckoned how, and how near it comes, is told in `docs/analytic.md`.

mod bucket;
mod build;
mod credits;
mod device;
mod mechanical;
mod mixed;
mod network;
mod open;
mod percentile;
mod places;
mod requests;
mod served;
mod sets;
mod side_by_side;
mod steady;
mod steps;

pub use mechanical::{DriveDemand, mechanical};
pub use served::{DEPTHS, Depths, IoCost, LoadCosts, at_depth};

use crate::array::ArrayError;
use crate::load::{ArrivalBatch, DurationDistribution, LoadSpec, OperationClass};
use crate::system::{System, Workload};
use mixed::LoadChain;

/// What of a system the analysis has no answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsolvedPart {
    /// A cache whose hits are not known: two in a row, runs that are fetched, shares kept for writes.
    Cache,
    /// Requests of several sizes or areas in one cache.
    CacheMix,
    /// A cache that is not full when counting begins.
    ColdCache,
    /// Posted writes that a cache sends to arms in the order of their places.
    Posted,
    /// Posted writes that come faster than they can go on, so that writers wait.
    PostedLimit,
    /// Operations of several requests.
    Sequence,
    /// Requests one behind the other.
    Places,
    /// Places so few that the drive itself finds them again, or one of its dies gets them all.
    FewPlaces,
    /// Drives that several targets use.
    Shared,
    /// Members that are not equal, or do not get the same.
    UnequalMembers,
    /// More members failed than the level bears.
    Lost,
    /// A rebuild on drives with arms.
    Rebuild,
    /// A scrub.
    Scrub,
    /// Credits that are used up, after which more comes than is allowed.
    Burst,
    /// A load that changes with time.
    Phases,
    /// Several operations under way for a user, or several that come at one moment.
    Batches,
    /// A gate that lets so many requests in at a time.
    Gate,
    /// A largest request, which splits others.
    Split,
    /// A channel that drives keep for the whole of a request, and share.
    Channel,
    /// What happens in the course of a run.
    Event,
    /// The fixed point of several loads was not found.
    Unsettled,
}

impl UnsolvedPart {
    /// What it is, for people.
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

/// Why a system is not solved. The simulation may well do it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsolvedReason {
    /// A position that is none, or nothing to do.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// Something that it has no answer to.
    #[error("`{of}`: {} cannot be solved analytically; simulate it", part.name())]
    Part {
        /// Whose.
        of: String,
        /// What.
        part: UnsolvedPart,
    },
    /// A kind of workload that it has no answer to.
    #[error("workload `{of}`: {load} cannot be solved analytically; simulate it")]
    Load {
        /// Which workload.
        of: String,
        /// What it does.
        load: &'static str,
    },
    /// An array that cannot be.
    #[error("array `{0}`: {1}")]
    Array(String, ArrayError),
    /// More comes than can be served.
    #[error("workload `{0}` has no steady state: requests arrive faster than the system can serve them")]
    Overload(String),
}

/// What a system does on average.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemSolution {
    /// The workloads, in their order.
    pub workloads: Vec<WorkloadSolution>,
    /// Requests a second of all workloads.
    pub throughput_per_s: f64,
    /// Mean response of their requests, s.
    pub response_s: f64,
    /// That of reads; NaN where there are none.
    pub read_response_s: f64,
    /// That of writes; NaN where there are none.
    pub write_response_s: f64,
    /// Share of its capacity that each component uses, by name, where it is used at all. Of
    /// devices that serve several requests at a time the simulation reports another share: that
    /// of the time with anything at work.
    pub utilisations: Vec<(String, f64)>,
}

/// What a workload gets.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSolution {
    /// What it is called.
    pub name: String,
    /// Requests a second.
    pub throughput_per_s: f64,
    /// Mean response, s.
    pub response_s: f64,
    /// Of its requests: share, whether they write, mean and variance of the response.
    kinds: Vec<network::ClassResponse>,
}

impl WorkloadSolution {
    /// The response that a share of the requests does not exceed, s: an approximation from means
    /// and variances, whose error `docs/analytic.md` states.
    pub fn percentile_s(&self, share: f64) -> f64 {
        let kinds: Vec<_> = self.kinds.iter().map(|(share, _, mean, variance)| (*share, *mean, *variance)).collect();
        percentile::percentile(&kinds, share)
    }
}

impl SystemSolution {
    /// The component that is used most.
    pub fn bottleneck(&self) -> Option<&(String, f64)> {
        self.utilisations.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Of workloads and utilizations.
    fn of(workloads: Vec<WorkloadSolution>, utilisations: Vec<(String, f64)>) -> SystemSolution {
        let throughput_per_s: f64 = workloads.iter().map(|workload| workload.throughput_per_s).sum();
        let (mut sums, mut shares) = ([0.0; 2], [0.0; 2]);
        for workload in &workloads {
            for (share, write, mean, _) in &workload.kinds {
                sums[usize::from(*write)] += workload.throughput_per_s * share * mean;
                shares[usize::from(*write)] += workload.throughput_per_s * share;
            }
        }
        let mean = |index: usize| if shares[index] > 0.0 { sums[index] / shares[index] } else { f64::NAN };
        let all: f64 = workloads.iter().map(|workload| workload.throughput_per_s * workload.response_s).sum();
        SystemSolution {
            throughput_per_s,
            response_s: all / throughput_per_s,
            read_response_s: mean(0),
            write_response_s: mean(1),
            workloads,
            utilisations,
        }
    }
}

/// Solves a system for random requests.
///
/// Where volumes have burst credits, it answers for the time that is watched, beginning with
/// full buckets as the simulation does.
///
/// # Errors
/// Names what cannot be solved.
pub fn solve(system: &System) -> Result<SystemSolution, UnsolvedReason> {
    check(system)?;
    credits::over_time(system)
}

/// Looks for parts that have no answer.
fn check(system: &System) -> Result<(), UnsolvedReason> {
    let no = |of: &str, part| Err(UnsolvedReason::Part { of: of.to_owned(), part });
    if !system.events.is_empty() {
        return no(&system.name, UnsolvedPart::Event);
    }
    if system.host.transfer_blocks.is_some() {
        return no("host", UnsolvedPart::Split);
    }
    for controller in &system.controllers {
        let parts = [
            (controller.outstanding.is_some(), UnsolvedPart::Gate),
            (controller.transfer_blocks.is_some(), UnsolvedPart::Split),
        ];
        if let Some((_, part)) = parts.into_iter().find(|(there, _)| *there) {
            return no(&controller.name, part);
        }
    }
    for (index, channel) in system.channels.iter().enumerate() {
        let drives: u32 =
            system.drives.iter().filter(|group| group.channel == Some(index)).map(|group| group.count).sum();
        if !channel.disconnects && drives > 1 {
            return no(&channel.name, UnsolvedPart::Channel);
        }
    }
    Ok(())
}

/// Operations under way that no queue with a steady state comes near.
const UNLIMITED: u32 = 1000;

/// How a workload presses.
fn chain(workload: &Workload) -> Result<LoadChain, UnsolvedReason> {
    let no = |part| Err(UnsolvedReason::Part { of: workload.name.clone(), part });
    let nobody =
        LoadChain { users: 0.0, think_s: 0.0, think_cv2: 0.0, rate: 0.0, follows: None, most_per_s: f64::INFINITY };
    match &workload.load {
        LoadSpec::Closed(spec) if !spec.phases.is_empty() => no(UnsolvedPart::Phases),
        LoadSpec::Closed(spec) => {
            // each operation of a user that is under way thinks by itself
            let users = f64::from(spec.users) * f64::from(spec.outstanding);
            let pause_s = pause_s(&spec.classes);
            let think_s = spec.think.mean_s() + pause_s;
            let think_cv2 = match spec.think {
                _ if pause_s > 0.0 => 1.0,
                DurationDistribution::Constant { .. } => 0.0,
                DurationDistribution::Erlang { stages, .. } => 1.0 / f64::from(stages.max(1)),
                _ => 1.0,
            };
            Ok(LoadChain { users, think_s, think_cv2, ..nobody })
        }
        LoadSpec::Open(spec) if !spec.phases.is_empty() || spec.bursts.is_some() => no(UnsolvedPart::Phases),
        LoadSpec::Open(spec)
            if spec.batch != ArrivalBatch::One || !matches!(spec.gap, DurationDistribution::Exponential { .. }) =>
        {
            no(UnsolvedPart::Batches)
        }
        // beyond it arrivals are lost
        LoadSpec::Open(spec) if spec.most_outstanding < UNLIMITED => no(UnsolvedPart::Gate),
        LoadSpec::Open(spec) => Ok(LoadChain { rate: 1.0 / spec.gap.mean_s(), ..nobody }),
        _ => classes(workload).map(|_| nobody),
    }
}

/// What passes before a request without using anything that is solved, s: to a user it is as thinking.
fn pause_s(classes: &[OperationClass]) -> f64 {
    let of = |class: &OperationClass| class.transfers.iter().map(|transfer| transfer.pause.mean_s()).sum::<f64>();
    let all: f64 = classes.iter().map(|class| class.weight).sum();
    let sum: f64 = classes.iter().map(|class| class.weight * of(class)).sum();
    if all > 0.0 { sum / all } else { 0.0 }
}

/// The classes of a workload's requests.
fn classes(workload: &Workload) -> Result<&[OperationClass], UnsolvedReason> {
    let other = |load| Err(UnsolvedReason::Load { of: workload.name.clone(), load });
    match &workload.load {
        LoadSpec::Closed(spec) => Ok(&spec.classes),
        LoadSpec::Open(spec) => Ok(&spec.classes),
        LoadSpec::Netbench(_) => other("NetBench's mix"),
        LoadSpec::Scan(_) => other("a scan"),
        LoadSpec::Oltp(_) => other("transactions"),
        LoadSpec::Sort(_) => other("an external sort"),
        LoadSpec::Trace(_) => other("a trace"),
    }
}
