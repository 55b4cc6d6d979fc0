//! Execution of client requests: their content, and the time that they take.

use std::collections::BTreeMap;

use diskwright_simulator::Ns;
use diskwright_simulator::array::MemberSet;
use diskwright_simulator::run::{ExternalCompletion, ExternalRequest, JobPurpose, Simulation};
use diskwright_simulator::system::WorkloadTarget;

use super::drive_changes::{DriveChanges, to_block_range};
use super::exports::DiskExport;
use crate::content::{AccessError, Content};
use crate::nbd::reply::NbdExtent;
use crate::nbd::request::NbdRequest;
use crate::nbd::wire::{CommandFlags, ErrorCode, NbdCommand};

/// Failure as reported to a client: the code, and a readable reason.
pub type NbdFailure = (ErrorCode, &'static str);

/// Failure reported to clients of a drive that a command made fail.
const DRIVE_FAILURE: NbdFailure = (ErrorCode::Io, "the drive fails, as commanded");

/// Client slot and its generation: a request in flight for a client that has gone is not answered
/// to the next one in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    pub slot: u32,
    pub generation: u32,
}

/// A request and its client.
#[derive(Clone, Copy, Debug)]
pub struct ServerRequest {
    pub client: ClientId,
    /// Index of the export.
    pub export: u16,
    pub request: NbdRequest,
    /// Failure so far, if any.
    pub error: Option<NbdFailure>,
    /// Members of the array that cannot supply the data it reads.
    pub avoided_members: MemberSet,
}

/// A completed request whose reply is due.
#[derive(Clone, Copy, Debug)]
pub struct DueReply {
    pub client_request: ServerRequest,
    /// Time at which the reply is due, virtual time.
    pub due: Ns,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    client_request: ServerRequest,
    /// Action after the model has completed it.
    follow_up: FollowUp,
    /// Number of parts to complete before the reply: the model's time, the backing file's own
    /// flush.
    remaining_parts: u8,
}

/// Action after the model has completed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowUp {
    Nothing,
    /// A read that failed on a member is repeated on the others.
    Retry,
    /// Discarded data has to stay discarded: everything is flushed to the media.
    Flush,
}

/// The simulation, the content of its disks, and the requests in flight.
pub struct DiskEngine {
    pub simulation: Simulation,
    pub content: Content,
    pub exports: Vec<DiskExport>,
    pub changes: DriveChanges,
    /// Errors of content that could not follow the model, by array.
    pub content_errors: BTreeMap<usize, String>,
    pending: Vec<PendingRequest>,
    /// Tags of `pending` that no request uses.
    free_tags: Vec<u32>,
    due_replies: Vec<DueReply>,
    /// Reused buffer of completions.
    completions: Vec<ExternalCompletion>,
    /// Channel to the thread that flushes the backing file.
    flush_requests: Option<std::sync::mpsc::Sender<u32>>,
}

impl DiskEngine {
    /// Creates an engine with nothing in flight. `flush_requests` receives the tags of flushes, if
    /// the content is in a file.
    pub fn new(
        simulation: Simulation,
        content: Content,
        exports: Vec<DiskExport>,
        (drives, seed): (u32, u64),
        flush_requests: Option<std::sync::mpsc::Sender<u32>>,
    ) -> DiskEngine {
        let changes = DriveChanges::new(drives as usize, seed);
        DiskEngine {
            simulation,
            content,
            exports,
            changes,
            content_errors: BTreeMap::new(),
            pending: Vec::new(),
            free_tags: Vec::new(),
            due_replies: Vec::new(),
            completions: Vec::new(),
            flush_requests,
        }
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.pending.len() - self.free_tags.len()
    }

    /// Stores a part of a write's data that has arrived.
    pub fn write(&mut self, export: u16, offset: u64, data: &[u8]) -> Result<(), NbdFailure> {
        self.content.write(self.exports[usize::from(export)].target, offset, data).map_err(failure_for_client)
    }

    /// Reads the data of a reply, or a part of it from `offset` on.
    pub fn read(&mut self, client_request: &ServerRequest, offset: u64, buffer: &mut [u8]) -> Result<(), NbdFailure> {
        let target = self.exports[usize::from(client_request.export)].target;
        if let WorkloadTarget::Drive(drive) = target
            && self.changes.has_failed(drive)
        {
            // the drive failed while the reply waited for its client
            return Err(DRIVE_FAILURE);
        }
        self.content.read_avoiding(target, offset, buffer, client_request.avoided_members).map_err(failure_for_client)
    }

    /// Starts a request that has arrived with all of its data.
    pub fn begin_request(&mut self, time: Ns, mut client_request: ServerRequest) {
        let NbdRequest { command, offset, length, flags, .. } = client_request.request;
        let target = self.exports[usize::from(client_request.export)].target;
        if client_request.error.is_none() {
            let result = match command {
                NbdCommand::Trim => self.content.trim(target, offset, length.into()),
                NbdCommand::WriteZeroes if flags.has(CommandFlags::NO_HOLE) => {
                    self.content.write_zeros(target, offset, length.into())
                }
                NbdCommand::WriteZeroes => self.content.trim(target, offset, length.into()),
                _ => Ok(()),
            };
            client_request.error = result.err().map(failure_for_client);
        }
        let is_empty = length == 0 && command != NbdCommand::Flush;
        if client_request.error.is_some() || is_empty || matches!(command, NbdCommand::BlockStatus | NbdCommand::Cache)
        {
            self.due_replies.push(DueReply { client_request, due: time });
            return;
        }
        let is_fua = flags.has(CommandFlags::FUA) && command != NbdCommand::Read;
        let mut follow_up = self.apply_drive_failures(&mut client_request);
        if follow_up == FollowUp::Nothing && is_fua && self.job_purpose(&client_request) == JobPurpose::Trim {
            follow_up = FollowUp::Flush;
        }
        let tag = self.add_pending(PendingRequest { client_request, follow_up, remaining_parts: 1 });
        if let Some(flush_requests) = &self.flush_requests
            && (command == NbdCommand::Flush || is_fua)
            && flush_requests.send(tag).is_ok()
        {
            self.pending[tag as usize].remaining_parts += 1;
        }
        self.submit_to_model(time, tag);
    }

    /// Applies the failures that commands have set: sets the request's error, or the members to
    /// avoid.
    fn apply_drive_failures(&mut self, client_request: &mut ServerRequest) -> FollowUp {
        let NbdRequest { command, offset, length, .. } = client_request.request;
        if !self.changes.any_fails() {
            return FollowUp::Nothing;
        }
        let target = self.exports[usize::from(client_request.export)].target;
        if let WorkloadTarget::Drive(drive) = target
            && self.changes.has_failed(drive)
        {
            // flushes and trims fail as well: the data that they refer to is gone
            client_request.error = Some(DRIVE_FAILURE);
            return FollowUp::Nothing;
        }
        if !matches!(command, NbdCommand::Read | NbdCommand::Write | NbdCommand::WriteZeroes) {
            return FollowUp::Nothing;
        }
        let io = to_block_range(offset, length.into(), command != NbdCommand::Read);
        match target {
            WorkloadTarget::Drive(drive) => {
                if self.changes.request_fails(drive, io.write) {
                    client_request.error = Some(DRIVE_FAILURE);
                }
                FollowUp::Nothing
            }
            WorkloadTarget::Array(array) => {
                let (Some(map), Some(drives)) =
                    (self.simulation.array_geometry(array), self.simulation.array_drives(array))
                else {
                    return FollowUp::Nothing;
                };
                let failing = self.changes.failing_members(map, drives, &io);
                // failed members get no requests
                let state = self.simulation.array_state(array).unwrap_or_default();
                let failing = failing.difference(state.failed.difference(state.rebuilding));
                if io.write {
                    // an array fails a member that did not accept a write
                    let failed_members: Vec<u16> = failing.iter().collect();
                    failed_members.into_iter().for_each(|member| self.fail_member(array, member).unwrap_or_default());
                    return FollowUp::Nothing;
                }
                client_request.avoided_members = failing;
                if failing.is_empty() { FollowUp::Nothing } else { FollowUp::Retry }
            }
        }
    }

    /// Fails all requests in flight on a standalone drive that has failed.
    pub fn refuse_pending(&mut self, drive: u32) {
        let DiskEngine { exports, pending, due_replies, .. } = self;
        // completed entries are among them; changing them has no effect
        let requests = pending
            .iter_mut()
            .map(|entry| &mut entry.client_request)
            .chain(due_replies.iter_mut().map(|reply| &mut reply.client_request));
        for client_request in requests
            .filter(|client_request| exports[usize::from(client_request.export)].target == WorkloadTarget::Drive(drive))
        {
            client_request.error = client_request.error.or(Some(DRIVE_FAILURE));
        }
    }

    fn add_pending(&mut self, pending: PendingRequest) -> u32 {
        match self.free_tags.pop() {
            Some(tag) => {
                debug_assert!(self.pending[tag as usize].remaining_parts == 0, "the tag {tag} is free and in use");
                self.pending[tag as usize] = pending;
                tag
            }
            None => {
                self.pending.push(pending);
                (self.pending.len() - 1) as u32
            }
        }
    }

    /// Returns the purpose of a request for the model.
    fn job_purpose(&self, client_request: &ServerRequest) -> JobPurpose {
        let NbdRequest { command, flags, .. } = client_request.request;
        // exports without TRIM have to write zeros
        let may_trim =
            !flags.has(CommandFlags::NO_HOLE) && self.exports[usize::from(client_request.export)].supports_trim;
        match command {
            NbdCommand::Flush => JobPurpose::Flush,
            NbdCommand::Trim => JobPurpose::Trim,
            NbdCommand::WriteZeroes if may_trim => JobPurpose::Trim,
            NbdCommand::Write | NbdCommand::WriteZeroes if flags.has(CommandFlags::FUA) => JobPurpose::FuaWrite,
            _ => JobPurpose::Transfer,
        }
    }

    /// Submits a request to the model.
    fn submit_to_model(&mut self, time: Ns, tag: u32) {
        let client_request = self.pending[tag as usize].client_request;
        let NbdRequest { command, offset, length, .. } = client_request.request;
        let io = to_block_range(offset, length.into(), command != NbdCommand::Read);
        let purpose = self.job_purpose(&client_request);
        self.simulation.submit_with_purpose(time, purpose, ExternalRequest { target: client_request.export, io, tag });
    }

    /// Submits a flush to the model that a request still has to wait for.
    fn submit_flush(&mut self, time: Ns, tag: u32) {
        let target = self.pending[tag as usize].client_request.export;
        let io = to_block_range(0, 0, false);
        self.simulation.submit_with_purpose(time, JobPurpose::Flush, ExternalRequest { target, io, tag });
    }

    /// Completes the backing file's flush for a request; `error` if it failed.
    pub fn finish_sync(&mut self, now: Ns, tag: u32, error: Option<ErrorCode>) {
        if let Some(error) = error {
            self.pending[tag as usize].client_request.error = Some((error, "the backing file could not be flushed"));
        }
        self.finish_part(now, tag);
    }

    /// Advances virtual time; see [`DiskEngine::take_due_replies`].
    pub fn advance_time(&mut self, now: Ns) {
        self.simulation.advance_until(now);
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.simulation.drain_completions());
        self.follow_model();
        for completion in completions.drain(..) {
            match std::mem::replace(&mut self.pending[completion.tag as usize].follow_up, FollowUp::Nothing) {
                FollowUp::Nothing => self.finish_part(completion.done_ns, completion.tag),
                FollowUp::Retry => self.submit_to_model(completion.done_ns, completion.tag),
                FollowUp::Flush => self.submit_flush(completion.done_ns, completion.tag),
            }
        }
        self.completions = completions;
    }

    fn finish_part(&mut self, due: Ns, tag: u32) {
        let pending = &mut self.pending[tag as usize];
        assert!(pending.remaining_parts > 0, "request {tag} is complete and completes again");
        pending.remaining_parts -= 1;
        if pending.remaining_parts == 0 {
            debug_assert!(!self.free_tags.contains(&tag), "the tag {tag} is free already");
            self.due_replies.push(DueReply { client_request: pending.client_request, due });
            self.free_tags.push(tag);
        }
    }

    /// Returns true if any reply is due.
    pub fn has_due_replies(&self) -> bool {
        !self.due_replies.is_empty()
    }

    /// Returns the replies that have become due since the last call. Give the list back with
    /// [`DiskEngine::recycle_list`], which reuses its memory.
    pub fn take_due_replies(&mut self) -> Vec<DueReply> {
        std::mem::take(&mut self.due_replies)
    }

    /// Takes back a list that [`DiskEngine::take_due_replies`] returned, to reuse its memory.
    pub fn recycle_list(&mut self, mut replies: Vec<DueReply>) {
        replies.clear();
        if self.due_replies.capacity() < replies.capacity() {
            replies.append(&mut self.due_replies);
            self.due_replies = replies;
        }
    }

    /// Returns the allocated and unallocated extents of a request's range.
    pub fn allocated_extents(&mut self, export: u16, request: &NbdRequest) -> Vec<NbdExtent> {
        let target = self.exports[usize::from(export)].target;
        let (mut position, end) = (request.offset, request.offset + u64::from(request.length));
        let mut extents = Vec::new();
        while position < end && extents.len() < MAX_EXTENTS_PER_REPLY {
            let Ok(extent) = self.content.extent_at(target, position, end - position) else { break };
            extents.push(NbdExtent { bytes: extent.bytes, is_allocated: !extent.is_hole });
            position += extent.bytes.max(1);
        }
        extents
    }
}

/// Largest number of extents in one reply.
const MAX_EXTENTS_PER_REPLY: usize = 4096;

/// Returns the failure that a client receives for a content error.
fn failure_for_client(error: AccessError) -> NbdFailure {
    match error {
        AccessError::NoSpace => (ErrorCode::Nospc, "no space left in the backing store"),
        AccessError::OutOfRange { .. } => (ErrorCode::Inval, "beyond the end"),
        _ => (ErrorCode::Io, "the disk fails"),
    }
}

#[cfg(test)]
mod tests {
    use diskwright_simulator::array::ArrayLevel;
    use diskwright_simulator::device::{DeviceModel, PlainSpec};
    use diskwright_simulator::service_time::ServiceTimeDistribution;
    use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System};

    use super::*;
    use crate::content::ContentBacking;
    use crate::server::control::FailureScope;

    const MS: Ns = 1_000_000;

    /// Creates an engine of drives that need 1 ms for a request or a flush, and no time for a trim:
    /// one standalone drive, or two as a mirror.
    fn engine(drives: u32) -> DiskEngine {
        let spec = PlainSpec {
            name: "plain".into(),
            blocks: 1 << 12,
            servers: 1,
            service: ServiceTimeDistribution::Constant(MS),
            bytes_per_s: f64::INFINITY,
        };
        let mut system = System::new("one");
        system.drives.push(DriveGroupSpec::new("disk", drives, DeviceModel::Plain(spec.into())));
        if drives > 1 {
            system.arrays.push(ArraySpec::new("data", ArrayLevel::Raid1, (0..drives).collect()));
        }
        let served = crate::server::exports::list_exports(&system);
        let targets: Vec<WorkloadTarget> = served.iter().map(|export| export.target).collect();
        let simulation = Simulation::with_external_targets(&system, &targets).expect("valid");
        let content = Content::new(&system, &ContentBacking::Memory { max_bytes: None }).expect("memory");
        DiskEngine::new(simulation, content, served, (drives, 1), None)
    }

    /// Returns the time that a request takes.
    fn measure_request(engine: &mut DiskEngine, command: NbdCommand, flags: CommandFlags) -> Ns {
        let begun = engine.simulation.now();
        let request = NbdRequest { flags, command, cookie: 1, offset: 0, length: 4096 };
        let client = ClientId { slot: 0, generation: 1 };
        engine.begin_request(
            begun,
            ServerRequest { client, export: 0, request, error: None, avoided_members: MemberSet::NONE },
        );
        (1..=5).for_each(|step| engine.advance_time(begun + step * MS));
        let done = engine.take_due_replies();
        assert_eq!((done.len(), engine.in_flight()), (1, 0), "{command:?}");
        done[0].due - begun
    }

    #[test]
    fn trims_with_forced_unit_access_wait_for_a_flush() {
        let mut engine = engine(1);
        let (none, fua) = (CommandFlags::default(), CommandFlags::FUA);
        for command in [NbdCommand::Trim, NbdCommand::WriteZeroes] {
            assert_eq!(measure_request(&mut engine, command, none), 0, "{command:?}");
            assert!(measure_request(&mut engine, command, fua) >= MS, "{command:?}");
        }
        let kept = fua.with(CommandFlags::NO_HOLE);
        assert_eq!(measure_request(&mut engine, NbdCommand::WriteZeroes, kept), 2 * MS, "a write, and a flush");
        assert_eq!(measure_request(&mut engine, NbdCommand::Read, fua), MS, "a read has nothing to flush");
    }

    #[test]
    fn a_failed_member_gets_no_more_requests() {
        let takes = |errors: bool| {
            let mut engine = engine(2);
            if errors {
                engine.changes.set_failures(0, 1.0, FailureScope::All);
            }
            engine.fail_member(0, 0).expect("it works until now");
            measure_request(&mut engine, NbdCommand::Read, CommandFlags::default())
        };
        assert_eq!(takes(true), takes(false));
    }
}
