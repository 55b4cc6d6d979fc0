//! Buffer parameters of `disksim_disk`: segments, read-ahead, early writes.

use super::DiskspecsError;
use super::fields::DiskspecsFields;
use crate::drive::{DriveCacheSpec, DriveReadAhead};

/// Reads the buffer parameters of a drive that queues `slots` requests.
pub(super) fn read(fields: &mut DiskspecsFields<'_>, slots: u32) -> Result<DriveCacheSpec, DiskspecsError> {
    let segments = fields.need_whole("Number of buffer segments", 0, 4096)? as u32;
    let segment_blocks = fields.need_whole("Segment size (in blks)", 1, 1 << 30)? as u32;
    // 2 means the same as 1: DiskSim checks whether it is 0
    let keeps = fields.whole("Enable caching in buffer", 0, 2)?.unwrap_or(0) > 0;
    let level = fields.whole("Fast write level", 0, 2)?.unwrap_or(0);
    let over = fields.number("Read-ahead over requested", -1.0, 1.0)?.unwrap_or(0.0);
    let spec = DriveCacheSpec {
        segments,
        segment_blocks,
        keeps,
        separate_write: fields.flag("Use separate write segment")?,
        serves_written: fields.flag("Allow read hits on write data")?,
        least_ahead: fields.whole("Minimum read-ahead (blks)", 0, 1 << 30)?.unwrap_or(0) as u32,
        most_ahead: fields.whole("Maximum read-ahead (blks)", 0, 1 << 30)?.unwrap_or(0) as u32,
        ahead_over_read: over != 0.0,
        forgets_read: over < 0.0,
        ahead_on_hit: fields.flag("Read-ahead on idle hit")?,
        almost_hits: fields.flag("Allow almost read hits")?,
        keeps_passing: fields.flag("Read any free blocks")?,
        stops_in_sector: fields.flag("Stop prefetch in sector")?,
        write_hit_stops: fields.flag("Write hit stop prefetch")?,
        read_mark: fields.number("High (read) water mark", 0.0, 1.0)?.unwrap_or(0.0),
        write_mark: fields.number("Low (write) water mark", 0.0, 1.0)?.unwrap_or(0.0),
        mark_of_request: fields.flag("Set watermark by reqsize")?,
        sends_part: fields.whole("Immed transfer partial hit", 0, 1)?.unwrap_or(1) == 1,
        reads_into_buffer: fields.whole("Read directly to buffer", 0, 1)?.unwrap_or(1) == 1,
        reports_early: level > 0,
        appends_first: level > 1,
        appends: fields.whole("Combine seq writes", 0, 1)?.unwrap_or(1) == 1,
        room: segment_blocks,
        early_blocks: segment_blocks,
        write_segments: fields.whole("Maximum number of write segments", 0, 4096)?.unwrap_or(1).max(1) as u32,
        ahead: read_ahead(fields)?,
        ..DriveCacheSpec::none()
    };
    // ignored: DiskSim 4.0 computes the same times for every value, and the trace of the RZ26, whose file has 1, agrees
    for key in ["Immediate buffer read", "Immediate buffer write"] {
        fields.whole(key, 0, 2)?;
    }
    check(fields, &spec)?;
    beside(fields, slots, spec)
}

fn read_ahead(fields: &mut DiskspecsFields<'_>) -> Result<DriveReadAhead, DiskspecsError> {
    Ok(match fields.whole("Buffer continuous read", 0, 4)?.unwrap_or(0) {
        0 => DriveReadAhead::None,
        1 => DriveReadAhead::Track,
        2 => DriveReadAhead::Cylinder,
        3 => DriveReadAhead::Segment,
        _ => DriveReadAhead::NextTrack,
    })
}

/// Rejects impossible combinations.
fn check(fields: &mut DiskspecsFields<'_>, spec: &DriveCacheSpec) -> Result<(), DiskspecsError> {
    let keyed = [
        ("Buffer continuous read", spec.ahead != DriveReadAhead::None),
        ("Fast write level", spec.reports_early),
        ("Read any free blocks", spec.keeps_passing),
    ];
    for (key, on) in keyed {
        if on && !spec.keeps {
            return Err(fields.wrong(key, "needs `Enable caching in buffer = 1`"));
        }
    }
    if spec.separate_write && spec.segments < 2 {
        return Err(fields.wrong("Use separate write segment", "needs at least two segments"));
    }
    if spec.segments > 0 && spec.write_segments > spec.segments {
        return Err(fields.wrong("Maximum number of write segments", "is above the number of segments"));
    }
    Ok(())
}

/// Reads the parameters of activity concurrent to the request that occupies the disk. If the drive queues a single
/// request, only an early write can be concurrent to another one.
fn beside(
    fields: &mut DiskspecsFields<'_>,
    slots: u32,
    spec: DriveCacheSpec,
) -> Result<DriveCacheSpec, DiskspecsError> {
    let queue = "is not modeled where `Max queue length` is above 1";
    let hits_aside = fields.flag("Allow sneaky full read hits")?;
    let takes_writes = fields.flag("Allow write prebuffering")?;
    let part = fields.flag("Allow sneaky partial read hits")?;
    let queued = [
        ("Allow sneaky full read hits", hits_aside),
        ("Allow sneaky intermediate read hits", fields.flag("Allow sneaky intermediate read hits")?),
        ("Allow write prebuffering", takes_writes),
        ("Allow sneaky partial read hits", part),
        ("Preseeking level", fields.whole("Preseeking level", 0, 2)?.unwrap_or(0) > 0),
    ];
    if let Some((key, _)) = queued.iter().find(|(_, on)| *on && slots > 1) {
        return Err(fields.wrong(key, queue));
    }
    if part && spec.reports_early {
        return Err(fields.wrong("Allow sneaky partial read hits", "is not modeled with early writes"));
    }
    if fields.flag("Disconnect write if seek")? {
        let what = "is not modeled: DiskSim 4.0 does not do with it what its manual says";
        return Err(fields.wrong("Disconnect write if seek", what));
    }
    Ok(DriveCacheSpec { hits_aside, takes_writes: takes_writes && spec.reports_early, ..spec })
}
