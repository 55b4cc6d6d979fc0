//! Conversion of times as PerfMon and spreadsheets write them to seconds since 1970. A log's header has a single bias,
//! even where the clocks changed within the log (`daylight_clock.rs`).

const SECOND_NS: i64 = 1_000_000_000;

/// Order of day and month in a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerfmonDateOrder {
    /// `MM/DD/YYYY`, which Windows writes in every language.
    MonthDay,
    /// `DD/MM/YYYY` or `DD.MM.YYYY`.
    DayMonth,
}

/// Order of day and month as the first fields of some lines show it.
pub(super) struct DateOrderEvidence {
    /// Order to use.
    pub order: PerfmonDateOrder,
    /// Set if no line decides it.
    pub is_guess: bool,
}

/// Detects the order of day and month from the first fields of a log's first lines.
pub(super) fn detect_date_order<'a>(times: impl Iterator<Item = &'a [u8]>) -> DateOrderEvidence {
    let mut are_genuine = true;
    for time in times {
        let Some((date, _, separator)) = split_date(time) else { continue };
        match date {
            [year, ..] if year > 31 => return DateOrderEvidence { order: PerfmonDateOrder::MonthDay, is_guess: false },
            [first, ..] if first > 12 => {
                return DateOrderEvidence { order: PerfmonDateOrder::DayMonth, is_guess: false };
            }
            [_, second, _] if second > 12 => {
                return DateOrderEvidence { order: PerfmonDateOrder::MonthDay, is_guess: false };
            }
            _ if separator == b'.' => return DateOrderEvidence { order: PerfmonDateOrder::DayMonth, is_guess: false },
            _ => are_genuine &= is_genuine(time),
        }
    }
    DateOrderEvidence { order: PerfmonDateOrder::MonthDay, is_guess: !are_genuine }
}

/// Returns true for exactly `MM/DD/YYYY HH:MM:SS.mmm`, which no spreadsheet has rewritten.
fn is_genuine(time: &[u8]) -> bool {
    let pattern = b"00/00/0000 00:00:00.000";
    time.len() == pattern.len()
        && time.iter().zip(pattern).all(|(b, m)| if *m == b'0' { b.is_ascii_digit() } else { b == m })
}

/// Converts first fields to times.
pub(super) struct PerfmonClock {
    order: PerfmonDateOrder,
    /// Date read last, as it was written.
    day_text: [u8; 10],
    /// Start of that day, seconds since 1970.
    day_s: i64,
    /// Local time less UTC.
    offset_ns: i64,
}

impl PerfmonClock {
    /// Makes a clock; `offset_s` is local time less UTC.
    pub fn new(order: PerfmonDateOrder, offset_s: i32) -> PerfmonClock {
        PerfmonClock { order, day_text: [0; 10], day_s: 0, offset_ns: i64::from(offset_s) * SECOND_NS }
    }

    /// Converts a field (without quotes) to UTC; `None` if it is no time.
    #[inline]
    pub fn read_time(&mut self, field: &[u8]) -> Option<i64> {
        let local = match field.first_chunk::<23>() {
            Some(text) if field.len() == 23 => self.read_usual_time(text).or_else(|| self.read_any_time(field))?,
            _ => self.read_any_time(field)?,
        };
        local.checked_sub(self.offset_ns)
    }

    /// Converts `MM/DD/YYYY HH:MM:SS.mmm`, remembering the day.
    #[inline]
    fn read_usual_time(&mut self, text: &[u8; 23]) -> Option<i64> {
        if text[..10] != self.day_text {
            if text[2] != b'/' || text[5] != b'/' {
                return None;
            }
            let parse_two = |index: usize| two_digits(text[index], text[index + 1]);
            self.day_s = day_start_s(parse_two(6)? * 100 + parse_two(8)?, parse_two(0)?, parse_two(3)?, self.order)?;
            self.day_text.copy_from_slice(&text[..10]);
        }
        if (text[10], text[13], text[16], text[19]) != (b' ', b':', b':', b'.') {
            return None;
        }
        let parse_two = |index: usize| two_digits(text[index], text[index + 1]);
        let (hours, minutes, seconds) = (parse_two(11)?, parse_two(14)?, parse_two(17)?);
        let thousandths = parse_two(20)? * 10 + two_digits(b'0', text[22])?;
        if hours > 23 || minutes > 59 || seconds > 60 {
            return None;
        }
        let seconds = self.day_s + hours * 3600 + minutes * 60 + seconds;
        Some(seconds * SECOND_NS + thousandths * 1_000_000)
    }

    /// Converts any date and time: dots or hyphens as separators, no seconds, AM and PM.
    fn read_any_time(&self, field: &[u8]) -> Option<i64> {
        let ([first, second, third], rest, _) = split_date(field)?;
        let day_s = if first > 31 {
            day_start_s(first, second, third, PerfmonDateOrder::MonthDay)?
        } else {
            let year = if third < 100 { third + 2000 } else { third };
            day_start_s(year, first, second, self.order)?
        };
        let rest = rest.trim_ascii();
        let (time, half_of_day) = match rest.iter().position(|b| b.is_ascii_alphabetic()) {
            Some(start) => (rest[..start].trim_ascii(), rest[start..].trim_ascii()),
            None => (rest, &b""[..]),
        };
        let mut parts = time.split(|b| *b == b':');
        let mut hours = parse_number(parts.next()?)?;
        let minutes = parse_number(parts.next()?)?;
        let seconds = parts.next().map_or(Some(0), parse_seconds_ns)?;
        match half_of_day.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"am" | b"a.m." if (1..=12).contains(&hours) => hours %= 12,
            b"pm" | b"p.m." if (1..=12).contains(&hours) => hours = hours % 12 + 12,
            _ => return None,
        }
        if parts.next().is_some() || hours > 23 || minutes > 59 {
            return None;
        }
        Some((day_s + hours * 3600 + minutes * 60) * SECOND_NS + seconds)
    }
}

/// Splits a field into the numbers of a date, the rest behind it, and the date's separator.
fn split_date(field: &[u8]) -> Option<([i64; 3], &[u8], u8)> {
    let field = field.trim_ascii();
    let separator = *field.iter().find(|b| !b.is_ascii_digit())?;
    if !matches!(separator, b'/' | b'.' | b'-') {
        return None;
    }
    let end = field.iter().position(|b| matches!(b, b' ' | b'T'))?;
    let mut parts = field[..end].split(|b| *b == separator);
    let date = [parse_number(parts.next()?)?, parse_number(parts.next()?)?, parse_number(parts.next()?)?];
    parts.next().is_none().then_some((date, &field[end + 1..], separator))
}

/// Parses seconds with a fraction after a point or comma, nanoseconds.
fn parse_seconds_ns(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(2, |b| matches!(b, b'.' | b','));
    let full_seconds = parse_number(parts.next()?).filter(|s| *s <= 60)?;
    let mut fraction = 0;
    if let Some(digits) = parts.next() {
        let mut unit = SECOND_NS;
        for digit in digits {
            unit /= 10;
            fraction += i64::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit;
        }
    }
    Some(full_seconds * SECOND_NS + fraction)
}

/// Parses up to four digits.
fn parse_number(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 4 {
        return None;
    }
    text.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
}

/// Returns the beginning of a day, seconds since 1970; the two numbers are in the given order.
fn day_start_s(year: i64, first: i64, second: i64, order: PerfmonDateOrder) -> Option<i64> {
    let (month, day) = match order {
        PerfmonDateOrder::MonthDay => (first, second),
        PerfmonDateOrder::DayMonth => (second, first),
    };
    const DAYS_BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    const MONTH_LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    // no Windows existed before 1980
    if !(1980..=2200).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let index = (month - 1) as usize;
    if day < 1 || day > MONTH_LENGTHS[index] + i64::from(is_leap && month == 2) {
        return None;
    }
    let leap_days_until = |year: i64| year / 4 - year / 100 + year / 400;
    let days_until_year = (year - 1970) * 365 + leap_days_until(year - 1) - leap_days_until(1969);
    let days = days_until_year + DAYS_BEFORE_MONTH[index] + i64::from(is_leap && month > 2) + day - 1;
    Some(days * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(order: PerfmonDateOrder, text: &str) -> Option<f64> {
        PerfmonClock::new(order, 0).read_time(text.as_bytes()).map(|ns| ns as f64 * 1e-9)
    }

    #[test]
    fn reads_times_of_windows_and_of_spreadsheets() {
        // `date -u -d '2022-09-19 22:44:32.813' +%s.%3N`
        let moment = Some(1_663_627_472.813);
        assert_eq!(read(PerfmonDateOrder::MonthDay, "09/19/2022 22:44:32.813"), moment);
        assert_eq!(read(PerfmonDateOrder::DayMonth, "19/09/2022 22:44:32.813"), moment);
        assert_eq!(read(PerfmonDateOrder::DayMonth, "19.09.2022 22:44:32,813"), moment);
        assert_eq!(read(PerfmonDateOrder::MonthDay, "2022-09-19 22:44:32.813"), moment);
        assert_eq!(read(PerfmonDateOrder::MonthDay, "2022-09-19T22:44:32.813"), moment);
        assert_eq!(read(PerfmonDateOrder::MonthDay, "9/19/2022 10:44:32.813 PM"), moment);
        assert_eq!(read(PerfmonDateOrder::DayMonth, "19.9.22 22:44"), Some(1_663_627_440.0));
        assert_eq!(read(PerfmonDateOrder::MonthDay, "02/29/2024 00:00:00.000"), Some(1_709_164_800.0));
        assert_eq!(read(PerfmonDateOrder::MonthDay, "03/01/2000 12:00:00 AM"), Some(951_868_800.0));
    }

    #[test]
    fn rejects_text_that_is_no_time() {
        for text in [
            "",
            " ",
            "09/19/2022",
            "22:44:32",
            "44:32,8",
            "13/19/2022 22:44:32.813",
            "09/31/2022 22:44:32.813",
            "02/29/2023 00:00:00.000",
            "09/19/2022 24:00:00.000",
            "09/19/2022 22:60:00.000",
            "09/19/2022 22:44:3x.813",
            "Exiting, please wait...",
            "09/19/2022 22:44:32.81x",
            "09/19/2022 13:00 PM",
            "//// ::::",
            "1/2/3/4 5:6",
            "09/19/99999 22:44:32",
            "09/19/2022 1:2:3:4",
            "09-19/2022 22:44:32.813",
        ] {
            assert_eq!(read(PerfmonDateOrder::MonthDay, text), None, "{text}");
        }
    }

    #[test]
    fn subtracts_the_offset() {
        let mut clock = PerfmonClock::new(PerfmonDateOrder::MonthDay, 7200);
        assert_eq!(clock.read_time(b"01/01/1980 02:00:00.000"), Some(315_532_800 * SECOND_NS));
        assert_eq!(clock.read_time(b"01/02/1980 02:00:00.000"), Some((315_532_800 + 86_400) * SECOND_NS));
    }

    #[test]
    fn numbers_above_twelve_decide_day_and_month() {
        let order = |times: &[&str]| {
            let found = detect_date_order(times.iter().map(|t| t.as_bytes()));
            (found.order, found.is_guess)
        };
        assert_eq!(order(&["05/06/2010 06:12:22", "05/13/2010 06:12:22"]), (PerfmonDateOrder::MonthDay, false));
        assert_eq!(order(&["05/06/2010 06:12", "13/06/2010 06:12"]), (PerfmonDateOrder::DayMonth, false));
        assert_eq!(order(&["05.06.2010 06:12"]), (PerfmonDateOrder::DayMonth, false));
        assert_eq!(order(&["2010-05-06 06:12"]), (PerfmonDateOrder::MonthDay, false));
        assert_eq!(order(&["05/06/2010 06:12"]), (PerfmonDateOrder::MonthDay, true));
        assert_eq!(order(&["05/06/2010 06:12:00.000"]), (PerfmonDateOrder::MonthDay, false));
        assert_eq!(order(&[]), (PerfmonDateOrder::MonthDay, false));
    }
}
