//! One table of a file, read key by key.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use super::quantity::{self, QuantityError, QuantityKind};
use super::{TomlSource, TomlValue};
use crate::units::BLOCK_BYTES;
use crate::user_input::{did_you_mean, toml_number};

/// A table whose keys are read one by one; keys that were not read are unknown.
///
/// Each `read_` method returns `None` where the key is missing and where its value is
/// wrong; a wrong value is recorded in the source.
pub struct TomlFields<'a, 't> {
    /// The file.
    pub source: &'a TomlSource<'t>,
    /// Name of the table in messages: `drive \`data\``.
    pub item: String,
    table: &'a DeTable<'t>,
    span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a, 't> TomlFields<'a, 't> {
    /// The fields of a table at `span` of the text.
    pub fn new(
        source: &'a TomlSource<'t>,
        item: &str,
        table: &'a DeTable<'t>,
        span: Range<usize>,
    ) -> TomlFields<'a, 't> {
        TomlFields { source, item: item.to_owned(), table, span, known: RefCell::default() }
    }

    /// The fields of a file's root table.
    pub fn for_root_table(source: &'a TomlSource<'t>, table: &'a Spanned<DeTable<'t>>) -> TomlFields<'a, 't> {
        TomlFields::new(source, "", table.get_ref(), table.span())
    }

    /// The fields of a value; records a problem and returns `None` where it is not a table.
    pub fn from_value(source: &'a TomlSource<'t>, item: &str, value: TomlValue<'a, 't>) -> Option<TomlFields<'a, 't>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = value.get_ref().type_str();
            source.report_problem(value.span().start, item, format!("expected a table, found {}", with_article(found)));
        }
        table.map(|table| TomlFields::new(source, item, table, value.span()))
    }

    /// The table and its span.
    pub fn table(&self) -> (&'a DeTable<'t>, Range<usize>) {
        (self.table, self.span.clone())
    }

    /// Records a problem of the table as a whole.
    pub fn report_problem(&self, message: impl Into<String>) {
        self.source.report_problem(self.span.start, &self.item, message);
    }

    /// Records a problem of a key, or of the table where the key is missing.
    pub fn report_key_problem(&self, key: &str, message: impl Into<String>) {
        self.source.report_problem(self.value_offset(key), &self.item, message);
    }

    /// Records a remark on a key whose value is valid but may be a mistake.
    pub fn report_key_note(&self, key: &str, message: impl Into<String>) {
        self.source.report_note(self.value_offset(key), &self.item, message);
    }

    /// Byte offset of a key's value in the text; of the table where the key is missing.
    pub fn value_offset(&self, key: &str) -> usize {
        self.find_value(key).map_or(self.span.start, |value| value.span().start)
    }

    /// Returns true if the key is present; it is not marked as known.
    pub fn has_key(&self, key: &str) -> bool {
        self.find_value(key).is_some()
    }

    fn find_value(&self, key: &str) -> Option<TomlValue<'a, 't>> {
        // the map's key type carries a span that takes no part in comparisons
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns a key's value and marks the key as known.
    pub fn read_value(&self, key: &'static str) -> Option<TomlValue<'a, 't>> {
        self.mark_known(&[key]);
        self.find_value(key)
    }

    /// Marks keys as known that another reader of the same table reads.
    pub fn mark_known(&self, keys: &[&'static str]) {
        let mut known = self.known.borrow_mut();
        for key in keys.iter().copied() {
            // a key that is read twice is listed once
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }

    fn report_wrong_type(&self, key: &str, description: &str, value: TomlValue<'_, '_>) {
        let found = value.get_ref().type_str();
        let message = format!("`{key}` must be {description}, not {}", with_article(found));
        self.source.report_problem(value.span().start, &self.item, message);
    }

    /// Reads a text that is not empty.
    pub fn read_text(&self, key: &'static str) -> Option<&'a str> {
        let value = self.read_value(key)?;
        match value.get_ref().as_str() {
            Some(text) if text.trim().is_empty() => {
                self.report_key_problem(key, format!("`{key}` is empty"));
                None
            }
            Some(text) => Some(text),
            None => {
                self.report_wrong_type(key, "a string", value);
                None
            }
        }
    }

    /// Reads a required text; `example` is a valid one for the message.
    pub fn require_text(&self, key: &'static str, example: &str) -> Option<&'a str> {
        if !self.has_key(key) {
            self.mark_known(&[key]);
            self.report_missing(key, example);
        }
        self.read_text(key)
    }

    /// Records that a key is missing; `example` is a valid value for the message.
    pub fn report_missing(&self, key: &str, example: &str) {
        self.report_problem(format!("`{key}` is missing; example: {key} = {example}"));
    }

    /// Reads true or false.
    pub fn read_bool(&self, key: &'static str) -> Option<bool> {
        let value = self.read_value(key)?;
        let read = value.get_ref().as_bool();
        if read.is_none() {
            self.report_wrong_type(key, "true or false", value);
        }
        read
    }

    /// Reads a number between limits.
    pub fn read_number(&self, key: &'static str, low: f64, high: f64) -> Option<f64> {
        let value = self.read_value(key)?;
        let Some(number) = toml_number(value) else {
            self.report_wrong_type(key, "a number", value);
            return None;
        };
        let is_in_range = number >= low && number <= high;
        if !is_in_range {
            self.report_key_problem(key, format!("`{key}` is {number}; expected {low} to {high}"));
        }
        is_in_range.then_some(number)
    }

    /// Reads a whole number between limits.
    pub fn read_integer(&self, key: &'static str, low: u64, high: u64) -> Option<u64> {
        let value = self.read_value(key)?;
        self.parse_integer(key, value, low, high)
    }

    fn parse_integer(&self, key: &str, value: TomlValue<'_, '_>, low: u64, high: u64) -> Option<u64> {
        let integer = value.get_ref().as_integer().and_then(|i| {
            let text = i.as_str().replace('_', "");
            u64::from_str_radix(text.trim_start_matches('+'), i.radix()).ok()
        });
        match integer {
            Some(integer) if (low..=high).contains(&integer) => Some(integer),
            _ => {
                let start = value.span().start;
                match toml_number(value) {
                    Some(found) => {
                        let message = format!("`{key}` is {found}; expected a whole number from {low} to {high}");
                        self.source.report_problem(start, &self.item, message);
                    }
                    None => self.report_wrong_type(key, "a whole number", value),
                }
                None
            }
        }
    }

    /// Reads a list of whole numbers between limits; a single one is a list of one.
    pub fn read_integers(&self, key: &'static str, low: u64, high: u64) -> Vec<u64> {
        let Some(value) = self.read_value(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().filter_map(|v| self.parse_integer(key, v, low, high)).collect(),
            None => self.parse_integer(key, value, low, high).into_iter().collect(),
        }
    }

    /// Reads a share: a number from 0 to 1, or a text such as `"30%"`.
    pub fn read_share(&self, key: &'static str) -> Option<f64> {
        let value = self.read_value(key)?;
        let text = value.get_ref().as_str();
        let percent = text.and_then(|t| t.trim().strip_suffix('%')).and_then(|t| t.trim().parse::<f64>().ok());
        let share = percent.map(|p| p / 100.0).or_else(|| toml_number(value));
        match share {
            Some(share) if (0.0..=1.0).contains(&share) => Some(share),
            _ => {
                let shown = match (text, share) {
                    (Some(text), _) => text.to_owned(),
                    (None, Some(number)) => number.to_string(),
                    (None, None) => "not a number".to_owned(),
                };
                self.report_key_problem(
                    key,
                    format!("`{key}` is {shown}; expected a share from 0 to 1, such as 0.3 or \"30%\""),
                );
                None
            }
        }
    }

    /// Reads a quantity of a kind, in its base unit.
    pub fn read_quantity(&self, key: &'static str, kind: &QuantityKind) -> Option<f64> {
        self.read_with_unit(key, kind, |text| quantity::parse_quantity(kind, text))
    }

    /// Reads a text that `read` parses as a quantity.
    fn read_with_unit<T>(
        &self,
        key: &'static str,
        kind: &QuantityKind,
        read: impl FnOnce(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        let value = self.read_value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            let shown = match toml_number(value) {
                Some(number) => format!("`{key}` is {number} without a unit"),
                None => format!("`{key}` is {}", with_article(value.get_ref().type_str())),
            };
            self.report_key_problem(
                key,
                format!("{shown}; expected {}, such as {key} = {}", kind.description, kind.example),
            );
            return None;
        };
        read(text).map_err(|wrong| self.report_key_problem(key, format!("`{key}` is {}", wrong.message()))).ok()
    }

    /// Reads a time, nanoseconds.
    pub fn read_time_ns(&self, key: &'static str) -> Option<u64> {
        self.read_with_unit(key, &quantity::TIME, quantity::parse_time_ns)
    }

    /// Reads a time greater than 0, nanoseconds.
    pub fn read_nonzero_time_ns(&self, key: &'static str) -> Option<u64> {
        let time = self.read_time_ns(key)?;
        if time == 0 {
            self.report_key_problem(key, format!("`{key}` is zero; it must be greater than 0"));
        }
        (time > 0).then_some(time)
    }

    /// Reads a rate, bytes a second.
    pub fn read_bytes_per_s(&self, key: &'static str) -> Option<u64> {
        self.read_quantity(key, &quantity::RATE).map(|rate| rate as u64)
    }

    /// Reads a frequency, per second.
    pub fn read_per_s(&self, key: &'static str) -> Option<f64> {
        self.read_quantity(key, &quantity::FREQUENCY)
    }

    /// Reads a time per byte, picoseconds.
    pub fn read_ps_per_byte(&self, key: &'static str) -> Option<u64> {
        self.read_quantity(key, &quantity::TIME_PER_BYTE).map(|ps| ps.round() as u64)
    }

    /// Reads a size of memory or of a request, bytes.
    pub fn read_size_bytes(&self, key: &'static str) -> Option<u64> {
        self.read_quantity(key, &quantity::SIZE).map(|bytes| bytes as u64)
    }

    /// Reads a size of memory or of a request in whole blocks, at least one and at
    /// most `max_blocks`.
    pub fn read_blocks(&self, key: &'static str, max_blocks: u64) -> Option<u64> {
        let blocks = self.read_with_unit(key, &quantity::SIZE, quantity::parse_blocks)?;
        if !(1..=max_blocks).contains(&blocks) {
            let max = max_blocks.saturating_mul(BLOCK_BYTES);
            self.report_key_problem(
                key,
                format!("`{key}` is {blocks} blocks of 512 bytes; expected one block to {max} bytes"),
            );
            return None;
        }
        Some(blocks)
    }

    /// Reads the size of a request in whole blocks, at least one and at most 1 GiB.
    pub fn read_request_blocks(&self, key: &'static str) -> Option<u32> {
        const MAX_REQUEST_BLOCKS: u64 = (1 << 30) / BLOCK_BYTES;
        self.read_blocks(key, MAX_REQUEST_BLOCKS).and_then(|blocks| u32::try_from(blocks).ok())
    }

    /// Reads a capacity, or a position on a device, in blocks.
    pub fn read_capacity_blocks(&self, key: &'static str) -> Option<u64> {
        self.read_with_unit(key, &quantity::CAPACITY, quantity::parse_capacity_blocks)
    }

    /// Reads one of a set of words.
    pub fn read_word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.read_text(key)?;
        self.match_word(key, text, self.value_offset(key), words)
    }

    /// Reads one of a set of words; the key is required.
    pub fn require_word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        if !self.has_key(key) {
            self.mark_known(&[key]);
            self.report_missing(key, &format!("{:?}", words.first().map_or("", |(word, _)| word)));
        }
        self.read_word(key, words)
    }

    /// Reads a list of words of a set; a single one is a list of one.
    pub fn read_words<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Vec<T> {
        self.read_texts(key)
            .into_iter()
            .filter_map(|(text, offset)| self.match_word(key, text, offset, words))
            .collect()
    }

    /// Returns the meaning of one word of a set; records a problem where the set lacks it.
    fn match_word<T: Copy>(&self, key: &str, text: &str, offset: usize, words: &[(&'static str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let suggestion = did_you_mean(text, known.iter());
            let message = format!("`{key}` cannot be `{text}`; expected {}{suggestion}", known.join(", "));
            self.source.report_problem(offset, &self.item, message);
        }
        found
    }

    /// Reads a list of texts with their offsets; a single text is a list of one.
    pub fn read_texts(&self, key: &'static str) -> Vec<(&'a str, usize)> {
        let Some(value) = self.read_value(key) else { return Vec::new() };
        let text = |value: TomlValue<'a, 't>| match value.get_ref().as_str() {
            Some(text) => Some((text, value.span().start)),
            None => {
                self.report_wrong_type(key, "a string or a list of strings", value);
                None
            }
        };
        match value.get_ref().as_array() {
            Some(list) => list.iter().filter_map(text).collect(),
            None => text(value).into_iter().collect(),
        }
    }

    /// Reads a table within this one that keeps the item's name in messages.
    pub fn read_table_same_item(&self, key: &'static str) -> Option<TomlFields<'a, 't>> {
        TomlFields::from_value(self.source, &self.item, self.read_value(key)?)
    }

    /// Reads a table within this one.
    pub fn read_table(&self, key: &'static str) -> Option<TomlFields<'a, 't>> {
        let value = self.read_value(key)?;
        let item = if self.item.is_empty() { format!("[{key}]") } else { format!("{}, {key}", self.item) };
        TomlFields::from_value(self.source, &item, value)
    }

    /// Reads a list of tables (`[[key]]`).
    pub fn read_tables(&self, key: &'static str) -> Vec<TomlValue<'a, 't>> {
        let Some(value) = self.read_value(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => {
                let message = format!("`{key}` is {}; write it as [[{key}]]", with_article(value.get_ref().type_str()));
                self.source.report_problem(value.span().start, &self.item, message);
                Vec::new()
            }
        }
    }

    /// Records a problem for each key that was not read or marked as known; returns false where there was one.
    pub fn reject_unknown_keys(&self) -> bool {
        let known = self.known.borrow();
        let mut all_known = true;
        for (key, _) in self.table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            all_known = false;
            let name = key.get_ref();
            let suggestion = did_you_mean(name, known.iter());
            let hint =
                if suggestion.is_empty() { format!("; known keys are {}", known.join(", ")) } else { suggestion };
            self.source.report_problem(key.span().start, &self.item, format!("unknown key `{name}`{hint}"));
        }
        all_known
    }
}

/// Returns TOML's word for a type with its article.
fn with_article(type_name: &str) -> String {
    match type_name {
        "string" => "a string".to_owned(),
        "boolean" => "a boolean".to_owned(),
        "integer" | "array" => format!("an {type_name}"),
        "float" => "a number".to_owned(),
        _ => format!("a {type_name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, read_fields: impl FnOnce(&TomlFields<'_, '_>)) -> String {
        let source = TomlSource::new("a.toml", text);
        let table = source.parse().expect("TOML");
        let fields = TomlFields::new(&source, "thing", table.get_ref(), table.span());
        read_fields(&fields);
        fields.reject_unknown_keys();
        match source.into_result(Some(())) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn reports_each_mistake_with_its_line_and_an_example() {
        type ReadFields = fn(&TomlFields<'_, '_>);
        let cases: [(&str, ReadFields, &str); 13] = [
            (
                "\ntime = 5",
                |f| _ = f.read_time_ns("time"),
                "a.toml:2: thing: `time` is 5 without a unit; expected a time",
            ),
            ("rate = true", |f| _ = f.read_bytes_per_s("rate"), "`rate` is a boolean; expected a byte rate"),
            ("n = 3.5", |f| _ = f.read_integer("n", 1, 9), "`n` is 3.5; expected a whole number from 1 to 9"),
            ("n = -3", |f| _ = f.read_integer("n", 1, 9), "`n` is -3; expected a whole"),
            ("n = '3'", |f| _ = f.read_integer("n", 1, 9), "`n` must be a whole number, not a string"),
            ("s = 1.5", |f| _ = f.read_share("s"), "`s` is 1.5; expected a share"),
            ("s = '150%'", |f| _ = f.read_share("s"), "`s` is 150%; expected a share"),
            (
                "w = 'lok'",
                |f| _ = f.read_word("w", &[("look", 1), ("sptf", 2)]),
                "expected look, sptf; did you mean `look`?",
            ),
            ("tme = '5s'", |f| _ = f.read_time_ns("time"), "unknown key `tme`; did you mean `time`?"),
            (
                "zzz = 1",
                |f| _ = (f.read_time_ns("time"), f.read_bool("on")),
                "unknown key `zzz`; known keys are time, on",
            ),
            (
                "zzz = 1",
                |f| _ = (f.read_time_ns("time"), f.mark_known(&["on", "time"]), f.read_bool("on")),
                "unknown key `zzz`; known keys are time, on",
            ),
            ("b = '1000B'", |f| _ = f.read_blocks("b", 9), "`b` is `1000B`, which is not a multiple of 512 bytes"),
            ("b = '64KB'", |f| _ = f.read_blocks("b", 9), "`b` is 128 blocks of 512 bytes; expected one block to 4608"),
        ];
        for (text, read_fields, part) in cases {
            let found = problems(text, read_fields);
            assert!(found.contains(part), "{text}: {found}");
        }
    }

    #[test]
    fn reports_all_mistakes_in_line_order() {
        let found = problems("b = 5\na = 6\n[c]", |f| {
            f.read_time_ns("a");
            f.read_time_ns("b");
            f.read_tables("c");
            f.require_text("name", "\"disk\"");
        });
        let lines: Vec<&str> = found.lines().map(|l| &l[..9]).collect();
        assert_eq!(lines, ["a.toml:1:", "a.toml:1:", "a.toml:2:", "a.toml:3:"], "{found}");
        assert!(found.contains("write it as [[c]]") && found.contains("`name` is missing; example: name = \"disk\""));
    }

    #[test]
    fn reads_valid_values() {
        let found = problems("a = '30%'\nb = 0x10\nc = ['x', 'y']\nd = 'x'\ne = [1, 2]", |f| {
            assert_eq!(f.read_share("a"), Some(0.3));
            assert_eq!(f.read_integer("b", 0, 20), Some(16));
            assert_eq!(f.read_texts("c").len(), 2);
            assert_eq!(f.read_texts("d")[0].0, "x");
            assert_eq!(f.read_integers("e", 0, 9), [1, 2]);
            assert_eq!(f.read_time_ns("f"), None);
        });
        assert_eq!(found, "");
    }

    #[test]
    fn reports_invalid_toml() {
        let source = TomlSource::new("a.toml", "a = \n\nb = [1,\n");
        let read = source.parse().map(|_| ());
        let found = source.into_result(read).unwrap_err().to_string();
        assert!(found.starts_with("a.toml:1: invalid TOML: "), "{found}");
    }
}
