//! Files of a workload. A file has no name if its filesystem supports that: then nothing is left behind, even if the
//! process is killed. Otherwise its name says what it is, it is locked while in use, and the next workload in that
//! folder removes the files that no process has locked. Free space is checked before anything is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, Advice, FlockOperation, Mode, OFlags, access};

use diskwright_hostfiles::disk_space::{DiskSpace, FilesystemKey};

use crate::{WorkError, io_error};

/// Prefix of the names of work files, if they need names.
const WORK_NAME_PREFIX: &str = ".diskwright-work-";

/// A file in a folder that exists while the workload runs.
#[derive(Debug)]
pub struct WorkFile {
    /// The file, opened for I/O through the file cache.
    file: File,
    folder: PathBuf,
    /// Path of the file, if it has a name; the file is removed on drop.
    name: Option<PathBuf>,
}

impl WorkFile {
    /// Creates an empty file, without a name if possible.
    ///
    /// # Errors
    /// When no file can be made in the folder.
    pub fn create(folder: &Path) -> Result<WorkFile, WorkError> {
        let nameless = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let owner_only = Mode::RUSR | Mode::WUSR;
        if let Ok(file) = rustix::fs::open(folder, nameless, owner_only) {
            return Ok(WorkFile { file: file.into(), folder: folder.to_path_buf(), name: None });
        }
        WorkFile::create_named(folder)
    }

    /// Creates an empty file with a name, for callers that need one.
    ///
    /// # Errors
    /// When no file can be made in the folder.
    pub fn create_named(folder: &Path) -> Result<WorkFile, WorkError> {
        let owner_only = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) = loop {
            let name = next_work_path(folder);
            match rustix::fs::open(&name, flags, owner_only) {
                // a process with the same id in another container works in the same folder
                Err(rustix::io::Errno::EXIST) => {}
                result => break (name, File::from(result.map_err(io_error(folder, "no file can be made"))?)),
            }
        };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io_error(&name, "cannot be locked"))?;
        Ok(WorkFile { file, folder: folder.to_path_buf(), name: Some(name) })
    }

    /// The file, opened for I/O through the file cache.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Path of the file, if it has a name.
    #[must_use]
    pub fn name(&self) -> Option<&Path> {
        self.name.as_deref()
    }

    /// Path of its folder, for messages: it is the path that users know.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Leaves the file behind under its name; the next workload removes it.
    pub fn abandon(mut self) {
        self.name = None;
    }

    /// Writes the file to its device and drops it from the file cache, so that the next reads come from the device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_and_drop_cache(&self) -> Result<(), WorkError> {
        sync_and_drop_cache(&self.file, &self.folder)
    }

    /// Opens the same file for direct I/O, past the file cache.
    ///
    /// # Errors
    /// If the filesystem has no direct I/O.
    pub fn open_direct(&self) -> Result<File, WorkError> {
        open_direct(&self.file, &self.folder)
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // if this fails, the next workload removes it; no caller could act on an error here
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Writes a file to its device and drops it from the file cache, so that the next reads come from the device.
///
/// # Errors
/// When the device fails.
pub fn sync_and_drop_cache(file: &File, path: &Path) -> Result<(), WorkError> {
    file.sync_all().map_err(io_error(path, "cannot be synced"))?;
    drop_from_cache(file);
    Ok(())
}

/// Drops a synced file from the file cache.
pub(crate) fn drop_from_cache(file: &File) {
    // only advice to the kernel; it has no effect on filesystems in memory
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

/// A folder of named files that exists while the workload runs. Its name says what it is, and a locked file in it shows
/// that it is in use.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    lock: File,
}

/// Name of the locked file in a work folder.
const LOCK_FILE_NAME: &str = ".lock";

impl WorkFolder {
    /// Creates an empty work folder.
    ///
    /// # Errors
    /// When no folder can be made there.
    pub fn create(folder: &Path) -> Result<WorkFolder, WorkError> {
        let (path, lock) = loop {
            let path = next_work_path(folder);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // a process with the same id in another container works in the same folder
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                result => result.map_err(io_error(folder, "no folder can be made"))?,
            }
            match File::create_new(path.join(LOCK_FILE_NAME)) {
                // another workload has taken the still empty folder for a leftover, and removed it
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => {
                    let lock = result.map_err(io_error(&path, "cannot be locked"))?;
                    break (path, lock);
                }
            }
        };
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(io_error(&path, "cannot be locked"))?;
        Ok(WorkFolder { path, lock })
    }

    /// Writes all files of its filesystem to their device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync(&self) -> Result<(), WorkError> {
        rustix::fs::syncfs(&self.lock).map_err(io_error(&self.path, "cannot be synced"))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // if this fails, the next workload removes what remains; no caller could act on an error here
        let _ = remove_work_folder(&self.path);
    }
}

/// Returns a path in a folder that no other workload of this host uses.
fn next_work_path(folder: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    folder.join(format!("{WORK_NAME_PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// Opens an open file again for direct I/O, past the file cache.
///
/// # Errors
/// If the filesystem has no direct I/O.
pub fn open_direct(file: &File, path: &Path) -> Result<File, WorkError> {
    let descriptor_path = diskwright_hostfiles::private_files::proc_fd_path(file);
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(descriptor_path, flags, Mode::empty()).or_else(|error| match error {
        // a source that may only be read
        rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS => {
            let descriptor_path = diskwright_hostfiles::private_files::proc_fd_path(file);
            rustix::fs::open(descriptor_path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())
        }
        error => Err(error),
    });
    Ok(file.map_err(io_error(path, "direct I/O is not possible here; try --buffered"))?.into())
}

/// Removes files and folders that killed workloads left in a folder, and returns their paths.
///
/// # Errors
/// When the folder cannot be read.
pub fn remove_leftovers(folder: &Path) -> Result<Vec<PathBuf>, WorkError> {
    let mut removed = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(io_error(folder, "cannot be read"))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(WORK_NAME_PREFIX) {
            continue;
        }
        let path = entry.path();
        // links are skipped, and so are files and folders of other users
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        let is_removed = is_own
            && if metadata.is_dir() {
                remove_unused_folder(&path)
            } else {
                metadata.is_file() && remove_unused_file(&path)
            };
        if is_removed {
            removed.push(path);
        }
    }
    Ok(removed)
}

/// Returns true for a work file that a killed workload left.
#[must_use]
pub fn is_leftover(path: &Path) -> bool {
    let is_work_file = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WORK_NAME_PREFIX));
    is_work_file && lock_if_unused(path).is_some()
}

/// Locks a work file if no process uses it; a process that uses it has locked it. The lock lasts until the returned
/// file is closed.
fn lock_if_unused(path: &Path) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

fn remove_unused_file(path: &Path) -> bool {
    lock_if_unused(path).is_some_and(|_lock| std::fs::remove_file(path).is_ok())
}

fn remove_unused_folder(path: &Path) -> bool {
    match lock_if_unused(&path.join(LOCK_FILE_NAME)) {
        Some(_lock) => remove_work_folder(path).is_ok(),
        // its process was killed before the lock existed, or after it was removed; a folder with files in it stays
        None => std::fs::remove_dir(path).is_ok(),
    }
}

/// Removes a work folder, its lock file last, so that the folder keeps its lock file if the process is killed
/// meanwhile.
fn remove_work_folder(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK_FILE_NAME {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_file(path.join(LOCK_FILE_NAME))?;
    std::fs::remove_dir(path)
}

/// Rejects a folder in which no file can be made, before other files of the workload are written.
///
/// # Errors
/// Names the folder.
pub fn check_folder(folder: &Path) -> Result<(), WorkError> {
    let reason = if !folder.is_dir() {
        "there is no such folder"
    } else if access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        "no file can be made there"
    } else {
        return Ok(());
    };
    Err(WorkError::Usage(format!("{}: {reason}", folder.display())))
}

/// Rejects a workload for which a filesystem has too little free space. `needs` has the bytes for each folder; needs of
/// folders on one filesystem add up.
///
/// # Errors
/// Names the folder, the bytes needed and the bytes free.
pub fn check_free_space(needs: &[(&Path, u64)]) -> Result<(), WorkError> {
    let mut by_filesystem: BTreeMap<FilesystemKey, (&Path, u64)> = BTreeMap::new();
    for &(folder, bytes) in needs {
        let filesystem = FilesystemKey::for_path(folder).map_err(io_error(folder, "cannot be examined"))?;
        let needed = &mut by_filesystem.entry(filesystem).or_insert((folder, 0)).1;
        *needed = needed.saturating_add(bytes);
    }
    for (folder, needed) in by_filesystem.into_values() {
        let open_folder = File::open(folder).map_err(io_error(folder, "cannot be opened"))?;
        let space = DiskSpace::for_file(&open_folder)
            .map_err(io_error(folder, "the free space of its filesystem cannot be read"))?;
        if needed > space.free_bytes.saturating_sub(space.reserve_bytes) {
            let (free, reserve) = (space.free_bytes, space.reserve_bytes);
            return Err(WorkError::NoRoom { folder: folder.to_path_buf(), needed, free, reserve });
        }
    }
    Ok(())
}

/// Returns two of the folders that lie on the same filesystem, if any.
///
/// # Errors
/// When a folder cannot be examined.
pub fn find_shared_filesystem<'a>(folders: &[&'a Path]) -> Result<Option<(&'a Path, &'a Path)>, WorkError> {
    let mut seen: BTreeMap<FilesystemKey, &Path> = BTreeMap::new();
    for &folder in folders {
        let filesystem = FilesystemKey::for_path(folder).map_err(io_error(folder, "cannot be examined"))?;
        if let Some(&first_folder) = seen.get(&filesystem) {
            return Ok(Some((first_folder, folder)));
        }
        seen.insert(filesystem, folder);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_leftovers_and_keeps_files_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = WorkFile::create(folder.path()).unwrap();
        assert!(file.name.is_some() || std::fs::read_dir(folder.path()).unwrap().next().is_none());
        drop(file);
        let held = folder.path().join(format!("{WORK_NAME_PREFIX}1-0"));
        let holder = File::create(&held).unwrap();
        rustix::fs::flock(&holder, FlockOperation::LockExclusive).unwrap();
        std::fs::write(folder.path().join(format!("{WORK_NAME_PREFIX}1-1")), "left").unwrap();
        std::fs::write(folder.path().join("ours"), "").unwrap();
        let busy = WorkFolder::create(folder.path()).unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join(format!("{WORK_NAME_PREFIX}1-2"))).unwrap();
        assert_eq!(remove_leftovers(folder.path()).unwrap(), [folder.path().join(format!("{WORK_NAME_PREFIX}1-1"))]);
        assert!(held.exists() && folder.path().join("ours").exists() && busy.path().exists());
        let (left, own) = (folder.path().join(format!("{WORK_NAME_PREFIX}1-3")), busy.path().to_path_buf());
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join(LOCK_FILE_NAME), "").unwrap();
        assert_eq!(remove_leftovers(folder.path()).unwrap(), [left]);
        drop(busy);
        assert!(!own.exists());
    }

    /// Process ids are those of a container, and two containers may work in one folder.
    #[test]
    fn skips_names_taken_by_another_container() {
        let folder = tempfile::tempdir().unwrap();
        // other tests of this process use numbers meanwhile, but not as many
        let next = next_work_path(folder.path()).to_string_lossy().rsplit_once('-').unwrap().1.parse::<u64>().unwrap();
        let taken = |number: u64| folder.path().join(format!("{WORK_NAME_PREFIX}{}-{number}", std::process::id()));
        (next..next + 1000).for_each(|number| std::fs::write(taken(number), "theirs").unwrap());
        let (file, work) = (WorkFile::create_named(folder.path()).unwrap(), WorkFolder::create(folder.path()).unwrap());
        assert!(file.name().unwrap().is_file() && work.path().is_dir());
        drop((file, work));
        assert!((next..next + 1000).all(|number| std::fs::read_to_string(taken(number)).unwrap() == "theirs"));
    }

    #[test]
    fn removes_folders_left_while_being_made_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: u32| folder.path().join(format!("{WORK_NAME_PREFIX}1-{number}"));
        // killed before it had its lock, or when everything but the folder was removed
        std::fs::create_dir(name(0)).unwrap();
        // a folder with files but without a lock does not belong to this program
        std::fs::create_dir(name(1)).unwrap();
        std::fs::write(name(1).join("letter"), "").unwrap();
        assert_eq!(remove_leftovers(folder.path()).unwrap(), [name(0)]);
        assert!(name(1).join("letter").exists());
        std::fs::create_dir_all(name(2).join("deep/er")).unwrap();
        std::fs::write(name(2).join(LOCK_FILE_NAME), "").unwrap();
        assert_eq!((remove_leftovers(folder.path()).unwrap(), name(2).exists()), (vec![name(2)], false));
    }

    #[test]
    fn needs_of_one_filesystem_add_up() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let space = DiskSpace::for_file(File::open(a.path()).unwrap()).unwrap();
        let half = (space.free_bytes - space.reserve_bytes) / 10 * 7;
        check_free_space(&[(a.path(), half)]).unwrap();
        let error = check_free_space(&[(a.path(), half), (b.path(), half)]).unwrap_err().to_string();
        assert!(error.contains("nothing was written"), "{error}");
        assert!(find_shared_filesystem(&[a.path(), b.path()]).unwrap().is_some());
        assert!(find_shared_filesystem(&[a.path(), Path::new("/proc")]).unwrap().is_none());
    }
}
