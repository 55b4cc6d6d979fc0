//! Table of the files of a control group that are read: hierarchy, interval, and parser of each.

use crate::live::counter_table::ABSENT;
use crate::live::mountinfo::parse_device_number;
use crate::live::sources::pressure;
use crate::live::text_scan::{WordIter, parse_number, split_key_and_number, text_lines, trim_blanks};

/// Hierarchies by the controller that names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1, block I/O.
    Blkio,
    /// Version 1, memory.
    Memory,
    /// Version 1, processor limits.
    Cpu,
    /// Version 1, processor time.
    Cpuacct,
}

impl Hierarchy {
    /// All hierarchies.
    pub const ALL: [Hierarchy; 5] =
        [Hierarchy::Unified, Hierarchy::Blkio, Hierarchy::Memory, Hierarchy::Cpu, Hierarchy::Cpuacct];

    /// Name in the options of a version 1 mount.
    pub fn controller(self) -> &'static str {
        match self {
            Hierarchy::Unified => "",
            Hierarchy::Blkio => "blkio",
            Hierarchy::Memory => "memory",
            Hierarchy::Cpu => "cpu",
            Hierarchy::Cpuacct => "cpuacct",
        }
    }
}

/// Interval at which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadInterval {
    Tick,
    /// At slow ticks, for limits, which rarely change.
    Slow,
    /// At slow ticks, and at each tick of a group that has a limit of I/O: one that is removed must not be compared
    /// with what the group does without it.
    WhileLimited,
}

/// Meaning of a failure to read a file that could be opened before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFailure {
    /// The group was removed, or is about to be.
    GroupIsGone,
    /// Nothing about the group: possibly the kernel's accounting of pressure was switched off.
    Nothing,
}

/// Numbers of a group, in the order of its columns.
pub(super) mod group_column {
    /// Memory in use, bytes.
    pub const MEMORY: usize = 0;
    /// Memory in use that caches files, bytes.
    pub const FILE: usize = 1;
    /// Memory in use that belongs to processes, bytes.
    pub const ANONYMOUS: usize = 2;
    /// Times that the memory limit was hit.
    pub const LIMIT_HITS: usize = 3;
    /// Faults that read from a disk.
    pub const MAJOR_FAULTS: usize = 4;
    /// Pages of files that were needed again soon after they were dropped.
    pub const REFAULTS_FILE: usize = 5;
    /// Pages of processes that were needed again soon after they were swapped out.
    pub const REFAULTS_ANON: usize = 6;
    /// Swap space in use, bytes.
    pub const SWAP: usize = 7;
    /// Processes that were killed for lack of memory.
    pub const OOM_KILLS: usize = 8;
    /// Time in which some task waited for I/O, microseconds.
    pub const IO_SOME: usize = 9;
    /// Time in which all tasks waited for I/O, microseconds.
    pub const IO_FULL: usize = 10;
    /// Time in which some task waited for memory, microseconds.
    pub const MEMORY_SOME: usize = 11;
    /// Time in which all tasks waited for memory, microseconds.
    pub const MEMORY_FULL: usize = 12;
    /// Time in which some task waited for a processor, microseconds.
    pub const CPU_SOME: usize = 13;
    /// Time in which the processor limit held tasks back, microseconds.
    pub const CPU_THROTTLED: usize = 14;
    /// Periods of the processor limit.
    pub const CPU_PERIODS: usize = 15;
    /// Periods in which the limit held tasks back.
    pub const CPU_THROTTLED_PERIODS: usize = 16;
    /// Processor time, microseconds.
    pub const CPU_TIME: usize = 17;
    /// First of the columns that are read at slow ticks.
    pub const LIMITS: usize = 18;
    /// Memory limit, bytes.
    pub const MEMORY_LIMIT: usize = 18;
    /// Memory above which tasks are slowed down, bytes.
    pub const MEMORY_HIGH: usize = 19;
    /// Number of columns.
    pub const COUNT: usize = 20;
}

/// Count of the numbers of a group on a device: reads, writes, read bytes, written bytes, then the limit of each per
/// second.
pub(super) const IO_COUNT: usize = 8;
/// First column of the limits.
pub(super) const IO_LIMITS_COLUMN: usize = 4;

/// A device that a group uses or is limited on.
#[derive(Clone, Debug)]
pub(super) struct CgroupIo {
    pub device: (u64, u64),
    pub numbers: [u64; IO_COUNT],
    /// Row in the table of groups on devices, once it has one.
    pub row: Option<usize>,
}

/// Values read of a group.
#[derive(Clone, Debug)]
pub(super) struct CgroupValues {
    pub group: [u64; group_column::COUNT],
    pub io: Vec<CgroupIo>,
}

impl CgroupValues {
    /// Creates the values of a group before its first reading.
    pub fn new() -> CgroupValues {
        CgroupValues { group: [ABSENT; group_column::COUNT], io: Vec::new() }
    }

    /// Clears the values of the last tick; limits of memory stay until the next slow tick, and those of I/O if they are
    /// not read at this one. A device that the kernel does not list has had no I/O of the group.
    pub fn begin_tick(&mut self, is_slow_tick: bool, reads_io_limits: bool) {
        let end = if is_slow_tick { group_column::COUNT } else { group_column::LIMITS };
        self.group[..end].fill(ABSENT);
        for io in &mut self.io {
            io.numbers[..IO_LIMITS_COLUMN].fill(0);
            if reads_io_limits {
                io.numbers[IO_LIMITS_COLUMN..].fill(ABSENT);
            }
        }
    }

    /// True if the group has a limit of I/O on some device.
    pub fn has_io_limit(&self) -> bool {
        self.io.iter().any(|io| io.numbers[IO_LIMITS_COLUMN..].iter().any(|limit| *limit != ABSENT))
    }

    fn io_of_device(&mut self, device: (u64, u64)) -> &mut [u64; IO_COUNT] {
        let index = self.io.iter().position(|io| io.device == device).unwrap_or_else(|| {
            let mut numbers = [ABSENT; IO_COUNT];
            numbers[..IO_LIMITS_COLUMN].fill(0);
            self.io.push(CgroupIo { device, numbers, row: None });
            self.io.len() - 1
        });
        &mut self.io[index].numbers
    }

    fn add_to_column(&mut self, column: usize, value: u64) {
        let cell = &mut self.group[column];
        *cell = if *cell == ABSENT { value } else { cell.saturating_add(value) };
    }
}

/// A file of a group.
pub(super) struct FileKind {
    pub hierarchy: Hierarchy,
    pub name: &'static str,
    pub interval: ReadInterval,
    pub failure: ReadFailure,
    pub read: fn(&[u8], &mut CgroupValues),
}

const fn file_kind(
    hierarchy: Hierarchy,
    name: &'static str,
    interval: ReadInterval,
    read: fn(&[u8], &mut CgroupValues),
) -> FileKind {
    FileKind { hierarchy, name, interval, failure: ReadFailure::GroupIsGone, read }
}

const fn pressure_kind(name: &'static str, read: fn(&[u8], &mut CgroupValues)) -> FileKind {
    FileKind { hierarchy: Hierarchy::Unified, name, interval: ReadInterval::Tick, failure: ReadFailure::Nothing, read }
}

use Hierarchy::{Blkio, Cpu, Cpuacct, Memory, Unified};
use ReadInterval::{Slow, Tick, WhileLimited};

/// All files. Files that a group lacks are not opened.
pub(super) const FILES: &[FileKind] = &[
    file_kind(Unified, "io.stat", Tick, read_io_stat),
    file_kind(Unified, "io.max", WhileLimited, read_io_max),
    file_kind(Unified, "memory.current", Tick, |t, v| v.group[group_column::MEMORY] = parse_single_number(t)),
    file_kind(Unified, "memory.max", Slow, |t, v| v.group[group_column::MEMORY_LIMIT] = parse_single_number(t)),
    file_kind(Unified, "memory.high", Slow, |t, v| v.group[group_column::MEMORY_HIGH] = parse_single_number(t)),
    file_kind(Unified, "memory.swap.current", Tick, |t, v| v.group[group_column::SWAP] = parse_single_number(t)),
    file_kind(Unified, "memory.stat", Tick, read_memory_stat),
    file_kind(Unified, "memory.events", Tick, read_memory_events),
    pressure_kind("io.pressure", |t, v| read_pressure(t, v, group_column::IO_SOME, Some(group_column::IO_FULL))),
    pressure_kind("memory.pressure", |t, v| {
        read_pressure(t, v, group_column::MEMORY_SOME, Some(group_column::MEMORY_FULL))
    }),
    pressure_kind("cpu.pressure", |t, v| read_pressure(t, v, group_column::CPU_SOME, None)),
    file_kind(Unified, "cpu.stat", Tick, read_cpu_stat),
    file_kind(Blkio, "blkio.throttle.io_serviced", Tick, |t, v| read_throttle_counts(t, v, 0)),
    file_kind(Blkio, "blkio.throttle.io_service_bytes", Tick, |t, v| read_throttle_counts(t, v, 2)),
    file_kind(Blkio, "blkio.throttle.read_iops_device", WhileLimited, |t, v| {
        read_throttle_limits(t, v, IO_LIMITS_COLUMN)
    }),
    file_kind(Blkio, "blkio.throttle.write_iops_device", WhileLimited, |t, v| {
        read_throttle_limits(t, v, IO_LIMITS_COLUMN + 1)
    }),
    file_kind(Blkio, "blkio.throttle.read_bps_device", WhileLimited, |t, v| {
        read_throttle_limits(t, v, IO_LIMITS_COLUMN + 2)
    }),
    file_kind(Blkio, "blkio.throttle.write_bps_device", WhileLimited, |t, v| {
        read_throttle_limits(t, v, IO_LIMITS_COLUMN + 3)
    }),
    file_kind(Memory, "memory.usage_in_bytes", Tick, |t, v| v.group[group_column::MEMORY] = parse_single_number(t)),
    file_kind(Memory, "memory.limit_in_bytes", Slow, |t, v| {
        v.group[group_column::MEMORY_LIMIT] = limit_or_absent(parse_single_number(t))
    }),
    file_kind(Memory, "memory.failcnt", Tick, |t, v| v.group[group_column::LIMIT_HITS] = parse_single_number(t)),
    file_kind(Memory, "memory.oom_control", Tick, read_oom_control),
    file_kind(Memory, "memory.stat", Tick, read_memory_stat_v1),
    file_kind(Cpu, "cpu.stat", Tick, read_cpu_stat),
    file_kind(Cpuacct, "cpuacct.usage", Tick, |t, v| {
        v.group[group_column::CPU_TIME] = ns_to_us(parse_single_number(t))
    }),
];

/// Parses a file with one number; `max` means no limit.
fn parse_single_number(text: &[u8]) -> u64 {
    parse_number(trim_blanks(text)).unwrap_or(ABSENT)
}

/// Returns `ABSENT` for "no limit", which version 1 writes as the largest number of pages it can count.
fn limit_or_absent(bytes: u64) -> u64 {
    if bytes >= 1 << 62 { ABSENT } else { bytes }
}

fn ns_to_us(value: u64) -> u64 {
    if value == ABSENT { ABSENT } else { value / 1000 }
}

fn read_pressure(text: &[u8], values: &mut CgroupValues, some: usize, full: Option<usize>) {
    let (some_us, full_us) = pressure::parse_pressure(text);
    values.group[some] = some_us.unwrap_or(ABSENT);
    if let Some(full) = full {
        values.group[full] = full_us.unwrap_or(ABSENT);
    }
}

/// Reads `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`. Some kernels omit the numbers of an unused device and
/// continue in the same line.
fn read_io_stat(text: &[u8], values: &mut CgroupValues) {
    let columns = [(&b"rios"[..], 0), (b"wios", 1), (b"rbytes", 2), (b"wbytes", 3)];
    read_assignments(text, values, &columns);
}

/// Reads `8:0 rbps=2097152 wbps=max riops=max wiops=120`.
fn read_io_max(text: &[u8], values: &mut CgroupValues) {
    let columns = [
        (&b"riops"[..], IO_LIMITS_COLUMN),
        (b"wiops", IO_LIMITS_COLUMN + 1),
        (b"rbps", IO_LIMITS_COLUMN + 2),
        (b"wbps", IO_LIMITS_COLUMN + 3),
    ];
    read_assignments(text, values, &columns);
}

fn read_assignments(text: &[u8], values: &mut CgroupValues, columns: &[(&[u8], usize)]) {
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let mut device = None;
        while let Some(word) = words.next_word() {
            let Some(equals) = memchr::memchr(b'=', word) else {
                device = parse_device_number(word);
                continue;
            };
            let column = columns.iter().find(|(key, _)| *key == &word[..equals]);
            if let (Some(device), Some((_, column))) = (device, column) {
                values.io_of_device(device)[*column] = parse_number(&word[equals + 1..]).unwrap_or(ABSENT);
            }
        }
    }
}

/// Reads `8:0 Read 12`, `8:0 Write 3`, …, `Total 15`.
fn read_throttle_counts(text: &[u8], values: &mut CgroupValues, first: usize) {
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        let (Some(device), Some(kind)) = (words.next_word().and_then(parse_device_number), words.next_word()) else {
            continue;
        };
        let column = match kind {
            b"Read" => first,
            b"Write" => first + 1,
            _ => continue,
        };
        values.io_of_device(device)[column] = words.next_number().flatten().unwrap_or(ABSENT);
    }
}

/// Reads `8:0 1048576`.
fn read_throttle_limits(text: &[u8], values: &mut CgroupValues, column: usize) {
    for line in text_lines(text) {
        let mut words = WordIter::new(line);
        if let (Some(device), Some(Some(limit))) =
            (words.next_word().and_then(parse_device_number), words.next_number())
        {
            values.io_of_device(device)[column] = limit;
        }
    }
}

fn add_matching_lines(text: &[u8], values: &mut CgroupValues, column_of_key: impl Fn(&[u8]) -> Option<usize>) {
    for line in text_lines(text) {
        if let Some((key, Some(value))) = split_key_and_number(line)
            && let Some(column) = column_of_key(key)
        {
            values.add_to_column(column, value);
        }
    }
}

fn read_memory_stat(text: &[u8], values: &mut CgroupValues) {
    add_matching_lines(text, values, |key| match key {
        b"file" => Some(group_column::FILE),
        b"anon" => Some(group_column::ANONYMOUS),
        b"pgmajfault" => Some(group_column::MAJOR_FAULTS),
        b"workingset_refault_file" | b"workingset_refault" => Some(group_column::REFAULTS_FILE),
        b"workingset_refault_anon" => Some(group_column::REFAULTS_ANON),
        _ => None,
    });
}

/// Reads the numbers of version 1 that include the groups below, as its usage does.
fn read_memory_stat_v1(text: &[u8], values: &mut CgroupValues) {
    add_matching_lines(text, values, |key| match key {
        b"total_cache" => Some(group_column::FILE),
        b"total_rss" => Some(group_column::ANONYMOUS),
        b"total_pgmajfault" => Some(group_column::MAJOR_FAULTS),
        b"total_workingset_refault_file" | b"total_workingset_refault" => Some(group_column::REFAULTS_FILE),
        b"total_workingset_refault_anon" => Some(group_column::REFAULTS_ANON),
        b"total_swap" => Some(group_column::SWAP),
        _ => None,
    });
}

fn read_memory_events(text: &[u8], values: &mut CgroupValues) {
    add_matching_lines(text, values, |key| match key {
        b"max" => Some(group_column::LIMIT_HITS),
        b"oom_kill" => Some(group_column::OOM_KILLS),
        _ => None,
    });
}

fn read_oom_control(text: &[u8], values: &mut CgroupValues) {
    add_matching_lines(text, values, |key| (key == b"oom_kill").then_some(group_column::OOM_KILLS));
}

/// Reads both versions; version 1 has the throttled time in nanoseconds.
fn read_cpu_stat(text: &[u8], values: &mut CgroupValues) {
    for line in text_lines(text) {
        let Some((key, Some(value))) = split_key_and_number(line) else { continue };
        match key {
            b"usage_usec" => values.group[group_column::CPU_TIME] = value,
            b"nr_periods" => values.group[group_column::CPU_PERIODS] = value,
            b"nr_throttled" => values.group[group_column::CPU_THROTTLED_PERIODS] = value,
            b"throttled_usec" => values.group[group_column::CPU_THROTTLED] = value,
            b"throttled_time" => values.group[group_column::CPU_THROTTLED] = value / 1000,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, hierarchy: Hierarchy, text: &str) -> CgroupValues {
        let mut values = CgroupValues::new();
        let kind = FILES.iter().find(|f| f.name == file && f.hierarchy == hierarchy).unwrap();
        (kind.read)(text.as_bytes(), &mut values);
        values
    }

    #[test]
    fn io_of_version_2() {
        let text = "7:0 8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=9 dios=9\n";
        let values = read("io.stat", Unified, text);
        assert_eq!(values.io.len(), 1);
        assert_eq!((values.io[0].device, &values.io[0].numbers[..4]), ((8, 0), &[3, 4, 1, 2][..]));
        let values = read("io.max", Unified, "8:0 rbps=2097152 wbps=max riops=max wiops=120\n");
        assert_eq!(values.io[0].numbers, [0, 0, 0, 0, ABSENT, 120, 2_097_152, ABSENT]);
    }

    #[test]
    fn io_of_version_1() {
        let text = "8:0 Read 5\n8:0 Write 6\n8:0 Sync 11\n8:0 Total 11\nTotal 11\n";
        assert_eq!(read("blkio.throttle.io_serviced", Blkio, text).io[0].numbers[..4], [5, 6, 0, 0]);
        assert_eq!(read("blkio.throttle.io_service_bytes", Blkio, text).io[0].numbers[..4], [0, 0, 5, 6]);
        let limits = read("blkio.throttle.write_bps_device", Blkio, "8:0 4096\n8:16 8192\n");
        assert_eq!(limits.io[1].numbers[IO_LIMITS_COLUMN + 3], 8192);
    }

    #[test]
    fn memory_of_both_versions() {
        let values = read("memory.stat", Unified, "anon 5\nfile 6\npgmajfault 7\nworkingset_refault_file 8\n");
        assert_eq!(values.group[group_column::FILE], 6);
        assert_eq!(values.group[group_column::REFAULTS_FILE], 8);
        let values = read("memory.stat", Memory, "cache 1\nrss 1\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\n");
        assert_eq!(values.group[group_column::FILE], 10);
        assert_eq!(values.group[group_column::SWAP], 30);
        let values = read("memory.events", Unified, "low 9\nhigh 2\nmax 3\noom 1\noom_kill 1\n");
        assert_eq!(values.group[group_column::LIMIT_HITS], 3);
        assert_eq!(read("memory.max", Unified, "max\n").group[group_column::MEMORY_LIMIT], ABSENT);
        let unlimited = read("memory.limit_in_bytes", Memory, "9223372036854771712\n");
        assert_eq!(unlimited.group[group_column::MEMORY_LIMIT], ABSENT);
    }

    #[test]
    fn processor_time_is_in_microseconds_in_both_versions() {
        let values = read("cpu.stat", Unified, "usage_usec 9\nnr_periods 4\nnr_throttled 2\nthrottled_usec 7\n");
        assert_eq!(values.group[group_column::CPU_TIME], 9);
        assert_eq!(values.group[group_column::CPU_THROTTLED], 7);
        let values = read("cpu.stat", Cpu, "nr_periods 4\nnr_throttled 2\nthrottled_time 7000\n");
        assert_eq!(values.group[group_column::CPU_THROTTLED], 7);
        assert_eq!(read("cpuacct.usage", Cpuacct, "5000\n").group[group_column::CPU_TIME], 5);
    }
}
