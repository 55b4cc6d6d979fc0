//! Text as people paste it: what several tools printed, with prompts, sentences and marks of posting around it. It is
//! cut into sections that one reader reads each; what stands around them tells how they were made.

#[cfg(test)]
mod broken_table_tests;
mod column_names;
mod command_line;
mod cutter;
mod flat_text;
mod forms;
mod line_times;
mod marks;
mod message_lines;
mod missing_headings;
mod prompt_host;
mod restarts;
mod row_remarks;
mod run_labels;
mod runs;
mod section_text;
mod table_marks;
#[cfg(test)]
mod tests;
mod tool_lines;
mod unfinished_row;
mod wrapped_rows;

use std::collections::HashMap;
use std::time::Duration;

use crate::input::{InputHead, MAX_HEAD_BYTES};
use crate::{LogFormat, host_split, plain_text, unsupported_formats, watcher_file};
use cutter::TextPart;
use line_times::LineTime;
use message_lines::MessageLine;
use tool_lines::ToolKind;

pub use run_labels::order_of_label;

/// Largest text that is cut; a larger file is a log of one tool, bytes.
pub const MAX_TRANSCRIPT_BYTES: usize = 8 << 20;

/// A text, cut into sections.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// Sections that a reader understands, in order of appearance.
    pub sections: Vec<Section>,
    /// Parts that look like output, and that no reader understands.
    pub unread: Vec<UnreadPart>,
}

/// Output of one tool in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Name of the program, as far as it is known.
    pub program: String,
    /// The output, without what stood around it.
    pub text: String,
    /// First and last line in the whole text, counted from 1.
    pub lines: (usize, usize),
    /// Command line that made it.
    pub command: Option<String>,
    /// Time between its reports, according to the command line.
    pub interval: Option<Duration>,
    /// Set if the first report covers an interval like the others (`iostat -y`).
    pub is_first_report_kept: bool,
    /// Machine, by what the tool or the prompt above says; empty if nothing names it.
    pub host: String,
    /// Number of the run that it belongs to: people paste before and after a change.
    pub run: usize,
    /// What a person wrote above its run; empty if there is no name.
    pub run_name: String,
    /// Machine that the prompt above names.
    prompt_host: Option<String>,
    /// Number of remarks above it.
    remark: usize,
    /// Id of its format.
    format: &'static str,
}

/// Lines that nothing reads.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadPart {
    /// First and last line in the whole text, counted from 1.
    pub lines: (usize, usize),
    /// What it is, and what to do instead.
    pub reason: String,
}

/// Formats of a file as a whole, in which nothing is pasted.
const WHOLE_FORMATS: &[&str] = &[
    "perfmon-text",
    "perfmon-blg",
    "prometheus-text",
    "sadf-json",
    "sadf-xml",
    "sadf-rows",
    "iostat-json",
    "mpstat-json",
    "sa-binary",
    "pcp",
    "dstat-csv",
    "nmon",
    "collectl-table",
    "collectl-raw",
    "atop-text",
    "atop-raw",
    "csv",
    "prometheus-json",
    "otlp-json",
    "influx-lines",
    "cloudwatch-json",
];

/// Id of the format of messages of the kernel.
const MESSAGES: &str = "kernel-log";

/// True if the beginning of a file may be that of a pasted text.
#[must_use]
pub fn may_be_transcript(head: &InputHead<'_>) -> bool {
    let is_text = !head.bytes.is_empty() && !head.bytes.contains(&0);
    is_text
        && !crate::is_tar(head.bytes)
        && crate::format_of_head(head).is_none_or(|format| !WHOLE_FORMATS.contains(&format.id))
        && watcher_file::WatcherFile::from_head(head).is_none()
        && !host_split::is_of_several_hosts(head)
}

/// Cuts a text into sections; `None` if it is one clean section, which is read as it is.
#[must_use]
pub fn split_transcript(text: &[u8]) -> Option<Transcript> {
    let mut clean = marks::remove_marks(&plain_text::decode_text(text));
    let format = format_of_lines(&clean.lines);
    if format.is_some_and(|format| WHOLE_FORMATS.contains(&format.id)) {
        return None;
    }
    let messages = message_lines::take_message_lines(&mut clean.lines);
    if !messages.is_empty() {
        let is_all = clean.lines.iter().all(|(_, line)| line.trim().is_empty());
        let is_of_one = message_lines::count_hosts(&messages) < 2;
        if is_all && !clean.had_marks && is_of_one && format.is_some_and(|format| format.id == MESSAGES) {
            return None;
        }
        return Some(add_messages(clean, messages, text.ends_with(b"\n")));
    }
    cut_text(clean, format, text.ends_with(b"\n"))
}

/// Cuts what remains of a text without its messages, and adds these.
fn add_messages(clean: marks::CleanLines, messages: Vec<MessageLine>, is_finished: bool) -> Transcript {
    let mut transcript = Transcript::default();
    if clean.lines.iter().any(|(_, line)| !line.trim().is_empty()) {
        let format = format_of_lines(&clean.lines);
        let clean = marks::CleanLines { had_marks: true, ..clean };
        transcript = cut_text(clean, format, is_finished).unwrap_or_default();
    }
    let messages = message_lines::make_sections(messages, &transcript.sections);
    // output without a name is of the only machine that the messages name
    let is_nameless = transcript.sections.iter().all(|section| section.host.is_empty());
    let of_one = messages.first().filter(|first| messages.iter().all(|section| section.host == first.host));
    if let Some(first) = of_one.filter(|_| is_nameless) {
        transcript.sections.iter_mut().for_each(|section| section.host.clone_from(&first.host));
    }
    transcript.sections.extend(messages);
    transcript
}

/// Cuts lines into sections; `None` if they are one clean section.
fn cut_text(
    mut clean: marks::CleanLines,
    mut format: Option<&'static LogFormat>,
    is_finished: bool,
) -> Option<Transcript> {
    // rows that begin with a time of their own: only with headings are they known
    let had_no_headings = format.is_none() && missing_headings::add_missing_headings(&mut clean.lines);
    if had_no_headings {
        format = format_of_lines(&clean.lines);
    }
    if format.is_some_and(|format| WHOLE_FORMATS.contains(&format.id)) {
        return None;
    }
    // these have times of their own before their lines
    let has_own_times = format.is_some_and(|format| matches!(format.id, "vmstat-text" | "sar-text" | "unix-sar"));
    let times = if has_own_times { None } else { line_times::split_line_times(&mut clean.lines) };
    let mut lines = clean.lines;
    let is_unfinished = !is_finished && unfinished_row::mend_last_row(&mut lines);
    // each line has its time, so lines are joined only where there are none
    let is_mended = times.is_none() && mend_tables(&mut lines);
    let cut = cutter::cut_lines(&lines);
    let is_changed =
        clean.had_marks || times.is_some() || is_mended || is_unfinished || had_no_headings || cut.prompts > 0;
    let output_parts = cut.parts.iter().filter(|part| part.kind != ToolKind::Other).count();
    // output of /proc and of collectors holds lines of many tools
    let is_one = output_parts < 2 && cut.parts.iter().all(|part| part.command.is_none());
    if !is_changed && format.is_some() && (is_one || format.is_some_and(|format| format.id == "proc-loop")) {
        return None;
    }
    let mut transcript = to_transcript(cut.parts, &lines, times.as_deref());
    runs::name_hosts(&mut transcript.sections);
    runs::number_runs(&mut transcript.sections, &cut.remarks);
    transcript.join_dumps();
    transcript.join_loops();
    if times.is_some_and(|times| times.iter().all(Option::is_none)) {
        let last = lines.last().map_or(1, |(number, _)| *number);
        let reason = format!("times before lines: {}", crate::skips::UNUSABLE_CLOCK);
        transcript.unread.push(UnreadPart { lines: (1, last), reason });
    }
    (!transcript.sections.is_empty()).then_some(transcript)
}

/// Mends tables that a terminal, a mailer or a web page broke. Returns whether any were.
fn mend_tables(lines: &mut Vec<(usize, String)>) -> bool {
    let was_flat = flat_text::cut_flat_lines(lines);
    let was_wrapped = wrapped_rows::join_wrapped(lines);
    missing_headings::add_missing_headings(lines) || was_flat || was_wrapped
}

fn format_of_lines(lines: &[(usize, String)]) -> Option<&'static LogFormat> {
    let mut head = String::new();
    for (_, line) in lines {
        if head.len() + line.len() >= MAX_HEAD_BYTES {
            break;
        }
        head.push_str(line);
        head.push('\n');
    }
    format_of_text(&head)
}

fn format_of_text(text: &str) -> Option<&'static LogFormat> {
    let bytes = &text.as_bytes()[..text.len().min(MAX_HEAD_BYTES)];
    crate::format_of_head(&InputHead { name: "", bytes })
}

fn to_transcript(parts: Vec<TextPart>, lines: &[(usize, String)], times: Option<&[Option<LineTime>]>) -> Transcript {
    let mut transcript = Transcript::default();
    let mut rows_above: Option<TextPart> = None;
    let mut known = (parts.len() > MAX_SECTIONS).then(KnownFormats::default);
    for mut part in parts {
        // rows that the beginning of the paste lost their headings of
        let headless = rows_above.take().filter(|rows| section_text::fits_headings(rows, &part, lines));
        let heading = headless.as_ref().and_then(|_| section_text::find_heading(&part, lines));
        if let (Some(rows), Some(heading)) = (headless, heading) {
            let first = rows.lines.first().map_or(0, |index| lines[*index].0);
            transcript.unread.pop_if(|unread| unread.lines.0 >= first);
            let all = std::iter::once(heading).chain(rows.lines).chain(part.lines);
            part = TextPart { lines: all.collect(), ..part };
        }
        if part.kind == ToolKind::Other && part.command.is_none() {
            rows_above = Some(part);
            let part = rows_above.as_ref().map(|part| to_section(part, lines, times, known.as_mut()));
            // kept for the next part, which may have the headings; pushed now if it is readable by itself
            if let Some(Ok(section)) = part {
                transcript.sections.push(section);
                rows_above = None;
            } else if let Some(Err(Some(unread))) = part {
                transcript.unread.push(unread);
            }
            continue;
        }
        match to_section(&part, lines, times, known.as_mut()) {
            Ok(section) => transcript.sections.push(section),
            Err(unread) => transcript.unread.extend(unread),
        }
    }
    transcript
}

impl Transcript {
    /// Joins what shows a moment (`cat /proc/meminfo`, `df`) and stands in succession, if one reader reads it: it is of
    /// one moment, or a loop.
    fn join_dumps(&mut self) {
        let mut joined: Vec<Section> = Vec::with_capacity(self.sections.len());
        for section in self.sections.drain(..) {
            match joined.last_mut().filter(|last| last.is_of_moment(&section)) {
                Some(last) => last.append(&section),
                None => joined.push(section),
            }
        }
        self.sections = joined;
    }
}

/// Most sections of a text; more are the log of a loop.
const MAX_SECTIONS: usize = 200;
/// Line that shows the reader of vmstat that it was started again.
const STARTED_AGAIN: &str = "(started again)\n";

impl Transcript {
    /// Joins the output of each program, if there are so many sections that a loop made them.
    fn join_loops(&mut self) {
        if self.sections.len() <= MAX_SECTIONS {
            return;
        }
        let mut places: HashMap<(String, String, usize, &'static str, Option<Duration>), usize> = HashMap::new();
        let mut joined: Vec<Section> = Vec::new();
        for section in self.sections.drain(..) {
            let key = (section.program.clone(), section.host.clone(), section.run, section.format, section.interval);
            let place = *places.entry(key).or_insert(joined.len());
            match joined.get_mut(place) {
                Some(first) => {
                    if section.format == "vmstat-text" {
                        first.text.push_str(STARTED_AGAIN);
                    }
                    first.text.push_str(&section.text);
                    first.lines.1 = section.lines.1;
                }
                None => joined.push(section),
            }
        }
        self.sections = joined;
    }
}

/// Formats of parts that were looked at, by what begins them: a loop prints the same form again and again.
#[derive(Default)]
struct KnownFormats(HashMap<(String, String), Option<&'static LogFormat>>);

impl KnownFormats {
    fn find(&mut self, part: &TextPart, text: &str) -> Option<&'static LogFormat> {
        let command = part.command.as_ref().map_or_else(String::new, command_line::CommandLine::to_text);
        let shape = |line: &str| line.chars().filter(|c| !c.is_ascii_digit() && *c != ' ').collect::<String>();
        let first: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).take(2).map(shape).collect();
        *self.0.entry((command, first.join("\n"))).or_insert_with(|| format_of_text(text))
    }
}

/// Format of what shows a moment.
const MOMENT_FORMAT: &str = "snapshot-text";
/// Line that ends what a file holds.
const NO_FILE: &str = "==>  <==\n";

impl Section {
    /// True if another section, right below, goes on with this one.
    fn is_of_moment(&self, next: &Section) -> bool {
        let are_dumps = self.program.starts_with('/') && next.program.starts_with('/') || next.format == MOMENT_FORMAT;
        let is_same = self.format == next.format && self.interval == next.interval;
        are_dumps && is_same && self.host == next.host && self.run == next.run
    }

    fn append(&mut self, next: &Section) {
        if next.format == MOMENT_FORMAT && !next.text.starts_with("==> ") {
            self.text.push_str(NO_FILE);
        }
        self.text.push_str(&next.text);
        self.lines.1 = next.lines.1;
        let is_named = self.program.split(", ").any(|name| name == next.program);
        if !is_named && self.program.len() < MAX_PROGRAMS_BYTES {
            self.program = format!("{}, {}", self.program, next.program);
        }
    }
}

/// Longest list of programs that a section names.
const MAX_PROGRAMS_BYTES: usize = 80;

/// Makes a section of a part; `Err` if no reader understands it, with what to report if it looks like output.
fn to_section(
    part: &TextPart,
    lines: &[(usize, String)],
    times: Option<&[Option<LineTime>]>,
    known: Option<&mut KnownFormats>,
) -> Result<Section, Option<UnreadPart>> {
    let text = section_text::build_text(part, lines, times);
    // headings that are repeated from the run above stand far from the rows
    let has_borrowed =
        matches!(part.lines[..], [first, second, ..] if part.kind == ToolKind::Vmstat && first + 1 < second);
    let numbers: Vec<usize> = part.lines[usize::from(has_borrowed)..].iter().map(|index| lines[*index].0).collect();
    let range = (numbers.iter().copied().min().unwrap_or(1), numbers.iter().copied().max().unwrap_or(1));
    let program = match &part.command {
        Some(command) => command.printed_file().unwrap_or(&command.program).to_owned(),
        None => part.kind.name().to_owned(),
    };
    let is_announced = part.command.is_some();
    let found = match known {
        Some(known) => known.find(part, &text),
        None => format_of_text(&text),
    };
    let format = found.filter(|format| is_announced || !WHOLE_FORMATS.contains(&format.id));
    if let Some(format) = format {
        let own_host = || {
            let own_lines = part.lines.iter().map(|index| lines[*index].1.as_str());
            own_lines.take(MAX_HOST_LINES).find_map(prompt_host::host_of_banner)
        };
        return Ok(Section {
            program,
            text,
            lines: range,
            command: part.command.as_ref().map(command_line::CommandLine::to_text),
            interval: part.command.as_ref().and_then(|command| command.interval),
            is_first_report_kept: part.command.as_ref().is_some_and(command_line::CommandLine::omits_first_report),
            host: own_host().unwrap_or_default(),
            run: 0,
            run_name: String::new(),
            prompt_host: part.host.clone(),
            remark: part.remark,
            format: format.id,
        });
    }
    let head = InputHead { name: "", bytes: &text.as_bytes()[..text.len().min(MAX_HEAD_BYTES)] };
    let reason = match unsupported_formats::identify_unsupported(&head) {
        Some((name, instead)) => format!("{name}, which is not read here; {instead}"),
        // the kernel's log is read: it has no message that counts
        None if matches!(program.as_str(), "dmesg" | "journalctl") => return Err(None),
        None if is_announced || part.kind != ToolKind::Other => {
            let typed = part.command.as_ref().map_or(program, command_line::CommandLine::to_text);
            format!("output of `{typed}`, which is not read here")
        }
        None if looks_like_output(&text) => "rows of numbers that belong to no known tool".to_owned(),
        None => return Err(None),
    };
    Err(Some(UnreadPart { lines: range, reason }))
}

/// Lines of a section in which its machine is looked for.
const MAX_HOST_LINES: usize = 20;

/// True for lines of mostly numbers.
fn looks_like_output(text: &str) -> bool {
    let rows = text.lines().filter(|line| tool_lines::number_percent(line) >= 50).count();
    rows >= 2 && rows * 2 >= text.lines().count()
}
