//! Records of a sample. Each begins with the letters `BL`, a kind and a length; all are in one container. Raw counters
//! (kind 1) and the instances of a wildcard (kind 2) stand in the order of the counter list; a performance data block
//! (kind 5) holds a whole object (PERF_DATA_BLOCK and related structures in winperf.h).

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

/// Reads the records. The second value is the offset of the first record whose header is wrong.
pub(super) fn read_records(content: &[u8]) -> (Vec<SampleRecord<'_>>, Option<usize>) {
    let bytes = ByteView(content);
    let mut records = Vec::new();
    let mut offset = 0;
    while offset + 8 <= content.len() {
        let (Some(head), Some(size)) = (content.get(offset..offset + 4), bytes.read_size(offset + 4)) else { break };
        if head == [0, 0, 0, 0] {
            // padding at the end
            break;
        }
        if &head[..2] != b"BL" || size < 8 {
            return (records, Some(offset));
        }
        if head[3] == 0 {
            // a container: its records follow
            offset += 8;
            continue;
        }
        let Some(body) = bytes.slice(offset + 8, size - 8) else { return (records, Some(offset)) };
        records.push(SampleRecord { kind: head[3], offset, body });
        offset += size;
    }
    (records, None)
}

/// Reads a raw counter (PDH_RAW_COUNTER): its local time and its values. `None` if it is cut or its status is not
/// valid.
pub(super) fn read_raw_counter(body: ByteView<'_>, time_base: u64) -> Option<(u64, RawCounter)> {
    // CStatus
    if !is_valid_status(body.read_u32(0)?) {
        return None;
    }
    let raw = RawCounter {
        value: body.read_u64(16)?,     // FirstValue
        companion: body.read_u64(24)?, // SecondValue
        frequency: time_base as f64,
        multi_base: body.read_u32(32)?, // MultiCount
    };
    Some((body.read_u64(4)?, raw)) // TimeStamp
}

/// Returns true for PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA.
fn is_valid_status(status: u32) -> bool {
    status <= 1
}

/// Reads the instances of a wildcard counter: the local time, then a name and values each. `None` if the record
/// contradicts itself.
pub(super) fn read_instances(body: ByteView<'_>, time_base: u64) -> Option<(u64, Vec<(String, RawCounter)>)> {
    let count = body.read_size(4)?;
    let items = body.slice(24, count.checked_mul(24)?)?;
    let is_valid = is_valid_status(body.read_u32(8)?);
    // Names that overlap could take far more memory than the record that holds them. An honest record's names cannot be
    // longer than the record; UTF-16 may grow to 1.5 times in UTF-8.
    let mut name_bytes_left = 4 * body.0.len();
    let mut instances = Vec::with_capacity(count);
    for offset in (0..items.0.len()).step_by(24) {
        let name = body.read_text(items.read_size(offset)?)?;
        name_bytes_left = name_bytes_left.checked_sub(name.len())?;
        let raw = RawCounter {
            value: items.read_u64(offset + 8)?,
            companion: items.read_u64(offset + 16)?,
            frequency: time_base as f64,
            multi_base: items.read_u32(offset + 4)?,
        };
        if is_valid {
            instances.push((name, raw));
        }
    }
    Some((body.read_u64(16)?, instances))
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
        object_count: body.read_size(28).filter(|_| is_data_block)?, // NumObjectTypes
        first_object: body.read_size(24)?,                           // HeaderLength
        perf_time: body.read_u64(56)?,                               // PerfTime
        perf_frequency: body.read_u64(64)?,                          // PerfFreq
        time: body.read_u64(72)?,                                    // PerfTime100nSec
    };
    // SystemNameOffset, SystemNameLength
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
    /// Instances: the name, and the bytes from its values on; a single instance has no name.
    pub instances: Vec<(Option<String>, ByteView<'a>)>,
    /// Object and number of the instance that each belongs to; 0 is none.
    pub parents: Vec<(u32, u32)>,
}

/// Reads the objects of a block. `None` stands for one that contradicts itself.
pub(super) fn read_objects<'a>(body: ByteView<'a>, head: &PerfDataBlockHeader) -> Vec<Option<Object<'a>>> {
    let mut objects = Vec::new();
    let mut offset = head.first_object;
    for _ in 0..head.object_count {
        // TotalByteLength
        let Some(object) = body.read_size(offset).filter(|s| *s >= 64).and_then(|size| body.slice(offset, size)) else {
            objects.push(None);
            return objects;
        };
        objects.push(read_object(object));
        offset += object.0.len();
    }
    objects
}

fn read_object(bytes: ByteView<'_>) -> Option<Object<'_>> {
    let definition_bytes = bytes.read_size(4)?; // DefinitionLength
    let mut offset = bytes.read_size(8)?; // HeaderLength
    let count = bytes.read_size(32)?; // NumCounters
    let mut counters = Vec::new();
    for _ in 0..count {
        let size = bytes.read_size(offset).filter(|s| *s >= 40)?; // ByteLength
        let definition = bytes.slice(offset, size)?;
        counters.push(CounterDefinition {
            name: definition.read_u32(4)?,        // CounterNameTitleIndex
            kind: definition.read_u32(28)?,       // CounterType
            size_bytes: definition.read_u32(32)?, // CounterSize
            offset: definition.read_size(36)?,    // CounterOffset
        });
        offset += size;
    }
    let mut object = Object {
        name: bytes.read_u32(12)?, // ObjectNameTitleIndex
        counters,
        time: bytes.read_u64(48)?,      // PerfTime
        frequency: bytes.read_u64(56)?, // PerfFreq
        instances: Vec::new(),
        parents: Vec::new(),
    };
    let mut offset = definition_bytes;
    // NumInstances; -1 is an object without instances
    let Ok(count) = usize::try_from(bytes.read_i32(40)?) else {
        object.instances.push((None, bytes.tail(offset)?));
        object.parents.push((0, 0));
        return Some(object);
    };
    for _ in 0..count {
        let size = bytes.read_size(offset).filter(|s| *s >= 24)?; // ByteLength
        let instance = bytes.slice(offset, size)?;
        let (name_offset, name_bytes) = (instance.read_size(16)?, instance.read_size(20)?); // NameOffset, NameLength
        // UniqueID: an instance without a name is named by its number
        let name = match instance.read_i32(12)? {
            unique if unique >= 0 && name_bytes == 0 => unique.to_string(),
            _ => instance.slice(name_offset, name_bytes)?.read_text(0)?,
        };
        object.instances.push((Some(name), bytes.tail(offset + size)?));
        // ParentObjectTitleIndex, ParentObjectInstance
        object.parents.push((instance.read_u32(4)?, instance.read_u32(8)?));
        // the values of the instance follow: ByteLength of PERF_COUNTER_BLOCK
        offset += size + bytes.read_size(offset + size).filter(|s| *s >= 4)?;
    }
    Some(object)
}

impl Object<'_> {
    /// Returns the raw value of a counter: `index` is its position, `values` the instance's values. `None` if it is
    /// incomplete.
    pub fn raw_counter(&self, index: usize, values: ByteView<'_>, head: &PerfDataBlockHeader) -> Option<RawCounter> {
        let definition = self.counters.get(index)?;
        let kind = counter_formula::find_type(definition.kind)?;
        let number = |d: &CounterDefinition| match d.size_bytes {
            4 => values.read_u32(d.offset).map(u64::from),
            8 => values.read_u64(d.offset),
            _ => None,
        };
        let base_value =
            || self.counters.get(index + 1).filter(|next| counter_formula::is_base(next.kind)).and_then(number);
        // an object without its own clock uses that of the block
        let has_clock = self.frequency > 0;
        let (companion, frequency) = match kind.companion {
            CompanionValue::Absent => (0, 0),
            CompanionValue::PerfTime => (head.perf_time, head.perf_frequency),
            CompanionValue::Time100 => (head.time, 10_000_000),
            CompanionValue::ObjectTime if has_clock => (self.time, self.frequency),
            CompanionValue::ObjectTime => (head.time, 10_000_000),
            CompanionValue::Base => (base_value()?, head.perf_frequency),
        };
        let multi_base = base_value().map_or(0, |b| b as u32);
        Some(RawCounter { value: number(definition)?, companion, frequency: frequency as f64, multi_base })
    }
}
