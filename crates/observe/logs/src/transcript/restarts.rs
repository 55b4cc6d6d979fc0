//! Places where a tool was started again without a prompt between: another line that names the machine, a clock that
//! goes back, headings that no full screen explains. Each start is a run of its own.

use std::collections::HashMap;

use super::cutter::TextPart;
use super::prompt_host;
use super::tool_lines::{self, ToolKind};
use crate::stamp_line::parse_stamp;
use crate::sysstat::head_line::HeadLine;
use crate::sysstat::time::{DAY_S, NumericDateOrder, parse_time_of_day};
use crate::sysstat::vmstat_headings::{VmstatHeadings, is_title};

/// Most starts that are cut; a text with more is the log of a loop.
const MAX_STARTS: usize = 50;
/// Fewest rows between headings that a screen explains: a tool repeats them when a screen is full.
const MIN_SCREEN_ROWS: usize = 12;
/// Seconds by which a clock goes back where summer time ends.
const HOUR_S: std::ops::RangeInclusive<i64> = 3_000..=3_700;

/// Cuts parts where their tool was started again.
pub(super) fn cut_at_restarts(parts: Vec<TextPart>, lines: &[(usize, String)]) -> Vec<TextPart> {
    let mut cut = Vec::with_capacity(parts.len());
    for part in parts {
        let starts = find_starts(&part, lines);
        if starts.is_empty() || starts.len() >= MAX_STARTS {
            cut.push(part);
            continue;
        }
        let ends = starts.iter().copied().chain([part.lines.len()]);
        let begins = std::iter::once(0).chain(starts.iter().copied());
        cut.extend(begins.zip(ends).map(|(from, until)| TextPart {
            lines: part.lines[from..until].to_vec(),
            command: part.command.clone(),
            host: part.host.clone(),
            ..part
        }));
    }
    cut
}

/// Places in a part's lines, in order, at which another start begins.
fn find_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let mut starts = match part.kind {
        ToolKind::Iostat | ToolKind::UnixIostat => [banner_starts(part, lines), stamp_starts(part, lines)].concat(),
        ToolKind::Sar => [banner_starts(part, lines), sar_starts(part, lines)].concat(),
        ToolKind::Top => clock_starts(part, lines),
        ToolKind::Vmstat => {
            [banner_starts(part, lines), stamp_starts(part, lines), vmstat_starts(part, lines)].concat()
        }
        _ => Vec::new(),
    };
    starts.sort_unstable();
    // a line that names the machine, and the headings below it, are one start
    starts.dedup_by(|next, before| part.lines[*before..*next].iter().all(|index| !is_row(&lines[*index].1)));
    starts
}

fn is_row(line: &str) -> bool {
    tool_lines::number_percent(line) >= 50
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Lines that name the machine below rows. Those with a time above them are in order by it, and so are those of later
/// days; another machine is another start in any case.
fn banner_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut has_rows, mut above, mut last) = (false, "", None::<(HeadLine, Option<String>)>);
    for (place, index) in part.lines.iter().enumerate() {
        let line = lines[*index].1.as_str();
        if is_blank(line) {
            continue;
        }
        if tool_lines::is_banner(line) {
            let head = HeadLine::parse(line).unwrap_or_default();
            let host = prompt_host::host_of_banner(line);
            let is_timed = parse_stamp(above, NumericDateOrder::MonthFirst).is_some();
            let is_other = last.as_ref().is_some_and(|(_, last_host)| *last_host != host);
            let is_later =
                part.kind == ToolKind::Sar && last.as_ref().is_some_and(|(last, _)| is_later_day(last, &head));
            if has_rows && (is_other || !is_timed && !is_later) {
                starts.push(place);
                has_rows = false;
            }
            last = Some((head, host));
        }
        has_rows |= is_row(line);
        above = line;
    }
    starts
}

fn is_later_day(before: &HeadLine, next: &HeadLine) -> bool {
    let day = |head: &HeadLine| {
        let read = crate::sysstat::time::parse_date(&head.date, NumericDateOrder::MonthFirst)?;
        Some(read.date.days_since_epoch())
    };
    day(before).zip(day(next)).is_some_and(|(before, next)| before < next)
}

/// True if a clock went back, and neither past midnight nor to winter time.
fn went_back(before_s: i64, now_s: i64, has_date: bool) -> bool {
    let back = before_s - now_s;
    back > 0 && !HOUR_S.contains(&back) && (has_date || back < DAY_S / 2)
}

/// Lines with a time that go back.
fn stamp_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut last = None::<i64>;
    for (place, index) in part.lines.iter().enumerate() {
        let line = lines[*index].1.trim();
        let stamp = if line.len() < 8 || is_row(line) && !line.contains(':') {
            None
        } else {
            parse_stamp(line, NumericDateOrder::MonthFirst)
        };
        let Some(stamp) = stamp else { continue };
        if last.is_some_and(|last| went_back(last, stamp.local_s, !stamp.has_no_date)) {
            starts.push(place);
        }
        last = Some(stamp.local_s);
    }
    starts
}

/// First lines of frames of top whose clock goes back.
fn clock_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut last = None::<i64>;
    for (place, index) in part.lines.iter().enumerate() {
        let rest = lines[*index].1.trim_start().strip_prefix("top - ");
        let clock = rest.and_then(|rest| parse_time_of_day(&[rest.split_whitespace().next()?]));
        let Some((clock_s, _)) = clock else { continue };
        if last.is_some_and(|last| went_back(last, clock_s, false)) {
            starts.push(place);
        }
        last = Some(clock_s);
    }
    starts
}

/// Headings of sar, mpstat and pidstat that stood there before, with a clock that goes back or right below the averages
/// of their table, which end a run.
fn sar_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut tables: HashMap<String, (i64, bool)> = HashMap::new();
    let mut current = String::new();
    for (place, index) in part.lines.iter().enumerate() {
        let words: Vec<&str> = lines[*index].1.split_whitespace().collect();
        if tool_lines::is_banner(&lines[*index].1) || words.contains(&"RESTART") {
            tables.clear();
        }
        if words.first() == Some(&"Average:") {
            if let Some((_, has_averages)) = tables.get_mut(&current) {
                *has_averages = true;
            }
            continue;
        }
        let Some((clock_s, taken)) = parse_time_of_day(&words) else { continue };
        let names = &words[taken..];
        // a comment has the time at which it was written
        if names.first() == Some(&"COM") {
            continue;
        }
        let is_heading = names.len() > 2 && !names.iter().any(|name| name.starts_with(|c: char| c.is_ascii_digit()));
        if !is_heading {
            if let Some((last_s, _)) = tables.get_mut(&current) {
                *last_s = clock_s;
            }
            continue;
        }
        let heading = names.join(" ");
        if heading != current {
            tables.values_mut().for_each(|(_, has_averages)| *has_averages = false);
        }
        current = heading;
        if tables.get(&current).is_some_and(|(last, has_averages)| *has_averages || went_back(*last, clock_s, false)) {
            starts.push(place);
            tables.clear();
        }
        tables.insert(current.clone(), (clock_s, false));
    }
    starts
}

/// Headings of vmstat that stand there again, though no full screen is above them.
fn vmstat_starts(part: &TextPart, lines: &[(usize, String)]) -> Vec<usize> {
    let text = |place: usize| lines[part.lines[place]].1.as_str();
    let is_spaced = part.lines.iter().filter(|index| is_blank(&lines[**index].1)).count() * 3 > part.lines.len();
    let is_heading = |place: &usize| VmstatHeadings::parse(text(*place), true).is_some();
    let headings: Vec<usize> = (0..part.lines.len()).filter(is_heading).collect();
    let mut starts = Vec::new();
    let mut screen_rows = None::<usize>;
    let mut first_row = headings.first().and_then(|heading| row_below(*heading, part, lines));
    for two in headings.windows(2) {
        let (above, next) = (two[0], two[1]);
        let rows = (above..next).filter(|place| is_row(text(*place))).count();
        if rows == 0 {
            continue;
        }
        let begin = if is_title(text(next - 1)) && next > above + 1 { next - 1 } else { next };
        let is_behind_blank = !is_spaced && is_blank(text(begin - 1));
        // rows that were left out make a screen short
        let is_whole = part.lines[above..=next].windows(2).all(|two| two[1] == two[0] + 1);
        let is_screen = rows >= MIN_SCREEN_ROWS && screen_rows.is_none_or(|screen| screen == rows);
        let row = row_below(next, part, lines);
        let is_since_boot = || first_row.zip(row).is_some_and(|(first, row)| stands_apart(first, row, part, lines));
        if is_behind_blank || is_whole && !is_screen || is_since_boot() {
            starts.push(begin);
            (screen_rows, first_row) = (None, row);
        } else {
            screen_rows = Some(rows);
        }
    }
    starts
}

/// Place of the first row below a line.
fn row_below(place: usize, part: &TextPart, lines: &[(usize, String)]) -> Option<usize> {
    (place + 1..part.lines.len()).find(|place| is_row(&lines[part.lines[*place]].1))
}

/// True for a row that is like the first of the run, which is the average since boot, and unlike those around it.
fn stands_apart(first: usize, row: usize, part: &TextPart, lines: &[(usize, String)]) -> bool {
    let text = |place: usize| lines[part.lines[place]].1.as_str();
    let above = (first + 1..row).rev().find(|place| is_row(text(*place)));
    let below = row_below(row, part, lines);
    let (Some(above), Some(below)) = (above, below) else { return false };
    let is_like = |other: usize| like_percent(text(row), text(other)) >= 90;
    is_like(first) && !is_like(above) && !is_like(below) && like_percent(text(first), text(above)) < 90
}

/// Part of the cells of two rows, from the traffic of swap on, that are about the same, percent.
fn like_percent(one: &str, other: &str) -> usize {
    const FIRST_CELL: usize = 6;
    let cells = |line: &str| -> Vec<f64> {
        line.split_whitespace().skip(FIRST_CELL).map_while(|word| word.parse().ok()).collect()
    };
    let (one, other) = (cells(one), cells(other));
    if one.len() != other.len() || one.is_empty() {
        return 0;
    }
    let is_like = |(a, b): &(&f64, &f64)| (*a - *b).abs() <= (0.05 * a.max(**b)).max(1.0);
    one.iter().zip(&other).filter(is_like).count() * 100 / one.len()
}

#[cfg(test)]
mod tests {
    use super::super::cutter::cut_lines;
    use super::super::tests::{BANNER, IO, MP, VM, VM_ROWS};

    /// Numbers of the first lines of the parts of a text.
    fn starts_of(text: &str) -> Vec<usize> {
        let lines: Vec<(usize, String)> = text.lines().enumerate().map(|(i, line)| (i + 1, line.to_owned())).collect();
        cut_lines(&lines).parts.iter().map(|part| lines[part.lines[0]].0).collect()
    }

    #[test]
    fn a_tool_that_was_started_again_is_cut() {
        let screen = format!("{VM}{}", VM_ROWS.repeat(11));
        let quiet = " 0  0      0  60000   1200  40311    0    0     1     2   90   80  1  1 98  0\n";
        let run = format!("{VM}{quiet}{}", VM_ROWS.repeat(11));
        let clocks = |text: &str, hour: &str| text.replace("11:22", &format!("{hour}:22"));
        let averages = "Average:     all    3.00    0.00    4.00   70.00    0.00    1.00    0.00    0.00   22.00\n";
        let report = |clock: &str| format!("2026-11-21 {clock}\n{IO}");
        for (name, text, starts) in [
            ("iostat with its banner", format!("{BANNER}\n{IO}{IO}{BANNER}\n{IO}{IO}"), &[1, 15][..]),
            ("reports alone", format!("{BANNER}\n{IO}{IO}{IO}"), &[1]),
            ("iostat whose clock goes back", report("10:00:05") + &report("10:00:10") + &report("09:30:00"), &[1, 15]),
            ("iostat whose clock goes on", report("10:00:05") + &report("10:00:10") + &report("11:30:00"), &[1]),
            ("the end of summer time", report("02:59:55") + &report("02:00:00") + &report("02:00:05"), &[1]),
            ("mpstat whose clock goes back", clocks(MP, "11") + &clocks(MP, "08"), &[1, 4]),
            ("mpstat below averages", format!("{MP}{averages}{}", clocks(MP, "12")), &[1, 5]),
            ("a comment that was written before", format!("{}08:22:33     COM Third...\n{MP}", clocks(MP, "10")), &[1]),
            ("headings of each screen", format!("{MP}{}", MP.replace(":34", ":36").replace(":33", ":35")), &[1]),
            ("two short runs of vmstat", format!("{VM}{VM_ROWS}{VM}{VM_ROWS}"), &[1, 5]),
            ("screens of vmstat", screen.repeat(3), &[1]),
            ("a screen that is cut short", format!("{screen}{screen}{VM}{}{VM}{VM_ROWS}", VM_ROWS.repeat(7)), &[1, 65]),
            ("runs as long as a screen", run.repeat(2), &[1, 26]),
            ("a blank line between", format!("{screen}\n{screen}"), &[1, 26]),
        ] {
            assert_eq!(starts_of(&text), starts, "{name}:\n{text}");
        }
    }

    #[test]
    fn a_log_of_many_starts_stays_whole() {
        assert_eq!(starts_of(&format!("{BANNER}\n{IO}").repeat(60)).len(), 1);
    }
}
