//! Contents of `columns.toml`: the tools' names of a quantity, and its counter.

use std::collections::HashMap;
use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

/// A quantity of a report that the catalogue knows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportColumn {
    /// Canonical id.
    pub counter: String,
    /// Factor from a value of the log to the catalogue's unit.
    #[serde(rename = "times")]
    pub scale: f64,
    /// Column headings and keys that stand for it.
    pub names: Vec<String>,
}

/// A table of sar or iostat, an object of `sadf -j`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SysstatReport {
    /// Name of the report.
    pub id: String,
    /// Keys in JSON and element names in XML.
    pub keys: Vec<String>,
    /// Headings of the text column that names the instance.
    #[serde(rename = "instance")]
    pub instance_headings: Vec<String>,
    /// The quantities that the catalogue knows.
    pub columns: Vec<ReportColumn>,
    /// First headings (after the instance) of a text table without known quantities.
    #[serde(default, rename = "starts")]
    pub first_headings: Vec<String>,
}

impl SysstatReport {
    /// Finds the quantity of a heading or key.
    pub fn find_column(&self, name: &str) -> Option<&ReportColumn> {
        self.columns.iter().find(|c| c.names.iter().any(|n| n == name))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportsFile {
    report: Vec<SysstatReport>,
}

/// All reports.
pub struct Reports {
    reports: Vec<SysstatReport>,
    by_key: HashMap<String, usize>,
}

impl Reports {
    /// Returns the built-in reports.
    ///
    /// # Panics
    /// When the built-in data is wrong, which a test rules out.
    pub fn builtin() -> &'static Reports {
        static BUILTIN: OnceLock<Reports> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            let file: ReportsFile = toml_reader::read_built_in("columns.toml", include_str!("columns.toml"));
            let keys = |(index, report): (usize, &SysstatReport)| {
                report.keys.iter().chain([&report.id]).map(move |key| (key.clone(), index)).collect::<Vec<_>>()
            };
            let by_key = file.report.iter().enumerate().flat_map(keys).collect();
            Reports { reports: file.report, by_key }
        })
    }

    /// Iterates over all reports.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &SysstatReport> {
        self.reports.iter()
    }

    /// Finds a report by its id, JSON key or XML name.
    pub fn find_by_key(&self, key: &str) -> Option<&SysstatReport> {
        self.by_key.get(key).map(|&index| &self.reports[index])
    }

    /// Finds a text table's report by its headings, and the index of the instance's heading among them.
    pub fn find_by_headings(&self, headings: &[&str]) -> Option<(&SysstatReport, Option<usize>)> {
        let instance =
            |report: &SysstatReport| headings.iter().position(|h| report.instance_headings.iter().any(|i| i == h));
        let match_score = |report: &SysstatReport, instance: Option<usize>| {
            let first = headings.iter().enumerate().find(|(i, _)| Some(*i) != instance).map(|(_, h)| *h);
            let known_count = headings.iter().filter(|h| report.find_column(h).is_some()).count();
            let has_first_heading = first.is_some_and(|first| report.first_headings.iter().any(|s| s == first));
            let has_only_instances =
                instance.is_some() && report.columns.is_empty() && report.first_headings.is_empty();
            2 * known_count + 3 * usize::from(has_first_heading) + usize::from(has_only_instances)
        };
        let mut best = None;
        for report in &self.reports {
            let index = instance(report);
            if index.is_none() != report.instance_headings.is_empty() {
                continue;
            }
            let score = match_score(report, index);
            if score > best.map_or(0, |(score, _, _)| score) {
                best = Some((score, report, index));
            }
        }
        best.map(|(_, report, index)| (report, index))
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Catalogue;

    use super::*;

    #[test]
    fn every_counter_is_in_the_catalogue_under_that_name() {
        let catalogue = Catalogue::builtin();
        for report in Reports::builtin().iter() {
            for column in &report.columns {
                let counter = catalogue.get(&column.counter).unwrap_or_else(|| panic!("no {}", column.counter));
                let known = |n: &String| counter.names.sysstat.contains(n);
                let all = &column.names;
                // vmstat is no part of sysstat
                let is_named = report.id.starts_with("vmstat") || all.iter().any(known);
                assert!(is_named, "{}: the catalogue lists none of {all:?}", column.counter);
            }
        }
    }

    #[test]
    fn finds_tables_by_their_headings() {
        let find = |line: &str| {
            let headings: Vec<&str> = line.split_whitespace().collect();
            Reports::builtin().find_by_headings(&headings).map(|(r, index)| (r.id.as_str(), index))
        };
        assert_eq!(find("CPU %user %nice %system %iowait %steal %idle"), Some(("cpu", Some(0))));
        assert_eq!(find("CPU MHz"), Some(("cpu-frequency", Some(0))));
        assert_eq!(find("CPU total/s dropd/s squeezd/s"), Some(("softnet", Some(0))));
        assert_eq!(find("tps rtps wtps dtps bread/s bwrtn/s bdscd/s"), Some(("io", None)));
        assert_eq!(find("tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util DEV"), Some(("disk", Some(8))));
        assert_eq!(find("DEV tps rd_sec/s wr_sec/s avgrq-sz avgqu-sz await svctm %util"), Some(("disk", Some(0))));
        assert_eq!(find("IFACE rxerr/s txerr/s coll/s"), Some(("net-edev", Some(0))));
        assert_eq!(find("INTR all CPU0"), Some(("interrupts", Some(0))));
        assert_eq!(find("kbswpfree kbswpused %swpused"), Some(("memory", None)));
        assert_eq!(find("%sio-10 %sio-60 %sio-300 %sio"), Some(("psi-io", None)));
        assert_eq!(find("MBfsfree MBfsused %fsused FILESYSTEM"), Some(("filesystem", Some(3))));
        assert_eq!(find("r b swpd free buff cache si so bi bo in cs us sy id wa st"), Some(("vmstat", None)));
        assert_eq!(find("unheard of"), None);
    }
}
