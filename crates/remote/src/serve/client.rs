//! One client: what it has said, and what it has yet to read. Never waits.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::ServerLimits;
use super::request::{self, HttpRequestKind, LONGEST};

/// What is read of a client that says more than it should, before it is hung up on.
const MOST_LEAVING: usize = 64 << 10;
/// How long that is waited for: hung up on at once, it would not see the answer.
const LEAVING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// It has read all; the rest of what it says is thrown away.
    Leaving,
    /// It has not yet said what it wants.
    Request,
    /// It reads the answer.
    Answer,
}

/// A connection.
pub struct HttpConnection {
    stream: TcpStream,
    phase: ConnectionPhase,
    /// When the phase began.
    since: Instant,
    input: Vec<u8>,
    head: Vec<u8>,
    body: Arc<[u8]>,
    /// Bytes of head and body that are written.
    written: usize,
    stays: bool,
    /// It has had an answer before.
    is_known: bool,
    /// It will say no more.
    is_silent: bool,
    /// Its next request is here already.
    is_pending: bool,
    left: usize,
}

impl HttpConnection {
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
            written: 0,
            stays: true,
            is_known: false,
            is_silent: false,
            is_pending: false,
            left: MOST_LEAVING,
        })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// When it began what it does now.
    pub fn since(&self) -> Instant {
        self.since
    }

    pub fn waits_for(&self) -> PollFlags {
        if self.phase == ConnectionPhase::Answer { PollFlags::OUT } else { PollFlags::IN }
    }

    /// True where its next request is here already.
    pub fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// When it is hung up on.
    pub fn deadline(&self, limits: &ServerLimits) -> Instant {
        let patience = match self.phase {
            ConnectionPhase::Leaving => LEAVING,
            ConnectionPhase::Request if self.is_known && self.input.is_empty() => limits.idle,
            ConnectionPhase::Request => limits.request,
            ConnectionPhase::Answer => limits.answer,
        };
        self.since + patience
    }

    /// The smallest is spared first: who has had all, then who has taken the longest.
    pub fn use_of_place(&self) -> impl Ord + use<> {
        (self.phase != ConnectionPhase::Leaving, self.since)
    }

    /// Reads or writes as much as goes at once; false where it has gone.
    pub fn turn(&mut self, now: Instant, page: &mut dyn FnMut() -> Arc<[u8]>) -> bool {
        // a client that breaks off is its own affair
        self.go_on(now, page).unwrap_or(false)
    }

    fn go_on(&mut self, now: Instant, page: &mut dyn FnMut() -> Arc<[u8]>) -> io::Result<bool> {
        if self.phase == ConnectionPhase::Request {
            self.is_pending = false;
            self.hear(now)?;
            match request::read(&self.input) {
                Some(request) => self.answer(request, now, page),
                None => return Ok(!self.is_silent),
            }
        }
        if self.phase == ConnectionPhase::Answer && self.write()? {
            (self.is_known, self.since) = (true, now);
            self.is_pending = self.stays && request::read(&self.input).is_some();
            if self.is_pending || (self.stays && !self.is_silent) {
                self.phase = ConnectionPhase::Request;
            } else {
                self.phase = ConnectionPhase::Leaving;
                self.stream.shutdown(Shutdown::Write)?;
            }
        }
        if self.phase == ConnectionPhase::Leaving { self.see_off() } else { Ok(true) }
    }

    fn hear(&mut self, now: Instant) -> io::Result<()> {
        let mut part = [0; 2048];
        while !self.is_silent && self.input.len() < LONGEST {
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

    fn answer(&mut self, request: request::HttpRequest, now: Instant, page: &mut dyn FnMut() -> Arc<[u8]>) {
        let plain = |text: &str| ("text/plain; charset=utf-8", Arc::from(text.as_bytes()));
        let (status, (kind, body)) = match request.want {
            HttpRequestKind::Page => ("200 OK", ("text/plain; version=0.0.4; charset=utf-8", page())),
            HttpRequestKind::Other => ("404 Not Found", plain("the counters are at /metrics\n")),
            HttpRequestKind::Change => ("405 Method Not Allowed\r\nAllow: GET, HEAD", plain("use GET or HEAD\n")),
            HttpRequestKind::Nonsense => ("400 Bad Request", plain("not an HTTP/1 request\n")),
            HttpRequestKind::Long => ("431 Request Header Fields Too Large", plain("the request is too long\n")),
        };
        let goes_on = if request.stays { "keep-alive" } else { "close" };
        let length = body.len();
        // nothing that the client said stands in it
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: {goes_on}\r\n\r\n"
        );
        self.head = head.into_bytes();
        self.body = if request.head_only { Arc::default() } else { body };
        self.written = 0;
        self.stays = request.stays;
        self.input.drain(..request.length);
        (self.phase, self.since) = (ConnectionPhase::Answer, now);
    }

    /// True when all is written.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            let rest = match self.written.checked_sub(self.head.len()) {
                None => &self.head[self.written..],
                Some(written) => &self.body[written..],
            };
            if rest.is_empty() {
                self.body = Arc::default();
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

    /// Reads on until the client has hung up, so that it sees the answer; not for long.
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
