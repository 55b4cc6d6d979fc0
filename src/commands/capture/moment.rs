//! `capture-moment`: the hidden command that reads what a capture saves, in a process of its own, because any of these
//! files may hang. Each part is a line, so that what was read before a file hung is not lost.

use std::time::Duration;

use clap::Args;
use diskwright_base::capture::MomentCapture;
use diskwright_counters::live::Roots;
use diskwright_counters::moment::{
    PatientReader, read_blocked_tasks, read_memory_groups, read_memory_processes, read_open_files,
};

use crate::commands::record::self_protection;
use crate::commands::{Failure, output};

/// Time for the files of one process.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Time for all files of the memory of groups or processes.
const MAX_MEMORY_WAIT: Duration = Duration::from_secs(3);

/// Arguments of `capture-moment`.
#[derive(Args)]
pub struct Arguments {
    /// Processes whose open files are read
    pids: Vec<u32>,
}

/// Runs `capture-moment`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    self_protection::return_freed_memory();
    let roots = Roots::default();
    let mut reader = PatientReader::new(MAX_WAIT);
    let mut part = MomentCapture::default();
    part.blocked = read_blocked_tasks(&roots.proc, &mut reader, &mut part.missing);
    print_part(std::mem::take(&mut part))?;
    part.open_files = read_open_files(&roots.proc, &arguments.pids, &mut reader, &mut part.missing);
    print_part(std::mem::take(&mut part))?;
    let mut reader = PatientReader::new(MAX_MEMORY_WAIT);
    part.memory_processes = read_memory_processes(&roots.proc, rustix::param::page_size() as u64, &mut reader);
    part.memory_groups = read_memory_groups(&roots.sys, &mut reader);
    print_part(part)
}

fn print_part(part: MomentCapture) -> Result<(), Failure> {
    output::print_data(format!("{}\n", serde_json::to_string(&part)?).as_bytes())
}
