//! Headings and rows of BSD's iostat in its plain form: the disks are groups of columns, and each row is a report
//! (iostat(8) of macOS and FreeBSD):
//!
//! ```text
//!               disk0               disk4       cpu    load average
//!     KB/t  tps  MB/s     KB/t  tps  MB/s  us sy id   1m   5m   15m
//!    30.11    5  0.15    16.00    0  0.00   4  3 93 2.31 2.05 1.88
//! ```

use crate::sysstat::heading_table::parse_cell;
use crate::value_limits::{ShareFault, find_percent_fault};
use diskwright_base::counter_ids::{physical_disk, processor, system};

/// Names of the disks and of the columns below them.
#[derive(Clone, Default)]
pub(super) struct BsdIostatHeadings {
    disks: Vec<String>,
    columns: Vec<String>,
}

/// Parses the line of disks: their names, then `cpu` or `load average`, on FreeBSD `tty` before them. With -d the line
/// holds only names.
pub(super) fn parse_disks(words: &[&str]) -> Option<BsdIostatHeadings> {
    let end = words.iter().position(|word| matches!(*word, "cpu" | "load")).unwrap_or(words.len());
    let start = usize::from(words.first() == Some(&"tty"));
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.ends_with(|c: char| c.is_ascii_digit())
    };
    let rest = words[end..].join(" ");
    let is_known_rest = matches!(rest.as_str(), "" | "cpu" | "cpu load average" | "load average");
    let names =
        words.get(start..end).filter(|names| !names.is_empty() && names.iter().all(is_name) && is_known_rest)?;
    Some(BsdIostatHeadings { disks: names.iter().map(|name| (*name).to_owned()).collect(), columns: Vec::new() })
}

/// Parses the line of columns: `KB/t tps MB/s` for each disk.
pub(super) fn parse_columns(words: &[&str]) -> Option<Vec<String>> {
    let has_group = words.windows(3).any(|three| three == ["KB/t", "tps", "MB/s"]);
    has_group.then(|| words.iter().map(|word| (*word).to_owned()).collect())
}

/// Counter, disk and value.
type BsdIostatValue = (&'static str, String, f64);

impl BsdIostatHeadings {
    /// Returns true if the line of names is missing, or has another number of disks than the columns.
    pub(super) fn lacks_names(&self) -> bool {
        let groups = self.columns.iter().filter(|column| *column == "KB/t").count();
        !self.columns.is_empty() && groups != self.disks.len()
    }

    /// Returns the same disks under these columns.
    pub(super) fn with_columns(&self, columns: Vec<String>) -> BsdIostatHeadings {
        BsdIostatHeadings { disks: self.disks.clone(), columns }
    }

    /// Returns true if the line held only names: the columns below must then show that these are disks.
    pub(super) fn has_only_names(&self, words: &[&str]) -> bool {
        self.disks.len() == words.len()
    }

    /// Parses a row, which is a report.
    pub(super) fn parse_row(&self, words: &[&str]) -> Result<Vec<BsdIostatValue>, &'static str> {
        if self.columns.is_empty() || words.len() != self.columns.len() {
            return Err("a row whose number of cells differs from its headings");
        }
        let value = |word: &&str| parse_cell(word, 1.0).filter(|value| (0.0..1e12).contains(value));
        let cells: Option<Vec<f64>> = words.iter().map(value).collect();
        let cells = cells.ok_or("a cell that is not a number, or an impossible one")?;
        let lacks_names = self.lacks_names();
        let mut row_values: Vec<BsdIostatValue> = Vec::new();
        let (mut group_count, mut shares) = (0_usize, Vec::new());
        for (column, cell) in self.columns.iter().zip(&cells) {
            if column == "KB/t" {
                group_count += 1;
            }
            // without the line of names the disks are unknown
            let disk = self.disks.get(group_count.saturating_sub(1)).filter(|_| !lacks_names).cloned();
            match (column.as_str(), disk) {
                ("KB/t" | "tps" | "MB/s", None) => {}
                // 0 means that nothing was transferred
                ("KB/t", Some(disk)) if *cell > 0.0 => {
                    row_values.push((physical_disk::AVG_BYTES_PER_TRANSFER, disk, cell * 1024.0));
                }
                ("tps", Some(disk)) => row_values.push((physical_disk::TRANSFERS_PER_S, disk, *cell)),
                ("MB/s", Some(disk)) => row_values.push((physical_disk::BYTES_PER_S, disk, cell * 1_048_576.0)),
                ("us", _) => shares.push((processor::USER, *cell)),
                ("ni", _) => shares.push((processor::NICE, *cell)),
                ("sy", _) => shares.push((processor::SYSTEM, *cell)),
                ("in", _) => shares.push((processor::IRQ, *cell)),
                ("id", _) => shares.push((processor::IDLE, *cell)),
                ("1m", _) => row_values.push((system::LOAD_1, String::new(), *cell)),
                ("5m", _) => row_values.push((system::LOAD_5, String::new(), *cell)),
                ("15m", _) => row_values.push((system::LOAD_15, String::new(), *cell)),
                _ => {}
            }
        }
        let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        // integers may miss the sum by one each
        if !values.is_empty()
            && find_percent_fault(&values).is_none_or(|fault| fault == ShareFault::Sum && is_rounded_sum(&values))
        {
            row_values.extend(shares.into_iter().map(|(counter, share)| (counter, "_total".to_owned(), share / 100.0)));
        }
        Ok(row_values)
    }
}

fn is_rounded_sum(shares: &[f64]) -> bool {
    (shares.iter().sum::<f64>() - 100.0).abs() <= shares.len() as f64
}
