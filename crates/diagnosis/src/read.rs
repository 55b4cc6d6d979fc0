//! Reading TOML tables key by key, so that whatever is wrong is told with its
//! file, line and item, and a mistyped key with the one that was meant.

use std::ops::Range;

use diskwright_base::words::{nearest, number};
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong in a pack, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {item}{}{message}", if item.is_empty() { "" } else { ": " })]
pub struct RuleError {
    /// File, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// `rule disk.q`, `pack`, or empty where the file is no TOML at all.
    pub item: String,
    /// What is wrong.
    pub message: String,
}

/// A file being read.
pub(crate) struct PackSource<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl PackSource<'_> {
    /// An error at a place in the text.
    pub fn error(&self, at: usize, item: &str, message: impl Into<String>) -> RuleError {
        RuleError { file: self.file.into(), line: self.line(at), item: item.into(), message: message.into() }
    }

    /// Line of a place in the text, from 1.
    pub fn line(&self, at: usize) -> usize {
        let end = at.min(self.text.len());
        1 + self.text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count()
    }
}

/// Parses the text into its top table.
pub(crate) fn parse<'a>(source: &PackSource<'a>) -> Result<Spanned<DeTable<'a>>, RuleError> {
    DeTable::parse(source.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, "", error.message().to_owned())
    })
}

/// A table whose keys are taken one by one; what is left at the end is unknown.
pub(crate) struct PackFields<'a, 'i> {
    pub source: &'a PackSource<'i>,
    pub item: String,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    known: Vec<&'static str>,
}

/// A value and where it stands.
pub(crate) type PackValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

impl<'a, 'i> PackFields<'a, 'i> {
    pub fn new(
        source: &'a PackSource<'i>,
        item: &str,
        table: &'a DeTable<'i>,
        span: Range<usize>,
    ) -> PackFields<'a, 'i> {
        PackFields { source, item: item.into(), table, span, known: Vec::new() }
    }

    /// The fields of a value, which must be a table.
    pub fn of(
        source: &'a PackSource<'i>,
        item: &str,
        value: PackValue<'a, 'i>,
    ) -> Result<PackFields<'a, 'i>, RuleError> {
        match value.get_ref().as_table() {
            Some(table) => Ok(PackFields::new(source, item, table, value.span())),
            None => Err(source.error(value.span().start, item, "expected a table")),
        }
    }

    /// An error at the table.
    pub fn wrong(&self, message: impl Into<String>) -> RuleError {
        self.source.error(self.span.start, &self.item, message)
    }

    /// An error at a value.
    pub fn wrong_at(&self, value: PackValue<'_, '_>, message: impl Into<String>) -> RuleError {
        self.source.error(value.span().start, &self.item, message)
    }

    /// A key's value, marked as known.
    pub fn take(&mut self, key: &'static str) -> Option<PackValue<'a, 'i>> {
        self.known.push(key);
        // the map's key type carries a span that takes no part in comparisons
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    fn expected(&self, key: &str, what: &str, value: PackValue<'_, '_>) -> RuleError {
        let found = value.get_ref().type_str();
        self.wrong_at(value, format!("`{key}` must be {what}, not {found}"))
    }

    /// A text, where there is one.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, RuleError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.expected(key, "a text", value)),
        }
    }

    /// A text that must be there and say something.
    pub fn needed(&mut self, key: &'static str) -> Result<String, RuleError> {
        match self.text(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(self.wrong(format!("`{key}` is empty"))),
            None => Err(self.wrong(format!("`{key}` is missing"))),
        }
    }

    /// A number, where there is one.
    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>, RuleError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match number(value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.expected(key, "a number", value)),
        }
    }

    /// True or false, where it is said.
    pub fn truth(&mut self, key: &'static str) -> Result<Option<bool>, RuleError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.get_ref().as_bool() {
            Some(truth) => Ok(Some(truth)),
            None => Err(self.expected(key, "true or false", value)),
        }
    }

    /// A list of values; a missing one is empty.
    pub fn list(&mut self, key: &'static str) -> Result<Vec<PackValue<'a, 'i>>, RuleError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        match value.get_ref().as_array() {
            Some(array) => Ok(array.iter().collect()),
            None => Err(self.expected(key, "a list", value)),
        }
    }

    /// A list of texts with their places.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<(String, PackValue<'a, 'i>)>, RuleError> {
        let values = self.list(key)?;
        let text = |value: PackValue<'a, 'i>| match value.get_ref().as_str() {
            Some(text) => Ok((text.to_owned(), value)),
            None => Err(self.expected(key, "a list of texts", value)),
        };
        values.into_iter().map(text).collect()
    }

    /// One of a set of words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Result<Option<T>, RuleError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let Some(text) = value.get_ref().as_str() else { return Err(self.expected(key, "a text", value)) };
        self.pick(key, text, value, words).map(Some)
    }

    /// The meaning of one word of a set.
    pub fn pick<T: Copy>(
        &self,
        key: &str,
        text: &str,
        value: PackValue<'_, '_>,
        words: &[(&'static str, T)],
    ) -> Result<T, RuleError> {
        let known = words.iter().map(|(word, _)| *word);
        words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = known.collect();
            let near = suggestion(text, &known);
            self.wrong_at(value, format!("`{key}` cannot be `{text}`{near}; it takes {}", known.join(", ")))
        })
    }

    /// Refuses whatever key was not asked for.
    pub fn finish(&self) -> Result<(), RuleError> {
        let unknown = self.table.iter().map(|(key, _)| key).filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let near = suggestion(key.get_ref(), &self.known);
                let message = format!("unknown key `{}`{near}", key.get_ref());
                Err(self.source.error(key.span().start, &self.item, message))
            }
        }
    }
}

fn suggestion(word: &str, known: &[&'static str]) -> String {
    nearest(word, known.iter().copied()).map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}
