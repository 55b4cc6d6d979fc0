//! Caches of the device or controller: whether they keep data that were read, read ahead, and hold
//! writes, and how much.

use std::time::Duration;

use diskwright_base::byte_size::ByteSize;

use super::{DEFAULT_RUN_TIME, Suite, SuiteSession, Writes, format_quantity};
use crate::bench::{RequestSeries, RequestTimes, SeriesStep};
use crate::error::ProbeError;
use diskwright_base::Rng;

/// The suite `cache`.
pub const CACHE: Suite = Suite {
    id: "cache",
    title: "read cache, read-ahead and write cache of the device, and their sizes",
    explain: "Single requests, classified as hits or misses by their latency. The same block again, compared with any \
              block: is there a cache? Three consecutive blocks, a pause, then a block further on: how far did it \
              read ahead? N places read twice: how many does it keep? A stretch read sequentially, then blocks of it: \
              how much of one stream does it keep? If writing is allowed, 64 KiB writes anywhere until they become \
              slow: the bytes accepted until then, minus those that reached the medium meanwhile, are the size of the \
              write cache. (Segments, read-ahead and write buffers are found by such hits and misses in Worthington \
              and others, SIGMETRICS 1995.)",
    good: "Read-ahead of some 100 KiB and more. A write cache that takes bursts of the size that your application \
           makes, and that is safe from power loss: the suite `commit` shows what it does with a sync.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_cache,
};

/// Size of a requested block, bytes.
const BLOCK_BYTES: u32 = 4 << 10;
/// Text for too little data.
const TOO_FEW_TEXT: &str = "too few requests to judge by; measure longer with --for";
/// Smallest factor by which a cache is faster than the medium.
const MIN_HIT_SPEEDUP: f64 = 2.0;

fn run_cache(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let duration = session.settings.duration;
    let mut rng = Rng::new(session.settings.seed, 77);
    let repeated = vec![read_step(0); 64];
    let hit_s = median_s(session.run_series("same-again", repeated, duration)?.get(1..));
    let random = (0..500).map(|_| read_step(random_block(session, &mut rng))).collect();
    let miss_s = median_s(session.run_series("anywhere", random, duration)?.get(..));
    let (Some(hit_s), Some(miss_s)) = (hit_s, miss_s) else {
        session.report_text("read_cache_bytes", TOO_FEW_TEXT);
        return Ok(());
    };
    if miss_s < MIN_HIT_SPEEDUP * hit_s {
        let (same, any) = (format_quantity(hit_s, "s"), format_quantity(miss_s, "s"));
        let text = format!("no read cache seen: the same block again takes {same}, any block {any}");
        session.report_text("read_cache_bytes", text);
    } else {
        let miss = format_quantity(miss_s, "s");
        let text = format!("a block in the device's cache; one that is not there takes {miss}");
        session.report_value("hit_s", hit_s, "s", text);
        // hits and misses are told apart by the geometric mean of both latencies
        let limit_s = (hit_s * miss_s).sqrt();
        measure_read_ahead(session, &mut rng, limit_s)?;
        measure_cached_places(session, &mut rng, limit_s, miss_s)?;
        measure_cached_stream(session, &mut rng, limit_s)?;
    }
    if session.settings.writes { measure_write_cache(session, &mut rng, miss_s) } else { Ok(()) }
}

fn read_step(offset: u64) -> SeriesStep {
    SeriesStep { write: false, offset, length: BLOCK_BYTES, pause_ns: 0 }
}

/// Returns the offset of a random block.
fn random_block(session: &SuiteSession<'_>, rng: &mut Rng) -> u64 {
    rng.next_below((session.settings.target_bytes / u64::from(BLOCK_BYTES)).max(1)) * u64::from(BLOCK_BYTES)
}

fn median_s(times: Option<&[RequestTimes]>) -> Option<f64> {
    let mut seconds: Vec<f64> = times?.iter().map(RequestTimes::duration_s).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// Returns the share of requests that were faster than the limit between hits and misses.
fn share_of_hits(times: &[RequestTimes], limit_s: f64) -> f64 {
    times.iter().filter(|t| t.duration_s() < limit_s).count() as f64 / times.len().max(1) as f64
}

/// Attempts for each distance of read-ahead.
const TRIES_PER_REACH: usize = 4;
/// Consecutive blocks that start a stream.
const STREAM_BLOCKS: u64 = 3;
/// Pause in which the device can read ahead, nanoseconds: a dozen rotations.
const READ_AHEAD_PAUSE_NS: u64 = 100_000_000;

/// Measures how far the device reads ahead of a stream, by doubling distances.
fn measure_read_ahead(session: &mut SuiteSession<'_>, rng: &mut Rng, limit_s: f64) -> Result<(), ProbeError> {
    let block = u64::from(BLOCK_BYTES);
    let reaches: Vec<u64> = (0..14).map(|i| block << i).filter(|r| r * 4 < session.settings.target_bytes).collect();
    let mut steps = Vec::new();
    for reach in &reaches {
        for _ in 0..TRIES_PER_REACH {
            let stream_bytes = STREAM_BLOCKS * block + reach;
            let offset = rng.next_below((session.settings.target_bytes - stream_bytes) / block) * block;
            steps.extend((0..STREAM_BLOCKS).map(|i| read_step(offset + i * block)));
            steps.push(SeriesStep { pause_ns: READ_AHEAD_PAUSE_NS, ..read_step(offset + stream_bytes - block) });
        }
    }
    let times = session.run_series("read-ahead", steps, session.settings.duration * 4)?;
    // the last request of each try is the one after the pause
    let probes: Vec<RequestTimes> =
        times.chunks_exact(STREAM_BLOCKS as usize + 1).map(|c| c[STREAM_BLOCKS as usize]).collect();
    let hit_shares: Vec<f64> =
        probes.chunks_exact(TRIES_PER_REACH).map(|tries| share_of_hits(tries, limit_s)).collect();
    let reached = hit_shares.iter().take_while(|share| **share >= 0.5).count();
    // all distances for which space and time sufficed were in the cache
    let has_no_end = reached == hit_shares.len();
    match reached.checked_sub(1).map(|index| reaches[index]) {
        Some(reach) if reach > block => {
            let end = if has_no_end { "nothing further was tried" } else { "twice that is not" };
            let text = format!(
                "read-ahead of a stream: {} ahead is in the cache after 0.1 s, {end}",
                ByteSize::memory(reach as f64)
            );
            session.report_value("read_ahead_bytes", reach as f64, "bytes", text);
        }
        _ if has_no_end => session.report_text("read_ahead_bytes", TOO_FEW_TEXT),
        _ => session.report_text(
            "read_ahead_bytes",
            "no read-ahead seen: the data after a stream is not in the device's cache",
        ),
    }
    Ok(())
}

/// Largest number of doublings of the places that are read twice.
const MAX_PLACE_DOUBLINGS: u32 = 12;

/// Measures how many scattered blocks the cache keeps: reads doubling numbers of them twice.
fn measure_cached_places(
    session: &mut SuiteSession<'_>,
    rng: &mut Rng,
    limit_s: f64,
    miss_s: f64,
) -> Result<(), ProbeError> {
    let max_duration = session.settings.duration * 2;
    let mut kept = 0usize;
    for count in (0..MAX_PLACE_DOUBLINGS).map(|i| 1usize << i) {
        if 2.0 * count as f64 * miss_s > max_duration.as_secs_f64() {
            break;
        }
        let offsets: Vec<u64> = (0..count).map(|_| random_block(session, rng)).collect();
        let steps = offsets.iter().chain(&offsets).map(|offset| read_step(*offset)).collect();
        let times = session.run_series(&format!("places-{count}"), steps, max_duration)?;
        if share_of_hits(times.get(count..).unwrap_or_default(), limit_s) < 0.9 {
            break;
        }
        kept = count;
    }
    if kept > 0 {
        session.report_value(
            "read_cache_places",
            kept as f64,
            "count",
            "number of scattered places that the cache keeps at once, at least",
        );
    }
    Ok(())
}

/// Measures how much of a stream the cache keeps: reads doubling lengths sequentially, then random blocks of each.
fn measure_cached_stream(session: &mut SuiteSession<'_>, rng: &mut Rng, limit_s: f64) -> Result<(), ProbeError> {
    const CHUNK: u32 = 64 << 10;
    let max_duration = session.settings.duration * 3;
    let (mut kept_bytes, mut has_end) = (0u64, false);
    let half = session.settings.target_bytes / 2;
    for bytes in (16..33).map(|power| 1u64 << power).filter(|b| *b <= half) {
        let offset = rng.next_below((session.settings.target_bytes - bytes) / u64::from(CHUNK) + 1) * u64::from(CHUNK);
        let chunks = bytes / u64::from(CHUNK);
        let mut steps: Vec<SeriesStep> =
            (0..chunks).map(|i| SeriesStep { length: CHUNK, ..read_step(offset + i * u64::from(CHUNK)) }).collect();
        steps.extend(
            (0..32)
                .map(|_| read_step(offset + rng.next_below(bytes / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES))),
        );
        let times = session.run_series(&format!("stretch-{bytes}"), steps, max_duration)?;
        let Some(probes) = times.get(chunks as usize..).filter(|l| l.len() >= 16) else { break };
        if share_of_hits(probes, limit_s) < 0.75 {
            has_end = true;
            break;
        }
        kept_bytes = bytes;
    }
    let end = if has_end { "twice that is not" } else { "its size was not reached in this time" };
    if kept_bytes > 0 {
        let size = ByteSize::memory(kept_bytes as f64);
        let text = format!("one stream of {size} is kept and read again from the cache; {end}");
        session.report_value("read_cache_bytes", kept_bytes as f64, "bytes", text);
    } else if has_end {
        session.report_text("read_cache_bytes", "less than 75 % of a 64 KiB stream is kept");
    } else {
        session.report_text("read_cache_bytes", TOO_FEW_TEXT);
    }
    Ok(())
}

/// Writes per window whose median or mean is compared.
const WINDOW_WRITES: usize = 32;

/// Measures the write cache: writes at random until writes become slow.
fn measure_write_cache(session: &mut SuiteSession<'_>, rng: &mut Rng, miss_s: f64) -> Result<(), ProbeError> {
    const CHUNK: u64 = 64 << 10;
    let chunk_count = session.settings.target_bytes / CHUNK;
    if chunk_count == 0 {
        return Ok(());
    }
    let steps: Vec<SeriesStep> = (0..1 << 16)
        .map(|i| SeriesStep {
            write: true,
            offset: rng.next_below(chunk_count) * CHUNK,
            length: CHUNK as u32,
            // a pause first, so that the cache is empty
            pause_ns: if i == 0 { 500_000_000 } else { 0 },
        })
        .collect();
    let buffered = session.settings.buffered;
    let max_duration = session.settings.duration * 2 + Duration::from_millis(500);
    let times = session.run_request_series(RequestSeries {
        name: "burst".into(),
        steps,
        buffered,
        durable: false,
        max_duration,
    })?;
    let Some(first_s) = median_s(times.get(..WINDOW_WRITES)) else {
        session.report_text("write_cache_bytes", "too few writes to judge by; measure longer with --for");
        return Ok(());
    };
    let text = "time of a random 64 KiB write at the beginning of a burst, divided by that of a random 4 KiB read: \
                well below 1 means that a cache takes writes";
    session.report_value("write_to_read", first_s / miss_s, "times", text);
    match find_slow_down(&times, first_s) {
        Some((index, rate)) => {
            let seconds = (times[index].start_ns - times[0].start_ns) as f64 * 1e-9;
            let bytes = index as f64 * CHUNK as f64;
            let cached_bytes = (bytes - rate * CHUNK as f64 * seconds).max(0.0);
            let text = format!(
                "{} were written before writes became slow, and {} of them had reached the medium by then",
                format_quantity(bytes, "bytes"),
                format_quantity(bytes - cached_bytes, "bytes")
            );
            session.report_value("write_cache_bytes", cached_bytes, "bytes", text);
        }
        None => {
            let written = format_quantity(times.len() as f64 * CHUNK as f64, "bytes");
            let text = format!(
                "{written} were written and none became slow: either there is no write cache, or it was not filled"
            );
            session.report_text("write_cache_bytes", text);
        }
    }
    Ok(())
}

/// Finds the write from which on writes are more than three times as slow as at first, by the means of
/// windows. Returns its index and the rate from there on, writes per second.
fn find_slow_down(times: &[RequestTimes], first_s: f64) -> Option<(usize, f64)> {
    let mean_s = |from: usize| {
        times[from..from + WINDOW_WRITES].iter().map(RequestTimes::duration_s).sum::<f64>() / WINDOW_WRITES as f64
    };
    let last_start = times.len().checked_sub(2 * WINDOW_WRITES)?;
    let window_starts: Vec<usize> = (WINDOW_WRITES..=last_start).step_by(WINDOW_WRITES / 2).collect();
    let slow = window_starts.iter().rposition(|start| mean_s(*start) <= 3.0 * first_s).map_or(0, |last| last + 1);
    let window = *window_starts.get(slow)?;
    // the first slow write in this window or the half window before it
    let from = window - WINDOW_WRITES / 2;
    let index = (from..window + WINDOW_WRITES).find(|i| times[*i].duration_s() > 3.0 * first_s).unwrap_or(window);
    let count = times.len() - index;
    let seconds = (times[times.len() - 1].end_ns - times[index].start_ns) as f64 * 1e-9;
    (seconds > 0.0).then(|| (index, count as f64 / seconds))
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::super::tests::{MIB, run_on_fakes, settings};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn does_not_report_an_untried_reach_as_missing() {
        // data within 64 MiB of the previous request is in the cache
        let device = |_: usize| {
            let mut before = 0u64;
            let service = move |op: &crate::engine::Op, _| {
                let is_near = op.offset.abs_diff(before) <= 64 * MIB;
                before = op.offset;
                Ok(if is_near { 10_000 } else { 5_000_000 })
            };
            FakeDevice::new(1, Box::new(service))
        };
        let remarks_of = |lasts: Duration| {
            let set = Settings { duration: lasts, writes: false, ..settings(8192 * MIB) };
            let (_, remarks) = run_on_fakes(&CACHE, set, device);
            remarks.into_iter().find(|r| r.id == "read_ahead_bytes").map(|r| (r.value, r.text)).unwrap()
        };
        // all of 4 KiB to 32 MiB
        let (value, text) = remarks_of(Duration::from_secs(2));
        assert!(value == Some(32.0 * MIB as f64) && text.ends_with("nothing further was tried"), "{value:?} {text}");
        // there is time for one distance only, which could be the end of the stream itself
        let (value, text) = remarks_of(Duration::from_millis(150));
        assert!(value.is_none() && text == TOO_FEW_TEXT, "{value:?} {text}");
    }
}
