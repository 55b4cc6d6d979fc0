//! Memory relief for a version 1 cgroup that waits for memory instead of being killed. If a load fills its group, the
//! kernel may find nothing that it can reclaim at once, although swap space is free, and kill a process. With the OOM
//! killer off, processes that need memory wait instead. If then nothing frees memory, the creator of the group raises
//! its limit a little.
//!
//! The group's processes cannot do this: they are the ones that wait, and reading a file takes memory, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Amount by which a limit is raised each time, bytes.
const LIMIT_STEP_BYTES: u64 = 8 << 20;
/// Time between two checks of whether the group waits.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// File that shows whether a group waits, and turns its OOM killer off.
pub(crate) const OOM_CONTROL_FILE: &str = "memory.oom_control";
/// File with the memory limit of a group.
pub(crate) const LIMIT_FILE: &str = "memory.limit_in_bytes";

/// Thread that relieves a group until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryRelief {
    stop_sender: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryRelief {
    /// Turns the OOM killer of a group off, and starts the thread. `limit` is the group's limit, bytes. `None` if the
    /// kernel does not let the group wait, or no thread can be started.
    pub(crate) fn start(folder: &Path, limit: u64) -> Option<MemoryRelief> {
        fs::write(folder.join(OOM_CONTROL_FILE), "1").ok()?;
        let mut group = WaitingGroup { folder: folder.to_owned(), limit_bytes: limit, max_limit_bytes: 2 * limit };
        // dropping the sender ends the thread
        let (stop_sender, stop_receiver) = channel();
        let relieve = move || {
            while stop_receiver.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                group.raise_limit_if_waiting();
            }
        };
        let thread = std::thread::Builder::new().name("stress-relief".into()).spawn(relieve);
        if thread.is_err() {
            // without the thread, nothing would end the waiting
            let _ = fs::write(folder.join(OOM_CONTROL_FILE), "0");
        }
        Some(MemoryRelief { stop_sender: Some(stop_sender), thread: Some(thread.ok()?) })
    }
}

impl Drop for MemoryRelief {
    fn drop(&mut self) {
        self.stop_sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A group, its limit, and the highest limit that it may get: a load that needs even more will never have enough.
struct WaitingGroup {
    folder: PathBuf,
    limit_bytes: u64,
    max_limit_bytes: u64,
}

impl WaitingGroup {
    fn read_value(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        parse_table_value(&text, name)
    }

    /// Raises the limit if the group waits for memory and no writeback is running. At the maximum, turns the OOM killer
    /// on again.
    fn raise_limit_if_waiting(&mut self) {
        let waits = self.read_value(OOM_CONTROL_FILE, "under_oom").is_some_and(|waits| waits > 0);
        // pages under writeback to swap space or files are freed when it is done
        if !waits || self.read_value("memory.stat", "writeback").is_some_and(|bytes| bytes > 0) {
            return;
        }
        if self.limit_bytes + LIMIT_STEP_BYTES > self.max_limit_bytes {
            let _ = fs::write(self.folder.join(OOM_CONTROL_FILE), "0");
        } else if fs::write(self.folder.join(LIMIT_FILE), (self.limit_bytes + LIMIT_STEP_BYTES).to_string()).is_ok() {
            self.limit_bytes += LIMIT_STEP_BYTES;
        }
    }
}

/// Returns the value of a line of a table, such as `under_oom 1`.
pub(crate) fn parse_table_value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting_group(folder: &Path, waits: u32, writeback: u64) -> WaitingGroup {
        let control = format!("oom_kill_disable 1\nunder_oom {waits}\noom_kill 0\n");
        fs::write(folder.join(OOM_CONTROL_FILE), control).unwrap();
        fs::write(folder.join("memory.stat"), format!("cache 4096\nwriteback {writeback}\n")).unwrap();
        WaitingGroup { folder: folder.to_owned(), limit_bytes: 64 << 20, max_limit_bytes: 128 << 20 }
    }

    #[test]
    fn raises_the_limit_only_while_the_group_waits_without_writeback() {
        let folder = tempfile::tempdir().unwrap();
        for (waits, writeback, raised) in [(0, 0, false), (1, 8192, false), (1, 0, true)] {
            let mut group = waiting_group(folder.path(), waits, writeback);
            group.raise_limit_if_waiting();
            let written = fs::read_to_string(folder.path().join(LIMIT_FILE)).ok();
            assert_eq!(written, raised.then(|| (72_u64 << 20).to_string()), "{waits} {writeback}");
        }
    }

    #[test]
    fn a_load_that_never_has_enough_is_killed_at_the_maximum() {
        let folder = tempfile::tempdir().unwrap();
        let mut group = waiting_group(folder.path(), 1, 0);
        for raised in 1..=8 {
            group.raise_limit_if_waiting();
            assert_eq!(group.limit_bytes, (64 + 8 * raised) << 20);
        }
        group.raise_limit_if_waiting();
        assert_eq!(group.limit_bytes, 128 << 20);
        assert_eq!(fs::read_to_string(folder.path().join(OOM_CONTROL_FILE)).unwrap(), "0");
    }
}
