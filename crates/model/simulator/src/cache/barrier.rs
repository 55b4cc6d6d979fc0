//! Flushes asked for from above: everything that was posted before is to be
//! below, while others go on writing.

use super::{Cache, CacheActions, CacheAnswer};
use crate::Ns;

/// Somebody waits until what was posted to a volume is below.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    who: u32,
    volume: usize,
    stage: BarrierStage,
    /// Writes under way that it waits for.
    pending: Vec<u32>,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
enum BarrierStage {
    /// Until writes under way are done. What became dirty again meanwhile waits to go only from then on.
    Begun,
    /// Until nothing waits to go that became dirty up to this moment.
    Draining(Ns),
    /// Until what was sent is done.
    Last,
}

impl Cache {
    /// All that was posted to the volume of a block is to be below; `who` is its number at whoever
    /// asks, as of [`Cache::ask`]. Done at once where nothing is dirty, or where it need not go: it goes
    /// through anyway, or outlives a loss of power.
    pub fn ask_flush(&mut self, now: Ns, who: u32, block: u64, out: &mut CacheActions) -> CacheAnswer {
        self.begin(now, out);
        if self.is_safe() {
            return CacheAnswer::Done;
        }
        let volume = self.volume_of((block >> self.sizes.page_shift) >> self.sizes.line_shift);
        let pending = self.leaving_of(volume);
        self.barriers.push(Barrier { who, volume, stage: BarrierStage::Begun, pending });
        self.flush(out);
        self.look_at_barriers(out);
        // it is the last: whoever came before it has waited for at least as much
        match out.ready.iter().position(|ready| *ready == who) {
            Some(index) => {
                out.ready.remove(index);
                CacheAnswer::Done
            }
            None => CacheAnswer::Wait,
        }
    }

    /// Nothing that was reported as written is lost with the power.
    pub fn is_safe(&self) -> bool {
        self.back.is_none_or(|back| back.protected)
    }

    /// Nothing is posted here: writes go through.
    pub fn goes_through(&self) -> bool {
        self.back.is_none()
    }

    /// Somebody waits for a volume to be clean.
    #[inline]
    pub(super) fn is_awaited(&self, volume: usize) -> bool {
        self.barriers.iter().any(|barrier| barrier.volume == volume)
    }

    /// A write is done below.
    #[inline]
    pub(super) fn landed(&mut self, number: u32) {
        for barrier in &mut self.barriers {
            barrier.pending.retain(|pending| *pending != number);
        }
    }

    /// Those who wait go on as far as they can.
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

    /// Whether one of them has nothing left to wait for.
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

    /// Writes of a volume under way.
    fn leaving_of(&self, volume: usize) -> Vec<u32> {
        let shift = self.sizes.line_shift;
        let of = |from: u64| self.volume_of(from >> shift) == volume;
        self.flights.writes().filter(|(_, flight)| of(flight.from)).map(|(number, _)| number).collect()
    }
}
