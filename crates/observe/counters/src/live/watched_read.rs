//! Reads of the kernel's files, any of which may never return: a process whose files wait for its disk, a hung
//! driver, a filesystem in user space mounted over `/proc`. A thread with a [`ReadWatch`] tells others which file it
//! reads, and is refused files that block another thread.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blocked_process::BlockedProcess;

thread_local! {
    static WATCH: RefCell<Option<Arc<ReadWatch>>> = const { RefCell::new(None) };
}

/// Locks a mutex also after a thread panicked with it: its content is whole between two statements.
pub(crate) fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files and folders whose reads have not returned.
#[derive(Debug, Default)]
pub(crate) struct BlockedFiles {
    count: AtomicUsize,
    paths: Mutex<Vec<BlockedPath>>,
}

#[derive(Debug)]
struct BlockedPath {
    path: PathBuf,
    /// The process that the folder belongs to.
    process: Option<BlockedProcess>,
}

impl BlockedFiles {
    /// Refuses a file, or all files of a folder.
    pub fn add_path(&self, path: PathBuf, process: Option<BlockedProcess>) {
        let mut paths = lock_unpoisoned(&self.paths);
        if !paths.iter().any(|known| known.path == path) {
            paths.push(BlockedPath { path, process });
        }
        self.count.store(paths.len(), Ordering::Relaxed);
    }

    /// Allows a path again.
    fn remove_path(&self, path: &Path) {
        let mut paths = lock_unpoisoned(&self.paths);
        paths.retain(|known| known.path != path);
        self.count.store(paths.len(), Ordering::Relaxed);
    }

    /// Returns true for a blocked file, and for files in a blocked folder.
    pub fn contains(&self, path: &Path) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && lock_unpoisoned(&self.paths).iter().any(|known| path.starts_with(&known.path))
    }
}

/// Progress of the reads of one thread.
#[derive(Debug)]
pub(crate) struct ReadWatch {
    blocked: Arc<BlockedFiles>,
    current: Mutex<CurrentRead>,
}

#[derive(Debug, Default)]
struct CurrentRead {
    path: PathBuf,
    /// Number of reads so far.
    number: u64,
    is_reading: bool,
    /// Path that is refused to other threads until this read returns.
    refused: Option<PathBuf>,
}

impl ReadWatch {
    /// Creates the watch of a thread; the thread calls [`ReadWatch::watch_this_thread`].
    pub fn new(blocked: Arc<BlockedFiles>) -> ReadWatch {
        ReadWatch { blocked, current: Mutex::default() }
    }

    /// Makes this the watch of the calling thread.
    pub fn watch_this_thread(self: &Arc<ReadWatch>) {
        WATCH.set(Some(Arc::clone(self)));
    }

    /// Returns the number of the read that has begun and not returned, and its file.
    pub fn current_read(&self) -> Option<(u64, PathBuf)> {
        let current = lock_unpoisoned(&self.current);
        current.is_reading.then(|| (current.number, current.path.clone()))
    }

    /// Refuses a path to other threads, unless this read has returned meanwhile. The path is allowed again when it
    /// returns.
    pub fn refuse_until_return(&self, read_number: u64, path: PathBuf, process: Option<BlockedProcess>) {
        let mut current = lock_unpoisoned(&self.current);
        if current.is_reading && current.number == read_number {
            self.blocked.add_path(path.clone(), process);
            current.refused = Some(path);
        }
    }

    fn begin_read(&self, path: &Path) {
        let mut current = lock_unpoisoned(&self.current);
        current.path.clear();
        current.path.push(path);
        current.number += 1;
        current.is_reading = true;
    }

    fn end_read(&self) {
        let mut current = lock_unpoisoned(&self.current);
        current.is_reading = false;
        if let Some(path) = current.refused.take() {
            self.blocked.remove_path(&path);
        }
    }
}

/// Runs a read of this file or folder under the thread's watch. A file that blocks another thread is an error of kind
/// `TimedOut`.
pub(crate) fn watch_read<T>(path: &Path, read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    WATCH.with_borrow(|watch| {
        let Some(watch) = watch else { return read() };
        if watch.blocked.contains(path) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        watch.begin_read(path);
        let result = read();
        watch.end_read();
        result
    })
}

/// Returns the processes whose files block, as far as the thread's watch knows.
pub(crate) fn blocked_processes() -> Vec<BlockedProcess> {
    WATCH.with_borrow(|watch| {
        let Some(watch) = watch else { return Vec::new() };
        lock_unpoisoned(&watch.blocked.paths).iter().filter_map(|known| known.process.clone()).collect()
    })
}

/// Lists a folder under the thread's watch; an unreadable one is empty.
pub(crate) fn list_folder(path: &Path) -> impl Iterator<Item = std::fs::DirEntry> + use<> {
    watch_read(path, || std::fs::read_dir(path)).into_iter().flatten().flatten()
}

/// Reads the target of a symbolic link under the thread's watch.
pub(crate) fn read_link(path: &Path) -> io::Result<PathBuf> {
    watch_read(path, || std::fs::read_link(path))
}

/// Resolves all symbolic links of a path under the thread's watch.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    watch_read(path, || std::fs::canonicalize(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_folder_is_refused_until_its_read_returns() {
        let blocked = Arc::new(BlockedFiles::default());
        let watch = Arc::new(ReadWatch::new(Arc::clone(&blocked)));
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let (release, released) = std::sync::mpsc::channel::<()>();
            let reader = Arc::clone(&watch);
            let read = scope.spawn(move || {
                reader.watch_this_thread();
                watch_read(Path::new("/proc/7/stat"), || {
                    begun.send(()).unwrap();
                    released.recv().map_err(io::Error::other)
                })
            });
            has_begun.recv().unwrap();
            let (number, path) = watch.current_read().unwrap();
            assert_eq!(path, Path::new("/proc/7/stat"));
            let process = BlockedProcess { pid: 7, name: "reader".into(), ..BlockedProcess::default() };
            watch.refuse_until_return(number, "/proc/7".into(), Some(process.clone()));
            Arc::new(ReadWatch::new(Arc::clone(&blocked))).watch_this_thread();
            let error = watch_read(Path::new("/proc/7/io"), || Ok(())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(watch_read(Path::new("/proc/77/io"), || Ok(())).is_ok());
            assert_eq!(blocked_processes(), [process]);
            release.send(()).unwrap();
            assert!(read.join().unwrap().is_ok());
        });
        assert!(watch_read(Path::new("/proc/7/io"), || Ok(())).is_ok());
        assert!(watch.current_read().is_none());
        assert_eq!(blocked_processes(), []);
    }

    #[test]
    fn a_read_that_has_returned_refuses_nothing() {
        let blocked = Arc::new(BlockedFiles::default());
        let watch = Arc::new(ReadWatch::new(Arc::clone(&blocked)));
        watch.begin_read(Path::new("/a"));
        watch.end_read();
        watch.begin_read(Path::new("/b"));
        watch.refuse_until_return(1, "/a".into(), None);
        assert!(!blocked.contains(Path::new("/a")));
    }
}
