//! The only reader of TOML files. It reports all mistakes at once, each
//! with its file, line and item, and a mistyped key with the one that was probably meant.
//!
//! - Data whose shape is a serde type: [`read`] (a file) and [`TomlSource::deserialize_value`] (a table).
//! - Data with units or rules between keys: [`TomlSource`] and its [`TomlFields`], key by key.
//!   A field that cannot be read is recorded in the source and returned as missing, so that the
//!   reader continues; [`TomlSource::into_result`] then returns all problems.
//!
//! ```
//! use diskwright_base::toml_reader::{TomlFields, TomlSource, read};
//!
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Shelf {
//!     bays: u32,
//!     maker: String,
//! }
//! let wrong = read::<Shelf>("shelf.toml", "bay = 12\nmaker = 3").unwrap_err();
//! assert_eq!(wrong.0[0].to_string(), "shelf.toml:1: unknown key `bay`; did you mean `bays`?");
//! assert_eq!(wrong.0[1].to_string(), "shelf.toml:2: `maker`: invalid type: integer `3`, expected a string");
//!
//! let source = TomlSource::new("disk.toml", "seek = '8ms'\nrotation = 7200");
//! let seek = source.parse().map(|table| {
//!     let fields = TomlFields::for_root_table(&source, &table);
//!     let seek = fields.read_time_ns("seek");
//!     fields.reject_unknown_keys();
//!     seek
//! });
//! let wrong = source.into_result(seek).unwrap_err();
//! assert_eq!(wrong.to_string(), "disk.toml:2: unknown key `rotation`; known keys are seek");
//! ```

mod fields;
pub mod quantity;
mod serde_values;

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use crate::user_input::{did_you_mean, toml_number};
pub use crate::{Problem, ProblemSource, Problems};
pub use fields::TomlFields;

/// A value and its span in the text.
pub type TomlValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Largest number of problems that are kept and reported for one file.
const MAX_PROBLEMS: usize = 50;

/// Reads a file whose shape is a serde type; `file` is its name in messages.
///
/// # Errors
/// Everything that is wrong, by line.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Problems> {
    if let Ok(read) = toml::from_str(text) {
        return Ok(read);
    }
    let source = TomlSource::new(file, text);
    let read = source.parse().and_then(|table| {
        let span = table.span();
        source.deserialize_value("", Spanned::new(span, DeValue::Table(table.into_inner())))
    });
    source.into_result(read).map(|(read, _)| read)
}

/// Reads a file that is embedded in the program.
///
/// # Panics
/// With all its problems where it is invalid; a test of the crate that holds it reads it.
pub fn read_built_in<T: DeserializeOwned>(file: &str, text: &str) -> T {
    read(file, text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A file being read, and the problems found in it so far.
pub struct TomlSource<'t> {
    text: ProblemSource<'t>,
    problems: RefCell<Vec<Problem>>,
    notes: RefCell<Vec<Problem>>,
}

impl<'t> TomlSource<'t> {
    /// Starts to read a text; `file` is its name in messages.
    pub fn new(file: &'t str, text: &'t str) -> TomlSource<'t> {
        let text = ProblemSource { file, text };
        TomlSource { text, problems: RefCell::default(), notes: RefCell::default() }
    }

    /// The file's name.
    pub fn file_name(&self) -> &'t str {
        self.text.file
    }

    /// Line of a byte offset in the text, from 1.
    pub fn line_number(&self, offset: usize) -> usize {
        self.text.line_number(offset)
    }

    /// Records a problem at a byte offset in the text.
    pub fn report_problem(&self, offset: usize, item: &str, message: impl Into<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MAX_PROBLEMS {
            problems.push(self.text.create_problem(offset, item, message));
        }
    }

    /// Records a remark on something that is valid but may be a mistake.
    pub fn report_note(&self, offset: usize, item: &str, message: impl Into<String>) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MAX_PROBLEMS {
            notes.push(self.text.create_problem(offset, item, message));
        }
    }

    /// Returns true if no problem was recorded so far.
    pub fn has_no_problems(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Parses the text into its root table; syntax errors are recorded.
    pub fn parse(&self) -> Option<Spanned<DeTable<'t>>> {
        let (table, errors) = DeTable::parse_recoverable(self.text.text);
        for error in &errors {
            let offset = error.span().map_or(0, |span| span.start);
            self.report_problem(offset, "", format!("invalid TOML: {}", error.message()));
        }
        errors.is_empty().then_some(table)
    }

    /// Deserializes a value whose shape is a serde type that refuses unknown keys
    /// (`deny_unknown_fields`); all its problems are recorded. `item` names the value in messages.
    pub fn deserialize_value<T: DeserializeOwned>(&self, item: &str, value: Spanned<DeValue<'t>>) -> Option<T> {
        serde_values::deserialize_reporting_all(self, item, value)
    }

    /// Returns the data with the remarks, or all problems.
    ///
    /// # Errors
    /// Where any problem was recorded, or nothing was read.
    pub fn into_result<T>(self, read: Option<T>) -> Result<(T, Vec<Problem>), Problems> {
        let mut problems = self.problems.take();
        let mut notes = self.notes.take();
        notes.sort_by_key(|n| n.line);
        match read {
            Some(read) if problems.is_empty() => Ok((read, notes)),
            _ => {
                problems.sort_by_key(|p| p.line);
                problems.dedup();
                // a reader that returns nothing should have recorded why
                if problems.is_empty() {
                    problems.push(self.text.create_problem(0, "", "could not be read"));
                }
                Err(Problems(problems))
            }
        }
    }
}
