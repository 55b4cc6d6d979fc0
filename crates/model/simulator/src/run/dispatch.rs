//! Moves jobs from one component to the next.
//!
//! A job is advanced until it must wait, and so are the jobs that it lets continue, depth first. Results depend on the
//! order of these steps, because it is the order of the events that they schedule.

use super::array_orders::MemberOrders;
use super::arrays::{ArrayCompletion, ArrayStep};
use super::caches::ReadyJobs;
use super::channels::ChannelUser;
use super::external::ExternalRequest;
use super::job::{Job, Parent};
use super::path::{END_PATH, PathStart, PathStep};
use super::{Event, Simulation};
use crate::Ns;
use crate::array::MemberIo;
use crate::io::Io;
use crate::load::Cause;

impl Simulation {
    /// Completes a job's current step and advances the job.
    #[inline]
    fn complete_step(&mut self, now: Ns, job: u32) {
        self.flow.jobs[job].step += 1;
        self.advance_job(now, job);
    }

    /// Advances a job until it has to wait.
    pub(super) fn advance_job(&mut self, now: Ns, job: u32) {
        while self.take_step(now, job) {
            self.flow.jobs[job].step += 1;
        }
    }

    /// Takes a job's current step. True if the job continues with the next step at once.
    #[inline]
    fn take_step(&mut self, now: Ns, job: u32) -> bool {
        match *self.paths.step_at(self.flow.jobs[job].step) {
            PathStep::Drive(drive) => {
                self.drives[drive as usize].arrive(now, job, &mut self.channels, &mut self.flow);
                false
            }
            PathStep::End => {
                self.finish_job(now, job);
                false
            }
            PathStep::Array(array) => {
                self.advance_at_array(now, array, job);
                false
            }
            PathStep::Compute => {
                !self.stations.run_time_slice(now, job, &mut self.flow) && self.issue_request(now, job)
            }
            PathStep::Visit { station, when, cost } => {
                !self.stations.visit_for_transfer(now, station, job, (when, &cost), &mut self.flow)
            }
            PathStep::Interrupt { cost } => !self.stations.interrupt(now, job, &cost, &mut self.flow),
            PathStep::Enter(gate) => self.gates[usize::from(gate)].enter(job),
            PathStep::Leave(gate) => {
                if let Some(next) = self.gates[usize::from(gate)].leave() {
                    self.flow.schedule_next_step(now, next);
                }
                true
            }
            PathStep::Split(max_blocks) => !self.split_job(now, job, max_blocks),
            PathStep::Channel { channel, when } => {
                let applies = when.applies_to(self.flow.jobs[job].io.write);
                if applies {
                    let channel = &mut self.channels[usize::from(channel)];
                    if channel.request(now, ChannelUser::Job(job)) {
                        channel.hold_for_job(now, job, &mut self.flow);
                    }
                }
                !applies
            }
            PathStep::Cache { cache, base } => match self.flow.jobs[job].purpose.moves_data() {
                true => self.submit_to_cache(now, cache, base, job),
                false => self.submit_order_to_cache(now, cache, base, job),
            },
        }
    }

    /// Ends a job's visit to a station.
    #[inline]
    pub(super) fn complete_visit(&mut self, now: Ns, station: u16, job: u32) {
        self.stations.complete_visit(now, station, job, &mut self.flow);
        // programs and arrays take the same step again, and check whether work is left
        match self.paths.step_at(self.flow.jobs[job].step) {
            PathStep::Compute | PathStep::Array(_) => self.advance_job(now, job),
            _ => self.complete_step(now, job),
        }
    }

    /// Ends a request at a drive.
    #[inline]
    pub(super) fn complete_drive_request(&mut self, now: Ns, drive: u32, job: u32) {
        if self.drives[drive as usize].complete_request(now, job, &mut self.channels, &mut self.flow) {
            self.complete_step(now, job);
        }
    }

    /// Ends the use of a channel, and grants it to the next user.
    pub(super) fn complete_channel_use(&mut self, now: Ns, channel: u16) {
        let Simulation { drives, channels, flow, .. } = self;
        let run = &mut channels[usize::from(channel)];
        if let Some(drive) = run.connected_drive()
            && drives[drive as usize].hold_back(Event::ChannelComplete { channel })
        {
            // the drive does not release the channel: all other users hang with it
            return;
        }
        let Some((ended, next)) = run.release(now) else { return };
        match next {
            Some(ChannelUser::Drive(drive)) => drives[drive as usize].hold_channel(now, run, flow),
            Some(ChannelUser::Job(job)) => run.hold_for_job(now, job, flow),
            None => {}
        }
        match ended.user {
            ChannelUser::Drive(drive) => {
                drives[drive as usize].finish_transfer(now, run.disconnects, run.delay_ns(&ended), flow);
            }
            ChannelUser::Job(job) => self.complete_step(now, job),
        }
    }

    /// Splits a job into parts of at most `max_blocks`. False if it is small enough.
    fn split_job(&mut self, now: Ns, job: u32, max_blocks: u32) -> bool {
        let Job { io, step, purpose, .. } = self.flow.jobs[job];
        if io.blocks <= max_blocks || !purpose.moves_data() {
            return false;
        }
        self.flow.jobs[job].parts = io.blocks.div_ceil(max_blocks);
        let mut first = io.first;
        while first < io.end() {
            let blocks = u64::from(max_blocks).min(io.end() - first) as u32;
            let part = self.flow.jobs.insert(Job::new(Io { first, blocks, ..io }, step + 1, Parent::Part { job }));
            self.advance_job(now, part);
            first += u64::from(blocks);
        }
        true
    }

    /// Finishes a job: its parent continues.
    fn finish_job(&mut self, now: Ns, job: u32) {
        let Job { io, began_ns, parent, purpose, .. } = self.flow.jobs[job];
        self.flow.jobs.remove(job);
        match parent {
            Parent::MemberIo { array, flight, member } => {
                let run = &mut self.arrays[usize::from(array)];
                let (job, step) = run.complete_member_io(now, (flight, member), io, &mut self.flow);
                self.take_array_step(now, array, job, step);
            }
            Parent::Load { load, user, .. } => {
                self.loads.count_completion(now, load, &io, began_ns);
                if now > began_ns {
                    self.advance_load_user(now, load, user, Cause::Done);
                } else {
                    // if a user never waits, time never passes
                    self.flow.events.schedule(now + 1, Event::UserReady { load, user });
                }
            }
            Parent::PostedLoad { load, .. } => self.loads.count_completion(now, load, &io, began_ns),
            Parent::CacheIo { cache, number } => {
                let ready = self.caches[usize::from(cache)].complete_io(now, number, &mut self.flow);
                self.advance_ready(now, cache, ready);
            }
            Parent::Part { job: parent_job } => {
                if self.flow.jobs.complete_part(parent_job) {
                    self.flow.jobs[parent_job].step = END_PATH;
                    self.finish_job(now, parent_job);
                }
            }
            Parent::External { tag, target } => {
                let request = ExternalRequest { target, io, tag };
                if let Some(flush) = self.external.complete(now, began_ns, purpose, request, &mut self.flow) {
                    self.advance_job(now, flush);
                }
            }
            Parent::FanOut { job: parent_job } => self.complete_order_part(now, parent_job),
            Parent::Background { .. } | Parent::Gathered { .. } => {}
        }
    }
}

/// Loads.
impl Simulation {
    /// Advances a user of a load, and begins or schedules its next requests.
    pub(super) fn advance_load_user(&mut self, now: Ns, load: u16, user: u32, cause: Cause) {
        let mut requests = self.loads.advance_user(now, load, user, cause);
        for request in requests.drain(..) {
            if let Some(job) = self.loads.begin_or_schedule(now, load, request, cause, &mut self.flow) {
                self.advance_job(now, job);
            }
        }
        self.loads.end_advance(load, requests);
    }

    /// Begins a request whose program has used its processor time. True if its job continues: without blocks there is
    /// no request, and the job is finished.
    fn issue_request(&mut self, now: Ns, job: u32) -> bool {
        let request = &mut self.flow.jobs[job];
        request.began_ns = now;
        match request.parent {
            Parent::Load { load, user, notify: true } | Parent::PostedLoad { load, user, notify: true } => {
                self.advance_load_user(now, load, user, Cause::Issued);
            }
            _ => {}
        }
        let request = &mut self.flow.jobs[job];
        let is_empty = request.io.blocks == 0 && request.purpose.moves_data();
        if is_empty {
            request.step = END_PATH;
            self.finish_job(now, job);
        }
        !is_empty
    }
}

/// Orders: flushes and trims, which move no data. They travel like all requests down to the part that holds the data,
/// and each kind of part handles them in its own way. A cache with posted writes that it would lose with the power
/// sends them below first; one with a battery completes a flush at once. A trim passes through: pending writes are
/// still written. For arrays see `array_orders.rs`, for drives `drive_admission.rs`.
impl Simulation {
    /// Sends an order to another target on behalf of a job that waits for it.
    fn send_order(&mut self, now: Ns, parent: u32, io: Io, path: PathStart) {
        let purpose = self.flow.jobs[parent].purpose;
        let job = self.flow.jobs.insert(Job { purpose, ..Job::new(io, path, Parent::FanOut { job: parent }) });
        self.advance_job(now, job);
    }

    /// Sends an order to the volume below a cache, once the cache itself has carried it out.
    fn send_order_below_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) {
        let below = self.caches[usize::from(cache)].path_below(base);
        self.flow.jobs[job].parts = 1;
        self.send_order(now, job, self.flow.jobs[job].io, below);
    }

    /// Sends orders to members of an array; without orders, completes the job.
    fn send_order_to_members(&mut self, now: Ns, job: u32, orders: Option<MemberOrders>) {
        let Some(orders) = orders else { return self.complete_step(now, job) };
        // counts one part more than there are orders, so that the job is not done before all of them were sent
        self.flow.jobs[job].parts = orders.len() as u32 + 1;
        for (io, path) in orders {
            self.send_order(now, job, io, path);
        }
        self.complete_order_part(now, job);
    }

    /// Completes one part of an order that was sent to several targets.
    fn complete_order_part(&mut self, now: Ns, parent: u32) {
        if !self.flow.jobs.complete_part(parent) {
            return;
        }
        match *self.paths.step_at(self.flow.jobs[parent].step) {
            PathStep::Array(array) => {
                let orders = self.arrays[usize::from(array)].continue_order(now, parent, &mut self.flow);
                self.send_order_to_members(now, parent, orders);
            }
            _ => self.complete_step(now, parent),
        }
    }
}

/// Caches.
impl Simulation {
    /// Submits a request to a cache. True if it can proceed at once.
    fn submit_to_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let (is_done, ready) = self.caches[usize::from(cache)].submit(now, base, job, &mut self.flow);
        self.advance_ready(now, cache, ready);
        is_done
    }

    /// Submits an order to a cache. True if it can proceed at once, because no posted write can be lost.
    fn submit_order_to_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let run = &mut self.caches[usize::from(cache)];
        if run.completes_order(self.flow.jobs[job].purpose) {
            return true;
        }
        let (is_done, ready) = run.submit_order(now, base, job, &mut self.flow);
        self.advance_ready(now, cache, ready);
        if is_done {
            self.send_order_below_cache(now, cache, base, job);
        }
        false
    }

    /// Wakes a cache.
    pub(super) fn wake_cache(&mut self, now: Ns, cache: u16) {
        if let Some(ready) = self.caches[usize::from(cache)].wake(now, &mut self.flow) {
            self.advance_ready(now, cache, ready);
        }
    }

    /// Advances the jobs that were waiting in a cache and are ready.
    fn advance_ready(&mut self, now: Ns, cache: u16, ready: ReadyJobs) {
        for job in ready.jobs() {
            match (self.flow.jobs[*job].purpose.moves_data(), *self.paths.step_at(self.flow.jobs[*job].step)) {
                (false, PathStep::Cache { cache, base }) => self.send_order_below_cache(now, cache, base, *job),
                _ => self.complete_step(now, *job),
            }
        }
        self.caches[usize::from(cache)].recycle(ready);
    }
}

/// Arrays.
impl Simulation {
    /// Advances a job at an array: a new one, or one whose computation has ended.
    #[inline]
    fn advance_at_array(&mut self, now: Ns, array: u16, job: u32) {
        let run = &mut self.arrays[usize::from(array)];
        if self.flow.jobs[job].purpose.moves_data() {
            let step = run.advance_request(now, job, &mut self.flow);
            return self.take_array_step(now, array, job, step);
        }
        let orders = run.begin_order(now, job, &mut self.flow);
        self.send_order_to_members(now, job, orders);
    }

    /// Performs the next action of a request of an array.
    #[inline]
    fn take_array_step(&mut self, now: Ns, array: u16, job: u32, step: ArrayStep) {
        match step {
            ArrayStep::Wait => {}
            ArrayStep::ComputeParity { station, time_ns } => {
                self.stations.visit(now, station, job, time_ns, &mut self.flow);
            }
            ArrayStep::SendPlan { flight, plan } => {
                self.send_member_ios(now, array, flight, &plan.reads);
                self.send_member_ios(now, array, flight, &plan.writes);
                self.arrays[usize::from(array)].recycle_plan(plan);
            }
            ArrayStep::SendWrites { flight, writes } => {
                self.send_member_ios(now, array, flight, &writes);
                self.arrays[usize::from(array)].recycle_writes(flight, writes);
            }
            ArrayStep::Complete => self.complete_array_request(now, array, job),
        }
    }

    #[inline]
    fn send_member_ios(&mut self, now: Ns, array: u16, flight: u32, ios: &[MemberIo]) {
        for io in ios {
            let job = self.arrays[usize::from(array)].create_member_io(flight, io, &mut self.flow);
            self.advance_job(now, job);
        }
    }

    /// Completes a request of an array.
    #[inline]
    fn complete_array_request(&mut self, now: Ns, array: u16, job: u32) {
        match self.arrays[usize::from(array)].complete_request(now, job, &mut self.flow) {
            Some(ArrayCompletion::Request) => self.complete_step(now, job),
            Some(ArrayCompletion::Gathered(jobs)) => {
                jobs.into_iter().for_each(|job| self.complete_array_request(now, array, job));
            }
            Some(ArrayCompletion::Background) => self.begin_background_steps(now, array),
            None => {}
        }
    }

    /// Begins as many steps of a rebuild or a scrub as are allowed in flight.
    pub(super) fn begin_background_steps(&mut self, now: Ns, array: u16) {
        while let Some((job, step)) = self.arrays[usize::from(array)].begin_background_step(now, &mut self.flow) {
            self.take_array_step(now, array, job, step);
        }
    }

    /// Begins the writes that an array has gathered.
    pub(super) fn begin_gathered_writes(&mut self, now: Ns, array: u16) {
        let index = usize::from(array);
        let Some(mut writes) = self.arrays[index].take_gathered(&self.flow) else { return };
        while let Some(job) = self.arrays[index].begin_gathered_write(&mut writes, &mut self.flow) {
            let step = self.arrays[index].plan_request(now, job, &mut self.flow);
            self.take_array_step(now, array, job, step);
        }
        self.arrays[index].keep_gathered(writes);
    }
}
