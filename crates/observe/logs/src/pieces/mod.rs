//! Output of small commands that show a moment: free, uptime, files of /proc and /sys, nfsstat, cpupower. Each piece
//! reads the lines that it knows, so that several may stand in one text; one that stands again begins another tick.

mod board_power;
mod cgroup;
mod containers;
mod file_systems;
mod frequency;
mod interrupts;
mod line_taker;
mod mdadm;
mod mdstat;
mod memory;
mod multipath;
mod network;
mod nfs_client;
mod nfs_mounts;
mod pressure;
mod processes;
mod protocols;
mod raid_controller;
mod small_tables;
mod softnet;
#[cfg(test)]
mod tests;
mod totals;
mod windows_counters;
mod zfs_pools;

use std::collections::HashSet;

use diskwright_base::counter_ids::system;
use diskwright_base::{Note, ProcessTable, Topology};
pub(crate) use line_taker::LineTaker;

use crate::level_row::LevelRow;
use crate::report_times::ReportTimes;
use crate::stamp_line::parse_stamp;
use crate::sysstat::stream_window::StreamWindow;
use crate::sysstat::{impossible_clock, time};
use crate::top::parse_first_line;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "snapshot-text",
    title: "free, uptime, df, ps, ifconfig, ip -s link, ethtool -S, netstat -s, nfsstat, docker stats, kubectl top, \
            cpupower, vcgencmd, zpool status, multipath -ll, mdadm --detail, MegaCli, storcli, ssacli, \
            numastat, prstat -m, ss -l, counters of Windows as a list, files of /proc (pressure, mdstat, interrupts, \
            softirqs, net/dev, net/snmp, net/softnet_stat, mountstats) and of cgroups: text",
    explain: "What these print once, also several of them in one text, and repeated in a loop. A line `==> FILE \
              <==`, as head and tail print it, names a file whose lines do not. Totals since boot give rates where two \
              dumps and their times are there, else shares only: packets dropped or sent again, throttled periods, the \
              processor that takes the interrupts.",
    recognize: is_snapshot,
    read,
};

/// Reader of a piece: it returns true for a line that it took.
type PieceReader = fn(&mut Snapshot<'_, '_>, &str) -> bool;

/// Name of the processors among the parts of the hardware.
const PROCESSORS: &str = "processors";

/// All pieces, in the order in which they are asked.
const PIECES: [PieceReader; 22] = [
    memory::read_line,
    read_uptime,
    pressure::read_line,
    mdstat::read_line,
    mdadm::read_line,
    // before what reads rows of numbers, whatever their name
    file_systems::read_line,
    // before what reads any line of a state
    zfs_pools::read_line,
    cgroup::read_line,
    nfs_client::read_line,
    nfs_mounts::read_line,
    frequency::read_line,
    interrupts::read_line,
    network::read_line,
    protocols::read_line,
    raid_controller::read_line,
    small_tables::read_line,
    containers::read_line,
    processes::read_line,
    windows_counters::read_line,
    board_power::read_line,
    multipath::read_line,
    softnet::read_line,
];

/// Remark on a dump of totals that stands alone and shows no share.
const SINGLE_DUMP: &str = "a single dump holds totals since the start; rates need two dumps";
/// Remark on a dump that shows its own length.
const SINCE_START_NOTE: &str = "a single dump: its rates are averages since the file system was mounted, which hide \
                                what happens now; give a second dump, 10 seconds later";

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
    pub(super) pressure: pressure::PressureState,
    pub(super) mdadm: mdadm::MdadmState,
    pub(super) cgroup: cgroup::CgroupState,
    pub(super) interrupts: interrupts::InterruptState,
    pub(super) windows: windows_counters::WindowsState,
    pub(super) network: network::NetworkState,
    pub(super) protocols: protocols::ProtocolState,
    pub(super) nfs_mounts: nfs_mounts::NfsMountState,
    pub(super) containers: containers::ContainerState,
    pub(super) file_systems: file_systems::FileSystemState,
    pub(super) processes: processes::ProcessState,
    pub(super) zfs: zfs_pools::ZfsState,
    pub(super) softnet: softnet::SoftnetState,
    pub(super) totals: totals::Totals,
    /// Time since the start of the machine.
    uptime_s: Option<i64>,
    /// Time that the totals cover, if the dump shows it.
    pub(super) age_s: Option<f64>,
    pub(super) controller: raid_controller::ControllerState,
    pub(super) tables: small_tables::TableState,
    /// Facts that the answer must tell.
    warnings: Vec<String>,
    has_values: bool,
    is_announced: bool,
    /// The first tick, until it is known whether there is another.
    held: Option<HeldTick>,
    tick_count: u32,
}

/// A tick that is not handed over yet.
struct HeldTick {
    time_ns: i64,
    elapsed_ns: Option<u64>,
    values: Vec<f64>,
    /// Totals since the start, by counter and instance.
    totals: Vec<(String, String, f64)>,
}

/// Lines that are known, from which on it does not matter how much stands before them.
const MIN_TAKEN_LINES: usize = 5;

fn is_snapshot(head: &InputHead<'_>) -> bool {
    let mut snapshot = Snapshot::new(None, &LogOptions::default());
    snapshot.pressure.set_file_name(head.name);
    let (mut taken, mut others, mut others_behind) = (0_usize, 0_usize, 0_usize);
    for line in head.text_lines() {
        if line.trim().is_empty() || snapshot.read_file_name(&line) {
            continue;
        }
        let line = snapshot.take_file_prefix(&line);
        let is_taken = PIECES.iter().any(|piece| piece(&mut snapshot, line));
        taken += usize::from(is_taken);
        let is_other = !is_taken && parse_stamp(line, time::NumericDateOrder::MonthFirst).is_none();
        others += usize::from(is_other);
        others_behind += usize::from(is_other && taken > 0);
        if taken + others >= 200 {
            break;
        }
    }
    // any text may stand before it
    snapshot.has_values && (taken >= others || taken >= MIN_TAKEN_LINES && taken >= others_behind)
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(&head, "");
    let name = input.name().to_owned();
    let mut stream = StreamWindow::new(input);
    let mut line_number = 0;
    let mut snapshot = Snapshot::new(Some(batch), options);
    snapshot.pressure.set_file_name(&name);
    while let Some(batch) = snapshot.batch.as_mut() {
        let Some(text) = stream.next_text_line(batch, &mut line_number)? else { break };
        let is_taken = text.trim().is_empty() || snapshot.read_file_name(&text) || {
            let line = snapshot.take_file_prefix(&text);
            PIECES.iter().any(|piece| piece(&mut snapshot, line))
        };
        if is_taken {
            continue;
        }
        if let Some(stamp) = parse_stamp(&text, order) {
            snapshot.finish_tick();
            snapshot.times.set_stamp(stamp);
        } else if let Some(batch) = snapshot.batch.as_mut() {
            let because = impossible_clock::skip_reason(&text, "a line that is not read");
            batch.add_skip(format!("line {line_number}"), because);
        }
    }
    snapshot.finish_log();
    Ok(())
}

/// Reads the line of uptime.
fn read_uptime(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let Some(first) = parse_first_line(line) else { return false };
    snapshot.begin_piece("uptime");
    snapshot.uptime_s = first.uptime_s;
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
            pressure: pressure::PressureState::default(),
            mdadm: mdadm::MdadmState::default(),
            cgroup: cgroup::CgroupState::default(),
            interrupts: interrupts::InterruptState::default(),
            windows: windows_counters::WindowsState::default(),
            network: network::NetworkState::default(),
            protocols: protocols::ProtocolState::default(),
            nfs_mounts: nfs_mounts::NfsMountState::default(),
            containers: containers::ContainerState::default(),
            file_systems: file_systems::FileSystemState::default(),
            processes: processes::ProcessState::default(),
            zfs: zfs_pools::ZfsState::default(),
            softnet: softnet::SoftnetState::default(),
            totals: totals::Totals::default(),
            uptime_s: None,
            age_s: None,
            controller: raid_controller::ControllerState::default(),
            tables: small_tables::TableState::default(),
            warnings: Vec::new(),
            has_values: false,
            is_announced: false,
            held: None,
            tick_count: 0,
        }
    }

    /// Begins a piece; one that this tick has already begins another tick.
    pub(super) fn begin_piece(&mut self, name: &str) {
        if !self.begun.insert(name.to_owned()) {
            self.finish_tick();
            self.begun.insert(name.to_owned());
        }
        if !name.starts_with("netstat") {
            self.protocols = protocols::ProtocolState::default();
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
    pub(super) fn push_warning(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Adds a fact that the answer must tell, or takes it back.
    pub(super) fn put_warning(&mut self, text: String, is_told: bool) {
        self.warnings.retain(|known| is_told || *known != text);
        if is_told {
            self.push_warning(text);
        }
    }

    /// Counts a part of the text that is left out.
    pub(super) fn add_skip(&mut self, context: &str, because: &str) {
        if let Some(batch) = self.batch.as_mut() {
            batch.add_skip(context, because);
        }
    }

    /// Sets a total since the start.
    pub(super) fn put_total(&mut self, counter: &str, instance: &str, total: f64) {
        self.has_values = true;
        self.totals.put(counter, instance, total);
    }

    /// Adds to a total since the start.
    pub(super) fn add_total(&mut self, counter: &str, instance: &str, part: f64) {
        self.has_values = true;
        self.totals.add(counter, instance, part);
    }

    /// Reads a line that names what is below: `==> FILE <==`, or a prompt with `cat FILE` or `ethtool -S ADAPTER`.
    fn read_file_name(&mut self, line: &str) -> bool {
        let line = line.trim();
        let named = line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <=="));
        let printed = line.split_once("cat /").map(|(_, file)| file).filter(|file| !file.contains(' '));
        let adapter = line.split_once("ethtool -S ").map(|(_, adapter)| adapter.trim());
        let adapter = adapter.filter(|name| !name.contains(' ')).map(|name| format!("ethtool {name}"));
        let Some(file) = named.or(printed).map(str::to_owned).or(adapter) else { return false };
        self.file = file;
        (self.network, self.protocols) = Default::default();
        true
    }

    /// Takes the file's name off a line of `grep . FILES`, `/sys/fs/cgroup/web/memory.max:1048576`.
    fn take_file_prefix<'l>(&mut self, line: &'l str) -> &'l str {
        let parts = line.split_once(':').filter(|(file, rest)| {
            file.starts_with('/') && file.contains("/cgroup") && !file.contains(' ') && !rest.is_empty()
        });
        let Some((file, rest)) = parts else { return line };
        file.clone_into(&mut self.file);
        rest
    }

    /// Ends the tick.
    fn finish_tick(&mut self) {
        self.begun.clear();
        if !std::mem::take(&mut self.has_values) {
            return;
        }
        pressure::put_unnamed(self);
        protocols::complete_totals(self);
        totals::put_shares(self);
        cgroup::put_throttled(self);
        interrupts::put_interrupt_shares(self);
        interrupts::put_receive_shares(self);
        softnet::put_shares(self);
        protocols::put_fractions(self);
        network::put_drop_fractions(self);
        interrupts::compare_rows(self);
        let waiting = processes::take_waiting(self);
        let Some(batch) = self.batch.as_mut() else { return };
        let (time_ns, elapsed_ns) = self.times.next(batch);
        if let Some(uptime_s) = self.uptime_s.take() {
            batch.note_uptime(time_ns, uptime_s);
        }
        if !std::mem::replace(&mut self.is_announced, true) {
            batch.push_topology(time_ns, &self.topology);
        } else if !self.topology.devices.is_empty() {
            batch.push_note(Note::topology(time_ns, self.topology.clone()));
        }
        self.topology.devices.clear();
        for text in self.warnings.drain(..) {
            batch.push_note(Note::new(time_ns, Note::WARNING, text));
        }
        if !waiting.is_empty() {
            let table = ProcessTable { elapsed_s: 1.0, rows: waiting, ..ProcessTable::default() };
            batch.push_note(Note::processes(time_ns, table));
        }
        self.tick_count += 1;
        if self.tick_count == 1 {
            let totals =
                self.totals.all().map(|((counter, instance), total)| (counter.clone(), instance.clone(), total));
            // those that begin with the mount, whose age is known
            let totals = totals.filter(|(counter, _, _)| counter.starts_with("network_filesystem.")).collect();
            self.held = Some(HeldTick { time_ns, elapsed_ns, values: self.row.take_values(), totals });
            self.totals.advance();
            return;
        }
        let values = self.row.take_values();
        self.emit_held();
        self.row.replace_values(&values);
        if self.times.is_length_known() {
            let is_read = |counter: &str| !counter.starts_with("foreign.");
            for ((counter, instance), added) in self.totals.growths().filter(|((counter, _), _)| is_read(counter)) {
                self.row.put_value(counter, instance, added);
            }
        }
        self.totals.advance();
        if let Some(batch) = self.batch.as_mut() {
            self.row.emit_tick(batch, time_ns, elapsed_ns);
        }
    }

    /// Hands the first tick over.
    fn emit_held(&mut self) {
        let (Some(held), Some(batch)) = (self.held.take(), self.batch.as_mut()) else { return };
        self.row.replace_values(&held.values);
        self.row.emit_tick(batch, held.time_ns, held.elapsed_ns);
    }

    /// Ends the text. A single dump that shows its length gives averages over it.
    fn finish_log(&mut self) {
        self.finish_tick();
        let has_totals = self.totals.has_before();
        if self.tick_count == 1
            && has_totals
            && let (Some(held), Some(batch)) = (&mut self.held, self.batch.as_mut())
        {
            match self.age_s.filter(|age| *age > 0.0 && !held.totals.is_empty()) {
                Some(age_s) => {
                    batch.push_note(Note::new(held.time_ns, Note::WARNING, SINCE_START_NOTE));
                    held.elapsed_ns = Some((age_s * 1e9) as u64);
                    self.row.replace_values(&held.values);
                    for (counter, instance, total) in &held.totals {
                        self.row.put_value(counter, instance, *total);
                    }
                    held.values = self.row.take_values();
                }
                None => batch.add_skip("the dump", SINGLE_DUMP),
            }
        }
        self.emit_held();
    }
}
