//! Transfers in which disk and channel wait for each other: more blocks than the buffer holds, or a channel that is
//! released and acquired again. They are computed sector by sector; all others have a closed form (`mechanism.rs`).

use super::geometry::SectorAddress;
use super::mechanism::{ArmPosition, Mechanism, MediaTransfer};
use crate::Ns;

/// Rules of the channel's use in a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstRules {
    /// Time of a block, ns.
    pub block_ns: Ns,
    /// True if the channel is kept while it waits for the disk.
    pub is_kept: bool,
    /// The channel is acquired again when a read has this many blocks in the buffer, or when a write has at most this
    /// many blocks in the buffer that are not on the disk.
    pub mark: u32,
    /// Time to release the channel, ns.
    pub release_ns: Ns,
    /// Time to acquire the channel again, ns.
    pub reacquire_ns: Ns,
    /// Time from which the channel is already acquired.
    pub connected_from: Option<Ns>,
    /// If it is not acquired, time from which it can be.
    pub free_at: Ns,
    /// Size of the buffer, blocks.
    pub buffer_blocks: u32,
    /// True if a sector is read only when the buffer has room for it; otherwise one sector has its own buffer.
    pub into_buffer: bool,
}

/// State of the channel.
#[derive(Clone, Copy, Debug)]
enum ChannelState {
    /// Released; it can be acquired again from this time on.
    Released(Ns),
    /// Being acquired until this time.
    Acquired(Ns),
    /// Transferring this number of blocks from this time on.
    Bursting(Ns, u32),
    /// Kept, with no block ready.
    Held(Ns),
    /// All blocks have passed by this time.
    Complete(Ns),
}

/// Channel side of a transfer of `blocks` blocks.
struct ChannelSide<'a> {
    rules: &'a BurstRules,
    blocks: u32,
    passed_blocks: u32,
    state: ChannelState,
    /// Start of the first burst.
    first_burst_at: Option<Ns>,
}

impl ChannelSide<'_> {
    fn new(rules: &BurstRules, blocks: u32) -> ChannelSide<'_> {
        let state = match rules.connected_from {
            Some(from) => ChannelState::Acquired(from),
            None => ChannelState::Released(rules.free_at),
        };
        ChannelSide { rules, blocks, passed_blocks: 0, state, first_burst_at: None }
    }

    /// Advances the channel up to a time.
    fn advance_until(&mut self, until: Ns, disk: &impl DiskSide) {
        loop {
            let left = self.blocks - self.passed_blocks;
            let next_ready = |passed: u32| disk.ready_time(passed + 1);
            self.state = match self.state {
                ChannelState::Complete(_) => return,
                ChannelState::Released(from) => match disk.reacquire_time(self.passed_blocks, left) {
                    Some(time) if from.max(time) <= until => {
                        ChannelState::Acquired(from.max(time) + self.rules.reacquire_ns)
                    }
                    _ => return,
                },
                ChannelState::Acquired(time) | ChannelState::Held(time) => {
                    let keeps = self.rules.is_kept || matches!(self.state, ChannelState::Acquired(_));
                    match next_ready(self.passed_blocks) {
                        Some(ready) if keeps && time.max(ready) <= until => {
                            self.start_burst(time.max(ready), left, disk)
                        }
                        _ => return,
                    }
                }
                ChannelState::Bursting(from, blocks) => {
                    let end = from + u64::from(blocks) * self.rules.block_ns;
                    if end > until {
                        return;
                    }
                    self.passed_blocks += blocks;
                    let left = left - blocks;
                    match next_ready(self.passed_blocks) {
                        _ if left == 0 => ChannelState::Complete(end),
                        Some(time) if time <= end => self.start_burst(end, left, disk),
                        _ if self.rules.is_kept => ChannelState::Held(end),
                        _ => ChannelState::Released(end + self.rules.release_ns),
                    }
                }
            };
        }
    }

    /// Starts a burst of all blocks that are ready at a time.
    fn start_burst(&mut self, time: Ns, left: u32, disk: &impl DiskSide) -> ChannelState {
        self.first_burst_at = self.first_burst_at.or(Some(time));
        let (mut low, mut high) = (1, left + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let ready = disk.ready_time(self.passed_blocks + middle);
            if ready.is_some_and(|ready| ready <= time) { low = middle } else { high = middle }
        }
        ChannelState::Bursting(time, low)
    }

    /// Advances to the end, and adds the channel's times to the disk's transfer.
    fn finish_transfer(mut self, transfer: MediaTransfer, disk: &impl DiskSide) -> MediaTransfer {
        self.advance_until(Ns::MAX, disk);
        let sent = if let ChannelState::Complete(end) = self.state { end } else { transfer.end };
        MediaTransfer { sending_from: self.first_burst_at.unwrap_or(transfer.end), sent, ..transfer }
    }

    /// Returns the number of blocks that passed by a time.
    fn blocks_passed_by(&self, until: Ns) -> u32 {
        match self.state {
            ChannelState::Bursting(from, blocks) if until > from => {
                let passed = (until - from).checked_div(self.rules.block_ns).unwrap_or(u64::from(blocks));
                self.passed_blocks + passed.min(u64::from(blocks)) as u32
            }
            _ => self.passed_blocks,
        }
    }
}

/// Disk side of a transfer, as far as it is known so far.
trait DiskSide {
    /// Returns the time from which `blocks` blocks of the request can pass the channel; it grows with their number.
    fn ready_time(&self, blocks: u32) -> Option<Ns>;
    /// Returns the time at which the channel is acquired again, with `passed` blocks passed and `left` blocks left.
    fn reacquire_time(&self, passed: u32, left: u32) -> Option<Ns>;
}

/// Blocks come from the disk.
struct ReadSide {
    ready_times: Vec<Ns>,
    mark: u32,
}

impl DiskSide for ReadSide {
    fn ready_time(&self, blocks: u32) -> Option<Ns> {
        self.ready_times.get(blocks as usize - 1).copied()
    }

    fn reacquire_time(&self, passed: u32, left: u32) -> Option<Ns> {
        self.ready_time(passed + self.mark.clamp(1, left))
    }
}

/// Blocks go to the disk.
struct WriteSide {
    written_times: Vec<Ns>,
    mark: u32,
    buffer_blocks: u32,
}

impl WriteSide {
    fn written_time(&self, written: u32) -> Option<Ns> {
        if written == 0 { Some(0) } else { self.written_times.get(written as usize - 1).copied() }
    }
}

impl DiskSide for WriteSide {
    fn ready_time(&self, blocks: u32) -> Option<Ns> {
        self.written_time(blocks.saturating_sub(self.buffer_blocks))
    }

    fn reacquire_time(&self, passed: u32, _: u32) -> Option<Ns> {
        self.written_time(passed.saturating_sub(self.mark))
    }
}

/// Largest number of revolutions that a sector waits for buffer space or data. The channel becomes free long before.
const MAX_WAIT_REVOLUTIONS: u32 = 1 << 16;

impl Mechanism {
    /// Reads blocks from `now` on, and sends them; the first `have` blocks of the request are in the buffer already.
    pub fn read_in_bursts(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        (first, blocks): (u64, u32),
        have: u32,
        rules: &BurstRules,
    ) -> MediaTransfer {
        let mut transfer = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut disk = ReadSide { ready_times: vec![0; have as usize], mark: rules.mark };
        let mut link = ChannelSide::new(rules, have + blocks);
        let capacity = rules.buffer_blocks.max(1) + u32::from(!rules.into_buffer);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.track_run_cached(&mut arm.known_track, first + u64::from(done), blocks - done);
            let mut start = self.approach_first_sector(&mut transfer, arm, &run.place, false, 0);
            let sector = self.sectors_time(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MAX_WAIT_REVOLUTIONS {
                    link.advance_until(start, &disk);
                    if (disk.ready_times.len() as u32) < link.blocks_passed_by(start) + capacity {
                        break;
                    }
                    start += self.revolution_ns();
                    transfer.rotation += self.revolution_ns();
                }
                start += sector;
                transfer.media += sector;
                disk.ready_times.push(start);
            }
            transfer.end = start;
            done += run.blocks;
        }
        link.finish_transfer(transfer, &disk)
    }

    /// Writes blocks from `now` on, as the buffer has room for them. `sent` in the result is the time at which all of
    /// them were in the buffer.
    pub fn write_in_bursts(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        (first, blocks): (u64, u32),
        min_seek: Ns,
        rules: &BurstRules,
    ) -> MediaTransfer {
        let mut transfer = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut disk =
            WriteSide { written_times: Vec::new(), mark: rules.mark, buffer_blocks: rules.buffer_blocks.max(1) };
        let mut link = ChannelSide::new(rules, blocks);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.track_run_cached(&mut arm.known_track, first + u64::from(done), blocks - done);
            let min_seek_end = if done == 0 { now + min_seek } else { 0 };
            let mut start = self.approach_first_sector(&mut transfer, arm, &run.place, true, min_seek_end);
            let sector = self.sectors_time(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MAX_WAIT_REVOLUTIONS {
                    link.advance_until(start, &disk);
                    if link.blocks_passed_by(start) > disk.written_times.len() as u32 {
                        break;
                    }
                    start += self.revolution_ns();
                    transfer.rotation += self.revolution_ns();
                }
                start += sector;
                transfer.media += sector;
                disk.written_times.push(start);
            }
            transfer.end = start;
            done += run.blocks;
        }
        link.finish_transfer(transfer, &disk)
    }

    /// Moves the arm at the transfer's end, and returns the time at which the first sector of a place passes.
    fn approach_first_sector(
        &self,
        transfer: &mut MediaTransfer,
        arm: &mut ArmPosition,
        place: &SectorAddress,
        write: bool,
        min_seek_end: Ns,
    ) -> Ns {
        self.move_arm(transfer, arm, place, write);
        if transfer.end < min_seek_end {
            transfer.seek += min_seek_end - transfer.end;
            transfer.end = min_seek_end;
        }
        let wait = self.rotational_wait(transfer.end, place.angle);
        transfer.rotation += wait;
        self.pass_time(transfer.end, place.angle, wait)
    }
}
