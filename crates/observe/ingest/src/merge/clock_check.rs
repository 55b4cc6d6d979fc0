//! Checks whether logs can share one timeline: by their times, and by what they count.

use std::collections::BTreeSet;

use diskwright_logs::TimeBasis;

use super::member::MergeMember;
use super::outline::outline_member;
use crate::IngestError;
use crate::report::Reporter;

/// Maximum difference between local time and UTC.
const MAX_OFFSET_NS: i64 = 14 * 3600 * 1_000_000_000;

/// Marks members as left out if their times cannot be placed relative to the others. A member that the user named is an
/// error.
pub fn mark_unplaced(
    members: &[MergeMember],
    is_left_out: &mut [bool],
    reporter: &Reporter,
) -> Result<(), IngestError> {
    assert_eq!(members.len(), is_left_out.len(), "each log is left out or is not");
    let mut order: Vec<usize> = (0..members.len()).filter(|index| !is_left_out[*index]).collect();
    if order.len() < 2 || order.iter().all(|index| members[*index].time_basis == TimeBasis::Utc) {
        return Ok(());
    }
    // of two conflicting members, the longer one is kept
    order.sort_by_key(|index| {
        let member = &members[*index];
        (member.time_basis, member.is_bundled, std::cmp::Reverse(member.range_ns.1 - member.range_ns.0))
    });
    let mut placed: Vec<(usize, BTreeSet<String>)> = Vec::new();
    for index in order {
        let member = &members[index];
        let counters = counter_names(member)?;
        let conflict = placed.iter().find_map(|(other_index, other_counters)| {
            let shared = counters.intersection(other_counters).next().map(String::as_str);
            describe_conflict(member, &members[*other_index], shared)
        });
        match conflict {
            Some(reason) if member.is_bundled => {
                reporter.warn(format_args!("{reason} (left out)"));
                is_left_out[index] = true;
            }
            Some(reason) => return Err(IngestError::Refused(reason)),
            None => placed.push((index, counters)),
        }
    }
    Ok(())
}

/// Returns why a log cannot be placed relative to another log. `shared` is a counter that both have.
fn describe_conflict(member: &MergeMember, other: &MergeMember, shared: Option<&str>) -> Option<String> {
    let (name, other_name) = (&member.name, &other.name);
    let hint = format!("judge it on its own: diskwright why {name}");
    let (from, until) = (member.range_ns.0.max(other.range_ns.0), member.range_ns.1.min(other.range_ns.1));
    // two tools may record the same counter at the same time; two recordings of one tool are from different times
    let shared_of_one_tool = shared.filter(|_| member.format == other.format);
    match (member.time_basis, shared, shared_of_one_tool) {
        (TimeBasis::NoDate, _, Some(shared)) if from < until => Some(format!(
            "{name} and {other_name} have times without a date, and both have {shared} at the same time of day: they \
             may be from two days; {hint}"
        )),
        (TimeBasis::NoZone, Some(shared), _)
            if other.time_basis == TimeBasis::Utc && from < until.saturating_add(MAX_OFFSET_NS) =>
        {
            Some(format!(
                "{name} names no time zone, {other_name} has times in UTC, and both have {shared}: the same load could \
                 count twice; give the offset of {name} with --utc-offset"
            ))
        }
        _ => None,
    }
}

/// Returns the counters of a log, with their instances.
fn counter_names(member: &MergeMember) -> Result<BTreeSet<String>, IngestError> {
    let outline = outline_member(&member.stored, (i64::MIN, i64::MAX))?;
    let label = |(counter, instance): &(String, String)| match instance.as_str() {
        "" => counter.clone(),
        instance => format!("{counter} of {instance}"),
    };
    Ok(outline.series.iter().map(label).collect())
}

#[cfg(test)]
mod tests {
    use super::super::MemberRank;
    use super::*;
    use crate::stored_log::StoredLog;

    const HOUR: i64 = 3600 * 1_000_000_000;

    fn member(times: TimeBasis, from: i64, until: i64) -> MergeMember {
        let (name, stored) = ("a".to_owned(), StoredLog::InPlace("a".into()));
        MergeMember {
            name,
            stored,
            range_ns: (from * HOUR, until * HOUR),
            time_basis: times,
            format: "iostat-text",
            rank: MemberRank::Series,
            is_bundled: false,
        }
    }

    #[test]
    fn finds_conflicting_time_bases() {
        use TimeBasis::{NoDate, NoZone, Utc};
        let same = Some("system.run_queue");
        for (one, other, same, is_wrong) in [
            (member(NoDate, 0, 2), member(NoDate, 1, 3), same, true),
            (member(NoDate, 0, 2), member(NoDate, 1, 3), None, false),
            (member(NoDate, 0, 2), member(NoDate, 2, 3), same, false),
            (member(NoZone, 0, 2), member(Utc, 5, 6), same, true),
            (member(NoZone, 0, 2), member(Utc, 5, 6), None, false),
            (member(NoZone, 0, 2), member(Utc, 16, 18), same, false),
            (member(NoZone, 0, 2), member(NoZone, 0, 2), same, false),
            (member(Utc, 0, 2), member(Utc, 0, 2), same, false),
        ] {
            let (times, beside) = (one.time_basis, other.time_basis);
            assert_eq!(describe_conflict(&one, &other, same).is_some(), is_wrong, "{times:?} beside {beside:?}");
        }
    }

    #[test]
    fn two_tools_may_count_the_same_at_once() {
        for times in [TimeBasis::Counted, TimeBasis::NoDate] {
            let vmstat = MergeMember { format: "vmstat-text", ..member(times, 0, 1) };
            assert_eq!(describe_conflict(&vmstat, &member(times, 0, 1), Some("processor.busy")), None, "{times:?}");
        }
    }
}
