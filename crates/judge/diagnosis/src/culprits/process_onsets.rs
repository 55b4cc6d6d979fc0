//! When processes began to read, write or compute, and when they stopped: from one process table to the next. A table
//! covers some seconds, so a beginning is known to lie within them, and not when.

use std::collections::HashMap;

use diskwright_base::{FileRow, ProcessPlace, ProcessRow, ProcessTable, stable_task_name};

/// Largest number of processes that are followed, and of beginnings that are kept.
const MAX_PROCESSES: usize = 4096;
const MAX_ONSETS: usize = 4096;
/// Rates from which a process does something: bytes a second, and processors.
const MIN_BYTES_PER_S: f64 = 1e5;
const MIN_PROCESSORS: f64 = 0.1;
/// A process began if it does this many times what it did before, and stopped if it does less than this share.
const MIN_RISE: f64 = 3.0;
const MAX_REST_SHARE: f64 = 0.2;
/// Number of tables without a process after which it is forgotten.
const MAX_ABSENT_TABLES: u64 = 20;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Read,
    Write,
    Compute,
}

const DOINGS: [Doing; 3] = [Doing::Read, Doing::Write, Doing::Compute];

impl Doing {
    fn rate(self, row: &ProcessRow) -> f64 {
        match self {
            Doing::Read => row.read_bytes_per_s.or(row.requested_read_bytes_per_s).unwrap_or(0.0),
            Doing::Write => row.write_bytes_per_s.or(row.requested_write_bytes_per_s).unwrap_or(0.0),
            Doing::Compute => row.processor,
        }
    }

    /// What a process that does it is doing, for sentences.
    pub fn in_progress(self) -> &'static str {
        match self {
            Doing::Read => "reading",
            Doing::Write => "writing",
            Doing::Compute => "using processors",
        }
    }

    fn min_rate(self) -> f64 {
        if self == Doing::Compute { MIN_PROCESSORS } else { MIN_BYTES_PER_S }
    }
}

/// A beginning: a process did something that it did not do before.
#[derive(Clone, Debug)]
pub(crate) struct ProcessOnset {
    pub pid: u32,
    pub name: String,
    pub command_line: Option<String>,
    pub place: Option<Box<ProcessPlace>>,
    pub files: Vec<FileRow>,
    pub doing: Doing,
    /// True where the process itself started then.
    pub started: bool,
    /// Time in which it began, nanoseconds since 1970.
    pub began: (i64, i64),
    /// Time in which it stopped.
    pub stopped: Option<(i64, i64)>,
    /// Its largest rate.
    pub rate: f64,
}

/// What is known of a process.
#[derive(Clone, Debug, Default)]
struct KnownProcess {
    /// Rates in the last table that had it, by [`DOINGS`]; the beginnings that last.
    rates: [f64; 3],
    onsets: [Option<usize>; 3],
    /// The beginnings that ended last, and the table at which they did.
    ended: [Option<(usize, u64)>; 3],
    last_table: u64,
    /// Time of that table.
    last_range: (i64, i64),
}

/// Beginnings so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessOnsets {
    pub list: Vec<ProcessOnset>,
    /// Longest time that a table covers, seconds.
    pub longest_table_s: f64,
    /// True where the log has process tables.
    pub has_tables: bool,
    known: HashMap<(u32, String), KnownProcess>,
    tables: u64,
}

impl ProcessOnsets {
    /// Adds a table that ends at this time.
    pub fn add_table(&mut self, time_ns: i64, table: &ProcessTable) {
        let from_ns = time_ns.saturating_sub((table.elapsed_s * 1e9) as i64);
        self.longest_table_s = self.longest_table_s.max(table.elapsed_s);
        self.has_tables = true;
        self.tables += 1;
        for row in &table.rows {
            self.add_row(row, (from_ns, time_ns));
        }
        let now = self.tables;
        let list = &mut self.list;
        self.known.retain(|_, known| {
            if known.last_table < now {
                known.rates = [0.0; 3];
                for (onset, ended) in known.onsets.iter_mut().zip(&mut known.ended) {
                    if let Some(index) = onset.take() {
                        // it did nothing in this table, so it stopped in the one before
                        list[index].stopped = Some(known.last_range);
                        *ended = Some((index, now));
                    }
                }
            }
            now - known.last_table <= MAX_ABSENT_TABLES
        });
    }

    fn add_row(&mut self, row: &ProcessRow, range: (i64, i64)) {
        let key = (row.pid, stable_task_name(&row.name).to_owned());
        if self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&key) {
            return;
        }
        let known = self.known.entry(key).or_default();
        (known.last_table, known.last_range) = (self.tables, range);
        for (index, doing) in DOINGS.into_iter().enumerate() {
            let rate = doing.rate(row);
            let before = std::mem::replace(&mut known.rates[index], rate);
            if let Some(onset) = known.onsets[index] {
                let onset = &mut self.list[onset];
                onset.rate = onset.rate.max(rate);
                if onset.files.is_empty() {
                    onset.files.clone_from(&row.files);
                }
                if rate < MAX_REST_SHARE * onset.rate {
                    onset.stopped = Some(range);
                    known.ended[index] = known.onsets[index].take().map(|onset| (onset, self.tables));
                }
                continue;
            }
            // a pause of one table is none
            if let Some((onset, table)) = known.ended[index]
                && table + 1 == self.tables
                && rate >= MAX_REST_SHARE * self.list[onset].rate
            {
                let lasting = &mut self.list[onset];
                (lasting.stopped, lasting.rate) = (None, lasting.rate.max(rate));
                known.onsets[index] = Some(onset);
                continue;
            }
            // of what the first table has, nobody knows when it began
            let begins = self.tables > 1 && rate >= doing.min_rate() && rate >= MIN_RISE * before;
            if begins && self.list.len() < MAX_ONSETS {
                known.onsets[index] = Some(self.list.len());
                self.list.push(ProcessOnset {
                    pid: row.pid,
                    name: row.name.clone(),
                    command_line: row.command_line.clone(),
                    place: row.place.clone(),
                    files: row.files.clone(),
                    doing,
                    started: row.age_s.is_some(),
                    began: (row.age_s.map_or(range.0, |age_s| range.1 - (age_s * 1e9) as i64).max(range.0), range.1),
                    stopped: None,
                    rate,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn table(rows: &[(u32, &str, f64)]) -> ProcessTable {
        let row = |(pid, name, read): &(u32, &str, f64)| ProcessRow {
            pid: *pid,
            name: (*name).to_owned(),
            read_bytes_per_s: Some(*read),
            ..ProcessRow::default()
        };
        ProcessTable { elapsed_s: 5.0, rows: rows.iter().map(row).collect(), ..ProcessTable::default() }
    }

    #[test]
    fn a_process_begins_once_and_stops_and_one_that_was_there_does_not_begin() {
        let mut onsets = ProcessOnsets::default();
        let old = (9, "postgres", 2e6);
        let tables: [&[(u32, &str, f64)]; 7] = [
            &[old],
            &[old, (7, "cron", 1e3)],
            // it began in the last second of the table
            &[old, (12, "tar", 5e6)],
            &[old, (12, "tar", 3e7)],
            // it waits for a moment
            &[(9, "postgres", 1.5e6), (12, "tar", 1e3)],
            &[(9, "postgres", 1.5e6), (12, "tar", 3.1e7)],
            &[old],
        ];
        for (index, rows) in (1..).zip(tables) {
            onsets.add_table(index * 5 * SECOND, &table(rows));
        }
        let [tar] = onsets.list.try_into().unwrap();
        assert_eq!((tar.pid, tar.doing), (12, Doing::Read));
        assert_eq!((tar.began, tar.stopped), ((10 * SECOND, 15 * SECOND), Some((25 * SECOND, 30 * SECOND))));
        assert_eq!(tar.rate, 3.1e7);
    }

    /// The kernel knows when a process started.
    #[test]
    fn a_process_that_started_did_not_begin_before() {
        let mut onsets = ProcessOnsets::default();
        onsets.add_table(5 * SECOND, &table(&[]));
        let mut young = table(&[(12, "tar", 5e6)]);
        young.rows[0].age_s = Some(0.5);
        onsets.add_table(10 * SECOND, &young);
        assert_eq!((onsets.list[0].began, onsets.list[0].started), ((19 * SECOND / 2, 10 * SECOND), true));
    }
}
