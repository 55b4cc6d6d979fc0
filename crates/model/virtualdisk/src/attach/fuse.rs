//! Attach method for kernels without an NBD client: a process of this program shows the export as a
//! file over FUSE ([`fuse_file`]), and a loop device with direct I/O makes that file a block device.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use diskwright_hostfiles::{private_files, programs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use super::child_processes::{self, find_program, run_with_limit};
use super::journal::{JournalEntry, KeeperTask};
use super::{AttachError, fuse_file};

/// Default number of connections to the server.
pub const DEFAULT_CONNECTIONS: u32 = 4;
/// Name of the process that shows the file.
const FILE_PROCESS_NAME: &str = "diskwright-file";
/// Time for that process to connect, and for programs that only change a setting of the kernel.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for an ended process or device to disappear.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Describes the differences from a local disk.
#[must_use]
pub fn describe_limits() -> Vec<String> {
    vec![
        format!("at most {} requests are in flight at the server", fuse_file::MAX_IN_FLIGHT),
        "FUSE and the loop device add about 0.1 ms to each request".to_owned(),
        format!(
            "requests of more than {} KiB are split; a FUA write becomes a write and a flush",
            fuse_file::MAX_REQUEST_BYTES >> 10
        ),
        "do not swap to it: when memory is short, the server may wait for memory too".to_owned(),
    ]
}

/// Returns why this method does not work here; `None` if it works.
#[must_use]
pub fn find_obstacle() -> Option<String> {
    if let Err(error) = find_program("losetup", "util-linux") {
        return Some(error.to_string());
    }
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if File::options().read(true).write(true).open(node).is_err() && !load_module(module, node) {
            return Some(format!("{node} cannot be opened; this kernel has no {module}, or hides it from containers"));
        }
    }
    None
}

fn load_module(module: &str, node: &str) -> bool {
    let loaded = programs::find_program("modprobe").and_then(|modprobe| {
        run_with_limit(programs::command_without_secrets(modprobe).arg(module), COMMAND_TIMEOUT).ok()
    });
    loaded.is_some() && File::options().read(true).write(true).open(node).is_ok()
}

/// Returns the folder in which the file is shown. By its path, the process and the loop device are found
/// again.
fn mount_folder(entry: &JournalEntry) -> PathBuf {
    entry.path("mount")
}

fn disk_path(entry: &JournalEntry) -> PathBuf {
    mount_folder(entry).join(fuse_file::FILE_NAME)
}

/// Starts the process that shows the file, and waits for the file. This program must handle `disk
/// file FOLDER URI` by calling [`fuse_file::serve_file`].
///
/// # Errors
/// The message of that process, or that there is none.
pub fn mount_file(entry: &JournalEntry, task: &KeeperTask) -> Result<Child, AttachError> {
    let step = |e: std::io::Error| AttachError::step_error("the export's file", e);
    fs::create_dir(mount_folder(entry)).map_err(step)?;
    let log = private_files::create(&entry.path("log"))?;
    // this very program, even if its file has been replaced meanwhile
    let mut command = programs::command_without_secrets("/proc/self/exe");
    command.arg0(FILE_PROCESS_NAME).args(["disk", "file"]).arg(mount_folder(entry)).arg(&task.uri);
    command.arg("--connections").arg(task.connections.to_string()).args(task.read_only.then_some("--read-only"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map_err(step)?;
    let mut has_ended = false;
    let was_in_time = child_processes::wait_until(COMMAND_TIMEOUT, || {
        has_ended = !matches!(child.try_wait(), Ok(None));
        has_ended || fs::metadata(disk_path(entry)).is_ok()
    });
    if has_ended || !was_in_time {
        let message = fs::read_to_string(entry.path("log")).unwrap_or_default();
        let message = message.lines().last().unwrap_or("its process ended without a message").to_owned();
        let why = if has_ended { message } else { format!("it did not appear within {} s", COMMAND_TIMEOUT.as_secs()) };
        return Err(AttachError::step_error("the export's file", why));
    }
    Ok(child)
}

/// Creates the loop device, and returns its path. It supports discards if `trims` is set.
///
/// # Errors
/// The message of losetup, or a missing feature of the device.
pub fn attach_loop(entry: &JournalEntry, read_only: bool, trims: bool) -> Result<String, AttachError> {
    let mut command = programs::command_without_secrets(find_program("losetup", "util-linux")?);
    command.args(["--find", "--show", "--direct-io=on"]).args(read_only.then_some("--read-only"));
    // losetup gives concurrent calls different devices
    let output = run_with_limit(command.arg(disk_path(entry)), COMMAND_TIMEOUT)?;
    let device = output.trim().to_owned();
    let name = device.strip_prefix("/dev/").unwrap_or(&device);
    let queue = Path::new("/sys/block").join(name).join("queue");
    // without these, a split request would count as several, and the device would keep the settings of its last
    // user
    for (key, value) in
        [("max_sectors_kb", fuse_file::MAX_REQUEST_BYTES >> 10), ("nr_requests", fuse_file::MAX_IN_FLIGHT.into())]
    {
        let step = |e| AttachError::step_error(format!("{name}/queue/{key}"), e);
        fs::write(queue.join(key), value.to_string()).map_err(step)?;
    }
    if !trims && !read_only {
        learn_no_discards(&device);
    }
    let direct = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/dio")).unwrap_or_default();
    if direct.trim() != "1" {
        return Err(AttachError::step_error("losetup", format!("{device} does not support direct I/O")));
    }
    Ok(device)
}

/// Makes the kernel notice that a device without TRIM supports no discards: the file refuses the first
/// discard, and then the loop driver stops offering them. (Setting `discard_max_bytes` to 0 would
/// persist for the device's next user, and Linux 6.18 does not allow raising it again.) Older drivers
/// still offer discards, and each of them is refused.
fn learn_no_discards(device: &str) {
    if let Ok(mut command) = find_program("blkdiscard", "util-linux").map(programs::command_without_secrets) {
        let _ = run_with_limit(command.args(["--offset", "0", "--length", "4096"]).arg(device), COMMAND_TIMEOUT);
    }
}

/// Returns the loop devices over this entry's file.
#[must_use]
pub fn loop_devices(entry: &JournalEntry) -> Vec<String> {
    let file = disk_path(entry);
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|e| e.file_name());
    let names = names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("loop"));
    let is_over_file = |name: &String| backing_file(name).is_some_and(|backing| backing == file);
    names.filter(is_over_file).map(|name| format!("/dev/{name}")).collect()
}

/// Returns the file behind a loop device such as `loop0`; `None` if none is attached to it.
fn backing_file(name: &str) -> Option<PathBuf> {
    let path = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(PathBuf::from(path.trim_end_matches('\n')))
}

/// Removes the loop device and the mount, and ends the file's process. The entry's folder remains. If the
/// server is gone or hangs (`by_force`), that process is ended first, so that nothing waits for its
/// replies.
///
/// # Errors
/// The step that could not be undone.
pub fn undo_attach(entry: &JournalEntry, by_force: bool) -> Result<(), AttachError> {
    let point = mount_folder(entry);
    if by_force {
        child_processes::end_processes(FILE_PROCESS_NAME, &point, Signal::KILL, EXIT_TIMEOUT);
    }
    for device in loop_devices(entry) {
        if detach_loop(&device).is_err() {
            // a flush of its dirty pages may wait for a server that hangs
            child_processes::end_processes(FILE_PROCESS_NAME, &point, Signal::KILL, EXIT_TIMEOUT);
            detach_loop(&device)?;
        }
    }
    // a device that is still open disappears with its last user
    let is_in_use = !child_processes::wait_until(EXIT_TIMEOUT, || loop_devices(entry).is_empty());
    match unmount(&point, UnmountFlags::DETACH) {
        // not mounted, or it does not exist
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(AttachError::step_error(format!("umount {}", point.display()), error)),
    }
    // it exits when its file has no user left
    let signal = if is_in_use || by_force { Signal::KILL } else { Signal::TERM };
    let has_ended = !is_in_use
        && child_processes::wait_until(EXIT_TIMEOUT, || {
            child_processes::find_processes(FILE_PROCESS_NAME, &point).is_empty()
        })
        || child_processes::end_processes(FILE_PROCESS_NAME, &point, signal, EXIT_TIMEOUT)
        || child_processes::end_processes(FILE_PROCESS_NAME, &point, Signal::KILL, EXIT_TIMEOUT);
    if has_ended { Ok(()) } else { Err(AttachError::step_error("the export's file", "its process does not exit")) }
}

/// Detaches a loop device; a device in use disappears with its last user.
///
/// # Errors
/// The message of losetup, or that losetup does not end.
pub fn detach_loop(device: &str) -> Result<(), AttachError> {
    let mut command = programs::command_without_secrets(find_program("losetup", "util-linux")?);
    match run_with_limit(command.arg("--detach").arg(device), EXIT_TIMEOUT) {
        // someone else detached it first
        Err(AttachError::Step { .. }) if backing_file(device.trim_start_matches("/dev/")).is_none() => Ok(()),
        result => result.map(|_| ()),
    }
}
