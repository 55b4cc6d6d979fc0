//! `compare LOG LOG`: before and after, counter by counter, and whether the
//! change helped.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_diagnosis::compare::{self, Comparison, Row, Watch};
use diskwright_diagnosis::{Pack, Verdict};
use diskwright_report::beside::{self, Beside};
use diskwright_report::{Chart, Zone, compare as drawn};

use super::log::{Logs, Piece, Window, tell_damage};
use super::{Failure, compare_results, output, why};

/// Arguments of `compare`.
#[derive(Args)]
pub struct Arguments {
    /// The log before and the log after; or one log, of which two windows are compared; or
    /// results of `probe`, one a side, or several before and several after `--`
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The second side, where the first has several results
    #[arg(last = true, value_name = "RESULT")]
    against: Vec<PathBuf>,
    /// --from and --to are those of the first window
    #[command(flatten)]
    window: Window,
    /// Start of the second window, written like --from
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    against_from: Option<String>,
    /// End of the second window
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    against_to: Option<String>,
    /// When the change was made: what is before it in the log against what is after it
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", conflicts_with_all = ["to", "against_from"])]
    at: Option<String>,
    #[command(flatten)]
    judging: why::Judging,
    /// Print every counter, not only those that changed most
    #[arg(long)]
    all: bool,
    /// Results of `probe`: fail (exit code 1) where anything is worse beyond noise and by more than this
    #[arg(long, value_name = "SHARE", value_parser = compare_results::share)]
    fail_if_worse: Option<f64>,
    /// Write a page too
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Figures that an application measured meanwhile, to stand on the page (docs/json.md)
    #[arg(long, value_name = "FILE.json", requires = "output")]
    beside: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rows of the table unless --all is given.
const ROWS: usize = 25;
/// Charts on the page at most.
const CHARTS: usize = 16;
/// Points of a chart's line at most.
const POINTS: usize = 120;
/// One window, read.
struct Side {
    watch: Watch,
    verdict: Verdict,
    range: (i64, i64),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.logs.iter().chain(&arguments.against).any(|path| compare_results::is(path)) {
        return results(arguments);
    }
    if arguments.logs.len() > 2 || !arguments.against.is_empty() || arguments.fail_if_worse.is_some() {
        let reason = "logs are compared one with one; several a side and --fail-if-worse are for results of `probe`";
        return Err(Failure::Usage(reason.into()));
    }
    let (first, second) = windows(arguments)?;
    // read first, so that a mistake in it costs no time
    let beside = arguments.beside.as_deref().map(read_beside).transpose()?.unwrap_or_default();
    let before = arguments.logs.first().map(std::slice::from_ref).unwrap_or_default();
    let after = arguments.logs.last().map(std::slice::from_ref).unwrap_or_default();
    let packs = arguments.judging.packs(false)?;
    // both are opened before either is read, so that a wrong time is told at once
    let (before, mut after) = (Logs::open(before, &first)?, Logs::open(after, &second)?);
    if arguments.logs.len() == 1 && after.range.0 == before.range.1 {
        // the tick that ends there tells of the time before it
        after.range.0 += 1;
    }
    let first = read(&before, &packs, &arguments.judging)?;
    let second = read(&after, &packs, &arguments.judging)?;
    let comparison = compare::compare(&first.watch, &second.watch, first.verdict.clone(), second.verdict.clone());
    if comparison.counters.is_empty() {
        return Err(Failure::Failed("the two windows have no counter of one instance in common".into()));
    }
    if let Some(file) = &arguments.output {
        page(file, &comparison, [&first, &second], beside)?;
    }
    if arguments.json {
        return output::json(&comparison);
    }
    let most = if arguments.all { usize::MAX } else { ROWS };
    output::text(&drawn::screen(&comparison, most, &Zone::local(), &output::wide_style()))
}

/// The two windows; one log must be told two.
fn windows(arguments: &Arguments) -> Result<(Window, Window), Failure> {
    let against = |from: &Option<String>, to: &Option<String>| arguments.window.with(from.clone(), to.clone());
    if let Some(at) = &arguments.at {
        if arguments.logs.len() > 1 {
            return Err(Failure::Usage("--at cuts one log in two; two logs are compared as they are".into()));
        }
        let first = arguments.window.with(arguments.window.from().cloned(), Some(at.clone()));
        return Ok((first, against(&Some(at.clone()), &arguments.against_to)));
    }
    let second = against(&arguments.against_from, &arguments.against_to);
    if arguments.logs.len() == 1 && second.is_whole() {
        let ways = "write --at TIME, or --from, --to, --against-from and --against-to";
        return Err(Failure::Usage(format!("one log is compared with itself by two windows: {ways}")));
    }
    Ok((arguments.window.clone(), second))
}

/// Results of `probe`, one a side or two lists parted by `--`.
fn results(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.at.is_some() || arguments.against_from.is_some() || !arguments.window.is_whole() {
        return Err(Failure::Usage("windows are for logs; results of `probe` are compared whole".into()));
    }
    if arguments.beside.is_some() {
        return Err(Failure::Usage("--beside goes on the page of two logs, not of results of `probe`".into()));
    }
    let (before, after) = match (arguments.logs.as_slice(), arguments.against.as_slice()) {
        (before, after @ [_, ..]) => (before, after),
        ([first, second], []) => (std::slice::from_ref(first), std::slice::from_ref(second)),
        _ => {
            let ways = "name two, or several of each side: A1 A2 -- B1 B2";
            return Err(Failure::Usage(format!("results are compared with results: {ways}")));
        }
    };
    let asked = compare_results::Asked {
        all: arguments.all,
        page: arguments.output.as_deref(),
        json: arguments.json,
        most_worse: arguments.fail_if_worse,
    };
    compare_results::run(before, after, &asked)
}

/// Reads a window once, for the judge and for the counters.
fn read(logs: &Logs, packs: &[Pack], judging: &why::Judging) -> Result<Side, Failure> {
    let mut judge = judging.judge(packs.to_vec(), Some(logs.range));
    let mut watch = Watch::new(logs.range);
    logs.read(|piece| {
        match piece {
            Piece::Frame(frame) => {
                judge.frame(frame);
                watch.frame(frame);
            }
            Piece::Note(note) => {
                judge.note(&note);
                watch.note(&note);
            }
            Piece::Damage(damage) => tell_damage(&damage),
        }
        Ok(())
    })?;
    let verdict = judge.finish().into_iter().next();
    let verdict = verdict.ok_or_else(|| Failure::Failed("no pack gave a verdict".into()))?;
    Ok(Side { watch, verdict, range: logs.range })
}

/// A file of what else was measured.
fn read_beside(path: &Path) -> Result<Beside, Failure> {
    let wrong = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|e| wrong(e.to_string()))?;
    file.take(beside::LARGEST + 1).read_to_end(&mut text).map_err(|e| wrong(e.to_string()))?;
    if text.len() as u64 > beside::LARGEST {
        return Err(wrong(format!("more than the {} MiB that are read", beside::LARGEST >> 20)));
    }
    beside::parse(&text).map_err(|e| wrong(e.to_string()))
}

fn page(file: &Path, comparison: &Comparison, [first, second]: [&Side; 2], beside: Beside) -> Result<(), Failure> {
    let length = |side: &Side| side.range.1.saturating_sub(side.range.0);
    let longer = length(first).max(length(second)).max(1);
    let points = |side: &Side, row: &Row| {
        let window = (side.range.0, side.range.0.saturating_add(longer));
        side.watch.points(&row.counter, &row.instance, window, POINTS).unwrap_or_default()
    };
    let ranked = drawn::ranked(comparison);
    let main = |counter: &&str| ranked.iter().copied().find(|r| r.counter == *counter && drawn::is_whole(r, &ranked));
    let mut rows: Vec<&Row> = drawn::MAIN.iter().filter_map(main).collect();
    for row in ranked.iter().copied().filter(|r| r.noise == Some(false)) {
        if rows.len() < CHARTS && !rows.iter().any(|r| r.counter == row.counter) {
            rows.push(row);
        }
    }
    // to the second, so that marks stand at round times
    let start = second.range.0 - second.range.0.rem_euclid(1_000_000_000);
    let span = (start, start.saturating_add(longer));
    let chart = |row: &&Row| drawn::chart(row, span, &points(first, row), &points(second, row));
    let charts: Vec<Chart> = rows.iter().filter_map(chart).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let html = drawn::page(comparison, drawn::Page { charts, zone: Zone::local(), version, beside });
    fs::write(file, html).map_err(|e| Failure::Failed(format!("{}: {e}", file.display())))
}
