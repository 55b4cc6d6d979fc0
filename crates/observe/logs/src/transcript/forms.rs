//! Lines with which the output of small commands, of files and of other tools begins (`forms.toml`). They end the table
//! of a tool that stands above them without a prompt between.

use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormsFile {
    form: Vec<Form>,
}

/// What a line of output begins.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    /// Name in messages.
    pub name: String,
    #[serde(default)]
    starts: Vec<String>,
    #[serde(default)]
    has: Vec<String>,
    /// Text that the next line has.
    next: Option<String>,
    /// Set if the line has nothing but its start.
    #[serde(default)]
    is_whole_line: bool,
    #[serde(default)]
    pub reader: FormReader,
}

/// What reads the lines of a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FormReader {
    /// The reader of what shows a moment.
    #[default]
    Snapshot,
    /// The reader of a table whose rows follow.
    Rows,
    /// Another one, or none.
    Other,
}

/// Fewest words of a row of /proc/diskstats.
const MIN_DISKSTATS_WORDS: usize = 14;

fn builtin_forms() -> &'static [Form] {
    static BUILTIN: OnceLock<Vec<Form>> = OnceLock::new();
    BUILTIN.get_or_init(|| toml_reader::read_built_in::<FormsFile>("forms.toml", include_str!("forms.toml")).form)
}

/// The form that a line begins, with its name; `next` is the next line that is not blank.
pub(super) fn detect_form(line: &str, next: &str) -> Option<(&'static str, FormReader)> {
    let text = line.trim();
    if text.len() < 3 {
        return None;
    }
    if is_diskstats_row(text) {
        return Some(("/proc/diskstats", FormReader::Other));
    }
    builtin_forms().iter().find(|form| form.matches_line(text, next)).map(|form| (form.name.as_str(), form.reader))
}

impl Form {
    fn matches_line(&self, text: &str, next: &str) -> bool {
        let is_start =
            |start: &String| if self.is_whole_line { text == start } else { text.starts_with(start.as_str()) };
        (self.starts.is_empty() || self.starts.iter().any(is_start))
            && self.has.iter().all(|word| text.contains(word.as_str()))
            && self.next.as_ref().is_none_or(|word| next.contains(word.as_str()))
    }
}

/// True for ` 8  0 sda 1 2 3 …`.
fn is_diskstats_row(text: &str) -> bool {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
    words.len() >= MIN_DISKSTATS_WORDS
        && words[..2].iter().all(is_number)
        && words[2].starts_with(|c: char| c.is_ascii_alphabetic())
        && words[3..].iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_small_commands_are_known() {
        for (line, next, name) in [
            ("  pool: tank", " state: ONLINE", Some("zpool status")),
            ("pool: a word", "and more", None),
            ("              capacity     operations     bandwidth", "", Some("zpool iostat")),
            ("Filesystem      Size  Used Avail Use% Mounted on", "", Some("df")),
            ("some avg10=1.00 avg60=0.50 avg300=0.10 total=12", "", Some("pressure")),
            ("md0 : active raid1 sdb1[0] sdc1[1]", "  1000 blocks [2/2] [UU]", Some("mdstat")),
            ("   8       0 sdq 1 2 3 4 5 6 7 8 9 10 11", "", Some("/proc/diskstats")),
            ("Ip:", "    900 total packets received", Some("netstat")),
            ("Tcp:", "    12 active connection openings", Some("netstat")),
            ("sdq 1.00 2.00 3.00", "", None),
            ("[18:01:12] it is slow", "", None),
            ("avg-cpu:  %user   %nice %system %iowait  %steal   %idle", "", None),
            (" 1  7      0  50210   1200  40311    0    0   410   512  700  900  3  4 20 73", "", None),
        ] {
            let found = detect_form(line, next);
            assert_eq!(found.map(|(found, _)| found), name, "{line}");
        }
    }
}
