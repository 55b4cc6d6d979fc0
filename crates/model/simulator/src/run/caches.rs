//! Caches at work: the host's file cache in front of all volumes, or a controller's cache in front of its own.

use super::job::{Job, JobPurpose, Parent};
use super::path::{PathStart, PathStep};
use super::{Event, Simulation};
use crate::Ns;
use crate::cache::{Cache, CacheActions, SubmitResult};
use crate::io::Io;

/// A cache in the system. Its address space holds its volumes one after the other.
pub(super) struct CacheRun {
    pub cache: Cache,
    /// Buffers for the cache's actions, reused; several are in use where one call leads to another.
    action_buffers: Vec<CacheActions>,
    /// By volume: its first block in the cache's address space, its blocks, and the path of the cache's I/Os to it.
    pub volumes: Vec<(u64, u64, PathStart)>,
    /// Time of the next scheduled wake-up.
    wake_due_ns: Option<Ns>,
}

impl CacheRun {
    /// A cache with nothing scheduled.
    pub fn new(cache: Cache, volumes: Vec<(u64, u64, PathStart)>) -> CacheRun {
        CacheRun { cache, action_buffers: Vec::new(), volumes, wake_due_ns: None }
    }

    /// Finds the volume of an address, and clips a request to it.
    fn locate_on_volume(&self, io: &Io) -> Option<(Io, PathStart)> {
        let index = self.volumes.partition_point(|volume| volume.0 <= io.first).checked_sub(1)?;
        let (base, blocks, path) = self.volumes[index];
        let first = io.first - base;
        let left = blocks.checked_sub(first).filter(|left| *left > 0)?;
        Some((Io { first, blocks: u64::from(io.blocks).min(left) as u32, ..*io }, path))
    }
}

impl Simulation {
    /// Submits a request to a cache. True if it can proceed at once.
    pub(super) fn submit_to_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let run = &mut self.caches[usize::from(cache)];
        let mut out = run.action_buffers.pop().unwrap_or_default();
        let io = self.jobs[job].io;
        let answer = run.cache.submit(now, job, &Io { first: io.first + base, ..io }, &mut out);
        self.apply_cache_actions(now, cache, out);
        answer == SubmitResult::Done
    }

    /// Submits a flush or trim to a cache. True if it can proceed at once, because all that was posted here is safe.
    pub(super) fn submit_order_to_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let run = &mut self.caches[usize::from(cache)];
        if self.jobs[job].purpose == JobPurpose::Flush && !run.cache.is_write_through() {
            if run.cache.survives_power_loss() {
                return true;
            }
            let mut out = run.action_buffers.pop().unwrap_or_default();
            let answer = run.cache.submit_flush(now, job, base, &mut out);
            self.apply_cache_actions(now, cache, out);
            if answer == SubmitResult::Wait {
                return false;
            }
        }
        self.send_order_below_cache(now, cache, base, job);
        false
    }

    /// Sends an order on to the volume below, once the cache itself has carried it out.
    fn send_order_below_cache(&mut self, now: Ns, cache: u16, base: u64, job: u32) {
        let volume = self.caches[usize::from(cache)].volumes.iter().find(|volume| volume.0 == base);
        let below = volume.map_or(self.end_path, |volume| volume.2);
        self.jobs[job].parts = 1;
        self.send_order(now, job, self.jobs[job].io, below);
    }

    /// Completes an I/O that a cache sent.
    pub(super) fn complete_cache_io(&mut self, now: Ns, cache: u16, number: u32) {
        let run = &mut self.caches[usize::from(cache)];
        let mut out = run.action_buffers.pop().unwrap_or_default();
        run.cache.complete_io(now, number, &mut out);
        self.apply_cache_actions(now, cache, out);
    }

    /// Wakes a cache at the time that it asked for, unless a later call has replaced that.
    pub(super) fn wake_cache(&mut self, now: Ns, cache: u16) {
        let run = &mut self.caches[usize::from(cache)];
        if run.wake_due_ns.is_none_or(|due| due > now) {
            return;
        }
        run.wake_due_ns = None;
        let mut out = run.action_buffers.pop().unwrap_or_default();
        run.cache.handle_wake(now, &mut out);
        self.apply_cache_actions(now, cache, out);
    }

    /// Carries out a cache's actions: wake-up, I/Os to the volumes below, requests that are ready.
    fn apply_cache_actions(&mut self, now: Ns, cache: u16, mut out: CacheActions) {
        if let Some(time) = out.wake_at.take() {
            let run = &mut self.caches[usize::from(cache)];
            if run.wake_due_ns.is_none_or(|due| time < due) {
                run.wake_due_ns = Some(time);
                self.events.schedule(time, Event::CacheWake { cache });
            }
        }
        for below in &out.send {
            let parent = Parent::CacheIo { cache, number: below.flight_number };
            // beyond the end of a volume there is nothing to read
            let (io, path) =
                self.caches[usize::from(cache)].locate_on_volume(&below.io).unwrap_or((below.io, self.end_path));
            let job = self.jobs.insert(Job::new(io, path, parent));
            // as an event: below may be another cache that completes one I/O after the other in no time, and each would
            // recurse into the one before
            self.events.schedule(now, Event::JobReady { job });
        }
        for job in &out.ready {
            match (self.jobs[*job].purpose.moves_data(), *self.paths.step_at(self.jobs[*job].step)) {
                (false, PathStep::Cache { cache, base }) => self.send_order_below_cache(now, cache, base, *job),
                _ => self.complete_step(now, *job),
            }
        }
        self.caches[usize::from(cache)].action_buffers.push(out);
    }
}
