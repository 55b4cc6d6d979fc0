//! Cuts the lines of a text into parts that one tool printed each.

use super::command_line::{self, CommandLine};
use super::forms::{self, FormReader};
use super::line_times::has_clock;
use super::tool_lines::{self, ToolKind};
use super::{restarts, run_labels, section_text};
use crate::pieces::LineTaker;
use crate::sysstat::impossible_clock::has_impossible_year;

/// Lines between a sentence that names a command and the output that it may be about.
const MAX_MENTION_LINES: usize = 6;
/// Lines between a remark and the output below it.
const MAX_REMARK_LINES: usize = 6;
/// Most prompts that are kept as those of this text; others are known by their form alone.
const MAX_PROMPTS: usize = 32;
/// Most words of a line that is a time.
const MAX_STAMP_WORDS: usize = 12;

/// A part of a text: what one tool printed in one run.
#[derive(Debug)]
pub(super) struct TextPart {
    pub kind: ToolKind,
    /// The command that was typed before it, or that a sentence above names.
    pub command: Option<CommandLine>,
    /// Indices of its lines.
    pub lines: Vec<usize>,
    /// Machine that the prompt above it names.
    pub host: Option<String>,
    /// Number of remarks above it: 0 before the first, else an index into [`CutText::remarks`] plus 1.
    pub remark: usize,
}

/// What a person wrote above output.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    /// Index of its line.
    line: usize,
    pub text: String,
    /// Set if it names a run, as `before:` does.
    pub is_label: bool,
}

/// Result of cutting.
#[derive(Default)]
pub(super) struct CutText {
    pub parts: Vec<TextPart>,
    /// Remarks right above parts.
    pub remarks: Vec<Remark>,
    /// Number of prompts and commands.
    pub prompts: usize,
}

/// Cuts lines into parts.
pub(super) fn cut_lines(lines: &[(usize, String)]) -> CutText {
    let next_filled = find_next_filled(lines);
    let mut cutter = Cutter {
        lines,
        next_filled,
        cut: CutText::default(),
        part: None,
        taker: None,
        awaited: None,
        mentioned: None,
        remark: None,
        host: None,
        pending: Vec::new(),
        prompts: Vec::new(),
        is_behind_sentence: false,
        is_behind_blank: false,
    };
    for index in 0..lines.len() {
        cutter.read_line(index);
    }
    cutter.close_part();
    let mut cut = cutter.cut;
    cut.parts.sort_by_key(|part| part.lines.first().copied());
    cut.parts = restarts::cut_at_restarts(cut.parts, lines);
    cut
}

/// For each line, the index of the next one that is not blank.
fn find_next_filled(lines: &[(usize, String)]) -> Vec<Option<usize>> {
    let mut next = None;
    let mut found = vec![None; lines.len()];
    for (index, (_, line)) in lines.iter().enumerate().rev() {
        found[index] = next;
        if !line.trim().is_empty() {
            next = Some(index);
        }
    }
    found
}

struct Cutter<'a> {
    lines: &'a [(usize, String)],
    next_filled: Vec<Option<usize>>,
    cut: CutText,
    part: Option<TextPart>,
    /// Follows the lines of a part that shows a moment.
    taker: Option<LineTaker>,
    /// The command whose output must follow.
    awaited: Option<CommandLine>,
    /// A command that a sentence named, and the index of its line.
    mentioned: Option<(usize, CommandLine)>,
    /// The last remark, until a part begins below it.
    remark: Option<Remark>,
    /// Machine of the last prompt.
    host: Option<String>,
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
            return self.read_prompt(prompt, index);
        }
        if tool_lines::is_banner(line) || is_stamp(text) {
            self.pending.push(index);
            return;
        }
        let next = self.next_filled[index].map_or("", |next| self.lines[next].1.as_str());
        if let Some(kind) = tool_lines::detect_tool(line, next) {
            self.read_tool_line(kind, index);
        } else if self.taker.as_mut().is_some_and(|taker| taker.takes(line)) {
            self.add_line(index);
        } else if let Some(form) = forms::detect_form(line, next) {
            self.read_form_line(form, index);
        } else if !self.read_label(index) {
            self.read_other_line(index);
        }
        self.is_behind_blank = false;
    }

    fn read_prompt(&mut self, found: command_line::PromptLine, index: usize) {
        self.cut.prompts += 1;
        let is_known = self.prompts.contains(&found.prompt);
        if found.prompt.len() > 2 && !is_known && self.prompts.len() < MAX_PROMPTS {
            self.prompts.push(found.prompt);
        }
        self.close_part();
        if found.host.is_some() {
            self.host = found.host;
        }
        // `root@db1:~# # before the change`
        let label = Some(&found.typed).filter(|typed| typed.starts_with('#') && found.command.is_none());
        if let Some(text) = label.and_then(|typed| run_labels::parse_run_label(typed)) {
            self.remark = Some(Remark { line: index, text, is_label: true });
        }
        // the output of `date` is the time of what follows
        if found.command.as_ref().is_none_or(|command| command.program != "date") {
            self.awaited = found.command;
        }
        self.mentioned = None;
    }

    /// Reads a line that names a run; returns false for other lines.
    fn read_label(&mut self, index: usize) -> bool {
        let line = &self.lines[index].1;
        let names_run = |text: &String| !text.is_empty() && !command_line::names_program(line);
        let Some(text) = run_labels::parse_run_label(line).filter(names_run) else { return false };
        self.remark = Some(Remark { line: index, text, is_label: true });
        match &self.part {
            Some(part) if part.kind.has_rows() || part.kind == ToolKind::Top => self.is_behind_sentence = true,
            Some(part) if part.kind != ToolKind::Other || part.command.is_some() => self.close_part(),
            _ => {}
        }
        true
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
        let is_absorbed = |part: &TextPart| {
            part.kind == ToolKind::Other && part.command.as_ref().is_some_and(CommandLine::prints_reports)
        };
        let continues = |part: &TextPart| part.kind == kind || is_absorbed(part);
        let is_same = self.awaited.is_none() && self.part.as_ref().is_some_and(continues);
        // the first line of top begins a frame
        let is_begin = kind != ToolKind::Top || self.lines[index].1.trim_start().starts_with("top - ");
        let may_repeat = |part: &TextPart| part.kind.has_rows() || part.kind == ToolKind::Top && is_begin;
        if !is_same || self.is_behind_sentence && self.part.as_ref().is_some_and(may_repeat) {
            self.close_part();
            let command = self.take_command(kind, index);
            self.open_part(kind, command, index);
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

    /// The first line of what a small command or a file holds.
    fn read_form_line(&mut self, (name, reader): (&'static str, FormReader), index: usize) {
        let kind = ToolKind::Form(name);
        let is_snapshot = reader == FormReader::Snapshot;
        let is_absorbed = |part: &TextPart| match part.kind {
            ToolKind::Other | ToolKind::Proc => part.command.is_some() && (is_snapshot || part.lines.is_empty()),
            ToolKind::Free | ToolKind::Uptime => is_snapshot && part.command.is_some(),
            found => found == kind,
        };
        let is_same = self.awaited.is_none() && self.part.as_ref().is_some_and(is_absorbed);
        if is_same && !(self.is_behind_sentence && reader == FormReader::Rows) {
            return self.add_line(index);
        }
        let is_table = |command: &CommandLine| ToolKind::of_command(command).is_table();
        let is_table_awaited = self.awaited.as_ref().is_some_and(is_table);
        self.close_part();
        let command = if is_table_awaited { None } else { self.awaited.take() };
        self.open_part(kind, command, index);
        if is_snapshot {
            let mut taker = LineTaker::new();
            taker.takes(&self.lines[index].1);
            self.taker = Some(taker);
        }
        self.add_line(index);
    }

    fn read_other_line(&mut self, index: usize) {
        let line = &self.lines[index].1;
        if let Some(command) = self.awaited.take() {
            let is_file = command.printed_file().is_some();
            let kind = if is_file { ToolKind::Proc } else { ToolKind::of_command(&command) };
            self.open_part(kind, Some(command), index);
            return self.add_line(index);
        }
        let is_sentence = tool_lines::is_sentence(line);
        if is_sentence {
            self.remark = Some(Remark { line: index, text: line.trim().to_owned(), is_label: false });
        }
        match &self.part {
            Some(part) if self.is_labelled_row(part, line) => self.repeat_headings(index),
            // its rows may hold words: names of devices, LINUX RESTART
            Some(part) if part.kind == ToolKind::Sar && tool_lines::begins_as_row_of_sar(line) => self.add_line(index),
            Some(part) if part.kind.has_rows() && is_sentence => self.is_behind_sentence = true,
            Some(part) if part.kind == ToolKind::Top && is_sentence && !line.contains(char::is_numeric) => {
                self.is_behind_sentence = true;
            }
            Some(part) if self.has_ended(part, line, is_sentence) => {
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

    /// True if a line that no tool is known to print cannot be of this part any more.
    fn has_ended(&self, part: &TextPart, line: &str, is_sentence: bool) -> bool {
        match part.kind {
            // its rows are numbers; whatever else follows was printed by something else
            ToolKind::Vmstat => tool_lines::number_percent(line) < 50,
            // one line, or lines up to a blank one
            ToolKind::Uptime => true,
            ToolKind::Free => self.is_behind_blank || is_sentence,
            ToolKind::Form(_) => is_sentence,
            ToolKind::Other => part.command.is_none() && self.is_behind_blank,
            _ => false,
        }
    }

    /// True for a row of vmstat right below a line that names a run: its headings stand above the run before.
    fn is_labelled_row(&self, part: &TextPart, line: &str) -> bool {
        let is_labelled = self.remark.as_ref().is_some_and(|remark| remark.is_label);
        is_labelled && part.kind == ToolKind::Vmstat && tool_lines::number_percent(line) > 70
    }

    fn repeat_headings(&mut self, index: usize) {
        let found = self
            .part
            .as_ref()
            .and_then(|part| Some((section_text::find_heading(part, self.lines)?, part.command.clone())));
        let Some((heading, command)) = found else { return self.add_line(index) };
        self.close_part();
        self.open_part(ToolKind::Vmstat, command, index);
        self.add_line(heading);
        self.add_line(index);
    }

    fn begin_loose_part(&mut self, index: usize) {
        let host = self.host.clone();
        self.part = Some(TextPart {
            kind: ToolKind::Other,
            command: None,
            lines: Vec::new(),
            host,
            remark: self.cut.remarks.len(),
        });
        self.add_line(index);
    }

    /// Begins a part of a tool, with the remark right above it.
    fn open_part(&mut self, kind: ToolKind, command: Option<CommandLine>, index: usize) {
        if let Some(remark) = self.remark.take().filter(|remark| index - remark.line <= MAX_REMARK_LINES) {
            self.cut.remarks.push(remark);
        }
        let (host, remark) = (self.host.clone(), self.cut.remarks.len());
        self.part = Some(TextPart { kind, command, lines: Vec::new(), host, remark });
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
        self.taker = None;
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

/// True for a line that holds only a time, also one that cannot be used.
fn is_stamp(text: &str) -> bool {
    let is_word = !text.contains(' ');
    (is_word || !text.is_ascii() || has_clock(text))
        && text.split_whitespace().nth(MAX_STAMP_WORDS).is_none()
        && (crate::stamp_line::parse_stamp(text, MONTH_FIRST).is_some() || has_impossible_year(text))
}

/// True for what stands for lines that were left out, and for keys that a terminal shows.
fn is_left_out_sign(text: &str) -> bool {
    let inner = text.trim_matches(|c: char| matches!(c, '[' | '(' | '<' | '{' | ']' | ')' | '>' | '}' | '-' | ' '));
    matches!(inner, "..." | "…" | "snip" | "cut" | ".." | "More" | "" | "^C" | "^Z" | "~" | "skipped" | "etc" | "etc.")
        && !text.starts_with("---")
        || text.starts_with("~~~")
}
