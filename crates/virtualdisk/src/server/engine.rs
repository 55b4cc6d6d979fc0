//! Requests of clients: their content, and the time that they take.

use std::collections::BTreeMap;

use diskwright_simulator::Ns;
use diskwright_simulator::array::Members;
use diskwright_simulator::run::{Answer, Outside, Simulation, What};
use diskwright_simulator::system::Target;

use super::changes::{Changes, blocks_of};
use super::exports::Export;
use crate::content::{Content, Trouble};
use crate::nbd::reply::Extent;
use crate::nbd::request::Request;
use crate::nbd::wire::{Command, CommandFlags, ErrorCode};

/// What a client is told: the code, and why for people.
pub type Failed = (ErrorCode, &'static str);

/// A client by its place, and the how manieth there it is: what is under way
/// for one that has gone is not answered to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    pub place: u32,
    pub turn: u32,
}

/// A request and who asked.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub client: ClientId,
    /// Position of the export.
    pub export: u16,
    pub request: Request,
    /// What went wrong with it so far.
    pub error: Option<Failed>,
    /// Members of the array that cannot give what it reads.
    pub avoid: Members,
}

/// A request that may be answered.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub wish: Wish,
    /// When it was to be answered, virtual time.
    pub due: Ns,
}

/// A wish under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    wish: Wish,
    /// What follows when the model has answered.
    then: Then,
    /// What has to be done before it may be answered: the model's time, the
    /// backing file's own flush.
    legs: u8,
}

/// What follows when the model has answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    /// A read that failed on a member is asked of the others.
    Again,
}

/// The simulation, what lies on its disks, and the requests under way.
pub struct Engine {
    pub simulation: Simulation,
    pub content: Content,
    pub exports: Vec<Export>,
    pub changes: Changes,
    /// What content could not follow of the model, by array.
    pub troubles: BTreeMap<usize, String>,
    pending: Vec<Pending>,
    free: Vec<u32>,
    done: Vec<Done>,
    /// Kept for its memory.
    answers: Vec<Answer>,
    /// Flushes for the thread that flushes the backing file.
    syncs: Option<std::sync::mpsc::Sender<u32>>,
}

impl Engine {
    /// Nothing is under way. `syncs` takes the numbers of flushes, where the
    /// content is in a file.
    pub fn new(
        simulation: Simulation,
        content: Content,
        exports: Vec<Export>,
        (drives, seed): (u32, u64),
        syncs: Option<std::sync::mpsc::Sender<u32>>,
    ) -> Engine {
        let changes = Changes::new(drives as usize, seed);
        Engine {
            simulation,
            content,
            exports,
            changes,
            troubles: BTreeMap::new(),
            pending: Vec::new(),
            free: Vec::new(),
            done: Vec::new(),
            answers: Vec::new(),
            syncs,
        }
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// A part of a write's data has come.
    pub fn write(&mut self, export: u16, offset: u64, data: &[u8]) -> Result<(), Failed> {
        self.content.write(self.exports[usize::from(export)].target, offset, data).map_err(code)
    }

    /// Data of a read that is answered now, or of a part of it from `offset` on.
    pub fn read(&mut self, wish: &Wish, offset: u64, into: &mut [u8]) -> Result<(), Failed> {
        let target = self.exports[usize::from(wish.export)].target;
        self.content.read_avoiding(target, offset, into, wish.avoid).map_err(code)
    }

    /// A request has come, with all of its data.
    pub fn begin(&mut self, at: Ns, mut wish: Wish) {
        let Request { command, offset, length, flags, .. } = wish.request;
        let target = self.exports[usize::from(wish.export)].target;
        if wish.error.is_none() {
            let done = match command {
                Command::Trim => self.content.trim(target, offset, length.into()),
                Command::WriteZeroes if flags.has(CommandFlags::NO_HOLE) => {
                    self.content.zero(target, offset, length.into())
                }
                Command::WriteZeroes => self.content.trim(target, offset, length.into()),
                _ => Ok(()),
            };
            wish.error = done.err().map(code);
        }
        let nothing = length == 0 && command != Command::Flush;
        if wish.error.is_some() || nothing || matches!(command, Command::BlockStatus | Command::Cache) {
            self.done.push(Done { wish, due: at });
            return;
        }
        let then = self.trouble(&mut wish);
        let tag = self.add(Pending { wish, then, legs: 1 });
        let through = flags.has(CommandFlags::FUA) && command != Command::Read;
        if let Some(syncs) = &self.syncs
            && (command == Command::Flush || through)
            && syncs.send(tag).is_ok()
        {
            self.pending[tag as usize].legs += 1;
        }
        self.ask(at, tag);
    }

    /// What the orders have made of a request: an error, or members to avoid.
    fn trouble(&mut self, wish: &mut Wish) -> Then {
        let Request { command, offset, length, .. } = wish.request;
        if !self.changes.any_fails() || !matches!(command, Command::Read | Command::Write | Command::WriteZeroes) {
            return Then::Nothing;
        }
        let io = blocks_of(offset, length.into(), command != Command::Read);
        match self.exports[usize::from(wish.export)].target {
            Target::Drive(drive) => {
                if self.changes.fails(drive, io.write) {
                    wish.error = Some((ErrorCode::Io, "the drive fails, as ordered"));
                }
                Then::Nothing
            }
            Target::Array(array) => {
                let (Some(map), Some(drives)) = (self.simulation.array(array), self.simulation.array_drives(array))
                else {
                    return Then::Nothing;
                };
                let failing = self.changes.failing_members(map, drives, &io);
                if io.write {
                    // an array gives a member up that did not take a write
                    let lost: Vec<u16> = failing.iter().collect();
                    lost.into_iter().for_each(|member| self.fail(array, member).unwrap_or_default());
                    return Then::Nothing;
                }
                wish.avoid = failing;
                if failing.is_empty() { Then::Nothing } else { Then::Again }
            }
        }
    }

    fn add(&mut self, pending: Pending) -> u32 {
        match self.free.pop() {
            Some(tag) => {
                self.pending[tag as usize] = pending;
                tag
            }
            None => {
                self.pending.push(pending);
                (self.pending.len() - 1) as u32
            }
        }
    }

    /// Puts a request to the model.
    fn ask(&mut self, at: Ns, tag: u32) {
        let Wish { export, request, .. } = self.pending[tag as usize].wish;
        let Request { command, flags, offset, length, .. } = request;
        // moving heads have to write zeroes; others are told to forget
        let holes = !flags.has(CommandFlags::NO_HOLE) && !self.exports[usize::from(export)].rotational;
        let what = match command {
            Command::Flush => What::Flush,
            Command::Trim => What::Trim,
            Command::WriteZeroes if holes => What::Trim,
            Command::Write | Command::WriteZeroes if flags.has(CommandFlags::FUA) => What::Through,
            _ => What::Transfer,
        };
        let io = blocks_of(offset, length.into(), command != Command::Read);
        self.simulation.ask_for(at, what, Outside { target: export, io, tag });
    }

    /// The backing file was flushed for a request; `error` where it was not.
    pub fn synced(&mut self, now: Ns, tag: u32, error: Option<ErrorCode>) {
        if let Some(error) = error {
            self.pending[tag as usize].wish.error = Some((error, "the backing file could not be flushed"));
        }
        self.leg(now, tag);
    }

    /// Lets virtual time go on; see [`Engine::take_done`].
    pub fn pass(&mut self, now: Ns) {
        self.simulation.pass_until(now);
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.simulation.answers());
        self.follow();
        for answer in answers.drain(..) {
            match std::mem::replace(&mut self.pending[answer.tag as usize].then, Then::Nothing) {
                Then::Nothing => self.leg(answer.at, answer.tag),
                Then::Again => self.ask(answer.at, answer.tag),
            }
        }
        self.answers = answers;
    }

    fn leg(&mut self, due: Ns, tag: u32) {
        let pending = &mut self.pending[tag as usize];
        pending.legs -= 1;
        if pending.legs == 0 {
            self.done.push(Done { wish: pending.wish, due });
            self.free.push(tag);
        }
    }

    /// Whether anything may be answered.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// What may be answered since it was last asked for. To be given back for its memory.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    /// Returns the memory of a list that [`Engine::take_done`] gave.
    pub fn give_back(&mut self, mut done: Vec<Done>) {
        done.clear();
        if self.done.capacity() < done.capacity() {
            done.append(&mut self.done);
            self.done = done;
        }
    }

    /// What of a request's stretch is allocated.
    pub fn extents(&mut self, export: u16, request: &Request) -> Vec<Extent> {
        let target = self.exports[usize::from(export)].target;
        let (mut at, end) = (request.offset, request.offset + u64::from(request.length));
        let mut extents = Vec::new();
        while at < end && extents.len() < MOST_EXTENTS {
            let Ok(extent) = self.content.holes(target, at, end - at) else { break };
            extents.push(Extent { bytes: extent.bytes, allocated: !extent.hole });
            at += extent.bytes.max(1);
        }
        extents
    }
}

/// Stretches that one answer tells of at most.
const MOST_EXTENTS: usize = 4096;

/// What a client is told of a trouble.
fn code(trouble: Trouble) -> Failed {
    match trouble {
        Trouble::NoSpace => (ErrorCode::Nospc, "no room where the content is kept"),
        Trouble::OutOfRange { .. } => (ErrorCode::Inval, "beyond the end"),
        _ => (ErrorCode::Io, "the disk fails"),
    }
}
