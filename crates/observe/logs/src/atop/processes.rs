//! Lines of processes: PRC (processor), PRM (memory) and PRD (disk), a line of
//! each for every process and every thread.

use std::collections::HashMap;

use diskwright_base::ProcessRow;

/// Largest number of processes of a sample.
const MAX_PROCESSES: usize = 50_000;

/// The processes of a sample.
#[derive(Default)]
pub struct AtopProcesses(HashMap<u32, ProcessRow>);

/// Splits `42 (post gres) S 100 ...` into pid, name, and the words behind the state.
fn split_process_line(text: &str) -> Option<(u32, &str, Vec<&str>)> {
    let (pid, rest) = text.split_once(' ')?;
    let pid = pid.parse().ok()?;
    let (name, rest) = match rest.strip_prefix('(') {
        // a name may hold blanks and brackets; behind it stand `) `, a letter and a blank
        Some(inner) => {
            let bytes_behind = |index: usize| inner.as_bytes().get(index + 2..index + 4);
            let is_end =
                |index: &usize| matches!(bytes_behind(*index), Some([state, b' ']) if state.is_ascii_alphabetic());
            let end = inner.match_indices(") ").map(|(index, _)| index).find(is_end)?;
            (&inner[..end], &inner[end + 2..])
        }
        None => rest.split_once(' ')?,
    };
    Some((pid, name, rest.split_whitespace().skip(1).collect()))
}

impl AtopProcesses {
    /// Parses the part of a line behind its interval; returns false if it does not have the fields of its label.
    pub fn parse_line(&mut self, label: &str, text: &str, seconds: f64) -> bool {
        let Some((pid, name, words)) = split_process_line(text) else { return false };
        let number = |index: usize| words.get(index).and_then(|w| w.parse::<f64>().ok()).map(|v| v.max(0.0));
        // a thread has lines like its process, and is left out
        let is_process = match label {
            "PRC" => words.get(10),
            "PRM" => words.get(13),
            _ => words.get(9),
        };
        if is_process.is_some_and(|w| *w == "n") || self.0.len() >= MAX_PROCESSES && !self.0.contains_key(&pid) {
            return true;
        }
        let row = self.0.entry(pid).or_default();
        (row.pid, row.name) = (pid, name.to_owned());
        match label {
            "PRC" => {
                let (Some(hertz), Some(user), Some(system)) = (number(0).filter(|h| *h > 0.0), number(1), number(2))
                else {
                    return false;
                };
                row.processor = (user + system) / hertz / seconds;
                row.processor_system = system / hertz / seconds;
                // the wait channel stands in brackets before it
                let has_delay = words.get(12).is_some_and(|w| w.starts_with('(') && w.ends_with(')'));
                row.block_delay = number(13).filter(|_| has_delay).map(|ticks| ticks / hertz / seconds);
                true
            }
            "PRM" => {
                row.resident_bytes = number(2).unwrap_or(0.0) * 1024.0;
                row.major_faults_per_s = number(7).unwrap_or(0.0) / seconds;
                row.swapped_bytes = number(11).map(|kib| kib * 1024.0);
                words.len() > 11
            }
            _ => {
                // without the kernel's accounting these numbers mean nothing
                let is_counted = words.get(1) == Some(&"y");
                row.read_bytes_per_s = number(3).filter(|_| is_counted).map(|sectors| sectors * 512.0 / seconds);
                row.write_bytes_per_s = number(5).filter(|_| is_counted).map(|sectors| sectors * 512.0 / seconds);
                words.len() > 6
            }
        }
    }

    /// Returns all processes; the next sample begins.
    pub fn take_rows(&mut self) -> impl Iterator<Item = ProcessRow> {
        std::mem::take(&mut self.0).into_values()
    }

    /// Forgets the processes.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_brackets() {
        let split = |text: &str| split_process_line(text).map(|(pid, name, words)| (pid, name.to_owned(), words.len()));
        assert_eq!(split("42 (a b) S 1 2"), Some((42, "a b".into(), 2)));
        assert_eq!(split("42 (a ) (b) S 1 2"), Some((42, "a ) (b".into(), 2)));
        assert_eq!(split("42 a_b S 1 2"), Some((42, "a_b".into(), 2)));
        assert_eq!(split("x (a) S 1"), None);
        assert_eq!(split("42 (a"), None);
    }
}
