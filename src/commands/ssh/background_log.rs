//! Logs of another host for commands that read logs: `watch` follows one that grows, `advise` reads a short one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diskwright_datastore::WriterOptions;
use diskwright_sshhosts::SshTarget;
use tempfile::TempDir;

use super::arguments::SshArguments;
use super::asked_hosts::{HostRecord, collect_hosts, report_records};
use crate::commands::{Failure, output, pacer};

/// Name of the log in its temporary folder.
const LOG_NAME: &str = "log";
/// Time that settings are watched in use before they are judged.
const SHORT_LOG_TIME: Duration = Duration::from_secs(15);
/// Interval of looks for the first ticks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A log of another host in a temporary folder, which goes with this value.
pub struct TemporaryLog {
    folder: TempDir,
}

impl TemporaryLog {
    fn new() -> Result<TemporaryLog, Failure> {
        let folder = tempfile::Builder::new().prefix("diskwright-ssh-").tempdir()?;
        Ok(TemporaryLog { folder })
    }

    /// The log.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(LOG_NAME)
    }
}

fn writer_options() -> WriterOptions {
    WriterOptions { sync_every: None, ..WriterOptions::default() }
}

/// Receives a short log of the only host.
///
/// # Errors
/// When the host cannot be asked.
pub fn receive_short_log(ssh: &SshArguments, what: &str) -> Result<TemporaryLog, Failure> {
    let target = ssh.only_target(what)?;
    let options = ssh.connect_options(1, Duration::from_secs(1), Some(SHORT_LOG_TIME))?;
    let log = TemporaryLog::new()?;
    let records = collect_hosts(std::slice::from_ref(&target), (options, writer_options()), false, |_| log.path())?;
    check_record(&records)?;
    report_records(&records);
    Ok(log)
}

fn check_record(records: &[HostRecord]) -> Result<(), Failure> {
    match records.iter().find_map(|record| record.failure.as_ref().map(|failure| (&record.target, failure))) {
        Some((target, failure)) => Err(Failure::Failed(format!("{target}: {failure}"))),
        None => Ok(()),
    }
}

/// Receives the log of the only host in the background for as long as this process runs, and returns once it has two
/// ticks.
///
/// # Errors
/// When the host cannot be asked.
pub fn follow_host(ssh: &SshArguments, what: &str, every: Duration) -> Result<TemporaryLog, Failure> {
    let target = ssh.only_target(what)?;
    let options = ssh.connect_options(1, every, None)?;
    let log = TemporaryLog::new()?;
    let ended: Arc<Mutex<Option<String>>> = Arc::default();
    let (path, result) = (log.path(), Arc::clone(&ended));
    let host = target.clone();
    std::thread::Builder::new().name("ssh log".into()).spawn(move || {
        let because = follow_until_end(&host, (options, writer_options()), &path);
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(because);
    })?;
    output::print_note(format_args!("{target}: connecting"));
    wait_for_ticks(&log.path(), &ended).map_err(|because| Failure::Failed(format!("{target}: {because}")))?;
    Ok(log)
}

/// Receives until the end; returns why it ended.
fn follow_until_end(
    target: &SshTarget,
    how: (diskwright_sshhosts::ConnectOptions, WriterOptions),
    path: &Path,
) -> String {
    match super::asked_hosts::collect_quietly(std::slice::from_ref(target), how, true, |_| path.to_owned()) {
        Ok(records) => {
            records.into_iter().next().and_then(|record| record.failure).unwrap_or_else(|| "it ended".into())
        }
        Err(failure) => failure.to_string(),
    }
}

fn wait_for_ticks(path: &Path, ended: &Mutex<Option<String>>) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        if let Some(because) = ended.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(because);
        }
        // a tail with ticks is there as soon as the second tick is
        let has_ticks = path.join("tail").metadata().is_ok_and(|file| file.len() > 4096);
        if has_ticks && begin.elapsed() > Duration::from_secs(2) {
            return Ok(());
        }
        pacer::sleep_interruptibly(CHECK_INTERVAL);
    }
}
