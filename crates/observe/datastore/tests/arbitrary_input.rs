//! Any cells are read back exactly, and any bytes can be opened.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use crate::common::{LogContents, TempDir, cell_bits, options, push_ticks, schema};
use crate::sweep::sweep;
use diskwright_base::{Frame, Note, Schema, Series, Tick};
use diskwright_datastore::{LogItem, LogReader, LogWriter};
use proptest::prelude::*;

/// Generates a column of one of several kinds, for 60 ticks.
fn column_strategy() -> impl Strategy<Value = Vec<f64>> {
    const TICKS: usize = 60;
    let gaps = proptest::collection::vec(prop::bool::weighted(0.2), TICKS);
    let any_bits = any::<u64>().prop_map(f64::from_bits);
    let odd = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::NAN),
        Just(5e-324),
        Just(9007199254740993.0),
        Just(-9007199254740992.0),
        Just(1.8446744073709552e19),
        Just(0.1),
    ];
    let cells = prop_oneof![
        any_bits.clone().prop_map(|cell| vec![cell; TICKS]),
        proptest::collection::vec(0..40u32, TICKS).prop_map(|c| c.into_iter().map(f64::from).collect()),
        proptest::collection::vec(prop::bool::weighted(0.05), TICKS)
            .prop_map(|c| c.into_iter().map(|b| f64::from(u8::from(b)) * 4096.0).collect()),
        proptest::collection::vec(-1_000_000_000..1_000_000_000i64, TICKS)
            .prop_map(|c| c.into_iter().map(|v| v as f64).collect()),
        proptest::collection::vec(any::<i64>(), TICKS).prop_map(|c| c.into_iter().map(|v| v as f64).collect()),
        proptest::collection::vec(-9999..9999i32, TICKS)
            .prop_map(|c| c.into_iter().map(|v| f64::from(v) / 100.0).collect()),
        proptest::collection::vec(any::<f32>(), TICKS).prop_map(|c| c.into_iter().map(f64::from).collect()),
        proptest::collection::vec(any_bits, TICKS),
        proptest::collection::vec(odd, TICKS),
    ];
    (cells, gaps, prop::bool::ANY).prop_map(|(mut cells, gaps, with_gaps)| {
        for (cell, gap) in cells.iter_mut().zip(gaps) {
            if gap && with_gaps {
                *cell = f64::NAN;
            }
        }
        cells
    })
}

fn times_strategy() -> impl Strategy<Value = Vec<Tick>> {
    let step = prop_oneof![
        5 => (999_990_000..1_000_010_000i64).prop_map(|ns| (ns, ns as u64 + 77)),
        1 => (any::<i64>(), any::<u64>()),
        1 => (-5_000_000_000..5_000_000_000i64).prop_map(|ns| (ns, 1_000_000_000)),
    ];
    (any::<i64>(), proptest::collection::vec(step, 60)).prop_map(|(start, steps)| {
        let mut time_ns = start;
        let mut next = |(step, elapsed_ns): (i64, u64)| {
            time_ns = time_ns.wrapping_add(step);
            Tick { time_ns, elapsed_ns }
        };
        steps.into_iter().map(&mut next).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pushed_ticks_and_notes_round_trip(
        columns in proptest::collection::vec(column_strategy(), 1..10),
        times in times_strategy(),
        block in 1..50usize,
        count in 1..60usize,
        close in any::<bool>(),
    ) {
        let dir = TempDir::new();
        let series = |i| Series { counter: format!("a.{i}"), instance: String::new(), scale: 0.01 };
        let schema = Arc::new(Schema::new((0..columns.len()).map(series).collect()));
        let mut writer = LogWriter::create_or_append(&dir.0, options(block)).expect("new log");
        let row = |t: usize| columns.iter().map(|c| c[t]).collect::<Vec<f64>>();
        for (t, tick) in times.iter().enumerate().take(count) {
            writer.push(&schema, *tick, &row(t)).expect("writable");
        }
        if close {
            writer.close().expect("writable");
        }
        let seen = LogContents::read_log(&dir.0);
        prop_assert_eq!(&seen.damages, &vec![]);
        prop_assert_eq!(&seen.ticks[..], &times[..count]);
        for (t, cells) in seen.rows.iter().enumerate() {
            let expected: Vec<u64> = row(t).into_iter().map(cell_bits).collect();
            prop_assert_eq!(cells, &expected, "tick {}", t);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        read_through(bytes);
    }
}

fn read_through(bytes: Vec<u8>) {
    let Ok(mut reader) = LogReader::from_bytes(bytes, Path::new("made up")) else { return };
    let mut frame = Frame::default();
    while let Ok(Some(item)) = reader.next(&mut frame) {
        if item == LogItem::Frame {
            assert!(frame.ticks().len() * frame.schema().series.len() <= 1 << 20);
        }
    }
}

/// Payloads changed at random but with valid checksums must be rejected or read,
/// without a panic.
#[test]
fn invalid_payloads_with_valid_checksums_do_not_panic_the_reader() {
    let dir = TempDir::new();
    let mut writer = LogWriter::create_or_append(&dir.0, options(20)).expect("new log");
    writer.add_note(&Note::new(5, Note::TOPOLOGY, "{}")).expect("writable");
    push_ticks(&mut writer, &schema(12), 0..50);
    let tail = std::fs::read(dir.0.join("tail")).expect("ticks are held");
    writer.close().expect("writable");
    let segment = std::fs::read(dir.0.join("00000001.dwlog")).expect("written");
    let mut random = 12345u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % below
    };
    for _ in sweep(20_000, 4000) {
        let mut bytes = if next(4) == 0 { tail.clone() } else { segment.clone() };
        for _ in 0..1 + next(3) {
            let index = next(bytes.len());
            bytes[index] = next(256) as u8;
        }
        fix_checksums(&mut bytes, &segment, &tail);
        read_through(bytes);
    }
}

/// Corrects the checksums of every record; the records have the positions of the original.
fn fix_checksums(bytes: &mut [u8], segment: &[u8], tail: &[u8]) {
    let original = if bytes.len() == segment.len() { segment } else { tail };
    let mut position = 0;
    while position < bytes.len() {
        let length =
            u32::from_le_bytes([original[position + 5], original[position + 6], original[position + 7], 0]) as usize;
        let crc = crc32fast::hash(&bytes[position + 16..position + 16 + length]);
        bytes[position..position + 4].copy_from_slice(&original[position..position + 4]);
        bytes[position + 5..position + 8].copy_from_slice(&original[position + 5..position + 8]);
        bytes[position + 8..position + 12].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[position..position + 12]);
        bytes[position + 12..position + 16].copy_from_slice(&crc.to_le_bytes());
        position += 16 + length;
    }
}
