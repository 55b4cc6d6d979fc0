//! Mechanics: how long the arm needs, how fast the platter turns, how the
//! zones differ. On flash, and on anything behind a cache that answers before
//! the medium does, it says that it saw none.

use super::{Session, Suite, Writes};
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};

/// Shares of the range between two requests.
const DISTANCES: &[f64] = &[0.0001, 0.001, 0.01, 0.033, 0.1, 0.2, 0.33, 0.5, 0.75, 0.99];
/// A full stroke must take this much longer than the shortest way to be an arm's.
const ARM_S: f64 = 0.001;
/// Zones that are looked at.
const ZONES: usize = 8;

/// Seek time by distance, and zones.
pub const SEEK_CURVE: Suite = Suite {
    id: "seek-curve",
    title: "seek time by distance, and the rate of each zone",
    explain: "Reads of a sector that lie a fixed distance apart, forth and back, from next door to the whole range; \
              the mean time over distance is the seek curve with half a rotation on top. Then 64 KiB reads in sequence \
              at eight places: outer tracks hold more, so a turning disk is fastest at its beginning.",
    good: "On a turning disk a curve like a square root, then a line, up to 10 to 20 ms, and outer zones up to twice \
           as fast as inner ones. On flash it is flat.",
    writes: Writes::Never,
    run: seek_curve,
};

fn seek_curve(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let sector = u32::try_from(session.sector).unwrap_or(512).max(512);
    for &share in DISTANCES {
        // a stride of just over the distance, taken round the range: each
        // request lies that far from the one before, or the rest of it back
        let stride = ((session.room as f64 * share) as u64 / u64::from(sector)).max(1) * u64::from(sector);
        let name = format!("distance-{share}");
        let place = Placement::Strided { stride_bytes: stride };
        let pattern = session.pattern(name, place, sector, 1);
        session.run(&pattern)?;
    }
    let mean = |at: usize| session.runs[at].latency_s.mean;
    let least = session.runs.iter().filter_map(|r| r.latency_s.mean).fold(f64::MAX, f64::min);
    let most = session.runs.iter().filter_map(|r| r.latency_s.mean).fold(0.0, f64::max);
    let grows = mean(0).zip(mean(6)).is_some_and(|(near, third)| third > near);
    if grows && most - least > ARM_S {
        session.found("seek_span_s", most - least, "s", "the longest way against the shortest");
    } else {
        session.say("seek_span_s", "no mechanical behaviour seen: the way makes no difference");
    }
    zones(session)
}

fn zones(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let part = session.room / ZONES as u64 / (64 << 10) * (64 << 10);
    if part < 64 << 10 {
        return Ok(());
    }
    let from = session.runs.len();
    for zone in 0..ZONES as u64 {
        let base = session.pattern(format!("zone-{zone}"), super::SEQUENTIAL, 64 << 10, 4);
        session.run(&Pattern { from_bytes: zone * part, range_bytes: Some(part), ..base })?;
    }
    let rates: Vec<f64> = session.runs[from..].iter().map(|r| r.bytes_per_s).collect();
    let (first, last) = (rates[0], rates[ZONES - 1]);
    session.found("outer_to_inner", first / last, "fraction", "throughput at the beginning against that at the end");
    Ok(())
}

/// Rotation.
pub const ROTATION: Suite = Suite {
    id: "rotation",
    title: "the rotation period, from the same sector read again and again",
    explain: "A sector that has just passed the head comes back after one rotation, so reading it again past every \
              cache takes just that. A drive that answers from its own memory shows no rotation; writing where it \
              is allowed (with O_DSYNC) goes to the medium unless a write cache takes it.",
    good: "8.33 ms at 7,200 rpm, 6 ms at 10,000, 4 ms at 15,000, with hardly any spread. Anything else \
           is not a rotation.",
    writes: Writes::IfAllowed,
    run: rotation,
};

/// Periods of drives that were ever sold, by turns a minute.
const SPEEDS: &[f64] = &[3600.0, 4200.0, 4500.0, 5400.0, 5900.0, 7200.0, 10_000.0, 10_025.0, 15_000.0];

fn rotation(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let sector = u32::try_from(session.sector).unwrap_or(512).max(512);
    let mut ways = vec![("read-again", 1.0)];
    if session.writes {
        ways.push(("write-again", 0.0));
    }
    for (name, read_share) in ways {
        let base = session.pattern(name, super::SEQUENTIAL, sector, 1);
        let durable = if read_share == 0.0 { crate::pattern::Durable::Dsync } else { base.durable };
        let pattern = Pattern { read_share, durable, range_bytes: Some(u64::from(sector)), ..base };
        session.run(&pattern)?;
    }
    let seen = session.runs.iter().find_map(|run| {
        let latency = run.latency_s;
        let (mean, p50) = (latency.mean?, latency.p50?);
        let speed = SPEEDS.iter().find(|rpm| (60.0 / **rpm / p50 - 1.0).abs() < 0.03)?;
        ((mean / p50 - 1.0).abs() < 0.1).then_some((p50, *speed))
    });
    match seen {
        Some((period, speed)) => {
            session.found("rotation_s", period, "s", format!("a rotation, as of a drive of {speed} turns a minute"));
        }
        None => {
            session.say("rotation_s", "no mechanical behaviour seen: the same sector again takes no rotation's time")
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, on_fake, value};
    use super::*;
    use crate::engine::fake::FakeDevice;

    /// A disk of 7,200 turns a minute with an arm: seek by a square root, then
    /// wait for the sector to come round.
    fn turning() -> FakeDevice {
        let mut at = 0.0;
        FakeDevice::new(
            1,
            Box::new(move |op, begins| {
                let place = op.offset as f64 / (64.0 * MIB as f64);
                let way: f64 = place - at;
                at = place;
                let seek = if way == 0.0 { 0.0 } else { 1.0e6 + 9.0e6 * way.abs().sqrt() };
                let period = 60e9 / 7200.0;
                // 64 tracks; the sector's angle follows from its place on the track
                let angle = (place * 64.0).fract() * period;
                let arrives = begins as f64 + seek;
                let wait = (angle - arrives).rem_euclid(period);
                let moved = f64::from(op.length) / 8192.0 / 64.0 / 2.0 * period / 64.0;
                Ok((seek + wait + moved).max(1.0) as u64)
            }),
        )
    }

    #[test]
    fn a_turning_disk_shows_arm_and_rotation() {
        let (_, remarks) = on_fake(&SEEK_CURVE, 64 * MIB, turning);
        assert!(value(&remarks, "seek_span_s") > 0.002, "{remarks:?}");
        let (_, remarks) = on_fake(&ROTATION, 64 * MIB, turning);
        assert!((value(&remarks, "rotation_s") - 60.0 / 7200.0).abs() < 1e-4, "{remarks:?}");
    }

    #[test]
    fn flash_shows_none() {
        for suite in [&SEEK_CURVE, &ROTATION] {
            let (_, remarks) = on_fake(suite, 64 * MIB, || FakeDevice::steady(8, 80_000));
            assert!(remarks.iter().any(|r| r.text.contains("no mechanical behaviour seen")), "{remarks:?}");
        }
    }
}
