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
use super::engine::{ClientId, DiskEngine};
use super::exports::{self, DiskExport};
use super::listen::{self, ListenAddress, Listener, Notice};
use super::orders::{self, DiskCommand};
use super::status;
use super::sync::Syncs;
use super::wake::{EventWaiter, WakeSource};
use crate::content::{self, Content, ContentBacking, Sync};
use crate::nbd::wire::TransmissionFlags;
use crate::nbd::{Exports, handshake};

/// Largest number of clients at a time.
const MOST_CLIENTS: usize = 2000;
/// Time within which a client has to choose an export.
const GREETING: Duration = Duration::from_secs(10);
/// Size of the input buffer, bytes.
const SCRATCH: usize = 256 << 10;
/// Longest interval between checks whether the server has to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Options for serving a disk.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Address that clients connect to.
    pub place: ListenAddress,
    /// Size of the default export, bytes; its full size if `None`.
    pub bytes: Option<u64>,
    /// Storage of the content.
    pub backing: ContentBacking,
    /// Speed of virtual time as a multiple of the wall clock.
    pub speed: f64,
    /// Never sleep: one processor is always busy, and replies are not late because the kernel wakes
    /// the server late.
    pub awake: bool,
    /// Time between samples, by the wall clock.
    pub every: Duration,
    /// The workloads of the description run beside the clients.
    pub workloads: bool,
}

/// Server of a disk.
pub struct DiskServer {
    pub(super) engine: DiskEngine,
    pub(super) clock: VirtualClock,
    pub(super) system: System,
    pub(super) offer: Exports,
    listener: Listener,
    control: Listener,
    _notice: Notice,
    wake: EventWaiter,
    syncs: Option<Syncs>,
    pub(super) clients: Vec<Option<ServerClient>>,
    turns: u32,
    /// Reused buffer for replies on their way to the kernel.
    room: Vec<u8>,
    /// Reused list of clients with due replies.
    answered: Vec<u32>,
    givers: Vec<Option<orders::ControlConnection>>,
    /// Lateness of replies: time from the due moment to the kernel's acceptance, by the wall clock,
    /// ns.
    pub(super) late: Histogram,
    /// Report of the last interval.
    pub(super) last: Option<SimulationReport>,
    every: Duration,
    /// The listener is not watched at the moment.
    rests: bool,
    stop: bool,
}

impl DiskServer {
    /// Creates an idle disk and its sockets. Virtual time begins now.
    ///
    /// # Errors
    /// When the system cannot be simulated, or content or sockets are not available.
    pub fn new(mut system: System, options: &ServeOptions) -> Result<DiskServer, ServeError> {
        let exports = exports::exports(&system);
        let targets: Vec<WorkloadTarget> = exports.iter().map(|export| export.target).collect();
        if !options.workloads {
            system.workloads.clear();
        }
        // clients do not wait for a warm-up of the description's workloads
        system.watch.warm_up = 0;
        // check everything before a new file is created for content
        let offer = offer(&system, &exports, options.bytes)?;
        let listener = Listener::bind(&options.place)?;
        let control = Listener::bind(&ListenAddress::Unix(listen::control_of(&listener.place)?))?;
        let content = Content::new(&system, &options.backing)?;
        // an existing file records which members have failed; that overrides the description
        for (index, set) in system.arrays.iter_mut().enumerate() {
            let (failed, _) = content.state(index).unwrap_or_default();
            set.failed = failed.iter().collect();
        }
        let simulation = Simulation::with_external_targets(&system, &targets)?;
        let ListenAddress::Unix(path) = &control.place else { return Err(ServeError::Nothing) };
        let notice = Notice::put(path)?;
        let wake = EventWaiter::new(options.awake)?;
        wake.watch(&listener.fd, WakeSource::Listener)?;
        wake.watch(&control.fd, WakeSource::Control)?;
        let syncs =
            Some(content.sync()).filter(Sync::is_needed).map(|sync| Syncs::start(move || sync.wait())).transpose()?;
        if let Some(syncs) = &syncs {
            wake.watch(&syncs.done, WakeSource::Synced)?;
        }
        raise_limit_of_files();
        let ask = syncs.as_ref().map(|syncs| syncs.ask.clone());
        Ok(DiskServer {
            engine: DiskEngine::new(simulation, content, exports, (system.drive_count(), system.watch.seed), ask),
            clock: VirtualClock::new(options.speed),
            system,
            offer,
            listener,
            control,
            _notice: notice,
            wake,
            syncs,
            clients: Vec::new(),
            turns: 0,
            room: Vec::new(),
            answered: Vec::new(),
            givers: Vec::new(),
            late: Histogram::new(),
            last: None,
            every: options.every,
            rests: false,
            stop: false,
        })
    }

    /// Returns the address that clients connect to; port 0 is replaced by the real one.
    pub fn place(&self) -> &ListenAddress {
        &self.listener.place
    }

    /// Returns the exports, the default one first, with their sizes in bytes.
    pub fn exports(&self) -> impl Iterator<Item = (&DiskExport, u64)> {
        self.engine.exports.iter().zip(self.offer.list.iter().map(|offered| offered.bytes))
    }

    /// Returns the address of the control socket.
    pub fn control(&self) -> &ListenAddress {
        &self.control.place
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
        let mut scratch = vec![0; SCRATCH];
        let mut found = Vec::new();
        let mut next_tick = Instant::now() + self.every;
        while !self.stop && !stop.load(Ordering::Relaxed) {
            self.pass();
            let now = Instant::now();
            if ends.is_some_and(|ends| now >= ends) {
                break;
            }
            if now >= next_tick {
                self.sample(tick)?;
                self.forget_the_silent();
                // missed samples are not made up for
                next_tick = (next_tick + self.every).max(now);
            }
            let (until, exactly) = self.until(next_tick - now);
            let ago = self.wake.wait(until, exactly, &mut found);
            let came = self.clock.now().saturating_sub(self.clock.virtual_of(ago));
            for (source, flags) in &found {
                self.serve(came, *source, *flags, &mut scratch);
            }
        }
        self.pass();
        self.sample(tick)?;
        let last = self.engine.content.sync().wait();
        last.map_err(|error| ServeError::Kernel { what: "flushing the backing file", error })
    }

    fn sample(&mut self, tick: &mut dyn FnMut(&SimulationReport) -> Result<(), String>) -> Result<(), ServeError> {
        let report = self.engine.simulation.report_interval();
        tick(&report).map_err(ServeError::Samples)?;
        self.last = Some(report);
        Ok(())
    }

    /// Returns the time until the next event, and whether it has to be met exactly.
    fn until(&mut self, tick: Duration) -> (Duration, bool) {
        if self.engine.has_done() {
            return (Duration::ZERO, false);
        }
        let look = tick.min(LOOK);
        let next = self.engine.simulation.next_event_time().map_or(Duration::MAX, |time| self.clock.until(time));
        if next < look { (next, self.engine.under_way() > 0) } else { (look, false) }
    }

    /// Advances virtual time to now and sends the due replies.
    fn pass(&mut self) {
        self.engine.pass(self.clock.now());
        if !self.engine.has_done() {
            return;
        }
        let mut done = self.engine.take_done();
        let now = self.clock.now();
        let mut answered = std::mem::take(&mut self.answered);
        for one in done.drain(..) {
            let ClientId { place, turn } = one.wish.client;
            self.late.record(self.clock.wall_of(now.saturating_sub(one.due)).as_nanos() as u64);
            let Some(Some(client)) = self.clients.get_mut(place as usize) else { continue };
            if client.turn() == turn {
                client.done(one);
                if answered.last() != Some(&place) {
                    answered.push(place);
                }
            }
        }
        self.engine.give_back(done);
        answered.sort_unstable();
        answered.dedup();
        for place in answered.drain(..) {
            self.attend(place, |client, engine, _, room, _| client.answer(engine, room));
        }
        self.answered = answered;
    }

    /// Runs an action on a client, then updates the events that it waits for.
    fn attend(
        &mut self,
        place: u32,
        what: impl FnOnce(&mut ServerClient, &mut DiskEngine, &Exports, &mut Vec<u8>, u64),
    ) {
        let Some(slot) = self.clients.get_mut(place as usize) else { return };
        let Some(client) = slot else { return };
        let now = self.clock.now();
        what(client, &mut self.engine, &self.offer, &mut self.room, now);
        client.go_on(now, &mut self.engine, &self.offer);
        if client.is_over() {
            *slot = None;
            return;
        }
        let wants = client.wants();
        if wants != client.watched {
            self.wake.change(&client.fd, WakeSource::Client(place), wants);
            client.watched = wants;
        }
    }

    fn serve(&mut self, came: Ns, source: WakeSource, flags: EventFlags, scratch: &mut [u8]) {
        match source {
            WakeSource::Listener => self.welcome(),
            WakeSource::Control => self.welcome_giver(),
            WakeSource::Timer => {}
            WakeSource::Synced => {
                let now = self.clock.now();
                for (tag, error) in self.syncs.as_mut().map(Syncs::take).unwrap_or_default() {
                    self.engine.synced(now, tag, error);
                }
            }
            WakeSource::Client(place) => {
                let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP) && !flags.contains(EventFlags::IN);
                self.attend(place, |client, engine, offer, room, _| match broken {
                    true => client.drop_it(),
                    false => {
                        if flags.contains(EventFlags::IN) {
                            client.receive(came, scratch, engine, offer);
                        }
                        client.answer(engine, room);
                    }
                });
            }
            WakeSource::Orders(place) => self.take_orders(place),
        }
    }

    fn welcome(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let fd = match accept_with(&self.listener.fd, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => return,
                // the client has gone already
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(_) => return self.rest(),
            };
            let place = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
            if place >= MOST_CLIENTS {
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
            if self.wake.watch(&fd, source).is_err() {
                continue;
            }
            self.turns = self.turns.wrapping_add(1);
            let client = ServerClient::new(fd, ClientId { place: place as u32, turn: self.turns });
            match self.clients.get_mut(place) {
                Some(slot) => *slot = Some(client),
                None => self.clients.push(Some(client)),
            }
            self.attend(place as u32, |client, engine, _, room, _| client.answer(engine, room));
        }
    }

    /// Stops accepting clients until the next sample: there is no capacity for another.
    fn rest(&mut self) {
        self.wake.change(&self.listener.fd, WakeSource::Listener, (false, false));
        self.rests = true;
    }

    /// Drops clients that have not chosen an export in time.
    fn forget_the_silent(&mut self) {
        if std::mem::take(&mut self.rests) {
            self.wake.change(&self.listener.fd, WakeSource::Listener, (true, false));
        }
        let silent = |client: &ServerClient| client.is_greeting() && client.since.elapsed() > GREETING;
        for slot in &mut self.clients {
            if slot.as_ref().is_some_and(silent) {
                *slot = None;
            }
        }
    }

    fn welcome_giver(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(fd) = accept_with(&self.control.fd, flags) {
            let place = self.givers.iter().position(Option::is_none).unwrap_or(self.givers.len());
            if place >= orders::MOST_GIVERS || self.wake.watch(&fd, WakeSource::Orders(place as u32)).is_err() {
                continue;
            }
            match self.givers.get_mut(place) {
                Some(slot) => *slot = Some(orders::ControlConnection::new(fd)),
                None => self.givers.push(Some(orders::ControlConnection::new(fd))),
            }
        }
    }

    fn take_orders(&mut self, place: u32) {
        let Some(Some(mut giver)) = self.givers.get_mut(place as usize).map(Option::take) else { return };
        let before = giver.wants();
        let alive = giver.attend(|line| match orders::parse(line) {
            Ok(order) => self.obey(&order),
            Err(because) => Err(because),
        });
        if alive {
            if giver.wants() != before {
                self.wake.change(&giver.fd, WakeSource::Orders(place), giver.wants());
            }
            self.givers[place as usize] = Some(giver);
        }
    }

    /// Executes a command; returns the response.
    fn obey(&mut self, order: &DiskCommand) -> Result<serde_json::Value, String> {
        match order {
            DiskCommand::Status => Ok(status::of(self)),
            DiskCommand::Stop => {
                self.stop = true;
                Ok(serde_json::json!({}))
            }
            _ => {
                let now = self.clock.now();
                self.engine.obey(now, &self.system, order).map(|()| status::of(self))
            }
        }
    }
}

/// Describes all exports to clients, the default one first; that one ends after `bytes`.
fn offer(system: &System, exports: &[DiskExport], bytes: Option<u64>) -> Result<Exports, ServeError> {
    let mut offer = Exports { list: Vec::new(), default: Some(0) };
    for (index, export) in exports.iter().enumerate() {
        let holds = content::bytes(system, export.target)?;
        let requested_bytes = bytes.filter(|_| index == 0).unwrap_or(holds);
        if requested_bytes > holds || requested_bytes == 0 {
            return Err(ServeError::Size { export: export.name.clone(), holds, asked: requested_bytes });
        }
        offer.list.push(offered(system, export, requested_bytes));
    }
    if offer.list.is_empty() { Err(ServeError::Nothing) } else { Ok(offer) }
}

/// Describes an export to clients.
fn offered(system: &System, export: &DiskExport, bytes: u64) -> handshake::NbdExport {
    let mut offered = handshake::NbdExport::new(&export.name, bytes);
    offered.description = format!("{}: {}", system.name, export.kind);
    // a disk writes whole sectors; an export that ends within a sector cannot promise that
    let sector = BLOCK_BYTES.min(1 << bytes.trailing_zeros().min(63));
    (offered.minimum, offered.any) = (sector as u32, true);
    if !export.trims {
        // with TRIM offered, a client would have the zeros written, at the speed of writes
        offered.flags = offered.flags.without(TransmissionFlags::TRIM);
    }
    if export.rotational {
        offered.flags = offered.flags.with(TransmissionFlags::ROTATIONAL);
    }
    offered
}

/// Raises the limit of open files: each client is one.
fn raise_limit_of_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // if this fails, the usual limit serves fewer clients
    let _ = setrlimit(Resource::Nofile, limit);
}
