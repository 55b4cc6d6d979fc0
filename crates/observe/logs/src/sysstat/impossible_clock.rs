//! Times whose year no machine of today can have: clocks that were never set, or broken ones. Such a time is no time;
//! the reports below it are counted, and the reader tells so.

use super::calendar;
use super::time::{MAX_YEAR, MIN_YEAR, NumericDateOrder};
use crate::skips::UNUSABLE_CLOCK;

/// Longest text that can be a time.
const MAX_TIME_BYTES: usize = 100;

/// Returns true for a text that would be a date with time if its year were possible.
pub(crate) fn has_impossible_year(text: &str) -> bool {
    if text.len() > MAX_TIME_BYTES || !text.is_ascii() || !has_clock(text) {
        return false;
    }
    let Some((from, until)) = find_impossible_year(text) else { return false };
    // a weekday fits some of these years
    let last = if text.contains(|c: char| c.is_ascii_alphabetic()) { 2011 } else { 2000 };
    (2000..=last).any(|year| {
        let possible = format!("{}{year}{}", &text[..from], &text[until..]);
        calendar::parse_moment(&possible, NumericDateOrder::MonthFirst).is_some()
    })
}

/// Returns why a line is left out.
pub(crate) fn skip_reason<'a>(line: &str, otherwise: &'a str) -> &'a str {
    if has_impossible_year(line) { UNUSABLE_CLOCK } else { otherwise }
}

/// Returns true if a text holds `17:32:32`.
fn has_clock(text: &str) -> bool {
    text.as_bytes().windows(6).any(|six| six[0] == b':' && six[3] == b':' && six[1].is_ascii_digit())
}

/// Finds the number of four or more digits that stands where a year does, and is none.
fn find_impossible_year(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(begin) = text[from..].find(|c: char| c.is_ascii_digit()).map(|place| from + place) {
        let end = text[begin..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| begin + length);
        let is_apart = begin == 0 || text[..begin].ends_with([' ', '/', '.', '*']);
        let is_closed = end == text.len() || text[end..].starts_with([' ', '-', '/', '.', '*']);
        let is_possible = text[begin..end].parse::<u32>().is_ok_and(|year| (MIN_YEAR..=MAX_YEAR).contains(&year));
        if end - begin >= 4 && is_apart && is_closed && !is_possible {
            return Some((begin, end));
        }
        from = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_years_are_known() {
        for (text, is_impossible) in [
            ("0001-11-21 10:00:00", true),
            ("9999-11-21 10:00:00", true),
            ("2263-11-21T10:00:00+0100", true),
            ("11/21/9999 10:00:00", true),
            ("Sat Nov 21 10:00:00 UTC 292277026596", true),
            ("zzz ***Sat Nov 21 10:00:00 UTC 1901", true),
            ("2026-11-21 10:00:00", false),
            ("2026-11-21 10:00:00 +0530", false),
            ("10:00:00 sda 9999 1.00", false),
            ("10:00:00 db1 sshd[12345]: Failed password", false),
            ("9999", false),
        ] {
            assert_eq!(has_impossible_year(text), is_impossible, "{text}");
        }
    }
}
