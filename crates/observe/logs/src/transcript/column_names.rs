//! Names of the columns of iostat, vmstat, mpstat and sar.

/// Names that stand in headings, in no order.
const COLUMN_NAMES: &[&str] = &[
    "rrqm/s wrqm/s drqm/s rqm/s r/s w/s d/s f/s rsec/s wsec/s rkB/s wkB/s dkB/s rMB/s wMB/s dMB/s",
    "avgrq-sz avgqu-sz aqu-sz await r_await w_await d_await f_await svctm %util %rrqm %wrqm %drqm %rqm",
    "rareq-sz wareq-sz dareq-sz areq-sz tps kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn kB_dscd",
    "MB_read/s MB_wrtn/s MB_dscd/s MB_read MB_wrtn MB_dscd Blk_read/s Blk_wrtn/s Blk_read Blk_wrtn",
    "rd_sec/s wr_sec/s rtps wtps dtps bread/s bwrtn/s bdscd/s",
    "swpd free inact active buff cache si so bi bo in cs us sy id wa st gu",
    "%usr %user %nice %sys %system %iowait %irq %soft %steal %guest %gnice %idle intr/s",
];

/// True for the name of a column.
pub(super) fn is_column_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '%')
        && COLUMN_NAMES.iter().any(|names| names.split(' ').any(|name| name == word))
}

/// True for the beginning of a column's name, as a line that was broken within it has.
pub(super) fn is_begun_name(word: &str) -> bool {
    !word.is_empty() && COLUMN_NAMES.iter().any(|names| names.split(' ').any(|name| name.starts_with(word)))
}

/// A line of headings, by the place of its rows' names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HeadingLine {
    /// Number of words.
    pub words: usize,
    /// Number of a row's words that are no numbers: those up to the row's name.
    pub named: usize,
    /// Number of a row's words.
    pub columns: usize,
}

/// Parses headings that consist of known names.
pub(super) fn parse_heading(line: &str) -> Option<HeadingLine> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (heading, names) = split_heading(&words)?;
    names.iter().all(|word| is_column_name(word) || matches!(*word, "b" | "w")).then_some(heading)
}

/// Splits the names of a line that begins like headings off, whether they are known or not.
pub(super) fn split_heading<'w>(words: &'w [&'w str]) -> Option<(HeadingLine, &'w [&'w str])> {
    let is_first = |word: &&str| matches!(*word, "Device" | "Device:" | "DEV" | "avg-cpu:" | "r" | "CPU");
    // before `CPU` and `DEV` stands a time
    let place = words.iter().take(3).position(is_first)?;
    let is_timed = matches!(words[place], "CPU" | "DEV");
    let names = &words[place + 1..];
    if names.is_empty() || place > 0 && !is_timed || words[place] == "r" && names[0] != "b" {
        return None;
    }
    let (named, columns) = match words[place] {
        "avg-cpu:" => (0, words.len() - 1),
        "r" => (0, words.len()),
        _ => (place + 1, words.len()),
    };
    Some((HeadingLine { words: words.len(), named, columns }, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_known_by_their_names() {
        for (line, wanted) in [
            ("Device: r/s w/s %util", Some((1, 4))),
            ("avg-cpu:  %user %nice %idle", Some((0, 3))),
            ("11:30:01 AM CPU %usr %idle", Some((3, 5))),
            ("11:30:01 DEV tps await", Some((2, 4))),
            (" r  b swpd free", Some((0, 4))),
            ("Device: r/s w/s %ut", None),
            ("r/s w/s", None),
            ("sda 1 2 3", None),
            ("the CPU is busy", None),
        ] {
            let found = parse_heading(line).map(|heading| (heading.named, heading.columns));
            assert_eq!(found, wanted, "{line}");
        }
    }
}
