//! A load's process, its cgroup and swap file, and its supervision: heat, memory, disks, and its end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_stress::cgroup::{CgroupRoots, LoadGroup};
use diskwright_stress::class::StressClass;
use diskwright_stress::run::{LoadMaximum, LoadOutcome};
use diskwright_stress::safety::SafetyWatch;
use diskwright_stress::swap::{self, SwapFile};
use serde::{Deserialize, Serialize};

use super::{left_behind, machine_check, stress_failure};
use crate::commands::{Failure, output};

/// Parameters of a load.
pub struct StressRequest<'a> {
    pub class: &'a StressClass,
    /// The level, as a share of 1.
    pub share: f64,
    pub duration: Duration,
    pub dir: &'a Path,
    pub seed: u64,
}

/// A message from the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMessage {
    /// The maximum was measured, and a share of it is held from now on.
    Holding(LoadMaximum),
    /// The load ended; without a result if it was stopped before the maximum was known.
    Done(Option<LoadOutcome>),
    /// This machine cannot run the load.
    Unavailable(String),
    /// The load failed.
    Failed(String),
}

/// An event of a load.
pub enum WorkerEvent {
    Holding(LoadMaximum),
    Done(Option<LoadOutcome>),
}

/// A running load. Its parts are dropped in the order of the fields: first the process, then its surroundings.
pub struct StressRun {
    process: WorkerProcess,
    lines: Receiver<String>,
    watch: SafetyWatch,
    stop_reason: Option<String>,
    /// Reason why the load has no cgroup, if it has none.
    no_group_reason: Option<String>,
    /// The maximum, once it is known.
    pub scale: Option<LoadMaximum>,
    swap: Option<SwapFile>,
    group: Option<LoadGroup>,
}

/// A child process that is never left behind.
struct WorkerProcess {
    child: Child,
    /// Closed to stop the child.
    input: Option<ChildStdin>,
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.input = None;
        // a load that ends removes its files; one that does not end in time is killed, and its files had no names
        for _ in 0..500 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            crate::commands::pacer::sleep_interruptibly(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl StressRun {
    /// Starts a load, which first measures the maximum.
    pub fn start_load(request: &StressRequest<'_>) -> Result<StressRun, Failure> {
        let class = request.class;
        let limit = (class.limit_mib > 0).then_some(class.limit_mib << 20);
        let (group, no_group) = match CgroupRoots::of_host().create_group(limit) {
            Ok(group) => (Some(group), None),
            // a load without a memory limit is safe without a cgroup
            Err(error) if limit.is_none() => (None, Some(error.to_string())),
            Err(error) => return Err(stress_failure(error)),
        };
        let needs_swap = class.swap_mib > 0 && machine_check::needs_swap_file(class);
        let swap = if needs_swap {
            Some(SwapFile::create(request.dir, class.swap_mib << 20).map_err(stress_failure)?)
        } else {
            None
        };
        let mut child = worker_command(request, group.as_ref())?.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        let listening = move || {
            let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
            for line in BufReader::new(output.expect("a pipe was requested")).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let result = std::thread::Builder::new().spawn(listening);
        result.map_err(|error| Failure::Failed(format!("no thread can be started: {error}")))?;
        let folder = (class.needed_bytes() > 0).then_some(request.dir);
        let (process, watch) = (WorkerProcess { child, input }, SafetyWatch::new(Path::new("/"), folder));
        Ok(StressRun { process, lines, watch, stop_reason: None, no_group_reason: no_group, scale: None, swap, group })
    }

    /// Warns about supervision that is missing.
    pub fn warn_about_limits(&self) {
        if let Some(reason) = &self.no_group_reason {
            output::print_note(format_args!("the load has no separate cgroup: {reason}"));
        }
        if let Some(swap) = &self.swap {
            output::print_note(format_args!(
                "the load uses a swap file in {}",
                output::escape_name(swap.folder().display())
            ));
        }
        if !self.watch.has_sensors() {
            output::print_note("no sensor reports a critical limit, so heat does not stop this load");
        }
    }

    /// True if the load has a separate cgroup.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// Asks the load to end.
    pub fn stop(&mut self, reason: &str) {
        self.stop_reason.get_or_insert_with(|| reason.to_owned());
        self.let_end();
    }

    /// Lets the load end; what it did until then counts.
    pub fn let_end(&mut self) {
        self.process.input = None;
    }

    /// Reason why the load was stopped, if it was.
    pub fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    /// Waits up to a time limit for the next event; checks whether it is safe to continue.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<WorkerEvent>, Failure> {
        if self.stop_reason.is_none()
            && let Some(reason) = self.watch.stop_reason()
        {
            self.stop(&reason);
        }
        let line = match self.lines.recv_timeout(timeout) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(self.exit_failure()),
        };
        match serde_json::from_str(&line)? {
            WorkerMessage::Holding(scale) => Ok(Some(WorkerEvent::Holding(scale))),
            WorkerMessage::Done(outcome) => Ok(Some(WorkerEvent::Done(outcome))),
            WorkerMessage::Unavailable(text) | WorkerMessage::Failed(text) => Err(Failure::Failed(text)),
        }
    }

    fn exit_failure(&mut self) -> Failure {
        match self.process.child.wait() {
            Ok(status) => {
                // a signal alone does not show who sent it
                let reason = self.group.as_ref().and_then(LoadGroup::oom_kill_reason);
                let reason = reason.map_or_else(|| status.to_string(), str::to_owned);
                // the load is gone, and so is what it swapped out
                self.swap = None;
                Failure::Failed(format!(
                    "the load ended unexpectedly ({reason}); {}",
                    left_behind(&swap::find_leftovers())
                ))
            }
            Err(error) => error.into(),
        }
    }

    /// Waits for the end of the load's process.
    pub fn finish_process(mut self) -> Result<(), Failure> {
        self.process.input = None;
        self.process.child.wait()?;
        Ok(())
    }
}

fn worker_command(request: &StressRequest<'_>, group: Option<&LoadGroup>) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    // as one argument, because a folder's name may begin like an option
    let mut dir = OsString::from("--dir=");
    dir.push(request.dir);
    command.arg("stress").arg(&request.class.id).arg(dir);
    command.arg("--seed").arg(request.seed.to_string());
    command.arg("--for").arg(format!("{}ms", request.duration.as_millis()));
    command.arg("--worker-share").arg(request.share.to_string());
    if let Some(group) = group {
        for procs_file in group.procs_files() {
            command.arg("--worker-door").arg(procs_file);
        }
        if let Some(usage) = group.memory_usage_file() {
            command.arg("--worker-usage").arg(usage);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
