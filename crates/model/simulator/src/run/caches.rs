//! Caches at work: the host's file cache in front of all volumes, or a controller's cache in front of its own.

use super::Event;
use super::job::{Job, JobFlow, JobPurpose, Parent};
use super::path::{END_PATH, PathStart};
use super::report::CacheReport;
use crate::Ns;
use crate::cache::{Cache, CacheActions, CacheCounters, SubmitResult};
use crate::io::Io;

/// A volume in a cache's address space.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumeInCache {
    /// Its first block in that space.
    pub base: u64,
    pub blocks: u64,
    /// The path of the cache's I/Os to it.
    pub path: PathStart,
}

/// A cache in the system. Its address space contains its volumes one after the other.
pub(super) struct CacheRun {
    number: u16,
    name: String,
    cache: Cache,
    /// Buffers for the cache's actions, reused; several are in use while one call leads to another.
    action_buffers: Vec<CacheActions>,
    volumes: Vec<VolumeInCache>,
    /// Time of the next scheduled wake-up.
    wake_due_ns: Option<Ns>,
}

/// The jobs that may continue after a call of a cache. The list goes back to the cache ([`CacheRun::recycle`]).
#[must_use = "jobs that are ready wait to be advanced"]
pub(super) struct ReadyJobs(CacheActions);

impl ReadyJobs {
    /// The jobs, in their order.
    pub fn jobs(&self) -> &[u32] {
        &self.0.ready
    }
}

impl CacheRun {
    /// A cache with nothing scheduled, above volumes in the order of their addresses.
    pub fn new(number: u16, name: String, cache: Cache, volumes: Vec<VolumeInCache>) -> CacheRun {
        debug_assert!(
            volumes.windows(2).all(|pair| pair[0].base + pair[0].blocks <= pair[1].base),
            "the volumes of a cache overlap"
        );
        CacheRun { number, name, cache, action_buffers: Vec::new(), volumes, wake_due_ns: None }
    }

    /// Finds the volume of an address, and clips a request to it.
    fn locate_on_volume(&self, io: &Io) -> Option<(Io, PathStart)> {
        let index = self.volumes.partition_point(|volume| volume.base <= io.first).checked_sub(1)?;
        let VolumeInCache { base, blocks, path } = self.volumes[index];
        let first = io.first - base;
        let left = blocks.checked_sub(first).filter(|left| *left > 0)?;
        Some((Io { first, blocks: u64::from(io.blocks).min(left) as u32, ..*io }, path))
    }

    /// Returns the path to the volume that begins at `base`.
    pub fn path_below(&self, base: u64) -> PathStart {
        self.volumes.iter().find(|volume| volume.base == base).map_or(END_PATH, |volume| volume.path)
    }

    /// Submits a request. True if it can proceed at once.
    pub fn submit(&mut self, now: Ns, base: u64, job: u32, flow: &mut JobFlow) -> (bool, ReadyJobs) {
        let mut out = self.action_buffers.pop().unwrap_or_default();
        let io = flow.jobs[job].io;
        let result = self.cache.submit(now, job, &Io { first: io.first + base, ..io }, &mut out);
        (result == SubmitResult::Done, self.apply_actions(now, out, flow))
    }

    /// True if a flush is complete in this cache, because the cache survives a loss of power: the devices below need
    /// not receive the flush.
    pub fn completes_order(&self, purpose: JobPurpose) -> bool {
        purpose == JobPurpose::Flush && !self.cache.is_write_through() && self.cache.survives_power_loss()
    }

    /// Submits a flush or a trim. True if it can be sent below at once, because all writes posted to the cache are
    /// below.
    pub fn submit_order(&mut self, now: Ns, base: u64, job: u32, flow: &mut JobFlow) -> (bool, ReadyJobs) {
        let mut out = self.action_buffers.pop().unwrap_or_default();
        if flow.jobs[job].purpose != JobPurpose::Flush || self.cache.is_write_through() {
            out.ready.clear();
            return (true, ReadyJobs(out));
        }
        let result = self.cache.submit_flush(now, job, base, &mut out);
        (result == SubmitResult::Done, self.apply_actions(now, out, flow))
    }

    /// Completes an I/O that the cache sent.
    pub fn complete_io(&mut self, now: Ns, number: u32, flow: &mut JobFlow) -> ReadyJobs {
        let mut out = self.action_buffers.pop().unwrap_or_default();
        self.cache.complete_io(now, number, &mut out);
        self.apply_actions(now, out, flow)
    }

    /// Wakes the cache at the time that it requested, unless a later call has replaced that time.
    pub fn wake(&mut self, now: Ns, flow: &mut JobFlow) -> Option<ReadyJobs> {
        if self.wake_due_ns.is_none_or(|due| due > now) {
            return None;
        }
        self.wake_due_ns = None;
        let mut out = self.action_buffers.pop().unwrap_or_default();
        self.cache.handle_wake(now, &mut out);
        Some(self.apply_actions(now, out, flow))
    }

    /// Schedules the wake-up and the I/Os to the volumes below.
    fn apply_actions(&mut self, now: Ns, mut out: CacheActions, flow: &mut JobFlow) -> ReadyJobs {
        if let Some(time) = out.wake_at.take()
            && self.wake_due_ns.is_none_or(|due| time < due)
        {
            self.wake_due_ns = Some(time);
            flow.events.schedule(time, Event::CacheWake { cache: self.number });
        }
        for below in &out.send {
            let parent = Parent::CacheIo { cache: self.number, number: below.flight_number };
            // beyond the end of a volume there is nothing to read
            let (io, path) = self.locate_on_volume(&below.io).unwrap_or((below.io, END_PATH));
            let job = flow.jobs.insert(Job::new(io, path, parent));
            // as an event: the layer below may be another cache, which completes one I/O after the other in no time,
            // and each would recurse into the one before
            flow.events.schedule(now, Event::JobReady { job });
        }
        ReadyJobs(out)
    }

    /// Takes the list of the jobs that were ready back for reuse.
    pub fn recycle(&mut self, ready: ReadyJobs) {
        self.action_buffers.push(ready.0);
    }

    /// Takes a snapshot of the counters.
    pub fn take_snapshot(&self, now: Ns) -> CacheCounters {
        self.cache.counters(now)
    }

    /// Reports the time between two snapshots.
    pub fn report(&self, from: &CacheCounters, to: &CacheCounters) -> CacheReport {
        CacheReport { name: self.name.clone(), counters: to.added_since(from) }
    }
}
