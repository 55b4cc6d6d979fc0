//! A change is really written to the kernel's setting of a block device and really taken back.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use diskwright_advise::{ChangeBook, SettingWrite};

/// A loop device over a file, detached at the end.
struct LoopDevice {
    device: String,
    _folder: tempfile::TempDir,
}

impl LoopDevice {
    /// None, with the reason printed, where this machine does not give one.
    fn attach() -> Option<LoopDevice> {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("an image");
        let answer = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        match answer {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8(output.stdout).expect("a name").trim().to_owned();
                Some(LoopDevice { device, _folder: folder })
            }
            Ok(output) => skip(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => skip(&error.to_string()),
        }
    }

    fn setting(&self, file: &str) -> PathBuf {
        PathBuf::from(self.device.replace("/dev/", "/sys/block/")).join("queue").join(file)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

fn skip<T>(because: &str) -> Option<T> {
    eprintln!("skipped: no loop device (root is needed): {}", because.trim());
    None
}

#[test]
fn writes_and_restores_a_block_device_setting() {
    let Some(device) = LoopDevice::attach() else { return };
    let path = device.setting("read_ahead_kb");
    let now = || fs::read_to_string(&path).expect("a setting").trim().to_owned();
    let before = now();
    let after = if before == "256" { "512" } else { "256" };
    let write = SettingWrite { path: path.display().to_string(), before: before.clone(), after: after.into() };
    if let Err(error) = fs::write(&path, &before) {
        return skip(&error.to_string()).unwrap_or_default();
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut book = ChangeBook::open(state.path()).expect("a record");
    book.apply_writes("queue.read-ahead@loop", "2026-01-01T00:00:00Z", std::slice::from_ref(&write)).expect("applied");
    assert_eq!(now(), after);
    // the next run of the program takes it back, with nothing but the record
    let mut book = ChangeBook::open(state.path()).expect("the record");
    book.undo_change("queue.read-ahead@loop").expect("undone");
    assert_eq!(now(), before);
    assert!(ChangeBook::open(state.path()).expect("the record").changes().is_empty());
    // what somebody else has set meanwhile stays
    book.apply_writes("queue.read-ahead@loop", "2026-01-01T00:00:00Z", &[write]).expect("applied");
    fs::write(&path, "1024").expect("somebody else's");
    book.undo_change("queue.read-ahead@loop").expect_err("it is not ours any more");
    assert_eq!(now(), "1024");
}

/// The kernel resets them when the scheduler changes, and they were set by hand.
#[test]
fn restores_settings_that_a_scheduler_resets() {
    let Some(device) = LoopDevice::attach() else { return };
    let path = device.setting("scheduler");
    let fifo = device.setting("iosched/fifo_batch");
    if fs::write(&path, "mq-deadline").and_then(|()| fs::write(&fifo, "7")).is_err() {
        return skip("no mq-deadline").unwrap_or_default();
    }
    fs::write(device.setting("nr_requests"), "48").expect("a number of requests");
    let write = SettingWrite { path: path.display().to_string(), before: "mq-deadline".into(), after: "none".into() };
    let state = tempfile::tempdir().expect("a folder");
    let mut book = ChangeBook::open(state.path()).expect("a record");
    book.apply_writes("queue.scheduler@loop", "2026-01-01T00:00:00Z", std::slice::from_ref(&write)).expect("applied");
    assert!(fs::read_to_string(&path).expect("a setting").contains("[none]"));
    book.undo_change("queue.scheduler@loop").expect("undone");
    let now = |file: &str| fs::read_to_string(device.setting(file)).expect("a setting").trim().to_owned();
    assert_eq!((now("iosched/fifo_batch"), now("nr_requests")), ("7".into(), "48".into()));
}

/// A change that somebody has overwritten can be made again; it was refused both to apply and to undo it.
#[test]
fn overwritten_change_can_be_applied_again() {
    let Some(device) = LoopDevice::attach() else { return };
    let path = device.setting("read_ahead_kb");
    let write = SettingWrite { path: path.display().to_string(), before: String::new(), after: "512".into() };
    if let Err(error) = fs::write(&path, "256") {
        return skip(&error.to_string()).unwrap_or_default();
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut book = ChangeBook::open(state.path()).expect("a record");
    let writes = std::slice::from_ref(&write);
    book.apply_writes("queue.read-ahead@loop", "2026-01-01T00:00:00Z", writes).expect("applied");
    book.apply_writes("queue.read-ahead@loop", "2026-01-01T00:00:00Z", writes).expect_err("it stands");
    fs::write(&path, "1024").expect("somebody else's");
    book.apply_writes("queue.read-ahead@loop", "2026-01-01T00:00:00Z", writes).expect("applied again");
    book.undo_change("queue.read-ahead@loop").expect("undone");
    assert_eq!(fs::read_to_string(&path).expect("a setting").trim(), "1024");
}
