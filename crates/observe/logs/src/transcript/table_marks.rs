//! Bars of tables (`| a | b |`) and numbers before lines, as editors and trackers draw them.

/// Smallest number of lines with a mark that show that each line has one.
const MIN_MARKED_LINES: usize = 3;
/// Part of the lines, percent, that must begin with a bar.
const MIN_BARRED_PERCENT: usize = 80;
/// Smallest number of lines that show numbers with one blank behind.
const MIN_TIGHT_LINES: usize = 4;

/// Removes the bars of tables, and a bar before each line. Lines of hyphens between headings and rows go.
pub(super) fn remove_bars(lines: &mut Vec<(usize, String)>) -> bool {
    let begins = |line: &str| line.trim_start().starts_with('|');
    let is_table_row = |line: &str| begins(line) && line.trim_end().ends_with('|') && line.trim().len() > 1;
    let barred = lines.iter().filter(|(_, line)| begins(line)).count();
    let filled = lines.iter().filter(|(_, line)| !line.trim().is_empty()).count();
    let rows = lines.iter().filter(|(_, line)| is_table_row(line)).count();
    if rows >= 2 {
        let is_rule = |line: &str| {
            is_table_row(line) && line.contains("--") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '+'))
        };
        lines.retain(|(_, line)| !is_rule(line));
        for (_, line) in lines.iter_mut().filter(|(_, line)| is_table_row(line)) {
            let cells = line.trim().trim_matches('|').split('|').map(str::trim);
            *line = cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  ");
        }
        return true;
    }
    if barred < MIN_MARKED_LINES || barred * 100 < filled * MIN_BARRED_PERCENT {
        return false;
    }
    for (_, line) in lines.iter_mut() {
        if let Some(rest) = line.trim_start().strip_prefix('|') {
            *line = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        }
    }
    true
}

/// Removes the numbers of `cat -n`, `nl` and `grep -n` before lines.
pub(super) fn remove_line_numbers(lines: &mut [(usize, String)]) -> bool {
    let filled: Vec<&str> =
        lines.iter().map(|(_, line)| line.as_str()).filter(|line| !line.trim().is_empty()).collect();
    let mut expected = None;
    let mut hits = 0;
    for line in &filled {
        let Some((number, _)) = split_line_number(line, false) else { continue };
        let is_next = expected.is_none_or(|expected| (expected..expected + 3).contains(&number));
        hits += usize::from(is_next);
        expected = Some(number + 1);
    }
    let is_wide = hits >= MIN_MARKED_LINES && hits * 100 >= filled.len() * 95;
    if !is_wide && !are_tight_numbers(&filled) {
        return false;
    }
    for (_, line) in lines.iter_mut() {
        if let Some((_, rest)) = split_line_number(line, !is_wide) {
            *line = rest.to_owned();
        }
    }
    true
}

/// True if every line begins with the next number and a blank, and some line has words behind it.
fn are_tight_numbers(filled: &[&str]) -> bool {
    let split: Option<Vec<(u64, &str)>> = filled.iter().map(|line| split_line_number(line, true)).collect();
    let Some(split) = split.filter(|split| split.len() >= MIN_TIGHT_LINES) else { return false };
    let has_words = |rest: &str| rest.trim_start().starts_with(char::is_alphabetic);
    split.windows(2).all(|two| two[1].0 == two[0].0 + 1) && split.iter().any(|(_, rest)| has_words(rest))
}

/// Splits a number and what separates it off: a tab, a colon or two blanks, or one blank if numbers are tight.
fn split_line_number(line: &str, is_tight: bool) -> Option<(u64, &str)> {
    let trimmed = line.trim_start();
    let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = trimmed.get(..digits)?.parse().ok()?;
    let rest = &trimmed[digits..];
    if rest.is_empty() {
        return Some((number, rest));
    }
    let blanks = if is_tight { " " } else { "  " };
    let marks = ["\t", ": ", ":", blanks];
    let rest = marks.iter().find_map(|mark| rest.strip_prefix(mark))?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_lines(text: &str, change: impl Fn(&mut Vec<(usize, String)>) -> bool) -> Option<Vec<String>> {
        let mut lines: Vec<(usize, String)> = text.lines().map(|line| (1, line.to_owned())).collect();
        change(&mut lines).then(|| lines.into_iter().map(|(_, line)| line).collect())
    }

    #[test]
    fn bars_go() {
        for (text, wanted) in [
            ("| Device | r/s |\n|---|---:|\n| sdq | 4.0 |", Some(vec!["Device  r/s", "sdq  4.0"])),
            ("| Device r/s\n|\n| sdq 4.0", Some(vec!["Device r/s", "", "sdq 4.0"])),
            ("usr sys|read writ\n 1 2| 3 4\n 1 2| 3 4", None),
            ("one\n| two\nthree\nfour", None),
        ] {
            let wanted = wanted.map(|lines| lines.into_iter().map(str::to_owned).collect());
            assert_eq!(changed_lines(text, remove_bars), wanted, "{text}");
        }
    }

    #[test]
    fn numbers_before_lines_go() {
        let remove = |lines: &mut Vec<(usize, String)>| remove_line_numbers(lines);
        for (text, wanted) in [
            ("  1 procs\n  2  r b\n  3  1 0\n  4  2 0", Some(vec!["procs", " r b", " 1 0", " 2 0"])),
            (" 9 a b\n10 1 0\n11 2 0\n12", Some(vec!["a b", "1 0", "2 0", ""])),
            // rows of numbers that count up
            ("1 2\n2 3\n3 4\n4 5", None),
            ("1 a\n2 b\n4 c\n5 d", None),
        ] {
            let wanted = wanted.map(|lines| lines.into_iter().map(str::to_owned).collect());
            assert_eq!(changed_lines(text, remove), wanted, "{text}");
        }
    }
}
