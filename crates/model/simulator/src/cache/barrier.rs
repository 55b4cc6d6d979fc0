//! Flush requests from above: all writes posted before must be written below, while other writes continue.

use super::{Cache, CacheActions, CacheAnswer};
use crate::Ns;

/// A flush request that waits until the writes posted to a volume are below.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    who: u32,
    volume: usize,
    stage: BarrierStage,
    /// Writes in flight that it waits for.
    pending: Vec<u32>,
}

/// Stage of a barrier.
#[derive(Clone, Copy, Debug)]
enum BarrierStage {
    /// Waits for the writes in flight. Pages dirtied again meanwhile are queued only when those writes complete.
    Begun,
    /// Waits until no page is queued that became dirty up to this time.
    Draining(Ns),
    /// Waits for the writes then in flight.
    Last,
}

impl Cache {
    /// Submits a flush of all writes posted to the volume of a block; `request_id` is the caller's, as for
    /// [`Cache::ask`]. Complete at once if nothing is dirty, or if no flush is needed because the cache writes
    /// through or survives a power loss.
    pub fn ask_flush(&mut self, now: Ns, request_id: u32, block: u64, out: &mut CacheActions) -> CacheAnswer {
        self.begin(now, out);
        if self.is_safe() {
            return CacheAnswer::Done;
        }
        let volume = self.volume_of((block >> self.sizes.page_shift) >> self.sizes.line_shift);
        let pending = self.leaving_of(volume);
        self.barriers.push(Barrier { who: request_id, volume, stage: BarrierStage::Begun, pending });
        self.flush(out);
        self.look_at_barriers(out);
        // this barrier is the last one: earlier ones have waited for at least as much
        match out.ready.iter().position(|ready| *ready == request_id) {
            Some(index) => {
                out.ready.remove(index);
                CacheAnswer::Done
            }
            None => CacheAnswer::Wait,
        }
    }

    /// Returns true if no acknowledged write is lost in a power failure.
    pub fn is_safe(&self) -> bool {
        self.back.is_none_or(|back| back.protected)
    }

    /// Returns true for a write-through cache, which posts nothing.
    pub fn goes_through(&self) -> bool {
        self.back.is_none()
    }

    /// Returns true if a flush request waits for a volume.
    #[inline]
    pub(super) fn is_awaited(&self, volume: usize) -> bool {
        self.barriers.iter().any(|barrier| barrier.volume == volume)
    }

    /// Notes a write completed below.
    #[inline]
    pub(super) fn landed(&mut self, number: u32) {
        for barrier in &mut self.barriers {
            barrier.pending.retain(|pending| *pending != number);
        }
    }

    /// Advances all flush requests as far as possible.
    #[inline]
    pub(super) fn look_at_barriers(&mut self, out: &mut CacheActions) {
        let mut index = 0;
        while index < self.barriers.len() {
            if self.passes(index) {
                let barrier = self.barriers.remove(index);
                out.ready.push(barrier.who);
            } else {
                index += 1;
            }
        }
    }

    /// Advances one flush request; returns true if it has nothing left to wait for.
    fn passes(&mut self, index: usize) -> bool {
        loop {
            let Barrier { volume, stage, ref pending, .. } = self.barriers[index];
            let next = match stage {
                _ if !pending.is_empty() => return false,
                BarrierStage::Begun => BarrierStage::Draining(self.now),
                BarrierStage::Draining(until) => {
                    let oldest = self.volumes.get(volume).and_then(|volume| volume.order.oldest(&self.lines));
                    if oldest.is_some_and(|(_, since)| since <= until) {
                        return false;
                    }
                    BarrierStage::Last
                }
                BarrierStage::Last => return true,
            };
            if let BarrierStage::Last = next {
                self.barriers[index].pending = self.leaving_of(volume);
            }
            self.barriers[index].stage = next;
        }
    }

    /// Returns the writes of a volume in flight.
    fn leaving_of(&self, volume: usize) -> Vec<u32> {
        let shift = self.sizes.line_shift;
        let of = |from: u64| self.volume_of(from >> shift) == volume;
        self.flights.writes().filter(|(_, flight)| of(flight.from)).map(|(number, _)| number).collect()
    }
}
