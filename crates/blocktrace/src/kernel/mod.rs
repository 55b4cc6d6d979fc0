//! Histograms kept in the kernel by a small program, for rates at which handing out every
//! event would cost too much. No compiler and no type information is needed: the program is
//! written here, with the places of fields from the kernel's own descriptions.

mod assembler;
mod calls;
mod program;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::cost;
use crate::devices::BlockDeviceNames;
use crate::event::{BlockEventKind, EventTable, TracedOperation};
use crate::latency::{STEPS, edges};
use crate::summary::CountedRequests;
use assembler::Assembler;
use calls::{AttachedProgram, SharedWords};
use program::{
    ENTRY_BYTES, KEY_BYTES, MOST_DEVICES, NO_ROOM, OPERATIONS, ProgramPlan, SUM_WORDS, SUMS, WITHOUT_BEGINNING,
    steps_from, value_words,
};

/// Requests that may be under way at once.
const MOST_UNDER_WAY: u32 = 1 << 16;

/// Why the kernel does not count.
#[derive(Debug, thiserror::Error)]
pub enum KernelCountError {
    /// A call was refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// An event's layout does not suit a program.
    #[error("{0}: its fields fit none of the kernel programs")]
    Layout(&'static str),
    /// There is nothing to count.
    #[error("no device")]
    NoDevice,
}

/// What the program in the kernel could not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCountLoss {
    /// Completions whose beginning was not seen: before the program ran, or a second request at the same place.
    pub without_beginning: u64,
    /// Beginnings that found no room.
    pub no_room: u64,
}

/// A program that counts.
#[derive(Debug)]
pub struct KernelCounter {
    table: OwnedFd,
    counts: OwnedFd,
    words: SharedWords,
    programs: Vec<AttachedProgram>,
    /// Devices by position.
    devices: Vec<u32>,
    /// Numbers that a device's requests and bios may bear.
    numbers: Vec<(u32, u32)>,
    before: Vec<u64>,
    from_issue: bool,
    /// Devices that found no position.
    pub left_out: usize,
}

/// What it costs to come to a program at a tracepoint and back, nanoseconds: that of [`cost::CALIBRATED`], whose
/// number this is, with an empty program.
pub(crate) fn entry_ns(tracepoint: u16) -> Result<f64, KernelCountError> {
    let timed = || cost::time_renames().map_err(refused("a name of the thread"));
    let bare = timed()?;
    let mut empty = Assembler::default();
    empty.exit();
    let code = empty.finish().ok_or(KernelCountError::Layout("an empty program"))?;
    let program = calls::load(&code, "diskwright").map_err(refused("a program in the kernel (bpf)"))?;
    let _attached = calls::attach(program, tracepoint).map_err(refused("a program at a tracepoint"))?;
    Ok((timed()? - bare).max(0.0))
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> KernelCountError {
    move |error| KernelCountError::Refused { what, error }
}

impl KernelCounter {
    /// Starts counting these disks; `mask` has the bits of a sector that are zero where it is counted.
    ///
    /// # Errors
    /// When the kernel refuses, or an event's layout does not suit.
    pub fn start(
        events: &EventTable,
        names: &mut BlockDeviceNames,
        disks: &[u32],
        mask: u64,
    ) -> Result<KernelCounter, KernelCountError> {
        let devices: Vec<u32> = disks.iter().copied().take(MOST_DEVICES).collect();
        if devices.is_empty() {
            return Err(KernelCountError::NoDevice);
        }
        let mut numbers: Vec<(u32, u32)> = Vec::new();
        for (position, disk) in devices.iter().enumerate() {
            numbers.push((*disk, position as u32));
            numbers.extend(names.partitions(*disk).into_iter().map(|part| (part, position as u32)));
        }
        let words = value_words(devices.len());
        let table = calls::map(calls::HASH, KEY_BYTES, ENTRY_BYTES, MOST_UNDER_WAY, false);
        let table = table.map_err(refused("a table in the kernel (bpf)"))?;
        let counts = calls::map(calls::ARRAY, 4, (words * 8) as u32, 1, true).map_err(refused("a map (bpf)"))?;
        let mut value = vec![0; words];
        (0..MOST_DEVICES).for_each(|position| value[position] = position as u64);
        calls::set_value(&counts, &value).map_err(refused("a map's value (bpf)"))?;
        let shared = SharedWords::of(&counts, words).map_err(refused("a map as memory"))?;
        let left_out = disks.len() - devices.len();
        let (programs, before) = (Vec::new(), vec![0; words]);
        let words = shared;
        let from_issue = false;
        let mut counter =
            KernelCounter { table, counts, words, programs, devices, numbers, before, from_issue, left_out };
        counter.attach(events, names, mask)?;
        Ok(counter)
    }

    /// Has only places counted whose sectors have zeros at `mask`, from now on; and latency counted from the issue
    /// alone, without the program at the start, where that is wanted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn sample(
        &mut self,
        events: &EventTable,
        names: &mut BlockDeviceNames,
        mask: u64,
        from_issue: bool,
    ) -> Result<(), KernelCountError> {
        self.from_issue = from_issue;
        self.attach(events, names, mask)
    }

    /// Whether latency counts from the issue.
    pub fn is_from_issue(&self) -> bool {
        self.from_issue
    }

    fn attach(&mut self, events: &EventTable, names: &mut BlockDeviceNames, mask: u64) -> Result<(), KernelCountError> {
        let of_requests = |names: &mut BlockDeviceNames, device: u32| {
            let disk = names.disk_of(device);
            names.has_requests(disk)
        };
        let (by_requests, by_bios): (Vec<_>, Vec<_>) =
            self.numbers.iter().copied().partition(|(device, _)| of_requests(names, *device));
        let has_start = events.layout(BlockEventKind::Start).is_some();
        let start = if has_start { BlockEventKind::Start } else { BlockEventKind::GetRequest };
        use BlockEventKind::{BioComplete, Complete, FrontMerge, Issue, Queue, RequestMerge};
        // ends first, so that none comes to a beginning that is not taken out
        let wanted = [Complete, Issue, FrontMerge, RequestMerge, start].map(|kind| (kind, &by_requests));
        // merges come before the issue
        let most = if self.from_issue { 2 } else { wanted.len() };
        let wanted = wanted.into_iter().take(most).chain([BioComplete, Queue].map(|kind| (kind, &by_bios)));
        let mut programs = Vec::new();
        for (kind, devices) in wanted.filter(|(_, devices)| !devices.is_empty()) {
            let Some(layout) = events.layout(kind) else { continue };
            let plan = ProgramPlan {
                layout,
                devices,
                positions: self.devices.len(),
                mask,
                table: self.table.as_raw_fd(),
                counts: self.counts.as_raw_fd(),
            };
            let code = plan.assemble().ok_or(KernelCountError::Layout(kind.name()))?;
            let program = calls::load(&code, "diskwright").map_err(refused("a program in the kernel (bpf)"))?;
            programs.push(calls::attach(program, layout.id).map_err(refused("a program at a tracepoint"))?);
        }
        self.programs = programs;
        Ok(())
    }

    /// What was counted since the last reading, by device and operation.
    pub fn read(&mut self) -> Vec<(u32, TracedOperation, CountedRequests)> {
        let mut found = Vec::new();
        for (position, device) in self.devices.clone().into_iter().enumerate() {
            for operation in TracedOperation::ALL {
                let pair = position * OPERATIONS + operation as usize;
                let counted = self.read_one(pair);
                if !counted.latency.is_empty() {
                    found.push((device, operation, counted));
                }
            }
        }
        found
    }

    fn read_one(&mut self, pair: usize) -> CountedRequests {
        let sums = SUMS + pair * SUM_WORDS;
        if self.words.get(sums) == self.before[sums] {
            // every request adds to the sum of latencies
            return CountedRequests::default();
        }
        let steps = steps_from(self.devices.len()) + pair * 2 * STEPS;
        let latency = self.read_steps(steps);
        if latency.is_empty() {
            return CountedRequests::default();
        }
        let device = self.read_steps(steps + STEPS);
        // the longest may have been overwritten by one of the same instant; its step was not
        let top = |steps: &[(usize, u64)]| steps.last().map_or(0, |(step, _)| edges(*step).0);
        CountedRequests {
            longest_ns: self.words.get(sums + 2).max(top(&latency)),
            longest_device_ns: self.words.get(sums + 3).max(top(&device)),
            latency,
            device,
            latency_ns: self.increase(sums),
            device_ns: self.increase(sums + 1),
            bytes: self.increase(sums + 4),
            errors: self.increase(sums + 5),
        }
    }

    fn read_steps(&mut self, from: usize) -> Vec<(usize, u64)> {
        let mut steps = Vec::new();
        for step in 0..STEPS {
            let count = self.increase(from + step);
            if count > 0 {
                steps.push((step, count));
            }
        }
        steps
    }

    fn increase(&mut self, word: usize) -> u64 {
        let now = self.words.get(word);
        now.wrapping_sub(std::mem::replace(&mut self.before[word], now))
    }

    /// What could not be counted since the start.
    pub fn loss(&self) -> KernelCountLoss {
        KernelCountLoss { without_beginning: self.words.get(WITHOUT_BEGINNING), no_room: self.words.get(NO_ROOM) }
    }
}

/// The kernel's own measurement of programs: while this lives, it counts how long they run.
#[derive(Debug)]
pub struct ProgramTimer {
    _statistics: OwnedFd,
}

impl ProgramTimer {
    /// Switches it on; `None` where the kernel does not allow it.
    pub fn start() -> Option<ProgramTimer> {
        calls::enable_statistics().ok().map(|statistics| ProgramTimer { _statistics: statistics })
    }

    /// Time that the programs ran since the start, nanoseconds, and how often.
    pub fn read(&self, counter: &KernelCounter) -> (u64, u64) {
        let each = counter.programs.iter().filter_map(|program| program.statistics().ok());
        each.fold((0, 0), |(time, count), (more, times)| (time + more, count + times))
    }
}
