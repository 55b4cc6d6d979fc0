//! The commands, one file each, and what they share: the command line, the
//! failure type and its exit codes.
//!
//! A new command: a file here, a `mod` line, an entry in [`Command`] and an
//! arm in [`run`].

mod arrays;
mod ceilings;
mod columns;
mod compare;
mod compare_results;
mod disk;
mod drives;
mod experiments;
mod explain;
mod export;
mod feeding;
mod fleet;
mod foreign;
mod import;
mod list;
mod live;
mod log;
mod mark;
mod output;
mod probe;
mod record;
mod report;
mod select;
mod show;
mod show_trace;
mod simulate;
mod store;
mod when;
mod why;

use std::fmt;

use clap::{Parser, Subcommand};

/// Says what holds a server back, with the evidence.
#[derive(Parser)]
#[command(name = "diskwright", version, max_term_width = 100)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Watch this machine, or read logs, and say what holds it back
    Why(why::Arguments),
    /// Append this machine's counters to a log, for days if wanted
    Record(record::Arguments),
    /// Put a bookmark into a log, also while it is being recorded
    Mark(mark::Arguments),
    /// Read logs of other tools into one of ours
    Import(import::Arguments),
    /// Look at a log: chart, table or CSV of its counters
    Show(show::Arguments),
    /// Write a log in another format: CSV, JSON lines, Parquet, Prometheus text
    Export(export::Arguments),
    /// Write one self-contained HTML page on a log, or on results of `probe`
    Report(report::Arguments),
    /// Put two logs, windows or results of `probe` side by side: did the change help?
    Compare(compare::Arguments),
    /// Measure a disk or file: what it can do, and what it costs
    Probe(Box<probe::Arguments>),
    /// Predict: replay a measured trace on a described drive
    Simulate(simulate::Arguments),
    /// Serve a described system as a disk that real programs use, and attach it
    Disk(disk::Arguments),
    /// Hold the simulator against the measurements that its source documents print
    Experiments(experiments::Arguments),
    /// Say what a counter, rule or pack means, by any of its names
    Explain(explain::Arguments),
    /// Print a registry: counters, rules, packs, sources, formats, suites, levels, experiments
    List(list::Arguments),
}

/// Runs a command.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Why(arguments) => why::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Mark(arguments) => mark::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Disk(arguments) => disk::run(&arguments),
        Command::Experiments(arguments) => experiments::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// It was asked wrongly (exit code 2).
    Usage(String),
    /// It failed (exit code 1).
    Failed(String),
    /// Nobody reads the output any more (success).
    ClosedPipe,
}

impl Failure {
    /// True when only the reader of the output has gone.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::ClosedPipe)
    }

    /// The exit code by the contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
            Failure::ClosedPipe => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
            Failure::ClosedPipe => f.write_str("the output was closed"),
        }
    }
}

/// Every typed error of the libraries is a failure with exit code 1; what is
/// wrong usage is said so where the command line is read.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Failed(error.to_string())
    }
}
