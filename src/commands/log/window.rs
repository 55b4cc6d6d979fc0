//! The range of a log that a command reads, and the options for reading it.

use clap::Args;

use super::super::foreign::ForeignOptions;
use super::super::topology_options::TopologyOptions;
use super::super::{Failure, time_argument};

/// The range of a log that a command reads.
#[derive(Args, Clone, Default)]
pub struct LogWindow {
    /// Start: 2026-11-21T22:15:00Z, "2026-11-21 22:15", 22:15, or -10m (before the log's end)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// End, written like --from
    #[arg(long, visible_alias = "until", allow_hyphen_values = true, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    pub(super) foreign: ForeignOptions,
    #[command(flatten)]
    pub(super) topology: TopologyOptions,
    /// Names of the options for the two ends, if they are not --from and --to.
    #[arg(skip)]
    option_names: Option<[&'static str; 2]>,
}

impl LogWindow {
    /// Returns the same options with other ends.
    pub fn with_ends(&self, from: Option<String>, to: Option<String>) -> LogWindow {
        LogWindow { from, to, ..self.clone() }
    }

    /// The start as given.
    pub fn start_text(&self) -> Option<&String> {
        self.from.as_ref()
    }

    /// True if neither end is given.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Returns the options for reading another tool's log, if the whole log is used, with no facts
    /// added about the machine.
    pub fn options_for_whole_log(&self) -> Result<Option<&ForeignOptions>, Failure> {
        let is_plain = self.is_whole() && self.topology.describe_machine()?.is_empty();
        Ok(is_plain.then_some(&self.foreign))
    }

    /// Refuses options for reading a log if there is none: they would have no effect, and `why --host db1` would judge
    /// this machine.
    pub fn refuse_log_options(&self) -> Result<(), Failure> {
        let Some(option) = self.foreign.first_given_option().or_else(|| self.topology.first_given_option()) else {
            return Ok(());
        };
        Err(Failure::Usage(format!("{option} needs a log: it applies only to reading one")))
    }

    /// Refuses options for reading a foreign log if one machine of a store is read; facts about the machine are still
    /// allowed.
    pub fn refuse_reading_options(&self) -> Result<(), Failure> {
        let Some(option) = self.foreign.first_given_option() else { return Ok(()) };
        Err(Failure::Usage(format!("{option} needs a log; --match selects the machine of a store")))
    }

    /// Returns a window of a store, without a log.
    pub fn for_store(from: Option<String>, to: Option<String>) -> LogWindow {
        LogWindow { from, to, ..LogWindow::default() }
    }

    /// Returns the window with the names of other options for its ends.
    pub fn with_option_names(self, from: &'static str, to: &'static str) -> LogWindow {
        LogWindow { option_names: Some([from, to]), ..self }
    }

    /// Names of the options for the two ends.
    pub(super) fn end_option_names(&self) -> [&'static str; 2] {
        self.option_names.unwrap_or(["--from", "--to"])
    }

    /// Returns a window of logs that are still to be read, with the given facts about them.
    pub fn for_reading(
        from: Option<String>,
        to: Option<String>,
        foreign: ForeignOptions,
        topology: TopologyOptions,
    ) -> LogWindow {
        LogWindow { from, to, foreign, topology, option_names: None }
    }

    /// Returns a window of logs that were already read, with the given facts about the machine.
    pub fn for_described_machine(from: Option<String>, to: Option<String>, topology: TopologyOptions) -> LogWindow {
        LogWindow { from, to, topology, ..LogWindow::default() }
    }

    /// Returns the given ends, nanoseconds since 1970 UTC; `-10m` counts back from `end_ns`.
    pub fn parse_ends(&self, end_ns: i64) -> Result<(Option<i64>, Option<i64>), Failure> {
        let end = |text: &Option<String>| text.as_deref().map(|t| time_argument::parse_time(t, end_ns)).transpose();
        let (from, to) = (end(&self.from)?, end(&self.to)?);
        self.check_ends(from.zip(to))?;
        Ok((from, to))
    }

    /// Refuses an empty range.
    pub fn check_ends(&self, ends: Option<(i64, i64)>) -> Result<(), Failure> {
        let [from, to] = self.end_option_names();
        match ends {
            Some((start, end)) if start >= end => Err(Failure::Usage(format!("{from} is not before {to}"))),
            _ => Ok(()),
        }
    }
}
