//! Text of vmstat. The first row after each start covers the time since boot;
//! `-t` puts the time at the end of each row.

use diskwright_base::Note;

use super::clock::{SysstatClock, ZoneHint};
use super::machine::SysstatMachine;
use super::shaper::Shaper;
use super::stream::StreamWindow;
use super::table::number;
use super::time::{self, NumericDateOrder};
use crate::batch::FrameBatch;
use crate::error::LogError;
use crate::{LogInput, LogOptions};

/// True for a line that vmstat prints above its headings.
pub fn is_title(line: &str) -> bool {
    line.trim_start_matches('-').starts_with("procs") && line.contains("memory")
}

/// Reads all of an input.
pub fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut stream = StreamWindow::new(input);
    let (mut clock, mut shaper) = (SysstatClock::new(options), Shaper::new());
    let mut headings: Vec<String> = Vec::new();
    let (mut line, mut rows, mut before) = (0u64, 0u64, None);
    while let Some((bare, whole)) = stream.line()? {
        let text = String::from_utf8_lossy(&stream.rest()[..bare]).into_owned();
        stream.skip(whole);
        line += 1;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || is_title(&text) {
            continue;
        }
        if words[..2.min(words.len())] == ["r", "b"] {
            headings = words.iter().map(|w| (*w).to_owned()).collect();
            continue;
        }
        let at = format!("line {line}");
        let numbers = words.iter().take_while(|w| !w.contains(['-', ':', '/']) && number(w, 1.0).is_some()).count();
        let zone = headings.get(numbers).map_or(ZoneHint::Nothing, |zone| ZoneHint::Name(zone.clone()));
        let columns = headings.len() - usize::from(headings.len() > numbers && zone != ZoneHint::Nothing);
        if headings.is_empty() || numbers < columns.max(1) {
            batch.skip(at, "no row of vmstat under its headings");
            continue;
        }
        let printed = time::moment(&words[numbers..].join(" "), NumericDateOrder::MonthFirst);
        let time_ns = match (printed, options.interval, before) {
            (Some((local, _, _)), _, _) => clock.utc_ns(local, &zone, batch),
            (None, Some(step), Some(before)) => step_on(before, step),
            (None, Some(_), None) => {
                batch.note(Note::new(0, Note::WARNING, SysstatMachine::ASSUMED));
                0
            }
            (None, None, _) => return Err(needs_interval(stream.name(), at)),
        };
        let since = before.map(|before| time_ns.saturating_sub(before)).filter(|since| *since > 0);
        before = Some(time_ns);
        rows += 1;
        if rows == 1 {
            batch.skip(at, "the first row of vmstat covers the time since boot");
            continue;
        }
        for (name, word) in headings.iter().zip(&words[..numbers]) {
            if let (Some(value), Some(slot)) = (number(word, 1.0), shaper.slot("vmstat", name, "")) {
                shaper.put(slot, value);
            }
        }
        shaper.emit(batch, time_ns, since.map(i64::unsigned_abs));
        if batch.is_stopped() {
            return Ok(());
        }
    }
    Ok(())
}

fn step_on(before: i64, step: std::time::Duration) -> i64 {
    before.saturating_add(i64::try_from(step.as_nanos()).unwrap_or(i64::MAX))
}

fn needs_interval(file: &str, at: String) -> LogError {
    LogError::Needs {
        file: file.to_owned(),
        because: format!("{at}: the rows have no timestamps, and their interval is unknown"),
        option: "--interval 5s (vmstat -t prints times next time)",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{run, run_with};
    use crate::LogOptions;

    const HEAD: &str =
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n";

    #[test]
    fn rows_with_times() {
        let text = format!(
            "{HEAD} r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st  UTC\n \
             2  0 0 16 32 77 11 108 45 48 873 2731 41 9 38 12 0 2026-11-22 02:03:53\n \
             1  3 0 16 32 77 4 8 1 2 60 95 20 10 60 9 1 2026-11-22 02:03:55\n"
        );
        let read = run(&text);
        assert_eq!(read.ticks, [(1_795_313_035_000_000_000, 2_000_000_000)]);
        for (counter, instance, value) in [
            ("system.blocked", "", 3.0),
            ("paging.swap_in_pages_per_s", "", 1.0),
            ("processor.idle", "_total", 0.6),
            ("memory.free_bytes", "", 16_384.0),
        ] {
            assert_eq!(read.column(counter, instance), [value], "{counter}");
        }
        assert!(read.notes.iter().all(|n| n.kind != "warning"), "{:?}", read.notes);
    }

    #[test]
    fn rows_without_times_need_an_interval() {
        let text = "procs memory\n r b swpd free\n 1 0 0 5\n 1 0 0 6\nrubbish\n 1 0\n 1 0 0 7\n";
        assert!(run(text).summary.unwrap_err().to_string().contains("--interval"));
        let options = LogOptions { interval: Some(Duration::from_secs(2)), ..LogOptions::default() };
        let read = run_with(text.as_bytes(), &options);
        assert_eq!(read.column("memory.free_bytes", ""), [6144.0, 7168.0]);
        assert!(read.summary.unwrap().skipped.iter().any(|s| s.at == "line 5" && s.times == 2));
    }
}
