//! Measures in a separate process. A request in a system call cannot be cancelled on a device that hangs, and the
//! kernel does not let a process end while it waits for one: so a worker measures and prints, and reports when it is
//! done. The process that the user started then ends, whatever becomes of the worker.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::commands::{Failure, exit_code_of, output};

/// Set in the worker, whose standard input is the socket to its starter.
const WORKER_VARIABLE: &str = "DISKWRIGHT_PROBE_WORKER";
/// Exit code after a second signal.
const KILLED_EXIT_CODE: u8 = 130;
/// Time that the worker gets to end after a signal or a failure.
const END_GRACE: Duration = Duration::from_millis(200);
/// Interval between checks whether the worker has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Event that the starter receives.
enum StarterEvent {
    /// The worker is done, with this exit code.
    Done(u8),
    /// The worker ended without a message.
    Gone,
    /// A signal came.
    Signal,
}

/// Runs `work` in a worker. The first signal sets its flag, upon which it ends early and keeps its results; the second
/// one ends everything.
pub fn run_in_worker(work: impl FnOnce(&Arc<AtomicBool>) -> Result<(), Failure>) -> Result<(), Failure> {
    if std::env::var_os(WORKER_VARIABLE).is_some() {
        return work_as_worker(work);
    }
    let (line, worker_end) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(WORKER_VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(worker_end)));
    if let Some(name) = std::env::args_os().next() {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    }
    let child = command.spawn()?;
    // only the worker may hold its end of the socket
    drop(command);
    worker_result(await_worker(child, line)?)
}

fn worker_result(code: u8) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::AlreadyReported(code)) }
}

/// Follows a worker to its end and returns the exit code.
fn await_worker(mut child: Child, mut line: UnixStream) -> Result<u8, Failure> {
    let (tell, heard) = channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let signal_sender = tell.clone();
    let await_signals = move || signals.forever().all(|_| signal_sender.send(StarterEvent::Signal).is_ok());
    std::thread::Builder::new().spawn(await_signals)?;
    let answers = line.try_clone()?;
    std::thread::Builder::new().spawn(move || read_worker_line(answers, &tell))?;
    let mut signalled = false;
    loop {
        match heard.recv() {
            Ok(StarterEvent::Signal) if signalled => {
                let _ = line.write_all(b"!");
                await_exit(&mut child, true);
                // a worker that waits for a device ends when the device responds
                let _ = child.kill();
                return Ok(KILLED_EXIT_CODE);
            }
            Ok(StarterEvent::Signal) => {
                signalled = true;
                let _ = line.write_all(b"!");
            }
            Ok(StarterEvent::Done(code)) => {
                await_exit(&mut child, signalled || code != 0);
                return Ok(code);
            }
            Ok(StarterEvent::Gone) | Err(_) => {
                let status = child.wait()?;
                return Err(Failure::Failed(format!("the measuring process ended with {status}")));
            }
        }
    }
}

fn read_worker_line(mut line: UnixStream, tell: &Sender<StarterEvent>) {
    let mut code = [0];
    let heard = line.read_exact(&mut code).map_or(StarterEvent::Gone, |()| StarterEvent::Done(code[0]));
    let _ = tell.send(heard);
}

/// Waits for the end of the worker, which shuts its engine down; if that may take long, only for a moment.
fn await_exit(child: &mut Child, may_last: bool) {
    if !may_last {
        let _ = child.wait();
        return;
    }
    let (end, (_keep, never)) = (Instant::now() + END_GRACE, channel::<()>());
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            output::print_note(format_args!(
                "process {} waits for the device and ends when the device responds",
                child.id()
            ));
            return;
        }
        let _: Result<(), RecvTimeoutError> = never.recv_timeout(POLL_INTERVAL);
    }
}

/// Works, prints, sends the exit code and ends.
fn work_as_worker(work: impl FnOnce(&Arc<AtomicBool>) -> Result<(), Failure>) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // a terminal's Ctrl-C also reaches this process; its starter decides what it means
    for signal in [SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    signal_hook::flag::register(SIGTERM, Arc::clone(&stop))?;
    let mut line = UnixStream::from(rustix::io::dup(rustix::stdio::stdin()).map_err(std::io::Error::from)?);
    let (mut orders, stops) = (line.try_clone()?, Arc::clone(&stop));
    #[allow(clippy::disallowed_methods, reason = "the measuring thread may never return")]
    std::thread::Builder::new().spawn(move || {
        // without its starter, nobody needs the measurement
        while orders.read_exact(&mut [0]).is_ok() && !stops.swap(true, Ordering::Relaxed) {}
        release_outputs();
        std::process::exit(KILLED_EXIT_CODE.into());
    })?;
    let code = exit_code_of(work(&stop));
    output::flush_stdout();
    release_outputs();
    let _ = line.write_all(&[code]);
    worker_result(code)
}

/// Closes the outputs, so that readers see their end even if this process cannot end.
fn release_outputs() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
