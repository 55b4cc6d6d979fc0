//! The kernel's own file systems (/dev, /proc, /sys). A file that is created in one of them lies in
//! memory and looks like a device, or is refused with an error message that misleads.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Folders in which nothing is created. [`ALLOWED_FOLDERS`] lists the exceptions
/// below them.
const REFUSED: &[&str] = &["/dev", "/proc", "/sys"];
/// Folders below these that are meant for files of programs.
const ALLOWED: &[&str] = &["/dev/shm"];

/// Returns true if a new file at this path would be created in /dev, /proc or /sys, under any
/// name: links in the path are followed, and a bind mount of /dev counts as /dev.
///
/// # Errors
/// Where the folder cannot be examined.
pub fn owns(path: &Path) -> io::Result<bool> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = existing(&std::path::absolute(folder)?)?;
    if ALLOWED.iter().any(|allowed| folder.starts_with(allowed)) {
        return Ok(false);
    }
    let device = fs::metadata(&folder)?.dev();
    let same_file_system = |own: &&str| {
        // where /dev is a plain folder of the root file system, an equal device number proves nothing
        let is_root = fs::metadata("/").is_ok_and(|root| root.dev() == device);
        !is_root && fs::metadata(own).is_ok_and(|found| found.dev() == device)
    };
    Ok(REFUSED.iter().any(|own| folder.starts_with(own)) || REFUSED.iter().any(same_file_system))
}

/// Returns the deepest existing folder of a path, with links resolved.
fn existing(folder: &Path) -> io::Result<PathBuf> {
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
    fn the_kernels_folders_are_known_by_any_name() {
        for path in ["/dev/sdz", "/dev/mapper/new/deep", "/proc/new", "/sys/block/new", "/dev/../dev/x"] {
            assert!(owns(Path::new(path)).unwrap(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev", &link).unwrap();
        assert!(owns(&link.join("sdz")).unwrap());
        assert!(!owns(&folder.path().join("page.html")).unwrap());
        assert!(!owns(&folder.path().join("new folder/page.html")).unwrap());
        assert!(!owns(Path::new("page.html")).unwrap());
        if Path::new("/dev/shm").is_dir() {
            assert!(!owns(Path::new("/dev/shm/page.html")).unwrap());
        }
    }
}
