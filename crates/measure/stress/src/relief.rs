//! Memory relief for a version 1 cgroup that waits for memory instead of being killed. Under a load that fills its
//! group, the kernel finds nothing to reclaim at once, although swap space is free, and kills a process. With the OOM
//! killer off, processes that need memory wait. Then nothing else frees memory, so the creator of the group raises its
//! limit a little.
//!
//! The group's processes cannot do this: they are the ones that wait, and reading a file takes memory, too.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Amount by which a limit is raised at a time, bytes.
const STEP: u64 = 8 << 20;
/// Interval of checking whether the group waits.
const EVERY: Duration = Duration::from_millis(20);
/// File that shows whether a group waits, and turns its OOM killer off.
pub(crate) const CONTROL: &str = "memory.oom_control";
/// File with the memory limit of a group.
pub(crate) const LIMIT: &str = "memory.limit_in_bytes";

/// Thread that relieves a group until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryRelief {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryRelief {
    /// Turns the OOM killer of a group off, and starts the thread. None if the kernel does not let the group wait.
    pub(crate) fn begin(folder: &Path, limit: u64) -> Option<MemoryRelief> {
        fs::write(folder.join(CONTROL), "1").ok()?;
        let mut group = WaitingGroup { folder: folder.to_owned(), limit, most: 2 * limit };
        let (end, ended) = channel();
        let look = move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                group.look();
            }
        };
        let thread = std::thread::Builder::new().name("stress-relief".into()).spawn(look);
        if thread.is_err() {
            // without the thread, nothing would end the waiting
            let _ = fs::write(folder.join(CONTROL), "0");
        }
        Some(MemoryRelief { end: Some(end), thread: Some(thread.ok()?) })
    }
}

impl Drop for MemoryRelief {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A group, its limit, and the maximum of the limit: a load that has too little then will never have enough.
struct WaitingGroup {
    folder: PathBuf,
    limit: u64,
    most: u64,
}

impl WaitingGroup {
    fn value(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        value(&text, name)
    }

    /// Raises the limit if the group waits for memory, and no writeback is running.
    fn look(&mut self) {
        let waits = self.value(CONTROL, "under_oom").is_some_and(|waits| waits > 0);
        // pages under writeback to swap space or files are freed when it is done
        if !waits || self.value("memory.stat", "writeback").is_some_and(|bytes| bytes > 0) {
            return;
        }
        if self.limit + STEP > self.most {
            let _ = fs::write(self.folder.join(CONTROL), "0");
        } else if fs::write(self.folder.join(LIMIT), (self.limit + STEP).to_string()).is_ok() {
            self.limit += STEP;
        }
    }
}

/// Returns the value of a line of a table, such as `under_oom 1`.
pub(crate) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &Path, waits: u32, writeback: u64) -> WaitingGroup {
        let control = format!("oom_kill_disable 1\nunder_oom {waits}\noom_kill 0\n");
        fs::write(folder.join(CONTROL), control).unwrap();
        fs::write(folder.join("memory.stat"), format!("cache 4096\nwriteback {writeback}\n")).unwrap();
        WaitingGroup { folder: folder.to_owned(), limit: 64 << 20, most: 128 << 20 }
    }

    #[test]
    fn a_group_gets_more_only_while_it_waits_and_nothing_is_on_its_way_out() {
        let folder = tempfile::tempdir().unwrap();
        for (waits, writeback, raised) in [(0, 0, false), (1, 8192, false), (1, 0, true)] {
            let mut group = group(folder.path(), waits, writeback);
            group.look();
            let written = fs::read_to_string(folder.path().join(LIMIT)).ok();
            assert_eq!(written, raised.then(|| (72_u64 << 20).to_string()), "{waits} {writeback}");
        }
    }

    #[test]
    fn a_load_that_never_has_enough_is_killed_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut group = group(folder.path(), 1, 0);
        for raised in 1..=8 {
            group.look();
            assert_eq!(group.limit, (64 + 8 * raised) << 20);
        }
        group.look();
        assert_eq!(group.limit, 128 << 20);
        assert_eq!(fs::read_to_string(folder.path().join(CONTROL)).unwrap(), "0");
    }
}
