//! Dates and times as sysstat's tools print them, in the form of every locale.

use diskwright_base::timestamp::day_number;

use super::calendar;
pub use crate::time_basis::{DAY_S, MAX_TIME_S};

/// First and last year whose times are read; counted in nanoseconds since 1970, time ends in 2262.
pub const MIN_YEAR: u32 = 1970;
pub const MAX_YEAR: u32 = 2199;

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Year with its century.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Date {
    /// Returns a date that exists; years of two digits are those from 1970 on.
    pub fn from_ymd(year: u32, month: u32, day: u32) -> Option<Date> {
        let year = match year {
            0..=69 => 2000 + year,
            70..=99 => 1900 + year,
            MIN_YEAR..=MAX_YEAR => year,
            _ => return None,
        };
        day_number(year as i32, month, day).map(|_| Date { year: year as i32, month, day })
    }

    /// Number of days since 1970-01-01.
    pub fn days_since_epoch(self) -> i64 {
        day_number(self.year, self.month, self.day).unwrap_or_default()
    }
}

/// Order of a numeric date that could be read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericDateOrder {
    /// `11/21/26`: C and American locales.
    MonthFirst,
    /// `21/11/2026`: most others.
    DayFirst,
}

/// A date, and whether its order was guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDate {
    /// The date.
    pub date: Date,
    /// Set if day and month could be swapped.
    pub is_guess: bool,
}

/// Parses `2026-11-21`, `11/21/26`, `21.11.2026`, `2026年11月21日`, `Sat 21 Nov 2026`. `order` is the order that the rest
/// of the log suggests, for a date with slashes that could be read in both ways.
pub fn parse_date(text: &str, order: NumericDateOrder) -> Option<ReadDate> {
    let numbers: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).collect();
    let value = |i: usize| numbers.get(i).and_then(|n| n.parse::<u32>().ok());
    let unambiguous = |date: Option<Date>| date.map(|date| ReadDate { date, is_guess: false });
    if numbers.len() == 2 && text.contains(char::is_alphabetic) {
        return unambiguous(calendar::parse_named_date(text));
    }
    // `0001` is no year of this century
    let is_past = |number: &&str| number.len() >= 4 && number.parse::<u32>().is_ok_and(|year| year < MIN_YEAR);
    if numbers.len() != 3 || numbers.iter().any(is_past) {
        return None;
    }
    let (a, b, c) = (value(0)?, value(1)?, value(2)?);
    if numbers[0].len() == 4 {
        return unambiguous(Date::from_ymd(a, b, c));
    }
    if !text.contains('/') || a > 12 {
        return unambiguous(Date::from_ymd(c, b, a));
    }
    if b > 12 {
        return unambiguous(Date::from_ymd(c, a, b));
    }
    let date = match order {
        NumericDateOrder::MonthFirst => Date::from_ymd(c, a, b),
        NumericDateOrder::DayFirst => Date::from_ymd(c, b, a),
    };
    date.map(|date| ReadDate { date, is_guess: a != b })
}

/// Guesses the order that a slashed date has in the locale that wrote this text: a 12-hour clock is American; a
/// decimal comma or a year of four digits beside a 24-hour clock is not. Without any clock a year of four digits is
/// American: of all locales that write it so, most logs are in that one. Otherwise it is the C locale.
pub fn guess_date_order(head: &str, date: &str) -> NumericDateOrder {
    let has_half_day = head.split_whitespace().take(4000).any(|w| w == "AM" || w == "PM");
    let has_decimal_comma = head.split_whitespace().take(4000).any(|w| {
        let mut parts = w.splitn(2, ',');
        let are_digits = |p: Option<&str>| p.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
        are_digits(parts.next()) && are_digits(parts.next())
    });
    let has_clock = head.split_whitespace().take(4000).any(|w| w.contains(':') && parse_time_of_day(&[w]).is_some());
    let has_long_year = date.split(|c: char| !c.is_ascii_digit()).any(|n| n.len() == 4);
    if !has_half_day && (has_decimal_comma || has_long_year && has_clock) {
        NumericDateOrder::DayFirst
    } else {
        NumericDateOrder::MonthFirst
    }
}

/// Parses a time of day at the beginning of some words into seconds, and the number of words used: `19:05:46`,
/// `07:05:46 PM`, `19时05分46秒`, `19h05m46s`, `오후 07시 05분 46초`, `午後07時05分46秒`.
pub fn parse_time_of_day(words: &[&str]) -> Option<(i64, usize)> {
    let first = words.first()?;
    if first.is_ascii() {
        return parse_clock(words, None);
    }
    let clock_start = first.find(|c: char| c.is_ascii_digit());
    match clock_start {
        // the half of the day stands before the clock
        None => {
            let half = parse_foreign_half(first)?;
            parse_clock(&words[1..], Some(half)).map(|(clock, word_count)| (clock, word_count + 1))
        }
        Some(0) => parse_clock(words, None),
        Some(clock_start) => {
            let half = parse_foreign_half(&first[..clock_start])?;
            parse_clock(&[&first[clock_start..]], Some(half))
        }
    }
}

/// Parses the half of the day in non-Latin scripts only: words such as `md` are also names of devices.
fn parse_foreign_half(word: &str) -> Option<bool> {
    if word.is_ascii() { None } else { calendar::parse_day_half(word) }
}

fn parse_clock(words: &[&str], half: Option<bool>) -> Option<(i64, usize)> {
    let first = words.first()?;
    if !first.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let [hours, minutes, seconds, ..] = words
        && hours.ends_with('시')
        && minutes.ends_with('분')
        && seconds.ends_with('초')
    {
        let joined = [*hours, *minutes, *seconds].concat();
        return parse_clock(&[&joined], half).map(|(clock, _)| (clock, 3));
    }
    let mut parts = first.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let mut parse_part = |max: i64| {
        let text = parts.next().filter(|n| n.len() <= 2)?;
        text.parse::<i64>().ok().filter(|n| *n <= max)
    };
    let (mut hours, minutes, seconds) = (parse_part(23)?, parse_part(59)?, parse_part(60)?);
    if parts.next().is_some() || first.contains(['.', ',']) {
        return None;
    }
    let mut words_used = 1;
    let half = half.or_else(|| {
        let word = words.get(1)?;
        let letters: String = word.chars().filter(|c| c.is_alphabetic()).collect::<String>().to_uppercase();
        let found = match letters.as_str() {
            "AM" => Some(false),
            "PM" => Some(true),
            _ => parse_foreign_half(word),
        };
        words_used += usize::from(found.is_some() && (1..=12).contains(&hours));
        found
    });
    if let Some(half) = half.filter(|_| (1..=12).contains(&hours)) {
        hours = hours % 12 + if half { 12 } else { 0 };
    }
    Some((hours * 3600 + minutes * 60 + seconds, words_used))
}

/// Returns the seconds east of UTC of a zone's name, if the name is unambiguous; `+0530`, `+05:30` and `+03` state
/// it themselves.
pub fn zone_offset_s(name: &str) -> Option<i64> {
    let hours = match name.trim() {
        "UTC" | "GMT" | "Z" | "WET" | "UCT" => 0,
        "CET" | "WEST" | "BST" => 1,
        "CEST" | "EET" => 2,
        "EEST" | "MSK" => 3,
        "JST" | "KST" => 9,
        "AEST" => 10,
        "AEDT" => 11,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        other => return parse_numeric_zone(other),
    };
    Some(hours * 3600)
}

fn parse_numeric_zone(name: &str) -> Option<i64> {
    let (sign, rest) = match name.as_bytes().first()? {
        b'+' => (1, &name[1..]),
        b'-' => (-1, &name[1..]),
        _ => return None,
    };
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    let number: i64 = digits.parse().ok()?;
    let (hours, minutes) = match digits.len() {
        2 => (number, 0),
        4 => (number / 100, number % 100),
        _ => return None,
    };
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Parses a date with its time: `2026-11-21T19:05:55+0000` or `11/21/26 07:05:55 PM`. Returns seconds since 1970 as the
/// clock shows them, the zone's offset if it is given, and whether the date's order was guessed.
pub fn parse_moment(text: &str, order: NumericDateOrder) -> Option<(i64, Option<i64>, bool)> {
    let text = text.trim();
    let is_iso = text.as_bytes().get(10) == Some(&b'T') && text.is_char_boundary(10);
    if is_iso {
        let read = parse_date(&text[..10], order)?;
        let rest = &text[11..];
        let end = rest.find(['+', '-', 'Z']).unwrap_or(rest.len());
        let (clock, _) = parse_time_of_day(&[&rest[..end]])?;
        return Some((read.date.days_since_epoch() * DAY_S + clock, zone_offset_s(&rest[end..]), false));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let position = (0..words.len()).find(|&i| i > 0 && parse_time_of_day(&words[i..]).is_some())?;
    let read = parse_date(&words[..position].join(" "), order)?;
    let (clock, _) = parse_time_of_day(&words[position..])?;
    Some((read.date.days_since_epoch() * DAY_S + clock, None, read.is_guess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_dates_of_all_locales() {
        let day = Date { year: 2026, month: 11, day: 21 };
        let all = ["2026-11-21", "11/21/26", "11/21/2026", "21/11/2026", "21.11.2026", "21-11-26", "2026年11月21日"];
        for text in all.into_iter().chain(["Sat 21 Nov 2026", "November 21, 2026", "2026/11/21"]) {
            let read = parse_date(text, NumericDateOrder::MonthFirst);
            assert_eq!(read, Some(ReadDate { date: day, is_guess: false }), "{text}");
        }
        let read = |order| parse_date("04/05/2019", order).unwrap();
        assert_eq!(
            (read(NumericDateOrder::MonthFirst).date.month, read(NumericDateOrder::DayFirst).date.month),
            (4, 5)
        );
        assert!(read(NumericDateOrder::DayFirst).is_guess);
        for wrong in [
            "0001-01-01",
            "9999-12-31",
            "2200-01-01",
            "1/1/0026",
            "",
            "x",
            "13/13/13",
            "1-2",
            "99999-1-1",
            "2026-00-10",
            "4294967296/1/1",
        ] {
            assert_eq!(parse_date(wrong, NumericDateOrder::MonthFirst), None, "{wrong}");
        }
    }

    #[test]
    fn days_are_counted_as_unix_does() {
        let days = |year, month, day| Date { year, month, day }.days_since_epoch();
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(2026, 11, 21)), (0, 11_017, 20_778));
        assert_eq!(days(2024, 2, 29) + 1, days(2024, 3, 1));
    }

    #[test]
    fn guesses_the_locale_by_its_clock_and_comma() {
        assert_eq!(guess_date_order("01:20:09 PM CPU", "04/05/2019"), NumericDateOrder::MonthFirst);
        assert_eq!(guess_date_order("13:20:09 CPU", "04/05/2019"), NumericDateOrder::DayFirst);
        assert_eq!(guess_date_order("13:20:09 CPU", "04/05/19"), NumericDateOrder::MonthFirst);
        assert_eq!(guess_date_order("13:20:09 all 0,50", "04/05/19"), NumericDateOrder::DayFirst);
    }

    #[test]
    fn parses_times_of_all_locales() {
        let parse = |text: &str| parse_time_of_day(&text.split(' ').collect::<Vec<_>>());
        assert_eq!(parse("19:05:46 all"), Some((68_746, 1)));
        assert_eq!(parse("07:05:46 PM all"), Some((68_746, 2)));
        assert_eq!(parse("12:00:01 AM"), Some((1, 2)));
        assert_eq!(parse("12:00:01 p.m."), Some((43_201, 2)));
        assert_eq!(parse("19时05分46秒 CPU"), Some((68_746, 1)));
        assert_eq!(parse("20時45分12秒 CPU"), Some((74_712, 1)));
        assert_eq!(parse("午後08時45分12秒 CPU"), Some((74_712, 1)));
        assert_eq!(parse("下午 08时45分12秒 CPU"), Some((74_712, 2)));
        assert_eq!(parse("오후 08시 45분 12초 CPU"), Some((74_712, 4)));
        assert_eq!(parse("20시 45분 12초 CPU"), Some((74_712, 3)));
        assert_eq!(parse("08:45:12 μμ CPU"), Some((74_712, 2)));
        // a disk, and no half of a day
        assert_eq!(parse("08:45:12 md 1"), Some((31_512, 1)));
        for wrong in ["Average:", "24:00:00", "1:2", "1.5", "sda", "12:13:14:15", "12.13.14"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parses_the_zone_of_a_moment() {
        let parse = |text: &str| parse_moment(text, NumericDateOrder::MonthFirst);
        let clock = 20_778 * DAY_S + 68_755;
        assert_eq!(parse("2026-11-21T19:05:55+0000"), Some((clock, Some(0), false)));
        assert_eq!(parse("2026-11-21T19:05:55-03:30"), Some((clock, Some(-12_600), false)));
        assert_eq!(parse("11/21/26 19:05:55"), Some((clock, None, false)));
        assert_eq!(parse("21.11.2026 19:05:55"), Some((clock, None, false)));
        assert_eq!(parse("11/21/2026 07:05:55 PM"), Some((clock, None, false)));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(
            (zone_offset_s("CEST"), zone_offset_s("IST"), zone_offset_s("-03")),
            (Some(7200), None, Some(-10_800))
        );
        // both halves of a year are known, or neither
        assert_eq!(
            (zone_offset_s("BST"), zone_offset_s("AEDT"), zone_offset_s("NZDT")),
            (Some(3600), Some(39_600), zone_offset_s("NZST"))
        );
    }
}
