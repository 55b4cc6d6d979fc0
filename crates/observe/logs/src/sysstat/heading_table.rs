//! A table of text: its headings, and the values of a row under them.

use super::columns::Reports;
use super::xml_log::parse_plain_number;

/// Headings of a table.
#[derive(Clone, Debug)]
pub struct HeadingTable {
    /// Id of the report, or the first heading of an unknown one.
    pub report: String,
    /// Headings, without the instance's.
    names: Vec<HeadingName>,
    /// Index of the instance among all headings.
    instance_index: Option<usize>,
}

#[derive(Clone, Debug)]
struct HeadingName {
    text: String,
    /// Divisor from a size with a letter (`--human`) to the column's unit.
    unit_bytes: f64,
}

/// The instance of a row, and its values with their headings.
pub type SysstatRow<'a> = (String, Vec<(&'a str, f64)>);

/// Reason why a row does not fit its headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Fewer cells than headings.
    Short,
    /// More cells than headings, and none that may hold blanks.
    Long,
    /// Words where numbers should be: a line of another program.
    Words,
}

/// Columns whose cells are words.
const WORD_COLUMNS: [&str; 3] = ["manufact", "product", "status"];

impl HeadingTable {
    /// Parses headings, without time and date; `None` if they are none: no heading of sysstat is a number.
    pub fn from_headings(words: &[&str]) -> Option<HeadingTable> {
        if words.is_empty() || words.iter().any(|word| parse_cell(word, 1.0).is_some()) {
            return None;
        }
        let known = Reports::builtin().find_by_headings(words);
        let (report, instance) = match known {
            Some((report, instance)) => (report.id.clone(), instance),
            None => (words[0].trim_end_matches("/s").to_owned(), None),
        };
        let others = words.iter().enumerate().filter(|(index, _)| Some(*index) != instance);
        let names =
            others.map(|(_, word)| HeadingName { text: (*word).to_owned(), unit_bytes: unit_bytes(word) }).collect();
        Some(HeadingTable { report, names, instance_index: instance })
    }

    /// Returns true if no heading is known, so that it may not be a table.
    pub fn is_unknown(&self) -> bool {
        Reports::builtin().find_by_key(&self.report).is_none()
    }

    /// Number of headings, and so of words in a row whose names hold no blanks.
    pub fn column_count(&self) -> usize {
        self.names.len() + usize::from(self.instance_index.is_some())
    }

    /// Parses a row. Cells that are words are left out.
    pub fn parse_row(&self, words: &[&str]) -> Result<SysstatRow<'_>, Misfit> {
        let columns = self.column_count();
        let has_word_column = self.names.iter().any(|n| WORD_COLUMNS.contains(&n.text.as_str()));
        if words.len() < columns {
            return Err(Misfit::Short);
        }
        // a name with blanks consists of several words, none of them a number with decimals
        let extra_words = words.len() - columns;
        if extra_words > 0 && self.has_remark(words) {
            return self.parse_row(&words[..columns]);
        }
        if extra_words > 0 && self.instance_index.is_none() && !has_word_column {
            return Err(Misfit::Long);
        }
        let instance_start = self.instance_index.unwrap_or(0);
        let instance_words = self.instance_index.map_or(0, |_| extra_words + 1);
        let instance = words[instance_start..instance_start + instance_words].join(" ");
        if instance.split(' ').skip(1).any(|word| word.contains(['.', ',']) && parse_cell(word, 1.0).is_some()) {
            return Err(Misfit::Long);
        }
        let cells = words[..instance_start].iter().chain(&words[instance_start + instance_words..]);
        let values: Vec<(&str, f64)> = self
            .names
            .iter()
            .zip(cells)
            .filter_map(|(name, cell)| Some((name.text.as_str(), parse_cell(cell, name.unit_bytes)?)))
            .collect();
        let word_cells = self.names.len() - values.len();
        // words beside a name of several words, or in most cells, make it a sentence
        if !has_word_column && (word_cells > 0 && extra_words > 0 || 2 * word_cells > self.names.len()) {
            return Err(Misfit::Words);
        }
        Ok((instance, values))
    }
}

impl HeadingTable {
    /// Returns true if the row is whole before its last words, and a remark follows: a name of one word stands first,
    /// and everything else are numbers.
    fn has_remark(&self, words: &[&str]) -> bool {
        let columns = self.column_count();
        let is_number = |word: &&str| parse_cell(word, 1.0).is_some();
        self.instance_index == Some(0)
            && columns > 2
            && words[1..columns].iter().all(is_number)
            && !is_number(&words[columns])
            && !is_number(&words[0])
    }

    /// The name and the whole cells of a row that was cut: its last cell may lack digits. `None` unless the name
    /// stands first, and only numbers follow.
    pub fn parse_cut_row(&self, words: &[&str]) -> Option<SysstatRow<'_>> {
        let (name, cells) = words.split_first()?;
        let (_, cells) = cells.split_last()?;
        let is_name = self.instance_index == Some(0) && parse_cell(name, 1.0).is_none();
        if !is_name || cells.is_empty() || words.len() > self.column_count() {
            return None;
        }
        let mut values = Vec::with_capacity(cells.len());
        for (heading, cell) in self.names.iter().zip(cells) {
            values.push((heading.text.as_str(), parse_cell(cell, heading.unit_bytes)?));
        }
        Some(((*name).to_owned(), values))
    }
}

/// Returns the bytes of the unit of a column that holds sizes.
fn unit_bytes(name: &str) -> f64 {
    if name.starts_with("kb") || name.contains("kB") || name.ends_with("req-sz") || name.starts_with("pgpg") {
        1024.0
    } else if name.contains("MB") {
        1_048_576.0
    } else if name.contains("GB") {
        1_073_741_824.0
    } else if matches!(name, "bread/s" | "bwrtn/s" | "bdscd/s") || name.ends_with("sec/s") || name.starts_with("Blk_") {
        512.0
    } else {
        1.0
    }
}

/// Parses a cell: `12.50`, `12,50`, `12.5%`, and with `--human` sizes such as `1.5G` (of bytes), which are converted to
/// the column's unit.
pub fn parse_cell(text: &str, unit_bytes: f64) -> Option<f64> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == 'n' || c == 'i') {
        return None;
    }
    if let Some(value) = parse_plain_number(text.strip_suffix('%').unwrap_or(text)) {
        return Some(value);
    }
    let letter = text.chars().next_back()?;
    let bytes = match letter {
        'B' => 1.0,
        'k' => 1024.0,
        'M' => 1_048_576.0,
        'G' => 1_073_741_824.0,
        'T' => 1_099_511_627_776.0,
        'P' => 1_125_899_906_842_624.0,
        _ => return None,
    };
    Some(parse_plain_number(&text[..text.len() - 1])? * bytes / unit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(headings: &str) -> HeadingTable {
        HeadingTable::from_headings(&headings.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn row(table: &HeadingTable, cells: &str) -> Result<(String, Vec<f64>), Misfit> {
        let (instance, values) = table.parse_row(&cells.split(' ').collect::<Vec<_>>())?;
        Ok((instance, values.into_iter().map(|(_, v)| v).collect()))
    }

    #[test]
    fn reads_an_instance_first_or_last_that_may_hold_blanks() {
        let first = table("DEV tps await");
        assert_eq!(row(&first, "sda 1.5 2.0"), Ok(("sda".into(), vec![1.5, 2.0])));
        let last = table("tps await DEV");
        assert_eq!(row(&last, "1.5 2.0 my disk"), Ok(("my disk".into(), vec![1.5, 2.0])));
        assert_eq!(row(&first, "my disk 1.5 2.0"), Ok(("my disk".into(), vec![1.5, 2.0])));
        assert_eq!(row(&first, "sda 1.5"), Err(Misfit::Short));
        assert_eq!(row(&table("tps rtps wtps"), "1 2 3 4"), Err(Misfit::Long));
        assert_eq!(row(&first, "nohup: ignoring input"), Err(Misfit::Words));
        assert_eq!(row(&first, "[root@db1 ~]# iostat -x 1"), Err(Misfit::Words));
    }

    #[test]
    fn a_remark_behind_a_row_is_no_cell_and_a_number_no_name() {
        let first = table("DEV tps await");
        for cells in ["sda 1.5 2.0 <-- this one", "sda 1.5 2.0 slow, 3 s", "sda 1.5 2.0 !!!"] {
            assert_eq!(row(&first, cells), Ok(("sda".into(), vec![1.5, 2.0])), "{cells}");
        }
        assert_eq!(row(&first, "sda 1.5 2.0 3.0"), Err(Misfit::Long));
        let last = table("tps await DEV");
        assert_eq!(row(&last, "1.5 2.0 sda 7.5"), Err(Misfit::Long));
    }

    #[test]
    fn a_row_that_was_cut_keeps_its_whole_cells() {
        let first = table("DEV tps await %util");
        let cut = |cells: &str| first.parse_cut_row(&cells.split(' ').collect::<Vec<_>>());
        assert_eq!(cut("sda 1.5 2.0"), Some(("sda".into(), vec![("tps", 1.5)])));
        for cells in ["sda", "sda 1.5", "1.5 2.0 3.0", "sda of disks"] {
            assert_eq!(cut(cells), None, "{cells}");
        }
        assert_eq!(table("tps await DEV").parse_cut_row(&["1.5", "2.0"]), None);
    }

    #[test]
    fn words_are_left_out_and_headings_hold_no_number() {
        assert_eq!(row(&table("BAT %cap status"), "0 75 Full"), Ok(("0".into(), vec![75.0])));
        assert!(HeadingTable::from_headings(&["all", "2.15"]).is_none());
        assert!(HeadingTable::from_headings(&[]).is_none());
        assert!(table("LINUX RESTART").is_unknown());
    }

    #[test]
    fn numbers_of_all_locales_and_sizes_for_people() {
        let all = [("12.50", 12.5), ("12,50", 12.5), ("-3", -3.0), ("82.9%", 82.9), ("1.5M", 1536.0), ("0.5k", 0.5)];
        for (text, value) in all {
            assert_eq!(parse_cell(text, 1024.0), Some(value), "{text}");
        }
        assert!(parse_cell("nan", 1.0).is_some_and(f64::is_nan));
        for word in ["sda", "", "1x", "-", "k", "CPU0", "1.2.3", "node"] {
            assert_eq!(parse_cell(word, 1.0), None, "{word}");
        }
    }
}
