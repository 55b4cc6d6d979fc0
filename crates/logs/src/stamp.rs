//! Lines that bear nothing but a time, as people put them between the dumps of a
//! loop: whatever `date` prints, seconds since 1970, or a line that a collector
//! puts around either (`zzz ***Mon Apr 17 14:00:00 BST 2017`).

use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time::{self, DAY, NumericDateOrder};

/// A time that a line bears.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StampLine {
    /// Seconds since 1970 as its clock shows them; of a day in 1970 where no date stands there.
    pub local_s: i64,
    /// Nanoseconds of its second.
    pub ns: i64,
    pub zone: ZoneHint,
    /// No date stands beside the time of day.
    pub is_of_no_day: bool,
}

/// Months as `date` abbreviates them in other languages, where they differ from English.
const MONTHS: &[(&str, &str)] = &[
    ("mär", "mar"),
    ("mrz", "mar"),
    ("mai", "may"),
    ("okt", "oct"),
    ("dez", "dec"),
    ("janv", "jan"),
    ("févr", "feb"),
    ("mars", "mar"),
    ("avr", "apr"),
    ("juin", "jun"),
    ("juil", "jul"),
    ("août", "aug"),
    ("déc", "dec"),
    ("ene", "jan"),
    ("abr", "apr"),
    ("ago", "aug"),
    ("dic", "dec"),
    ("gen", "jan"),
    ("mag", "may"),
    ("giu", "jun"),
    ("lug", "jul"),
    ("set", "sep"),
    ("ott", "oct"),
    ("out", "oct"),
    ("fev", "feb"),
];

/// Words that collectors put before a time.
const BEFORE: &[&str] = &["zzz", "date", "time", "timestamp", "ts", "t", "at", "sample", "snapshot", "begin", "start"];
/// A longer line is no time.
const LONGEST: usize = 120;

/// The time of a line that bears nothing else; `None` for other lines.
pub(crate) fn stamp(line: &str, order: NumericDateOrder) -> Option<StampLine> {
    if line.len() > LONGEST || !line.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    // most lines of a log are rows of numbers
    if line.is_ascii() && !line.contains(':') && line.split_ascii_whitespace().nth(3).is_some() {
        return None;
    }
    let is_rim = |c: char| matches!(c, '*' | '#' | '=' | '-' | '>' | '<' | '[' | ']' | '"' | '\'' | '|');
    let mut text = line.trim().trim_matches(|c: char| is_rim(c) || c.is_whitespace());
    while let Some(word) = text.split(|c: char| c.is_whitespace() || c == ':' || c == '=').next()
        && BEFORE.contains(&word.to_ascii_lowercase().as_str())
    {
        text = text[word.len()..].trim_start_matches(|c: char| is_rim(c) || c.is_whitespace() || c == ':');
    }
    since_1970(text).or_else(|| iso(text, order)).or_else(|| of_words(text, order))
}

/// `1795287946`, with decimals, or in milli-, micro- or nanoseconds.
fn since_1970(text: &str) -> Option<StampLine> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 || (text.contains('.') && decimals.is_empty()) {
        return None;
    }
    // from 1973 to 2286, so that no counter of a few digits is taken for a time
    let scale = match whole.len() {
        9 | 10 => 1,
        13 if decimals.is_empty() => 1_000,
        16 if decimals.is_empty() => 1_000_000,
        19 if decimals.is_empty() => 1_000_000_000,
        _ => return None,
    };
    let number: i64 = whole.parse().ok()?;
    let fraction: i64 = format!("{decimals:0<9}").parse().ok()?;
    let ns = if scale == 1 { fraction } else { (number % scale) * (1_000_000_000 / scale) };
    Some(StampLine { local_s: number / scale, ns, zone: ZoneHint::Offset(0), is_of_no_day: false })
}

/// `2026-11-23T17:32:32+01:00`, `2026-11-23T17:32:32,123456789+00:00`.
fn iso(text: &str, order: NumericDateOrder) -> Option<StampLine> {
    if text.contains(char::is_whitespace) || text.as_bytes().get(10) != Some(&b'T') || !text.is_char_boundary(10) {
        return None;
    }
    let (clock, ns) = without_fraction(&text[11..]);
    let (local_s, zone, _) = time::moment(&format!("{}T{clock}", &text[..10]), order)?;
    Some(StampLine { local_s, ns, zone: zone.map_or(ZoneHint::Nothing, ZoneHint::Offset), is_of_no_day: false })
}

/// A time of day without its fraction, which is given in nanoseconds.
fn without_fraction(clock: &str) -> (String, i64) {
    let Some(at) = clock.find(['.', ',']) else { return (clock.to_owned(), 0) };
    let digits: String = clock[at + 1..].chars().take_while(char::is_ascii_digit).collect();
    let ns = if digits.is_empty() || digits.len() > 9 { None } else { format!("{digits:0<9}").parse().ok() };
    match ns {
        Some(ns) => (format!("{}{}", &clock[..at], &clock[at + 1 + digits.len()..]), ns),
        None => (clock.to_owned(), 0),
    }
}

/// `Mon Nov 23 17:32:32 UTC 2026`, `Mo 23. Nov 17:32:32 CET 2026`, `23.11.2026 17:32:32`,
/// `11/23/26 05:32:32 PM`, `2026年 11月 23日 星期一 17:32:32 CST`, `17:32:32`.
fn of_words(text: &str, order: NumericDateOrder) -> Option<StampLine> {
    let plain: Vec<(String, i64)> = text
        .split_whitespace()
        .map(|word| match word.contains(':') {
            true => without_fraction(word.trim_end_matches(',')),
            false => (word.to_owned(), 0),
        })
        .collect();
    let words: Vec<&str> = plain.iter().map(|(word, _)| word.as_str()).collect();
    if words.is_empty() || words.len() > 9 {
        return None;
    }
    let is_clock = |at: usize| {
        (words[at].contains(':') || words[at].contains('时') || words[at].contains('時'))
            && time::time_of_day(&words[at..]).is_some()
    };
    let at = (0..words.len()).find(|at| is_clock(*at))?;
    let (clock, taken) = time::time_of_day(&words[at..])?;
    let ns = plain[at].1;
    let (mut date, mut zone) = (Vec::new(), ZoneHint::Nothing);
    for (place, word) in words.iter().enumerate() {
        let is_behind = place >= at + taken;
        if (at..at + taken).contains(&place) {
            continue;
        }
        let is_zone = is_behind && !word.bytes().all(|b| b.is_ascii_digit()) && !is_month(word) && !is_weekday(word);
        if is_zone && zone == ZoneHint::Nothing && is_zone_name(word) {
            zone = time::zone(word).map_or_else(|| ZoneHint::Name((*word).to_owned()), ZoneHint::Offset);
        } else {
            date.push(in_english(word));
        }
    }
    if date.is_empty() {
        let of_day = words.len() == taken + usize::from(zone != ZoneHint::Nothing);
        return of_day.then_some(StampLine { local_s: clock, ns, zone, is_of_no_day: true });
    }
    // `mar.` is a Tuesday too
    if date.iter().filter(|word| is_month(word)).count() > 1 {
        date.remove(0);
    }
    // a date has two or three numbers, one of them a year, and no other number beside
    let numbers = date.iter().filter(|word| word.bytes().any(|b| b.is_ascii_digit())).count();
    let named = date
        .iter()
        .all(|word| word.bytes().any(|b| b.is_ascii_digit()) || is_month(word) || is_weekday(word) || !word.is_ascii());
    if numbers > 3 || !named {
        return None;
    }
    let read = time::date(&date.join(" "), order)?;
    Some(StampLine { local_s: read.date.days() * DAY + clock, ns, zone, is_of_no_day: false })
}

fn is_zone_name(word: &str) -> bool {
    let letters = word.len() >= 2 && word.len() <= 5 && word.bytes().all(|b| b.is_ascii_uppercase());
    letters || word == "Z" || word.starts_with(['+', '-'])
}

/// A word in small letters without the point that some languages put behind it.
fn bare(word: &str) -> String {
    word.trim_end_matches(['.', ',']).to_lowercase()
}

fn in_english(word: &str) -> String {
    let small = bare(word);
    MONTHS.iter().find(|(own, _)| *own == small).map_or_else(|| word.to_owned(), |(_, month)| (*month).to_owned())
}

fn is_month(word: &str) -> bool {
    const ENGLISH: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let small = bare(&in_english(word));
    small.len() <= 9
        && ENGLISH.iter().any(|month| small.starts_with(month))
        && small.bytes().all(|b| b.is_ascii_lowercase())
}

/// Days of the week need not be known: they are short words of letters.
fn is_weekday(word: &str) -> bool {
    const KNOWN: &[&str] = &[
        "mon", "tue", "wed", "thu", "fri", "sat", "sun", "mo", "di", "mi", "do", "fr", "sa", "so", "lun", "mar", "mer",
        "jeu", "ven", "sam", "dim", "mié", "mie", "jue", "vie", "sáb", "sab", "dom", "gio", "seg", "ter", "qua", "qui",
        "sex",
    ];
    let small = bare(word);
    let long = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    KNOWN.contains(&small.as_str()) || long.contains(&small.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<(i64, i64, ZoneHint)> {
        stamp(text, NumericDateOrder::MonthFirst).map(|s| (s.local_s, s.ns, s.zone))
    }

    #[test]
    fn whatever_date_prints() {
        const CLOCK: i64 = 1_795_455_152;
        let utc = || ZoneHint::Offset(0);
        let cet = || ZoneHint::Offset(3600);
        for (text, ns, zone) in [
            ("Mon Nov 23 17:32:32 UTC 2026", 0, utc()),
            ("Mon Nov 23 05:32:32 PM UTC 2026", 0, utc()),
            ("Mon 23 Nov 2026 05:32:32 PM UTC", 0, utc()),
            ("Mon 23 Nov 17:32:32 CET 2026", 0, cet()),
            ("Mo 23. Nov 17:32:32 CET 2026", 0, cet()),
            ("lun. 23 nov. 2026 17:32:32 CET", 0, cet()),
            ("2026年 11月 23日 星期一 17:32:32 CST", 0, ZoneHint::Name("CST".into())),
            ("2026-11-23 17:32:32", 0, ZoneHint::Nothing),
            ("2026-11-23 17:32:32.250", 250_000_000, ZoneHint::Nothing),
            ("2026-11-23 17:32:32 +0100", 0, cet()),
            ("2026-11-23T17:32:32+01:00", 0, cet()),
            ("2026-11-23T17:32:32,5+01:00", 500_000_000, cet()),
            ("2026-11-23T17:32:32Z", 0, utc()),
            ("Mon, 23 Nov 2026 17:32:32 +0100", 0, cet()),
            ("11/23/26 17:32:32", 0, ZoneHint::Nothing),
            ("23.11.2026 17:32:32", 0, ZoneHint::Nothing),
            ("1795455152", 0, utc()),
            ("1795455152.000000001", 1, utc()),
            ("1795455152004", 4_000_000, utc()),
            ("1795455152000000004", 4, utc()),
            ("zzz ***Mon Nov 23 17:32:32 UTC 2026", 0, utc()),
            ("zzz <11/23/2026 17:32:32>", 0, ZoneHint::Nothing),
            ("### 2026-11-23 17:32:32 ###", 0, ZoneHint::Nothing),
            ("date: 2026-11-23 17:32:32", 0, ZoneHint::Nothing),
            ("ts=1795455152", 0, utc()),
        ] {
            assert_eq!(at(text), Some((CLOCK, ns, zone)), "{text}");
        }
        let may = at("Di 5. Mai 10:00:00 CEST 2026").expect("German").0;
        assert_eq!(Some(may), at("2026-05-05 10:00:00").map(|s| s.0));
        assert_eq!(at("mar. 3 août 2027 10:00:00").map(|s| s.0), at("2027-08-03 10:00:00").map(|s| s.0));
    }

    #[test]
    fn a_clock_alone_has_no_day() {
        for text in ["17:32:32", "05:32:32 PM", "17:32:32 UTC", "time: 17:32:32"] {
            let found = stamp(text, NumericDateOrder::MonthFirst).expect(text);
            assert_eq!((found.local_s, found.is_of_no_day), (63_152, true), "{text}");
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
            assert_eq!(at(text), None, "{text}");
        }
    }
}
