//! `sadf -j`, `iostat -o JSON` and `mpstat -o JSON`: documents in succession, each with hosts, each with samples. Only
//! one sample at a time is held, so a document of any size takes the same memory.

use super::idle_devices::DOCUMENT_KEYS;
use super::json_sample;
use super::json_scanner::{self, JsonScanner, JsonToken, TokenStop};
use super::session::{DocumentWriter, SysstatSession};
use super::stream_window::StreamWindow;
use super::template::{StampPart, StampRanges, Template};
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

/// Largest number of templates: samples with and without some report may alternate.
const MAX_TEMPLATES: usize = 4;
/// Largest nesting of objects outside of samples.
const MAX_DEPTH: usize = 64;

struct SysstatJsonLog<'a, 'b, 'c> {
    stream: StreamWindow<'a>,
    session: SysstatSession<'b, 'c>,
    templates: Vec<Template>,
    generation: u32,
    /// Set while text outside of documents continues that was reported already.
    is_outside_reported: bool,
}

/// Finds the start of a document of sysstat: a brace, and the key that all of them have.
pub fn find_document_start(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(bytes, b"\"sysstat\"").find_map(|key| {
        let before = bytes[..key].iter().rposition(|b| !b.is_ascii_whitespace())?;
        (bytes[before] == b'{').then_some(before)
    })
}

/// Reads all documents of an input.
pub fn read(
    input: &mut LogInput,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
    writer: DocumentWriter,
) -> Result<(), LogError> {
    let head = String::from_utf8_lossy(input.head().bytes).into_owned();
    let order = time::guess_date_order(
        &head,
        head.split("\"date\": \"").nth(1).and_then(|d| d.split('"').next()).unwrap_or(""),
    );
    read_stream(StreamWindow::new(input), order, options, batch, writer)
}

/// Reads all documents of a stream.
pub fn read_stream(
    stream: StreamWindow<'_>,
    order: NumericDateOrder,
    options: &LogOptions,
    batch: &mut FrameBatch<'_>,
    writer: DocumentWriter,
) -> Result<(), LogError> {
    let session = SysstatSession::new(stream.name(), batch, options, order, writer);
    let templates = Vec::new();
    let mut log = SysstatJsonLog { stream, session: session, templates, generation: 0, is_outside_reported: false };
    log.read_documents()
}

/// A token outside of samples, held independently of the window.
enum BufferedToken {
    Open(u8),
    Close,
    Text(String),
    Number(f64),
    Colon,
    Other,
}

impl SysstatJsonLog<'_, '_, '_> {
    /// Reads the tokens outside of samples; keys identify those that matter.
    fn read_documents(&mut self) -> Result<(), LogError> {
        let mut depth = 0usize;
        let mut last = String::new();
        let mut key = String::new();
        while !self.session.batch.is_stopped() {
            if depth == 0 && !self.find_document()? {
                return self.session.check_since_boot();
            }
            let token = match self.read_token() {
                Ok(Some(token)) => token,
                Ok(None) => {
                    if depth > 0 {
                        self.report_unfinished();
                    }
                    return self.session.check_since_boot();
                }
                // a foreign line between those of the document
                Err(LogError::Broken { context, because, .. }) => {
                    self.session.batch.add_skip(context, format!("{because}; the line was left out"));
                    self.skip_line()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let parent_key = std::mem::take(&mut key);
            match token {
                BufferedToken::Open(b'[') if parent_key == "statistics" => {
                    if !self.read_samples()? {
                        depth = 0;
                    }
                }
                BufferedToken::Open(b'[') if parent_key == "restarts" => self.read_restarts()?,
                BufferedToken::Open(_) => depth += 1,
                BufferedToken::Close => depth = depth.saturating_sub(1),
                BufferedToken::Colon => key = std::mem::take(&mut last),
                BufferedToken::Text(text) => {
                    self.session.read_head(&parent_key, &text);
                    last = text;
                }
                BufferedToken::Number(number) => self.session.read_head(&parent_key, &format!("{number}")),
                BufferedToken::Other => {}
            }
            if depth > MAX_DEPTH {
                let error = self.stream.error_at(0, "nested too deeply");
                return self.finish_or_fail(error);
            }
        }
        Ok(())
    }

    /// Advances to the start of the next document, and reports what stands before it; returns false at the end.
    fn find_document(&mut self) -> Result<bool, LogError> {
        /// Bytes of a document's first brace and key, with blanks between.
        const MIN_START_BYTES: usize = 64;
        loop {
            let rest = self.stream.remaining_bytes();
            let found = find_document_start(rest);
            let end = found.unwrap_or_else(|| rest.len().saturating_sub(MIN_START_BYTES));
            if end > 0 && (found.is_some() || !self.is_outside_reported) {
                self.report_outside(end);
            }
            self.is_outside_reported = found.is_none() && end > 0;
            self.stream.skip_bytes(end);
            if found.is_some() {
                return Ok(true);
            }
            let was = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == was {
                self.report_outside(was);
                self.stream.skip_bytes(was);
                return Ok(false);
            }
        }
    }

    /// Counts the lines in the next `end` bytes, which belong to no document.
    fn report_outside(&mut self, end: usize) {
        let place = self.stream.byte_offset();
        let bytes = &self.stream.remaining_bytes()[..end];
        for line in bytes.split(|b| *b == b'\n').filter(|line| line.iter().any(u8::is_ascii_alphanumeric)) {
            let index = line.as_ptr() as usize - bytes.as_ptr() as usize;
            self.session.batch.add_skip(format!("byte {}", place + index as u64), "a line outside of the documents");
        }
    }

    /// Advances behind the end of the line.
    fn skip_line(&mut self) -> Result<(), LogError> {
        if let Some((_, line_bytes)) = self.stream.next_line()? {
            self.stream.skip_bytes(line_bytes);
        }
        Ok(())
    }

    /// Skips the rest of the file after an error if samples were read before; otherwise returns the error.
    fn finish_or_fail(&mut self, error: LogError) -> Result<(), LogError> {
        match error {
            LogError::Broken { context, because, .. } if self.session.tick_count > 0 => {
                self.session.batch.add_skip(context, format!("{because}; the rest of the file was left out"));
                Ok(())
            }
            error => Err(error),
        }
    }

    fn report_unfinished(&mut self) {
        let place = format!("byte {}", self.stream.byte_offset() + self.stream.remaining_bytes().len() as u64);
        self.session
            .batch
            .add_skip(place, "the document is incomplete: its writer was stopped, or the file was truncated");
    }

    fn read_token(&mut self) -> Result<Option<BufferedToken>, LogError> {
        loop {
            let mut scanner = JsonScanner::new(self.stream.remaining_bytes(), 0);
            let token = match scanner.next() {
                Ok(JsonToken::Open(kind)) => BufferedToken::Open(kind),
                Ok(JsonToken::Close(_)) => BufferedToken::Close,
                Ok(JsonToken::Text(text)) => BufferedToken::Text(json_scanner::unescape_text(text)),
                Ok(JsonToken::Number(number)) => BufferedToken::Number(number),
                Ok(JsonToken::Colon) => BufferedToken::Colon,
                Ok(JsonToken::Word | JsonToken::Comma) => BufferedToken::Other,
                Err(TokenStop::Invalid(index, because)) => return Err(self.stream.error_at(index, because)),
                Err(TokenStop::Incomplete) => {
                    if self.stream.read_more()? {
                        continue;
                    }
                    return Ok(None);
                }
            };
            let used = scanner.position;
            self.stream.skip_bytes(used);
            return Ok(Some(token));
        }
    }

    /// Reads the elements of `"statistics"`, up to the end of the list; returns false where the document ends within
    /// them.
    fn read_samples(&mut self) -> Result<bool, LogError> {
        while !self.session.batch.is_stopped() {
            let Some(first) = self.peek_byte()? else {
                self.report_unfinished();
                return Ok(false);
            };
            match first {
                b',' => self.stream.skip_bytes(1),
                b']' => {
                    self.stream.skip_bytes(1);
                    return Ok(true);
                }
                // the writer was stopped, and another one began a document
                _ if self.is_document()? => {
                    self.report_unfinished();
                    return Ok(false);
                }
                _ => {
                    if !self.read_sample()? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns true where a document begins here.
    fn is_document(&mut self) -> Result<bool, LogError> {
        const KEY_WINDOW_BYTES: usize = 64;
        if self.stream.remaining_bytes().first() != Some(&b'{') {
            return Ok(false);
        }
        while self.stream.remaining_bytes().len() < KEY_WINDOW_BYTES
            && self.stream.read_more()?
            && self.stream.remaining_bytes().len() < KEY_WINDOW_BYTES
        {
            let was = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == was {
                break;
            }
        }
        let rest = self.stream.remaining_bytes();
        Ok(find_document_start(&rest[..rest.len().min(KEY_WINDOW_BYTES)]) == Some(0))
    }

    /// Returns the next byte that is not blank.
    fn peek_byte(&mut self) -> Result<Option<u8>, LogError> {
        loop {
            let blanks = self.stream.remaining_bytes().iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.stream.skip_bytes(blanks);
            if let Some(first) = self.stream.remaining_bytes().first() {
                return Ok(Some(*first));
            }
            if !self.stream.read_more()? {
                return Ok(None);
            }
        }
    }

    /// Reads one sample; returns false where the input ends within it.
    fn read_sample(&mut self) -> Result<bool, LogError> {
        let mut stamp = StampRanges::new();
        loop {
            match self.try_read_sample(&mut stamp) {
                Ok(length) => {
                    let texts = self.stamp_texts(&stamp);
                    let sample = &self.stream.remaining_bytes()[..length];
                    self.session.sample_tables =
                        DOCUMENT_KEYS.map(|key| memchr::memmem::find(sample, key.as_bytes()).is_some());
                    let place = self.stream.byte_offset();
                    self.stream.skip_bytes(length);
                    self.session.emit_tick(&texts, place)?;
                    return Ok(true);
                }
                Err(TokenStop::Incomplete) => {
                    self.session.row.clear();
                    if !self.stream.read_more()? {
                        self.report_unfinished();
                        return Ok(false);
                    }
                }
                Err(TokenStop::Invalid(index, because)) => {
                    self.session.row.clear();
                    let place = format!("byte {}", self.stream.byte_offset() + index as u64);
                    self.session.batch.add_skip(place, format!("a sample is broken: {because}"));
                    return self.find_next_sample(index);
                }
            }
        }
    }

    fn try_read_sample(&mut self, stamp: &mut StampRanges) -> Result<usize, TokenStop> {
        if self.generation != self.session.row.generation {
            self.generation = self.session.row.generation;
            self.templates.clear();
        }
        let bytes = self.stream.remaining_bytes();
        for index in 0..self.templates.len() {
            if let Some(length) = self.templates[index].match_sample(bytes, &mut self.session.row.cells, stamp)? {
                self.templates.swap(0, index);
                return Ok(length);
            }
            self.session.row.clear();
        }
        let mut template = if self.templates.len() < MAX_TEMPLATES {
            Template::default()
        } else {
            self.templates.pop().unwrap_or_default()
        };
        let length = json_sample::read(bytes, &mut self.session.row, &mut template, stamp)?;
        self.templates.insert(0, template);
        Ok(length)
    }

    /// Looks for the next sample after a broken one; returns false at the end.
    fn find_next_sample(&mut self, from: usize) -> Result<bool, LogError> {
        const TIMESTAMP_KEY: &[u8] = b"\"timestamp\"";
        self.stream.skip_bytes(from.max(1));
        loop {
            let bytes = self.stream.remaining_bytes();
            let found = memchr::memmem::find(bytes, TIMESTAMP_KEY);
            if let Some(document) = find_document_start(bytes).filter(|index| found.is_none_or(|found| *index < found))
            {
                self.stream.skip_bytes(document);
                return Ok(true);
            }
            if let Some(found) = found {
                let open = bytes[..found].iter().rposition(|b| *b == b'{').unwrap_or(found);
                self.stream.skip_bytes(if open < found { open } else { found + TIMESTAMP_KEY.len() });
                if open < found {
                    return Ok(true);
                }
                continue;
            }
            self.stream.skip_bytes(bytes.len().saturating_sub(TIMESTAMP_KEY.len() + 64));
            let was = self.stream.remaining_bytes().len();
            if !self.stream.read_more()? || self.stream.remaining_bytes().len() == was {
                return Ok(false);
            }
        }
    }

    /// Reads the list of restarts that ends a host of sadf.
    fn read_restarts(&mut self) -> Result<(), LogError> {
        let mut depth = 1;
        let (mut last, mut key) = (String::new(), String::new());
        let mut parts: Vec<(StampPart, String)> = Vec::new();
        while depth > 0 {
            let parent_key = std::mem::take(&mut key);
            match self.read_token()? {
                Some(BufferedToken::Open(_)) => depth += 1,
                Some(BufferedToken::Close) => {
                    depth -= 1;
                    self.session.note_restart(&parts);
                    parts.clear();
                }
                Some(BufferedToken::Colon) => key = std::mem::take(&mut last),
                Some(BufferedToken::Text(text)) => {
                    match parent_key.as_str() {
                        "date" => parts.push((StampPart::Date, text.clone())),
                        "time" => parts.push((StampPart::Time, text.clone())),
                        "tz" => parts.push((StampPart::Zone, text.clone())),
                        _ => {}
                    }
                    last = text;
                }
                Some(BufferedToken::Number(number)) if parent_key == "utc" => {
                    parts.push((StampPart::Utc, format!("{number}")))
                }
                Some(BufferedToken::Number(_) | BufferedToken::Other) => {}
                None => {
                    self.report_unfinished();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn stamp_texts(&self, stamp: &StampRanges) -> Vec<(StampPart, String)> {
        let bytes = self.stream.remaining_bytes();
        let text = |range: &std::ops::Range<usize>| String::from_utf8_lossy(&bytes[range.clone()]).into_owned();
        stamp.iter().map(|(part, range)| (*part, text(range))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ReadOutcome, read_text};

    const HEAD: &str = r#"{"sysstat": {"hosts": [{"nodename": "db1", "sysname": "Linux", "release": "6.1.0",
        "number-of-cpus": 4, "file-date": "2026-11-21", "statistics": ["#;

    fn sample(second: u32, tps: &str) -> String {
        format!(
            r#"{{"timestamp": {{"date": "2026-11-21", "time": "19:05:{second:02}", "utc": 1, "interval": 1}},
            "disk": [{{"disk-device": "sda", "tps": {tps}, "await": 2.00}}]}}"#
        )
    }

    fn document(samples: &[String]) -> String {
        let boot = r#"{"boot": {"date": "2026-11-21", "time": "19:05:03", "utc": 1}}"#;
        format!("{HEAD}{}], \"restarts\": [{boot}]}}]}}}}\n", samples.join(", "))
    }

    fn tps(read: &ReadOutcome) -> Vec<f64> {
        read.series_values("physical_disk.transfers_per_s", "sda")
    }

    #[test]
    fn samples_become_ticks_with_their_own_length() {
        let read = read_text(&document(&[sample(1, "5.00"), sample(2, "6.50"), sample(3, "7")]));
        assert_eq!(tps(&read), [5.0, 6.5, 7.0]);
        assert_eq!(read.ticks[0], (1_795_287_901_000_000_000, 1_000_000_000));
        let summary = read.summary.as_ref().unwrap();
        assert_eq!((summary.format, summary.host.as_str(), summary.foreign), ("sadf-json", "db1", 0));
        assert!(read.notes.iter().any(|n| n.kind == "gap" && n.text.contains("restarted")), "{:?}", read.notes);
        let topology = read.notes.iter().find(|n| n.kind == "topology").unwrap();
        assert!(topology.text.contains("\"processors\":4") && topology.text.contains("6.1.0"));
    }

    #[test]
    fn a_document_cut_anywhere_yields_all_complete_samples() {
        let whole = document(&[sample(1, "5.00"), sample(2, "6.00"), sample(3, "7.00")]);
        let mut max_ticks = 0;
        for cut in crate::sweep::sweep(whole.len(), 120) {
            let read = read_text(&whole[..cut]);
            let ticks = tps(&read).len();
            assert!(ticks >= max_ticks, "cut at {cut}");
            max_ticks = ticks;
            let is_told = match &read.summary {
                Ok(summary) => !summary.skipped.is_empty() || cut + 2 > whole.trim_end().len(),
                Err(error) => !error.to_string().is_empty(),
            };
            assert!(is_told, "cut at {cut}");
        }
        assert_eq!(max_ticks, 3);
    }

    #[test]
    fn broken_samples_are_left_out_with_their_place() {
        for (wrong, because) in [
            (r#"{"timestamp": {"date" "2026"}}"#, "colon"),
            (r#"{"timestamp": {"date": "2026-11-21", "time": "99:00:00"}}"#, "without a readable time"),
            (r#"{"cpu-load": []}"#, "without a readable time"),
            (r#"{"timestamp": {"date": "2026-11-21", "time": "19:05:02", "utc": 1}, "disk": [:]}"#, "broken"),
            (&sample(1, "1.0"), "a second sample with the same time"),
            (&sample(0, "1.0"), "time goes back"),
        ] {
            let read = read_text(&document(&[sample(1, "5.00"), wrong.to_owned(), sample(3, "7.00")]));
            assert_eq!(tps(&read), [5.0, 7.0], "{wrong}");
            let skipped = &read.summary.as_ref().unwrap().skipped;
            assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
        }
    }

    #[test]
    fn impossible_numbers_are_gaps() {
        let read = read_text(&document(&[sample(1, "-5.00"), sample(2, "nan"), sample(3, "1e300"), sample(4, "0,50")]));
        let read = tps(&read);
        assert!(read[..3].iter().all(|v| v.is_nan()));
        assert_eq!(read[3], 0.5);
    }

    #[test]
    fn nonsense_is_refused_with_a_place() {
        for (text, because) in [
            (format!("{HEAD}{}", "{\"a\":".repeat(200_000)), "nested too deeply"),
            (format!("{HEAD}#]"), "no JSON"),
            (format!("{HEAD}7]"), "a sample should be an object"),
            (format!("{}{HEAD}", "[".repeat(100)), "incomplete"),
            (format!("{HEAD}] \u{1} }}"), "no JSON"),
            (format!("{HEAD}]}}]}}}}"), "no sample"),
        ] {
            let error = read_text(&text).summary.unwrap_err().to_string();
            assert!(error.contains(because), "{error}");
        }
    }

    #[test]
    fn another_machine_is_left_out_and_named() {
        let one = document(&[sample(1, "5.00")]);
        let both = one.clone() + &one.replace("db1", "db2").replace("5.00", "9.00");
        let read = read_text(&both);
        assert_eq!(tps(&read), [5.0]);
        assert!(read.summary.unwrap().skipped[0].reason.contains("--host db2"));
    }

    #[test]
    fn keys_of_older_releases_of_iostat_are_known() {
        let sample = |second: u32| {
            format!(
                r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0100", "disk": [
                {{"disk_device": "sda", "r": 100.00, "w": 50.00, "rkB": 400.00, "r_await": 4.00}},
                {{"disk_device": "sdb", "tps": 9.00, "kB_read_per_sec": 2.00, "kB_wrtn_per_sec": 3.00}}]}}"#
            )
        };
        let read = read_text(&format!("{}{}, {}", HEAD.replace("file-date", "date"), sample(1), sample(2)));
        for (counter, disk, value) in [
            ("reads_per_s", "sda", 100.0),
            ("writes_per_s", "sda", 50.0),
            ("avg_read_queue_length", "sda", 0.4),
            ("read_bytes_per_s", "sdb", 2048.0),
            ("write_bytes_per_s", "sdb", 3072.0),
        ] {
            assert_eq!(read.series_values(&format!("physical_disk.{counter}"), disk), [value], "{counter}");
        }
    }

    #[test]
    fn iostat_leaves_out_the_time_since_boot_and_multiplies_its_queues() {
        let head = HEAD.replace("file-date", "date");
        let sample = |second: u32, r: &str| {
            format!(
                r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0100", "avg-cpu": {{"user": 1.0, "idle": 99.0}},
                "disk": [{{"disk_device": "sda", "r/s": {r}, "r_await": 4.00, "util": 50.0}}]}}"#
            )
        };
        let text = format!("{head}{}, {}, {}", sample(1, "9"), sample(2, "100"), sample(4, "200"));
        let read = read_text(&text);
        assert_eq!(read.series_values("physical_disk.avg_read_queue_length", "sda"), [0.4, 0.8]);
        assert_eq!(read.series_values("processor.idle", "_total"), [0.99, 0.99]);
        assert_eq!(read.ticks[0], (1_795_284_302_000_000_000, 1_000_000_000));
        assert_eq!(read.ticks[1].1, 2_000_000_000);
        let skipped = read.summary.unwrap().skipped;
        assert!(skipped[0].reason.contains("since boot") && skipped[1].reason.contains("incomplete"), "{skipped:?}");
    }

    #[test]
    fn reports_without_times_need_an_interval() {
        let head = HEAD.replace("file-date", "date");
        let sample = "{\"disk\": [{\"disk_device\": \"sda\", \"tps\": 1.0}]}";
        let error = read_text(&format!("{head}{sample}, {sample}]}}]}}}}")).summary.unwrap_err().to_string();
        assert!(error.contains("--interval"), "{error}");
        // one alone is of no use with an interval either
        let error = read_text(&format!("{head}{sample}]}}]}}}}")).summary.unwrap_err().to_string();
        assert!(error.contains("since boot") && !error.contains("--interval"), "{error}");
    }

    #[test]
    fn devices_come_and_go_without_a_new_series_for_the_old() {
        let with = |s: &str, device: &str| s.replace("sda", device);
        let samples = [sample(1, "1.0"), with(&sample(2, "2.0"), "sdb"), sample(3, "3.0")];
        let read = read_text(&document(&samples));
        let a = tps(&read);
        // with a table of disks that lacks one that was there before, and no row of zeros: `-z`
        assert_eq!(a, [1.0, 0.0, 3.0]);
        let b = read.series_values("physical_disk.transfers_per_s", "sdb");
        assert!(b[0].is_nan() && b[1..] == [2.0, 0.0], "{b:?}");
    }

    #[test]
    fn lines_outside_and_between_are_counted_and_a_document_that_was_cut_ends_with_the_next() {
        let one = document(&[sample(1, "5.00"), sample(2, "6.00")]);
        let cut = one.split_once("}], \"restarts\"").unwrap().0;
        let two = document(&[sample(3, "7.00"), sample(4, "8.00")]);
        let text = format!("nohup: ignoring input\n[root@db1 ~]# {{ sadf }}\n{one}\nzzz ***Sat Nov 21\n{two}");
        let read = read_text(&text);
        assert_eq!(tps(&read), [5.0, 6.0, 7.0, 8.0]);
        let skipped = read.summary.unwrap().skipped;
        assert_eq!((skipped[0].context.as_str(), skipped[0].count), ("byte 0", 3), "{skipped:?}");
        let read = read_text(&format!("{cut}}}]}}, {two}"));
        assert_eq!(tps(&read).last(), Some(&8.0));
        let read = read_text(&format!("{cut}\n{two}"));
        assert!(tps(&read).ends_with(&[7.0, 8.0]), "{:?}", tps(&read));
        let read = read_text(&one.replace(&sample(2, "6.00"), "message from root\n"));
        assert_eq!(tps(&read), [5.0]);
    }

    #[test]
    fn each_document_of_iostat_loses_its_report_since_boot_also_behind_one_that_was_cut() {
        let head = HEAD.replace("file-date", "date");
        let sample = |second: u32, r: &str| {
            format!(
                r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0000",
                "disk": [{{"disk_device": "sda", "tps": {r}, "util": 50.0}}]}}"#
            )
        };
        let text =
            format!("{head}{}, {},\n{head}{}, {}", sample(1, "999"), sample(2, "5"), sample(3, "999"), sample(4, "6"));
        assert_eq!(tps(&read_text(&text)), [5.0, 6.0]);
    }
    #[test]
    fn does_not_recognise_pidstat_documents() {
        let text = r#"{"sysstat": {"hosts": [{"nodename": "a", "date": "2026-11-21", "statistics": [
            {"timestamp": "19:05:46", "context-switch": [{"UID": "0", "PID": "7", "cswch/s": 5.0, "cmd": "db"}]},
            {"timestamp": "19:05:47", "context-switch": [{"UID": "0", "PID": "7", "cswch/s": 6.0, "cmd": "db"}]}]}]}}"#;
        assert!(read_text(text).summary.is_err());
    }
}
