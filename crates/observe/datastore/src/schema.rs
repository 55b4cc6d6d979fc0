//! A schema's record: its id, then (zstd) a line a series.
//!
//! Payload: id u64, id of the base u64 (0: none), length of the plain bytes
//! u32, packed bytes. Plain bytes: number of series, then the length and bytes of
//! each one's counter, then of each one's instance, then each one's scale in 8
//! bytes: kept apart, each of the three repeats itself. With a base,
//! the base's plain bytes serve as zstd's dictionary: devices and control
//! groups come and go, and a schema is mostly the one before.
//! The id is a hash of the plain bytes, so the same series have the same id in
//! every segment, and a file whose schema is damaged can borrow another's.

use std::sync::Arc;

use diskwright_base::{Schema, Series};

use crate::bits::{ByteCursor, put_text, put_varint};
use crate::format::{MAX_SERIES, SCHEMA, close_record, open_record, u32_at, u64_at};
use crate::pack::{Packer, Unpacker};

/// Longest plain form that is taken: 64 bytes of names for each of the most series.
const MOST_PLAIN: usize = 64 * MAX_SERIES;
/// So many schemas are remembered while reading, whatever their size …
const LEAST_KNOWN: usize = 64;
/// … so many, if they have few series …
const MOST_KNOWN: usize = 4096;
/// … and more than the least only while all have at most so many series.
const MOST_KNOWN_SERIES: usize = 1 << 20;

/// A schema as it lies in the log.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchema {
    pub id: u64,
    pub schema: Arc<Schema>,
    /// The whole record, which needs no other, ready to be written.
    pub record: Vec<u8>,
}

impl StoredSchema {
    /// Makes the record. `None` when the names are too long or too many.
    pub fn new(schema: &Arc<Schema>) -> Option<StoredSchema> {
        if schema.series.len() > MAX_SERIES {
            return None;
        }
        let plain = plain(schema);
        let id = hash(&plain);
        let record = record(id, 0, &plain, &[])?;
        Some(StoredSchema { id, schema: schema.clone(), record })
    }

    /// The record for a file that has `base` already; shorter where they are alike.
    pub fn record_after(&self, base: &StoredSchema) -> Vec<u8> {
        let record = record(self.id, base.id, &plain(&self.schema), &plain(&base.schema));
        record.filter(|record| record.len() < self.record.len()).unwrap_or_else(|| self.record.clone())
    }
}

fn plain(schema: &Schema) -> Vec<u8> {
    let mut plain = Vec::new();
    put_varint(&mut plain, schema.series.len() as u64);
    schema.series.iter().for_each(|series| put_text(&mut plain, &series.counter));
    schema.series.iter().for_each(|series| put_text(&mut plain, &series.instance));
    let scales = schema.series.iter().map(|series| series.scale.to_bits().to_le_bytes());
    plain.extend(scales.flatten());
    plain
}

fn record(id: u64, base: u64, plain: &[u8], dictionary: &[u8]) -> Option<Vec<u8>> {
    if plain.len() > MOST_PLAIN {
        return None;
    }
    let mut record = Vec::new();
    let start = open_record(&mut record);
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&base.to_le_bytes());
    record.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    Packer::default().pack(plain, dictionary, &mut record);
    close_record(&mut record, start, SCHEMA).then_some(record)
}

/// The schemas that a reader has come upon.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    /// The one that was needed last stands last.
    known: Vec<(u64, Arc<Schema>)>,
    /// Series of all of them.
    series: usize,
    unpacker: Unpacker,
}

impl Schemas {
    /// A schema by its id.
    pub fn get(&self, id: u64) -> Option<&Arc<Schema>> {
        self.known.iter().find(|(known, _)| *known == id).map(|(_, schema)| schema)
    }

    /// Remembers a schema.
    pub fn add(&mut self, id: u64, schema: Arc<Schema>) {
        if self.get(id).is_some() {
            return;
        }
        self.series += schema.series.len();
        self.known.push((id, schema));
        while self.known.len() > MOST_KNOWN || self.known.len() > LEAST_KNOWN && self.series > MOST_KNOWN_SERIES {
            let (_, forgotten) = self.known.remove(0);
            self.series -= forgotten.series.len();
        }
    }

    /// A base is needed for whatever comes next, however long ago it was read.
    fn keep(&mut self, id: u64) {
        if let Some(index) = self.known.iter().position(|(known, _)| *known == id) {
            let known = self.known.remove(index);
            self.known.push(known);
        }
    }

    /// Reads a schema's payload and remembers it. False where it makes no
    /// sense; one whose base is not known is passed over.
    pub fn learn(&mut self, payload: &[u8]) -> bool {
        let (Some(id), Some(base), Some(length)) = (u64_at(payload, 0), u64_at(payload, 8), u32_at(payload, 16)) else {
            return false;
        };
        if self.get(id).is_some() {
            return true;
        }
        self.keep(base);
        let dictionary = match self.get(base) {
            _ if base == 0 => Vec::new(),
            Some(schema) => plain(schema),
            None => return true,
        };
        let schema = parse(&mut self.unpacker, &payload[20..], length as usize, &dictionary, id);
        schema.map(|schema| self.add(id, Arc::new(schema))).is_some()
    }
}

fn parse(unpacker: &mut Unpacker, packed: &[u8], length: usize, dictionary: &[u8], id: u64) -> Option<Schema> {
    if length > MOST_PLAIN {
        return None;
    }
    let plain = unpacker.unpack(packed, length, dictionary)?;
    let mut cursor = ByteCursor::new(plain);
    let count = usize::try_from(cursor.varint()?).ok()?;
    if count > MAX_SERIES || hash(plain) != id {
        return None;
    }
    let mut texts = |count| (0..count).map(|_| cursor.text().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let (counters, instances) = (texts(count)?, texts(count)?);
    let mut series = Vec::new();
    for (counter, instance) in counters.into_iter().zip(instances) {
        series.push(Series { counter, instance, scale: f64::from_bits(cursor.u64()?) });
    }
    cursor.is_empty().then_some(Schema::new(series))
}

/// FNV-1a, 64 bits; never 0, which stands for no schema.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    if hash == 0 { 1 } else { hash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER;

    fn schema(names: impl Iterator<Item = usize>) -> Arc<Schema> {
        let series = |i: usize| Series { counter: "a.b".into(), instance: format!("Gerät {i}"), scale: 0.001 };
        Arc::new(Schema::new(names.map(series).collect()))
    }

    #[test]
    fn schemas_come_back_with_their_id() {
        let stored = StoredSchema::new(&schema(0..300)).expect("small");
        assert!(stored.record.len() < 2000, "{}", stored.record.len());
        let mut schemas = Schemas::default();
        assert!(schemas.learn(&stored.record[HEADER..]));
        assert_eq!(schemas.get(stored.id), Some(&stored.schema));
    }

    #[test]
    fn a_schema_like_another_is_short_and_needs_it() {
        let base = StoredSchema::new(&schema(0..300)).expect("small");
        let other = StoredSchema::new(&schema((0..100).chain(105..300).chain(777..780))).expect("small");
        let record = other.record_after(&base);
        assert!(record.len() < 120, "{} bytes", record.len());
        let mut schemas = Schemas::default();
        assert!(schemas.learn(&record[HEADER..]), "not known is not wrong");
        assert_eq!(schemas.get(other.id), None);
        assert!(schemas.learn(&base.record[HEADER..]) && schemas.learn(&record[HEADER..]));
        assert_eq!(schemas.get(other.id), Some(&other.schema));
    }

    /// However many schemas come after it, a segment's first is still the base of the next one.
    #[test]
    fn a_base_is_not_forgotten() {
        let base = StoredSchema::new(&schema(0..3)).expect("small");
        let mut schemas = Schemas::default();
        assert!(schemas.learn(&base.record[HEADER..]));
        for i in 0..MOST_KNOWN + 10 {
            let next = StoredSchema::new(&schema((0..3).chain([i + 10]))).expect("small");
            assert!(schemas.learn(&next.record_after(&base)[HEADER..]));
            assert_eq!(schemas.get(next.id), Some(&next.schema), "schema {i}");
        }
        assert_eq!(schemas.known.len(), MOST_KNOWN);
    }

    #[test]
    fn large_schemas_are_forgotten_sooner() {
        let mut schemas = Schemas::default();
        for i in 0..100 {
            schemas.add(i, schema(0..20_000));
        }
        assert_eq!((schemas.known.len(), schemas.series), (LEAST_KNOWN, LEAST_KNOWN * 20_000));
    }
}
