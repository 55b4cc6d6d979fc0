//! Responses of a service to a request: immediate, deferred to a worker, or a stream of events.

use std::sync::Arc;

use crate::request::{HttpRequest, RequestFault};

/// A response.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Status code and text, and header lines that the code requires.
    pub status: &'static str,
    /// The body's media type.
    pub kind: &'static str,
    /// Further headers. Values hold no line ends.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Arc<[u8]>,
}

impl HttpAnswer {
    /// Creates a response with status 200 and a body of a media type.
    pub fn ok(kind: &'static str, body: impl Into<Arc<[u8]>>) -> HttpAnswer {
        HttpAnswer { status: "200 OK", kind, headers: Vec::new(), body: body.into() }
    }

    /// Creates a plain-text response with a status.
    pub fn plain(status: &'static str, text: &str) -> HttpAnswer {
        let kind = "text/plain; charset=utf-8";
        HttpAnswer { status, kind, headers: Vec::new(), body: Arc::from(text.as_bytes()) }
    }

    /// Formats the head, without the lines that a connection adds.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {}\r\n", self.status, self.kind);
        for (name, value) in &self.headers {
            debug_assert!(!value.contains(['\r', '\n']), "{name}");
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// Creates the response to a request that cannot be parsed.
    pub(crate) fn refusal(fault: RequestFault) -> HttpAnswer {
        match fault {
            RequestFault::Nonsense => HttpAnswer::plain("400 Bad Request", "not an HTTP/1 request\n"),
            RequestFault::Long => HttpAnswer::plain("431 Request Header Fields Too Large", "the request is too long\n"),
            RequestFault::LongBody => HttpAnswer::plain("413 Content Too Large", "the body is too long\n"),
            RequestFault::NoLength => HttpAnswer::plain("411 Length Required", "state the length of the body\n"),
        }
    }
}

/// Job for a worker thread that produces a response.
pub type AnswerWork = Box<dyn FnOnce() -> HttpAnswer + Send>;

/// A service's reaction to a request.
pub enum HttpReply {
    /// The response is ready.
    Now(HttpAnswer),
    /// The response takes time and is produced by a worker thread.
    Later(AnswerWork),
    /// Events of a channel, as they come; the body of the response is the first.
    Stream(HttpAnswer, usize),
}

/// Handler of all requests. It runs on the thread that serves all clients, so it must not block.
pub trait HttpService: Send + 'static {
    /// Handles a request.
    fn reply(&mut self, request: &HttpRequest) -> HttpReply;
}
