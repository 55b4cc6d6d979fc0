//! Keeps count of ticks and notes while a log is read, so that every loss can
//! be told in ticks and notes, not only in bytes.

use std::path::Path;

use crate::damage::{Damage, Loss};

/// What should come next, and the losses not yet sized.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub tick: Option<u64>,
    pub note: Option<u64>,
    losses: Vec<Damage>,
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
        self.losses.push(Damage { file: file.to_owned(), offset, bytes, ticks: None, notes: None, loss });
    }

    /// A sound record at `offset` says what comes next: sizes the losses
    /// before it and gives them out.
    pub fn reach(&mut self, file: &Path, offset: u64, tick: u64, note: u64) -> Vec<Damage> {
        let ticks = self.tick.map(|expected| tick.saturating_sub(expected));
        let notes = self.note.map(|expected| note.saturating_sub(expected));
        self.tick = Some(tick);
        self.note = Some(note);
        if self.losses.is_empty() && (ticks.is_some_and(|t| t > 0) || notes.is_some_and(|n| n > 0)) {
            self.lose(file, offset, 0, Loss::Missing);
        }
        let mut losses = std::mem::take(&mut self.losses);
        for (i, damage) in losses.iter_mut().enumerate() {
            // The first bears the whole; which of several it was cannot be told.
            damage.ticks = if i == 0 { ticks } else { ticks.map(|_| 0) };
            damage.notes = if i == 0 { notes } else { notes.map(|_| 0) };
        }
        // A recorder that was killed and lost nothing is nothing to report.
        losses.retain(|d| d.loss != Loss::Unclosed || d.ticks != Some(0) || d.notes != Some(0));
        losses
    }

    /// Gives out the losses that nothing follows.
    pub fn give_up(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.losses)
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

    #[test]
    fn losses_are_sized_by_what_follows() {
        let file = Path::new("x");
        let mut account = Account::default();
        assert!(account.reach(file, 0, 10, 3).is_empty());
        account.lose(file, 100, 20, Loss::Damaged);
        account.lose(file, 120, 5, Loss::Damaged);
        let told = account.reach(file, 125, 14, 3);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].offset, told[0].bytes, told[0].ticks, told[0].notes), (100, 25, Some(4), Some(0)));
        let told = account.reach(file, 200, 15, 3);
        assert_eq!((told[0].loss, told[0].ticks), (Loss::Missing, Some(1)));
        account.lose(file, 300, 0, Loss::Unclosed);
        assert!(account.reach(file, 0, 15, 3).is_empty(), "killed, and nothing lost");
        account.lose(file, 300, 0, Loss::Unclosed);
        assert_eq!(account.give_up()[0].ticks, None);
    }
}
