//! nmon of Linux and AIX: its recordings (`nmon -f`).

mod processes;
mod reader;
mod section;
#[cfg(test)]
mod tests;

use crate::LogFormat;
use crate::tool::line_cursor;

/// The recordings.
pub static FORMAT: LogFormat = LogFormat {
    id: "nmon",
    title: "nmon of Linux and AIX (nmon -f)",
    explain: "All sections; those that the catalogue does not know become foreign.SECTION.NAME. Processes (TOP) become \
              process tables. Sorted files are read too, but are held in memory. The file names no time zone; use \
              --utc-offset. Record with `nmon -f -t -s 10 -c 360` (AIX: `nmon -f -t -d -s 10 -c 360`, whose -d adds \
              the disks' service and wait times).",
    recognize: |head| is_nmon(head.bytes),
    read: reader::read,
};

/// Returns true if lines begin as those of nmon do: `AAA,` and a known word, or `ZZZZ` and the first tick of a
/// section, if the beginning was lost.
fn is_nmon(bytes: &[u8]) -> bool {
    let known = ["progname", "command", "version", "host", "runname", "interval", "snapshots", "disks_per_line"];
    line_cursor::head_lines(bytes).any(|line| {
        let Some(delimiter) = line.iter().copied().find(|b| matches!(b, b',' | b';')) else { return false };
        let mut cells = line.split(|b| *b == delimiter);
        match (cells.next(), cells.next()) {
            (Some(b"AAA"), Some(word)) => known.iter().any(|k| k.as_bytes() == word),
            (Some(b"ZZZZ"), Some(tick)) => reader::parse_tick_number(tick).is_some(),
            _ => false,
        }
    })
}
