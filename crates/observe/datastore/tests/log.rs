//! Written ticks and notes are read back: over schemas, segments, windows and restarts,
//! and while a recorder writes.
#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{LogContents, SECOND, TempDir, cell_bits, options, push_ticks, row, schema, tick, tick_numbers};
use diskwright_base::{Note, Schema, Series, Tick};
use diskwright_datastore::{
    LogEnd, LogPosition, LogReader, LogWriter, StoreError, WriterOptions, add_bookmark, find_log_device, is_log,
};

#[test]
fn ticks_and_notes_round_trip_in_order() {
    let dir = TempDir::new();
    let schema = schema(9);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    writer.add_note(&Note::new(999 * SECOND, Note::TOPOLOGY, "{}")).expect("writable");
    push_ticks(&mut writer, &schema, 0..15);
    writer.add_note(&Note::new(1014 * SECOND, Note::CLOCK, "slept")).expect("writable");
    push_ticks(&mut writer, &schema, 15..35);
    writer.close().expect("writable");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..35));
    assert_eq!(seen.note_texts(), ["{}", "slept"]);
    assert_eq!(seen.damages, []);
    assert!(is_log(&dir.0) && is_log(&dir.0.join("00000001.dwlog")));
    let range = LogReader::open(&dir.0).expect("a log").time_range().expect("readable");
    assert_eq!(range, Some((1000 * SECOND, 1034 * SECOND)));
}

#[test]
fn a_reader_beside_a_live_recorder_sees_every_tick_pushed() {
    let dir = TempDir::new();
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    for i in 0..45 {
        push_ticks(&mut writer, &schema, i..i + 1);
        let seen = LogContents::read_log(&dir.0);
        assert_eq!(seen.checked_numbers(), tick_numbers(0..i + 1));
        assert_eq!(seen.damages, [], "after tick {i}");
        let range = LogReader::open(&dir.0).expect("a log").time_range().expect("readable");
        assert_eq!(range, Some((tick(0).time_ns, tick(i).time_ns)));
    }
}

#[test]
fn a_reader_follows_what_moves_from_tail_to_block_while_it_reads() {
    let dir = TempDir::new();
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    push_ticks(&mut writer, &schema, 0..15);
    let mut reader = LogReader::open(&dir.0).expect("a log");
    let mut frame = diskwright_base::Frame::default();
    assert_eq!(reader.next(&mut frame).expect("readable"), Some(diskwright_datastore::LogItem::Frame));
    assert_eq!(frame.ticks().len(), 10);
    push_ticks(&mut writer, &schema, 15..27);
    let rest = LogContents::read_from(&mut reader);
    assert_eq!(rest.checked_numbers(), tick_numbers(10..27));
    assert_eq!(rest.damages, []);
}

#[test]
fn windows_contain_their_ticks_and_earlier_notes_that_describe_the_machine() {
    let dir = TempDir::new();
    let schema = schema(2);
    let span = Duration::from_secs(20);
    let mut writer =
        LogWriter::create_or_append(&dir.0, WriterOptions { segment_span: span, ..options(8) }).expect("new log");
    writer.add_note(&Note::new(999 * SECOND, Note::TOPOLOGY, "first")).expect("writable");
    writer.add_note(&Note::new(999 * SECOND, Note::UNSEEN, "no pressure")).expect("writable");
    push_ticks(&mut writer, &schema, 0..30);
    writer.add_note(&Note::new(1029 * SECOND, Note::TOPOLOGY, "second")).expect("writable");
    add_bookmark(&dir.0, &Note::new(1031 * SECOND, Note::BOOKMARK, "early")).expect("writable");
    add_bookmark(&dir.0, &Note::new(1055 * SECOND, Note::BOOKMARK, "within")).expect("writable");
    push_ticks(&mut writer, &schema, 30..100);
    for live in [true, false] {
        let mut reader = LogReader::open(&dir.0).expect("a log");
        reader.set_window(1050 * SECOND, 1060 * SECOND + 5);
        let seen = LogContents::read_from(&mut reader);
        assert_eq!(seen.checked_numbers(), tick_numbers(50..61));
        assert_eq!(seen.note_texts(), ["no pressure", "second", "within"]);
        assert_eq!(seen.damages, [], "live {live}");
        let mut reader = LogReader::open(&dir.0).expect("a log");
        reader.set_window(1095 * SECOND, i64::MAX);
        assert_eq!(LogContents::read_from(&mut reader).checked_numbers(), tick_numbers(95..100));
        if live {
            writer.flush().expect("writable");
        }
    }
    let files = std::fs::read_dir(&dir.0).expect("a directory").count();
    assert!(files > 5, "{files} files");
}

#[test]
fn a_changed_schema_starts_a_block_and_round_trips() {
    let dir = TempDir::new();
    let (narrow, wide) = (schema(2), schema(40));
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    push_ticks(&mut writer, &narrow, 0..4);
    push_ticks(&mut writer, &wide, 4..18);
    push_ticks(&mut writer, &narrow, 18..21);
    let live = LogContents::read_log(&dir.0);
    writer.close().expect("writable");
    for seen in [live, LogContents::read_log(&dir.0)] {
        assert_eq!(seen.checked_numbers(), tick_numbers(0..21));
        let widths: Vec<usize> = seen.rows.iter().map(Vec::len).collect();
        assert_eq!((widths[3], widths[4], widths[17], widths[18]), (2, 40, 40, 2));
        assert_eq!(seen.damages, []);
    }
}

/// Devices 0 to 9 and those of `some` beyond.
fn schema_with_devices(some: &[u64]) -> Arc<Schema> {
    let one = |i: u64| Series { counter: "physical_disk.reads".into(), instance: format!("sd{i}"), scale: 1.0 };
    Arc::new(Schema::new((0..10).chain(some.iter().copied()).map(one).collect()))
}

#[test]
fn devices_that_come_and_go_do_not_end_a_block() {
    let dir = TempDir::new();
    let mut writer = LogWriter::create_or_append(&dir.0, options(100)).expect("new log");
    let mut pushed = Vec::new();
    for i in 0..400u64 {
        let schema = match i / 9 % 5 {
            0 => schema_with_devices(&[]),
            1 => schema_with_devices(&[20 + i / 45]),
            2 => schema_with_devices(&[20 + i / 45, 21]),
            3 => schema_with_devices(&[3, 21]),
            _ => schema_with_devices(&[50, 20]),
        };
        let row = row(i, schema.series.len());
        writer.push(&schema, tick(i), &row).expect("writable");
        pushed.push((schema, row.into_iter().map(cell_bits).collect::<Vec<_>>()));
        if i == 250 {
            // As after a kill.
            std::mem::forget(writer);
            replace_lock_file(&dir);
            writer = LogWriter::create_or_append(&dir.0, options(100)).expect("a log");
        }
    }
    let live = LogContents::read_log(&dir.0);
    writer.close().expect("writable");
    for seen in [live, LogContents::read_log(&dir.0)] {
        assert_eq!(seen.damages, []);
        assert_eq!(seen.ticks, (0..400).map(tick).collect::<Vec<_>>());
        for (index, (schema, row)) in pushed.iter().enumerate() {
            assert_eq!((&seen.schemas[index], &seen.rows[index]), (schema, row), "tick {index}");
        }
    }
    let bytes = std::fs::read(dir.0.join("00000001.dwlog")).expect("written");
    let (mut offset, mut blocks) = (0, 0);
    while offset < bytes.len() {
        blocks += usize::from(bytes[offset + 4] == 3);
        offset += 16 + u32::from_le_bytes([bytes[offset + 5], bytes[offset + 6], bytes[offset + 7], 0]) as usize;
    }
    assert_eq!(blocks, 2, "blocks of 100 ticks before the kill at 250");
    let mut reader = LogReader::open(&dir.0).expect("a log");
    reader.set_window(1055 * SECOND, 1120 * SECOND);
    assert_eq!(LogContents::read_from(&mut reader).ticks, (55..121).map(tick).collect::<Vec<_>>());
}

#[test]
fn a_clock_that_falls_is_stored_as_it_is_and_windows_still_work() {
    let dir = TempDir::new();
    let schema = schema(2);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    for i in (0..15).chain(5..30) {
        push_ticks(&mut writer, &schema, i..i + 1);
    }
    writer.close().expect("writable");
    let expected: Vec<u64> = (0..15).chain(5..30).collect();
    assert_eq!(LogContents::read_log(&dir.0).checked_numbers(), expected);
    let mut reader = LogReader::open(&dir.0).expect("a log");
    reader.set_window(1008 * SECOND, 1012 * SECOND);
    assert_eq!(LogContents::read_from(&mut reader).checked_numbers(), [8, 9, 10, 11, 12, 8, 9, 10, 11, 12]);
}

#[test]
fn recorders_one_after_the_other_make_one_log() {
    let dir = TempDir::new();
    let schema = schema(5);
    for run in 0..4 {
        let mut writer = LogWriter::create_or_append(&dir.0, options(6)).expect("a log");
        writer.add_note(&Note::new(tick(run * 10).time_ns, Note::WARNING, format!("run {run}"))).expect("writable");
        push_ticks(&mut writer, &schema, run * 10..run * 10 + 10);
        if run % 2 == 0 {
            writer.close().expect("writable");
        } else {
            // As after a kill: neither destructor nor block.
            std::mem::forget(writer);
            replace_lock_file(&dir);
        }
    }
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..40));
    assert_eq!(seen.note_texts(), ["run 0", "run 1", "run 2", "run 3"]);
    assert_eq!(seen.damages, []);
}

/// Removes the lock file. A forgotten writer keeps its lock as long as this process lives, while after
/// a real kill the lock would be free.
fn replace_lock_file(dir: &TempDir) {
    std::fs::remove_file(dir.0.join("lock")).expect("was locked");
}

#[test]
fn a_second_recorder_is_refused_with_the_first_ones_pid() {
    let dir = TempDir::new();
    let first = LogWriter::create_or_append(&dir.0, options(6)).expect("new log");
    match LogWriter::create_or_append(&dir.0, options(6)) {
        Err(StoreError::LockHeld { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(first);
    assert!(LogWriter::create_or_append(&dir.0, options(6)).is_ok());
}

#[test]
fn bookmarks_work_with_and_without_a_recorder() {
    let dir = TempDir::new();
    let schema = schema(1);
    assert!(add_bookmark(&dir.0, &Note::new(0, Note::BOOKMARK, "x")).is_err(), "no log here");
    let mut writer = LogWriter::create_or_append(&dir.0, options(6)).expect("new log");
    add_bookmark(&dir.0, &Note::new(999 * SECOND, Note::BOOKMARK, "before")).expect("a log");
    push_ticks(&mut writer, &schema, 0..8);
    add_bookmark(&dir.0, &Note::new(1003 * SECOND, Note::BOOKMARK, "during")).expect("a log");
    push_ticks(&mut writer, &schema, 8..10);
    writer.close().expect("writable");
    add_bookmark(&dir.0, &Note::new(2000 * SECOND, Note::BOOKMARK, "after")).expect("a log");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.note_texts(), ["before", "during", "after"]);
    assert_eq!((seen.checked_numbers(), seen.damages), (tick_numbers(0..10), vec![]));
}

#[test]
fn the_oldest_segments_are_deleted_by_age_and_by_size() {
    let by_age = WriterOptions { keep_age: Some(Duration::from_secs(100)), ..options(5) };
    let by_size = WriterOptions { keep_bytes: Some(40_000), ..options(5) };
    for (options, min_kept, max_kept) in [(by_age, 100, 125), (by_size, 50, 1500)] {
        let dir = TempDir::new();
        let schema = schema(30);
        let mut writer = LogWriter::create_or_append(&dir.0, options.clone()).expect("new log");
        writer.add_note(&Note::new(999 * SECOND, Note::TOPOLOGY, "{}")).expect("writable");
        push_ticks(&mut writer, &schema, 0..2000);
        writer.close().expect("writable");
        let seen = LogContents::read_log(&dir.0);
        let kept = seen.checked_numbers();
        assert_eq!(kept.last(), Some(&1999));
        assert!(kept.len() >= min_kept && kept.len() <= max_kept, "{} kept", kept.len());
        assert_eq!(kept, tick_numbers(2000 - kept.len() as u64..2000));
        assert_eq!(seen.note_texts(), ["{}"], "the machine is described although the log's start is gone");
        assert_eq!(seen.damages, []);
        if let Some(bytes) = options.keep_bytes {
            let entries = std::fs::read_dir(&dir.0).expect("a directory");
            let sizes = entries.map(|e| e.expect("an entry").metadata().expect("a file").len());
            let total: u64 = sizes.sum();
            assert!(total <= bytes + bytes / 8, "{total} bytes");
        }
    }
}

#[test]
fn anything_but_a_log_is_refused_and_not_changed() {
    let dir = TempDir::new();
    let file = dir.0.join("letter.txt");
    std::fs::write(&file, "Dear reader, this is no log at all.").expect("writable");
    let error = LogWriter::create_or_append(&dir.0, options(5)).expect_err("foreign").to_string();
    assert!(error.contains("letter.txt") && !error.contains('\n'), "{error}");
    assert_eq!(std::fs::read_dir(&dir.0).expect("a directory").count(), 1, "nothing was written");
    let error = LogReader::open(&file).expect_err("foreign").to_string();
    assert!(error.contains("letter.txt") && error.contains("at byte 0") && !error.contains('\n'), "{error}");
    assert!(!is_log(&dir.0) && !is_log(&file) && !is_log(&dir.0.join("absent")));
    std::fs::write(&file, "").expect("writable");
    assert!(LogReader::open(&file).expect_err("empty").to_string().contains("empty file"));
    assert!(find_log_device(&dir.0).is_ok());
}

#[test]
fn a_pipe_is_no_log_and_keeps_its_writer() {
    let dir = TempDir::new();
    let pipe = dir.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("coreutils");
    assert!(made.success());
    let to = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(to, "text"));
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        assert!(!is_log(&pipe));
    }
    assert!(!writer.is_finished(), "the pipe was opened, and closed unread");
    assert_eq!(std::fs::read_to_string(&pipe).expect("readable"), "text");
    assert!(writer.join().expect("no panic").is_ok());
}

#[test]
fn a_log_of_a_later_version_is_refused_by_name() {
    let dir = TempDir::new();
    let mut writer = LogWriter::create_or_append(&dir.0, options(5)).expect("new log");
    push_ticks(&mut writer, &schema(1), 0..5);
    writer.close().expect("writable");
    let path = dir.0.join("00000001.dwlog");
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes[31] = 2;
    let crc = crc32fast::hash(&bytes[16..16 + 38]).to_le_bytes();
    bytes[8..12].copy_from_slice(&crc);
    let crc = crc32fast::hash(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&crc);
    std::fs::write(&path, bytes).expect("writable");
    let error = LogReader::open(&path).expect_err("newer").to_string();
    assert!(error.contains("log version 2") && error.contains("reads up to 1"), "{error}");
}

#[test]
fn times_are_rounded_to_the_unit_asked_for() {
    let dir = TempDir::new();
    let mut writer =
        LogWriter::create_or_append(&dir.0, WriterOptions { time_unit_ns: 1000, ..options(5) }).expect("new log");
    let given = [(-1_501, 0), (1_499, 1), (7_500, 2_999_999_501), (i64::MAX, u64::MAX)];
    let kept = [(-2_000, 0), (1_000, 1_000), (8_000, 3_000_000_000), (i64::MAX, u64::MAX)];
    for (time_ns, elapsed_ns) in given {
        writer.push(&schema(1), Tick { time_ns, elapsed_ns }, &[0.0]).expect("writable");
    }
    drop(writer);
    let seen: Vec<_> = LogContents::read_log(&dir.0).ticks.iter().map(|t| (t.time_ns, t.elapsed_ns)).collect();
    assert_eq!(seen, kept);
}

/// Windows end at the last tick's time.
#[test]
fn a_note_of_the_last_tick_is_not_behind_the_end_of_the_log() {
    let dir = TempDir::new();
    let options = WriterOptions { time_unit_ns: 1000, ..options(5) };
    let mut writer = LogWriter::create_or_append(&dir.0, options).expect("new log");
    writer.push(&schema(1), Tick { time_ns: 5_000_268, elapsed_ns: 0 }, &[0.0]).expect("writable");
    writer.add_note(&Note::new(5_000_268, Note::ALERT, "{}")).expect("writable");
    writer.close().expect("writable");
    let reader = LogReader::open(&dir.0).expect("readable");
    let (_, end) = reader.time_range().expect("readable").expect("a tick");
    assert_eq!(LogContents::read_log(&dir.0).notes.iter().map(|note| note.time_ns).collect::<Vec<_>>(), [end]);
}

#[test]
fn a_tick_is_safe_once_push_returns() {
    let dir = TempDir::new();
    let schema = schema(4);
    let mut writer = LogWriter::create_or_append(&dir.0, options(100)).expect("new log");
    push_ticks(&mut writer, &schema, 0..3);
    let odd = Tick { time_ns: i64::MAX, elapsed_ns: u64::MAX };
    writer.push(&schema, odd, &row(3, 4)).expect("writable");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!((seen.ticks.len(), seen.ticks[3]), (4, odd));
}

/// The clock is set back within a block, at its end, and to before the first tick.
#[test]
fn a_follower_gets_every_tick_and_note_once_whatever_the_clock_does() {
    let dir = TempDir::new();
    let schema = schema(2);
    let options = WriterOptions { segment_span: Duration::from_secs(20), ..options(10) };
    let mut writer = LogWriter::create_or_append(&dir.0, options).expect("new log");
    let clock: Vec<u64> = (100..115).chain(105..120).chain(0..30).chain(200..203).collect();
    let (mut position, mut end) = (LogPosition::default(), LogEnd::default());
    let (mut found, mut texts, mut expected_texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut follow = |position: &mut LogPosition| {
        let mut reader = LogReader::open(&dir.0).expect("a log");
        end = reader.log_end(end).expect("readable");
        reader.resume_from(*position);
        let seen = LogContents::read_from(&mut reader);
        assert_eq!(seen.damages, []);
        found.extend(seen.checked_numbers());
        texts.extend(seen.notes.into_iter().map(|note| note.into_text()));
        *position = reader.position();
        end
    };
    for (number, i) in clock.iter().copied().enumerate() {
        if number % 4 == 0 {
            let text = format!("note {number:02}");
            writer.add_note(&Note::new(tick(i).time_ns, Note::WARNING, text.clone())).expect("writable");
            expected_texts.push(text);
        }
        push_ticks(&mut writer, &schema, i..i + 1);
        if number % 3 == 0 {
            let end = follow(&mut position);
            assert_eq!(end, LogEnd { next_tick: number as u64 + 1, time_ns: Some(tick(i).time_ns) });
            assert_eq!(position.tick, end.next_tick);
        }
    }
    writer.close().expect("writable");
    let last = follow(&mut position);
    assert_eq!(last, LogEnd { next_tick: clock.len() as u64, time_ns: Some(tick(202).time_ns) });
    assert_eq!(follow(&mut position), last, "nothing more");
    assert_eq!(found, clock);
    // notes of one reading are in order of time
    texts.sort();
    assert_eq!(texts, expected_texts);
}

#[test]
fn ticks_before_a_number_are_passed_over_in_a_window_too() {
    let dir = TempDir::new();
    let schema = schema(2);
    let mut writer = LogWriter::create_or_append(&dir.0, options(10)).expect("new log");
    for i in (0..15).chain(5..30) {
        push_ticks(&mut writer, &schema, i..i + 1);
    }
    let seen = || {
        let mut reader = LogReader::open(&dir.0).expect("a log");
        reader.set_window(1008 * SECOND, 1012 * SECOND);
        reader.start_at_tick(19);
        LogContents::read_from(&mut reader).checked_numbers()
    };
    assert_eq!(seen(), [9, 10, 11, 12]);
    writer.close().expect("writable");
    assert_eq!(seen(), [9, 10, 11, 12]);
}
