//! Selection of a report's charts: one for each finding, then the main counters.
//! A [`ChartBook`] gets the verdict and the log's schemas, reads the log a second
//! time frame by frame, and returns the charts. Memory does not grow with the log.

use std::collections::HashSet;
use std::sync::Arc;

use diskwright_base::catalogue::Counter;
use diskwright_base::counter_ids::{memory, network, paging, physical_disk, pressure, process, processor, system};
use diskwright_base::{Catalogue, CounterKind, CounterPlan, Frame, Schema};
use diskwright_diagnosis::verdict::HoldInterval;
use diskwright_diagnosis::{Finding, Verdict};

use crate::chart_model::{Chart, ChartLine};
use crate::downsample::{ChartBucket, Downsampler};
use crate::svg;
use crate::time;

/// Largest number of buckets of a chart: about one per three pixels of a wide page.
const MAX_BUCKETS: u64 = 240;

/// Largest number of instances of one counter that are followed; the busiest are drawn.
const MAX_INSTANCES: usize = 64;

/// Counters of the appendix, if the log has them.
const MAIN_COUNTERS: &[&str] = &[
    processor::BUSY,
    processor::IOWAIT,
    pressure::CPU_SOME,
    pressure::IO_SOME,
    pressure::MEMORY_SOME,
    system::RUNNING,
    system::BLOCKED,
    memory::AVAILABLE_FRACTION,
    memory::DIRTY_FRACTION,
    paging::SWAP_IN_PAGES_PER_S,
    paging::SWAP_OUT_PAGES_PER_S,
    paging::MAJOR_FAULTS_PER_S,
    physical_disk::TRANSFERS_PER_S,
    physical_disk::BYTES_PER_S,
    physical_disk::AVG_S_PER_TRANSFER,
    physical_disk::AVG_QUEUE_LENGTH,
    physical_disk::BUSY,
    network::RECEIVED_BYTES_PER_S,
    network::SENT_BYTES_PER_S,
];

/// Largest number of charts of counters that are not main ones.
const MAX_OTHER_COUNTERS: usize = 16;

/// Counters of processes, which are sampled more rarely than all others.
const PROCESS_COUNTERS: &[&str] =
    &[process::READ_BYTES_PER_S, process::WRITE_BYTES_PER_S, process::BLOCKED_SHARE, process::PROCESSOR];

/// Usual time between two samples of the processes.
const PROCESS_INTERVAL_NS: i64 = 5_000_000_000;

/// Collects the charts of a report.
pub struct ChartBook {
    from_ns: i64,
    to_ns: i64,
    /// Counter and instance of each followed series.
    series: Vec<(String, String)>,
    /// The findings, each with its position in `series`.
    findings: Vec<(usize, Finding)>,
    /// Counters of the appendix with their positions in `series`.
    main_counters: Vec<(String, Vec<usize>)>,
    sampler: Downsampler,
    /// Counter and process of each series of processes, counter by counter.
    process_series: Vec<(String, String)>,
    process_sampler: Downsampler,
}

impl ChartBook {
    /// Prepares charts of a verdict's findings and of the main counters that occur
    /// in `schemas` (all that the log has), over the window from `from_ns` to
    /// `to_ns`, nanoseconds since 1970 UTC.
    pub fn new(verdict: &Verdict, schemas: &[Arc<Schema>], from_ns: i64, to_ns: i64) -> ChartBook {
        let mut wanted: Vec<(String, String)> = Vec::new();
        let mut follow = |counter: &str, instance: &str| {
            let pair = (counter.to_owned(), instance.to_owned());
            wanted.iter().position(|w| *w == pair).unwrap_or_else(|| {
                wanted.push(pair);
                wanted.len() - 1
            })
        };
        let mut findings = Vec::new();
        for finding in verdict.findings.iter().filter(|f| f.quantity == f.counter) {
            if let Some(instance) = measured_instance(schemas, &finding.counter, &finding.instance) {
                findings.push((follow(&finding.counter, instance), finding.clone()));
            }
        }
        let mut main_charts = |counters: &[&str]| -> Vec<(String, Vec<usize>)> {
            let mut places = |counter: &&str| -> Vec<usize> {
                let instances = counter_instances(schemas, counter, &verdict.findings);
                instances.iter().map(|instance| follow(counter, instance)).collect()
            };
            let charts = counters.iter().map(|counter| ((*counter).to_owned(), places(counter)));
            charts.filter(|(_, places)| !places.is_empty()).collect()
        };
        let mut main_counters = main_charts(MAIN_COUNTERS);
        if main_counters.is_empty() {
            main_counters = main_charts(&other_counters(schemas));
        }
        // a bucket for each tick of a short window; its first tick covers no time within it
        let count = verdict.window.ticks.saturating_sub(1).clamp(20, MAX_BUCKETS) as usize;
        let sampler = Downsampler::new(from_ns, to_ns, count, &wanted);
        let process_series = list_process_series(schemas);
        let process_buckets = ((to_ns - from_ns) / PROCESS_INTERVAL_NS).clamp(1, MAX_BUCKETS as i64) as usize;
        let process_sampler = Downsampler::new(from_ns, to_ns, process_buckets, &process_series);
        ChartBook { from_ns, to_ns, series: wanted, findings, main_counters, sampler, process_series, process_sampler }
    }

    /// Sets whether the log is read from its beginning; see [`Downsampler::from_beginning`].
    pub fn from_beginning(self, whole_ticks: bool) -> ChartBook {
        ChartBook { sampler: self.sampler.from_beginning(whole_ticks), ..self }
    }

    /// Adds a frame of the log.
    pub fn push(&mut self, frame: &Frame) {
        self.sampler.push(frame);
        self.process_sampler.push(frame);
    }

    /// Returns the charts: first those of the findings, in their order, then the main counters.
    pub fn finish(self) -> Vec<Chart> {
        let buckets = self.sampler.finish();
        let line = |index: usize| ChartLine { instance: self.series[index].1.clone(), buckets: buckets[index].clone() };
        let mut charts = Vec::new();
        for (index, finding) in &self.findings {
            let mut chart = Chart::new(&self.series[*index].0, self.from_ns, self.to_ns, vec![line(*index)]);
            mark_finding(&mut chart, finding);
            charts.push(chart);
        }
        for (counter, indices) in &self.main_counters {
            // a single series that the chart of a finding shows already
            let is_shown = indices.len() == 1 && self.findings.iter().any(|(index, _)| *index == indices[0]);
            let lines = busiest_lines(indices.iter().map(|&index| line(index)).collect());
            if !is_shown && !lines.is_empty() {
                charts.push(Chart::new(counter, self.from_ns, self.to_ns, lines));
            }
        }
        let process_lines = self.process_series.into_iter().zip(self.process_sampler.finish());
        let mut by_counter: Vec<(String, Vec<ChartLine>)> = Vec::new();
        for ((counter, instance), buckets) in process_lines {
            let line = ChartLine { instance, buckets };
            match by_counter.last_mut() {
                Some((last, lines)) if *last == counter => lines.push(line),
                _ => by_counter.push((counter, vec![line])),
            }
        }
        for (counter, lines) in by_counter {
            let lines = busiest_lines(lines);
            // a chart that stays at zero is left out: for example, of processes that never waited
            if lines.iter().any(|line| line.summary().is_some_and(|(_, _, max)| max > 0.0)) {
                charts.push(Chart::new(&counter, self.from_ns, self.to_ns, lines));
            }
        }
        charts
    }
}

/// Returns the first counters of a log that has none of the main ones; formulas before the totals that they use.
fn other_counters(schemas: &[Arc<Schema>]) -> Vec<&'static str> {
    let has = |counter: &&Counter| {
        counter.object_name() != "process" && !counter_instances(schemas, &counter.id, &[]).is_empty()
    };
    let (totals, others): (Vec<_>, Vec<_>) =
        Catalogue::builtin().counters().iter().filter(has).partition(|counter| counter.kind == CounterKind::Total);
    others.into_iter().chain(totals).take(MAX_OTHER_COUNTERS).map(|counter| counter.id.as_str()).collect()
}

/// Returns the counters of processes with their instances, as far as the log has them.
fn list_process_series(schemas: &[Arc<Schema>]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for counter in PROCESS_COUNTERS {
        let mut seen = HashSet::new();
        for schema in schemas {
            let instances = schema.instances("process").into_iter().filter(|i| !["_total", "idle"].contains(i));
            for instance in instances.filter(|i| schema.column(counter, i).is_some() && seen.insert((*i).to_owned())) {
                found.push(((*counter).to_owned(), instance.to_owned()));
            }
        }
    }
    found
}

/// Returns the key that ties a chart to its finding: rule and instance.
pub(crate) fn finding_id(finding: &Finding) -> String {
    format!("{} {}", finding.rule, finding.instance)
}

/// Marks a chart as that of a finding: its key, limit and held intervals.
pub(crate) fn mark_finding(chart: &mut Chart, finding: &Finding) {
    chart.finding = Some(finding_id(finding));
    chart.limit = Some(finding.limit).filter(|_| chart.unit == finding.unit);
    chart.shaded_intervals = held_intervals(finding);
}

/// Returns the intervals in which a finding held, to be shaded in its chart. Only
/// this function reads the finding's stretches.
fn held_intervals(finding: &Finding) -> Vec<(i64, i64)> {
    let times = |s: &HoldInterval| Some((time::parse_rfc3339(&s.from)?, time::parse_rfc3339(&s.to)?));
    finding.stretches.iter().filter_map(times).collect()
}

/// Smallest share of a window's time that its ticks must cover for a chart of a finding's own points.
const MIN_COVERED_SHARE: f64 = 0.95;

/// Charts the finding's own points, for a quantity that is not itself a counter.
/// Returns `None` if nothing was measured or if much of the window has no ticks:
/// the points divide the ticks evenly, not the time, so points after a gap would
/// stand at wrong times and the gap would be drawn over.
pub(crate) fn finding_chart(verdict: &Verdict, finding: &Finding) -> Option<Chart> {
    let (from_ns, to_ns) = (time::parse_rfc3339(&verdict.window.from)?, time::parse_rfc3339(&verdict.window.to)?);
    let span_s = to_ns.saturating_sub(from_ns) as f64 / 1e9;
    if verdict.window.seconds < MIN_COVERED_SHARE * span_s {
        return None;
    }
    let bucket = |v: &Option<f64>| ChartBucket::from_value(*v);
    let line = ChartLine { instance: finding.instance.clone(), buckets: finding.series.iter().map(bucket).collect() };
    line.summary()?;
    let mut chart = Chart::new(&finding.counter, from_ns, to_ns, vec![line]);
    chart.title = finding.quantity.clone();
    chart.unit = finding.unit.clone();
    mark_finding(&mut chart, finding);
    Some(chart)
}

/// Returns the instance under which a finding's counter is measured: the finding's
/// instance, or the only one or the total if the finding is about the machine.
fn measured_instance<'a>(schemas: &'a [Arc<Schema>], counter: &str, instance: &'a str) -> Option<&'a str> {
    let is_measured =
        |i: &str| schemas.iter().any(|s| CounterPlan::resolve_counter(Catalogue::builtin(), s, counter, i).is_some());
    if is_measured(instance) {
        return Some(instance);
    }
    ["", "_total"].into_iter().find(|i| is_measured(i))
}

/// Returns the instances of a counter: only the total if it exists, otherwise all
/// up to a limit, those with a finding first.
fn counter_instances<'a>(schemas: &'a [Arc<Schema>], counter: &str, findings: &'a [Finding]) -> Vec<&'a str> {
    let object = counter.split('.').next().unwrap_or(counter);
    let mut found: Vec<&str> = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for schema in schemas {
        for instance in schema.instances(object) {
            let has_counter =
                || CounterPlan::resolve_counter(Catalogue::builtin(), schema, counter, instance).is_some();
            if !seen.contains(instance) && has_counter() {
                seen.insert(instance);
                found.push(instance);
            }
        }
    }
    if found.contains(&"_total") {
        return vec!["_total"];
    }
    found.sort_by_key(|i| !findings.iter().any(|f| f.instance == *i));
    found.truncate(MAX_INSTANCES);
    found
}

/// Returns the lines with the highest means, busiest first. Lines that were always
/// zero are left out, unless all were.
fn busiest_lines(mut lines: Vec<ChartLine>) -> Vec<ChartLine> {
    let mean = |l: &ChartLine| l.summary().map(|(_, mean, _)| mean);
    lines.retain(|l| l.buckets.iter().any(|b| !ChartBucket::is_gap(b)));
    if lines.iter().any(|l| mean(l) != Some(0.0)) {
        lines.retain(|l| mean(l) != Some(0.0));
    } else {
        lines.truncate(1);
    }
    lines.sort_by(|a, b| mean(b).unwrap_or(0.0).total_cmp(&mean(a).unwrap_or(0.0)));
    lines.truncate(svg::MAX_LINES);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use diskwright_base::{Series, Tick};

    fn sample_schema(disks: &[&str]) -> Arc<Schema> {
        let mut series = vec![Series { counter: "pressure.io_some_s".into(), instance: String::new(), scale: 1e-6 }];
        for disk in disks {
            for counter in ["physical_disk.weighted_time_s", "physical_disk.reads", "physical_disk.writes"] {
                series.push(Series { counter: counter.into(), instance: (*disk).into(), scale: 1e-3 });
            }
        }
        Arc::new(Schema::new(series))
    }

    fn sample_book(disks: &[&str], row: impl Fn(usize) -> f64) -> Vec<Chart> {
        let schema = sample_schema(disks);
        let (from, to) = (fixture::FROM_NS, fixture::FROM_NS + 10_000_000_000);
        let mut book = ChartBook::new(&fixture::sample_verdict(), std::slice::from_ref(&schema), from, to);
        let mut frame = Frame::new(schema.clone(), 10);
        for i in 1..=10 {
            let tick = Tick { time_ns: from + i * 1_000_000_000, elapsed_ns: 1_000_000_000 };
            let cells: Vec<f64> = (0..schema.series.len()).map(&row).collect();
            frame.push(tick, &cells);
        }
        book.push(&frame);
        book.finish()
    }

    #[test]
    fn findings_come_first_with_limit_and_held_intervals() {
        let charts = sample_book(&["sda", "sdb"], |_| 500.0);
        assert_eq!(charts[0].counter, "physical_disk.avg_queue_length");
        assert_eq!(charts[0].lines[0].instance, "sda");
        assert_eq!(charts[0].limit, Some(2.0));
        assert_eq!(charts[0].shaded_intervals.len(), 2);
        assert!((charts[0].lines[0].summary().unwrap().1 - 0.5).abs() < 1e-9);
        // the second finding's counter comes from the weighted time where the others lack
        assert_eq!(charts[1].counter, "physical_disk.avg_s_per_transfer");
        assert_eq!(charts[2].counter, "pressure.io_some");
    }

    #[test]
    fn omits_a_finding_chart_where_the_window_has_gaps() {
        let mut verdict = fixture::sample_verdict();
        let finding = verdict.findings[0].clone();
        assert!(finding_chart(&verdict, &finding).is_some());
        // half an hour in the middle of an hour
        (verdict.window.from, verdict.window.to) = ("2026-11-21T22:00:00Z".into(), "2026-11-21T23:00:00Z".into());
        verdict.window.seconds = 1800.0;
        assert_eq!(finding_chart(&verdict, &finding), None);
    }

    #[test]
    fn idle_disks_are_left_out_and_the_busiest_lead() {
        // series 0 is pressure; then three a disk
        let charts = sample_book(&["sda", "sdb", "sdc"], |index| match index {
            0 => 1.0,
            1..=3 => 0.0,
            4..=6 => 10.0,
            _ => 20.0,
        });
        let transfers = charts.iter().find(|c| c.counter == "physical_disk.transfers_per_s").unwrap();
        let names: Vec<&str> = transfers.lines.iter().map(|l| l.instance.as_str()).collect();
        assert_eq!(names, ["sdc", "sdb"]);
    }

    #[test]
    fn a_thousand_disks_give_few_lines() {
        let names: Vec<String> = (0..1000).map(|i| format!("sd{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let charts = sample_book(&names, |_| 1.0);
        assert!(charts.iter().all(|c| c.lines.len() <= svg::MAX_LINES));
        assert!(charts.len() <= 3 + MAIN_COUNTERS.len());
    }
}
