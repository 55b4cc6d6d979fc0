//! State of a drive, and how it serves a request: its background activity, the contents of its cache, and how soon the
//! first sector could be under the head. Reads and writes themselves are in `reads.rs` and `writes.rs`.

use super::background::BackgroundActivity;
use super::mechanism::ArmPosition;
use super::segments::{CacheQuery, Segments};
use super::spec::DriveCacheSpec;
use super::{CacheOutcome, Model, SectorAddress, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Mutable state of a drive.
#[derive(Clone, Debug)]
pub(super) struct DriveState {
    pub segments: Segments,
    pub arm: ArmPosition,
    pub background: BackgroundActivity,
    /// True if the last request was a write.
    pub after_write: bool,
    /// First block after the last write; `None` before the first.
    pub last_write_end: Option<u64>,
}

/// Converts a mark, a share of a request or of a segment, to blocks.
pub(super) fn mark_blocks(cache: &DriveCacheSpec, share: f64, blocks: u32) -> u32 {
    let mark = if cache.marks_are_request_shares {
        f64::from(if cache.segments > 0 { blocks.min(cache.segment_blocks) } else { blocks }) * share
    } else {
        (f64::from(cache.segment_blocks) * share).ceil()
    };
    (mark as u32).max(1)
}

impl DriveState {
    /// Creates the state of an idle drive.
    pub fn new(model: &Model) -> DriveState {
        DriveState {
            segments: Segments::new(&model.cache),
            arm: ArmPosition::default(),
            background: BackgroundActivity::Nothing,
            after_write: false,
            last_write_end: None,
        }
    }

    /// Serves a request that begins now.
    #[inline]
    pub fn serve_request(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let io = &model.clip_to_capacity(io);
        let per_request = model.overheads.per_request;
        self.advance_background(model, now + per_request);
        let mut service = if io.write {
            self.serve_write(model, now + per_request, io, channel_free)
        } else {
            self.serve_read(model, now + per_request, io, channel_free)
        };
        service.overhead += per_request;
        self.after_write = io.write;
        if io.write {
            self.last_write_end = Some(io.end());
        }
        service
    }

    /// Waits for data still being written; read-ahead continues.
    pub fn flush_cache(&mut self, model: &Model, now: Ns) -> ServiceBreakdown {
        let now = now + model.overheads.per_request;
        let command = model.overheads.write_hit[usize::from(self.after_write)];
        let written = self.write_behind_end(now).unwrap_or(now);
        let done = (now + command).max(written) + model.overheads.write_done;
        let waiting = written.saturating_sub(now + command);
        let overhead = model.overheads.per_request + command + model.overheads.write_done;
        ServiceBreakdown {
            done_at: done,
            waiting,
            overhead,
            channel_start: done,
            ..ServiceBreakdown::for_outcome(CacheOutcome::Miss)
        }
    }

    /// Cylinder under the arm.
    pub fn cylinder(&self) -> u32 {
        self.arm.cylinder
    }

    /// Time at which acknowledged writes will be on the disk, if they are not yet.
    #[inline]
    pub fn write_behind_end(&self, now: Ns) -> Option<Ns> {
        match self.background {
            BackgroundActivity::WriteBehind { time, .. } if time > now => Some(time),
            _ => None,
        }
    }

    /// Segment that read-ahead is filling.
    #[inline]
    pub fn read_ahead_segment(&self) -> Option<usize> {
        match self.background {
            BackgroundActivity::ReadAhead { segment, .. } => Some(segment),
            _ => None,
        }
    }

    /// Builds the cache query for a request.
    #[inline]
    pub fn build_query(&self, now: Ns, io: &Io) -> CacheQuery {
        CacheQuery { start: io.first, end: io.end(), write: io.write, now, reading: self.read_ahead_segment() }
    }

    /// Time until the first sector of a request could be under the head; 0 if it needs no positioning.
    #[inline]
    pub fn positioning_time(&self, model: &Model, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        let overheads = &model.overheads;
        let after = usize::from(self.after_write);
        // requests that continue the drive's current reading or writing need no positioning
        if io.write {
            if model.cache.appends_first && self.continues_write_behind(model, now, io) {
                return 0;
            }
        } else {
            let reading = match self.background {
                BackgroundActivity::ReadAhead { segment, limit, .. } if io.first < limit => Some(segment),
                _ => None,
            };
            let query = CacheQuery { reading, ..self.build_query(now, io) };
            if let Some(index) = self.segments.find_segment(&query)
                && (io.end() <= self.segments.get(index).end || reading == Some(index))
            {
                return 0;
            }
            if self.is_reached_by_read_ahead(model, now, io.first) {
                return 0;
            }
        }
        let command = if io.write { overheads.write_miss[after] } else { overheads.read_miss[after] };
        let free = (now + command).max(self.write_behind_end(now).unwrap_or(now));
        free - now + model.mechanism.positioning_time(free, &self.arm, place, io.write)
    }

    /// Returns true for a write that begins where the data being written end.
    #[inline]
    pub fn continues_write_behind(&self, model: &Model, now: Ns, io: &Io) -> bool {
        let BackgroundActivity::WriteBehind { end, time, .. } = self.background else { return false };
        model.cache.acknowledges_early && model.cache.appends && end == io.first && time > now
    }

    /// Returns true for a block that read-ahead will have reached by now, so that a read from there continues the
    /// read-ahead at once.
    #[inline]
    fn is_reached_by_read_ahead(&self, model: &Model, now: Ns, block: u64) -> bool {
        let BackgroundActivity::ReadAhead { segment, next, limit, time, .. } = self.background else { return false };
        // fast path: a segment holds no more blocks than this, and its limit is at most as far ahead
        if limit.wrapping_sub(block) > 2 * self.segments.segment_blocks
            || !model.cache.keeps_data
            || block < self.segments.get(segment).start
        {
            return false;
        }
        let sector = model.mechanism.sectors_time(&model.mechanism.geometry.locate_block(next), 1).max(1);
        let reached = (next + now.saturating_sub(time) / sector).min(limit);
        if model.cache.almost_hits { block <= reached } else { block < reached }
    }
}
