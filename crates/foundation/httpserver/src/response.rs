//! Responses of a service to a request: immediate, deferred to a worker, or a stream of events.

use std::sync::Arc;

use crate::request::{HttpRequest, RequestFault};

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Status code and text, and header lines that the code requires.
    pub status: &'static str,
    /// The body's media type.
    pub media_type: &'static str,
    /// Further headers. Values hold no line ends.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Arc<[u8]>,
}

impl HttpResponse {
    /// Creates a response with status 200 and a body of a media type.
    pub fn ok(kind: &'static str, body: impl Into<Arc<[u8]>>) -> HttpResponse {
        HttpResponse { status: "200 OK", media_type: kind, headers: Vec::new(), body: body.into() }
    }

    /// Creates a plain-text response with a status.
    pub fn plain_text(status: &'static str, text: &str) -> HttpResponse {
        let kind = "text/plain; charset=utf-8";
        HttpResponse { status, media_type: kind, headers: Vec::new(), body: Arc::from(text.as_bytes()) }
    }

    /// Formats the head, without the lines that a connection adds.
    pub(crate) fn head_text(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {}\r\n", self.status, self.media_type);
        for (name, value) in &self.headers {
            debug_assert!(!value.contains(['\r', '\n']), "{name}");
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// Creates the response to a request that cannot be parsed.
    pub(crate) fn for_fault(fault: RequestFault) -> HttpResponse {
        match fault {
            RequestFault::Malformed => HttpResponse::plain_text("400 Bad Request", "not an HTTP/1 request\n"),
            RequestFault::HeadTooLong => {
                HttpResponse::plain_text("431 Request Header Fields Too Large", "the request is too long\n")
            }
            RequestFault::BodyTooLong => HttpResponse::plain_text("413 Content Too Large", "the body is too long\n"),
            RequestFault::MissingLength => {
                HttpResponse::plain_text("411 Length Required", "state the length of the body\n")
            }
        }
    }
}

/// Job for a worker thread that produces a response.
pub type ResponseJob = Box<dyn FnOnce() -> HttpResponse + Send>;

/// A service's reaction to a request.
pub enum HttpReply {
    /// The response is ready.
    Now(HttpResponse),
    /// The response takes time and is produced by a worker thread.
    Later(ResponseJob),
    /// Events of a channel, as they come; the body of the response is the first.
    Stream(HttpResponse, usize),
}

/// Handler of all requests. It runs on the thread that serves all clients, so it must not block.
pub trait HttpService: Send + 'static {
    /// Handles a request.
    fn handle_request(&mut self, request: &HttpRequest) -> HttpReply;
}
