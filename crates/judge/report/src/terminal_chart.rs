//! Line charts in the terminal. A single line, or several lines in colour, are
//! drawn in Braille dots, eight to a character; otherwise each line is drawn with
//! its letter. Times without a recording stay blank, on the time axis too.

use diskwright_base::{Note, units};

use crate::axis;
use crate::chart_model::{Chart, ChartLine};
use crate::palette;
use crate::style::{Ink, Style};
use crate::text;
use crate::time::DisplayZone;

/// Returns the number of buckets that a chart of this width can show: two per column.
pub fn bucket_count(style: &Style) -> usize {
    style.width * 2
}

/// Draws the chart in `rows` rows of plot with axes, a legend, and the bookmarks
/// among `notes`.
pub fn draw_chart(chart: &Chart, notes: &[Note], zone: &DisplayZone, style: &Style, rows: usize) -> String {
    let (chart, quiet) = &split_quiet_lines(chart);
    let unit = axis::unit_caption(&chart.unit, &chart.title);
    let title =
        text::cut_text(&style.clean_text(&chart.title), style.width.saturating_sub(text::display_width(&unit) + 2), "");
    let heading = format!("{}  {}", style.paint(Ink::Bold, &title), style.paint(Ink::Dim, &unit));
    let mut out = heading.trim_end().to_owned() + "\n";
    let Some((low, high)) = chart.mean_span() else {
        let when = zone.format_range(chart.from_ns, chart.to_ns);
        out.push_str(&text::cut_text(&format!("  nothing was recorded, {when}"), style.width, ""));
        out.push('\n');
        return out;
    };
    let values = axis::value_axis(low, high, &chart.unit, (rows / 2).clamp(2, 6));
    let labels: Vec<String> = values.iter().map(|&v| style.clean_text(&axis::axis_label(v, &chart.unit))).collect();
    let gutter = labels.iter().map(|l| text::display_width(l)).max().unwrap_or(0);
    let mut canvas = Canvas::new(style.width.saturating_sub(gutter + 2).max(10), rows.max(3));
    let scale = RowScale { low: values[0], high: values[values.len() - 1] };
    let bookmarks = chart.bookmarks(notes);
    canvas.draw_lines(chart, &scale, style);
    canvas.draw_limit(chart, &scale, style);
    canvas.draw_bookmarks(chart, &bookmarks, style);
    for row in 0..canvas.height {
        let is_here = |v: &&f64| scale.row_of_value(**v, canvas.height) == row;
        let label = values.iter().rposition(|v| is_here(&v)).map_or("", |index| labels[index].as_str());
        let line = if label.is_empty() { style.glyph("│", "|") } else { style.glyph("┤", "+") };
        let left = format!("{} {line}", text::pad_left(label, gutter));
        out.push_str(&format!("{}{}\n", style.paint(Ink::Dim, &left), canvas.render_row(row, style)));
    }
    let margin = " ".repeat(gutter + 1);
    out.push_str(&format!("{margin}{}\n", time_axis_line(chart, canvas.width, style)));
    out.push_str(&format!("{margin} {}\n", time_labels(chart, canvas.width, zone, style)));
    append_legend(&mut out, chart, &bookmarks, zone, style);
    if !quiet.is_empty() {
        let names = quiet.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
        let more = if quiet.len() > 4 { format!(" and {} more", quiet.len() - 4) } else { String::new() };
        let words = style.clean_text(&format!("  always 0: {names}{more}"));
        out.push_str(&style.paint(Ink::Dim, &text::cut_text(&words, style.width, "~")));
        out.push('\n');
    }
    out
}

/// Splits off the lines that stayed at zero, unless all lines did. Returns the chart
/// without them, and their names.
fn split_quiet_lines(chart: &Chart) -> (Chart, Vec<String>) {
    let is_quiet = |l: &ChartLine| l.summary().is_some_and(|(min, _, max)| min == 0.0 && max == 0.0);
    let (quiet, loud): (Vec<&ChartLine>, Vec<&ChartLine>) = chart.lines.iter().partition(|l| is_quiet(l));
    if loud.is_empty() || quiet.is_empty() {
        return (chart.clone(), Vec::new());
    }
    let lines = loud.into_iter().cloned().collect();
    (Chart { lines, ..chart.clone() }, quiet.into_iter().map(|l| l.instance.clone()).collect())
}

/// Mapping from values to rows, the highest value on top.
struct RowScale {
    low: f64,
    high: f64,
}

impl RowScale {
    /// Returns the row of `value` in a plot of `rows` rows, 0 at the top.
    fn row_of_value(&self, value: f64, rows: usize) -> usize {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        let last = rows - 1;
        last - (share * last as f64).round() as usize
    }
}

/// Character cells of the plot, each with its colour, row by row.
struct Canvas {
    width: usize,
    height: usize,
    cells: Vec<(char, Option<Ink>)>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, cells: vec![(' ', None); width * height] }
    }

    fn cell_mut(&mut self, column: usize, row: usize) -> &mut (char, Option<Ink>) {
        &mut self.cells[row * self.width + column]
    }

    fn draw_lines(&mut self, chart: &Chart, scale: &RowScale, style: &Style) {
        let uses_dots = style.unicode && (style.colour || chart.lines.len() == 1);
        for (number, line) in chart.lines.iter().enumerate() {
            if uses_dots {
                self.draw_dots(line, number, scale);
            } else {
                self.draw_letters(line, line_letter(number, chart.lines.len()), scale);
            }
        }
    }

    /// Draws a line in Braille dots, two across and four down per character, joined vertically.
    fn draw_dots(&mut self, line: &ChartLine, number: usize, scale: &RowScale) {
        const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let dot_columns = self.width * 2;
        let mut previous_y = None;
        for x in 0..dot_columns {
            let value = line.buckets.get(x * line.buckets.len() / dot_columns).map_or(f64::NAN, |b| b.mean);
            if value.is_nan() {
                previous_y = None;
                continue;
            }
            let y = scale.row_of_value(value, self.height * 4);
            let from: usize = previous_y.replace(y).unwrap_or(y);
            // the vertical step is drawn in the later column, up to the level of its left neighbour
            let joined = if from < y { from + 1..=y } else { y..=from.saturating_sub(1).max(y) };
            for dot in joined {
                let cell = self.cell_mut(x / 2, dot / 4);
                let base = if ('\u{2800}'..='\u{28ff}').contains(&cell.0) { cell.0 as u32 } else { 0x2800 };
                let drawn = char::from_u32(base | DOTS[x % 2][dot % 4]).expect("within the Braille block");
                *cell = (drawn, Some(Ink::Line(number)));
            }
        }
    }

    /// Draws a line with one letter per column; `+` where lines meet.
    fn draw_letters(&mut self, line: &ChartLine, letter: char, scale: &RowScale) {
        for column in 0..self.width {
            let length = line.buckets.len();
            let buckets = &line.buckets[column * length / self.width..((column + 1) * length).div_ceil(self.width)];
            let measured: Vec<f64> = buckets.iter().map(|b| b.mean).filter(|m| !m.is_nan()).collect();
            if measured.is_empty() {
                continue;
            }
            let mean = measured.iter().sum::<f64>() / measured.len() as f64;
            let row = scale.row_of_value(mean, self.height);
            let cell = self.cell_mut(column, row);
            cell.0 = if cell.0 == ' ' { letter } else { '+' };
        }
    }

    fn draw_limit(&mut self, chart: &Chart, scale: &RowScale, style: &Style) {
        let Some(limit) = chart.drawn_limit() else { return };
        let row = scale.row_of_value(limit, self.height);
        let sign = if style.unicode { '╌' } else { '-' };
        for column in 0..self.width {
            let cell = self.cell_mut(column, row);
            if cell.0 == ' ' {
                *cell = (sign, Some(Ink::Bad));
            }
        }
    }

    /// Draws a dotted column for each bookmark, with its number on top.
    fn draw_bookmarks(&mut self, chart: &Chart, bookmarks: &[(usize, &Note)], style: &Style) {
        let sign = if style.unicode { '┊' } else { ':' };
        for (number, note) in bookmarks {
            let column = ((chart.time_share(note.time_ns) * self.width as f64) as usize).min(self.width - 1);
            for row in 0..self.height {
                let cell = self.cell_mut(column, row);
                if cell.0 == ' ' {
                    *cell = (sign, Some(Ink::Warn));
                }
            }
            *self.cell_mut(column, 0) = (bookmark_sign(*number), Some(Ink::Warn));
        }
    }

    /// Renders one row; neighbours of the same colour are painted together.
    fn render_row(&self, row: usize, style: &Style) -> String {
        let cells = &self.cells[row * self.width..(row + 1) * self.width];
        let filled = cells.iter().rposition(|c| c.0 != ' ').map_or(0, |index| index + 1);
        let mut out = String::new();
        for run in cells[..filled].chunk_by(|a, b| a.1 == b.1) {
            let letters: String = run.iter().map(|c| c.0).collect();
            out.push_str(&match run[0].1 {
                Some(ink) => style.paint(ink, &letters),
                None => letters,
            });
        }
        out
    }
}

/// Returns the letter of a line: `*` for a single line, otherwise A, B, C, …
fn line_letter(number: usize, lines: usize) -> char {
    if lines == 1 { '*' } else { char::from(b'A' + (number % 26) as u8) }
}

/// Returns the number of a bookmark as one character.
fn bookmark_sign(number: usize) -> char {
    char::from_digit(number as u32, 36).unwrap_or('#')
}

/// Draws the time axis: a line where something was recorded, a heavy line while the
/// finding held, a blank where nothing was recorded.
fn time_axis_line(chart: &Chart, width: usize, style: &Style) -> String {
    let mut out = String::from(style.glyph("└", "+"));
    for column in 0..width {
        let (start, end) = (column as f64 / width as f64, (column + 1) as f64 / width as f64);
        let overlaps = |(from, to): &(i64, i64)| chart.time_share(*from) < end && chart.time_share(*to) > start;
        let is_recorded = chart.lines.iter().any(|line| {
            let length = line.buckets.len();
            let range = (column * length / width)..((column + 1) * length).div_ceil(width).min(length);
            line.buckets[range].iter().any(|b| !b.is_unrecorded())
        });
        out.push_str(match (is_recorded, chart.shaded_intervals.iter().any(overlaps)) {
            (false, _) => " ",
            (true, true) => style.glyph("━", "="),
            (true, false) => style.glyph("─", "-"),
        });
    }
    out.trim_end().to_owned()
}

/// Writes the labels under the axis, centred on their marks; labels that would overlap are left out.
fn time_labels(chart: &Chart, width: usize, zone: &DisplayZone, style: &Style) -> String {
    let mut out = String::new();
    for mark in zone.axis_marks(chart.from_ns, chart.to_ns, (width / 14).max(2)) {
        let label = style.clean_text(&mark.label);
        let centre = (chart.time_share(mark.time_ns) * width as f64) as usize;
        let start = centre.saturating_sub(label.len() / 2);
        let first_free = if out.is_empty() { 0 } else { text::display_width(&out) + 2 };
        if start >= first_free && start + label.len() <= width {
            out = text::pad_right(&out, start) + &label;
        }
    }
    style.paint(Ink::Dim, &out)
}

fn append_legend(out: &mut String, chart: &Chart, bookmarks: &[(usize, &Note)], zone: &DisplayZone, style: &Style) {
    let mut add = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    let short = |v: f64| style.clean_text(&axis::axis_label(v, &chart.unit));
    let clean: Vec<String> = chart.lines.iter().map(|l| style.clean_text(&l.instance)).collect();
    let names =
        palette::shorten_names(&clean.iter().map(String::as_str).collect::<Vec<_>>(), 24, style.glyph("…", "~"));
    let widest = names.iter().map(|n| text::display_width(n)).max().unwrap_or(0);
    for (number, (line, name)) in chart.lines.iter().zip(&names).enumerate() {
        let uses_dots = style.unicode && (style.colour || chart.lines.len() == 1);
        let sign = if uses_dots { "⣀".to_owned() } else { line_letter(number, chart.lines.len()).to_string() };
        let values = match line.summary() {
            Some((min, mean, max)) => {
                format!("min {}, mean {}, max {}", short(min), short(mean), short(max))
            }
            None => "nothing recorded".to_owned(),
        };
        let name = if widest == 0 { String::new() } else { text::pad_right(name, widest) + "  " };
        let values = text::cut_text(&values, style.width.saturating_sub(widest + 6), "");
        add(format!("  {} {name}{values}", style.paint(Ink::Line(number), &sign)));
    }
    if let Some(limit) = chart.limit {
        add(format!(
            "  {} limit {}",
            style.paint(Ink::Bad, style.glyph("╌", "-")),
            style.clean_text(&units::format_value(limit, &chart.unit))
        ));
    }
    if !chart.shaded_intervals.is_empty() {
        add(format!("  {} while the finding held", style.glyph("━", "=")));
    }
    for (number, note) in bookmarks {
        let bookmark = format!("{}  {}", zone.format_clock(note.time_ns), style.clean_text(note.text()));
        let bookmark = text::cut_text(&bookmark, style.width.saturating_sub(4), style.glyph("…", "..."));
        add(format!("  {} {bookmark}", style.paint(Ink::Warn, &bookmark_sign(*number).to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downsample::ChartBucket;
    use crate::expected_output;

    const FROM_NS: i64 = 1_795_299_600_000_000_000;

    fn sample_bucket(mean: f64) -> ChartBucket {
        ChartBucket::from_value(Some(mean).filter(|mean| !mean.is_nan()))
    }

    fn wave_buckets(count: usize, shift: f64) -> Vec<ChartBucket> {
        let value =
            |i: usize| if (60..75).contains(&i) { f64::NAN } else { 3.0 + 3.0 * (i as f64 / 12.0 + shift).sin() };
        (0..count).map(|i| sample_bucket(value(i))).collect()
    }

    fn sample_chart(lines: &[&str]) -> Chart {
        let line = |(index, name): (usize, &&str)| ChartLine {
            instance: (*name).into(),
            buckets: wave_buckets(160, index as f64),
        };
        let lines = lines.iter().enumerate().map(line).collect();
        let mut chart = Chart::new("physical_disk.avg_queue_length", FROM_NS, FROM_NS + 120_000_000_000, lines);
        chart.limit = Some(2.0);
        chart.shaded_intervals = vec![(FROM_NS + 60_000_000_000, FROM_NS + 90_000_000_000)];
        chart
    }

    fn sample_notes() -> Vec<Note> {
        vec![Note::new(FROM_NS + 20_000_000_000, Note::BOOKMARK, "backup started\x1b[2J")]
    }

    fn draw_sample(style: Style, lines: &[&str]) -> String {
        draw_chart(&sample_chart(lines), &sample_notes(), &DisplayZone::utc(), &style, 10)
    }

    #[test]
    fn drawings_stay_as_expected() {
        let ascii = Style { unicode: false, ..Style::plain(72) };
        expected_output::assert_expected("chart/dots.txt", &draw_sample(Style::plain(80), &["sda"]));
        expected_output::assert_expected("chart/letters.txt", &draw_sample(Style::plain(80), &["sda", "nvme0n1"]));
        expected_output::assert_expected("chart/ascii.txt", &draw_sample(ascii, &["sda"]));
        expected_output::assert_expected(
            "chart/colour.txt",
            &draw_sample(Style { colour: true, ..Style::plain(60) }, &["sda", "sdb"]),
        );
    }

    #[test]
    fn lines_stay_within_the_width_and_escapes_do_not_get_through() {
        for width in 40..=100 {
            for unicode in [true, false] {
                let drawn = draw_sample(
                    Style { unicode, ..Style::plain(width) },
                    &["sda", "a-very-long-device-name-indeed-it-is"],
                );
                assert!(!drawn.contains('\x1b'));
                assert!(unicode || drawn.is_ascii());
                for line in drawn.lines() {
                    assert!(text::display_width(line) <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_gap_is_blank_in_every_row_and_on_the_axis() {
        let mut chart = sample_chart(&["sda"]);
        (chart.limit, chart.shaded_intervals) = (None, Vec::new());
        let drawn = draw_chart(&chart, &[], &DisplayZone::utc(), &Style::plain(80), 8);
        // buckets 60 to 75 of 160, well inside
        let plot: Vec<&str> = drawn.lines().skip(1).take(9).collect();
        let gutter = plot[0].chars().position(|c| "┤│".contains(c)).unwrap() + 1;
        let width = 80 - gutter;
        for row in plot {
            let inside: String =
                row.chars().skip(gutter + width * 62 / 160).take(width * 73 / 160 - width * 62 / 160).collect();
            assert!(inside.trim().is_empty(), "{row}");
        }
    }

    #[test]
    fn says_that_nothing_was_recorded() {
        let mut chart = sample_chart(&["sda"]);
        chart.lines[0].buckets = vec![ChartBucket::GAP; 8];
        assert!(draw_chart(&chart, &[], &DisplayZone::utc(), &Style::plain(80), 8).contains("nothing was recorded"));
    }
}
