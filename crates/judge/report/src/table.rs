//! Aligned tables for terminals.

use crate::style::{Ink, Style};
use crate::text;

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left, for words.
    Left,
    /// To the right, for numbers.
    Right,
}

/// A column.
#[derive(Clone, Debug)]
struct TextColumn {
    title: String,
    align: Align,
    /// True if the column may be narrowed, and its cells wrapped, when the table is too wide.
    is_shrinkable: bool,
}

/// A table: columns first, then rows.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    columns: Vec<TextColumn>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Makes a table without columns and rows.
    pub fn new() -> TextTable {
        TextTable::default()
    }

    /// Adds a column whose cells are never cut.
    pub fn with_column(mut self, title: &str, align: Align) -> TextTable {
        self.columns.push(TextColumn { title: title.into(), align, is_shrinkable: false });
        self
    }

    /// Adds a column of words that wraps within the remaining width.
    pub fn with_text_column(mut self, title: &str) -> TextTable {
        self.columns.push(TextColumn { title: title.into(), align: Align::Left, is_shrinkable: true });
        self
    }

    /// Adds a row; missing cells are empty.
    ///
    /// # Panics
    /// If the row has more cells than there are columns.
    pub fn add_row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(row.len() <= self.columns.len(), "a cell without a column");
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table with a heading; every line ends with a newline. Cells are made
    /// harmless for the terminal; shrinkable columns wrap so that lines stay within the
    /// style's width if possible.
    pub fn render(&self, style: &Style) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| style.clean_text(cell)).collect()).collect();
        let widths = self.column_widths(&rows, style.width);
        let mut out = String::new();
        if self.columns.iter().any(|c| !c.title.is_empty()) {
            let titles: Vec<Vec<String>> = self.columns.iter().map(|c| vec![c.title.clone()]).collect();
            self.append_line(&mut out, &titles, &widths, |t| style.paint(Ink::Bold, t));
        }
        for row in rows {
            let cells: Vec<Vec<String>> = row
                .into_iter()
                .zip(&self.columns)
                .zip(&widths)
                .map(
                    |((cell, column), &width)| {
                        if column.is_shrinkable { text::wrap(&cell, width, 0) } else { vec![cell] }
                    },
                )
                .collect();
            self.append_line(&mut out, &cells, &widths, str::to_owned);
        }
        out
    }

    /// Appends one row of cells, each of which may have several lines.
    fn append_line(&self, out: &mut String, cells: &[Vec<String>], widths: &[usize], paint: impl Fn(&str) -> String) {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..height {
            let mut line = String::new();
            for ((cell, column), &width) in cells.iter().zip(&self.columns).zip(widths) {
                let part = cell.get(index).map_or("", String::as_str);
                line.push_str(&match column.align {
                    Align::Left => text::pad_right(part, width),
                    Align::Right => text::pad_left(part, width),
                });
                line.push_str("  ");
            }
            out.push_str(&paint(line.trim_end()));
            out.push('\n');
        }
    }

    /// Returns the widths that the cells need. If the table is wider than `max_width`,
    /// shrinkable columns are narrowed, the widest first, to no less than 12 columns.
    fn column_widths(&self, rows: &[Vec<String>], max_width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| text::display_width(&c.title)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::display_width(cell));
            }
        }
        let gaps = 2 * self.columns.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(max_width);
        while excess > 0 {
            let widest = (0..widths.len()).filter(|&c| self.columns[c].is_shrinkable).max_by_key(|&c| widths[c]);
            let Some(widest) = widest.filter(|&c| widths[c] > 12) else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_table() -> TextTable {
        let mut table = TextTable::new()
            .with_column("disk", Align::Left)
            .with_column("busy", Align::Right)
            .with_text_column("meaning");
        table.add_row(["sda", "87 %", "a disk that is asked for more than it can serve, all the time"]);
        table.add_row(["nvme0n1", "3.1 %", "idle"]);
        table
    }

    #[test]
    fn aligns_words_left_and_numbers_right() {
        let expected = "\
disk      busy  meaning
sda       87 %  a disk that is
                asked for more
                than it can
                serve, all the
                time
nvme0n1  3.1 %  idle
";
        assert_eq!(sample_table().render(&Style::plain(30)), expected);
    }

    #[test]
    fn lines_stay_within_the_width() {
        for width in 28..100 {
            for line in sample_table().render(&Style::plain(width)).lines() {
                assert!(text::display_width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_cell_cannot_write_to_the_terminal() {
        let mut table = TextTable::new().with_column("name", Align::Left);
        table.add_row(["\x1b[2J\nevil"]);
        let text = table.render(&Style::plain(80));
        assert!(!text.contains('\x1b') && text.lines().count() == 2);
    }
}
