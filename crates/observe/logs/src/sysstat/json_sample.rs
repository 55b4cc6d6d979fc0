//! Reader of one sample of a JSON document, whatever its text: an element of `"statistics"` of `sadf -j`, `iostat -o
//! JSON` or `mpstat -o JSON`.

use super::columns::Reports;
use super::json_scanner::{self, JsonScanner, JsonToken, TokenStop};
use super::report_row::ReportRow;
use super::template::{StampPart, StampRanges, Template, TemplateHole};

/// Largest nesting of objects in a sample.
const MAX_DEPTH: usize = 24;

/// State of reading a sample, and the results.
pub struct SampleWalker<'a> {
    sample: &'a [u8],
    scanner: JsonScanner<'a>,
    row: &'a mut ReportRow,
    template: &'a mut Template,
    stamp: &'a mut StampRanges,
}

/// Reads the sample that begins at the first byte into the row; returns its length.
pub fn read(
    sample: &[u8],
    row: &mut ReportRow,
    template: &mut Template,
    stamp: &mut StampRanges,
) -> Result<usize, TokenStop> {
    template.clear();
    stamp.clear();
    let mut walker = SampleWalker { sample, scanner: JsonScanner::new(sample, 0), row, template, stamp };
    match walker.scanner.next()? {
        JsonToken::Open(b'{') => walker.walk_object("", "", false, 0)?,
        _ => return Err(TokenStop::Invalid(0, "a sample should be an object")),
    }
    let end = walker.scanner.position;
    walker.template.finish(sample, end);
    Ok(end)
}

impl SampleWalker<'_> {
    fn invalid_token<T>(&self, because: &'static str) -> Result<T, TokenStop> {
        Err(TokenStop::Invalid(self.scanner.position, because))
    }

    /// Walks the members of an object up to its end. In a list the first member names the instance.
    fn walk_object(&mut self, report: &str, instance: &str, is_listed: bool, depth: usize) -> Result<(), TokenStop> {
        if depth > MAX_DEPTH {
            return self.invalid_token("nested too deeply");
        }
        let mut instance = instance.to_owned();
        let mut is_first = true;
        loop {
            let key = match self.scanner.next()? {
                JsonToken::Close(b'}') => return Ok(()),
                JsonToken::Comma if !is_first => continue,
                JsonToken::Text(key) => json_scanner::unescape_text(key),
                _ => return self.invalid_token("expected a key here"),
            };
            if self.scanner.next()? != JsonToken::Colon {
                return self.invalid_token("expected a colon here");
            }
            let names_instance = is_listed && is_first;
            is_first = false;
            match self.scanner.next()? {
                JsonToken::Open(b'{') => self.walk_object(&report_below(report, &key), "", false, depth + 1)?,
                JsonToken::Open(_) => self.walk_list(&report_below(report, &key), depth + 1)?,
                JsonToken::Text(text) => {
                    if names_instance {
                        instance = json_scanner::unescape_text(text);
                    } else {
                        self.add_text(report, &key, text.len());
                    }
                }
                JsonToken::Number(value) if names_instance => instance = format!("{value}"),
                JsonToken::Number(value) => self.add_number(report, &key, &instance, value),
                JsonToken::Word => {}
                _ => return self.invalid_token("expected a value here"),
            }
        }
    }

    fn walk_list(&mut self, report: &str, depth: usize) -> Result<(), TokenStop> {
        if depth > MAX_DEPTH {
            return self.invalid_token("nested too deeply");
        }
        loop {
            match self.scanner.next()? {
                JsonToken::Close(b']') => return Ok(()),
                JsonToken::Open(b'{') => self.walk_object(report, "", true, depth + 1)?,
                JsonToken::Open(_) => self.walk_list(report, depth + 1)?,
                JsonToken::Close(_) | JsonToken::Colon => return self.invalid_token("the list is broken"),
                JsonToken::Comma | JsonToken::Text(_) | JsonToken::Number(_) | JsonToken::Word => {}
            }
        }
    }

    fn add_number(&mut self, report: &str, key: &str, instance: &str, value: f64) {
        let end = self.scanner.position;
        let start = find_number_start(self.sample, end);
        if report == "timestamp" {
            let part = if key == "utc" { StampPart::Utc } else { stamp_part(key) };
            self.stamp.push((part, start..end));
            self.template.learn_hole(self.sample, start..end, TemplateHole::Time(part));
            return;
        }
        let slot = self.row.value_slot(report, key, instance);
        self.template.learn_number(self.sample, start..end, value, slot, self.row);
    }

    /// Handles a string that is no instance: a part of the time, or skipped.
    fn add_text(&mut self, report: &str, key: &str, length: usize) {
        let part = match (report, key) {
            ("timestamp", key) => stamp_part(key),
            ("", "timestamp") => StampPart::Whole,
            _ => return,
        };
        let end = self.scanner.position - 1;
        self.stamp.push((part, end - length..end));
        self.template.learn_hole(self.sample, end - length..end, TemplateHole::Time(part));
    }
}

/// Finds the start of the number that ends here.
fn find_number_start(sample: &[u8], end: usize) -> usize {
    let is_outside = |b: &u8| matches!(b, b' ' | b':' | b'\t' | b'\n' | b'\r');
    sample[..end].iter().rposition(is_outside).map_or(0, |index| index + 1)
}

fn stamp_part(key: &str) -> StampPart {
    match key {
        "date" => StampPart::Date,
        "time" => StampPart::Time,
        "tz" => StampPart::Zone,
        "utc" => StampPart::Utc,
        "interval" => StampPart::Interval,
        _ => StampPart::Other,
    }
}

/// Returns the report under a key: the key's own, unless the key is only a part of a known one (`io-reads` in `io`).
fn report_below(report: &str, key: &str) -> String {
    let reports = Reports::builtin();
    let is_part = reports.find_by_key(report).is_some() && reports.find_by_key(key).is_none();
    if is_part { report.to_owned() } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (Result<usize, TokenStop>, ReportRow, Vec<(StampPart, String)>) {
        let (mut row, mut template, mut stamp) = (ReportRow::new(), Template::default(), StampRanges::new());
        let end = read(text.as_bytes(), &mut row, &mut template, &mut stamp);
        let stamp_texts = stamp.iter().map(|(part, range)| (*part, text[range.clone()].to_owned())).collect();
        (end, row, stamp_texts)
    }

    #[test]
    fn values_find_their_columns_by_key() {
        let text = r#"{"timestamp": {"date": "2026-11-21", "time": "19:05:46", "utc": 1, "interval": 1},
            "io": {"tps": 5.00, "io-reads": {"rtps": 6.00}},
            "disk": [{"disk-device": "vda", "tps": 1202.00, "await": 0.12, "aqu-sz": 0.15}],
            "power-management": {"battery": [{"number": 0, "percent-capacity": 75, "status": "Full"}]},
            "network": {"net-dev": [{"iface": "lo", "rxkB": 2.00}]}} , {"#;
        let (end, mut shaper, stamp_texts) = read_all(text);
        assert_eq!(end, Ok(text.len() - 4));
        let mut value = |report: &str, name: &str, instance: &str| {
            let slot = shaper.value_slot(report, name, instance).unwrap();
            shaper.cells[slot.column as usize]
        };
        assert_eq!(value("io", "rtps", ""), 6.0);
        assert_eq!(value("disk", "await", "vda"), 0.12);
        assert_eq!(value("net-dev", "rxkB", "lo"), 2.0);
        assert_eq!(value("battery", "percent-capacity", "0"), 75.0);
        assert_eq!(stamp_texts[0], (StampPart::Date, "2026-11-21".into()));
        assert_eq!(stamp_texts[2], (StampPart::Utc, "1".into()));
    }

    #[test]
    fn distinguishes_broken_samples_from_short_ones() {
        let complete = r#"{"disk": [{"disk-device": "a", "tps": 1.0}]}"#;
        for cut in 0..complete.len() {
            assert_eq!(read_all(&complete[..cut]).0, Err(TokenStop::Incomplete), "{cut}");
        }
        for wrong in ["[", "{]", "{\"a\" 1}", "{\"a\": }", "{\"a\": [:]}", "{1: 2}"] {
            assert!(matches!(read_all(wrong).0, Err(TokenStop::Invalid(..))), "{wrong}");
        }
        let deep = "{\"a\":".repeat(100_000);
        assert!(matches!(read_all(&deep).0, Err(TokenStop::Invalid(..))));
    }
}
