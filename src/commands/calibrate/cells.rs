//! Measurements as cells that a description is fitted to: runs of `probe`, and the load in a log.

use std::path::Path;

use diskwright_planner::series::{FrontLoad, FrontSums};
use diskwright_results::document::ProbeDocument;
use diskwright_results::pattern::{Durability, Pace, Placement};
use diskwright_results::result::RunResult;
use diskwright_simulator::BLOCK_BYTES;
use diskwright_simulator::calibrate::CalibrationCell;
use diskwright_simulator::calibrate::burst::{self, ResultTimeline, RunTimeline, SpentCredits};
use diskwright_simulator::catalogue::measure::{DriveLoad, MAX_DEPTH};

use super::UnusedRun;
use crate::commands::Failure;
use crate::commands::log::{self, LogWindow};
use crate::commands::plan::from_log;

/// Returns the cells of a result's runs with closed arrivals. The first `with_credits` runs had credits left. Unusable
/// runs are added to `unused`, with the reason.
pub(super) fn closed_arrival_cells(
    document: &ProbeDocument,
    with_credits: usize,
    unused: &mut Vec<UnusedRun>,
) -> Vec<CalibrationCell> {
    let to_cell = |(number, run): (usize, &RunResult)| match run_to_cell(document, run) {
        Ok(_) if number >= with_credits => {
            unused.push(UnusedRun { name: run.name.clone(), reason: "credits ran out during or before it".into() });
            None
        }
        Ok(cell) => Some(cell),
        Err(reason) => {
            unused.push(UnusedRun { name: run.name.clone(), reason });
            None
        }
    };
    document.runs.iter().enumerate().filter_map(to_cell).collect()
}

/// Minimum number of responses per request in flight: with fewer, those cut off at both ends of a run weigh too much.
const MIN_ROUNDS: f64 = 2.5;

/// True if the run did everything that was requested.
fn is_complete(run: &RunResult) -> bool {
    (run.failed, run.short_transfers, run.unanswered) == (0, 0, 0) && !run.stopped
}

/// Turns a run into a cell.
fn run_to_cell(document: &ProbeDocument, run: &RunResult) -> Result<CalibrationCell, String> {
    let Some(pattern) = &run.pattern else { return Err("its pattern is unknown".into()) };
    if document.buffered || pattern.buffered {
        return Err("it went through the page cache".into());
    }
    if pattern.durable != Durability::No {
        return Err("it waited for syncs".into());
    }
    if !run.concurrent_runs.is_empty() || !run.combines.is_empty() {
        return Err("other runs ran at the same time".into());
    }
    if !is_complete(run) {
        return Err("requests failed, moved less data than requested, or did not complete".into());
    }
    let Pace::Closed { depth } = pattern.pace else { return Err("its arrivals are not closed".into()) };
    let is_sequential = match pattern.placement {
        Placement::Uniform => false,
        Placement::Sequential { streams: 1 } => true,
        _ => return Err("its addresses are neither uniformly random nor sequential".into()),
    };
    let size = match (&pattern.sizes[..], pattern.write_sizes.is_empty() && pattern.read_write_order.is_empty()) {
        ([(size, _)], true) if u64::from(*size).is_multiple_of(BLOCK_BYTES) => *size,
        _ => return Err("its requests have several sizes or mixes".into()),
    };
    let completions = run.requests_per_s * run.measured_s;
    if depth > MAX_DEPTH || completions < MIN_ROUNDS * f64::from(depth) || run.requests_per_s <= 0.0 {
        return Err(format!("only {} completions with {depth} in flight: too few", completions.round()));
    }
    let load = DriveLoad {
        sequential: is_sequential,
        read_share: pattern.read_share,
        blocks: size / BLOCK_BYTES as u32,
        depth,
        range: (pattern.from_bytes == 0).then_some(pattern.range_bytes.unwrap_or(document.target_bytes) / BLOCK_BYTES),
    };
    Ok(CalibrationCell { name: run.name.clone(), load, per_s: run.requests_per_s, response_s: None, held_out: false })
}

/// Length of a run's intervals: tenths of a second.
const INTERVAL_S: f64 = 0.1;

/// Returns the credits that ran out while suites were measured.
pub(super) fn spent_credits<'a>(documents: impl Iterator<Item = &'a ProbeDocument>) -> SpentCredits {
    let timeline = |run: &RunResult| RunTimeline {
        bytes: run.size_bytes,
        ramp_s: run.pattern.as_ref().map_or(0.0, |pattern| pattern.ramp.as_secs_f64()),
        step_s: INTERVAL_S,
        // the last interval is rarely complete
        per_s: run.slices.iter().rev().skip(1).rev().map(|count| *count as f64 / INTERVAL_S).collect(),
    };
    let result_timeline = |document: &ProbeDocument| ResultTimeline {
        began_s: diskwright_base::timestamp::parse_rfc3339(&document.started).map(|ns| ns as f64 * 1e-9),
        runs: document.runs.iter().map(timeline).collect(),
    };
    burst::find_credits_in_results(&documents.map(result_timeline).collect::<Vec<ResultTimeline>>())
}

/// Minimum number of requests of a load that is used.
const MIN_REQUESTS: f64 = 200.0;
/// Minimum duration of a load that is used, seconds.
const MIN_SECONDS: f64 = 5.0;
/// Maximum number of loads from each half of the log: those with the most requests.
const MAX_LOADS: usize = 8;

/// Returns the loads of a device in a log, where it has its own name or the name `log_device`. Of each load, every
/// second run of ten ticks is kept aside.
pub(super) fn cells_from_log(
    paths: &[std::path::PathBuf],
    device: &str,
    log_device: Option<&str>,
) -> Result<Vec<CalibrationCell>, Failure> {
    let logs = log::open(paths, &LogWindow::default())?.without_distributions();
    let series = from_log::load_from_logs(&logs, &[])?;
    let front = find_front(&series.fronts, log_device.unwrap_or(device), log_device.is_some())?;
    let mut cells = Vec::new();
    for (half, sums) in front.curve.halves().into_iter().enumerate() {
        let mut loads: Vec<&FrontSums> = sums.iter().filter(|sums| is_significant(sums)).collect();
        loads.sort_by(|a, b| (b.reads + b.writes).total_cmp(&(a.reads + a.writes)));
        loads.truncate(MAX_LOADS);
        loads.sort_by(|a, b| a.requests_per_s().total_cmp(&b.requests_per_s()));
        cells.extend(loads.into_iter().map(|sums| load_to_cell(sums, half == 1)));
    }
    match cells.iter().any(|cell| !cell.held_out) {
        true => Ok(cells),
        false => Err(Failure::Usage(format!(
            "the log has too little load on {}: at least {MIN_REQUESTS} requests and {MIN_SECONDS} s with sizes \
             and requests in flight are needed",
            front.name
        ))),
    }
}

fn is_significant(sums: &FrontSums) -> bool {
    let bytes = sums.read_bytes + sums.write_bytes;
    let is_known = bytes.is_finite() && bytes > 0.0 && sums.queue_s.is_finite() && sums.queue_s > 0.0;
    is_known && sums.reads + sums.writes >= MIN_REQUESTS && sums.seconds >= MIN_SECONDS
}

fn load_to_cell(sums: &FrontSums, held_out: bool) -> CalibrationCell {
    let requests = sums.reads + sums.writes;
    let blocks = (sums.read_bytes + sums.write_bytes) / requests / BLOCK_BYTES as f64;
    let per_s = sums.requests_per_s();
    CalibrationCell {
        name: format!("log, {per_s:.0}/s"),
        load: DriveLoad {
            sequential: false,
            read_share: sums.reads / requests,
            blocks: (blocks.round() as u32).max(1),
            depth: 1,
            range: None,
        },
        per_s,
        response_s: Some(sums.response_s()),
        held_out,
    }
}

/// Finds the device of a log that results are about, by name. If the log has only one device, its name may differ,
/// unless a name was given.
fn find_front<'a>(fronts: &'a [FrontLoad], device: &str, is_named: bool) -> Result<&'a FrontLoad, Failure> {
    let name = Path::new(device).file_name().map_or(device.into(), |name| name.to_string_lossy());
    let names = || fronts.iter().map(|front| front.name.as_str()).collect::<Vec<&str>>().join(", ");
    let front = fronts.iter().find(|front| front.name == name).or(match fronts {
        [only] if !is_named => Some(only),
        _ => None,
    });
    match front {
        Some(front) if front.level.is_some() => Err(Failure::Usage(format!(
            "`{}` of the log is an array, but a description is of a single device; name one with --log-device",
            front.name
        ))),
        Some(front) => Ok(front),
        None => Err(Failure::Usage(format!("the log has no device `{name}`; name one with --log-device: {}", names()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_requests_that_moved_too_little_is_not_fitted() {
        assert!(is_complete(&RunResult::default()));
        assert!(!is_complete(&RunResult { short_transfers: 1, ..RunResult::default() }));
        assert!(!is_complete(&RunResult { failed: 1, ..RunResult::default() }));
        assert!(!is_complete(&RunResult { stopped: true, ..RunResult::default() }));
    }

    #[test]
    fn named_device_must_have_that_name() {
        let fronts = [FrontLoad { name: "sda".into(), members: 1, ..FrontLoad::default() }];
        let name =
            |device: &str, is_named: bool| find_front(&fronts, device, is_named).ok().map(|found| found.name.clone());
        assert_eq!(name("/mnt/probe.dat", false).as_deref(), Some("sda"));
        assert_eq!(name("/dev/sda", true).as_deref(), Some("sda"));
        assert_eq!(name("sdb", true), None);
    }
}
