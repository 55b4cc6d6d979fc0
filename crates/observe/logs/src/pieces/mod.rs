//! Output of small commands that show a moment: free, uptime, files of /proc and /sys, nfsstat, cpupower. Each piece
//! reads the lines that it knows, so that several may stand in one text; one that stands again begins another tick.

mod cgroup;
mod frequency;
mod interrupts;
mod kernel_log;
mod mdstat;
mod memory;
mod network_adapter;
mod nfs_client;
mod pressure;
mod raid_controller;
mod windows_counters;

use std::collections::HashSet;

use diskwright_base::counter_ids::system;
use diskwright_base::{Note, Topology};

use crate::level_row::LevelRow;
use crate::report_times::ReportTimes;
use crate::stamp_line::parse_stamp;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::time;
use crate::top::parse_first_line;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "snapshot-text",
    title: "free, uptime, /proc/pressure, mdstat, interrupts, cpu.stat of a cgroup, nfsstat -c, cpupower, dmesg, \
            ifconfig, ethtool -S, MegaCli, storcli, ssacli, counters of Windows as a list: text",
    explain: "What these print once, also several of them in one text, and repeated in a loop. A line `==> FILE \
              <==`, as head and tail print it, names a file whose lines do not. Totals since boot show shares only: \
              repeats of an NFS client, throttled periods, drops of an adapter, the processor that takes its \
              interrupts.",
    recognize: is_snapshot,
    read,
};

/// Reader of a piece: it returns true for a line that it took.
type PieceReader = fn(&mut Snapshot<'_, '_>, &str) -> bool;

/// All pieces, in the order in which they are asked.
const PIECES: [PieceReader; 12] = [
    memory::read_line,
    read_uptime,
    pressure::read_line,
    mdstat::read_line,
    cgroup::read_line,
    nfs_client::read_line,
    frequency::read_line,
    interrupts::read_line,
    network_adapter::read_line,
    raid_controller::read_line,
    windows_counters::read_line,
    kernel_log::read_line,
];

/// What was read of the tick that is open, and what the pieces remember from line to line.
pub(super) struct Snapshot<'b, 'c> {
    batch: Option<&'c mut FrameBatch<'b>>,
    times: ReportTimes,
    row: LevelRow,
    pub(super) topology: Topology,
    /// Pieces of this tick.
    begun: HashSet<String>,
    /// File whose lines follow, by a line that names it.
    pub(super) file: String,
    pub(super) memory: memory::MemoryState,
    pub(super) nfs: nfs_client::NfsState,
    pub(super) frequency: frequency::FrequencyState,
    pub(super) mdstat: mdstat::MdstatState,
    pub(super) cgroup: cgroup::CgroupState,
    pub(super) interrupts: interrupts::InterruptState,
    pub(super) windows: windows_counters::WindowsState,
    pub(super) kernel_log: kernel_log::KernelLogState,
    pub(super) controller: raid_controller::ControllerState,
    pub(super) adapter: network_adapter::AdapterState,
    /// Facts that the answer must tell.
    warnings: Vec<&'static str>,
    has_values: bool,
    is_announced: bool,
}

fn is_snapshot(head: &InputHead<'_>) -> bool {
    let mut snapshot = Snapshot::new(None, &LogOptions::default());
    let (mut taken, mut others) = (0_usize, 0_usize);
    for line in head.text_lines() {
        if line.trim().is_empty() || snapshot.read_file_name(&line) {
            continue;
        }
        let is_taken = PIECES.iter().any(|piece| piece(&mut snapshot, &line));
        taken += usize::from(is_taken);
        others += usize::from(!is_taken && parse_stamp(&line, time::NumericDateOrder::MonthFirst).is_none());
        if taken + others >= 200 {
            break;
        }
    }
    snapshot.has_values && taken >= others
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(&head, "");
    let mut stream = StreamWindow::new(input);
    let mut line_number = 0;
    let mut snapshot = Snapshot::new(Some(batch), options);
    while let Some(batch) = snapshot.batch.as_mut() {
        let Some(text) = stream.next_text_line(batch, &mut line_number)? else { break };
        let is_taken = text.trim().is_empty()
            || snapshot.read_file_name(&text)
            || PIECES.iter().any(|piece| piece(&mut snapshot, &text));
        if is_taken {
            continue;
        }
        if let Some(stamp) = parse_stamp(&text, order) {
            snapshot.finish_tick();
            snapshot.times.set_stamp(stamp);
        } else if let Some(batch) = snapshot.batch.as_mut() {
            batch.add_skip(format!("line {line_number}"), "a line that is not read");
        }
    }
    snapshot.finish_tick();
    Ok(())
}

/// Reads the line of uptime.
fn read_uptime(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let Some(first) = parse_first_line(line) else { return false };
    snapshot.begin_piece("uptime");
    for (counter, load) in [system::LOAD_1, system::LOAD_5, system::LOAD_15].iter().zip(first.loads) {
        snapshot.put_value(counter, "", load);
    }
    true
}

impl<'b, 'c> Snapshot<'b, 'c> {
    fn new(batch: Option<&'c mut FrameBatch<'b>>, options: &LogOptions) -> Snapshot<'b, 'c> {
        Snapshot {
            batch,
            times: ReportTimes::new(options),
            row: LevelRow::default(),
            topology: Topology::default(),
            begun: HashSet::new(),
            file: String::new(),
            memory: memory::MemoryState::default(),
            nfs: nfs_client::NfsState::default(),
            frequency: frequency::FrequencyState::default(),
            mdstat: mdstat::MdstatState::default(),
            cgroup: cgroup::CgroupState::default(),
            interrupts: interrupts::InterruptState::default(),
            windows: windows_counters::WindowsState::default(),
            kernel_log: kernel_log::KernelLogState::default(),
            controller: raid_controller::ControllerState::default(),
            adapter: network_adapter::AdapterState::default(),
            warnings: Vec::new(),
            has_values: false,
            is_announced: false,
        }
    }

    /// Begins a piece; one that this tick has already begins another tick.
    pub(super) fn begin_piece(&mut self, name: &str) {
        if !self.begun.insert(name.to_owned()) {
            self.finish_tick();
            self.begun.insert(name.to_owned());
        }
    }

    pub(super) fn put_value(&mut self, counter: &str, instance: &str, value: f64) {
        self.has_values = true;
        self.row.put_value(counter, instance, value);
    }

    /// Sets a value in place of one that is set.
    pub(super) fn replace_value(&mut self, counter: &str, instance: &str, value: f64) {
        self.has_values = true;
        self.row.replace_value(counter, instance, value);
    }

    /// Returns a value of the tick.
    pub(super) fn value(&self, counter: &str, instance: &str) -> Option<f64> {
        self.row.counter_value(counter, instance)
    }

    /// Adds a fact that the answer must tell.
    pub(super) fn push_warning(&mut self, text: &'static str) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Reads a line that names the file below: `==> FILE <==`, or a prompt with `cat FILE`.
    fn read_file_name(&mut self, line: &str) -> bool {
        let line = line.trim();
        let named = line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <=="));
        let printed = line.split_once("cat /").map(|(_, file)| file).filter(|file| !file.contains(' '));
        let Some(file) = named.or(printed) else { return false };
        file.clone_into(&mut self.file);
        true
    }

    fn finish_tick(&mut self) {
        self.begun.clear();
        if !std::mem::take(&mut self.has_values) {
            return;
        }
        let Some(batch) = self.batch.as_mut() else { return };
        let (time_ns, elapsed_ns) = self.times.next(batch);
        if !std::mem::replace(&mut self.is_announced, true) {
            batch.push_topology(time_ns, &self.topology);
        } else if !self.topology.devices.is_empty() {
            batch.push_note(Note::topology(time_ns, self.topology.clone()));
        }
        self.topology.devices.clear();
        for text in self.warnings.drain(..) {
            batch.push_note(Note::new(time_ns, Note::WARNING, text));
        }
        self.row.emit_tick(batch, time_ns, elapsed_ns);
    }
}
