//! The comparison as an HTML page.

use diskwright_diagnosis::compare::{ALL_INSTANCES, ChangeOutcome, ComparisonRow, WindowComparison};
use maud::{Markup, Render, html};

use super::rows::{format_estimate, format_interval, format_ratio, instance_name, noise_word, order_rows};
use super::{comparison_remarks, describe_windows, devices};
use crate::beside_document::BesideDocument;
use crate::chart_model::{Chart, ChartLine};
use crate::counter_names::short_counter_name;
use crate::downsample::ChartBucket;
use crate::html::{self, HtmlReport, chart_figure, page_section};
use crate::markup::{format_unbroken, mark_code};
use crate::sections::html_table;
use crate::sheet;
use crate::time::DisplayZone;

/// Largest number of rows of the page's table.
const MAX_TABLE_ROWS: usize = 300;

/// Content of the page besides the comparison.
pub struct ComparePage {
    /// Charts made by [`comparison_chart`].
    pub charts: Vec<Chart>,
    /// Zone that times are shown in.
    pub zone: DisplayZone,
    /// Version of the program, for the foot of the page.
    pub version: String,
    /// Measurements from outside, made at the same time; empty if there are none.
    pub beside: BesideDocument,
}

/// Draws both windows of one counter in one chart, aligned at their starts: `from_ns`
/// is the start of the second window; `to_ns` minus `from_ns` is the length of the
/// longer one. Returns `None` if neither window has values.
pub fn comparison_chart(
    row: &ComparisonRow,
    (from_ns, to_ns): (i64, i64),
    before: &[Option<f64>],
    after: &[Option<f64>],
) -> Option<Chart> {
    let bucket = |v: &Option<f64>| ChartBucket::from_value(*v);
    let line = |name: &str, points: &[Option<f64>]| ChartLine {
        instance: name.into(),
        buckets: points.iter().map(bucket).collect(),
    };
    let lines = vec![line("before", before), line("after", after)];
    lines.iter().any(|l| l.summary().is_some()).then_some(())?;
    let mut chart = Chart::new(&row.counter, from_ns, to_ns, lines);
    chart.title = match row.instance.as_str() {
        ALL_INSTANCES | "" | "_total" => crate::axis::counter_title(&row.counter, &[]),
        instance => format!("{} of {instance}", crate::axis::counter_words(&row.counter)),
    };
    chart.unit = row.display_unit().to_owned();
    Some(chart)
}

/// Renders the comparison as an HTML page.
pub fn render_page(comparison: &WindowComparison, page: ComparePage) -> String {
    let is_worse = comparison.outcome == ChangeOutcome::Worse;
    let beside = &page.beside;
    // if the user's file brings a heading, the comparison's sentence moves to the section on the windows
    let (first, later) = comparison.sentence.split_once(". ").unwrap_or((&comparison.sentence, ""));
    let (title, moved_sentence) = match beside.title.as_str() {
        "" => (first.trim_end_matches('.'), None),
        title => (title, Some(&comparison.sentence)),
    };
    let windows = html! {
        @if let Some(sentence) = moved_sentence { p { (sentence) } }
        (windows_table(comparison, &page))
    };
    let rows: Vec<Vec<Markup>> = order_rows(comparison).into_iter().take(MAX_TABLE_ROWS).map(table_cells).collect();
    let titles = ["Counter", "Instance", "Before", "After", "Difference", "Ratio", ""];
    // long names of mounts and cgroups break anywhere
    let counters = html! { div.facts { (html_table(&titles, &rows)) } };
    let remarks = html! { ul { @for remark in comparison_remarks(comparison) { li { (remark) } } } };
    let body = html! {
        header {
            p.made { b { "Before and after" } }
            div.card.verdict.none[!is_worse] {
                h1 { (title) }
                @for line in &beside.lead { p.dim { (mark_code(line)) } }
                @if moved_sentence.is_none() && !later.is_empty() { p.first { (later) } }
            }
        }
        main {
            (sheet::render_sections(&beside.sections))
            (page_section("windows", "The windows", &windows))
            (page_section("devices", "Disk by disk", &devices::page_table(comparison)))
            (page_section("charts", "Charts", &charts_section(&page)))
            (page_section("counters", "Counter by counter", &counters))
            (page_section("trust", "How far to trust this", &remarks))
        }
    };
    html::wrap_document("before and after", body, &page.version)
}

fn windows_table(comparison: &WindowComparison, page: &ComparePage) -> Markup {
    let windows = describe_windows(comparison, &page.zone);
    let names = page.beside.names.clone().unwrap_or_else(|| ["Before".to_owned(), "After".to_owned()]);
    let verdicts = [&comparison.before, &comparison.after];
    let row = |side: usize| vec![names[side].render(), windows[side].render(), mark_code(&verdicts[side].sentence)];
    html_table(&["", "When, and which bottleneck", "In words"], &[row(0), row(1)])
}

fn table_cells(row: &ComparisonRow) -> Vec<Markup> {
    let difference = html! {
        (format_unbroken(row.difference, row.display_unit())) " " span.dim { (format_interval(row)) }
    };
    vec![
        html! { span title=(row.counter) { (short_counter_name(&row.counter)) } },
        instance_name(row).render(),
        format_estimate(row, false).render(),
        format_estimate(row, true).render(),
        difference,
        format_ratio(row).replace(' ', "\u{a0}").render(),
        noise_word(row).render(),
    ]
}

fn charts_section(page: &ComparePage) -> Markup {
    if page.charts.is_empty() {
        return Markup::default();
    }
    // the figures need only the zone
    let empty_report = HtmlReport {
        verdicts: Vec::new(),
        charts: Vec::new(),
        heat: Vec::new(),
        notes: Vec::new(),
        topology: None,
        zone: page.zone.clone(),
        version: String::new(),
    };
    let palette = empty_report.choose_palette();
    let draw = |(number, chart)| chart_figure(chart, &empty_report, &palette, &format!("c{number}"), "");
    let figures = page.charts.iter().enumerate();
    html! {
        p { "Both windows are aligned at their start; the times are those of the second." }
        (sheet::chart_cards(figures.map(draw)))
    }
}
