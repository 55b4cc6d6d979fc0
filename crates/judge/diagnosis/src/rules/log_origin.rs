//! The program that made a log, and the counters that the log lacked.

use serde::Serialize;

/// Kind of program that made a log.
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

/// Counters that a log lacked, with instructions for recording them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissingCounters {
    /// The program that made the log.
    pub source: LogOrigin,
    /// The counters, each once.
    pub counters: Vec<String>,
    /// Instructions for recording them next time: commands and settings, a sentence or line each.
    #[serde(rename = "how")]
    pub instructions: Vec<String>,
    /// Counters that this program cannot provide, with the reason.
    #[serde(rename = "never")]
    pub unavailable: Vec<String>,
    /// The instructions as a phrase; empty where there are none.
    #[serde(rename = "short")]
    pub summary: String,
}
