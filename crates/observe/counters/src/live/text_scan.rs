//! Scanning of the kernel's text files: blanks, lines, whole numbers. The functions on a text do not allocate, and no
//! bytes make them panic.

/// The lines of a text, without their ends; a last line without an end counts.
pub fn text_lines(text: &[u8]) -> LineIter<'_> {
    LineIter { rest: text }
}

/// Iterator of [`text_lines`].
pub struct LineIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for LineIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or(&[]);
        Some(line)
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The words of a line, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct WordIter<'a> {
    rest: &'a [u8],
}

impl<'a> WordIter<'a> {
    /// Iterates over the words of this line.
    pub fn new(line: &'a [u8]) -> WordIter<'a> {
        WordIter { rest: line }
    }

    /// The part of the line that has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the next word; `None` at the end.
    pub fn next_word(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&b| !is_blank(b))?;
        let rest = &self.rest[start..];
        let end = rest.iter().position(|&b| is_blank(b)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        Some(&rest[..end])
    }

    /// Returns the next word as a whole number. `None` at the end; `Some(None)` where the word is not a number or too
    /// large for 64 bits.
    pub fn next_number(&mut self) -> Option<Option<u64>> {
        let mut position = 0;
        while self.rest.get(position).copied().is_some_and(is_blank) {
            position += 1;
        }
        let start = position;
        let mut value: u64 = 0;
        while let Some(digit) = self.rest.get(position).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            position += 1;
        }
        let ends_cleanly = self.rest.get(position).copied().is_none_or(is_blank);
        if !ends_cleanly || position - start >= 20 {
            return self.next_word().map(parse_number);
        }
        if position == start {
            return None;
        }
        self.rest = &self.rest[position..];
        Some(Some(value))
    }
}

/// Parses a word that is a whole number of at most 64 bits and nothing else.
pub fn parse_number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    let mut value: u64 = 0;
    for byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Parses a word with two decimals (`0.52`) in hundredths.
pub fn parse_hundredths(word: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', word)?;
    let fraction = &word[dot + 1..];
    if fraction.len() != 2 {
        return None;
    }
    parse_number(&word[..dot])?.checked_mul(100)?.checked_add(parse_number(fraction)?)
}

/// Returns the text without blanks and line ends at both ends.
pub fn trim_blanks(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Splits `key: 123 kB` or `key 123` into the key, and the number where there is one.
pub fn split_key_and_number(line: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let mut words = WordIter::new(line);
    let key = words.next_word()?;
    let key = key.strip_suffix(b":").unwrap_or(key);
    Some((key, words.next_number().flatten()))
}

/// Cache of the column of each line of a file that keeps its shape from tick to tick: the column is looked up once,
/// afterwards only the key is compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineLayout {
    lines: Vec<(Box<[u8]>, Option<usize>)>,
}

impl LineLayout {
    /// Returns the column of line `index`, whose key is `key`. `find` is called only where the file's shape has
    /// changed.
    pub fn column_of_line(&mut self, index: usize, key: &[u8], find: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        match self.lines.get(index) {
            Some((cached_key, column)) if **cached_key == *key => *column,
            _ => {
                let column = find(key);
                self.lines.truncate(index);
                if self.lines.len() == index {
                    self.lines.push((key.into(), column));
                }
                column
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_parsed() {
        assert_eq!(parse_number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b"18446744073709551616"[..], b"", b"-1", b"1.0", b"12a", b"999999999999999999999"] {
            assert_eq!(parse_number(wrong), None);
        }
        assert_eq!(parse_hundredths(b"12.07"), Some(1207));
        assert_eq!(parse_hundredths(b"12.7"), None);
        assert_eq!(parse_hundredths(b"12"), None);
    }

    #[test]
    fn words_and_numbers_of_a_line() {
        let mut words = WordIter::new(b"  8  0 sda 12 -3 18446744073709551616 18446744073709551615");
        assert_eq!(words.next_number(), Some(Some(8)));
        assert_eq!(words.next_number(), Some(Some(0)));
        assert_eq!(words.next_word(), Some(&b"sda"[..]));
        assert_eq!(words.next_number(), Some(Some(12)));
        assert_eq!(words.next_number(), Some(None));
        assert_eq!(words.next_number(), Some(None));
        assert_eq!(words.next_number(), Some(Some(u64::MAX)));
        assert_eq!(words.next_number(), None);
        assert_eq!(words.next_word(), None);
        assert_eq!(WordIter::new(b"   ").next_number(), None);
    }

    #[test]
    fn lines_end_with_or_without_an_end() {
        assert_eq!(text_lines(b"a\n\nb").collect::<Vec<_>>(), [&b"a"[..], b"", b"b"]);
        assert_eq!(text_lines(b"a\n").count(), 1);
        assert_eq!(text_lines(b"").count(), 0);
    }

    #[test]
    fn keys_with_and_without_a_colon() {
        assert_eq!(split_key_and_number(b"MemFree:  12 kB"), Some((&b"MemFree"[..], Some(12))));
        assert_eq!(split_key_and_number(b"pgfault 7"), Some((&b"pgfault"[..], Some(7))));
        assert_eq!(split_key_and_number(b"pgfault"), Some((&b"pgfault"[..], None)));
        assert_eq!(split_key_and_number(b""), None);
    }

    #[test]
    fn a_layout_is_learned_again_when_lines_move() {
        let mut layout = LineLayout::default();
        let find = |key: &[u8]| (key == b"b").then_some(7);
        assert_eq!(layout.column_of_line(0, b"a", find), None);
        assert_eq!(layout.column_of_line(1, b"b", find), Some(7));
        assert_eq!(layout.column_of_line(1, b"b", |_| unreachable!("learned")), Some(7));
        assert_eq!(layout.column_of_line(0, b"b", find), Some(7));
        assert_eq!(layout.column_of_line(1, b"a", find), None);
    }
}
