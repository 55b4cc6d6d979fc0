//! Mapping of metrics to counters. The catalogue names the metrics, the archive gives their units; `special.toml` holds
//! the few that neither determines.

use std::collections::HashMap;
use std::sync::OnceLock;

use diskwright_base::toml_reader;
use diskwright_base::{Catalogue, Counter, catalogue};
use serde::Deserialize;

use super::metadata::{Metric, Semantics};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecialMetrics {
    sum: Vec<String>,
    instance: Vec<ByInstance>,
    unit: Vec<Unit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByInstance {
    metric: String,
    instance: String,
    counter: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unit {
    metrics: Vec<String>,
    /// Bytes of one unit; without it, the units are pages.
    bytes: Option<f64>,
    #[allow(dead_code, reason = "for the reader of the file")]
    source: String,
}

fn special_metrics() -> &'static SpecialMetrics {
    static SPECIAL: OnceLock<SpecialMetrics> = OnceLock::new();
    SPECIAL.get_or_init(|| toml_reader::read_built_in("pcp/special.toml", include_str!("special.toml")))
}

/// Conversion of a metric's values to cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PcpConversion {
    /// The value itself.
    Level,
    /// Growth within the tick.
    Total,
    /// Growth per second.
    Rate,
}

/// A counter that a metric supplies.
#[derive(Clone, Debug)]
pub(super) struct PcpTarget {
    pub counter: String,
    pub conversion: PcpConversion,
    pub scale: f64,
    /// Other metrics add to the same counter.
    pub is_sum: bool,
    /// The only instance that it covers.
    pub only_instance: Option<&'static str>,
}

/// Use of a metric.
#[derive(Clone, Debug)]
pub(super) enum MetricUse {
    /// Columns, one for each instance and target.
    Series(Vec<PcpTarget>),
    /// A field of the process table.
    Process(&'static str),
    /// It is not used; the reason is reported once for all metrics of the kind.
    Unused(&'static str),
}

/// Plans the use of each metric, in their order. `page_bytes` is the size of a page.
pub(super) fn plan_metrics(metrics: &[Metric], page_bytes: Option<f64>) -> Vec<MetricUse> {
    let by_name: HashMap<&str, &Metric> = metrics.iter().map(|m| (m.name.as_str(), m)).collect();
    let counters = counters_by_metric();
    metrics.iter().map(|m| plan_metric(m, counters.get(m.name.as_str()), &by_name, page_bytes)).collect()
}

/// Returns the catalogue's counters by metric.
fn counters_by_metric() -> &'static HashMap<&'static str, Vec<&'static Counter>> {
    static NAMED: OnceLock<HashMap<&str, Vec<&Counter>>> = OnceLock::new();
    NAMED.get_or_init(|| {
        let mut counters: HashMap<&str, Vec<&Counter>> = HashMap::new();
        for counter in Catalogue::builtin().counters() {
            for name in &counter.names.pcp {
                counters.entry(name).or_default().push(counter);
            }
        }
        counters
    })
}

/// Metrics of the fields of the process table, without `proc.` or `hotproc.` before them.
pub(super) const PROCESS_FIELDS: &[&str] = &[
    "psinfo.utime",
    "psinfo.stime",
    "psinfo.maj_flt",
    "psinfo.delayacct_blkio_time",
    "psinfo.rss",
    "psinfo.sname",
    "psinfo.cgroups",
    "psinfo.wchan_s",
    "memory.vmswap",
    "io.read_bytes",
    "io.write_bytes",
    "io.rchar",
    "io.wchar",
    "io.syscr",
    "io.syscw",
];

fn plan_metric(
    metric: &Metric,
    counters: Option<&Vec<&'static Counter>>,
    by_name: &HashMap<&str, &Metric>,
    page_bytes: Option<f64>,
) -> MetricUse {
    for prefix in ["proc.", "hotproc."] {
        if let Some(rest) = metric.name.strip_prefix(prefix)
            && metric.name != "proc.nprocs"
        {
            let field = PROCESS_FIELDS.iter().find(|f| **f == rest);
            return field.map_or(MetricUse::Unused("process metrics that the process table does not have"), |f| {
                MetricUse::Process(f)
            });
        }
    }
    if !metric.value_type.is_number() {
        return MetricUse::Unused("metrics whose values are not numbers");
    }
    if metric.name.starts_with("pmcd.") {
        return MetricUse::Unused("metrics about the collector itself");
    }
    let mut targets: Vec<PcpTarget> = Vec::new();
    for counter in counters.into_iter().flatten() {
        if !has_better_metric(metric, counter, by_name) {
            targets.extend(find_target(metric, counter, page_bytes));
        }
    }
    if targets.is_empty() {
        targets.push(foreign_target(metric));
    }
    MetricUse::Series(targets)
}

/// Returns true if another metric of the archive supplies the same counter better.
fn has_better_metric(metric: &Metric, counter: &Counter, by_name: &HashMap<&str, &Metric>) -> bool {
    let better = counter.names.pcp.iter().take_while(|n| **n != metric.name);
    let is_sum = special_metrics().sum.contains(&counter.id);
    !is_sum && better.filter_map(|n| by_name.get(n.as_str())).any(|other| other.indom == metric.indom)
}

/// Returns the counter's target, if the metric's meaning and unit fit.
fn find_target(metric: &Metric, counter: &'static Counter, page_bytes: Option<f64>) -> Option<PcpTarget> {
    let is_counter = metric.semantics == Semantics::Counter;
    let conversion = match counter.kind {
        catalogue::CounterKind::Total if is_counter => PcpConversion::Total,
        catalogue::CounterKind::Rate | catalogue::CounterKind::BusyFraction if is_counter => PcpConversion::Rate,
        catalogue::CounterKind::Total => return None,
        _ if is_counter => return None,
        _ => PcpConversion::Level,
    };
    let per_time = i8::from(conversion == PcpConversion::Rate);
    let unit = special_metrics().unit.iter().find(|u| u.metrics.contains(&metric.name));
    let scale = match unit {
        Some(unit) => unit.bytes.or(page_bytes)?,
        None if metric.units.has_dimensions_of(&counter.unit, per_time) => metric.units.to_base_factor()?,
        None => return None,
    };
    let instance = special_metrics().instance.iter().find(|i| i.metric == metric.name && i.counter == counter.id);
    let instance = instance.map(|i| i.instance.as_str());
    let is_sum = special_metrics().sum.contains(&counter.id);
    Some(PcpTarget { counter: counter.id.clone(), conversion, scale, is_sum, only_instance: instance })
}

fn foreign_target(metric: &Metric) -> PcpTarget {
    let conversion = if metric.semantics == Semantics::Counter { PcpConversion::Rate } else { PcpConversion::Level };
    PcpTarget {
        counter: format!("foreign.{}", metric.name),
        conversion,
        scale: 1.0,
        is_sum: false,
        only_instance: None,
    }
}

impl PcpTarget {
    /// Returns true if the catalogue has the counter.
    pub fn is_known(&self) -> bool {
        !self.counter.starts_with("foreign.")
    }

    /// Returns true for a counter of disks.
    pub fn is_disk(&self) -> bool {
        self.counter.starts_with("physical_disk.")
    }

    /// Maps an instance of PCP's to the catalogue's; `None` if this target does not cover it.
    pub fn map_instance<'a>(&self, name: Option<&'a str>) -> Option<&'a str> {
        if let Some(only) = self.only_instance {
            return (name == Some(only)).then_some("");
        }
        Some(match name {
            None if self.counter.starts_with("processor.") => "_total",
            None => "",
            Some(name) => name,
        })
    }
}
