//! Output of several machines in one file: `pdsh`, `clush`, `docker compose` and others put the machine before each
//! line; `ansible`, `salt`, `pssh` and `dshbak` put it above each part. A reader gets the lines of one machine only.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use crate::input::{InputHead, LogInput, MAX_HEAD_BYTES};
use crate::plain_text;
use crate::skips::Skips;
use crate::{LogError, LogFormat, LogOptions};
use diskwright_base::text::is_same_host;

/// Smallest number of lines in a head that must agree before a word at their beginning counts as a machine.
const MIN_HEAD_LINES: usize = 4;
/// Longest line; a longer one is cut into several.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// Position of the machine's name.
#[derive(Clone, Copy)]
enum HostPlace {
    /// Before each line, with this separator behind it.
    EachLine(&'static str),
    /// On a line above each part; the function parses it from a line and the one before.
    Above(fn(&str, &str) -> Option<String>),
}

/// Separators between a machine's name and its line.
const SEPARATORS: [&str; 2] = [": ", " | "];
/// Parsers of headings above parts: each gets a line and the one before it.
const HEADING_PARSERS: [fn(&str, &str) -> Option<String>; 4] =
    [parse_ansible_heading, parse_pssh_heading, parse_dshbak_heading, parse_salt_heading];

/// Result of filtering an input for one machine.
pub(crate) struct HostSplit {
    /// Format of the machine's lines.
    pub format: &'static LogFormat,
    /// Options for its reader: the machine is chosen already.
    pub options: LogOptions,
    /// Lines of other machines or of none; complete once the input is read.
    pub skips: Rc<RefCell<Skips>>,
}

/// Reduces an input to one machine's lines, where it holds those of several, or has the machine's name before each.
///
/// # Errors
/// When the operating system returns an error.
pub(crate) fn split_host(input: &mut LogInput, options: &LogOptions) -> Result<Option<HostSplit>, LogError> {
    let (format, place, host, has_several_hosts) = {
        let head = input.head();
        let Some(place) = detect_host_place(&head) else { return Ok(None) };
        let hosts = list_hosts(&head, place);
        let named = hosts.iter().find(|host| options.host.as_ref().is_some_and(|h| is_same_host(h, host)));
        let Some(host) = named.or(hosts.first()).cloned() else { return Ok(None) };
        // output below the heading of a single machine can be read as it is
        if matches!(place, HostPlace::Above(_)) && hosts.len() < 2 {
            return Ok(None);
        }
        let mut filter = HostFilter::new(Box::new(io::Cursor::new(head.bytes.to_vec())), place, host.clone());
        let mut host_bytes = Vec::new();
        filter
            .by_ref()
            .take(MAX_HEAD_BYTES as u64)
            .read_to_end(&mut host_bytes)
            .map_err(|e| LogError::io(input.name(), e))?;
        let host_head = InputHead { name: head.name, bytes: &host_bytes };
        let Some(format) = crate::format_of_head(&host_head) else { return Ok(None) };
        (format, place, host, hosts.len() > 1 || named.is_some())
    };
    let skips = Rc::new(RefCell::new(Skips::default()));
    let filter_skips = Rc::clone(&skips);
    let filter =
        |stream| Box::new(HostFilter { skips: filter_skips, ..HostFilter::new(stream, place, host) }) as Box<dyn Read>;
    input.insert_filter(filter).map_err(|e| LogError::io(input.name(), e))?;
    let host = if has_several_hosts { None } else { options.host.clone() };
    Ok(Some(HostSplit { format, options: LogOptions { host, ..options.clone() }, skips }))
}

/// True if lines or parts of a head name the machine that they are of.
pub(crate) fn is_of_several_hosts(head: &InputHead<'_>) -> bool {
    match detect_host_place(head) {
        Some(HostPlace::EachLine(separator)) => {
            // `avg-cpu:` and `Device:` are no machines
            head.text_lines()
                .filter_map(|line| Some(split_host_prefix(&line, separator)?.0.to_owned()))
                .any(|host| !matches!(host.as_str(), "avg-cpu" | "Device" | "Mem" | "Swap" | "Cpu" | "Average"))
        }
        // a salt heading is a word with a colon, as `before:` above somebody's output; its parts are indented
        Some(place @ HostPlace::Above(_)) => {
            let lines: Vec<_> = head.text_lines().collect();
            let is_label = |line: &str| parse_salt_heading(line, "").is_some();
            let is_indented = |pair: &[Cow<'_, str>]| !is_label(&pair[0]) || pair[1].starts_with("    ");
            list_hosts(head, place).len() > 1 && lines.windows(2).all(is_indented)
        }
        None => false,
    }
}

/// Detects where machines stand in a head, if they do.
fn detect_host_place(head: &InputHead<'_>) -> Option<HostPlace> {
    let lines: Vec<_> = head.text_lines().filter(|line| !line.trim().is_empty()).collect();
    let count_prefixed =
        |separator: &str| lines.iter().filter(|line| split_host_prefix(line, separator).is_some()).count();
    let is_each =
        |separator: &&&str| lines.len() >= MIN_HEAD_LINES && count_prefixed(separator) * 10 >= lines.len() * 9;
    if let Some(separator) = SEPARATORS.iter().find(is_each) {
        return Some(HostPlace::EachLine(separator));
    }
    let is_above = |heading: &&fn(&str, &str) -> Option<String>| {
        lines
            .iter()
            .enumerate()
            .any(|(index, line)| heading(line, index.checked_sub(1).map_or("", |b| &lines[b])).is_some())
    };
    HEADING_PARSERS.iter().find(is_above).map(|heading| HostPlace::Above(*heading))
}

/// Lists the machines of a head in order of appearance.
fn list_hosts(head: &InputHead<'_>, place: HostPlace) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    let mut previous = String::new();
    for line in head.text_lines() {
        let host = match place {
            HostPlace::EachLine(separator) => split_host_prefix(&line, separator).map(|(host, _)| host.to_owned()),
            HostPlace::Above(heading) => heading(&line, &previous),
        };
        if let Some(host) = host.filter(|host| !hosts.contains(host)) {
            hosts.push(host);
        }
        previous = line.into_owned();
    }
    hosts
}

/// Splits a line into the machine's name before it, and the rest.
fn split_host_prefix<'a>(line: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let line = line.trim_start();
    // before an empty line, the blank at the separator's end may be lost
    let (host, rest) = line.split_once(separator).or_else(|| Some((line.strip_suffix(separator.trim_end())?, "")))?;
    is_host(host.trim_end()).then_some((host.trim_end(), rest))
}

fn is_host(word: &str) -> bool {
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=253).contains(&word.len()) && word.chars().all(is_host_char) && !word.starts_with(['-', '.'])
}

/// Parses `db1 | CHANGED | rc=0 >>`.
fn parse_ansible_heading(line: &str, _: &str) -> Option<String> {
    let (host, rest) = line.split_once(" | ")?;
    let is_state = ["CHANGED", "SUCCESS", "FAILED", "UNREACHABLE"].iter().any(|state| rest.starts_with(state));
    (is_state && is_host(host)).then(|| host.to_owned())
}

/// Parses `[1] 13:20:09 [SUCCESS] db1`.
fn parse_pssh_heading(line: &str, _: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [number, _, "[SUCCESS]" | "[FAILURE]", host, ..] if number.starts_with('[') && is_host(host) => {
            Some(host.to_owned())
        }
        _ => None,
    }
}

/// Parses a name below a line of hyphens.
fn parse_dshbak_heading(line: &str, previous: &str) -> Option<String> {
    let is_below_rule = previous.len() >= 8 && previous.bytes().all(|b| b == b'-');
    (is_below_rule && is_host(line.trim())).then(|| line.trim().to_owned())
}

/// Parses `db1:` on a line of its own; its output is indented below.
fn parse_salt_heading(line: &str, _: &str) -> Option<String> {
    // titles of netstat -s
    if ["Ip:", "Icmp:", "IcmpMsg:", "Tcp:", "Udp:", "UdpLite:", "TcpExt:", "IpExt:", "MPTcpExt:"].contains(&line.trim())
    {
        return None;
    }
    let host = line.strip_suffix(':')?;
    (is_host(host) && !matches!(host, "avg-cpu" | "Device" | "Average")).then(|| host.to_owned())
}

/// A stream of one machine's lines.
struct HostFilter {
    source: BufReader<Box<dyn Read>>,
    place: HostPlace,
    host: String,
    /// Machine of the current part.
    current_host: String,
    previous_line: String,
    line_number: u64,
    line_bytes: Vec<u8>,
    position: usize,
    skips: Rc<RefCell<Skips>>,
}

impl HostFilter {
    fn new(source: Box<dyn Read>, place: HostPlace, host: String) -> HostFilter {
        HostFilter {
            source: BufReader::with_capacity(1 << 16, source),
            place,
            host,
            current_host: String::new(),
            previous_line: String::new(),
            line_number: 0,
            line_bytes: Vec::new(),
            position: 0,
            skips: Rc::default(),
        }
    }

    /// Reads the next line of the machine; returns false at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        let mut raw = Vec::new();
        loop {
            raw.clear();
            if self.source.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut raw)? == 0 {
                return Ok(false);
            }
            self.line_number += 1;
            let end = if raw.ends_with(b"\n") { "\n" } else { "" };
            let line = plain_text::decode_text(&raw).trim_end_matches(['\r', '\n']).to_owned();
            let host_line = match self.place {
                HostPlace::EachLine(separator) => self.strip_host_prefix(&line, separator),
                HostPlace::Above(heading) => self.filter_part_line(&line, heading),
            };
            if let Some(host_line) = host_line {
                self.line_bytes = host_line.into_bytes();
                self.line_bytes.extend_from_slice(end.as_bytes());
                self.position = 0;
                return Ok(true);
            }
        }
    }

    fn add_skip(&self, because: &str) {
        self.skips.borrow_mut().add_skip(format!("line {}", self.line_number), because);
    }

    fn strip_host_prefix(&self, line: &str, separator: &str) -> Option<String> {
        match split_host_prefix(line, separator) {
            Some((host, rest)) if host == self.host => return Some(rest.to_owned()),
            Some((host, _)) => self.skips.borrow_mut().add_other_host(format!("line {}", self.line_number), host),
            None if line.trim().is_empty() => {}
            None => self.add_skip("a line without the machine name that begins the others"),
        }
        None
    }

    fn filter_part_line(&mut self, line: &str, heading: fn(&str, &str) -> Option<String>) -> Option<String> {
        let previous = std::mem::replace(&mut self.previous_line, line.to_owned());
        if let Some(host) = heading(line, &previous) {
            self.current_host = host;
            return None;
        }
        if self.current_host == self.host {
            return Some(line.to_owned());
        }
        if !self.current_host.is_empty() && !line.trim().is_empty() {
            self.skips.borrow_mut().add_other_host(format!("line {}", self.line_number), &self.current_host);
        }
        None
    }
}

impl Read for HostFilter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.line_bytes.len() && !self.next_line()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.line_bytes.len() - self.position);
        buffer[..count].copy_from_slice(&self.line_bytes[self.position..self.position + count]);
        self.position += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{LogPiece, ReadSummary};

    const HEAD: &str = "procs memory\n r b swpd free\n";

    /// vmstat of a machine with so much free memory.
    fn log(free: u32) -> String {
        format!("{HEAD} 1 0 0 99\n 1 0 0 {free}\n 1 0 0 {free}\n")
    }

    fn read(text: &str, host: Option<&str>) -> (Vec<f64>, Result<ReadSummary, LogError>) {
        let mut values = Vec::new();
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                let index = frame.schema().series.iter().position(|s| s.counter == "memory.free_bytes");
                values.extend(index.into_iter().flat_map(|index| frame.column(index).to_vec()));
            }
            ControlFlow::Continue(())
        };
        let options = LogOptions {
            host: host.map(str::to_owned),
            interval: Some(std::time::Duration::from_secs(1)),
            ..LogOptions::default()
        };
        let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
        let summary = crate::read(&mut input, &options, &mut sink);
        (values, summary)
    }

    fn each(host: &str, separator: &str, text: &str) -> Vec<String> {
        text.lines().map(|line| format!("{host}{separator}{line}\n")).collect()
    }

    #[test]
    fn a_machine_before_each_line_is_chosen_by_name() {
        for separator in SEPARATORS {
            // the lines of both come as they come
            let (one, two) = (each("db1", separator, &log(5)), each("db2.example.com", separator, &log(7)));
            let both: String = one.iter().zip(&two).flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
            let (values, summary) = read(&both, None);
            assert_eq!(values, [5.0, 5.0], "{separator}");
            let skipped = summary.unwrap().skipped;
            assert!(skipped.iter().any(|s| s.reason.contains("--host db2.example.com") && s.count == 5), "{skipped:?}");
            assert_eq!(read(&both, Some("DB2.example.com")).0, [7.0, 7.0], "{separator}");
            assert_eq!(read(&one.concat(), None).0, [5.0, 5.0], "{separator}");
        }
    }

    #[test]
    fn a_machine_above_each_part_is_chosen_by_name() {
        for above in [
            "HOST | CHANGED | rc=0 >>\n",
            "[1] 13:20:09 [SUCCESS] HOST\n",
            "----------------\nHOST\n----------------\n",
            "HOST:\n",
        ] {
            let part = |host: &str, free: u32| above.replace("HOST", host) + &log(free).replace('\n', "\n    ") + "\n";
            let both = part("db1", 5) + &part("db2", 7);
            assert_eq!(read(&both, None).0, [5.0, 5.0], "{above}");
            assert_eq!(read(&both, Some("db2")).0, [7.0, 7.0], "{above}");
        }
    }

    #[test]
    fn lines_without_a_machine_are_counted() {
        let mut lines = each("db1", ": ", &log(5).repeat(4));
        lines.insert(3, "Connection closed by remote host.\n".into());
        let (values, summary) = read(&lines.concat(), None);
        assert!(values.starts_with(&[5.0, 5.0]));
        let skipped = summary.unwrap().skipped;
        assert!(
            skipped.iter().any(|s| s.context == "line 4" && s.reason.contains("without the machine")),
            "{skipped:?}"
        );
    }

    #[test]
    fn leaves_input_without_machine_names_unchanged() {
        for text in ["a: 1\nb: 2\nc: 3\nd: 4\n", "Average: 1\n", "{\"a\": 1}\n", ""] {
            let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
            assert!(split_host(&mut input, &LogOptions::default()).unwrap().is_none(), "{text}");
        }
    }
}
