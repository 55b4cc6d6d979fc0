//! Headings and rows that a narrow terminal or a mailer broke: the parts are joined again, by the number of columns
//! that the headings have. A terminal breaks within words too, at its last column.

use super::column_names::{HeadingLine, is_begun_name, is_column_name, parse_heading, split_heading};
use super::unfinished_row::count_decimals;
use crate::sysstat::heading_table::parse_cell;

/// Most parts of a heading or row.
const MAX_PARTS: usize = 4;

/// Joins what was broken. Returns whether anything was.
pub(super) fn join_wrapped(lines: &mut Vec<(usize, String)>) -> bool {
    let joined = join_headings(lines);
    let joined = join_blocks(lines) || joined;
    join_rows(lines) || joined
}

fn split_words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// True for a line of nothing but column names: the rest of a heading, since it does not begin one.
fn is_heading_rest(line: &str) -> bool {
    let words = split_words(line);
    let is_known = !words.is_empty() && words.iter().all(|word| is_column_name(word));
    is_known && (words.len() > 1 || !matches!(words[0], "swpd" | "free"))
}

/// Joins headings with their rest, which may begin within a word.
fn join_headings(lines: &mut Vec<(usize, String)>) -> bool {
    let mut joined: Vec<(usize, String)> = Vec::with_capacity(lines.len());
    let mut is_changed = false;
    for (number, line) in lines.drain(..) {
        let whole = joined.last().and_then(|(_, last)| join_heading(last, &line));
        match (whole, joined.last_mut()) {
            (Some(whole), Some((_, last))) => {
                *last = whole;
                is_changed = true;
            }
            _ => joined.push((number, line)),
        }
    }
    *lines = joined;
    is_changed
}

/// The headings that two lines make; the last word of the first may continue in the next.
fn join_heading(first: &str, next: &str) -> Option<String> {
    let next = next.trim_start();
    // most lines are no headings
    if first.starts_with(|c: char| c.is_ascii_digit()) && !first.contains(':') || next.is_empty() {
        return None;
    }
    let words = split_words(first);
    let (_, names) = split_heading(&words)?;
    let (last, others) = names.split_last()?;
    let is_queue = |word: &str| words[0] == "r" && matches!(word, "b" | "w");
    let are_known = |names: &[&str]| names.iter().all(|word| is_column_name(word) || is_queue(word));
    if !are_known(others) || parse_heading(next).is_some() {
        return None;
    }
    let next_words = split_words(next);
    // the last word of the rest may be broken again
    let is_rest = |names: &[&str]| {
        let begun = names.len() > 1 && names.last().is_some_and(|last| is_begun_name(last));
        are_known(names) || begun && are_known(&names[..names.len() - 1])
    };
    if are_known(&[last]) && is_rest(&next_words) && !matches!(next, "swpd" | "free") {
        return Some(format!("{first} {next}"));
    }
    // `r_` and `await`, `%ut` and `il`
    let is_joined = is_column_name(&format!("{last}{}", next_words[0]))
        && (next_words.len() == 1
            || is_rest(&next_words[1..])
            || next_words.len() == 2 && is_begun_name(next_words[1]));
    is_joined.then(|| format!("{}{next}", first.trim_end()))
}

fn are_numbers(words: &[&str]) -> bool {
    words.iter().all(|word| parse_cell(word, 1.0).is_some())
}

/// Joins rows with their rest, where it follows them, until they have as many words as their headings.
fn join_rows(lines: &mut Vec<(usize, String)>) -> bool {
    let mut joined: Vec<(usize, String)> = Vec::with_capacity(lines.len());
    let mut heading = None;
    let mut is_changed = false;
    let mut index = 0;
    while index < lines.len() {
        let (number, line) = &lines[index];
        let mut parts = 1;
        let mut line = line.clone();
        if let Some(found) = parse_heading(&line) {
            heading = Some(found);
        } else if let Some(heading) = heading
            && let Some((count, whole)) = join_row(&lines[index..], heading)
        {
            (parts, line, is_changed) = (count, whole, true);
        }
        joined.push((*number, line));
        index += parts;
    }
    *lines = joined;
    is_changed
}

/// Joins a row with the lines behind it; returns the number of lines, and the whole row.
fn join_row(lines: &[(usize, String)], heading: HeadingLine) -> Option<(usize, String)> {
    let words = split_words(&lines[0].1);
    let is_begun = words.len() > heading.named
        && words.len() < heading.columns
        && (heading.named == 0 || parse_cell(words[heading.named - 1], 1.0).is_none() || heading.named > 1)
        && are_numbers(&words[heading.named..words.len() - 1]);
    if !is_begun {
        return None;
    }
    let is_rest = |(_, next): &&(usize, String)| {
        let next_words = split_words(next);
        let is_part = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'));
        !next_words.is_empty() && next_words.len() < heading.columns && next_words.iter().all(is_part)
    };
    let parts = 1 + lines[1..].iter().take(MAX_PARTS - 1).take_while(is_rest).count();
    let find = |count: usize| Some((count, join_parts(&lines[..count], heading)?));
    // below a row with a name, all lines of numbers alone are its rest
    if heading.named > 0 { (2..=parts).rev().find_map(find) } else { (2..=parts).find_map(find) }
}

/// Joins the parts of a row, if they make a whole one.
fn join_parts(lines: &[(usize, String)], heading: HeadingLine) -> Option<String> {
    let mut wholes = vec![lines[0].1.clone()];
    for (_, next) in &lines[1..] {
        let rest = next.trim_start();
        let spaced = wholes.iter().map(|whole| format!("{whole} {rest}"));
        // a number that was broken has no blank within
        let is_apart = next.starts_with([' ', '\t']);
        let unspaced = wholes.iter().filter(|_| !is_apart).map(|whole| format!("{whole}{rest}"));
        wholes = spaced.chain(unspaced).collect();
    }
    wholes.retain(|whole| {
        let words = split_words(whole);
        words.len() == heading.columns && are_numbers(&words[heading.named..])
    });
    // a tool prints the same number of decimals in most columns
    wholes.into_iter().min_by_key(|whole| count_decimal_forms(whole))
}

/// Number of different counts of decimals in a row's numbers.
fn count_decimal_forms(row: &str) -> usize {
    let numbers = row.split_whitespace().filter(|word| parse_cell(word, 1.0).is_some());
    numbers.map(count_decimals).collect::<std::collections::BTreeSet<_>>().len()
}

/// Joins a table that was broken as a whole: headings, rows, the rest of the headings, the rest of each row.
fn join_blocks(lines: &mut Vec<(usize, String)>) -> bool {
    let mut is_changed = false;
    let mut index = 0;
    while index < lines.len() {
        if parse_heading(&lines[index].1).is_none_or(|heading| heading.named != 1) {
            index += 1;
            continue;
        }
        let rows = lines[index + 1..].iter().take_while(|(_, line)| is_disk_row(line)).count();
        let rest = index + 1 + rows;
        let has_rest = rows > 0 && lines.get(rest).is_some_and(|(_, line)| is_heading_rest(line));
        let is_row_rest = |line: &str| !line.trim().is_empty() && are_numbers(&split_words(line));
        let rest_rows =
            if has_rest { lines[rest + 1..].iter().take_while(|(_, line)| is_row_rest(line)).count() } else { 0 };
        if has_rest && rest_rows >= rows {
            let parts: Vec<String> = lines.drain(rest..=rest + rows).map(|(_, line)| line).collect();
            for (offset, part) in parts.iter().enumerate() {
                let line = &mut lines[index + offset].1;
                line.push(' ');
                line.push_str(part.trim_start());
            }
            is_changed = true;
            // there may be a third part
            continue;
        }
        index += 1;
    }
    is_changed
}

fn is_disk_row(line: &str) -> bool {
    let words = split_words(line);
    words.len() > 1 && parse_cell(words[0], 1.0).is_none() && are_numbers(&words[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined_text(text: &str) -> (String, bool) {
        let mut lines: Vec<(usize, String)> = text.lines().map(|line| (1, line.to_owned())).collect();
        let is_changed = join_wrapped(&mut lines);
        (lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n"), is_changed)
    }

    #[test]
    fn time_grows_with_the_rows_and_not_with_their_square() {
        let row = "sda 1.00 2.00 3.00 4.00 5.00 6.00 7.00 8.00 9.00 10.00 11.00";
        let text = [row; 20_000].join("\n");
        let begin = std::time::Instant::now();
        assert!(!joined_text(&text).1);
        // less than a second; minutes where each row looked at all below it
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }

    #[test]
    fn joins_headings_and_rows() {
        for (text, whole) in [
            ("r b swpd free\nbuff cache si so\n1 2 3 4 5 6\n7 8", "r b swpd free buff cache si so\n1 2 3 4 5 6 7 8"),
            (
                "Device: r/s w/s rkB/s\nwkB/s await %util\nsda 1 2 3\n4 5 6\nsdb 1 2 3\n4 5 6",
                "Device: r/s w/s rkB/s wkB/s await %util\nsda 1 2 3 4 5 6\nsdb 1 2 3 4 5 6",
            ),
            (
                "Device r/s w/s\nsda 1 2\nsdb 3 4\nawait %util\n5 6\n7 8",
                "Device r/s w/s await %util\nsda 1 2 5 6\nsdb 3 4 7 8",
            ),
            ("avg-cpu: %user %nice\n%idle\n1 2\n3", "avg-cpu: %user %nice %idle\n1 2 3"),
            // within words and numbers, in three parts
            (
                "Device: r/s w/s r_\nawait w_await\n%util\nsda 1.00 2.00 3\n4.50 5.00\n60.00\n\
                 sdb 1.00 2.00 34.\n50 5.00 6\n1.00",
                "Device: r/s w/s r_await w_await %util\nsda 1.00 2.00 34.50 5.00 60.00\nsdb 1.00 2.00 34.50 5.00 61.00",
            ),
            (
                "Device: r/s rkB/s w/s wkB\n/s w_await da\nreq-sz %util\nsda 1.00 2.00 3.00 4.\n00 5.00 6.00\n  7.00",
                "Device: r/s rkB/s w/s wkB/s w_await dareq-sz %util\nsda 1.00 2.00 3.00 4.00 5.00 6.00 7.00",
            ),
            (
                "10:00:00 DEV tps await %ut\nil\n10:10:00 sda 1.00 2.0\n0 3.00",
                "10:00:00 DEV tps await %util\n10:10:00 sda 1.00 2.00 3.00",
            ),
        ] {
            assert_eq!(joined_text(text), (whole.to_owned(), true), "{text}");
        }
    }

    #[test]
    fn leaves_whole_tables() {
        for text in [
            "r b swpd free\n1 2 3 4\n1 2 3 4",
            "avg-cpu: %user %nice\n 1 2\n\nDevice r/s w/s\nsda 1 2\nsdb 3 4",
            "Device r/s w/s\nvery-long-name\n 1 2\nsda 3 4",
            "10:00:00 CPU %usr %idle\n10:00:01 all 1 2\n10:00:01 0 1 2",
            // a row that was cut
            "Device r/s w/s await\nsda 1 2\nsdb 3 4 5",
            "r b swpd free\n1 2 3\n1 2 3 4",
        ] {
            assert!(!joined_text(text).1, "{text}");
        }
    }
}
