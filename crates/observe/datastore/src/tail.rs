//! Encoding of the tail: one record per tick, until a block contains the ticks.
//!
//! A tick's payload: number u64, wall time i64, elapsed u64, schema id u64,
//! columns u32, a bit a column (1: the cell is not 0), then the cells that are
//! not 0. A cell is a varint: 0 a gap, 1 eight raw bytes follow, else the
//! whole number's zigzag form plus 1.
//! Each tick is encoded independently, so damage to one does not affect others.

use diskwright_base::Tick;

use crate::format::{MAX_SERIES, TICK_KIND, close_record, open_record, u32_at, u64_at};
use crate::varint::{ByteCursor, put_varint, unzigzag, zigzag};

const TICK_HEAD_BYTES: usize = 8 * 4 + 4;

/// Appends a tick as a record.
pub(crate) fn write_tick(out: &mut Vec<u8>, number: u64, schema: u64, tick: &Tick, row: &[f64]) -> bool {
    let start = open_record(out);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&tick.time_ns.to_le_bytes());
    out.extend_from_slice(&tick.elapsed_ns.to_le_bytes());
    out.extend_from_slice(&schema.to_le_bytes());
    out.extend_from_slice(&(row.len() as u32).to_le_bytes());
    for eight in row.chunks(8) {
        let bit = |(i, cell): (usize, &f64)| u8::from(cell.to_bits() != 0) << i;
        out.push(eight.iter().enumerate().map(bit).sum());
    }
    for &cell in row.iter().filter(|cell| cell.to_bits() != 0) {
        let integer = cell as i64;
        if cell.is_nan() {
            out.push(0);
        } else if integer != 0 && integer.unsigned_abs() < 1 << 53 && integer as f64 == cell {
            put_varint(out, zigzag(integer) + 1);
        } else {
            out.push(1);
            out.extend_from_slice(&cell.to_bits().to_le_bytes());
        }
    }
    close_record(out, start, TICK_KIND)
}

/// A tick read from the tail, without its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailTick {
    pub number: u64,
    pub schema_id: u64,
    pub columns: usize,
    pub tick: Tick,
}

/// Parses a tick's payload; the cells go to `row`.
pub(crate) fn parse_tick(payload: &[u8], row: &mut Vec<f64>) -> Option<TailTick> {
    let tick = Tick { time_ns: u64_at(payload, 8)? as i64, elapsed_ns: u64_at(payload, 16)? };
    let columns = u32_at(payload, 32)? as usize;
    let head = TailTick { number: u64_at(payload, 0)?, schema_id: u64_at(payload, 24)?, columns, tick };
    if columns > MAX_SERIES {
        return None;
    }
    let mut cursor = ByteCursor::new(payload.get(TICK_HEAD_BYTES..)?);
    let mask = cursor.read_bytes(columns.div_ceil(8))?;
    row.clear();
    for column in 0..columns {
        let is_nonzero = mask[column / 8] >> (column % 8) & 1 == 1;
        row.push(if is_nonzero { read_cell(&mut cursor)? } else { 0.0 });
    }
    cursor.is_empty().then_some(head)
}

fn read_cell(cursor: &mut ByteCursor) -> Option<f64> {
    Some(match cursor.read_varint()? {
        0 => f64::NAN,
        1 => f64::from_bits(cursor.read_u64()?),
        code => unzigzag(code - 1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_BYTES;

    #[test]
    fn any_cell_round_trips() {
        let cells = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, 1e300];
        let mut cells = cells.to_vec();
        cells.extend([9007199254740991.0, 9007199254740992.0, -9007199254740993.0, 1.8446744073709552e19, f64::NAN]);
        let tick = Tick { time_ns: -5, elapsed_ns: u64::MAX };
        let mut record = Vec::new();
        assert!(write_tick(&mut record, 3, 4, &tick, &cells));
        let mut row = Vec::new();
        assert_eq!(
            parse_tick(&record[HEADER_BYTES..], &mut row),
            Some(TailTick { number: 3, schema_id: 4, columns: 15, tick })
        );
        assert!(row.pop().is_some_and(f64::is_nan));
        let bits = |cells: &[f64]| cells.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&row), bits(&cells[..row.len()]));
        assert_eq!(parse_tick(&record[HEADER_BYTES..record.len() - 1], &mut row), None);
    }
}
