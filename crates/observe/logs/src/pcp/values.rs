//! Records of a volume: a time and value sets, one per metric.
//!
//! Two facts that the manual omits and real files show: a set without values
//! has no format word, and the offset of a value block counts 32-bit words
//! from two words before the record.

use super::records::BodyFields;

/// One metric's values in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueSet {
    pub pmid: u32,
    /// Number of values, or a negative error code of the logger.
    pub count: i32,
    /// Set if the record has offsets of value blocks in place of values.
    pub has_offsets: bool,
    /// Byte in the body at which the values begin.
    pub values_offset: usize,
}

/// A value before its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PcpNumber {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl PcpNumber {
    /// Converts it to `f64`; `NaN` if it is not finite.
    pub fn as_f64(self) -> f64 {
        match self {
            PcpNumber::Signed(v) => v as f64,
            PcpNumber::Unsigned(v) => v as f64,
            PcpNumber::Float(v) if v.is_finite() => v,
            PcpNumber::Float(_) => f64::NAN,
        }
    }

    /// Returns the growth of a counter since `before`. A 32-bit counter that went back by more than half its range has
    /// wrapped; any other that went back was reset, which is `None`.
    pub fn growth_since(self, before: PcpNumber, kind: PcpType) -> Option<f64> {
        let growth32 = |now: u32, then: u32| {
            let grown = now.wrapping_sub(then);
            (now >= then || grown < 1 << 31).then(|| f64::from(grown))
        };
        match (self, before, kind) {
            (PcpNumber::Signed(now), PcpNumber::Signed(then), PcpType::I32) => growth32(now as u32, then as u32),
            (PcpNumber::Unsigned(now), PcpNumber::Unsigned(then), PcpType::U32) => growth32(now as u32, then as u32),
            (PcpNumber::Signed(now), PcpNumber::Signed(then), _) => (now >= then).then(|| now.abs_diff(then) as f64),
            (PcpNumber::Unsigned(now), PcpNumber::Unsigned(then), _) => now.checked_sub(then).map(|d| d as f64),
            (now, then, _) => {
                let grown = now.as_f64() - then.as_f64();
                (grown >= 0.0).then_some(grown)
            }
        }
    }
}

/// Type of a metric's values (`PM_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PcpType {
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Text,
    /// Aggregates and events.
    Other,
}

impl PcpType {
    /// Returns the type of a `PM_TYPE_*` code.
    pub fn from_code(code: i32) -> PcpType {
        match code {
            0 => PcpType::I32,
            1 => PcpType::U32,
            2 => PcpType::I64,
            3 => PcpType::U64,
            4 => PcpType::F32,
            5 => PcpType::F64,
            6 => PcpType::Text,
            _ => PcpType::Other,
        }
    }

    /// Returns true for types of numbers.
    pub fn is_number(self) -> bool {
        !matches!(self, PcpType::Text | PcpType::Other)
    }
}

/// Reads a record: returns its time, and puts its sets into `sets`. `None` if its numbers contradict its length:
/// then none of it can be trusted.
pub(super) fn read_sets(body: &[u8], version: u8, sets: &mut Vec<ValueSet>) -> Option<i64> {
    sets.clear();
    let mut fields = BodyFields(body);
    let time_ns = fields.take_time(version)?;
    let metrics = fields.take_u32()?;
    for _ in 0..metrics {
        let (pmid, count) = (fields.take_u32()?, fields.take_i32()?);
        let mut set = ValueSet { pmid, count, has_offsets: false, values_offset: 0 };
        if count > 0 {
            set.has_offsets = fields.take_u32()? != 0;
            set.values_offset = body.len() - fields.0.len();
            fields.take_bytes((count as usize).checked_mul(8)?)?;
        }
        sets.push(set);
    }
    Some(time_ns)
}

impl ValueSet {
    /// Iterates over instance and word of each value: the word is the value itself, or its offset.
    pub fn read_values<'a>(&self, body: &'a [u8]) -> impl Iterator<Item = (u32, u32)> + 'a {
        let count = if self.count > 0 { self.count as usize } else { 0 };
        let bytes = body.get(self.values_offset..self.values_offset + 8 * count).unwrap_or_default();
        bytes.chunks_exact(8).map(|v| {
            let word = |index: usize| u32::from_be_bytes([v[index], v[index + 1], v[index + 2], v[index + 3]]);
            (word(0), word(4))
        })
    }

    /// Returns the number of a value's word; `None` if the record does not hold it.
    pub fn read_number(&self, body: &[u8], word: u32, kind: PcpType) -> Option<PcpNumber> {
        if !self.has_offsets {
            return Some(match kind {
                PcpType::I32 => PcpNumber::Signed(i64::from(word.cast_signed())),
                PcpType::U32 => PcpNumber::Unsigned(u64::from(word)),
                PcpType::F32 => PcpNumber::Float(f64::from(f32::from_bits(word))),
                _ => return None,
            });
        }
        let (code, bytes) = value_block(body, word)?;
        // loggers before PCP 2.0 left the type of 64-bit blocks 0, which means a 32-bit number
        let is_untyped = code == 0 && bytes.len() == 8 && matches!(kind, PcpType::I64 | PcpType::U64 | PcpType::F64);
        if PcpType::from_code(i32::from(code)) != kind && !is_untyped {
            return None;
        }
        let mut fields = BodyFields(bytes);
        Some(match kind {
            PcpType::I32 => PcpNumber::Signed(i64::from(fields.take_i32()?)),
            PcpType::U32 => PcpNumber::Unsigned(u64::from(fields.take_u32()?)),
            PcpType::I64 => PcpNumber::Signed(fields.take_i64()?),
            PcpType::U64 => PcpNumber::Unsigned(fields.take_i64()?.cast_unsigned()),
            PcpType::F32 => PcpNumber::Float(f64::from(f32::from_bits(fields.take_u32()?))),
            PcpType::F64 => PcpNumber::Float(f64::from_bits(fields.take_i64()?.cast_unsigned())),
            PcpType::Text | PcpType::Other => return None,
        })
    }

    /// Returns the text of a value's word.
    pub fn read_text<'a>(&self, body: &'a [u8], word: u32) -> Option<std::borrow::Cow<'a, str>> {
        let (code, bytes) = if self.has_offsets { value_block(body, word)? } else { return None };
        let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
        (PcpType::from_code(i32::from(code)) == PcpType::Text).then(|| String::from_utf8_lossy(bytes))
    }
}

/// Returns type and bytes of a value block.
fn value_block(body: &[u8], offset_words: u32) -> Option<(u8, &[u8])> {
    // the offset counts from two words before the record, whose length (one word) the body lacks
    let offset = (offset_words as usize).checked_mul(4)?.checked_sub(12)?;
    let mut fields = BodyFields(body.get(offset..)?);
    let head = fields.take_u32()?;
    let length = (head & 0x00ff_ffff) as usize;
    Some(((head >> 24) as u8, fields.take_bytes(length.checked_sub(4)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_by_their_type() {
        let u = PcpNumber::Unsigned;
        assert_eq!(u(5).growth_since(u(u64::from(u32::MAX)), PcpType::U32), Some(6.0));
        assert_eq!(u(5).growth_since(u(4000), PcpType::U32), None, "a wrap by nearly all of the range is a new start");
        assert_eq!(u(5).growth_since(u(u64::MAX), PcpType::U64), None);
        assert_eq!(u(u64::MAX).growth_since(u(u64::MAX - 3), PcpType::U64), Some(3.0));
        let s = PcpNumber::Signed;
        assert_eq!(s(i64::from(i32::MIN)).growth_since(s(i64::from(i32::MAX)), PcpType::I32), Some(1.0));
        assert_eq!(PcpNumber::Float(1.5).growth_since(PcpNumber::Float(1.0), PcpType::F64), Some(0.5));
        assert_eq!(PcpNumber::Float(1.0).growth_since(PcpNumber::Float(f64::NAN), PcpType::F64), None);
    }
}
