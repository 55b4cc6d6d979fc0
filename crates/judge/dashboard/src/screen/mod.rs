//! The terminal screen: handles keys and the mouse, and draws the view into cells. It does not access a terminal: the
//! command that shows it passes keys in and cells out.

mod details;
mod draw;
mod figures;
mod help;
mod layout;
mod pen;
mod tables;
mod time_chart;

pub use draw::{OwnCost, draw_screen};
pub use pen::ScreenStyle;

use diskwright_base::units::format_value;
use diskwright_report::captures;
use diskwright_report::identity::culprit_summary;

use crate::devices::DeviceRow;
use crate::process_means::ProcessOrder;
use crate::view::{DashboardView, TimedCapture, ViewWindow};

const SECOND: i64 = 1_000_000_000;
/// Lengths of the timeline, seconds, shortest first.
const TIMELINE_SPANS_S: [i64; 12] = [60, 120, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_419_200];
/// Lengths of the judged stretch, seconds, shortest first.
const JUDGED_SPANS_S: [i64; 6] = [10, 60, 300, 900, 3600, 14_400];

/// A screen that follows the end judges this many times in the length of a judged stretch.
const STEPS_PER_JUDGED_SPAN: i64 = 12;
/// Longest time after which it judges again.
const MAX_STEP_NS: i64 = 60 * SECOND;

/// A key or a mouse action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKey {
    /// A letter, sign or space.
    Char(char),
    /// One tick back.
    Left,
    /// One tick forward.
    Right,
    /// Selects the device above.
    Up,
    /// Selects the device below.
    Down,
    /// A tenth of the timeline back.
    PageUp,
    /// A tenth of the timeline forward.
    PageDown,
    /// The start.
    Home,
    /// The end; for a live machine, now.
    End,
    /// Completes an input.
    Enter,
    /// Leaves an input or a help page.
    Escape,
    /// Deletes the last character.
    Backspace,
    /// The next column, or with shift (true) the previous one.
    Tab(bool),
    /// A click at a column and row.
    Click(u16, u16),
    /// The wheel, up (true) or down.
    Wheel(bool),
}

/// Action that a key requests from the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenAction {
    /// Draw again.
    Redraw,
    /// End.
    Quit,
    /// Set a bookmark with this text at a moment, nanoseconds since 1970 UTC.
    Mark(i64, String),
    /// Go to the time that this text describes.
    Goto(String),
    /// Show the verdict in full.
    Verdict,
    /// Compare two stretches, the first with the second.
    Compare((i64, i64), (i64, i64)),
}

/// A line that is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenInput {
    /// Text of a bookmark at the time at which the key was pressed, however long typing takes.
    Mark(i64),
    /// Part of a name: devices and processes with it are shown.
    Filter,
    /// A time.
    Time,
}

/// Position of the table of devices in the last drawing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceArea {
    /// Row of the heading, from the top.
    pub top: u16,
    /// Number of rows below the heading.
    pub rows: u16,
    /// Position of the first device that is shown.
    pub first: usize,
    /// Positions of the columns that are shown.
    pub columns: Vec<usize>,
    /// Width of the last of them in cells; that of the others is the same for all.
    pub last_width: usize,
}

impl DeviceArea {
    /// The position of the column at a cell of the screen; `None` beside the columns.
    fn column_at(&self, cell: u16) -> Option<usize> {
        let offset = usize::from(cell).checked_sub(tables::NAME_WIDTH)?;
        let (last, before) = self.columns.split_last()?;
        let last_begin = before.len() * tables::VALUE_WIDTH;
        let is_in_last = (last_begin..last_begin + self.last_width).contains(&offset);
        if is_in_last { Some(*last) } else { before.get(offset / tables::VALUE_WIDTH).copied() }
    }
}

/// State of the screen: the cursor and the display options.
#[derive(Clone, Debug)]
pub struct WatchScreen {
    /// Time of the cursor; `None` follows the end.
    cursor: Option<i64>,
    /// Index in [`TIMELINE_SPANS_S`].
    span_index: usize,
    /// Index in [`JUDGED_SPANS_S`].
    judged_index: usize,
    /// Length of the stretch over which values are averaged.
    shown_ns: i64,
    /// Usual time between ticks.
    interval_ns: i64,
    /// Start of the timeline; it stays while the cursor moves inside it.
    start: Option<i64>,
    /// Number of the timeline quantity; see [`ViewWindow::quantity`].
    quantity: usize,
    /// Sort order of the processes; until the user chooses one, the use of the resource that is blamed first.
    pub(crate) order: ProcessOrder,
    /// True once the user has chosen the order.
    pub(crate) is_order_chosen: bool,
    /// Stacked devices have rows too.
    all_devices: bool,
    /// The column that devices are sorted by; `None` for the machine's order.
    pub(crate) sorted: Option<usize>,
    /// Position of the selected device among the shown ones.
    pub(crate) selected: usize,
    /// The selected device's name: it stays selected when it moves to another row.
    selected_name: Option<String>,
    /// The selected column of the devices.
    pub(crate) column: usize,
    pub(crate) table: DeviceArea,
    pub(crate) filter: String,
    pub(crate) input: Option<(ScreenInput, String)>,
    pub(crate) help: bool,
    /// A page of text that covers the screen until a key is pressed, and its first visible line.
    pub(crate) page: Option<(String, usize)>,
    /// The first of two stretches that are compared.
    anchor: Option<(i64, i64)>,
    /// Message at the bottom of the screen.
    pub(crate) message: Option<String>,
    /// Message on a selected device that is not shown at present.
    pub(crate) missing: Option<String>,
    /// Position of the timeline in the last drawing: row, number of rows, first column, number of columns.
    pub(crate) timeline_area: (u16, u16, u16, u16),
    is_live: bool,
}

impl WatchScreen {
    /// Creates a screen that follows the end; `interval_ns` is the usual time between ticks, `length_ns` the length of
    /// a log.
    pub fn new(is_live: bool, interval_ns: i64, length_ns: i64) -> WatchScreen {
        let fits = |length: &i64| *length * SECOND >= length_ns;
        let span_index =
            if is_live { 3 } else { TIMELINE_SPANS_S.iter().position(fits).unwrap_or(TIMELINE_SPANS_S.len() - 1) };
        let interval_ns = interval_ns.max(SECOND / 100);
        // a verdict needs some ticks
        let has_ticks = |length: &i64| *length * SECOND >= interval_ns.saturating_mul(6);
        WatchScreen {
            cursor: None,
            span_index,
            judged_index: JUDGED_SPANS_S.iter().position(has_ticks).unwrap_or(JUDGED_SPANS_S.len() - 1).max(1),
            shown_ns: (5 * SECOND).max(interval_ns),
            interval_ns,
            start: None,
            quantity: 0,
            order: ProcessOrder::default(),
            is_order_chosen: false,
            all_devices: false,
            sorted: None,
            selected: 0,
            selected_name: None,
            column: 0,
            table: DeviceArea::default(),
            filter: String::new(),
            input: None,
            help: false,
            page: None,
            anchor: None,
            message: None,
            missing: None,
            timeline_area: (0, 0, 0, 1),
            is_live,
        }
    }

    /// True while the cursor follows the end.
    pub fn is_following_end(&self) -> bool {
        self.cursor.is_none()
    }

    /// True where the recording continues.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Sets whether the recording continues, as that of a log does when its recorder starts again.
    pub fn set_live(&mut self, is_live: bool) {
        self.is_live = is_live;
    }

    /// Shows a page of text over the screen until a key is pressed.
    pub fn show_page(&mut self, text: String) {
        self.page = Some((text, 0));
    }

    /// Shows a message at the bottom until the next key.
    pub fn show_message(&mut self, text: impl Into<String>) {
        self.message = Some(text.into());
    }

    /// Moves the cursor to a time within the range.
    pub fn go_to_time(&mut self, time_ns: i64, range: (i64, i64)) {
        self.move_cursor(time_ns, range);
    }

    /// Finds the selected device among the shown ones; sets a message where it is missing.
    pub(crate) fn find_selected(&mut self, devices: &[&DeviceRow]) {
        let last = devices.len().saturating_sub(1);
        self.missing = None;
        match &self.selected_name {
            Some(name) => match devices.iter().position(|row| row.name == *name) {
                Some(index) => self.selected = index,
                None => {
                    let hidden_text = format!("the filter `{}` hides {name}; / changes it", self.filter);
                    let gone_text = format!("{name} does not exist at this time");
                    self.missing = Some(if name.contains(&self.filter) { gone_text } else { hidden_text });
                    self.selected = self.selected.min(last);
                }
            },
            None => self.selected = self.selected.min(last),
        }
    }

    /// Selects the device at a position among the shown ones; the next drawing finds it by its name.
    fn select_device(&mut self, index: usize, view: &DashboardView) {
        let rows = tables::visible_devices(self, view, self.table.rows);
        let index = index.min(rows.len().saturating_sub(1));
        self.selected_name = rows.get(index).map(|row| row.name.clone());
        self.selected = index;
    }

    /// Selects a column and shows its explanation.
    fn select_column(&mut self, column: usize, view: &DashboardView) {
        self.column = column.min(view.columns.len());
        let (title, _, text) = help::explain_column(view, self.column);
        let first = text.split_inclusive(". ").next().unwrap_or_default();
        self.show_message(format!("{title}: {}", first.trim()));
    }

    /// The view window for a history of this range on a screen of this width.
    pub fn view_window(&mut self, (first, last): (i64, i64), columns: u16) -> ViewWindow {
        let cursor_ns = self.cursor.unwrap_or(last).clamp(first, last);
        let length = TIMELINE_SPANS_S[self.span_index] * SECOND;
        // the timeline stays while the cursor moves inside it
        let start = match (self.cursor, self.start) {
            (Some(cursor), Some(start)) if (start..=start + length).contains(&cursor) => start,
            (Some(cursor), _) => cursor - length / 2,
            (None, _) => last - length,
        };
        let start = start.clamp(first.min(last - length), (last - length).max(first));
        self.start = Some(start);
        ViewWindow {
            cursor_ns,
            span: (start, start + length),
            shown_ns: self.shown_ns,
            judged_ns: JUDGED_SPANS_S[self.judged_index] * SECOND,
            judged_step_ns: (JUDGED_SPANS_S[self.judged_index] * SECOND / STEPS_PER_JUDGED_SPAN).min(MAX_STEP_NS),
            quantity: self.quantity,
            all_devices: self.all_devices,
            points: (usize::from(columns.saturating_sub(2)).max(10), layout::HISTORY_COLUMNS),
        }
    }

    /// Handles a key.
    pub fn handle_key(&mut self, key: ScreenKey, view: &DashboardView, (first, last): (i64, i64)) -> ScreenAction {
        self.message = None;
        if let Some((input, text)) = self.input.take() {
            return self.handle_input_key(key, input, text);
        }
        if self.help || self.page.is_some() {
            return self.handle_page_key(key);
        }
        // several keys may be pressed before the next drawing
        let cursor_ns = self.cursor.unwrap_or(view.cursor_ns).clamp(first, last);
        let page_ns = TIMELINE_SPANS_S[self.span_index] * SECOND / 10;
        match key {
            ScreenKey::Char('q') => return ScreenAction::Quit,
            ScreenKey::Left => self.move_cursor(cursor_ns - self.interval_ns, (first, last)),
            ScreenKey::Right => self.move_cursor(cursor_ns + self.interval_ns, (first, last)),
            ScreenKey::PageUp | ScreenKey::Wheel(true) => self.move_cursor(cursor_ns - page_ns, (first, last)),
            ScreenKey::PageDown | ScreenKey::Wheel(false) => self.move_cursor(cursor_ns + page_ns, (first, last)),
            ScreenKey::Home => self.move_cursor(first, (first, last)),
            ScreenKey::End => self.cursor = None,
            ScreenKey::Up => self.select_device(self.selected.saturating_sub(1), view),
            ScreenKey::Down => self.select_device(self.selected + 1, view),
            ScreenKey::Tab(false) => self.select_column((self.column + 1) % (view.columns.len() + 1), view),
            ScreenKey::Tab(true) => {
                self.select_column((self.column + view.columns.len()) % (view.columns.len() + 1), view)
            }
            ScreenKey::Enter => self.explain_selected_column(view),
            ScreenKey::Click(column, row) => self.handle_click((column, row), view, (first, last)),
            ScreenKey::Char(letter) => return self.handle_letter(letter, view, cursor_ns, (first, last)),
            _ => {}
        }
        ScreenAction::Redraw
    }

    fn handle_letter(&mut self, letter: char, view: &DashboardView, cursor_ns: i64, range: (i64, i64)) -> ScreenAction {
        match letter {
            ' ' => self.cursor = if self.cursor.is_some() { None } else { Some(cursor_ns) },
            '+' | '=' => self.span_index = self.span_index.saturating_sub(1),
            '-' => self.span_index = (self.span_index + 1).min(TIMELINE_SPANS_S.len() - 1),
            'j' => self.judged_index = (self.judged_index + 1) % JUDGED_SPANS_S.len(),
            't' => self.quantity += 1,
            'o' => (self.order, self.is_order_chosen) = (self.order.next(), true),
            'd' => {
                self.all_devices = !self.all_devices;
                let all = "all block devices: those built on others count their requests again";
                self.show_message(if self.all_devices { all } else { "the machine's own disks" });
            }
            's' => self.sorted = if self.sorted == Some(self.column) { None } else { Some(self.column) },
            '>' | '.' => self.select_column(self.column + 1, view),
            '<' | ',' => self.select_column(self.column.saturating_sub(1), view),
            'e' => self.explain_selected_column(view),
            'v' => return ScreenAction::Verdict,
            'a' => self.show_page(alert_list(view)),
            'g' => self.input = Some((ScreenInput::Time, String::new())),
            '?' | 'h' => self.help = true,
            'm' => self.input = Some((ScreenInput::Mark(cursor_ns), String::new())),
            '/' => self.input = Some((ScreenInput::Filter, self.filter.clone())),
            '[' | ']' => self.jump_to_mark(letter == ']', view, cursor_ns, range),
            'c' => match self.anchor.take() {
                Some(first) => return ScreenAction::Compare(first, self.judged_stretch(view, cursor_ns)),
                None => {
                    self.anchor = Some(self.judged_stretch(view, cursor_ns));
                    self.show_message("first stretch marked; go to the second and press c");
                }
            },
            _ => {}
        }
        ScreenAction::Redraw
    }

    /// The judged stretch at a time: that of the view, unless keys have changed the time or the length since.
    fn judged_stretch(&self, view: &DashboardView, cursor_ns: i64) -> (i64, i64) {
        let length = JUDGED_SPANS_S[self.judged_index] * SECOND;
        if cursor_ns == view.cursor_ns && view.judged.1 - view.judged.0 == length {
            return view.judged;
        }
        let end = cursor_ns - cursor_ns.rem_euclid((length / STEPS_PER_JUDGED_SPAN).min(MAX_STEP_NS));
        (end - length, end)
    }

    /// Handles a key while a line is typed.
    fn handle_input_key(&mut self, key: ScreenKey, input: ScreenInput, mut text: String) -> ScreenAction {
        match key {
            ScreenKey::Escape => return ScreenAction::Redraw,
            ScreenKey::Enter => match input {
                ScreenInput::Mark(_) if text.trim().is_empty() => {}
                ScreenInput::Mark(time_ns) => return ScreenAction::Mark(time_ns, text),
                ScreenInput::Filter => self.filter = text,
                ScreenInput::Time if text.trim().is_empty() => {}
                ScreenInput::Time => return ScreenAction::Goto(text),
            },
            _ => {
                match key {
                    ScreenKey::Char(letter) => text.push(letter),
                    ScreenKey::Backspace => {
                        text.pop();
                    }
                    _ => {}
                }
                self.input = Some((input, text));
            }
        }
        ScreenAction::Redraw
    }

    /// Handles a key while a page covers the screen.
    fn handle_page_key(&mut self, key: ScreenKey) -> ScreenAction {
        let Some((_, line)) = &mut self.page else {
            self.help = false;
            return ScreenAction::Redraw;
        };
        match key {
            ScreenKey::Down | ScreenKey::Wheel(false) => *line += 1,
            ScreenKey::Up | ScreenKey::Wheel(true) => *line = line.saturating_sub(1),
            ScreenKey::PageDown | ScreenKey::Char(' ') => *line += 10,
            ScreenKey::PageUp => *line = line.saturating_sub(10),
            _ => self.page = None,
        }
        ScreenAction::Redraw
    }

    /// Moves the cursor; at the end of the range it follows the end again.
    fn move_cursor(&mut self, to: i64, (first, last): (i64, i64)) {
        self.cursor = if to >= last { None } else { Some(to.max(first)) };
    }

    /// Moves the cursor to the next or previous mark.
    fn jump_to_mark(&mut self, forward: bool, view: &DashboardView, cursor_ns: i64, range: (i64, i64)) {
        let times = || view.marks.iter().map(|mark| mark.time_ns);
        let found = match forward {
            true => times().filter(|time| *time > cursor_ns).min(),
            false => times().filter(|time| *time < cursor_ns).max(),
        };
        match found {
            Some(time) => self.move_cursor(time, range),
            None => self.show_message("no further bookmark or alert in this timeline; press - for a longer one"),
        }
    }

    /// Shows the full explanation of the selected column.
    fn explain_selected_column(&mut self, view: &DashboardView) {
        let (title, counter, text) = help::explain_column(view, self.column);
        self.show_page(format!("{title}  ({counter})\n\n{text}\n"));
    }

    fn handle_click(&mut self, (column, row): (u16, u16), view: &DashboardView, range: (i64, i64)) {
        let span = view.span;
        let is_in_table = (self.table.top..=self.table.top + self.table.rows).contains(&row);
        if is_in_table {
            if row > self.table.top {
                self.select_device(self.table.first + usize::from(row - self.table.top - 1), view);
            }
            if let Some(column) = self.table.column_at(column) {
                self.select_column(column, view);
            }
        }
        let (top, rows, left, columns) = self.timeline_area;
        let is_on_timeline = (top..top + rows).contains(&row) && (left..left + columns).contains(&column);
        if is_on_timeline {
            let share = (f64::from(column - left) + 0.5) / f64::from(columns.max(1));
            self.move_cursor(span.0 + (share * (span.1 - span.0) as f64) as i64, range);
        }
    }
}

/// Largest width of what an alert says of a culprit, in cells.
const MAX_IDENTITY_COLUMNS: usize = 60;

/// Text of a page with all alerts of the timeline, the newest first.
fn alert_list(view: &DashboardView) -> String {
    if view.alerts.is_empty() && view.captures.is_empty() {
        return "no alert in this timeline; press - for a longer one\n".into();
    }
    let mut captures = view.captures.clone();
    let alerts = view.alerts.iter().rev().fold(String::new(), |text, alert| {
        let end = alert.end.as_ref().map_or_else(|| "now".to_owned(), Clone::clone);
        let instance = if alert.instance.is_empty() { String::new() } else { format!(" {}", alert.instance) };
        let culprits: Vec<String> = alert.culprits.iter().map(|c| culprit_summary(c, MAX_IDENTITY_COLUMNS)).collect();
        let culprits = match culprits.is_empty() {
            true => String::new(),
            false => format!("  culprits: {}\n", culprits.join(", ")),
        };
        let next = if alert.next_step.is_empty() { String::new() } else { format!("  next: {}\n", alert.next_step) };
        let severity = alert.severity.name();
        let also = if alert.also.is_empty() { String::new() } else { format!("  also: {}\n", alert.also.join(", ")) };
        let worst = alert.peak.value.map_or_else(String::new, |value| {
            format!(
                "  worst: {} {} at {}\n",
                alert.peak.quantity,
                format_value(value, alert.peak.display_unit()),
                alert.peak.time
            )
        });
        let is_own = |capture: &mut TimedCapture| {
            let is_same = capture.content.alert == alert.id && capture.content.instance == alert.instance;
            is_same && (alert.begin_ns..=alert.end_ns.unwrap_or(i64::MAX)).contains(&capture.time_ns)
        };
        let captured: String = captures.extract_if(.., is_own).map(|capture| capture_text(&capture)).collect();
        text + &format!(
            "{}{instance} ({severity}), {} to {end}\n  {}\n{worst}{also}{culprits}{next}{captured}\n",
            alert.id, alert.begin, alert.sentence
        )
    });
    // those of alerts that began before the timeline
    captures
        .iter()
        .rev()
        .fold(alerts, |text, capture| text + &format!("{}\n{}\n", capture.content.alert, capture_text(capture)))
}

/// What was saved when an alert began, a line each.
fn capture_text(capture: &TimedCapture) -> String {
    let first = format!("  captured at {}: {}\n", capture.content.time, capture.content.short_text());
    captures::detail_lines(&capture.content).iter().fold(first, |text, line| text + &format!("    {line}\n"))
}
