//! Times before each line, as `ts`, loggers of terminals and chats put them there. They are the times of the reports
//! behind them.

use diskwright_base::timestamp;

use crate::stamp_line::{StampLine, parse_stamp};
use crate::sysstat::impossible_clock::has_impossible_year;
use crate::sysstat::time::{DAY_S, NumericDateOrder};

/// Most words that a time before a line takes.
const MAX_STAMP_WORDS: usize = 4;
/// Smallest number of lines with a time that show that each has one.
const MIN_TIMED_LINES: usize = 3;
/// Part of the lines, percent, that must have one.
const MIN_TIMED_PERCENT: usize = 80;

/// Time before a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LineTime {
    /// Seconds since 1970 as the clock showed them; in 1970 if there was no date.
    pub local_s: i64,
    /// Offset from UTC, seconds, if the time has one.
    pub offset_s: Option<i64>,
}

impl LineTime {
    /// Text of a date and time that every reader parses.
    pub fn to_text(self) -> String {
        let day = timestamp::format_day(self.local_s.div_euclid(DAY_S));
        let clock = self.local_s.rem_euclid(DAY_S);
        let [hour, minute, second] = [clock / 3600, clock / 60 % 60, clock % 60];
        let zone = self.offset_s.map_or_else(String::new, |offset_s| {
            let sign = if offset_s < 0 { '-' } else { '+' };
            format!(" {sign}{:02}{:02}", offset_s.abs() / 3600, offset_s.abs() / 60 % 60)
        });
        format!("{day} {hour:02}:{minute:02}:{second:02}{zone}")
    }
}

/// Takes the times before lines away, if almost all lines have one and something else behind it, and returns them;
/// `None` if the lines have none. Times of a clock that cannot be used are taken away and not returned.
pub(super) fn split_line_times(lines: &mut [(usize, String)]) -> Option<Vec<Option<LineTime>>> {
    let mut word_count = None;
    let split: Vec<Option<(Option<StampLine>, String)>> = lines
        .iter()
        .map(|(_, line)| split_time(line, &mut word_count).map(|(stamp, rest)| (stamp, rest.to_owned())))
        .collect();
    let filled = lines.iter().filter(|(_, line)| !line.trim().is_empty()).count();
    let timed = split.iter().flatten().count();
    let has_content = split.iter().flatten().any(|(_, rest)| !rest.trim().is_empty());
    if timed < MIN_TIMED_LINES || timed * 100 < filled * MIN_TIMED_PERCENT || !has_content {
        return None;
    }
    let (mut days, mut last_s) = (0, None::<i64>);
    let mut times = Vec::new();
    for ((_, line), split) in lines.iter_mut().zip(split) {
        let stamp = split.and_then(|(stamp, rest)| {
            *line = rest;
            stamp
        });
        let Some(stamp) = stamp else {
            times.push(None);
            continue;
        };
        let mut local_s = stamp.local_s + days * DAY_S;
        if stamp.has_no_date && last_s.is_some_and(|last| local_s + DAY_S / 2 < last) {
            days += 1;
            local_s += DAY_S;
        }
        last_s = Some(local_s);
        times.push(Some(LineTime { local_s, offset_s: stamp.zone.offset_s() }));
    }
    Some(times)
}

/// Splits the time off a line's beginning; the time is missing if its year is impossible. `word_count` is the number of
/// words that the last time took: most lines of a text have the same form.
fn split_time<'l>(line: &'l str, word_count: &mut Option<usize>) -> Option<(Option<StampLine>, &'l str)> {
    let trimmed = line.trim_start();
    if !trimmed.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '[' | '(' | '<')) {
        return None;
    }
    let close = match trimmed.as_bytes().first()? {
        b'[' => Some(']'),
        b'(' => Some(')'),
        b'<' => Some('>'),
        _ => None,
    };
    if let Some(close) = close {
        let (inner, rest) = trimmed[1..].split_once(close)?;
        let stamp = parse_time(inner)?;
        return Some((stamp, rest.strip_prefix(' ').unwrap_or(rest)));
    }
    let ends = trimmed.char_indices().filter(|(_, c)| *c == ' ' || *c == '\t').map(|(index, _)| index);
    let mut ends: Vec<usize> = ends.take(MAX_STAMP_WORDS + 2).collect();
    ends.push(trimmed.len());
    // the longest beginning that is a time: `10:00:00` would leave the half of the day behind
    // a short number behind a clock is the first cell of a row
    let is_cell = |word: &str| word.len() < 4 && word.bytes().all(|b| b.is_ascii_digit());
    let may_be_time = |end: &&usize| {
        let text = &trimmed[..**end];
        !text.ends_with([' ', '\t']) && !text.rsplit_once([' ', '\t']).is_some_and(|(_, last)| is_cell(last))
    };
    // before a clock stands no time
    if !trimmed.is_ascii() || has_clock(&trimmed[..ends[ends.len() - 1]]) || trimmed.starts_with('1') {
        let usual = word_count.and_then(|count| Some((count, ends.get(count)?)));
        let others = ends.iter().enumerate().rev();
        let mut all = usual.into_iter().chain(others).filter(|(_, end)| may_be_time(end));
        return all.find_map(|(count, end)| {
            let stamp = parse_time(trimmed[..*end].trim_end_matches([':', '|']))?;
            *word_count = Some(count);
            let rest = &trimmed[*end..];
            let rest = rest.strip_prefix([' ', '\t']).unwrap_or(rest);
            Some((stamp, rest.strip_prefix("| ").unwrap_or(rest)))
        });
    }
    None
}

/// True for a text with a digit, a colon and two digits, or another sign of a clock.
pub(super) fn has_clock(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| {
        four[0].is_ascii_digit()
            && matches!(four[1], b':' | b'.' | b'h')
            && four[2].is_ascii_digit()
            && four[3].is_ascii_digit()
    })
}

/// Parses a time; the inner value is missing if its year is impossible.
fn parse_time(text: &str) -> Option<Option<StampLine>> {
    let text = text.trim();
    if !text.contains(':') && text.split(['.', ',']).next().is_none_or(|number| number.len() < 10) {
        return None;
    }
    match parse_possible_time(text) {
        Some(stamp) => Some(Some(stamp)),
        None => has_impossible_year(text).then_some(None),
    }
}

/// Parses a time, also without a year (`Nov 21 10:00:00`) and with a date in one word (`20261121 10:00:00.5`).
fn parse_possible_time(text: &str) -> Option<StampLine> {
    if let Some(stamp) = parse_stamp(text, NumericDateOrder::MonthFirst) {
        return Some(stamp);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [month, day, clock] if month.starts_with(char::is_alphabetic) => {
            parse_stamp(&format!("{month} {day} {clock} 1970"), NumericDateOrder::MonthFirst)
        }
        [date, clock] if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => {
            let text = format!("{}-{}-{} {clock}", &date[..4], &date[4..6], &date[6..]);
            parse_stamp(&text, NumericDateOrder::MonthFirst)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_times_before_lines() {
        for (line, text, rest) in [
            ("[18:01:12]  0 1", "1970-01-01 18:01:12", " 0 1"),
            ("2026-11-23 17:32:32  0 1", "2026-11-23 17:32:32", " 0 1"),
            ("2026-11-23T17:32:32+0000 0 1", "2026-11-23 17:32:32", "0 1"),
            ("Nov 23 17:32:32 sda 1", "1970-11-23 17:32:32", "sda 1"),
            ("[20261123 17:32:32.538] sda 1", "2026-11-23 17:32:32", "sda 1"),
            ("Nov 23 17:32:32  1  7 0 5", "1970-11-23 17:32:32", " 1  7 0 5"),
            ("17:32:32\tsda 1", "1970-01-01 17:32:32", "sda 1"),
            ("05:32:32 PM sda 1", "1970-01-01 17:32:32", "sda 1"),
            ("1795455152.25 sda 1", "2026-11-23 17:32:32", "sda 1"),
            ("17:32:32 | sda 1", "1970-01-01 17:32:32", "sda 1"),
        ] {
            let (stamp, found) = split_time(line, &mut None).unwrap_or_else(|| panic!("{line}"));
            let time = LineTime { local_s: stamp.expect("a possible time").local_s, offset_s: None };
            assert_eq!((time.to_text().as_str(), found), (text, rest), "{line}");
        }
        for line in ["sda 1 2 3", " 0 1 2", "top - 17:32:32 up", "", "[12345.678] sd 0:0:0:0", "17:32"] {
            assert!(split_time(line, &mut None).is_none(), "{line}");
        }
    }

    #[test]
    fn a_clock_passes_midnight() {
        let mut lines: Vec<(usize, String)> =
            ["23:59:58 a", "23:59:59 b", "00:00:01 c"].map(|line| (1, line.to_owned())).into();
        let times = split_line_times(&mut lines).unwrap();
        let times: Vec<i64> = times.into_iter().flatten().map(|time| time.local_s).collect();
        assert_eq!(times, [86_398, 86_399, 86_401]);
        assert_eq!(lines[2].1, "c");
    }
}
