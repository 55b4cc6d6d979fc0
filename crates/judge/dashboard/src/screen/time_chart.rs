//! The timeline: quantities over time, as tall as the screen allows, with marks, cursor and times.

use diskwright_base::units::format_value;
use diskwright_report::sparkline::tall_sparkline;
use diskwright_report::text::display_width;

use super::WatchScreen;
use super::layout::{ScreenLayout, TIMELINE_ROWS};
use super::pen::{Pen, Tone};
use crate::timeline::TimelineView;
use crate::view::DashboardView;

/// Fewest rows of another quantity: its title and values that show more than eight heights.
const MIN_OTHER_ROWS: u16 = 3;
/// From this number of rows on, values are drawn on a scale of their own, which the title names.
const MIN_SCALED_ROWS: usize = 3;
/// Scales of fractions.
const FRACTION_SCALES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// Draws quantities over time, marks, cursor, and times.
pub(super) fn draw_timeline(pen: &mut Pen<'_>, screen: &mut WatchScreen, view: &DashboardView, layout: &ScreenLayout) {
    // a low screen has no rows for it below the devices
    if layout.timeline < layout.strips {
        return;
    }
    let columns = pen.area.width.saturating_sub(2).max(1);
    screen.timeline_area = (layout.timeline, layout.timeline_rows, 1, columns);
    let column_at = |time_ns: i64| {
        let share = (time_ns - view.span.0) as f64 / (view.span.1 - view.span.0).max(1) as f64;
        1 + (share * f64::from(columns)).clamp(0.0, f64::from(columns - 1)) as u16
    };
    let mark_at_cursor = view.marks.iter().rev().find(|mark| column_at(mark.time_ns) == column_at(view.cursor_ns));
    let text = mark_at_cursor.map(|mark| format!("{}: {}", mark.kind, mark.text));
    let rows = divide_chart_rows(layout.timeline_rows, view.other_timelines.len());
    let mut top = layout.timeline;
    let quantities = std::iter::once(&view.timeline).chain(&view.other_timelines);
    for (number, (quantity, chart_rows)) in quantities.zip(rows).enumerate() {
        let title = text.as_deref().filter(|_| number == 0);
        draw_quantity(pen, quantity, title, (top, chart_rows));
        top += 1 + chart_rows;
    }
    for mark in &view.marks {
        let (sign, tone) = match mark.kind.as_str() {
            "bookmark" => ("m", Tone::Good),
            "gap" | "missed" | "clock" => ("g", Tone::Warn),
            "alert" => ("A", Tone::Bad),
            "capture" => ("c", Tone::Good),
            _ => ("!", Tone::Warn),
        };
        pen.write_text((column_at(mark.time_ns), top), 1, sign, tone);
    }
    pen.write_text((column_at(view.cursor_ns), top), 1, "^", Tone::Strong);
    for mark in pen.style.zone.axis_marks(view.span.0, view.span.1, usize::from(columns / 12)) {
        // a label that is cut off would read as another time
        let column = column_at(mark.time_ns);
        if usize::from(column) + display_width(&mark.label) <= usize::from(pen.area.width) {
            pen.write_text((column, top + 1), 12, &mark.label, Tone::Dim);
        }
    }
}

/// Rows of values of each quantity that is shown, the chosen one first: each also has a title.
fn divide_chart_rows(timeline_rows: u16, others: usize) -> Vec<u16> {
    let extra = timeline_rows.saturating_sub(TIMELINE_ROWS);
    let count = 1 + u16::try_from(others).unwrap_or(u16::MAX).min(extra / MIN_OTHER_ROWS);
    // without marks, times and titles
    let chart_rows = timeline_rows.saturating_sub(2 + count);
    (0..count).map(|number| chart_rows / count + u16::from(number < chart_rows % count)).collect()
}

/// Draws the title and the values of a quantity, from the row `top` on; `title` stands in place of its own.
fn draw_quantity(pen: &mut Pen<'_>, quantity: &TimelineView, title: Option<&str>, (top, rows): (u16, u16)) {
    let columns = pen.area.width.saturating_sub(2).max(1);
    let largest = quantity.max.iter().flatten().copied().fold(f64::NAN, f64::max);
    let (full, scale) = choose_scale(quantity, largest, rows.into());
    let text = match (title, largest.is_finite()) {
        (Some(title), _) => title.to_owned(),
        (None, true) => format!("{}, at most {}{scale}", quantity.title, format_value(largest, &quantity.unit)),
        (None, false) => format!("{}: not recorded in this time", quantity.title),
    };
    pen.write_text((1, top), columns, &text, Tone::Dim);
    let values: Vec<f64> = quantity.max.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let lines = tall_sparkline(&values, full, (columns.into(), rows.into()), pen.style.unicode);
    for (line, row) in lines.iter().zip(top + 1..) {
        pen.write_text((1, row), columns, line, Tone::Plain);
    }
}

/// The value at full height, if not the largest, and how the title names it.
fn choose_scale(quantity: &TimelineView, largest: f64, rows: usize) -> (Option<f64>, String) {
    if quantity.unit != "fraction" {
        return (None, String::new());
    }
    if rows < MIN_SCALED_ROWS {
        return (Some(1.0), String::new());
    }
    let full = FRACTION_SCALES.into_iter().find(|scale| largest <= *scale).unwrap_or(1.0);
    (Some(full), format!(" (scale: 0 to {})", format_value(full, "fraction")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_used_and_the_chosen_quantity_is_the_tallest() {
        for (timeline_rows, others, expected) in [
            (4, 2, vec![1]),
            (6, 2, vec![3]),
            (7, 2, vec![2, 1]),
            (10, 2, vec![2, 2, 1]),
            (20, 2, vec![5, 5, 5]),
            (20, 0, vec![17]),
        ] {
            let rows = divide_chart_rows(timeline_rows, others);
            assert_eq!(rows, expected, "{timeline_rows}");
            assert_eq!(rows.iter().sum::<u16>() + expected.len() as u16 + 2, timeline_rows);
        }
    }

    #[test]
    fn low_fractions_are_drawn_on_a_scale_that_the_title_names() {
        let quantity = TimelineView { unit: "fraction".into(), ..TimelineView::default() };
        assert_eq!(choose_scale(&quantity, 0.2, 1), (Some(1.0), String::new()));
        assert_eq!(choose_scale(&quantity, 0.2, 5), (Some(0.25), " (scale: 0 to 25 %)".into()));
        assert_eq!(choose_scale(&quantity, f64::NAN, 5).0, Some(1.0));
        assert_eq!(choose_scale(&TimelineView::default(), 7.0, 5), (None, String::new()));
    }
}
