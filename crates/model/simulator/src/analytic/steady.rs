//! A steady state of a system: its network, solved.

use super::build::{NetworkBuilder, SystemNetwork};
use super::mechanical::CostCache;
use super::mixed::{ChainState, LoadChain, MixedState};
use super::network::AnalyticNetwork;
use super::requests::{BackgroundChain, workload_requests};
use super::{UnsolvedPart, UnsolvedReason, load_chain};
use crate::device::DeviceModel;
use crate::system::System;

/// Largest number of times that the network is built; each uses the throughput that the one before resulted in.
const MAX_BUILDS: usize = 4;

/// A steady state.
pub(super) struct SteadyState {
    /// Workloads, in their order.
    pub chains: Vec<ChainState>,
    pub utilisations: Vec<(String, f64)>,
    /// For each group of volumes in use, by the name of the first: utilization of the limits of operations and of
    /// bytes.
    pub limits: Vec<(String, [f64; 2])>,
}

/// Solves for a steady state.
pub(super) fn solve_steady_state(system: &System, costs: &mut CostCache) -> Result<SteadyState, UnsolvedReason> {
    let chains = system.workloads.iter().map(load_chain).collect::<Result<Vec<LoadChain>, _>>()?;
    if chains.is_empty() {
        return Err(UnsolvedReason::Missing("workload"));
    }
    let initial_rate = |chain: &LoadChain| if chain.users > 0.0 { chain.users } else { chain.arrivals_per_s };
    let mut rates: Vec<f64> = chains.iter().map(initial_rate).collect();
    let mut last = None;
    for _ in 0..MAX_BUILDS {
        let built = NetworkBuilder::new(system, costs).build_network(&workload_requests(system, &rates)?)?;
        let must_iterate = chains.len() > 1 || !built.background.is_empty();
        let mut all_chains = chains.clone();
        all_chains.extend(built.background.iter().map(background_load));
        let (built, state) = solve_with_programs(built, &all_chains, system)?;
        let changes = state.chains.iter().zip(&rates).map(|(state, rate)| (state.throughput / rate - 1.0).abs());
        let has_converged = changes.fold(0.0, f64::max) < 1e-3;
        rates = state.chains.iter().take(chains.len()).map(|chain| chain.throughput).collect();
        last = Some((built, state));
        if !must_iterate || has_converged {
            break;
        }
    }
    let (built, mut state) = last.ok_or(UnsolvedReason::Missing("workload"))?;
    check_warm_caches(system, &built, &rates)?;
    let busy = |center: usize| state.centers.get(center).map_or(f64::NAN, |found| found.busy);
    let mut utilisations: Vec<(String, f64)> = Vec::new();
    for (center, names) in &built.names {
        for name in names {
            let use_share =
                built.underused_members.iter().find(|(known, _)| known == name).map_or(1.0, |(_, share)| *share);
            let background = built.devices.iter().find_map(|devices| devices.background_center(*center));
            let background = background.map_or(0.0, |center| part_utilization(&built, center, busy(center), &rates));
            let foreground = part_utilization(&built, *center, busy(*center), &rates);
            let utilization = (use_share * (foreground + background)).min(1.0);
            match utilisations.iter_mut().find(|(known, _)| known == name) {
                Some((_, known_utilization)) => *known_utilization = known_utilization.max(utilization),
                None => utilisations.push((name.clone(), utilization)),
            }
        }
    }
    utilisations.retain(|(_, busy)| *busy > 0.0);
    let first_name =
        |center: usize| built.names.iter().find(|(index, _)| *index == center).and_then(|(_, names)| names.first());
    let limits = built.devices.iter().filter_map(|devices| {
        let limits = devices.limit_centers()?;
        Some((first_name(limits[0])?.clone(), limits.map(busy)))
    });
    let limits = limits.collect();
    state.chains.truncate(chains.len());
    Ok(SteadyState { chains: state.chains, utilisations, limits })
}

/// Utilization of a center, or of its background work if it has any.
fn part_utilization(built: &SystemNetwork, center: usize, busy: f64, rates: &[f64]) -> f64 {
    let background_s = built.network.background_work_s(center);
    if background_s > 0.0 { (rates.iter().sum::<f64>() * background_s).min(1.0) } else { busy }
}

fn background_load(chain: &BackgroundChain) -> LoadChain {
    let no_load = LoadChain {
        users: 0.0,
        think_s: 0.0,
        think_cv2: 0.0,
        arrivals_per_s: 0.0,
        follows: None,
        max_per_s: f64::INFINITY,
    };
    match *chain {
        BackgroundChain::Follows(leader, ratio) => LoadChain { follows: Some((leader, ratio)), ..no_load },
        BackgroundChain::Steps(users, max_per_s) => LoadChain { users, max_per_s, ..no_load },
    }
}

/// Refuses caches that are not warm when counting begins.
fn check_warm_caches(system: &System, built: &SystemNetwork, rates: &[f64]) -> Result<(), UnsolvedReason> {
    let warm_up_requests = rates.iter().sum::<f64>() * system.watch.warm_up as f64 * 1e-9;
    match built.cache_warm_ups.iter().find(|(_, requests)| *requests > warm_up_requests) {
        Some((name, _)) => Err(UnsolvedReason::Part { of: name.clone(), part: UnsolvedPart::ColdCache }),
        None => Ok(()),
    }
}

/// Solves, and solves again where programs of written data delay reads.
fn solve_with_programs(
    built: SystemNetwork,
    chains: &[LoadChain],
    system: &System,
) -> Result<(SystemNetwork, MixedState), UnsolvedReason> {
    let mut built = built;
    let mut state = solve_network(&built, chains, system)?;
    if built.devices.iter().any(|devices| devices.has_background_programs()) {
        to_global_shares(&mut built, &state);
        let total: f64 = state.chains.iter().map(|chain| chain.throughput).sum();
        let SystemNetwork { network, devices, .. } = &mut built;
        for devices in devices.iter() {
            devices.add_program_waits(network, total);
        }
        to_chain_shares(&mut built, &state);
        state = solve_network(&built, chains, system)?;
    }
    to_global_shares(&mut built, &state);
    Ok((built, state))
}

/// Converts shares of classes within their chains to shares of all requests.
fn to_global_shares(built: &mut SystemNetwork, state: &MixedState) {
    let total: f64 = state.chains.iter().map(|chain| chain.throughput).sum();
    for class in &mut built.network.classes {
        class.share *= state.chains[class.chain].throughput / total;
    }
}

/// Converts shares of all requests back to shares within the classes' chains.
fn to_chain_shares(built: &mut SystemNetwork, state: &MixedState) {
    let total: f64 = state.chains.iter().map(|chain| chain.throughput).sum();
    for class in &mut built.network.classes {
        class.share *= total / state.chains[class.chain].throughput.max(1e-300);
    }
}

/// Solves the network: purely open loads, and a single load of users, without a fixed point; everything else, and
/// volumes, with one.
fn solve_network(built: &SystemNetwork, chains: &[LoadChain], system: &System) -> Result<MixedState, UnsolvedReason> {
    let name = || system.workloads.iter().map(|workload| workload.name.as_str()).collect::<Vec<_>>().join("`, `");
    let posted = system.workloads.len() < chains.len() && chains.iter().any(|chain| chain.follows.is_some());
    let overload = || match posted {
        true => UnsolvedReason::Part { of: name(), part: UnsolvedPart::PostedLimit },
        false => UnsolvedReason::Overload(name()),
    };
    let has_arms = system.drives.iter().any(|group| matches!(group.device, DeviceModel::Mechanical(_)));
    let arriving: Vec<f64> = chains.iter().map(|chain| chain.arrivals_per_s).collect();
    let mixed = || match built.network.solve_mixed(chains) {
        Some(state) if !state.has_converged => Err(UnsolvedReason::Part { of: name(), part: UnsolvedPart::Unsettled }),
        Some(state) => Ok(state),
        // drives that are too slow with a short queue may keep up with a long one
        None if has_arms && built.network.can_sustain(&arriving) => {
            Err(UnsolvedReason::Part { of: name(), part: UnsolvedPart::Unsettled })
        }
        None => Err(overload()),
    };
    if built.devices.iter().any(|devices| devices.is_volume()) {
        return mixed();
    }
    if let Some(rates) = open_rates(chains) {
        return solve_random_arrivals(&built.network, &rates).ok_or_else(overload);
    }
    let [chain] = chains else { return mixed() };
    let state = built.network.solve_closed(chain.users, chain.think_s);
    let chain = ChainState {
        throughput: state.throughput,
        response: state.response,
        before_s: state.before_s,
        kinds: state.kinds,
    };
    Ok(MixedState { has_converged: true, chains: vec![chain], centers: state.centers })
}

/// Returns the requests per second of each load, if none waits for its requests.
fn open_rates(chains: &[LoadChain]) -> Option<Vec<f64>> {
    let rate = |chain: &LoadChain| (chain.users <= 0.0).then_some(chain.arrivals_per_s);
    let each = |chain: &LoadChain| match chain.follows {
        Some((leader, ratio)) => rate(chains.get(leader)?).map(|rate| ratio * rate),
        None => rate(chain),
    };
    chains.iter().map(each).collect()
}

/// Solves for loads with random arrivals only.
fn solve_random_arrivals(network: &AnalyticNetwork, rates: &[f64]) -> Option<MixedState> {
    let total: f64 = rates.iter().sum();
    let mut combined = network.clone();
    for class in &mut combined.classes {
        class.share *= rates[class.chain] / total;
    }
    let state = combined.solve_open(total)?;
    let mut chains: Vec<ChainState> =
        rates.iter().map(|rate| ChainState { throughput: *rate, ..ChainState::default() }).collect();
    for (class, (_, write, mean, variance)) in network.classes.iter().zip(state.kinds) {
        let chain = &mut chains[class.chain];
        chain.response += class.share * mean;
        chain.kinds.push((class.share, write, mean, variance));
    }
    Some(MixedState { has_converged: true, chains, centers: state.centers })
}
