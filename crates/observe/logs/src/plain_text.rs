//! Plain text of lines: without colors, terminal codes and a carriage return at the end; bytes that are not UTF-8 are
//! read as windows-1252.

use std::borrow::Cow;

/// Returns a line without its end and without what only a terminal needs.
pub(crate) fn clean_line(line: &[u8]) -> Cow<'_, str> {
    let line = decode_text(line);
    let line = trim_line_end(line);
    // each line of each log passes here: without a branch per byte the loop is vectorized
    let is_control = |byte: u8| (byte < 0x20) & (byte != b'\t') | (byte == 0x7f);
    let has_control = line.bytes().fold(false, |found, byte| found | is_control(byte));
    if has_control || !line.is_ascii() && line.contains('\u{feff}') {
        return Cow::Owned(strip_controls(&line));
    }
    line
}

/// Decodes bytes as UTF-8, else as windows-1252, which has a letter for almost each byte.
pub(crate) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}

/// Iterates over the lines at a text's beginning. If it was cut there, the last line is left out, unless it is the only
/// one.
pub(crate) fn head_lines(head: &[u8], is_cut: bool) -> impl Iterator<Item = Cow<'_, str>> {
    let complete = match memchr::memrchr(b'\n', head) {
        Some(end) if is_cut => &head[..=end],
        _ => head,
    };
    complete.split(|b| *b == b'\n').map(clean_line)
}

fn trim_line_end(line: Cow<'_, str>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches(['\r', '\n'])),
        Cow::Owned(text) => Cow::Owned(text.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// Removes terminal codes (colors, titles, character sets) and other control characters.
fn strip_controls(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_escape_sequence(&mut letters),
            // a backspace deletes the character before it
            '\u{8}' => {
                clean.pop();
            }
            '\t' => clean.push('\t'),
            '\u{feff}' => {}
            _ if letter.is_control() => {}
            _ => clean.push(letter),
        }
    }
    clean
}

/// Skips the rest of an escape sequence behind its escape.
fn skip_escape_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        // CSI: parameters up to a letter or another final byte
        Some('[') => drop(letters.find(|c| matches!(c, '@'..='~'))),
        // OSC, DCS, APC, PM, SOS: text up to a bell, or to an escape and a backslash
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(letter) = letters.next() {
                if letter == '\u{7}' || letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some() {
                    return;
                }
            }
        }
        // a character set, named by one more letter
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => drop(letters.next()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_colors_and_terminal_codes() {
        for (line, clean) in [
            (&b"13:20:19   \x1b[32;22m     all\x1b[0m\x1b[34;1m      2.15\x1b[0m"[..], "13:20:19        all      2.15"),
            (b"\x1b]0;root@db1: ~\x07\x1b[?2004h[root@db1 ~]# vmstat 1\r", "[root@db1 ~]# vmstat 1"),
            (b"\x1b]0;title\x1b\\sda 1\r\r", "sda 1"),
            (b"\x1b(B\x1b[msda\t1", "sda\t1"),
            (b"vmx\x08stat", "vmstat"),
            (b"\xef\xbb\xbfLinux 6.1.0", "Linux 6.1.0"),
            (b"\0\0\0sda 1", "sda 1"),
            (b"Gr\xf6\xdfe", "Größe"),
            (b"\x1b[", ""),
            (b"\x1b", ""),
            (b"", ""),
        ] {
            assert_eq!(clean_line(line), clean);
        }
    }

    #[test]
    fn leaves_out_the_last_line_of_a_cut_head() {
        assert_eq!(head_lines(b"one\ntwo\nthr", true).collect::<Vec<_>>(), ["one", "two", ""]);
        assert_eq!(head_lines(b"one\ntwo\nthree", false).collect::<Vec<_>>(), ["one", "two", "three"]);
    }
}
