//! Histograms kept in the kernel by small programs, for rates at which reading every event would cost too much. No
//! compiler and no kernel headers are needed: the programs are generated here, with the offsets of fields from the
//! kernel's own descriptions.

mod assembler;
mod bpf_calls;
mod count_map;
mod event_program;
mod kernel_types;
mod typed_program;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::devices::BlockDeviceNames;
use crate::event::{BlockEventKind, EventTable, TracedOperation};
use crate::latency::{BUCKET_COUNT, bucket_edges};
use crate::summary::CountedRequests;
use crate::trace_cost;
use assembler::Assembler;
use bpf_calls::{AttachedProgram, SharedWords};
use count_map::{
    BYTES_WORD, CountWords, DEVICE_WORD, ERRORS_WORD, LATENCY_WORD, LONGEST_DEVICE_WORD, LONGEST_WORD, MAX_DEVICES,
    NO_ROOM, OPERATION_COUNT, WITHOUT_BEGINNING,
};
use event_program::{ENTRY_BYTES, KEY_BYTES, ProgramPlan};
use kernel_types::{KernelTypes, RequestFields};
use typed_program::{TYPED_ENTRY_BYTES, TYPED_KEY_BYTES, TypedPlan};

/// Largest number of requests in flight that are followed.
const MAX_IN_FLIGHT: u32 = 1 << 16;

/// Reason why the kernel does not count.
#[derive(Debug, thiserror::Error)]
pub enum KernelCountError {
    /// The kernel refused a call.
    #[error("{operation}: {error}")]
    Refused {
        /// The object that could not be created or attached.
        operation: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
    /// No program can read the event or request: its layout is unknown, or its fields are too far apart.
    #[error("{0}: its fields fit none of the kernel programs")]
    Layout(&'static str),
    /// There is nothing to count.
    #[error("no device")]
    NoDevice,
}

/// Requests that the program in the kernel could not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCountLoss {
    /// Completions whose beginning was not seen: it came before the program ran, or the request was the second at its
    /// place.
    pub without_beginning: u64,
    /// Beginnings for which the table was full.
    pub no_room: u64,
    /// Events that came while another program ran on the same processor.
    pub missed: u64,
}

/// The programs that count, their tables, and what was read from them.
#[derive(Debug)]
pub struct KernelCounter {
    table: OwnedFd,
    /// Table of issue times by requests' addresses, where the kernel describes its types.
    issues: Option<OwnedFd>,
    /// Keeps the map of the counts.
    _counts: OwnedFd,
    /// The counts as memory.
    shared: SharedWords,
    words: CountWords,
    /// Fields of requests, if the kernel describes them: then programs read requests themselves.
    fields: Option<RequestFields>,
    programs: Vec<AttachedProgram>,
    /// Devices by position.
    devices: Vec<u32>,
    /// Device numbers that requests and bios may carry, with the position of their device.
    numbers: Vec<(u32, u32)>,
    /// The counts at the last reading.
    previous_words: Vec<u64>,
    /// One program fewer runs.
    is_reduced: bool,
    /// At least one device handles requests.
    has_requests: bool,
    /// Number of events that earlier, replaced programs missed.
    missed: u64,
    /// Why programs read events although the kernel describes its types.
    pub refusal: Option<String>,
    /// Number of devices beyond the limit of the program.
    pub left_out: usize,
}

fn refused_error(operation: &'static str) -> impl Fn(io::Error) -> KernelCountError {
    move |error| KernelCountError::Refused { operation, error }
}

/// Loads the smallest program and drops it, to learn whether this process may load any.
///
/// # Errors
/// The refusal of the kernel.
pub fn check_access() -> io::Result<()> {
    // r0 = 0; exit
    const RETURN_ZERO: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    bpf_calls::load_program(&RETURN_ZERO, "check").map(drop)
}

impl KernelCounter {
    /// Starts counting these disks; `mask` has the bits of a sector that are zero if it is counted.
    ///
    /// # Errors
    /// When the kernel refuses, or an event's layout does not suit.
    pub fn start(
        events: &EventTable,
        names: &mut BlockDeviceNames,
        disks: &[u32],
        mask: u64,
    ) -> Result<KernelCounter, KernelCountError> {
        let devices: Vec<u32> = disks.iter().copied().take(MAX_DEVICES).collect();
        if devices.is_empty() {
            return Err(KernelCountError::NoDevice);
        }
        let mut numbers: Vec<(u32, u32)> = Vec::new();
        for (position, disk) in devices.iter().enumerate() {
            numbers.push((*disk, position as u32));
            let (partitions, paths) = (names.partitions(*disk), names.multipath_paths(*disk));
            numbers.extend(partitions.into_iter().chain(paths).map(|number| (number, position as u32)));
        }
        let mut words = CountWords::new(devices.len(), processor_count());
        let table = bpf_calls::create_map(bpf_calls::HASH_MAP, KEY_BYTES, ENTRY_BYTES, MAX_IN_FLIGHT, false);
        let table = table.map_err(refused_error("a table in the kernel (bpf)"))?;
        let counts = bpf_calls::create_map(bpf_calls::ARRAY_MAP, 4, (words.word_count() * 8) as u32, 1, true)
            .map_err(refused_error("a map (bpf)"))?;
        words.counts = counts.as_raw_fd();
        let mut value = vec![0; words.word_count()];
        (0..MAX_DEVICES).for_each(|position| value[position] = position as u64);
        bpf_calls::set_value(&counts, &value).map_err(refused_error("a map's value (bpf)"))?;
        let shared = SharedWords::map_shared(&counts, words.word_count()).map_err(refused_error("a map as memory"))?;
        // the kernel keeps start times in requests only if it counts the disk's requests
        let has_times = |disk: &u32| names.has_counts(*disk) || !names.has_requests(*disk);
        let fields = devices.iter().all(has_times).then(KernelTypes::read).flatten();
        let mut counter = KernelCounter {
            table,
            issues: None,
            _counts: counts,
            shared,
            words,
            fields: fields.and_then(|types| types.request_fields()),
            programs: Vec::new(),
            left_out: disks.len() - devices.len(),
            devices,
            numbers,
            previous_words: vec![0; words.word_count()],
            is_reduced: false,
            has_requests: false,
            missed: 0,
            refusal: None,
        };
        counter.attach_programs(events, names, mask)?;
        Ok(counter)
    }

    /// Limits counting to sectors with zeros at `mask` from now on. With `is_reduced`, one program fewer
    /// runs: the one at the issue where the kernel describes its types, else the one at the start.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_sampling(
        &mut self,
        events: &EventTable,
        names: &mut BlockDeviceNames,
        mask: u64,
        is_reduced: bool,
    ) -> Result<(), KernelCountError> {
        self.is_reduced = is_reduced;
        self.attach_programs(events, names, mask)
    }

    /// Returns true if one program fewer runs.
    pub fn is_reduced(&self) -> bool {
        self.is_reduced
    }

    /// Returns true if a device handles requests. Only then can counting be reduced: bios have no issue to leave out.
    pub fn has_requests(&self) -> bool {
        self.has_requests
    }

    /// Returns true if programs read requests themselves, not events.
    pub fn is_typed(&self) -> bool {
        self.fields.is_some()
    }

    /// Measures the cost of entering and leaving a program at a tracepoint, nanoseconds, with an empty program at
    /// [`trace_cost::CALIBRATION_EVENT`]; `tracepoint` is that event's number.
    pub(crate) fn entry_ns(&self, tracepoint: u16) -> Result<f64, KernelCountError> {
        let time_event = || trace_cost::time_renames().map_err(refused_error("a name of the thread"));
        let bare_ns = time_event()?;
        let mut empty = Assembler::default();
        empty.exit();
        let code = empty.into_code().ok_or(KernelCountError::Layout("an empty program"))?;
        let _attached = match &self.fields {
            Some(fields) => attach_typed(Some(code), fields.rename)?,
            None => attach_to_event(&code, tracepoint)?,
        };
        Ok(trace_cost::plausible_or_assumed(time_event()? - bare_ns))
    }

    fn attach_programs(
        &mut self,
        events: &EventTable,
        names: &mut BlockDeviceNames,
        mask: u64,
    ) -> Result<(), KernelCountError> {
        let handles_requests = |names: &mut BlockDeviceNames, device: u32| {
            let disk = names.disk_of(device);
            names.has_requests(disk)
        };
        let (by_requests, by_bios): (Vec<_>, Vec<_>) =
            self.numbers.iter().copied().partition(|(device, _)| handles_requests(names, *device));
        self.has_requests = !by_requests.is_empty();
        self.missed += self.missed_events();
        let (mut programs, mut events_and_devices) = (Vec::new(), Vec::new());
        // requests carry the number of their disk or of the path to it, never a partition's
        let disks = &self.devices;
        let is_carried =
            |(number, position): &(u32, u32)| disks[*position as usize] == *number || names.is_path(*number);
        let carried_numbers: Vec<_> = by_requests.iter().copied().filter(is_carried).collect();
        match self.typed_programs(&carried_numbers, mask) {
            Ok(Some(typed)) => programs = typed,
            Ok(None) => events_and_devices.extend(self.request_events(events).iter().map(|kind| (*kind, &by_requests))),
            Err(error) => {
                (self.fields, self.refusal) = (None, Some(error.to_string()));
                events_and_devices.extend(self.request_events(events).iter().map(|kind| (*kind, &by_requests)));
            }
        }
        events_and_devices.extend([BlockEventKind::BioComplete, BlockEventKind::Queue].map(|kind| (kind, &by_bios)));
        for (kind, devices) in events_and_devices.into_iter().filter(|(_, devices)| !devices.is_empty()) {
            let Some(layout) = events.find_layout(kind) else { continue };
            let plan = ProgramPlan { layout, devices, mask, table: self.table.as_raw_fd(), words: self.words };
            let code = plan.assemble().ok_or(KernelCountError::Layout(kind.name()))?;
            programs.push(attach_to_event(&code, layout.id)?);
        }
        self.programs = programs;
        Ok(())
    }

    /// Returns the events of requests at which programs run, in the order of attaching: ends first, so that every
    /// recorded beginning is removed by its end.
    fn request_events(&self, events: &EventTable) -> Vec<BlockEventKind> {
        use BlockEventKind::{Complete, FrontMerge, GetRequest, Issue, RequestMerge, Start};
        let start = if events.find_layout(Start).is_some() { Start } else { GetRequest };
        if self.is_reduced {
            return vec![Complete, Issue];
        }
        // merges come before the issue
        vec![Complete, Issue, FrontMerge, RequestMerge, start]
    }

    /// Attaches programs that read requests themselves; `None` if the kernel does not describe its types.
    fn typed_programs(
        &mut self,
        devices: &[(u32, u32)],
        mask: u64,
    ) -> Result<Option<Vec<AttachedProgram>>, KernelCountError> {
        let Some(fields) = &self.fields else { return Ok(None) };
        if devices.is_empty() {
            return Ok(Some(Vec::new()));
        }
        // a new table: an earlier one may hold requests that have ended
        let issues = (!self.is_reduced).then(|| {
            bpf_calls::create_map(bpf_calls::HASH_MAP, TYPED_KEY_BYTES, TYPED_ENTRY_BYTES, MAX_IN_FLIGHT, false)
        });
        self.issues = issues.transpose().map_err(refused_error("a table in the kernel (bpf)"))?;
        let table = self.issues.as_ref().map(AsRawFd::as_raw_fd);
        let plan = TypedPlan { fields, devices, mask, table, words: self.words };
        let mut programs = vec![attach_typed(plan.completion_program(), fields.complete)?];
        if table.is_some() {
            programs.push(attach_typed(plan.issue_program(), fields.issue)?);
        }
        Ok(Some(programs))
    }

    /// Number of events that the current programs have missed.
    fn missed_events(&self) -> u64 {
        self.programs.iter().filter_map(|program| program.read_statistics().ok()).map(|s| s.misses).sum()
    }

    /// Reads the requests counted since the last call, by device and operation.
    pub fn read(&mut self) -> Vec<(u32, TracedOperation, CountedRequests)> {
        let mut results = Vec::new();
        for (position, device) in self.devices.clone().into_iter().enumerate() {
            for operation in TracedOperation::ALL {
                let pair = position * OPERATION_COUNT + operation as usize;
                let counted = self.read_pair(pair);
                if !counted.latency.is_empty() {
                    results.push((device, operation, counted));
                }
            }
        }
        results
    }

    /// Reads the requests of a device and operation counted since the last call, in all regions.
    fn read_pair(&mut self, pair: usize) -> CountedRequests {
        let mut sum = CountedRequests::default();
        let (mut latency, mut device) = ([0; BUCKET_COUNT], [0; BUCKET_COUNT]);
        for region in 0..self.words.regions {
            let (sums, steps) = self.words.pair_offsets(region, pair);
            // every request adds to the sum of latencies
            let is_unchanged = self.shared.get(sums + LATENCY_WORD) == self.previous_words[sums + LATENCY_WORD];
            if is_unchanged || self.read_steps(steps, &mut latency) == 0 {
                continue;
            }
            self.read_steps(steps + BUCKET_COUNT, &mut device);
            sum.latency_ns += self.take_increase(sums + LATENCY_WORD);
            sum.device_ns += self.take_increase(sums + DEVICE_WORD);
            sum.longest_ns = sum.longest_ns.max(self.shared.get(sums + LONGEST_WORD));
            sum.longest_device_ns = sum.longest_device_ns.max(self.shared.get(sums + LONGEST_DEVICE_WORD));
            sum.bytes += self.take_increase(sums + BYTES_WORD);
            sum.errors += self.take_increase(sums + ERRORS_WORD);
        }
        let non_zero =
            |steps: [u64; BUCKET_COUNT]| steps.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        (sum.latency, sum.device) = (non_zero(latency), non_zero(device));
        // the longest time may have been overwritten by a request that ended in the same instant; its step was counted
        let last_edge = |steps: &[(usize, u64)]| steps.last().map_or(0, |(step, _)| bucket_edges(*step).0);
        sum.longest_ns = sum.longest_ns.max(last_edge(&sum.latency));
        sum.longest_device_ns = sum.longest_device_ns.max(last_edge(&sum.device));
        sum
    }

    /// Adds the increases of the steps from this word on to `counts`; returns the number of requests.
    fn read_steps(&mut self, first_word: usize, counts: &mut [u64; BUCKET_COUNT]) -> u64 {
        let mut requests = 0;
        for (step, count) in counts.iter_mut().enumerate() {
            let increase = self.take_increase(first_word + step);
            *count += increase;
            requests += increase;
        }
        requests
    }

    /// Returns the increase of a word since it was last read.
    fn take_increase(&mut self, word: usize) -> u64 {
        let now = self.shared.get(word);
        now.wrapping_sub(std::mem::replace(&mut self.previous_words[word], now))
    }

    /// Requests that could not be counted since the start.
    pub fn loss(&self) -> KernelCountLoss {
        KernelCountLoss {
            without_beginning: self.shared.get(WITHOUT_BEGINNING),
            no_room: self.shared.get(NO_ROOM),
            missed: self.missed + self.missed_events(),
        }
    }
}

fn attach_to_event(code: &[[u8; 8]], tracepoint: u16) -> Result<AttachedProgram, KernelCountError> {
    let program =
        bpf_calls::load_program(code, "diskwright").map_err(refused_error("a program in the kernel (bpf)"))?;
    bpf_calls::attach_program(program, tracepoint).map_err(refused_error("a program at a tracepoint"))
}

fn attach_typed(code: Option<Vec<[u8; 8]>>, tracepoint: u32) -> Result<AttachedProgram, KernelCountError> {
    let code = code.ok_or(KernelCountError::Layout("a request of this kernel"))?;
    let program = bpf_calls::load_typed(&code, "diskwright", tracepoint)
        .map_err(refused_error("a program in the kernel (bpf)"))?;
    bpf_calls::attach_typed(program).map_err(refused_error("a program at a typed tracepoint"))
}

/// Returns one more than the highest number that a processor may have; the file holds `0-1` or `0,2-5`.
fn processor_count() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    // if it is unknown, a large number makes the processors share regions
    text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok()).map_or(usize::MAX >> 1, |n| n + 1)
}

/// The kernel's own measurement of programs: while this lives, it measures their run time.
#[derive(Debug)]
pub struct ProgramTimer {
    _statistics: OwnedFd,
}

impl ProgramTimer {
    /// Switches the measurement on; `None` where the kernel does not allow it.
    pub fn start() -> Option<ProgramTimer> {
        bpf_calls::enable_statistics().ok().map(|statistics| ProgramTimer { _statistics: statistics })
    }

    /// Returns the run time of the programs since the start, nanoseconds, and the number of runs.
    pub fn read(&self, counter: &KernelCounter) -> (u64, u64) {
        let statistics = counter.programs.iter().filter_map(|program| program.read_statistics().ok());
        statistics.fold((0, 0), |(run_ns, runs), program| (run_ns + program.run_ns, runs + program.runs))
    }
}
