//! The tables of devices and processes: selection and order of their rows, and their cells.

use diskwright_base::catalogue::display_unit;
use diskwright_report::sparkline::sparkline;
use diskwright_report::text::{cut_text, pad_left, pad_right};

use super::draw::{Pen, Tone};
use super::figures::{self, format_figure};
use super::layout::{HISTORY_COLUMNS, ScreenLayout};
use super::{DeviceArea, WatchScreen};
use crate::devices::DeviceRow;
use crate::process_means::ProcessSummary;
use crate::view::DashboardView;

/// Columns of a value: one more than its widest figure, as a separator.
pub(super) const VALUE_COLUMNS: usize = figures::MAX_WIDTH + 1;
/// Columns of a device's name, with the sign before it.
pub(super) const NAME_COLUMNS: usize = 10;
/// Columns of a process's value.
const PROCESS_VALUE_COLUMNS: usize = 8;

/// Number of devices that match the filter.
pub(super) fn device_count(screen: &WatchScreen, view: &DashboardView) -> usize {
    view.devices.iter().filter(|row| row.name.contains(&screen.filter)).count()
}

/// Devices that match the filter, in the chosen order. Without one, and where not all fit, the blamed device comes
/// first and busy devices come before idle ones.
pub(super) fn visible_devices<'v>(screen: &WatchScreen, view: &'v DashboardView, room: u16) -> Vec<&'v DeviceRow> {
    let mut rows: Vec<&DeviceRow> = view.devices.iter().filter(|row| row.name.contains(&screen.filter)).collect();
    // values are compared coarsely, so that rows of similar values do not keep changing places
    if let Some(column) = screen.sorted {
        rows.sort_by_key(|row| std::cmp::Reverse(sort_level(device_value(row, column).unwrap_or(0.0))));
    } else if rows.len() > usize::from(room) {
        let busiest = |row: &DeviceRow| row.history.iter().flatten().copied().fold(0.0, f64::max);
        rows.sort_by_key(|row| std::cmp::Reverse((is_blamed(row, view), sort_level(busiest(row)))));
    }
    rows
}

/// True for the device that the verdict blames.
fn is_blamed(row: &DeviceRow, view: &DashboardView) -> bool {
    let blamed = view.verdict.as_ref().map(|verdict| verdict.instance.as_str()).unwrap_or_default();
    !blamed.is_empty() && row.name == blamed
}

/// Value of a device in a column; the column after the panel's is the share of the ceiling.
pub(super) fn device_value(row: &DeviceRow, column: usize) -> Option<f64> {
    row.values.get(column).copied().unwrap_or(row.ceiling_used)
}

/// Coarse logarithmic level of a value: values that differ by less than a quarter usually share one.
fn sort_level(value: f64) -> i32 {
    if value > 0.0 { (value.log2() * 3.0).floor() as i32 } else { i32::MIN }
}

/// Processes that match the filter by name or cgroup, in the chosen order.
pub(super) fn visible_processes<'v>(screen: &WatchScreen, view: &'v DashboardView) -> Vec<&'v ProcessSummary> {
    let shown = |row: &&ProcessSummary| row.name.contains(&screen.filter) || row.cgroup.contains(&screen.filter);
    let mut rows: Vec<&ProcessSummary> = view.processes.iter().filter(shown).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(sort_level(screen.order.sort_value(row))), row.pid));
    rows
}

/// Columns that fit, scrolled so that the selected one is visible. The share of the ceiling is always last; where no
/// ceiling is known, it is shown only if there is room.
fn shown_columns(screen: &WatchScreen, view: &DashboardView, width: u16) -> Vec<usize> {
    let count = view.columns.len();
    let room = usize::from(width).saturating_sub(NAME_COLUMNS) / VALUE_COLUMNS;
    if !view.devices.iter().any(|row| row.ceiling_known) {
        let fit = room.min(count + 1);
        let first = (screen.column.min(count) + 1).saturating_sub(fit);
        return (first..first + fit).collect();
    }
    let fit = room.saturating_sub(1).min(count);
    let first = if screen.column < count { (screen.column + 1).saturating_sub(fit) } else { 0 };
    (first..first + fit).chain([count]).collect()
}

fn column_title(view: &DashboardView, column: usize) -> &str {
    view.columns.get(column).map_or("of max", |column| &column.title)
}

fn column_unit(view: &DashboardView, column: usize) -> &str {
    view.columns.get(column).map_or("fraction", |column| display_unit(&column.counter, &column.unit))
}

/// Draws the heading and the rows of devices around the selected one.
pub(super) fn draw_devices(
    pen: &mut Pen<'_>,
    screen: &mut WatchScreen,
    view: &DashboardView,
    rows: &[&DeviceRow],
    layout: &ScreenLayout,
) {
    let width = pen.area.width;
    let columns = shown_columns(screen, view, width);
    let shown = usize::from(layout.device_rows);
    let first = (screen.selected + 1).saturating_sub(shown).min(rows.len().saturating_sub(shown));
    // the number of further devices replaces the title of the name column
    let below = rows.len().saturating_sub(first + shown);
    let name = if below > 0 { format!("dev +{below}") } else { "device".to_owned() };
    let is_moved = columns.first().is_some_and(|first| *first > 0 && *first < view.columns.len());
    let name = if is_moved { format!("{} <", cut_text(&name, NAME_COLUMNS - 3, "")) } else { name };
    pen.write_text(
        (0, layout.devices),
        width,
        &pad_right(&cut_text(&name, NAME_COLUMNS - 1, ""), NAME_COLUMNS),
        Tone::Strong,
    );
    for (place, column) in columns.iter().enumerate() {
        let sorted = if screen.sorted == Some(*column) { "*" } else { "" };
        let text = pad_left(
            &cut_text(&pen.clean_text(&format!("{sorted}{}", column_title(view, *column))), VALUE_COLUMNS - 1, ""),
            VALUE_COLUMNS,
        );
        let tone = if *column == screen.column { Tone::Inverse } else { Tone::Strong };
        // the space before the title is no part of it
        let column = u16::try_from(NAME_COLUMNS + place * VALUE_COLUMNS + 1).unwrap_or(u16::MAX);
        pen.write_text((column, layout.devices), width, text.get(1..).unwrap_or_default(), tone);
    }
    screen.table = DeviceArea { top: layout.devices, rows: layout.device_rows, first, columns };
    if rows.is_empty() {
        let text = match screen.filter.is_empty() {
            true => "no disk was recorded in this time".to_owned(),
            false => format!("no disk has `{}` in its name; / changes that", screen.filter),
        };
        pen.write_text((0, layout.devices + 1), width, &text, Tone::Dim);
        return;
    }
    let visible = rows.iter().enumerate().skip(first).take(shown);
    for ((index, row), line) in visible.zip(layout.devices + 1..) {
        draw_device(pen, screen, view, (index, row), (line, &screen.table.columns, rows.len()));
    }
}

fn draw_device(
    pen: &mut Pen<'_>,
    screen: &WatchScreen,
    view: &DashboardView,
    (index, row): (usize, &DeviceRow),
    (line, columns, count): (u16, &[usize], usize),
) {
    let is_blamed = is_blamed(row, view);
    // state is shown by a sign first, and by a colour where there are colours
    let name = format!("{}{}", if is_blamed { "!" } else { " " }, pen.clean_text(&row.name));
    let cells: String = columns.iter().fold(String::new(), |text, column| {
        text + &pad_left(&format_figure(device_value(row, *column), column_unit(view, *column)), VALUE_COLUMNS)
    });
    let tone = match (index == screen.selected && count > 1, is_blamed) {
        (true, _) => Tone::Inverse,
        (false, true) => Tone::Bad,
        _ => Tone::Plain,
    };
    let text = format!("{}{cells}", pad_right(&cut_text(&name, NAME_COLUMNS - 1, "~"), NAME_COLUMNS));
    let used = pen.write_text((0, line), pen.area.width, &text, tone);
    draw_history(pen, row, (used + 1, line));
}

/// Draws the device's quantity over the timeline, where there is room.
fn draw_history(pen: &mut Pen<'_>, row: &DeviceRow, (column, line): (u16, u16)) {
    if usize::from(pen.area.width.saturating_sub(column)) < HISTORY_COLUMNS {
        return;
    }
    let values: Vec<f64> = row.history.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let drawn = sparkline(&values, None, HISTORY_COLUMNS, pen.style.unicode);
    pen.write_text((column, line), HISTORY_COLUMNS as u16, &drawn, Tone::Dim);
}

/// Draws the heading and rows of processes.
pub(super) fn draw_processes(pen: &mut Pen<'_>, screen: &WatchScreen, rows: &[&ProcessSummary], layout: &ScreenLayout) {
    if layout.process_rows == 0 {
        return;
    }
    let width = pen.area.width;
    let titles: String = ["CPU", "rd B/s", "wr B/s", "I/O wait", "faults/s", "memory"]
        .iter()
        .map(|title| pad_left(title, PROCESS_VALUE_COLUMNS + 1))
        .collect();
    let by = format!("process, by {}", screen.order.title());
    let heading = format!("{}{}{titles}", pad_right(&cut_text(&by, 18, ""), 18), pad_left("pid", 8));
    pen.write_text((0, layout.processes), width, &heading, Tone::Strong);
    for (row, line) in rows.iter().zip(layout.processes + 1..=layout.processes + layout.process_rows) {
        let values = [
            (Some(row.processor), "fraction"),
            (row.read_bytes_per_s, "bytes_per_s"),
            (row.write_bytes_per_s, "bytes_per_s"),
            (row.block_delay, "fraction"),
            (Some(row.major_faults_per_s), "per_s"),
            (Some(row.resident_bytes), "bytes"),
        ];
        let cells: String = values
            .into_iter()
            .map(|(value, unit)| pad_left(&format_figure(value, unit), PROCESS_VALUE_COLUMNS + 1))
            .collect();
        let group = if width > 120 { format!("  {}", row.cgroup) } else { String::new() };
        let name = cut_text(&pen.clean_text(&row.name), 17, "~");
        let text = format!("{}{}{cells}{group}", pad_right(&name, 18), pad_left(&row.pid.to_string(), 8));
        pen.write_text((0, line), width, &text, Tone::Plain);
    }
}
