//! A process of this program that answers a capture. Its output is read without waiting, and nobody waits for its end:
//! it may hang in the kernel.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use diskwright_base::units::format_count;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

/// Interval between looks at whether the capture has to end.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Longest answer of a process that is kept.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A process of this program, and what it has answered so far.
pub struct Answer {
    child: Option<(Child, ChildStdout)>,
    bytes: Vec<u8>,
    error: Option<String>,
}

impl Answer {
    /// Starts a command of this program.
    pub fn start(command: &str, arguments: Vec<String>) -> Answer {
        let mut program = Command::new("/proc/self/exe");
        program.arg0("diskwright").arg(command).args(arguments);
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // a signal from the terminal is for the recorder, which then ends them
        program.process_group(0);
        let mut answer = Answer { child: None, bytes: Vec::new(), error: None };
        match program.spawn().and_then(take_output) {
            Ok(child) => answer.child = Some(child),
            Err(error) => answer.error = Some(format!("`{command}` cannot be started: {error}")),
        }
        answer
    }

    pub fn is_open(&self) -> bool {
        self.child.is_some()
    }

    pub fn ask_to_end(&self) {
        let Some((child, _)) = &self.child else { return };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // one that has ended meanwhile is no error
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }

    /// Reads what is there, and waits for nothing.
    pub fn read_available(&mut self) {
        let Some((_, output)) = &mut self.child else { return };
        let mut buffer = [0; 16 << 10];
        loop {
            match output.read(&mut buffer) {
                Ok(0) => return self.end_child(),
                Ok(count) if self.bytes.len() + count <= MAX_ANSWER_BYTES => {
                    self.bytes.extend_from_slice(&buffer[..count])
                }
                Ok(_) => {
                    self.error = Some(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes"));
                    return self.end_child();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error.to_string());
                    return self.end_child();
                }
            }
        }
    }

    /// Ends the process: one that hangs in the kernel ends when its read returns, and nobody waits for it.
    fn end_child(&mut self) {
        let Some((mut child, output)) = self.child.take() else { return };
        drop(output);
        let status = child.try_wait();
        if !matches!(status, Ok(Some(_))) {
            // it has closed its output or is late
            std::thread::park_timeout(Duration::from_millis(20));
        }
        match child.try_wait() {
            Ok(Some(status)) if !status.success() => self.error = Some(first_error_line(&mut child)),
            Ok(Some(_)) => {}
            _ => {
                let _ = child.kill();
                std::thread::park_timeout(Duration::from_millis(20));
                let _ = child.try_wait();
            }
        }
    }

    /// Returns the answer, and why it is not complete: a process that still runs has used up `max_time`.
    pub fn finish(mut self, max_time: Duration) -> (Vec<u8>, Option<String>) {
        if self.child.is_some() {
            self.error = Some(format!("it took longer than {}", format_count(max_time.as_secs(), "second", "seconds")));
            self.end_child();
        }
        (self.bytes, self.error)
    }
}

/// Takes the output of a process, so that reading it does not wait.
fn take_output(mut child: Child) -> io::Result<(Child, ChildStdout)> {
    let output = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
    Ok((child, output))
}

/// The last line that a failed process printed: the reason. It has ended, so reading does not wait.
fn first_error_line(child: &mut Child) -> String {
    let mut text = String::new();
    let read = child.stderr.take().map(|errors| errors.take(4096).read_to_string(&mut text));
    let line = text.lines().last().filter(|_| read.is_some_and(|read| read.is_ok()));
    line.map_or("it failed".to_owned(), |line| line.trim_start_matches("diskwright: ").to_owned())
}

/// Waits until one of the processes answers or ends, or some time has passed.
pub fn wait_for_answers(answers: &[&Answer]) {
    let outputs = answers.iter().filter_map(|answer| answer.child.as_ref().map(|(_, output)| output));
    let mut polled: Vec<PollFd<'_>> = outputs.map(|output| PollFd::new(output, PollFlags::IN)).collect();
    // an interrupted wait is one that ended early
    let _ = poll(&mut polled, Some(&CHECK_INTERVAL));
}
