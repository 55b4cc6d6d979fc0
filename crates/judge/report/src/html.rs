//! HTML page of `report`: one file without scripts that loads nothing from elsewhere.
//! It is readable on a phone, on paper and in dark mode. `maud` escapes all text, so that foreign text stays text.

use std::collections::{HashMap, HashSet};

use diskwright_base::{Note, Topology, units};
use diskwright_diagnosis::{Bottleneck, Culprit, Finding, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::axis;
use crate::changes;
use crate::chart_book::{self, finding_id};
use crate::chart_model::Chart;
use crate::events;
use crate::heat_map::{self, HeatChart};
use crate::identity;
use crate::markup::{finish_page, format_unbroken, mark_code, mark_id};
use crate::palette::Palette;
use crate::remedies::remedies_in_order;
use crate::sections;
use crate::svg;
use crate::time::DisplayZone;
use crate::trends;
use crate::verdict_words;

/// Style sheet with colours and fonts, for light and dark mode.
pub const PALETTE_CSS: &str = include_str!("page/palette.css");

/// Tags that a browser reads before the rest. Closed as in XML, they keep the page well-formed: tests read it as XML.
const META_TAGS: &str = "\n<meta charset=\"utf-8\"/>\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
    <meta name=\"color-scheme\" content=\"light dark\"/>\n";

/// Content of the page.
#[derive(Clone, Debug)]
pub struct HtmlReport {
    /// Verdict of each pack; the first is that of the requested pack.
    pub verdicts: Vec<Verdict>,
    /// Charts, as a [`crate::ChartBook`] makes them: those of findings stand beside
    /// the findings, the others make the appendix.
    pub charts: Vec<Chart>,
    /// Latency of single requests over time, if they were traced.
    pub heat: Vec<HeatChart>,
    /// Notes of the log: bookmarks, gaps, sources that could not be read.
    pub notes: Vec<Note>,
    /// The machine, if known.
    pub topology: Option<Topology>,
    /// Zone that times are shown in.
    pub zone: DisplayZone,
    /// Version of the program, for the foot of the page.
    pub version: String,
}

impl HtmlReport {
    /// Chooses a style for each device's line, the same in all charts.
    pub(crate) fn choose_palette(&self) -> Palette {
        let verdicts = || self.verdicts.iter().take(1);
        let finding_instances = verdicts().flat_map(|v| v.findings.iter().map(|f| f.instance.as_str()));
        let trend_instances = verdicts().flat_map(|v| v.trends.iter().map(|t| t.instance.as_str()));
        Palette::from_charts(&self.charts, finding_instances.chain(trend_instances))
    }
}

/// Renders the page. Without a verdict it says so.
pub fn render_page(report: &HtmlReport) -> String {
    let title = report.verdicts.first().map_or("no verdict".to_owned(), |v| {
        let host = if v.host.is_empty() { String::new() } else { format!(" ({})", v.host) };
        format!("{}{host}", verdict_words::bottleneck_name(v.bottleneck))
    });
    let body = html! {
        @match report.verdicts.first() {
            Some(verdict) => (verdict_body(report, verdict)),
            None => main { p { "There is no verdict to report." } },
        }
    };
    finish_document(&title, body, cited_list(report), &report.version)
}

/// Wraps the body of any other page in head and foot.
pub(crate) fn wrap_document(title: &str, body: Markup, version: &str) -> String {
    finish_document(title, body, Markup::default(), version)
}

fn finish_document(title: &str, body: Markup, foot: Markup, version: &str) -> String {
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                (PreEscaped(META_TAGS))
                title { "Diskwright: " (title) }
                style {}
            }
            "\n"
            body {
                (body)
                footer {
                    (foot)
                    p {
                        "Made by Diskwright " (version) ". This page is complete in itself: it loads nothing and runs "
                        "nothing."
                    }
                }
            }
        }
    };
    finish_page(page, &[PALETTE_CSS, include_str!("page/page.css"), svg::STYLE_SHEET])
}

/// Renders headline, table of contents and all sections that have content.
fn verdict_body(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let mut shown_charts = HashSet::new();
    let evidence = evidence_section(report, verdict, &mut shown_charts);
    let charts = report.charts.iter().enumerate();
    let appendix: Vec<&Chart> =
        charts.filter(|(index, _)| !shown_charts.contains(index)).map(|(_, chart)| chart).collect();
    let mut parts: Vec<(&str, &str, Markup)> = vec![
        ("evidence", "Evidence", evidence),
        ("culprits", "Who is doing it", sections::culprits_section(verdict)),
        ("advice", "What to do, cheapest first", sections::advice_section(verdict)),
        ("databases", "What the database servers say", sections::databases_section(verdict)),
        ("volumes", "Cloud volumes", sections::volumes_section(verdict)),
        ("captures", "Captured when alerts began", sections::captures_section(verdict, &report.zone)),
        ("phases", "Timeline", sections::phases_section(report, verdict)),
        ("changes", "What changed when", changes_section(report, verdict)),
        ("episodes", "At times", sections::episodes_section(report, verdict)),
        ("trends", "Where it is heading", trends::trends_section(report, verdict)),
        ("ruled-out", "What was ruled out, and why", sections::ruled_out_section(verdict)),
        ("programs", "What the programs do and wait for", sections::programs_section(verdict)),
        ("packs", "What other packs say", sections::packs_section(&report.verdicts)),
        ("trust", "How far to trust this", sections::trust_section(report, verdict)),
        ("bookmarks", "Bookmarks", sections::bookmarks_section(report)),
        ("machine", "The machine", sections::machine_section(report.topology.as_ref())),
        ("latency", "Latency of single requests", heat_maps(report)),
        ("charts", "Main counters", sections::charts_section(report, &appendix)),
    ];
    parts.retain(|(_, _, content)| !content.0.is_empty());
    html! {
        (headline(report, verdict))
        main {
            nav aria-label="Contents" {
                @for (id, title, _) in &parts { a href={ "#" (id) } { (title) } " " }
            }
            @for (id, title, content) in &parts { (page_section(id, title, content)) }
        }
    }
}

/// Lists the changes of level, each with what began then.
fn changes_section(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let lines = changes::change_lines(verdict, &report.zone);
    html! { @if !lines.is_empty() { ul { @for line in &lines { li { (line) } } } } }
}

/// Renders a section with its heading; nothing if it has no content.
pub(crate) fn page_section(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        @if !content.0.is_empty() {
            "\n"
            section id=(id) aria-labelledby={ (id) "-h" } {
                h2 id={ (id) "-h" } { (title) }
                (content)
            }
        }
    }
}

/// Draws the heat map of each operation on each device.
fn heat_maps(report: &HtmlReport) -> Markup {
    html! {
        @for (number, chart) in report.heat.iter().enumerate() {
            (heat_map::draw_heat_map(chart, &report.zone, &format!("heat{number}")))
        }
    }
}

/// Lists the cited documents.
fn cited_list(report: &HtmlReport) -> Markup {
    let rules = report.verdicts.iter().flat_map(|v| v.findings.iter().map(|f| f.source.as_str()));
    let advice = report.verdicts.iter().take(1).flat_map(|v| v.advice.iter().map(|a| a.source.as_str()));
    let sources: Vec<&str> = rules.chain(advice).collect();
    let cited = verdict_words::cited_documents(&sources.join("\n"));
    html! {
        @if !cited.is_empty() {
            ul.cited { @for (id, title) in cited { li { (id) ": " (title) } } }
        }
    }
}

fn headline(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let host = verdict_words::host_text(verdict, "an unnamed machine");
    let blames = verdict.bottleneck.blames();
    let answers: Vec<HeadlineAnswer<'_>> = match verdict.bottlenecks.as_slice() {
        [] => {
            vec![(verdict.bottleneck, &verdict.instance, &verdict.sentence, verdict.confidence, &verdict.culprits)]
        }
        listed => {
            listed.iter().map(|b| (b.bottleneck, &*b.instance, &*b.sentence, b.confidence, &*b.culprits)).collect()
        }
    };
    html! {
        header {
            p.made {
                b { (host) } ", "
                @if let Some(when) = verdict_words::window_time_text(verdict, &report.zone) { (when) ", " }
                (verdict_words::observation_text(verdict))
            }
            div.card.verdict.none[!blames] {
                @for (index, answer) in answers.iter().enumerate() { (answer_headline(index, *answer)) }
                @for line in events::event_lines(verdict, &report.zone) { p.event { (mark_code(&line)) } }
                @if let Some(line) = changes::leading_change_line(verdict, &report.zone) { p.since { (line) } }
                @for first in remedies_in_order(verdict).iter().take(answers.len()).filter(|_| blames) {
                    p.first {
                        b { "First:" } " " (mark_code(&first.words()))
                        @if let Some(command) = &first.command { " " code { (command) } }
                        @if let Some(undo) = &first.undo { " (back: " code { (undo) } ")" }
                    }
                }
                @for limit in verdict.certainty_limits.iter().take(2) {
                    p.dim { (mark_code(&sentence_case(limit))) }
                }
            }
        }
    }
}

/// A bottleneck, its instance, sentence, confidence and culprits.
type HeadlineAnswer<'a> = (Bottleneck, &'a str, &'a str, f64, &'a [Culprit]);

/// Largest number of culprits of a bottleneck in the headline; the section on them has all.
const MAX_HEADLINE_CULPRITS: usize = 2;
/// Longest description of who a culprit is in the headline, characters.
const MAX_IDENTITY_COLUMNS: usize = 120;

/// Renders one bottleneck of the headline, or that there is none; only the first is the page's title.
fn answer_headline(index: usize, (bottleneck, instance, sentence, confidence, culprits): HeadlineAnswer<'_>) -> Markup {
    let subject = match instance {
        "" => verdict_words::bottleneck_name(bottleneck).to_owned(),
        instance => format!("{}: {instance}", verdict_words::bottleneck_name(bottleneck)),
    };
    let percent = verdict_words::confidence_percent(confidence).replace(' ', "\u{a0}");
    let meter = format!("width:{:.0}%", confidence.clamp(0.0, 1.0) * 100.0);
    html! {
        p.kicker { (sentence_case(&subject)) }
        @if index == 0 { h1 { (mark_code(sentence)) } } @else { h2.further { (mark_code(sentence)) } }
        p.sure {
            span.meter aria-hidden="true" { i style=(meter) {} }
            span { (confidence_words(confidence)) " (confidence " (percent) ")" }
        }
        @for culprit in culprits.iter().take(MAX_HEADLINE_CULPRITS) { (headline_culprit(culprit)) }
    }
}

/// Renders who is doing it, in a line.
fn headline_culprit(culprit: &Culprit) -> Markup {
    let name = verdict_words::culprit_name(culprit);
    let identity = identity::culprit_line(culprit, MAX_IDENTITY_COLUMNS);
    html! {
        p.doer {
            b { (name) } ": " (culprit.description)
            @if !identity.is_empty() { " " span.dim { (identity) } }
        }
    }
}

/// Puts a confidence in words.
fn confidence_words(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.9 => "Almost certain",
        c if c >= 0.75 => "Very likely",
        c if c >= 0.5 => "Likely",
        c if c >= 0.3 => "Possible",
        _ => "A guess",
    }
}

/// Renders a card for each finding; adds the positions of the charts shown here to `shown_charts`.
fn evidence_section(report: &HtmlReport, verdict: &Verdict, shown_charts: &mut HashSet<usize>) -> Markup {
    let findings = verdict_words::evidence_in_order(verdict);
    if findings.is_empty() {
        return html! { p { "No rule of this pack held long enough to be a finding." } };
    }
    let palette = report.choose_palette();
    let mut charts_of: HashMap<&str, usize> = HashMap::new();
    for (index, chart) in report.charts.iter().enumerate() {
        if let Some(id) = chart.finding.as_deref() {
            charts_of.entry(id).or_insert(index);
        }
    }
    let mut card = |number: usize, finding: &Finding| {
        let chart = charts_of.get(&*finding_id(finding)).copied();
        shown_charts.extend(chart);
        let drawn =
            chart.map(|index| report.charts[index].clone()).or_else(|| chart_book::finding_chart(verdict, finding));
        let figure =
            drawn.map(|chart| chart_figure(&chart, report, &palette, &format!("f{number}"), &chart_key(&chart)));
        finding_card(report, finding, verdict.window.seconds, figure)
    };
    html! { @for (number, finding) in findings.into_iter().enumerate() { (card(number, finding)) } }
}

fn finding_card(report: &HtmlReport, finding: &Finding, window_s: f64, figure: Option<Markup>) -> Markup {
    let severity = finding.severity.name();
    let beside = verdict_words::evidence_values(finding);
    html! {
        "\n"
        article.card.finding {
            header {
                h3 { span class={ "pill " (severity) } { (severity) } " " (verdict_words::finding_title(finding)) }
            }
            p.numbers {
                strong { (format_unbroken(finding.value, &finding.unit)) }
                span {
                    (verdict_words::comparison_words(finding)) " " (format_unbroken(finding.limit, &finding.unit))
                    " for " (format_unbroken(finding.share_of_value(), "fraction")) " of "
                    (verdict_words::finding_time_text(finding, window_s))
                }
                span.dim { (report.zone.format_range_between(&finding.from, &finding.to)) }
            }
            @if let Some(each) = finding.each_disk_text() { p { "The limit is " (each) "." } }
            @if let Some(from) = &finding.limit_from { p { (sentence_case(from)) } }
            @if let Some(figure) = figure { (figure) }
            @if !finding.explain.is_empty() { p { (mark_code(&finding.explain)) } }
            @if !beside.is_empty() {
                dl.beside {
                    @for (name, measured, unit) in beside {
                        div { dt { (name) } dd { (format_unbroken(measured, unit)) } }
                    }
                }
            }
            p.source {
                "Rule " (mark_id(&finding.rule)) ": " (mark_id(&finding.quantity)) ". Source: " (finding.source)
            }
        }
    }
}

/// Renders a chart with its caption and key, if any.
pub(crate) fn chart_figure(chart: &Chart, report: &HtmlReport, palette: &Palette, id: &str, key: &str) -> Markup {
    let unit = axis::unit_caption(&chart.unit, &chart.title);
    // a title that starts with a device name keeps the case of that name
    let starts_with_instance = chart.lines.len() == 1 && {
        let instance = &chart.lines[0].instance;
        !instance.is_empty() && chart.title.starts_with(instance)
    };
    let title = if starts_with_instance { chart.title.clone() } else { sentence_case(&chart.title) };
    html! {
        "\n"
        figure {
            figcaption { b { (title) } " " span.dim { (unit) } }
            (svg::draw_chart(chart, &palette.line_styles(chart), &report.notes, &report.zone, id))
            @if !key.is_empty() { p.key { (key) } }
        }
    }
}

/// Explains the marks that a chart has.
fn chart_key(chart: &Chart) -> String {
    let has_range = |b: &crate::ChartBucket| !b.is_gap() && b.max > b.min;
    let has_band = chart.lines.len() == 1 && chart.lines[0].buckets.iter().any(has_range);
    let lead = if has_band { "Line: mean; band: minimum to maximum." } else { "" };
    format!("{lead} {}", rare_key(chart)).trim().to_owned()
}

/// Returns the part of the key that few charts need.
pub(crate) fn rare_key(chart: &Chart) -> String {
    let mut words = Vec::new();
    if !chart.shaded_intervals.is_empty() {
        words.push("Shaded: while the finding held.".to_owned());
    }
    let buckets = || chart.lines.iter().flat_map(|l| &l.buckets);
    match (buckets().any(|b| b.is_unrecorded()), buckets().any(|b| b.is_gap() && !b.is_unrecorded())) {
        (true, true) => words.push("Blank: nothing was recorded, or there was nothing to average.".to_owned()),
        (true, false) => words.push("Blank: nothing was recorded.".to_owned()),
        (false, true) => words.push("Blank: there was nothing to average.".to_owned()),
        (false, false) => {}
    }
    if let (Some(limit), None) = (chart.limit, chart.drawn_limit()) {
        words.push(format!("The limit, {}, is far above the chart.", units::format_value(limit, &chart.unit)));
    }
    if chart.lines.len() > svg::MAX_LINES {
        words.push(format!("Shown: {} of {}.", svg::MAX_LINES, chart.lines.len()));
    }
    words.join(" ")
}

/// Capitalizes the first letter.
pub(crate) fn sentence_case(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{expected_output, fixture};

    fn sample_report() -> HtmlReport {
        let topology = Some(fixture::sample_topology());
        let charts = vec![
            fixture::finding_chart(0, 6.2),
            fixture::finding_chart(1, 0.048),
            fixture::sample_chart("pressure.io_some", &[""], 0.7),
            fixture::sample_chart("physical_disk.bytes_per_s", &["sda", "sdb", "md0"], 14e6),
            fixture::sample_chart("processor.busy", &[""], 0.12),
            fixture::sample_chart("memory.available_fraction", &[""], 0.4),
            fixture::sample_chart("physical_disk.transfers_per_s", &["sda", "sdb", fixture::EVIL], 130.0),
        ];
        HtmlReport {
            verdicts: vec![fixture::sample_verdict(), fixture::other_verdict()],
            charts,
            heat: Vec::new(),
            notes: fixture::sample_notes(),
            topology,
            zone: DisplayZone::utc(),
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn programs_section_appears_when_no_bottleneck_is_blamed() {
        let mut report = sample_report();
        assert!(!render_page(&report).contains("id=\"programs\""));
        report.verdicts[0].programs = fixture::sample_programs();
        let page = render_page(&report);
        assert!(page.contains("id=\"programs\"") && page.contains("Where to look next"));
        assert!(page.contains("24 threads wait for a lock") && !page.contains(fixture::EVIL));
    }

    #[test]
    fn who_does_it_and_what_to_do_come_before_what_was_ruled_out() {
        let page = render_page(&sample_report());
        let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        let body = position("</style>");
        let card = body + page[body..].find("card verdict").expect("the headline");
        let culprit = card + page[card..].find("class=\"doer\"").expect("a culprit in the headline");
        assert!(culprit < position("<nav"), "the headline's card names it");
        let section = |id: &str| position(&format!("<section id=\"{id}\""));
        assert!(section("culprits") < section("advice") && section("advice") < section("ruled-out"));
    }

    #[test]
    fn the_page_stays_as_expected() {
        expected_output::assert_expected_page("page/disk.html", &render_page(&sample_report()));
    }

    #[test]
    fn the_page_with_database_servers_stays_as_expected_and_escapes_their_texts() {
        let mut report = sample_report();
        assert!(!render_page(&report).contains("id=\"databases\""));
        (report.verdicts, report.charts) = (vec![fixture::verdict_with_databases()], Vec::new());
        let page = render_page(&report);
        assert!(page.contains("id=\"databases\"") && !page.contains(fixture::EVIL));
        expected_output::assert_expected_page("page/databases.html", &page);
    }

    /// Element names, attribute values and text of the page, read as XML.
    pub(crate) fn read_xml(page: &str) -> (Vec<String>, Vec<(String, String)>, String) {
        use quick_xml::events::Event;
        let mut reader = quick_xml::Reader::from_str(page);
        reader.config_mut().check_end_names = true;
        let (mut names, mut attributes, mut text, mut depth) = (Vec::new(), Vec::new(), String::new(), 0);
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Eof => break,
                Event::Start(tag) => {
                    depth += 1;
                    collect_tag(&tag, &mut names, &mut attributes);
                }
                Event::Empty(tag) => collect_tag(&tag, &mut names, &mut attributes),
                Event::End(_) => depth -= 1,
                Event::Text(words) => text.push_str(&words.decode().expect("UTF-8")),
                Event::GeneralRef(name) => text.push_str(&format!("&{};", name.decode().expect("UTF-8"))),
                _ => {}
            }
        }
        assert_eq!(depth, 0, "an element is left open");
        (names, attributes, text)
    }

    fn collect_tag(
        tag: &quick_xml::events::BytesStart,
        names: &mut Vec<String>,
        attributes: &mut Vec<(String, String)>,
    ) {
        names.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned());
        for attribute in tag.attributes() {
            let attribute = attribute.expect("each attribute once and quoted");
            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            attributes.push((name, String::from_utf8_lossy(&attribute.value).into_owned()));
        }
    }

    #[test]
    fn the_page_is_well_formed_and_its_ids_are_unique() {
        let (names, attributes, text) = read_xml(&render_page(&sample_report()));
        assert!(names.iter().any(|n| n == "svg"));
        assert!(text.contains("more than two requests wait"));
        let mut ids: Vec<&String> = attributes.iter().filter(|(n, _)| n == "id").map(|(_, v)| v).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        let named =
            |(n, v): &(String, String)| n != "aria-labelledby" || v.split(' ').all(|id| ids.iter().any(|i| *i == id));
        assert!(attributes.iter().all(named));
        let linked = |(n, v): &(String, String)| n != "href" || ids.iter().any(|i| format!("#{i}") == *v);
        assert!(attributes.iter().all(linked));
    }

    #[test]
    fn foreign_text_is_escaped_and_nothing_is_loaded() {
        let evil = "\"><script>x</script><img src=x onerror=x>'`&\u{0}\u{1b}";
        let mut report = sample_report();
        for verdict in &mut report.verdicts {
            for words in [&mut verdict.pack, &mut verdict.host, &mut verdict.instance, &mut verdict.sentence] {
                *words = evil.into();
            }
            for f in &mut verdict.findings {
                for words in [&mut f.rule, &mut f.title, &mut f.instance, &mut f.quantity, &mut f.unit] {
                    *words = evil.into();
                }
                (f.explain, f.source) = (evil.into(), evil.into());
            }
            for r in &mut verdict.ruled_out {
                r.because = evil.into();
            }
            for a in &mut verdict.advice {
                (a.text, a.source) = (evil.into(), evil.into());
            }
            for r in &mut verdict.notes {
                r.text = evil.into();
            }
            for t in &mut verdict.trends {
                for words in [&mut t.instance, &mut t.quantity, &mut t.rule, &mut t.unit] {
                    *words = evil.into();
                }
            }
            verdict.certainty_limits = vec![evil.into()];
        }
        for note in &mut report.notes {
            *note = Note::new(note.time_ns, &note.kind, evil);
        }
        for chart in &mut report.charts {
            (chart.title, chart.unit) = (evil.into(), evil.into());
            chart.lines[0].instance = evil.into();
        }
        let topology = report.topology.as_mut().expect("there is one");
        topology.kernel = evil.into();
        for device in &mut topology.devices {
            (device.name, device.model, device.background) = (evil.into(), Some(evil.into()), Some(evil.into()));
        }
        topology.filesystems[0].mount = evil.into();
        report.version = evil.into();
        let (names, attributes, text) = read_xml(&render_page(&report));
        for forbidden in ["script", "img", "link", "iframe", "object", "image", "use"] {
            assert!(!names.iter().any(|n| n == forbidden), "{forbidden}");
        }
        assert!(attributes.iter().all(|(n, _)| !n.starts_with("on") && n != "src"));
        assert!(!text.contains(['\u{0}', '\u{1b}']));
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let empty = HtmlReport {
            verdicts: Vec::new(),
            charts: Vec::new(),
            notes: Vec::new(),
            topology: None,
            ..sample_report()
        };
        assert!(read_xml(&render_page(&empty)).2.contains("no verdict"));
        let bare = HtmlReport { charts: Vec::new(), notes: Vec::new(), topology: None, ..sample_report() };
        // findings and trends carry their own points
        assert_eq!(read_xml(&render_page(&bare)).1.iter().filter(|(n, v)| n == "class" && v == "chart").count(), 6);
    }
}
