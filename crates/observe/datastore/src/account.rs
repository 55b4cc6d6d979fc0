//! Counts ticks and notes while a log is read, so that every loss can be
//! reported in ticks and notes, not only in bytes, and with the times around it.

use std::path::Path;

use crate::damage::{Damage, Loss};
use crate::ledger::TickLedger;

/// The numbers expected next, and the losses not yet reported.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub tick: Option<u64>,
    pub note: Option<u64>,
    /// Wall time of the last tick so far.
    time_ns: Option<i64>,
    /// Losses not yet sized.
    losses: Vec<Damage>,
    /// Losses whose size is known, waiting for the time of the next tick.
    sized: Vec<Damage>,
}

impl Account {
    /// Records a loss. The numbers of the next sound record determine its size.
    pub fn lose(&mut self, file: &Path, offset: u64, bytes: u64, loss: Loss) {
        // A flipped bit can damage neighbouring records: adjacent losses make one report.
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

    /// Records bytes that hold ticks that were already read.
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

    /// Sizes the losses before a sound record at `offset`, which contains the
    /// numbers of the next tick and note.
    pub fn size(&mut self, file: &Path, offset: u64, tick: u64, note: u64) {
        let ticks = self.tick.map(|expected| tick.saturating_sub(expected));
        let notes = self.note.map(|expected| note.saturating_sub(expected));
        // Numbers fall only in copies of records that were already read.
        self.tick = Some(tick.max(self.tick.unwrap_or(0)));
        self.note = Some(note.max(self.note.unwrap_or(0)));
        if self.losses.is_empty() && (ticks.is_some_and(|t| t > 0) || notes.is_some_and(|n| n > 0)) {
            self.lose(file, offset, 0, Loss::Missing);
        }
        self.sized_by(ticks, notes);
        // A killed recorder that lost nothing is not worth a report.
        self.sized.retain(|d| d.loss != Loss::Unclosed || d.ticks != Some(0) || d.notes != Some(0));
    }

    /// Gives the unsized losses these sizes.
    fn sized_by(&mut self, ticks: Option<u64>, notes: Option<u64>) {
        for (i, mut damage) in std::mem::take(&mut self.losses).into_iter().enumerate() {
            // The first loss gets all of them: which of several lost how many is not known.
            damage.ticks = if i == 0 { ticks } else { ticks.map(|_| 0) };
            damage.notes = if i == 0 { notes } else { notes.map(|_| 0) };
            self.sized.push(damage);
        }
    }

    /// Returns the losses before ticks from `from_ns` to `to_ns`, which come next.
    pub fn arrive(&mut self, from_ns: i64, to_ns: i64) -> Vec<Damage> {
        let mut released = std::mem::take(&mut self.sized);
        released.iter_mut().for_each(|damage| damage.before_ns = Some(from_ns));
        self.time_ns = Some(to_ns);
        released
    }

    /// Sizes the losses at the end of the log by its ledger. `file` is where the log should have continued.
    pub fn end(&mut self, file: &Path, ledger: &TickLedger) {
        let ticks = ledger.next.saturating_sub(self.tick.unwrap_or(ledger.next));
        if self.losses.is_empty() && ticks > 0 {
            self.lose(file, 0, 0, Loss::Missing);
        }
        let known = self.tick.filter(|_| !ledger.import || ticks > 0);
        self.sized_by(known.map(|_| ticks), None);
        // The recorder still runs or was killed: an unfinished write is not a loss.
        let in_flight = |d: &Damage| matches!(d.loss, Loss::Unclosed | Loss::Unfinished) && d.ticks == Some(0);
        self.sized.retain(|d| ledger.closed || !in_flight(d));
    }

    /// Returns the losses that no sound record follows.
    pub fn give_up(&mut self) -> Vec<Damage> {
        let mut released = std::mem::take(&mut self.sized);
        released.append(&mut self.losses);
        released
    }

    /// Forgets the expected numbers, because records are skipped unread.
    pub fn skip(&mut self) {
        self.tick = None;
        self.note = None;
    }

    /// Returns true if losses wait for their size.
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
        let losses = reach(&mut account, 125, 14);
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].offset, losses[0].bytes, losses[0].ticks, losses[0].notes), (100, 25, Some(4), Some(0)));
        assert_eq!((losses[0].after_ns, losses[0].before_ns), (Some(10), Some(14)));
        let losses = reach(&mut account, 200, 15);
        assert_eq!((losses[0].loss, losses[0].ticks), (Loss::Missing, Some(1)));
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
