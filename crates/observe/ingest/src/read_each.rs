//! Reads each of several logs, with what the others show of its times.

use std::collections::BTreeSet;

use diskwright_base::text::is_same_host;
use diskwright_logs::{MeasuredTime, ReadSummary, TimeBasis};

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::merge::{DAY_NS, PlacedLog, Placement, mean_step_ns, place_logs};
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
) -> Result<Vec<ReadLog<'l, T>>, IngestError> {
    let is_one_of_several = |log: &GivenLog| logs.len() > 1 && !log.is_ours() && log.path.is_file();
    let may_be_left_out =
        |log: &GivenLog| log.is_bundled || unreadable == UnreadableLogs::LeftOut && is_one_of_several(log);
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
    place_read_logs(&mut read_logs, &options, reporter, &mut read)?;
    Ok(read_logs)
}

/// A log, what was read of it, and its summary.
type ReadLog<'l, T> = (&'l GivenLog, T, ReadSummary);

/// Places logs without dates beside the others of their machine, and messages in the time that others measured; those
/// that move are read again.
fn place_read_logs<T>(
    read_logs: &mut [ReadLog<'_, T>],
    options: &ReadingOptions,
    reporter: &Reporter,
    read: &mut impl FnMut(&GivenLog, &ReadingOptions) -> Result<(T, ReadSummary), IngestError>,
) -> Result<(), IngestError> {
    for indices in group_by_machine(&read_logs.iter().map(|(log, ..)| *log).collect::<Vec<_>>()) {
        let placed = indices.iter().map(|index| {
            let (log, _, summary) = &read_logs[*index];
            PlacedLog { summary, program: log.section().map_or("", |section| section.program.as_str()) }
        });
        let mut places = place_logs(&placed.collect::<Vec<_>>());
        let measured = measured_time(indices.iter().map(|index| &read_logs[*index].2).zip(&places));
        for (index, place) in indices.iter().zip(&mut places) {
            let (log, content, summary) = &mut read_logs[*index];
            if let Some(measured) = measured.as_ref().filter(|_| is_of_messages(summary)) {
                let (placed, placed_summary) = read(log, &options.with_measured(measured.clone()))?;
                if placed_summary.is_placed {
                    (*content, *summary) = (placed, placed_summary);
                    (place.beside, summary.time_basis) = (None, measured.time_basis);
                    continue;
                }
            }
            // what is not moved was read so already
            if place.shift_ns != 0 {
                (*content, *summary) = read(log, &options.with_shift(place.shift_ns))?;
            }
            summary.time_basis = place.time_basis;
        }
        let names: Vec<&str> = indices.iter().map(|index| read_logs[*index].0.name.as_str()).collect();
        report_places(&names, &places, reporter);
    }
    Ok(())
}

/// True for a log of messages, whose events are placed beside what others measured.
fn is_of_messages(summary: &ReadSummary) -> bool {
    summary.format == "kernel-log"
}

/// Returns the time that logs of counters cover; `None` if there is none of them.
fn measured_time<'a>(logs: impl Iterator<Item = (&'a ReadSummary, &'a Placement)>) -> Option<MeasuredTime> {
    let mut measured = MeasuredTime { has_zone: true, ..MeasuredTime::default() };
    let mut whole: Option<(i64, i64)> = None;
    for (summary, place) in logs.filter(|(summary, _)| !is_of_messages(summary)) {
        let Some((from, to)) = summary.range else { continue };
        let moved = |time_ns: i64| time_ns.saturating_add(place.shift_ns);
        let range = (moved(from), moved(to));
        whole = Some(whole.map_or(range, |(first, last)| (first.min(range.0), last.max(range.1))));
        measured.step_ns = measured.step_ns.max(mean_step_ns(summary).unwrap_or(0));
        if measured.host.is_empty() {
            measured.host.clone_from(&summary.host);
        }
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

/// Groups logs by the machines that a text names; logs without a name are with the first.
fn group_by_machine(logs: &[&GivenLog]) -> Vec<Vec<usize>> {
    let host = |log: &GivenLog| log.section().map_or_else(String::new, |section| section.host.clone());
    let mut groups: Vec<(String, Vec<usize>)> = vec![(String::new(), Vec::new())];
    for (index, log) in logs.iter().enumerate() {
        let host = host(log);
        if groups[0].0.is_empty() {
            groups[0].0.clone_from(&host);
        }
        let is_same = |name: &str| host.is_empty() || is_same_host(name, &host);
        match groups.iter_mut().find(|(name, _)| is_same(name)) {
            Some((_, group)) => group.push(index),
            None => groups.push((host, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Reports which logs were placed beside which, and which behind others.
fn report_places(names: &[&str], places: &[Placement], reporter: &Reporter) {
    let list = |is_wanted: &dyn Fn(&Placement) -> bool| {
        let wanted: Vec<&str> =
            names.iter().zip(places).filter(|(_, place)| is_wanted(place)).map(|(name, _)| *name).collect();
        let shown = wanted.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join("; ");
        let more = wanted.len().saturating_sub(MAX_NAMES);
        let text = if more > 0 { format!("{shown} and {more} more") } else { shown };
        (!wanted.is_empty()).then_some(text)
    };
    let beside = places.iter().find(|place| place.round == 0).and_then(|_| {
        let first = places.iter().filter(|place| place.round == 0).find_map(|place| place.beside)?;
        Some((first, list(&|place| place.round == 0 && place.beside.is_some())?))
    });
    if let Some((first, placed)) = beside {
        let name = names[first];
        reporter
            .warn(format_args!("{placed}: without dates, so laid beside {name}, as if recorded in the same minutes"));
    }
    if let Some(later) = list(&|place| place.round > 0) {
        reporter.warn(format_args!(
            "{later}: without dates and of a tool that came before, so read as recorded after it, one run after the \
             other"
        ));
    }
}

/// Maximum number of logs that a message names.
const MAX_NAMES: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::report::Event;

    #[test]
    fn runs_that_follow_each_other_are_not_said_to_be_of_the_same_minutes() {
        let texts: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&texts);
        let reporter = Reporter::new(move |event| {
            if let Event::Warning(text) = event {
                sink.lock().unwrap().push(text);
            }
        });
        let place = |round: usize, beside: Option<usize>| Placement { round, beside, ..Placement::default() };
        report_places(&["a", "b"], &[place(0, None), place(1, Some(0))], &reporter);
        report_places(&["a", "b", "c"], &[place(0, None), place(0, Some(0)), place(1, Some(0))], &reporter);
        let texts = texts.lock().unwrap();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].starts_with("b: without dates and of a tool that came before"), "{texts:?}");
        assert!(texts[1].starts_with("b: without dates, so laid beside a"), "{texts:?}");
        assert!(texts[2].starts_with("c: without dates and of a tool"), "{texts:?}");
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
