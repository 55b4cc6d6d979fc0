//! Logs of one machine whose times overlap (iostat, vmstat and sar of the same hour), joined onto one timeline, so that
//! no second is judged twice and counters of one log meet those of another.
//!
//! The timeline is that of the log with the shortest interval. Amounts that others counted in one of their ticks are
//! spread over the timeline's ticks by time, so that totals stay; their levels and rates apply to each of them. A
//! counter that several logs have at the same time is taken from one of them.

mod clock_check;
mod join;
mod join_report;
mod machines;
mod member;
mod outline;
mod output;
mod placing;
#[cfg(test)]
mod tests;
mod timeline;

pub use join::join_group;
pub use machines::check_same_host;
pub use member::{MemberRank, MergeMember};
pub use output::MergeOutput;
pub(crate) use placing::{DAY_NS, PlacedLog, Placement, mean_step_ns, place_logs};

use crate::IngestError;
use crate::report::Reporter;

/// Finds members that are not joined with the others: those of other machines, and those whose times cannot be placed.
/// The reason is reported. A member that the user named is an error.
///
/// # Errors
/// When a member that the user named cannot be joined, or one cannot be read.
pub fn find_left_out(members: &[MergeMember], reporter: &Reporter) -> Result<Vec<bool>, IngestError> {
    let mut is_left_out = machines::mark_other_machines(members, reporter)?;
    clock_check::mark_unplaced(members, &mut is_left_out, reporter)?;
    Ok(is_left_out)
}

/// Groups members that overlap in time, or of which one is a moment at which another begins; ranges must be in order.
pub fn group_overlapping(members: Vec<MergeMember>) -> Vec<Vec<MergeMember>> {
    let mut groups: Vec<Vec<MergeMember>> = Vec::new();
    let (mut begin, mut end) = (i64::MIN, i64::MIN);
    for member in members {
        let overlaps = member.range_ns.0 < end || begin == end && member.range_ns.0 == end;
        begin = if overlaps { begin } else { member.range_ns.0 };
        end = if overlaps { end.max(member.range_ns.1) } else { member.range_ns.1 };
        match groups.last_mut() {
            Some(group) if overlaps => group.push(member),
            _ => groups.push(vec![member]),
        }
    }
    groups
}
