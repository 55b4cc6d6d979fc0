//! Encoding of a schema as a record: its id, then the names and scales of its series.
//!
//! Payload: id u64, id of the base u64 (0: none), length of the plain bytes
//! u32, packed bytes. Plain bytes: number of series, then the length and bytes of
//! each one's counter, then of each one's instance, then each one's scale in 8
//! bytes. Stored separately, each of the three compresses well. With a base,
//! the base's plain bytes serve as zstd's dictionary: devices and control
//! groups come and go, and most of a schema equals the one before.
//! The id is a hash of the plain bytes, so the same series have the same id in
//! every segment, and a damaged schema can be read from another file.

use std::sync::Arc;

use diskwright_base::checksum::hash_fnv1a;
use diskwright_base::{Schema, Series};

use crate::compression::{Packer, Unpacker};
use crate::format::{MAX_SERIES, SCHEMA_KIND, close_record, open_record, u32_at, u64_at};
use crate::varint::{ByteCursor, put_text, put_varint};

/// Largest accepted plain form: 64 bytes of names for each of [`MAX_SERIES`] series.
const MAX_PLAIN_BYTES: usize = 64 * MAX_SERIES;
/// Number of schemas that a reader's cache keeps whatever their size.
const MIN_KNOWN_SCHEMAS: usize = 64;
/// Largest number of schemas in the cache, reached only if they have few series.
const MAX_KNOWN_SCHEMAS: usize = 4096;
/// Largest number of series of all cached schemas, if there are more than [`MIN_KNOWN_SCHEMAS`].
const MAX_KNOWN_SERIES: usize = 1 << 20;

/// A schema with its record in the log.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchema {
    pub id: u64,
    pub schema: Arc<Schema>,
    /// The whole record without a base, ready to be written.
    pub record: Vec<u8>,
}

impl StoredSchema {
    /// Encodes the record. `None` if the names are too long or too many.
    pub fn new(schema: &Arc<Schema>) -> Option<StoredSchema> {
        if schema.series.len() > MAX_SERIES {
            return None;
        }
        let plain = encode_plain(schema);
        let id = hash_bytes(&plain);
        let record = encode_record(id, 0, &plain, &[])?;
        Some(StoredSchema { id, schema: schema.clone(), record })
    }

    /// Returns the record for a file that already contains `base`; shorter if they are similar.
    pub fn record_after(&self, base: &StoredSchema) -> Vec<u8> {
        let record = encode_record(self.id, base.id, &encode_plain(&self.schema), &encode_plain(&base.schema));
        record.filter(|record| record.len() < self.record.len()).unwrap_or_else(|| self.record.clone())
    }
}

/// Encodes the plain bytes of a schema.
fn encode_plain(schema: &Schema) -> Vec<u8> {
    let mut plain = Vec::new();
    put_varint(&mut plain, schema.series.len() as u64);
    schema.series.iter().for_each(|series| put_text(&mut plain, &series.counter));
    schema.series.iter().for_each(|series| put_text(&mut plain, &series.instance));
    let scales = schema.series.iter().map(|series| series.scale.to_bits().to_le_bytes());
    plain.extend(scales.flatten());
    plain
}

/// Encodes a record from plain bytes; `None` if they are too long.
fn encode_record(id: u64, base: u64, plain: &[u8], dictionary: &[u8]) -> Option<Vec<u8>> {
    if plain.len() > MAX_PLAIN_BYTES {
        return None;
    }
    let mut record = Vec::new();
    let start = open_record(&mut record);
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&base.to_le_bytes());
    record.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    Packer::default().pack(plain, dictionary, &mut record);
    close_record(&mut record, start, SCHEMA_KIND).then_some(record)
}

/// Cache of the schemas that a reader has found.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache {
    /// Schemas with their ids; new ones and bases in use are at the end.
    known: Vec<(u64, Arc<Schema>)>,
    /// Number of series of all cached schemas.
    series: usize,
    unpacker: Unpacker,
}

impl SchemaCache {
    /// Returns a schema by its id.
    pub fn get(&self, id: u64) -> Option<&Arc<Schema>> {
        self.known.iter().find(|(known, _)| *known == id).map(|(_, schema)| schema)
    }

    /// Adds a schema, and drops the oldest ones beyond the limits.
    pub fn add_schema(&mut self, id: u64, schema: Arc<Schema>) {
        if self.get(id).is_some() {
            return;
        }
        self.series += schema.series.len();
        self.known.push((id, schema));
        while self.known.len() > MAX_KNOWN_SCHEMAS
            || self.known.len() > MIN_KNOWN_SCHEMAS && self.series > MAX_KNOWN_SERIES
        {
            let (_, oldest) = self.known.remove(0);
            self.series -= oldest.series.len();
        }
    }

    /// Moves a base to the end, because later schemas may need it however long ago it was read.
    fn mark_recently_used(&mut self, id: u64) {
        if let Some(index) = self.known.iter().position(|(known, _)| *known == id) {
            let entry = self.known.remove(index);
            self.known.push(entry);
        }
    }

    /// Parses a schema's payload and adds it. Returns false if it is invalid;
    /// a schema whose base is not known is skipped.
    pub fn parse_and_add(&mut self, payload: &[u8]) -> bool {
        let (Some(id), Some(base), Some(length)) = (u64_at(payload, 0), u64_at(payload, 8), u32_at(payload, 16)) else {
            return false;
        };
        if self.get(id).is_some() {
            return true;
        }
        self.mark_recently_used(base);
        let dictionary = match self.get(base) {
            _ if base == 0 => Vec::new(),
            Some(schema) => encode_plain(schema),
            None => return true,
        };
        let schema = parse(&mut self.unpacker, &payload[20..], length as usize, &dictionary, id);
        schema.map(|schema| self.add_schema(id, Arc::new(schema))).is_some()
    }
}

fn parse(unpacker: &mut Unpacker, packed: &[u8], length: usize, dictionary: &[u8], id: u64) -> Option<Schema> {
    if length > MAX_PLAIN_BYTES {
        return None;
    }
    let plain = unpacker.unpack(packed, length, dictionary)?;
    let mut cursor = ByteCursor::new(plain);
    let count = usize::try_from(cursor.read_varint()?).ok()?;
    if count > MAX_SERIES || hash_bytes(plain) != id {
        return None;
    }
    let mut texts = |count| (0..count).map(|_| cursor.read_text().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let (counters, instances) = (texts(count)?, texts(count)?);
    let mut series = Vec::new();
    for (counter, instance) in counters.into_iter().zip(instances) {
        series.push(Series { counter, instance, scale: f64::from_bits(cursor.read_u64()?) });
    }
    cursor.is_empty().then_some(Schema::new(series))
}

/// FNV-1a, 64 bits; never 0, which stands for no schema.
fn hash_bytes(bytes: &[u8]) -> u64 {
    hash_fnv1a(bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_BYTES;

    fn schema(names: impl Iterator<Item = usize>) -> Arc<Schema> {
        let series = |i: usize| Series { counter: "a.b".into(), instance: format!("Gerät {i}"), scale: 0.001 };
        Arc::new(Schema::new(names.map(series).collect()))
    }

    #[test]
    fn schemas_round_trip_with_their_id() {
        let stored = StoredSchema::new(&schema(0..300)).expect("small");
        assert!(stored.record.len() < 2000, "{}", stored.record.len());
        let mut schemas = SchemaCache::default();
        assert!(schemas.parse_and_add(&stored.record[HEADER_BYTES..]));
        assert_eq!(schemas.get(stored.id), Some(&stored.schema));
    }

    #[test]
    fn a_schema_like_another_is_short_and_needs_it() {
        let base = StoredSchema::new(&schema(0..300)).expect("small");
        let other = StoredSchema::new(&schema((0..100).chain(105..300).chain(777..780))).expect("small");
        let record = other.record_after(&base);
        assert!(record.len() < 120, "{} bytes", record.len());
        let mut schemas = SchemaCache::default();
        assert!(schemas.parse_and_add(&record[HEADER_BYTES..]), "not known is not wrong");
        assert_eq!(schemas.get(other.id), None);
        assert!(schemas.parse_and_add(&base.record[HEADER_BYTES..]) && schemas.parse_and_add(&record[HEADER_BYTES..]));
        assert_eq!(schemas.get(other.id), Some(&other.schema));
    }

    /// The first schema of a segment remains the base of the next one, however many come in between.
    #[test]
    fn a_base_is_not_forgotten() {
        let base = StoredSchema::new(&schema(0..3)).expect("small");
        let mut schemas = SchemaCache::default();
        assert!(schemas.parse_and_add(&base.record[HEADER_BYTES..]));
        for i in 0..MAX_KNOWN_SCHEMAS + 10 {
            let next = StoredSchema::new(&schema((0..3).chain([i + 10]))).expect("small");
            assert!(schemas.parse_and_add(&next.record_after(&base)[HEADER_BYTES..]));
            assert_eq!(schemas.get(next.id), Some(&next.schema), "schema {i}");
        }
        assert_eq!(schemas.known.len(), MAX_KNOWN_SCHEMAS);
    }

    #[test]
    fn large_schemas_are_forgotten_sooner() {
        let mut schemas = SchemaCache::default();
        for i in 0..100 {
            schemas.add_schema(i, schema(0..20_000));
        }
        assert_eq!((schemas.known.len(), schemas.series), (MIN_KNOWN_SCHEMAS, MIN_KNOWN_SCHEMAS * 20_000));
    }
}
