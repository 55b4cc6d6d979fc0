//! Tables of names, one per tool: its groups and columns, and their counters. A tool's table is TOML beside its reader.

use diskwright_base::Catalogue;
use diskwright_base::toml_reader;
use serde::Deserialize;

/// A column that the catalogue knows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolColumn {
    /// Canonical id.
    pub counter: String,
    /// Factor from a value of the log to the catalogue's unit.
    #[serde(rename = "times")]
    pub scale: f64,
    /// Set if the log has the rest to 100.
    #[serde(default, rename = "rest")]
    pub is_rest: bool,
    /// The tool's names of the column.
    pub names: Vec<String>,
}

/// A group of columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnGroup {
    /// Id of the group.
    pub id: String,
    /// The tool's names of the group; `*` stands for the instance.
    pub names: Vec<String>,
    /// Instance of all its columns, if the name holds none; {} is the text that `*` stands for.
    #[serde(default)]
    pub instance: String,
    /// The columns.
    #[serde(default)]
    pub columns: Vec<ToolColumn>,
}

/// All groups of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolNames {
    group: Vec<ColumnGroup>,
}

/// Target of a log's column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnTarget {
    /// Counter, `foreign.…` if the catalogue lacks it.
    pub counter: String,
    /// Its instance.
    pub instance: String,
    /// Factor from a value of the log to the counter's unit.
    pub scale: f64,
    /// Set if the value is 100 less the log's.
    pub is_rest: bool,
}

impl ToolNames {
    /// Parses a built-in table.
    ///
    /// # Panics
    /// When it is wrong, which a test rules out.
    pub fn builtin(text: &str) -> ToolNames {
        let names: ToolNames = toml_reader::read_built_in("names.toml", text);
        let is_unknown = |c: &&ToolColumn| Catalogue::builtin().get(&c.counter).is_none();
        let unknown = names.group.iter().flat_map(|g| &g.columns).find(is_unknown);
        assert!(unknown.is_none(), "built-in names: {unknown:?} is not in the catalogue");
        names
    }

    /// Finds a group by its name, and the text that its `*` stands for.
    pub fn find_group<'n>(&self, name: &'n str) -> Option<(&ColumnGroup, &'n str)> {
        let match_name = |group: &ColumnGroup| group.names.iter().find_map(|pattern| match_star(pattern, name));
        self.group.iter().find_map(|group| Some((group, match_name(group)?)))
    }

    /// Finds the target of a column of a group.
    pub fn find_target(&self, group: &str, name: &str) -> ColumnTarget {
        let Some((column_group, star)) = self.find_group(group) else {
            let counter = format!("foreign.{}.{name}", group.trim());
            return ColumnTarget { counter, instance: String::new(), scale: 1.0, is_rest: false };
        };
        let instance = match column_group.instance.as_str() {
            "" => star.to_owned(),
            form => form.replace("{}", star),
        };
        match column_group.columns.iter().find(|c| c.names.iter().any(|n| n == name)) {
            Some(c) => ColumnTarget { counter: c.counter.clone(), instance, scale: c.scale, is_rest: c.is_rest },
            None => ColumnTarget {
                counter: format!("foreign.{}.{name}", column_group.id),
                instance,
                scale: 1.0,
                is_rest: false,
            },
        }
    }
}

impl ColumnTarget {
    /// Converts the target of a disk to that of a partition, whose disk the log has too.
    pub fn into_partition(mut self) -> ColumnTarget {
        if let Some(name) = self.counter.strip_prefix("physical_disk.") {
            let volume_counter = format!("logical_disk.{name}");
            self.counter = match Catalogue::builtin().get(&volume_counter) {
                Some(_) => volume_counter,
                None => format!("foreign.partition.{name}"),
            };
        }
        self
    }
}

/// Matches a name; returns the text that `*` of the pattern stands for, which is empty if the pattern has none.
pub(crate) fn match_star<'n>(pattern: &str, name: &'n str) -> Option<&'n str> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(""),
        Some((before, after)) => {
            let middle = name.strip_prefix(before)?.strip_suffix(after)?;
            (!middle.is_empty()).then_some(middle)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_counters_of_groups_and_columns() {
        let names = ToolNames::builtin(
            r#"
            group = [
                { id = "sum", names = ["disk/total"] },
                { id = "disk", names = ["disk/*"], columns = [
                    { counter = "physical_disk.busy", times = 0.01, names = ["util"] },
                    { counter = "physical_disk.avg_s_per_read", times = 0.001, names = ["wait"] }] },
                { id = "cpu", names = ["cpu* usage"], instance = "cpu{}", columns = [
                    { counter = "processor.busy", times = 0.01, rest = true, names = ["idl"] }] },
            ]"#,
        );
        let find = |group: &str, name: &str| {
            let found = names.find_target(group, name);
            (found.counter, found.instance, found.scale, found.is_rest)
        };
        assert_eq!(find("disk/sda", "util"), ("physical_disk.busy".into(), "sda".into(), 0.01, false));
        assert_eq!(find("disk/total", "util"), ("foreign.sum.util".into(), String::new(), 1.0, false));
        assert_eq!(find("disk/sda", "temp"), ("foreign.disk.temp".into(), "sda".into(), 1.0, false));
        assert_eq!(find("cpu3 usage", "idl"), ("processor.busy".into(), "cpu3".into(), 0.01, true));
        assert_eq!(find("else", "x").0, "foreign.else.x");
        assert_eq!(names.find_target("disk/sda1", "util").into_partition().counter, "logical_disk.busy");
    }
}
