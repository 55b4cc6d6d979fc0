//! Attach method for kernels without an NBD client: a process of this program shows the export as a
//! [`fuse_file`], and a loop device with direct I/O makes that a block device.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use diskwright_hostfiles::{private_files, programs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use super::journal::{JournalEntry, KeeperTask};
use super::tools::{self, need, run};
use super::{AttachError, file};

/// Default number of connections to the server.
pub const CONNECTIONS: u32 = 4;
/// Name of the process that shows the file.
const PROGRAM: &str = "diskwright-file";
/// Time for that process to connect, and for programs that only change a setting of the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for an ended process or device to disappear.
const GOING: Duration = Duration::from_secs(3);

/// Describes the differences from a local disk.
#[must_use]
pub fn limits() -> Vec<String> {
    vec![
        format!("at most {} requests are in flight at the server", file::IN_FLIGHT),
        "FUSE and the loop device add about 0.1 ms to each request".to_owned(),
        format!("requests of more than {} KiB are split; a FUA write becomes a write and a flush", file::LARGEST >> 10),
        "do not swap to it: when memory is short, the server may wait for memory too".to_owned(),
    ]
}

/// Returns why this method does not work here; `None` if it works.
#[must_use]
pub fn obstacle() -> Option<String> {
    if let Err(error) = need("losetup", "util-linux") {
        return Some(error.to_string());
    }
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if File::options().read(true).write(true).open(node).is_err() && !loaded(module, node) {
            return Some(format!("{node} cannot be opened; this kernel has no {module}, or hides it from containers"));
        }
    }
    None
}

fn loaded(module: &str, node: &str) -> bool {
    let tried = programs::find_program("modprobe")
        .and_then(|modprobe| run(programs::command_without_secrets(modprobe).arg(module), PATIENCE).ok());
    tried.is_some() && File::options().read(true).write(true).open(node).is_ok()
}

/// Returns the folder in which the file is shown; everything is found again by its path.
fn folder(entry: &JournalEntry) -> PathBuf {
    entry.path("mount")
}

fn disk(entry: &JournalEntry) -> PathBuf {
    folder(entry).join(file::NAME)
}

/// Starts the process that shows the file, and waits for the file. This program must handle `disk
/// file FOLDER URI` by calling [`fuse_file::serve_file`].
///
/// # Errors
/// With the message of that process, or that there is none.
pub fn mount(entry: &JournalEntry, task: &KeeperTask) -> Result<Child, AttachError> {
    let step = |e: std::io::Error| AttachError::step("the export's file", e);
    fs::create_dir(folder(entry)).map_err(step)?;
    let log = private_files::create(&entry.path("log"))?;
    // the same program, even if its file has been replaced since
    let mut command = programs::command_without_secrets("/proc/self/exe");
    command.arg0(PROGRAM).args(["disk", "file"]).arg(folder(entry)).arg(&task.uri);
    command.arg("--connections").arg(task.connections.to_string()).args(task.read_only.then_some("--read-only"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map_err(step)?;
    let mut ended = false;
    let came = tools::until(PATIENCE, || {
        ended = !matches!(child.try_wait(), Ok(None));
        ended || fs::metadata(disk(entry)).is_ok()
    });
    if ended || !came {
        let message = fs::read_to_string(entry.path("log")).unwrap_or_default();
        let message = message.lines().last().unwrap_or("its process ended without a message").to_owned();
        let why = if ended { message } else { format!("it did not appear within {} s", PATIENCE.as_secs()) };
        return Err(AttachError::step("the export's file", why));
    }
    Ok(child)
}

/// Makes the loop device; it supports discards if `trims` is set.
///
/// # Errors
/// With the message of losetup, or a missing feature of the device.
pub fn attach(entry: &JournalEntry, read_only: bool, trims: bool) -> Result<String, AttachError> {
    let mut command = programs::command_without_secrets(need("losetup", "util-linux")?);
    command.args(["--find", "--show", "--direct-io=on"]).args(read_only.then_some("--read-only"));
    // concurrent calls get different devices, or an error and a retry
    let output = run(command.arg(disk(entry)), PATIENCE)?;
    let device = output.trim().to_owned();
    let name = device.strip_prefix("/dev/").unwrap_or(&device);
    let queue = Path::new("/sys/block").join(name).join("queue");
    // a split request would count as several; and a loop device keeps the settings of its last user
    for (key, value) in [("max_sectors_kb", file::LARGEST >> 10), ("nr_requests", file::IN_FLIGHT.into())] {
        let step = |e| AttachError::step(format!("{name}/queue/{key}"), e);
        fs::write(queue.join(key), value.to_string()).map_err(step)?;
    }
    if !trims && !read_only {
        learn_no_discards(&device);
    }
    let direct = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/dio")).unwrap_or_default();
    if direct.trim() != "1" {
        return Err(AttachError::step("losetup", format!("{device} does not support direct I/O")));
    }
    Ok(device)
}

/// Makes the kernel learn that a device without TRIM supports no discards: the file refuses the
/// first, and the loop driver offers none from then on. (Setting `discard_max_bytes` to 0 would
/// persist for the device's next user, and Linux 6.18 does not allow raising it again.) Older
/// drivers keep offering it, and each discard is refused.
fn learn_no_discards(device: &str) {
    if let Ok(mut command) = need("blkdiscard", "util-linux").map(programs::command_without_secrets) {
        let _ = run(command.args(["--offset", "0", "--length", "4096"]).arg(device), PATIENCE);
    }
}

/// Returns the loop devices over this entry's file.
#[must_use]
pub fn devices(entry: &JournalEntry) -> Vec<String> {
    let file = disk(entry);
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|e| e.file_name());
    let names = names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("loop"));
    let over = |name: &String| {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
        Path::new(backing.trim_end_matches('\n')) == file
    };
    names.filter(over).map(|name| format!("/dev/{name}")).collect()
}

/// Undoes everything that was made: loop device, mount, the file's process. The entry's folder
/// remains. If the server is gone or hangs (`by_force`), that process is ended first, so that
/// nothing waits for its replies.
///
/// # Errors
/// With what could not be undone.
pub fn undo(entry: &JournalEntry, by_force: bool) -> Result<(), AttachError> {
    let point = folder(entry);
    if by_force {
        tools::end(PROGRAM, &point, Signal::KILL, GOING);
    }
    for device in devices(entry) {
        if detach(&device).is_err() {
            // a flush of its dirty pages may wait for a server that hangs
            tools::end(PROGRAM, &point, Signal::KILL, GOING);
            detach(&device)?;
        }
    }
    // a device that is still open disappears with its last user
    let held = !tools::until(GOING, || devices(entry).is_empty());
    match unmount(&point, UnmountFlags::DETACH) {
        // not mounted, or it does not exist
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(AttachError::step(format!("umount {}", point.display()), error)),
    }
    // it exits when its file has no user left
    let signal = if held || by_force { Signal::KILL } else { Signal::TERM };
    let gone = !held && tools::until(GOING, || tools::running(PROGRAM, &point).is_empty())
        || tools::end(PROGRAM, &point, signal, GOING)
        || tools::end(PROGRAM, &point, Signal::KILL, GOING);
    if gone { Ok(()) } else { Err(AttachError::step("the export's file", "its process does not exit")) }
}

/// Detaches a loop device; one in use disappears with its last user.
///
/// # Errors
/// With the message of losetup, or that it does not end.
pub fn detach(device: &str) -> Result<(), AttachError> {
    match run(programs::command_without_secrets(need("losetup", "util-linux")?).arg("--detach").arg(device), GOING) {
        // someone else detached it first
        Err(AttachError::Step { why, .. }) if why.contains("No such device") => Ok(()),
        done => done.map(|_| ()),
    }
}
