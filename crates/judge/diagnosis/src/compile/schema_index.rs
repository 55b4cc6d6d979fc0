//! Index of the instances of a schema and of how devices stack on each other. Built once for a schema and topology, not
//! for each tick.

use std::collections::{HashMap, HashSet};

use diskwright_base::catalogue::OverInstances;
use diskwright_base::diskstats::{nvme_disk_counts_paths, parse_nvme_path};
use diskwright_base::{Catalogue, Ceiling, CounterPlan, Device, DeviceClass, DeviceKind, Schema, Topology};

/// The instances of a schema with their positions in the topology.
pub(crate) struct SchemaIndex<'a> {
    pub topology: Option<&'a Topology>,
    pub ceilings: &'a [Ceiling],
    instances: HashMap<&'a str, Vec<&'a str>>,
    devices: HashMap<&'a str, &'a Device>,
    /// See [`SchemaIndex::disks`].
    disks: Vec<&'a str>,
    /// Arrays with their members.
    arrays: Vec<(&'a str, Vec<&'a str>)>,
    /// Paths of measured multipath nodes, each with its node, which counts the requests of all its paths.
    paths: Vec<(&'a str, &'a str)>,
    /// The series of each instance, with their columns in the whole schema.
    series_by_instance: HashMap<&'a str, (Schema, Vec<usize>)>,
    /// Devices of filesystems, by mount point.
    devices_of_mounts: HashMap<&'a str, &'a str>,
    /// The shape of each instance of which nothing else is known; see [`SchemaIndex::instance_shape`].
    shapes: HashMap<&'a str, usize>,
    shape_count: usize,
    /// See [`SchemaIndex::memory_disks`].
    memory_disks: Vec<&'a str>,
    /// NVMe disks of which the log has paths: whether any is unknown to the topology, and whether any is known.
    nvme_heads: HashMap<String, [bool; 2]>,
    /// True for another tool's log, in which only the topology tells a single disk from an array.
    hides_spindles: bool,
}

/// True for the name that logs give to the total over instances.
fn is_total_instance(instance: &str) -> bool {
    instance.eq_ignore_ascii_case("_total")
}

impl<'a> SchemaIndex<'a> {
    /// Builds the index.
    pub fn new(schema: &'a Schema, topology: Option<&'a Topology>, ceilings: &'a [Ceiling]) -> SchemaIndex<'a> {
        let mut instances: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut parts: HashMap<&str, (Schema, Vec<usize>)> = HashMap::new();
        for (column, series) in schema.series.iter().enumerate() {
            let object = series.counter.split_once('.').map_or("", |(object, _)| object);
            let (part, columns) = parts.entry(&series.instance).or_default();
            // an instance is new to its object where its part has no series of the object yet
            let prefix = |s: &&diskwright_base::Series| s.counter.split_once('.').is_some_and(|(o, _)| o == object);
            if !part.series.iter().rev().any(|s| prefix(&s)) {
                instances.entry(object).or_default().push(&series.instance);
            }
            part.series.push(series.clone());
            columns.push(column);
        }
        let devices = topology.iter().flat_map(|t| &t.devices).map(|d| (d.name.as_str(), d)).collect();
        let mut schema_index = SchemaIndex {
            topology,
            ceilings,
            instances,
            devices,
            disks: Vec::new(),
            arrays: Vec::new(),
            paths: Vec::new(),
            devices_of_mounts: HashMap::new(),
            shapes: HashMap::new(),
            shape_count: 0,
            memory_disks: Vec::new(),
            nvme_heads: HashMap::new(),
            series_by_instance: parts,
            hides_spindles: false,
        };
        for filesystem in topology.iter().flat_map(|t| &t.filesystems) {
            schema_index.devices_of_mounts.entry(&filesystem.mount).or_insert(&filesystem.device);
        }
        (schema_index.shapes, schema_index.shape_count) = schema_index.find_shapes(schema);
        schema_index.nvme_heads = schema_index.find_nvme_heads();
        let is_memory = |d: &&str| schema_index.device_class(d) == DeviceClass::Memory;
        schema_index.memory_disks = schema_index.instances("physical_disk").iter().copied().filter(is_memory).collect();
        schema_index.paths = schema_index.find_paths();
        schema_index.disks = schema_index.find_disks();
        schema_index.arrays = schema_index.find_arrays();
        schema_index
    }

    /// Number of the set of counters that an instance has. Instances of a shape are judged by the same rules: nothing
    /// else is known of them. `None` where topology or ceilings tell more than the instance's name.
    pub fn instance_shape(&self, instance: &str) -> Option<usize> {
        self.shapes.get(instance).copied()
    }

    /// Number of shapes.
    pub fn shape_count(&self) -> usize {
        self.shape_count
    }

    /// The shapes of instances, and how many there are.
    fn find_shapes(&self, schema: &'a Schema) -> (HashMap<&'a str, usize>, usize) {
        let mut special: HashSet<&str> = self.ceilings.iter().map(|c| c.device.as_str()).collect();
        if let Some(topology) = self.topology {
            let has_facts = |d: &&Device| **d != Device { name: d.name.clone(), ..Device::default() };
            special.extend(topology.devices.iter().filter(has_facts).map(|d| d.name.as_str()));
            special.extend(topology.devices.iter().flat_map(|d| &d.below).map(String::as_str));
            special.extend(topology.filesystems.iter().map(|f| f.mount.as_str()));
            special.extend(topology.swaps.iter().map(|s| s.device.as_str()));
        }
        let mut numbers: HashMap<(bool, Vec<&str>), usize> = HashMap::new();
        let mut shapes = HashMap::new();
        for (instance, (_, columns)) in &self.series_by_instance {
            if !special.contains(instance) {
                let counters = columns.iter().map(|column| schema.series[*column].counter.as_str()).collect();
                let next = numbers.len();
                let key = (self.find_device(instance).is_some(), counters);
                shapes.insert(*instance, *numbers.entry(key).or_insert(next));
            }
        }
        (shapes, numbers.len())
    }

    /// Sets whether the log is another tool's, which does not show the disks behind a controller.
    pub fn with_hidden_spindles(mut self, hides: bool) -> SchemaIndex<'a> {
        self.hides_spindles = hides;
        self
    }

    /// True where some disk may be an array and the log does not show it.
    pub fn hides_spindles(&self) -> bool {
        self.disks.iter().any(|disk| self.spindle_count(disk).is_none())
    }

    /// All instances of an object, in the schema's order.
    pub fn instances(&self, object: &str) -> &[&'a str] {
        self.instances.get(object).map_or(&[], Vec::as_slice)
    }

    /// True where any series is about this instance.
    pub fn has_instance(&self, instance: &str) -> bool {
        self.series_by_instance.contains_key(instance)
    }

    /// Plan for computing a counter of an instance; `None` where the schema lacks a series for it.
    pub fn plan_counter(&self, counter: &str, instance: &str) -> Option<CounterPlan> {
        let (part, columns) = self.series_by_instance.get(instance)?;
        Some(
            CounterPlan::resolve_counter(Catalogue::builtin(), part, counter, instance)?
                .with_columns_renumbered(columns),
        )
    }

    /// Instances to judge one by one: without the log's total, unless there is nothing else.
    pub fn single_instances(&self, object: &str) -> Vec<&'a str> {
        let instances = self.instances(object);
        let single: Vec<&str> = instances.iter().copied().filter(|i| !is_total_instance(i)).collect();
        if single.is_empty() { instances.to_vec() } else { single }
    }

    /// The log's total over an object's instances.
    pub fn own_total(&self, object: &str) -> Option<&'a str> {
        self.instances(object).iter().copied().find(|i| is_total_instance(i))
    }

    /// A device of the topology.
    pub fn find_device(&self, name: &str) -> Option<&'a Device> {
        self.devices.get(name).copied()
    }

    /// True where no measured device lies below this one.
    pub fn is_leaf(&self, name: &str) -> bool {
        match self.find_device(name) {
            Some(device) => {
                let is_disk = device.below.is_empty() || device.kind == DeviceKind::Multipath;
                let is_path = self.multipath_node(name).is_some();
                is_disk && device.kind != DeviceKind::Partition && !is_path && !self.has_paths(name)
            }
            None => !self.looks_stacked(name),
        }
    }

    /// True where a node counts the requests of paths.
    pub fn has_multipath_nodes(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The multipath node of this path, where the node counts the path's requests.
    pub fn multipath_node(&self, path: &str) -> Option<&'a str> {
        self.paths.iter().find(|(known, _)| *known == path).map(|(_, node)| *node)
    }

    fn find_paths(&self) -> Vec<(&'a str, &'a str)> {
        let devices = self.topology.map_or(&[][..], |topology| topology.devices.as_slice());
        let is_node = |d: &&Device| d.kind == DeviceKind::Multipath && self.is_measured(&d.name);
        let paths = |d: &'a Device| d.below.iter().map(move |path| (path.as_str(), d.name.as_str()));
        devices.iter().filter(is_node).flat_map(paths).collect()
    }

    /// True for a name of a stacked device: a log without a topology still names devices after their drivers.
    fn looks_stacked(&self, name: &str) -> bool {
        let is_numbered = |prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let is_partition = || {
            let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let disk = match disk.strip_suffix('p') {
                Some(whole_disk) if whole_disk.ends_with(|c: char| c.is_ascii_digit()) => whole_disk,
                _ => disk,
            };
            disk != name && !disk.is_empty() && self.is_measured(disk)
        };
        ["md", "dm-", "loop"].into_iter().any(is_numbered)
            || is_partition()
            || self.has_paths(name)
            || self.is_counted_at_disk(name)
    }

    /// True for a path of an NVMe disk that an older version of our recorder recorded in addition to the disk, where
    /// the disk counts the same requests itself.
    fn is_counted_at_disk(&self, name: &str) -> bool {
        let kernel = self.topology.map_or("", |topology| topology.kernel.as_str());
        let is_known = |(head, _): (String, String)| self.find_device(&head).is_some() && self.is_measured(&head);
        nvme_disk_counts_paths(kernel) == Some(true) && parse_nvme_path(name).is_some_and(is_known)
    }

    /// True for an NVMe disk whose paths (`nvme0c1n1` of `nvme0n1`) are measured too: the paths always count its
    /// requests, the disk itself only on some kernels.
    fn has_paths(&self, name: &str) -> bool {
        // our recorder knows the disk and leaves its paths out
        let is_known = self.find_device(name).is_some();
        self.nvme_heads.get(name).is_some_and(|has| has[usize::from(is_known)])
    }

    fn find_nvme_heads(&self) -> HashMap<String, [bool; 2]> {
        let mut heads: HashMap<String, [bool; 2]> = HashMap::new();
        for path in self.instances("physical_disk").iter().filter(|name| name.starts_with("nvme")) {
            if let Some((head, _)) = parse_nvme_path(path) {
                heads.entry(head).or_default()[usize::from(self.find_device(path).is_some())] = true;
            }
        }
        heads
    }

    /// Class of a device.
    pub fn device_class(&self, name: &str) -> DeviceClass {
        match self.find_device(name) {
            Some(device) => device.class,
            None if name.starts_with("zram") || name.starts_with("ram") => DeviceClass::Memory,
            None => DeviceClass::Unknown,
        }
    }

    /// The machine's measured disks: leaves that are not memory, each once.
    pub fn disks(&self) -> &[&'a str] {
        &self.disks
    }

    /// Measured disks that are memory, such as zram.
    pub fn memory_disks(&self) -> &[&'a str] {
        &self.memory_disks
    }

    fn find_disks(&self) -> Vec<&'a str> {
        let singles = self.single_instances("physical_disk");
        let leaves = singles.iter().copied().filter(|d| self.is_leaf(d) && self.device_class(d) != DeviceClass::Memory);
        let leaves: Vec<&str> = leaves.collect();
        // a log that has only stacked devices: they stand for the disks
        if leaves.is_empty() {
            singles.into_iter().filter(|d| self.device_class(d) != DeviceClass::Memory).collect()
        } else {
            leaves
        }
    }

    /// Arrays of at least two known members, of which any is measured.
    pub fn array_names(&self) -> impl Iterator<Item = &'a str> {
        self.arrays.iter().map(|(array, _)| *array)
    }

    fn find_arrays(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let Some(topology) = self.topology else { return Vec::new() };
        let is_array = |d: &&Device| d.level.is_some() && topology.spindle_count(&d.name) > 1;
        let found = topology.devices.iter().filter(is_array).map(|d| (d.name.as_str(), self.find_members(&d.name)));
        found.filter(|(array, members)| !members.is_empty() || self.is_measured(array)).collect()
    }

    fn is_measured(&self, device: &str) -> bool {
        let series = self.series_by_instance.get(device).map_or(&[][..], |(part, _)| part.series.as_slice());
        series.iter().any(|s| s.counter.starts_with("physical_disk."))
    }

    /// The measured leaves under a device; the device itself, if it is one.
    pub fn measured_members(&self, name: &'a str) -> Vec<&'a str> {
        match self.arrays.iter().find(|(array, _)| *array == name) {
            Some((_, members)) => members.clone(),
            None => self.find_members(name),
        }
    }

    fn find_members(&self, name: &'a str) -> Vec<&'a str> {
        if self.find_device(name).is_none_or(|d| d.below.is_empty()) {
            return if self.is_measured(name) { vec![name] } else { Vec::new() };
        }
        let disks = self.topology.map_or_else(Vec::new, |t| t.disks_under(name));
        // where a multipath node has no counters, its paths have them
        let measured_parts = |disk: &'a str| match self.topology {
            Some(topology) if !self.is_measured(disk) => topology.leaves_under(disk),
            _ => vec![disk],
        };
        let leaves: Vec<&str> = disks.into_iter().flat_map(measured_parts).collect();
        // in the schema's order
        self.instances("physical_disk").iter().copied().filter(|m| leaves.contains(m)).collect()
    }

    /// Number of disks under a device, measured or not, with the hidden members of an array. `None` where it is
    /// unknown: another tool's log does not tell a disk from an array of twenty, unless the user describes the array.
    pub fn spindle_count(&self, name: &str) -> Option<usize> {
        match (self.topology, self.find_device(name)) {
            (Some(topology), Some(d)) if !d.below.is_empty() || d.members.is_some() => {
                Some(topology.spindle_count(name))
            }
            _ if self.hides_spindles => None,
            _ => Some(1),
        }
    }

    /// Number of disks behind a drive letter: as declared for the letter, else as of its device. `None` where it is
    /// unknown.
    pub fn drive_spindle_count(&self, letter: &str) -> Option<usize> {
        match self.devices_of_mounts.get(letter) {
            Some(device) if self.find_device(letter).is_none() => self.spindle_count(device),
            _ => self.spindle_count(letter),
        }
    }

    /// Measured disks under an instance of any object (cgroup, filesystem, array).
    pub fn disks_below(&self, object: &str, instance: &'a str) -> Vec<&'a str> {
        let device = match object {
            "physical_disk" | "array" => instance,
            "cgroup" => match split_cgroup_device(instance) {
                Some((_, device)) => device,
                None => return Vec::new(),
            },
            "logical_disk" => self.devices_of_mounts.get(instance).copied().unwrap_or(instance),
            _ => return Vec::new(),
        };
        self.measured_members(device)
    }

    /// The largest array over a device.
    pub fn array_over(&self, name: &str) -> Option<&'a str> {
        let arrays = self.arrays.iter().filter(|(_, members)| members.len() > 1 && members.contains(&name));
        arrays.max_by_key(|(_, members)| members.len()).map(|(array, _)| *array)
    }

    /// Instances whose sum or mean stands for the whole object.
    pub fn representative_instances(&self, object: &str) -> Vec<&'a str> {
        let singles = self.single_instances(object);
        match object {
            "physical_disk" => self.disks.clone(),
            "processor" => self.own_total(object).map_or(singles, |total| vec![total]),
            "network" => singles.into_iter().filter(|i| *i != "lo").collect(),
            "cgroup" if singles.contains(&"/") => vec!["/"],
            _ => singles,
        }
    }
}

/// Splits an instance of a cgroup's I/O on a device, `path@device`, into path and device. Names of systemd units such
/// as `user@1000.service` contain `@` too, but no block device has a dot in its name.
pub(crate) fn split_cgroup_device(instance: &str) -> Option<(&str, &str)> {
    instance.rsplit_once('@').filter(|(_, device)| !device.contains('.'))
}

/// A cgroup's path, without the device that follows in I/O instances.
pub(crate) fn cgroup_path(instance: &str) -> &str {
    split_cgroup_device(instance).map_or(instance, |(path, _)| path)
}

/// True where a path of cgroups is another one, or lies below it.
pub(crate) fn is_in_cgroup(path: &str, upper: &str) -> bool {
    path.strip_prefix(upper.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Aggregation of a counter over instances, by the catalogue.
pub(crate) fn instance_aggregation(counter: &str) -> OverInstances {
    Catalogue::builtin().get(counter).map_or(OverInstances::None, |c| c.over_instances)
}

/// The machine's physical disks among the instances of a schema, each once: stacked devices and memory disks are left
/// out.
pub fn physical_disks<'a>(schema: &'a Schema, topology: Option<&'a Topology>) -> Vec<&'a str> {
    SchemaIndex::new(schema, topology, &[]).disks().to_vec()
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Filesystem, RaidLevel, Series};

    use super::*;

    fn schema(disks: &[&str]) -> Schema {
        let series =
            |disk: &&str| Series { counter: "physical_disk.reads".into(), instance: disk.to_string(), scale: 1.0 };
        Schema::new(disks.iter().map(series).collect())
    }

    #[test]
    fn culprits_of_a_unit_with_an_instance_are_those_of_its_whole_path() {
        let unit = "/system.slice/postgresql@15-main.service";
        assert_eq!([cgroup_path(unit), cgroup_path(&format!("{unit}@sda"))], [unit; 2]);
        assert_eq!(cgroup_path("/jobs"), "/jobs");
    }

    #[test]
    fn instances_of_the_same_counters_have_the_same_shape_unless_more_is_known() {
        let schema = schema(&["a", "b", "array", "member", "mount", "limited"]);
        let device = |name: &str| Device { name: name.into(), ..Device::default() };
        let array = Device { below: vec!["member".into()], ..device("array") };
        let filesystems = vec![Filesystem { mount: "mount".into(), ..Filesystem::default() }];
        let topology =
            Topology { devices: vec![device("a"), array, device("member")], filesystems, ..Topology::default() };
        let ceilings = [Ceiling { device: "limited".into(), ..Ceiling::default() }];
        let index = SchemaIndex::new(&schema, Some(&topology), &ceilings);
        assert!(["array", "member", "mount", "limited"].iter().all(|name| index.instance_shape(name).is_none()));
        assert!(index.instance_shape("a").is_some() && index.instance_shape("a") != index.instance_shape("b"));
        let index = SchemaIndex::new(&schema, None, &[]);
        assert!(["a", "b", "array"].iter().all(|name| index.instance_shape(name) == Some(0)));
    }

    #[test]
    fn recognizes_stacked_devices_by_name_without_a_topology() {
        let schema = schema(&["sda", "sda1", "nvme0n1", "nvme0n1p2", "md0", "dm-3", "loop7", "zram0", "_Total"]);
        let schema_index = SchemaIndex::new(&schema, None, &[]);
        assert_eq!(schema_index.disks(), ["sda", "nvme0n1"]);
        assert_eq!(schema_index.own_total("physical_disk"), Some("_Total"));
        assert_eq!(schema_index.device_class("zram0"), DeviceClass::Memory);
    }

    #[test]
    fn a_unit_of_systemd_is_no_device_of_a_group() {
        assert_eq!(split_cgroup_device("/a@sda"), Some(("/a", "sda")));
        assert_eq!(split_cgroup_device("/a@cciss/c0d0"), Some(("/a", "cciss/c0d0")));
        let unit = "/system.slice/postgresql@15-main.service";
        assert_eq!(split_cgroup_device(&format!("{unit}@259:3")), Some((unit, "259:3")));
        for path in ["/a", unit, "/user.slice/user-0.slice/user@0.service/app.slice/x"] {
            assert_eq!(split_cgroup_device(path), None);
        }
    }

    #[test]
    fn an_nvme_disk_and_its_paths_are_not_counted_twice() {
        let schema = schema(&["nvme0c0n1", "nvme0c1n1", "nvme0n1", "nvme0n2", "nvme1n1"]);
        let schema_index = SchemaIndex::new(&schema, None, &[]);
        let expected = ["nvme0c0n1", "nvme0c1n1", "nvme0n2", "nvme1n1"];
        assert_eq!(schema_index.disks(), expected);
        // another tool's log may name its disks, and not know what stands on what
        let device = |name: &str| Device { name: name.into(), ..Device::default() };
        let names = ["nvme0c0n1", "nvme0c1n1", "nvme0n1", "nvme0n2", "nvme1n1"];
        let topology = Topology { devices: names.into_iter().map(device).collect(), ..Topology::default() };
        assert_eq!(SchemaIndex::new(&schema, Some(&topology), &[]).disks(), expected);
    }

    /// Older versions of our recorder listed only the disk in the topology but recorded its path too. Before Linux 6.4
    /// the disk's own counters stayed at zero.
    #[test]
    fn an_nvme_path_counts_where_the_kernel_does_not_count_the_disk() {
        let schema = schema(&["nvme0c0n1", "nvme0n1"]);
        let disks = |kernel: &str| {
            let devices = vec![Device { name: "nvme0n1".into(), ..Device::default() }];
            let topology = Topology { devices, kernel: kernel.into(), ..Topology::default() };
            SchemaIndex::new(&schema, Some(&topology), &[]).disks().join(" ")
        };
        for (kernel, expected) in [("6.8.0-41-generic", "nvme0n1"), ("6.4.0", "nvme0n1"), ("10.1", "nvme0n1")] {
            assert_eq!(disks(kernel), expected, "{kernel}");
        }
        for kernel in ["6.3.9", "5.14.0-503.el9", "", "unknown"] {
            assert_eq!(disks(kernel), "nvme0c0n1 nvme0n1", "{kernel}");
        }
    }

    #[test]
    fn another_tools_log_hides_how_many_disks_there_are() {
        let schema = schema(&["0 C:", "1 D:"]);
        let array =
            Device { name: "0 C:".into(), members: Some(3), level: Some(RaidLevel::Raid5), ..Device::default() };
        let topology = Topology { devices: vec![array], ..Topology::default() };
        let schema_index = SchemaIndex::new(&schema, Some(&topology), &[]).with_hidden_spindles(true);
        assert_eq!((schema_index.spindle_count("0 C:"), schema_index.spindle_count("1 D:")), (Some(3), None));
        assert_eq!(SchemaIndex::new(&schema, None, &[]).spindle_count("1 D:"), Some(1));
    }

    #[test]
    fn the_same_disk_is_counted_once() {
        let device = |name: &str, below: &[&str], level| Device {
            name: name.into(),
            below: below.iter().map(|s| s.to_string()).collect(),
            level,
            ..Device::default()
        };
        let topology = Topology {
            devices: vec![
                device("sda", &[], None),
                device("sdb", &[], None),
                device("md0", &["sda", "sdb"], Some(RaidLevel::Raid1)),
                device("dm-0", &["md0"], None),
            ],
            ..Topology::default()
        };
        let schema = schema(&["sda", "sdb", "md0", "dm-0"]);
        let schema_index = SchemaIndex::new(&schema, Some(&topology), &[]);
        assert_eq!(schema_index.disks(), ["sda", "sdb"]);
        assert_eq!(schema_index.array_names().collect::<Vec<_>>(), ["md0"]);
        assert_eq!(schema_index.array_over("sdb"), Some("md0"));
        assert_eq!(schema_index.disks_below("cgroup", "/a/b@dm-0"), ["sda", "sdb"]);
    }
}
