//! The commands, one file each, and shared parts: the command line, the failure type and its exit codes.
//!
//! A new command: a file here, a `mod` line, an entry in [`CliCommand`] and an
//! arm in [`run`].

mod advise;
mod alerts;
mod baseline;
mod calibrate;
mod capture;
mod ceilings;
mod compare;
mod compare_results;
mod counter_selection;
mod credentials;
mod csv_cells;
mod damage;
mod databases;
mod disk;
mod drives;
mod experiments;
mod explain;
mod export;
mod export_columns;
mod fleet;
mod foreign;
mod gains;
mod help;
mod import;
mod instance_patterns;
mod latency;
mod list;
mod live_sampler;
mod live_volumes;
mod log;
mod manual;
mod mark;
mod metric_feeds;
mod metric_store;
mod model_distance;
mod name_search;
mod next_steps;
pub mod output;
mod output_file;
mod own_cost;
mod pacer;
mod paste_block;
mod pasted_runs;
mod plan;
mod probe;
pub mod process_limits;
mod process_selection;
mod record;
mod report;
mod serve;
mod show;
mod show_arrays;
mod show_trace;
mod simulate;
mod ssh;
mod stress;
mod time_argument;
mod topology_options;
mod trace;
mod volume_lines;
mod volume_options;
mod watch;
mod why;
mod workload;

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use diskwright_hostfiles::bounded_file;
use diskwright_ingest::IngestError;

use crate::memory_reserve;

/// Finds the bottleneck of a server and shows the evidence.
#[derive(Parser)]
#[command(name = "diskwright", version, max_term_width = 100, override_help = help::overview())]
pub struct CommandLine {
    /// The subcommand.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands.
#[derive(Subcommand)]
pub enum CliCommand {
    /// Watch this machine or read logs, and find the bottleneck
    Why(why::Arguments),
    /// Record this machine's counters to a log, for days if needed
    Record(record::Arguments),
    /// Watch this machine or a log on a live screen: verdict, devices, processes, history
    Watch(watch::Arguments),
    /// Serve the live screen as a web page, with history; several logs or a metric store become a list of hosts
    Serve(Box<serve::Arguments>),
    /// Trace single requests of this machine's disks: percentiles, stages, the slowest, and the processes behind them
    Trace(trace::Arguments),
    /// Check the settings of this host, or those recorded in a log: what to change, the evidence, and how to undo it
    Advise(advise::Arguments),
    /// Add a bookmark to a log, even while it is being recorded
    Mark(mark::Arguments),
    /// Import logs of other tools into a Diskwright log
    Import(import::Arguments),
    /// Show the counters of a log as charts, a table or CSV
    Show(show::Arguments),
    /// Export a log as CSV, JSON lines, Parquet or Prometheus text
    Export(export::Arguments),
    /// Write one self-contained HTML page about a log or results of `probe`
    Report(report::Arguments),
    /// Compare two logs, windows or results of `probe`: did the change help?
    Compare(compare::Arguments),
    /// Measure what a disk or file can do, and what it costs
    Probe(Box<probe::Arguments>),
    /// Measure how fast this machine is, from processor to loopback network, and whether it has become slower
    Baseline(baseline::Arguments),
    /// Delete a device's profile that `probe` saved; `list ceilings` shows the profiles
    Ceilings(ceilings::Arguments),
    /// Predict what a described system does, or replay a measured trace on a described drive
    Simulate(simulate::Arguments),
    /// Plan storage for a demand: designs that meet it, their cost, and why others fail
    Plan(Box<plan::Arguments>),
    /// Run realistic work on real files: sort, transactions, load, scan, file server, mail, backup
    Workload(workload::Arguments),
    /// Load one part of this machine to a known share, and check that `why` names it
    Stress(stress::Arguments),
    /// Serve a described system as a disk for real programs, and attach it
    Disk(disk::Arguments),
    /// Compare the simulator with the measurements published in its source documents
    Experiments(experiments::Arguments),
    /// Explain a term, counter, rule or pack, by any of its names
    Explain(explain::Arguments),
    /// List counters, rules, packs, sources, formats, suites, levels, drives, experiments, …
    List(list::Arguments),
    /// Print shell completions: bash, zsh, fish, elvish, powershell
    Completions(manual::CompletionArguments),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Manual(manual::ManualArguments),
    /// Read this machine's counters for another process of this program
    #[command(hide = true)]
    ReadSources(live_sampler::Arguments),
    /// Print this machine's ticks for our program on another host
    #[command(hide = true)]
    StreamCounters(ssh::stream_counters::Arguments),
    /// Read what a capture saves, for another process of this program
    #[command(hide = true)]
    CaptureMoment(capture::moment::Arguments),
}

/// Runs a command.
pub fn run(command: CliCommand) -> Result<(), Failure> {
    // a virtual disk keeps what its clients wrote and refuses them more
    if !matches!(command, CliCommand::Disk(_)) {
        memory_reserve::take_reserve();
    }
    match command {
        CliCommand::Why(arguments) => why::run(&arguments),
        CliCommand::Record(arguments) => record::run(&arguments),
        CliCommand::Watch(arguments) => watch::run(&arguments),
        CliCommand::Serve(arguments) => serve::run(&arguments),
        CliCommand::Trace(arguments) => trace::run(&arguments),
        CliCommand::Advise(arguments) => advise::run(&arguments),
        CliCommand::Mark(arguments) => mark::run(&arguments),
        CliCommand::Import(arguments) => import::run(&arguments),
        CliCommand::Show(arguments) => show::run(&arguments),
        CliCommand::Export(arguments) => export::run(&arguments),
        CliCommand::Report(arguments) => report::run(&arguments),
        CliCommand::Compare(arguments) => compare::run(&arguments),
        CliCommand::Probe(arguments) => probe::run(&arguments),
        CliCommand::Baseline(arguments) => baseline::run(&arguments),
        CliCommand::Ceilings(arguments) => ceilings::run(&arguments),
        CliCommand::Simulate(arguments) => simulate::run(&arguments),
        CliCommand::Plan(arguments) => plan::run(&arguments),
        CliCommand::Workload(arguments) => workload::run(&arguments),
        CliCommand::Stress(arguments) => stress::run(&arguments),
        CliCommand::Disk(arguments) => disk::run(&arguments),
        CliCommand::Experiments(arguments) => experiments::run(&arguments),
        CliCommand::Explain(arguments) => explain::run(&arguments),
        CliCommand::List(arguments) => list::run(&arguments),
        CliCommand::Completions(arguments) => manual::print_completions(&arguments),
        CliCommand::Manual(arguments) => manual::write_manual(&arguments),
        CliCommand::ReadSources(arguments) => live_sampler::run(&arguments),
        CliCommand::StreamCounters(arguments) => ssh::stream_counters::run(&arguments),
        CliCommand::CaptureMoment(arguments) => capture::moment::run(&arguments),
    }
}

/// Reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage (exit code 2).
    Usage(String),
    /// The command failed (exit code 1).
    Failed(String),
    /// The reader of the output has gone (success).
    ClosedPipe,
    /// The failure was already reported, possibly by another process of this program; its exit code.
    AlreadyReported(u8),
}

/// Reports a failure and returns the exit code.
pub fn exit_code_of(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) | Err(Failure::ClosedPipe) => 0,
        Err(Failure::AlreadyReported(code)) => code,
        Err(failure) => {
            let text = failure.to_string();
            match process_limits::describe_reached_limit(&text) {
                Some(limit) => output::print_failure(format_args!("{text}; {limit}")),
                None => output::print_failure(text),
            }
            failure.exit_code()
        }
    }
}

impl Failure {
    /// The exit code, as documented.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
            Failure::ClosedPipe => 0,
            Failure::AlreadyReported(code) => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
            Failure::ClosedPipe => f.write_str("the output was closed"),
            Failure::AlreadyReported(code) => write!(f, "ended with {code}"),
        }
    }
}

/// Converts every typed error of the libraries into a failure with exit code 1. Wrong usage is reported where the
/// command line is parsed, except for what only the logs can show to be wrong.
impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let is_usage = (&error as &dyn Any).downcast_ref::<IngestError>().is_some_and(IngestError::is_usage);
        if is_usage { Failure::Usage(error.to_string()) } else { Failure::Failed(error.to_string()) }
    }
}

/// Returns the first option that was given; each option is paired with whether it was given.
fn first_given_option<'a>(options: &[(&'a str, bool)]) -> Option<&'a str> {
    options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
}

/// Reads a file that describes something: rules, prices, panels, a topology.
fn read_description(path: &Path) -> Result<String, Failure> {
    let read = bounded_file::read_text_file(path, bounded_file::MAX_DESCRIPTION_BYTES);
    read.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

/// Host name of this machine.
fn local_host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Path of a file in the user's `~/.config/diskwright`, if it exists.
fn find_user_config_file(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or(home)?;
    Some(folder.join("diskwright").join(name)).filter(|path| path.is_file())
}
