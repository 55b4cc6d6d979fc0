//! Orders: flushes and trims, which move no data. They travel like all requests down to the part that holds the data,
//! and each kind of part handles them in its own way:
//!
//! - A cache with posted writes that it would lose with the power sends them below first; one with a battery completes
//!   a flush at once. A trim passes through: pending writes are still written.
//! - An array sends a flush to all present members, a trim to those that hold the data. With parity, only full rows are
//!   trimmed, data and parity: after a trim of part of a row the parity would be wrong.
//! - A mechanical drive flushes alone (FLUSH CACHE of ATA cannot be queued): it completes the requests it has seen,
//!   then writes the data it had acknowledged; requests that arrive meanwhile wait. It ignores trims.
//! - An SSD takes both as queued commands; see [`crate::flash::FlashDevice::flush`].

use super::arrays::ArrayRun;
use super::changes::Health;
use super::drives::{DriveKind, DriveRun};
use super::job::{JobPurpose, Parent, SimulationJob};
use super::path::{PathStart, PathStep};
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::array::{ArrayRequest, MemberIoPlan, Members};
use crate::io::Io;

/// Largest number of array blocks in one step of a trim (64 MB), so that its plan stays small.
const STEP_BLOCKS: u64 = 1 << 17;

impl Simulation {
    /// Sends the same order to another target on behalf of a job that waits for it.
    pub(super) fn pass_on(&mut self, now: Ns, whole: u32, io: Io, start: PathStart) {
        let what = self.jobs[whole].what;
        let job = self.jobs.add(SimulationJob { what, ..SimulationJob::new(io, start, Parent::Every { job: whole }) });
        self.advance(now, job);
    }

    /// Completes one part of an order that was sent to several targets.
    pub(super) fn one_of_every(&mut self, now: Ns, whole: u32) {
        self.jobs[whole].parts -= 1;
        if self.jobs[whole].parts > 0 {
            return;
        }
        match *self.paths.step(self.jobs[whole].step) {
            PathStep::Array(array) => self.array_order_goes_on(now, array, whole),
            _ => self.passed(now, whole),
        }
    }

    /// Submits a flush or trim to an array.
    pub(super) fn array_order(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        run.meter.arrive(now);
        run.meter.start(now);
        self.jobs[job].came_to_array = now;
        if self.jobs[job].what == JobPurpose::Trim {
            let whole = run.trimmed(self.jobs[job].io);
            self.jobs[job].io = whole;
            return self.array_order_goes_on(now, array, job);
        }
        let present = run.present();
        // starts at 1, so that the order is not done before it was sent to all members
        self.jobs[job].parts = 1;
        for member in present.iter() {
            self.jobs[job].parts += 1;
            let start = self.arrays[usize::from(array)].members[usize::from(member)];
            self.pass_on(now, job, Io::read(0, 0), start);
        }
        self.one_of_every(now, job);
    }

    /// Takes the next step of an order at an array, or completes it.
    fn array_order_goes_on(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        let left = self.jobs[job].io;
        if self.jobs[job].what == JobPurpose::Flush || left.blocks == 0 {
            run.meter.complete(now, self.jobs[job].came_to_array);
            return self.passed(now, job);
        }
        let step = run.step_of(left);
        self.jobs[job].io = Io { first: step.end(), blocks: left.blocks - step.blocks, ..left };
        let mut plan = MemberIoPlan::new();
        run.planner.plan(ArrayRequest { write: true, ..ArrayRequest::from(step) }, &mut plan);
        self.jobs[job].parts = 1;
        for io in plan.writes.iter().chain(&plan.after) {
            self.jobs[job].parts += 1;
            let start = self.arrays[usize::from(array)].members[usize::from(io.member)];
            self.pass_on(now, job, io.io(), start);
        }
        self.one_of_every(now, job);
    }

    /// Queues a request at a drive that cannot take it at once.
    pub(super) fn drive_wait(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        if run.health == Health::Dead {
            return self.drive_answers_nothing(now, drive, job);
        }
        run.waiting.push_back(job);
        if run.hangs && run.meter.working() < run.servers() {
            // its sender sees it in service
            run.meter.start(now);
            run.begun += 1;
        }
        if !self.jobs[job].what.moves_data() {
            run.orders += 1;
            self.drive_admit(now, drive);
        }
    }

    /// Lets a drive see as many waiting requests as it may.
    pub(super) fn drive_admit(&mut self, now: Ns, drive: u32) {
        self.drives[drive as usize].begin_afresh(now);
        while let Some((job, what)) = self.drive_next_waiting(drive) {
            let run = &mut self.drives[drive as usize];
            run.waiting.pop_front();
            if run.begun > 0 {
                run.begun -= 1;
                run.meter.stop(now);
            }
            run.orders -= u32::from(!what.moves_data());
            let flash = run.is_flash();
            match (what, &mut run.machine) {
                (JobPurpose::Trim, _) if !flash => {
                    run.meter.start(now);
                    run.meter.complete(now, self.jobs[job].came);
                    self.jobs[job].step += 1;
                    // as an event: its parent may send another request to this drive
                    self.events.schedule(now, SimulationEvent::Go { job });
                }
                (JobPurpose::Flush, DriveKind::Mechanical(_)) => self.drive_flush(now, drive, job),
                (_, DriveKind::Mechanical(mechanical)) => {
                    run.seen += 1;
                    mechanical.queue.push(&mechanical.drive, self.jobs[job].io, job);
                }
                _ => self.drive_take(now, drive, job),
            }
        }
        let run = &mut self.drives[drive as usize];
        let open = run.is_open();
        run.limit = if !open || run.orders > 0 { 0 } else { run.depth };
        match &run.machine {
            DriveKind::Mechanical(mechanical) if open && mechanical.serving.is_none() => self.drive_next(now, drive),
            _ => {}
        }
    }

    /// Returns the first waiting request, if the drive may see it now.
    fn drive_next_waiting(&self, drive: u32) -> Option<(u32, JobPurpose)> {
        let run = &self.drives[drive as usize];
        let job = *run.waiting.front()?;
        let what = self.jobs[job].what;
        let waits = what == JobPurpose::Flush && run.is_mechanical() && run.seen > 0;
        (run.is_open() && run.seen < run.depth && !waits).then_some((job, what))
    }

    /// Completes a request at a drive with special waiting rules in force, and admits waiting requests.
    pub(super) fn drive_done_slowly(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        run.alone = false;
        if let DriveKind::Mechanical(mechanical) = &mut run.machine {
            mechanical.serving = None;
        }
        self.drive_admit(now, drive);
        self.passed(now, job);
    }
}

impl DriveRun {
    /// True if it accepts requests, as far as it has room.
    fn is_open(&self) -> bool {
        !self.alone && !self.hangs && self.health == Health::Works
    }
}

impl ArrayRun {
    /// Members that have a drive, including those being rebuilt.
    pub fn present(&self) -> Members {
        let state = self.planner.state();
        (0..self.planner.array().members()).collect::<Members>().less(state.failed.less(state.rebuilding))
    }

    /// Granularity of trims, blocks.
    fn row_of_trims(&self) -> u64 {
        let array = self.planner.array();
        if array.parities() > 0 { array.row_blocks() } else { 1 }
    }

    /// Clips a range to the part that members can trim.
    fn trimmed(&self, io: Io) -> Io {
        let row = self.row_of_trims();
        let end = io.end().min(self.planner.array().blocks()) / row * row;
        let first = io.first.min(end).next_multiple_of(row).min(end);
        Io { first, blocks: (end - first) as u32, write: true }
    }

    /// Returns as much of a trim as fits one plan.
    fn step_of(&self, left: Io) -> Io {
        let row = self.row_of_trims();
        let max_blocks = (STEP_BLOCKS / row).max(1).saturating_mul(row);
        Io { blocks: u64::from(left.blocks).min(max_blocks) as u32, ..left }
    }
}
