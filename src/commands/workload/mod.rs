//! `workload NAME`: runs realistic programs' work on real files, with verified results.

mod sort;
mod sort_screen;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::{Args, Subcommand};
use diskwright_workload::WorkError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Failure, output};

/// Arguments of `workload`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    work: WorkKind,
}

/// Kinds of work.
#[derive(Subcommand)]
enum WorkKind {
    /// Sort rows that do not fit into memory: read, sort, write runs, merge them; verified and timed by stage
    Sort(sort::SortArguments),
    /// Run transactions on 8 KiB pages, with a log that each commit waits for
    Transactions(users::TransactionArguments),
    /// Append batches to a table and commit each
    Load(users::TableArguments),
    /// Read a table from start to end, each user from its own position
    Scan(users::TableArguments),
    /// Look up, read, list, create, append to and delete files in a tree, like users of a file server
    Files(users::TreeArguments),
    /// Read all files of a tree, one after another
    Backup(users::TreeArguments),
    /// Deliver, read and delete messages, with two syncs per delivery
    Mail(users::MailArguments),
}

/// Runs `workload`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.work {
        WorkKind::Sort(sort) => sort::run(sort),
        WorkKind::Transactions(arguments) => users::run_transactions(arguments),
        WorkKind::Load(arguments) => users::run_load(arguments),
        WorkKind::Scan(arguments) => users::run_scan(arguments),
        WorkKind::Files(arguments) => users::run_files(arguments),
        WorkKind::Backup(arguments) => users::run_backup(arguments),
        WorkKind::Mail(arguments) => users::run_mail(arguments),
    }
}

/// Runs the sweep of a sort by memory (one folder) or placement (several), for `probe`.
pub fn run_sort_sweep(folders: &[PathBuf], bytes: u64, buffered: bool, seed: u64, json: bool) -> Result<(), Failure> {
    sort::run_sweep_suite(folders, bytes, buffered, seed, json)
}

/// Returns a flag that Ctrl-C sets.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Progress bar on a terminal.
pub(super) fn workload_bar(template: &str, message: &str, length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length.max(1)), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(message.to_owned());
    bar.tick();
    bar
}

/// Runs `work` while another thread updates the bar, and removes the bar.
fn update_bar_during<T>(bar: &ProgressBar, update: impl Fn(&ProgressBar) + Send, work: impl FnOnce() -> T) -> T {
    let (done, ended) = channel::<()>();
    let result = std::thread::scope(|scope| {
        let show = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(200)) {
                update(bar);
            }
        };
        // without a thread the bar stands still
        let _ = std::thread::Builder::new().spawn_scoped(scope, show);
        let result = work();
        drop(done);
        result
    });
    bar.finish_and_clear();
    result
}

/// Converts an error: a wrong request is wrong usage.
pub(super) fn work_failure(error: WorkError) -> Failure {
    match error {
        WorkError::Usage(text) => Failure::Usage(text),
        other => Failure::Failed(other.to_string()),
    }
}

/// Removes leftovers of killed work in folders, and names them.
pub(super) fn sweep_leftovers(folders: &[&std::path::Path]) -> Result<(), Failure> {
    let mut folders = folders.to_vec();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        for name in diskwright_workload::files::remove_leftovers(folder).map_err(work_failure)? {
            output::print_note(format_args!(
                "removed {}, left behind by a killed workload",
                output::escape_name(name.display())
            ));
        }
    }
    Ok(())
}
