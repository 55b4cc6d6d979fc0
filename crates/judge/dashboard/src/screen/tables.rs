//! The tables of devices and processes: selection and order of their rows, and their cells.

use std::collections::HashSet;

use diskwright_base::ProcessPlace;
use diskwright_base::catalogue::display_unit;
use diskwright_base::process_place::place_of_cgroup;
use diskwright_report::identity::identity_line;
use diskwright_report::sparkline::sparkline;
use diskwright_report::text::{cut_middle, cut_text, display_width, pad_left, pad_right};

use super::figures::{self, format_figure};
use super::layout::{HISTORY_COLUMNS, ScreenLayout};
use super::pen::{Pen, Tone};
use super::{DeviceArea, WatchScreen};
use crate::devices::DeviceRow;
use crate::process_means::{ProcessOrder, ProcessSummary};
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

/// Title of the share of a device's ceiling, as on the page of `serve`.
pub(super) const CEILING_TITLE: &str = "of its measured maximum";
/// The same where six columns are all the room; the help and docs/watch.md explain it.
pub(super) const SHORT_CEILING_TITLE: &str = "of max";

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

    fn title(self, view: &DashboardView, width: usize) -> &str {
        match self {
            DeviceColumn::Panel(index) => &view.columns[index].title,
            DeviceColumn::Ceiling if width > VALUE_WIDTH => CEILING_TITLE,
            DeviceColumn::Ceiling => SHORT_CEILING_TITLE,
        }
    }

    /// Width in cells: the share of the ceiling has its whole title where there is room.
    fn width(self, view: &DashboardView, screen_width: u16) -> usize {
        let whole = NAME_WIDTH + view.columns.len() * VALUE_WIDTH + CEILING_TITLE.len() + 1;
        let has_room = usize::from(screen_width) > whole + HISTORY_COLUMNS;
        if self == DeviceColumn::Ceiling && has_room { CEILING_TITLE.len() + 1 } else { VALUE_WIDTH }
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

/// Processes that match the filter by name or cgroup, in the chosen order. Those with similar use are sorted by their
/// use of the other blamed resources.
pub(super) fn visible_processes<'v>(screen: &WatchScreen, view: &'v DashboardView) -> Vec<&'v ProcessSummary> {
    let is_shown = |row: &&ProcessSummary| row.name.contains(&screen.filter) || row.cgroup.contains(&screen.filter);
    let mut rows: Vec<&ProcessSummary> = view.processes.iter().filter(is_shown).collect();
    let also = ProcessOrder::of_blamed(view.verdict.as_ref());
    let levels = |row: &ProcessSummary| -> Vec<i32> {
        [screen.order].iter().chain(&also).map(|order| sort_level(order.sort_value(row))).collect()
    };
    rows.sort_by_key(|row| (std::cmp::Reverse(levels(row)), row.pid));
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
        let column = DeviceColumn::at_position(view, *position);
        let columns = column.width(view, width);
        let title = format!("{sorted}{}", column.title(view, columns));
        let text = pad_left(&cut_text(&pen.clean_text(&title), columns - 1, ""), columns - 1);
        let tone = if *position == screen.column { Tone::Inverse } else { Tone::Strong };
        // after the space that separates the columns, which is not highlighted
        let left = u16::try_from(NAME_WIDTH + index * VALUE_WIDTH + 1).unwrap_or(u16::MAX);
        pen.write_text((left, layout.devices), width, &text, tone);
    }
    let last = columns.last().map(|position| DeviceColumn::at_position(view, *position));
    let last_width = last.map_or(0, |column| column.width(view, width));
    screen.table = DeviceArea { top: layout.devices, rows: layout.device_rows, first, columns, last_width };
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
    let (blamed, stacked) = (if is_blamed { "!" } else { " " }, if row.stacked { "+" } else { "" });
    let name = format!("{blamed}{stacked}{}", pen.clean_text(&row.name));
    let cells: String = screen.table.columns.iter().fold(String::new(), |text, position| {
        let column = DeviceColumn::at_position(view, *position);
        text + &pad_left(&format_figure(column.value(row), column.unit(view)), column.width(view, pen.area.width))
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
    let heading = if is_wide(pen) { heading + "  command line, where it runs" } else { heading };
    pen.write_text((0, layout.processes), width, &heading, Tone::Strong);
    // lines that no process needs say who the first ones are, and at least half of all
    let all_lines = usize::from(layout.process_rows);
    let mut spare_lines = all_lines.saturating_sub(rows.len()).max(all_lines / 2);
    let mut known_folders = KnownFolders::default();
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
        let is_wide = is_wide(pen);
        let columns = identity_columns(pen);
        // a low screen may have no line for it
        let has_line = is_wide || spare_lines > 0;
        let identity = if has_line { process_identity(pen, row, columns, &mut known_folders) } else { String::new() };
        let group = if is_wide { format!("  {identity}") } else { String::new() };
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

/// Largest number of processes that are looked at to know how many lines they need: no screen has more rows.
const MAX_COUNTED_PROCESSES: usize = 200;

/// True for a screen on which who a process is stands in its row.
fn is_wide(pen: &Pen<'_>) -> bool {
    pen.area.width > MAX_WIDTH_WITHOUT_CGROUPS
}

/// Columns for who a process is: in its row, or in a line of its own below it.
fn identity_columns(pen: &Pen<'_>) -> usize {
    let before = if is_wide(pen) { PROCESS_COLUMNS + 2 } else { 4 };
    usize::from(pen.area.width).saturating_sub(before)
}

/// Lines that the processes can use: one each, and on a narrow screen a second one that says who it is.
pub(super) fn count_process_lines(pen: &Pen<'_>, rows: &[&ProcessSummary]) -> usize {
    if is_wide(pen) {
        return rows.len();
    }
    let columns = identity_columns(pen);
    let has_identity =
        |row: &&&ProcessSummary| !process_identity(pen, row, columns, &mut KnownFolders::default()).is_empty();
    rows.len() + rows.iter().take(MAX_COUNTED_PROCESSES).filter(has_identity).count()
}

/// Who a process is, in at most `columns`: command line, place and user, or its cgroup where it has no other place. A
/// folder that an earlier row has shown is left out.
fn process_identity(pen: &Pen<'_>, row: &ProcessSummary, columns: usize, known: &mut KnownFolders) -> String {
    let place = match &row.place {
        Some(place) => place.as_ref().clone(),
        None => place_of_cgroup(&row.cgroup).place,
    };
    let cgroup = if place == ProcessPlace::default() { row.cgroup.as_str() } else { "" };
    let command_line = row.command_line.as_deref().map(|line| known.shorten(line));
    let cgroup = if matches!(cgroup, "" | "/") { String::new() } else { known.shorten(cgroup) };
    // the command line comes first, but the cgroup gets what that leaves
    let command_columns = command_line.as_ref().map_or(0, |line| display_width(line));
    let max_cgroup_columns = columns.saturating_sub(command_columns).max(columns / 2);
    let cgroup_columns = if cgroup.is_empty() { 0 } else { (display_width(&cgroup) + 2).min(max_cgroup_columns) };
    let line_columns = columns - cgroup_columns;
    let line = identity_line(&row.name, command_line.as_deref(), &place, row.user.as_deref(), line_columns);
    let line = match (line.is_empty(), cgroup.is_empty()) {
        (_, true) => line,
        (true, false) => cut_middle(&cgroup, columns),
        (false, false) => format!("{line}  {}", cut_middle(&cgroup, cgroup_columns.saturating_sub(2))),
    };
    cut_text(&pen.clean_text(&line), columns, "~")
}

/// Shortest folder that is left out where it was shown before, bytes.
const MIN_FOLDER_BYTES: usize = 12;

/// Folders of paths that were shown: a path of the same folder then begins with `…/`.
#[derive(Default)]
struct KnownFolders(HashSet<String>);

impl KnownFolders {
    /// Leaves out the folders that were shown before, word by word, and remembers the others.
    fn shorten(&mut self, text: &str) -> String {
        let words: Vec<String> = text.split(' ').map(|word| self.shorten_word(word)).collect();
        words.join(" ")
    }

    fn shorten_word(&mut self, word: &str) -> String {
        let begin = word.find('/').map(|slash| word[..slash].rfind('=').map_or(0, |equals| equals + 1));
        let end = word.trim_end_matches('/').rfind('/');
        let (Some(begin), Some(end)) = (begin, end) else { return word.to_owned() };
        // the host of an address is no folder
        if end < begin + MIN_FOLDER_BYTES || word.contains("://") || self.0.insert(word[begin..end].to_owned()) {
            return word.to_owned();
        }
        format!("{}…{}", &word[..begin], &word[end..])
    }
}
