//! What of a view and a verdict is sent: enough for a screen, no more.

use std::collections::HashSet;

use diskwright_base::Catalogue;
use diskwright_dashboard::panels::PanelCounter;
use diskwright_dashboard::{DashboardView, ProcessOrder, ProcessSummary};
use diskwright_diagnosis::Verdict;
use serde_json::{Value, json};

/// Processes that are sent of each order.
const PROCESSES: usize = 12;
/// Findings, culprits, advice and remarks that are sent.
const LISTED: usize = 6;

/// A counter with its title, its unit, and what it means.
pub fn titled(shown: &PanelCounter) -> Value {
    let counter = Catalogue::builtin().get(&shown.counter);
    json!({
        "counter": shown.counter,
        "title": shown.title,
        "unit": counter.map_or("", |counter| counter.unit.as_str()),
        "explain": counter.map_or("", |counter| counter.explain.as_str()),
    })
}

/// A view without what no screen shows: `diskwright.view/1`, its verdict as [`verdict`] gives it.
pub fn view(view: &DashboardView) -> Value {
    let mut short = view.clone();
    short.verdict = None;
    short.processes = busiest(&view.processes);
    let mut value = json!(short);
    value["verdict"] = view.verdict.as_ref().map_or(Value::Null, verdict);
    value
}

/// Those that come first in any order.
fn busiest(all: &[ProcessSummary]) -> Vec<ProcessSummary> {
    let mut kept = HashSet::new();
    let mut order = ProcessOrder::default();
    for _ in 0..4 {
        let mut ranked: Vec<(usize, f64)> = all.iter().map(|row| order.key(row)).enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        kept.extend(ranked.iter().take(PROCESSES).filter(|(_, key)| *key > 0.0).map(|(index, _)| *index));
        order = order.next();
    }
    all.iter().enumerate().filter(|(index, _)| kept.contains(index)).map(|(_, row)| row.clone()).collect()
}

/// A verdict without its series and what is for reading at leisure.
pub fn verdict(verdict: &Verdict) -> Value {
    let findings = verdict.findings.iter().take(LISTED).map(|finding| {
        json!({
            "rule": finding.rule,
            "title": finding.title,
            "severity": finding.severity,
            "object": finding.object,
            "instance": finding.instance,
            "quantity": finding.quantity,
            "value": finding.value,
            "compare": finding.compare,
            "limit": finding.limit,
            "unit": finding.unit,
            "share": finding.share,
            "seen_s": finding.seen_s(verdict.window.seconds),
            "explain": finding.explain,
            "source": finding.source,
        })
    });
    json!({
        "schema": verdict.schema,
        "pack": verdict.pack,
        "bottleneck": verdict.bottleneck,
        "blames": verdict.bottleneck.blames(),
        "instance": verdict.instance,
        "confidence": verdict.confidence,
        "sentence": verdict.sentence,
        "findings": findings.collect::<Vec<_>>(),
        "episodes": verdict.episodes.iter().take(LISTED).collect::<Vec<_>>(),
        "phases": verdict.phases.iter().take(60).collect::<Vec<_>>(),
        "culprits": verdict.culprits.iter().take(LISTED).collect::<Vec<_>>(),
        "advice": verdict.advice.iter().take(LISTED).collect::<Vec<_>>(),
        "certainty_limits": verdict.certainty_limits.iter().take(LISTED).collect::<Vec<_>>(),
        "window": verdict.window,
    })
}
