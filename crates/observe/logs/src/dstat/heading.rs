//! Two lines of headings, groups above columns, become a plan for the rows.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::title::DstatTitle;
use crate::tool::cells::CellPlan;
use crate::tool::tick_row::TickRow;
use crate::tool::tool_names::{ColumnTarget, ToolNames};
use diskwright_base::counter_ids::memory;
use diskwright_base::diskstats::disk_of_partition;

/// Number of the text with the time of day.
pub const CLOCK: u8 = 0;
/// Number of the text with seconds since 1970.
pub const EPOCH: u8 = 1;

fn tool_names() -> &'static ToolNames {
    static NAMES: OnceLock<ToolNames> = OnceLock::new();
    NAMES.get_or_init(|| ToolNames::builtin(include_str!("names.toml")))
}

/// Returns true for two lines that are headings of dstat, where the titles are lost.
pub fn are_headings(groups: &[String], columns: &[String]) -> bool {
    let has_group = |name: &str| groups.iter().any(|g| g == name);
    let has_column = |name: &str| columns.iter().any(|c| c == name);
    (has_group("total cpu usage") && has_column("usr") && has_column("idl"))
        || (groups.iter().any(|g| g.starts_with("dsk/")) && columns.iter().any(|c| c == "writ" || c.ends_with(":writ")))
}

/// Headings, ready for rows.
#[derive(Debug, Default)]
pub struct DstatHeading {
    /// Plan of each cell.
    pub plan: Vec<CellPlan>,
    /// Set if rows have a time of day.
    pub has_clock: bool,
    /// Set if rows have seconds since 1970.
    pub has_epoch: bool,
    /// Set if columns are left out because nothing says whether they count bits.
    pub is_unit_unknown: bool,
}

impl DstatHeading {
    /// Parses two lines of headings.
    pub fn from_lines(groups: &[String], columns: &[String], title: &DstatTitle, row: &mut TickRow) -> DstatHeading {
        let mut heading = DstatHeading::default();
        let mut pairs = Vec::new();
        let mut group = "";
        for (index, column) in columns.iter().enumerate() {
            group = groups.get(index).map(String::as_str).filter(|g| !g.is_empty()).unwrap_or(group);
            // columns of several of a kind repeat their group's name
            let name = column.strip_prefix(group).and_then(|rest| rest.strip_prefix(':')).unwrap_or(column);
            pairs.push((group, name));
        }
        let targets: Vec<ColumnTarget> =
            pairs.iter().map(|(group, name)| tool_names().find_target(group, name)).collect();
        let disks: HashSet<String> =
            targets.iter().filter(|t| t.counter.starts_with("physical_disk.")).map(|t| t.instance.clone()).collect();
        let mut used = HashSet::new();
        for ((group, name), target) in pairs.into_iter().zip(targets) {
            let plan = match (group, name) {
                ("system", "time") if !heading.has_clock => {
                    heading.has_clock = true;
                    CellPlan::Text(CLOCK)
                }
                ("epoch", "epoch") if !heading.has_epoch => {
                    heading.has_epoch = true;
                    CellPlan::Text(EPOCH)
                }
                ("epoch", "epoch") | ("system", "time") => CellPlan::Skip,
                _ => heading.plan_cell(group, target, title, &disks, row),
            };
            let is_new = match plan {
                CellPlan::Number(column) | CellPlan::Rest(column) => used.insert(column),
                CellPlan::Skip | CellPlan::Text(_) => true,
            };
            heading.plan.push(if is_new { plan } else { CellPlan::Skip });
        }
        add_swap_total(row);
        heading
    }

    fn plan_cell(
        &mut self,
        group: &str,
        mut target: ColumnTarget,
        title: &DstatTitle,
        disks: &HashSet<String>,
        row: &mut TickRow,
    ) -> CellPlan {
        // the group of an unknown plugin is a disk only if it has a disk's columns
        if target.counter.starts_with("foreign.disk.") {
            target.counter = format!("foreign.{group}.{}", &target.counter["foreign.disk.".len()..]);
            target.instance.clear();
        }
        let is_partition = disk_of_partition(&target.instance).is_some_and(|disk| disks.contains(&disk));
        if is_partition {
            target = target.into_partition();
        }
        let is_bytes = group.starts_with("dsk/") && target.counter.contains("_bytes_per_s");
        if is_bytes || group.starts_with("net/") || group == "paging" {
            match title.unit_bytes() {
                // pages are never counted in bits
                Some(bytes) if group != "paging" => target.scale *= bytes,
                Some(_) => {}
                None => {
                    self.is_unit_unknown = true;
                    return CellPlan::Skip;
                }
            }
        }
        CellPlan::for_column(row.target_column(&target), target.is_rest)
    }
}

/// Adds the size of swap space as the sum of its two parts.
fn add_swap_total(row: &mut TickRow) {
    let used = row.find_column("foreign.swap.used", "");
    if let (Some(free), Some(used)) = (row.find_column(memory::SWAP_FREE_BYTES, ""), used) {
        row.add_sum_column(memory::SWAP_TOTAL_BYTES, "", 1.0, &[free, used]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_of_the_catalogue() {
        assert_eq!(tool_names().find_target("dsk/sda", "read").counter, "physical_disk.read_bytes_per_s");
        assert_eq!(tool_names().find_target("dsk/total", "read").counter, "foreign.dsk-total.read");
        assert_eq!(tool_names().find_target("sda", "util").counter, "physical_disk.busy");
    }
}
