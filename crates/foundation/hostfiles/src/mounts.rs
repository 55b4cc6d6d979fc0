//! The kernel's table of mounts (`/proc/self/mountinfo`), and the escapes of paths in the kernel's tables.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Reads a table of the kernel as text; empty if it cannot be read. Names in it may hold any bytes: invalid UTF-8 is
/// replaced, so that one such name hides no other row.
#[must_use]
pub fn read_table(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Decodes a path of the kernel's tables, in which blanks and backslashes are octal (`\040`).
#[must_use]
pub fn unescape_octal(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let value = digits.map(|digits| digits.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0')));
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Decodes a path of the kernel's tables to a [`PathBuf`].
#[must_use]
pub fn unescape_path(word: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape_octal(word.as_bytes())))
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRow<'t> {
    /// Folder of the filesystem that is mounted.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// The filesystem's type.
    pub kind: &'t str,
    /// Mounted device or source, as the kernel writes it (`/dev/sda1`).
    pub source: &'t str,
    /// The filesystem's options, separated by commas.
    pub options: &'t str,
}

/// Parses the rows of a table; malformed lines are skipped.
pub fn parse_mounts(table: &str) -> impl Iterator<Item = MountRow<'_>> {
    table.lines().filter_map(|line| {
        let (mount_fields, filesystem_fields) = line.split_once(" - ")?;
        let mut mount_fields = mount_fields.split(' ').skip(3);
        let (root, point) = (unescape_path(mount_fields.next()?), unescape_path(mount_fields.next()?));
        let mut filesystem_fields = filesystem_fields.split(' ');
        Some(MountRow {
            root,
            point,
            kind: filesystem_fields.next()?,
            source: filesystem_fields.next()?,
            options: filesystem_fields.next().unwrap_or_default(),
        })
    })
}

/// Finds the mount that holds a path without links: the last of the mounts with the longest matching mount point, which
/// is on top.
#[must_use]
pub fn find_mount<'t>(table: &'t str, path: &Path) -> Option<MountRow<'t>> {
    parse_mounts(table).filter(|row| path.starts_with(&row.point)).max_by_key(|row| row.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_in_paths_are_decoded() {
        let read = |word: &str| unescape_path(word).to_string_lossy().into_owned();
        assert_eq!([read("/a\\040b\\134"), read("/a\\04"), read("\\777x")], ["/a b\\", "/a\\04", "\\777x"]);
    }

    #[test]
    fn the_last_mount_at_the_longest_place_holds_a_path() {
        let table = "26 1 0:23 / / rw - ext4 /dev/sda2 rw\n\
                     40 26 0:24 /sub /home rw shared:3 - btrfs /dev/sdb rw,subvol=/sub\n\
                     no row\n41 26 0:25 / /home rw - tmpfs none\n";
        let source = |path: &str| find_mount(table, Path::new(path)).map(|row| (row.kind, row.source, row.options));
        assert_eq!(source("/home/me"), Some(("tmpfs", "none", "")));
        assert_eq!(source("/homes"), Some(("ext4", "/dev/sda2", "rw")));
        assert_eq!((parse_mounts(table).count(), parse_mounts(table).nth(1).unwrap().root), (3, PathBuf::from("/sub")));
        assert_eq!(find_mount("", Path::new("/")), None);
    }
}
