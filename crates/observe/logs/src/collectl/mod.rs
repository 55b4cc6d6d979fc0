//! collectl: its tables (`-P`) and its recordings of the kernel's files (`-f`).

mod header;
mod kernel_fields;
mod raw;
mod table;
#[cfg(test)]
mod tests;

use crate::LogFormat;

pub(crate) use raw::is_raw;

/// Tables.
pub static TABLE: LogFormat = LogFormat {
    id: "collectl-table",
    title: "collectl: tables (-P)",
    explain: "All columns of -P, of details (.dsk, .cpu, .net) and of sums (.tab), with any separator; those that the \
              catalogue does not know become foreign.GROUP.NAME. A sum over disks is not a disk: record details, with \
              `collectl -sCDNmj -i 10 -P -f DIR`, or better the recording itself with `collectl -scDmnZ -i 10 -f DIR`.",
    recognize: |head| table::is_table(head.bytes),
    read: table::read,
};

/// Recordings.
pub static RAW: LogFormat = LogFormat {
    id: "collectl-raw",
    title: "collectl: recordings (-f, .raw.gz)",
    explain: "Processors, disks, memory, paging, network and processes, from the kernel's own totals; interrupts by \
              line, slabs and other subsystems are not read. Record with `collectl -scdmnZ -i 10 -f DIR`.",
    recognize: |head| raw::is_raw(head.bytes),
    read: raw::read,
};
