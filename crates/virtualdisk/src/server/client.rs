//! One client: the bytes that come from it and go to it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use diskwright_simulator::Ns;
use diskwright_simulator::array::Members;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::engine::{ClientId, Done, Engine, Wish};
use crate::nbd::handshake::{Export, Handshake, Session, State};
use crate::nbd::request::{Parsed, Request, Verdict, check, parse};
use crate::nbd::wire::{Command, REQUEST_BYTES};
use crate::nbd::{Exports, reply};

/// Requests of one client that are under way at most; no more are read until some are answered.
const MOST_UNDER_WAY: u32 = 4096;
/// Answers that wait for a client that does not read them, bytes; no more are made until they are gone.
const MOST_UNREAD: usize = 4 << 20;
/// What came and could not be used yet, bytes: more than the longest option. What is beyond it waits for the
/// client to read its answers.
const MOST_CARRIED: usize = 128 << 10;
/// Room for answers that an idle client keeps, bytes.
const KEPT: usize = 256 << 10;

/// Where a client is.
enum Stage {
    Greeting(Handshake),
    Serving(Session),
    /// It is answered what is under way, and nothing more is read.
    Leaving(Option<Session>),
}

/// A write whose data is coming.
struct Receiving {
    wish: Wish,
    /// Bytes that have come.
    come: u32,
}

/// A client.
pub struct Client {
    pub fd: OwnedFd,
    id: ClientId,
    stage: Stage,
    /// What came and could not be used yet: a part of a head.
    carry: Vec<u8>,
    receiving: Option<Receiving>,
    out: Vec<u8>,
    sent: usize,
    /// What may be answered and waits for room.
    ready: VecDeque<Done>,
    under_way: u32,
    pub since: Instant,
    /// What the kernel was told to look for: input, output.
    pub watched: (bool, bool),
    gone: bool,
}

impl Client {
    /// Greets a client that has just come.
    pub fn new(fd: OwnedFd, id: ClientId) -> Client {
        let mut out = Vec::new();
        let stage = Stage::Greeting(Handshake::start(&mut out));
        Client {
            fd,
            id,
            stage,
            carry: Vec::new(),
            receiving: None,
            out,
            sent: 0,
            ready: VecDeque::new(),
            under_way: 0,
            since: Instant::now(),
            watched: (true, false),
            gone: false,
        }
    }

    /// The how manieth at its place it is.
    pub fn turn(&self) -> u32 {
        self.id.turn
    }

    /// Its connection broke.
    pub fn drop_it(&mut self) {
        self.gone = true;
    }

    /// The export that it has opened.
    pub fn export(&self) -> Option<usize> {
        match &self.stage {
            Stage::Serving(session) | Stage::Leaving(Some(session)) => Some(session.export),
            _ => None,
        }
    }

    /// True while it has not chosen an export.
    pub fn is_greeting(&self) -> bool {
        matches!(self.stage, Stage::Greeting(_))
    }

    /// True when it can be forgotten.
    pub fn is_over(&self) -> bool {
        let answered = self.under_way == 0 && self.ready.is_empty() && self.unsent() == 0;
        self.gone || answered && matches!(self.stage, Stage::Leaving(_))
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether to look for input, and for room for output.
    pub fn wants(&self) -> (bool, bool) {
        let reads = !matches!(self.stage, Stage::Leaving(_)) && !self.is_full() && self.carry.len() < MOST_CARRIED;
        (reads, self.unsent() > 0)
    }

    fn is_full(&self) -> bool {
        self.under_way >= MOST_UNDER_WAY || self.unsent() > MOST_UNREAD
    }

    /// Reads what has come. `scratch` is only room.
    pub fn receive(&mut self, at: Ns, scratch: &mut [u8], engine: &mut Engine, offer: &Exports) {
        match recv(&self.fd, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.gone = true,
            Ok((bytes, _)) => self.input(at, &scratch[..bytes], engine, offer),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.gone = true,
        }
    }

    fn input(&mut self, at: Ns, input: &[u8], engine: &mut Engine, offer: &Exports) {
        if self.carry.is_empty() {
            let used = self.take(at, input, engine, offer);
            self.carry.extend_from_slice(&input[used..]);
            return;
        }
        let mut carry = std::mem::take(&mut self.carry);
        carry.extend_from_slice(input);
        let used = self.take(at, &carry, engine, offer);
        carry.drain(..used);
        self.carry = carry;
    }

    /// What could not be used earlier may be now.
    pub fn go_on(&mut self, at: Ns, engine: &mut Engine, offer: &Exports) {
        if !self.carry.is_empty() && !self.is_full() {
            self.input(at, &[], engine, offer);
        }
    }

    /// Takes input, as far as it goes: the bytes that are done with.
    fn take(&mut self, at: Ns, input: &[u8], engine: &mut Engine, offer: &Exports) -> usize {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match &mut self.stage {
                Stage::Leaving(_) => return input.len(),
                Stage::Greeting(handshake) => {
                    let progress = handshake.feed(offer, rest, &mut self.out);
                    used += progress.consumed;
                    match progress.state {
                        State::More => return used,
                        State::Ready(session) => self.stage = Stage::Serving(session),
                        State::Close(_) => self.stage = Stage::Leaving(None),
                    }
                }
                Stage::Serving(_) if self.receiving.is_some() => {
                    let taken = self.data(at, rest, engine);
                    used += taken;
                    if taken == 0 {
                        return used;
                    }
                }
                Stage::Serving(session) => {
                    if self.under_way >= MOST_UNDER_WAY {
                        return used;
                    }
                    let session = *session;
                    match parse(rest) {
                        Parsed::Need(_) => return used,
                        Parsed::Broken(_) => self.stage = Stage::Leaving(Some(session)),
                        Parsed::Request(request) => {
                            used += REQUEST_BYTES;
                            self.request(at, request, session, engine, offer);
                        }
                    }
                }
            }
        }
    }

    fn request(&mut self, at: Ns, request: Request, session: Session, engine: &mut Engine, offer: &Exports) {
        let verdict = offer.list.get(session.export).map(|export: &Export| check(&request, export, &session));
        let error = match verdict {
            Some(Verdict::Do) => None,
            Some(Verdict::Refuse(error, because)) => Some((error, because)),
            Some(Verdict::Disconnect | Verdict::Close(_)) | None => {
                self.stage = Stage::Leaving(Some(session));
                return;
            }
        };
        self.under_way += 1;
        let wish = Wish { client: self.id, export: session.export as u16, request, error, avoid: Members::NONE };
        if request.payload() > 0 {
            self.receiving = Some(Receiving { wish, come: 0 });
        } else {
            engine.begin(at, wish);
        }
    }

    /// Takes a write's data as it comes.
    fn data(&mut self, at: Ns, input: &[u8], engine: &mut Engine) -> usize {
        let Some(receiving) = &mut self.receiving else { return 0 };
        let Request { offset, length, .. } = receiving.wish.request;
        let part = &input[..input.len().min((length - receiving.come) as usize)];
        if receiving.wish.error.is_none() {
            let first = offset + u64::from(receiving.come);
            receiving.wish.error = engine.write(receiving.wish.export, first, part).err();
        }
        receiving.come += part.len() as u32;
        if receiving.come == length {
            let wish = receiving.wish;
            self.receiving = None;
            engine.begin(at, wish);
        }
        part.len()
    }

    /// A request may be answered.
    pub fn done(&mut self, done: Done) {
        self.under_way = self.under_way.saturating_sub(1);
        self.ready.push_back(done);
    }

    /// Makes answers, as far as there is room, and sends them.
    pub fn answer(&mut self, engine: &mut Engine) {
        loop {
            while self.unsent() < MOST_UNREAD
                && let Some(done) = self.ready.pop_front()
            {
                self.write_answer(&done, engine);
            }
            self.send();
            if self.gone || self.unsent() > 0 || self.ready.is_empty() {
                return;
            }
        }
    }

    fn write_answer(&mut self, done: &Done, engine: &mut Engine) {
        let (Stage::Serving(session) | Stage::Leaving(Some(session))) = &self.stage else { return };
        let Wish { export, request, error, .. } = done.wish;
        let failed = match (error, request.command) {
            (Some(error), _) => Some(error),
            (None, Command::Read) => {
                let start = self.out.len();
                let room = reply::begin_read(&mut self.out, session, &request);
                let failed = engine.read(&done.wish, &mut self.out[room]).err();
                if failed.is_some() {
                    self.out.truncate(start);
                }
                failed
            }
            (None, Command::BlockStatus) => {
                reply::block_status(&mut self.out, &request, engine.extents(export, &request));
                None
            }
            (None, _) => {
                reply::done(&mut self.out, request.cookie);
                None
            }
        };
        if let Some((error, because)) = failed {
            reply::error(&mut self.out, session, request.cookie, error, because);
        }
    }

    fn send(&mut self) {
        while self.sent < self.out.len() && !self.gone {
            match send(&self.fd, &self.out[self.sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.gone = true,
            }
        }
        self.out.clear();
        self.sent = 0;
        if self.out.capacity() > 2 * MOST_UNREAD {
            self.out.shrink_to(KEPT);
        }
    }
}
