//! Monte Carlo simulation under the formulas' assumptions: lives, repairs and unreadable sectors of a design over its
//! mission, seeded. Unlike a mean time to loss it shows how many of the stored bytes are lost, including the loss of a
//! single stripe (Greenan, Plank and Wylie, "Mean time to meaningless", HotStorage 2010).

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::array::LevelForm;
use diskwright_simulator::theory::unreadable_probability;

use super::{MemberReliability, YEAR_HOURS, afr, mtbf_hours};

/// Design and rates to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissionPlan {
    /// Level.
    pub level: ArrayLevel,
    /// Members.
    pub members: u32,
    /// Reliability of each.
    pub member: MemberReliability,
    /// Bytes of a member.
    pub member_bytes: f64,
    /// Mean time from a failure until its replacement is rebuilt, hours.
    pub repair_hours: f64,
    /// Factor by which members fail more often while another has failed.
    pub correlation: f64,
    /// The mission, years.
    pub years: f64,
}

/// Result of many missions.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MissionOutcome {
    /// Number of simulated missions.
    pub missions: u32,
    /// Share of missions in which data was lost.
    pub loss: f64,
    /// Bounds of the 95 % confidence interval of this share.
    pub loss_interval: (f64, f64),
    /// Bytes lost per usable byte over a mission, on average.
    pub lost_share: f64,
}

/// Size of a stripe that is lost to an unreadable sector, for its share of an array, bytes.
const SECTOR_BYTES: f64 = 4096.0;

/// Number of sets that lose data independently, members of each, and failures that each survives.
fn failure_sets(level: ArrayLevel, members: u32) -> (u32, u32, u32) {
    let info = level.info();
    match (info.form, level) {
        (LevelForm::Linear, _) | (_, ArrayLevel::Raid0) => (1, members, 0),
        (_, ArrayLevel::Raid1) => (1, members, members - 1),
        (LevelForm::Copies, _) => ((members / 2).max(1), 2, 1),
        _ => (1, members, u32::from(info.parities)),
    }
}

/// Converts a mirror of stripe sets to its two sets: each is lost with any of its members, and read completely to
/// rebuild the other.
fn plan_for_mirrored_sets(plan: &MissionPlan) -> MissionPlan {
    if plan.level != ArrayLevel::Raid01 {
        return *plan;
    }
    let each = (f64::from(plan.members) / 2.0).max(1.0);
    MissionPlan {
        level: ArrayLevel::Raid1,
        members: 2,
        member: MemberReliability { afr: afr(mtbf_hours(plan.member.afr) / each), ..plan.member },
        member_bytes: plan.member_bytes * each,
        ..*plan
    }
}

/// Simulates this many missions.
pub fn simulate_missions(plan: &MissionPlan, missions: u32, seed: u64) -> MissionOutcome {
    let plan = &plan_for_mirrored_sets(plan);
    let (sets, members, survivable) = failure_sets(plan.level, plan.members);
    let mut rng = Rng::new(seed, u64::from(plan.members));
    let (mut lost, mut lost_share) = (0u32, 0.0);
    for _ in 0..missions {
        let mut share = 0.0;
        for _ in 0..sets {
            share += lost_share_of_mission(plan, members, survivable, &mut rng) / f64::from(sets);
        }
        lost += u32::from(share > 0.0);
        lost_share += share;
    }
    let total = f64::from(missions.max(1));
    let bound = |shape: f64, chance: f64| super::gamma_quantile(shape, chance) / total;
    let low = if lost > 0 { bound(f64::from(lost), 0.025) } else { 0.0 };
    MissionOutcome {
        missions,
        loss: f64::from(lost) / total,
        loss_interval: (low, bound(f64::from(lost) + 1.0, 0.975).min(1.0)),
        lost_share: lost_share / total,
    }
}

/// Simulates one mission of a set; returns the share of it that is lost.
fn lost_share_of_mission(plan: &MissionPlan, members: u32, survivable: u32, rng: &mut Rng) -> f64 {
    let mean = mtbf_hours(plan.member.afr);
    let end = plan.years * YEAR_HOURS;
    let read_bytes = f64::from(members - survivable.min(members - 1)) * plan.member_bytes;
    let unreadable = unreadable_probability(read_bytes, plan.member.errors_per_bit);
    let (mut time, mut failed) = (0.0, 0u32);
    loop {
        let failure_factor = if failed > 0 { plan.correlation } else { 1.0 };
        let failure_in = rng.draw_exponential(mean / failure_factor / f64::from(members - failed));
        let repair_in = if failed > 0 { rng.draw_exponential(plan.repair_hours) } else { f64::INFINITY };
        time += failure_in.min(repair_in);
        if time > end {
            return 0.0;
        }
        if repair_in < failure_in {
            failed -= 1;
            continue;
        }
        failed += 1;
        if failed > survivable {
            return 1.0;
        }
        // without redundancy left, an unreadable sector destroys its stripe
        if failed == survivable && rng.next_bool(unreadable) {
            return SECTOR_BYTES / read_bytes;
        }
    }
}
