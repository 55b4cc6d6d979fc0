//! Access to a block's values: each is asked for by its key and type, and what
//! nobody asked for at the end is unknown.

use super::DiskspecsError;
use super::syntax::{SourcePosition, SpecBlock, SpecEntry, SpecValue};

/// A block being read.
pub(super) struct DiskspecsFields<'a> {
    block: &'a SpecBlock,
    asked: Vec<bool>,
}

impl<'a> DiskspecsFields<'a> {
    /// # Errors
    /// When a key stands twice.
    pub fn new(block: &'a SpecBlock) -> Result<DiskspecsFields<'a>, DiskspecsError> {
        let mut seen: Vec<&str> = block.entries.iter().map(|e| e.key.as_str()).collect();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|w| w[0] == w[1]) {
            let last = block.entries.iter().rfind(|e| e.key == twice[0]);
            let position = last.map_or(&block.position, |e| &e.position);
            return Err(position.error(format!("`{}` is given twice in one block", twice[0])));
        }
        Ok(DiskspecsFields { block, asked: vec![false; block.entries.len()] })
    }

    /// The block's own place.
    pub fn position(&self) -> &'a SourcePosition {
        &self.block.position
    }

    /// The entry of a key.
    pub fn entry(&mut self, key: &str) -> Option<&'a SpecEntry> {
        let index = self.block.entries.iter().position(|e| e.key == key)?;
        self.asked[index] = true;
        self.block.entries.get(index)
    }

    /// The entry of a key that must be there.
    pub fn need(&mut self, key: &str) -> Result<&'a SpecEntry, DiskspecsError> {
        let missing = format!("`{}` needs `{key}`, which is missing", self.block.kind);
        self.entry(key).ok_or_else(|| self.block.position.error(missing))
    }

    /// A number between limits, if it is there.
    pub fn number(&mut self, key: &str, low: f64, high: f64) -> Result<Option<f64>, DiskspecsError> {
        self.entry(key).map(|entry| number(&entry.position, key, &entry.value, low, high)).transpose()
    }

    /// A number that must be there.
    pub fn need_number(&mut self, key: &str, low: f64, high: f64) -> Result<f64, DiskspecsError> {
        let entry = self.need(key)?;
        number(&entry.position, key, &entry.value, low, high)
    }

    /// A whole number that must be there.
    pub fn need_whole(&mut self, key: &str, low: u64, high: u64) -> Result<u64, DiskspecsError> {
        let entry = self.need(key)?;
        whole(&entry.position, key, &entry.value, low, high)
    }

    /// A whole number, if it is there.
    pub fn whole(&mut self, key: &str, low: u64, high: u64) -> Result<Option<u64>, DiskspecsError> {
        self.entry(key).map(|entry| whole(&entry.position, key, &entry.value, low, high)).transpose()
    }

    /// 1, or 0 where it is not there.
    pub fn flag(&mut self, key: &str) -> Result<bool, DiskspecsError> {
        Ok(self.whole(key, 0, 1)?.unwrap_or(0) == 1)
    }

    /// What a key says cannot be, and why.
    pub fn wrong(&mut self, key: &str, why: &str) -> DiskspecsError {
        match self.entry(key) {
            Some(SpecEntry { position, value: SpecValue::Word(word), .. }) => {
                position.error(format!("`{key} = {word}` {why}"))
            }
            Some(entry) => entry.position.error(format!("`{key}` {why}")),
            None => self.block.position.error(format!("`{key}` {why}")),
        }
    }

    /// A word, if it is there.
    pub fn word(&mut self, key: &str) -> Result<Option<&'a str>, DiskspecsError> {
        match self.entry(key) {
            None => Ok(None),
            Some(SpecEntry { value: SpecValue::Word(word), .. }) => Ok(Some(word)),
            Some(entry) => Err(entry.position.error(format!("`{key}` must be a word, not a block or a list"))),
        }
    }

    /// A block that must be there.
    pub fn need_block(&mut self, key: &str) -> Result<&'a SpecBlock, DiskspecsError> {
        match self.need(key)? {
            SpecEntry { value: SpecValue::Block(block), .. } => Ok(block),
            entry => {
                Err(entry.position.error(format!("`{key}` must be a block: `{key} = KIND {{ … }}` or `source FILE`")))
            }
        }
    }

    /// A list, empty where the key is missing.
    pub fn list(&mut self, key: &str) -> Result<&'a [(SourcePosition, SpecValue)], DiskspecsError> {
        match self.entry(key) {
            None => Ok(&[]),
            Some(SpecEntry { value: SpecValue::List(values), .. }) => Ok(values),
            Some(entry) => Err(entry.position.error(format!("`{key}` must be a list: `{key} = [ … ]`"))),
        }
    }

    /// A list of numbers between limits.
    pub fn numbers(&mut self, key: &str, low: f64, high: f64) -> Result<Vec<f64>, DiskspecsError> {
        self.list(key)?.iter().map(|(index, value)| number(index, key, value, low, high)).collect()
    }

    /// A list of whole numbers.
    pub fn wholes(&mut self, key: &str, high: u64) -> Result<Vec<u64>, DiskspecsError> {
        self.list(key)?.iter().map(|(index, value)| whole(index, key, value, 0, high)).collect()
    }

    /// What nobody asked for.
    ///
    /// # Errors
    /// The first key that is not known, and the known one nearest to it.
    pub fn finish(self, known: &[&str]) -> Result<(), DiskspecsError> {
        let unknown = self.block.entries.iter().zip(&self.asked).find(|(_, asked)| !**asked);
        let Some((entry, _)) = unknown else { return Ok(()) };
        let near = known.iter().filter(|k| k.eq_ignore_ascii_case(&entry.key) || starts_alike(k, &entry.key)).copied();
        let near: Vec<&str> = near.take(3).collect();
        let hint = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
        Err(entry.position.error(format!("`{}` is not a parameter of `{}`{hint}", entry.key, self.block.kind)))
    }
}

/// Two keys with a common beginning of some length.
fn starts_alike(a: &str, b: &str) -> bool {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    same >= 6
}

/// A number of a value.
pub(super) fn number(
    position: &SourcePosition,
    key: &str,
    value: &SpecValue,
    low: f64,
    high: f64,
) -> Result<f64, DiskspecsError> {
    let SpecValue::Word(word) = value else {
        return Err(position.error(format!("`{key}` must be a number, not a block or a list")));
    };
    let number = word.parse::<f64>().ok().filter(|n| n.is_finite());
    let number = number.ok_or_else(|| position.error(format!("`{key}` is `{word}`; expected a number")))?;
    if number < low || number > high {
        return Err(position.error(format!("`{key}` is {word}; expected {low} to {high}")));
    }
    Ok(number)
}

/// A whole number of a value; `64.000000` is one.
pub(super) fn whole(
    position: &SourcePosition,
    key: &str,
    value: &SpecValue,
    low: u64,
    high: u64,
) -> Result<u64, DiskspecsError> {
    let exact = match value {
        SpecValue::Word(word) => word.parse::<u64>().ok(),
        _ => None,
    };
    let number = match exact {
        Some(number) => number,
        None => {
            let number = number(position, key, value, low as f64, high as f64)?;
            if number.fract() != 0.0 {
                return Err(position.error(format!("`{key}` is {number}; expected a whole number")));
            }
            number as u64
        }
    };
    if number < low || number > high {
        return Err(position.error(format!("`{key}` is {number}; expected {low} to {high}")));
    }
    Ok(number)
}
