//! `/metrics`: a server small enough for one page.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::feed::{Shot, page};

/// The most that a client may take to say what it wants, and to read it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const LONGEST: usize = 8 << 10;

/// A server of the last tick. It ends when dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address`: a port alone is this machine's loopback.
    ///
    /// # Errors
    /// When it is no address, or cannot be listened at.
    pub fn start(address: &str, shot: Arc<Mutex<Shot>>) -> io::Result<Server> {
        let listener = match address.parse::<u16>() {
            Ok(port) => TcpListener::bind(("127.0.0.1", port))?,
            Err(_) => TcpListener::bind(address)?,
        };
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            for stream in listener.incoming() {
                if asked.load(Ordering::Relaxed) {
                    break;
                }
                // a client that breaks off is its own affair
                let _ = stream.and_then(|stream| answer(stream, &shot));
            }
        })?;
        Ok(Server { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // a caller of our own wakes the listener, so that it sees the flag
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let woken = TcpStream::connect_timeout(&own, PATIENCE);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, shot: &Mutex<Shot>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(line) = request(&mut stream)? else { return Ok(()) };
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            // copied, so that the recorder never waits for a page being written
            let last = shot.lock().map(|s| s.clone()).unwrap_or_default();
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", page(&last))
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "the counters are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// The first line of a request, when all of its head is in.
fn request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&part[..read]);
    }
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Named;

    fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn a_page_and_nothing_else() {
        let named = Named { metric: "diskwright_x".into(), labels: Vec::new(), help: "X.".into(), is_total: false };
        let shot = Shot { time_ms: 1000, names: Arc::new(vec![named]), values: vec![2.5] };
        let server = Server::start("0", Arc::new(Mutex::new(shot))).unwrap();
        assert!(server.address().ip().is_loopback());
        let page = ask(&server, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("\ndiskwright_x 2.5\n"), "{page}");
        assert!(ask(&server, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(&server, "POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(!ask(&server, "HEAD /metrics HTTP/1.0\r\n\r\n").contains("diskwright_x"));
        // a request without an end is hung up on
        assert_eq!(ask(&server, &"x".repeat(20_000)), "");
    }
}
