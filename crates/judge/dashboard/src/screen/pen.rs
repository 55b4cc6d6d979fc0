//! Writes text into cells, in the style of the terminal.

use diskwright_report::DisplayZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style as CellStyle};

/// Capabilities of the terminal, and the time zone.
#[derive(Clone, Debug)]
pub struct ScreenStyle {
    /// True if it shows colors.
    pub colour: bool,
    /// True if it shows characters beyond ASCII.
    pub unicode: bool,
    /// Time zone of all times shown.
    pub zone: DisplayZone,
}

/// Writes text into the cells of an area, in the style of the terminal.
pub(super) struct Pen<'b> {
    pub buffer: &'b mut Buffer,
    pub style: &'b ScreenStyle,
    pub area: Rect,
}

/// Meaning of a text, which determines its style. State is never shown by color alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Dim,
    Strong,
    Good,
    Warn,
    Bad,
    /// Selected.
    Inverse,
}

impl Pen<'_> {
    /// Writes a text at a column and row of the area, in at most `columns` columns; returns the number of columns
    /// written.
    pub fn write_text(&mut self, (column, row): (u16, u16), columns: u16, text: &str, tone: Tone) -> u16 {
        let max_columns = self.area.width.saturating_sub(column).min(columns);
        if row >= self.area.height || max_columns == 0 {
            return 0;
        }
        let shown = self.clean_text(text);
        let (x, y) = (self.area.x + column, self.area.y + row);
        let (end, _) = self.buffer.set_stringn(x, y, shown, usize::from(max_columns), self.cell_style(tone));
        end - x
    }

    /// Printable form of a text from outside the program. Pad and cut only this form: its width may differ from that of
    /// the text.
    pub fn clean_text(&self, text: &str) -> String {
        let clean = diskwright_base::text::printable_line(text);
        if self.style.unicode { clean.into_owned() } else { diskwright_report::text::to_ascii(&clean) }
    }

    fn cell_style(&self, tone: Tone) -> CellStyle {
        let plain = CellStyle::default();
        match (tone, self.style.colour) {
            (Tone::Plain, _) => plain,
            (Tone::Dim, _) => plain.add_modifier(Modifier::DIM),
            (Tone::Strong, _) => plain.add_modifier(Modifier::BOLD),
            (Tone::Inverse, _) => plain.add_modifier(Modifier::REVERSED),
            (Tone::Good, true) => plain.fg(Color::Green),
            (Tone::Warn, true) => plain.fg(Color::Yellow),
            (Tone::Bad, true) => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Good | Tone::Warn, false) => plain,
            (Tone::Bad, false) => plain.add_modifier(Modifier::BOLD),
        }
    }
}
