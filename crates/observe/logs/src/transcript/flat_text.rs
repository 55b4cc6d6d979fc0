//! Output whose line ends a web page or a chat lost: the headings of a table, followed by its rows in one line. It is
//! cut by the number of headings.

use super::column_names::{is_column_name, split_heading};
use crate::sysstat::heading_table::parse_cell;
use crate::sysstat::time::parse_time_of_day;
use crate::sysstat::vmstat_headings::VmstatHeadings;

/// Fewest words of a line that holds headings and rows.
const MIN_WORDS: usize = 16;
/// Most words of the headings of a table.
const MAX_HEADINGS: usize = 30;
/// Words of a process' row of top.
const TOP_WORDS: usize = 12;

/// Cuts lines that hold whole tables. Returns whether there were any.
pub(super) fn cut_flat_lines(lines: &mut Vec<(usize, String)>) -> bool {
    let mut cut: Vec<(usize, String)> = Vec::with_capacity(lines.len());
    let mut is_changed = false;
    for (number, line) in lines.drain(..) {
        // most lines are short
        match if line.len() > 2 * MIN_WORDS { cut_line(&line) } else { None } {
            Some(parts) => {
                is_changed = true;
                cut.extend(parts.into_iter().map(|part| (number, part)));
            }
            None => cut.push((number, line)),
        }
    }
    *lines = cut;
    is_changed
}

/// The lines that one held; `None` if it holds no headings with rows behind them.
fn cut_line(line: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_begin =
        |word: &&str| matches!(*word, "r" | "Device" | "Device:" | "device" | "avg-cpu:" | "CPU" | "DEV" | "top");
    if words.len() < MIN_WORDS || !words.iter().any(is_begin) {
        return None;
    }
    let mut cutter = FlatCutter { words: &words, parts: Vec::new(), prose: Vec::new(), tables: 0 };
    let mut index = 0;
    while index < words.len() {
        let next = cutter.read_table(index);
        if next == index {
            cutter.prose.push(words[index]);
        }
        index = next.max(index + 1);
    }
    cutter.end_prose();
    (cutter.tables > 0).then_some(cutter.parts)
}

struct FlatCutter<'w> {
    words: &'w [&'w str],
    parts: Vec<String>,
    /// Words that belong to no table.
    prose: Vec<&'w str>,
    tables: usize,
}

impl FlatCutter<'_> {
    fn end_prose(&mut self) {
        if !self.prose.is_empty() {
            self.parts.push(self.prose.join(" "));
            self.prose.clear();
        }
    }

    fn push_part(&mut self, from: usize, until: usize) {
        self.end_prose();
        self.parts.push(self.words[from..until].join(" "));
    }

    /// Pushes the headings of a table and its rows; returns the index behind them, or `None` if there are no rows.
    fn push_table(&mut self, index: usize, length: usize, rows: &[(usize, usize)]) -> Option<usize> {
        let (_, end) = *rows.last()?;
        self.tables += 1;
        self.push_part(index, index + length);
        rows.iter().for_each(|(from, until)| self.push_part(*from, *until));
        Some(end)
    }

    /// Reads a table that begins at a word; returns the index behind it, or the same index.
    fn read_table(&mut self, index: usize) -> usize {
        let end = match self.words[index] {
            "r" => self.read_vmstat(index),
            "avg-cpu:" | "Device" | "Device:" | "device" => self.read_iostat(index),
            "top" => self.read_top(index),
            "Linux" => self.read_banner(index),
            word if word.contains(':') => self.read_timed(index),
            _ => None,
        };
        end.unwrap_or(index)
    }

    /// Number of words from an index on that are numbers.
    fn count_numbers(&self, index: usize) -> usize {
        self.words.iter().skip(index).take_while(|word| parse_cell(word, 1.0).is_some()).count()
    }

    fn read_vmstat(&mut self, index: usize) -> Option<usize> {
        let rest = &self.words[index..];
        let length = rest.iter().take(MAX_HEADINGS).take_while(|word| parse_cell(word, 1.0).is_none()).count();
        let headings = VmstatHeadings::parse(&rest[..length].join(" "), true)?;
        let columns = headings.column_count();
        let numbers = self.count_numbers(index + length);
        if columns != length || numbers < columns {
            return None;
        }
        let begin = index + length;
        let rows: Vec<_> =
            (0..numbers / columns).map(|row| (begin + row * columns, begin + (row + 1) * columns)).collect();
        self.push_table(index, length, &rows)?;
        // the last row may be cut: a part of a row is none
        Some(begin + numbers)
    }

    fn read_iostat(&mut self, index: usize) -> Option<usize> {
        let rest = &self.words[index..];
        let is_name = |word: &&&str| {
            is_column_name(word) || matches!(**word, "kr/s" | "kw/s" | "wait" | "actv" | "svc_t" | "%w" | "%b")
        };
        let length = 1 + rest[1..].iter().take_while(is_name).count();
        let is_of_processors = rest[0] == "avg-cpu:";
        let columns = length - 1;
        if columns < 3 {
            return None;
        }
        let mut end = index + length;
        let mut rows = Vec::new();
        loop {
            let named = usize::from(!is_of_processors);
            let is_named = is_of_processors || self.words.get(end).is_some_and(|word| is_disk_name(word));
            let numbers = if is_named { self.count_numbers(end + named) } else { 0 };
            // behind the last cell of a row stands a name, or nothing
            if numbers == 0 || numbers != columns && end + named + numbers < self.words.len() {
                break;
            }
            rows.push((end, end + named + numbers));
            end += named + numbers;
            if is_of_processors {
                break;
            }
        }
        self.push_table(index, length, &rows)
    }

    /// Reads a table of sar or mpstat: each row begins with a time.
    fn read_timed(&mut self, index: usize) -> Option<usize> {
        let (_, taken) = parse_time_of_day(&self.words[index..])?;
        let rest: Vec<&str> = self.words[index..].iter().copied().take(MAX_HEADINGS).collect();
        let names = rest.get(taken + 1..)?.iter().take_while(|word| is_column_name(word)).count();
        let length = taken + 1 + names;
        split_heading(&rest[..length]).filter(|_| names >= 3)?;
        let mut end = index + length;
        let mut rows = Vec::new();
        while parse_time_of_day(&self.words[end.min(self.words.len())..]).is_some_and(|(_, count)| count == taken) {
            if self.count_numbers(end + taken + 1) < names {
                break;
            }
            rows.push((end, end + length));
            end += length;
        }
        self.push_table(index, length, &rows)
    }

    /// Reads a frame of top: its lines begin with known words.
    fn read_top(&mut self, index: usize) -> Option<usize> {
        let rest = &self.words[index..];
        let is_frame = rest.get(1) == Some(&"-")
            && rest.iter().take(80).any(|word| word.ends_with("pu(s):") || word.starts_with("%Cpu"));
        if !is_frame {
            return None;
        }
        self.tables += 1;
        let begins_line = |place: usize| {
            let word = self.words[place];
            let is_memory = |word: &str| matches!(word.trim_end_matches(':'), "Mem" | "Swap");
            let next = self.words.get(place + 1).copied().unwrap_or_default();
            word.ends_with("pu(s):")
                || word.starts_with("%Cpu")
                || matches!(word, "Tasks:" | "Threads:" | "PID")
                || matches!(word, "KiB" | "MiB" | "GiB") && is_memory(next)
                || matches!(word, "Mem:" | "Swap:")
        };
        let mut starts = vec![index];
        let mut place = index + 1;
        while place < self.words.len() && self.words[place] != "PID" {
            if begins_line(place) {
                starts.push(place);
            }
            place += 1;
        }
        starts.push(place);
        for two in starts.windows(2) {
            self.push_part(two[0], two[1]);
        }
        let headings = self.words[place..].iter().take_while(|word| **word != "COMMAND").count() + 1;
        if headings != TOP_WORDS || place + headings > self.words.len() {
            return Some(place);
        }
        self.push_part(place, place + headings);
        place += headings;
        let is_row = |place: usize| {
            let row = self.words.get(place..place + TOP_WORDS);
            row.is_some_and(|row| row[0].parse::<u32>().is_ok() && parse_cell(row[8], 1.0).is_some())
        };
        while is_row(place) {
            self.push_part(place, place + TOP_WORDS);
            place += TOP_WORDS;
        }
        Some(place)
    }

    /// Reads `Linux 5.4 (host) date _x86_64_ (4 CPU)`.
    fn read_banner(&mut self, index: usize) -> Option<usize> {
        let rest = &self.words[index..];
        rest.get(2).filter(|host| host.starts_with('(') && host.ends_with(')'))?;
        let length = rest.iter().take(12).position(|word| *word == "CPU)")? + 1;
        self.push_part(index, index + length);
        Some(index + length)
    }
}

/// True for a word that can be a disk's name.
fn is_disk_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_column_name(word) && !word.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Option<Vec<String>> {
        let mut lines = vec![(1, text.to_owned())];
        cut_flat_lines(&mut lines).then(|| lines.into_iter().map(|(_, line)| line).collect())
    }

    #[test]
    fn tables_in_one_line_are_cut() {
        for (text, wanted) in [
            (
                "see: procs ---memory-- r b swpd free buff cache si so bi bo in cs us sy id wa \
                 1 5 0 9 8 7 0 0 40 50 60 70 3 4 20 73 2 6 0 9 8 7 0 0 41 51 61 71 3 4 21 72 0 3",
                vec![
                    "see: procs ---memory--",
                    "r b swpd free buff cache si so bi bo in cs us sy id wa",
                    "1 5 0 9 8 7 0 0 40 50 60 70 3 4 20 73",
                    "2 6 0 9 8 7 0 0 41 51 61 71 3 4 21 72",
                ],
            ),
            (
                "Linux 5.9.1 (host7) 09/08/2024 _x86_64_ (4 CPU) avg-cpu: %user %nice %system %iowait %steal \
                 %idle 4.00 0.00 2.00 61.00 0.00 33.00 Device r/s w/s await %util sdq 7.0 8.0 3.1 96.8 \
                 sdr 0.0 0.0 0.0 0.0 thanks all",
                vec![
                    "Linux 5.9.1 (host7) 09/08/2024 _x86_64_ (4 CPU)",
                    "avg-cpu: %user %nice %system %iowait %steal %idle",
                    "4.00 0.00 2.00 61.00 0.00 33.00",
                    "Device r/s w/s await %util",
                    "sdq 7.0 8.0 3.1 96.8",
                    "sdr 0.0 0.0 0.0 0.0",
                    "thanks all",
                ],
            ),
            (
                "11:22:33 AM CPU %usr %nice %sys %idle 11:22:34 AM all 1.0 2.0 3.0 94.0 11:22:34 AM 0 1.0 2.0 3.0 94.0",
                vec![
                    "11:22:33 AM CPU %usr %nice %sys %idle",
                    "11:22:34 AM all 1.0 2.0 3.0 94.0",
                    "11:22:34 AM 0 1.0 2.0 3.0 94.0",
                ],
            ),
            (
                "top - 11:22:33 up 5 days, load average: 6.50, 6.10, 5.90 Tasks: 141 total %Cpu(s): 2.0 us, 3.0 sy, \
                 95.0 id KiB Mem : 2048000 total, 40000 free PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ \
                 COMMAND 4711 web 20 0 200000 30000 9000 D 2.0 1.5 1:02.03 worker",
                vec![
                    "top - 11:22:33 up 5 days, load average: 6.50, 6.10, 5.90",
                    "Tasks: 141 total",
                    "%Cpu(s): 2.0 us, 3.0 sy, 95.0 id",
                    "KiB Mem : 2048000 total, 40000 free",
                    "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND",
                    "4711 web 20 0 200000 30000 9000 D 2.0 1.5 1:02.03 worker",
                ],
            ),
        ] {
            assert_eq!(cut(text), Some(wanted.into_iter().map(str::to_owned).collect()), "{text}");
        }
    }

    #[test]
    fn lines_of_their_own_stay() {
        for text in [
            "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
            "r b swpd free buff cache si so bi bo in cs us sy id wa st",
            "top - 11:22:33 up 5 days, 2:01, 2 users, load average: 6.50, 6.10, 5.90",
            "a sentence about r and b and the Device that is busy with 1 2 3 4 5 numbers",
        ] {
            assert_eq!(cut(text), None, "{text}");
        }
    }
}
