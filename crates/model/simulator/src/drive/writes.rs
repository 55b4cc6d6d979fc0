//! Writes: acknowledged once they are in the buffer, or once they are on the disk.

use super::background::BackgroundActivity;
use super::burst_transfer::BurstRules;
use super::drive_state::{DriveState, mark_blocks};
use super::mechanism::{ChannelStream, MediaTransfer};
use super::segments::CacheQuery;
use super::spec::{EarlyDisconnect, Overheads};
use super::{CacheOutcome, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Returns the blocks of a write that must be in the buffer before the disk begins: one; more for drives that
/// disconnect between a write's command and its data, as in DiskSim.
fn min_buffered_blocks(overheads: &Overheads, blocks: u32) -> u32 {
    match overheads.early_disconnect {
        None => 1,
        Some(_) if blocks < 45 => 10,
        Some(_) => 15,
    }
}

/// Start of a write.
#[derive(Clone, Copy, Debug)]
struct WriteStart {
    /// Time at which the arm starts.
    arm_start: Ns,
    /// Time at which the arm is free.
    arm_free: Ns,
    /// Time at which its data begins to arrive.
    data_start: Ns,
    /// Time of the command before the arm starts.
    command_time: Ns,
    /// Set if the drive disconnects between command and data.
    early_disconnect: Option<EarlyDisconnect>,
    /// True if it continues the write that is on its way to the disk.
    is_appended: bool,
}

impl DriveState {
    /// Serves a write, and returns its times up to the acknowledgement.
    pub fn serve_write(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let early = model.cache.acknowledges_early && model.cache.segments > 0;
        let reading = self.read_ahead_segment();
        let begin = self.begin_write(model, now, io, early, channel_free);
        let (transfer, buffered_at) = self.transfer_write(model, now, io, early, &begin);
        let overheads = &model.overheads;
        let (release, reselect) = match &begin.early_disconnect {
            Some(times) => (times.disconnect_again, overheads.reselect_again),
            None => (overheads.write_disconnect, overheads.reselect),
        };
        // a drive that never disconnects takes these times too, as in DiskSim: its file would give none if it did not
        let completed_at = if early { buffered_at } else { transfer.end.max(buffered_at + release) + reselect };
        self.keep_written(model, io, early, reading, &begin, transfer.end);
        let done = completed_at + overheads.write_done;
        let channel_time = u64::from(io.blocks) * model.channel.write_block;
        let service = ServiceBreakdown {
            done_at: done,
            channel_start: transfer.sending_from,
            channel_time,
            ..ServiceBreakdown::for_outcome(if early { CacheOutcome::Early } else { CacheOutcome::Miss })
        };
        if early {
            let waiting = (done - now).saturating_sub(begin.command_time + overheads.prepare + channel_time);
            let waiting = waiting.saturating_sub(overheads.write_done);
            return ServiceBreakdown {
                waiting,
                overhead: done - now - waiting - channel_time,
                channel: channel_time,
                ..service
            };
        }
        let waiting = begin.arm_start - (now + begin.command_time).min(begin.arm_start);
        let rotation = transfer.rotation;
        let known = waiting + transfer.seek + rotation + transfer.media;
        let overhead = (done - now).saturating_sub(known);
        ServiceBreakdown { waiting, overhead, seek: transfer.seek, rotation, media: transfer.media, ..service }
    }

    /// Returns when arm and data can begin.
    fn begin_write(&mut self, model: &Model, now: Ns, io: &Io, early: bool, channel_free: Ns) -> WriteStart {
        let (overheads, cache) = (&model.overheads, &model.cache);
        let after = usize::from(self.after_write);
        let mut command = if early { overheads.write_hit[after] } else { overheads.write_miss[after] };
        let writing = self.write_behind_end(now);
        let is_appended = self.continues_write_behind(model, now, io);
        let is_accepted = is_appended
            || (cache.accepts_concurrent_writes
                && self.segments.dirty_segment_count(now) < cache.write_segments as usize);
        let is_reading_minimum =
            matches!(self.background, BackgroundActivity::ReadAhead { next, min_end, .. } if next < min_end);
        let stopped = self.stop_read_ahead(model, now, io);
        let arm_free = writing.unwrap_or(stopped);
        let is_immediate = if writing.is_some() { is_accepted } else { !is_reading_minimum || stopped <= now };
        let is_elsewhere = self.after_write && self.last_write_end != Some(io.first);
        let early_disconnect =
            overheads.early_disconnect.filter(|_| is_immediate && is_elsewhere && !model.channel.never_disconnects);
        let sending = match &early_disconnect {
            Some(times) => {
                let disconnected = times.command + times.disconnect + times.pause;
                command = times.command + times.seek;
                now + disconnected + overheads.reselect + overheads.prepare
            }
            None if is_immediate => now + command + overheads.prepare,
            None if model.channel.never_disconnects => arm_free.max(now + command + overheads.prepare),
            None => {
                let disconnected_at = now + command + overheads.write_disconnect;
                arm_free.max(disconnected_at) + overheads.reselect + overheads.prepare
            }
        };
        WriteStart {
            arm_start: arm_free.max(now + command),
            arm_free,
            data_start: sending.max(channel_free),
            command_time: command,
            early_disconnect,
            is_appended,
        }
    }

    /// Computes the transfer of a write over channel and disk; also returns when all data was in the buffer.
    fn transfer_write(
        &mut self,
        model: &Model,
        now: Ns,
        io: &Io,
        early: bool,
        begin: &WriteStart,
    ) -> (MediaTransfer, Ns) {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let capacity = if early { cache.early_blocks } else { cache.buffer_blocks };
        let follows = begin.is_appended && begin.arm_start == begin.arm_free;
        let min_seek = if follows { 0 } else { overheads.min_seek };
        let block = channel.write_block;
        let low_mark = if cache.marks_are_request_shares {
            mark_blocks(cache, cache.write_mark, io.blocks)
        } else {
            ((f64::from(capacity) * cache.write_mark).ceil() as u32).max(1)
        };
        if io.blocks > capacity && cache.segments > 0 {
            let rules = BurstRules {
                block_ns: block,
                is_kept: channel.holds_writes || channel.never_disconnects,
                mark: low_mark,
                release_ns: overheads.write_disconnect,
                reacquire_ns: overheads.reselect + overheads.prepare,
                connected_from: Some(begin.data_start),
                free_at: begin.data_start,
                buffer_blocks: capacity,
                into_buffer: true,
            };
            let media = (io.first, io.blocks);
            let transfer = model.mechanism.write_in_bursts(begin.arm_start, &mut self.arm, media, min_seek, &rules);
            return (transfer, transfer.sent);
        }
        let received_at = begin.data_start + u64::from(io.blocks) * block;
        let buffered_at = match begin.is_appended {
            true => self.appended_data_end(model, now, io, begin, low_mark).max(received_at),
            false => received_at,
        };
        let from = buffered_at - u64::from(io.blocks) * block;
        let stream = ChannelStream {
            block_ns: block,
            mark: min_buffered_blocks(overheads, io.blocks),
            delay: from,
            free_at: from,
            blocks: io.blocks,
        };
        let transfer = model.mechanism.write_blocks(
            begin.arm_start,
            &mut self.arm,
            io.first,
            &stream,
            cache.write_on_arrival,
            min_seek,
        );
        (MediaTransfer { sending_from: begin.data_start, ..transfer }, buffered_at)
    }

    /// Returns when all data of a write that continues the one being written is in the buffer. Data that finds no space
    /// waits until no more than `low_mark` blocks are left to be written, or as few as leave enough space.
    fn appended_data_end(&self, model: &Model, now: Ns, io: &Io, begin: &WriteStart, low_mark: u32) -> Ns {
        let (overheads, channel) = (&model.overheads, &model.channel);
        let sector = model.mechanism.sectors_time(&model.mechanism.geometry.locate_block(io.first), 1).max(1);
        let capacity = u64::from(model.cache.early_blocks);
        let unwritten = match self.background {
            BackgroundActivity::WriteBehind { first, end, .. } => end - first,
            _ => 0,
        };
        let left = begin.arm_free.saturating_sub(now).div_ceil(sector).min(unwritten).min(capacity);
        let fits = (capacity - left).min(u64::from(io.blocks));
        let waiting = u64::from(io.blocks) - fits;
        if waiting == 0 {
            return 0;
        }
        let holds = channel.holds_writes || channel.never_disconnects;
        // largest number of blocks, earlier ones included, left to be written when the waiting blocks arrive
        let max_left = if holds { capacity - 1 } else { u64::from(low_mark).min(capacity - waiting) };
        let resumed_at = if max_left >= fits {
            begin.arm_free.saturating_sub((max_left - fits) * sector)
        } else {
            begin.arm_free + (fits - max_left) * sector
        };
        let reconnect = if holds { 0 } else { overheads.reselect + overheads.prepare };
        let fitting_sent_at = begin.data_start + fits * channel.write_block;
        let released_at =
            if holds || fits == 0 { fitting_sent_at } else { fitting_sent_at + overheads.write_disconnect };
        // a kept channel sends each block as a sector becomes free; a reconnected one sends all waiting blocks at once
        let last_blocks = if holds { 1 } else { waiting };
        let has_space_at = if holds { resumed_at + (waiting - 1) * sector } else { resumed_at };
        has_space_at.max(released_at) + reconnect + last_blocks * channel.write_block
    }

    /// Keeps the data of a write in a segment.
    fn keep_written(
        &mut self,
        model: &Model,
        io: &Io,
        early: bool,
        reading: Option<usize>,
        begin: &WriteStart,
        end: Ns,
    ) {
        let (appends, first) = match self.background {
            BackgroundActivity::WriteBehind { segment, first, .. } if begin.is_appended => (segment, first),
            _ => (None, io.first),
        };
        let index = match appends {
            Some(index) => {
                if let Some(segment) = self.segments.get_mut(index) {
                    segment.end = io.end();
                }
                self.segments.mark_used(index);
                self.trim_segment(index);
                Some(index)
            }
            None => self.segments.allocate_segment(&CacheQuery { reading, ..self.build_query(begin.data_start, io) }),
        };
        self.segments.invalidate_blocks(io.first, io.end(), index);
        let (keeps, serves) = (model.cache.keeps_data, model.cache.serves_written);
        if let Some(index) = index {
            match self.segments.get_mut(index) {
                Some(segment) if early => segment.clean_at = end,
                _ if !(keeps && serves) => self.segments.clear_segment(index),
                _ => {}
            }
        }
        self.background = if early {
            BackgroundActivity::WriteBehind { segment: index, first, end: io.end(), time: end }
        } else {
            BackgroundActivity::Nothing
        };
    }
}
