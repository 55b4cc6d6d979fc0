//! Lines of the kernel's log and of syslog in a text, wherever they stand: they are of one log, and what remains is
//! the output of tools. Sentences that quote a message stay where they are.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::kernel_messages::read_message;

use super::command_line::{self, CommandLine};
use super::prompt_host::host_of_kernel_message;
use super::{MESSAGES, Section, tool_lines};
use crate::kernel_log::log_line::{LogLine, SECTION_MARK, is_journal_mark};
use crate::kernel_log::{is_between, is_of_kernel};

/// Length from which on a line may have been wrapped, characters.
const MIN_WRAPPED_CHARS: usize = 60;

/// Takes the lines of logs of messages out of a text; none if no line tells of the kernel.
pub(super) fn take_message_lines(lines: &mut Vec<(usize, String)>) -> Vec<MessageLine> {
    let mut taker = MessageTaker::default();
    for (index, (_, line)) in lines.iter().enumerate() {
        taker.read_line(index, line);
    }
    if !taker.has_kernel_lines {
        return Vec::new();
    }
    let first_host = taker.taken.iter().map(|taken| &taken.host).find(|host| !host.is_empty()).cloned();
    for taken in &mut taker.taken {
        taken.number = lines[taken.index].0;
        if taken.host.is_empty() {
            taken.host = first_host.clone().unwrap_or_default();
        }
    }
    let mut index = 0;
    lines.retain(|_| {
        index += 1;
        !taker.is_taken[index - 1]
    });
    taker.taken
}

/// Number of the machines that messages are of.
pub(super) fn count_hosts(messages: &[MessageLine]) -> usize {
    messages.iter().map(|message| &message.host).collect::<BTreeSet<_>>().len()
}

/// Makes sections of messages beside the output of tools: one for each machine and run that a person named.
pub(super) fn make_sections(messages: Vec<MessageLine>, others: &[Section]) -> Vec<Section> {
    let mut groups: BTreeMap<(String, usize), Vec<MessageLine>> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    for name in others.iter().map(|section| section.host.as_str()).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for mut message in messages {
        if let Some(host) = host_by_others(&message.host, &names) {
            host.clone_into(&mut message.host);
        }
        let run = section_around(&message, others).map_or(0, |section| section.run);
        groups.entry((message.host.clone(), run)).or_default().push(message);
    }
    let run_name = |run: usize| others.iter().find(|section| section.run == run).map(|section| &section.run_name);
    let to_section = |((host, run), taken): ((String, usize), Vec<MessageLine>)| {
        make_section(host, (run, run_name(run).cloned().unwrap_or_default()), &taken)
    };
    groups.into_iter().map(to_section).collect()
}

/// Another name for the machine of a message, by the names of those whose output stands beside it: without a name it is
/// of the first, and with an address for one, of the only one.
fn host_by_others<'a>(host: &str, names: &[&'a str]) -> Option<&'a str> {
    let is_address = names.len() == 1 && host.parse::<std::net::IpAddr>().is_ok();
    names.first().copied().filter(|_| host.is_empty() || is_address)
}

/// The last section that begins above a message, or the first.
fn section_around<'a>(message: &MessageLine, others: &'a [Section]) -> Option<&'a Section> {
    others.iter().rfind(|section| section.lines.0 <= message.number).or(others.first())
}

fn make_section(host: String, (run, run_name): (usize, String), taken: &[MessageLine]) -> Section {
    let numbers = taken.iter().map(|taken| taken.number);
    let range = (numbers.clone().min().unwrap_or(1), numbers.max().unwrap_or(1));
    let messages: String = taken.iter().map(|taken| format!("{}\n", taken.text)).collect();
    Section {
        program: "messages of the kernel".to_owned(),
        text: format!("{SECTION_MARK}\n{messages}"),
        lines: range,
        command: None,
        interval: None,
        is_first_report_kept: false,
        host,
        run,
        run_name,
        prompt_host: None,
        remark: 0,
        format: MESSAGES,
    }
}

/// A line that was taken, with what was wrapped into the next.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageLine {
    index: usize,
    /// Number in the whole text, counted from 1.
    number: usize,
    text: String,
    /// Machine that the line or the prompt above names; empty if nothing does.
    host: String,
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
    taken: Vec<MessageLine>,
    is_taken: Vec<bool>,
    above: Above,
    /// Set until a line of the command's output was taken.
    is_first_of_command: bool,
    is_behind_blank: bool,
    /// Machine of the last prompt.
    prompt_host: String,
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
        let prompt = command_line::parse_prompt(line, &[]);
        if let Some(host) = prompt.as_ref().and_then(|prompt| prompt.host.as_ref()) {
            self.prompt_host.clone_from(host);
        }
        let (has_prompt, command) = (prompt.is_some(), prompt.and_then(|prompt| prompt.command));
        if command.as_ref().is_some_and(prints_messages) {
            // a prompt without output must not announce what is below it
            self.is_taken[index] = true;
            (self.above, self.is_first_of_command) = (Above::Command, true);
            return;
        }
        let is_foreign = has_prompt || tool_lines::detect_tool(line, "").is_some() || tool_lines::is_banner(line);
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
        // lines of other programs stand between those of the kernel
        let above = || self.taken.last().map_or_else(String::new, |last| last.host.clone());
        let host = host_of_kernel_message(line).unwrap_or_else(|| match self.prompt_host.as_str() {
            "" => above(),
            host => host.to_owned(),
        });
        self.taken.push(MessageLine { index, number: 0, text: line.to_owned(), host });
        self.is_first_of_command = false;
        if self.above != Above::Command {
            self.above = Above::Taken;
        }
    }

    /// Joins the rest of a line that was wrapped.
    fn join_line(&mut self, index: usize, line: &str) -> bool {
        let Some(MessageLine { text: last, .. }) = self.taken.last_mut() else { return false };
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
