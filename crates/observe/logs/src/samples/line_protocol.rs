//! Line protocol of InfluxDB as Telegraf writes it: a measurement with tags, fields, and a time.
//!
//! ```text
//! diskio,host=db1,name=sda reads=1000i,writes=500i,io_time=1200i 1795255200000000000
//! ```

use std::sync::OnceLock;

use super::metric_mapping::MetricMappings;
use super::sample_table::{SampleTable, TOO_MANY};
use crate::sysstat::stream_window::StreamWindow;
use crate::{FrameBatch, InputHead, LogError, LogFormat, LogInput, LogOptions};

/// The format.
pub(crate) static FORMAT: LogFormat = LogFormat {
    id: "influx-lines",
    title: "line protocol of Telegraf",
    explain: "Measurements cpu, mem, swap, disk, diskio, system, net, processes, kernel, kernel_vmstat and pressure of \
              one machine; other fields become foreign.MEASUREMENT_FIELD. Record with `[[outputs.file]]`, files = \
              [\"FILE\"], data_format = \"influx\".",
    recognize: |head: &InputHead<'_>| head.text_lines().any(|line| is_known_line(without_log_prefix(&line))),
    read,
};

/// Tags that name the machine.
const HOST_TAGS: [&str; 2] = ["host", "hostname"];

fn mappings() -> &'static MetricMappings {
    static MAPPINGS: OnceLock<MetricMappings> = OnceLock::new();
    MetricMappings::from_table(&MAPPINGS, "samples/line_protocol.toml", include_str!("line_protocol.toml"))
}

/// Takes off what a log puts before a line: `Mar 12 10:27:00 db1 telegraf[17217]: > cpu,…`.
fn without_log_prefix(line: &str) -> &str {
    match line.split_once("telegraf[").and_then(|(_, rest)| rest.split_once("]: ")) {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => line,
    }
}

fn is_known_line(line: &str) -> bool {
    parse_line(line).is_some_and(|line| {
        line.fields.iter().any(|(field, _)| mappings().has_metric(&format!("{}.{field}", line.measurement)))
    })
}

fn read(input: &mut LogInput, options: &LogOptions, batch: &mut FrameBatch<'_>) -> Result<(), LogError> {
    let mut table = SampleTable::default();
    let mut line_number = 0;
    let mut stream = StreamWindow::new(input);
    while let Some(text) = stream.next_text_line(batch, &mut line_number)? {
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let text = without_log_prefix(&text);
        if let Err(because) = add_line(&mut table, text) {
            batch.add_skip(format!("line {line_number}"), because);
        }
    }
    table.read_pages(input, options, batch)
}

fn add_line(table: &mut SampleTable, text: &str) -> Result<(), &'static str> {
    let line = parse_line(text).ok_or("not a line of a measurement")?;
    let time_ns = line.time_ns.ok_or("a line without a time")?;
    let (hosts, tags): (Vec<_>, Vec<_>) =
        line.tags.into_iter().partition(|(name, _)| HOST_TAGS.contains(&name.as_str()));
    let host = hosts.first().map_or("", |(_, host)| host.as_str());
    for (field, value) in line.fields {
        let metric = format!("{}.{field}", line.measurement);
        let name = format!("{host} {metric} {tags:?}");
        let series = table.find_series(host, name, || mappings().find_targets(&metric, &tags));
        let has_room = series.is_some_and(|series| table.add_sample(series, time_ns, value));
        if !has_room {
            return Err(TOO_MANY);
        }
    }
    Ok(())
}

/// A line, without fields that are no numbers.
#[derive(Debug, PartialEq)]
struct ProtocolLine {
    measurement: String,
    tags: Vec<(String, String)>,
    fields: Vec<(String, f64)>,
    time_ns: Option<i64>,
}

/// Parses a line; `telegraf --test` prints `> ` before each.
fn parse_line(line: &str) -> Option<ProtocolLine> {
    let line = line.trim().trim_start_matches("> ");
    let parts = split_outside(line, ' ');
    let (series, fields, time) = match parts[..] {
        [series, fields] => (series, fields, None),
        [series, fields, time] => (series, fields, Some(time)),
        _ => return None,
    };
    let mut words = split_outside(series, ',').into_iter();
    let measurement = unescape(words.next().filter(|word| !word.is_empty())?);
    let tags = words.map(split_pair).collect::<Option<Vec<_>>>()?;
    let pairs = split_outside(fields, ',').into_iter().map(split_pair).collect::<Option<Vec<_>>>()?;
    let fields = pairs.into_iter().filter_map(|(name, text)| Some((name, parse_field(&text)?))).collect();
    let time_ns = match time {
        Some(time) => Some(parse_time(time)?),
        None => None,
    };
    Some(ProtocolLine { measurement, tags, fields, time_ns })
}

/// Splits at a separator that stands neither behind a backslash nor in quotes.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (index, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == '"' {
            is_quoted = !is_quoted;
        } else if c == separator && !is_quoted {
            parts.push(&text[start..index]);
            start = index + c.len_utf8();
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_pair(text: &str) -> Option<(String, String)> {
    match split_outside(text, '=')[..] {
        [name, value] if !name.is_empty() && !value.is_empty() => Some((unescape(name), unescape(value))),
        _ => None,
    }
}

fn unescape(text: &str) -> String {
    ["\\ ", "\\,", "\\="].iter().fold(text.to_owned(), |text, code| text.replace(code, &code[1..]))
}

/// Parses `12i`, `12u`, `12.5`; `None` for texts and truth values.
fn parse_field(text: &str) -> Option<f64> {
    let digits = text.strip_suffix(['i', 'u']).unwrap_or(text);
    digits.parse().ok().filter(|value: &f64| value.is_finite() && digits.starts_with(|c: char| c != 'i' && c != 'n'))
}

/// Parses a time in nanoseconds, or in the coarser units that an output may be set to.
fn parse_time(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let factor = match number.abs() {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1000,
        _ => 1,
    };
    number.checked_mul(factor)
}
