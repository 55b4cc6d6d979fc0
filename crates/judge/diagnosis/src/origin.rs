//! What made a log, and what it lacked.

use serde::Serialize;

/// What kind of program made a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogOrigin {
    /// Our own recorder.
    #[default]
    Live,
    /// Windows Performance Monitor.
    Perfmon,
    /// sysstat: sar, sadf, iostat.
    Sysstat,
    /// Performance Co-Pilot.
    Pcp,
    /// Prometheus exporters.
    Prometheus,
    /// dstat and dool.
    Dstat,
    /// nmon.
    Nmon,
    /// collectl.
    Collectl,
    /// atop.
    Atop,
    /// A loop that dumps files of /proc.
    Loop,
    /// `top -b`.
    Top,
    /// Tools of Solaris, FreeBSD, AIX, HP-UX and macOS.
    Unix,
    /// Something else.
    Unknown,
}

/// What could not be judged for want of counters, and how to record them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissingCounters {
    /// What made the log.
    pub source: LogOrigin,
    /// The counters, each once.
    pub counters: Vec<String>,
    /// What to do to have them next time: commands and settings, a sentence or line each.
    pub how: Vec<String>,
    /// What this source cannot bring, with the reason.
    pub never: Vec<String>,
    /// `how` as a phrase; empty where there is nothing to do.
    pub short: String,
}
