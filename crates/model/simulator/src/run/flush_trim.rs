//! Orders: flushes and trims, which move no data. They travel like all requests down to the part that holds the data,
//! and each kind of part handles them in its own way:
//!
//! - A cache with posted writes that it would lose with the power sends them below first; one with a battery completes
//!   a flush at once. A trim passes through: pending writes are still written.
//! - An array sends a flush to all present members, a trim to those that hold the data. With parity, only full rows are
//!   trimmed, data and parity: after a trim of part of a row the parity would be wrong.
//! - A mechanical drive flushes alone (FLUSH CACHE of ATA cannot be queued): it completes the requests it has seen,
//!   then writes the data it had acknowledged; requests that arrive meanwhile wait. It ignores trims.
//! - An SSD takes both as queued commands; see [`crate::flash::FlashDevice::submit_flush`].

use super::arrays::ArrayRun;
use super::changes::DriveHealth;
use super::drives::{DriveKind, DriveRun};
use super::job::{Job, JobPurpose, Parent};
use super::path::{PathStart, PathStep};
use super::{Event, Simulation};
use crate::Ns;
use crate::array::{ArrayRequest, MemberIoPlan, MemberSet};
use crate::io::Io;

/// Largest number of array blocks in one step of a trim (64 MB), so that its plan stays small.
const MAX_TRIM_STEP_BLOCKS: u64 = 1 << 17;

impl Simulation {
    /// Sends the same order to another target on behalf of a job that waits for it.
    pub(super) fn send_order(&mut self, now: Ns, whole: u32, io: Io, start: PathStart) {
        let what = self.jobs[whole].purpose;
        let job = self.jobs.insert(Job { purpose: what, ..Job::new(io, start, Parent::FanOut { job: whole }) });
        self.advance_job(now, job);
    }

    /// Completes one part of an order that was sent to several targets.
    pub(super) fn complete_order_part(&mut self, now: Ns, whole: u32) {
        self.jobs[whole].parts -= 1;
        if self.jobs[whole].parts > 0 {
            return;
        }
        match *self.paths.step_at(self.jobs[whole].step) {
            PathStep::Array(array) => self.continue_array_order(now, array, whole),
            _ => self.complete_step(now, whole),
        }
    }

    /// Submits a flush or trim to an array.
    pub(super) fn submit_order_to_array(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        run.meter.record_arrival(now);
        run.meter.record_start(now);
        self.jobs[job].arrived_at_array_ns = now;
        if self.jobs[job].purpose == JobPurpose::Trim {
            let whole = run.align_trim(self.jobs[job].io);
            self.jobs[job].io = whole;
            return self.continue_array_order(now, array, job);
        }
        let present = run.present_members();
        // starts at 1, so that the order is not done before it was sent to all members
        self.jobs[job].parts = 1;
        for member in present.iter() {
            self.jobs[job].parts += 1;
            let start = self.arrays[usize::from(array)].members[usize::from(member)];
            self.send_order(now, job, Io::read(0, 0), start);
        }
        self.complete_order_part(now, job);
    }

    /// Takes the next step of an order at an array, or completes it.
    fn continue_array_order(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        let left = self.jobs[job].io;
        if self.jobs[job].purpose == JobPurpose::Flush || left.blocks == 0 {
            run.meter.record_completion(now, self.jobs[job].arrived_at_array_ns);
            return self.complete_step(now, job);
        }
        let step = run.next_trim_step(left);
        self.jobs[job].io = Io { first: step.end(), blocks: left.blocks - step.blocks, ..left };
        let mut plan = MemberIoPlan::new();
        run.planner.plan_request(ArrayRequest { write: true, ..ArrayRequest::from(step) }, &mut plan);
        self.jobs[job].parts = 1;
        for io in plan.writes.iter().chain(&plan.writes_after_reads) {
            self.jobs[job].parts += 1;
            let start = self.arrays[usize::from(array)].members[usize::from(io.member)];
            self.send_order(now, job, io.to_io(), start);
        }
        self.complete_order_part(now, job);
    }

    /// Queues a request at a drive that cannot take it at once.
    pub(super) fn queue_at_drive(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        if run.health == DriveHealth::Failed {
            return self.complete_on_failed_drive(now, drive, job);
        }
        run.waiting.push_back(job);
        if run.is_hung && run.meter.servers_working() < run.server_count() {
            // its sender sees it in service
            run.meter.record_start(now);
            run.counted_in_service += 1;
        }
        if !self.jobs[job].purpose.moves_data() {
            run.waiting_orders += 1;
            self.admit_waiting(now, drive);
        }
    }

    /// Lets a drive see as many waiting requests as it may.
    pub(super) fn admit_waiting(&mut self, now: Ns, drive: u32) {
        self.drives[drive as usize].start_replacement(now);
        while let Some((job, what)) = self.next_admissible(drive) {
            let run = &mut self.drives[drive as usize];
            run.waiting.pop_front();
            if run.counted_in_service > 0 {
                run.counted_in_service -= 1;
                run.meter.record_stop(now);
            }
            run.waiting_orders -= u32::from(!what.moves_data());
            let flash = run.is_flash();
            match (what, &mut run.kind) {
                (JobPurpose::Trim, _) if !flash => {
                    run.meter.record_start(now);
                    run.meter.record_completion(now, self.jobs[job].arrived_ns);
                    self.jobs[job].step += 1;
                    // as an event: its parent may send another request to this drive
                    self.events.schedule(now, Event::JobReady { job });
                }
                (JobPurpose::Flush, DriveKind::Mechanical(_)) => self.start_drive_flush(now, drive, job),
                (_, DriveKind::Mechanical(mechanical)) => {
                    run.visible += 1;
                    mechanical.queue.push(&mechanical.drive, self.jobs[job].io, job);
                }
                _ => self.submit_to_drive(now, drive, job),
            }
        }
        let run = &mut self.drives[drive as usize];
        let open = run.is_open();
        run.admit_limit = if !open || run.waiting_orders > 0 { 0 } else { run.depth };
        match &run.kind {
            DriveKind::Mechanical(mechanical) if open && mechanical.serving.is_none() => {
                self.start_next_request(now, drive)
            }
            _ => {}
        }
    }

    /// Returns the first waiting request, if the drive may see it now.
    fn next_admissible(&self, drive: u32) -> Option<(u32, JobPurpose)> {
        let run = &self.drives[drive as usize];
        let job = *run.waiting.front()?;
        let what = self.jobs[job].purpose;
        let waits = what == JobPurpose::Flush && run.is_mechanical() && run.visible > 0;
        (run.is_open() && run.visible < run.depth && !waits).then_some((job, what))
    }

    /// Completes a request at a drive with special waiting rules in force, and admits waiting requests.
    pub(super) fn complete_and_admit(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.is_flushing = false;
        if let DriveKind::Mechanical(mechanical) = &mut run.kind {
            mechanical.serving = None;
        }
        self.admit_waiting(now, drive);
        self.complete_step(now, job);
    }
}

impl DriveRun {
    /// True if it accepts requests, as far as it has room.
    fn is_open(&self) -> bool {
        !self.is_flushing && !self.is_hung && self.health == DriveHealth::Working
    }
}

impl ArrayRun {
    /// Members that have a drive, including those being rebuilt.
    pub fn present_members(&self) -> MemberSet {
        let state = self.planner.state();
        (0..self.planner.array().member_count())
            .collect::<MemberSet>()
            .difference(state.failed.difference(state.rebuilding))
    }

    /// Granularity of trims, blocks.
    fn trim_unit_blocks(&self) -> u64 {
        let array = self.planner.array();
        if array.parity_count() > 0 { array.row_blocks() } else { 1 }
    }

    /// Clips a range to the part that members can trim.
    fn align_trim(&self, io: Io) -> Io {
        let row = self.trim_unit_blocks();
        let end = io.end().min(self.planner.array().capacity_blocks()) / row * row;
        let first = io.first.min(end).next_multiple_of(row).min(end);
        Io { first, blocks: (end - first) as u32, write: true }
    }

    /// Returns as much of a trim as fits one plan.
    fn next_trim_step(&self, left: Io) -> Io {
        let row = self.trim_unit_blocks();
        let max_blocks = (MAX_TRIM_STEP_BLOCKS / row).max(1).saturating_mul(row);
        Io { blocks: u64::from(left.blocks).min(max_blocks) as u32, ..left }
    }
}
