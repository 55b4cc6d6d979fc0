//! Which devices of a log count: those that programs ask, each I/O once. Arrays
//! stand for their members, leaves for themselves.

use diskwright_base::{DeviceClass, RaidLevel, Schema, Topology};

/// A device that programs ask, by the instances that its load is computed from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FrontDevice {
    pub name: String,
    /// Itself; its members, where it is not measured.
    pub instances: Vec<String>,
    pub inverted: bool,
    pub level: Option<RaidLevel>,
    pub members: usize,
    pub leaves: Vec<String>,
}

/// What of a schema is summed.
pub(super) struct LogDevices {
    /// `physical_disk`, or `logical_disk` where that is all there is.
    pub object: &'static str,
    pub fronts: Vec<FrontDevice>,
    /// Devices in memory: swapping to them is no disk's load.
    pub in_memory: Vec<String>,
    /// Filesystems, one for each device.
    pub filesystems: Vec<String>,
    pub notes: Vec<String>,
}

impl LogDevices {
    /// Keeps the devices of these names, arrays by those of their disks too, and the filesystems on them.
    /// Returns the names of the others.
    pub fn keep(&mut self, only: &[String], topology: Option<&Topology>) -> Vec<String> {
        let is_asked = |front: &FrontDevice| only.iter().any(|name| front.is(name));
        let (kept, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.fronts).into_iter().partition(is_asked);
        self.fronts = kept;
        let fronts = &self.fronts;
        self.filesystems.retain(|mount| {
            let device = topology.and_then(|t| t.filesystems.iter().find(|f| f.mount == *mount)).map(|f| &f.device);
            device.is_some_and(|device| fronts.iter().any(|front| front.carries(device, topology)))
        });
        self.notes.retain(|note| !others.iter().any(|other| note.starts_with(&format!("{}:", other.name))));
        others.into_iter().map(|front| front.name).collect()
    }

    /// Whether a swap area lies on one of the devices.
    pub fn holds_swap(&self, topology: Option<&Topology>) -> bool {
        let mut swaps = topology.into_iter().flat_map(|t| &t.swaps);
        swaps.any(|swap| self.fronts.iter().any(|front| front.carries(&swap.device, topology)))
    }
}

impl FrontDevice {
    fn is(&self, name: &str) -> bool {
        self.name == name || self.leaves.iter().any(|leaf| leaf == name)
    }

    /// Whether what lies on `device` is served by this one.
    fn carries(&self, device: &str, topology: Option<&Topology>) -> bool {
        self.is(device) || topology.is_some_and(|t| t.leaves(device).iter().any(|leaf| self.is(leaf)))
    }
}

pub(super) fn find(schema: &Schema, topology: Option<&Topology>) -> LogDevices {
    let mut object = "physical_disk";
    let mut disks = diskwright_diagnosis::disks(schema, topology);
    if disks.is_empty() {
        object = "logical_disk";
        disks = schema.instances(object).into_iter().filter(|i| counts_requests(schema, i)).collect();
        let single: Vec<&str> = disks.iter().copied().filter(|i| !i.eq_ignore_ascii_case("_total")).collect();
        disks = if single.is_empty() { disks } else { single };
    }
    let measured = |name: &str| schema.instances("physical_disk").contains(&name);
    let mut notes = Vec::new();
    let mut fronts: Vec<FrontDevice> = Vec::new();
    let mut covered: Vec<String> = Vec::new();
    for set in topology.into_iter().flat_map(top_sets) {
        let (Some(topology), Some(device)) = (topology, topology.and_then(|t| t.device(set))) else { continue };
        let leaves = topology.leaves(set);
        let known: Vec<String> = leaves.iter().filter(|l| disks.contains(l)).map(|l| (*l).to_owned()).collect();
        let is_measured = measured(set);
        if !is_measured && known.is_empty() {
            continue;
        }
        if !is_measured && known.len() < leaves.len() {
            notes.push(format!("{set}: only {} of its {} disks are in the log", known.len(), leaves.len()));
        }
        covered.extend(known.iter().cloned());
        fronts.push(FrontDevice {
            name: set.to_owned(),
            instances: if is_measured { vec![set.to_owned()] } else { known.clone() },
            inverted: !is_measured,
            level: device.level,
            members: topology.spindles(set),
            leaves: known,
        });
    }
    let alone = disks.iter().filter(|disk| !covered.iter().any(|c| c == *disk));
    fronts.extend(alone.map(|disk| lone(disk, topology)));
    notes.extend(fronts.iter().filter(|f| f.inverted).flat_map(|f| shared(f, topology)));
    let memory = |name: &&str| {
        let class = topology.and_then(|t| t.device(name)).map(|d| d.class);
        class == Some(DeviceClass::Memory) || (class.is_none() && name.starts_with("zram"))
    };
    let in_memory = schema.instances("physical_disk").into_iter().filter(memory).map(str::to_owned).collect();
    LogDevices { object, fronts, in_memory, filesystems: filesystems(schema, topology), notes }
}

fn counts_requests(schema: &Schema, instance: &str) -> bool {
    let names = ["logical_disk.reads", "logical_disk.reads_per_s", "logical_disk.transfers_per_s"];
    names.iter().any(|name| schema.column(name, instance).is_some())
}

/// A disk by itself: hidden members are those of a hardware array.
fn lone(disk: &str, topology: Option<&Topology>) -> FrontDevice {
    let device = topology.and_then(|t| t.device(disk));
    FrontDevice {
        name: disk.to_owned(),
        instances: vec![disk.to_owned()],
        inverted: false,
        level: device.and_then(|d| d.level),
        members: topology.map_or(1, |t| t.spindles(disk)),
        leaves: vec![disk.to_owned()],
    }
}

/// Arrays that stand on devices, without those that other arrays stand on.
fn top_sets(topology: &Topology) -> Vec<&str> {
    let is_set = |d: &&diskwright_base::Device| d.level.is_some() && !d.below.is_empty();
    let sets: Vec<&diskwright_base::Device> = topology.devices.iter().filter(is_set).collect();
    let under =
        |name: &str, over: &diskwright_base::Device| over.name != name && reaches(topology, &over.name, name, 0);
    sets.iter().filter(|set| !sets.iter().any(|over| under(&set.name, over))).map(|set| set.name.as_str()).collect()
}

/// Whether `name` lies somewhere under `from`. Depth is bounded, because a topology is somebody's text.
fn reaches(topology: &Topology, from: &str, name: &str, depth: u8) -> bool {
    let below = topology.device(from).map_or(&[][..], |d| d.below.as_slice());
    depth < 16 && below.iter().any(|b| b == name || reaches(topology, b, name, depth + 1))
}

/// Members that hold more than the array: what else they do is in its load.
fn shared(front: &FrontDevice, topology: Option<&Topology>) -> Option<String> {
    let topology = topology?;
    let on_disk = |device: &str| topology.leaves(device).iter().any(|leaf| front.leaves.iter().any(|l| l == leaf));
    let other = topology.filesystems.iter().find(|f| {
        !f.device.is_empty()
            && f.device != front.name
            && topology.device(&f.device).is_some()
            && on_disk(&f.device)
            && !reaches(topology, &f.device, &front.name, 0)
    })?;
    let (name, mount) = (&front.name, &other.mount);
    Some(format!("{name}: its disks also hold {mount}; the load of both is counted as the array's"))
}

/// One mount for each device, so that a filesystem mounted twice counts once.
fn filesystems(schema: &Schema, topology: Option<&Topology>) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    let all = schema.instances("logical_disk").into_iter().filter(|i| !i.eq_ignore_ascii_case("_total"));
    for mount in all {
        let device = topology.and_then(|t| t.filesystems.iter().find(|f| f.mount == mount)).map(|f| f.device.as_str());
        let in_memory =
            device.is_some_and(|d| topology.and_then(|t| t.device(d)).is_some_and(|d| d.class == DeviceClass::Memory));
        let key = device.filter(|d| !d.is_empty()).unwrap_or(mount);
        if !in_memory && !seen.contains(&key) {
            seen.push(key);
            found.push(mount.to_owned());
        }
    }
    found
}
