//! The section of the page on what was saved at the beginning of alerts.

use diskwright_base::capture::{MemoryHolder, MomentCapture};
use diskwright_base::units::{format_count, format_value};
use diskwright_diagnosis::Verdict;
use maud::{Markup, Render, html};

use super::html_table;
use crate::captures::{MAX_STACK_FUNCTIONS, StackGroup, function_text, group_stacks, short_line};
use crate::time::DisplayZone;

/// Largest number of rows of a table.
const MAX_PAGE_ROWS: usize = 60;

/// The section of the page.
pub(crate) fn captures_section(verdict: &Verdict, zone: &DisplayZone) -> Markup {
    html! {
        @for capture in &verdict.captures {
            h3 { (short_line(capture, zone)) }
            p.dim { "When " code { (capture.alert) } " began; it took " (format_value(capture.took_s, "s")) ". "
                (format_count(capture.blocked.looked_at, "task was examined", "tasks were examined")) "." }
            (stacks_table(capture))
            (files_table(capture))
            (requests_table(capture))
            (memory_table(capture))
            @for part in &capture.missing { p.dim { "Not saved: " (part.what) " (" (part.because) ")." } }
        }
    }
}

fn stacks_table(capture: &MomentCapture) -> Markup {
    let row = |group: StackGroup<'_>| {
        let stack = group.task.stack.iter().take(MAX_STACK_FUNCTIONS).map(String::as_str).collect::<Vec<_>>();
        vec![
            group.count.to_string().render(),
            group.names.join(", ").render(),
            function_text(&group.task.waits_in).render(),
            stack.join(" ← ").render(),
        ]
    };
    let groups = group_stacks(&capture.blocked.tasks);
    let rows: Vec<Vec<Markup>> = groups.into_iter().take(MAX_PAGE_ROWS).map(row).collect();
    optional_table(&["Tasks", "Names", "Wait in", "Stack, innermost first"], rows)
}

fn files_table(capture: &MomentCapture) -> Markup {
    let rows = capture.open_files.iter().flat_map(|process| {
        process.files.iter().map(move |file| {
            let name = format!("{} ({})", process.name, process.pid);
            let offset = file.offset_bytes.map_or(String::new(), |bytes| bytes.to_string());
            vec![name.render(), file.path.render(), offset.render(), file.mode.render()]
        })
    });
    optional_table(&["Open file of", "File", "Position", "Opened for"], rows.take(MAX_PAGE_ROWS).collect())
}

fn requests_table(capture: &MomentCapture) -> Markup {
    let operations = capture.requests.iter().flat_map(|requests| &requests.operations);
    let rows = operations.map(|operation| {
        let latency = |s: Option<f64>| s.map_or("not measured".to_owned(), |s| format_value(s, "s")).render();
        vec![
            format!("{} {}", operation.device, operation.operation).render(),
            operation.requests.to_string().render(),
            latency(operation.mean_s),
            latency(operation.p99_s),
            latency(operation.max_s),
        ]
    });
    optional_table(&["Requests", "Number", "Mean", "99 %", "Longest"], rows.take(MAX_PAGE_ROWS).collect())
}

fn memory_table(capture: &MomentCapture) -> Markup {
    let holders = capture.memory_groups.iter().chain(&capture.memory_processes);
    let row = |holder: &MemoryHolder| {
        let bytes = |bytes: Option<u64>| bytes.map_or(String::new(), |bytes| format_value(bytes as f64, "bytes"));
        let name = holder.pid.map_or_else(|| holder.name.clone(), |pid| format!("{} ({pid})", holder.name));
        let swapped = bytes(holder.swapped_bytes);
        vec![name.render(), bytes(Some(holder.bytes)).render(), swapped.render(), bytes(holder.limit_bytes).render()]
    };
    optional_table(&["Memory of", "In memory", "Swapped", "Limit"], holders.map(row).collect())
}

fn optional_table(titles: &[&str], rows: Vec<Vec<Markup>>) -> Markup {
    if rows.is_empty() { Markup::default() } else { html_table(titles, &rows) }
}
