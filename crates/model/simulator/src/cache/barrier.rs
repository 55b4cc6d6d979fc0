//! Flush requests from above: all writes posted before must be written below, while other writes continue.

use super::{Cache, CacheActions, SubmitResult};
use crate::Ns;

/// A flush request that waits until the writes posted to a volume are below.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    request_id: u32,
    volume: usize,
    stage: BarrierStage,
    /// Writes in flight that it waits for.
    pending_writes: Vec<u32>,
}

/// Stage of a barrier.
#[derive(Clone, Copy, Debug)]
enum BarrierStage {
    /// Waits for the writes in flight. Pages dirtied again meanwhile are queued only when those writes complete.
    WaitForInFlight,
    /// Waits until no page is queued that became dirty up to this time.
    DrainOlder(Ns),
    /// Waits for the writes in flight when this stage begins.
    WaitForFlushes,
}

impl Cache {
    /// Submits a flush of all writes posted to the volume of a block; `request_id` is the caller's, as for
    /// [`Cache::submit`]. Complete at once if nothing is dirty, or if no flush is needed because the cache writes
    /// through or survives a power loss.
    pub fn submit_flush(&mut self, now: Ns, request_id: u32, block: u64, out: &mut CacheActions) -> SubmitResult {
        self.begin_call(now, out);
        if self.survives_power_loss() {
            return SubmitResult::Done;
        }
        let volume = self.find_volume((block >> self.sizes.page_shift) >> self.sizes.line_shift);
        let pending = self.writes_in_flight(volume);
        self.barriers.push(Barrier {
            request_id,
            volume,
            stage: BarrierStage::WaitForInFlight,
            pending_writes: pending,
        });
        self.send_flushes(out);
        self.advance_barriers(out);
        // this barrier is the last one: earlier ones have waited for at least as much
        match out.ready.iter().position(|ready| *ready == request_id) {
            Some(index) => {
                out.ready.remove(index);
                SubmitResult::Done
            }
            None => SubmitResult::Wait,
        }
    }

    /// Returns true if no acknowledged write is lost in a power failure.
    pub fn survives_power_loss(&self) -> bool {
        self.write_back.is_none_or(|back| back.survives_power_loss)
    }

    /// Returns true for a write-through cache, which posts nothing.
    pub fn is_write_through(&self) -> bool {
        self.write_back.is_none()
    }

    /// Returns true if a flush request waits for a volume.
    #[inline]
    pub(super) fn has_barrier(&self, volume: usize) -> bool {
        self.barriers.iter().any(|barrier| barrier.volume == volume)
    }

    /// Notes a write completed below.
    #[inline]
    pub(super) fn note_write_completed(&mut self, number: u32) {
        for barrier in &mut self.barriers {
            barrier.pending_writes.retain(|pending| *pending != number);
        }
    }

    /// Advances all flush requests as far as possible.
    #[inline]
    pub(super) fn advance_barriers(&mut self, out: &mut CacheActions) {
        let mut index = 0;
        while index < self.barriers.len() {
            if self.advance_barrier(index) {
                let barrier = self.barriers.remove(index);
                out.ready.push(barrier.request_id);
            } else {
                index += 1;
            }
        }
    }

    /// Advances one flush request; returns true if it has nothing left to wait for.
    fn advance_barrier(&mut self, index: usize) -> bool {
        loop {
            let Barrier { volume, stage, pending_writes: ref pending, .. } = self.barriers[index];
            let next = match stage {
                _ if !pending.is_empty() => return false,
                BarrierStage::WaitForInFlight => BarrierStage::DrainOlder(self.now),
                BarrierStage::DrainOlder(until) => {
                    let oldest =
                        self.volumes.get(volume).and_then(|volume| volume.flush_queue.oldest_entry(&self.lines));
                    if oldest.is_some_and(|(_, since)| since <= until) {
                        return false;
                    }
                    BarrierStage::WaitForFlushes
                }
                BarrierStage::WaitForFlushes => return true,
            };
            if let BarrierStage::WaitForFlushes = next {
                self.barriers[index].pending_writes = self.writes_in_flight(volume);
            }
            self.barriers[index].stage = next;
        }
    }

    /// Returns the writes of a volume in flight.
    fn writes_in_flight(&self, volume: usize) -> Vec<u32> {
        let shift = self.sizes.line_shift;
        let is_on_volume = |page: u64| self.find_volume(page >> shift) == volume;
        let writes = self.flights.iter_writes().filter(|(_, flight)| is_on_volume(flight.first_page));
        writes.map(|(number, _)| number).collect()
    }
}
