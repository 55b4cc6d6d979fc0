//! One client connection: its input and its pending output. Never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::ServerLimits;
use crate::answer::{AnswerWork, HttpAnswer, HttpReply, HttpService};
use crate::request::{HttpParse, HttpRequest, LONGEST, LONGEST_BODY, parse};

/// Most bytes of excess input that are discarded before the connection is closed.
const MOST_LEAVING: usize = 64 << 10;
/// Longest wait for the client to close: closed at once, it would not see the response.
const LEAVING: Duration = Duration::from_secs(1);
/// Size of the kernel's send buffer of a stream: small, so that a slow reader loses events
/// instead of receiving old ones.
const STREAM_BUFFER: usize = 64 << 10;
/// Time without an event after which a reader is sent a comment, so that no proxy takes the connection for dead.
pub const PING_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// The response is sent; further input is discarded.
    Leaving,
    /// The request is being received.
    Request,
    /// The response is being sent.
    Answer,
    /// A worker produces the response.
    Work,
    /// Events of a channel are being sent.
    Stream(usize),
}

/// Result of one step of a connection.
pub enum ConnectionTurn {
    /// The connection stays open.
    Stays,
    /// The connection has ended.
    Gone,
    /// A worker must produce the response.
    Needs(AnswerWork),
}

/// A connection to one client.
pub struct HttpConnection {
    stream: TcpStream,
    phase: ConnectionPhase,
    /// Start of the phase; for a stream, start of its last event.
    since: Instant,
    input: Vec<u8>,
    head: Vec<u8>,
    body: Arc<[u8]>,
    /// The newest event, which waits until the previous one is written.
    next: Option<Arc<[u8]>>,
    /// Bytes of head and body that are written.
    written: usize,
    stays: bool,
    head_only: bool,
    /// The client has had a response before.
    is_known: bool,
    /// The client has closed its sending side.
    is_silent: bool,
    /// The next request is already in `input`.
    is_pending: bool,
    left: usize,
}

impl HttpConnection {
    /// Sets up an accepted connection.
    pub fn new(stream: TcpStream, now: Instant) -> io::Result<HttpConnection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection {
            stream,
            phase: ConnectionPhase::Request,
            since: now,
            input: Vec::new(),
            head: Vec::new(),
            body: Arc::default(),
            next: None,
            written: 0,
            stays: true,
            head_only: false,
            is_known: false,
            is_silent: false,
            is_pending: false,
            left: MOST_LEAVING,
        })
    }

    /// The socket, to be polled.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Start of the current phase.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Events of the socket to poll for.
    pub fn waits_for(&self) -> PollFlags {
        match self.phase {
            ConnectionPhase::Answer => PollFlags::OUT,
            // poll always reports a hangup
            ConnectionPhase::Work => PollFlags::empty(),
            ConnectionPhase::Stream(_) if !self.is_written() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns true if the next request is already in the input.
    pub fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// The event channel that the client reads.
    pub fn channel(&self) -> Option<usize> {
        match self.phase {
            ConnectionPhase::Stream(channel) => Some(channel),
            _ => None,
        }
    }

    /// Time at which an idle connection is closed, or a stream pinged.
    pub fn deadline(&self, limits: &ServerLimits) -> Instant {
        let patience = match self.phase {
            ConnectionPhase::Leaving => LEAVING,
            ConnectionPhase::Request if self.is_known && self.input.is_empty() => limits.idle,
            ConnectionPhase::Request => limits.request,
            ConnectionPhase::Work => limits.work,
            ConnectionPhase::Stream(_) if self.is_written() => PING_AFTER,
            ConnectionPhase::Answer | ConnectionPhase::Stream(_) => limits.answer,
        };
        self.since + patience
    }

    /// Sends a comment if there was no event for [`PING_INTERVAL`]; returns true if that was due.
    pub fn ping(&mut self, now: Instant) -> bool {
        let is_due = self.channel().is_some() && self.is_written() && self.since + PING_AFTER <= now;
        if is_due {
            self.offer(Arc::from(b": ping\n\n".as_slice()), now);
        }
        is_due
    }

    /// Order of eviction, smallest first: finished clients, then those longest in their phase, streams last.
    pub fn use_of_place(&self) -> impl Ord + use<> {
        let rank = match self.phase {
            ConnectionPhase::Leaving => 0,
            ConnectionPhase::Request | ConnectionPhase::Answer => 1,
            ConnectionPhase::Work => 2,
            ConnectionPhase::Stream(_) => 3,
        };
        (rank, self.since)
    }

    /// Reads or writes as much as possible without blocking.
    pub fn turn(&mut self, now: Instant, service: &mut dyn HttpService) -> ConnectionTurn {
        // an error of the socket concerns only this client
        self.go_on(now, service).unwrap_or(ConnectionTurn::Gone)
    }

    fn go_on(&mut self, now: Instant, service: &mut dyn HttpService) -> io::Result<ConnectionTurn> {
        let stays = |stays: bool| if stays { ConnectionTurn::Stays } else { ConnectionTurn::Gone };
        match self.phase {
            // in this phase only a hangup is polled for
            ConnectionPhase::Work => return Ok(ConnectionTurn::Gone),
            ConnectionPhase::Stream(_) => {
                self.write_events(now)?;
                return self.see_off().map(stays);
            }
            ConnectionPhase::Request => {
                self.is_pending = false;
                self.hear(now)?;
                match parse(&self.input) {
                    HttpParse::Partial => return Ok(stays(!self.is_silent)),
                    HttpParse::Wrong(fault) => {
                        (self.stays, self.head_only) = (false, false);
                        self.input.clear();
                        self.begin(&HttpAnswer::refusal(fault), now);
                    }
                    HttpParse::Whole { request, stays, length } => {
                        self.input.drain(..length);
                        (self.stays, self.head_only) = (stays, request.is_head());
                        if let Some(work) = self.reply(&request, now, service) {
                            return Ok(ConnectionTurn::Needs(work));
                        }
                        if self.channel().is_some() {
                            self.write_events(now)?;
                            return Ok(ConnectionTurn::Stays);
                        }
                    }
                }
            }
            ConnectionPhase::Answer | ConnectionPhase::Leaving => {}
        }
        self.finish(now).map(stays)
    }

    /// Starts the response to a request, or returns the job that produces it.
    fn reply(&mut self, request: &HttpRequest, now: Instant, service: &mut dyn HttpService) -> Option<AnswerWork> {
        match service.reply(request) {
            HttpReply::Now(answer) => self.begin(&answer, now),
            HttpReply::Stream(answer, channel) => {
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&self.stream, STREAM_BUFFER);
                self.head = format!("{}Connection: close\r\n\r\n", answer.head()).into_bytes();
                (self.body, self.written) = (answer.body, 0);
                (self.phase, self.since) = (ConnectionPhase::Stream(channel), now);
            }
            HttpReply::Later(work) => {
                (self.phase, self.since) = (ConnectionPhase::Work, now);
                return Some(work);
            }
        }
        None
    }

    /// Accepts a response that a worker produced; returns false if the connection has ended.
    pub fn take(&mut self, answer: &HttpAnswer, now: Instant) -> bool {
        if self.phase == ConnectionPhase::Work {
            self.begin(answer, now);
            return self.finish(now).unwrap_or(false);
        }
        true
    }

    /// Queues an event; while the previous one is not written it waits, in place of one that waited before.
    pub fn offer(&mut self, event: Arc<[u8]>, now: Instant) -> bool {
        if !self.is_written() {
            self.next = Some(event);
            return true;
        }
        (self.body, self.head, self.written, self.since) = (event, Vec::new(), 0, now);
        self.write_events(now).is_ok()
    }

    fn write_events(&mut self, now: Instant) -> io::Result<()> {
        while self.write()? {
            let Some(event) = self.next.take() else { break };
            (self.body, self.head, self.written, self.since) = (event, Vec::new(), 0, now);
        }
        Ok(())
    }

    fn hear(&mut self, now: Instant) -> io::Result<()> {
        let mut part = [0; 2048];
        while !self.is_silent && self.input.len() < LONGEST + LONGEST_BODY {
            match self.stream.read(&mut part) {
                Ok(0) => self.is_silent = true,
                Ok(read) => {
                    if self.input.is_empty() && self.is_known {
                        self.since = now;
                    }
                    self.input.extend_from_slice(&part[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin(&mut self, answer: &HttpAnswer, now: Instant) {
        let connection = if self.stays { "keep-alive" } else { "close" };
        let length = answer.body.len();
        // the head holds nothing that the client sent
        let head = format!("{}Content-Length: {length}\r\nConnection: {connection}\r\n\r\n", answer.head());
        self.head = head.into_bytes();
        self.body = if self.head_only { Arc::default() } else { Arc::clone(&answer.body) };
        self.written = 0;
        (self.phase, self.since) = (ConnectionPhase::Answer, now);
    }

    /// Writes the response, then expects the next request or the end; returns false if the connection has ended.
    fn finish(&mut self, now: Instant) -> io::Result<bool> {
        if self.phase == ConnectionPhase::Answer && self.write()? {
            (self.is_known, self.since) = (true, now);
            self.is_pending = self.stays && parse(&self.input) != HttpParse::Partial;
            if self.is_pending || (self.stays && !self.is_silent) {
                self.phase = ConnectionPhase::Request;
            } else {
                self.phase = ConnectionPhase::Leaving;
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        if self.phase == ConnectionPhase::Leaving { self.see_off() } else { Ok(true) }
    }

    fn is_written(&self) -> bool {
        self.written >= self.head.len() + self.body.len()
    }

    /// Writes head and body; returns true when all is written.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            let rest = match self.written.checked_sub(self.head.len()) {
                None => &self.head[self.written..],
                Some(written) => &self.body[written..],
            };
            if rest.is_empty() {
                (self.body, self.head, self.written) = (Arc::default(), Vec::new(), 0);
                return Ok(true);
            }
            match (&self.stream).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Discards input until the client has closed, so that it sees the response; within limits. False at the end.
    fn see_off(&mut self) -> io::Result<bool> {
        let mut part = [0; 4096];
        while self.left > 0 {
            match self.stream.read(&mut part) {
                Ok(0) => return Ok(false),
                Ok(read) => self.left = self.left.saturating_sub(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
