//! Confidence that a log shows the load: the share of its period that was sampled, its length, and whether it covers a
//! weekend and a month's end.
//!
//! Azure Migrate rates an assessment by the share of the expected samples that exist: each started fifth is a star
//! (learn.microsoft.com, "Confidence ratings"). The second part, the period, is our own: storage cannot be sized for a
//! load that was never seen, however well the rest was sampled.

use serde::Serialize;

const DAY_NS: i64 = 86_400_000_000_000;

/// Confidence in a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogRating {
    /// The smaller of the two shares below, 0 to 1.
    pub confidence: f64,
    /// 1 to 5: each started fifth of the confidence.
    pub stars: u8,
    /// Share of the time from first to last tick that was sampled.
    pub sampled_share: f64,
    /// 0.2 below an hour, 0.4 below a day, 0.6 below a week or without a weekend, 0.8 without a month's end, else 1.
    pub period_share: f64,
    /// Days from first to last tick.
    pub days: f64,
    /// True if it covers a Saturday or Sunday and another day.
    pub weekend: bool,
    /// True if it covers the last day of a month.
    pub month_end: bool,
    /// The rating in words.
    pub words: String,
}

/// Rates a log from its first to its last time, of which `sampled_s` seconds have samples.
pub fn rate_log(range_ns: (i64, i64), sampled_s: f64, utc_offset_s: i64) -> LogRating {
    let span_s = (range_ns.1 - range_ns.0) as f64 * 1e-9;
    let sampled_share = if span_s > 0.0 { (sampled_s / span_s).clamp(0.0, 1.0) } else { 0.0 };
    let days = span_s / 86_400.0;
    let local = |ns: i64| ns.saturating_add(utc_offset_s * 1_000_000_000);
    let (first, last) = (local(range_ns.0).div_euclid(DAY_NS), local(range_ns.1.saturating_sub(1)).div_euclid(DAY_NS));
    // a day counts if the log covers most of it; two years are enough
    let is_covered = |day: &i64| {
        let (from, to) = (local(range_ns.0).max(day * DAY_NS), local(range_ns.1).min((day + 1) * DAY_NS));
        to - from > DAY_NS / 2
    };
    let whole_days: Vec<i64> = (first..=last.min(first + 730)).filter(is_covered).collect();
    // 1970-01-01 was a Thursday
    let is_weekend = |day: &&i64| (*day + 4).rem_euclid(7) == 0 || (*day + 4).rem_euclid(7) == 6;
    let weekends = whole_days.iter().filter(is_weekend).count();
    let weekend = weekends > 0 && weekends < whole_days.len();
    let month_end = whole_days.iter().any(|day| is_first_of_month(day + 1));
    let period_share = match days {
        d if d < 1.0 / 24.0 => 0.2,
        d if d < 0.99 => 0.4,
        d if d < 6.9 || !weekend => 0.6,
        _ if !month_end => 0.8,
        _ => 1.0,
    };
    let confidence: f64 = f64::min(sampled_share, period_share);
    let stars = ((confidence * 5.0 - 1e-9).ceil() as u8).clamp(1, 5);
    let mut words = vec![format!("{:.0} % of the period was sampled", sampled_share * 100.0)];
    if days < 0.99 {
        words.push("less than a day".into());
    } else {
        words.push(
            if weekend { "it includes a weekend" } else { "it does not include both a weekend and a weekday" }.into(),
        );
        words.push(if month_end { "and a month's end" } else { "no month's end" }.into());
    }
    LogRating { confidence, stars, sampled_share, period_share, days, weekend, month_end, words: words.join(", ") }
}

/// True if a day since 1970 is the first of a month.
fn is_first_of_month(day: i64) -> bool {
    diskwright_base::timestamp::format_day(day).ends_with("-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_days(from: &str, days: f64, share: f64) -> LogRating {
        let from = diskwright_base::timestamp::parse_rfc3339(from).unwrap();
        let seconds = days * 86_400.0;
        rate_log((from, from + (seconds * 1e9) as i64), seconds * share, 0)
    }

    #[test]
    fn period_and_sampled_share_both_limit_confidence() {
        // 2026-11-02 is a Monday
        let month = rate_days("2026-11-02T00:00:00Z", 30.0, 1.0);
        assert_eq!((month.stars, month.weekend, month.month_end), (5, true, true));
        assert_eq!(rate_days("2026-11-02T00:00:00Z", 30.0, 0.55).stars, 3);
        let week = rate_days("2026-11-02T00:00:00Z", 7.0, 1.0);
        assert_eq!((week.stars, week.weekend, week.month_end), (4, true, false));
        let workdays = rate_days("2026-11-02T00:00:00Z", 5.0, 1.0);
        assert_eq!((workdays.stars, workdays.weekend), (3, false));
        assert_eq!(rate_days("2026-11-02T00:00:00Z", 0.5, 1.0).stars, 2);
        assert_eq!(rate_days("2026-11-02T00:00:00Z", 0.01, 1.0).stars, 1);
        // the ratings of Azure Migrate: 0-20, 21-40, 41-60, 61-80, 81-100 %
        for (share, stars) in [(0.2, 1), (0.21, 2), (0.4, 2), (0.41, 3), (0.61, 4), (0.81, 5)] {
            assert_eq!(rate_days("2026-11-02T00:00:00Z", 30.0, share).stars, stars, "{share}");
        }
    }
}
