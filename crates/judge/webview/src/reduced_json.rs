//! Reduced JSON of views and verdicts: only the parts that the page shows.

use std::collections::HashSet;

use diskwright_base::byte_size::SizeMeaning;
use diskwright_base::capture::MomentCapture;
use diskwright_base::{Catalogue, Counter};
use diskwright_dashboard::panels::PanelCounter;
use diskwright_dashboard::{DashboardView, ProcessOrder, ProcessSummary};
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::verdict::{Culprit, VerdictBottleneck};
use diskwright_report::identity::place_text;
use diskwright_report::{captures, changes, databases};
use serde_json::{Value, json};

/// Largest number of processes for each sort order.
const MAX_PROCESSES_PER_ORDER: usize = 12;
/// Largest number of phases of a verdict.
const MAX_PHASES: usize = 60;
/// Largest number of changes of level.
const MAX_CHANGES: usize = 60;
/// Largest number of findings, episodes, culprits, remedies and remarks.
const MAX_LISTED: usize = 6;

/// Largest number of captures, and of the lines of one.
const MAX_CAPTURES: usize = 3;
const MAX_CAPTURE_LINES: usize = 60;

/// JSON of a counter with its title, unit and explanation.
pub fn counter_document(shown: &PanelCounter) -> Value {
    let counter = Catalogue::builtin().get(&shown.counter);
    json!({
        "counter": shown.counter,
        "title": shown.title,
        "unit": counter.map_or("", |counter| counter.unit.as_str()),
        "explain": counter.map_or("", |counter| counter.explain.as_str()),
    })
}

/// Ids of the counters whose bytes are a capacity, so that the page shows them in GB, not in GiB.
pub fn capacity_counters() -> Vec<&'static str> {
    let is_capacity = |counter: &&Counter| counter.size == Some(SizeMeaning::Capacity);
    Catalogue::builtin().counters().iter().filter(is_capacity).map(|counter| counter.id.as_str()).collect()
}

/// Reduced JSON of a view: `diskwright.view/1`, with the verdict of [`verdict_document`].
pub fn view_document(view: &DashboardView) -> Value {
    let mut reduced = view.clone();
    reduced.verdict = None;
    reduced.processes = busiest_processes(&view.processes);
    let mut value = json!(reduced);
    value["verdict"] = view.verdict.as_ref().map_or(Value::Null, verdict_document);
    value
}

/// Processes that come first in any sort order.
fn busiest_processes(processes: &[ProcessSummary]) -> Vec<ProcessSummary> {
    let mut kept_indices = HashSet::new();
    let mut order = ProcessOrder::default();
    // there are four orders; `next` goes through them
    for _ in 0..4 {
        let mut ranked: Vec<(usize, f64)> = processes.iter().map(|row| order.sort_value(row)).enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        kept_indices
            .extend(ranked.iter().take(MAX_PROCESSES_PER_ORDER).filter(|(_, key)| *key > 0.0).map(|(index, _)| *index));
        order = order.next();
    }
    processes.iter().enumerate().filter(|(index, _)| kept_indices.contains(index)).map(|(_, row)| row.clone()).collect()
}

/// JSON of the first culprits, with where each runs in words.
fn culprit_documents(culprits: &[Culprit]) -> Vec<Value> {
    let document = |culprit: &Culprit| {
        let mut document = json!(culprit);
        let place = place_text(&culprit.place);
        let user = culprit.user.as_ref().map_or(String::new(), |user| format!("user {user}"));
        let cgroup = if place.is_empty() && culprit.cgroup != culprit.name { culprit.cgroup.clone() } else { place };
        let parts = [cgroup, user].into_iter().filter(|part| !matches!(part.as_str(), "" | "/"));
        document["where"] = json!(parts.collect::<Vec<_>>().join(", "));
        document
    };
    culprits.iter().take(MAX_LISTED).map(document).collect()
}

/// Changes of level as marks of the timeline; `leads` is true for the one that tells most about what is blamed.
fn change_documents(verdict: &Verdict) -> Vec<Value> {
    let leading = changes::leading_change_time(verdict);
    let document = |(time_ns, text): (i64, String)| {
        let leads = leading == Some(time_ns);
        json!({ "time_ns": time_ns, "kind": "change", "text": text, "leads": leads })
    };
    changes::change_marks(verdict).into_iter().take(MAX_CHANGES).map(document).collect()
}

/// Reduced JSON of one of the bottlenecks.
fn bottleneck_document(listed: &VerdictBottleneck) -> Value {
    json!({
        "bottleneck": listed.bottleneck,
        "instance": listed.instance,
        "confidence": listed.confidence,
        "sentence": listed.sentence,
        "since": listed.since,
        "findings": listed.findings,
        "culprits": culprit_documents(&listed.culprits),
        "advice": listed.advice.iter().take(MAX_LISTED).collect::<Vec<_>>(),
    })
}

/// What was saved at the beginning of an alert, in lines.
fn capture_document(capture: &MomentCapture) -> Value {
    let lines = captures::detail_lines(capture);
    json!({
        "at": capture.time,
        "alert": capture.alert,
        "text": capture.short_text(),
        "lines": lines.iter().take(MAX_CAPTURE_LINES).collect::<Vec<_>>(),
    })
}

/// Reduced JSON of a verdict, without series and long texts.
pub fn verdict_document(verdict: &Verdict) -> Value {
    let findings = verdict.findings.iter().take(MAX_LISTED).map(|finding| {
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
            "value_share": finding.value_share,
            "since": finding.since,
            "judged_s": finding.judged_s,
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
        "bottlenecks": verdict.bottlenecks.iter().map(bottleneck_document).collect::<Vec<_>>(),
        "changes": change_documents(verdict),
        "events": verdict.events.iter().rev().take(MAX_LISTED).collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "episodes": verdict.episodes.iter().take(MAX_LISTED).collect::<Vec<_>>(),
        "phases": verdict.phases.iter().take(MAX_PHASES).collect::<Vec<_>>(),
        "culprits": culprit_documents(&verdict.culprits),
        "unlisted": verdict.unlisted,
        "advice": verdict.advice.iter().take(MAX_LISTED).collect::<Vec<_>>(),
        "captures": verdict.captures.iter().rev().take(MAX_CAPTURES).map(capture_document).collect::<Vec<_>>(),
        "databases": databases::summarize_databases(verdict),
        "certainty_limits": verdict.certainty_limits.iter().take(MAX_LISTED).collect::<Vec<_>>(),
        "window": verdict.window,
    })
}

#[cfg(test)]
mod tests {
    use diskwright_base::DatabaseActivity;
    use diskwright_base::database_activity::WaitRow;
    use diskwright_diagnosis::packs::builtin_pack;
    use diskwright_diagnosis::{Judge, JudgeOptions};

    use super::*;

    #[test]
    fn a_verdict_has_the_tables_of_the_database_servers_that_were_asked() {
        let pack = builtin_pack("default").expect("readable").expect("built in");
        let mut verdict = Judge::new(vec![pack], JudgeOptions::default()).finish().remove(0);
        assert_eq!(verdict_document(&verdict)["databases"], json!([]));
        let wait = WaitRow { event: "Lock: transactionid".into(), waited_s: 8.0 };
        let server = DatabaseActivity { name: "postgres:shop".into(), elapsed_s: 10.0, ..DatabaseActivity::default() };
        verdict.databases = vec![DatabaseActivity { waits: vec![wait], ..server }];
        let server = &verdict_document(&verdict)["databases"][0];
        assert_eq!(server["title"], "postgres:shop");
        assert_eq!(server["tables"][0]["columns"], json!(["Event", "Time", "Sessions on average"]));
        assert_eq!(server["tables"][0]["rows"], json!([["Lock: transactionid", "8\u{a0}s", "0.80"]]));
    }
}
