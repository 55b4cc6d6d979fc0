//! A small encoder of Performance Monitor's binary logs, in the two shapes that real files have, for tests of the
//! reader.

#![allow(dead_code, reason = "each test file uses its own part of it")]

/// A second, in 100 ns.
pub const SECOND: u64 = 10_000_000;
/// 2013-05-06 07:00:00 UTC, in 100 ns since 1601.
pub const START: u64 = 130_122_828_000_000_000;
/// Ticks per second of the simulated performance counter.
pub const FREQUENCY: u64 = 1000;

const BUFFER: usize = 4096;
const LOG_ID: [u8; 16] = [7; 16];
const PROVIDER: [u8; 16] =
    [0xb3, 0x3b, 0x3f, 0x93, 0x3e, 0x94, 0x0d, 0x49, 0x9c, 0xed, 0x3c, 0xbb, 0x14, 0xc1, 0x44, 0x79];

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
}

fn long(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    text.encode_utf16().chain([0]).for_each(|u| out.extend_from_slice(&u.to_le_bytes()));
}

fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// A log that is being written.
pub struct Log {
    buffers: Vec<Vec<u8>>,
    pointer: usize,
    /// Local time less UTC, 100 ns.
    offset: i64,
    /// Longest content of an event's part, bytes.
    pub part: usize,
}

/// A request of a counter list.
pub struct Wanted<'a> {
    pub kind: u32,
    pub object: &'a str,
    pub instance: Option<&'a str>,
    pub counter: &'a str,
}

/// An object of a data block.
pub struct Object<'a> {
    pub name: u32,
    /// Name, type and bytes of each counter.
    pub counters: &'a [(u32, u32, usize)],
    /// Instances and their values; no name is an object without instances.
    pub instances: Vec<(Option<&'a str>, Vec<u64>)>,
}

impl Log {
    /// Begins a log with pointers of 4 or 8 bytes; `bias` is UTC less local standard time in minutes, `is_summer`
    /// whether daylight saving is in force.
    pub fn new(pointer: usize, bias: i32, is_summer: bool) -> Log {
        let minutes = i64::from(bias) - if is_summer { 60 } else { 0 };
        let mut log = Log { buffers: Vec::new(), pointer, offset: -minutes * 60 * SECOND as i64, part: 1400 };
        log.buffer();
        let mut event = Vec::new();
        words(&mut event, &[0xc000_0002 | if pointer == 4 { 1 << 16 } else { 2 << 16 }, 0, 0, 0, 0, 0, 1, 3]);
        words(&mut event, &[BUFFER as u32, 0x0501_0206, 9200, 1]);
        long(&mut event, START + 600 * SECOND);
        words(&mut event, &[156_250, 0, 1, 3, 1, pointer as u32, 0, 2000]);
        event.resize(event.len() + 2 * pointer, 0);
        // the time zone: bias, names, and what standard and daylight time add
        words(&mut event, &[bias.cast_unsigned()]);
        event.resize(event.len() + 80, 0);
        words(&mut event, &[0]);
        event.resize(event.len() + 80, 0);
        words(&mut event, &[(-60i32).cast_unsigned()]);
        let header = 32;
        event.resize(header + (event.len() - header).next_multiple_of(8), 0);
        [START - 3600 * SECOND, FREQUENCY, START].iter().for_each(|t| long(&mut event, *t));
        words(&mut event, &[2, 0]);
        text(&mut event, "made up");
        let size = event.len() as u16;
        event[4..6].copy_from_slice(&size.to_le_bytes());
        log.put(&event);
        log.buffer();
        log
    }

    fn buffer(&mut self) {
        let mut buffer = vec![0; 0x48];
        buffer[..4].copy_from_slice(&(BUFFER as u32).to_le_bytes());
        self.buffers.push(buffer);
    }

    fn put(&mut self, event: &[u8]) {
        if self.buffers.last().expect("one").len() + event.len() + 8 > BUFFER {
            self.buffer();
        }
        let buffer = self.buffers.last_mut().expect("one");
        buffer.extend_from_slice(event);
        pad(buffer, 8);
    }

    /// Writes an event, in as many parts as it takes, at a time in UTC.
    pub fn event(&mut self, kind: u8, utc: u64, content: &[u8]) {
        let parts: Vec<&[u8]> = content.chunks(self.part).collect();
        for (number, part) in parts.iter().enumerate() {
            let mut event = Vec::new();
            let size = (0x48 + part.len()) as u16;
            event.extend_from_slice(&size.to_le_bytes());
            event.extend_from_slice(&[if self.pointer == 4 { 0x0a } else { 0x14 }, 0xc0, kind, 0, 0x3c, 0]);
            words(&mut event, &[4, 4]);
            long(&mut event, utc.wrapping_add_signed(self.offset));
            event.extend_from_slice(&PROVIDER);
            words(&mut event, &[0, 0]);
            event.extend_from_slice(&LOG_ID);
            words(&mut event, &[number as u32 + 1, parts.len() as u32]);
            event.extend_from_slice(part);
            self.put(&event);
        }
    }

    /// Writes the counter list.
    pub fn list(&mut self, machine: &str, counters: &[Wanted<'_>]) {
        let mut content = Vec::new();
        words(&mut content, &[0x6ff, 0x0002_0008]);
        for wanted in counters {
            let mut texts = Vec::new();
            let mut place = |t: &str| {
                let index = texts.len() as u32;
                text(&mut texts, t);
                index
            };
            let machine = place(&format!("\\\\{machine}"));
            let object = place(wanted.object);
            let instance = wanted.instance.map_or(u32::MAX, &mut place);
            let counter = place(wanted.counter);
            pad(&mut texts, 8);
            let time_base = if wanted.kind & 0x0030_0000 == 0x0010_0000 { SECOND } else { FREQUENCY };
            let is_wild = u32::from(wanted.instance == Some("*"));
            words(&mut content, &[52 + texts.len() as u32, is_wild, 0, wanted.kind]);
            long(&mut content, time_base);
            words(&mut content, &[0, machine, object, instance, u32::MAX, 0, counter]);
            content.extend_from_slice(&texts);
        }
        self.event(0x20, START, &content);
    }

    /// Writes names by number.
    pub fn names(&mut self, names: &[(u32, &str)]) {
        let mut content = Vec::new();
        text(&mut content, "\\\\HOST");
        for (number, name) in names {
            text(&mut content, &number.to_string());
            text(&mut content, name);
        }
        self.event(0x24, START, &content);
    }

    /// Makes a raw counter's record.
    pub fn raw(&self, utc: u64, value: u64, second: u64, multi: u32) -> Vec<u8> {
        let mut record = Vec::new();
        words(&mut record, &[0x0103_4c42, 48, 0]);
        long(&mut record, utc.wrapping_add_signed(self.offset));
        words(&mut record, &[0]);
        long(&mut record, value);
        long(&mut record, second);
        words(&mut record, &[multi, 0]);
        record
    }

    /// Makes the record of a wildcard's instances.
    pub fn instances(&self, utc: u64, instances: &[(&str, u64, u64)]) -> Vec<u8> {
        let mut names = Vec::new();
        let mut items = Vec::new();
        for (name, value, second) in instances {
            let place = 24 + 24 * instances.len() + names.len();
            text(&mut names, name);
            words(&mut items, &[place as u32, 0]);
            long(&mut items, *value);
            long(&mut items, *second);
        }
        pad(&mut names, 8);
        let size = (24 + items.len() + names.len()) as u32;
        let mut record = Vec::new();
        words(&mut record, &[0x0203_4c42, 8 + size, size, instances.len() as u32, 0, 0]);
        long(&mut record, utc.wrapping_add_signed(self.offset));
        record.extend_from_slice(&items);
        record.extend_from_slice(&names);
        record
    }

    /// Makes the record of a performance data block.
    pub fn block(&self, utc: u64, perf_time: u64, machine: &str, objects: &[Object<'_>]) -> Vec<u8> {
        let mut name = Vec::new();
        text(&mut name, machine);
        let name_length = name.len() as u32;
        pad(&mut name, 8);
        let objects: Vec<u8> = objects.iter().flat_map(|o| object(o, utc)).collect();
        let header = 88 + name.len();
        let mut block = Vec::new();
        block.extend_from_slice(b"P\0E\0R\0F\0");
        words(&mut block, &[1, 1, 1, (header + objects.len()) as u32, header as u32, 1, u32::MAX]);
        block.resize(56, 0);
        [perf_time, FREQUENCY, utc].iter().for_each(|t| long(&mut block, *t));
        words(&mut block, &[name_length, 88]);
        block.extend_from_slice(&name);
        block.extend_from_slice(&objects);
        let mut record = Vec::new();
        words(&mut record, &[0x0503_4c42, 8 + block.len() as u32]);
        record.extend_from_slice(&block);
        record
    }

    /// Writes a sample of some records.
    pub fn sample(&mut self, utc: u64, records: &[Vec<u8>]) {
        let mut content = Vec::new();
        let size: usize = records.iter().map(Vec::len).sum();
        words(&mut content, &[0x0003_4c42, 8 + size as u32]);
        records.iter().for_each(|r| content.extend_from_slice(r));
        self.event(0x22, utc, &content);
    }

    /// Returns the file.
    pub fn finish(mut self) -> Vec<u8> {
        let mut file = Vec::new();
        for buffer in &mut self.buffers {
            let used = buffer.len() as u32;
            buffer[0x30..0x34].copy_from_slice(&used.to_le_bytes());
            buffer.resize(BUFFER, 0xff);
            file.extend_from_slice(buffer);
        }
        file
    }
}

fn object(object: &Object<'_>, utc: u64) -> Vec<u8> {
    let behind = 64 + 40 * object.counters.len();
    let mut definitions = Vec::new();
    let mut place = 8;
    for (name, kind, size) in object.counters {
        words(&mut definitions, &[40, *name, 0, 0, 0, 0, 100, *kind, *size as u32, place as u32]);
        place += size;
    }
    let mut instances = Vec::new();
    for (name, values) in &object.instances {
        if let Some(name) = name {
            let mut bytes = Vec::new();
            text(&mut bytes, name);
            let length = bytes.len() as u32;
            pad(&mut bytes, 8);
            words(&mut instances, &[24 + bytes.len() as u32, 0, 0, u32::MAX, 24, length]);
            instances.extend_from_slice(&bytes);
        }
        let mut block = Vec::new();
        words(&mut block, &[0, 0]);
        for ((_, _, size), value) in object.counters.iter().zip(values) {
            block.extend_from_slice(&value.to_le_bytes()[..*size]);
        }
        pad(&mut block, 8);
        let size = block.len() as u32;
        block[..4].copy_from_slice(&size.to_le_bytes());
        instances.extend_from_slice(&block);
    }
    let count = if object.instances.iter().any(|i| i.0.is_none()) { -1 } else { object.instances.len() as i32 };
    let mut out = Vec::new();
    let total = behind + instances.len();
    words(&mut out, &[total as u32, behind as u32, 64, object.name, 0, 0, 0, 100]);
    words(&mut out, &[object.counters.len() as u32, 0, count.cast_unsigned(), 0]);
    [utc, SECOND].iter().for_each(|t| long(&mut out, *t));
    out.extend_from_slice(&definitions);
    out.extend_from_slice(&instances);
    out
}

pub const RATE: u32 = 0x1041_0400;
pub const LEVEL: u32 = 0x0001_0000;
pub const QUEUE: u32 = 0x0055_0500;
pub const BUSY_INVERSE: u32 = 0x2151_0500;
pub const AVERAGE_TIME: u32 = 0x3002_0400;
pub const AVERAGE_BASE: u32 = 0x4003_0402;
pub const FRACTION: u32 = 0x2002_0400;
pub const RAW_BASE: u32 = 0x4003_0403;
pub const TIMER_100NS: u32 = 0x2051_0500;
pub const ELAPSED: u32 = 0x3024_0500;
/// A type that is not documented.
pub const STRANGE: u32 = 0x7777_0000;

/// Makes samples of a counter list, as Windows 7 and later write it: a disk with 50 reads per second and a queue of
/// 1.5, two processors of which one is busy for a quarter, and a counter of an undocumented type.
pub fn of_lists(samples: u64) -> Vec<u8> {
    let mut log = Log::new(8, 480, false);
    let disk = |kind, counter| Wanted { kind, object: "PhysicalDisk", instance: Some("0 C:"), counter };
    log.list(
        "WEB1",
        &[
            disk(RATE, "Disk Reads/sec"),
            disk(QUEUE, "Avg. Disk Queue Length"),
            Wanted { kind: STRANGE, object: "Own", instance: None, counter: "Strange" },
            Wanted { kind: BUSY_INVERSE, object: "Processor", instance: Some("*"), counter: "% Processor Time" },
        ],
    );
    for n in 0..samples {
        let utc = START + n * SECOND;
        let idle = |share: u64| 1000 * SECOND + n * SECOND * share / 100;
        let records = [
            log.raw(utc, 7 + 50 * n, 5000 + FREQUENCY * n, 1),
            log.raw(utc, 3 + 15 * SECOND / 10 * n, utc, 1),
            log.raw(utc, n, n, 1),
            log.instances(utc, &[("0", idle(100), utc), ("1", idle(75), utc), ("_Total", idle(87), utc)]),
        ];
        log.sample(utc, &records);
    }
    log.finish()
}

/// Makes samples of whole objects, as Windows before Vista writes them: a disk with 40 transfers per second of 25 ms
/// each, processes of which two have the same name, memory.
pub fn of_objects(samples: u64) -> Vec<u8> {
    let mut log = Log::new(4, 300, true);
    log.names(&[
        (2, "System"),
        (4, "Memory"),
        (24, "Available Bytes"),
        (200, "% Registry Quota In Use"),
        (206, "Avg. Disk sec/Transfer"),
        (212, "Disk Transfers/sec"),
        (230, "Process"),
    ]);
    log.names(&[(6, "% Processor Time"), (234, "PhysicalDisk"), (684, "Elapsed Time"), (784, "ID Process")]);
    for n in 0..samples {
        let utc = START + n * SECOND;
        let disk = vec![40 * n, FREQUENCY * n, 40 * n];
        let busy = |each: u64| n * SECOND / 10 * each;
        let own = |id: u64| vec![busy(id % 4), START - id * SECOND, id];
        // the first of the two ends after the third sample; the other takes its name
        let mut processes = vec![(Some("svc"), own(1001)), (Some("svc"), own(1002)), (Some("sql"), own(2003))];
        if n >= 3 {
            processes.remove(0);
        }
        let blocks = [
            log.block(
                utc,
                5000 + FREQUENCY * n,
                "OLD1",
                &[Object {
                    name: 234,
                    counters: &[(212, RATE, 4), (206, AVERAGE_TIME, 4), (206, AVERAGE_BASE, 4)],
                    instances: vec![(Some("0 C:"), disk.clone()), (Some("_Total"), disk)],
                }],
            ),
            log.block(
                utc,
                5000 + FREQUENCY * n,
                "OLD1",
                &[Object {
                    name: 230,
                    counters: &[(6, TIMER_100NS, 8), (684, ELAPSED, 8), (784, LEVEL, 4)],
                    instances: processes,
                }],
            ),
            log.block(
                utc,
                5000 + FREQUENCY * n,
                "OLD1",
                &[Object {
                    name: 4,
                    counters: &[(24, LEVEL, 4), (200, FRACTION, 4), (200, RAW_BASE, 4)],
                    instances: vec![(None, vec![1 << 20, 30, 120])],
                }],
            ),
        ];
        log.sample(utc, &blocks);
    }
    log.event(0x23, START + 5 * SECOND, &[0; 16]);
    log.finish()
}
