//! Transfers in which disk and channel wait for each other: more blocks than the buffer holds, or a channel that is
//! released and acquired again. They are computed sector by sector; all others have a closed form (`mechanism.rs`).

use super::geometry::SectorAddress;
use super::mechanism::{ArmPosition, Mechanism, MediaTransfer};
use crate::Ns;

/// Rules of the channel's use in a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstRules {
    /// Time of a block, ns.
    pub block: Ns,
    /// True if the channel is kept while it waits for the disk.
    pub holds: bool,
    /// Blocks that a read must have in the buffer, or that a write may have left to be written, before the channel is
    /// acquired again.
    pub mark: u32,
    /// Time to release it, ns.
    pub leave: Ns,
    /// Time to acquire it again, ns.
    pub again: Ns,
    /// Time from which it is already acquired.
    pub connected: Option<Ns>,
    /// Otherwise, time from which it can be acquired.
    pub free: Ns,
    /// Size of the buffer, blocks.
    pub room: u32,
    /// True if a sector is read only when the buffer has room for it; otherwise one sector has its own buffer.
    pub into_buffer: bool,
}

/// State of the channel.
#[derive(Clone, Copy, Debug)]
enum LinkState {
    /// Released; it can be acquired again from this time on.
    Away(Ns),
    /// Being acquired until this time.
    Taken(Ns),
    /// Transferring this number of blocks from this time on.
    Bursts(Ns, u32),
    /// Kept, with no block ready.
    Held(Ns),
    /// All blocks passed by this time.
    Through(Ns),
}

/// Channel side of a transfer of `blocks` blocks.
struct LinkSide<'a> {
    rules: &'a BurstRules,
    blocks: u32,
    passed: u32,
    state: LinkState,
    /// Start of the first burst.
    began: Option<Ns>,
}

impl LinkSide<'_> {
    fn new(rules: &BurstRules, blocks: u32) -> LinkSide<'_> {
        let state = match rules.connected {
            Some(from) => LinkState::Taken(from),
            None => LinkState::Away(rules.free),
        };
        LinkSide { rules, blocks, passed: 0, state, began: None }
    }

    /// Advances the channel up to a time.
    fn until(&mut self, until: Ns, disk: &impl DiskSide) {
        loop {
            let left = self.blocks - self.passed;
            let able = |blocks: u32, passed: u32| disk.able(passed + blocks);
            self.state = match self.state {
                LinkState::Through(_) => return,
                LinkState::Away(from) => match disk.back(self.passed, left) {
                    Some(time) if from.max(time) <= until => LinkState::Taken(from.max(time) + self.rules.again),
                    _ => return,
                },
                LinkState::Taken(time) | LinkState::Held(time) => {
                    let keeps = self.rules.holds || matches!(self.state, LinkState::Taken(_));
                    match able(1, self.passed) {
                        Some(one) if keeps && time.max(one) <= until => self.burst(time.max(one), left, disk),
                        _ => return,
                    }
                }
                LinkState::Bursts(from, blocks) => {
                    let end = from + u64::from(blocks) * self.rules.block;
                    if end > until {
                        return;
                    }
                    self.passed += blocks;
                    let left = left - blocks;
                    match able(1, self.passed) {
                        _ if left == 0 => LinkState::Through(end),
                        Some(time) if time <= end => self.burst(end, left, disk),
                        _ if self.rules.holds => LinkState::Held(end),
                        _ => LinkState::Away(end + self.rules.leave),
                    }
                }
            };
        }
    }

    /// Starts a burst of all blocks that are ready at a time.
    fn burst(&mut self, time: Ns, left: u32, disk: &impl DiskSide) -> LinkState {
        self.began = self.began.or(Some(time));
        let (mut low, mut high) = (1, left + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let ready = disk.able(self.passed + middle);
            if ready.is_some_and(|ready| ready <= time) { low = middle } else { high = middle }
        }
        LinkState::Bursts(time, low)
    }

    /// Advances to the end, and adds the channel's times to the disk's transfer.
    fn ends(mut self, transfer: MediaTransfer, disk: &impl DiskSide) -> MediaTransfer {
        self.until(Ns::MAX, disk);
        let sent = if let LinkState::Through(end) = self.state { end } else { transfer.end };
        MediaTransfer { sending: self.began.unwrap_or(transfer.end), sent, ..transfer }
    }

    /// Returns the number of blocks that passed by a time.
    fn by(&self, until: Ns) -> u32 {
        match self.state {
            LinkState::Bursts(from, blocks) if until > from => {
                let passed = (until - from).checked_div(self.rules.block).unwrap_or(u64::from(blocks));
                self.passed + passed.min(u64::from(blocks)) as u32
            }
            _ => self.passed,
        }
    }
}

/// Disk side of a transfer, as far as it is known so far.
trait DiskSide {
    /// Returns the time at which `blocks` blocks of the request can have passed; it grows with them.
    fn able(&self, blocks: u32) -> Option<Ns>;
    /// Returns the time at which the channel is acquired again, with `passed` blocks passed and `left` blocks left.
    fn back(&self, passed: u32, left: u32) -> Option<Ns>;
}

/// Blocks come from the disk.
struct ReadSide {
    ready: Vec<Ns>,
    mark: u32,
}

impl DiskSide for ReadSide {
    fn able(&self, blocks: u32) -> Option<Ns> {
        self.ready.get(blocks as usize - 1).copied()
    }

    fn back(&self, passed: u32, left: u32) -> Option<Ns> {
        self.able(passed + self.mark.clamp(1, left))
    }
}

/// Blocks go to the disk.
struct WriteSide {
    written: Vec<Ns>,
    mark: u32,
    room: u32,
}

impl WriteSide {
    fn after(&self, written: u32) -> Option<Ns> {
        if written == 0 { Some(0) } else { self.written.get(written as usize - 1).copied() }
    }
}

impl DiskSide for WriteSide {
    fn able(&self, blocks: u32) -> Option<Ns> {
        self.after(blocks.saturating_sub(self.room))
    }

    fn back(&self, passed: u32, _: u32) -> Option<Ns> {
        self.after(passed.saturating_sub(self.mark))
    }
}

/// Largest number of revolutions that a sector waits for room or data; a free channel comes long before.
const MOST_TURNS: u32 = 1 << 16;

impl Mechanism {
    /// Reads blocks from `now` on, and sends them; the first `have` of the request are in the buffer already.
    pub fn read_in_bursts(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        (first, blocks): (u64, u32),
        have: u32,
        rules: &BurstRules,
    ) -> MediaTransfer {
        let mut transfer = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut disk = ReadSide { ready: vec![0; have as usize], mark: rules.mark };
        let mut link = LinkSide::new(rules, have + blocks);
        let room = rules.room.max(1) + u32::from(!rules.into_buffer);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), blocks - done);
            let mut start = self.reaches(&mut transfer, arm, &run.place, false, 0);
            let sector = self.span(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MOST_TURNS {
                    link.until(start, &disk);
                    if (disk.ready.len() as u32) < link.by(start) + room {
                        break;
                    }
                    start += self.revolution();
                    transfer.rotation += self.revolution();
                }
                start += sector;
                transfer.transfer += sector;
                disk.ready.push(start);
            }
            transfer.end = start;
            done += run.blocks;
        }
        link.ends(transfer, &disk)
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
        let mut disk = WriteSide { written: Vec::new(), mark: rules.mark, room: rules.room.max(1) };
        let mut link = LinkSide::new(rules, blocks);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), blocks - done);
            let min_seek_end = if done == 0 { now + min_seek } else { 0 };
            let mut start = self.reaches(&mut transfer, arm, &run.place, true, min_seek_end);
            let sector = self.span(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MOST_TURNS {
                    link.until(start, &disk);
                    if link.by(start) > disk.written.len() as u32 {
                        break;
                    }
                    start += self.revolution();
                    transfer.rotation += self.revolution();
                }
                start += sector;
                transfer.transfer += sector;
                disk.written.push(start);
            }
            transfer.end = start;
            done += run.blocks;
        }
        link.ends(transfer, &disk)
    }

    /// Moves the arm at the transfer's end, and returns the time at which the first sector of a place passes.
    fn reaches(
        &self,
        transfer: &mut MediaTransfer,
        arm: &mut ArmPosition,
        place: &SectorAddress,
        write: bool,
        min_seek_end: Ns,
    ) -> Ns {
        self.approach(transfer, arm, place, write);
        if transfer.end < min_seek_end {
            transfer.seek += min_seek_end - transfer.end;
            transfer.end = min_seek_end;
        }
        let wait = self.wait(transfer.end, place.angle);
        transfer.rotation += wait;
        self.passes(transfer.end, place.angle, wait)
    }
}
