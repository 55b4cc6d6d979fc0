//! Charts of one quantity over another in the terminal: the same [`Curves`]
//! that [`crate::curves`] draws as SVG, each line with a different sign.

use crate::axis;
use crate::curves::{AxisScale, CurvePoint, Curves};
use crate::style::{Ink, Style};
use crate::text;

/// Largest number of lines that can be distinguished.
const MAX_LINES: usize = 6;
/// Signs of the lines, where Unicode is available.
const UNICODE_SIGNS: [&str; MAX_LINES] = ["•", "×", "+", "◦", "▪", "△"];
/// Signs of the lines in ASCII.
const ASCII_SIGNS: [&str; MAX_LINES] = ["*", "x", "+", "o", "#", "^"];

/// The ends of an axis.
struct AxisEnds {
    scale: AxisScale,
    low: f64,
    high: f64,
}

impl AxisEnds {
    /// Returns the ends for `values`; `None` without finite values. The scale is logarithmic only if all values are
    /// positive.
    fn from_values(scale: AxisScale, values: impl Iterator<Item = f64> + Clone) -> Option<AxisEnds> {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let scale = if scale == AxisScale::Log && low > 0.0 { AxisScale::Log } else { AxisScale::Linear };
        (low <= high && low.is_finite() && high.is_finite()).then_some(AxisEnds { scale, low, high })
    }

    /// Returns the position of a value between the ends, from 0 to 1.
    fn axis_share(&self, value: f64) -> f64 {
        let to_linear = |v: f64| if self.scale == AxisScale::Log { v.ln() } else { v };
        let share = (to_linear(value) - to_linear(self.low)) / (to_linear(self.high) - to_linear(self.low));
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// Draws the chart in `rows` rows of plot, with axes and a legend. Returns an empty
/// string if nothing of it can be drawn.
pub fn draw_curves(chart: &Curves, style: &Style, rows: usize) -> String {
    let lines: Vec<Vec<CurvePoint>> =
        chart.lines.iter().take(MAX_LINES).map(|line| finite_points(&line.points)).collect();
    let points = || lines.iter().flatten();
    let Some(x) = AxisEnds::from_values(chart.x.scale, points().map(|p| p.x)) else { return String::new() };
    let (low, high) = points().fold((f64::MAX, f64::MIN), |(a, b), p| (a.min(p.y), b.max(p.y)));
    let values = axis::value_axis(low, high, &chart.y.unit, (rows / 2).clamp(2, 6));
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return String::new() };
    let y = AxisEnds { scale: AxisScale::Linear, low: *first, high: *last };
    let labels: Vec<String> = values.iter().map(|v| style.clean_text(&axis::axis_label(*v, &chart.y.unit))).collect();
    let gutter = labels.iter().map(|l| text::display_width(l)).max().unwrap_or(0);
    let (width, rows) = (style.width.saturating_sub(gutter + 4).max(10), rows.max(3));
    let grid = line_grid(&lines, &x, &y, width, rows);
    let mut out = style.paint(Ink::Bold, &text::cut_text(&style.clean_text(&chart.title), style.width, "")) + "\n";
    for (row, cells) in grid.iter().enumerate() {
        let value_row = |v: f64| ((1.0 - y.axis_share(v)) * (rows - 1) as f64).round() as usize;
        let label = values.iter().rposition(|v| value_row(*v) == row).map_or("", |n| labels[n].as_str());
        let stroke = if label.is_empty() { style.glyph("│", "|") } else { style.glyph("┤", "+") };
        let left = format!("{} {stroke}", text::pad_left(label, gutter));
        out += &format!("{}{}\n", style.paint(Ink::Dim, &left), paint_row(cells, style));
    }
    let margin = " ".repeat(gutter + 1);
    let base = format!("{margin}{}{}", style.glyph("└", "+"), style.glyph("─", "-").repeat(width));
    out += &format!("{}\n{margin} {}\n", style.paint(Ink::Dim, &base), axis_foot(chart, &x, width, style));
    out + &line_legend(chart, lines.len(), style)
}

/// Returns the points that have finite coordinates.
fn finite_points(points: &[CurvePoint]) -> Vec<CurvePoint> {
    points.iter().copied().filter(|p| p.x.is_finite() && p.y.is_finite()).collect()
}

/// Returns the line that each cell shows: points and the straight segments between
/// them; the first line is drawn last, over the others.
fn line_grid(
    lines: &[Vec<CurvePoint>],
    x: &AxisEnds,
    y: &AxisEnds,
    width: usize,
    rows: usize,
) -> Vec<Vec<Option<usize>>> {
    let mut grid = vec![vec![None; width]; rows];
    let column = |p: &CurvePoint| (x.axis_share(p.x) * (width - 1) as f64).round() as usize;
    let row = |share: f64| ((1.0 - share) * (rows - 1) as f64).round() as usize;
    for (number, points) in lines.iter().enumerate().rev() {
        for pair in points.windows(2) {
            let (from, to) = (column(&pair[0]), column(&pair[1]));
            let steps = to.saturating_sub(from);
            for step in 0..=steps {
                let progress = step as f64 / steps.max(1) as f64;
                let share = y.axis_share(pair[0].y) * (1.0 - progress) + y.axis_share(pair[1].y) * progress;
                grid[row(share)][from + step] = Some(number);
            }
        }
        for point in points {
            grid[row(y.axis_share(point.y))][column(point)] = Some(number);
        }
    }
    grid
}

fn line_sign(number: usize, style: &Style) -> &'static str {
    if style.unicode { UNICODE_SIGNS[number % MAX_LINES] } else { ASCII_SIGNS[number % MAX_LINES] }
}

fn paint_row(cells: &[Option<usize>], style: &Style) -> String {
    let cell = |cell: &Option<usize>| match cell {
        Some(number) => style.paint(Ink::Line(*number), line_sign(*number, style)),
        None => " ".to_owned(),
    };
    cells.iter().map(cell).collect::<String>().trim_end().to_owned()
}

/// Writes the line below the x axis: its ends and its quantity.
fn axis_foot(chart: &Curves, x: &AxisEnds, width: usize, style: &Style) -> String {
    let label = |v: f64| style.clean_text(&axis::axis_label(v, &chart.x.unit));
    let (low, high) = (label(x.low), label(x.high));
    let columns = width.saturating_sub(text::display_width(&low) + text::display_width(&high) + 2);
    let words = text::cut_text(&style.clean_text(&chart.x.words), columns, "");
    let pad = columns.saturating_sub(text::display_width(&words));
    format!("{low} {}{words}{} {high}", " ".repeat(pad / 2), " ".repeat(pad - pad / 2))
}

fn line_legend(chart: &Curves, shown: usize, style: &Style) -> String {
    let entry = |(number, line): (usize, &crate::curves::ChartCurve)| {
        (!line.name.is_empty()).then(|| {
            let name = style.clean_text(&line.name);
            format!("{} {name}", style.paint(Ink::Line(number), line_sign(number, style)))
        })
    };
    let names: Vec<String> = chart.lines.iter().take(shown).enumerate().filter_map(entry).collect();
    let more =
        if chart.lines.len() > shown { format!("   and {} more", chart.lines.len() - shown) } else { String::new() };
    if names.is_empty() { String::new() } else { format!("  {}{more}\n", names.join("   ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::{Axis, ChartCurve};

    fn sample_chart(lines: &[&[(f64, f64)]]) -> Curves {
        let axis = |words: &str, unit: &str| Axis { words: words.into(), unit: unit.into(), scale: AxisScale::Linear };
        let line = |(n, points): (usize, &&[(f64, f64)])| ChartCurve {
            name: format!("line {n}"),
            points: points.iter().map(|&(x, y)| CurvePoint { x, y, interval: None }).collect(),
        };
        let lines = lines.iter().enumerate().map(line).collect();
        Curves { title: "Rate by users".into(), x: axis("users", "count"), y: axis("rate", "per_s"), lines }
    }

    #[test]
    fn lines_span_the_whole_plot() {
        let drawn = draw_curves(
            &sample_chart(&[&[(0.0, 0.0), (10.0, 100.0)]]),
            &Style { unicode: false, ..Style::plain(40) },
            5,
        );
        let rows: Vec<&str> = drawn.lines().collect();
        assert_eq!(rows[0], "Rate by users");
        assert!(rows[1].starts_with("100 +") && rows[1].ends_with('*'), "{drawn}");
        assert!(rows[5].starts_with("  0 +*"), "{drawn}");
        assert!(rows[7].starts_with("     0") || rows[7].contains("users"), "{drawn}");
        assert_eq!(rows.last().map(|l| l.trim()), Some("* line 0"));
    }

    #[test]
    fn omits_points_that_cannot_be_drawn() {
        let style = Style::plain(60);
        assert_eq!(draw_curves(&sample_chart(&[]), &style, 6), "");
        assert_eq!(draw_curves(&sample_chart(&[&[(f64::NAN, 1.0)]]), &style, 6), "");
        for points in [&[(1.0, 5.0)][..], &[(1.0, 5.0), (1.0, f64::INFINITY)], &[(1.0, 0.0), (2.0, 0.0)]] {
            assert!(draw_curves(&sample_chart(&[points]), &style, 6).contains('•'));
        }
    }
}
