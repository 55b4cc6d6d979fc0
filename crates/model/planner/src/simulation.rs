//! Simulation of designs: healthy, with a failed member, and while a spare is rebuilt.

use diskwright_simulator::Simulation;
use diskwright_simulator::system::{BackgroundWork, WatchSpec};

use crate::analysis::StorageDesign;
use crate::demand::Demand;
use crate::reliability::MD_CEILING_BYTES_PER_S;

/// State in which a design is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayCondition {
    /// All members work.
    Healthy,
    /// One has failed.
    Degraded,
    /// One has failed and is rebuilt onto a spare as fast as md would.
    Rebuilding,
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedResponse {
    /// Mean, 95th and 99th percentile of the response, s; `None` if the design could not keep up.
    pub response_s: Option<[f64; 3]>,
    /// Utilization of the busiest member.
    pub busiest_share: f64,
    /// I/Os per second of each member.
    pub member_per_s: f64,
    /// Bytes per second of a rebuild.
    pub rebuild_bytes_per_s: Option<f64>,
    /// Share of the requests that was answered within the run.
    pub answered_share: f64,
    /// Mean response of the answered requests, s, also if the design could not keep up and others waited longer.
    pub answered_mean_s: Option<f64>,
}

/// Minimum share of arrivals that must be answered in a steady state.
const MIN_ANSWERED_SHARE: f64 = 0.97;
/// Allowance for random arrivals, standard deviations of their number (Poisson: its square root).
const CHANCE_DEVIATIONS: f64 = 4.0;
/// Maximum simulated time of a rebuild, which has many more I/Os than the load, s.
const MAX_REBUILD_WATCH_S: f64 = 60.0;
/// Minimum number of requests for a result.
const MIN_REQUESTS: f64 = 30.0;
/// Utilization from which a member counts as always busy. Its queue may be long and stable, because more requests to
/// choose from shorten the arm's movements, or grow for ever.
const FULL_UTILIZATION: f64 = 0.999;
/// Test for a growing queue: length of a second run, as a multiple of the first one's.
const LONG_RUN_FACTOR: f64 = 4.0;
/// Largest mean response of the second run, as a multiple of the first one's. Each of 82 arrays of disks at 10 to 90 %
/// of what it sustains stays below that (`benches/agreement.rs`); a queue that grows with time makes it four times as
/// long.
const MAX_RESPONSE_GROWTH: f64 = 1.2;
/// Minimum number of requests per member in a run: with fewer, a queue that fills up is no longer than one that grows.
const MIN_REQUESTS_PER_MEMBER: u32 = 250;

/// Simulates a design.
///
/// # Errors
/// The reason why the simulator cannot build the design.
pub fn simulate_design(
    design: &StorageDesign<'_>,
    demand: &Demand,
    condition: ArrayCondition,
    requests: u32,
) -> Result<SimulatedResponse, String> {
    let mut seconds = (f64::from(requests) / demand.requests_per_s()).max(0.1);
    if condition == ArrayCondition::Rebuilding {
        // its members are always busy: a rebuild takes the remaining time
        return run_for(design, demand, condition, seconds.min(MAX_REBUILD_WATCH_S));
    }
    seconds = seconds.max(f64::from(MIN_REQUESTS_PER_MEMBER * u32::from(design.count)) / demand.requests_per_s());
    let found = run_for(design, demand, condition, seconds)?;
    let Some(short) = found.response_s.filter(|_| found.busiest_share >= FULL_UTILIZATION) else { return Ok(found) };
    // a growing queue does not answer its requests at the end of any run
    let long = run_for(design, demand, condition, LONG_RUN_FACTOR * seconds)?;
    let response_s = long.response_s.filter(|long| long[0] <= MAX_RESPONSE_GROWTH * short[0]);
    Ok(SimulatedResponse { response_s, ..long })
}

/// Runs a design for this many seconds.
fn run_for(
    design: &StorageDesign<'_>,
    demand: &Demand,
    condition: ArrayCondition,
    seconds: f64,
) -> Result<SimulatedResponse, String> {
    if seconds * demand.requests_per_s() < MIN_REQUESTS {
        return Err("too few requests in the observed time".into());
    }
    let spare = u16::from(condition == ArrayCondition::Rebuilding);
    let mut system = design.to_system(demand, spare);
    let ns = (seconds * 1e9) as u64;
    system.watch = WatchSpec { seed: 19, warm_up: ns / 10, duration: ns, interval: (ns / 20).max(1) };
    if let (Some(array), true) = (system.arrays.first_mut(), condition != ArrayCondition::Healthy) {
        array.failed = vec![0];
        if condition == ArrayCondition::Rebuilding {
            let rate = Some(MD_CEILING_BYTES_PER_S as u64);
            array.rebuild = Some(BackgroundWork { step_blocks: 1024, depth: 2, rate });
        }
    }
    let report = Simulation::new(&system).map_err(|error| error.to_string())?.run_without_samples();
    let workload = report.workloads.first().ok_or("no workload")?;
    let elapsed = report.elapsed_s();
    let answered = workload.counts.request_count() as f64 / elapsed;
    let quantile = |share| workload.responses.quantile(share).map(|ns| ns * 1e-9);
    let figures = workload.responses.mean().zip(quantile(0.95)).zip(quantile(0.99));
    let members = report.components.iter().filter(|part| part.name.starts_with("member"));
    let busiest = members.map(|part| part.utilisation()).fold(0.0, f64::max);
    let allowance = CHANCE_DEVIATIONS * (demand.requests_per_s() / elapsed).sqrt();
    let keeps_up = answered >= MIN_ANSWERED_SHARE * demand.requests_per_s() - allowance;
    let array = report.arrays.first();
    let ios = array.map_or(answered, |array| array.member_ios as f64 / elapsed / f64::from(design.count));
    let rebuild = array.and_then(|array| array.background).filter(|_| condition == ArrayCondition::Rebuilding);
    let run_s = elapsed + system.watch.warm_up as f64 * 1e-9;
    Ok(SimulatedResponse {
        response_s: figures.filter(|_| keeps_up).map(|((mean, p95), p99)| [mean * 1e-9, p95, p99]),
        busiest_share: busiest,
        answered_share: answered / demand.requests_per_s(),
        answered_mean_s: workload.responses.mean().map(|ns| ns * 1e-9),
        member_per_s: ios,
        rebuild_bytes_per_s: rebuild
            .map(|work| work.done_bytes as f64 / work.ended_ns.map_or(run_s, |end| end as f64 * 1e-9)),
    })
}
