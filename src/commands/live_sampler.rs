//! Sampling of this machine in a process of its own, and the hidden command that this process runs.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock, serve_sources};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::record::self_protection::{self, TrimSchedule};
use super::{Failure, live_volumes, output};

/// Arguments of `read-sources`; what to read comes with its input.
#[derive(Args)]
pub struct Arguments {
    /// Protect the process as a recorder
    #[arg(long)]
    protect: bool,
}

/// Creates the sampler of this machine. Its reading process is this program.
pub fn live_sampler(options: SamplerOptions) -> Sampler {
    with_volumes(Sampler::in_process(reader_command, Roots::default(), Box::new(SystemClock), options))
}

/// Adds what is known of this machine's cloud volumes.
fn with_volumes(mut sampler: Sampler) -> Sampler {
    if let Some(facts) = live_volumes::topology_facts() {
        sampler.set_topology_facts(facts);
    }
    sampler
}

/// Creates the sampler of a recorder, whose reading process is protected like the recorder.
pub fn protected_sampler(options: SamplerOptions) -> Sampler {
    let command = || {
        let mut command = reader_command();
        command.arg("--protect");
        command
    };
    with_volumes(Sampler::in_process(command, Roots::default(), Box::new(SystemClock), options))
}

fn reader_command() -> Command {
    // the program itself, also if its file was replaced
    let mut command = Command::new("/proc/self/exe");
    command.arg0("diskwright").arg("read-sources");
    command
}

/// Runs `read-sources`: it ends with its input, not by the signals that a terminal or a service manager sends to all
/// processes of a group.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    self_protection::return_freed_memory();
    if arguments.protect {
        self_protection::protect_process();
    }
    let _priority = PriorityGuard::raise_priority(ThreadRole::Pacer);
    let mut trims = TrimSchedule::default();
    let after_tick = |series| {
        if trims.is_trim_due(series) {
            self_protection::trim_memory();
        }
    };
    serve_sources(std::io::stdin().lock(), output::lock_stdout(), after_tick)?;
    Ok(())
}
