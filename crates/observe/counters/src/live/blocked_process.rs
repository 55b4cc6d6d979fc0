//! Facts about a process whose files block, from those of its files that still answer.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use diskwright_base::{FileRow, ProcessRow};

use super::Roots;
use super::open_file::read_text;
use super::sources::processes::open_file_rows;

/// Time for these reads, which may block as well.
const MAX_SURVEY_TIME: Duration = Duration::from_millis(100);

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
    /// Reads the name and the open files in a thread of their own, which is left behind if they block.
    pub fn survey(roots: &Roots, pid: u32) -> BlockedProcess {
        let (sender, receiver) = sync_channel(2);
        let own_roots = roots.clone();
        let read = move || {
            let folder = own_roots.proc.join(pid.to_string());
            // the kernel answers this one without the locks that the others need
            let name = read_text(&folder.join("comm")).unwrap_or_default().trim_end().to_owned();
            let named = BlockedProcess { pid, name, ..BlockedProcess::default() };
            // nobody receives it once the time is over
            let _ = sender.send(named.clone());
            let (files, more_files) = open_file_rows(&own_roots, &folder);
            let _ = sender.send(BlockedProcess { files, more_files, ..named });
        };
        let unknown = BlockedProcess { pid, ..BlockedProcess::default() };
        if std::thread::Builder::new().name("survey".into()).spawn(read).is_err() {
            return unknown;
        }
        let Ok(named) = receiver.recv_timeout(MAX_SURVEY_TIME) else { return unknown };
        receiver.recv_timeout(MAX_SURVEY_TIME).unwrap_or(named)
    }

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
    use crate::live::fake::FakeMachine;

    #[test]
    fn what_does_not_answer_leaves_the_rest() {
        let machine = FakeMachine::new();
        let unknown = BlockedProcess { pid: 7, ..BlockedProcess::default() };
        assert_eq!(BlockedProcess::survey(&machine.roots(), 7), unknown);
        machine.put_file("proc/7/comm", "reader\n");
        let named = BlockedProcess::survey(&machine.roots(), 7);
        assert_eq!(named, BlockedProcess { name: "reader".into(), ..unknown });
        assert_eq!((named.to_row().pid, named.to_row().blocked_share), (7, 1.0));
        assert_eq!(process_number(Path::new("/proc/7")), Some(7));
        assert_eq!(process_number(Path::new("/proc/self")), None);
    }
}
