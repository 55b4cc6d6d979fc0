//! Writes: reported once they are in the buffer, or once they are on the disk.

use super::ahead::BackgroundActivity;
use super::cache::CacheQuery;
use super::flow::BurstRules;
use super::mechanism::{ChannelStream, MediaTransfer};
use super::serve::{DriveState, mark};
use super::spec::{EarlyDisconnect, Overheads};
use super::{Hit, Model, ServiceBreakdown};
use crate::Ns;
use crate::io::Io;

/// Blocks of a write that are in the buffer before they go to the disk: one; drives that leave the
/// channel between a write's command and its data want some more, as DiskSim has it for these.
fn reserve(overheads: &Overheads, blocks: u32) -> u32 {
    match overheads.early_disconnect {
        None => 1,
        Some(_) if blocks < 45 => 10,
        Some(_) => 15,
    }
}

/// How a write begins.
#[derive(Clone, Copy, Debug)]
struct WriteBegin {
    /// When the arm sets out.
    arm: Ns,
    /// When the arm was free.
    arm_free: Ns,
    /// When its data begin to come.
    sending: Ns,
    /// What the command takes before the arm sets out.
    command: Ns,
    /// It left the channel between its command and its data.
    left: Option<EarlyDisconnect>,
    /// It goes on behind the one that is being written.
    appended: bool,
}

impl DriveState {
    pub fn write(&mut self, model: &Model, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        let early = model.cache.reports_early && model.cache.segments > 0;
        let reading = self.reading();
        let begin = self.begin_write(model, now, io, early, channel_free);
        let (passage, brought) = self.bring(model, now, io, early, &begin);
        let overheads = &model.overheads;
        let (leave, again) = match &begin.left {
            Some(left) => (left.again, overheads.reselect_again),
            None => (overheads.write_leave, overheads.reselect),
        };
        let reported = match (early, model.channel.never_leaves) {
            (true, _) => brought,
            (false, true) => passage.end.max(brought),
            (false, false) => passage.end.max(brought + leave) + again,
        };
        self.keep_written(model, io, early, reading, &begin, passage.end);
        let done = reported + overheads.write_done;
        let channel_for = u64::from(io.blocks) * model.channel.write_block;
        let service = ServiceBreakdown {
            done,
            channel_from: passage.sending,
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
        let rotation = passage.rotation;
        let known = waiting + passage.seek + rotation + passage.transfer;
        let overhead = (done - now).saturating_sub(known);
        ServiceBreakdown { waiting, overhead, seek: passage.seek, rotation, media: passage.transfer, ..service }
    }

    /// When arm and data can begin.
    fn begin_write(&mut self, model: &Model, now: Ns, io: &Io, early: bool, channel_free: Ns) -> WriteBegin {
        let (overheads, cache) = (&model.overheads, &model.cache);
        let after = usize::from(self.after_write);
        let mut command = if early { overheads.write_hit[after] } else { overheads.write_miss[after] };
        let writing = self.writing(now);
        let appended = self.is_appended(model, now, io);
        let taken = appended || (cache.takes_writes && self.segments.unwritten(now) < cache.write_segments as usize);
        let must = matches!(self.alone, BackgroundActivity::Ahead { next, must, .. } if next < must);
        let stopped = self.stop_reading_on(model, now, io);
        let arm_free = writing.unwrap_or(stopped);
        let at_once = if writing.is_some() { taken } else { !must || stopped <= now };
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

    /// Its data come, and go to the disk: what the disk did, and when all were in the buffer.
    fn bring(&mut self, model: &Model, now: Ns, io: &Io, early: bool, begin: &WriteBegin) -> (MediaTransfer, Ns) {
        let (overheads, cache, channel) = (&model.overheads, &model.cache, &model.channel);
        let room = if early { cache.early_blocks } else { cache.room };
        let follows = begin.appended && begin.arm == begin.arm_free;
        let least = if follows { 0 } else { overheads.least_seek };
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
            let passage = model.mechanism.write_in_bursts(begin.arm, &mut self.arm, media, least, &rules);
            return (passage, passage.sent);
        }
        let all = begin.sending + u64::from(io.blocks) * block;
        let brought = if begin.appended { self.resumed(model, now, io, begin, low).max(all) } else { all };
        let from = brought - u64::from(io.blocks) * block;
        let stream = ChannelStream { block, mark: reserve(overheads, io.blocks), from, free: from, blocks: io.blocks };
        let passage = model.mechanism.write(begin.arm, &mut self.arm, io.first, &stream, cache.write_on_arrival, least);
        (MediaTransfer { sending: begin.sending, ..passage }, brought)
    }

    /// When all of a write are in the buffer that goes on behind one that is being written: what finds
    /// no room waits until no more than `low` blocks are left to be written, or as few as make room.
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
        // of the blocks before these and of these, so many may be left when the rest comes
        let most = if holds { all - 1 } else { u64::from(low).min(all - rest) };
        let resumes = if most >= fits {
            begin.arm_free.saturating_sub((most - fits) * sector)
        } else {
            begin.arm_free + (fits - most) * sector
        };
        let again = if holds { 0 } else { overheads.reselect + overheads.prepare };
        let first = begin.sending + fits * channel.write_block;
        let first = if holds || fits == 0 { first } else { first + overheads.write_leave };
        let last = if holds { 1 } else { rest };
        let goes = if holds { resumes + (rest - 1) * sector } else { resumes };
        goes.max(first) + again + last * channel.write_block
    }

    /// Keeps what was written in a segment.
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
