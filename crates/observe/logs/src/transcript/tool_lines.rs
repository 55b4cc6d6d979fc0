//! Lines by which the output of a tool is known: titles, headings, first lines.

use super::command_line::CommandLine;
use crate::sysstat::head_line::HeadLine;
use crate::sysstat::vmstat_headings::{self, VmstatHeadings};
use crate::{InputHead, LogFormat, sysstat, unix};

/// Tool whose output lines belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolKind {
    Vmstat,
    Iostat,
    /// sar, mpstat and pidstat, whose tables one reader reads.
    Sar,
    UnixIostat,
    Top,
    Free,
    Uptime,
    Nfsiostat,
    Iotop,
    Atop,
    /// Files of /proc and /sys.
    Proc,
    /// A form of `forms.toml`, with its name.
    Form(&'static str),
    /// Anything else that a command printed, or that nothing announced.
    Other,
}

impl ToolKind {
    /// The kind that a program prints.
    pub fn of_program(program: &str) -> ToolKind {
        match program {
            "vmstat" => ToolKind::Vmstat,
            "iostat" => ToolKind::Iostat,
            "sar" | "mpstat" | "pidstat" => ToolKind::Sar,
            "top" => ToolKind::Top,
            "free" => ToolKind::Free,
            "uptime" | "w" => ToolKind::Uptime,
            "nfsiostat" => ToolKind::Nfsiostat,
            "iotop" => ToolKind::Iotop,
            "atop" | "atopsar" => ToolKind::Atop,
            _ => ToolKind::Other,
        }
    }

    /// The kind that a command prints.
    pub fn of_command(command: &CommandLine) -> ToolKind {
        let is_list = |word: &String| matches!(word.as_str(), "-s" | "-d" | "-D" | "-m" | "-f" | "--stats" | "--disk");
        match command.program.as_str() {
            // lists, not rows below headings
            "vmstat" if command.arguments.iter().any(is_list) => ToolKind::Other,
            program => ToolKind::of_program(program),
        }
    }

    /// Name in messages, if no command says it.
    pub fn name(self) -> &'static str {
        match self {
            ToolKind::Vmstat => "vmstat",
            ToolKind::Iostat | ToolKind::UnixIostat => "iostat",
            ToolKind::Sar => "sar",
            ToolKind::Top => "top",
            ToolKind::Free => "free",
            ToolKind::Uptime => "uptime",
            ToolKind::Nfsiostat => "nfsiostat",
            ToolKind::Iotop => "iotop",
            ToolKind::Atop => "atop",
            ToolKind::Proc => "/proc",
            ToolKind::Form(name) => name,
            ToolKind::Other => "text",
        }
    }

    /// True if a program of another kind may print lines of this kind: `sar` prints what `iostat` does in some systems,
    /// and scripts print anything.
    pub fn may_be_of(self, program: &str) -> bool {
        let expected = ToolKind::of_program(program);
        expected == self
            || expected == ToolKind::Other
            || self == ToolKind::UnixIostat && expected == ToolKind::Iostat
            || self == ToolKind::Uptime && expected == ToolKind::Top
    }

    /// True if its rows are numbers under headings, so that sentences between them can be told apart.
    pub fn has_rows(self) -> bool {
        matches!(self, ToolKind::Vmstat | ToolKind::Iostat | ToolKind::Sar | ToolKind::UnixIostat)
            || self == ToolKind::Form("zpool iostat")
    }

    /// True if it prints report after report.
    pub fn is_table(self) -> bool {
        self.has_rows() || matches!(self, ToolKind::Top | ToolKind::Nfsiostat | ToolKind::Iotop | ToolKind::Atop)
    }
}

/// The tool that prints a line as the beginning of its output, of a report or of a table. `next` is the next line that
/// is not blank.
pub(super) fn detect_tool(line: &str, next: &str) -> Option<ToolKind> {
    let text = line.trim();
    // most lines are rows of numbers
    if text.len() < 4 || number_percent(line) > 70 {
        return None;
    }
    if VmstatHeadings::parse(line, false).is_some()
        || vmstat_headings::is_title(line) && VmstatHeadings::parse(next, true).is_some()
    {
        return Some(ToolKind::Vmstat);
    }
    if is_of_format(&sysstat::IOSTAT_TEXT, line) {
        return Some(ToolKind::Iostat);
    }
    if is_of_format(&unix::IOSTAT, line) || is_unix_title(text) && is_of_format(&unix::IOSTAT, next) {
        return Some(ToolKind::UnixIostat);
    }
    if is_of_format(&sysstat::SAR_TEXT, line) {
        return Some(ToolKind::Sar);
    }
    if is_top_line(text) || is_busybox_top_line(text) {
        return Some(ToolKind::Top);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.starts_with(&["total", "used", "free"]) {
        return Some(ToolKind::Free);
    }
    if text.contains(" up ") && text.contains("load average") && text.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(ToolKind::Uptime);
    }
    if text.contains(" mounted on ") && text.ends_with(':') {
        return Some(ToolKind::Nfsiostat);
    }
    if text.starts_with("Total DISK READ") {
        return Some(ToolKind::Iotop);
    }
    if text.starts_with("ATOP - ") && text.ends_with("elapsed") {
        return Some(ToolKind::Atop);
    }
    let is_table = text.starts_with("Timestamp") && text.contains("CounterSamples");
    (is_table || text.starts_with("Personalities :")).then_some(ToolKind::Proc)
}

/// True if a line alone suffices to recognize a format.
fn is_of_format(format: &LogFormat, line: &str) -> bool {
    (format.recognize)(&InputHead { name: "", bytes: line.as_bytes() })
}

fn is_top_line(text: &str) -> bool {
    let Some((label, rest)) = text.split_once([':', ' ']) else { return false };
    match label {
        "top" => rest.starts_with("- ") && rest.contains(" up "),
        "Tasks" | "Threads" => rest.contains("total,"),
        "KiB" | "MiB" | "GiB" | "Mem" | "Swap" => rest.contains("total,") || rest.contains("total ,"),
        "PID" => rest.contains("USER") && rest.contains("COMMAND"),
        _ => label.trim_start_matches('%').starts_with("Cpu") && rest.contains("id") && rest.contains("us"),
    }
}

fn is_unix_title(text: &str) -> bool {
    text.contains("extended device statistics") || text.starts_with("tty") || text.starts_with("System configuration")
}

fn is_busybox_top_line(text: &str) -> bool {
    let is_memory = text.starts_with("Mem:") && text.contains("K used,") && text.contains("buff");
    let is_processor = text.starts_with("CPU") && text.contains("% usr") && text.contains("% idle");
    is_memory || is_processor || text.starts_with("Load average: ")
}

/// True for the line that names the machine above a tool's output.
pub(super) fn is_banner(line: &str) -> bool {
    let starts = ["SunOS ", "AIX ", "HP-UX "];
    HeadLine::parse(line).is_some()
        || starts.iter().any(|start| line.trim_start().starts_with(start)) && line.split_whitespace().count() <= 6
}

/// True for a line of words: a remark between rows.
pub(super) fn is_sentence(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_word = |word: &&&str| {
        let word = word.trim_matches(|c: char| matches!(c, ',' | '.' | ':' | ';' | '!' | '?' | '(' | ')' | '"' | '\''));
        word.len() > 1 && word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-'))
    };
    let plain = words.iter().filter(is_word).count();
    let is_label = words.len() <= 6 && line.trim_end().ends_with(':') && plain > 0 && !line.contains(char::is_numeric);
    is_label || words.len() >= 2 && plain * 2 >= words.len() && plain >= 2
}

/// True for a line that begins with a time of day, or as the averages and summaries below sar's rows do.
pub(super) fn begins_as_row_of_sar(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_number = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    let is_clock = first.split(':').count() == 3 && first.split(':').all(is_number);
    is_clock || matches!(first, "Average:" | "Summary:")
}

/// Part of a line's words that are numbers, percent.
pub(super) fn number_percent(line: &str) -> usize {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &&&str| word.strip_prefix('-').unwrap_or(word).starts_with(|c: char| c.is_ascii_digit());
    if words.is_empty() { 0 } else { words.iter().filter(is_number).count() * 100 / words.len() }
}
