//! A result of `probe` as text: a table of the runs, and findings.

use diskwright_base::units::format_value;
use diskwright_probe::Suite;
use diskwright_probe::live::LiveInterval;
use diskwright_report::probe::{indent_item, render_screen};
use diskwright_results::document::ProbeDocument;

use crate::commands::output;

/// Formats the result of a suite or of a script.
pub fn draw_result(suite: Option<&Suite>, document: &ProbeDocument) -> String {
    let style = output::wide_table_style();
    let (profile_text, remarks) = document.profile.describe_update();
    let profile_text = if profile_text.is_empty() { String::new() } else { format!("\n{profile_text}\n") };
    let remarks = remarks.iter().flat_map(|text| indent_item(text, &style)).map(|line| line + "\n");
    render_screen(suite.map(Suite::text), document, &style) + &profile_text + &remarks.collect::<String>()
}

/// Formats the current rates and latencies for the progress line.
pub fn progress_line(interval: &LiveInterval) -> String {
    let totals = &interval.totals;
    let Some(mean) = totals.mean_latency_s().filter(|_| interval.seconds > 0.0) else {
        return "no request completed".into();
    };
    let rate = |count: u64, unit: &str| format_value(count as f64 / interval.seconds, unit);
    let longest = format_value(totals.longest_ns as f64 * 1e-9, "s");
    format!(
        "{}, {}, mean {}, max {longest}",
        rate(totals.requests, "per_s"),
        rate(totals.bytes, "bytes_per_s"),
        format_value(mean, "s")
    )
}
