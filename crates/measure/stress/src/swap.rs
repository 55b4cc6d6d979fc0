//! Swap file for a load that pages, if the host has too little swap space. The file keeps its name, because the kernel
//! turns swap off only by name. If a load is killed, the next load turns its swap file off and removes it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use diskwright_hostfiles::mounts::{self, unescape_path};
use diskwright_hostfiles::programs;
use diskwright_workload::files::{WorkFile, is_leftover};

use crate::{StressError, io_error};

/// A swap file, in use until dropped.
#[derive(Debug)]
pub struct SwapFile {
    /// `None` once its name has to stay.
    file: Option<WorkFile>,
    path: PathBuf,
}

impl SwapFile {
    /// Creates a swap file in a folder and turns it on.
    ///
    /// # Errors
    /// If the filesystem or the kernel refuses.
    pub fn create(folder: &Path, bytes: u64) -> Result<SwapFile, StressError> {
        // the kernel's table has absolute paths
        let folder = &fs::canonicalize(folder).map_err(io_error(folder, "cannot be examined"))?;
        let file = WorkFile::create_named(folder)?;
        let Some(path) = file.name().map(Path::to_path_buf) else {
            return Err(StressError::Unavailable("a swap file needs a name".into()));
        };
        // a swap file must not have holes
        let block = vec![0_u8; 1 << 20];
        for offset in (0..bytes).step_by(block.len()) {
            file.file().write_all_at(&block, offset).map_err(io_error(folder, "the swap file cannot be written"))?;
        }
        file.file().sync_all().map_err(io_error(folder, "the swap file cannot be written"))?;
        let swap = SwapFile { file: Some(file), path };
        run_on_swap_file("mkswap", &swap.path)?;
        run_on_swap_file("swapon", &swap.path)?;
        Ok(swap)
    }

    /// Folder of the swap file.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = run_on_swap_file("swapoff", &self.path);
        // while the kernel uses it, its name stays: the next load tries again to turn it off
        if is_in_use(&read_swap_table(), &self.path)
            && let Some(file) = self.file.take()
        {
            file.abandon();
        }
    }
}

/// Reads the kernel's table of swap areas.
fn read_swap_table() -> String {
    mounts::read_table("/proc/swaps")
}

/// Returns the paths of the swap areas in a table of them.
fn swap_paths(swaps: &str) -> impl Iterator<Item = PathBuf> {
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape_path)
}

fn is_in_use(swaps: &str, path: &Path) -> bool {
    // the table was read with invalid UTF-8 replaced
    swap_paths(swaps).any(|name| name.to_string_lossy() == path.to_string_lossy())
}

/// Runs a system program on a swap file.
fn run_on_swap_file(name: &'static str, path: &Path) -> Result<(), StressError> {
    let Some(found) = programs::find_program(name) else {
        return Err(StressError::Unavailable(format!("there is no program {name}")));
    };
    let output = programs::command_without_secrets(found)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(io_error(path, name))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(StressError::Unavailable(format!("{name}: {text}")))
}

/// Returns the free swap space in a table of swap areas (`/proc/swaps`), bytes.
#[must_use]
pub fn free_swap_bytes(swaps: &str) -> u64 {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |column: usize| words.get(column)?.parse::<u64>().ok();
        // columns: name, type, size, used. A space in a name is written as \040, so that columns can be counted
        Some(number(2)?.saturating_sub(number(3)?) << 10)
    };
    swaps.lines().skip(1).filter_map(row).sum()
}

/// Finds swap files in use whose load has ended: it was killed, or the kernel could not turn them off.
#[must_use]
pub fn find_leftovers() -> Vec<PathBuf> {
    swap_paths(&read_swap_table()).filter(|path| is_leftover(path)).collect()
}

/// Turns off and removes the files of [`find_leftovers`], and returns the paths of those that are gone.
#[must_use]
pub fn remove_leftovers() -> Vec<PathBuf> {
    let is_removed = |path: &PathBuf| run_on_swap_file("swapoff", path).is_ok() && fs::remove_file(path).is_ok();
    find_leftovers().into_iter().filter(is_removed).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn free_swap_is_read_from_the_kernels_table() {
        let table = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2  partition\t8388604\t4604\t-2\n\
                     /a\\040b  file\t1024\t0\t-3\n";
        assert_eq!(super::free_swap_bytes(table), ((8_388_604 - 4_604) + 1_024) << 10);
        assert_eq!(super::free_swap_bytes("Filename Type Size Used Priority\n"), 0);
        assert!(super::is_in_use(table, "/a b".as_ref()) && !super::is_in_use(table, "/a".as_ref()));
        assert!(!super::is_in_use(table, "Filename".as_ref()));
    }
}
