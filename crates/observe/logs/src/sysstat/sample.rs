//! Reader of one sample of a JSON document, whatever its text: an element of `"statistics"` of `sadf -j`, `iostat -o
//! JSON` or `mpstat -o JSON`.

use super::columns::Reports;
use super::json::{self, JsonScanner, JsonToken, TokenStop};
use super::shaper::Shaper;
use super::template::{Stamp, StampPart, Template, TemplateHole};

/// Largest nesting of objects in a sample.
const DEEPEST: usize = 24;

/// State of reading a sample, and the results.
pub struct Walk<'a> {
    sample: &'a [u8],
    scanner: JsonScanner<'a>,
    shaper: &'a mut Shaper,
    template: &'a mut Template,
    stamp: &'a mut Stamp,
}

/// Reads the sample that begins at the first byte into the row; returns its length.
pub fn read(sample: &[u8], row: &mut Shaper, template: &mut Template, stamp: &mut Stamp) -> Result<usize, TokenStop> {
    template.clear();
    stamp.clear();
    let mut walk = Walk { sample, scanner: JsonScanner::new(sample, 0), shaper: row, template, stamp };
    match walk.scanner.next()? {
        JsonToken::Open(b'{') => walk.object("", "", false, 0)?,
        _ => return Err(TokenStop::Wrong(0, "a sample should be an object")),
    }
    let end = walk.scanner.position;
    walk.template.finish(sample, end);
    Ok(end)
}

impl Walk<'_> {
    fn wrong<T>(&self, because: &'static str) -> Result<T, TokenStop> {
        Err(TokenStop::Wrong(self.scanner.position, because))
    }

    /// Walks the members of an object up to its end. In a list the first member names the instance.
    fn object(&mut self, report: &str, instance: &str, is_listed: bool, depth: usize) -> Result<(), TokenStop> {
        if depth > DEEPEST {
            return self.wrong("nested too deeply");
        }
        let mut instance = instance.to_owned();
        let mut is_first = true;
        loop {
            let key = match self.scanner.next()? {
                JsonToken::Close(b'}') => return Ok(()),
                JsonToken::Comma if !is_first => continue,
                JsonToken::Text(key) => json::text(key),
                _ => return self.wrong("expected a key here"),
            };
            if self.scanner.next()? != JsonToken::Colon {
                return self.wrong("expected a colon here");
            }
            let names_instance = is_listed && is_first;
            is_first = false;
            match self.scanner.next()? {
                JsonToken::Open(b'{') => self.object(&below(report, &key), "", false, depth + 1)?,
                JsonToken::Open(_) => self.list(&below(report, &key), depth + 1)?,
                JsonToken::Text(text) => {
                    if names_instance {
                        instance = json::text(text);
                    } else {
                        self.text(report, &key, text.len());
                    }
                }
                JsonToken::Number(value) if names_instance => instance = format!("{value}"),
                JsonToken::Number(value) => self.number(report, &key, &instance, value),
                JsonToken::Word => {}
                _ => return self.wrong("expected a value here"),
            }
        }
    }

    fn list(&mut self, report: &str, depth: usize) -> Result<(), TokenStop> {
        if depth > DEEPEST {
            return self.wrong("nested too deeply");
        }
        loop {
            match self.scanner.next()? {
                JsonToken::Close(b']') => return Ok(()),
                JsonToken::Open(b'{') => self.object(report, "", true, depth + 1)?,
                JsonToken::Open(_) => self.list(report, depth + 1)?,
                JsonToken::Close(_) | JsonToken::Colon => return self.wrong("the list is broken"),
                JsonToken::Comma | JsonToken::Text(_) | JsonToken::Number(_) | JsonToken::Word => {}
            }
        }
    }

    fn number(&mut self, report: &str, key: &str, instance: &str, value: f64) {
        let end = self.scanner.position;
        let start = number_start(self.sample, end);
        if report == "timestamp" {
            let part = if key == "utc" { StampPart::Utc } else { part(key) };
            self.stamp.push((part, start..end));
            self.template.hole(self.sample, start..end, TemplateHole::Time(part));
            return;
        }
        let slot = self.shaper.slot(report, key, instance);
        self.template.number(self.sample, start..end, value, slot, self.shaper);
    }

    /// Handles a string that is no instance: a part of the time, or skipped.
    fn text(&mut self, report: &str, key: &str, length: usize) {
        let part = match (report, key) {
            ("timestamp", key) => part(key),
            ("", "timestamp") => StampPart::Whole,
            _ => return,
        };
        let end = self.scanner.position - 1;
        self.stamp.push((part, end - length..end));
        self.template.hole(self.sample, end - length..end, TemplateHole::Time(part));
    }
}

/// Finds the start of the number that ends here.
fn number_start(sample: &[u8], end: usize) -> usize {
    let is_outside = |b: &u8| matches!(b, b' ' | b':' | b'\t' | b'\n' | b'\r');
    sample[..end].iter().rposition(is_outside).map_or(0, |index| index + 1)
}

fn part(key: &str) -> StampPart {
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
fn below(report: &str, key: &str) -> String {
    let reports = Reports::builtin();
    let is_part = reports.by_key(report).is_some() && reports.by_key(key).is_none();
    if is_part { report.to_owned() } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (Result<usize, TokenStop>, Shaper, Vec<(StampPart, String)>) {
        let (mut row, mut template, mut stamp) = (Shaper::new(), Template::default(), Stamp::new());
        let end = read(text.as_bytes(), &mut row, &mut template, &mut stamp);
        let said = stamp.iter().map(|(part, range)| (*part, text[range.clone()].to_owned())).collect();
        (end, row, said)
    }

    #[test]
    fn values_find_their_columns_by_key() {
        let text = r#"{"timestamp": {"date": "2026-11-21", "time": "19:05:46", "utc": 1, "interval": 1},
            "io": {"tps": 5.00, "io-reads": {"rtps": 6.00}},
            "disk": [{"disk-device": "vda", "tps": 1202.00, "await": 0.12, "aqu-sz": 0.15}],
            "power-management": {"battery": [{"number": 0, "percent-capacity": 75, "status": "Full"}]},
            "network": {"net-dev": [{"iface": "lo", "rxkB": 2.00}]}} , {"#;
        let (end, mut shaper, said) = read_all(text);
        assert_eq!(end, Ok(text.len() - 4));
        let mut value = |report: &str, name: &str, instance: &str| {
            let slot = shaper.slot(report, name, instance).unwrap();
            shaper.row[slot.column as usize]
        };
        assert_eq!(value("io", "rtps", ""), 6.0);
        assert_eq!(value("disk", "await", "vda"), 0.12);
        assert_eq!(value("net-dev", "rxkB", "lo"), 2.0);
        assert_eq!(value("battery", "percent-capacity", "0"), 75.0);
        assert_eq!(said[0], (StampPart::Date, "2026-11-21".into()));
        assert_eq!(said[2], (StampPart::Utc, "1".into()));
    }

    #[test]
    fn broken_samples_are_told_apart_from_short_ones() {
        let whole = r#"{"disk": [{"disk-device": "a", "tps": 1.0}]}"#;
        for cut in 0..whole.len() {
            assert_eq!(read_all(&whole[..cut]).0, Err(TokenStop::More), "{cut}");
        }
        for wrong in ["[", "{]", "{\"a\" 1}", "{\"a\": }", "{\"a\": [:]}", "{1: 2}"] {
            assert!(matches!(read_all(wrong).0, Err(TokenStop::Wrong(..))), "{wrong}");
        }
        let deep = "{\"a\":".repeat(100_000);
        assert!(matches!(read_all(&deep).0, Err(TokenStop::Wrong(..))));
    }
}
