//! Lines that hold only a time, as people put them between the dumps of a loop: the output of `date` in any form,
//! seconds since 1970, a time of day, or a line that a collector puts around either (`zzz ***Mon Apr 17 14:00:00 BST
//! 2017`).

use crate::sysstat::calendar;
use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time::{self, NumericDateOrder};

/// Time that a line holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StampLine {
    /// Seconds since 1970 as its clock shows them; a time on 1970-01-01 if the line has no date.
    pub local_s: i64,
    /// Fraction of the second, nanoseconds.
    pub fraction_ns: i64,
    /// Zone that the line names.
    pub zone: ZoneHint,
    /// Set if the line gives a time of day without a date.
    pub has_no_date: bool,
}

/// Longest line that can be a time.
const MAX_LINE_BYTES: usize = 200;

/// Parses a line that holds only a time; `None` for other lines.
pub(crate) fn parse_stamp(line: &str, order: NumericDateOrder) -> Option<StampLine> {
    if line.len() > MAX_LINE_BYTES || !line.contains(char::is_numeric) {
        return None;
    }
    // rejects rows of numbers early, because most lines of a log are rows of numbers
    if line.is_ascii() && !line.contains(':') && line.split_ascii_whitespace().nth(3).is_some() {
        return None;
    }
    let text = calendar::strip_labels(calendar::strip_counts(line));
    parse_epoch(text).or_else(|| parse_dated_time(text, order)).or_else(|| parse_undated_time(text))
}

/// Parses seconds since 1970, or thousandths of a second and finer.
fn parse_epoch(text: &str) -> Option<StampLine> {
    let (local_s, ns) = calendar::parse_epoch(text)?;
    Some(StampLine { local_s, fraction_ns: ns, zone: ZoneHint::Offset(0), has_no_date: false })
}

/// Parses a date with its clock.
fn parse_dated_time(text: &str, order: NumericDateOrder) -> Option<StampLine> {
    let found = calendar::parse_moment(text, order)?;
    Some(StampLine { local_s: found.local_s, fraction_ns: fraction_ns(text), zone: found.zone, has_no_date: false })
}

/// Parses a time of day without a date, perhaps with its zone.
fn parse_undated_time(text: &str) -> Option<StampLine> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clock_word = words.first()?.split_once(['.', ',']).map_or(words[0], |(clock_word, _)| clock_word);
    let clock: Vec<&str> = std::iter::once(clock_word).chain(words[1..].iter().copied()).collect();
    let (local_s, word_count) = time::parse_time_of_day(&clock)?;
    let zone = match words[word_count..] {
        [] => ZoneHint::Missing,
        [zone] => calendar::parse_zone(zone)?,
        _ => return None,
    };
    Some(StampLine { local_s, fraction_ns: fraction_ns(text), zone, has_no_date: true })
}

/// Parses the fraction of a second behind a clock, nanoseconds.
fn fraction_ns(text: &str) -> i64 {
    let parse_word = |word: &str| {
        // 17:32:32,5+01:00
        let (clock, fraction) = word.rsplit_once(':')?.1.split_once(['.', ','])?;
        let digits: String = fraction.chars().take_while(char::is_ascii_digit).collect();
        let is_second = clock.len() == 2 && (1..=9).contains(&digits.len());
        if is_second { format!("{digits:0<9}").parse().ok() } else { None }
    };
    let seconds = |word: &str| word.find(['+', 'Z']).map_or_else(|| parse_word(word), |end| parse_word(&word[..end]));
    text.split_whitespace().find_map(seconds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(text: &str) -> Option<(i64, i64, ZoneHint)> {
        parse_stamp(text, NumericDateOrder::MonthFirst).map(|s| (s.local_s, s.fraction_ns, s.zone))
    }

    #[test]
    fn parses_all_outputs_of_date() {
        const CLOCK: i64 = 1_795_455_152;
        let utc = || ZoneHint::Offset(0);
        let east = || ZoneHint::Offset(3600);
        let cet = || ZoneHint::Name("CET".into());
        for (text, ns, zone) in [
            ("Mon Nov 23 17:32:32 UTC 2026", 0, utc()),
            ("Mon Nov 23 05:32:32 PM UTC 2026", 0, utc()),
            ("Mon 23 Nov 2026 05:32:32 PM UTC", 0, utc()),
            ("Mon 23 Nov 17:32:32 CET 2026", 0, cet()),
            ("Mo 23. Nov 17:32:32 CET 2026", 0, cet()),
            ("lun. 23 nov. 2026 17:32:32 CET", 0, cet()),
            ("2026年 11月 23日 星期一 17:32:32 CST", 0, ZoneHint::Name("CST".into())),
            ("2026-11-23 17:32:32", 0, ZoneHint::Missing),
            ("2026-11-23 17:32:32.250", 250_000_000, ZoneHint::Missing),
            ("2026-11-23-17:32:32", 0, ZoneHint::Missing),
            ("2026-11-23-17:32:32 +0100", 0, east()),
            ("2026-11-23 17:32:32 +0100", 0, east()),
            ("2026-11-23T17:32:32+01:00", 0, east()),
            ("2026-11-23T17:32:32,5+01:00", 500_000_000, east()),
            ("2026-11-23T17:32:32Z", 0, utc()),
            ("Mon, 23 Nov 2026 17:32:32 +0100", 0, east()),
            ("11/23/26 17:32:32", 0, ZoneHint::Missing),
            ("23.11.2026 17:32:32", 0, ZoneHint::Missing),
            ("1795455152", 0, utc()),
            ("1795455152.000000001", 1, utc()),
            ("1795455152004", 4_000_000, utc()),
            ("1795455152000000004", 4, utc()),
            ("zzz ***Mon Nov 23 17:32:32 UTC 2026", 0, utc()),
            ("zzz <11/23/2026 17:32:32>", 0, ZoneHint::Missing),
            ("zzz <11/23/2026 17:32:32> Count:720", 0, ZoneHint::Missing),
            ("zzz ***Mon Nov 23 17:32:32 UTC 2026 Sample interval: 30 seconds", 0, utc()),
            ("### 2026-11-23 17:32:32 ###", 0, ZoneHint::Missing),
            ("date: 2026-11-23 17:32:32", 0, ZoneHint::Missing),
            ("ts=1795455152", 0, utc()),
        ] {
            assert_eq!(parse_line(text), Some((CLOCK, ns, zone)), "{text}");
        }
        let may = parse_line("Di 5. Mai 10:00:00 CEST 2026").expect("German").0;
        assert_eq!(Some(may), parse_line("2026-05-05 10:00:00").map(|s| s.0));
        assert_eq!(
            parse_line("mar. 3 août 2027 10:00:00").map(|s| s.0),
            parse_line("2027-08-03 10:00:00").map(|s| s.0)
        );
    }

    #[test]
    fn a_clock_alone_has_no_day() {
        for text in ["17:32:32", "05:32:32 PM", "17:32:32 UTC", "time: 17:32:32"] {
            let found = parse_stamp(text, NumericDateOrder::MonthFirst).expect(text);
            assert_eq!((found.local_s, found.has_no_date), (63_152, true), "{text}");
        }
    }

    #[test]
    fn other_lines_are_no_times() {
        for text in [
            "",
            "8 0 sda 1 2 3 4 5 6 7 8 9 10 11",
            "cpu 1 2 3 4",
            "123",
            "0.20 0.18 0.12 1/80 11206",
            "Mon Nov 23",
            "17:32:32 up 3 days, 1 user, load average: 0.1, 0.2, 0.3",
            "top - 17:32:32 up 3 days",
            "root 1 0 17:32:32 init",
            "17:32:32 CPU %user",
            "99999999999999999999",
            "1795455152.",
            "2026-11-23",
            "25:00:00",
        ] {
            assert_eq!(parse_line(text), None, "{text}");
        }
    }
}
