//! What to do, with each command whole on a line of its own: half a command cannot be typed.

use diskwright_diagnosis::Verdict;

use super::{FrontDetail, Screen};
use crate::remedies::{Remedy, remedies_in_order};
use crate::style::Ink;

/// Columns before a remedy.
const INDENT: usize = 5;

impl Screen<'_> {
    /// Adds the remedies, at least one against each bottleneck. Returns the number of lines up to the end of the first.
    pub(super) fn add_advice(&mut self, verdict: &Verdict, detail: FrontDetail) -> usize {
        let remedies = remedies_in_order(verdict);
        if remedies.is_empty() {
            return self.lines.len();
        }
        let shown = remedies.len().min(detail.advice.max(verdict.bottlenecks.len()));
        self.add_heading_of_some("What to do, cheapest first", (remedies.len(), shown));
        let mut first_ends = 0;
        for (index, remedy) in remedies[..shown].iter().enumerate() {
            self.add_remedy(index + 1, remedy, detail.advice_lines);
            if index == 0 {
                first_ends = self.lines.len();
            }
        }
        first_ends
    }

    fn add_remedy(&mut self, number: usize, remedy: &Remedy, max_lines: usize) {
        let first = format!("  {number}.");
        let Some(command) = &remedy.command else {
            return self.add_words(&first, INDENT, &remedy.words(), None, max_lines);
        };
        if let Some(typed) = remedy.typed().filter(|_| max_lines == 1 && !self.is_whole) {
            return self.add_words(&first, INDENT, &typed, Some(Ink::Bold), usize::MAX);
        }
        self.add_words(&first, INDENT, &remedy.words(), None, max_lines.saturating_sub(1));
        self.add_words("", INDENT, command, Some(Ink::Bold), usize::MAX);
        if let Some(undo) = remedy.undo.as_ref().filter(|_| max_lines > 2) {
            self.add_words("", INDENT, &format!("back: {undo}"), Some(Ink::Dim), usize::MAX);
        }
    }
}
