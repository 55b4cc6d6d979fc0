//! Comparison of two sides of results: the answer in words, a table, a page.

use diskwright_base::units::{self, format_count, format_value};
use diskwright_results::circumstances::Circumstance;
use diskwright_results::compare::{RepeatEstimate, ResultComparison, ResultOutcome, ResultRow, repeats, words};

use super::page::{drawn, section};
use super::{NamedResult, charts};
use crate::compare::{joined, signed};
use crate::html;
use crate::markup::escape;
use crate::sections::table;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::wrap;

/// Quantities that the screen shows for every run, even if the difference is noise.
const MAIN: &[&str] = &["requests_per_s", "latency_s.mean", "latency_s.p99"];

fn estimate(value: &RepeatEstimate, unit: &str) -> String {
    match (value.low, value.high) {
        (Some(low), Some(high)) if high > low => {
            joined(&format_value(value.mean, unit), " ±", &format_value((high - low) / 2.0, unit))
        }
        _ => format_value(value.mean, unit),
    }
}

fn interval(row: &ResultRow) -> String {
    match (row.difference_low, row.difference_high) {
        (Some(low), Some(high)) => joined(&signed(low, row.unit), " to ", &signed(high, row.unit)),
        _ => String::new(),
    }
}

fn ratio(row: &ResultRow) -> String {
    row.ratio.map_or(String::new(), |r| format!("x {}", units::format_significant(r)))
}

fn verdict(row: &ResultRow) -> &'static str {
    match (row.noise, row.better) {
        (Some(true), _) => "noise",
        // the sentence says so once
        (None, _) => "",
        (Some(false), true) => "better",
        (Some(false), false) => "worse",
    }
}

/// Largest number of rows if each side was measured only once.
const FEW: usize = 12;

/// Returns remarks on noise and on runs that were not compared.
fn remarks(comparison: &ResultComparison) -> Vec<String> {
    let mut remarks = Vec::new();
    let unknown = comparison.counters.iter().filter(|r| r.noise.is_none()).count();
    if comparison.questions > 0 {
        remarks.push(format!(
            "{} judged; noise alone would show any of them in fewer than 1 of 20 comparisons.",
            format_count(comparison.questions, "difference was", "differences were")
        ));
        let few = |side: &diskwright_results::compare::ResultSide| side.files.len() == 1;
        if few(&comparison.before) || few(&comparison.after) {
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
    for (named, why) in left_out {
        if !named.is_empty() {
            let few: Vec<&str> = named.iter().take(5).map(|n| n.instance.as_str()).collect();
            let more = if named.len() > 5 { format!(" and {} more", named.len() - 5) } else { String::new() };
            remarks.push(format!("{why}: {}{more}.", few.join(", ")));
        }
    }
    remarks
}

fn circumstance(c: &Circumstance) -> String {
    let runs = if c.runs.is_empty() { String::new() } else { format!(" ({})", few(&c.runs)) };
    format!("{}: {} -> {}{runs}", c.what, c.before, c.after)
}

/// Lists the first names of runs, and the number of the others.
fn few(runs: &[String]) -> String {
    let shown = runs.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
    if runs.len() > 4 { format!("{shown} and {} more", runs.len() - 4) } else { shown }
}

/// Renders the answer for a terminal. Without `all`, differences within noise are
/// shown for the main quantities only.
pub fn screen(comparison: &ResultComparison, all: bool, style: &Style) -> String {
    let ink = match comparison.outcome {
        ResultOutcome::Helped => Ink::Good,
        ResultOutcome::Worse => Ink::Bad,
        ResultOutcome::Mixed | ResultOutcome::Unclear => Ink::Warn,
        ResultOutcome::Unchanged => Ink::Bold,
    };
    let mut out = String::new();
    let mut push_wrapped = |ink: Ink, text: &str| {
        for line in wrap(&style.clean(text), style.width, 0) {
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
        push_wrapped(Ink::Warn, &format!("differs: {}", circumstance(c)));
    }
    push_wrapped(Ink::Dim, "");
    push_wrapped(ink, &comparison.sentence);
    let before = [None].into_iter().chain(comparison.counters.iter().map(Some));
    let is_shown = |(row, before): &(&ResultRow, Option<&ResultRow>)| {
        let is_repeated = before.is_some_and(|before| repeats(row, before));
        all || row.noise == Some(false) && !is_repeated || MAIN.contains(&row.counter)
    };
    let mut shown: Vec<&ResultRow> =
        comparison.counters.iter().zip(before).filter(is_shown).map(|(row, _)| row).collect();
    if !all && comparison.questions == 0 {
        // without repeats nothing can be distinguished from noise: the largest differences are enough
        let size = |r: &ResultRow| r.ratio.filter(|r| *r > 0.0).map_or(0.0, |r| r.ln().abs());
        shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
        shown.truncate(FEW);
    }
    if !shown.is_empty() {
        out.push('\n');
        out.push_str(&rows(&shown).render(style));
        out.push('\n');
    }
    let mut notes = remarks(comparison);
    let left = comparison.counters.len() - shown.len();
    if left > 0 {
        notes.insert(0, format!("{}: --all shows them.", format_count(left, "figure more", "figures more")));
    }
    for line in wrap(&style.clean(&notes.join(" ")), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
    }
    out
}

/// Returns a quantity in one word, for a narrow column.
fn short(counter: &str) -> &str {
    match counter {
        "requests_per_s" => "requests/s",
        "bytes_per_s" => "bytes/s",
        "cpu_s_per_request" => "cpu/request",
        "latency_s.mean" => "mean",
        other => words(other).trim_end_matches(" latency"),
    }
}

fn rows(shown: &[&ResultRow]) -> TextTable {
    let mut table = TextTable::new().text("run").column("", Align::Left);
    for title in ["before", "after", "difference", "ratio"] {
        table = table.column(title, Align::Right);
    }
    let mut table = table.column("", Align::Left);
    let mut last = "";
    for row in shown {
        // the name of a run is printed once
        let name = if row.instance == last { "" } else { row.instance.as_str() };
        last = &row.instance;
        let (before, after) = (estimate(&row.before, row.unit), estimate(&row.after, row.unit));
        table.row([name, short(row.counter), &before, &after, &interval(row), &ratio(row), verdict(row)]);
    }
    table
}

/// Renders the page; `results` are those of both sides, named `before` and `after`, for the charts.
pub fn page(comparison: &ResultComparison, results: &[NamedResult<'_>], version: &str) -> String {
    let class = if comparison.outcome == ResultOutcome::Worse { "" } else { " none" };
    let mut out = format!(
        "<header>\n<p class=\"made\"><b>Results of the probe, side by side</b></p>\n\
         <div class=\"card verdict{class}\">\n<h1>{}</h1>\n</div>\n</header>\n<main>\n",
        escape(&comparison.sentence)
    );
    let side = |word: &str, side: &diskwright_results::compare::ResultSide| {
        let cells = [&side.files, &side.suites, &side.targets, &side.devices, &side.started];
        [word.to_owned()].into_iter().chain(cells.map(|c| escape(&c.join(", ")))).collect::<Vec<_>>()
    };
    let sides = [side("Before", &comparison.before), side("After", &comparison.after)];
    section(&mut out, "sides", "The sides", &table(&["", "Files", "Suite", "Target", "Device", "Begun"], &sides));
    let circumstances: Vec<Vec<String>> = comparison
        .circumstances
        .iter()
        .map(|c| {
            vec![
                format!("<span class=\"id\">{}</span>", escape(&c.what)),
                escape(&c.before),
                escape(&c.after),
                escape(&few(&c.runs)),
            ]
        })
        .collect();
    if !circumstances.is_empty() {
        let content = table(&["What", "Before", "After", "Runs"], &circumstances);
        section(&mut out, "differs", "What else differs", &content);
    }
    section(&mut out, "charts", "Charts", &drawn(&charts::charts(results), "c"));
    let figures: Vec<Vec<String>> = comparison.counters.iter().take(FIGURES).map(cells).collect();
    if !figures.is_empty() {
        let titles = ["Run", "Figure", "Before", "After", "Difference", "Ratio", ""];
        section(&mut out, "figures", "Figure by figure", &table(&titles, &figures));
    }
    let items: String = remarks(comparison).iter().map(|r| format!("<li>{}</li>\n", escape(r))).collect();
    if !items.is_empty() {
        section(&mut out, "trust", "How far to trust this", &format!("<ul>\n{items}</ul>\n"));
    }
    out.push_str("</main>\n");
    html::document("results side by side", &out, version)
}

/// Largest number of rows of the page's table.
const FIGURES: usize = 1000;

fn cells(row: &ResultRow) -> Vec<String> {
    let class = match (row.noise, row.better) {
        (Some(false), true) => "agrees",
        (Some(false), false) => "differs",
        _ => "dim",
    };
    vec![
        format!("<span class=\"id\">{}</span>", escape(&row.instance)),
        escape(words(row.counter)),
        escape(&estimate(&row.before, row.unit)),
        escape(&estimate(&row.after, row.unit)),
        escape(&interval(row)),
        escape(&ratio(row)).replace(' ', "\u{a0}"),
        format!("<span class=\"{class}\">{}</span>", verdict(row)),
    ]
}
