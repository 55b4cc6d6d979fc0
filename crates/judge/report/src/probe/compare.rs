//! Comparison of two sides of results: the answer in words, a table, a page.

use diskwright_base::units::{self, format_count, format_value};
use diskwright_results::circumstances::Circumstance;
use diskwright_results::compare::{
    RepeatEstimate, ResultComparison, ResultOutcome, ResultRow, ResultSide, quantity_label, repeats_request_rate,
};
use maud::{Markup, Render, html};

use super::page::draw_charts;
use super::{NamedResult, charts};
use crate::compare::{format_signed, join_values};
use crate::html::{self, page_section};
use crate::markup::mark_id;
use crate::sections::html_table;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::wrap;

/// Quantities that the screen shows for every run, even if the difference is noise.
const MAIN_QUANTITIES: &[&str] = &["requests_per_s", "latency_s.mean", "latency_s.p99"];

fn format_estimate(value: &RepeatEstimate, unit: &str) -> String {
    match (value.low, value.high) {
        (Some(low), Some(high)) if high > low => {
            join_values(&format_value(value.mean, unit), " ±", &format_value((high - low) / 2.0, unit))
        }
        _ => format_value(value.mean, unit),
    }
}

fn format_interval(row: &ResultRow) -> String {
    match (row.difference_low, row.difference_high) {
        (Some(low), Some(high)) => join_values(&format_signed(low, row.unit), " to ", &format_signed(high, row.unit)),
        _ => String::new(),
    }
}

fn format_ratio(row: &ResultRow) -> String {
    row.ratio.map_or(String::new(), |r| format!("x {}", units::format_significant(r)))
}

fn verdict_word(row: &ResultRow) -> &'static str {
    match (row.noise, row.better) {
        (Some(true), _) => "noise",
        // the sentence already says that the noise is unknown
        (None, _) => "",
        (Some(false), true) => "better",
        (Some(false), false) => "worse",
    }
}

/// Largest number of rows if each side was measured only once.
const MAX_UNJUDGED_ROWS: usize = 12;

/// Returns remarks on noise and on runs that were not compared.
fn comparison_remarks(comparison: &ResultComparison) -> Vec<String> {
    let mut remarks = Vec::new();
    let unknown = comparison.counters.iter().filter(|r| r.noise.is_none()).count();
    if comparison.questions > 0 {
        remarks.push(format!(
            "{} judged; noise alone would show any of them in fewer than 1 of 20 comparisons.",
            format_count(comparison.questions, "difference was", "differences were")
        ));
        let has_one_file = |side: &ResultSide| side.files.len() == 1;
        if has_one_file(&comparison.before) || has_one_file(&comparison.after) {
            remarks.push(
                "Noise is measured among the repeats of one file and does not include changes from day to day. Give \
                 several files per side (A1 A2 -- B1 B2) to include those."
                    .into(),
            );
        }
    }
    if unknown > 0 && comparison.questions > 0 {
        remarks.push(format!(
            "{} made only once on one side: use --repeat 5.",
            format_count(unknown, "figure is of a run", "figures are of runs")
        ));
    }
    let left_out = [
        (&comparison.only_before, "Only in the first"),
        (&comparison.only_after, "Only in the second"),
        (&comparison.ended_early, "Not compared, because ended early"),
    ];
    for (runs, heading) in left_out {
        if !runs.is_empty() {
            let names: Vec<&str> = runs.iter().take(5).map(|run| run.instance.as_str()).collect();
            let more = if runs.len() > 5 { format!(" and {} more", runs.len() - 5) } else { String::new() };
            remarks.push(format!("{heading}: {}{more}.", names.join(", ")));
        }
    }
    remarks
}

fn circumstance_text(c: &Circumstance) -> String {
    let runs = if c.runs.is_empty() { String::new() } else { format!(" ({})", first_run_names(&c.runs)) };
    format!("{}: {} -> {}{runs}", c.name, c.before, c.after)
}

/// Lists the first names of runs, and the number of the others.
fn first_run_names(runs: &[String]) -> String {
    let shown = runs.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
    if runs.len() > 4 { format!("{shown} and {} more", runs.len() - 4) } else { shown }
}

/// Renders the answer for a terminal. Without `shows_all`, differences within noise are
/// shown for the main quantities only.
pub fn render_screen(comparison: &ResultComparison, shows_all: bool, style: &Style) -> String {
    let ink = match comparison.outcome {
        ResultOutcome::Helped => Ink::Good,
        ResultOutcome::Worse => Ink::Bad,
        ResultOutcome::Mixed | ResultOutcome::Unclear => Ink::Warn,
        ResultOutcome::Unchanged => Ink::Bold,
    };
    let mut out = String::new();
    let mut push_wrapped = |ink: Ink, text: &str| {
        for line in wrap(&style.clean_text(text), style.width, 0) {
            out.push_str(&format!("{}\n", style.paint(ink, &line)));
        }
    };
    for (word, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        push_wrapped(
            Ink::Dim,
            &format!("{word}: {} ({} of {})", side.files.join(", "), side.suites.join(", "), side.targets.join(", ")),
        );
    }
    for c in &comparison.circumstances {
        push_wrapped(Ink::Warn, &format!("differs: {}", circumstance_text(c)));
    }
    push_wrapped(Ink::Dim, "");
    push_wrapped(ink, &comparison.sentence);
    let previous_rows = [None].into_iter().chain(comparison.counters.iter().map(Some));
    let is_shown = |(row, previous): &(&ResultRow, Option<&ResultRow>)| {
        let is_repeated = previous.is_some_and(|previous| repeats_request_rate(row, previous));
        shows_all || row.noise == Some(false) && !is_repeated || MAIN_QUANTITIES.contains(&row.counter)
    };
    let mut shown: Vec<&ResultRow> =
        comparison.counters.iter().zip(previous_rows).filter(is_shown).map(|(row, _)| row).collect();
    if !shows_all && comparison.questions == 0 {
        // without repeats nothing can be distinguished from noise: only the largest differences are shown
        let change_size = |r: &ResultRow| r.ratio.filter(|r| *r > 0.0).map_or(0.0, |r| r.ln().abs());
        shown.sort_by(|a, b| change_size(b).total_cmp(&change_size(a)));
        shown.truncate(MAX_UNJUDGED_ROWS);
    }
    if !shown.is_empty() {
        out.push('\n');
        out.push_str(&build_table(&shown).render(style));
        out.push('\n');
    }
    let mut notes = comparison_remarks(comparison);
    let hidden_count = comparison.counters.len() - shown.len();
    if hidden_count > 0 {
        notes.insert(0, format!("{}: --all shows them.", format_count(hidden_count, "figure more", "figures more")));
    }
    for line in wrap(&style.clean_text(&notes.join(" ")), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
    }
    out
}

/// Returns a quantity in one word, for a narrow column.
fn short_label(counter: &str) -> &str {
    match counter {
        "requests_per_s" => "requests/s",
        "bytes_per_s" => "bytes/s",
        "cpu_s_per_request" => "cpu/request",
        "latency_s.mean" => "mean",
        other => quantity_label(other).trim_end_matches(" latency"),
    }
}

fn build_table(shown: &[&ResultRow]) -> TextTable {
    let mut table = TextTable::new().with_text_column("run").with_column("", Align::Left);
    for title in ["before", "after", "difference", "ratio"] {
        table = table.with_column(title, Align::Right);
    }
    let mut table = table.with_column("", Align::Left);
    let mut previous_name = "";
    for row in shown {
        // the name of a run is printed once
        let name = if row.instance == previous_name { "" } else { row.instance.as_str() };
        previous_name = &row.instance;
        let (before, after) = (format_estimate(&row.before, row.unit), format_estimate(&row.after, row.unit));
        table.add_row([
            name,
            short_label(row.counter),
            &before,
            &after,
            &format_interval(row),
            &format_ratio(row),
            verdict_word(row),
        ]);
    }
    table
}

/// Renders the page; `results` are those of both sides, named `before` and `after`, for the charts.
pub fn render_page(comparison: &ResultComparison, results: &[NamedResult<'_>], version: &str) -> String {
    let is_worse = comparison.outcome == ResultOutcome::Worse;
    let remarks = comparison_remarks(comparison);
    let remarks = html! { @if !remarks.is_empty() { ul { @for remark in &remarks { li { (remark) } } } } };
    let body = html! {
        header {
            p.made { b { "Results of the probe, side by side" } }
            div.card.verdict.none[!is_worse] { h1 { (comparison.sentence) } }
        }
        main {
            (page_section("sides", "The sides", &sides_table(comparison)))
            (page_section("differs", "What else differs", &circumstances_table(comparison)))
            (page_section("charts", "Charts", &draw_charts(&charts::result_charts(results), "c")))
            (page_section("figures", "Figure by figure", &figures_table(comparison)))
            (page_section("trust", "How far to trust this", &remarks))
        }
    };
    html::wrap_document("results side by side", body, version)
}

fn sides_table(comparison: &ResultComparison) -> Markup {
    let row = |word: &str, side: &ResultSide| {
        let cells = [&side.files, &side.suites, &side.targets, &side.devices, &side.started];
        [word.render()].into_iter().chain(cells.map(|c| c.join(", ").render())).collect()
    };
    let sides = [row("Before", &comparison.before), row("After", &comparison.after)];
    html_table(&["", "Files", "Suite", "Target", "Device", "Begun"], &sides)
}

/// Renders the circumstances that differ; nothing if there are none.
fn circumstances_table(comparison: &ResultComparison) -> Markup {
    let row = |c: &Circumstance| {
        vec![mark_id(&c.name), c.before.render(), c.after.render(), first_run_names(&c.runs).render()]
    };
    let rows: Vec<Vec<Markup>> = comparison.circumstances.iter().map(row).collect();
    if rows.is_empty() { Markup::default() } else { html_table(&["What", "Before", "After", "Runs"], &rows) }
}

/// Renders the compared figures; nothing if there are none.
fn figures_table(comparison: &ResultComparison) -> Markup {
    let rows: Vec<Vec<Markup>> = comparison.counters.iter().take(MAX_FIGURES).map(table_cells).collect();
    let titles = ["Run", "Figure", "Before", "After", "Difference", "Ratio", ""];
    if rows.is_empty() { Markup::default() } else { html_table(&titles, &rows) }
}

/// Largest number of rows of the page's table.
const MAX_FIGURES: usize = 1000;

fn table_cells(row: &ResultRow) -> Vec<Markup> {
    let class = match (row.noise, row.better) {
        (Some(false), true) => "agrees",
        (Some(false), false) => "differs",
        _ => "dim",
    };
    vec![
        mark_id(&row.instance),
        quantity_label(row.counter).render(),
        format_estimate(&row.before, row.unit).render(),
        format_estimate(&row.after, row.unit).render(),
        format_interval(row).render(),
        format_ratio(row).replace(' ', "\u{a0}").render(),
        html! { span class=(class) { (verdict_word(row)) } },
    ]
}
