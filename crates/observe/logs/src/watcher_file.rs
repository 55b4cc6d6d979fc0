//! Files of OSWatcher and ExaWatcher: a tool's output below lines of the collector that say how it was called. The
//! machine is named in the file's name, or behind OSWatcher's version:
//!
//! ```text
//! Linux OSWbb v22.1.0AHF db1                       db1_vmstat_26.11.23.0500.dat
//! zzz ***Mon Nov 23 05:00:01 UTC 2026
//! ```
//!
//! ```text
//! # Sample Interval(s):   5                        2026_11_23_05_00_00_VmstatExaWatcher_db1.dat.bz2
//! # Collection Module:    VmstatExaWatcher
//! zzz <11/23/2026 05:00:00> Count:720
//! ```

use std::io::{self, Cursor, Read};
use std::time::Duration;

use crate::input::{InputHead, LogInput};
use crate::sysstat::calendar;
use crate::sysstat::time::NumericDateOrder;
use crate::{LogError, LogOptions};
use diskwright_base::text::is_same_host;

/// Largest number of the collector's lines.
const MAX_HEAD_LINES: usize = 40;

/// Facts that the collector gives about a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WatcherFile {
    /// Machine; empty if nothing names it.
    pub host: String,
    /// Time between two reports of a tool that keeps running.
    interval: Option<Duration>,
    /// Offset east of UTC, seconds, according to its first time.
    offset_s: Option<i32>,
    /// Number of bytes up to its first time.
    head_bytes: usize,
    /// Byte ranges of the collector's lines within those bytes.
    line_ranges: Vec<(usize, usize)>,
}

impl WatcherFile {
    /// Parses the head of a file; `None` if neither collector wrote it.
    pub fn from_head(head: &InputHead<'_>) -> Option<WatcherFile> {
        let mut found = WatcherFile::default();
        let mut is_watcher_file = false;
        for line in head.bytes.split_inclusive(|b| *b == b'\n').take(MAX_HEAD_LINES) {
            let text = String::from_utf8_lossy(line);
            let text = text.trim();
            let from = found.head_bytes;
            if text.starts_with("zzz") {
                found.offset_s = calendar::parse_moment(text, NumericDateOrder::MonthFirst)
                    .and_then(|time| i32::try_from(time.zone.offset_s()?).ok());
                // releases without a banner: `zzz ***Wed Feb 29 11:01:52 EST 2012 Sample interval: 5 secconds`
                if let Some((_, interval_text)) = text.split_once("Sample interval:") {
                    is_watcher_file = true;
                    found.interval = found.interval.or(parse_seconds(interval_text));
                }
                is_watcher_file |= host_from_name(head.name).is_some();
                break;
            }
            found.head_bytes += line.len();
            if let Some(host) = parse_banner(text) {
                host.clone_into(&mut found.host);
                is_watcher_file = true;
            } else if let Some((name, value)) = text.strip_prefix('#').and_then(|rest| rest.split_once(':')) {
                is_watcher_file |= name.trim() == "Collection Module" && value.trim().ends_with("ExaWatcher");
                if name.trim().starts_with("Sample Interval") {
                    found.interval = parse_seconds(value);
                }
            } else if !text.starts_with("####") {
                continue;
            }
            found.line_ranges.push((from, found.head_bytes));
        }
        if found.host.is_empty() {
            host_from_name(head.name).unwrap_or_default().clone_into(&mut found.host);
        }
        is_watcher_file.then_some(found)
    }

    /// Returns the options with the collector's values if the user gave none.
    pub fn apply_to_options(&self, options: &LogOptions) -> LogOptions {
        let mut options = options.clone();
        options.interval = options.interval.or(self.interval);
        options.utc_offset_s = options.utc_offset_s.or(self.offset_s);
        options
    }

    /// Replaces the collector's lines by blanks, so that no reader stumbles over them and each line keeps its number.
    pub fn blank_lines(&self, input: &mut LogInput) -> Result<(), LogError> {
        let (end, lines) = (self.head_bytes, self.line_ranges.clone());
        let name = input.name().to_owned();
        let filtered = input.insert_filter(move |mut stream| {
            let mut head = Vec::new();
            // an error comes again with the rest
            let _ = stream.by_ref().take(end as u64).read_to_end(&mut head);
            for (from, to) in lines {
                let line = head.get_mut(from..to).unwrap_or_default();
                line.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
            }
            Box::new(Cursor::new(head).chain(stream)) as Box<dyn Read>
        });
        filtered.map_err(|error: io::Error| LogError::io(&name, error))
    }

    /// Returns true if the user chose another machine. Short and long names of a machine match.
    pub fn is_other_host(&self, options: &LogOptions) -> bool {
        let chosen = options.host.as_deref().filter(|_| !self.host.is_empty());
        chosen.is_some_and(|chosen| !is_same_host(chosen, &self.host))
    }
}

/// Parses OSWatcher's first line, `Linux OSWbb v8.4.0 db1`, and returns the machine; empty if it names none.
fn parse_banner(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let (_, program, version) = (words.next()?, words.next()?, words.next()?);
    let is_version = version.starts_with('v') && version.contains(|c: char| c.is_ascii_digit());
    let is_banner = program.starts_with("OSW") && is_version;
    let host = words.next().unwrap_or_default();
    (is_banner && words.next().is_none()).then_some(host)
}

/// Returns the machine in a file's name.
fn host_from_name(name: &str) -> Option<&str> {
    let stem = name.split_once(".dat").map(|(stem, _)| stem)?;
    if let Some((_, host)) = stem.split_once("ExaWatcher_") {
        return Some(host);
    }
    let (rest, date) = stem.rsplit_once('_')?;
    let is_date = date.len() >= 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    rest.rsplit_once('_').map(|(host, _)| host).filter(|_| is_date)
}

/// Parses `5` or `5 seconds`.
fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds = text.split_whitespace().next()?.parse().ok()?;
    (1..=86_400).contains(&seconds).then_some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Option<WatcherFile> {
        WatcherFile::from_head(&InputHead { name, bytes: text.as_bytes() })
    }

    const EXA: &str = "############\n# Starting Time:\t11/23/2026 05:00:00\n# Sample Interval(s):\t5\n\
                       # Archive Count:\t720\n# Collection Module:\tVmstatExaWatcher\n############\n";

    #[test]
    fn machines_stand_in_names_and_banners() {
        let osw = "Linux OSWbb v8.4.0\nzzz ***Mon Nov 23 05:00:01 UTC 2026\n";
        for (name, text, host) in [
            ("db1.example.com_iostat_26.11.23.0500.dat", osw, "db1.example.com"),
            ("my_db_vmstat_26.11.23.0500.dat.gz", osw, "my_db"),
            ("vmstat.dat", osw, ""),
            ("-", osw, ""),
            ("old_iostat_26.11.23.0500.dat", "Linux OSWbb v22.1.0AHF db1\n", "db1"),
            ("2026_11_23_05_00_00_VmstatExaWatcher_db1.example.com.dat.bz2", EXA, "db1.example.com"),
        ] {
            assert_eq!(of(name, text).expect(name).host, host, "{name}");
        }
        for other in ["Linux 6.1.0 (db1)\n", "# Sample Interval(s): 5\nzzz\n", "Linux OSWbb\n", "zzz\n", ""] {
            assert_eq!(of("iostat.txt", other), None, "{other}");
        }
        assert_eq!(of("db1_iostat_26.11.23.0500.dat", "Linux 6.1.0 (db1)\n"), None);
    }

    #[test]
    fn intervals_and_zones_are_those_of_the_head() {
        let options = LogOptions::default();
        assert_eq!(of("x", EXA).unwrap().apply_to_options(&options).interval, Some(Duration::from_secs(5)));
        let zoned = "Linux OSWbb v8.4.0\nzzz ***Mon Nov 23 05:00:01 +02 2026\n";
        assert_eq!(of("x", zoned).unwrap().apply_to_options(&options).utc_offset_s, Some(7200));
        let old = "zzz ***Wed Feb 29 11:01:52 EST 2012 Sample interval: 5 secconds\n";
        let of_name = of("db1.example.com_vmstat_12.02.29.1100.dat", old).unwrap();
        assert_eq!((of_name.interval, of_name.host.as_str()), (Some(Duration::from_secs(5)), "db1.example.com"));
        assert_eq!(of("db1_vmstat_12.02.29.1100.dat", "zzz ***Wed Feb 29 11:01:52 UTC 2012\n").unwrap().host, "db1");
        let user_options = LogOptions { utc_offset_s: Some(0), interval: Some(Duration::from_secs(9)), ..options };
        let applied = of("x", &(EXA.to_owned() + zoned)).unwrap().apply_to_options(&user_options);
        assert_eq!((applied.utc_offset_s, applied.interval), (user_options.utc_offset_s, user_options.interval));
    }

    #[test]
    fn blanks_its_lines_and_keeps_line_numbers() {
        let text = format!("{EXA}nohup: ignoring input\nzzz <11/23/2026 05:00:00> Count:720\n# of the tool\n");
        let mut input = LogInput::from_bytes("x", text.into_bytes()).unwrap();
        let found = WatcherFile::from_head(&input.head()).unwrap();
        found.blank_lines(&mut input).unwrap();
        let read = io::read_to_string(&mut input).unwrap();
        let lines: Vec<&str> = read.lines().map(str::trim).collect();
        assert_eq!(lines[..6], [""; 6]);
        assert_eq!(lines[6..], ["nohup: ignoring input", "zzz <11/23/2026 05:00:00> Count:720", "# of the tool"]);
    }
}
