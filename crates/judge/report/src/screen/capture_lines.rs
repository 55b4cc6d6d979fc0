//! What was saved at the beginning of alerts: a line for the latest, and everything in the whole answer.

use diskwright_diagnosis::Verdict;

use super::{BackDetail, Screen};
use crate::captures;
use crate::style::Ink;
use crate::time::DisplayZone;

impl Screen<'_> {
    /// Adds the latest capture in a line or two; with no limit, all of them with all that they have.
    pub(super) fn add_captures(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        let is_whole = detail.phases == usize::MAX;
        let count = if is_whole { verdict.captures.len() } else { 1 };
        let first = verdict.captures.len().saturating_sub(count);
        for capture in &verdict.captures[first..] {
            self.lines.push(String::new());
            let more = if is_whole { "" } else { " (`--full`)" };
            let lines = if is_whole { usize::MAX } else { 1 };
            self.add_words("", 2, &format!("{}{more}", captures::short_line(capture, zone)), None, lines);
            if is_whole {
                for line in captures::detail_lines(capture) {
                    let indent = 2 + (line.len() - line.trim_start().len());
                    self.add_words(&" ".repeat(indent), indent + 2, line.trim_start(), Some(Ink::Dim), usize::MAX);
                }
            }
        }
    }
}
