//! Line charts for the page, as inline SVG. Widths are shares of the
//! surrounding box and text keeps its size, so that a chart is readable on a
//! phone and on a wide screen. Colours are the page's CSS variables ([`STYLE_SHEET`]),
//! which follow light mode, dark mode and print.

use diskwright_base::{Note, units};
use maud::{Markup, html};

use crate::axis;
use crate::chart_model::{Chart, ChartLine};
use crate::markup::format_coordinate;
use crate::palette;
use crate::text;
use crate::time::{DisplayZone, format_duration};

/// Style sheet of the charts. Colour-blind people can distinguish the line colours
/// (after Okabe and Ito), which have a contrast of at least 3 to 1 on their
/// background.
pub const STYLE_SHEET: &str = include_str!("page/chart.css");

/// Largest number of lines that a chart shows; more cannot be distinguished.
pub const MAX_LINES: usize = 6;

/// Height of the plot without the time axis.
pub(crate) const PLOT_HEIGHT_PX: f64 = 150.0;
/// Height of the space above the plot for the marks of bookmarks.
pub(crate) const HEAD_HEIGHT_PX: f64 = 16.0;
/// Height of the space below the plot for the times.
pub(crate) const FOOT_HEIGHT_PX: f64 = 24.0;

/// Mapping from values to heights in the plot.
struct HeightScale {
    low: f64,
    high: f64,
}

impl HeightScale {
    /// Returns the position of a value: 0 at the top, 1 at the bottom.
    fn share(&self, value: f64) -> f64 {
        1.0 - ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the y coordinate of a value, pixels.
    fn y(&self, value: f64) -> f64 {
        HEAD_HEIGHT_PX + self.share(value) * PLOT_HEIGHT_PX
    }
}

/// Draws the chart as a `div` with one `svg`. `id` must be unique in the page.
/// Bookmarks among `notes` are marked. `styles` are the styles of its lines.
pub(crate) fn draw_chart(chart: &Chart, styles: &[usize], notes: &[Note], zone: &DisplayZone, id: &str) -> Markup {
    let is_single = chart.lines.len() == 1;
    let span = if is_single { chart.full_span() } else { chart.mean_span() };
    let Some((low, high)) = span else {
        return html! { p.blank { "This was not recorded in the window." } };
    };
    let values = axis::value_axis(low, high, &chart.unit, 5);
    let scale = HeightScale { low: values[0], high: values[values.len() - 1] };
    let labels: Vec<String> = values.iter().map(|&v| axis::axis_label(v, &chart.unit)).collect();
    let left_px = labels.iter().map(|l| text::display_width(l)).max().unwrap_or(1) * 7 + 14;
    let names = short_line_names(chart);
    let widest = names.iter().map(|n| text::display_width(n)).max().unwrap_or(0);
    let right_px = if is_single { 12 } else { widest * 7 + 14 };
    let style = |number: usize| styles.get(number).copied().unwrap_or(number);
    let rows = values.iter().zip(&labels).map(|(value, label)| (scale.y(*value), label.as_str()));
    let paths = html! {
        @for (number, line) in chart.lines.iter().take(MAX_LINES).enumerate() {
            (draw_paths(line, style(number), is_single, &scale))
        }
    };
    let drawing = html! {
        (draw_shaded_intervals(chart))
        (draw_rows(rows))
        (stretch_paths(paths))
        (draw_limit(chart, &scale))
        (draw_bookmarks(chart, notes, zone))
        (draw_times(chart, zone))
        @if !is_single { (draw_line_names(chart, &scale, &names, style)) }
    };
    html! {
        div.plot style={ "margin-left:" (left_px) "px;margin-right:" (right_px) "px" } {
            (chart_svg(None, id, &chart.title, &describe_chart(chart, zone), drawing))
        }
    }
}

/// Puts paths into a box of 1000 by 1000 over the whole plot.
pub(crate) fn stretch_paths(paths: Markup) -> Markup {
    html! {
        svg viewBox="0 0 1000 1000" preserveAspectRatio="none" x="0" y=(HEAD_HEIGHT_PX) width="100%"
            height=(PLOT_HEIGHT_PX) { (paths) }
    }
}

/// Place of a chart's `svg` in a larger drawing, pixels.
pub(crate) struct ChartPlace {
    /// Left edge.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Width.
    pub width: f64,
}

/// Wraps a drawing in a chart's `svg` with its description for users who cannot see it. Without a place it is as wide
/// as the surrounding box.
pub(crate) fn chart_svg(
    place: Option<&ChartPlace>,
    id: &str,
    title: &str,
    description: &str,
    drawing: Markup,
) -> Markup {
    let width = place.map_or_else(|| "100%".to_owned(), |place| format_coordinate(place.width));
    let height = format_coordinate(HEAD_HEIGHT_PX + PLOT_HEIGHT_PX + FOOT_HEIGHT_PX);
    html! {
        "\n"
        svg.chart role="img" aria-labelledby={ (id) "-t " (id) "-d" } x=[place.map(|place| place.left)]
            y=[place.map(|place| format_coordinate(place.top))] width=(width) height=(height) {
            (title_drawing(id, title, description))
            (drawing)
        }
    }
}

/// Titles a drawing, and describes it for users who cannot see it.
pub(crate) fn title_drawing(id: &str, title: &str, description: &str) -> Markup {
    html! {
        title id={ (id) "-t" } { (title) }
        desc id={ (id) "-d" } { (description) }
    }
}

/// Draws horizontal lines across the plot with their values at the left.
pub(crate) fn draw_rows<'a>(rows: impl Iterator<Item = (f64, &'a str)>) -> Markup {
    html! {
        @for (y, label) in rows.map(|(y, label)| (format_coordinate(y), label)) {
            line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
            text.y x="-8" y=(y) dy="4" { (label) }
        }
    }
}

/// Draws a mark under the plot, at a share of its width; an empty label is left out. `is_wide` hides the label on a
/// narrow screen.
pub(crate) fn draw_column(share: f64, label: &str, is_wide: bool) -> Markup {
    let (x, bottom) = (format_percent(share), HEAD_HEIGHT_PX + PLOT_HEIGHT_PX);
    html! {
        line.tick x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5.0) {}
        @if !label.is_empty() {
            text.x.wide[is_wide] x=(x) y=(bottom + 18.0) { (label) }
        }
    }
}

/// Returns names of the drawn lines, shortened so that they still differ.
fn short_line_names(chart: &Chart) -> Vec<String> {
    let name = |l: &ChartLine| if l.instance == "_total" { "all".to_owned() } else { l.instance.clone() };
    let names: Vec<String> = chart.lines.iter().take(MAX_LINES).map(name).collect();
    palette::shorten_names(&names.iter().map(String::as_str).collect::<Vec<_>>(), 14, "…")
}

/// Formats a share as an SVG percentage.
pub(crate) fn format_percent(share: f64) -> String {
    format!("{}%", format_coordinate(share.clamp(0.0, 1.0) * 100.0))
}

/// Draws the line of the means and, with `has_band`, the band from minimum to
/// maximum. Each run of data is a separate path; unrecorded time stays empty.
fn draw_paths(line: &ChartLine, number: usize, has_band: bool, scale: &HeightScale) -> Markup {
    let count = line.buckets.len() as f64;
    let (mut means, mut band) = (String::new(), String::new());
    for run in line.data_runs() {
        // from edge to edge, so that a single bucket is visible
        let mut points: Vec<(f64, usize)> = vec![(run.start as f64 / count, run.start)];
        points.extend(run.clone().map(|index| ((index as f64 + 0.5) / count, index)));
        points.push((run.end as f64 / count, run.end - 1));
        let point = |(x, index): &(f64, usize), value: fn(&crate::ChartBucket) -> f64| {
            let y = scale.share(value(&line.buckets[*index])) * 1000.0;
            format!("{} {}", format_coordinate(x * 1000.0), format_coordinate(y))
        };
        let point_texts =
            |value: fn(&crate::ChartBucket) -> f64| -> Vec<String> { points.iter().map(|p| point(p, value)).collect() };
        means.push_str(&format!("M{}", point_texts(|b| b.mean).join("L")));
        let mut lower = point_texts(|b| b.min);
        lower.reverse();
        band.push_str(&format!("M{}L{}Z", point_texts(|b| b.max).join("L"), lower.join("L")));
    }
    html! {
        @if has_band { path class={ "band s" (number) } d=(band) {} }
        path class={ "mean s" (number) } d=(means) {}
    }
}

/// Shades the intervals in which the finding held.
fn draw_shaded_intervals(chart: &Chart) -> Markup {
    let share = |time_ns: i64| chart.time_share(time_ns).clamp(0.0, 1.0);
    let ends = chart.shaded_intervals.iter().map(|(from, to)| (share(*from), share(*to)));
    html! {
        @for (start, end) in ends.filter(|(start, end)| end > start) {
            rect.held x=(format_percent(start)) width=(format_percent(end - start)) y=(HEAD_HEIGHT_PX)
                height=(PLOT_HEIGHT_PX) {}
        }
    }
}

fn draw_limit(chart: &Chart, scale: &HeightScale) -> Markup {
    let Some(limit) = chart.drawn_limit() else { return Markup::default() };
    let y = scale.y(limit);
    // the text stands on the side of the line with fewer values, within the plot
    let ends = chart.lines.iter().flat_map(|l| l.buckets.iter().skip(l.buckets.len() * 3 / 4));
    let heights: Vec<f64> = ends.filter(|b| !b.is_gap()).map(|b| scale.y(b.mean)).collect();
    let count_points = |from: f64, to: f64| heights.iter().filter(|h| (from..to).contains(h)).count();
    let is_below = y < HEAD_HEIGHT_PX + 14.0
        || (count_points(y - 18.0, y) > count_points(y, y + 18.0) && y < HEAD_HEIGHT_PX + PLOT_HEIGHT_PX - 18.0);
    let (y, dy) = (format_coordinate(y), if is_below { 14 } else { -5 });
    html! {
        line.limit x1="0" x2="100%" y1=(y) y2=(y) {}
        text.limit x="100%" y=(y) dx="-4" dy=(dy) { "limit " (units::format_value(limit, &chart.unit)) }
    }
}

/// Draws a vertical mark for each bookmark with its number, and its text if it
/// fits before the next one.
fn draw_bookmarks(chart: &Chart, notes: &[Note], zone: &DisplayZone) -> Markup {
    let found = chart.bookmarks(notes);
    let words = |index: usize, note: &Note| {
        let next = found.get(index + 1).map_or(1.0, |(_, n)| chart.time_share(n.time_ns));
        // 90 columns of text fit into the width of a chart
        let columns = ((next - chart.time_share(note.time_ns)) * 90.0) as usize;
        if columns >= 8 { text::cut_text(note.text(), columns.min(30), "…") } else { String::new() }
    };
    html! {
        @for (index, (number, note)) in found.iter().enumerate() {
            @let x = format_percent(chart.time_share(note.time_ns));
            g.mark {
                title { (zone.format_clock(note.time_ns)) " " (note.text()) }
                line x1=(x) x2=(x) y1=(HEAD_HEIGHT_PX) y2=(HEAD_HEIGHT_PX + PLOT_HEIGHT_PX) {}
                text x=(x) y="11" dx="-3" { (number) tspan.wide { " " (words(index, note)) } }
            }
        }
    }
}

/// Draws the times under the plot. Every second label is hidden on a narrow screen.
fn draw_times(chart: &Chart, zone: &DisplayZone) -> Markup {
    let marks = zone.axis_marks(chart.from_ns, chart.to_ns, 8);
    html! {
        @for (index, mark) in marks.iter().enumerate() {
            (draw_column(chart.time_share(mark.time_ns), &mark.label, index % 2 == 1))
        }
    }
}

fn draw_line_names(chart: &Chart, scale: &HeightScale, names: &[String], style: impl Fn(usize) -> usize) -> Markup {
    let end_y = |l: &ChartLine| l.buckets.iter().rev().find(|b| !b.is_gap()).map(|b| scale.y(b.mean));
    let shown = chart.lines.iter().take(MAX_LINES).enumerate();
    let ends = shown.filter_map(|(n, l)| Some((end_y(l)?, n))).collect();
    draw_names(ends, |number| names[number].clone(), style)
}

/// Draws the names of lines at their ends, moved apart where they would touch.
/// `ends` has the y coordinate of each line's end, pixels, and the line's number.
pub(crate) fn draw_names(
    mut ends: Vec<(f64, usize)>,
    name: impl Fn(usize) -> String,
    style: impl Fn(usize) -> usize,
) -> Markup {
    const MIN_DISTANCE_PX: f64 = 14.0;
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    for index in 1..ends.len() {
        ends[index].0 = ends[index].0.max(ends[index - 1].0 + MIN_DISTANCE_PX);
    }
    // names pushed below the plot move up again, starting from the bottom
    let mut max_y = HEAD_HEIGHT_PX + PLOT_HEIGHT_PX + 4.0;
    for (y, _) in ends.iter_mut().rev() {
        *y = y.min(max_y);
        max_y = *y - MIN_DISTANCE_PX;
    }
    html! {
        @for (y, number) in ends {
            text class={ "name s" (style(number)) } x="100%" dx="6" y=(format_coordinate(y)) dy="4" { (name(number)) }
        }
    }
}

/// Describes the chart in a sentence or two, for users who cannot see it.
pub fn describe_chart(chart: &Chart, zone: &DisplayZone) -> String {
    let mut words = format!("{}.", zone.format_range(chart.from_ns, chart.to_ns));
    for (line, name) in chart.lines.iter().zip(short_line_names(chart)) {
        let name = if line.instance.is_empty() { String::new() } else { format!("{name}: ") };
        let value = |v: f64| units::format_value(v, &chart.unit);
        match line.summary() {
            Some((min, mean, max)) => {
                let (min, mean, max) = (value(min), value(mean), value(max));
                words.push_str(&format!(" {name}minimum {min}, mean {mean}, maximum {max}."));
            }
            None => words.push_str(&format!(" {name}nothing recorded.")),
        }
    }
    if let Some(limit) = chart.limit {
        words.push_str(&format!(" Limit {}.", units::format_value(limit, &chart.unit)));
    }
    let held_s: f64 = chart.shaded_intervals.iter().map(|(from, to)| (to - from) as f64 * 1e-9).sum();
    if held_s > 0.0 {
        words.push_str(&format!(" The {} in which the finding held are shaded.", format_duration(held_s)));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn draw_sample(chart: &Chart) -> String {
        draw_chart(chart, &[], &fixture::sample_notes(), &DisplayZone::utc(), "x").0
    }

    /// The `d` of the paths of a class.
    fn path_points<'a>(svg: &'a str, class: &str) -> Vec<&'a str> {
        let of_class = |p: &&str| p.contains(&format!("class=\"{class} "));
        let d = |p: &'a str| p.split("d=\"").nth(1)?.split('"').next();
        svg.split("<path").filter(of_class).filter_map(d).collect()
    }

    #[test]
    fn a_gap_splits_line_and_band() {
        let svg = draw_sample(&fixture::finding_chart(0, 6.2));
        assert_eq!(path_points(&svg, "mean").len(), 1);
        assert_eq!(path_points(&svg, "mean")[0].matches('M').count(), 2);
        assert_eq!(path_points(&svg, "band")[0].matches('Z').count(), 2);
    }

    #[test]
    fn every_point_lies_in_the_plot() {
        for chart in [fixture::finding_chart(0, 6.2), fixture::sample_chart("physical_disk.busy", &["sda", "sdb"], 0.6)]
        {
            let svg = draw_sample(&chart);
            for path in path_points(&svg, "mean").iter().chain(&path_points(&svg, "band")) {
                for number in path.split(['M', 'L', 'Z', ' ']).filter(|n| !n.is_empty()) {
                    let number: f64 = number.parse().expect("a coordinate");
                    assert!((0.0..=1000.0).contains(&number), "{number}");
                }
            }
        }
    }

    #[test]
    fn draws_and_describes_limit_held_intervals_and_bookmarks() {
        let svg = draw_sample(&fixture::finding_chart(0, 6.2));
        assert!(svg.contains(">limit 2 requests</text>"));
        assert_eq!(svg.matches("class=\"held\"").count(), 2, "only what held is shaded");
        assert_eq!(svg.matches("class=\"mark\"").count(), 2);
        let expected = "Limit 2 requests. The 2 min 40 s in which the finding held are shaded.</desc>";
        assert!(svg.contains(expected), "{svg}");
        assert!(!draw_sample(&fixture::sample_chart("physical_disk.busy", &["sda"], 0.6)).contains("limit"));
    }

    #[test]
    fn a_limit_far_above_does_not_flatten_the_line() {
        let mut chart = fixture::finding_chart(0, 6.2);
        chart.limit = Some(1000.0);
        assert_eq!(chart.drawn_limit(), None);
        assert!(!draw_sample(&chart).contains("class=\"limit\""));
    }

    #[test]
    fn several_lines_are_named_at_their_ends_and_do_not_touch() {
        let svg = draw_sample(&fixture::sample_chart(
            "physical_disk.bytes_per_s",
            &["sda", "sdb", "sdc", "sdd", "sde", "sdf"],
            1e3,
        ));
        let y = |t: &str| t.split(" y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
        let mut heights: Vec<f64> = svg.split("<text").filter(|t| t.contains("class=\"name ")).filter_map(y).collect();
        assert_eq!(heights.len(), 6);
        heights.sort_unstable_by(f64::total_cmp);
        assert!(heights.windows(2).all(|w| w[1] - w[0] >= 13.9), "{heights:?}");
    }

    #[test]
    fn says_that_nothing_was_recorded() {
        let mut chart = fixture::sample_chart("physical_disk.busy", &["sda"], 0.6);
        chart.lines[0].buckets.fill(crate::ChartBucket::GAP);
        assert!(draw_sample(&chart).contains("was not recorded"));
    }
}
