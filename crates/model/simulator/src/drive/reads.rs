//! Reads: from the buffer, partly from it, from the disk.

use super::ahead::BackgroundActivity;
use super::cache::CacheQuery;
use super::flow::BurstRules;
use super::mechanism::{ChannelStream, MediaTransfer};
use super::serve::{DriveState, mark};
use super::{Hit, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// How a read that needs the disk begins.
#[derive(Clone, Copy, Debug)]
struct ReadBegin {
    /// When the command came.
    now: Ns,
    /// The segment with its first blocks.
    segment: Option<usize>,
    /// The channel is kept from then on.
    connected: Option<Ns>,
    /// Otherwise it can be taken from then on.
    free: Ns,
    /// What the command takes before the arm sets out.
    command: Ns,
    /// When the arm is free.
    arm_free: Ns,
}

impl DriveState {
    pub fn read(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let after = usize::from(self.after_write);
        let (overheads, cache) = (&model.overheads, &model.cache);
        let query = self.query(now, io);
        let found = self.segments.find(&query);
        let held =
            found.map_or(0, |index| self.segments.get(index).end.saturating_sub(io.first).min(u64::from(io.blocks)));
        let whole = held == u64::from(io.blocks);
        // dirty blocks that another segment holds must not be passed by
        let clear =
            || found.is_some_and(|index| self.segments.get(index).clean_at > now) || !self.segments.collides(&query);
        let waits = match self.alone {
            BackgroundActivity::Behind { time, .. } => time > now && !(cache.hits_aside && whole && clear()),
            BackgroundActivity::Ahead { segment, next, must, .. } => next < must && found != Some(segment),
            BackgroundActivity::Nothing => false,
        };
        if waits {
            return self.read_behind(model, now, io, channel_free);
        }
        let start = now + overheads.read_hit[after] + overheads.prepare;
        let enough = held > 0 && (cache.sends_part || held >= u64::from(mark(cache, cache.read_mark, io.blocks)));
        if let (true, Some(index)) = (whole, found) {
            return self.full_hit(model, now, io, index, start.max(channel_free));
        }
        let miss = overheads.read_miss[after];
        let stays = model.channel.never_leaves;
        let kept = if enough { Some(start) } else { stays.then_some(now + miss + overheads.prepare) };
        let begin = ReadBegin {
            now,
            segment: found,
            connected: kept.map(|from| from.max(channel_free)),
            free: (now + miss + overheads.read_leave[after]).max(channel_free),
            command: miss,
            arm_free: now,
        };
        self.fetch(model, io, &begin)
    }

    /// The disk is at work on what must be done first.
    fn read_behind(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let after = usize::from(self.after_write);
        let overheads = &model.overheads;
        let arm_free = match self.writing(now) {
            Some(index) => {
                self.alone = BackgroundActivity::Nothing;
                index
            }
            None => self.stop_reading_on(model, now, io),
        };
        let command = overheads.read_miss[after];
        let left = now + command + overheads.read_leave[after];
        let stays = model.channel.never_leaves;
        let kept = stays.then_some((now + command + overheads.prepare).max(channel_free));
        let query = self.query(arm_free, io);
        let found = self.segments.find(&query);
        if let Some(index) = found.filter(|index| self.segments.get(*index).end >= io.end()) {
            let taken = left.max(arm_free).max(channel_free) + overheads.reselect + overheads.prepare;
            let sending = kept.map_or(taken, |from| from.max(arm_free));
            let mut service = self.full_hit(model, now, io, index, sending);
            service.waiting = arm_free.saturating_sub(now + command);
            service.overhead = service.overhead.saturating_sub(service.waiting);
            return service;
        }
        let free = left.max(channel_free);
        self.fetch(model, io, &ReadBegin { now, segment: found, connected: kept, free, command, arm_free })
    }

    /// All is in the buffer; it is sent from `sending` on.
    fn full_hit(&mut self, model: &Model, now: Ns, io: &Io, index: usize, sending: Ns) -> ServiceBreakdown {
        let channel = u64::from(io.blocks) * model.channel.read_block;
        let done = sending + channel + model.overheads.read_done;
        self.segments.touch(index);
        let from = now + model.overheads.read_miss[usize::from(self.after_write)];
        self.read_on_from_hit(model, from, index, io);
        self.sent(model, index, io);
        ServiceBreakdown {
            done,
            overhead: done - now - channel,
            channel,
            channel_from: sending,
            channel_for: channel,
            ..ServiceBreakdown::of(Hit::Full)
        }
    }

    /// What is left of a read once its data were sent.
    fn sent(&mut self, model: &Model, index: usize, io: &Io) {
        if model.cache.forgets_read
            && let Some(segment) = self.segments.get_mut(index)
        {
            segment.start = segment.start.max(io.end().min(segment.end));
        }
    }

    /// Blocks come from the disk, behind those that the buffer holds or is just reading.
    fn fetch(&mut self, model: &Model, io: &Io, begin: &ReadBegin) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let start = begin.now + begin.command;
        let reading = self.reading();
        let goes_on = match self.alone {
            BackgroundActivity::Ahead { segment, time, .. } if begin.segment == Some(segment) => Some(time),
            _ => None,
        };
        let from = match goes_on {
            // it goes on from where the head is now
            Some(then) => then,
            None => self.stop_reading_on(model, begin.now, io).max(begin.arm_free).max(start),
        };
        let first = begin.segment.map_or(io.first, |index| self.segments.get(index).end);
        let have = (first - io.first) as u32;
        let passage = self.pass(model, io, begin, (from, first, have));
        let done = passage.sent + overheads.read_done;
        self.keep(model, io, begin.segment, reading, &passage);
        let waiting = if goes_on.is_some() { 0 } else { from - start };
        let left = (passage.end - from.min(passage.end)).saturating_sub(passage.seek + passage.transfer);
        let shown = |part: Ns| if goes_on.is_some() { part.min(passage.end.saturating_sub(begin.now)) } else { part };
        let (seek, media) = (shown(passage.seek), shown(passage.transfer));
        let channel = passage.sent.saturating_sub(passage.end.max(begin.now + begin.command));
        let known = waiting + seek + media + channel;
        let rotation = if goes_on.is_some() { 0 } else { left.min(passage.rotation) };
        let channel_for = connected_for(model, io, &passage);
        ServiceBreakdown {
            done,
            waiting,
            overhead: (done - begin.now).saturating_sub(known + rotation),
            seek,
            rotation,
            media,
            channel,
            channel_from: passage.sent - channel_for,
            channel_for,
            hit: if have > 0 || goes_on.is_some() { Hit::Part } else { Hit::Miss },
        }
    }

    /// Disk and channel at work on a read, whose first `have` blocks are in the buffer.
    fn pass(&mut self, model: &Model, io: &Io, begin: &ReadBegin, media: (Ns, u64, u32)) -> MediaTransfer {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let (from, first, have) = media;
        let (leave, again) = (overheads.read_leave[usize::from(self.after_write)], overheads.reselect);
        let holds = channel.holds_reads || channel.never_leaves;
        let mark = mark(cache, cache.read_mark, io.blocks).min(io.blocks);
        let taken = again + overheads.prepare;
        let comes_and_goes = !holds && (leave + taken > 0 || mark > 1);
        if io.blocks > cache.room || comes_and_goes {
            let rules = BurstRules {
                block: channel.read_block,
                holds,
                mark,
                leave,
                again: taken,
                connected: begin.connected,
                free: begin.free,
                room: cache.room.min(io.blocks),
                into_buffer: cache.reads_into_buffer,
            };
            return model.mechanism.read_in_bursts(from, &mut self.arm, (first, io.blocks - have), have, &rules);
        }
        let stream = ChannelStream {
            block: channel.read_block,
            mark: if begin.connected.is_some() { 1 } else { mark.saturating_sub(have).max(1) },
            from: if begin.connected.is_some() { 0 } else { taken },
            free: begin.connected.unwrap_or(begin.free),
            blocks: io.blocks - have,
        };
        let mut passage = model.mechanism.read(from, &mut self.arm, first, &stream, cache.read_on_arrival);
        if have > 0 {
            let sending = match begin.connected {
                Some(connected) => connected,
                None if have >= mark => begin.free + taken,
                None => passage.sending,
            };
            passage.sent = passage.sent.max(sending + u64::from(io.blocks) * channel.read_block);
            passage.sending = sending;
        }
        passage
    }

    /// Keeps what was read in a segment, and begins to read on.
    fn keep(
        &mut self,
        model: &Model,
        io: &Io,
        segment: Option<usize>,
        reading: Option<usize>,
        passage: &MediaTransfer,
    ) {
        let index = match segment {
            Some(index) => {
                if let Some(segment) = self.segments.get_mut(index) {
                    segment.end = segment.end.max(io.end());
                }
                self.segments.touch(index);
                self.trim(index);
                Some(index)
            }
            None => {
                let mut query = CacheQuery { reading, ..self.query(passage.end, io) };
                if model.cache.keeps_passing {
                    query.start = self.passed(model, io, passage.rotation);
                }
                self.segments.take(&query)
            }
        };
        match index {
            Some(index) => {
                self.read_on(model, passage.end, index, io);
                self.sent(model, index, io);
                if !model.cache.keeps {
                    self.segments.clear(index);
                }
            }
            None => self.alone = BackgroundActivity::Nothing,
        }
    }

    /// The first block that passed under the head before the wanted ones.
    fn passed(&self, model: &Model, io: &Io, rotation: Ns) -> u64 {
        let place = model.mechanism.geometry.place(io.first);
        let sector = model.mechanism.span(&place, 1).max(1);
        io.first - (rotation / sector).min(u64::from(place.sector)).min(io.first)
    }
}

/// How long a read has the channel. A drive that may leave it fills its buffer at the rate of the disk
/// and comes back for as long as its bytes take at the channel's rate, so that the last block goes as
/// soon as it is read: a connection that disconnects in between has the channel for no longer in all.
fn connected_for(model: &Model, io: &Io, passage: &MediaTransfer) -> Ns {
    let kept = passage.sent - passage.sending;
    let holds = model.channel.holds_reads || model.channel.never_leaves;
    if holds { kept } else { kept.min(u64::from(io.blocks) * model.channel.read_block) }
}
