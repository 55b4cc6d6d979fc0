//! Connections to the server that all requests share. Who asks writes to the
//! socket itself; one thread a connection reads the answers.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::super::AttachError;
use super::super::export::ExportAddress;
use super::super::talk::{self, NbdStream};
use crate::nbd::MessageRest;
use crate::nbd::client::{ClientRequest, ExportInfo};
use crate::nbd::request::NbdRequest;
use crate::nbd::wire::{self, CommandFlags, ErrorCode, NbdCommand};

/// What a read gave, nothing for everything else; or an error's number as NBD and Linux have it.
pub type NbdAnswer<'a> = Result<&'a [u8], u32>;
/// Who waits for an answer.
pub type AnswerCallback = Box<dyn FnOnce(NbdAnswer<'_>) + Send>;
/// How it ended.
pub type EndSender = Sender<Result<(), AttachError>>;

/// Read from a socket at a time, bytes.
const ROOM: usize = 256 << 10;

/// All connections to an export.
pub struct ExportConnections {
    about: ExportInfo,
    lines: Vec<Arc<ExportConnection>>,
    cookies: AtomicU64,
}

/// One of them.
struct ExportConnection {
    output: Mutex<ConnectionOutput>,
    waiting: Mutex<HashMap<u64, (u32, AnswerCallback)>>,
    under_way: AtomicUsize,
    over: AtomicBool,
}

struct ConnectionOutput {
    stream: NbdStream,
    /// A request with its data, so that it is one write.
    message: Vec<u8>,
}

/// Nothing that is behind these locks is left half done by a panic.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExportConnections {
    /// Connects as often as `connections` says. Each connection that ends tells so.
    ///
    /// # Errors
    /// The server's.
    pub fn open(
        export: &ExportAddress,
        connections: u32,
        ended: &EndSender,
    ) -> Result<Arc<ExportConnections>, AttachError> {
        let first = talk::open(export)?;
        let about = first.about().clone();
        let mut clients = vec![first];
        for _ in 1..connections {
            clients.push(talk::open(export)?);
        }
        let mut lines = Vec::new();
        for client in clients {
            lines.push(ExportConnection::start(client.into_stream(), export, ended)?);
        }
        Ok(Arc::new(ExportConnections { about, lines, cookies: AtomicU64::new(0) }))
    }

    /// What the server told of the export.
    pub fn about(&self) -> &ExportInfo {
        &self.about
    }

    /// Asks on the connection that has the least to do.
    pub fn ask(&self, asked: ClientRequest<'_>, waiting: AnswerCallback) {
        let cookie = self.cookies.fetch_add(1, Ordering::Relaxed);
        match self.lines.iter().min_by_key(|line| line.under_way.load(Ordering::Relaxed)) {
            Some(line) => line.ask(cookie, asked, waiting),
            None => waiting(Err(ErrorCode::Io.code())),
        }
    }

    /// Ends all connections as the protocol wants it.
    pub fn leave(&self) {
        let command = NbdCommand::Disconnect;
        let goodbye = NbdRequest { flags: CommandFlags(0), command, cookie: 0, offset: 0, length: 0 }.head();
        for line in &self.lines {
            // one that is gone needs no goodbye
            let _ = held(&line.output).stream.write_all(&goodbye);
        }
    }
}

impl ExportConnection {
    fn start(
        stream: NbdStream,
        export: &ExportAddress,
        ended: &EndSender,
    ) -> Result<Arc<ExportConnection>, AttachError> {
        let step = |e: std::io::Error| AttachError::step("a connection", e);
        let input = stream.twin().map_err(step)?;
        let line = Arc::new(ExportConnection {
            output: Mutex::new(ConnectionOutput { stream, message: Vec::new() }),
            waiting: Mutex::default(),
            under_way: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let (listening, uri, ended) = (Arc::clone(&line), export.to_string(), ended.clone());
        let listen = move || {
            let why = listening.listen(input);
            listening.give_up();
            // nobody may be left who wants to know
            let _ = ended.send(Err(AttachError::Server { uri, why }));
        };
        thread::Builder::new().name("answers".into()).spawn(listen).map_err(step)?;
        Ok(line)
    }

    fn ask(&self, cookie: u64, asked: ClientRequest<'_>, waiting: AnswerCallback) {
        let Ok((command, offset, length)) = asked.parts() else { return waiting(Err(ErrorCode::Inval.code())) };
        let reads = if command == NbdCommand::Read { length } else { 0 };
        held(&self.waiting).insert(cookie, (reads, waiting));
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let head = NbdRequest { flags: CommandFlags(0), command, cookie, offset, length }.head();
        let sent = {
            let mut output = held(&self.output);
            let ConnectionOutput { stream, message } = &mut *output;
            message.clear();
            message.extend_from_slice(&head);
            if let ClientRequest::Write { data, .. } = asked {
                message.extend_from_slice(data);
            }
            stream.write_all(message)
        };
        // one that is over may have been emptied before this came
        if sent.is_err() || self.over.load(Ordering::SeqCst) {
            self.give_up();
        }
    }

    /// Reads answers until there is an end, and tells which.
    fn listen(&self, stream: NbdStream) -> String {
        let mut input = BufReader::with_capacity(ROOM, stream);
        let mut data = Vec::new();
        loop {
            let mut head = [0; 16];
            if let Err(error) = input.read_exact(&mut head) {
                return what(&error);
            }
            let mut rest = MessageRest(&head);
            if rest.u32() != Some(wire::SIMPLE_REPLY_MAGIC) {
                return "the server sends an invalid reply".to_owned();
            }
            let (error, cookie) = (rest.u32().unwrap_or(0), rest.u64().unwrap_or(0));
            let Some((reads, waiting)) = held(&self.waiting).remove(&cookie) else {
                return format!("the server replies to {cookie:#x}, which was not requested");
            };
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if error != 0 {
                // as one that is known, whatever it is
                waiting(Err(ErrorCode::of(error).code()));
                continue;
            }
            data.resize(reads as usize, 0);
            if let Err(error) = input.read_exact(&mut data) {
                waiting(Err(ErrorCode::Io.code()));
                return what(&error);
            }
            waiting(Ok(&data));
        }
    }

    /// Whoever waits, waits in vain.
    fn give_up(&self) {
        self.over.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *held(&self.waiting));
        for (_, waiting) in waiting.into_values() {
            waiting(Err(ErrorCode::Io.code()));
        }
    }
}

/// What went wrong, for people.
fn what(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    type Got = Result<Vec<u8>, u32>;

    /// A connection, the server's end of it, and how it ended.
    fn line() -> (Arc<ExportConnection>, UnixStream, Receiver<Result<(), AttachError>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (ended, end) = channel();
        let export = ExportAddress::parse("nbd://host/").unwrap();
        (ExportConnection::start(NbdStream::Unix(ours), &export, &ended).unwrap(), theirs, end)
    }

    const READ: ClientRequest<'_> = ClientRequest::Read { offset: 4096, length: 3 };

    fn ask(line: &ExportConnection, cookie: u64, asked: ClientRequest<'_>) -> Receiver<Got> {
        let (answered, answer) = channel();
        line.ask(cookie, asked, Box::new(move |got| answered.send(got.map(<[u8]>::to_vec)).unwrap()));
        answer
    }

    fn reply(error: u32, cookie: u64, data: &[u8]) -> Vec<u8> {
        let head = [&wire::SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()];
        [&head.concat(), data].concat()
    }

    #[test]
    fn answers_come_in_any_order_to_who_waits_for_them() {
        let (line, mut server, _end) = line();
        let first = ask(&line, 1, READ);
        let second = ask(&line, 2, ClientRequest::Write { offset: 0, data: b"data" });
        let third = ask(&line, 3, ClientRequest::Flush);
        let mut requests = [0; 3 * wire::REQUEST_BYTES + 4];
        server.read_exact(&mut requests).unwrap();
        assert_eq!(requests[2 * wire::REQUEST_BYTES..][..4], *b"data");
        let all = [reply(0, 3, &[]), reply(28, 2, &[]), reply(0, 1, b"abc")].concat();
        // in pieces that end anywhere
        all.chunks(7).for_each(|piece| server.write_all(piece).unwrap());
        assert_eq!(first.recv_timeout(SOON).unwrap(), Ok(b"abc".to_vec()));
        assert_eq!(second.recv_timeout(SOON).unwrap(), Err(28));
        assert_eq!(third.recv_timeout(SOON).unwrap(), Ok(Vec::new()));
    }

    #[test]
    fn a_server_that_lies_or_goes_leaves_nobody_waiting() {
        let cases: [(&str, Vec<u8>, &str); 5] = [
            ("gone", Vec::new(), "closed the connection"),
            ("no answer", vec![7; 16], "invalid reply"),
            ("structured", wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().repeat(4), "invalid reply"),
            ("nobody's", reply(0, 99, &[]), "which was not requested"),
            ("half", reply(0, 1, b"a"), "closed the connection"),
        ];
        for (name, sent, why) in cases {
            let (line, mut server, end) = line();
            let (read, write) = (ask(&line, 1, READ), ask(&line, 2, ClientRequest::Write { offset: 0, data: b"x" }));
            server.read_exact(&mut [0; 2 * wire::REQUEST_BYTES + 1]).unwrap();
            server.write_all(&sent).unwrap();
            drop(server);
            assert_eq!(read.recv_timeout(SOON).unwrap(), Err(5), "{name}");
            assert_eq!(write.recv_timeout(SOON).unwrap(), Err(5), "{name}");
            let said = end.recv_timeout(SOON).unwrap().unwrap_err().to_string();
            assert!(said.contains(why), "{name}: {said}");
            // and who comes later is told at once
            assert_eq!(ask(&line, 3, ClientRequest::Flush).recv_timeout(SOON).unwrap(), Err(5), "{name}");
        }
    }

    #[test]
    fn an_error_of_a_number_that_nbd_does_not_know_is_an_invalid_request() {
        let (line, mut server, _end) = line();
        let read = ask(&line, 1, READ);
        server.write_all(&reply(12345, 1, &[])).unwrap();
        assert_eq!(read.recv_timeout(SOON).unwrap(), Err(22));
    }
}
