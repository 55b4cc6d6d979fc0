//! A probe's result for people: a table of the runs, and what they show.

use diskwright_base::units::display;
use diskwright_probe::document::Document;
use diskwright_probe::live::Stretch;
use diskwright_probe::result::RunResult;
use diskwright_probe::suites::Suite;
use diskwright_report::{Align, Table};

use crate::commands::output;

/// All of it.
pub fn text(suite: &Suite, document: &Document) -> String {
    let style = output::wide_style();
    let mut text = head(suite, document);
    text += &table(&document.runs).render(&style);
    if !document.remarks.is_empty() {
        text += "\nWhat it shows\n";
    }
    for remark in &document.remarks {
        let value = match (remark.value, &remark.unit) {
            (Some(value), Some(unit)) => format!("{}: ", display(value, unit)),
            _ => String::new(),
        };
        text += &format!("  {value}{}\n", remark.text);
    }
    for run in document.runs.iter().filter(|r| r.pace != "open" && r.longest_silence_s > 0.1) {
        let hidden = run.hidden_requests.unwrap_or(0.0);
        text += &format!(
            "  {}: no answer for {}; a closed loop hides what would have waited: about {hidden:.0} requests more\n",
            run.name,
            display(run.longest_silence_s, "s")
        );
    }
    text += &format!("\nA good result: {}\n{}", suite.good, document.profile.words());
    text
}

/// The rates and latencies of the last moment, for the progress line.
pub fn progress(stretch: &Stretch) -> String {
    let seen = &stretch.seen;
    let Some(mean) = seen.mean_s().filter(|_| stretch.seconds > 0.0) else { return "no answer".into() };
    let rate = |count: u64, unit: &str| display(count as f64 / stretch.seconds, unit);
    let longest = display(seen.longest_ns as f64 * 1e-9, "s");
    format!(
        "{}, {}, mean {}, max {longest}",
        rate(seen.requests, "per_s"),
        rate(seen.bytes, "bytes_per_s"),
        display(mean, "s")
    )
}

fn head(suite: &Suite, document: &Document) -> String {
    let device = &document.device;
    let words = [
        Some(device.name.clone()).filter(|n| !n.is_empty()),
        device.model.clone(),
        device.bytes.map(|b| display(b as f64, "bytes")),
        Some(device.class.clone()).filter(|c| !c.is_empty()),
        device.scheduler.as_ref().map(|s| format!("scheduler {s}")),
        device.filesystem.as_ref().map(|f| format!("{f} on {}", device.mount.as_deref().unwrap_or("?"))),
        Some(format!("Linux {}", device.kernel)),
        document.runs.first().map(|r| r.engine.clone()),
        document.buffered.then(|| "through the page cache".into()),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    format!("{}: {}\n{} ({})\n\n", suite.id, suite.title, document.target, words.join(", "))
}

fn table(runs: &[RunResult]) -> Table {
    let mut table = Table::new().text("run");
    for title in ["requests/s", "bytes/s", "mean", "50 %", "99 %", "99.9 %", "max", "cpu/request", "steady"] {
        table = table.column(title, Align::Right);
    }
    let time = |seconds: Option<f64>| seconds.map_or("-".into(), |s| display(s, "s"));
    for run in runs {
        let latency = &run.latency_s;
        let steady = match run.steady {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        table.row([
            run.name.clone(),
            display(run.requests_per_s, "per_s"),
            display(run.bytes_per_s, "bytes_per_s"),
            time(latency.mean),
            time(latency.p50),
            time(latency.p99),
            time(latency.p999),
            time(latency.max),
            time(run.cpu_s_per_request),
            steady.into(),
        ]);
    }
    table
}
