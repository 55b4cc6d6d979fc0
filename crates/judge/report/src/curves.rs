//! Charts of one quantity over another (not over time of day): throughput by
//! record size, latency by percentile. They are drawn with the parts of
//! [`crate::svg`], on a page or as a separate file.

use diskwright_base::byte_size::CAPACITY_UNIT;
use diskwright_base::units;
use maud::{Markup, html};

use crate::axis;
use crate::html::PALETTE_CSS;
use crate::markup::{finish_page, format_coordinate};
use crate::palette;
use crate::svg::{self, ChartPlace, FOOT_HEIGHT_PX, HEAD_HEIGHT_PX, MAX_LINES, PLOT_HEIGHT_PX, format_percent};
use crate::text;

/// Mapping of values to positions along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Evenly.
    Linear,
    /// Logarithmically: each doubling has the same length.
    Log,
    /// Shares of a distribution: 90 %, 99 %, 99.9 % are equally far apart.
    Nines,
}

/// An axis of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity, in words.
    pub words: String,
    /// Unit, as the catalogue names units.
    pub unit: String,
    /// Scale. A logarithmic y axis is drawn linear if its values lie close together.
    pub scale: AxisScale,
}

/// A point, with its interval if known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurvePoint {
    /// Value along the x axis.
    pub x: f64,
    /// Value along the y axis.
    pub y: f64,
    /// Confidence interval of `y`: lower and upper end.
    pub interval: Option<(f64, f64)>,
}

/// A line of the chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartCurve {
    /// Its name; empty for the only line.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<CurvePoint>,
}

/// A chart of one quantity over another.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Title above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<ChartCurve>,
}

/// Largest number of points of a line that are each marked by a dot.
const MAX_DOTTED_POINTS: usize = 20;
/// Height up to which intervals are drawn, as a multiple of the highest point.
const MAX_INTERVAL_RATIO: f64 = 1.5;
/// Longest line name beside a chart in a separate file, which is wide; columns.
const MAX_FILE_LABEL_COLUMNS: usize = 24;
/// Longest line name beside a chart on a page, columns. Longer names stand below the chart and letters beside the
/// lines, because long names would take the chart's space.
const MAX_PAGE_LABEL_COLUMNS: usize = 16;
/// Smallest width of a plot: of any plot, and of one that shows labels of the class `wide`.
const MIN_PLOT_WIDTHS_PX: (f64, f64) = (200.0, 480.0);
/// Smallest gap between two labels of an axis.
const LABEL_GAP_PX: f64 = 8.0;
/// Smallest ratio of the largest to the smallest value for which the y axis is logarithmic.
const MIN_LOG_RATIO: f64 = 8.0;

impl AxisScale {
    /// Transforms a value so that equal distances are drawn equally long.
    fn to_linear(self, value: f64) -> f64 {
        match self {
            AxisScale::Linear => value,
            AxisScale::Log => value.log10(),
            AxisScale::Nines => -(1.0 - value).log10(),
        }
    }
}

/// An axis with its ends and labelled marks.
struct Ruler {
    scale: AxisScale,
    low: f64,
    high: f64,
    marks: Vec<(f64, String)>,
}

impl Ruler {
    /// Returns the position of a value: 0 at the lower end, 1 at the upper.
    fn share(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.to_linear(self.low), self.scale.to_linear(self.high));
        let share = (self.scale.to_linear(value) - low) / (high - low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 }
    }

    /// Returns the y coordinate of a value, pixels.
    fn y(&self, value: f64) -> f64 {
        HEAD_HEIGHT_PX + (1.0 - self.share(value)) * PLOT_HEIGHT_PX
    }
}

/// Formats a value for a label of the axis.
fn point_label(value: f64, axis: &Axis) -> String {
    match axis.unit.as_str() {
        "s" | "bytes" | CAPACITY_UNIT | "bytes_per_s" | "fraction" => axis::axis_label(value, &axis.unit),
        _ => axis::axis_label(value, "count"),
    }
}

/// Returns at most `max_count` of the values, evenly spaced, including the last.
fn thin_values(values: Vec<f64>, max_count: usize) -> Vec<f64> {
    let step = values.len().div_ceil(max_count).max(1);
    let last = values.len().saturating_sub(1) % step;
    values.into_iter().enumerate().filter(|(index, _)| index % step == last).map(|(_, v)| v).collect()
}

/// Builds the x axis for `points`; `None` if there are none.
fn make_x_ruler(chart: &Curves, points: &[CurvePoint]) -> Option<Ruler> {
    let axis = &chart.x;
    let mut values: Vec<f64> = points.iter().map(|p| p.x).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let (low, high) = (*values.first()?, *values.last()?);
    let label_values = |values: Vec<f64>| values.into_iter().map(|v| (v, point_label(v, axis))).collect();
    let ruler = match axis.scale {
        AxisScale::Nines => {
            let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
            let high = shares.into_iter().find(|s| *s >= high).unwrap_or(high).max(0.9);
            let name = |s: f64| (s, format!("{} %", (s * 1e7).round() / 1e5));
            Ruler {
                scale: AxisScale::Nines,
                low: 0.0,
                high,
                marks: shares.into_iter().filter(|s| *s <= high).map(name).collect(),
            }
        }
        // the measured values are the most useful marks
        AxisScale::Log => Ruler { scale: AxisScale::Log, low, high, marks: label_values(thin_values(values, 9)) },
        AxisScale::Linear => {
            let marks = axis::round_values(low.min(0.0), high, 8);
            let high = high.max(marks.last().copied().unwrap_or(high));
            Ruler { scale: AxisScale::Linear, low: marks[0], high, marks: label_values(marks) }
        }
    };
    Some(ruler)
}

/// Returns the marks of a logarithmic axis: powers of ten, with their multiples of 2 and 5 if there are few.
fn decade_values(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = if to - from <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let values: Vec<f64> = (from..=to).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d))).collect();
    let first = values.iter().rposition(|v| *v <= low * (1.0 + 1e-9)).unwrap_or(0);
    let last = values.iter().position(|v| *v >= high * (1.0 - 1e-9)).unwrap_or(values.len() - 1);
    values[first..=last.max(first)].to_vec()
}

/// Builds the y axis for `points`; `None` if there are none.
fn make_y_ruler(chart: &Curves, points: &[CurvePoint]) -> Option<Ruler> {
    let extend = |(a, b): (f64, f64), y: f64| (f64::min(a, y), f64::max(b, y));
    let (low, max_y) = points.iter().map(|p| p.y).fold((f64::MAX, f64::MIN), extend);
    // an interval of few repeats may be huge: it must not flatten the line
    let interval_tops = points.iter().filter_map(|p| Some(p.interval?.1.min(MAX_INTERVAL_RATIO * max_y)));
    let (_, high) = interval_tops.fold((low, max_y), extend);
    let is_logarithmic = chart.y.scale == AxisScale::Log && low > 0.0 && high >= MIN_LOG_RATIO * low;
    let (scale, mut values) = if is_logarithmic {
        (AxisScale::Log, decade_values(low, high))
    } else {
        (AxisScale::Linear, axis::value_axis(low.min(high), high, &chart.y.unit, 5))
    };
    let (low, high) = (*values.first()?, *values.last()?);
    if is_logarithmic && values.len() > 7 {
        values = thin_values(values, 7);
    }
    Some(Ruler { scale, low, high, marks: values.into_iter().map(|v| (v, point_label(v, &chart.y))).collect() })
}

/// Returns the points of a line that lie within both scales.
fn drawable_points(chart: &Curves, line: &ChartCurve) -> Vec<CurvePoint> {
    // a file may hold values that no measurement yields; the axes cannot show them
    let is_possible = |v: f64| v == 0.0 || (1e-15..1e24).contains(&v);
    let is_on_scale = |scale: AxisScale, v: f64| match scale {
        AxisScale::Linear => is_possible(v),
        AxisScale::Log => is_possible(v) && v > 0.0,
        AxisScale::Nines => (0.0..1.0).contains(&v),
    };
    let y_scale = if chart.y.scale == AxisScale::Log { AxisScale::Log } else { AxisScale::Linear };
    line.points.iter().copied().filter(|p| is_on_scale(chart.x.scale, p.x) && is_on_scale(y_scale, p.y)).collect()
}

/// Returns the estimated width of a label, pixels.
fn label_width_px(label: &str) -> f64 {
    text::display_width(label) as f64 * 7.0
}

/// Returns which labels along an axis are shown in a plot of any width, and which in a wide one. Of two labels that
/// would touch, the right one is shown.
fn visible_labels(marks: &[(f64, &str)]) -> (Vec<bool>, Vec<bool>) {
    // shows further labels where a plot of this width has space beside those already shown
    let add_labels = |shown: &[bool], width_px: f64| -> Vec<bool> {
        let mut shown = shown.to_vec();
        for index in (0..marks.len()).rev() {
            let is_apart_from = |other: usize| {
                let gap = (marks[index].0 - marks[other].0).abs() * width_px;
                gap >= (label_width_px(marks[index].1) + label_width_px(marks[other].1)) / 2.0 + LABEL_GAP_PX
            };
            shown[index] |= (0..marks.len()).filter(|other| *other != index && shown[*other]).all(is_apart_from);
        }
        shown
    };
    let narrow = add_labels(&vec![false; marks.len()], MIN_PLOT_WIDTHS_PX.0);
    let wide = add_labels(&narrow, MIN_PLOT_WIDTHS_PX.1);
    (narrow, wide)
}

/// Draws the marks below the plot; a value whose label does not fit keeps its tick.
fn draw_x_marks(ruler: &Ruler) -> Markup {
    let marks: Vec<(f64, &str)> = ruler.marks.iter().map(|(v, label)| (ruler.share(*v), label.as_str())).collect();
    let (narrow, wide) = visible_labels(&marks);
    html! {
        @for (index, (share, label)) in marks.iter().enumerate() {
            (svg::draw_column(*share, if wide[index] { label } else { "" }, !narrow[index]))
        }
    }
}

/// A drawn chart: margins at the left and right in pixels, the drawing between them, and the names that its
/// letters stand for.
struct ChartParts {
    left_px: usize,
    right_px: usize,
    body: Markup,
    names: Vec<String>,
}

/// Draws the chart, with line names of at most `max_label_columns` beside the lines; `None` if no point can be drawn.
fn draw_parts(chart: &Curves, max_label_columns: usize) -> Option<ChartParts> {
    let lines: Vec<Vec<CurvePoint>> = chart.lines.iter().take(MAX_LINES).map(|l| drawable_points(chart, l)).collect();
    let points: Vec<CurvePoint> = lines.iter().flatten().copied().collect();
    let (x_ruler, y_ruler) = (make_x_ruler(chart, &points)?, make_y_ruler(chart, &points)?);
    let full_names: Vec<&str> = chart.lines.iter().take(MAX_LINES).map(|l| l.name.as_str()).collect();
    let mut labels = palette::shorten_names(&full_names, MAX_FILE_LABEL_COLUMNS, "…");
    let mut names = Vec::new();
    if labels.iter().any(|name| text::display_width(name) > max_label_columns) {
        let letters = || ('a'..='z').map(String::from);
        names = letters().zip(&full_names).map(|(letter, name)| format!("{letter}: {name}")).collect();
        labels = letters().take(full_names.len()).collect();
    }
    let label = |number: usize| labels[number].clone();
    let ends = lines.iter().enumerate().filter_map(|(n, points)| Some((y_ruler.y(points.last()?.y), n))).collect();
    let paths = html! {
        @for (number, points) in lines.iter().enumerate().filter(|(_, points)| points.len() > 1) {
            path class={ "mean s" (number) } d=(path_text(points, &x_ruler, &y_ruler)) {}
        }
    };
    let body = html! {
        (svg::draw_rows(y_ruler.marks.iter().map(|(v, mark)| (y_ruler.y(*v), mark.as_str()))))
        (draw_x_marks(&x_ruler))
        (svg::stretch_paths(paths))
        @for (number, points) in lines.iter().enumerate() { (draw_dots(chart, points, number, &x_ruler, &y_ruler)) }
        @if full_names.iter().any(|name| !name.is_empty()) { (svg::draw_names(ends, label, |number| number)) }
    };
    let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
    let left_px = widest(&mut y_ruler.marks.iter().map(|(_, mark)| text::display_width(mark))) * 7 + 14;
    let right_px = widest(&mut (0..lines.len()).map(|n| text::display_width(&label(n)))) * 7 + 22;
    Some(ChartParts { left_px, right_px, body, names })
}

/// Writes the path through the points, as its attribute `d`.
fn path_text(points: &[CurvePoint], x_ruler: &Ruler, y_ruler: &Ruler) -> String {
    let point_text = |p: &CurvePoint| {
        format!(
            "{} {}",
            format_coordinate(x_ruler.share(p.x) * 1000.0),
            format_coordinate((1.0 - y_ruler.share(p.y)) * 1000.0)
        )
    };
    format!("M{}", points.iter().map(point_text).collect::<Vec<_>>().join("L"))
}

/// Draws a dot for each point, with its values as a tooltip, and its interval.
fn draw_dots(chart: &Curves, points: &[CurvePoint], number: usize, x_ruler: &Ruler, y_ruler: &Ruler) -> Markup {
    let y = |value: f64| format_coordinate(y_ruler.y(value));
    html! {
        @for p in points.iter().filter(|_| points.len() <= MAX_DOTTED_POINTS) {
            @let x = format_percent(x_ruler.share(p.x));
            @if let Some((low, high)) = p.interval.filter(|(low, high)| high > low) {
                line class={ "spread k" (number) } x1=(x) x2=(x) y1=(y(low.max(y_ruler.low))) y2=(y(high)) {}
            }
            circle class={ "k" (number) } cx=(x) cy=(y(p.y)) r="3" {
                title { (point_label(p.x, &chart.x)) ": " (units::format_value(p.y, &chart.y.unit)) }
            }
        }
    }
}

/// Describes the chart in words: first and last point of each line.
pub fn describe_curves(chart: &Curves) -> String {
    let mut words = format!("{} by {}.", chart.y.words, chart.x.words);
    for line in chart.lines.iter().take(MAX_LINES) {
        let points = drawable_points(chart, line);
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let value = |v: f64| units::format_value(v, &chart.y.unit);
        let name = if line.name.is_empty() { String::new() } else { format!("{}: ", line.name) };
        words.push_str(&format!(
            " {name}{} at {}, {} at {}.",
            value(first.y),
            point_label(first.x, &chart.x),
            value(last.y),
            point_label(last.x, &chart.x)
        ));
    }
    words
}

/// Draws the chart as a `figure` for a page. `id` must be unique there. Returns
/// empty markup if nothing of it can be drawn.
pub(crate) fn curves_figure(chart: &Curves, id: &str) -> Markup {
    let Some(drawing) = draw_parts(chart, MAX_PAGE_LABEL_COLUMNS) else { return Markup::default() };
    let key = axes_key(chart, &drawing);
    let margins = format!("margin-left:{}px;margin-right:{}px", drawing.left_px, drawing.right_px);
    html! {
        "\n"
        figure {
            figcaption { b { (chart.title) } }
            div.plot style=(margins) {
                (svg::chart_svg(None, id, &chart.title, &describe_curves(chart), drawing.body))
            }
            p.key { (key) }
        }
    }
}

/// Explains the axes and the letters beside the lines.
fn axes_key(chart: &Curves, drawing: &ChartParts) -> String {
    let mut key = format!("Along: {}. Up: {}.", chart.x.words, chart.y.words);
    if !drawing.names.is_empty() {
        key.push_str(&format!(" Lines: {}.", drawing.names.join("; ")));
    }
    if chart.lines.len() > MAX_LINES {
        key.push_str(&format!(" Shown: {} of {} lines.", MAX_LINES, chart.lines.len()));
    }
    key
}

/// Width of a chart in a separate file.
const FILE_WIDTH_PX: f64 = 860.0;
/// Height of such a chart with its title, without the lines below it.
const FILE_CHART_HEIGHT_PX: f64 = HEAD_HEIGHT_PX + PLOT_HEIGHT_PX + FOOT_HEIGHT_PX + 56.0;
/// Height of a line of the key below it.
const KEY_LINE_HEIGHT_PX: f64 = 16.0;
/// Width of a line of the key, columns.
const KEY_COLUMNS: usize = 115;

/// Colours of the background and the texts around the charts in such a file.
const FILE_CSS: &str = ".ground { fill: var(--card); } .title { fill: var(--ink); }\n";

/// Draws charts below each other as a self-contained SVG file. `title` stands
/// above them.
pub fn render_svg_file(title: &str, charts: &[Curves]) -> String {
    let mut drawings: Vec<(&Curves, ChartParts, Vec<String>)> = Vec::new();
    for chart in charts {
        if let Some(parts) = draw_parts(chart, MAX_FILE_LABEL_COLUMNS) {
            let lines = text::wrap(&axes_key(chart, &parts), KEY_COLUMNS, 0);
            drawings.push((chart, parts, lines));
        }
    }
    let chart_height = |lines: &[String]| FILE_CHART_HEIGHT_PX + KEY_LINE_HEIGHT_PX * lines.len() as f64;
    let height = format_coordinate(48.0 + drawings.iter().map(|(.., lines)| chart_height(lines)).sum::<f64>());
    let mut top = 48.0;
    let mut drawn = Vec::new();
    for (number, (chart, parts, lines)) in drawings.into_iter().enumerate() {
        let height = chart_height(&lines);
        drawn.push(file_chart(chart, parts, &lines, top, &format!("c{number}")));
        top += height;
    }
    let file = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(FILE_WIDTH_PX) height=(height)
            viewBox={ "0 0 " (FILE_WIDTH_PX) " " (height) } font-family="sans-serif" {
            title { (title) }
            style {}
            rect.ground width="100%" height="100%" {}
            text.title x="20" y="30" font-size="18" font-weight="600" { (title) }
            @for chart in &drawn { (chart) }
        }
    };
    finish_page(file, &[PALETTE_CSS, svg::STYLE_SHEET, FILE_CSS])
}

/// Draws a chart of a separate file: its title, the chart, and its key in lines. `top` is its upper edge, pixels.
fn file_chart(chart: &Curves, parts: ChartParts, key: &[String], top: f64, id: &str) -> Markup {
    let left = 20.0 + parts.left_px as f64;
    let width = FILE_WIDTH_PX - left - 20.0 - parts.right_px as f64;
    let place = ChartPlace { left, top: top + 26.0, width };
    let below = top + 26.0 + HEAD_HEIGHT_PX + PLOT_HEIGHT_PX + FOOT_HEIGHT_PX + KEY_LINE_HEIGHT_PX;
    let line_y = |line: usize| format_coordinate(below + KEY_LINE_HEIGHT_PX * line as f64);
    html! {
        "\n"
        text.title x="20" y=(format_coordinate(top + 18.0)) font-size="14" font-weight="600" { (chart.title) }
        (svg::chart_svg(Some(&place), id, &chart.title, &describe_curves(chart), parts.body))
        @for (line, words) in key.iter().enumerate() {
            text.title x="20" y=(line_y(line)) font-size="12" { (words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_chart(scale: AxisScale, points: &[(f64, f64)]) -> Curves {
        let axis = |scale| Axis { words: "x".into(), unit: "count".into(), scale };
        let points = points.iter().map(|&(x, y)| CurvePoint { x, y, interval: None }).collect();
        let lines = vec![ChartCurve { name: String::new(), points }];
        Curves { title: "t".into(), x: axis(scale), y: axis(AxisScale::Log), lines }
    }

    fn x_positions(scale: AxisScale, points: &[(f64, f64)]) -> Vec<f64> {
        let chart = sample_chart(scale, points);
        let drawn = drawable_points(&chart, &chart.lines[0]);
        let ruler = make_x_ruler(&chart, &drawn).unwrap();
        drawn.iter().map(|p| (ruler.share(p.x) * 1000.0).round()).collect()
    }

    #[test]
    fn nines_and_doublings_are_equally_far_apart() {
        assert_eq!(
            x_positions(AxisScale::Nines, &[(0.0, 1.0), (0.9, 1.0), (0.99, 1.0), (0.999, 1.0)]),
            [0.0, 333.0, 667.0, 1000.0]
        );
        assert_eq!(x_positions(AxisScale::Log, &[(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)]), [0.0, 500.0, 1000.0]);
        assert_eq!(x_positions(AxisScale::Log, &[(8.0, 1.0)]), [500.0]);
    }

    #[test]
    fn omits_points_outside_the_scale() {
        let odd = [(1.0, 0.0), (2.0, f64::NAN), (4.0, f64::INFINITY), (0.0, 1.0), (8.0, -1.0), (1e300, 1.0)];
        assert!(
            x_positions(AxisScale::Log, &[(1.0, 1.0)]).len() == 1
                && curves_figure(&sample_chart(AxisScale::Log, &odd), "a").0.is_empty()
        );
        assert!(curves_figure(&sample_chart(AxisScale::Log, &[]), "a").0.is_empty());
    }

    #[test]
    fn hides_labels_that_would_touch_but_keeps_ticks() {
        let of = |values: &[f64]| {
            let axis = sample_chart(AxisScale::Log, &values.iter().map(|v| (*v, 1.0)).collect::<Vec<_>>());
            let ruler = make_x_ruler(&axis, &axis.lines[0].points).unwrap();
            let marks: Vec<(f64, String)> = ruler.marks.iter().map(|(v, l)| (ruler.share(*v), l.clone())).collect();
            let given: Vec<(f64, &str)> = marks.iter().map(|(share, l)| (*share, l.as_str())).collect();
            let (narrow, wide) = visible_labels(&given);
            let kept = |shown: &[bool]| -> Vec<String> {
                marks.iter().zip(shown).filter(|(_, shown)| **shown).map(|((_, label), _)| label.clone()).collect()
            };
            (kept(&narrow), kept(&wide), curves_figure(&axis, "a").0)
        };
        // a knee is looked for between doublings
        let (narrow, wide, drawn) = of(&[1.0, 4.0, 16.0, 64.0, 104.0, 112.0, 160.0, 256.0]);
        assert_eq!(narrow, ["1", "4", "16", "112", "256"]);
        assert_eq!(wide, ["1", "4", "16", "64", "112", "160", "256"]);
        assert_eq!(drawn.matches("class=\"tick\"").count(), 8, "{drawn}");
        let (narrow, wide, _) = of(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        assert_eq!((narrow.len(), wide.len()), (8, 9), "{narrow:?}");
    }

    #[test]
    fn long_names_stand_below_the_chart_and_short_ones_beside_their_lines() {
        let line = |name: &str, y: f64| ChartCurve {
            name: name.into(),
            points: (1..4).map(|x| CurvePoint { x: f64::from(x), y, interval: None }).collect(),
        };
        let mut two = sample_chart(AxisScale::Linear, &[]);
        two.lines = vec![line("mean", 1.0), line("99 %", 9.0)];
        let drawn = curves_figure(&two, "a").0;
        assert!(drawn.contains(">99 %</text>") && !drawn.contains("Lines:"), "{drawn}");
        two.lines = vec![line("random-read-4k-depth-1", 1.0), line("random-read-4k-depth-256", 9.0)];
        let drawn = curves_figure(&two, "a").0;
        assert!(drawn.contains(">a</text>") && drawn.contains(">b</text>"), "{drawn}");
        assert!(drawn.contains("Lines: a: random-read-4k-depth-1; b: random-read-4k-depth-256."), "{drawn}");
        // a file is wide enough for them
        let alone = render_svg_file("t", std::slice::from_ref(&two));
        assert!(alone.contains(">random-read-4k-depth-256</text>"), "{alone}");
        // and says what its axes are, and letters where the names are too long there too
        assert!(alone.contains(">Along: x. Up: x.</text>"), "{alone}");
        let names = [1, 2].map(|n| format!("a-name-that-is-much-too-long-{n}-to-stand-beside-a-line"));
        two.lines = vec![line(&names[0], 1.0), line(&names[1], 9.0)];
        let alone = render_svg_file("t", &[two]);
        assert!(alone.contains(&format!("Lines: a: {};", names[0])), "{alone}");
    }
}
