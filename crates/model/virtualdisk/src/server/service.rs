//! The server: one thread that serves all clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::Histogram;
use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::Ns;
use diskwright_simulator::system::{System, WorkloadTarget};
use diskwright_simulator::{Simulation, SimulationReport};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, accept_with, sockopt};

use super::ServeError;
use super::client::ServerClient;
use super::clock::VirtualClock;
use super::control::{self, DiskCommand};
use super::engine::{ClientId, DiskEngine};
use super::event_waiter::{EventWaiter, WakeSource};
use super::exports::{self, DiskExport};
use super::flush_thread::FlushThread;
use super::listen::{self, ListenAddress, Listener, ServerLink};
use super::status;
use crate::content::{self, Content, ContentBacking, FlushHandle};
use crate::nbd::wire::TransmissionFlags;
use crate::nbd::{Exports, handshake};

/// Largest number of clients at a time.
const MAX_CLIENTS: usize = 2000;
/// Time within which a client has to choose an export.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the input buffer, bytes.
const SCRATCH_BYTES: usize = 256 << 10;
/// Longest interval between checks whether the server has to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Options for serving a disk.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Address that clients connect to.
    pub address: ListenAddress,
    /// Size of the default export, bytes; its full size if `None`.
    pub default_export_bytes: Option<u64>,
    /// Storage of the content.
    pub backing: ContentBacking,
    /// Speed of virtual time as a multiple of the wall clock.
    pub speed: f64,
    /// Never sleep: one processor is always busy, and replies are not late because the kernel wakes
    /// the server late.
    pub never_sleep: bool,
    /// Time between samples, by the wall clock.
    pub sample_interval: Duration,
    /// The workloads of the description run beside the clients.
    pub workloads: bool,
}

/// Server of a disk.
pub struct DiskServer {
    pub(super) engine: DiskEngine,
    pub(super) clock: VirtualClock,
    pub(super) system: System,
    pub(super) offered_exports: Exports,
    listener: Listener,
    control: Listener,
    _server_link: ServerLink,
    waiter: EventWaiter,
    flush_thread: Option<FlushThread>,
    pub(super) clients: Vec<Option<ServerClient>>,
    last_generation: u32,
    /// Reused buffer for replies on their way to the kernel.
    send_buffer: Vec<u8>,
    /// Reused list of clients with due replies.
    answered: Vec<u32>,
    control_connections: Vec<Option<control::ControlConnection>>,
    /// Lateness of replies: time from the due moment to the kernel's acceptance, by the wall clock,
    /// ns.
    pub(super) reply_lateness: Histogram,
    /// Report of the last interval.
    pub(super) last_report: Option<SimulationReport>,
    sample_interval: Duration,
    /// The listener is not watched at the moment.
    is_accept_paused: bool,
    stop: bool,
}

impl DiskServer {
    /// Creates an idle disk and its sockets. Virtual time begins now.
    ///
    /// # Errors
    /// When the system cannot be simulated, or content or sockets are not available.
    pub fn new(mut system: System, options: &ServeOptions) -> Result<DiskServer, ServeError> {
        let exports = exports::list_exports(&system);
        let targets: Vec<WorkloadTarget> = exports.iter().map(|export| export.target).collect();
        if !options.workloads {
            system.workloads.clear();
        }
        // clients do not wait for a warm-up of the description's workloads
        system.watch.warm_up = 0;
        // check everything before a new file is created for content
        let offered_exports = build_offer(&system, &exports, options.default_export_bytes)?;
        let listener = Listener::bind_address(&options.address)?;
        let control = Listener::bind_address(&ListenAddress::Unix(listen::control_path(&listener.address)?))?;
        let content = Content::new(&system, &options.backing)?;
        // an existing file records which members have failed; that overrides the description
        for (index, array) in system.arrays.iter_mut().enumerate() {
            let (failed, _) = content.member_state(index).unwrap_or_default();
            array.failed = failed.iter().collect();
        }
        let simulation = Simulation::with_external_targets(&system, &targets)?;
        let ListenAddress::Unix(path) = &control.address else { return Err(ServeError::NoDrive) };
        let server_link = ServerLink::create_link(path)?;
        let waiter = EventWaiter::new(options.never_sleep)?;
        waiter.watch_input(&listener.fd, WakeSource::Listener)?;
        waiter.watch_input(&control.fd, WakeSource::Control)?;
        let flush_thread = Some(content.flush_handle())
            .filter(FlushHandle::is_needed)
            .map(|sync| FlushThread::start(move || sync.wait_for_flush()))
            .transpose()?;
        if let Some(flush_thread) = &flush_thread {
            waiter.watch_input(&flush_thread.completions, WakeSource::FlushDone)?;
        }
        raise_open_file_limit();
        let flush_requests = flush_thread.as_ref().map(|flush_thread| flush_thread.requests.clone());
        Ok(DiskServer {
            engine: DiskEngine::new(
                simulation,
                content,
                exports,
                (system.drive_count(), system.watch.seed),
                flush_requests,
            ),
            clock: VirtualClock::new(options.speed),
            system,
            offered_exports,
            listener,
            control,
            _server_link: server_link,
            waiter,
            flush_thread,
            clients: Vec::new(),
            last_generation: 0,
            send_buffer: Vec::new(),
            answered: Vec::new(),
            control_connections: Vec::new(),
            reply_lateness: Histogram::new(),
            last_report: None,
            sample_interval: options.sample_interval,
            is_accept_paused: false,
            stop: false,
        })
    }

    /// Returns the address that clients connect to; port 0 is replaced by the real one.
    pub fn address(&self) -> &ListenAddress {
        &self.listener.address
    }

    /// Returns the exports, the default one first, with their sizes in bytes.
    pub fn exports(&self) -> impl Iterator<Item = (&DiskExport, u64)> {
        self.engine.exports.iter().zip(self.offered_exports.list.iter().map(|offered| offered.bytes))
    }

    /// Returns the address of the control socket.
    pub fn control_address(&self) -> &ListenAddress {
        &self.control.address
    }

    /// Returns the system that is served and simulated.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Serves until `stop` is set, a command stops it or the time `deadline` is reached. `tick` is
    /// called with the report of each interval; an error from it ends the service.
    ///
    /// # Errors
    /// An error of `tick`, or of the backing file's last flush.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        deadline: Option<Instant>,
        tick: &mut dyn FnMut(&SimulationReport) -> Result<(), String>,
    ) -> Result<(), ServeError> {
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut events = Vec::new();
        let mut next_tick = Instant::now() + self.sample_interval;
        while !self.stop && !stop.load(Ordering::Relaxed) {
            self.advance_time();
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break;
            }
            if now >= next_tick {
                self.take_sample(tick)?;
                self.drop_silent_clients();
                // missed samples are not made up for
                next_tick = (next_tick + self.sample_interval).max(now);
            }
            let (until, exactly) = self.time_to_next_event(next_tick - now);
            let ago = self.waiter.wait_for_events(until, exactly, &mut events);
            let arrival_time = self.clock.now().saturating_sub(self.clock.to_virtual_time(ago));
            for (source, flags) in &events {
                self.handle_event(arrival_time, *source, *flags, &mut scratch);
            }
        }
        self.advance_time();
        self.take_sample(tick)?;
        let flush_result = self.engine.content.flush_handle().wait_for_flush();
        flush_result.map_err(|error| ServeError::Kernel { operation: "flushing the backing file", error })
    }

    fn take_sample(&mut self, tick: &mut dyn FnMut(&SimulationReport) -> Result<(), String>) -> Result<(), ServeError> {
        let report = self.engine.simulation.report_interval();
        tick(&report).map_err(ServeError::Samples)?;
        self.last_report = Some(report);
        Ok(())
    }

    /// Returns the time until the next event, and whether it has to be met exactly.
    fn time_to_next_event(&mut self, tick: Duration) -> (Duration, bool) {
        if self.engine.has_due_replies() {
            return (Duration::ZERO, false);
        }
        let max_wait = tick.min(STOP_CHECK_INTERVAL);
        let model_wait =
            self.engine.simulation.next_event_time().map_or(Duration::MAX, |time| self.clock.wall_time_until(time));
        if model_wait < max_wait { (model_wait, self.engine.in_flight() > 0) } else { (max_wait, false) }
    }

    /// Advances virtual time to now and sends the due replies.
    fn advance_time(&mut self) {
        self.engine.advance_time(self.clock.now());
        if !self.engine.has_due_replies() {
            return;
        }
        let mut due_replies = self.engine.take_due_replies();
        let now = self.clock.now();
        let mut answered = std::mem::take(&mut self.answered);
        for due_reply in due_replies.drain(..) {
            let ClientId { slot, generation } = due_reply.client_request.client;
            self.reply_lateness.record(self.clock.to_wall_time(now.saturating_sub(due_reply.due)).as_nanos() as u64);
            let Some(Some(client)) = self.clients.get_mut(slot as usize) else { continue };
            if client.generation() == generation {
                client.queue_reply(due_reply);
                if answered.last() != Some(&slot) {
                    answered.push(slot);
                }
            }
        }
        self.engine.recycle_list(due_replies);
        answered.sort_unstable();
        answered.dedup();
        for slot in answered.drain(..) {
            self.with_client(slot, |client, engine, _, send_buffer, _| client.send_replies(engine, send_buffer));
        }
        self.answered = answered;
    }

    /// Runs an action on a client, then updates the events that it waits for.
    fn with_client(
        &mut self,
        index: u32,
        action: impl FnOnce(&mut ServerClient, &mut DiskEngine, &Exports, &mut Vec<u8>, u64),
    ) {
        let Some(slot) = self.clients.get_mut(index as usize) else { return };
        let Some(client) = slot else { return };
        let now = self.clock.now();
        action(client, &mut self.engine, &self.offered_exports, &mut self.send_buffer, now);
        client.process_unused_input(now, &mut self.engine, &self.offered_exports);
        if client.can_be_removed() {
            *slot = None;
            return;
        }
        let wanted_events = client.wanted_events();
        if wanted_events != client.watched {
            self.waiter.change_events(&client.fd, WakeSource::Client(index), wanted_events);
            client.watched = wanted_events;
        }
    }

    fn handle_event(&mut self, arrival_time: Ns, source: WakeSource, flags: EventFlags, scratch: &mut [u8]) {
        match source {
            WakeSource::Listener => self.accept_clients(),
            WakeSource::Control => self.accept_control_connections(),
            WakeSource::Timer => {}
            WakeSource::FlushDone => {
                let now = self.clock.now();
                for (tag, error) in self.flush_thread.as_mut().map(FlushThread::take_finished).unwrap_or_default() {
                    self.engine.finish_sync(now, tag, error);
                }
            }
            WakeSource::Client(slot) => {
                let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP) && !flags.contains(EventFlags::IN);
                self.with_client(slot, |client, engine, exports, send_buffer, _| match is_broken {
                    true => client.mark_broken(),
                    false => {
                        if flags.contains(EventFlags::IN) {
                            client.receive_input(arrival_time, scratch, engine, exports);
                        }
                        client.send_replies(engine, send_buffer);
                    }
                });
            }
            WakeSource::ControlConnection(slot) => self.serve_control_connection(slot),
        }
    }

    fn accept_clients(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let fd = match accept_with(&self.listener.fd, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => return,
                // the client has gone already
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(_) => return self.pause_accepting(),
            };
            let index = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
            if index >= MAX_CLIENTS {
                // dropped at once: the client sees the end before any greeting
                continue;
            }
            // small replies must not wait for each other
            if sockopt::socket_domain(&fd).is_ok_and(|family| family != AddressFamily::UNIX) {
                let _ = sockopt::set_tcp_nodelay(&fd, true);
                // detects clients whose machine has died
                let _ = sockopt::set_socket_keepalive(&fd, true);
            }
            let source = WakeSource::Client(index as u32);
            if self.waiter.watch_input(&fd, source).is_err() {
                continue;
            }
            self.last_generation = self.last_generation.wrapping_add(1);
            let client = ServerClient::new(fd, ClientId { slot: index as u32, generation: self.last_generation });
            match self.clients.get_mut(index) {
                Some(slot) => *slot = Some(client),
                None => self.clients.push(Some(client)),
            }
            self.with_client(index as u32, |client, engine, _, send_buffer, _| {
                client.send_replies(engine, send_buffer)
            });
        }
    }

    /// Stops accepting clients until the next sample: there is no capacity for another.
    fn pause_accepting(&mut self) {
        self.waiter.change_events(&self.listener.fd, WakeSource::Listener, (false, false));
        self.is_accept_paused = true;
    }

    /// Drops clients that have not chosen an export in time.
    fn drop_silent_clients(&mut self) {
        if std::mem::take(&mut self.is_accept_paused) {
            self.waiter.change_events(&self.listener.fd, WakeSource::Listener, (true, false));
        }
        let is_silent =
            |client: &ServerClient| client.is_greeting() && client.connected_at.elapsed() > NEGOTIATION_TIMEOUT;
        for slot in &mut self.clients {
            if slot.as_ref().is_some_and(is_silent) {
                *slot = None;
            }
        }
    }

    fn accept_control_connections(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(fd) = accept_with(&self.control.fd, flags) {
            let index =
                self.control_connections.iter().position(Option::is_none).unwrap_or(self.control_connections.len());
            if index >= control::MAX_CONTROL_CONNECTIONS
                || self.waiter.watch_input(&fd, WakeSource::ControlConnection(index as u32)).is_err()
            {
                continue;
            }
            match self.control_connections.get_mut(index) {
                Some(slot) => *slot = Some(control::ControlConnection::new(fd)),
                None => self.control_connections.push(Some(control::ControlConnection::new(fd))),
            }
        }
    }

    fn serve_control_connection(&mut self, slot: u32) {
        let Some(Some(mut connection)) = self.control_connections.get_mut(slot as usize).map(Option::take) else {
            return;
        };
        let watched_events = connection.wanted_events();
        let is_open = connection.serve_commands(|line| match control::parse_command(line) {
            Ok(command) => self.execute_command(&command),
            Err(reason) => Err(reason),
        });
        if is_open {
            if connection.wanted_events() != watched_events {
                self.waiter.change_events(
                    &connection.fd,
                    WakeSource::ControlConnection(slot),
                    connection.wanted_events(),
                );
            }
            self.control_connections[slot as usize] = Some(connection);
        }
    }

    /// Executes a command; returns the response.
    fn execute_command(&mut self, command: &DiskCommand) -> Result<serde_json::Value, String> {
        match command {
            DiskCommand::Status => Ok(status::status_document(self)),
            DiskCommand::Stop => {
                self.stop = true;
                Ok(serde_json::json!({}))
            }
            _ => {
                let now = self.clock.now();
                self.engine.execute_command(now, &self.system, command).map(|()| status::status_document(self))
            }
        }
    }
}

/// Describes all exports to clients, the default one first; that one ends after `bytes`.
fn build_offer(system: &System, exports: &[DiskExport], bytes: Option<u64>) -> Result<Exports, ServeError> {
    let mut offer = Exports { list: Vec::new(), default: Some(0) };
    for (index, export) in exports.iter().enumerate() {
        let available = content::target_bytes(system, export.target)?;
        let requested_bytes = bytes.filter(|_| index == 0).unwrap_or(available);
        if requested_bytes > available || requested_bytes == 0 {
            return Err(ServeError::Size { export: export.name.clone(), available, requested: requested_bytes });
        }
        offer.list.push(offered_export(system, export, requested_bytes));
    }
    if offer.list.is_empty() { Err(ServeError::NoDrive) } else { Ok(offer) }
}

/// Describes an export to clients.
fn offered_export(system: &System, export: &DiskExport, bytes: u64) -> handshake::NbdExport {
    let mut offered = handshake::NbdExport::new(&export.name, bytes);
    offered.description = format!("{}: {}", system.name, export.kind);
    // a disk writes whole sectors; an export that ends within a sector cannot promise that
    let sector_bytes = BLOCK_BYTES.min(1 << bytes.trailing_zeros().min(63));
    (offered.min_block_bytes, offered.allows_unaligned) = (sector_bytes as u32, true);
    if !export.supports_trim {
        // with TRIM offered, a client would have the zeros written, at the speed of writes
        offered.flags = offered.flags.without(TransmissionFlags::TRIM);
    }
    if export.rotational {
        offered.flags = offered.flags.with(TransmissionFlags::ROTATIONAL);
    }
    offered
}

/// Raises the limit of open files: each client is one.
fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // if this fails, the usual limit serves fewer clients
    let _ = setrlimit(Resource::Nofile, limit);
}
