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
fn a_setting_of_a_block_device_is_written_and_restored() {
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
    book.apply("queue.read-ahead@loop", "2026-01-01T00:00:00Z", std::slice::from_ref(&write)).expect("applied");
    assert_eq!(now(), after);
    // the next run of the program takes it back, with nothing but the record
    let mut book = ChangeBook::open(state.path()).expect("the record");
    book.undo("queue.read-ahead@loop").expect("undone");
    assert_eq!(now(), before);
    assert!(ChangeBook::open(state.path()).expect("the record").changes().is_empty());
    // what somebody else has set meanwhile stays
    book.apply("queue.read-ahead@loop", "2026-01-01T00:00:00Z", &[write]).expect("applied");
    fs::write(&path, "1024").expect("somebody else's");
    book.undo("queue.read-ahead@loop").expect_err("it is not ours any more");
    assert_eq!(now(), "1024");
}
