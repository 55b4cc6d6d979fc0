//! Marks of posting around output: quotes, bold letters, code marks, tags of web pages, quoted-printable, line numbers.
//! They are taken away wherever they stand; the output itself keeps its letters.

use std::borrow::Cow;

use super::{row_remarks, table_marks};
use crate::plain_text;

/// Part of the lines, percent, that must have a mark before it counts as one: a few lines are left out of each quote.
const MIN_MARKED_PERCENT: usize = 80;
/// Smallest number of lines that show a mark before all lines.
const MIN_MARKED_LINES: usize = 3;

/// Lines of a text without marks, with whether there were any.
pub(super) struct CleanLines {
    /// Each with the number of its first line in the text, counted from 1.
    pub lines: Vec<(usize, String)>,
    /// Set if something was taken away that a reader does not expect.
    pub had_marks: bool,
}

/// Takes the marks of posting away.
pub(super) fn remove_marks(text: &str) -> CleanLines {
    let mut lines: Vec<(usize, String)> =
        text.split('\n').enumerate().map(|(index, line)| (index + 1, clean_controls(line))).collect();
    let mut had_marks = decode_quoted_printable(&mut lines);
    for (_, line) in &mut lines {
        if let Cow::Owned(clean) = clean_letters(line) {
            had_marks = true;
            *line = clean;
        }
    }
    had_marks |= remove_quotes(&mut lines);
    had_marks |= remove_indent(&mut lines);
    had_marks |= table_marks::remove_bars(&mut lines);
    had_marks |= table_marks::remove_line_numbers(&mut lines);
    had_marks |= row_remarks::remove_remarks(&mut lines);
    CleanLines { lines, had_marks }
}

fn clean_controls(line: &str) -> String {
    // a program that draws a screen prints its lines over each other
    let line = line.trim_end_matches('\r');
    let line = line.rsplit_once('\r').map_or(line, |(_, last)| last);
    plain_text::clean_line(line.as_bytes()).trim_end().to_owned()
}

/// Decodes quoted-printable, as mail carries it: `=3D`, `=20` and `=` at the ends of lines.
fn decode_quoted_printable(lines: &mut Vec<(usize, String)>) -> bool {
    let is_code = |code: &str| matches!(code, "=20" | "=3D" | "=2D" | "=3E" | "=09" | "=C2" | "=A0" | "=E2");
    let count_codes = |line: &str| {
        line.match_indices('=').filter(|(place, _)| line.get(*place..place + 3).is_some_and(is_code)).count()
    };
    let coded: usize = lines.iter().map(|(_, line)| count_codes(line)).sum();
    let broken = lines.iter().filter(|(_, line)| line.len() > 60 && line.ends_with('=')).count();
    if coded + broken < 2 || coded == 0 && broken < 2 {
        return false;
    }
    let mut decoded: Vec<(usize, String)> = Vec::new();
    let mut is_joined = false;
    for (number, line) in lines.drain(..) {
        let (part, is_soft) = line.strip_suffix('=').map_or((line.as_str(), false), |part| (part, true));
        let part = decode_codes(part);
        match decoded.last_mut().filter(|_| is_joined) {
            Some((_, last)) => last.push_str(&part),
            None => decoded.push((number, part)),
        }
        is_joined = is_soft;
    }
    *lines = decoded;
    true
}

fn decode_codes(line: &str) -> String {
    let bytes = line.as_bytes();
    let (mut plain, mut index) = (Vec::with_capacity(bytes.len()), 0);
    while index < bytes.len() {
        let code = bytes.get(index + 1..index + 3).filter(|_| bytes[index] == b'=');
        let value = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        plain.push(value.unwrap_or(bytes[index]));
        index += if value.is_some() { 3 } else { 1 };
    }
    plain_text::decode_text(&plain).into_owned()
}

/// Tags of web pages and forums that stand around output.
const TAGS: [&str; 16] = [
    "pre",
    "code",
    "b",
    "i",
    "u",
    "tt",
    "br",
    "br/",
    "p",
    "span",
    "div",
    "font",
    "quote",
    "strong",
    "em",
    "blockquote",
];
/// Names of letters in web pages.
const ENTITIES: [(&str, &str); 7] =
    [("&gt;", ">"), ("&lt;", "<"), ("&nbsp;", " "), ("&#37;", "%"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];

/// Removes marks within a line, and replaces blanks and hyphens that only look like them.
fn clean_letters(line: &str) -> Cow<'_, str> {
    let is_special = |c: char| {
        matches!(
            c,
            '\u{a0}' | '\u{ad}' | '\u{2000}'..='\u{200d}' | '\u{2010}'..='\u{2015}' | '\u{202f}'
                | '\u{2212}' | '\u{3000}' | '\u{feff}'
        )
    };
    let mut line = Cow::Borrowed(line);
    if !line.is_ascii() && line.contains(is_special) {
        line = Cow::Owned(line.chars().filter_map(plain_letter).collect());
    }
    if line.contains('&') {
        for (name, letter) in ENTITIES {
            if line.contains(name) {
                line = Cow::Owned(line.replace(name, letter));
            }
        }
    }
    if line.contains(['<', '[']) {
        line = remove_tags(line);
    }
    if line.contains('`') {
        line = Cow::Owned(line.replace('`', ""));
    }
    if line.contains('*') {
        line = remove_asterisks(line);
    }
    line
}

fn plain_letter(letter: char) -> Option<char> {
    match letter {
        '\u{200b}'..='\u{200d}' | '\u{feff}' | '\u{ad}' => None,
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => Some(' '),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        other => Some(other),
    }
}

/// Removes `<b>`, `[code]` and the like.
fn remove_tags(line: Cow<'_, str>) -> Cow<'_, str> {
    let mut plain = String::new();
    let mut rest = &*line;
    let mut is_changed = false;
    while let Some(open) = rest.find(['<', '[']) {
        let close = if rest[open..].starts_with('<') { '>' } else { ']' };
        let tag = rest[open + 1..].find(close).map(|end| &rest[open + 1..open + 1 + end]);
        let name = tag.map(|tag| tag.trim_start_matches('/').split([' ', '=']).next().unwrap_or_default());
        let is_tag = name.is_some_and(|name| TAGS.iter().any(|known| name.eq_ignore_ascii_case(known)));
        match tag.filter(|_| is_tag) {
            Some(tag) => {
                plain.push_str(&rest[..open]);
                rest = &rest[open + tag.len() + 2..];
                is_changed = true;
            }
            None => {
                plain.push_str(&rest[..=open]);
                rest = &rest[open + 1..];
            }
        }
    }
    if !is_changed {
        return line;
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Removes `**` around bold words, and `*` around a number; `zzz ***` and a command line's `*` stay.
fn remove_asterisks(line: Cow<'_, str>) -> Cow<'_, str> {
    let pairs = line.matches("**").count();
    if pairs > 0 && pairs.is_multiple_of(2) && !line.contains("***") {
        return Cow::Owned(line.replace("**", ""));
    }
    let is_bold = |word: &str| {
        let inner = word.strip_prefix('*').and_then(|word| word.strip_suffix('*')).unwrap_or_default();
        !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'%'))
    };
    if !line.split_whitespace().any(is_bold) {
        return line;
    }
    let words = line.split(' ').map(|word| if is_bold(word) { word.trim_matches('*') } else { word });
    Cow::Owned(words.collect::<Vec<_>>().join(" "))
}

/// Removes `> ` before lines, as often as it stands there. A shell's prompt may be one too; its command remains.
fn remove_quotes(lines: &mut [(usize, String)]) -> bool {
    let mut is_changed = false;
    loop {
        let quoted = lines.iter().filter(|(_, line)| line.starts_with('>')).count();
        let text = lines.iter().filter(|(_, line)| !line.is_empty()).count();
        let is_each = quoted * 100 >= text * MIN_MARKED_PERCENT;
        if quoted == 0 || quoted < MIN_MARKED_LINES && !is_each {
            return is_changed;
        }
        for (_, line) in lines.iter_mut().filter(|(_, line)| line.starts_with('>')) {
            let rest = &line[1..];
            *line = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        }
        is_changed = true;
    }
}

/// Removes four blanks or a tab before all lines, as markdown wants them around output.
fn remove_indent(lines: &mut [(usize, String)]) -> bool {
    let strip = |line: &str| line.strip_prefix("    ").or_else(|| line.strip_prefix('\t')).map(str::to_owned);
    let filled = lines.iter().filter(|(_, line)| !line.trim().is_empty());
    let is_each = filled.clone().count() >= MIN_MARKED_LINES && filled.clone().all(|(_, line)| strip(line).is_some());
    if is_each {
        lines.iter_mut().for_each(|(_, line)| *line = strip(line).unwrap_or_default());
    }
    is_each
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned_lines(text: &str) -> (Vec<String>, bool) {
        let found = remove_marks(text);
        (found.lines.into_iter().map(|(_, line)| line).collect(), found.had_marks)
    }

    #[test]
    fn takes_marks_away() {
        for (text, lines) in [
            ("> > one 1\n> > two 2\n>> three 3", &["one 1", "two 2", "three 3"][..]),
            ("us **wa** st\n1 **97.5** 0", &["us wa st", "1 97.5 0"]),
            ("12 *88* 3", &["12 88 3"]),
            ("## `iostat -x 4`", &["## iostat -x 4"]),
            ("a\u{a0}b\u{200b}c \u{2013}x", &["a bc -x"]),
            ("<pre>sda 1<br>\n[code]sdb 2[/code]", &["sda 1", "sdb 2"]),
            ("a &gt; b &amp;&nbsp;c", &["a > b & c"]),
            (
                "r =20b\nsda =3D 4\nlong line that was broken by a mailer near its end, and goes on below=\n here",
                &["r  b", "sda = 4", "long line that was broken by a mailer near its end, and goes on below here"],
            ),
            ("     1\tprocs\n     2\t r b\n     3\t 1 0", &["procs", " r b", " 1 0"]),
            ("7:procs\n8: r b\n9: 1 0", &["procs", "r b", "1 0"]),
            ("    pool\n      sda\n\n    tank", &["pool", "  sda", "", "tank"]),
        ] {
            assert_eq!(cleaned_lines(text), (lines.iter().map(|line| (*line).to_owned()).collect(), true), "{text}");
        }
    }

    #[test]
    fn leaves_output_as_it_is() {
        for text in [
            "zzz ***Mon Nov 23 17:32:32 UTC 2026",
            "0 1 2\n1 2 3\n2 3 4\n3 4 5",
            "root 12 [kworker/0:1] <defunct>",
            "**** Disk activity ****",
            "a=1 b=2",
            "\u{1b}[1msda\u{1b}[0m",
        ] {
            assert!(!cleaned_lines(text).1, "{text}");
        }
    }
}
