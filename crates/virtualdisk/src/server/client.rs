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
use crate::nbd::wire::{Command, CommandFlags, REQUEST_BYTES};
use crate::nbd::{Exports, reply};

/// Requests of one client that are not answered at most; no more are read until some are.
const MOST_OPEN: u32 = 4096;
/// Answers are made and sent so many bytes at a time. A client that does not read
/// them keeps so much memory, and no more.
const ROOM: usize = 256 << 10;
/// Longer reads are answered piece by piece, bytes.
const PIECE: u32 = 128 << 10;
/// What came and could not be used yet, bytes: more than the longest option. What is beyond it waits for the
/// client to read its answers.
const MOST_CARRIED: usize = 128 << 10;

/// Where a client is.
enum Stage {
    Greeting(Handshake),
    Serving(Session),
    /// It is answered what is under way, and nothing more is read.
    Leaving(Option<Session>),
}

/// A read that is answered piece by piece.
struct Sending {
    done: Done,
    /// Bytes that have been sent, or wait to be.
    gone: u32,
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
    /// What the kernel did not take.
    out: Vec<u8>,
    sent: usize,
    sending: Option<Sending>,
    /// What may be answered and waits for room.
    ready: VecDeque<Done>,
    /// Requests that are not answered.
    open: u32,
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
            sending: None,
            ready: VecDeque::new(),
            open: 0,
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
        let answered = self.open == 0 && self.unsent() == 0;
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
        self.open >= MOST_OPEN
    }

    /// Reads what has come. `scratch` is only room.
    pub fn receive(&mut self, at: Ns, scratch: &mut [u8], engine: &mut Engine, offer: &Exports) {
        match recv(&self.fd, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.leave(),
            Ok((bytes, _)) => self.input(at, &scratch[..bytes], engine, offer),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.gone = true,
        }
    }

    /// It sends nothing more, and may still read.
    fn leave(&mut self) {
        let session = match &self.stage {
            Stage::Serving(session) => Some(*session),
            Stage::Leaving(session) => *session,
            Stage::Greeting(_) => None,
        };
        if self.receiving.take().is_some() {
            // a write of which only a part has come is not answered
            self.open -= 1;
        }
        self.stage = Stage::Leaving(session);
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
                    let session = *session;
                    if self.is_full() {
                        return used;
                    }
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
        self.open += 1;
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
        self.ready.push_back(done);
    }

    /// Makes answers and sends them, as far as the kernel takes them. `room` is only room.
    pub fn answer(&mut self, engine: &mut Engine, room: &mut Vec<u8>) {
        self.send_rest();
        while !self.gone && self.unsent() == 0 {
            room.clear();
            while room.len() < ROOM && self.write_some(engine, room) {}
            if room.is_empty() {
                return;
            }
            self.send_first(room);
        }
    }

    /// Writes the next answer, or the next piece of it; false when there is none.
    fn write_some(&mut self, engine: &mut Engine, room: &mut Vec<u8>) -> bool {
        let (Stage::Serving(session) | Stage::Leaving(Some(session))) = self.stage else { return false };
        if let Some(sending) = self.sending.take() {
            self.write_piece(&session, sending, engine, room);
            return true;
        }
        let Some(done) = self.ready.pop_front() else { return false };
        let Wish { export, request, error, .. } = done.wish;
        match (error, request.command) {
            (Some((error, because)), _) => reply::error(room, &session, request.cookie, error, because),
            (None, Command::Read) => {
                self.write_piece(&session, Sending { done, gone: 0 }, engine, room);
                return true;
            }
            (None, Command::BlockStatus) => reply::block_status(room, &request, engine.extents(export, &request)),
            (None, _) => reply::done(room, request.cookie),
        }
        self.open -= 1;
        true
    }

    /// Writes the next piece of a read.
    fn write_piece(&mut self, session: &Session, mut sending: Sending, engine: &mut Engine, room: &mut Vec<u8>) {
        let Wish { request, .. } = sending.done.wish;
        let (offset, left) = (request.offset + u64::from(sending.gone), request.length - sending.gone);
        let bytes = left.min(PIECE);
        // in several chunks an error can still be told when some of them are gone
        let chunks = session.structured && !request.flags.has(CommandFlags::DF);
        let start = room.len();
        if chunks {
            reply::data_head(room, request.cookie, offset, bytes, bytes == left);
        } else if sending.gone == 0 {
            reply::read_head(room, session, &request);
        }
        let data = room.len();
        room.resize(data + bytes as usize, 0);
        match engine.read(&sending.done.wish, offset, &mut room[data..]) {
            Ok(()) => {
                sending.gone += bytes;
                if bytes < left {
                    self.sending = Some(sending);
                    return;
                }
            }
            Err((error, because)) => {
                room.truncate(start);
                if chunks || sending.gone == 0 {
                    reply::error(room, session, request.cookie, error, because);
                } else {
                    // its head has promised what cannot be had: nothing wrong may follow
                    self.gone = true;
                }
            }
        }
        self.open -= 1;
    }

    /// Sends what the kernel did not take before.
    fn send_rest(&mut self) {
        if self.unsent() > 0 {
            self.sent += sent(&self.fd, &self.out[self.sent..], &mut self.gone);
        }
        if self.unsent() == 0 {
            // an idle client keeps no memory
            (self.out, self.sent) = (Vec::new(), 0);
        }
    }

    /// Sends answers, and keeps what the kernel does not take.
    fn send_first(&mut self, answers: &[u8]) {
        let bytes = sent(&self.fd, answers, &mut self.gone);
        if bytes < answers.len() {
            self.out = answers[bytes..].to_vec();
        }
    }
}

/// How many bytes the kernel took; `gone` where nobody is there to read them.
fn sent(fd: &OwnedFd, bytes: &[u8], gone: &mut bool) -> usize {
    let mut sent = 0;
    while sent < bytes.len() {
        match send(fd, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(taken) => sent += taken,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => {
                *gone = true;
                break;
            }
        }
    }
    sent
}
