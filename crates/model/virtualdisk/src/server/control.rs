//! Commands to a running disk: one JSON object per line, and one line of reply.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ServeError;

/// Longest command line, bytes.
pub const MAX_COMMAND_BYTES: usize = 4096;

/// Kinds of requests that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureScope {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Both.
    #[default]
    All,
}

/// A command. Members are drives by their name, in an array or standalone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum DiskCommand {
    /// Reports the status.
    Status,
    /// A member fails; its data is lost.
    Fail {
        /// Its name.
        member: String,
    },
    /// An empty drive replaces a failed one; the rebuild begins.
    Replace {
        /// Its name.
        member: String,
    },
    /// A member takes `factor` times as long.
    Slow {
        /// Its name.
        member: String,
        /// Factor; 1 restores normal speed.
        factor: f64,
    },
    /// A member stops responding.
    Hang {
        /// Its name.
        member: String,
    },
    /// A member that hangs responds again.
    Release {
        /// Its name.
        member: String,
    },
    /// A share of a member's requests fails.
    Error {
        /// Its name.
        member: String,
        /// Share of its requests, 0 to 1; 0 restores normal behavior.
        share: f64,
        /// Kinds of requests.
        #[serde(default)]
        what: FailureScope,
    },
    /// The server exits cleanly.
    Stop,
}

impl DiskCommand {
    /// Returns the drive that the command is about.
    pub fn member(&self) -> Option<&str> {
        match self {
            DiskCommand::Status | DiskCommand::Stop => None,
            DiskCommand::Fail { member }
            | DiskCommand::Replace { member }
            | DiskCommand::Slow { member, .. }
            | DiskCommand::Hang { member }
            | DiskCommand::Release { member }
            | DiskCommand::Error { member, .. } => Some(member),
        }
    }
}

/// Parses a command.
///
/// # Errors
/// A description of what is wrong with the line.
pub fn parse_command(line: &[u8]) -> Result<DiskCommand, String> {
    let command: DiskCommand = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    match &command {
        DiskCommand::Slow { factor, .. } if !(1e-3..=1e6).contains(factor) => {
            Err(format!("the factor {factor} is not between 0.001 and 1000000"))
        }
        DiskCommand::Error { share, .. } if !(0.0..=1.0).contains(share) => {
            Err(format!("the share {share} is not between 0 and 1"))
        }
        _ => Ok(command),
    }
}

/// Largest number of concurrent control connections.
pub const MAX_CONTROL_CONNECTIONS: usize = 64;

/// A control connection. Its input and its unsent reply are bounded: the next command is read after
/// the previous reply was sent.
#[derive(Debug)]
pub struct ControlConnection {
    pub fd: OwnedFd,
    input: Vec<u8>,
    reply: Vec<u8>,
}

impl ControlConnection {
    /// Creates a connection without input.
    pub fn new(fd: OwnedFd) -> ControlConnection {
        ControlConnection { fd, input: Vec::new(), reply: Vec::new() }
    }

    /// Returns the events to watch for: input, and space for output.
    pub fn wanted_events(&self) -> (bool, bool) {
        (self.reply.is_empty(), !self.reply.is_empty())
    }

    /// Reads the input and replies to each line with the result of `execute`, as far as the kernel
    /// accepts it. Returns false if the connection is finished.
    pub fn serve_commands(&mut self, mut execute: impl FnMut(&[u8]) -> Result<Value, String>) -> bool {
        let mut has_received = false;
        loop {
            if !self.send() {
                return false;
            }
            if !self.reply.is_empty() {
                return true;
            }
            let end = self.input.iter().position(|byte| *byte == b'\n');
            if end.unwrap_or(self.input.len()) > MAX_COMMAND_BYTES {
                return false;
            }
            if let Some(end) = end {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let reply = execute(&line[..end]).unwrap_or_else(|reason| json!({ "error": reason }));
                self.reply = (reply.to_string() + "\n").into_bytes();
            } else if std::mem::replace(&mut has_received, true) {
                return true;
            } else {
                let mut buffer = [0; MAX_COMMAND_BYTES];
                match recv(&self.fd, &mut buffer, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return false,
                    Ok((bytes, _)) => self.input.extend_from_slice(&buffer[..bytes]),
                    Err(Errno::AGAIN | Errno::INTR) => return true,
                    Err(_) => return false,
                }
            }
        }
    }

    /// Sends as much of the reply as the kernel accepts; returns false if the peer is gone.
    fn send(&mut self) -> bool {
        while !self.reply.is_empty() {
            match send(&self.fd, &self.reply, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(taken) => drop(self.reply.drain(..taken)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// Sends a command to a running disk; returns its reply.
///
/// # Errors
/// When it cannot be reached, or refuses.
pub fn send_command(control: &Path, command: &DiskCommand) -> Result<Value, ServeError> {
    let command_error = |reason: String| ServeError::Command { control: control.to_owned(), reason };
    let mut stream = UnixStream::connect(control).map_err(|e| command_error(e.to_string()))?;
    let timeout = Some(Duration::from_secs(10));
    stream
        .set_read_timeout(timeout)
        .and_then(|()| stream.set_write_timeout(timeout))
        .map_err(|e| command_error(e.to_string()))?;
    let mut line = serde_json::to_vec(command).map_err(|e| command_error(e.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|e| command_error(e.to_string()))?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).map_err(|e| command_error(e.to_string()))?;
    let reply: Value = serde_json::from_str(&reply).map_err(|e| command_error(format!("its reply is invalid: {e}")))?;
    match reply.get("error").and_then(Value::as_str) {
        Some(error) => Err(command_error(error.to_owned())),
        None => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_is_sent_as_the_peer_reads_it() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let mut connection = ControlConnection::new(there.into());
        let long = "x".repeat(3 << 20);
        let mut execute = |line: &[u8]| match line {
            b"long" => Ok(json!(long)),
            _ => Err("no order".to_owned()),
        };
        (&here).write_all(b"long\nwhat\nlo").expect("sent");
        assert!(connection.serve_commands(&mut execute));
        assert_eq!(connection.wanted_events(), (false, true), "the second order waits");
        here.set_nonblocking(true).expect("set");
        let mut received = Vec::new();
        while !received.ends_with(b"}\n") {
            let _ = std::io::Read::read_to_end(&mut &here, &mut received);
            assert!(connection.serve_commands(&mut execute));
        }
        assert_eq!(connection.wanted_events(), (true, false));
        let received = String::from_utf8(received).expect("text");
        assert_eq!(received, format!("\"{long}\"\n{{\"error\":\"no order\"}}\n"));
        (&here).write_all(&[b'x'; MAX_COMMAND_BYTES]).expect("sent");
        assert!(!connection.serve_commands(&mut execute), "a line that is too long ends the talk");
    }

    #[test]
    fn parses_commands_and_rejects_others() {
        let good = [
            (r#"{"do":"status"}"#, DiskCommand::Status),
            (r#"{"do":"fail","member":"disk1"}"#, DiskCommand::Fail { member: "disk1".into() }),
            (r#"{"do":"slow","member":"d","factor":10}"#, DiskCommand::Slow { member: "d".into(), factor: 10.0 }),
            (
                r#"{"do":"error","member":"d","share":0.5,"what":"reads"}"#,
                DiskCommand::Error { member: "d".into(), share: 0.5, what: FailureScope::Reads },
            ),
        ];
        for (line, order) in good {
            assert_eq!(parse_command(line.as_bytes()), Ok(order));
        }
        let bad = [
            "",
            "[]",
            r#"{"do":"dance"}"#,
            r#"{"do":"fail"}"#,
            r#"{"do":"fail","member":"d","extra":1}"#,
            r#"{"do":"slow","member":"d","factor":-1}"#,
            r#"{"do":"slow","member":"d","factor":1e400}"#,
            r#"{"do":"error","member":"d","share":2}"#,
        ];
        for line in bad {
            assert!(parse_command(line.as_bytes()).is_err(), "{line}");
        }
    }
}
