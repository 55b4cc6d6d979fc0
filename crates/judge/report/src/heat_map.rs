//! Heat map of latency over time: time from left to right, doublings of latency from bottom to top, darker for
//! more requests. The shade is logarithmic, because the few slow requests matter most.

use diskwright_base::units;
use maud::{Markup, PreEscaped, html};

use crate::markup::format_coordinate;
use crate::svg::title_drawing;
use crate::time::DisplayZone;

/// Height of a row, which is a doubling of latency.
const ROW_HEIGHT_PX: f64 = 12.0;
/// Space at the left for the labels of latency.
const LABEL_WIDTH_PX: f64 = 72.0;
/// Width of the map in units of its `viewBox`.
const MAP_WIDTH: f64 = 1000.0;

/// Latencies of one operation on one device over a window.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatChart {
    /// Title: operation and device.
    pub title: String,
    /// Start of the window, nanoseconds since 1970 UTC.
    pub from_ns: i64,
    /// End of the window, nanoseconds since 1970 UTC.
    pub to_ns: i64,
    /// Number of requests.
    pub requests: u64,
    /// Median latency, seconds.
    pub median_s: Option<f64>,
    /// 99th percentile of latency, seconds.
    pub p99_s: Option<f64>,
    /// Longest latency, seconds.
    pub longest_s: Option<f64>,
    /// Label of each row's lower edge, shortest latency first.
    pub labels: Vec<String>,
    /// Requests by column and row.
    pub columns: Vec<Vec<u64>>,
}

/// Describes the map in words, for users who cannot see it.
fn describe_heat_map(chart: &HeatChart, zone: &DisplayZone) -> String {
    let time = |s: Option<f64>| s.map_or_else(|| "unknown (too few)".into(), |s| units::format_value(s, "s"));
    format!(
        "{}. {}. Median {}, 99 % at most {}, longest {}.",
        zone.format_range(chart.from_ns, chart.to_ns),
        units::format_count(chart.requests, "request", "requests"),
        time(chart.median_s),
        time(chart.p99_s),
        time(chart.longest_s)
    )
}

/// Draws the map as a `figure` with one `svg`; `id` must be unique in the page. Returns empty markup if there was no
/// request.
pub(crate) fn draw_heat_map(chart: &HeatChart, zone: &DisplayZone, id: &str) -> Markup {
    let has_requests =
        |row: &usize| chart.columns.iter().any(|column| column.get(*row).is_some_and(|count| *count > 0));
    let rows = || (0..chart.labels.len()).filter(has_requests);
    let (Some(first), Some(last)) = (rows().next(), rows().next_back()) else { return Markup::default() };
    let height = (last - first + 1) as f64 * ROW_HEIGHT_PX;
    let words = describe_heat_map(chart, zone);
    let view = [-LABEL_WIDTH_PX, 0.0, LABEL_WIDTH_PX + MAP_WIDTH, height + 20.0].map(format_coordinate).join(" ");
    let row_y = |row: usize| format_coordinate((last - row + 1) as f64 * ROW_HEIGHT_PX);
    let span = (chart.to_ns - chart.from_ns).max(1) as f64;
    let time_x = |time_ns: i64| format_coordinate((time_ns - chart.from_ns) as f64 / span * MAP_WIDTH);
    html! {
        "\n"
        figure.heat {
            figcaption { (chart.title) ". " (words) }
            svg.chart role="img" aria-labelledby={ (id) "-t " (id) "-d" } width="100%" viewBox=(view) {
                (title_drawing(id, &chart.title, &words))
                (draw_cells(chart, last))
                @for row in (first..=last).step_by((last - first) / 8 + 1) {
                    text.y x="-6" y=(row_y(row)) { (chart.labels[row]) }
                }
                @for mark in zone.axis_marks(chart.from_ns, chart.to_ns, 8) {
                    text.x x=(time_x(mark.time_ns)) y=(format_coordinate(height + 15.0)) { (mark.label) }
                }
            }
        }
    }
}

/// Draws a cell for each column and row that has requests; `last` is the row at the top. There are thousands of
/// cells and they contain only numbers, so they are written without a template.
fn draw_cells(chart: &HeatChart, last: usize) -> Markup {
    let max_count = chart.columns.iter().flatten().copied().max().unwrap_or(0);
    let width = MAP_WIDTH / chart.columns.len().max(1) as f64;
    let mut out = String::new();
    for (index, column) in chart.columns.iter().enumerate() {
        for (row, count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
            // a single request must be visible too
            let share = 0.15 + 0.85 * (*count as f64).ln_1p() / (max_count as f64).ln_1p();
            out.push_str(&format!(
                "<rect class=\"cell\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{row_height}\" opacity=\"{}\"/>",
                format_coordinate(index as f64 * width),
                format_coordinate((last - row) as f64 * ROW_HEIGHT_PX),
                format_coordinate(width),
                format_coordinate(share),
                row_height = ROW_HEIGHT_PX,
            ));
        }
    }
    PreEscaped(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_chart(columns: Vec<Vec<u64>>) -> HeatChart {
        HeatChart {
            title: "sd<a>: read".into(),
            from_ns: 0,
            to_ns: 4_000_000_000,
            requests: columns.iter().flatten().sum(),
            median_s: Some(0.001),
            p99_s: None,
            longest_s: Some(0.5),
            labels: ["1 ms", "2 ms", "4 ms", "8 ms"].map(str::to_owned).to_vec(),
            columns,
        }
    }

    #[test]
    fn draws_a_cell_per_count_and_denser_cells_darker() {
        let svg = draw_heat_map(
            &sample_chart(vec![vec![0, 100, 0, 0], vec![0, 1, 0, 2], vec![0; 4]]),
            &DisplayZone::utc(),
            "h",
        )
        .0;
        assert_eq!(svg.matches("class=\"cell\"").count(), 3);
        let opacities: Vec<f64> =
            svg.split("opacity=\"").skip(1).filter_map(|part| part.split('"').next()?.parse().ok()).collect();
        assert!(opacities[0] == 1.0 && opacities[1] < opacities[2] && opacities[1] > 0.15, "{opacities:?}");
        // rows from 2 ms to 8 ms: the slow one is at the top, the others at the bottom
        let tops: Vec<&str> = svg.split(" y=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        assert_eq!(tops[..3], ["24", "24", "0"]);
        assert!(svg.contains("sd&lt;a&gt;: read") && !svg.contains("sd<a>"));
        assert!(svg.contains("103 requests. Median 1 ms, 99 % at most unknown (too few), longest 500 ms."));
    }

    #[test]
    fn draws_nothing_without_requests() {
        assert_eq!(draw_heat_map(&sample_chart(vec![vec![0; 4]; 3]), &DisplayZone::utc(), "h").0, "");
        assert_eq!(draw_heat_map(&sample_chart(vec![]), &DisplayZone::utc(), "h").0, "");
    }
}
