//! A process whose files block.

use std::path::Path;

use diskwright_base::{FileRow, ProcessRow};

/// A process that waits in the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlockedProcess {
    pub pid: u32,
    /// Command name; empty if it is unknown.
    pub name: String,
    pub files: Vec<FileRow>,
    pub more_files: u32,
}

impl BlockedProcess {
    /// Returns its row in a process table: it waits all the time.
    pub fn to_row(&self) -> ProcessRow {
        ProcessRow {
            pid: self.pid,
            name: self.name.clone(),
            blocked_share: 1.0,
            files: self.files.clone(),
            more_files: self.more_files,
            ..ProcessRow::default()
        }
    }
}

/// Returns the number of the process that this folder of `/proc` belongs to.
pub(crate) fn process_number(folder: &Path) -> Option<u32> {
    let name = folder.file_name()?.to_str()?;
    name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_row_waits_all_the_time() {
        let row = BlockedProcess { pid: 7, name: "reader".into(), ..BlockedProcess::default() }.to_row();
        assert_eq!((row.pid, row.name.as_str(), row.blocked_share), (7, "reader", 1.0));
    }

    #[test]
    fn only_folders_of_processes_have_a_number() {
        assert_eq!(process_number(Path::new("/proc/7")), Some(7));
        assert_eq!(process_number(Path::new("/proc/self")), None);
    }
}
