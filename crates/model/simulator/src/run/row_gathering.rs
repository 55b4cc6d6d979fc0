//! Gathers small writes into writes of full rows, as Linux's md does: its stripe cache holds a write of a part of a row
//! until all requests that arrive with it have been accepted, so that a stream of small writes becomes writes of full
//! rows (drivers/md/raid5.c: plugging, and STRIPE_DELAYED).
//!
//! Writes that arrive at the same time are gathered. Those that do not fill their row wait further while the array
//! reads for other such writes, as in md (IO_THRESHOLD is 1).

use super::Event;
use super::arrays::ArrayRun;
use super::job::{Job, JobFlow, Parent};
use super::slots::Slots;
use crate::Ns;
use crate::array::{ArrayLevel, ParityUpdate, Planner};
use crate::io::Io;

/// Largest number of write streams tracked at a time.
const MAX_STREAMS: usize = 8;
/// End of a stream that does not exist: no request begins there.
const NO_STREAM: u64 = u64::MAX;

/// An array's writes that wait for the other writes of the same time.
#[derive(Debug)]
pub(super) struct RowGathering {
    row_blocks: u64,
    /// End of each tracked stream, or [`NO_STREAM`].
    stream_ends: [u64; MAX_STREAMS],
    /// Index of the stream that was replaced last.
    last_replaced: usize,
    waiting: Vec<u32>,
    /// Partial-row writes that are still reading.
    reading: Vec<u32>,
    /// By group number: the writes that are combined into one.
    groups: Slots<Vec<u32>>,
}

/// Writes that have waited, while they are combined and begin one group after the other.
pub(super) struct GatheredWrites {
    /// The writes, in the order of their positions.
    jobs: Vec<u32>,
    /// Index of the next write; those before it have begun or are in `kept`.
    next: usize,
    /// Writes that must keep waiting.
    kept: Vec<u32>,
    /// True if no write of a part of a row was reading, so that these writes may read.
    may_read: bool,
}

impl RowGathering {
    /// `None` if the array does not gather writes.
    pub fn new(planner: &Planner) -> Option<RowGathering> {
        let array = planner.array();
        let parity = matches!(array.level(), ArrayLevel::Raid4 | ArrayLevel::Raid5 | ArrayLevel::Raid6);
        (parity && planner.policy().write_by == ParityUpdate::Md).then(|| RowGathering {
            row_blocks: array.row_blocks(),
            stream_ends: [NO_STREAM; MAX_STREAMS],
            last_replaced: 0,
            waiting: Vec::new(),
            reading: Vec::new(),
            groups: Slots::default(),
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
        let is_one_row = io.first / self.row_blocks == (io.end() - 1) / self.row_blocks;
        stream.is_some() && is_one_row && u64::from(io.blocks) < self.row_blocks
    }

    /// Takes the writes of a group that is complete.
    pub fn take_group(&mut self, group: u32) -> Vec<u32> {
        let jobs = self.groups.take(group);
        assert!(jobs.len() > 1, "a single write is not gathered");
        jobs
    }
}

/// Combines the first of some writes, in the order of their positions, with those that continue it within its row.
/// Returns the combined write and the number of its parts.
fn combine_first(jobs: &[u32], row_blocks: u64, flow: &JobFlow) -> Option<(Io, usize)> {
    let mut combined = flow.jobs[*jobs.first()?].io;
    let row = combined.first / row_blocks;
    let mut count = 1;
    for io in jobs[1..].iter().map(|job| flow.jobs[*job].io) {
        if io.first != combined.end() || io.first / row_blocks != row {
            break;
        }
        combined.blocks += io.blocks;
        count += 1;
    }
    debug_assert!((combined.end() - 1) / row_blocks == row, "a combined write leaves its row");
    Some((combined, count))
}

impl ArrayRun {
    /// Holds a write of a stream back at least until all events of this time are handled. False if it may begin.
    #[inline]
    pub fn hold_for_row(&mut self, now: Ns, job: u32, flow: &mut JobFlow) -> bool {
        let io = flow.jobs[job].io;
        let Some(gathering) = &mut self.gathering else { return false };
        if !io.write || io.blocks == 0 || !gathering.continues_stream(&io) {
            return false;
        }
        gathering.waiting.push(job);
        flow.events.schedule(now, Event::GatheredWrites { array: self.number });
        true
    }

    /// Takes the writes that wait, so that they begin ([`ArrayRun::begin_gathered_write`]) or keep waiting
    /// ([`ArrayRun::keep_gathered`]).
    pub fn take_gathered(&mut self, flow: &JobFlow) -> Option<GatheredWrites> {
        let gathering = self.gathering.as_mut()?;
        let mut jobs = std::mem::take(&mut gathering.waiting);
        jobs.sort_by_key(|job| flow.jobs[*job].io.first);
        Some(GatheredWrites { jobs, next: 0, kept: Vec::new(), may_read: gathering.reading.is_empty() })
    }

    /// Combines the next writes that are contiguous within a row into a single write, and returns its job, which must
    /// be planned. `None` if no further write may begin.
    pub fn begin_gathered_write(&mut self, writes: &mut GatheredWrites, flow: &mut JobFlow) -> Option<u32> {
        let gathering = self.gathering.as_mut()?;
        loop {
            let remaining = &writes.jobs[writes.next..];
            let (combined, count) = combine_first(remaining, gathering.row_blocks, flow)?;
            let group = &remaining[..count];
            writes.next += count;
            let fills_row = u64::from(combined.blocks) == gathering.row_blocks;
            if !fills_row && !writes.may_read {
                writes.kept.extend_from_slice(group);
                continue;
            }
            let job = match group {
                [job] => *job,
                _ => {
                    let parent =
                        Parent::Gathered { array: self.number, group: gathering.groups.insert(group.to_vec()) };
                    flow.jobs.insert(Job::new(combined, self.background_path, parent))
                }
            };
            if !fills_row {
                gathering.reading.push(job);
            }
            return Some(job);
        }
    }

    /// Puts back the writes that could not begin. Writes that arrived meanwhile have scheduled their own event.
    pub fn keep_gathered(&mut self, writes: GatheredWrites) {
        if let Some(gathering) = &mut self.gathering {
            gathering.waiting.extend(writes.kept);
        }
    }

    /// Marks a write's reads as done; the writes that wait for that may begin.
    #[inline]
    pub fn finish_row_read(&mut self, now: Ns, job: u32, flow: &mut JobFlow) {
        let Some(gathering) = &mut self.gathering else { return };
        let Some(index) = gathering.reading.iter().position(|reading| *reading == job) else { return };
        gathering.reading.swap_remove(index);
        if gathering.reading.is_empty() && !gathering.waiting.is_empty() {
            flow.events.schedule(now, Event::GatheredWrites { array: self.number });
        }
    }
}
