//! Times of rows: seconds since 1970, a time without a year, a time of day, or nothing but the head's date.

use super::title::DstatTitle;
use crate::sysstat::time::{self, DAY_S, Date, NumericDateOrder};

/// Half a year, days; a date that lies further back belongs to the next year.
const HALF_YEAR_DAYS: i64 = 182;

/// Completes dates that rows give only in part.
#[derive(Clone, Debug, Default)]
pub struct RowDates {
    /// Day of the last row, counted from 1970.
    last_day: Option<i64>,
    last_clock_s: i64,
    /// Set for `11-21`, where dstat itself writes `21-11`; decided by the head's date.
    is_month_first: Option<bool>,
}

/// Date in a row's time.
enum DayText {
    None,
    /// Days since 1970.
    Whole(i64),
    /// Month and day.
    Yearless(u32, u32),
}

impl RowDates {
    /// Returns a row's time in seconds since 1970, as the clock shows it; `None` if it cannot be parsed.
    pub fn local_seconds(&mut self, text: &str, title: &DstatTitle) -> Option<i64> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let index = words.iter().position(|word| word.contains(':'))?;
        let plain = words[index].split('.').next().unwrap_or_default();
        let clock_words = [&[plain], &words[index + 1..]].concat();
        let (clock, _) = time::parse_time_of_day(&clock_words)?;
        let first_day = || title.date.map(Date::days_since_epoch);
        let day = match self.parse_day(&words[..index].join(" "), title) {
            DayText::Whole(day) => day,
            DayText::None => {
                let day = self.last_day.or_else(first_day)?;
                // the clock went back: midnight has passed
                day + i64::from(self.last_day.is_some() && clock + DAY_S / 2 < self.last_clock_s)
            }
            DayText::Yearless(month, day) => {
                let previous_day = self.last_day.or_else(first_day)?;
                let year = 1970 + (previous_day as f64 / 365.2425) as i32;
                (year - 1..=year + 2)
                    .filter_map(|year| diskwright_base::timestamp::day_number(year, month, day))
                    .find(|found| *found >= previous_day - HALF_YEAR_DAYS)?
            }
        };
        self.last_day = Some(day);
        self.last_clock_s = clock;
        Some(day * DAY_S + clock)
    }

    fn parse_day(&mut self, text: &str, title: &DstatTitle) -> DayText {
        if text.is_empty() {
            return DayText::None;
        }
        if let Some(read) = time::parse_date(text, NumericDateOrder::DayFirst) {
            return DayText::Whole(read.date.days_since_epoch());
        }
        let numbers: Vec<u32> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        match numbers.as_slice() {
            [a, b] => {
                let is_month_first = *self.is_month_first.get_or_insert_with(|| {
                    title.date.is_some_and(|d| (d.month, d.day) == (*a, *b) && (d.month, d.day) != (*b, *a)) || *b > 12
                });
                if is_month_first { DayText::Yearless(*a, *b) } else { DayText::Yearless(*b, *a) }
            }
            // `Nov-21`: a year makes it a whole date
            [day] => match time::parse_date(&format!("{text} 2000"), NumericDateOrder::DayFirst) {
                Some(read) => DayText::Yearless(read.date.month, *day),
                None => DayText::None,
            },
            _ => DayText::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(year: i32, month: u32, day: u32) -> DstatTitle {
        DstatTitle { date: Some(Date { year, month, day }), ..DstatTitle::default() }
    }

    fn days(texts: &[&str], title: &DstatTitle) -> Vec<Option<String>> {
        let mut dates = RowDates::default();
        let one = |text: &&str| {
            let local = dates.local_seconds(text, title)?;
            Some(diskwright_base::timestamp::format_rfc3339(local * 1_000_000_000))
        };
        texts.iter().map(one).collect()
    }

    #[test]
    fn years_come_from_the_head_and_roll_over() {
        let found = days(&["31-12 23:59:59", "01-01 00:00:00"], &title(2026, 12, 31));
        assert_eq!(found, [Some("2026-12-31T23:59:59Z".into()), Some("2027-01-01T00:00:00Z".into())]);
        let found = days(&["Dec-31 23:59:59.123", "Jan-01 00:00:00"], &title(2026, 12, 31));
        assert_eq!(found, [Some("2026-12-31T23:59:59Z".into()), Some("2027-01-01T00:00:00Z".into())]);
        // the first row is a second after the head
        assert_eq!(days(&["01-01 00:00:00"], &title(2026, 12, 31)), [Some("2027-01-01T00:00:00Z".into())]);
        assert_eq!(days(&["29-02 00:00:00"], &title(2028, 2, 29)), [Some("2028-02-29T00:00:00Z".into())]);
    }

    #[test]
    fn midnights_and_other_forms() {
        let found = days(&["23:59:59", "00:00:01", "2026-11-23 00:00:02"], &title(2026, 11, 21));
        assert_eq!(found[1], Some("2026-11-22T00:00:01Z".into()));
        assert_eq!(found[2], Some("2026-11-23T00:00:02Z".into()));
        // month first, as the head's date shows
        assert_eq!(days(&["11-12 01:00:00"], &title(2026, 11, 12)), [Some("2026-11-12T01:00:00Z".into())]);
        assert_eq!(days(&["12-11 01:00:00"], &title(2026, 11, 12)), [Some("2026-11-12T01:00:00Z".into())]);
        assert_eq!(
            days(&["30-02 01:00:00", "x", "12:61:00", "13-13 01:02:03"], &title(2026, 2, 3)),
            [None, None, None, None]
        );
        assert_eq!(days(&["21-11 01:00:00"], &DstatTitle::default()), [None]);
    }
}
