//! `simulate`: predicts a described system under its workloads (`system.rs` and `system_run.rs`, with output in
//! `document.rs`, `screen.rs` and `charts.rs`), or replays a measured trace on a described drive (`replay.rs`).
//! `--calibrate` describes a drive (`../calibrate/mod.rs`).

mod charts;
mod document;
pub mod outcome;
mod replay;
pub mod sample_log;
mod screen;
mod sweep;
pub mod system;
pub mod system_run;

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::byte_size::parse_byte_rate;
use diskwright_hostfiles::bounded_file;
use diskwright_report::curves::{self, Curves};
use diskwright_report::sheet::{self, PageSheet};

use super::calibrate::CalibrateOptions;
use super::{Failure, output_file};

/// Arguments of `simulate`.
#[derive(Args)]
pub struct Arguments {
    /// A system: host, controllers, channels, drives, arrays and workloads in TOML (docs/systems.md)
    #[arg(value_name = "SYSTEM.toml", required_unless_present_any = ["replay", "calibrate"],
          conflicts_with_all = ["replay", "calibrate"])]
    system: Option<PathBuf>,
    #[command(flatten)]
    running: system::SimulateOptions,
    /// Replay a trace of measured response times, one request at a time
    #[arg(long, value_name = "TRACE", requires = "drive", conflicts_with = "calibrate", help_heading = "Replay")]
    replay: Option<PathBuf>,
    /// The drive: a `.diskspecs` or `.parv` file of DiskSim
    #[arg(long, value_name = "FILE", requires = "replay", help_heading = "Replay")]
    drive: Option<PathBuf>,
    /// Bytes per second of the channel (10MB), if the drive's file gives none; by default derived from the cache
    /// hits in the trace
    #[arg(long, value_parser = parse_byte_rate, value_name = "SIZE", requires = "replay", help_heading = "Replay")]
    channel: Option<u64>,
    #[command(flatten)]
    calibration: CalibrateOptions,
    #[command(flatten)]
    pictures: ChartArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Files to write charts to.
#[derive(Args)]
pub struct ChartArguments {
    /// Write the charts to an SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write charts and tables to a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `simulate`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.calibration.is_given() {
        if arguments.pictures.are_given() {
            return Err(Failure::Usage("--html and --svg show simulations, but --calibrate describes a device".into()));
        }
        return arguments.calibration.run(arguments.json);
    }
    arguments.pictures.check_writable()?;
    match (&arguments.system, &arguments.replay, &arguments.drive) {
        (Some(system), ..) => system::run(system, &arguments.running, &arguments.pictures, arguments.json),
        (None, Some(trace), Some(drive)) => replay::run(arguments, trace, drive),
        _ => Err(Failure::Usage("simulate needs a SYSTEM.toml, or --replay TRACE --drive FILE".into())),
    }
}

impl ChartArguments {
    /// Checks that the files may be written. Called before minutes of work.
    pub fn check_writable(&self) -> Result<(), Failure> {
        output_file::check_all_writable(self.svg.iter().chain(&self.html))
    }

    /// Writes the requested files.
    pub fn write_charts(
        &self,
        title: &str,
        charts: &[Curves],
        sheet: impl FnOnce() -> PageSheet,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.svg {
            write_text_file(path, &curves::render_svg_file(title, charts))?;
        }
        match &self.html {
            Some(path) => write_text_file(path, &sheet::render_page(&sheet())),
            None => Ok(()),
        }
    }

    /// True if one of the files is standard output, so that nothing else may be printed there.
    pub fn write_to_stdout(&self) -> bool {
        output_file::is_any_stdout(self.svg.iter().chain(&self.html))
    }

    /// True if any chart was requested.
    pub fn are_given(&self) -> bool {
        self.svg.is_some() || self.html.is_some()
    }
}

fn write_text_file(path: &Path, text: &str) -> Result<(), Failure> {
    output_file::write_file(path, text.as_bytes())
}

/// Reads a description as text, replacing invalid bytes.
fn read_text_file(path: &Path) -> Result<String, String> {
    let read = bounded_file::read_file(path, bounded_file::MAX_DESCRIPTION_BYTES);
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|e| e.to_string())
}
