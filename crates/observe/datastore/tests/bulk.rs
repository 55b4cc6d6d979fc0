//! Bulk imports: frames are read back exactly, whatever their size and their times, and
//! also after an interrupted import.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use crate::common::{LogContents, SECOND, TempDir, cell_bits, options, push_ticks, row, schema, tick, tick_numbers};
use diskwright_base::{Frame, Note, Schema, Series, Tick};
use diskwright_datastore::{LogItem, LogReader, LogWriter, Loss, WriterOptions, is_log};
use proptest::prelude::*;

fn bulk_writer(block_ticks: usize) -> WriterOptions {
    WriterOptions { block_ticks, ..WriterOptions::for_bulk_import() }
}

/// A frame of the ticks and rows that `common` generates for these numbers.
fn numbered_frame(schema: &Arc<Schema>, ticks: std::ops::Range<u64>) -> Frame {
    let mut frame = Frame::new(schema.clone(), (ticks.end - ticks.start) as usize);
    for i in ticks {
        frame.push(tick(i), &row(i, schema.series.len()));
    }
    frame
}

#[test]
fn frames_of_any_size_come_back_in_order() {
    for block in [1, 7, 10, 64, 1024] {
        let dir = TempDir::new();
        let schema = schema(9);
        let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(block)).expect("new log");
        writer.add_note(&Note::new(999 * SECOND, Note::TOPOLOGY, "{}")).expect("writable");
        let mut from = 0;
        for length in [3, 10, 1, 1, 300, 5, 0, 2000, 4] {
            writer.push_frame(&numbered_frame(&schema, from..from + length)).expect("writable");
            from += length;
        }
        push_ticks(&mut writer, &schema, from..from + 20);
        writer.add_note(&Note::new(999 * SECOND, Note::CLOCK, "slept")).expect("writable");
        writer.close().expect("writable");
        let seen = LogContents::read_log(&dir.0);
        assert_eq!(seen.checked_numbers(), tick_numbers(0..from + 20), "blocks of {block}");
        assert_eq!(seen.note_texts(), ["{}", "slept"]);
        assert_eq!(seen.damages, []);
        assert!(!dir.0.join("tail").exists());
    }
}

#[test]
fn notes_alone_are_kept() {
    let dir = TempDir::new();
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(10)).expect("new log");
    writer.push_frame(&numbered_frame(&schema, 0..4)).expect("writable");
    writer.close().expect("writable");
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(10)).expect("the log");
    writer.add_note(&Note::new(1003 * SECOND, Note::WARNING, "nothing more came")).expect("writable");
    writer.close().expect("writable");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!((seen.checked_numbers(), seen.note_texts()), (tick_numbers(0..4), vec!["nothing more came"]));
    assert_eq!(seen.damages, []);
}

#[test]
fn schemas_may_change_from_frame_to_frame() {
    let dir = TempDir::new();
    let (narrow, wide) = (schema(5), schema(8));
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(50)).expect("new log");
    for (some, schema) in [(0..4, &narrow), (4..9, &wide), (9..10, &narrow), (10..70, &wide), (70..200, &narrow)] {
        writer.push_frame(&numbered_frame(schema, some)).expect("writable");
    }
    writer.close().expect("writable");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..200));
    assert_eq!((seen.rows[3].len(), seen.rows[4].len(), seen.rows[9].len()), (5, 8, 5));
    assert_eq!(seen.damages, []);
}

#[test]
fn any_writer_takes_frames() {
    let dir = TempDir::new();
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    writer.push_frame(&numbered_frame(&schema, 0..25)).expect("writable");
    assert_eq!(LogContents::read_log(&dir.0).checked_numbers(), tick_numbers(0..25), "the tail has the last five");
    drop(writer);
    assert_eq!(LogContents::read_log(&dir.0).checked_numbers(), tick_numbers(0..25));
}

#[test]
fn times_that_fall_or_repeat_are_kept_and_found() {
    for in_frames in [true, false] {
        for options in [bulk_writer(100), options(100)] {
            let dir = TempDir::new();
            let schema = schema(1);
            let times = [5, 6, 7, 7, 7, 3, 4, 8, 8, 1, 0, 9, 2];
            let mut writer = LogWriter::create_or_append(&dir.0, options).expect("new log");
            let mut frame = Frame::new(schema.clone(), times.len());
            for (index, time) in times.iter().enumerate() {
                let tick = Tick { time_ns: time * SECOND, elapsed_ns: 0 };
                match in_frames {
                    true => frame.push(tick, &[index as f64]),
                    false => drop(writer.push(&schema, tick, &[index as f64]).expect("writable")),
                }
            }
            writer.push_frame(&frame).expect("writable");
            writer.close().expect("writable");
            let seen = LogContents::read_log(&dir.0);
            let cells: Vec<u64> = seen.rows.iter().map(|row| f64::from_bits(row[0]) as u64).collect();
            assert_eq!(cells, tick_numbers(0..13), "in the order of coming");
            assert_eq!(seen.ticks.iter().map(|t| t.time_ns / SECOND).collect::<Vec<_>>(), times);
            assert_eq!(seen.damages, []);
            let mut reader = LogReader::open(&dir.0).expect("a log");
            assert_eq!(reader.time_range().expect("readable"), Some((0, 9 * SECOND)));
            reader.set_window(3 * SECOND, 7 * SECOND);
            let found: Vec<i64> =
                LogContents::read_from(&mut reader).ticks.iter().map(|t| t.time_ns / SECOND).collect();
            assert_eq!(found, [5, 6, 7, 7, 7, 3, 4]);
        }
    }
}

#[test]
fn an_import_cut_off_anywhere_leaves_a_log() {
    let dir = TempDir::new();
    let schema = schema(6);
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(10)).expect("new log");
    writer.push_frame(&numbered_frame(&schema, 0..54)).expect("writable");
    // As if its process died: nothing is closed, nothing is flushed.
    std::mem::forget(writer);
    let path = dir.0.join("00000001.dwlog");
    let segment_bytes = std::fs::read(&path).expect("a segment");
    assert!(is_log(&dir.0));
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..50));
    assert_eq!(seen.damages.iter().map(|d| d.loss).collect::<Vec<_>>(), [Loss::Unclosed]);
    let mut max_ticks = 0;
    for cut in 100..=segment_bytes.len() {
        std::fs::write(&path, &segment_bytes[..cut]).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        let found = seen.checked_numbers();
        assert_eq!(found, tick_numbers(0..found.len() as u64), "cut at {cut}");
        assert!(found.len() >= max_ticks && found.len().is_multiple_of(10));
        assert!(matches!(seen.damages.as_slice(), [d] if [Loss::Unfinished, Loss::Unclosed].contains(&d.loss)));
        max_ticks = found.len();
    }
    assert_eq!(max_ticks, 50);
}

#[test]
fn an_import_goes_on_where_a_recorder_was_killed() {
    let dir = TempDir::new();
    let schema = schema(4);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    push_ticks(&mut writer, &schema, 0..15);
    std::mem::forget(writer);
    // This process still holds the lock, which a killed one would not.
    std::fs::remove_file(dir.0.join("lock")).expect("a lock");
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(10)).expect("a log");
    writer.push_frame(&numbered_frame(&schema, 15..40)).expect("writable");
    writer.flush().expect("writable");
    writer.close().expect("writable");
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("a log");
    push_ticks(&mut writer, &schema, 40..44);
    drop(writer);
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..44));
    assert_eq!(seen.damages, []);
}

#[test]
fn a_flipped_bit_loses_only_its_block_and_is_reported() {
    let dir = TempDir::new();
    let schema = schema(6);
    let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(10)).expect("new log");
    writer.push_frame(&numbered_frame(&schema, 0..50)).expect("writable");
    writer.close().expect("writable");
    let path = dir.0.join("00000001.dwlog");
    let segment_bytes = std::fs::read(&path).expect("a segment");
    for index in (300..segment_bytes.len()).step_by(7) {
        let mut flipped = segment_bytes.clone();
        flipped[index] ^= 1 << (index % 8);
        std::fs::write(&path, &flipped).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        assert!(seen.checked_numbers().len() >= 40 && !seen.damages.is_empty(), "byte {index}");
    }
}

/// Cells of every kind that a column may have.
fn cells(sort: u32, count: usize) -> BoxedStrategy<Vec<f64>> {
    let odd = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::NAN),
        Just(5e-324),
        Just(f64::MIN_POSITIVE / 3.0),
        Just(-2251799813685248.0),
        Just(2251799813685247.0),
        Just(9007199254740993.0),
        Just(f64::MAX),
        Just(0.1),
    ];
    let many = |cell: BoxedStrategy<f64>| proptest::collection::vec(cell, count).boxed();
    let or = |cell: BoxedStrategy<f64>, other: f64| prop_oneof![5 => cell, 1 => Just(other)].boxed();
    let noise = (0.0..1e6f64).boxed();
    match sort {
        0 => many(odd.boxed()),
        1 => many(any::<u64>().prop_map(f64::from_bits).boxed()),
        2 => many(noise),
        3 => many(or(noise, 0.0)),
        4 => many(or(noise, f64::NAN)),
        5 => many(or((-50..50i32).prop_map(f64::from).boxed(), f64::NAN)),
        6 => many((-9_999_999..9_999_999i64).prop_map(|v| v as f64 / 1000.0).boxed()),
        7 => many(or(Just(1234.5678f64).boxed(), f64::NAN)),
        8 => many(any::<i64>().prop_map(|v| v as f64).boxed()),
        9 => many(any::<f32>().prop_map(f64::from).boxed()),
        10 => any::<u64>().prop_map(move |cell| vec![f64::from_bits(cell); count]).boxed(),
        _ => many(or(or(Just(0.0).boxed(), 17.25), -0.0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_frame_round_trips_exactly(
        columns in proptest::collection::vec((0..12u32).prop_flat_map(|sort| cells(sort, 300)), 1..12),
        count in 1..300usize,
        block in prop_oneof![Just(1024usize), 1..400usize],
        steps in proptest::collection::vec((-3..100i64, any::<u64>()), 300),
        start in any::<i64>(),
    ) {
        let dir = TempDir::new();
        let series = |i| Series { counter: format!("foreign.{i}"), instance: "x".into(), scale: 0.01 };
        let schema = Arc::new(Schema::new((0..columns.len()).map(series).collect()));
        let mut frame = Frame::new(schema.clone(), 300);
        let mut time_ns = start;
        for (index, (step, elapsed_ns)) in steps.iter().enumerate().take(count) {
            time_ns = time_ns.wrapping_add(*step * 1_000_001);
            let row: Vec<f64> = columns.iter().map(|column| column[index]).collect();
            frame.push(Tick { time_ns, elapsed_ns: *elapsed_ns }, &row);
        }
        let mut writer = LogWriter::create_or_append(&dir.0, bulk_writer(block)).expect("new log");
        writer.push_frame(&frame).expect("writable");
        writer.close().expect("writable");
        let seen = LogContents::read_log(&dir.0);
        prop_assert_eq!(&seen.damages, &[]);
        prop_assert_eq!(&seen.ticks, frame.ticks());
        for (index, row) in seen.rows.iter().enumerate() {
            let expected: Vec<u64> = columns.iter().map(|column| cell_bits(column[index])).collect();
            prop_assert_eq!(row, &expected, "tick {}", index);
        }
    }
}

#[test]
fn memory_is_bounded_with_a_hundred_thousand_series() {
    let dir = TempDir::new();
    let wide = schema(100_000);
    let mut writer = LogWriter::create_or_append(&dir.0, WriterOptions::for_bulk_import()).expect("new log");
    let ticks = writer.frame_ticks(100_000);
    assert!(ticks >= 8 && ticks * 100_000 <= 1 << 20, "{ticks}");
    let mut row = vec![0.5; 100_000];
    for i in 0..25 {
        row[i as usize * 7] = i as f64;
        writer.push(&wide, tick(i), &row).expect("writable");
    }
    writer.close().expect("writable");
    let mut reader = LogReader::open(&dir.0).expect("a log");
    let mut back = Frame::default();
    let mut count = 0;
    while let Some(item) = reader.next(&mut back).expect("readable") {
        assert_eq!(item, LogItem::Frame);
        assert!(back.ticks().len() <= ticks);
        for index in 0..back.ticks().len() {
            assert_eq!(back.column((count + index) * 7)[index], (count + index) as f64);
        }
        count += back.ticks().len();
    }
    assert_eq!(count, 25);
}
