//! A line of a log of messages: what stands before the message, in the forms of dmesg, journalctl and syslog. Only a
//! line with such a form, or one that is a whole message, is a fact; what a person writes about a message is not.

use diskwright_base::kernel_messages::{KERNEL, is_whole_message, read_message};

use crate::sysstat::time;

/// Parts of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LogLine<'l> {
    /// Date and time as printed; empty if there is none.
    pub stamp: &'l str,
    /// Seconds since the machine started.
    pub boot_s: Option<f64>,
    /// Set for a time that is the difference from the line before.
    pub is_relative: bool,
    /// The machine; empty if the line does not name it.
    pub host: &'l str,
    /// The program that logged it.
    pub program: &'l str,
    pub message: &'l str,
}

/// Most words before the clock of a time.
const MAX_DATE_WORDS: usize = 4;
/// Longest time in brackets.
const MAX_BRACKET_BYTES: usize = 40;
/// Programs of a log that are read besides the kernel, also without a time before them.
const PROGRAMS: [&str; 5] = ["systemd-oomd", "mdadm", "smartd", "multipathd", "earlyoom"];
/// Levels that logs of applications have where syslog has the machine.
const LEVELS: [&str; 8] = ["error", "info", "warn", "warning", "debug", "fatal", "trace", "notice"];
/// Reasons of Kubernetes' events that tell of memory or space.
const POD_REASONS: [&str; 4] = ["OOMKilling", "SystemOOM", "EvictionThresholdMet", "Evicted"];

impl<'l> LogLine<'l> {
    /// Parses a line; `None` if it has no form of a log and is no whole message.
    pub(crate) fn parse(line: &'l str) -> Option<LogLine<'l>> {
        let line = line.trim_start_matches(['>', '|', ' ', '\t']).trim_end();
        let mut found = LogLine::default();
        let mut rest = line;
        if let Some(after) = strip_priority(rest) {
            found.program = KERNEL;
            rest = after;
            if let Some(structured) = after.strip_prefix("1 ") {
                return parse_structured(structured);
            }
        }
        let mut is_of_dmesg = false;
        if let Some((stamp, after)) = split_stamp(rest) {
            (found.stamp, rest) = (stamp, after);
            // `dmesg --time-format iso` has no other sign of the kernel
            is_of_dmesg = is_iso_of_dmesg(stamp) && !rest.is_empty();
        }
        rest = found.strip_marks(rest);
        let is_marked = !found.stamp.is_empty() || !found.program.is_empty();
        if let Some((host, message)) = split_kernel(rest, is_marked) {
            (found.program, found.host) = (KERNEL, host);
            found.message = found.strip_marks(message);
            return Some(found);
        }
        found.message = rest;
        if !found.program.is_empty() {
            return Some(found);
        }
        if is_of_dmesg || is_whole_message(rest) {
            found.program = KERNEL;
            return Some(found);
        }
        if let Some((host, program, message)) = split_program(rest, !found.stamp.is_empty()) {
            (found.host, found.program, found.message) = (host, program, message);
            return Some(found);
        }
        let event = parse_pod_event(rest)?;
        (found.program, found.message) = ("kubelet", event);
        Some(found)
    }

    /// Takes brackets and levels off the beginning: `[   77.5]`, `[ T129]`, `kern  :err   : `.
    fn strip_marks(&mut self, mut rest: &'l str) -> &'l str {
        loop {
            rest = rest.trim_start();
            let level = strip_level(rest);
            if level.is_some() {
                self.program = KERNEL;
            }
            let next = level.or_else(|| self.strip_bracket(rest));
            let Some(next) = next else { return rest };
            rest = next;
        }
    }

    fn strip_bracket(&mut self, text: &'l str) -> Option<&'l str> {
        let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
        if inside.len() > MAX_BRACKET_BYTES {
            return None;
        }
        let inside = inside.trim();
        // `12345.678901 <    0.000123>`
        let first = inside.split([' ', '<']).next().unwrap_or_default();
        let is_thread = inside
            .strip_prefix(['T', 'C'])
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        let is_date = inside.matches(':').count() >= 1
            && inside.contains(|c: char| c.is_ascii_digit())
            && inside.chars().all(|c| c.is_alphanumeric() || " .:,+-".contains(c));
        if let Some(seconds) = parse_seconds(first) {
            self.boot_s = Some(seconds);
        } else if inside.strip_prefix('+').and_then(|text| parse_seconds(text.trim())).is_some() {
            self.is_relative = true;
        } else if is_date {
            self.stamp = inside;
            if !inside.contains(char::is_alphabetic) {
                // loggers of terminals and chats write these
                return Some(rest);
            }
        } else if !(is_thread || inside.starts_with('<') && inside.ends_with('>')) {
            return None;
        }
        self.program = KERNEL;
        Some(rest)
    }
}

/// Parses `12345.678901`.
fn parse_seconds(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if is_number(whole) && is_number(fraction) { text.parse().ok() } else { None }
}

fn strip_priority(text: &str) -> Option<&str> {
    let (number, rest) = text.strip_prefix('<')?.split_once('>')?;
    (!number.is_empty() && number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit())).then_some(rest)
}

/// Takes facility and level off: `kern  :info  : …`.
fn strip_level(text: &str) -> Option<&str> {
    const FACILITIES: [&str; 4] = ["kern", "user", "daemon", "syslog"];
    const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    let (facility, rest) = text.split_once(':')?;
    let (level, rest) = rest.split_once(':')?;
    (FACILITIES.contains(&facility.trim()) && LEVELS.contains(&level.trim())).then_some(rest)
}

/// Parses what follows the version in RFC 5424: time, host, program, process, id, data, message.
fn parse_structured(text: &str) -> Option<LogLine<'_>> {
    let mut words = text.splitn(6, ' ');
    let (stamp, host, program) = (words.next()?, words.next()?, words.next()?);
    let rest = words.nth(2)?;
    let message = match rest.strip_prefix('[') {
        Some(data) => data.split_once("] ").map(|(_, message)| message)?,
        None => rest.strip_prefix("- ")?,
    };
    let host = if host == "-" { "" } else { host };
    let mut found = LogLine { stamp, host, ..LogLine::default() };
    let message = if program == KERNEL { found.strip_marks(message) } else { message };
    Some(LogLine { program, message: message.trim_start_matches('\u{feff}'), ..found })
}

/// Splits date and time off a line's beginning; a date has any language.
fn split_stamp(text: &str) -> Option<(&str, &str)> {
    let mut begin = 0;
    for index in 0..=MAX_DATE_WORDS {
        let word_begin = begin + text[begin..].len() - text[begin..].trim_start().len();
        let word = text[word_begin..].split(' ').next().filter(|word| !word.is_empty())?;
        let end = word_begin + word.len();
        if is_clock(word) || index == 0 && is_epoch(word) {
            let end = end_of_zone(text, end);
            return Some((&text[..end], text[end..].trim_start()));
        }
        let is_number = |word: &str| word.contains(|c: char| c.is_ascii_digit()) && word.len() <= 12;
        let is_name = word.chars().count() <= 12 && word.trim_end_matches(['.', ',']).chars().all(char::is_alphabetic);
        if !is_name && !is_number(word) || word.contains([':', '[', '"', '\'']) {
            return None;
        }
        begin = end;
    }
    None
}

/// True for `10:02:03`, `10:02:03.5`, `2026-11-20T10:02:03,5+01:00`.
fn is_clock(word: &str) -> bool {
    let clock = match word.split_once('T') {
        Some((date, clock)) if date.len() == 10 && date.as_bytes()[4] == b'-' => clock,
        _ => word,
    };
    let bytes = clock.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let hour = clock.find(':').unwrap_or(0);
    (1..=2).contains(&hour)
        && digits(0..hour)
        && digits(hour + 1..hour + 3)
        && bytes.get(hour + 3) == Some(&b':')
        && digits(hour + 4..hour + 6)
        && clock[hour + 6..].bytes().all(|b| b.is_ascii_digit() || b".,+-:Z".contains(&b))
        && !clock.ends_with(':')
}

/// True for `2024-03-04T09:12:55,123456+01:00`.
fn is_iso_of_dmesg(stamp: &str) -> bool {
    let Some((_, fraction)) = stamp.split_once('T').and_then(|(_, clock)| clock.split_once(',')) else { return false };
    fraction.len() == 12 && is_digits(&fraction[..6]) && fraction[6..].starts_with(['+', '-'])
}

/// True for seconds since 1970 with a fraction.
fn is_epoch(word: &str) -> bool {
    word.split_once('.').is_some_and(|(seconds, _)| seconds.len() == 10) && parse_seconds(word).is_some()
}

/// The end of a zone, half of the day or year behind a clock.
fn end_of_zone(text: &str, clock_end: usize) -> usize {
    let mut end = clock_end;
    for _ in 0..2 {
        let Some(word) = text[end..].strip_prefix(' ').and_then(|rest| rest.split(' ').next()) else { break };
        let is_year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20")) && is_digits(word);
        let is_offset = word.len() == 5 && word.starts_with(['+', '-']) && is_digits(&word[1..]);
        let is_zone = matches!(word, "AM" | "PM") || time::zone_offset_s(word).is_some();
        if !is_year && !is_offset && !is_zone {
            break;
        }
        end += 1 + word.len();
    }
    end
}

fn is_digits(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the machine and the message behind `kernel: `, before which host and facility may stand.
fn split_kernel(text: &str, is_marked: bool) -> Option<(&str, &str)> {
    let (mut rest, mut host) = (text, "");
    for index in 0..3 {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = word.strip_suffix(':').map(|name| name.split('[').next().unwrap_or_default());
        if name == Some(KERNEL) {
            return Some((host, after.trim_start()));
        }
        // `db1 kernel:`, `db1 kern.err kernel:`
        let is_origin = is_marked && is_plain(word) && (index == 0 || word.contains('.'));
        if !is_origin {
            return None;
        }
        if index == 0 && !is_facility(word) {
            host = word;
        }
        rest = after.trim_start();
    }
    None
}

/// True for facility and level as busybox writes them: `kern.err`.
fn is_facility(word: &str) -> bool {
    word.split_once('.').is_some_and(|(facility, _)| matches!(facility, "kern" | "user" | "daemon" | "syslog"))
}

/// Splits the machine and the program off that logged a message: `db1 systemd[1]: …`.
fn split_program(text: &str, is_stamped: bool) -> Option<(&str, &str, &str)> {
    let (first, after) = text.split_once(' ')?;
    if let Some(name) = first.strip_suffix(':').map(|name| name.split('[').next().unwrap_or_default()) {
        let is_known = PROGRAMS.contains(&name) || name == "systemd" && first.contains('[');
        return (is_known && read_message(name, after).is_some()).then_some(("", name, after));
    }
    let mut rest = after.trim_start();
    let mut word = rest.split(' ').next()?;
    // busybox writes facility and level before the program
    if word.contains('.') && !word.ends_with(':') {
        rest = rest[word.len()..].trim_start();
        word = rest.split(' ').next()?;
    }
    let name = word.strip_suffix(':')?;
    let program = name.split('[').next().unwrap_or_default();
    let is_level = LEVELS.iter().any(|level| first.eq_ignore_ascii_case(level));
    let is_program =
        is_stamped && is_plain(first) && !is_level && !program.is_empty() && !program.contains(['"', '\'', '“']);
    is_program.then(|| (first, program, rest[word.len()..].trim_start()))
}

/// True for the name of a machine, or facility and level.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.len() <= 255 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Returns reason and message of a line of `kubectl get events`: `5m  Warning  OOMKilling  node/w2  …`.
fn parse_pod_event(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("Warning")?;
    let rest = rest.trim_start();
    let reason = rest.split_whitespace().next()?;
    (before.split_whitespace().count() <= 3 && POD_REASONS.contains(&reason)).then_some(rest)
}

/// Line above the messages of a text, of which others may be told by nothing else.
pub(crate) const SECTION_MARK: &str = "-- messages of the kernel";

/// True for a line that journalctl prints between messages.
pub(crate) fn is_journal_mark(line: &str) -> bool {
    ["-- Logs begin", "-- Journal begins", "-- Boot ", "-- Reboot", "-- No entries", "░░", SECTION_MARK]
        .iter()
        .any(|start| line.trim_start().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_log_is_known() {
        let message = "ata7: hard resetting link";
        for (before, stamp, boot_s) in [
            ("", "", None),
            ("[   77.500123] ", "", Some(77.500123)),
            ("[   77.500123][   T88] ", "", Some(77.500123)),
            ("[   77.500123 <    0.000010>] ", "", Some(77.500123)),
            ("[  +0.000112] ", "", None),
            ("[Mon Mar  4 09:12:55 2024] ", "Mon Mar  4 09:12:55 2024", None),
            ("[Mo Mär  4 09:12:55 2024] ", "Mo Mär  4 09:12:55 2024", None),
            ("[一 3月  4 09:12:55 2024] ", "一 3月  4 09:12:55 2024", None),
            ("[Mar04 09:12] ", "Mar04 09:12", None),
            ("kern  :err   : [Mon Mar  4 09:12:55 2024] ", "Mon Mar  4 09:12:55 2024", None),
            ("<3>[   77.5] ", "", Some(77.5)),
            ("kernel: ", "", None),
            ("Mar  4 09:12:55 pump7 kernel: ", "Mar  4 09:12:55", None),
            ("Mar  4 09:12:55 NAS kernel: [   77.5] ", "Mar  4 09:12:55", Some(77.5)),
            ("Mär 04 09:12:55 pump7 kernel: ", "Mär 04 09:12:55", None),
            ("mars 04 09:12:55 pump7 kernel: ", "mars 04 09:12:55", None),
            ("3月 04 09:12:55 pump7 kernel: ", "3月 04 09:12:55", None),
            ("Mar  4 09:12:55.123456 pump7 kernel: ", "Mar  4 09:12:55.123456", None),
            ("Mon 2024-03-04 09:12:55 CET pump7 kernel: ", "Mon 2024-03-04 09:12:55 CET", None),
            ("2024-03-04T09:12:55+0100 pump7 kernel: ", "2024-03-04T09:12:55+0100", None),
            (
                "2024-03-04T09:12:55.123456+01:00 pump7 kernel: [   77.5] ",
                "2024-03-04T09:12:55.123456+01:00",
                Some(77.5),
            ),
            ("2024-03-04T09:12:55,123456+01:00 ", "2024-03-04T09:12:55,123456+01:00", None),
            ("<3>1 2024-03-04T09:12:55.003Z pump7 kernel - - - ", "2024-03-04T09:12:55.003Z", None),
            ("<3>1 2024-03-04T09:12:55Z pump7 kernel - - [a@1 b=\"c\"] ", "2024-03-04T09:12:55Z", None),
            ("1709543575.250000 pump7 kernel: ", "1709543575.250000", None),
            ("[   77.5] pump7 kernel: ", "", Some(77.5)),
            ("Mar  4 09:12:55 pump7 kern.err kernel: ", "Mar  4 09:12:55", None),
            ("Mon Mar  4 09:12:55 2024 kern.err kernel: [   77.5] ", "Mon Mar  4 09:12:55 2024", Some(77.5)),
            ("2024-03-04 09:12:55 [   77.5] ", "2024-03-04 09:12:55", Some(77.5)),
            ("> [   77.5] ", "", Some(77.5)),
        ] {
            let line = format!("{before}{message}");
            let found = LogLine::parse(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.stamp, found.boot_s, found.program), (stamp, boot_s, KERNEL), "{line}");
            assert_eq!(found.message, message, "{line}");
        }
    }

    #[test]
    fn other_programs_have_their_names() {
        for (line, program) in [
            ("Mar  4 09:12:55 pump7 CRON[812]: (root) CMD (run-parts)", "CRON"),
            ("2024-03-04T09:12:55+01:00 pump7 systemd[1]: Started Session 4.", "systemd"),
            ("Mar  4 09:12:55 pump7 daemon.info dnsmasq[7]: query", "dnsmasq"),
            ("mdadm[812]: Fail event detected on md device /dev/md7, component device /dev/sdf2", "mdadm"),
            ("3m  Warning  OOMKilling  node/w2  Memory cgroup out of memory: Killed process 9 (java)", "kubelet"),
        ] {
            assert_eq!(LogLine::parse(line).map(|found| found.program), Some(program), "{line}");
        }
    }

    #[test]
    fn prose_and_output_of_tools_have_no_form_of_a_log() {
        for line in [
            "",
            "I googled 'Out of memory: Killed process 12' but do not have it",
            "On Mar 4 09:12:55 we saw kernel: Out of memory: Killed process 12 (java)",
            "last year: [12345.678] nfs: server vault3 not responding",
            "Mar  4 09:12:55 sda 1 2 3",
            "[09:12:55] sda 1 2 3",
            "2024-03-04 09:12:55 ERROR shop: No space left on device",
            "[2024-03-04 09:12:55] sda 1 2 3",
            "2024-03-04T09:12:55Z,1.5,2.5",
            "Mar  4 09:12:55 avg-cpu:  %user   %nice",
            "Mar  4 09:12:55 Mem:   7000  600",
            "09:12:55 up 3 days,  1 user,  load average: 0.10, 0.20, 0.30",
            "[1] 4711",
            "kernel panics are rare",
        ] {
            assert_eq!(LogLine::parse(line), None, "{line}");
        }
    }
}
