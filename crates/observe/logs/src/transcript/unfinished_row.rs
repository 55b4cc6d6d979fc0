//! The last row of a text that ends without the end of a line. Who copies with the mouse may stop within a number.

use crate::sysstat::heading_table::parse_cell;

/// Fewest numbers of a row.
const MIN_NUMBERS: usize = 3;

/// Takes the last cell of a last row away if it may lack digits. Returns false if the last line is no such row.
pub(super) fn mend_last_row(lines: &mut [(usize, String)]) -> bool {
    let Some(((_, last), above)) = lines.split_last_mut() else { return false };
    let words: Vec<&str> = last.split_whitespace().collect();
    let numbers = words.iter().filter(|word| parse_cell(word, 1.0).is_some()).count();
    let Some(final_word) = words.last().filter(|word| parse_cell(word, 1.0).is_some()) else { return false };
    if numbers < MIN_NUMBERS {
        return false;
    }
    let is_like = |line: &&(usize, String)| line.1.split_whitespace().count() == words.len();
    let peer = above.iter().rev().find(is_like);
    let final_decimals = count_decimals(final_word);
    // numbers have as many decimals as those above, or end where they do
    let expected = match peer.and_then(|(_, line)| line.split_whitespace().next_back()) {
        Some(word) if parse_cell(word, 1.0).is_some() => count_decimals(word),
        _ => count_decimals(words[words.len() - 2]),
    };
    let ends_there = || above.iter().any(|(_, line)| line.len() == last.len());
    let is_whole = if expected > 0 { final_decimals == expected } else { ends_there() };
    if !is_whole && peer.is_some() {
        let end = last.trim_end().len() - final_word.len();
        last.truncate(end);
    }
    true
}

pub(super) fn count_decimals(word: &str) -> usize {
    word.split_once(['.', ',']).map_or(0, |(_, decimals)| decimals.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_cell_that_may_lack_digits_goes() {
        for (text, wanted) in [
            ("sda 1.00 2.00 3.00 44.00\nsdb 1.00 2.00 3.00 55.00", Some("sdb 1.00 2.00 3.00 55.00")),
            ("sda 1.00 2.00 3.00 44.00\nsdb 1.00 2.00 3.00 55", Some("sdb 1.00 2.00 3.00 ")),
            ("sda 1.00 2.00 3.00 44.00\nsdb 1.00 2.00 3.00", Some("sdb 1.00 2.00 3.00")),
            (" 1  2  3  4 55\n 1  2  3  4 66", Some(" 1  2  3  4 66")),
            (" 1  2  3  4 55\n 1  2  3  4 6", Some(" 1  2  3  4 ")),
            ("a text\nthat ends", None),
        ] {
            let mut lines: Vec<(usize, String)> = text.lines().map(|line| (1, line.to_owned())).collect();
            let is_row = mend_last_row(&mut lines);
            let last = lines.pop().map(|(_, line)| line);
            assert_eq!(last.filter(|_| is_row).as_deref(), wanted, "{text}");
        }
    }
}
