//! Highest measured performance of a device, and the keys that identify a device when its name has changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::topology::{Device, DeviceClass, DeviceKind, Topology};

/// The highest performance that a probe measured on a device. A figure that was
/// not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ceiling {
    /// Kernel name: the one at the time of measurement, or the one that [`ceilings_for_topology`] found.
    pub device: String,
    /// Key that identifies the device ([`device_keys`]); empty where only the name does.
    pub key: String,
    /// Time of the newest figure, RFC 3339 in UTC.
    pub measured: String,
    /// Most requests a second, reads or writes.
    pub requests_per_s: Option<f64>,
    /// Most bytes a second, reads or writes.
    pub bytes_per_s: Option<f64>,
    /// Most small random reads a second.
    pub reads_per_s: Option<f64>,
    /// Most small random writes a second.
    pub writes_per_s: Option<f64>,
    /// Most bytes a second, reads.
    pub read_bytes_per_s: Option<f64>,
    /// Most bytes a second, writes.
    pub write_bytes_per_s: Option<f64>,
    /// Mean seconds of one random 4 KiB read at queue depth 1.
    pub read_s: Option<f64>,
    /// Mean seconds of one random 4 KiB write at queue depth 1.
    pub write_s: Option<f64>,
    /// Queue depth beyond which throughput rises little: the knee.
    pub knee_depth: Option<f64>,
    /// Reasons why the device may do more than this; empty where the figures are firm.
    pub at_least: Vec<String>,
}

impl Ceiling {
    /// Returns true if there is no reason to assume that the device can do more.
    pub fn is_firm(&self) -> bool {
        self.at_least.is_empty()
    }
}

/// Returns the key of each whole device of a machine, which identifies it when its name changes. A key is
///
/// - `serial:MODEL:SERIAL` for a disk that has a serial number: the same in
///   every machine and under every name;
/// - `serial:MODEL:SERIAL@HOST` for a disk that the host or the network
///   provides (virtual, network): their serials repeat from machine to machine;
/// - `uuid:UUID@HOST` for a set or mapped device, `filesystem:NAME@HOST` for a
///   filesystem that is a set itself (btrfs, ZFS);
/// - `file:PATH:BYTES@HOST` for a loop device, by its file;
/// - `path:MODEL:PLACE:BYTES@HOST` for a disk without a serial number, by
///   where it is attached: this distinguishes two disks of one model, but not a
///   disk from its replacement of the same model and size;
/// - `name:NAME:MODEL:BYTES@HOST` where there is nothing better.
///
/// Devices that share a key nevertheless (paths to one disk, adapters that give every disk the same serial number) are
/// distinguished by their attachment path or name. Partitions and memory devices have no key.
pub fn device_keys(topology: &Topology) -> BTreeMap<&str, String> {
    let is_whole_device = |d: &&Device| d.kind != DeviceKind::Partition && d.class != DeviceClass::Memory;
    let devices: Vec<&Device> = topology.devices.iter().filter(is_whole_device).collect();
    let mut keys: BTreeMap<&str, String> =
        devices.iter().map(|d| (d.name.as_str(), device_key(d, &topology.host))).collect();
    let name = |d: &&Device| Some(d.name.clone());
    let attachment_path = |d: &&Device| d.path.clone();
    for distinguishing_mark in [&attachment_path as &dyn Fn(&&Device) -> Option<String>, &name] {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        keys.values().for_each(|key| *counts.entry(key.clone()).or_default() += 1);
        for device in &devices {
            if let (Some(key), Some(mark)) = (keys.get_mut(device.name.as_str()), distinguishing_mark(device))
                && counts.get(key).is_some_and(|n| *n > 1)
            {
                *key = format!("{key}#{mark}@{}", topology.host);
            }
        }
    }
    keys
}

fn device_key(device: &Device, host: &str) -> String {
    let non_empty = |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned);
    let model = non_empty(&device.model).unwrap_or_default();
    let bytes = device.bytes.map_or_else(String::new, |b| b.to_string());
    let is_physical = matches!(device.class, DeviceClass::Rotational | DeviceClass::Flash | DeviceClass::Nvme);
    if matches!(device.kind, DeviceKind::Btrfs | DeviceKind::Zfs) {
        return format!("filesystem:{}@{host}", device.name);
    }
    match (non_empty(&device.serial), non_empty(&device.backing), non_empty(&device.path)) {
        (Some(uuid), _, _) if matches!(device.kind, DeviceKind::Md | DeviceKind::Dm) => format!("uuid:{uuid}@{host}"),
        (Some(serial), _, _) if is_physical => format!("serial:{model}:{serial}"),
        (Some(serial), _, _) => format!("serial:{model}:{serial}@{host}"),
        (None, Some(file), _) => format!("file:{file}:{bytes}@{host}"),
        (None, None, Some(path)) => format!("path:{model}:{path}:{bytes}@{host}"),
        (None, None, None) => format!("name:{}:{model}:{bytes}@{host}", device.name),
    }
}

/// Start of the reason in [`Ceiling::at_least`] if a disk has the figures of a device above it. Only a device on a
/// single disk passes them down: figures of a set of disks say nothing about one of them.
const MEASURED_THROUGH: &str = "measured through";

/// Matches known ceilings to the devices of a topology, under their names there: by key, or by name if a ceiling has no
/// key. Of two ceilings for one device, the newer counts. A disk that was measured only through a device above it (a
/// volume, a loop device over a file) can do at least as much, if that device uses no other disk.
pub fn ceilings_for_topology(topology: Option<&Topology>, known: &[Ceiling]) -> Vec<Ceiling> {
    let mut matched: BTreeMap<String, Ceiling> = BTreeMap::new();
    let mut add = |device: &str, ceiling: &Ceiling| {
        let is_newest = matched.get(device).is_none_or(|existing| existing.measured <= ceiling.measured);
        if is_newest {
            matched.insert(device.to_owned(), Ceiling { device: device.to_owned(), ..ceiling.clone() });
        }
    };
    known.iter().filter(|c| c.key.is_empty()).for_each(|c| add(&c.device, c));
    let Some(topology) = topology else { return matched.into_values().collect() };
    let keys = device_keys(topology);
    for (device, key) in &keys {
        known.iter().filter(|c| c.key == *key).for_each(|c| add(device, c));
    }
    let non_leaf: Vec<Ceiling> = matched.values().filter(|c| !topology.is_leaf(&c.device)).cloned().collect();
    for upper in non_leaf {
        let leaves = topology.disks_under(&upper.device);
        if let [leaf] = leaves.as_slice()
            && !matched.contains_key(*leaf)
        {
            let mut inherited = Ceiling { device: (*leaf).to_owned(), ..upper.clone() };
            inherited.at_least.push(format!("{MEASURED_THROUGH} {}", upper.device));
            matched.insert((*leaf).to_owned(), inherited);
        }
    }
    matched.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, class: DeviceClass, serial: Option<&str>, path: Option<&str>) -> Device {
        let text = |t: Option<&str>| t.map(str::to_owned);
        let (serial, path) = (text(serial), text(path));
        Device { name: name.into(), class, model: Some("M ".into()), serial, path, bytes: Some(8), ..Device::default() }
    }

    fn machine(devices: Vec<Device>) -> Topology {
        Topology { host: "h".into(), devices, ..Topology::default() }
    }

    #[test]
    fn a_device_key_uses_the_best_identifier() {
        let mut file = disk("loop0", DeviceClass::Network, None, None);
        (file.model, file.backing) = (None, Some("/a".into()));
        let mut volume = disk("dm-0", DeviceClass::Flash, Some("LVM-x"), None);
        volume.kind = DeviceKind::Dm;
        let part = Device { kind: DeviceKind::Partition, ..disk("sda1", DeviceClass::Flash, None, None) };
        let topology = machine(vec![
            disk("sda", DeviceClass::Rotational, Some(" X1 "), Some("pci")),
            disk("vda", DeviceClass::Virtual, Some("QM1"), Some("pci")),
            disk("sdb", DeviceClass::Flash, None, Some("pci/ata1")),
            disk("sdc", DeviceClass::Flash, None, None),
            disk("zram0", DeviceClass::Memory, None, None),
            file,
            volume,
            part,
        ]);
        let keys = device_keys(&topology);
        let expected = [
            ("dm-0", "uuid:LVM-x@h"),
            ("loop0", "file:/a:8@h"),
            ("sda", "serial:M:X1"),
            ("sdb", "path:M:pci/ata1:8@h"),
            ("sdc", "name:sdc:M:8@h"),
            ("vda", "serial:M:QM1@h"),
        ];
        assert_eq!(keys.iter().map(|(n, k)| (*n, k.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn disks_of_one_model_keep_distinct_keys_under_new_names() {
        let two = |a: &str, b: &str| {
            machine(vec![
                disk(a, DeviceClass::Flash, None, Some("pci/ata1")),
                disk(b, DeviceClass::Flash, None, Some("pci/ata2")),
                // an adapter that gives every disk the same serial number
                disk("sdx", DeviceClass::Flash, Some("0123"), Some("usb1/1")),
                disk("sdy", DeviceClass::Flash, Some("0123"), Some("usb1/2")),
                disk("sdz", DeviceClass::Flash, Some("0123"), Some("usb1/2")),
            ])
        };
        let (before, after) = (two("sda", "sdb"), two("sdb", "sda"));
        let (before, after) = (device_keys(&before), device_keys(&after));
        assert_eq!((&before["sda"], &before["sdb"]), (&after["sdb"], &after["sda"]));
        assert_ne!(before["sda"], before["sdb"]);
        assert_eq!(before["sdx"], "serial:M:0123#usb1/1@h");
        assert_eq!(before["sdy"], "serial:M:0123#usb1/2@h#sdy@h");
        assert_ne!(before["sdy"], before["sdz"]);
    }

    #[test]
    fn ceilings_follow_the_device_and_the_newest_counts() {
        let ceiling = |key: &str, measured: &str, max_per_s: f64| Ceiling {
            device: "sda".into(),
            key: key.into(),
            measured: measured.into(),
            requests_per_s: Some(max_per_s),
            ..Ceiling::default()
        };
        let topology = machine(vec![
            disk("sdq", DeviceClass::Flash, Some("X"), None),
            disk("sda", DeviceClass::Flash, None, None),
        ]);
        let known = [ceiling("serial:M:X", "2026-02", 2.0), ceiling("serial:M:X", "2026-01", 1.0)];
        let found = ceilings_for_topology(Some(&topology), &known);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].device.as_str(), found[0].requests_per_s), ("sdq", Some(2.0)));
        // without a topology devices can be matched only by name
        assert!(ceilings_for_topology(None, &known).is_empty());
        assert_eq!(ceilings_for_topology(None, &[ceiling("", "", 3.0)])[0].device, "sda");
    }

    #[test]
    fn a_volume_on_one_disk_passes_its_ceiling_down_and_an_array_does_not() {
        let over = |name: &str, below: &[&str], level| Device {
            kind: DeviceKind::Dm,
            below: below.iter().map(|s| s.to_string()).collect(),
            level,
            ..disk(name, DeviceClass::Flash, Some(name), None)
        };
        let topology = machine(vec![
            disk("sda", DeviceClass::Flash, Some("a"), None),
            disk("sdb", DeviceClass::Flash, Some("b"), None),
            over("dm-0", &["sda"], None),
            over("dm-1", &["sda", "sdb"], Some(crate::RaidLevel::Raid0)),
        ]);
        let ceiling = |key: &str| Ceiling { key: key.into(), ..Ceiling::default() };
        let found = ceilings_for_topology(Some(&topology), &[ceiling("uuid:dm-0@h"), ceiling("uuid:dm-1@h")]);
        let names: Vec<_> = found.iter().map(|c| (c.device.as_str(), c.is_firm())).collect();
        assert_eq!(names, [("dm-0", true), ("dm-1", true), ("sda", false)]);
        // the disk's own ceiling takes precedence over an inherited one
        let found = ceilings_for_topology(Some(&topology), &[ceiling("uuid:dm-0@h"), ceiling("serial:M:a")]);
        assert!(found.iter().find(|c| c.device == "sda").unwrap().is_firm());
    }
}
