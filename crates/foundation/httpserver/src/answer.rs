//! What a service says to a request, at once, later, or again and again.

use std::sync::Arc;

use crate::request::{HttpRequest, RequestFault};

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Code and words, and header lines that the code demands.
    pub status: &'static str,
    /// The body's media type.
    pub kind: &'static str,
    /// Further headers. Values hold no line ends.
    pub headers: Vec<(&'static str, String)>,
    /// What follows the head.
    pub body: Arc<[u8]>,
}

impl HttpAnswer {
    /// 200 with a body of a media type.
    pub fn ok(kind: &'static str, body: impl Into<Arc<[u8]>>) -> HttpAnswer {
        HttpAnswer { status: "200 OK", kind, headers: Vec::new(), body: body.into() }
    }

    /// A few words with a status.
    pub fn plain(status: &'static str, text: &str) -> HttpAnswer {
        let kind = "text/plain; charset=utf-8";
        HttpAnswer { status, kind, headers: Vec::new(), body: Arc::from(text.as_bytes()) }
    }

    /// The head, before the lines that a connection adds.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {}\r\n", self.status, self.kind);
        for (name, value) in &self.headers {
            debug_assert!(!value.contains(['\r', '\n']), "{name}");
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// The answer to what cannot be read.
    pub(crate) fn refusal(fault: RequestFault) -> HttpAnswer {
        match fault {
            RequestFault::Nonsense => HttpAnswer::plain("400 Bad Request", "not an HTTP/1 request\n"),
            RequestFault::Long => HttpAnswer::plain("431 Request Header Fields Too Large", "the request is too long\n"),
            RequestFault::LongBody => HttpAnswer::plain("413 Content Too Large", "the body is too long\n"),
            RequestFault::NoLength => HttpAnswer::plain("411 Length Required", "state the length of the body\n"),
        }
    }
}

/// Work that gives an answer.
pub type AnswerWork = Box<dyn FnOnce() -> HttpAnswer + Send>;

/// What a service says.
pub enum HttpReply {
    /// It is known already.
    Now(HttpAnswer),
    /// It takes a moment, on another thread.
    Later(AnswerWork),
    /// Events of a channel, as they come; the body of the answer is the first.
    Stream(HttpAnswer, usize),
}

/// What is served. It is asked by the thread that waits for all clients, so it does not wait itself.
pub trait HttpService: Send + 'static {
    /// What is said to a request.
    fn reply(&mut self, request: &HttpRequest) -> HttpReply;
}
