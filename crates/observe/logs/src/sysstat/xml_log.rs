//! `sadf -x`: the same reports as `sadf -j`, as elements and attributes. Tags are read one at a time; comments,
//! declarations and unknown elements are skipped.

use quick_xml::escape::unescape;
use quick_xml::events::BytesStart;

use super::columns::Reports;
use super::idle_devices::IdleTable;
use super::json_scanner;
use super::session::{DocumentWriter, SysstatSession};
use super::stream_window::StreamWindow;
use super::template::StampPart;
use super::time::NumericDateOrder;
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

/// Largest nesting of elements.
const MAX_DEPTH: usize = 64;
/// Attributes that name the instance.
const INSTANCE_ATTRIBUTES: [&str; 10] =
    ["number", "dev", "intr", "iface", "fsname", "mountp", "name", "line", "cpu", "bus_number"];
/// Attributes that hold no value of the machine.
const IGNORED_ATTRIBUTES: [&str; 4] = ["per", "unit", "device", "status"];

struct SysstatXmlLog<'a, 'b, 'c> {
    stream: StreamWindow<'a>,
    session: SysstatSession<'b, 'c>,
    /// Names of the open elements.
    open_elements: Vec<String>,
    /// Time of the open sample.
    stamp: Option<Vec<(StampPart, String)>>,
    /// Byte at which the open sample begins.
    sample_offset: u64,
}

/// A tag: its name, attributes, and whether it opens, closes or does both.
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
    is_end: bool,
    is_empty: bool,
}

/// Reads all documents of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let stream = StreamWindow::new(input);
    let order = NumericDateOrder::MonthFirst;
    let session = SysstatSession::new(batch, options, order, DocumentWriter::Sadf);
    let mut log = SysstatXmlLog { stream, session, open_elements: Vec::new(), stamp: None, sample_offset: 0 };
    while !log.session.batch.is_stopped() {
        match log.read_tag() {
            Ok(true) => {}
            Ok(false) => {
                if !log.open_elements.is_empty() {
                    log.report_unfinished();
                }
                return Ok(());
            }
            Err(LogError::Broken { context, because, .. }) if log.session.tick_count > 0 => {
                log.session.batch.add_skip(context, format!("{because}; the rest of the file was left out"));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl SysstatXmlLog<'_, '_, '_> {
    fn report_unfinished(&mut self) {
        let context = format!("byte {}", self.stream.byte_offset());
        self.session
            .batch
            .add_skip(context, "the document is incomplete: its writer was stopped, or the file was truncated");
    }

    /// Counts lines of text outside of the documents.
    fn report_outside(&mut self, text: &str) {
        let offset = self.stream.byte_offset();
        for _ in text.lines().filter(|line| line.contains(char::is_alphanumeric)) {
            self.session.batch.add_skip(format!("byte {offset}"), "a line outside of the documents");
        }
    }

    /// Reads the text up to the next tag, and the tag; returns false at the end.
    fn read_tag(&mut self) -> Result<bool, LogError> {
        let Some(tag_start) = self.find_bytes(b"<", 0)? else { return Ok(false) };
        let text_before = String::from_utf8_lossy(&self.stream.remaining_bytes()[..tag_start]).trim().to_owned();
        self.stream.skip_bytes(tag_start);
        if self.open_elements.is_empty() {
            self.report_outside(&text_before);
        } else if !text_before.is_empty() {
            self.read_text(&text_before);
        }
        let tag_end: &[u8] = match self.stream.remaining_bytes() {
            rest if rest.starts_with(b"<!--") => b"-->",
            _ => b">",
        };
        let Some(end) = self.find_bytes(tag_end, 1)? else {
            self.report_unfinished();
            self.open_elements.clear();
            return Ok(false);
        };
        let offset = self.stream.byte_offset();
        let tag = String::from_utf8_lossy(&self.stream.remaining_bytes()[1..end]).into_owned();
        self.stream.skip_bytes(end + tag_end.len());
        if tag.starts_with(['!', '?']) {
            return Ok(true);
        }
        match parse_tag(&tag) {
            Some(tag) => self.handle_tag(tag, offset),
            None if self.open_elements.is_empty() => {
                self.report_outside(&tag);
                Ok(())
            }
            None => Err(LogError::broken(self.stream.name(), format!("byte {offset}"), "no XML tag")),
        }
        .map(|()| true)
    }

    /// Finds the next occurrence of some bytes in the window, from an index on.
    fn find_bytes(&mut self, pattern: &[u8], from: usize) -> Result<Option<usize>, LogError> {
        let mut searched_bytes = from;
        loop {
            let rest = self.stream.remaining_bytes();
            if searched_bytes < rest.len()
                && let Some(index) = find_subslice(&rest[searched_bytes..], pattern)
            {
                return Ok(Some(index + searched_bytes));
            }
            let previous_length = rest.len();
            searched_bytes = previous_length.saturating_sub(pattern.len() - 1).max(from);
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == previous_length {
                return Ok(None);
            }
        }
    }

    fn handle_tag(&mut self, tag: Tag, offset: u64) -> Result<(), LogError> {
        if tag.is_end {
            if tag.name == "timestamp" {
                self.emit_sample();
            }
            // an end tag without a start tag closes nothing
            if let Some(index) = self.open_elements.iter().rposition(|open| *open == tag.name) {
                self.open_elements.truncate(index);
            }
            return Ok(());
        }
        let attribute = |name: &str| tag.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let parts = || {
            let stamp_parts = [
                (StampPart::Date, "date"),
                (StampPart::Time, "time"),
                (StampPart::Zone, "tz"),
                (StampPart::Utc, "utc"),
            ];
            let parts = stamp_parts.into_iter().chain([(StampPart::Interval, "interval")]);
            parts.filter_map(|(part, name)| Some((part, attribute(name)?))).collect::<Vec<_>>()
        };
        match tag.name.as_str() {
            // open elements belong to a previous document, whose writer was stopped
            "sysstat" => {
                self.emit_sample();
                self.open_elements.clear();
            }
            "host" => self.session.read_head("nodename", &attribute("nodename").unwrap_or_default()),
            "timestamp" => {
                self.emit_sample();
                self.stamp = Some(parts());
                self.sample_offset = offset;
            }
            "boot" => self.session.note_restart(&parts()),
            _ if self.stamp.is_some() => {
                match tag.name.as_str() {
                    "disk" => self.session.sample_tables[IdleTable::Disk as usize] = true,
                    "network" => {
                        self.session.sample_tables[IdleTable::Network as usize] = true;
                        self.session.sample_tables[IdleTable::NetworkErrors as usize] = true;
                    }
                    _ => {}
                }
                self.read_values(&tag);
            }
            _ => {}
        }
        if tag.is_empty {
            if tag.name == "timestamp" {
                self.emit_sample();
            }
        } else if self.open_elements.len() >= MAX_DEPTH {
            return Err(LogError::broken(self.stream.name(), format!("byte {offset}"), "nested too deeply"));
        } else {
            self.open_elements.push(tag.name);
        }
        Ok(())
    }

    /// Emits the open sample.
    fn emit_sample(&mut self) {
        if let Some(stamp) = self.stamp.take() {
            self.session.emit_tick(&stamp, self.sample_offset);
        }
    }

    /// Returns the report of an element: its own name or the nearest known one around it.
    fn report_of_element<'a>(&'a self, name: &'a str) -> &'a str {
        let reports = Reports::builtin();
        let is_known = |name: &&str| reports.find_by_key(name).is_some();
        let enclosing = self.open_elements.iter().rev().take_while(|name| *name != "timestamp").map(String::as_str);
        [name].into_iter().chain(enclosing).find(is_known).unwrap_or(name)
    }

    /// Reads the attributes of an element within a sample.
    fn read_values(&mut self, tag: &Tag) {
        let report = self.report_of_element(&tag.name).to_owned();
        let instance =
            INSTANCE_ATTRIBUTES.iter().find_map(|wanted| tag.attributes.iter().find(|(name, _)| name == wanted));
        let (instance_name, instance) = instance.map_or(("", ""), |(name, value)| (name.as_str(), value.as_str()));
        let processor = match tag.attributes.iter().find(|(name, _)| name == "cpu" && tag.name == "irq") {
            Some((_, cpu)) if cpu != "all" => format!("CPU{cpu}"),
            _ => "all".to_owned(),
        };
        for (name, value) in &tag.attributes {
            let is_label = name == instance_name || IGNORED_ATTRIBUTES.contains(&name.as_str());
            if is_label || (tag.name == "irq" && name == "cpu") {
                continue;
            }
            let name = if tag.name == "irq" && name == "value" { &processor } else { name };
            self.put_value(&report, name, instance, value);
        }
    }

    /// Reads text between tags: a value in a sample, else of the host's head.
    fn read_text(&mut self, text: &str) {
        let Some(name) = self.open_elements.last().cloned() else { return };
        if self.stamp.is_none() {
            self.session.read_head(&name, text);
            return;
        }
        let report = self.report_of_element("").to_owned();
        self.put_value(&report, &name, "", text);
    }

    fn put_value(&mut self, report: &str, name: &str, instance: &str, text: &str) {
        let Some(value) = parse_plain_number(text) else {
            // the broken value may belong to a device that was not left out
            if !text.trim().is_empty() {
                self.session.sample_tables = Default::default();
            }
            return;
        };
        if let Some(slot) = self.session.row.value_slot(report, name, instance) {
            self.session.row.put_value(slot, value);
        }
    }
}

fn find_subslice(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    match pattern {
        [byte] => bytes.iter().position(|b| b == byte),
        _ => bytes.windows(pattern.len()).position(|w| w == pattern),
    }
}

/// Parses a text that is a number as a whole; `None` for words.
pub fn parse_plain_number(text: &str) -> Option<f64> {
    let padded = [text.as_bytes(), b" "].concat();
    match json_scanner::scan_number(&padded, 0) {
        Ok((value, end)) if end == text.len() => Some(value),
        _ if text.eq_ignore_ascii_case("nan") => Some(f64::NAN),
        _ => None,
    }
}

/// Parses a tag without its brackets.
fn parse_tag(tag: &str) -> Option<Tag> {
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (tag, is_end) = tag.strip_prefix('/').map_or((tag, false), |tag| (tag, true));
    let name = tag.split(char::is_whitespace).next().unwrap_or(tag);
    if !name.starts_with(char::is_alphabetic) {
        return None;
    }
    let mut attributes = Vec::new();
    for attribute in BytesStart::from_content(tag, name.len()).attributes().with_checks(false) {
        let attribute = attribute.ok()?;
        let (key, value) = (str::from_utf8(attribute.key.as_ref()).ok()?, str::from_utf8(&attribute.value).ok()?);
        // an entity that XML does not know stays as it is
        attributes.push((key.to_owned(), unescape(value).unwrap_or(value.into()).into_owned()));
    }
    Some(Tag { name: name.to_owned(), attributes, is_end, is_empty })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ReadOutcome, read_text};

    fn sample(second: u32, inside: &str) -> String {
        format!(
            "<timestamp date=\"2026-11-21\" time=\"19:05:{second:02}\" utc=\"1\" interval=\"1\">{inside}</timestamp>\n"
        )
    }

    fn document(samples: &[String]) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE sysstat PUBLIC \"x\" \"y\">\n<sysstat \
             xmlns=\"z\">\n<host nodename=\"db1\"><release>6.1.0</release><number-of-cpus>4</number-of-cpus>\n\
             <statistics>\n{}</statistics><restarts><boot date=\"2026-11-21\" time=\"19:05:03\" utc=\"1\"/></restarts>\
             </host></sysstat>\n",
            samples.concat()
        )
    }

    fn disk(tps: &str) -> String {
        format!("<disk per=\"second\"><disk-device dev=\"sda\" tps=\"{tps}\" aqu-sz=\"1.5\"/></disk>")
    }

    fn tps(read: &ReadOutcome) -> Vec<f64> {
        read.series_values("physical_disk.transfers_per_s", "sda")
    }

    #[test]
    fn elements_become_the_same_series_as_in_json() {
        let inside = "<cpu-load><cpu number=\"all\" user=\"5.0\" system=\"2.0\"/>\
            <cpu number=\"1\" idle=\"9\"/></cpu-load>\
            <interrupts><int-global per=\"second\"><irq intr=\"sum\" cpu=\"all\" value=\"70\"/>\
            <irq intr=\"sum\" cpu=\"2\" \
            value=\"30\"/><irq intr=\"9\" cpu=\"2\" value=\"3\"/></int-global></interrupts>\
            <io per=\"second\"><tps>5.00</tps><io-reads rtps=\"6.00\"/></io>\
            <memory unit=\"kB\"><memfree>10</memfree><memused>30</memused>\
            <memused-percent>75.0</memused-percent></memory>\
            <network><net-dev iface=\"lo\" rxkB=\"2.0\"/></network>\
            <filesystems><filesystem fsname=\"/dev/sda1\" MBfsfree=\"1\" MBfsused=\"3\"/></filesystems>";
        let read = read_text(&document(&[sample(1, inside), sample(2, &(inside.to_owned() + &disk("8.00")))]));
        for (counter, instance, value) in [
            ("processor.user", "_total", 0.05),
            ("processor.privileged", "_total", 0.02),
            ("processor.idle", "cpu1", 0.09),
            ("system.interrupts_per_s", "", 70.0),
            ("processor.interrupts_per_s", "cpu2", 30.0),
            ("foreign.io.rtps", "", 6.0),
            ("foreign.io.tps", "", 5.0),
            ("memory.free_bytes", "", 10_240.0),
            ("memory.total_bytes", "", 40_960.0),
            ("network.received_bytes_per_s", "lo", 2048.0),
            ("logical_disk.total_bytes", "sda1", 4.0 * 1_048_576.0),
        ] {
            assert_eq!(read.series_values(counter, instance)[0], value, "{counter} in {:?}", read.tick_values(0));
        }
        assert_eq!((read.summary.unwrap().format, read.ticks.len()), ("sadf-xml", 2));
        let topology = read.notes.iter().find(|n| n.kind == "topology").unwrap();
        assert!(
            topology.text().contains("db1") && topology.text().contains("\"memory_bytes\":40960"),
            "{}",
            topology.text()
        );
        assert!(read.notes.iter().any(|n| n.text().contains("restarted")));
    }

    #[test]
    fn a_document_cut_anywhere_yields_all_complete_samples() {
        let full_text = document(&[sample(1, &disk("5")), sample(2, &disk("6")), sample(3, &disk("7"))]);
        let mut max_ticks = 0;
        for cut in 0..full_text.len() {
            let ticks = tps(&read_text(&full_text[..cut])).len();
            assert!(ticks >= max_ticks, "cut at {cut}");
            max_ticks = ticks;
        }
        assert_eq!(max_ticks, 3);
    }

    #[test]
    fn broken_elements_lose_no_other_values() {
        for (inside, values, because) in [
            ("<disk <tps>", vec![5.0], "no XML tag"),
            ("</disk></nothing>", vec![5.0, f64::NAN, 7.0], ""),
            ("<disk><disk-device dev=\"sda\" tps=\"x\"/></disk>", vec![5.0, f64::NAN, 7.0], ""),
            ("<disk><disk-device dev=\"sda\" tps=\"0,5\"/></disk>", vec![5.0, 0.5, 7.0], ""),
            ("<!-- <disk> -->", vec![5.0, f64::NAN, 7.0], ""),
        ] {
            let read = read_text(&document(&[sample(1, &disk("5")), sample(2, inside), sample(3, &disk("7"))]));
            let got = tps(&read);
            assert!(got.len() == values.len() && format!("{got:?}") == format!("{values:?}"), "{inside}: {got:?}");
            let skipped = read.summary.unwrap().skipped;
            assert!(because.is_empty() || skipped.iter().any(|s| s.reason.contains(because)), "{inside}: {skipped:?}");
        }
        let deep = document(&["<a>".repeat(100_000)]);
        assert!(read_text(&deep).summary.unwrap_err().to_string().contains("nested too deeply"));
    }

    #[test]
    fn lines_outside_are_counted_and_a_document_that_was_cut_ends_with_the_next() {
        let one = document(&[sample(1, &disk("5")), sample(2, &disk("6"))]);
        let cut = one.split_once("</statistics>").unwrap().0;
        let two = document(&[sample(4, &disk("7"))]);
        let read = read_text(&format!("nohup: ignoring input\nzzz <11/21/2026 19:05:00>\n{cut}{two}"));
        assert_eq!(tps(&read), [5.0, 6.0, 7.0]);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped[0].reason.contains("outside") && skipped[0].count == 3, "{skipped:?}");
    }
}
