//! Devices of a log that count: the devices that programs use, so that each I/O counts once. Arrays represent their
//! members, leaves themselves, and partitions on the same disks as those of an array count too.

use diskwright_base::counter_ids::logical_disk;
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::{Catalogue, CounterPlan, DeviceClass, DeviceKind, RaidLevel, Schema, Topology};

use super::space::FilesystemSpace;

/// A device that programs use, with the instances from which its load is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FrontDevice {
    pub name: String,
    /// `physical_disk`, or `logical_disk`: for partitions, and if nothing else is recorded.
    pub object: &'static str,
    /// The device itself, or its members if it is not measured.
    pub instances: Vec<String>,
    pub from_members: bool,
    pub level: Option<RaidLevel>,
    pub members: usize,
    pub leaves: Vec<String>,
}

/// Devices of a schema that are summed.
pub(super) struct LogDevices {
    pub fronts: Vec<FrontDevice>,
    /// Devices in memory: swapping to them is not a load on disks.
    pub in_memory: Vec<String>,
    /// Filesystems, one per device, with the devices that hold them; their sizes are not known yet.
    pub filesystems: Vec<FilesystemSpace>,
    pub notes: Vec<String>,
}

/// Devices that were not selected, and selected ones that count elsewhere.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LeftOutDevices {
    pub names: Vec<String>,
    /// Selected names whose load is part of another selected device, with a note about each.
    pub nested: Vec<(String, String)>,
}

impl LogDevices {
    /// Keeps the devices with these names, arrays also by the names of their disks, and the filesystems on them.
    /// Devices on disks (partitions, volumes, loop devices) count if they are named, but not in addition to the device
    /// under them.
    pub fn keep_devices(&mut self, only: &[String], schema: &Schema, topology: Option<&Topology>) -> LeftOutDevices {
        let is_selected = |front: &FrontDevice| only.iter().any(|name| front.has_name(name));
        let (kept, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.fronts).into_iter().partition(is_selected);
        self.fronts = kept;
        let mut left_out = LeftOutDevices::default();
        if let Some(topology) = topology {
            let stacked = self.stacked_names(only, schema);
            let disks = self.fronts.clone();
            for name in &stacked {
                let is_on = |lower: &&String| lies_under(topology, name, lower, 0);
                // if nothing is known about a partition, its name shows its disk
                let disk_name = disk_of_partition(name).filter(|_| topology.find_device(name).is_none());
                let is_named_after = |front: &FrontDevice| disk_name.as_ref() == Some(&front.name);
                let hosts = |front: &&FrontDevice| front.shares_requests_with(name, topology) || is_named_after(front);
                let disk = disks.iter().find(hosts).map(|front| &front.name);
                match disk.or_else(|| stacked.iter().find(is_on)) {
                    Some(host) => left_out.nested.push((name.clone(), self.note_on_host_device(name, host, topology))),
                    None => self.fronts.push(FrontDevice {
                        level: topology.find_device(name).and_then(|device| device.level),
                        ..single_disk(name, Some(topology), counting_object(schema, name).unwrap_or(PHYSICAL_DISK))
                    }),
                }
            }
        }
        place_filesystems(&mut self.filesystems, &self.fronts, topology);
        for filesystem in self.filesystems.iter_mut().filter(|filesystem| filesystem.fronts.is_empty()) {
            let because = filesystem.device.as_ref().map_or("its disk is unknown", |_| "on another disk (--device)");
            filesystem.because = Some(because);
        }
        self.notes.retain(|note| !others.iter().any(|other| note.starts_with(&format!("{}:", other.name))));
        left_out.names = others.into_iter().map(|front| front.name).collect();
        left_out
    }

    /// Selected names of measured devices that stand on others, each once.
    fn stacked_names(&self, only: &[String], schema: &Schema) -> Vec<String> {
        let is_measured = |name: &&String| counting_object(schema, name).is_some() && !self.in_memory.contains(name);
        let mut stacked: Vec<String> = Vec::new();
        for name in only.iter().filter(is_measured) {
            if !stacked.contains(name) && !self.fronts.iter().any(|front| front.has_name(name)) {
                stacked.push(name.clone());
            }
        }
        stacked
    }

    /// Note about a device that counts at another one.
    fn note_on_host_device(&self, name: &str, host: &str, topology: &Topology) -> String {
        let leaves = topology.disks_under(name);
        let is_named = |leaf: &str| {
            self.fronts.iter().any(|front| front.has_name(leaf)) || topology.disks_under(host).contains(&leaf)
        };
        let elsewhere: Vec<&str> = leaves.into_iter().filter(|leaf| !is_named(leaf)).collect();
        let also = match elsewhere.is_empty() {
            true => String::new(),
            false => format!("; its load on {} is not counted", elsewhere.join(", ")),
        };
        format!(
            "{name}: its load is part of that of {host}, which is named too, and counts there, once{also} (--device)"
        )
    }

    /// True if swapping is not part of the devices' load. If the device of swap areas is unknown, swapping is part of
    /// the load of all disks, but not of a selection.
    pub fn swaps_elsewhere(&self, topology: Option<&Topology>, is_selection: bool) -> bool {
        match self.fronts.iter().filter_map(|front| front.holds_swap(topology)).max() {
            Some(holds_swap) => !holds_swap,
            None => is_selection,
        }
    }
}

impl FrontDevice {
    fn has_name(&self, name: &str) -> bool {
        self.name == name || self.leaves.iter().any(|leaf| leaf == name)
    }

    /// True if this device serves data on `device`.
    fn serves_device(&self, device: &str, topology: Option<&Topology>) -> bool {
        serves_device((&self.name, &self.leaves), self.counts_all_disk_requests(), device, topology)
    }

    /// True if a swap area lies on this device; `None` if the device of an area is unknown, or there is no area.
    pub fn holds_swap(&self, topology: Option<&Topology>) -> Option<bool> {
        let class = |name: &str| topology?.find_device(name).map(|device| device.class);
        let areas = topology?.swaps.iter().map(|swap| swap.device.as_str());
        let areas: Vec<&str> = areas.filter(|name| class(name) != Some(DeviceClass::Memory)).collect();
        if areas.iter().any(|device| !device.is_empty() && self.serves_device(device, topology)) {
            return Some(true);
        }
        let is_unknown = areas.is_empty() || areas.contains(&"");
        (!is_unknown).then_some(false)
    }

    /// True if all requests to the disks of this device count here.
    pub fn counts_all_disk_requests(&self) -> bool {
        self.instances.iter().all(|own| self.leaves.contains(own))
    }

    /// True if requests of the device with this name are measured here too: it is the measured device, stands on it, or
    /// lies under it.
    fn shares_requests_with(&self, name: &str, topology: &Topology) -> bool {
        self.instances
            .iter()
            .any(|own| own == name || lies_under(topology, name, own, 0) || lies_under(topology, own, name, 0))
    }
}

/// True if a device of the load, by its name and the disks below it, serves data on `device`. If all requests to its
/// disks count at it, it serves all data on them. A measured array serves the devices that stand on it, but not other
/// data on its disks.
pub(super) fn serves_device(
    (name, leaves): (&str, &[String]),
    counts_all_disk_requests: bool,
    device: &str,
    topology: Option<&Topology>,
) -> bool {
    let has_name = |other: &str| name == other || leaves.iter().any(|leaf| leaf == other);
    let on_disk = |t: &Topology| t.disks_under(device).iter().any(|leaf| has_name(leaf));
    let on_it = |t: &Topology| lies_under(t, device, name, 0) || counts_all_disk_requests && on_disk(t);
    name == device || counts_all_disk_requests && has_name(device) || topology.is_some_and(on_it)
}

/// Object of whole devices.
const PHYSICAL_DISK: &str = "physical_disk";
/// Object of partitions and volumes.
const LOGICAL_DISK: &str = "logical_disk";

/// Returns the object that counts the requests of a device.
fn counting_object(schema: &Schema, name: &str) -> Option<&'static str> {
    match schema.instances(PHYSICAL_DISK).contains(&name) {
        true => Some(PHYSICAL_DISK),
        false => counts_requests(schema, name).then_some(LOGICAL_DISK),
    }
}

/// Finds the devices of a schema that count.
pub(super) fn find_front_devices(schema: &Schema, topology: Option<&Topology>) -> LogDevices {
    let mut object = PHYSICAL_DISK;
    let mut disks = diskwright_diagnosis::physical_disks(schema, topology);
    if disks.is_empty() {
        object = LOGICAL_DISK;
        disks = schema.instances(object).into_iter().filter(|i| counts_requests(schema, i)).collect();
        let single: Vec<&str> = disks.iter().copied().filter(|i| !i.eq_ignore_ascii_case("_total")).collect();
        disks = if single.is_empty() { disks } else { single };
    }
    let is_recorded = |name: &str| schema.instances(PHYSICAL_DISK).contains(&name);
    let mut notes = Vec::new();
    let mut fronts: Vec<FrontDevice> = Vec::new();
    let mut covered: Vec<String> = Vec::new();
    for set in topology.into_iter().flat_map(top_arrays) {
        let (Some(topology), Some(device)) = (topology, topology.and_then(|t| t.find_device(set))) else { continue };
        let leaves = topology.disks_under(set);
        let known: Vec<String> = leaves.iter().filter(|l| disks.contains(l)).map(|l| (*l).to_owned()).collect();
        let is_measured = is_recorded(set);
        if !is_measured && known.is_empty() {
            continue;
        }
        if !is_measured && known.len() < leaves.len() {
            notes.push(format!("{set}: the log has only {} of its {} disks", known.len(), leaves.len()));
        }
        covered.extend(known.iter().cloned());
        let (object, instances) = match (is_measured, stands_on_partitions(device, schema, topology)) {
            (true, _) => (PHYSICAL_DISK, vec![set.to_owned()]),
            (false, true) => (LOGICAL_DISK, device.below.clone()),
            (false, false) => (object, known.clone()),
        };
        fronts.push(FrontDevice {
            name: set.to_owned(),
            object,
            instances,
            from_members: !is_measured,
            level: device.level,
            members: topology.spindle_count(set),
            leaves: known,
        });
    }
    let single_disks = disks.iter().filter(|disk| !covered.iter().any(|c| c == *disk));
    fronts.extend(single_disks.map(|disk| single_disk(disk, topology, object)));
    let leftovers = topology.map_or(Vec::new(), |topology| leftover_partitions(&fronts, schema, topology));
    fronts.extend(leftovers);
    notes.extend(
        fronts
            .iter()
            .filter(|f| f.from_members && f.counts_all_disk_requests())
            .flat_map(|f| shared_members_note(f, topology)),
    );
    let is_memory = |name: &&str| {
        let class = topology.and_then(|t| t.find_device(name)).map(|d| d.class);
        class == Some(DeviceClass::Memory) || (class.is_none() && name.starts_with("zram"))
    };
    let in_memory = schema.instances(PHYSICAL_DISK).into_iter().filter(is_memory).map(str::to_owned).collect();
    let mut filesystems = distinct_filesystems(schema, topology);
    place_filesystems(&mut filesystems, &fronts, topology);
    LogDevices { fronts, in_memory, filesystems, notes }
}

fn counts_requests(schema: &Schema, instance: &str) -> bool {
    let names = [logical_disk::READS, logical_disk::READS_PER_S, logical_disk::TRANSFERS_PER_S];
    names.iter().any(|name| schema.column(name, instance).is_some())
}

/// True if the members of an array are measured partitions: other load on their disks is then not part of it.
fn stands_on_partitions(array: &diskwright_base::Device, schema: &Schema, topology: &Topology) -> bool {
    let is_measured = |name: &String| {
        let kind = topology.find_device(name).map(|device| device.kind);
        kind == Some(DeviceKind::Partition) && counting_object(schema, name) == Some(LOGICAL_DISK)
    };
    !array.below.is_empty() && array.below.iter().all(is_measured)
}

/// Partitions of disks that otherwise only count as arrays on other partitions of them: nothing else has their load.
fn leftover_partitions(fronts: &[FrontDevice], schema: &Schema, topology: &Topology) -> Vec<FrontDevice> {
    let is_path = |disk: &String| {
        topology.devices.iter().any(|node| node.kind == DeviceKind::Multipath && node.below.contains(disk))
    };
    let is_leftover = |device: &&diskwright_base::Device| {
        let is_part = device.kind == DeviceKind::Partition && device.class != DeviceClass::Memory;
        // a disk with several paths is used through its multipath node
        is_part
            && !device.below.iter().any(is_path)
            && !fronts.iter().any(|front| front.shares_requests_with(&device.name, topology))
    };
    let found = topology.devices.iter().filter(is_leftover);
    found
        .filter_map(|part| Some(single_disk(&part.name, Some(topology), counting_object(schema, &part.name)?)))
        .collect()
}

/// A single disk; its hidden members are those of a hardware array.
fn single_disk(disk: &str, topology: Option<&Topology>, object: &'static str) -> FrontDevice {
    let device = topology.and_then(|t| t.find_device(disk));
    FrontDevice {
        name: disk.to_owned(),
        object,
        instances: vec![disk.to_owned()],
        from_members: false,
        level: device.and_then(|d| d.level),
        members: topology.map_or(1, |t| t.spindle_count(disk)),
        leaves: vec![disk.to_owned()],
    }
}

/// Arrays on devices, without arrays that other arrays stand on.
fn top_arrays(topology: &Topology) -> Vec<&str> {
    let is_set = |d: &&diskwright_base::Device| d.level.is_some() && !d.below.is_empty();
    let sets: Vec<&diskwright_base::Device> = topology.devices.iter().filter(is_set).collect();
    let is_below =
        |name: &str, over: &diskwright_base::Device| over.name != name && lies_under(topology, &over.name, name, 0);
    sets.iter().filter(|set| !sets.iter().any(|over| is_below(&set.name, over))).map(|set| set.name.as_str()).collect()
}

/// True if `name` lies somewhere under `from`. Depth is bounded, because a topology may be user input.
fn lies_under(topology: &Topology, from: &str, name: &str, depth: u8) -> bool {
    let below = topology.find_device(from).map_or(&[][..], |d| d.below.as_slice());
    depth < 16 && below.iter().any(|b| b == name || lies_under(topology, b, name, depth + 1))
}

/// Note about members that are larger than the array: other load on them is included in the array's.
fn shared_members_note(front: &FrontDevice, topology: Option<&Topology>) -> Option<String> {
    let topology = topology?;
    let on_disk = |device: &str| topology.disks_under(device).iter().any(|leaf| front.leaves.iter().any(|l| l == leaf));
    let other = topology.filesystems.iter().find(|f| {
        !f.device.is_empty()
            && f.device != front.name
            && topology.find_device(&f.device).is_some()
            && on_disk(&f.device)
            && !lies_under(topology, &f.device, &front.name, 0)
    })?;
    let (name, mount) = (&front.name, &other.mount);
    Some(format!("{name}: its disks also hold {mount}; the load of both is counted as the array's"))
}

/// Finds the devices of the load that hold each filesystem. One on a known device that is none of them does not count.
fn place_filesystems(filesystems: &mut [FilesystemSpace], fronts: &[FrontDevice], topology: Option<&Topology>) {
    for filesystem in filesystems {
        let Some(device) = &filesystem.device else { continue };
        let holders = fronts.iter().filter(|front| front.serves_device(device, topology));
        filesystem.fronts = holders.map(|front| front.name.clone()).collect();
        let is_elsewhere = filesystem.fronts.is_empty() && topology.is_some_and(|t| t.find_device(device).is_some());
        filesystem.because = is_elsewhere.then_some("on none of the disks of this load");
    }
}

/// Returns one mount per device, so that a filesystem mounted twice counts once.
fn distinct_filesystems(schema: &Schema, topology: Option<&Topology>) -> Vec<FilesystemSpace> {
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    // a partition that is counted is a logical disk, too, by its own name and without the filesystem's space
    let has_space = |mount: &str| {
        let catalogue = Catalogue::builtin();
        CounterPlan::resolve_counter(catalogue, schema, logical_disk::TOTAL_BYTES, mount).is_some()
    };
    let mounts = schema.instances("logical_disk").into_iter().filter(|i| !i.eq_ignore_ascii_case("_total"));
    for mount in mounts.filter(|mount| has_space(mount)) {
        let device = topology.and_then(|t| t.filesystems.iter().find(|f| f.mount == mount)).map(|f| f.device.as_str());
        let is_in_memory = device
            .is_some_and(|d| topology.and_then(|t| t.find_device(d)).is_some_and(|d| d.class == DeviceClass::Memory));
        let device = device.filter(|device| !device.is_empty());
        let key = device.unwrap_or(mount);
        if !is_in_memory && !seen.contains(&key) {
            seen.push(key);
            let (mount, device) = (mount.to_owned(), device.map(str::to_owned));
            found.push(FilesystemSpace { mount, device, ..FilesystemSpace::default() });
        }
    }
    found
}
