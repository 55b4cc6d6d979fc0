//! Reads: from the buffer, partly from it, from the disk.

use super::ahead::BackgroundActivity;
use super::cache::CacheQuery;
use super::flow::BurstRules;
use super::mechanism::{ChannelStream, MediaTransfer};
use super::serve::{DriveState, mark};
use super::{Hit, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Start of a read that needs the disk.
#[derive(Clone, Copy, Debug)]
struct ReadBegin {
    /// Time at which the command was received.
    now: Ns,
    /// Segment with its first blocks.
    segment: Option<usize>,
    /// Time from which the channel is kept.
    connected: Option<Ns>,
    /// Otherwise, time from which the channel can be acquired.
    free: Ns,
    /// Time of the command before the arm starts.
    command: Ns,
    /// Time at which the arm is free.
    arm_free: Ns,
}

impl DriveState {
    /// Serves a read: from the buffer, partly from it, or from the disk.
    pub fn read(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let after = usize::from(self.after_write);
        let (overheads, cache) = (&model.overheads, &model.cache);
        let query = self.query(now, io);
        let found = self.segments.find(&query);
        let buffered =
            found.map_or(0, |index| self.segments.get(index).end.saturating_sub(io.first).min(u64::from(io.blocks)));
        let is_full = buffered == u64::from(io.blocks);
        // dirty blocks in another segment must not be bypassed
        let clear =
            || found.is_some_and(|index| self.segments.get(index).clean_at > now) || !self.segments.collides(&query);
        let waits = match self.alone {
            BackgroundActivity::Behind { time, .. } => time > now && !(cache.hits_aside && is_full && clear()),
            BackgroundActivity::Ahead { segment, next, min_end, .. } => next < min_end && found != Some(segment),
            BackgroundActivity::Nothing => false,
        };
        if waits {
            return self.read_behind(model, now, io, channel_free);
        }
        let start = now + overheads.read_hit[after] + overheads.prepare;
        let enough =
            buffered > 0 && (cache.sends_part || buffered >= u64::from(mark(cache, cache.read_mark, io.blocks)));
        if let (true, Some(index)) = (is_full, found) {
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

    /// Serves a read that waits for background activity which must finish first.
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

    /// Serves a read that is entirely in the buffer; it is sent from `sending` on.
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

    /// Drops the blocks of a read once they were sent, if the drive does not keep them.
    fn sent(&mut self, model: &Model, index: usize, io: &Io) {
        if model.cache.forgets_read
            && let Some(segment) = self.segments.get_mut(index)
        {
            segment.start = segment.start.max(io.end().min(segment.end));
        }
    }

    /// Fetches blocks from the disk, after those that the buffer holds or is reading.
    fn fetch(&mut self, model: &Model, io: &Io, begin: &ReadBegin) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let start = begin.now + begin.command;
        let reading = self.reading();
        let continued_at = match self.alone {
            BackgroundActivity::Ahead { segment, time, .. } if begin.segment == Some(segment) => Some(time),
            _ => None,
        };
        let from = match continued_at {
            // the running read-ahead continues from the head's position
            Some(then) => then,
            None => self.stop_reading_on(model, begin.now, io).max(begin.arm_free).max(start),
        };
        let first = begin.segment.map_or(io.first, |index| self.segments.get(index).end);
        let have = (first - io.first) as u32;
        let transfer = self.pass(model, io, begin, (from, first, have));
        let done = transfer.sent + overheads.read_done;
        self.keep(model, io, begin.segment, reading, &transfer);
        let waiting = if continued_at.is_some() { 0 } else { from - start };
        let left = (transfer.end - from.min(transfer.end)).saturating_sub(transfer.seek + transfer.transfer);
        let shown =
            |part: Ns| if continued_at.is_some() { part.min(transfer.end.saturating_sub(begin.now)) } else { part };
        let (seek, media) = (shown(transfer.seek), shown(transfer.transfer));
        let channel = transfer.sent.saturating_sub(transfer.end.max(begin.now + begin.command));
        let known = waiting + seek + media + channel;
        let rotation = if continued_at.is_some() { 0 } else { left.min(transfer.rotation) };
        let channel_for = connected_for(model, io, &transfer);
        ServiceBreakdown {
            done,
            waiting,
            overhead: (done - begin.now).saturating_sub(known + rotation),
            seek,
            rotation,
            media,
            channel,
            channel_from: transfer.sent - channel_for,
            channel_for,
            hit: if have > 0 || continued_at.is_some() { Hit::Part } else { Hit::Miss },
        }
    }

    /// Computes the transfer of a read over disk and channel; its first `have` blocks are in the buffer.
    fn pass(&mut self, model: &Model, io: &Io, begin: &ReadBegin, media: (Ns, u64, u32)) -> MediaTransfer {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let (from, first, have) = media;
        let (leave, again) = (overheads.read_leave[usize::from(self.after_write)], overheads.reselect);
        let holds = channel.holds_reads || channel.never_leaves;
        let mark = mark(cache, cache.read_mark, io.blocks).min(io.blocks);
        let taken = again + overheads.prepare;
        let reconnects = !holds && (leave + taken > 0 || mark > 1);
        if io.blocks > cache.room || reconnects {
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
        let mut transfer = model.mechanism.read(from, &mut self.arm, first, &stream, cache.read_on_arrival);
        if have > 0 {
            let sending = match begin.connected {
                Some(connected) => connected,
                None if have >= mark => begin.free + taken,
                None => transfer.sending,
            };
            transfer.sent = transfer.sent.max(sending + u64::from(io.blocks) * channel.read_block);
            transfer.sending = sending;
        }
        transfer
    }

    /// Keeps the data of a read in a segment, and starts reading ahead.
    fn keep(
        &mut self,
        model: &Model,
        io: &Io,
        segment: Option<usize>,
        reading: Option<usize>,
        transfer: &MediaTransfer,
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
                let mut query = CacheQuery { reading, ..self.query(transfer.end, io) };
                if model.cache.keeps_passing {
                    query.start = self.passed(model, io, transfer.rotation);
                }
                self.segments.take(&query)
            }
        };
        match index {
            Some(index) => {
                self.read_on(model, transfer.end, index, io);
                self.sent(model, index, io);
                if !model.cache.keeps {
                    self.segments.clear(index);
                }
            }
            None => self.alone = BackgroundActivity::Nothing,
        }
    }

    /// Returns the first block that passed under the head before the requested ones.
    fn passed(&self, model: &Model, io: &Io, rotation: Ns) -> u64 {
        let place = model.mechanism.geometry.place(io.first);
        let sector = model.mechanism.span(&place, 1).max(1);
        io.first - (rotation / sector).min(u64::from(place.sector)).min(io.first)
    }
}

/// Returns how long a read holds the channel. A drive that may disconnect fills its buffer at the rate of the disk and
/// reconnects for as long as its bytes take at the channel's rate, so that the last block goes as soon as it is read: a
/// connection that disconnects in between holds the channel for no longer in total.
fn connected_for(model: &Model, io: &Io, transfer: &MediaTransfer) -> Ns {
    let kept = transfer.sent - transfer.sending;
    let holds = model.channel.holds_reads || model.channel.never_leaves;
    if holds { kept } else { kept.min(u64::from(io.blocks) * model.channel.read_block) }
}
