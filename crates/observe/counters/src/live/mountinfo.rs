//! `/proc/self/mountinfo`: mounts with their mount points and devices.

use diskwright_hostfiles::mounts::unescape_octal;

use super::Roots;
use super::device_events::MAX_AGE_NS;
use super::open_file::OpenFile;
use super::text_scan::{WordIter, parse_number, text_lines};
use super::tick_context::TickContext;

/// A mount: one line of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's id of the mount, which `statx` also returns for a file.
    pub id: u64,
    /// Device number; major 0 is not a block device.
    pub device: (u64, u64),
    /// Folder of the filesystem that is mounted.
    pub root: String,
    /// Mount point.
    pub point: String,
    /// Filesystem type (`ext4`, `fuse.sshfs`).
    pub kind: String,
    /// Mounted device or source (`/dev/sda1`, `server:/export`).
    pub source: String,
    /// Options of the filesystem.
    pub options: String,
    /// Options of this mount (`rw,noatime`).
    pub flags: String,
}

/// Parses all lines; malformed ones are skipped.
pub fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text_lines(text).filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = WordIter::new(line);
    let id = parse_number(words.next_word()?)?;
    words.next_word()?;
    let device = parse_device_number(words.next_word()?)?;
    let root = unescape_path(words.next_word()?);
    let point = unescape_path(words.next_word()?);
    let flags = unescape_path(words.next_word()?);
    // optional fields up to a lone dash
    while words.next_word()? != b"-" {}
    let kind = unescape_path(words.next_word()?);
    let source = unescape_path(words.next_word().unwrap_or_default());
    let options = unescape_path(words.next_word().unwrap_or_default());
    Some(Mount { id, device, root, point, kind, source, options, flags })
}

/// Parses `8:1` as major and minor.
pub fn parse_device_number(word: &[u8]) -> Option<(u64, u64)> {
    let colon = memchr::memchr(b':', word)?;
    Some((parse_number(&word[..colon])?, parse_number(&word[colon + 1..])?))
}

/// Decodes a path of the kernel's tables, in which blanks and backslashes are octal (`\040`).
pub fn unescape_path(word: &[u8]) -> String {
    String::from_utf8_lossy(&unescape_octal(word)).into_owned()
}

/// Encodes a path as the kernel's tables do; see [`unescape_path`].
pub fn escape_path(path: &str) -> String {
    path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// Reads the mounts of this process; empty where they cannot be read.
pub(crate) fn read_mounts(roots: &Roots) -> Vec<Mount> {
    parse_mounts(&super::open_file::read_bytes(&roots.proc.join("self/mountinfo")).unwrap_or_default())
}

/// The table of mounts, which two sources follow: read when the kernel reports a change, and once a minute.
pub(crate) struct PolledMounts {
    file: OpenFile,
    read_ns: u64,
}

impl PolledMounts {
    /// Polls this file.
    pub fn new(file: OpenFile) -> PolledMounts {
        PolledMounts { file, read_ns: 0 }
    }

    /// Returns the table's text if it may have changed, else `None`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_if_changed(&mut self, context: &mut TickContext) -> Result<Option<&[u8]>, ()> {
        let is_old = context.running_ns.saturating_sub(self.read_ns) >= MAX_AGE_NS;
        if !self.file.may_have_changed() && !is_old {
            return Ok(None);
        }
        self.read_ns = context.running_ns;
        self.file.read(context).map(Some).ok_or(())
    }
}

/// Finds the mount that holds a path: the last one with the longest mount point that is the path or a folder above it.
pub fn find_mount<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    mounts.iter().filter(|m| m.is_above(path)).max_by_key(|m| m.point.trim_end_matches('/').len())
}

impl Mount {
    /// Returns true if the mount point is the path or a folder above it.
    pub fn is_above(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.point.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns true if the filesystem is on another machine, or is served by a user process, which may depend on one:
    /// accessing it can block for ever.
    pub fn is_remote(&self) -> bool {
        const REMOTE: &[&str] = &[
            "9p",
            "afs",
            "autofs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "nfs",
            "nfs4",
            "ocfs2",
            "orangefs",
            "smb3",
            "smbfs",
            "virtiofs",
        ];
        REMOTE.contains(&self.kind.as_str()) || self.is_fuse()
    }

    /// Returns true if a user process serves it. `fuseblk` stands on a block device and does not count.
    pub fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// Returns true if the filesystem is in memory.
    pub fn is_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs")
    }

    /// Returns true if the filesystem stands on block devices: it has a block device's number, or its type hides that
    /// number.
    pub fn is_on_disk(&self) -> bool {
        self.device.0 != 0 || matches!(self.kind.as_str(), "btrfs" | "zfs" | "bcachefs")
    }

    /// Returns the value of a filesystem option (`upperdir`).
    pub fn option_value(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
        2 1 0:30 / /run rw,nosuid shared:5 master:1 - tmpfs tmpfs rw\n\
        3 1 0:40 / /mnt/two\\040words rw - fuse.sshfs host:/x rw\n\
        4 1 8:2 /vol /var/lib rw - xfs /dev/sda2 rw\n\
        broken line\n\
        5 1 0:9 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/u\n";

    #[test]
    fn optional_fields_and_escapes() {
        let mounts = parse_mounts(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!((mounts[0].device, mounts[0].source.as_str()), ((8, 1), "/dev/sda1"));
        assert_eq!(mounts[1].kind, "tmpfs");
        assert_eq!(mounts[2].point, "/mnt/two words");
        assert!(mounts[2].is_remote() && mounts[1].is_memory() && mounts[3].is_on_disk());
        assert_eq!(mounts[4].option_value("upperdir"), Some("/var/lib/u"));
        assert_eq!(unescape_path(b"\\99\\"), "\\99\\");
    }

    #[test]
    fn a_path_lies_on_the_longest_mount_point() {
        let mounts = parse_mounts(TEXT);
        let point = |path| find_mount(&mounts, path).unwrap().point.as_str();
        assert_eq!(point("/var/lib/disk.img"), "/var/lib");
        assert_eq!(point("/var/library"), "/");
        assert_eq!(point("/mnt/two words"), "/mnt/two words");
    }
}
