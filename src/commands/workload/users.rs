//! `workload transactions`, `load`, `scan`, `files`, `backup`, `mail`: users at work in a folder.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::Histogram;
use diskwright_base::byte_size::{parse_capacity, parse_memory_size};
use diskwright_base::units::{format_count, format_value, parse_duration, parse_share_of_whole};
use diskwright_report::{Align, Ink, TextTable};
use diskwright_workload::WorkError;
use diskwright_workload::files::check_free_space;
use diskwright_workload::mail::MailStore;
use diskwright_workload::table::{BulkLoad, TableOptions, TableScan};
use diskwright_workload::transactions::{Database, DatabaseOptions};
use diskwright_workload::tree::{Backup, FileServer, FileTree, TreeOptions};
use diskwright_workload::users::{OperationOutcome, RunControl, UserOptions, UserOutcome, Work, run};
use indicatif::ProgressBar;
use serde_json::json;

use super::{stop_flag, sweep_leftovers, update_bar_during, work_failure, workload_bar};
use crate::commands::{Failure, output};

/// Options that all users' work shares.
#[derive(Args)]
pub struct UserArguments {
    /// Folder for the files; by default the current one
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Number of concurrent users
    #[arg(long, default_value_t = 8, value_name = "USERS")]
    users: usize,
    /// Mean think time of a user before each operation
    #[arg(long, default_value = "0", value_parser = parse_think_time, value_name = "DURATION")]
    think: Duration,
    /// Operations per second of all users together, started on schedule (open arrivals); by
    /// default, each user waits for the previous operation (closed arrivals)
    #[arg(long, conflicts_with = "think", value_name = "NUMBER")]
    rate: Option<f64>,
    /// How long
    #[arg(long = "for", default_value = "30s", value_parser = parse_duration, value_name = "DURATION")]
    duration: Duration,
    /// Seed for all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_think_time(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text).map_err(|error| error.to_string()) }
}

/// Arguments of `workload transactions`.
#[derive(Args)]
pub struct TransactionArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Size of the database
    #[arg(long, default_value = "256MiB", value_parser = parse_capacity, value_name = "SIZE")]
    size: u64,
    /// Folder of the log; by default that of the pages
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Pages that each transaction reads
    #[arg(long, default_value_t = 4, value_name = "PAGES")]
    reads: u32,
    /// Pages that an update changes
    #[arg(long, default_value_t = 2, value_name = "PAGES")]
    writes: u32,
    /// Share of transactions that are updates
    #[arg(long, default_value = "50%", value_parser = parse_share_of_whole, value_name = "SHARE")]
    update_share: f64,
}

/// Arguments of `workload load` and `workload scan`.
#[derive(Args)]
pub struct TableArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Size of the table
    #[arg(long, default_value = "1GiB", value_parser = parse_capacity, value_name = "SIZE")]
    size: u64,
    /// Size of a committed batch, or of a read
    #[arg(long, default_value = "1M", value_parser = parse_memory_size, value_name = "SIZE")]
    batch: u64,
}

/// Arguments of `workload files` and `workload backup`.
#[derive(Args)]
pub struct TreeArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Number of files
    #[arg(long, default_value_t = 5000, value_name = "FILES")]
    files: u64,
    /// Number of folders
    #[arg(long, default_value_t = 50, value_name = "FOLDERS")]
    folders: u64,
    /// Mean size of a file
    #[arg(long, default_value = "32K", value_parser = parse_memory_size, value_name = "SIZE")]
    mean_size: u64,
}

/// Arguments of `workload mail`.
#[derive(Args)]
pub struct MailArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Mean size of a message
    #[arg(long, default_value = "8K", value_parser = parse_memory_size, value_name = "SIZE")]
    mean_size: u64,
}

/// Maximum share of due operations that may not have begun at the end; two per user are always allowed.
const MAX_LEFT_SHARE: f64 = 0.02;

/// Reads back the files that work has left, until it is stopped.
type ReadBack<'a, W> = &'a dyn Fn(&W, &AtomicBool) -> Result<(), WorkError>;

/// A named kind of work: how its files are made, used and verified.
struct UserWork<'a, W> {
    name: &'a str,
    common: &'a UserArguments,
    make_files: &'a dyn Fn(&AtomicBool) -> Result<W, WorkError>,
    /// Reads back the files at the end, unless the work itself only reads.
    verify_files: Option<ReadBack<'a, W>>,
    /// Folders and the bytes that each needs.
    space_needed: Vec<(PathBuf, u64)>,
}

/// Runs `workload transactions`.
pub fn run_transactions(arguments: &TransactionArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let options = DatabaseOptions {
        data_bytes: arguments.size,
        reads: arguments.reads,
        writes: arguments.writes,
        write_share: arguments.update_share,
        ..DatabaseOptions::default()
    };
    let log = arguments.log.as_ref().unwrap_or(&common.dir);
    let (pages, log_bytes) = Database::max_needed_bytes(&options);
    run_work(&UserWork {
        name: "transactions",
        common,
        make_files: &|stop| Database::create(&options, &common.dir, log, stop),
        verify_files: Some(&Database::verify_pages),
        space_needed: vec![(common.dir.clone(), pages), (log.clone(), log_bytes)],
    })
}

/// Runs `workload load`.
pub fn run_load(arguments: &TableArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.table_options());
    run_work(&UserWork {
        name: "load",
        common,
        make_files: &|_| BulkLoad::create(&options, &common.dir),
        verify_files: Some(&BulkLoad::verify_loaded),
        space_needed: vec![(common.dir.clone(), options.table_bytes)],
    })
}

/// Runs `workload scan`.
pub fn run_scan(arguments: &TableArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.table_options());
    run_work(&UserWork {
        name: "scan",
        common,
        make_files: &|stop| TableScan::create(&options, &common.dir, stop),
        verify_files: None,
        space_needed: vec![(common.dir.clone(), options.table_bytes)],
    })
}

/// Runs `workload files`.
pub fn run_files(arguments: &TreeArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.tree_options());
    run_work(&UserWork {
        name: "files",
        common,
        make_files: &|stop| FileTree::create(&options, &common.dir, stop).map(FileServer::new),
        verify_files: Some(&|server: &FileServer, stop| server.0.verify_files(stop)),
        space_needed: vec![(common.dir.clone(), FileTree::max_needed_bytes(&options))],
    })
}

/// Runs `workload backup`.
pub fn run_backup(arguments: &TreeArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.tree_options());
    run_work(&UserWork {
        name: "backup",
        common,
        make_files: &|stop| Backup::create(&options, common.users, &common.dir, stop),
        verify_files: Some(&Backup::verify_files),
        space_needed: vec![(common.dir.clone(), FileTree::max_needed_bytes(&options))],
    })
}

/// Runs `workload mail`.
pub fn run_mail(arguments: &MailArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    run_work(&UserWork {
        name: "mail",
        common,
        make_files: &|_| MailStore::create(arguments.mean_size, &common.dir),
        // only the users know the messages, and they have read them back
        verify_files: Some(&|_, _| Ok(())),
        space_needed: vec![(common.dir.clone(), MailStore::max_needed_bytes(arguments.mean_size, common.users))],
    })
}

impl TableArguments {
    fn table_options(&self) -> TableOptions {
        TableOptions { table_bytes: self.size, batch_bytes: usize::try_from(self.batch).unwrap_or(usize::MAX) }
    }
}

impl TreeArguments {
    fn tree_options(&self) -> TreeOptions {
        let (files, folders) = (self.files, self.folders);
        TreeOptions { files, folders, mean_bytes: self.mean_size, seed: self.common.seed }
    }
}

/// Makes the files, runs the users, reads back, and reports.
fn run_work<W: Work>(work: &UserWork<'_, W>) -> Result<(), Failure> {
    let common = work.common;
    if !common.dir.is_dir() {
        return Err(Failure::Usage(format!("{}: there is no such folder", output::escape_name(common.dir.display()))));
    }
    let options = UserOptions {
        users: common.users,
        mean_think_time: common.think,
        rate_per_s: common.rate,
        duration: common.duration,
        seed: common.seed,
    };
    options.check_limits().map_err(work_failure)?;
    let needs: Vec<_> = work.space_needed.iter().map(|(folder, bytes)| (folder.as_path(), *bytes)).collect();
    sweep_leftovers(&needs.iter().map(|(folder, _)| *folder).collect::<Vec<_>>())?;
    check_free_space(&needs).map_err(work_failure)?;
    let control = RunControl { stop: stop_flag()?, ..RunControl::default() };
    let files = {
        let _line = LineGuard(workload_bar("{msg}", "making files", 1));
        (work.make_files)(&control.stop).map_err(work_failure)?
    };
    let bar = workload_bar("{wide_bar} {msg} operations  {eta}", "0", options.duration.as_millis() as u64);
    let start = Instant::now();
    let update = |bar: &ProgressBar| {
        bar.set_position(start.elapsed().as_millis() as u64);
        bar.set_message(control.done.load(Ordering::Relaxed).to_string());
    };
    let outcome = update_bar_during(&bar, update, || run(&files, &options, &control)).map_err(work_failure)?;
    if let Some(verify) = work.verify_files {
        let _line = LineGuard(super::workload_bar("{msg}", "reading back", 1));
        verify(&files, &control.stop).map_err(work_failure)?;
    }
    if common.json {
        output::print_json(&work_document(work, &outcome))
    } else {
        output::print_text(&draw_work(work, &outcome))
    }
}

/// A line on the terminal that is removed with this value.
struct LineGuard(ProgressBar);

impl Drop for LineGuard {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn work_document<W>(work: &UserWork<'_, W>, outcome: &UserOutcome) -> serde_json::Value {
    let common = work.common;
    json!({
        "schema": "diskwright.workload/1",
        "workload": work.name,
        "dir": common.dir.display().to_string(),
        "users": common.users,
        "think_s": common.think.as_secs_f64(),
        "rate_per_s": common.rate,
        "seed": common.seed,
        "wall_s": outcome.wall_s,
        "cpu_s": outcome.cpu_s,
        "left": outcome.not_started,
        "operations": outcome.operations,
        "verified": true,
    })
}

fn draw_work<W>(work: &UserWork<'_, W>, outcome: &UserOutcome) -> String {
    let (style, common) = (output::stdout_style(), work.common);
    let pace = match common.rate {
        Some(rate) => format!("{} due", format_value(rate, "per_s")),
        None if common.think.is_zero() => "without pauses".into(),
        None => format!("thinking {}", format_value(common.think.as_secs_f64(), "s")),
    };
    let users = if common.users == 1 { "1 user".into() } else { format!("{} users", common.users) };
    let head = format!("{}: {users}, {pace}, {}", work.name, format_value(outcome.wall_s, "s"));
    // the mean is only in JSON: in the table of many operations it would need more than 80 columns
    let mut table = TextTable::new().with_text_column("operation");
    for title in ["done", "a second", "bytes", "50 %", "95 %", "99 %", "longest"] {
        table = table.with_column(title, Align::Right);
    }
    outcome.operations.iter().filter(|operation| operation.done > 0).for_each(|operation| {
        table.add_row(operation_row(operation, outcome.wall_s));
    });
    let mut out = format!("{}\n\n{}", style.paint(Ink::Bold, &head), table.render(&style));
    let device_text = if work.verify_files.is_some() { ", and so was all that was left, from its device" } else { "" };
    let cpu = format_value(outcome.cpu_s, "s");
    let sentences = format!("Processor time {cpu}. All data that was read was verified{device_text}.");
    out += &format!("\n{}", output::wrap_paragraph(&sentences));
    let left_over = describe_left_over(outcome, common.users);
    if left_over.is_empty() { out } else { out + &output::wrap_paragraph(&left_over) }
}

/// Describes operations that were due and had not begun at the end: a few are in flight on any storage, many mean that
/// it cannot keep up.
fn describe_left_over(outcome: &UserOutcome, users: usize) -> String {
    let not_started = outcome.not_started;
    let due = not_started + outcome.operations.iter().map(|operation| operation.done).sum::<u64>();
    match not_started as f64 {
        0.0 => String::new(),
        few if few <= (MAX_LEFT_SHARE * due as f64).max(2.0 * users as f64) => {
            let were = if not_started == 1 { "was" } else { "were" };
            format!("{not_started} of {due} operations {were} due and had not begun when the time was over.")
        }
        _ => {
            // with more users the same storage may do more
            let limit = format_count(users, "user sustains", "users sustain");
            format!(
                "{not_started} of {due} operations could not start on time: the rate exceeds what {limit} on this \
                 storage."
            )
        }
    }
}

fn operation_row(operation: &OperationOutcome, wall_s: f64) -> Vec<String> {
    let latency = operation.latency_s.unwrap_or_default();
    let bytes =
        if operation.bytes == 0 { String::new() } else { format_value(operation.bytes as f64 / wall_s, "bytes_per_s") };
    let format_percentile = |share: f64, time_s: f64| {
        if Histogram::is_percentile_meaningful(operation.done, share) { format_value(time_s, "s") } else { "-".into() }
    };
    let percentiles = [
        format_percentile(0.5, latency.p50),
        format_percentile(0.95, latency.p95),
        format_percentile(0.99, latency.p99),
    ];
    let mut row =
        vec![operation.operation.to_owned(), operation.done.to_string(), format_value(operation.per_s, "per_s"), bytes];
    row.extend(percentiles);
    row.push(format_value(latency.max, "s"));
    row
}

#[cfg(test)]
mod tests {
    use diskwright_workload::users::LatencySummary;

    use super::*;

    #[test]
    fn a_percentile_is_shown_where_ten_operations_lie_above_it() {
        let times = LatencySummary { mean: 0.001, p50: 0.001, p95: 0.002, p99: 0.003, p999: 0.004, max: 0.005 };
        let of = |done: u64| {
            let latency_s = Some(times);
            operation_row(&OperationOutcome { operation: "query", done, per_s: 1.0, bytes: 0, latency_s }, 1.0)
        };
        let [median, p95, p99, longest] = [0.001, 0.002, 0.003, 0.005].map(|time| format_value(time, "s"));
        let few = "-".to_owned();
        assert_eq!(of(100)[4..], [median.clone(), few.clone(), few, longest.clone()]);
        assert_eq!(of(1000)[4..], [median, p95, p99, longest]);
    }

    #[test]
    fn few_left_over_operations_are_no_overload() {
        let words = |done, left| {
            let operation = OperationOutcome { operation: "query", done, per_s: 1.0, bytes: 0, latency_s: None };
            describe_left_over(
                &UserOutcome { wall_s: 1.0, cpu_s: 0.0, not_started: left, operations: vec![operation] },
                4,
            )
        };
        assert_eq!(words(100, 0), "");
        assert!(words(1000, 20).starts_with("20 of 1020 operations were due and had not begun"));
        assert!(words(10, 8).contains("had not begun") && words(10, 9).contains("exceeds"));
        let many = "300 of 400 operations could not start on time: the rate exceeds what 4 users sustain";
        assert_eq!(words(100, 300), format!("{many} on this storage."));
    }
}
