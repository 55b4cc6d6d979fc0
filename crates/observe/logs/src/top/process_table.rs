//! Processes in top's output, summed into one process table per ten seconds or per frame, whichever is longer.

use std::collections::HashMap;

use diskwright_base::counter_ids::system;
use diskwright_base::{Note, ProcessRow, ProcessTable};

use super::frame::parse_size_bytes;
use crate::batch::FrameBatch;
use crate::kernel_threads::KernelThreads;
use crate::level_row::LevelRow;
use crate::tool::process_tables::{MAX_ROWS, TOO_MANY_PROCESSES};

/// Shortest time that a table covers, seconds.
const TABLE_INTERVAL_S: f64 = 10.0;
/// Time that a single frame is taken to cover, seconds.
const SINGLE_FRAME_S: f64 = 1.0;

/// Headings of a row whose headings were not copied.
const USUAL_HEADINGS: [&str; 12] =
    ["PID", "USER", "PR", "NI", "VIRT", "RES", "SHR", "S", "%CPU", "%MEM", "TIME+", "COMMAND"];

/// Returns true for the line of headings above processes; outside of a frame it must be unlike that of ps.
pub(super) fn is_heading(text: &str, is_in_frame: bool) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let has = |wanted: &str| words.contains(&wanted);
    let is_of_top = has("COMMAND") && (has("TIME+") || has("%VSZ") || has("S") && !has("TTY"));
    has("PID") && has("%CPU") && (is_in_frame || is_of_top)
}

/// Returns true for the row of a process as top prints it by default.
pub(super) fn is_row(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |index: usize| words[index].replace(',', ".").parse::<f64>().is_ok_and(|share| share >= 0.0);
    words.len() >= USUAL_HEADINGS.len()
        && words[0].parse::<u32>().is_ok()
        && matches!(words[7], "R" | "S" | "D" | "I" | "T" | "Z" | "t")
        && is_number(8)
        && is_number(9)
        && words[10].contains([':', '.'])
}

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
    /// `None` where the table has no such column.
    resident_bytes: Option<f64>,
    is_blocked: bool,
}

/// Processes of the frames since the last table.
#[derive(Default)]
pub(super) struct TopTable {
    /// Names of the columns; empty before the line of headings.
    pub(super) headings: Vec<String>,
    /// The rows are threads, which do not become process tables.
    pub(super) is_threads: bool,
    /// Processes of this frame.
    frame_rows: Vec<TopRow>,
    /// Threads of this frame.
    frame_threads: Vec<TopRow>,
    /// Processes of the first frame.
    held_rows: Vec<TopRow>,
    /// Threads of the first frame.
    held_threads: Vec<TopRow>,
    kernel_threads: KernelThreads,
    sums: HashMap<u32, TopSum>,
    seconds: f64,
    frame_count: u32,
}

impl TopTable {
    /// Reads the line of headings.
    pub(super) fn read_heading(&mut self, text: &str) {
        self.headings = text.split_whitespace().map(str::to_owned).collect();
    }

    /// Reads the line of a process; `None` for other lines, such as those before the headings.
    pub(super) fn read_row(&mut self, text: &str) -> Option<Result<(), &'static str>> {
        const NOT_A_PROCESS: &str = "a line below the headings that is not a process";
        if self.headings.is_empty() && is_row(text) {
            self.headings = USUAL_HEADINGS.map(str::to_owned).to_vec();
        }
        if self.headings.is_empty() {
            return None;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let column = |name: &str| self.headings.iter().position(|heading| heading == name);
        let cell = |name: &str| column(name).and_then(|index| words.get(index)).copied();
        let pid = cell("PID").and_then(|pid| pid.parse::<u32>().ok())?;
        // a lost cell shifts the following ones, so the state is then not a letter
        let is_state = |state: &str| state.len() <= 3 && state.starts_with(|c: char| c.is_ascii_uppercase());
        if words.len() < self.headings.len() || cell("S").is_some_and(|state| !is_state(state) || state.len() > 1) {
            return Some(Err(NOT_A_PROCESS));
        }
        let share_percent =
            cell("%CPU").and_then(|share| share.trim_end_matches('%').replace(',', ".").parse::<f64>().ok());
        let Some(share_percent) = share_percent.filter(|share| (0.0..1e6).contains(share)) else {
            return Some(Err(NOT_A_PROCESS));
        };
        let resident_bytes = cell("RES").and_then(|bytes| parse_size_bytes(bytes, 1024.0));
        let name = match column("COMMAND") {
            // as the last column, the command may contain blanks
            Some(start) if start + 1 == self.headings.len() => words[start..].join(" "),
            Some(index) => words[index].to_owned(),
            None => pid.to_string(),
        };
        if self.frame_rows.len().max(self.frame_threads.len()) >= MAX_ROWS {
            return Some(Err(TOO_MANY_PROCESSES));
        }
        let is_blocked = cell("S").or_else(|| cell("STAT")).is_some_and(|state| state.starts_with('D'));
        let row = TopRow { pid, name, share_percent, resident_bytes, is_blocked };
        let rows = if self.is_threads { &mut self.frame_threads } else { &mut self.frame_rows };
        rows.push(row);
        Some(Ok(()))
    }

    /// Holds the processes of the first frame.
    pub(super) fn hold_frame(&mut self) {
        self.held_rows = std::mem::take(&mut self.frame_rows);
        self.held_threads = std::mem::take(&mut self.frame_threads);
    }

    /// Returns how many processes of the first frame are blocked.
    pub(super) fn held_blocked_count(&self) -> usize {
        self.held_rows.iter().filter(|row| row.is_blocked).count()
    }

    /// Puts what the kernel's own threads did in this frame into its row.
    pub(super) fn put_kernel_threads(&mut self, row: &mut LevelRow) {
        put_threads(&mut self.kernel_threads, &self.frame_rows, row);
        put_threads(&mut self.kernel_threads, &std::mem::take(&mut self.frame_threads), row);
    }

    /// As [`TopTable::put_kernel_threads`], for the first frame.
    pub(super) fn put_held_kernel_threads(&mut self, row: &mut LevelRow) {
        put_threads(&mut self.kernel_threads, &self.held_rows, row);
        put_threads(&mut self.kernel_threads, &std::mem::take(&mut self.held_threads), row);
    }

    /// Keeps the processes of the first frame. It covers no known time: its shares count only if it is the only one,
    /// states and memory in any case.
    pub(super) fn finish_held_frame(&mut self, is_only: bool) {
        let rows = std::mem::take(&mut self.held_rows);
        if !rows.is_empty() {
            self.add_rows(rows, if is_only { SINGLE_FRAME_S } else { 0.0 });
        }
    }

    /// Discards the processes of this frame.
    pub(super) fn drop_frame(&mut self) {
        self.frame_rows.clear();
        self.frame_threads.clear();
    }

    /// Adds the processes of this frame, which covers `seconds`, to the sums.
    pub(super) fn finish_frame(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64, seconds: f64, is_first: bool) {
        self.frame_threads.clear();
        if is_first || self.frame_rows.is_empty() {
            self.frame_rows.clear();
            return;
        }
        let rows = std::mem::take(&mut self.frame_rows);
        self.add_rows(rows, seconds);
        if self.seconds >= TABLE_INTERVAL_S {
            self.emit_table(batch, Some(time_ns));
        }
    }

    fn add_rows(&mut self, rows: Vec<TopRow>, seconds: f64) {
        for row in rows {
            let sum = self.sums.entry(row.pid).or_default();
            sum.name = row.name;
            sum.processor_s += row.share_percent / 100.0 * seconds;
            sum.resident_bytes = row.resident_bytes.unwrap_or(0.0);
            sum.blocked_frames += u32::from(row.is_blocked);
        }
        self.seconds += seconds;
        self.frame_count += 1;
    }

    /// Emits the table of the collected processes.
    pub(super) fn emit_table(&mut self, batch: &mut FrameBatch<'_>, time_ns: Option<i64>) {
        let (Some(time_ns), true) = (time_ns, self.seconds > 0.0) else { return };
        let (seconds, frames) = (std::mem::take(&mut self.seconds), std::mem::take(&mut self.frame_count));
        let row = |(pid, sum): (u32, TopSum)| {
            let row = ProcessRow {
                pid,
                cgroup: "/".to_owned(),
                processor: sum.processor_s / seconds,
                blocked_share: f64::from(sum.blocked_frames) / f64::from(frames.max(1)),
                resident_bytes: sum.resident_bytes,
                ..ProcessRow::default()
            };
            row.with_command(&sum.name)
        };
        let mut rows: Vec<ProcessRow> = self.sums.drain().map(row).collect();
        rows.sort_by(|a, b| b.processor.total_cmp(&a.processor).then(a.pid.cmp(&b.pid)));
        let table = ProcessTable { elapsed_s: seconds, rows, ..ProcessTable::default() };
        batch.push_note(Note::processes(time_ns, table));
    }
}

/// Puts what threads of the kernel did into a row, and how busy the busiest of the others is.
fn put_threads(threads: &mut KernelThreads, rows: &[TopRow], row: &mut LevelRow) {
    if rows.is_empty() {
        return;
    }
    // threads of the kernel have no memory of their own; a list without that column tells them by their names
    let is_of_kernel = |process: &&TopRow| process.resident_bytes.unwrap_or(0.0) == 0.0;
    for process in rows.iter().filter(is_of_kernel) {
        threads.add_process(&process.name, process.share_percent / 100.0, process.is_blocked);
    }
    threads.put_values(row);
    let others = rows.iter().filter(|process| process.resident_bytes.is_some_and(|bytes| bytes > 0.0));
    let busiest = others.map(|process| process.share_percent / 100.0).reduce(f64::max);
    row.put_value(system::BUSIEST_PROCESS, "", busiest.unwrap_or(0.0));
}
