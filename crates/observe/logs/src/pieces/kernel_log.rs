//! Lines of the kernel's log (`dmesg`, `journalctl -k`, /var/log/messages): errors of disks and links, tasks that hang,
//! processes that were killed for want of memory, processors that were slowed down by heat. The counts are of the text.

use std::collections::HashMap;

use diskwright_base::counter_ids::{hardware, paging, physical_disk, system};

use super::Snapshot;

/// Counts of the text so far.
#[derive(Default)]
pub struct KernelLogState {
    messages: HashMap<String, f64>,
    oom_kills: f64,
    throttles: f64,
    hung_tasks: Vec<String>,
}

/// Parts of messages about a disk or its link, and the words before the device's name; none: the line begins with it.
const DISK_MESSAGES: [(&str, &str); 13] = [
    ("I/O error, dev ", ", dev "),
    ("critical medium error, dev ", ", dev "),
    ("critical target error, dev ", ", dev "),
    ("Buffer I/O error on dev ", "on dev "),
    ("Buffer I/O error on device ", "on device "),
    ("lost async page write", "on dev "),
    ("Disk failure on ", "Disk failure on "),
    ("exception Emask", ""),
    ("hard resetting link", ""),
    ("soft resetting link", ""),
    ("COMRESET failed", ""),
    ("failed command:", ""),
    ("timeout, aborting", "nvme "),
];
/// Largest number of names that are kept.
const MAX_NAMES: usize = 1000;

/// Returns the message of a line of the log: `[12.5] …`, `Nov 21 10:00:00 db1 kernel: …`; `None` for other lines.
fn message_of_line(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.split_once(" kernel: ").map_or(line, |(_, rest)| rest);
    let inside = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_time = |text: &str| text.contains(['.', ':']) && text.bytes().any(|b| b.is_ascii_digit());
    match inside {
        Some((time, message)) if is_time(time) && time.len() < 40 => Some(message.trim()),
        _ if rest.len() < line.len() => Some(rest.trim()),
        _ => None,
    }
}

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let is_of_log = message_of_line(line).is_some();
    let message = message_of_line(line).unwrap_or(line.trim());
    let state = &mut snapshot.kernel_log;
    if let Some(device) = device_of_message(message) {
        if state.messages.len() < MAX_NAMES || state.messages.contains_key(&device) {
            let count = state.messages.entry(device.clone()).or_default();
            *count += 1.0;
            let count = *count;
            snapshot.replace_value(physical_disk::KERNEL_MESSAGES, &device, count);
        }
    } else if message.contains("blocked for more than") && message.contains("task ") {
        let task = message.split_once("task ").map_or("", |(_, rest)| rest.split(' ').next().unwrap_or("")).to_owned();
        if !state.hung_tasks.contains(&task) && state.hung_tasks.len() < MAX_NAMES {
            state.hung_tasks.push(task);
        }
        let count = state.hung_tasks.len() as f64;
        snapshot.replace_value(system::BLOCKED, "", count);
    } else if message.contains("Killed process ") || message.contains("Kill process ") {
        state.oom_kills += 1.0;
        let count = state.oom_kills;
        snapshot.replace_value(paging::OOM_KILLS, "", count);
    } else if message.contains("cpu clock throttled") {
        state.throttles += 1.0;
        let count = state.throttles;
        snapshot.replace_value(hardware::THERMAL_THROTTLES, "", count);
    } else {
        return is_of_log;
    }
    true
}

fn device_of_message(message: &str) -> Option<String> {
    let (_, before) = DISK_MESSAGES.iter().find(|(text, _)| message.contains(text))?;
    let rest = if before.is_empty() { message } else { message.split_once(before)?.1 };
    let name = rest.split([' ', ',', ']', '.', ':']).next()?;
    (!name.is_empty() && name.len() <= 32).then(|| name.to_owned())
}
