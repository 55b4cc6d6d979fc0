//! Charts of one quantity over another (not over time of day): throughput by
//! record size, latency by percentile. They are drawn with the parts of
//! [`crate::svg`], on a page or as a separate file.

use diskwright_base::units;

use crate::axis;
use crate::html::PALETTE;
use crate::markup::{coordinate, escape};
use crate::palette;
use crate::svg::{self, FOOT, HEAD, LINES, PLOT, STRETCHED, percent};
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
const DOTS: usize = 20;
/// Height up to which intervals are drawn, as a multiple of the highest point.
const TALLEST: f64 = 1.5;
/// Longest line name beside a chart in a separate file, which is wide; columns.
const NAME: usize = 24;
/// Longest line name beside a chart on a page, columns. Longer names stand below the chart and letters beside the
/// lines, because long names would take the chart's space.
const BESIDE: usize = 16;
/// Smallest width of a plot: of any plot, and of one that shows labels of the class `wide`.
const WIDTHS: (f64, f64) = (200.0, 480.0);
/// Smallest gap between two labels of an axis.
const APART: f64 = 8.0;
/// Smallest ratio of the largest to the smallest value for which the y axis is logarithmic.
const LOG_FROM: f64 = 8.0;

impl AxisScale {
    /// Transforms a value so that equal distances are drawn equally long.
    fn even(self, value: f64) -> f64 {
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
        let (low, high) = (self.scale.even(self.low), self.scale.even(self.high));
        let share = (self.scale.even(value) - low) / (high - low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 }
    }

    /// Returns the y coordinate of a value, pixels.
    fn y(&self, value: f64) -> f64 {
        HEAD + (1.0 - self.share(value)) * PLOT
    }
}

/// Formats a size in binary units, as programs accept it: `4K`, `1M`.
pub fn binary(bytes: f64) -> String {
    let whole = |unit: f64| bytes >= unit && (bytes / unit * 2.0).fract() == 0.0;
    [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .map(|(power, letter)| (f64::from(1u32 << power), letter))
        .find(|(unit, _)| whole(*unit))
        .map_or_else(|| units::format_significant(bytes), |(unit, letter)| format!("{}{letter}", bytes / unit))
}

/// Formats a value for a label of the axis.
fn label(value: f64, axis: &Axis) -> String {
    match axis.unit.as_str() {
        "request_bytes" => binary(value),
        "s" | "bytes" | "bytes_per_s" | "fraction" => axis::label(value, &axis.unit),
        _ => axis::label(value, "count"),
    }
}

/// Returns at most `max_count` of the values, evenly spaced, including the last.
fn thinned(values: Vec<f64>, max_count: usize) -> Vec<f64> {
    let step = values.len().div_ceil(max_count).max(1);
    let last = values.len().saturating_sub(1) % step;
    values.into_iter().enumerate().filter(|(index, _)| index % step == last).map(|(_, v)| v).collect()
}

/// Builds the x axis for `points`; `None` if there are none.
fn along(chart: &Curves, points: &[CurvePoint]) -> Option<Ruler> {
    let axis = &chart.x;
    let mut values: Vec<f64> = points.iter().map(|p| p.x).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let (low, high) = (*values.first()?, *values.last()?);
    let marked = |values: Vec<f64>| values.into_iter().map(|v| (v, label(v, axis))).collect();
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
        AxisScale::Log => Ruler { scale: AxisScale::Log, low, high, marks: marked(thinned(values, 9)) },
        AxisScale::Linear => {
            let marks = axis::round_values(low.min(0.0), high, 8);
            let high = high.max(marks.last().copied().unwrap_or(high));
            Ruler { scale: AxisScale::Linear, low: marks[0], high, marks: marked(marks) }
        }
    };
    Some(ruler)
}

/// Returns the marks of a logarithmic axis: powers of ten, with their multiples of 2 and 5 if there are few.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = if to - from <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all: Vec<f64> = (from..=to).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d))).collect();
    let first = all.iter().rposition(|v| *v <= low * (1.0 + 1e-9)).unwrap_or(0);
    let last = all.iter().position(|v| *v >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    all[first..=last.max(first)].to_vec()
}

/// Builds the y axis for `points`; `None` if there are none.
fn up(chart: &Curves, points: &[CurvePoint]) -> Option<Ruler> {
    let ends = |(a, b): (f64, f64), y: f64| (f64::min(a, y), f64::max(b, y));
    let (low, max_y) = points.iter().map(|p| p.y).fold((f64::MAX, f64::MIN), ends);
    // an interval of few repeats may be huge: it must not flatten the line
    let reach = points.iter().filter_map(|p| Some(p.interval?.1.min(TALLEST * max_y)));
    let (_, high) = reach.fold((low, max_y), ends);
    let logarithmic = chart.y.scale == AxisScale::Log && low > 0.0 && high >= LOG_FROM * low;
    let (scale, mut values) = if logarithmic {
        (AxisScale::Log, decades(low, high))
    } else {
        (AxisScale::Linear, axis::value_axis(low.min(high), high, &chart.y.unit, 5))
    };
    let (low, high) = (*values.first()?, *values.last()?);
    if logarithmic && values.len() > 7 {
        values = thinned(values, 7);
    }
    Some(Ruler { scale, low, high, marks: values.into_iter().map(|v| (v, label(v, &chart.y))).collect() })
}

/// Returns the points of a line that lie within both scales.
fn drawn(chart: &Curves, line: &ChartCurve) -> Vec<CurvePoint> {
    // a file may hold values that no measurement gives; the axes cannot show them
    let possible = |v: f64| v == 0.0 || (1e-15..1e24).contains(&v);
    let fits = |scale: AxisScale, v: f64| match scale {
        AxisScale::Linear => possible(v),
        AxisScale::Log => possible(v) && v > 0.0,
        AxisScale::Nines => (0.0..1.0).contains(&v),
    };
    let height = if chart.y.scale == AxisScale::Log { AxisScale::Log } else { AxisScale::Linear };
    line.points.iter().copied().filter(|p| fits(chart.x.scale, p.x) && fits(height, p.y)).collect()
}

/// Returns the estimated width of a label, pixels.
fn long(label: &str) -> f64 {
    text::width(label) as f64 * 7.0
}

/// Returns which labels along an axis are shown in a plot of any width, and which in a wide one. Of two labels that
/// would touch, the right one is shown.
fn shown(marks: &[(f64, &str)]) -> (Vec<bool>, Vec<bool>) {
    let pass = |kept: &[bool], width: f64| -> Vec<bool> {
        let mut shown = kept.to_vec();
        for index in (0..marks.len()).rev() {
            let apart = |other: usize| {
                let gap = (marks[index].0 - marks[other].0).abs() * width;
                gap >= (long(marks[index].1) + long(marks[other].1)) / 2.0 + APART
            };
            shown[index] |= (0..marks.len()).filter(|other| *other != index && shown[*other]).all(apart);
        }
        shown
    };
    let narrow = pass(&vec![false; marks.len()], WIDTHS.0);
    let wide = pass(&narrow, WIDTHS.1);
    (narrow, wide)
}

/// Appends the marks below the plot; a value whose label does not fit keeps its tick.
fn foot(out: &mut String, along: &Ruler) {
    let marks: Vec<(f64, &str)> = along.marks.iter().map(|(v, label)| (along.share(*v), label.as_str())).collect();
    let (narrow, wide) = shown(&marks);
    for (index, (share, label)) in marks.iter().enumerate() {
        let label = if wide[index] { label } else { "" };
        svg::column(out, *share, label, !narrow[index]);
    }
}

/// A drawn chart: margins at the left and right in pixels, the drawing between them, and the names that its
/// letters stand for.
struct ChartParts {
    left: usize,
    right: usize,
    inside: String,
    names: Vec<String>,
}

/// Draws the chart, with line names of at most `max_label_columns` beside the lines; `None` if no point can be drawn.
fn inside(chart: &Curves, max_label_columns: usize) -> Option<ChartParts> {
    let lines: Vec<Vec<CurvePoint>> = chart.lines.iter().take(LINES).map(|l| drawn(chart, l)).collect();
    let all: Vec<CurvePoint> = lines.iter().flatten().copied().collect();
    let (along, up) = (along(chart, &all)?, up(chart, &all)?);
    let mut out = String::new();
    svg::rows(&mut out, up.marks.iter().map(|(v, label)| (up.y(*v), label.as_str())));
    foot(&mut out, &along);
    out.push_str(STRETCHED);
    for (number, points) in lines.iter().enumerate().filter(|(_, points)| points.len() > 1) {
        let place = |p: &CurvePoint| {
            format!("{} {}", coordinate(along.share(p.x) * 1000.0), coordinate((1.0 - up.share(p.y)) * 1000.0))
        };
        let path: Vec<String> = points.iter().map(place).collect();
        out.push_str(&format!("<path class=\"mean s{number}\" d=\"M{}\"/>\n", path.join("L")));
    }
    out.push_str("</svg>\n");
    for (number, points) in lines.iter().enumerate() {
        dots(&mut out, chart, points, number, &along, &up);
    }
    let full: Vec<&str> = chart.lines.iter().take(LINES).map(|l| l.name.as_str()).collect();
    let mut short = palette::short(&full, NAME, "…");
    let mut names = Vec::new();
    if short.iter().any(|name| text::width(name) > max_label_columns) {
        let letters = || ('a'..='z').map(String::from);
        names = letters().zip(&full).map(|(letter, name)| format!("{letter}: {name}")).collect();
        short = letters().take(full.len()).collect();
    }
    let name = |number: usize| short[number].clone();
    if full.iter().any(|name| !name.is_empty()) {
        let ends = lines.iter().enumerate().filter_map(|(n, points)| Some((up.y(points.last()?.y), n))).collect();
        svg::names(&mut out, ends, name, |number| number);
    }
    let widest = |labels: &mut dyn Iterator<Item = usize>| labels.max().unwrap_or(0);
    let left = widest(&mut up.marks.iter().map(|(_, l)| text::width(l))) * 7 + 14;
    let right = widest(&mut (0..lines.len()).map(|n| text::width(&name(n)))) * 7 + 22;
    Some(ChartParts { left, right, inside: out, names })
}

/// Appends a dot for each point, with its values as a tooltip, and its interval.
fn dots(out: &mut String, chart: &Curves, points: &[CurvePoint], number: usize, along: &Ruler, up: &Ruler) {
    for p in points.iter().filter(|_| points.len() <= DOTS) {
        let (x, y) = (percent(along.share(p.x)), coordinate(up.y(p.y)));
        if let Some((low, high)) = p.interval.filter(|(low, high)| high > low) {
            out.push_str(&format!(
                "<line class=\"spread k{number}\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\"/>",
                coordinate(up.y(low.max(up.low))),
                coordinate(up.y(high))
            ));
        }
        let value = units::format_value(p.y, &chart.y.unit);
        out.push_str(&format!(
            "<circle class=\"k{number}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"><title>{}: {}</title></circle>\n",
            escape(&label(p.x, &chart.x)),
            escape(&value)
        ));
    }
}

/// Describes the chart in words: first and last point of each line.
pub fn describe(chart: &Curves) -> String {
    let mut words = format!("{} by {}.", chart.y.words, chart.x.words);
    for line in chart.lines.iter().take(LINES) {
        let points = drawn(chart, line);
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let value = |v: f64| units::format_value(v, &chart.y.unit);
        let name = if line.name.is_empty() { String::new() } else { format!("{}: ", line.name) };
        words.push_str(&format!(
            " {name}{} at {}, {} at {}.",
            value(first.y),
            label(first.x, &chart.x),
            value(last.y),
            label(last.x, &chart.x)
        ));
    }
    words
}

/// Draws the chart as a `figure` for a page. `id` must be unique there. Returns an
/// empty string if nothing of it can be drawn.
pub fn figure(chart: &Curves, id: &str) -> String {
    let Some(drawing) = inside(chart, BESIDE) else { return String::new() };
    let mut out = format!(
        "<figure>\n<figcaption><b>{}</b></figcaption>\n\
         <div class=\"plot\" style=\"margin-left:{}px;margin-right:{}px\">\n",
        escape(&chart.title),
        drawing.left,
        drawing.right
    );
    svg::open(&mut out, "width=\"100%\"", id, &chart.title, &describe(chart));
    out.push_str(&drawing.inside);
    out.push_str("</svg>\n</div>\n");
    out.push_str(&format!("<p class=\"key\">{}</p>\n</figure>\n", escape(&key(chart, &drawing))));
    out
}

/// Explains the axes and the letters beside the lines.
fn key(chart: &Curves, drawing: &ChartParts) -> String {
    let mut key = format!("Along: {}. Up: {}.", chart.x.words, chart.y.words);
    if !drawing.names.is_empty() {
        key.push_str(&format!(" Lines: {}.", drawing.names.join("; ")));
    }
    if chart.lines.len() > LINES {
        key.push_str(&format!(" Shown: {} of {} lines.", LINES, chart.lines.len()));
    }
    key
}

/// Width of a chart in a separate file.
const WIDE: f64 = 860.0;
/// Height of such a chart with its title, without the lines below it.
const TALL: f64 = HEAD + PLOT + FOOT + 56.0;
/// Height of a line of the key below it.
const KEY_LINE: f64 = 16.0;
/// Width of a line of the key, columns.
const KEY_COLUMNS: usize = 115;

/// Draws charts below each other as a self-contained SVG file. `title` stands
/// above them.
pub fn file(title: &str, charts: &[Curves]) -> String {
    let mut drawings: Vec<(&Curves, ChartParts, Vec<String>)> = Vec::new();
    for chart in charts {
        if let Some(parts) = inside(chart, NAME) {
            let lines = text::wrap(&key(chart, &parts), KEY_COLUMNS, 0);
            drawings.push((chart, parts, lines));
        }
    }
    let tall = |lines: &[String]| TALL + KEY_LINE * lines.len() as f64;
    let height = coordinate(48.0 + drawings.iter().map(|(.., lines)| tall(lines)).sum::<f64>());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n<title>{title}</title>\n<style>\n{palette}{}\
         .ground {{ fill: var(--card); }} .title {{ fill: var(--ink); }}\n</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"20\" y=\"30\" font-size=\"18\" font-weight=\"600\">{title}</text>\n",
        svg::STYLE,
        title = escape(title),
        width = WIDE,
        palette = PALETTE,
    );
    let mut top = 48.0;
    for (number, (chart, drawing, lines)) in drawings.iter().enumerate() {
        out.push_str(&format!(
            "<text class=\"title\" x=\"20\" y=\"{}\" font-size=\"14\" font-weight=\"600\">{}</text>\n",
            coordinate(top + 18.0),
            escape(&chart.title)
        ));
        let left = 20.0 + drawing.left as f64;
        let width = WIDE - left - 20.0 - drawing.right as f64;
        let place = format!("x=\"{left}\" y=\"{}\" width=\"{}\"", coordinate(top + 26.0), coordinate(width));
        svg::open(&mut out, &place, &format!("c{number}"), &chart.title, &describe(chart));
        out.push_str(&drawing.inside);
        out.push_str("</svg>\n");
        let below = top + 26.0 + HEAD + PLOT + FOOT + KEY_LINE;
        for (line, words) in lines.iter().enumerate() {
            let y = coordinate(below + KEY_LINE * line as f64);
            let words = escape(words);
            out.push_str(&format!("<text class=\"title\" x=\"20\" y=\"{y}\" font-size=\"12\">{words}</text>\n"));
        }
        top += tall(lines);
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: AxisScale, points: &[(f64, f64)]) -> Curves {
        let axis = |scale| Axis { words: "x".into(), unit: "count".into(), scale };
        let points = points.iter().map(|&(x, y)| CurvePoint { x, y, interval: None }).collect();
        let lines = vec![ChartCurve { name: String::new(), points }];
        Curves { title: "t".into(), x: axis(scale), y: axis(AxisScale::Log), lines }
    }

    fn places(scale: AxisScale, points: &[(f64, f64)]) -> Vec<f64> {
        let chart = chart(scale, points);
        let drawn = drawn(&chart, &chart.lines[0]);
        let ruler = along(&chart, &drawn).unwrap();
        drawn.iter().map(|p| (ruler.share(p.x) * 1000.0).round()).collect()
    }

    #[test]
    fn nines_and_doublings_are_equally_far_apart() {
        assert_eq!(
            places(AxisScale::Nines, &[(0.0, 1.0), (0.9, 1.0), (0.99, 1.0), (0.999, 1.0)]),
            [0.0, 333.0, 667.0, 1000.0]
        );
        assert_eq!(places(AxisScale::Log, &[(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)]), [0.0, 500.0, 1000.0]);
        assert_eq!(places(AxisScale::Log, &[(8.0, 1.0)]), [500.0]);
    }

    #[test]
    fn what_no_scale_has_a_place_for_is_left_out() {
        let odd = [(1.0, 0.0), (2.0, f64::NAN), (4.0, f64::INFINITY), (0.0, 1.0), (8.0, -1.0), (1e300, 1.0)];
        assert!(
            places(AxisScale::Log, &[(1.0, 1.0)]).len() == 1 && figure(&chart(AxisScale::Log, &odd), "a").is_empty()
        );
        assert!(figure(&chart(AxisScale::Log, &[]), "a").is_empty());
    }

    #[test]
    fn labels_that_would_touch_give_way_and_keep_their_ticks() {
        let of = |values: &[f64]| {
            let axis = chart(AxisScale::Log, &values.iter().map(|v| (*v, 1.0)).collect::<Vec<_>>());
            let ruler = along(&axis, &axis.lines[0].points).unwrap();
            let marks: Vec<(f64, String)> = ruler.marks.iter().map(|(v, l)| (ruler.share(*v), l.clone())).collect();
            let given: Vec<(f64, &str)> = marks.iter().map(|(share, l)| (*share, l.as_str())).collect();
            let (narrow, wide) = shown(&given);
            let kept = |shown: &[bool]| -> Vec<String> {
                marks.iter().zip(shown).filter(|(_, shown)| **shown).map(|((_, label), _)| label.clone()).collect()
            };
            (kept(&narrow), kept(&wide), figure(&axis, "a"))
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
        let mut two = chart(AxisScale::Linear, &[]);
        two.lines = vec![line("mean", 1.0), line("99 %", 9.0)];
        let drawn = figure(&two, "a");
        assert!(drawn.contains(">99 %</text>") && !drawn.contains("Lines:"), "{drawn}");
        two.lines = vec![line("random-read-4k-depth-1", 1.0), line("random-read-4k-depth-256", 9.0)];
        let drawn = figure(&two, "a");
        assert!(drawn.contains(">a</text>") && drawn.contains(">b</text>"), "{drawn}");
        assert!(drawn.contains("Lines: a: random-read-4k-depth-1; b: random-read-4k-depth-256."), "{drawn}");
        // a file is wide enough for them
        let alone = file("t", std::slice::from_ref(&two));
        assert!(alone.contains(">random-read-4k-depth-256</text>"), "{alone}");
        // and says what its axes are, and letters where the names are too long there too
        assert!(alone.contains(">Along: x. Up: x.</text>"), "{alone}");
        let names = [1, 2].map(|n| format!("a-name-that-is-much-too-long-{n}-to-stand-beside-a-line"));
        two.lines = vec![line(&names[0], 1.0), line(&names[1], 9.0)];
        let alone = file("t", &[two]);
        assert!(alone.contains(&format!("Lines: a: {};", names[0])), "{alone}");
    }

    #[test]
    fn sizes_are_told_as_programs_ask_for_them() {
        let told = [512.0, 2048.0, 1536.0, 65_536.0, 1_048_576.0, 8_388_608.0].map(binary);
        assert_eq!(told, ["512", "2K", "1.5K", "64K", "1M", "8M"]);
    }
}
