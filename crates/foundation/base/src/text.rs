//! Text from outside (names of files, devices and processes, cells of logs, answers of
//! stores), made fit for a terminal or a log file that people read. A name may hold
//! escape sequences that move the cursor, rename the window or type into it.

use std::borrow::Cow;

/// Replaces a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Returns true if a terminal or a viewer acts on this character instead of showing it: C0 and C1
/// control characters, and the marks that change the direction of text or end a line.
pub fn is_control(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || changes_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Makes foreign text safe to print in one line: line ends and tabs become blanks, other control
/// characters U+FFFD.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    replace_controls(text, |_| false)
}

/// Makes foreign text of several lines safe to print; line ends stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replace_controls(text, |c| c == '\n')
}

fn replace_controls(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_control(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let replaced = |c: char| match c {
        c if keep(c) || !is_control(c) => c,
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        _ => REPLACEMENT,
    };
    Cow::Owned(text.chars().map(replaced).collect())
}

/// Makes a finished screen safe to print, as [`printable_lines`] does; if `colour` is true,
/// `ESC [ digits m` stays, which sets colours and nothing else.
pub fn sanitize_screen(text: &str, colour: bool) -> Cow<'_, str> {
    if !colour {
        return printable_lines(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('\x1b') {
        out.push_str(&printable_lines(&rest[..position]));
        let length = colour_escape_bytes(&rest[position..]);
        match length {
            Some(length) => out.push_str(&rest[position..position + length]),
            None => out.push(REPLACEMENT),
        }
        rest = &rest[position + length.unwrap_or(1)..];
    }
    out.push_str(&printable_lines(rest));
    Cow::Owned(out)
}

/// Length in bytes of the colour escape at the start of the text, if there is one.
pub fn colour_escape_bytes(text: &str) -> Option<usize> {
    const MAX_CODE_BYTES: usize = 8;
    let codes = text.strip_prefix("\x1b[")?;
    let digits = codes.bytes().take(MAX_CODE_BYTES).take_while(|b| b.is_ascii_digit() || *b == b';').count();
    (codes.as_bytes().get(digits) == Some(&b'm')).then_some(digits + 3)
}

/// Escapes the control characters that JSON allows raw (DEL, C1, direction marks) as `\u`:
/// the data stay the same, and nothing is left that a terminal acts on. Such characters
/// occur in strings only, because a document has none elsewhere.
pub fn escape_json(document: &str) -> Cow<'_, str> {
    if !document.chars().any(|c| is_control(c) && !c.is_ascii_control() || c == '\x7f') {
        return Cow::Borrowed(document);
    }
    let mut out = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        match c {
            // all of them are in the basic multilingual plane: four digits are enough
            c if is_control(c) && !matches!(c, '\n' | '\r' | '\t') => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Cuts a foreign text to at most `max_chars` printable characters in one line, for a message.
pub fn truncate_text(text: &str, max_chars: usize) -> String {
    let shown: String = printable_line(text).chars().take(max_chars).collect();
    if text.chars().nth(max_chars).is_some() { shown + "…" } else { shown }
}

/// Returns true if two names belong to one machine. Case does not matter, and a short name equals
/// a long one that begins with it: `db1` and `DB1.example.com`. Two long names are compared in full.
pub fn is_same_host(name: &str, other_name: &str) -> bool {
    let is_short_form = |short: &str, long: &str| {
        let first_label = long.split('.').next().unwrap_or_default();
        // the first number of an address is not a host name
        let is_name = first_label.contains(|c: char| !c.is_ascii_digit());
        is_name && !short.contains('.') && short.eq_ignore_ascii_case(first_label)
    };
    name.eq_ignore_ascii_case(other_name) || is_short_form(name, other_name) || is_short_form(other_name, name)
}

/// Writes a text as a cell of CSV (RFC 4180): one that holds a comma, a quote or a line end, or has
/// blanks around it, is quoted.
pub fn quote_csv_cell(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\r', '\n']) || text.trim() != text {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

/// Quotes a text as one word of a shell's command, whatever it contains: others choose names of mount points, programs
/// and cgroups. A plain word stays as it is. Control characters need the syntax of bash and zsh.
pub fn quote_for_shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if text.chars().all(is_plain) && !text.is_empty() {
        return text.to_owned();
    }
    quote_always(text)
}

/// Quotes a text for a shell in any case; see [`quote_for_shell`].
pub fn quote_always(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let escaped = text.chars().map(|c| match c {
        '\'' => r"\'".to_owned(),
        '\\' => r"\\".to_owned(),
        c if c.is_control() => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// Prefixes a text cell that a spreadsheet would take for a formula with an apostrophe,
/// which the spreadsheet hides. Not for numbers.
pub fn escape_formula(cell: &str) -> Cow<'_, str> {
    match cell.starts_with(FORMULA_STARTS) {
        true => Cow::Owned(format!("'{cell}")),
        false => Cow::Borrowed(cell),
    }
}

/// Reverses [`escape_formula`].
pub fn unescape_formula(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|rest| rest.starts_with(FORMULA_STARTS)).unwrap_or(cell)
}

/// Characters that a formula can begin with.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[2J\x07b\u{7f}\u{9b}31m\u{202e}c\u{2066}\u{2028}d\r\te\n\0";

    #[test]
    fn a_foreign_text_is_one_word_of_a_shell() {
        for (text, word) in [
            ("/data/probe.dat", "/data/probe.dat"),
            ("/run/media/ann/My Disk/probe.dat", "'/run/media/ann/My Disk/probe.dat'"),
            ("/mnt/it's $(x)/probe.dat", r"'/mnt/it'\''s $(x)/probe.dat'"),
            ("/jobs\n/a", r"$'/jobs\x0a/a'"),
            ("", "''"),
        ] {
            assert_eq!(quote_for_shell(text), word);
        }
    }

    #[test]
    fn no_terminal_control_is_left() {
        assert!(!printable_line(HOSTILE).chars().any(is_control));
        assert_eq!(printable_lines(HOSTILE).chars().filter(|c| is_control(*c)).collect::<String>(), "\n");
        assert_eq!(sanitize_screen(HOSTILE, true).chars().filter(|c| is_control(*c)).collect::<String>(), "\n");
        assert!(matches!(printable_line("sda 磁盘 ü"), Cow::Borrowed("sda 磁盘 ü")));
    }

    #[test]
    fn only_colour_escapes_stay_on_a_terminal() {
        let own = "\x1b[1;31mdisk\x1b[0m\n";
        assert_eq!(sanitize_screen(own, true), own);
        assert!(!sanitize_screen(own, false).contains('\x1b'));
        for other in ["\x1b", "\x1b[", "\x1b[31", "\x1b[2J", "\x1b]0;x\x07", "\x1b[111111111m", "\x1b[?25m", "\x1bm"] {
            let shown = sanitize_screen(other, true);
            assert!(!shown.chars().any(is_control), "{other:?}: {shown:?}");
        }
    }

    #[test]
    fn json_stays_the_same_data() {
        let value = serde_json::json!({ "name": HOSTILE, "ä": [1.5, "plain"] });
        let written = serde_json::to_string_pretty(&value).expect("JSON");
        let safe = escape_json(&written);
        assert!(!safe.chars().any(|c| is_control(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).expect("JSON"), value);
        assert!(matches!(escape_json("{\"a\":\n1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn formulas_are_escaped_and_restored() {
        for formula in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(escape_formula(formula), format!("'{formula}"));
            assert_eq!(unescape_formula(&escape_formula(formula)), formula);
        }
        for plain in ["sda", "", "'quoted'", "a=b"] {
            assert_eq!((escape_formula(plain).as_ref(), unescape_formula(plain)), (plain, plain));
        }
    }

    #[test]
    fn a_short_host_name_equals_the_long_one() {
        let same = [("db1", "DB1"), ("db1", "db1.example.com"), ("db1.example.com", "DB1"), ("10.0.0.1", "10.0.0.1")];
        assert!(same.iter().all(|(one, other)| is_same_host(one, other)));
        let others = [("db1.a.org", "db1.b.org"), ("db1", "db2"), ("10", "10.0.0.1"), ("", "db1"), ("db", "db1.a")];
        assert!(others.iter().all(|(one, other)| !is_same_host(one, other) && !is_same_host(other, one)));
    }

    #[test]
    fn csv_cells_are_quoted_only_where_needed() {
        let cells = ["sda", "a,b", "a\"b", "a\nb", " a", ""].map(quote_csv_cell);
        assert_eq!(cells, ["sda", "\"a,b\"", "\"a\"\"b\"", "\"a\nb\"", "\" a\"", ""]);
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        assert_eq!(truncate_text("abcdef", 3), "abc…");
        assert_eq!(truncate_text("a\x1bc", 3), "a\u{fffd}c");
    }
}
