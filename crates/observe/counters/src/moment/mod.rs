//! What a moment shows and no counter keeps: blocked tasks with their stacks, open files, who holds the memory. It is
//! read once, at the beginning of an alert, in a process of its own: any of these files may hang.
//!
//! - `patient_reader`: reads with a time limit
//! - `blocked_tasks`, `open_files`, `memory_holders`: the parts

mod blocked_tasks;
mod memory_holders;
mod open_files;
mod patient_reader;

use std::fs;
use std::path::{Path, PathBuf};

pub use blocked_tasks::read_blocked_tasks;
pub use memory_holders::{read_memory_groups, read_memory_processes};
pub use open_files::read_open_files;
pub use patient_reader::PatientReader;

/// Longest file of `/proc` that is read, bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Reads a file of `/proc` as text; bytes that are no text are replaced.
fn read_text(path: &Path) -> std::io::Result<String> {
    let bytes = diskwright_hostfiles::bounded_file::read_open_file(fs::File::open(path)?, MAX_FILE_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The same without the end of the line; empty where it cannot be read.
fn read_word(path: &Path) -> String {
    read_text(path).map(|text| text.trim_end().to_owned()).unwrap_or_default()
}

/// Folders of a folder that are named by a number: processes, tasks, descriptors.
fn numbered_entries(folder: &Path, max_count: usize) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(max_count).collect()
}

/// Folder of a process.
fn process_folder(proc: &Path, pid: u32) -> PathBuf {
    proc.join(pid.to_string())
}
