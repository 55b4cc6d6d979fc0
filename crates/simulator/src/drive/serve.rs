//! How a drive serves a request: what is in the cache, what is reported early,
//! what waits for the disk.

use super::ahead::{BackgroundActivity, RecentRead};
use super::cache::Segments;
use super::mechanism::{ArmPosition, ChannelStream};
use super::spec::{DriveCacheSpec, DriveReadAhead};
use super::{Hit, Model, SectorAddress, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// What changes of a drive.
#[derive(Clone, Debug)]
pub(super) struct DriveState {
    pub segments: Segments,
    pub arm: ArmPosition,
    pub alone: BackgroundActivity,
    after_write: bool,
    /// The last reads, for drives that read on only behind streams.
    pub reads: [RecentRead; 4],
    pub reads_at: usize,
}

/// Blocks that a share of the request (or of a segment) comes to; at least one.
fn mark(cache: &DriveCacheSpec, share: f64, blocks: u32) -> u32 {
    let of = if cache.mark_of_request { blocks } else { cache.segment_blocks };
    ((f64::from(of) * share) as u32).clamp(1, blocks.max(1))
}

impl DriveState {
    pub fn new(model: &Model) -> DriveState {
        DriveState {
            segments: Segments::new(&model.cache),
            arm: ArmPosition::default(),
            alone: BackgroundActivity::Nothing,
            after_write: false,
            reads: [RecentRead::NONE; 4],
            reads_at: 0,
        }
    }

    #[inline]
    pub fn serve(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let io = &model.within(io);
        let fits = u64::from(io.blocks) <= self.segments.blocks && model.cache.segments > 0;
        let service = match (io.write, model.cache.reports_early && fits) {
            (false, _) => self.read(model, now, io, channel_free),
            (true, true) => self.write_early(model, now, io, channel_free),
            (true, false) => self.write_through(model, now, io, channel_free),
        };
        self.after_write = io.write;
        service
    }

    /// What is still being written is waited for; what is being read on goes on.
    pub fn flush(&mut self, model: &Model, now: Ns) -> ServiceBreakdown {
        let command = model.overheads.write_hit[usize::from(self.after_write)];
        let written = match self.alone {
            BackgroundActivity::Behind { .. } => self.settle(model, now),
            _ => now,
        };
        let done = (now + command).max(written) + model.overheads.write_done;
        let waiting = written.saturating_sub(now + command);
        let overhead = command + model.overheads.write_done;
        ServiceBreakdown { done, waiting, overhead, channel_from: done, ..ServiceBreakdown::of(Hit::Miss) }
    }

    pub fn cylinder(&self) -> u32 {
        self.arm.cylinder
    }

    #[inline]
    pub fn positioning(&self, model: &Model, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        let overheads = &model.overheads;
        let after = usize::from(self.after_write);
        // what goes on from where the drive is reading or writing anyway is there next
        let (reading, writing) = match self.alone {
            BackgroundActivity::Ahead { segment, limit, .. } => (Some(segment).filter(|_| io.first < limit), None),
            BackgroundActivity::Behind { end, .. } => (None, Some(end)),
            BackgroundActivity::Nothing => (None, None),
        };
        if io.write && writing == Some(io.first) {
            return 0;
        }
        if !io.write
            && let Some(at) = self.segments.holding(io.first, reading.is_some() && model.cache.almost_hits)
            && (io.end() <= self.segments.get(at).end || reading == Some(at))
        {
            return 0;
        }
        if if io.write { self.is_appended(model, now, io) } else { self.is_being_read(model, now, io.first) } {
            return 0;
        }
        let command = if io.write { overheads.write_miss[after] } else { overheads.read_miss[after] };
        let begin = match self.alone {
            BackgroundActivity::Behind { at, .. } => now.max(at),
            _ => now,
        };
        let free = begin + command;
        free - now + model.mechanism.positioning(free, &self.arm, place, io.write)
    }

    /// True for a write that goes on where the one that is just being written ends.
    #[inline]
    fn is_appended(&self, model: &Model, now: Ns, io: &Io) -> bool {
        let BackgroundActivity::Behind { end, at, .. } = self.alone else { return false };
        model.cache.reports_early && end == io.first && at > now && u64::from(io.blocks) <= self.segments.blocks
    }

    /// True for a block that reading on will have come to by now, so that a read from
    /// there goes on with it at once.
    #[inline]
    fn is_being_read(&self, model: &Model, now: Ns, block: u64) -> bool {
        let BackgroundActivity::Ahead { segment, next, limit, at, .. } = self.alone else { return false };
        // one comparison tells nearly all apart: a segment holds no more, and its limit is as far ahead at most
        if limit.wrapping_sub(block) > 2 * self.segments.blocks
            || !model.cache.keeps
            || block < self.segments.get(segment).start
        {
            return false;
        }
        let sector = model.mechanism.span(&model.mechanism.geometry.place(next), 1).max(1);
        let reached = (next + now.saturating_sub(at) / sector).min(limit);
        if model.cache.almost_hits { block <= reached } else { block < reached }
    }

    fn read(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let free = self.settle(model, now);
        let waiting = free - now;
        let ahead = matches!(self.alone, BackgroundActivity::Ahead { .. });
        let found = self.segments.holding(io.first, ahead && model.cache.almost_hits);
        match found {
            Some(at) if io.end() <= self.segments.get(at).end => {
                self.full_hit(model, free, waiting, io, at, channel_free)
            }
            Some(at) => self.part_hit(model, free, waiting, io, at, channel_free),
            None => self.read_miss(model, free, waiting, io, channel_free),
        }
    }

    fn full_hit(
        &mut self,
        model: &Model,
        now: Ns,
        waiting: Ns,
        io: &Io,
        at: usize,
        channel_free: Ns,
    ) -> ServiceBreakdown {
        let command = model.overheads.read_hit[usize::from(self.after_write)];
        let sending = (now + command + model.overheads.prepare).max(channel_free);
        let channel = u64::from(io.blocks) * model.channel.read_block;
        let done = sending + channel + model.overheads.read_done;
        self.segments.touch(at);
        let cache = &model.cache;
        // what was sent makes room, and the segment is filled again
        let refills = cache.ahead == DriveReadAhead::Segment && cache.ahead_over_read;
        let most = u64::from(cache.most_ahead).min(self.segments.blocks);
        match &mut self.alone {
            BackgroundActivity::Ahead { segment, limit, .. }
                if *segment == at && cache.ahead == DriveReadAhead::Segment =>
            {
                *limit = (*limit).max(io.end() + most).min(model.blocks());
            }
            BackgroundActivity::Ahead { .. } => {}
            _ if refills || cache.ahead_on_hit => {
                let next = self.segments.get(at).end;
                let limit = (io.end() + most).min(model.blocks());
                if limit > next {
                    self.alone = BackgroundActivity::Ahead { segment: at, next, limit, must: next, at: sending };
                }
            }
            _ => {}
        }
        ServiceBreakdown {
            done,
            waiting,
            overhead: done - now - channel,
            channel,
            channel_from: sending,
            channel_for: channel,
            ..ServiceBreakdown::of(Hit::Full)
        }
    }

    /// The first blocks are in the buffer; the others are being read on, or must be read.
    fn part_hit(
        &mut self,
        model: &Model,
        now: Ns,
        waiting: Ns,
        io: &Io,
        at: usize,
        channel_free: Ns,
    ) -> ServiceBreakdown {
        let segment = self.segments.get(at);
        let overheads = &model.overheads;
        let command = overheads.read_hit[usize::from(self.after_write)];
        let start = now + command;
        let have = (segment.end - io.first) as u32;
        let block = model.channel.read_block;
        let stream =
            ChannelStream { block, mark: 1, from: overheads.prepare, free: channel_free, blocks: io.blocks - have };
        let from = match self.alone {
            // it goes on from where the head is now
            BackgroundActivity::Ahead { segment, at: then, .. } if segment == at => then,
            _ => self.stop_reading_on(model, now).max(start),
        };
        let passage = model.mechanism.read(from, &mut self.arm, segment.end, &stream, false);
        let sending = (start + overheads.prepare).max(channel_free);
        let all = sending + u64::from(io.blocks) * block;
        let done = passage.sent.max(all) + overheads.read_done;
        if let Some(segment) = self.segments.get_mut(at) {
            segment.end = io.end();
        }
        self.segments.touch(at);
        self.trim(at);
        self.read_on(model, passage.end, at, io);
        let media = passage.end.saturating_sub(start);
        ServiceBreakdown {
            done,
            waiting,
            overhead: command + overheads.prepare + overheads.read_done,
            rotation: media.saturating_sub(passage.transfer),
            media: media.min(passage.transfer),
            channel: done.saturating_sub(passage.end.max(start)),
            channel_from: sending,
            channel_for: done - overheads.read_done - sending,
            ..ServiceBreakdown::of(Hit::Part)
        }
    }

    fn read_miss(&mut self, model: &Model, now: Ns, waiting: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let command = overheads.read_miss[usize::from(self.after_write)];
        let free = self.stop_reading_on(model, now);
        let start = now + command;
        let begin = start.max(free);
        let again = if model.channel.never_leaves { 0 } else { overheads.reselect };
        let prepare = again + overheads.prepare;
        let stream = ChannelStream {
            block: model.channel.read_block,
            mark: mark(&model.cache, model.cache.read_mark, io.blocks),
            from: prepare,
            free: channel_free,
            blocks: io.blocks,
        };
        let passage = model.mechanism.read(begin, &mut self.arm, io.first, &stream, model.cache.read_on_arrival);
        let done = passage.sent + overheads.read_done;
        let first = if model.cache.keeps_passing { self.passed(model, io, passage.rotation) } else { io.first };
        match self.segments.take(first, io.end(), false) {
            Some(at) => self.read_on(model, passage.end, at, io),
            None => self.alone = BackgroundActivity::Nothing,
        }
        ServiceBreakdown {
            done,
            waiting: waiting + (begin - start),
            overhead: command + prepare + overheads.read_done,
            seek: passage.seek,
            rotation: passage.rotation,
            media: passage.transfer,
            channel: passage.sent.saturating_sub(passage.end + prepare),
            channel_from: passage.sending,
            channel_for: passage.sent - passage.sending,
            ..ServiceBreakdown::of(Hit::Miss)
        }
    }

    /// The first block that passed under the head before the wanted ones.
    fn passed(&self, model: &Model, io: &Io, rotation: Ns) -> u64 {
        let place = model.mechanism.geometry.place(io.first);
        let sector = model.mechanism.span(&place, 1).max(1);
        io.first - (rotation / sector).min(u64::from(place.sector)).min(io.first)
    }

    fn write_early(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let command = overheads.write_hit[usize::from(self.after_write)];
        let appends = match self.alone {
            BackgroundActivity::Behind { segment, end, at } if end == io.first && at > now => Some((segment, at)),
            _ => None,
        };
        let free = match appends {
            // it waits until the segments for writes have room behind what is still to be written
            Some((_, at)) => {
                let sector = model.mechanism.span(&model.mechanism.geometry.place(io.first), 1);
                let all = self.segments.blocks * u64::from(model.cache.write_segments.max(1));
                now.max(at.saturating_sub(all.saturating_sub(u64::from(io.blocks)) * sector))
            }
            None => self.settle(model, now),
        };
        let stopped = self.stop_reading_on(model, free);
        let sending = (free + command + overheads.prepare).max(channel_free);
        let block = model.channel.write_block;
        let channel = u64::from(io.blocks) * block;
        let stream = ChannelStream { block, mark: 1, from: sending, free: channel_free, blocks: io.blocks };
        let begin = match appends {
            Some((_, at)) => at,
            None => (free + command).max(stopped),
        };
        let on_arrival = model.cache.write_on_arrival;
        let least = overheads.least_seek;
        let passage = model.mechanism.write(begin, &mut self.arm, io.first, &stream, on_arrival, least);
        let segment = match appends {
            Some((Some(at), _)) => {
                if let Some(segment) = self.segments.get_mut(at) {
                    segment.end = io.end();
                }
                self.trim(at);
                Some(at)
            }
            _ => self.segments.take(io.first, io.end(), true),
        };
        self.segments.forget(io.first, io.end(), segment);
        self.alone = BackgroundActivity::Behind { segment, end: io.end(), at: passage.end };
        let done = sending + channel + overheads.write_done;
        ServiceBreakdown {
            done,
            waiting: free - now,
            overhead: done - free - channel,
            channel,
            channel_from: sending,
            channel_for: channel,
            ..ServiceBreakdown::of(Hit::Early)
        }
    }

    fn write_through(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let free = self.settle(model, now);
        let stopped = self.stop_reading_on(model, free);
        let (arm_from, sending) = match &overheads.early_disconnect {
            Some(early) => {
                let start = free + early.command;
                let data = start + early.disconnect + early.pause + overheads.reselect + overheads.prepare;
                (start + early.seek, data)
            }
            None => {
                let start = free + overheads.write_miss[usize::from(self.after_write)];
                (start, start + overheads.prepare)
            }
        };
        let begin = arm_from.max(stopped);
        let block = model.channel.write_block;
        let sending = sending.max(channel_free);
        let stream = ChannelStream { block, mark: 1, from: sending, free: channel_free, blocks: io.blocks };
        let on_arrival = model.cache.write_on_arrival;
        let least = overheads.least_seek;
        let passage = model.mechanism.write(begin, &mut self.arm, io.first, &stream, on_arrival, least);
        let again = match (&overheads.early_disconnect, model.channel.never_leaves) {
            (_, true) => 0,
            (Some(_), _) => overheads.reselect_again,
            (None, _) => overheads.reselect,
        };
        let segment = self.segments.take(io.first, io.end(), true);
        self.segments.forget(io.first, io.end(), segment);
        self.alone = BackgroundActivity::Nothing;
        ServiceBreakdown {
            done: passage.end + again + overheads.write_done,
            waiting: free - now + (begin - arm_from),
            overhead: arm_from - free + again + overheads.write_done,
            seek: passage.seek,
            rotation: passage.rotation,
            media: passage.transfer,
            channel: 0,
            channel_from: sending,
            channel_for: u64::from(io.blocks) * block,
            hit: Hit::Miss,
        }
    }
}
