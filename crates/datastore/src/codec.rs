//! A block's numbers, small.

use diskwright_base::{Frame, Tick};

use crate::bits::{Cursor, put_varint, unzigzag, zigzag};

const CONSTANT: u8 = 0;
const WHOLE: u8 = 1;
const RAW: u8 = 2;

/// Appends the code of a frame's ticks and cells.
pub(crate) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let mut before = Tick::default();
    for tick in frame.ticks() {
        let wall = tick.time_ns.wrapping_sub(before.time_ns);
        put_varint(out, zigzag((tick.elapsed_ns as i64).wrapping_sub(before.elapsed_ns as i64)));
        put_varint(out, zigzag(wall.wrapping_sub(tick.elapsed_ns as i64)));
        before = *tick;
    }
    for column in 0..frame.schema().series.len() {
        encode_column(frame.column(column), out);
    }
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn whole(cell: f64) -> Option<i64> {
    let whole = cell as i64;
    (cell.to_bits() == (whole as f64).to_bits() && whole.unsigned_abs() < 1 << 53).then_some(whole)
}

fn encode_column(cells: &[f64], out: &mut Vec<u8>) {
    if cells.windows(2).all(|w| same(w[0], w[1])) {
        out.push(CONSTANT);
        out.extend_from_slice(&cells.first().unwrap_or(&0.0).to_bits().to_le_bytes());
    } else if cells.iter().all(|&c| whole(c).is_some()) {
        out.push(WHOLE);
        let mut before = 0;
        for cell in cells.iter().filter_map(|&c| whole(c)) {
            put_varint(out, zigzag(cell - before));
            before = cell;
        }
    } else {
        out.push(RAW);
        cells.iter().for_each(|c| out.extend_from_slice(&c.to_bits().to_le_bytes()));
    }
}

/// Fills the frame (whose schema and capacity are set) with `ticks` ticks.
/// `None` where the code is not one that `encode` makes.
pub(crate) fn decode(code: &[u8], ticks: usize, frame: &mut Frame) -> Option<()> {
    let mut cursor = Cursor::new(code);
    let mut before = Tick::default();
    let mut times = Vec::with_capacity(ticks);
    for _ in 0..ticks {
        let elapsed = (before.elapsed_ns as i64).wrapping_add(unzigzag(cursor.varint()?));
        let wall = unzigzag(cursor.varint()?).wrapping_add(elapsed);
        before = Tick { time_ns: before.time_ns.wrapping_add(wall), elapsed_ns: elapsed as u64 };
        times.push(before);
    }
    frame.set_ticks(&times);
    for column in 0..frame.schema().series.len() {
        decode_column(&mut cursor, frame.column_mut(column))?;
    }
    cursor.is_empty().then_some(())
}

fn decode_column(cursor: &mut Cursor, cells: &mut [f64]) -> Option<()> {
    match cursor.byte()? {
        CONSTANT => cells.fill(f64::from_bits(cursor.u64()?)),
        WHOLE => {
            let mut before = 0i64;
            for cell in cells {
                before = before.wrapping_add(unzigzag(cursor.varint()?));
                *cell = before as f64;
            }
        }
        RAW => {
            for cell in cells {
                *cell = f64::from_bits(cursor.u64()?);
            }
        }
        _ => return None,
    }
    Some(())
}
