//! Logs of messages: `dmesg` in its forms, `journalctl`, /var/log/messages, syslog, lines of them in a ticket. Lines of
//! the kernel and of the programs that watch disks and memory count: errors of disks and links, tasks that hang,
//! servers that do not respond, programs that were killed because memory ran out, heat, low voltage. Events outside of
//! the time that other logs measured are history, and are told.

mod disks;
mod event_times;
mod host_events;
pub(crate) mod log_line;
#[cfg(test)]
mod tests;
mod troubles;

use std::collections::BTreeMap;

use diskwright_base::counter_ids::system;
use diskwright_base::kernel_messages::{KERNEL, MessageClass, read_message};
use diskwright_base::text::truncate_text;
use diskwright_base::units::format_count;
use diskwright_base::{Note, Topology};

use crate::input::MAX_HEAD_BYTES;
use crate::level_row::LevelRow;
use crate::report_times::ReportTimes;
use crate::sysstat::stream_window::StreamWindow;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions, MeasuredTime};
use event_times::{EventTime, Place};
use host_events::HostEvents;
use log_line::{LogLine, SECTION_MARK, is_journal_mark};
use troubles::{Event, Findings, judge_events};

/// The format.
pub static FORMAT: LogFormat = LogFormat {
    id: "kernel-log",
    title: "messages of the kernel: dmesg, journalctl, syslog, /var/log/messages",
    explain: "Errors and resets of disks, links and paths, tasks that hang, file servers that do not respond, programs \
              that were killed because memory ran out, heat and low voltage, with any time before the message; also \
              lines of systemd, systemd-oomd, kubelet, mdadm, smartd and multipathd about the same. Messages outside \
              of the time that other logs measured are history. Troubles that came once and were over are told, not \
              judged. Lines of other programs are counted. Record it with `dmesg -T` or `journalctl -k -o short-iso`.",
    recognize: is_kernel_log,
    read,
};

/// Seconds after the start in which drivers look for devices.
const START_S: f64 = 60.0;
/// Longest text of a message that is told, characters.
const MAX_TOLD_CHARS: usize = 120;
/// Largest number of messages that are kept.
const MAX_EVENTS: usize = 100_000;
/// Largest number of events outside of the measured time that are told one by one.
const MAX_HISTORY: usize = 5;
/// Lines that decide what a file is.
const MAX_CHECKED_LINES: usize = 200;
/// Lines of a log, from which on it does not matter how much stands before them.
const MIN_LINES: usize = 5;
/// Length of the only tick, if the events have no times, nanoseconds.
const MIN_TICK_NS: i64 = 1_000_000_000;

fn is_kernel_log(head: &InputHead<'_>) -> bool {
    let (mut of_log, mut others, mut others_behind) = (0_usize, 0_usize, 0_usize);
    // of a longer file the head may have none yet
    let mut has_kernel_lines = head.bytes.len() >= MAX_HEAD_BYTES;
    for line in head.text_lines().filter(|line| !line.trim().is_empty()) {
        if let Some(found) = LogLine::parse(&line) {
            has_kernel_lines |= is_of_kernel(&found);
            of_log += 1;
        } else if line.starts_with(SECTION_MARK) {
            return true;
        } else if is_journal_mark(&line) {
            of_log += 1;
        } else if of_log == 0 || !is_between(&line) {
            others += 1;
            others_behind += usize::from(of_log > 0);
        }
        if has_kernel_lines && of_log + others >= MAX_CHECKED_LINES {
            break;
        }
    }
    // any text may stand before it
    has_kernel_lines && (of_log > others || of_log >= MIN_LINES && of_log >= others_behind)
}

/// True for a line of the kernel, or of another program about the same.
pub(crate) fn is_of_kernel(line: &LogLine<'_>) -> bool {
    line.program == KERNEL || read_message(line.program, line.message).is_some()
}

/// True for a line without a time as the kernel writes them between messages: call traces, registers, the steps of a
/// driver.
pub(crate) fn is_between(line: &str) -> bool {
    const STARTS: [&str; 27] = [
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
        "Mem abort info",
    ];
    let line = line.trim_start();
    // `[<ffffffff8111>] ? dump_header+0x90/0x1b0`, `dump_stack+0x6d/0x9a`
    STARTS.iter().any(|start| line.starts_with(start)) || line.contains("+0x") && line.contains("/0x")
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut log = MessageLog::default();
    let mut stream = StreamWindow::new(input);
    let mut line_number = 0;
    while let Some(line) = stream.next_text_line(batch, &mut line_number)? {
        log.add_line(&line);
    }
    if log.kernel_lines == 0 {
        let because = format!("{} lines of other programs, and none of the kernel", group_digits(log.other_lines));
        return Err(LogError::NoSamples { file: input.name().to_owned(), because });
    }
    log.finish(options, batch);
    Ok(())
}

/// What was read of a log.
#[derive(Default)]
struct MessageLog {
    events: Vec<Event>,
    /// Number of lines of the kernel.
    kernel_lines: usize,
    /// Number of lines of other programs.
    other_lines: usize,
    /// Lines that have no form of a log.
    unknown_lines: usize,
    lost_events: usize,
    /// The last date that was printed, to which differences refer.
    last_stamp: String,
    host_events: HostEvents,
    /// Time of the machine's start on the clock of the log.
    start_s: Option<f64>,
}

impl MessageLog {
    fn add_line(&mut self, line: &str) {
        let Some(found) = LogLine::parse(line) else {
            let is_blank = line.trim().is_empty() || is_journal_mark(line) || is_between(line);
            self.unknown_lines += usize::from(!is_blank);
            return self.host_events.add_bare_line(line);
        };
        if !found.stamp.is_empty() {
            found.stamp.clone_into(&mut self.last_stamp);
        }
        let known = read_message(found.program, found.message);
        let is_of_kernel = found.program == KERNEL || known.is_some();
        self.kernel_lines += usize::from(is_of_kernel);
        self.other_lines += usize::from(!is_of_kernel);
        let stamp = if found.is_relative { self.last_stamp.as_str() } else { found.stamp };
        let moment = EventTime { stamp: stamp.to_owned(), boot_s: found.boot_s };
        if is_of_kernel {
            self.host_events.add_message((found.program, found.message), &moment, found.host);
        }
        let Some(known) = known else { return };
        if self.events.len() >= MAX_EVENTS {
            self.lost_events += 1;
            return;
        }
        let clock_s = moment.clock_s();
        if known.class == MessageClass::Start {
            self.start_s = clock_s.filter(|_| found.boot_s.is_none());
        }
        let since_start = found.boot_s.or_else(|| Some(clock_s? - self.start_s?));
        self.events.push(Event {
            class: known.class,
            text: known.text,
            name: known.name.to_owned(),
            message: truncate_text(found.message, MAX_TOLD_CHARS),
            host: found.host.to_owned(),
            moment,
            is_at_start: since_start.is_some_and(|seconds| (0.0..START_S).contains(&seconds)),
        });
    }

    fn finish(mut self, options: &LogOptions, batch: &mut FrameBatch<'_>) {
        let measured = options.measured.as_ref();
        let host = machine_name(options);
        let host_events = std::mem::take(&mut self.host_events).finish(measured, host);
        let (mut inside_ns, mut history) = (Vec::new(), Vec::new());
        self.events.retain(|event| match event.moment.place(measured) {
            _ if !host.is_empty() && !host_events::is_of_machine(&event.host, host, &[]) => {
                history.push(event.clone());
                false
            }
            Place::Inside(time_ns) => {
                inside_ns.push(time_ns);
                true
            }
            Place::Unknown => true,
            Place::Outside => {
                history.push(event.clone());
                false
            }
        });
        let findings = judge_events(&self.events);
        let span = inside_ns.iter().min().zip(inside_ns.iter().max()).map(|(from, to)| (*from, *to));
        // without events, too, it is laid where others measured
        let span = span.or_else(|| Some(measured?.whole).filter(|_| self.events.is_empty()));
        let (time_ns, elapsed_ns) = match span.zip(measured) {
            Some((span, measured)) => {
                batch.note_placed();
                tick_of_span(span, measured)
            }
            None => ReportTimes::new(options).next(batch),
        };
        batch.push_topology(time_ns, &Topology::default());
        host_events.iter().for_each(|event| batch.push_note(Note::event(time_ns, event)));
        self.push_notes(&findings, &history, (time_ns, span.is_some()), batch);
        push_tick(&findings, (time_ns, elapsed_ns), batch);
    }

    fn push_notes(
        &self,
        findings: &Findings,
        history: &[Event],
        (time_ns, is_placed): (i64, bool),
        batch: &mut FrameBatch<'_>,
    ) {
        let mut warn = |text: String| batch.push_note(Note::new(time_ns, Note::WARNING, text));
        findings.told.iter().for_each(|text| warn(format!("the kernel's log: {text}")));
        findings.passed.iter().for_each(|text| warn(format!("the kernel's log, told and not judged: {text}")));
        if let Some(text) = tell_history(history) {
            warn(text);
        }
        if self.events.is_empty() && history.is_empty() && !is_placed {
            let lines = format_count(self.kernel_lines, "line", "lines");
            warn(format!("the kernel's log: {lines}, none about trouble with disks, memory, servers or heat"));
        }
        if self.lost_events > 0 {
            batch.add_skip(format!("{} messages", group_digits(self.lost_events)), "more than are kept");
        }
        if self.other_lines > 0 {
            let lines = if self.other_lines == 1 { "line of another program" } else { "lines of other programs" };
            batch.add_skip(format!("{} {lines}", group_digits(self.other_lines)), "not about disks or memory");
        }
        if self.unknown_lines > 0 {
            let lines = if self.unknown_lines == 1 { "line" } else { "lines" };
            batch.add_skip(format!("{} {lines}", group_digits(self.unknown_lines)), "no message of a log");
        }
    }
}

/// Name of the machine that was measured; empty where it is not known.
fn machine_name(options: &LogOptions) -> &str {
    let measured = options.measured.as_ref().map_or("", |measured| measured.host.as_str());
    [options.machine_name.as_str(), measured].into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

/// Returns end and length of the tick of events. It is longer than those of the other logs, so that it does not cut
/// them, and lies in the measured time.
fn tick_of_span((from, to): (i64, i64), measured: &MeasuredTime) -> (i64, Option<u64>) {
    let length = (to - from).max(measured.step_ns.saturating_mul(2)).max(MIN_TICK_NS);
    let (first, last) = measured.whole;
    // logs are joined if one begins before the other ends
    let latest = if first < last { last - (measured.step_ns / 4).max(1) } else { last };
    let end = to.max(first.saturating_add(length)).min(latest);
    let begin = end.saturating_sub(length).max(first.min(end - MIN_TICK_NS));
    (end, Some((end - begin).unsigned_abs()))
}

/// Hands over the only tick.
fn push_tick(findings: &Findings, (time_ns, elapsed_ns): (i64, Option<u64>), batch: &mut FrameBatch<'_>) {
    let mut row = LevelRow::default();
    row.put_value(system::PASSED_TROUBLES, "", findings.passed.len() as f64);
    for (counter, instance, value) in &findings.values {
        row.put_value(counter, instance, *value);
    }
    row.emit_tick(batch, time_ns, elapsed_ns);
}

/// Tells events outside of the measured time: the last of each kind, with their number.
fn tell_history(events: &[Event]) -> Option<String> {
    let is_trouble = |event: &&Event| {
        use MessageClass::{Attached, Gone, Recovery, Start, ThrottleEnd, VoltageEnd};
        let is_answer = event.class == MessageClass::Server && event.message.ends_with("OK");
        !is_answer && !matches!(event.class, Attached | Gone | Recovery | Start | ThrottleEnd | VoltageEnd)
    };
    let mut kinds: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for (index, event) in events.iter().enumerate().filter(|(_, event)| is_trouble(event)) {
        let (count, last) = kinds.entry((event.text, event.name.as_str())).or_default();
        *count += 1;
        *last = index;
    }
    let mut kinds: Vec<(usize, usize)> = kinds.into_values().collect();
    kinds.sort_unstable_by_key(|(_, last)| std::cmp::Reverse(*last));
    let tell = |(count, last): &(usize, usize)| {
        let times = if *count > 1 { format!(", the last of {count}") } else { String::new() };
        format!("{}{times}", events[*last].to_text())
    };
    let told: Vec<String> = kinds.iter().take(MAX_HISTORY).map(tell).collect();
    let more = kinds.len().saturating_sub(MAX_HISTORY);
    let more = if more > 0 { format!("; and {more} more kinds") } else { String::new() };
    (!told.is_empty()).then(|| {
        let told = told.join("; ");
        format!(
            "messages of the kernel from outside the measured time or of another machine are history and are not \
             judged: {told}{more}"
        )
    })
}

/// Writes `1,204`.
fn group_digits(count: usize) -> String {
    let digits = count.to_string();
    let first = digits.len() % 3;
    let mut grouped = digits[..first].to_owned();
    for group in digits.as_bytes()[first..].chunks(3) {
        if !grouped.is_empty() {
            grouped.push(',');
        }
        grouped.extend(group.iter().map(|byte| char::from(*byte)));
    }
    grouped
}
