//! The counter catalogue: what each measured quantity means, its unit, how it
//! aggregates, what others call it, and the trap in it. The entries are data,
//! one TOML file an object in `crates/base/counters/`.
//!
//! A counter is either *stored* (a sampler or a log brings its cells) or
//! *derived* from stored ones by one of the formulas in [`Derive`]. A foreign
//! log may bring a derived counter ready-made; then its cells are used as they
//! are.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// How a counter behaves, which decides how it aggregates over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Events or amounts a second; aggregates weighted by time.
    Rate,
    /// An average per operation; aggregates weighted by the operations.
    AveragePerOperation,
    /// Share of time; aggregates weighted by time.
    BusyFraction,
    /// A level (a gauge), or the time integral of one over the tick;
    /// aggregates weighted by time, with least and most kept.
    Level,
    /// An amount in the tick; aggregates by sum.
    Total,
}

/// How a counter aggregates over instances of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverInstances {
    /// Adds up (requests a second of several disks).
    Sum,
    /// Mean of the instances (busy fractions: a sum is not a fraction of the set).
    Mean,
    /// Weighted by each instance's operations.
    Weighted,
    /// The largest counts.
    Max,
    /// Means nothing over instances, or there is only one.
    None,
}

/// One way to compute a counter from stored ones: sum of `sum` and of what is
/// present of `optional`, less `minus`, divided by `per`, times `times`, then
/// one less that if `complement`, then at most `cap`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derive {
    /// Stored counters that are added; each must be present.
    pub sum: Vec<String>,
    /// Stored counters that are added where present (a field that older kernels lack).
    #[serde(default)]
    pub optional: Vec<String>,
    /// Stored counters that are subtracted.
    #[serde(default)]
    pub minus: Vec<String>,
    /// What the sum is divided by.
    #[serde(default)]
    pub per: Per,
    /// A constant factor.
    #[serde(default = "one")]
    pub times: f64,
    /// The value is 1 less the quotient.
    #[serde(default)]
    pub complement: bool,
    /// The value is at most this (NT caps percentages at 1).
    #[serde(default)]
    pub cap: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// The divisor of a [`Derive`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum Per {
    /// No division.
    #[default]
    Nothing,
    /// `"time"`: the seconds of the tick.
    Time(TimeWord),
    /// The sum of these counters; those that are absent count only if none is present.
    Counters(Vec<String>),
}

/// The word `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeWord {
    /// The seconds of the tick.
    Time,
}

/// Other tools' names of a counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Names {
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

impl Names {
    /// All names.
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
    /// Unit of its values: `s`, `bytes`, `per_s`, `bytes_per_s`, `fraction`,
    /// `requests`, `count`, `pages`, …
    pub unit: String,
    /// How it behaves over time.
    pub kind: Kind,
    /// How it adds up over instances.
    pub over_instances: OverInstances,
    /// What others call it.
    #[serde(default)]
    pub names: Names,
    /// What it says, in our words.
    pub explain: String,
    /// How it misleads; empty where no trap is known.
    #[serde(default)]
    pub trap: String,
    /// Where the meaning comes from.
    pub source: String,
    /// Ways to compute it, best first; empty for a stored counter.
    #[serde(default)]
    pub derive: Vec<Derive>,
    /// For an average per operation that a log brings ready-made: the rate of
    /// those operations, which weights it.
    #[serde(default)]
    pub weight: Option<String>,
}

impl Counter {
    /// The part of the id before the dot.
    pub fn object(&self) -> &str {
        self.id.split_once('.').map_or("", |(object, _)| object)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    counter: Vec<Counter>,
}

/// The files, one an object. A test holds this list against the folder.
pub const FILES: &[(&str, &str)] = &[
    ("array", include_str!("../counters/array.toml")),
    ("cgroup", include_str!("../counters/cgroup.toml")),
    ("interrupts", include_str!("../counters/interrupts.toml")),
    ("logical_disk", include_str!("../counters/logical_disk.toml")),
    ("memory", include_str!("../counters/memory.toml")),
    ("network", include_str!("../counters/network.toml")),
    ("paging", include_str!("../counters/paging.toml")),
    ("physical_disk", include_str!("../counters/physical_disk.toml")),
    ("pressure", include_str!("../counters/pressure.toml")),
    ("process", include_str!("../counters/process.toml")),
    ("processor", include_str!("../counters/processor.toml")),
    ("system", include_str!("../counters/system.toml")),
];

/// All counters, by id and by other names.
pub struct Catalogue {
    counters: Vec<Counter>,
    by_id: HashMap<String, usize>,
}

impl Catalogue {
    /// The catalogue that is built in.
    ///
    /// # Panics
    /// When the built-in data is wrong, which a test rules out.
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| Catalogue::load(FILES).expect("built-in catalogue is valid"))
    }

    fn load(files: &[(&str, &str)]) -> Result<Catalogue, String> {
        let mut counters = Vec::new();
        for (object, text) in files {
            let file: File = toml::from_str(text).map_err(|e| format!("{object}.toml: {e}"))?;
            for counter in file.counter {
                if counter.object() != *object {
                    return Err(format!("{object}.toml: {} belongs to another object", counter.id));
                }
                counters.push(counter);
            }
        }
        let by_id: HashMap<String, usize> = counters.iter().enumerate().map(|(i, c)| (c.id.clone(), i)).collect();
        if by_id.len() != counters.len() {
            return Err("two counters have one id".into());
        }
        Ok(Catalogue { counters, by_id })
    }

    /// All entries, by object.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// By canonical id.
    pub fn get(&self, id: &str) -> Option<&Counter> {
        self.by_id.get(id).map(|&i| &self.counters[i])
    }

    /// By any name: exact id first, then any other tool's name, then a part
    /// of an id or name. Case, and blanks around `\` and `/`, do not matter.
    pub fn find(&self, name: &str) -> Vec<&Counter> {
        if let Some(counter) = self.get(name) {
            return vec![counter];
        }
        let wanted = plain(name);
        if wanted.is_empty() {
            return Vec::new();
        }
        let whole = |c: &&Counter| {
            plain(&c.id) == wanted
                || c.names.iter().any(|n| {
                    let n = plain(n);
                    n == wanted || n.rsplit('\\').next() == Some(&wanted)
                })
        };
        let part = |c: &&Counter| plain(&c.id).contains(&wanted) || c.names.iter().any(|n| plain(n).contains(&wanted));
        let exact: Vec<&Counter> = self.counters.iter().filter(whole).collect();
        if exact.is_empty() { self.counters.iter().filter(part).collect() } else { exact }
    }
}

/// A name as it is compared: lower case, no instance in parentheses behind an
/// NT object, blanks around separators gone.
fn plain(name: &str) -> String {
    let mut text = name.trim().trim_start_matches('\\').to_lowercase();
    if let (Some(open), Some(close)) = (text.find('('), text.find(")\\"))
        && open < close
    {
        text.replace_range(open..=close, "");
    }
    for separator in ["/", "\\", ":"] {
        let parts: Vec<&str> = text.split(separator).map(str::trim).collect();
        text = parts.join(separator);
    }
    // "PhysicalDisk: Avg. Disk sec/Read" and "Physical Disk\..." are written too
    text.replace(": ", "\\")
        .replace(':', "\\")
        .replace("disk\\", "disk\\")
        .replace("physical disk\\", "physicaldisk\\")
        .replace("logical disk\\", "logicaldisk\\")
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
        on_disk.sort();
        let registered: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_disk, registered);
    }

    #[test]
    fn formulas_and_weights_name_known_counters() {
        let catalogue = Catalogue::builtin();
        for counter in catalogue.counters() {
            for derive in &counter.derive {
                let per = match &derive.per {
                    Per::Counters(ids) => ids.as_slice(),
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
                    catalogue.find(name).iter().any(|c| c.id == counter.id),
                    "{} is not found as {name}",
                    counter.id
                );
            }
        }
    }

    #[test]
    fn nt_paths_are_found_with_instance_host_and_case() {
        let found = Catalogue::builtin().find(r"physicaldisk(0 C:)\avg. disk queue length");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "physical_disk.avg_queue_length");
        let found = Catalogue::builtin().find("Physical Disk: Avg. Disk sec / Transfer");
        assert_eq!(found[0].id, "physical_disk.avg_s_per_transfer");
    }
}
