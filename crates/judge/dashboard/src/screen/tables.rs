//! The tables of devices and processes: selection and order of their rows, and their cells.

use diskwright_base::catalogue::display_unit;
use diskwright_base::process_place::place_of_cgroup;
use diskwright_report::identity::identity_line;
use diskwright_report::sparkline::sparkline;
use diskwright_report::text::{cut_text, pad_left, pad_right};

use super::draw::{Pen, Tone};
use super::figures::{self, format_figure};
use super::layout::{HISTORY_COLUMNS, ScreenLayout};
use super::{DeviceArea, WatchScreen};
use crate::devices::DeviceRow;
use crate::process_means::ProcessSummary;
use crate::view::DashboardView;

/// Width of a value in cells: one more than its widest figure, as a separator.
pub(super) const VALUE_WIDTH: usize = figures::MAX_WIDTH + 1;
/// Width of a device's name in cells, with the sign before it.
pub(super) const NAME_WIDTH: usize = 10;
/// Width of a process's name in cells, with a space after it.
const PROCESS_NAME_WIDTH: usize = 18;
/// Width of a process's number in cells.
const PROCESS_ID_WIDTH: usize = 8;
/// Width of a process's value in cells, with a space before it.
const PROCESS_VALUE_WIDTH: usize = 9;
/// Width of the table of processes in cells: name, number and six values.
const PROCESS_COLUMNS: usize = PROCESS_NAME_WIDTH + PROCESS_ID_WIDTH + 6 * PROCESS_VALUE_WIDTH;
/// Width of the screen in cells above which command lines or cgroups of processes stand in their rows.
const MAX_WIDTH_WITHOUT_CGROUPS: u16 = 120;

/// A column of the table of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceColumn {
    /// A column of the panel, by its position there.
    Panel(usize),
    /// The share of the device's ceiling in use, which follows the panel's columns.
    Ceiling,
}

impl DeviceColumn {
    /// Returns the column at a position.
    pub(super) fn at_position(view: &DashboardView, position: usize) -> DeviceColumn {
        if position < view.columns.len() { DeviceColumn::Panel(position) } else { DeviceColumn::Ceiling }
    }

    fn title(self, view: &DashboardView) -> &str {
        match self {
            DeviceColumn::Panel(index) => &view.columns[index].title,
            DeviceColumn::Ceiling => "of max",
        }
    }

    fn unit(self, view: &DashboardView) -> &str {
        match self {
            DeviceColumn::Panel(index) => display_unit(&view.columns[index].counter, &view.columns[index].unit),
            DeviceColumn::Ceiling => "fraction",
        }
    }

    fn value(self, row: &DeviceRow) -> Option<f64> {
        match self {
            DeviceColumn::Panel(index) => row.values.get(index).copied().flatten(),
            DeviceColumn::Ceiling => row.ceiling_used,
        }
    }
}

/// Number of devices that match the filter.
pub(super) fn device_count(screen: &WatchScreen, view: &DashboardView) -> usize {
    view.devices.iter().filter(|row| row.name.contains(&screen.filter)).count()
}

/// Devices that match the filter, in the chosen order. Where no order is chosen and not all fit, the blamed device
/// comes first and busy devices come before idle ones.
pub(super) fn visible_devices<'v>(screen: &WatchScreen, view: &'v DashboardView, max_rows: u16) -> Vec<&'v DeviceRow> {
    let mut rows: Vec<&DeviceRow> = view.devices.iter().filter(|row| row.name.contains(&screen.filter)).collect();
    // values are compared coarsely, so that rows of similar values do not keep changing places
    if let Some(position) = screen.sorted {
        let column = DeviceColumn::at_position(view, position);
        rows.sort_by_key(|row| std::cmp::Reverse(sort_level(column.value(row).unwrap_or(0.0))));
    } else if rows.len() > usize::from(max_rows) {
        let busiest = |row: &DeviceRow| row.history.iter().flatten().copied().fold(0.0, f64::max);
        rows.sort_by_key(|row| std::cmp::Reverse((is_blamed(row, view), sort_level(busiest(row)))));
    }
    rows
}

/// True for a device that the verdict blames.
fn is_blamed(row: &DeviceRow, view: &DashboardView) -> bool {
    let Some(verdict) = &view.verdict else { return false };
    let mut instances = verdict.bottlenecks.iter().map(|listed| &listed.instance).chain([&verdict.instance]);
    instances.any(|blamed| row.name == *blamed)
}

/// Coarse logarithmic level of a value: values that differ by less than a quarter usually share one.
fn sort_level(value: f64) -> i32 {
    if value > 0.0 { (value.log2() * 3.0).floor() as i32 } else { i32::MIN }
}

/// Processes that match the filter by name or cgroup, in the chosen order.
pub(super) fn visible_processes<'v>(screen: &WatchScreen, view: &'v DashboardView) -> Vec<&'v ProcessSummary> {
    let is_shown = |row: &&ProcessSummary| row.name.contains(&screen.filter) || row.cgroup.contains(&screen.filter);
    let mut rows: Vec<&ProcessSummary> = view.processes.iter().filter(is_shown).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(sort_level(screen.order.sort_value(row))), row.pid));
    rows
}

/// Positions of the columns that fit, scrolled so that the selected one is visible. The share of the ceiling is always
/// last; where no ceiling is known, it is shown only if there is room.
fn shown_columns(screen: &WatchScreen, view: &DashboardView, width: u16) -> Vec<usize> {
    let count = view.columns.len();
    let max_columns = usize::from(width).saturating_sub(NAME_WIDTH) / VALUE_WIDTH;
    if !view.devices.iter().any(|row| row.ceiling_known) {
        let fit = max_columns.min(count + 1);
        let first = (screen.column.min(count) + 1).saturating_sub(fit);
        return (first..first + fit).collect();
    }
    let fit = max_columns.saturating_sub(1).min(count);
    // the ceiling is always shown; selecting it scrolls to the last of the other columns
    let first = (screen.column + 1).min(count).saturating_sub(fit);
    (first..first + fit).chain([count]).collect()
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
    let max_rows = usize::from(layout.device_rows);
    let first = (screen.selected + 1).saturating_sub(max_rows).min(rows.len().saturating_sub(max_rows));
    // the number of devices below the shown ones joins the title of the name column
    let below = rows.len().saturating_sub(first + max_rows);
    let name = if below > 0 { format!("dev +{below}") } else { "device".to_owned() };
    let is_scrolled = columns.first().is_some_and(|first| *first > 0 && *first < view.columns.len());
    let name = if is_scrolled { format!("{} <", cut_text(&name, NAME_WIDTH - 3, "")) } else { name };
    pen.write_text(
        (0, layout.devices),
        width,
        &pad_right(&cut_text(&name, NAME_WIDTH - 1, ""), NAME_WIDTH),
        Tone::Strong,
    );
    for (index, position) in columns.iter().enumerate() {
        let sorted = if screen.sorted == Some(*position) { "*" } else { "" };
        let title = format!("{sorted}{}", DeviceColumn::at_position(view, *position).title(view));
        let text = pad_left(&cut_text(&pen.clean_text(&title), VALUE_WIDTH - 1, ""), VALUE_WIDTH - 1);
        let tone = if *position == screen.column { Tone::Inverse } else { Tone::Strong };
        // after the space that separates the columns, which is not highlighted
        let left = u16::try_from(NAME_WIDTH + index * VALUE_WIDTH + 1).unwrap_or(u16::MAX);
        pen.write_text((left, layout.devices), width, &text, tone);
    }
    screen.table = DeviceArea { top: layout.devices, rows: layout.device_rows, first, columns };
    if rows.is_empty() {
        let text = match screen.filter.is_empty() {
            true => "no disk was recorded in this time".to_owned(),
            false => format!("no disk matches `{}`; press / to change the filter", screen.filter),
        };
        pen.write_text((0, layout.devices + 1), width, &text, Tone::Dim);
        return;
    }
    let visible = rows.iter().enumerate().skip(first).take(max_rows);
    for ((index, row), line) in visible.zip(layout.devices + 1..) {
        let is_selected = index == screen.selected && rows.len() > 1;
        draw_device(pen, screen, view, row, line, is_selected);
    }
}

/// Draws a device's row, with the columns that [`draw_devices`] has chosen.
fn draw_device(
    pen: &mut Pen<'_>,
    screen: &WatchScreen,
    view: &DashboardView,
    row: &DeviceRow,
    line: u16,
    is_selected: bool,
) {
    let is_blamed = is_blamed(row, view);
    // state is shown by a sign, and by color only in addition
    let name = format!("{}{}", if is_blamed { "!" } else { " " }, pen.clean_text(&row.name));
    let cells: String = screen.table.columns.iter().fold(String::new(), |text, position| {
        let column = DeviceColumn::at_position(view, *position);
        text + &pad_left(&format_figure(column.value(row), column.unit(view)), VALUE_WIDTH)
    });
    let tone = match (is_selected, is_blamed) {
        (true, _) => Tone::Inverse,
        (false, true) => Tone::Bad,
        _ => Tone::Plain,
    };
    let text = format!("{}{cells}", pad_right(&cut_text(&name, NAME_WIDTH - 1, "~"), NAME_WIDTH));
    let used = pen.write_text((0, line), pen.area.width, &text, tone);
    draw_history(pen, row, (used + 1, line));
}

/// Draws the device's history, if the columns after its values are enough.
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
        .map(|title| pad_left(title, PROCESS_VALUE_WIDTH))
        .collect();
    let name_title = format!("process, by {}", screen.order.title());
    let heading = format!(
        "{}{}{titles}",
        pad_right(&cut_text(&name_title, PROCESS_NAME_WIDTH, ""), PROCESS_NAME_WIDTH),
        pad_left("pid", PROCESS_ID_WIDTH)
    );
    pen.write_text((0, layout.processes), width, &heading, Tone::Strong);
    // lines that no process needs say who the first ones are, and at least a third of all
    let all_lines = usize::from(layout.process_rows);
    let mut spare_lines = all_lines.saturating_sub(rows.len()).max(all_lines / 3);
    let mut lines = layout.processes + 1..=layout.processes + layout.process_rows;
    for row in rows {
        let Some(line) = lines.next() else { return };
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
            .map(|(value, unit)| pad_left(&format_figure(value, unit), PROCESS_VALUE_WIDTH))
            .collect();
        let is_wide = width > MAX_WIDTH_WITHOUT_CGROUPS;
        let columns = usize::from(width) - if is_wide { PROCESS_COLUMNS + 2 } else { 4 };
        let identity = process_identity(pen, row, columns);
        let group = match is_wide {
            true if identity.is_empty() => format!("  {}", row.cgroup),
            true => format!("  {identity}"),
            false => String::new(),
        };
        let name = cut_text(&pen.clean_text(&row.name), PROCESS_NAME_WIDTH - 1, "~");
        let pid = pad_left(&row.pid.to_string(), PROCESS_ID_WIDTH);
        let text = format!("{}{pid}{cells}{group}", pad_right(&name, PROCESS_NAME_WIDTH));
        pen.write_text((0, line), width, &text, Tone::Plain);
        if !is_wide && spare_lines > 0 && !identity.is_empty() {
            let Some(line) = lines.next() else { return };
            spare_lines -= 1;
            pen.write_text((4, line), width, &identity, Tone::Dim);
        }
    }
}

/// Who a process is, in at most `columns`.
fn process_identity(pen: &Pen<'_>, row: &ProcessSummary, columns: usize) -> String {
    let place = match &row.place {
        Some(place) => place.as_ref().clone(),
        None => place_of_cgroup(&row.cgroup).place,
    };
    let line = identity_line(&row.name, row.command_line.as_deref(), &place, row.user.as_deref(), columns);
    cut_text(&pen.clean_text(&line), columns, "~")
}
