//! Pages and charts of made-up results.

use diskwright_results::compare::compare_results;
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::SuiteText;
use diskwright_results::pattern::Pattern;
use diskwright_results::result::{Latency, RunResult, RunTimeline};

use super::{NamedResult, ProbePage, charts::result_charts, compare as drawn, page};
use crate::curves::{self, Curves};
use crate::style::Style;
use crate::time::DisplayZone;

const SAMPLE: &[u8] = include_bytes!("../../../../measure/results/tests/fixtures/depth.json");

/// Makes a result whose device serves `servers` requests at once in a millisecond
/// each; every run is made twice, the second a little faster.
fn depth_sweep_result(servers: u32) -> ProbeDocument {
    let mut document = ProbeDocument::parse("depth.json", SAMPLE).unwrap();
    let mut runs = Vec::new();
    for repeat in 0..3 {
        for depth in [1, 2, 4, 8, 16] {
            let rate = 1000.0 * f64::from(depth.min(servers)) * (1.0 + 0.01 * f64::from(repeat));
            let mean = f64::from(depth) / rate;
            let pattern = Pattern { name: format!("depth-{depth}"), ..Pattern::random_reads(4096, depth) };
            let latency_s = Latency { mean: Some(mean), p99: Some(3.0 * mean), ..Latency::default() };
            runs.push(RunResult {
                name: pattern.name.clone(),
                place: "uniform".into(),
                pace: "closed".into(),
                depth: Some(depth),
                size_bytes: 4096.0,
                read_share: 1.0,
                requests_per_s: rate,
                bytes_per_s: rate * 4096.0,
                measured_s: 3.0,
                distribution: [0.0, 0.5, 0.9, 0.99, 0.999].map(|p| (p, mean * (1.0 + p))).to_vec(),
                latency_s,
                steady: Some(depth < 16),
                timeline: Some(RunTimeline {
                    until_s: vec![0.5, 1.0, 1.5],
                    requests_per_s: vec![rate; 3],
                    bytes_per_s: vec![rate; 3],
                    mean_s: vec![Some(mean), None, Some(mean)],
                    max_s: vec![Some(mean), None, Some(mean)],
                }),
                engine: "io_uring".into(),
                workers: 1,
                pattern: Some(pattern),
                ..RunResult::default()
            });
        }
    }
    document.runs = runs;
    document
}

fn find_chart<'a>(charts: &'a [Curves], title: &str) -> &'a Curves {
    let titles: Vec<&str> = charts.iter().map(|c| c.title.as_str()).collect();
    charts.iter().find(|c| c.title.starts_with(title)).unwrap_or_else(|| panic!("no {title} in {titles:?}"))
}

/// Returns the probe's description of its suite.
fn suite_text(suite: &str) -> Option<SuiteText> {
    (suite == "depth").then_some(SuiteText {
        id: "depth",
        title: "random reads at rising queue depth",
        explain: "How many requests at once the device needs, and what each then waits.",
        good_result: "the rate rises until it levels off, and latency only behind that point",
    })
}

fn sample_page<'a>(results: Vec<NamedResult<'a>>, version: &str) -> ProbePage<'a> {
    ProbePage { results, suite: suite_text, zone: DisplayZone::utc(), version: version.into() }
}

#[test]
fn finds_a_sweep_by_the_quantity_that_differs() {
    let document = depth_sweep_result(4);
    let charts = result_charts(&[NamedResult { name: "a", document: &document }]);
    let rate = find_chart(&charts, "Requests per second by requests in flight");
    assert_eq!(rate.lines.len(), 1);
    let points: Vec<(f64, f64)> = rate.lines[0].points.iter().map(|p| (p.x, p.y.round())).collect();
    assert_eq!(points, [(1.0, 1010.0), (2.0, 2020.0), (4.0, 4040.0), (8.0, 4040.0), (16.0, 4040.0)]);
    // three repeats, 1 % apart: 1010 ± 4.303 x 10 / sqrt(3)
    let (low, high) = rate.lines[0].points[0].interval.unwrap();
    assert!((high - 1010.0 - 24.84).abs() < 0.01 && (1010.0 - low - 24.84).abs() < 0.01, "{low} {high}");
    let latency = find_chart(&charts, "Latency by requests in flight");
    assert_eq!(latency.lines.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["mean", "99 %"]);
    assert_eq!(find_chart(&charts, "Latency by percentile").lines.len(), 5);
    // of five runs only the one without steady state, its gap left out
    let over_time = find_chart(&charts, "Longest latency over time");
    assert_eq!((over_time.lines.len(), over_time.lines[0].points.len()), (1, 2));
}

#[test]
fn several_results_share_their_charts() {
    let (a, b) = (depth_sweep_result(4), depth_sweep_result(8));
    let charts = result_charts(&[NamedResult { name: "a", document: &a }, NamedResult { name: "b", document: &b }]);
    let rate = find_chart(&charts, "Requests per second by");
    assert_eq!(rate.lines.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let latency = find_chart(&charts, "Latency by requests");
    assert_eq!(latency.lines.len(), 4);
    assert_eq!(latency.lines[2].name, "b, mean");
}

#[test]
fn pages_are_well_formed_whatever_a_file_holds() {
    let evil = "\"><script>x</script>'`&\u{0}\u{1b}\u{202e}";
    let mut a = depth_sweep_result(4);
    for words in [&mut a.target, &mut a.device.name, &mut a.device.host, &mut a.started, &mut a.version] {
        *words = evil.into();
    }
    a.suite = evil.into();
    (a.complete, a.incomplete_reason) = (false, Some(evil.into()));
    a.command = vec![evil.into()];
    a.remarks[0].text = evil.into();
    a.machine.queue.insert("read_ahead_kb".into(), evil.into());
    for (index, run) in a.runs.iter_mut().enumerate() {
        (run.name, run.place, run.engine) = (format!("{evil}{index}"), evil.into(), evil.into());
        (run.requests_per_s, run.latency_s.mean) =
            ([0.0, 1e300, 1e-300][index % 3], Some([0.0, 1e300, 5e-324][index % 3]));
    }
    let b = depth_sweep_result(8);
    let results = vec![NamedResult { name: evil, document: &a }, NamedResult { name: "b", document: &b }];
    let pages = [
        page::render_page(&sample_page(results.clone(), evil)),
        drawn::render_page(&compare_results(&[(evil, &a)], &[("b", &b)]), &results, evil),
        curves::render_svg_file(evil, &result_charts(&results)),
        page::render_page(&sample_page(Vec::new(), "")),
    ];
    for page in pages {
        let (names, attributes, text) = crate::html::tests::read_xml(&page);
        assert!(names.iter().all(|n| n != "script"));
        assert!(attributes.iter().all(|(n, _)| !n.starts_with("on") && n != "src"));
        assert!(!text.contains(['\u{0}', '\u{1b}', '\u{202e}']));
        let mut ids: Vec<&String> = attributes.iter().filter(|(n, _)| n == "id").map(|(_, v)| v).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        assert!(!page.contains("NaN") && !page.contains("inf%"), "{page}");
    }
    let screen = drawn::render_screen(&compare_results(&[(evil, &a)], &[("b", &b)]), true, &Style::plain(100));
    assert!(!screen.contains(['\u{0}', '\u{1b}']));
}

#[test]
fn a_number_continued_by_a_sentence_has_no_colon() {
    let mut a = depth_sweep_result(4);
    a.remarks[0].text = "of 15 runs never reached steady state".into();
    (a.remarks[0].value, a.remarks[0].unit) = (Some(6.0), Some("count".into()));
    let screen = super::render_screen(suite_text("depth"), &a, &Style::plain(100));
    assert!(screen.contains("\n  6 of 15 runs never reached"), "{screen}");
    let page = page::render_page(&sample_page(vec![NamedResult { name: "a", document: &a }], ""));
    assert!(page.contains("<b>6</b> of 15 runs never reached"), "{page}");
    a.remarks[0].text = "maximum of reads per second".into();
    assert!(super::render_screen(suite_text("depth"), &a, &Style::plain(100)).contains("\n  6: maximum of reads"));
}

#[test]
fn the_page_and_the_screen_stay_as_expected() {
    let (a, b) = (depth_sweep_result(4), depth_sweep_result(8));
    let results = vec![NamedResult { name: "before", document: &a }, NamedResult { name: "after", document: &b }];
    let drawn_page = page::render_page(&sample_page(results, "0.1.0"));
    crate::expected_output::assert_expected_page("probe/depths.html", &drawn_page);
    for (name, document, width) in [("wide", &a, 120), ("narrow", &b, 72)] {
        let screen = super::render_screen(suite_text("depth"), document, &Style::plain(width));
        assert!(screen.lines().all(|l| crate::text::display_width(l) <= width), "{screen}");
        crate::expected_output::assert_expected(&format!("probe/{name}.txt"), &screen);
    }
    let comparison = compare_results(&[("before.json", &a)], &[("after.json", &b)]);
    crate::expected_output::assert_expected(
        "probe/compare.txt",
        &drawn::render_screen(&comparison, false, &Style::plain(100)),
    );
    let single = ProbeDocument { runs: a.runs[..5].to_vec(), ..a.clone() };
    let comparison = compare_results(&[("one.json", &single)], &[("after.json", &b)]);
    crate::expected_output::assert_expected(
        "probe/single.txt",
        &drawn::render_screen(&comparison, false, &Style::plain(100)),
    );
}
