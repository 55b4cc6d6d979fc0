//! Draws the view into cells.

use diskwright_base::catalogue::display_unit;
use diskwright_base::units::format_value;
use diskwright_diagnosis::verdict::VerdictBottleneck;
use diskwright_diagnosis::{Bottleneck, Severity, Verdict};
use diskwright_report::DisplayZone;
use diskwright_report::events::event_lines;
use diskwright_report::identity::culprit_summary;
use diskwright_report::remedies::{Remedy, remedies_in_order};
use diskwright_report::text::{cut_text, wrap};
use ratatui::buffer::Buffer;

use super::figures::{self, format_figure};
use super::help::{self, KEYS};
use super::layout::{self, RowDemand, ScreenLayout};
use super::pen::{Pen, ScreenStyle, Tone};
use super::{ScreenInput, WatchScreen, details, tables, time_chart};
use crate::alerts::Alert;
use crate::process_means::ProcessOrder;
use crate::view::DashboardView;

/// Resources that this program itself uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnCost {
    /// Share of one processor; `None` before it is known.
    pub processor: Option<f64>,
    /// Resident memory, bytes.
    pub resident_bytes: Option<f64>,
}

/// Draws the view into a buffer of any size; notes in `screen` the selection, and where tables and timeline are, for
/// mouse clicks.
pub fn draw_screen(
    screen: &mut WatchScreen,
    view: &DashboardView,
    cost: OwnCost,
    style: &ScreenStyle,
    buffer: &mut Buffer,
) {
    let area = *buffer.area();
    buffer.reset();
    let mut pen = Pen { buffer, style, area };
    if let Some((text, line)) = &mut screen.page {
        return draw_page(&mut pen, text, line);
    }
    if screen.help {
        return draw_help(&mut pen, screen, view);
    }
    if !screen.is_order_chosen {
        screen.order = ProcessOrder::of_blamed(view.verdict.as_ref()).first().copied().unwrap_or_default();
    }
    let (count, processes) = (tables::device_count(screen, view), tables::visible_processes(screen, view));
    let alerts = current_alerts(view);
    let max_alert_rows = if area.height < 20 { 1 } else { 2 };
    let alert_rows = u16::try_from(alerts.len()).unwrap_or(max_alert_rows).min(max_alert_rows);
    let detail_lines = details::detail_lines(&pen, view.verdict.as_ref());
    let demand = RowDemand {
        devices: count,
        strips: view.strips.len(),
        processes: tables::count_process_lines(&pen, &processes),
        details: detail_lines.len(),
    };
    let layout = layout::divide_rows(area.height, layout::HEADER_ROWS + alert_rows, demand);
    let devices = tables::visible_devices(screen, view, layout.device_rows);
    draw_heading(&mut pen, screen, view);
    draw_verdict(&mut pen, view.verdict.as_ref(), layout.detail_rows == 0);
    draw_alerts(&mut pen, &alerts, alert_rows, view.cursor_ns);
    screen.find_selected(&devices);
    tables::draw_devices(&mut pen, screen, view, &devices, &layout);
    draw_strips(&mut pen, view, &layout);
    tables::draw_processes(&mut pen, screen, &processes, &layout);
    details::draw_details(&mut pen, &detail_lines, &layout);
    time_chart::draw_timeline(&mut pen, screen, view, &layout);
    draw_footer(&mut pen, screen, cost);
}

/// Draws the host, its state, and the time.
fn draw_heading(pen: &mut Pen<'_>, screen: &WatchScreen, view: &DashboardView) {
    let state = match (screen.is_live(), screen.is_following_end()) {
        (true, true) => "live",
        (true, false) => "paused",
        (false, _) => "log",
    };
    let host = if view.host.is_empty() { "this machine" } else { &view.host };
    let moment = pen.style.zone.format_moment(view.cursor_ns);
    let length = |(from, to): (i64, i64)| diskwright_report::time::format_duration((to - from) as f64 * 1e-9);
    let details =
        format!("  {state}  {moment}  values: mean of {}, verdict: {}", length(view.shown), length(view.judged));
    let width = pen.area.width;
    // a long host name is cut so that the time fits, but not below eight columns
    let host_columns = usize::from(width).saturating_sub(details.len()).max(8);
    pen.write_text(
        (0, 0),
        width,
        &format!("{}{details}", cut_text(&pen.clean_text(host), host_columns, "~")),
        Tone::Strong,
    );
}

/// Largest width of who a culprit is below the verdict, in cells.
const MAX_CULPRIT_COLUMNS: usize = 100;

/// Draws the verdict, its first advice unless the rows below the processes have it, and who does it.
fn draw_verdict(pen: &mut Pen<'_>, verdict: Option<&Verdict>, shows_advice: bool) {
    let width = pen.area.width;
    let Some(verdict) = verdict else {
        pen.write_text((0, 1), width, "too few ticks to judge", Tone::Dim);
        return;
    };
    let severity = verdict.findings.first().map(|finding| finding.severity);
    let tone = match (verdict.bottleneck, severity) {
        (Bottleneck::None, _) => Tone::Good,
        (Bottleneck::Unknown, _) => Tone::Warn,
        (_, Some(Severity::Critical)) => Tone::Bad,
        _ => Tone::Warn,
    };
    let lines = match verdict.bottlenecks.as_slice() {
        [] | [_] => wrap(&pen.clean_text(&verdict.sentence), usize::from(width), 0),
        // of several bottlenecks, each has its row
        several => {
            let sentence = |listed: &VerdictBottleneck| pen.clean_text(&listed.sentence);
            several.iter().map(|listed| cut_text(&sentence(listed), usize::from(width), "...")).collect()
        }
    };
    pen.write_text((0, 1), width, lines.first().map_or("", String::as_str), tone);
    // who does it is worth more than what is said below, but that is worth more than a blank row
    let first = remedies_in_order(verdict).into_iter().next();
    let advice = first.filter(|_| shows_advice || verdict.culprits.is_empty()).map(|remedy| remedy_line(&remedy));
    let who = verdict
        .culprits
        .first()
        .map(|culprit| format!("Who: {}, {}", culprit_summary(culprit, MAX_CULPRIT_COLUMNS), culprit.description));
    // the sentence includes the evidence; a long sentence is cut so that the advice fits
    let more = if lines.len() > 2 { "..." } else { "" };
    let second =
        lines.get(1).map(|line| format!("{}{more}", cut_text(line, usize::from(width).saturating_sub(more.len()), "")));
    // a kill, or a filesystem or device that failed, comes before more about the bottleneck
    let event = event_lines(verdict, &pen.style.zone).into_iter().next();
    let event_tone = if event.is_some() { Tone::Bad } else { Tone::Plain };
    let tones = [event_tone, Tone::Plain];
    let second = second.filter(|_| event.is_none() || (advice.is_none() && who.is_none()));
    let further_lines = event.into_iter().chain(second).chain(advice).chain(who);
    for ((row, text), tone) in (2..layout::HEADER_ROWS).zip(further_lines).zip(tones) {
        pen.write_text((0, row), width, &cut_text(&pen.clean_text(&text), usize::from(width), "..."), tone);
    }
}

/// The first remedy in one line, with a label: `Do first` if it can be typed now, else `For later`.
fn remedy_line(remedy: &Remedy) -> String {
    let label = if remedy.is_act() { "Do first" } else { "For later" };
    format!("{label}: {}", remedy.sentence())
}

/// Alerts that are open at the cursor, the most severe first, the newest of these first.
fn current_alerts(view: &DashboardView) -> Vec<&Alert> {
    let is_open =
        |alert: &&Alert| alert.begin_ns <= view.cursor_ns && alert.end_ns.is_none_or(|end_ns| end_ns >= view.cursor_ns);
    let mut alerts: Vec<&Alert> = view.alerts.iter().filter(is_open).collect();
    alerts.sort_by_key(|alert| std::cmp::Reverse((alert.severity, alert.begin_ns)));
    alerts
}

/// Draws a line for each alert, in at most `rows` rows; the last line ends with the number of alerts that are not
/// shown.
fn draw_alerts(pen: &mut Pen<'_>, alerts: &[&Alert], rows: u16, now_ns: i64) {
    let width = pen.area.width;
    for (alert, row) in alerts.iter().zip(0..rows) {
        let more = alerts.len().saturating_sub(usize::from(rows));
        let more = if row + 1 == rows && more > 0 { format!("  (+{more}, press a)") } else { String::new() };
        let since = since_text(&pen.style.zone, alert.begin_ns, now_ns);
        let text_columns = usize::from(width).saturating_sub(more.len());
        let text = pen.clean_text(&format!("! ALERT {} since {since}: {}", alert.id, alert.sentence));
        let text = cut_text(&text, text_columns, "...");
        let tone = if alert.severity == Severity::Critical { Tone::Bad } else { Tone::Warn };
        pen.write_text((0, layout::HEADER_ROWS + row), width, &format!("{text}{more}"), tone);
    }
}

/// Time of the day; with the date where that is not the date of `now_ns`.
fn since_text(zone: &DisplayZone, time_ns: i64, now_ns: i64) -> String {
    let (then, now) = (zone.format_moment(time_ns), zone.format_moment(now_ns));
    let is_same_day = then.get(..10) == now.get(..10);
    if is_same_day { zone.format_clock(time_ns) } else { then.get(..19).unwrap_or_default().to_owned() }
}

/// Draws the lines of values of the whole machine.
fn draw_strips(pen: &mut Pen<'_>, view: &DashboardView, layout: &ScreenLayout) {
    for (strip, row) in view.strips.iter().zip(layout.strips..layout.strips + layout.strip_rows) {
        pen.write_text((0, row), 11, &strip.title, Tone::Strong);
        let mut column = 11;
        for (title, value) in &strip.values {
            let is_waiting = title.counter.starts_with("pressure.") && value.is_some_and(|value| value >= 0.1);
            let sign = if is_waiting { "!" } else { "" };
            let shown = format!("{}{sign}", format_figure(*value, display_unit(&title.counter, &title.unit)));
            let width = if title.unit == "fraction" { 5 } else { figures::MAX_WIDTH };
            let text = format!("{} {shown:<width$}", pen.clean_text(&title.title));
            let columns = u16::try_from(diskwright_report::text::display_width(&text)).unwrap_or(u16::MAX);
            // the last value needs no space after it
            if column + columns > pen.area.width + 1 {
                break;
            }
            column +=
                pen.write_text((column, row), columns, &text, if is_waiting { Tone::Warn } else { Tone::Plain }) + 1;
        }
    }
}

/// Draws the keys, the typed line or a message, and the program's own cost.
fn draw_footer(pen: &mut Pen<'_>, screen: &WatchScreen, cost: OwnCost) {
    let row = pen.area.height.saturating_sub(1);
    let message = screen.message.as_ref().or(screen.missing.as_ref());
    let text = match (&screen.input, message) {
        (Some((ScreenInput::Mark(time_ns), text)), _) => {
            format!("bookmark at {}: {text}_", pen.style.zone.format_clock(*time_ns))
        }
        (Some((ScreenInput::Filter, text)), _) => format!("show names with: {text}_"),
        (Some((ScreenInput::Time, text)), _) => format!("go to (22:15, 2026-11-21 22:15, -10m): {text}_"),
        (None, Some(message)) => message.clone(),
        (None, None) if !screen.filter.is_empty() => {
            format!("only names with `{}`: / changes it  ? help", screen.filter)
        }
        (None, None) => "? help  space pause  arrows scrub  + - zoom  m mark  q quit".to_owned(),
    };
    let shown =
        |value: Option<f64>, unit: &str| value.map_or_else(|| "-".to_owned(), |value| format_value(value, unit));
    let costs = format!("own cost: {} CPU, {}", shown(cost.processor, "fraction"), shown(cost.resident_bytes, "bytes"));
    let width = pen.area.width;
    let right = u16::try_from(costs.len()).unwrap_or(u16::MAX);
    pen.write_text((0, row), width, &text, Tone::Plain);
    if usize::from(width) > text.len() + costs.len() + 2 {
        pen.write_text((width - right, row), right, &costs, Tone::Dim);
    }
}

/// Draws a page of text, from its line number `first_line` on; limits that number so that the last page is full.
fn draw_page(pen: &mut Pen<'_>, text: &str, first_line: &mut usize) {
    let (width, rows) = (pen.area.width, pen.area.height.saturating_sub(1));
    // long lines are wrapped, and what continues one is indented below it; tables that fit stay unchanged
    let fold = |line: String| {
        if diskwright_report::text::display_width(&line) <= usize::from(width) {
            return vec![line];
        }
        let indent = (line.len() - line.trim_start().len()).min(usize::from(width) / 2);
        let folded = wrap(line.trim_start(), usize::from(width).saturating_sub(indent + 2).max(1), 0);
        let prefix = |index: usize| " ".repeat(if index == 0 { indent } else { indent + 2 });
        folded.iter().enumerate().map(|(index, line)| format!("{}{line}", prefix(index))).collect()
    };
    let folded: Vec<String> = text.lines().map(|line| pen.clean_text(line)).flat_map(fold).collect();
    let hidden_lines = folded.len().saturating_sub(usize::from(rows));
    *first_line = (*first_line).min(hidden_lines);
    for (line, row) in folded.iter().skip(*first_line).zip(0..rows) {
        pen.write_text((0, row), width, line, Tone::Plain);
    }
    let keys = if hidden_lines == 0 { "any key: back" } else { "up, down: scroll   any other key: back" };
    let last = (*first_line + usize::from(rows)).min(folded.len());
    let position = if hidden_lines == 0 {
        String::new()
    } else {
        format!("   lines {}-{last} of {}", *first_line + 1, folded.len())
    };
    pen.write_text((0, rows), width, &format!("{keys}{position}"), Tone::Dim);
}

/// Draws the list of keys and the explanation of the selected column.
fn draw_help(pen: &mut Pen<'_>, screen: &WatchScreen, view: &DashboardView) {
    let width = pen.area.width;
    let mut row = 0;
    for (keys, meaning) in KEYS {
        pen.write_text((0, row), 13, keys, Tone::Strong);
        pen.write_text((13, row), width, meaning, Tone::Plain);
        row += 1;
    }
    row += 1;
    let (title, counter, text) = help::explain_column(view, screen.column);
    pen.write_text((0, row), 13, &title, Tone::Strong);
    let text_columns = usize::from(width.saturating_sub(13));
    let lines = wrap(&format!("{counter}: {text}"), text_columns, 0);
    let rows = usize::from(pen.area.height.saturating_sub(row)).max(1);
    for (index, line) in lines.iter().take(rows).enumerate() {
        let is_cut = index + 1 == rows && lines.len() > rows;
        let text = if is_cut {
            format!("{} ... (e)", cut_text(line, text_columns.saturating_sub(8), ""))
        } else {
            line.clone()
        };
        pen.write_text((13, row), width, &text, Tone::Plain);
        row += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_that_began_on_another_day_has_its_date() {
        const HOUR: i64 = 3_600_000_000_000;
        // 2026-11-21 22:00:00 UTC
        let begin = 1_795_298_400_000_000_000;
        let utc = DisplayZone::utc();
        assert_eq!(since_text(&utc, begin, begin + HOUR), "22:00:00");
        assert_eq!(since_text(&utc, begin, begin + 24 * HOUR), "2026-11-21 22:00:00");
    }
}
