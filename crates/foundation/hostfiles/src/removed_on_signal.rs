//! Files and folders that are removed when a signal ends the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Stack of the thread that waits for signals: the default of 2 MiB is much where the address space is limited
/// (`ulimit -v`).
const SIGNAL_STACK_BYTES: usize = 512 << 10;

/// Paths that are removed when a signal ends the command.
static REMOVED_ON_SIGNAL: LazyLock<Mutex<Vec<PathBuf>>> = LazyLock::new(Mutex::default);

/// A file or folder that a signal removes, as long as this value lives.
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Registers a path for removal.
    pub fn new(path: &Path) -> TemporaryPath {
        static WATCH: Once = Once::new();
        // without the signal handler, destructors still remove the path
        WATCH.call_once(|| drop(install_signal_cleanup()));
        REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        TemporaryPath(path.to_owned())
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Starts a thread that waits for a signal that ends the command, cleans up and lets the signal end it.
fn install_signal_cleanup() -> io::Result<()> {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !is_signal_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".into()).stack_size(SIGNAL_STACK_BYTES).spawn(move || {
        for signal in signals.forever() {
            // held until the end, so that nothing new is created
            let paths = REMOVED_ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().for_each(|path| remove_path(path));
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn remove_path(path: &Path) {
    // another thread may add a file while the folder is removed
    for _ in 0..20 {
        let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        if result.is_ok() || !path.exists() {
            return;
        }
    }
}

/// True if the command was started with a signal ignored, as by `nohup`.
fn is_signal_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
