//! What a command line names.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use diskwright_logs::ReadSummary;
use diskwright_remote::MetricStore;
use diskwright_remote::host::HostQuery;
use diskwright_traces::{Trace, TraceFormat};

use crate::IngestError;
use crate::found_logs::find_logs;
use crate::given_log::GivenLog;
use crate::logs::OpenedLogs;
use crate::reading_options::ReadingOptions;
use crate::report::Reporter;
use crate::request_traces::is_request_trace;
use crate::store::{import_store, open_store};
use crate::streamed_log::StreamedLog;
use crate::text_groups::{self, TextGroup};

/// What a command line names: logs of ours and of other tools, standard input, folders and archives of logs, pasted
/// text, a request trace, or one machine of a metric store. Nothing is opened before it is asked for.
pub struct Input {
    origin: Origin,
    /// The logs, once they were looked for.
    logs: OnceCell<Vec<GivenLog>>,
    reporter: Reporter,
}

enum Origin {
    Paths(Vec<PathBuf>),
    Store(Box<MetricStore>, HostQuery),
}

impl Input {
    /// Names files and folders; `-` is standard input.
    pub fn from_paths(paths: &[PathBuf], reporter: &Reporter) -> Input {
        Input { origin: Origin::Paths(paths.to_vec()), logs: OnceCell::new(), reporter: reporter.clone() }
    }

    /// Names one machine of a store, and a window of it.
    pub fn from_store(store: MetricStore, query: HostQuery, reporter: &Reporter) -> Input {
        Input { origin: Origin::Store(Box::new(store), query), logs: OnceCell::new(), reporter: reporter.clone() }
    }

    /// True for a store, whose window was fixed when it was named.
    pub fn is_store(&self) -> bool {
        matches!(self.origin, Origin::Store(..))
    }

    /// True if the first path is a request trace, also if its format must be given by the user. Standard input is only
    /// peeked at.
    pub fn is_request_trace(&self) -> bool {
        is_request_trace(self.paths())
    }

    /// Opens a request trace; its format is recognized by its content if none is given.
    ///
    /// # Errors
    /// When it cannot be read, or is no request trace.
    pub fn open_requests(&self, format: Option<&'static TraceFormat>) -> Result<Trace, IngestError> {
        Ok(match format {
            Some(format) => diskwright_traces::open_with_format(self.paths(), format)?,
            None => diskwright_traces::open(self.paths())?,
        })
    }

    /// The logs, found and recognized at the first call, but not read; none of a store.
    ///
    /// # Errors
    /// When a folder or archive has no log.
    pub fn logs(&self) -> Result<&[GivenLog], IngestError> {
        if self.logs.get().is_none() {
            let _ = self.logs.set(find_logs(self.paths(), &self.reporter)?);
        }
        Ok(self.logs.get().map_or(&[], Vec::as_slice))
    }

    /// True for what several tools or runs printed into one text.
    ///
    /// # Errors
    /// When a folder or archive has no log.
    pub fn is_one_text(&self) -> Result<bool, IngestError> {
        let logs = self.logs()?;
        Ok(logs.len() > 1 && logs.iter().all(|log| log.is_section() && log.path == logs[0].path))
    }

    /// Machines and runs of a pasted text, of which each is to be judged by itself; none of anything else.
    ///
    /// # Errors
    /// When a folder or archive has no log.
    pub fn text_groups(&self, reading: &ReadingOptions) -> Result<Vec<TextGroup>, IngestError> {
        if self.is_store() {
            return Ok(Vec::new());
        }
        Ok(text_groups::group_logs(self.logs()?, reading.wanted_host()))
    }

    /// Returns the part of a text that is of one machine or run.
    ///
    /// # Errors
    /// When a folder or archive has no log.
    pub fn for_group(&self, group: &TextGroup) -> Result<Input, IngestError> {
        let all = self.logs()?;
        let logs: Vec<GivenLog> = group.logs.iter().filter_map(|index| all.get(*index)).cloned().collect();
        let origin = Origin::Paths(self.paths().to_vec());
        Ok(Input { origin, logs: OnceCell::from(logs), reporter: self.reporter.clone() })
    }

    /// Opens everything as logs of one machine.
    ///
    /// # Errors
    /// When a log that the user named cannot be read or placed, or none can; when the store gives no answer.
    pub fn open(&self, reading: &ReadingOptions) -> Result<OpenedLogs, IngestError> {
        match &self.origin {
            Origin::Store(store, query) => open_store(store, query, &self.reporter),
            Origin::Paths(_) => {
                let groups = self.text_groups(reading)?;
                let all = self.logs()?;
                if reading.wanted_host().is_none() || groups.is_empty() {
                    return OpenedLogs::open(all, reading, &self.reporter);
                }
                let wanted: Vec<GivenLog> =
                    groups.iter().flat_map(|g| &g.logs).map(|index| all[*index].clone()).collect();
                OpenedLogs::open(&wanted, reading, &self.reporter)
            }
        }
    }

    /// Returns the only log, to be handed on while it is read; `None` if there are several, it is one of ours, or it
    /// can be read only once, as a pipe.
    ///
    /// # Errors
    /// When a folder or archive has no log.
    pub fn stream(&self, reading: &ReadingOptions) -> Result<Option<StreamedLog<'_>>, IngestError> {
        let log = if let [log] = self.logs()? { Some(log) } else { None };
        Ok(log.and_then(|log| StreamedLog::new(log, reading, &self.reporter)))
    }

    /// Reads the machine of a store into a Diskwright log; `None` if this is no store.
    ///
    /// # Errors
    /// When the store gives no answer, or the log cannot be written.
    pub fn import_store(&self, to: &Path) -> Result<Option<ReadSummary>, IngestError> {
        let Origin::Store(store, query) = &self.origin else { return Ok(None) };
        import_store(store, query, to, &self.reporter).map(Some)
    }

    fn paths(&self) -> &[PathBuf] {
        match &self.origin {
            Origin::Paths(paths) => paths,
            Origin::Store(..) => &[],
        }
    }
}
