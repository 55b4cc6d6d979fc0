//! `disk attach`, `disk detach`: an NBD export as a block device.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::Failure;

/// Arguments of `disk attach`.
#[derive(Args)]
pub struct Attach {
    /// The server's Unix socket; where only one disk is served on this machine, that one's
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The export's name; the server's default export otherwise
    #[arg(long, default_value = "", value_name = "NAME")]
    export: String,
    /// The path into the kernel; the best that works here otherwise
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The kernel's NBD client
    Nbd,
    /// nbdfuse and a loop device
    Fuse,
}

/// Arguments of `disk detach`.
#[derive(Args)]
pub struct Detach {
    /// A device that `disk attach` made
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    device: Option<PathBuf>,
    /// All that `disk attach` made on this machine, and what killed ones left behind
    #[arg(long)]
    all: bool,
}

/// Arguments of `disk keep`.
#[derive(Args)]
pub struct Keep {
    /// The folder of the journal's entry
    entry: PathBuf,
}

pub fn attach(_arguments: &Attach) -> Result<(), Failure> {
    Err(Failure::Failed("attaching is not there yet".into()))
}

pub fn detach(_arguments: &Detach) -> Result<(), Failure> {
    Err(Failure::Failed("detaching is not there yet".into()))
}

pub fn keep(_arguments: &Keep) -> Result<(), Failure> {
    Err(Failure::Failed("attaching is not there yet".into()))
}
