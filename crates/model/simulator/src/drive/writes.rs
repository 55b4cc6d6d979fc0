//! Writes: acknowledged once they are in the buffer, or once they are on the disk.

use super::ahead::BackgroundActivity;
use super::cache::CacheQuery;
use super::flow::BurstRules;
use super::mechanism::{ChannelStream, MediaTransfer};
use super::serve::{DriveState, mark};
use super::spec::{EarlyDisconnect, Overheads};
use super::{Hit, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Returns the blocks of a write that must be in the buffer before the disk begins: one; more for drives that
/// disconnect between a write's command and its data, as in DiskSim.
fn reserve(overheads: &Overheads, blocks: u32) -> u32 {
    match overheads.early_disconnect {
        None => 1,
        Some(_) if blocks < 45 => 10,
        Some(_) => 15,
    }
}

/// Start of a write.
#[derive(Clone, Copy, Debug)]
struct WriteBegin {
    /// Time at which the arm starts.
    arm: Ns,
    /// Time at which the arm was free.
    arm_free: Ns,
    /// Time at which its data begins to arrive.
    sending: Ns,
    /// Time of the command before the arm starts.
    command: Ns,
    /// Set if the drive disconnects between command and data.
    left: Option<EarlyDisconnect>,
    /// True if it continues the write that is being written.
    appended: bool,
}

impl DriveState {
    /// Serves a write, and returns its times up to the acknowledgement.
    pub fn write(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let early = model.cache.reports_early && model.cache.segments > 0;
        let reading = self.reading();
        let begin = self.begin_write(model, now, io, early, channel_free);
        let (transfer, buffered_at) = self.bring(model, now, io, early, &begin);
        let overheads = &model.overheads;
        let (leave, again) = match &begin.left {
            Some(left) => (left.again, overheads.reselect_again),
            None => (overheads.write_leave, overheads.reselect),
        };
        let reported = match (early, model.channel.never_leaves) {
            (true, _) => buffered_at,
            (false, true) => transfer.end.max(buffered_at),
            (false, false) => transfer.end.max(buffered_at + leave) + again,
        };
        self.keep_written(model, io, early, reading, &begin, transfer.end);
        let done = reported + overheads.write_done;
        let channel_for = u64::from(io.blocks) * model.channel.write_block;
        let service = ServiceBreakdown {
            done,
            channel_from: transfer.sending,
            channel_for,
            ..ServiceBreakdown::of(if early { Hit::Early } else { Hit::Miss })
        };
        if early {
            let waiting = (done - now).saturating_sub(begin.command + overheads.prepare + channel_for);
            let waiting = waiting.saturating_sub(overheads.write_done);
            return ServiceBreakdown {
                waiting,
                overhead: done - now - waiting - channel_for,
                channel: channel_for,
                ..service
            };
        }
        let waiting = begin.arm - (now + begin.command).min(begin.arm);
        let rotation = transfer.rotation;
        let known = waiting + transfer.seek + rotation + transfer.transfer;
        let overhead = (done - now).saturating_sub(known);
        ServiceBreakdown { waiting, overhead, seek: transfer.seek, rotation, media: transfer.transfer, ..service }
    }

    /// Returns when arm and data can begin.
    fn begin_write(&mut self, model: &Model, now: Ns, io: &Io, early: bool, channel_free: Ns) -> WriteBegin {
        let (overheads, cache) = (&model.overheads, &model.cache);
        let after = usize::from(self.after_write);
        let mut command = if early { overheads.write_hit[after] } else { overheads.write_miss[after] };
        let writing = self.writing(now);
        let appended = self.is_appended(model, now, io);
        let taken = appended || (cache.takes_writes && self.segments.unwritten(now) < cache.write_segments as usize);
        let is_reading_minimum =
            matches!(self.alone, BackgroundActivity::Ahead { next, min_end, .. } if next < min_end);
        let stopped = self.stop_reading_on(model, now, io);
        let arm_free = writing.unwrap_or(stopped);
        let at_once = if writing.is_some() { taken } else { !is_reading_minimum || stopped <= now };
        let elsewhere = self.after_write && self.last_write != io.first;
        let leaves = overheads.early_disconnect.filter(|_| at_once && elsewhere && !model.channel.never_leaves);
        let sending = match &leaves {
            Some(left) => {
                let leaving = left.command + left.disconnect + left.pause;
                command = left.command + left.seek;
                now + leaving + overheads.reselect + overheads.prepare
            }
            None if at_once => now + command + overheads.prepare,
            None if model.channel.never_leaves => arm_free.max(now + command + overheads.prepare),
            None => {
                let left = now + command + overheads.write_leave;
                arm_free.max(left) + overheads.reselect + overheads.prepare
            }
        };
        let arm = arm_free.max(now + command);
        WriteBegin { arm, arm_free, sending: sending.max(channel_free), command, left: leaves, appended }
    }

    /// Computes the transfer of a write over channel and disk; also returns when all data was in the buffer.
    fn bring(&mut self, model: &Model, now: Ns, io: &Io, early: bool, begin: &WriteBegin) -> (MediaTransfer, Ns) {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let room = if early { cache.early_blocks } else { cache.room };
        let follows = begin.appended && begin.arm == begin.arm_free;
        let min_seek = if follows { 0 } else { overheads.least_seek };
        let block = channel.write_block;
        let low = if cache.mark_of_request {
            mark(cache, cache.write_mark, io.blocks)
        } else {
            ((f64::from(room) * cache.write_mark).ceil() as u32).max(1)
        };
        if io.blocks > room && cache.segments > 0 {
            let rules = BurstRules {
                block,
                holds: channel.holds_writes || channel.never_leaves,
                mark: low,
                leave: overheads.write_leave,
                again: overheads.reselect + overheads.prepare,
                connected: Some(begin.sending),
                free: begin.sending,
                room,
                into_buffer: true,
            };
            let media = (io.first, io.blocks);
            let transfer = model.mechanism.write_in_bursts(begin.arm, &mut self.arm, media, min_seek, &rules);
            return (transfer, transfer.sent);
        }
        let all = begin.sending + u64::from(io.blocks) * block;
        let buffered_at = if begin.appended { self.resumed(model, now, io, begin, low).max(all) } else { all };
        let from = buffered_at - u64::from(io.blocks) * block;
        let stream = ChannelStream { block, mark: reserve(overheads, io.blocks), from, free: from, blocks: io.blocks };
        let transfer =
            model.mechanism.write(begin.arm, &mut self.arm, io.first, &stream, cache.write_on_arrival, min_seek);
        (MediaTransfer { sending: begin.sending, ..transfer }, buffered_at)
    }

    /// Returns when all data is in the buffer of a write that continues the one being written: data that finds no room
    /// waits until no more than `low` blocks are left to be written, or as few as make room.
    fn resumed(&self, model: &Model, now: Ns, io: &Io, begin: &WriteBegin, low: u32) -> Ns {
        let (overheads, channel) = (&model.overheads, &model.channel);
        let sector = model.mechanism.span(&model.mechanism.geometry.place(io.first), 1).max(1);
        let all = u64::from(model.cache.early_blocks);
        let unwritten = match self.alone {
            BackgroundActivity::Behind { first, end, .. } => end - first,
            _ => 0,
        };
        let left = begin.arm_free.saturating_sub(now).div_ceil(sector).min(unwritten).min(all);
        let fits = (all - left).min(u64::from(io.blocks));
        let rest = u64::from(io.blocks) - fits;
        if rest == 0 {
            return 0;
        }
        let holds = channel.holds_writes || channel.never_leaves;
        // largest number of earlier and own blocks left to be written when the rest of the data arrives
        let max_left = if holds { all - 1 } else { u64::from(low).min(all - rest) };
        let resumes = if max_left >= fits {
            begin.arm_free.saturating_sub((max_left - fits) * sector)
        } else {
            begin.arm_free + (fits - max_left) * sector
        };
        let again = if holds { 0 } else { overheads.reselect + overheads.prepare };
        let first = begin.sending + fits * channel.write_block;
        let first = if holds || fits == 0 { first } else { first + overheads.write_leave };
        let last = if holds { 1 } else { rest };
        let goes = if holds { resumes + (rest - 1) * sector } else { resumes };
        goes.max(first) + again + last * channel.write_block
    }

    /// Keeps the data of a write in a segment.
    fn keep_written(
        &mut self,
        model: &Model,
        io: &Io,
        early: bool,
        reading: Option<usize>,
        begin: &WriteBegin,
        end: Ns,
    ) {
        let (appends, first) = match self.alone {
            BackgroundActivity::Behind { segment, first, .. } if begin.appended => (segment, first),
            _ => (None, io.first),
        };
        let index = match appends {
            Some(index) => {
                if let Some(segment) = self.segments.get_mut(index) {
                    segment.end = io.end();
                }
                self.segments.touch(index);
                self.trim(index);
                Some(index)
            }
            None => self.segments.take(&CacheQuery { reading, ..self.query(begin.sending, io) }),
        };
        self.segments.forget(io.first, io.end(), index);
        let (keeps, serves) = (model.cache.keeps, model.cache.serves_written);
        if let Some(index) = index {
            match self.segments.get_mut(index) {
                Some(segment) if early => segment.clean_at = end,
                _ if !(keeps && serves) => self.segments.clear(index),
                _ => {}
            }
        }
        self.alone = if early {
            BackgroundActivity::Behind { segment: index, first, end: io.end(), time: end }
        } else {
            BackgroundActivity::Nothing
        };
    }
}
