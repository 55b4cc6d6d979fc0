//! Cuts the lines of a text into parts that one tool printed each.

use super::command_line::{self, CommandLine};
use super::tool_lines::{self, ToolKind};

/// Lines between a sentence that names a command and the output that it may be about.
const MAX_MENTION_LINES: usize = 6;

/// A part of a text: what one tool printed in one run.
#[derive(Debug)]
pub(super) struct TextPart {
    pub kind: ToolKind,
    /// The command that was typed before it, or that a sentence above names.
    pub command: Option<CommandLine>,
    /// Indices of its lines.
    pub lines: Vec<usize>,
}

/// Result of cutting.
#[derive(Default)]
pub(super) struct CutText {
    pub parts: Vec<TextPart>,
    /// Number of prompts and commands.
    pub prompts: usize,
}

/// Cuts lines into parts.
pub(super) fn cut_lines(lines: &[(usize, String)]) -> CutText {
    let mut cutter = Cutter { lines, ..Cutter::default() };
    for index in 0..lines.len() {
        cutter.read_line(index);
    }
    cutter.close_part();
    cutter.cut
}

#[derive(Default)]
struct Cutter<'a> {
    lines: &'a [(usize, String)],
    cut: CutText,
    part: Option<TextPart>,
    /// The command whose output must follow.
    awaited: Option<CommandLine>,
    /// A command that a sentence named, and the index of its line.
    mentioned: Option<(usize, CommandLine)>,
    /// Lines that belong to what follows: the machine, times.
    pending: Vec<usize>,
    /// Prompts of this text.
    prompts: Vec<String>,
    /// Set if a sentence stood behind the last line of the part.
    is_behind_sentence: bool,
    /// Set if a blank line stood behind the last line of the part.
    is_behind_blank: bool,
}

impl Cutter<'_> {
    fn read_line(&mut self, index: usize) {
        let line = &self.lines[index].1;
        let text = line.trim();
        if text.is_empty() {
            self.is_behind_blank = true;
            return self.add_blank(index);
        }
        if is_left_out_sign(text) {
            return;
        }
        if let Some(prompt) = command_line::parse_prompt(line, &self.prompts) {
            return self.read_prompt(prompt);
        }
        if tool_lines::is_banner(line) || crate::stamp_line::parse_stamp(text, MONTH_FIRST).is_some() {
            self.pending.push(index);
            return;
        }
        let next = self.lines[index + 1..].iter().map(|(_, line)| line).find(|line| !line.trim().is_empty());
        match tool_lines::detect_tool(line, next.map_or("", String::as_str)) {
            Some(kind) => self.read_tool_line(kind, index),
            None => self.read_other_line(index),
        }
        self.is_behind_blank = false;
    }

    fn read_prompt(&mut self, found: command_line::PromptLine) {
        self.cut.prompts += 1;
        if found.prompt.len() > 2 && !self.prompts.contains(&found.prompt) {
            self.prompts.push(found.prompt);
        }
        self.close_part();
        // the output of `date` is the time of what follows
        if found.command.as_ref().is_none_or(|command| command.program != "date") {
            self.awaited = found.command;
        }
        self.mentioned = None;
    }

    /// A title, heading or first line of a tool.
    fn read_tool_line(&mut self, kind: ToolKind, index: usize) {
        let is_unix = kind == ToolKind::UnixIostat;
        if let Some(part) = &mut self.part
            && part.kind == ToolKind::Iostat
            && part.command.is_some()
            && is_unix
        {
            // what stands above the headings of other systems' iostat
            part.kind = kind;
        }
        let continues = |part: &TextPart| part.kind == kind || part.kind == ToolKind::Other && part.command.is_some();
        let is_same = self.awaited.is_none() && self.part.as_ref().is_some_and(continues);
        // the first line of top begins a frame
        let is_begin = kind != ToolKind::Top || self.lines[index].1.trim_start().starts_with("top - ");
        let may_repeat = |part: &TextPart| part.kind.has_rows() || part.kind == ToolKind::Top && is_begin;
        if !is_same || self.is_behind_sentence && self.part.as_ref().is_some_and(may_repeat) {
            self.close_part();
            let command = self.take_command(kind, index);
            self.part = Some(TextPart { kind, command, lines: Vec::new() });
        }
        self.add_line(index);
    }

    /// The command that printed a tool's lines.
    fn take_command(&mut self, kind: ToolKind, index: usize) -> Option<CommandLine> {
        let awaited = self.awaited.take();
        if awaited.is_some() {
            return awaited.filter(|command| kind.may_be_of(&command.program));
        }
        let near = |(line, command): &(usize, CommandLine)| {
            index - line <= MAX_MENTION_LINES && ToolKind::of_program(&command.program) == kind
        };
        self.mentioned.take().filter(near).map(|(_, command)| command)
    }

    fn read_other_line(&mut self, index: usize) {
        let line = &self.lines[index].1;
        if let Some(command) = self.awaited.take() {
            let is_file = command.printed_file().is_some();
            let kind = if is_file { ToolKind::Proc } else { ToolKind::of_command(&command) };
            self.part = Some(TextPart { kind, command: Some(command), lines: Vec::new() });
            return self.add_line(index);
        }
        let is_sentence = tool_lines::is_sentence(line);
        match &self.part {
            // its rows may hold words: names of devices, LINUX RESTART
            Some(part) if part.kind == ToolKind::Sar && tool_lines::begins_as_row_of_sar(line) => self.add_line(index),
            Some(part) if part.kind.has_rows() && is_sentence => self.is_behind_sentence = true,
            Some(part) if part.kind == ToolKind::Top && is_sentence && !line.contains(char::is_numeric) => {
                self.is_behind_sentence = true;
            }
            // vmstat's rows are numbers; whatever else follows was printed by something else
            Some(part) if part.kind == ToolKind::Vmstat && tool_lines::number_percent(line) < 50 => {
                self.close_part();
                self.begin_loose_part(index);
            }
            // one line, or lines up to a blank one
            Some(part)
                if part.kind == ToolKind::Uptime
                    || part.kind == ToolKind::Free && (self.is_behind_blank || is_sentence) =>
            {
                self.close_part();
                self.begin_loose_part(index);
            }
            Some(part) if part.kind == ToolKind::Other && part.command.is_none() && self.is_behind_blank => {
                self.close_part();
                self.begin_loose_part(index);
            }
            Some(_) => self.add_line(index),
            None => self.begin_loose_part(index),
        }
        if let Some(command) = command_line::find_mention(line).filter(|_| is_sentence) {
            self.mentioned = Some((index, command));
        }
    }

    fn begin_loose_part(&mut self, index: usize) {
        self.part = Some(TextPart { kind: ToolKind::Other, command: None, lines: Vec::new() });
        self.add_line(index);
    }

    fn add_line(&mut self, index: usize) {
        self.is_behind_sentence = false;
        let pending = std::mem::take(&mut self.pending);
        if let Some(part) = &mut self.part {
            part.lines.extend(pending);
            part.lines.push(index);
        }
    }

    fn add_blank(&mut self, index: usize) {
        if !self.pending.is_empty() {
            self.pending.push(index);
        } else if let Some(part) = &mut self.part {
            part.lines.push(index);
        }
    }

    fn close_part(&mut self) {
        self.is_behind_sentence = false;
        if let Some(mut part) = self.part.take() {
            while part.lines.last().is_some_and(|index| self.lines[*index].1.trim().is_empty()) {
                part.lines.pop();
            }
            if !part.lines.is_empty() {
                self.cut.parts.push(part);
            }
        }
    }
}

const MONTH_FIRST: crate::sysstat::time::NumericDateOrder = crate::sysstat::time::NumericDateOrder::MonthFirst;

/// True for what stands for lines that were left out, and for keys that a terminal shows.
fn is_left_out_sign(text: &str) -> bool {
    let inner = text.trim_matches(|c: char| matches!(c, '[' | '(' | '<' | '{' | ']' | ')' | '>' | '}' | '-' | ' '));
    matches!(inner, "..." | "…" | "snip" | "cut" | ".." | "More" | "" | "^C" | "^Z" | "~" | "skipped" | "etc" | "etc.")
        && !text.starts_with("---")
        || text.starts_with("~~~")
}
