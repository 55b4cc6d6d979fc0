//! Orders: flushes and trims, which move no data. They go the way of all
//! requests down to what holds data, and there each sort of part does its own:
//!
//! - A cache that posts writes and would lose them with the power sends them
//!   below first; one with a battery answers a flush at once. A trim goes
//!   through: what is still to be written is written.
//! - An array passes a flush on to all members that are there, a trim to those
//!   that hold the data. Where there is parity only whole rows are trimmed, data
//!   and parity: with a part of a row it would no longer be the parity.
//! - A mechanical drive flushes alone (FLUSH CACHE of ATA cannot be queued):
//!   first it ends what it has seen, then it writes what it had reported early,
//!   and what came meanwhile waits. A trim is nothing to it.
//! - An SSD takes both as commands among others; see [`crate::flash::Flash::flush`].

use super::arrays::ArrayRun;
use super::changes::Health;
use super::drives::{DriveKind, DriveRun};
use super::job::{JobPurpose, Parent, SimulationJob};
use super::path::{PathStart, PathStep};
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::array::{ArrayRequest, MemberIoPlan, Members};
use crate::io::Io;

/// Most blocks of an array that one step of a trim is of (64 MB), so that its plan stays small.
const STEP_BLOCKS: u64 = 1 << 17;

impl Simulation {
    /// Asks the same of something else, on behalf of a job that waits for it.
    pub(super) fn pass_on(&mut self, now: Ns, whole: u32, io: Io, start: PathStart) {
        let what = self.jobs[whole].what;
        let job = self.jobs.add(SimulationJob { what, ..SimulationJob::new(io, start, Parent::Every { job: whole }) });
        self.advance(now, job);
    }

    /// One of those to whom an order was passed on is done.
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

    /// An order comes to an array.
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
        let there = run.present();
        // counted with one more, so that it is not done before all are asked
        self.jobs[job].parts = 1;
        for member in there.iter() {
            self.jobs[job].parts += 1;
            let start = self.arrays[usize::from(array)].members[usize::from(member)];
            self.pass_on(now, job, Io::read(0, 0), start);
        }
        self.one_of_every(now, job);
    }

    /// The next step of an order at an array, or its end.
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

    /// A request comes to a drive that cannot take it up just so.
    pub(super) fn drive_wait(&mut self, now: Ns, drive: u32, job: u32) {
        let run = &mut self.drives[drive as usize];
        if run.health == Health::Dead {
            return self.drive_answers_nothing(now, drive, job);
        }
        run.waiting.push_back(job);
        if run.hangs && run.meter.working() < run.servers() {
            // whoever asked sees it at work
            run.meter.start(now);
            run.begun += 1;
        }
        if !self.jobs[job].what.moves_data() {
            run.orders += 1;
            self.drive_admit(now, drive);
        }
    }

    /// Lets a drive see as many of those that wait as it may.
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
                    // as an event: whoever waits for it may ask this drive again
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

    /// The first of those that wait for a drive, where it may see it now.
    fn drive_next_waiting(&self, drive: u32) -> Option<(u32, JobPurpose)> {
        let run = &self.drives[drive as usize];
        let job = *run.waiting.front()?;
        let what = self.jobs[job].what;
        let waits = what == JobPurpose::Flush && run.is_mechanical() && run.seen > 0;
        (run.is_open() && run.seen < run.depth && !waits).then_some((job, what))
    }

    /// A drive is done with a request while others may wait for more than their turn.
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
    /// It takes requests up, as far as it has room.
    fn is_open(&self) -> bool {
        !self.alone && !self.hangs && self.health == Health::Works
    }
}

impl ArrayRun {
    /// The members that are there: also those that are being rebuilt.
    pub fn present(&self) -> Members {
        let state = self.planner.state();
        (0..self.planner.array().members()).collect::<Members>().less(state.failed.less(state.rebuilding))
    }

    /// Blocks that a trim's stretch is cut to whole ones of.
    fn row_of_trims(&self) -> u64 {
        let array = self.planner.array();
        if array.parities() > 0 { array.row_blocks() } else { 1 }
    }

    /// The part of a range that members can be told of.
    fn trimmed(&self, io: Io) -> Io {
        let row = self.row_of_trims();
        let end = io.end().min(self.planner.array().blocks()) / row * row;
        let first = io.first.min(end).next_multiple_of(row).min(end);
        Io { first, blocks: (end - first) as u32, write: true }
    }

    /// As much of that as one plan is made of.
    fn step_of(&self, left: Io) -> Io {
        let row = self.row_of_trims();
        let most = (STEP_BLOCKS / row).max(1).saturating_mul(row);
        Io { blocks: u64::from(left.blocks).min(most) as u32, ..left }
    }
}
