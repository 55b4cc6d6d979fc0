//! A client program as a co-process: statements go to its standard input, answers come from its standard output. Its
//! authentication, its files of passwords and its TLS are its own. A server that hangs costs a process that is killed.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use diskwright_base::text::truncate_text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The line that ends an answer.
pub(crate) const END_MARK: &str = "-- end of answer --";
/// Largest answer, bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Largest text of an error of the client that is kept, bytes.
const MAX_ERROR_BYTES: usize = 8 << 10;
/// Largest length of an error in a note, characters.
const MAX_ERROR_CHARS: usize = 240;
/// Time for a killed client to end before it is left to itself.
const MAX_END_TIME: Duration = Duration::from_millis(200);

/// Reason why a client gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// It did not answer in time.
    #[error("it was silent for {0} s")]
    Timeout(u64),
    /// It ended, with what it said.
    #[error("{0}")]
    Ended(String),
    /// Its answer is too large or no text.
    #[error("its answer cannot be read: {0}")]
    Unreadable(&'static str),
    /// It could not be started or reached.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A running client.
pub(crate) struct ClientProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    /// What it said since the last question.
    error_text: Vec<u8>,
    /// The statement that makes it print the end mark.
    end_statement: &'static str,
}

impl ClientProcess {
    /// Starts a client.
    pub fn start(mut command: Command, end_statement: &'static str) -> Result<ClientProcess, ClientError> {
        // Ctrl-C on a terminal is for the recorder, which ends the client
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let no_pipe = || io::Error::other("a client without pipes");
        let input = child.stdin.take().ok_or_else(no_pipe)?;
        let output = child.stdout.take().ok_or_else(no_pipe)?;
        let errors = child.stderr.take().ok_or_else(no_pipe)?;
        for fd in [&rustix::fd::AsFd::as_fd(&output), &rustix::fd::AsFd::as_fd(&errors)] {
            fcntl_setfl(fd, fcntl_getfl(fd).map_err(io::Error::from)? | OFlags::NONBLOCK).map_err(io::Error::from)?;
        }
        Ok(ClientProcess { child, input, output, errors, error_text: Vec::new(), end_statement })
    }

    /// Sends statements and returns the lines of the answer. What the server refused is in [`Self::take_errors`].
    pub fn ask(&mut self, statements: &str, timeout: Duration) -> Result<Vec<String>, ClientError> {
        self.error_text.clear();
        let question = format!("{statements}\n{}\n", self.end_statement);
        if let Err(error) = self.input.write_all(question.as_bytes()).and_then(|()| self.input.flush()) {
            return Err(self.ended(Some(error)));
        }
        let (deadline, mut answer) = (Instant::now() + timeout, Vec::new());
        let end = format!("{END_MARK}\n");
        while !answer.ends_with(end.as_bytes()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::Timeout(timeout.as_secs()));
            }
            self.wait_for_output(left)?;
            let has_ended = !read_available(&mut self.output, &mut answer, MAX_ANSWER_BYTES)?;
            read_available(&mut self.errors, &mut self.error_text, MAX_ERROR_BYTES)?;
            if answer.len() >= MAX_ANSWER_BYTES {
                return Err(ClientError::Unreadable("it is too long"));
            }
            if has_ended {
                return Err(self.ended(None));
            }
        }
        read_available(&mut self.errors, &mut self.error_text, MAX_ERROR_BYTES)?;
        answer.truncate(answer.len() - end.len());
        let text = String::from_utf8_lossy(&answer);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// What the client said of errors in the last question, in one line; empty where it said nothing.
    pub fn error_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.error_text);
        truncate_text(&reason_lines(&text).join(" "), MAX_ERROR_CHARS)
    }

    fn wait_for_output(&self, left: Duration) -> Result<(), ClientError> {
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut polled = [PollFd::new(&self.output, PollFlags::IN), PollFd::new(&self.errors, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// The error of a client that has ended, with its last words.
    fn ended(&mut self, error: Option<io::Error>) -> ClientError {
        let deadline = Instant::now() + MAX_END_TIME;
        // its words may come a little later than its end
        while Instant::now() < deadline {
            let is_open = read_available(&mut self.errors, &mut self.error_text, MAX_ERROR_BYTES).unwrap_or(false);
            if !is_open {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let line = self.error_line();
        match (line.is_empty(), error) {
            (false, _) => ClientError::Ended(line),
            (true, Some(error)) => ClientError::Io(error),
            (true, None) => ClientError::Ended("the client ended".into()),
        }
    }
}

/// The lines of an error without the text of the statement, which psql puts behind the reason, and MySQL's clients put
/// before it, between lines of dashes.
fn reason_lines(text: &str) -> Vec<&str> {
    let mut is_statement = false;
    let is_reason = |line: &&str| {
        let is_rule = line.starts_with("---");
        is_statement ^= is_rule;
        !is_rule && !is_statement && !line.is_empty() && !line.starts_with("LINE ")
    };
    text.lines().filter(is_reason).collect()
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // one that has ended already is no error
        let _ = self.child.kill();
        let deadline = Instant::now() + MAX_END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// Reads what has arrived, up to a limit: what is beyond is dropped. Returns false at the end of the stream.
fn read_available(stream: &mut impl Read, out: &mut Vec<u8>, max_bytes: usize) -> Result<bool, ClientError> {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                let room = max_bytes.saturating_sub(out.len());
                out.extend_from_slice(&buffer[..count.min(room)]);
                if room < count {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A client made of a shell: it runs the lines as commands.
    fn shell() -> ClientProcess {
        ClientProcess::start(Command::new("sh"), "echo '-- end of answer --'").unwrap()
    }

    #[test]
    fn answers_come_line_by_line_and_errors_apart() {
        let mut client = shell();
        assert_eq!(client.ask("echo a; echo b; echo 'ERROR:  no such table' >&2", TIMEOUT).unwrap(), ["a", "b"]);
        assert_eq!(client.error_line(), "ERROR:  no such table");
        assert_eq!(client.ask("printf '\\033[2J\\n'", TIMEOUT).unwrap(), ["\u{1b}[2J"]);
        assert_eq!(client.error_line(), "", "errors are those of the last question");
    }

    #[test]
    fn an_error_is_told_without_the_statement() {
        let of_psql = "ERROR:  relation \"t\" does not exist\nLINE 1: SELECT 'secret' FROM t\n";
        assert_eq!(reason_lines(of_psql), ["ERROR:  relation \"t\" does not exist"]);
        // as MySQL's clients write with --force
        let of_mysql = "--------------\nSELECT 'secret'\nFROM t\n--------------\n\nERROR 1046 (3D000): No database\n\
                        --------------\nSELECT 2\n--------------\n\nERROR 3024 (HY000): interrupted\n";
        let reasons = ["ERROR 1046 (3D000): No database", "ERROR 3024 (HY000): interrupted"];
        assert_eq!(reason_lines(of_mysql), reasons);
    }

    #[test]
    fn a_client_that_hangs_or_ends_is_an_error() {
        let mut client = shell();
        assert!(matches!(client.ask("sleep 60", Duration::from_millis(50)), Err(ClientError::Timeout(_))));
        let mut client = shell();
        let error = client.ask("echo 'FATAL:  the database is starting up' >&2; exit 2", TIMEOUT).unwrap_err();
        assert_eq!(error.to_string(), "FATAL:  the database is starting up");
        let mut client = shell();
        let flood = client.ask("yes", TIMEOUT);
        assert!(matches!(flood, Err(ClientError::Unreadable(_))), "{flood:?}");
    }

    #[test]
    fn a_client_that_says_much_does_not_block() {
        let mut client = shell();
        let lines =
            client.ask("i=0; while [ $i -lt 20000 ]; do echo 'ERROR: again' >&2; i=$((i+1)); done; echo a", TIMEOUT);
        assert_eq!(lines.unwrap(), ["a"]);
        assert!(client.error_line().len() < 1000);
    }
}
