//! Counts ticks and notes while a log is read, so that every loss can be
//! reported in ticks and notes, not only in bytes, and with the times around it.

use std::path::Path;

use crate::damage::{Damage, Loss};
use crate::ledger::TickLedger;

/// The numbers expected next, and the losses not yet reported.
#[derive(Debug, Default)]
pub(crate) struct LossAccount {
    pub next_tick: Option<u64>,
    pub next_note: Option<u64>,
    /// Wall time of the last tick so far.
    last_time_ns: Option<i64>,
    /// Losses not yet sized.
    unsized_losses: Vec<Damage>,
    /// Losses whose size is known, waiting for the time of the next tick.
    sized_losses: Vec<Damage>,
}

impl LossAccount {
    /// Records a loss. The numbers of the next sound record determine its size.
    pub fn add_loss(&mut self, file: &Path, offset: u64, bytes: u64, loss: Loss) {
        // A flipped bit can damage neighbouring records: adjacent losses make one report.
        if let Some(last) = self.unsized_losses.last_mut()
            && last.loss == loss
            && last.file == file
            && last.offset + last.bytes == offset
        {
            last.bytes += bytes;
            return;
        }
        self.unsized_losses
            .push(Damage { after_ns: self.last_time_ns, ..Damage::with_unknown_size(file, offset, bytes, loss) });
    }

    /// Records bytes that hold ticks that were already read.
    pub fn add_repetition(&mut self, file: &Path, offset: u64, bytes: u64) {
        if let Some(last) = self.sized_losses.last_mut()
            && last.loss == Loss::Repeated
            && last.file == file
        {
            last.bytes += bytes;
            return;
        }
        let damage = Damage::with_unknown_size(file, offset, bytes, Loss::Repeated);
        self.sized_losses.push(Damage { ticks: Some(0), notes: Some(0), after_ns: self.last_time_ns, ..damage });
    }

    /// Sizes the losses before a sound record at `offset`, which contains the
    /// numbers of the next tick and note.
    pub fn size_losses(&mut self, file: &Path, offset: u64, tick: u64, note: u64) {
        let ticks = self.next_tick.map(|expected| tick.saturating_sub(expected));
        let notes = self.next_note.map(|expected| note.saturating_sub(expected));
        // Numbers go down only in copies of records that were already read.
        self.next_tick = Some(tick.max(self.next_tick.unwrap_or(0)));
        self.next_note = Some(note.max(self.next_note.unwrap_or(0)));
        if self.unsized_losses.is_empty() && (ticks.is_some_and(|t| t > 0) || notes.is_some_and(|n| n > 0)) {
            self.add_loss(file, offset, 0, Loss::Missing);
        }
        self.assign_sizes(ticks, notes);
        // A killed recorder that lost nothing is not worth a report.
        self.sized_losses.retain(|d| d.loss != Loss::Unclosed || d.ticks != Some(0) || d.notes != Some(0));
    }

    /// Gives the unsized losses these sizes.
    fn assign_sizes(&mut self, ticks: Option<u64>, notes: Option<u64>) {
        for (index, mut damage) in std::mem::take(&mut self.unsized_losses).into_iter().enumerate() {
            // It is not known how many each of several losses cost: the first one gets all of them.
            damage.ticks = if index == 0 { ticks } else { ticks.map(|_| 0) };
            damage.notes = if index == 0 { notes } else { notes.map(|_| 0) };
            self.sized_losses.push(damage);
        }
    }

    /// Returns the losses before ticks from `from_ns` to `to_ns`, which come next.
    pub fn release_before(&mut self, from_ns: i64, to_ns: i64) -> Vec<Damage> {
        let mut released = std::mem::take(&mut self.sized_losses);
        released.iter_mut().for_each(|damage| damage.before_ns = Some(from_ns));
        self.last_time_ns = Some(to_ns);
        released
    }

    /// Sizes the losses at the end of the log by its ledger. `file` is where the log should have continued.
    pub fn finish_by_ledger(&mut self, file: &Path, ledger: &TickLedger) {
        let ticks = ledger.next_tick.saturating_sub(self.next_tick.unwrap_or(ledger.next_tick));
        if self.unsized_losses.is_empty() && ticks > 0 {
            self.add_loss(file, 0, 0, Loss::Missing);
        }
        let known = self.next_tick.filter(|_| !ledger.importing || ticks > 0);
        self.assign_sizes(known.map(|_| ticks), None);
        // The recorder still runs or was killed: an unfinished write is not a loss.
        let is_unfinished_write =
            |d: &Damage| matches!(d.loss, Loss::Unclosed | Loss::Unfinished) && d.ticks == Some(0);
        self.sized_losses.retain(|d| ledger.closed || !is_unfinished_write(d));
    }

    /// Returns the losses that no sound record follows.
    pub fn release_rest(&mut self) -> Vec<Damage> {
        let mut released = std::mem::take(&mut self.sized_losses);
        released.append(&mut self.unsized_losses);
        released
    }

    /// Forgets the expected numbers, because records are skipped unread.
    pub fn forget_position(&mut self) {
        self.next_tick = None;
        self.next_note = None;
    }

    /// Returns true if losses wait for their size.
    pub fn has_unsized_losses(&self) -> bool {
        !self.unsized_losses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach_tick(account: &mut LossAccount, offset: u64, tick: u64) -> Vec<Damage> {
        account.size_losses(Path::new("x"), offset, tick, 3);
        account.release_before(tick as i64, tick as i64)
    }

    #[test]
    fn losses_are_sized_by_what_follows() {
        let file = Path::new("x");
        let mut account = LossAccount::default();
        assert!(reach_tick(&mut account, 0, 10).is_empty());
        account.add_loss(file, 100, 20, Loss::Damaged);
        account.add_loss(file, 120, 5, Loss::Damaged);
        let losses = reach_tick(&mut account, 125, 14);
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].offset, losses[0].bytes, losses[0].ticks, losses[0].notes), (100, 25, Some(4), Some(0)));
        assert_eq!((losses[0].after_ns, losses[0].before_ns), (Some(10), Some(14)));
        let losses = reach_tick(&mut account, 200, 15);
        assert_eq!((losses[0].loss, losses[0].ticks), (Loss::Missing, Some(1)));
        account.add_loss(file, 300, 0, Loss::Unclosed);
        assert!(reach_tick(&mut account, 0, 15).is_empty(), "killed, and nothing lost");
        account.add_loss(file, 300, 0, Loss::Unclosed);
        assert_eq!(account.release_rest()[0].ticks, None);
    }

    #[test]
    fn the_ledger_sizes_losses_at_the_end_of_the_log() {
        let file = Path::new("x");
        let mut account = LossAccount { next_tick: Some(5), ..LossAccount::default() };
        let ledger = |next, closed| TickLedger { closed, ..TickLedger::starting_at(next, None) };
        account.add_loss(file, 10, 3, Loss::Unfinished);
        account.finish_by_ledger(file, &ledger(9, true));
        assert_eq!(account.release_rest()[0].ticks, Some(4));
        account.next_tick = Some(9);
        account.finish_by_ledger(file, &ledger(11, true));
        assert_eq!((account.release_rest()[0].loss, account.next_tick), (Loss::Missing, Some(9)));
        account.add_loss(file, 10, 0, Loss::Unclosed);
        account.finish_by_ledger(file, &ledger(9, false));
        assert!(account.release_rest().is_empty(), "a recorder that lives or was killed");
    }
}
