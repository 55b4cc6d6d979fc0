//! Reads: from the buffer, partly from it, from the disk.

use super::background::BackgroundActivity;
use super::burst_transfer::BurstRules;
use super::drive_state::{DriveState, mark_blocks};
use super::mechanism::{ChannelStream, MediaTransfer};
use super::segments::CacheQuery;
use super::{CacheOutcome, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Start of a read that needs the disk.
#[derive(Clone, Copy, Debug)]
struct ReadStart {
    /// Time at which the command was received.
    received_at: Ns,
    /// Segment with its first blocks.
    segment: Option<usize>,
    /// Time from which the channel is kept.
    connected_from: Option<Ns>,
    /// If the channel is not kept, time from which it can be acquired.
    channel_free: Ns,
    /// Time of the command before the arm starts.
    command_time: Ns,
    /// Time at which the arm is free.
    arm_free: Ns,
}

impl DriveState {
    /// Serves a read: from the buffer, partly from it, or from the disk.
    pub fn serve_read(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let after = usize::from(self.after_write);
        let (overheads, cache) = (&model.overheads, &model.cache);
        let query = self.build_query(now, io);
        let found = self.segments.find_segment(&query);
        let buffered =
            found.map_or(0, |index| self.segments.get(index).end.saturating_sub(io.first).min(u64::from(io.blocks)));
        let is_full = buffered == u64::from(io.blocks);
        // dirty blocks in another segment must not be bypassed
        let can_bypass_writes = || {
            found.is_some_and(|index| self.segments.get(index).clean_at > now)
                || !self.segments.has_unwritten_overlap(&query)
        };
        let waits = match self.background {
            BackgroundActivity::WriteBehind { time, .. } => {
                time > now && !(cache.serves_hits_during_writes && is_full && can_bypass_writes())
            }
            BackgroundActivity::ReadAhead { segment, next, min_end, .. } => next < min_end && found != Some(segment),
            BackgroundActivity::Nothing => false,
        };
        if waits {
            return self.serve_read_after_background(model, now, io, channel_free);
        }
        let start = now + overheads.read_hit[after] + overheads.prepare;
        let can_send =
            buffered > 0 && (cache.sends_part || buffered >= u64::from(mark_blocks(cache, cache.read_mark, io.blocks)));
        if let (true, Some(index)) = (is_full, found) {
            return self.serve_full_hit(model, now, io, index, start.max(channel_free));
        }
        let miss = overheads.read_miss[after];
        let never_disconnects = model.channel.never_disconnects;
        let connected_from =
            if can_send { Some(start) } else { never_disconnects.then_some(now + miss + overheads.prepare) };
        let begin = ReadStart {
            received_at: now,
            segment: found,
            connected_from: connected_from.map(|from| from.max(channel_free)),
            channel_free: (now + miss + overheads.read_disconnect[after]).max(channel_free),
            command_time: miss,
            arm_free: now,
        };
        self.fetch_from_disk(model, io, &begin)
    }

    /// Serves a read that waits for background activity which must finish first.
    fn serve_read_after_background(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let after = usize::from(self.after_write);
        let overheads = &model.overheads;
        let arm_free = match self.write_behind_end(now) {
            Some(written_at) => {
                self.background = BackgroundActivity::Nothing;
                written_at
            }
            None => self.stop_read_ahead(model, now, io),
        };
        let command = overheads.read_miss[after];
        let released_at = now + command + overheads.read_disconnect[after];
        let never_disconnects = model.channel.never_disconnects;
        let connected_from = never_disconnects.then_some((now + command + overheads.prepare).max(channel_free));
        let query = self.build_query(arm_free, io);
        let found = self.segments.find_segment(&query);
        if let Some(index) = found.filter(|index| self.segments.get(*index).end >= io.end()) {
            let reacquired_at = released_at.max(arm_free).max(channel_free) + overheads.reselect + overheads.prepare;
            let sending = connected_from.map_or(reacquired_at, |from| from.max(arm_free));
            let mut service = self.serve_full_hit(model, now, io, index, sending);
            service.waiting = arm_free.saturating_sub(now + command);
            service.overhead = service.overhead.saturating_sub(service.waiting);
            return service;
        }
        self.fetch_from_disk(
            model,
            io,
            &ReadStart {
                received_at: now,
                segment: found,
                connected_from,
                channel_free: released_at.max(channel_free),
                command_time: command,
                arm_free,
            },
        )
    }

    /// Serves a read that is entirely in the buffer; it is sent from `sending` on.
    fn serve_full_hit(&mut self, model: &Model, now: Ns, io: &Io, index: usize, sending: Ns) -> ServiceBreakdown {
        let channel = u64::from(io.blocks) * model.channel.read_block;
        let done = sending + channel + model.overheads.read_done;
        self.segments.mark_used(index);
        let from = now + model.overheads.read_miss[usize::from(self.after_write)];
        self.continue_read_ahead_after_hit(model, from, index, io);
        self.drop_sent_blocks(model, index, io);
        ServiceBreakdown {
            done_at: done,
            overhead: done - now - channel,
            channel,
            channel_start: sending,
            channel_time: channel,
            ..ServiceBreakdown::for_outcome(CacheOutcome::Full)
        }
    }

    /// Drops the blocks of a read once they were sent, if the drive does not keep them.
    fn drop_sent_blocks(&mut self, model: &Model, index: usize, io: &Io) {
        if model.cache.forgets_read
            && let Some(segment) = self.segments.get_mut(index)
        {
            segment.start = segment.start.max(io.end().min(segment.end));
        }
    }

    /// Fetches blocks from the disk, after those that the buffer holds or is reading.
    fn fetch_from_disk(&mut self, model: &Model, io: &Io, begin: &ReadStart) -> ServiceBreakdown {
        let overheads = &model.overheads;
        let start = begin.received_at + begin.command_time;
        let reading = self.read_ahead_segment();
        let continued_at = match self.background {
            BackgroundActivity::ReadAhead { segment, time, .. } if begin.segment == Some(segment) => Some(time),
            _ => None,
        };
        let from = match continued_at {
            // the running read-ahead continues from the head's position
            Some(time) => time,
            None => self.stop_read_ahead(model, begin.received_at, io).max(begin.arm_free).max(start),
        };
        let first = begin.segment.map_or(io.first, |index| self.segments.get(index).end);
        let have = (first - io.first) as u32;
        let transfer = self.transfer_read(model, io, begin, (from, first, have));
        let done = transfer.sent + overheads.read_done;
        self.keep_read(model, io, begin.segment, reading, &transfer);
        let waiting = if continued_at.is_some() { 0 } else { from - start };
        let not_moving = (transfer.end - from.min(transfer.end)).saturating_sub(transfer.seek + transfer.media);
        // a continued read-ahead may have begun before the request, which sees only the time since its command
        let seen_by_request = |part: Ns| {
            if continued_at.is_some() { part.min(transfer.end.saturating_sub(begin.received_at)) } else { part }
        };
        let (seek, media) = (seen_by_request(transfer.seek), seen_by_request(transfer.media));
        let channel = transfer.sent.saturating_sub(transfer.end.max(begin.received_at + begin.command_time));
        let known = waiting + seek + media + channel;
        let rotation = if continued_at.is_some() { 0 } else { not_moving.min(transfer.rotation) };
        let hold_time = channel_hold_time(model, io, &transfer);
        ServiceBreakdown {
            done_at: done,
            waiting,
            overhead: (done - begin.received_at).saturating_sub(known + rotation),
            seek,
            rotation,
            media,
            channel,
            channel_start: transfer.sent - hold_time,
            channel_time: hold_time,
            outcome: if have > 0 || continued_at.is_some() { CacheOutcome::Partial } else { CacheOutcome::Miss },
        }
    }

    /// Computes the transfer of a read over disk and channel; its first `have` blocks are in the buffer.
    fn transfer_read(&mut self, model: &Model, io: &Io, begin: &ReadStart, media: (Ns, u64, u32)) -> MediaTransfer {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let (from, first, have) = media;
        let release = overheads.read_disconnect[usize::from(self.after_write)];
        let holds = channel.holds_reads || channel.never_disconnects;
        let mark = mark_blocks(cache, cache.read_mark, io.blocks).min(io.blocks);
        let reacquire = overheads.reselect + overheads.prepare;
        let reconnects = !holds && (release + reacquire > 0 || mark > 1);
        if io.blocks > cache.buffer_blocks || reconnects {
            let rules = BurstRules {
                block_ns: channel.read_block,
                is_kept: holds,
                mark,
                release_ns: release,
                reacquire_ns: reacquire,
                connected_from: begin.connected_from,
                free_at: begin.channel_free,
                buffer_blocks: cache.buffer_blocks.min(io.blocks),
                into_buffer: cache.reads_into_buffer,
            };
            return model.mechanism.read_in_bursts(from, &mut self.arm, (first, io.blocks - have), have, &rules);
        }
        let stream = ChannelStream {
            block_ns: channel.read_block,
            mark: if begin.connected_from.is_some() { 1 } else { mark.saturating_sub(have).max(1) },
            delay: if begin.connected_from.is_some() { 0 } else { reacquire },
            free_at: begin.connected_from.unwrap_or(begin.channel_free),
            blocks: io.blocks - have,
        };
        let mut transfer = model.mechanism.read_blocks(from, &mut self.arm, first, &stream, cache.read_on_arrival);
        if have > 0 {
            let sending = match begin.connected_from {
                Some(connected) => connected,
                None if have >= mark => begin.channel_free + reacquire,
                None => transfer.sending_from,
            };
            transfer.sent = transfer.sent.max(sending + u64::from(io.blocks) * channel.read_block);
            transfer.sending_from = sending;
        }
        transfer
    }

    /// Keeps the data of a read in a segment, and starts reading ahead.
    fn keep_read(
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
                self.segments.mark_used(index);
                self.trim_segment(index);
                Some(index)
            }
            None => self.segments.allocate_segment(&CacheQuery { reading, ..self.build_query(transfer.end, io) }),
        };
        match index {
            Some(index) => {
                self.start_read_ahead(model, transfer.end, index, io);
                self.drop_sent_blocks(model, index, io);
                if !model.cache.keeps_data {
                    self.segments.clear_segment(index);
                }
            }
            None => self.background = BackgroundActivity::Nothing,
        }
    }
}

/// Returns how long a read holds the channel. A drive that may disconnect fills its buffer at the rate of the disk, and
/// reconnects for as long as its bytes take at the channel's rate, so that the last block is sent as soon as it is
/// read. A drive that disconnects in between holds the channel for no longer in total.
fn channel_hold_time(model: &Model, io: &Io, transfer: &MediaTransfer) -> Ns {
    let kept = transfer.sent - transfer.sending_from;
    let holds = model.channel.holds_reads || model.channel.never_disconnects;
    if holds { kept } else { kept.min(u64::from(io.blocks) * model.channel.read_block) }
}
