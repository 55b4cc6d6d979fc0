//! One connection to a host: which of the three ways is open, best first.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskwright_base::text::printable_line;
use diskwright_hostfiles::programs::{command_without_secrets, find_program};

use crate::{COLLECT_SCRIPT, ProgramCopy, SshError, SshTarget};

/// Beginning of the lines that `collect.sh` says to us.
const GREETING: &str = "diskwright-ssh 1 ";
/// Largest amount of other text before them, such as what a shell's start files print, bytes.
const MAX_OTHER_BYTES: u64 = 64 << 10;
/// Largest part of what `ssh` says on standard error, bytes: its end matters.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// Time for the answer beyond that for the connection: the shell starts, looks for our program and starts it.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Time to wait for the end of `ssh` after that of its output, for the rest of what it says, and between looks.
const END_TIME: Duration = Duration::from_secs(10);
const ERROR_TIME: Duration = Duration::from_millis(500);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Slowest network over which a copy still counts as arriving, bytes per second.
const MIN_COPY_RATE: u64 = 200_000;

/// How to connect, and what to ask.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Configuration of `ssh` other than the user's (`ssh -F`).
    pub config: Option<PathBuf>,
    /// Never ask for passwords: several hosts, or nobody at the keyboard.
    pub is_batch: bool,
    /// Time to connect.
    pub timeout: Duration,
    /// A program to copy where ours is missing.
    pub copy: Option<Arc<ProgramCopy>>,
    /// Interval of ticks; a shell loop takes whole seconds.
    pub every: Duration,
    /// How long to collect; `None` until the connection ends.
    pub lasts: Option<Duration>,
    /// Another command of our program to run there, and its arguments.
    pub command: Vec<String>,
    /// The connections that are open, so that a signal can end them.
    pub open: OpenConnections,
}

/// Connections that are open or being opened.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<Mutex<Vec<Weak<Mutex<Child>>>>>);

impl OpenConnections {
    /// Ends all of them.
    pub fn kill_all(&self) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).for_each(|child| drop(lock(&child).kill()));
    }

    fn add(&self, child: &Arc<Mutex<Child>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|child| child.strong_count() > 0);
        known.push(Arc::downgrade(child));
    }
}

/// The way in which a host is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskWay {
    /// Our program is there.
    Program {
        /// Its name and version.
        version: String,
    },
    /// Ours was copied, and is removed.
    Copied {
        /// Its name and version.
        version: String,
    },
    /// A shell loop prints files of the kernel.
    Shell {
        /// The host's kernel, as `uname -srm` prints it.
        kernel: String,
        /// Why it is not our program.
        because: String,
    },
}

impl AskWay {
    /// Its word in JSON.
    pub fn id(&self) -> &'static str {
        match self {
            AskWay::Program { .. } => "program",
            AskWay::Copied { .. } => "copied",
            AskWay::Shell { .. } => "shell",
        }
    }

    /// It in words: `by diskwright 0.1.0 there`.
    pub fn describe(&self) -> String {
        match self {
            AskWay::Program { version } => format!("by {version} there"),
            AskWay::Copied { version } => format!("by a copy of {version}, which is removed"),
            AskWay::Shell { kernel, because } => format!("by a shell loop ({kernel}; {because})"),
        }
    }
}

/// The end of what `ssh` says on standard error.
type ErrorText = Arc<Mutex<Vec<u8>>>;

/// A connection. Dropping it ends `ssh`, and with it what runs on the other side.
pub struct Connection {
    child: Arc<Mutex<Child>>,
    /// Kept open: its end tells the other side that we are gone.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: ErrorText,
    error_thread: Option<JoinHandle<()>>,
    way: AskWay,
    /// Runs until the answer has begun.
    deadline: Option<Deadline>,
}

impl Connection {
    /// Connects, and finds the way. The time to answer runs on until [`Connection::end_deadline`].
    ///
    /// # Errors
    /// When there is no `ssh`, the host refuses or does not answer in time, or has no way.
    pub fn open(target: &SshTarget, options: &ConnectOptions) -> Result<Connection, SshError> {
        let mut child = start_ssh(target, options)?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe was asked for"));
        let (errors, error_thread) = collect_errors(&mut child)?;
        let child = Arc::new(Mutex::new(child));
        options.open.add(&child);
        let deadline = Some(Deadline::start(&child, deadline_time(options))?);
        let mut connection = Connection {
            child,
            input,
            output: BufReader::with_capacity(64 << 10, output),
            errors,
            error_thread,
            way: AskWay::Program { version: String::new() },
            deadline,
        };
        match connection.greet(options) {
            Ok(way) => connection.way = way,
            Err(_) if connection.end_deadline() => return Err(SshError::Silent(deadline_time(options).as_secs())),
            Err(SshError::Io(error)) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(SshError::Refused(connection.end_text(&error.to_string())));
            }
            Err(error) => return Err(error),
        }
        Ok(connection)
    }

    /// The way that was found.
    pub fn way(&self) -> &AskWay {
        &self.way
    }

    /// What the other side prints.
    pub fn output(&mut self) -> &mut BufReader<ChildStdout> {
        &mut self.output
    }

    /// Tells that the answer has begun, so that the time for it ends; true if it was over before.
    pub fn end_deadline(&mut self) -> bool {
        self.deadline.take().is_some_and(Deadline::end)
    }

    /// A handle that ends the connection from another thread: what waits for output then sees its end.
    pub fn killer(&self) -> ConnectionKiller {
        ConnectionKiller(Arc::clone(&self.child))
    }

    /// Waits until `ssh` has ended, and returns its exit status and the end of what it said.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn finish(mut self) -> Result<(Option<i32>, String), SshError> {
        drop(self.input.take());
        let end = Instant::now() + END_TIME;
        loop {
            // never waits with the lock, which whoever ends the connection needs
            let status = lock(&self.child).try_wait()?;
            if let Some(status) = status {
                return Ok((status.code(), self.end_text("")));
            }
            if Instant::now() >= end {
                let text = self.end_text("");
                return Ok((None, if text.is_empty() { "it did not end".to_owned() } else { text }));
            }
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// The last line that `ssh` said, or `otherwise`.
    pub fn end_text(&mut self, otherwise: &str) -> String {
        let _ = lock(&self.child).kill();
        let _ = lock(&self.child).wait();
        // a child of `ssh` may hold the pipe open: its last words are not waited for
        let end = Instant::now() + ERROR_TIME;
        while self.error_thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < end {
            std::thread::park_timeout(CHECK_INTERVAL);
        }
        self.error_thread = None;
        let text = String::from_utf8_lossy(&self.errors.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(otherwise);
        printable_line(line.trim()).into_owned()
    }

    /// Sends the script, and the copy if it is asked for; returns the way.
    fn greet(&mut self, options: &ConnectOptions) -> Result<AskWay, SshError> {
        self.send(COLLECT_SCRIPT.as_bytes())?;
        loop {
            let line = self.read_greeting()?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let rest = printable_line(rest).into_owned();
            match (word, &options.copy) {
                ("program", _) => return Ok(AskWay::Program { version: rest }),
                ("copied", _) => return Ok(AskWay::Copied { version: rest }),
                ("shell", _) => {
                    let (kernel, because) = rest.split_once("; ").unwrap_or((&rest, ""));
                    return Ok(AskWay::Shell { kernel: kernel.to_owned(), because: because.to_owned() });
                }
                ("none", _) => return Err(SshError::NoWay(rest)),
                ("send", Some(copy)) => {
                    let copy = Arc::clone(copy);
                    self.send(&copy.bytes)?;
                }
                _ => return Err(SshError::Answer(printable_line(&line).into_owned())),
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        input.write_all(bytes)?;
        input.flush()
    }

    /// Reads up to the next line that is for us, without its beginning.
    fn read_greeting(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut left = MAX_OTHER_BYTES;
        loop {
            line.clear();
            let count = (&mut self.output).take(left).read_until(b'\n', &mut line)?;
            left -= count as u64;
            let text = String::from_utf8_lossy(&line);
            // a start file may print something without an end of line
            if let Some((_, rest)) = text.trim_end().split_once(GREETING) {
                return Ok(rest.to_owned());
            }
            match (count, left) {
                (0, 0) | (1.., 0) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "it prints other text without end"));
                }
                (0, _) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended at once")),
                _ => {}
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = lock(&self.child).kill();
        let _ = lock(&self.child).wait();
    }
}

/// Ends a connection from another thread.
#[derive(Clone)]
pub struct ConnectionKiller(Arc<Mutex<Child>>);

impl ConnectionKiller {
    /// Ends the connection.
    pub fn kill(&self) {
        let _ = lock(&self.0).kill();
    }
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_ssh(target: &SshTarget, options: &ConnectOptions) -> Result<Child, SshError> {
    let mut command = command_without_secrets(find_program("ssh").ok_or(SshError::NoSsh)?);
    if let Some(config) = &options.config {
        command.arg("-F").arg(config);
    }
    command.args(["-T", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
    command.arg("-o").arg(format!("ConnectTimeout={}", options.timeout.as_secs().max(1)));
    if options.is_batch {
        command.args(["-o", "BatchMode=yes"]);
    }
    command.arg("--").arg(target.as_str()).arg(remote_command(options));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// The command line for the other side's shell, whichever it is.
fn remote_command(options: &ConnectOptions) -> String {
    let copy = options.copy.as_deref();
    let seconds = |time: Duration| time.as_secs_f64().round().max(1.0) as u64;
    let mut words: Vec<String> = ["sh", "-s", "--"].map(str::to_owned).to_vec();
    words.push(seconds(options.every).to_string());
    words.push(options.lasts.map_or(0, seconds).to_string());
    words.push(copy.map_or(0, |copy| copy.bytes.len()).to_string());
    words.push(copy.map_or("-", |copy| copy.hash.as_str()).to_owned());
    words.push(copy.map_or("-", |copy| copy.machine).to_owned());
    words.extend(options.command.iter().map(|word| quote_word(word)));
    words.join(" ")
}

/// Quotes a word for any shell of Unix. A plain word needs none.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn collect_errors(child: &mut Child) -> io::Result<(ErrorText, Option<JoinHandle<()>>)> {
    let errors = ErrorText::default();
    let Some(mut stderr) = child.stderr.take() else { return Ok((errors, None)) };
    let kept = Arc::clone(&errors);
    let thread = std::thread::Builder::new().name("ssh errors".into()).stack_size(256 << 10).spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let beyond = kept.len().saturating_sub(MAX_ERROR_BYTES);
            kept.drain(..beyond);
        }
    })?;
    Ok((errors, Some(thread)))
}

/// Time until the host must have answered.
fn deadline_time(options: &ConnectOptions) -> Duration {
    let copy_s = options.copy.as_deref().map_or(0, |copy| copy.bytes.len() as u64 / MIN_COPY_RATE);
    options.timeout + ANSWER_TIME + Duration::from_secs(copy_s)
}

/// A thread that ends a connection which does not answer.
struct Deadline {
    done: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Deadline {
    fn start(child: &Arc<Mutex<Child>>, time: Duration) -> io::Result<Deadline> {
        let (done, is_done) = channel();
        let child = Arc::clone(child);
        let thread =
            std::thread::Builder::new().name("ssh deadline".into()).stack_size(256 << 10).spawn(move || {
                let is_late = is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
                if is_late {
                    let _ = lock(&child).kill();
                }
                is_late
            })?;
        Ok(Deadline { done, thread })
    }

    /// Ends the waiting; true if the time was over before.
    fn end(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ConnectOptions {
        ConnectOptions {
            config: None,
            is_batch: true,
            timeout: Duration::from_secs(10),
            copy: None,
            every: Duration::from_secs(1),
            lasts: Some(Duration::from_secs(30)),
            command: Vec::new(),
            open: OpenConnections::default(),
        }
    }

    #[test]
    fn the_remote_command_is_one_that_any_shell_reads() {
        assert_eq!(remote_command(&options()), "sh -s -- 1 30 0 - -");
        let command = ["trace", "sda", "--for", "1 s", "it's", ""].map(str::to_owned).to_vec();
        let asked = ConnectOptions { command, lasts: None, ..options() };
        assert_eq!(remote_command(&asked), r"sh -s -- 1 0 0 - - trace sda --for '1 s' 'it'\''s' ''");
    }

    #[test]
    fn ways_are_told_in_words() {
        let way =
            AskWay::Shell { kernel: "Linux 6.1 x86_64".into(), because: "diskwright is not installed there".into() };
        assert_eq!(way.describe(), "by a shell loop (Linux 6.1 x86_64; diskwright is not installed there)");
    }
}
