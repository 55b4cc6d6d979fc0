//! Templates of samples. Except for its numbers and its time, the text of a sample equals that of the previous one. A
//! template is that text with holes; if it matches, a sample is read by comparing text and parsing numbers, without
//! any lookup.

use std::ops::Range;

use super::json_scanner::{self, TokenStop};
use super::report_row::{ReportRow, ValueSlot};

/// Content of a hole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TemplateHole {
    /// A number for a column of the row.
    Cell(u32),
    /// A number for a column of the row, multiplied by a factor.
    Scaled(u32, f64),
    /// A number that is not kept.
    Number,
    /// A part of the sample's time: text without a quote in it, or a number.
    Time(StampPart),
}

/// Part of a sample's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampPart {
    /// `"date"`.
    Date,
    /// `"time"`.
    Time,
    /// `"tz"`.
    Zone,
    /// Date and time in one string.
    Whole,
    /// `"utc": 1` (text in XML, so it is read as text).
    Utc,
    /// `"interval"`.
    Interval,
    /// Anything else.
    Other,
}

/// Ranges of the parts of a sample's time in its text.
pub type StampRanges = Vec<(StampPart, Range<usize>)>;

/// A sample's text with holes.
#[derive(Clone, Debug, Default)]
pub struct Template {
    text: Vec<u8>,
    /// End of the text before each hole, and the hole's content.
    holes: Vec<(u32, TemplateHole)>,
    /// Offset in the sample up to which it was learned.
    learned_until: usize,
}

impl Template {
    /// Begins to learn.
    pub fn clear(&mut self) {
        self.text.clear();
        self.holes.clear();
        self.learned_until = 0;
    }

    /// Learns a hole at `range` of the sample.
    pub fn learn_hole(&mut self, sample: &[u8], range: Range<usize>, hole: TemplateHole) {
        debug_assert!(
            self.learned_until <= range.start && range.start <= range.end,
            "a hole at {range:?} follows what was learned up to {}",
            self.learned_until
        );
        self.text.extend_from_slice(&sample[self.learned_until..range.start]);
        // a sample is not larger than the window
        debug_assert!(u32::try_from(self.text.len()).is_ok(), "{} bytes between holes", self.text.len());
        self.holes.push((self.text.len() as u32, hole));
        self.learned_until = range.end;
    }

    /// Learns a number for a slot, and puts it into the row.
    pub fn learn_number(
        &mut self,
        sample: &[u8],
        range: Range<usize>,
        value: f64,
        slot: Option<ValueSlot>,
        row: &mut ReportRow,
    ) {
        let hole = match slot {
            Some(slot) if row.cells[slot.column as usize].is_nan() => {
                row.put_value(slot, value);
                if slot.factor == 1.0 {
                    TemplateHole::Cell(slot.column)
                } else {
                    TemplateHole::Scaled(slot.column, slot.factor)
                }
            }
            _ => TemplateHole::Number,
        };
        self.learn_hole(sample, range, hole);
    }

    /// Ends learning; the sample ends at `end`.
    pub fn finish(&mut self, sample: &[u8], end: usize) {
        self.text.extend_from_slice(&sample[self.learned_until..end]);
    }

    /// Reads a sample at the beginning of `bytes` into the row. `Ok(None)` if the text differs; the row may then
    /// hold some of its values.
    pub fn match_sample(
        &self,
        bytes: &[u8],
        row: &mut [f64],
        stamp: &mut StampRanges,
    ) -> Result<Option<usize>, TokenStop> {
        stamp.clear();
        let mut start = 0;
        let mut literal_start = 0;
        for (end, hole) in &self.holes {
            let literal = &self.text[literal_start..*end as usize];
            literal_start = *end as usize;
            debug_assert!(start <= bytes.len(), "what matched lies within the bytes");
            let Some(found) = bytes.get(start..start + literal.len()) else {
                return compare_prefix(&bytes[start..], literal);
            };
            if found != literal {
                return Ok(None);
            }
            start += literal.len();
            if let TemplateHole::Time(part) = hole {
                let length = bytes[start..].iter().position(|b| matches!(b, b'"' | b',' | b'}' | b'\\'));
                let length = length.ok_or(TokenStop::Incomplete)?;
                stamp.push((*part, start..start + length));
                start += length;
                continue;
            }
            let (value, next) = match json_scanner::scan_number(bytes, start) {
                Ok(found) => found,
                Err(TokenStop::Incomplete) => return Err(TokenStop::Incomplete),
                Err(_) => return Ok(None),
            };
            start = next;
            match *hole {
                TemplateHole::Cell(column) => row[column as usize] = value,
                TemplateHole::Scaled(column, factor) => row[column as usize] = value * factor,
                TemplateHole::Number | TemplateHole::Time(_) => {}
            }
        }
        let literal = &self.text[literal_start..];
        match bytes.get(start..start + literal.len()) {
            Some(found) if found == literal => Ok(Some(start + literal.len())),
            Some(_) => Ok(None),
            None => compare_prefix(&bytes[start..], literal),
        }
    }
}

/// Compares bytes that end within a literal with the literal's beginning.
fn compare_prefix(rest: &[u8], literal: &[u8]) -> Result<Option<usize>, TokenStop> {
    if literal.starts_with(rest) { Err(TokenStop::Incomplete) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Learns `{"t":"12:00","tps": 1.5}` with a column for `tps`.
    fn learned(row: &mut ReportRow) -> Template {
        let sample = br#"{"t":"12:00","tps": 1.5}"#;
        let slot = row.value_slot("disk", "tps", "sda");
        let mut template = Template::default();
        template.learn_hole(sample, 6..11, TemplateHole::Time(StampPart::Time));
        template.learn_number(sample, 20..23, 1.5, slot, row);
        template.finish(sample, sample.len());
        template
    }

    #[test]
    fn reads_samples_that_match_and_rejects_others() {
        let mut report_row = ReportRow::new();
        let template = learned(&mut report_row);
        let mut stamp = StampRanges::new();
        let mut row = [f64::NAN];
        let next = br#"{"t":"12:01","tps": 27}, {"#;
        assert_eq!(template.match_sample(next, &mut row, &mut stamp), Ok(Some(23)));
        assert_eq!((row[0], &next[stamp[0].1.clone()]), (27.0, b"12:01".as_slice()));
        for cut in 0..23 {
            assert_eq!(template.match_sample(&next[..cut], &mut row, &mut stamp), Err(TokenStop::Incomplete), "{cut}");
        }
        for other in [r#"{"t":"12:01","rps": 27}"#, r#"{"t":"12:01","tps": "27"}"#, "[", r#"{"t":"12:01","tps": 2, "#] {
            assert_eq!(template.match_sample(other.as_bytes(), &mut row, &mut stamp), Ok(None), "{other}");
        }
    }
}
