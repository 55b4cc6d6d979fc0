//! Flushing of posted writes: when, in which order, and in what runs.

use super::flights::NOTHING;
use super::lines::NONE;
use super::{Cache, CacheActions, CacheVolume, WriteBackPolicy};
use crate::Ns;

impl Cache {
    /// Sends the flushes that are due, up to the limit in flight, and requests a wake-up if pages wait for their age.
    pub(super) fn flush(&mut self, out: &mut CacheActions) {
        let Some(back) = self.back else { return };
        while let Some(volume) = self.next_volume(&back) {
            self.flush_one(volume, out);
        }
        self.draining &= self.dirty > 0;
        let oldest = self.volumes.iter().filter_map(|volume| volume.order.oldest(&self.lines)).map(|(_, since)| since);
        let due = oldest.min().and_then(|since| back.due(since));
        if let (Some(due), None) = (due, self.wake) {
            // overdue pages go as soon as a flush in flight completes
            if due > self.now {
                self.wake = Some(due);
                out.wake_at = self.wake;
            }
        }
    }

    /// Chooses the volume to flush next, in rotation.
    fn next_volume(&mut self, back: &WriteBackPolicy) -> Option<usize> {
        let must_flush = self.draining
            || self.dirty - self.leaving > self.flush_above
            || !self.flights.writers.is_empty()
            || !self.flights.readers.is_empty();
        let count = self.volumes.len();
        let turns = (0..count).map(|turn| (self.next_volume + turn) % count);
        let found = turns.into_iter().find(|index| {
            let volume = &self.volumes[*index];
            let old = |since: Ns| back.due(since).is_some_and(|due| due <= self.now);
            let must_flush = must_flush || self.is_awaited(*index);
            let waits = volume.order.oldest(&self.lines).is_some_and(|(_, since)| must_flush || old(since));
            waits && volume.leaving < back.flush_depth.max(1)
        })?;
        self.next_volume = (found + 1) % count;
        Some(found)
    }

    /// Flushes the next page of a volume in order, with its dirty neighbours.
    fn flush_one(&mut self, volume: usize, out: &mut CacheActions) {
        let Some(index) = self.volumes[volume].order.next(&self.lines) else { return };
        let (shift, line) = (self.sizes.line_shift, self.lines[index]);
        let page = (self.lines.head(index).number << shift) + u64::from((line.dirty & !line.flushing).trailing_zeros());
        let (mut from, mut to) = (page, page + 1);
        // an entry that spans two volumes belongs to the first
        let edge = |volume: &CacheVolume| volume.from.next_multiple_of(1 << shift);
        let low = if volume == 0 { 0 } else { edge(&self.volumes[volume]) };
        let high = self.volumes.get(volume + 1).map_or(u64::MAX, edge);
        while from > low && to - from < self.run_most && self.may_go(from - 1) {
            from -= 1;
        }
        while to < high && to - from < self.run_most && self.may_go(to) {
            to += 1;
        }
        let mut run = self.flights.begin(from, true);
        (from + 1..to).for_each(|_| self.flights.extend(run));
        for number in from >> shift..=(to - 1) >> shift {
            let mask = self.mask(number, from, to);
            let index = self.lines.find(number);
            let line = &mut self.lines[index];
            line.dirty &= !mask;
            line.flushing |= mask;
            if line.dirty & !line.flushing == 0 && line.queued {
                self.volumes[volume].order.remove(&mut self.lines, index);
            }
        }
        self.volumes[volume].order.passed((to - 1) >> shift);
        self.volumes[volume].leaving += 1;
        self.leaving += to - from;
        self.counters.flush_ios += 1;
        self.counters.pages_merged += to - from - 1;
        let before = self.counters.blocks_written;
        self.close(&mut run, None, out);
        debug_assert_eq!(run, NOTHING);
        self.counters.blocks_flushed += self.counters.blocks_written - before;
    }

    /// Returns the index of the volume of a line.
    #[inline]
    pub(super) fn volume_of(&self, line: u64) -> usize {
        if self.volumes.len() == 1 {
            return 0;
        }
        let page = line << self.sizes.line_shift;
        self.volumes.partition_point(|volume| volume.from <= page).saturating_sub(1)
    }

    /// Queues an entry to be flushed.
    #[inline]
    pub(super) fn enqueue(&mut self, slot: u32) {
        let volume = self.volume_of(self.lines.head(slot).number);
        self.volumes[volume].order.add(&mut self.lines, slot, self.now);
    }

    /// Returns true if a page is dirty and not being flushed.
    fn may_go(&self, page: u64) -> bool {
        let index = self.lines.find(page >> self.sizes.line_shift);
        index != NONE && self.lines[index].dirty & !self.lines[index].flushing & self.bit(page) != 0
    }
}
