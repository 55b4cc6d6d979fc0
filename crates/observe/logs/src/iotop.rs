//! Text of `iotop -b`, or a part of it: the bytes of all disks, and for each process its bytes and the share of time in
//! which it waited for them.
//!
//! ```text
//! Total DISK READ:         2.41 M/s | Total DISK WRITE:       310.20 K/s
//! Current DISK READ:       2.41 M/s | Current DISK WRITE:       1.02 M/s
//!     TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN      IO    COMMAND
//!    9120 be/4 pg          2.41 M/s    0.00 B/s  0.00 % 71.30 % postgres: vacuum
//! ```

use diskwright_base::counter_ids::{paging, system};
use diskwright_base::{Note, ProcessRow, ProcessTable};

use crate::level_row::LevelRow;
use crate::report_times::ReportTimes;
use crate::stamp_line::parse_stamp;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, NumericDateOrder};
use crate::tool::process_tables::{MAX_ROWS, TOO_MANY_PROCESSES};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "iotop-text",
    title: "iotop -b: text",
    explain: "Bytes of all disks and of each process, and how long processes wait for disks, as process tables; no \
              disks. Record with `iotop -b -o -d 10 > FILE`; without times, give --interval.",
    recognize: |head: &InputHead<'_>| {
        head.text_lines().any(|line| parse_totals(&line).is_some() || parse_row(&line).is_some())
    },
    read,
};

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let mut stream = StreamWindow::new(input);
    let mut log = IotopLog {
        batch,
        times: ReportTimes::new(options),
        order: time::guess_date_order(&head, ""),
        row: LevelRow::default(),
        rows: Vec::new(),
        has_totals: false,
        is_open: false,
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    log.finish_report();
    Ok(())
}

struct IotopLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    times: ReportTimes,
    order: NumericDateOrder,
    row: LevelRow,
    rows: Vec<ProcessRow>,
    has_totals: bool,
    is_open: bool,
    line_number: u64,
}

/// Bytes per second of all disks.
struct IotopTotals {
    /// `Total` counts what processes requested, `Actual` or `Current` what disks did.
    is_of_disks: bool,
    read: f64,
    written: f64,
}

/// Parses a number and its unit: `2.41 M/s`.
fn parse_rate(number: &str, unit: &str) -> Option<f64> {
    let factor = match unit.strip_suffix("/s")? {
        "B" => 1.0,
        "K" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        _ => return None,
    };
    Some(number.replace(',', ".").parse::<f64>().ok()? * factor).filter(|rate| (0.0..1e13).contains(rate))
}

fn parse_totals(line: &str) -> Option<IotopTotals> {
    let line = line.trim();
    let is_of_disks = line.starts_with("Actual DISK READ") || line.starts_with("Current DISK READ");
    if !is_of_disks && !line.starts_with("Total DISK READ") {
        return None;
    }
    let rate = |part: &str| {
        let words: Vec<&str> = part.split_once("DISK")?.1.split([' ', ':']).filter(|word| !word.is_empty()).collect();
        parse_rate(words.get(1)?, words.get(2)?)
    };
    let (read, written) = line.split_once('|')?;
    Some(IotopTotals { is_of_disks, read: rate(read)?, written: rate(written)? })
}

/// Parses the row of a process.
fn parse_row(line: &str) -> Option<ProcessRow> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // -t puts the time in front
    let words = if words.first()?.contains(':') { &words[1..] } else { &words[..] };
    let is_priority =
        words.get(1).is_some_and(|word| ["be/", "rt/", "id", "?"].iter().any(|start| word.starts_with(start)));
    if words.len() < 8 || !is_priority {
        return None;
    }
    let pid = words[0].parse().ok()?;
    let (read, written) = (parse_rate(words[3], words[4])?, parse_rate(words[5], words[6])?);
    let mut shares = Vec::new();
    let mut index = 7;
    while words.get(index + 1) == Some(&"%") && shares.len() < 2 {
        shares.push(words[index].replace(',', ".").parse::<f64>().ok()?);
        index += 2;
    }
    // without delay accounting the text `?unavailable?` stands here
    let command = words[index..].join(" ");
    let command = command.trim_start_matches("?unavailable?").trim();
    let block_delay = shares.last().map(|share| (share / 100.0).min(1.0));
    let row = ProcessRow {
        pid,
        user: Some(words[2].to_owned()),
        cgroup: "/".to_owned(),
        read_bytes_per_s: Some(read),
        write_bytes_per_s: Some(written),
        block_delay,
        blocked_share: block_delay.unwrap_or(0.0),
        ..ProcessRow::default()
    };
    Some(row.with_command(command))
}

impl IotopLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        if let Some(totals) = parse_totals(text) {
            if !totals.is_of_disks {
                self.finish_report();
            }
            if totals.is_of_disks || !self.has_totals {
                // the second line is what disks did
                self.row.clear();
                self.row.put_value(paging::BLOCK_IN_BYTES_PER_S, "", totals.read);
                self.row.put_value(paging::BLOCK_OUT_BYTES_PER_S, "", totals.written);
            }
            (self.has_totals, self.is_open) = (true, true);
        } else if let Some(row) = parse_row(text) {
            self.is_open = true;
            if self.rows.len() < MAX_ROWS {
                self.rows.push(row);
            } else {
                self.batch.add_skip(format!("line {}", self.line_number), TOO_MANY_PROCESSES);
            }
        } else if let Some(stamp) = parse_stamp(text, self.order) {
            self.finish_report();
            self.times.set_stamp(stamp);
        } else if !text.trim().is_empty() && !text.contains("COMMAND") {
            self.batch.add_skip(format!("line {}", self.line_number), "a line that is not of iotop");
        }
    }

    fn finish_report(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let (time_ns, elapsed_ns) = self.times.next(self.batch);
        let mut rows = std::mem::take(&mut self.rows);
        if !std::mem::take(&mut self.has_totals) {
            let sum = |bytes: fn(&ProcessRow) -> Option<f64>| rows.iter().filter_map(bytes).sum::<f64>();
            self.row.put_value(paging::BLOCK_IN_BYTES_PER_S, "", sum(|row| row.read_bytes_per_s));
            self.row.put_value(paging::BLOCK_OUT_BYTES_PER_S, "", sum(|row| row.write_bytes_per_s));
        }
        let delays: Vec<f64> = rows.iter().filter_map(|row| row.block_delay).collect();
        if !delays.is_empty() {
            self.row.put_value(system::IO_WAITING, "", delays.iter().sum());
        }
        self.row.emit_tick(self.batch, time_ns, elapsed_ns);
        if !rows.is_empty() {
            let bytes = |row: &ProcessRow| row.read_bytes_per_s.unwrap_or(0.0) + row.write_bytes_per_s.unwrap_or(0.0);
            rows.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(a.pid.cmp(&b.pid)));
            let elapsed_s = elapsed_ns.map_or(1.0, |ns| ns as f64 * 1e-9);
            let table = ProcessTable { elapsed_s, rows, ..ProcessTable::default() };
            self.batch.push_note(Note::processes(time_ns, table));
        }
    }
}
