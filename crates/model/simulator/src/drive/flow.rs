//! Transfers in which disk and channel wait for each other: more blocks than the
//! buffer holds, or a channel that is left and taken again. They are worked out
//! sector by sector; all others have a closed form (`mechanism.rs`).

use super::geometry::SectorAddress;
use super::mechanism::{ArmPosition, Mechanism, MediaTransfer};
use crate::Ns;

/// How the channel is used in a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstRules {
    /// Time of a block.
    pub block: Ns,
    /// It is kept while it waits for the disk.
    pub holds: bool,
    /// Blocks that a read must have in the buffer, or that a write may have left to be
    /// written, before the channel is taken again.
    pub mark: u32,
    /// Leaving it.
    pub leave: Ns,
    /// Taking it again.
    pub again: Ns,
    /// It is kept already from this moment on.
    pub connected: Option<Ns>,
    /// Otherwise it can be taken from this moment on.
    pub free: Ns,
    /// Blocks of the buffer.
    pub room: u32,
    /// A sector is read only when there is room for it, and not into a place of its own.
    pub into_buffer: bool,
}

/// What the channel is at.
#[derive(Clone, Copy, Debug)]
enum LinkState {
    /// Left; it can be taken again from then on.
    Away(Ns),
    /// Being taken until then.
    Taken(Ns),
    /// Blocks pass from then on.
    Bursts(Ns, u32),
    /// Kept, with nothing to pass.
    Held(Ns),
    /// All passed by then.
    Through(Ns),
}

/// The channel's side of a transfer of `blocks` blocks.
struct LinkSide<'a> {
    rules: &'a BurstRules,
    blocks: u32,
    passed: u32,
    state: LinkState,
    /// When the first burst began.
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

    /// Goes on up to a moment.
    fn until(&mut self, moment: Ns, disk: &impl DiskSide) {
        loop {
            let left = self.blocks - self.passed;
            let able = |blocks: u32, passed: u32| disk.able(passed + blocks);
            self.state = match self.state {
                LinkState::Through(_) => return,
                LinkState::Away(from) => match disk.back(self.passed, left) {
                    Some(time) if from.max(time) <= moment => LinkState::Taken(from.max(time) + self.rules.again),
                    _ => return,
                },
                LinkState::Taken(time) | LinkState::Held(time) => {
                    let keeps = self.rules.holds || matches!(self.state, LinkState::Taken(_));
                    match able(1, self.passed) {
                        Some(one) if keeps && time.max(one) <= moment => self.burst(time.max(one), left, disk),
                        _ => return,
                    }
                }
                LinkState::Bursts(from, blocks) => {
                    let end = from + u64::from(blocks) * self.rules.block;
                    if end > moment {
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

    /// All that can pass at a moment.
    fn burst(&mut self, time: Ns, left: u32, disk: &impl DiskSide) -> LinkState {
        self.began = self.began.or(Some(time));
        let (mut some, mut more) = (1, left + 1);
        while more - some > 1 {
            let middle = some.midpoint(more);
            let ready = disk.able(self.passed + middle);
            if ready.is_some_and(|ready| ready <= time) { some = middle } else { more = middle }
        }
        LinkState::Bursts(time, some)
    }

    /// All passes; adds the channel's moments to what the disk did.
    fn ends(mut self, passage: MediaTransfer, disk: &impl DiskSide) -> MediaTransfer {
        self.until(Ns::MAX, disk);
        let sent = if let LinkState::Through(end) = self.state { end } else { passage.end };
        MediaTransfer { sending: self.began.unwrap_or(passage.end), sent, ..passage }
    }

    /// Blocks that passed by a moment.
    fn by(&self, moment: Ns) -> u32 {
        match self.state {
            LinkState::Bursts(from, blocks) if moment > from => {
                let passed = (moment - from).checked_div(self.rules.block).unwrap_or(u64::from(blocks));
                self.passed + passed.min(u64::from(blocks)) as u32
            }
            _ => self.passed,
        }
    }
}

/// What the disk lets the channel do, as far as it is known by now.
trait DiskSide {
    /// When `blocks` blocks of the request can have passed; grows with them.
    fn able(&self, blocks: u32) -> Option<Ns>;
    /// When the channel is taken again, with so many passed and so many left.
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

/// Turns that a sector waits at most for room or for its data; a channel that is free comes long before.
const MOST_TURNS: u32 = 1 << 16;

impl Mechanism {
    /// Reads blocks from a moment on, and sends them; the first `have` of the request are in
    /// the buffer already.
    pub fn read_in_bursts(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        (first, blocks): (u64, u32),
        have: u32,
        rules: &BurstRules,
    ) -> MediaTransfer {
        let mut passage = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut disk = ReadSide { ready: vec![0; have as usize], mark: rules.mark };
        let mut link = LinkSide::new(rules, have + blocks);
        let room = rules.room.max(1) + u32::from(!rules.into_buffer);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), blocks - done);
            let mut start = self.reaches(&mut passage, arm, &run.place, false, 0);
            let sector = self.span(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MOST_TURNS {
                    link.until(start, &disk);
                    if (disk.ready.len() as u32) < link.by(start) + room {
                        break;
                    }
                    start += self.revolution();
                    passage.rotation += self.revolution();
                }
                start += sector;
                passage.transfer += sector;
                disk.ready.push(start);
            }
            passage.end = start;
            done += run.blocks;
        }
        link.ends(passage, &disk)
    }

    /// Writes blocks from a moment on, as the buffer's room lets them come. `sent` is when all
    /// of them were in the buffer.
    pub fn write_in_bursts(
        &self,
        now: Ns,
        arm: &mut ArmPosition,
        (first, blocks): (u64, u32),
        least: Ns,
        rules: &BurstRules,
    ) -> MediaTransfer {
        let mut passage = MediaTransfer { end: now, ..MediaTransfer::default() };
        let mut disk = WriteSide { written: Vec::new(), mark: rules.mark, room: rules.room.max(1) };
        let mut link = LinkSide::new(rules, blocks);
        let mut done = 0;
        while done < blocks {
            let run = self.geometry.run_known(&mut arm.track, first + u64::from(done), blocks - done);
            let least = if done == 0 { now + least } else { 0 };
            let mut start = self.reaches(&mut passage, arm, &run.place, true, least);
            let sector = self.span(&run.place, run.sectors) / u64::from(run.blocks);
            for _ in 0..run.blocks {
                for _ in 0..MOST_TURNS {
                    link.until(start, &disk);
                    if link.by(start) > disk.written.len() as u32 {
                        break;
                    }
                    start += self.revolution();
                    passage.rotation += self.revolution();
                }
                start += sector;
                passage.transfer += sector;
                disk.written.push(start);
            }
            passage.end = start;
            done += run.blocks;
        }
        link.ends(passage, &disk)
    }

    /// When the first sector of a place passes, the arm setting out at the passage's end.
    fn reaches(
        &self,
        passage: &mut MediaTransfer,
        arm: &mut ArmPosition,
        place: &SectorAddress,
        write: bool,
        least: Ns,
    ) -> Ns {
        self.approach(passage, arm, place, write);
        if passage.end < least {
            passage.seek += least - passage.end;
            passage.end = least;
        }
        let wait = self.wait(passage.end, place.angle);
        passage.rotation += wait;
        self.passes(passage.end, place.angle, wait)
    }
}
