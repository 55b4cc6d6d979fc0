//! Remarks that people write behind the row that matters: `<-- here`, `# slow`, `(this one)`. They are taken away, so
//! that the row is read.

use super::column_names::{is_column_name, parse_heading};
use crate::sysstat::heading_table::parse_cell;

/// Signs that begin a remark and that no tool prints behind a blank.
const ARROWS: [&str; 9] = ["<--", "<==", "<-", "<=", "<<", "←", "⇐", "⬅", "◄"];
/// Signs that begin a remark behind a row of numbers.
const SIGNS: [&str; 7] = ["#", "//", "(", "!", "*", "^", ";"];
/// Most words of a row that are no numbers behind a time: the time, its half of the day, and a name.
const MAX_TIMED_WORDS: usize = 3;
/// Smallest number of numbers of a row that has a remark.
const MIN_NUMBERS: usize = 4;

/// Takes remarks behind rows and headings away. Returns whether there were any.
pub(super) fn remove_remarks(lines: &mut [(usize, String)]) -> bool {
    let mut is_changed = false;
    // rows of processes end with a command, which may be any text
    let mut has_commands = false;
    for (_, line) in lines {
        if line.len() < 12 {
            continue;
        }
        let last = line.trim_end().rsplit(' ').next().unwrap_or_default();
        if last.eq_ignore_ascii_case("command") {
            has_commands = true;
        } else if parse_heading(line).is_some() {
            has_commands = false;
        }
        if let Some(end) = find_remark(line, has_commands) {
            line.truncate(end);
            line.truncate(line.trim_end().len());
            is_changed = true;
        }
    }
    is_changed
}

/// Where the remark behind a row or heading begins.
fn find_remark(line: &str, has_commands: bool) -> Option<usize> {
    for (place, _) in line.match_indices([' ', '\t']) {
        let rest = &line[place + 1..];
        let row = line[..place].trim_end();
        let is_arrow = ARROWS.iter().any(|sign| rest.starts_with(sign));
        let is_sign = !has_commands && SIGNS.iter().any(|sign| rest.starts_with(sign));
        if row.is_empty() || !is_arrow && !is_sign {
            continue;
        }
        let is_table = is_row(row) || is_heading(row) || is_arrow && is_labelled_line(row);
        if is_table && (is_arrow || is_text(rest)) {
            return Some(place);
        }
    }
    None
}

/// True for what is no further cell.
fn is_text(rest: &str) -> bool {
    rest.contains(char::is_alphabetic) || !rest.contains(char::is_numeric)
}

fn is_row(row: &str) -> bool {
    let words: Vec<&str> = row.split_whitespace().collect();
    let numbers = words.iter().filter(|word| parse_cell(word, 1.0).is_some()).count();
    let most = if words[0].contains(':') { MAX_TIMED_WORDS } else { 1 };
    numbers >= MIN_NUMBERS && words.len() - numbers <= most
}

fn is_heading(row: &str) -> bool {
    let words: Vec<&str> = row.split_whitespace().collect();
    let named = words.iter().filter(|word| is_column_name(word)).count();
    named >= MIN_NUMBERS && named + MAX_TIMED_WORDS >= words.len()
}

/// True for a line such as `%Cpu(s): 1.0 us, …`, and the row of a process.
fn is_labelled_line(row: &str) -> bool {
    row.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count() >= MIN_NUMBERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_remarks_away() {
        for (line, row) in [
            ("sdq 1.0 2.0 3.0 4.0   <-- look at 100 %", "sdq 1.0 2.0 3.0 4.0"),
            ("sdq 1.0 2.0 3.0 4.0 # slow", "sdq 1.0 2.0 3.0 4.0"),
            ("sdq 1.0 2.0 3.0 4.0 (slow!)", "sdq 1.0 2.0 3.0 4.0"),
            ("sdq 1.0 2.0 3.0 4.0 !!!", "sdq 1.0 2.0 3.0 4.0"),
            (" r b swpd free buff cache  # these", " r b swpd free buff cache"),
            ("Device: r/s w/s await %util <== watch this", "Device: r/s w/s await %util"),
            ("%Cpu(s):  1.0 us,  2.0 sy,  3.0 ni, 94.0 id <- idle", "%Cpu(s):  1.0 us,  2.0 sy,  3.0 ni, 94.0 id"),
            ("11:22:33 AM all 1.0 2.0 3.0 94.0 // quiet", "11:22:33 AM all 1.0 2.0 3.0 94.0"),
        ] {
            let mut lines = [(1, line.to_owned())];
            assert!(remove_remarks(&mut lines), "{line}");
            assert_eq!(lines[0].1, row);
        }
    }

    #[test]
    fn leaves_output_as_it_is() {
        for text in [
            "sdq 1.0 2.0 3.0 4.0",
            "10:00:00 UID PID %usr %system %CPU CPU Command\n10:00:01 0 12 1.0 2.0 3.0 4 (sd-pam)",
            " 12 root 20 0 100 20 10 S 1.0 0.1 0:01.00 (sd-pam)",
            "#Time UID PID",
            "root@host7:~# vmstat 1 2 3 4",
            "some text (with 1 2 3 4)",
            "1 2 3 4 5 (6) 7",
        ] {
            let mut lines: Vec<(usize, String)> = text.lines().map(|line| (1, line.to_owned())).collect();
            assert!(!remove_remarks(&mut lines), "{lines:?}");
        }
    }
}
