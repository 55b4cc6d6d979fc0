//! The two lines above vmstat's rows: titles of the groups, and names of the columns, in every language of procps
//! (`vmstat_headings.toml`).

use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

use super::calendar;
use super::clock::ZoneHint;
use super::heading_table::parse_cell;
use super::time::NumericDateOrder;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadingsFile {
    column: Vec<VmstatColumn>,
}

/// A column with all its names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VmstatColumn {
    name: String,
    #[serde(default)]
    also: Vec<String>,
}

/// Smallest number of known columns in headings without a title: the number that the oldest vmstat has.
const MIN_COLUMNS: usize = 12;
/// Smallest number of known columns below a title.
const MIN_TITLED_COLUMNS: usize = 3;

fn known_columns() -> &'static [VmstatColumn] {
    static BUILTIN: OnceLock<Vec<VmstatColumn>> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let text = include_str!("vmstat_headings.toml");
        toml_reader::read_built_in::<HeadingsFile>("vmstat_headings.toml", text).column
    })
}

/// Returns true for the title line above vmstat's headings: names of groups between hyphens.
pub fn is_title(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    // AIX and Solaris name the groups without hyphens; AIX draws a line of hyphens below
    let is_kthr_title = words.first() == Some(&"kthr") && words.contains(&"memory");
    let is_rule = words.len() > 3 && words.iter().all(|word| word.bytes().all(|b| b == b'-'));
    if is_kthr_title || is_rule {
        return true;
    }
    let is_group = |word: &&&str| word.contains("--") && word.contains(char::is_alphabetic);
    let has_groups = words.len() >= 3 && words.iter().filter(is_group).count() >= 3 && !line.contains(char::is_numeric);
    let is_old = words.first().is_some_and(|w| w.trim_start_matches('-').starts_with("procs"));
    has_groups || is_old && line.contains("memory") && !line.contains(char::is_numeric)
}

/// Names of the columns, in English if they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct VmstatHeadings {
    /// Report in `columns.toml`: the columns of each system differ in meaning.
    report: &'static str,
    names: Vec<String>,
    /// Number of words before the first name, if each line begins with a time.
    words_before: usize,
}

impl VmstatHeadings {
    /// Parses a line of headings; below a title, a few known names suffice.
    pub fn parse(line: &str, is_titled: bool) -> Option<VmstatHeadings> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_first = |word: &str| known_columns()[0].is_named(word);
        let words_before = words.iter().position(|word| is_first(word))?;
        let is_dated =
            || calendar::parse_moment(&words[..words_before].join(" "), NumericDateOrder::MonthFirst).is_some();
        if words_before > 0 && !is_dated() {
            return None;
        }
        if let Some(report) = detect_other_system(&words[words_before..]) {
            return Some(VmstatHeadings { report, names: column_names(&words[words_before..]), words_before });
        }
        let mut next = 0;
        let (mut names, mut known_count) = (Vec::new(), 0);
        for word in &words[words_before..] {
            if parse_cell(word, 1.0).is_some() {
                return None;
            }
            match known_columns()[next..].iter().position(|column| column.is_named(word)) {
                Some(index) => {
                    names.push(known_columns()[next + index].name.clone());
                    next += index + 1;
                    known_count += 1;
                }
                None => names.push((*word).to_owned()),
            }
        }
        let is_complete = known_count >= MIN_COLUMNS && known_count * 4 >= names.len() * 3;
        let is_short =
            known_count >= MIN_TITLED_COLUMNS && names[1] == "b" && (known_count == names.len() || is_titled);
        (is_complete || is_short).then_some(VmstatHeadings { report: "vmstat", names, words_before })
    }

    /// Guesses the headings of a row of Linux whose headings were not copied: counts, and shares that add up to 100.
    pub fn guess_from_row(words: &[&str]) -> Option<VmstatHeadings> {
        let counts: Vec<u64> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let adds_up =
            |shares: &[u64]| (98..=102).contains(&shares.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)));
        let names = match counts.len() {
            16 if adds_up(&counts[12..]) => "r b swpd free buff cache si so bi bo in cs us sy id wa",
            16 if adds_up(&counts[13..]) => "r b w swpd free buff cache si so bi bo in cs us sy id",
            17 if adds_up(&counts[12..]) => "r b swpd free buff cache si so bi bo in cs us sy id wa st",
            18 if adds_up(&counts[12..]) => "r b swpd free buff cache si so bi bo in cs us sy id wa st gu",
            _ => return None,
        };
        let names = names.split(' ').map(str::to_owned).collect();
        Some(VmstatHeadings { report: "vmstat", names, words_before: 0 })
    }

    /// Names of the columns; the last may be that of the time zone.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of columns of numbers; a further heading belongs to the time.
    pub fn column_count(&self) -> usize {
        self.names.len() - usize::from(self.has_zone())
    }

    /// Report in `columns.toml`.
    pub fn report(&self) -> &'static str {
        self.report
    }

    /// Returns the bytes that a number without a unit letter counts in a column of sizes; 1 in other columns.
    pub fn unit_bytes(&self, name: &str) -> f64 {
        if self.report == BSD_REPORT && matches!(name, "avm" | "fre") { 1024.0 } else { 1.0 }
    }

    fn has_zone(&self) -> bool {
        self.report == "vmstat"
            && self.names.last().is_some_and(|last| !known_columns().iter().any(|column| column.name == *last))
    }

    /// Returns the index of a row's first number, and the time zone that the headings name; `None` if the row does not
    /// belong to these headings.
    pub fn fit_row(&self, words: &[&str]) -> Option<(usize, ZoneHint)> {
        let words = words.get(self.words_before..)?;
        // AIX prints processor shares with a decimal point
        let time_signs = if self.report == "vmstat" { &['-', ':', '/', '.'][..] } else { &['-', ':', '/'] };
        let is_count = |word: &&&str| !word.contains(time_signs) && parse_cell(word, 1.0).is_some();
        let number_count = words.iter().take_while(is_count).count();
        if number_count != self.column_count() {
            // the last heading may be an unknown column instead of a time zone
            let is_complete = number_count == self.names.len() && words.len() == number_count;
            return is_complete.then_some((self.words_before, ZoneHint::Missing));
        }
        let zone = self.names.get(number_count).map_or(ZoneHint::Missing, |zone| ZoneHint::Name(zone.clone()));
        Some((self.words_before, zone))
    }
}

const BSD_REPORT: &str = "vmstat-bsd";

/// Detects the headings of another system by columns that procps does not have; returns their report.
fn detect_other_system(words: &[&str]) -> Option<&'static str> {
    let has = |wanted: &str| words.contains(&wanted);
    if !["r", "b", "in", "us", "id"].into_iter().all(has) {
        return None;
    }
    if has("avm") && has("fre") && has("wa") {
        Some("vmstat-aix")
    } else if has("avm") && has("fre") {
        Some(BSD_REPORT)
    } else if has("avm") && has("free") && has("at") {
        Some("vmstat-hpux")
    } else if has("swap") && has("free") && has("mf") {
        Some("vmstat-solaris")
    } else {
        None
    }
}

/// Returns the names of columns, with the first of two `sy` renamed: it counts system calls.
fn column_names(words: &[&str]) -> Vec<String> {
    let share_start = words.iter().position(|word| *word == "us").unwrap_or(0);
    let name = |(index, word): (usize, &&str)| match *word {
        "sy" if index < share_start => "calls".to_owned(),
        other => other.to_owned(),
    };
    // `vmstat -t` of AIX prints three names above one time of day
    let words = words.strip_suffix(&["hr", "mi", "se"]).unwrap_or(words);
    words.iter().enumerate().map(name).collect()
}

impl VmstatColumn {
    fn is_named(&self, word: &str) -> bool {
        self.name == word || self.also.iter().any(|name| name == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "r b swpd free buff cache si so bi bo in cs us sy id wa st";

    #[test]
    fn headings_of_all_languages_mean_the_same() {
        for (line, more) in [
            (" r  b   swpd   frei Puffer  Cache   si   so    bi    bo   in   cs us sy id wa st", &[][..]),
            (" r  b   swpd  libre tampon  cache   si   so    bi    bo   in   cs us sy id wa st gu", &["gu"]),
            ("   r    b   swpd   libre  búf  caché   si   so    bi    bo   in   cs  us  sy  id  wa  st  gu", &["gu"]),
            ("  dz   bl swap wolna bufor cache si so bi bo in cs uż  sy  be  io  sk  go  UTC", &["gu", "UTC"]),
            ("   k    b växl fritt buff cache   vi   vu    bi    bu  avb ktxb  an  sy  ia  vä  st gä", &["gu"]),
            ("   r    b 스왑 가용 버퍼 캐시  입  출   입   출   in   cs  us  sy  id  wa  st", &[]),
            ("   r    b 交换 空闲 缓冲 缓存   si   so    bi    bo   in   cs  us  sy  id  wa  st", &[]),
            ("   r    b swpd trống buff nhớtạm si so bi bo in cs us sy id wa st", &[]),
            ("   r    b swpd liber buff cache  sin   so   bin    bo   in   cs  us  sy  id  wa  st", &[]),
        ] {
            let found = VmstatHeadings::parse(line, false).unwrap_or_else(|| panic!("{line}"));
            let wanted: Vec<&str> = ENGLISH.split(' ').chain(more.iter().copied()).collect();
            assert_eq!(found.names(), wanted, "{line}");
        }
        let active =
            VmstatHeadings::parse("r b swpd frei inakt aktiv si so bi bo in cs us sy id wa st", false).unwrap();
        assert_eq!(active.names()[4..6], ["inact", "active"]);
    }

    #[test]
    fn recognizes_headings_of_other_systems() {
        for (line, report) in [
            ("r b w swap free re mf pi po fr de sr s0 s1 s2 in sy cs us sy id", "vmstat-solaris"),
            ("r b avm fre re pi po fr sr cy in sy cs us sy id wa", "vmstat-aix"),
            ("r b p avm fre fi fo pi po fr sr in sy cs us sy id wa pc ec", "vmstat-aix"),
            ("r b w avm fre flt re pi po fr sr da0 in sy cs us sy id", "vmstat-bsd"),
            ("r b w avm free re at pi po fr de sr in sy cs us sy id", "vmstat-hpux"),
        ] {
            for is_titled in [false, true] {
                let found = VmstatHeadings::parse(line, is_titled).unwrap_or_else(|| panic!("{line}"));
                assert_eq!((found.report(), found.column_count()), (report, line.split(' ').count()), "{line}");
                let calls = found.names().iter().position(|name| name == "calls");
                let share = found.names().iter().position(|name| name == "sy");
                assert!(calls < share && calls.is_some(), "{line}");
            }
        }
        for line in ["r b", "r b c d e", "reader: block swpd free", ""] {
            assert_eq!(VmstatHeadings::parse(line, false), None, "{line}");
        }
    }

    #[test]
    fn recognizes_titles_in_any_language() {
        for line in [
            "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----",
            "--proc.-- -----pamięć---- ---swap-- ---we/wy--- -system-- ----------cpu----------",
            "проц  -----------пам’ять--------- ---своп-- ----в/в---- -система- ------процесор-----",
            "   procs                      memory      swap          io     system      cpu",
            "kthr    memory              page              faults        cpu",
            "----- ----------- ------------------------ ------------ -----------",
            " procs     memory     page                    disks     faults       cpu",
        ] {
            assert!(is_title(line), "{line}");
        }
        for line in ["", "procs", "---- 1 -- two -- 3 --", " r b swpd free", "-- a -- b"] {
            assert!(!is_title(line), "{line}");
        }
    }

    #[test]
    fn rows_fit_with_the_time_at_either_end_or_without() {
        let fit = |headings: &str, row: &str| {
            let headings = VmstatHeadings::parse(headings, true).unwrap();
            headings.fit_row(&row.split(' ').collect::<Vec<_>>()).map(|(from, _)| from)
        };
        assert_eq!(fit("r b swpd free", "1 2 3 4"), Some(0));
        assert_eq!(fit("r b swpd free CET", "1 2 3 4 2026-11-21 13:20:09"), Some(0));
        assert_eq!(fit("2026-11-21 13:20:09 r b swpd free", "2026-11-21 13:20:10 1 2 3 4"), Some(2));
        for row in ["1 2 3", "1 2 3 4 5", "1 2 x 4", "one two three four", "2026-11-21 13:20:10", ""] {
            assert_eq!(fit("r b swpd free", row), None, "{row}");
        }
    }
}
