//! Stacking of devices, filesystems and swap areas.

use std::collections::HashMap;

use diskwright_base::topology::Swap;
use diskwright_base::{Device, DeviceClass, DeviceKind, Filesystem};

use crate::live::Roots;
use crate::live::mountinfo::{self, Mount};
use crate::live::open_file::read_bytes;
use crate::live::sources::btrfs;
use crate::live::sources::swaps;
use crate::live::watched_read::canonicalize;

use super::block::{self, BlockDevice};
use super::device_class;

/// The device that holds a file.
#[derive(Clone, Debug, PartialEq)]
enum BackingDevice {
    Device(String),
    /// No device is visible, but its class is known.
    Class(DeviceClass),
}

/// Kernel names of devices by number, mapper name and btrfs volume.
struct DeviceNames {
    by_number: HashMap<(u64, u64), String>,
    by_mapper: HashMap<String, String>,
    /// From a block device to the btrfs volume that it belongs to.
    volumes: HashMap<String, String>,
    mounts: Vec<Mount>,
}

/// Reads devices with the devices below them, mounted filesystems, and swap areas.
pub(super) fn read_stack(roots: &Roots) -> (Vec<Device>, Vec<Filesystem>, Vec<Swap>) {
    let blocks = block::read_block_devices(roots);
    let volumes = btrfs::read_volumes(roots);
    let names = DeviceNames::new(&blocks, &volumes, mountinfo::read_mounts(roots));
    let mut devices: Vec<Device> = blocks.into_iter().map(|b| b.device).collect();
    devices.extend(volumes.into_iter().map(|v| v.device));
    place_loop_devices(&mut devices, &names);
    derive_stacked_classes(&mut devices);
    let filesystems = names.mounts.iter().filter(|m| m.is_on_disk() && !m.is_remote()).map(|mount| Filesystem {
        mount: mount.point.clone(),
        kind: mount.kind.clone(),
        device: names.device_of_mount(mount).unwrap_or_default(),
    });
    let filesystems = filesystems.collect();
    let text = read_bytes(&roots.proc.join("swaps")).unwrap_or_default();
    let swaps = swaps::parse_areas(&text)
        .map(|area| Swap { device: names.device_of_swap(&area.path, roots), path: area.path, bytes: area.size_bytes })
        .collect();
    (devices, filesystems, swaps)
}

impl DeviceNames {
    fn new(blocks: &[BlockDevice], volumes: &[btrfs::BtrfsVolume], mounts: Vec<Mount>) -> DeviceNames {
        let name = |b: &BlockDevice| b.device.name.clone();
        DeviceNames {
            by_number: blocks.iter().filter_map(|b| Some((b.number?, name(b)))).collect(),
            by_mapper: blocks.iter().filter_map(|b| Some((b.mapper.clone()?, name(b)))).collect(),
            volumes: volumes
                .iter()
                .flat_map(|v| v.device.below.iter().map(|b| (b.clone(), v.device.name.clone())))
                .collect(),
            mounts,
        }
    }

    /// Returns the kernel name of `/dev/sda1`, `/dev/mapper/vg-root`.
    fn device_of_node(&self, path: &str) -> Option<String> {
        let find_device = |name: &str| self.by_number.values().find(|n| *n == name).cloned();
        match path.strip_prefix("/dev/mapper/") {
            Some(mapper) => self.by_mapper.get(mapper).cloned(),
            None => find_device(path.strip_prefix("/dev/")?),
        }
    }

    fn device_of_mount(&self, mount: &Mount) -> Option<String> {
        let block = self.by_number.get(&mount.device).cloned().or_else(|| self.device_of_node(&mount.source))?;
        Some(match mount.kind.as_str() {
            "btrfs" => self.volumes.get(&block).cloned().unwrap_or(block),
            _ => block,
        })
    }

    /// Returns the device that holds a file. On an overlay, the path is followed to the writable layer.
    fn backing_of_file(&self, path: &str) -> BackingDevice {
        let mut path = path.to_owned();
        for _ in 0..8 {
            let Some(mount) = mountinfo::find_mount(&self.mounts, &path) else { break };
            if mount.is_remote() {
                return BackingDevice::Class(DeviceClass::Network);
            }
            if mount.is_memory() {
                return BackingDevice::Class(DeviceClass::Memory);
            }
            if let Some(device) = self.device_of_mount(mount) {
                return BackingDevice::Device(device);
            }
            match mount.option_value("upperdir") {
                Some(upper) if upper != path => path = upper.to_owned(),
                _ => break,
            }
        }
        BackingDevice::Class(DeviceClass::Unknown)
    }

    /// Returns the device that is a swap area, or that holds its file; empty if it is unknown.
    fn device_of_swap(&self, path: &str, roots: &Roots) -> String {
        if path.starts_with("/dev/") {
            let link_target = || {
                let target = canonicalize(&roots.resolve_path(path)).ok()?;
                self.device_of_node(&format!("/dev/{}", target.file_name()?.to_str()?))
            };
            return self.device_of_node(path).or_else(link_target).unwrap_or_default();
        }
        match self.backing_of_file(path) {
            BackingDevice::Device(name) => name,
            BackingDevice::Class(_) => String::new(),
        }
    }
}

/// Gives loop devices the device that holds their file, or its class.
fn place_loop_devices(devices: &mut [Device], names: &DeviceNames) {
    for device in devices.iter_mut().filter(|d| d.kind == DeviceKind::Loop) {
        let Some(file) = &device.backing else { continue };
        match names.backing_of_file(file) {
            BackingDevice::Device(name) if name != device.name => device.below = vec![name],
            BackingDevice::Device(_) => {}
            BackingDevice::Class(class) => device.class = class,
        }
    }
}

/// Gives stacked devices the class of the devices below them.
fn derive_stacked_classes(devices: &mut [Device]) {
    let below: HashMap<String, (Vec<String>, DeviceClass)> =
        devices.iter().map(|d| (d.name.clone(), (d.below.clone(), d.class))).collect();
    for device in devices.iter_mut().filter(|d| !d.below.is_empty()) {
        let mut classes = Vec::new();
        let mut pending: Vec<&String> = device.below.iter().collect();
        let mut seen = Vec::new();
        while let Some(name) = pending.pop() {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            match below.get(name) {
                Some((names, _)) if !names.is_empty() => pending.extend(names),
                Some((_, class)) => classes.push(*class),
                None => classes.push(DeviceClass::Unknown),
            }
        }
        device.class = device_class::class_of_stack(&classes);
    }
}
