//! Volumes with burst credits over the measured time.
//!
//! Use beyond the baseline drains a bucket, which is full at first. Until it is empty, the burst rate is the limit,
//! then the baseline rate. Each phase is a steady state, weighted with its share of the time.

use std::sync::Arc;

use super::mechanical::CostCache;
use super::network::ClassResponse;
use super::steady::{SteadyState, solve_steady_state};
use super::{SystemSolution, UnsolvedPart, UnsolvedReason, WorkloadSolution};
use crate::device::DeviceModel;
use crate::system::System;
use crate::volume::{RateLimit, VolumeSpec};

/// A limit that has credits left.
struct CreditsLeft {
    /// Index of the group of volumes.
    group: usize,
    /// 0 for the limit of operations, 1 for that of bytes.
    limit_index: usize,
    remaining: f64,
}

/// Solves a system over the measured time.
pub(super) fn solve_over_time(system: &System) -> Result<SystemSolution, UnsolvedReason> {
    let (mut limits_left, mut costs) = (find_credits(system), CostCache::default());
    if limits_left.is_empty() {
        return Ok(combine_phases(system, &[(1.0, solve_steady_state(system, &mut costs)?)]));
    }
    let mut system = system.clone();
    let (from, until) =
        (system.watch.warm_up as f64 * 1e-9, (system.watch.warm_up + system.watch.duration) as f64 * 1e-9);
    let (mut now, mut phases) = (0.0, Vec::new());
    loop {
        let state = match solve_steady_state(&system, &mut costs) {
            Err(UnsolvedReason::Overload(of)) if now > 0.0 => {
                return Err(UnsolvedReason::Part { of, part: UnsolvedPart::Burst });
            }
            other => other?,
        };
        let drawn: Vec<f64> = limits_left.iter().map(|credits| credits_drawn_per_s(&system, credits, &state)).collect();
        let phase_s = limits_left.iter().zip(&drawn).map(|(credits, drawn)| credits.remaining / drawn.max(1e-300));
        let phase_s = phase_s.fold(f64::INFINITY, f64::min);
        let end = (now + phase_s).min(until);
        if end > from {
            phases.push((end - now.max(from), state));
        }
        if now + phase_s >= until {
            break;
        }
        for (credits, drawn) in limits_left.iter_mut().zip(&drawn) {
            credits.remaining -= drawn.max(0.0) * phase_s;
        }
        limits_left.retain(|credits| {
            match credits.remaining > 1e-6 * rate_limit(&system, credits.group, credits.limit_index).credits {
                true => true,
                false => {
                    exhaust_credits(&mut system, credits.group, credits.limit_index);
                    false
                }
            }
        });
        now += phase_s;
        if limits_left.is_empty() {
            let state = match solve_steady_state(&system, &mut costs) {
                Err(UnsolvedReason::Overload(of)) => {
                    return Err(UnsolvedReason::Part { of, part: UnsolvedPart::Burst });
                }
                other => other?,
            };
            phases.push((until - now.max(from), state));
            break;
        }
    }
    Ok(combine_phases(&system, &phases))
}

/// Finds the limits of volumes that allow bursts.
fn find_credits(system: &System) -> Vec<CreditsLeft> {
    let mut limits = Vec::new();
    for (group, drives) in system.drives.iter().enumerate() {
        if let DeviceModel::Volume(spec) = &drives.device {
            for (limit_index, limit) in [spec.operations, spec.bytes].into_iter().enumerate() {
                if limit.credits > 0.0 && limit.burst > limit.baseline {
                    limits.push(CreditsLeft { group, limit_index, remaining: limit.credits });
                }
            }
        }
    }
    limits
}

fn volume_spec(system: &System, group: usize) -> Option<&Arc<VolumeSpec>> {
    match &system.drives.get(group)?.device {
        DeviceModel::Volume(spec) => Some(spec),
        _ => None,
    }
}

fn rate_limit(system: &System, group: usize, limit_index: usize) -> RateLimit {
    volume_spec(system, group).map_or(RateLimit::unlimited(), |spec| [spec.operations, spec.bytes][limit_index])
}

/// Credits of a limit that are drained per second.
fn credits_drawn_per_s(system: &System, credits: &CreditsLeft, state: &SteadyState) -> f64 {
    let limit = rate_limit(system, credits.group, credits.limit_index);
    let before: u32 = system.drives[..credits.group].iter().map(|group| group.count).sum();
    let group_drives = before..before + system.drives[credits.group].count;
    let names: Vec<String> = group_drives.map(|drive| system.drive_name(drive)).collect();
    // volumes of a group that serve different targets: the most used one counts
    let used = state.limits.iter().filter(|(drive, _)| names.contains(drive));
    let used = used.map(|(_, busy)| busy[credits.limit_index]).fold(0.0, f64::max);
    let excess = used * limit.burst - limit.baseline;
    if excess > 1e-6 * limit.baseline { excess } else { 0.0 }
}

/// Limits a volume to its baseline.
fn exhaust_credits(system: &mut System, group: usize, limit_index: usize) {
    let Some(mut spec) = volume_spec(system, group).map(|spec| VolumeSpec::clone(spec)) else { return };
    let limit = if limit_index == 0 { &mut spec.operations } else { &mut spec.bytes };
    *limit = RateLimit::constant_rate(limit.baseline);
    system.drives[group].device = DeviceModel::Volume(Arc::new(spec));
}

/// Combines the phases, each with its measured time, s.
fn combine_phases(system: &System, phases: &[(f64, SteadyState)]) -> SystemSolution {
    let time: f64 = phases.iter().map(|(time, _)| time).sum();
    let workload = |(index, workload): (usize, &crate::system::Workload)| {
        let each = || phases.iter().map(|(length, state)| (length / time, &state.chains[index]));
        let throughput_per_s: f64 = each().map(|(share, chain)| share * chain.throughput).sum();
        let share = |share: f64, throughput: f64| share * throughput / throughput_per_s;
        let kinds = each().flat_map(|(length, chain)| {
            let phase_share = share(length, chain.throughput);
            let weighted =
                move |(share, write, mean, variance): &ClassResponse| (phase_share * share, *write, *mean, *variance);
            chain.kinds.iter().map(weighted)
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
    SystemSolution::from_workloads(workloads, utilisations)
}
