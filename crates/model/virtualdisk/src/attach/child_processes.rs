//! Finds programs of the system, runs them with a time limit, and finds their processes by an argument.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diskwright_hostfiles::programs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::AttachError;

/// Returns the path of a program, or an error that names its package.
pub fn find_program(program: &'static str, package: &'static str) -> Result<PathBuf, AttachError> {
    programs::find_program(program).ok_or(AttachError::Missing { program, package })
}

/// Runs a program, and returns its output, which must fit into the buffer of a pipe: it is read only
/// after the program has ended.
pub fn run_with_limit(command: &mut Command, limit: Duration) -> Result<String, AttachError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let step = || name.rsplit('/').next().unwrap_or(&name).to_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| AttachError::step_error(step(), e))?;
    if !ends_within(&mut child, limit) {
        // a process that waits for a dead disk cannot be reaped; it ends when the disk responds or
        // disappears
        let _ = child.kill();
        return Err(AttachError::Slow { step: step(), seconds: limit.as_secs() });
    }
    let status = child.wait().map_err(|e| AttachError::step_error(step(), e))?;
    let (mut output, mut error_output) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut output));
    let _ = child.stderr.take().map(|mut out| out.read_to_string(&mut error_output));
    if status.success() {
        Ok(output)
    } else {
        Err(AttachError::step_error(
            step(),
            if error_output.trim().is_empty() { status.to_string() } else { error_output.trim().to_owned() },
        ))
    }
}

/// Returns whether a child ends in time.
pub fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let handle = open_pidfd(child.id());
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match &handle {
            Some(handle) => wait_for_ready(&[(handle.as_fd(), PollFlags::IN)], Some(left)),
            None => sleep_for_duration(left.min(Duration::from_millis(5))),
        };
    }
}

/// Returns a handle on a process, to wait for it and to signal it. It stays with this process even if
/// the process id is reused.
pub fn open_pidfd(id: u32) -> Option<OwnedFd> {
    let id = Pid::from_raw(i32::try_from(id).ok()?)?;
    pidfd_open(id, PidfdFlags::empty()).ok()
}

/// Waits until one of the descriptors is ready, and returns its index.
pub fn wait_for_ready(
    descriptors: &[(std::os::fd::BorrowedFd<'_>, PollFlags)],
    limit: Option<Duration>,
) -> Option<usize> {
    let mut watched: Vec<PollFd<'_>> =
        descriptors.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut watched, limit.as_ref()) {
        Ok(ready) if ready > 0 => watched.iter().position(|fd| !fd.revents().is_empty()),
        _ => None,
    }
}

/// Sleeps for a duration; always returns `None`.
pub fn sleep_for_duration(duration: Duration) -> Option<usize> {
    let _ = poll(&mut [], Timespec::try_from(duration).ok().as_ref());
    None
}

/// Polls a condition until it holds; returns false after the time limit.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep_for_duration(Duration::from_millis(5));
    }
}

/// Returns a handle on a process that has exactly this argument.
pub fn open_process(id: u32, argument: &Path) -> Option<OwnedFd> {
    // the argument is checked after the handle is open, because the id may have been reused before
    open_pidfd(id).filter(|_| command_line(id).iter().any(|word| word == argument.as_os_str().as_encoded_bytes()))
}

fn command_line(id: u32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
}

/// Finds the processes of a program that have exactly this argument.
pub fn find_processes(program: &str, argument: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| is_matching_process(*id, program, argument)).collect()
}

fn is_matching_process(id: u32, program: &str, argument: &Path) -> bool {
    let words = command_line(id);
    let (first, rest) = words.split_first().map_or((&[][..], &[][..]), |(first, rest)| (&first[..], rest));
    let name = first.rsplit(|b| *b == b'/').next();
    name == Some(program.as_bytes()) && rest.iter().any(|word| word == argument.as_os_str().as_encoded_bytes())
}

/// Signals all processes of a program that have exactly this argument; returns true when none is
/// left.
pub fn end_processes(program: &str, argument: &Path, signal: Signal, limit: Duration) -> bool {
    for id in find_processes(program, argument) {
        let _ = open_process(id, argument).map(|handle| pidfd_send_signal(handle, signal));
    }
    wait_until(limit, || find_processes(program, argument).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_finds_and_ends_programs() {
        let limit = Duration::from_secs(10);
        assert_eq!(run_with_limit(Command::new("echo").arg("well"), limit).unwrap(), "well\n");
        let error = run_with_limit(Command::new("ls").arg("/no such folder"), limit).unwrap_err().to_string();
        assert!(error.starts_with("ls: ") && error.contains("no such folder"), "{error}");
        assert!(matches!(find_program("no-such-program", "a-package"), Err(AttachError::Missing { .. })));
        let moment = Duration::from_millis(20);
        assert!(
            run_with_limit(Command::new("sleep").arg("60"), moment)
                .unwrap_err()
                .to_string()
                .contains("not finished after")
        );
        // a duration that no other process sleeps
        let length = format!("{}.75", 10_000 + std::process::id());
        let mut child = Command::new("sleep").arg(&length).spawn().unwrap();
        // shortly after its start a process has no arguments yet
        assert!(wait_until(limit, || find_processes("sleep", Path::new(&length)) == [child.id()]));
        assert!(find_processes("sleep", Path::new("10000.25")).is_empty());
        std::thread::scope(|scope| {
            // it must be reaped before it disappears
            scope.spawn(|| child.wait());
            assert!(end_processes("sleep", Path::new(&length), Signal::KILL, limit));
        });
    }
}
