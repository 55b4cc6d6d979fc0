//! Lines of the kernel's log (`dmesg` in its forms, `journalctl -k`, /var/log/messages): errors of disks and links,
//! tasks that hang, servers that do not respond, processes that were killed for want of memory, processors that were
//! slowed down by heat or low voltage. The counts are of the text.

use std::collections::HashMap;

use diskwright_base::counter_ids::{cgroup, hardware, network_filesystem, paging, physical_disk, system};

use super::kernel_devices::device_of_message;
use super::{PROCESSORS, Snapshot};
use crate::kernel_threads;

/// Counts of the text so far.
#[derive(Default)]
pub struct KernelLogState {
    messages: HashMap<String, f64>,
    /// Signs of each kind that memory ran out; one event may leave all of them.
    oom_signs: [f64; OOM_SIGNS.len()],
    throttles: f64,
    under_voltages: f64,
    hung_tasks: Vec<String>,
    /// Messages that a server does not respond, and how many of them have not been answered, by server.
    servers: HashMap<String, [f64; 2]>,
    /// Set below a message, also one without a time: the lines between are of the kernel too.
    is_begun: bool,
}

/// Largest number of names that are kept.
const MAX_NAMES: usize = 1000;

/// Messages that the kernel writes once each time memory runs out.
const OOM_SIGNS: [&str; 4] = ["invoked oom-killer", "Killed process ", "Kill process ", "memory: usage "];
/// Messages that firmware lowers the clock because the supply's voltage is too low.
const UNDER_VOLTAGE: [&str; 3] = ["Under-voltage detected", "under-voltage detected", "Undervoltage detected"];
/// Cgroup whose name no line tells.
const UNNAMED_CGROUP: &str = "the cgroup at its limit";

/// Returns the message of a line of the log, and whether anything stood before it that only such a log has:
/// `[12.5] …`, `Nov 21 10:00:00 db1 kernel: …`, `kern  :err   : [ +0.2] …`, `<3>[ 12.5][ T77] …`.
pub(super) fn message_of_line(line: &str) -> (&str, bool) {
    let line = line.trim();
    let mut rest = match line.strip_prefix("kernel: ") {
        Some(rest) => rest,
        None => line.split_once(" kernel: ").map_or(line, |(_, rest)| rest),
    };
    loop {
        rest = rest.trim_start();
        let Some(next) = strip_bracket(rest).or_else(|| strip_level(rest)) else { break };
        rest = next;
    }
    (rest, rest.len() < line.len())
}

/// Takes a time or the mark of a thread off: `[Wed Apr 10 17:58:24 2024]`, `[  +0.000015]`, `[Sep11 18:40]`, `[ T129]`.
fn strip_bracket(text: &str) -> Option<&str> {
    const MAX_INSIDE: usize = 40;
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    let is_time = inside.contains(['.', ':'])
        && inside.bytes().any(|b| b.is_ascii_digit())
        && inside.bytes().all(|b| b.is_ascii_alphanumeric() || b" .:,+-".contains(&b));
    let is_thread = inside
        .strip_prefix(['T', 'C'])
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    (inside.len() <= MAX_INSIDE && (is_time || is_thread)).then_some(rest)
}

/// Takes facility and level off: `kern  :info  : …`, `<6>…`.
fn strip_level(text: &str) -> Option<&str> {
    if let Some((number, rest)) = text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        return (!number.is_empty() && number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit())).then_some(rest);
    }
    const FACILITIES: [&str; 4] = ["kern", "user", "daemon", "syslog"];
    const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    let (facility, rest) = text.split_once(':')?;
    let (level, rest) = rest.split_once(':')?;
    (FACILITIES.contains(&facility.trim()) && LEVELS.contains(&level.trim())).then_some(rest)
}

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let (message, is_of_log) = message_of_line(line);
    if read_message(snapshot, message) {
        snapshot.kernel_log.is_begun = true;
        return true;
    }
    is_of_log || snapshot.kernel_log.is_begun && is_between(message)
}

/// Returns true for a message that counts.
pub(super) fn is_counted_message(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    read_message(snapshot, message)
}

/// Reads a message that counts.
fn read_message(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    if let Some(device) = device_of_message(message) {
        let messages = &mut snapshot.kernel_log.messages;
        if messages.len() < MAX_NAMES || messages.contains_key(&device) {
            let count = messages.entry(device.clone()).or_default();
            *count += 1.0;
            let count = *count;
            snapshot.replace_value(physical_disk::KERNEL_MESSAGES, &device, count);
        }
        return true;
    }
    if read_hung_task(snapshot, message) || read_server(snapshot, message) || read_oom(snapshot, message) {
        return true;
    }
    let state = &mut snapshot.kernel_log;
    if message.contains("cpu clock throttled") {
        state.throttles += 1.0;
        let count = state.throttles;
        snapshot.replace_value(hardware::THERMAL_THROTTLES, PROCESSORS, count);
    } else if UNDER_VOLTAGE.iter().any(|text| message.contains(text)) {
        state.under_voltages += 1.0;
        let count = state.under_voltages;
        snapshot.replace_value(hardware::UNDER_VOLTAGES, PROCESSORS, count);
    } else {
        return false;
    }
    true
}

/// Reads `INFO: task jbd2/sda3-8:373 blocked for more than 120 seconds.`
fn read_hung_task(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    let Some((task, _)) = message.split_once(" blocked for more than ") else { return false };
    let Some((_, task)) = task.split_once("task ") else { return false };
    let tasks = &mut snapshot.kernel_log.hung_tasks;
    if tasks.len() < MAX_NAMES && tasks.iter().all(|known| known != task) {
        tasks.push(task.to_owned());
    }
    let is_flusher = |task: &String| kernel_threads::is_flusher(task.rsplit_once(':').map_or(task, |(name, _)| name));
    let flushers = tasks.iter().filter(|task| is_flusher(task)).count();
    let count = tasks.len();
    // a list of processes shows all that wait
    if !snapshot.processes.has_waiting() {
        snapshot.replace_value(system::BLOCKED, "", count as f64);
    }
    snapshot.replace_value(system::BLOCKED_FLUSHERS, "", flushers as f64);
    true
}

/// Reads `nfs: server fs2 not responding, still trying` and `nfs: server fs2 OK`, also of lockd and CIFS.
fn read_server(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    let known = ["nfs: server ", "lockd: server ", "NFS server ", "CIFS: VFS: Server ", "CIFS VFS: Server "];
    let after = known.iter().find_map(|start| message.split_once(start)).map(|(_, rest)| rest);
    let after = after.or_else(|| message.split_once("CIFS: VFS: \\\\").map(|(_, rest)| rest));
    let Some((server, state)) = after.and_then(|rest| rest.split_once(' ')) else { return false };
    let is_silent = state.starts_with("not responding") || state.contains("not responded");
    if !is_silent && !state.starts_with("OK") {
        return false;
    }
    let servers = &mut snapshot.kernel_log.servers;
    if servers.len() >= MAX_NAMES && !servers.contains_key(server) {
        return true;
    }
    let [timeouts, open] = servers.entry(server.to_owned()).or_default();
    if is_silent {
        *timeouts += 1.0;
        *open += 1.0;
    } else {
        *open = (*open - 1.0).max(0.0);
    }
    let (timeouts, open) = (*timeouts, *open);
    snapshot.replace_value(network_filesystem::MAJOR_TIMEOUTS, server, timeouts);
    snapshot.replace_value(network_filesystem::UNANSWERED, server, open);
    true
}

/// Reads a message that memory ran out; several of them tell of one event.
fn read_oom(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    let Some(sign) = OOM_SIGNS.iter().position(|text| message.contains(text)) else { return false };
    if OOM_SIGNS[sign].starts_with("memory: usage") && !read_cgroup_usage(snapshot, message) {
        return false;
    }
    let signs = &mut snapshot.kernel_log.oom_signs;
    signs[sign] += 1.0;
    let count = signs.iter().copied().fold(0.0, f64::max);
    snapshot.replace_value(paging::OOM_KILLS, "", count);
    true
}

/// Reads `memory: usage 1048576kB, limit 1048576kB, failcnt 141`: a cgroup whose limit was reached.
fn read_cgroup_usage(snapshot: &mut Snapshot<'_, '_>, message: &str) -> bool {
    let number = |word: &str, unit: &str| {
        let (_, rest) = message.split_once(word)?;
        rest.split([',', ' ']).next()?.strip_suffix(unit)?.parse::<f64>().ok()
    };
    let (Some(usage), Some(limit)) = (number("usage ", "kB"), number("limit ", "kB")) else { return false };
    snapshot.replace_value(cgroup::MEMORY_BYTES, UNNAMED_CGROUP, usage * 1024.0);
    snapshot.replace_value(cgroup::MEMORY_LIMIT_BYTES, UNNAMED_CGROUP, limit * 1024.0);
    true
}

/// True for a line without a time as the kernel writes them between messages that count: call traces, registers, the
/// steps of a driver.
fn is_between(message: &str) -> bool {
    const STARTS: [&str; 26] = [
        "ata",
        "sd ",
        "mmc",
        "nvme ",
        "scsi ",
        "usb ",
        "res ",
        "cmd ",
        "Call Trace",
        "RIP:",
        "RSP:",
        "RAX:",
        "RBP:",
        "R10:",
        "R13:",
        "Code:",
        "CPU: ",
        "Hardware name:",
        "Mem-Info:",
        "Node ",
        "\"echo 0 >",
        "Not tainted",
        "Tainted:",
        "Modules linked in",
        "oom",
        "Memory cgroup",
    ];
    // `[<ffffffff8111>] ? dump_header+0x90/0x1b0`
    STARTS.iter().any(|start| message.starts_with(start)) || message.contains("+0x") && message.contains("/0x")
}
