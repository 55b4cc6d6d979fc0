//! atop: its parseable output (`-P`), and its raw files through an installed atop.

mod binary;
mod labels;
mod processes;
mod reader;
mod screen;
#[cfg(test)]
mod tests;

use crate::LogFormat;
pub use screen::SCREEN;

/// Parseable output.
pub static TEXT: LogFormat = LogFormat {
    id: "atop-text",
    title: "atop: parseable output (atop -P)",
    explain: "Processors, load, memory, swap, paging, pressure, disks, volumes, network and processes; other labels \
              are not read. The first sample, which covers the time since boot, is omitted. Print it with \
              `atop -r FILE -P ALL`.",
    recognize: |head| reader::is_text(head.bytes),
    read: |input, options, batch| {
        let name = input.name().to_owned();
        reader::read(input, name, options, batch)
    },
};

/// Raw files.
pub static RAW: LogFormat = LogFormat {
    id: "atop-raw",
    title: "atop: raw files (atop -w, /var/log/atop), through an installed atop",
    explain: "Raw files of the installed version of atop (package atop must be installed). Convert older files with \
              `atopconvert`. Record with `atop -w FILE 10`.",
    recognize: |head| binary::writer_version(head.bytes).is_some(),
    read: binary::read,
};
