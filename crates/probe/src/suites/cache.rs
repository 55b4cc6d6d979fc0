//! Caches of the device or controller: whether they hold reads and writes, and
//! how much.

use super::{Session, Suite, Writes};
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};

/// Ranges that are read again and again, bytes.
const RANGES: &[u64] = &[1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 4 << 30];
/// A step down by this factor between two ranges is a cache's end.
const STEP: f64 = 1.5;

/// Caches.
pub const CACHE: Suite = Suite {
    id: "cache",
    title: "read cache, read-ahead and write cache, and their sizes",
    explain: "Random 4 KiB reads within a range that grows: while it fits a cache of the device, they are quick. One \
              stream against many: read-ahead serves one. Writes that are quicker than reads at random were taken by a \
              write cache; a longer burst shows where it is full.",
    good: "A write cache that takes bursts of the size your application makes; but one that is safe from power loss.",
    writes: Writes::IfAllowed,
    run: cache,
};

fn cache(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let room = session.room;
    let mut last: Option<(u64, f64)> = None;
    let mut end: Option<u64> = None;
    for &range in RANGES.iter().filter(|r| **r <= room) {
        let base = session.pattern(format!("within-{range}"), Placement::Uniform, 4 << 10, 1);
        let rate = session.run(&Pattern { range_bytes: Some(range), ..base })?.requests_per_s;
        if let (Some((before, faster)), None) = (last, end)
            && faster > STEP * rate
        {
            end = Some(before);
        }
        last = Some((range, rate));
    }
    match end {
        Some(range) => session.found(
            "read_cache_bytes",
            range as f64,
            "bytes",
            "reads within this range come from a cache of the device",
        ),
        None => session.say("read_cache_bytes", "no read cache seen: the range makes no difference"),
    }
    let mut rates = Vec::new();
    for streams in [1, 16] {
        let base = session.pattern(format!("streams-{streams}"), Placement::Sequential { streams }, 4 << 10, 1);
        rates.push(session.run(&base)?.requests_per_s);
    }
    let text = "one stream of small sequential reads against sixteen in turn: how much read-ahead of the device serves";
    session.found("one_to_many_streams", rates[0] / rates[1], "fraction", text);
    if session.writes { write_cache(session) } else { Ok(()) }
}

fn write_cache(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let read = session.pattern("random-read", Placement::Uniform, 4 << 10, 1);
    let write = Pattern { name: "random-write".into(), read_share: 0.0, ..read.clone() };
    let reads = session.run(&read)?.requests_per_s;
    let run = session.run(&write)?.clone();
    let text = "random writes for each random read at depth 1; well above 1, a cache takes them";
    session.found("write_to_read", run.requests_per_s / reads, "fraction", text);
    // a burst ends where the rate falls to half of its beginning and stays there
    let slices = &run.slices;
    let lead = slices.len().min(3);
    let first = slices[..lead].iter().sum::<u64>() as f64 / lead.max(1) as f64;
    let full = (lead..slices.len()).find(|&at| slices[at..].iter().all(|s| (*s as f64) < first / 2.0));
    match full {
        Some(at) => {
            let bytes = slices[..at].iter().sum::<u64>() as f64 * run.size_bytes;
            session.found("write_cache_bytes", bytes, "bytes", "written before the rate fell to half and stayed there");
        }
        None => session
            .say("write_cache_bytes", "the rate of writes did not fall: no end of a write cache seen in this time"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, on_fake, value};
    use super::*;
    use crate::engine::Action;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn a_read_cache_and_a_write_cache_are_measured() {
        // reads below 16 MiB are quick; the first 20,000 writes are, 80 MB
        let device = || {
            let mut written = 0u64;
            FakeDevice::new(
                1,
                Box::new(move |op, _| {
                    if op.action == Action::Write {
                        written += u64::from(op.length);
                        return Ok(if written < 40_000_000 { 50_000 } else { 1_000_000 });
                    }
                    Ok(if op.offset < 16 * MIB { 100_000 } else { 1_000_000 })
                }),
            )
        };
        let (_, remarks) = on_fake(&CACHE, 256 * MIB, device);
        assert_eq!(value(&remarks, "read_cache_bytes"), 16.0 * MIB as f64);
        assert!((value(&remarks, "write_cache_bytes") / 40e6 - 1.0).abs() < 0.1, "{remarks:?}");
    }
}
