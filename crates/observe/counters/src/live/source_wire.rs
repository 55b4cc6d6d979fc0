//! Messages between the sampler and the process that reads its sources. Both are the same program, so there is one
//! version of the format: numbers in little-endian order, and JSON for what is rare.

use std::io::{self, Read, Write};
use std::time::Duration;

use diskwright_base::{Note, Series};
use serde_json::{Value, json};

use super::tick_context::TickTimes;
use super::{Roots, SamplerOptions};

/// Longest message, bytes: a million cells of eight bytes, and their names.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Answer to the request for a tick.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TickReply {
    pub cells: Vec<f64>,
    /// Series of the cells; they travel only when they have changed.
    pub series: Vec<Series>,
    pub has_new_series: bool,
    pub notes: Vec<Note>,
}

fn broken(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn write_part(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    output.write_all(&(bytes.len() as u64).to_le_bytes())?;
    output.write_all(bytes)
}

fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_part(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_u64(input)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_MESSAGE_BYTES);
    let mut bytes = vec![0; length.ok_or_else(|| broken("a part is too long"))?];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes where and what to sample.
pub(crate) fn write_options(output: &mut impl Write, roots: &Roots, options: &SamplerOptions) -> io::Result<()> {
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let document = json!({
        "proc": path(&roots.proc), "sys": path(&roots.sys), "root": path(&roots.root),
        "slow_interval_ns": u64::try_from(options.slow_interval.as_nanos()).unwrap_or(u64::MAX),
        "processes": options.processes, "filesystems": options.filesystems, "cgroups": options.cgroups,
        "max_cgroups": options.max_cgroups, "raises_priority": options.raises_priority,
        "sampling_process": std::process::id(),
    });
    write_part(output, document.to_string().as_bytes())
}

/// Reads what [`write_options`] wrote.
pub(crate) fn read_options(input: &mut impl Read) -> io::Result<(Roots, SamplerOptions)> {
    let document: Value = serde_json::from_slice(&read_part(input)?)?;
    let text = |name: &str| document[name].as_str().map(Into::into).ok_or_else(|| broken("a path is missing"));
    let flag = |name: &str| document[name].as_bool().unwrap_or_default();
    let number = |name: &str| document[name].as_u64().ok_or_else(|| broken("a number is missing"));
    let roots = Roots { proc: text("proc")?, sys: text("sys")?, root: text("root")? };
    let options = SamplerOptions {
        slow_interval: Duration::from_nanos(number("slow_interval_ns")?),
        processes: flag("processes"),
        filesystems: flag("filesystems"),
        cgroups: flag("cgroups"),
        max_cgroups: number("max_cgroups")? as usize,
        raises_priority: flag("raises_priority"),
        sampling_process: Some(number("sampling_process")? as u32),
    };
    Ok((roots, options))
}

/// Requests a tick.
pub(crate) fn write_request(output: &mut impl Write, times: TickTimes) -> io::Result<()> {
    let mut message = [0; 40];
    let fields =
        [times.time_ns as u64, times.running_ns, times.since_boot_ns, times.elapsed_ns, u64::from(times.is_slow_tick)];
    for (place, field) in message.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    output.write_all(&message)
}

/// Reads a request; `None` at the end of the input.
pub(crate) fn read_request(input: &mut impl Read) -> io::Result<Option<TickTimes>> {
    let time = match read_u64(input) {
        Ok(time) => time,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(TickTimes {
        time_ns: time as i64,
        running_ns: read_u64(input)?,
        since_boot_ns: read_u64(input)?,
        elapsed_ns: read_u64(input)?,
        is_slow_tick: read_u64(input)? != 0,
    }))
}

/// Answers a request: the lengths of three parts, then the cells, the series and the notes.
pub(crate) fn write_reply(output: &mut impl Write, reply: &TickReply) -> io::Result<()> {
    let series = if reply.has_new_series { series_to_json(&reply.series).to_string() } else { String::new() };
    let notes = if reply.notes.is_empty() { String::new() } else { notes_to_json(&reply.notes).to_string() };
    let lengths = [reply.cells.len() * 8, series.len(), notes.len()];
    let mut message = Vec::with_capacity(24 + lengths.iter().sum::<usize>());
    lengths.iter().for_each(|length| message.extend_from_slice(&(*length as u64).to_le_bytes()));
    reply.cells.iter().for_each(|cell| message.extend_from_slice(&cell.to_le_bytes()));
    message.extend_from_slice(series.as_bytes());
    message.extend_from_slice(notes.as_bytes());
    output.write_all(&message)?;
    output.flush()
}

/// Reads what [`write_reply`] wrote. `has_new_series` stays true until somebody takes it.
pub(crate) fn read_reply(input: &mut impl Read, reply: &mut TickReply) -> io::Result<()> {
    let mut lengths = [0; 24];
    input.read_exact(&mut lengths)?;
    let length = |index: usize| u64::from_le_bytes(lengths[index * 8..][..8].try_into().unwrap_or_default());
    let [cells, series, notes] = [0, 1, 2].map(|index| usize::try_from(length(index)).unwrap_or(usize::MAX));
    let total = cells.checked_add(series).and_then(|sum| sum.checked_add(notes));
    let total = total.filter(|total| *total <= MAX_MESSAGE_BYTES).ok_or_else(|| broken("an answer is too long"))?;
    let mut message = vec![0; total];
    input.read_exact(&mut message)?;
    let (cells, rest) = message.split_at(cells);
    let (series, notes) = rest.split_at(series);
    reply.cells.clear();
    let cell = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
    reply.cells.extend(cells.chunks_exact(8).map(cell));
    if !series.is_empty() {
        reply.series = series_from_json(&serde_json::from_slice(series)?).ok_or_else(|| broken("series"))?;
        reply.has_new_series = true;
    }
    if reply.series.len() != reply.cells.len() {
        return Err(broken("another number of cells than of series"));
    }
    if !notes.is_empty() {
        reply.notes = notes_from_json(&serde_json::from_slice(notes)?).ok_or_else(|| broken("notes"))?;
    }
    Ok(())
}

fn series_to_json(series: &[Series]) -> Value {
    series.iter().map(|series| json!([series.counter, series.instance, series.scale])).collect()
}

fn series_from_json(list: &Value) -> Option<Vec<Series>> {
    let series = |value: &Value| {
        let text = |index: usize| value[index].as_str().map(str::to_owned);
        Some(Series { counter: text(0)?, instance: text(1)?, scale: value[2].as_f64()? })
    };
    list.as_array()?.iter().map(series).collect()
}

fn notes_to_json(notes: &[Note]) -> Value {
    notes.iter().map(|note| json!([note.time_ns, note.kind, note.text()])).collect()
}

fn notes_from_json(list: &Value) -> Option<Vec<Note>> {
    let note = |value: &Value| {
        let (kind, text) = (value[1].as_str()?, value[2].as_str()?);
        Some(Note::new(value[0].as_i64()?, kind, text).with_typed_content())
    };
    list.as_array()?.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_travels_unchanged() {
        let times =
            TickTimes { time_ns: -5, running_ns: 6, since_boot_ns: u64::MAX, elapsed_ns: 8, is_slow_tick: true };
        let mut bytes = Vec::new();
        write_request(&mut bytes, times).unwrap();
        assert_eq!(read_request(&mut bytes.as_slice()).unwrap(), Some(times));
        assert_eq!(read_request(&mut [].as_slice()).unwrap(), None);
        let series = Series { counter: "a.b".into(), instance: "sd\"a\u{fffd}".into(), scale: 0.001 };
        let sent = TickReply {
            cells: vec![1.5],
            series: vec![series],
            has_new_series: true,
            notes: vec![Note::new(7, Note::GAP, "text\n")],
        };
        let (mut bytes, mut got) = (Vec::new(), TickReply::default());
        write_reply(&mut bytes, &sent).unwrap();
        read_reply(&mut bytes.as_slice(), &mut got).unwrap();
        assert_eq!(got, sent);
        // the next tick has the same series, which do not travel
        let next = TickReply { cells: vec![f64::NAN], has_new_series: false, notes: Vec::new(), ..sent };
        bytes.clear();
        write_reply(&mut bytes, &next).unwrap();
        assert!(bytes.len() < 40, "{} bytes", bytes.len());
        (got.has_new_series, got.notes) = (false, Vec::new());
        read_reply(&mut bytes.as_slice(), &mut got).unwrap();
        assert!(got.cells[0].is_nan() && got.series.len() == 1 && !got.has_new_series);
    }

    #[test]
    fn options_travel_unchanged() {
        let options = SamplerOptions {
            max_cgroups: 7,
            raises_priority: true,
            sampling_process: Some(std::process::id()),
            ..SamplerOptions::default()
        };
        let mut bytes = Vec::new();
        write_options(&mut bytes, &Roots::default(), &options).unwrap();
        assert_eq!(read_options(&mut bytes.as_slice()).unwrap(), (Roots::default(), options));
    }

    #[test]
    fn broken_answers_are_errors() {
        let mut got = TickReply::default();
        for bytes in [&[][..], &[1, 2, 3], &[0xff; 40], &[8, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]] {
            assert!(read_reply(&mut &bytes[..], &mut got).is_err());
        }
    }
}
