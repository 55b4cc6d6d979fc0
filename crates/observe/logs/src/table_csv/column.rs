//! Counter of a table's column: given by the user, known by its name, or foreign.

use std::sync::OnceLock;

use diskwright_base::Catalogue;
use diskwright_base::toml_reader;
use serde::Deserialize;

use super::units;
use crate::tool::tool_names::{ColumnTarget, match_star};

/// A column that the user named: `NAME=counter[:instance[:unit]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvColumn {
    /// Heading; a `*` in it stands for anything.
    pub heading: String,
    /// Canonical counter.
    pub counter: String,
    /// Its instance; if it is not given, the text that `*` stands for.
    pub instance: Option<String>,
    /// Factor from a value to the counter's unit.
    pub scale: f64,
}

impl CsvColumn {
    /// Parses `sda reads=physical_disk.reads_per_s:sda` or `* busy=physical_disk.busy:*:%`.
    ///
    /// # Errors
    /// A sentence that describes what is wrong.
    pub fn parse(text: &str) -> Result<CsvColumn, String> {
        let form = "write NAME=counter[:instance[:unit]], such as 'sda reads=physical_disk.reads_per_s:sda'";
        let (heading, meaning) = text.rsplit_once('=').ok_or_else(|| format!("`{text}`: {form}"))?;
        let (counter, rest) = meaning.split_once(':').map_or((meaning, None), |(c, rest)| (c, Some(rest)));
        let (heading, counter) = (heading.trim(), counter.trim());
        if heading.is_empty() {
            return Err(format!("`{text}`: {form}"));
        }
        let catalogue_counter = Catalogue::builtin().get(counter);
        let counter_unit = catalogue_counter.map_or("", |c| c.unit.as_str());
        if catalogue_counter.is_none() && !counter.starts_with("foreign.") {
            return Err(format!("`{counter}` is not a counter; `diskwright list counters` lists them"));
        }
        // an instance may hold a colon itself (`C:`), a unit does not
        let (instance, scale) = match rest.map(|rest| (rest, rest.rsplit_once(':'))) {
            None => (None, 1.0),
            Some((_, Some((instance, unit)))) if units::unit_factor(unit, counter_unit).is_some() => {
                (Some(instance), units::unit_factor(unit, counter_unit).unwrap_or(1.0))
            }
            Some((_, Some((_, unit)))) if !unit.is_empty() => {
                return Err(format!("`{unit}` is not a unit of {counter}, which is in {counter_unit}"));
            }
            Some((given_instance, _)) => (Some(given_instance), 1.0),
        };
        let instance = instance.map(str::trim).filter(|i| !i.is_empty() && *i != "*").map(str::to_owned);
        Ok(CsvColumn { heading: heading.to_owned(), counter: counter.to_owned(), instance, scale })
    }

    fn match_heading(&self, heading: &str) -> Option<ColumnTarget> {
        let star_text = match_star(&self.heading, heading)?;
        let instance = self.instance.clone().unwrap_or_else(|| star_text.to_owned());
        Some(ColumnTarget { counter: self.counter.clone(), instance, scale: self.scale, is_rest: false })
    }
}

/// A column that is known by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownColumn {
    name: String,
    counter: String,
    #[serde(rename = "times")]
    scale: f64,
    #[serde(default)]
    instance: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownColumns {
    column: Vec<KnownColumn>,
}

/// Returns the built-in columns.
///
/// # Panics
/// When the built-in table is wrong, which a test rules out.
fn known_columns() -> &'static [KnownColumn] {
    static KNOWN: OnceLock<KnownColumns> = OnceLock::new();
    &KNOWN.get_or_init(|| toml_reader::read_built_in("table_csv/names.toml", include_str!("names.toml"))).column
}

/// Returns true for statistics from which no mean over time can be computed.
fn is_extreme_statistic(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_percentile =
        lower.strip_prefix('p').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    is_percentile
        || matches!(lower.as_str(), "maximum" | "max" | "minimum" | "min" | "samplecount" | "sum" | "total" | "count")
}

/// Finds the column whose name occurs in a heading.
fn find_by_name(heading: &str) -> Option<ColumnTarget> {
    let find_word = |name: &str| {
        let position = heading.find(name)?;
        let is_word = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let is_bounded = is_word(heading[..position].chars().next_back())
            && is_word(heading[position + name.len()..].chars().next());
        is_bounded.then_some(position)
    };
    let (column, position) = known_columns().iter().find_map(|column| Some((column, find_word(&column.name)?)))?;
    let around = format!("{} {}", &heading[..position], &heading[position + column.name.len()..]);
    let words: Vec<&str> =
        around.split(|c: char| c.is_whitespace() || ",;()[]\"".contains(c)).filter(|w| !w.is_empty()).collect();
    if words.iter().any(|word| is_extreme_statistic(word)) {
        return None;
    }
    let remaining: Vec<&str> =
        words.into_iter().filter(|w| !matches!(w.to_ascii_lowercase().as_str(), "avg" | "average" | "mean")).collect();
    // the remaining words are the instance's name
    let instance = match (column.instance.as_str(), remaining.is_empty()) {
        ("" | "_total", _) => column.instance.clone(),
        (usual, true) => usual.to_owned(),
        ("os" | "data", false) => format!("{} {}", remaining.join(" "), column.instance),
        (_, false) => remaining.join(" "),
    };
    Some(ColumnTarget { counter: column.counter.clone(), instance, scale: column.scale, is_rest: false })
}

/// Finds a heading that is a counter of the catalogue and its instance.
fn find_own_counter(heading: &str) -> Option<ColumnTarget> {
    let (counter, instance) = heading.split_once(' ').unwrap_or((heading, ""));
    Catalogue::builtin().get(counter)?;
    let instance = instance.trim().to_owned();
    Some(ColumnTarget { counter: counter.to_owned(), instance, scale: 1.0, is_rest: false })
}

/// Finds the target of a column, and whether it is known.
pub fn find_target(heading: &str, user_columns: &[CsvColumn]) -> (ColumnTarget, bool) {
    let found = user_columns
        .iter()
        .find_map(|column| column.match_heading(heading))
        .or_else(|| find_by_name(heading))
        .or_else(|| find_own_counter(heading));
    match found {
        Some(target) => {
            let is_known = !target.counter.starts_with("foreign.");
            // a column that the user named counts as known, even if its counter is foreign
            (target, is_known || user_columns.iter().any(|c| match_star(&c.heading, heading).is_some()))
        }
        None => {
            let counter = format!("foreign.csv.{heading}");
            (ColumnTarget { counter, instance: String::new(), scale: 1.0, is_rest: false }, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_columns_that_the_user_named() {
        let parse = |text: &str| CsvColumn::parse(text).map(|c| (c.heading, c.counter, c.instance, c.scale));
        let reads = "physical_disk.reads_per_s".to_owned();
        assert_eq!(
            parse("a=b=physical_disk.reads_per_s:sda"),
            Ok(("a=b".into(), reads.clone(), Some("sda".into()), 1.0))
        );
        assert_eq!(parse("r=physical_disk.reads_per_s"), Ok(("r".into(), reads, None, 1.0)));
        assert_eq!(parse("u=physical_disk.busy:C::%").unwrap().2, Some("C:".into()));
        assert_eq!(parse("u=physical_disk.busy:sda:percent").unwrap().3, 0.01);
        for (wrong, because) in [
            ("x", "write NAME=counter"),
            ("=physical_disk.busy", "write NAME=counter"),
            ("x=disk.busy", "is not a counter"),
            ("x=physical_disk.busy:sda:ms", "is not a unit of physical_disk.busy"),
        ] {
            assert!(parse(wrong).unwrap_err().contains(because), "{wrong}");
        }
        let star = CsvColumn::parse("* util=physical_disk.busy:*:%").unwrap();
        assert_eq!(find_target("sdb util", &[star]).0.instance, "sdb");
    }

    #[test]
    fn finds_metric_names_of_clouds() {
        let find = |heading: &str| {
            let (found, is_known) = find_target(heading, &[]);
            (found.counter, found.instance, is_known)
        };
        for (heading, counter, instance) in [
            ("ReadIOPS", "physical_disk.reads_per_s", "storage"),
            ("db1 ReadLatency (Average)", "physical_disk.avg_s_per_read", "db1"),
            ("vol-0abc VolumeQueueLength", "physical_disk.avg_queue_length", "vol-0abc"),
            ("OS Disk Queue Depth (Avg), vm7", "physical_disk.avg_queue_length", "vm7 os"),
            ("i-0abc CPUUtilization", "processor.busy", "_total"),
            ("physical_disk.busy sda", "physical_disk.busy", "sda"),
        ] {
            assert_eq!(find(heading), (counter.into(), instance.into(), true), "{heading}");
        }
        for heading in ["ReadIOPS Maximum", "ReadLatency p99", "VolumeReadOps", "MyReadIOPSs"] {
            assert_eq!(find(heading), (format!("foreign.csv.{heading}"), String::new(), false));
        }
        assert!(known_columns().iter().all(|c| Catalogue::builtin().get(&c.counter).is_some()));
    }
}
