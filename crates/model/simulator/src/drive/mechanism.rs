//! The moving parts: where the arm is, when a sector passes under the head,
//! and how long a transfer between disk and buffer takes.

use super::SpecError;
use super::geometry::{Angle, Geometry, SectorAddress, TrackRest};
use super::spec::{PositioningModel, Spec};
use crate::Ns;

/// A turn is missed only when a sector's edge is past by more than this; times
/// are rounded to nanoseconds.
const TOLERANCE_NS: u64 = 4;

/// What never changes of a drive's moving parts; drives of one kind share it.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub geometry: Geometry,
    seeks: Vec<u32>,
    head_switch: Ns,
    write_settle: i64,
    access: PositioningModel,
    /// Angle of a nanosecond.
    rate: Angle,
    /// A turn, 2^-16 ns.
    turn: u64,
}

/// Where the arm stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ArmPosition {
    pub cylinder: u32,
    pub head: u32,
    /// What is known of the track under it.
    pub track: TrackRest,
}

impl ArmPosition {
    #[inline]
    pub fn goes_to(&mut self, place: &SectorAddress) {
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }
}

/// A transfer between disk and buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MediaTransfer {
    pub end: Ns,
    pub seek: Ns,
    pub rotation: Ns,
    pub transfer: Ns,
    /// When the channel was done with it too (reads).
    pub sent: Ns,
    /// When the channel began.
    pub sending: Ns,
}

/// How the channel takes blocks from the buffer, or brings them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChannelStream {
    /// Time of a block.
    pub block: Ns,
    /// Reads: blocks in the buffer before it begins. Writes: before the disk begins. At least one.
    pub mark: u32,
    /// Reads: time from then to the first block. Writes: when the first block begins to come.
    pub from: Ns,
    /// When the channel is free of others.
    pub free: Ns,
    /// Blocks.
    pub blocks: u32,
}

/// From within a sector to its end, where so much is left to the end of a run of them.
fn edge(left: Ns, sector: Ns) -> Ns {
    let edge = left % sector;
    if edge + TOLERANCE_NS >= sector { 0 } else { edge }
}

impl Mechanism {
    pub fn new(spec: &Spec) -> Result<Mechanism, SpecError> {
        let geometry = Geometry::new(spec)?;
        let turn_ns = 60e9 / spec.rpm;
        Ok(Mechanism {
            geometry,
            seeks: spec.seek.table(spec.cylinders)?,
            head_switch: spec.head_switch,
            write_settle: spec.write_settle,
            access: spec.access,
            rate: (18_446_744_073_709_551_616.0 / turn_ns).round() as u64,
            turn: (turn_ns * 65536.0).round() as u64,
        })
    }

    /// A turn, ns.
    pub fn turn_ns(&self) -> f64 {
        self.turn as f64 / 65536.0
    }

    pub fn access(&self) -> PositioningModel {
        self.access
    }

    /// Time of the arm and of switching heads, from where a place is.
    pub fn travel_between(&self, from: &SectorAddress, to: &SectorAddress, write: bool) -> Ns {
        self.travel(&ArmPosition { cylinder: from.cylinder, head: from.head, ..ArmPosition::default() }, to, write)
    }

    /// Time of the arm and of switching heads.
    #[inline]
    pub fn travel(&self, from: &ArmPosition, to: &SectorAddress, write: bool) -> Ns {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let last = self.seeks.len() - 1;
        let mut time = Ns::from(self.seeks[(distance as usize).min(last)]);
        if from.head != to.head {
            time = time.max(self.head_switch);
        } else if distance == 0 {
            return 0;
        }
        if write { time.saturating_add_signed(self.write_settle) } else { time }
    }

    /// From a moment until an angle is under the head.
    #[inline]
    pub fn wait(&self, now: Ns, angle: Angle) -> Ns {
        if self.access != PositioningModel::Exact {
            return if self.access == PositioningModel::HalfTurn { self.turn >> 17 } else { 0 };
        }
        let ahead = angle.wrapping_sub(now.wrapping_mul(self.rate));
        if ahead > 0_u64.wrapping_sub(TOLERANCE_NS * self.rate) {
            return 0;
        }
        self.time(ahead)
    }

    /// When an angle is under the head, from a moment on. Where the wait is none because
    /// of the tolerance, that is a little before the moment: so roundings are made good
    /// at every passage, and do not add up until a turn is missed.
    #[inline]
    pub fn passes(&self, now: Ns, angle: Angle, wait: Ns) -> Ns {
        if wait > 0 || self.access != PositioningModel::Exact {
            return now + wait;
        }
        now.saturating_sub(self.time(now.wrapping_mul(self.rate).wrapping_sub(angle)).min(TOLERANCE_NS))
    }

    /// When the sectors of a place begin to pass, if the arm sets out now.
    #[inline]
    pub fn begins(&self, now: Ns, arm: &ArmPosition, place: &SectorAddress) -> Ns {
        if let PositioningModel::Constant(time) = self.access {
            return now + time;
        }
        let there = now + self.travel(arm, place, false);
        self.passes(there, place.angle, self.wait(there, place.angle))
    }

    /// Time of an angle.
    #[inline]
    fn time(&self, angle: Angle) -> Ns {
        (((u128::from(angle) * u128::from(self.turn)) >> 64) as u64 + 0x8000) >> 16
    }

    /// Time of a revolution.
    pub fn revolution(&self) -> Ns {
        self.turn >> 16
    }

    /// Time of so many sectors of a place's track.
    #[inline]
    pub fn span(&self, place: &SectorAddress, sectors: u32) -> Ns {
        let (span, _) = self.geometry.by_sectors(place).split(u64::from(sectors) * self.turn);
        (span + 0x8000) >> 16
    }

    /// Time until a transfer at a place could begin, if the arm set out now.
    #[inline]
    pub fn positioning(&self, now: Ns, arm: &ArmPosition, place: &SectorAddress, write: bool) -> Ns {
        if let PositioningModel::Constant(time) = self.access {
            return time;
        }
        let travel = self.travel(arm, place, write);
        travel + self.wait(now + travel, place.angle)
    }

    /// Reads blocks from a moment on, and sends them as they come.
    #[inline]
    pub fn read(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        first: u64,
        stream: &ChannelStream,
        on_arrival: bool,
    ) -> MediaTransfer {
        let mut passage = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut done = 0;
        while done < stream.blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), stream.blocks - done);
            let place = &run.place;
            self.approach(&mut passage, arm, place, false);
            let arrived = passage.end;
            let span = self.span(place, run.sectors);
            let wait = self.wait(arrived, place.angle);
            let turn = self.revolution();
            if on_arrival && wait + span > turn && self.access == PositioningModel::Exact {
                // it lands within what it is to read: the sectors from the next one on, then the first ones
                let sector = (span / u64::from(run.sectors)).max(1);
                let end = arrived + edge(wait + span - turn, sector) + turn;
                passage.rotation += (end - arrived).saturating_sub(span);
                passage.end = end;
                passage.transfer += span;
                let early = ((end - arrived - wait + TOLERANCE_NS) / sector).clamp(1, u64::from(run.blocks)) as u32;
                Mechanism::send(&mut passage, stream, done, early, arrived + wait, sector * u64::from(early));
                if early < run.blocks {
                    Mechanism::send(&mut passage, stream, done + early, run.blocks - early, end, 0);
                }
            } else {
                let start = self.passes(arrived, place.angle, wait);
                passage.rotation += wait;
                passage.transfer += span;
                passage.end = start + span;
                Mechanism::send(&mut passage, stream, done, run.blocks, start, span);
            }
            done += run.blocks;
        }
        passage
    }

    /// Moves the arm.
    #[inline]
    pub fn approach(&self, passage: &mut MediaTransfer, arm: &mut ArmPosition, place: &SectorAddress, write: bool) {
        let travel = match self.access {
            PositioningModel::Constant(time) => time,
            _ => self.travel(arm, place, write),
        };
        arm.goes_to(place);
        passage.seek += travel;
        passage.end += travel;
    }

    /// When the channel can be done with `blocks` blocks that come from `start` on.
    #[inline]
    fn send(passage: &mut MediaTransfer, stream: &ChannelStream, done: u32, blocks: u32, start: Ns, span: Ns) {
        let each = span / u64::from(blocks);
        if stream.mark > done && stream.mark <= done + blocks {
            let some = stream.mark - done;
            let ready = start + if some == 1 { each } else { span * u64::from(some) / u64::from(blocks) };
            passage.sending = ready.max(stream.free) + stream.from;
            passage.sent = passage.sending + u64::from(stream.blocks) * stream.block;
        }
        let last = start + span + u64::from(stream.blocks - done - blocks + 1) * stream.block;
        let first = start + each + u64::from(stream.blocks - done) * stream.block;
        passage.sent = passage.sent.max(last).max(first);
    }

    /// Writes blocks from a moment on, as they come over the channel.
    #[inline]
    pub fn write(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        first: u64,
        stream: &ChannelStream,
        on_arrival: bool,
        least: Ns,
    ) -> MediaTransfer {
        let mut passage = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut done = 0;
        while done < stream.blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), stream.blocks - done);
            let place = &run.place;
            let before = passage.end;
            self.approach(&mut passage, arm, place, true);
            if done == 0 && passage.end < before + least {
                passage.seek += before + least - passage.end;
                passage.end = before + least;
            }
            let arrived = passage.end;
            let span = self.span(place, run.sectors);
            // it begins when no sector will have to wait for its data
            let sector = span / u64::from(run.sectors);
            let first_comes = stream.from + stream.block * u64::from(done + stream.mark.clamp(1, run.blocks));
            let last_comes = stream.from + stream.block * u64::from(done + run.blocks);
            let able = arrived.max(first_comes).max((last_comes + sector).saturating_sub(span));
            let wait = self.wait(able, place.angle);
            let turn = self.revolution();
            if on_arrival && wait + span > turn && self.access == PositioningModel::Exact {
                passage.end = able + edge(wait + span - turn, sector.max(1)) + turn;
                passage.rotation += (passage.end - arrived).saturating_sub(span);
            } else {
                passage.rotation += able - arrived + wait;
                passage.end = self.passes(able, place.angle, wait) + span;
            }
            passage.transfer += span;
            done += run.blocks;
        }
        passage
    }
}
