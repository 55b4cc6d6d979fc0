//! `simulate --replay TRACE --drive FILE`: replays a measured trace on a described drive, and compares the prediction
//! with the measurement.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use diskwright_base::units::{format_count, format_value};
use diskwright_base::{Operation, Request};
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use diskwright_report::sheet::{PageSheet, SheetSection, SheetTable};
use diskwright_report::{Align, Style, TextTable};
use diskwright_simulator::Ns;
use diskwright_simulator::diskspecs::{self, DiskspecsDrive};
use diskwright_simulator::drive::{CacheOutcome, Model};
use diskwright_simulator::replay::{Replay, ReplayRequest, ReplaySums, channel_block_time};
use diskwright_simulator::{BLOCK_BYTES, Io};
use serde_json::{Value, json};

use super::{Arguments, read_text_file};
use crate::commands::{Failure, log, output};

/// Quantiles of a distribution that are reported.
const QUANTILES: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

/// Inputs and results of a replay.
struct ReplayOutcome {
    trace: String,
    drive: String,
    notes: Vec<String>,
    skipped: Vec<Value>,
    read_block: Ns,
    write_block: Ns,
    channel_source: &'static str,
    replay: Replay,
    wall_s: f64,
}

/// Runs a replay.
pub fn run(arguments: &Arguments, trace: &Path, drive: &Path) -> Result<(), Failure> {
    let outcome = replay_trace(arguments, trace, drive)?;
    let title = format!("{} on {}", outcome.trace, outcome.drive);
    let charts = [distribution_chart(&outcome.replay)];
    arguments.pictures.write_charts(&title, &charts, || replay_sheet(&outcome, &title, charts.to_vec()))?;
    if arguments.pictures.write_to_stdout() {
        return Ok(());
    }
    if arguments.json {
        output::print_json(&replay_document(&outcome))
    } else {
        output::print_text(&draw_replay(&outcome, &output::stdout_style()))
    }
}

fn replay_trace(arguments: &Arguments, trace: &Path, drive: &Path) -> Result<ReplayOutcome, Failure> {
    let DiskspecsDrive { mut spec, mut notes, has_channel_time } = read_drive(drive)?;
    check_channel(arguments.channel, has_channel_time)?;
    let (requests, skipped) = read_trace(trace, &mut notes)?;
    let mut channel_source = "drive file";
    if !has_channel_time {
        let given_block_ns = arguments.channel.map(|rate| BLOCK_BYTES * 1_000_000_000 / rate.max(1));
        let times = match given_block_ns {
            Some(block) => {
                channel_source = "option";
                Some((block, block))
            }
            None => {
                channel_source = "trace";
                channel_block_time(&drive_model(&spec)?, &requests)
            }
        };
        match times {
            Some((read, write)) => {
                spec.channel.read_block = spec.channel.read_block.max(read);
                spec.channel.write_block = spec.channel.write_block.max(write);
            }
            None => {
                channel_source = "none";
                notes.push(
                    "no channel is given and the trace has too few hits to derive one: the channel takes no \
                     time"
                        .into(),
                );
            }
        }
    }
    let model = drive_model(&spec)?;
    let end = requests.iter().map(|r| r.io.end()).max().unwrap_or(0);
    if end > model.capacity_blocks() {
        notes.push(format!(
            "requests reach block {end} of a drive with {} blocks; those beyond the end are moved to the end",
            model.capacity_blocks()
        ));
    }
    let started = Instant::now();
    let replay = Replay::replay_requests(&model, requests);
    let wall_s = started.elapsed().as_secs_f64();
    Ok(ReplayOutcome {
        trace: trace.display().to_string(),
        drive: spec.name.clone(),
        notes,
        skipped,
        read_block: spec.channel.read_block,
        write_block: spec.channel.write_block,
        channel_source,
        replay,
        wall_s,
    })
}

/// Refuses a channel rate that would have no effect.
fn check_channel(rate: Option<u64>, has_channel_time: bool) -> Result<(), Failure> {
    match rate {
        Some(0) => Err(Failure::Usage("--channel: the rate must be above 0 bytes per second".into())),
        Some(_) if has_channel_time => {
            let reason = "--channel has no effect: the drive's file gives the rate of the channel";
            Err(Failure::Usage(reason.into()))
        }
        _ => Ok(()),
    }
}

fn drive_model(spec: &diskwright_simulator::drive::Spec) -> Result<Arc<Model>, Failure> {
    Ok(Arc::new(Model::new(spec)?))
}

fn read_drive(path: &Path) -> Result<DiskspecsDrive, Failure> {
    let name = path.display().to_string();
    let text = read_text_file(path).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
    Ok(diskspecs::read_drive(&name, &text, &|other: &str| read_text_file(Path::new(other)))?)
}

/// Reads the measured requests of a trace, and the reasons for skipped ones.
fn read_trace(path: &Path, notes: &mut Vec<String>) -> Result<(Vec<ReplayRequest>, Vec<Value>), Failure> {
    let mut trace = log::new_input(&[path.to_owned()]).open_requests(None)?;
    let mut requests: Vec<ReplayRequest> = Vec::new();
    let (mut last_completion_ns, mut overlapping, mut left_out) = (0, 0_u64, 0_u64);
    let mut devices: BTreeSet<u16> = BTreeSet::new();
    for request in &mut trace {
        let request = request?;
        let Some((measured, completion_ns)) = measured_request(&request) else {
            left_out += 1;
            continue;
        };
        if let Some(last) = requests.last_mut() {
            let pause = request.arrival_ns - last_completion_ns;
            overlapping += u64::from(pause < 0);
            last.pause_ns = u64::try_from(pause).unwrap_or(0);
        }
        last_completion_ns = completion_ns;
        devices.insert(request.device);
        requests.push(measured);
    }
    if requests.is_empty() {
        let hint = "a replay needs a trace with the response time of each request";
        return Err(Failure::Failed(format!("{}: no measured requests in it; {hint}", path.display())));
    }
    if left_out > 0 {
        let reason = "without a response time, or neither read nor write,";
        notes.push(format_count(
            left_out,
            &format!("request {reason} was left out"),
            &format!("requests {reason} were left out"),
        ));
    }
    if devices.len() > 1 {
        notes.push(format!("the trace has requests of {} devices; all are replayed on the one drive", devices.len()));
    }
    if overlapping > 0 {
        let overlapping_text = format_count(overlapping, "request", "requests");
        notes
            .push(format!("{overlapping_text} arrived before the previous one completed; all are replayed one by one"));
    }
    let summary = trace.summary();
    let skipped = summary.skipped.iter().map(|s| json!({ "where": s.context, "because": s.reason, "times": s.count }));
    Ok((requests, skipped.collect()))
}

fn measured_request(request: &Request) -> Option<(ReplayRequest, i64)> {
    let write = match request.operation {
        Operation::Read => false,
        Operation::Write => true,
        _ => return None,
    };
    let (completion_ns, response) = (request.completion_time_ns()?, request.response_ns()?);
    let first = request.offset_bytes / BLOCK_BYTES;
    let blocks = request.end_bytes().div_ceil(BLOCK_BYTES) - first;
    let io = Io { first, blocks: u32::try_from(blocks).ok().filter(|b| *b > 0)?, write };
    Some((ReplayRequest { io, response_ns: response, pause_ns: 0 }, completion_ns))
}

/// Value below which a share of sorted times lies, seconds.
fn quantile_s(sorted: &[Ns], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).map_or(f64::NAN, |ns| *ns as f64 / 1e9)
}

fn sort_times(times: &[Ns]) -> Vec<Ns> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}

fn mean_s(sum_s: f64, requests: u64) -> Option<f64> {
    (requests > 0).then(|| sum_s / requests as f64)
}

fn replay_document(outcome: &ReplayOutcome) -> Value {
    let replay = &outcome.replay;
    let requests = replay.predicted_ns.len();
    let part = |p: &ReplaySums| {
        json!({
            "requests": p.requests,
            "measured_mean_s": mean_s(p.measured_s, p.requests),
            "predicted_mean_s": mean_s(p.predicted_s, p.requests),
        })
    };
    let (measured, predicted) = (sort_times(&replay.measured_ns), sort_times(&replay.predicted_ns));
    let step = |share: &f64| {
        let (measured_s, predicted_s) = (quantile_s(&measured, *share), quantile_s(&predicted, *share));
        json!({ "share": share, "measured_s": measured_s, "predicted_s": predicted_s })
    };
    let by_hit: serde_json::Map<String, Value> =
        CacheOutcome::ALL.iter().map(|hit| (hit.name().to_owned(), part(&replay.by_hit[*hit as usize]))).collect();
    let mean = |sum_s: f64| mean_s(sum_s, requests as u64);
    let spent = &replay.spent;
    json!({
        "schema": "diskwright.replay/1",
        "trace": outcome.trace,
        "drive": outcome.drive,
        "requests": requests,
        "measured_mean_s": replay.measured_mean_s(),
        "predicted_mean_s": replay.predicted_mean_s(),
        "demerit_s": replay.demerit_s(),
        "demerit_share": replay.demerit_s().zip(replay.measured_mean_s()).map(|(demerit, mean)| demerit / mean),
        "wall_s": outcome.wall_s,
        "requests_per_s": requests as f64 / outcome.wall_s.max(1e-9),
        "reads": part(&replay.reads),
        "writes": part(&replay.writes),
        "by_hit": by_hit,
        "predicted_parts_s": {
            "waiting": mean(spent.waiting_s),
            "overhead": mean(spent.overhead_s),
            "seek": mean(spent.seek_s),
            "rotation": mean(spent.rotation_s),
            "media": mean(spent.media_s),
            "channel": mean(spent.channel_s),
        },
        "quantiles": QUANTILES.iter().map(step).collect::<Vec<_>>(),
        "channel": {
            "from": outcome.channel_source,
            "read_block_s": outcome.read_block as f64 / 1e9,
            "write_block_s": outcome.write_block as f64 / 1e9,
        },
        "notes": outcome.notes,
        "skipped": outcome.skipped,
    })
}

fn draw_replay(outcome: &ReplayOutcome, style: &Style) -> String {
    let replay = &outcome.replay;
    let seconds = |s: Option<f64>| format_value(s.unwrap_or(f64::NAN), "s");
    let share = replay.demerit_s().zip(replay.measured_mean_s()).map_or(f64::NAN, |(d, m)| d / m);
    let requests = replay.predicted_ns.len();
    let counted = format_count(requests as u64, "request", "requests");
    let mut out =
        format!("{counted} of {} on {}\n\n", style.clean_text(&outcome.trace), style.clean_text(&outcome.drive));
    let mut table = TextTable::new()
        .with_column("", Align::Left)
        .with_column("requests", Align::Right)
        .with_column("measured", Align::Right)
        .with_column("predicted", Align::Right);
    let mut add_line = |name: &str, part: &ReplaySums| {
        if part.requests > 0 {
            let format_mean = |sum: f64| seconds(mean_s(sum, part.requests));
            table.add_row([
                name.to_owned(),
                part.requests.to_string(),
                format_mean(part.measured_s),
                format_mean(part.predicted_s),
            ]);
        }
    };
    let totals = ReplaySums {
        requests: requests as u64,
        measured_s: replay.reads.measured_s + replay.writes.measured_s,
        predicted_s: replay.reads.predicted_s + replay.writes.predicted_s,
    };
    add_line("mean response", &totals);
    add_line("  reads", &replay.reads);
    add_line("  writes", &replay.writes);
    for hit in CacheOutcome::ALL {
        add_line(&format!("  {}", describe_hit(hit)), &replay.by_hit[hit as usize]);
    }
    let (measured, predicted) = (sort_times(&replay.measured_ns), sort_times(&replay.predicted_ns));
    for share in QUANTILES {
        let format_quantile = |times: &[Ns]| format_value(quantile_s(times, share), "s");
        let name = format!("{} % are faster than", (share * 100.0).round());
        table.add_row([name, String::new(), format_quantile(&measured), format_quantile(&predicted)]);
    }
    out += &table.render(style);
    out += &format!("\ndemerit {}, {} of the mean\n", seconds(replay.demerit_s()), format_value(share, "fraction"));
    out += &describe_time_spent(replay, requests as u64);
    let block = |ns: Ns| format_value(ns as f64 / 1e9, "s");
    let blocks =
        format!("{} per block read, {} per block written", block(outcome.read_block), block(outcome.write_block));
    out += &format!("channel: {blocks} (from: {})\n", outcome.channel_source);
    for note in &outcome.notes {
        out += &format!("note: {}\n", style.clean_text(note));
    }
    let skipped: u64 = outcome.skipped.iter().filter_map(|s| s["times"].as_u64()).sum();
    if skipped > 0 {
        out += &format!("note: {} of the trace could not be read\n", format_count(skipped, "line", "lines"));
    }
    let rate = requests as f64 / outcome.wall_s.max(1e-9);
    out + &format!("replayed in {}, {}\n", format_value(outcome.wall_s, "s"), format_value(rate, "per_s"))
}

/// Maximum number of points of a drawn distribution.
const MAX_POINTS: usize = 240;

/// Chart of the two cumulative distributions, measured and predicted.
fn distribution_chart(replay: &Replay) -> Curves {
    let line = |name: &str, times: &[Ns]| {
        let sorted = sort_times(times);
        let point = |n: usize| {
            let share = n as f64 / MAX_POINTS as f64;
            CurvePoint { x: quantile_s(&sorted, share), y: share, interval: None }
        };
        // the slowest requests are left out: they are so far apart that they would flatten the curve
        ChartCurve { name: name.to_owned(), points: (0..MAX_POINTS).map(point).collect() }
    };
    let axis = |words: &str, unit: &str| Axis { words: words.into(), unit: unit.into(), scale: AxisScale::Linear };
    Curves {
        title: "Share of requests by response time".into(),
        x: axis("Response time", "s"),
        y: axis("Share of requests that are faster", "fraction"),
        lines: vec![line("measured", &replay.measured_ns), line("predicted", &replay.predicted_ns)],
    }
}

/// Page on a replay.
fn replay_sheet(outcome: &ReplayOutcome, title: &str, charts: Vec<Curves>) -> PageSheet {
    let replay = &outcome.replay;
    let seconds = |s: Option<f64>| format_value(s.unwrap_or(f64::NAN), "s");
    let share = replay.demerit_s().zip(replay.measured_mean_s()).map_or(f64::NAN, |(d, m)| d / m);
    let lead = format!(
        "{}: measured {} on average, predicted {}; the distributions differ by {}, {} of the mean.",
        format_count(replay.predicted_ns.len() as u64, "request", "requests"),
        seconds(replay.measured_mean_s()),
        seconds(replay.predicted_mean_s()),
        seconds(replay.demerit_s()),
        format_value(share, "fraction")
    );
    let (measured, predicted) = (sort_times(&replay.measured_ns), sort_times(&replay.predicted_ns));
    let row = |share: &f64| {
        let format_quantile = |times: &[Ns]| format_value(quantile_s(times, *share), "s");
        vec![format!("{} %", (share * 100.0).round()), format_quantile(&measured), format_quantile(&predicted)]
    };
    let titles = ["are faster than", "measured", "predicted"].map(str::to_owned).to_vec();
    let quantiles = SheetTable { titles, rows: QUANTILES.iter().map(row).collect() };
    let distributions =
        SheetSection { title: "Distributions".into(), charts, tables: vec![quantiles], ..SheetSection::default() };
    let words = std::iter::once(describe_time_spent(replay, replay.predicted_ns.len() as u64))
        .chain(outcome.notes.iter().cloned());
    let facts = SheetSection { title: "Assumptions".into(), words: words.collect(), ..SheetSection::default() };
    PageSheet {
        title: title.to_owned(),
        made: "Replayed by the simulator".into(),
        lead: vec![lead],
        sections: vec![distributions, facts],
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn describe_hit(hit: CacheOutcome) -> &'static str {
    match hit {
        CacheOutcome::Miss => "not in the cache",
        CacheOutcome::Full => "in the cache",
        CacheOutcome::Partial => "partly in the cache",
        CacheOutcome::Early => "reported early",
    }
}

/// Describes in one line how the predicted time is spent.
fn describe_time_spent(replay: &Replay, requests: u64) -> String {
    let spent = &replay.spent;
    let parts = [
        ("seek", spent.seek_s),
        ("rotation", spent.rotation_s),
        ("media", spent.media_s),
        ("channel", spent.channel_s),
        ("overhead", spent.overhead_s),
        ("waiting", spent.waiting_s),
    ];
    let words =
        parts.map(|(name, sum)| format!("{name} {}", format_value(mean_s(sum, requests).unwrap_or(f64::NAN), "s")));
    format!("breakdown of the predicted time: {}\n", words.join(", "))
}
