//! Text of nfsiostat: for each mount its operations, and a table each for reads and writes.
//!
//! ```text
//! nas:/export mounted on /srv:
//!
//!            ops/s       rpc bklog
//!           63.417           0.000
//!
//! read:              ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)
//!                   60.010        1920.320          32.000        0 (0.0%)           2.414           2.497
//! ```

use diskwright_base::counter_ids::network_filesystem as nfs;

use crate::level_reports::LevelReports;
use crate::stamp_line::parse_stamp;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, NumericDateOrder};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "nfsiostat-text",
    title: "nfsiostat: text",
    explain: "Operations, bytes, round trips, waits in the client and repeats of each mount. The first report covers \
              the time since the mount and is omitted, unless it is the only one. Record with `nfsiostat 5 > FILE`; \
              without a `date` before each report, give --interval.",
    recognize: |head: &InputHead<'_>| head.text_lines().any(|line| parse_mount(&line).is_some()),
    read,
};

/// Parses `nas:/export mounted on /srv:`; returns where it is mounted.
fn parse_mount(line: &str) -> Option<&str> {
    let (server, mount) = line.trim().split_once(" mounted on ")?;
    mount.strip_suffix(':').filter(|mount| mount.starts_with('/') && server.contains(":/"))
}

/// Kind of the row below headings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Missing,
    /// Operations and backlog of the mount.
    Mount,
    Reads,
    Writes,
}

/// Numbers of reads or writes.
#[derive(Clone, Copy, Default)]
struct Direction {
    operations_per_s: f64,
    round_trip_s: f64,
    execution_s: f64,
    queue_s: Option<f64>,
    retransmitted: f64,
}

/// Sums of both directions of a mount.
#[derive(Default)]
struct MountSums {
    operations_per_s: f64,
    round_trip: f64,
    execution: f64,
    queue: Option<f64>,
    retransmitted: f64,
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(&head, "");
    let mut stream = StreamWindow::new(input);
    let mut log = NfsiostatLog {
        reports: LevelReports::new(batch, options, "nfsiostat"),
        order,
        mount: String::new(),
        mounts: Vec::new(),
        section: Section::Missing,
        headings: Vec::new(),
        sums: MountSums::default(),
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.reports.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    log.finish_mount();
    log.reports.finish_log(log.line_number);
    Ok(())
}

struct NfsiostatLog<'b, 'c> {
    reports: LevelReports<'b, 'c>,
    order: NumericDateOrder,
    mount: String,
    /// Mounts of this report; a repeated one begins another.
    mounts: Vec<String>,
    section: Section,
    headings: Vec<&'static str>,
    sums: MountSums,
    line_number: u64,
}

/// Names of the columns, in the order in which a longer name comes before its beginning.
const COLUMNS: [&str; 10] = [
    "ops/s",
    "op/s",
    "rpc bklog",
    "kB/s",
    "kB/op",
    "retrans",
    "avg RTT (ms)",
    "avg exe (ms)",
    "avg queue (ms)",
    "errors",
];

/// Returns the headings of a line in their order; empty if it has none.
fn parse_headings(line: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &'static str)> =
        COLUMNS.into_iter().filter_map(|name| Some((line.find(name)?, name))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Parses a row; the share in parentheses stands in place of its number of repeats.
fn parse_row(line: &str) -> Vec<f64> {
    let mut numbers: Vec<f64> = Vec::new();
    for word in line.replace("( ", "(").split_whitespace() {
        if let Some(share) = word.strip_prefix('(') {
            let share = share.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(f64::NAN);
            if let Some(last) = numbers.last_mut() {
                *last = share / 100.0;
            }
        } else {
            numbers.push(word.replace(',', ".").parse().unwrap_or(f64::NAN));
        }
    }
    numbers
}

impl NfsiostatLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if let Some(mount) = parse_mount(text) {
            self.finish_mount();
            if self.mounts.iter().any(|known| known == mount) {
                self.mounts.clear();
                self.reports.finish_report(self.line_number);
            }
            mount.clone_into(&mut self.mount);
            self.mounts.push(mount.to_owned());
            return;
        }
        let headings = parse_headings(text);
        if headings.len() >= 2 {
            self.section = match text.trim().split(':').next() {
                Some("read") => Section::Reads,
                Some("write") => Section::Writes,
                _ => Section::Mount,
            };
            self.headings = headings;
            return;
        }
        let numbers = parse_row(text);
        if self.section != Section::Missing && !numbers.is_empty() && !numbers[0].is_nan() {
            self.read_row(&numbers);
            self.section = Section::Missing;
        } else if let Some(stamp) = parse_stamp(text, self.order) {
            self.finish_mount();
            self.mounts.clear();
            self.reports.begin_at(stamp, self.line_number);
        } else {
            self.reports.batch.add_skip(format!("line {}", self.line_number), "a line that is not of nfsiostat");
        }
    }

    fn read_row(&mut self, numbers: &[f64]) {
        let headings = std::mem::take(&mut self.headings);
        let value = |wanted: &str| {
            let index = headings.iter().position(|name| *name == wanted)?;
            numbers.get(index).copied().filter(|value| (0.0..1e15).contains(value))
        };
        let operations = value("ops/s").or(value("op/s"));
        let (rate, bytes, size, round_trip) = match self.section {
            Section::Reads => {
                (nfs::READS_PER_S, nfs::READ_BYTES_PER_S, nfs::AVG_BYTES_PER_READ, nfs::AVG_READ_ROUND_TRIP_S)
            }
            Section::Writes => {
                (nfs::WRITES_PER_S, nfs::WRITE_BYTES_PER_S, nfs::AVG_BYTES_PER_WRITE, nfs::AVG_WRITE_ROUND_TRIP_S)
            }
            Section::Mount | Section::Missing => {
                self.put_value(nfs::OPERATIONS_PER_S, operations);
                return self.put_value(nfs::AVG_BACKLOG_LENGTH, value("rpc bklog"));
            }
        };
        let ms = |name: &str| value(name).map(|ms| ms * 1e-3);
        self.put_value(rate, operations);
        self.put_value(bytes, value("kB/s").map(|kib| kib * 1024.0));
        self.put_value(size, value("kB/op").map(|kib| kib * 1024.0));
        self.put_value(round_trip, ms("avg RTT (ms)"));
        self.add_direction(Direction {
            operations_per_s: operations.unwrap_or(0.0),
            round_trip_s: ms("avg RTT (ms)").unwrap_or(0.0),
            execution_s: ms("avg exe (ms)").unwrap_or(0.0),
            queue_s: ms("avg queue (ms)"),
            retransmitted: value("retrans").filter(|share| *share <= 1.0).unwrap_or(0.0),
        });
    }

    fn put_value(&mut self, counter: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.reports.put_value(counter, &self.mount, value);
        }
    }

    fn add_direction(&mut self, direction: Direction) {
        let Direction { operations_per_s: operations, .. } = direction;
        // before nfs-utils 2.4 the time in the queue is the rest of the execution
        let queue_s = direction.queue_s.unwrap_or((direction.execution_s - direction.round_trip_s).max(0.0));
        self.sums.operations_per_s += operations;
        self.sums.round_trip += operations * direction.round_trip_s;
        self.sums.execution += operations * direction.execution_s;
        self.sums.queue = Some(self.sums.queue.unwrap_or(0.0) + operations * queue_s);
        self.sums.retransmitted += operations * direction.retransmitted;
    }

    /// Puts what follows from both directions of the mount: means, and by Little's law how many operations wait.
    fn finish_mount(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        let Some(queue) = sums.queue else { return };
        self.put_value(nfs::REQUESTS_IN_FLIGHT, Some(sums.execution));
        self.put_value(nfs::REQUESTS_QUEUED, Some(queue));
        if sums.operations_per_s > 0.0 {
            let mean = |sum: f64| Some(sum / sums.operations_per_s);
            self.put_value(nfs::AVG_ROUND_TRIP_S, mean(sums.round_trip));
            self.put_value(nfs::AVG_EXECUTION_S, mean(sums.execution));
            self.put_value(nfs::AVG_QUEUE_S, mean(queue));
            self.put_value(nfs::RETRANSMISSION_FRACTION, mean(sums.retransmitted));
        }
    }
}
