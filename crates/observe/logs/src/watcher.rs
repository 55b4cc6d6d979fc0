//! Files of OSWatcher and ExaWatcher: what a tool printed, below lines of the collector that say
//! how it was called. The machine stands in the file's name, or behind OSWatcher's version:
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
use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time::{self, NumericDateOrder};
use crate::{LogError, LogOptions};
use diskwright_base::text::same_host;

/// Lines of the collector at most.
const LINES: usize = 40;

/// What the collector says of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WatcherFile {
    /// The machine; empty where nothing tells it.
    pub host: String,
    /// Between two reports of a tool that runs on.
    interval: Option<Duration>,
    /// East of UTC, seconds, as its first time says.
    offset_s: Option<i32>,
    /// Bytes up to its first time, and those of its lines in them.
    head: usize,
    lines: Vec<(usize, usize)>,
}

impl WatcherFile {
    /// Of a head; `None` where it is of neither.
    pub fn of(head: &InputHead<'_>) -> Option<WatcherFile> {
        let mut found = WatcherFile::default();
        let mut is_one = false;
        for line in head.bytes.split_inclusive(|b| *b == b'\n').take(LINES) {
            let text = String::from_utf8_lossy(line);
            let text = text.trim();
            let from = found.head;
            if text.starts_with("zzz") {
                found.offset_s =
                    calendar::moment(text, NumericDateOrder::MonthFirst).and_then(|time| offset(&time.zone));
                // releases without a banner: `zzz ***Wed Feb 29 11:01:52 EST 2012 Sample interval: 5 secconds`
                if let Some((_, told)) = text.split_once("Sample interval:") {
                    is_one = true;
                    found.interval = found.interval.or(seconds(told));
                }
                is_one |= host_of(head.name).is_some();
                break;
            }
            found.head += line.len();
            if let Some(host) = banner(text) {
                host.clone_into(&mut found.host);
                is_one = true;
            } else if let Some((name, value)) = text.strip_prefix('#').and_then(|rest| rest.split_once(':')) {
                is_one |= name.trim() == "Collection Module" && value.trim().ends_with("ExaWatcher");
                if name.trim().starts_with("Sample Interval") {
                    found.interval = seconds(value);
                }
            } else if !text.starts_with("####") {
                continue;
            }
            found.lines.push((from, found.head));
        }
        if found.host.is_empty() {
            host_of(head.name).unwrap_or_default().clone_into(&mut found.host);
        }
        is_one.then_some(found)
    }

    /// The options with what the collector says, where the user says nothing.
    pub fn options(&self, options: &LogOptions) -> LogOptions {
        let mut options = options.clone();
        options.interval = options.interval.or(self.interval);
        options.utc_offset_s = options.utc_offset_s.or(self.offset_s);
        options
    }

    /// Makes the collector's lines blank, so that no reader stumbles over them and each keeps its number.
    pub fn blank(&self, input: &mut LogInput) -> Result<(), LogError> {
        let (end, lines) = (self.head, self.lines.clone());
        let name = input.name().to_owned();
        let turned = input.turn(move |mut stream| {
            let mut head = Vec::new();
            // an error comes again with the rest
            let _ = stream.by_ref().take(end as u64).read_to_end(&mut head);
            for (from, to) in lines {
                let line = head.get_mut(from..to).unwrap_or_default();
                line.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
            }
            Box::new(Cursor::new(head).chain(stream)) as Box<dyn Read>
        });
        turned.map_err(|error: io::Error| LogError::io(&name, error))
    }

    /// True where another machine is asked for. Short names and long ones are the same.
    pub fn is_of_other(&self, options: &LogOptions) -> bool {
        let asked = options.host.as_deref().filter(|_| !self.host.is_empty());
        asked.is_some_and(|asked| !same_host(asked, &self.host))
    }
}

/// The machine of OSWatcher's first line, `Linux OSWbb v8.4.0 db1`; empty where it names none.
fn banner(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let (_, program, version) = (words.next()?, words.next()?, words.next()?);
    let is_version = version.starts_with('v') && version.contains(|c: char| c.is_ascii_digit());
    let is_banner = program.starts_with("OSW") && is_version;
    let host = words.next().unwrap_or_default();
    (is_banner && words.next().is_none()).then_some(host)
}

/// The machine of a file's name.
fn host_of(name: &str) -> Option<&str> {
    let stem = name.split_once(".dat").map(|(stem, _)| stem)?;
    if let Some((_, host)) = stem.split_once("ExaWatcher_") {
        return Some(host);
    }
    let (rest, date) = stem.rsplit_once('_')?;
    let is_date = date.len() >= 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    rest.rsplit_once('_').map(|(host, _)| host).filter(|_| is_date)
}

/// `5`, `5 seconds`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.split_whitespace().next()?.parse().ok()?;
    (1..=86_400).contains(&seconds).then_some(Duration::from_secs(seconds))
}

fn offset(zone: &ZoneHint) -> Option<i32> {
    let seconds = match zone {
        ZoneHint::Offset(seconds) => Some(*seconds),
        ZoneHint::Name(name) => time::zone(name),
        ZoneHint::Nothing => None,
    };
    seconds.and_then(|seconds| i32::try_from(seconds).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Option<WatcherFile> {
        WatcherFile::of(&InputHead { name, bytes: text.as_bytes() })
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
        assert_eq!(of("x", EXA).unwrap().options(&options).interval, Some(Duration::from_secs(5)));
        let zoned = "Linux OSWbb v8.4.0\nzzz ***Mon Nov 23 05:00:01 +02 2026\n";
        assert_eq!(of("x", zoned).unwrap().options(&options).utc_offset_s, Some(7200));
        let old = "zzz ***Wed Feb 29 11:01:52 EST 2012 Sample interval: 5 secconds\n";
        let of_name = of("db1.example.com_vmstat_12.02.29.1100.dat", old).unwrap();
        assert_eq!((of_name.interval, of_name.host.as_str()), (Some(Duration::from_secs(5)), "db1.example.com"));
        assert_eq!(of("db1_vmstat_12.02.29.1100.dat", "zzz ***Wed Feb 29 11:01:52 UTC 2012\n").unwrap().host, "db1");
        let told = LogOptions { utc_offset_s: Some(0), interval: Some(Duration::from_secs(9)), ..options };
        let said = of("x", &(EXA.to_owned() + zoned)).unwrap().options(&told);
        assert_eq!((said.utc_offset_s, said.interval), (told.utc_offset_s, told.interval));
    }

    #[test]
    fn its_lines_become_blank_and_stay_lines() {
        let text = format!("{EXA}nohup: ignoring input\nzzz <11/23/2026 05:00:00> Count:720\n# of the tool\n");
        let mut input = LogInput::from_bytes("x", text.into_bytes()).unwrap();
        let found = WatcherFile::of(&input.head()).unwrap();
        found.blank(&mut input).unwrap();
        let read = io::read_to_string(&mut input).unwrap();
        let lines: Vec<&str> = read.lines().map(str::trim).collect();
        assert_eq!(lines[..6], [""; 6]);
        assert_eq!(lines[6..], ["nohup: ignoring input", "zzz <11/23/2026 05:00:00> Count:720", "# of the tool"]);
    }
}
