//! Numbers of devices and files, and opening devices by number.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diskwright_counters::live::Roots;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, major, makedev, minor};

/// Major and minor number of a device.
pub type DeviceNumber = (u64, u64);

/// A file by its filesystem's device and its inode, as `stat` reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The filesystem's device; major 0 if it has no device of its own.
    pub device: DeviceNumber,
    /// The inode.
    pub inode: u64,
}

impl FileId {
    /// Takes the numbers from the result of `stat`.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> FileId {
        FileId { device: unpack_device_number(metadata.dev()), inode: metadata.ino() }
    }
}

/// Unpacks a device number of the kernel.
#[must_use]
pub fn unpack_device_number(packed: u64) -> DeviceNumber {
    (u64::from(major(packed)), u64::from(minor(packed)))
}

/// Returns the number of a block device; `None` for other files.
#[must_use]
pub fn block_device_number(metadata: &Metadata) -> Option<DeviceNumber> {
    metadata.file_type().is_block_device().then(|| unpack_device_number(metadata.rdev()))
}

/// Returns the status of a link or file from the kernel's cached attributes, without waiting for a
/// server.
pub(crate) fn stat_without_sync(path: &Path) -> Option<Statx> {
    rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS | StatxFlags::BTIME).ok()
}

/// Returns a device's folder in /sys.
#[must_use]
pub fn sysfs_folder(roots: &Roots, number: DeviceNumber) -> PathBuf {
    roots.resolve_path(&format!("/sys/dev/block/{}:{}", number.0, number.1))
}

/// Opens a block device for reading by its number, even if the path of its name leads elsewhere.
/// `None` if this machine does not permit it.
pub(crate) fn open_block_device(roots: &Roots, number: DeviceNumber, name: &str, flags: OFlags) -> Option<File> {
    let node = roots.resolve_path(&format!("/dev/{}", name.replace('!', "/")));
    let link = roots.resolve_path(&format!("/dev/block/{}:{}", number.0, number.1));
    let open = |path: &Path| {
        // checked before it is opened: opening a tape rewinds it
        let has_number = |m: &Metadata| block_device_number(m) == Some(number);
        fs::metadata(path).ok().filter(has_number)?;
        let flags = (flags | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        file.metadata().is_ok_and(|m| has_number(&m)).then_some(file)
    };
    // a test's fake machine has no devices to open
    let open_temporary = || (roots.root == Path::new("/")).then(|| with_temporary_node(number, open)).flatten();
    open(&node).or_else(|| open(&link)).or_else(open_temporary)
}

/// Creates a device node in a private folder, calls `open` with its path, and removes both.
fn with_temporary_node<T>(number: DeviceNumber, open: impl Fn(&Path) -> Option<T>) -> Option<T> {
    // /run and /tmp often forbid device nodes
    ["/run", "/var/tmp", "/tmp", "/root"].iter().find_map(|parent| {
        let folder = Path::new(parent).join(format!(".diskwright-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).ok()?;
        let node = folder.join("node");
        let device = makedev(number.0 as u32, number.1 as u32);
        let created = rustix::fs::mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device);
        let opened = created.ok().and_then(|()| open(&node));
        // a leftover would be readable only by root
        let _ = fs::remove_file(&node);
        let _ = fs::remove_dir(&folder);
        opened
    })
}

/// Returns the names in a folder, sorted; empty if it cannot be read.
pub(crate) fn sorted_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Reads a small file of the kernel, without the newline at its end.
pub(crate) fn read_first_line(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim_end_matches('\n').to_owned())
}

/// Reads a number from a small file of the kernel.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read_first_line(path)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unpacked_as_the_kernel_packs_them() {
        assert_eq!(unpack_device_number(makedev(259, 300)), (259, 300));
        assert_eq!(unpack_device_number(0x0801), (8, 1));
        let found = fs::metadata(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(FileId::from_metadata(&found).inode, found.ino());
        assert_eq!(block_device_number(&found), None);
    }

    #[test]
    fn a_device_without_a_node_is_opened_by_its_number() {
        let Some(name) = sorted_names(Path::new("/sys/class/block")).into_iter().find(|name| name.starts_with("loop"))
        else {
            return eprintln!("skipped: no loop devices here");
        };
        let path = Path::new("/sys/class/block").join(name).join("dev");
        let number =
            diskwright_counters::live::mountinfo::parse_device_number(fs::read(path).unwrap().trim_ascii()).unwrap();
        let before = sorted_names(Path::new("/dev"));
        let Some(opened) = open_block_device(&Roots::default(), number, "no-such-node", OFlags::empty()) else {
            return eprintln!("skipped: no device may be made or opened here");
        };
        assert_eq!(block_device_number(&opened.metadata().unwrap()), Some(number));
        assert_eq!(sorted_names(Path::new("/dev")), before);
    }
}
