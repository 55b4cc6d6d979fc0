//! The kernel's table of mounts (`/proc/self/mountinfo`), and how the kernel writes paths in its tables.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A table of the kernel as text; empty where it cannot be read. Names in it may hold any bytes: what is no text is
/// replaced, so that one such name hides no other row.
#[must_use]
pub fn table(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// A path as the kernel writes it in its tables: blanks and backslashes are octal (`\040`).
#[must_use]
pub fn unescaped(word: &[u8]) -> Vec<u8> {
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

/// The same as a path.
#[must_use]
pub fn unescaped_path(word: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescaped(word.as_bytes())))
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRow<'t> {
    /// What of the filesystem is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// The filesystem's type.
    pub kind: &'t str,
    /// What is mounted, as the kernel writes it (`/dev/sda1`).
    pub source: &'t str,
    /// The filesystem's options, separated by commas.
    pub options: &'t str,
}

/// The rows of a table; what is no row is left out.
pub fn rows(table: &str) -> impl Iterator<Item = MountRow<'_>> {
    table.lines().filter_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescaped_path(place.next()?), unescaped_path(place.next()?));
        let mut what = what.split(' ');
        Some(MountRow {
            root,
            point,
            kind: what.next()?,
            source: what.next()?,
            options: what.next().unwrap_or_default(),
        })
    })
}

/// The mount that a path without links lies on: the last one at the longest fitting place, which is on top.
#[must_use]
pub fn holding<'t>(table: &'t str, path: &Path) -> Option<MountRow<'t>> {
    rows(table).filter(|row| path.starts_with(&row.point)).max_by_key(|row| row.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_kernels_tables() {
        let read = |word: &str| unescaped_path(word).to_string_lossy().into_owned();
        assert_eq!([read("/a\\040b\\134"), read("/a\\04"), read("\\777x")], ["/a b\\", "/a\\04", "\\777x"]);
    }

    #[test]
    fn the_last_mount_at_the_longest_place_holds_a_path() {
        let table = "26 1 0:23 / / rw - ext4 /dev/sda2 rw\n\
                     40 26 0:24 /sub /home rw shared:3 - btrfs /dev/sdb rw,subvol=/sub\n\
                     no row\n41 26 0:25 / /home rw - tmpfs none\n";
        let source = |path: &str| holding(table, Path::new(path)).map(|row| (row.kind, row.source, row.options));
        assert_eq!(source("/home/me"), Some(("tmpfs", "none", "")));
        assert_eq!(source("/homes"), Some(("ext4", "/dev/sda2", "rw")));
        assert_eq!((rows(table).count(), rows(table).nth(1).unwrap().root), (3, PathBuf::from("/sub")));
        assert_eq!(holding("", Path::new("/")), None);
    }
}
