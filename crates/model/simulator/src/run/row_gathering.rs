//! Writes that complete a row, as Linux's md finds them: its stripe cache holds a write of part of a row until
//! everything that comes with it has been accepted, so that a stream of small writes becomes writes of full rows
//! (drivers/md/raid5.c: plugging, and STRIPE_DELAYED).
//!
//! Writes that arrive at the same time are gathered. Those that do not fill their row wait further while the array
//! reads for other such writes, as in md (IO_THRESHOLD is 1).

use super::job::{Job, Parent};
use super::{Event, Simulation};
use crate::Ns;
use crate::array::{ArrayLevel, ParityUpdate, Planner};
use crate::io::Io;

/// Largest number of write streams tracked at a time.
const MAX_STREAMS: usize = 8;

/// An array's writes that wait for the other writes of the same time.
#[derive(Debug)]
pub(super) struct RowGathering {
    row_blocks: u64,
    /// End of each tracked stream, and the index of the one replaced last.
    stream_ends: [u64; MAX_STREAMS],
    last_replaced: usize,
    waiting: Vec<u32>,
    /// Partial-row writes that are still reading.
    reading: Vec<u32>,
    /// By group number: the writes that are combined into one.
    groups: Vec<Vec<u32>>,
    free_groups: Vec<u32>,
}

impl RowGathering {
    /// `None` if the array does not gather writes.
    pub fn new(planner: &Planner) -> Option<RowGathering> {
        let array = planner.array();
        let parity = matches!(array.level(), ArrayLevel::Raid4 | ArrayLevel::Raid5 | ArrayLevel::Raid6);
        (parity && planner.policy().write_by == ParityUpdate::Md).then(|| RowGathering {
            row_blocks: array.row_blocks(),
            stream_ends: [u64::MAX; MAX_STREAMS],
            last_replaced: 0,
            waiting: Vec::new(),
            reading: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
        })
    }

    /// True if a write continues a stream within a row that it does not fill.
    fn continues_stream(&mut self, io: &Io) -> bool {
        let stream = self.stream_ends.iter().position(|end| *end == io.first);
        let index = stream.unwrap_or_else(|| {
            self.last_replaced = (self.last_replaced + 1) % MAX_STREAMS;
            self.last_replaced
        });
        self.stream_ends[index] = io.end();
        let one_row = io.first / self.row_blocks == (io.end() - 1) / self.row_blocks;
        stream.is_some() && one_row && u64::from(io.blocks) < self.row_blocks
    }

    fn store_group(&mut self, group: Vec<u32>) -> u32 {
        let number = self.free_groups.pop().unwrap_or(self.groups.len() as u32);
        if number as usize == self.groups.len() {
            self.groups.push(Vec::new());
        }
        self.groups[number as usize] = group;
        number
    }
}

impl Simulation {
    /// Holds a write of a stream back at least until all events of this time are handled. False if it may begin.
    pub(super) fn hold_for_row(&mut self, now: Ns, array: u16, job: u32) -> bool {
        let io = self.jobs[job].io;
        let Some(gathering) = &mut self.arrays[usize::from(array)].gathering else { return false };
        if !io.write || io.blocks == 0 || !gathering.continues_stream(&io) {
            return false;
        }
        gathering.waiting.push(job);
        self.events.schedule(now, Event::GatheredWrites { array });
        true
    }

    /// Combines the gathered writes that are contiguous within a row into single writes, and starts them.
    pub(super) fn start_gathered_writes(&mut self, now: Ns, array: u16) {
        let Some(gathering) = &mut self.arrays[usize::from(array)].gathering else { return };
        let row_blocks = gathering.row_blocks;
        let may_read = gathering.reading.is_empty();
        let mut waiting = std::mem::take(&mut gathering.waiting);
        waiting.sort_by_key(|job| self.jobs[*job].io.first);
        let (mut rest, mut kept) = (waiting.as_slice(), Vec::new());
        while let Some(first) = rest.first() {
            let mut combined = self.jobs[*first].io;
            let row = combined.first / row_blocks;
            let mut count = 1;
            for io in rest[1..].iter().map(|job| self.jobs[*job].io) {
                if io.first != combined.end() || io.first / row_blocks != row {
                    break;
                }
                combined.blocks += io.blocks;
                count += 1;
            }
            let (group, others) = rest.split_at(count);
            let fills = u64::from(combined.blocks) == row_blocks;
            if fills || may_read {
                self.start_gathered_write(now, array, group, combined, !fills);
            } else {
                kept.extend_from_slice(group);
            }
            rest = others;
        }
        // writes that arrived meanwhile have scheduled their own event
        if let Some(gathering) = &mut self.arrays[usize::from(array)].gathering {
            gathering.waiting.extend(kept);
        }
    }

    fn start_gathered_write(&mut self, now: Ns, array: u16, group: &[u32], combined: Io, reads: bool) {
        let run = &mut self.arrays[usize::from(array)];
        let own = run.background_path;
        let Some(gathering) = &mut run.gathering else { return };
        let job = match group {
            [job] => *job,
            _ => {
                let parent = Parent::Gathered { array, group: gathering.store_group(group.to_vec()) };
                self.jobs.insert(Job::new(combined, own, parent))
            }
        };
        if reads {
            gathering.reading.push(job);
        }
        self.plan_array_request(now, array, job);
    }

    /// Marks a write's reads as done; the writes that wait for that may begin.
    pub(super) fn finish_row_read(&mut self, now: Ns, array: u16, job: u32) {
        let Some(gathering) = &mut self.arrays[usize::from(array)].gathering else { return };
        let Some(index) = gathering.reading.iter().position(|reading| *reading == job) else { return };
        gathering.reading.swap_remove(index);
        if gathering.reading.is_empty() && !gathering.waiting.is_empty() {
            self.events.schedule(now, Event::GatheredWrites { array });
        }
    }

    /// Completes a combined write and all the writes in it.
    pub(super) fn complete_gathered_write(&mut self, now: Ns, array: u16, job: u32, group: u32) {
        self.jobs.remove(job);
        let Some(gathering) = &mut self.arrays[usize::from(array)].gathering else { return };
        let jobs = std::mem::take(&mut gathering.groups[group as usize]);
        gathering.free_groups.push(group);
        assert!(jobs.len() > 1, "a single write is not gathered");
        for job in jobs {
            self.complete_array_request(now, array, job);
        }
    }
}
