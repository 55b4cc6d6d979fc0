//! A load's process, its cgroup and swap file, and what looks after it: heat, memory, disks, and its end.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use diskwright_stress::cgroup::{CgroupPlace, LoadGroup};
use diskwright_stress::class::StressClass;
use diskwright_stress::run::{LoadOutcome, LoadScale};
use diskwright_stress::safety::SafetyWatch;
use diskwright_stress::swap::{self, SwapFile};
use serde::{Deserialize, Serialize};

use super::{failure, left_behind, machine};
use crate::commands::priority::RunsFirst;
use crate::commands::{Failure, output};

/// What is asked of a load.
pub struct StressRequest<'a> {
    pub class: &'a StressClass,
    /// The level, of 1.
    pub share: f64,
    pub lasts: Duration,
    pub dir: &'a Path,
    pub seed: u64,
}

/// A line of the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMessage {
    /// The most is known, and its share is held from now on.
    Holding(LoadScale),
    /// It ended; nothing came out where it was stopped before the most was known.
    Done(Option<LoadOutcome>),
    /// This machine cannot do it.
    Unavailable(String),
    /// It failed.
    Failed(String),
}

/// What happened to a load.
pub enum WorkerEvent {
    Holding(LoadScale),
    Done(Option<LoadOutcome>),
}

/// A load that runs. Its parts end in the order of the fields: first the process, then what it was in.
pub struct StressRun {
    process: WorkerProcess,
    lines: Receiver<String>,
    watch: SafetyWatch,
    stopped: Option<String>,
    /// Why there is no cgroup, if there is none.
    no_group: Option<String>,
    /// What the most is, once it is known.
    pub scale: Option<LoadScale>,
    swap: Option<SwapFile>,
    group: Option<LoadGroup>,
}

/// A child that is never left behind.
struct WorkerProcess {
    child: Child,
    /// Closed to stop it.
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
            crate::commands::live::nap(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl StressRun {
    /// Begins: the most is measured first.
    pub fn begin(request: &StressRequest<'_>) -> Result<StressRun, Failure> {
        let class = request.class;
        let limit = (class.limit_mib > 0).then_some(class.limit_mib << 20);
        let (group, no_group) = match CgroupPlace::here().group(limit) {
            Ok(group) => (Some(group), None),
            // a load whose memory is not limited is safe without
            Err(error) if limit.is_none() => (None, Some(error.to_string())),
            Err(error) => return Err(failure(error)),
        };
        let needs_swap = class.swap_mib > 0 && machine::needs_swap_file(class);
        let swap =
            if needs_swap { Some(SwapFile::create(request.dir, class.swap_mib << 20).map_err(failure)?) } else { None };
        let mut child = command(request, group.as_ref())?.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        let listening = move || {
            let _first = RunsFirst::begin();
            for line in BufReader::new(output.expect("a pipe was asked for")).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let begun = std::thread::Builder::new().spawn(listening);
        begun.map_err(|error| Failure::Failed(format!("no thread can be started: {error}")))?;
        let folder = (class.room() > 0).then_some(request.dir);
        let (process, watch) = (WorkerProcess { child, input }, SafetyWatch::new(Path::new("/"), folder));
        Ok(StressRun { process, lines, watch, stopped: None, no_group, scale: None, swap, group })
    }

    /// Says what is missing of what looks after it.
    pub fn tell_limits(&self) {
        if let Some(reason) = &self.no_group {
            output::note(format_args!("the load has no separate cgroup: {reason}"));
        }
        if let Some(swap) = &self.swap {
            output::note(format_args!("the load uses a swap file in {}", output::name(swap.folder().display())));
        }
        if !self.watch.sees_heat() {
            output::note("no sensor reports a critical limit, so heat does not stop this load");
        }
    }

    /// Whether it has a cgroup of its own.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// Asks it to end.
    pub fn stop(&mut self, reason: &str) {
        self.stopped.get_or_insert_with(|| reason.to_owned());
        self.end();
    }

    /// It may end now; what it did until then counts.
    pub fn end(&mut self) {
        self.process.input = None;
    }

    /// Why it was stopped, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Waits for what happens next, for a while; looks whether it is safe to go on.
    pub fn next(&mut self, patience: Duration) -> Result<Option<WorkerEvent>, Failure> {
        if self.stopped.is_none()
            && let Some(reason) = self.watch.reason()
        {
            self.stop(&reason);
        }
        let line = match self.lines.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
        };
        match serde_json::from_str(&line)? {
            WorkerMessage::Holding(scale) => Ok(Some(WorkerEvent::Holding(scale))),
            WorkerMessage::Done(outcome) => Ok(Some(WorkerEvent::Done(outcome))),
            WorkerMessage::Unavailable(text) | WorkerMessage::Failed(text) => Err(Failure::Failed(text)),
        }
    }

    fn died(&mut self) -> Failure {
        match self.process.child.wait() {
            Ok(status) => {
                // a signal alone does not say whose it was
                let reason = self.group.as_ref().and_then(LoadGroup::death);
                let reason = reason.map_or_else(|| status.to_string(), str::to_owned);
                // the load is gone, and what it swapped out with it
                self.swap = None;
                Failure::Failed(format!("the load ended unexpectedly ({reason}); {}", left_behind(&swap::left())))
            }
            Err(error) => error.into(),
        }
    }

    /// Waits for its process.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.process.input = None;
        self.process.child.wait()?;
        Ok(())
    }
}

fn command(request: &StressRequest<'_>, group: Option<&LoadGroup>) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    // one word, as a folder's name may begin like an option
    let mut dir = OsString::from("--dir=");
    dir.push(request.dir);
    command.arg("stress").arg(&request.class.id).arg(dir);
    command.arg("--seed").arg(request.seed.to_string());
    command.arg("--for").arg(format!("{}ms", request.lasts.as_millis()));
    command.arg("--worker-share").arg(request.share.to_string());
    if let Some(group) = group {
        for door in group.doors() {
            command.arg("--worker-door").arg(door);
        }
        if let Some(usage) = group.usage_file() {
            command.arg("--worker-usage").arg(usage);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
