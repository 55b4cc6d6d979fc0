//! Lines of the kernel's log and of syslog in a text, wherever they stand: they are of one log, and what remains is
//! the output of tools. Sentences that quote a message stay where they are.

use diskwright_base::kernel_messages::read_message;

use super::command_line::{self, CommandLine};
use super::{Section, tool_lines};
use crate::kernel_log::log_line::{LogLine, SECTION_MARK, is_journal_mark};
use crate::kernel_log::{is_between, is_of_kernel};

/// Length from which on a line may have been wrapped, characters.
const MIN_WRAPPED_CHARS: usize = 60;

/// Takes the lines of logs of messages out of a text; `None` if it has none that tells of the kernel.
pub(super) fn take_message_lines(lines: &mut Vec<(usize, String)>) -> Option<Section> {
    let mut taker = MessageTaker::default();
    for (index, (_, line)) in lines.iter().enumerate() {
        taker.read_line(index, line);
    }
    if !taker.has_kernel_lines {
        return None;
    }
    let numbers = taker.taken.iter().map(|(index, _)| lines[*index].0);
    let range = (numbers.clone().min()?, numbers.max()?);
    let messages: String = taker.taken.iter().map(|(_, text)| format!("{text}\n")).collect();
    let text = format!("{SECTION_MARK}\n{messages}");
    let mut index = 0;
    lines.retain(|_| {
        index += 1;
        !taker.is_taken[index - 1]
    });
    Some(Section {
        program: "messages of the kernel".to_owned(),
        text,
        lines: range,
        command: None,
        interval: None,
        is_first_report_kept: false,
    })
}

/// What stood above a line.
#[derive(Clone, Copy, Default, PartialEq)]
enum Above {
    #[default]
    Other,
    /// A line that was taken.
    Taken,
    /// A command that prints messages.
    Command,
}

#[derive(Default)]
struct MessageTaker {
    /// Lines that were taken, by index, with what was wrapped into the next.
    taken: Vec<(usize, String)>,
    is_taken: Vec<bool>,
    above: Above,
    /// Set until a line of the command's output was taken.
    is_first_of_command: bool,
    is_behind_blank: bool,
    has_kernel_lines: bool,
}

impl MessageTaker {
    fn read_line(&mut self, index: usize, line: &str) {
        self.is_taken.push(false);
        if line.trim().is_empty() {
            self.is_behind_blank = true;
            return;
        }
        if std::mem::take(&mut self.is_behind_blank) && (self.above == Above::Taken || !self.is_first_of_command) {
            self.above = Above::Other;
        }
        if let Some(found) = LogLine::parse(line) {
            self.has_kernel_lines |= is_of_kernel(&found);
            return self.take_line(index, line);
        }
        let command = command_line::parse_prompt(line, &[]).and_then(|prompt| prompt.command);
        if command.as_ref().is_some_and(prints_messages) {
            // a prompt without output must not announce what is below it
            self.is_taken[index] = true;
            (self.above, self.is_first_of_command) = (Above::Command, true);
            return;
        }
        let is_foreign = command.is_some()
            || command_line::parse_prompt(line, &[]).is_some()
            || tool_lines::detect_tool(line, "").is_some()
            || tool_lines::is_banner(line);
        if is_foreign || self.above == Above::Other && !is_journal_mark(line) {
            self.above = Above::Other;
        } else if is_journal_mark(line) || is_between(line) {
            self.take_line(index, line);
        } else if !self.join_line(index, line) {
            if self.above == Above::Command {
                return self.take_line(index, line);
            }
            self.above = Above::Other;
        }
    }

    fn take_line(&mut self, index: usize, line: &str) {
        self.is_taken[index] = true;
        self.taken.push((index, line.to_owned()));
        self.is_first_of_command = false;
        if self.above != Above::Command {
            self.above = Above::Taken;
        }
    }

    /// Joins the rest of a line that was wrapped.
    fn join_line(&mut self, index: usize, line: &str) -> bool {
        let Some((_, last)) = self.taken.last_mut() else { return false };
        let is_wrapped = last.chars().count() >= MIN_WRAPPED_CHARS && tool_lines::number_percent(line) < 50;
        if is_wrapped {
            let (spaced, plain) = (format!("{last} {}", line.trim_start()), format!("{last}{}", line.trim_start()));
            let is_known = |text: &str| {
                LogLine::parse(text).is_some_and(|found| read_message(found.program, found.message).is_some())
            };
            *last = if is_known(&plain) && !is_known(&spaced) { plain } else { spaced };
            self.is_taken[index] = true;
        }
        is_wrapped
    }
}

/// True for a command that prints messages of the kernel.
fn prints_messages(command: &CommandLine) -> bool {
    const LOGS: [&str; 5] = ["messages", "syslog", "kern.log", "dmesg", "kern"];
    let is_log = |word: &String| {
        let file = word.rsplit('/').next().unwrap_or_default();
        word.contains('/') && LOGS.iter().any(|log| file.starts_with(log))
    };
    match command.program.as_str() {
        "dmesg" | "journalctl" => true,
        "cat" | "grep" | "egrep" | "zgrep" | "tail" | "head" | "less" => command.arguments.iter().any(is_log),
        _ => false,
    }
}
