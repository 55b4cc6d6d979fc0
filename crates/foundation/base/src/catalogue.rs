//! The counter catalogue: meaning, unit and aggregation of each measured quantity, its names in other
//! tools, and the ways in which it misleads. The entries are data,
//! TOML files in `crates/foundation/base/counters/`; each names its object at the top, and
//! its formulas name counters of that object without it.
//!
//! A counter is either *stored* (a sampler or a log brings its cells) or
//! *derived* from stored ones by one of the formulas in [`Formula`]. A foreign
//! log may bring a derived counter ready-made; then its cells are used
//! unchanged.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::byte_size::{CAPACITY_UNIT, SizeMeaning};

/// Behaviour of a counter over time, which decides how it is aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterKind {
    /// Events or amounts a second; aggregates weighted by time.
    Rate,
    /// An average per operation; aggregates weighted by the operations.
    AveragePerOperation,
    /// Share of time; aggregates weighted by time.
    BusyFraction,
    /// A level (a gauge), or the time integral of one over the tick;
    /// aggregates weighted by time, with minimum and maximum kept.
    Level,
    /// An amount in the tick; aggregates by sum.
    Total,
}

/// Aggregation of a counter over the instances of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverInstances {
    /// Adds up (requests a second of several disks).
    Sum,
    /// Mean of the instances (busy fractions: a sum is not a fraction of the set).
    Mean,
    /// Weighted by each instance's operations.
    Weighted,
    /// The largest value.
    Max,
    /// Not meaningful over instances, or there is only one.
    None,
}

/// One way to compute a counter from stored ones: the sum of `sum` and of the
/// present ones of `optional`, minus `minus`, divided by `per`, times `times`;
/// with `complement`, 1 minus that; at most `cap`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formula {
    /// Stored counters that are added; each must be present.
    pub sum: Vec<String>,
    /// Stored counters that are added where present (a field that older kernels lack).
    #[serde(default)]
    pub optional: Vec<String>,
    /// Stored counters that are subtracted.
    #[serde(default)]
    pub minus: Vec<String>,
    /// Divisor of the sum.
    #[serde(default)]
    pub per: FormulaDivisor,
    /// True if a quotient by counters is also divided by the seconds of the tick
    /// (an amount in the tick is compared with a limit per second).
    #[serde(default)]
    pub per_second: bool,
    /// A constant factor.
    #[serde(default = "default_factor")]
    pub times: f64,
    /// The value is 1 minus the quotient.
    #[serde(default)]
    pub complement: bool,
    /// Upper limit of the value (NT caps percentages at 1).
    #[serde(default)]
    pub cap: Option<f64>,
}

fn default_factor() -> f64 {
    1.0
}

/// The divisor of a [`Formula`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum FormulaDivisor {
    /// No division.
    #[default]
    Nothing,
    /// `"time"`: the seconds of the tick.
    Time(TimeWord),
    /// The sum of those counters of the list that are present. With none of them the formula has no value.
    Counters(Vec<String>),
}

/// The word `time` as a divisor in the catalogue's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeWord {
    /// The seconds of the tick.
    Time,
}

/// The units of counters: seconds, bytes, fractions (1 is all), counts, requests
/// in flight, pages, processors' worth of time, amounts per second, and sensor readings.
pub const UNITS: &[&str] = &[
    "s",
    "bytes",
    "fraction",
    "count",
    "requests",
    "pages",
    "processors",
    "per_s",
    "bytes_per_s",
    "pages_per_s",
    "celsius",
    "watts",
    "rpm",
];

/// Other tools' names of a counter. Their units may differ (kB, ms, percent),
/// and so may their form: where another tool keeps a running total and the counter is a rate
/// or a share, the counter is the growth of that total per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CounterNames {
    /// Windows NT Performance Monitor, `Object\Counter`.
    pub nt: Vec<String>,
    /// sysstat: column of sar, iostat, pidstat or key of sadf.
    pub sysstat: Vec<String>,
    /// Prometheus: node_exporter or windows_exporter series or expression.
    pub prometheus: Vec<String>,
    /// The kernel's own name: file and field.
    pub linux: Vec<String>,
    /// Performance Co-Pilot metric.
    pub pcp: Vec<String>,
}

impl CounterNames {
    /// Iterates over all names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        [&self.nt, &self.sysstat, &self.prometheus, &self.linux, &self.pcp].into_iter().flatten().map(String::as_str)
    }
}

/// One entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// Canonical id, `object.name`.
    pub id: String,
    /// Unit of its values, one of [`UNITS`].
    pub unit: String,
    /// The meaning of a size: present if and only if the unit is `bytes`.
    #[serde(default)]
    pub size: Option<SizeMeaning>,
    /// Behaviour over time.
    pub kind: CounterKind,
    /// Aggregation over instances.
    pub over_instances: OverInstances,
    /// Names in other tools.
    #[serde(default)]
    pub names: CounterNames,
    /// Meaning, in our words.
    pub explain: String,
    /// The way in which it misleads; empty where none is known.
    #[serde(default)]
    pub trap: String,
    /// Source of the meaning.
    pub source: String,
    /// Ways to compute it, best first; empty for a stored counter.
    #[serde(default)]
    pub derive: Vec<Formula>,
    /// For an average per operation that a log brings ready-made: the rate of
    /// those operations, which weights it.
    #[serde(default)]
    pub weight: Option<String>,
}

impl Counter {
    /// The part of the id before the dot.
    pub fn object_name(&self) -> &str {
        self.id.split_once('.').map_or("", |(object, _)| object)
    }

    /// Completes the ids in formulas where the file omits the counter's own object,
    /// and joins wrapped texts into one line.
    fn spell_out(&mut self) {
        let object = self.object_name().to_owned();
        let add_object = |id: &mut String| {
            if !id.contains('.') {
                *id = format!("{object}.{id}");
            }
        };
        for derive in &mut self.derive {
            derive.sum.iter_mut().chain(&mut derive.optional).chain(&mut derive.minus).for_each(add_object);
            if let FormulaDivisor::Counters(ids) = &mut derive.per {
                ids.iter_mut().for_each(add_object);
            }
        }
        self.weight.iter_mut().for_each(add_object);
        for text in [&mut self.explain, &mut self.trap, &mut self.source] {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
}

/// Returns the unit in which screens show values of a counter: `unit`, or [`CAPACITY_UNIT`] if it is `bytes` and the
/// built-in catalogue says that the counter's bytes are a capacity.
pub fn display_unit<'unit>(counter_id: &str, unit: &'unit str) -> &'unit str {
    let size =
        if unit == "bytes" { Catalogue::builtin().get(counter_id).and_then(|counter| counter.size) } else { None };
    if size == Some(SizeMeaning::Capacity) { CAPACITY_UNIT } else { unit }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterFile {
    /// The object that all its counters belong to.
    object: String,
    counter: Vec<Counter>,
}

/// Name and text of each file of the catalogue. A large object has several. A test compares this list with the folder.
pub const CATALOGUE_FILES: &[(&str, &str)] = &[
    ("array", include_str!("../counters/array.toml")),
    ("cgroup", include_str!("../counters/cgroup.toml")),
    ("channel", include_str!("../counters/channel.toml")),
    ("controller", include_str!("../counters/controller.toml")),
    ("database", include_str!("../counters/database.toml")),
    ("hardware", include_str!("../counters/hardware.toml")),
    ("interrupts", include_str!("../counters/interrupts.toml")),
    ("logical_disk", include_str!("../counters/logical_disk.toml")),
    ("logical_disk_derived", include_str!("../counters/logical_disk_derived.toml")),
    ("memory", include_str!("../counters/memory.toml")),
    ("network", include_str!("../counters/network.toml")),
    ("network_filesystem", include_str!("../counters/network_filesystem.toml")),
    ("network_filesystem_derived", include_str!("../counters/network_filesystem_derived.toml")),
    ("network_server", include_str!("../counters/network_server.toml")),
    ("nfs_server", include_str!("../counters/nfs_server.toml")),
    ("paging", include_str!("../counters/paging.toml")),
    ("path", include_str!("../counters/path.toml")),
    ("physical_disk", include_str!("../counters/physical_disk.toml")),
    ("physical_disk_derived", include_str!("../counters/physical_disk_derived.toml")),
    ("physical_disk_health", include_str!("../counters/physical_disk_health.toml")),
    ("physical_disk_traced", include_str!("../counters/physical_disk_traced.toml")),
    ("pressure", include_str!("../counters/pressure.toml")),
    ("process", include_str!("../counters/process.toml")),
    ("processor", include_str!("../counters/processor.toml")),
    ("request_latency", include_str!("../counters/request_latency.toml")),
    ("system", include_str!("../counters/system.toml")),
];

/// All counters, by id and by other names.
pub struct Catalogue {
    counters: Vec<Counter>,
    by_id: HashMap<String, usize>,
    by_name: HashMap<String, Vec<usize>>,
}

impl Catalogue {
    /// Returns the built-in catalogue.
    ///
    /// # Panics
    /// When the built-in data are wrong, which a test rules out.
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| Catalogue::from_files(CATALOGUE_FILES).expect("built-in catalogue is valid"))
    }

    fn from_files(files: &[(&str, &str)]) -> Result<Catalogue, String> {
        let mut counters = Vec::new();
        for (name, text) in files {
            let file: CounterFile =
                crate::toml_reader::read(&format!("{name}.toml"), text).map_err(|e| e.to_string())?;
            for mut counter in file.counter {
                if counter.object_name() != file.object {
                    return Err(format!("{name}.toml: {} belongs to another object", counter.id));
                }
                if !UNITS.contains(&counter.unit.as_str()) {
                    return Err(format!("{name}.toml: {} has the unknown unit {}", counter.id, counter.unit));
                }
                if (counter.unit == "bytes") != counter.size.is_some() {
                    return Err(format!("{name}.toml: {}: `size` belongs to each counter of bytes only", counter.id));
                }
                counter.spell_out();
                counters.push(counter);
            }
        }
        let by_id: HashMap<String, usize> = counters.iter().enumerate().map(|(i, c)| (c.id.clone(), i)).collect();
        if by_id.len() != counters.len() {
            return Err("two counters have one id".into());
        }
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, counter) in counters.iter().enumerate() {
            for name in searchable_names(counter) {
                let found = by_name.entry(name).or_default();
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        Ok(Catalogue { counters, by_id, by_name })
    }

    /// All entries, by object.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Returns the counter with this canonical id.
    pub fn get(&self, id: &str) -> Option<&Counter> {
        self.by_id.get(id).map(|&i| &self.counters[i])
    }

    /// Finds counters by any name. It tries these kinds of match in turn, and returns what the first successful one
    /// finds: the exact id; a whole name or the counter's part of one (`Avg. Disk Queue Length` belongs to two
    /// objects); the counter's part alone if the object is unknown; a part of an id or name. NT names may be written
    /// `Object: Counter` or as a full path with host and instance; case, blanks and hyphens do not matter.
    ///
    /// ```
    /// use diskwright_base::Catalogue;
    /// let found = Catalogue::builtin().find_by_name(r"\\DB1\PhysicalDisk(0 C:)\Avg. Disk Queue Length");
    /// assert_eq!(found[0].id, "physical_disk.avg_queue_length");
    /// ```
    pub fn find_by_name(&self, name: &str) -> Vec<&Counter> {
        let exact_matches = self.find_by_exact_name(name);
        let wanted = normalize_name(name);
        if !exact_matches.is_empty() || wanted.is_empty() {
            return exact_matches;
        }
        let matching_names = self.by_name.iter().filter(|(name, _)| name.contains(&wanted));
        let mut found: Vec<usize> = matching_names.flat_map(|(_, counters)| counters.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|index| &self.counters[index]).collect()
    }

    /// Finds counters by a whole name, as [`Catalogue::find_by_name`] does before it looks for parts of names.
    pub fn find_by_exact_name(&self, name: &str) -> Vec<&Counter> {
        if let Some(counter) = self.get(name) {
            return vec![counter];
        }
        let wanted = normalize_name(name);
        let exact = |wanted: &str| self.by_name.get(wanted).map(Vec::as_slice).unwrap_or_default();
        let mut found = exact(&wanted).to_vec();
        if let (true, Some((_, counter))) = (found.is_empty(), wanted.split_once('\\')) {
            found = exact(counter).to_vec();
        }
        found.into_iter().map(|index| &self.counters[index]).collect()
    }
}

/// All normalized names by which a counter is found: its id, the id's part after the
/// dot, every name, and an NT name's part after the object. Publications also write
/// `Memory Page Faults/sec`, without a separator.
fn searchable_names(counter: &Counter) -> Vec<String> {
    let short_id = counter.id.split_once('.').map(|(_, name)| name.to_owned());
    let mut names: Vec<String> = short_id.into_iter().chain([counter.id.to_lowercase()]).collect();
    for name in counter.names.iter().map(normalize_name) {
        if let Some((_, counter_part)) = name.split_once('\\') {
            names.push(counter_part.to_owned());
            names.push(name.replacen('\\', "", 1));
        }
        names.push(name);
    }
    names
}

/// Normalizes a name for comparison: lower case, without blanks and hyphens
/// (both `% Disk Time` and `%Disk Time`, `Nonpaged` and `Non-paged` are in
/// use), without host and instance, `\` between NT object and counter,
/// `avg.` for `average`.
fn normalize_name(name: &str) -> String {
    let mut text: String = name.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    text.make_ascii_lowercase();
    if let Some(path) = text.strip_prefix("\\\\") {
        text = path.split_once('\\').map_or(path, |(_host, counter)| counter).to_owned();
    }
    if !text.contains('\\') {
        text = text.replacen(':', "\\", 1);
    }
    // an instance may itself hold a separator: "process(a\b)\%processortime"
    if let (Some(open), Some(close)) = (text.find('('), text.rfind(")\\"))
        && open < close
    {
        text.replace_range(open..=close, "");
    }
    text.trim_start_matches('\\').replace("average", "avg.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_registered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/counters");
        let mut on_disk: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        on_disk.sort_unstable();
        let registered: Vec<&str> = CATALOGUE_FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_disk, registered);
    }

    #[test]
    fn formulas_and_weights_name_known_counters() {
        let catalogue = Catalogue::builtin();
        for counter in catalogue.counters() {
            for derive in &counter.derive {
                let per = match &derive.per {
                    FormulaDivisor::Counters(ids) => ids.as_slice(),
                    _ => &[],
                };
                for id in derive.sum.iter().chain(&derive.optional).chain(&derive.minus).chain(per) {
                    assert!(catalogue.get(id).is_some(), "{}: unknown {id}", counter.id);
                }
            }
            if let Some(weight) = &counter.weight {
                assert!(catalogue.get(weight).is_some(), "{}: unknown {weight}", counter.id);
            }
        }
    }

    #[test]
    fn a_counter_is_found_by_every_name_it_lists() {
        let catalogue = Catalogue::builtin();
        for counter in catalogue.counters() {
            for name in counter.names.iter().chain([counter.id.as_str()]) {
                assert!(
                    catalogue.find_by_name(name).iter().any(|c| c.id == counter.id),
                    "{} is not found as {name}",
                    counter.id
                );
            }
        }
    }

    #[test]
    fn nt_paths_are_found_regardless_of_instance_host_and_case() {
        let found = Catalogue::builtin().find_by_name(r"physicaldisk(0 C:)\avg. disk queue length");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "physical_disk.avg_queue_length");
        let found = Catalogue::builtin().find_by_name("Physical Disk: Avg. Disk sec / Transfer");
        assert_eq!(found[0].id, "physical_disk.avg_s_per_transfer");
        let found = Catalogue::builtin().find_by_name(r"\\HOST\PhysicalDisk(0 a\b (x))\Average Disk sec/Transfer");
        assert_eq!(found[0].id, "physical_disk.avg_s_per_transfer");
    }
}
