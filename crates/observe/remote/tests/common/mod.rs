//! Stores on the loopback interface that fail in ways in which real ones rarely do.

#![allow(dead_code, reason = "each test file takes a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request that a store received.
#[derive(Clone)]
pub struct SeenRequest {
    /// The request line and headers, up to the empty line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A store with a configured behavior, which serves each client in a thread.
pub struct FakeStore {
    /// Address at which it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeStore {
    /// Starts a store. `answer` gets each request and its connection, which is closed afterwards.
    pub fn start(
        answer: impl Fn(&SeenRequest, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> FakeStore {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let (answer, list) = (Arc::new(answer), Arc::clone(&seen));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (answer, list) = (Arc::clone(&answer), Arc::clone(&list));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&mut stream) else { return };
                    list.lock().unwrap().push(request.clone());
                    // a client that closes the connection is part of the tests
                    let _ = answer(&request, &mut stream);
                });
            }
        });
        FakeStore { address, seen }
    }

    /// Answers every request with the same bytes.
    pub fn with_response(answer: Vec<u8>) -> FakeStore {
        FakeStore::start(move |_, stream| stream.write_all(&answer))
    }

    /// Answers with a document by path, `404` for others.
    pub fn with_documents(documents: &'static [(&'static str, &'static str)]) -> FakeStore {
        FakeStore::start(move |request, stream| {
            let found = documents.iter().find(|(path, _)| request.path().starts_with(path));
            stream.write_all(&match found {
                Some((_, body)) => http_response("200 OK", "", body),
                None => http_response("404 Not Found", "", "no such path"),
            })
        })
    }

    /// Accepts requests and never answers.
    pub fn without_response() -> FakeStore {
        FakeStore::start(|_, stream| stream.read(&mut [0]).map(drop))
    }

    /// Begins an answer, and repeats a part of it endlessly.
    pub fn with_endless_response(start: &'static str, again: &'static str) -> FakeStore {
        FakeStore::start(move |_, stream| {
            let again = again.repeat((1 << 16) / again.len());
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{start}")?;
            loop {
                stream.write_all(again.as_bytes())?;
            }
        })
    }

    /// Requests received so far.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// URL of the store, with text before the address and after it.
    pub fn url(&self, user: &str, path: &str) -> String {
        format!("http://{user}{}{path}", self.address)
    }
}

impl SeenRequest {
    /// The requested path with its query.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

fn read_request(stream: &mut TcpStream) -> Option<SeenRequest> {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        all.extend_from_slice(&part[..read]);
        let Some(end) = all.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let seen = SeenRequest { head, body: all[end + 4..].to_vec() };
        let length = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if seen.body.len() >= length {
            return Some(seen);
        }
    }
}

/// Formats an HTTP response.
pub fn http_response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    text.into_bytes()
}
