//! One log that was named or found, and how its content is opened.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use diskwright_datastore::is_log;
use diskwright_logs::{LogInput, prometheus};

use crate::IngestError;
use crate::reading_options::ReadingOptions;
use crate::temporary::TemporaryFolder;

/// Name of standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// A log to read: a file, several files that form one log, or content that is held in memory.
#[derive(Clone)]
pub struct GivenLog {
    /// Its path. It may be a Diskwright log.
    pub path: PathBuf,
    /// Its name in messages.
    pub name: String,
    /// True for a file of a bundle: if it cannot be read, the others still are.
    pub is_bundled: bool,
    /// Pages of metrics that are read as one log; empty for any other log.
    pub(crate) pages: Vec<(PathBuf, String)>,
    /// Temporary folders of the unpacked bundles that its files are from. They are removed with the last log that
    /// needs them.
    pub(crate) unpacked: Vec<Rc<TemporaryFolder>>,
    /// Its content, if it is not that of a file.
    pub(crate) held: Option<HeldContent>,
}

/// Content of a log that is not that of a file.
#[derive(Clone)]
pub(crate) enum HeldContent {
    /// Output of one tool, cut from a text.
    Section(HeldSection),
    /// Standard input or a pipe, which is read only once: all of it.
    Whole(Rc<[u8]>),
    /// The same, if it is too long to be held: opened, until it is read.
    Opened(Rc<RefCell<Option<LogInput>>>),
}

/// Output of one tool, cut from a text, with what the text around it says.
#[derive(Clone)]
pub(crate) struct HeldSection {
    pub text: Rc<str>,
    pub program: String,
    /// First and last line in the text.
    pub lines: (usize, usize),
    pub interval: Option<Duration>,
    pub is_first_report_kept: bool,
    /// Machine; empty if nothing names it.
    pub host: String,
    /// Number of the run that it belongs to, and the name that a person gave it.
    pub run: usize,
    pub run_name: String,
}

impl GivenLog {
    /// A log that the user named.
    pub(crate) fn given_directly(path: &Path) -> GivenLog {
        GivenLog {
            path: path.to_owned(),
            name: if path == Path::new("-") { STANDARD_INPUT.to_owned() } else { path.display().to_string() },
            is_bundled: false,
            pages: Vec::new(),
            unpacked: Vec::new(),
            held: None,
        }
    }

    /// Returns the options for reading it: what its command line says is added.
    pub(crate) fn reading_options(&self, reading: &ReadingOptions) -> ReadingOptions {
        match &self.held {
            Some(HeldContent::Section(section)) => reading.with_section(section),
            _ => reading.clone(),
        }
    }

    /// True for a Diskwright log, and for a folder that must be one.
    pub fn is_ours(&self) -> bool {
        self.held.is_none() && (self.path.is_dir() || is_log(&self.path))
    }

    /// True for the output of one tool, cut from a text.
    pub(crate) fn is_section(&self) -> bool {
        self.section().is_some()
    }

    /// The section, if it was cut from a text.
    pub(crate) fn section(&self) -> Option<&HeldSection> {
        match &self.held {
            Some(HeldContent::Section(section)) => Some(section),
            _ => None,
        }
    }

    /// True for several files that are read as one log.
    pub fn has_several_files(&self) -> bool {
        !self.pages.is_empty()
    }

    /// True if its content can be opened more than once.
    pub(crate) fn can_be_read_again(&self) -> bool {
        match &self.held {
            Some(HeldContent::Opened(_)) => false,
            Some(_) => true,
            None => self.input_files().iter().all(|(path, _)| path.is_file()),
        }
    }

    /// Opens a log of another tool.
    pub(crate) fn open(&self) -> Result<LogInput, IngestError> {
        match &self.held {
            Some(HeldContent::Section(section)) => {
                Ok(LogInput::from_bytes(&self.name, section.text.as_bytes().to_vec())?)
            }
            Some(HeldContent::Whole(bytes)) => Ok(LogInput::from_bytes(&self.name, bytes.to_vec())?),
            Some(HeldContent::Opened(input)) => {
                input.borrow_mut().take().ok_or_else(|| IngestError::ReadOnce { name: self.name.clone() })
            }
            None if self.has_several_files() => Ok(prometheus::open_joined(self.pages.clone())?),
            None => Ok(LogInput::open_named(&self.path, &self.name)?),
        }
    }

    /// Paths and names of its files.
    pub fn input_files(&self) -> Vec<(PathBuf, String)> {
        if self.pages.is_empty() { vec![(self.path.clone(), self.name.clone())] } else { self.pages.clone() }
    }
}
