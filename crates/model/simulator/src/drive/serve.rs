//! State of a drive, and how it serves a request: its background activity, the contents of its cache, and how soon the
//! first sector could be under the head. Reads and writes themselves are in `reads.rs` and `writes.rs`.

use super::ahead::BackgroundActivity;
use super::cache::{CacheQuery, Segments};
use super::mechanism::ArmPosition;
use super::spec::DriveCacheSpec;
use super::{Hit, Model, SectorAddress, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Mutable state of a drive.
#[derive(Clone, Debug)]
pub(super) struct DriveState {
    pub segments: Segments,
    pub arm: ArmPosition,
    pub alone: BackgroundActivity,
    pub after_write: bool,
    /// First block after the last write.
    pub last_write: u64,
}

/// Converts a mark, a share of a request or of a segment, to blocks.
pub(super) fn mark(cache: &DriveCacheSpec, share: f64, blocks: u32) -> u32 {
    let some = if cache.mark_of_request {
        f64::from(if cache.segments > 0 { blocks.min(cache.segment_blocks) } else { blocks }) * share
    } else {
        (f64::from(cache.segment_blocks) * share).ceil()
    };
    (some as u32).max(1)
}

impl DriveState {
    /// Creates the state of an idle drive.
    pub fn new(model: &Model) -> DriveState {
        DriveState {
            segments: Segments::new(&model.cache),
            arm: ArmPosition::default(),
            alone: BackgroundActivity::Nothing,
            after_write: false,
            last_write: u64::MAX,
        }
    }

    /// Serves a request that begins now.
    #[inline]
    pub fn serve(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let io = &model.within(io);
        let each = model.overheads.each;
        self.advance(model, now + each);
        let mut service = if io.write {
            self.write(model, now + each, io, channel_free)
        } else {
            self.read(model, now + each, io, channel_free)
        };
        service.overhead += each;
        self.after_write = io.write;
        if io.write {
            self.last_write = io.end();
        }
        service
    }

    /// Waits for data still being written; read-ahead continues.
    pub fn flush(&mut self, model: &Model, now: Ns) -> ServiceBreakdown {
        let now = now + model.overheads.each;
        let command = model.overheads.write_hit[usize::from(self.after_write)];
        let written = self.writing(now).unwrap_or(now);
        let done = (now + command).max(written) + model.overheads.write_done;
        let waiting = written.saturating_sub(now + command);
        let overhead = model.overheads.each + command + model.overheads.write_done;
        ServiceBreakdown { done, waiting, overhead, channel_from: done, ..ServiceBreakdown::of(Hit::Miss) }
    }

    /// Cylinder under the arm.
    pub fn cylinder(&self) -> u32 {
        self.arm.cylinder
    }

    /// Time at which acknowledged writes will be on the disk, if they are not yet.
    #[inline]
    pub fn writing(&self, now: Ns) -> Option<Ns> {
        match self.alone {
            BackgroundActivity::Behind { time, .. } if time > now => Some(time),
            _ => None,
        }
    }

    /// Segment that read-ahead is filling.
    #[inline]
    pub fn reading(&self) -> Option<usize> {
        match self.alone {
            BackgroundActivity::Ahead { segment, .. } => Some(segment),
            _ => None,
        }
    }

    /// Builds the cache query for a request.
    #[inline]
    pub fn query(&self, now: Ns, io: &Io) -> CacheQuery {
        CacheQuery { start: io.first, end: io.end(), write: io.write, now, reading: self.reading() }
    }

    /// Time until the first sector of a request could be under the head; 0 if it needs no positioning.
    #[inline]
    pub fn positioning(&self, model: &Model, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        let overheads = &model.overheads;
        let after = usize::from(self.after_write);
        // requests that continue the drive's current reading or writing need no positioning
        if io.write {
            if model.cache.appends_first && self.is_appended(model, now, io) {
                return 0;
            }
        } else {
            let reading = match self.alone {
                BackgroundActivity::Ahead { segment, limit, .. } if io.first < limit => Some(segment),
                _ => None,
            };
            let query = CacheQuery { reading, ..self.query(now, io) };
            if let Some(index) = self.segments.find(&query)
                && (io.end() <= self.segments.get(index).end || reading == Some(index))
            {
                return 0;
            }
            if self.is_being_read(model, now, io.first) {
                return 0;
            }
        }
        let command = if io.write { overheads.write_miss[after] } else { overheads.read_miss[after] };
        let free = (now + command).max(self.writing(now).unwrap_or(now));
        free - now + model.mechanism.positioning(free, &self.arm, place, io.write)
    }

    /// Returns true for a write that continues where the one being written ends.
    #[inline]
    pub fn is_appended(&self, model: &Model, now: Ns, io: &Io) -> bool {
        let BackgroundActivity::Behind { end, time, .. } = self.alone else { return false };
        model.cache.reports_early && model.cache.appends && end == io.first && time > now
    }

    /// Returns true for a block that read-ahead will have reached by now, so that a read from there continues with it
    /// at once.
    #[inline]
    fn is_being_read(&self, model: &Model, now: Ns, block: u64) -> bool {
        let BackgroundActivity::Ahead { segment, next, limit, time, .. } = self.alone else { return false };
        // fast path: a segment holds no more blocks than this, and its limit is at most as far ahead
        if limit.wrapping_sub(block) > 2 * self.segments.blocks
            || !model.cache.keeps
            || block < self.segments.get(segment).start
        {
            return false;
        }
        let sector = model.mechanism.span(&model.mechanism.geometry.place(next), 1).max(1);
        let reached = (next + now.saturating_sub(time) / sector).min(limit);
        if model.cache.almost_hits { block <= reached } else { block < reached }
    }
}
