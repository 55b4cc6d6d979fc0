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
use crate::nbd::request::{NbdRequest, RequestCheck, RequestParse, check_request, parse};
use crate::nbd::wire::{CommandFlags, NbdCommand, REQUEST_BYTES};
use crate::nbd::{Exports, reply};

/// Largest number of unanswered requests of one client; no more are read until some are answered.
const MAX_OPEN_REQUESTS: u32 = 4096;
/// Replies are built and sent in buffers of this size, bytes. A client that does not read them
/// holds at most so much memory.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Reads longer than this, bytes, are answered piece by piece.
const READ_PIECE_BYTES: u32 = 128 << 10;
/// Largest unprocessed input, bytes: more than the longest option. Further input waits until the
/// client reads its replies.
const MAX_UNUSED_INPUT_BYTES: usize = 128 << 10;

/// Stage of a connection.
enum ClientStage {
    Greeting(Handshake),
    Serving(NbdSession),
    /// Requests in flight are answered, and nothing more is read.
    Leaving(Option<NbdSession>),
}

/// A read that is answered piece by piece.
struct ReadReply {
    due_reply: DueReply,
    /// Bytes that have been sent or queued.
    sent_bytes: u32,
}

/// A write whose data is arriving.
struct PendingWrite {
    client_request: ServerRequest,
    /// Bytes received so far.
    received_bytes: u32,
}

/// A client connection.
pub struct ServerClient {
    pub fd: OwnedFd,
    id: ClientId,
    stage: ClientStage,
    /// Input that could not be processed yet: a part of a header.
    unused_input: Vec<u8>,
    current_write: Option<PendingWrite>,
    /// Output that the kernel did not accept yet.
    output: Vec<u8>,
    sent_bytes: usize,
    current_read: Option<ReadReply>,
    /// Replies that are due and wait for buffer space.
    due_replies: VecDeque<DueReply>,
    /// Number of unanswered requests.
    open_requests: u32,
    pub connected_at: Instant,
    /// Events that the kernel watches for: input, output.
    pub watched: (bool, bool),
    is_broken: bool,
}

impl ServerClient {
    /// Creates a connection and queues the greeting.
    pub fn new(fd: OwnedFd, id: ClientId) -> ServerClient {
        let mut output = Vec::new();
        let stage = ClientStage::Greeting(Handshake::start(&mut output));
        ServerClient {
            fd,
            id,
            stage,
            unused_input: Vec::new(),
            current_write: None,
            output,
            sent_bytes: 0,
            current_read: None,
            due_replies: VecDeque::new(),
            open_requests: 0,
            connected_at: Instant::now(),
            watched: (true, false),
            is_broken: false,
        }
    }

    /// Generation of its slot.
    pub fn generation(&self) -> u32 {
        self.id.generation
    }

    /// Marks the connection as broken.
    pub fn mark_broken(&mut self) {
        self.is_broken = true;
    }

    /// Returns the index of the export that it has opened.
    pub fn export_index(&self) -> Option<usize> {
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
    pub fn can_be_removed(&self) -> bool {
        let all_answered = self.open_requests == 0 && self.unsent_bytes() == 0;
        self.is_broken || all_answered && matches!(self.stage, ClientStage::Leaving(_))
    }

    fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent_bytes
    }

    /// Returns the events to watch for: input, and space for output.
    pub fn wanted_events(&self) -> (bool, bool) {
        let reads_input = !matches!(self.stage, ClientStage::Leaving(_))
            && !self.has_too_many_requests()
            && self.unused_input.len() < MAX_UNUSED_INPUT_BYTES;
        (reads_input, self.unsent_bytes() > 0)
    }

    fn has_too_many_requests(&self) -> bool {
        self.open_requests >= MAX_OPEN_REQUESTS
    }

    /// Reads new input and processes it after unprocessed earlier input. `scratch` is only a
    /// buffer.
    pub fn receive_input(&mut self, time: Ns, scratch: &mut [u8], engine: &mut DiskEngine, offer: &Exports) {
        let kept_bytes = self.unused_input.len();
        let Some(space) = scratch.get_mut(kept_bytes..).filter(|space| !space.is_empty()) else { return };
        match recv(&self.fd, space, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.stop_reading(),
            Ok((bytes, _)) => {
                scratch[..kept_bytes].copy_from_slice(&self.unused_input);
                self.process_input(time, &scratch[..kept_bytes + bytes], engine, offer);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.is_broken = true,
        }
    }

    /// Stops reading: the client sends nothing more, but may still receive.
    fn stop_reading(&mut self) {
        let session = match &self.stage {
            ClientStage::Serving(session) => Some(*session),
            ClientStage::Leaving(session) => *session,
            ClientStage::Greeting(_) => None,
        };
        if self.current_write.take().is_some() {
            // a write whose data arrived only in part is not answered
            self.open_requests -= 1;
        }
        self.stage = ClientStage::Leaving(session);
    }

    /// Processes input, and keeps what cannot be processed yet.
    fn process_input(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine, offer: &Exports) {
        let used_bytes = self.consume_input(time, input, engine, offer);
        self.unused_input.clear();
        self.unused_input.extend_from_slice(&input[used_bytes..]);
    }

    /// Processes input that could not be processed earlier.
    pub fn process_unused_input(&mut self, time: Ns, engine: &mut DiskEngine, offer: &Exports) {
        if !self.unused_input.is_empty() && !self.has_too_many_requests() {
            let unused_input = std::mem::take(&mut self.unused_input);
            self.process_input(time, &unused_input, engine, offer);
        }
    }

    /// Processes input as far as possible; returns the number of bytes consumed.
    fn consume_input(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine, offer: &Exports) -> usize {
        let mut used_bytes = 0;
        loop {
            let unused_input = &input[used_bytes..];
            match &mut self.stage {
                ClientStage::Leaving(_) => return input.len(),
                ClientStage::Greeting(handshake) => {
                    let progress = handshake.process_input(offer, unused_input, &mut self.output);
                    used_bytes += progress.consumed;
                    match progress.state {
                        HandshakeState::More => return used_bytes,
                        HandshakeState::Ready(session) => self.stage = ClientStage::Serving(session),
                        HandshakeState::Close(_) => self.stage = ClientStage::Leaving(None),
                    }
                }
                ClientStage::Serving(_) if self.current_write.is_some() => {
                    let accepted_bytes = self.accept_write_data(time, unused_input, engine);
                    used_bytes += accepted_bytes;
                    if accepted_bytes == 0 {
                        return used_bytes;
                    }
                }
                ClientStage::Serving(session) => {
                    let session = *session;
                    if self.has_too_many_requests() {
                        return used_bytes;
                    }
                    match parse(unused_input) {
                        RequestParse::Need(_) => return used_bytes,
                        RequestParse::Broken(_) => self.stage = ClientStage::Leaving(Some(session)),
                        RequestParse::Request(request) => {
                            used_bytes += REQUEST_BYTES;
                            self.handle_request(time, request, session, engine, offer);
                        }
                    }
                }
            }
        }
    }

    fn handle_request(
        &mut self,
        time: Ns,
        request: NbdRequest,
        session: NbdSession,
        engine: &mut DiskEngine,
        offer: &Exports,
    ) {
        let check = offer.list.get(session.export).map(|export: &NbdExport| check_request(&request, export, &session));
        let error = match check {
            Some(RequestCheck::Do) => None,
            Some(RequestCheck::Refuse(error, reason)) => Some((error, reason)),
            Some(RequestCheck::Disconnect | RequestCheck::Close(_)) | None => {
                self.stage = ClientStage::Leaving(Some(session));
                return;
            }
        };
        self.open_requests += 1;
        let client_request = ServerRequest {
            client: self.id,
            export: session.export as u16,
            request,
            error,
            avoided_members: MemberSet::NONE,
        };
        if request.payload_bytes() > 0 {
            self.current_write = Some(PendingWrite { client_request, received_bytes: 0 });
        } else {
            engine.begin_request(time, client_request);
        }
    }

    /// Accepts a write's data as it arrives, in whole sectors: if client or server ends in the
    /// middle of a write, each sector has its old or its new content.
    fn accept_write_data(&mut self, time: Ns, input: &[u8], engine: &mut DiskEngine) -> usize {
        let Some(pending_write) = &mut self.current_write else { return 0 };
        let NbdRequest { offset, length, .. } = pending_write.client_request.request;
        // the offset of a refused write can be any number
        let start_offset = offset.wrapping_add(u64::from(pending_write.received_bytes));
        let part = &input[..usable_bytes(start_offset, input.len(), (length - pending_write.received_bytes) as usize)];
        if part.is_empty() {
            return 0;
        }
        if pending_write.client_request.error.is_none() {
            pending_write.client_request.error =
                engine.write(pending_write.client_request.export, start_offset, part).err();
        }
        pending_write.received_bytes += part.len() as u32;
        if pending_write.received_bytes == length {
            let client_request = pending_write.client_request;
            self.current_write = None;
            engine.begin_request(time, client_request);
        }
        part.len()
    }

    /// Queues the reply to a request.
    pub fn queue_reply(&mut self, due_reply: DueReply) {
        self.due_replies.push_back(due_reply);
    }

    /// Builds replies and sends them as far as the kernel accepts them. `buffer` is only reused
    /// memory.
    pub fn send_replies(&mut self, engine: &mut DiskEngine, buffer: &mut Vec<u8>) {
        self.send_unsent();
        while !self.is_broken && self.unsent_bytes() == 0 {
            buffer.clear();
            while buffer.len() < SEND_BUFFER_BYTES && self.write_next_reply(engine, buffer) {}
            if buffer.is_empty() {
                return;
            }
            self.send_or_keep(buffer);
        }
    }

    /// Writes the next reply, or its next piece; returns false if there is none.
    fn write_next_reply(&mut self, engine: &mut DiskEngine, buffer: &mut Vec<u8>) -> bool {
        let (ClientStage::Serving(session) | ClientStage::Leaving(Some(session))) = self.stage else { return false };
        if let Some(read_reply) = self.current_read.take() {
            self.write_read_piece(&session, read_reply, engine, buffer);
            return true;
        }
        let Some(due_reply) = self.due_replies.pop_front() else { return false };
        let ServerRequest { export, request, error, .. } = due_reply.client_request;
        match (error, request.command) {
            (Some((error, reason)), _) => reply::append_error(buffer, &session, request.cookie, error, reason),
            (None, NbdCommand::Read) => {
                self.write_read_piece(&session, ReadReply { due_reply, sent_bytes: 0 }, engine, buffer);
                return true;
            }
            (None, NbdCommand::BlockStatus) => {
                reply::append_block_status(buffer, &request, engine.allocated_extents(export, &request))
            }
            (None, _) => reply::append_success(buffer, request.cookie),
        }
        self.open_requests -= 1;
        true
    }

    /// Writes the next piece of a read.
    fn write_read_piece(
        &mut self,
        session: &NbdSession,
        mut read_reply: ReadReply,
        engine: &mut DiskEngine,
        buffer: &mut Vec<u8>,
    ) {
        let ServerRequest { request, .. } = read_reply.due_reply.client_request;
        let (offset, remaining_bytes) =
            (request.offset + u64::from(read_reply.sent_bytes), request.length - read_reply.sent_bytes);
        let bytes = remaining_bytes.min(READ_PIECE_BYTES);
        // with several chunks an error can still be reported after some of them were sent
        let in_chunks = session.structured && !request.flags.has(CommandFlags::DF);
        let start = buffer.len();
        if in_chunks {
            reply::append_data_header(buffer, request.cookie, offset, bytes, bytes == remaining_bytes);
        } else if read_reply.sent_bytes == 0 {
            reply::append_read_header(buffer, session, &request);
        }
        let data_start = buffer.len();
        buffer.resize(data_start + bytes as usize, 0);
        match engine.read(&read_reply.due_reply.client_request, offset, &mut buffer[data_start..]) {
            Ok(()) => {
                read_reply.sent_bytes += bytes;
                if bytes < remaining_bytes {
                    self.current_read = Some(read_reply);
                    return;
                }
            }
            Err((error, reason)) => {
                buffer.truncate(start);
                if in_chunks || read_reply.sent_bytes == 0 {
                    reply::append_error(buffer, session, request.cookie, error, reason);
                } else {
                    // the header has promised data that is not available: close the connection
                    // rather than send wrong data
                    self.is_broken = true;
                }
            }
        }
        self.open_requests -= 1;
    }

    /// Sends output that the kernel did not accept before.
    fn send_unsent(&mut self) {
        if self.unsent_bytes() > 0 {
            self.sent_bytes += send_bytes(&self.fd, &self.output[self.sent_bytes..], &mut self.is_broken);
        }
        if self.unsent_bytes() == 0 {
            // an idle client keeps no buffer
            (self.output, self.sent_bytes) = (Vec::new(), 0);
        }
    }

    /// Sends replies, and keeps what the kernel does not accept.
    fn send_or_keep(&mut self, replies: &[u8]) {
        let sent_bytes = send_bytes(&self.fd, replies, &mut self.is_broken);
        if sent_bytes < replies.len() {
            self.output = replies[sent_bytes..].to_vec();
        }
    }
}

/// Returns how many of `received` bytes from position `first` on may be written, if the write has
/// `left` bytes left: up to its end, or the end of the last complete sector.
fn usable_bytes(first: u64, received: usize, left: usize) -> usize {
    match received >= left {
        true => left,
        false => received.saturating_sub((first.wrapping_add(received as u64) % BLOCK_BYTES) as usize),
    }
}

/// Sends bytes and returns how many the kernel accepted; sets `is_broken` if the peer has closed
/// the connection.
fn send_bytes(fd: &OwnedFd, bytes: &[u8], is_broken: &mut bool) -> usize {
    let mut sent_bytes = 0;
    while sent_bytes < bytes.len() {
        match send(fd, &bytes[sent_bytes..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(accepted_bytes) => sent_bytes += accepted_bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => {
                *is_broken = true;
                break;
            }
        }
    }
    sent_bytes
}
