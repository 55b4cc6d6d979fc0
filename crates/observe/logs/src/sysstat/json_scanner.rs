//! Scanner of JSON tokens over bytes that may end anywhere. It accepts what sysstat really wrote: `nan` instead of a
//! number, and numbers with a decimal comma.

/// A token of JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JsonToken<'a> {
    /// `{` or `[`.
    Open(u8),
    /// `}` or `]`.
    Close(u8),
    /// A string without its quotes, escapes unchanged.
    Text(&'a [u8]),
    /// A number; `NaN` for `nan` and `inf`.
    Number(f64),
    /// `true`, `false` or `null`.
    Word,
    /// `:`
    Colon,
    /// `,`
    Comma,
}

/// Reason why there is no token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenStop {
    /// The bytes end before the token does.
    Incomplete,
    /// The bytes at this index are no token.
    Invalid(usize, &'static str),
}

/// Scans the tokens of some bytes.
pub struct JsonScanner<'a> {
    bytes: &'a [u8],
    /// Index at which the next token is scanned.
    pub position: usize,
}

impl<'a> JsonScanner<'a> {
    /// Makes a scanner that begins at an index.
    pub fn new(bytes: &'a [u8], index: usize) -> JsonScanner<'a> {
        JsonScanner { bytes, position: index }
    }

    /// Scans the next token.
    pub fn next(&mut self) -> Result<JsonToken<'a>, TokenStop> {
        let bytes = self.bytes;
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.position) {
            self.position += 1;
        }
        let start = self.position;
        let first = *bytes.get(start).ok_or(TokenStop::Incomplete)?;
        let (token, end) = match first {
            b'{' | b'[' => (JsonToken::Open(first), start + 1),
            b'}' | b']' => (JsonToken::Close(first), start + 1),
            b':' => (JsonToken::Colon, start + 1),
            b',' => (JsonToken::Comma, start + 1),
            b'"' => {
                let end = find_text_end(bytes, start + 1).ok_or(TokenStop::Incomplete)?;
                (JsonToken::Text(&bytes[start + 1..end]), end + 1)
            }
            b'-' | b'0'..=b'9' => scan_number(bytes, start).map(|(n, end)| (JsonToken::Number(n), end))?,
            b'a'..=b'z' | b'A'..=b'Z' => {
                let (token, end) = scan_word(bytes, start)?;
                (token, end)
            }
            _ => return Err(TokenStop::Invalid(start, "no JSON")),
        };
        self.position = end;
        Ok(token)
    }
}

/// Finds the closing quote of a string.
fn find_text_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut index = from;
    loop {
        match bytes.get(index)? {
            b'"' => return Some(index),
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
}

fn scan_word(bytes: &[u8], start: usize) -> Result<(JsonToken<'_>, usize), TokenStop> {
    let length = bytes[start..].iter().position(|b| !b.is_ascii_alphabetic()).ok_or(TokenStop::Incomplete)?;
    let end = start + length;
    let is_word = |word: &[u8]| bytes[start..end].eq_ignore_ascii_case(word);
    if is_word(b"nan") || is_word(b"inf") || is_word(b"infinity") {
        Ok((JsonToken::Number(f64::NAN), end))
    } else if is_word(b"null") || is_word(b"true") || is_word(b"false") {
        Ok((JsonToken::Word, end))
    } else {
        Err(TokenStop::Invalid(start, "no JSON"))
    }
}

/// Powers of ten that an `f64` holds exactly.
const POWERS_OF_TEN: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Scans the number that begins here; returns it with the index behind it. A comma between digits is a decimal comma:
/// these documents have no lists of bare numbers.
#[inline]
pub fn scan_number(bytes: &[u8], start: usize) -> Result<(f64, usize), TokenStop> {
    let mut index = start;
    let is_negative = bytes.get(index) == Some(&b'-');
    index += usize::from(is_negative);
    let digits_start = index;
    let mut mantissa: u64 = 0;
    let mut decimals = 0;
    while let Some(digit) = bytes.get(index).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        index += 1;
    }
    let mut count = index - digits_start;
    let point = *bytes.get(index).ok_or(TokenStop::Incomplete)?;
    if point == b'.' || point == b',' {
        let next = *bytes.get(index + 1).ok_or(TokenStop::Incomplete)?;
        if point == b'.' || next.is_ascii_digit() {
            index += 1;
            let decimals_start = index;
            while let Some(digit) = bytes.get(index).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                index += 1;
            }
            decimals = index - decimals_start;
            count += decimals;
        }
    }
    let next = *bytes.get(index).ok_or(TokenStop::Incomplete)?;
    if count == 0 || count > 15 || matches!(next, b'e' | b'E') {
        return scan_unusual_number(bytes, start, digits_start, index);
    }
    let magnitude = mantissa as f64 / POWERS_OF_TEN[decimals];
    Ok((if is_negative { -magnitude } else { magnitude }, index))
}

/// Scans a number with an exponent, with very many digits, or `-nan`.
#[cold]
fn scan_unusual_number(
    bytes: &[u8],
    start: usize,
    digits_start: usize,
    position: usize,
) -> Result<(f64, usize), TokenStop> {
    if position == digits_start {
        return match scan_word(bytes, position)? {
            (JsonToken::Number(nan), end) => Ok((nan, end)),
            _ => Err(TokenStop::Invalid(start, "no number")),
        };
    }
    let is_number_byte = |b: &u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let length = bytes[position..].iter().position(|b| !is_number_byte(b)).ok_or(TokenStop::Incomplete)?;
    let end = position + length;
    let text = std::str::from_utf8(&bytes[start..end]).map_err(|_| TokenStop::Invalid(start, "no number"))?;
    let value: f64 = text.replace(',', ".").parse().map_err(|_| TokenStop::Invalid(start, "no number"))?;
    Ok((if value.is_finite() { value } else { f64::NAN }, end))
}

/// Unescapes a string; invalid escapes stay unchanged.
pub fn unescape_text(raw: &[u8]) -> String {
    if raw.contains(&b'\\') {
        let quoted = [b"\"", raw, b"\""].concat();
        if let Ok(text) = serde_json::from_slice(&quoted) {
            return text;
        }
    }
    String::from_utf8_lossy(raw).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<JsonToken<'_>>, TokenStop> {
        let mut scanner = JsonScanner::new(text.as_bytes(), 0);
        let mut found = Vec::new();
        loop {
            match scanner.next() {
                Ok(token) => found.push(token),
                Err(TokenStop::Incomplete) if scanner.position >= text.len() => return Ok(found),
                Err(stop) => return Err(stop),
            }
        }
    }

    #[test]
    fn distinguishes_tokens() {
        let found = all(r#" {"a\"b": [1.25, null] }"#).unwrap();
        use JsonToken::*;
        let expected =
            [Open(b'{'), Text(b"a\\\"b"), Colon, Open(b'['), Number(1.25), Comma, Word, Close(b']'), Close(b'}')];
        assert_eq!(found, expected);
        assert_eq!(unescape_text(b"a\\\"b\\u00e4"), "a\"b\u{e4}");
    }

    #[test]
    fn numbers_are_exact_and_odd_ones_are_accepted() {
        let scan = |text: &str| scan_number(format!("{text} ").as_bytes(), 0).map(|(n, _)| n);
        for text in
            ["0.00", "309348.00", "12.5", "-3", "1e3", "0.1", "123456789012345678901", "2.2250738585072014e-308"]
        {
            assert_eq!(scan(text), Ok(text.parse().unwrap()), "{text}");
        }
        assert_eq!(scan("0,50,"), Ok(0.5));
        assert_eq!(scan_number(b"7, \"x\"", 0), Ok((7.0, 1)));
        assert!(scan("-nan").unwrap().is_nan());
        assert!(scan("1e999").unwrap().is_nan());
        assert_eq!(scan("-x"), Err(TokenStop::Invalid(1, "no JSON")));
        assert_eq!(scan_number(b"12", 0), Err(TokenStop::Incomplete));
    }

    #[test]
    fn invalid_json_is_reported_with_its_index() {
        assert_eq!(all("{ # }"), Err(TokenStop::Invalid(2, "no JSON")));
        assert_eq!(all("{\"open"), Err(TokenStop::Incomplete));
        assert_eq!(all("[truth]"), Err(TokenStop::Invalid(1, "no JSON")));
    }
}
