//! `workload NAME`: work as programs do it, on real files, with checked results.

mod sort;
mod sort_screen;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use diskwright_workload::WorkError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Failure, output};

/// Arguments of `workload`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    work: WorkKind,
}

/// What can be done.
#[derive(Subcommand)]
enum WorkKind {
    /// Sort rows that do not fit into memory: read, sort, write runs, merge them; checked and timed by phase
    Sort(sort::SortArguments),
    /// Transactions on 8 KiB pages with a log that each commit waits for
    Transactions(users::TransactionArguments),
    /// Append batches to a table, and commit each
    Load(users::TableArguments),
    /// Read a table from begin to end, each user from its own place
    Scan(users::TableArguments),
    /// Look up, read, list, create, append to and delete files of a tree, as users of a file server do
    Files(users::TreeArguments),
    /// Read all files of a tree, one after another
    Backup(users::TreeArguments),
    /// Deliver, read and delete messages, with two syncs for each delivery
    Mail(users::MailArguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.work {
        WorkKind::Sort(sort) => sort::run(sort),
        WorkKind::Transactions(arguments) => users::transactions(arguments),
        WorkKind::Load(arguments) => users::load(arguments),
        WorkKind::Scan(arguments) => users::scan(arguments),
        WorkKind::Files(arguments) => users::files(arguments),
        WorkKind::Backup(arguments) => users::backup(arguments),
        WorkKind::Mail(arguments) => users::mail(arguments),
    }
}

/// The sweep of a sort by memory (one folder) or placement (several), for `probe`.
pub fn sort_sweep(folders: &[PathBuf], bytes: u64, buffered: bool, seed: u64, json: bool) -> Result<(), Failure> {
    sort::suite(folders, bytes, buffered, seed, json)
}

/// A flag that Ctrl-C sets.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// What is wrong with the request is wrong usage.
fn failure(error: WorkError) -> Failure {
    match error {
        WorkError::Usage(text) => Failure::Usage(text),
        other => Failure::Failed(other.to_string()),
    }
}

/// Removes what killed work left in folders, and names it.
fn sweep(folders: &[&std::path::Path]) -> Result<(), Failure> {
    let mut folders = folders.to_vec();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        for name in diskwright_workload::files::sweep(folder).map_err(failure)? {
            output::note(format_args!("removed {}, which killed work had left", output::name(name.display())));
        }
    }
    Ok(())
}
