//! `why --prometheus URL --fleet`: ranks all machines of a store, worst first.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::byte_size::{ByteSize, CAPACITY_UNIT};
use diskwright_base::counter_ids::{memory, physical_disk, processor, system};
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
pub struct FleetRank {
    /// The machine.
    pub host: String,
    /// `Err` has the reason why it could not be judged.
    pub verdict: Result<Verdict, String>,
    /// Impossible values that were left out.
    pub left_out: u64,
}

impl FleetRank {
    /// Sort key: whether a bottleneck was found, the weight of its evidence, and the share of the window that the
    /// longest episode lasted.
    pub fn severity_key(&self) -> (bool, f64, f64) {
        let Ok(verdict) = &self.verdict else { return (false, -1.0, 0.0) };
        let has_bottleneck = verdict.bottleneck.blames();
        let score = verdict.ranking.iter().find(|r| r.bottleneck == verdict.bottleneck).map_or(0.0, |r| r.score);
        (has_bottleneck, score, verdict.episodes.iter().map(|e| e.share).fold(0.0, f64::max))
    }
}

/// Ranks the machines of a store.
pub fn run(
    store_arguments: &StoreArguments,
    window: &LogWindow,
    judging: &JudgingArguments,
    as_json: bool,
) -> Result<(), Failure> {
    let started = Instant::now();
    window.refuse_log_options()?;
    let packs = judging.load_packs(false)?;
    let store = store_arguments.open_store()?;
    let query = store_arguments.host_query(window, DEFAULT_WINDOW)?;
    let fleet = Fleet::discover_hosts(&store, query, &counters_of_packs(&packs))?;
    let ranks = rank_members(&store, &fleet, judging, &packs)?;
    metric_store::report_warnings(&store);
    let cost = FleetCost { seconds: started.elapsed().as_secs_f64(), query_cost: store.request_statistics() };
    if as_json {
        return output::print_json(&ranking_document(&ranks, &store, &fleet, &cost));
    }
    output::print_text(&ranking_table(&ranks).render(&output::wide_table_style()))?;
    output::print_warning(summary_line(&ranks, &fleet, &cost));
    Ok(())
}

/// A machine, and its verdict or the reason why there is none.
pub type RankedHost = (String, Result<Verdict, String>);

/// Judges the machines of a store, worst first.
pub fn rank_hosts(
    store_arguments: &StoreArguments,
    window: &LogWindow,
    judging: &JudgingArguments,
) -> Result<Vec<RankedHost>, Failure> {
    window.refuse_reading_options()?;
    let packs = judging.load_packs(false)?;
    let store = store_arguments.open_store()?;
    let fleet =
        Fleet::discover_hosts(&store, store_arguments.host_query(window, DEFAULT_WINDOW)?, &counters_of_packs(&packs))?;
    let ranks = rank_members(&store, &fleet, judging, &packs)?;
    metric_store::report_warnings(&store);
    Ok(ranks.into_iter().map(|rank| (rank.host, rank.verdict)).collect())
}

/// Judges all machines, worst first; those that cannot be judged have the reason.
fn rank_members(
    store: &MetricStore,
    fleet: &Fleet,
    judging: &JudgingArguments,
    packs: &[Pack],
) -> Result<Vec<FleetRank>, Failure> {
    let mut ranks = judge_all(store, fleet, judging, packs)?;
    let unknown_hosts = fleet.other_hosts.iter().map(|host| FleetRank {
        host: host.clone(),
        verdict: Err("no metrics of node_exporter or windows_exporter".into()),
        left_out: 0,
    });
    ranks.extend(unknown_hosts);
    sort_ranks(&mut ranks);
    Ok(ranks)
}

/// Sorts machines, worst first.
pub fn sort_ranks(ranks: &mut [FleetRank]) {
    ranks.sort_by(|a, b| {
        let (a_key, b_key) = (a.severity_key(), b.severity_key());
        let by_severity = b_key.partial_cmp(&a_key).unwrap_or(std::cmp::Ordering::Equal);
        by_severity.then_with(|| a.host.cmp(&b.host))
    });
}

/// Stored counters that the packs' rules need.
fn counters_of_packs(packs: &[Pack]) -> BTreeSet<String> {
    let mut ids: Vec<String> = Vec::new();
    for pack in packs {
        for rule in &pack.rules {
            visit_strings(&json!(rule), &mut |text| {
                ids.push(text.to_owned());
                ids.push(format!("{}.{text}", rule.object));
            });
        }
    }
    // inputs of pseudo counters (spindles, ceilings, light load) and of the machine's size
    ids.extend([physical_disk::AVG_S_PER_TRANSFER, physical_disk::BYTES_PER_S, physical_disk::BUSY].map(Into::into));
    ids.extend([physical_disk::CURRENT_QUEUE_LENGTH, physical_disk::FLUSHES, physical_disk::DISCARDS].map(Into::into));
    ids.extend([memory::TOTAL_BYTES, system::PROCESSORS, processor::BUSY].map(Into::into));
    let known = ids.iter().map(String::as_str).filter(|id| Catalogue::builtin().get(id).is_some());
    stored_counters_for(known)
}

/// Visits every string of a document.
fn visit_strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(list) => list.iter().for_each(|v| visit_strings(v, visit)),
        Value::Object(fields) => fields.values().for_each(|v| visit_strings(v, visit)),
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
    let ranks = Mutex::new(Vec::new());
    let failure: Mutex<Option<RemoteError>> = Mutex::new(None);
    let bar = pacer::watch_progress_bar(None, format_count(fleet.hosts.len() as u64, "machine", "machines"));
    let poisoned = || Failure::Failed("a worker panicked".into());
    let work = || {
        while let Some(hosts) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            match fleet.fetch_members(store, hosts) {
                Ok(members) => {
                    let judged: Vec<FleetRank> = members.into_iter().map(|m| judge_member(m, judging, packs)).collect();
                    if let Ok(mut ranks) = ranks.lock() {
                        ranks.extend(judged);
                        bar.set_message(format!("{} of {} machines", ranks.len(), fleet.hosts.len()));
                    }
                }
                Err(error) => {
                    // the other workers stop too
                    next.store(chunks.len(), Ordering::Relaxed);
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(error);
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
    match failure.into_inner().map_err(|_| poisoned())? {
        Some(error) => Err(error.into()),
        None => ranks.into_inner().map_err(|_| poisoned()),
    }
}

fn judge_member(member: FleetMember, judging: &JudgingArguments, packs: &[Pack]) -> FleetRank {
    let left_out = member.samples.as_ref().map_or(0, |samples| samples.invalid_values);
    let verdict = member.samples.and_then(|samples| {
        let ticks = samples.frame.ticks();
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return Err("no sample".to_owned()) };
        let mut judge = judging.new_judge(packs.to_vec(), Some((first.start_ns(), last.time_ns)));
        judge.add_note(&Note::new(first.time_ns, Note::SOURCE, diskwright_remote::host::SOURCE));
        judge.add_note(&Note::topology(first.time_ns, samples.topology));
        judge.add_frame(&samples.frame);
        judge.finish().into_iter().next().ok_or_else(|| "no rule pack gave a verdict".to_owned())
    });
    FleetRank { host: member.host, verdict, left_out }
}

/// Cost of a ranking.
struct FleetCost {
    seconds: f64,
    /// Number of queries, their total seconds, and bytes.
    query_cost: (u64, f64, u64),
}

fn summary_line(ranks: &[FleetRank], fleet: &Fleet, cost: &FleetCost) -> String {
    let count = |is_counted: fn(&FleetRank) -> bool| ranks.iter().filter(|p| is_counted(p)).count();
    let with_bottleneck = count(|p| p.severity_key().0);
    let unjudged = count(|p| p.verdict.is_err());
    let (queries, seconds, bytes) = cost.query_cost;
    let left_out = match ranks.iter().map(|p| p.left_out).sum::<u64>() {
        0 => String::new(),
        values => format!("; {} left out", format_count(values, "impossible value was", "impossible values were")),
    };
    format!(
        "{}, {with_bottleneck} with a bottleneck, {unjudged} not judged; {} of {} s; {:.1} s in total; {queries} \
         queries to the store took {seconds:.1} s (two at a time) and returned {}{left_out}",
        format_count(ranks.len() as u64, "machine", "machines"),
        format_count(fleet.grid.count as u64, "tick", "ticks"),
        fleet.grid.step_ms as f64 / 1e3,
        cost.seconds,
        ByteSize::capacity(bytes as f64),
    )
}

/// The ranking as a table.
pub fn ranking_table(ranks: &[FleetRank]) -> TextTable {
    let mut table = TextTable::new()
        .with_text_column("host")
        .with_text_column("bottleneck")
        .with_text_column("instance")
        .with_column("confidence", diskwright_report::Align::Right)
        .with_text_column("leading finding")
        .with_column("of the window", diskwright_report::Align::Right);
    for rank in ranks {
        match &rank.verdict {
            Err(reason) => table.add_row([rank.host.as_str(), "not judged", "", "", reason, ""]),
            Ok(verdict) => {
                let (finding, share) = leading_evidence(verdict);
                let confidence = format!("{:.0} %", verdict.confidence * 100.0);
                let cells = [&rank.host, verdict.bottleneck.name(), &verdict.instance, &confidence, &finding, &share];
                table.add_row(cells);
            }
        }
    }
    table
}

/// Returns the strongest finding of the verdict, or its first episode if it has no bottleneck; and the share of the
/// window.
fn leading_evidence(verdict: &Verdict) -> (String, String) {
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
            (text, percent(f.share_of_value()))
        }
        None => Default::default(),
    }
}

fn ranking_document(ranks: &[FleetRank], store: &MetricStore, fleet: &Fleet, cost: &FleetCost) -> Value {
    let hosts: Vec<Value> =
        ranks.iter().filter_map(|p| Some(host_json(&p.host, p.verdict.as_ref().ok()?, p.severity_key().1))).collect();
    let unjudged: Vec<Value> =
        ranks.iter().filter_map(|p| Some(json!({ "host": p.host, "because": p.verdict.as_ref().err()? }))).collect();
    let (queries, seconds, bytes) = cost.query_cost;
    json!({
        "schema": "diskwright.fleet/1",
        "store": store.shown_address(),
        "pack": ranks.iter().find_map(|p| Some(p.verdict.as_ref().ok()?.pack.clone())),
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
        "left_out": ranks.iter().map(|p| p.left_out).sum::<u64>(),
        "warnings": store.warnings(),
        "elapsed_s": cost.seconds,
        "store_queries": queries,
        "store_s": seconds,
        "store_bytes": bytes,
    })
}

/// A machine's place in the ranking, as JSON.
pub fn host_json(name: &str, verdict: &Verdict, score: f64) -> Value {
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
            "value_share": f.value_share,
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
