//! Vocabulary: the mapping from a metric and its labels to counters of the catalogue.
//!
//! Most of it is the catalogue's own list of Prometheus names; `names.toml` in this folder holds what that list lacks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use diskwright_base::prometheus_names::{label_name, metric_name};
use diskwright_base::toml_reader;
use diskwright_base::{Catalogue, CounterKind};
use serde::Deserialize;

/// Conversion of a metric's value to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricConversion {
    /// A running total; the cell is its growth within the tick.
    Added,
    /// A running total; the cell is its growth per second.
    Rate,
    /// A gauge; the cell is the value.
    Level,
}

impl MetricConversion {
    /// Returns true if the metric is a running total.
    pub fn is_total(self) -> bool {
        self != MetricConversion::Level
    }
}

/// One mapping from a metric to a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSource {
    /// Metric; `windows_…` also stands for `wmi_…`.
    pub metric: String,
    /// Labels that must have these values.
    pub required_labels: Vec<(String, String)>,
    /// Canonical counter id.
    pub counter: String,
    /// Label that names the instance; `None` if there is only one.
    pub instance_label: Option<String>,
    instance_form: Option<String>,
    instance_prefix: Option<String>,
    excluded_labels: Vec<(String, Vec<String>)>,
    /// Conversion of the value.
    pub conversion: MetricConversion,
    /// Factor from a cell to the counter's unit.
    pub scale: f64,
    /// Set if the cell is 1 minus the value.
    pub is_complement: bool,
    /// Set if series of this metric for one instance add up; else the largest counts.
    pub is_summed: bool,
    /// Set if several metrics make up the counter; else the first that exists does.
    pub is_part: bool,
    /// Set if a value that is not above zero means unknown.
    pub is_positive_only: bool,
}

impl MetricSource {
    /// Returns the catalogue's name of the instance that these labels mean; `None` if the series is not for this
    /// counter.
    pub fn map_instance<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
        if !self.required_labels.iter().all(|(name, value)| label(name) == Some(value)) {
            return None;
        }
        let is_excluded = |(name, values): &(String, Vec<String>)| {
            label(name).is_some_and(|found| values.iter().any(|pattern| matches_pattern(pattern, found)))
        };
        if self.excluded_labels.iter().any(is_excluded) {
            return None;
        }
        let Some(name) = &self.instance_label else { return Some(String::new()) };
        let value = label(name).unwrap_or_default();
        let value = self.instance_prefix.as_deref().and_then(|start| value.strip_prefix(start)).unwrap_or(value);
        Some(match &self.instance_form {
            // a name that has the form already stays as it is
            Some(form) if value != "_total" && !value.starts_with(form.trim_end_matches("{}")) => {
                form.replace("{}", value)
            }
            _ => value.to_owned(),
        })
    }

    /// Labels of the metric that a query must keep for [`MetricSource::map_instance`].
    pub fn query_labels(&self) -> impl Iterator<Item = &str> {
        let required = self.required_labels.iter().map(|(name, _)| name.as_str());
        let excluded = self.excluded_labels.iter().map(|(name, _)| name.as_str());
        self.instance_label.as_deref().into_iter().chain(required).chain(excluded)
    }
}

/// Matches a value; a `*` at either end of the pattern stands for anything.
fn matches_pattern(pattern: &str, value: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(tail), _) => value.ends_with(tail),
        (_, Some(head)) => value.starts_with(head),
        _ => pattern == value,
    }
}

/// All sources, and the metrics with facts about the machine.
pub struct MetricVocabulary {
    sources: HashMap<String, Vec<MetricSource>>,
    /// Facts about the machine.
    pub facts: FactMetrics,
}

/// Metrics that describe the machine and not its load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactMetrics {
    /// Time of the scrape, seconds since 1970.
    pub clock: Vec<String>,
    /// Time at which the machine started, seconds since 1970.
    pub boot: Vec<String>,
    /// Metric and label of the host name.
    pub host: Vec<(String, String)>,
    /// Metric and label of the kernel release.
    pub kernel: Vec<(String, String)>,
    /// Metrics with a series per disk whose labels describe it.
    pub disks: Vec<String>,
    /// Counter of the processors.
    pub processors: String,
    /// Counter of the memory's size.
    pub memory: String,
}

/// Returns a name as the vocabulary has it: windows_exporter's metrics once began with `wmi_`.
pub(super) fn current_name(metric: &str) -> Cow<'_, str> {
    match metric.strip_prefix("wmi_") {
        Some(rest) => Cow::Owned(format!("windows_{rest}")),
        None => Cow::Borrowed(metric),
    }
}

impl FactMetrics {
    /// Returns true if the metric is the time of the scrape.
    pub fn is_clock(&self, metric: &str) -> bool {
        let metric = current_name(metric);
        self.clock.iter().any(|name| *name == metric)
    }

    /// Iterates over all metrics that facts are read from.
    pub fn fact_metrics(&self) -> impl Iterator<Item = &str> {
        let labelled = self.host.iter().chain(&self.kernel).map(|(metric, _)| metric);
        self.disks.iter().chain(labelled).map(String::as_str)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricNamesFile {
    family: Vec<Family>,
    fix: Vec<Fix>,
    metric: Vec<ExtraMetric>,
    renamed: Vec<RenamedMetric>,
    facts: FactMetrics,
}

/// A metric that had another name, and maybe another unit, in older exporters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenamedMetric {
    /// Current name; `*` stands for anything.
    now: String,
    /// Former name; `*` stands for the same text.
    old: String,
    scale: Option<f64>,
}

impl RenamedMetric {
    /// Returns a source under its old name.
    fn old_source(&self, source: &MetricSource) -> Option<MetricSource> {
        let metric = match self.now.split_once('*') {
            None => (self.now == source.metric).then(|| self.old.clone())?,
            Some((before, after)) => {
                let middle = source.metric.strip_prefix(before)?.strip_suffix(after)?;
                self.old.replace('*', middle)
            }
        };
        Some(MetricSource { metric, scale: source.scale * self.scale.unwrap_or(1.0), ..source.clone() })
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    prefix: String,
    label: String,
    form: Option<String>,
    strip: Option<String>,
    #[serde(default)]
    except: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fix {
    metric: String,
    scale: Option<f64>,
    #[serde(default)]
    positive: bool,
    #[serde(default)]
    sum: bool,
    #[serde(default)]
    skip: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtraMetric {
    metric: String,
    #[serde(default, rename = "where")]
    only: HashMap<String, String>,
    counter: String,
    scale: Option<f64>,
    #[serde(default)]
    complement: bool,
    #[serde(default)]
    sum: bool,
    #[serde(default)]
    add: bool,
    #[serde(default)]
    positive: bool,
}

impl MetricVocabulary {
    /// Returns the built-in vocabulary.
    ///
    /// # Panics
    /// When the built-in data is wrong, which a test rules out.
    pub fn builtin() -> &'static MetricVocabulary {
        static BUILTIN: OnceLock<MetricVocabulary> = OnceLock::new();
        BUILTIN.get_or_init(|| load_vocabulary(include_str!("names.toml")).expect("built-in vocabulary is valid"))
    }

    /// Returns the sources of a metric by its name.
    pub fn sources_of(&self, metric: &str) -> &[MetricSource] {
        self.sources.get(current_name(metric).as_ref()).map_or(&[], Vec::as_slice)
    }

    /// Iterates over the names of all metrics that have a source.
    pub fn metric_names(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }
}

fn load_vocabulary(text: &str) -> Result<MetricVocabulary, String> {
    let file: MetricNamesFile = toml_reader::read("prometheus/names.toml", text).map_err(|e| e.to_string())?;
    let mut sources: Vec<MetricSource> = Vec::new();
    for counter in Catalogue::builtin().counters() {
        for name in &counter.names.prometheus {
            let Some((metric, only)) = parse_series(name) else { continue };
            let fix = file.fix.iter().find(|f| matches_pattern(&f.metric, &metric));
            if fix.is_some_and(|f| f.skip) {
                continue;
            }
            let mut source = make_source(&file.family, metric, only, &counter.id)?;
            if let Some(fix) = fix {
                source.scale = fix.scale.unwrap_or(1.0);
                (source.is_positive_only, source.is_summed) = (fix.positive, fix.sum);
            }
            sources.push(source);
        }
    }
    for extra in file.metric {
        let only = extra.only.into_iter().collect();
        let mut source = make_source(&file.family, extra.metric, only, &extra.counter)?;
        source.scale = extra.scale.unwrap_or(1.0);
        (source.is_complement, source.is_positive_only) = (extra.complement, extra.positive);
        (source.is_summed, source.is_part) = (extra.sum, extra.add);
        sources.push(source);
    }
    let old: Vec<MetricSource> = sources
        .iter()
        .flat_map(|source| file.renamed.iter().filter_map(|renamed| renamed.old_source(source)))
        .collect();
    sources.extend(old);
    sources.extend(diskwright_sources());
    let mut by_metric: HashMap<String, Vec<MetricSource>> = HashMap::new();
    for source in sources {
        by_metric.entry(source.metric.clone()).or_default().push(source);
    }
    Ok(MetricVocabulary { sources: by_metric, facts: file.facts })
}

/// Parses `name` or `name{label="value"}`; `None` for an expression.
fn parse_series(text: &str) -> Option<(String, Vec<(String, String)>)> {
    let (name, labels) = match text.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (text, ""),
    };
    if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        return None;
    }
    let pair = |p: &str| {
        let (name, value) = p.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
    };
    let required = labels.split(',').filter(|p| !p.is_empty()).map(pair).collect::<Option<Vec<_>>>()?;
    Some((name.to_owned(), required))
}

fn make_source(
    families: &[Family],
    metric: String,
    required_labels: Vec<(String, String)>,
    counter: &str,
) -> Result<MetricSource, String> {
    let kind = Catalogue::builtin().get(counter).ok_or_else(|| format!("names.toml: no counter {counter}"))?.kind;
    let matching = families.iter().filter(|f| metric.starts_with(&f.prefix));
    let family = matching.max_by_key(|f| f.prefix.len());
    let conversion = match kind {
        CounterKind::Total => MetricConversion::Added,
        _ if metric.ends_with("_total") => MetricConversion::Rate,
        _ => MetricConversion::Level,
    };
    Ok(MetricSource {
        instance_label: family.map(|f| f.label.clone()),
        instance_form: family.and_then(|f| f.form.clone()),
        instance_prefix: family.and_then(|f| f.strip.clone()),
        excluded_labels: family.map(|f| f.except.clone().into_iter().collect()).unwrap_or_default(),
        metric,
        required_labels,
        counter: counter.to_owned(),
        conversion,
        scale: 1.0,
        is_complement: false,
        is_summed: false,
        is_part: false,
        is_positive_only: false,
    })
}

/// Sources for the names under which `record --listen` and `record --remote-write` export the catalogue's counters.
fn diskwright_sources() -> impl Iterator<Item = MetricSource> {
    Catalogue::builtin().counters().iter().map(|counter| MetricSource {
        metric: metric_name(counter),
        required_labels: Vec::new(),
        counter: counter.id.clone(),
        instance_label: Some(label_name(counter.object_name()).to_owned()),
        instance_form: None,
        instance_prefix: None,
        excluded_labels: Vec::new(),
        conversion: if counter.kind == CounterKind::Total { MetricConversion::Added } else { MetricConversion::Level },
        scale: 1.0,
        is_complement: false,
        is_summed: false,
        is_part: false,
        is_positive_only: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(metric: &str) -> &'static MetricSource {
        let found = MetricVocabulary::builtin().sources_of(metric);
        assert_eq!(found.len(), 1, "{metric}: {found:?}");
        &found[0]
    }

    fn instance(metric: &str, labels: &[(&str, &'static str)]) -> Vec<(String, String)> {
        let label = |name: &str| labels.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let sources = MetricVocabulary::builtin().sources_of(metric).iter();
        sources.filter_map(|s| Some((s.counter.clone(), s.map_instance(label)?))).collect()
    }

    #[test]
    fn totals_are_those_that_the_live_sampler_stores() {
        let io_time = only("node_disk_io_time_seconds_total");
        assert_eq!(
            (io_time.counter.as_str(), io_time.conversion),
            ("physical_disk.busy_time_s", MetricConversion::Added)
        );
        assert_eq!(only("node_disk_discarded_sectors_total").scale, 512.0);
        assert_eq!(only("node_vmstat_pgpgin").scale, 1024.0);
        assert_eq!(only("node_load1").conversion, MetricConversion::Level);
        assert_eq!(only("windows_system_system_calls_total").conversion, MetricConversion::Rate);
    }

    #[test]
    fn labels_choose_the_counter_and_name_the_instance() {
        let cpu = instance("node_cpu_seconds_total", &[("cpu", "3"), ("mode", "iowait")]);
        assert_eq!(cpu, [("processor.iowait_s".to_owned(), "cpu3".to_owned())]);
        let idle = instance("wmi_cpu_time_total", &[("core", "0,1"), ("mode", "idle")]);
        let names: Vec<&str> = idle.iter().map(|(counter, _)| counter.as_str()).collect();
        assert_eq!(names, ["processor.idle", "processor.busy"]);
        assert_eq!(idle[0].1, "0,1");
        assert!(instance("windows_logical_disk_reads_total", &[("volume", "_Total")]).is_empty());
        assert!(instance("node_network_receive_bytes_total", &[("device", "veth12ab")]).is_empty());
        let root = [("mountpoint", "/"), ("fstype", "ext4")];
        assert_eq!(instance("node_filesystem_size_bytes", &root)[0].1, "/");
        let shm = [("mountpoint", "/dev/shm"), ("fstype", "tmpfs")];
        assert!(instance("node_filesystem_size_bytes", &shm).is_empty());
    }

    #[test]
    fn a_healthy_drive_is_not_failing() {
        let healthy = only("smartmon_device_smart_healthy");
        assert_eq!((healthy.counter.as_str(), healthy.is_complement), ("physical_disk.failing", true));
        let sda = instance("smartmon_device_smart_healthy", &[("disk", "/dev/sda"), ("type", "sat")]);
        assert_eq!(sda, [("physical_disk.failing".to_owned(), "sda".to_owned())]);
    }

    #[test]
    fn each_mount_and_each_memory_controller_is_an_instance_of_its_own() {
        for export in ["nas:/home", "nas:/srv"] {
            let mount = instance("node_mountstats_nfs_total_read_bytes_total", &[("export", export)]);
            assert_eq!(mount.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), [export]);
        }
        let memory = instance("node_edac_correctable_errors_total", &[("controller", "0")]);
        assert_eq!(memory, [("hardware.corrected_memory_errors".to_owned(), "mc0".to_owned())]);
        assert!(only("node_cpu_core_throttles_total").is_summed);
    }

    #[test]
    fn names_before_0_16_are_read_with_their_units() {
        for (old, now, times) in [
            ("node_disk_reads_completed", "node_disk_reads_completed_total", 1.0),
            ("node_disk_sectors_read", "node_disk_read_bytes_total", 512.0),
            ("node_disk_bytes_written", "node_disk_written_bytes_total", 1.0),
            ("node_disk_io_time_ms", "node_disk_io_time_seconds_total", 0.001),
            ("node_disk_io_time_weighted", "node_disk_io_time_weighted_seconds_total", 0.001),
            ("node_memory_MemFree", "node_memory_MemFree_bytes", 1.0),
            ("node_network_receive_bytes", "node_network_receive_bytes_total", 1.0),
            ("node_context_switches", "node_context_switches_total", 1.0),
        ] {
            let (old, now) = (only(old), only(now));
            assert_eq!(
                (&old.counter, &old.instance_label, old.conversion),
                (&now.counter, &now.instance_label, now.conversion),
                "{}",
                old.metric
            );
            assert_eq!(old.scale, now.scale * times, "{}", old.metric);
        }
        let cpu = instance("node_cpu", &[("cpu", "cpu3"), ("mode", "iowait")]);
        assert_eq!(cpu, [("processor.iowait_s".to_owned(), "cpu3".to_owned())]);
        let root = [("mountpoint", "/"), ("fstype", "ext4")];
        assert_eq!(instance("node_filesystem_size", &root)[0].1, "/");
        assert!(instance("node_filesystem_size", &[("mountpoint", "/run"), ("fstype", "tmpfs")]).is_empty());
        assert!(MetricVocabulary::builtin().facts.is_clock("node_time"));
    }

    #[test]
    fn our_own_names_are_read_back() {
        let own = instance("diskwright_physical_disk_reads_total", &[("device", "sda"), ("instance", "db1")]);
        assert_eq!(own, [("physical_disk.reads".to_owned(), "sda".to_owned())]);
    }

    #[test]
    fn expressions_are_no_series() {
        assert!(parse_series("rate(a[1m]) / rate(b[1m])").is_none());
        assert!(MetricVocabulary::builtin().metric_names().all(|m| !m.contains('(')));
    }
}
