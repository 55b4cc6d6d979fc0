//! Orders to a running disk: one JSON object a line, and one line of answer.

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

/// Longest line that is read, bytes.
pub const LONGEST_ORDER: usize = 4096;

/// What requests fail.
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

/// An order. Members are drives by their name, whether of an array or alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum DiskCommand {
    /// Tells how everything is.
    Status,
    /// A member fails; its data is lost.
    Fail {
        /// Which.
        member: String,
    },
    /// An empty drive in the place of a failed one; the rebuild begins.
    Replace {
        /// Which.
        member: String,
    },
    /// A member takes so many times as long.
    Slow {
        /// Which.
        member: String,
        /// How many times; 1 undoes it.
        factor: f64,
    },
    /// A member answers nothing.
    Hang {
        /// Which.
        member: String,
    },
    /// A member that hangs answers again.
    Release {
        /// Which.
        member: String,
    },
    /// A share of a member's requests fails.
    Error {
        /// Which.
        member: String,
        /// Of its requests, 0 to 1; 0 undoes it.
        share: f64,
        /// Which of them.
        #[serde(default)]
        what: FailureScope,
    },
    /// The server ends in order.
    Stop,
}

impl DiskCommand {
    /// The drive that it is about.
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

/// Reads an order.
///
/// # Errors
/// What is wrong with the line.
pub fn parse(line: &[u8]) -> Result<DiskCommand, String> {
    let order: DiskCommand = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    match &order {
        DiskCommand::Slow { factor, .. } if !(1e-3..=1e6).contains(factor) => {
            Err(format!("the factor {factor} is not between 0.001 and 1000000"))
        }
        DiskCommand::Error { share, .. } if !(0.0..=1.0).contains(share) => {
            Err(format!("the share {share} is not between 0 and 1"))
        }
        _ => Ok(order),
    }
}

/// Who give orders at a time.
pub const MOST_GIVERS: usize = 64;

/// Who gives orders. What it said and what it was not told yet are bounded: the
/// next order is looked at when it has read the last answer.
#[derive(Debug)]
pub struct ControlConnection {
    pub fd: OwnedFd,
    input: Vec<u8>,
    answer: Vec<u8>,
}

impl ControlConnection {
    /// Nothing was said yet.
    pub fn new(fd: OwnedFd) -> ControlConnection {
        ControlConnection { fd, input: Vec::new(), answer: Vec::new() }
    }

    /// Whether to look for orders, and for room for an answer.
    pub fn wants(&self) -> (bool, bool) {
        (self.answer.is_empty(), !self.answer.is_empty())
    }

    /// Reads what has come and answers each line with what `obey` says, as far
    /// as the kernel takes it. False where nothing more will come.
    pub fn attend(&mut self, mut obey: impl FnMut(&[u8]) -> Result<Value, String>) -> bool {
        let mut read = false;
        loop {
            if !self.send() {
                return false;
            }
            if !self.answer.is_empty() {
                return true;
            }
            let end = self.input.iter().position(|byte| *byte == b'\n');
            if end.unwrap_or(self.input.len()) > LONGEST_ORDER {
                return false;
            }
            if let Some(end) = end {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let answer = obey(&line[..end]).unwrap_or_else(|because| json!({ "error": because }));
                self.answer = (answer.to_string() + "\n").into_bytes();
            } else if std::mem::replace(&mut read, true) {
                return true;
            } else {
                let mut room = [0; LONGEST_ORDER];
                match recv(&self.fd, &mut room, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return false,
                    Ok((bytes, _)) => self.input.extend_from_slice(&room[..bytes]),
                    Err(Errno::AGAIN | Errno::INTR) => return true,
                    Err(_) => return false,
                }
            }
        }
    }

    /// Sends what the kernel takes of the answer; false where nobody reads it.
    fn send(&mut self) -> bool {
        while !self.answer.is_empty() {
            match send(&self.fd, &self.answer, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(taken) => drop(self.answer.drain(..taken)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

/// Sends an order to a running disk; its answer.
///
/// # Errors
/// When it cannot be reached, or refuses.
pub fn give(control: &Path, order: &DiskCommand) -> Result<Value, ServeError> {
    let wrong = |because: String| ServeError::Order { control: control.to_owned(), because };
    let mut stream = UnixStream::connect(control).map_err(|e| wrong(e.to_string()))?;
    let limit = Some(Duration::from_secs(10));
    stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit)).map_err(|e| wrong(e.to_string()))?;
    let mut line = serde_json::to_vec(order).map_err(|e| wrong(e.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|e| wrong(e.to_string()))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(|e| wrong(e.to_string()))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|e| wrong(format!("its reply is invalid: {e}")))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(wrong(error.to_owned())),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_fit_is_sent_as_it_is_read() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let mut giver = ControlConnection::new(there.into());
        let long = "x".repeat(3 << 20);
        let mut obey = |line: &[u8]| match line {
            b"long" => Ok(json!(long)),
            _ => Err("no order".to_owned()),
        };
        (&here).write_all(b"long\nwhat\nlo").expect("sent");
        assert!(giver.attend(&mut obey));
        assert_eq!(giver.wants(), (false, true), "the second order waits");
        here.set_nonblocking(true).expect("set");
        let mut told = Vec::new();
        while !told.ends_with(b"}\n") {
            let _ = std::io::Read::read_to_end(&mut &here, &mut told);
            assert!(giver.attend(&mut obey));
        }
        assert_eq!(giver.wants(), (true, false));
        let told = String::from_utf8(told).expect("text");
        assert_eq!(told, format!("\"{long}\"\n{{\"error\":\"no order\"}}\n"));
        (&here).write_all(&[b'x'; LONGEST_ORDER]).expect("sent");
        assert!(!giver.attend(&mut obey), "a line that is too long ends the talk");
    }

    #[test]
    fn orders_and_what_is_none() {
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
            assert_eq!(parse(line.as_bytes()), Ok(order));
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
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
