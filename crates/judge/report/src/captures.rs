//! What was saved at the beginning of alerts, in lines.

use diskwright_base::capture::{BlockedTask, MemoryHolder, MomentCapture, OpenFile, TracedOperations};
use diskwright_base::units::{format_count, format_value};

use crate::time::DisplayZone;

/// Largest number of stacks, files and requests of a capture in a terminal.
const MAX_TERMINAL_ROWS: usize = 12;
/// Functions of a stack that are shown: the innermost say what is waited for, the next ones why.
pub(crate) const MAX_STACK_FUNCTIONS: usize = 8;

/// Tasks of the same stack.
pub(crate) struct StackGroup<'a> {
    pub task: &'a BlockedTask,
    pub count: usize,
    pub names: Vec<&'a str>,
}

/// A capture in one line: `captured at 14:10:12: 7 tasks wait in folio_wait_bit_common`.
pub(crate) fn short_line(capture: &MomentCapture, zone: &DisplayZone) -> String {
    format!("captured at {}: {}", zone.format_time(&capture.time), capture.short_text())
}

/// Everything that a capture has, a line each, for a terminal without limit of height.
pub fn detail_lines(capture: &MomentCapture) -> Vec<String> {
    let mut lines = Vec::new();
    for group in group_stacks(&capture.blocked.tasks).into_iter().take(MAX_TERMINAL_ROWS) {
        lines.push(stack_text(&group));
    }
    for process in &capture.open_files {
        let (shown, name) = (process.files.len().min(MAX_TERMINAL_ROWS), &process.name);
        lines.push(format!("{name} ({}): {}", process.pid, format_count(process.count, "open file", "open files")));
        lines.extend(process.files.iter().take(shown).map(|file| format!("  {}", file_text(file))));
    }
    if let Some(requests) = &capture.requests {
        lines.push(format!("requests of {}:", format_value(requests.seconds, "s")));
        lines.extend(requests.operations.iter().map(|operation| format!("  {}", operation_text(operation))));
        for request in requests.longest.iter().take(MAX_TERMINAL_ROWS) {
            let state = if request.unfinished { ", not completed" } else { "" };
            let (device, operation) = (&request.device, &request.operation);
            let latency = format_value(request.latency_s, "s");
            lines.push(format!(
                "  longest: {operation} on {device} by {}: {latency}{state}",
                program_text(&request.program)
            ));
        }
    }
    let holders = capture.memory_groups.iter().chain(&capture.memory_processes);
    lines.extend(holders.map(|holder| format!("memory: {}", holder_text(holder))));
    lines.extend(capture.missing.iter().map(|part| format!("not saved: {} ({})", part.what, part.because)));
    lines
}

/// Groups tasks with the same stack, the most frequent first.
pub(crate) fn group_stacks(tasks: &[BlockedTask]) -> Vec<StackGroup<'_>> {
    let mut groups: Vec<StackGroup<'_>> = Vec::new();
    for task in tasks {
        let is_same =
            |group: &&mut StackGroup<'_>| group.task.stack == task.stack && group.task.waits_in == task.waits_in;
        match groups.iter_mut().find(is_same) {
            Some(group) => {
                group.count += 1;
                if group.names.len() < 4 && !group.names.contains(&task.name.as_str()) {
                    group.names.push(&task.name);
                }
            }
            None => groups.push(StackGroup { task, count: 1, names: vec![&task.name] }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn stack_text(group: &StackGroup<'_>) -> String {
    let stack: Vec<&str> = group.task.stack.iter().take(MAX_STACK_FUNCTIONS).map(String::as_str).collect();
    let tasks = format_count(group.count, "task", "tasks");
    let stack = if stack.is_empty() { String::new() } else { format!(": {}", stack.join(" < ")) };
    format!("{tasks} ({}) in {}{stack}", group.names.join(", "), function_text(&group.task.waits_in))
}

pub(crate) fn function_text(function: &str) -> &str {
    if function.is_empty() { "an unknown function" } else { function }
}

fn program_text(program: &str) -> &str {
    if program.is_empty() { "an unknown program" } else { program }
}

fn file_text(file: &OpenFile) -> String {
    let offset = file.offset_bytes.map_or(String::new(), |bytes| format!(" at {bytes}"));
    format!("{} ({}{offset})", file.path, file.mode)
}

fn operation_text(operation: &TracedOperations) -> String {
    let latency =
        |words: &str, s: Option<f64>| s.map_or(String::new(), |s| format!(", {words} {}", format_value(s, "s")));
    format!(
        "{} {}: {}{}{}{}",
        operation.device,
        operation.operation,
        format_count(operation.requests, "request", "requests"),
        latency("mean", operation.mean_s),
        latency("99 %", operation.p99_s),
        latency("longest", operation.max_s)
    )
}

fn holder_text(holder: &MemoryHolder) -> String {
    let name = holder.pid.map_or_else(|| holder.name.clone(), |pid| format!("{} ({pid})", holder.name));
    let more = |words: &str, bytes: Option<u64>| {
        let bytes = bytes.filter(|bytes| *bytes > 0);
        bytes.map_or(String::new(), |bytes| format!(", {words} {}", format_value(bytes as f64, "bytes")))
    };
    let used = format_value(holder.bytes as f64, "bytes");
    format!("{name} {used}{}{}", more("swapped", holder.swapped_bytes), more("limit", holder.limit_bytes))
}

#[cfg(test)]
mod tests {
    use diskwright_base::capture::{BlockedTasks, OpenFiles, WaitingIn};

    use super::*;
    use crate::{Style, fixture, screen};

    fn sample_capture() -> MomentCapture {
        let task = |tid: u32, name: &str| BlockedTask {
            pid: 7,
            tid,
            name: name.into(),
            waits_in: "folio_wait_bit_common".into(),
            stack: vec!["folio_wait_bit_common".into(), "filemap_read".into()],
            ..BlockedTask::default()
        };
        let file = OpenFile { fd: 3, path: fixture::EVIL.into(), offset_bytes: Some(8192), mode: "read-write".into() };
        MomentCapture {
            time: "2026-11-21T22:21:00Z".into(),
            alert: "verdict.stable".into(),
            took_s: 5.4,
            blocked: BlockedTasks {
                count: 2,
                looked_at: 312,
                waits: vec![WaitingIn { function: "folio_wait_bit_common".into(), tasks: 2 }],
                tasks: vec![task(7, "postgres"), task(8, "\u{1b}[31m")],
            },
            open_files: vec![OpenFiles { pid: 7, name: "postgres".into(), count: 90, files: vec![file] }],
            memory_processes: vec![MemoryHolder {
                name: "java".into(),
                pid: Some(9),
                bytes: 1 << 30,
                ..Default::default()
            }],
            missing: vec![diskwright_base::capture::MissingPart { what: "requests".into(), because: "no root".into() }],
            ..MomentCapture::default()
        }
    }

    #[test]
    fn the_first_screen_has_a_line_and_the_whole_answer_has_all() {
        let mut verdict = fixture::sample_verdict();
        verdict.captures = vec![sample_capture()];
        let (zone, style) = (DisplayZone::utc(), Style::plain(80));
        let first = screen::draw_screen(&verdict, &zone, &Style { height: 60, ..style });
        assert!(first.contains("captured at") && first.contains("2 tasks wait in folio_wait_bit_common"), "{first}");
        assert!(!first.contains("filemap_read"), "{first}");
        let whole = screen::draw_whole(&verdict, &zone, &style);
        for words in ["filemap_read", "90 open files", "8192", "java (9) 1 GiB", "no root"] {
            assert!(whole.contains(words), "{words}: {whole}");
        }
        assert!(!whole.contains('\u{1b}'), "{whole}");
    }

    #[test]
    fn the_page_escapes_names_and_groups_equal_stacks() {
        let mut verdict = fixture::sample_verdict();
        verdict.captures = vec![sample_capture()];
        let section = crate::sections::captures_section(&verdict, &DisplayZone::utc()).0;
        assert!(!section.contains("<script>") && section.contains("folio_wait_bit_common ← filemap_read"), "{section}");
        assert!(section.contains(">2<"), "one row for both: {section}");
    }
}
