//! Places logs without dates beside the others: they were posted together, so they are of the same minutes.

use std::collections::BTreeSet;

use diskwright_logs::{ReadSummary, TimeBasis};

pub const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;
/// Time between two reports, if a log has only one.
const ONE_SECOND_NS: i64 = 1_000_000_000;

/// Place of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placement {
    /// Time by which it is moved, nanoseconds.
    pub shift_ns: i64,
    /// Basis of its times then.
    pub time_basis: TimeBasis,
    /// Index of the log that it was placed by.
    pub beside: Option<usize>,
    /// Number of times that its tool stood there before: it begins when all before it have ended.
    pub round: usize,
}

/// A log to be placed.
pub struct PlacedLog<'a> {
    pub summary: &'a ReadSummary,
    /// The program that wrote it, if a text names it: a reader may read several.
    pub program: &'a str,
}

/// Returns the place of each log, in the order given.
///
/// A log with times of day only is read as of the day of a dated one. A log without times begins at the end of the
/// first report of a dated one, or with the first of its kind; a second one of the same tool begins when all before it
/// have ended.
pub fn place_logs(logs: &[PlacedLog<'_>]) -> Vec<Placement> {
    let summaries: Vec<&ReadSummary> = logs.iter().map(|log| log.summary).collect();
    let unmoved = |summary: &&ReadSummary| Placement { time_basis: summary.time_basis, ..Placement::default() };
    let mut places: Vec<Placement> = summaries.iter().map(unmoved).collect();
    let find = |is_wanted: &dyn Fn(TimeBasis) -> bool| {
        summaries.iter().position(|summary| is_wanted(summary.time_basis) && summary.range.is_some())
    };
    let dated = find(&|basis| basis < TimeBasis::NoDate);
    let timed = dated.or_else(|| find(&|basis| basis == TimeBasis::NoDate));
    for (index, summary) in summaries.iter().enumerate() {
        if let (TimeBasis::NoDate, Some(dated)) = (summary.time_basis, dated)
            && let (Some((from, _)), Some((reference, _))) = (summary.range, summaries[dated].range)
        {
            let days = (reference - from + DAY_NS / 2).div_euclid(DAY_NS);
            let time_basis = summaries[dated].time_basis;
            places[index] = Placement { shift_ns: days * DAY_NS, time_basis, beside: Some(dated), round: 0 };
        }
    }
    let is_counted = |summary: &ReadSummary| summary.time_basis >= TimeBasis::Counted;
    let Some(first) = timed.or_else(|| find(&|basis| basis >= TimeBasis::Counted)) else { return places };
    let Some((first_from, _)) = summaries[first].range else { return places };
    let mut round_ns = first_from.saturating_add(places[first].shift_ns);
    let mut end_ns = round_ns;
    let mut round = 0;
    let mut tools: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, summary) in summaries.iter().enumerate().filter(|(_, summary)| is_counted(summary)) {
        let Some((from, until)) = summary.range else { continue };
        let tool = (summary.format, logs[index].program);
        if tools.contains(&tool) {
            round_ns = end_ns.saturating_add(mean_step_ns(summary).map_or(ONE_SECOND_NS, |step_ns| step_ns.max(1)));
            round += 1;
            tools.clear();
        }
        tools.insert(tool);
        end_ns = end_ns.max(round_ns.saturating_add(until - from));
        let time_basis = timed.map_or(summary.time_basis, |timed| places[timed].time_basis);
        let beside = (index != first).then_some(first);
        places[index] = Placement { shift_ns: round_ns - from, time_basis, beside, round };
    }
    places
}

/// Mean time between a log's reports; `None` if it has only one.
pub fn mean_step_ns(summary: &ReadSummary) -> Option<i64> {
    let (from, until) = summary.range?;
    let steps = i64::try_from(summary.ticks.saturating_sub(1)).unwrap_or(i64::MAX);
    (steps > 0).then(|| (until - from) / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(format: &'static str, time_basis: TimeBasis, from_s: i64, until_s: i64) -> ReadSummary {
        let range = Some((from_s * ONE_SECOND_NS, until_s * ONE_SECOND_NS));
        let ticks = (until_s - from_s + 1).unsigned_abs();
        ReadSummary { format, time_basis, range, ticks, ..ReadSummary::default() }
    }

    fn begins(summaries: &[ReadSummary]) -> Vec<i64> {
        let logs: Vec<PlacedLog<'_>> = summaries.iter().map(|summary| PlacedLog { summary, program: "" }).collect();
        let places = place_logs(&logs);
        let begin = |(summary, place): (&ReadSummary, &Placement)| {
            (summary.range.map_or(0, |range| range.0) + place.shift_ns) / ONE_SECOND_NS
        };
        summaries.iter().zip(&places).map(begin).collect()
    }

    #[test]
    fn logs_without_times_begin_together() {
        use TimeBasis::{Counted, NoDate, NoZone, Utc};
        let (vmstat, iostat) = ("vmstat-text", "iostat-text");
        for (logs, wanted) in [
            (vec![summary(vmstat, Counted, 1, 9), summary(iostat, Counted, 5, 7)], vec![1, 1]),
            (vec![summary(vmstat, Counted, 1, 9), summary("sar-text", NoZone, 5000, 5009)], vec![5000, 5000]),
            (vec![summary("top-text", NoDate, 50_000, 50_000), summary(vmstat, Counted, 1, 9)], vec![50_000, 50_000]),
            // of the same tool, one after the other; the other tool goes with them
            (
                vec![
                    summary(vmstat, Counted, 1, 9),
                    summary(iostat, Counted, 1, 5),
                    summary(vmstat, Counted, 1, 9),
                    summary(iostat, Counted, 1, 5),
                ],
                vec![1, 1, 10, 10],
            ),
            // the day of the dated log
            (
                vec![
                    summary("sar-text", Utc, 86_400 * 20_000 + 100, 86_400 * 20_000 + 200),
                    summary("top-text", NoDate, 86_390, 86_390),
                ],
                vec![86_400 * 20_000 + 100, 86_400 * 20_000 - 10],
            ),
            (vec![summary(vmstat, Utc, 7, 9), summary(iostat, NoZone, 3, 4)], vec![7, 3]),
        ] {
            assert_eq!(begins(&logs), wanted, "{logs:?}");
        }
    }

    #[test]
    fn outputs_of_two_programs_that_one_reader_reads_begin_together() {
        let df = summary("snapshot-text", TimeBasis::Reports, 0, 0);
        let programs = ["df", "free", "df"];
        let logs: Vec<PlacedLog<'_>> = programs.iter().map(|program| PlacedLog { summary: &df, program }).collect();
        let places = place_logs(&logs);
        let found: Vec<(i64, usize)> =
            places.iter().map(|place| (place.shift_ns / ONE_SECOND_NS, place.round)).collect();
        assert_eq!(found, [(0, 0), (0, 0), (1, 1)]);
    }
}
