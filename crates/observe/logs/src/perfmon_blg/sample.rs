//! Records of a sample: the letters `BL`, a kind, a length, in one container. Raw counters (kind 1) and the instances
//! of a wildcard (kind 2) stand in the order of the counter list; a performance data block (kind 5) holds a whole
//! object (PERF_DATA_BLOCK and related structures in winperf.h).

use super::bytes::ByteView;
use super::cook::{self, CompanionValue, RawCounter};

/// One record of a sample.
#[derive(Clone, Copy)]
pub(super) struct SampleRecord<'a> {
    pub kind: u8,
    /// Offset in the sample.
    pub offset: usize,
    /// Content without the header of eight bytes.
    pub body: ByteView<'a>,
}

/// Reads the records; where their lengths are wrong the second value is the offset.
pub(super) fn records(content: &[u8]) -> (Vec<SampleRecord<'_>>, Option<usize>) {
    let bytes = ByteView(content);
    let mut found = Vec::new();
    let mut index = 0;
    while index + 8 <= content.len() {
        let (Some(head), Some(size)) = (content.get(index..index + 4), bytes.size(index + 4)) else { break };
        if head == [0, 0, 0, 0] {
            // padding at the end
            break;
        }
        if &head[..2] != b"BL" || size < 8 {
            return (found, Some(index));
        }
        if head[3] == 0 {
            // a container: its records follow
            index += 8;
            continue;
        }
        let Some(body) = bytes.part(index + 8, size - 8) else { return (found, Some(index)) };
        found.push(SampleRecord { kind: head[3], offset: index, body });
        index += size;
    }
    (found, None)
}

/// Reads a raw counter (PDH_RAW_COUNTER): its local time and its values. `None` where it is cut or its status is not
/// valid.
pub(super) fn raw(body: ByteView<'_>, time_base: u64) -> Option<(u64, RawCounter)> {
    if !is_valid(body.u32(0)?) {
        return None;
    }
    let raw =
        RawCounter { value: body.u64(16)?, second: body.u64(24)?, frequency: time_base as f64, multi: body.u32(32)? };
    Some((body.u64(4)?, raw))
}

/// Returns true for PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA.
fn is_valid(status: u32) -> bool {
    status <= 1
}

/// Reads the instances of a wildcard counter: the local time, then a name and values each. `None` where the record
/// contradicts itself.
pub(super) fn instances(body: ByteView<'_>, time_base: u64) -> Option<(u64, Vec<(String, RawCounter)>)> {
    let count = body.size(4)?;
    let items = body.part(24, count.checked_mul(24)?)?;
    let valid = is_valid(body.u32(8)?);
    // names that overlap could take far more memory than the record that holds them
    let mut budget = 4 * body.0.len();
    let mut found = Vec::with_capacity(count);
    for index in (0..items.0.len()).step_by(24) {
        let name = body.text(items.size(index)?)?;
        budget = budget.checked_sub(name.len())?;
        let raw = RawCounter {
            value: items.u64(index + 8)?,
            second: items.u64(index + 16)?,
            frequency: time_base as f64,
            multi: items.u32(index + 4)?,
        };
        if valid {
            found.push((name, raw));
        }
    }
    Some((body.u64(16)?, found))
}

/// Header of a performance data block.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerfDataBlock {
    objects: usize,
    first: usize,
    perf_time: u64,
    perf_frequency: u64,
    /// 100 ns since 1601, UTC.
    pub time: u64,
}

/// Reads the header, and the machine's name.
pub(super) fn block(body: ByteView<'_>) -> Option<(PerfDataBlock, String)> {
    let is_data_block = body.0.get(..8)? == b"P\0E\0R\0F\0" && body.u32(8)? == 1;
    let head = PerfDataBlock {
        objects: body.size(28).filter(|_| is_data_block)?,
        first: body.size(24)?,
        perf_time: body.u64(56)?,
        perf_frequency: body.u64(64)?,
        time: body.u64(72)?,
    };
    let name = body.part(body.size(84)?, body.size(80)?)?.text(0)?;
    Some((head, name))
}

/// A counter of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Definition {
    pub name: u32,
    pub kind: u32,
    size: u32,
    place: usize,
}

/// An object of a data block.
pub(super) struct Object<'a> {
    pub name: u32,
    pub counters: Vec<Definition>,
    time: u64,
    frequency: u64,
    /// Instances: the name, and the index of its values; a single instance has no name.
    pub instances: Vec<(Option<String>, ByteView<'a>)>,
    /// Object and number of the instance that each belongs to; 0 is none.
    pub parents: Vec<(u32, u32)>,
}

/// Reads the objects of a block. `None` stands for one that contradicts itself.
pub(super) fn objects<'a>(body: ByteView<'a>, head: &PerfDataBlock) -> Vec<Option<Object<'a>>> {
    let mut found = Vec::new();
    let mut index = head.first;
    for _ in 0..head.objects {
        let Some(all) = body.size(index).filter(|s| *s >= 64).and_then(|size| body.part(index, size)) else {
            found.push(None);
            return found;
        };
        found.push(object(all));
        index += all.0.len();
    }
    found
}

fn object(all: ByteView<'_>) -> Option<Object<'_>> {
    let (behind, mut index) = (all.size(4)?, all.size(8)?);
    let count = all.size(32)?;
    let mut counters = Vec::new();
    for _ in 0..count {
        let size = all.size(index).filter(|s| *s >= 40)?;
        let one = all.part(index, size)?;
        counters.push(Definition { name: one.u32(4)?, kind: one.u32(28)?, size: one.u32(32)?, place: one.size(36)? });
        index += size;
    }
    let mut found = Object {
        name: all.u32(12)?,
        counters,
        time: all.u64(48)?,
        frequency: all.u64(56)?,
        instances: Vec::new(),
        parents: Vec::new(),
    };
    let mut index = behind;
    // -1 is an object without instances
    let Ok(count) = usize::try_from(all.i32(40)?) else {
        found.instances.push((None, all.from(index)?));
        found.parents.push((0, 0));
        return Some(found);
    };
    for _ in 0..count {
        let size = all.size(index).filter(|s| *s >= 24)?;
        let one = all.part(index, size)?;
        let (name, length) = (one.size(16)?, one.size(20)?);
        // an instance without a name is named by its number
        let name = match one.i32(12)? {
            unique if unique >= 0 && length == 0 => unique.to_string(),
            _ => one.part(name, length)?.text(0)?,
        };
        found.instances.push((Some(name), all.from(index + size)?));
        found.parents.push((one.u32(4)?, one.u32(8)?));
        index += size + all.size(index + size).filter(|s| *s >= 4)?;
    }
    Some(found)
}

impl Object<'_> {
    /// Returns the raw value of a counter: `index` is its position, `values` the instance's values. `None` where it is
    /// incomplete.
    pub fn raw(&self, index: usize, values: ByteView<'_>, head: &PerfDataBlock) -> Option<RawCounter> {
        let definition = self.counters.get(index)?;
        let kind = cook::known(definition.kind)?;
        let number = |d: &Definition| match d.size {
            4 => values.u32(d.place).map(u64::from),
            8 => values.u64(d.place),
            _ => None,
        };
        let base = || self.counters.get(index + 1).filter(|b| cook::is_base(b.kind)).and_then(number);
        // an object without its own clock uses that of the block
        let has_clock = self.frequency > 0;
        let (second, frequency) = match kind.second {
            CompanionValue::Nothing => (0, 0),
            CompanionValue::PerfTime => (head.perf_time, head.perf_frequency),
            CompanionValue::Time100 => (head.time, 10_000_000),
            CompanionValue::ObjectTime if has_clock => (self.time, self.frequency),
            CompanionValue::ObjectTime => (head.time, 10_000_000),
            CompanionValue::Base => (base()?, head.perf_frequency),
        };
        let multi = base().map_or(0, |b| b as u32);
        Some(RawCounter { value: number(definition)?, second, frequency: frequency as f64, multi })
    }
}
