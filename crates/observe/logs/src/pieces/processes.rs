//! `ps aux`, `ps -ef`, `ps -eo state,wchan,cmd` and the like: tasks in uninterruptible sleep, and what they wait in.
//! The processor shares of ps are of each process's whole life, so they are not read.

use diskwright_base::ProcessRow;
use diskwright_base::counter_ids::system;

use super::Snapshot;

/// Columns of the rows that follow, and the tasks that wait.
#[derive(Default)]
pub struct ProcessState {
    headings: Vec<String>,
    /// Number of rows.
    row_count: u32,
    waiting: Vec<WaitingTask>,
}

struct WaitingTask {
    pid: u32,
    name: String,
    /// Function of the kernel in which it waits; empty if it is not shown.
    place: String,
}

/// Largest number of tasks of a dump.
const MAX_TASKS: usize = 20_000;
/// Largest number of names in a sentence.
const MAX_NAMED: usize = 8;

const STATE: [&str; 4] = ["STAT", "S", "STATE", "ST"];
const COMMAND: [&str; 4] = ["COMMAND", "CMD", "COMM", "UCMD"];

/// Headings of rows that grep left alone: of `ps -eo state,pid,wchan,cmd | grep ^D` and its like, and of `ps aux`.
const HEADLESS: [&[&str]; 4] = [
    &["S", "PID", "WCHAN", "CMD"],
    &["PID", "STAT", "WCHAN", "CMD"],
    &["PID", "WCHAN", "STAT", "CMD"],
    &["USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"],
];
/// Beginnings of the kernel's functions in which a task waits for a server.
const SERVER_PLACES: [&str; 11] = [
    "rpc_",
    "__rpc",
    "nfs",
    "cifs",
    "smb",
    "wait_for_response",
    "ceph_",
    "fuse_",
    "__fuse",
    "request_wait_answer",
    "autofs",
];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if is_heading(&words) {
        snapshot.begin_piece("ps");
        snapshot.processes =
            ProcessState { headings: words.iter().map(|word| (*word).to_owned()).collect(), ..ProcessState::default() };
        return true;
    }
    if snapshot.processes.headings.is_empty()
        && let Some(headings) = HEADLESS.iter().find(|headings| is_headless_row(&words, headings))
    {
        snapshot.begin_piece("ps");
        snapshot.processes.headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    }
    read_row(snapshot, &words)
}

/// True for headings of ps; those of top have TIME+ or %VSZ.
fn is_heading(words: &[&str]) -> bool {
    let has_any = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let is_of_top = has_any(&["TIME+", "%VSZ", "PR"]);
    !is_of_top && has_any(&["PID"]) && has_any(&COMMAND) && words.iter().all(|word| !word.contains(char::is_lowercase))
        || !is_of_top && words.len() >= 3 && has_any(&STATE[..3]) && has_any(&["WCHAN"]) && has_any(&COMMAND)
}

/// True for a row that fits headings which are not there: `D  451 jbd2_log_wait_commit [jbd2/sda2-8]`.
fn is_headless_row(words: &[&str], headings: &[&str]) -> bool {
    let is_place = |word: &str| word == "-" || word.contains('_') && word.bytes().all(|b| b.is_ascii_graphic());
    let is_share = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
    let fits = |(heading, word): (&&str, &&str)| match *heading {
        "PID" | "VSZ" | "RSS" => word.parse::<u64>().is_ok(),
        "S" | "STAT" => is_state(word),
        "WCHAN" => is_place(word),
        "%CPU" | "%MEM" => is_share(word),
        "TTY" => *word == "?" || word.starts_with("pts/") || word.starts_with("tty"),
        "TIME" => word.contains(':'),
        _ => true,
    };
    words.len() >= headings.len() && headings.iter().zip(words).all(fits)
}

/// True for `Ss+`, `D`, `R<`.
fn is_state(word: &str) -> bool {
    word.len() <= 5
        && word.starts_with(['D', 'R', 'S', 'I', 'T', 'Z', 't', 'X'])
        && word[1..].bytes().all(|b| matches!(b, b's' | b'l' | b'+' | b'<' | b'N' | b'L' | b'W' | b'n'))
}

fn read_row(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let state = &mut snapshot.processes;
    let column = |names: &[&str]| state.headings.iter().position(|heading| names.contains(&heading.as_str()));
    let Some(command) = column(&COMMAND) else { return false };
    let pid = column(&["PID"]).and_then(|index| words.get(index)?.parse::<u32>().ok());
    if words.len() <= command || column(&["PID"]).is_some() && pid.is_none() {
        return false;
    }
    let Some(task_state) = column(&STATE).map(|index| words[index.min(words.len() - 1)]) else {
        // `ps -ef` shows no states
        return pid.is_some();
    };
    if !is_state(task_state) {
        return false;
    }
    state.row_count += 1;
    if task_state.starts_with('D') && state.waiting.len() < MAX_TASKS {
        let place = column(&["WCHAN"]).map_or("", |index| words[index]).trim_matches('-').to_owned();
        // the command is the last column, or the states behind it are lost
        let is_last = command + 1 == state.headings.len();
        let name = if is_last { words[command..].join(" ") } else { words[command].to_owned() };
        state.waiting.push(WaitingTask { pid: pid.unwrap_or(0), name, place });
    }
    let count = state.waiting.len() as f64;
    let is_on_server = |task: &&WaitingTask| SERVER_PLACES.iter().any(|start| task.place.starts_with(start));
    let on_servers = state.waiting.iter().filter(is_on_server).count() as f64;
    let shows_places = column(&["WCHAN"]).is_some();
    snapshot.replace_value(system::BLOCKED, "", count);
    if shows_places {
        snapshot.replace_value(system::BLOCKED_ON_SERVERS, "", on_servers);
    }
    true
}

/// Takes the tasks that wait, as rows of a process table, and says which they are.
pub fn take_waiting(snapshot: &mut Snapshot<'_, '_>) -> Vec<ProcessRow> {
    let waiting = std::mem::take(&mut snapshot.processes.waiting);
    if waiting.is_empty() {
        return Vec::new();
    }
    let distinct = |text: fn(&WaitingTask) -> &str| {
        let mut found: Vec<&str> = Vec::new();
        for text in waiting.iter().map(text).filter(|text| !text.is_empty()) {
            if !found.contains(&text) && found.len() < MAX_NAMED {
                found.push(text);
            }
        }
        found.join(", ")
    };
    let names = distinct(|task| task.name.split([' ', ':']).next().unwrap_or_default());
    let places = distinct(|task| &task.place);
    let places = if places.is_empty() { String::new() } else { format!("; they wait in {places}") };
    let count = waiting.len();
    snapshot.push_warning(format!("{count} tasks are in uninterruptible sleep (D): {names}{places}"));
    let row = |task: WaitingTask| {
        let row = ProcessRow { pid: task.pid, cgroup: "/".to_owned(), blocked_share: 1.0, ..ProcessRow::default() };
        row.with_command(&task.name)
    };
    waiting.into_iter().map(row).collect()
}
