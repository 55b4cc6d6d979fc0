//! One client: the bytes that come from it and go to it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::Ns;
use diskwright_simulator::array::Members;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::engine::{ClientId, DiskEngine, DueReply, ServerRequest};
use crate::nbd::handshake::{Handshake, HandshakeState, NbdExport, NbdSession};
use crate::nbd::request::{NbdRequest, RequestCheck, RequestParse, check, parse};
use crate::nbd::wire::{CommandFlags, NbdCommand, REQUEST_BYTES};
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
enum ClientStage {
    Greeting(Handshake),
    Serving(NbdSession),
    /// It is answered what is under way, and nothing more is read.
    Leaving(Option<NbdSession>),
}

/// A read that is answered piece by piece.
struct ReadReply {
    done: DueReply,
    /// Bytes that have been sent, or wait to be.
    gone: u32,
}

/// A write whose data is coming.
struct PendingWrite {
    wish: ServerRequest,
    /// Bytes that have come.
    come: u32,
}

/// A client.
pub struct ServerClient {
    pub fd: OwnedFd,
    id: ClientId,
    stage: ClientStage,
    /// What came and could not be used yet: a part of a head.
    carry: Vec<u8>,
    receiving: Option<PendingWrite>,
    /// What the kernel did not take.
    out: Vec<u8>,
    sent: usize,
    sending: Option<ReadReply>,
    /// What may be answered and waits for room.
    ready: VecDeque<DueReply>,
    /// Requests that are not answered.
    open: u32,
    pub since: Instant,
    /// What the kernel was told to look for: input, output.
    pub watched: (bool, bool),
    gone: bool,
}

impl ServerClient {
    /// Greets a client that has just come.
    pub fn new(fd: OwnedFd, id: ClientId) -> ServerClient {
        let mut out = Vec::new();
        let stage = ClientStage::Greeting(Handshake::start(&mut out));
        ServerClient {
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
            ClientStage::Serving(session) | ClientStage::Leaving(Some(session)) => Some(session.export),
            _ => None,
        }
    }

    /// True while it has not chosen an export.
    pub fn is_greeting(&self) -> bool {
        matches!(self.stage, ClientStage::Greeting(_))
    }

    /// True when it can be forgotten.
    pub fn is_over(&self) -> bool {
        let answered = self.open == 0 && self.unsent() == 0;
        self.gone || answered && matches!(self.stage, ClientStage::Leaving(_))
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether to look for input, and for room for output.
    pub fn wants(&self) -> (bool, bool) {
        let reads =
            !matches!(self.stage, ClientStage::Leaving(_)) && !self.is_full() && self.carry.len() < MOST_CARRIED;
        (reads, self.unsent() > 0)
    }

    fn is_full(&self) -> bool {
        self.open >= MOST_OPEN
    }

    /// Reads what has come, behind what could not be used yet. `scratch` is only room.
    pub fn receive(&mut self, time: Ns, scratch: &mut [u8], engine: &mut DiskEngine, offer: &Exports) {
        let kept = self.carry.len();
        let Some(room) = scratch.get_mut(kept..).filter(|room| !room.is_empty()) else { return };
        match recv(&self.fd, room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.leave(),
            Ok((bytes, _)) => {
                scratch[..kept].copy_from_slice(&self.carry);
                self.input(time, &scratch[..kept + bytes], engine, offer);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.gone = true,
        }
    }

    /// It sends nothing more, and may still read.
    fn leave(&mut self) {
        let session = match &self.stage {
            ClientStage::Serving(session) => Some(*session),
            ClientStage::Leaving(session) => *session,
            ClientStage::Greeting(_) => None,
        };
        if self.receiving.take().is_some() {
            // a write of which only a part has come is not answered
            self.open -= 1;
        }
        self.stage = ClientStage::Leaving(session);
    }

    /// Takes input, and keeps what cannot be used yet.
    fn input(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine, offer: &Exports) {
        let used = self.take(time, input, engine, offer);
        self.carry.clear();
        self.carry.extend_from_slice(&input[used..]);
    }

    /// What could not be used earlier may be now.
    pub fn go_on(&mut self, time: Ns, engine: &mut DiskEngine, offer: &Exports) {
        if !self.carry.is_empty() && !self.is_full() {
            let carry = std::mem::take(&mut self.carry);
            self.input(time, &carry, engine, offer);
        }
    }

    /// Takes input, as far as it goes: the bytes that are done with.
    fn take(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine, offer: &Exports) -> usize {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match &mut self.stage {
                ClientStage::Leaving(_) => return input.len(),
                ClientStage::Greeting(handshake) => {
                    let progress = handshake.feed(offer, rest, &mut self.out);
                    used += progress.consumed;
                    match progress.state {
                        HandshakeState::More => return used,
                        HandshakeState::Ready(session) => self.stage = ClientStage::Serving(session),
                        HandshakeState::Close(_) => self.stage = ClientStage::Leaving(None),
                    }
                }
                ClientStage::Serving(_) if self.receiving.is_some() => {
                    let taken = self.data(time, rest, engine);
                    used += taken;
                    if taken == 0 {
                        return used;
                    }
                }
                ClientStage::Serving(session) => {
                    let session = *session;
                    if self.is_full() {
                        return used;
                    }
                    match parse(rest) {
                        RequestParse::Need(_) => return used,
                        RequestParse::Broken(_) => self.stage = ClientStage::Leaving(Some(session)),
                        RequestParse::Request(request) => {
                            used += REQUEST_BYTES;
                            self.request(time, request, session, engine, offer);
                        }
                    }
                }
            }
        }
    }

    fn request(
        &mut self,
        time: Ns,
        request: NbdRequest,
        session: NbdSession,
        engine: &mut DiskEngine,
        offer: &Exports,
    ) {
        let verdict = offer.list.get(session.export).map(|export: &NbdExport| check(&request, export, &session));
        let error = match verdict {
            Some(RequestCheck::Do) => None,
            Some(RequestCheck::Refuse(error, because)) => Some((error, because)),
            Some(RequestCheck::Disconnect | RequestCheck::Close(_)) | None => {
                self.stage = ClientStage::Leaving(Some(session));
                return;
            }
        };
        self.open += 1;
        let wish =
            ServerRequest { client: self.id, export: session.export as u16, request, error, avoid: Members::NONE };
        if request.payload() > 0 {
            self.receiving = Some(PendingWrite { wish, come: 0 });
        } else {
            engine.begin(time, wish);
        }
    }

    /// Takes a write's data as it comes, by whole sectors: whoever ends in the middle
    /// of a write, client or server, leaves each sector as it was or as it was to be.
    fn data(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine) -> usize {
        let Some(receiving) = &mut self.receiving else { return 0 };
        let NbdRequest { offset, length, .. } = receiving.wish.request;
        // data of a write that is refused may lie anywhere
        let first = offset.wrapping_add(u64::from(receiving.come));
        let part = &input[..ready(first, input.len(), (length - receiving.come) as usize)];
        if part.is_empty() {
            return 0;
        }
        if receiving.wish.error.is_none() {
            receiving.wish.error = engine.write(receiving.wish.export, first, part).err();
        }
        receiving.come += part.len() as u32;
        if receiving.come == length {
            let wish = receiving.wish;
            self.receiving = None;
            engine.begin(time, wish);
        }
        part.len()
    }

    /// A request may be answered.
    pub fn done(&mut self, done: DueReply) {
        self.ready.push_back(done);
    }

    /// Makes answers and sends them, as far as the kernel takes them. `room` is only room.
    pub fn answer(&mut self, engine: &mut DiskEngine, room: &mut Vec<u8>) {
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
    fn write_some(&mut self, engine: &mut DiskEngine, room: &mut Vec<u8>) -> bool {
        let (ClientStage::Serving(session) | ClientStage::Leaving(Some(session))) = self.stage else { return false };
        if let Some(sending) = self.sending.take() {
            self.write_piece(&session, sending, engine, room);
            return true;
        }
        let Some(done) = self.ready.pop_front() else { return false };
        let ServerRequest { export, request, error, .. } = done.wish;
        match (error, request.command) {
            (Some((error, because)), _) => reply::error(room, &session, request.cookie, error, because),
            (None, NbdCommand::Read) => {
                self.write_piece(&session, ReadReply { done, gone: 0 }, engine, room);
                return true;
            }
            (None, NbdCommand::BlockStatus) => reply::block_status(room, &request, engine.extents(export, &request)),
            (None, _) => reply::done(room, request.cookie),
        }
        self.open -= 1;
        true
    }

    /// Writes the next piece of a read.
    fn write_piece(
        &mut self,
        session: &NbdSession,
        mut sending: ReadReply,
        engine: &mut DiskEngine,
        room: &mut Vec<u8>,
    ) {
        let ServerRequest { request, .. } = sending.done.wish;
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

/// How many of `come` bytes from place `first` on may be written, where the write has
/// `left`: up to its end, or the end of the last sector that is whole.
fn ready(first: u64, come: usize, left: usize) -> usize {
    match come >= left {
        true => left,
        false => come.saturating_sub((first.wrapping_add(come as u64) % BLOCK_BYTES) as usize),
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
