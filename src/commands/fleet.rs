//! `why --prometheus URL --fleet`: ranks all machines of a store, worst first.

use diskwright_base::byte_size::{ByteSize, CAPACITY_UNIT};
use diskwright_base::counter_ids::{memory, physical_disk, processor, system};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::units::{format_count, format_significant, format_value};
use diskwright_base::{Catalogue, Note};
use diskwright_diagnosis::{Bottleneck, Pack, Verdict};
use diskwright_remote::fleet::{Fleet, FleetMember, stored_counters_for};
use diskwright_remote::{MetricStore, RemoteError};
use diskwright_report::TextTable;
use serde_json::{Value, json};

use super::log::LogWindow;
use super::metric_store::{self, StoreArguments};
use super::why::JudgingArguments;
use super::{Failure, output, pacer, time_argument};

/// Default window.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// Chunks of machines in flight: one is judged while the store works on another.
const MAX_CHUNKS_IN_FLIGHT: usize = 2;

/// One machine's place in the ranking.
struct FleetRank {
    host: String,
    /// `Err` has the reason why it could not be judged.
    verdict: Result<Verdict, String>,
    /// Impossible values that were left out.
    left_out: u64,
}

impl FleetRank {
    /// Sort key: whether a bottleneck was found, the weight of its evidence, and the length of the longest conspicuous
    /// stretch without a verdict.
    fn severity_key(&self) -> (bool, f64, f64) {
        let Ok(verdict) = &self.verdict else { return (false, -1.0, 0.0) };
        let held = verdict.bottleneck.blames();
        let score = verdict.ranking.iter().find(|r| r.bottleneck == verdict.bottleneck).map_or(0.0, |r| r.score);
        (held, score, verdict.episodes.iter().map(|e| e.share).fold(0.0, f64::max))
    }
}

/// Ranks the machines of a store.
pub fn run(
    asking: &StoreArguments,
    window: &LogWindow,
    judging: &JudgingArguments,
    as_json: bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    window.refuse_log_options()?;
    let packs = judging.load_packs(false)?;
    let store = asking.open_store()?;
    let wanted = asking.host_query(window, DEFAULT_WINDOW)?;
    let fleet = Fleet::discover_hosts(&store, wanted, &counters_of_packs(&packs))?;
    let places = rank_members(&store, &fleet, judging, &packs)?;
    metric_store::report_warnings(&store);
    let took = FleetCost { seconds: started.elapsed().as_secs_f64(), query_cost: store.request_statistics() };
    if as_json {
        return output::print_json(&ranking_document(&places, &store, &fleet, &took));
    }
    output::print_text(&ranking_table(&places).render(&output::wide_table_style()))?;
    output::print_warning(summary_line(&places, &fleet, &took));
    Ok(())
}

/// A machine, and its verdict or the reason why there is none.
pub type RankedHost = (String, Result<Verdict, String>);

/// Judges the machines of a store, worst first.
pub fn rank_hosts(
    asking: &StoreArguments,
    window: &LogWindow,
    judging: &JudgingArguments,
) -> Result<Vec<RankedHost>, Failure> {
    window.refuse_reading_options()?;
    let packs = judging.load_packs(false)?;
    let store = asking.open_store()?;
    let fleet = Fleet::discover_hosts(&store, asking.host_query(window, DEFAULT_WINDOW)?, &counters_of_packs(&packs))?;
    let places = rank_members(&store, &fleet, judging, &packs)?;
    metric_store::report_warnings(&store);
    Ok(places.into_iter().map(|place| (place.host, place.verdict)).collect())
}

/// Judges all machines, worst first; those that cannot be judged have the reason.
fn rank_members(
    store: &MetricStore,
    fleet: &Fleet,
    judging: &JudgingArguments,
    packs: &[Pack],
) -> Result<Vec<FleetRank>, Failure> {
    let mut places = judge_all(store, fleet, judging, packs)?;
    let others = fleet.other_hosts.iter().map(|host| FleetRank {
        host: host.clone(),
        verdict: Err("no metrics of node_exporter or windows_exporter".into()),
        left_out: 0,
    });
    places.extend(others);
    places.sort_by(|a, b| {
        let (a_bad, b_bad) = (a.severity_key(), b.severity_key());
        let by_badness = b_bad.partial_cmp(&a_bad).unwrap_or(std::cmp::Ordering::Equal);
        by_badness.then_with(|| a.host.cmp(&b.host))
    });
    Ok(places)
}

/// Stored counters that the packs' rules need.
fn counters_of_packs(packs: &[Pack]) -> BTreeSet<String> {
    let mut named: Vec<String> = Vec::new();
    for pack in packs {
        for rule in &pack.rules {
            visit_strings(&json!(rule), &mut |text| {
                named.push(text.to_owned());
                named.push(format!("{}.{text}", rule.object));
            });
        }
    }
    // inputs of pseudo counters (spindles, ceilings, light load) and of the machine's size
    named.extend([physical_disk::AVG_S_PER_TRANSFER, physical_disk::BYTES_PER_S, physical_disk::BUSY].map(Into::into));
    named
        .extend([physical_disk::CURRENT_QUEUE_LENGTH, physical_disk::FLUSHES, physical_disk::DISCARDS].map(Into::into));
    named.extend([memory::TOTAL_BYTES, system::PROCESSORS, processor::BUSY].map(Into::into));
    let known = named.iter().map(String::as_str).filter(|id| Catalogue::builtin().get(id).is_some());
    stored_counters_for(known)
}

/// Visits every string of a document.
fn visit_strings(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(list) => list.iter().for_each(|v| visit_strings(v, each)),
        Value::Object(fields) => fields.values().for_each(|v| visit_strings(v, each)),
        _ => {}
    }
}

fn judge_all(
    store: &MetricStore,
    fleet: &Fleet,
    judging: &JudgingArguments,
    packs: &[Pack],
) -> Result<Vec<FleetRank>, Failure> {
    let chunks = fleet.host_chunks();
    let next = AtomicUsize::new(0);
    let places = Mutex::new(Vec::new());
    let failed: Mutex<Option<RemoteError>> = Mutex::new(None);
    let bar = pacer::watch_progress_bar(None, format_count(fleet.hosts.len() as u64, "machine", "machines"));
    let poisoned = || Failure::Failed("a worker panicked".into());
    let work = || {
        while let Some(hosts) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            match fleet.fetch_members(store, hosts) {
                Ok(members) => {
                    let judged: Vec<FleetRank> = members.into_iter().map(|m| judge_member(m, judging, packs)).collect();
                    if let Ok(mut places) = places.lock() {
                        places.extend(judged);
                        bar.set_message(format!("{} of {} machines", places.len(), fleet.hosts.len()));
                    }
                }
                Err(error) => {
                    // the other workers stop too
                    next.store(chunks.len(), Ordering::Relaxed);
                    if let Ok(mut failed) = failed.lock() {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = 0..MAX_CHUNKS_IN_FLIGHT;
        let started = threads.filter(|_| std::thread::Builder::new().spawn_scoped(scope, work).is_ok()).count();
        if started == 0 {
            work();
        }
    });
    bar.finish_and_clear();
    match failed.into_inner().map_err(|_| poisoned())? {
        Some(error) => Err(error.into()),
        None => places.into_inner().map_err(|_| poisoned()),
    }
}

fn judge_member(member: FleetMember, judging: &JudgingArguments, packs: &[Pack]) -> FleetRank {
    let left_out = member.samples.as_ref().map_or(0, |samples| samples.invalid_values);
    let judged = member.samples.and_then(|samples| {
        let ticks = samples.frame.ticks();
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return Err("no sample".to_owned()) };
        let mut judge = judging.new_judge(packs.to_vec(), Some((first.start_ns(), last.time_ns)));
        judge.add_note(&Note::new(first.time_ns, Note::SOURCE, diskwright_remote::host::SOURCE));
        judge.add_note(&Note::topology(first.time_ns, samples.topology));
        judge.add_frame(&samples.frame);
        judge.finish().into_iter().next().ok_or_else(|| "no rule pack gave a verdict".to_owned())
    });
    FleetRank { host: member.host, verdict: judged, left_out }
}

/// Cost of a ranking.
struct FleetCost {
    seconds: f64,
    /// Number of queries, their total seconds, and bytes.
    query_cost: (u64, f64, u64),
}

fn summary_line(places: &[FleetRank], fleet: &Fleet, took: &FleetCost) -> String {
    let count = |of: fn(&FleetRank) -> bool| places.iter().filter(|p| of(p)).count();
    let held = count(|p| p.severity_key().0);
    let unjudged = count(|p| p.verdict.is_err());
    let (queries, seconds, bytes) = took.query_cost;
    let left_out = match places.iter().map(|p| p.left_out).sum::<u64>() {
        0 => String::new(),
        values => format!("; {} left out", format_count(values, "impossible value was", "impossible values were")),
    };
    format!(
        "{}, {held} with a bottleneck, {unjudged} not judged; {} of {} s; {:.1} s in total; {queries} \
         queries to the store took {seconds:.1} s (two at a time) and returned {}{left_out}",
        format_count(places.len() as u64, "machine", "machines"),
        format_count(fleet.grid.count as u64, "tick", "ticks"),
        fleet.grid.step_ms as f64 / 1e3,
        took.seconds,
        ByteSize::capacity(bytes as f64),
    )
}

fn ranking_table(places: &[FleetRank]) -> TextTable {
    let mut table = TextTable::new()
        .with_text_column("host")
        .with_text_column("bottleneck")
        .with_text_column("instance")
        .with_column("confidence", diskwright_report::Align::Right)
        .with_text_column("leading finding")
        .with_column("of the window", diskwright_report::Align::Right);
    for place in places {
        match &place.verdict {
            Err(because) => table.add_row([place.host.as_str(), "not judged", "", "", because, ""]),
            Ok(verdict) => {
                let (finding, share) = leading_evidence(verdict);
                let confidence = format!("{:.0} %", verdict.confidence * 100.0);
                let cells = [&place.host, verdict.bottleneck.name(), &verdict.instance, &confidence, &finding, &share];
                table.add_row(cells);
            }
        }
    }
    table
}

/// Returns the strongest finding of the verdict, or the longest stretch beside it.
fn leading_evidence(verdict: &Verdict) -> (String, String) {
    // less than a minute in a day is negligible
    let percent = |share: f64| format_value(share, "fraction");
    if verdict.bottleneck == Bottleneck::None {
        return match verdict.episodes.first() {
            Some(e) => (format!("for a while: {}", e.title), percent(e.share)),
            None => Default::default(),
        };
    }
    match verdict.findings.first() {
        Some(f) => {
            let compare = f.compare.replace('_', " ");
            // a unit that display does not scale is not repeated
            let limit = match f.display_unit() {
                "s" | "bytes" | CAPACITY_UNIT | "bytes_per_s" | "per_s" | "fraction" => f.format_value(f.limit),
                _ => format_significant(f.limit),
            };
            let text = format!("{} {} ({compare} {limit})", f.quantity, f.format_value(f.value));
            (text, percent(f.share))
        }
        None => Default::default(),
    }
}

fn ranking_document(places: &[FleetRank], store: &MetricStore, fleet: &Fleet, took: &FleetCost) -> Value {
    let hosts: Vec<Value> =
        places.iter().filter_map(|p| Some(host_json(&p.host, p.verdict.as_ref().ok()?, p.severity_key().1))).collect();
    let unjudged: Vec<Value> =
        places.iter().filter_map(|p| Some(json!({ "host": p.host, "because": p.verdict.as_ref().err()? }))).collect();
    let (queries, seconds, bytes) = took.query_cost;
    json!({
        "schema": "diskwright.fleet/1",
        "store": store.shown_address(),
        "pack": places.iter().find_map(|p| Some(p.verdict.as_ref().ok()?.pack.clone())),
        "window": {
            "from": time_argument::rfc3339((fleet.grid.first_ms - fleet.grid.step_ms) * 1_000_000),
            "to": time_argument::rfc3339(fleet.grid.last_ms() * 1_000_000),
            "step_s": fleet.grid.step_ms as f64 / 1e3,
            "scrape_s": fleet.scrape_ms() as f64 / 1e3,
            "ticks": fleet.grid.count,
        },
        "metrics": fleet.metrics(),
        "hosts": hosts,
        "unjudged": unjudged,
        "left_out": places.iter().map(|p| p.left_out).sum::<u64>(),
        "warnings": store.warnings(),
        "elapsed_s": took.seconds,
        "store_queries": queries,
        "store_s": seconds,
        "store_bytes": bytes,
    })
}

fn host_json(name: &str, verdict: &Verdict, score: f64) -> Value {
    let finding = verdict.findings.first().filter(|_| verdict.bottleneck.blames()).map(|f| {
        json!({
            "rule": f.rule,
            "severity": f.severity,
            "object": f.object,
            "instance": f.instance,
            "counter": f.counter,
            "value": f.value,
            "compare": f.compare,
            "limit": f.limit,
            "unit": f.unit,
            "limit_from": f.limit_from,
            "share": f.share,
            "from": f.from,
            "to": f.to,
        })
    });
    json!({
        "host": name,
        "bottleneck": verdict.bottleneck,
        "instance": verdict.instance,
        "confidence": verdict.confidence,
        "score": score,
        "sentence": verdict.sentence,
        "finding": finding,
        "episodes": verdict.episodes.iter().take(3).collect::<Vec<_>>(),
        "unjudged": verdict.unjudged.iter().map(|u| &u.rule).collect::<Vec<_>>(),
    })
}
