//! Reading TOML tables key by key, so that whatever is wrong is told with its
//! file, line and item, and a mistyped key with the one that was meant.

use std::ops::Range;

use diskwright_base::words::{did_you_mean, number};
use diskwright_base::{DeviceClass, Problem, ProblemSource};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses the text into its top table.
pub(crate) fn parse<'a>(source: &ProblemSource<'a>) -> Result<Spanned<DeTable<'a>>, Problem> {
    DeTable::parse(source.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.problem(at, "", error.message().to_owned())
    })
}

/// A table whose keys are taken one by one; what is left at the end is unknown.
pub(crate) struct PackFields<'a, 'i> {
    pub source: &'a ProblemSource<'i>,
    pub item: String,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    known: Vec<&'static str>,
}

/// A value and where it stands.
pub(crate) type PackValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Classes of devices, as packs name them.
const CLASSES: &[(&str, DeviceClass)] = &[
    ("rotational", DeviceClass::Rotational),
    ("flash", DeviceClass::Flash),
    ("nvme", DeviceClass::Nvme),
    ("virtual", DeviceClass::Virtual),
    ("network", DeviceClass::Network),
    ("memory", DeviceClass::Memory),
    ("unknown", DeviceClass::Unknown),
];

impl<'a, 'i> PackFields<'a, 'i> {
    pub fn new(
        source: &'a ProblemSource<'i>,
        item: &str,
        table: &'a DeTable<'i>,
        span: Range<usize>,
    ) -> PackFields<'a, 'i> {
        PackFields { source, item: item.into(), table, span, known: Vec::new() }
    }

    /// The fields of a value, which must be a table.
    pub fn of(
        source: &'a ProblemSource<'i>,
        item: &str,
        value: PackValue<'a, 'i>,
    ) -> Result<PackFields<'a, 'i>, Problem> {
        match value.get_ref().as_table() {
            Some(table) => Ok(PackFields::new(source, item, table, value.span())),
            None => Err(source.problem(value.span().start, item, "expected a table")),
        }
    }

    /// Classes of devices; none where the key is not there.
    pub fn classes(&mut self, key: &'static str) -> Result<Vec<DeviceClass>, Problem> {
        let texts = self.texts(key)?;
        texts.iter().map(|(text, value)| self.pick(key, text, value, CLASSES)).collect()
    }

    /// An error at the table.
    pub fn wrong(&self, message: impl Into<String>) -> Problem {
        self.source.problem(self.span.start, &self.item, message)
    }

    /// An error at a value.
    pub fn wrong_at(&self, value: PackValue<'_, '_>, message: impl Into<String>) -> Problem {
        self.source.problem(value.span().start, &self.item, message)
    }

    /// A key's value, marked as known.
    pub fn take(&mut self, key: &'static str) -> Option<PackValue<'a, 'i>> {
        self.known.push(key);
        // the map's key type carries a span that takes no part in comparisons
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    fn expected(&self, key: &str, what: &str, value: PackValue<'_, '_>) -> Problem {
        let found = value.get_ref().type_str();
        self.wrong_at(value, format!("`{key}` must be {what}, not {found}"))
    }

    /// A text, where there is one.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Problem> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.expected(key, "a text", value)),
        }
    }

    /// A text that must be there and say something.
    pub fn needed(&mut self, key: &'static str) -> Result<String, Problem> {
        match self.text(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(self.wrong(format!("`{key}` is empty"))),
            None => Err(self.wrong(format!("`{key}` is missing"))),
        }
    }

    /// A number, where there is one.
    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>, Problem> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match number(value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.expected(key, "a number", value)),
        }
    }

    /// True or false, where it is said.
    pub fn truth(&mut self, key: &'static str) -> Result<Option<bool>, Problem> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.get_ref().as_bool() {
            Some(truth) => Ok(Some(truth)),
            None => Err(self.expected(key, "true or false", value)),
        }
    }

    /// A list of values; a missing one is empty.
    pub fn list(&mut self, key: &'static str) -> Result<Vec<PackValue<'a, 'i>>, Problem> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        match value.get_ref().as_array() {
            Some(array) => Ok(array.iter().collect()),
            None => Err(self.expected(key, "a list", value)),
        }
    }

    /// A list of texts with their places.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<(String, PackValue<'a, 'i>)>, Problem> {
        let values = self.list(key)?;
        let text = |value: PackValue<'a, 'i>| match value.get_ref().as_str() {
            Some(text) => Ok((text.to_owned(), value)),
            None => Err(self.expected(key, "a list of texts", value)),
        };
        values.into_iter().map(text).collect()
    }

    /// One of a set of words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Result<Option<T>, Problem> {
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
    ) -> Result<T, Problem> {
        let known = words.iter().map(|(word, _)| *word);
        words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = known.collect();
            let near = did_you_mean(text, known.iter().copied());
            self.wrong_at(value, format!("`{key}` cannot be `{text}`{near}; it takes {}", known.join(", ")))
        })
    }

    /// Refuses whatever key was not asked for.
    pub fn finish(&self) -> Result<(), Problem> {
        let unknown = self.table.iter().map(|(key, _)| key).filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let near = did_you_mean(key.get_ref(), self.known.iter().copied());
                let message = format!("unknown key `{}`{near}", key.get_ref());
                Err(self.source.problem(key.span().start, &self.item, message))
            }
        }
    }
}
