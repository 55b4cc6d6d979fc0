//! Moving parts of a drive: position of the arm, rotation of the sectors under the head, and the time of a transfer
//! between disk and buffer.

use super::SpecError;
use super::geometry::{Angle, Geometry, KnownTrack, SectorAddress};
use super::spec::{PositioningModel, Spec};
use crate::Ns;

/// A revolution is missed only if a sector's edge has passed by more than this; times are rounded to nanoseconds.
const TOLERANCE_NS: u64 = 4;

/// Immutable model of a drive's moving parts, shared by all drives of one kind.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub geometry: Geometry,
    seek_times: Vec<u32>,
    head_switch_ns: Ns,
    write_settle_ns: i64,
    positioning_model: PositioningModel,
    /// Angle by which the disk rotates in a nanosecond.
    angle_per_ns: Angle,
    /// Time of a revolution, 2^-16 ns.
    revolution_fixed: u64,
}

/// Position of the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ArmPosition {
    pub cylinder: u32,
    pub head: u32,
    /// Cached part of the track under it.
    pub known_track: KnownTrack,
}

impl ArmPosition {
    /// Moves the arm to a place.
    #[inline]
    pub fn move_to(&mut self, place: &SectorAddress) {
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }
}

/// A transfer between disk and buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MediaTransfer {
    pub end: Ns,
    pub seek: Ns,
    pub rotation: Ns,
    pub media: Ns,
    /// Time at which the channel has also finished (reads).
    pub sent: Ns,
    /// Time at which the channel begins.
    pub sending_from: Ns,
}

/// Stream of blocks over the channel, from or to the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChannelStream {
    /// Time of a block, ns.
    pub block_ns: Ns,
    /// Blocks in the buffer before the channel begins (reads), or before the disk begins (writes); at least one.
    pub mark: u32,
    /// Reads: time from the mark to the first block on the channel. Writes: time at which the first block begins to
    /// arrive.
    pub delay: Ns,
    /// Time at which the channel is free.
    pub free_at: Ns,
    /// Number of blocks.
    pub blocks: u32,
}

/// Returns the time to the end of the current sector, given the time `left` to the end of a run of sectors.
fn time_to_sector_end(left: Ns, sector: Ns) -> Ns {
    let edge = left % sector;
    if edge + TOLERANCE_NS >= sector { 0 } else { edge }
}

impl Mechanism {
    /// Computes the tables of the moving parts.
    pub fn new(spec: &Spec) -> Result<Mechanism, SpecError> {
        let geometry = Geometry::new(spec)?;
        let revolution_ns = 60e9 / spec.rpm;
        Ok(Mechanism {
            geometry,
            seek_times: spec.seek.build_table(spec.cylinders)?,
            head_switch_ns: spec.head_switch_ns,
            write_settle_ns: spec.write_settle_ns,
            positioning_model: spec.positioning_model,
            angle_per_ns: (18_446_744_073_709_551_616.0 / revolution_ns).round() as u64,
            revolution_fixed: (revolution_ns * 65536.0).round() as u64,
        })
    }

    /// Time of a revolution, ns, not rounded to an integer.
    pub fn exact_revolution_ns(&self) -> f64 {
        self.revolution_fixed as f64 / 65536.0
    }

    /// Method by which the time to a sector is found.
    pub fn positioning_model(&self) -> PositioningModel {
        self.positioning_model
    }

    /// Time to move the arm and switch heads between two places.
    pub fn travel_time_between(&self, from: &SectorAddress, to: &SectorAddress, write: bool) -> Ns {
        self.travel_time(&ArmPosition { cylinder: from.cylinder, head: from.head, ..ArmPosition::default() }, to, write)
    }

    /// Time to move the arm and switch heads.
    #[inline]
    pub fn travel_time(&self, from: &ArmPosition, to: &SectorAddress, write: bool) -> Ns {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let last = self.seek_times.len() - 1;
        let mut time = Ns::from(self.seek_times[(distance as usize).min(last)]);
        if from.head != to.head {
            time = time.max(self.head_switch_ns);
        } else if distance == 0 {
            return 0;
        }
        if write { time.saturating_add_signed(self.write_settle_ns) } else { time }
    }

    /// Rotational latency: time from `now` until an angle is under the head.
    #[inline]
    pub fn rotational_wait(&self, now: Ns, angle: Angle) -> Ns {
        if self.positioning_model != PositioningModel::Exact {
            return if self.positioning_model == PositioningModel::HalfTurn { self.revolution_fixed >> 17 } else { 0 };
        }
        let ahead = angle.wrapping_sub(now.wrapping_mul(self.angle_per_ns));
        if ahead > 0_u64.wrapping_sub(TOLERANCE_NS * self.angle_per_ns) {
            return 0;
        }
        self.angle_to_ns(ahead)
    }

    /// Time at which an angle is under the head, from `now` on. If the wait is 0 because of the tolerance, it is
    /// slightly before `now`. So rounding errors are corrected at every pass, and do not accumulate until a revolution
    /// is missed.
    #[inline]
    pub fn pass_time(&self, now: Ns, angle: Angle, wait: Ns) -> Ns {
        if wait > 0 || self.positioning_model != PositioningModel::Exact {
            return now + wait;
        }
        now.saturating_sub(self.angle_to_ns(now.wrapping_mul(self.angle_per_ns).wrapping_sub(angle)).min(TOLERANCE_NS))
    }

    /// Time at which the sectors of a place begin to pass if the arm starts now.
    #[inline]
    pub fn transfer_start(&self, now: Ns, arm: &ArmPosition, place: &SectorAddress) -> Ns {
        if let PositioningModel::Constant(time) = self.positioning_model {
            return now + time;
        }
        let arrived = now + self.travel_time(arm, place, false);
        self.pass_time(arrived, place.angle, self.rotational_wait(arrived, place.angle))
    }

    /// Converts an angle to the time of rotating by it.
    #[inline]
    fn angle_to_ns(&self, angle: Angle) -> Ns {
        (((u128::from(angle) * u128::from(self.revolution_fixed)) >> 64) as u64 + 0x8000) >> 16
    }

    /// Time of a revolution, ns.
    pub fn revolution_ns(&self) -> Ns {
        self.revolution_fixed >> 16
    }

    /// Time in which `sectors` sectors of a place's track pass.
    #[inline]
    pub fn sectors_time(&self, place: &SectorAddress, sectors: u32) -> Ns {
        let (span, _) = self.geometry.sectors_divisor(place).div_rem(u64::from(sectors) * self.revolution_fixed);
        (span + 0x8000) >> 16
    }

    /// Time until a transfer at a place could begin if the arm started now.
    #[inline]
    pub fn positioning_time(&self, now: Ns, arm: &ArmPosition, place: &SectorAddress, write: bool) -> Ns {
        if let PositioningModel::Constant(time) = self.positioning_model {
            return time;
        }
        let travel = self.travel_time(arm, place, write);
        travel + self.rotational_wait(now + travel, place.angle)
    }

    /// Reads blocks from `now` on, and sends them as they come.
    #[inline]
    pub fn read_blocks(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        first: u64,
        stream: &ChannelStream,
        on_arrival: bool,
    ) -> MediaTransfer {
        let mut transfer = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut done = 0;
        while done < stream.blocks {
            let run =
                self.geometry.track_run_cached(&mut arm.known_track, first + u64::from(done), stream.blocks - done);
            let place = &run.place;
            self.move_arm(&mut transfer, arm, place, false);
            let arrived = transfer.end;
            let span = self.sectors_time(place, run.sectors);
            let wait = self.rotational_wait(arrived, place.angle);
            let revolution = self.revolution_ns();
            if on_arrival && wait + span > revolution && self.positioning_model == PositioningModel::Exact {
                // the head lands within the run: it reads the leading blocks from the next sector on, the others a
                // revolution later
                let sector = (span / u64::from(run.sectors)).max(1);
                let end = arrived + time_to_sector_end(wait + span - revolution, sector) + revolution;
                transfer.rotation += (end - arrived).saturating_sub(span);
                transfer.end = end;
                transfer.media += span;
                let leading = ((end - arrived - wait + TOLERANCE_NS) / sector).clamp(1, u64::from(run.blocks)) as u32;
                Mechanism::update_sending(
                    &mut transfer,
                    stream,
                    done,
                    leading,
                    arrived + wait,
                    sector * u64::from(leading),
                );
                if leading < run.blocks {
                    Mechanism::update_sending(&mut transfer, stream, done + leading, run.blocks - leading, end, 0);
                }
            } else {
                let start = self.pass_time(arrived, place.angle, wait);
                transfer.rotation += wait;
                transfer.media += span;
                transfer.end = start + span;
                Mechanism::update_sending(&mut transfer, stream, done, run.blocks, start, span);
            }
            done += run.blocks;
        }
        transfer
    }

    /// Moves the arm, and adds the time to the transfer.
    #[inline]
    pub fn move_arm(&self, transfer: &mut MediaTransfer, arm: &mut ArmPosition, place: &SectorAddress, write: bool) {
        let travel = match self.positioning_model {
            PositioningModel::Constant(time) => time,
            _ => self.travel_time(arm, place, write),
        };
        arm.move_to(place);
        transfer.seek += travel;
        transfer.end += travel;
    }

    /// Updates the channel's times for `blocks` blocks that come from the disk from `start` on.
    #[inline]
    fn update_sending(
        transfer: &mut MediaTransfer,
        stream: &ChannelStream,
        done: u32,
        blocks: u32,
        start: Ns,
        span: Ns,
    ) {
        let per_block = span / u64::from(blocks);
        if stream.mark > done && stream.mark <= done + blocks {
            let awaited = stream.mark - done;
            let ready = start + if awaited == 1 { per_block } else { span * u64::from(awaited) / u64::from(blocks) };
            transfer.sending_from = ready.max(stream.free_at) + stream.delay;
            transfer.sent = transfer.sending_from + u64::from(stream.blocks) * stream.block_ns;
        }
        let last = start + span + u64::from(stream.blocks - done - blocks + 1) * stream.block_ns;
        let first = start + per_block + u64::from(stream.blocks - done) * stream.block_ns;
        transfer.sent = transfer.sent.max(last).max(first);
    }

    /// Writes blocks from `now` on, as they come over the channel.
    #[inline]
    pub fn write_blocks(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        first: u64,
        stream: &ChannelStream,
        on_arrival: bool,
        min_seek: Ns,
    ) -> MediaTransfer {
        let mut transfer = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut done = 0;
        while done < stream.blocks {
            let run =
                self.geometry.track_run_cached(&mut arm.known_track, first + u64::from(done), stream.blocks - done);
            let place = &run.place;
            let before = transfer.end;
            self.move_arm(&mut transfer, arm, place, true);
            if done == 0 && transfer.end < before + min_seek {
                transfer.seek += before + min_seek - transfer.end;
                transfer.end = before + min_seek;
            }
            let arrived = transfer.end;
            let span = self.sectors_time(place, run.sectors);
            // the disk begins once no sector will have to wait for its data
            let sector = span / u64::from(run.sectors);
            let awaited = stream.mark.min(stream.blocks).max(done + 1);
            let first_received = stream.delay + stream.block_ns * u64::from(awaited);
            let last_received = stream.delay + stream.block_ns * u64::from(done + run.blocks);
            let ready = arrived.max(first_received).max((last_received + sector).saturating_sub(span));
            let wait = self.rotational_wait(ready, place.angle);
            let revolution = self.revolution_ns();
            if on_arrival && wait + span > revolution && self.positioning_model == PositioningModel::Exact {
                transfer.end = ready + time_to_sector_end(wait + span - revolution, sector.max(1)) + revolution;
                transfer.rotation += (transfer.end - arrived).saturating_sub(span);
            } else {
                transfer.rotation += ready - arrived + wait;
                transfer.end = self.pass_time(ready, place.angle, wait) + span;
            }
            transfer.media += span;
            done += run.blocks;
        }
        transfer
    }
}
