//! Layout of text in columns: display width in a terminal, wrapping, cutting, padding.

use diskwright_base::text::{colour_escape_bytes, is_control};
use unicode_width::UnicodeWidthChar;

/// Returns the number of columns that the text takes when it is shown. Diskwright's colour escapes take none. A
/// control character takes one column, that of the sign shown in its place, so that the width of a foreign name is
/// the same before and after it is made harmless.
pub fn display_width(text: &str) -> usize {
    let mut columns = 0;
    let mut remaining = text;
    while let Some(c) = remaining.chars().next() {
        let escape_bytes = if c == '\x1b' { colour_escape_bytes(remaining) } else { None };
        if escape_bytes.is_none() {
            columns += char_columns(c);
        }
        remaining = &remaining[escape_bytes.unwrap_or(c.len_utf8())..];
    }
    columns
}

/// Returns the columns that a character takes.
pub(crate) fn char_columns(c: char) -> usize {
    if is_control(c) { 1 } else { c.width().unwrap_or(0) }
}

/// Converts text to ASCII: common signs to their plain spelling, others to `?`.
pub fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '–' | '—' | '·' | '−' | '─' => out.push('-'),
            '…' => out.push_str("..."),
            '×' => out.push('x'),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            'µ' | 'μ' => out.push('u'),
            '‘' | '’' => out.push('\''),
            '“' | '”' => out.push('"'),
            '→' => out.push_str("->"),
            '\u{a0}' | '\u{202f}' => out.push(' '),
            _ => out.push('?'),
        }
    }
    out
}

/// Breaks the text into lines of at most `columns`. On the first line,
/// `used_columns` are taken by other text. A word longer than a line is cut, if possible after
/// one of `. _ / - ,`.
pub fn wrap(text: &str, columns: usize, used_columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = vec![String::new()];
    let mut free_columns = columns.saturating_sub(used_columns);
    for word in split_words(text, columns) {
        let mut word = word.as_str();
        // counted once, because a word may have a million letters
        let mut needed = display_width(word);
        let has_codes = word.contains('\x1b');
        loop {
            let line = lines.last_mut().expect("there is always a line");
            let blank = usize::from(!line.is_empty());
            if needed + blank <= free_columns {
                if blank == 1 {
                    line.push(' ');
                }
                line.push_str(word);
                free_columns -= needed + blank;
                break;
            }
            if line.is_empty() && free_columns == columns {
                let head = fitting_prefix(word, columns);
                // ids and paths break after a separator, if there is one
                let end = head.rfind(['.', '_', '/', '-', ',']).map(|index| index + 1);
                let head = end.filter(|&e| e > head.len() / 3).unwrap_or(head.len());
                line.push_str(&word[..head]);
                let (cut, rest) = word.split_at(head);
                needed = if has_codes { display_width(rest) } else { needed - display_width(cut) };
                word = rest;
            }
            lines.push(String::new());
            free_columns = columns;
        }
    }
    lines
}

/// Splits a text into words; a number and its unit are one word, so that no line ends between them.
fn split_words(text: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last)
                if is_number(last) && is_unit(word) && display_width(last) + 1 + display_width(word) <= columns =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches('(');
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || ".,".contains(c))
}

/// Returns true for a unit with its punctuation, such as `%)`, `ms`, `MB/s;`, as
/// [`format_value`](diskwright_base::units::format_value) writes it after a number.
fn is_unit(word: &str) -> bool {
    let unit = word.trim_end_matches([')', ',', ';', '.', ':']);
    let first = unit.split('/').next().unwrap_or(unit);
    let is_size = first.strip_suffix('B').is_some_and(|prefix| ["", "k", "M", "G", "T", "P"].contains(&prefix));
    is_size || ["%", "ns", "us", "µs", "ms", "s", "min", "h", "d", "k", "M", "G"].contains(&first)
}

/// Returns the longest start of the text that fits into `columns`, at least one character.
fn fitting_prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (position, c) in text.char_indices() {
        used += char_columns(c);
        if used > columns && position > 0 {
            return &text[..position];
        }
    }
    text
}

/// Cuts the text to `columns`; if something was cut, it ends in `mark`.
pub fn cut_text(text: &str, columns: usize, mark: &str) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let kept_columns = columns.saturating_sub(display_width(mark));
    if kept_columns == 0 {
        return fitting_prefix(text, columns).to_owned();
    }
    format!("{}{mark}", fitting_prefix(text, kept_columns).trim_end())
}

/// Cuts the text to `columns`; if something was cut, it is the middle, where `..` stands.
pub fn cut_middle(text: &str, columns: usize) -> String {
    cut_middle_with(text, columns, "..", (1, 2))
}

/// Cuts the text to `columns`; if something was cut, it is the middle, where `mark` stands. `tail_share` is the part of
/// the rest that is kept at the end, as numerator and denominator.
pub(crate) fn cut_middle_with(text: &str, columns: usize, mark: &str, tail_share: (usize, usize)) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let kept_columns = columns.saturating_sub(display_width(mark));
    if kept_columns == 0 {
        return cut_text(text, columns, "");
    }
    let tail_columns = kept_columns * tail_share.0 / tail_share.1;
    let mut used = 0;
    let fits_in_tail = |(_, letter): &(usize, char)| {
        used += char_columns(*letter);
        used <= tail_columns
    };
    let tail = text.char_indices().rev().take_while(fits_in_tail).last().map_or(text.len(), |(index, _)| index);
    format!("{}{mark}{}", fitting_prefix(text, kept_columns - tail_columns), &text[tail..])
}

/// Pads the text with blanks at its end to `columns`.
pub fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(display_width(text))))
}

/// Pads the text with blanks before it to `columns`.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(display_width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_what_a_terminal_shows() {
        assert_eq!(display_width("sda"), 3);
        assert_eq!(display_width("\x1b[1;31msda\x1b[0m"), 3);
        assert_eq!(display_width("磁盘"), 4);
    }

    #[test]
    fn a_hostile_name_takes_the_columns_that_are_shown_of_it() {
        for name in
            ["\x1b]0;pwn\x07<i>\nx", "\x1b[2Jx", "\x1b", "a\tb\u{202e}c", "\u{9b}31mz", "\x1b[31", "é\x1b]8;;磁盘"]
        {
            let shown = diskwright_base::text::printable_line(name);
            assert_eq!(display_width(name), display_width(&shown), "{name:?}");
            assert_eq!(diskwright_base::text::printable_line(&pad_right(name, 30)), pad_right(&shown, 30));
            assert_eq!(diskwright_base::text::printable_line(&pad_left(name, 30)), pad_left(&shown, 30));
            assert_eq!(diskwright_base::text::printable_line(&cut_text(name, 4, "~")), cut_text(&shown, 4, "~"));
        }
    }

    #[test]
    fn lines_never_pass_the_margin() {
        let text =
            "a disk that is asked for more than it can serve makes averyveryverylongwordindeed wait 磁盘磁盘磁盘";
        for columns in 8..40 {
            for line in wrap(text, columns, 5) {
                assert!(display_width(&line) <= columns, "{columns}: {line}");
            }
        }
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 4), ["one", "two", "three"]);
        assert_eq!(
            wrap("busy (limit 15 %), 3 k/s of 5 MB and 2 disks", 15, 0),
            ["busy (limit", "15 %), 3 k/s of", "5 MB and 2", "disks"]
        );
    }

    #[test]
    fn nothing_is_lost_by_wrapping() {
        let text = "abcdefghijklmnopqrstuvwxyz 0123456789";
        let joined: String = wrap(text, 8, 3).concat();
        assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
    }

    #[test]
    fn signs_have_a_plain_spelling() {
        assert_eq!(to_ascii("5 µs … — ×2"), "5 us ... - x2");
    }

    #[test]
    fn a_word_of_a_million_letters_is_broken_in_one_pass() {
        let begin = std::time::Instant::now();
        let lines = wrap(&"x".repeat(1 << 20), 64, 0);
        assert_eq!((lines.len(), lines[0].len()), ((1 << 20) / 64, 64));
        // it took minutes where each line measured all that follows
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    #[test]
    fn the_middle_of_a_long_text_is_cut() {
        assert_eq!(cut_middle("tar cf /backup.tar /srv", 23), "tar cf /backup.tar /srv");
        assert_eq!(cut_middle("tar cf /backup.tar /srv", 14), "tar cf..r /srv");
        assert_eq!(cut_middle("tar cf", 2), "ta");
        assert_eq!(cut_middle("漢字漢字漢字", 8), "漢..字");
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(cut_text("postgres: checkpointer", 10, "…"), "postgres:…");
        assert_eq!(cut_text("short", 10, "…"), "short");
        assert_eq!(cut_text("磁盘磁盘", 5, "…"), "磁盘…");
    }
}
