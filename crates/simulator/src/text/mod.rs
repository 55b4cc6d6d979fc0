//! Descriptions written in TOML: tables read key by key, quantities with their
//! units, and everything that is wrong told at once, each with its file, line
//! and item and what would be right.
//!
//! Nothing here stops at the first mistake: a field that cannot be read is
//! noted in the [`DescriptionSource`] and given back as missing, so that a reader goes on
//! with its default; [`DescriptionSource::finish`] then says what was wrong.

mod fields;
pub mod quantity;

use std::cell::RefCell;

use diskwright_base::ProblemSource;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use diskwright_base::Problem;
pub(crate) use diskwright_base::words::number;
pub use fields::DescriptionFields;
pub(crate) use fields::did_you_mean;

/// A value and where it stands.
pub type DescriptionValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Problems that are told of one file; more are not kept.
const MOST_PROBLEMS: usize = 50;

/// Everything that is wrong in a description, by line; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct Problems(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// A file being read, and what was found wrong so far.
pub struct DescriptionSource<'t> {
    text: ProblemSource<'t>,
    problems: RefCell<Vec<Problem>>,
    notes: RefCell<Vec<Problem>>,
}

impl<'t> DescriptionSource<'t> {
    /// A text; `file` is its name in what is told.
    pub fn new(file: &'t str, text: &'t str) -> DescriptionSource<'t> {
        let text = ProblemSource { file, text };
        DescriptionSource { text, problems: RefCell::default(), notes: RefCell::default() }
    }

    /// The file's name.
    pub fn file(&self) -> &'t str {
        self.text.file
    }

    /// Notes something wrong at a place in the text (bytes from its beginning).
    pub fn wrong(&self, at: usize, item: &str, message: impl Into<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MOST_PROBLEMS {
            problems.push(self.text.problem(at, item, message));
        }
    }

    /// Notes something that is not wrong but may not be meant.
    pub fn note(&self, at: usize, item: &str, message: impl Into<String>) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MOST_PROBLEMS {
            notes.push(self.text.problem(at, item, message));
        }
    }

    /// True when nothing was wrong so far.
    pub fn is_well(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Parses the text into its top table; what is no TOML is noted.
    pub fn parse(&self) -> Option<Spanned<DeTable<'t>>> {
        let (table, errors) = DeTable::parse_recoverable(self.text.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, "", format!("invalid TOML: {}", error.message()));
        }
        errors.is_empty().then_some(table)
    }

    /// What was read, with the notes, or everything that was wrong.
    ///
    /// # Errors
    /// Where anything was noted as wrong, or nothing was read.
    pub fn finish<T>(self, read: Option<T>) -> Result<(T, Vec<Problem>), Problems> {
        let mut problems = self.problems.take();
        let mut notes = self.notes.take();
        notes.sort_by_key(|n| n.line);
        match read {
            Some(read) if problems.is_empty() => Ok((read, notes)),
            _ => {
                problems.sort_by_key(|p| p.line);
                problems.dedup();
                Err(Problems(problems))
            }
        }
    }
}
