//! `/sys/fs/btrfs`: volumes over several devices, their profile, their health. A volume is an array that is not a block
//! device itself; it is named after its label, or after its id where the label is missing or not unique.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use diskwright_base::counter_ids::array;
use diskwright_base::{Device, DeviceKind, RaidLevel};

use crate::live::counter_table::{ABSENT, CounterReset, CounterTable, TableColumn, level_column, total_column};
use crate::live::open_file::{OpenFile, read_number, read_text};
use crate::live::text_scan::{split_key_and_number, text_lines, trim_blanks};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::list_folder;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "btrfs",
    files: &[
        "/sys/fs/btrfs/UUID/devinfo/N/error_stats",
        "/sys/fs/btrfs/UUID/exclusive_operation",
        "/var/lib/btrfs/scrub.status.UUID",
    ],
    explain: "btrfs volumes: devices, missing devices, errors, a running balance or scrub.",
    parse_any: |bytes| _ = black_box(sum_errors(bytes)),
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(Btrfs::new())),
};

/// Stripe unit of btrfs, the same for every level.
const STRIPE_UNIT_BYTES: u64 = 65_536;

/// Time without a change of its status file after which a scrub counts as ended, nanoseconds. `btrfs scrub` writes its
/// progress every five seconds; a killed scrub stops writing.
const MAX_SCRUB_SILENCE_NS: u64 = 15_000_000_000;

/// A volume.
#[derive(Clone, Debug)]
pub(crate) struct BtrfsVolume {
    pub device: Device,
    pub folder: PathBuf,
    scrub: PathBuf,
}

/// Mounted volumes, in the order of their ids.
pub(crate) fn read_volumes(roots: &Roots) -> Vec<BtrfsVolume> {
    let entries = list_folder(&roots.sys.join("fs/btrfs"));
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.join("devices").is_dir()).collect();
    folders.sort_unstable();
    let labels: Vec<Option<String>> =
        folders.iter().map(|f| read_text(&f.join("label")).filter(|l| !l.is_empty())).collect();
    let is_unique = |label: &String| labels.iter().flatten().filter(|l| *l == label).count() == 1;
    let volume = |(folder, label): (&PathBuf, &Option<String>)| {
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = label.as_ref().filter(|l| is_unique(l)).map_or(&*id, |l| l.as_str());
        let scrub = roots.resolve_path(&format!("/var/lib/btrfs/scrub.status.{id}"));
        BtrfsVolume { device: read_device(format!("btrfs:{name}"), folder), folder: folder.clone(), scrub }
    };
    folders.iter().zip(&labels).map(volume).collect()
}

fn sorted_entries(folder: &Path) -> Vec<String> {
    let entries = list_folder(folder);
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

fn read_device(name: String, folder: &Path) -> Device {
    let below: Vec<String> = sorted_entries(&folder.join("devices")).iter().map(|n| n.replace('!', "/")).collect();
    let missing = count_missing(folder);
    // a volume of one device is not an array, whatever its profile
    let level = if below.len() as u64 + missing > 1 { data_profile(&folder.join("allocation/data")) } else { None };
    Device {
        name,
        kind: DeviceKind::Btrfs,
        stripe_bytes: level.filter(|l| !matches!(l, RaidLevel::Raid1 | RaidLevel::Linear)).map(|_| STRIPE_UNIT_BYTES),
        level,
        missing: u32::try_from(missing).unwrap_or(u32::MAX),
        background: read_text(&folder.join("exclusive_operation"))
            .filter(|t| !t.is_empty() && is_running_operation(t.as_bytes())),
        below,
        ..Device::default()
    }
}

/// Returns true if a volume's exclusive operation is running: a paused balance (Linux 5.17) stays in the file until a
/// user resumes it.
fn is_running_operation(operation: &[u8]) -> bool {
    !matches!(trim_blanks(operation), b"none" | b"balance paused")
}

fn count_missing(folder: &Path) -> u64 {
    let infos = folder.join("devinfo");
    sorted_entries(&infos).iter().filter(|n| read_number(&infos.join(n).join("missing")) == Some(1)).count() as u64
}

/// Returns the profile that holds most data; during a conversion a volume has two.
fn data_profile(folder: &Path) -> Option<RaidLevel> {
    let size = |name: &String| read_number(&folder.join(name).join("total_bytes"));
    sorted_entries(folder)
        .iter()
        .filter_map(|n| Some((size(n)?, RaidLevel::parse(n)?)))
        .max_by_key(|(bytes, _)| *bytes)
        .map(|(_, level)| level)
}

/// Adds up all errors of a device: write, read, flush, corruption, generation.
pub fn sum_errors(text: &[u8]) -> Option<u64> {
    text_lines(text).filter_map(|line| split_key_and_number(line)?.1).reduce(u64::saturating_add)
}

const COLUMNS: [TableColumn; 5] = [
    level_column(array::MEMBERS, 1.0),
    level_column(array::MISSING, 1.0),
    level_column(array::DEGRADED, 1.0),
    level_column(array::BACKGROUND, 1.0),
    total_column(array::DEVICE_ERRORS, 1.0),
];

struct BtrfsState {
    row: usize,
    members: u64,
    missing: u64,
    folder: PathBuf,
    /// Since Linux 5.10.
    operation: Option<OpenFile>,
    scrub: ScrubProgress,
    /// Since Linux 5.14.
    errors: Vec<OpenFile>,
}

/// Progress of a scrub, from the status file of `btrfs scrub`: the kernel does not report it.
#[derive(Default)]
struct ScrubProgress {
    file: PathBuf,
    /// Text at the last reading.
    text: Option<String>,
    /// Running time when the text changed. A text that exists from the start may be left by a killed scrub.
    changed_ns: Option<u64>,
}

impl ScrubProgress {
    fn is_running(&mut self, context: &TickContext) -> bool {
        let text = read_text(&self.file).unwrap_or_default();
        if self.text.as_ref().is_some_and(|before| *before != text) {
            self.changed_ns = Some(context.running_ns);
        }
        // each device has a line
        let is_unfinished = text.lines().any(|line| line.ends_with("|canceled:0|finished:0"));
        self.text = Some(text);
        let is_recent = |changed_ns: u64| context.running_ns.saturating_sub(changed_ns) < MAX_SCRUB_SILENCE_NS;
        is_unfinished && self.changed_ns.is_some_and(is_recent)
    }
}

struct Btrfs {
    followed: Vec<BtrfsState>,
    known: Vec<Device>,
    tables: [CounterTable; 1],
}

impl Btrfs {
    fn new() -> Btrfs {
        Btrfs {
            followed: Vec::new(),
            known: Vec::new(),
            tables: [CounterTable::new("btrfs volume", &COLUMNS, CounterReset::WholeRow)],
        }
    }

    fn find_volumes(&mut self, context: &mut TickContext) {
        let volumes = read_volumes(context.roots);
        let [table] = &mut self.tables;
        table.retain_rows(|_, gone| !gone);
        let devices: Vec<Device> = volumes.iter().map(|v| v.device.clone()).collect();
        if devices != self.known {
            self.known = devices;
            context.topology_due = true;
            self.followed = volumes.iter().map(|v| follow_volume(v, table)).collect();
        }
        for (followed, volume) in self.followed.iter_mut().zip(&volumes) {
            followed.row = table.row_or_insert(&volume.device.name);
            followed.members = volume.device.below.len() as u64;
            followed.missing = u64::from(volume.device.missing);
        }
    }
}

fn follow_volume(volume: &BtrfsVolume, table: &mut CounterTable) -> BtrfsState {
    let infos = volume.folder.join("devinfo");
    let stats = |id: &String| infos.join(id).join("error_stats");
    let open_file = |path: PathBuf| path.exists().then(|| OpenFile::in_one_read(path, "").without_notes());
    BtrfsState {
        row: table.row_or_insert(&volume.device.name),
        members: 0,
        missing: 0,
        folder: volume.folder.clone(),
        operation: open_file(volume.folder.join("exclusive_operation")),
        scrub: ScrubProgress { file: volume.scrub.clone(), ..ScrubProgress::default() },
        errors: sorted_entries(&infos).iter().filter_map(|id| open_file(stats(id))).collect(),
    }
}

impl BtrfsState {
    /// Adds up the errors of all devices; `ABSENT` where one of them is unknown.
    fn sum_device_errors(&mut self, context: &mut TickContext) -> u64 {
        let mut sum = if self.errors.is_empty() { ABSENT } else { 0 };
        for file in &mut self.errors {
            match file.read(context).and_then(sum_errors) {
                Some(n) if sum != ABSENT => sum = sum.saturating_add(n),
                _ => sum = ABSENT,
            }
        }
        sum
    }
}

impl CounterSource for Btrfs {
    fn read_tick(&mut self, context: &mut TickContext) {
        if context.is_slow_tick {
            self.find_volumes(context);
        }
        let [table] = &mut self.tables;
        table.begin_tick();
        for followed in &mut self.followed {
            let operation = followed.operation.as_mut();
            let is_operating = operation.and_then(|file| Some(is_running_operation(file.read(context)?)));
            let background = if followed.scrub.is_running(context) { Some(true) } else { is_operating };
            let sum = followed.sum_device_errors(context);
            let is_silent = background.is_none() && sum == ABSENT;
            if is_silent && !followed.folder.exists() {
                // unmounted; the next slow tick drops it
                continue;
            }
            let degraded = u64::from(followed.missing > 0);
            let values = [followed.members, followed.missing, degraded, background.map_or(ABSENT, u64::from), sum];
            table.row_mut(followed.row).copy_from_slice(&values);
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    fn volume(machine: &FakeMachine, id: &str, label: &str, profile: &str, devices: &[&str]) {
        let folder = format!("sys/fs/btrfs/{id}");
        machine
            .put_file(&format!("{folder}/label"), format!("{label}\n"))
            .put_file(&format!("{folder}/exclusive_operation"), "none\n")
            .put_file(&format!("{folder}/allocation/data/{profile}/total_bytes"), "1000\n");
        for (number, device) in devices.iter().enumerate() {
            machine.put_file(&format!("{folder}/devices/{device}/size"), "1\n");
            let info = format!("{folder}/devinfo/{}", number + 1);
            machine
                .put_file(&format!("{info}/missing"), "0\n")
                .put_file(&format!("{info}/error_stats"), "write_errs 0\nread_errs 1\n");
        }
    }

    #[test]
    fn profiles_labels_and_single_devices() {
        let machine = FakeMachine::new();
        volume(&machine, "aaaa", "data", "raid1c3", &["sda", "sdb", "sdc"]);
        volume(&machine, "bbbb", "same", "raid0", &["sdd", "sde"]);
        volume(&machine, "cccc", "same", "dup", &["sdf"]);
        // a conversion under way: most of the data tells
        machine.put_file("sys/fs/btrfs/aaaa/allocation/data/raid0/total_bytes", "10\n");
        let found = read_volumes(&machine.roots());
        let levels: Vec<_> = found.iter().map(|v| (v.device.name.as_str(), v.device.level)).collect();
        assert_eq!(
            levels,
            [("btrfs:data", Some(RaidLevel::Raid1)), ("btrfs:bbbb", Some(RaidLevel::Raid0)), ("btrfs:cccc", None)]
        );
        assert_eq!(found[1].device.stripe_bytes, Some(65_536));
        assert_eq!(found[0].device.below, ["sda", "sdb", "sdc"]);
    }

    #[test]
    fn errors_balance_and_a_missing_device() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        volume(&machine, "aaaa", "data", "raid1", &["sda", "sdb"]);
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.value("array.members", "btrfs:data"), 2.0);
        assert!(watch.value("array.device_errors", "btrfs:data").is_nan());
        machine.put_file("sys/fs/btrfs/aaaa/devinfo/2/error_stats", "write_errs 4\nread_errs 1\n");
        machine.put_file("sys/fs/btrfs/aaaa/exclusive_operation", "balance\n");
        watch.tick_after(1.0);
        assert_eq!(watch.value("array.device_errors", "btrfs:data"), 4.0);
        assert_eq!(watch.value("array.background", "btrfs:data"), 1.0);
        machine.put_file("sys/fs/btrfs/aaaa/devinfo/2/missing", "1\n").remove("sys/fs/btrfs/aaaa/devices/sdb");
        watch.tick_after(5.0);
        assert_eq!(watch.value("array.missing", "btrfs:data"), 1.0);
        assert_eq!(watch.value("array.degraded", "btrfs:data"), 1.0);
        assert_eq!(watch.last_topology().find_device("btrfs:data").unwrap().missing, 1);
    }

    #[test]
    fn a_paused_balance_is_not_background_work() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        volume(&machine, "aaaa", "data", "raid1", &["sda", "sdb"]);
        machine.put_file("sys/fs/btrfs/aaaa/exclusive_operation", "balance\n");
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.value("array.background", "btrfs:data"), 1.0);
        assert_eq!(watch.last_topology().find_device("btrfs:data").unwrap().background.as_deref(), Some("balance"));
        machine.put_file("sys/fs/btrfs/aaaa/exclusive_operation", "balance paused\n");
        watch.tick_after(5.0);
        assert_eq!(watch.value("array.background", "btrfs:data"), 0.0);
        assert_eq!(watch.last_topology().find_device("btrfs:data").unwrap().background.as_deref(), None);
    }

    #[test]
    fn a_scrub_counts_while_it_updates_its_status_file() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        volume(&machine, "aaaa", "data", "raid1", &["sda", "sdb"]);
        let status = |bytes: u32, first: &str, second: &str| {
            let line = |id: u8, end: &str| format!("aaaa:{id}|data_bytes_scrubbed:{bytes}|duration:2|{end}\n");
            let text = format!("scrub status:1\n{}{}", line(1, first), line(2, second));
            machine.put_file("var/lib/btrfs/scrub.status.aaaa", text);
        };
        let (runs, ended) = ("canceled:0|finished:0", "canceled:0|finished:1");
        // one that the machine's last end stopped in its middle
        status(1, runs, runs);
        let mut watch = machine.watch_default();
        let mut now = |seconds: f64| watch.tick_after(seconds).value("array.background", "btrfs:data");
        assert_eq!(now(1.0), 0.0);
        status(2, ended, runs);
        assert_eq!(now(1.0), 1.0);
        assert_eq!(now(5.0), 1.0);
        assert_eq!(now(10.0), 0.0, "it wrote nothing for fifteen seconds");
        status(3, ended, runs);
        assert_eq!(now(1.0), 1.0);
        status(4, ended, ended);
        assert_eq!(now(1.0), 0.0);
        status(5, ended, "canceled:1|finished:0");
        assert_eq!(now(1.0), 0.0);
    }

    #[test]
    fn an_unmounted_volume_leaves() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        volume(&machine, "aaaa", "data", "raid0", &["sda", "sdb"]);
        let mut watch = machine.watch_default();
        watch.tick();
        machine.remove("sys/fs/btrfs/aaaa");
        watch.tick_after(5.0).tick_after(5.0);
        assert!(watch.find_value("array.members", "btrfs:data").is_none());
        assert!(watch.last_topology().find_device("btrfs:data").is_none());
    }
}
