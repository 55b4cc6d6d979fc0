//! Keeps count of ticks and notes while a log is read, so that every loss can
//! be told in ticks and notes, not only in bytes, and between which times.

use std::path::Path;

use crate::damage::{Damage, Loss};
use crate::ledger::TickLedger;

/// What should come next, and the losses not yet told.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub tick: Option<u64>,
    pub note: Option<u64>,
    /// Wall time of the last tick so far.
    time_ns: Option<i64>,
    /// Losses not yet sized.
    losses: Vec<Damage>,
    /// Losses that wait for the time of the next tick.
    sized: Vec<Damage>,
}

impl Account {
    /// Takes down a loss; what comes next will tell its size.
    pub fn lose(&mut self, file: &Path, offset: u64, bytes: u64, loss: Loss) {
        // A flipped bit can spoil neighbours: one place, one report.
        if let Some(last) = self.losses.last_mut()
            && last.loss == loss
            && last.file == file
            && last.offset + last.bytes == offset
        {
            last.bytes += bytes;
            return;
        }
        self.losses.push(Damage { after_ns: self.time_ns, ..Damage::at(file, offset, bytes, loss) });
    }

    /// Takes down a stretch that holds what was read already.
    pub fn repeat(&mut self, file: &Path, offset: u64, bytes: u64) {
        if let Some(last) = self.sized.last_mut()
            && last.loss == Loss::Repeated
            && last.file == file
        {
            last.bytes += bytes;
            return;
        }
        let damage = Damage::at(file, offset, bytes, Loss::Repeated);
        self.sized.push(Damage { ticks: Some(0), notes: Some(0), after_ns: self.time_ns, ..damage });
    }

    /// A sound record at `offset` says what comes next: sizes the losses
    /// before it.
    pub fn size(&mut self, file: &Path, offset: u64, tick: u64, note: u64) {
        let ticks = self.tick.map(|expected| tick.saturating_sub(expected));
        let notes = self.note.map(|expected| note.saturating_sub(expected));
        // Numbers never fall, but for copies of what was read already.
        self.tick = Some(tick.max(self.tick.unwrap_or(0)));
        self.note = Some(note.max(self.note.unwrap_or(0)));
        if self.losses.is_empty() && (ticks.is_some_and(|t| t > 0) || notes.is_some_and(|n| n > 0)) {
            self.lose(file, offset, 0, Loss::Missing);
        }
        self.sized_by(ticks, notes);
        // A recorder that was killed and lost nothing is nothing to report.
        self.sized.retain(|d| d.loss != Loss::Unclosed || d.ticks != Some(0) || d.notes != Some(0));
    }

    fn sized_by(&mut self, ticks: Option<u64>, notes: Option<u64>) {
        for (i, mut damage) in std::mem::take(&mut self.losses).into_iter().enumerate() {
            // The first bears the whole; which of several it was cannot be told.
            damage.ticks = if i == 0 { ticks } else { ticks.map(|_| 0) };
            damage.notes = if i == 0 { notes } else { notes.map(|_| 0) };
            self.sized.push(damage);
        }
    }

    /// Ticks from `from_ns` to `to_ns` come next: gives out the losses before them.
    pub fn arrive(&mut self, from_ns: i64, to_ns: i64) -> Vec<Damage> {
        let mut told = std::mem::take(&mut self.sized);
        told.iter_mut().for_each(|damage| damage.before_ns = Some(from_ns));
        self.time_ns = Some(to_ns);
        told
    }

    /// The log ends, by its ledger. `file` is where it should have gone on.
    pub fn end(&mut self, file: &Path, ledger: &TickLedger) {
        let ticks = ledger.next.saturating_sub(self.tick.unwrap_or(ledger.next));
        if self.losses.is_empty() && ticks > 0 {
            self.lose(file, 0, 0, Loss::Missing);
        }
        let known = self.tick.filter(|_| !ledger.import || ticks > 0);
        self.sized_by(known.map(|_| ticks), None);
        // A recorder that lives, or was killed: what it was writing was not lost.
        let under_way = |d: &Damage| matches!(d.loss, Loss::Unclosed | Loss::Unfinished) && d.ticks == Some(0);
        self.sized.retain(|d| ledger.closed || !under_way(d));
    }

    /// Gives out the losses that nothing follows.
    pub fn give_up(&mut self) -> Vec<Damage> {
        let mut told = std::mem::take(&mut self.sized);
        told.append(&mut self.losses);
        told
    }

    /// Forgets what should come next (a stretch is passed over unread).
    pub fn skip(&mut self) {
        self.tick = None;
        self.note = None;
    }

    /// True where losses wait for their size.
    pub fn is_open(&self) -> bool {
        !self.losses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(account: &mut Account, offset: u64, tick: u64) -> Vec<Damage> {
        account.size(Path::new("x"), offset, tick, 3);
        account.arrive(tick as i64, tick as i64)
    }

    #[test]
    fn losses_are_sized_by_what_follows() {
        let file = Path::new("x");
        let mut account = Account::default();
        assert!(reach(&mut account, 0, 10).is_empty());
        account.lose(file, 100, 20, Loss::Damaged);
        account.lose(file, 120, 5, Loss::Damaged);
        let told = reach(&mut account, 125, 14);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].offset, told[0].bytes, told[0].ticks, told[0].notes), (100, 25, Some(4), Some(0)));
        assert_eq!((told[0].after_ns, told[0].before_ns), (Some(10), Some(14)));
        let told = reach(&mut account, 200, 15);
        assert_eq!((told[0].loss, told[0].ticks), (Loss::Missing, Some(1)));
        account.lose(file, 300, 0, Loss::Unclosed);
        assert!(reach(&mut account, 0, 15).is_empty(), "killed, and nothing lost");
        account.lose(file, 300, 0, Loss::Unclosed);
        assert_eq!(account.give_up()[0].ticks, None);
    }

    #[test]
    fn the_ledger_sizes_what_nothing_follows() {
        let file = Path::new("x");
        let mut account = Account { tick: Some(5), ..Account::default() };
        let ledger = |next, closed| TickLedger { closed, ..TickLedger::from(next, None) };
        account.lose(file, 10, 3, Loss::Unfinished);
        account.end(file, &ledger(9, true));
        assert_eq!(account.give_up()[0].ticks, Some(4));
        account.tick = Some(9);
        account.end(file, &ledger(11, true));
        assert_eq!((account.give_up()[0].loss, account.tick), (Loss::Missing, Some(9)));
        account.lose(file, 10, 0, Loss::Unclosed);
        account.end(file, &ledger(9, false));
        assert!(account.give_up().is_empty(), "a recorder that lives or was killed");
    }
}
