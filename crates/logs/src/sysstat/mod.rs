//! The sysstat family: what sadf, sar, iostat and mpstat print.

mod binary;
mod clock;
#[allow(dead_code, reason = "the text readers use the rest")]
mod columns;
mod extras;
mod json;
mod json_log;
mod json_tick;
mod machine;
mod sample;
#[allow(dead_code, reason = "the text readers use the rest")]
mod shaper;
#[allow(dead_code, reason = "the text readers use the rest")]
mod stream;
mod template;
#[cfg(test)]
#[allow(dead_code, reason = "the text readers use the rest")]
mod testing;
mod time;

use json_log::Writer;

use crate::{Format, Head};

/// `sadf -j`.
pub static SADF_JSON: Format = Format {
    id: "sadf-json",
    title: "sysstat: sadf -j (JSON)",
    explain: "All reports that the catalogue knows, the others as foreign.REPORT.NAME; single interrupts only summed \
              over processors. Record with `sar -o FILE 10` or sysstat's collector, convert with `sadf -j FILE -- -A`.",
    recognise: |head| is_document(head, Writer::Sadf),
    read: |input, options, batch| json_log::read(input, options, batch, Writer::Sadf),
};

/// `iostat -o JSON`.
pub static IOSTAT_JSON: Format = Format {
    id: "iostat-json",
    title: "sysstat: iostat -o JSON",
    explain: "Disks and processors, also of an unfinished document and of several one after the other. The first \
              report covers the time since boot and is left out. Record with `iostat -t -x -o JSON 1 > FILE`; without \
              -t the reports bear no times, and --interval must be given.",
    recognise: |head| is_document(head, Writer::Iostat),
    read: |input, options, batch| json_log::read(input, options, batch, Writer::Iostat),
};

/// `mpstat -o JSON`.
pub static MPSTAT_JSON: Format = Format {
    id: "mpstat-json",
    title: "sysstat: mpstat -o JSON",
    explain: "Processor time of each processor. Record with `mpstat -P ALL -o JSON 1 > FILE`.",
    recognise: |head| is_document(head, Writer::Mpstat),
    read: |input, options, batch| json_log::read(input, options, batch, Writer::Mpstat),
};

/// Binary data files.
pub static SA_BINARY: Format = Format {
    id: "sa-binary",
    title: "sysstat: binary data files (saDD), through an installed sadf",
    explain: "Files of sadc (/var/log/sysstat/saDD, /var/log/sa/saDD, `sar -o`) of 9.1.6 and later, of either byte \
              order; `sadf` of the package sysstat must be installed here, and converts what is older than itself.",
    recognise: |head| binary::is_data_file(head.bytes),
    read: binary::read,
};

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

/// Which of the tools that write JSON began this.
fn is_document(head: &Head<'_>, writer: Writer) -> bool {
    let start = head.bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let bytes = &head.bytes[start..];
    let beginning = &bytes[..bytes.len().min(200)];
    if !bytes.starts_with(b"{") || !has(beginning, "\"sysstat\"") || !has(bytes, "\"hosts\"") {
        return false;
    }
    let is_sadf = has(bytes, "\"file-date\"");
    let is_iostat = has(bytes, "\"disk\"") || has(bytes, "\"avg-cpu\"");
    match writer {
        Writer::Sadf => is_sadf,
        Writer::Iostat => !is_sadf && is_iostat,
        Writer::Mpstat => !is_sadf && !is_iostat && has(bytes, "\"statistics\""),
    }
}
