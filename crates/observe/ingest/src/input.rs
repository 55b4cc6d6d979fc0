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

    /// Opens everything as logs of one machine.
    ///
    /// # Errors
    /// When a log that the user named cannot be read or placed, or none can; when the store gives no answer.
    pub fn open(&self, reading: &ReadingOptions) -> Result<OpenedLogs, IngestError> {
        match &self.origin {
            Origin::Store(store, query) => open_store(store, query, &self.reporter),
            Origin::Paths(_) => OpenedLogs::open(self.logs()?, reading, &self.reporter),
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
