//! CSV of dashboards and clouds: a time, and numbers beside it.

mod column;
mod head;
mod reader;
#[cfg(test)]
mod tests;
mod units;

pub use column::CsvColumn;

use crate::{FORMATS, InputHead, LogFormat};

/// Id of the format, by which it excludes itself from the list.
const ID: &str = "csv";

/// Any table of times and numbers.
pub static FORMAT: LogFormat = LogFormat {
    id: ID,
    title: "CSV of CloudWatch, Azure Monitor, Grafana, or any with a time column",
    explain: "A column of times and columns of numbers, or rows of time, series and value. Columns that are known by \
              the name of a cloud's metric, or are named by --column, become counters; others foreign.csv.NAME. Where \
              none is known, the message lists the columns.",
    recognize: is_table,
    read: reader::read,
};

/// Returns true for a table that no other format recognizes; the format comes last because many logs are CSV.
fn is_table(head: &InputHead<'_>) -> bool {
    let others = FORMATS.iter().filter(|format| format.id != ID);
    head::TableHead::detect(head.bytes).is_some() && !others.into_iter().any(|format| (format.recognize)(head))
}
