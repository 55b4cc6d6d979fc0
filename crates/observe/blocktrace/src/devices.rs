//! Block devices by the kernel's numbers: names, partitions and their disks.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_base::diskstats::parse_nvme_path;

/// Returns `major << 20 | minor`, the kernel's internal device number.
pub fn device_number(major: u32, minor: u32) -> u32 {
    (major << 20) | (minor & 0xf_ffff)
}

/// Splits the kernel's internal device number into major and minor.
pub fn major_minor(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

/// A device that was looked up.
#[derive(Debug)]
struct KnownDevice {
    name: String,
    /// Number of the disk of a partition or path; otherwise the device's own number.
    disk: u32,
    /// The driver handles requests, not bios.
    has_requests: bool,
    /// The device is a hidden path to a disk.
    is_path: bool,
}

/// A path of NVMe native multipath. Its requests carry its device number, which sysfs does not show.
struct MultipathPath {
    number: u32,
    name: String,
    /// The name of the disk that it leads to.
    disk: String,
}

/// Names of devices and the disks of partitions, each looked up once.
#[derive(Debug)]
pub struct BlockDeviceNames {
    root: PathBuf,
    known: HashMap<u32, KnownDevice>,
}

impl Default for BlockDeviceNames {
    fn default() -> BlockDeviceNames {
        BlockDeviceNames::from_root(Path::new("/"))
    }
}

impl BlockDeviceNames {
    /// Names on a machine whose `/sys` is under this folder.
    pub fn from_root(root: &Path) -> BlockDeviceNames {
        BlockDeviceNames { root: root.to_owned(), known: HashMap::new() }
    }

    /// Returns the number of the device with this name.
    pub fn find_number(&self, name: &str) -> Option<u32> {
        read_number(&self.root, name)
    }

    /// All whole disks and other devices that are not partitions.
    pub fn disks(&self) -> Vec<u32> {
        let names = fs::read_dir(self.root.join("sys/block")).into_iter().flatten().flatten();
        names.filter_map(|entry| self.find_number(entry.file_name().to_str()?)).collect()
    }

    /// The disks and the hidden paths to NVMe disks, which appear and disappear while their disk stays.
    pub fn disks_and_paths(&self) -> Vec<u32> {
        let mut numbers = self.disks();
        numbers.extend(all_multipath_paths(&self.root).iter().map(|path| path.number));
        numbers
    }

    /// The partitions of a disk.
    pub fn partitions(&mut self, disk: u32) -> Vec<u32> {
        let folder = self.root.join("sys/block").join(file_name(&self.name(disk)));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let partitions = entries.filter(|path| path.join("partition").exists());
        partitions.filter_map(|path| parse_number(&fs::read_to_string(path.join("dev")).ok()?)).collect()
    }

    /// The hidden paths to an NVMe disk (`nvme0c0n1` of `nvme0n1`): the disk has the bios, the paths the requests.
    pub fn multipath_paths(&mut self, disk: u32) -> Vec<u32> {
        let name = self.name(disk);
        multipath_paths_of_disk(&self.root, &name).into_iter().map(|path| path.number).collect()
    }

    /// Returns true for a hidden path to a disk.
    pub fn is_path(&mut self, device: u32) -> bool {
        self.lookup_device(device).is_path
    }

    /// Returns true if the kernel counts a disk's requests, as it does by default.
    pub(crate) fn has_counts(&mut self, disk: u32) -> bool {
        let name = self.name(disk);
        let mut names: Vec<String> =
            multipath_paths_of_disk(&self.root, &name).into_iter().map(|path| path.name).collect();
        if names.is_empty() {
            names.push(name);
        }
        names.iter().all(|name| {
            let file = self.root.join("sys/block").join(file_name(name)).join("queue/iostats");
            fs::read_to_string(file).is_ok_and(|text| text.trim() != "0")
        })
    }

    /// Returns the disk of a partition or a hidden path; for any other device the device itself.
    pub fn disk_of(&mut self, device: u32) -> u32 {
        self.lookup_device(device).disk
    }

    /// Returns the name of a device, or `8:1` if it has none (it may be gone).
    pub fn name(&mut self, device: u32) -> String {
        self.lookup_device(device).name.clone()
    }

    /// Returns true if the driver handles requests; others (zram, device mapper, md) handle bios.
    pub fn has_requests(&mut self, device: u32) -> bool {
        self.lookup_device(device).has_requests
    }

    fn lookup_device(&mut self, device: u32) -> &KnownDevice {
        let root = &self.root;
        self.known.entry(device).or_insert_with(|| read_device(root, device))
    }
}

/// Reads a device from sysfs, or a hidden one from `/proc/diskstats`.
fn read_device(root: &Path, device: u32) -> KnownDevice {
    let (major, minor) = major_minor(device);
    let unknown = || {
        let name = format!("{major}:{minor}");
        KnownDevice { name, disk: device, has_requests: false, is_path: false }
    };
    let Ok(folder) = fs::canonicalize(root.join(format!("sys/dev/block/{major}:{minor}"))) else {
        return read_hidden_path(root, device).unwrap_or_else(unknown);
    };
    let Some(name) = folder.file_name().and_then(|n| n.to_str()) else { return unknown() };
    let parent = if folder.join("partition").exists() { folder.parent() } else { None };
    let disk = parent.and_then(|p| parse_number(&fs::read_to_string(p.join("dev")).ok()?));
    let disk_folder = parent.unwrap_or(&folder);
    // drivers that handle requests have a folder of hardware queues
    let has_mq = disk_folder.join("mq").exists();
    let has_requests = has_mq || disk_folder.file_name().and_then(|n| n.to_str()).is_some_and(|n| has_paths(root, n));
    KnownDevice { name: name.replace('!', "/"), disk: disk.unwrap_or(device), has_requests, is_path: false }
}

/// Reads a hidden path, which counts as the disk that it leads to.
fn read_hidden_path(root: &Path, device: u32) -> Option<KnownDevice> {
    let path = all_multipath_paths(root).into_iter().find(|path| path.number == device)?;
    let disk = read_number(root, &path.disk)?;
    Some(KnownDevice { name: path.name, disk, has_requests: true, is_path: true })
}

fn has_paths(root: &Path, disk: &str) -> bool {
    !multipath_paths_of_disk(root, disk).is_empty()
}

/// Returns the hidden paths to a disk; none for disks that are not NVMe.
fn multipath_paths_of_disk(root: &Path, disk: &str) -> Vec<MultipathPath> {
    let paths = if disk.starts_with("nvme") { all_multipath_paths(root) } else { Vec::new() };
    paths.into_iter().filter(|path| path.disk == disk).collect()
}

fn all_multipath_paths(root: &Path) -> Vec<MultipathPath> {
    let text = fs::read_to_string(root.join("proc/diskstats")).unwrap_or_default();
    let parse_path = |line: &str| {
        let mut fields = line.split_whitespace();
        let (major, minor, name) = (fields.next()?, fields.next()?, fields.next()?);
        let (disk, _) = parse_nvme_path(name)?;
        let number = device_number(major.parse().ok()?, minor.parse().ok()?);
        // some 5.x kernels list paths without a number
        (number > 0).then(|| MultipathPath { number, name: name.to_owned(), disk })
    };
    text.lines().filter_map(parse_path).collect()
}

/// Reads the number of the device with this name.
fn read_number(root: &Path, name: &str) -> Option<u32> {
    // accept only a plain name, never a path to another folder
    let file = file_name(name);
    if file.contains('\0') || file.starts_with('.') {
        return None;
    }
    parse_number(&fs::read_to_string(root.join("sys/class/block").join(file).join("dev")).ok()?)
}

/// Returns the name of a device's folder in sysfs, which replaces a slash (cciss/c0d0) by an exclamation mark.
fn file_name(device: &str) -> String {
    device.replace('/', "!")
}

/// Parses `8:1`.
fn parse_number(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(device_number(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(device_number(8, 1), 0x80_0001);
        assert_eq!(major_minor(device_number(259, 65_536)), (259, 65_536));
        assert_eq!(parse_number("7:3\n"), Some(device_number(7, 3)));
        assert_eq!(parse_number("7"), None);
    }

    /// Counters of the disk have its name as the kernel's, and so have its requests.
    #[test]
    fn a_slash_in_a_name_is_an_exclamation_mark_in_sysfs() {
        let root = std::env::temp_dir().join(format!("diskwright-slash-{}", std::process::id()));
        let disk = root.join("sys/devices/cciss!c0d0");
        fs::create_dir_all(disk.join("cciss!c0d0p1")).expect("a folder");
        for (file, text) in [("dev", "104:0\n"), ("cciss!c0d0p1/dev", "104:1\n"), ("cciss!c0d0p1/partition", "1\n")] {
            fs::write(disk.join(file), text).expect("a file");
        }
        for folder in ["sys/block", "sys/class/block", "sys/dev/block"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        for link in ["sys/block/cciss!c0d0", "sys/class/block/cciss!c0d0", "sys/dev/block/104:0"] {
            std::os::unix::fs::symlink(&disk, root.join(link)).expect("a link");
        }
        let mut names = BlockDeviceNames::from_root(&root);
        assert_eq!(names.find_number("cciss/c0d0"), Some(device_number(104, 0)));
        assert_eq!(names.name(device_number(104, 0)), "cciss/c0d0");
        assert_eq!(names.partitions(device_number(104, 0)), [device_number(104, 1)]);
        fs::remove_dir_all(root).expect("ours");
    }

    /// Linux gives a hidden path a folder without `dev`, and no number in `/sys/dev/block`.
    #[test]
    fn a_hidden_path_counts_as_the_nvme_disk_that_it_leads_to() {
        let root = std::env::temp_dir().join(format!("diskwright-paths-{}", std::process::id()));
        let (disk, path) = (root.join("sys/devices/nvme0n1"), root.join("sys/devices/nvme0c1n1"));
        for folder in [disk.join("nvme0n1p1"), path.join("mq"), path.join("queue"), root.join("proc")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        let files = [("dev", "259:0\n"), ("nvme0n1p1/dev", "259:2\n"), ("nvme0n1p1/partition", "1\n")];
        for (file, text) in files {
            fs::write(disk.join(file), text).expect("a file");
        }
        fs::write(path.join("queue/iostats"), "1\n").expect("a file");
        fs::write(root.join("proc/diskstats"), "259 1 nvme0c1n1 9 0 72 1\n259 0 nvme0n1 0 0 0 0\n").expect("a file");
        for folder in ["sys/block", "sys/class/block", "sys/dev/block"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        let links = ["sys/block/nvme0n1", "sys/class/block/nvme0n1", "sys/dev/block/259:0"].map(|link| (link, &disk));
        let hidden = ["sys/block/nvme0c1n1", "sys/class/block/nvme0c1n1"].map(|link| (link, &path));
        for (link, to) in links.into_iter().chain(hidden) {
            std::os::unix::fs::symlink(to, root.join(link)).expect("a link");
        }
        let mut names = BlockDeviceNames::from_root(&root);
        let [head, way, other] = [0, 1, 7].map(|minor| device_number(259, minor));
        assert_eq!((names.disk_of(way), names.name(way).as_str()), (head, "nvme0c1n1"));
        assert_eq!((names.multipath_paths(head), names.disks()), (vec![way], vec![head]));
        assert_eq!(names.disks_and_paths(), [head, way]);
        assert!(names.has_requests(head) && names.has_counts(head), "its paths have");
        assert!(names.is_path(way) && !names.is_path(head));
        assert_eq!((names.disk_of(other), names.is_path(other)), (other, false));
        fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn a_device_that_is_gone_has_its_number_for_a_name() {
        let mut names = BlockDeviceNames::from_root(Path::new("/nonexistent"));
        assert_eq!(names.name(device_number(8, 1)), "8:1");
        assert_eq!(names.disk_of(device_number(8, 1)), device_number(8, 1));
        assert_eq!(names.find_number("../sda"), None);
        assert!(names.disks().is_empty());
    }
}
