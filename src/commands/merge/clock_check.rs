//! Checks whether logs can share one timeline: by their times, and by what they count.

use std::collections::BTreeSet;

use diskwright_logs::{ReadSummary, TimeBasis};

use super::placing::{self, Placement};
use super::{MergeMember, outline_member};
use crate::commands::bundle::{self, GivenLog};
use crate::commands::foreign::ForeignOptions;
use crate::commands::{Failure, output};

/// Offset of local time, seconds, that logs without a zone adopt from logs of the same machine that name one; `None` if
/// none does, or if two differ.
fn common_utc_offset<'a>(summaries: impl Iterator<Item = &'a ReadSummary>) -> Option<i32> {
    let named: BTreeSet<i32> = summaries.filter_map(|summary| summary.offset_s).collect();
    if named.len() == 1 { named.first().copied() } else { None }
}

/// What is done about a log that the user named, and that cannot be read.
#[derive(Clone, Copy, PartialEq)]
pub enum UnreadableLogs {
    /// The command fails.
    Refused,
    /// It is left out, and the others are read.
    LeftOut,
}

/// Reads each log. A file of a bundle that cannot be read is left out with a warning, unless the command was stopped.
/// If the others name one offset of local time, logs without a zone are read again with it; logs without dates are
/// placed beside the others.
pub fn read_each_log<'l, T>(
    logs: &'l [GivenLog],
    (options, unreadable): (&ForeignOptions, UnreadableLogs),
    is_stopped: impl Fn() -> bool,
    mut read: impl FnMut(&GivenLog, &ForeignOptions) -> Result<(T, ReadSummary), Failure>,
) -> Result<Vec<(&'l GivenLog, T, ReadSummary)>, Failure> {
    let may_be_left_out = |log: &GivenLog| {
        let is_one_of_several = logs.len() > 1 && !log.is_ours() && log.path.is_file();
        log.is_bundled || unreadable == UnreadableLogs::LeftOut && is_one_of_several
    };
    let mut read_logs = Vec::new();
    let mut last_reason = None;
    for log in logs {
        match read(log, &log.reading_options(options)) {
            Err(Failure::Failed(reason)) if logs.len() > 1 && may_be_left_out(log) && !is_stopped() => {
                bundle::report_left_out(&reason);
                last_reason = Some(reason);
            }
            result => {
                let (content, summary) = result?;
                read_logs.push((log, content, summary));
            }
        }
    }
    if last_reason.is_some() && read_logs.is_empty() {
        return Err(Failure::Failed("none of the logs could be read".into()));
    }
    if read_logs.len() < 2 {
        return Ok(read_logs);
    }
    let offset_s = common_utc_offset(read_logs.iter().map(|(_, _, summary)| summary));
    let options = offset_s.map_or_else(|| options.clone(), |offset_s| options.with_offset(offset_s));
    if offset_s.is_some() {
        for (log, content, summary) in
            read_logs.iter_mut().filter(|(_, _, summary)| summary.time_basis == TimeBasis::NoZone)
        {
            (*content, *summary) = read(log, &log.reading_options(&options))?;
        }
    }
    let places = placing::place_logs(&read_logs.iter().map(|(_, _, summary)| summary).collect::<Vec<_>>());
    report_places(&read_logs.iter().map(|(log, ..)| log.name.as_str()).collect::<Vec<_>>(), &places);
    for ((log, content, summary), place) in read_logs.iter_mut().zip(&places) {
        if place.shift_ns != 0 {
            (*content, *summary) = read(log, &log.reading_options(&options).with_shift(place.shift_ns))?;
        }
        summary.time_basis = place.time_basis;
    }
    Ok(read_logs)
}

/// Reports which logs were placed beside which.
fn report_places(names: &[&str], places: &[Placement]) {
    let placed: Vec<&str> =
        names.iter().zip(places).filter(|(_, place)| place.beside.is_some()).map(|(name, _)| *name).collect();
    let Some(beside) = places.iter().find_map(|place| place.beside) else { return };
    let shown = placed.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = if placed.len() > MAX_NAMES { format!(" and {} more", placed.len() - MAX_NAMES) } else { String::new() };
    output::print_warning(format_args!(
        "{shown}{more}: without dates, so laid beside {}, as if recorded in the same minutes",
        names[beside]
    ));
}

/// Maximum number of logs that a message names.
const MAX_NAMES: usize = 4;

/// Maximum difference between local time and UTC.
const MAX_OFFSET_NS: i64 = 14 * 3600 * 1_000_000_000;

/// Marks members as left out if their times cannot be placed relative to the others. A member that the user named is an
/// error.
pub fn mark_unplaced(members: &[MergeMember], is_left_out: &mut [bool]) -> Result<(), Failure> {
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
                output::print_warning(format_args!("{reason} (left out)"));
                is_left_out[index] = true;
            }
            Some(reason) => return Err(Failure::Failed(reason)),
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
fn counter_names(member: &MergeMember) -> Result<BTreeSet<String>, Failure> {
    let outline = outline_member(&member.path, (i64::MIN, i64::MAX))?;
    let label = |(counter, instance): &(String, String)| match instance.as_str() {
        "" => counter.clone(),
        instance => format!("{counter} of {instance}"),
    };
    Ok(outline.series.iter().map(label).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * 1_000_000_000;

    fn member(times: TimeBasis, from: i64, until: i64) -> MergeMember {
        let (name, path) = ("a".to_owned(), "a".into());
        MergeMember {
            name,
            path,
            range_ns: (from * HOUR, until * HOUR),
            time_basis: times,
            format: "iostat-text",
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

    #[test]
    fn adopts_one_zone_but_not_two() {
        let summary = |offset_s| ReadSummary { offset_s, ..ReadSummary::default() };
        let common = |offsets: &[Option<i32>]| {
            let all: Vec<ReadSummary> = offsets.iter().copied().map(summary).collect();
            common_utc_offset(all.iter())
        };
        assert_eq!(common(&[None, Some(7200), None, Some(7200)]), Some(7200));
        assert_eq!(common(&[Some(7200), Some(3600)]), None);
        assert_eq!(common(&[None]), None);
    }
}
