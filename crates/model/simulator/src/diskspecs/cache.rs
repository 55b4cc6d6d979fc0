//! Buffer parameters of `disksim_disk`: segments, read-ahead, early writes.

use super::DiskspecsError;
use super::fields::FieldReader;
use crate::drive::{DriveCacheSpec, DriveReadAhead};

/// Reads the buffer parameters of a drive that queues `slots` requests.
pub(super) fn read_cache(fields: &mut FieldReader<'_>, slots: u32) -> Result<DriveCacheSpec, DiskspecsError> {
    let segments = fields.require_integer("Number of buffer segments", 0, 4096)? as u32;
    let segment_blocks = fields.require_integer("Segment size (in blks)", 1, 1 << 30)? as u32;
    // 2 means the same as 1: DiskSim checks whether it is 0
    let keeps_data = fields.read_integer("Enable caching in buffer", 0, 2)?.unwrap_or(0) > 0;
    let level = fields.read_integer("Fast write level", 0, 2)?.unwrap_or(0);
    let over_requested = fields.read_number("Read-ahead over requested", -1.0, 1.0)?.unwrap_or(0.0);
    let spec = DriveCacheSpec {
        segments,
        segment_blocks,
        keeps_data,
        has_write_segment: fields.read_flag("Use separate write segment")?,
        serves_written: fields.read_flag("Allow read hits on write data")?,
        min_ahead: fields.read_integer("Minimum read-ahead (blks)", 0, 1 << 30)?.unwrap_or(0) as u32,
        max_ahead: fields.read_integer("Maximum read-ahead (blks)", 0, 1 << 30)?.unwrap_or(0) as u32,
        ahead_over_read: over_requested != 0.0,
        forgets_read: over_requested < 0.0,
        ahead_on_hit: fields.read_flag("Read-ahead on idle hit")?,
        almost_hits: fields.read_flag("Allow almost read hits")?,
        stops_in_sector: fields.read_flag("Stop prefetch in sector")?,
        write_hit_stops: fields.read_flag("Write hit stop prefetch")?,
        read_mark: fields.read_number("High (read) water mark", 0.0, 1.0)?.unwrap_or(0.0),
        write_mark: fields.read_number("Low (write) water mark", 0.0, 1.0)?.unwrap_or(0.0),
        marks_are_request_shares: fields.read_flag("Set watermark by reqsize")?,
        sends_part: fields.read_integer("Immed transfer partial hit", 0, 1)?.unwrap_or(1) == 1,
        reads_into_buffer: fields.read_integer("Read directly to buffer", 0, 1)?.unwrap_or(1) == 1,
        acknowledges_early: level > 0,
        appends_first: level > 1,
        appends: fields.read_integer("Combine seq writes", 0, 1)?.unwrap_or(1) == 1,
        buffer_blocks: segment_blocks,
        early_blocks: segment_blocks,
        write_segments: fields.read_integer("Maximum number of write segments", 0, 4096)?.unwrap_or(1).max(1) as u32,
        read_ahead: read_ahead(fields)?,
        ..DriveCacheSpec::none()
    };
    // ignored: DiskSim 4.0 computes the same times for every value, and the trace of the RZ26, whose file has 1, agrees
    for key in ["Immediate buffer read", "Immediate buffer write"] {
        fields.read_integer(key, 0, 2)?;
    }
    // ignored for the same reason: the blocks that pass are looked for in the same function
    let reads_free_blocks = fields.read_flag("Read any free blocks")?;
    check_combinations(fields, &spec, reads_free_blocks)?;
    read_concurrency(fields, slots, spec)
}

fn read_ahead(fields: &mut FieldReader<'_>) -> Result<DriveReadAhead, DiskspecsError> {
    Ok(match fields.read_integer("Buffer continuous read", 0, 4)?.unwrap_or(0) {
        0 => DriveReadAhead::None,
        1 => DriveReadAhead::Track,
        2 => DriveReadAhead::Cylinder,
        3 => DriveReadAhead::Segment,
        _ => DriveReadAhead::NextTrack,
    })
}

/// Rejects impossible combinations.
fn check_combinations(
    fields: &mut FieldReader<'_>,
    spec: &DriveCacheSpec,
    reads_free_blocks: bool,
) -> Result<(), DiskspecsError> {
    let needs_caching = [
        ("Buffer continuous read", spec.read_ahead != DriveReadAhead::None),
        ("Fast write level", spec.acknowledges_early),
        ("Read any free blocks", reads_free_blocks),
    ];
    for (key, is_set) in needs_caching {
        if is_set && !spec.keeps_data {
            return Err(fields.error_at_key(key, "needs `Enable caching in buffer = 1`"));
        }
    }
    if spec.has_write_segment && spec.segments < 2 {
        return Err(fields.error_at_key("Use separate write segment", "needs at least two segments"));
    }
    if spec.segments > 0 && spec.write_segments > spec.segments {
        return Err(fields.error_at_key("Maximum number of write segments", "is above the number of segments"));
    }
    Ok(())
}

/// Reads the parameters of activity during the request that occupies the disk. If the drive queues a single request,
/// only a write acknowledged early can overlap with another request.
fn read_concurrency(
    fields: &mut FieldReader<'_>,
    slots: u32,
    spec: DriveCacheSpec,
) -> Result<DriveCacheSpec, DiskspecsError> {
    let full_hits = fields.read_flag("Allow sneaky full read hits")?;
    let takes_writes = fields.read_flag("Allow write prebuffering")?;
    let partial_hits = fields.read_flag("Allow sneaky partial read hits")?;
    let unsupported_with_queue = [
        ("Allow sneaky full read hits", full_hits),
        ("Allow sneaky intermediate read hits", fields.read_flag("Allow sneaky intermediate read hits")?),
        ("Allow write prebuffering", takes_writes),
        ("Allow sneaky partial read hits", partial_hits),
        ("Preseeking level", fields.read_integer("Preseeking level", 0, 2)?.unwrap_or(0) > 0),
    ];
    if let Some((key, _)) = unsupported_with_queue.iter().find(|(_, is_set)| *is_set && slots > 1) {
        return Err(fields.error_at_key(key, "is not modeled where `Max queue length` is above 1"));
    }
    if partial_hits && spec.acknowledges_early {
        return Err(fields.error_at_key("Allow sneaky partial read hits", "is not modeled with early writes"));
    }
    if fields.read_flag("Disconnect write if seek")? {
        let reason = "is not modeled: DiskSim 4.0 does not do with it what its manual says";
        return Err(fields.error_at_key("Disconnect write if seek", reason));
    }
    Ok(DriveCacheSpec {
        serves_hits_during_writes: full_hits,
        accepts_concurrent_writes: takes_writes && spec.acknowledges_early,
        ..spec
    })
}
