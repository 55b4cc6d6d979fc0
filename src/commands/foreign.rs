//! Logs of other tools: their options on the command line.

use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_ingest::ReadingOptions;
use diskwright_logs::{CsvColumn, LogOptions};

use super::first_given_option;

/// Facts that a log of another tool may lack.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Logs of other tools")]
pub struct ForeignOptions {
    /// UTC offset of the log's local time, if it names no zone: +02:00, +0200, -330 (minutes)
    #[arg(long, allow_hyphen_values = true, value_parser = parse_utc_offset, value_name = "OFFSET")]
    utc_offset: Option<i32>,
    /// The machine to read from a log of several machines
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Interval between two reports without timestamps (iostat without -t)
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    interval: Option<Duration>,
    /// What a column of a CSV is: NAME=counter[:instance[:unit]]; * in NAME stands for the instance (repeatable)
    #[arg(long = "column", value_parser = CsvColumn::parse, value_name = "NAME=COUNTER")]
    table_columns: Vec<CsvColumn>,
}

impl ForeignOptions {
    /// Returns the options for reading.
    pub fn reading_options(&self) -> ReadingOptions {
        ReadingOptions::from(LogOptions {
            utc_offset_s: self.utc_offset,
            host: self.host.clone(),
            interval: self.interval,
            columns: self.table_columns.clone(),
            ..LogOptions::default()
        })
    }

    /// Returns the first of these options that was given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        first_given_option(&[
            ("--utc-offset", self.utc_offset.is_some()),
            ("--host", self.host.is_some()),
            ("--interval", self.interval.is_some()),
            ("--column", !self.table_columns.is_empty()),
        ])
    }
}

/// Parses seconds of `+02:00`, `-3:30`, `+5`, `Z`, of `+0530` as `date +%z` prints it, or of a bare number of minutes
/// from 15 on (`-330`).
fn parse_utc_offset(text: &str) -> Result<i32, String> {
    let error = || format!("`{text}` is not a UTC offset; write +02:00 or -05:30 (east of Greenwich is +)");
    if matches!(text, "Z" | "z" | "0") {
        return Ok(0);
    }
    let (sign, digits) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(digits), _) => (-1, digits),
        (_, Some(digits)) => (1, digits),
        _ => (1, text),
    };
    let number = |part: &str| part.parse::<i32>().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit()));
    let minutes = match digits.split_once(':') {
        Some((hours, minutes)) => {
            let minutes = number(minutes).filter(|m| *m < 60).ok_or_else(error)?;
            number(hours).filter(|h| *h <= 14).ok_or_else(error)? * 60 + minutes
        }
        None => match number(digits).ok_or_else(error)? {
            // four digits are hours and minutes: read as minutes, +0530 would be nearly nine hours
            clock if digits.len() == 4 && clock % 100 < 60 => clock / 100 * 60 + clock % 100,
            _ if digits.len() == 4 => return Err(error()),
            hours @ 0..15 => hours * 60,
            minutes => minutes,
        },
    };
    if minutes > 14 * 60 { Err(error()) } else { Ok(sign * minutes * 60) }
}

#[cfg(test)]
mod tests {
    use super::parse_utc_offset;

    #[test]
    fn parses_utc_offsets() {
        let right = [("+02:00", 7200), ("-3:30", -12600), ("+5", 18000), ("Z", 0), ("-330", -19800), ("14:00", 50400)];
        let of_date = [("+0530", 19800), ("-0800", -28800), ("+0000", 0), ("+1400", 50400)];
        for (text, seconds) in right.into_iter().chain(of_date) {
            assert_eq!(parse_utc_offset(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "+", "two", "+25:00", "1:60", "+-2", "99999", "+0175", "+1500"] {
            assert!(parse_utc_offset(wrong).is_err(), "{wrong}");
        }
    }
}
