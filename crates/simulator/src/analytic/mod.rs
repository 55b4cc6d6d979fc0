//! A system solved in microseconds, where the simulation needs seconds: mean
//! times of devices in closed form, and mean value analysis over them. What is
//! reckoned how, and how near it comes, is told in `docs/analytic.md`.

mod build;
mod device;
mod mechanical;
mod network;
mod served;

pub use mechanical::{DriveDemand, mechanical};
pub use served::{DEPTHS, Depths, IoCost, LoadCosts, at_depth};

use build::{NetworkBuilder, SystemNetwork};
use network::NetworkState;

use crate::array::ArrayError;
use crate::load::{ArrivalBatch, DurationDistribution, LoadSpec};
use crate::system::{System, Workload};

/// What of a system the analysis has no answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsolvedPart {
    /// A cache before the drives.
    Cache,
    /// Operations of several requests.
    Sequence,
    /// Places that are not anywhere alike.
    Places,
    /// Members that are not equal.
    UnequalMembers,
    /// Failed members, rebuilding or scrubbing.
    Degraded,
    /// Credits that are used up in time.
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
}

impl UnsolvedPart {
    /// What it is, for people.
    pub fn name(self) -> &'static str {
        match self {
            UnsolvedPart::Cache => "a cache",
            UnsolvedPart::Sequence => "operations of several requests",
            UnsolvedPart::Places => "places that are not uniform over a share of the target",
            UnsolvedPart::UnequalMembers => "members that are not equal",
            UnsolvedPart::Degraded => "failed members, a rebuild or a scrub",
            UnsolvedPart::Burst => "burst credits",
            UnsolvedPart::Phases => "phases",
            UnsolvedPart::Batches => "several operations at a time",
            UnsolvedPart::Gate => "a limit of requests at a time",
            UnsolvedPart::Split => "a largest request",
            UnsolvedPart::Channel => "a channel that is kept by one of several drives for a whole request",
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
    /// Not exactly one workload.
    #[error("{0} workloads, where one can be solved analytically; simulate it")]
    Workloads(usize),
    /// An array that cannot be.
    #[error("array `{0}`: {1}")]
    Array(String, ArrayError),
    /// More comes than can be served.
    #[error("workload `{0}` has no steady state: more comes than the system can serve")]
    Overload(String),
}

/// What a system does in the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemSolution {
    /// The workload.
    pub workload: String,
    /// Requests a second.
    pub throughput_per_s: f64,
    /// Mean response of a request, s.
    pub response_s: f64,
    /// That of reads; NaN where there are none.
    pub read_response_s: f64,
    /// That of writes; NaN where there are none.
    pub write_response_s: f64,
    /// Share of its capacity that each component uses, by name, where it is used at all. Of
    /// devices that serve several requests at a time the simulation tells another share: that
    /// of the time with anything at work.
    pub utilisations: Vec<(String, f64)>,
}

impl SystemSolution {
    /// The component that is used most.
    pub fn bottleneck(&self) -> Option<&(String, f64)> {
        self.utilisations.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// How a load presses.
enum OfferedLoad {
    /// So many users with this time between requests, s.
    Closed(f64, f64),
    /// So many requests a second.
    Open(f64),
}

/// Solves a system with one workload of random requests.
///
/// # Errors
/// Names what cannot be solved.
pub fn solve(system: &System) -> Result<SystemSolution, UnsolvedReason> {
    let [workload] = &system.workloads[..] else { return Err(UnsolvedReason::Workloads(system.workloads.len())) };
    check(system)?;
    let (press, classes) = press(workload)?;
    let mut built = NetworkBuilder::new(system).classes(&workload.targets, classes)?;
    let mut state = steady(&built, &press, workload)?;
    if built.devices.iter().any(|devices| devices.writes_programs()) {
        // programs of what is written stand in the way of reads
        let SystemNetwork { network, devices, .. } = &mut built;
        for devices in devices.iter_mut() {
            devices.programs(network, state.throughput);
        }
        state = steady(&built, &press, workload)?;
    }
    let busy = |at: usize| state.centers.get(at).map_or(f64::NAN, |found| found.busy);
    let names = built.names.iter().flat_map(|(at, names)| names.iter().map(move |name| (name.clone(), busy(*at))));
    Ok(SystemSolution {
        workload: workload.name.clone(),
        throughput_per_s: state.throughput,
        response_s: state.response,
        read_response_s: state.responses[0],
        write_response_s: state.responses[1],
        utilisations: names.filter(|(_, busy)| *busy > 0.0).collect(),
    })
}

fn steady(built: &SystemNetwork, press: &OfferedLoad, workload: &Workload) -> Result<NetworkState, UnsolvedReason> {
    match press {
        OfferedLoad::Closed(users, think_s) => Ok(built.network.closed(*users, *think_s)),
        OfferedLoad::Open(rate) => {
            built.network.open(*rate).ok_or_else(|| UnsolvedReason::Overload(workload.name.clone()))
        }
    }
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
            (controller.cache.is_some(), UnsolvedPart::Cache),
            (controller.outstanding.is_some(), UnsolvedPart::Gate),
            (controller.transfer_blocks.is_some(), UnsolvedPart::Split),
        ];
        if let Some((_, part)) = parts.into_iter().find(|(there, _)| *there) {
            return no(&controller.name, part);
        }
    }
    for (at, channel) in system.channels.iter().enumerate() {
        let drives: u32 = system.drives.iter().filter(|group| group.channel == Some(at)).map(|group| group.count).sum();
        if !channel.disconnects && drives > 1 {
            return no(&channel.name, UnsolvedPart::Channel);
        }
    }
    Ok(())
}

/// How a workload presses, and the classes of its requests.
fn press(workload: &Workload) -> Result<(OfferedLoad, &[crate::load::OperationClass]), UnsolvedReason> {
    let no = |part| Err(UnsolvedReason::Part { of: workload.name.clone(), part });
    let other = |load| Err(UnsolvedReason::Load { of: workload.name.clone(), load });
    match &workload.load {
        LoadSpec::Closed(spec) if !spec.phases.is_empty() => no(UnsolvedPart::Phases),
        LoadSpec::Closed(spec) => {
            // each operation of a user that is under way thinks by itself
            let users = f64::from(spec.users) * f64::from(spec.outstanding);
            let think = spec.think.mean_s() + build::compute_s(&spec.classes);
            Ok((OfferedLoad::Closed(users, think), &spec.classes))
        }
        LoadSpec::Open(spec) if !spec.phases.is_empty() || spec.bursts.is_some() => no(UnsolvedPart::Phases),
        LoadSpec::Open(spec)
            if spec.batch != ArrivalBatch::One || !matches!(spec.gap, DurationDistribution::Exponential { .. }) =>
        {
            no(UnsolvedPart::Batches)
        }
        LoadSpec::Open(spec) => Ok((OfferedLoad::Open(1.0 / spec.gap.mean_s()), &spec.classes)),
        LoadSpec::Netbench(_) => other("NetBench's mix"),
        LoadSpec::Scan(_) => other("a scan"),
        LoadSpec::Oltp(_) => other("transactions"),
        LoadSpec::Sort(_) => other("an external sort"),
        LoadSpec::Trace(_) => other("a trace"),
    }
}
