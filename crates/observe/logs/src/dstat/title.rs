//! Lines above the headings: the program, the machine, the start time and the options.

use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time::{self, Date, NumericDateOrder};

/// The program that wrote a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DstatProgram {
    /// The titles are missing.
    #[default]
    Unknown,
    /// dstat; bytes.
    Dstat,
    /// dool; from 1.3 on it writes bits, unless an option says otherwise.
    Dool {
        /// Bits are the default.
        has_bits: bool,
    },
    /// PCP's rewrite; its first row covers one interval.
    Pcp,
}

/// Contents of the title lines.
#[derive(Clone, Debug, Default)]
pub struct DstatTitle {
    /// The program.
    pub program: DstatProgram,
    /// The machine.
    pub host: String,
    /// The command with its options.
    pub command: String,
    /// Start: seconds since 1970 as the clock showed it.
    pub begun_s: Option<i64>,
    /// Date of the start, for times without one.
    pub date: Option<Date>,
    /// Zone of the start.
    pub zone: Option<String>,
}

/// Parses the program of a first title line, `"Dstat 0.7.3 CSV output"`.
pub fn parse_program(cell: &str) -> Option<DstatProgram> {
    let lower = cell.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let [name, version, "csv", "output"] = words.as_slice() else { return None };
    match *name {
        "dstat" => Some(DstatProgram::Dstat),
        "pcp-dstat" => Some(DstatProgram::Pcp),
        "dool" => {
            let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
            let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
            Some(DstatProgram::Dool { has_bits: version >= (1, 3) })
        }
        _ => None,
    }
}

impl DstatTitle {
    /// Parses a title line; returns false for other lines. A new run keeps the program, which is named only
    /// at the beginning of a file.
    pub fn parse_line(&mut self, cells: &[String]) -> bool {
        if let Some(program) = parse_program(&cells[0]) {
            *self = DstatTitle { program, ..DstatTitle::default() };
            return true;
        }
        let value = |name: &str| {
            let index = cells.iter().position(|cell| cell.eq_ignore_ascii_case(name))?;
            cells[index + 1..].iter().find(|cell| !cell.is_empty()).cloned()
        };
        match cells[0].as_str() {
            "Author:" => {}
            "Host:" => self.host = value("Host:").unwrap_or_default(),
            "Cmdline:" => {
                self.command = value("Cmdline:").unwrap_or_default();
                self.set_date(&value("Date:").unwrap_or_default());
            }
            _ => return false,
        }
        true
    }

    fn set_date(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let clock_index = (0..words.len()).find(|&index| time::parse_time_of_day(&words[index..]).is_some());
        let (day, rest) = words.split_at(clock_index.unwrap_or(words.len()));
        self.date = time::parse_date(&day.join(" "), NumericDateOrder::DayFirst).map(|read| read.date);
        self.begun_s = None;
        if let (Some(date), Some((clock, taken))) = (self.date, time::parse_time_of_day(rest)) {
            self.begun_s = Some(date.days_since_epoch() * time::DAY_S + clock);
            self.zone = rest.get(taken).map(|zone| (*zone).to_owned());
        }
    }

    /// Zone of its times, as far as it is known.
    pub fn zone_hint(&self) -> ZoneHint {
        self.zone.clone().map_or(ZoneHint::Missing, ZoneHint::Name)
    }

    /// Returns true if its first row covers the time since boot.
    pub fn is_first_since_boot(&self) -> bool {
        self.program != DstatProgram::Pcp
    }

    /// Bytes per unit in columns of disks and interfaces: 1 (bytes), 1/8 (bits), or `None` if nothing says.
    pub fn unit_bytes(&self) -> Option<f64> {
        match self.program {
            // PCP's metrics have units of their own, which the CSV does not show
            DstatProgram::Unknown | DstatProgram::Pcp => None,
            DstatProgram::Dstat | DstatProgram::Dool { has_bits: false } => Some(1.0),
            DstatProgram::Dool { has_bits: true } => {
                let unit = self.command.split_whitespace().rev().find_map(|word| match word {
                    "--bits" => Some(0.125),
                    "--bytes" | "--dstat" => Some(1.0),
                    _ => None,
                });
                Some(unit.unwrap_or(0.125))
            }
        }
    }

    /// Returns the seconds between two rows: the first of one or two numbers at the command's end.
    pub fn delay_s(&self) -> i64 {
        let words: Vec<&str> = self.command.split_whitespace().skip(1).collect();
        let number_count = words.iter().rev().take_while(|w| w.bytes().all(|b| b.is_ascii_digit())).count();
        let mut numbers = &words[words.len() - number_count..];
        // the first number behind an option may be its value
        let option = words.len().checked_sub(number_count + 1).map(|index| words[index]);
        if option.is_some_and(|o| matches!(o, "-C" | "-D" | "-N" | "-I" | "-S" | "--output")) {
            numbers = numbers.get(1..).unwrap_or_default();
        }
        numbers.first().and_then(|n| n.parse().ok()).filter(|n| (1..=86_400).contains(n)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(version: &str, command: &str) -> DstatTitle {
        let mut title = DstatTitle::default();
        let line = |text: &str| text.split(',').map(|c| c.trim_matches('"').to_owned()).collect::<Vec<_>>();
        assert!(title.parse_line(&line(&format!("\"{version} CSV output\""))));
        assert!(title.parse_line(&line("\"Author:\",\"x\",,,,\"URL:\",\"http://x/\"")));
        assert!(title.parse_line(&line("\"Host:\",\"db1\",,,,\"User:\",\"root\"")));
        assert!(
            title.parse_line(&line(&format!("\"Cmdline:\",\"{command}\",,,,\"Date:\",\"21 Nov 2026 07:05:46 CET\"")))
        );
        assert!(!title.parse_line(&line("\"total cpu usage\",,")));
        title
    }

    #[test]
    fn reads_host_and_start_from_titles() {
        let found = title("Dstat 0.7.3", "dstat -tcd 5 3");
        assert_eq!((found.host.as_str(), found.delay_s(), found.unit_bytes()), ("db1", 5, Some(1.0)));
        assert_eq!(found.begun_s, Some(20_778 * time::DAY_S + 25_546));
        assert_eq!(found.zone_hint(), ZoneHint::Name("CET".into()));
        assert!(found.is_first_since_boot() && !title("pcp-dstat 5.0.3", "x").is_first_since_boot());
    }

    #[test]
    fn dool_counts_bits_since_its_version_1_3() {
        for (version, command, bytes) in [
            ("dool 1.3.4", "dool -d", 0.125),
            ("dool 1.3.0", "dool --bytes -d 5", 1.0),
            ("Dool 1.3.2", "dool --dstat -d", 1.0),
            ("dool 1.3.2", "dool --bytes --bits", 0.125),
            ("dool 1.2.0", "dool -d", 1.0),
            ("Dstat 0.8.0", "dstat --bits", 1.0),
        ] {
            assert_eq!(title(version, command).unit_bytes(), Some(bytes), "{version}: {command}");
        }
        assert_eq!(DstatTitle::default().unit_bytes(), None);
    }

    #[test]
    fn the_delay_is_the_first_number_at_the_end() {
        for (command, delay) in
            [("dstat", 1), ("dstat -tcd", 1), ("dstat -c 10", 10), ("dstat -C 0", 1), ("dstat --output 3 60 9", 60)]
        {
            assert_eq!(title("Dstat 0.7.3", command).delay_s(), delay, "{command}");
        }
    }
}
