//! Comparison of two windows: the answer in words and a table of the changes for
//! the terminal, and a page with the same and charts.

use diskwright_base::counter_ids::{physical_disk, pressure, processor};
use diskwright_base::units::{self, format_count};
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::compare::{ALL_INSTANCES, ChangeOutcome, ComparisonRow, WindowComparison};
use maud::{Markup, Render, html};

use crate::beside_document::BesideDocument;
use crate::chart_model::{Chart, ChartLine};
use crate::downsample::ChartBucket;
use crate::html::{self, HtmlReport, chart_figure, page_section};
use crate::markup::{format_unbroken, mark_code, mark_id};
use crate::sections::html_table;
use crate::sheet;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::wrap;
use crate::time::DisplayZone;
use crate::verdict_words;

/// Counters that are listed first, for all instances together.
pub const MAIN_COUNTERS: &[&str] = &[
    physical_disk::TRANSFERS_PER_S,
    physical_disk::AVG_S_PER_TRANSFER,
    physical_disk::AVG_QUEUE_LENGTH,
    physical_disk::BYTES_PER_S,
    processor::BUSY,
    pressure::IO_SOME,
    pressure::MEMORY_SOME,
    pressure::CPU_SOME,
];

/// Smallest factor of a change that is listed among the first.
const MIN_CHANGE_RATIO: f64 = 1.05;
/// If one end of an interval lies farther from the mean than the other by more than
/// this factor, both ends are printed instead of `±`.
const MAX_UNEVEN_RATIO: f64 = 1.25;
/// Largest number of rows of the page's table.
const MAX_TABLE_ROWS: usize = 300;

/// Orders the rows by interest: changes beyond noise first; among them the most
/// certain, then the largest, before the others.
pub fn rank_rows(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let is_duplicate = |r: &ComparisonRow| {
        // the row of a single disk already stands for all disks together
        let is_of_instance = |o: &&ComparisonRow| o.counter == r.counter && o.instance != ALL_INSTANCES;
        r.instance == ALL_INSTANCES && comparison.counters.iter().filter(is_of_instance).count() == 1
    };
    let mut rows: Vec<&ComparisonRow> = comparison.counters.iter().filter(|r| !is_duplicate(r)).collect();
    let noise_rank = |r: &ComparisonRow| match r.noise {
        Some(false) if change_ratio(r) >= MIN_CHANGE_RATIO => 0,
        Some(false) => 1,
        None => 2,
        Some(true) => 3,
    };
    rows.sort_by(|a, b| {
        let significance = |r: &ComparisonRow| r.significance.unwrap_or(1.0);
        // in half decades; probabilities below 1e-6 count as equal
        let significance_rank = |r: &ComparisonRow| (significance(r).max(1e-6).log10() * 2.0) as i64;
        let is_single_instance = |r: &ComparisonRow| r.instance != ALL_INSTANCES;
        let by_noise = noise_rank(a).cmp(&noise_rank(b)).then(significance_rank(a).cmp(&significance_rank(b)));
        let by_change = by_noise.then(change_ratio(b).total_cmp(&change_ratio(a)));
        by_change.then(is_single_instance(a).cmp(&is_single_instance(b)))
    });
    rows
}

/// Returns the rows that the screen shows: those that stand for the machine, then
/// those that changed.
fn screen_rows(comparison: &WindowComparison, max_rows: usize) -> Vec<&ComparisonRow> {
    let ranked = rank_rows(comparison);
    if max_rows >= ranked.len() {
        return ranked;
    }
    let main_row =
        |counter: &str| ranked.iter().copied().find(|r| r.counter == counter && is_whole_machine(r, &ranked));
    let mut rows: Vec<&ComparisonRow> = MAIN_COUNTERS.iter().filter_map(|counter| main_row(counter)).collect();
    for row in ranked.iter().copied().filter(|r| r.noise == Some(false)) {
        if rows.len() < max_rows && !rows.iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns all rows for readers of only the first few: those that stand for the machine, then the rest in the
/// order of [`rank_rows`].
pub fn order_rows(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let ranked = rank_rows(comparison);
    let main_row =
        |counter: &&str| ranked.iter().copied().find(|r| r.counter == **counter && is_whole_machine(r, &ranked));
    let mut rows: Vec<&ComparisonRow> = MAIN_COUNTERS.iter().filter_map(main_row).collect();
    let main_count = rows.len();
    for row in ranked {
        if !rows[..main_count].iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns true if a row stands for the whole machine: for all instances, or for the
/// only instance in `among`.
pub fn is_whole_machine(row: &ComparisonRow, among: &[&ComparisonRow]) -> bool {
    let is_total = ["", "_total", ALL_INSTANCES].contains(&row.instance.as_str());
    is_total || among.iter().filter(|r| r.counter == row.counter).count() == 1
}

/// Returns how many times larger the larger mean is than the smaller one.
fn change_ratio(row: &ComparisonRow) -> f64 {
    let (a, b) = (row.before.mean.abs(), row.after.mean.abs());
    let (small, large) = (a.min(b), a.max(b));
    // a change from zero has no ratio: it counts as 1000
    if large == 0.0 { 1.0 } else { (large / small).min(1e3) }
}

/// Formats a mean with its interval: `1.2 ±0.1 ms`, or `36 (9 to 140) ms` if the ends
/// lie unevenly; the mean alone if the interval is unknown. `is_after` selects the second window.
fn format_estimate(row: &ComparisonRow, is_after: bool) -> String {
    let side = if is_after { &row.after } else { &row.before };
    let show = |v: f64| units::format_value(v, row.display_unit());
    match (side.low, side.high) {
        (Some(low), Some(high)) if high > low => {
            let (below, above) = (side.mean - low, high - side.mean);
            if above.max(below) <= MAX_UNEVEN_RATIO * above.min(below) {
                return join_values(&show(side.mean), " ±", &show((high - low) / 2.0));
            }
            format!("{} ({})", show(side.mean), join_values(&show(low), " to ", &show(high)))
        }
        _ => show(side.mean),
    }
}

/// Joins two formatted values; a unit that they share is written once.
pub(crate) fn join_values(first: &str, separator: &str, second: &str) -> String {
    let unit = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic() && !"/%".contains(c)).to_owned();
    let first_number = first.strip_suffix(&unit(first)).unwrap_or(first).trim_end();
    let first = if unit(first) == unit(second) { first_number } else { first };
    format!("{first}{separator}{second}")
}

/// Formats a difference with its sign.
pub(crate) fn format_signed(v: f64, unit: &str) -> String {
    let sign = if v > 0.0 { "+" } else { "" };
    format!("{sign}{}", units::format_value(v, unit))
}

/// Formats the interval of the difference, which may be open at one end.
fn format_interval(row: &ComparisonRow) -> String {
    match (row.difference_low, row.difference_high) {
        (Some(low), Some(high)) if high > low => {
            join_values(&format_signed(low, row.display_unit()), " to ", &format_signed(high, row.display_unit()))
        }
        (Some(_), Some(_)) => String::new(),
        (Some(low), None) => format!("{} or more", format_signed(low, row.display_unit())),
        (None, Some(high)) => format!("{} or less", format_signed(high, row.display_unit())),
        (None, None) => "unknown".into(),
    }
}

fn format_ratio(row: &ComparisonRow) -> String {
    row.ratio.map_or(String::new(), |r| {
        if r < 1000.0 { format!("x {}", units::format_significant(r)) } else { "x 1000+".into() }
    })
}

fn noise_word(row: &ComparisonRow) -> &'static str {
    match row.noise {
        Some(true) if row.difference == 0.0 && row.difference_low == row.difference_high => "same",
        Some(true) => "noise",
        Some(false) => "",
        None => "unknown",
    }
}

fn instance_name(row: &ComparisonRow) -> &str {
    if row.instance == ALL_INSTANCES { "all" } else { &row.instance }
}

/// Describes the windows, a line each: host, times and verdict.
fn describe_windows(comparison: &WindowComparison, zone: &DisplayZone) -> [String; 2] {
    let line = |verdict: &Verdict| {
        let host = if verdict.host.is_empty() { String::new() } else { format!("{}, ", verdict.host) };
        let instance = if verdict.instance.is_empty() { String::new() } else { format!(" ({})", verdict.instance) };
        let when = zone.format_range_between(&verdict.window.from, &verdict.window.to);
        let verdict_text = format!("{}{instance}", verdict_words::bottleneck_name(verdict.bottleneck));
        format!(
            "{host}{when} ({}): {verdict_text}, confidence {}",
            verdict_words::observation_text(verdict),
            verdict_words::confidence_percent(verdict.confidence)
        )
    };
    [line(&comparison.before), line(&comparison.after)]
}

/// Returns remarks on noise and on series that the table leaves out.
fn comparison_remarks(comparison: &WindowComparison) -> Vec<String> {
    let mut remarks = vec![format!(
        "{} judged; noise alone would show any change in fewer than 1 of 20 comparisons. The ranges of \
         differences allow for that; ranges of means are 95 % confidence intervals. Noise is measured within the \
         windows and does not include changes from day to day.",
        format_count(comparison.questions, "difference was", "differences were")
    )];
    let only_in_one = [(&comparison.only_before, "first"), (&comparison.only_after, "second")];
    for (series, window) in only_in_one.iter().filter(|(series, _)| !series.is_empty()) {
        let names: Vec<String> = series.iter().take(4).map(|n| format!("{} {}", n.counter, n.instance)).collect();
        let names: Vec<&str> = names.iter().map(|name| name.trim_end()).collect();
        let more = if series.len() > 4 { format!(" and {} more", series.len() - 4) } else { String::new() };
        remarks.push(format!("Only in the {window} window: {}{more}.", names.join(", ")));
    }
    if comparison.left_out > 0 {
        let series = format_count(comparison.left_out, "series was", "series were");
        remarks.push(format!("{series} left out: too many to follow."));
    }
    remarks
}

/// Renders the answer for a terminal, with at most `max_rows` rows of the table.
pub fn render_screen(comparison: &WindowComparison, max_rows: usize, zone: &DisplayZone, style: &Style) -> String {
    let ink = match comparison.outcome {
        ChangeOutcome::Helped => Ink::Good,
        ChangeOutcome::Worse => Ink::Bad,
        ChangeOutcome::LowerLoad
        | ChangeOutcome::HigherLoad
        | ChangeOutcome::DifferentLoad
        | ChangeOutcome::Unclear => Ink::Warn,
        ChangeOutcome::Unchanged => Ink::Bold,
    };
    let mut out = String::new();
    for (word, line) in ["before", "after"].iter().zip(describe_windows(comparison, zone)) {
        for line in wrap(&style.clean_text(&format!("{word}: {line}")), style.width, 0) {
            out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
        }
    }
    out.push('\n');
    for line in wrap(&style.clean_text(&comparison.sentence), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(ink, &line)));
    }
    out.push('\n');
    let rows = screen_rows(comparison, max_rows);
    let ranked = rank_rows(comparison);
    let changed = ranked.iter().filter(|r| r.noise == Some(false)).count();
    let mut table = TextTable::new()
        .with_text_column("counter")
        .with_text_column("of")
        .with_column("before", Align::Right)
        .with_column("after", Align::Right)
        .with_column("difference", Align::Right)
        .with_column("ratio", Align::Right)
        .with_column("", Align::Left);
    for row in &rows {
        let cells = [
            format_estimate(row, false),
            format_estimate(row, true),
            format_interval(row),
            format_ratio(row),
            noise_word(row).to_owned(),
        ];
        table.add_row([row.counter.clone(), instance_name(row).to_owned()].into_iter().chain(cells));
    }
    out.push_str(&table.render(style));
    out.push('\n');
    let mut remark_parts =
        vec![format!("{changed} of {} changed beyond noise.", format_count(ranked.len(), "counter", "counters"))];
    if ranked.len() > rows.len() {
        remark_parts.push("--all, --json and -o FILE.html show the others.".to_owned());
    }
    remark_parts.extend(comparison_remarks(comparison));
    for line in wrap(&style.clean_text(&remark_parts.join(" ")), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
    }
    out
}

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
    let rows: Vec<Vec<Markup>> = rank_rows(comparison).into_iter().take(MAX_TABLE_ROWS).map(table_cells).collect();
    let titles = ["Counter", "Instance", "Before", "After", "Difference", "Ratio", ""];
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
            (page_section("charts", "Charts", &charts_section(&page)))
            (page_section("counters", "Counter by counter", &html_table(&titles, &rows)))
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
        mark_id(&row.counter),
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

#[cfg(test)]
mod tests {
    use diskwright_diagnosis::compare::{ChangeDirection, CounterInstance, MeanEstimate, QuantityChange};

    use super::*;
    use crate::{expected_output, fixture};

    fn sample_row(
        counter: &str,
        instance: &str,
        unit: &str,
        [before, after]: [f64; 2],
        noise: Option<bool>,
    ) -> ComparisonRow {
        let known = |v: f64| Some(v).filter(|_| noise.is_some());
        let estimate = |v: f64| MeanEstimate { mean: v, low: known(v * 0.95), high: known(v * 1.05) };
        let difference = after - before;
        ComparisonRow {
            counter: counter.into(),
            instance: instance.into(),
            unit: unit.into(),
            before: estimate(before),
            after: estimate(after),
            difference,
            difference_low: known(difference - 0.1 * before),
            difference_high: known(difference + 0.1 * before),
            ratio: Some(after / before),
            ratio_low: known(after / before - 0.1),
            ratio_high: known(after / before + 0.1),
            level: known(1e-4),
            significance: noise.map(|noise| if noise { 1.0 } else { 1e-4 }),
            noise,
        }
    }

    fn sample_comparison() -> WindowComparison {
        let movement = |counter: &str, unit: &str, [before, after]: [f64; 2], change| QuantityChange {
            counter: counter.into(),
            unit: unit.into(),
            before,
            after,
            change,
            ratio_low: None,
            ratio_high: None,
        };
        let latency = "physical_disk.avg_s_per_transfer";
        let requests = "physical_disk.transfers_per_s";
        WindowComparison {
            schema: "diskwright.compare/1",
            outcome: ChangeOutcome::Helped,
            sentence: "The change helped: the disk (sda) is no longer a bottleneck.".into(),
            load: Some(movement(requests, "per_s", [120.0, 122.0], ChangeDirection::Same)),
            response: Some(movement(latency, "s", [0.048, 0.004], ChangeDirection::Down)),
            mix: Vec::new(),
            equal_load: None,
            equal_load_missing: None,
            goals: Vec::new(),
            questions: 212,
            counters: vec![
                sample_row(requests, "sda", "per_s", [118.0, 120.0], Some(true)),
                sample_row(requests, fixture::EVIL, "per_s", [2.0, 2.0], Some(true)),
                sample_row(requests, ALL_INSTANCES, "per_s", [120.0, 122.0], Some(true)),
                sample_row(latency, "sda", "s", [0.048, 0.004], Some(false)),
                sample_row(latency, ALL_INSTANCES, "s", [0.048, 0.004], Some(false)),
                sample_row("memory.available_fraction", "", "fraction", [0.5, 0.49], Some(false)),
                sample_row("processor.busy", "_total", "fraction", [0.1, 0.3], None),
            ],
            only_before: vec![CounterInstance { counter: "physical_disk.busy".into(), instance: fixture::EVIL.into() }],
            only_after: Vec::new(),
            left_out: 3,
            before: fixture::sample_verdict(),
            after: fixture::other_verdict(),
        }
    }

    #[test]
    fn the_screen_stays_as_expected() {
        expected_output::assert_expected(
            "compare/screen.txt",
            &render_screen(&sample_comparison(), 25, &DisplayZone::utc(), &Style::plain(110)),
        );
    }

    #[test]
    fn changes_come_first_and_a_single_disk_is_listed_once() {
        let both = sample_comparison();
        let names: Vec<(&str, &str)> =
            rank_rows(&both).iter().map(|r| (r.counter.as_str(), r.instance.as_str())).collect();
        assert_eq!(names[0], ("physical_disk.avg_s_per_transfer", "sda"));
        assert_eq!(names[1].0, "memory.available_fraction");
        assert_eq!(names[2].0, "processor.busy");
        // two disks have requests, one has latency
        assert_eq!(names.iter().filter(|(_, instance)| *instance == ALL_INSTANCES).count(), 1);
    }

    #[test]
    fn lines_stay_within_any_width_and_names_are_escaped() {
        let mut both = sample_comparison();
        both.counters[1].instance = "\x1b]0;owned\x07\nx".into();
        both.sentence = "\x1b[2J".into();
        for width in [60, 80, 120] {
            let drawn = render_screen(&both, usize::MAX, &DisplayZone::utc(), &Style::plain(width));
            assert!(!drawn.contains(['\x1b', '\x07']), "{drawn}");
        }
        let wide = render_screen(&sample_comparison(), usize::MAX, &DisplayZone::utc(), &Style::plain(120));
        assert!(wide.lines().all(|l| crate::text::display_width(l) <= 120), "{wide}");
    }

    #[test]
    fn shared_units_are_written_once() {
        assert_eq!(join_values("228/s", " ±", "32.1/s"), "228 ±32.1/s");
        assert_eq!(join_values("2.01 ms", " ±", "10.9 us"), "2.01 ms ±10.9 us");
        assert_eq!(join_values("0.1 requests", " ±", "0.2 requests"), "0.1 ±0.2 requests");
        assert_eq!(join_values("14 %", " to ", "+15 %"), "14 to +15 %");
        assert_eq!(join_values("3", " ±", "1"), "3 ±1");
    }

    fn sample_beside() -> BesideDocument {
        let text = format!(
            r#"{{"schema": "diskwright.beside/1", "title": {evil}, "lead": [{evil}], "names": [{evil}, {evil}],
            "sections": [{{"title": {evil}, "words": [{evil}],
            "charts": [{{"title": {evil}, "x": {{"words": {evil}, "unit": "s"}},
            "y": {{"words": {evil}, "unit": {evil}}},
            "lines": [{{"name": {evil}, "points": [[0, 1], [1, -2], [2, 3]]}}]}}],
            "bars": [{{"title": {evil}, "unit": {evil}, "names": [{evil}], "groups": [[{evil}, [0.5]]]}}]}}]}}"#,
            evil = serde_json::Value::from(fixture::EVIL)
        );
        crate::beside_document::parse(text.as_bytes()).expect("valid")
    }

    #[test]
    fn the_page_is_well_formed_whatever_the_names_are() {
        let mut both = sample_comparison();
        both.sentence = fixture::EVIL.into();
        both.counters[3].instance = fixture::EVIL.into();
        let points = [Some(1.0), None, Some(2.0)];
        let charts: Vec<Chart> =
            both.counters.iter().filter_map(|r| comparison_chart(r, (0, 3_000_000_000), &points, &points)).collect();
        assert_eq!(charts.len(), both.counters.len());
        let html = render_page(
            &both,
            ComparePage { charts, zone: DisplayZone::utc(), version: "0".into(), beside: sample_beside() },
        );
        let mut reader = quick_xml::Reader::from_str(&html);
        reader.config_mut().check_end_names = true;
        let mut elements = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) => {
                    assert_ne!(tag.name().as_ref(), b"script");
                    elements += 1;
                }
                _ => {}
            }
        }
        assert!(elements > 50 && comparison_chart(&both.counters[0], (0, 1), &[None], &[None]).is_none());
    }
}
