//! Background activity of a drive between requests: reading ahead, and writing data that it has acknowledged from the
//! write cache. When the next request arrives, the activity is computed up to that time.

use super::Model;
use super::drive_state::DriveState;
use super::geometry::Geometry;
use super::mechanism::ChannelStream;
use super::spec::DriveReadAhead;
use crate::Ns;
use crate::io::Io;

/// Largest number of tracks of a cylinder that one read-ahead may cross.
const MAX_CYLINDER_TRACKS: u32 = 1024;

/// Background activity of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) enum BackgroundActivity {
    Nothing,
    /// Reads ahead into a segment.
    ReadAhead {
        segment: usize,
        /// Next block to read.
        next: u64,
        /// Block at which it stops.
        limit: u64,
        /// Block up to which it cannot be interrupted.
        min_end: u64,
        /// Time at which the head is at the next block.
        time: Ns,
    },
    /// Writes acknowledged data: the blocks `first .. end` are on the disk at `time`.
    WriteBehind {
        segment: Option<usize>,
        first: u64,
        end: u64,
        time: Ns,
    },
}

impl DriveState {
    /// Advances the background activity up to now.
    #[inline]
    pub fn advance_background(&mut self, model: &Model, now: Ns) {
        match self.background {
            BackgroundActivity::WriteBehind { time, .. } if time <= now => {
                self.background = BackgroundActivity::Nothing
            }
            BackgroundActivity::ReadAhead { .. } => self.read_ahead_until(model, now),
            _ => {}
        }
    }

    /// Reads ahead, track by track, until `now` or the limit.
    fn read_ahead_until(&mut self, model: &Model, now: Ns) {
        let BackgroundActivity::ReadAhead { segment, mut next, limit, min_end, mut time } = self.background else {
            return;
        };
        let mechanism = &model.mechanism;
        while next < limit && time < now {
            let max_blocks = (limit - next).min(u64::from(u32::MAX)) as u32;
            let run = mechanism.geometry.track_run_cached(&mut self.arm.known_track, next, max_blocks);
            let start = mechanism.transfer_start(time, &self.arm, &run.place);
            if start >= now {
                break;
            }
            self.arm.move_to(&run.place);
            let span = mechanism.sectors_time(&run.place, run.sectors);
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
        self.trim_segment(segment);
        self.background = if next >= limit {
            BackgroundActivity::Nothing
        } else {
            BackgroundActivity::ReadAhead { segment, next, limit, min_end, time }
        };
    }

    /// Drops the oldest blocks of a segment that is over its size.
    #[inline]
    pub fn trim_segment(&mut self, index: usize) {
        let max_blocks = self.segments.segment_blocks;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.start = segment.start.max(segment.end.saturating_sub(max_blocks));
        }
    }

    /// Stops reading ahead for a request, and returns when the arm is free: at once, at the end of the current sector,
    /// or at the end of a seek in progress.
    #[inline]
    pub fn stop_read_ahead(&mut self, model: &Model, now: Ns, io: &Io) -> Ns {
        let BackgroundActivity::ReadAhead { segment, next, limit, min_end, time } = self.background else { return now };
        self.background = BackgroundActivity::Nothing;
        let mechanism = &model.mechanism;
        let cached = self.segments.get(segment);
        let is_overwritten =
            io.write && model.cache.write_hit_stops && io.first < cached.end && io.end() > cached.start;
        if next < min_end && !is_overwritten {
            let stream =
                ChannelStream { blocks: (min_end.min(limit) - next) as u32, mark: 1, ..ChannelStream::default() };
            let end = mechanism.read_blocks(time, &mut self.arm, next, &stream, false).end;
            if let Some(cached) = self.segments.get_mut(segment) {
                cached.end = cached.end.max(min_end);
            }
            self.trim_segment(segment);
            return now.max(end);
        }
        if time >= now {
            return now;
        }
        let place = mechanism.geometry.track_run_cached(&mut self.arm.known_track, next, 1).place;
        if place.head != self.arm.head || place.cylinder != self.arm.cylinder {
            // the arm is already moving to the next track
            let arrival = time + mechanism.travel_time(&self.arm, &place, false);
            self.arm.move_to(&place);
            return now.max(arrival);
        }
        let start = mechanism.transfer_start(time, &self.arm, &place);
        if model.cache.stops_in_sector || start >= now {
            now
        } else {
            now.max(start + mechanism.sectors_time(&place, 1))
        }
    }

    /// Returns the block at which read-ahead stops after a read whose last block is in a segment.
    fn read_ahead_limit(&self, model: &Model, segment: usize, io: &Io) -> u64 {
        let (cache, geometry) = (&model.cache, &model.mechanism.geometry);
        let (end, last) = (io.end(), io.end() - 1);
        let segment_blocks = self.segments.segment_blocks;
        let max_ahead = match cache.max_ahead {
            0 if cache.ahead_over_read => segment_blocks,
            0 => segment_blocks.saturating_sub(u64::from(io.blocks)),
            blocks => u64::from(blocks),
        };
        let bound = end + max_ahead.max(u64::from(cache.min_ahead));
        let limit = match cache.read_ahead {
            DriveReadAhead::None => end,
            DriveReadAhead::Track => track_end_block(geometry, last).min(bound),
            DriveReadAhead::Cylinder => cylinder_end_block(geometry, last).min(bound),
            DriveReadAhead::Segment => bound,
            DriveReadAhead::NextTrack if end < geometry.capacity_blocks() => {
                let track = end - u64::from(geometry.locate_block(end).sector).min(end);
                let stop = track_end_block(geometry, end);
                let is_stream = self.segments.get(segment).start < track;
                if is_stream && stop < geometry.capacity_blocks() { track_end_block(geometry, stop) } else { stop }
            }
            DriveReadAhead::NextTrack => end,
        };
        limit.min(geometry.capacity_blocks())
    }

    /// Starts reading ahead after a read.
    pub fn start_read_ahead(&mut self, model: &Model, from: Ns, segment: usize, io: &Io) {
        let limit = self.read_ahead_limit(model, segment, io);
        self.set_read_ahead(model, from, segment, limit, io);
    }

    /// Continues after a read that the buffer held: extends a running read-ahead in the same segment, or starts it
    /// again.
    pub fn continue_read_ahead_after_hit(&mut self, model: &Model, from: Ns, index: usize, io: &Io) {
        let limit = self.read_ahead_limit(model, index, io);
        match &mut self.background {
            BackgroundActivity::ReadAhead { segment, limit: until, .. } if *segment == index => {
                *until = limit.max(*until)
            }
            BackgroundActivity::Nothing if model.cache.ahead_on_hit => {
                let next = self.segments.get(index).end;
                let limit = limit.max(self.segments.get(index).read_ahead_limit);
                if next < limit && self.can_reach(model, next) {
                    self.set_read_ahead(model, from, index, limit, io);
                }
            }
            _ => {}
        }
        if let Some(cached) = self.segments.get_mut(index) {
            cached.read_ahead_limit = cached.read_ahead_limit.max(limit);
        }
    }

    /// Returns true if read-ahead may start at `next`: a drive that reads ahead to the end of a track or cylinder
    /// never starts on another one.
    fn can_reach(&self, model: &Model, next: u64) -> bool {
        let place = model.mechanism.geometry.locate_block(next);
        match model.cache.read_ahead {
            DriveReadAhead::Track => place.cylinder == self.arm.cylinder && place.head == self.arm.head,
            DriveReadAhead::Cylinder => place.cylinder == self.arm.cylinder,
            _ => true,
        }
    }

    fn set_read_ahead(&mut self, model: &Model, from: Ns, segment: usize, limit: u64, io: &Io) {
        let next = self.segments.get(segment).end;
        let limit = limit.max(self.segments.get(segment).read_ahead_limit);
        if let Some(cached) = self.segments.get_mut(segment) {
            cached.read_ahead_limit = limit;
        }
        let min_end = (io.end() + u64::from(model.cache.min_ahead)).min(limit);
        self.background = if limit > next && model.cache.keeps_data {
            BackgroundActivity::ReadAhead { segment, next, limit, min_end, time: from }
        } else {
            BackgroundActivity::Nothing
        };
    }
}

/// Returns the first block after the track of `block`.
fn track_end_block(geometry: &Geometry, block: u64) -> u64 {
    block + u64::from(geometry.track_run(block, u32::MAX).blocks)
}

/// Returns the first block after the cylinder of `block`.
fn cylinder_end_block(geometry: &Geometry, block: u64) -> u64 {
    let cylinder = geometry.locate_block(block).cylinder;
    let mut end = track_end_block(geometry, block);
    for _ in 0..MAX_CYLINDER_TRACKS {
        if end >= geometry.capacity_blocks() || geometry.locate_block(end).cylinder != cylinder {
            break;
        }
        end = track_end_block(geometry, end);
    }
    end
}
