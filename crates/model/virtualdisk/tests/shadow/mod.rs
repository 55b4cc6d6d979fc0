//! A load of random requests over several connections, and a shadow that records the possible
//! content of the disk.
//!
//! The disk is divided into cells of 256 bytes. The shadow records for each cell which writes it
//! may hold: one when nothing is in flight; the old and the new until a write is acknowledged; for
//! a write whose connection broke, both from then on. Writes that were in flight at the same time
//! may have been done in any order; a cell may then hold a part of one and a part of another.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use diskwright_base::Rng;
use diskwright_virtualdisk::nbd::client::{ClientOptions, ClientRequest, NbdClient};
use diskwright_virtualdisk::nbd::request::NbdRequest;
use diskwright_virtualdisk::nbd::wire::{CommandFlags, NbdCommand};

use super::served::REPLY_TIMEOUT;

pub const CELL: u64 = 256;
const NONE: CommandFlags = CommandFlags(0);
const CONNECTIONS: usize = 3;
const DEPTH: usize = 16;

/// Number of a write; 0 stands for zeros.
type Stamp = u64;

/// Possible content of a cell.
#[derive(Clone, Default)]
struct Cell {
    /// Write from before those in flight.
    settled: Vec<Stamp>,
    /// Writes since some write has been in flight continuously.
    fresh: Vec<Stamp>,
    in_flight: u32,
    /// One of them was acknowledged.
    is_acknowledged: bool,
}

impl Cell {
    fn possible_stamps(&self) -> Vec<Stamp> {
        self.settled.iter().chain(&self.fresh).copied().collect()
    }

    fn end_write(&mut self, answered: bool) {
        self.in_flight -= 1;
        self.is_acknowledged |= answered;
        if self.in_flight == 0 {
            if std::mem::take(&mut self.is_acknowledged) {
                self.settled.clear();
            }
            self.settled.append(&mut self.fresh);
        }
    }
}

struct Flight {
    command: NbdCommand,
    cells: std::ops::Range<u64>,
    stamp: Stamp,
    /// For a read: possible content of each cell.
    may: Vec<Vec<Stamp>>,
}

struct Connection {
    client: NbdClient<UnixStream>,
    flights: HashMap<u64, Flight>,
}

/// Counts of the completed requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub reads: u64,
    pub writes: u64,
    pub zeroes: u64,
    pub trims: u64,
    pub flushes: u64,
    pub losses: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

pub struct Load {
    path: PathBuf,
    export: String,
    cells: Vec<Cell>,
    connections: Vec<Connection>,
    rng: Rng,
    stamps: Stamp,
    pub tally: Tally,
}

/// Returns a byte of the content that a write leaves in a cell.
fn byte(stamp: Stamp, cell: u64, index: usize) -> u8 {
    if stamp == 0 {
        return 0;
    }
    let mixed = (stamp ^ (cell << 20) ^ ((index as u64 / 8) << 52)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).to_le_bytes()[index % 8]
}

fn data(stamp: Stamp, cells: &std::ops::Range<u64>) -> Vec<u8> {
    cells.clone().flat_map(|cell| (0..CELL as usize).map(move |index| byte(stamp, cell, index))).collect()
}

/// Returns true if every byte is of a write that the cell may hold.
fn is_possible(found: &[u8], cell: u64, may: &[Stamp]) -> bool {
    let of = |index: usize| may.iter().any(|stamp| byte(*stamp, cell, index) == found[index]);
    (0..found.len()).all(of)
}

fn connect(path: &Path, export: &str) -> NbdClient<UnixStream> {
    let stream = UnixStream::connect(path).expect("served");
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).expect("a timeout");
    NbdClient::start(stream, export, ClientOptions::default()).expect("a handshake")
}

impl Load {
    /// Starts a load on an export that holds zeros.
    pub fn new(path: &Path, export: &str, seed: u64) -> Load {
        let mut load = Load {
            path: path.to_owned(),
            export: export.to_owned(),
            cells: Vec::new(),
            connections: Vec::new(),
            rng: Rng::new(seed, 0),
            stamps: 0,
            tally: Tally::default(),
        };
        load.fill_connections();
        let bytes = load.connections[0].client.export_info().bytes;
        load.cells = vec![Cell { settled: vec![0], ..Cell::default() }; (bytes / CELL) as usize];
        load
    }

    fn fill_connections(&mut self) {
        while self.connections.len() < CONNECTIONS {
            let client = connect(&self.path, &self.export);
            self.connections.push(Connection { client, flights: HashMap::new() });
        }
    }

    /// Continues at another address that serves the same disk.
    pub fn move_to(&mut self, path: &Path) {
        self.forget_connections();
        self.path = path.to_owned();
        self.fill_connections();
    }

    pub fn forget_connections(&mut self) {
        while !self.connections.is_empty() {
            self.break_connection(0);
        }
    }

    /// Sends a number of requests; the last of them stay in flight.
    pub fn run_requests(&mut self, requests: usize) {
        for _ in 0..requests {
            let index = self.random_below(CONNECTIONS as u64) as usize;
            while self.connections[index].flights.len() >= DEPTH {
                self.receive(index);
            }
            self.send(index);
        }
    }

    /// Waits until everything is answered.
    pub fn wait_for_all(&mut self) {
        for index in 0..self.connections.len() {
            while !self.connections[index].flights.is_empty() {
                self.receive(index);
            }
        }
    }

    /// Reads and checks the whole disk.
    pub fn verify_disk(&mut self) {
        self.wait_for_all();
        let step = 1024;
        for first in (0..self.cells.len() as u64).step_by(step) {
            let end = (first + step as u64).min(self.cells.len() as u64);
            self.start_request(0, NbdCommand::Read, first..end, NONE);
            self.receive(0);
        }
    }

    /// Breaks one connection with requests in flight, and opens it again.
    pub fn break_random_connection(&mut self) {
        let index = self.random_below(CONNECTIONS as u64) as usize;
        // half of them in the middle of a write
        if self.random_below(2) == 0 {
            let cells = self.random_range();
            self.stamps += 1;
            self.begin_write(&cells, self.stamps);
            let data = data(self.stamps, &cells);
            let request = NbdRequest {
                flags: NONE,
                command: NbdCommand::Write,
                cookie: u64::MAX,
                offset: cells.start * CELL,
                length: data.len() as u32,
            };
            let part = self.random_below(data.len() as u64) as usize;
            let connection = &mut self.connections[index];
            connection.client.push().expect("sent");
            let mut stream = connection.client.stream();
            stream.write_all(&request.encode_header()).and_then(|()| stream.write_all(&data[..part])).expect("sent");
            let flight = Flight { command: NbdCommand::Write, cells, stamp: self.stamps, may: Vec::new() };
            connection.flights.insert(u64::MAX, flight);
        }
        self.break_connection(index);
        self.fill_connections();
    }

    fn break_connection(&mut self, index: usize) {
        let Connection { client, flights } = self.connections.swap_remove(index);
        drop(client);
        for flight in flights.into_values().filter(|flight| flight.command != NbdCommand::Read) {
            self.end_write(&flight, false);
        }
        self.tally.losses += 1;
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.rng.next_below(limit)
    }

    fn random_range(&mut self) -> std::ops::Range<u64> {
        let longest = match self.random_below(20) {
            0 => 1024,
            1..5 => 128,
            _ => 20,
        };
        let all = self.cells.len() as u64;
        let length = (1 + self.random_below(longest)).min(all);
        let first = self.random_below(all - length + 1);
        first..first + length
    }

    fn send(&mut self, index: usize) {
        let cells = self.random_range();
        let fua = if self.random_below(10) == 0 { CommandFlags::FUA } else { NONE };
        match self.random_below(100) {
            0..45 => self.start_request(index, NbdCommand::Read, cells, NONE),
            45..80 => self.start_request(index, NbdCommand::Write, cells, fua),
            80..87 => self.start_request(index, NbdCommand::Trim, cells, fua),
            87..91 => self.start_request(index, NbdCommand::WriteZeroes, cells, fua),
            91..95 => self.start_request(index, NbdCommand::WriteZeroes, cells, fua.with(CommandFlags::NO_HOLE)),
            _ => self.start_request(index, NbdCommand::Flush, 0..0, NONE),
        }
    }

    fn start_request(&mut self, index: usize, command: NbdCommand, cells: std::ops::Range<u64>, flags: CommandFlags) {
        let (offset, bytes) = (cells.start * CELL, (cells.end - cells.start) * CELL);
        let mut flight = Flight { command, cells: cells.clone(), stamp: 0, may: Vec::new() };
        match command {
            NbdCommand::Read => flight.may = self.part(&cells).iter().map(Cell::possible_stamps).collect(),
            NbdCommand::Flush => {}
            _ => {
                if command == NbdCommand::Write {
                    self.stamps += 1;
                    flight.stamp = self.stamps;
                }
                self.begin_write(&cells, flight.stamp);
            }
        }
        let data = if command == NbdCommand::Write { data(flight.stamp, &cells) } else { Vec::new() };
        let length = bytes as u32;
        let ask = match command {
            NbdCommand::Read => ClientRequest::Read { offset, length },
            NbdCommand::Write => ClientRequest::Write { offset, data: &data },
            NbdCommand::Flush => ClientRequest::Flush,
            _ => ClientRequest::Other { command, offset, length },
        };
        let connection = &mut self.connections[index];
        let cookie = connection.client.send_request(ask, flags).expect("sent");
        connection.client.push().expect("sent");
        connection.flights.insert(cookie, flight);
    }

    fn part(&self, cells: &std::ops::Range<u64>) -> &[Cell] {
        &self.cells[cells.start as usize..cells.end as usize]
    }

    fn begin_write(&mut self, cells: &std::ops::Range<u64>, stamp: Stamp) {
        for cell in cells.clone() {
            let cell = &mut self.cells[cell as usize];
            cell.in_flight += 1;
            cell.fresh.push(stamp);
        }
        let reads = self.connections.iter_mut().flat_map(|connection| connection.flights.values_mut());
        for read in reads.filter(|flight| flight.command == NbdCommand::Read) {
            let both = read.cells.start.max(cells.start)..read.cells.end.min(cells.end);
            both.for_each(|cell| read.may[(cell - read.cells.start) as usize].push(stamp));
        }
    }

    /// Records that a write was acknowledged, or that its connection broke.
    fn end_write(&mut self, flight: &Flight, answered: bool) {
        for cell in flight.cells.clone() {
            self.cells[cell as usize].end_write(answered);
        }
    }

    fn receive(&mut self, index: usize) {
        let Connection { client, flights } = &mut self.connections[index];
        let answer = client.receive_reply().expect("an answer");
        assert_eq!(answer.error, None, "{:?} of {} bytes at {}", answer.command, answer.length, answer.offset);
        let flight = flights.remove(&answer.cookie).expect("was asked");
        for ((cell, found), may) in flight.cells.clone().zip(answer.data.chunks(CELL as usize)).zip(&flight.may) {
            assert!(
                is_possible(found, cell, may),
                "wrong data in cell {cell}: begins with {:02x?}; it may be of {may:?}",
                &found[..8]
            );
        }
        let bytes = u64::from(answer.length);
        let tally = &mut self.tally;
        match flight.command {
            NbdCommand::Read => {
                tally.reads += 1;
                tally.bytes_read += bytes;
                return;
            }
            NbdCommand::Flush => {
                tally.flushes += 1;
                return;
            }
            NbdCommand::Write => {
                tally.writes += 1;
                tally.bytes_written += bytes;
            }
            NbdCommand::Trim => tally.trims += 1,
            _ => tally.zeroes += 1,
        }
        self.end_write(&flight, true);
    }
}
