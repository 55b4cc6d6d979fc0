//! Comparison of two windows: the answer in words and a table of the changes for
//! the terminal, and a page with the same and charts.

use diskwright_base::units::{self, format_count};
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::compare::{ALL_INSTANCES, ChangeOutcome, ComparisonRow, WindowComparison};

use crate::beside::BesideDocument;
use crate::downsample::ChartBucket;
use crate::html::{self, HtmlReport, figure};
use crate::markup::{escape, escape_code, value};
use crate::model::{Chart, ChartLine};
use crate::sections::table;
use crate::sheet;
use crate::style::{Ink, Style};
use crate::table::{Align, TextTable};
use crate::text::wrap;
use crate::time::DisplayZone;
use crate::words;

/// Counters that are listed first, for all instances together.
pub const MAIN: &[&str] = &[
    "physical_disk.transfers_per_s",
    "physical_disk.avg_s_per_transfer",
    "physical_disk.avg_queue_length",
    "physical_disk.bytes_per_s",
    "processor.busy",
    "pressure.io_some",
    "pressure.memory_some",
    "pressure.cpu_some",
];

/// Smallest factor of a change that is listed among the first.
const LEAST: f64 = 1.05;
/// An interval whose one end lies farther from the mean than the other by more than
/// this factor is printed with both ends instead of `±`.
const UNEVEN: f64 = 1.25;
/// Largest number of rows of the page's table.
const ROWS: usize = 300;

/// Orders the rows by interest: changes beyond noise first; among them the most
/// certain, then the largest, before the others.
pub fn ranked(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let doubled = |r: &ComparisonRow| {
        // with a single disk, its row already stands for all disks together
        let same = |o: &&ComparisonRow| o.counter == r.counter && o.instance != ALL_INSTANCES;
        r.instance == ALL_INSTANCES && comparison.counters.iter().filter(same).count() == 1
    };
    let mut rows: Vec<&ComparisonRow> = comparison.counters.iter().filter(|r| !doubled(r)).collect();
    let noise = |r: &ComparisonRow| match r.noise {
        Some(false) if size(r) >= LEAST => 0,
        Some(false) => 1,
        None => 2,
        Some(true) => 3,
    };
    rows.sort_by(|a, b| {
        let significance = |r: &ComparisonRow| r.significance.unwrap_or(1.0);
        // probabilities below this count as equal
        let rough = |r: &ComparisonRow| (significance(r).max(1e-6).log10() * 2.0) as i64;
        let together = |r: &ComparisonRow| r.instance != ALL_INSTANCES;
        let by_noise = noise(a).cmp(&noise(b)).then(rough(a).cmp(&rough(b)));
        by_noise.then(size(b).total_cmp(&size(a))).then(together(a).cmp(&together(b)))
    });
    rows
}

/// Returns the rows that the screen shows: those that stand for the machine, then
/// those that changed.
fn shown(comparison: &WindowComparison, max_rows: usize) -> Vec<&ComparisonRow> {
    let ranked = ranked(comparison);
    if max_rows >= ranked.len() {
        return ranked;
    }
    let main = |counter: &str| ranked.iter().copied().find(|r| r.counter == counter && is_whole(r, &ranked));
    let mut rows: Vec<&ComparisonRow> = MAIN.iter().filter_map(|counter| main(counter)).collect();
    for row in ranked.iter().copied().filter(|r| r.noise == Some(false)) {
        if rows.len() < max_rows && !rows.iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns all rows for readers of only the first few: those that stand for the machine, then the rest in the
/// order of [`ranked`].
pub fn ordered(comparison: &WindowComparison) -> Vec<&ComparisonRow> {
    let ranked = ranked(comparison);
    let main = |counter: &&str| ranked.iter().copied().find(|r| r.counter == **counter && is_whole(r, &ranked));
    let mut rows: Vec<&ComparisonRow> = MAIN.iter().filter_map(main).collect();
    let first = rows.len();
    for row in ranked {
        if !rows[..first].iter().any(|known| std::ptr::eq(*known, row)) {
            rows.push(row);
        }
    }
    rows
}

/// Returns true if a row stands for the whole machine: for all instances, or for the
/// only instance in `among`.
pub fn is_whole(row: &ComparisonRow, among: &[&ComparisonRow]) -> bool {
    let named = ["", "_total", ALL_INSTANCES].contains(&row.instance.as_str());
    named || among.iter().filter(|r| r.counter == row.counter).count() == 1
}

/// Returns how many times larger the larger mean is than the smaller one.
fn size(row: &ComparisonRow) -> f64 {
    let (a, b) = (row.before.mean.abs(), row.after.mean.abs());
    let (small, large) = (a.min(b), a.max(b));
    // a change from zero has no ratio: it counts as 1000
    if large == 0.0 { 1.0 } else { (large / small).min(1e3) }
}

/// Formats a mean with its interval: `1.2 ±0.1 ms`, or `36 (9 to 140) ms` if the ends
/// lie unevenly; the mean alone if the interval is unknown. `second` selects the window after.
fn estimate(row: &ComparisonRow, second: bool) -> String {
    let side = if second { &row.after } else { &row.before };
    let show = |v: f64| units::format_value(v, &row.unit);
    match (side.low, side.high) {
        (Some(low), Some(high)) if high > low => {
            let (below, above) = (side.mean - low, high - side.mean);
            if above.max(below) <= UNEVEN * above.min(below) {
                return joined(&show(side.mean), " ±", &show((high - low) / 2.0));
            }
            format!("{} ({})", show(side.mean), joined(&show(low), " to ", &show(high)))
        }
        _ => show(side.mean),
    }
}

/// Joins two formatted values; a unit that they share is written once.
pub(crate) fn joined(one: &str, between: &str, other: &str) -> String {
    let unit = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic() && !"/%".contains(c)).to_owned();
    let bare = one.strip_suffix(&unit(one)).unwrap_or(one).trim_end();
    if unit(one) == unit(other) { format!("{bare}{between}{other}") } else { format!("{one}{between}{other}") }
}

/// Formats a difference with its sign.
pub(crate) fn signed(v: f64, unit: &str) -> String {
    let sign = if v > 0.0 { "+" } else { "" };
    format!("{sign}{}", units::format_value(v, unit))
}

/// Formats the interval of the difference, which may be open at one end.
fn interval(row: &ComparisonRow) -> String {
    match (row.difference_low, row.difference_high) {
        (Some(low), Some(high)) if high > low => joined(&signed(low, &row.unit), " to ", &signed(high, &row.unit)),
        (Some(_), Some(_)) => String::new(),
        (Some(low), None) => format!("{} or more", signed(low, &row.unit)),
        (None, Some(high)) => format!("{} or less", signed(high, &row.unit)),
        (None, None) => "unknown".into(),
    }
}

fn ratio(row: &ComparisonRow) -> String {
    row.ratio.map_or(String::new(), |r| {
        if r < 1000.0 { format!("x {}", units::format_significant(r)) } else { "x 1000+".into() }
    })
}

fn sure(row: &ComparisonRow) -> &'static str {
    match row.noise {
        Some(true) if row.difference == 0.0 && row.difference_low == row.difference_high => "same",
        Some(true) => "noise",
        Some(false) => "",
        None => "unknown",
    }
}

fn name_of(row: &ComparisonRow) -> &str {
    if row.instance == ALL_INSTANCES { "all" } else { &row.instance }
}

/// Describes the windows, a line each: host, times and verdict.
fn windows(comparison: &WindowComparison, zone: &DisplayZone) -> [String; 2] {
    let line = |verdict: &Verdict| {
        let host = if verdict.host.is_empty() { String::new() } else { format!("{}, ", verdict.host) };
        let instance = if verdict.instance.is_empty() { String::new() } else { format!(" ({})", verdict.instance) };
        let when = zone.range_between(&verdict.window.from, &verdict.window.to);
        let verdict_text = format!("{}{instance}", words::bottleneck(verdict.bottleneck));
        format!("{host}{when} ({}): {verdict_text}, confidence {}", words::watched(verdict), words::sure(verdict))
    };
    [line(&comparison.before), line(&comparison.after)]
}

/// Returns remarks on noise and on series that the table leaves out.
fn remarks(comparison: &WindowComparison) -> Vec<String> {
    let mut remarks = vec![format!(
        "{} judged; noise alone would show any change in fewer than 1 of 20 comparisons. The ranges of \
         differences allow for that; ranges of means are 95 % confidence intervals. Noise is measured within the \
         windows and does not include changes from day to day.",
        format_count(comparison.questions, "difference was", "differences were")
    )];
    let only = [(&comparison.only_before, "first"), (&comparison.only_after, "second")];
    for (named, which) in only.iter().filter(|(named, _)| !named.is_empty()) {
        let few: Vec<String> = named.iter().take(4).map(|n| format!("{} {}", n.counter, n.instance)).collect();
        let few: Vec<&str> = few.iter().map(|f| f.trim_end()).collect();
        let more = if named.len() > 4 { format!(" and {} more", named.len() - 4) } else { String::new() };
        remarks.push(format!("Only in the {which} window: {}{more}.", few.join(", ")));
    }
    if comparison.left_out > 0 {
        let series = format_count(comparison.left_out, "series was", "series were");
        remarks.push(format!("{series} left out: too many to follow."));
    }
    remarks
}

/// Renders the answer for a terminal, with at most `max_rows` rows of the table.
pub fn screen(comparison: &WindowComparison, max_rows: usize, zone: &DisplayZone, style: &Style) -> String {
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
    for (word, line) in ["before", "after"].iter().zip(windows(comparison, zone)) {
        for line in wrap(&style.clean(&format!("{word}: {line}")), style.width, 0) {
            out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
        }
    }
    out.push('\n');
    for line in wrap(&style.clean(&comparison.sentence), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(ink, &line)));
    }
    out.push('\n');
    let rows = shown(comparison, max_rows);
    let all = ranked(comparison);
    let changed = all.iter().filter(|r| r.noise == Some(false)).count();
    let mut table = TextTable::new()
        .text("counter")
        .text("of")
        .column("before", Align::Right)
        .column("after", Align::Right)
        .column("difference", Align::Right)
        .column("ratio", Align::Right)
        .column("", Align::Left);
    for row in &rows {
        let cells = [estimate(row, false), estimate(row, true), interval(row), ratio(row), sure(row).to_owned()];
        table.row([row.counter.clone(), name_of(row).to_owned()].into_iter().chain(cells));
    }
    out.push_str(&table.render(style));
    out.push('\n');
    let mut remark_parts =
        vec![format!("{changed} of {} changed beyond noise.", format_count(all.len(), "counter", "counters"))];
    if all.len() > rows.len() {
        remark_parts.push("--all, --json and -o FILE.html show the others.".to_owned());
    }
    remark_parts.extend(remarks(comparison));
    for line in wrap(&style.clean(&remark_parts.join(" ")), style.width, 0) {
        out.push_str(&format!("{}\n", style.paint(Ink::Dim, &line)));
    }
    out
}

/// Content of the page besides the comparison.
pub struct ComparePage {
    /// Charts made by [`chart`].
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
pub fn chart(
    row: &ComparisonRow,
    (from_ns, to_ns): (i64, i64),
    before: &[Option<f64>],
    after: &[Option<f64>],
) -> Option<Chart> {
    let bucket = |v: &Option<f64>| ChartBucket::of(*v);
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
    chart.unit = row.unit.clone();
    Some(chart)
}

/// Renders the comparison as an HTML page.
pub fn page(comparison: &WindowComparison, page: ComparePage) -> String {
    let class = if comparison.outcome == ChangeOutcome::Worse { "" } else { " none" };
    let beside = &page.beside;
    // if the user's file brings a heading, the comparison's sentence moves to the section on the windows
    let (first, rest) = comparison.sentence.split_once(". ").unwrap_or((&comparison.sentence, ""));
    let (title, own) = match beside.title.as_str() {
        "" => (first.trim_end_matches('.'), None),
        title => (title, Some(&comparison.sentence)),
    };
    let rest = Some(rest).filter(|rest| own.is_none() && !rest.is_empty());
    let rest = rest.map(|rest| format!("<p class=\"first\">{}</p>\n", escape(rest)));
    let lead = beside.lead.iter().map(|l| format!("<p class=\"dim\">{}</p>\n", escape_code(l))).chain(rest);
    let mut out = format!(
        "<header>\n<p class=\"made\"><b>Before and after</b></p>\n<div class=\"card verdict{class}\">\n\
         <h1>{}</h1>\n{}</div>\n</header>\n<main>\n",
        escape(title),
        lead.collect::<String>()
    );
    out.push_str(&sheet::sections(&beside.sections));
    let windows = windows(comparison, &page.zone);
    let [before, after] = beside.names.clone().unwrap_or_else(|| ["Before".to_owned(), "After".to_owned()]);
    let rows: Vec<Vec<String>> = [(before, &comparison.before), (after, &comparison.after)]
        .iter()
        .zip(&windows)
        .map(|((name, verdict), line)| vec![escape(name), escape(line), escape_code(&verdict.sentence)])
        .collect();
    let own = own.map(|sentence| format!("<p>{}</p>\n", escape(sentence))).unwrap_or_default();
    let windows = table(&["", "When, and which bottleneck", "In words"], &rows);
    section(&mut out, "windows", "The windows", &(own + &windows));
    section(&mut out, "charts", "Charts", &charts(&page));
    let rows: Vec<Vec<String>> = ranked(comparison).into_iter().take(ROWS).map(cells).collect();
    let titles = ["Counter", "Instance", "Before", "After", "Difference", "Ratio", ""];
    section(&mut out, "counters", "Counter by counter", &table(&titles, &rows));
    let remarks: String = remarks(comparison).iter().map(|r| format!("<li>{}</li>\n", escape(r))).collect();
    section(&mut out, "trust", "How far to trust this", &format!("<ul>\n{remarks}</ul>\n"));
    out.push_str("</main>\n");
    html::document("before and after", &out, &page.version)
}

fn cells(row: &ComparisonRow) -> Vec<String> {
    let difference =
        format!("{} <span class=\"dim\">{}</span>", value(row.difference, &row.unit), escape(&interval(row)));
    vec![
        format!("<span class=\"id\">{}</span>", escape(&row.counter)),
        escape(name_of(row)),
        escape(&estimate(row, false)),
        escape(&estimate(row, true)),
        difference,
        escape(&ratio(row)).replace(' ', "\u{a0}"),
        sure(row).to_owned(),
    ]
}

fn section(out: &mut String, id: &str, title: &str, content: &str) {
    if !content.is_empty() {
        out.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{title}</h2>\n{content}</section>\n"
        ));
    }
}

fn charts(page: &ComparePage) -> String {
    if page.charts.is_empty() {
        return String::new();
    }
    let bare = HtmlReport {
        verdicts: Vec::new(),
        charts: Vec::new(),
        heat: Vec::new(),
        notes: Vec::new(),
        topology: None,
        zone: page.zone.clone(),
        version: String::new(),
    };
    let mut out = String::from(
        "<p>Both windows are aligned at their start; the times are those of the second.</p>\n<div class=\"small\">\n",
    );
    for (number, chart) in page.charts.iter().enumerate() {
        let drawn = figure(chart, &bare, &format!("c{number}"), "");
        out.push_str(&format!("<div class=\"card\">{drawn}</div>\n"));
    }
    out.push_str("</div>\n");
    out
}

#[cfg(test)]
mod tests {
    use diskwright_diagnosis::compare::{ChangeDirection, CounterInstance, MeanEstimate, QuantityChange};

    use super::*;
    use crate::{expect, fixture};

    fn row(counter: &str, instance: &str, unit: &str, [before, after]: [f64; 2], noise: Option<bool>) -> ComparisonRow {
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

    fn comparison() -> WindowComparison {
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
                row(requests, "sda", "per_s", [118.0, 120.0], Some(true)),
                row(requests, fixture::EVIL, "per_s", [2.0, 2.0], Some(true)),
                row(requests, ALL_INSTANCES, "per_s", [120.0, 122.0], Some(true)),
                row(latency, "sda", "s", [0.048, 0.004], Some(false)),
                row(latency, ALL_INSTANCES, "s", [0.048, 0.004], Some(false)),
                row("memory.available_fraction", "", "fraction", [0.5, 0.49], Some(false)),
                row("processor.busy", "_total", "fraction", [0.1, 0.3], None),
            ],
            only_before: vec![CounterInstance { counter: "physical_disk.busy".into(), instance: fixture::EVIL.into() }],
            only_after: Vec::new(),
            left_out: 3,
            before: fixture::verdict(),
            after: fixture::other_verdict(),
        }
    }

    #[test]
    fn the_screen_stays_as_expected() {
        expect::holds("compare/screen.txt", &screen(&comparison(), 25, &DisplayZone::utc(), &Style::plain(110)));
    }

    #[test]
    fn what_changed_comes_first_and_one_disk_is_told_once() {
        let both = comparison();
        let names: Vec<(&str, &str)> =
            ranked(&both).iter().map(|r| (r.counter.as_str(), r.instance.as_str())).collect();
        assert_eq!(names[0], ("physical_disk.avg_s_per_transfer", "sda"));
        assert_eq!(names[1].0, "memory.available_fraction");
        assert_eq!(names[2].0, "processor.busy");
        // two disks have requests, one has latency
        assert_eq!(names.iter().filter(|(_, instance)| *instance == ALL_INSTANCES).count(), 1);
    }

    #[test]
    fn any_width_is_kept_and_no_name_writes_to_the_terminal() {
        let mut both = comparison();
        both.counters[1].instance = "\x1b]0;owned\x07\nx".into();
        both.sentence = "\x1b[2J".into();
        for width in [60, 80, 120] {
            let drawn = screen(&both, usize::MAX, &DisplayZone::utc(), &Style::plain(width));
            assert!(!drawn.contains(['\x1b', '\x07']), "{drawn}");
        }
        let wide = screen(&comparison(), usize::MAX, &DisplayZone::utc(), &Style::plain(120));
        assert!(wide.lines().all(|l| crate::text::width(l) <= 120), "{wide}");
    }

    #[test]
    fn units_are_told_once() {
        assert_eq!(joined("228/s", " ±", "32.1/s"), "228 ±32.1/s");
        assert_eq!(joined("2.01 ms", " ±", "10.9 us"), "2.01 ms ±10.9 us");
        assert_eq!(joined("0.1 requests", " ±", "0.2 requests"), "0.1 ±0.2 requests");
        assert_eq!(joined("14 %", " to ", "+15 %"), "14 to +15 %");
        assert_eq!(joined("3", " ±", "1"), "3 ±1");
    }

    fn beside() -> BesideDocument {
        let text = format!(
            r#"{{"schema": "diskwright.beside/1", "title": {evil}, "lead": [{evil}], "names": [{evil}, {evil}],
            "sections": [{{"title": {evil}, "words": [{evil}],
            "charts": [{{"title": {evil}, "x": {{"words": {evil}, "unit": "s"}},
            "y": {{"words": {evil}, "unit": {evil}}},
            "lines": [{{"name": {evil}, "points": [[0, 1], [1, -2], [2, 3]]}}]}}],
            "bars": [{{"title": {evil}, "unit": {evil}, "names": [{evil}], "groups": [[{evil}, [0.5]]]}}]}}]}}"#,
            evil = serde_json::Value::from(fixture::EVIL)
        );
        crate::beside::parse(text.as_bytes()).expect("valid")
    }

    #[test]
    fn the_page_is_well_formed_whatever_the_names_are() {
        let mut both = comparison();
        both.sentence = fixture::EVIL.into();
        both.counters[3].instance = fixture::EVIL.into();
        let points = [Some(1.0), None, Some(2.0)];
        let charts: Vec<Chart> =
            both.counters.iter().filter_map(|r| chart(r, (0, 3_000_000_000), &points, &points)).collect();
        assert_eq!(charts.len(), both.counters.len());
        let html = page(&both, ComparePage { charts, zone: DisplayZone::utc(), version: "0".into(), beside: beside() });
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
        assert!(elements > 50 && chart(&both.counters[0], (0, 1), &[None], &[None]).is_none());
    }
}
