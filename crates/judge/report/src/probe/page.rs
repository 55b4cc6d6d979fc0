//! HTML page on results of the probe: facts, conclusions, charts, and tables run by run.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{self, format_count, format_value};
use diskwright_results::document::ProbeDocument;
use diskwright_results::facts::SuiteText;
use diskwright_results::result::RunResult;

use super::NamedResult;
use super::charts::result_charts;
use crate::curves;
use crate::html;
use crate::markup::{escape, escape_code, value_html};
use crate::sections::html_table;
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
    let mut out = format!(
        "<header>\n<p class=\"made\"><b>Measured by the probe</b>, {}</p>\n<div class=\"card verdict none\">\n\
         <h1>{}</h1>\n{}</div>\n</header>\n<main>\n",
        escape(&start_times_text(page)),
        escape(&title),
        lead_remarks(results)
    );
    for (number, id) in suites.iter().enumerate() {
        let of_suite: Vec<NamedResult<'_>> = results.iter().filter(|r| r.document.suite == *id).copied().collect();
        let known = (page.suite)(id);
        let heading = known.map_or_else(|| (*id).to_owned(), |s| format!("{}: {}", s.id, s.title));
        let id = format!("suite{number}");
        append_section(&mut out, &id, &heading, &suite_body(known, &of_suite, &id));
    }
    append_section(&mut out, "facts", "What was measured, and how", &facts_table(results, &page.zone));
    append_section(&mut out, "trust", "How far to trust this", &trust_list(results));
    out.push_str("</main>\n");
    html::wrap_document(&title, &out, &page.version)
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

/// Renders the first remarks of a single result; empty for several results.
fn lead_remarks(results: &[NamedResult<'_>]) -> String {
    let [one] = results else { return String::new() };
    let remarks = one.document.remarks.iter().take(2);
    remarks.map(|r| format!("<p class=\"dim\">{}</p>\n", format_remark(r))).collect()
}

fn format_remark(remark: &diskwright_results::facts::SuiteRemark) -> String {
    match (remark.value, &remark.unit) {
        (Some(number), Some(unit)) => {
            format!("<b>{}</b>{}{}", value_html(number, unit), remark.separator(), escape_code(&remark.text))
        }
        _ => escape_code(&remark.text),
    }
}

pub(super) fn append_section(out: &mut String, id: &str, title: &str, content: &str) {
    if !content.is_empty() {
        out.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}</h2>\n{content}</section>\n",
            escape(title)
        ));
    }
}

/// Renders a table of facts: a row for each fact that any result has, a column for each result.
fn facts_table(results: &[NamedResult<'_>], zone: &DisplayZone) -> String {
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
    let mut rows = Vec::new();
    for (name, extract) in facts {
        let cells: Vec<String> = results.iter().map(|r| extract(r.document).unwrap_or_default()).collect();
        if cells.iter().any(|c| !c.is_empty()) {
            rows.push([(*name).to_owned()].into_iter().chain(cells.iter().map(|c| escape_code(c))).collect());
        }
    }
    let begun = |r: &NamedResult<'_>| {
        time::parse_rfc3339(&r.document.started).map_or_else(String::new, |t| escape(&zone.format_moment(t)))
    };
    rows.insert(0, ["Begun".to_owned()].into_iter().chain(results.iter().map(begun)).collect());
    // a single result needs no name
    let names = results.iter().map(|r| if results.len() > 1 { r.name } else { "" });
    let titles: Vec<&str> = [""].into_iter().chain(names).collect();
    format!("<div class=\"facts\">{}</div>", html_table(&titles, &rows))
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
fn suite_body(known: Option<SuiteText>, results: &[NamedResult<'_>], id: &str) -> String {
    let mut out = String::new();
    if let Some(suite) = known {
        out.push_str(&format!("<p>{}</p>\n", escape_code(suite.explain)));
    }
    out.push_str(&draw_charts(&result_charts(results), id));
    for result in results.iter().filter(|r| !r.document.remarks.is_empty()) {
        let items: String =
            result.document.remarks.iter().map(|r| format!("<li>{}</li>\n", format_remark(r))).collect();
        let heading =
            if results.len() > 1 { format!("{}: what it shows", result.name) } else { "What it shows".into() };
        out.push_str(&format!("<h3>{}</h3>\n<ul>\n{items}</ul>\n", escape(&heading)));
    }
    if let Some(suite) = known {
        out.push_str(&format!("<p><b>A good result:</b> {}</p>\n", escape_code(suite.good_result)));
    }
    for result in results {
        let heading = if results.len() > 1 { format!("{}: run by run", result.name) } else { "Run by run".into() };
        out.push_str(&format!("<h3>{}</h3>\n{}", escape(&heading), runs_table(result.document)));
    }
    out
}

/// Renders the charts, two beside each other if they fit.
pub(super) fn draw_charts(charts: &[curves::Curves], id: &str) -> String {
    let figures =
        charts.iter().enumerate().map(|(number, chart)| curves::curves_figure(chart, &format!("{id}c{number}")));
    let cards: String = figures.filter(|f| !f.is_empty()).map(|f| format!("<div class=\"card\">{f}</div>\n")).collect();
    if cards.is_empty() { String::new() } else { format!("<div class=\"small\">\n{cards}</div>\n") }
}

/// Largest number of rows of a table.
const MAX_TABLE_ROWS: usize = 500;

fn runs_table(document: &ProbeDocument) -> String {
    let moving = document.moving_bytes.map(|b| format!("Moving {}", ByteSize::capacity(b as f64)));
    let mut titles = vec!["Run", "Requests/s", "Bytes/s", "Mean", "50 %", "95 %", "99 %", "99.9 %", "Longest"];
    titles.extend(["CPU a request", "Interrupts per request", "Bytes per interrupt"]);
    titles.extend(moving.as_deref());
    // usually there are no remarks, and no column is needed
    let remarked = document.runs.iter().any(|run| !run_remarks(run).is_empty());
    titles.extend(remarked.then_some("Remarks"));
    let cell = |v: Option<f64>, unit: &str| v.map_or(String::new(), |v| value_html(v, unit));
    let row = |run: &RunResult| {
        let latency = &run.latency_s;
        let mut cells = vec![
            format!("<span class=\"id\">{}</span>", escape(&run.name)),
            value_html(run.requests_per_s, "per_s"),
            value_html(run.bytes_per_s, "bytes_per_s"),
        ];
        let times = [latency.mean, latency.p50, latency.p95, latency.p99, latency.p999, latency.max];
        cells.extend(times.map(|t| cell(t, "s")));
        cells.push(cell(run.cpu_s_per_request, "s"));
        cells.push(run.interrupts_per_request.map_or(String::new(), units::format_significant));
        cells.push(cell(run.bytes_per_interrupt, "bytes"));
        cells.extend(moving.as_ref().map(|_| run.moving_s.map_or(String::new(), |s| escape(&format_duration(s)))));
        cells.extend(remarked.then(|| escape(&run_remarks(run).join(", "))));
        cells
    };
    let rows: Vec<Vec<String>> = document.runs.iter().take(MAX_TABLE_ROWS).map(row).collect();
    let more = document.runs.len().saturating_sub(MAX_TABLE_ROWS);
    let more = if more > 0 { format!("<p>And {more} more.</p>\n") } else { String::new() };
    format!("<div class=\"scroll\">{}</div>{more}", html_table(&titles, &rows))
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
fn trust_list(results: &[NamedResult<'_>]) -> String {
    let mut items = Vec::new();
    for result in results {
        let document = result.document;
        let prefix = if results.len() > 1 { format!("{}: ", result.name) } else { String::new() };
        if let Some(because) = document.incomplete_reason.as_ref().filter(|_| !document.complete) {
            items.push(format!("{prefix}some runs were skipped: {because}."));
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
    let items: String = items.iter().map(|i| format!("<li>{}</li>\n", escape_code(i))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Describes the run in which closed arrivals hid the most waiting requests; `None` if no run had a pause of more
/// than 0.1 s.
pub fn describe_hidden_requests(document: &ProbeDocument) -> Option<String> {
    let hides = |r: &&RunResult| r.pace != "open" && r.longest_silence_s > 0.1;
    let count = document.runs.iter().filter(hides).count();
    let worst =
        document.runs.iter().filter(hides).max_by(|a, b| a.longest_silence_s.total_cmp(&b.longest_silence_s))?;
    let others = if count > 1 { format!(" (and {} more such runs)", count - 1) } else { String::new() };
    // with several workers, only the longest pause of one of them is known
    let subject = match worst.workers {
        0 | 1 => "no request completed".to_owned(),
        lanes => format!("one of {lanes} workers had no completion"),
    };
    Some(format!(
        "in {} {subject} for {}{others}: closed arrivals hide how long about {:.0} more requests would have waited",
        worst.name,
        format_value(worst.longest_silence_s, "s"),
        worst.hidden_requests.unwrap_or(0.0)
    ))
}
