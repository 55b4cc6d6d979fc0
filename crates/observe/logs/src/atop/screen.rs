//! What atop shows on its screen, also as `atop 10 3` and `atop -r FILE` print it: counts of an interval, whose length
//! stands in the first line.
//!
//! ```text
//! ATOP - db1      2026/11/24  14:03:10      -----------      10s elapsed
//! CPU | sys      12%  | user     45%  | irq       1%  | idle    342%  | wait      0%  |
//! DSK |          sda  | busy     99%  | read   12345  | write    234  | avio 0.79 ms  |
//! ```

use diskwright_base::counter_ids::{memory, network, paging, physical_disk, pressure, processor, system};
use diskwright_base::{Note, ProcessRow, ProcessTable, Topology};

use crate::first_report;
use crate::level_row::LevelRow;
use crate::stamp_line::parse_stamp;
use crate::sysstat::clock::SysstatClock;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time::NumericDateOrder;
use crate::tool::process_tables::{MAX_ROWS, TOO_MANY_PROCESSES};
use crate::top::parse_size_bytes;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static SCREEN: LogFormat = LogFormat {
    id: "atop-screen",
    title: "atop: its screen as text",
    explain: "Lines CPU, cpu, CPL, MEM, SWP, PAG, PSI, DSK, LVM, MDD and NET, and the processes below them. The first \
              report covers the time since boot and is omitted, unless it is the only one. `atop -P ALL` prints more.",
    recognize: |head: &InputHead<'_>| head.text_lines().any(|line| parse_first_line(&line).is_some()),
    read,
};

/// A first report this many times as long as the next covers the time since boot.
const MIN_BOOT_RATIO: f64 = 10.0;

/// First line of a report.
struct FirstLine {
    host: String,
    stamp: crate::stamp_line::StampLine,
    elapsed_s: f64,
}

/// Parses `ATOP - db1   2026/11/24  14:03:10   -----   1m10s elapsed`.
fn parse_first_line(line: &str) -> Option<FirstLine> {
    let rest = line.trim().strip_prefix("ATOP - ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (host, date, clock) = (words.first()?, words.get(1)?, words.get(2)?);
    let elapsed =
        words.iter().position(|word| *word == "elapsed").and_then(|index| words.get(index.checked_sub(1)?))?;
    let elapsed_s = match *elapsed {
        "seconds" => words.iter().rev().nth(2)?.parse().ok()?,
        text => parse_length_s(text)?,
    };
    let stamp = parse_stamp(&format!("{} {clock}", date.replace('/', "-")), NumericDateOrder::MonthFirst)?;
    Some(FirstLine { host: (*host).to_owned(), stamp, elapsed_s })
}

/// Parses `10s`, `1m10s`, `3d4h12m5s`.
fn parse_length_s(text: &str) -> Option<f64> {
    let (mut seconds, mut digits) = (0.0, String::new());
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let unit = match letter {
            'd' => 86_400.0,
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            _ => return None,
        };
        seconds += std::mem::take(&mut digits).parse::<f64>().ok()? * unit;
    }
    (digits.is_empty() && seconds > 0.0).then_some(seconds)
}

/// A report that is read, or held.
#[derive(Default)]
struct ScreenReport {
    time_ns: i64,
    elapsed_s: f64,
    line_number: u64,
    rows: Vec<ProcessRow>,
}

struct ScreenLog<'b, 'c> {
    batch: &'c mut FrameBatch<'b>,
    clock: SysstatClock,
    row: LevelRow,
    report: Option<ScreenReport>,
    /// The first report, until the next shows whether it is since boot.
    held: Option<(ScreenReport, Vec<f64>)>,
    report_count: u64,
    topology: Topology,
    is_announced: bool,
    headings: Vec<String>,
    line_number: u64,
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut stream = StreamWindow::new(input);
    let mut log = ScreenLog {
        batch,
        clock: SysstatClock::new(options),
        row: LevelRow::default(),
        report: None,
        held: None,
        report_count: 0,
        topology: Topology::default(),
        is_announced: false,
        headings: Vec::new(),
        line_number: 0,
    };
    while let Some(text) = stream.next_text_line(log.batch, &mut log.line_number)? {
        log.read_line(&text);
    }
    log.finish_report();
    log.emit_held(true);
    Ok(())
}

/// Cells of a line between bars: name, and what stands behind it.
fn split_cells(text: &str) -> Vec<(&str, &str)> {
    let cells = text.split('|').skip(1).map(str::trim).filter(|cell| !cell.is_empty());
    cells.map(|cell| cell.split_once(' ').map_or((cell, ""), |(name, value)| (name, value.trim()))).collect()
}

/// Parses `12%`, `1234`, `12e5`, `91.2M`, `812 Kbps`.
fn parse_value(text: &str) -> Option<f64> {
    let word = text.split_whitespace().next()?.trim_end_matches('%');
    word.parse().ok().or_else(|| parse_size_bytes(word, 1.0))
}

impl ScreenLog<'_, '_> {
    fn read_line(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if let Some(first) = parse_first_line(text) {
            self.finish_report();
            let time_ns = self.clock.utc_ns(first.stamp.local_s, &first.stamp.zone, self.batch);
            self.topology.host = first.host;
            let (elapsed_s, line_number) = (first.elapsed_s, self.line_number);
            self.report = Some(ScreenReport { time_ns, elapsed_s, line_number, rows: Vec::new() });
            self.headings.clear();
            return;
        }
        let Some(seconds) = self.report.as_ref().map(|report| report.elapsed_s) else {
            return self.add_skip("a line before the first report");
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.contains(&"PID") && words.contains(&"CMD") {
            self.headings = words.iter().map(|word| (*word).to_owned()).collect();
            return;
        }
        if !text.contains('|') {
            return self.read_process(&words);
        }
        let cells = split_cells(text);
        match words[0] {
            "CPU" => self.put_shares("_total", &cells),
            "cpu" => {
                let number = cells.iter().find_map(|(name, _)| name.strip_prefix("cpu")?.parse::<u32>().ok());
                self.put_shares(&format!("cpu{}", number.unwrap_or(0)), &cells);
            }
            "CPL" | "MEM" | "SWP" | "PAG" | "PSI" => self.put_system(words[0], &cells, seconds),
            "DSK" | "LVM" | "MDD" => self.put_disk(&cells, seconds),
            "NET" => self.put_network(&cells, seconds),
            // numbers of processes, NFS, containers and others
            _ => {}
        }
    }

    fn add_skip(&mut self, because: &str) {
        self.batch.add_skip(format!("line {}", self.line_number), because);
    }

    /// Puts shares of a processor, or of all: they add up to 100 % for each.
    fn put_shares(&mut self, instance: &str, cells: &[(&str, &str)]) {
        let value = |wanted: &str| cells.iter().find(|(name, _)| *name == wanted).and_then(|(_, v)| parse_value(v));
        // of a single processor the wait is that of its own cell, `cpu001 w 83%`
        let own_wait = cells.iter().find(|(name, v)| name.starts_with("cpu") && v.starts_with('w'));
        let wait = value("wait").or_else(|| parse_value(own_wait?.1.strip_prefix('w')?.trim()));
        let parts = [
            (processor::SYSTEM, value("sys")),
            (processor::USER, value("user")),
            (processor::INTERRUPT, value("irq")),
            (processor::IDLE, value("idle")),
            (processor::IOWAIT, wait),
            (processor::STEAL, value("steal")),
        ];
        let sum: f64 = parts.iter().filter_map(|(_, share)| *share).sum();
        let processors = (sum / 100.0).round().max(1.0);
        if instance == "_total" {
            self.topology.processors = processors as u32;
        }
        for (counter, share) in parts {
            if let Some(share) = share {
                self.row.put_value(counter, instance, share / 100.0 / processors);
            }
        }
        if let Some(idle) = value("idle") {
            let busy = 1.0 - (idle + wait.unwrap_or(0.0)) / 100.0 / processors;
            self.row.put_value(processor::BUSY, instance, busy.max(0.0));
        }
    }

    /// Puts the cells of a line about the whole machine: levels, or counts of the interval.
    fn put_system(&mut self, label: &str, cells: &[(&str, &str)], seconds: f64) {
        for (name, text) in cells {
            let Some(value) = parse_value(text) else { continue };
            let (counter, value) = match (label, *name) {
                ("CPL", "avg1") => (system::LOAD_1, value),
                ("CPL", "avg5") => (system::LOAD_5, value),
                ("CPL", "avg15") => (system::LOAD_15, value),
                ("CPL", "csw") => (system::CONTEXT_SWITCHES_PER_S, value / seconds),
                ("CPL", "intr") => (system::INTERRUPTS_PER_S, value / seconds),
                ("MEM", "tot") => (memory::TOTAL_BYTES, value),
                ("MEM", "free") => (memory::FREE_BYTES, value),
                ("MEM", "avail") => (memory::AVAILABLE_BYTES, value),
                ("MEM", "cache") => (memory::CACHED_BYTES, value),
                ("MEM", "buff") => (memory::BUFFERS_BYTES, value),
                ("MEM", "slab") => (memory::SLAB_BYTES, value),
                ("MEM", "dirty") => (memory::DIRTY_BYTES, value),
                ("SWP", "tot") => (memory::SWAP_TOTAL_BYTES, value),
                ("SWP", "free") => (memory::SWAP_FREE_BYTES, value),
                ("SWP", "vmcom") => (memory::COMMITTED_BYTES, value),
                ("SWP", "vmlim") => (memory::COMMIT_LIMIT_BYTES, value),
                ("PAG", "scan") => (paging::SCANNED_PAGES_PER_S, value / seconds),
                ("PAG", "steal") => (paging::STOLEN_PAGES_PER_S, value / seconds),
                ("PAG", "stall") => (paging::ALLOCATION_STALLS_PER_S, value / seconds),
                ("PAG", "swin") => (paging::SWAP_IN_PAGES_PER_S, value / seconds),
                ("PAG", "swout") => (paging::SWAP_OUT_PAGES_PER_S, value / seconds),
                ("PSI", "cpusome") => (pressure::CPU_SOME, value / 100.0),
                ("PSI", "memsome") => (pressure::MEMORY_SOME, value / 100.0),
                ("PSI", "memfull") => (pressure::MEMORY_FULL, value / 100.0),
                ("PSI", "iosome") => (pressure::IO_SOME, value / 100.0),
                ("PSI", "iofull") => (pressure::IO_FULL, value / 100.0),
                _ => continue,
            };
            if (label, *name) == ("MEM", "tot") {
                self.topology.memory_bytes = value as u64;
            }
            self.row.put_value(counter, "", value);
        }
    }

    fn put_disk(&mut self, cells: &[(&str, &str)], seconds: f64) {
        let Some((disk, _)) = cells.first() else { return };
        let value = |wanted: &str| cells.iter().find(|(name, _)| *name == wanted).and_then(|(_, v)| parse_value(v));
        let (reads, writes) = (value("read").map(|n| n / seconds), value("write").map(|n| n / seconds));
        const MIB: f64 = 1_048_576.0;
        // `avio` is the busy time of a request, not its duration
        for (counter, value) in [
            (physical_disk::BUSY, value("busy").map(|share| share / 100.0)),
            (physical_disk::READS_PER_S, reads),
            (physical_disk::WRITES_PER_S, writes),
            (physical_disk::TRANSFERS_PER_S, reads.zip(writes).map(|(reads, writes)| reads + writes)),
            (physical_disk::READ_BYTES_PER_S, value("MBr/s").map(|mib| mib * MIB)),
            (physical_disk::WRITE_BYTES_PER_S, value("MBw/s").map(|mib| mib * MIB)),
            (physical_disk::AVG_QUEUE_LENGTH, value("avq")),
        ] {
            if let Some(value) = value {
                self.row.put_value(counter, disk, value);
            }
        }
    }

    fn put_network(&mut self, cells: &[(&str, &str)], seconds: f64) {
        let Some((device, _)) = cells.first().filter(|(name, _)| !matches!(*name, "transport" | "network" | "lo"))
        else {
            return;
        };
        for (name, text) in cells {
            let Some(value) = parse_value(text) else { continue };
            let bits = match text.split_whitespace().nth(1) {
                Some("Kbps") => 1e3,
                Some("Mbps") => 1e6,
                Some("Gbps") => 1e9,
                _ => 1.0,
            };
            let (counter, value) = match *name {
                "pcki" => (network::RECEIVED_PACKETS_PER_S, value / seconds),
                "pcko" => (network::SENT_PACKETS_PER_S, value / seconds),
                "si" => (network::RECEIVED_BYTES_PER_S, value * bits / 8.0),
                "so" => (network::SENT_BYTES_PER_S, value * bits / 8.0),
                "erri" => (network::RECEIVED_ERRORS_PER_S, value / seconds),
                "erro" => (network::SENT_ERRORS_PER_S, value / seconds),
                "drpi" => (network::RECEIVED_DROPPED_PER_S, value / seconds),
                "drpo" => (network::SENT_DROPPED_PER_S, value / seconds),
                _ => continue,
            };
            self.row.put_value(counter, device, value);
        }
    }

    /// Reads the row of a process.
    fn read_process(&mut self, words: &[&str]) {
        let cell = |name: &str| {
            let index = self.headings.iter().position(|heading| heading == name)?;
            words.get(index).copied()
        };
        let Some(pid) = cell("PID").and_then(|pid| pid.parse().ok()) else { return };
        let seconds = self.report.as_ref().map_or(1.0, |report| report.elapsed_s);
        let bytes = |name: &str| cell(name).and_then(|text| parse_size_bytes(text, 1.0)).map(|bytes| bytes / seconds);
        let command = self.headings.iter().position(|heading| heading == "CMD").unwrap_or(0);
        let row = ProcessRow {
            pid,
            name: words.get(command).map_or_else(String::new, |name| (*name).to_owned()),
            cgroup: "/".to_owned(),
            processor: cell("CPU").and_then(parse_value).unwrap_or(0.0) / 100.0,
            read_bytes_per_s: bytes("RDDSK"),
            write_bytes_per_s: bytes("WRDSK"),
            blocked_share: f64::from(u8::from(cell("S") == Some("D"))),
            ..ProcessRow::default()
        };
        match self.report.as_mut().filter(|report| report.rows.len() < MAX_ROWS) {
            Some(report) => report.rows.push(row),
            None => self.add_skip(TOO_MANY_PROCESSES),
        }
    }

    fn finish_report(&mut self) {
        let Some(report) = self.report.take() else { return };
        self.report_count += 1;
        if self.report_count == 1 {
            self.held = Some((report, self.row.take_values()));
            return;
        }
        let values = self.row.take_values();
        let is_since_boot =
            self.held.as_ref().is_some_and(|(first, _)| first.elapsed_s > MIN_BOOT_RATIO * report.elapsed_s);
        if is_since_boot {
            self.held = None;
            self.add_skip("the first report of atop covers the time since boot");
        }
        self.emit_held(false);
        self.emit_report(report, &values);
    }

    /// Emits the first report; if it is the only one, with a remark where it may be since boot.
    fn emit_held(&mut self, is_only: bool) {
        let Some((report, values)) = self.held.take() else { return };
        if is_only {
            let context = format!("line {}", report.line_number);
            first_report::remark_single_report(self.batch, &context, report.time_ns);
        }
        self.emit_report(report, &values);
    }

    fn emit_report(&mut self, report: ScreenReport, values: &[f64]) {
        let ScreenReport { time_ns, elapsed_s, mut rows, .. } = report;
        if !std::mem::replace(&mut self.is_announced, true) {
            self.batch.push_topology(time_ns, &self.topology);
        }
        self.row.replace_values(values);
        self.row.emit_tick(self.batch, time_ns, Some((elapsed_s * 1e9) as u64));
        if !rows.is_empty() {
            rows.sort_by(|a, b| b.processor.total_cmp(&a.processor).then(a.pid.cmp(&b.pid)));
            let table = ProcessTable { elapsed_s, rows, ..ProcessTable::default() };
            self.batch.push_note(Note::processes(time_ns, table));
        }
    }
}
