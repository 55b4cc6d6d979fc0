//! Checks the path to which a command writes its output: it must not be a device, a link, or a file that the kernel
//! uses.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use diskwright_base::user_input::nearest_word;
use diskwright_counters::live::Roots;
use diskwright_hostfiles::kernel_filesystems;

use crate::backing_file::{BackingFile, FileMatch};
use crate::claim;
use crate::loop_devices::{self, LoopBacking};
use crate::mounts::MountTable;
use crate::node::{DeviceNumber, FileId, unpack_device_number};
use crate::refusal::Refusal;
use crate::swaps;
use crate::usage;

/// /dev/null and /dev/full, which cannot be damaged.
const HARMLESS_DEVICES: [DeviceNumber; 2] = [(1, 3), (1, 7)];
/// Links to standard output, error and input of this process.
const STREAMS: [&str; 3] = ["/dev/stdout", "/dev/stderr", "/dev/stdin"];
/// Folders with links to all files that this process has open.
const STREAM_FOLDERS: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];

/// Checks whether a command may write its output to this path, creating or replacing a file.
///
/// # Errors
/// The [`Refusal`] describes the path: a device (other than /dev/null, /dev/full and standard output), a link, a
/// folder, a socket, a file in use, or a missing file in /dev, /proc or /sys.
pub fn check_output(path: &Path) -> Result<(), Refusal> {
    let refuse = |problem: String| Err(Refusal::Output { path: path.to_owned(), problem });
    let stream = is_open_stream(path);
    let metadata = if stream { fs::metadata(path) } else { fs::symlink_metadata(path) };
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return check_new(path),
        // opening it will report the error
        Err(_) => return Ok(()),
    };
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let destination = fs::read_link(path).unwrap_or_default();
        return refuse(format!("is a link to {}, and links are not followed when writing", destination.display()));
    }
    if kind.is_block_device() {
        return refuse("is a block device".into());
    }
    if kind.is_char_device() && !stream && !HARMLESS_DEVICES.contains(&unpack_device_number(metadata.rdev())) {
        return refuse("is a character device".into());
    }
    if kind.is_dir() {
        return refuse("is a folder".into());
    }
    if kind.is_socket() && !stream {
        return refuse("is a socket".into());
    }
    let roots = Roots::default();
    match kernel_use(&roots, path, &metadata)
        .or_else(|| if stream { None } else { find_writer(&roots, path, &metadata) })
    {
        Some(why) => refuse(why),
        None => Ok(()),
    }
}

/// Checks whether a file may be created at a path that does not exist: not in /dev, /proc or /sys.
///
/// # Errors
/// [`Refusal::KernelFolder`].
pub fn check_new(path: &Path) -> Result<(), Refusal> {
    match kernel_filesystems::is_kernel_filesystem(path) {
        Ok(true) => Err(Refusal::KernelFolder { path: path.to_owned(), near: nearest_device_hint(path) }),
        // creating it will report an error
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Returns a hint for a missing path: the block device with the most similar name, or the command that lists devices.
fn nearest_device_hint(path: &Path) -> String {
    let (Some(folder), Some(typed)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return String::new();
    };
    let devices = fs::read_dir(folder).into_iter().flatten().flatten();
    let devices = devices.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let mut names: Vec<String> = devices.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    match nearest_word(typed, names.iter().map(String::as_str)) {
        Some(name) => format!(" (did you mean {}?)", folder.join(name).display()),
        None => " (lsblk lists them)".into(),
    }
}

/// Returns true for a path that stands for an open file of this process, such as `/dev/stdout`.
fn is_open_stream(path: &Path) -> bool {
    let is_number = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let in_folder = || {
        let (parent, name) = (path.parent()?, path.file_name()?);
        Some(STREAM_FOLDERS.iter().any(|folder| parent == Path::new(folder)) && is_number(name))
    };
    let has_no_parent = path.components().all(|c| !matches!(c, Component::ParentDir));
    has_no_parent && (STREAMS.iter().any(|stream| path == Path::new(stream)) || in_folder().unwrap_or(false))
}

/// Describes how the kernel uses a regular file; `None` if it does not.
fn kernel_use(roots: &Roots, path: &Path, metadata: &Metadata) -> Option<String> {
    if !metadata.is_file() {
        return None;
    }
    let id = FileId::from_metadata(metadata);
    if swaps::swap_paths(roots)
        .iter()
        .any(|swap| fs::metadata(roots.resolve_path(swap)).is_ok_and(|m| FileId::from_metadata(&m) == id))
    {
        return Some("is a swap file in use".into());
    }
    let mounts = MountTable::read(roots);
    let name = path.display().to_string();
    let output = match File::open(path).and_then(|file| BackingFile::from_open_file(&mounts, &file, name.clone())) {
        Ok(output) => output,
        // the file may be writable but not readable
        Err(_) => BackingFile::from_id(roots, &mounts, id, name, Some(metadata.len())),
    };
    loop_devices::read_loop_devices(roots, &mounts).into_iter().find_map(|device| match &device.below {
        LoopBacking::File(below) => match output.compare_with(below, &mounts) {
            FileMatch::No => None,
            FileMatch::Yes => Some(format!("is the file behind /dev/{}", device.name)),
            FileMatch::Uncertain => Some(format!(
                "may be the file behind /dev/{} ({}), whose path has been removed",
                device.name, below.path
            )),
        },
        LoopBacking::Device(_) => None,
    })
}

/// Describes another writer of the file, which would go on writing to the unlinked file once the output has replaced
/// it.
fn find_writer(roots: &Roots, path: &Path, metadata: &Metadata) -> Option<String> {
    let file = metadata.is_file().then(|| File::open(path).ok()).flatten()?;
    claim::has_writer(&file).then(|| {
        let users = usage::file_users(roots, &file, &path.display().to_string());
        format!("is in use ({})", users.first().map_or("something has it open for writing", |user| user))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal_text(path: &Path) -> String {
        check_output(path).map_or_else(|refusal| refusal.to_string(), |()| "allowed".into())
    }

    #[test]
    fn devices_links_and_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        fs::write(inside("page.html"), "old").unwrap();
        symlink(inside("page.html"), inside("link")).unwrap();
        symlink(inside("nothing"), inside("dangling")).unwrap();
        for (path, expected) in [
            (inside("page.html"), "allowed"),
            (inside("new.html"), "allowed"),
            (inside("no/such/folder"), "allowed"),
            (inside("link"), "is a link to"),
            (inside("dangling"), "is a link to"),
            (folder.path().to_owned(), "is a folder"),
            ("/dev/null".into(), "allowed"),
            ("/dev/full".into(), "allowed"),
            ("/dev/zero".into(), "is a character device"),
            ("/dev/no-such-disk".into(), "no file is created in /dev"),
            ("/proc/no-such-file".into(), "no file is created in /dev, /proc or /sys"),
            ("/sys/block/no-such-disk".into(), "no file is created in /dev, /proc or /sys"),
        ] {
            assert!(refusal_text(&path).contains(expected), "{}: {}", path.display(), refusal_text(&path));
        }
        assert_eq!(fs::read(inside("page.html")).unwrap(), b"old");
        let writer = File::options().append(true).open(inside("page.html")).unwrap();
        assert!(refusal_text(&inside("page.html")).contains("is in use"), "{}", refusal_text(&inside("page.html")));
        drop(writer);
        assert_eq!(refusal_text(&inside("page.html")), "allowed");
        for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"] {
            // in a test it is a pipe, a file or a terminal
            assert_eq!(refusal_text(Path::new(path)), "allowed", "{path}");
        }
        assert!(!is_open_stream(Path::new("/dev/fd/../sda")) && !is_open_stream(Path::new("/dev/fd/x")));
    }

    #[test]
    fn suggests_the_nearest_device_name() {
        let folder = Path::new("/dev");
        let is_device = |e: &fs::DirEntry| e.file_type().is_ok_and(|kind| kind.is_block_device());
        let mut devices = fs::read_dir(folder).into_iter().flatten().flatten().filter(is_device);
        let Some(name) = devices.find_map(|e| e.file_name().into_string().ok()) else {
            return eprintln!("skipped: no block device has a node here");
        };
        // an extra letter at the front: no other name is nearer
        let mistyped = folder.join(format!("x{name}"));
        let message = check_new(&mistyped).expect_err("refused").to_string();
        assert!(message.contains(&format!("(did you mean /dev/{name}?)")), "{message}");
        let message = check_new(Path::new("/dev/nothing-like-any")).expect_err("refused").to_string();
        assert!(message.contains("(lsblk lists them)"), "{message}");
        assert!(!mistyped.exists());
    }

    #[test]
    fn checks_block_devices_and_stream_targets() {
        let Some(disk) = crate::node::sorted_names(Path::new("/sys/block")).into_iter().find(|n| !n.contains('!'))
        else {
            return eprintln!("skipped: no block devices here");
        };
        let path = Path::new("/dev").join(disk);
        if !path.exists() {
            return eprintln!("skipped: {} has no node", path.display());
        }
        assert!(refusal_text(&path).contains("is a block device"), "{}", refusal_text(&path));
        use std::os::fd::AsRawFd;
        if let Ok(open) = File::open(&path) {
            let stream = format!("/proc/self/fd/{}", open.as_raw_fd());
            assert!(refusal_text(Path::new(&stream)).contains("is a block device"));
        }
    }

    #[test]
    fn swap_and_the_files_of_loop_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("swap file", "swap");
        write("disk.img", "disk");
        write("other.img", "disk");
        write("proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n");
        write("sys/block/loop3/loop/backing_file", "/disk.img\n");
        write("sys/block/loop3/dev", "7:3\n");
        fs::hard_link(folder.path().join("disk.img"), folder.path().join("second name")).unwrap();
        let roots = Roots::from_root(folder.path());
        let use_of = |name: &str| {
            let path = folder.path().join(name);
            kernel_use(&roots, &path, &fs::metadata(&path).unwrap())
        };
        assert_eq!(use_of("swap file").as_deref(), Some("is a swap file in use"));
        assert_eq!(use_of("disk.img").as_deref(), Some("is the file behind /dev/loop3"));
        assert_eq!(use_of("second name").as_deref(), Some("is the file behind /dev/loop3"));
        assert_eq!(use_of("other.img"), None);
    }
}
