//! What a drive does on its own once it has reported a request: reading on,
//! and writing what it reported early. It is worked out when the next request
//! comes, up to that moment.

use super::Model;
use super::geometry::Geometry;
use super::mechanism::ChannelStream;
use super::serve::DriveState;
use super::spec::DriveReadAhead;
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
        time: Ns,
    },
    /// Writes what it reported: all from block `first` up to `end` is on the disk at `time`.
    Behind {
        segment: Option<usize>,
        first: u64,
        end: u64,
        time: Ns,
    },
}

impl DriveState {
    /// Brings what the drive did on its own up to now.
    #[inline]
    pub fn advance(&mut self, model: &Model, now: Ns) {
        match self.alone {
            BackgroundActivity::Behind { time, .. } if time <= now => self.alone = BackgroundActivity::Nothing,
            BackgroundActivity::Ahead { .. } => self.read_ahead_until(model, now),
            _ => {}
        }
    }

    /// Reads on, track by track, until `now` or the limit.
    fn read_ahead_until(&mut self, model: &Model, now: Ns) {
        let BackgroundActivity::Ahead { segment, mut next, limit, must, mut time } = self.alone else { return };
        let mechanism = &model.mechanism;
        while next < limit && time < now {
            let most = (limit - next).min(u64::from(u32::MAX)) as u32;
            let run = mechanism.geometry.run_known(&mut self.arm.track, next, most);
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
        if let Some(held) = self.segments.get_mut(segment) {
            held.end = held.end.max(next);
        }
        self.trim(segment);
        self.alone = if next >= limit {
            BackgroundActivity::Nothing
        } else {
            BackgroundActivity::Ahead { segment, next, limit, must, time }
        };
    }

    /// The oldest blocks of a segment give way when it is full.
    #[inline]
    pub fn trim(&mut self, index: usize) {
        let most = self.segments.blocks;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.start = segment.start.max(segment.end.saturating_sub(most));
        }
    }

    /// Ends reading on for a request, and says when the arm is free: at once, at the end of
    /// its sector, or when a seek that it is in the middle of has ended.
    #[inline]
    pub fn stop_reading_on(&mut self, model: &Model, now: Ns, io: &Io) -> Ns {
        let BackgroundActivity::Ahead { segment, next, limit, must, time } = self.alone else { return now };
        self.alone = BackgroundActivity::Nothing;
        let mechanism = &model.mechanism;
        let held = self.segments.get(segment);
        let useless = io.write && model.cache.write_hit_stops && io.first < held.end && io.end() > held.start;
        if next < must && !useless {
            let stream = ChannelStream { blocks: (must.min(limit) - next) as u32, mark: 1, ..ChannelStream::default() };
            let end = mechanism.read(time, &mut self.arm, next, &stream, false).end;
            if let Some(held) = self.segments.get_mut(segment) {
                held.end = held.end.max(must);
            }
            self.trim(segment);
            return now.max(end);
        }
        if time >= now {
            return now;
        }
        let place = mechanism.geometry.run_known(&mut self.arm.track, next, 1).place;
        if place.head != self.arm.head || place.cylinder != self.arm.cylinder {
            // it has set out for the next track
            let there = time + mechanism.travel(&self.arm, &place, false);
            self.arm.goes_to(&place);
            return now.max(there);
        }
        let start = mechanism.begins(time, &self.arm, &place);
        if model.cache.stops_in_sector || start >= now { now } else { now.max(start + mechanism.span(&place, 1)) }
    }

    /// How far the drive reads on behind a read that a segment holds to its end.
    fn read_on_limit(&self, model: &Model, segment: usize, io: &Io) -> u64 {
        let (cache, geometry) = (&model.cache, &model.mechanism.geometry);
        let (end, last) = (io.end(), io.end() - 1);
        let most = u64::from(cache.most_ahead.max(cache.least_ahead));
        let kept = if cache.ahead_over_read { 0 } else { u64::from(io.blocks) };
        let fits = self.segments.blocks.saturating_sub(kept).max(u64::from(cache.least_ahead));
        let bound = end + most.min(fits);
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

    /// Begins to read on after a read.
    pub fn read_on(&mut self, model: &Model, from: Ns, segment: usize, io: &Io) {
        let limit = self.read_on_limit(model, segment, io);
        self.reads_to(model, from, segment, limit, io);
    }

    /// After a read that the buffer held: what is being read on behind it goes on further,
    /// and what rests may begin again.
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
        if let Some(held) = self.segments.get_mut(index) {
            held.limit = held.limit.max(limit);
        }
    }

    /// A drive that reads to the end of a track or cylinder begins on no other one.
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
        if let Some(held) = self.segments.get_mut(segment) {
            held.limit = limit;
        }
        let must = (io.end() + u64::from(model.cache.least_ahead)).min(limit);
        self.alone = if limit > next && model.cache.keeps {
            BackgroundActivity::Ahead { segment, next, limit, must, time: from }
        } else {
            BackgroundActivity::Nothing
        };
    }
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
