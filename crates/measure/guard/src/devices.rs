//! Block devices and what each stands on: which bytes of which lower device or
//! file, so that neighbours on the same disk are told apart from what overlaps.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::Path;

use diskwright_counters::live::{Roots, mountinfo};

use crate::file::{self, BackingFile};
use crate::loops::{self, LoopBacking, SECTOR};
use crate::mapper;
use crate::mounts::MountTable;
use crate::node::{DeviceNumber, line, names, sys, value};

/// A block device, or a file by its place in [`DeviceGraph::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StorageNode {
    Device(DeviceNumber),
    File(usize),
}

/// What kind of device stands on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    Partition,
    Loop,
    /// A disk; or what is made of others: arrays, volumes, caches, paths.
    Other,
}

/// A part of a device, and the part of a lower one that it lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub node: StorageNode,
    /// Bytes of the lower one.
    pub below: Range<u64>,
    /// Where they begin in the upper one; `None` where they are spread over it.
    pub offset: Option<u64>,
    /// Nothing proves that it is this file, and nothing disproves it.
    pub perhaps: bool,
    /// Others that lie on the same bytes are kept apart by whoever deals them out (a pool,
    /// a snapshot): what is written to one never reaches another.
    pub is_dealt: bool,
}

/// All of something.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

/// The common part of two stretches.
fn common(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

impl Slice {
    pub fn whole(node: StorageNode) -> Slice {
        Slice { node, below: ALL, offset: None, perhaps: false, is_dealt: false }
    }

    /// One stretch, which begins at `offset` of the upper device.
    pub fn part(node: StorageNode, from: u64, bytes: Option<u64>, offset: u64) -> Slice {
        let end = bytes.map_or(u64::MAX, |bytes| from.saturating_add(bytes));
        Slice { node, below: from..end, offset: Some(offset), perhaps: false, is_dealt: false }
    }

    /// The bytes of the lower one that these of the upper one lie on.
    pub fn down(&self, upper: &Range<u64>) -> Option<Range<u64>> {
        let Some(offset) = self.offset else { return Some(self.below.clone()) };
        let bytes = self.below.end - self.below.start;
        let both = common(upper, &(offset..offset.saturating_add(bytes)))?;
        let shift = |x: u64| (x - offset).saturating_add(self.below.start);
        Some(shift(both.start)..shift(both.end))
    }

    /// The bytes of the upper one that lie on these of the lower one.
    pub fn up(&self, lower: &Range<u64>) -> Option<Range<u64>> {
        let both = common(lower, &self.below)?;
        let Some(offset) = self.offset else { return Some(ALL) };
        let shift = |x: u64| (x - self.below.start).saturating_add(offset);
        Some(shift(both.start)..shift(both.end))
    }
}

/// A block device.
#[derive(Debug)]
pub(crate) struct GuardDevice {
    pub name: String,
    pub kind: LayerKind,
    pub below: Vec<Slice>,
    /// Names of what holds it, and is no block device that is known.
    pub holders: Vec<String>,
    /// It is registered with bcache.
    pub is_cached: bool,
}

/// Block devices and files of a machine at one moment.
#[derive(Debug)]
pub(crate) struct DeviceGraph<'r> {
    pub roots: &'r Roots,
    pub mounts: MountTable,
    pub devices: BTreeMap<DeviceNumber, GuardDevice>,
    pub files: Vec<BackingFile>,
    /// What stands on each: the upper device, and the place of the slice in its list.
    above: HashMap<StorageNode, Vec<(DeviceNumber, usize)>>,
}

impl<'r> DeviceGraph<'r> {
    /// Looks at all devices. The first of the files is the one that is asked about, where one is.
    pub fn read(roots: &'r Roots, mounts: MountTable, file: Option<BackingFile>) -> DeviceGraph<'r> {
        DeviceGraph::with_tables(roots, mounts, file, &mapper::table)
    }

    /// The same with tables of the device mapper from elsewhere.
    pub fn with_tables(
        roots: &'r Roots,
        mounts: MountTable,
        file: Option<BackingFile>,
        table: &dyn Fn(&Roots, DeviceNumber) -> Option<String>,
    ) -> DeviceGraph<'r> {
        let listed = names(&roots.at("/sys/dev/block"));
        let numbers = listed.iter().filter_map(|name| mountinfo::device_number(name.as_bytes()));
        let mut devices: BTreeMap<DeviceNumber, GuardDevice> = numbers.map(|n| (n, device(roots, n, table))).collect();
        let mut files: Vec<BackingFile> = file.into_iter().collect();
        for found in loops::all(roots, &mounts) {
            let slice = |node| Slice::part(node, found.offset, found.bytes, 0);
            let below = match found.below {
                LoopBacking::Device(number) => vec![slice(StorageNode::Device(number))],
                LoopBacking::File(backing) => file::enlist(&mut files, backing, &mounts)
                    .into_iter()
                    .map(|(place, perhaps)| Slice { perhaps, ..slice(StorageNode::File(place)) })
                    .collect(),
            };
            let device = devices.entry(found.number).or_insert_with(|| plain(found.name));
            (device.kind, device.below) = (LayerKind::Loop, below);
        }
        let mut machine = DeviceGraph { roots, mounts, devices, files, above: HashMap::new() };
        machine.add_holders();
        machine.index();
        machine
    }

    /// What is held says by whom; most holders say it themselves as well, and more exactly.
    fn add_holders(&mut self) {
        let by_name: HashMap<String, DeviceNumber> = self.devices.iter().map(|(n, d)| (d.name.clone(), *n)).collect();
        let mut more = Vec::new();
        for (number, device) in &mut self.devices {
            device.holders.retain(|holder| match by_name.get(holder) {
                Some(holder) => {
                    more.push((*holder, StorageNode::Device(*number)));
                    false
                }
                None => true,
            });
        }
        for (holder, node) in more {
            if let Some(device) = self.devices.get_mut(&holder)
                && device.below.iter().all(|slice| slice.node != node)
            {
                device.below.push(Slice::whole(node));
            }
        }
    }

    fn index(&mut self) {
        for (number, device) in &self.devices {
            for (place, slice) in device.below.iter().enumerate() {
                self.above.entry(slice.node).or_default().push((*number, place));
            }
        }
    }

    /// What stands on a device or file.
    pub fn above(&self, node: StorageNode) -> impl Iterator<Item = (DeviceNumber, &Slice)> {
        let found = self.above.get(&node).into_iter().flatten();
        found.map(|(number, place)| (*number, &self.devices[number].below[*place]))
    }

    /// A name for sentences.
    pub fn name(&self, node: StorageNode) -> String {
        match node {
            StorageNode::Device(number) => match self.devices.get(&number) {
                Some(device) => device.name.clone(),
                None => format!("{}:{}", number.0, number.1),
            },
            StorageNode::File(place) => self.files[place].name().to_owned(),
        }
    }
}

fn plain(name: String) -> GuardDevice {
    GuardDevice { name, kind: LayerKind::Other, below: Vec::new(), holders: Vec::new(), is_cached: false }
}

fn device(roots: &Roots, number: DeviceNumber, table: &dyn Fn(&Roots, DeviceNumber) -> Option<String>) -> GuardDevice {
    let folder = sys(roots, number);
    let link = fs::read_link(&folder).unwrap_or_default();
    let name = link.file_name().map_or_else(|| format!("{}:{}", number.0, number.1), |n| n.to_string_lossy().into());
    let number_in = |path: &Path| mountinfo::device_number(line(path)?.as_bytes());
    let mut device = plain(name);
    device.holders = names(&folder.join("holders"));
    device.is_cached = folder.join("bcache").exists();
    if folder.join("partition").exists() {
        device.kind = LayerKind::Partition;
        let sectors = |name: &str| value(&folder.join(name)).map(|sectors| sectors * SECTOR);
        let disk = number_in(&folder.join("../dev")).map(StorageNode::Device);
        device.below.extend(disk.map(|disk| Slice::part(disk, sectors("start").unwrap_or(0), sectors("size"), 0)));
        return device;
    }
    let slaves = names(&folder.join("slaves"));
    let numbers = slaves.iter().filter_map(|slave| number_in(&folder.join("slaves").join(slave).join("dev")));
    let slaves: Vec<DeviceNumber> = numbers.collect();
    let is_mapped = folder.join("dm").exists();
    let told = is_mapped.then(|| table(roots, number)).flatten().map(|text| mapper::slices(&text));
    device.below = told.unwrap_or_default();
    // what the table does not name stands on all of it
    for slave in slaves.into_iter().map(StorageNode::Device) {
        if device.below.iter().all(|slice| slice.node != slave) {
            device.below.push(Slice::whole(slave));
        }
    }
    device
}
