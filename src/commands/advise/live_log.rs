//! The log that is being recorded on this host now: in an outage, `advise` takes its last minutes without being told.
//!
//! The log may lie on the very disk that is in trouble, so it is read in a thread with a deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use diskwright_base::units::format_count;
use diskwright_datastore::{RecordedLog, find_recorded_logs};
use diskwright_hostfiles::deadline::collect_within;
use diskwright_ingest::{Input, Reporter};

use super::advised_host::{RecordedHost, is_this_host};
use crate::commands::Failure;
use crate::commands::log::{self, LogWindow};
use crate::commands::time_argument;

/// The last part of the log, as `--from` is written: long enough for rules that ask for a minute, and still about now.
const RECENT_WINDOW: &str = "-5m";
/// The same in words.
const RECENT_WINDOW_WORDS: &str = "last 5 minutes";
/// Time limit for reading all logs together. Five minutes of a log take less than a second.
const DEADLINE: Duration = Duration::from_secs(10);
/// Largest number of logs that are read.
const MAX_LOGS: usize = 8;

/// The log that was found, and what it says.
#[derive(Default)]
pub struct FoundLog {
    pub dir: Option<PathBuf>,
    pub recorded: Option<RecordedHost>,
    pub remarks: Vec<String>,
}

impl FoundLog {
    /// No log was looked for.
    pub fn not_wanted() -> FoundLog {
        FoundLog { remarks: vec![describe_missing("no log was given")], ..FoundLog::default() }
    }
}

fn describe_missing(what: &str) -> String {
    format!("{what}, so what matters under load is unknown; give one, or record one with `record`")
}

/// What became of one log.
enum ReadLog {
    /// It is of this host. The last time in it, nanoseconds since 1970 UTC, is that of its window's end.
    OfThisHost {
        dir: PathBuf,
        end_ns: i64,
        recorded: Box<RecordedHost>,
    },
    /// It is of another host: an import, or a recorder of a remote one.
    OfAnother,
    Unreadable {
        dir: PathBuf,
        because: String,
    },
}

/// Finds the log that is being recorded on this host, and reads its last minutes. Of several, the one with the latest
/// tick is taken, and the others are named.
pub fn read_live_log() -> FoundLog {
    let mut logs = find_recorded_logs(Path::new("/proc"));
    logs.truncate(MAX_LOGS);
    let paths: Vec<PathBuf> = logs.iter().map(|log| log.dir.clone()).collect();
    let (mut results, _) = collect_within(DEADLINE, move |sender| {
        let _ = logs.iter().try_for_each(|log| sender.send(read_log(log)));
    });
    if let Some(dir) = paths.get(results.len()).cloned() {
        let because = format!("it did not respond within {} s", DEADLINE.as_secs());
        results.push(ReadLog::Unreadable { dir, because });
    }
    choose_log(results)
}

fn read_log(log: &RecordedLog) -> ReadLog {
    let open_from = |from: String| {
        let window = LogWindow::default().with_ends(Some(from), None);
        log::open_input(&Input::from_paths(std::slice::from_ref(&log.dir), &Reporter::silent()), &window)
    };
    let read = || -> Result<(i64, RecordedHost), Failure> {
        let logs = open_from(RECENT_WINDOW.into())?;
        let mut recorded = RecordedHost::read(&logs)?;
        // an outage that has ended is not the one that somebody asks about
        if let Some(ended_ns) = recorded.ended_ns() {
            let since = open_from(time_argument::rfc3339(ended_ns))?;
            recorded.replace_verdict(RecordedHost::read(&since)?, ended_ns);
        }
        Ok((logs.range_ns.1, recorded))
    };
    match read() {
        Ok((_, recorded)) if !is_this_host(&recorded.topology) => ReadLog::OfAnother,
        Ok((end_ns, recorded)) => ReadLog::OfThisHost { dir: log.dir.clone(), end_ns, recorded: Box::new(recorded) },
        Err(error) => ReadLog::Unreadable { dir: log.dir.clone(), because: error.to_string() },
    }
}

/// Takes the log with the latest tick, and says so.
fn choose_log(results: Vec<ReadLog>) -> FoundLog {
    let mut own = Vec::new();
    let mut remarks = Vec::new();
    for result in results {
        match result {
            ReadLog::OfThisHost { dir, end_ns, recorded } => own.push((end_ns, dir, recorded)),
            ReadLog::OfAnother => {}
            ReadLog::Unreadable { dir, because } => {
                remarks.push(format!("a log is being recorded in {}, but {because}", dir.display()));
            }
        }
    }
    own.sort_by_key(|(end_ns, ..)| *end_ns);
    let Some((_, dir, recorded)) = own.pop() else {
        remarks.push(describe_missing("no log was given, and none that this user can read is being recorded here"));
        return FoundLog { remarks, ..FoundLog::default() };
    };
    remarks.insert(0, format!("the log being recorded in {} was used, its {RECENT_WINDOW_WORDS}", dir.display()));
    if let Some((_, other, _)) = own.last() {
        let others = format_count(own.len() as u64, "other log is", "other logs are");
        remarks.push(format!("{others} being recorded here, such as {}: name one to use it instead", other.display()));
    }
    FoundLog { dir: Some(dir), recorded: Some(*recorded), remarks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(dir: &str, end_ns: i64) -> ReadLog {
        ReadLog::OfThisHost { dir: dir.into(), end_ns, recorded: Box::default() }
    }

    #[test]
    fn takes_the_log_with_the_latest_tick_and_names_the_others() {
        let found = choose_log(vec![own("/old", 1), own("/new", 3), ReadLog::OfAnother, own("/older", 2)]);
        assert_eq!(found.dir.as_deref(), Some(Path::new("/new")));
        assert!(
            found.remarks[0].contains("/new") && found.remarks[0].contains("last 5 minutes"),
            "{:?}",
            found.remarks
        );
        assert!(
            found.remarks[1].contains("2 other logs are") && found.remarks[1].contains("/older"),
            "{:?}",
            found.remarks
        );
    }

    #[test]
    fn says_that_a_log_does_not_respond_and_that_none_was_used() {
        let hung = ReadLog::Unreadable { dir: "/hung".into(), because: "it did not respond within 10 s".into() };
        let found = choose_log(vec![hung]);
        assert!(found.dir.is_none() && found.recorded.is_none());
        assert!(found.remarks[0].contains("/hung, but it did not respond"), "{:?}", found.remarks);
        assert!(found.remarks[1].contains("is unknown"), "{:?}", found.remarks);
        let found = choose_log(vec![ReadLog::OfAnother]);
        assert!(found.recorded.is_none() && found.remarks.len() == 1, "an import is not this host's");
    }
}
