//! Tasks in uninterruptible sleep: what they wait in, and their stacks in the kernel.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use diskwright_base::capture::{BlockedTask, BlockedTasks, MissingPart, WaitingIn};

use super::patient_reader::PatientReader;
use super::{numbered_entries, process_folder, read_text, read_word};

/// Largest number of processes, and of tasks of one, that are looked at.
const MAX_PROCESSES: usize = 65_536;
/// Largest number of tasks that are kept in detail.
const MAX_DETAILED_TASKS: usize = 400;
/// Largest number of functions of a stack.
const MAX_STACK_DEPTH: usize = 24;
/// Longest name of a function that is kept, bytes.
const MAX_FUNCTION_BYTES: usize = 120;
/// Time for all tasks together: ten thousand take some tenths of a second.
const MAX_TIME: Duration = Duration::from_secs(3);

/// What a look at one process found.
#[derive(Default)]
struct ProcessLook {
    tasks: u64,
    blocked: Vec<BlockedTask>,
    /// Why a stack could not be read.
    stack_error: Option<String>,
}

/// Reads the blocked tasks of a machine; `proc` is the mount point of procfs.
pub fn read_blocked_tasks(proc: &Path, reader: &mut PatientReader, missing: &mut Vec<MissingPart>) -> BlockedTasks {
    let begin = Instant::now();
    let mut found = BlockedTasks::default();
    let mut waits: BTreeMap<String, u64> = BTreeMap::new();
    let (mut silent, mut unseen) = (0, 0);
    let root = proc.to_owned();
    let pids = reader.run(move || numbered_entries(&root, MAX_PROCESSES)).unwrap_or_default();
    let mut stack_error = None;
    for pid in pids {
        if begin.elapsed() > MAX_TIME {
            unseen += 1;
            continue;
        }
        let (folder, detailed) = (process_folder(proc, pid), found.tasks.len() < MAX_DETAILED_TASKS);
        let Some(look) = reader.run(move || look_at_process(&folder, pid, detailed)) else {
            silent += 1;
            continue;
        };
        found.looked_at += look.tasks;
        found.count += look.blocked.len() as u64;
        look.blocked.iter().for_each(|task| *waits.entry(task.waits_in.clone()).or_default() += 1);
        let room = MAX_DETAILED_TASKS.saturating_sub(found.tasks.len());
        found.tasks.extend(look.blocked.into_iter().take(room));
        stack_error = stack_error.or(look.stack_error);
    }
    found.waits = waits.into_iter().map(|(function, tasks)| WaitingIn { function, tasks }).collect();
    found.waits.sort_by_key(|wait| std::cmp::Reverse(wait.tasks));
    let mut lack = |what: &str, because: String| missing.push(MissingPart { what: what.to_owned(), because });
    if let Some(error) = stack_error {
        lack("stacks", error);
    }
    if silent > 0 {
        lack("blocked tasks", format!("files of {silent} processes did not respond"));
    }
    if unseen > 0 {
        lack("blocked tasks", format!("{unseen} processes were not examined within {} s", MAX_TIME.as_secs()));
    }
    found
}

fn look_at_process(folder: &Path, pid: u32, detailed: bool) -> ProcessLook {
    let mut look = ProcessLook::default();
    let mut group = None;
    for tid in numbered_entries(&folder.join("task"), MAX_PROCESSES) {
        let task = folder.join("task").join(tid.to_string());
        // a task that ended meanwhile has no file
        let Ok(stat) = read_text(&task.join("stat")) else { continue };
        look.tasks += 1;
        if !is_blocked(&stat) {
            continue;
        }
        let waits_in = Some(read_word(&task.join("wchan"))).filter(|function| function != "0").unwrap_or_default();
        let mut blocked = BlockedTask { pid, tid, waits_in, ..BlockedTask::default() };
        if detailed {
            blocked.name = task_name(&stat);
            blocked.group = group.get_or_insert_with(|| read_group(&folder.join("cgroup"))).clone();
            match read_stack(&task.join("stack")) {
                Ok(stack) => blocked.stack = stack,
                // gone meanwhile, or no longer blocked
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => look.stack_error = Some(error.to_string()),
            }
        }
        look.blocked.push(blocked);
    }
    look
}

/// True for a task in uninterruptible sleep. A name may contain anything, so the state follows the last parenthesis.
fn is_blocked(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
}

fn task_name(stat: &str) -> String {
    let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    name.map(|(name, _)| name.to_owned()).unwrap_or_default()
}

/// Functions of a stack as `/proc` prints them: `[<0>] io_schedule+0x4a/0x70`.
fn read_stack(path: &Path) -> io::Result<Vec<String>> {
    let text = read_text(path)?;
    let function = |line: &str| {
        let name = line.trim().rsplit(' ').next()?.split('+').next()?;
        let end = name.char_indices().nth(MAX_FUNCTION_BYTES).map_or(name.len(), |(end, _)| end);
        (!name.is_empty()).then(|| name[..end].to_owned())
    };
    Ok(text.lines().filter_map(function).take(MAX_STACK_DEPTH).collect())
}

/// The cgroup of a process: that of version 2, or of version 1 the one that charges memory.
fn read_group(path: &Path) -> String {
    let text = read_text(path).unwrap_or_default();
    let of = |wanted: &str| {
        let row = text.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|controller| controller == wanted).then_some(group)
        });
        row.map(str::to_owned)
    };
    of("memory").or_else(|| of("")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    fn read(machine: &FakeMachine) -> (BlockedTasks, Vec<MissingPart>) {
        let mut missing = Vec::new();
        let mut reader = PatientReader::new(Duration::from_secs(5));
        (read_blocked_tasks(&machine.roots().proc, &mut reader, &mut missing), missing)
    }

    #[test]
    fn blocked_tasks_have_their_function_stack_and_group_and_others_are_counted() {
        let machine = FakeMachine::new();
        machine
            .put_file("proc/7/task/7/stat", "7 (a) D (\u{1b}[31m) D 1 7 7")
            .put_file("proc/7/task/7/wchan", "folio_wait_bit_common")
            .put_file("proc/7/task/7/stack", "[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] do_read+0x1/0x2\n")
            .put_file("proc/7/cgroup", "3:cpu,memory:/web\n0::/other\n")
            .put_file("proc/7/task/8/stat", "8 (D) S 1 7 7")
            .put_file("proc/9/task/9/stat", "9 (x) D 1")
            .put_file("proc/9/task/9/wchan", "0")
            .put_file("proc/self/task/1/stat", "1 (no) D");
        let (found, missing) = read(&machine);
        assert_eq!((found.count, found.looked_at), (2, 3));
        let first = found.tasks.iter().find(|task| task.pid == 7).expect("it is blocked");
        assert_eq!((first.name.as_str(), first.group.as_str()), ("a) D (\u{1b}[31m", "/web"));
        assert_eq!(first.stack, ["folio_wait_bit_common", "do_read"]);
        assert!(found.waits.contains(&WaitingIn { function: String::new(), tasks: 1 }), "{:?}", found.waits);
        assert!(missing.is_empty(), "a task without a stack has ended: {missing:?}");
    }

    #[test]
    fn ten_thousand_blocked_tasks_are_counted_and_some_are_kept() {
        let machine = FakeMachine::new();
        for tid in 1..=10_000 {
            machine.put_file(&format!("proc/1/task/{tid}/stat"), "1 (many) D 1");
        }
        let (found, _) = read(&machine);
        assert_eq!(found.count, 10_000);
        assert!(found.tasks.len() <= MAX_DETAILED_TASKS.max(10_000) && found.waits[0].tasks == 10_000);
        assert_eq!(found.tasks.len(), MAX_DETAILED_TASKS);
    }

    #[test]
    fn a_real_process_is_looked_at() {
        let mut missing = Vec::new();
        let mut reader = PatientReader::new(Duration::from_secs(5));
        let found = read_blocked_tasks(Path::new("/proc"), &mut reader, &mut missing);
        assert!(found.looked_at > 0, "at least this test");
    }
}
