//! Caches at work: the host's file cache in front of all volumes, or a controller's cache in front of its own.

use super::job::{JobPurpose, Parent, SimulationJob};
use super::path::{PathStart, PathStep};
use super::{Simulation, SimulationEvent};
use crate::Ns;
use crate::cache::{Cache, CacheActions, CacheAnswer};
use crate::io::Io;

/// A cache in the system. Its address space holds its volumes one after the other.
pub(super) struct CacheRun {
    pub cache: Cache,
    /// Buffers for the cache's actions, reused; several are in use where one call leads to another.
    outs: Vec<CacheActions>,
    /// By volume: its first block in the cache's address space, its blocks, and the path of the cache's I/Os to it.
    pub volumes: Vec<(u64, u64, PathStart)>,
    /// Time of the next scheduled wake-up.
    wake: Option<Ns>,
}

impl CacheRun {
    /// A cache with nothing scheduled.
    pub fn new(cache: Cache, volumes: Vec<(u64, u64, PathStart)>) -> CacheRun {
        CacheRun { cache, outs: Vec::new(), volumes, wake: None }
    }

    /// Finds the volume of an address, and clips a request to it.
    fn below(&self, io: &Io) -> Option<(Io, PathStart)> {
        let index = self.volumes.partition_point(|volume| volume.0 <= io.first).checked_sub(1)?;
        let (base, blocks, path) = self.volumes[index];
        let first = io.first - base;
        let left = blocks.checked_sub(first).filter(|left| *left > 0)?;
        Some((Io { first, blocks: u64::from(io.blocks).min(left) as u32, ..*io }, path))
    }
}

impl Simulation {
    /// Submits a request to a cache. True if it can proceed at once.
    pub(super) fn cache_ask(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let run = &mut self.caches[usize::from(cache)];
        let mut out = run.outs.pop().unwrap_or_default();
        let io = self.jobs[job].io;
        let answer = run.cache.ask(now, job, &Io { first: io.first + base, ..io }, &mut out);
        self.cache_out(now, cache, out);
        answer == CacheAnswer::Done
    }

    /// Submits a flush or trim to a cache. True if it can proceed at once, because all that was posted here is safe.
    pub(super) fn cache_order(&mut self, now: Ns, cache: u16, base: u64, job: u32) -> bool {
        let run = &mut self.caches[usize::from(cache)];
        if self.jobs[job].what == JobPurpose::Flush && !run.cache.goes_through() {
            if run.cache.is_safe() {
                return true;
            }
            let mut out = run.outs.pop().unwrap_or_default();
            let answer = run.cache.ask_flush(now, job, base, &mut out);
            self.cache_out(now, cache, out);
            if answer == CacheAnswer::Wait {
                return false;
            }
        }
        self.order_below(now, cache, base, job);
        false
    }

    /// Sends an order on to the volume below, once the cache itself has carried it out.
    fn order_below(&mut self, now: Ns, cache: u16, base: u64, job: u32) {
        let volume = self.caches[usize::from(cache)].volumes.iter().find(|volume| volume.0 == base);
        let below = volume.map_or(self.end, |volume| volume.2);
        self.jobs[job].parts = 1;
        self.pass_on(now, job, self.jobs[job].io, below);
    }

    /// Completes an I/O that a cache sent.
    pub(super) fn cache_finished(&mut self, now: Ns, cache: u16, number: u32) {
        let run = &mut self.caches[usize::from(cache)];
        let mut out = run.outs.pop().unwrap_or_default();
        run.cache.finished(now, number, &mut out);
        self.cache_out(now, cache, out);
    }

    /// Wakes a cache at the time that it asked for, unless a later call has replaced that.
    pub(super) fn cache_wake(&mut self, now: Ns, cache: u16) {
        let run = &mut self.caches[usize::from(cache)];
        if run.wake.is_none_or(|due| due > now) {
            return;
        }
        run.wake = None;
        let mut out = run.outs.pop().unwrap_or_default();
        run.cache.wake(now, &mut out);
        self.cache_out(now, cache, out);
    }

    /// Carries out a cache's actions: wake-up, I/Os to the volumes below, requests that are ready.
    fn cache_out(&mut self, now: Ns, cache: u16, mut out: CacheActions) {
        if let Some(time) = out.wake_at.take() {
            let run = &mut self.caches[usize::from(cache)];
            if run.wake.is_none_or(|due| time < due) {
                run.wake = Some(time);
                self.events.schedule(time, SimulationEvent::Wake { cache });
            }
        }
        for below in &out.send {
            let parent = Parent::Fetch { cache, number: below.number };
            // beyond the end of a volume there is nothing to read
            let (io, path) = self.caches[usize::from(cache)].below(&below.io).unwrap_or((below.io, self.end));
            let job = self.jobs.add(SimulationJob::new(io, path, parent));
            // as an event: below may be another cache that completes one I/O after the other in no time, and each would
            // recurse into the one before
            self.events.schedule(now, SimulationEvent::Go { job });
        }
        for job in &out.ready {
            match (self.jobs[*job].what.moves_data(), *self.paths.step(self.jobs[*job].step)) {
                (false, PathStep::Cache { cache, base }) => self.order_below(now, cache, base, *job),
                _ => self.passed(now, *job),
            }
        }
        self.caches[usize::from(cache)].outs.push(out);
    }
}
