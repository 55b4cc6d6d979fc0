//! Reader of the drive parameters of DiskSim 4.0: a `.diskspecs` file with the `.model` and `.seek` files that it
//! names, or a complete parameter file in which one drive is attached to a bus. DiskSim's manual, CMU-PDL-08-101,
//! describes the parameters in its sections on disks and on the disk model.
//!
//! Known parameters that would change times in ways that the model does not support are rejected by name, as are
//! unknown ones; docs/drives.md has the table.

mod cache;
mod disk;
mod fields;
mod layout;
mod mechanics;
mod parameter_syntax;

use crate::drive::Spec;

/// Error in a parameter file: position, what is wrong, and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct DiskspecsError {
    /// Name of the file.
    pub file: String,
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Message: what is wrong, and what is expected.
    pub message: String,
}

/// Loads the text of files by the paths that the reader joins; this crate itself opens no files.
pub trait TextLoader {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// A message for the user, if there is no such file.
    fn load(&self, path: &str) -> Result<String, String>;
}

impl<F: Fn(&str) -> Result<String, String>> TextLoader for F {
    fn load(&self, path: &str) -> Result<String, String> {
        self(path)
    }
}

/// A drive, and notes on parameters that were missing or are not modeled.
#[derive(Clone, Debug)]
pub struct DiskspecsDrive {
    /// The drive.
    pub spec: Spec,
    /// Sentences for the user, each with file and line.
    pub notes: Vec<String>,
    /// True if the time of a block over the channel is given, by the drive or by the bus of a complete parameter
    /// file.
    pub has_channel_time: bool,
}

/// Reads a drive. `text` is the content of `file`; other files come from `load`.
///
/// # Errors
/// With file, line and what is expected.
pub fn read_drive(file: &str, text: &str, load: &dyn TextLoader) -> Result<DiskspecsDrive, DiskspecsError> {
    disk::read_drive(file, text, load)
}
