//! Facts about a process whose files block, from those of its files that still answer.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::live::Roots;
use crate::live::blocked_process::BlockedProcess;
use crate::live::open_file::read_text;

use super::open_files::open_file_rows;

/// Time for these reads, which may block as well.
const MAX_SURVEY_TIME: Duration = Duration::from_millis(100);
/// Stack of the thread that reads, bytes.
const STACK_BYTES: usize = 256 << 10;

/// Reads the name and the open files of a blocked process in a thread of their own, which is left behind if they block.
pub(crate) fn survey_blocked_process(roots: &Roots, pid: u32) -> BlockedProcess {
    let (sender, receiver) = sync_channel(2);
    let own_roots = roots.clone();
    let read = move || {
        let folder = own_roots.proc.join(pid.to_string());
        // the kernel answers this one without the locks that the others need
        let name = read_text(&folder.join("comm")).unwrap_or_default();
        let named = BlockedProcess { pid, name, ..BlockedProcess::default() };
        // nobody receives it once the time is over
        let _ = sender.send(named.clone());
        let (files, more_files) = open_file_rows(&own_roots, &folder);
        let _ = sender.send(BlockedProcess { files, more_files, ..named });
    };
    let unknown = BlockedProcess { pid, ..BlockedProcess::default() };
    if std::thread::Builder::new().name("survey".into()).stack_size(STACK_BYTES).spawn(read).is_err() {
        return unknown;
    }
    let Ok(named) = receiver.recv_timeout(MAX_SURVEY_TIME) else { return unknown };
    receiver.recv_timeout(MAX_SURVEY_TIME).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn what_does_not_answer_leaves_the_rest() {
        let machine = FakeMachine::new();
        let unknown = BlockedProcess { pid: 7, ..BlockedProcess::default() };
        assert_eq!(survey_blocked_process(&machine.roots(), 7), unknown);
        machine.put_file("proc/7/comm", "reader\n");
        let named = survey_blocked_process(&machine.roots(), 7);
        assert_eq!(named, BlockedProcess { name: "reader".into(), ..unknown });
    }
}
