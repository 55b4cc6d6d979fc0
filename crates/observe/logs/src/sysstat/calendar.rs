//! Parser of a date with its time as `date` prints it in any locale: names of months and weekdays, halves of a day
//! before or behind the clock, zones, digits of other scripts.

use std::borrow::Cow;
use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

use super::clock::ZoneHint;
use super::time::{self, DAY_S, Date, NumericDateOrder};

/// A date and time as a log prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalendarTime {
    /// Seconds since 1970 as the clock shows them.
    pub local_s: i64,
    /// Zone beside the time.
    pub zone: ZoneHint,
    /// Set if day and month could be swapped.
    pub is_guess: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalendarFile {
    am: Vec<String>,
    pm: Vec<String>,
    language: Vec<LanguageEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LanguageEntry {
    #[allow(dead_code, reason = "for the reader of the file")]
    id: String,
    #[serde(default)]
    months: String,
    days: String,
}

/// Names in one language.
struct CalendarNames {
    months: Vec<Vec<String>>,
    /// Weekdays, Sunday first.
    days: Vec<Vec<String>>,
}

struct Calendar {
    am: Vec<String>,
    pm: Vec<String>,
    languages: Vec<CalendarNames>,
}

/// Words in dates without a meaning.
const FILLER_WORDS: [&str; 24] = [
    "de",
    "del",
    "den",
    "der",
    "le",
    "el",
    "kl",
    "klo",
    "gada",
    "m",
    "d",
    "n",
    "г",
    "წლის",
    "eko",
    "tháng",
    "thứ",
    "năm",
    "chủ",
    "西元",
    "ساعت",
    "a",
    "at",
    "um",
];
/// Signs for year, month and day, and the same as words.
const DATE_UNITS: [&str; 6] = ["年", "月", "日", "년", "월", "일"];
/// Words that stand before a time in a log.
const TIME_LABELS: [&str; 7] = ["zzz", "time", "date", "timestamp", "datetime", "ts", "now"];

fn builtin_calendar() -> &'static Calendar {
    static BUILTIN: OnceLock<Calendar> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let file: CalendarFile = toml_reader::read_built_in("calendar.toml", include_str!("calendar.toml"));
        let groups = |text: &str| -> Vec<Vec<String>> {
            let names = |group: &str| group.split_whitespace().map(str::to_owned).collect();
            if text.is_empty() { Vec::new() } else { text.split('|').map(names).collect() }
        };
        let names = |l: &LanguageEntry| CalendarNames { months: groups(&l.months), days: groups(&l.days) };
        Calendar { languages: file.language.iter().map(names).collect(), am: file.am, pm: file.pm }
    })
}

/// Parses a line that is a date with time and nothing else, except for signs around it and a label. `order` is the
/// order that the rest of the log suggests for numeric dates.
pub fn parse_moment(text: &str, order: NumericDateOrder) -> Option<CalendarTime> {
    // no date with time is longer, or without a digit
    if text.len() > 200 || !text.contains(|c: char| c.is_numeric()) {
        return None;
    }
    let plain: String = text.chars().filter_map(normalize_letter).collect();
    let text = split_date_and_clock(strip_labels(strip_counts(&plain)));
    let text = &*text;
    if let Some((local, _)) = parse_epoch(text) {
        return Some(CalendarTime { local_s: local, zone: ZoneHint::Offset(0), is_guess: false });
    }
    let words = split_words(text);
    if lacks_day_half(text, &words) {
        return None;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let clock = (0..words.len()).find_map(|index| find_clock(&words, index))?;
    let mut rest = Vec::new();
    let mut zone = clock.zone;
    for (index, word) in words.iter().enumerate().filter(|(index, _)| !clock.words.contains(index)) {
        match parse_zone(word) {
            Some(found) if zone == ZoneHint::Missing && (index > 0 || words.len() > 3) => zone = found,
            _ => rest.push(*word),
        }
    }
    let (date, is_guess) = parse_date(&rest, order)?;
    Some(CalendarTime { local_s: date.days_since_epoch() * DAY_S + clock.seconds, zone, is_guess })
}

/// Puts a blank before the clock of `2026-11-23-17:32:32`, as scripts write it.
fn split_date_and_clock(text: &str) -> Cow<'_, str> {
    let is_date = |date: &str| {
        date.bytes().zip(*b"0000-00-00").all(
            |(byte, like)| {
                if like == b'-' { byte == b'-' } else { byte.is_ascii_digit() }
            },
        )
    };
    match (text.get(..10), text.get(10..).and_then(|rest| rest.strip_prefix('-'))) {
        (Some(date), Some(clock)) if is_date(date) && clock.contains(':') => Cow::Owned(format!("{date} {clock}")),
        _ => Cow::Borrowed(text),
    }
}

/// Returns true if the word for the half of the day is empty: some locales have a clock of twelve hours and no such
/// words, and print two blanks.
fn lacks_day_half(text: &str, words: &[String]) -> bool {
    let is_empty = |word: &&String| {
        let hours = word.split(':').next().and_then(|h| h.parse::<u32>().ok());
        word.matches(':').count() == 2 && hours.is_some_and(|h| h <= 12) && text.contains(&format!("{word}  "))
    };
    words.iter().any(|word| is_empty(&word))
}

/// Converts digits of all scripts to ASCII; `None` for marks of direction.
fn normalize_letter(letter: char) -> Option<char> {
    match letter {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        '٠'..='٩' => char::from_digit(u32::from(letter) - 0x660, 10),
        '۰'..='۹' => char::from_digit(u32::from(letter) - 0x6f0, 10),
        '０'..='９' => char::from_digit(u32::from(letter) - 0xff10, 10),
        '：' => Some(':'),
        '\u{a0}' | '\u{202f}' | '،' | '、' | '，' | '\u{3000}' => Some(' '),
        other => Some(other),
    }
}

/// Strips the count or interval that OSWatcher and ExaWatcher put behind their time.
pub fn strip_counts(text: &str) -> &str {
    let text = text.trim();
    if !text.starts_with("zzz") {
        return text;
    }
    let end = text.find(['>']).or_else(|| text.find(" Sample ")).or_else(|| text.find(" Count:"));
    end.map_or(text, |end| &text[..end])
}

/// Strips signs around the text, words such as `zzz` and `SuiteTime:`, and counts behind it.
pub fn strip_labels(text: &str) -> &str {
    let is_sign = |c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '@' | '+' | ')' | '.');
    let mut text = text.trim_start_matches(is_sign).trim_end_matches(|c| is_sign(c) && c != '-');
    loop {
        let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let is_label = TIME_LABELS.iter().any(|label| text[..end].eq_ignore_ascii_case(label));
        if !is_label {
            return text.trim_end_matches(['*', '=', '#', '-', '>', '<', ']']);
        }
        text = text[end..].trim_start_matches(|c: char| is_sign(c) || c == ')');
    }
}

/// Parses seconds since 1970 and nanoseconds beyond them: `1795287946`, `@1795287946.5`, or a whole number of milli-,
/// micro- or nanoseconds. Times from 1973 to 2286 only, so that no counter of a few digits is taken for a time.
pub fn parse_epoch(text: &str) -> Option<(i64, i64)> {
    let text = text.trim().trim_start_matches('@');
    let (integer, decimals) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    // a sentence ends with a dot and nothing behind it
    let is_sentence = decimals.is_empty() && text.len() > integer.len();
    if !digits(integer) || !digits(decimals) || decimals.len() > 9 || is_sentence {
        return None;
    }
    let scale = match integer.len() {
        9 | 10 => 1,
        13 if decimals.is_empty() => 1_000,
        16 if decimals.is_empty() => 1_000_000,
        19 if decimals.is_empty() => 1_000_000_000,
        _ => return None,
    };
    let number: i64 = integer.parse().ok()?;
    if number / scale >= time::MAX_TIME_S {
        return None;
    }
    let fraction: i64 = format!("{decimals:0<9}").parse().ok()?;
    let ns = if scale == 1 { fraction } else { (number % scale) * (1_000_000_000 / scale) };
    Some((number / scale, ns))
}

/// Splits text into words between blanks; parts of one time are joined, and date and time in one word are separated.
fn split_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split([' ', '\t', ';']).filter(|w| !w.is_empty()) {
        let word = word.trim_matches([',', '(', ')', '[', ']', '<', '>']);
        let is_iso =
            word.len() > 11 && word.as_bytes()[10] == b'T' && word.as_bytes()[..4].iter().all(u8::is_ascii_digit);
        if is_iso && word.is_char_boundary(10) {
            words.extend([word[..10].to_owned(), word[11..].to_owned()]);
            continue;
        }
        // 午後05時12分34秒
        let prefix_bytes = word.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
        if prefix_bytes > 0 && parse_day_half(&word[..prefix_bytes]).is_some() {
            words.extend([word[..prefix_bytes].to_owned(), word[prefix_bytes..].to_owned()]);
            continue;
        }
        // 05시 12분 34초
        let is_continued = words.last().is_some_and(|last| last.ends_with(['시', '분', '時', '时', '分']));
        match words.last_mut() {
            Some(last) if is_continued && word.starts_with(|c: char| c.is_ascii_digit()) => last.push_str(word),
            _ if !word.is_empty() => words.push(word.to_owned()),
            _ => {}
        }
    }
    words
}

/// Time of day among words.
struct ClockWords {
    /// Seconds since midnight.
    seconds: i64,
    /// Indexes of the words that belong to it.
    words: Vec<usize>,
    zone: ZoneHint,
}

/// Parses the time of day at a word, with the half of the day beside it.
fn find_clock(words: &[&str], index: usize) -> Option<ClockWords> {
    let word = words[index];
    // these occur in dates
    if word.contains(['/', '年', '년']) || word.find('-').is_some_and(|sign| !word[..sign].contains(':')) {
        return None;
    }
    let (clock, zone) = match word.find(['+', '-', 'Z']).filter(|end| word[..*end].contains(':')) {
        Some(end) => (&word[..end], time::zone_offset_s(&word[end..]).map(ZoneHint::Offset)?),
        None => (word, ZoneHint::Missing),
    };
    let others = || words.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, w)| *w);
    let has_year = || others().any(|w| w.split(|c: char| !c.is_ascii_digit()).any(|n| n.len() == 4));
    let is_dotted = clock.matches('.').count() == 2 && clock.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_norwegian = index > 0 && words[index - 1].trim_end_matches('.') == "kl" && clock.matches('.').count() == 1;
    let is_short = clock.matches(':').count() == 1 && clock.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let time_text = match clock.split_once(['.', ',']) {
        _ if is_norwegian => format!("{}:00", clock.replace('.', ":")),
        _ if is_dotted && has_year() => clock.replace('.', ":"),
        // fraction of a second
        Some((time_text, fraction)) if !is_dotted && fraction.bytes().all(|b| b.is_ascii_digit()) => {
            time_text.to_owned()
        }
        _ if is_short && has_year() => format!("{clock}:00"),
        _ => clock.to_owned(),
    };
    let (seconds, _) = time::parse_time_of_day(&[&time_text])?;
    let mut clock_words = vec![index];
    let mut half = words.get(index + 1).and_then(|next| parse_day_half(next));
    if half.is_some() {
        clock_words.push(index + 1);
    } else if let (Some(first), Some(second)) = (words.get(index + 1), words.get(index + 2)) {
        // `p. m.`
        half = parse_day_half(&format!("{first}{second}"));
        clock_words.extend(half.map(|_| [index + 1, index + 2]).into_iter().flatten());
    }
    if half.is_none() && index > 0 {
        half = parse_day_half(words[index - 1]);
        clock_words.extend(half.map(|_| index - 1));
    }
    let hours = seconds / 3600;
    let seconds = match half {
        Some(is_after) if (1..=12).contains(&hours) => (hours % 12 + 12 * i64::from(is_after)) * 3600 + seconds % 3600,
        _ => seconds,
    };
    Some(ClockWords { seconds, words: clock_words, zone })
}

/// Returns true for a word that means the half of the day after noon, false for the one before it.
pub fn parse_day_half(word: &str) -> Option<bool> {
    let word: String = word.chars().filter(|c| !matches!(c, '.' | ' ')).flat_map(char::to_lowercase).collect();
    let names = builtin_calendar();
    if names.pm.contains(&word) { Some(true) } else { names.am.contains(&word).then_some(false) }
}

/// Parses a zone by its offset or by its short name.
pub fn parse_zone(word: &str) -> Option<ZoneHint> {
    let bare = word.strip_prefix("UTC").or_else(|| word.strip_prefix("GMT")).filter(|rest| !rest.is_empty());
    let numeric = bare.unwrap_or(word);
    if numeric.starts_with(['+', '-']) && numeric.len() > 2 {
        return time::zone_offset_s(numeric).map(ZoneHint::Offset);
    }
    let is_name = (1..=5).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase());
    let is_zone = is_name && (word.len() > 2 || word == "Z");
    let lower = word.to_lowercase();
    // `SAT` may be a day in capitals
    let is_day =
        builtin_calendar().languages.iter().any(|l| l.days.iter().chain(&l.months).flatten().any(|n| *n == lower));
    match time::zone_offset_s(word) {
        Some(0) if is_zone => Some(ZoneHint::Offset(0)),
        _ if is_zone && !is_day => Some(ZoneHint::Name(word.to_owned())),
        _ => None,
    }
}

/// Parses a date with the name of its month.
pub fn parse_named_date(text: &str) -> Option<Date> {
    let plain: String = text.chars().filter_map(normalize_letter).collect();
    let (names, numbers) = split_names_and_numbers(&plain.split_whitespace().collect::<Vec<_>>());
    if let [_, _] = numbers[..] { parse_named(&names, &numbers) } else { None }
}

/// Parses the date that is left without clock and zone; the second value is true if it is a guess.
fn parse_date(words: &[&str], order: NumericDateOrder) -> Option<(Date, bool)> {
    let (names, numbers) = split_names_and_numbers(words);
    match numbers.len() {
        2 => parse_named(&names, &numbers).map(|date| (date, false)),
        3 => parse_numeric(&names, &numbers, words.iter().any(|w| w.contains('/')), order),
        _ => None,
    }
}

/// Splits words into names in lower case, and numbers.
fn split_names_and_numbers<'a>(words: &[&'a str]) -> (Vec<String>, Vec<&'a str>) {
    let mut names = Vec::new();
    let mut numbers = Vec::new();
    for word in words {
        let mut rest = *word;
        while let Some(first) = rest.chars().next() {
            let is_digit = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
            let part = &rest[..end];
            rest = &rest[end..];
            if is_digit {
                numbers.push(part);
                continue;
            }
            let name = part.trim_matches([',', '.', '-', '/', ':', '(', ')', '॰']).to_lowercase();
            let name = name.strip_suffix("-ին").map(str::to_owned).unwrap_or(name);
            if !name.is_empty() && !DATE_UNITS.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    (names, numbers)
}

/// Converts a year of the Buddhist era, which is 543 larger, to the Gregorian calendar.
fn to_gregorian_year(year: i64) -> i64 {
    if (2500..2700).contains(&year) { year - 543 } else { year }
}

fn make_date(year: &str, month: u32, day: &str) -> Option<Date> {
    let has_century = year.len() >= 4;
    let year = u32::try_from(to_gregorian_year(year.parse().ok()?)).ok()?;
    if has_century && year < time::MIN_YEAR {
        return None;
    }
    Date::from_ymd(year, month, day.parse().ok().filter(|_| day.len() <= 2)?)
}

/// Returns the day of the week, Sunday first.
fn weekday_index(date: Date) -> usize {
    (date.days_since_epoch() + 4).rem_euclid(7) as usize
}

/// Parses a date with the name of its month. All names must be of one language, and a weekday must be that of the date:
/// `lis` is October in one language and November in another.
fn parse_named(names: &[String], numbers: &[&str]) -> Option<Date> {
    let (first, second) = (numbers[0], numbers[1]);
    let (year, number) = if first.len() == 4 { (first, second) } else { (second, first) };
    let mut found: Option<Date> = None;
    for language in &builtin_calendar().languages {
        let has_name = |group: &[String], name: &String| group.contains(name);
        for month in 0..language.months.len() {
            let Some(index) = names.iter().position(|name| has_name(&language.months[month], name)) else { continue };
            let Some(date) = make_date(year, month as u32 + 1, number) else { continue };
            let others = names.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, name)| name);
            let is_allowed = |name: &String| {
                FILLER_WORDS.contains(&name.as_str())
                    || language.days.get(weekday_index(date)).is_some_and(|d| has_name(d, name))
            };
            if !others.clone().all(is_allowed) || found == Some(date) {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some(date);
        }
    }
    found
}

/// Parses a date of three numbers, with or without a weekday, which decides an ambiguous order.
fn parse_numeric(names: &[String], numbers: &[&str], has_slash: bool, order: NumericDateOrder) -> Option<(Date, bool)> {
    let gregorian_number = |number: &&str| {
        // `0001` stays a year of four digits
        let year = number.parse().ok().filter(|year| number.len() < 4 || *year >= i64::from(time::MIN_YEAR));
        year.map_or_else(|| (*number).to_owned(), |year| format!("{:02}", to_gregorian_year(year)))
    };
    let text = numbers.iter().map(gregorian_number).collect::<Vec<_>>().join(if has_slash { "/" } else { "-" });
    let is_allowed = |date: Date| {
        names.iter().all(|name| {
            let is_filler = FILLER_WORDS.contains(&name.as_str());
            let has_weekday =
                |l: &CalendarNames| l.days.get(weekday_index(date)).is_some_and(|names| names.contains(name));
            is_filler || builtin_calendar().languages.iter().any(has_weekday)
        })
    };
    let read = time::parse_date(&text, order)?;
    if is_allowed(read.date) {
        return Some((read.date, read.is_guess && names.is_empty()));
    }
    let other_order = match order {
        NumericDateOrder::MonthFirst => NumericDateOrder::DayFirst,
        NumericDateOrder::DayFirst => NumericDateOrder::MonthFirst,
    };
    time::parse_date(&text, other_order).filter(|read| is_allowed(read.date)).map(|read| (read.date, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One moment as `date` prints it in many locales.
    const LOCALES: &[&str] = &[
        "Mon Nov 23 17:12:34 UTC 2026",
        "Ma 23 Nov 2026 17:12:34 UTC",
        "الإثنين 23 نوفمبر 2026 UTC 17:12:34",
        "23.11.2026 (пн) 17:12:34 UTC",
        "dilluns, 23 de novembre de 2026, 17:12:34 UTC",
        "Po 23. listopadu 2026, 17:12:34 UTC",
        "man 23 nov 17:12:34 UTC 2026",
        "Mo 23. Nov 17:12:34 UTC 2026",
        "Δευ 23 Νοε 2026 05:12:34 μμ UTC",
        "2026-11-23T17:12:34 UTC",
        "Mon 23 Nov 17:12:34 UTC 2026",
        "Monday 23 November 2026 05:12:34 PM UTC",
        "Monday 23 November 2026 05:12:34 PM",
        "Mon Nov 23 05:12:34 PM UTC 2026",
        "lun 23 nov 2026 17:12:34 UTC",
        "E 23 nov   2026 17:12:34 UTC",
        "\u{202b}دوشنبه ۲۳ نوامبر ۲۶، ساعت ۱۷:۱۲:۳۴ (UTC)\u{202c}",
        "ma 23.11.2026 17.12.34 +0000",
        "lun. 23 nov. 2026 17:12:34 UTC",
        "UTC 17:12:34 2026 נוב 23 ב'",
        "सोमवार 23 नव॰ 2026 05:12:34 अपराह्न UTC",
        "pon, 23.11.2026.  17:12:34 UTC",
        "ponedjeljak, 23. studenoga 2026. 17:12:34 UTC",
        "2026. nov. 23., hétfő, 17:12:34 UTC",
        "lun 23 nov 2026, 17:12:34, UTC",
        "2026年 11月 23日 月曜日 17:12:34 UTC",
        "2026年11月23日 17時12分34秒",
        "2026 წლის 23 ნოემბერი, 17:12:34 UTC",
        "2026. 11. 23. (월) 17:12:34 UTC",
        "2026년 11월 23일 (월) 오후 05시 12분 34초",
        "2026 m. lapkričio 23 d. 17:12:34 UTC",
        "pirmdiena, 2026. gada 23. novembris, 17:12:34 UTC",
        "ma. 23. nov. 17:12:34 +0000 2026",
        "ma 23 nov 2026 17:12:34 UTC",
        "pon, 23 lis 2026, 17:12:34 UTC",
        "seg 23 nov 2026 17:12:34 UTC",
        "luni 23 noiembrie 2026, 17:12:34 +0000",
        "Пн 23 ноя 2026 17:12:34 UTC",
        "Po 23. november 2026, 17:12:34 UTC",
        "пон, 23. нов 2026.  17:12:34 UTC",
        "mån 23 nov 2026 17:12:34 UTC",
        "จ. 23 พ.ย. 2569 17:12:34 UTC",
        "Pzt 23 Kas 2026 17:12:34 UTC",
        "понеділок, 23 листопада 2026 17:12:34 +0000",
        "пн, 23-лис-2026 17:12:34 +0000",
        "Thứ hai, 23 Tháng 11 năm 2026 17:12:34 UTC",
        "2026年 11月 23日 星期一 17:12:34 UTC",
        "2026年11月23日 星期一 17时12分34秒",
        "西元2026年11月23日 (週一) 17時12分34秒 UTC",
        "2026年11月23日 (週一) 17時12分34秒",
    ];

    fn of(text: &str) -> Option<(i64, ZoneHint)> {
        parse_moment(text, NumericDateOrder::DayFirst).map(|found| (found.local_s, found.zone))
    }

    /// 2026-11-23 17:12:34.
    const LOCAL: i64 = 20_780 * DAY_S + 61_954;

    #[test]
    fn parses_a_moment_alike_in_all_locales() {
        for text in LOCALES {
            let (local, zone) = of(text).unwrap_or_else(|| panic!("{text}: no moment"));
            assert_eq!(local, LOCAL, "{text}");
            assert!(matches!(zone, ZoneHint::Missing | ZoneHint::Offset(0)), "{text}: {zone:?}");
        }
    }

    #[test]
    fn parses_other_forms_signs_and_labels() {
        let zone = |hours: i64| Some((LOCAL, ZoneHint::Offset(hours * 3600)));
        let cet = || Some((LOCAL, ZoneHint::Name("CET".into())));
        for (text, expected) in [
            ("zzz ***Mon Nov 23 17:12:34 CET 2026", cet()),
            ("zzz <11/23/2026 17:12:34> subcount: 1", Some((LOCAL, ZoneHint::Missing))),
            ("zzz <11/23/2026 17:12:34> Count:720", Some((LOCAL, ZoneHint::Missing))),
            ("zzz ***Mon Nov 23 17:12:34 CET 2026 Sample interval: 5 secconds", cet()),
            ("zzz *** Mon Nov 23 17:12:34 CET 2026", cet()),
            ("zzz <11/23/2026 17:12:34>", Some((LOCAL, ZoneHint::Missing))),
            ("#### Mon Nov 23 17:12:34 CET 2026 ####", cet()),
            ("Date: Mo 23. Nov 17:12:34 CET 2026", cet()),
            ("Mon, 23 Nov 2026 17:12:34 +0100", zone(1)),
            ("2026-11-23T17:12:34,123456789+01:00", zone(1)),
            ("2026-11-23 17:12:34.5+01:00", zone(1)),
            ("2026-11-23T17:12:34Z", zone(0)),
            ("lundi 23 novembre 2026, 17:12:34 (UTC+0100)", zone(1)),
            ("1795453954", zone(0)),
            ("@1795453954.25", zone(0)),
            ("1795453954250", zone(0)),
            ("23/11/2026 17:12:34", Some((LOCAL, ZoneHint::Missing))),
            ("11/23/2026 05:12:34 PM", Some((LOCAL, ZoneHint::Missing))),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn rejects_text_that_is_no_moment_or_ambiguous() {
        for text in [
            "",
            "nohup: ignoring input",
            "Linux 6.1.0 (db1) 11/23/26 _x86_64_ (4 CPU)",
            "17:12:34 up 5 days, load average: 0.00, 0.01, 0.05",
            "Mon Nov 23 17:12:34 CET 2026 sshd restarted",
            "[root@db1 ~]# date 2026-11-23 17:12:34",
            "2026-11-23",
            "17:12:34",
            "sda 1 2 3",
            // a Tuesday
            "Tue Nov 23 17:12:34 UTC 2026",
            // October in one language, November in another
            "23 lis 2026 17:12:34",
            // a clock of twelve hours without its half
            "Sen 23 Nov 2026 05:12:34  UTC",
            "31 Feb 2026 17:12:34",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_weekday_decides_which_number_is_the_month() {
        let read = |text| parse_moment(text, NumericDateOrder::MonthFirst).map(|m| (m.local_s / DAY_S, m.is_guess));
        let fifth_of_april = Date::from_ymd(2026, 4, 5).map(Date::days_since_epoch).unwrap();
        assert_eq!(read("Sun 05/04/2026 17:12:34"), Some((fifth_of_april, false)));
        assert_eq!(read("04/05/2026 17:12:34"), Some((fifth_of_april, true)));
    }
}
