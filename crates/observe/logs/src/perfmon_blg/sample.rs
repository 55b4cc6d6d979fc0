//! Records of a sample: the letters `BL`, a kind, a length, in one container. Raw counters (kind 1) and the instances
//! of a wildcard (kind 2) stand in the order of the counter list; a performance data block (kind 5) holds a whole
//! object (PERF_DATA_BLOCK and related structures in winperf.h).

use super::byte_view::ByteView;
use super::counter_formula::{self, CompanionValue, RawCounter};

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
pub(super) fn read_records(content: &[u8]) -> (Vec<SampleRecord<'_>>, Option<usize>) {
    let bytes = ByteView(content);
    let mut found = Vec::new();
    let mut index = 0;
    while index + 8 <= content.len() {
        let (Some(head), Some(size)) = (content.get(index..index + 4), bytes.read_size(index + 4)) else { break };
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
        let Some(body) = bytes.slice(index + 8, size - 8) else { return (found, Some(index)) };
        found.push(SampleRecord { kind: head[3], offset: index, body });
        index += size;
    }
    (found, None)
}

/// Reads a raw counter (PDH_RAW_COUNTER): its local time and its values. `None` where it is cut or its status is not
/// valid.
pub(super) fn read_raw_counter(body: ByteView<'_>, time_base: u64) -> Option<(u64, RawCounter)> {
    if !is_valid_status(body.read_u32(0)?) {
        return None;
    }
    let raw = RawCounter {
        value: body.read_u64(16)?,
        companion: body.read_u64(24)?,
        frequency: time_base as f64,
        multi_base: body.read_u32(32)?,
    };
    Some((body.read_u64(4)?, raw))
}

/// Returns true for PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA.
fn is_valid_status(status: u32) -> bool {
    status <= 1
}

/// Reads the instances of a wildcard counter: the local time, then a name and values each. `None` where the record
/// contradicts itself.
pub(super) fn read_instances(body: ByteView<'_>, time_base: u64) -> Option<(u64, Vec<(String, RawCounter)>)> {
    let count = body.read_size(4)?;
    let items = body.slice(24, count.checked_mul(24)?)?;
    let valid = is_valid_status(body.read_u32(8)?);
    // names that overlap could take far more memory than the record that holds them
    let mut budget = 4 * body.0.len();
    let mut found = Vec::with_capacity(count);
    for index in (0..items.0.len()).step_by(24) {
        let name = body.read_text(items.read_size(index)?)?;
        budget = budget.checked_sub(name.len())?;
        let raw = RawCounter {
            value: items.read_u64(index + 8)?,
            companion: items.read_u64(index + 16)?,
            frequency: time_base as f64,
            multi_base: items.read_u32(index + 4)?,
        };
        if valid {
            found.push((name, raw));
        }
    }
    Some((body.read_u64(16)?, found))
}

/// Header of a performance data block.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerfDataBlockHeader {
    object_count: usize,
    first_object: usize,
    perf_time: u64,
    perf_frequency: u64,
    /// 100 ns since 1601, UTC.
    pub time: u64,
}

/// Reads the header, and the machine's name.
pub(super) fn read_block_header(body: ByteView<'_>) -> Option<(PerfDataBlockHeader, String)> {
    let is_data_block = body.0.get(..8)? == b"P\0E\0R\0F\0" && body.read_u32(8)? == 1;
    let head = PerfDataBlockHeader {
        object_count: body.read_size(28).filter(|_| is_data_block)?,
        first_object: body.read_size(24)?,
        perf_time: body.read_u64(56)?,
        perf_frequency: body.read_u64(64)?,
        time: body.read_u64(72)?,
    };
    let name = body.slice(body.read_size(84)?, body.read_size(80)?)?.read_text(0)?;
    Some((head, name))
}

/// A counter of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CounterDefinition {
    pub name: u32,
    pub kind: u32,
    size_bytes: u32,
    offset: usize,
}

/// An object of a data block.
pub(super) struct Object<'a> {
    pub name: u32,
    pub counters: Vec<CounterDefinition>,
    time: u64,
    frequency: u64,
    /// Instances: the name, and the index of its values; a single instance has no name.
    pub instances: Vec<(Option<String>, ByteView<'a>)>,
    /// Object and number of the instance that each belongs to; 0 is none.
    pub parents: Vec<(u32, u32)>,
}

/// Reads the objects of a block. `None` stands for one that contradicts itself.
pub(super) fn read_objects<'a>(body: ByteView<'a>, head: &PerfDataBlockHeader) -> Vec<Option<Object<'a>>> {
    let mut found = Vec::new();
    let mut index = head.first_object;
    for _ in 0..head.object_count {
        let Some(all) = body.read_size(index).filter(|s| *s >= 64).and_then(|size| body.slice(index, size)) else {
            found.push(None);
            return found;
        };
        found.push(read_object(all));
        index += all.0.len();
    }
    found
}

fn read_object(all: ByteView<'_>) -> Option<Object<'_>> {
    let (behind, mut index) = (all.read_size(4)?, all.read_size(8)?);
    let count = all.read_size(32)?;
    let mut counters = Vec::new();
    for _ in 0..count {
        let size = all.read_size(index).filter(|s| *s >= 40)?;
        let one = all.slice(index, size)?;
        counters.push(CounterDefinition {
            name: one.read_u32(4)?,
            kind: one.read_u32(28)?,
            size_bytes: one.read_u32(32)?,
            offset: one.read_size(36)?,
        });
        index += size;
    }
    let mut found = Object {
        name: all.read_u32(12)?,
        counters,
        time: all.read_u64(48)?,
        frequency: all.read_u64(56)?,
        instances: Vec::new(),
        parents: Vec::new(),
    };
    let mut index = behind;
    // -1 is an object without instances
    let Ok(count) = usize::try_from(all.read_i32(40)?) else {
        found.instances.push((None, all.tail(index)?));
        found.parents.push((0, 0));
        return Some(found);
    };
    for _ in 0..count {
        let size = all.read_size(index).filter(|s| *s >= 24)?;
        let one = all.slice(index, size)?;
        let (name, length) = (one.read_size(16)?, one.read_size(20)?);
        // an instance without a name is named by its number
        let name = match one.read_i32(12)? {
            unique if unique >= 0 && length == 0 => unique.to_string(),
            _ => one.slice(name, length)?.read_text(0)?,
        };
        found.instances.push((Some(name), all.tail(index + size)?));
        found.parents.push((one.read_u32(4)?, one.read_u32(8)?));
        index += size + all.read_size(index + size).filter(|s| *s >= 4)?;
    }
    Some(found)
}

impl Object<'_> {
    /// Returns the raw value of a counter: `index` is its position, `values` the instance's values. `None` where it is
    /// incomplete.
    pub fn raw_counter(&self, index: usize, values: ByteView<'_>, head: &PerfDataBlockHeader) -> Option<RawCounter> {
        let definition = self.counters.get(index)?;
        let kind = counter_formula::find_type(definition.kind)?;
        let number = |d: &CounterDefinition| match d.size_bytes {
            4 => values.read_u32(d.offset).map(u64::from),
            8 => values.read_u64(d.offset),
            _ => None,
        };
        let base = || self.counters.get(index + 1).filter(|b| counter_formula::is_base(b.kind)).and_then(number);
        // an object without its own clock uses that of the block
        let has_clock = self.frequency > 0;
        let (second, frequency) = match kind.companion {
            CompanionValue::Nothing => (0, 0),
            CompanionValue::PerfTime => (head.perf_time, head.perf_frequency),
            CompanionValue::Time100 => (head.time, 10_000_000),
            CompanionValue::ObjectTime if has_clock => (self.time, self.frequency),
            CompanionValue::ObjectTime => (head.time, 10_000_000),
            CompanionValue::Base => (base()?, head.perf_frequency),
        };
        let multi = base().map_or(0, |b| b as u32);
        Some(RawCounter {
            value: number(definition)?,
            companion: second,
            frequency: frequency as f64,
            multi_base: multi,
        })
    }
}
