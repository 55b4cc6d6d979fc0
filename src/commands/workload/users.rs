//! `workload transactions`, `load`, `scan`, `files`, `backup`, `mail`: users at work in a folder.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::units::{display, parse_duration, parse_part, parse_size};
use diskwright_report::{Align, Ink, TextTable};
use diskwright_workload::WorkError;
use diskwright_workload::files::check_room;
use diskwright_workload::mail::Mail;
use diskwright_workload::table::{BulkLoad, TableOptions, TableScan};
use diskwright_workload::transactions::{Database, DatabaseOptions};
use diskwright_workload::tree::{Backup, FileServer, FileTree, TreeOptions};
use diskwright_workload::users::{OperationOutcome, UserOptions, UserOutcome, UserWatch, Work, run};
use indicatif::ProgressBar;
use serde_json::json;

use super::{bar, failure, stop_flag, sweep, watched};
use crate::commands::{Failure, output};

/// What all users have in common.
#[derive(Args)]
pub struct UserArguments {
    /// Folder for the files; by default the current one
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Number of concurrent users
    #[arg(long, default_value_t = 8, value_name = "USERS")]
    users: usize,
    /// Mean think time of a user before each operation
    #[arg(long, default_value = "0", value_parser = think, value_name = "DURATION")]
    think: Duration,
    /// Operations per second of all users together, started on schedule (open arrivals); by
    /// default, each user waits for the previous operation (closed arrivals)
    #[arg(long, conflicts_with = "think", value_name = "NUMBER")]
    rate: Option<f64>,
    /// How long
    #[arg(long = "for", default_value = "30s", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Duration,
    /// Seed for all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn think(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text).map_err(|error| error.to_string()) }
}

/// Arguments of `workload transactions`.
#[derive(Args)]
pub struct TransactionArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Size of the database
    #[arg(long, default_value = "256M", value_parser = parse_size, value_name = "SIZE")]
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
    #[arg(long, default_value = "50%", value_parser = parse_part, value_name = "SHARE")]
    update_share: f64,
}

/// Arguments of `workload load` and `workload scan`.
#[derive(Args)]
pub struct TableArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Size of the table
    #[arg(long, default_value = "1G", value_parser = parse_size, value_name = "SIZE")]
    size: u64,
    /// Size of a committed batch, or of a read
    #[arg(long, default_value = "1M", value_parser = parse_size, value_name = "SIZE")]
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
    #[arg(long, default_value = "32K", value_parser = parse_size, value_name = "SIZE")]
    mean_size: u64,
}

/// Arguments of `workload mail`.
#[derive(Args)]
pub struct MailArguments {
    #[command(flatten)]
    common: UserArguments,
    /// Mean size of a message
    #[arg(long, default_value = "8K", value_parser = parse_size, value_name = "SIZE")]
    mean_size: u64,
}

/// A name, and what is done and checked under it.
struct UserWork<'a, W> {
    name: &'a str,
    common: &'a UserArguments,
    make: &'a dyn Fn() -> Result<W, WorkError>,
    verify: &'a dyn Fn(&W) -> Result<(), WorkError>,
    /// Folders and the bytes that each needs.
    needs: Vec<(PathBuf, u64)>,
}

pub fn transactions(arguments: &TransactionArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let options = DatabaseOptions {
        bytes: arguments.size,
        reads: arguments.reads,
        writes: arguments.writes,
        write_share: arguments.update_share,
        ..DatabaseOptions::default()
    };
    let log = arguments.log.as_ref().unwrap_or(&common.dir);
    let (pages, log_bytes) = Database::needed(&options);
    work(&UserWork {
        name: "transactions",
        common,
        make: &|| Database::create(&options, &common.dir, log),
        verify: &Database::verify,
        needs: vec![(common.dir.clone(), pages), (log.clone(), log_bytes)],
    })
}

pub fn load(arguments: &TableArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.options());
    work(&UserWork {
        name: "load",
        common,
        make: &|| BulkLoad::create(&options, &common.dir),
        verify: &BulkLoad::verify,
        needs: vec![(common.dir.clone(), options.bytes)],
    })
}

pub fn scan(arguments: &TableArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.options());
    work(&UserWork {
        name: "scan",
        common,
        make: &|| TableScan::create(&options, &common.dir),
        // each read was checked
        verify: &|_| Ok(()),
        needs: vec![(common.dir.clone(), options.bytes)],
    })
}

pub fn files(arguments: &TreeArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.options());
    work(&UserWork {
        name: "files",
        common,
        make: &|| FileTree::create(&options, &common.dir).map(FileServer),
        verify: &|server: &FileServer| server.0.verify(),
        needs: vec![(common.dir.clone(), FileTree::needed(&options))],
    })
}

pub fn backup(arguments: &TreeArguments) -> Result<(), Failure> {
    let (common, options) = (&arguments.common, arguments.options());
    work(&UserWork {
        name: "backup",
        common,
        make: &|| FileTree::create(&options, &common.dir).map(|tree| Backup { tree, users: common.users }),
        verify: &|backup: &Backup| backup.tree.verify(),
        needs: vec![(common.dir.clone(), FileTree::needed(&options))],
    })
}

pub fn mail(arguments: &MailArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    work(&UserWork {
        name: "mail",
        common,
        make: &|| Mail::create(arguments.mean_size, &common.dir),
        // each message was checked as it was read
        verify: &|_| Ok(()),
        needs: vec![(common.dir.clone(), Mail::needed(arguments.mean_size, common.users))],
    })
}

impl TableArguments {
    fn options(&self) -> TableOptions {
        TableOptions { bytes: self.size, batch: usize::try_from(self.batch).unwrap_or(usize::MAX) }
    }
}

impl TreeArguments {
    fn options(&self) -> TreeOptions {
        let (files, folders) = (self.files, self.folders);
        TreeOptions { files, folders, mean_bytes: self.mean_size, seed: self.common.seed }
    }
}

/// Makes the files, lets the users work, reads back, and tells.
fn work<W: Work>(work: &UserWork<'_, W>) -> Result<(), Failure> {
    let common = work.common;
    if !common.dir.is_dir() {
        return Err(Failure::Usage(format!("{}: there is no such folder", output::name(common.dir.display()))));
    }
    let needs: Vec<_> = work.needs.iter().map(|(folder, bytes)| (folder.as_path(), *bytes)).collect();
    sweep(&needs.iter().map(|(folder, _)| *folder).collect::<Vec<_>>())?;
    check_room(&needs).map_err(failure)?;
    let options = UserOptions {
        users: common.users,
        think: common.think,
        rate: common.rate,
        lasts: common.lasts,
        seed: common.seed,
    };
    let watch = UserWatch { stop: stop_flag()?, ..UserWatch::default() };
    let made = (work.make)().map_err(failure)?;
    let bar = bar("{wide_bar} {msg} operations  {eta}", "0", options.lasts.as_millis() as u64);
    let begun = Instant::now();
    let update = |bar: &ProgressBar| {
        bar.set_position(begun.elapsed().as_millis() as u64);
        bar.set_message(watch.done.load(Ordering::Relaxed).to_string());
    };
    let outcome = watched(&bar, update, || run(&made, &options, &watch)).map_err(failure)?;
    (work.verify)(&made).map_err(failure)?;
    if common.json { output::json(&document(work, &outcome)) } else { output::text(&screen(work, &outcome)) }
}

fn document<W>(work: &UserWork<'_, W>, outcome: &UserOutcome) -> serde_json::Value {
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
        "left": outcome.left,
        "operations": outcome.operations,
        "verified": true,
    })
}

fn screen<W>(work: &UserWork<'_, W>, outcome: &UserOutcome) -> String {
    let (style, common) = (output::style(), work.common);
    let pace = match common.rate {
        Some(rate) => format!("{} due", display(rate, "per_s")),
        None if common.think.is_zero() => "without pauses".into(),
        None => format!("thinking {}", display(common.think.as_secs_f64(), "s")),
    };
    let users = if common.users == 1 { "1 user".into() } else { format!("{} users", common.users) };
    let head = format!("{}: {users}, {pace}, {}", work.name, display(outcome.wall_s, "s"));
    let mut table = TextTable::new().text("operation");
    for title in ["done", "a second", "bytes", "mean", "50 %", "95 %", "99 %", "longest"] {
        table = table.column(title, Align::Right);
    }
    outcome.operations.iter().filter(|operation| operation.done > 0).for_each(|operation| {
        table.row(row(operation, outcome.wall_s));
    });
    let mut out = format!("{}\n\n{}", style.paint(Ink::Bold, &head), table.render(&style));
    out += &format!("\nProcessor time {}. All data read and written was verified.\n", display(outcome.cpu_s, "s"));
    if outcome.left > 0 {
        out += &format!(
            "{} operations could not start on time: the rate exceeds what this storage sustains.\n",
            outcome.left
        );
    }
    out
}

fn row(operation: &OperationOutcome, wall_s: f64) -> Vec<String> {
    let latency = operation.latency_s.unwrap_or_default();
    let bytes =
        if operation.bytes == 0 { String::new() } else { display(operation.bytes as f64 / wall_s, "bytes_per_s") };
    let times = [latency.mean, latency.p50, latency.p95, latency.p99, latency.max];
    let mut row =
        vec![operation.operation.to_owned(), operation.done.to_string(), display(operation.per_s, "per_s"), bytes];
    row.extend(times.map(|time| display(time, "s")));
    row
}
