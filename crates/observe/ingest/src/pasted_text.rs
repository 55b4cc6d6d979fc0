//! Text as people paste it, given as a file or on standard input: it is cut into sections, each a log of its own that
//! is held in memory.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::rc::Rc;

use diskwright_logs::LogInput;
use diskwright_logs::transcript::{self, MAX_TRANSCRIPT_BYTES, Section, Transcript};

use crate::given_log::{GivenLog, HeldContent, HeldSection};
use crate::report::Reporter;
use crate::request_traces::is_pipe;

/// Largest file all of which is looked at, bytes.
const MAX_WHOLE_CHECK_BYTES: u64 = 1 << 20;
/// Maximum number of parts that are named one by one.
const MAX_NAMED_PARTS: usize = 5;

/// Returns the sections of a log that is a text, else the log.
pub fn split_log(mut log: GivenLog, reporter: &Reporter) -> Vec<GivenLog> {
    let is_stream = log.path == Path::new("-") || is_pipe(&log.path);
    if !is_stream && log.is_ours() || log.has_several_files() {
        return vec![log];
    }
    if log.path == Path::new("-") && io::stdin().is_terminal() {
        reporter.note(format_args!("paste the text, then press Ctrl-D on a line of its own"));
    }
    // a log that cannot be opened says so when it is read
    let Ok(mut input) = LogInput::open_named(&log.path, &log.name) else { return vec![log] };
    let is_small = input.size_bytes().is_none_or(|bytes| bytes <= MAX_TRANSCRIPT_BYTES as u64);
    // of a large log the beginning shows whether it is the clean output of one tool
    let is_large_log = input.size_bytes().is_some_and(|bytes| bytes > MAX_WHOLE_CHECK_BYTES)
        && diskwright_logs::recognize_format(&input).is_ok()
        && transcript::split_transcript(input.head().bytes).is_none();
    let may_be_text = is_small && transcript::may_be_transcript(&input.head()) && !is_large_log;
    let bytes = if may_be_text { input.peek_all(MAX_TRANSCRIPT_BYTES) } else { None };
    if let Some(transcript) = bytes.as_deref().and_then(transcript::split_transcript) {
        report_unread(&log.name, &transcript, reporter);
        return transcript.sections.into_iter().map(|section| section_log(&log, section)).collect();
    }
    if is_stream {
        log.held = Some(match bytes {
            Some(bytes) => HeldContent::Whole(bytes.into()),
            None => HeldContent::Opened(Rc::new(RefCell::new(Some(input)))),
        });
    }
    vec![log]
}

fn section_log(log: &GivenLog, section: Section) -> GivenLog {
    let program = &section.program;
    GivenLog {
        path: log.path.clone(),
        name: format!("{}, {} ({program})", log.name, format_lines(section.lines)),
        is_bundled: true,
        pages: Vec::new(),
        unpacked: log.unpacked.clone(),
        held: Some(HeldContent::Section(HeldSection {
            text: Rc::from(section.text),
            program: section.program,
            lines: section.lines,
            interval: section.interval,
            is_first_report_kept: section.is_first_report_kept,
            host: section.host,
            run: section.run,
            run_name: section.run_name,
        })),
    }
}

/// Names a range of lines: `line 7`, `lines 7-9`.
pub(crate) fn format_lines((first, last): (usize, usize)) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first}-{last}") }
}

/// Names the parts of a text that nothing reads.
fn report_unread(name: &str, transcript: &Transcript, reporter: &Reporter) {
    for part in transcript.unread.iter().take(MAX_NAMED_PARTS) {
        reporter.warn(format_args!("{name}, {}: {} (left out)", format_lines(part.lines), part.reason));
    }
    if transcript.unread.len() > MAX_NAMED_PARTS {
        let more = transcript.unread.len() - MAX_NAMED_PARTS;
        reporter.warn(format_args!("{name}: {more} more parts are left out"));
    }
}
