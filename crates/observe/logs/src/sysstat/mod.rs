//! The sysstat family: output of sadf, sar, iostat and mpstat.

mod averages;
mod binary;
pub(crate) mod calendar;
pub(crate) mod clock;
mod columns;
pub(crate) mod computed_series;
pub(crate) mod head_line;
pub(crate) mod heading_table;
pub(crate) mod idle_devices;
pub(crate) mod impossible_clock;
mod iostat_text;
mod iostat_totals;
mod json_log;
mod json_sample;
mod json_scanner;
mod left_out_rows;
mod machine;
mod processes;
pub(crate) mod report_row;
mod sadf_rows;
mod sar_text;
mod session;
pub(crate) mod stream_window;
mod template;
#[cfg(test)]
pub(crate) mod testing;
mod tick_collector;
pub(crate) mod time;
mod vmstat;
pub(crate) mod vmstat_headings;
mod xml_log;

use session::DocumentWriter;
pub(crate) use stream_window::StreamWindow;

use crate::{InputHead, LogFormat};

/// `sadf -j`.
pub static SADF_JSON: LogFormat = LogFormat {
    id: "sadf-json",
    title: "sysstat: sadf -j (JSON)",
    explain: "All reports; those that the catalogue does not know become foreign.REPORT.NAME, and single interrupts \
              are summed over processors. Record with `sar -o FILE 10` or sysstat's collector; convert with \
              `sadf -j FILE -- -A`.",
    recognize: |head| is_document(head, DocumentWriter::Sadf),
    read: |input, options, batch| json_log::read(input, options, batch, DocumentWriter::Sadf),
};

/// `sadf -x`.
pub static SADF_XML: LogFormat = LogFormat {
    id: "sadf-xml",
    title: "sysstat: sadf -x (XML)",
    explain: "The same reports as sadf-json. Convert with `sadf -x FILE -- -A`.",
    // only attributes may follow the element's name
    recognize: |head| head.text_lines().any(|line| line.trim_start().starts_with("<sysstat")),
    read: xml_log::read,
};

/// `iostat -o JSON`.
pub static IOSTAT_JSON: LogFormat = LogFormat {
    id: "iostat-json",
    title: "sysstat: iostat -o JSON",
    explain: "Disks and processors. Unfinished documents and several documents in a row are read too. The first \
              report covers the time since boot and is omitted, unless it is the only one. Record with \
              `iostat -t -x -o JSON 1 > FILE`; without -t and --interval, reports are counted.",
    recognize: |head| is_document(head, DocumentWriter::Iostat),
    read: |input, options, batch| json_log::read(input, options, batch, DocumentWriter::Iostat),
};

/// `mpstat -o JSON`.
pub static MPSTAT_JSON: LogFormat = LogFormat {
    id: "mpstat-json",
    title: "sysstat: mpstat -o JSON",
    explain: "Processor time of each processor. Record with `mpstat -P ALL -o JSON 1 > FILE`.",
    recognize: |head| is_document(head, DocumentWriter::Mpstat),
    read: |input, options, batch| json_log::read(input, options, batch, DocumentWriter::Mpstat),
};

/// Text of sar, mpstat and pidstat.
pub static SAR_TEXT: LogFormat = LogFormat {
    id: "sar-text",
    title: "sysstat: text of sar, mpstat and pidstat",
    explain: "All tables, in any locale; headings may repeat, and midnight and restarts may come between. Averages \
              are omitted, unless there is nothing else. pidstat's processes become process tables. The text has no \
              time zone; use --utc-offset. Print it with `S_TIME_FORMAT=ISO sar -A -f FILE`.",
    recognize: sar_text::is_sar_text,
    read: sar_text::read,
};

/// Text of iostat.
pub static IOSTAT_TEXT: LogFormat = LogFormat {
    id: "iostat-text",
    title: "sysstat: text of iostat",
    explain: "Columns of every version, with and without -x, -t, -h, -k, -m, -N; columns are found by heading. The \
              first report covers the time since boot and is omitted, unless it is the only one, or one like the \
              second in a text without times. Record with `S_TIME_FORMAT=ISO iostat -t -x 1`; without -t and \
              --interval, reports are counted.",
    recognize: iostat_text::is_iostat_text,
    read: iostat_text::read,
};

/// Rows of sadf.
pub static SADF_ROWS: LogFormat = LogFormat {
    id: "sadf-rows",
    title: "sysstat: sadf -d (semicolons) and sadf -p (tabs)",
    explain: "All tables of sadf -d and sadf -p, and those of sadf -dh with one list of instances per row. Convert \
              with `sadf -d FILE -- -A`; sadf -j contains more.",
    recognize: sadf_rows::is_sadf_rows,
    read: sadf_rows::read,
};

/// Text of vmstat.
pub static VMSTAT: LogFormat = LogFormat {
    id: "vmstat-text",
    title: "vmstat: text",
    explain: "Memory, swap and processors; no disks. The first row covers the time since boot and is omitted, unless \
              it is the only one, or one like the second in a text without times. Headings may be missing. Record \
              with `vmstat -t 1`; without -t and --interval, rows are counted. Sizes are read as KiB; do not use -S, \
              because the text does not name its unit.",
    recognize: vmstat::is_vmstat_text,
    read: vmstat::read,
};

/// Binary data files.
pub static SA_BINARY: LogFormat = LogFormat {
    id: "sa-binary",
    title: "sysstat: binary data files (saDD), through an installed sadf",
    explain: "Files of sadc 9.1.6 and later (/var/log/sysstat/saDD, /var/log/sa/saDD, `sar -o`), in either byte \
              order. `sadf` (package sysstat) must be installed; it converts files of older versions.",
    recognize: |head| binary::is_data_file(head.bytes),
    read: binary::read,
};

fn contains_text(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

/// Returns true if this tool wrote the first JSON document.
fn is_document(head: &InputHead<'_>, writer: DocumentWriter) -> bool {
    let Some(start) = json_log::find_document_start(head.bytes) else { return false };
    let bytes = &head.bytes[start..];
    if !contains_text(bytes, "\"hosts\"") {
        return false;
    }
    let is_sadf = contains_text(bytes, "\"file-date\"");
    let is_iostat = contains_text(bytes, "\"disk\"") || contains_text(bytes, "\"avg-cpu\"");
    // pidstat writes such documents too; only its rows have a UID. They are not read.
    let is_pidstat = contains_text(bytes, "\"UID\"");
    // cifsiostat and tapestat write such documents too, about other devices; `interrupts"` is also the end of
    // `sum-interrupts` and `individual-interrupts`
    let is_mpstat = ["\"cpu-load\"", "\"node-load\"", "interrupts\""].iter().any(|report| contains_text(bytes, report));
    match writer {
        DocumentWriter::Sadf => is_sadf,
        DocumentWriter::Iostat => !is_sadf && is_iostat,
        DocumentWriter::Mpstat => !is_sadf && !is_iostat && !is_pidstat && is_mpstat,
    }
}
