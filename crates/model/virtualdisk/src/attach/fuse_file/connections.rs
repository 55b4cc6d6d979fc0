//! Connections to the server, shared by all requests. The requesting thread writes to the socket
//! itself; one thread per connection reads the replies.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::super::AttachError;
use super::super::export_address::ExportAddress;
use super::super::nbd_stream::{self, NbdStream};
use crate::nbd::MessageReader;
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
const READ_BUFFER_BYTES: usize = 256 << 10;

/// All connections to an export.
pub struct ExportConnections {
    export_info: ExportInfo,
    connections: Vec<Arc<ExportConnection>>,
    cookies: AtomicU64,
}

/// One connection.
struct ExportConnection {
    output: Mutex<ConnectionOutput>,
    /// By cookie: the number of bytes that the reply will have, and the callback for it.
    pending: Mutex<HashMap<u64, (u32, AnswerCallback)>>,
    in_flight: AtomicUsize,
    has_ended: AtomicBool,
}

struct ConnectionOutput {
    stream: NbdStream,
    /// Buffer for a request with its data, so that both go into one write.
    message: Vec<u8>,
}

/// Locks a mutex. Poison is ignored, because a panic leaves no data behind these locks half changed.
fn lock_ignoring_poison<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
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
        end_sender: &EndSender,
    ) -> Result<Arc<ExportConnections>, AttachError> {
        let first = nbd_stream::connect_export(export)?;
        let export_info = first.export_info().clone();
        let mut clients = vec![first];
        for _ in 1..connections {
            clients.push(nbd_stream::connect_export(export)?);
        }
        let mut opened = Vec::new();
        for client in clients {
            opened.push(ExportConnection::start(client.into_stream(), export, end_sender)?);
        }
        Ok(Arc::new(ExportConnections { export_info, connections: opened, cookies: AtomicU64::new(0) }))
    }

    /// Returns the server's information about the export.
    pub fn export_info(&self) -> &ExportInfo {
        &self.export_info
    }

    /// Sends a request on the connection with the fewest requests in flight.
    pub fn send_request(&self, request: ClientRequest<'_>, callback: AnswerCallback) {
        let cookie = self.cookies.fetch_add(1, Ordering::Relaxed);
        match self.connections.iter().min_by_key(|connection| connection.in_flight.load(Ordering::Relaxed)) {
            Some(connection) => connection.send_request(cookie, request, callback),
            None => callback(Err(ErrorCode::Io.code())),
        }
    }

    /// Ends all connections with a disconnect request.
    pub fn disconnect_all(&self) {
        let command = NbdCommand::Disconnect;
        let disconnect =
            NbdRequest { flags: CommandFlags(0), command, cookie: 0, offset: 0, length: 0 }.encode_header();
        for connection in &self.connections {
            // a closed connection needs no disconnect request
            let _ = lock_ignoring_poison(&connection.output).stream.write_all(&disconnect);
        }
    }
}

impl ExportConnection {
    fn start(
        stream: NbdStream,
        export: &ExportAddress,
        end_sender: &EndSender,
    ) -> Result<Arc<ExportConnection>, AttachError> {
        let step = |e: std::io::Error| AttachError::step_error("a connection", e);
        let input = stream.clone_handle().map_err(step)?;
        let connection = Arc::new(ExportConnection {
            output: Mutex::new(ConnectionOutput { stream, message: Vec::new() }),
            pending: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
        });
        let (listener, uri, end_sender) = (Arc::clone(&connection), export.to_string(), end_sender.clone());
        let listen = move || {
            let why = listener.receive_replies(input);
            listener.fail_pending();
            // the receiver may be gone
            let _ = end_sender.send(Err(AttachError::Server { uri, why }));
        };
        thread::Builder::new().name("answers".into()).spawn(listen).map_err(step)?;
        Ok(connection)
    }

    fn send_request(&self, cookie: u64, request: ClientRequest<'_>, callback: AnswerCallback) {
        let Ok((command, offset, length)) = request.command_parts() else {
            return callback(Err(ErrorCode::Inval.code()));
        };
        let reply_bytes = if command == NbdCommand::Read { length } else { 0 };
        lock_ignoring_poison(&self.pending).insert(cookie, (reply_bytes, callback));
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let head = NbdRequest { flags: CommandFlags(0), command, cookie, offset, length }.encode_header();
        let sent = {
            let mut output = lock_ignoring_poison(&self.output);
            let ConnectionOutput { stream, message } = &mut *output;
            message.clear();
            message.extend_from_slice(&head);
            if let ClientRequest::Write { data, .. } = request {
                message.extend_from_slice(data);
            }
            stream.write_all(message)
        };
        // the connection may have ended, and its pending requests failed, before this one was added
        if sent.is_err() || self.has_ended.load(Ordering::SeqCst) {
            self.fail_pending();
        }
    }

    /// Reads replies until the connection ends; returns the reason.
    fn receive_replies(&self, stream: NbdStream) -> String {
        let mut input = BufReader::with_capacity(READ_BUFFER_BYTES, stream);
        let mut data = Vec::new();
        loop {
            let mut head = [0; 16];
            if let Err(error) = input.read_exact(&mut head) {
                return describe_error(&error);
            }
            let mut rest = MessageReader(&head);
            if rest.u32() != Some(wire::SIMPLE_REPLY_MAGIC) {
                return "the server sends an invalid reply".to_owned();
            }
            let (error, cookie) = (rest.u32().unwrap_or(0), rest.u64().unwrap_or(0));
            let Some((reply_bytes, callback)) = lock_ignoring_poison(&self.pending).remove(&cookie) else {
                return format!("the server replies to {cookie:#x}, which was not requested");
            };
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            if error != 0 {
                // an error number that the protocol does not define becomes EINVAL
                callback(Err(ErrorCode::from_code(error).code()));
                continue;
            }
            data.resize(reply_bytes as usize, 0);
            if let Err(error) = input.read_exact(&mut data) {
                callback(Err(ErrorCode::Io.code()));
                return describe_error(&error);
            }
            callback(Ok(&data));
        }
    }

    /// Fails all pending requests.
    fn fail_pending(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let pending = std::mem::take(&mut *lock_ignoring_poison(&self.pending));
        for (_, callback) in pending.into_values() {
            callback(Err(ErrorCode::Io.code()));
        }
    }
}

/// Describes an error for users.
fn describe_error(error: &std::io::Error) -> String {
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
    fn connection_pair() -> (Arc<ExportConnection>, UnixStream, Receiver<Result<(), AttachError>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (ended, end) = channel();
        let export = ExportAddress::parse("nbd://host/").unwrap();
        (ExportConnection::start(NbdStream::Unix(ours), &export, &ended).unwrap(), theirs, end)
    }

    const READ: ClientRequest<'_> = ClientRequest::Read { offset: 4096, length: 3 };

    fn send_request(line: &ExportConnection, cookie: u64, request: ClientRequest<'_>) -> Receiver<Got> {
        let (answered, answer) = channel();
        line.send_request(cookie, request, Box::new(move |got| answered.send(got.map(<[u8]>::to_vec)).unwrap()));
        answer
    }

    fn reply(error: u32, cookie: u64, data: &[u8]) -> Vec<u8> {
        let head = [&wire::SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()];
        [&head.concat(), data].concat()
    }

    #[test]
    fn replies_in_any_order_reach_their_requests() {
        let (line, mut server, _end) = connection_pair();
        let first = send_request(&line, 1, READ);
        let second = send_request(&line, 2, ClientRequest::Write { offset: 0, data: b"data" });
        let third = send_request(&line, 3, ClientRequest::Flush);
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
    fn a_faulty_or_closed_server_leaves_no_request_pending() {
        let cases: [(&str, Vec<u8>, &str); 5] = [
            ("gone", Vec::new(), "closed the connection"),
            ("no answer", vec![7; 16], "invalid reply"),
            ("structured", wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().repeat(4), "invalid reply"),
            ("nobody's", reply(0, 99, &[]), "which was not requested"),
            ("half", reply(0, 1, b"a"), "closed the connection"),
        ];
        for (name, sent, why) in cases {
            let (line, mut server, end) = connection_pair();
            let (read, write) =
                (send_request(&line, 1, READ), send_request(&line, 2, ClientRequest::Write { offset: 0, data: b"x" }));
            server.read_exact(&mut [0; 2 * wire::REQUEST_BYTES + 1]).unwrap();
            server.write_all(&sent).unwrap();
            drop(server);
            assert_eq!(read.recv_timeout(SOON).unwrap(), Err(5), "{name}");
            assert_eq!(write.recv_timeout(SOON).unwrap(), Err(5), "{name}");
            let message = end.recv_timeout(SOON).unwrap().unwrap_err().to_string();
            assert!(message.contains(why), "{name}: {message}");
            // and later requests fail at once
            assert_eq!(send_request(&line, 3, ClientRequest::Flush).recv_timeout(SOON).unwrap(), Err(5), "{name}");
        }
    }

    #[test]
    fn an_unknown_error_number_becomes_einval() {
        let (line, mut server, _end) = connection_pair();
        let read = send_request(&line, 1, READ);
        server.write_all(&reply(12345, 1, &[])).unwrap();
        assert_eq!(read.recv_timeout(SOON).unwrap(), Err(22));
    }
}
