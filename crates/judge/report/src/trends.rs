//! Trends in words, and the section of the page on trends.

use diskwright_base::units;
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::trends::{Trend, TrendRhythm, TrendShape, TrendStep};
use diskwright_diagnosis::verdict::GrowingProgram;
use maud::{Markup, Render, html};

use crate::axis;
use crate::chart_model::{Chart, ChartLine};
use crate::downsample::ChartBucket;
use crate::html::{HtmlReport, chart_figure, rare_key};
use crate::identity::culprit_summary;
use crate::markup::{format_unbroken, mark_id};
use crate::sections::html_table;
use crate::time::{DisplayZone, format_duration, parse_rfc3339};

/// Largest number of trends on the screen.
pub(crate) const MAX_SCREEN_TRENDS: usize = 5;
/// Largest number of charts on the page.
const MAX_CHARTS: usize = 24;
/// Columns of a program's command line in a sentence.
const MAX_PROGRAM_COLUMNS: usize = 60;
/// Largest number of rows of the page's table.
const MAX_TABLE_ROWS: usize = 120;

/// Returns the name of a trend: `sda: average queue length`.
pub(crate) fn trend_name(trend: &Trend) -> String {
    if trend.quantity == trend.counter {
        return axis::counter_title(&trend.counter, &[&trend.instance]);
    }
    // a formula is shown unchanged
    format!("{}{}", crate::verdict_words::instance_prefix(&trend.instance), trend.quantity)
}

/// Puts a slope with its interval in words: `falls by 1.5 % per day (1.2 % to 1.8 %)`.
fn slope_text(trend: &Trend) -> String {
    let (verb, sign) = if trend.slope_per_day < 0.0 { ("falls", -1.0) } else { ("grows", 1.0) };
    let show = |v: f64| units::format_value(sign * v, trend.display_unit());
    let (smallest, largest) =
        if sign < 0.0 { (trend.slope_high, trend.slope_low) } else { (trend.slope_low, trend.slope_high) };
    let range = match (smallest, largest) {
        (Some(smallest), Some(largest)) => format!(" ({} to {})", show(smallest), show(largest)),
        _ => String::new(),
    };
    format!("{verb} by {} per day{range}", show(trend.slope_per_day))
}

/// Formats a time to the minute, or only to the day if it is uncertain by more than a day (`uncertainty_s`).
fn format_moment(rfc3339: &str, zone: &DisplayZone, uncertainty_s: f64) -> String {
    let Some(time_ns) = parse_rfc3339(rfc3339) else { return rfc3339.to_owned() };
    let full = zone.format_moment(time_ns);
    // "2026-11-21" or "2026-11-21 22:20"
    let length = if uncertainty_s > 86_400.0 { 10 } else { 16 };
    full.get(..length).map_or(full.clone(), str::to_owned)
}

/// Returns the seconds from one RFC 3339 time to another; infinity if either is missing.
fn seconds_between(from: &Option<String>, to: &Option<String>) -> f64 {
    let time = |text: &Option<String>| parse_rfc3339(text.as_deref()?);
    match (time(from), time(to)) {
        (Some(from), Some(to)) => (to as f64 - from as f64) / 1e9,
        _ => f64::INFINITY,
    }
}

/// Describes the time at which the limit is crossed: `crosses 2 requests about
/// 2026-12-03 (2026-11-30 to 2026-12-07)`.
pub(crate) fn crossing_text(trend: &Trend, zone: &DisplayZone) -> Option<String> {
    let limit = units::format_value(trend.limit, trend.display_unit());
    let uncertainty_s = seconds_between(&trend.crosses_earliest, &trend.crosses_latest);
    let shown = |time: &String| format_moment(time, zone, uncertainty_s);
    match (&trend.crosses, &trend.crosses_earliest, &trend.crosses_latest) {
        (Some(crosses), Some(earliest), Some(latest)) => {
            Some(format!("crosses {limit} about {} ({} to {})", shown(crosses), shown(earliest), shown(latest)))
        }
        (Some(crosses), Some(earliest), None) => {
            Some(format!("crosses {limit} about {}, not before {}", shown(crosses), shown(earliest)))
        }
        (None, Some(earliest), _) => Some(format!("will not cross {limit} before {}", shown(earliest))),
        _ => None,
    }
}

fn step_text(step: &TrendStep, unit: &str) -> String {
    format!("{} to {}", units::format_value(step.before, unit), units::format_value(step.after, unit))
}

/// Describes the change in words; `None` if nothing changed.
fn change_text(trend: &Trend, zone: &DisplayZone) -> Option<String> {
    let show = |v: f64| units::format_value(v, trend.display_unit());
    if trend.shape == TrendShape::Line {
        let when = crossing_text(trend, zone).map_or(String::new(), |w| format!(": {w}"));
        return Some(format!("{}, now {}{when}", slope_text(trend), show(trend.now)));
    }
    if let Some(step) = &trend.step {
        let verb = if step.after > step.before { "rose" } else { "fell" };
        return Some(format!(
            "{verb} from {} at {}",
            step_text(step, trend.display_unit()),
            format_moment(&step.time, zone, 0.0)
        ));
    }
    let rhythm = trend.rhythm.as_ref()?;
    let share = units::format_value(rhythm.share, "fraction");
    let also = trend.rhythms.get(1).map_or(String::new(), |r| format!("; also every {}", period_text(r)));
    Some(format!(
        "repeats every {}, {} ({share} of its variation, {} from low to high{also})",
        period_text(rhythm),
        peak_text(rhythm, zone),
        show(rhythm.swing)
    ))
}

/// Returns the period of a rhythm: `day`, `2 h`, `95 min`.
fn period_text(rhythm: &TrendRhythm) -> String {
    match rhythm.period {
        "other" if rhythm.period_s >= 600.0 => format_duration((rhythm.period_s / 60.0).round() * 60.0),
        "other" => format_duration(rhythm.period_s.round()),
        name => name.to_owned(),
    }
}

fn peak_text(rhythm: &TrendRhythm, zone: &DisplayZone) -> String {
    match rhythm.period {
        "day" => format!("highest at {} UTC", rhythm.peak),
        "week" => format!("highest at {}", rhythm.peak),
        _ => format!("first highest at {}, seen {} times", format_moment(&rhythm.peak, zone, 0.0), rhythm.times as u64),
    }
}

/// Describes the trends that matter, a line each; simultaneous steps share a line.
pub(crate) fn trend_lines(verdict: &Verdict, zone: &DisplayZone) -> Vec<String> {
    let window_s = seconds_between(&Some(verdict.window.from.clone()), &Some(verdict.window.to.clone()));
    let mut lines: Vec<String> = Vec::new();
    let mut reported: Vec<&Trend> = Vec::new();
    let important: Vec<&Trend> = verdict.trends.iter().filter(|t| t.matters).collect();
    for trend in &important {
        if reported.iter().any(|t| std::ptr::eq(*t, *trend)) {
            continue;
        }
        let Some(words) = change_text(trend, zone) else { continue };
        let simultaneous: Vec<&&Trend> = important.iter().filter(|t| are_simultaneous(trend, t, window_s)).collect();
        reported.extend(simultaneous.iter().map(|t| **t));
        let also = match simultaneous.as_slice() {
            [] => String::new(),
            [trend] => format!(", together with {}", name_with_step(trend)),
            [first, others @ ..] => {
                format!(", together with {} and {} more", name_with_step(first), others.len())
            }
        };
        lines.push(format!("{} {words}{also}", trend_name(trend)));
    }
    lines
}

/// Days after the end of a log within which a crossing is told on the first screen.
const MAX_WARNED_DAYS: f64 = 30.0;

/// The first limit that will be crossed soon, for the headline: what runs out, when, and which program grows. Nothing
/// where its rule is a finding already.
pub(crate) fn warning_line(verdict: &Verdict, zone: &DisplayZone) -> Option<String> {
    let end = Some(verdict.window.to.clone());
    let is_found = |trend: &Trend| verdict.findings.iter().any(|finding| finding.rule == trend.rule);
    let seconds_left = |trend: &Trend| seconds_between(&end, &trend.crosses);
    let crossing = verdict.trends.iter().filter(|trend| trend.matters && trend.crosses.is_some() && !is_found(trend));
    let soon = crossing.filter(|trend| seconds_left(trend) <= MAX_WARNED_DAYS * 86_400.0);
    let first = soon.min_by(|a, b| seconds_left(a).total_cmp(&seconds_left(b)))?;
    let crossing = crossing_text(first, zone)?;
    let grows = first.growing.as_ref().map_or(String::new(), |growing| format!("; {}", growth_text(growing)));
    Some(format!("{}: {crossing}{grows}", trend_name(first)))
}

/// Who grows: `python3 (812): python3 leak.py, shop.service, grew from 1.2 GB to 7.6 GB`.
fn growth_text(growing: &GrowingProgram) -> String {
    let (from, to) = (units::format_value(growing.from_bytes, "bytes"), units::format_value(growing.to_bytes, "bytes"));
    // logs of Windows may lack the ids of processes
    let pid = growing.culprit.pid.filter(|pid| *pid > 0).map_or(String::new(), |pid| format!(" (process {pid})"));
    format!("{}{pid} grew from {from} to {to}", culprit_summary(&growing.culprit, MAX_PROGRAM_COLUMNS))
}

fn name_with_step(trend: &Trend) -> String {
    let change = trend.step.as_ref().map_or(String::new(), |s| format!(" ({})", step_text(s, trend.display_unit())));
    format!("{}{change}", trend_name(trend))
}

/// Returns true if two steps happened at about the same time.
fn are_simultaneous(a: &Trend, b: &Trend, window_s: f64) -> bool {
    let step_time = |t: &Trend| t.step.as_ref().map(|s| s.time.clone());
    !std::ptr::eq(a, b)
        && step_time(a).is_some()
        && step_time(b).is_some()
        && seconds_between(&step_time(a), &step_time(b)).abs() <= 0.02 * window_s
}

/// Returns the sentence on how much may be noise.
pub(crate) fn noise_caution(verdict: &Verdict) -> String {
    let questions = verdict.trend_questions;
    format!("Noise alone would show any of these in fewer than 1 of 20 logs ({questions} tests made).")
}

/// Renders the page's section: charts of the changes, and a table of all trends.
pub(crate) fn trends_section(report: &HtmlReport, verdict: &Verdict) -> Markup {
    if verdict.trends.is_empty() {
        return Markup::default();
    }
    let zone = &report.zone;
    let palette = report.choose_palette();
    let lines = trend_lines(verdict, zone);
    let drawn: Vec<Chart> = verdict.trends.iter().filter_map(|t| trend_chart(verdict, t)).take(MAX_CHARTS).collect();
    let rows: Vec<Vec<Markup>> = verdict.trends.iter().take(MAX_TABLE_ROWS).map(|t| table_row(t, zone)).collect();
    let more = verdict.trends.len() - rows.len();
    html! {
        p { (noise_caution(verdict)) }
        @if !lines.is_empty() {
            ul { @for line in &lines { li { (line) } } }
        }
        @if !drawn.is_empty() {
            div.small {
                @for (number, chart) in drawn.iter().enumerate() {
                    div.card { (chart_figure(chart, report, &palette, &format!("t{number}"), &rare_key(chart))) }
                }
            }
        }
        (html_table(&["Quantity", "Now", "A day", "Limit", "When", "What changed"], &rows))
        @if more > 0 {
            p.dim { (more) " more: see " code { "why --json" } "." }
        }
    }
}

fn table_row(trend: &Trend, zone: &DisplayZone) -> Vec<Markup> {
    let show = |v: f64| format_unbroken(v, trend.display_unit());
    let interval = match (trend.slope_low, trend.slope_high) {
        (Some(low), Some(high)) => format!("{} to {}", show(low), show(high)),
        _ => "unknown".to_owned(),
    };
    let changed =
        if trend.shape == TrendShape::Line { String::new() } else { change_text(trend, zone).unwrap_or_default() };
    vec![
        trend_name(trend).render(),
        show(trend.now).render(),
        html! { (show(trend.slope_per_day)) " " span.dim { "(" (interval) ")" } },
        html! { (show(trend.limit)) " " (mark_id(&trend.rule)) },
        crossing_text(trend, zone).unwrap_or_default().render(),
        changed.render(),
    ]
}

/// Charts a trend's own points; `None` if it has none.
fn trend_chart(verdict: &Verdict, trend: &Trend) -> Option<Chart> {
    let (from_ns, to_ns) = (parse_rfc3339(&verdict.window.from)?, parse_rfc3339(&verdict.window.to)?);
    let bucket = |v: &Option<f64>| ChartBucket::from_value(*v);
    let line = ChartLine { instance: trend.instance.clone(), buckets: trend.series.iter().map(bucket).collect() };
    line.summary()?;
    let mut chart = Chart::new(&trend.counter, from_ns, to_ns, vec![line]);
    chart.title = trend_name(trend);
    chart.unit = trend.display_unit().to_owned();
    chart.limit = Some(trend.limit);
    Some(chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn puts_slopes_and_steps_in_words() {
        let verdict = fixture::sample_verdict();
        let lines = trend_lines(&verdict, &DisplayZone::utc());
        assert_eq!(
            lines,
            [
                "memory: available falls by 1.5 % per day (1.2 % to 1.8 %), now 9.5 %: crosses 5 % about 2026-11-24 \
                 (2026-11-23 to 2026-11-26)",
                "sda: average queue length rose from 0.4 requests to 6.2 requests at 2026-11-21 22:21, together with \
                 sda: time per transfer (9 ms to 48.2 ms)",
            ]
        );
    }

    #[test]
    fn omits_unknown_crossings() {
        let mut trend = fixture::sample_verdict().trends.remove(0);
        assert!(crossing_text(&trend, &DisplayZone::utc()).is_some());
        trend.crosses_latest = None;
        assert!(
            crossing_text(&trend, &DisplayZone::utc()).unwrap().ends_with("about 2026-11-24, not before 2026-11-23")
        );
        trend.crosses = None;
        assert_eq!(crossing_text(&trend, &DisplayZone::utc()).unwrap(), "will not cross 5 % before 2026-11-23");
        trend.crosses_earliest = None;
        assert_eq!(crossing_text(&trend, &DisplayZone::utc()), None);
    }
}
