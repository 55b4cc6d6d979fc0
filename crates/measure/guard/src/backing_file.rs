//! Files, and whether two of them are the same. Their numbers do not always tell: overlayfs shows
//! other numbers than the filesystem below it. Their paths do not either: a loop device's file may be
//! unlinked or mounted over.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use diskwright_counters::live::Roots;
use diskwright_hostfiles::extents;
use rustix::fs::{AtFlags, Statx, StatxFlags};

use crate::mounts::MountTable;
use crate::node::{DeviceNumber, FileId, block_device_number};

/// Suffix that /sys adds to the path of an unlinked file.
const DELETED: &str = " (deleted)";

/// A file that may be behind a device, or the target itself.
#[derive(Debug)]
pub(crate) struct BackingFile {
    /// Its number; `None` if only a path is known, which may lead elsewhere.
    pub id: Option<FileId>,
    /// Its path; empty if unknown.
    pub path: String,
    /// Its size, bytes, if known.
    pub bytes: Option<u64>,
    /// Its number may be another filesystem's view of it.
    stacked: bool,
    /// The server of its filesystem does not respond.
    server_hangs: bool,
    /// The file, open for reading, if it could be opened.
    opened: Option<File>,
}

/// Result of comparing two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMatch {
    Yes,
    No,
    /// They cannot be distinguished.
    Uncertain,
}

impl BackingFile {
    /// Creates the entry of an open file.
    pub fn from_open_file(mounts: &MountTable, file: &File, path: String) -> std::io::Result<BackingFile> {
        let metadata = file.metadata()?;
        let id = FileId::from_metadata(&metadata);
        let (stacked, bytes) = (mounts.may_be_stacked(id.device), Some(metadata.len()));
        Ok(BackingFile { id: Some(id), path, bytes, stacked, server_hangs: false, opened: Some(file.try_clone()?) })
    }

    /// Creates the entry of a file whose number is certain. `path` is one that it once had, `bytes` the
    /// smallest size that it can have.
    pub fn from_id(roots: &Roots, mounts: &MountTable, id: FileId, path: String, bytes: Option<u64>) -> BackingFile {
        let stacked = mounts.may_be_stacked(id.device);
        let mut file = BackingFile { id: Some(id), path, bytes, stacked, server_hangs: false, opened: None };
        if mounts.have_stacks() && !mounts.may_hang(&file.path) {
            let has_id = |f: &File| f.metadata().is_ok_and(|m| FileId::from_metadata(&m) == id);
            let is_regular = fs::metadata(roots.resolve_path(&file.path)).is_ok_and(|m| m.is_file());
            file.opened = is_regular.then(|| File::open(roots.resolve_path(&file.path)).ok()).flatten().filter(has_id);
        }
        file
    }

    /// Creates the entry of a file of which only a former path and the smallest possible size are known.
    ///
    /// # Errors
    /// The number of the block device at that path, if there is one.
    pub fn from_path(
        roots: &Roots,
        mounts: &MountTable,
        path: String,
        bytes: Option<u64>,
    ) -> Result<BackingFile, DeviceNumber> {
        let unknown =
            |path| Ok(BackingFile { id: None, path, bytes, stacked: false, server_hangs: false, opened: None });
        if path.ends_with(DELETED) || mounts.may_hang(&path) {
            return unknown(path);
        }
        let Ok(metadata) = fs::metadata(roots.resolve_path(&path)) else { return unknown(path) };
        if let Some(number) = block_device_number(&metadata) {
            return Err(number);
        }
        // too small: another file has taken its place
        if bytes.is_some_and(|bytes| metadata.len() < bytes) {
            return unknown(path);
        }
        Ok(BackingFile::from_id(roots, mounts, FileId::from_metadata(&metadata), path, bytes))
    }

    /// Creates the entry of a file on a filesystem whose server does not respond.
    pub fn on_hanging_server(path: String, bytes: Option<u64>) -> BackingFile {
        BackingFile { id: None, path, bytes, stacked: false, server_hangs: true, opened: None }
    }

    /// Returns the path without the suffix ` (deleted)` of /sys.
    pub fn name(&self) -> &str {
        self.path.strip_suffix(DELETED).unwrap_or(&self.path)
    }

    /// Returns the device number of the filesystem on which the file lies, or on which its path is.
    fn filesystem_device(&self, mounts: &MountTable) -> Option<DeviceNumber> {
        self.id.map(|id| id.device).or_else(|| mounts.filesystem_at(self.name()))
    }

    /// Compares this file with another.
    pub fn compare_with(&self, other: &BackingFile, mounts: &MountTable) -> FileMatch {
        match (self.id, other.id) {
            (Some(own), Some(others)) if own == others => return FileMatch::Yes,
            (Some(_), Some(_)) if !self.stacked && !other.stacked => return FileMatch::No,
            (None, Some(id)) if !mounts.may_lie_at(id.device, self.name()) && !other.stacked => return FileMatch::No,
            (Some(id), None) if !mounts.may_lie_at(id.device, other.name()) && !self.stacked => return FileMatch::No,
            // without a number, the filesystem is that of the path. Both files must be on it: a slow
            // server may have answered for one of them in time
            _ if (self.server_hangs || other.server_hangs)
                && self.filesystem_device(mounts) != other.filesystem_device(mounts) =>
            {
                return FileMatch::No;
            }
            _ => {}
        }
        if let (Some(own), Some(others)) = (&self.opened, &other.opened) {
            return compare_open_files(own, others);
        }
        // the size of a loop device is known only in whole sectors
        let sectors = |file: &BackingFile| file.bytes.map(|bytes| bytes / crate::loop_devices::SECTOR_BYTES);
        match (sectors(self), sectors(other)) {
            (Some(own), Some(others)) if own != others => FileMatch::No,
            _ => FileMatch::Uncertain,
        }
    }

    /// Returns whether an open file of a process, under another number, is this one.
    pub fn is_open_at(&self, link: &Path, found: &Statx) -> bool {
        let Some(own) = &self.opened else { return false };
        let other = FileFingerprint::from(found);
        if FileFingerprint::read_fingerprint(own).is_some_and(|own| own.differs_from(&other)) {
            return false;
        }
        // the caller passes only regular files, which can be opened without an effect
        File::open(link).is_ok_and(|other| compare_open_files(own, &other) != FileMatch::No)
    }

    /// Returns whether its number may be another filesystem's view of it.
    pub fn is_stacked(&self) -> bool {
        self.stacked
    }
}

/// Adds a file to a list if it is new. Returns its index with `false`, then the indexes of the other
/// entries that may be the same file with `true`. A file that matches only uncertainly still gets its own
/// entry, with which a later device's file can match for certain.
pub(crate) fn register_file(
    files: &mut Vec<BackingFile>,
    file: BackingFile,
    mounts: &MountTable,
) -> Vec<(usize, bool)> {
    let matches: Vec<FileMatch> = files.iter().map(|known| known.compare_with(&file, mounts)).collect();
    let own_index = matches.iter().position(|found| *found == FileMatch::Yes).unwrap_or(files.len());
    if own_index == files.len() {
        files.push(file);
    }
    let uncertain = (0..matches.len()).filter(|index| matches[*index] == FileMatch::Uncertain);
    std::iter::once((own_index, false)).chain(uncertain.map(|index| (index, true))).collect()
}

/// Attributes that a stacked filesystem passes on unchanged.
#[derive(PartialEq, Eq)]
struct FileFingerprint {
    /// Seconds and nanoseconds.
    birth_time: Option<(i64, u32)>,
    mode: u16,
    /// User and group.
    owner: (u32, u32),
    bytes: u64,
}

impl From<&Statx> for FileFingerprint {
    fn from(found: &Statx) -> FileFingerprint {
        let has_birth_time = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let birth_time = has_birth_time.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        FileFingerprint {
            birth_time,
            mode: found.stx_mode,
            owner: (found.stx_uid, found.stx_gid),
            bytes: found.stx_size,
        }
    }
}

impl FileFingerprint {
    fn read_fingerprint(file: &File) -> Option<FileFingerprint> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let status = rustix::fs::statx(file, "", flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME).ok()?;
        Some(FileFingerprint::from(&status))
    }

    /// Returns whether two files are certainly different. The birth time decides if both have one,
    /// because a size may change between two readings.
    fn differs_from(&self, other: &FileFingerprint) -> bool {
        match (self.birth_time, other.birth_time) {
            (Some(own), Some(others)) => own != others,
            _ => self != other,
        }
    }
}

/// Compares two open files: by the attributes of [`FileFingerprint`], by size, then by their extents on the disk.
fn compare_open_files(own: &File, others: &File) -> FileMatch {
    let fingerprints = [own, others, own].map(FileFingerprint::read_fingerprint);
    if let [Some(before), Some(other), Some(after)] = fingerprints {
        // Files that were created in the same tick of the kernel's clock share a birth time, so sizes are compared
        // too; but only if this file's size did not change while the other one was read.
        let sizes_differ = before.bytes == after.bytes && before.bytes != other.bytes;
        if before.differs_from(&other) || sizes_differ {
            return FileMatch::No;
        }
    }
    match (extent_offsets(own), extent_offsets(others)) {
        (Some(own), Some(others)) if !own.is_empty() && !others.is_empty() => {
            if own.iter().any(|extent| others.contains(extent)) { FileMatch::Yes } else { FileMatch::No }
        }
        _ => FileMatch::Uncertain,
    }
}

/// Returns the first extents of a file: offset in the file, offset on the disk. `None` if the filesystem does not
/// support it.
fn extent_offsets(file: impl AsFd) -> Option<Vec<(u64, u64)>> {
    let extents = extents::read_extents(file, 0).ok()?;
    Some(extents.iter().filter(|e| e.is_placed).map(|e| (e.logical, e.physical)).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn backing(id: Option<FileId>, path: &str, bytes: u64) -> BackingFile {
        BackingFile { id, path: path.into(), bytes: Some(bytes), stacked: false, server_hangs: false, opened: None }
    }

    fn id(device: DeviceNumber, inode: u64) -> Option<FileId> {
        Some(FileId { device, inode })
    }

    #[test]
    fn files_are_compared_by_number_and_doubted_without() {
        let mounts = MountTable::default();
        let file = |inode| backing(id((8, 1), inode), "/x.img", 4096);
        assert_eq!(file(5).compare_with(&file(5), &mounts), FileMatch::Yes);
        assert_eq!(file(5).compare_with(&file(6), &mounts), FileMatch::No);
        // no table of mounts: nothing can lie at the path
        let lost = backing(None, "/x.img (deleted)", 4096);
        assert_eq!(lost.compare_with(&file(5), &mounts), FileMatch::No);
        let made_up = backing(id((0, 60), 5), "/y.img", 4096);
        assert_eq!(lost.compare_with(&made_up, &mounts), FileMatch::Uncertain);
        assert_eq!(lost.compare_with(&backing(id((0, 60), 5), "/y.img", 8192), &mounts), FileMatch::No);
        assert_eq!(lost.name(), "/x.img");
        let hanging = BackingFile::on_hanging_server("/y.img".into(), Some(4096));
        assert_eq!(hanging.compare_with(&made_up, &mounts), FileMatch::No, "that one lies elsewhere");
        assert_eq!(
            hanging.compare_with(&BackingFile::on_hanging_server("/y.img".into(), Some(4096)), &mounts),
            FileMatch::Uncertain
        );
    }

    #[test]
    fn a_doubt_never_stands_in_for_the_file_itself() {
        let mounts = MountTable::default();
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let open = |name: &str| {
            std::fs::write(folder.path().join(name), [7; 4096]).unwrap();
            File::open(folder.path().join(name)).unwrap()
        };
        // one through an overlay, one whose path is covered, and the same again by a path that
        // leads to it
        let shown =
            BackingFile { stacked: true, opened: Some(open("a")), ..backing(id((0, 60), 5), "/merged/a", 4096) };
        let covered = backing(id((8, 1), 6), "/covered/b", 4096);
        let reached = BackingFile { opened: Some(open("b")), ..backing(id((8, 1), 6), "/bound/b", 4096) };
        let mut files = Vec::new();
        assert_eq!(register_file(&mut files, shown, &mounts), [(0, false)]);
        assert_eq!(register_file(&mut files, covered, &mounts), [(1, false), (0, true)]);
        assert_eq!(register_file(&mut files, reached, &mounts)[0], (1, false));
        assert_eq!(files.len(), 2);
    }

    #[test]
    fn files_of_one_clock_tick_are_told_apart_by_size() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = |index: usize| {
            let path = folder.path().join(index.to_string());
            // not written back yet, so that it has no place on the disk
            std::fs::write(&path, vec![7; 4096 * index]).unwrap();
            File::open(path).unwrap()
        };
        let files: Vec<File> = (1..=100).map(file).collect();
        for pair in files.windows(2) {
            assert_eq!(compare_open_files(&pair[0], &pair[1]), FileMatch::No);
        }
    }

    #[test]
    fn open_files_are_compared_by_their_place_on_the_disk() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all(&[7; 65_536]).unwrap();
            file.sync_all().unwrap();
            (file, path)
        };
        let ((first, path), (second, _)) = (file("first"), file("second"));
        let again = File::open(path).unwrap();
        match extent_offsets(&first) {
            Some(found) if !found.is_empty() => {
                assert_eq!(compare_open_files(&first, &again), FileMatch::Yes);
                assert_eq!(compare_open_files(&first, &second), FileMatch::No);
            }
            _ => eprintln!("skipped: the filesystem does not tell where files lie"),
        }
    }
}
