//! A server of bytes in memory for tests of the protocol: the loop of a real server, without time
//! and with a thread for each connection.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use diskwright_virtualdisk::nbd::handshake::{Handshake, HandshakeState, NbdExport, NbdSession};
use diskwright_virtualdisk::nbd::reply::{self, NbdExtent};
use diskwright_virtualdisk::nbd::request::{self, NbdRequest, RequestCheck, RequestParse};
use diskwright_virtualdisk::nbd::wire::{NbdCommand, REQUEST_BYTES};
use diskwright_virtualdisk::nbd::{Exports, ProtocolError};

/// Granularity of what counts as allocated, bytes.
pub const BLOCK: usize = 4096;

/// Exports and their bytes: one disk for each export.
pub struct Served {
    pub exports: Exports,
    pub disks: Vec<Mutex<Vec<u8>>>,
}

impl Served {
    pub fn new(list: Vec<NbdExport>) -> Arc<Self> {
        let disks = list.iter().map(|export| Mutex::new(vec![0; export.bytes as usize])).collect();
        Arc::new(Self { exports: Exports { list, default: Some(0) }, disks })
    }

    /// Serves one connection to its end, and returns the error that ended it.
    pub fn serve(&self, mut stream: impl Read + Write) -> std::io::Result<Option<ProtocolError>> {
        let (mut input, mut output, mut room) = (Vec::new(), Vec::new(), vec![0; 64 << 10]);
        let mut handshake = Handshake::start(&mut output);
        let mut skip = 0;
        let mut session = None;
        loop {
            let ended = match &session {
                None => {
                    let progress = handshake.process_input(&self.exports, &input, &mut output);
                    input.drain(..progress.consumed);
                    match progress.state {
                        HandshakeState::More => None,
                        HandshakeState::Close(why) => Some(Some(why)),
                        HandshakeState::Ready(agreed) => {
                            session = Some(agreed);
                            continue;
                        }
                    }
                }
                Some(session) => self.batch(session, &mut input, &mut skip, &mut output),
            };
            stream.write_all(&output)?;
            let waited = !output.is_empty() && session.is_none();
            output.clear();
            if let Some(why) = ended {
                return Ok(why);
            }
            if waited && !input.is_empty() {
                continue;
            }
            let read = stream.read(&mut room)?;
            input.extend_from_slice(&room[..read]);
            if read == 0 {
                return Ok(None);
            }
        }
    }

    /// Executes all requests that have arrived completely; returns a value if the connection ends.
    fn batch(
        &self,
        session: &NbdSession,
        input: &mut Vec<u8>,
        skip: &mut usize,
        output: &mut Vec<u8>,
    ) -> Option<Option<ProtocolError>> {
        let mut position = 0;
        let ended = loop {
            let skipped = (*skip).min(input.len() - position);
            position += skipped;
            *skip -= skipped;
            let request = match request::parse(&input[position..]) {
                RequestParse::Need(_) => break None,
                RequestParse::Broken(why) => break Some(Some(why)),
                RequestParse::Request(request) => request,
            };
            let behind = &input[position + REQUEST_BYTES..];
            match request::check_request(&request, &self.exports.list[session.export], session) {
                RequestCheck::Disconnect => break Some(None),
                RequestCheck::Close(why) => break Some(Some(why)),
                RequestCheck::Refuse(error, because) => {
                    reply::append_error(output, session, request.cookie, error, because);
                    *skip = request.payload_bytes() as usize;
                    position += REQUEST_BYTES;
                }
                RequestCheck::Do => {
                    let Some(data) = behind.get(..request.payload_bytes() as usize) else { break None };
                    self.request(session, &request, data, output);
                    position += REQUEST_BYTES + data.len();
                }
            }
        };
        input.drain(..position);
        ended
    }

    fn request(&self, session: &NbdSession, request: &NbdRequest, data: &[u8], output: &mut Vec<u8>) {
        let mut disk = self.disks[session.export].lock().expect("no panic");
        let from = request.offset as usize;
        let place = from..from + request.length as usize;
        match request.command {
            NbdCommand::Read => {
                reply::append_read_header(output, session, request);
                return output.extend_from_slice(&disk[place]);
            }
            NbdCommand::BlockStatus => {
                let blocks = disk[place].chunks(BLOCK);
                let extent =
                    |b: &[u8]| NbdExtent { bytes: b.len() as u64, is_allocated: b.iter().any(|byte| *byte != 0) };
                return reply::append_block_status(output, request, blocks.map(extent));
            }
            NbdCommand::Write => disk[place].copy_from_slice(data),
            NbdCommand::WriteZeroes | NbdCommand::Trim => disk[place].fill(0),
            _ => {}
        }
        reply::append_success(output, request.cookie);
    }

    /// Serves on a socket in `folder` until the test ends; returns its path.
    pub fn listen(self: &Arc<Self>, folder: &Path) -> PathBuf {
        let path = folder.join("nbd.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let served = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || served.serve(stream));
            }
        });
        path
    }
}
