//! Bar charts: groups of bars, with one bar for each of the compared things. They are drawn
//! as SVG whose lengths are shares of the surrounding box.

use diskwright_base::units;
use maud::{Markup, html};

use crate::markup::format_coordinate;
use crate::svg::{MAX_LINES, format_percent, title_drawing};
use crate::text;

/// A bar chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title: the quantity that the bars show.
    pub title: String,
    /// Unit of the values, as the catalogue names units.
    pub unit: String,
    /// Value of a bar over the full width; `None` stands for the largest value.
    pub full_value: Option<f64>,
    /// Names of the compared things: every group has a bar for each.
    pub names: Vec<String>,
    /// Each group's name and its values, one for each of `names`; `None` if a value
    /// was not measured.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
}

/// Height of a bar.
const BAR_HEIGHT_PX: f64 = 14.0;
/// Space between groups.
const GROUP_GAP_PX: f64 = 10.0;
/// Largest number of groups that are drawn.
const MAX_GROUPS: usize = 40;
/// Width of a group's name, columns.
const NAME_COLUMNS: usize = 22;

/// Returns the values that can be drawn, with their positions.
fn measured_values(values: &[Option<f64>]) -> impl Iterator<Item = (usize, f64)> {
    let is_drawable = |v: f64| (0.0..1e24).contains(&v);
    values
        .iter()
        .take(MAX_LINES)
        .enumerate()
        .filter_map(move |(index, v)| Some((index, v.filter(|v| is_drawable(*v))?)))
}

/// Describes the chart in words: every value.
fn describe_bars(bars: &Bars) -> String {
    let group_text = |(group_name, values): &(String, Vec<Option<f64>>)| {
        let value_text = |(index, v): (usize, f64)| {
            let name = bars.names.get(index).map_or("", String::as_str);
            format!("{} {name}", units::format_value(v, &bars.unit)).trim_end().to_owned()
        };
        let texts: Vec<String> = measured_values(values).map(value_text).collect();
        format!("{group_name}: {}.", if texts.is_empty() { "not measured".to_owned() } else { texts.join(", ") })
    };
    bars.groups.iter().take(MAX_GROUPS).map(group_text).collect::<Vec<_>>().join(" ")
}

/// Draws the chart as a `figure`. `id` must be unique on the page. Returns
/// empty markup if there is nothing to draw.
pub(crate) fn bars_figure(bars: &Bars, id: &str) -> Markup {
    let max_value =
        bars.groups.iter().flat_map(|(_, values)| measured_values(values)).map(|(_, v)| v).fold(0.0, f64::max);
    let full_value = bars.full_value.filter(|value| *value > 0.0).unwrap_or(max_value);
    if bars.groups.is_empty() || full_value <= 0.0 {
        return Markup::default();
    }
    let mut top = 0.0;
    let mut groups = Vec::new();
    for (group_name, values) in bars.groups.iter().take(MAX_GROUPS) {
        let height = values.len().clamp(1, MAX_LINES) as f64 * BAR_HEIGHT_PX;
        groups.push(html! {
            text.y x="-8" y=(format_coordinate(top + height / 2.0)) dy="4" { (short_name(group_name)) }
            @for (index, value) in measured_values(values) {
                (draw_bar(bars, index, value / full_value, value, top + index as f64 * BAR_HEIGHT_PX))
            }
        });
        top += height + GROUP_GAP_PX;
    }
    let names = bars.groups.iter().take(MAX_GROUPS).map(|(group_name, _)| text::display_width(&short_name(group_name)));
    wrap_figure(bars, id, &groups, top, names.max().unwrap_or(0) * 7 + 14)
}

fn short_name(group_name: &str) -> String {
    text::cut_text(group_name, NAME_COLUMNS, "…")
}

/// Draws one bar with its value; `y` is its upper edge, pixels.
fn draw_bar(bars: &Bars, index: usize, share: f64, value: f64, y: f64) -> Markup {
    let width = format_percent(share);
    html! {
        rect class={ "k" (index) } fill="currentColor" x="0" y=(format_coordinate(y + 1.0)) width=(width)
            height=(format_coordinate(BAR_HEIGHT_PX - 2.0)) {}
        text x=(width) dx="5" y=(format_coordinate(y + BAR_HEIGHT_PX / 2.0)) dy="4" {
            (units::format_value(value, &bars.unit))
        }
    }
}

/// Wraps the bars into a figure, with a key of their colours.
fn wrap_figure(bars: &Bars, id: &str, groups: &[Markup], height: f64, left_px: usize) -> Markup {
    html! {
        "\n"
        figure {
            figcaption { b { (bars.title) } }
            div.plot style={ "margin-left:" (left_px) "px;margin-right:80px" } {
                svg.chart role="img" aria-labelledby={ (id) "-t " (id) "-d" } width="100%"
                    height=(format_coordinate(height)) {
                    (title_drawing(id, &bars.title, &describe_bars(bars)))
                    @for group in groups { (group) }
                }
            }
            p.key {
                @for (index, name) in bars.names.iter().take(MAX_LINES).enumerate() {
                    @if index > 0 { " \u{a0} " }
                    span class={ "k" (index) } { "\u{25a0}" } " " (name)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_bars(values: Vec<Option<f64>>) -> Bars {
        Bars {
            title: "Busy".into(),
            unit: "fraction".into(),
            full_value: Some(1.0),
            names: vec!["three".into(), "ten".into()],
            groups: vec![("disk0".into(), values)],
        }
    }

    #[test]
    fn bar_length_is_the_share_of_the_full_value() {
        let drawn = bars_figure(&sample_bars(vec![Some(0.98), Some(0.25)]), "b").0;
        assert!(drawn.contains("width=\"98%\"") && drawn.contains("width=\"25%\""), "{drawn}");
        assert!(drawn.contains("disk0: 98 % three, 25 % ten."), "{drawn}");
        let free = Bars { full_value: None, ..sample_bars(vec![Some(0.5), Some(0.25)]) };
        assert!(bars_figure(&free, "b").0.contains("width=\"100%\""));
    }

    #[test]
    fn unmeasured_values_have_no_bar_but_a_note() {
        let drawn = bars_figure(&sample_bars(vec![None, Some(f64::NAN)]), "b").0;
        assert!(!drawn.contains("<rect") && drawn.contains("disk0: not measured."), "{drawn}");
        assert_eq!(bars_figure(&Bars::default(), "b").0, "");
    }
}
