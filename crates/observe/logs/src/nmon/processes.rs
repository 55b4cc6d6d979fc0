//! Lines of processes: `TOP,PID,T0001,...` under their own headings.

use diskwright_base::ProcessRow;

use crate::tool::cells;

/// Positions of the columns of processes.
#[derive(Clone, Debug, Default)]
pub struct TopColumns {
    names: Vec<String>,
}

impl TopColumns {
    /// Parses the heading `TOP,+PID,Time,%CPU,...`; returns false for another line.
    pub fn parse_heading(&mut self, cells: &[String]) -> bool {
        let is_heading = cells.get(1).is_some_and(|c| c.trim_start_matches('+') == "PID");
        if is_heading {
            self.names = cells.iter().map(|c| c.trim().to_owned()).collect();
        }
        is_heading
    }

    /// Parses the process of a line.
    pub fn parse_row(&self, cells: &[String]) -> Option<ProcessRow> {
        let cell = |name: &str| self.names.iter().position(|n| n == name).and_then(|index| cells.get(index));
        let value =
            |name: &str| cell(name).and_then(|c| cells::parse_loose_number(c)).filter(|v| (0.0..1e15).contains(v));
        let resident = value("ResSet").or_else(|| Some(value("ResText")? + value("ResData")?));
        Some(ProcessRow {
            pid: cells.get(1)?.trim().parse().ok()?,
            name: cell("Command")?.clone(),
            cgroup: "/".to_owned(),
            processor: value("%CPU")? * 0.01,
            processor_system: value("%Sys").unwrap_or(0.0) * 0.01,
            resident_bytes: resident.unwrap_or(0.0) * 1024.0,
            ..ProcessRow::default()
        })
    }
}
