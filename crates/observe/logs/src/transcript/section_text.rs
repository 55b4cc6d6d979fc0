//! The text of a section, as its reader expects it.

use super::cutter::TextPart;
use super::line_times::LineTime;
use super::tool_lines::{self, ToolKind};
use crate::sysstat::vmstat_headings::VmstatHeadings;

/// Smallest number of lines by which a text with blank lines in between is known.
const MIN_SPACED_LINES: usize = 6;

/// Builds the text of a part.
pub(super) fn build_text(part: &TextPart, lines: &[(usize, String)], times: Option<&[Option<LineTime>]>) -> String {
    let mut text = String::new();
    if let Some(file) = part.command.as_ref().and_then(|command| command.printed_file()) {
        text += &format!("==> {file} <==\n");
    }
    let adapter = part.command.as_ref().filter(|command| command.program == "ethtool");
    if let Some(adapter) = adapter.and_then(|command| command.arguments.iter().find(|word| !word.starts_with('-'))) {
        text += &format!("==> ethtool {adapter} <==\n");
    }
    let indices = drop_spacing(part, lines);
    let times = times.filter(|times| are_report_times(&indices, times));
    let is_kept = part.command.as_ref().is_some_and(super::command_line::CommandLine::omits_first_report);
    let mut is_before_heading = is_kept && part.kind == ToolKind::Iostat;
    let mut last_time = None;
    // the table of disks belongs to the processors above it
    let mut is_behind_processors = false;
    for index in indices {
        let line = lines[index].1.as_str();
        if is_before_heading {
            let is_heading = tool_lines::detect_tool(line, "") == Some(ToolKind::Iostat);
            if line.trim().is_empty() {
                continue;
            }
            if is_heading {
                // two blank lines show that iostat left out its first report
                text += "\n\n";
                is_before_heading = false;
            }
        }
        let is_continued = is_behind_processors && line.trim_start().starts_with("Device");
        if begins_report(line) {
            is_behind_processors = line.trim_start().starts_with("avg-cpu");
        }
        if let Some(time) = times.and_then(|times| times[index]).filter(|_| !is_continued) {
            text += &timed_line_start(part.kind, line, time, &mut last_time);
        }
        text += line;
        text.push('\n');
    }
    text
}

/// What stands before a line so that its time is that of its report: the time, or a line with it.
fn timed_line_start(kind: ToolKind, line: &str, time: LineTime, last: &mut Option<LineTime>) -> String {
    match kind {
        ToolKind::Vmstat if VmstatHeadings::parse(line, false).is_some() || tool_lines::number_percent(line) > 70 => {
            format!("{} ", time.to_text())
        }
        // these print times of their own
        ToolKind::Vmstat | ToolKind::Sar | ToolKind::Top => String::new(),
        _ if line.trim().is_empty() || *last == Some(time) => String::new(),
        ToolKind::Iostat | ToolKind::UnixIostat if !begins_report(line) => String::new(),
        _ => {
            *last = Some(time);
            format!("{}\n", time.to_text())
        }
    }
}

/// True for the line with which each report of iostat begins.
fn begins_report(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("avg-cpu")
        || line.starts_with("Device")
        || line.contains("extended device")
        || line.starts_with("tty")
}

/// True if the times before lines advance: those of a paste into a chat are all the same.
fn are_report_times(indices: &[usize], times: &[Option<LineTime>]) -> bool {
    let found: Vec<i64> = indices.iter().filter_map(|index| times[*index]).map(|time| time.local_s).collect();
    found.is_sorted() && found.first() != found.last()
}

/// Leaves out blank lines that stand between all lines, as forums and mail put them.
fn drop_spacing(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let is_blank = |index: &usize| lines[*index].1.trim().is_empty();
    let filled = part.lines.iter().filter(|index| !is_blank(index)).count();
    let spaced =
        part.lines.windows(3).filter(|three| !is_blank(&three[0]) && is_blank(&three[1]) && !is_blank(&three[2]));
    if filled < MIN_SPACED_LINES || spaced.count() * 100 < filled * 60 {
        return part.lines.clone();
    }
    let mut kept: Vec<usize> = Vec::new();
    for index in part.lines.iter().filter(|index| !is_blank(index)) {
        let line = lines[*index].1.trim_start();
        // a blank line stands before each frame of top, and before its processes
        let is_after_blank = line.starts_with("PID ") || line.starts_with("top - ") && !kept.is_empty();
        if is_after_blank && let Some(blank) = part.lines.iter().find(|index| is_blank(index)) {
            kept.push(*blank);
        }
        kept.push(*index);
    }
    kept
}

/// True if loose rows above a part of vmstat have its columns.
pub(super) fn fits_headings(rows: &TextPart, part: &TextPart, lines: &[(usize, String)]) -> bool {
    if part.kind != ToolKind::Vmstat || rows.command.is_some() {
        return false;
    }
    let Some(heading) = find_heading(part, lines) else { return false };
    let Some(headings) = VmstatHeadings::parse(&lines[heading].1, true) else { return false };
    rows.lines.iter().map(|index| &lines[*index].1).filter(|line| !line.trim().is_empty()).all(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        headings.fit_row(&words).is_some()
    })
}

/// The first headings of a part of vmstat.
pub(super) fn find_heading(part: &TextPart, lines: &[(usize, String)]) -> Option<usize> {
    part.lines.iter().copied().find(|index| VmstatHeadings::parse(&lines[*index].1, true).is_some())
}
