//! Reads the drive parameters of DiskSim 4.0: a `.diskspecs` file with the
//! `.model` and `.seek` files it names, or a whole parameter file in which one
//! drive hangs on a bus. The parameters are those of its manual,
//! CMU-PDL-08-101, sections on disks and on the disk model.
//!
//! What is known and would change times that the model cannot change is refused by
//! name, as is what is not known; docs/drives.md has the table.

mod cache;
mod disk;
mod fields;
mod layout;
mod mechanics;
mod syntax;

use crate::drive::Spec;

/// What is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct DiskspecsError {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// Where the text of files comes from, by names as the reader joined them;
/// this crate itself opens none.
pub trait TextLoader {
    /// The text of a file, or why there is none.
    ///
    /// # Errors
    /// A sentence for people.
    fn load(&self, path: &str) -> Result<String, String>;
}

impl<F: Fn(&str) -> Result<String, String>> TextLoader for F {
    fn load(&self, path: &str) -> Result<String, String> {
        self(path)
    }
}

/// A drive, and what was not said or not modelled.
#[derive(Clone, Debug)]
pub struct Diskspecs {
    /// The drive.
    pub spec: Spec,
    /// Sentences, each with its place.
    pub notes: Vec<String>,
    /// The time of a block over the channel is told: by the drive, or by the
    /// bus of a whole parameter file.
    pub channel_is_told: bool,
}

/// Reads a drive. `text` is what `file` holds; other files come from `load`.
///
/// # Errors
/// With file, line and what would be right.
pub fn read(file: &str, text: &str, load: &dyn TextLoader) -> Result<Diskspecs, DiskspecsError> {
    disk::read(file, text, load)
}
