//! The tables of devices and of processes: which rows, in which order, and their cells.

use diskwright_base::units::display;
use diskwright_report::spark::sparkline;
use diskwright_report::text::{cut, left, right};

use super::WatchScreen;
use super::draw::{Pen, Tone};
use super::layout::{HISTORY, ScreenLayout};
use crate::devices::DeviceRow;
use crate::processes::ProcessSummary;
use crate::view::DashboardView;

/// Columns of a value.
const VALUE: usize = 10;
/// Columns of a device's name.
const NAME: usize = 12;

/// Those that the filter leaves, in the order that was chosen.
pub(super) fn devices<'v>(screen: &WatchScreen, view: &'v DashboardView) -> Vec<&'v DeviceRow> {
    let mut rows: Vec<&DeviceRow> = view.devices.iter().filter(|row| row.name.contains(&screen.filter)).collect();
    if let Some(column) = screen.sorted {
        let key = |row: &DeviceRow| row.values.get(column).copied().flatten().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
    rows
}

/// The same for processes, the most first.
pub(super) fn processes<'v>(screen: &WatchScreen, view: &'v DashboardView) -> Vec<&'v ProcessSummary> {
    let shown = |row: &&ProcessSummary| row.name.contains(&screen.filter) || row.cgroup.contains(&screen.filter);
    let mut rows: Vec<&ProcessSummary> = view.processes.iter().filter(shown).collect();
    rows.sort_by(|a, b| screen.order.key(b).total_cmp(&screen.order.key(a)).then(a.pid.cmp(&b.pid)));
    rows
}

/// A value in its columns; what was not measured is a dash, never a nothing.
fn cell(value: Option<f64>, unit: &str) -> String {
    let text = value.map_or_else(|| "-".to_owned(), |value| display(value, unit));
    right(&cut(&text, VALUE - 1, ""), VALUE)
}

/// Columns that fit beside name, history and the share of the ceiling.
fn fitting(width: u16, columns: usize) -> usize {
    (usize::from(width).saturating_sub(NAME + 8) / VALUE).min(columns)
}

/// Heading and rows of devices, those around the selected one.
pub(super) fn draw_devices(
    pen: &mut Pen<'_>,
    screen: &WatchScreen,
    view: &DashboardView,
    rows: &[&DeviceRow],
    layout: &ScreenLayout,
) {
    let width = pen.area.width;
    let count = fitting(width, view.columns.len());
    let titles: String = view.columns.iter().take(count).enumerate().fold(String::new(), |text, (index, column)| {
        let sorted = if screen.sorted == Some(index) { "*" } else { "" };
        text + &right(&cut(&format!("{}{sorted}", column.title), VALUE - 1, ""), VALUE)
    });
    let heading = format!("{}{titles}{}", left("device", NAME), right("of max", 8));
    pen.text((0, layout.devices), width, &heading, Tone::Strong);
    if rows.is_empty() {
        pen.text((0, layout.devices + 1), width, "no device with that name was recorded here", Tone::Dim);
        return;
    }
    let shown = usize::from(layout.device_rows);
    let first = (screen.selected + 1).saturating_sub(shown).min(rows.len().saturating_sub(shown));
    let blamed = view.verdict.as_ref().map(|verdict| verdict.instance.as_str()).unwrap_or_default();
    let visible = rows.iter().enumerate().skip(first).take(shown);
    for ((index, row), line) in visible.zip(layout.devices + 1..) {
        let is_blamed = !blamed.is_empty() && row.name == blamed;
        let name = format!("{}{}", if is_blamed { "!" } else { " " }, row.name);
        let values: String = row
            .values
            .iter()
            .zip(&view.columns)
            .take(count)
            .fold(String::new(), |text, (value, column)| text + &cell(*value, &column.unit));
        let used = row.ceiling_used.map_or_else(|| "-".to_owned(), |used| display(used, "fraction"));
        let text = format!("{}{values}{}", left(&cut(&name, NAME - 1, "~"), NAME), right(&used, 8));
        let tone = match (index == screen.selected && rows.len() > 1, is_blamed) {
            (true, _) => Tone::Inverse,
            (false, true) => Tone::Bad,
            _ => Tone::Plain,
        };
        let columns = pen.text((0, line), width, &text, tone);
        history(pen, row, (columns + 1, line));
    }
}

/// The device's quantity over the time line, where there is room.
fn history(pen: &mut Pen<'_>, row: &DeviceRow, (column, line): (u16, u16)) {
    if usize::from(pen.area.width.saturating_sub(column)) < HISTORY {
        return;
    }
    let values: Vec<f64> = row.history.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let drawn = sparkline(&values, None, HISTORY, pen.style.unicode);
    pen.text((column, line), HISTORY as u16, &drawn, Tone::Dim);
}

/// Heading and rows of processes.
pub(super) fn draw_processes(pen: &mut Pen<'_>, screen: &WatchScreen, rows: &[&ProcessSummary], layout: &ScreenLayout) {
    if layout.process_rows == 0 {
        return;
    }
    let width = pen.area.width;
    let titles: String =
        ["CPU", "read B/s", "write B/s", "I/O delay", "memory"].iter().map(|title| right(title, VALUE)).collect();
    let by = format!("process, by {}", screen.order.title());
    let heading = format!("{}{}{titles}", left(&cut(&by, 21, ""), 22), right("pid", 4));
    pen.text((0, layout.processes), width, &heading, Tone::Strong);
    for (row, line) in rows.iter().zip(layout.processes + 1..=layout.processes + layout.process_rows) {
        let values = [
            (Some(row.processor), "fraction"),
            (row.read_bytes_per_s, "bytes_per_s"),
            (row.write_bytes_per_s, "bytes_per_s"),
            (row.block_delay, "fraction"),
            (Some(row.resident_bytes), "bytes"),
        ];
        let cells: String = values.into_iter().map(|(value, unit)| cell(value, unit)).collect();
        let text = format!("{}{}{cells}", left(&cut(&row.name, 17, "~"), 18), right(&row.pid.to_string(), 8));
        pen.text((0, line), width, &text, Tone::Plain);
    }
}
