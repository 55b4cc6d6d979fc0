//! A small encoder of PCP archives, written from the specification alone and not from the reader, so that the two can
//! be compared with each other (and both with PCP's own tools).

#![allow(dead_code, reason = "each test file uses its own part of it")]

/// Seconds since 1970 of the first record of [`example`].
pub const START: i64 = 1_700_000_000;

/// The three files of an archive.
#[derive(Clone)]
pub struct Archive {
    pub version: u8,
    pub meta: Vec<u8>,
    pub volume: Vec<u8>,
    pub index: Vec<u8>,
}

pub const U32: u32 = 1;
pub const U64: u32 = 3;
pub const FLOAT: u32 = 4;
pub const STRING: u32 = 6;
pub const COUNTER: u32 = 1;
pub const INSTANT: u32 = 3;
pub const DISCRETE: u32 = 4;
pub const NONE: u32 = u32::MAX;
/// Units: plain counts, kilobytes, megabytes, milliseconds, none.
pub const COUNT: u32 = 0x0010_0000;
pub const KBYTE: u32 = 0x1001_0000;
pub const MBYTE: u32 = 0x1002_0000;
pub const MSEC: u32 = 0x0100_2000;
pub const PLAIN: u32 = 0;

/// A value of a record.
pub enum Value {
    Word(u32),
    U64(u64),
    /// As loggers before PCP 2.0 wrote it: the block does not give its type.
    Untold(u64),
    Float(f32),
    Text(&'static str),
}

/// A metric's values in a record, by instance; `Err` is one that could not be read.
pub type Set = (u32, Result<Vec<(u32, Value)>, i32>);

fn be(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|w| out.extend_from_slice(&w.to_be_bytes()));
}

/// Writes a body between its two lengths.
fn frame(out: &mut Vec<u8>, body: &[u8]) {
    let length = body.len() as u32 + 8;
    be(out, &[length]);
    out.extend_from_slice(body);
    be(out, &[length]);
}

/// Returns the identifier of a metric: domain, cluster, item.
pub fn pmid(domain: u32, cluster: u32, item: u32) -> u32 {
    domain << 22 | cluster << 10 | item
}

impl Archive {
    pub fn new(version: u8, host: &str, pid: u32) -> Archive {
        let mut archive = Archive { version, meta: Vec::new(), volume: Vec::new(), index: Vec::new() };
        archive.meta = archive.label(host, pid, -1);
        archive.volume = archive.label(host, pid, 0);
        archive.index = archive.label(host, pid, -2);
        archive
    }

    /// Makes the label of a file.
    pub fn label(&self, host: &str, pid: u32, volume: i32) -> Vec<u8> {
        let mut body = Vec::new();
        be(&mut body, &[0x5005_2600 + u32::from(self.version), pid]);
        self.time(&mut body, START as f64);
        be(&mut body, &[volume.cast_unsigned()]);
        let mut field = |text: &str, width: usize| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(width, 0);
            body.extend_from_slice(&bytes);
        };
        if self.version == 2 {
            field(host, 64);
            field("UTC", 40);
        } else {
            field("", 8);
            field(host, 256);
            field("UTC", 256);
            field("", 256);
        }
        let mut out = Vec::new();
        frame(&mut out, &body);
        out
    }

    fn time(&self, out: &mut Vec<u8>, time_s: f64) {
        let seconds = time_s.floor();
        let part = time_s - seconds;
        if self.version == 2 {
            be(out, &[seconds as u32, (part * 1e6).round() as u32]);
        } else {
            // the low word first, as the files of PCP 5 and 6 have it
            be(out, &[seconds as u32, 0, (part * 1e6).round() as u32 * 1000]);
        }
    }

    pub fn describe(&mut self, pmid: u32, name: &str, kind: u32, indom: u32, semantics: u32, units: u32) {
        let mut body = Vec::new();
        be(&mut body, &[1, pmid, kind, indom, semantics, units, 1, name.len() as u32]);
        body.extend_from_slice(name.as_bytes());
        frame(&mut self.meta, &body);
    }

    /// Writes all instances of a domain from `time_s` on.
    pub fn instances(&mut self, time_s: f64, indom: u32, instances: &[(u32, &str)]) {
        let tag = if self.version == 2 { 2 } else { 5 };
        let entries: Vec<_> = instances.iter().map(|(n, name)| (*n, Some(*name))).collect();
        self.domain(tag, time_s, indom, &entries);
    }

    /// Writes a change of version 3: instances that were added and (without a name) removed.
    pub fn delta(&mut self, time_s: f64, indom: u32, changes: &[(u32, Option<&str>)]) {
        self.domain(6, time_s, indom, changes);
    }

    fn domain(&mut self, tag: u32, time_s: f64, indom: u32, entries: &[(u32, Option<&str>)]) {
        let mut body = Vec::new();
        be(&mut body, &[tag]);
        self.time(&mut body, time_s);
        be(&mut body, &[indom, entries.len() as u32]);
        let mut table = Vec::new();
        be(&mut body, &entries.iter().map(|e| e.0).collect::<Vec<_>>());
        for (_, name) in entries {
            let offset = if name.is_some() { table.len() as u32 } else { u32::MAX };
            be(&mut body, &[offset]);
            if let Some(name) = name {
                table.extend_from_slice(name.as_bytes());
                table.push(0);
            }
        }
        body.extend_from_slice(&table);
        frame(&mut self.meta, &body);
    }

    /// Writes a record of help text, which a reader skips.
    pub fn help(&mut self, pmid: u32, text: &str) {
        let mut body = Vec::new();
        be(&mut body, &[4, 5, pmid]);
        body.extend_from_slice(text.as_bytes());
        body.push(0);
        frame(&mut self.meta, &body);
    }

    /// Writes a record of values. `Err` is a metric that could not be read.
    pub fn record(&mut self, time_s: f64, sets: &[Set]) {
        let mut body = Vec::new();
        self.time(&mut body, time_s);
        be(&mut body, &[sets.len() as u32]);
        let width = |s: &Set| match &s.1 {
            Ok(values) if !values.is_empty() => 12 + 8 * values.len(),
            _ => 8,
        };
        // blocks stand behind all sets; their offset counts words from two before the record
        let mut next = 4 + body.len() + sets.iter().map(width).sum::<usize>();
        let mut blocks = Vec::new();
        for (pmid, values) in sets {
            let values = match values {
                Ok(values) => values,
                Err(code) => {
                    be(&mut body, &[*pmid, code.cast_unsigned()]);
                    continue;
                }
            };
            be(&mut body, &[*pmid, values.len() as u32]);
            if values.is_empty() {
                continue;
            }
            let in_place = matches!(values[0].1, Value::Word(_));
            be(&mut body, &[u32::from(!in_place)]);
            for (instance, value) in values {
                let (kind, bytes) = match value {
                    Value::Word(word) => {
                        be(&mut body, &[*instance, *word]);
                        continue;
                    }
                    Value::U64(v) => (U64, v.to_be_bytes().to_vec()),
                    Value::Untold(v) => (0, v.to_be_bytes().to_vec()),
                    Value::Float(v) => (FLOAT, v.to_be_bytes().to_vec()),
                    Value::Text(v) => (STRING, [v.as_bytes(), &[0]].concat()),
                };
                be(&mut body, &[*instance, next as u32 / 4 + 2]);
                be(&mut blocks, &[kind << 24 | (4 + bytes.len() as u32)]);
                blocks.extend_from_slice(&bytes);
                blocks.resize(blocks.len().next_multiple_of(4), 0);
                next += 4 + bytes.len().next_multiple_of(4);
            }
        }
        body.extend_from_slice(&blocks);
        frame(&mut self.volume, &body);
    }

    /// Writes a mark record.
    pub fn mark(&mut self, time_s: f64) {
        self.record(time_s, &[]);
    }

    /// Ends the index with the first and the last time, as PCP's tools require.
    pub fn finish(&mut self, last: f64) {
        let head = self.label("", 0, 0).len() as u32;
        let ends = [(START as f64, head, head), (last, self.meta.len() as u32, self.volume.len() as u32)];
        for (time_s, meta, volume) in ends {
            let mut out = Vec::new();
            self.time(&mut out, time_s);
            match self.version {
                2 => be(&mut out, &[0, meta, volume]),
                _ => be(&mut out, &[0, 0, meta, 0, volume]),
            }
            self.index.extend_from_slice(&out);
        }
    }
}

/// Metrics of the example.
pub const READS: u32 = 60 << 22 | 4;
pub const READ_BYTES: u32 = 60 << 22 | 38;
pub const BUSY: u32 = 60 << 22 | 46;
pub const LOAD: u32 = 60 << 22 | 2 << 10;
pub const FREE: u32 = 60 << 22 | 1 << 10 | 10;
pub const MEMORY: u32 = 60 << 22 | 1 << 10 | 9;
pub const PROCESSORS: u32 = 60 << 22 | 32;
pub const KERNEL: u32 = 60 << 22 | 12 << 10;
pub const OWN: u32 = 200 << 22 | 1;
pub const DISKS: u32 = 60 << 22 | 1;
pub const LOADS: u32 = 60 << 22 | 2;

fn singular(value: Value) -> Result<Vec<(u32, Value)>, i32> {
    Ok(vec![(NONE, value)])
}

/// Makes an archive of six seconds: two disks, of which `sdb` is replaced by `sdc` after the third second, a logger
/// that stopped after the fourth, and a second group of metrics every two seconds, 100 ms behind the first.
pub fn example(version: u8) -> Archive {
    let mut a = Archive::new(version, "db1", 4711);
    a.describe(READS, "disk.dev.read", U64, DISKS, COUNTER, COUNT);
    a.help(READS, "Reads of the disk");
    a.describe(READ_BYTES, "disk.dev.read_bytes", U64, DISKS, COUNTER, KBYTE);
    a.describe(BUSY, "disk.dev.avactive", U32, DISKS, COUNTER, MSEC);
    a.describe(LOAD, "kernel.all.load", FLOAT, LOADS, INSTANT, PLAIN);
    a.describe(FREE, "mem.util.free", U64, NONE, INSTANT, KBYTE);
    a.describe(MEMORY, "hinv.physmem", U32, NONE, DISCRETE, MBYTE);
    a.describe(PROCESSORS, "hinv.ncpu", U32, NONE, DISCRETE, PLAIN);
    a.describe(KERNEL, "kernel.uname.release", STRING, NONE, DISCRETE, PLAIN);
    a.describe(OWN, "own.requests", U64, NONE, COUNTER, COUNT);
    let start = START as f64;
    a.instances(start, DISKS, &[(0, "sda"), (7, "sdb")]);
    a.instances(start, LOADS, &[(1, "1 minute"), (5, "5 minute"), (15, "15 minute")]);
    let once = [
        (MEMORY, singular(Value::Word(8192))),
        (PROCESSORS, singular(Value::Word(4))),
        (KERNEL, singular(Value::Text("6.1.0"))),
    ];
    a.record(start, &once);
    for second in 0..=6u32 {
        let time_s = start + f64::from(second);
        if second == 3 {
            match version {
                2 => a.instances(time_s, DISKS, &[(0, "sda"), (9, "sdc")]),
                _ => a.delta(time_s, DISKS, &[(7, None), (9, Some("sdc"))]),
            }
        }
        if second == 4 {
            a.mark(time_s - 0.5);
        }
        a.record(time_s + 0.01, &of_second(second));
        if second % 2 == 0 {
            let load = [(1, Value::Float(1.5)), (5, Value::Float(1.25)), (15, Value::Float(1.0))];
            let own = u64::from(second) * 50;
            a.record(time_s + 0.11, &[(LOAD, Ok(load.into())), (OWN, singular(Value::U64(own)))]);
        }
    }
    a.finish(start + 6.11);
    a
}

/// Returns the values of the first group: `sda` reads 100 times and 400 kB per second and is busy for a quarter of it;
/// its busy counter wraps in the second second. The other disk reads 10 times.
fn of_second(second: u32) -> Vec<Set> {
    let other = if second < 3 { 7 } else { 9 };
    let n = u64::from(second);
    let busy = (u32::MAX - 300).wrapping_add(250 * second);
    vec![
        (READS, Ok(vec![(0, Value::U64(1000 + 100 * n)), (other, Value::U64(10 * n))])),
        (READ_BYTES, Ok(vec![(0, Value::U64(1 << 40 | (400 * n))), (other, Value::U64(40 * n))])),
        (BUSY, Ok(vec![(0, Value::Word(busy)), (other, Value::Word(0))])),
        (FREE, if second == 5 { Err(-12345) } else { singular(Value::U64(1 << 20)) }),
    ]
}
