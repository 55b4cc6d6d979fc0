//! Typed access to a block's values by key; keys that were never read are unknown parameters.

use super::DiskspecsError;
use super::parameter_syntax::{SourcePosition, SpecBlock, SpecEntry, SpecValue};

/// Reader of a block's entries, which records the keys that were read.
pub(super) struct FieldReader<'a> {
    block: &'a SpecBlock,
    used: Vec<bool>,
}

impl<'a> FieldReader<'a> {
    /// Creates a reader.
    ///
    /// # Errors
    /// If a key is given twice.
    pub fn new(block: &'a SpecBlock) -> Result<FieldReader<'a>, DiskspecsError> {
        let mut seen: Vec<&str> = block.entries.iter().map(|e| e.key.as_str()).collect();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|w| w[0] == w[1]) {
            let last = block.entries.iter().rfind(|e| e.key == twice[0]);
            let position = last.map_or(&block.position, |e| &e.position);
            return Err(position.error(format!("`{}` is given twice in one block", twice[0])));
        }
        Ok(FieldReader { block, used: vec![false; block.entries.len()] })
    }

    /// Position of the block.
    pub fn block_position(&self) -> &'a SourcePosition {
        &self.block.position
    }

    /// Returns the entry of a key.
    pub fn find_entry(&mut self, key: &str) -> Option<&'a SpecEntry> {
        let index = self.block.entries.iter().position(|e| e.key == key)?;
        self.used[index] = true;
        self.block.entries.get(index)
    }

    /// Returns the entry of a required key.
    pub fn require_entry(&mut self, key: &str) -> Result<&'a SpecEntry, DiskspecsError> {
        let missing = format!("`{}` needs `{key}`, which is missing", self.block.kind);
        self.find_entry(key).ok_or_else(|| self.block.position.error(missing))
    }

    /// Reads an optional number between limits.
    pub fn read_number(&mut self, key: &str, low: f64, high: f64) -> Result<Option<f64>, DiskspecsError> {
        self.find_entry(key).map(|entry| parse_number(&entry.position, key, &entry.value, low, high)).transpose()
    }

    /// Reads a required number between limits.
    pub fn require_number(&mut self, key: &str, low: f64, high: f64) -> Result<f64, DiskspecsError> {
        let entry = self.require_entry(key)?;
        parse_number(&entry.position, key, &entry.value, low, high)
    }

    /// Reads a required integer between limits.
    pub fn require_integer(&mut self, key: &str, low: u64, high: u64) -> Result<u64, DiskspecsError> {
        let entry = self.require_entry(key)?;
        parse_integer(&entry.position, key, &entry.value, low, high)
    }

    /// Reads an optional integer between limits.
    pub fn read_integer(&mut self, key: &str, low: u64, high: u64) -> Result<Option<u64>, DiskspecsError> {
        self.find_entry(key).map(|entry| parse_integer(&entry.position, key, &entry.value, low, high)).transpose()
    }

    /// Reads an optional flag, 0 or 1; a missing one is 0.
    pub fn read_flag(&mut self, key: &str) -> Result<bool, DiskspecsError> {
        Ok(self.read_integer(key, 0, 1)?.unwrap_or(0) == 1)
    }

    /// Creates an error at the position of a key.
    pub fn error_at_key(&mut self, key: &str, why: &str) -> DiskspecsError {
        match self.find_entry(key) {
            Some(SpecEntry { position, value: SpecValue::Word(word), .. }) => {
                position.error(format!("`{key} = {word}` {why}"))
            }
            Some(entry) => entry.position.error(format!("`{key}` {why}")),
            None => self.block.position.error(format!("`{key}` {why}")),
        }
    }

    /// Reads an optional word.
    pub fn read_word(&mut self, key: &str) -> Result<Option<&'a str>, DiskspecsError> {
        match self.find_entry(key) {
            None => Ok(None),
            Some(SpecEntry { value: SpecValue::Word(word), .. }) => Ok(Some(word)),
            Some(entry) => Err(entry.position.error(format!("`{key}` must be a word, not a block or a list"))),
        }
    }

    /// Reads a required block.
    pub fn require_block(&mut self, key: &str) -> Result<&'a SpecBlock, DiskspecsError> {
        match self.require_entry(key)? {
            SpecEntry { value: SpecValue::Block(block), .. } => Ok(block),
            entry => {
                Err(entry.position.error(format!("`{key}` must be a block: `{key} = KIND {{ … }}` or `source FILE`")))
            }
        }
    }

    /// Reads a list, empty if the key is missing.
    pub fn read_list(&mut self, key: &str) -> Result<&'a [(SourcePosition, SpecValue)], DiskspecsError> {
        match self.find_entry(key) {
            None => Ok(&[]),
            Some(SpecEntry { value: SpecValue::List(values), .. }) => Ok(values),
            Some(entry) => Err(entry.position.error(format!("`{key}` must be a list: `{key} = [ … ]`"))),
        }
    }

    /// Reads a list of numbers between limits.
    pub fn read_numbers(&mut self, key: &str, low: f64, high: f64) -> Result<Vec<f64>, DiskspecsError> {
        self.read_list(key)?.iter().map(|(position, value)| parse_number(position, key, value, low, high)).collect()
    }

    /// Reads a list of integers from 0 to `high`.
    pub fn read_integers(&mut self, key: &str, high: u64) -> Result<Vec<u64>, DiskspecsError> {
        self.read_list(key)?.iter().map(|(position, value)| parse_integer(position, key, value, 0, high)).collect()
    }

    /// Rejects keys that were not read.
    ///
    /// # Errors
    /// The first unknown key, with known keys similar to it.
    pub fn reject_unknown(self, known: &[&str]) -> Result<(), DiskspecsError> {
        let unknown = self.block.entries.iter().zip(&self.used).find(|(_, used)| !**used);
        let Some((entry, _)) = unknown else { return Ok(()) };
        let similar =
            known.iter().filter(|k| k.eq_ignore_ascii_case(&entry.key) || has_common_prefix(k, &entry.key)).copied();
        let similar: Vec<&str> = similar.take(3).collect();
        let hint =
            if similar.is_empty() { String::new() } else { format!("; did you mean `{}`?", similar.join("`, `")) };
        Err(entry.position.error(format!("`{}` is not a parameter of `{}`{hint}", entry.key, self.block.kind)))
    }
}

/// Returns true if two keys have a common prefix of at least six characters.
fn has_common_prefix(a: &str, b: &str) -> bool {
    a.chars().zip(b.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count() >= 6
}

/// Parses a value as a number between limits.
pub(super) fn parse_number(
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

/// Parses a value as an integer between limits; `64.000000` is accepted.
pub(super) fn parse_integer(
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
            let number = parse_number(position, key, value, low as f64, high as f64)?;
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
