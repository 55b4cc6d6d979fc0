//! Headings and rows that a narrow terminal or a mailer broke in two: the parts are joined again, by the number of
//! columns that the headings have.

use crate::sysstat::heading_table::parse_cell;

/// Names of columns of iostat, vmstat, mpstat and sar that stand on a broken heading's second line.
const COLUMN_NAMES: &[&str] = &[
    "rrqm/s",
    "wrqm/s",
    "drqm/s",
    "r/s",
    "w/s",
    "d/s",
    "f/s",
    "rsec/s",
    "wsec/s",
    "rkB/s",
    "wkB/s",
    "dkB/s",
    "rMB/s",
    "wMB/s",
    "dMB/s",
    "avgrq-sz",
    "avgqu-sz",
    "aqu-sz",
    "await",
    "r_await",
    "w_await",
    "d_await",
    "f_await",
    "svctm",
    "%util",
    "%rrqm",
    "%wrqm",
    "%drqm",
    "rareq-sz",
    "wareq-sz",
    "dareq-sz",
    "areq-sz",
    "tps",
    "kB_read/s",
    "kB_wrtn/s",
    "kB_dscd/s",
    "kB_read",
    "kB_wrtn",
    "kB_dscd",
    "MB_read/s",
    "MB_wrtn/s",
    "MB_dscd/s",
    "MB_read",
    "MB_wrtn",
    "MB_dscd",
    "Blk_read/s",
    "Blk_wrtn/s",
    "Blk_read",
    "Blk_wrtn",
    "rqm/s",
    "%rqm",
    "swpd",
    "free",
    "inact",
    "active",
    "buff",
    "cache",
    "si",
    "so",
    "bi",
    "bo",
    "in",
    "cs",
    "us",
    "sy",
    "id",
    "wa",
    "st",
    "gu",
    "%usr",
    "%user",
    "%nice",
    "%sys",
    "%system",
    "%iowait",
    "%irq",
    "%soft",
    "%steal",
    "%guest",
    "%gnice",
    "%idle",
    "intr/s",
];

/// Joins what was broken. Returns whether anything was.
pub(super) fn join_wrapped(lines: &mut Vec<(usize, String)>) -> bool {
    let joined = join_blocks(lines);
    join_lines(lines) || joined
}

fn split_words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// True for a line of nothing but column names: the rest of a heading, since it does not begin one.
fn is_heading_rest(line: &str) -> bool {
    let words = split_words(line);
    !words.is_empty() && words.iter().all(|word| COLUMN_NAMES.contains(word)) && !matches!(words[0], "swpd" | "free")
        || words.len() > 1 && words.iter().all(|word| COLUMN_NAMES.contains(word))
}

/// True for the first part of a heading: the place of its rows' names, then column names.
fn is_heading(line: &str) -> bool {
    let words = split_words(line);
    let is_first = |word: &str| matches!(word, "Device" | "Device:" | "avg-cpu:" | "r" | "CPU" | "b");
    let Some(place) = words.iter().position(|word| is_first(word)) else { return false };
    // before `CPU` stands a time, before vmstat's `r` nothing
    let names = &words[place + 1..];
    let is_name = |word: &&str| COLUMN_NAMES.contains(word) || matches!(*word, "b" | "w");
    place <= 2 && !names.is_empty() && names.iter().all(is_name)
}

fn is_numbers(line: &str) -> bool {
    let words = split_words(line);
    !words.is_empty() && words.iter().all(|word| parse_cell(word, 1.0).is_some())
}

/// Joins headings with their rest and rows with theirs, where they follow each other.
fn join_lines(lines: &mut Vec<(usize, String)>) -> bool {
    let mut joined: Vec<(usize, String)> = Vec::with_capacity(lines.len());
    // columns of the headings that hold, and true if the last line is one of them
    let (mut columns, mut is_behind_heading, mut is_changed) = (0, false, false);
    for (number, line) in lines.drain(..) {
        let count = split_words(&line).len();
        let last_count = joined.last().map_or(0, |(_, last)| split_words(last).len());
        let is_rest = is_behind_heading && is_heading_rest(&line) && !is_heading(&line);
        let is_row_rest = columns > 0
            && !is_behind_heading
            && last_count > 1
            && last_count < columns
            && last_count + count <= columns
            && is_numbers(&line)
            && (last_count + count == columns || count < last_count);
        if let Some((_, last)) = joined.last_mut().filter(|_| is_rest || is_row_rest) {
            last.push(' ');
            last.push_str(line.trim_start());
            columns = if is_rest { columns + count } else { columns };
            is_changed = true;
            continue;
        }
        is_behind_heading = is_heading(&line);
        if is_behind_heading {
            // the label of the processors' shares has no column of its own
            columns = count - usize::from(line.trim_start().starts_with("avg-cpu"));
        } else if line.trim().is_empty() || count > columns + 3 {
            columns = if line.trim().is_empty() { columns } else { 0 };
        }
        joined.push((number, line));
    }
    *lines = joined;
    is_changed
}

/// Joins a table that was broken as a whole: headings, rows, the rest of the headings, the rest of each row.
fn join_blocks(lines: &mut Vec<(usize, String)>) -> bool {
    let mut is_changed = false;
    let mut index = 0;
    while index < lines.len() {
        let is_start = is_heading(&lines[index].1) && split_words(&lines[index].1)[0].starts_with("Device");
        let rows = lines[index + 1..].iter().take_while(|(_, line)| is_disk_row(line)).count();
        let rest = index + 1 + rows;
        let has_rest = is_start && rows > 0 && lines.get(rest).is_some_and(|(_, line)| is_heading_rest(line));
        let rest_rows =
            if has_rest { lines[rest + 1..].iter().take_while(|(_, line)| is_numbers(line)).count() } else { 0 };
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
    words.len() > 1
        && parse_cell(words[0], 1.0).is_none()
        && words[1..].iter().all(|word| parse_cell(word, 1.0).is_some())
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
        ] {
            assert!(!joined_text(text).1, "{text}");
        }
    }
}
