//! Processes in top's output, summed into one process table per ten seconds or per frame, whichever is longer.

use std::collections::HashMap;

use diskwright_base::{Note, ProcessRow, ProcessTable};

use super::frame::parse_size_bytes;
use crate::batch::FrameBatch;

/// Shortest time that a table covers, seconds.
const TABLE_INTERVAL_S: f64 = 10.0;
/// Largest number of processes of one table.
const MAX_ROWS: usize = 20_000;

/// Sums of one process over frames.
#[derive(Default)]
struct TopSum {
    name: String,
    /// Processor share multiplied by seconds.
    processor_s: f64,
    resident_bytes: f64,
    /// Number of frames in which it was blocked.
    blocked_frames: u32,
}

/// Row of a process in a frame.
struct TopRow {
    pid: u32,
    name: String,
    /// Share of a processor, percent.
    share_percent: f64,
    resident_bytes: f64,
    is_blocked: bool,
}

/// Processes of the frames since the last table.
#[derive(Default)]
pub(super) struct TopTable {
    /// Names of the columns; empty before the line of headings.
    pub(super) headings: Vec<String>,
    /// The rows are threads, which are not collected.
    pub(super) is_threads: bool,
    /// Processes of this frame.
    frame_rows: Vec<TopRow>,
    sums: HashMap<u32, TopSum>,
    seconds: f64,
    frame_count: u32,
}

impl TopTable {
    /// Reads the line of headings; returns false for other lines.
    pub(super) fn read_heading(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_heading = words.contains(&"PID") && words.contains(&"%CPU");
        if is_heading {
            self.headings = words.iter().map(|word| (*word).to_owned()).collect();
        }
        is_heading
    }

    /// Reads the line of a process; `None` for other lines, such as those before the headings.
    pub(super) fn read_row(&mut self, text: &str, is_first: bool) -> Option<Result<(), &'static str>> {
        const NOT_A_PROCESS: &str = "a line below the headings that is not a process";
        if self.headings.is_empty() {
            return None;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let column = |name: &str| self.headings.iter().position(|heading| heading == name);
        let cell = |name: &str| column(name).and_then(|index| words.get(index)).copied();
        let pid = cell("PID").and_then(|pid| pid.parse::<u32>().ok())?;
        // a lost cell shifts the following ones, so the state is then not a letter
        let is_state = |state: &str| state.len() == 1 && state.bytes().all(|b| b.is_ascii_alphabetic());
        if words.len() < self.headings.len() || cell("S").is_some_and(|state| !is_state(state)) {
            return Some(Err(NOT_A_PROCESS));
        }
        let share_percent = cell("%CPU").and_then(|share| share.replace(',', ".").parse::<f64>().ok());
        let Some(share_percent) = share_percent.filter(|share| (0.0..1e6).contains(share)) else {
            return Some(Err(NOT_A_PROCESS));
        };
        let resident_bytes = cell("RES").and_then(|bytes| parse_size_bytes(bytes, 1024.0)).unwrap_or(0.0);
        let name = match column("COMMAND") {
            // as the last column, the command may contain blanks
            Some(start) if start + 1 == self.headings.len() => words[start..].join(" "),
            Some(index) => words[index].to_owned(),
            None => pid.to_string(),
        };
        if !is_first && !self.is_threads && self.frame_rows.len() < MAX_ROWS {
            let is_blocked = cell("S") == Some("D");
            self.frame_rows.push(TopRow { pid, name, share_percent, resident_bytes, is_blocked });
        }
        Some(Ok(()))
    }

    /// Discards the processes of this frame.
    pub(super) fn drop_frame(&mut self) {
        self.frame_rows.clear();
    }

    /// Adds the processes of this frame, which covers `seconds`, to the sums.
    pub(super) fn finish_frame(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64, seconds: f64, is_first: bool) {
        if is_first || self.frame_rows.is_empty() {
            self.frame_rows.clear();
            return;
        }
        for row in self.frame_rows.drain(..) {
            let sum = self.sums.entry(row.pid).or_default();
            sum.name = row.name;
            sum.processor_s += row.share_percent / 100.0 * seconds;
            sum.resident_bytes = row.resident_bytes;
            sum.blocked_frames += u32::from(row.is_blocked);
        }
        self.seconds += seconds;
        self.frame_count += 1;
        if self.seconds >= TABLE_INTERVAL_S {
            self.emit_table(batch, Some(time_ns));
        }
    }

    /// Emits the table of the collected processes.
    pub(super) fn emit_table(&mut self, batch: &mut FrameBatch<'_>, time_ns: Option<i64>) {
        let (Some(time_ns), true) = (time_ns, self.seconds > 0.0) else { return };
        let (seconds, frames) = (std::mem::take(&mut self.seconds), std::mem::take(&mut self.frame_count));
        let row = |(pid, sum): (u32, TopSum)| ProcessRow {
            pid,
            name: sum.name,
            cgroup: "/".to_owned(),
            processor: sum.processor_s / seconds,
            blocked_share: f64::from(sum.blocked_frames) / f64::from(frames.max(1)),
            resident_bytes: sum.resident_bytes,
            ..ProcessRow::default()
        };
        let mut rows: Vec<ProcessRow> = self.sums.drain().map(row).collect();
        rows.sort_by(|a, b| b.processor.total_cmp(&a.processor).then(a.pid.cmp(&b.pid)));
        let table = ProcessTable { elapsed_s: seconds, rows, ..ProcessTable::default() };
        batch.push_note(Note::processes(time_ns, table));
    }
}
