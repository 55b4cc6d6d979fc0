//! One client connection: its input and its pending output. Never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::ServerLimits;
use crate::request::{HttpParse, HttpRequest, MAX_BODY_BYTES, MAX_HEAD_BYTES, parse_request};
use crate::response::{HttpReply, HttpResponse, HttpService, ResponseJob};

/// Largest number of bytes of excess input that are discarded before the connection is closed.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
/// Longest wait for the client to close: closed at once, it would not see the response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Size of the kernel's send buffer of a stream: small, so that a slow reader loses events
/// instead of receiving old ones.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// Time without an event after which a reader is sent a comment, so that no proxy takes the connection for dead.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// The response is sent; further input is discarded.
    Closing,
    /// The request is being received.
    Request,
    /// The response is being sent.
    Response,
    /// A worker produces the response.
    Work,
    /// Events of a channel are being sent.
    Stream(usize),
}

/// Result of one step of a connection.
pub enum TurnOutcome {
    /// The connection stays open.
    KeepOpen,
    /// The connection has ended.
    Closed,
    /// A worker must produce the response.
    NeedsWork(ResponseJob),
}

/// A connection to one client.
pub struct HttpConnection {
    stream: TcpStream,
    phase: ConnectionPhase,
    /// Start of the phase; for a stream, start of its last event.
    phase_start: Instant,
    input: Vec<u8>,
    head: Vec<u8>,
    body: Arc<[u8]>,
    /// The newest event, which waits until the previous one is written.
    next_event: Option<Arc<[u8]>>,
    /// Bytes of head and body that are written.
    written_bytes: usize,
    keep_alive: bool,
    head_only: bool,
    /// The client has had a response before.
    has_answered: bool,
    /// The client has closed its sending side.
    input_ended: bool,
    /// The next request is already in `input`.
    has_pending_request: bool,
    discardable_bytes: usize,
}

impl HttpConnection {
    /// Sets up an accepted connection.
    pub fn new(stream: TcpStream, now: Instant) -> io::Result<HttpConnection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection {
            stream,
            phase: ConnectionPhase::Request,
            phase_start: now,
            input: Vec::new(),
            head: Vec::new(),
            body: Arc::default(),
            next_event: None,
            written_bytes: 0,
            keep_alive: true,
            head_only: false,
            has_answered: false,
            input_ended: false,
            has_pending_request: false,
            discardable_bytes: MAX_DISCARDED_BYTES,
        })
    }

    /// The socket, to be polled.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Start of the current phase.
    pub fn phase_start(&self) -> Instant {
        self.phase_start
    }

    /// Events of the socket to poll for.
    pub fn poll_events(&self) -> PollFlags {
        match self.phase {
            ConnectionPhase::Response => PollFlags::OUT,
            // poll always reports a hangup
            ConnectionPhase::Work => PollFlags::empty(),
            ConnectionPhase::Stream(_) if !self.is_output_written() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns true if the next request is already in the input.
    pub fn has_pending_request(&self) -> bool {
        self.has_pending_request
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
        let timeout = match self.phase {
            ConnectionPhase::Closing => CLOSE_TIMEOUT,
            ConnectionPhase::Request if self.has_answered && self.input.is_empty() => limits.idle_timeout,
            ConnectionPhase::Request => limits.request_timeout,
            ConnectionPhase::Work => limits.work_timeout,
            ConnectionPhase::Stream(_) if self.is_output_written() => PING_INTERVAL,
            ConnectionPhase::Response | ConnectionPhase::Stream(_) => limits.response_timeout,
        };
        self.phase_start + timeout
    }

    /// Sends a comment if there was no event for [`PING_INTERVAL`]; returns true if that was due.
    pub fn ping_if_idle(&mut self, now: Instant) -> bool {
        let is_due = self.channel().is_some() && self.is_output_written() && self.phase_start + PING_INTERVAL <= now;
        if is_due {
            self.queue_event(Arc::from(b": ping\n\n".as_slice()), now);
        }
        is_due
    }

    /// Order of eviction, smallest first: finished clients, then those longest in their phase, streams last.
    pub fn eviction_key(&self) -> impl Ord + use<> {
        let rank = match self.phase {
            ConnectionPhase::Closing => 0,
            ConnectionPhase::Request | ConnectionPhase::Response => 1,
            ConnectionPhase::Work => 2,
            ConnectionPhase::Stream(_) => 3,
        };
        (rank, self.phase_start)
    }

    /// Reads or writes as much as possible without blocking.
    pub fn make_progress(&mut self, now: Instant, service: &mut dyn HttpService) -> TurnOutcome {
        // an error of the socket concerns only this client
        self.try_progress(now, service).unwrap_or(TurnOutcome::Closed)
    }

    fn try_progress(&mut self, now: Instant, service: &mut dyn HttpService) -> io::Result<TurnOutcome> {
        let keep_open_if = |stays: bool| if stays { TurnOutcome::KeepOpen } else { TurnOutcome::Closed };
        match self.phase {
            // in this phase only a hangup is polled for
            ConnectionPhase::Work => return Ok(TurnOutcome::Closed),
            ConnectionPhase::Stream(_) => {
                self.write_events(now)?;
                return self.discard_input().map(keep_open_if);
            }
            ConnectionPhase::Request => {
                self.has_pending_request = false;
                self.read_input(now)?;
                match parse_request(&self.input) {
                    HttpParse::Partial => return Ok(keep_open_if(!self.input_ended)),
                    HttpParse::Invalid(fault) => {
                        (self.keep_alive, self.head_only) = (false, false);
                        self.input.clear();
                        self.start_response(&HttpResponse::for_fault(fault), now);
                    }
                    HttpParse::Complete { request, stays, length } => {
                        self.input.drain(..length);
                        (self.keep_alive, self.head_only) = (stays, request.is_head());
                        if let Some(work) = self.answer_request(&request, now, service) {
                            return Ok(TurnOutcome::NeedsWork(work));
                        }
                        if self.channel().is_some() {
                            self.write_events(now)?;
                            return Ok(TurnOutcome::KeepOpen);
                        }
                    }
                }
            }
            ConnectionPhase::Response | ConnectionPhase::Closing => {}
        }
        self.finish_response(now).map(keep_open_if)
    }

    /// Starts the response to a request, or returns the job that produces it.
    fn answer_request(
        &mut self,
        request: &HttpRequest,
        now: Instant,
        service: &mut dyn HttpService,
    ) -> Option<ResponseJob> {
        match service.handle_request(request) {
            HttpReply::Now(answer) => self.start_response(&answer, now),
            HttpReply::Stream(answer, channel) => {
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&self.stream, STREAM_BUFFER_BYTES);
                self.head = format!("{}Connection: close\r\n\r\n", answer.head_text()).into_bytes();
                (self.body, self.written_bytes) = (answer.body, 0);
                (self.phase, self.phase_start) = (ConnectionPhase::Stream(channel), now);
            }
            HttpReply::Later(work) => {
                (self.phase, self.phase_start) = (ConnectionPhase::Work, now);
                return Some(work);
            }
        }
        None
    }

    /// Accepts a response that a worker produced; returns false if the connection has ended.
    pub fn accept_response(&mut self, answer: &HttpResponse, now: Instant) -> bool {
        if self.phase == ConnectionPhase::Work {
            self.start_response(answer, now);
            return self.finish_response(now).unwrap_or(false);
        }
        true
    }

    /// Queues an event; while the previous one is not written it waits, in place of one that waited before.
    pub fn queue_event(&mut self, event: Arc<[u8]>, now: Instant) -> bool {
        if !self.is_output_written() {
            self.next_event = Some(event);
            return true;
        }
        (self.body, self.head, self.written_bytes, self.phase_start) = (event, Vec::new(), 0, now);
        self.write_events(now).is_ok()
    }

    fn write_events(&mut self, now: Instant) -> io::Result<()> {
        while self.write_output()? {
            let Some(event) = self.next_event.take() else { break };
            (self.body, self.head, self.written_bytes, self.phase_start) = (event, Vec::new(), 0, now);
        }
        Ok(())
    }

    fn read_input(&mut self, now: Instant) -> io::Result<()> {
        let mut buffer = [0; 2048];
        while !self.input_ended && self.input.len() < MAX_HEAD_BYTES + MAX_BODY_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.input_ended = true,
                Ok(read) => {
                    if self.input.is_empty() && self.has_answered {
                        self.phase_start = now;
                    }
                    self.input.extend_from_slice(&buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn start_response(&mut self, answer: &HttpResponse, now: Instant) {
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        let length = answer.body.len();
        // the head holds nothing that the client sent
        let head = format!("{}Content-Length: {length}\r\nConnection: {connection}\r\n\r\n", answer.head_text());
        self.head = head.into_bytes();
        self.body = if self.head_only { Arc::default() } else { Arc::clone(&answer.body) };
        self.written_bytes = 0;
        (self.phase, self.phase_start) = (ConnectionPhase::Response, now);
    }

    /// Writes the response, then expects the next request or the end; returns false if the connection has ended.
    fn finish_response(&mut self, now: Instant) -> io::Result<bool> {
        if self.phase == ConnectionPhase::Response && self.write_output()? {
            (self.has_answered, self.phase_start) = (true, now);
            self.has_pending_request = self.keep_alive && parse_request(&self.input) != HttpParse::Partial;
            if self.has_pending_request || (self.keep_alive && !self.input_ended) {
                self.phase = ConnectionPhase::Request;
            } else {
                self.phase = ConnectionPhase::Closing;
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        if self.phase == ConnectionPhase::Closing { self.discard_input() } else { Ok(true) }
    }

    fn is_output_written(&self) -> bool {
        let length = self.head.len() + self.body.len();
        debug_assert!(self.written_bytes <= length, "{} of {length} bytes are written", self.written_bytes);
        self.written_bytes == length
    }

    /// Writes head and body; returns true when all is written.
    fn write_output(&mut self) -> io::Result<bool> {
        loop {
            let rest = match self.written_bytes.checked_sub(self.head.len()) {
                None => &self.head[self.written_bytes..],
                Some(written) => &self.body[written..],
            };
            if rest.is_empty() {
                (self.body, self.head, self.written_bytes) = (Arc::default(), Vec::new(), 0);
                return Ok(true);
            }
            match (&self.stream).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    debug_assert!(written <= rest.len(), "{written} of {} bytes were written", rest.len());
                    self.written_bytes += written;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Discards input until the client has closed, so that it sees the response; within limits. False at the end.
    fn discard_input(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        while self.discardable_bytes > 0 {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(read) => self.discardable_bytes = self.discardable_bytes.saturating_sub(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
