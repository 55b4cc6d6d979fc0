//! The process that generates the load. It is this program again, so that a cgroup holds only the load, and its
//! supervision (heat, memory, Ctrl-C) runs outside. It ends when its standard input ends, so that files and memory are
//! released even if its starter was killed.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_stress::loads::{LoadOptions, prepare_load};
use diskwright_stress::{StressError, cgroup, class, run};

use super::supervisor::WorkerMessage;
use super::{Arguments, DEFAULT_HOLD, machine_check};
use crate::commands::workload::stop_flag;
use crate::commands::{Failure, output};

/// Internal options that the supervisor passes to the process that generates the load.
#[derive(Args)]
pub struct WorkerArguments {
    /// The level, as a share of 1
    #[arg(long, hide = true)]
    worker_share: Option<f64>,
    /// File through which the process enters its cgroup
    #[arg(long, hide = true)]
    worker_door: Vec<PathBuf>,
    /// File in which the cgroup reports its memory usage
    #[arg(long, hide = true)]
    worker_usage: Option<PathBuf>,
}

impl WorkerArguments {
    /// True in the process that generates the load.
    pub fn is_worker(&self) -> bool {
        self.worker_share.is_some()
    }
}

/// Runs the worker.
pub fn run_worker(arguments: &Arguments) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let message = match generate_load(arguments, &stop) {
        Ok(outcome) => WorkerMessage::Done(outcome),
        Err(StressError::Unavailable(text)) => WorkerMessage::Unavailable(text),
        Err(error) => WorkerMessage::Failed(error.to_string()),
    };
    send_to_supervisor(&message)
}

fn generate_load(arguments: &Arguments, stop: &Arc<AtomicBool>) -> Result<Option<run::LoadOutcome>, StressError> {
    let WorkerArguments { worker_share, worker_door, worker_usage } = &arguments.worker;
    cgroup::enter_group(worker_door)?;
    // after entering the cgroup: a cgroup of version 1 accepts no process with a real-time thread
    stop_with_input(stop)?;
    let class = class::find_class(arguments.class.as_deref().unwrap_or_default())?;
    let share = worker_share.unwrap_or(1.0);
    let options = LoadOptions {
        folder: arguments.dir.clone(),
        processors: machine_check::processor_count(),
        share,
        memory_usage_file: worker_usage.clone(),
        seed: arguments.seed,
    };
    let mut load = prepare_load(&class, &options)?;
    let scale = run::measure_maximum(&mut load, stop)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // a starter that no longer listens also closes our input
    let _ = send_to_supervisor(&WorkerMessage::Holding(scale));
    run::run_at_share(&mut load, scale, share, arguments.duration.unwrap_or(DEFAULT_HOLD), stop).map(Some)
}

fn send_to_supervisor(message: &WorkerMessage) -> Result<(), Failure> {
    let line = serde_json::to_string(message)?;
    output::print_text(&format!("{line}\n"))?;
    output::flush_stdout();
    Ok(())
}

/// Sets a flag when standard input ends.
fn stop_with_input(stop: &Arc<AtomicBool>) -> Result<(), StressError> {
    let stop = Arc::clone(stop);
    let listening = move || {
        // the process must end in time even under a load that saturates the processors
        let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 64];
        while input.read(&mut bytes).is_ok_and(|count| count > 0) {}
        stop.store(true, Ordering::Relaxed);
    };
    let result = std::thread::Builder::new().spawn(listening);
    result.map_err(|error| StressError::Unavailable(format!("no thread can be started: {error}")))?;
    Ok(())
}
