//! One client connection: its input and output.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::Ns;
use diskwright_simulator::array::MemberSet;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::engine::{ClientId, DiskEngine, DueReply, ServerRequest};
use crate::nbd::handshake::{Handshake, HandshakeState, NbdExport, NbdSession};
use crate::nbd::request::{NbdRequest, RequestCheck, RequestParse, check, parse};
use crate::nbd::wire::{CommandFlags, NbdCommand, REQUEST_BYTES};
use crate::nbd::{Exports, reply};

/// Largest number of unanswered requests of one client; no more are read until some are answered.
const MOST_OPEN: u32 = 4096;
/// Replies are built and sent in buffers of this size, bytes. A client that does not read them
/// holds at most so much memory.
const ROOM: usize = 256 << 10;
/// Reads longer than this, bytes, are answered piece by piece.
const PIECE: u32 = 128 << 10;
/// Largest unprocessed input, bytes: more than the longest option. Further input waits until the
/// client reads its replies.
const MOST_CARRIED: usize = 128 << 10;

/// Stage of a connection.
enum ClientStage {
    Greeting(Handshake),
    Serving(NbdSession),
    /// Requests in flight are answered, and nothing more is read.
    Leaving(Option<NbdSession>),
}

/// A read that is answered piece by piece.
struct ReadReply {
    done: DueReply,
    /// Bytes that have been sent or queued.
    gone: u32,
}

/// A write whose data is arriving.
struct PendingWrite {
    wish: ServerRequest,
    /// Bytes received so far.
    come: u32,
}

/// A client connection.
pub struct ServerClient {
    pub fd: OwnedFd,
    id: ClientId,
    stage: ClientStage,
    /// Input that could not be processed yet: a part of a header.
    carry: Vec<u8>,
    receiving: Option<PendingWrite>,
    /// Output that the kernel did not accept yet.
    out: Vec<u8>,
    sent: usize,
    sending: Option<ReadReply>,
    /// Replies that are due and wait for buffer space.
    ready: VecDeque<DueReply>,
    /// Number of unanswered requests.
    open: u32,
    pub since: Instant,
    /// Events that the kernel watches for: input, output.
    pub watched: (bool, bool),
    gone: bool,
}

impl ServerClient {
    /// Creates a connection and queues the greeting.
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

    /// Generation of its slot.
    pub fn turn(&self) -> u32 {
        self.id.turn
    }

    /// Marks the connection as broken.
    pub fn drop_it(&mut self) {
        self.gone = true;
    }

    /// Returns the index of the export that it has opened.
    pub fn export(&self) -> Option<usize> {
        match &self.stage {
            ClientStage::Serving(session) | ClientStage::Leaving(Some(session)) => Some(session.export),
            _ => None,
        }
    }

    /// Returns true while it has not chosen an export.
    pub fn is_greeting(&self) -> bool {
        matches!(self.stage, ClientStage::Greeting(_))
    }

    /// Returns true when it can be removed.
    pub fn is_over(&self) -> bool {
        let answered = self.open == 0 && self.unsent() == 0;
        self.gone || answered && matches!(self.stage, ClientStage::Leaving(_))
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Returns the events to watch for: input, and space for output.
    pub fn wants(&self) -> (bool, bool) {
        let reads =
            !matches!(self.stage, ClientStage::Leaving(_)) && !self.is_full() && self.carry.len() < MOST_CARRIED;
        (reads, self.unsent() > 0)
    }

    fn is_full(&self) -> bool {
        self.open >= MOST_OPEN
    }

    /// Reads new input and processes it after unprocessed earlier input. `scratch` is only a
    /// buffer.
    pub fn receive(&mut self, time: Ns, scratch: &mut [u8], engine: &mut DiskEngine, offer: &Exports) {
        let kept = self.carry.len();
        let Some(space) = scratch.get_mut(kept..).filter(|space| !space.is_empty()) else { return };
        match recv(&self.fd, space, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.leave(),
            Ok((bytes, _)) => {
                scratch[..kept].copy_from_slice(&self.carry);
                self.input(time, &scratch[..kept + bytes], engine, offer);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.gone = true,
        }
    }

    /// Stops reading: the client sends nothing more, but may still receive.
    fn leave(&mut self) {
        let session = match &self.stage {
            ClientStage::Serving(session) => Some(*session),
            ClientStage::Leaving(session) => *session,
            ClientStage::Greeting(_) => None,
        };
        if self.receiving.take().is_some() {
            // a write whose data arrived only in part is not answered
            self.open -= 1;
        }
        self.stage = ClientStage::Leaving(session);
    }

    /// Processes input, and keeps what cannot be processed yet.
    fn input(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine, offer: &Exports) {
        let used = self.take(time, input, engine, offer);
        self.carry.clear();
        self.carry.extend_from_slice(&input[used..]);
    }

    /// Processes input that could not be processed earlier.
    pub fn go_on(&mut self, time: Ns, engine: &mut DiskEngine, offer: &Exports) {
        if !self.carry.is_empty() && !self.is_full() {
            let carry = std::mem::take(&mut self.carry);
            self.input(time, &carry, engine, offer);
        }
    }

    /// Processes input as far as possible; returns the number of bytes consumed.
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
        let client_request =
            ServerRequest { client: self.id, export: session.export as u16, request, error, avoid: MemberSet::NONE };
        if request.payload() > 0 {
            self.receiving = Some(PendingWrite { wish: client_request, come: 0 });
        } else {
            engine.begin(time, client_request);
        }
    }

    /// Accepts a write's data as it arrives, in whole sectors: if client or server ends in the
    /// middle of a write, each sector has its old or its new content.
    fn data(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine) -> usize {
        let Some(receiving) = &mut self.receiving else { return 0 };
        let NbdRequest { offset, length, .. } = receiving.wish.request;
        // the offset of a refused write can be any number
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
            let client_request = receiving.wish;
            self.receiving = None;
            engine.begin(time, client_request);
        }
        part.len()
    }

    /// Queues the reply to a request.
    pub fn done(&mut self, done: DueReply) {
        self.ready.push_back(done);
    }

    /// Builds replies and sends them as far as the kernel accepts them. `buffer` is only reused
    /// memory.
    pub fn answer(&mut self, engine: &mut DiskEngine, buffer: &mut Vec<u8>) {
        self.send_rest();
        while !self.gone && self.unsent() == 0 {
            buffer.clear();
            while buffer.len() < ROOM && self.write_some(engine, buffer) {}
            if buffer.is_empty() {
                return;
            }
            self.send_first(buffer);
        }
    }

    /// Writes the next reply, or its next piece; returns false if there is none.
    fn write_some(&mut self, engine: &mut DiskEngine, buffer: &mut Vec<u8>) -> bool {
        let (ClientStage::Serving(session) | ClientStage::Leaving(Some(session))) = self.stage else { return false };
        if let Some(sending) = self.sending.take() {
            self.write_piece(&session, sending, engine, buffer);
            return true;
        }
        let Some(done) = self.ready.pop_front() else { return false };
        let ServerRequest { export, request, error, .. } = done.wish;
        match (error, request.command) {
            (Some((error, because)), _) => reply::error(buffer, &session, request.cookie, error, because),
            (None, NbdCommand::Read) => {
                self.write_piece(&session, ReadReply { done, gone: 0 }, engine, buffer);
                return true;
            }
            (None, NbdCommand::BlockStatus) => reply::block_status(buffer, &request, engine.extents(export, &request)),
            (None, _) => reply::done(buffer, request.cookie),
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
        buffer: &mut Vec<u8>,
    ) {
        let ServerRequest { request, .. } = sending.done.wish;
        let (offset, left) = (request.offset + u64::from(sending.gone), request.length - sending.gone);
        let bytes = left.min(PIECE);
        // with several chunks an error can still be reported after some of them were sent
        let chunks = session.structured && !request.flags.has(CommandFlags::DF);
        let start = buffer.len();
        if chunks {
            reply::data_head(buffer, request.cookie, offset, bytes, bytes == left);
        } else if sending.gone == 0 {
            reply::read_head(buffer, session, &request);
        }
        let data = buffer.len();
        buffer.resize(data + bytes as usize, 0);
        match engine.read(&sending.done.wish, offset, &mut buffer[data..]) {
            Ok(()) => {
                sending.gone += bytes;
                if bytes < left {
                    self.sending = Some(sending);
                    return;
                }
            }
            Err((error, because)) => {
                buffer.truncate(start);
                if chunks || sending.gone == 0 {
                    reply::error(buffer, session, request.cookie, error, because);
                } else {
                    // the header has promised data that is not available: close the connection
                    // rather than send wrong data
                    self.gone = true;
                }
            }
        }
        self.open -= 1;
    }

    /// Sends output that the kernel did not accept before.
    fn send_rest(&mut self) {
        if self.unsent() > 0 {
            self.sent += sent(&self.fd, &self.out[self.sent..], &mut self.gone);
        }
        if self.unsent() == 0 {
            // an idle client keeps no buffer
            (self.out, self.sent) = (Vec::new(), 0);
        }
    }

    /// Sends replies, and keeps what the kernel does not accept.
    fn send_first(&mut self, answers: &[u8]) {
        let bytes = sent(&self.fd, answers, &mut self.gone);
        if bytes < answers.len() {
            self.out = answers[bytes..].to_vec();
        }
    }
}

/// Returns how many of `received` bytes from position `first` on may be written, if the write has
/// `left` bytes left: up to its end, or the end of the last complete sector.
fn ready(first: u64, received: usize, left: usize) -> usize {
    match received >= left {
        true => left,
        false => received.saturating_sub((first.wrapping_add(received as u64) % BLOCK_BYTES) as usize),
    }
}

/// Sends bytes and returns how many the kernel accepted; sets `is_broken` if the peer has closed
/// the connection.
fn sent(fd: &OwnedFd, bytes: &[u8], is_broken: &mut bool) -> usize {
    let mut sent = 0;
    while sent < bytes.len() {
        match send(fd, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(taken) => sent += taken,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => {
                *is_broken = true;
                break;
            }
        }
    }
    sent
}
