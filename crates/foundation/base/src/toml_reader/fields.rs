//! One table of a file, read key by key.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use super::quantity::{self, QuantityError, QuantityKind};
use super::{TomlSource, TomlValue};
use crate::units::BLOCK_BYTES;
use crate::words::{did_you_mean, number};

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
    pub fn of_table(source: &'a TomlSource<'t>, table: &'a Spanned<DeTable<'t>>) -> TomlFields<'a, 't> {
        TomlFields::new(source, "", table.get_ref(), table.span())
    }

    /// The fields of a value; records a problem and returns `None` where it is not a table.
    pub fn of(source: &'a TomlSource<'t>, item: &str, value: TomlValue<'a, 't>) -> Option<TomlFields<'a, 't>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = value.get_ref().type_str();
            source.wrong(value.span().start, item, format!("expected a table, found {}", article(found)));
        }
        table.map(|table| TomlFields::new(source, item, table, value.span()))
    }

    /// The table and its span.
    pub fn table(&self) -> (&'a DeTable<'t>, Range<usize>) {
        (self.table, self.span.clone())
    }

    /// Records a problem of the table as a whole.
    pub fn wrong(&self, message: impl Into<String>) {
        self.source.wrong(self.span.start, &self.item, message);
    }

    /// Records a problem of a key, or of the table where the key is missing.
    pub fn wrong_at(&self, key: &str, message: impl Into<String>) {
        self.source.wrong(self.place(key), &self.item, message);
    }

    /// Records a remark on a key that is valid but may not be meant.
    pub fn note_at(&self, key: &str, message: impl Into<String>) {
        self.source.note(self.place(key), &self.item, message);
    }

    /// Byte offset of a key's value in the text; of the table where the key is missing.
    pub fn place(&self, key: &str) -> usize {
        self.value(key).map_or(self.span.start, |value| value.span().start)
    }

    /// Returns true if the key is present; it is not marked as known.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn value(&self, key: &str) -> Option<TomlValue<'a, 't>> {
        // the map's key type carries a span that takes no part in comparisons
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns a key's value and marks the key as known.
    pub fn take(&self, key: &'static str) -> Option<TomlValue<'a, 't>> {
        self.know(&[key]);
        self.value(key)
    }

    /// Marks keys as known that another reader of the same table reads.
    pub fn know(&self, keys: &[&'static str]) {
        let mut known = self.known.borrow_mut();
        for key in keys.iter().copied() {
            // a key that is read twice is listed once
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }

    fn expected(&self, key: &str, description: &str, value: TomlValue<'_, '_>) {
        let found = value.get_ref().type_str();
        let message = format!("`{key}` must be {description}, not {}", article(found));
        self.source.wrong(value.span().start, &self.item, message);
    }

    /// Reads a text that is not empty.
    pub fn text(&self, key: &'static str) -> Option<&'a str> {
        let value = self.take(key)?;
        match value.get_ref().as_str() {
            Some(text) if text.trim().is_empty() => {
                self.wrong_at(key, format!("`{key}` is empty"));
                None
            }
            Some(text) => Some(text),
            None => {
                self.expected(key, "a string", value);
                None
            }
        }
    }

    /// Reads a required text; `example` is a valid one for the message.
    pub fn needed(&self, key: &'static str, example: &str) -> Option<&'a str> {
        if !self.has(key) {
            self.know(&[key]);
            self.missing(key, example);
        }
        self.text(key)
    }

    /// Records that a key is missing; `example` is a valid value for the message.
    pub fn missing(&self, key: &str, example: &str) {
        self.wrong(format!("`{key}` is missing; example: {key} = {example}"));
    }

    /// Reads true or false.
    pub fn truth(&self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        let read = value.get_ref().as_bool();
        if read.is_none() {
            self.expected(key, "true or false", value);
        }
        read
    }

    /// Reads a number between limits.
    pub fn number(&self, key: &'static str, low: f64, high: f64) -> Option<f64> {
        let value = self.take(key)?;
        let Some(number) = number(value) else {
            self.expected(key, "a number", value);
            return None;
        };
        let fits = number >= low && number <= high;
        if !fits {
            self.wrong_at(key, format!("`{key}` is {number}; expected {low} to {high}"));
        }
        fits.then_some(number)
    }

    /// Reads a whole number between limits.
    pub fn whole(&self, key: &'static str, low: u64, high: u64) -> Option<u64> {
        let value = self.take(key)?;
        self.whole_of(key, value, low, high)
    }

    fn whole_of(&self, key: &str, value: TomlValue<'_, '_>, low: u64, high: u64) -> Option<u64> {
        let integer = value.get_ref().as_integer().and_then(|i| {
            let text = i.as_str().replace('_', "");
            u64::from_str_radix(text.trim_start_matches('+'), i.radix()).ok()
        });
        match integer {
            Some(integer) if (low..=high).contains(&integer) => Some(integer),
            _ => {
                let start = value.span().start;
                match number(value) {
                    Some(found) => {
                        let message = format!("`{key}` is {found}; expected a whole number from {low} to {high}");
                        self.source.wrong(start, &self.item, message);
                    }
                    None => self.expected(key, "a whole number", value),
                }
                None
            }
        }
    }

    /// Reads a list of whole numbers between limits; a single one is a list of one.
    pub fn wholes(&self, key: &'static str, low: u64, high: u64) -> Vec<u64> {
        let Some(value) = self.take(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().filter_map(|v| self.whole_of(key, v, low, high)).collect(),
            None => self.whole_of(key, value, low, high).into_iter().collect(),
        }
    }

    /// Reads a share: a number from 0 to 1, or a text such as `"30%"`.
    pub fn share(&self, key: &'static str) -> Option<f64> {
        let value = self.take(key)?;
        let text = value.get_ref().as_str();
        let percent = text.and_then(|t| t.trim().strip_suffix('%')).and_then(|t| t.trim().parse::<f64>().ok());
        let share = percent.map(|p| p / 100.0).or_else(|| number(value));
        match share {
            Some(share) if (0.0..=1.0).contains(&share) => Some(share),
            _ => {
                let shown =
                    text.map_or_else(|| share.map_or("not a number".to_owned(), |s| s.to_string()), str::to_owned);
                self.wrong_at(key, format!("`{key}` is {shown}; expected a share from 0 to 1, such as 0.3 or \"30%\""));
                None
            }
        }
    }

    /// Reads a quantity of a kind, in its base unit.
    pub fn quantity(&self, key: &'static str, sort: &QuantityKind) -> Option<f64> {
        self.read(key, sort, |text| quantity::read(sort, text))
    }

    /// Reads a text that `read` parses as a quantity.
    fn read<T>(
        &self,
        key: &'static str,
        sort: &QuantityKind,
        read: impl FnOnce(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let Some(text) = value.get_ref().as_str() else {
            let shown = match number(value) {
                Some(number) => format!("`{key}` is {number} without a unit"),
                None => format!("`{key}` is {}", article(value.get_ref().type_str())),
            };
            self.wrong_at(key, format!("{shown}; expected {}, such as {key} = {}", sort.what, sort.example));
            return None;
        };
        read(text).map_err(|wrong| self.wrong_at(key, format!("`{key}` is {}", wrong.words()))).ok()
    }

    /// Reads a time, nanoseconds.
    pub fn time(&self, key: &'static str) -> Option<u64> {
        self.read(key, &quantity::TIME, quantity::time)
    }

    /// Reads a time greater than 0, nanoseconds.
    pub fn some_time(&self, key: &'static str) -> Option<u64> {
        let time = self.time(key)?;
        if time == 0 {
            self.wrong_at(key, format!("`{key}` is zero; it must be greater than 0"));
        }
        (time > 0).then_some(time)
    }

    /// Reads a rate, bytes a second.
    pub fn rate(&self, key: &'static str) -> Option<u64> {
        self.quantity(key, &quantity::RATE).map(|rate| rate as u64)
    }

    /// Reads a frequency, times a second.
    pub fn often(&self, key: &'static str) -> Option<f64> {
        self.quantity(key, &quantity::OFTEN)
    }

    /// Reads a time per byte, picoseconds.
    pub fn each_byte(&self, key: &'static str) -> Option<u64> {
        self.quantity(key, &quantity::EACH_BYTE).map(|ps| ps.round() as u64)
    }

    /// Reads a size of memory or of a request, bytes.
    pub fn bytes(&self, key: &'static str) -> Option<u64> {
        self.quantity(key, &quantity::SIZE).map(|bytes| bytes as u64)
    }

    /// Reads a size of memory or of a request in whole blocks, at least one and at
    /// most `max_blocks`.
    pub fn blocks(&self, key: &'static str, max_blocks: u64) -> Option<u64> {
        let blocks = self.read(key, &quantity::SIZE, quantity::blocks)?;
        if !(1..=max_blocks).contains(&blocks) {
            let max = max_blocks.saturating_mul(BLOCK_BYTES);
            self.wrong_at(key, format!("`{key}` is {blocks} blocks of 512 bytes; expected one block to {max} bytes"));
            return None;
        }
        Some(blocks)
    }

    /// Reads the size of a request in whole blocks, at least one and at most 1 GiB.
    pub fn request_blocks(&self, key: &'static str) -> Option<u32> {
        const MOST: u64 = (1 << 30) / BLOCK_BYTES;
        self.blocks(key, MOST).and_then(|blocks| u32::try_from(blocks).ok())
    }

    /// Reads a capacity, or a position on a device, in blocks.
    pub fn space(&self, key: &'static str) -> Option<u64> {
        self.read(key, &quantity::SPACE, quantity::space)
    }

    /// Reads one of a set of words.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(key)?;
        self.pick(key, text, self.place(key), words)
    }

    /// Reads one of a set of words; the key is required.
    pub fn needed_word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        if !self.has(key) {
            self.know(&[key]);
            self.missing(key, &format!("{:?}", words.first().map_or("", |(word, _)| word)));
        }
        self.word(key, words)
    }

    /// Reads a list of words of a set; a single one is a list of one.
    pub fn words<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Vec<T> {
        self.texts(key).into_iter().filter_map(|(text, offset)| self.pick(key, text, offset, words)).collect()
    }

    /// Returns the meaning of one word of a set; records a problem where the set lacks it.
    fn pick<T: Copy>(&self, key: &str, text: &str, offset: usize, words: &[(&'static str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let near = did_you_mean(text, known.iter());
            let message = format!("`{key}` cannot be `{text}`; expected {}{near}", known.join(", "));
            self.source.wrong(offset, &self.item, message);
        }
        found
    }

    /// Reads a list of texts with their offsets; a single text is a list of one.
    pub fn texts(&self, key: &'static str) -> Vec<(&'a str, usize)> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let text = |value: TomlValue<'a, 't>| match value.get_ref().as_str() {
            Some(text) => Some((text, value.span().start)),
            None => {
                self.expected(key, "a string or a list of strings", value);
                None
            }
        };
        match value.get_ref().as_array() {
            Some(list) => list.iter().filter_map(text).collect(),
            None => text(value).into_iter().collect(),
        }
    }

    /// Reads a table within this one that keeps the item's name in messages.
    pub fn inner_of(&self, key: &'static str) -> Option<TomlFields<'a, 't>> {
        TomlFields::of(self.source, &self.item, self.take(key)?)
    }

    /// Reads a table within this one.
    pub fn inner(&self, key: &'static str) -> Option<TomlFields<'a, 't>> {
        let value = self.take(key)?;
        let item = if self.item.is_empty() { format!("[{key}]") } else { format!("{}, {key}", self.item) };
        TomlFields::of(self.source, &item, value)
    }

    /// Reads a list of tables (`[[key]]`).
    pub fn tables(&self, key: &'static str) -> Vec<TomlValue<'a, 't>> {
        let Some(value) = self.take(key) else { return Vec::new() };
        match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => {
                let message = format!("`{key}` is {}; write it as [[{key}]]", article(value.get_ref().type_str()));
                self.source.wrong(value.span().start, &self.item, message);
                Vec::new()
            }
        }
    }

    /// Records a problem for each key that was not read or marked as known; returns false where there was one.
    pub fn finish(&self) -> bool {
        let known = self.known.borrow();
        let mut all_known = true;
        for (key, _) in self.table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            all_known = false;
            let name = key.get_ref();
            let near = did_you_mean(name, known.iter());
            let hint = if near.is_empty() { format!("; known keys are {}", known.join(", ")) } else { near };
            self.source.wrong(key.span().start, &self.item, format!("unknown key `{name}`{hint}"));
        }
        all_known
    }
}

/// Returns TOML's word for a type with its article.
fn article(found: &str) -> String {
    match found {
        "string" => "a string".to_owned(),
        "boolean" => "a boolean".to_owned(),
        "integer" | "array" => format!("an {found}"),
        "float" => "a number".to_owned(),
        other => format!("a {other}"),
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
        fields.finish();
        match source.finish(Some(())) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn each_mistake_is_told_with_its_line_and_what_would_be_right() {
        type ReadFields = fn(&TomlFields<'_, '_>);
        let cases: [(&str, ReadFields, &str); 13] = [
            ("\ntime = 5", |f| _ = f.time("time"), "a.toml:2: thing: `time` is 5 without a unit; expected a time"),
            ("rate = true", |f| _ = f.rate("rate"), "`rate` is a boolean; expected a byte rate"),
            ("n = 3.5", |f| _ = f.whole("n", 1, 9), "`n` is 3.5; expected a whole number from 1 to 9"),
            ("n = -3", |f| _ = f.whole("n", 1, 9), "`n` is -3; expected a whole"),
            ("n = '3'", |f| _ = f.whole("n", 1, 9), "`n` must be a whole number, not a string"),
            ("s = 1.5", |f| _ = f.share("s"), "`s` is 1.5; expected a share"),
            ("s = '150%'", |f| _ = f.share("s"), "`s` is 150%; expected a share"),
            (
                "w = 'lok'",
                |f| _ = f.word("w", &[("look", 1), ("sptf", 2)]),
                "expected look, sptf; did you mean `look`?",
            ),
            ("tme = '5s'", |f| _ = f.time("time"), "unknown key `tme`; did you mean `time`?"),
            ("zzz = 1", |f| _ = (f.time("time"), f.truth("on")), "unknown key `zzz`; known keys are time, on"),
            (
                "zzz = 1",
                |f| _ = (f.time("time"), f.know(&["on", "time"]), f.truth("on")),
                "unknown key `zzz`; known keys are time, on",
            ),
            ("b = '1000B'", |f| _ = f.blocks("b", 9), "`b` is `1000B`, which is not a multiple of 512 bytes"),
            ("b = '64KB'", |f| _ = f.blocks("b", 9), "`b` is 128 blocks of 512 bytes; expected one block to 4608"),
        ];
        for (text, read_fields, part) in cases {
            let found = problems(text, read_fields);
            assert!(found.contains(part), "{text}: {found}");
        }
    }

    #[test]
    fn all_mistakes_are_told_by_line() {
        let found = problems("b = 5\na = 6\n[c]", |f| {
            f.time("a");
            f.time("b");
            f.tables("c");
            f.needed("name", "\"disk\"");
        });
        let lines: Vec<&str> = found.lines().map(|l| &l[..9]).collect();
        assert_eq!(lines, ["a.toml:1:", "a.toml:1:", "a.toml:2:", "a.toml:3:"], "{found}");
        assert!(found.contains("write it as [[c]]") && found.contains("`name` is missing; example: name = \"disk\""));
    }

    #[test]
    fn what_is_right_is_read() {
        let found = problems("a = '30%'\nb = 0x10\nc = ['x', 'y']\nd = 'x'\ne = [1, 2]", |f| {
            assert_eq!(f.share("a"), Some(0.3));
            assert_eq!(f.whole("b", 0, 20), Some(16));
            assert_eq!(f.texts("c").len(), 2);
            assert_eq!(f.texts("d")[0].0, "x");
            assert_eq!(f.wholes("e", 0, 9), [1, 2]);
            assert_eq!(f.time("f"), None);
        });
        assert_eq!(found, "");
    }

    #[test]
    fn what_is_no_toml_is_told() {
        let source = TomlSource::new("a.toml", "a = \n\nb = [1,\n");
        let read = source.parse().map(|_| ());
        let found = source.finish(read).unwrap_err().to_string();
        assert!(found.starts_with("a.toml:1: invalid TOML: "), "{found}");
    }
}
