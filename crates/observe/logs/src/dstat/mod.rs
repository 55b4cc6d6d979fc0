//! dstat, dool and pcp-dstat: their CSV (`--output`).

mod heading;
mod reader;
mod row_dates;
#[cfg(test)]
mod tests;
mod title;

use crate::LogFormat;
use crate::tool::{cells, line_cursor};

/// The CSV of all of them.
pub static FORMAT: LogFormat = LogFormat {
    id: "dstat-csv",
    title: "dstat, dool and pcp-dstat: CSV (--output)",
    explain: "All columns; those that the catalogue does not know become foreign.GROUP.NAME, sums over disks and \
              interfaces with them. The first row covers the time since boot and is omitted. Record with \
              `dstat -tTcmgsdrpy -f --disk-util --output FILE 10` or \
              `dool --epoch --bytes --full -cmgsdrpy --output FILE 10`; without -t or -T the rows have no times, \
              which are then counted from the head's date.",
    recognize: |head| is_dstat(head.bytes),
    read: reader::read,
};

fn is_dstat(bytes: &[u8]) -> bool {
    let mut before: Vec<String> = Vec::new();
    for line in line_cursor::head_lines(bytes) {
        let cells = cells::split_cells(line, b',');
        if title::parse_program(&cells[0]).is_some() || heading::are_headings(&before, &cells) {
            return true;
        }
        before = cells;
    }
    false
}
