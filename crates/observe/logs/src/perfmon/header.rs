//! A log's first line: dialect, time zone, and columns.

use crate::nt::{self, CounterPath, Language};

use super::charset::Charset;

/// Contents of a header.
#[derive(Debug)]
pub(super) struct PerfmonHeader {
    /// Separator of fields.
    pub separator: u8,
    /// First field, unquoted.
    pub title: String,
    /// Local time less UTC, seconds, if the first field gives it.
    pub offset_s: Option<i32>,
    /// Fields behind the first one, unchanged.
    pub names: Vec<String>,
    /// Code page, if it had to be guessed.
    pub guessed_charset: Option<Charset>,
    /// Number of names that the likeliest language knows.
    pub known_names: usize,
    /// That language, if not English.
    pub language: Option<&'static Language>,
}

/// Strips the end off a line.
pub(super) fn strip_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Strips blanks, terminal codes and a byte order mark off a line's beginning.
pub(super) fn strip_line_start(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    // an escape sequence ends in a letter
    let Some(codes) = line.strip_prefix(b"\x1b[") else { return line };
    codes.iter().position(|b| b.is_ascii_alphabetic()).map_or(line, |end| strip_line_start(&codes[end + 1..]))
}

/// Returns true if a line begins with the mark of the format.
pub(super) fn has_format_mark(line: &[u8]) -> bool {
    let line = strip_line_start(line);
    line.strip_prefix(b"\"").unwrap_or(line).starts_with(b"(PDH-")
}

/// Returns true if a line begins like the header of a PerfMon log: with the mark of its format, or with any field
/// and then a path that names a machine.
pub(super) fn is_header(line: &[u8]) -> bool {
    let line = strip_line_start(line);
    if has_format_mark(line) {
        return true;
    }
    let Some(start) = memchr::memmem::find(line, b"\\\\") else { return false };
    let before = line[..start].strip_suffix(b"\"").unwrap_or(&line[..start]);
    let Some((separator, first)) = before.split_last() else { return false };
    let first = first.strip_prefix(b"\"").and_then(|f| f.strip_suffix(b"\"")).unwrap_or(first);
    let is_plain =
        |f: &[u8]| f.len() < 200 && !f.iter().any(|b| matches!(b, b'\\' | b'"' | b',' | b';' | b'\t' | b'\n'));
    // the machine must be followed by an object and a counter in the same field
    let field = &line[start + 2..];
    let field = &field[..field.iter().position(|b| matches!(b, b'"' | b'\t' | b'\n')).unwrap_or(field.len())];
    matches!(separator, b',' | b';' | b'\t') && is_plain(first) && field.iter().filter(|b| **b == b'\\').count() >= 2
}

/// Counts the cells of a line by its separators, before any of its names is copied. Only separators between quotes are
/// certain where names are quoted.
pub(super) fn count_cells(line: &[u8]) -> usize {
    let line = strip_line_start(line);
    let Some(separator) = find_separator(line) else { return 1 };
    match line.first() {
        Some(b'"') => memchr::memmem::find_iter(line, &[b'"', separator, b'"']).count() + 1,
        _ => memchr::memchr_iter(separator, line).count() + 1,
    }
}

impl PerfmonHeader {
    /// Parses a header line. `None` if it names no column at all.
    pub fn parse(line: &[u8]) -> Option<PerfmonHeader> {
        let line = strip_line_end(strip_line_start(line));
        let separator = find_separator(line)?;
        let mut best: Option<(usize, PerfmonHeader)> = None;
        let candidates: &[Charset] = if std::str::from_utf8(line).is_ok() {
            &[Charset::Known(encoding_rs::UTF_8)]
        } else {
            &Charset::CANDIDATES
        };
        for &charset in candidates {
            let mut fields = split_fields(&charset.decode(line), char::from(separator));
            let title = fields.remove(0);
            let paths: Vec<CounterPath> = fields.iter().filter_map(|name| CounterPath::parse(name)).collect();
            let (language, known) = nt::detect_language(&paths);
            if best.as_ref().is_none_or(|(best_known, _)| known > *best_known) {
                let guessed = (candidates.len() > 1).then_some(charset);
                let offset_s = parse_offset_s(&title);
                best = Some((
                    known,
                    PerfmonHeader {
                        separator,
                        title,
                        offset_s,
                        names: fields,
                        guessed_charset: guessed,
                        known_names: known,
                        language,
                    },
                ));
            }
        }
        best.map(|(_, header)| header).filter(|header| !header.names.is_empty())
    }
}

/// Finds the separator between the first field and the second.
fn find_separator(line: &[u8]) -> Option<u8> {
    let is_separator = |b: &u8| matches!(b, b',' | b';' | b'\t');
    if let Some(rest) = line.strip_prefix(b"\"") {
        let close = rest.iter().position(|b| *b == b'"')?;
        return rest.get(close + 1).copied().filter(is_separator);
    }
    line.iter().copied().find(is_separator)
}

/// Splits a line into fields; quotes around them are removed, doubled ones become single.
fn split_fields(line: &str, separator: char) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if field.is_empty() => is_quoted = true,
            _ if letter == separator && !is_quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(letter),
        }
    }
    fields.push(field);
    // a separator at the very end is no column
    if fields.len() > 1 && fields.last().is_some_and(|f| f.trim().is_empty()) {
        fields.pop();
    }
    fields
}

/// Parses `(PDH-CSV 4.0) (Zone)(bias)`: the bias is minutes west of Greenwich.
fn parse_offset_s(title: &str) -> Option<i32> {
    let (_, last) = title.trim().strip_suffix(')')?.rsplit_once('(')?;
    let bias: i32 = last.trim().parse().ok()?;
    (-24 * 60..=24 * 60).contains(&bias).then_some(-60 * bias)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_minutes_west() {
        assert_eq!(parse_offset_s("(PDH-CSV 4.0) (Eastern Daylight Time)(240)"), Some(-14_400));
        assert_eq!(parse_offset_s("(PDH-TSV 4.0) (Hora de verano romance)(-120)"), Some(7_200));
        assert_eq!(parse_offset_s("(PDH-CSV 4.0) (UTC)(0)"), Some(0));
        assert_eq!(parse_offset_s("(PDH-CSV 4.0) (Zone (x))(-330)"), Some(19_800));
        for title in
            ["(PDH-CSV 4.0)", "(PDH-CSV 4.0) (RTZ 2 (", "(PDH-CSV 4.0) (", "(PDH-CSV 4.0) (Z)(99999)", "", ")("]
        {
            assert_eq!(parse_offset_s(title), None, "{title}");
        }
    }

    #[test]
    fn fields_keep_quoted_text() {
        let line = r#""(PDH-CSV 4.0)","\\H\Processor Information(0,29)\% X","\\H\P(a ""b"")\C""#;
        let header = PerfmonHeader::parse(line.as_bytes()).unwrap();
        assert_eq!(header.separator, b',');
        assert_eq!(header.names, [r"\\H\Processor Information(0,29)\% X", r#"\\H\P(a "b")\C"#]);
        let open = PerfmonHeader::parse(b"(PDH-CSV 4.0) (UTC)(0);\\\\H\\O\\C;\\\\H\\O\\D;\r\n").unwrap();
        assert_eq!((open.separator, open.names.len(), open.offset_s), (b';', 2, Some(0)));
        assert!(PerfmonHeader::parse(b"(PDH-CSV 4.0)").is_none());
        assert!(PerfmonHeader::parse(b"\"(PDH-CSV 4.0").is_none());
        assert!(PerfmonHeader::parse(b"").is_none());
    }

    #[test]
    fn chooses_the_code_page_whose_names_are_known() {
        // Процессор, % загруженности процессора in windows-1251
        let line =
            b"\"(PDH-CSV 4.0) (RTZ 2 (\",\"\\\\H\\\xcf\xf0\xee\xf6\xe5\xf1\xf1\xee\xf0(_Total)\\% \xe7\xe0\xe3\xf0\xf3\
            \xe6\xe5\xed\xed\xee\xf1\xf2\xe8 \xef\xf0\xee\xf6\xe5\xf1\xf1\xee\xf0\xe0\"\r\n";
        let header = PerfmonHeader::parse(line).unwrap();
        assert_eq!(header.guessed_charset.map(Charset::name), Some("windows-1251"));
        assert_eq!(header.language.map(|l| l.id), Some("ru"));
        assert_eq!(header.names, [r"\\H\Процессор(_Total)\% загруженности процессора"]);
        // "Disco físico" as a console writes it
        let line = b"\"(PDH-CSV 4.0)\",\"\\\\H\\Disco f\xa1sico(0 C:)\\% de tiempo inactivo\"";
        assert_eq!(PerfmonHeader::parse(line).unwrap().guessed_charset.map(Charset::name), Some("cp850"));
    }

    #[test]
    fn distinguishes_headers_from_rows() {
        for line in [
            &b"\"(PDH-CSV 4.0) (UTC)(0)\",\"x\""[..],
            b"\xef\xbb\xbf(PDH-TSV 4.0)\tx",
            b"\"Time\",\"\\\\H\\Memory\\Pages/sec\"",
            b"Time;\\\\H\\Memory\\Pages/sec;x",
        ] {
            assert!(is_header(line), "{}", String::from_utf8_lossy(line));
        }
        for line in [
            &b"\"05/06/2010 06:12:22\",\"1\""[..],
            b"",
            b"a,\\\\share",
            b"# a,b",
            b"\"x\",\"\\\\h\\one\"",
            b"\\\\h\\a\\b",
        ] {
            assert!(!is_header(line), "{}", String::from_utf8_lossy(line));
        }
    }
}
