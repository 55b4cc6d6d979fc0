//! What the head of a log says of its machine, and sentences that several
//! readers say.

use diskwright_base::Topology;

use super::time::{self, DAY, NumericDateOrder};
use crate::LogOptions;
use crate::error::LogError;

/// The machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SysstatMachine<'a> {
    /// Its name.
    pub host: &'a str,
    /// Kernel release.
    pub kernel: &'a str,
    /// Processors; 0 is unknown.
    pub processors: u32,
    /// Physical memory, where a report tells it.
    pub memory_bytes: Option<f64>,
    /// The date in the log's head.
    pub date: &'a str,
}

impl SysstatMachine<'_> {
    /// Said of reports without times.
    pub const ASSUMED: &'static str = "the reports have no timestamps: they are counted from midnight UTC of the \
                                       log's date with the given interval (iostat -t prints times); durations are \
                                       right, times of day are not";
    /// Said at a restart.
    pub const RESTARTED: &'static str = "the machine was restarted";

    /// As a topology without devices: the log does not show what stands on what.
    pub fn topology(&self) -> Topology {
        Topology {
            host: self.host.to_owned(),
            kernel: self.kernel.to_owned(),
            processors: self.processors,
            memory_bytes: self.memory_bytes.map_or(0, |bytes| bytes as u64),
            ..Topology::default()
        }
    }

    /// Where reports without times begin: midnight of the log's date.
    ///
    /// # Errors
    /// When the user gave no interval.
    pub fn assumed_start(
        &self,
        file: &str,
        at: &str,
        options: &LogOptions,
        order: NumericDateOrder,
    ) -> Result<i64, LogError> {
        if options.interval.is_none() {
            return Err(LogError::Needs {
                file: file.to_owned(),
                because: format!("{at}: the reports have no timestamps, and their interval is unknown"),
                option: "--interval 5s (iostat -t prints times next time)",
            });
        }
        let days = time::date(self.date, order).map_or(0, |read| read.date.days());
        Ok(days.saturating_mul(DAY).saturating_mul(1_000_000_000))
    }
}
