//! `/metrics`: a server small enough for one page, which no client holds up.
//!
//! One thread waits for all clients (`poll`). Each has a deadline for its request
//! and for reading the answer; their number is bounded, and a new one takes the
//! place of the one that has kept its place the longest for nothing, or waits in
//! the kernel's queue where all are as new. A library
//! would bring an async runtime (hyper), or a thread a client that a slow reader
//! keeps (tiny_http).

mod client;
mod request;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::feed::{SeriesSnapshot, page};
use client::HttpConnection;

/// New clients that are taken between two looks at the others.
const ACCEPTED_AT_ONCE: usize = 64;
/// How long a client keeps its place at least, however many others want it.
const SURE_PLACE: Duration = Duration::from_millis(300);
/// The recorder goes first where a processor is scarce.
const NICENESS: i32 = 5;
/// How long no client is taken after the system refused one (no more open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once.
    pub clients: usize,
    /// Time to say what it wants.
    pub request: Duration,
    /// Time to read the answer.
    pub answer: Duration,
    /// Time between two requests.
    pub idle: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        let [request, answer, idle] = [5, 10, 120].map(Duration::from_secs);
        ServerLimits { clients: 128, request, answer, idle }
    }
}

/// The last tick: the recorder puts it in, the server takes it out. Neither
/// holds the lock for longer than that.
#[derive(Clone, Default)]
pub struct LastTick(Arc<Mutex<Arc<SeriesSnapshot>>>);

impl LastTick {
    /// Puts in a tick.
    pub fn set(&self, shot: &SeriesSnapshot) {
        let shot = Arc::new(shot.clone());
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), shot);
        // freed here, with the lock open
        drop(before);
    }

    fn get(&self) -> Arc<SeriesSnapshot> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The page of the last tick, made once for all who ask.
#[derive(Default)]
struct MetricsPage {
    last: LastTick,
    shot: Arc<SeriesSnapshot>,
    text: Option<Arc<[u8]>>,
}

impl MetricsPage {
    fn text(&mut self) -> Arc<[u8]> {
        let shot = self.last.get();
        let known = self.text.take().filter(|_| Arc::ptr_eq(&shot, &self.shot));
        let text = known.unwrap_or_else(|| page(&shot).into_bytes().into());
        self.shot = shot;
        Arc::clone(self.text.insert(text))
    }
}

/// A server of the last tick. It ends when dropped.
pub struct MetricsServer {
    address: SocketAddr,
    /// The thread sees when this is closed.
    alive: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`: a port alone is this machine's loopback (127.0.0.1).
    ///
    /// # Errors
    /// When it is no address, or cannot be listened at.
    pub fn start(address: &str, last: LastTick, limits: ServerLimits) -> io::Result<MetricsServer> {
        let listener = bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (alive, watched) = UnixStream::pair()?;
        let page = MetricsPage { last, ..MetricsPage::default() };
        let mut work = ServerLoop { listener, watched, page, limits, clients: Vec::new(), deaf_until: None };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            // of this thread alone; where that is refused, it goes without
            let _ = setpriority_process(Some(gettid()), NICENESS);
            while work.turn() {}
        })?;
        Ok(MetricsServer { address, alive: Some(alive), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(address: &str) -> io::Result<TcpListener> {
    let wrong = |because: &str| io::Error::new(io::ErrorKind::InvalidInput, because.to_owned());
    match address.parse::<u16>() {
        Ok(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        Err(_) if address.starts_with(':') => {
            Err(wrong("use PORT alone to serve this machine, or 0.0.0.0:PORT ([::]:PORT) to serve every network"))
        }
        Err(_) if !address.contains(':') => Err(wrong("expected PORT or ADDRESS:PORT")),
        Err(_) => TcpListener::bind(address),
    }
}

/// What the thread works on.
struct ServerLoop {
    listener: TcpListener,
    watched: UnixStream,
    page: MetricsPage,
    limits: ServerLimits,
    clients: Vec<HttpConnection>,
    deaf_until: Option<Instant>,
}

impl ServerLoop {
    /// Waits until something is to be done, and does it; false at the end.
    fn turn(&mut self) -> bool {
        let ready = match self.wait() {
            Ok(ready) => ready,
            // a signal, or no memory for a moment
            Err(_) => return true,
        };
        let [is_over, has_new, clients @ ..] = ready.as_slice() else { return true };
        if *is_over {
            return false;
        }
        let now = Instant::now();
        let mut ready = clients.iter();
        let (page, limits) = (&mut self.page, &self.limits);
        self.clients.retain_mut(|client| {
            let is_ready = ready.next().is_some_and(|ready| *ready);
            let stays = !is_ready || client.turn(now, &mut || page.text());
            stays && client.deadline(limits) > now
        });
        if *has_new {
            self.accept(now);
        }
        true
    }

    /// Which of these have something to do: the end, the listener, each client.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let now = Instant::now();
        let deaf = self.deaf_until.max(self.is_full_until()).filter(|until| *until > now);
        let mut deadlines: Vec<Instant> = self.clients.iter().map(|client| client.deadline(&self.limits)).collect();
        deadlines.extend(deaf);
        let pending = self.clients.iter().any(HttpConnection::is_pending);
        let wake = if pending { Some(now) } else { deadlines.into_iter().min() };
        let timeout = wake.map(|wake| wake.saturating_duration_since(now)).map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            // rounded up, so that a deadline has passed when it wakes
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let heard = if deaf.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.watched, PollFlags::IN), PollFd::new(&self.listener, heard)];
        fds.extend(self.clients.iter().map(|client| PollFd::new(client.stream(), client.waits_for())));
        poll(&mut fds, timeout.as_ref())?;
        let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (ready, client) in ready[2..].iter_mut().zip(&self.clients) {
            *ready |= client.is_pending();
        }
        Ok(ready)
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.is_full_until().is_some_and(|until| until > now) {
                return;
            }
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // a client that has gone already
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.deaf_until = Some(now + ACCEPT_PAUSE);
                    return;
                }
            };
            // one that cannot be set up is hung up on
            let Ok(client) = HttpConnection::new(stream, now) else { continue };
            if self.clients.len() >= self.limits.clients {
                self.make_room();
            }
            self.clients.push(client);
        }
    }

    /// Who is the most easily spared.
    fn spared(&self) -> Option<(usize, &HttpConnection)> {
        self.clients.iter().enumerate().min_by_key(|(_, client)| client.use_of_place())
    }

    /// Where there is no place left, when one can be made.
    fn is_full_until(&self) -> Option<Instant> {
        let spared = self.spared().filter(|_| self.clients.len() >= self.limits.clients);
        spared.map(|(_, client)| client.since() + SURE_PLACE)
    }

    /// Hangs up on one.
    fn make_room(&mut self) {
        if let Some((index, _)) = self.spared() {
            self.clients.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machine() {
        let server = |address: &str| MetricsServer::start(address, LastTick::default(), ServerLimits::default());
        assert_eq!(server("0").unwrap().address().ip(), Ipv4Addr::LOCALHOST);
        assert!(server("127.0.0.1:0").unwrap().address().ip().is_loopback());
        match server("[::1]:0") {
            Ok(server) => assert!(server.address().is_ipv6()),
            Err(error) => eprintln!("skipped: no IPv6 on this machine: {error}"),
        }
        for wrong in ["", ":0", "70000", "here", "1.2.3.4.5:0", "-1"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_is_made_once_a_tick() {
        let mut page = MetricsPage::default();
        let first = page.text();
        assert!(Arc::ptr_eq(&first, &page.text()));
        page.last.set(&SeriesSnapshot { time_ms: 1000, ..SeriesSnapshot::default() });
        let second = page.text();
        assert!(!Arc::ptr_eq(&first, &second) && !second.is_empty());
    }
}
