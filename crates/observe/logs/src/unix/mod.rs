//! Text of the tools of other systems: iostat of Solaris and illumos, FreeBSD, AIX, HP-UX and macOS, and their sar.

mod bsd_iostat_headings;
mod columns;
mod idle_disks;
mod iostat;
mod sar;

use crate::LogFormat;

/// Text of iostat.
pub static IOSTAT: LogFormat = LogFormat {
    id: "unix-iostat",
    title: "iostat of Solaris, illumos, FreeBSD, AIX, HP-UX and macOS: text",
    explain: "Solaris `iostat -x` and `-xn` (also -M, -r, -c), FreeBSD `iostat -x` and the plain form, AIX and HP-UX \
              `iostat`, macOS `iostat`. The first report covers the time since boot and is omitted. Times come from \
              lines that `date` prints, Solaris' -T and AIX' -T; without times and --interval, reports are counted. \
              Record with `iostat -xn -T d 10` (Solaris), `iostat -T 10` (AIX).",
    recognize: iostat::is_unix_iostat,
    read: iostat::read,
};

/// Text of sar.
pub static SAR: LogFormat = LogFormat {
    id: "unix-sar",
    title: "sar of Solaris, AIX and HP-UX: text",
    explain: "Processors (-u), disks (-d), paging (Solaris' -g and -p), run queue (-q) and swap space (-r). Averages \
              are omitted. The text has no time zone; use --utc-offset. Print it with `sar -A -f FILE`, or \
              `sar -d 10 360`.",
    recognize: sar::is_unix_sar,
    read: sar::read,
};
