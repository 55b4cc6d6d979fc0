//! The loop over all clients.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::NICENESS;
use crate::connection::{HttpConnection, TurnOutcome};
use crate::response::{HttpResponse, HttpService};
use crate::streams::StreamHub;
use crate::workers::WorkerPool;

/// Largest number of clients that are accepted before the others are served again.
const MAX_ACCEPTS_PER_TURN: usize = 64;
/// Shortest time for which a client keeps its place, however many others wait.
const MIN_HOLD_TIME: Duration = Duration::from_millis(300);
/// Pause in accepting after the system refused a client (no more open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Largest number of connections at a time.
    pub max_clients: usize,
    /// Longest time to send a request.
    pub request_timeout: Duration,
    /// Longest time to read the response.
    pub response_timeout: Duration,
    /// Longest time between two requests.
    pub idle_timeout: Duration,
    /// Longest time for a worker to produce a response.
    pub work_timeout: Duration,
    /// Number of worker threads for slow responses.
    pub worker_threads: usize,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        let [request, answer, idle] = [5, 10, 120].map(Duration::from_secs);
        ServerLimits {
            max_clients: 128,
            request_timeout: request,
            response_timeout: answer,
            idle_timeout: idle,
            work_timeout: idle,
            worker_threads: 0,
        }
    }
}

/// A running server. It ends when dropped.
pub struct HttpServer {
    address: SocketAddr,
    /// Closing this ends the thread.
    alive: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens at `address`: a port alone means the loopback address (127.0.0.1). Events that are published to the hub
    /// go to the readers of their channel.
    ///
    /// # Errors
    /// When it is not a valid address, or listening fails.
    pub fn start(
        name: &str,
        address: &str,
        service: Box<dyn HttpService>,
        limits: ServerLimits,
        hub: StreamHub,
    ) -> io::Result<HttpServer> {
        let listener = bind_listener(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (alive, watched) = UnixStream::pair()?;
        let (woken, pool) = (hub.connect_waker()?, WorkerPool::start(limits.worker_threads, &hub)?);
        // without a descriptor for a client, nobody would ever be answered
        drop(listener.try_clone()?);
        let clients = Vec::new();
        let mut server_loop = ServerLoop {
            listener,
            shutdown_signal: watched,
            hub_signal: woken,
            hub,
            pool,
            service,
            limits,
            clients,
            last_id: 0,
            accept_paused_until: None,
        };
        let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(move || {
            // for this thread alone; a refusal is ignored
            let _ = setpriority_process(Some(gettid()), NICENESS);
            while server_loop.run_once() {}
        })?;
        Ok(HttpServer { address, alive: Some(alive), thread: Some(thread) })
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks that a text is a port, or an address and a port. Only listening shows whether the host exists.
///
/// # Errors
/// With the expected form.
pub fn check_address(address: &str) -> io::Result<()> {
    let invalid = |message: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, message.to_owned()));
    if address.parse::<u16>().is_ok() {
        return Ok(());
    }
    match address.rsplit_once(':') {
        Some(("", _)) => {
            invalid("use PORT alone to serve this machine, or 0.0.0.0:PORT ([::]:PORT) to serve every network")
        }
        Some((host, port)) if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) => Ok(()),
        _ => invalid("expected PORT or ADDRESS:PORT"),
    }
}

fn bind_listener(address: &str) -> io::Result<TcpListener> {
    check_address(address)?;
    match address.parse::<u16>() {
        Ok(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        Err(_) => TcpListener::bind(address),
    }
}

/// Stack of the thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 512 << 10;
/// State of the server's thread.
struct ServerLoop {
    listener: TcpListener,
    shutdown_signal: UnixStream,
    /// Readable when something is in the hub.
    hub_signal: UnixStream,
    hub: StreamHub,
    pool: WorkerPool,
    service: Box<dyn HttpService>,
    limits: ServerLimits,
    /// Connections with their ids.
    clients: Vec<(u64, HttpConnection)>,
    /// Id of the newest connection.
    last_id: u64,
    accept_paused_until: Option<Instant>,
}

/// What is ready to be handled.
struct Readiness {
    /// The server was dropped.
    is_over: bool,
    has_new_client: bool,
    /// For each connection, in order: whether it is ready.
    clients: Vec<bool>,
}

impl ServerLoop {
    /// Waits until something is ready and handles it; returns false at the end.
    fn run_once(&mut self) -> bool {
        let ready = match self.wait_until_ready() {
            Ok(ready) => ready,
            // a signal, or a temporary lack of memory
            Err(_) => return true,
        };
        if ready.is_over {
            return false;
        }
        let now = Instant::now();
        self.serve_ready_clients(&ready.clients, now);
        self.deliver_events(now);
        if ready.has_new_client {
            self.accept_clients(now);
        }
        true
    }

    fn serve_ready_clients(&mut self, ready: &[bool], now: Instant) {
        assert_eq!(ready.len(), self.clients.len(), "clients come and go only after those that waited are served");
        let mut ready = ready.iter();
        let (service, limits, pool) = (self.service.as_mut(), &self.limits, &self.pool);
        self.clients.retain_mut(|(id, client)| {
            let is_ready = ready.next().is_some_and(|ready| *ready);
            let outcome = if is_ready { client.make_progress(now, service) } else { TurnOutcome::KeepOpen };
            let stays = match outcome {
                TurnOutcome::KeepOpen => true,
                TurnOutcome::Closed => false,
                TurnOutcome::NeedsWork(work) => {
                    let busy =
                        || HttpResponse::plain_text("503 Service Unavailable\r\nRetry-After: 1", "too many requests\n");
                    pool.submit_job(*id, work) || client.accept_response(&busy(), now)
                }
            };
            stays && (client.ping_if_idle(now) || client.deadline(limits) > now)
        });
    }

    /// Hands events and responses that other threads put into the hub to their clients.
    fn deliver_events(&mut self, now: Instant) {
        let mut buffer = [0; 256];
        while self.hub_signal.read(&mut buffer).is_ok_and(|read| read == buffer.len()) {}
        let mut viewers = HashMap::new();
        for channel in self.clients.iter().filter_map(|(_, client)| client.channel()) {
            *viewers.entry(channel).or_insert(0) += 1;
        }
        let deliveries = self.hub.take_deliveries(viewers);
        self.clients.retain_mut(|(id, client)| {
            if let Some(event) = client.channel().and_then(|channel| deliveries.events.get(&channel)) {
                return client.queue_event(Arc::clone(event), now);
            }
            let mut answers = deliveries.answers.iter().filter(|(recipient, _)| recipient == id);
            answers.all(|(_, answer)| client.accept_response(answer, now))
        });
    }

    /// Waits until a client is ready, a new one or an event arrives, a deadline passes, or the server ends.
    fn wait_until_ready(&self) -> io::Result<Readiness> {
        let now = Instant::now();
        let not_accepting_until = self.accept_paused_until.max(self.full_until()).filter(|until| *until > now);
        let mut deadlines: Vec<Instant> =
            self.clients.iter().map(|(_, client)| client.deadline(&self.limits)).collect();
        deadlines.extend(not_accepting_until);
        let pending = self.clients.iter().any(|(_, client)| client.has_pending_request());
        let wake = if pending { Some(now) } else { deadlines.into_iter().min() };
        let timeout = wake.map(|wake| wake.saturating_duration_since(now)).map(|remaining| Timespec {
            tv_sec: remaining.as_secs().cast_signed(),
            // exact: the kernel does not wake early, so the deadline has passed then
            tv_nsec: i64::from(remaining.subsec_nanos()),
        });
        let listener_events = if not_accepting_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.shutdown_signal, PollFlags::IN),
            PollFd::new(&self.hub_signal, PollFlags::IN),
            PollFd::new(&self.listener, listener_events),
        ];
        fds.extend(self.clients.iter().map(|(_, client)| PollFd::new(client.stream(), client.poll_events())));
        poll(&mut fds, timeout.as_ref())?;
        // the hub only wakes this thread: its items are looked for in every turn
        let [shutdown, _hub, listener, clients @ ..] = fds.as_slice() else { unreachable!("three sockets of our own") };
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let pairs = clients.iter().zip(&self.clients);
        Ok(Readiness {
            is_over: is_ready(shutdown),
            has_new_client: is_ready(listener),
            clients: pairs.map(|(fd, (_, client))| is_ready(fd) || client.has_pending_request()).collect(),
        })
    }

    fn accept_clients(&mut self, now: Instant) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            if self.full_until().is_some_and(|until| until > now) {
                return;
            }
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // a client that has gone already
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.accept_paused_until = Some(now + ACCEPT_PAUSE);
                    return;
                }
            };
            // a connection that cannot be set up is closed
            let Ok(client) = HttpConnection::new(stream, now) else { continue };
            if self.clients.len() >= self.limits.max_clients {
                self.evict_client();
            }
            self.last_id += 1;
            self.clients.push((self.last_id, client));
        }
    }

    /// Index of the client to evict first.
    fn eviction_candidate(&self) -> Option<usize> {
        let key = |(_, (_, client)): &(usize, &(u64, HttpConnection))| client.eviction_key();
        self.clients.iter().enumerate().min_by_key(key).map(|(index, _)| index)
    }

    /// Time at which a place can be freed; `None` while there are free places.
    fn full_until(&self) -> Option<Instant> {
        let candidate = self.eviction_candidate().filter(|_| self.clients.len() >= self.limits.max_clients);
        candidate.map(|index| self.clients[index].1.phase_start() + MIN_HOLD_TIME)
    }

    /// Closes one connection to free its place.
    fn evict_client(&mut self) {
        if let Some(index) = self.eviction_candidate() {
            self.clients.swap_remove(index);
        }
    }
}
