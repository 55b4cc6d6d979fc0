//! The kernel's own file systems (/dev, /proc, /sys). A file that is created in one of them lies in
//! memory and looks like a device, or is refused with an error message that misleads.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Folders in which nothing is created. [`ALLOWED_FOLDERS`] lists the exceptions
/// below them.
const KERNEL_FOLDERS: &[&str] = &["/dev", "/proc", "/sys"];
/// Folders below these that are meant for files of programs.
const ALLOWED_FOLDERS: &[&str] = &["/dev/shm"];

/// Returns true if a new file at this path would be created in /dev, /proc or /sys, under any
/// name: links in the path are followed, and a bind mount of /dev counts as /dev.
///
/// # Errors
/// If the folder cannot be examined.
pub fn is_kernel_filesystem(path: &Path) -> io::Result<bool> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = deepest_existing_folder(&std::path::absolute(folder)?)?;
    if ALLOWED_FOLDERS.iter().any(|allowed| folder.starts_with(allowed)) {
        return Ok(false);
    }
    let device = fs::metadata(&folder)?.dev();
    let is_same_file_system = |kernel_folder: &&str| {
        // if /dev is a plain folder of the root file system, an equal device number proves nothing
        let is_root = fs::metadata("/").is_ok_and(|root| root.dev() == device);
        !is_root && fs::metadata(kernel_folder).is_ok_and(|found| found.dev() == device)
    };
    Ok(KERNEL_FOLDERS.iter().any(|kernel_folder| folder.starts_with(kernel_folder))
        || KERNEL_FOLDERS.iter().any(is_same_file_system))
}

/// Returns the deepest existing folder of a path, with links resolved.
fn deepest_existing_folder(folder: &Path) -> io::Result<PathBuf> {
    let mut tried = folder.to_owned();
    loop {
        match fs::canonicalize(&tried) {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let has_parent = tried.components().next_back().is_some_and(|c| matches!(c, Component::Normal(_)));
                if !has_parent || !tried.pop() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_folders_are_recognized_under_any_name() {
        for path in ["/dev/sdz", "/dev/mapper/new/deep", "/proc/new", "/sys/block/new", "/dev/../dev/x"] {
            assert!(is_kernel_filesystem(Path::new(path)).unwrap(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev", &link).unwrap();
        assert!(is_kernel_filesystem(&link.join("sdz")).unwrap());
        assert!(!is_kernel_filesystem(&folder.path().join("page.html")).unwrap());
        assert!(!is_kernel_filesystem(&folder.path().join("new folder/page.html")).unwrap());
        assert!(!is_kernel_filesystem(Path::new("page.html")).unwrap());
        if Path::new("/dev/shm").is_dir() {
            assert!(!is_kernel_filesystem(Path::new("/dev/shm/page.html")).unwrap());
        }
    }
}
