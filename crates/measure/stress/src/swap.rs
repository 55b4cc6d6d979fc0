//! A swap file for a load that pages, where the machine has too little swap space of its own. It has a name, because
//! the kernel removes it from use by name only; the next load turns off and removes what a killed one left.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use diskwright_hostfiles::mounts::{self, unescaped_path};
use diskwright_hostfiles::program;
use diskwright_workload::files::{WorkFile, is_left};

use crate::{StressError, io};

/// A swap file that is in use as long as this.
#[derive(Debug)]
pub struct SwapFile {
    /// Gone when its name has to stay.
    file: Option<WorkFile>,
    path: PathBuf,
}

impl SwapFile {
    /// Makes one in a folder and has the kernel use it.
    ///
    /// # Errors
    /// Where the filesystem or the kernel refuses.
    pub fn create(folder: &Path, bytes: u64) -> Result<SwapFile, StressError> {
        // the kernel's table has whole names
        let folder = &fs::canonicalize(folder).map_err(io(folder, "cannot be examined"))?;
        let file = WorkFile::named(folder)?;
        let Some(path) = file.name().map(Path::to_path_buf) else {
            return Err(StressError::Unavailable("a swap file needs a name".into()));
        };
        // swap space has no holes
        let block = vec![0_u8; 1 << 20];
        for offset in (0..bytes).step_by(block.len()) {
            file.file().write_all_at(&block, offset).map_err(io(folder, "the swap file cannot be written"))?;
        }
        file.file().sync_all().map_err(io(folder, "the swap file cannot be written"))?;
        let swap = SwapFile { file: Some(file), path };
        call("mkswap", &swap.path)?;
        call("swapon", &swap.path)?;
        Ok(swap)
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = call("swapoff", &self.path);
        // the kernel takes a swap file out of use by its name alone: as long as it is in use, the name stays for the
        // next load, which tries again
        if is_in_use(&table(), &self.path)
            && let Some(file) = self.file.take()
        {
            file.leave();
        }
    }
}

/// The kernel's table of swap areas.
fn table() -> String {
    mounts::table("/proc/swaps")
}

/// Names of swap areas in that table.
fn names(swaps: &str) -> impl Iterator<Item = PathBuf> {
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescaped_path)
}

fn is_in_use(swaps: &str, path: &Path) -> bool {
    // what is no text is replaced in the table
    names(swaps).any(|name| name.to_string_lossy() == path.to_string_lossy())
}

/// Runs a program of the system on a swap file.
fn call(name: &'static str, path: &Path) -> Result<(), StressError> {
    let Some(found) = program::find(name) else {
        return Err(StressError::Unavailable(format!("there is no program {name}")));
    };
    let output = program::command(found).arg(path).stdin(Stdio::null()).output().map_err(io(path, name))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(StressError::Unavailable(format!("{name}: {text}")))
}

/// Free swap space by a table of swap areas (`/proc/swaps`), bytes.
#[must_use]
pub fn free(swaps: &str) -> u64 {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |column: usize| words.get(column)?.parse::<u64>().ok();
        // the name may hold spaces that the kernel writes as \040: columns count from the front
        Some(number(2)?.saturating_sub(number(3)?) << 10)
    };
    swaps.lines().skip(1).filter_map(row).sum()
}

/// Swap files in use whose load has ended: it was killed, or the kernel could not take them out of use.
#[must_use]
pub fn left() -> Vec<PathBuf> {
    names(&table()).filter(|path| is_left(path)).collect()
}

/// Turns off and removes those files, and tells their names.
#[must_use]
pub fn sweep() -> Vec<PathBuf> {
    let is_removed = |path: &PathBuf| call("swapoff", path).is_ok() && fs::remove_file(path).is_ok();
    left().into_iter().filter(is_removed).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn free_swap_is_read_from_the_kernels_table() {
        let table = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2  partition\t8388604\t4604\t-2\n\
                     /a\\040b  file\t1024\t0\t-3\n";
        assert_eq!(super::free(table), ((8_388_604 - 4_604) + 1_024) << 10);
        assert_eq!(super::free("Filename Type Size Used Priority\n"), 0);
        assert!(super::is_in_use(table, "/a b".as_ref()) && !super::is_in_use(table, "/a".as_ref()));
        assert!(!super::is_in_use(table, "Filename".as_ref()));
    }
}
