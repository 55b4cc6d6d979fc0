//! Reads each of several logs, with what the others show of its times.

use std::collections::BTreeSet;

use diskwright_logs::{MeasuredTime, ReadSummary, TimeBasis};

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::merge::{Placement, place_logs};
use crate::reading_options::ReadingOptions;
use crate::report::Reporter;

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
///
/// # Errors
/// When a log that the user named cannot be read, or none can.
pub fn read_each_log<'l, T>(
    logs: &'l [GivenLog],
    (options, unreadable): (&ReadingOptions, UnreadableLogs),
    (reporter, is_stopped): (&Reporter, impl Fn() -> bool),
    mut read: impl FnMut(&GivenLog, &ReadingOptions) -> Result<(T, ReadSummary), IngestError>,
) -> Result<Vec<(&'l GivenLog, T, ReadSummary)>, IngestError> {
    let may_be_left_out = |log: &GivenLog| {
        let is_one_of_several = logs.len() > 1 && !log.is_ours() && log.path.is_file();
        log.is_bundled || unreadable == UnreadableLogs::LeftOut && is_one_of_several
    };
    let mut read_logs = Vec::new();
    let mut is_any_left_out = false;
    for log in logs {
        match read(log, options) {
            Err(error) if logs.len() > 1 && may_be_left_out(log) && !is_stopped() => {
                reporter.warn(format_args!("{error} (left out)"));
                is_any_left_out = true;
            }
            result => {
                let (content, summary) = result?;
                read_logs.push((log, content, summary));
            }
        }
    }
    if is_any_left_out && read_logs.is_empty() {
        return Err(IngestError::NoneReadable);
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
            (*content, *summary) = read(log, &options)?;
        }
    }
    let mut places = place_logs(&read_logs.iter().map(|(_, _, summary)| summary).collect::<Vec<_>>());
    let measured = measured_time(read_logs.iter().map(|(_, _, summary)| summary).zip(&places));
    for ((log, content, summary), place) in read_logs.iter_mut().zip(&mut places) {
        if let Some(measured) = measured.as_ref().filter(|_| is_of_messages(summary)) {
            let options = options.with_measured(measured.clone());
            let (placed, placed_summary) = read(log, &options)?;
            if placed_summary.is_placed {
                (*content, *summary) = (placed, placed_summary);
                place.beside = None;
                summary.time_basis = measured.time_basis;
                continue;
            }
            (*content, *summary) = read(log, &options.with_shift(place.shift_ns))?;
        } else if place.shift_ns != 0 {
            (*content, *summary) = read(log, &options.with_shift(place.shift_ns))?;
        }
        summary.time_basis = place.time_basis;
    }
    report_places(&read_logs.iter().map(|(log, ..)| log.name.as_str()).collect::<Vec<_>>(), &places, reporter);
    Ok(read_logs)
}

/// True for a log of messages, whose events are placed beside what others measured.
fn is_of_messages(summary: &ReadSummary) -> bool {
    summary.format == "kernel-log"
}

/// Returns the time that logs of counters cover; `None` if there is none of them.
fn measured_time<'a>(logs: impl Iterator<Item = (&'a ReadSummary, &'a Placement)>) -> Option<MeasuredTime> {
    const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;
    let mut measured = MeasuredTime { has_zone: true, ..MeasuredTime::default() };
    let mut whole: Option<(i64, i64)> = None;
    for (summary, place) in logs.filter(|(summary, _)| !is_of_messages(summary)) {
        let Some((from, to)) = summary.range else { continue };
        let moved = |time_ns: i64| time_ns.saturating_add(place.shift_ns);
        let range = (moved(from), moved(to));
        whole = Some(whole.map_or(range, |(first, last)| (first.min(range.0), last.max(range.1))));
        let steps = i64::try_from(summary.ticks.saturating_sub(1)).unwrap_or(i64::MAX).max(1);
        measured.step_ns = measured.step_ns.max((to - from) / steps);
        measured.boot_ns = measured.boot_ns.or(summary.boot_ns.map(moved));
        if summary.time_basis < TimeBasis::NoDate {
            measured.ranges.push(range);
            measured.has_zone &= summary.time_basis == TimeBasis::Utc;
        } else {
            let of_day = |day: &i64| (day.saturating_mul(DAY_NS), day.saturating_add(1).saturating_mul(DAY_NS));
            measured.days.extend(summary.days.iter().map(of_day));
        }
        measured.time_basis = place.time_basis;
    }
    measured.whole = whole?;
    Some(measured)
}

/// Reports which logs were placed beside which.
fn report_places(names: &[&str], places: &[Placement], reporter: &Reporter) {
    let placed: Vec<&str> =
        names.iter().zip(places).filter(|(_, place)| place.beside.is_some()).map(|(name, _)| *name).collect();
    let Some(beside) = places.iter().find_map(|place| place.beside) else { return };
    let shown = placed.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = if placed.len() > MAX_NAMES { format!(" and {} more", placed.len() - MAX_NAMES) } else { String::new() };
    reporter.warn(format_args!(
        "{shown}{more}: without dates, so laid beside {}, as if recorded in the same minutes",
        names[beside]
    ));
}

/// Maximum number of logs that a message names.
const MAX_NAMES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

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
