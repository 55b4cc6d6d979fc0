//! `compare LOG LOG`: before and after, counter by counter, and whether the change helped.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::LogPiece;
use diskwright_base::units::parse_share;
use diskwright_diagnosis::compare::{self, ComparisonRow, CounterWindow, WindowComparison};
use diskwright_diagnosis::{Pack, Verdict};
use diskwright_hostfiles::bounded_file;
use diskwright_report::beside_document::{self, BesideDocument};
use diskwright_report::{Chart, DisplayZone, compare as drawn};
use serde_json::Value;

use super::latency::{self, LatencyWindow};
use super::log::{self, LogWindow, Logs};
use super::watch::range_comparison;
use super::{Failure, baseline, compare_results, damage, output, output_file, why};

/// Arguments of `compare`.
#[derive(Args)]
pub struct Arguments {
    /// The log before and the log after a change; or one log, to compare two of its windows; or two results of
    /// `baseline`, or results of `probe`, one per side or several before and after `--`
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Results of the second side, if the first side has several
    #[arg(last = true, value_name = "RESULT")]
    against: Vec<PathBuf>,
    /// --from and --to give the first window
    #[command(flatten)]
    window: LogWindow,
    /// Start of the second window, written like --from
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    against_from: Option<String>,
    /// End of the second window
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    against_to: Option<String>,
    /// Time of the change: compare the log before it with the log after it
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", conflicts_with_all = ["to", "against_from"])]
    at: Option<String>,
    /// Declare a disk of the second log as an array, like --array, which then describes only the first log: before and
    /// after a purchase (repeatable)
    #[arg(long, value_name = "DISK=LEVEL:MEMBERS", help_heading = "Logs of other tools")]
    against_array: Vec<String>,
    /// Read the topology of the second log from a TOML file, like --topology
    #[arg(long, value_name = "FILE.toml", help_heading = "Logs of other tools")]
    against_topology: Option<PathBuf>,
    #[command(flatten)]
    judging: why::JudgingArguments,
    /// Print every counter, not only those that changed most
    #[arg(long)]
    all: bool,
    /// For results of `probe`: fail (exit code 1) if anything is worse by more than this and beyond noise
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    fail_if_worse: Option<f64>,
    /// Also write an HTML page to this file
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Add figures that an application measured at the same time to the page (docs/json.md)
    #[arg(long, value_name = "FILE.json", requires = "output")]
    beside: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum number of rows of the table unless --all is given.
const MAX_TABLE_ROWS: usize = 25;
/// Maximum number of charts on the page.
const MAX_CHARTS: usize = 16;
/// Maximum number of points per line of a chart.
const MAX_CHART_POINTS: usize = 120;

/// One window and its verdict.
struct CompareSide {
    counters: CounterWindow,
    verdict: Verdict,
    range: (i64, i64),
}

/// Runs `compare`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.output.as_deref().map_or(Ok(()), output_file::check_writable)?;
    if arguments.logs.iter().chain(&arguments.against).any(|path| baseline::comparison::is_baseline_file(path)) {
        return compare_baselines(arguments);
    }
    if arguments.logs.iter().chain(&arguments.against).any(|path| compare_results::is_probe_result(path)) {
        return compare_probe_results(arguments);
    }
    if arguments.logs.len() > 2 || !arguments.against.is_empty() || arguments.fail_if_worse.is_some() {
        let reason = "compare one log with one log; several per side and --fail-if-worse are for results of `probe`";
        return Err(Failure::Usage(reason.into()));
    }
    if arguments.judging.all_packs() {
        let reason = "--all-packs is for `why` and `report`; a comparison uses one pack, given by --pack";
        return Err(Failure::Usage(reason.into()));
    }
    if arguments.logs.len() == 1 {
        refuse_second_arrays(arguments)?;
    }
    let (first, second) = window_pair(arguments)?;
    // read first, so that an error in it is found before the logs are read
    let beside = arguments.beside.as_deref().map(read_application_figures).transpose()?.unwrap_or_default();
    let before = arguments.logs.first().map(std::slice::from_ref).unwrap_or_default();
    let after = arguments.logs.last().map(std::slice::from_ref).unwrap_or_default();
    let packs = arguments.judging.load_packs(false)?;
    // both are opened before either is read, so that a wrong time is reported at once
    let (mut before, mut after) = (log::open(before, &first)?, log::open(after, &second)?);
    if arguments.logs.len() == 1 {
        (before.range_ns, after.range_ns) = range_comparison::separate_ranges(before.range_ns, after.range_ns);
    }
    let first = read_side(&before, &packs, &arguments.judging)?;
    let second = read_side(&after, &packs, &arguments.judging)?;
    let comparison =
        compare::compare_windows(&first.counters, &second.counters, first.verdict.clone(), second.verdict.clone());
    range_comparison::require_common_counters(&comparison, "windows")?;
    let traced = before.has_latency() && after.has_latency();
    let (before, after) = (before.with_steps(true), after.with_steps(true));
    let latency =
        if traced { Some((LatencyWindow::read(&before, &[])?, LatencyWindow::read(&after, &[])?)) } else { None };
    if let Some(file) = &arguments.output {
        write_page(file, &comparison, [&first, &second], beside)?;
    }
    if output_file::is_any_stdout(&arguments.output) {
        return Ok(());
    }
    if arguments.json {
        let mut document = serde_json::to_value(&comparison)?;
        if let Value::Object(fields) = &mut document {
            let damage = [damage::damage_entries(&before.losses()), damage::damage_entries(&after.losses())].concat();
            fields.insert("damage".into(), damage.into());
            let latency = latency.map(|(before, after)| latency::compare_windows(&before, &after));
            fields.insert("latency".into(), latency.unwrap_or_default().into());
        }
        return output::print_json(&document);
    }
    let max_rows = if arguments.all { usize::MAX } else { MAX_TABLE_ROWS };
    let style = output::wide_table_style();
    output::print_text(&drawn::render_screen(&comparison, max_rows, &DisplayZone::local(), &style))?;
    latency.map_or(Ok(()), |(before, after)| output::print_text(&latency::compare_as_text(&before, &after, &style)))
}

/// Returns the two windows; a single log needs two of them.
fn window_pair(arguments: &Arguments) -> Result<(LogWindow, LogWindow), Failure> {
    let second_window = |from: &Option<String>, to: &Option<String>| {
        let window = arguments.window.with_ends(from.clone(), to.clone());
        window.with_arrays(&arguments.against_array, arguments.against_topology.as_ref())
    };
    if let Some(time) = &arguments.at {
        if arguments.logs.len() > 1 {
            return Err(Failure::Usage("--at splits one log; two logs are compared whole".into()));
        }
        let from = arguments.window.start_text().cloned();
        let first = arguments.window.with_ends(from, Some(time.clone())).with_option_names("--from", "--at");
        let second =
            second_window(&Some(time.clone()), &arguments.against_to).with_option_names("--at", "--against-to");
        return Ok((first, second));
    }
    let second = second_window(&arguments.against_from, &arguments.against_to)
        .with_option_names("--against-from", "--against-to");
    if arguments.logs.len() == 1 && second.is_whole() {
        let example = "write --at TIME, or --from, --to, --against-from and --against-to";
        return Err(Failure::Usage(format!("to compare one log with itself, give two windows: {example}")));
    }
    Ok((arguments.window.clone(), second))
}

/// Refuses what describes the second of two logs.
fn refuse_second_arrays(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.against_array.is_empty() && arguments.against_topology.is_none() {
        return Ok(());
    }
    Err(Failure::Usage("--against-array and --against-topology describe the second of two logs".into()))
}

/// Compares two results of `baseline`.
fn compare_baselines(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.fail_if_worse.is_some() {
        let reason = "--fail-if-worse is for results of `probe`; `baseline --fail-if-slower` judges a machine";
        return Err(Failure::Usage(reason.into()));
    }
    let is_whole = arguments.window.is_whole() && arguments.against_from.is_none() && arguments.against_to.is_none();
    let is_plain = arguments.against.is_empty() && arguments.at.is_none() && is_whole;
    arguments.window.refuse_log_options()?;
    refuse_second_arrays(arguments)?;
    arguments.judging.refuse_without_logs()?;
    match arguments.logs.as_slice() {
        [first, second] if is_plain && arguments.output.is_none() => {
            baseline::comparison::run(first, second, arguments.json)
        }
        _ => Err(Failure::Usage("compare two results of `baseline`, without windows and pages".into())),
    }
}

/// Compares results of `probe`: one per side, or two lists separated by `--`.
fn compare_probe_results(arguments: &Arguments) -> Result<(), Failure> {
    let is_whole = arguments.window.is_whole() && arguments.against_from.is_none() && arguments.against_to.is_none();
    if arguments.at.is_some() || !is_whole {
        return Err(Failure::Usage("windows are for logs; `compare` takes results of `probe` whole".into()));
    }
    if arguments.beside.is_some() {
        return Err(Failure::Usage("--beside is for pages of two logs, not of results of `probe`".into()));
    }
    arguments.window.refuse_log_options()?;
    refuse_second_arrays(arguments)?;
    arguments.judging.refuse_without_logs()?;
    let (before, after) = match (arguments.logs.as_slice(), arguments.against.as_slice()) {
        (before, after @ [_, ..]) => (before, after),
        ([first, second], []) => (std::slice::from_ref(first), std::slice::from_ref(second)),
        _ => {
            let example = "give two, or several per side: A1 A2 -- B1 B2";
            return Err(Failure::Usage(format!("results of `probe` can only be compared with results: {example}")));
        }
    };
    let options = compare_results::CompareOptions {
        all: arguments.all,
        page: arguments.output.as_deref(),
        json: arguments.json,
        max_worse: arguments.fail_if_worse,
    };
    compare_results::run(before, after, &options)
}

/// Reads a window once, for both verdict and counters.
fn read_side(logs: &Logs, packs: &[Pack], judging: &why::JudgingArguments) -> Result<CompareSide, Failure> {
    let mut judge = judging.new_judge(packs.to_vec(), Some(logs.range_ns));
    let mut counters = CounterWindow::new(logs.range_ns);
    logs.read::<Failure>(|piece| {
        match piece {
            LogPiece::Frame(frame) => {
                judge.add_frame(frame);
                counters.add_frame(frame);
            }
            LogPiece::Note(note) => {
                judge.add_note(&note);
                counters.add_note(&note);
            }
        }
        Ok(())
    })?;
    let verdict = judge.finish().into_iter().next();
    let verdict = verdict.ok_or_else(|| Failure::Failed("no rule pack gave a verdict".into()))?;
    Ok(CompareSide { counters, verdict, range: logs.range_ns })
}

/// Reads a file of figures that an application measured at the same time.
fn read_application_figures(path: &Path) -> Result<BesideDocument, Failure> {
    let wrong = |message: String| Failure::Failed(format!("{}: {message}", path.display()));
    let text = bounded_file::read_file(path, beside_document::MAX_FILE_BYTES).map_err(|e| wrong(e.to_string()))?;
    beside_document::parse(&text).map_err(|e| wrong(e.to_string()))
}

fn write_page(
    file: &Path,
    comparison: &WindowComparison,
    [first, second]: [&CompareSide; 2],
    beside: BesideDocument,
) -> Result<(), Failure> {
    let length_ns = |side: &CompareSide| side.range.1.saturating_sub(side.range.0);
    let longest_ns = length_ns(first).max(length_ns(second)).max(1);
    let points = |side: &CompareSide, row: &ComparisonRow| {
        let window = (side.range.0, side.range.0.saturating_add(longest_ns));
        side.counters.part_means(&row.counter, &row.instance, window, MAX_CHART_POINTS).unwrap_or_default()
    };
    let ranked = drawn::rank_rows(comparison);
    let mut rows = drawn::main_rows(comparison, &ranked);
    for row in ranked.iter().copied().filter(|r| r.noise == Some(false)) {
        if rows.len() < MAX_CHARTS && !rows.iter().any(|r| r.counter == row.counter) {
            rows.push(row);
        }
    }
    // rounded to seconds, so that marks stand at round times
    let start = second.range.0 - second.range.0.rem_euclid(1_000_000_000);
    let span = (start, start.saturating_add(longest_ns));
    let chart = |row: &&ComparisonRow| drawn::comparison_chart(row, span, &points(first, row), &points(second, row));
    let charts: Vec<Chart> = rows.iter().filter_map(chart).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let html =
        drawn::render_page(comparison, drawn::ComparePage { charts, zone: DisplayZone::local(), version, beside });
    output_file::write_file(file, html.as_bytes())
}
