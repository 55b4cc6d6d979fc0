//! Block devices by the kernel's numbers: names, partitions and the disks they lie on.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// `major << 20 | minor`, as the kernel keeps a device inside.
pub fn device_number(major: u32, minor: u32) -> u32 {
    (major << 20) | (minor & 0xf_ffff)
}

/// Major and minor number.
pub fn major_minor(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

#[derive(Debug)]
struct KnownDevice {
    name: String,
    disk: u32,
    has_requests: bool,
}

/// Names of devices and the disks of partitions, asked for once each.
#[derive(Debug)]
pub struct BlockDeviceNames {
    root: PathBuf,
    known: HashMap<u32, KnownDevice>,
}

impl Default for BlockDeviceNames {
    fn default() -> BlockDeviceNames {
        BlockDeviceNames::under(Path::new("/"))
    }
}

impl BlockDeviceNames {
    /// Of a machine whose `/sys` is under this folder.
    pub fn under(root: &Path) -> BlockDeviceNames {
        BlockDeviceNames { root: root.to_owned(), known: HashMap::new() }
    }

    /// The device of a name.
    pub fn number(&self, name: &str) -> Option<u32> {
        // nothing but a name: no other folder, no way up
        let file = file_name(name);
        if file.contains('\0') || file.starts_with('.') {
            return None;
        }
        parse_number(&fs::read_to_string(self.root.join("sys/class/block").join(file).join("dev")).ok()?)
    }

    /// All whole disks and other devices that are no partitions.
    pub fn disks(&self) -> Vec<u32> {
        let names = fs::read_dir(self.root.join("sys/block")).into_iter().flatten().flatten();
        names.filter_map(|entry| self.number(entry.file_name().to_str()?)).collect()
    }

    /// The partitions of a disk.
    pub fn partitions(&mut self, disk: u32) -> Vec<u32> {
        let folder = self.root.join("sys/block").join(file_name(&self.name(disk)));
        let parts = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let parts = parts.filter(|path| path.join("partition").exists());
        parts.filter_map(|path| parse_number(&fs::read_to_string(path.join("dev")).ok()?)).collect()
    }

    /// The disk that a partition lies on; a device that is no partition is its own.
    pub fn disk_of(&mut self, device: u32) -> u32 {
        self.look(device).disk
    }

    /// The name of a device, `8:1` where it has none (it may be gone).
    pub fn name(&mut self, device: u32) -> String {
        self.look(device).name.clone()
    }

    /// Whether the driver takes requests; others (zram, device mapper, md) take bios.
    pub fn has_requests(&mut self, device: u32) -> bool {
        self.look(device).has_requests
    }

    fn look(&mut self, device: u32) -> &KnownDevice {
        let root = &self.root;
        self.known.entry(device).or_insert_with(|| {
            let (major, minor) = major_minor(device);
            let unknown = KnownDevice { name: format!("{major}:{minor}"), disk: device, has_requests: false };
            let folder = root.join(format!("sys/dev/block/{major}:{minor}"));
            let Ok(folder) = fs::canonicalize(folder) else { return unknown };
            let Some(name) = folder.file_name().and_then(|n| n.to_str()) else { return unknown };
            let parent = if folder.join("partition").exists() { folder.parent() } else { None };
            let disk = parent.and_then(|p| parse_number(&fs::read_to_string(p.join("dev")).ok()?));
            // drivers of requests have a folder of their hardware queues
            let has_requests = parent.unwrap_or(&folder).join("mq").exists();
            KnownDevice { name: name.replace('!', "/"), disk: disk.unwrap_or(device), has_requests }
        })
    }
}

/// sysfs writes a slash in a name (cciss/c0d0) as an exclamation mark.
fn file_name(device: &str) -> String {
    device.replace('/', "!")
}

/// `8:1`.
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
        let mut names = BlockDeviceNames::under(&root);
        assert_eq!(names.number("cciss/c0d0"), Some(device_number(104, 0)));
        assert_eq!(names.name(device_number(104, 0)), "cciss/c0d0");
        assert_eq!(names.partitions(device_number(104, 0)), [device_number(104, 1)]);
        fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn a_device_that_is_gone_has_its_number_for_a_name() {
        let mut names = BlockDeviceNames::under(Path::new("/nonexistent"));
        assert_eq!(names.name(device_number(8, 1)), "8:1");
        assert_eq!(names.disk_of(device_number(8, 1)), device_number(8, 1));
        assert_eq!(names.number("../sda"), None);
        assert!(names.disks().is_empty());
    }
}
