//! Requests of clients: their content, and the time that they take.

use std::collections::BTreeMap;

use diskwright_simulator::Ns;
use diskwright_simulator::array::Members;
use diskwright_simulator::run::{ExternalCompletion, ExternalRequest, JobPurpose, Simulation};
use diskwright_simulator::system::WorkloadTarget;

use super::changes::{Changes, blocks_of};
use super::exports::DiskExport;
use crate::content::{Content, Trouble};
use crate::nbd::reply::NbdExtent;
use crate::nbd::request::NbdRequest;
use crate::nbd::wire::{CommandFlags, ErrorCode, NbdCommand};

/// What a client is told: the code, and why for people.
pub type NbdFailure = (ErrorCode, &'static str);

/// What clients of a drive are told that an order made fail.
const DRIVE_FAILS: NbdFailure = (ErrorCode::Io, "the drive fails, as commanded");

/// A client by its place, and the how manieth there it is: what is under way
/// for one that has gone is not answered to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    pub place: u32,
    pub turn: u32,
}

/// A request and who asked.
#[derive(Clone, Copy, Debug)]
pub struct ServerRequest {
    pub client: ClientId,
    /// Position of the export.
    pub export: u16,
    pub request: NbdRequest,
    /// What went wrong with it so far.
    pub error: Option<NbdFailure>,
    /// Members of the array that cannot give what it reads.
    pub avoid: Members,
}

/// A request that may be answered.
#[derive(Clone, Copy, Debug)]
pub struct DueReply {
    pub wish: ServerRequest,
    /// When it was to be answered, virtual time.
    pub due: Ns,
}

/// A wish under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    wish: ServerRequest,
    /// What follows when the model has answered.
    then: FollowUp,
    /// What has to be done before it may be answered: the model's time, the
    /// backing file's own flush.
    legs: u8,
}

/// What follows when the model has answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowUp {
    Nothing,
    /// A read that failed on a member is asked of the others.
    Again,
    /// What was forgotten is to stay so: everything goes to the media.
    Flush,
}

/// The simulation, what lies on its disks, and the requests under way.
pub struct DiskEngine {
    pub simulation: Simulation,
    pub content: Content,
    pub exports: Vec<DiskExport>,
    pub changes: Changes,
    /// What content could not follow of the model, by array.
    pub troubles: BTreeMap<usize, String>,
    pending: Vec<Pending>,
    free: Vec<u32>,
    done: Vec<DueReply>,
    /// Kept for its memory.
    answers: Vec<ExternalCompletion>,
    /// Flushes for the thread that flushes the backing file.
    syncs: Option<std::sync::mpsc::Sender<u32>>,
}

impl DiskEngine {
    /// Nothing is under way. `syncs` takes the numbers of flushes, where the
    /// content is in a file.
    pub fn new(
        simulation: Simulation,
        content: Content,
        exports: Vec<DiskExport>,
        (drives, seed): (u32, u64),
        syncs: Option<std::sync::mpsc::Sender<u32>>,
    ) -> DiskEngine {
        let changes = Changes::new(drives as usize, seed);
        DiskEngine {
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
    pub fn write(&mut self, export: u16, offset: u64, data: &[u8]) -> Result<(), NbdFailure> {
        self.content.write(self.exports[usize::from(export)].target, offset, data).map_err(code)
    }

    /// Data of a read that is answered now, or of a part of it from `offset` on.
    pub fn read(&mut self, wish: &ServerRequest, offset: u64, into: &mut [u8]) -> Result<(), NbdFailure> {
        let target = self.exports[usize::from(wish.export)].target;
        if let WorkloadTarget::Drive(drive) = target
            && self.changes.has_failed(drive)
        {
            // an answer that waited for its client
            return Err(DRIVE_FAILS);
        }
        self.content.read_avoiding(target, offset, into, wish.avoid).map_err(code)
    }

    /// A request has come, with all of its data.
    pub fn begin(&mut self, time: Ns, mut wish: ServerRequest) {
        let NbdRequest { command, offset, length, flags, .. } = wish.request;
        let target = self.exports[usize::from(wish.export)].target;
        if wish.error.is_none() {
            let done = match command {
                NbdCommand::Trim => self.content.trim(target, offset, length.into()),
                NbdCommand::WriteZeroes if flags.has(CommandFlags::NO_HOLE) => {
                    self.content.zero(target, offset, length.into())
                }
                NbdCommand::WriteZeroes => self.content.trim(target, offset, length.into()),
                _ => Ok(()),
            };
            wish.error = done.err().map(code);
        }
        let nothing = length == 0 && command != NbdCommand::Flush;
        if wish.error.is_some() || nothing || matches!(command, NbdCommand::BlockStatus | NbdCommand::Cache) {
            self.done.push(DueReply { wish, due: time });
            return;
        }
        let through = flags.has(CommandFlags::FUA) && command != NbdCommand::Read;
        let mut then = self.trouble(&mut wish);
        if then == FollowUp::Nothing && through && self.purpose(&wish) == JobPurpose::Trim {
            then = FollowUp::Flush;
        }
        let tag = self.add(Pending { wish, then, legs: 1 });
        if let Some(syncs) = &self.syncs
            && (command == NbdCommand::Flush || through)
            && syncs.send(tag).is_ok()
        {
            self.pending[tag as usize].legs += 1;
        }
        self.ask(time, tag);
    }

    /// What the orders have made of a request: an error, or members to avoid.
    fn trouble(&mut self, wish: &mut ServerRequest) -> FollowUp {
        let NbdRequest { command, offset, length, .. } = wish.request;
        if !self.changes.any_fails() {
            return FollowUp::Nothing;
        }
        let target = self.exports[usize::from(wish.export)].target;
        if let WorkloadTarget::Drive(drive) = target
            && self.changes.has_failed(drive)
        {
            // flushes and trims as well: what they are to keep or to forget is not there
            wish.error = Some(DRIVE_FAILS);
            return FollowUp::Nothing;
        }
        if !matches!(command, NbdCommand::Read | NbdCommand::Write | NbdCommand::WriteZeroes) {
            return FollowUp::Nothing;
        }
        let io = blocks_of(offset, length.into(), command != NbdCommand::Read);
        match target {
            WorkloadTarget::Drive(drive) => {
                if self.changes.fails(drive, io.write) {
                    wish.error = Some(DRIVE_FAILS);
                }
                FollowUp::Nothing
            }
            WorkloadTarget::Array(array) => {
                let (Some(map), Some(drives)) = (self.simulation.array(array), self.simulation.array_drives(array))
                else {
                    return FollowUp::Nothing;
                };
                let failing = self.changes.failing_members(map, drives, &io);
                // nothing is asked of a member that was given up
                let state = self.simulation.array_state(array).unwrap_or_default();
                let failing = failing.less(state.failed.less(state.rebuilding));
                if io.write {
                    // an array gives a member up that did not take a write
                    let lost: Vec<u16> = failing.iter().collect();
                    lost.into_iter().for_each(|member| self.fail(array, member).unwrap_or_default());
                    return FollowUp::Nothing;
                }
                wish.avoid = failing;
                if failing.is_empty() { FollowUp::Nothing } else { FollowUp::Again }
            }
        }
    }

    /// A drive that is served by itself has failed: nothing that was asked of it before succeeds.
    pub fn refuse_pending(&mut self, drive: u32) {
        let DiskEngine { exports, pending, done, .. } = self;
        // those that are done already are among them, and are not looked at
        let wishes = pending.iter_mut().map(|one| &mut one.wish).chain(done.iter_mut().map(|one| &mut one.wish));
        for wish in wishes.filter(|wish| exports[usize::from(wish.export)].target == WorkloadTarget::Drive(drive)) {
            wish.error = wish.error.or(Some(DRIVE_FAILS));
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

    /// What a request is for the model.
    fn purpose(&self, wish: &ServerRequest) -> JobPurpose {
        let NbdRequest { command, flags, .. } = wish.request;
        // what cannot forget has to write zeroes
        let holes = !flags.has(CommandFlags::NO_HOLE) && self.exports[usize::from(wish.export)].trims;
        match command {
            NbdCommand::Flush => JobPurpose::Flush,
            NbdCommand::Trim => JobPurpose::Trim,
            NbdCommand::WriteZeroes if holes => JobPurpose::Trim,
            NbdCommand::Write | NbdCommand::WriteZeroes if flags.has(CommandFlags::FUA) => JobPurpose::Through,
            _ => JobPurpose::Transfer,
        }
    }

    /// Puts a request to the model.
    fn ask(&mut self, time: Ns, tag: u32) {
        let wish = self.pending[tag as usize].wish;
        let NbdRequest { command, offset, length, .. } = wish.request;
        let io = blocks_of(offset, length.into(), command != NbdCommand::Read);
        let what = self.purpose(&wish);
        self.simulation.ask_for(time, what, ExternalRequest { target: wish.export, io, tag });
    }

    /// Puts a flush to the model that a request is still to wait for.
    fn ask_flush(&mut self, time: Ns, tag: u32) {
        let target = self.pending[tag as usize].wish.export;
        let io = blocks_of(0, 0, false);
        self.simulation.ask_for(time, JobPurpose::Flush, ExternalRequest { target, io, tag });
    }

    /// The backing file was flushed for a request; `error` where it was not.
    pub fn synced(&mut self, now: Ns, tag: u32, error: Option<ErrorCode>) {
        if let Some(error) = error {
            self.pending[tag as usize].wish.error = Some((error, "the backing file could not be flushed"));
        }
        self.leg(now, tag);
    }

    /// Lets virtual time go on; see [`DiskEngine::take_done`].
    pub fn pass(&mut self, now: Ns) {
        self.simulation.pass_until(now);
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.simulation.answers());
        self.follow();
        for answer in answers.drain(..) {
            match std::mem::replace(&mut self.pending[answer.tag as usize].then, FollowUp::Nothing) {
                FollowUp::Nothing => self.leg(answer.at, answer.tag),
                FollowUp::Again => self.ask(answer.at, answer.tag),
                FollowUp::Flush => self.ask_flush(answer.at, answer.tag),
            }
        }
        self.answers = answers;
    }

    fn leg(&mut self, due: Ns, tag: u32) {
        let pending = &mut self.pending[tag as usize];
        pending.legs -= 1;
        if pending.legs == 0 {
            self.done.push(DueReply { wish: pending.wish, due });
            self.free.push(tag);
        }
    }

    /// Whether anything may be answered.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// What may be answered since it was last asked for. To be given back for its memory.
    pub fn take_done(&mut self) -> Vec<DueReply> {
        std::mem::take(&mut self.done)
    }

    /// Returns the memory of a list that [`DiskEngine::take_done`] gave.
    pub fn give_back(&mut self, mut done: Vec<DueReply>) {
        done.clear();
        if self.done.capacity() < done.capacity() {
            done.append(&mut self.done);
            self.done = done;
        }
    }

    /// What of a request's stretch is allocated.
    pub fn extents(&mut self, export: u16, request: &NbdRequest) -> Vec<NbdExtent> {
        let target = self.exports[usize::from(export)].target;
        let (mut position, end) = (request.offset, request.offset + u64::from(request.length));
        let mut extents = Vec::new();
        while position < end && extents.len() < MOST_EXTENTS {
            let Ok(extent) = self.content.holes(target, position, end - position) else { break };
            extents.push(NbdExtent { bytes: extent.bytes, allocated: !extent.hole });
            position += extent.bytes.max(1);
        }
        extents
    }
}

/// Stretches that one answer tells of at most.
const MOST_EXTENTS: usize = 4096;

/// What a client is told of a trouble.
fn code(trouble: Trouble) -> NbdFailure {
    match trouble {
        Trouble::NoSpace => (ErrorCode::Nospc, "no space left in the backing store"),
        Trouble::OutOfRange { .. } => (ErrorCode::Inval, "beyond the end"),
        _ => (ErrorCode::Io, "the disk fails"),
    }
}

#[cfg(test)]
mod tests {
    use diskwright_simulator::array::ArrayLevel;
    use diskwright_simulator::device::{DeviceModel, PlainSpec};
    use diskwright_simulator::spread::ServiceTimeDistribution;
    use diskwright_simulator::system::{Drives, Set, System};

    use super::*;
    use crate::content::ContentBacking;
    use crate::server::orders::FailureScope;

    const MS: Ns = 1_000_000;

    /// Drives that need 1 ms for a request, a flush too, and nothing to forget: one by itself, or two as a mirror.
    fn engine(drives: u32) -> DiskEngine {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 12,
            servers: 1,
            service: ServiceTimeDistribution::Constant(MS),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("one");
        system.drives.push(Drives::new("disk", drives, DeviceModel::Plain(spec.into())));
        if drives > 1 {
            system.arrays.push(Set::new("data", ArrayLevel::Raid1, (0..drives).collect()));
        }
        let served = crate::server::exports::exports(&system);
        let targets: Vec<WorkloadTarget> = served.iter().map(|export| export.target).collect();
        let simulation = Simulation::serving(&system, &targets).expect("valid");
        let content = Content::new(&system, &ContentBacking::Memory { most_bytes: None }).expect("memory");
        DiskEngine::new(simulation, content, served, (drives, 1), None)
    }

    /// How long a request takes.
    fn takes(engine: &mut DiskEngine, command: NbdCommand, flags: CommandFlags) -> Ns {
        let begun = engine.simulation.now();
        let request = NbdRequest { flags, command, cookie: 1, offset: 0, length: 4096 };
        let client = ClientId { place: 0, turn: 1 };
        engine.begin(begun, ServerRequest { client, export: 0, request, error: None, avoid: Members::NONE });
        (1..=5).for_each(|step| engine.pass(begun + step * MS));
        let done = engine.take_done();
        assert_eq!((done.len(), engine.under_way()), (1, 0), "{command:?}");
        done[0].due - begun
    }

    #[test]
    fn what_is_forgotten_with_forced_access_waits_for_a_flush() {
        let mut engine = engine(1);
        let (none, fua) = (CommandFlags::default(), CommandFlags::FUA);
        for command in [NbdCommand::Trim, NbdCommand::WriteZeroes] {
            assert_eq!(takes(&mut engine, command, none), 0, "{command:?}");
            assert!(takes(&mut engine, command, fua) >= MS, "{command:?}");
        }
        let kept = fua.with(CommandFlags::NO_HOLE);
        assert_eq!(takes(&mut engine, NbdCommand::WriteZeroes, kept), 2 * MS, "a write, and a flush");
        assert_eq!(takes(&mut engine, NbdCommand::Read, fua), MS, "a read has nothing to flush");
    }

    #[test]
    fn a_member_that_was_given_up_is_not_asked_once_more() {
        let takes = |errors: bool| {
            let mut engine = engine(2);
            if errors {
                engine.changes.fail(0, 1.0, FailureScope::All);
            }
            engine.fail(0, 0).expect("it works until now");
            takes(&mut engine, NbdCommand::Read, CommandFlags::default())
        };
        assert_eq!(takes(true), takes(false));
    }
}
