//! The logs that a command reads: their range, the options for reading them, and messages about them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use diskwright_base::LogPiece;
use diskwright_base::text::printable_line;
use diskwright_diagnosis::{Judge, Verdict};
use diskwright_ingest::merge::MergeMember;
use diskwright_ingest::{Event, Input, MachineDescription, OpenedLogs, ReadingOptions, Reporter};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::foreign::ForeignOptions;
use super::topology_options::TopologyOptions;
use super::volume_options::VolumeOptions;
use super::{Failure, output, pacer, time_argument};

pub use diskwright_ingest::Logs;

/// Opens the logs that paths stand for.
pub fn open(paths: &[PathBuf], window: &LogWindow) -> Result<Logs, Failure> {
    open_input(&new_input(paths), window)
}

/// Returns what paths stand for.
pub fn new_input(paths: &[PathBuf]) -> Input {
    Input::from_paths(paths, &new_reporter())
}

/// Opens what was named.
pub fn open_input(input: &Input, window: &LogWindow) -> Result<Logs, Failure> {
    // an input without logs says so before options that do not fit are refused
    input.logs()?;
    let machine = window.topology.describe_machine()?;
    let opened = input.open(&window.foreign.reading_options())?;
    if input.is_store() { take_whole(opened, machine) } else { window.limit_logs(opened, machine) }
}

/// Takes the whole of opened logs, whose window was fixed where they were read.
pub fn take_whole(opened: OpenedLogs, machine: MachineDescription) -> Result<Logs, Failure> {
    let range = opened.range_ns();
    Ok(opened.into_logs(range, true, machine)?)
}

/// Returns a reporter that prints messages on standard error, and draws progress bars there if it is a terminal.
pub fn new_reporter() -> Reporter {
    let bars: Mutex<Vec<ProgressBar>> = Mutex::default();
    Reporter::new(move |event| {
        let mut bars = bars.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Warning(text) => output::print_warning(text),
            Event::Note(text) => output::print_note(text),
            Event::ReadingStarted { name, total_bytes } => bars.push(bytes_bar(&name, total_bytes)),
            Event::BytesRead(bytes) => bars.last().into_iter().for_each(|bar| bar.set_position(bytes)),
            Event::UnpackingStarted { name } => {
                bars.push(pacer::watch_progress_bar(None, format!("looking into {name}")));
            }
            Event::FileUnpacked => bars.last().into_iter().for_each(ProgressBar::tick),
            Event::Finished => bars.pop().into_iter().for_each(|bar| bar.finish_and_clear()),
        }
    })
}

/// Progress bar of the bytes read, on a terminal.
fn bytes_bar(name: &str, total_bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
    let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
    if let (Some(_), Ok(style)) = (total_bytes, ProgressStyle::with_template(template)) {
        bar.set_style(style);
    }
    bar.set_prefix(printable_line(&format!("reading {name}")).into_owned());
    bar
}

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
    foreign: ForeignOptions,
    #[command(flatten)]
    topology: TopologyOptions,
    /// Names of the options for the two ends, if they are not --from and --to.
    #[arg(skip)]
    option_names: Option<[&'static str; 2]>,
}

impl LogWindow {
    /// Returns the same options with other ends.
    pub fn with_ends(&self, from: Option<String>, to: Option<String>) -> LogWindow {
        LogWindow { from, to, ..self.clone() }
    }

    /// True if arrays are declared (`--array`, `--topology`).
    pub fn declares_arrays(&self) -> bool {
        self.topology.declares_arrays()
    }

    /// True if models of disks are declared (`--drive`).
    pub fn declares_models(&self) -> bool {
        self.topology.declares_models()
    }

    /// Returns the same options with other arrays, if any are given.
    pub fn with_arrays(&self, arrays: &[String], file: Option<&PathBuf>) -> LogWindow {
        LogWindow { topology: self.topology.with_arrays(arrays, file), ..self.clone() }
    }

    /// The start as given.
    pub fn start_text(&self) -> Option<&String> {
        self.from.as_ref()
    }

    /// True if neither end is given.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Returns the options for reading another tool's log.
    pub fn reading_options(&self) -> ReadingOptions {
        self.foreign.reading_options()
    }

    /// Returns the options for reading another tool's log, if the whole log is used, with no facts
    /// added about the machine.
    pub fn options_for_whole_log(&self) -> Result<Option<ReadingOptions>, Failure> {
        let is_plain = self.is_whole() && self.topology.describe_machine()?.is_empty();
        Ok(is_plain.then(|| self.foreign.reading_options()))
    }

    /// Refuses options for reading a log if there is none: they would have no effect, and `why --host db1` would judge
    /// this machine.
    pub fn refuse_log_options(&self) -> Result<(), Failure> {
        let Some(option) = self.foreign.first_given_option().or_else(|| self.topology.first_given_option()) else {
            return Ok(());
        };
        Err(Failure::Usage(format!("{option} needs a log: it applies only to reading one")))
    }

    /// What the user says about cloud volumes; it counts for this machine too.
    pub fn volume_options(&self) -> &VolumeOptions {
        &self.topology.volumes
    }

    /// Refuses options for cloud volumes where neither a log nor this machine is judged.
    pub fn refuse_volume_options(&self) -> Result<(), Failure> {
        match self.topology.volumes.first_given_option() {
            Some(option) => Err(Failure::Usage(format!("{option} needs a log: its disks are volumes of a cloud"))),
            None => Ok(()),
        }
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

    /// Opens logs that were read already.
    pub fn open_members(&self, members: Vec<MergeMember>, reporter: &Reporter) -> Result<Logs, Failure> {
        let machine = self.topology.describe_machine()?;
        self.limit_logs(OpenedLogs::from_members(members, reporter)?, machine)
    }

    /// Returns the window with the names of other options for its ends.
    pub fn with_option_names(self, from: &'static str, to: &'static str) -> LogWindow {
        LogWindow { option_names: Some([from, to]), ..self }
    }

    /// Names of the options for the two ends.
    fn end_option_names(&self) -> [&'static str; 2] {
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

    /// Limits opened logs to the window.
    fn limit_logs(&self, opened: OpenedLogs, machine: MachineDescription) -> Result<Logs, Failure> {
        let (first, last) = opened.range_ns();
        let (from, to) = self.parse_ends(last)?;
        let range = (from.unwrap_or(first).max(first), to.unwrap_or(last).min(last));
        if range.0 > range.1 {
            let covered = format!("{} to {}", time_argument::rfc3339(first), time_argument::rfc3339(last));
            let [from, to] = self.end_option_names();
            return Err(Failure::Usage(format!("the log has nothing between {from} and {to}; it covers {covered}")));
        }
        Ok(opened.into_logs(range, from.is_none(), machine)?)
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

/// Judges the content of logs.
pub fn judge_logs(logs: &Logs, mut judge: Judge) -> Result<Vec<Verdict>, Failure> {
    logs.read::<Failure>(|piece| {
        judge_piece(&mut judge, piece);
        Ok(())
    })?;
    Ok(judge.finish())
}

/// Passes a piece of a log to a judge.
pub fn judge_piece(judge: &mut Judge, piece: LogPiece<'_>) {
    match piece {
        LogPiece::Frame(frame) => judge.add_frame(frame),
        LogPiece::Note(note) => judge.add_note(&note),
    }
}
