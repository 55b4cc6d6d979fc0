//! Names of Windows NT's counters, for every reader of its logs: paths such as `\\HOST\Object(instance)\Counter`, and
//! the mapping from an English object and counter to the catalogue's id. The names are data: the catalogue's own
//! `names.nt`, and `names.toml` for factors and exceptions.

mod counter_path;
mod language;
pub mod processes;
mod products;
mod unmeasured_disks;

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use diskwright_base::counter_ids::{interrupts, processor};
use diskwright_base::toml_reader;
use diskwright_base::{Catalogue, Series};
use serde::Deserialize;

pub use counter_path::CounterPath;
pub use language::{Language, detect_language, languages, translate_paths};
pub(crate) use products::QUEUE_PRODUCTS;
pub use products::{ColumnSum, Product, add_interrupt_sum, add_products, fill_products, fill_sum};
pub(crate) use unmeasured_disks::{UNMEASURED_DISKS, UnmeasuredDisks};

/// A column of an NT log under the catalogue's names.
#[derive(Clone, Debug, PartialEq)]
pub struct NtColumn {
    /// Canonical id, or `foreign.Object\Counter` if there is none.
    pub counter: String,
    /// Instance as the catalogue's object names it (`cpu0`, `_total`, `0 C:`); of a foreign counter, unchanged.
    pub instance: String,
    /// Factor from a value of the file to the counter's unit; 1 for foreign counters.
    pub scale: f64,
}

impl NtColumn {
    /// Returns true if the catalogue has no such counter.
    pub fn is_foreign(&self) -> bool {
        self.counter.starts_with("foreign.")
    }

    /// Converts it to a series of a schema.
    pub fn to_series(&self) -> Series {
        Series { counter: self.counter.clone(), instance: self.instance.clone(), scale: self.scale }
    }
}

/// Finds the catalogue's counter and its scale for English names. The instance is empty for an object that has none.
///
/// ```
/// let found = diskwright_logs::nt::resolve_counter("PhysicalDisk", "0 C:", "% Disk Time");
/// assert_eq!((found.counter.as_str(), found.instance.as_str()), ("physical_disk.disk_time_nt", "0 C:"));
/// assert_eq!(found.scale, 0.01);
/// ```
pub fn resolve_counter(object: &str, instance: &str, counter: &str) -> NtColumn {
    let names = nt_names();
    let known = names.counters.get(&counter_key(object, counter));
    match known.and_then(|known| Some((known, catalogue_instance(names, object, instance, &known.id)?))) {
        // the sum of the interrupts of all processors is the machine's counter
        Some((known, total)) if known.id == processor::INTERRUPTS_PER_S && total == "_total" => {
            NtColumn { counter: interrupts::TOTAL_PER_S.into(), instance: String::new(), scale: known.scale }
        }
        Some((known, instance)) => NtColumn { counter: known.id.clone(), instance, scale: known.scale },
        None => foreign_column(object, instance, counter),
    }
}

/// Returns true if the catalogue has a counter of these English names.
pub fn is_known_counter(object: &str, counter: &str) -> bool {
    nt_names().counters.contains_key(&counter_key(object, counter))
}

/// Returns true if the catalogue has counters of an object of this English name.
pub fn is_known_object(object: &str) -> bool {
    static OBJECTS: OnceLock<HashSet<String>> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| {
        let names = Catalogue::builtin().counters().iter().flat_map(|counter| &counter.names.nt);
        names.filter_map(|name| Some(normalize_name(name.split_once('\\')?.0))).collect()
    });
    objects.contains(&normalize_name(object))
}

/// Returns a column under its own name.
pub fn foreign_column(object: &str, instance: &str, counter: &str) -> NtColumn {
    let counter = format!("foreign.{}\\{}", object.trim(), counter.trim());
    NtColumn { counter, instance: instance.to_owned(), scale: 1.0 }
}

/// Resolves the columns of one machine's log, in their order: each path by [`resolve_counter`], and each pair of
/// counter and instance at most once. Of several columns for one counter (`Available Bytes` and `Available MBytes`),
/// the finest gets the canonical id; the others keep their own name. Repeated columns under their own name get `#1`,
/// `#2`, … behind the instance.
pub fn resolve_columns(paths: &[CounterPath]) -> Vec<NtColumn> {
    let has_groups = has_processor_groups(paths);
    let mut columns: Vec<NtColumn> = paths
        .iter()
        .map(|p| match has_groups && is_plain_processor(p) {
            true => foreign_column(&p.object, &p.instance, &p.counter),
            false => resolve_counter(&p.object, &p.instance, &p.counter),
        })
        .collect();
    let mut finest: HashMap<(String, String), usize> = HashMap::new();
    for index in 0..columns.len() {
        if columns[index].is_foreign() {
            continue;
        }
        let Some(previous) = finest.insert((columns[index].counter.clone(), columns[index].instance.clone()), index)
        else {
            continue;
        };
        let is_finer = columns[index].scale < columns[previous].scale;
        let (finer, coarser) = if is_finer { (index, previous) } else { (previous, index) };
        assert!(previous < index, "the column kept for a counter stands before the one compared with it");
        finest.insert((columns[index].counter.clone(), columns[index].instance.clone()), finer);
        let path = &paths[coarser];
        columns[coarser] = foreign_column(&path.object, &path.instance, &path.counter);
    }
    number_doubles(&mut columns);
    columns
}

fn number_doubles(columns: &mut [NtColumn]) {
    let mut used: HashSet<(String, String)> = HashSet::with_capacity(columns.len());
    let mut times: HashMap<(String, String), usize> = HashMap::new();
    for column in columns {
        let original = (column.counter.clone(), column.instance.clone());
        while !used.insert((column.counter.clone(), column.instance.clone())) {
            let times = times.entry(original.clone()).or_insert(0);
            *times += 1;
            column.instance = format!("{}#{times}", original.1);
        }
    }
}

/// Returns true if `Processor Information` names processors of several groups. `Processor` names those of one group
/// by number, so where a log of several groups has both, the same processor would count twice.
fn has_processor_groups(paths: &[CounterPath]) -> bool {
    paths.iter().any(|p| {
        is_object(&p.object, "Processor Information")
            && p.instance.split_once(',').is_some_and(|(group, number)| group != "0" && number != "_Total")
    })
}

fn is_plain_processor(path: &CounterPath) -> bool {
    is_object(&path.object, "Processor") && !path.instance.eq_ignore_ascii_case("_total")
}

fn is_object(object: &str, name: &str) -> bool {
    normalize_name(object) == normalize_name(name)
}

struct NtCounterName {
    id: String,
    scale: f64,
}

struct NtNames {
    /// Counters by [`counter_key`].
    counters: HashMap<String, NtCounterName>,
    not_instances: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NtMappingFile {
    scales: HashMap<String, f64>,
    aliases: HashMap<String, Alias>,
    not_instances: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alias {
    id: String,
    scale: Option<f64>,
}

fn nt_names() -> &'static NtNames {
    static NAMES: OnceLock<NtNames> = OnceLock::new();
    NAMES.get_or_init(|| load_names(include_str!("names.toml")).unwrap_or_else(|e| panic!("{e}")))
}

fn load_names(text: &str) -> Result<NtNames, String> {
    let file: NtMappingFile = toml_reader::read("nt/names.toml", text).map_err(|e| e.to_string())?;
    let catalogue = Catalogue::builtin();
    let parse_key =
        |name: &str| name.split_once('\\').map(|(object, counter)| counter_key(object, counter)).ok_or(name.to_owned());
    let mut scales = HashMap::new();
    for (name, scale) in file.scales {
        scales.insert(parse_key(&name)?, scale);
    }
    let mut counters = HashMap::new();
    for counter in catalogue.counters() {
        for name in &counter.names.nt {
            let key = parse_key(name)?;
            let scale = scales.remove(&key).unwrap_or(unit_scale(&counter.unit));
            counters.insert(key, NtCounterName { id: counter.id.clone(), scale });
        }
    }
    for (name, alias) in file.aliases {
        let counter = catalogue.get(&alias.id).ok_or(format!("{name}: no counter {}", alias.id))?;
        let scale = alias.scale.unwrap_or(unit_scale(&counter.unit));
        counters.insert(parse_key(&name)?, NtCounterName { id: alias.id, scale });
    }
    if let Some(name) = scales.keys().next() {
        return Err(format!("a factor for {name}, which no counter is called"));
    }
    let not_instances =
        file.not_instances.into_iter().map(|(object, names)| (normalize_name(&object), names)).collect();
    Ok(NtNames { counters, not_instances })
}

/// Returns the scale of a unit: Windows writes shares and processors in percent.
fn unit_scale(unit: &str) -> f64 {
    if matches!(unit, "fraction" | "processors") { 0.01 } else { 1.0 }
}

/// Converts an instance to the catalogue's name; `None` if the name is not an instance.
fn catalogue_instance(names: &NtNames, object: &str, instance: &str, id: &str) -> Option<String> {
    let object = normalize_name(object);
    let is_excluded = |list: &Vec<String>| list.iter().any(|name| name.eq_ignore_ascii_case(instance));
    if names.not_instances.get(&object).is_some_and(is_excluded) {
        return None;
    }
    match id.split_once('.').map_or("", |(object, _)| object) {
        "processor" if object == "system" || instance.eq_ignore_ascii_case("_total") => Some("_total".into()),
        "processor" => processor_instance(instance),
        _ => Some(instance.to_owned()),
    }
}

/// Converts a processor's name: `0` is `cpu0`. Of `group,number`, the first group is dropped (`0,29` is `cpu29`), and
/// others are kept (`cpu1,3`). `None` for the sum over a group.
fn processor_instance(instance: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match instance.split_once(',') {
        None if is_number(instance) => Some(format!("cpu{instance}")),
        Some(("0", number)) if is_number(number) => Some(format!("cpu{number}")),
        Some((group, number)) if is_number(group) && is_number(number) => Some(format!("cpu{instance}")),
        Some((_, number)) if number.eq_ignore_ascii_case("_total") => {
            if instance.starts_with('_') {
                Some("_total".into())
            } else {
                None
            }
        }
        _ => None,
    }
}

fn counter_key(object: &str, counter: &str) -> String {
    let mut key = normalize_name(object);
    key.push('\\');
    key.push_str(&normalize_name(counter));
    key
}

/// Normalizes a name for comparison: lower case, without blanks, apostrophes straight.
fn normalize_name(name: &str) -> String {
    let straight = |c| if c == '\u{2019}' { '\'' } else { c };
    name.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).map(straight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(path: &str) -> (String, String, f64) {
        let path = CounterPath::parse(path).unwrap();
        let found = resolve_counter(&path.object, &path.instance, &path.counter);
        (found.counter, found.instance, found.scale)
    }

    #[test]
    fn resolves_names_to_the_catalogues() {
        let cases = [
            (r"\PhysicalDisk(0 C:)\Avg. Disk sec/Read", "physical_disk.avg_s_per_read", "0 C:", 1.0),
            (r"\PhysicalDisk(0 C:)\% Idle Time", "physical_disk.idle", "0 C:", 0.01),
            (r"\LogicalDisk(C:)\Free Megabytes", "logical_disk.free_bytes", "C:", 1048576.0),
            (r"\Processor(_Total)\% Processor Time", "processor.busy", "_total", 0.01),
            (r"\Processor(3)\% DPC Time", "processor.softirq", "cpu3", 0.01),
            (r"\Processor Information(0,29)\% User Time", "processor.user", "cpu29", 0.01),
            (r"\Processor Information(1,2)\% User Time", "processor.user", "cpu1,2", 0.01),
            (r"\Processor Information(_Total)\% Processor Time", "processor.busy", "_total", 0.01),
            (r"\Processor(_Total)\Interrupts/sec", "interrupts.total_per_s", "", 1.0),
            (r"\Processor(0)\Interrupts/sec", "processor.interrupts_per_s", "cpu0", 1.0),
            (r"\System\% Total Processor Time", "processor.busy", "_total", 0.01),
            (r"\System\Processor Queue Length", "system.processor_queue_length", "", 1.0),
            (r"\Memory\Available MBytes", "memory.available_bytes", "", 1048576.0),
            (r"\Paging File(\??\C:\pagefile.sys)\% Usage", "paging.file_usage", r"\??\C:\pagefile.sys", 0.01),
            (r"\Network Interface(Intel[R] X)\Current Bandwidth", "network.link_bytes_per_s", "Intel[R] X", 0.125),
            (r"\Process(svchost#85)\% Processor Time", "process.processor", "svchost#85", 0.01),
            (r"\Cache\Copy Read Hits %", "memory.cache_copy_read_hits", "", 0.01),
        ];
        for (path, counter, instance, scale) in cases {
            assert_eq!(resolved(path), (counter.to_owned(), instance.to_owned(), scale), "{path}");
        }
    }

    #[test]
    fn keeps_sums_and_unknown_names_foreign() {
        let cases = [
            (r"\PhysicalDisk(_Total)\% Disk Time", r"foreign.PhysicalDisk\% Disk Time", "_Total"),
            (r"\LogicalDisk(_Total)\% Free Space", r"foreign.LogicalDisk\% Free Space", "_Total"),
            (r"\Process(Idle)\% Processor Time", r"foreign.Process\% Processor Time", "Idle"),
            (r"\Processor Information(0,_Total)\% User Time", r"foreign.Processor Information\% User Time", "0,_Total"),
            (r"\Widgets(a)\Turns/sec", r"foreign.Widgets\Turns/sec", "a"),
        ];
        for (path, counter, instance) in cases {
            assert_eq!(resolved(path), (counter.to_owned(), instance.to_owned(), 1.0), "{path}");
        }
    }

    #[test]
    fn every_nt_name_of_the_catalogue_resolves_to_its_counter() {
        for counter in Catalogue::builtin().counters() {
            for name in &counter.names.nt {
                let (object, of_object) = name.split_once('\\').unwrap();
                let found = resolve_counter(object, "0", of_object);
                assert_eq!(found.counter, counter.id, "{name}");
                let percent = matches!(counter.unit.as_str(), "fraction" | "processors");
                assert_eq!(percent, found.scale == 0.01, "{name}: {}", found.scale);
                assert!(percent || !name.contains('%'), "{name} is of the unit {}", counter.unit);
            }
        }
    }

    #[test]
    fn the_finest_of_several_columns_for_one_counter_gets_the_id() {
        let paths = [
            r"\Memory\Available MBytes",
            r"\Memory\Available Bytes",
            r"\Memory\Available KBytes",
            r"\Process(a)\Handle Count",
            r"\Process(a)\Handle Count",
        ];
        let paths: Vec<CounterPath> = paths.iter().map(|p| CounterPath::parse(p).unwrap()).collect();
        let found = resolve_columns(&paths);
        let names: Vec<_> = found.iter().map(|r| (r.counter.as_str(), r.instance.as_str())).collect();
        assert_eq!(
            names,
            [
                (r"foreign.Memory\Available MBytes", ""),
                ("memory.available_bytes", ""),
                (r"foreign.Memory\Available KBytes", ""),
                (r"foreign.Process\Handle Count", "a"),
                (r"foreign.Process\Handle Count", "a#1"),
            ]
        );
    }

    #[test]
    fn processors_of_several_groups_count_once() {
        let paths = [r"\Processor(1)\% User Time", r"\Processor Information(1,0)\% User Time"];
        let paths: Vec<CounterPath> = paths.iter().map(|p| CounterPath::parse(p).unwrap()).collect();
        let found = resolve_columns(&paths);
        assert!(found[0].is_foreign());
        assert_eq!(found[1].instance, "cpu1,0");
    }
}
