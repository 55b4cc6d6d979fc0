//! What was posted goes below: when, which, and in how long runs.

use super::flights::NOTHING;
use super::lines::NONE;
use super::{Back, Cache, Out};

impl Cache {
    /// Sends what is to go now, as many I/Os as may be under way, and asks to
    /// be called again where something waits for its age.
    pub(super) fn flush(&mut self, out: &mut Out) {
        let Some(back) = self.back else { return };
        while self.leaving_ios < back.flush_depth.max(1) && self.wants_flush(&back) {
            if !self.flush_one(out) {
                break;
            }
        }
        self.draining &= self.dirty > 0;
        if let (Some(after), Some((_, since)), None) = (back.flush_after, self.order.oldest(&self.lines), self.wake) {
            let due = since.saturating_add(after);
            // what is overdue goes as soon as one of those under way is done
            if due > self.now {
                self.wake = Some(due);
                out.wake_at = self.wake;
            }
        }
    }

    fn wants_flush(&self, back: &Back) -> bool {
        let Some((_, since)) = self.order.oldest(&self.lines) else { return false };
        self.draining
            || self.dirty - self.leaving > self.flush_above
            || !self.flights.writers.is_empty()
            || !self.flights.readers.is_empty()
            || back.flush_after.is_some_and(|after| since.saturating_add(after) <= self.now)
    }

    /// The next page in order, with its dirty neighbours.
    fn flush_one(&mut self, out: &mut Out) -> bool {
        let Some(at) = self.order.next(&self.lines) else { return false };
        let (shift, line) = (self.sizes.line_shift, self.lines[at]);
        let page = (line.number << shift) + u64::from((line.dirty & !line.flushing).trailing_zeros());
        let (mut from, mut to) = (page, page + 1);
        while from > 0 && to - from < self.run_most && self.may_go(from - 1) {
            from -= 1;
        }
        while to - from < self.run_most && self.may_go(to) {
            to += 1;
        }
        let mut run = self.flights.begin(from, true);
        (from + 1..to).for_each(|_| self.flights.extend(run));
        for number in from >> shift..=(to - 1) >> shift {
            let mask = self.mask(number, from, to);
            let at = self.lines.find(number);
            let line = &mut self.lines[at];
            line.dirty &= !mask;
            line.flushing |= mask;
            if line.dirty & !line.flushing == 0 && line.queued {
                self.order.remove(&mut self.lines, at);
            }
        }
        self.order.passed((to - 1) >> shift);
        self.leaving += to - from;
        self.leaving_ios += 1;
        self.counters.flush_ios += 1;
        self.counters.pages_merged += to - from - 1;
        let before = self.counters.blocks_written;
        self.close(&mut run, None, out);
        debug_assert_eq!(run, NOTHING);
        self.counters.blocks_flushed += self.counters.blocks_written - before;
        true
    }

    /// A page is dirty and not on its way.
    fn may_go(&self, page: u64) -> bool {
        let at = self.lines.find(page >> self.sizes.line_shift);
        at != NONE && self.lines[at].dirty & !self.lines[at].flushing & self.bit(page) != 0
    }
}
