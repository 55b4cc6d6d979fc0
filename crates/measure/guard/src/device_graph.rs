//! Block devices and their layers: on which bytes of which lower device or file each device lies.
//! This tells neighbors on one disk from devices that share bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::Path;

use diskwright_counters::live::{Roots, mountinfo};

use crate::backing_file::{self, BackingFile};
use crate::device_mapper;
use crate::loop_devices::{self, LoopBacking, SECTOR_BYTES};
use crate::mounts::MountTable;
use crate::node::{DeviceNumber, read_first_line, read_number, sorted_names, sysfs_folder};

/// A block device, or a file by its index in [`DeviceGraph::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StorageNode {
    Device(DeviceNumber),
    File(usize),
}

/// Kind of a device that stands on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    Partition,
    Loop,
    /// A disk, or a device made of others: array, volume, cache, multipath.
    Other,
}

/// A part of a device, and the part of a lower one that it lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub node: StorageNode,
    /// Byte range of the lower node.
    pub below: Range<u64>,
    /// Start of these bytes in the upper device; `None` if they are spread over it.
    pub offset: Option<u64>,
    /// The lower node is a file that may be another than the device's backing file.
    pub is_uncertain: bool,
    /// The lower node is a pool or the origin of a snapshot: a write to one device on it never changes
    /// another, although both lie on the same bytes.
    pub is_isolated: bool,
}

/// The byte range of a whole device or file.
pub(crate) const WHOLE_RANGE: Range<u64> = 0..u64::MAX;

/// Returns the intersection of two ranges.
fn intersect_ranges(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let common = a.start.max(b.start)..a.end.min(b.end);
    (!common.is_empty()).then_some(common)
}

impl Slice {
    /// A slice that covers a whole lower node.
    pub fn whole_node(node: StorageNode) -> Slice {
        Slice { node, below: WHOLE_RANGE, offset: None, is_uncertain: false, is_isolated: false }
    }

    /// The `bytes` bytes (or all) from `from` on of the lower node, which begin at `offset` of the upper device.
    pub fn byte_range(node: StorageNode, from: u64, bytes: Option<u64>, offset: u64) -> Slice {
        let end = bytes.map_or(u64::MAX, |bytes| from.saturating_add(bytes));
        Slice { node, below: from..end, offset: Some(offset), is_uncertain: false, is_isolated: false }
    }

    /// Returns the bytes of the lower node on which these bytes of the upper device lie.
    pub fn map_down(&self, upper: &Range<u64>) -> Option<Range<u64>> {
        let Some(offset) = self.offset else { return Some(self.below.clone()) };
        let bytes = self.below.end - self.below.start;
        let common = intersect_ranges(upper, &(offset..offset.saturating_add(bytes)))?;
        let shift = |x: u64| (x - offset).saturating_add(self.below.start);
        Some(shift(common.start)..shift(common.end))
    }

    /// Returns the bytes of the upper device that lie on these bytes of the lower node.
    pub fn map_up(&self, lower: &Range<u64>) -> Option<Range<u64>> {
        let common = intersect_ranges(lower, &self.below)?;
        let Some(offset) = self.offset else { return Some(WHOLE_RANGE) };
        let shift = |x: u64| (x - self.below.start).saturating_add(offset);
        Some(shift(common.start)..shift(common.end))
    }
}

/// A block device.
#[derive(Debug)]
pub(crate) struct GuardDevice {
    pub name: String,
    pub kind: LayerKind,
    pub below: Vec<Slice>,
    /// Names of holders that are not among the known block devices.
    pub holders: Vec<String>,
    /// It is registered with bcache.
    pub is_cached: bool,
}

/// Block devices and files of a machine at one time.
#[derive(Debug)]
pub(crate) struct DeviceGraph<'r> {
    pub roots: &'r Roots,
    pub mounts: MountTable,
    pub devices: BTreeMap<DeviceNumber, GuardDevice>,
    pub files: Vec<BackingFile>,
    /// Slices above each node: the upper device, and the index of the slice in its `below`.
    upper_slices: HashMap<StorageNode, Vec<(DeviceNumber, usize)>>,
}

impl<'r> DeviceGraph<'r> {
    /// Reads all devices. `file`, if given, is the target, and becomes the first of `files`.
    pub fn read(roots: &'r Roots, mounts: MountTable, file: Option<BackingFile>) -> DeviceGraph<'r> {
        DeviceGraph::with_tables(roots, mounts, file, &device_mapper::read_table)
    }

    /// As [`DeviceGraph::read`], with device mapper tables from another source.
    pub fn with_tables(
        roots: &'r Roots,
        mounts: MountTable,
        file: Option<BackingFile>,
        table: &dyn Fn(&Roots, DeviceNumber) -> Option<String>,
    ) -> DeviceGraph<'r> {
        let names = sorted_names(&roots.resolve_path("/sys/dev/block"));
        let numbers = names.iter().filter_map(|name| mountinfo::parse_device_number(name.as_bytes()));
        let mut devices: BTreeMap<DeviceNumber, GuardDevice> =
            numbers.map(|n| (n, read_device(roots, n, table))).collect();
        let mut files: Vec<BackingFile> = file.into_iter().collect();
        for found in loop_devices::read_loop_devices(roots, &mounts) {
            let slice = |node| Slice::byte_range(node, found.offset, found.bytes, 0);
            let below = match found.below {
                LoopBacking::Device(number) => vec![slice(StorageNode::Device(number))],
                LoopBacking::File(backing) => backing_file::register_file(&mut files, backing, &mounts)
                    .into_iter()
                    .map(|(index, is_uncertain)| Slice { is_uncertain, ..slice(StorageNode::File(index)) })
                    .collect(),
            };
            let device = devices.entry(found.number).or_insert_with(|| device_without_layers(found.name));
            (device.kind, device.below) = (LayerKind::Loop, below);
        }
        let mut graph = DeviceGraph { roots, mounts, devices, files, upper_slices: HashMap::new() };
        graph.add_holders();
        graph.index_slices();
        graph
    }

    /// Puts each holder that is a known device above the device that it holds, unless the holder's own
    /// layers, which are more exact, already say so.
    fn add_holders(&mut self) {
        let by_name: HashMap<String, DeviceNumber> = self.devices.iter().map(|(n, d)| (d.name.clone(), *n)).collect();
        let mut held_nodes = Vec::new();
        for (number, device) in &mut self.devices {
            device.holders.retain(|holder| match by_name.get(holder) {
                Some(holder) => {
                    held_nodes.push((*holder, StorageNode::Device(*number)));
                    false
                }
                None => true,
            });
        }
        for (holder, node) in held_nodes {
            if let Some(device) = self.devices.get_mut(&holder)
                && device.below.iter().all(|slice| slice.node != node)
            {
                device.below.push(Slice::whole_node(node));
            }
        }
    }

    fn index_slices(&mut self) {
        for (number, device) in &self.devices {
            for (index, slice) in device.below.iter().enumerate() {
                self.upper_slices.entry(slice.node).or_default().push((*number, index));
            }
        }
    }

    /// Iterates over the devices that stand on a device or file, each with the slice that connects them.
    pub fn slices_above(&self, node: StorageNode) -> impl Iterator<Item = (DeviceNumber, &Slice)> {
        let found = self.upper_slices.get(&node).into_iter().flatten();
        found.map(|(number, index)| (*number, &self.devices[number].below[*index]))
    }

    /// Returns a name for messages.
    pub fn name(&self, node: StorageNode) -> String {
        match node {
            StorageNode::Device(number) => match self.devices.get(&number) {
                Some(device) => device.name.clone(),
                None => format!("{}:{}", number.0, number.1),
            },
            StorageNode::File(index) => self.files[index].name().to_owned(),
        }
    }
}

fn device_without_layers(name: String) -> GuardDevice {
    GuardDevice { name, kind: LayerKind::Other, below: Vec::new(), holders: Vec::new(), is_cached: false }
}

/// Reads a device and its layers from /sys, and from its device mapper table.
fn read_device(
    roots: &Roots,
    number: DeviceNumber,
    table: &dyn Fn(&Roots, DeviceNumber) -> Option<String>,
) -> GuardDevice {
    let folder = sysfs_folder(roots, number);
    let link = fs::read_link(&folder).unwrap_or_default();
    let name = link.file_name().map_or_else(|| format!("{}:{}", number.0, number.1), |n| n.to_string_lossy().into());
    let number_in = |path: &Path| mountinfo::parse_device_number(read_first_line(path)?.as_bytes());
    let mut device = device_without_layers(name);
    device.holders = sorted_names(&folder.join("holders"));
    device.is_cached = folder.join("bcache").exists();
    if folder.join("partition").exists() {
        device.kind = LayerKind::Partition;
        let sectors = |name: &str| read_number(&folder.join(name)).map(|sectors| sectors * SECTOR_BYTES);
        let disk = number_in(&folder.join("../dev")).map(StorageNode::Device);
        device
            .below
            .extend(disk.map(|disk| Slice::byte_range(disk, sectors("start").unwrap_or(0), sectors("size"), 0)));
        return device;
    }
    let slaves = sorted_names(&folder.join("slaves"));
    let numbers = slaves.iter().filter_map(|slave| number_in(&folder.join("slaves").join(slave).join("dev")));
    let slaves: Vec<DeviceNumber> = numbers.collect();
    let is_mapped = folder.join("dm").exists();
    let table_slices = is_mapped.then(|| table(roots, number)).flatten().map(|text| device_mapper::parse_table(&text));
    device.below = table_slices.unwrap_or_default();
    // a lower device that the table does not name is used as a whole
    for slave in slaves.into_iter().map(StorageNode::Device) {
        if device.below.iter().all(|slice| slice.node != slave) {
            device.below.push(Slice::whole_node(slave));
        }
    }
    device
}
