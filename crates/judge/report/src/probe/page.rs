//! HTML page on results of the probe: facts, conclusions, charts, and tables run by run.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{self, format_count, format_value};
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::{SuiteRemark, SuiteText};
use diskwright_results::result::RunResult;
use maud::{Markup, Render, html};

use super::NamedResult;
use super::charts::result_charts;
use crate::curves;
use crate::html::{self, page_section};
use crate::markup::{format_unbroken, mark_code, mark_id};
use crate::sections::html_table;
use crate::sheet::chart_cards;
use crate::time::{self, DisplayZone};

/// Content of the page.
pub struct ProbePage<'a> {
    /// Results; results of the same suite share their charts.
    pub results: Vec<NamedResult<'a>>,
    /// Returns the description of a suite by its id.
    pub suite: fn(&str) -> Option<SuiteText>,
    /// Zone that times are shown in.
    pub zone: DisplayZone,
    /// Version of the program, for the foot.
    pub version: String,
}

/// Renders the page.
pub fn render_page(page: &ProbePage<'_>) -> String {
    let results = &page.results;
    let mut suites: Vec<&str> = Vec::new();
    for result in results {
        if !suites.contains(&result.document.suite.as_str()) {
            suites.push(&result.document.suite);
        }
    }
    let title = match results.as_slice() {
        [one] => format!("{} of {}", one.document.suite, one.document.target),
        _ => format_count(results.len(), "result", "results"),
    };
    let body = html! {
        header {
            p.made { b { "Measured by the probe" } ", " (start_times_text(page)) }
            div.card.verdict.none {
                h1 { (title) }
                // the first remarks of a single result
                @if let [one] = results.as_slice() {
                    @for remark in one.document.remarks.iter().take(2) { p.dim { (remark_words(remark)) } }
                }
            }
        }
        main {
            @for (number, suite) in suites.iter().enumerate() {
                (suite_section(page, suite, &format!("suite{number}")))
            }
            (page_section("facts", "What was measured, and how", &facts_table(results, &page.zone)))
            (page_section("trust", "How far to trust this", &trust_list(results)))
        }
    };
    html::wrap_document(&title, body, &page.version)
}

/// Returns the start time of the result, or the first and last start times.
fn start_times_text(page: &ProbePage<'_>) -> String {
    let mut started: Vec<i64> = page.results.iter().filter_map(|r| time::parse_rfc3339(&r.document.started)).collect();
    started.sort_unstable();
    let times: Vec<String> = started.into_iter().map(|t| page.zone.format_moment(t)).collect();
    match times.as_slice() {
        [] => "at an unknown time".into(),
        [one] => one.clone(),
        [first, .., last] => format!("{first} to {last}"),
    }
}

fn remark_words(remark: &SuiteRemark) -> Markup {
    html! {
        @if let (Some(number), Some(unit)) = (remark.value, &remark.unit) {
            b { (format_unbroken(number, unit)) } (remark.separator())
        }
        (mark_code(&remark.text))
    }
}

/// Renders a table of facts: a row for each fact that any result has, a column for each result.
fn facts_table(results: &[NamedResult<'_>], zone: &DisplayZone) -> Markup {
    type Fact = (&'static str, fn(&ProbeDocument) -> Option<String>);
    let facts: &[Fact] = &[
        ("Target", |d| Some(format!("{} ({})", d.target, ByteSize::capacity(d.target_bytes as f64)))),
        ("Device", |d| Some(d.device.name.clone())),
        ("Model", |d| d.device.model.clone()),
        ("Serial number", |d| d.device.serial.clone()),
        ("Size", |d| d.device.bytes.map(|b| ByteSize::capacity(b as f64).to_string())),
        ("Class", |d| Some(d.device.class.clone())),
        ("Scheduler", |d| d.device.scheduler.clone()),
        ("Write cache", |d| d.device.write_cache.clone()),
        ("Read-ahead", |d| d.machine.queue.get("read_ahead_kb").map(|kb| format!("{kb} KiB"))),
        ("Queue", |d| d.device.queue_requests.map(|n| format_count(n, "request", "requests"))),
        ("Filesystem", |d| Some(format!("{} on {}", d.device.filesystem.as_ref()?, d.device.mount.as_deref()?))),
        ("Mount options", |d| d.device.options.clone()),
        ("Limits", |d| Some(d.machine.io_limits.join("; "))),
        ("Through the page cache", |d| d.buffered.then(|| "yes".into())),
        ("Engine", |d| Some(format!("{}, {}", d.runs.first()?.engine, thread_count_text(d)))),
        ("Kernel", |d| Some(format!("Linux {}", d.device.kernel))),
        ("Machine", |d| Some(d.device.host.clone())),
        ("Processors", |d| Some(processor_text(d))),
        ("Seed", |d| Some(d.seed.to_string())),
        ("Made by", |d| Some(format!("Diskwright {}", d.version))),
        ("Again", |d| Some(format!("`{}`", d.command.join(" ").replace('`', "'")))),
    ];
    let start_times = results.iter().map(|r| {
        time::parse_rfc3339(&r.document.started).map_or_else(Markup::default, |t| zone.format_moment(t).render())
    });
    let mut rows: Vec<Vec<Markup>> = vec![["Begun".render()].into_iter().chain(start_times).collect()];
    for (name, extract) in facts {
        let cells: Vec<String> = results.iter().map(|r| extract(r.document).unwrap_or_default()).collect();
        if cells.iter().any(|c| !c.is_empty()) {
            rows.push([name.render()].into_iter().chain(cells.iter().map(|c| mark_code(c))).collect());
        }
    }
    // a single result needs no name
    let names = results.iter().map(|r| if results.len() > 1 { r.name } else { "" });
    let titles: Vec<&str> = [""].into_iter().chain(names).collect();
    html! { div.facts { (html_table(&titles, &rows)) } }
}

fn thread_count_text(document: &ProbeDocument) -> String {
    let max_threads = document.runs.iter().map(|r| r.workers).max().unwrap_or(0);
    format_count(max_threads as usize, "thread", "threads at most")
}

fn processor_text(document: &ProbeDocument) -> String {
    let machine = &document.machine;
    let model = machine.processor.as_ref().map_or(String::new(), |m| format!(" x {m}"));
    let governor = machine.governor.as_ref().map_or(String::new(), |g| format!(", governor {g}"));
    format!("{}{model}{governor}", document.device.processors)
}

/// Renders charts, remarks and tables of the results of one suite.
fn suite_section(page: &ProbePage<'_>, suite: &str, id: &str) -> Markup {
    let results: Vec<NamedResult<'_>> = page.results.iter().filter(|r| r.document.suite == suite).copied().collect();
    let description = (page.suite)(suite);
    let title = description.map_or_else(|| suite.to_owned(), |s| format!("{}: {}", s.id, s.title));
    let heading = |result: &NamedResult<'_>, several: &str, single: &str| {
        if results.len() > 1 { format!("{}: {several}", result.name) } else { single.to_owned() }
    };
    let content = html! {
        @if let Some(description) = description { p { (mark_code(description.explain)) } }
        (draw_charts(&result_charts(&results), id))
        @for result in results.iter().filter(|r| !r.document.remarks.is_empty()) {
            h3 { (heading(result, "what it shows", "What it shows")) }
            ul { @for remark in &result.document.remarks { li { (remark_words(remark)) } } }
        }
        @if let Some(description) = description {
            p { b { "A good result:" } " " (mark_code(description.good_result)) }
        }
        @for result in &results {
            h3 { (heading(result, "run by run", "Run by run")) }
            (runs_table(result.document))
        }
    };
    page_section(id, &title, &content)
}

/// Draws the charts on cards.
pub(super) fn draw_charts(charts: &[curves::Curves], id: &str) -> Markup {
    let figures = charts.iter().enumerate();
    chart_cards(figures.map(|(number, chart)| curves::curves_figure(chart, &format!("{id}c{number}"))))
}

/// Largest number of rows of a table.
const MAX_TABLE_ROWS: usize = 500;

fn runs_table(document: &ProbeDocument) -> Markup {
    let moving_title = document.moving_bytes.map(|b| format!("Moving {}", ByteSize::capacity(b as f64)));
    let mut titles = vec!["Run", "Requests/s", "Bytes/s", "Mean", "50 %", "95 %", "99 %", "99.9 %", "Longest"];
    titles.extend(["CPU a request", "Interrupts per request", "Bytes per interrupt"]);
    titles.extend(moving_title.as_deref());
    // most results have no remarks and need no column for them
    let has_remarks = document.runs.iter().any(|run| !run_remarks(run).is_empty());
    titles.extend(has_remarks.then_some("Remarks"));
    let cell = |v: Option<f64>, unit: &str| v.map_or(String::new(), |v| format_unbroken(v, unit)).render();
    let row = |run: &RunResult| {
        let latency = &run.latency_s;
        let mut cells = vec![
            mark_id(&run.name),
            cell(Some(run.requests_per_s), "per_s"),
            cell(Some(run.bytes_per_s), "bytes_per_s"),
        ];
        let times = [latency.mean, latency.p50, latency.p95, latency.p99, latency.p999, latency.max];
        cells.extend(times.map(|t| cell(t, "s")));
        cells.push(cell(run.cpu_s_per_request, "s"));
        cells.push(run.interrupts_per_request.map_or(String::new(), units::format_significant).render());
        cells.push(cell(run.bytes_per_interrupt, "bytes"));
        cells.extend(moving_title.as_ref().map(|_| run.moving_s.map_or(String::new(), format_duration).render()));
        cells.extend(has_remarks.then(|| run_remarks(run).join(", ").render()));
        cells
    };
    let rows: Vec<Vec<Markup>> = document.runs.iter().take(MAX_TABLE_ROWS).map(row).collect();
    let more = document.runs.len() - rows.len();
    html! {
        div.scroll { (html_table(&titles, &rows)) }
        @if more > 0 { p { "And " (more) " more." } }
    }
}

/// Formats a duration readably, from microseconds to days.
pub(super) fn format_duration(seconds: f64) -> String {
    if seconds < 90.0 { format_value(seconds, "s") } else { time::format_duration(seconds) }
}

/// Returns the problems of a run, in a word each.
pub fn run_remarks(run: &RunResult) -> Vec<String> {
    let count = |n: u64, word: &str| (n > 0).then(|| format!("{n} {word}"));
    [
        (run.steady == Some(false)).then(|| "not steady".to_owned()),
        count(run.failed, "failed"),
        count(run.short_transfers, "short"),
        run.stopped.then(|| "ended early".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Renders the list of facts that limit how far the figures can be trusted.
fn trust_list(results: &[NamedResult<'_>]) -> Markup {
    let mut items = Vec::new();
    for result in results {
        let document = result.document;
        let prefix = if results.len() > 1 { format!("{}: ", result.name) } else { String::new() };
        if let Some(reason) = document.incomplete_reason.as_ref().filter(|_| !document.complete) {
            items.push(format!("{prefix}some runs were skipped: {reason}."));
        }
        if document.buffered {
            items.push(format!(
                "{prefix}requests went through the page cache: this measures memory as much as the device."
            ));
        }
        if let Some(hidden) = describe_hidden_requests(document) {
            items.push(format!("{prefix}{hidden}."));
        }
        let unsteady = document.runs.iter().filter(|r| r.steady == Some(false)).count();
        if unsteady > 0 {
            let runs = format_count(unsteady, "run", "runs");
            items.push(format!("{prefix}{runs} did not reach steady state; use longer runs."));
        }
        let mut names: Vec<&str> = document.runs.iter().map(|r| r.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).all(|w| w[0] != w[1]) {
            items.push(format!("{prefix}each run was made only once, so the noise is unknown (use `--repeat 5`)."));
        }
    }
    items.push("Interrupts are those of the whole machine, without clock and network.".into());
    html! { ul { @for item in &items { li { (mark_code(item)) } } } }
}

/// Describes the run in which closed arrivals hid the most waiting requests; `None` if no run had a pause of more
/// than 0.1 s.
pub fn describe_hidden_requests(document: &ProbeDocument) -> Option<String> {
    let hides_requests = |r: &&RunResult| r.pace != "open" && r.longest_silence_s > 0.1;
    let count = document.runs.iter().filter(hides_requests).count();
    let worst = document
        .runs
        .iter()
        .filter(hides_requests)
        .max_by(|a, b| a.longest_silence_s.total_cmp(&b.longest_silence_s))?;
    let others = if count > 1 { format!(" (and {} more such runs)", count - 1) } else { String::new() };
    // with several workers, only the longest pause of one of them is known
    let subject = match worst.workers {
        0 | 1 => "no request completed".to_owned(),
        workers => format!("one of {workers} workers had no completion"),
    };
    Some(format!(
        "in {} {subject} for {}{others}: closed arrivals hide how long about {:.0} more requests would have waited",
        worst.name,
        format_value(worst.longest_silence_s, "s"),
        worst.hidden_requests.unwrap_or(0.0)
    ))
}
