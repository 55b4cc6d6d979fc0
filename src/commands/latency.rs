//! Recorded latency distributions over a window: merged exactly, step by step, with a heat map of each.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::latency::bucket_edges;
use diskwright_base::latency_series::{histogram_from_steps, parse_step_series};
use diskwright_base::units;
use diskwright_base::{Frame, LatencyColumns, LatencyHistogram, LatencyOperation, LogPiece};
use diskwright_blocktrace::HeatMap;
use diskwright_blocktrace::summary::heat_row;
use diskwright_report::heat_map::HeatChart;
use diskwright_report::{Align, Style, TextTable};
use serde_json::{Value, json};

use super::Failure;
use super::instance_patterns::{matches_pattern, missing_instance_failure, unknown_instance_failure};
use super::log::Logs;
use super::trace::heat_map;

/// Maximum number of columns of a heat map.
const MAX_HEAT_COLUMNS: i64 = 240;
/// Percentiles that are reported.
const REPORTED_PERCENTILES: [(&str, f64); 4] = [("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99), ("p99_9_s", 0.999)];

/// The requests of one operation on one device.
pub struct RecordedLatency {
    /// All requests of the window.
    pub all: LatencyHistogram,
    heat: HeatMap,
}

/// Latency distributions of a window.
pub struct LatencyWindow {
    range: (i64, i64),
    groups: BTreeMap<(String, LatencyOperation), RecordedLatency>,
    /// All traced devices, selected or not.
    devices: BTreeSet<String>,
}

impl LatencyWindow {
    /// Reads all distributions; `logs` must deliver steps.
    pub fn read(logs: &Logs, instances: &[String]) -> Result<LatencyWindow, Failure> {
        let mut window = LatencyWindow { range: logs.range_ns, groups: BTreeMap::new(), devices: BTreeSet::new() };
        logs.read::<Failure>(|piece| {
            if let LogPiece::Frame(frame) = piece
                && frame.schema().series.iter().any(|series| parse_step_series(series).is_some())
            {
                window.add_frame(frame, instances);
            }
            Ok(())
        })?;
        Ok(window)
    }

    fn add_frame(&mut self, frame: &Frame, instances: &[String]) {
        let is_selected = |device: &str| instances.is_empty() || instances.iter().any(|p| matches_pattern(p, device));
        let (from, to) = self.range;
        // one column per second, or wider ones for a longer window
        let column_ns = ((to - from) / MAX_HEAT_COLUMNS).max(1_000_000_000) as u64;
        for group in LatencyColumns::from_schema(frame.schema()).groups {
            if !self.devices.contains(&group.device) {
                self.devices.insert(group.device.clone());
            }
            if !is_selected(&group.device) {
                continue;
            }
            let key = (group.device.clone(), group.operation);
            for (index, tick) in frame.ticks().iter().enumerate() {
                let steps = group.sum_steps(frame, index..index + 1);
                if steps.is_empty() {
                    continue;
                }
                let new_latency =
                    || RecordedLatency { all: LatencyHistogram::default(), heat: HeatMap::new(0, column_ns) };
                let recorded = self.groups.entry(key.clone()).or_insert_with(new_latency);
                recorded.all.merge(&histogram_from_steps(&steps));
                let middle_ns = tick.time_ns - i64::try_from(tick.elapsed_ns / 2).unwrap_or(0) - from;
                for (step, count) in steps {
                    let completion_ns = u64::try_from(middle_ns).unwrap_or(0);
                    recorded.heat.add_requests(completion_ns, heat_row(bucket_edges(step).0), count);
                }
            }
        }
    }

    /// True if nothing was traced.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the failure if a given device was not traced and others were.
    pub fn missing_device_failure(&self, patterns: &[String]) -> Option<Failure> {
        let is_selected = |device: &&str| patterns.iter().any(|pattern| matches_pattern(pattern, device));
        let (found, others): (BTreeSet<&str>, BTreeSet<&str>) =
            self.devices.iter().map(String::as_str).partition(is_selected);
        if patterns.is_empty() {
            None
        } else if found.is_empty() {
            unknown_instance_failure(patterns, &others)
        } else {
            missing_instance_failure(patterns, &found, &others)
        }
    }

    /// Distributions by device and operation.
    pub fn groups(&self) -> impl Iterator<Item = (&str, LatencyOperation, &RecordedLatency)> {
        self.groups.iter().map(|((device, operation), recorded)| (device.as_str(), *operation, recorded))
    }

    /// Distribution of one device and operation.
    pub fn group(&self, device: &str, operation: LatencyOperation) -> Option<&RecordedLatency> {
        self.groups.get(&(device.to_owned(), operation))
    }

    /// Returns all distributions as JSON.
    pub fn to_json_groups(&self) -> Vec<Value> {
        self.groups()
            .map(|(device, operation, recorded)| {
                let mut object = histogram_figures(&recorded.all);
                object["device"] = device.into();
                object["operation"] = operation.name().into();
                object["steps"] = recorded
                    .all
                    .nonempty_buckets()
                    .map(|(step, count)| json!([bucket_edges(step).0, count]))
                    .collect::<Vec<Value>>()
                    .into();
                object
            })
            .collect()
    }

    /// Draws a table and maps as text.
    pub fn draw_text(&self, style: &Style) -> String {
        let mut table = TextTable::new()
            .with_text_column("device")
            .with_text_column("operation")
            .with_column("requests", Align::Right);
        for title in ["mean", "50 %", "90 %", "99 %", "99.9 %", "longest"] {
            table = table.with_column(title, Align::Right);
        }
        let (from, to) = self.range;
        let mut maps = String::new();
        for (device, operation, recorded) in self.groups() {
            let all = &recorded.all;
            let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| units::format_value(ns / 1e9, "s"));
            let mut row = vec![style.clean_text(device), operation.title().to_owned(), all.count().to_string()];
            row.push(time(all.mean_ns()));
            row.extend(REPORTED_PERCENTILES.map(|(_, share)| time(all.percentile_ns(share))));
            row.push(time(all.longest_ns().map(|ns| ns as f64)));
            table.add_row(row);
            let map = heat_map::draw_heat_map(&[&recorded.heat], 0, (to - from).max(1) as u64, style);
            maps.push_str(&format!("\n{}, {} over time\n{map}", style.clean_text(device), operation.title()));
        }
        format!("{}{maps}", table.render(style))
    }

    /// Heat maps for a page.
    pub fn heat_charts(&self) -> Vec<HeatChart> {
        let (from_ns, to_ns) = self.range;
        let chart = |(device, operation, recorded): (&str, LatencyOperation, &RecordedLatency)| {
            let width = (to_ns - from_ns).max(1) as u64;
            let columns = (width.div_ceil(recorded.heat.column_ns) as usize).clamp(1, MAX_HEAT_COLUMNS as usize);
            let cells = heat_map::count_cells(&[&recorded.heat], 0, width, columns);
            let time = |share: f64| recorded.all.percentile_ns(share).map(|ns| ns / 1e9);
            HeatChart {
                title: format!("{device}: {}", operation.title()),
                from_ns,
                to_ns,
                requests: recorded.all.count(),
                median_s: time(0.5),
                p99_s: time(0.99),
                longest_s: recorded.all.longest_ns().map(|ns| ns as f64 / 1e9),
                labels: (0..cells[0].len()).map(heat_map::row_label).collect(),
                columns: cells.iter().map(|column| column.to_vec()).collect(),
            }
        };
        self.groups().map(chart).collect()
    }
}

/// Count, mean, percentiles and maximum; `null` if unknown.
fn histogram_figures(all: &LatencyHistogram) -> Value {
    let seconds = |ns: Option<f64>| ns.map(|ns| ns / 1e9);
    let mut object = json!({
        "requests": all.count(),
        "mean_s": seconds(all.mean_ns()),
        "longest_s": seconds(all.longest_ns().map(|ns| ns as f64)),
    });
    for (name, share) in REPORTED_PERCENTILES {
        object[name] = seconds(all.percentile_ns(share)).into();
    }
    object
}

/// Compares two windows, as JSON.
pub fn compare_windows(before: &LatencyWindow, after: &LatencyWindow) -> Vec<Value> {
    let pairs = before.groups().filter_map(|(device, operation, first)| {
        let second = after.group(device, operation)?;
        Some(json!({
            "device": device,
            "operation": operation.name(),
            "before": histogram_figures(&first.all),
            "after": histogram_figures(&second.all),
        }))
    });
    pairs.collect()
}

/// Compares two windows in a table; empty if either has no distributions.
pub fn compare_as_text(before: &LatencyWindow, after: &LatencyWindow, style: &Style) -> String {
    let mut table = TextTable::new().with_text_column("latency of single requests");
    for title in ["requests", "50 %", "99 %", "longest", "then", "50 %", "99 %", "longest"] {
        table = table.with_column(title, Align::Right);
    }
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| units::format_value(ns / 1e9, "s"));
    let mut has_rows = false;
    for (device, operation, first) in before.groups() {
        let Some(second) = after.group(device, operation) else { continue };
        has_rows = true;
        let mut row = vec![format!("{}, {}", style.clean_text(device), operation.title())];
        for all in [&first.all, &second.all] {
            row.push(all.count().to_string());
            row.extend([0.5, 0.99].map(|share| time(all.percentile_ns(share))));
            row.push(time(all.longest_ns().map(|ns| ns as f64)));
        }
        table.add_row(row);
    }
    if has_rows { format!("\n{}", table.render(style)) } else { String::new() }
}
