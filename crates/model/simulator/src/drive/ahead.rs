//! Background activity of a drive between requests: reading ahead, and writing data that it has acknowledged from the
//! write cache. It is computed when the next request arrives, up to that time.

use super::Model;
use super::geometry::Geometry;
use super::mechanism::ChannelStream;
use super::serve::DriveState;
use super::spec::DriveReadAhead;
use crate::Ns;
use crate::io::Io;

/// Largest number of tracks of a cylinder that one read-ahead may cross.
const MOST_TRACKS: u32 = 1024;

/// Background activity of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) enum BackgroundActivity {
    Nothing,
    /// Reads ahead into a segment: the next block, the block where it stops, the block up to which it cannot be
    /// interrupted, and the time at which the head was at the next block.
    Ahead {
        segment: usize,
        next: u64,
        limit: u64,
        min_end: u64,
        time: Ns,
    },
    /// Writes acknowledged data: the blocks `first .. end` are on the disk at `time`.
    Behind {
        segment: Option<usize>,
        first: u64,
        end: u64,
        time: Ns,
    },
}

impl DriveState {
    /// Advances the background activity up to now.
    #[inline]
    pub fn advance(&mut self, model: &Model, now: Ns) {
        match self.alone {
            BackgroundActivity::Behind { time, .. } if time <= now => self.alone = BackgroundActivity::Nothing,
            BackgroundActivity::Ahead { .. } => self.read_ahead_until(model, now),
            _ => {}
        }
    }

    /// Reads ahead, track by track, until `now` or the limit.
    fn read_ahead_until(&mut self, model: &Model, now: Ns) {
        let BackgroundActivity::Ahead { segment, mut next, limit, min_end, mut time } = self.alone else { return };
        let mechanism = &model.mechanism;
        while next < limit && time < now {
            let max_blocks = (limit - next).min(u64::from(u32::MAX)) as u32;
            let run = mechanism.geometry.run_known(&mut self.arm.track, next, max_blocks);
            let start = mechanism.begins(time, &self.arm, &run.place);
            if start >= now {
                break;
            }
            self.arm.goes_to(&run.place);
            let span = mechanism.span(&run.place, run.sectors);
            let passed = now.saturating_sub(start);
            if passed >= span {
                next += u64::from(run.blocks);
                time = start + span;
                continue;
            }
            let read = passed * u64::from(run.blocks) / span.max(1);
            next += read;
            time = start + span * read / u64::from(run.blocks);
            break;
        }
        if let Some(cached) = self.segments.get_mut(segment) {
            cached.end = cached.end.max(next);
        }
        self.trim(segment);
        self.alone = if next >= limit {
            BackgroundActivity::Nothing
        } else {
            BackgroundActivity::Ahead { segment, next, limit, min_end, time }
        };
    }

    /// Drops the oldest blocks of a segment that is over its size.
    #[inline]
    pub fn trim(&mut self, index: usize) {
        let max_blocks = self.segments.blocks;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.start = segment.start.max(segment.end.saturating_sub(max_blocks));
        }
    }

    /// Stops reading ahead for a request, and returns when the arm is free: at once, at the end of the current sector,
    /// or at the end of a seek in progress.
    #[inline]
    pub fn stop_reading_on(&mut self, model: &Model, now: Ns, io: &Io) -> Ns {
        let BackgroundActivity::Ahead { segment, next, limit, min_end, time } = self.alone else { return now };
        self.alone = BackgroundActivity::Nothing;
        let mechanism = &model.mechanism;
        let cached = self.segments.get(segment);
        let is_overwritten =
            io.write && model.cache.write_hit_stops && io.first < cached.end && io.end() > cached.start;
        if next < min_end && !is_overwritten {
            let stream =
                ChannelStream { blocks: (min_end.min(limit) - next) as u32, mark: 1, ..ChannelStream::default() };
            let end = mechanism.read(time, &mut self.arm, next, &stream, false).end;
            if let Some(cached) = self.segments.get_mut(segment) {
                cached.end = cached.end.max(min_end);
            }
            self.trim(segment);
            return now.max(end);
        }
        if time >= now {
            return now;
        }
        let place = mechanism.geometry.run_known(&mut self.arm.track, next, 1).place;
        if place.head != self.arm.head || place.cylinder != self.arm.cylinder {
            // it is already moving to the next track
            let arrival = time + mechanism.travel(&self.arm, &place, false);
            self.arm.goes_to(&place);
            return now.max(arrival);
        }
        let start = mechanism.begins(time, &self.arm, &place);
        if model.cache.stops_in_sector || start >= now { now } else { now.max(start + mechanism.span(&place, 1)) }
    }

    /// Returns the block at which read-ahead stops after a read that a segment holds to its end.
    fn read_on_limit(&self, model: &Model, segment: usize, io: &Io) -> u64 {
        let (cache, geometry) = (&model.cache, &model.mechanism.geometry);
        let (end, last) = (io.end(), io.end() - 1);
        let max_ahead = u64::from(cache.most_ahead.max(cache.least_ahead));
        let kept = if cache.ahead_over_read { 0 } else { u64::from(io.blocks) };
        let fits = self.segments.blocks.saturating_sub(kept).max(u64::from(cache.least_ahead));
        let bound = end + max_ahead.min(fits);
        let limit = match cache.ahead {
            DriveReadAhead::None => end,
            DriveReadAhead::Track => end_of_track(geometry, last).min(bound),
            DriveReadAhead::Cylinder => end_of_cylinder(geometry, last).min(bound),
            DriveReadAhead::Segment => bound,
            DriveReadAhead::NextTrack if end < geometry.blocks() => {
                let track = end - u64::from(geometry.place(end).sector).min(end);
                let stop = end_of_track(geometry, end);
                let stream = self.segments.get(segment).start < track;
                if stream && stop < geometry.blocks() { end_of_track(geometry, stop) } else { stop }
            }
            DriveReadAhead::NextTrack => end,
        };
        limit.min(geometry.blocks())
    }

    /// Starts reading ahead after a read.
    pub fn read_on(&mut self, model: &Model, from: Ns, segment: usize, io: &Io) {
        let limit = self.read_on_limit(model, segment, io);
        self.reads_to(model, from, segment, limit, io);
    }

    /// Continues after a read that the buffer held: extends a running read-ahead in the same segment, or starts one
    /// again.
    pub fn read_on_from_hit(&mut self, model: &Model, from: Ns, index: usize, io: &Io) {
        let limit = self.read_on_limit(model, index, io);
        match &mut self.alone {
            BackgroundActivity::Ahead { segment, limit: until, .. } if *segment == index => *until = limit.max(*until),
            BackgroundActivity::Nothing if model.cache.ahead_on_hit => {
                let next = self.segments.get(index).end;
                let limit = limit.max(self.segments.get(index).limit);
                if next < limit && self.may_reach(model, next) {
                    self.reads_to(model, from, index, limit, io);
                }
            }
            _ => {}
        }
        if let Some(cached) = self.segments.get_mut(index) {
            cached.limit = cached.limit.max(limit);
        }
    }

    /// Returns true if read-ahead may start at `next`: a drive that reads ahead to the end of a track or cylinder
    /// never starts on another one.
    fn may_reach(&self, model: &Model, next: u64) -> bool {
        let place = model.mechanism.geometry.place(next);
        match model.cache.ahead {
            DriveReadAhead::Track => place.cylinder == self.arm.cylinder && place.head == self.arm.head,
            DriveReadAhead::Cylinder => place.cylinder == self.arm.cylinder,
            _ => true,
        }
    }

    fn reads_to(&mut self, model: &Model, from: Ns, segment: usize, limit: u64, io: &Io) {
        let next = self.segments.get(segment).end;
        let limit = limit.max(self.segments.get(segment).limit);
        if let Some(cached) = self.segments.get_mut(segment) {
            cached.limit = limit;
        }
        let min_end = (io.end() + u64::from(model.cache.least_ahead)).min(limit);
        self.alone = if limit > next && model.cache.keeps {
            BackgroundActivity::Ahead { segment, next, limit, min_end, time: from }
        } else {
            BackgroundActivity::Nothing
        };
    }
}

/// Returns the first block after the track of `block`.
fn end_of_track(geometry: &Geometry, block: u64) -> u64 {
    block + u64::from(geometry.run(block, u32::MAX).blocks)
}

/// Returns the first block after the cylinder of `block`.
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
