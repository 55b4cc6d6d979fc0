//! Rows of disks that could not be read, or only in part. What these disks did is not known, so that nothing may be
//! concluded from the others.

use std::collections::BTreeMap;

use diskwright_base::Note;

use crate::batch::FrameBatch;

/// Largest number of names that are counted.
const MAX_NAMES: usize = 10_000;
/// Longest name of a disk.
const MAX_NAME_BYTES: usize = 64;
/// Largest number of names in the note.
const MAX_SHOWN: usize = 4;
/// Smallest part of a disk's rows, percent, without which it is not known what it did.
const MIN_LEFT_OUT_PERCENT: u32 = 20;

/// Rows of each disk: read, and left out.
#[derive(Debug, Default)]
pub(super) struct LeftOutRows {
    rows: BTreeMap<String, (u32, u32)>,
}

impl LeftOutRows {
    /// Counts a row that was read whole.
    pub fn count_row(&mut self, name: &str) {
        if let Some((read, _)) = self.rows.get_mut(name) {
            *read += 1;
        } else if self.rows.len() < MAX_NAMES {
            self.rows.insert(name.to_owned(), (1, 0));
        }
    }

    /// Counts a row that was left out, or cut.
    pub fn add_row(&mut self, name: &str) {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= MAX_NAME_BYTES;
        if is_name && (self.rows.len() < MAX_NAMES || self.rows.contains_key(name)) {
            self.rows.entry(name.to_owned()).or_default().1 += 1;
        }
    }

    /// Counts a row that was cut, with the values of its whole cells: if these show a quiet disk, it was read.
    pub fn add_cut_row(&mut self, name: &str, values: &[(&str, f64)]) {
        if is_quiet(values) { self.count_row(name) } else { self.add_row(name) }
    }

    /// Counts a line that is no row, if it begins with the name of a disk.
    pub fn add_words(&mut self, name: &str) {
        if let Some((_, left_out)) = self.rows.get_mut(name) {
            *left_out += 1;
        }
    }

    /// Remarks for which disks much is left out.
    pub fn add_note(&self, batch: &mut FrameBatch<'_>) {
        let is_unknown = |(read, left_out): &(u32, u32)| *left_out * 100 >= (read + left_out) * MIN_LEFT_OUT_PERCENT;
        let names: Vec<&str> = self
            .rows
            .iter()
            .filter(|(_, rows)| rows.1 > 0 && is_unknown(rows))
            .map(|(name, _)| name.as_str())
            .collect();
        if names.is_empty() {
            return;
        }
        let shown = names[..names.len().min(MAX_SHOWN)].join(", ");
        let more =
            if names.len() > MAX_SHOWN { format!(" and {} more", names.len() - MAX_SHOWN) } else { String::new() };
        let time_ns = batch.last_tick_ns().unwrap_or(0);
        batch.push_note(Note::new(time_ns, Note::WARNING, format!("{shown}{more}: {}", Note::DISK_ROWS_LEFT_OUT)));
    }
}

/// Most requests a second of a quiet disk, and most milliseconds of each of its requests.
const MAX_QUIET_REQUESTS_PER_S: f64 = 5.0;
const MAX_QUIET_AWAIT_MS: f64 = 1.0;

/// True if the cells of a cut row show that the disk had little to do: few requests, or fast ones.
fn is_quiet(values: &[(&str, f64)]) -> bool {
    let named = |is_wanted: fn(&str) -> bool| values.iter().filter(move |(name, _)| is_wanted(name)).map(|(_, v)| *v);
    let requests: Vec<f64> = named(|name| matches!(name, "r/s" | "w/s" | "tps")).collect();
    let waits: Vec<f64> = named(|name| matches!(name, "await" | "r_await" | "w_await")).collect();
    let are_few = requests.len() >= 2 && requests.iter().sum::<f64>() <= MAX_QUIET_REQUESTS_PER_S;
    let are_fast = waits.len() >= 2 && waits.iter().all(|wait| *wait <= MAX_QUIET_AWAIT_MS);
    are_few || are_fast
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_row_of_a_quiet_disk_was_read() {
        for (values, is_read) in [
            (&[("r/s", 0.5), ("w/s", 2.0)][..], true),
            (&[("r/s", 50.0), ("w/s", 2.0)], false),
            (&[("r/s", 50.0), ("r_await", 0.2), ("w/s", 2.0), ("w_await", 0.1)], true),
            (&[("r/s", 50.0), ("r_await", 0.2), ("w/s", 20.0), ("w_await", 90.0)], false),
            (&[("r/s", 0.5)], false),
        ] {
            let mut rows = LeftOutRows::default();
            rows.add_cut_row("sdq", values);
            assert_eq!(rows.rows["sdq"], if is_read { (1, 0) } else { (0, 1) }, "{values:?}");
        }
    }
}
