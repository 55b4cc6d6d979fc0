//! `sadf -x`: the same reports as `sadf -j`, as elements and attributes. Tags are read one at a time; comments,
//! declarations and unknown elements are skipped.

use super::columns::Reports;
use super::idle::IdleTable;
use super::json;
use super::keeper::{DocumentWriter, SysstatSession};
use super::stream::StreamWindow;
use super::template::StampPart;
use super::time::NumericDateOrder;
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

/// Largest nesting of elements.
const DEEPEST: usize = 64;
/// Attributes that name the instance.
const INSTANCE: [&str; 10] =
    ["number", "dev", "intr", "iface", "fsname", "mountp", "name", "line", "cpu", "bus_number"];
/// Attributes that hold no value of the machine.
const REMARKS: [&str; 4] = ["per", "unit", "device", "status"];

struct SysstatXmlLog<'a, 'b, 'c> {
    stream: StreamWindow<'a>,
    keep: SysstatSession<'b, 'c>,
    /// Names of the open elements.
    open: Vec<String>,
    /// Time of the open sample.
    stamp: Option<Vec<(StampPart, String)>>,
    /// Byte at which it begins.
    place: u64,
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
    let session = SysstatSession::new(stream.name(), batch, options, order, DocumentWriter::Sadf);
    let mut log = SysstatXmlLog { stream, keep: session, open: Vec::new(), stamp: None, place: 0 };
    while !log.keep.batch.is_stopped() {
        match log.step() {
            Ok(true) => {}
            Ok(false) => {
                if !log.open.is_empty() {
                    log.unfinished();
                }
                return Ok(());
            }
            Err(LogError::Broken { context, because, .. }) if log.keep.ticks > 0 => {
                log.keep.batch.skip(context, format!("{because}; the rest of the file was left out"));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl SysstatXmlLog<'_, '_, '_> {
    fn unfinished(&mut self) {
        let place = format!("byte {}", self.stream.place());
        self.keep.batch.skip(place, "the document is incomplete: its writer was stopped, or the file was truncated");
    }

    /// Counts lines of text outside of the documents.
    fn tell_outside(&mut self, text: &str) {
        let place = self.stream.place();
        for _ in text.lines().filter(|line| line.contains(char::is_alphanumeric)) {
            self.keep.batch.skip(format!("byte {place}"), "a line outside of the documents");
        }
    }

    /// Reads the text up to the next tag, and the tag; returns false at the end.
    fn step(&mut self) -> Result<bool, LogError> {
        let Some(text) = self.find(b"<", 0)? else { return Ok(false) };
        let words = String::from_utf8_lossy(&self.stream.rest()[..text]).trim().to_owned();
        self.stream.skip(text);
        if self.open.is_empty() {
            self.tell_outside(&words);
        } else if !words.is_empty() {
            self.text(&words);
        }
        let until: &[u8] = match self.stream.rest() {
            rest if rest.starts_with(b"<!--") => b"-->",
            _ => b">",
        };
        let Some(end) = self.find(until, 1)? else {
            self.unfinished();
            self.open.clear();
            return Ok(false);
        };
        let place = self.stream.place();
        let tag = String::from_utf8_lossy(&self.stream.rest()[1..end]).into_owned();
        self.stream.skip(end + until.len());
        if tag.starts_with(['!', '?']) {
            return Ok(true);
        }
        match parse(&tag) {
            Some(tag) => self.tag(tag, place),
            None if self.open.is_empty() => {
                self.tell_outside(&tag);
                Ok(())
            }
            None => Err(LogError::broken(self.stream.name(), format!("byte {place}"), "no XML tag")),
        }
        .map(|()| true)
    }

    /// Finds the next occurrence of some bytes in the window, from index `from` on.
    fn find(&mut self, wanted: &[u8], from: usize) -> Result<Option<usize>, LogError> {
        let mut seen = from;
        loop {
            let rest = self.stream.rest();
            if seen < rest.len()
                && let Some(index) = position(&rest[seen..], wanted)
            {
                return Ok(Some(index + seen));
            }
            let previous_length = rest.len();
            seen = previous_length.saturating_sub(wanted.len() - 1).max(from);
            if !self.stream.more()? || self.stream.rest().len() == previous_length {
                return Ok(None);
            }
        }
    }

    fn tag(&mut self, tag: Tag, place: u64) -> Result<(), LogError> {
        if tag.is_end {
            if tag.name == "timestamp" {
                self.finish()?;
            }
            // an end tag without a start tag closes nothing
            if let Some(index) = self.open.iter().rposition(|open| *open == tag.name) {
                self.open.truncate(index);
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
                self.finish()?;
                self.open.clear();
            }
            "host" => self.keep.head("nodename", &attribute("nodename").unwrap_or_default()),
            "timestamp" => {
                self.finish()?;
                self.stamp = Some(parts());
                self.place = place;
            }
            "boot" => self.keep.restart(&parts()),
            _ if self.stamp.is_some() => {
                match tag.name.as_str() {
                    "disk" => self.keep.tables[IdleTable::Disk as usize] = true,
                    "network" => {
                        self.keep.tables[IdleTable::Network as usize] = true;
                        self.keep.tables[IdleTable::NetworkErrors as usize] = true;
                    }
                    _ => {}
                }
                self.values(&tag);
            }
            _ => {}
        }
        if tag.is_empty {
            if tag.name == "timestamp" {
                self.finish()?;
            }
        } else if self.open.len() >= DEEPEST {
            return Err(LogError::broken(self.stream.name(), format!("byte {place}"), "nested too deeply"));
        } else {
            self.open.push(tag.name);
        }
        Ok(())
    }

    /// Emits the open sample.
    fn finish(&mut self) -> Result<(), LogError> {
        match self.stamp.take() {
            Some(stamp) => self.keep.tick(&stamp, self.place),
            None => Ok(()),
        }
    }

    /// Returns the report of an element: its own name or the nearest known one around it.
    fn report<'a>(&'a self, own: &'a str) -> &'a str {
        let reports = Reports::builtin();
        let known = |name: &&str| reports.by_key(name).is_some();
        let around = self.open.iter().rev().take_while(|name| *name != "timestamp").map(String::as_str);
        [own].into_iter().chain(around).find(known).unwrap_or(own)
    }

    /// Reads the attributes of an element within a sample.
    fn values(&mut self, tag: &Tag) {
        let report = self.report(&tag.name).to_owned();
        let instance = INSTANCE.iter().find_map(|wanted| tag.attributes.iter().find(|(name, _)| name == wanted));
        let (instance_name, instance) = instance.map_or(("", ""), |(name, value)| (name.as_str(), value.as_str()));
        let processor = match tag.attributes.iter().find(|(name, _)| name == "cpu" && tag.name == "irq") {
            Some((_, cpu)) if cpu != "all" => format!("CPU{cpu}"),
            _ => "all".to_owned(),
        };
        for (name, value) in &tag.attributes {
            let is_label = name == instance_name || REMARKS.contains(&name.as_str());
            if is_label || (tag.name == "irq" && name == "cpu") {
                continue;
            }
            let name = if tag.name == "irq" && name == "value" { &processor } else { name };
            self.value(&report, name, instance, value);
        }
    }

    /// Reads text between tags: a value in a sample, else of the host's head.
    fn text(&mut self, text: &str) {
        let Some(name) = self.open.last().cloned() else { return };
        if self.stamp.is_none() {
            self.keep.head(&name, text);
            return;
        }
        let report = self.report("").to_owned();
        self.value(&report, &name, "", text);
    }

    fn value(&mut self, report: &str, name: &str, instance: &str, text: &str) {
        let Some(value) = plain_number(text) else {
            // the broken value may belong to a device that was not left out
            if !text.trim().is_empty() {
                self.keep.tables = Default::default();
            }
            return;
        };
        if let Some(slot) = self.keep.shaper.slot(report, name, instance) {
            self.keep.shaper.put(slot, value);
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    match wanted {
        [one] => bytes.iter().position(|b| b == one),
        _ => bytes.windows(wanted.len()).position(|w| w == wanted),
    }
}

/// Parses a text that is a number as a whole; `None` for words.
pub fn plain_number(text: &str) -> Option<f64> {
    let padded = [text.as_bytes(), b" "].concat();
    match json::number(&padded, 0) {
        Ok((value, end)) if end == text.len() => Some(value),
        _ if text.eq_ignore_ascii_case("nan") => Some(f64::NAN),
        _ => None,
    }
}

/// Parses a tag without its brackets.
fn parse(tag: &str) -> Option<Tag> {
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (tag, is_end) = tag.strip_prefix('/').map_or((tag, false), |tag| (tag, true));
    let (name, mut rest) = tag.split_once(|c: char| c.is_whitespace()).unwrap_or((tag, ""));
    if !name.starts_with(char::is_alphabetic) {
        return None;
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(Tag { name: name.to_owned(), attributes, is_end, is_empty });
        }
        let (key, after) = rest.split_once('=')?;
        let quote = after.trim_start().chars().next().filter(|q| matches!(q, '"' | '\''))?;
        let (value, after) = after.trim_start()[1..].split_once(quote)?;
        attributes.push((key.trim().to_owned(), unescaped(value)));
        rest = after;
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let known = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    known.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Read, run};

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

    fn tps(read: &Read) -> Vec<f64> {
        read.column("physical_disk.transfers_per_s", "sda")
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
        let read = run(&document(&[sample(1, inside), sample(2, &(inside.to_owned() + &disk("8.00")))]));
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
            assert_eq!(read.column(counter, instance)[0], value, "{counter} in {:?}", read.tick(0));
        }
        assert_eq!((read.summary.unwrap().format, read.ticks.len()), ("sadf-xml", 2));
        let topology = read.notes.iter().find(|n| n.kind == "topology").unwrap();
        assert!(topology.text.contains("db1") && topology.text.contains("\"memory_bytes\":40960"), "{}", topology.text);
        assert!(read.notes.iter().any(|n| n.text.contains("restarted")));
    }

    #[test]
    fn a_document_cut_anywhere_gives_what_was_whole() {
        let whole = document(&[sample(1, &disk("5")), sample(2, &disk("6")), sample(3, &disk("7"))]);
        let mut max_ticks = 0;
        for cut in 0..whole.len() {
            let ticks = tps(&run(&whole[..cut])).len();
            assert!(ticks >= max_ticks, "cut at {cut}");
            max_ticks = ticks;
        }
        assert_eq!(max_ticks, 3);
    }

    #[test]
    fn broken_elements_cost_no_more_than_they_must() {
        for (inside, values, because) in [
            ("<disk <tps>", vec![5.0], "no XML tag"),
            ("</disk></nothing>", vec![5.0, f64::NAN, 7.0], ""),
            ("<disk><disk-device dev=\"sda\" tps=\"x\"/></disk>", vec![5.0, f64::NAN, 7.0], ""),
            ("<disk><disk-device dev=\"sda\" tps=\"0,5\"/></disk>", vec![5.0, 0.5, 7.0], ""),
            ("<!-- <disk> -->", vec![5.0, f64::NAN, 7.0], ""),
        ] {
            let read = run(&document(&[sample(1, &disk("5")), sample(2, inside), sample(3, &disk("7"))]));
            let got = tps(&read);
            assert!(got.len() == values.len() && format!("{got:?}") == format!("{values:?}"), "{inside}: {got:?}");
            let skipped = read.summary.unwrap().skipped;
            assert!(because.is_empty() || skipped.iter().any(|s| s.because.contains(because)), "{inside}: {skipped:?}");
        }
        let deep = document(&["<a>".repeat(100_000)]);
        assert!(run(&deep).summary.unwrap_err().to_string().contains("nested too deeply"));
    }

    #[test]
    fn lines_outside_are_counted_and_a_document_that_was_cut_ends_with_the_next() {
        let one = document(&[sample(1, &disk("5")), sample(2, &disk("6"))]);
        let cut = one.split_once("</statistics>").unwrap().0;
        let two = document(&[sample(4, &disk("7"))]);
        let read = run(&format!("nohup: ignoring input\nzzz <11/21/2026 19:05:00>\n{cut}{two}"));
        assert_eq!(tps(&read), [5.0, 6.0, 7.0]);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped[0].because.contains("outside") && skipped[0].times == 3, "{skipped:?}");
    }
}
