//! What was found in a bundle so far.

use std::path::PathBuf;
use std::rc::Rc;

use crate::report::Reporter;
use crate::temporary::TemporaryFolder;

/// A log that was found in a bundle.
pub struct FoundLog {
    pub path: PathBuf,
    /// Its name in messages.
    pub name: String,
    /// Id of its format.
    pub format: &'static str,
}

/// Contents of a bundle.
pub struct BundleContent {
    pub logs: Vec<FoundLog>,
    /// Number of files that are not logs.
    pub other_files: usize,
    /// Files that could not be examined, and why.
    pub refused: Vec<String>,
    /// Number of archives that were unpacked.
    pub archives: usize,
    /// Number of bytes written for all unpacked archives.
    pub bytes: u64,
    /// Temporary folder with the unpacked files.
    pub unpacked: Option<Rc<TemporaryFolder>>,
    pub reporter: Reporter,
}

impl BundleContent {
    pub fn new(reporter: &Reporter) -> BundleContent {
        BundleContent {
            logs: Vec::new(),
            other_files: 0,
            refused: Vec::new(),
            archives: 0,
            bytes: 0,
            unpacked: None,
            reporter: reporter.clone(),
        }
    }
}
