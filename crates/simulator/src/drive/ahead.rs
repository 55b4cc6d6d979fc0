//! What a drive does on its own once it has reported a request: reading on,
//! and writing what it reported early. It is worked out when the next request
//! comes, up to that moment.

use super::geometry::Geometry;
use super::mechanism::ChannelStream;
use super::serve::DriveState;
use super::spec::DriveReadAhead;
use super::{Model, SectorAddress};
use crate::Ns;
use crate::io::Io;

/// Tracks of a cylinder, at most, that one reading on may cross.
const MOST_TRACKS: u32 = 1024;

/// What the drive does on its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum BackgroundActivity {
    Nothing,
    /// Reads on into a segment: the next block, where it stops, how far it goes
    /// whatever comes, and when the head was at that block.
    Ahead {
        segment: usize,
        next: u64,
        limit: u64,
        must: u64,
        at: Ns,
    },
    /// Writes what it reported: all up to block `end` is on the disk at `at`.
    Behind {
        segment: Option<usize>,
        end: u64,
        at: Ns,
    },
}

impl DriveState {
    /// Brings what the drive did on its own up to now, and says from when on
    /// it can take a request up.
    #[inline]
    pub fn settle(&mut self, model: &Model, now: Ns) -> Ns {
        match self.alone {
            BackgroundActivity::Nothing => now,
            BackgroundActivity::Behind { at, .. } => {
                self.alone = BackgroundActivity::Nothing;
                now.max(at)
            }
            BackgroundActivity::Ahead { segment, next, limit, must, at } => {
                self.read_ahead_until(model, now, segment, next, limit, must, at);
                now
            }
        }
    }

    /// Reads on, track by track, until `now` or the limit.
    #[allow(clippy::too_many_arguments, reason = "the fields of one state, apart because it is replaced")]
    fn read_ahead_until(
        &mut self,
        model: &Model,
        now: Ns,
        segment: usize,
        mut next: u64,
        limit: u64,
        must: u64,
        mut at: Ns,
    ) {
        let mechanism = &model.mechanism;
        while next < limit && at < now {
            let most = (limit - next).min(u64::from(u32::MAX)) as u32;
            let run = mechanism.geometry.run_known(&mut self.arm.track, next, most);
            let start = mechanism.begins(at, &self.arm, &run.place);
            if start >= now && next >= must {
                break;
            }
            self.arm.goes_to(&run.place);
            let span = mechanism.span(&run.place, run.sectors);
            let passed = now.saturating_sub(start);
            if passed >= span {
                next += u64::from(run.blocks);
                at = start + span;
                continue;
            }
            let read = passed * u64::from(run.blocks) / span.max(1);
            next += read;
            at = start + span * read / u64::from(run.blocks);
            break;
        }
        if let Some(held) = self.segments.get_mut(segment) {
            held.end = held.end.max(next);
        }
        self.trim(segment);
        self.alone = if next >= limit {
            BackgroundActivity::Nothing
        } else {
            BackgroundActivity::Ahead { segment, next, limit, must, at }
        };
    }

    /// The oldest blocks of a segment give way when it is full.
    #[inline]
    pub fn trim(&mut self, at: usize) {
        let most = self.segments.blocks;
        if let Some(segment) = self.segments.get_mut(at) {
            segment.start = segment.start.max(segment.end.saturating_sub(most));
        }
    }

    /// Ends reading on, and says when the head is free: at once, or at the end of its sector.
    #[inline]
    pub fn stop_reading_on(&mut self, model: &Model, now: Ns) -> Ns {
        let BackgroundActivity::Ahead { segment, next, limit, must, at } = self.alone else { return now };
        self.alone = BackgroundActivity::Nothing;
        let mechanism = &model.mechanism;
        if next < must {
            let stream = ChannelStream { blocks: (must.min(limit) - next) as u32, mark: 1, ..ChannelStream::default() };
            let end = mechanism.read(at, &mut self.arm, next, &stream, false).end;
            if let Some(held) = self.segments.get_mut(segment) {
                held.end = held.end.max(must);
            }
            return now.max(end);
        }
        if model.cache.stops_in_sector || at >= now {
            return now;
        }
        let place = mechanism.geometry.run_known(&mut self.arm.track, next, 1).place;
        let sector_end = at + mechanism.span(&place, 1);
        let there = place.head == self.arm.head && place.cylinder == self.arm.cylinder;
        if there { now.max(sector_end) } else { now }
    }

    /// Begins to read on after a read.
    pub fn read_on(&mut self, model: &Model, from: Ns, segment: usize, io: &Io) {
        let cache = &model.cache;
        let next = self.segments.get(segment).end;
        let kept = if cache.ahead_over_read { 0 } else { u64::from(io.blocks) };
        let most = u64::from(cache.most_ahead).min(self.segments.blocks.saturating_sub(kept));
        let geometry = &model.mechanism.geometry;
        let last = io.end() - 1;
        let limit = match cache.ahead {
            DriveReadAhead::None => next,
            DriveReadAhead::Track => end_of_track(geometry, last),
            DriveReadAhead::Cylinder => end_of_cylinder(geometry, last),
            DriveReadAhead::Segment => next + most,
            DriveReadAhead::NextTrack => {
                let place = geometry.place(last);
                // a stream: it goes on where a late read ended, or on the track behind one
                let before = track_before(geometry, &place, last);
                let known = self.reads.iter().any(|read| read.end == io.first || before == Some(read.track));
                self.reads[self.reads_at] = RecentRead { end: io.end(), track: (place.cylinder, place.head) };
                self.reads_at = (self.reads_at + 1) % self.reads.len();
                if known { end_of_track(geometry, end_of_track(geometry, last)) } else { next }
            }
        };
        let limit = limit.min(next + most).min(geometry.blocks());
        let must = (next + u64::from(cache.least_ahead)).min(limit);
        self.alone = if limit > next {
            BackgroundActivity::Ahead { segment, next, limit, must, at: from }
        } else {
            BackgroundActivity::Nothing
        };
    }
}

/// A read of not long ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecentRead {
    end: u64,
    track: (u32, u32),
}

impl RecentRead {
    /// None yet.
    pub const NONE: RecentRead = RecentRead { end: u64::MAX, track: (u32::MAX, u32::MAX) };
}

/// The block behind the last one on a block's track.
fn end_of_track(geometry: &Geometry, block: u64) -> u64 {
    block + u64::from(geometry.run(block, u32::MAX).blocks)
}

fn end_of_cylinder(geometry: &Geometry, block: u64) -> u64 {
    let cylinder = geometry.place(block).cylinder;
    let mut end = end_of_track(geometry, block);
    for _ in 0..MOST_TRACKS {
        if end >= geometry.blocks() || geometry.place(end).cylinder != cylinder {
            break;
        }
        end = end_of_track(geometry, end);
    }
    end
}

/// The track before the one of a block, in the order of blocks.
fn track_before(geometry: &Geometry, place: &SectorAddress, block: u64) -> Option<(u32, u32)> {
    let before = geometry.place(block.checked_sub(u64::from(place.sector) + 1)?);
    Some((before.cylinder, before.head))
}
