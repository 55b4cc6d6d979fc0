//! `/sys/fs/btrfs`: volumes over several devices, their profile, their health.
//! They are arrays without a block device of their own, named after their
//! label, or after their id where the label is missing or not unique.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use diskwright_base::{Device, DeviceKind, Level};

use crate::live::held::{Held, read_number, read_text};
use crate::live::moment::Moment;
use crate::live::scan::{keyed, lines, trim};
use crate::live::totals::{ABSENT, Backwards, Column, Table, level, total};
use crate::live::{Options, Roots};

use super::{Source, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "btrfs",
    files: &["/sys/fs/btrfs/UUID/devinfo/N/error_stats", "/sys/fs/btrfs/UUID/exclusive_operation"],
    explain: "btrfs volumes: devices, missing devices, errors, a running balance.",
    parse_any: |bytes| _ = black_box(errors(bytes)),
    open: |_: &Roots, _: &Options| Some(Box::new(Btrfs::new())),
};

/// btrfs stripes by 64 KiB, whatever the level.
const STRIPE_BYTES: u64 = 65_536;

/// A volume.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub device: Device,
    pub folder: PathBuf,
}

/// Mounted volumes, in the order of their ids.
pub(crate) fn volumes(roots: &Roots) -> Vec<Volume> {
    let Ok(entries) = std::fs::read_dir(roots.sys.join("fs/btrfs")) else { return Vec::new() };
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("devices").is_dir()).collect();
    folders.sort();
    let labels: Vec<Option<String>> =
        folders.iter().map(|f| read_text(&f.join("label")).filter(|l| !l.is_empty())).collect();
    let unique = |label: &String| labels.iter().flatten().filter(|l| *l == label).count() == 1;
    let volume = |(folder, label): (&PathBuf, &Option<String>)| {
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = label.as_ref().filter(|l| unique(l)).map_or(&*id, |l| l.as_str());
        Volume { device: device(format!("btrfs:{name}"), folder), folder: folder.clone() }
    };
    folders.iter().zip(&labels).map(volume).collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn device(name: String, folder: &Path) -> Device {
    let below: Vec<String> = entries(&folder.join("devices")).iter().map(|n| n.replace('!', "/")).collect();
    let missing = missing(folder);
    // with one device there is no set, whatever its profile is called
    let level = if below.len() as u64 + missing > 1 { profile(&folder.join("allocation/data")) } else { None };
    Device {
        name,
        kind: DeviceKind::Btrfs,
        stripe_bytes: level.filter(|l| !matches!(l, Level::Raid1 | Level::Linear)).map(|_| STRIPE_BYTES),
        level,
        missing: u32::try_from(missing).unwrap_or(u32::MAX),
        background: read_text(&folder.join("exclusive_operation")).filter(|t| t != "none" && !t.is_empty()),
        below,
        ..Device::default()
    }
}

fn missing(folder: &Path) -> u64 {
    let infos = folder.join("devinfo");
    entries(&infos).iter().filter(|n| read_number(&infos.join(n).join("missing")) == Some(1)).count() as u64
}

/// The profile that holds most data; during a conversion there are two.
fn profile(folder: &Path) -> Option<Level> {
    let size = |name: &String| read_number(&folder.join(name).join("total_bytes"));
    entries(folder)
        .iter()
        .filter_map(|n| Some((size(n)?, Level::parse(n)?)))
        .max_by_key(|(bytes, _)| *bytes)
        .map(|p| p.1)
}

/// All errors of a device: write, read, flush, corruption, generation.
pub fn errors(text: &[u8]) -> Option<u64> {
    let counts: Vec<u64> = lines(text).filter_map(|line| keyed(line)?.1).collect();
    (!counts.is_empty()).then(|| counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)))
}

const COLUMNS: [Column; 5] = [
    level("array.members", 1.0),
    level("array.missing", 1.0),
    level("array.degraded", 1.0),
    level("array.background", 1.0),
    total("array.device_errors", 1.0),
];

struct Followed {
    row: usize,
    members: u64,
    missing: u64,
    operation: Held,
    errors: Vec<Held>,
}

struct Btrfs {
    followed: Vec<Followed>,
    folders: Vec<(PathBuf, Vec<String>)>,
    tables: [Table; 1],
}

impl Btrfs {
    fn new() -> Btrfs {
        Btrfs {
            followed: Vec::new(),
            folders: Vec::new(),
            tables: [Table::new("btrfs volume", &COLUMNS, Backwards::RowBeganAnew)],
        }
    }

    fn find(&mut self, at: &mut Moment) {
        let volumes = volumes(at.roots);
        let folders: Vec<_> = volumes.iter().map(|v| (v.folder.clone(), v.device.below.clone())).collect();
        let [table] = &mut self.tables;
        table.retain(|_, gone| !gone);
        if folders != self.folders {
            self.folders = folders;
            at.rescan = true;
            self.followed = volumes.iter().map(|v| follow(v, table)).collect();
        }
        for (followed, volume) in self.followed.iter_mut().zip(&volumes) {
            followed.row = table.row(&volume.device.name);
            followed.members = volume.device.below.len() as u64;
            followed.missing = u64::from(volume.device.missing);
        }
    }
}

fn follow(volume: &Volume, table: &mut Table) -> Followed {
    let infos = volume.folder.join("devinfo");
    let stats = |id: &String| infos.join(id).join("error_stats");
    let means = "errors of this device are not counted";
    Followed {
        row: table.row(&volume.device.name),
        members: 0,
        missing: 0,
        operation: Held::whole(volume.folder.join("exclusive_operation"), "a running balance is not seen"),
        // error_stats came with Linux 5.14
        errors: entries(&infos).iter().map(stats).filter(|p| p.exists()).map(|p| Held::whole(p, means)).collect(),
    }
}

impl Source for Btrfs {
    fn tick(&mut self, at: &mut Moment) {
        if at.slow {
            self.find(at);
        }
        let [table] = &mut self.tables;
        table.begin();
        for followed in &mut self.followed {
            let background = followed.operation.read(at).map(|text| u64::from(trim(text) != b"none"));
            if background.is_none() && !followed.operation.path().exists() {
                // unmounted; the slow beat will notice
                continue;
            }
            let mut sum = if followed.errors.is_empty() { ABSENT } else { 0 };
            for file in &mut followed.errors {
                match file.read(at).and_then(errors) {
                    Some(n) if sum != ABSENT => sum = sum.saturating_add(n),
                    _ => sum = ABSENT,
                }
            }
            let degraded = u64::from(followed.missing > 0);
            let values = [followed.members, followed.missing, degraded, background.unwrap_or(ABSENT), sum];
            table.fill(followed.row).copy_from_slice(&values);
        }
        table.settle(at);
    }

    fn tables(&mut self) -> &mut [Table] {
        &mut self.tables
    }
}
