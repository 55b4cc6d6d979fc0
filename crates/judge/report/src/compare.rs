//! Comparison of two windows: the answer in words and a table of the changes for
//! the terminal, and a page with the same and charts.

mod devices;
mod page;
mod rows;

use diskwright_base::units::{format_count, format_value};
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::compare::{ChangeOutcome, ComparisonRow, WindowComparison};

use crate::counter_names::short_counter_name;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::wrap;
use crate::time::DisplayZone;
use crate::verdict_words;

pub use page::{ComparePage, comparison_chart, render_page};
use rows::{change_cell, format_estimate, format_interval, format_ratio, instance_name, noise_word, screen_rows};
pub(crate) use rows::{format_signed, join_values};
pub use rows::{lead_device, main_rows, order_rows, rank_rows};

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

/// Width from which a table shows the intervals of all values.
const MIN_WIDE_COLUMNS: usize = 110;

/// The table of the counters. A narrow one has the means, and the ratio with its range.
fn counter_table(rows: &[&ComparisonRow], is_wide: bool) -> TextTable {
    let mut table = TextTable::new()
        .with_text_column("counter")
        .with_text_column("of")
        .with_column("before", Align::Right)
        .with_column("after", Align::Right);
    table = if is_wide {
        let table = table.with_column("difference", Align::Right);
        table.with_column("ratio", Align::Right).with_column("", Align::Left)
    } else {
        table.with_column("ratio", Align::Left)
    };
    for row in rows {
        let mut cells = vec![short_counter_name(&row.counter), instance_name(row).to_owned()];
        if is_wide {
            cells.extend([format_estimate(row, false), format_estimate(row, true), format_interval(row)]);
            cells.extend([format_ratio(row), noise_word(row).to_owned()]);
        } else {
            let show = |value: f64| format_value(value, row.display_unit());
            cells.extend([show(row.before.mean), show(row.after.mean), change_cell(row)]);
        }
        table.add_row(cells);
    }
    table
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
    if let Some((table, left_out)) = devices::screen_table(comparison, max_rows == usize::MAX) {
        out.push_str(&table.render(style));
        if left_out > 0 {
            let more = format_count(left_out, "more disk", "more disks");
            out.push_str(&format!("{}\n", style.paint(Ink::Dim, &format!("{more}; --all and --json have them"))));
        }
        out.push('\n');
    }
    let rows = screen_rows(comparison, max_rows);
    let ranked = rank_rows(comparison);
    let changed = ranked.iter().filter(|r| r.noise == Some(false)).count();
    let table = counter_table(&rows, style.width >= MIN_WIDE_COLUMNS);
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

#[cfg(test)]
mod tests {
    use diskwright_diagnosis::compare::{
        ALL_INSTANCES, ChangeDirection, CounterInstance, MeanEstimate, QuantityChange, RequestChanges,
    };

    use crate::beside_document::BesideDocument;
    use crate::chart_model::Chart;

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
            requests: RequestChanges {
                load: Some(movement(requests, "per_s", [120.0, 122.0], ChangeDirection::Same)),
                response: Some(movement(latency, "s", [0.048, 0.004], ChangeDirection::Down)),
                ..RequestChanges::default()
            },
            devices: Vec::new(),
            goals: Vec::new(),
            programs: Vec::new(),
            programs_missing: None,
            databases: Vec::new(),
            kills: Vec::new(),
            exceeded_limit: None,
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
