//! Time that a failed member is missing, and the chance that a design loses data over the mission.

use diskwright_simulator::ArrayLevel;

use crate::analysis::DesignResponse;
use crate::design_part::DesignPart;
use crate::limits::PlanLimits;
use crate::reliability::{MemberReliability, YEAR_HOURS, mission_loss, mttdl_hours, rebuild_hours};
use crate::search::JudgedDesign;

/// Hours until a failed member is restored: replacement, if no spare waits, and the rebuild in the time that the load
/// leaves.
pub fn repair_hours(part: &DesignPart, design: &JudgedDesign, limits: &PlanLimits) -> Option<f64> {
    let rate = part.stream_bytes_per_s?.min(crate::reliability::MD_CEILING_BYTES_PER_S);
    let idle_share = 1.0 - design.response.as_ref().map_or(0.0, DesignResponse::busiest_share).min(0.9);
    let replacement_hours = if design.spares > 0 { 0.0 } else { limits.replace_hours };
    Some(replacement_hours + rebuild_hours(part.capacity_bytes, rate * idle_share))
}

/// Chance of losing data over the mission.
pub fn loss_probability(
    part: &DesignPart,
    design: &JudgedDesign,
    member: MemberReliability,
    limits: &PlanLimits,
    correlation: f64,
) -> Option<f64> {
    let hours = limits.years * YEAR_HOURS;
    let repair = if part.volume.is_some() { 0.0 } else { repair_hours(part, design, limits)? };
    if design.level == ArrayLevel::Linear {
        return Some(mission_loss(crate::reliability::mtbf_hours(member.afr), hours));
    }
    let mttdl = mttdl_hours(design.level, design.count, member, part.capacity_bytes, repair, correlation)?;
    Some(mission_loss(mttdl, hours))
}
