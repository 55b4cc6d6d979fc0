//! The records of a volume: a time and value sets, one a metric.
//!
//! Two things the manual leaves out and real files show: a set without values
//! has no format word, and the offset of a value block counts 32-bit words
//! from two words before the record.

use super::records::Fields;

/// One metric's values in a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueSet {
    pub pmid: u32,
    /// Values, or a negative error code of the logger.
    pub count: i32,
    /// True where values stand elsewhere in the record.
    pub by_offset: bool,
    /// Where the values begin in the body.
    pub from: usize,
}

/// A value before its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Signed(v) => v as f64,
            Number::Unsigned(v) => v as f64,
            Number::Float(v) if v.is_finite() => v,
            Number::Float(_) => f64::NAN,
        }
    }

    /// What a counter grew by since `before`. A 32-bit counter that went back
    /// by more than half its range has wrapped; any other that went back
    /// began anew, which is `None`.
    pub fn grown(self, before: Number, kind: Kind) -> Option<f64> {
        let wrapped = |now: u32, then: u32| {
            let grown = now.wrapping_sub(then);
            (now >= then || grown < 1 << 31).then(|| f64::from(grown))
        };
        match (self, before, kind) {
            (Number::Signed(now), Number::Signed(then), Kind::I32) => wrapped(now as u32, then as u32),
            (Number::Unsigned(now), Number::Unsigned(then), Kind::U32) => wrapped(now as u32, then as u32),
            (Number::Signed(now), Number::Signed(then), _) => (now >= then).then(|| now.abs_diff(then) as f64),
            (Number::Unsigned(now), Number::Unsigned(then), _) => now.checked_sub(then).map(|d| d as f64),
            (now, then, _) => {
                let grown = now.as_f64() - then.as_f64();
                (grown >= 0.0).then_some(grown)
            }
        }
    }
}

/// Type of a metric's values (`PM_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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

impl Kind {
    pub fn of(code: i32) -> Kind {
        match code {
            0 => Kind::I32,
            1 => Kind::U32,
            2 => Kind::I64,
            3 => Kind::U64,
            4 => Kind::F32,
            5 => Kind::F64,
            6 => Kind::Text,
            _ => Kind::Other,
        }
    }

    pub fn is_number(self) -> bool {
        !matches!(self, Kind::Text | Kind::Other)
    }
}

/// A record: its time and its sets. `None` where its numbers contradict its
/// length; nothing of it can be trusted then.
pub(super) fn sets(body: &[u8], version: u8, into: &mut Vec<ValueSet>) -> Option<i64> {
    into.clear();
    let mut fields = Fields(body);
    let time_ns = fields.time(version)?;
    let metrics = fields.u32()?;
    for _ in 0..metrics {
        let (pmid, count) = (fields.u32()?, fields.i32()?);
        let mut set = ValueSet { pmid, count, by_offset: false, from: 0 };
        if count > 0 {
            set.by_offset = fields.u32()? != 0;
            set.from = body.len() - fields.0.len();
            fields.bytes((count as usize).checked_mul(8)?)?;
        }
        into.push(set);
    }
    Some(time_ns)
}

impl ValueSet {
    /// Instance and place of each value: the value itself, or its offset.
    pub fn values<'a>(&self, body: &'a [u8]) -> impl Iterator<Item = (u32, u32)> + 'a {
        let count = if self.count > 0 { self.count as usize } else { 0 };
        let all = body.get(self.from..self.from + 8 * count).unwrap_or_default();
        all.chunks_exact(8).map(|v| {
            let word = |at: usize| u32::from_be_bytes([v[at], v[at + 1], v[at + 2], v[at + 3]]);
            (word(0), word(4))
        })
    }

    /// The number at a place; `None` where the record does not hold it.
    pub fn number(&self, body: &[u8], place: u32, kind: Kind) -> Option<Number> {
        if !self.by_offset {
            return Some(match kind {
                Kind::I32 => Number::Signed(i64::from(place.cast_signed())),
                Kind::U32 => Number::Unsigned(u64::from(place)),
                Kind::F32 => Number::Float(f64::from(f32::from_bits(place))),
                _ => return None,
            });
        }
        let (code, bytes) = block(body, place)?;
        if Kind::of(i32::from(code)) != kind {
            return None;
        }
        let mut fields = Fields(bytes);
        Some(match kind {
            Kind::I32 => Number::Signed(i64::from(fields.i32()?)),
            Kind::U32 => Number::Unsigned(u64::from(fields.u32()?)),
            Kind::I64 => Number::Signed(fields.i64()?),
            Kind::U64 => Number::Unsigned(fields.i64()?.cast_unsigned()),
            Kind::F32 => Number::Float(f64::from(f32::from_bits(fields.u32()?))),
            Kind::F64 => Number::Float(f64::from_bits(fields.i64()?.cast_unsigned())),
            Kind::Text | Kind::Other => return None,
        })
    }

    /// The text at a place.
    pub fn text<'a>(&self, body: &'a [u8], place: u32) -> Option<std::borrow::Cow<'a, str>> {
        let (code, bytes) = if self.by_offset { block(body, place)? } else { return None };
        let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
        (Kind::of(i32::from(code)) == Kind::Text).then(|| String::from_utf8_lossy(bytes))
    }
}

/// Type and bytes of a value block.
fn block(body: &[u8], place: u32) -> Option<(u8, &[u8])> {
    // two words before the record, whose own length the body lacks
    let from = (place as usize).checked_mul(4)?.checked_sub(12)?;
    let mut fields = Fields(body.get(from..)?);
    let head = fields.u32()?;
    let length = (head & 0x00ff_ffff) as usize;
    Some(((head >> 24) as u8, fields.bytes(length.checked_sub(4)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_by_their_type() {
        let u = Number::Unsigned;
        assert_eq!(u(5).grown(u(u64::from(u32::MAX)), Kind::U32), Some(6.0));
        assert_eq!(u(5).grown(u(4000), Kind::U32), None, "a wrap by nearly all of the range is a new start");
        assert_eq!(u(5).grown(u(u64::MAX), Kind::U64), None);
        assert_eq!(u(u64::MAX).grown(u(u64::MAX - 3), Kind::U64), Some(3.0));
        let s = Number::Signed;
        assert_eq!(s(i64::from(i32::MIN)).grown(s(i64::from(i32::MAX)), Kind::I32), Some(1.0));
        assert_eq!(Number::Float(1.5).grown(Number::Float(1.0), Kind::F64), Some(0.5));
        assert_eq!(Number::Float(1.0).grown(Number::Float(f64::NAN), Kind::F64), None);
    }
}
