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
    syncs: Option<FlushThread>,
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
        let offer = build_offer(&system, &exports, options.default_export_bytes)?;
        let listener = Listener::bind_address(&options.address)?;
        let control = Listener::bind_address(&ListenAddress::Unix(listen::control_path(&listener.address)?))?;
        let content = Content::new(&system, &options.backing)?;
        // an existing file records which members have failed; that overrides the description
        for (index, set) in system.arrays.iter_mut().enumerate() {
            let (failed, _) = content.member_state(index).unwrap_or_default();
            set.failed = failed.iter().collect();
        }
        let simulation = Simulation::with_external_targets(&system, &targets)?;
        let ListenAddress::Unix(path) = &control.address else { return Err(ServeError::Nothing) };
        let notice = ServerLink::create_link(path)?;
        let wake = EventWaiter::new(options.never_sleep)?;
        wake.watch_input(&listener.fd, WakeSource::Listener)?;
        wake.watch_input(&control.fd, WakeSource::Control)?;
        let syncs = Some(content.flush_handle())
            .filter(FlushHandle::is_needed)
            .map(|sync| FlushThread::start(move || sync.wait_for_flush()))
            .transpose()?;
        if let Some(syncs) = &syncs {
            wake.watch_input(&syncs.completions, WakeSource::FlushDone)?;
        }
        raise_open_file_limit();
        let ask = syncs.as_ref().map(|syncs| syncs.requests.clone());
        Ok(DiskServer {
            engine: DiskEngine::new(simulation, content, exports, (system.drive_count(), system.watch.seed), ask),
            clock: VirtualClock::new(options.speed),
            system,
            offered_exports: offer,
            listener,
            control,
            _server_link: notice,
            waiter: wake,
            syncs,
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

    /// Serves until `stop` is set, a command stops it or the time `ends` is reached. `tick` is
    /// called with each interval; an error from it ends the service.
    ///
    /// # Errors
    /// An error of `tick`, or of the backing file's last flush.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        ends: Option<Instant>,
        tick: &mut dyn FnMut(&SimulationReport) -> Result<(), String>,
    ) -> Result<(), ServeError> {
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut found = Vec::new();
        let mut next_tick = Instant::now() + self.sample_interval;
        while !self.stop && !stop.load(Ordering::Relaxed) {
            self.advance_time();
            let now = Instant::now();
            if ends.is_some_and(|ends| now >= ends) {
                break;
            }
            if now >= next_tick {
                self.take_sample(tick)?;
                self.drop_silent_clients();
                // missed samples are not made up for
                next_tick = (next_tick + self.sample_interval).max(now);
            }
            let (until, exactly) = self.time_to_next_event(next_tick - now);
            let ago = self.waiter.wait_for_events(until, exactly, &mut found);
            let came = self.clock.now().saturating_sub(self.clock.to_virtual_time(ago));
            for (source, flags) in &found {
                self.handle_event(came, *source, *flags, &mut scratch);
            }
        }
        self.advance_time();
        self.take_sample(tick)?;
        let last = self.engine.content.flush_handle().wait_for_flush();
        last.map_err(|error| ServeError::Kernel { operation: "flushing the backing file", error })
    }

    fn take_sample(&mut self, tick: &mut dyn FnMut(&SimulationReport) -> Result<(), String>) -> Result<(), ServeError> {
        let report = self.engine.simulation.report_interval();
        tick(&report).map_err(ServeError::Samples)?;
        self.last_report = Some(report);
        Ok(())
    }

    /// Returns the time until the next event, and whether it has to be met exactly.
    fn time_to_next_event(&mut self, tick: Duration) -> (Duration, bool) {
        if self.engine.has_done() {
            return (Duration::ZERO, false);
        }
        let look = tick.min(STOP_CHECK_INTERVAL);
        let next =
            self.engine.simulation.next_event_time().map_or(Duration::MAX, |time| self.clock.wall_time_until(time));
        if next < look { (next, self.engine.in_flight() > 0) } else { (look, false) }
    }

    /// Advances virtual time to now and sends the due replies.
    fn advance_time(&mut self) {
        self.engine.advance_time(self.clock.now());
        if !self.engine.has_done() {
            return;
        }
        let mut done = self.engine.take_done();
        let now = self.clock.now();
        let mut answered = std::mem::take(&mut self.answered);
        for one in done.drain(..) {
            let ClientId { slot: place, generation: turn } = one.client_request.client;
            self.reply_lateness.record(self.clock.to_wall_time(now.saturating_sub(one.due)).as_nanos() as u64);
            let Some(Some(client)) = self.clients.get_mut(place as usize) else { continue };
            if client.generation() == turn {
                client.queue_reply(one);
                if answered.last() != Some(&place) {
                    answered.push(place);
                }
            }
        }
        self.engine.recycle_list(done);
        answered.sort_unstable();
        answered.dedup();
        for place in answered.drain(..) {
            self.with_client(place, |client, engine, _, room, _| client.send_replies(engine, room));
        }
        self.answered = answered;
    }

    /// Runs an action on a client, then updates the events that it waits for.
    fn with_client(
        &mut self,
        place: u32,
        action: impl FnOnce(&mut ServerClient, &mut DiskEngine, &Exports, &mut Vec<u8>, u64),
    ) {
        let Some(slot) = self.clients.get_mut(place as usize) else { return };
        let Some(client) = slot else { return };
        let now = self.clock.now();
        action(client, &mut self.engine, &self.offered_exports, &mut self.send_buffer, now);
        client.process_unused_input(now, &mut self.engine, &self.offered_exports);
        if client.can_be_removed() {
            *slot = None;
            return;
        }
        let wants = client.wanted_events();
        if wants != client.watched {
            self.waiter.change_events(&client.fd, WakeSource::Client(place), wants);
            client.watched = wants;
        }
    }

    fn handle_event(&mut self, came: Ns, source: WakeSource, flags: EventFlags, scratch: &mut [u8]) {
        match source {
            WakeSource::Listener => self.accept_clients(),
            WakeSource::Control => self.accept_control_connections(),
            WakeSource::Timer => {}
            WakeSource::FlushDone => {
                let now = self.clock.now();
                for (tag, error) in self.syncs.as_mut().map(FlushThread::take_finished).unwrap_or_default() {
                    self.engine.finish_sync(now, tag, error);
                }
            }
            WakeSource::Client(place) => {
                let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP) && !flags.contains(EventFlags::IN);
                self.with_client(place, |client, engine, offer, room, _| match broken {
                    true => client.mark_broken(),
                    false => {
                        if flags.contains(EventFlags::IN) {
                            client.receive_input(came, scratch, engine, offer);
                        }
                        client.send_replies(engine, room);
                    }
                });
            }
            WakeSource::ControlConnection(place) => self.serve_control_connection(place),
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
            let place = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
            if place >= MAX_CLIENTS {
                // dropped at once: the client sees the end before any greeting
                continue;
            }
            // small replies must not wait for each other
            if sockopt::socket_domain(&fd).is_ok_and(|family| family != AddressFamily::UNIX) {
                let _ = sockopt::set_tcp_nodelay(&fd, true);
                // detects clients whose machine has died
                let _ = sockopt::set_socket_keepalive(&fd, true);
            }
            let source = WakeSource::Client(place as u32);
            if self.waiter.watch_input(&fd, source).is_err() {
                continue;
            }
            self.last_generation = self.last_generation.wrapping_add(1);
            let client = ServerClient::new(fd, ClientId { slot: place as u32, generation: self.last_generation });
            match self.clients.get_mut(place) {
                Some(slot) => *slot = Some(client),
                None => self.clients.push(Some(client)),
            }
            self.with_client(place as u32, |client, engine, _, room, _| client.send_replies(engine, room));
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
        let silent =
            |client: &ServerClient| client.is_greeting() && client.connected_at.elapsed() > NEGOTIATION_TIMEOUT;
        for slot in &mut self.clients {
            if slot.as_ref().is_some_and(silent) {
                *slot = None;
            }
        }
    }

    fn accept_control_connections(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(fd) = accept_with(&self.control.fd, flags) {
            let place =
                self.control_connections.iter().position(Option::is_none).unwrap_or(self.control_connections.len());
            if place >= control::MAX_CONTROL_CONNECTIONS
                || self.waiter.watch_input(&fd, WakeSource::ControlConnection(place as u32)).is_err()
            {
                continue;
            }
            match self.control_connections.get_mut(place) {
                Some(slot) => *slot = Some(control::ControlConnection::new(fd)),
                None => self.control_connections.push(Some(control::ControlConnection::new(fd))),
            }
        }
    }

    fn serve_control_connection(&mut self, place: u32) {
        let Some(Some(mut giver)) = self.control_connections.get_mut(place as usize).map(Option::take) else { return };
        let before = giver.wanted_events();
        let alive = giver.serve_commands(|line| match control::parse_command(line) {
            Ok(order) => self.execute_command(&order),
            Err(because) => Err(because),
        });
        if alive {
            if giver.wanted_events() != before {
                self.waiter.change_events(&giver.fd, WakeSource::ControlConnection(place), giver.wanted_events());
            }
            self.control_connections[place as usize] = Some(giver);
        }
    }

    /// Executes a command; returns the response.
    fn execute_command(&mut self, order: &DiskCommand) -> Result<serde_json::Value, String> {
        match order {
            DiskCommand::Status => Ok(status::status_document(self)),
            DiskCommand::Stop => {
                self.stop = true;
                Ok(serde_json::json!({}))
            }
            _ => {
                let now = self.clock.now();
                self.engine.execute_command(now, &self.system, order).map(|()| status::status_document(self))
            }
        }
    }
}

/// Describes all exports to clients, the default one first; that one ends after `bytes`.
fn build_offer(system: &System, exports: &[DiskExport], bytes: Option<u64>) -> Result<Exports, ServeError> {
    let mut offer = Exports { list: Vec::new(), default: Some(0) };
    for (index, export) in exports.iter().enumerate() {
        let holds = content::target_bytes(system, export.target)?;
        let requested_bytes = bytes.filter(|_| index == 0).unwrap_or(holds);
        if requested_bytes > holds || requested_bytes == 0 {
            return Err(ServeError::Size { export: export.name.clone(), holds, requested: requested_bytes });
        }
        offer.list.push(offered_export(system, export, requested_bytes));
    }
    if offer.list.is_empty() { Err(ServeError::Nothing) } else { Ok(offer) }
}

/// Describes an export to clients.
fn offered_export(system: &System, export: &DiskExport, bytes: u64) -> handshake::NbdExport {
    let mut offered = handshake::NbdExport::new(&export.name, bytes);
    offered.description = format!("{}: {}", system.name, export.kind);
    // a disk writes whole sectors; an export that ends within a sector cannot promise that
    let sector = BLOCK_BYTES.min(1 << bytes.trailing_zeros().min(63));
    (offered.min_block_bytes, offered.allows_unaligned) = (sector as u32, true);
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
