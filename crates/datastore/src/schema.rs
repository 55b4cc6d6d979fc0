//! A schema's record: its id, then (zstd) a line a series.
//!
//! Payload: id u64, length of the plain bytes u32, compressed bytes. Plain
//! bytes: number of series, then for each the lengths and bytes of counter and
//! instance, and the scale's 8 bytes. The id is a hash of the plain bytes, so
//! the same series have the same id in every segment, and a segment whose
//! schema is damaged can borrow another's.

use std::sync::Arc;

use diskwright_base::{Schema, Series};

use crate::bits::{Cursor, put_text, put_varint};
use crate::format::{MAX_SERIES, SCHEMA, close_record, open_record, u32_at, u64_at};
use crate::notes::{pack, unpack};

/// Longest plain form that is taken: 64 bytes of names for each of the most series.
const MOST_PLAIN: usize = 64 * MAX_SERIES;

/// A schema as it lies in the log.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchema {
    pub id: u64,
    pub schema: Arc<Schema>,
    /// The whole record, ready to be written again.
    pub record: Vec<u8>,
}

impl StoredSchema {
    /// Makes the record. `None` when the names are too long or too many.
    pub fn new(schema: &Arc<Schema>) -> Option<StoredSchema> {
        let mut plain = Vec::new();
        put_varint(&mut plain, schema.series.len() as u64);
        for series in &schema.series {
            put_text(&mut plain, &series.counter);
            put_text(&mut plain, &series.instance);
            plain.extend_from_slice(&series.scale.to_bits().to_le_bytes());
        }
        if plain.len() > MOST_PLAIN || schema.series.len() > MAX_SERIES {
            return None;
        }
        let id = hash(&plain);
        let mut record = Vec::new();
        let start = open_record(&mut record);
        record.extend_from_slice(&id.to_le_bytes());
        record.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        pack(&plain, &mut record);
        close_record(&mut record, start, SCHEMA).then(|| StoredSchema { id, schema: schema.clone(), record })
    }
}

/// Id of a schema's payload.
pub(crate) fn id(payload: &[u8]) -> Option<u64> {
    u64_at(payload, 0)
}

/// Reads a schema's payload.
pub(crate) fn parse(payload: &[u8]) -> Option<(u64, Schema)> {
    let id = id(payload)?;
    let length = u32_at(payload, 8)? as usize;
    if length > MOST_PLAIN {
        return None;
    }
    let plain = unpack(&payload[12..], length)?;
    let mut cursor = Cursor::new(&plain);
    let count = usize::try_from(cursor.varint()?).ok()?;
    if count > MAX_SERIES || hash(&plain) != id {
        return None;
    }
    let mut series = Vec::new();
    for _ in 0..count {
        let counter = cursor.text()?.to_owned();
        let instance = cursor.text()?.to_owned();
        series.push(Series { counter, instance, scale: f64::from_bits(cursor.u64()?) });
    }
    cursor.is_empty().then_some((id, Schema { series }))
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER;

    #[test]
    fn schemas_come_back_with_their_id() {
        let series = |i: usize| Series { counter: "a.b".into(), instance: format!("Gerät {i}"), scale: 0.001 };
        let schema = Arc::new(Schema { series: (0..300).map(series).collect() });
        let stored = StoredSchema::new(&schema).expect("small");
        assert!(stored.record.len() < 2000, "{}", stored.record.len());
        let (id, back) = parse(&stored.record[HEADER..]).expect("sound");
        assert_eq!((id, &back), (stored.id, &*schema));
    }
}
