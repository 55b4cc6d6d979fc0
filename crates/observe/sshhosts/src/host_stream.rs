//! Ticks and notes of a host, whatever the way they come.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use diskwright_datastore::{StreamItem, StreamReader};

use crate::connection::{AskWay, ConnectOptions, Connection, ConnectionKiller};
use crate::shell_ticks::ShellTicks;
use crate::{SshError, SshTarget};

/// Reader of a connection's output.
enum TickSource {
    /// Our program's records; their reader owns the connection.
    Records(Box<StreamReader<OutputOf>>),
    /// The shell loop's files, and where they come from.
    Files(Box<ShellTicks>, Connection),
}

/// The output of a connection that this value owns.
struct OutputOf(Connection);

impl Read for OutputOf {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.output().read(buffer)
    }
}

fn unreadable(error: io::Error) -> SshError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => SshError::Answer("it ended, or sent nothing in time".into()),
        _ => SshError::Answer(error.to_string()),
    }
}

/// A host that is being watched.
pub struct HostStream {
    way: AskWay,
    killer: ConnectionKiller,
    source: TickSource,
    items: VecDeque<StreamItem>,
}

impl HostStream {
    /// Connects and begins.
    ///
    /// # Errors
    /// As [`Connection::open`], and when what the host sends first is not understood.
    pub fn open(target: &SshTarget, options: &ConnectOptions) -> Result<HostStream, SshError> {
        let mut connection = Connection::open(target, options)?;
        let (way, killer) = (connection.way().clone(), connection.killer());
        let source = match way {
            AskWay::Shell { .. } => {
                let every = options.every.max(Duration::from_secs(1));
                connection.end_deadline();
                TickSource::Files(Box::new(ShellTicks::new(every)?), connection)
            }
            AskWay::Program { .. } | AskWay::Copied { .. } => {
                let mut reader = StreamReader::begin(OutputOf(connection)).map_err(unreadable)?;
                if reader.input().0.end_deadline() {
                    return Err(SshError::Silent(options.timeout.as_secs()));
                }
                TickSource::Records(Box::new(reader))
            }
        };
        Ok(HostStream { way, killer, source, items: VecDeque::new() })
    }

    /// The way in which the host is asked.
    pub fn way(&self) -> &AskWay {
        &self.way
    }

    /// The folder in which the files of a host stand for its `/`, if a shell loop sends them.
    pub fn file_root(&self) -> Option<&Path> {
        match &self.source {
            TickSource::Files(ticks, _) => Some(ticks.root()),
            TickSource::Records(_) => None,
        }
    }

    /// A handle that ends the connection from another thread.
    pub fn killer(&self) -> ConnectionKiller {
        self.killer.clone()
    }

    /// Waits for the next tick or note; `None` at the end.
    ///
    /// # Errors
    /// When the connection broke or sent something else. What came before is whole.
    pub fn next_item(&mut self) -> io::Result<Option<StreamItem>> {
        if let Some(item) = self.items.pop_front() {
            return Ok(Some(item));
        }
        match &mut self.source {
            TickSource::Records(reader) => reader.next_item(),
            TickSource::Files(ticks, connection) => {
                let mut items = Vec::new();
                ticks.read_tick(connection.output(), &mut items)?;
                self.items.extend(items);
                Ok(self.items.pop_front())
            }
        }
    }
}
