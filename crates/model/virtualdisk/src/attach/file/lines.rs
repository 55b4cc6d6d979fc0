//! Connections to the server, shared by all requests. The requesting thread writes to the socket
//! itself; one thread per connection reads the replies.

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

/// Data of a read, nothing for other requests; or an error number, which is the same in NBD and
/// Linux.
pub type NbdAnswer<'a> = Result<&'a [u8], u32>;
/// Callback for the reply to a request.
pub type AnswerCallback = Box<dyn FnOnce(NbdAnswer<'_>) + Send>;
/// Reports the end of the service.
pub type EndSender = Sender<Result<(), AttachError>>;

/// Size of the read buffer of a socket, bytes.
const ROOM: usize = 256 << 10;

/// All connections to an export.
pub struct ExportConnections {
    about: ExportInfo,
    lines: Vec<Arc<ExportConnection>>,
    cookies: AtomicU64,
}

/// One connection.
struct ExportConnection {
    output: Mutex<ConnectionOutput>,
    waiting: Mutex<HashMap<u64, (u32, AnswerCallback)>>,
    under_way: AtomicUsize,
    over: AtomicBool,
}

struct ConnectionOutput {
    stream: NbdStream,
    /// Buffer for a request with its data, so that both go into one write.
    message: Vec<u8>,
}

/// Locks a mutex. A panic leaves nothing behind these locks half done, so poison is ignored.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExportConnections {
    /// Opens `connections` connections. Each connection reports its end.
    ///
    /// # Errors
    /// The errors of the server.
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
        let mut opened = Vec::new();
        for client in clients {
            opened.push(ExportConnection::start(client.into_stream(), export, ended)?);
        }
        Ok(Arc::new(ExportConnections { about, lines: opened, cookies: AtomicU64::new(0) }))
    }

    /// Returns the server's information about the export.
    pub fn about(&self) -> &ExportInfo {
        &self.about
    }

    /// Sends a request on the connection with the fewest requests in flight.
    pub fn ask(&self, request: ClientRequest<'_>, callback: AnswerCallback) {
        let cookie = self.cookies.fetch_add(1, Ordering::Relaxed);
        match self.lines.iter().min_by_key(|connection| connection.under_way.load(Ordering::Relaxed)) {
            Some(connection) => connection.ask(cookie, request, callback),
            None => callback(Err(ErrorCode::Io.code())),
        }
    }

    /// Ends all connections with a disconnect request.
    pub fn leave(&self) {
        let command = NbdCommand::Disconnect;
        let disconnect = NbdRequest { flags: CommandFlags(0), command, cookie: 0, offset: 0, length: 0 }.head();
        for connection in &self.lines {
            // a closed connection needs no disconnect request
            let _ = held(&connection.output).stream.write_all(&disconnect);
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
        let connection = Arc::new(ExportConnection {
            output: Mutex::new(ConnectionOutput { stream, message: Vec::new() }),
            waiting: Mutex::default(),
            under_way: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let (listener, uri, ended) = (Arc::clone(&connection), export.to_string(), ended.clone());
        let listen = move || {
            let why = listener.listen(input);
            listener.give_up();
            // the receiver may be gone
            let _ = ended.send(Err(AttachError::Server { uri, why }));
        };
        thread::Builder::new().name("answers".into()).spawn(listen).map_err(step)?;
        Ok(connection)
    }

    fn ask(&self, cookie: u64, request: ClientRequest<'_>, callback: AnswerCallback) {
        let Ok((command, offset, length)) = request.parts() else { return callback(Err(ErrorCode::Inval.code())) };
        let reads = if command == NbdCommand::Read { length } else { 0 };
        held(&self.waiting).insert(cookie, (reads, callback));
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let head = NbdRequest { flags: CommandFlags(0), command, cookie, offset, length }.head();
        let sent = {
            let mut output = held(&self.output);
            let ConnectionOutput { stream, message } = &mut *output;
            message.clear();
            message.extend_from_slice(&head);
            if let ClientRequest::Write { data, .. } = request {
                message.extend_from_slice(data);
            }
            stream.write_all(message)
        };
        // the connection may have ended, and its pending requests failed, before this one was added
        if sent.is_err() || self.over.load(Ordering::SeqCst) {
            self.give_up();
        }
    }

    /// Reads replies until the connection ends; returns the reason.
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
            let Some((reads, callback)) = held(&self.waiting).remove(&cookie) else {
                return format!("the server replies to {cookie:#x}, which was not requested");
            };
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if error != 0 {
                // an unknown error number becomes a known one
                callback(Err(ErrorCode::of(error).code()));
                continue;
            }
            data.resize(reads as usize, 0);
            if let Err(error) = input.read_exact(&mut data) {
                callback(Err(ErrorCode::Io.code()));
                return what(&error);
            }
            callback(Ok(&data));
        }
    }

    /// Fails all pending requests.
    fn give_up(&self) {
        self.over.store(true, Ordering::SeqCst);
        let pending = std::mem::take(&mut *held(&self.waiting));
        for (_, callback) in pending.into_values() {
            callback(Err(ErrorCode::Io.code()));
        }
    }
}

/// Describes an error for users.
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

    /// A connection, the server's end of it, and the receiver of its end.
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
        // in pieces of arbitrary length
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
            // and later requests fail at once
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
