//! Flushing of posted writes: when it begins, in which order it goes, and which neighboring pages go together.

use super::cache_lines::NO_ENTRY;
use super::in_flight::NO_FLIGHT;
use super::{Cache, CacheActions, CacheVolume, WriteBackPolicy};
use crate::Ns;

impl Cache {
    /// Sends the flushes that are due, up to the limit in flight, and requests a wake-up if pages wait for their age.
    pub(super) fn send_flushes(&mut self, out: &mut CacheActions) {
        let Some(back) = self.write_back else { return };
        while let Some(volume) = self.choose_volume(&back) {
            self.flush_next_run(volume, out);
        }
        self.is_draining &= self.dirty_pages > 0;
        let oldest = self
            .volumes
            .iter()
            .filter_map(|volume| volume.flush_queue.oldest_entry(&self.lines))
            .map(|(_, since)| since);
        let due = oldest.min().and_then(|since| back.due_time(since));
        if let (Some(due), None) = (due, self.wake_at) {
            // overdue pages go as soon as a flush in flight completes
            if due > self.now {
                self.wake_at = Some(due);
                out.wake_at = self.wake_at;
            }
        }
    }

    /// Chooses the volume to flush next, in rotation.
    fn choose_volume(&mut self, back: &WriteBackPolicy) -> Option<usize> {
        let must_flush = self.is_draining
            || self.dirty_pages - self.flushing_pages > self.flush_above_pages
            || !self.flights.writers.is_empty()
            || !self.flights.readers.is_empty();
        let count = self.volumes.len();
        let turns = (0..count).map(|turn| (self.next_volume + turn) % count);
        let found = turns.into_iter().find(|index| {
            let volume = &self.volumes[*index];
            let is_due = |since: Ns| back.due_time(since).is_some_and(|due| due <= self.now);
            let must_flush = must_flush || self.has_barrier(*index);
            let oldest = volume.flush_queue.oldest_entry(&self.lines);
            let has_flushes = oldest.is_some_and(|(_, since)| must_flush || is_due(since));
            has_flushes && volume.flushes_in_flight < back.flush_depth.max(1)
        })?;
        self.next_volume = (found + 1) % count;
        Some(found)
    }

    /// Flushes the next page of a volume in order, with its dirty neighbors.
    fn flush_next_run(&mut self, volume: usize, out: &mut CacheActions) {
        let Some(index) = self.volumes[volume].flush_queue.next_entry(&self.lines) else { return };
        let (shift, line) = (self.sizes.line_shift, self.lines[index]);
        let page =
            (self.lines.head(index).line_number << shift) + u64::from((line.dirty & !line.flushing).trailing_zeros());
        let (mut from, mut to) = (page, page + 1);
        // a line that spans two volumes belongs to the first
        let edge = |volume: &CacheVolume| volume.first_page.next_multiple_of(1 << shift);
        let low = if volume == 0 { 0 } else { edge(&self.volumes[volume]) };
        let high = self.volumes.get(volume + 1).map_or(u64::MAX, edge);
        while from > low && to - from < self.max_run_pages && self.can_flush(from - 1) {
            from -= 1;
        }
        while to < high && to - from < self.max_run_pages && self.can_flush(to) {
            to += 1;
        }
        let mut run = self.flights.begin_io(from, true);
        (from + 1..to).for_each(|_| self.flights.extend_by_page(run));
        for number in from >> shift..=(to - 1) >> shift {
            let mask = self.page_mask(number, from, to);
            let index = self.lines.find_entry(number);
            let line = &mut self.lines[index];
            line.dirty &= !mask;
            line.flushing |= mask;
            if line.dirty & !line.flushing == 0 && line.is_flush_queued {
                self.volumes[volume].flush_queue.remove_entry(&mut self.lines, index);
            }
        }
        self.volumes[volume].flush_queue.advance_arm((to - 1) >> shift);
        self.volumes[volume].flushes_in_flight += 1;
        self.flushing_pages += to - from;
        self.counters.flush_ios += 1;
        self.counters.pages_merged += to - from - 1;
        let before = self.counters.blocks_written;
        self.send_run(&mut run, None, out);
        debug_assert_eq!(run, NO_FLIGHT);
        self.counters.blocks_flushed += self.counters.blocks_written - before;
    }

    /// Returns the index of the volume of a line.
    #[inline]
    pub(super) fn find_volume(&self, line: u64) -> usize {
        if self.volumes.len() == 1 {
            return 0;
        }
        let page = line << self.sizes.line_shift;
        self.volumes.partition_point(|volume| volume.first_page <= page).saturating_sub(1)
    }

    /// Queues an entry to be flushed.
    #[inline]
    pub(super) fn queue_flush(&mut self, slot: u32) {
        let volume = self.find_volume(self.lines.head(slot).line_number);
        self.volumes[volume].flush_queue.push_entry(&mut self.lines, slot, self.now);
    }

    /// Returns true if a page is dirty and not being flushed.
    fn can_flush(&self, page: u64) -> bool {
        let index = self.lines.find_entry(page >> self.sizes.line_shift);
        index != NO_ENTRY && self.lines[index].dirty & !self.lines[index].flushing & self.page_bit(page) != 0
    }
}
