//! Stacking of devices, filesystems and swap areas.

use std::collections::HashMap;

use diskwright_base::topology::Swap;
use diskwright_base::{Device, DeviceClass, DeviceKind, Filesystem};

use crate::live::Roots;
use crate::live::held::read_bytes;
use crate::live::mountinfo::{self, Mount};
use crate::live::sources::btrfs;
use crate::live::sources::swaps;

use super::block::{self, BlockDevice};
use super::class;

/// The device that holds a file.
#[derive(Clone, Debug, PartialEq)]
enum Bearer {
    Device(String),
    /// No visible device, but one of this class.
    Class(DeviceClass),
}

/// Kernel names of devices by number, mapper name and btrfs volume.
struct DeviceNames {
    by_number: HashMap<(u64, u64), String>,
    by_mapper: HashMap<String, String>,
    /// Block device to the btrfs volume it belongs to.
    volumes: HashMap<String, String>,
    mounts: Vec<Mount>,
}

/// Reads devices with the devices below them, mounted filesystems, and swap areas.
pub(super) fn read(roots: &Roots) -> (Vec<Device>, Vec<Filesystem>, Vec<Swap>) {
    let blocks = block::all(roots);
    let volumes = btrfs::volumes(roots);
    let names = DeviceNames::new(&blocks, &volumes, mountinfo::read(roots));
    let mut devices: Vec<Device> = blocks.into_iter().map(|b| b.device).collect();
    devices.extend(volumes.into_iter().map(|v| v.device));
    place_loops(&mut devices, &names);
    settle_classes(&mut devices);
    let filesystems = names.mounts.iter().filter(|m| m.is_on_disk() && !m.is_remote()).map(|mount| Filesystem {
        mount: mount.point.clone(),
        kind: mount.kind.clone(),
        device: names.of_mount(mount).unwrap_or_default(),
    });
    let filesystems = filesystems.collect();
    let text = read_bytes(&roots.proc.join("swaps")).unwrap_or_default();
    let swaps = swaps::parse(&text)
        .map(|area| Swap { device: names.of_swap(&area.path, roots), path: area.path, bytes: area.bytes })
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
    fn of_node(&self, path: &str) -> Option<String> {
        let known = |name: &str| self.by_number.values().find(|n| *n == name).cloned();
        match path.strip_prefix("/dev/mapper/") {
            Some(mapper) => self.by_mapper.get(mapper).cloned(),
            None => known(path.strip_prefix("/dev/")?),
        }
    }

    fn of_mount(&self, mount: &Mount) -> Option<String> {
        let block = self.by_number.get(&mount.device).cloned().or_else(|| self.of_node(&mount.source))?;
        Some(match mount.kind.as_str() {
            "btrfs" => self.volumes.get(&block).cloned().unwrap_or(block),
            _ => block,
        })
    }

    /// Returns the device that holds a file. A path is followed through overlays to the
    /// writable layer.
    fn of_file(&self, path: &str) -> Bearer {
        let mut path = path.to_owned();
        for _ in 0..8 {
            let Some(mount) = mountinfo::of_path(&self.mounts, &path) else { break };
            if mount.is_remote() {
                return Bearer::Class(DeviceClass::Network);
            }
            if mount.is_memory() {
                return Bearer::Class(DeviceClass::Memory);
            }
            if let Some(device) = self.of_mount(mount) {
                return Bearer::Device(device);
            }
            match mount.option("upperdir") {
                Some(upper) if upper != path => path = upper.to_owned(),
                _ => break,
            }
        }
        Bearer::Class(DeviceClass::Unknown)
    }

    /// Returns the device of a swap area: itself, or the one that holds the file.
    fn of_swap(&self, path: &str, roots: &Roots) -> String {
        if path.starts_with("/dev/") {
            let linked = || {
                let target = std::fs::canonicalize(roots.at(path)).ok()?;
                self.of_node(&format!("/dev/{}", target.file_name()?.to_str()?))
            };
            return self.of_node(path).or_else(linked).unwrap_or_default();
        }
        match self.of_file(path) {
            Bearer::Device(name) => name,
            Bearer::Class(_) => String::new(),
        }
    }
}

fn place_loops(devices: &mut [Device], names: &DeviceNames) {
    for device in devices.iter_mut().filter(|d| d.kind == DeviceKind::Loop) {
        let Some(file) = &device.backing else { continue };
        match names.of_file(file) {
            Bearer::Device(name) if name != device.name => device.below = vec![name],
            Bearer::Device(_) => {}
            Bearer::Class(class) => device.class = class,
        }
    }
}

/// Gives stacked devices the class of the devices below them.
fn settle_classes(devices: &mut [Device]) {
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
                Some((under, _)) if !under.is_empty() => pending.extend(under),
                Some((_, class)) => classes.push(*class),
                None => classes.push(DeviceClass::Unknown),
            }
        }
        device.class = class::of_stacked(&classes);
    }
}
