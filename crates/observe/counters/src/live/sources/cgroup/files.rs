//! The files of a control group that are read, as data: hierarchy,
//! interval, and parser.

use crate::live::mountinfo::device_number;
use crate::live::scan::{WordIter, keyed, lines, number, trim};
use crate::live::sources::pressure;
use crate::live::totals::ABSENT;

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
}

/// Numbers of a group, in the order of its columns.
pub(super) mod of_group {
    pub const MEMORY: usize = 0;
    pub const FILE: usize = 1;
    pub const ANONYMOUS: usize = 2;
    pub const LIMIT_HITS: usize = 3;
    pub const MAJOR_FAULTS: usize = 4;
    pub const REFAULTS_FILE: usize = 5;
    pub const REFAULTS_ANON: usize = 6;
    pub const SWAP: usize = 7;
    pub const OOM_KILLS: usize = 8;
    pub const IO_SOME: usize = 9;
    pub const IO_FULL: usize = 10;
    pub const MEMORY_SOME: usize = 11;
    pub const MEMORY_FULL: usize = 12;
    pub const CPU_SOME: usize = 13;
    pub const CPU_THROTTLED: usize = 14;
    pub const CPU_PERIODS: usize = 15;
    pub const CPU_THROTTLED_PERIODS: usize = 16;
    pub const CPU_TIME: usize = 17;
    /// First of the columns that are read at slow ticks.
    pub const LIMITS: usize = 18;
    pub const MEMORY_LIMIT: usize = 18;
    pub const MEMORY_HIGH: usize = 19;
    pub const COUNT: usize = 20;
}

/// Numbers of a group on a device: reads, writes, read bytes, written bytes,
/// then the limits of each, a second.
pub(super) const IO_COUNT: usize = 8;
/// First column of the limits.
pub(super) const IO_LIMITS: usize = 4;

/// A device that a group uses or is limited on.
#[derive(Clone, Debug)]
pub(super) struct CgroupIo {
    pub device: (u64, u64),
    pub numbers: [u64; IO_COUNT],
    /// Its row, once it has one.
    pub row: Option<usize>,
}

/// Values read of a group.
#[derive(Clone, Debug)]
pub(super) struct CgroupValues {
    pub group: [u64; of_group::COUNT],
    pub io: Vec<CgroupIo>,
}

impl CgroupValues {
    pub fn new() -> CgroupValues {
        CgroupValues { group: [ABSENT; of_group::COUNT], io: Vec::new() }
    }

    /// Clears the values of the last tick; limits stay until the next slow tick. A device that
    /// the kernel does not list has had no I/O of the group.
    pub fn begin(&mut self, slow: bool) {
        let end = if slow { of_group::COUNT } else { of_group::LIMITS };
        self.group[..end].fill(ABSENT);
        for io in &mut self.io {
            io.numbers[..IO_LIMITS].fill(0);
            if slow {
                io.numbers[IO_LIMITS..].fill(ABSENT);
            }
        }
    }

    fn io(&mut self, device: (u64, u64)) -> &mut [u64; IO_COUNT] {
        let known = self.io.iter().position(|io| io.device == device).unwrap_or_else(|| {
            let mut numbers = [ABSENT; IO_COUNT];
            numbers[..IO_LIMITS].fill(0);
            self.io.push(CgroupIo { device, numbers, row: None });
            self.io.len() - 1
        });
        &mut self.io[known].numbers
    }

    fn add(&mut self, column: usize, value: u64) {
        let cell = &mut self.group[column];
        *cell = if *cell == ABSENT { value } else { cell.saturating_add(value) };
    }
}

/// A file of a group.
pub(super) struct FileKind {
    pub hierarchy: Hierarchy,
    pub name: &'static str,
    pub beat: ReadInterval,
    pub read: fn(&[u8], &mut CgroupValues),
}

const fn file(
    hierarchy: Hierarchy,
    name: &'static str,
    beat: ReadInterval,
    read: fn(&[u8], &mut CgroupValues),
) -> FileKind {
    FileKind { hierarchy, name, beat, read }
}

use Hierarchy::{Blkio, Cpu, Cpuacct, Memory, Unified};
use ReadInterval::{Slow, Tick};

/// All files. Files that a group lacks are not opened.
pub(super) const FILES: &[FileKind] = &[
    file(Unified, "io.stat", Tick, io_stat),
    file(Unified, "io.max", Slow, io_max),
    file(Unified, "memory.current", Tick, |t, v| v.group[of_group::MEMORY] = alone(t)),
    file(Unified, "memory.max", Slow, |t, v| v.group[of_group::MEMORY_LIMIT] = alone(t)),
    file(Unified, "memory.high", Slow, |t, v| v.group[of_group::MEMORY_HIGH] = alone(t)),
    file(Unified, "memory.swap.current", Tick, |t, v| v.group[of_group::SWAP] = alone(t)),
    file(Unified, "memory.stat", Tick, memory_stat),
    file(Unified, "memory.events", Tick, memory_events),
    file(Unified, "io.pressure", Tick, |t, v| waits(t, v, of_group::IO_SOME, Some(of_group::IO_FULL))),
    file(Unified, "memory.pressure", Tick, |t, v| waits(t, v, of_group::MEMORY_SOME, Some(of_group::MEMORY_FULL))),
    file(Unified, "cpu.pressure", Tick, |t, v| waits(t, v, of_group::CPU_SOME, None)),
    file(Unified, "cpu.stat", Tick, cpu_stat),
    file(Blkio, "blkio.throttle.io_serviced", Tick, |t, v| throttle_counts(t, v, 0)),
    file(Blkio, "blkio.throttle.io_service_bytes", Tick, |t, v| throttle_counts(t, v, 2)),
    file(Blkio, "blkio.throttle.read_iops_device", Slow, |t, v| throttle_limits(t, v, IO_LIMITS)),
    file(Blkio, "blkio.throttle.write_iops_device", Slow, |t, v| throttle_limits(t, v, IO_LIMITS + 1)),
    file(Blkio, "blkio.throttle.read_bps_device", Slow, |t, v| throttle_limits(t, v, IO_LIMITS + 2)),
    file(Blkio, "blkio.throttle.write_bps_device", Slow, |t, v| throttle_limits(t, v, IO_LIMITS + 3)),
    file(Memory, "memory.usage_in_bytes", Tick, |t, v| v.group[of_group::MEMORY] = alone(t)),
    file(Memory, "memory.limit_in_bytes", Slow, |t, v| v.group[of_group::MEMORY_LIMIT] = below_all(alone(t))),
    file(Memory, "memory.failcnt", Tick, |t, v| v.group[of_group::LIMIT_HITS] = alone(t)),
    file(Memory, "memory.oom_control", Tick, oom_control),
    file(Memory, "memory.stat", Tick, memory_stat_1),
    file(Cpu, "cpu.stat", Tick, cpu_stat),
    file(Cpuacct, "cpuacct.usage", Tick, |t, v| v.group[of_group::CPU_TIME] = nanoseconds(alone(t))),
];

/// Parses a file with one number; `max` means no limit.
fn alone(text: &[u8]) -> u64 {
    number(trim(text)).unwrap_or(ABSENT)
}

/// Returns `ABSENT` for "no limit", which version 1 writes as the largest number of pages it can count.
fn below_all(bytes: u64) -> u64 {
    if bytes >= 1 << 62 { ABSENT } else { bytes }
}

fn nanoseconds(value: u64) -> u64 {
    if value == ABSENT { ABSENT } else { value / 1000 }
}

fn waits(text: &[u8], values: &mut CgroupValues, some: usize, full: Option<usize>) {
    let read = pressure::parse(text);
    values.group[some] = read.0.unwrap_or(ABSENT);
    if let Some(full) = full {
        values.group[full] = read.1.unwrap_or(ABSENT);
    }
}

/// Reads `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`. Some kernels omit
/// the numbers of an unused device and continue in the same line.
fn io_stat(text: &[u8], values: &mut CgroupValues) {
    let columns = [(&b"rios"[..], 0), (b"wios", 1), (b"rbytes", 2), (b"wbytes", 3)];
    assignments(text, values, &columns);
}

/// Reads `8:0 rbps=2097152 wbps=max riops=max wiops=120`.
fn io_max(text: &[u8], values: &mut CgroupValues) {
    let columns =
        [(&b"riops"[..], IO_LIMITS), (b"wiops", IO_LIMITS + 1), (b"rbps", IO_LIMITS + 2), (b"wbps", IO_LIMITS + 3)];
    assignments(text, values, &columns);
}

fn assignments(text: &[u8], values: &mut CgroupValues, columns: &[(&[u8], usize)]) {
    for line in lines(text) {
        let mut words = WordIter::new(line);
        let mut device = None;
        while let Some(word) = words.word() {
            let Some(equals) = memchr::memchr(b'=', word) else {
                device = device_number(word);
                continue;
            };
            let column = columns.iter().find(|(key, _)| *key == &word[..equals]);
            if let (Some(device), Some((_, column))) = (device, column) {
                values.io(device)[*column] = number(&word[equals + 1..]).unwrap_or(ABSENT);
            }
        }
    }
}

/// Reads `8:0 Read 12`, `8:0 Write 3`, …, `Total 15`.
fn throttle_counts(text: &[u8], values: &mut CgroupValues, first: usize) {
    for line in lines(text) {
        let mut words = WordIter::new(line);
        let (Some(device), Some(kind)) = (words.word().and_then(device_number), words.word()) else { continue };
        let column = match kind {
            b"Read" => first,
            b"Write" => first + 1,
            _ => continue,
        };
        values.io(device)[column] = words.number().flatten().unwrap_or(ABSENT);
    }
}

/// Reads `8:0 1048576`.
fn throttle_limits(text: &[u8], values: &mut CgroupValues, column: usize) {
    for line in lines(text) {
        let mut words = WordIter::new(line);
        if let (Some(device), Some(Some(limit))) = (words.word().and_then(device_number), words.number()) {
            values.io(device)[column] = limit;
        }
    }
}

fn each(text: &[u8], values: &mut CgroupValues, column: impl Fn(&[u8]) -> Option<usize>) {
    for line in lines(text) {
        if let Some((key, Some(value))) = keyed(line)
            && let Some(column) = column(key)
        {
            values.add(column, value);
        }
    }
}

fn memory_stat(text: &[u8], values: &mut CgroupValues) {
    each(text, values, |key| match key {
        b"file" => Some(of_group::FILE),
        b"anon" => Some(of_group::ANONYMOUS),
        b"pgmajfault" => Some(of_group::MAJOR_FAULTS),
        b"workingset_refault_file" | b"workingset_refault" => Some(of_group::REFAULTS_FILE),
        b"workingset_refault_anon" => Some(of_group::REFAULTS_ANON),
        _ => None,
    });
}

/// Reads the numbers of version 1 that include the groups below, as its usage does.
fn memory_stat_1(text: &[u8], values: &mut CgroupValues) {
    each(text, values, |key| match key {
        b"total_cache" => Some(of_group::FILE),
        b"total_rss" => Some(of_group::ANONYMOUS),
        b"total_pgmajfault" => Some(of_group::MAJOR_FAULTS),
        b"total_workingset_refault_file" | b"total_workingset_refault" => Some(of_group::REFAULTS_FILE),
        b"total_workingset_refault_anon" => Some(of_group::REFAULTS_ANON),
        b"total_swap" => Some(of_group::SWAP),
        _ => None,
    });
}

fn memory_events(text: &[u8], values: &mut CgroupValues) {
    each(text, values, |key| match key {
        b"max" => Some(of_group::LIMIT_HITS),
        b"oom_kill" => Some(of_group::OOM_KILLS),
        _ => None,
    });
}

fn oom_control(text: &[u8], values: &mut CgroupValues) {
    each(text, values, |key| (key == b"oom_kill").then_some(of_group::OOM_KILLS));
}

/// Reads both versions; version 1 has the throttled time in nanoseconds.
fn cpu_stat(text: &[u8], values: &mut CgroupValues) {
    for line in lines(text) {
        let Some((key, Some(value))) = keyed(line) else { continue };
        match key {
            b"usage_usec" => values.group[of_group::CPU_TIME] = value,
            b"nr_periods" => values.group[of_group::CPU_PERIODS] = value,
            b"nr_throttled" => values.group[of_group::CPU_THROTTLED_PERIODS] = value,
            b"throttled_usec" => values.group[of_group::CPU_THROTTLED] = value,
            b"throttled_time" => values.group[of_group::CPU_THROTTLED] = value / 1000,
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
        assert_eq!(limits.io[1].numbers[IO_LIMITS + 3], 8192);
    }

    #[test]
    fn memory_of_both_versions() {
        let values = read("memory.stat", Unified, "anon 5\nfile 6\npgmajfault 7\nworkingset_refault_file 8\n");
        assert_eq!(values.group[of_group::FILE], 6);
        assert_eq!(values.group[of_group::REFAULTS_FILE], 8);
        let values = read("memory.stat", Memory, "cache 1\nrss 1\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\n");
        assert_eq!(values.group[of_group::FILE], 10);
        assert_eq!(values.group[of_group::SWAP], 30);
        let values = read("memory.events", Unified, "low 9\nhigh 2\nmax 3\noom 1\noom_kill 1\n");
        assert_eq!(values.group[of_group::LIMIT_HITS], 3);
        assert_eq!(read("memory.max", Unified, "max\n").group[of_group::MEMORY_LIMIT], ABSENT);
        let unlimited = read("memory.limit_in_bytes", Memory, "9223372036854771712\n");
        assert_eq!(unlimited.group[of_group::MEMORY_LIMIT], ABSENT);
    }

    #[test]
    fn processor_time_is_in_microseconds_in_both_versions() {
        let values = read("cpu.stat", Unified, "usage_usec 9\nnr_periods 4\nnr_throttled 2\nthrottled_usec 7\n");
        assert_eq!(values.group[of_group::CPU_TIME], 9);
        assert_eq!(values.group[of_group::CPU_THROTTLED], 7);
        let values = read("cpu.stat", Cpu, "nr_periods 4\nnr_throttled 2\nthrottled_time 7000\n");
        assert_eq!(values.group[of_group::CPU_THROTTLED], 7);
        assert_eq!(read("cpuacct.usage", Cpuacct, "5000\n").group[of_group::CPU_TIME], 5);
    }
}
