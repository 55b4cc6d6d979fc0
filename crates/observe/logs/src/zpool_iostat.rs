//! Text of `zpool iostat`, with and without -v and -l: pools, groups of disks and disks, each indented below what it
//! belongs to.
//!
//! ```text
//!               capacity     operations     bandwidth
//! pool        alloc   free   read  write   read  write
//! ----------  -----  -----  -----  -----  -----  -----
//! tank         720G   208G     48    310  1.21M  14.6M
//!   mirror     720G   208G     48    310  1.21M  14.6M
//!     sdf         -      -     25    155   620K  14.6M
//! ```

use crate::level_reports::LevelReports;
use crate::stamp_line::parse_stamp;
use crate::sysstat::impossible_clock;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::{self, NumericDateOrder};
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "zpool-iostat",
    title: "zpool iostat: text",
    explain: "Disks (-v) as disks, pools as volumes; waits with -l. The first report covers the time since boot and is \
              omitted, unless it is the only one. Record with `zpool iostat -vly -T u 10 > FILE`; without -T, give \
              --interval.",
    recognize: |head: &InputHead<'_>| head.text_lines().any(|line| is_heading(&line)),
    read,
};

/// Beginnings of the names of groups.
const GROUPS: [&str; 12] =
    ["mirror", "raidz", "draid", "spare", "replacing", "logs", "cache", "special", "dedup", "indirect", "log", "holes"];

/// Returns true for the line of columns: `pool alloc free read write read write`.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_first = matches!(words.first(), Some(&"pool" | &"vdev"));
    let sizes = words.get(1..3).is_some_and(|two| matches!(two, ["alloc" | "used", "free" | "avail"]));
    is_first && sizes && words.len() >= 7 && words[3..7] == ["read", "write", "read", "write"]
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(&head, "");
    let mut stream = StreamWindow::new(input);
    let mut log = ZpoolLog {
        reports: LevelReports::new(batch, options, "zpool iostat"),
        order,
        has_headings: false,
        has_waits: false,
        group: String::new(),
        pools: Vec::new(),
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.reports.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    log.reports.finish_log(log.line_number);
    Ok(())
}

struct ZpoolLog<'b, 'c> {
    reports: LevelReports<'b, 'c>,
    order: NumericDateOrder,
    has_headings: bool,
    /// Set if the columns of -l follow: `total_wait disk_wait …`.
    has_waits: bool,
    /// Line with the titles of groups, above the columns.
    group: String,
    /// Pools of this report; a repeated one begins another.
    pools: Vec<String>,
    line_number: u64,
}

/// Parses `1.21M`, `310`, `14.6ms`; `None` for `-`.
fn parse_amount(word: &str) -> Option<f64> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let number: f64 = word[..end].parse().ok()?;
    let factor = match &word[end..] {
        "" | "B" => 1.0,
        "K" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        "T" => 1_099_511_627_776.0,
        "P" => 1_125_899_906_842_624.0,
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(number * factor)
}

impl ZpoolLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_rule = words.iter().all(|word| word.bytes().all(|b| b == b'-'));
        if words.is_empty() || is_rule && words.len() > 1 {
            return;
        }
        if words[0] == "capacity" {
            text.clone_into(&mut self.group);
            return;
        }
        if is_heading(text) {
            self.has_headings = true;
            self.has_waits = self.group.contains("total_wait");
            return;
        }
        let amounts: Vec<Option<f64>> = words[1..].iter().map(|word| parse_amount(word)).collect();
        let is_row = amounts.len() >= 6 && amounts[2..6].iter().flatten().count() >= 3;
        if self.has_headings && is_row {
            return self.read_row(text, words[0], &amounts);
        }
        if let Some(stamp) = parse_stamp(text, self.order) {
            self.pools.clear();
            return self.reports.begin_at(stamp, self.line_number);
        }
        // a group of disks without numbers of its own
        if !GROUPS.iter().any(|group| words[0].starts_with(group)) {
            let because = impossible_clock::skip_reason(text, "a line that is not of zpool iostat");
            self.reports.batch.add_skip(format!("line {}", self.line_number), because);
        }
    }

    fn read_row(&mut self, text: &str, name: &str, amounts: &[Option<f64>]) {
        let is_pool = !text.starts_with([' ', '\t']);
        if GROUPS.iter().any(|group| name.starts_with(group)) {
            return;
        }
        if is_pool && self.pools.iter().any(|known| known == name) {
            self.pools.clear();
            self.reports.finish_report(self.line_number);
        }
        if is_pool {
            self.pools.push(name.to_owned());
        }
        let object = if is_pool { "logical_disk" } else { "physical_disk" };
        let amount = |index: usize| amounts.get(index).copied().flatten();
        // -l: total_wait and then disk_wait, reads and writes of each
        let wait = |index: usize| amount(index).filter(|_| self.has_waits);
        let sum = |first: Option<f64>, second: Option<f64>| Some(first? + second?);
        let values = [
            ("reads_per_s", amount(2)),
            ("writes_per_s", amount(3)),
            ("transfers_per_s", sum(amount(2), amount(3))),
            ("read_bytes_per_s", amount(4)),
            ("write_bytes_per_s", amount(5)),
            ("avg_s_per_read", if is_pool { wait(6) } else { wait(8) }),
            ("avg_s_per_write", if is_pool { wait(7) } else { wait(9) }),
            ("free_bytes", amount(1).filter(|_| is_pool)),
            ("total_bytes", sum(amount(0), amount(1)).filter(|_| is_pool)),
        ];
        for (counter, value) in values {
            if let Some(value) = value {
                self.reports.put_value(&format!("{object}.{counter}"), name, value);
            }
        }
    }
}
