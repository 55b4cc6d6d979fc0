//! Volumes with burst credits over the measured time.
//!
//! A full bucket is drained by the use beyond the baseline. Until it is empty the burst rate is the limit, then the
//! baseline rate: each phase is a steady state, weighted with its part of the time.

use std::sync::Arc;

use super::mechanical::CostMemory;
use super::steady::{SteadyState, steady};
use super::{SystemSolution, UnsolvedPart, UnsolvedReason, WorkloadSolution};
use crate::device::DeviceModel;
use crate::system::System;
use crate::volume::{RateLimit, VolumeSpec};

/// A limit with credits left: the group of drives, operations or bytes, and the credits.
struct CreditsLeft {
    group: usize,
    which: usize,
    left: f64,
}

/// Solves a system over the measured time.
pub(super) fn over_time(system: &System) -> Result<SystemSolution, UnsolvedReason> {
    let (mut left, mut memory) = (credits(system), CostMemory::default());
    if left.is_empty() {
        return Ok(solution(system, &[(1.0, steady(system, &mut memory)?)]));
    }
    let mut system = system.clone();
    let (from, until) =
        (system.watch.warm_up as f64 * 1e-9, (system.watch.warm_up + system.watch.duration) as f64 * 1e-9);
    let (mut now, mut phases) = (0.0, Vec::new());
    loop {
        let state = match steady(&system, &mut memory) {
            Err(UnsolvedReason::Overload(of)) if now > 0.0 => {
                return Err(UnsolvedReason::Part { of, part: UnsolvedPart::Burst });
            }
            other => other?,
        };
        let drawn: Vec<f64> = left.iter().map(|credits| drawn(&system, credits, &state)).collect();
        let lasts = left.iter().zip(&drawn).map(|(credits, drawn)| credits.left / drawn.max(1e-300));
        let lasts = lasts.fold(f64::INFINITY, f64::min);
        let end = (now + lasts).min(until);
        if end > from {
            phases.push((end - now.max(from), state));
        }
        if now + lasts >= until {
            break;
        }
        for (credits, drawn) in left.iter_mut().zip(&drawn) {
            credits.left -= drawn.max(0.0) * lasts;
        }
        left.retain(|credits| match credits.left > 1e-6 * limit(&system, credits.group, credits.which).credits {
            true => true,
            false => {
                used_up(&mut system, credits.group, credits.which);
                false
            }
        });
        now += lasts;
        if left.is_empty() {
            let state = match steady(&system, &mut memory) {
                Err(UnsolvedReason::Overload(of)) => {
                    return Err(UnsolvedReason::Part { of, part: UnsolvedPart::Burst });
                }
                other => other?,
            };
            phases.push((until - now.max(from), state));
            break;
        }
    }
    Ok(solution(&system, &phases))
}

/// Finds the limits of volumes that allow bursts.
fn credits(system: &System) -> Vec<CreditsLeft> {
    let mut all = Vec::new();
    for (group, drives) in system.drives.iter().enumerate() {
        if let DeviceModel::Volume(spec) = &drives.device {
            for (which, limit) in [spec.operations, spec.bytes].into_iter().enumerate() {
                if limit.credits > 0.0 && limit.burst > limit.baseline {
                    all.push(CreditsLeft { group, which, left: limit.credits });
                }
            }
        }
    }
    all
}

fn volume(system: &System, group: usize) -> Option<&Arc<VolumeSpec>> {
    match &system.drives.get(group)?.device {
        DeviceModel::Volume(spec) => Some(spec),
        _ => None,
    }
}

fn limit(system: &System, group: usize, which: usize) -> RateLimit {
    volume(system, group).map_or(RateLimit::none(), |spec| [spec.operations, spec.bytes][which])
}

/// Credits drained per second.
fn drawn(system: &System, credits: &CreditsLeft, state: &SteadyState) -> f64 {
    let limit = limit(system, credits.group, credits.which);
    let before: u32 = system.drives[..credits.group].iter().map(|group| group.count).sum();
    let own = before..before + system.drives[credits.group].count;
    let names: Vec<String> = own.map(|drive| system.drive_name(drive)).collect();
    // volumes of a group that serve different targets: the most used one counts
    let used = state.limits.iter().filter(|(drive, _)| names.contains(drive));
    let used = used.map(|(_, busy)| busy[credits.which]).fold(0.0, f64::max);
    let over = used * limit.burst - limit.baseline;
    if over > 1e-6 * limit.baseline { over } else { 0.0 }
}

/// Limits a volume to its baseline.
fn used_up(system: &mut System, group: usize, which: usize) {
    let Some(mut spec) = volume(system, group).map(|spec| VolumeSpec::clone(spec)) else { return };
    let limit = if which == 0 { &mut spec.operations } else { &mut spec.bytes };
    *limit = RateLimit::steady(limit.baseline);
    system.drives[group].device = DeviceModel::Volume(Arc::new(spec));
}

/// Combines the phases, each with its measured time, s.
fn solution(system: &System, phases: &[(f64, SteadyState)]) -> SystemSolution {
    let time: f64 = phases.iter().map(|(time, _)| time).sum();
    let workload = |(index, workload): (usize, &crate::system::Workload)| {
        let each = || phases.iter().map(|(length, state)| (length / time, &state.chains[index]));
        let throughput_per_s: f64 = each().map(|(share, chain)| share * chain.throughput).sum();
        let share = |share: f64, throughput: f64| share * throughput / throughput_per_s;
        let kinds = each().flat_map(|(length, chain)| {
            let of = share(length, chain.throughput);
            chain.kinds.iter().map(move |(share, write, mean, variance)| (of * share, *write, *mean, *variance))
        });
        WorkloadSolution {
            name: workload.name.clone(),
            throughput_per_s,
            response_s: each().map(|(length, chain)| share(length, chain.throughput) * chain.response).sum(),
            kinds: kinds.collect(),
        }
    };
    let workloads = system.workloads.iter().enumerate().map(workload).collect();
    // utilizations are those at the end
    let utilisations = phases.last().map_or_else(Vec::new, |(_, state)| state.utilisations.clone());
    SystemSolution::of(workloads, utilisations)
}
