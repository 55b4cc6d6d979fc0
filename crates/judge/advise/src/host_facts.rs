//! The facts of a host, prepared for checks.

use std::path::Path;

use diskwright_base::{Ceiling, Device, DeviceClass, DeviceKind, Topology};
use diskwright_counters::live::mountinfo::{self, Mount};
use diskwright_counters::live::{Roots, sources::mounts, sources::topology};

use crate::check::CheckObject;
use crate::filesystem_space::{self, FilesystemSpace};
use crate::host_load::{DiskLoad, HostLoad};
use crate::host_tree::{HostTree, first_number};
use crate::host_trouble::HostTrouble;
use crate::role::ServerRole;

/// The facts about a host by which it is judged.
#[derive(Debug)]
pub struct HostFacts {
    pub(crate) tree: HostTree,
    pub(crate) topology: Topology,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) space: Vec<FilesystemSpace>,
    /// Role of the host.
    pub role: ServerRole,
    /// Program that indicates the role; `None` if the user named the role, or no program indicates one.
    pub role_program: Option<String>,
    pub(crate) load: Option<HostLoad>,
    pub(crate) ceilings: Vec<Ceiling>,
    /// True if there are any facts; a log without them is judged by its topology alone.
    pub has_facts: bool,
    /// True if the facts are current; those of a log or a copy are older than the last counters.
    is_current: bool,
    /// Mount points that only the counters show.
    newly_mounted: Vec<String>,
    /// Bottlenecks that the verdict on the log names.
    troubles: Vec<HostTrouble>,
}

/// Prefixes of devices that are not disks.
const NON_DISK_PREFIXES: &[&str] = &["sr", "fd", "nbd", "ram"];

/// Files that the runtime mounts into a container; their filesystem belongs to the container's host.
const CONTAINER_FILES: &[&str] = &["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/dev/termination-log"];

/// Distributions without systemd: no timers, no tmpfiles.d, and some without udev.
const WITHOUT_SYSTEMD: &[&str] = &["alpine", "artix", "devuan", "gentoo", "postmarketos", "slackware", "void"];

impl HostFacts {
    /// Reads the facts of the host below a root.
    #[must_use]
    pub fn read(root: &Path, role: Option<ServerRole>) -> HostFacts {
        let roots = if root == Path::new("/") { Roots::default() } else { Roots::from_root(root) };
        HostFacts {
            is_current: root == Path::new("/"),
            ..HostFacts::from_facts(HostTree::read(root), topology::read_topology(&roots), role)
        }
    }

    /// Builds the facts from files and devices that are known already.
    #[must_use]
    pub fn from_facts(tree: HostTree, topology: Topology, role: Option<ServerRole>) -> HostFacts {
        let mounts = mountinfo::parse_mounts(tree.get("proc/self/mountinfo").unwrap_or_default().as_bytes());
        let space = filesystem_space::parse_space(tree.get(filesystem_space::SPACE_FILE).unwrap_or_default());
        let inferred = ServerRole::infer_from(&tree);
        let (role, role_program) = role.map_or(inferred, |role| (role, None));
        let has_facts = !tree.files.is_empty();
        HostFacts {
            tree,
            topology,
            mounts,
            space,
            role,
            role_program,
            load: None,
            ceilings: Vec::new(),
            has_facts,
            is_current: false,
            newly_mounted: Vec::new(),
            troubles: Vec::new(),
        }
    }

    /// Adds the bottlenecks that a verdict on the log names.
    #[must_use]
    pub fn with_troubles(self, troubles: &[HostTrouble]) -> HostFacts {
        HostFacts { troubles: troubles.to_vec(), ..self }
    }

    /// The cgroups in which memory is a bottleneck, by their paths.
    fn groups_short_of_memory(&self) -> impl Iterator<Item = &str> {
        let of_memory = self.troubles.iter().filter(|trouble| trouble.bottleneck == "memory");
        of_memory.filter(|trouble| trouble.instance.starts_with('/')).map(HostTrouble::group)
    }

    /// True if memory is a bottleneck in this cgroup.
    pub(crate) fn is_short_of_memory(&self, group: &str) -> bool {
        self.groups_short_of_memory().any(|short| short == group)
    }

    /// True if memory is a bottleneck only in cgroups of version 1, each of which has a swappiness of its own.
    pub(crate) fn swaps_in_legacy_groups_only(&self) -> bool {
        let has_own = |group: &str| {
            group != "/" && self.tree.get(&format!("sys/fs/cgroup/memory{group}/memory.swappiness")).is_some()
        };
        let is_legacy = |trouble: &HostTrouble| has_own(trouble.group());
        let mut of_memory = self.troubles.iter().filter(|trouble| trouble.bottleneck == "memory").peekable();
        of_memory.peek().is_some() && of_memory.all(is_legacy)
    }

    /// Adds the load in a log, and the measured ceilings of the disks.
    #[must_use]
    pub fn with_load(mut self, load: Option<HostLoad>, ceilings: &[Ceiling]) -> HostFacts {
        self.ceilings = diskwright_base::ceiling::ceilings_for_topology(Some(&self.topology), ceilings);
        if let Some(load) = load.as_ref().filter(|_| !self.is_current) {
            let known_points: Vec<String> = self.space.iter().map(|space| space.mount.clone()).collect();
            self.space = filesystem_space::with_newer_counters(std::mem::take(&mut self.space), &load.space);
            let is_new =
                |point: &String| !known_points.contains(point) && !self.mounts.iter().any(|m| m.point == *point);
            self.newly_mounted = self.space.iter().map(|space| space.mount.clone()).filter(is_new).collect();
        }
        self.load = load;
        self
    }

    /// The facts as files.
    #[must_use]
    pub fn tree(&self) -> &HostTree {
        &self.tree
    }

    /// Returns true for the facts of a container: kernel and disks are those of its host, files are its own.
    #[must_use]
    pub fn is_container(&self) -> bool {
        let is_mount_point = |point: &str| self.mounts.iter().any(|mount| mount.point == point);
        let is_read_only_sysfs =
            |mount: &Mount| mount.point == "/sys" && mount.flags.split(',').any(|flag| flag == "ro");
        let is_lxcfs_file = |mount: &Mount| mount.point.starts_with("/proc/") && mount.kind == "fuse.lxcfs";
        CONTAINER_FILES[..2].iter().all(|file| is_mount_point(file))
            || self.mounts.iter().any(|m| is_read_only_sysfs(m) || is_lxcfs_file(m))
    }

    /// Returns true if the reported memory is a container's (lxcfs), not the machine's.
    pub(crate) fn shows_container_memory(&self) -> bool {
        self.mounts.iter().any(|mount| mount.point == "/proc/meminfo" && mount.kind == "fuse.lxcfs")
    }

    /// Returns true if files and commands of systemd apply, judged by the distribution's name.
    pub(crate) fn may_have_systemd(&self) -> bool {
        let release = self.tree.get("etc/os-release").unwrap_or_default();
        let name = release.lines().find_map(|line| line.strip_prefix("ID="));
        !name.is_some_and(|name| WITHOUT_SYSTEMD.contains(&name.trim_matches(['"', '\''])))
    }

    /// Returns the instances for which a check of this object is made.
    pub(crate) fn check_instances(&self, object: CheckObject) -> Vec<String> {
        let device_names = |is_kept: &dyn Fn(&&Device) -> bool| -> Vec<String> {
            self.topology.devices.iter().filter(is_kept).map(|device| device.name.clone()).collect()
        };
        match object {
            CheckObject::Host => vec![String::new()],
            CheckObject::Disk => device_names(&is_disk),
            CheckObject::Partition => device_names(&|d| d.kind == DeviceKind::Partition),
            CheckObject::Md => device_names(&|d| d.kind == DeviceKind::Md),
            CheckObject::Mapped => device_names(&|d| {
                d.kind == DeviceKind::Dm || d.kind == DeviceKind::Multipath && d.name.starts_with("dm-")
            }),
            CheckObject::Filesystem => {
                let local = mounts::local_mounts(&self.mounts)
                    .into_iter()
                    .filter(|m| !CONTAINER_FILES.contains(&m.point.as_str()));
                let mut points: Vec<String> = local.map(|mount| mount.point.clone()).collect();
                points.extend(self.newly_mounted.iter().cloned());
                points
            }
            CheckObject::Cgroup => self.limited_cgroups(),
        }
    }

    /// Returns the cgroups that show their limits, or that are a bottleneck. In a container, the root of the tree is
    /// the container's own cgroup.
    fn limited_cgroups(&self) -> Vec<String> {
        let parse_group = |path: &String| {
            let (group, file) = path.strip_prefix("sys/fs/cgroup")?.rsplit_once('/')?;
            let name = if group.is_empty() { "/" } else { group };
            matches!(file, "cpu.stat" | "memory.events").then(|| name.to_owned())
        };
        let mut groups: Vec<String> = self.tree.files.keys().filter_map(parse_group).collect();
        // version 1 shows a hierarchy of two controllers under the name of each
        let is_named_twice = self.tree.has_any_below("sys/fs/cgroup/cpu,cpuacct");
        groups.extend(self.groups_short_of_memory().map(str::to_owned));
        groups.retain(|name| !is_named_twice || !(name.starts_with("/cpu/") || name.starts_with("/cpuacct/")));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Finds a device by name.
    pub(crate) fn find_device(&self, name: &str) -> Option<&Device> {
        self.topology.find_device(name)
    }

    /// Class of a device.
    pub(crate) fn device_class(&self, name: &str) -> DeviceClass {
        self.find_device(name).map_or(DeviceClass::Unknown, |device| device.class)
    }

    /// A file of a disk's queue.
    pub(crate) fn queue_file(&self, disk: &str, file: &str) -> Option<&str> {
        self.tree.get(&format!("sys/block/{}/queue/{file}", sysfs_name(disk)))
    }

    /// Number in a file of a disk's queue.
    pub(crate) fn queue_number(&self, disk: &str, file: &str) -> Option<f64> {
        first_number(self.queue_file(disk, file)?)
    }

    /// A file in a block device's folder.
    pub(crate) fn block_file(&self, device: &str, file: &str) -> Option<&str> {
        self.tree.get(&format!("sys/block/{}/{file}", sysfs_name(device)))
    }

    /// Number in a file of a block device's folder.
    pub(crate) fn block_number(&self, device: &str, file: &str) -> Option<f64> {
        first_number(self.block_file(device, file)?)
    }

    /// Path of a disk in the device tree: `sys/devices/pci0000:00/…`.
    pub(crate) fn device_path(&self, disk: &str) -> Option<&str> {
        self.tree.link_target(&format!("sys/block/{}", sysfs_name(disk)))
    }

    /// Returns true if the disk is attached to USB.
    pub(crate) fn is_usb(&self, disk: &str) -> bool {
        self.device_path(disk).is_some_and(|path| path.contains("/usb"))
    }

    /// Load of a disk in the log.
    pub(crate) fn disk_load(&self, disk: &str) -> Option<&DiskLoad> {
        self.load.as_ref()?.disks.get(disk)
    }

    /// Finds the mount at a mount point.
    pub(crate) fn mount_at(&self, point: &str) -> Option<&Mount> {
        // of several mounts on one point, the last is visible
        self.mounts.iter().rev().find(|mount| mount.point == point)
    }

    /// Number in a file of `/proc/sys`, by its name as of sysctl: `vm.dirty_bytes`.
    pub(crate) fn sysctl_number(&self, name: &str) -> Option<f64> {
        self.tree.number_in(&format!("proc/sys/{}", name.replace('.', "/")))
    }

    /// Memory of the host, bytes.
    pub(crate) fn memory_bytes(&self) -> Option<f64> {
        Some(self.topology.memory_bytes as f64).filter(|bytes| *bytes > 0.0)
    }
}

/// Returns a device's name as sysfs writes it: with an exclamation mark for a slash.
pub(crate) fn sysfs_name(device: &str) -> String {
    device.replace('/', "!")
}

fn is_disk(device: &&Device) -> bool {
    matches!(device.kind, DeviceKind::Disk | DeviceKind::Multipath)
        && device.below.is_empty()
        && device.class != DeviceClass::Memory
        && !NON_DISK_PREFIXES.iter().any(|prefix| device.name.starts_with(prefix))
}
